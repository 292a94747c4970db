"""kl_divergence(p, q), by formulas registered for pairs of classes.

    >>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
    tensor(0.5000)
"""

import functools
import math
import warnings

import gt
from gt.distributions.composed import HalfNormal, Independent, LogNormal, Pareto, TransformedDistribution
from gt.distributions.discrete import Bernoulli, Binomial, Categorical, Geometric, OneHotCategorical, Poisson
from gt.distributions.distribution import Distribution, ExponentialFamily
from gt.distributions.location import Cauchy, Gumbel, Laplace, Normal, Uniform
from gt.distributions.multivariate import (
    LowRankMultivariateNormal, MultivariateNormal, batch_mahalanobis, batch_matvec, log_diagonal, solve_lower)
from gt.distributions.positive import Beta, Dirichlet, Exponential, Gamma
from gt.distributions.relaxed import ContinuousBernoulli
from gt.distributions.utils import euler_constant, sum_rightmost

__all__ = ['register_kl', 'kl_divergence']

_REGISTRY, _FOUND = {}, {}


def register_kl(type_p, type_q):
    """register_kl(type_p, type_q): a decorator that registers fun(p, q) for these classes and their subclasses.

    >>> @register_kl(Normal, Normal)
    ... def kl_normal_normal(p, q): ...
    """
    for cls in (type_p, type_q):
        if not isinstance(cls, type) or not issubclass(cls, Distribution):
            raise TypeError(f'Expected type_{"p" if cls is type_p else "q"} to be a Distribution subclass but got {cls}')

    def decorator(fun):
        _REGISTRY[type_p, type_q] = fun
        _FOUND.clear()
        return fun
    return decorator


@functools.total_ordering
class _Match:
    """A pair of classes, ordered by how special they are."""

    def __init__(self, *types):
        self.types = types

    def __eq__(self, other):
        return self.types == other.types

    def __le__(self, other):
        for x, y in zip(self.types, other.types):
            if not issubclass(x, y):
                return False
            if x is not y:
                break
        return True


