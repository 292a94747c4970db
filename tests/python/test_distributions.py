"""gt.distributions against torch.distributions: log_prob, entropy, cdf, icdf, moments and their gradients are the same;
samples have the moments of their distribution, and gradients of the right mean; kl_divergence of every pair; transforms."""

import itertools
import math

import pytest
import torch
import torch.distributions as T

import gt
import gt.distributions as G
from support import check, difference, raises, to_gt, to_torch

f64 = torch.float64
T.LogitRelaxedBernoulli = T.relaxed_bernoulli.LogitRelaxedBernoulli  # torch does not export these two
T.ExpRelaxedCategorical = T.relaxed_categorical.ExpRelaxedCategorical


def t(*numbers):
    return torch.tensor(numbers, dtype=f64)


POSITIVE, REAL, SHARES = t(0.4, 1.0, 2.5), t(-1.0, 0.3, 2.0), torch.tensor([[0.2, 0.3, 0.5], [0.7, 0.1, 0.2]], dtype=f64)
COVARIANCE = torch.tensor([[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 0.7]], dtype=f64)
TRIANGLE = torch.linalg.cholesky(COVARIANCE)

# name: (keyword arguments; tensors are parameters)
CASES = {
    "Normal": dict(loc=REAL, scale=POSITIVE),
    "LogNormal": dict(loc=REAL, scale=POSITIVE * 0.3),
    "HalfNormal": dict(scale=POSITIVE),
    "HalfCauchy": dict(scale=POSITIVE),
    "Cauchy": dict(loc=REAL, scale=POSITIVE),
    "StudentT": dict(df=t(5.0, 9.0, 30.0), loc=REAL, scale=POSITIVE),
    "Laplace": dict(loc=REAL, scale=POSITIVE),
    "Gumbel": dict(loc=REAL, scale=POSITIVE),
    "Uniform": dict(low=REAL, high=REAL + POSITIVE),
    "Exponential": dict(rate=POSITIVE),
    "Gamma": dict(concentration=POSITIVE, rate=POSITIVE + 0.5),
    "InverseGamma": dict(concentration=POSITIVE + 4, rate=POSITIVE),
    "Chi2": dict(df=POSITIVE * 3),
    "Beta": dict(concentration1=POSITIVE, concentration0=POSITIVE + 1),
    "FisherSnedecor": dict(df1=t(3.0, 8.0, 5.0), df2=t(20.0, 12.0, 30.0)),
    "Dirichlet": dict(concentration=torch.stack([POSITIVE, POSITIVE + 2])),
    "Weibull": dict(scale=POSITIVE, concentration=POSITIVE + 1),
    "Pareto": dict(scale=POSITIVE, alpha=POSITIVE + 6),
    "Kumaraswamy": dict(concentration1=POSITIVE + 1, concentration0=POSITIVE + 1.5),
    "LogisticNormal": dict(loc=REAL, scale=POSITIVE),
    "VonMises": dict(loc=REAL, concentration=POSITIVE),
    "Bernoulli": dict(probs=SHARES),
    "Bernoulli logits": dict(logits=REAL),
    "ContinuousBernoulli": dict(probs=t(0.1, 0.4, 0.9)),
    "Geometric": dict(probs=t(0.2, 0.5, 0.9)),
    "Binomial": dict(total_count=20, probs=t(0.2, 0.5, 0.9)),
    "Binomial logits": dict(total_count=9, logits=REAL),
    "NegativeBinomial": dict(total_count=t(3.0, 5.0, 9.5), probs=t(0.2, 0.5, 0.7)),
    "Poisson": dict(rate=t(0.5, 4.0, 30.0)),
    "Categorical": dict(probs=SHARES),
    "Categorical logits": dict(logits=SHARES * 3),
    "OneHotCategorical": dict(probs=SHARES),
    "OneHotCategoricalStraightThrough": dict(logits=SHARES),
    "Multinomial": dict(total_count=7, probs=SHARES),
    "RelaxedBernoulli": dict(temperature=t(0.7), probs=t(0.2, 0.5, 0.9)),
    "LogitRelaxedBernoulli": dict(temperature=t(0.7), logits=REAL),
    "RelaxedOneHotCategorical": dict(temperature=t(0.7), probs=SHARES),
    "ExpRelaxedCategorical": dict(temperature=t(0.5), logits=SHARES),
    "MultivariateNormal": dict(loc=REAL, covariance_matrix=COVARIANCE),
    "MultivariateNormal scale_tril": dict(loc=torch.stack([REAL, REAL + 1]), scale_tril=TRIANGLE),
    "MultivariateNormal precision": dict(loc=REAL, precision_matrix=COVARIANCE),
    "LowRankMultivariateNormal": dict(loc=REAL, cov_factor=COVARIANCE[:, :2].contiguous(), cov_diag=POSITIVE),
    "Wishart": dict(df=t(6.5), covariance_matrix=COVARIANCE),
    "LKJCholesky": dict(dim=3, concentration=t(1.5)),
}


