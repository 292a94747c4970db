"""Matrix products of every pair of ranks, layouts and sizes."""

import itertools

import numpy as np
import pytest
import torch

import gt
from support import FLOATS, INTEGERS, Collector, check, raises, to_gt, values

TOLERANCE = {"float16": (4e-3, 5e-2), "bfloat16": (3e-2, 5e-1), "float32": (1e-5, 1e-4), "float64": (1e-12, 1e-12)}


def options(dtype):
    rtol, atol = TOLERANCE.get(dtype, (None, None))
    return dict(rtol=rtol, atol=atol)


LEFT = [(4,), (3, 4), (2, 3, 4), (1, 3, 4), (5, 2, 3, 4), (5, 1, 3, 4), (1, 4), (0, 4), (2, 0, 4)]
RIGHT = [(4,), (4, 6), (2, 4, 6), (1, 4, 6), (5, 2, 4, 6), (5, 1, 4, 6), (4, 1), (4, 0), (2, 4, 0)]


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_all_rank_combinations(dtype):
    cases = Collector()
    for left, right in itertools.product(LEFT, RIGHT):
        x, y = values(left, dtype, 1), values(right, dtype, 2)
        cases.same(f"{left} @ {right}", lambda: to_gt(x) @ to_gt(y), x @ y, **options(dtype))
    cases.finish()


def test_spellings():
    x, y = values((3, 4), "float32", 1), values((4, 5), "float32", 2)
    s, t = to_gt(x), to_gt(y)
    for result in (s @ t, gt.matmul(s, t), s.matmul(t), gt.mm(s, t), s.mm(t)):
        check(result, x @ y)
    check(gt.bmm(to_gt(x[None]), to_gt(y[None])), x[None] @ y[None])
    check(gt.dot(s[0], t[:, 0]), x[0] @ y[:, 0])
    s @= t
    check(s, x @ y)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32"])
def test_layouts(dtype):
    cases = Collector()
    x, y = values((8, 12), dtype, 1), values((12, 10), dtype, 2)
    s, t = to_gt(x), to_gt(y)
    transposed_x, transposed_y = to_gt(x.T.contiguous()), to_gt(y.T.contiguous())
    for what, left, right, a, b in [
        ("n n", s, t, x, y),
        ("t n", transposed_x.T, t, x, y),
        ("n t", s, transposed_y.T, x, y),
        ("t t", transposed_x.T, transposed_y.T, x, y),
        ("rows stepped", s[::2], t, x[::2], y),
        ("columns stepped", s[:, ::2], t[::2], x[:, ::2], y[::2]),
        ("columns offset", s[:, 3:], t[3:], x[:, 3:], y[3:]),
        ("flipped", s[:, ::-1], t[::-1], x.flip(1), y.flip(0)),
        ("expanded", s[:1].expand(8, 12), t, x[:1].expand(8, 12), y),
        ("expanded vector", s[0, 0].expand(12), t, x[0, 0].expand(12), y),
        ("with itself", s, s.T, x, x.T),
        ("batch expanded", s.expand(3, 8, 12), t, x.expand(3, 8, 12), y),
    ]:
        cases.same(what, lambda: left @ right, a @ b, **options(dtype))
    base = values((3, 8, 12), dtype, 3)
    cases.same(
        "batch permuted",
        lambda: to_gt(base).permute(2, 0, 1) @ to_gt(base).permute(2, 1, 0),
        base.permute(2, 0, 1) @ base.permute(2, 1, 0),
        **options(dtype),
    )
    cases.same("batch of a slice", lambda: to_gt(base)[1:, ::2] @ to_gt(y), base[1:, ::2] @ y, **options(dtype))
    cases.finish()


@pytest.mark.parametrize(
    "sizes", [(1, 1, 1), (1, 1000, 1), (1000, 1, 1000), (127, 129, 65), (256, 256, 256), (500, 300, 700)]
)
def test_sizes(sizes):
    rows, inner, columns = sizes
    x, y = values((rows, inner), "float32", 1, scale=1), values((inner, columns), "float32", 2, scale=1)
    check(to_gt(x) @ to_gt(y), (x.double() @ y.double()).float(), rtol=1e-4, atol=1e-3)


def test_batched():
    x, y = values((32, 60, 70), "float32", 1), values((32, 70, 50), "float32", 2)
    check(to_gt(x) @ to_gt(y), x @ y, **options("float32"))


def test_nan_and_infinity_pass_through():
    x = torch.tensor([[1.0, float("nan")], [float("inf"), 0.0]])
    check(to_gt(x) @ to_gt(x), x @ x)
    check(gt.zeros(2, 2) @ to_gt(x), torch.zeros(2, 2) @ x)


def test_mixed_dtypes_promote():
    """torch raises for these. GT promotes, as for other operations, or raises and names both dtypes."""
    x, y = values((3, 4), "int64", 1), values((4, 5), "float32", 2)
    try:
        result = to_gt(x) @ to_gt(y)
    except TypeError as refusal:
        assert "long int != float" in str(refusal)
    else:
        check(result, x.float() @ y)


def test_bad_shapes_are_named():
    for left, right in [
        ((3, 4), (5, 6)),
        ((3, 4), (5,)),
        ((4,), (5,)),
        ((2, 3, 4), (3, 4, 5)),
        ((2, 3, 4), (2, 5, 4)),
    ]:
        expected = raises(RuntimeError, lambda: torch.zeros(left) @ torch.zeros(right))
        assert raises((ValueError, RuntimeError), lambda: gt.zeros(left) @ gt.zeros(right)) == expected
    raises((ValueError, RuntimeError), lambda: gt.zeros(3, 4) @ gt.zeros(5, 6), "mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)")
    raises((ValueError, RuntimeError), lambda: gt.tensor(1.0) @ gt.zeros(3))
    raises(TypeError, lambda: gt.zeros(3, 4) @ 2)
    raises((ValueError, RuntimeError), lambda: gt.mm(gt.zeros(2, 3, 4), gt.zeros(4, 5)))
    raises((ValueError, RuntimeError), lambda: gt.bmm(gt.zeros(3, 4), gt.zeros(4, 5)))


@pytest.mark.parametrize("dtype, side", [("float32", 740), ("float64", 520), ("complex128", 264)])
def test_large_products_are_cut_into_parts(dtype, side):
    """Rows, columns and terms: small whole numbers, so that every sum is exact."""
    terms = 8001
    generator = np.random.default_rng(0)
    a, b = (generator.integers(-2, 3, shape).astype(dtype) for shape in ((side, terms), (terms, side)))
    if dtype.startswith("complex"):
        a, b = a * (1 + 2j), b * (2 - 1j)
    np.testing.assert_array_equal((gt.from_numpy(a) @ gt.from_numpy(b)).numpy(), a @ b)
