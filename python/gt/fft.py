"""Fourier transforms, with PyTorch's names, arguments and normalisations.

    >>> gt.fft.rfft(gt.ones(4))
    tensor([4.+0.j, 0.+0.j, 0.+0.j])

One row of the op table (fft) computes all of them, over any set of dimensions at once.
"""

import math

from gt import _gt, _help
from gt.client.outputs import published_all as _published_all
from gt.client.registry import axis_of

_NORMS = ('forward', 'backward', 'ortho')


def _scale(norm, inverse, count):
    """The factor of the results: 1/n on one of the two directions, or 1/sqrt(n) on both."""
    norm = 'backward' if norm is None else norm
    if norm not in _NORMS:
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    if norm == 'ortho':
        return 1 / math.sqrt(count)
    return 1 / count if (norm == 'forward') != inverse else 1.0


def _floating(input):
    """Integers become float32; transforms of half precision are not offered, as on PyTorch's CPU."""
    if input.dtype in (_gt.float16, _gt.bfloat16):
        raise RuntimeError(f'Unsupported dtype {input.dtype}')
    return input if input.is_floating_point() or input.is_complex() else input.to(_gt.float32)


def _as_complex(input):
    input = _floating(input)
    return input if input.is_complex() else input.to(input.dtype.to_complex())


def _as_real(input, name):
    if input.is_complex():
        raise RuntimeError(f'{name} expects a real input tensor, but got {input.dtype}')
    return _floating(input)


def _resized(input, dim, size):
    """Cut, or padded with zeros, to `size` along a dimension."""
    if size < 1:
        raise RuntimeError(f'Invalid number of data points ({size}) specified')
    have = input.shape[dim]
    if have > size:
        return input.narrow(dim, 0, size)
    if have == size:
        return input
    missing = list(input.shape)
    missing[dim] = size - have
    return _gt.cat([input, _gt.zeros(missing, dtype=input.dtype)], dim)


def _one(input, dim):
    if input.ndim == 0:
        raise IndexError('Dimension specified as -1 but tensor has no dimensions')
    return axis_of(input, dim)


def _dims(input, s, dim, default):
    """Sizes (None: as they are) and dimensions of a transform of several."""
    if dim is not None:
        dims = [dim] if hasattr(dim, '__index__') else list(dim)
    elif s is not None:
        count = 1 if hasattr(s, '__index__') else len(s)
        if count > input.ndim:
            raise RuntimeError(f'Got shape with {count} values but input tensor only has {input.ndim} dimensions.')
        dims = list(range(input.ndim - count, input.ndim))
    else:
        dims = list(range(input.ndim)) if default is None else list(default)
    dims = [axis_of(input, d) for d in dims]
    if len(set(dims)) != len(dims):
        raise RuntimeError('FFT dims must be unique')
    sizes = [None] * len(dims) if s is None else [s] if hasattr(s, '__index__') else list(s)
    if len(sizes) != len(dims):
        raise RuntimeError('When given, dim and shape arguments must have the same length')
    return [None if n is None or n == -1 else n for n in sizes], dims


def _complex(input, sizes, dims, norm, inverse):
    input = _as_complex(input)
    for size, dim in zip(sizes, dims):
        if size is not None or input.shape[dim] < 1:
            input = _resized(input, dim, input.shape[dim] if size is None else size)
    if not dims:
        return input.clone()
    count = math.prod(input.shape[d] for d in dims)
    return _gt._fft(input, 'c', dims, inverse, _scale(norm, inverse, count))


def _halved(input, sizes, dims, norm, inverse, name):
    """Real to half complex; the direction is that of the exponent, the factor that of `inverse`."""
    if not dims:
        raise RuntimeError(f'{name} must transform at least one axis')
    input = _as_real(input, name)
    for size, dim in zip(sizes, dims):
        if size is not None or input.shape[dim] < 1:
            input = _resized(input, dim, input.shape[dim] if size is None else size)
    count = math.prod(input.shape[d] for d in dims)
    return _gt._fft(input, 'r', dims, inverse, _scale(norm, inverse, count))


