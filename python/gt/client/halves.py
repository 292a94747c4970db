"""Half precision: functions that PyTorch computes in float32 inside and rounds once, at the end."""

from gt import _gt
from gt._gt import Tensor

HALVES = frozenset((_gt.float16, _gt.bfloat16))


def _widened(x):
    if isinstance(x, Tensor):
        return x.float() if x.dtype in HALVES else x
    return type(x)(map(_widened, x)) if isinstance(x, (list, tuple)) else x


def in_float32(function, dtype, *arguments, **options):
    """Call a function with its halves as float32, and round its float32 results to dtype. Gradients are rounded once, too."""
    result = function(*map(_widened, arguments), **{name: _widened(value) for name, value in options.items()})
    if isinstance(result, tuple):
        return type(result)(part.to(dtype) for part in result)
    return result.to(dtype)


def half_of(*tensors):
    """The half precision dtype that all of these tensors have, or None. Numbers do not count."""
    dtype = None
    for x in tensors:
        if isinstance(x, Tensor):
            if x.dtype not in HALVES or dtype not in (None, x.dtype):
                return None
            dtype = x.dtype
    return dtype
