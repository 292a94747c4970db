"""Relaxed discrete distributions, whose samples have gradients: RelaxedBernoulli, RelaxedOneHotCategorical (Gumbel-softmax),
and ContinuousBernoulli."""

import math

import gt
from gt.distributions import constraints
from gt.distributions.composed import TransformedDistribution
from gt.distributions.discrete import Categorical, _ByProbability
from gt.distributions.distribution import Distribution, ExponentialFamily
from gt.distributions.transforms import ExpTransform, SigmoidTransform
from gt.distributions.utils import broadcast_all, clamp_probs, rand_open


class LogitRelaxedBernoulli(_ByProbability):
    """The log-odds of a RelaxedBernoulli number."""

    arg_constraints = {'probs': constraints.unit_interval, 'logits': constraints.real}
    support = constraints.real

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self.temperature = temperature
        shape = self._set_parameter(probs, logits, validate_args).shape
        super().__init__(shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        return self._expanded_parameter(_instance, batch_shape, temperature=self.temperature)

    def rsample(self, sample_shape=()):
        """rsample(sample_shape=()): values with gradients."""
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(rand_open(shape, probs.dtype))
        return (u.log() - (-u).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value):
        """log_prob(value): the logarithm of the density."""
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        difference = logits - value * self.temperature
        temperature = self.temperature
        log = temperature.log() if isinstance(temperature, gt.Tensor) else math.log(temperature)
        return log + difference - 2 * difference.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """A number between 0 and 1 that is close to one of them at a low temperature."""

    arg_constraints = {'probs': constraints.unit_interval, 'logits': constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        return super().expand(batch_shape, self._get_checked_instance(RelaxedBernoulli, _instance))

    temperature = property(lambda self: self.base_dist.temperature, doc='The temperature.')
    logits = property(lambda self: self.base_dist.logits, doc='The log-odds.')
    probs = property(lambda self: self.base_dist.probs, doc='The probabilities.')


class ExpRelaxedCategorical(Distribution):
    """The logarithm of a RelaxedOneHotCategorical vector."""

    arg_constraints = {'probs': constraints.simplex, 'logits': constraints.real_vector}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self._categorical, self.temperature = Categorical(probs, logits), temperature
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        return self._expanded(_instance, batch_shape, self._event_shape, temperature=self.temperature,
                              _categorical=self._categorical.expand(batch_shape))

    param_shape = property(lambda self: self._categorical.param_shape, doc='The shape of the parameter that was given.')
    logits = property(lambda self: self._categorical.logits, doc='The logarithms of the probabilities.')
    probs = property(lambda self: self._categorical.probs, doc='The probabilities.')

    def rsample(self, sample_shape=()):
        """rsample(sample_shape=()): values with gradients."""
        shape = self._extended_shape(sample_shape)
        u = clamp_probs(rand_open(shape, self.logits.dtype))
        scores = (self.logits.expand(shape) - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(-1, True)

    def log_prob(self, value):
        """log_prob(value): the logarithm of the density."""
        self._validate_sample(value)
        k = self.event_shape[0]
        logits, value = broadcast_all(self.logits, value)
        t = self.temperature
        t = t if isinstance(t, gt.Tensor) else gt.tensor(float(t), dtype=logits.dtype)
        log_scale = math.lgamma(float(k)) + (k - 1) * t.log()
        score = logits - value * t
        return (score - score.logsumexp(-1, True)).sum(-1) + log_scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """Shares that are close to a unit vector at a low temperature."""

    arg_constraints = {'probs': constraints.simplex, 'logits': constraints.real_vector}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        return super().expand(batch_shape, self._get_checked_instance(RelaxedOneHotCategorical, _instance))

    temperature = property(lambda self: self.base_dist.temperature, doc='The temperature.')
    logits = property(lambda self: self.base_dist.logits, doc='The logarithms of the probabilities.')
    probs = property(lambda self: self.base_dist.probs, doc='The probabilities.')


class ContinuousBernoulli(_ByProbability, ExponentialFamily):
    """A number in [0, 1] with the density C(p) p^x (1-p)^(1-x); near p = 1/2 a Taylor series stands in for C."""

    arg_constraints = {'probs': constraints.unit_interval, 'logits': constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, probs=None, logits=None, lims=(0.499, 0.501), validate_args=None):
        value = self._set_parameter(probs, logits, validate_args)
        if probs is not None:
            if validate_args and not self.arg_constraints['probs'].check(value).all():
                raise ValueError('The parameter probs has invalid values')
            self.probs = self._param = clamp_probs(value)
        self._lims = lims
        super().__init__(value.shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        return self._expanded_parameter(_instance, batch_shape, _lims=self._lims)

    def _outside(self):
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self):
        return gt.where(self._outside(), self.probs, gt.full_like(self.probs, self._lims[0]))

    def _cont_bern_log_norm(self):
        cut = self._cut_probs()
        below = gt.where(cut <= 0.5, cut, 0.0)
        above = gt.where(cut >= 0.5, cut, 1.0)
        exact = ((-cut).log1p() - cut.log()).abs().log() - gt.where(
            cut <= 0.5, (-2.0 * below).log1p(), (2.0 * above - 1.0).log())
        x = (self.probs - 0.5).pow(2)
        return gt.where(self._outside(), exact, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self):
        """The mean."""
        cut = self._cut_probs()
        exact = cut / (2.0 * cut - 1.0) + 1.0 / ((-cut).log1p() - cut.log())
        x = self.probs - 0.5
        return gt.where(self._outside(), exact, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x)

    @property
    def stddev(self):
        """The standard deviation."""
        return self.variance.sqrt()

    @property
    def variance(self):
        """The variance."""
        cut = self._cut_probs()
        exact = cut * (cut - 1.0) / (1.0 - 2.0 * cut).pow(2) + 1.0 / ((-cut).log1p() - cut.log()).pow(2)
        x = (self.probs - 0.5).pow(2)
        return gt.where(self._outside(), exact, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    def rsample(self, sample_shape=()):
        """rsample(sample_shape=()): values with gradients."""
        return self.icdf(gt.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype))

    def log_prob(self, value):
        """log_prob(value): the logarithm of the density."""
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return (-gt.nn.functional.binary_cross_entropy_with_logits(logits, value, reduction='none')
                + self._cont_bern_log_norm())

    def cdf(self, value):
        """cdf(value): the probability of values up to this one."""
        self._validate_sample(value)
        cut = self._cut_probs()
        cdfs = (cut.pow(value) * (1.0 - cut).pow(1.0 - value) + cut - 1.0) / (2.0 * cut - 1.0)
        unbounded = gt.where(self._outside(), cdfs, value)
        return gt.where(value <= 0.0, 0.0, gt.where(value >= 1.0, 1.0, unbounded))

    def icdf(self, value):
        """icdf(value): the inverse of cdf."""
        cut = self._cut_probs()
        exact = (((-cut + value * (2.0 * cut - 1.0)).log1p() - (-cut).log1p()) / (cut.log() - (-cut).log1p()))
        return gt.where(self._outside(), exact, value)

    def entropy(self):
        """entropy(): the entropy, in nats."""
        log_probs0, log_probs1 = (-self.probs).log1p(), self.probs.log()
        return self.mean * (log_probs0 - log_probs1) - self._cont_bern_log_norm() - log_probs0

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, x):
        outside = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        cut = gt.where(outside, x, gt.full_like(x, self._lims[0] - 0.5))
        exact = ((cut.exp() - 1.0).abs()).log() - cut.abs().log()
        return gt.where(outside, exact, 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0)


__all__ = ['ContinuousBernoulli', 'ExpRelaxedCategorical', 'LogitRelaxedBernoulli', 'RelaxedBernoulli',
           'RelaxedOneHotCategorical']
