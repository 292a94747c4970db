"""Kullback-Leibler divergences of different families. Many are infinite: q has no density where p has. Read kl.py first."""

import math

import gt
from gt.distributions.composed import Pareto
from gt.distributions.discrete import Bernoulli, Binomial, Poisson
from gt.distributions.kl import _infinite_like, _mean_square, _x_log_x, register_kl
from gt.distributions.location import Gumbel, Laplace, Normal, Uniform
from gt.distributions.positive import Beta, Exponential, Gamma
from gt.distributions.relaxed import ContinuousBernoulli
from gt.distributions.utils import euler_constant

# (p, q): a parameter of p, for the shape of the infinite result.
_INFINITE = {
    (Beta, Pareto): 'concentration1', (ContinuousBernoulli, Pareto): 'probs', (Exponential, Beta): 'rate',
    (Exponential, ContinuousBernoulli): 'rate', (Exponential, Pareto): 'rate', (Exponential, Uniform): 'rate',
    (Gamma, Beta): 'concentration', (Gamma, ContinuousBernoulli): 'concentration', (Gamma, Pareto): 'concentration',
    (Gamma, Uniform): 'concentration', (Gumbel, Beta): 'loc', (Gumbel, ContinuousBernoulli): 'loc',
    (Gumbel, Exponential): 'loc', (Gumbel, Gamma): 'loc', (Gumbel, Pareto): 'loc', (Gumbel, Uniform): 'loc',
    (Laplace, Beta): 'loc', (Laplace, ContinuousBernoulli): 'loc', (Laplace, Exponential): 'loc', (Laplace, Gamma): 'loc',
    (Laplace, Pareto): 'loc', (Laplace, Uniform): 'loc', (Normal, Beta): 'loc', (Normal, ContinuousBernoulli): 'loc',
    (Normal, Exponential): 'loc', (Normal, Gamma): 'loc', (Normal, Pareto): 'loc', (Normal, Uniform): 'loc',
    (Pareto, Beta): 'scale', (Pareto, ContinuousBernoulli): 'scale', (Pareto, Uniform): 'scale',
    (Poisson, Bernoulli): 'rate', (Poisson, Binomial): 'rate',
}


def _register_infinite(type_p, type_q, name):
    register_kl(type_p, type_q)(lambda p, q: _infinite_like(getattr(p, name)))


for (_p, _q), _name in _INFINITE.items():
    _register_infinite(_p, _q, _name)


@register_kl(Bernoulli, Poisson)
def _kl_bernoulli_poisson(p, q):
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, ContinuousBernoulli)
def _kl_beta_continuous_bernoulli(p, q):
    return -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._cont_bern_log_norm()


@register_kl(Beta, Exponential)
def _kl_beta_exponential(p, q):
    return -p.entropy() - q.rate.log() + q.rate * (p.concentration1 / (p.concentration1 + p.concentration0))


@register_kl(Beta, Gamma)
def _kl_beta_gamma(p, q):
    total = p.concentration1 + p.concentration0
    t2 = q.concentration.lgamma() - q.concentration * q.rate.log()
    t3 = (q.concentration - 1) * (p.concentration1.digamma() - total.digamma())
    return -p.entropy() + t2 - t3 + q.rate * p.concentration1 / total


@register_kl(Beta, Normal)
def _kl_beta_normal(p, q):
    mean, variance = p.concentration1 / (p.concentration1 + p.concentration0), q.scale.pow(2)
    t2 = 0.5 * (variance * 2 * math.pi).log()
    t3 = (mean * (1 - mean) / (p.concentration1 + p.concentration0 + 1) + mean.pow(2)) * 0.5
    return -p.entropy() + t2 + (t3 - mean * q.loc + q.loc.pow(2) * 0.5) / variance


@register_kl(Beta, Uniform)
def _kl_beta_uniform(p, q):
    result = -p.entropy() + (q.high - q.low).log()
    return gt.where((q.low > 0.0) | (q.high < 1.0), math.inf, result)


@register_kl(ContinuousBernoulli, Exponential)
def _kl_continuous_bernoulli_exponential(p, q):
    return -p.entropy() - q.rate.log() + q.rate * p.mean


