"""Elementwise functions that are composed of rows of the op table, with PyTorch's rules of promotion."""

import math

from gt import _gt
from gt._gt import Tensor, where
from gt.client.registry import function, in_place, method

_LN2 = math.log(2.0)
# bits of the fraction, smallest exponent of normal numbers
_FRACTION = {'float16': (10, -14), 'bfloat16': (7, -126), 'float32': (23, -126), 'float64': (52, -1022)}


def operand(name, other):
    """The second operand of a function that takes tensors only."""
    if not isinstance(other, Tensor):
        raise TypeError(f"{name}(): argument 'other' (position 2) must be Tensor, not {type(other).__name__}")
    return other


def _promoted(a, b):
    dtype = (a.reshape(-1)[:0] + b.reshape(-1)[:0]).dtype if a.ndim and b.ndim or not (a.ndim or b.ndim) else \
        (a.detach() + b.detach()).dtype
    return a.to(dtype), b.to(dtype)


@method
def deg2rad(self):
    """deg2rad(): degrees as radians."""
    return self * (math.pi / 180)


@method
def rad2deg(self):
    """rad2deg(): radians as degrees."""
    return self * (180 / math.pi)


@method
def positive(self):
    """positive(): the tensor itself; not for bool."""
    if self.dtype == _gt.bool:
        raise RuntimeError('The `+` operator, on a bool tensor is not supported.')
    return self


@function
def rsub(input, other, *, alpha=1):
    """rsub(input, other, alpha=1): other - alpha * input."""
    if input.dtype == _gt.bool or isinstance(other, (bool, Tensor)) and getattr(other, 'dtype', _gt.bool) == _gt.bool:
        raise RuntimeError('Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or '
                           '`logical_xor()` operator instead.')
    return other - (input if alpha == 1 else input * alpha)


@function
def fill(input, value):
    """fill(input, value): a tensor like input with one value everywhere, a number or a 0-d tensor."""
    if isinstance(value, Tensor):
        _zero_dimensional('fill_', value)
        return value.to(input.dtype).expand(input.shape).clone() + (input.detach() * 0 if input.requires_grad else 0)
    result = _gt.full_like(input, value)
    return result + input * 0 if input.requires_grad and _gt.is_grad_enabled() else result


def _zero_dimensional(name, value):
    if value.ndim:
        raise RuntimeError(f'{name} only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.')


@method
def logaddexp2(self, other):
    """logaddexp2(other): log2(2 ** self + 2 ** other), without overflow."""
    other = operand('logaddexp2', other)
    if not self.is_floating_point() and not other.is_floating_point():
        raise NotImplementedError(f'"logaddexp2_cpu" not implemented for {self.dtype}')
    return (self * _LN2).logaddexp(other * _LN2) / _LN2


@method
def heaviside(self, values):
    """heaviside(values): 0 where self < 0, 1 where self > 0, and values where it is 0."""
    if not isinstance(values, Tensor):
        raise TypeError(f"heaviside(): argument 'values' must be Tensor, not {type(values).__name__}")
    if self.dtype != values.dtype:
        raise RuntimeError('heaviside is not yet implemented for tensors with different dtypes.')
    return where(self == 0, values, (self > 0).to(self.dtype)).detach()


@method
def ldexp(self, other):
    """ldexp(other): self * 2 ** other."""
    return self * 2.0 ** (other if isinstance(other, Tensor) else _gt.tensor(other))


@method
def frexp(self):
    """frexp(): (mantissa, exponent) with self = mantissa * 2 ** exponent and 0.5 <= |mantissa| < 1."""
    from gt import return_types
    if not self.is_floating_point():
        raise RuntimeError('torch.frexp() only supports floating-point dtypes')
    x = self.detach().double()
    plain = x.isfinite() & (x != 0)
    size = where(plain, x.abs(), 1.0)
    tiny = size < 2.0 ** -1000
    size = where(tiny, size * 2.0 ** 100, size)
    exponent = size.log2().floor() + 1
    scaled = size * (-(exponent / 2).floor()).exp2() * (-(exponent / 2).ceil()).exp2()
    exponent = exponent + (scaled >= 1).double() - (scaled < 0.5).double() - where(tiny, 100.0, 0.0)
    exponent = where(plain, exponent, 0.0)
    half = (exponent / 2).floor()
    wide = self.double() * (-half).exp2() * (half - exponent).exp2()
    return return_types.frexp(where(plain, wide, self.double()).to(self.dtype), exponent.to(_gt.int32))


@method
def nextafter(self, other):
    """nextafter(other): the next number of the dtype after self, towards other."""
    other = operand('nextafter', other)
    if not self.is_floating_point() and not other.is_floating_point():
        raise NotImplementedError(f'"nextafter_cpu" not implemented for {self.dtype}')
    a, b = _promoted(self.detach(), other.detach())
    bits, lowest = _FRACTION[a.dtype.name]
    x, y = a.double(), b.double()
    mantissa, exponent = frexp(x)
    inward = (y.abs() < x.abs()) | (x * y < 0)
    boundary = inward & (mantissa.abs() == 0.5)
    step = ((exponent - 1 - boundary.int()).clamp(min=lowest).double() - bits)
    step = where(x == 0, float(lowest - bits), step).exp2()
    moved = (x + where(y > x, step, -step)).to(a.dtype)
    return where((x == y) | x.isinf() & ~inward, b, where(x.isnan() | y.isnan(), (x + y).to(a.dtype), moved))


@method
def lcm(self, other):
    """lcm(other): the least common multiple of integers."""
    common = self.gcd(other)
    return where(common == 0, 0, self // where(common == 0, 1, common) * other).abs()


@method
def isreal(self):
    """isreal(): True everywhere: elements are real numbers."""
    return _gt.ones_like(self, dtype=_gt.bool)


in_place('deg2rad', 'rad2deg', 'heaviside', 'ldexp', 'nextafter', 'lcm', 'float_power', 'renorm', 'fmax', 'fmin')
