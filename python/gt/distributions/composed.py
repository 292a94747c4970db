"""Distributions made of others: Independent, TransformedDistribution and what is built on it, MixtureSameFamily."""

import math

import gt
from gt.distributions import constraints
from gt.distributions.discrete import Categorical
from gt.distributions.distribution import Distribution
from gt.distributions.location import Cauchy, Normal, Uniform
from gt.distributions.positive import Exponential, Gamma
from gt.distributions.transforms import (
    AbsTransform, AffineTransform, ComposeTransform, ExpTransform, PowerTransform, StickBreakingTransform, Transform)
from gt.distributions.utils import broadcast_all, euler_constant, sum_rightmost


class Independent(Distribution):
    """A distribution whose last batch dimensions are part of one event.

    >>> Independent(Normal(gt.zeros(3, 2), gt.ones(3, 2)), 1).log_prob(gt.zeros(2)).shape
    (3,)
    """

    arg_constraints = {}

    def __init__(self, base_distribution, reinterpreted_batch_ndims, validate_args=None):
        if reinterpreted_batch_ndims > len(base_distribution.batch_shape):
            raise ValueError('Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual '
                             f'{reinterpreted_batch_ndims} vs {len(base_distribution.batch_shape)}')
        shape = base_distribution.batch_shape + base_distribution.event_shape
        event_dim = reinterpreted_batch_ndims + len(base_distribution.event_shape)
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        super().__init__(shape[:len(shape) - event_dim], shape[len(shape) - event_dim:], validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        batch_shape = tuple(batch_shape)
        base = self.base_dist.expand(batch_shape + self.event_shape[:self.reinterpreted_batch_ndims])
        return self._expanded(_instance, batch_shape, self.event_shape, base_dist=base,
                              reinterpreted_batch_ndims=self.reinterpreted_batch_ndims)

    @property
    def has_rsample(self):
        """Whether samples have gradients."""
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self):
        """Whether all values can be listed."""
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self):
        """The base's, with more dimensions."""
        result = self.base_dist.support
        return constraints.independent(result, self.reinterpreted_batch_ndims) if self.reinterpreted_batch_ndims else result

    mean = property(lambda self: self.base_dist.mean, doc='The mean.')
    mode = property(lambda self: self.base_dist.mode, doc='The most likely value.')
    variance = property(lambda self: self.base_dist.variance, doc='The variance.')

    def sample(self, sample_shape=()):
        """sample(sample_shape=()): values, without gradients."""
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape=()):
        """rsample(sample_shape=()): values with gradients."""
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value):
        """log_prob(value): added up over the event."""
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self):
        """entropy(): added up over the event."""
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand=True):
        """enumerate_support(expand=True): the base's."""
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError('Enumeration over cartesian product is not implemented')
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self):
        return f'{self.__class__.__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})'


class TransformedDistribution(Distribution):
    """The distribution of f(x), where x has a base distribution and f is one or several transforms.

    >>> TransformedDistribution(Normal(0.0, 1.0), [ExpTransform()]).log_prob(gt.tensor(1.0))
    tensor(-0.9189)
    """

    arg_constraints = {}

    def __init__(self, base_distribution, transforms, validate_args=None):
        if isinstance(transforms, Transform):
            self.transforms = [transforms]
        elif isinstance(transforms, list) and all(isinstance(t, Transform) for t in transforms):
            self.transforms = transforms
        else:
            raise ValueError(f'transforms must be a Transform or list, but was {transforms}')
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        base_event_dim = len(base_distribution.event_shape)
        transform = ComposeTransform(self.transforms)
        if len(base_shape) < transform.domain.event_dim:
            raise ValueError(f'base_distribution needs to have shape with size at least {transform.domain.event_dim}, but got '
                             f'{base_shape}.')
        forward_shape = transform.forward_shape(base_shape)
        expanded = transform.inverse_shape(forward_shape)
        if base_shape != expanded:
            base_distribution = base_distribution.expand(expanded[:len(expanded) - base_event_dim])
        reinterpreted = transform.domain.event_dim - base_event_dim
        self.base_dist = Independent(base_distribution, reinterpreted) if reinterpreted > 0 else base_distribution
        event_dim = transform.codomain.event_dim + max(base_event_dim - transform.domain.event_dim, 0)
        cut = len(forward_shape) - event_dim
        super().__init__(forward_shape[:cut], forward_shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        batch_shape = tuple(batch_shape)
        transform = ComposeTransform(self.transforms)
        shape = transform.inverse_shape(batch_shape + self.event_shape)
        base = self.base_dist.expand(shape[:len(shape) - len(self.base_dist.event_shape)])
        new = self._get_checked_instance(TransformedDistribution, _instance)
        new.base_dist, new.transforms = base, self.transforms
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self):
        """The codomain of the last transform."""
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self.event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    @property
    def has_rsample(self):
        """Whether samples have gradients."""
        return self.base_dist.has_rsample

    def sample(self, sample_shape=()):
        """sample(sample_shape=()): values, without gradients."""
        with gt.no_grad():
            x = self.base_dist.sample(sample_shape)
            for transform in self.transforms:
                x = transform(x)
            return x

    def rsample(self, sample_shape=()):
        """rsample(sample_shape=()): values with gradients."""
        x = self.base_dist.rsample(sample_shape)
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value):
        """log_prob(value): the base's of the inverse, less the logarithms of the Jacobians."""
        self._validate_sample(value)
        event_dim, log_prob, y = len(self.event_shape), 0.0, value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            log_prob = log_prob - sum_rightmost(transform.log_abs_det_jacobian(x, y), event_dim - transform.domain.event_dim)
            y = x
        return log_prob + sum_rightmost(self.base_dist.log_prob(y), event_dim - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value):
        sign = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value):
        """cdf(value): the base's of the inverse."""
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value):
        """icdf(value): the transformed inverse of the base."""
        value = self.base_dist.icdf(self._monotonize_cdf(value))
        for transform in self.transforms:
            value = transform(value)
        return value