def both(name, **changed):
    """The same distribution in GT and in torch. Keyword arguments replace parameters."""
    arguments = {**CASES[name], **changed}
    cls = name.split()[0]
    mine = {key: to_gt(value) if isinstance(value, torch.Tensor) else value for key, value in arguments.items()}
    return getattr(G, cls)(**mine), getattr(T, cls)(**arguments)


def values_of(theirs):
    with torch.random.fork_rng():
        torch.manual_seed(5)
        return theirs.sample((4,))


def same_or_missing(what, ours, theirs, **options):
    """Equal results, or NotImplementedError on both sides."""
    try:
        expected = theirs()
    except (NotImplementedError, AttributeError, ValueError):
        with pytest.raises((NotImplementedError, AttributeError, ValueError)):
            ours()
        return
    result = ours()
    if not isinstance(expected, torch.Tensor):
        assert result == expected, what
        return
    problem = difference(result.detach(), expected.detach(), **{"rtol": 1e-9, "atol": 1e-10, **options})
    assert problem is None, f"{what}: {problem}"


@pytest.mark.parametrize("name", CASES)
def test_same_as_torch(name):
    ours, theirs = both(name)
    assert ours.batch_shape == tuple(theirs.batch_shape) and ours.event_shape == tuple(theirs.event_shape)
    assert ours.has_rsample == theirs.has_rsample and ours.has_enumerate_support == theirs.has_enumerate_support
    value = values_of(theirs)
    rtol = 1e-6 if name in ("VonMises", "Multinomial") else 1e-9  # torch has fewer digits
    for what in ("mean", "variance", "stddev", "mode"):
        if (name, what) != ("Kumaraswamy", "mode"):  # torch's is NaN everywhere
            same_or_missing(what, lambda: getattr(ours, what), lambda: getattr(theirs, what), rtol=rtol)
    same_or_missing("entropy", ours.entropy, theirs.entropy, rtol=rtol)
    same_or_missing("log_prob", lambda: ours.log_prob(to_gt(value)), lambda: theirs.log_prob(value), rtol=rtol)
    same_or_missing("cdf", lambda: ours.cdf(to_gt(value)), lambda: theirs.cdf(value))
    quantiles = torch.linspace(0.05, 0.95, 3, dtype=f64)
    if not theirs.event_shape:
        same_or_missing("icdf", lambda: ours.icdf(to_gt(quantiles)), lambda: theirs.icdf(quantiles))
    same_or_missing("enumerate_support", ours.enumerate_support, theirs.enumerate_support)
    assert bool(to_torch(ours.support.check(to_gt(value))).all())
    wide_ours, wide_theirs = ours.expand((5, *ours.batch_shape)), theirs.expand((5, *theirs.batch_shape))
    assert type(wide_ours) is type(ours) and wide_ours.batch_shape == tuple(wide_theirs.batch_shape)
    more = torch.stack([value[0]] * 5)
    same_or_missing("expanded log_prob", lambda: wide_ours.log_prob(to_gt(more)), lambda: wide_theirs.log_prob(more),
                    rtol=rtol)
    assert wide_ours.sample((2,)).shape == tuple(wide_theirs.sample((2,)).shape)
    for shape in ((), (2,), (2, 3)):
        drawn, expected = ours.sample(shape), theirs.sample(shape)
        assert drawn.shape == tuple(expected.shape) and not drawn.requires_grad
        assert str(drawn.dtype).rpartition(".")[2] == str(expected.dtype).rpartition(".")[2]


