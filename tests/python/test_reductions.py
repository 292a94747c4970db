"""Reductions and scans as users write them: axis and dim, tuples, keepdims, NaNs, empties, named results."""

import numpy as np
import pytest
import torch

import gt
from support import DTYPES, FLOATS, Collector, check, raises, to_gt, values

REDUCTIONS = ["sum", "mean", "prod", "var", "std", "amax", "amin", "any", "all"]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_axis_is_dim(name):
    cases = Collector()
    x = values((3, 4, 5), "bool" if name in ("any", "all") else "float32", 1)
    t, function, reference = to_gt(x), getattr(gt, name), getattr(torch, name)
    for axis in (0, 1, 2, -1, -3):
        wanted, kept = reference(x, dim=axis), reference(x, dim=axis, keepdim=True)
        for spelled in ("dim", "axis"):
            cases.same(f"gt.{name}({spelled}={axis})", lambda: function(t, **{spelled: axis}), wanted)
            cases.same(f"t.{name}({spelled}={axis})", lambda: getattr(t, name)(**{spelled: axis}), wanted)
            for keep in ("keepdim", "keepdims"):
                cases.same(
                    f"t.{name}({spelled}={axis}, {keep}=True)",
                    lambda: getattr(t, name)(**{spelled: axis, keep: True}),
                    kept,
                )
                cases.same(
                    f"t.{name}({spelled}={axis}, {keep}=False)",
                    lambda: getattr(t, name)(**{spelled: axis, keep: False}),
                    wanted,
                )
        cases.same(f"t.{name}({axis})", lambda: getattr(t, name)(axis), wanted)
    cases.finish()


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin", "any", "all", "std", "var", "prod"])
def test_tuples_of_axes(name):
    cases = Collector()
    array = np.random.default_rng(1).standard_normal((3, 4, 2, 5))
    if name in ("any", "all"):
        array = array > 0.3
    t, function = gt.from_numpy(array), getattr(gt, name)
    options = dict(ddof=1) if name in ("std", "var") else {}
    reference = getattr(np, name)
    for axes in [(0,), (0, 1), (1, 3), (-1, 0), (0, 1, 2, 3), (2, 0), [1, 2]]:
        for keep in (False, True):
            wanted = np.asarray(reference(array, axis=tuple(axes), keepdims=keep, **options))
            cases.same(
                f"gt.{name}(dim={axes}, keepdim={keep})", lambda: function(t, dim=axes, keepdim=keep), wanted
            )
            cases.same(
                f"t.{name}(axis={axes}, keepdims={keep})",
                lambda: getattr(t, name)(axis=axes, keepdims=keep),
                wanted,
            )
    cases.finish()


@pytest.mark.parametrize("name", ["max", "min"])
def test_max_and_min_have_three_forms(name):
    cases = Collector()
    for dtype in ("float32", "int64", "uint8", "float64", "int32"):
        x, y = values((4, 5), dtype, 1), values((4, 5), dtype, 2)
        t = to_gt(x)
        cases.same(f"{name}(t), {dtype}", lambda: getattr(gt, name)(t), getattr(torch, name)(x))
        cases.same(f"{name}(a, b), {dtype}", lambda: getattr(gt, name)(t, to_gt(y)), getattr(torch, name)(x, y))
        for axis in (0, 1, -1):
            for keepdim in (False, True):
                wanted = getattr(x, name)(axis, keepdim=keepdim)
                cases.same(
                    f"{name}(t, {axis}).values",
                    lambda: getattr(gt, name)(t, axis, keepdim=keepdim).values,
                    wanted.values,
                )
                cases.same(
                    f"{name}(t, {axis}).indices",
                    lambda: getattr(t, name)(dim=axis, keepdim=keepdim).indices,
                    wanted.indices,
                )
                cases.same(
                    f"{name}(axis={axis})[0]",
                    lambda: getattr(t, name)(axis=axis, keepdims=keepdim)[0],
                    wanted.values,
                )
    result = getattr(gt.tensor([[1, 3, 2]]), name)(1)
    found, where = result
    assert len(result) == 2 and result[-1].tolist() == where.tolist()
    assert found.tolist() == result.values.tolist() and where.tolist() == result.indices.tolist()
    cases.finish()


