"""Creating tensors: from Python data, from NumPy, constant, ranges, random; and the inferred dtypes."""

import numpy as np
import pytest
import torch

import gt
from support import DTYPES, FLOATS, INTEGERS, Collector, check, dtype_name, gt_dtype, raises, torch_dtype

DATA = [
    1,
    2.5,
    True,
    [],
    [1, 2],
    [1.0, 2],
    [True, False],
    [True, 2],
    [True, 2.5],
    [[1, 2], [3, 4]],
    [[]],
    [[], []],
    [[[1.5]]],
    (1, 2),
    [(1, 2), [3, 4]],
    range(4),
    -7,
    float("nan"),
    float("inf"),
    [2**40, 1],
    2**53,
    1e300,
    [[0.1] * 5] * 3,
]


def fits(x, dtype):
    """Whether this dtype can represent every value."""
    return (
        bool(x.isfinite().all())
        and not x.numel()
        or bool((x.abs() < {"int64": 2.0**62, "float16": 6e4}[dtype]).all())
    )


def test_tensor_infers_as_torch():
    cases = Collector()
    for data in DATA:
        cases.same(f"tensor({data!r})", lambda: gt.tensor(data), torch.tensor(data))
        for dtype in ("float64", "int64", "float16"):
            if dtype != "float64" and not fits(torch.tensor(data, dtype=torch.float64), dtype):
                continue
            cases.same(
                f"tensor({data!r}, {dtype})",
                lambda: gt.tensor(data, dtype=gt_dtype(dtype)),
                torch.tensor(data, dtype=torch_dtype(dtype)),
            )
    cases.finish()


def test_tensor_of_tensors_and_arrays():
    check(gt.tensor(np.arange(3)), torch.arange(3))
    check(gt.tensor(np.float64(2.5)), torch.tensor(2.5, dtype=torch.float64))
    check(gt.tensor([np.float32(1), np.float32(2)]), torch.tensor([1.0, 2.0]))
    check(gt.tensor(gt.ones(2, 2)), torch.ones(2, 2))
    check(gt.tensor([gt.tensor(1), gt.tensor(2)]), torch.tensor([1, 2]))
    check(gt.tensor([np.array(1.5), np.array(2.5)]), torch.tensor([1.5, 2.5], dtype=torch.float64))
    check(gt.tensor([[np.array(1), 2], [3, np.array(4)]]), torch.tensor([[1, 2], [3, 4]]))
    check(gt.tensor(torch.ones(2)), torch.ones(2))


def test_numbers_too_large_for_an_integer_are_refused():
    for value in (1e300, -1e300, float("inf"), float("nan"), 2.0**63):
        raises(RuntimeError, lambda: gt.full((2,), value, dtype=gt.int64), "without overflow")
        raises(RuntimeError, lambda: gt.full_like(gt.ones(2), value, dtype=gt.int64), "without overflow")
        t = gt.zeros(3, dtype=gt.int64)
        with pytest.raises(RuntimeError, match="without overflow"):
            t[gt.tensor([0, 2])] = value
        assert t.tolist() == [0, 0, 0]


def test_ragged_and_foreign_data_is_refused():
    raises(ValueError, lambda: gt.tensor([[1, 2], [3]]))
    raises((ValueError, TypeError), lambda: gt.tensor([[1, 2], 3]))
    raises((ValueError, TypeError), lambda: gt.tensor("text"))
    raises((ValueError, TypeError, RuntimeError), lambda: gt.tensor([None]))
    raises(RuntimeError, lambda: gt.tensor(object()))
    raises((OverflowError, ValueError, RuntimeError), lambda: gt.tensor(2**70))
    raises(TypeError, lambda: gt.from_numpy([1, 2]))
    raises(TypeError, lambda: gt.from_numpy(np.array(["a"])))
    raises(TypeError, lambda: gt.from_numpy(np.array([1 + 2j], dtype=np.clongdouble)))
    raises(TypeError, lambda: gt.zeros(2, dtype="quux"))