@pytest.mark.parametrize("name", [name for name in CASES if name.split()[0] != "VonMises"])
def test_gradients_of_log_prob_and_entropy(name):
    arguments = CASES[name]
    theirs_in = {k: v.clone().requires_grad_() if isinstance(v, torch.Tensor) else v for k, v in arguments.items()}
    ours_in = {k: to_gt(v).requires_grad_() if isinstance(v, torch.Tensor) else v for k, v in arguments.items()}
    cls = name.split()[0]
    theirs, ours = getattr(T, cls)(**theirs_in), getattr(G, cls)(**ours_in)
    value = values_of(theirs)
    wanted = [k for k, v in arguments.items() if isinstance(v, torch.Tensor)]
    for what, a, b in (("log_prob", lambda: ours.log_prob(to_gt(value)), lambda: theirs.log_prob(value)),
                       ("entropy", ours.entropy, theirs.entropy)):
        try:
            expected = b().sum()
        except NotImplementedError:
            continue
        if not expected.requires_grad:
            continue
        expected = torch.autograd.grad(expected, [theirs_in[k] for k in wanted], allow_unused=True, retain_graph=True)
        got = gt.grad(a().sum(), [ours_in[k] for k in wanted], allow_unused=True, retain_graph=True)
        for key, mine, other in zip(wanted, got, expected):
            if other is not None:
                rtol = 1e-6 if name == "Multinomial" else 1e-8
                check(mine, other, f"{what} by {key}", rtol=rtol, atol=1e-8)


N = 60_000
# Heavy tails: no moments. LKJCholesky and matrices: their own tests.
WITHOUT_MOMENTS = {"HalfCauchy", "Cauchy", "VonMises", "Categorical", "LKJCholesky", "LogisticNormal"}


@pytest.mark.parametrize("name", [name for name in CASES if name.split()[0] not in WITHOUT_MOMENTS])
def test_moments_of_samples(name):
    ours, theirs = both(name)
    gt.manual_seed(11)
    drawn = to_torch(ours.sample((N,))).double()
    if name.startswith(("Relaxed", "Logit", "ExpRelaxed")):
        with torch.random.fork_rng():
            torch.manual_seed(1)
            reference = theirs.sample((N,))
        mean, variance = reference.mean(0), reference.var(0)
    else:
        mean, variance = theirs.mean, theirs.variance
    error = 6 * (variance / N).sqrt() * (1.5 if name.startswith(("Relaxed", "Logit", "ExpRelaxed")) else 1) + 1e-9
    assert ((drawn.mean(0) - mean).abs() < error).all(), (drawn.mean(0), mean)
    kurtosis = ((drawn - drawn.mean(0)) ** 4).mean(0) / drawn.var(0) ** 2
    spread = 6 * variance * ((kurtosis.clamp(min=2) - 1) / N).sqrt() * 1.5 + 1e-9
    assert ((drawn.var(0) - variance).abs() < spread).all(), (drawn.var(0), variance)


@pytest.mark.parametrize("name", ["Normal", "Gamma", "Beta", "Exponential", "Gumbel", "Laplace", "Uniform", "StudentT", "Weibull",
                                  "Cauchy", "HalfCauchy", "LogNormal", "Kumaraswamy", "Pareto", "HalfNormal",
                                  "ContinuousBernoulli"])