def _whole(input, sizes, dims, norm, inverse, name):
    """Half complex to real."""
    if not dims:
        raise RuntimeError(f'{name} must transform at least one axis')
    input = _as_complex(input)
    last = dims[-1]
    size = 2 * (input.shape[last] - 1) if sizes[-1] is None else sizes[-1]
    if size < 1:
        raise RuntimeError(f'Invalid number of data points ({size}) specified')
    for n, dim in zip(sizes[:-1], dims[:-1]):
        if n is not None:
            input = _resized(input, dim, n)
    input = _resized(input, last, size // 2 + 1)
    count = size * math.prod(input.shape[d] for d in dims[:-1])
    return _gt._fft(input, 'o' if size % 2 else 'h', dims, inverse, _scale(norm, inverse, count))


# ---- one dimension -------------------------------------------------------------------------------------------


def fft(input, n=None, dim=-1, norm=None):
    """fft(input, n=None, dim=-1, norm=None): the discrete Fourier transform along a dimension, cut or padded to n."""
    return _complex(input, [n], [_one(input, dim)], norm, False)


def ifft(input, n=None, dim=-1, norm=None):
    """ifft(input, n=None, dim=-1, norm=None): the inverse of fft."""
    return _complex(input, [n], [_one(input, dim)], norm, True)


def rfft(input, n=None, dim=-1, norm=None):
    """rfft(input, n=None, dim=-1, norm=None): fft of real numbers; only the n // 2 + 1 first results."""
    return _halved(input, [n], [_one(input, dim)], norm, False, 'rfft')


def irfft(input, n=None, dim=-1, norm=None):
    """irfft(input, n=None, dim=-1, norm=None): the inverse of rfft; n is even if it is not given."""
    return _whole(input, [n], [_one(input, dim)], norm, True, 'irfft')


def hfft(input, n=None, dim=-1, norm=None):
    """hfft(input, n=None, dim=-1, norm=None): fft of a half of numbers with conjugate symmetry: real."""
    return _whole(input, [n], [_one(input, dim)], norm, False, 'hfft')


def ihfft(input, n=None, dim=-1, norm=None):
    """ihfft(input, n=None, dim=-1, norm=None): the inverse of hfft."""
    return _halved(input, [n], [_one(input, dim)], norm, True, 'ihfft')


# ---- several -------------------------------------------------------------------------------------------------


def fftn(input, s=None, dim=None, norm=None):
    """fftn(input, s=None, dim=None, norm=None): fft over several dimensions; s are their sizes."""
    return _complex(input, *_dims(input, s, dim, None), norm, False)


def ifftn(input, s=None, dim=None, norm=None):
    """ifftn(input, s=None, dim=None, norm=None): the inverse of fftn."""
    return _complex(input, *_dims(input, s, dim, None), norm, True)


def rfftn(input, s=None, dim=None, norm=None):
    """rfftn(input, s=None, dim=None, norm=None): fftn of real numbers; the last dimension is halved."""
    return _halved(input, *_dims(input, s, dim, None), norm, False, 'rfftn')


def irfftn(input, s=None, dim=None, norm=None):
    """irfftn(input, s=None, dim=None, norm=None): the inverse of rfftn."""
    return _whole(input, *_dims(input, s, dim, None), norm, True, 'irfftn')


def hfftn(input, s=None, dim=None, norm=None):
    """hfftn(input, s=None, dim=None, norm=None): hfft along the last dimension, fft along the others."""
    return _whole(input, *_dims(input, s, dim, None), norm, False, 'hfftn')


def ihfftn(input, s=None, dim=None, norm=None):
    """ihfftn(input, s=None, dim=None, norm=None): the inverse of hfftn."""
    return _halved(input, *_dims(input, s, dim, None), norm, True, 'ihfftn')


def _plane(function, name, what):
    def transform(input, s=None, dim=(-2, -1), norm=None):
        return function(input, s, dim, norm)
    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = f'{name}(input, s=None, dim=(-2, -1), norm=None): {what} of two dimensions.'
    return transform


fft2, ifft2 = _plane(fftn, 'fft2', 'fftn'), _plane(ifftn, 'ifft2', 'ifftn')
rfft2, irfft2 = _plane(rfftn, 'rfft2', 'rfftn'), _plane(irfftn, 'irfft2', 'irfftn')
hfft2, ihfft2 = _plane(hfftn, 'hfft2', 'hfftn'), _plane(ihfftn, 'ihfft2', 'ihfftn')


# ---- frequencies ---------------------------------------------------------------------------------------------


def fftfreq(n, d=1.0, *, dtype=None, device=None, requires_grad=False):
    """fftfreq(n, d=1.0): the frequencies of fft's results, for samples that are d apart."""
    numbers = list(range((n + 1) // 2)) + list(range(-(n // 2), 0))
    result = _gt.tensor(numbers, dtype=dtype or _gt.float32) * (1.0 / (n * d))
    return result.requires_grad_() if requires_grad else result


def rfftfreq(n, d=1.0, *, dtype=None, device=None, requires_grad=False):
    """rfftfreq(n, d=1.0): the frequencies of rfft's results."""
    result = _gt.arange(n // 2 + 1, dtype=dtype or _gt.float32) * (1.0 / (n * d))
    return result.requires_grad_() if requires_grad else result


def _shifted(input, dim, direction):
    dims = list(range(input.ndim)) if dim is None else [dim] if hasattr(dim, '__index__') else list(dim)
    return input.roll([input.shape[d] // 2 * direction for d in dims], dims) if dims else input


def fftshift(input, dim=None):
    """fftshift(input, dim=None): frequency 0 moved to the middle."""
    return _shifted(input, dim, 1)


def ifftshift(input, dim=None):
    """ifftshift(input, dim=None): the inverse of fftshift."""
    return _shifted(input, dim, -1)


# They take out=, as in PyTorch.
globals().update(_published_all({name: function for name, function in list(globals().items())
                                 if not name.startswith('_') and getattr(function, '__module__', None) == __name__},
                                'gt.fft'))

__dir__ = _help.publish(__name__)
