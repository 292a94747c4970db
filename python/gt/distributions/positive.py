"""Distributions of positive numbers and of shares: Exponential, Gamma and what is made of it."""

import math

import gt
from gt.distributions import constraints
from gt.distributions.distribution import Distribution, ExponentialFamily
from gt.distributions.utils import broadcast_all


class Exponential(ExponentialFamily):
    """The exponential distribution: waiting times at a rate."""

    arg_constraints = {'rate': constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, rate, validate_args=None):
        self._check_numbers(validate_args, rate=rate)
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        return self._expanded(_instance, batch_shape, (), rate=self.rate.expand(batch_shape))

    @property
    def mean(self):
        """The mean."""
        return self.rate.reciprocal()

    @property
    def mode(self):
        """0."""
        return gt.zeros_like(self.rate)

    @property
    def stddev(self):
        """The standard deviation."""
        return self.rate.reciprocal()

    @property
    def variance(self):
        """The variance."""
        return self.rate.pow(-2)

    def rsample(self, sample_shape=()):
        """rsample(sample_shape=()): values with gradients."""
        return gt.zeros(self._extended_shape(sample_shape), dtype=self.rate.dtype).exponential_() / self.rate

    def log_prob(self, value):
        """log_prob(value): the logarithm of the density."""
        self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value):
        """cdf(value): the probability of values up to this one."""
        self._validate_sample(value)
        return 1 - (-self.rate * value).exp()

    def icdf(self, value):
        """icdf(value): the inverse of cdf."""
        return -(-value).log1p() / self.rate

    def entropy(self):
        """entropy(): the entropy, in nats."""
        return 1.0 - self.rate.log()

    @property
    def _natural_params(self):
        return (-self.rate,)

    def _log_normalizer(self, x):
        return -(-x).log()


class Gamma(ExponentialFamily):
    """The gamma distribution with a shape (concentration) and a rate.

    >>> Gamma(gt.tensor([1.0]), gt.tensor([1.0])).mean
    tensor([1.])
    """

    arg_constraints = {'concentration': constraints.positive, 'rate': constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, concentration, rate, validate_args=None):
        self._check_numbers(validate_args, concentration=concentration, rate=rate)
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        return self._expanded(_instance, batch_shape, (), concentration=self.concentration.expand(batch_shape),
                              rate=self.rate.expand(batch_shape))

    @property
    def mean(self):
        """The mean."""
        return self.concentration / self.rate

    @property
    def mode(self):
        """The most likely value."""
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self):
        """The variance."""
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape=()):
        """rsample(sample_shape=()): values with gradients."""
        shape = self._extended_shape(sample_shape)
        value = gt._standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        return value.clamp(min=gt.distributions.utils.tiny_of(value.dtype))

    def log_prob(self, value):
        """log_prob(value): the logarithm of the density."""
        value = value if isinstance(value, gt.Tensor) else gt.tensor(value, dtype=self.rate.dtype)
        self._validate_sample(value)
        return (gt.xlogy(self.concentration, self.rate) + gt.xlogy(self.concentration - 1, value) - self.rate * value
                - self.concentration.lgamma())

    def cdf(self, value):
        """cdf(value): the probability of values up to this one."""
        self._validate_sample(value)
        return gt.special.gammainc(self.concentration, self.rate * value)

    def entropy(self):
        """entropy(): the entropy, in nats."""
        return (self.concentration - self.rate.log() + self.concentration.lgamma()
                + (1.0 - self.concentration) * self.concentration.digamma())

    @property
    def _natural_params(self):
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x, y):
        return (x + 1).lgamma() + (x + 1) * (-y.reciprocal()).log()


class Chi2(Gamma):
    """The chi-squared distribution with df degrees of freedom: Gamma(df / 2, 1 / 2)."""

    arg_constraints = {'df': constraints.positive}

    def __init__(self, df, validate_args=None):
        self._check_numbers(validate_args, df=df)
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        return super().expand(batch_shape, self._get_checked_instance(Chi2, _instance))

    @property
    def df(self):
        """The degrees of freedom."""
        return self.concentration * 2