@register_kl(ContinuousBernoulli, Normal)
def _kl_continuous_bernoulli_normal(p, q):
    t2 = 0.5 * (math.log(2.0 * math.pi) + (q.loc / q.scale).square()) + q.scale.log()
    t3 = (_mean_square(p) - 2.0 * q.loc * p.mean) / (2.0 * q.scale.square())
    return -p.entropy() + t2 + t3


@register_kl(ContinuousBernoulli, Uniform)
def _kl_continuous_bernoulli_uniform(p, q):
    result = -p.entropy() + (q.high - q.low).log()
    return gt.where((q.low > 0.0) | (q.high < 1.0), math.inf, result)


@register_kl(Exponential, Gamma)
def _kl_exponential_gamma(p, q):
    ratio = q.rate / p.rate
    return (-q.concentration * ratio.log() + ratio + q.concentration.lgamma() + q.concentration * euler_constant
            - (1 + euler_constant))


@register_kl(Exponential, Gumbel)
def _kl_exponential_gumbel(p, q):
    scale_rate, loc_scale = p.rate * q.scale, q.loc / q.scale
    t1 = scale_rate.log() - 1
    t2 = loc_scale.exp() * scale_rate / (scale_rate + 1)
    return t1 - loc_scale + t2 + scale_rate.reciprocal()


@register_kl(Exponential, Normal)
def _kl_exponential_normal(p, q):
    variance, rate_square = q.scale.pow(2), p.rate.pow(2)
    t1 = 0.5 * (rate_square * variance * 2 * math.pi).log()
    t2 = rate_square.reciprocal()
    return t1 - 1 + (t2 - q.loc / p.rate + q.loc.pow(2) * 0.5) / variance


@register_kl(Gamma, Exponential)
def _kl_gamma_exponential(p, q):
    return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


@register_kl(Gamma, Gumbel)
def _kl_gamma_gumbel(p, q):
    beta_scale, loc_scale = p.rate * q.scale, q.loc / q.scale
    t1 = ((p.concentration - 1) * p.concentration.digamma() - p.concentration.lgamma() - p.concentration)
    t2 = beta_scale.log() + p.concentration / beta_scale
    t3 = loc_scale.exp() * (1 + beta_scale.reciprocal()).pow(-p.concentration) - loc_scale
    return t1 + t2 + t3


@register_kl(Gamma, Normal)
def _kl_gamma_normal(p, q):
    variance, beta_square = q.scale.pow(2), p.rate.pow(2)
    t1 = 0.5 * (beta_square * variance * 2 * math.pi).log() - p.concentration - p.concentration.lgamma()
    t2 = 0.5 * (p.concentration.pow(2) + p.concentration) / beta_square
    t3 = q.loc * p.concentration / p.rate
    return t1 + (p.concentration - 1) * p.concentration.digamma() + (t2 - t3 + 0.5 * q.loc.pow(2)) / variance


@register_kl(Gumbel, Normal)
def _kl_gumbel_normal(p, q):
    ratio = p.scale / q.scale
    t1 = (ratio / math.sqrt(2 * math.pi)).log()
    t2 = (math.pi * ratio * 0.5).pow(2) / 3
    t3 = ((p.loc + p.scale * euler_constant - q.loc) / q.scale).pow(2) * 0.5
    return -t1 + t2 + t3 - (euler_constant + 1)


@register_kl(Laplace, Normal)
def _kl_laplace_normal(p, q):
    variance = q.scale.pow(2)
    ratio = p.scale.pow(2) / variance
    t1 = 0.5 * (2 * ratio / math.pi).log()
    return -t1 + ratio + 0.5 * (p.loc - q.loc).pow(2) / variance - 1


@register_kl(Normal, Gumbel)
def _kl_normal_gumbel(p, q):
    mean_ratio, ratio = p.loc / q.scale, (p.scale / q.scale).pow(2)
    loc_ratio = q.loc / q.scale
    t1 = ratio.log() * 0.5
    t2 = mean_ratio - loc_ratio
    t3 = (-mean_ratio + 0.5 * ratio + loc_ratio).exp()
    return -t1 + t2 + t3 - 0.5 * (1 + math.log(2 * math.pi))


@register_kl(Normal, Laplace)
def _kl_normal_laplace(p, q):
    difference = p.loc - q.loc
    ratio = p.scale / q.scale
    scaled = difference / p.scale
    t1 = ratio.log()
    t2 = math.sqrt(2 / math.pi) * p.scale * (-0.5 * scaled.pow(2)).exp()
    t3 = difference * (math.sqrt(0.5) * scaled).erf()
    return -t1 + (t2 + t3) / q.scale - 0.5 * (1 + math.log(0.5 * math.pi))


