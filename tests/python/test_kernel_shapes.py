"""The CPU engine's paths by shape: short rows of every length, row counts around vector widths, broadcasts in the middle,
transposed and strided operands, long rows in segments. All against PyTorch, with NaN, infinities and -0.
"""

import itertools

import numpy as np
import pytest
import torch

import gt
from support import to_gt

DTYPES = ["float32", "bfloat16", "float16", "float64", "int64", "int32"]
LENGTHS = list(range(1, 34)) + [63, 64, 65, 127, 128, 129]


def numbers(shape, dtype, seed, special=False):
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(shape, generator=generator) * 4 - 2
    if not getattr(torch, dtype).is_floating_point:
        return (x * 50).to(getattr(torch, dtype))
    if special:
        where = torch.rand(shape, generator=generator)
        x[where < 0.03] = float("nan")
        x[(where > 0.3) & (where < 0.33)] = float("inf")
        x[(where > 0.5) & (where < 0.53)] = -float("inf")
        x[(where > 0.7) & (where < 0.8)] = -0.0
    return x.to(getattr(torch, dtype))


def array(x):
    return (x.float() if "bfloat16" in str(x.dtype) else x).numpy()


def assert_same_bits(got, wanted, what):
    got, wanted = array(got), array(wanted)
    assert got.shape == wanted.shape and got.dtype == wanted.dtype, what
    signs = np.signbit(got) == np.signbit(wanted) if got.dtype.kind == "f" else True
    assert (((got == wanted) & signs) | ((got != got) & (wanted != wanted))).all(), what


def assert_close(got, wanted, what, dtype):
    """`wanted` is float64; one rounding to `dtype` and the rounding of sums are allowed."""
    relative = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}[dtype]
    scale = np.nanmax(np.abs(np.where(np.isfinite(wanted), wanted, 0)), initial=1)
    np.testing.assert_allclose(array(got).astype(np.float64), wanted, rtol=relative, atol=relative * scale, err_msg=what)


# ---- elementwise: boxes -----------------------------------------------------------------------------------------

BROADCASTS = [
    ((200, 1, 8), (1, 16, 8)), ((200, 1, 3), (1, 5, 3)), ((1000, 5), (5,)), ((1000, 5), (1000, 1)), ((7, 33), (33,)),
    ((65, 17, 3), (17, 1)), ((1, 1), (50, 31)), ((300, 1, 2, 1), (1, 7, 1, 3)), ((9, 1025), (9, 1)), ((1025, 2), (1, 2)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "int32"])
def test_broadcasts_in_the_middle(dtype):
    for left, right in BROADCASTS:
        x, y = numbers(left, dtype, 1, special=True), numbers(right, dtype, 2, special=True)
        for a, b in ((x, y), (y, x)):
            what = f"{tuple(a.shape)} {tuple(b.shape)}"
            assert_same_bits(to_gt(a) - to_gt(b), a - b, f"{what} -")
            assert_same_bits(to_gt(a) < to_gt(b), a < b, f"{what} <")
            assert_same_bits(gt.maximum(to_gt(a), to_gt(b)), torch.maximum(a, b), f"{what} maximum")
            wanted = torch.where(a < b, a, b)
            assert_same_bits(gt.where(to_gt(a) < to_gt(b), to_gt(a), to_gt(b)), wanted, f"{what} where")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "uint8"])
def test_operands_that_run_along_different_axes(dtype):
    for shape in ((33, 65), (5, 1000), (1000, 3), (64, 64), (31, 4, 37)):
        orders = list(itertools.permutations(range(len(shape))))
        for first, second in itertools.product(orders, orders[:3]):
            x, y = (numbers([shape[k] for k in order], dtype, seed) for seed, order in enumerate((first, second)))
            a, b = x.permute(np.argsort(first).tolist()), y.permute(np.argsort(second).tolist())
            p, q = to_gt(x).permute(*np.argsort(first).tolist()), to_gt(y).permute(*np.argsort(second).tolist())
            assert_same_bits(p + q, a + b, f"{shape} {first} {second}")
            assert_same_bits(p[..., ::2] * q[..., ::2], a[..., ::2] * b[..., ::2], f"{shape} {first} {second} in steps")
            a.sub_(b)
            p.sub_(q)
            assert_same_bits(p, a, f"{shape} {first} {second} in place")