class _Half(TransformedDistribution):
    """The magnitude of a symmetric distribution around 0."""

    arg_constraints = {'scale': constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _base = None

    def __init__(self, scale, validate_args=None):
        self._check_numbers(validate_args, scale=scale)
        super().__init__(self._base(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        return super().expand(batch_shape, self._get_checked_instance(type(self), _instance))

    scale = property(lambda self: self.base_dist.scale, doc='The scale.')

    @property
    def mode(self):
        """0."""
        return gt.zeros_like(self.scale)

    def log_prob(self, value):
        """log_prob(value): the logarithm of the density."""
        value = value if isinstance(value, gt.Tensor) else gt.tensor(value, dtype=self.scale.dtype)
        self._validate_sample(value)
        return gt.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value):
        """cdf(value): the probability of values up to this one."""
        self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob):
        """icdf(prob): the inverse of cdf."""
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self):
        """entropy(): the entropy, in nats."""
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """The magnitude of a normal number."""

    _base = Normal

    @property
    def mean(self):
        """The mean."""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self):
        """The variance."""
        return self.scale.pow(2) * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """The magnitude of a Cauchy number."""

    _base = Cauchy

    @property
    def mean(self):
        """Infinity."""
        return gt.full(self._extended_shape(), math.inf, dtype=self.scale.dtype)

    @property
    def variance(self):
        """Infinity."""
        return self.base_dist.variance


class LogNormal(TransformedDistribution):
    """The exponential of a normal number."""

    arg_constraints = {'loc': constraints.real, 'scale': constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self._check_numbers(validate_args, loc=loc, scale=scale)
        super().__init__(Normal(loc, scale, validate_args=validate_args), ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        return super().expand(batch_shape, self._get_checked_instance(LogNormal, _instance))

    loc = property(lambda self: self.base_dist.loc, doc='The mean of the logarithm.')
    scale = property(lambda self: self.base_dist.scale, doc='The standard deviation of the logarithm.')

    @property
    def mean(self):
        """The mean."""
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self):
        """The most likely value."""
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self):
        """The variance."""
        square = self.scale.pow(2)
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self):
        """entropy(): the entropy, in nats."""
        return self.base_dist.entropy() + self.loc


class InverseGamma(TransformedDistribution):
    """1 over a gamma number."""

    arg_constraints = {'concentration': constraints.positive, 'rate': constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, concentration, rate, validate_args=None):
        self._check_numbers(validate_args, concentration=concentration, rate=rate)
        base = Gamma(concentration, rate, validate_args=validate_args)
        minus_one = -gt.ones((), dtype=base.rate.dtype)
        super().__init__(base, PowerTransform(minus_one), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        return super().expand(batch_shape, self._get_checked_instance(InverseGamma, _instance))

    concentration = property(lambda self: self.base_dist.concentration, doc='The shape.')
    rate = property(lambda self: self.base_dist.rate, doc='The rate.')

    @property
    def mean(self):
        """The mean; infinity unless concentration > 1."""
        return gt.where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf)

    @property
    def mode(self):
        """The most likely value."""
        return self.rate / (self.concentration + 1)

    @property
    def variance(self):
        """The variance; infinity unless concentration > 2."""
        value = self.rate.square() / ((self.concentration - 1).square() * (self.concentration - 2))
        return gt.where(self.concentration > 2, value, math.inf)

    def entropy(self):
        """entropy(): the entropy, in nats."""
        return (self.concentration + self.rate.log() + self.concentration.lgamma()
                - (1 + self.concentration) * self.concentration.digamma())


