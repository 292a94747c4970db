"""gt.distributions: probability distributions, PyTorch's torch.distributions.

    policy = Categorical(logits=network(state))
    action = policy.sample()
    loss = -policy.log_prob(action) * reward                # REINFORCE
    z = Normal(mean, std).rsample()                         # reparameterised: gradients reach mean and std
    kl = kl_divergence(Normal(mean, std), Normal(0.0, 1.0))

Samples come from the worker's random numbers, by gt.manual_seed. distribution.py says what is validated without waiting.
"""

import sys
import types

import gt  # noqa: F401
from gt import _help
import gt.nn  # noqa: F401
import gt.special  # noqa: F401
from gt.distributions import constraints, transforms, utils  # noqa: F401
from gt.distributions.circular import GeneralizedPareto, VonMises  # noqa: F401
from gt.distributions.composed import (  # noqa: F401
    HalfCauchy, HalfNormal, Independent, InverseGamma, Kumaraswamy, LogNormal, LogisticNormal, MixtureSameFamily, Pareto,
    TransformedDistribution, Weibull)
from gt.distributions.constraint_registry import biject_to, transform_to  # noqa: F401
from gt.distributions.discrete import (  # noqa: F401
    Bernoulli, Binomial, Categorical, Geometric, Multinomial, NegativeBinomial, OneHotCategorical,
    OneHotCategoricalStraightThrough, Poisson)
from gt.distributions.distribution import Distribution, ExponentialFamily  # noqa: F401
from gt.distributions.location import Cauchy, Gumbel, Laplace, Normal, StudentT, Uniform  # noqa: F401
from gt.distributions.multivariate import (  # noqa: F401
    LKJCholesky, LowRankMultivariateNormal, MultivariateNormal, Wishart)
from gt.distributions.positive import Beta, Chi2, Dirichlet, Exponential, FisherSnedecor, Gamma  # noqa: F401
from gt.distributions.relaxed import (  # noqa: F401
    ContinuousBernoulli, ExpRelaxedCategorical, LogitRelaxedBernoulli, RelaxedBernoulli, RelaxedOneHotCategorical)
from gt.distributions.transforms import *  # noqa: F401, F403
from gt.distributions.transforms_joined import (  # noqa: F401
    CatTransform, CumulativeDistributionTransform, StackTransform)
from gt.distributions.kl import kl_divergence, register_kl  # noqa: F401, E402

for _name in ('CatTransform', 'CumulativeDistributionTransform', 'StackTransform'):
    setattr(transforms, _name, globals()[_name])

# PyTorch has a module for each distribution, and programs import from them: gt.distributions.normal.Normal.
_MODULES = {
    'bernoulli': ['Bernoulli'], 'beta': ['Beta'], 'binomial': ['Binomial'], 'categorical': ['Categorical'],
    'cauchy': ['Cauchy'], 'chi2': ['Chi2'], 'continuous_bernoulli': ['ContinuousBernoulli'], 'dirichlet': ['Dirichlet'],
    'exp_family': ['ExponentialFamily'], 'exponential': ['Exponential'], 'fishersnedecor': ['FisherSnedecor'],
    'gamma': ['Gamma'], 'generalized_pareto': ['GeneralizedPareto'], 'geometric': ['Geometric'], 'gumbel': ['Gumbel'],
    'half_cauchy': ['HalfCauchy'], 'half_normal': ['HalfNormal'], 'independent': ['Independent'],
    'inverse_gamma': ['InverseGamma'], 'kumaraswamy': ['Kumaraswamy'], 'laplace': ['Laplace'],
    'lkj_cholesky': ['LKJCholesky'], 'log_normal': ['LogNormal'], 'logistic_normal': ['LogisticNormal'],
    'lowrank_multivariate_normal': ['LowRankMultivariateNormal'], 'mixture_same_family': ['MixtureSameFamily'],
    'multinomial': ['Multinomial'], 'multivariate_normal': ['MultivariateNormal'],
    'negative_binomial': ['NegativeBinomial'], 'normal': ['Normal'],
    'one_hot_categorical': ['OneHotCategorical', 'OneHotCategoricalStraightThrough'], 'pareto': ['Pareto'],
    'poisson': ['Poisson'], 'relaxed_bernoulli': ['LogitRelaxedBernoulli', 'RelaxedBernoulli'],
    'relaxed_categorical': ['ExpRelaxedCategorical', 'RelaxedOneHotCategorical'], 'studentT': ['StudentT'],
    'transformed_distribution': ['TransformedDistribution'], 'uniform': ['Uniform'], 'von_mises': ['VonMises'],
    'weibull': ['Weibull'], 'wishart': ['Wishart'],
}
for _name, _classes in _MODULES.items():
    _module = types.ModuleType(f'{__name__}.{_name}', f'{", ".join(_classes)}: see gt.distributions.')
    _module.__dict__.update({_class: globals()[_class] for _class in _classes})
    sys.modules[_module.__name__] = globals()[_name] = _module

__all__ = sorted({_class for _classes in _MODULES.values() for _class in _classes} | {
    'Distribution', 'biject_to', 'constraints', 'kl_divergence', 'register_kl', 'transform_to', 'transforms',
    *transforms.__all__, 'CatTransform', 'CumulativeDistributionTransform', 'StackTransform'})

__dir__ = _help.publish(__name__)