def test_zero_divisors_are_found_in_boxes():
    x, y = gt.ones(50, 3, dtype=gt.int64), gt.ones(3, 50, dtype=gt.int64).t()
    y[49, 2] = 0
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        (x // y).numpy()


def test_powers_of_a_broadcast_exponent():
    x, y = numbers((200, 4), "float32", 1).abs(), torch.tensor([0.5, 2.0, 3.0, -1.0])
    np.testing.assert_allclose((to_gt(x) ** to_gt(y)).numpy(), (x**y).numpy(), rtol=1e-6)


# ---- reductions, searches, softmax ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_extremes_and_their_positions_in_short_rows(dtype):
    for length in LENGTHS:
        for rows in (1, 3, 15, 16, 17, 65, 200):
            x = numbers((rows, length), dtype, length * 1000 + rows, special=rows % 2 == 1)
            t, what = to_gt(x), f"{rows} rows of {length}"
            np.testing.assert_array_equal(array(t.amax(1)), array(x.amax(1)), err_msg=f"amax, {what}")
            np.testing.assert_array_equal(array(t.amin(1)), array(x.amin(1)), err_msg=f"amin, {what}")
            np.testing.assert_array_equal(array(t.amax(0)), array(x.amax(0)), err_msg=f"amax of columns, {what}")
            np.testing.assert_array_equal(t.argmin(1).numpy(), x.argmin(1).numpy(), err_msg=f"argmin, {what}")
            np.testing.assert_array_equal(t.argmax(1).numpy(), x.argmax(1).numpy(), err_msg=f"argmax, {what}")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_sums_and_softmax_of_short_rows(dtype):
    for length in LENGTHS:
        for rows in (1, 3, 17, 130):
            x = numbers((rows, length), dtype, length * 1000 + rows, special=rows == 17)
            t, wide, what = to_gt(x), x.double(), f"{rows} rows of {length}"
            assert_close(t.sum(1), wide.sum(1).numpy(), f"sum, {what}", dtype)
            assert_close(t.sum(0), wide.sum(0).numpy(), f"sum of columns, {what}", dtype)
            assert_close(t.mean(1), wide.mean(1).numpy(), f"mean, {what}", dtype)
            assert_close(t.norm(dim=1), wide.norm(dim=1).numpy(), f"norm, {what}", dtype)
            assert_close(t.softmax(1), wide.softmax(1).numpy(), f"softmax, {what}", dtype)
            assert_close(t.log_softmax(1), wide.log_softmax(1).numpy(), f"log_softmax, {what}", dtype)


def test_integer_sums_of_short_rows():
    for length, rows in itertools.product(LENGTHS, (1, 17, 130)):
        x = numbers((rows, length), "int64", length)
        for axis in (0, 1):
            np.testing.assert_array_equal(to_gt(x).sum(axis).numpy(), x.sum(axis).numpy())
            np.testing.assert_array_equal(to_gt(x).cumsum(axis).numpy(), x.cumsum(axis).numpy())


def test_rows_without_elements():
    x = torch.empty(3, 0, 2)
    for view, same in ((x, to_gt(x)), (x.transpose(0, 2), to_gt(x).transpose(0, 2))):
        np.testing.assert_array_equal(same.sum(1).numpy(), view.sum(1).numpy())
        np.testing.assert_array_equal(same.prod(1).numpy(), view.prod(1).numpy())
        np.testing.assert_array_equal(same.sum((1, 2)).numpy(), view.sum((1, 2)).numpy())
        np.testing.assert_array_equal(same.mean(1).numpy(), view.mean(1).numpy())
        assert tuple(same.softmax(1).shape) == tuple(same.cumsum(1).shape) == tuple(view.shape)
        assert tuple((same + 1).shape) == tuple(view.shape)


def test_reductions_of_the_middle_and_of_views():
    x = numbers((40, 9, 70), "float32", 1, special=True)
    for view, same in ((x, to_gt(x)), (x.transpose(0, 2), to_gt(x).transpose(0, 2)), (x[:, ::2, ::3], to_gt(x)[:, ::2, ::3])):
        for axis in range(3):
            np.testing.assert_array_equal(same.amax(axis).numpy(), view.amax(axis).numpy())
            np.testing.assert_array_equal(same.argmin(axis).numpy(), view.argmin(axis).numpy())
            assert_close(same.sum(axis), view.double().sum(axis).numpy(), f"sum({axis})", "float32")
            assert_close(same.softmax(axis), view.double().softmax(axis).numpy(), f"softmax({axis})", "float32")


# ---- scans ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_scans_of_rows(dtype):
    for shape in ((1, 1), (3, 5), (4, 5), (7, 33), (5, 255), (6, 256), (9, 257), (300, 4), (5, 1025), (1, 3000)):
        x = numbers(shape, dtype, sum(shape))
        x = x.clamp(-1, 1) if dtype.startswith("int") else x
        for name, axis in itertools.product(("cumsum", "cumprod"), (0, 1)):
            got, what = getattr(to_gt(x), name)(axis), f"{name}({axis}) of {shape}"
            if dtype.startswith("int"):
                np.testing.assert_array_equal(got.numpy(), getattr(x, name)(axis).numpy(), err_msg=what)
            else:
                assert_close(got, getattr(x.double(), name)(axis).numpy(), what, dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "int64", "uint8"])