class Weibull(TransformedDistribution):
    """A power of an exponential number: scale * x ** (1 / concentration)."""

    arg_constraints = {'scale': constraints.positive, 'concentration': constraints.positive}
    support = constraints.positive

    def __init__(self, scale, concentration, validate_args=None):
        self._check_numbers(validate_args, scale=scale, concentration=concentration)
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(gt.ones_like(self.scale), validate_args=validate_args)
        super().__init__(base, [PowerTransform(self.concentration_reciprocal), AffineTransform(0, self.scale)],
                         validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        new = self._get_checked_instance(Weibull, _instance)
        new.scale, new.concentration = self.scale.expand(batch_shape), self.concentration.expand(batch_shape)
        new.concentration_reciprocal = new.concentration.reciprocal()
        base = self.base_dist.expand(batch_shape)
        TransformedDistribution.__init__(new, base, [PowerTransform(new.concentration_reciprocal), AffineTransform(0, new.scale)],
                                         validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def mean(self):
        """The mean."""
        return self.scale * (1 + self.concentration_reciprocal).lgamma().exp()

    @property
    def mode(self):
        """The most likely value."""
        return self.scale * ((self.concentration - 1) / self.concentration) ** self.concentration.reciprocal()

    @property
    def variance(self):
        """The variance."""
        return self.scale.pow(2) * ((1 + 2 * self.concentration_reciprocal).lgamma().exp()
                                    - (2 * (1 + self.concentration_reciprocal).lgamma()).exp())

    def entropy(self):
        """entropy(): the entropy, in nats."""
        return (euler_constant * (1 - self.concentration_reciprocal) + (self.scale * self.concentration_reciprocal).log() + 1)


class Pareto(TransformedDistribution):
    """The Pareto distribution: scale * exp(x / alpha) of an exponential number x."""

    arg_constraints = {'alpha': constraints.positive, 'scale': constraints.positive}

    def __init__(self, scale, alpha, validate_args=None):
        self._check_numbers(validate_args, scale=scale, alpha=alpha)
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(0, self.scale)], validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        new = self._get_checked_instance(Pareto, _instance)
        new.scale, new.alpha = self.scale.expand(batch_shape), self.alpha.expand(batch_shape)
        return super().expand(batch_shape, _instance=new)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        """From the scale on."""
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self):
        """The mean; infinity unless alpha > 1."""
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self):
        """The scale."""
        return self.scale

    @property
    def variance(self):
        """The variance; infinity unless alpha > 2."""
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    def entropy(self):
        """entropy(): the entropy, in nats."""
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Kumaraswamy(TransformedDistribution):
    """The Kumaraswamy distribution: close to Beta, with a simple distribution function."""

    arg_constraints = {'concentration1': constraints.positive, 'concentration0': constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1, concentration0, validate_args=None):
        self._check_numbers(validate_args, concentration1=concentration1, concentration0=concentration0)
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(gt.full_like(self.concentration0, 0), gt.full_like(self.concentration0, 1), validate_args=validate_args)
        super().__init__(base, self._steps(), validate_args=validate_args)

    def _steps(self):
        return [PowerTransform(self.concentration0.reciprocal()), AffineTransform(1.0, -1.0),
                PowerTransform(self.concentration1.reciprocal())]

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        new = self._get_checked_instance(Kumaraswamy, _instance)
        new.concentration1 = self.concentration1.expand(batch_shape)
        new.concentration0 = self.concentration0.expand(batch_shape)
        return super().expand(batch_shape, _instance=new)

    def _moment(self, n):
        value = 1 + n / self.concentration1
        log = self.concentration0.lgamma() + value.lgamma() - (value + self.concentration0).lgamma()
        return self.concentration0 * log.exp()

    @property
    def mean(self):
        """The mean."""
        return self._moment(1)

    @property
    def mode(self):
        """The most likely value; NaN where there is none."""
        a, b = self.concentration1, self.concentration0
        mode = (a.reciprocal() * ((a - 1) / (a * b - 1)).log()).exp()
        return gt.where((b < 1) | (a < 1), math.nan, mode)

    @property
    def variance(self):
        """The variance."""
        return self._moment(2) - self.mean.pow(2)

    def entropy(self):
        """entropy(): the entropy, in nats."""
        t1, t0 = 1 - self.concentration1.reciprocal(), 1 - self.concentration0.reciprocal()
        harmonic = (self.concentration0 + 1).digamma() + euler_constant
        return t0 + t1 * harmonic - self.concentration1.log() - self.concentration0.log()


