"""Transforms: invertible (or nearly invertible) functions with the logarithm of their Jacobian determinant.

    >>> ExpTransform()(gt.tensor([0.0]))
    tensor([1.])
"""

import math

import gt
from gt import _help
from gt.distributions import constraints
from gt.distributions.utils import broadcast_all, eps_of, sum_rightmost, tiny_of
from gt.nn import functional as F

__all__ = ['AbsTransform', 'AffineTransform', 'ComposeTransform', 'CorrCholeskyTransform', 'ExpTransform',
           'IndependentTransform', 'LowerCholeskyTransform', 'PositiveDefiniteTransform', 'PowerTransform',
           'ReshapeTransform', 'SigmoidTransform', 'SoftplusTransform', 'TanhTransform', 'SoftmaxTransform',
           'StickBreakingTransform', 'Transform', 'identity_transform']


class Transform:
    """A function y = f(x) from domain to codomain. cache_size=1 keeps the last pair, so that inv of its y is x again."""

    bijective = False

    def __init__(self, cache_size=0):
        if cache_size not in (0, 1):
            raise ValueError('cache_size must be 0 or 1')
        self._cache_size, self._inverse, self._cached = cache_size, None, (None, None)
        super().__init__()

    @property
    def event_dim(self):
        """The dimensions of an event, if they are the same in domain and codomain."""
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError('Please use either .domain.event_dim or .codomain.event_dim')

    @property
    def inv(self):
        """The inverse transform."""
        inverse = self._inverse
        if inverse is None:
            inverse = self._inverse = _InverseTransform(self)
        return inverse

    @property
    def sign(self):
        """1 or -1: whether f is increasing or decreasing."""
        raise NotImplementedError

    def with_cache(self, cache_size=1):
        """with_cache(cache_size=1): the same transform with another cache."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f'{type(self)}.with_cache is not implemented')

    def __eq__(self, other):
        return self is other

    __hash__ = object.__hash__

    def __call__(self, x):
        if self._cache_size == 0:
            return self._call(x)
        old_x, old_y = self._cached
        if x is old_x:
            return old_y
        y = self._call(x)
        self._cached = x, y
        return y

    def _inv_call(self, y):
        if self._cache_size == 0:
            return self._inverse_of(y)
        old_x, old_y = self._cached
        if y is old_y:
            return old_x
        x = self._inverse_of(y)
        self._cached = x, y
        return x

    def _call(self, x):
        raise NotImplementedError

    def _inverse_of(self, y):
        raise NotImplementedError

    def log_abs_det_jacobian(self, x, y):
        """log_abs_det_jacobian(x, y): log |dy / dx|."""
        raise NotImplementedError

    def forward_shape(self, shape):
        """forward_shape(shape): the shape of f of a tensor of this shape."""
        return tuple(shape)

    def inverse_shape(self, shape):
        """inverse_shape(shape): the shape of the inverse."""
        return tuple(shape)

    def __repr__(self):
        return self.__class__.__name__ + '()'


class _InverseTransform(Transform):
    """The inverse of a transform."""

    def __init__(self, transform):
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    @property
    def domain(self):
        """The codomain of the transform."""
        return self._inv.codomain

    @property
    def codomain(self):
        """The domain of the transform."""
        return self._inv.domain

    @property
    def bijective(self):
        """Whether the transform is."""
        return self._inv.bijective

    @property
    def sign(self):
        """That of the transform."""
        return self._inv.sign

    @property
    def inv(self):
        """The transform."""
        return self._inv

    def with_cache(self, cache_size=1):
        """with_cache(cache_size=1): the same transform with another cache."""
        return self._inv.with_cache(cache_size).inv

    def __eq__(self, other):
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = object.__hash__

    def __call__(self, x):
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x, y):
        """log_abs_det_jacobian(x, y): log |dy / dx|."""
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape):
        """forward_shape(shape): the inverse's."""
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape):
        """inverse_shape(shape): the transform's."""
        return self._inv.forward_shape(shape)

    def __repr__(self):
        return f'{self.__class__.__name__}({self._inv!r})'