def test_long_rows_are_scanned_in_segments(dtype):
    for shape in ((32768,), (40001,), (3, 33000), (2, 5, 32769)):
        x = numbers(shape, dtype, 5).abs() if dtype != "uint8" else numbers(shape, "int64", 5).to(torch.uint8)
        got = to_gt(x).cumsum(-1)
        if dtype in ("int64", "uint8"):
            np.testing.assert_array_equal(got.numpy(), x.cumsum(-1).numpy())
            np.testing.assert_array_equal(to_gt(x)[..., ::2].cumsum(-1).numpy(), x[..., ::2].cumsum(-1).numpy())
        else:
            np.testing.assert_allclose(array(got), x.double().cumsum(-1).numpy(), rtol=1e-2 if dtype == "bfloat16" else 1e-6)


def test_infinities_pass_through_segments():
    x = torch.ones(50000)
    x[20000], x[45000] = float("inf"), -float("inf")
    np.testing.assert_array_equal(to_gt(x).cumsum(0).numpy(), x.cumsum(0).numpy())


# ---- movement and casts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8", "float64"])
def test_short_rows_are_joined_and_taken(dtype):
    for width in [*range(1, 19), 31, 33, 63, 65, 257, 300]:
        x, y, z = (numbers((37, k), "int64", k).to(getattr(torch, dtype)) for k in (width, width + 1, 2))
        assert_same_bits(gt.cat((to_gt(x), to_gt(y), to_gt(z)), 1), torch.cat((x, y, z), 1), f"cat of {width}")
        index = torch.randint(0, 37, (50,), generator=torch.Generator().manual_seed(width))
        assert_same_bits(gt.index_select(to_gt(x), 0, to_gt(index)), x.index_select(0, index), f"rows of {width}")
        assert_same_bits(to_gt(x)[-to_gt(index) - 1], x[-index - 1], f"rows of {width} from the end")
    x = numbers((5, 7, 3), "float32", 1)
    empty = torch.empty(5, 0, 3)
    assert_same_bits(gt.cat((to_gt(x), to_gt(empty), to_gt(x)), 1), torch.cat((x, empty, x), 1), "cat with an empty tensor")


def test_floats_beyond_an_integer_saturate():
    """What C leaves open, GT defines: the ends of the range, and 0 for NaN."""
    most, least = 2**63 - 1, -(2**63)
    x = [0.5, -0.5, 1.9, -1.9, 3e9, -3e9, 9.3e18, -9.3e18, 1e30, float("inf"), -float("inf"), float("nan"), -0.0]
    wanted = [0, 0, 1, -1, 3000000000, -3000000000, most, least, most, most, least, 0, 0]
    for dtype in (gt.float32, gt.float64):
        assert gt.tensor(x, dtype=dtype).to(gt.int64).tolist() == wanted
        assert gt.tensor(x * 7, dtype=dtype).to(gt.int64).tolist() == wanted * 7
    narrow = [min(max(value, -(2**31)), 2**31 - 1) for value in wanted]
    for dtype in (gt.float32, gt.float64):
        assert gt.tensor(x * 7, dtype=dtype).to(gt.int32).tolist() == narrow * 7


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "int64"])
def test_products_with_transposed_matrices(dtype):
    a, b = numbers((40, 70), dtype, 1), numbers((3, 50, 70), dtype, 2)
    for left, right, p, q in (
        (a, b.transpose(1, 2), to_gt(a), to_gt(b).transpose(1, 2)),
        (a.t(), a[:, :30], to_gt(a).t(), to_gt(a)[:, :30]),
        (b[:, :40].transpose(1, 2), a.expand(3, 40, 70), to_gt(b)[:, :40].transpose(1, 2), to_gt(a).expand(3, 40, 70)),
        (a.t(), a[:, 0], to_gt(a).t(), to_gt(a)[:, 0]),
    ):
        wanted = left.double() @ right.double()
        if dtype == "int64":
            np.testing.assert_array_equal((p @ q).numpy(), wanted.numpy())
        else:
            assert_close(p @ q, wanted.numpy(), f"{tuple(left.shape)} @ {tuple(right.shape)}", dtype)
