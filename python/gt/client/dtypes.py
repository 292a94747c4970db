"""Ranges of dtypes, and promotion."""

from gt import _gt
from gt._gt import Tensor
from gt.client.registry import function

# bits, bits of the fraction, smallest and largest exponent of normal numbers
_FLOATS = {'float16': (16, 10, -14, 15), 'bfloat16': (16, 7, -126, 127), 'float32': (32, 23, -126, 127),
           'float64': (64, 52, -1022, 1023)}
_INTEGERS = {'uint8': (8, 0), 'int8': (8, 1), 'int16': (16, 1), 'int32': (32, 1), 'int64': (64, 1)}  # bits, signed


@function
class finfo:
    """finfo(dtype=None): bits, eps, max, min, tiny, smallest_normal, resolution of a floating point dtype."""

    def __init__(self, dtype=None):
        dtype = _gt.get_default_dtype() if dtype is None else dtype
        if dtype.is_complex:
            dtype = dtype.to_real()
        if dtype.name not in _FLOATS:
            raise TypeError('finfo() requires a floating point input type. Use iinfo to handle integer types')
        self.bits, fraction, lowest, highest = _FLOATS[dtype.name]
        self.dtype, self.eps = dtype.name, 2.0 ** -fraction
        self.max = (2.0 - self.eps) * 2.0 ** highest
        self.min, self.tiny = -self.max, 2.0 ** lowest
        self.smallest_normal = self.tiny
        self.resolution = 10.0 ** -int(fraction * 0.30103)

    def __repr__(self):
        return (f'finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, '
                f'smallest_normal={self.tiny:g}, tiny={self.tiny:g}, dtype={self.dtype})')


@function
class iinfo:
    """iinfo(dtype): bits, max, min of an integer dtype."""

    def __init__(self, dtype):
        if dtype.name not in _INTEGERS:
            raise TypeError('iinfo() requires an integer input type. Use finfo to handle floating point types')
        self.bits, sign = _INTEGERS[dtype.name]
        self.dtype, self.max, self.min = dtype.name, 2 ** (self.bits - sign) - 1, -(2 ** (self.bits - 1)) * sign

    def __repr__(self):
        return f'iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})'


@function
def result_type(tensor1, tensor2):
    """result_type(a, b): the dtype of a + b; either may be a number."""
    one, other = (x if isinstance(x, Tensor) else _gt.tensor(x) for x in (tensor1, tensor2))
    if one is not tensor1 and other is not tensor2:
        return promote_types(one.dtype, other.dtype)
    return tensor1._result_dtype(tensor2) if one is tensor1 else tensor2._result_dtype(tensor1)


@function
def promote_types(type1, type2):
    """promote_types(type1, type2): the smallest dtype that both fit in."""
    return (_gt.zeros(1, dtype=type1) + _gt.zeros(1, dtype=type2)).dtype


@function
def can_cast(from_, to):
    """can_cast(from_, to): whether a result of one dtype may be stored in a tensor of another."""
    if from_.is_floating_point and not to.is_floating_point:
        return False
    return to != _gt.bool or from_ == _gt.bool


@function
def is_same_size(input, other):
    """is_same_size(input, other): whether both have the same shape."""
    return input.shape == other.shape