@pytest.mark.parametrize("dtype", [name for name in DTYPES if name != "bfloat16"])
def test_from_numpy_takes_any_layout(dtype):
    cases = Collector()
    base = (np.arange(60).reshape(3, 4, 5) % 7).astype(dtype)
    for what, array in {
        "contiguous": base,
        "transposed": base.T,
        "sliced": base[:, ::2, 1:],
        "flipped": base[::-1],
        "negative steps": base[:, :, ::-2],
        "broadcast": np.broadcast_to(base[0], (6, 4, 5)),
        "0-d": np.array(base[1, 2, 3]),
        "empty": base[:0],
        "fortran": np.asfortranarray(base),
        "read-only": np.frombuffer(base.tobytes(), base.dtype).reshape(3, 4, 5),
    }.items():
        cases.same(
            what,
            lambda: gt.from_numpy(array),
            torch.from_numpy(np.ascontiguousarray(array).copy().reshape(array.shape)),
        )
    cases.finish()


def test_from_numpy_of_other_dtypes():
    """Foreign byte orders and widths: converted or refused by name, never misread."""
    for kind in ("uint16", "uint32", "uint64", ">f4", ">i8"):
        try:
            t = gt.from_numpy(np.array([1, 2], kind))
        except TypeError as refusal:
            assert str(refusal)
        else:
            assert t.tolist() == [1, 2]


def test_from_numpy_keeps_the_values_of_the_call():
    """The upload is asynchronous. A later change of the array must not change the tensor."""
    for size in (4, 100_000, 5_000_000):
        array = np.ones(size, np.float32)
        t = gt.from_numpy(array)
        array[:] = 7
        assert t.sum().item() == size


def test_constants():
    cases = Collector()
    for arguments in [(3,), (2, 3), ((2, 3),), ([2, 3],), (0,), (2, 0), ((),), (torch.Size([2]),)]:
        for name in ("zeros", "ones"):
            cases.same(
                f"{name}{arguments}", lambda: getattr(gt, name)(*arguments), getattr(torch, name)(*arguments)
            )
        cases.true(
            f"empty{arguments}",
            tuple(gt.empty(*arguments).shape) == tuple(torch.empty(*arguments).shape)
            if hasattr(gt, "empty")
            else True,
        )
    for value in (1, 2.5, True, -3, float("nan"), float("-inf"), 2**15):
        cases.same(f"full({value!r})", lambda: gt.full((2, 2), value), torch.full((2, 2), value))
        for dtype in FLOATS:
            cases.same(
                f"full({value!r}, {dtype})",
                lambda: gt.full((3,), value, dtype=gt_dtype(dtype)),
                torch.full((3,), float(value), dtype=torch.float64).to(torch_dtype(dtype)),
            )
    cases.finish()


def test_like():
    cases = Collector()
    for dtype in DTYPES:
        t, x = gt.zeros(2, 3, dtype=gt_dtype(dtype)), torch.zeros(2, 3, dtype=torch_dtype(dtype))
        cases.same(f"zeros_like {dtype}", lambda: gt.zeros_like(t), torch.zeros_like(x))
        cases.same(f"ones_like {dtype}", lambda: gt.ones_like(t), torch.ones_like(x))
        cases.same(f"full_like {dtype}", lambda: gt.full_like(t, 1), torch.full_like(x, 1))
        cases.same(
            f"zeros_like {dtype} as float64",
            lambda: gt.zeros_like(t, dtype=gt.float64),
            torch.zeros_like(x, dtype=torch.float64),
        )
    for name in ("rand_like", "randn_like"):
        drawn = getattr(gt, name)(gt.zeros(3, 4, dtype=gt.float64))
        cases.true(name, drawn.shape == (3, 4) and drawn.dtype == gt.float64)
    drawn = gt.randint_like(gt.zeros(100, dtype=gt.int32), 2, 5)
    cases.true("randint_like", drawn.dtype == gt.int32 and set(drawn.tolist()) == {2, 3, 4})
    cases.finish()


def test_arange_too_long_to_count():
    """-2**63 / -1 overflows int64, which raises SIGFPE on some machines."""
    raises((MemoryError, RuntimeError), lambda: gt.arange(0, -2**63, -1))