def test_samples_follow_the_distribution_function(name):
    """Kolmogorov and Smirnov's statistic."""
    ours, theirs = both(name)
    gt.manual_seed(3)
    drawn = to_torch(ours.sample((20_000,)))
    if name in ("Beta", "StudentT"):  # torch has no cdf of these
        with torch.random.fork_rng():
            torch.manual_seed(2)
            reference = theirs.sample((20_000,)).sort(0).values
        ranks = torch.searchsorted(reference.T.contiguous(), drawn.sort(0).values.T.contiguous()).T / 20_000
    else:
        ranks = theirs.cdf(drawn).sort(0).values
    uniform = torch.arange(20_000, dtype=f64)[:, None] / 20_000
    assert (ranks - uniform).abs().max() < 2.2 / math.sqrt(20_000)


def test_generalized_pareto():
    """In float32: torch's refuses float64."""
    arguments = [REAL.float(), POSITIVE.float(), torch.tensor([0.1, -0.3, 0.0])]
    ours, theirs = G.GeneralizedPareto(*map(to_gt, arguments)), T.GeneralizedPareto(*arguments)
    value, quantile = arguments[0] + 0.5, torch.tensor([0.2, 0.5, 0.9])
    for what in ("mean", "variance", "mode"):
        check(getattr(ours, what), getattr(theirs, what))
    check(ours.log_prob(to_gt(value)), theirs.log_prob(value))
    check(ours.cdf(to_gt(value)), theirs.cdf(value))
    check(ours.icdf(to_gt(quantile)), theirs.icdf(quantile))
    check(ours.entropy(), theirs.entropy())
    gt.manual_seed(1)
    assert torch.allclose(to_torch(ours.sample((N,))).mean(0), theirs.mean, atol=0.1)


def test_continuous_bernoulli_near_one_half():
    ours, theirs = (L.ContinuousBernoulli(x) for L, x in ((G, gt.tensor([0.5, 0.4995])), (T, torch.tensor([0.5, 0.4995]))))
    for what in ("mean", "variance"):
        check(getattr(ours, what), getattr(theirs, what))
    check(ours.log_prob(gt.tensor([0.2, 0.9])), theirs.log_prob(torch.tensor([0.2, 0.9])))


def test_von_mises_samples():
    ours, _ = both("VonMises")
    gt.manual_seed(1)
    drawn = to_torch(ours.sample((N,)))
    for function in (torch.cos, torch.sin):
        length = torch.special.i1e(POSITIVE) / torch.special.i0e(POSITIVE)
        assert ((function(drawn).mean(0) - length * function(REAL)).abs() < 5 / math.sqrt(N)).all()
    assert (drawn.abs() <= math.pi).all()


def test_categorical_frequencies():
    ours, _ = both("Categorical")
    gt.manual_seed(1)
    drawn = to_torch(ours.sample((N,)))
    counts = torch.stack([(drawn == k).double().mean(0) for k in range(3)], -1)
    assert ((counts - SHARES).abs() < 5 / math.sqrt(N)).all()


def test_lkj_samples_are_correlation_factors():
    ours = G.LKJCholesky(3, 1.5)
    drawn = to_torch(ours.sample((2000,)))
    matrices = drawn @ drawn.mT
    assert torch.allclose(matrices.diagonal(dim1=-2, dim2=-1), torch.ones(3), atol=1e-5)
    # Each correlation is 2 Beta(a, a) - 1 with a = concentration + (dim - 2) / 2: its variance is 1 / (2 a + 1).
    assert abs(matrices[:, 1, 0].var().item() - 1 / 5) < 0.03 and abs(matrices[:, 2, 1].var().item() - 1 / 5) < 0.03


# ---- gradients of samples ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in CASES if getattr(T, name.split()[0]).has_rsample and
                                  name.split()[0] not in {"HalfCauchy", "Cauchy", "OneHotCategoricalStraightThrough",
                                                          "LogisticNormal", "RelaxedBernoulli", "LogitRelaxedBernoulli",
                                                          "RelaxedOneHotCategorical", "ExpRelaxedCategorical"}])
