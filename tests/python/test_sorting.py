"""sort, argsort, topk: order, stability, NaN, every dtype and axis."""

import pytest
import torch

import gt
from support import DTYPES, FLOATS, Collector, check, raises, to_gt, values


@pytest.mark.parametrize("dtype", DTYPES)
def test_sort_is_stable(dtype):
    """Small integers repeat a lot: equal elements must keep their order both ways, as torch's stable sort."""
    cases = Collector()
    for shape in [(1,), (50,), (6, 40), (3, 4, 9), (0,), (3, 0), (1000,)]:
        x = values(shape, dtype, 1, low=0, high=4)
        if dtype in FLOATS:
            x = x.round()
        for axis in range(-x.dim(), x.dim()):
            for descending in (False, True):
                wanted = torch.sort(x, dim=axis, descending=descending, stable=True)
                got = gt.sort(to_gt(x), dim=axis, descending=descending, stable=True)
                cases.same(f"sort{shape} {axis} {descending} values", lambda: got.values, wanted.values)
                cases.same(f"sort{shape} {axis} {descending} indices", lambda: got.indices, wanted.indices)
                cases.same(
                    f"argsort{shape} {axis} {descending}",
                    lambda: to_gt(x).argsort(dim=axis, descending=descending, stable=True),
                    wanted.indices,
                )
    cases.finish()


def test_nan_sorts_last_and_first():
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([3.0, nan, -inf, 1.0, inf, nan, -0.0, 0.0])
    for dtype in FLOATS:
        y = x.to(getattr(torch, dtype))
        for descending in (False, True):
            wanted = torch.sort(y, descending=descending, stable=True)
            got = gt.sort(to_gt(y), descending=descending, stable=True)
            check(got.values, wanted.values, f"{dtype} {descending}")
            check(got.indices, wanted.indices, f"{dtype} {descending} indices")
    for largest in (True, False):
        check(
            to_gt(x).topk(3, largest=largest).values, x.topk(3, largest=largest).values, f"topk largest={largest}"
        )
    check(to_gt(x).argmax(), x.argmax())
    check(to_gt(x).argmin(), x.argmin())


def test_sort_of_views():
    x = values((7, 9), "float32", 1)
    t = to_gt(x)
    for what, view in {"T": lambda t: t.T, "stepped": lambda t: t[::2, 1::2], "row": lambda t: t[3]}.items():
        check(view(t).sort().values, view(x).sort().values, what)
        check(view(t).sort(0, True).indices, view(x).sort(0, True).indices, what)
    check(t[::-1].sort(0).values, x.sort(0).values, "flipped")
    check(t[:1].expand(4, 9).sort(1).values, x[:1].expand(4, 9).sort(1).values, "expanded")


def test_sort_of_a_number():
    got = gt.tensor(3.5).sort()
    assert got.values.item() == 3.5 and got.indices.item() == 0 and got.values.shape == ()


@pytest.mark.parametrize("dtype", [name for name in DTYPES if name != "bool"])
def test_topk(dtype):
    cases = Collector()
    x = values((5, 30), dtype, 1, low=-100 if dtype != "uint8" else 0, high=100)
    t = to_gt(x)
    for axis in (0, 1, -1):
        for k in (0, 1, 3, x.shape[axis]):
            for largest in (True, False):
                wanted = x.topk(k, axis, largest)
                got = gt.topk(t, k, dim=axis, largest=largest)
                cases.same(f"topk {k} {axis} {largest}", lambda: got.values, wanted.values)
                cases.same(
                    f"topk {k} {axis} {largest} indices lead there",
                    lambda: t.gather(axis, got.indices),
                    wanted.values,
                )
                cases.true("indices are int64", got.indices.dtype == gt.int64)
    cases.finish()


def test_large_sort():
    x = values((200_000,), "float32", 1)
    check(to_gt(x).sort().values, x.sort().values)
    y = values((300_000,), "int64", 1, low=-(10**12), high=10**12)
    check(to_gt(y).sort(descending=True).values, y.sort(descending=True).values)
    check(to_gt(x).topk(10).values, x.topk(10).values)


def test_bad_arguments():
    t = gt.zeros(3, 4)
    raises(IndexError, lambda: t.sort(2), "2")
    raises(IndexError, lambda: t.argsort(-3))
    raises((ValueError, RuntimeError, IndexError), lambda: t.topk(5), "k")
    raises((ValueError, RuntimeError, IndexError), lambda: t.topk(-1))
    raises(IndexError, lambda: t.topk(1, 2))