class ComposeTransform(Transform):
    """Several transforms, one after the other."""

    def __init__(self, parts, cache_size=0):
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)
        super().__init__(cache_size=cache_size)

    def __eq__(self, other):
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__

    @property
    def domain(self):
        """The domain of the first part, of an event_dim that suits all."""
        if not self.parts:
            return constraints.real
        domain, event_dim = self.parts[0].domain, self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            event_dim = max(event_dim + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return constraints.independent(domain, event_dim - domain.event_dim) if event_dim > domain.event_dim else domain

    @property
    def codomain(self):
        """The codomain of the last part."""
        if not self.parts:
            return constraints.real
        codomain, event_dim = self.parts[-1].codomain, self.parts[0].domain.event_dim
        for part in self.parts:
            event_dim = max(event_dim + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        more = event_dim - codomain.event_dim
        return constraints.independent(codomain, more) if more > 0 else codomain

    @property
    def bijective(self):
        """Whether all parts are."""
        return all(p.bijective for p in self.parts)

    @property
    def sign(self):
        """The product of the signs."""
        return math.prod(p.sign for p in self.parts)

    @property
    def inv(self):
        """The inverses in reverse order."""
        if self._inverse is None:
            self._inverse = ComposeTransform([p.inv for p in reversed(self.parts)])
            self._inverse._inverse = self
        return self._inverse

    def with_cache(self, cache_size=1):
        """with_cache(cache_size=1): the same transform with another cache."""
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x):
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x, y):
        """log_abs_det_jacobian(x, y): the sum of the parts'."""
        if not self.parts:
            return gt.zeros_like(x)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        terms, event_dim = [], self.domain.event_dim
        for part, before, after in zip(self.parts, values[:-1], values[1:]):
            terms.append(sum_rightmost(part.log_abs_det_jacobian(before, after), event_dim - part.domain.event_dim))
            event_dim += part.codomain.event_dim - part.domain.event_dim
        return sum(terms[1:], terms[0])

    def forward_shape(self, shape):
        """forward_shape(shape): through all parts."""
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape):
        """inverse_shape(shape): back through all parts."""
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self):
        return f'{self.__class__.__name__}(\n    ' + ',\n    '.join(repr(p) for p in self.parts) + '\n)'


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform whose last dimensions belong to one event."""

    def __init__(self, base_transform, reinterpreted_batch_ndims, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size=1):
        """with_cache(cache_size=1): the same transform with another cache."""
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size)

    @property
    def domain(self):
        """The base's, with more dimensions."""
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @property
    def codomain(self):
        """The base's, with more dimensions."""
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self):
        """Whether the base is."""
        return self.base_transform.bijective

    @property
    def sign(self):
        """The base's."""
        return self.base_transform.sign

    def _call(self, x):
        if x.ndim < self.domain.event_dim:
            raise ValueError('Too few dimensions on input')
        return self.base_transform(x)

    def _inverse_of(self, y):
        if y.ndim < self.codomain.event_dim:
            raise ValueError('Too few dimensions on input')
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x, y):
        """log_abs_det_jacobian(x, y): the base's, added up over the event."""
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape):
        """forward_shape(shape): the base's."""
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape):
        """inverse_shape(shape): the base's."""
        return self.base_transform.inverse_shape(shape)

    def __repr__(self):
        return f'{self.__class__.__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})'