@pytest.mark.parametrize("name", ["sort", "topk"])
def test_named_results(name):
    x = values((3, 7), "float32", 1)
    arguments = (3,) if name == "topk" else ()
    result, wanted = getattr(gt, name)(to_gt(x), *arguments), getattr(torch, name)(x, *arguments)
    assert len(result) == 2 and len(tuple(result)) == 2
    check(result.values, wanted.values)
    check(result.indices, wanted.indices)
    check(result[0], wanted[0])
    assert repr(result) == repr(wanted).replace("torch.", "gt.")


@pytest.mark.parametrize(
    "name", ["sum", "mean", "prod", "max", "min", "amax", "amin", "argmax", "argmin", "std", "cumsum"]
)
def test_nan_is_contagious(name):
    nan = float("nan")
    x = torch.tensor([[1.0, nan, 3.0], [4.0, 5.0, 6.0], [nan, nan, -1.0]])
    for dtype in FLOATS:
        y = x.to(getattr(torch, dtype))
        t = to_gt(y)
        if name == "cumsum":
            check(t.cumsum(1), y.cumsum(1))
            continue
        check(getattr(t, name)(), getattr(y, name)(), f"{name}, {dtype}")
        wanted, got = getattr(y, name)(1), getattr(t, name)(1)
        if name in ("max", "min"):
            check(got.indices, wanted.indices, f"{name} indices, {dtype}")
            wanted, got = wanted.values, got.values
        check(got, wanted, f"{name}(1), {dtype}")
    for view in (lambda t: t.T, lambda t: t[:, 1:], lambda t: t[0]):
        if name not in ("max", "min", "cumsum"):
            check(getattr(view(to_gt(x)), name)(), getattr(view(x), name)(), f"{name} of a view")


def test_empty_reductions():
    cases = Collector()
    for shape in [(0,), (3, 0), (0, 4), (2, 0, 3)]:
        x = torch.zeros(shape)
        t = to_gt(x)
        for name in ("sum", "prod", "mean", "any", "all", "var", "std"):
            cases.same(f"{name} of {shape}", lambda: getattr(t, name)(), getattr(x, name)())
            for axis in range(len(shape)):
                cases.same(f"{name}({axis}) of {shape}", lambda: getattr(t, name)(axis), getattr(x, name)(axis))
        for axis in range(len(shape)):
            cases.same(f"cumsum({axis}) of {shape}", lambda: t.cumsum(axis), x.cumsum(axis))
    for name in ("max", "min", "amax", "amin", "argmax", "argmin"):
        text = raises((ValueError, IndexError, RuntimeError), lambda: getattr(gt.zeros(0), name)().numpy())
        cases.true(f"{name} of nothing says so: {text}", True)
        raises((ValueError, IndexError, RuntimeError), lambda: getattr(gt.zeros(3, 0), name)(1)[0].numpy())
    assert gt.zeros(0, 3).amax(1).shape == (0,)
    assert gt.zeros(0, 3).argmax(1).shape == (0,)
    cases.finish()


def test_variance_and_its_correction():
    cases = Collector()
    for dtype in ("float32", "float64"):
        x = values((4, 9), dtype, 1) + 1000
        t = to_gt(x)
        for correction in (0, 1, 2):
            for name in ("var", "std"):
                wanted = getattr(x, name)(1, correction=correction)
                cases.same(
                    f"{name} correction={correction}",
                    lambda: getattr(t, name)(1, correction=correction),
                    wanted,
                    rtol=1e-4,
                )
        cases.same("unbiased=False", lambda: t.var(1, unbiased=False), x.var(1, unbiased=False), rtol=1e-4)
        cases.same("unbiased=True", lambda: gt.std(t, unbiased=True), x.std(unbiased=True), rtol=1e-4)
    one = gt.tensor([3.0])
    cases.same("var of one element", lambda: one.var(), torch.tensor(float("nan")))
    cases.same("var of one element, population", lambda: one.var(correction=0), torch.tensor(0.0))
    cases.finish()


