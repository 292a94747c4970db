"""VonMises: the normal distribution's relative on the circle. And GeneralizedPareto, the distribution of large excesses."""

import math

import gt
from gt.distributions import constraints
from gt.distributions.distribution import Distribution
from gt.distributions.utils import broadcast_all, lazy_property


class VonMises(Distribution):
    """Angles around loc; concentration is like the inverse of a variance."""

    arg_constraints = {'loc': constraints.real, 'concentration': constraints.positive}
    support = constraints.real
    has_rsample = False

    def __init__(self, loc, concentration, validate_args=None):
        self._check_numbers(validate_args, loc=loc, concentration=concentration)
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, (), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        return self._expanded(_instance, batch_shape, (), loc=self.loc.expand(batch_shape),
                              concentration=self.concentration.expand(batch_shape))

    def log_prob(self, value):
        """log_prob(value): the logarithm of the density."""
        self._validate_sample(value)
        k = self.concentration
        return k * (value - self.loc).cos() - math.log(2 * math.pi) - (gt.special.i0e(k).log() + k)

    def sample(self, sample_shape=()):
        """sample(sample_shape=()): by Best and Fisher's rejection, without gradients."""
        shape = self._extended_shape(sample_shape)
        with gt.no_grad():
            kappa = self.concentration.double()
            tau = 1 + (1 + 4 * kappa ** 2).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
            # For small concentrations, the limit of (1 + rho^2) / (2 rho).
            r = gt.where(kappa < 1e-5, kappa.reciprocal() + kappa, (1 + rho ** 2) / (2 * rho)).expand(shape)
            kappa, x, done = kappa.expand(shape), gt.zeros(shape, dtype=gt.float64), gt.zeros(shape, dtype=gt.bool)
            # Each round accepts two thirds or more: after 64, fewer than one in 10^30 is left. Small tensors need no wait;
            # for large ones reading whether all are done is cheaper than the rounds.
            for _ in range(64 if x.numel() else 0):
                u = gt.rand((3, *shape), dtype=gt.float64)
                z = (math.pi * u[0]).cos()
                f = (1 + r * z) / (r + z)
                c = kappa * (r - f)
                accept = ((c * (2 - c) - u[1]) > 0) | ((c / u[1]).log() + 1 - c >= 0)
                x = gt.where(accept & ~done, (u[2] - 0.5).sign() * f.clamp(-1, 1).acos(), x)
                done = done | accept
                if x.numel() > 4096 and bool(done.all()):
                    break
            angle = (x + math.pi + self.loc.double()) % (2 * math.pi) - math.pi
            return angle.to(self.loc.dtype)

    mean = property(lambda self: self.loc, doc='The mean direction.')
    mode = property(lambda self: self.loc, doc='The most likely direction.')

    @lazy_property
    def variance(self):
        """The circular variance."""
        k = self.concentration
        return 1 - gt.special.i1e(k) / gt.special.i0e(k)


class GeneralizedPareto(Distribution):
    """The generalised Pareto distribution: what exceeds a high threshold."""

    arg_constraints = {'loc': constraints.real, 'scale': constraints.positive, 'concentration': constraints.real}
    has_rsample = True

    def __init__(self, loc, scale, concentration, validate_args=None):
        self._check_numbers(validate_args, loc=loc, scale=scale, concentration=concentration)
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        return self._expanded(_instance, batch_shape, (), loc=self.loc.expand(batch_shape),
                              scale=self.scale.expand(batch_shape), concentration=self.concentration.expand(batch_shape))

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        """From loc on, up to where the density ends."""
        upper = gt.where(self.concentration < 0, self.loc - self.scale / self.concentration, math.inf)
        return constraints.interval(self.loc, upper)

    def _straight(self):
        return self.concentration.isclose(gt.zeros_like(self.concentration))

    def _safe(self, straight):
        return gt.where(straight, 1.0, self.concentration)

    def rsample(self, sample_shape=()):
        """rsample(sample_shape=()): values with gradients."""
        return self.icdf(gt.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype))

    def log_prob(self, value):
        """log_prob(value): the logarithm of the density."""
        self._validate_sample(value)
        z, straight = (value - self.loc) / self.scale, self._straight()
        k = self._safe(straight)
        curved = (1 + 1 / k) * (k * z).log1p()
        return -self.scale.log() - gt.where(straight, z, curved)

    def cdf(self, value):
        """cdf(value): the probability of values up to this one."""
        self._validate_sample(value)
        z, straight = (value - self.loc) / self.scale, self._straight()
        k = self._safe(straight)
        log_survival = gt.where(straight, -z, -(k * z).log1p() / k)
        return -log_survival.expm1()

    def icdf(self, value):
        """icdf(value): the inverse of cdf."""
        straight = self._straight()
        k, log = self._safe(straight), (-value).log1p()
        z = gt.where(straight, -log, (-k * log).expm1() / k)
        return self.loc + self.scale * z

    @property
    def mean(self):
        """The mean; infinity unless concentration < 1."""
        value = self.loc + self.scale / (1 - self.concentration)
        return gt.where(self.concentration < 1, value, math.inf)

    @property
    def variance(self):
        """The variance; infinity unless concentration < 1/2."""
        value = self.scale ** 2 / ((1 - self.concentration) ** 2 * (1 - 2 * self.concentration))
        return gt.where(self.concentration < 0.5, value, math.inf)

    def entropy(self):
        """entropy(): the entropy, in nats."""
        return (self.scale.log() + self.concentration + 1).expand(self._batch_shape)

    @property
    def mode(self):
        """loc."""
        return self.loc


__all__ = ['GeneralizedPareto', 'VonMises']