class ReshapeTransform(Transform):
    """Reshape the last dimensions."""

    bijective = True

    def __init__(self, in_shape, out_shape, cache_size=0):
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError('in_shape, out_shape have different numbers of elements')
        super().__init__(cache_size=cache_size)

    @property
    def domain(self):
        """Tensors of in_shape."""
        return constraints.independent(constraints.real, len(self.in_shape))

    @property
    def codomain(self):
        """Tensors of out_shape."""
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size=1):
        """with_cache(cache_size=1): the same transform with another cache."""
        return self if self._cache_size == cache_size else ReshapeTransform(self.in_shape, self.out_shape, cache_size)

    def _call(self, x):
        return x.reshape(tuple(x.shape[:x.ndim - len(self.in_shape)]) + self.out_shape)

    def _inverse_of(self, y):
        return y.reshape(tuple(y.shape[:y.ndim - len(self.out_shape)]) + self.in_shape)

    def log_abs_det_jacobian(self, x, y):
        """log_abs_det_jacobian(x, y): 0."""
        return gt.zeros(x.shape[:x.ndim - len(self.in_shape)], dtype=x.dtype)

    def _moved(self, shape, old, new):
        shape, cut = tuple(shape), len(shape) - len(old)
        if cut < 0:
            raise ValueError('Too few dimensions on input')
        if shape[cut:] != old:
            raise ValueError(f'Shape mismatch: expected {shape[cut:]} but got {old}')
        return shape[:cut] + new

    def forward_shape(self, shape):
        """forward_shape(shape): with out_shape at the end."""
        return self._moved(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape):
        """inverse_shape(shape): with in_shape at the end."""
        return self._moved(shape, self.out_shape, self.in_shape)


class ExpTransform(Transform):
    """y = exp(x)"""

    domain, codomain, bijective, sign = constraints.real, constraints.positive, True, 1

    def __eq__(self, other):
        return isinstance(other, ExpTransform)

    __hash__ = object.__hash__

    def _call(self, x):
        return x.exp()

    def _inverse_of(self, y):
        return y.log()

    def log_abs_det_jacobian(self, x, y):
        """log_abs_det_jacobian(x, y): x."""
        return x


class PowerTransform(Transform):
    """y = x ** exponent"""

    domain, codomain, bijective = constraints.positive, constraints.positive, True

    def __init__(self, exponent, cache_size=0):
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def with_cache(self, cache_size=1):
        """with_cache(cache_size=1): the same transform with another cache."""
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size=cache_size)

    @property
    def sign(self):
        """That of the exponent."""
        return self.exponent.sign()

    def __eq__(self, other):
        return isinstance(other, PowerTransform) and bool((self.exponent == other.exponent).all())

    __hash__ = object.__hash__

    def _call(self, x):
        return x.pow(self.exponent)

    def _inverse_of(self, y):
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x, y):
        """log_abs_det_jacobian(x, y): log |exponent y / x|."""
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape):
        """forward_shape(shape): broadcast with the exponent."""
        return gt.broadcast_shapes(shape, self.exponent.shape)

    inverse_shape = forward_shape


class SigmoidTransform(Transform):
    """y = 1 / (1 + exp(-x))"""

    domain, codomain, bijective, sign = constraints.real, constraints.unit_interval, True, 1

    def __eq__(self, other):
        return isinstance(other, SigmoidTransform)

    __hash__ = object.__hash__

    def _call(self, x):
        return x.sigmoid().clamp(min=tiny_of(x.dtype), max=1 - eps_of(x.dtype))

    def _inverse_of(self, y):
        y = y.clamp(min=tiny_of(y.dtype), max=1 - eps_of(y.dtype))
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x, y):
        """log_abs_det_jacobian(x, y): -softplus(-x) - softplus(x)."""
        return -F.softplus(-x) - F.softplus(x)


class SoftplusTransform(Transform):
    """y = log(1 + exp(x))"""

    domain, codomain, bijective, sign = constraints.real, constraints.positive, True, 1

    def __eq__(self, other):
        return isinstance(other, SoftplusTransform)

    __hash__ = object.__hash__

    def _call(self, x):
        return F.softplus(x)

    def _inverse_of(self, y):
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x, y):
        """log_abs_det_jacobian(x, y): -softplus(-x)."""
        return -F.softplus(-x)


