"""Window functions: gt.signal.windows, and gt.hann_window and the like by PyTorch's older names.

>>> gt.signal.windows.hann(4, sym=False)
tensor([0.0000, 0.5000, 1.0000, 0.5000])
"""

import math

from gt import _gt
from gt.client.registry import function as _function

__all__ = ['bartlett', 'blackman', 'cosine', 'exponential', 'gaussian', 'general_cosine', 'general_hamming', 'hamming', 'hann',
           'kaiser', 'nuttall']


def _checked(name, M, dtype):
    if M < 0:
        raise ValueError(f'{name} requires non-negative window length, got M={M}')
    dtype = dtype or _gt.float32
    if dtype not in (_gt.float32, _gt.float64):
        raise ValueError(f'{name} expects float32 or float64 dtypes, got: {dtype}')
    return dtype


def _made(values, dtype, requires_grad):
    made = values.to(dtype)
    return made.requires_grad_() if requires_grad else made


def _trivial(M, dtype, requires_grad):
    made = _gt.ones(M, dtype=dtype)
    return made.requires_grad_() if requires_grad else made


def exponential(M, *, center=None, tau=1.0, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """exponential(M, center=None, tau=1.0, sym=True): exp(-|n - center| / tau)."""
    dtype = _checked('exponential', M, dtype)
    if tau <= 0:
        raise ValueError(f'Tau must be positive, got: {tau} instead.')
    if sym and center is not None:
        raise ValueError('Center must be None for symmetric windows')
    if M == 0:
        return _trivial(M, dtype, requires_grad)
    center = (M if not sym and M > 1 else M - 1) / 2.0 if center is None else center
    n = _gt.arange(M, dtype=_gt.float64) - center
    return _made((-(n.abs()) / tau).exp(), dtype, requires_grad)


def cosine(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """cosine(M, sym=True): sin(pi * (n + 1/2) / M)."""
    dtype = _checked('cosine', M, dtype)
    step = math.pi / ((M + 1) if not sym and M > 1 else M) if M else 0
    return _made(((_gt.arange(M, dtype=_gt.float64) + 0.5) * step).sin(), dtype, requires_grad)


def gaussian(M, *, std=1.0, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """gaussian(M, std=1.0, sym=True): exp(-(n / std) ** 2 / 2), n counted from the middle."""
    dtype = _checked('gaussian', M, dtype)
    if std <= 0:
        raise ValueError(f'Standard deviation must be positive, got: {std} instead.')
    n = _gt.arange(M, dtype=_gt.float64) - (M if not sym and M > 1 else M - 1) / 2.0
    return _made((-(n / std).square() / 2).exp(), dtype, requires_grad)


def kaiser(M, *, beta=12.0, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """kaiser(M, beta=12.0, sym=True): I0(beta * sqrt(1 - x ** 2)) / I0(beta), x from -1 to 1."""
    dtype = _checked('kaiser', M, dtype)
    if beta < 0:
        raise ValueError(f'beta must be non-negative, got: {beta} instead.')
    if M < 2:
        return _trivial(M, dtype, requires_grad)
    x = _gt.arange(M, dtype=_gt.float64) * (2 / (M if not sym else M - 1)) - 1
    return _made(((1 - x.square()).clamp(min=0).sqrt() * beta).i0() / _gt.full((), beta, dtype=_gt.float64).i0(), dtype,
                 requires_grad)


def general_cosine(M, *, a, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """general_cosine(M, a=coefficients, sym=True): the sum of (-1) ** i * a[i] * cos(2 pi i n / (M - 1))."""
    dtype = _checked('general_cosine', M, dtype)
    if not hasattr(a, '__iter__'):
        raise TypeError('Coefficients must be a list/tuple')
    a = list(a)
    if not a:
        raise ValueError('Coefficients cannot be empty')
    if M < 2:
        return _trivial(M, dtype, requires_grad)
    angle = _gt.arange(M, dtype=_gt.float64) * (2 * math.pi / (M if not sym else M - 1))
    terms = [(angle * i).cos() * ((-1) ** i * c) for i, c in enumerate(a)]
    return _made(sum(terms[1:], terms[0]), dtype, requires_grad)


def general_hamming(M, *, alpha=0.54, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """general_hamming(M, alpha=0.54, sym=True): alpha - (1 - alpha) * cos(2 pi n / (M - 1))."""
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, dtype=dtype, requires_grad=requires_grad)


def hamming(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """hamming(M, sym=True): general_hamming with alpha 0.54."""
    return general_hamming(M, sym=sym, dtype=dtype, requires_grad=requires_grad)


def hann(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """hann(M, sym=True): general_hamming with alpha 0.5."""
    return general_hamming(M, alpha=0.5, sym=sym, dtype=dtype, requires_grad=requires_grad)


def blackman(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """blackman(M, sym=True): general_cosine with 0.42, 0.5, 0.08."""
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, dtype=dtype, requires_grad=requires_grad)


def nuttall(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """nuttall(M, sym=True): general_cosine with Nuttall's coefficients."""
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, dtype=dtype,
                          requires_grad=requires_grad)


def bartlett(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """bartlett(M, sym=True): a triangle from 0 to 1 to 0."""
    dtype = _checked('bartlett', M, dtype)
    if M < 2:
        return _trivial(M, dtype, requires_grad)
    x = _gt.arange(M, dtype=_gt.float64) * (2 / (M if not sym else M - 1)) - 1
    return _made(1 - x.abs(), dtype, requires_grad)


# ---- the older names -------------------------------------------------------------------------------------------


def _older(name, window, window_length, periodic, dtype, requires_grad):
    """name_window(window_length, periodic=True, ...), by a function of gt.signal.windows."""
    if window_length < 0:
        raise RuntimeError(f'{name}_window requires non-negative window_length, got window_length={window_length}')
    dtype = dtype or _gt.get_default_dtype()
    if not dtype.is_floating_point:
        raise RuntimeError(f'{name}_window expects floating point dtypes, got: {dtype}')
    wide = window(window_length, sym=not periodic or window_length == 1, dtype=_gt.float64)
    return _made(wide, dtype, requires_grad)


@_function
def bartlett_window(window_length, periodic=True, *, dtype=None, layout=None, device=None, pin_memory=False,
                    requires_grad=False):
    """bartlett_window(window_length, periodic=True): gt.signal.windows.bartlett, of the length of a period by default."""
    return _older('bartlett', bartlett, window_length, periodic, dtype, requires_grad)


@_function
def blackman_window(window_length, periodic=True, *, dtype=None, layout=None, device=None, pin_memory=False,
                    requires_grad=False):
    """blackman_window(window_length, periodic=True): gt.signal.windows.blackman, of the length of a period by default."""
    return _older('blackman', blackman, window_length, periodic, dtype, requires_grad)


@_function
def hann_window(window_length, periodic=True, *, dtype=None, layout=None, device=None, pin_memory=False,
                requires_grad=False):
    """hann_window(window_length, periodic=True): gt.signal.windows.hann, of the length of a period by default."""
    return _older('hann', hann, window_length, periodic, dtype, requires_grad)


@_function
def hamming_window(window_length, periodic=True, alpha=0.54, beta=0.46, *, dtype=None, layout=None, device=None, pin_memory=False,
                   requires_grad=False):
    """hamming_window(window_length, periodic=True, alpha=0.54, beta=0.46): gt.signal.windows.hamming, of the length of a period by default."""
    return _older('hamming', lambda M, **options: general_cosine(M, a=[alpha, beta], **options), window_length, periodic, dtype, requires_grad)


@_function
def kaiser_window(window_length, periodic=True, beta=12.0, *, dtype=None, layout=None, device=None, pin_memory=False,
                  requires_grad=False):
    """kaiser_window(window_length, periodic=True, beta=12.0): gt.signal.windows.kaiser, of the length of a period by default."""
    return _older('kaiser', lambda M, **options: kaiser(M, beta=beta, **options), window_length, periodic, dtype, requires_grad)
