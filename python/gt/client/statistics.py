"""Statistics: norms, moments, reductions that skip NaN, differences, covariances."""

from gt import _gt, linalg
from gt._gt import where
from gt.client.arrangement import broadcast_shapes
from gt.client.halves import HALVES, in_float32
from gt.client.registry import axis_of, function, method, tensor_argument


# ---- norms ---------------------------------------------------------------------------------------------------


@method
def norm(self, p='fro', dim=None, keepdim=False, dtype=None, *, axis=None, keepdims=False):
    """norm(p=2, dim=None, keepdim=False): the p-norm of the elements, over one or several dimensions; p may be any
    number, an infinity, 'fro', or 'nuc'."""
    dim = axis if dim is None else dim
    if p == 'nuc':
        return linalg.matrix_norm(self, 'nuc', dim or (-2, -1), bool(keepdim or keepdims), dtype=dtype)
    if isinstance(p, str) and p != 'fro':
        raise RuntimeError(f'norm: only the string arguments fro and nuc are valid, got {p}')
    self = self if dtype is None else self.to(dtype)
    order = 2.0 if p is None or p == 'fro' else float(p)
    return self._vector_norm(order, None if dim == () else dim, bool(keepdim or keepdims))


@method
def dist(self, other, p=2):
    """dist(other, p=2): the p-norm of the difference."""
    tensor_argument('dist', 'other', other)
    return (self - other)._vector_norm(float(p))


@method
def renorm(self, p, dim, maxnorm):
    """renorm(p, dim, maxnorm): scale slices along a dimension down if their p-norm exceeds maxnorm."""
    if self.ndim < 2:
        raise RuntimeError(f'renorm: input needs at least 2 dimensions, got {self.ndim} dimensions')
    if p <= 0:
        raise RuntimeError(f'renorm: non-positive norm not supported, got {p}')
    if not maxnorm >= 0:
        raise RuntimeError(f'renorm: expected maxnorm to be >= 0 but got {maxnorm}')
    if not self.is_floating_point() and not self.is_complex():
        raise RuntimeError('linalg.vector_norm: Expected a floating point or complex tensor as input. Got '
                           f'{self.dtype._kind}')
    if self.dtype in HALVES:
        return in_float32(renorm, self.dtype, self, p, dim, maxnorm)
    dim = axis_of(self, dim)
    others = [d for d in range(self.ndim) if d != dim]
    norms = self._vector_norm(float(p), others, True)
    return (self * where(norms > maxnorm, maxnorm / (norms + 1e-7), 1.0))._packed()


# ---- moments -------------------------------------------------------------------------------------------------


@method
def var_mean(self, dim=None, unbiased=True, keepdim=False, *, correction=None):
    """var_mean(dim=None, correction=1, keepdim=False): (variance, mean)."""
    dim, unbiased = (None, dim) if isinstance(dim, bool) else (dim, unbiased)
    correction = (1 if unbiased else 0) if correction is None else correction
    return self.var(dim, correction=correction, keepdim=keepdim), self.mean(dim, keepdim)


@method
def std_mean(self, dim=None, unbiased=True, keepdim=False, *, correction=None):
    """std_mean(dim=None, correction=1, keepdim=False): (standard deviation, mean)."""
    dim, unbiased = (None, dim) if isinstance(dim, bool) else (dim, unbiased)
    correction = (1 if unbiased else 0) if correction is None else correction
    return self.std(dim, correction=correction, keepdim=keepdim), self.mean(dim, keepdim)


@method
def nansum(self, dim=None, keepdim=False, *, dtype=None):
    """nansum(dim=None, keepdim=False): the sum of the elements that are numbers."""
    numbers = where(self.isnan(), 0, self) if self.is_floating_point() else self
    return numbers.sum(dim, keepdim) if dtype is None else numbers.sum(dim, keepdim, dtype=dtype)


@method
def nanmean(self, dim=None, keepdim=False, *, dtype=None):
    """nanmean(dim=None, keepdim=False): the mean of the elements that are numbers."""
    self = self if dtype is None else self.to(dtype)
    return self.nansum(dim, keepdim) / (~self.isnan()).sum(dim, keepdim)


