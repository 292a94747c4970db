"""Functions composed of the table's ops, and in-place and renamed variants of its rows, against torch."""

import numpy as np
import pytest
import torch

import gt
from gt._gt import op_table
from gt.client.tensor import FUNCTIONS
from support import Collector, check, raises, to_gt, values

X = values((3, 4, 5), "float32", 1)
MASK = values((3, 4, 5), "bool", 2)
INTEGERS = values((3, 4), "int64", 3)
SPECIAL = torch.tensor([[1.0, float("nan"), -float("inf")], [float("inf"), 0.0, -2.0]])

# name: calls; each is a function of a namespace n (gt or torch) and a converter c (to GT tensors, or nothing).
CALLS = {
    "softmax": [
        lambda n, c: n.softmax(c(X), 1),
        lambda n, c: n.softmax(c(X), dim=-1),
        lambda n, c: c(X).softmax(0),
    ],
    "log_softmax": [lambda n, c: n.log_softmax(c(X), 1), lambda n, c: c(X * 100).log_softmax(-1)],
    "logsumexp": [lambda n, c: n.logsumexp(c(X), 1), lambda n, c: n.logsumexp(c(X * 100), -1, keepdim=True)],
    "unbind": [lambda n, c: n.unbind(c(X))[1], lambda n, c: c(X).unbind(-1)[4]],
    "movedim": [lambda n, c: n.movedim(c(X), 0, 2), lambda n, c: n.movedim(c(X), (0, 1), (2, 0))],
    "moveaxis": [lambda n, c: n.moveaxis(c(X), -1, 0)],
    "swapaxes": [lambda n, c: n.swapaxes(c(X), 0, 2)],
    "tile": [
        lambda n, c: n.tile(c(X), (2,)),
        lambda n, c: c(X).tile((2, 1, 3, 1)),
        lambda n, c: n.tile(c(X), (2, 0, 1)),
    ],
    "repeat_interleave": [
        lambda n, c: n.repeat_interleave(c(X), 3, 1),
        lambda n, c: n.repeat_interleave(c(INTEGERS), 2),
        lambda n, c: c(X).repeat_interleave(2, dim=-1),
    ],
    "take_along_dim": [
        lambda n, c: n.take_along_dim(c(X), c(X.argsort(1)), 1),
        lambda n, c: n.take_along_dim(c(INTEGERS), c(torch.tensor([[0], [1], [2]])), dim=1),
    ],
    "take": [lambda n, c: n.take(c(X), c(torch.tensor([[0, 7], [-1, 59]])))],
    "masked_select": [
        lambda n, c: n.masked_select(c(X), c(MASK)),
        lambda n, c: n.masked_select(c(X), c(MASK[0])),
        lambda n, c: c(X).masked_select(c(MASK[:, :1])),
    ],
    "masked_fill": [lambda n, c: n.masked_fill(c(X), c(MASK), 7.0), lambda n, c: c(X).masked_fill(c(MASK[0]), -1)],
    "nonzero": [
        lambda n, c: n.nonzero(c(INTEGERS)),
        lambda n, c: c(MASK).nonzero(),
        lambda n, c: n.nonzero(c(X[:0])),
    ],
    "count_nonzero": [lambda n, c: n.count_nonzero(c(INTEGERS)), lambda n, c: n.count_nonzero(c(MASK), 1)],
    "isnan": [lambda n, c: n.isnan(c(SPECIAL)), lambda n, c: n.isnan(c(INTEGERS))],
    "isinf": [lambda n, c: n.isinf(c(SPECIAL)), lambda n, c: n.isinf(c(INTEGERS))],
    "isfinite": [lambda n, c: n.isfinite(c(SPECIAL)), lambda n, c: n.isfinite(c(INTEGERS))],
    "isclose": [
        lambda n, c: n.isclose(c(X), c(X + 1e-9)),
        lambda n, c: n.isclose(c(SPECIAL), c(SPECIAL)),
        lambda n, c: n.isclose(c(SPECIAL), c(SPECIAL), equal_nan=True),
        lambda n, c: n.isclose(c(X), c(X * 1.01), rtol=0.1),
    ],
    "outer": [lambda n, c: n.outer(c(X[0, 0]), c(X[0, :, 0]))],
    "addmm": [lambda n, c: n.addmm(c(X[0, :, 0]), c(X[0]), c(X[1].T), beta=0.5, alpha=2)],
    "norm": [lambda n, c: n.norm(c(X)), lambda n, c: n.norm(c(X), dim=1), lambda n, c: c(X).norm(1, -1, True)],
    "mv": [lambda n, c: n.mv(c(X[0]), c(X[0, 0]))],
    "narrow": [lambda n, c: n.narrow(c(X), 1, 1, 2)],
    "select": [lambda n, c: n.select(c(X), 1, 2), lambda n, c: c(X).select(-1, -1)],
    "std": [lambda n, c: n.std(c(X)), lambda n, c: n.std(c(X), 1, keepdim=True)],
    "clip": [lambda n, c: n.clip(c(X), -1, 1)],
}