class LogisticNormal(TransformedDistribution):
    """Shares by breaking a stick at normal numbers."""

    arg_constraints = {'loc': constraints.real, 'scale': constraints.positive}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        base = Normal(loc, scale, validate_args=validate_args)
        base = base if base.batch_shape else base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        return super().expand(batch_shape, self._get_checked_instance(LogisticNormal, _instance))

    loc = property(lambda self: self.base_dist.base_dist.loc, doc='The means.')
    scale = property(lambda self: self.base_dist.base_dist.scale, doc='The standard deviations.')


class MixtureSameFamily(Distribution):
    """A mixture: one of the components, which are the last batch dimension of one distribution."""

    arg_constraints = {}
    has_rsample = False

    def __init__(self, mixture_distribution, component_distribution, validate_args=None):
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(' The Mixture distribution needs to be an  instance of torch.distributions.Categorical')
        if not isinstance(component_distribution, Distribution):
            raise ValueError('The Component distribution need to be an instance of torch.distributions.Distribution')
        mixture, components = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        for size1, size2 in zip(reversed(mixture), reversed(components)):
            if size1 != 1 and size2 != 1 and size1 != size2:
                raise ValueError(f'`mixture_distribution.batch_shape` ({mixture}) is not compatible with '
                                 f'`component_distribution.batch_shape`({components})')
        k = mixture_distribution.logits.shape[-1]
        if k != component_distribution.batch_shape[-1]:
            raise ValueError(f'`mixture_distribution component` ({k}) does not equal `component_distribution.batch_shape[-1]` '
                             f'({component_distribution.batch_shape[-1]})')
        self._num_component = k
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(components, event_shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        batch_shape = tuple(batch_shape)
        return self._expanded(_instance, batch_shape, self._event_shape, _num_component=self._num_component,
                              _event_ndims=self._event_ndims,
                              _component_distribution=self._component_distribution.expand(batch_shape + (self._num_component,)),
                              _mixture_distribution=self._mixture_distribution.expand(batch_shape))

    @constraints.dependent_property
    def support(self):
        """The components'."""
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    mixture_distribution = property(lambda self: self._mixture_distribution, doc='Which component.')
    component_distribution = property(lambda self: self._component_distribution, doc='The components.')

    def _pad(self, x):
        return x.unsqueeze(-1 - self._event_ndims)

    def _weights(self):
        probs = self.mixture_distribution.probs
        return probs.reshape(*probs.shape, *[1] * self._event_ndims)

    @property
    def mean(self):
        """The mean."""
        return (self._weights() * self.component_distribution.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self):
        """The variance: within the components and between them."""
        weights, dim = self._weights(), -1 - self._event_ndims
        within = (weights * self.component_distribution.variance).sum(dim)
        between = (weights * (self.component_distribution.mean - self._pad(self.mean)).pow(2.0)).sum(dim)
        return within + between

    def cdf(self, x):
        """cdf(x): the weighted sum."""
        return (self.component_distribution.cdf(self._pad(x)) * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, x):
        """log_prob(x): the logarithm of the weighted sum."""
        self._validate_sample(x)
        log_prob = self.component_distribution.log_prob(self._pad(x))
        return (log_prob + self.mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape=()):
        """sample(sample_shape=()): values, without gradients."""
        with gt.no_grad():
            sample_shape = (sample_shape,) if isinstance(sample_shape, int) else tuple(sample_shape)
            mixed = self.mixture_distribution.sample(sample_shape)
            shape = tuple(mixed.shape) + (1,) * (self._event_ndims + 1)
            values = self.component_distribution.sample(sample_shape)
            dim = len(sample_shape) + len(self.batch_shape)
            index = mixed.reshape(shape).expand((*mixed.shape, 1, *self._event_shape))
            return values.gather(dim, index).squeeze(dim)

    def __repr__(self):
        return f'MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})'


__all__ = ['HalfCauchy', 'HalfNormal', 'Independent', 'InverseGamma', 'Kumaraswamy', 'LogNormal', 'LogisticNormal',
           'MixtureSameFamily', 'Pareto', 'TransformedDistribution', 'Weibull']
