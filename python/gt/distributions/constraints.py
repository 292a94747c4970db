"""Constraints: the sets that parameters and values of distributions must lie in.

check(value) gives a bool tensor, True where the value is in the set; it has the value's shape without the event_dim last
dimensions. It also works on Python numbers. Names are PyTorch's.

    >>> constraints.positive.check(gt.tensor([1.0, -1.0]))
    tensor([ True, False])
"""

import gt
from gt import _help

__all__ = ['Constraint', 'boolean', 'cat', 'corr_cholesky', 'dependent', 'dependent_property', 'greater_than',
           'greater_than_eq', 'half_open_interval', 'independent', 'integer_interval', 'interval', 'is_dependent',
           'less_than', 'lower_cholesky', 'lower_triangular', 'MixtureSameFamilyConstraint', 'multinomial',
           'nonnegative', 'nonnegative_integer', 'one_hot', 'positive', 'positive_semidefinite', 'positive_definite',
           'positive_integer', 'real', 'real_vector', 'simplex', 'square', 'stack', 'symmetric', 'unit_interval']


class Constraint:
    """A set of values. is_discrete: it is countable. event_dim: how many of the last dimensions make one value."""

    is_discrete = False
    event_dim = 0

    def check(self, value):
        """A bool tensor: which values are in the set."""
        raise NotImplementedError

    def __repr__(self):
        return self.__class__.__name__[1:] + '()'


class _Dependent(Constraint):
    """Depends on other parameters, which are not known here."""

    def __init__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        self._is_discrete, self._event_dim = is_discrete, event_dim
        super().__init__()

    @property
    def is_discrete(self):
        """Whether the set is countable."""
        if self._is_discrete is NotImplemented:
            raise NotImplementedError('.is_discrete cannot be determined statically')
        return self._is_discrete

    @property
    def event_dim(self):
        """How many of the last dimensions make one value."""
        if self._event_dim is NotImplemented:
            raise NotImplementedError('.event_dim cannot be determined statically')
        return self._event_dim

    def __call__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        return _Dependent(is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
                          event_dim=self._event_dim if event_dim is NotImplemented else event_dim)

    def check(self, x):
        """Raises: the set is not known."""
        raise ValueError('Cannot determine validity of dependent constraint')


