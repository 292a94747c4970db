"""Random numbers: distributions by fixed seeds, the same numbers however they are computed, states and errors.

Bounds are generous: a correct generator fails with one seed in millions. SciPy is not needed: the Kolmogorov-Smirnov and
chi-square statistics are one line each.
"""

import math

import numpy as np
import pytest
import torch

import gt
from support import FLOATS, gt_dtype, raises

N = 200_000


def ks_distance(sample, cdf):
    """The largest distance between the sample's distribution and the one it should have."""
    x = np.sort(np.asarray(sample, dtype=np.float64).ravel())
    expected, n = cdf(x), len(x)
    return max(np.abs(expected - np.arange(n) / n).max(), np.abs(expected - np.arange(1, n + 1) / n).max())


def check_distribution(sample, cdf):
    sample = sample.double().numpy()
    assert ks_distance(sample, cdf) < 3 / math.sqrt(sample.size)  # above 2 once in 1500 times, above 3 never


def check_frequencies(counts, probabilities):
    """Pearson's chi-square, within ten of its standard deviations."""
    counts, expected = np.asarray(counts, dtype=float), np.asarray(probabilities) * np.sum(counts)
    assert (counts[expected == 0] == 0).all()
    used = expected > 0
    statistic, freedom = ((counts - expected)[used] ** 2 / expected[used]).sum(), max(used.sum() - 1, 1)
    assert abs(statistic - freedom) < 10 * math.sqrt(2 * freedom), f"{statistic} with {freedom} degrees of freedom"


def normal_cdf(x):
    return np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in x])


@pytest.fixture(autouse=True)
def seeded():
    gt.manual_seed(1234)


# ---- distributions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fills(dtype):
    kind = gt_dtype(dtype)
    x = gt.zeros(N, dtype=kind)
    assert x.uniform_(-2, 3) is x and x.dtype == kind
    check_distribution(x, lambda v: (v + 2) / 5)
    check_distribution(x.normal_(1, 2), lambda v: normal_cdf((v - 1) / 2))
    check_distribution(x.exponential_(0.5), lambda v: 1 - np.exp(-0.5 * v))
    check_distribution(x.cauchy_(1, 2), lambda v: 0.5 + np.arctan((v - 1) / 2) / np.pi)
    check_distribution(x.log_normal_(0.5, 0.25), lambda v: normal_cdf((np.log(v) - 0.5) / 0.25))
    counts = np.bincount(x.geometric_(0.3).long().numpy())
    chances = [0, *(0.3 * 0.7**k for k in range(len(counts) - 1))]
    few = len([p for p in chances if p * N > 20])
    check_frequencies([*counts[: few + 1], counts[few + 1 :].sum()], [*chances[: few + 1], 1 - sum(chances[: few + 1])])


def test_half_precision_fills():
    for dtype in ("float16", "bfloat16"):
        x = gt.zeros(N, dtype=gt_dtype(dtype)).exponential_()
        assert x.dtype == gt_dtype(dtype) and abs(x.double().mean().item() - 1) < 0.02
        assert 0.49 < gt.zeros(N, dtype=gt_dtype(dtype)).uniform_().double().mean().item() < 0.51


def test_random_integers():
    x = gt.zeros(N, dtype=gt.int64)
    check_frequencies(np.bincount(x.random_(10).numpy()), [0.1] * 10)
    check_frequencies(np.bincount(x.random_(-3, 4).numpy() + 3), [1 / 7] * 7)
    full = gt.zeros(N, dtype=gt.uint8).random_().numpy()
    check_frequencies(np.bincount(full, minlength=256), [1 / 256] * 256)
    assert set(gt.zeros(100, dtype=gt.bool).random_().tolist()) == {True, False}
    floats = gt.zeros(N).random_()
    assert floats.dtype == gt.float32 and (floats == floats.floor()).all() and floats.max().item() <= 2**24
    check_distribution(floats, lambda v: v / (2**24 + 1))


def test_bernoulli():
    chances = gt.tensor([0.0, 0.1, 0.5, 0.9, 1.0])
    drawn = gt.bernoulli(chances.expand(N, 5))
    assert drawn.dtype == gt.float32
    mean = drawn.mean(0).numpy()
    assert mean[0] == 0 and mean[4] == 1 and np.abs(mean - chances.numpy()).max() < 0.01
    assert abs(gt.zeros(N, dtype=gt.int64).bernoulli_(0.25).double().mean().item() - 0.25) < 0.01
    assert abs(gt.ones(N).bernoulli(p=0.7).mean().item() - 0.7) < 0.01
    assert gt.zeros(2, 5).bernoulli_(gt.tensor([0.0, 1, 0, 1, 1])).tolist() == [[0, 1, 0, 1, 1]] * 2


