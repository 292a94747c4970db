"""Distributions with a location and a scale: Normal, LogNormal's base, Cauchy, Laplace, Gumbel, Uniform, StudentT, and the
half ones."""

import math

import gt
from gt.distributions import constraints
from gt.distributions.distribution import Distribution, ExponentialFamily
from gt.distributions.utils import broadcast_all, eps_of, euler_constant, standard_normal, tiny_of


class _LocationScale(Distribution):
    """loc and scale, broadcast to one shape."""

    arg_constraints = {'loc': constraints.real, 'scale': constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self._check_numbers(validate_args, loc=loc, scale=scale)
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        return self._expanded(_instance, batch_shape, (), loc=self.loc.expand(batch_shape),
                              scale=self.scale.expand(batch_shape))

    @property
    def mode(self):
        """The most likely value."""
        return self.loc


class Normal(_LocationScale, ExponentialFamily):
    """The normal distribution.

    >>> Normal(0.0, 1.0).log_prob(gt.tensor(0.0))
    tensor(-0.9189)
    """

    _mean_carrier_measure = 0

    @property
    def mean(self):
        """The mean."""
        return self.loc

    @property
    def stddev(self):
        """The standard deviation."""
        return self.scale

    @property
    def variance(self):
        """The variance."""
        return self.stddev.pow(2)

    def rsample(self, sample_shape=()):
        """rsample(sample_shape=()): values with gradients."""
        return self.loc + standard_normal(self._extended_shape(sample_shape), self.loc.dtype) * self.scale

    def log_prob(self, value):
        """log_prob(value): the logarithm of the density."""
        self._validate_sample(value)
        return -((value - self.loc) ** 2) / (2 * self.scale ** 2) - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value):
        """cdf(value): the probability of values up to this one."""
        self._validate_sample(value)
        return 0.5 * (1 + ((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)).erf())

    def icdf(self, value):
        """icdf(value): the inverse of cdf."""
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self):
        """entropy(): the entropy, in nats."""
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()

    @property
    def _natural_params(self):
        return self.loc / self.scale.pow(2), -0.5 * self.scale.pow(2).reciprocal()

    def _log_normalizer(self, x, y):
        return -0.25 * x.pow(2) / y + 0.5 * (-math.pi / y).log()


class Cauchy(_LocationScale):
    """The Cauchy distribution: a quotient of two normal numbers, moved and scaled."""

    @property
    def mean(self):
        """NaN: there is none."""
        return gt.full(self._extended_shape(), math.nan, dtype=self.loc.dtype)

    @property
    def variance(self):
        """Infinity."""
        return gt.full(self._extended_shape(), math.inf, dtype=self.loc.dtype)

    def rsample(self, sample_shape=()):
        """rsample(sample_shape=()): values with gradients."""
        eps = gt.zeros(self._extended_shape(sample_shape), dtype=self.loc.dtype).cauchy_()
        return self.loc + eps * self.scale

    def log_prob(self, value):
        """log_prob(value): the logarithm of the density."""
        self._validate_sample(value)
        return -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()

    def cdf(self, value):
        """cdf(value): the probability of values up to this one."""
        self._validate_sample(value)
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value):
        """icdf(value): the inverse of cdf."""
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self):
        """entropy(): the entropy, in nats."""
        return math.log(4 * math.pi) + self.scale.log()


class Laplace(_LocationScale):
    """The Laplace distribution: the density falls off exponentially on both sides."""

    @property
    def mean(self):
        """The mean."""
        return self.loc

    @property
    def variance(self):
        """The variance."""
        return 2 * self.scale.pow(2)

    @property
    def stddev(self):
        """The standard deviation."""
        return 2 ** 0.5 * self.scale

    def rsample(self, sample_shape=()):
        """rsample(sample_shape=()): values with gradients."""
        dtype = self.loc.dtype
        u = gt.rand(self._extended_shape(sample_shape), dtype=dtype) * 2 - 1
        return self.loc - self.scale * u.sign() * (-u.abs().clamp(max=1 - eps_of(dtype) / 2)).log1p()

    def log_prob(self, value):
        """log_prob(value): the logarithm of the density."""
        self._validate_sample(value)
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value):
        """cdf(value): the probability of values up to this one."""
        self._validate_sample(value)
        side = (value - self.loc).sign()
        return 0.5 - 0.5 * side * (-(value - self.loc).abs() / self.scale).expm1()

    def icdf(self, value):
        """icdf(value): the inverse of cdf."""
        term = value - 0.5
        return self.loc - self.scale * term.sign() * (-2 * term.abs()).log1p()

    def entropy(self):
        """entropy(): the entropy, in nats."""
        return 1 + (2 * self.scale).log()