def test_arange():
    cases = Collector()
    for arguments in [
        (5,),
        (0,),
        (2, 8),
        (8, 2, -1),
        (0, 10, 3),
        (0, 1, 0.1),
        (1.0,),
        (0.5, 3),
        (5, 5),
        (1, 2, 0.3),
        (0, -5, -2),
        (2.5,),
        (1, 6, 2.5),
        (-3, 3),
        (0, 1, 1 / 3),
        (10**12, 10**12 + 3),
    ]:
        cases.same(f"arange{arguments}", lambda: gt.arange(*arguments), torch.arange(*arguments))
        cases.same(
            f"arange{arguments} float64",
            lambda: gt.arange(*arguments, dtype=gt.float64),
            torch.arange(*arguments, dtype=torch.float64),
        )
    cases.same("keywords", lambda: gt.arange(start=1, end=7, step=2), torch.arange(start=1, end=7, step=2))
    cases.same("long", lambda: gt.arange(100_000), torch.arange(100_000))
    cases.finish()
    raises((ValueError, RuntimeError), lambda: gt.arange(0, 5, 0))
    raises((ValueError, RuntimeError), lambda: gt.arange(5, 0))
    raises((ValueError, RuntimeError), lambda: gt.arange(0, 5, -1))
    raises((ValueError, RuntimeError, OverflowError), lambda: gt.arange(0, float("inf")))


def test_linspace():
    cases = Collector()
    for arguments in [
        (0, 1, 5),
        (0, 1, 1),
        (0, 1, 0),
        (3, -3, 7),
        (1, 1, 4),
        (-1.5, 2.5, 9),
        (0, 10, 11),
        (0, 1, 1000),
    ]:
        for dtype in ("float32", "float64"):
            cases.same(
                f"linspace{arguments} {dtype}",
                lambda: gt.linspace(*arguments, dtype=gt_dtype(dtype)),
                torch.linspace(*arguments, dtype=torch_dtype(dtype)),
            )
    cases.same("keywords", lambda: gt.linspace(start=0, end=2, steps=3), torch.linspace(start=0, end=2, steps=3))
    cases.finish()
    assert gt.linspace(0, 0.1, 11).tolist()[-1] == pytest.approx(0.1, rel=1e-7)
    raises((ValueError, RuntimeError), lambda: gt.linspace(0, 1, -1))


def test_eye():
    cases = Collector()
    for arguments in [(3,), (2, 4), (4, 2), (0,), (1, 0)]:
        cases.same(f"eye{arguments}", lambda: gt.eye(*arguments), torch.eye(*arguments))
    cases.finish()
    raises((ValueError, RuntimeError), lambda: gt.eye(-1))


def test_default_dtypes():
    assert (
        gt.zeros(1).dtype
        == gt.ones(1).dtype
        == gt.rand(1).dtype
        == gt.randn(1).dtype
        == gt.eye(1).dtype
        == gt.float32
    )
    assert (
        gt.linspace(0, 1, 2).dtype == gt.float32
        and gt.arange(3).dtype == gt.int64
        and gt.arange(3.0).dtype == gt.float32
    )
    assert (
        gt.randint(0, 2, (2,)).dtype == gt.int64
        and gt.full((1,), 1).dtype == gt.int64
        and gt.full((1,), True).dtype == gt.bool
    )


# ---- random numbers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform_moments(dtype):
    gt.manual_seed(1)
    x = gt.rand(200_000, dtype=gt_dtype(dtype)).to(gt.float64).numpy()
    assert x.min() >= 0 and x.max() <= 1 and (dtype in ("float16", "bfloat16") or x.max() < 1)
    assert abs(x.mean() - 0.5) < 0.01 and abs(x.var() - 1 / 12) < 0.005
    assert np.histogram(x, 10, (0, 1))[0].min() > 18_000
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.02


@pytest.mark.parametrize("dtype", FLOATS)
def test_normal_moments(dtype):
    gt.manual_seed(2)
    x = gt.randn(400, 500, dtype=gt_dtype(dtype)).to(gt.float64).numpy().ravel()
    assert abs(x.mean()) < 0.02 and abs(x.var() - 1) < 0.03
    assert abs((x**3).mean()) < 0.1 and abs((x**4).mean() - 3) < 0.2
    assert np.isfinite(x).all() and 3 < np.abs(x).max() < 8
    assert abs((np.abs(x) < 1).mean() - 0.6827) < 0.01
    assert abs(np.corrcoef(x[::2], x[1::2])[0, 1]) < 0.02