def _dispatch(type_p, type_q):
    matches = [(p, q) for p, q in _REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not matches:
        return NotImplemented
    left_p, left_q = min(_Match(*m) for m in matches).types
    right_q, right_p = min(_Match(*reversed(m)) for m in matches).types
    left, right = _REGISTRY[left_p, left_q], _REGISTRY[right_p, right_q]
    if left is not right:
        warnings.warn(f'Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please register_kl({left_p.__name__}, '
                      f'{right_q.__name__})', RuntimeWarning, stacklevel=3)
    return left


def kl_divergence(p, q):
    """kl_divergence(p, q): the Kullback-Leibler divergence, the mean of log p - log q under p."""
    pair = type(p), type(q)
    if pair not in _FOUND:
        _FOUND[pair] = _dispatch(*pair)
    fun = _FOUND[pair]
    if fun is NotImplemented:
        raise NotImplementedError(f'No KL(p || q) is implemented for p type {p.__class__.__name__} and q type '
                                  f'{q.__class__.__name__}')
    return fun(p, q)


def _infinite_like(tensor):
    return gt.full_like(tensor, math.inf)


def _x_log_x(tensor):
    return gt.special.xlogy(tensor, tensor)


def _mean_square(p):
    return p.variance + p.mean.pow(2)


# ---- the same family -----------------------------------------------------------------------------------------


@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli_bernoulli(p, q):
    softplus = gt.nn.functional.softplus
    t1 = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    t1 = gt.where(q.probs == 0, math.inf, t1)
    t1 = gt.where(p.probs == 0, 0.0, t1)
    t2 = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    t2 = gt.where(q.probs == 1, math.inf, t2)
    return t1 + gt.where(p.probs == 1, 0.0, t2)


@register_kl(Beta, Beta)
def _kl_beta_beta(p, q):
    p_sum, q_sum = p.concentration1 + p.concentration0, q.concentration1 + q.concentration0
    t1 = q.concentration1.lgamma() + q.concentration0.lgamma() + p_sum.lgamma()
    t2 = p.concentration1.lgamma() + p.concentration0.lgamma() + q_sum.lgamma()
    t3 = (p.concentration1 - q.concentration1) * p.concentration1.digamma()
    t4 = (p.concentration0 - q.concentration0) * p.concentration0.digamma()
    return t1 - t2 + t3 + t4 + (q_sum - p_sum) * p_sum.digamma()


@register_kl(Binomial, Binomial)
def _kl_binomial_binomial(p, q):
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError('KL between Binomials where q.total_count > p.total_count is not implemented')
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return gt.where(p.total_count > q.total_count, math.inf, kl)


@register_kl(Categorical, Categorical)
def _kl_categorical_categorical(p, q):
    t = p.probs * (p.logits - q.logits)
    t = gt.where((q.probs == 0).expand(t.shape), math.inf, t)
    return gt.where((p.probs == 0).expand(t.shape), 0.0, t).sum(-1)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _kl_continuous_bernoulli_continuous_bernoulli(p, q):
    t1 = p.mean * (p.logits - q.logits)
    t2 = p._cont_bern_log_norm() + (-p.probs).log1p()
    t3 = -q._cont_bern_log_norm() - (-q.probs).log1p()
    return t1 + t2 + t3


@register_kl(Dirichlet, Dirichlet)
def _kl_dirichlet_dirichlet(p, q):
    p_sum, q_sum = p.concentration.sum(-1), q.concentration.sum(-1)
    t1 = p_sum.lgamma() - q_sum.lgamma()
    t2 = (p.concentration.lgamma() - q.concentration.lgamma()).sum(-1)
    t3 = p.concentration - q.concentration
    t4 = p.concentration.digamma() - p_sum.digamma().unsqueeze(-1)
    return t1 - t2 + (t3 * t4).sum(-1)


@register_kl(Exponential, Exponential)
def _kl_exponential_exponential(p, q):
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily_expfamily(p, q):
    if type(p) is not type(q):
        raise NotImplementedError('The cross KL-divergence between different exponential families cannot be computed using '
                                  'Bregman divergences')
    p_params = [parameter.detach().clone().requires_grad_() for parameter in p._natural_params]
    q_params = q._natural_params
    with gt.enable_grad():
        normalizer = p._log_normalizer(*p_params)
        gradients = gt.grad(normalizer.sum(), p_params, create_graph=True)
    result = q._log_normalizer(*q_params) - normalizer
    for a, b, g in zip(p_params, q_params, gradients):
        result = result - sum_rightmost((b - a) * g, len(q.event_shape))
    return result


@register_kl(Gamma, Gamma)
def _kl_gamma_gamma(p, q):
    t1 = q.concentration * (p.rate / q.rate).log()
    t2 = q.concentration.lgamma() - p.concentration.lgamma()
    t3 = (p.concentration - q.concentration) * p.concentration.digamma()
    return t1 + t2 + t3 + (q.rate - p.rate) * (p.concentration / p.rate)


@register_kl(Gumbel, Gumbel)
def _kl_gumbel_gumbel(p, q):
    ct1, ct2 = p.scale / q.scale, q.loc / q.scale
    ct3 = p.loc / q.scale
    t1 = -ct1.log() - ct2 + ct3
    t2 = ct1 * euler_constant
    t3 = (ct2 + (1 + ct1).lgamma() - ct3).exp()
    return t1 + t2 + t3 - (1 + euler_constant)


@register_kl(Geometric, Geometric)
def _kl_geometric_geometric(p, q):
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _kl_halfnormal_halfnormal(p, q):
    return _kl_normal_normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _kl_laplace_laplace(p, q):
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


def _trace_of(lower, matrix):
    """The trace of L^-T L^-1 A A^T, for L lower and A = matrix: the squared norm of L^-1 A."""
    shape = gt.broadcast_shapes(lower.shape[:-2], matrix.shape[:-2])
    x = solve_lower(lower.expand((*shape, *lower.shape[-2:])), matrix.expand((*shape, *matrix.shape[-2:])))
    return x.pow(2).flatten(-2).sum(-1)


def _check_same_events(p, q, name):
    if p.event_shape != q.event_shape:
        raise ValueError(f'KL-divergence between two {name} with different event shapes cannot be computed')


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _kl_lowrankmultivariatenormal_lowrankmultivariatenormal(p, q):
    _check_same_events(p, q, 'Low Rank Multivariate Normals')
    term1 = q._log_determinant() - p._log_determinant()
    term3 = _low_rank_distance(q, q.loc - p.loc)
    scaled = q._unbroadcasted_cov_factor.mT / q._unbroadcasted_cov_diag.unsqueeze(-2)
    term21 = (p._unbroadcasted_cov_diag / q._unbroadcasted_cov_diag).sum(-1)
    term22 = (p._unbroadcasted_cov_factor * q._unbroadcasted_cov_diag.rsqrt().unsqueeze(-1)).pow(2).flatten(-2).sum(-1)
    term23 = _trace_of(q._capacitance_tril, scaled * p._unbroadcasted_cov_diag.sqrt().unsqueeze(-2))
    term24 = _trace_of(q._capacitance_tril, scaled @ p._unbroadcasted_cov_factor)
    return 0.5 * (term1 + term21 + term22 - term23 - term24 + term3 - p.event_shape[0])


def _low_rank_distance(q, difference):
    scaled = q._unbroadcasted_cov_factor.mT / q._unbroadcasted_cov_diag.unsqueeze(-2)
    along = batch_matvec(scaled, difference)
    return (difference.pow(2) / q._unbroadcasted_cov_diag).sum(-1) - batch_mahalanobis(q._capacitance_tril, along)


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _kl_multivariatenormal_lowrankmultivariatenormal(p, q):
    _check_same_events(p, q, '(Low Rank) Multivariate Normals')
    term1 = q._log_determinant() - 2 * log_diagonal(p._unbroadcasted_scale_tril)
    scaled = q._unbroadcasted_cov_factor.mT / q._unbroadcasted_cov_diag.unsqueeze(-2)
    term21 = (p._unbroadcasted_scale_tril * q._unbroadcasted_cov_diag.rsqrt().unsqueeze(-1)).pow(2).flatten(-2).sum(-1)
    term22 = _trace_of(q._capacitance_tril, scaled @ p._unbroadcasted_scale_tril)
    return 0.5 * (term1 + term21 - term22 + _low_rank_distance(q, q.loc - p.loc) - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _kl_lowrankmultivariatenormal_multivariatenormal(p, q):
    _check_same_events(p, q, '(Low Rank) Multivariate Normals')
    term1 = 2 * log_diagonal(q._unbroadcasted_scale_tril) - p._log_determinant()
    term3 = batch_mahalanobis(q._unbroadcasted_scale_tril, q.loc - p.loc)
    term21 = _trace_of(q._unbroadcasted_scale_tril, p._unbroadcasted_cov_factor)
    term22 = _trace_of(q._unbroadcasted_scale_tril, p._unbroadcasted_cov_diag.sqrt().diag_embed())
    return 0.5 * (term1 + term21 + term22 + term3 - p.event_shape[0])


@register_kl(MultivariateNormal, MultivariateNormal)
def _kl_multivariatenormal_multivariatenormal(p, q):
    _check_same_events(p, q, 'Multivariate Normals')
    term1 = log_diagonal(q._unbroadcasted_scale_tril) - log_diagonal(p._unbroadcasted_scale_tril)
    term2 = _trace_of(q._unbroadcasted_scale_tril, p._unbroadcasted_scale_tril)
    term3 = batch_mahalanobis(q._unbroadcasted_scale_tril, q.loc - p.loc)
    return term1 + 0.5 * (term2 + term3 - p.event_shape[0])


@register_kl(Normal, Normal)
def _kl_normal_normal(p, q):
    ratio = (p.scale / q.scale).pow(2)
    t1 = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + t1 - 1 - ratio.log())


@register_kl(OneHotCategorical, OneHotCategorical)
def _kl_onehotcategorical_onehotcategorical(p, q):
    return _kl_categorical_categorical(p._categorical, q._categorical)


@register_kl(Pareto, Pareto)
def _kl_pareto_pareto(p, q):
    scale_ratio, alpha_ratio = p.scale / q.scale, q.alpha / p.alpha
    result = q.alpha * scale_ratio.log() - alpha_ratio.log() + alpha_ratio - 1
    return gt.where(p.support.lower_bound < q.support.lower_bound, math.inf, result)


@register_kl(Poisson, Poisson)
def _kl_poisson_poisson(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed_transformed(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(LogNormal, LogNormal)
def _kl_lognormal_lognormal(p, q):
    return _kl_normal_normal(p.base_dist, q.base_dist)


@register_kl(Uniform, Uniform)
def _kl_uniform_uniform(p, q):
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return gt.where((q.low > p.low) | (q.high < p.high), math.inf, result)


@register_kl(Cauchy, Cauchy)
def _kl_cauchy_cauchy(p, q):
    t1 = ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log()
    return t1 - (4 * p.scale * q.scale).log()


@register_kl(Independent, Independent)
def _kl_independent_independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


from gt.distributions import kl_pairs  # noqa: E402, F401  different families; they register themselves