def test_gradient_of_the_mean_of_samples(name):
    """The gradient of the average of rsample() is that of the mean, within the sampling error."""
    arguments = CASES[name]
    ours_in = {k: to_gt(v).requires_grad_() if isinstance(v, torch.Tensor) else v for k, v in arguments.items()}
    theirs_in = {k: v.clone().requires_grad_() if isinstance(v, torch.Tensor) else v for k, v in arguments.items()}
    wanted = [k for k, v in arguments.items() if isinstance(v, torch.Tensor)]
    cls = name.split()[0]
    expected = torch.autograd.grad(getattr(T, cls)(**theirs_in).mean.sum() * 1.0, [theirs_in[k] for k in wanted], allow_unused=True)
    gt.manual_seed(2)
    drawn = getattr(G, cls)(**ours_in).rsample((N,))
    assert drawn.requires_grad
    got = gt.grad(drawn.mean(0).sum(), [ours_in[k] for k in wanted], allow_unused=True)
    for key, mine, other in zip(wanted, got, expected):
        other = torch.zeros_like(arguments[key]) if other is None else other
        mine = torch.zeros_like(other) if mine is None else to_torch(mine)
        assert torch.allclose(mine, other, rtol=0.05, atol=0.06), (key, mine, other)


def test_straight_through_gradient():
    p = gt.tensor([0.2, 0.3, 0.5], dtype=gt.float64).requires_grad_()
    drawn = G.OneHotCategoricalStraightThrough(probs=p).rsample((2,))
    assert set(to_torch(drawn.detach()).round(decimals=12).flatten().tolist()) == {0.0, 1.0}
    (drawn * gt.tensor([1.0, 2.0, 3.0], dtype=gt.float64)).sum().backward()
    q = torch.tensor([0.2, 0.3, 0.5], dtype=f64).requires_grad_()
    (T.OneHotCategoricalStraightThrough(probs=q).rsample((2,)) * t(1.0, 2.0, 3.0)).sum().backward()
    check(p.grad, q.grad)


def test_dirichlet_gradient_of_a_function():
    """d E[x0^2] / d concentration has a closed form."""
    a = torch.tensor([0.7, 2.0, 1.3], dtype=f64).requires_grad_()
    total = a.sum()
    (a[0] * (a[0] + 1) / (total * (total + 1))).backward()
    b = to_gt(a.detach()).requires_grad_()
    gt.manual_seed(8)
    G.Dirichlet(b).rsample((200_000,))[:, 0].square().mean().backward()
    assert torch.allclose(to_torch(b.grad), a.grad, atol=4e-3), (b.grad, a.grad)


# ---- the same numbers on any number of workers and threads; seeds ---------------------------------------------------


def test_samples_are_reproducible():
    for name in ("Gamma", "Dirichlet", "Poisson", "Binomial", "Categorical", "VonMises", "Normal"):
        ours, _ = both(name)
        gt.manual_seed(3)
        first = to_torch(ours.sample((700,)))
        gt.manual_seed(3)
        assert torch.equal(first, to_torch(ours.sample((700,))))
        assert not torch.equal(first, to_torch(ours.sample((700,))))


# ---- composition ----------------------------------------------------------------------------------------------------


def test_independent():
    ours = G.Independent(G.Normal(to_gt(SHARES), to_gt(SHARES + 1)), 1)
    theirs = T.Independent(T.Normal(SHARES, SHARES + 1), 1)
    value = torch.randn(2, 3, dtype=f64)
    assert ours.batch_shape == (2,) and ours.event_shape == (3,)
    check(ours.log_prob(to_gt(value)), theirs.log_prob(value))
    check(ours.entropy(), theirs.entropy())
    assert ours.expand((4, 2)).sample().shape == (4, 2, 3)
    raises(ValueError, lambda: G.Independent(G.Normal(0.0, 1.0), 1), "reinterpreted_batch_ndims")