def is_dependent(constraint):
    """is_dependent(constraint): whether the set depends on parameters."""
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property whose value is a constraint; on the class it is a dependent constraint."""

    def __init__(self, fn=None, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        super().__init__(fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn):
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _IndependentConstraint(Constraint):
    """A constraint whose last dimensions belong together."""

    def __init__(self, base_constraint, reinterpreted_batch_ndims):
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims
        super().__init__()

    @property
    def is_discrete(self):
        """Whether the set is countable."""
        return self.base_constraint.is_discrete

    @property
    def event_dim(self):
        """How many of the last dimensions make one value."""
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value):
        """Whether all values of an event are in the base set."""
        result = self.base_constraint.check(value)
        if result.ndim < self.reinterpreted_batch_ndims:
            expected = self.base_constraint.event_dim + self.reinterpreted_batch_ndims
            raise ValueError(f'Expected value.dim() >= {expected} but got {value.ndim}')
        kept = result.shape[:result.ndim - self.reinterpreted_batch_ndims]
        return result.reshape(*kept, -1).all(-1)

    def __repr__(self):
        return f'Independent({self.base_constraint!r}, {self.reinterpreted_batch_ndims})'


class MixtureSameFamilyConstraint(Constraint):
    """The support of a mixture: that of its components, without their dimension."""

    def __init__(self, base_constraint):
        self.base_constraint = base_constraint
        super().__init__()

    @property
    def is_discrete(self):
        """Whether the set is countable."""
        return self.base_constraint.is_discrete

    @property
    def event_dim(self):
        """How many of the last dimensions make one value."""
        return self.base_constraint.event_dim

    def check(self, value):
        """Whether a value is in the support of all components."""
        inside = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        if value.ndim < self.event_dim:
            raise ValueError(f'Expected value.dim() >= {self.event_dim} but got {value.ndim}')
        kept = value.ndim - self.event_dim
        return inside.reshape(*inside.shape[:kept], -1).all(-1)

    def __repr__(self):
        return f'{self.__class__.__name__}({self.base_constraint!r})'


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value):
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value):
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Bounded(Constraint):
    """Between two bounds; the names of those that exist are in the representation."""

    def __init__(self, lower_bound=None, upper_bound=None):
        self.lower_bound, self.upper_bound = lower_bound, upper_bound
        super().__init__()

    def __repr__(self):
        bounds = [f'{name}={value}' for name, value in (('lower_bound', self.lower_bound), ('upper_bound', self.upper_bound))
                  if value is not None]
        return f'{self.__class__.__name__[1:]}({", ".join(bounds)})'


class _IntegerInterval(_Bounded):
    is_discrete = True

    def check(self, value):
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerLessThan(_Bounded):
    is_discrete = True

    def __init__(self, upper_bound):
        super().__init__(None, upper_bound)

    def check(self, value):
        return (value % 1 == 0) & (value <= self.upper_bound)


class _IntegerGreaterThan(_Bounded):
    is_discrete = True

    def check(self, value):
        return (value % 1 == 0) & (value >= self.lower_bound)


class _Real(Constraint):
    def check(self, value):
        return value == value  # not NaN


class _GreaterThan(_Bounded):
    def check(self, value):
        return self.lower_bound < value


class _GreaterThanEq(_Bounded):
    def check(self, value):
        return self.lower_bound <= value


class _LessThan(_Bounded):
    def __init__(self, upper_bound):
        super().__init__(None, upper_bound)

    def check(self, value):
        return value < self.upper_bound


class _Interval(_Bounded):
    def check(self, value):
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Bounded):
    def check(self, value):
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value):
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound):
        self.upper_bound = upper_bound

    def check(self, x):
        return (x >= 0).all(-1) & (x.sum(-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value):
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(Constraint):
    event_dim = 2

    def check(self, value):
        return lower_triangular.check(value) & (value.diagonal(0, -2, -1) > 0).all(-1)


class _CorrCholesky(Constraint):
    event_dim = 2

    def check(self, value):
        tolerance = (1.1920928955078125e-07 if value.dtype != gt.float64 else 2.220446049250313e-16) * value.shape[-1] * 10
        lengths = value.square().sum(-1).sqrt()
        return lower_cholesky.check(value) & ((lengths - 1).abs() < tolerance).all(-1)


class _Square(Constraint):
    event_dim = 2

    def check(self, value):
        return gt.full(value.shape[:-2], value.shape[-2] == value.shape[-1], dtype=gt.bool)


class _Symmetric(_Square):
    def check(self, value):
        if value.shape[-2] != value.shape[-1]:
            return super().check(value)
        return gt.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value):
        symmetric_check = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return symmetric_check
        return symmetric_check & (gt.linalg.eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value):
        symmetric_check = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return symmetric_check
        return symmetric_check & (gt.linalg.eigvalsh(value) > 0).all(-1)


class _Cat(Constraint):
    """Several constraints, each for a part along a dimension."""

    def __init__(self, cseq, dim=0, lengths=None):
        self.cseq = list(cseq)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        self.dim = dim
        super().__init__()

    @property
    def is_discrete(self):
        """Whether any part is countable."""
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self):
        """The largest of the parts."""
        return max(c.event_dim for c in self.cseq)

    def check(self, value):
        parts, start = [], 0
        for constraint, length in zip(self.cseq, self.lengths):
            parts.append(constraint.check(value.narrow(self.dim, start, length)))
            start += length
        return gt.cat(parts, self.dim)


class _Stack(Constraint):
    """Several constraints, one for each position along a dimension."""

    def __init__(self, cseq, dim=0):
        self.cseq, self.dim = list(cseq), dim
        super().__init__()

    @property
    def is_discrete(self):
        """Whether any of them is countable."""
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self):
        """The largest of them, one more if the stacked dimension is part of an event."""
        dim = max(c.event_dim for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value):
        pieces = [value.select(self.dim, k) for k in range(value.shape[self.dim])]
        return gt.stack([c.check(v) for v, c in zip(pieces, self.cseq)], self.dim)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack

__dir__ = _help.publish(__name__)