# Aliases of rows: each must match torch's function of that name.
ALIASES = {
    "subtract": 2, "multiply": 2, "divide": 2, "true_divide": 2, "not_equal": 2, "less": 2, "less_equal": 2,
    "greater": 2, "greater_equal": 2, "negative": 1, "absolute": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_composite(name):
    cases = Collector()
    for k, call in enumerate(CALLS[name]):
        cases.same(f"{name} #{k}", lambda: call(gt, to_gt), call(torch, lambda x: x))
    cases.finish()


@pytest.mark.parametrize("name", ALIASES)
def test_alias(name):
    operands = [values((3, 4), "float32", k) for k in range(ALIASES[name])]
    check(getattr(gt, name)(*map(to_gt, operands)), getattr(torch, name)(*operands))
    check(getattr(to_gt(operands[0]), name)(*map(to_gt, operands[1:])), getattr(torch, name)(*operands))


@pytest.mark.parametrize('name', ['add', 'sub', 'subtract', 'mul', 'multiply', 'div', 'divide', 'true_divide',
                                  'floor_divide', 'remainder', 'pow', 'bitwise_and', 'bitwise_or', 'bitwise_xor'])
def test_functions_take_a_number_first(name):
    ours, theirs = getattr(gt, name), getattr(torch, name)
    for x in (torch.tensor([1, 2, 5], dtype=torch.int8), torch.tensor(3, dtype=torch.uint8), torch.tensor([0.5, 2.0])):
        whole = name.startswith('bitwise')
        if whole and x.is_floating_point():
            continue
        for number in (2,) if whole else (2, 7.5):
            check(ours(number, to_gt(x)), theirs(number, x), f"{name}({number}, {x})")
        check(ours(to_gt(x), to_gt(x)), theirs(x, x), name)
    raises(TypeError, lambda: ours('2', gt.ones(2)))
    try:
        expected = theirs(2, 3)
    except TypeError:
        raises(TypeError, lambda: ours(2, 3))
    else:
        check(ours(2, 3), expected, f"{name}(2, 3)")


def test_where_of_a_condition_alone():
    mask = torch.tensor([[True, False], [False, True]])
    for ours, theirs in zip(gt.where(to_gt(mask)), torch.where(mask), strict=True):
        check(ours, theirs)


def test_every_function_is_one_of_torch_too():
    """GT has only names of torch, apart from some of NumPy's and rows that torch has as aten operators or options."""
    numpy_names = {"take_along_axis", "gelu_tanh", "trunc_divide"} | {n for n in FUNCTIONS if n.endswith("_backward")}
    own = {name for name in FUNCTIONS if not hasattr(torch, name) and not hasattr(torch.nn.functional, name)}
    own = {name for name in own if not hasattr(torch.Tensor, name) and not hasattr(torch.special, name)}
    own -= {"bessel", "polynomial", "frexp_mantissa", "frexp_exponent", "standard_gamma_grad", "dirichlet_grad"}
    assert own <= numpy_names, own - numpy_names
    assert all(callable(getattr(gt, name)) for name in FUNCTIONS)


@pytest.mark.parametrize("name", [row[0] for row in op_table() if row[1] in ("UNARY", "BINARY")])
def test_in_place_variant(name):
    """t.name_() stores t.name() in t, with t's dtype."""
    reference = getattr(torch.Tensor, f"{name}_", None)
    if reference is None:  # test_index_rules.py names those that GT does not have either
        return
    if not hasattr(gt.Tensor, f"{name}_"):
        assert name in ("logical_not",), f"gt has no {name}_"
        return
    form, types = next(row[1:3] for row in op_table() if row[0] == name)
    x, y = values((3, 4), "float32", 1), values((4,), "float32", 2)
    if types in ("BITS", "INT"):
        x, y = values((3, 4), "int32", 1), values((4,), "int32", 2)
    arguments = {"clamp": (-1, 1), "polygamma": (2,)}.get(name, ()) if form == "UNARY" else (y,)
    t = to_gt(x)
    result = getattr(t, f"{name}_")(*[to_gt(a) if isinstance(a, torch.Tensor) else a for a in arguments])
    assert result is t
    check(t, reference(x.clone(), *arguments), f"{name}_")


def test_more_in_place():
    x, index = values((3, 4), "float32", 1), torch.tensor([[0, 1, 2, 0]])
    t = to_gt(x)
    assert t.masked_fill_(t > 0, 9) is t
    check(t, x.clone().masked_fill_(x > 0, 9))
    t = to_gt(x)
    assert t.scatter_(0, to_gt(index), 5.0) is t
    check(t, x.clone().scatter_(0, index, 5.0))
    t = to_gt(x)
    t.scatter_add_(0, to_gt(index), gt.ones(1, 4))
    check(t, x.clone().scatter_add_(0, index, torch.ones(1, 4)))
    t = gt.zeros(10_000)
    t.uniform_(2, 3)
    assert t.min().item() >= 2 and t.max().item() <= 3 and abs(t.mean().item() - 2.5) < 0.05
    t.normal_(5, 0.1)
    assert abs(t.mean().item() - 5) < 0.02 and abs(t.std().item() - 0.1) < 0.01


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32", "bool"])
def test_nan_to_num(dtype):
    x = torch.tensor([1.5, float("nan"), float("inf"), -float("inf"), -0.0])
    x = (x if dtype.startswith(("float", "bfloat")) else torch.tensor([1, 0, 3])).to(getattr(torch, dtype))
    for options in ({}, dict(nan=2.0), dict(nan=1.0, posinf=7.0), dict(posinf=5.0, neginf=-6.0)):
        check(gt.nan_to_num(to_gt(x), **options), torch.nan_to_num(x, **options), str(options))


def test_clamp_min_and_max_celu():
    x = values((3, 4), "float32", 1)
    check(to_gt(x).clamp_min(0.3), x.clamp_min(0.3))
    check(to_gt(x).clamp_max(to_gt(x[0])), x.clamp_max(x[0]))
    t = to_gt(x)
    assert t.clamp_min_(0.5) is t
    check(t, x.clamp_min(0.5))
    check(gt.celu(to_gt(x), 2.0), torch.celu(x, 2.0))
    raises(RuntimeError, lambda: gt.celu(to_gt(x), 0), "alpha")


@pytest.mark.parametrize("weight", ["number", "tensor", "broadcast"])
def test_lerp(weight):
    x, y = values((3, 4), "float32", 1), values((3, 4), "float32", 2)
    w = {"number": 0.7, "tensor": values((3, 4), "float32", 3), "broadcast": values((4,), "float32", 4)}[weight]
    t = to_gt(x)
    v = to_gt(w) if isinstance(w, torch.Tensor) else w
    check(gt.lerp(t, to_gt(y), v), torch.lerp(x, y, w))
    assert t.lerp_(to_gt(y), v) is t
    check(t, torch.lerp(x, y, w))
    raises(TypeError, lambda: t.lerp(to_gt(y)), "weight")


def test_isclose():
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([1.0, 1.0, 1.0, inf, inf, nan, nan, 0.0, 1e-9])
    y = torch.tensor([1.0, 1.0 + 1e-6, 1.1, inf, -inf, nan, 1.0, -0.0, 0.0])
    for options in ({}, dict(equal_nan=True), dict(rtol=0.2), dict(atol=0.2), dict(rtol=0, atol=0)):
        for dtype in (torch.float32, torch.float64):
            a, b = x.to(dtype), y.to(dtype)
            check(gt.isclose(to_gt(a), to_gt(b), **options), torch.isclose(a, b, **options), str(options))
            assert gt.allclose(to_gt(a), to_gt(b), **options) is torch.allclose(a, b, **options)
    a, b = torch.tensor([10, 11]), torch.tensor([10, 12])
    check(gt.isclose(to_gt(a), to_gt(b), atol=1), torch.isclose(a, b, atol=1))
    raises(RuntimeError, lambda: gt.isclose(to_gt(a), to_gt(b), rtol=-1), "zero")
    raises(RuntimeError, lambda: gt.isclose(to_gt(a), to_gt(b.float())), "match")


def test_predicates():
    x = values((5,), "float32", 1)
    assert gt.allclose(to_gt(x), to_gt(x)) is True and gt.allclose(to_gt(x), to_gt(x) + 1) is False
    assert gt.equal(to_gt(x), to_gt(x)) is True and gt.equal(to_gt(x), gt.zeros(4)) is False
    assert gt.is_tensor(to_gt(x)) and not gt.is_tensor(x)


def test_bad_arguments():
    t = gt.zeros(3, 4)
    raises((ValueError, RuntimeError), lambda: t.masked_select(gt.zeros(7, dtype=gt.bool)))
    raises(IndexError, lambda: t.softmax(2))
    raises(IndexError, lambda: t.select(0, 3))
    raises((ValueError, RuntimeError, IndexError), lambda: t.narrow(0, 2, 5))
    raises((ValueError, RuntimeError), lambda: gt.outer(t, t))
    raises((ValueError, RuntimeError), lambda: gt.addmm(t, t, t))


def test_distances_of_many_points():
    """From 26 points on cdist uses a matrix product. The gradient of a point's distance to itself is zero."""
    points = np.random.default_rng(3).integers(-9, 9, (40, 3)).astype(np.float64)
    ours, theirs = gt.tensor(points, requires_grad=True), torch.tensor(points, requires_grad=True)
    distances, expected = gt.cdist(ours, ours), torch.cdist(theirs, theirs)
    np.testing.assert_allclose(distances.detach().numpy(), expected.detach().numpy(), rtol=1e-12, atol=1e-12)
    weights = np.random.default_rng(4).random((40, 40))
    (distances * gt.tensor(weights)).sum().backward()
    (expected * torch.tensor(weights)).sum().backward()
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-10, atol=1e-10)
    with pytest.raises(ValueError, match='not a valid value for compute_mode'):
        gt.cdist(ours, ours, compute_mode='quickly')
