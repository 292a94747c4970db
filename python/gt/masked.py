"""gt.masked: reductions and normalisations of the elements where a mask is True.

>>> gt.masked.mean(gt.tensor([1., 2., 3.]), mask=gt.tensor([True, False, True]))
tensor(2.)
"""

import builtins

from gt import _gt, _help
from gt._gt import where
from gt.client.registry import no_view as _no_view

_inf = float('inf')


def _filled(input, mask, value):
    """The elements outside the mask replaced by the identity of a reduction."""
    if mask is None:
        return input
    if mask.dtype != _gt.bool:
        raise TypeError(f'mask must be a bool tensor, but got {mask.dtype}')
    return where(mask, input, value)


def _typed(input, dtype):
    return input if dtype is None or input.dtype == dtype else input.to(dtype)


def _is_inexact(input):
    return input.is_floating_point() or input.is_complex()


def _sum_typed(input, dtype):
    """Sums and products of integers are int64."""
    if dtype is None and not _is_inexact(input):
        dtype = _gt.int64
    return _typed(input, dtype)


def _lowest(dtype, sign):
    """The identity of a maximum (sign -1) or a minimum (sign 1)."""
    if dtype.is_floating_point:
        return sign * _inf
    if dtype == _gt.bool:
        return sign > 0
    from gt.client.dtypes import iinfo
    return iinfo(dtype).max if sign > 0 else iinfo(dtype).min


def _dims(input, dim):
    if dim is None or dim == ():
        return None
    return (dim,) if hasattr(dim, '__index__') else tuple(dim)


def _ones(input, mask):
    one = _gt.ones_like(input.detach())
    return one if mask is None else where(mask, one, 0)


def _reduce(reduction, input, dim, keepdim):
    dims = _dims(input, dim)
    return reduction(input, dims, keepdim) if dims is not None else reduction(input, list(range(input.ndim)), keepdim)