def test_dtype_argument():
    cases = Collector()
    for dtype in DTYPES:
        x = values((3, 4), dtype, 1)
        t = to_gt(x)
        for kind in ("float32", "float64", "int64", "int32"):
            if dtype in FLOATS and kind.startswith("int"):
                continue
            cases.same(
                f"sum of {dtype} in {kind}",
                lambda: t.sum(dtype=getattr(gt, kind)),
                x.sum(dtype=getattr(torch, kind)),
            )
            cases.same(
                f"sum(1) of {dtype} in {kind}",
                lambda: gt.sum(t, 1, dtype=getattr(gt, kind)),
                torch.sum(x, 1, dtype=getattr(torch, kind)),
            )
    cases.same(
        "mean of integers in float64",
        lambda: gt.arange(4).mean(dtype=gt.float64),
        torch.arange(4).mean(dtype=torch.float64),
    )
    cases.finish()


def test_sums_do_not_drift():
    """A float32 sum keeps its digits, and a half sum does not stick at 2048."""
    check(gt.ones(1 << 22).sum(), torch.tensor(float(1 << 22)), rtol=1e-6)
    check(gt.full((1 << 20,), 0.1).sum(), torch.full((1 << 20,), 0.1).sum(), rtol=1e-4)
    assert gt.ones(4096, dtype=gt.float16).sum().item() == 4096
    assert gt.ones(4096, dtype=gt.bfloat16).sum().item() == 4096
    assert gt.ones(70000, dtype=gt.uint8).sum().item() == 70000
    assert gt.ones(300, 300, dtype=gt.bool).sum().item() == 90000
    assert gt.full((2000,), 60000.0, dtype=gt.float16).mean().item() == 60000.0


@pytest.mark.parametrize("shape", [(1, 100000), (100000, 1), (3, 40000), (40000, 3), (500, 600)])
def test_rows_and_columns_of_long_tensors(shape):
    x = values(shape, "float32", 1)
    t = to_gt(x)
    for axis in (0, 1):
        check(t.sum(axis), x.double().sum(axis).float(), f"sum({axis})", rtol=1e-4, atol=1e-2)
        check(t.amax(axis), x.amax(axis), f"amax({axis})")
        check(t.argmin(axis), x.argmin(axis), f"argmin({axis})")
        check(t.T.sum(axis), x.T.double().sum(axis).float(), f"transposed sum({axis})", rtol=1e-4, atol=1e-2)
        check(t.cumsum(axis), x.double().cumsum(axis).float(), f"cumsum({axis})", rtol=1e-3, atol=5e-2)


def test_first_of_equals_wins():
    assert gt.tensor([1, 3, 3, 2]).argmax().item() == 1
    assert gt.tensor([2, 1, 1, 2]).argmin().item() == 1
    assert gt.tensor([[5.0, 5.0], [5.0, 5.0]]).argmax(0).tolist() == [0, 0]
    assert gt.zeros(100000).argmax().item() == 0


def test_any_all_on_numbers():
    x = torch.tensor([[0.0, -0.0, float("nan")], [0.0, 0.0, 0.0]])
    check(to_gt(x).any(1), x.any(1))
    check(to_gt(x).all(), x.all())
    check(gt.tensor([1, 2, 3]).all(), torch.tensor(True))
    assert bool(gt.tensor([0, 2]).any())


def test_softmax_chain():
    x = values((64, 33), "float32", 1)
    t = to_gt(x)
    shifted = (t - t.max(1, keepdim=True).values).exp()
    check(shifted / shifted.sum(1, keepdim=True), torch.softmax(x, 1))


def test_functions_of_the_axis_raise_at_once():
    t = gt.zeros(3, 4)
    for name in (*REDUCTIONS, "argmax", "argmin", "cumsum", "max", "min"):
        for axis in (2, -3, 100):
            raises(IndexError, lambda: getattr(t, name)(axis), str(axis))
    for name in ("sum", "mean", "amax"):
        raises((ValueError, RuntimeError), lambda: getattr(t, name)((0, 0)))
        raises((ValueError, RuntimeError), lambda: getattr(t, name)((1, -1)))
        raises(TypeError, lambda: getattr(t, name)("rows"))