@method
def cov(self, *, correction=1, fweights=None, aweights=None):
    """cov(correction=1, fweights=None, aweights=None): covariances of variables, a row each. A column is one
    observation; fweights are repetition counts, aweights weights of observations."""
    if self.ndim > 2:
        raise RuntimeError(f'cov(): expected input to have two or fewer dimensions but got an input with {self.ndim} '
                           f'dimensions')
    rows = self.reshape(1, -1) if self.ndim < 2 else self
    if rows.dtype == _gt.bool:
        raise RuntimeError('cov(): bool dtype is not supported for input')
    rows = rows if rows.is_floating_point() or rows.is_complex() else rows.float()
    fweights, aweights = _weights('fweights', fweights, rows, False), _weights('aweights', aweights, rows, True)
    weights = aweights if fweights is None else fweights if aweights is None else fweights * aweights
    if weights is None:
        centred = rows - rows.mean(1, True)
        product, total = centred @ centred.H, rows.shape[1] - correction
        return (product / (total if total > 0 else 0)).squeeze()
    total = weights.sum()
    centred = rows - (rows * weights).sum(1, True) / total
    if aweights is not None:
        total = total - correction * (weights * aweights).sum() / total
    else:
        total = total - correction
    return ((centred * weights) @ centred.H / total.clamp(min=0)).squeeze()


def _weights(name, weights, rows, floating):
    if weights is None:
        return None
    if weights.ndim > 1:
        raise RuntimeError(f'cov(): expected {name} to have one or fewer dimensions but got {name} with {weights.ndim} '
                           f'dimensions')
    if weights.is_floating_point() != floating:
        raise RuntimeError(f'cov(): expected {name} to have {"floating point" if floating else "integral"} dtype but got '
                           f'{name} with {weights.dtype} dtype')
    if weights.numel() != rows.shape[1]:
        raise RuntimeError(f'cov(): expected {name} to have the same numel as there are observations in the input but got '
                           f'{weights.numel()} != {rows.shape[1]}')
    if weights.numel() and bool((weights < 0).any()):
        raise RuntimeError(f'cov(): {name} cannot be negative')
    return weights


@method
def corrcoef(self):
    """corrcoef(): correlations of variables, a row each."""
    covariances = self.cov()
    if covariances.ndim == 0:
        return covariances / covariances
    deviations = covariances.diagonal().real.sqrt()
    ratios = covariances / deviations.unsqueeze(1) / deviations.unsqueeze(0)
    if self.is_complex():
        return _gt._as_complex(_gt._as_real(ratios).clamp(-1.0, 1.0))
    return ratios.clamp(-1.0, 1.0)


# ---- directions ----------------------------------------------------------------------------------------------


def _directions(x, shape, dim, eps):
    """Vectors along a dimension of a shape that x broadcasts to, divided by their lengths. Dimensions along which they only
    repeat stay as they are, so that each length is computed once."""
    x = x.reshape([1] * (len(shape) - x.ndim) + list(x.shape))
    x = x.expand([shape[d] if d == dim else size for d, size in enumerate(x.shape)])
    lengths = x._vector_norm(2.0, dim, True).clone()  # its own: the graph needs the length itself
    lengths.data.clamp_(min=eps)  # the value alone: as in PyTorch the gradient stays that of the length
    return x / lengths


@function
def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """cosine_similarity(x1, x2, dim=1, eps=1e-8): the cosine of the angle between vectors along a dimension, of both inputs
    broadcast."""
    dtype = x1.dtype if x1.is_floating_point() else x2.dtype
    if not dtype.is_floating_point:
        raise RuntimeError('expected common dtype to be floating point, yet common dtype is an integer one')
    x1, x2 = (x if x.is_floating_point() else x.to(dtype) for x in (x1, x2))
    shape = broadcast_shapes(x1.shape, x2.shape)
    dim = axis_of(x1 if x1.ndim > x2.ndim else x2, dim)
    return (_directions(x1, shape, dim, eps) * _directions(x2, shape, dim, eps)).sum(dim)
