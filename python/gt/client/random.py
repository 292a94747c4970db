"""Random numbers: permutations, draws with given probabilities, in-place fills, and the generator's state.

Every number is a function of the seed, of the number of random tensors before it, and of its position (Philox). So it
is the same on any number of workers and threads. A Generator has its own seed and count.
"""

import contextlib
import math
import os

from gt import _gt
from gt._gt import Tensor
from gt.client.device import device as _device
from gt.client.dtypes import finfo
from gt.client.registry import function, method

# ---- the state -----------------------------------------------------------------------------------------------


@function
def initial_seed():
    """initial_seed(): the current seed."""
    return _gt._random_state()[0]


@function
def seed():
    """seed(): choose a random seed, set it and return it."""
    chosen = int.from_bytes(os.urandom(8), 'little')
    _gt.manual_seed(chosen)
    return chosen


def _as_bytes(state):
    return _gt._rebuild(b''.join(number.to_bytes(8, 'little') for number in state), _gt.uint8, (16,), False)


def _from_bytes(state):
    content = bytes(state.tolist())
    if len(content) != 16:
        raise RuntimeError(f'RNG state has {len(content)} bytes, not 16')
    return int.from_bytes(content[:8], 'little'), int.from_bytes(content[8:], 'little')


@function
def get_rng_state():
    """get_rng_state(): the state of the generator, a uint8 tensor."""
    return _as_bytes(_gt._random_state())


@function
def set_rng_state(new_state):
    """set_rng_state(new_state): restore a state from get_rng_state()."""
    _gt._set_random_state(*_from_bytes(new_state))


@function
class Generator:
    """An independent source of random numbers: pass it as generator=."""

    def __init__(self, device=None):
        self.device = _device('cpu' if device is None else device)
        self._state = (67280421310721, 0)

    def manual_seed(self, seed):
        """Start again from a seed."""
        self._state = (seed & (1 << 64) - 1, 0)
        return self

    def initial_seed(self):
        """The seed."""
        return self._state[0]

    def seed(self):
        """Choose a random seed, set it and return it."""
        return self.manual_seed(int.from_bytes(os.urandom(8), 'little')).initial_seed()

    def get_state(self):
        """The state, a uint8 tensor."""
        return _as_bytes(self._state)

    def set_state(self, new_state):
        """Restore a state from get_state()."""
        self._state = _from_bytes(new_state)
        return self


class _DefaultGenerator(Generator):
    """The source of random numbers that is used where none is given; its state is that of the package."""

    def __init__(self):
        self.device = _device('cpu')

    @property
    def _state(self):
        return _gt._random_state()

    @_state.setter
    def _state(self, state):
        _gt._set_random_state(*state)


_default = _DefaultGenerator()


def manual_seed(seed):
    """manual_seed(seed): start the random numbers again from a seed; returns the generator that gives them.

    >>> generator = gt.manual_seed(0)
    """
    _gt.manual_seed(seed)
    return _default


@contextlib.contextmanager
def drawing(generator):
    """A context in which random numbers come from the generator; None, or the default one, changes nothing."""
    if generator is None or generator is _default:
        yield
        return
    ours = _gt._random_state()
    _gt._set_random_state(*generator._state)
    try:
        yield
    finally:
        generator._state = _gt._random_state()
        _gt._set_random_state(*ours)


# ---- new tensors ---------------------------------------------------------------------------------------------


@function
def randperm(n, *, generator=None, dtype=None, requires_grad=False, device=None, layout=None, pin_memory=False):
    """randperm(n): the numbers 0 .. n-1 in random order."""
    if dtype is not None and (dtype == _gt.bool or dtype.is_complex):
        raise NotImplementedError(f'"randperm" not implemented for \'{dtype._kind}\'')
    with drawing(generator):
        return _gt.randperm(n, dtype=dtype, requires_grad=requires_grad, device=device)


def _probability(p):
    if not 0 <= p <= 1:
        raise RuntimeError(f'bernoulli_ expects p to be in [0, 1], but got p={p}')


@method
def bernoulli(self, p=None, *, generator=None):
    """bernoulli(): 1 with probability self, elementwise, else 0; bernoulli(p): with probability p everywhere."""
    with drawing(generator):
        if p is None:
            return _gt.bernoulli(self)
        if isinstance(p, Tensor):
            return _gt.bernoulli(p.expand(self.shape)).to(self.dtype)
        _probability(p)
        return (_gt.rand(self.shape) < p).to(self.dtype)


