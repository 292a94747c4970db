"""Transforms that apply others to parts of a tensor, and the distribution function of a distribution as a transform."""

import gt
from gt.distributions import constraints
from gt.distributions.transforms import Transform


class CatTransform(Transform):
    """Several transforms, each for a part along a dimension."""

    def __init__(self, tseq, dim=0, lengths=None, cache_size=0):
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        super().__init__(cache_size=cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        self.dim = dim

    @property
    def event_dim(self):
        """The largest of the parts."""
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self):
        """The sum of the lengths."""
        return sum(self.lengths)

    @property
    def bijective(self):
        """Whether all are."""
        return all(t.bijective for t in self.transforms)

    @property
    def domain(self):
        """The domains, side by side."""
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self):
        """The codomains, side by side."""
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)

    def with_cache(self, cache_size=1):
        """with_cache(cache_size=1): the same transform with another cache."""
        return self if self._cache_size == cache_size else CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, x):
        start = 0
        for transform, length in zip(self.transforms, self.lengths):
            yield transform, x.narrow(self.dim, start, length)
            start += length

    def _call(self, x):
        return gt.cat([t(part) for t, part in self._parts(x)], self.dim)

    def _inverse_of(self, y):
        return gt.cat([t.inv(part) for t, part in self._parts(y)], self.dim)

    def log_abs_det_jacobian(self, x, y):
        """log_abs_det_jacobian(x, y): each part's."""
        terms = []
        for (t, a), (_, b) in zip(self._parts(x), self._parts(y)):
            term = t.log_abs_det_jacobian(a, b)
            extra = self.event_dim - t.event_dim
            terms.append(term if extra == 0 else term.reshape(*term.shape[:term.ndim - extra], -1).sum(-1))
        dim = self.dim - x.ndim if self.dim >= 0 else self.dim
        dim += self.event_dim
        return gt.cat(terms, dim) if dim < 0 else sum(terms)


class StackTransform(Transform):
    """Several transforms, one for each position along a dimension."""

    def __init__(self, tseq, dim=0, cache_size=0):
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        super().__init__(cache_size=cache_size)
        self.dim = dim

    @property
    def bijective(self):
        """Whether all are."""
        return all(t.bijective for t in self.transforms)

    @property
    def domain(self):
        """The domains, stacked."""
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @property
    def codomain(self):
        """The codomains, stacked."""
        return constraints.stack([t.codomain for t in self.transforms], self.dim)

    def with_cache(self, cache_size=1):
        """with_cache(cache_size=1): the same transform with another cache."""
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _slices(self, x):
        return [x.select(self.dim, k) for k in range(x.shape[self.dim])]

    def _call(self, x):
        return gt.stack([t(part) for part, t in zip(self._slices(x), self.transforms)], self.dim)

    def _inverse_of(self, y):
        return gt.stack([t.inv(part) for part, t in zip(self._slices(y), self.transforms)], self.dim)

    def log_abs_det_jacobian(self, x, y):
        """log_abs_det_jacobian(x, y): each one's."""
        both = zip(self._slices(x), self._slices(y), self.transforms)
        return gt.stack([t.log_abs_det_jacobian(a, b) for a, b, t in both], self.dim)


class CumulativeDistributionTransform(Transform):
    """y = cdf(x) of a distribution over real numbers."""

    bijective, codomain, sign = True, constraints.unit_interval, 1

    def __init__(self, distribution, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self):
        """The distribution's support."""
        return self.distribution.support

    def _call(self, x):
        return self.distribution.cdf(x)

    def _inverse_of(self, y):
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x, y):
        """log_abs_det_jacobian(x, y): log_prob(x)."""
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size=1):
        """with_cache(cache_size=1): the same transform with another cache."""
        return self if self._cache_size == cache_size else CumulativeDistributionTransform(self.distribution, cache_size)
