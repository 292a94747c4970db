"""Fill tensors with initial values, by PyTorch's formulas. Each function changes its tensor and returns it."""

import functools
import math
import warnings

from gt import _help
from gt import Tensor, _gt, no_grad
from gt.client.random import drawing


_CONVOLUTIONS = ('conv1d', 'conv2d', 'conv3d', 'conv_transpose1d', 'conv_transpose2d', 'conv_transpose3d')


def calculate_gain(nonlinearity, param=None):
    """The recommended scale of weights before a nonlinearity."""
    gains = {'tanh': 5 / 3, 'relu': math.sqrt(2), 'selu': 3 / 4}
    if nonlinearity == 'leaky_relu':
        if param is not None and (isinstance(param, bool) or not isinstance(param, (int, float))):
            raise ValueError(f'negative_slope {param} not a valid number')
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity in gains:
        return gains[nonlinearity]
    if nonlinearity in ('linear', 'sigmoid', *_CONVOLUTIONS):
        return 1
    raise ValueError(f'Unsupported nonlinearity {nonlinearity}')


def _fans(tensor):
    """How many inputs and outputs a weight (outputs, inputs, ...) has."""
    if tensor.ndim < 2:
        raise ValueError('Fan in and fan out can not be computed for tensor with fewer than 2 dimensions')
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


_calculate_fan_in_and_fan_out = _fans  # PyTorch's name, which scripts use


def _fan(tensor, mode):
    modes = ['fan_in', 'fan_out']
    if mode.lower() not in modes:
        raise ValueError(f'Mode {mode} not supported, please use one of {modes}')
    return _fans(tensor)[modes.index(mode.lower())]


@no_grad()
def constant_(tensor, val):
    """The same value everywhere."""
    return tensor._become(_gt.full_like(tensor, val))


def zeros_(tensor):
    """Zeros."""
    return constant_(tensor, 0.0)


def ones_(tensor):
    """Ones."""
    return constant_(tensor, 1.0)


@no_grad()
def eye_(tensor):
    """The unit matrix."""
    if tensor.ndim != 2:
        raise ValueError('Only tensors with 2 dimensions are supported')
    return tensor._become(_gt.eye(*tensor.shape, dtype=tensor.dtype))


@no_grad()
def uniform_(tensor, a=0.0, b=1.0, generator=None):
    """Uniformly distributed numbers between a and b."""
    return Tensor.uniform_(tensor, a, b, generator=generator)


@no_grad()
def normal_(tensor, mean=0.0, std=1.0, generator=None):
    """Normally distributed numbers."""
    return Tensor.normal_(tensor, mean, std, generator=generator)


def _erfinv(x):
    """The inverse of erf for float64: an approximation (Winitzki's), improved by Newton's method."""
    a, log = 0.147, (1.0 - x.square()).log()
    first = log * 0.5 + 2 / (math.pi * a)
    y = x.sign() * ((first.square() - log / a).sqrt() - first).sqrt()
    for _ in range(3):
        y = y - (y.erf() - x) * (y.square().exp() * (math.sqrt(math.pi) / 2))
    return y


@no_grad()
def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """Normally distributed numbers, truncated to [a, b]."""
    low, high = (math.erf((bound - mean) / std / math.sqrt(2)) for bound in (a, b))
    with drawing(generator):
        places = _gt.rand_like(tensor, dtype=_gt.float64) * (high - low) + low
    normal = _erfinv(places.clamp(-1 + 1e-15, 1 - 1e-15)) * (std * math.sqrt(2)) + mean
    return tensor._become(normal.clamp(a, b).to(tensor.dtype))


def _is_empty(tensor):
    """Whether there is nothing to fill, with PyTorch's warning."""
    if 0 in tensor.shape:
        warnings.warn('Initializing zero-element tensors is a no-op', stacklevel=3)
        return True
    return False


@no_grad()
def dirac_(tensor, groups=1):
    """Convolution weights (outputs, inputs, ...) that keep their inputs: a 1 in the middle of each channel's own window."""
    if tensor.ndim not in (3, 4, 5):
        raise ValueError('Only tensors with 3, 4, or 5 dimensions are supported')
    if tensor.shape[0] % groups:
        raise ValueError('dim 0 must be divisible by groups')
    outputs = tensor.shape[0] // groups
    value = _gt.zeros_like(tensor)
    for group in range(groups):
        for channel in range(min(outputs, tensor.shape[1])):
            value[(group * outputs + channel, channel, *(size // 2 for size in tensor.shape[2:]))] = 1.0
    return tensor._become(value)


@no_grad()
def sparse_(tensor, sparsity, std=0.01, generator=None):
    """Normally distributed numbers, of which a part of each column is zero."""
    if tensor.ndim != 2:
        raise ValueError('Only tensors with 2 dimensions are supported')
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    normal_(tensor, 0.0, std, generator)
    with drawing(generator):
        order = _gt.rand(rows, columns).argsort(0)
    return tensor._become(tensor.scatter(0, order[:zeros], 0.0))


def xavier_uniform_(tensor, gain=1.0, generator=None):
    """Uniform, with variance gain² * 2 / (inputs + outputs)."""
    bound = gain * math.sqrt(6 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor, gain=1.0, generator=None):
    """Normal, with variance gain² * 2 / (inputs + outputs)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(_fans(tensor))), generator)


def kaiming_uniform_(tensor, a=0, mode='fan_in', nonlinearity='leaky_relu', generator=None):
    """Uniform, with variance gain² / inputs."""
    if _is_empty(tensor):
        return tensor
    bound = calculate_gain(nonlinearity, a) * math.sqrt(3 / _fan(tensor, mode))
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor, a=0, mode='fan_in', nonlinearity='leaky_relu', generator=None):
    """Normal, with variance gain² / inputs."""
    if _is_empty(tensor):
        return tensor
    return normal_(tensor, 0.0, calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode)), generator)


@no_grad()
def orthogonal_(tensor, gain=1, generator=None):
    """Orthogonal rows if there are fewer rows than columns, else orthogonal columns. Computed by NumPy in this process."""
    import numpy
    if tensor.ndim < 2:
        raise ValueError('Only tensors with 2 or more dimensions are supported')
    rows = tensor.shape[0]
    with drawing(generator):
        square = _gt.randn(rows, tensor.numel() // rows, dtype=_gt.float64).numpy()
    wide = square.shape[0] < square.shape[1]
    q, r = numpy.linalg.qr(square.T if wide else square)
    q = q * numpy.sign(numpy.diag(r)) * gain
    return tensor._become(_gt.tensor((q.T if wide else q).reshape(tensor.shape), dtype=tensor.dtype))


def _old(function):
    """A function under its name without the underscore."""
    name = function.__name__[:-1]

    @functools.wraps(function)
    def old(*args, **kwargs):
        warnings.warn(f'`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`.', FutureWarning, stacklevel=2)
        return function(*args, **kwargs)
    old.__name__ = old.__qualname__ = name
    return old


uniform, normal, constant, eye, dirac, sparse, orthogonal = map(
    _old, (uniform_, normal_, constant_, eye_, dirac_, sparse_, orthogonal_))
xavier_uniform, xavier_normal, kaiming_uniform, kaiming_normal = map(
    _old, (xavier_uniform_, xavier_normal_, kaiming_uniform_, kaiming_normal_))

__dir__ = _help.publish(__name__)