class Gumbel(_LocationScale):
    """The Gumbel distribution: the largest of many."""

    def rsample(self, sample_shape=()):
        """rsample(sample_shape=()): values with gradients."""
        dtype = self.loc.dtype
        u = gt.rand(self._extended_shape(sample_shape), dtype=dtype).clamp(min=tiny_of(dtype), max=1 - eps_of(dtype))
        return self.loc - self.scale * (-u.log()).log()

    def log_prob(self, value):
        """log_prob(value): the logarithm of the density."""
        self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    def cdf(self, value):
        """cdf(value): the probability of values up to this one."""
        self._validate_sample(value)
        return (-(-(value - self.loc) / self.scale).exp()).exp()

    def icdf(self, value):
        """icdf(value): the inverse of cdf."""
        return self.loc - self.scale * (-value.log()).log()

    @property
    def mean(self):
        """The mean."""
        return self.loc + self.scale * euler_constant

    @property
    def stddev(self):
        """The standard deviation."""
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self):
        """The variance."""
        return self.stddev.pow(2)

    def entropy(self):
        """entropy(): the entropy, in nats."""
        return self.scale.log() + (1 + euler_constant)


class StudentT(Distribution):
    """Student's t-distribution with df degrees of freedom."""

    arg_constraints = {'df': constraints.positive, 'loc': constraints.real, 'scale': constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, df, loc=0.0, scale=1.0, validate_args=None):
        self._check_numbers(validate_args, df=df, loc=loc, scale=scale)
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        return self._expanded(_instance, batch_shape, (), df=self.df.expand(batch_shape),
                              loc=self.loc.expand(batch_shape), scale=self.scale.expand(batch_shape))

    @property
    def mean(self):
        """The mean; NaN unless df > 1."""
        return gt.where(self.df <= 1, math.nan, self.loc)

    @property
    def mode(self):
        """The most likely value."""
        return self.loc

    @property
    def variance(self):
        """The variance; infinity for 1 < df <= 2, NaN below."""
        wide = self.scale.pow(2) * self.df / (self.df - 2)
        return gt.where(self.df > 2, wide, gt.where(self.df > 1, gt.full_like(self.df, math.inf), math.nan))

    def rsample(self, sample_shape=()):
        """rsample(sample_shape=()): values with gradients."""
        shape = self._extended_shape(sample_shape)
        x = standard_normal(shape, self.df.dtype)
        z = gt._standard_gamma((self.df * 0.5).expand(shape)) * 2
        return self.loc + self.scale * x * (z / self.df).rsqrt()

    def log_prob(self, value):
        """log_prob(value): the logarithm of the density."""
        self._validate_sample(value)
        y = (value - self.loc) / self.scale
        z = (self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi) + (0.5 * self.df).lgamma()
             - (0.5 * (self.df + 1)).lgamma())
        return -0.5 * (self.df + 1) * (y ** 2 / self.df).log1p() - z

    def entropy(self):
        """entropy(): the entropy, in nats."""
        log_beta = (0.5 * self.df).lgamma() + math.lgamma(0.5) - (0.5 * (self.df + 1)).lgamma()
        return (self.scale.log() + 0.5 * (self.df + 1) * ((0.5 * (self.df + 1)).digamma() - (0.5 * self.df).digamma())
                + 0.5 * self.df.log() + log_beta)


class Uniform(Distribution):
    """Equally likely values in [low, high)."""

    has_rsample = True

    @property
    def arg_constraints(self):
        """The constraints of the parameters, by name."""
        return {'low': constraints.dependent(is_discrete=False, event_dim=0),
                'high': constraints.dependent(is_discrete=False, event_dim=0)}

    def __init__(self, low, high, validate_args=None):
        numbers = not isinstance(low, gt.Tensor) and not isinstance(high, gt.Tensor)
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)
        known = numbers and self._validate_args is not False
        if (known and not low < high) or (self._validate_args and not (self.low < self.high).all()):
            raise ValueError('Uniform is not defined when low>= high')

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        return self._expanded(_instance, batch_shape, (), low=self.low.expand(batch_shape), high=self.high.expand(batch_shape))

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        """Between low and high."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self):
        """The mean."""
        return (self.high + self.low) / 2

    @property
    def mode(self):
        """NaN: all are equally likely."""
        return math.nan * self.high

    @property
    def stddev(self):
        """The standard deviation."""
        return (self.high - self.low) / 12 ** 0.5

    @property
    def variance(self):
        """The variance."""
        return (self.high - self.low).pow(2) / 12

    def rsample(self, sample_shape=()):
        """rsample(sample_shape=()): values with gradients."""
        return self.low + gt.rand(self._extended_shape(sample_shape), dtype=self.low.dtype) * (self.high - self.low)

    def log_prob(self, value):
        """log_prob(value): the logarithm of the density."""
        self._validate_sample(value)
        inside = self.low.le(value).to(self.low.dtype) * self.high.gt(value).to(self.low.dtype)
        return inside.log() - (self.high - self.low).log()

    def cdf(self, value):
        """cdf(value): the probability of values up to this one."""
        self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value):
        """icdf(value): the inverse of cdf."""
        return value * (self.high - self.low) + self.low

    def entropy(self):
        """entropy(): the entropy, in nats."""
        return (self.high - self.low).log()