class TanhTransform(Transform):
    """y = tanh(x)"""

    domain, codomain, bijective, sign = constraints.real, constraints.interval(-1.0, 1.0), True, 1

    def __eq__(self, other):
        return isinstance(other, TanhTransform)

    __hash__ = object.__hash__

    def _call(self, x):
        return x.tanh()

    def _inverse_of(self, y):
        return y.atanh()

    def log_abs_det_jacobian(self, x, y):
        """log_abs_det_jacobian(x, y): log(1 - y^2), from x, which is more exact."""
        return 2.0 * (math.log(2.0) - x - F.softplus(-2.0 * x))


class AbsTransform(Transform):
    """y = |x|"""

    domain, codomain = constraints.real, constraints.positive

    def __eq__(self, other):
        return isinstance(other, AbsTransform)

    __hash__ = object.__hash__

    def _call(self, x):
        return x.abs()

    def _inverse_of(self, y):
        return y


class AffineTransform(Transform):
    """y = loc + scale * x"""

    bijective = True

    def __init__(self, loc, scale, event_dim=0, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self):
        """How many of the last dimensions make one value."""
        return self._event_dim

    @property
    def domain(self):
        """Real numbers, or tensors of them."""
        return constraints.real if self.event_dim == 0 else constraints.independent(constraints.real, self.event_dim)

    codomain = domain

    def with_cache(self, cache_size=1):
        """with_cache(cache_size=1): the same transform with another cache."""
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

    def __eq__(self, other):
        if not isinstance(other, AffineTransform):
            return False
        same = [a == b for a, b in ((self.loc, other.loc), (self.scale, other.scale))]
        return all(bool(s.all()) if isinstance(s, gt.Tensor) else s for s in same)

    __hash__ = object.__hash__

    @property
    def sign(self):
        """That of the scale."""
        if isinstance(self.scale, (int, float)):
            return 1 if self.scale > 0 else -1 if self.scale < 0 else 0
        return self.scale.sign()

    def _call(self, x):
        return self.loc + self.scale * x

    def _inverse_of(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x, y):
        """log_abs_det_jacobian(x, y): log |scale|."""
        if isinstance(self.scale, (int, float)):
            result = gt.full_like(x, math.log(abs(self.scale)))
        else:
            result = self.scale.abs().log()
        if self.event_dim:
            result = result.reshape(*result.shape[:result.ndim - self.event_dim], -1).sum(-1)
            return result.expand(x.shape[:x.ndim - self.event_dim])
        return result.expand(x.shape)

    def forward_shape(self, shape):
        """forward_shape(shape): broadcast with loc and scale."""
        return gt.broadcast_shapes(shape, getattr(self.loc, 'shape', ()), getattr(self.scale, 'shape', ()))

    inverse_shape = forward_shape