@method
def multinomial(self, num_samples, replacement=False, *, generator=None):
    """multinomial(num_samples, replacement=False): positions drawn with the given weights, for each row."""
    with drawing(generator):
        return _gt.multinomial(self, num_samples, replacement)


@function
def poisson(input, generator=None):
    """poisson(input): a number of the Poisson distribution for each rate.

    >>> gt.poisson(gt.tensor([0.5, 20.0]))
    tensor([ 1., 17.])
    """
    with drawing(generator):
        return _gt.poisson(input)


@function
def binomial(count, prob, generator=None):
    """binomial(count, prob): how many of count trials succeed, each with probability prob; the two broadcast.

    >>> gt.binomial(gt.tensor([10.0]), gt.tensor([0.5]))
    tensor([4.])
    """
    if count.dtype != prob.dtype:
        raise RuntimeError(f'Found dtype {prob.dtype} but expected {count.dtype}')
    shape = (count.detach() + prob.detach()).shape
    with drawing(generator):
        both = _gt.stack([count.expand(shape).reshape(-1), prob.expand(shape).reshape(-1)])
        return _gt.binomial(both).reshape(shape)


@function
def _standard_gamma(input, generator=None):
    """_standard_gamma(input): a number of the gamma distribution with scale 1 for each shape; it has a gradient."""
    with drawing(generator):
        return _gt.standard_gamma(input)


@function
def _sample_dirichlet(input, generator=None):
    """_sample_dirichlet(input): numbers of the Dirichlet distribution along the last dimension; they have a gradient."""
    with drawing(generator):
        return _gt.dirichlet(input)


@function
def _standard_gamma_grad(input, output):
    """_standard_gamma_grad(input, output): the derivative of _standard_gamma's result by its shape."""
    return input.standard_gamma_grad(output)


@function
def _dirichlet_grad(x, alpha, total):
    """_dirichlet_grad(x, alpha, total): the derivative of a component x by its concentration alpha of total, over 1 - x."""
    return x.dirichlet_grad(alpha, total)


@function
def normal(mean=0.0, std=1.0, size=None, *, generator=None, dtype=None, layout=None, device=None,
           pin_memory=False, requires_grad=False):
    """normal(mean, std) of tensors, or normal(mean, std, size): normally distributed numbers."""
    if not isinstance(std, Tensor) and std < 0:
        raise RuntimeError(f'normal expects std >= 0.0, but found std {std}')
    if size is None:
        like = mean + std
        size, dtype = like.shape, dtype or like.dtype
    with drawing(generator):
        result = _gt.randn(size, dtype=dtype) * std + mean
    return result.requires_grad_() if requires_grad else result


# ---- in place: the object gets a new value -------------------------------------------------------------------


def _uniform(self, generator):
    """Uniform in [0, 1), at least in float32: half precision is rounded at the end."""
    wide = _gt.float64 if self.dtype == _gt.float64 else _gt.float32
    with drawing(generator):
        return _gt.rand(self.shape, dtype=wide)


def _floating(self, name):
    if not self.is_floating_point() and not (self.is_complex() and name in ('normal_', 'uniform_')):
        raise NotImplementedError(f'"{name}" not implemented for {self.dtype}')


def _fill_parts(self, fill):
    """Fill the real and the imaginary parts, each in its own right."""
    parts = _gt._as_real(self.detach()).clone()
    fill(parts)
    return self._become(_gt._as_complex(parts))


def _take(self, value):
    return self._become(value.to(self.dtype))


@method
def normal_(self, mean=0, std=1, *, generator=None):
    """normal_(mean=0, std=1): fill with normally distributed numbers."""
    _floating(self, 'normal_')
    if std < 0:
        raise RuntimeError(f'normal expects std >= 0.0, but found std {std}')
    if self.is_complex():  # std is that of the complex number
        return _fill_parts(self, lambda parts: parts.normal_(mean, std / 2 ** 0.5, generator=generator))
    with drawing(generator):
        return _take(self, _gt.randn_like(self) * std + mean)


def _check_bounds(self, low, high):
    """uniform_() must be able to hold its bounds and their distance."""
    most = finfo(self.dtype).max
    for label, bound in (('from', low), ('to', high)):
        if not -most <= bound <= most:
            raise RuntimeError(f'{label} is out of bounds for {_C_NAMES.get(self.dtype, self.dtype._kind.lower())}')
    if high - low > most:
        raise RuntimeError(f'uniform_ expects to-from <= std::numeric_limits<{self.dtype._kind}>::max(), but found to={high:g} '
                           f'and from={low:g} which result in to-from to exceed the limit')