@pytest.mark.parametrize("dtype", FLOATS)
def test_multinomial_with_replacement(dtype):
    weights = torch.tensor([1.0, 0, 3, 4, 0, 0.5, 8])
    drawn = gt.multinomial(gt.tensor(weights.numpy()).to(gt_dtype(dtype)), N, replacement=True)
    check_frequencies(np.bincount(drawn.numpy(), minlength=7), (weights / weights.sum()).numpy())


def test_multinomial_without_replacement():
    """Every ordered pair has the probability p_i * p_j / (1 - p_i)."""
    p = np.array([0.5, 0.1, 0.25, 0.15])
    drawn = gt.tensor(p).expand(N, 4).multinomial(2).numpy()
    assert (drawn[:, 0] != drawn[:, 1]).all()
    pairs = np.bincount(drawn[:, 0] * 4 + drawn[:, 1], minlength=16).reshape(4, 4)
    chances = p[:, None] * p[None] / (1 - p[:, None])
    np.fill_diagonal(chances, 0)
    check_frequencies(pairs.ravel(), chances.ravel())


def test_randperm():
    p = gt.randperm(1000)
    assert p.dtype == gt.int64 and sorted(p.tolist()) == list(range(1000)) and p.tolist() != list(range(1000))
    assert gt.randperm(0).shape == (0,) and gt.randperm(1, dtype=gt.int32).tolist() == [0]
    orders = [tuple(gt.randperm(3).tolist()) for _ in range(3000)]
    counts = [orders.count(order) for order in sorted(set(orders))]
    assert len(counts) == 6
    check_frequencies(counts, [1 / 6] * 6)
    assert gt.randperm(5, dtype=gt.float32).dtype == gt.float32


def test_normal_of_tensors():
    mean, std = gt.tensor([0.0, 100.0]), gt.tensor([[1.0], [3.0]])
    drawn = gt.normal(mean, std.expand(2, 2))
    assert drawn.shape == (2, 2)
    drawn = gt.normal(mean.expand(N, 2), 2.0).numpy()
    assert np.abs(drawn.mean(0) - [0, 100]).max() < 0.05 and np.abs(drawn.std(0) - 2).max() < 0.05
    assert gt.normal(0.0, 1.0, (3, 4), dtype=gt.float64).dtype == gt.float64
    assert gt.normal(1.0, gt.ones(5)).shape == (5,)


# ---- the same numbers -----------------------------------------------------------------------------------------

DRAWS = """
    import sys
    import gt
    {setup}
    gt.manual_seed(77)
    def draws():
        yield gt.rand(33, 7)
        yield gt.randn(1001, dtype=gt.float64)
        yield gt.randint(-5, 50, (70001,))
        yield gt.randperm(40_000)
        yield gt.bernoulli(gt.rand(300, 301))
        yield gt.poisson(gt.rand(300, 301) * 30)
        yield gt._standard_gamma(gt.rand(300, 301) * 3)
        yield gt._sample_dirichlet(gt.rand(300, 31))
        yield gt.binomial(gt.full((300, 301), 40.0), gt.rand(300, 301))
        yield gt.rand(50, 20).multinomial(4)
        yield gt.rand(3, 1000).multinomial(70_000, replacement=True)
        yield gt.zeros(1000).normal_()
        yield gt.nn.functional.dropout(gt.ones(3000), 0.3)
        yield gt.normal(gt.zeros(10), 2.0)
        yield gt.zeros(1000).exponential_()  # through a logarithm, which engines may round differently
    import hashlib
    hashes = [hashlib.sha256(t.numpy().tobytes()).hexdigest()[:16] for t in draws()]
    print(" ".join(hashes))
"""


def test_same_numbers_everywhere(programs):
    """One worker, four workers, one thread, three threads, and the engine that draws them one by one."""
    setups = [
        ("", {}),
        ("gt.gpu_workers(4)", {}),
        ("", {"GT_NUM_THREADS": 1}),
        ("", {"GT_NUM_THREADS": 3}),
        ("", {"GT_BACKEND": "reference"}),
    ]
    results = [programs.run(DRAWS.replace("{setup}", setup), **options).split() for setup, options in setups]
    assert len(results[0]) == 15
    for result in results[1:-1]:
        assert result == results[0]
    assert results[-1][:-1] == results[0][:-1]