class CorrCholeskyTransform(Transform):
    """From a vector of D (D - 1) / 2 real numbers to the Cholesky factor of a D x D correlation matrix."""

    domain, codomain, bijective = constraints.real_vector, constraints.corr_cholesky, True

    def _call(self, x):
        x = x.tanh()
        eps = eps_of(x.dtype)
        r = gt.distributions.utils.vec_to_tril_matrix(x.clamp(min=-1 + eps, max=1 - eps), diag=-1)
        z1m_cumprod_sqrt = (1 - r ** 2).sqrt().cumprod(-1)
        r = r + gt.eye(r.shape[-1], dtype=r.dtype)
        return r * F.pad(z1m_cumprod_sqrt[..., :-1], [1, 0], value=1.0)

    def _inverse_of(self, y):
        rest = 1 - (y * y).cumsum(-1)
        shifted = F.pad(rest[..., :-1], [1, 0], value=1.0)
        y_vec = gt.distributions.utils.tril_matrix_to_vec(y, diag=-1)
        t = y_vec / gt.distributions.utils.tril_matrix_to_vec(shifted, diag=-1).sqrt()
        return (t.log1p() - t.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x, y, intermediates=None):
        """log_abs_det_jacobian(x, y): from the rows' remaining lengths."""
        rest = 1 - (y * y).cumsum(-1)
        rest = gt.distributions.utils.tril_matrix_to_vec(rest, diag=-2)
        stick = 0.5 * rest.log().sum(-1)
        return stick - 2 * (x + F.softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape):
        """forward_shape(shape): (..., D, D)."""
        n = shape[-1]
        d = round((0.25 + 2 * n) ** 0.5 + 0.5)
        if d * (d - 1) // 2 != n:
            raise ValueError('Input is not a flattened lower-diagonal number')
        return tuple(shape[:-1]) + (d, d)

    def inverse_shape(self, shape):
        """inverse_shape(shape): (..., D (D - 1) / 2)."""
        if len(shape) < 2:
            raise ValueError('Too few dimensions on input')
        if shape[-2] != shape[-1]:
            raise ValueError('Input is not square')
        d = shape[-1]
        return tuple(shape[:-2]) + (d * (d - 1) // 2,)


class SoftmaxTransform(Transform):
    """y = exp(x), then over its sum; the inverse is log(y). Not bijective."""

    domain, codomain = constraints.real_vector, constraints.simplex

    def __eq__(self, other):
        return isinstance(other, SoftmaxTransform)

    __hash__ = object.__hash__

    def _call(self, x):
        probs = (x - x.amax(-1, True)).exp()
        return probs / probs.sum(-1, True)

    def _inverse_of(self, y):
        return y.log()

    def forward_shape(self, shape):
        """forward_shape(shape): the same."""
        if len(shape) < 1:
            raise ValueError('Too few dimensions on input')
        return tuple(shape)

    inverse_shape = forward_shape


class StickBreakingTransform(Transform):
    """From D - 1 real numbers to D shares that add up to 1: each takes a part of what is left."""

    domain, codomain, bijective = constraints.real_vector, constraints.simplex, True

    def __eq__(self, other):
        return isinstance(other, StickBreakingTransform)

    __hash__ = object.__hash__

    def _offset(self, x):
        return x.shape[-1] + 1 - gt.ones(x.shape[-1], dtype=x.dtype).cumsum(-1)

    def _call(self, x):
        z = (x - self._offset(x).log()).sigmoid().clamp(min=tiny_of(x.dtype), max=1 - eps_of(x.dtype))
        left = (1 - z).cumprod(-1)
        return F.pad(z, [0, 1], value=1.0) * F.pad(left, [1, 0], value=1.0)

    def _inverse_of(self, y):
        cropped = y[..., :-1]
        offset = y.shape[-1] - gt.ones(cropped.shape[-1], dtype=y.dtype).cumsum(-1)
        left = (1 - cropped.cumsum(-1)).clamp(min=tiny_of(y.dtype))
        return cropped.log() - left.log() + offset.log()

    def log_abs_det_jacobian(self, x, y):
        """log_abs_det_jacobian(x, y): of the first D - 1 shares."""
        x = x - self._offset(x).log()
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape):
        """forward_shape(shape): one more."""
        if len(shape) < 1:
            raise ValueError('Too few dimensions on input')
        return tuple(shape[:-1]) + (shape[-1] + 1,)

    def inverse_shape(self, shape):
        """inverse_shape(shape): one less."""
        if len(shape) < 1:
            raise ValueError('Too few dimensions on input')
        return tuple(shape[:-1]) + (shape[-1] - 1,)


class LowerCholeskyTransform(Transform):
    """From a matrix to a lower triangular one with a positive diagonal: its exponentials."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky

    def __eq__(self, other):
        return isinstance(other, LowerCholeskyTransform)

    __hash__ = object.__hash__

    def _call(self, x):
        return x.tril(-1) + x.diagonal(0, -2, -1).exp().diag_embed()

    def _inverse_of(self, y):
        return y.tril(-1) + y.diagonal(0, -2, -1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """From a matrix to a positive definite one."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite

    def __eq__(self, other):
        return isinstance(other, PositiveDefiniteTransform)

    __hash__ = object.__hash__

    def _call(self, x):
        x = LowerCholeskyTransform()(x)
        return x @ x.mT

    def _inverse_of(self, y):
        return LowerCholeskyTransform().inv(gt.linalg.cholesky(y))

__dir__ = _help.publish(__name__)
