"""Special functions as methods and functions: those whose arguments differ from their row of the op table, and those
composed of others. The plain rows (erfc, lgamma, digamma, i0, ...) need nothing here. gt.special has PyTorch's names.
"""

import math

from gt import _gt, return_types
from gt._gt import Tensor
from gt.client.dtypes import result_type
from gt.client.halves import HALVES
from gt.client.registry import function, in_place, method, tensor_argument

_FRACTION_BITS = {'float64': 52, 'float16': 10, 'bfloat16': 7}


def pair(x, y, name):
    """Two operands of which one may be a number, as tensors; a number becomes a 0-d tensor and does not decide the dtype."""
    if not isinstance(x, Tensor) and not isinstance(y, Tensor):
        raise TypeError(f'{name}(): one of the arguments must be a Tensor')
    return (x if isinstance(x, Tensor) else _gt.tensor(x)), y


# ---- the gamma function --------------------------------------------------------------------------------------

_polygamma, _logit, _nextafter = Tensor.polygamma, Tensor.logit, Tensor.nextafter


@method
def polygamma(self, n):
    """polygamma(n): the n-th derivative of digamma."""
    if n < 0:
        raise RuntimeError('polygamma(n, x) does not support negative n.')
    return _polygamma(self, n)


def _polygamma_function(n, input):
    """polygamma(n, input): the n-th derivative of digamma, n >= 0.

    >>> gt.polygamma(1, gt.tensor([1.0]))
    tensor([1.6449])
    """
    return input.polygamma(n)


_polygamma_function.__name__ = 'polygamma'
function(_polygamma_function)


@method
def mvlgamma(self, p):
    """mvlgamma(p): the logarithm of the multivariate gamma function of dimension p.

    >>> gt.tensor([2.0, 3.0]).mvlgamma(2)
    tensor([0.4516, 1.5963])
    """
    if p < 1:
        raise RuntimeError('p has to be greater than or equal to 1')
    x = self if self.is_floating_point() else self.float()
    steps = _gt.arange(0, p, dtype=x.dtype) * -0.5
    return (x.unsqueeze(-1) + steps).lgamma().sum(-1) + p * (p - 1) / 4 * math.log(math.pi)


# ---- logarithms ----------------------------------------------------------------------------------------------


@method
def logit(self, eps=None):
    """logit(eps=None): log(x / (1 - x)), with x clamped to [eps, 1 - eps]."""
    return _logit(self, -1.0 if eps is None else eps)


def _number_first(name):
    row = getattr(Tensor, name)

    def call(input, other):
        x, y = pair(input, other, name)
        return row(x, y)
    call.__name__, call.__doc__ = name, f'{name}(input, other): elementwise; either may be a number.'
    function(call)


for _name in ('xlogy', 'xlog1py', 'zeta'):
    _number_first(_name)


# ---- parts of numbers ----------------------------------------------------------------------------------------


@method
def nextafter(self, other):
    """nextafter(other): the next number of the dtype after self, towards other."""
    dtype = result_type(self, other)
    if not dtype.is_floating_point:
        raise NotImplementedError(f'"nextafter_cpu" not implemented for {dtype}')
    return _nextafter(self, other, _FRACTION_BITS.get(dtype.name, 23))


@method
def frexp(self):
    """frexp(): (mantissa, exponent): self is mantissa * 2 ** exponent, and 0.5 <= |mantissa| < 1."""
    if not self.is_floating_point():
        raise RuntimeError('torch.frexp() only supports floating-point dtypes')
    return return_types.frexp(self.frexp_mantissa(), self.frexp_exponent().to(_gt.int32))


@method
def ldexp(self, other):
    """ldexp(other): self * 2 ** other."""
    whole = isinstance(other, Tensor) and not other.is_floating_point() and not other.is_complex()
    power = other.to(_gt.float64 if self.dtype == _gt.float64 else _gt.float32) if whole else other
    if whole and self.dtype in HALVES:
        return self * power.exp2().to(self.dtype)
    return self * (power.exp2() if isinstance(power, Tensor) else 2.0 ** power)


_heaviside = Tensor.heaviside


@method
def heaviside(self, values):
    """heaviside(values): 0 where self is negative, values where it is 0, 1 where it is positive."""
    tensor_argument('heaviside', 'values', values)
    if self.dtype != values.dtype:
        raise RuntimeError('heaviside is not yet implemented for tensors with different dtypes.')
    return _heaviside(self, values)


@method
def float_power(self, exponent):
    """float_power(exponent): the power, in float64; in complex128 if one of the two is complex."""
    number = not isinstance(exponent, Tensor)
    wide = _gt.float64
    if self.is_complex() or (isinstance(exponent, complex) if number else exponent.is_complex()):
        wide = _gt.complex128
    elif number:
        exponent = float(exponent)
    return self.to(wide) ** (exponent if number else exponent.to(wide))


@function
def float_power(input, exponent):  # noqa: F811
    """float_power(input, exponent): the power, in float64; either may be a number."""
    if not isinstance(input, Tensor) and not isinstance(exponent, Tensor):
        raise TypeError('float_power() received an invalid combination of arguments - got '
                        f'({type(input).__name__}, {type(exponent).__name__}), but one must be a Tensor')
    if isinstance(input, Tensor):
        base = input
    else:
        base = _gt.tensor(input, dtype=_gt.complex128 if isinstance(input, complex) else _gt.float64)
    return Tensor.float_power(base, exponent)


in_place('polygamma', 'mvlgamma', 'logit', 'nextafter', 'ldexp', 'heaviside')


# ---- families: one row each, by kind -------------------------------------------------------------------------

# In the order of gt_bessel_kind and gt_polynomial_kind (gt.h).
BESSEL = ('bessel_j0', 'bessel_j1', 'bessel_y0', 'bessel_y1', 'modified_bessel_k0', 'modified_bessel_k1',
          'scaled_modified_bessel_k0', 'scaled_modified_bessel_k1', 'spherical_bessel_j0', 'airy_ai')
POLYNOMIALS = ('chebyshev_polynomial_t', 'chebyshev_polynomial_u', 'chebyshev_polynomial_v', 'chebyshev_polynomial_w',
               'hermite_polynomial_h', 'hermite_polynomial_he', 'laguerre_polynomial_l', 'legendre_polynomial_p',
               'shifted_chebyshev_polynomial_t', 'shifted_chebyshev_polynomial_u', 'shifted_chebyshev_polynomial_v',
               'shifted_chebyshev_polynomial_w')


def bessel_function(name):
    """The function of a kind of Bessel function."""
    kind = BESSEL.index(name)

    def call(input):
        return input.bessel(kind)
    call.__name__, call.__doc__ = name, f'{name}(input): elementwise.'
    return call


def polynomial_function(name):
    """The function of a family of orthogonal polynomials."""
    kind = POLYNOMIALS.index(name)

    def call(input, n):
        x, degree = pair(input, n, name)
        return x.polynomial(degree if isinstance(degree, Tensor) else _gt.tensor(degree), kind)
    call.__name__, call.__doc__ = name, f'{name}(input, n): the polynomial of degree n at input, elementwise.'
    return call