def sum(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """sum(input, dim=None, mask=None): the sum of the elements where mask holds."""
    return _reduce(_gt.Tensor.sum, _filled(_sum_typed(input, dtype), mask, 0), dim, keepdim)


def prod(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """prod(input, dim=None, mask=None): the product of the elements where mask holds."""
    return _reduce(_gt.Tensor.prod, _filled(_sum_typed(input, dtype), mask, 1), dim, keepdim)


def cumsum(input, dim, *, dtype=None, mask=None):
    """cumsum(input, dim, mask=None): sums up to each element, of those where mask holds."""
    return _filled(_sum_typed(input, dtype), mask, 0).cumsum(dim)


def cumprod(input, dim, *, dtype=None, mask=None):
    """cumprod(input, dim, mask=None): products up to each element, of those where mask holds."""
    return _filled(_sum_typed(input, dtype), mask, 1).cumprod(dim)


def amax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """amax(input, dim=None, mask=None): the largest of the elements where mask holds."""
    input = _typed(input, dtype)
    return _reduce(_gt.Tensor.amax, _filled(input, mask, _lowest(input.dtype, -1)), dim, keepdim)


def amin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """amin(input, dim=None, mask=None): the smallest of the elements where mask holds."""
    input = _typed(input, dtype)
    return _reduce(_gt.Tensor.amin, _filled(input, mask, _lowest(input.dtype, 1)), dim, keepdim)


def argmax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """argmax(input, dim=None, mask=None): the position of the largest element where mask holds, in the dtype of input,
    as in PyTorch."""
    input = _typed(input, dtype)
    return _filled(input, mask, _lowest(input.dtype, -1)).argmax(dim, bool(keepdim)).to(input.dtype)


def argmin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """argmin(input, dim=None, mask=None): the position of the smallest element where mask holds, in the dtype of input,
    as in PyTorch."""
    input = _typed(input, dtype)
    return _filled(input, mask, _lowest(input.dtype, 1)).argmin(dim, bool(keepdim)).to(input.dtype)


def mean(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """mean(input, dim=None, mask=None): the mean of the elements where mask holds; NaN where there are none."""
    input = _typed(input, dtype)
    if not _is_inexact(input):
        raise ValueError(f'masked mean expects a floating point dtype, but got {input.dtype}')
    if mask is None:
        return _reduce(_gt.Tensor.mean, input, dim, keepdim)
    return sum(input, dim, keepdim=keepdim, mask=mask) / sum(_ones(input, mask), dim, keepdim=keepdim)


@_no_view
def median(input, dim=-1, *, keepdim=False, dtype=None, mask=None):
    """median(input, dim=-1, mask=None): the median of the elements where mask holds."""
    input = _typed(input, dtype)
    if not input.is_floating_point():
        raise ValueError(f'masked median expects a floating point dtype, but got {input.dtype}')
    if mask is None:
        return input.median(dim, keepdim).values
    if builtins.bool(input.isnan().any()):
        raise ValueError('masked median expected no masked out elements to be NaN')
    return _filled(input, mask, float('nan')).nanmedian(dim, keepdim).values


def norm(input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    """norm(input, ord=2.0, dim=None, mask=None): the vector norm of the elements where mask holds."""
    ord = 2.0 if ord is None else float(ord)
    filled = _filled(_typed(input, dtype), mask, 0 if ord >= 0 else _inf)
    return filled._vector_norm(ord, _dims(input, dim), builtins.bool(keepdim))


def _variance(input, dim, unbiased, correction, keepdim, dtype, mask):
    if unbiased is not None and correction is not None:
        raise ValueError('Only one of unbiased and correction may be given')
    correction = (1 if unbiased or unbiased is None else 0) if correction is None else correction
    input = _typed(input, dtype)
    input = input if _is_inexact(input) else input.float()
    count = sum(_ones(input, mask), dim, keepdim=True)
    centred = input - sum(input, dim, keepdim=True, mask=mask) / count
    squares = (centred * centred.conj()) if input.is_complex() else centred.square()
    total = sum(squares, dim, keepdim=keepdim, mask=mask)
    count = count if keepdim else count.reshape(total.shape)
    return total / (count.real - correction).clamp(min=0)


def var(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """var(input, dim=None, correction=1, mask=None): the variance of the elements where mask holds."""
    return _variance(input, dim, unbiased, correction, keepdim, dtype, mask)


def std(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """std(input, dim=None, correction=1, mask=None): the standard deviation of the elements where mask holds."""
    return _variance(input, dim, unbiased, correction, keepdim, dtype, mask).sqrt()


def logsumexp(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """logsumexp(input, dim=None, mask=None): log(sum(exp(input))) of the elements where mask holds."""
    input = _typed(input, dtype)
    wide = input if _is_inexact(input) else input.float()
    return _reduce(_gt.Tensor.logsumexp, _filled(wide, mask, -_inf), dim, keepdim).to(input.dtype)


def logaddexp(input, other, *, dtype=None, input_mask=None, other_mask=None):
    """logaddexp(input, other, input_mask=None, other_mask=None): log(exp(input) + exp(other)) where the masks hold."""
    return _filled(_typed(input, dtype), input_mask, -_inf).logaddexp(_filled(_typed(other, dtype), other_mask, -_inf))


def softmax(input, dim, *, dtype=None, mask=None):
    """softmax(input, dim, mask=None): softmax of the elements where mask holds; 0 elsewhere."""
    return _filled(_typed(input, dtype), mask, -_inf).softmax(dim)


def log_softmax(input, dim, *, dtype=None, mask=None):
    """log_softmax(input, dim, mask=None): log_softmax of the elements where mask holds; -inf elsewhere."""
    return _filled(_typed(input, dtype), mask, -_inf).log_softmax(dim)


def softmin(input, dim, *, dtype=None, mask=None):
    """softmin(input, dim, mask=None): softmax of the negated elements where mask holds; 0 elsewhere."""
    return (-_filled(_typed(input, dtype), mask, _inf)).softmax(dim)


def normalize(input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    """normalize(input, ord, dim, eps=1e-12, mask=None): divided by the norm of the elements where mask holds."""
    input = _typed(input, dtype)
    length = norm(input, ord, dim, keepdim=True, mask=mask)
    return _filled(input, mask, 0) / length.maximum(_gt.full((), eps, dtype=length.dtype))

__dir__ = _help.publish(__name__)
