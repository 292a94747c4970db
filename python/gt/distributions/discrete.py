"""Distributions over integers and categories."""

import math

import gt
from gt.distributions import constraints
from gt.distributions.distribution import Distribution, ExponentialFamily
from gt.distributions.utils import (
    broadcast_all, lazy_property, logits_to_probs, probs_to_logits, tiny_of)


def _one_of(probs, logits):
    if (probs is None) == (logits is None):
        raise ValueError('Either `probs` or `logits` must be specified, but not both.')


class _ByProbability(Distribution):
    """Parameterised by probs or by logits, of which one is given and the other is computed when it is needed."""

    _binary = True

    def _set_parameter(self, probs, logits, validate_args):
        _one_of(probs, logits)
        name, value = ('probs', probs) if probs is not None else ('logits', logits)
        self._check_numbers(validate_args, **{name: value})
        (value,) = broadcast_all(value)
        setattr(self, name, value)
        self._param = value
        return value

    def _expanded_parameter(self, _instance, batch_shape, event_shape=(), **fields):
        batch_shape = tuple(batch_shape)
        for name in ('probs', 'logits'):
            if name in self.__dict__:
                fields[name] = fields['_param'] = self.__dict__[name].expand(batch_shape + tuple(event_shape))
        return self._expanded(_instance, batch_shape, event_shape, **fields)

    @lazy_property
    def logits(self):
        """The log-odds."""
        return probs_to_logits(self.probs, is_binary=self._binary)

    @lazy_property
    def probs(self):
        """The probabilities."""
        return logits_to_probs(self.logits, is_binary=self._binary)

    @property
    def param_shape(self):
        """The shape of the parameter that was given."""
        return self._param.shape