def test_randint_ranges():
    cases = Collector()
    for low, high in [(0, 2), (-3, 4), (10, 11), (0, 100), (-(2**40), 2**40)]:
        drawn = gt.randint(low, high, (5000,)).numpy()
        cases.true(f"randint({low}, {high}) in range", drawn.min() >= low and drawn.max() < high)
        if high - low <= 100:
            cases.true(f"randint({low}, {high}) reaches all", len(np.unique(drawn)) == high - low)
    cases.true("one bound", 0 <= gt.randint(3, (10,)).numpy().min() and gt.randint(3, (1000,)).max().item() == 2)
    cases.true("size keyword", gt.randint(5, size=(2, 3)).shape == (2, 3))
    for dtype in INTEGERS + ["float32"]:
        cases.true(f"randint in {dtype}", gt.randint(0, 5, (100,), dtype=gt_dtype(dtype)).dtype == gt_dtype(dtype))
    cases.finish()
    raises((ValueError, RuntimeError), lambda: gt.randint(5, 5, (2,)))
    raises((ValueError, RuntimeError), lambda: gt.randint(5, 2, (2,)))


def test_seeds():
    def draw(seed):
        if seed is not None:
            gt.manual_seed(seed)
        return [
            gt.rand(50).tolist(),
            gt.randn(3, 7).tolist(),
            gt.randint(0, 1000, (20,)).tolist(),
            gt.rand(50).tolist(),
        ]

    first = draw(1)
    assert draw(1) == first
    assert draw(2)[0] != first[0]
    assert first[0] != first[3], "two tensors of one seed are different"
    assert draw(None)[0] != draw(None)[0]
    assert draw(2**63)[0] != first[0]
    gt.manual_seed(5)
    whole = gt.rand(1000).tolist()
    gt.manual_seed(5)
    assert gt.rand(1000).tolist() == whole


def test_unseeded_programs_differ(programs):
    source = "import gt; print(gt.randn(4).tolist())"
    assert programs.run(source) != programs.run(source)


def test_seeded_programs_agree(programs):
    source = "import gt; gt.manual_seed(3); print(gt.randn(4).tolist(), gt.randint(0, 99, (5,)).tolist())"
    assert programs.run(source) == programs.run(source)


def test_requires_grad_is_accepted():
    assert gt.randn(2, 2, requires_grad=True).shape == (2, 2)
    assert gt.from_numpy(np.zeros(2, np.float32), requires_grad=True).shape == (2,)
    assert gt.tensor([1.0], requires_grad=True).shape == (1,)


def test_bad_sizes():
    raises((ValueError, RuntimeError), lambda: gt.zeros(-1), "-1")
    raises((ValueError, RuntimeError), lambda: gt.rand(2, -3))
    raises(TypeError, lambda: gt.zeros(2.5))
    raises(TypeError, lambda: gt.zeros("2"))
    raises(TypeError, lambda: gt.full(3, 1, dtype=int()))


def test_dtype_objects():
    for name in DTYPES:
        dtype = gt_dtype(name)
        assert dtype_name(dtype) == name and dtype == gt_dtype(name) and hash(dtype) == hash(gt_dtype(name))
        assert dtype != gt_dtype("int8" if name != "int8" else "float32")
        assert dtype.itemsize == torch_dtype(name).itemsize
        assert dtype.is_floating_point == torch_dtype(name).is_floating_point
    assert gt.float is gt.float32 and gt.double is gt.float64 and gt.half is gt.float16
    assert gt.long is gt.int64 and gt.int is gt.int32
    assert gt.zeros(1, dtype=np.float64).dtype == gt.float64 if accepts_numpy_dtypes() else True
    assert gt.zeros(1, dtype=float).dtype in (gt.float32, gt.float64) if accepts_numpy_dtypes() else True


def accepts_numpy_dtypes():
    """Whether dtype= accepts a NumPy dtype."""
    try:
        gt.zeros(1, dtype=np.float64)
        gt.zeros(1, dtype=float)
    except TypeError:
        return False
    return True


def test_int16_travels_both_ways():
    """NumPy, DLPack, lists and casts keep int16; gt.short is another name for it."""
    x = torch.tensor([-32768, -1, 0, 32767], dtype=torch.int16)
    assert gt.short is gt.int16 and gt.int16.itemsize == 2
    for t in (gt.from_numpy(x.numpy()), gt.from_dlpack(x), gt.tensor(x.tolist(), dtype=gt.short), gt.tensor(x.tolist()).short()):
        assert t.dtype == gt.int16
        assert t.tolist() == x.tolist()
        assert t.numpy().dtype == np.int16
        assert repr(t) == repr(x).replace("torch.", "gt.")
    assert torch.from_dlpack(gt.tensor([3], dtype=gt.int16)).dtype == torch.int16
    with pytest.raises(RuntimeError, match="without overflow"):
        gt.tensor(32768, dtype=gt.int16)