class Dirichlet(ExponentialFamily):
    """The Dirichlet distribution: shares that add up to 1, along the last dimension."""

    arg_constraints = {'concentration': constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration, validate_args=None):
        if concentration.ndim < 1:
            raise ValueError('`concentration` parameter must be at least one-dimensional.')
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        batch_shape = tuple(batch_shape)
        return self._expanded(_instance, batch_shape, self._event_shape,
                              concentration=self.concentration.expand(batch_shape + self._event_shape))

    def rsample(self, sample_shape=()):
        """rsample(sample_shape=()): values with gradients."""
        return gt._sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        """log_prob(value): the logarithm of the density."""
        self._validate_sample(value)
        return (gt.xlogy(self.concentration - 1.0, value).sum(-1) + self.concentration.sum(-1).lgamma()
                - self.concentration.lgamma().sum(-1))

    @property
    def mean(self):
        """The mean."""
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self):
        """The most likely value."""
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        flat = (self.concentration < 1).all(-1).unsqueeze(-1)
        corner = gt.nn.functional.one_hot(mode.argmax(-1), self.concentration.shape[-1]).to(mode.dtype)
        return gt.where(flat, corner, mode)

    @property
    def variance(self):
        """The variance."""
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self):
        """entropy(): the entropy, in nats."""
        k, total = self.concentration.shape[-1], self.concentration.sum(-1)
        return (self.concentration.lgamma().sum(-1) - total.lgamma() - (k - total) * total.digamma()
                - ((self.concentration - 1.0) * self.concentration.digamma()).sum(-1))

    @property
    def _natural_params(self):
        return (self.concentration,)

    def _log_normalizer(self, x):
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()


class Beta(ExponentialFamily):
    """The beta distribution: a share between 0 and 1.

    >>> Beta(gt.tensor([0.5]), gt.tensor([0.5])).mean
    tensor([0.5000])
    """

    arg_constraints = {'concentration1': constraints.positive, 'concentration0': constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1, concentration0, validate_args=None):
        self._check_numbers(validate_args, concentration1=concentration1, concentration0=concentration0)
        self._dirichlet = Dirichlet(gt.stack(broadcast_all(concentration1, concentration0), -1), validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        return self._expanded(_instance, batch_shape, (), _dirichlet=self._dirichlet.expand(batch_shape))

    @property
    def mean(self):
        """The mean."""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self):
        """The most likely value."""
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self):
        """The variance."""
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape=()):
        """rsample(sample_shape=()): values with gradients."""
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value):
        """log_prob(value): the logarithm of the density."""
        self._validate_sample(value)
        return self._dirichlet.log_prob(gt.stack([value, 1.0 - value], -1))

    def entropy(self):
        """entropy(): the entropy, in nats."""
        return self._dirichlet.entropy()

    @property
    def concentration1(self):
        """The weight of 1."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self):
        """The weight of 0."""
        return self._dirichlet.concentration[..., 1]

    @property
    def _natural_params(self):
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x, y):
        return x.lgamma() + y.lgamma() - (x + y).lgamma()


class FisherSnedecor(Distribution):
    """The F-distribution: a quotient of two chi-squared numbers, each over its degrees of freedom."""

    arg_constraints = {'df1': constraints.positive, 'df2': constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1, df2, validate_args=None):
        self._check_numbers(validate_args, df1=df1, df2=df2)
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1, self._gamma2 = Gamma(self.df1 * 0.5, self.df1), Gamma(self.df2 * 0.5, self.df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        return self._expanded(_instance, batch_shape, (), df1=self.df1.expand(batch_shape), df2=self.df2.expand(batch_shape),
                              _gamma1=self._gamma1.expand(batch_shape), _gamma2=self._gamma2.expand(batch_shape))

    @property
    def mean(self):
        """The mean; NaN unless df2 > 2."""
        return gt.where(self.df2 <= 2, math.nan, self.df2 / (self.df2 - 2))

    @property
    def mode(self):
        """The most likely value; NaN unless df1 > 2."""
        value = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return gt.where(self.df1 <= 2, math.nan, value)

    @property
    def variance(self):
        """The variance; NaN unless df2 > 4."""
        value = (2 * self.df2.pow(2) * (self.df1 + self.df2 - 2)
                 / (self.df1 * (self.df2 - 2).pow(2) * (self.df2 - 4)))
        return gt.where(self.df2 <= 4, math.nan, value)

    def rsample(self, sample_shape=()):
        """rsample(sample_shape=()): values with gradients."""
        tiny = gt.distributions.utils.tiny_of(self.df1.dtype)
        first, second = self._gamma1.rsample(sample_shape), self._gamma2.rsample(sample_shape).clamp(min=tiny)
        return (first / second).clamp(min=tiny)

    def log_prob(self, value):
        """log_prob(value): the logarithm of the density."""
        self._validate_sample(value)
        half1, half2, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        return ((half1 + half2).lgamma() - half1.lgamma() - half2.lgamma() + half1 * ratio.log()
                + (half1 - 1) * value.log() - (half1 + half2) * (ratio * value).log1p())