@method
def uniform_(self, low=0, high=1, *, generator=None, **bounds):
    """uniform_(low=0, high=1): fill with numbers uniform in [low, high); PyTorch's names are from and to."""
    low, high = bounds.pop('from', low), bounds.pop('to', high)
    if bounds:
        raise TypeError(f"uniform_() got an unexpected keyword argument '{next(iter(bounds))}'")
    _floating(self, 'uniform_')
    if low > high:
        raise RuntimeError(f'uniform_ expects to return a [from, to) range, but found from={low} > to={high}')
    if self.is_complex():
        return _fill_parts(self, lambda parts: parts.uniform_(low, high, generator=generator))
    _check_bounds(self, low, high)
    return _take(self, _uniform(self, generator) * (high - low) + low)


# The exclusive end of random_(): the dtype has all integers below it.
_INTEGER_ENDS = {_gt.bool: 2, _gt.uint8: 1 << 8, _gt.int8: 1 << 7, _gt.int16: 1 << 15, _gt.int32: 1 << 31,
                 _gt.int64: (1 << 63) - 1,
                 _gt.float16: (1 << 11) + 1, _gt.bfloat16: (1 << 8) + 1, _gt.float32: (1 << 24) + 1,
                 _gt.float64: (1 << 53) + 1}


_C_NAMES = {_gt.bool: 'bool', _gt.uint8: 'unsigned char', _gt.int8: 'signed char', _gt.int16: 'short int',
            _gt.int32: 'int', _gt.int64: 'long int', _gt.float16: 'c10::Half', _gt.bfloat16: 'c10::BFloat16'}


def _check_range(self, low, high):
    """random_() must be able to hold what it draws."""
    if self.dtype == _gt.float16:
        least, most = -65504, 65504
    elif self.dtype == _gt.bool:
        least, most = 0, 1
    elif self.dtype in _C_NAMES and self.dtype != _gt.bfloat16:
        bits = 8 * self.dtype.itemsize
        least, most = (0, 255) if self.dtype == _gt.uint8 else (-(1 << bits - 1), (1 << bits - 1) - 1)
    else:
        return
    for what, bound in (('from', low), ('to - 1', high - 1)):
        if not least <= bound <= most:
            raise RuntimeError(f'{what} is out of bounds for {_C_NAMES[self.dtype]}')


@method
def random_(self, low=None, high=None, *, generator=None):
    """random_(): integers from 0 to the dtype's largest; random_(to): in [0, to); random_(from, to): in [from, to)."""
    if high is None:
        low, high = 0, _INTEGER_ENDS[self.dtype] if low is None else low
    _check_range(self, low, high)
    with drawing(generator):
        return _take(self, _gt.randint(low, high, self.shape))


@method
def bernoulli_(self, p=0.5, *, generator=None):
    """bernoulli_(p=0.5): fill with 1 with probability p (a number or a tensor), else 0."""
    return _take(self, self.bernoulli(p, generator=generator))


@method
def exponential_(self, lambd=1, *, generator=None):
    """exponential_(lambd=1): fill with numbers whose density is lambd * exp(-lambd * x)."""
    _floating(self, 'exponential_')
    if not lambd > 0:
        raise RuntimeError(f'exponential_ expects lambda > 0.0, but found lambda={lambd}')
    return _take(self, (-_uniform(self, generator)).log1p() * (-1 / lambd))


@method
def geometric_(self, p, *, generator=None):
    """geometric_(p): fill with the number of trials up to the first success, of probability p."""
    if not 0 < p < 1:
        raise RuntimeError(f'geometric_ expects p to be in (0, 1), but got p={p}')
    return _take(self, ((-_uniform(self, generator)).log1p() * (1 / math.log1p(-p))).ceil().clamp(1))


@method
def log_normal_(self, mean=1, std=2, *, generator=None):
    """log_normal_(mean=1, std=2): fill with exponentials of normally distributed numbers."""
    if std <= 0:
        raise RuntimeError(f'log_normal_ expects std > 0.0, but found std={std}')
    self.normal_(mean, std, generator=generator)
    return _take(self, self.data.exp())


@method
def cauchy_(self, median=0, sigma=1, *, generator=None):
    """cauchy_(median=0, sigma=1): fill with numbers of the Cauchy distribution."""
    _floating(self, 'cauchy_')
    if sigma <= 0:
        raise RuntimeError(f'cauchy_ expects sigma > 0.0, but found sigma={sigma}')
    angle = (_uniform(self, generator) - 0.5) * math.pi
    return _take(self, angle.sin() / angle.cos() * sigma + median)