def test_states():
    state = gt.get_rng_state()
    first = [gt.rand(5).tolist(), gt.randperm(9).tolist(), gt.bernoulli(gt.full((20,), 0.5)).tolist()]
    gt.set_rng_state(state)
    again = [gt.rand(5).tolist(), gt.randperm(9).tolist(), gt.bernoulli(gt.full((20,), 0.5)).tolist()]
    assert first == again
    gt.manual_seed(99)
    assert gt.initial_seed() == 99
    assert gt.seed() == gt.initial_seed() != 99
    raises(RuntimeError, lambda: gt.set_rng_state(gt.zeros(3, dtype=gt.uint8)), "3 bytes")


def test_streams_are_independent():
    a, b = gt.randn(N).numpy(), gt.randn(N).numpy()
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.02
    assert gt.randperm(100).tolist() != gt.randperm(100).tolist()


def test_generator():
    """A generator and the default numbers do not affect each other."""
    g = gt.Generator().manual_seed(5)
    gt.manual_seed(1)
    with_generator = [gt.randperm(50, generator=g).tolist(), gt.rand(3).tolist()]
    with_generator.append(gt.multinomial(gt.ones(30), 5, generator=g).tolist())
    gt.manual_seed(1)
    assert with_generator[1] == gt.rand(3).tolist()
    gt.manual_seed(5)
    assert with_generator[0] == gt.randperm(50).tolist()
    assert with_generator[2] == gt.multinomial(gt.ones(30), 5).tolist()
    gt.manual_seed(6)
    expected = [gt.rand(3), gt.randn(3), gt.randint(9, (3,)), gt.rand_like(gt.ones(2)), gt.randint_like(gt.ones(2), 9)]
    g.manual_seed(6)
    drawn = [gt.rand(3, generator=g), gt.randn((3,), generator=g), gt.randint(0, 9, (3,), generator=g)]
    drawn += [gt.rand_like(gt.ones(2), generator=g), gt.randint_like(gt.ones(2), 0, 9, generator=g)]
    assert [t.tolist() for t in drawn] == [t.tolist() for t in expected]
    raises(TypeError, lambda: gt.rand(3, generator=7), "Generator")
    g.manual_seed(5)
    state = g.get_state()
    first = gt.zeros(4).normal_(generator=g).tolist()
    assert gt.zeros(4).normal_(generator=g.set_state(state)).tolist() == first
    assert g.initial_seed() == 5


# ---- errors ---------------------------------------------------------------------------------------------------


def test_refused_at_the_line():
    p = gt.ones(3)
    raises(RuntimeError, lambda: p.multinomial(0), "n_sample <= 0")
    raises(RuntimeError, lambda: p.multinomial(4), "without replacement")
    raises(RuntimeError, lambda: gt.ones(2, 2, 2).multinomial(1), "1 or 2 dim")
    raises(RuntimeError, lambda: gt.ones(2, 0).multinomial(1, True), "categories")
    raises((TypeError, RuntimeError), lambda: gt.arange(3).multinomial(1), "floating-point", "int64")
    raises((TypeError, RuntimeError), lambda: gt.bernoulli(gt.arange(3)), "floating-point")
    raises(TypeError, lambda: gt.multinomial([1, 2], 1))
    raises(RuntimeError, lambda: p.bernoulli_(1.5), "[0, 1]")
    raises(RuntimeError, lambda: gt.randperm(-1), "non-negative")
    raises(RuntimeError, lambda: p.uniform_(2, 1), "from=2 > to=1")
    raises(RuntimeError, lambda: p.exponential_(0), "lambda")
    raises(RuntimeError, lambda: p.normal_(0, -1), "std >= 0")
    raises(RuntimeError, lambda: p.geometric_(1), "(0, 1)")
    raises(RuntimeError, lambda: p.random_(3, 3), "from")
    raises(NotImplementedError, lambda: gt.arange(3).normal_())


@pytest.mark.parametrize(
    "weights, replacement, word",
    [
        ([1.0, -1], True, "element < 0"),
        ([1.0, float("nan")], False, "nan"),
        ([1.0, float("inf")], True, "inf"),
        ([0.0, 0], True, "sum of probabilities <= 0"),
        ([1.0, 0], False, "not enough"),
    ],
)
def test_refused_by_the_worker(weights, replacement, word):
    """Errors that depend on the data poison the result; the session goes on."""
    drawn = gt.tensor(weights).multinomial(2, replacement)
    raises(RuntimeError, drawn.tolist, word, "multinomial")
    raises(RuntimeError, lambda: gt.bernoulli(gt.tensor([0.5, 1.5])).tolist(), "p_in <= 1")
    raises(RuntimeError, lambda: gt.bernoulli(gt.tensor([float("nan")])).tolist(), "p_in")
    assert gt.bernoulli(gt.ones(2)).tolist() == [1, 1]