class Bernoulli(_ByProbability, ExponentialFamily):
    """1 with probability probs, else 0.

    >>> Bernoulli(gt.tensor([0.3])).log_prob(gt.tensor([1.0]))
    tensor([-1.2040])
    """

    arg_constraints = {'probs': constraints.unit_interval, 'logits': constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(self, probs=None, logits=None, validate_args=None):
        shape = self._set_parameter(probs, logits, validate_args).shape
        super().__init__(shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        return self._expanded_parameter(_instance, batch_shape)

    @property
    def mean(self):
        """The mean."""
        return self.probs

    @property
    def mode(self):
        """The more likely value; NaN if both are."""
        return gt.where(self.probs == 0.5, math.nan, (self.probs >= 0.5).to(self.probs.dtype))

    @property
    def variance(self):
        """The variance."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape=()):
        """sample(sample_shape=()): values, without gradients."""
        with gt.no_grad():
            return gt.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        """log_prob(value): the logarithm of the probability."""
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -gt.nn.functional.binary_cross_entropy_with_logits(logits, value.to(logits.dtype), reduction='none')

    def entropy(self):
        """entropy(): the entropy, in nats."""
        return gt.nn.functional.binary_cross_entropy_with_logits(self.logits, self.probs, reduction='none')

    def enumerate_support(self, expand=True):
        """enumerate_support(expand=True): 0 and 1."""
        values = gt.arange(2, dtype=self._param.dtype).reshape(-1, *[1] * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values

    @property
    def _natural_params(self):
        return (self.probs.logit(),)

    def _log_normalizer(self, x):
        return x.exp().log1p()


class Geometric(_ByProbability):
    """The number of failures before the first success, of probability probs."""

    arg_constraints = {'probs': constraints.unit_interval, 'logits': constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs=None, logits=None, validate_args=None):
        shape = self._set_parameter(probs, logits, validate_args).shape
        known = probs is not None and not isinstance(probs, gt.Tensor)
        super().__init__(shape, validate_args=validate_args)
        checked = self._validate_args is not False and probs is not None
        if checked and ((known and not probs > 0) or (self._validate_args and not (self.probs > 0).all())):
            raise ValueError(f'Expected parameter probs (Tensor of shape {tuple(self.probs.shape)}) of distribution {self!r} '
                             'to be positive but found invalid values:\n' + str(self.probs))

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        return self._expanded_parameter(_instance, batch_shape)

    @property
    def mean(self):
        """The mean."""
        return 1.0 / self.probs - 1.0

    @property
    def mode(self):
        """0."""
        return gt.zeros_like(self.probs)

    @property
    def variance(self):
        """The variance."""
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape=()):
        """sample(sample_shape=()): values, without gradients."""
        with gt.no_grad():
            u = gt.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype).clamp(min=tiny_of(self.probs.dtype))
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value):
        """log_prob(value): the logarithm of the probability."""
        self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        probs = gt.where((probs == 1) & (value == 0), 0.0, probs)
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self):
        """entropy(): the entropy, in nats."""
        return gt.nn.functional.binary_cross_entropy_with_logits(self.logits, self.probs, reduction='none') / self.probs


class _Counted(_ByProbability):
    """Parameterised by a count as well."""

    def __init__(self, total_count, probs=None, logits=None, validate_args=None):
        _one_of(probs, logits)
        name, value = ('probs', probs) if probs is not None else ('logits', logits)
        self._check_numbers(validate_args, total_count=total_count, **{name: value})
        self.total_count, value = broadcast_all(total_count, value)
        self.total_count = self.total_count.to(value.dtype)
        setattr(self, name, value)
        self._param = value
        super().__init__(value.shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        return self._expanded_parameter(_instance, batch_shape, total_count=self.total_count.expand(batch_shape))


class Binomial(_Counted):
    """The number of successes in total_count trials."""

    has_enumerate_support = True
    arg_constraints = {'total_count': constraints.nonnegative_integer, 'probs': constraints.unit_interval,
                       'logits': constraints.real}

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        super().__init__(total_count, probs, logits, validate_args)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        return super().expand(batch_shape, self._get_checked_instance(Binomial, _instance))

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        """From 0 to total_count."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self):
        """The mean."""
        return self.total_count * self.probs

    @property
    def mode(self):
        """The most likely value."""
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self):
        """The variance."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape=()):
        """sample(sample_shape=()): values, without gradients."""
        shape = self._extended_shape(sample_shape)
        with gt.no_grad():
            return gt.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value):
        """log_prob(value): the logarithm of the probability."""
        self._validate_sample(value)
        log_counts = (self.total_count + 1).lgamma() - (value + 1).lgamma() - (self.total_count - value + 1).lgamma()
        positive = (self.logits.clamp(min=0) + self.logits - self.logits.clamp(max=0)) / 2  # its slope at 0 is 1/2
        normalizer = self.total_count * (positive + (-self.logits.abs()).exp().log1p())
        return value * self.logits + log_counts - normalizer

    def _same_count(self):
        count = int(self.total_count.max())
        if not self.total_count.min() == count:
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        return count

    def entropy(self):
        """entropy(): the entropy, in nats; waits for the number of trials."""
        self._same_count()
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand=True):
        """enumerate_support(expand=True): 0 to total_count; waits for it."""
        values = gt.arange(1 + self._same_count(), dtype=self._param.dtype).reshape(-1, *[1] * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values


class NegativeBinomial(_Counted):
    """The number of successes before total_count failures."""

    arg_constraints = {'total_count': constraints.greater_than_eq(0), 'probs': constraints.half_open_interval(0.0, 1.0),
                       'logits': constraints.real}
    support = constraints.nonnegative_integer

    @property
    def mean(self):
        """The mean."""
        return self.total_count * self.logits.exp()

    @property
    def mode(self):
        """The most likely value."""
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self):
        """The variance."""
        return self.mean / (-self.logits).sigmoid()

    @lazy_property
    def _gamma(self):
        return gt.distributions.Gamma(self.total_count, (-self.logits).exp(), validate_args=False)

    def sample(self, sample_shape=()):
        """sample(sample_shape=()): values, without gradients."""
        with gt.no_grad():
            return gt.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value):
        """log_prob(value): the logarithm of the probability."""
        self._validate_sample(value)
        unnormalized = self.total_count * gt.nn.functional.logsigmoid(-self.logits) + value * gt.nn.functional.logsigmoid(
            self.logits)
        normalization = -(self.total_count + value).lgamma() + (1.0 + value).lgamma() + self.total_count.lgamma()
        empty = self.total_count + value == 0.0
        return unnormalized - gt.where(empty, 0.0, normalization)


class Poisson(ExponentialFamily):
    """The Poisson distribution: how often something happens at a rate."""

    arg_constraints = {'rate': constraints.nonnegative}
    support = constraints.nonnegative_integer

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
        return self.rate

    @property
    def mode(self):
        """The most likely value."""
        return self.rate.floor()

    @property
    def variance(self):
        """The variance."""
        return self.rate

    def sample(self, sample_shape=()):
        """sample(sample_shape=()): values, without gradients."""
        with gt.no_grad():
            return gt.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        """log_prob(value): the logarithm of the probability."""
        self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return gt.xlogy(value, rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self):
        return (self.rate.log(),)

    def _log_normalizer(self, x):
        return x.exp()


class Categorical(_ByProbability):
    """A category 0 .. K-1, with probabilities along the last dimension.

    >>> Categorical(gt.tensor([0.25, 0.25, 0.5])).log_prob(gt.tensor(2))
    tensor(-0.6931)
    """

    arg_constraints = {'probs': constraints.simplex, 'logits': constraints.real_vector}
    has_enumerate_support = True
    _binary = False

    def __init__(self, probs=None, logits=None, validate_args=None):
        _one_of(probs, logits)
        given = probs if probs is not None else logits
        if given.ndim < 1:
            raise ValueError(f'`{"probs" if probs is not None else "logits"}` parameter must be at least one-dimensional.')
        if probs is not None:
            self.probs = probs / probs.sum(-1, True)
        else:
            self.logits = logits - logits.logsumexp(-1, True)
        self._param = self.probs if probs is not None else self.logits
        self._num_events = self._param.shape[-1]
        super().__init__(self._param.shape[:-1], validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        batch_shape, fields = tuple(batch_shape), {'_num_events': self._num_events}
        for name in ('probs', 'logits'):
            if name in self.__dict__:
                fields[name] = fields['_param'] = self.__dict__[name].expand(batch_shape + (self._num_events,))
        return self._expanded(_instance, batch_shape, (), **fields)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        """0 to K - 1."""
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self):
        """NaN: categories are not numbers."""
        return gt.full(self._extended_shape(), math.nan, dtype=self.probs.dtype)

    @property
    def mode(self):
        """The most likely category."""
        return self.probs.argmax(-1)

    @property
    def variance(self):
        """NaN."""
        return gt.full(self._extended_shape(), math.nan, dtype=self.probs.dtype)

    def sample(self, sample_shape=()):
        """sample(sample_shape=()): categories, int64."""
        sample_shape = (sample_shape,) if isinstance(sample_shape, int) else tuple(sample_shape)
        flat = self.probs.detach().reshape(-1, self._num_events)
        drawn = gt.multinomial(flat, math.prod(sample_shape), True).T
        return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value):
        """log_prob(value): the logarithm of the probability."""
        self._validate_sample(value)
        value = value.long().unsqueeze(-1)
        value, log_pmf = gt.broadcast_tensors(value, self.logits)
        return log_pmf.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self):
        """entropy(): the entropy, in nats."""
        least = -3.4028234663852886e38 if self.logits.dtype != gt.float64 else -1.7976931348623157e308
        return -(self.logits.clamp(min=least) * self.probs).sum(-1)

    def enumerate_support(self, expand=True):
        """enumerate_support(expand=True): 0 to K - 1."""
        values = gt.arange(self._num_events, dtype=gt.int64).reshape(-1, *[1] * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values


class _OfCategories(Distribution):
    """A distribution that wraps a Categorical, and has its parameters."""

    @property
    def _param(self):
        return self._categorical._param

    @property
    def probs(self):
        """The probabilities."""
        return self._categorical.probs

    @property
    def logits(self):
        """Their logarithms."""
        return self._categorical.logits

    @property
    def param_shape(self):
        """The shape of the parameter that was given."""
        return self._categorical.param_shape


class OneHotCategorical(_OfCategories):
    """A category as a vector with a single 1."""

    arg_constraints = {'probs': constraints.simplex, 'logits': constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._categorical = Categorical(probs, logits, validate_args)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        return self._expanded(_instance, batch_shape, self._event_shape, _categorical=self._categorical.expand(batch_shape))

    @property
    def mean(self):
        """The mean."""
        return self.probs

    @property
    def mode(self):
        """The most likely category."""
        return self._one_hot(self.probs.argmax(-1))

    @property
    def variance(self):
        """The variance of each component."""
        return self.probs * (1 - self.probs)

    def _one_hot(self, index):
        return gt.nn.functional.one_hot(index, self._event_shape[0]).to(self._param.dtype)

    def sample(self, sample_shape=()):
        """sample(sample_shape=()): values, without gradients."""
        return self._one_hot(self._categorical.sample(sample_shape))

    def log_prob(self, value):
        """log_prob(value): the logarithm of the probability."""
        self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self):
        """entropy(): the entropy, in nats."""
        return self._categorical.entropy()

    def enumerate_support(self, expand=True):
        """enumerate_support(expand=True): the unit vectors."""
        n = self._event_shape[0]
        values = gt.eye(n, dtype=self._param.dtype).reshape(n, *[1] * len(self._batch_shape), n)
        return values.expand((n, *self._batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """The same, with the gradient of the probabilities."""

    has_rsample = True

    def rsample(self, sample_shape=()):
        """rsample(sample_shape=()): a sample whose gradient is that of probs."""
        samples = self.sample(sample_shape)
        return samples + (self.probs - self.probs.detach())


class Multinomial(_OfCategories):
    """How often each category occurs in total_count draws."""

    arg_constraints = {'probs': constraints.simplex, 'logits': constraints.real_vector}

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        if not isinstance(total_count, int):
            raise NotImplementedError('inhomogeneous total_count is not supported')
        self.total_count = total_count
        self._categorical = Categorical(probs, logits)
        self._binomial = Binomial(total_count, probs=self.probs)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        batch_shape = tuple(batch_shape)
        return self._expanded(_instance, batch_shape, self._event_shape, total_count=self.total_count,
                              _categorical=self._categorical.expand(batch_shape),
                              _binomial=self._binomial.expand(batch_shape + self._event_shape))

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self):
        """Counts that add up to at most total_count."""
        return constraints.multinomial(self.total_count)

    @property
    def mean(self):
        """The mean."""
        return self.probs * self.total_count

    @property
    def variance(self):
        """The variance of each count."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape=()):
        """sample(sample_shape=()): counts, without gradients."""
        sample_shape = (sample_shape,) if isinstance(sample_shape, int) else tuple(sample_shape)
        drawn = self._categorical.sample((self.total_count, *sample_shape))
        shifted = drawn.permute(*range(1, drawn.ndim), 0)
        counts = gt.zeros(self._extended_shape(sample_shape), dtype=gt.int64)
        return counts.scatter_add(-1, shifted, gt.ones_like(shifted)).to(self.probs.dtype)

    def log_prob(self, value):
        """log_prob(value): the logarithm of the probability."""
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        logits = gt.where((value == 0) & (logits == -math.inf), 0.0, logits)
        return (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1) + (logits * value).sum(-1)

    def entropy(self):
        """entropy(): the entropy, in nats; waits for the support of the counts."""
        n = gt.tensor(float(self.total_count), dtype=self.probs.dtype)
        support = self._binomial.enumerate_support(expand=False)[1:]
        weights = self._binomial.log_prob(support).exp()
        return n * self._categorical.entropy() - (n + 1).lgamma() + (weights * (support + 1).lgamma()).sum((0, -1))


__all__ = ['Bernoulli', 'Binomial', 'Categorical', 'Geometric', 'Multinomial', 'NegativeBinomial', 'OneHotCategorical',
           'OneHotCategoricalStraightThrough', 'Poisson']