@register_kl(Pareto, Exponential)
def _kl_pareto_exponential(p, q):
    scale_rate = p.scale * q.rate
    t1 = (p.alpha / scale_rate).log()
    t2 = p.alpha.reciprocal()
    t3 = p.alpha * scale_rate / (p.alpha - 1)
    return gt.where(p.alpha <= 1, math.inf, t1 - t2 + t3 - 1)


@register_kl(Pareto, Gamma)
def _kl_pareto_gamma(p, q):
    common = p.scale.log() + p.alpha.reciprocal()
    t1 = p.alpha.log() - common
    t2 = q.concentration.lgamma() - q.concentration * q.rate.log()
    t3 = (1 - q.concentration) * common
    t4 = q.rate * p.alpha * p.scale / (p.alpha - 1)
    return gt.where(p.alpha <= 1, math.inf, t1 + t2 + t3 + t4 - 1)


@register_kl(Pareto, Normal)
def _kl_pareto_normal(p, q):
    variance = 2 * q.scale.pow(2)
    common = p.scale / (p.alpha - 1)
    t1 = (math.sqrt(2 * math.pi) * q.scale * p.alpha / p.scale).log()
    t2 = p.alpha.reciprocal()
    t3 = p.alpha * common.pow(2) / (p.alpha - 2)
    t4 = (p.alpha * common - q.loc).pow(2)
    return gt.where(p.alpha <= 2, math.inf, t1 - t2 + (t3 + t4) / variance - 1)


@register_kl(Uniform, Beta)
def _kl_uniform_beta(p, q):
    common = p.high - p.low
    t1 = common.log()
    t2 = (q.concentration1 - 1) * (_x_log_x(p.high) - _x_log_x(p.low) - common) / common
    t3 = (q.concentration0 - 1) * (_x_log_x(1 - p.high) - _x_log_x(1 - p.low) + common) / common
    t4 = q.concentration1.lgamma() + q.concentration0.lgamma() - (q.concentration1 + q.concentration0).lgamma()
    return gt.where((p.high > 1.0) | (p.low < 0.0), math.inf, t3 + t4 - t1 - t2)


@register_kl(Uniform, ContinuousBernoulli)
def _kl_uniform_continuous_bernoulli(p, q):
    result = -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._cont_bern_log_norm()
    return gt.where((p.high > 1.0) | (p.low < 0.0), math.inf, result)


@register_kl(Uniform, Exponential)
def _kl_uniform_exponential(p, q):
    result = q.rate * (p.high + p.low) / 2 - ((p.high - p.low) * q.rate).log()
    return gt.where(p.low < 0.0, math.inf, result)


@register_kl(Uniform, Gamma)
def _kl_uniform_gamma(p, q):
    common = p.high - p.low
    t2 = q.concentration.lgamma() - q.concentration * q.rate.log()
    t3 = (1 - q.concentration) * (_x_log_x(p.high) - _x_log_x(p.low) - common) / common
    result = -common.log() + t2 + t3 + q.rate * (p.high + p.low) / 2
    return gt.where(p.low < 0.0, math.inf, result)


@register_kl(Uniform, Gumbel)
def _kl_uniform_gumbel(p, q):
    common = q.scale / (p.high - p.low)
    high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    t1 = common.log() + 0.5 * (high + low)
    return t1 - common * ((-high).exp() - (-low).exp())


@register_kl(Uniform, Normal)
def _kl_uniform_normal(p, q):
    common = p.high - p.low
    t1 = (math.sqrt(2 * math.pi) * q.scale / common).log()
    t2 = common.pow(2) / 12
    t3 = ((p.high + p.low - 2 * q.loc) / 2).pow(2)
    return t1 + 0.5 * (t2 + t3) / q.scale.pow(2)


@register_kl(Uniform, Pareto)
def _kl_uniform_pareto(p, q):
    support = p.high - p.low
    t1 = (q.alpha * q.scale.pow(q.alpha) * support).log()
    t2 = (_x_log_x(p.high) - _x_log_x(p.low) - support) / support
    return gt.where(p.low < q.support.lower_bound, math.inf, t2 * (q.alpha + 1) - t1)