def test_mixture():
    ours = G.MixtureSameFamily(G.Categorical(to_gt(SHARES)), G.Normal(to_gt(SHARES * 9), to_gt(SHARES + 0.5)))
    theirs = T.MixtureSameFamily(T.Categorical(SHARES), T.Normal(SHARES * 9, SHARES + 0.5))
    value = torch.randn(4, 2, dtype=f64)
    for what in ("mean", "variance"):
        check(getattr(ours, what), getattr(theirs, what))
    check(ours.log_prob(to_gt(value)), theirs.log_prob(value))
    check(ours.cdf(to_gt(value)), theirs.cdf(value))
    gt.manual_seed(1)
    assert torch.allclose(to_torch(ours.sample((N,))).mean(0), theirs.mean, atol=0.1)
    ours = G.MixtureSameFamily(G.Categorical(gt.ones(5)), G.Independent(G.Normal(gt.zeros(5, 2), gt.ones(5, 2)), 1))
    assert ours.sample((7,)).shape == (7, 2) and ours.log_prob(ours.sample()).shape == ()


TRANSFORMS = {
    "ExpTransform": ((), REAL), "SigmoidTransform": ((), REAL), "TanhTransform": ((), REAL * 0.5), "SoftplusTransform": ((), REAL),
    "PowerTransform": ((t(1.5),), POSITIVE), "AffineTransform": ((1.5, -2.0), REAL),
    "StickBreakingTransform": ((), SHARES), "CorrCholeskyTransform": ((), torch.tensor([0.1, -0.4, 0.3, 0.2, 0.5, -0.1], dtype=f64)),
    "LowerCholeskyTransform": ((), COVARIANCE), "SoftmaxTransform": ((), SHARES), "AbsTransform": ((), REAL),
    "ReshapeTransform": (((3,), (3, 1)), SHARES), "PositiveDefiniteTransform": ((), TRIANGLE),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transform(name):
    arguments, x = TRANSFORMS[name]
    theirs = getattr(T, name)(*arguments)
    ours = getattr(G, name)(*[to_gt(a) if isinstance(a, torch.Tensor) else a for a in arguments])
    y = theirs(x)
    check(ours(to_gt(x)), y)
    check(ours.inv(to_gt(y)), theirs.inv(y), rtol=1e-8, atol=1e-9)
    assert ours.forward_shape(tuple(x.shape)) == tuple(theirs.forward_shape(x.shape))
    same_or_missing("jacobian", lambda: ours.log_abs_det_jacobian(to_gt(x), to_gt(y)), lambda: theirs.log_abs_det_jacobian(x, y))
    assert ours.bijective == theirs.bijective
    assert (ours.domain.event_dim, ours.codomain.event_dim) == (theirs.domain.event_dim, theirs.codomain.event_dim)


def test_composed_transforms():
    parts = lambda L: [L.AffineTransform(0.3, 2.0), L.SigmoidTransform(), L.AffineTransform(-1.0, 3.0)]  # noqa: E731
    ours, theirs = (L.TransformedDistribution(L.Normal(0.0, 1.0), parts(L)) for L in (G, T))
    value = torch.linspace(-0.9, 1.9, 7)
    check(ours.log_prob(to_gt(value)), theirs.log_prob(value))
    check(ours.cdf(to_gt(value)), theirs.cdf(value))
    ours, theirs = (L.ComposeTransform([L.ExpTransform(), L.PowerTransform(2.0)]) for L in (G, T))
    x = POSITIVE.float()
    check(ours.log_abs_det_jacobian(to_gt(x), ours(to_gt(x))), theirs.log_abs_det_jacobian(x, theirs(x)))
    check(ours.inv(ours(to_gt(x))), x)
    for axis in (0, 1):
        ours, theirs = (L.StackTransform([L.ExpTransform(), L.AffineTransform(1.0, 2.0)], axis) for L in (G, T))
        x = torch.rand(2, 2)
        check(ours(to_gt(x)), theirs(x))
        check(ours.log_abs_det_jacobian(to_gt(x), ours(to_gt(x))), theirs.log_abs_det_jacobian(x, theirs(x)))
        ours, theirs = (L.CatTransform([L.ExpTransform(), L.AffineTransform(1.0, 2.0)], axis, [1, 1]) for L in (G, T))
        check(ours(to_gt(x)), theirs(x))
    logistic = [L.TransformedDistribution(L.Uniform(0.0, 1.0), [L.SigmoidTransform().inv, L.AffineTransform(1.0, 2.0)])
                for L in (G, T)]
    check(logistic[0].log_prob(gt.tensor([0.5, 3.0])), logistic[1].log_prob(torch.tensor([0.5, 3.0])))


def test_registries():
    for registry in ("biject_to", "transform_to"):
        for of in ("positive", "unit_interval", "simplex", "real"):
            ours, theirs = getattr(G, registry)(getattr(G.constraints, of)), getattr(T, registry)(getattr(T.constraints, of))
            x = torch.tensor([[0.3, -0.4]])
            check(ours(to_gt(x)), theirs(x))
    raises(NotImplementedError, lambda: G.biject_to(G.constraints.boolean), "Cannot transform")


# ---- kl_divergence ----------------------------------------------------------------------------------------------------

KL_NAMES = ["Bernoulli", "Beta", "Categorical", "ContinuousBernoulli", "Dirichlet", "Exponential", "Gamma", "Gumbel", "HalfNormal",
            "Laplace", "LogNormal", "Normal", "Pareto", "Poisson", "Uniform", "Geometric", "Binomial", "OneHotCategorical", "Cauchy",
            "MultivariateNormal", "LowRankMultivariateNormal", "NegativeBinomial", "StudentT"]
KL_CHANGES = {  # of q, so that it is not p
    "loc": lambda v: v + 0.3, "scale": lambda v: v * 1.2, "rate": lambda v: v * 0.8, "concentration": lambda v: v + 0.4,
    "low": lambda v: v - 0.5, "probs": lambda v: (v + 0.05) / (v + 0.05).sum(-1, True) if v.dim() == 2 else v * 0.9,
    "concentration1": lambda v: v + 0.2, "cov_diag": lambda v: v + 0.2, "covariance_matrix": lambda v: v * 1.1}


@pytest.mark.parametrize("first", KL_NAMES)
def test_kl_divergence(first):
    compared = 0
    for second in KL_NAMES:
        p = CASES[first] if first != "Bernoulli" else dict(probs=t(0.2, 0.5, 0.9))
        q = CASES[second] if second != "Bernoulli" else dict(probs=t(0.2, 0.5, 0.9))
        q = {key: KL_CHANGES.get(key, lambda v: v)(v) if isinstance(v, torch.Tensor) else v for key, v in q.items()}
        theirs = getattr(T, first)(**p), getattr(T, second)(**q)
        mine = [{k: to_gt(v) if isinstance(v, torch.Tensor) else v for k, v in a.items()} for a in (p, q)]
        ours = getattr(G, first)(**mine[0]), getattr(G, second)(**mine[1])
        try:
            expected = T.kl_divergence(*theirs)
        except NotImplementedError:
            continue
        check(G.kl_divergence(*ours), expected.to(f64), f"{first} and {second}", rtol=1e-8, atol=1e-9, check_dtype=False)
        compared += 1
    assert compared or first in ("NegativeBinomial", "StudentT")


def test_kl_of_composed():
    p, q = G.Independent(G.Normal(gt.zeros(2, 3), gt.ones(2, 3)), 1), G.Independent(G.Normal(gt.ones(2, 3), gt.ones(2, 3)), 1)
    check(G.kl_divergence(p, q), torch.full((2,), 1.5))
    raises(NotImplementedError, lambda: G.kl_divergence(G.StudentT(3.0), G.Normal(0.0, 1.0)), "StudentT")

    class Mine(G.Normal):
        pass

    @G.register_kl(Mine, Mine)
    def kl_mine(p, q):
        return gt.tensor(7.0)

    assert G.kl_divergence(Mine(0.0, 1.0), Mine(0.0, 1.0)).item() == 7
    raises(TypeError, lambda: G.register_kl(int, G.Normal), "type_p")


# ---- validation ---------------------------------------------------------------------------------------------------------


def test_numbers_are_validated_at_once():
    for make in (lambda **o: G.Normal(0.0, -1.0, **o), lambda **o: G.Gamma(-1.0, 1.0, **o), lambda **o: G.Bernoulli(1.5, **o),
                 lambda **o: G.Uniform(2.0, 1.0, **o), lambda **o: G.Poisson(-1.0, **o), lambda **o: G.Beta(0.0, 1.0, **o),
                 lambda **o: G.Exponential(0.0, **o), lambda **o: G.StudentT(-2.0, **o), lambda **o: G.LogNormal(0.0, 0.0, **o)):
        raises(ValueError, make)
        raises(ValueError, lambda: make(validate_args=True))
        make(validate_args=False)


def test_tensors_are_validated_on_request():
    bad = gt.tensor([1.0, -1.0])
    G.Normal(0.0, bad)  # not read
    raises(ValueError, lambda: G.Normal(0.0, bad, validate_args=True), "Expected parameter scale", "GreaterThan", "shape (2,)")
    raises(ValueError, lambda: G.Categorical(bad, validate_args=True), "probs")
    raises(ValueError, lambda: G.MultivariateNormal(gt.zeros(2), -gt.eye(2), validate_args=True), "PositiveDefinite")
    normal = G.HalfNormal(gt.tensor(1.0), validate_args=True)
    raises(ValueError, lambda: normal.log_prob(gt.tensor(-1.0)), "within the support")
    G.Distribution.set_default_validate_args(True)
    try:
        raises(ValueError, lambda: G.Normal(0.0, bad), "scale")
    finally:
        G.Distribution._validate_args = None


def test_shapes_of_values_are_validated():
    normal = G.Normal(gt.zeros(3), gt.ones(3))
    raises(ValueError, lambda: normal.log_prob(gt.zeros(2)), "not broadcastable")
    raises(ValueError, lambda: normal.log_prob(0.0), "must be a Tensor")
    raises(ValueError, lambda: G.Dirichlet(gt.ones(3)).log_prob(gt.ones(2)), "event_shape")
    raises(ValueError, lambda: G.Bernoulli(), "Either `probs` or `logits`")
    raises(ValueError, lambda: G.MultivariateNormal(gt.zeros(2)), "Exactly one")
    raises(ValueError, lambda: G.Categorical(gt.tensor(0.5)), "at least one-dimensional")


def test_constraints():
    x = torch.tensor([-1.0, 0.0, 0.3, 1.0, 2.0, math.nan, math.inf])
    for name in ("real", "positive", "nonnegative", "unit_interval", "boolean", "nonnegative_integer", "positive_integer"):
        check(getattr(G.constraints, name).check(to_gt(x)), getattr(T.constraints, name).check(x), name)
        assert repr(getattr(G.constraints, name)) == repr(getattr(T.constraints, name))
    for name, value in itertools.product(("simplex", "one_hot"), (SHARES, SHARES + 1, torch.eye(3))):
        check(getattr(G.constraints, name).check(to_gt(value)), getattr(T.constraints, name).check(value), name)
    for name in ("lower_triangular", "lower_cholesky", "positive_definite", "positive_semidefinite", "symmetric", "square"):
        for matrix in (COVARIANCE, TRIANGLE, -COVARIANCE, torch.ones(2, 3, dtype=f64)):
            if matrix.shape[0] == matrix.shape[1] or name == "square":
                check(getattr(G.constraints, name).check(to_gt(matrix)), getattr(T.constraints, name).check(matrix), name)


def test_modules_and_names():
    from gt.distributions.categorical import Categorical
    from gt.distributions.kl import kl_divergence
    from gt.distributions.normal import Normal
    assert Normal is G.Normal and Categorical is G.Categorical and kl_divergence is G.kl_divergence
    assert set(T.__all__) <= set(G.__all__), set(T.__all__) - set(G.__all__)
    assert repr(G.Normal(0.0, 1.0)) == repr(T.Normal(0.0, 1.0))
