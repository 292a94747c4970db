"""Ops along the split axis: they compute on the parts, without a gather, what PyTorch computes on the whole."""

import functools

import numpy as np
import pytest
import torch

import gt

TORCH = {gt.float64: torch.float64, gt.float32: torch.float32, gt.float16: torch.float16, gt.bfloat16: torch.bfloat16,
         gt.int64: torch.int64, gt.int32: torch.int32, gt.uint8: torch.uint8, gt.bool: torch.bool}
FLOATS = (gt.float64, gt.float32, gt.float16, gt.bfloat16)


@pytest.fixture
def workers(workers):
    """As conftest.py has it. Signals a0, a1 and a2 split that axis."""
    def open(count):
        workers(count)
        for axis in range(3):
            gt.register_config(f"a{axis}", gt.SignalConfig(gt.ShardConfig(axis, list(range(count)))))

    return open


def totals(key):
    return sum(worker[key] for worker in gt.debug.get_worker_stats(wait=True).values())


def live():
    """Tensors on each worker, once it has done and freed all that was asked for."""
    gt.synchronize()
    return [worker["tensors"] for worker in gt.debug.memory(wait=True)["workers"].values()]


def split(whole, axis):
    tensor = gt.signal.tensor(whole, name=f"a{axis}")
    assert tensor.placement.startswith(f"split(axis={axis},"), tensor.placement
    return tensor


def numbers(shape, dtype=gt.float64, seed=0):
    """Numbers that differ along each axis. Small integers, and halves, repeat."""
    rng = np.random.default_rng(seed)
    if dtype in FLOATS:
        return rng.standard_normal(shape)
    return rng.integers(0, 2 if dtype == gt.bool else 9, shape)


def both(values, dtype, axis):
    """The same numbers for PyTorch, whole, and for GT, split."""
    reference = torch.tensor(values).to(TORCH[dtype])
    return reference, split(gt.tensor(values).to(dtype), axis)


def array(tensor):
    return tensor.detach().float().numpy() if tensor.dtype in (gt.bfloat16, torch.bfloat16) else tensor.detach().numpy()


def assert_same_bits(actual, expected):
    actual, expected = array(actual), array(expected)
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    assert np.array_equal(actual, expected, equal_nan=actual.dtype.kind == "f")
    if actual.dtype.kind == "f":
        seen = ~np.isnan(expected)
        assert np.array_equal(np.signbit(actual)[seen], np.signbit(expected)[seen])


def assert_close(actual, expected, dtype=gt.float64):
    tolerance = {gt.float64: 1e-12, gt.float16: 4e-3, gt.bfloat16: 3e-2}.get(dtype, 2e-6)
    actual, expected = array(actual), array(expected)
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


# Each takes a tensor, the axis and a function that makes an index of an array, and serves both libraries.

def picked(x, axis, count):
    """Numbers of elements along the axis, some of them twice."""
    return np.random.default_rng(1).integers(0, x.shape[axis], count)


def index_like(x, axis, count):
    shape = list(x.shape)
    shape[axis] = count
    return np.random.default_rng(2).integers(0, x.shape[axis], shape)


def permutations(x, axis):
    """An index without repetitions along the axis."""
    return np.argsort(np.random.default_rng(3).random(tuple(x.shape)), axis=axis)


def cut(axis, start, stop):
    return (slice(None),) * axis + (slice(start, stop),)


def library(x):
    return torch if isinstance(x, torch.Tensor) else gt


SUMS = {  # within rounding
    "softmax": lambda x, axis, index: x.softmax(axis),
    "log_softmax": lambda x, axis, index: x.log_softmax(axis),
    "cumsum": lambda x, axis, index: x.cumsum(axis),
    "cumprod": lambda x, axis, index: x.cumprod(axis),
    "logcumsumexp": lambda x, axis, index: x.logcumsumexp(axis),
    "scatter_add": lambda x, axis, index: x.scatter_add(axis, index(index_like(x, axis, 3)), x[cut(axis, 0, 3)] * 1),
    "scatter_add of all": lambda x, axis, index: x.scatter_add(axis, index(index_like(x, axis, x.shape[axis])), x),
    "scatter_reduce": lambda x, axis, index: x.scatter_reduce(axis, index(index_like(x, axis, 2)), x[cut(axis, 1, 3)] * 1, "mean"),
}
SELECTIONS = {  # bit for bit
    "cummax": lambda x, axis, index: x.cummax(axis)[0],
    "cummin": lambda x, axis, index: x.cummin(axis)[0],
    "sort": lambda x, axis, index: x.sort(axis)[0],
    "topk": lambda x, axis, index: x.topk(3, axis)[0],
    "topk of all": lambda x, axis, index: x.topk(x.shape[axis], axis, largest=False)[0],
    "index_select": lambda x, axis, index: x.index_select(axis, index(picked(x, axis, 4))),
    "many of few": lambda x, axis, index: x.index_select(axis, index(picked(x, axis, 40))),
    "gather": lambda x, axis, index: x.gather(axis, index(index_like(x, axis, 1))),
    "gather of all": lambda x, axis, index: x.gather(axis, index(index_like(x, axis, x.shape[axis]))),
    "scatter": lambda x, axis, index: x.scatter(axis, index(permutations(x, axis)[cut(axis, 0, 2)].copy()), x[cut(axis, 2, 4)] * 1),
    "scatter of a number": lambda x, axis, index: x.scatter(axis, index(index_like(x, axis, 2)), 1),
    "cat": lambda x, axis, index: library(x).cat([x, x[cut(axis, 2, 3)], x * 1], axis),
    "stack": lambda x, axis, index: library(x).stack([x, x], axis),
    "flip": lambda x, axis, index: x.flip(axis),
    "flip of a slice": lambda x, axis, index: x[cut(axis, 1, 6)].flip(axis),
    "roll": lambda x, axis, index: x.roll(3, axis),
    "slice": lambda x, axis, index: x[cut(axis, 1, 6)],
}
POSITIONS = {
    "argmax": lambda x, axis, index: x.argmax(axis),
    "argmin": lambda x, axis, index: x.argmin(axis, keepdim=True),
    "argmax of all": lambda x, axis, index: x.argmax(),
    "argmin of all": lambda x, axis, index: x.argmin(),
    "cummax": lambda x, axis, index: x.cummax(axis)[1],
    "cummin": lambda x, axis, index: x.cummin(axis)[1],
    "argsort": lambda x, axis, index: x.argsort(dim=axis, stable=True),
    "argsort, descending": lambda x, axis, index: x.argsort(dim=axis, descending=True, stable=True),
}
# shape, split axis, workers: even and uneven parts, several axes, a vector
CASES = [((8, 5), 0, 2), ((7, 5), 0, 3), ((3, 8, 2), 1, 3), ((7,), 0, 2)]
IDS = ["even rows", "uneven rows", "middle axis", "vector"]

DIFFERENTIABLE = {**SUMS, **SELECTIONS}


@pytest.mark.parametrize("case", CASES, ids=IDS)
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_values_and_gradients_along_the_split_axis(workers, name, case):
    shape, axis, count = case
    workers(count)
    run, results = DIFFERENTIABLE[name], []
    reference, x = both(numbers(shape), gt.float64, axis)
    for leaf, index in ((reference, torch.tensor), (x, gt.tensor)):
        leaf = leaf.requires_grad_(True)
        y = run(leaf, axis, index)
        (y * y * y).sum().backward()
        results.append((y, leaf.grad))
    (expected, slope), (y, gradient) = results
    assert totals("gathers") == 0
    if name in SELECTIONS:
        assert_same_bits(y, expected)
    else:
        assert_close(y, expected)
    np.testing.assert_allclose(gradient.numpy(), slope.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", CASES, ids=IDS)
@pytest.mark.parametrize("name", POSITIONS)
def test_positions_along_the_split_axis(workers, name, case):
    shape, axis, count = case
    workers(count)
    for values in (numbers(shape), numbers(shape).round()):  # the second has equal numbers
        reference, x = both(values, gt.float64, axis)
        assert_same_bits(POSITIONS[name](x, axis, gt.tensor), POSITIONS[name](reference, axis, torch.tensor))
    assert totals("gathers") == 0


@pytest.mark.parametrize("dtype", [gt.float32, gt.float16, gt.bfloat16, gt.int64, gt.int32, gt.uint8, gt.bool], ids=str)
def test_other_dtypes(workers, dtype):
    workers(3)
    values = numbers((7, 4), dtype)
    reference, x = both(values, dtype, 0)
    tried = 0
    for name, run in {**SUMS, **SELECTIONS, **POSITIONS}.items():
        try:
            expected = run(reference, 0, torch.tensor)
        except (RuntimeError, NotImplementedError):
            continue  # PyTorch has no such kernel: test_ops_table.py says what GT has
        try:
            whole = run(gt.tensor(values).to(dtype), 0, gt.tensor)
        except (RuntimeError, NotImplementedError, gt.GtError):
            continue
        result = run(x, 0, gt.tensor)
        tried += 1
        if name in SUMS and dtype in FLOATS:
            assert_close(result, expected, dtype)
        else:
            assert_same_bits(result, whole)
            assert_same_bits(result, expected)
    assert tried >= 15 and totals("gathers") == 0


SPECIAL = np.array([[-np.inf, 1.0, np.nan, 0.0, -np.inf, 2.0],
                    [-np.inf, np.inf, 2.0, -0.0, 3.0, 2.0],
                    [-np.inf, 4.0, np.nan, -0.0, np.nan, 2.0],
                    [-np.inf, np.inf, 5.0, 0.0, -np.inf, 2.0],
                    [-np.inf, 0.5, np.nan, -0.0, 1.0, 2.0]])


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("name", {**SUMS, **SELECTIONS, **POSITIONS})
def test_infinities_nan_and_equal_numbers(workers, name, count):
    """Rows of -inf, NaN in the first, the middle and the last part, zeros of both signs, equal numbers in several parts."""
    workers(count)
    reference, x = both(SPECIAL, gt.float64, 0)
    for table in (SUMS, SELECTIONS, POSITIONS):
        if name not in table:
            continue
        whole = table[name](gt.tensor(SPECIAL), 0, gt.tensor)
        result, expected = table[name](x, 0, gt.tensor), table[name](reference, 0, torch.tensor)
        if table is SUMS:
            assert_close(result, expected)
        else:
            assert_same_bits(result, whole)
            np.testing.assert_array_equal(result.numpy(), expected.numpy())
    assert totals("gathers") == 0


@pytest.mark.parametrize("largest", [True, False])
def test_topk_takes_the_lowest_of_equal_elements(workers, largest):
    workers(3)
    values = np.array([1.0, 3.0, 3.0, 0.0, 3.0, 0.0, 3.0, 0.0])
    value, position = split(gt.tensor(values), 0).topk(3, 0, largest=largest)
    assert position.tolist() == ([1, 2, 4] if largest else [3, 5, 7])
    assert value.tolist() == ([3.0] * 3 if largest else [0.0] * 3)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_first_of_equal_elements_of_all(workers, axis):
    """The parts of a later axis alternate in memory: the first element may be in any of them."""
    workers(3)
    values = np.zeros((4, 3, 6))
    values[1, 2, 1] = values[1, 0, 5] = values[2, 0, 0] = 7.0
    values[0, 2, 5] = values[3, 0, 0] = -7.0
    x = split(gt.tensor(values), axis)
    assert x.argmax().item() == values.argmax() and x.argmin().item() == values.argmin()
    assert x.argmax().shape == ()


# ---- what moves ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, times", [
    ("softmax", 0.02), ("log_softmax", 0.02), ("cumsum", 0.02), ("cumprod", 1), ("logcumsumexp", 0.02), ("flip", 0), ("slice", 0),
    ("argmax", 0.05), ("topk", 0.2), ("index_select", 0.2), ("gather", 0.1), ("cat", 2), ("argsort", 2)])
def test_less_moves_than_a_gather(workers, name, times):
    """Bytes that arrive, of all workers together, in sizes of the tensor. A gather to two workers is one."""
    workers(2)
    x = split(gt.tensor(numbers((400, 10))), 0)
    run = {**SUMS, **SELECTIONS, **POSITIONS}[name]
    index = functools.partial(gt.signal.tensor, name="nowhere")
    gt.synchronize()
    before = totals("bytes_moved")
    y = run(x, 0, lambda array: index(gt.tensor(array)))
    assert (totals("bytes_moved") - before) <= times * 400 * 10 * 8
    assert y.shape[0] > 0 and totals("gathers") == 0


@pytest.mark.parametrize("name, placement", [
    ("softmax", "split(axis=0, workers=[0,1,2])"), ("cumsum", "split(axis=0, workers=[0,1,2])"),
    ("cummax", "split(axis=0, workers=[0,1,2])"), ("sort", "split(axis=0, workers=[0,1,2])"),
    ("scatter", "split(axis=0, workers=[0,1,2])"), ("cat", "split(axis=0, workers=[0,1,2])"),
    ("flip", "split(axis=0, workers=[2,1,0])"), ("index_select", "partial(workers=[0,1,2])")])
def test_where_results_are(workers, name, placement):
    workers(3)
    assert DIFFERENTIABLE[name](split(gt.tensor(numbers((8, 5))), 0), 0, gt.tensor).placement == placement


def test_a_sort_is_two_exchanges(workers):
    workers(3)
    x = split(gt.tensor(numbers((9, 6))), 0)
    gt.synchronize()
    before = totals("collectives"), totals("moves")
    order = x.argsort(0)
    assert order.placement == x.placement
    assert (totals("collectives") - before[0], totals("moves") - before[1]) == (6, 0)  # an all-to-all, and back
    log = gt.debug.get_worker_stats(wait=True)
    assert all(worker["ops"]["all_to_all"]["count"] == 2 and worker["ops"]["argsort"]["count"] == 1 for worker in log.values())


def test_cat_of_several_dtypes_and_placements(workers):
    """Parts that have only integers become floats too; operands may be whole, split along another axis, or empty."""
    workers(3)
    a, b, c = numbers((7, 6)), numbers((5, 6), gt.int32), numbers((2, 6), gt.float32, seed=4).astype(np.float32)
    operands = [split(gt.tensor(a), 0), split(gt.tensor(b).to(gt.int32), 0), split(gt.tensor(c), 1), gt.zeros(0, 6), gt.tensor(a)]
    expected = np.concatenate([a, b, c, a])
    assert np.array_equal(gt.cat(operands).numpy(), expected)
    assert np.array_equal(gt.cat(operands[1:]).numpy(), expected[7:])
    integers = gt.cat([operands[1], operands[1]])
    assert integers.dtype == gt.int32 and integers.placement.startswith("split(axis=0")
    many = gt.cat([operands[1], *[operands[0]] * 100])
    assert np.array_equal(many.numpy(), np.concatenate([b, *[a] * 100]))
    assert totals("gathers") == 0


def test_an_index_that_is_split(workers):
    workers(3)
    values = numbers((9, 4))
    order = np.argsort(values, axis=0)
    for table in (gt.tensor(values), split(gt.tensor(values), 0), split(gt.tensor(values), 1)):
        assert np.array_equal(table.gather(0, split(gt.tensor(order), 0)).numpy(), np.take_along_axis(values, order, 0))
        assert np.array_equal(table.index_select(0, split(gt.tensor(order[:, 0].copy()), 0)).numpy(), values[order[:, 0]])
        assert np.array_equal(table[split(gt.tensor(order - 9), 0)].numpy(), values[order - 9])


def test_assignment_to_a_slice_of_the_split_axis(workers):
    workers(3)
    values, rows = numbers((8, 3)), numbers((3, 3), seed=5)
    for where in (slice(1, 4), slice(0, 8, 3), slice(6, 7), slice(5, 5)):
        count = len(range(8)[where])
        for source in (gt.tensor(rows[:count].copy()), 2.5, gt.tensor(rows[0].copy())):
            x, expected = split(gt.tensor(values), 0) * 1, values.copy()
            x[where] = source
            expected[where] = source if isinstance(source, float) else source.numpy()
            assert np.array_equal(x.numpy(), expected)
            assert x.placement == "split(axis=0, workers=[0,1,2])"
    assert totals("gathers") == 0


def test_results_under_a_signal_of_other_workers(workers):
    """The parts move to the workers of the scope first, and the result is there."""
    workers(4)
    gt.register_config("there", gt.SignalConfig(gt.ShardConfig(0, [3, 2])))
    gt.register_config("here", gt.SignalConfig(gt.ShardConfig(0, [0, 1])))
    values = numbers((7, 4))
    reference, x = torch.tensor(values), gt.signal.tensor(gt.tensor(values), name="here")
    for name, run in {**SUMS, **SELECTIONS, **POSITIONS}.items():
        with gt.signal.context("there"):
            y = run(x, 0, gt.tensor)
        assert {int(n) for n in y.placement.split("[")[-1].rstrip("])").split("=")[-1].split(",")} <= {2, 3}, (name, y.placement)
        assert_close(y, run(reference, 0, torch.tensor))


# ---- errors and memory ----------------------------------------------------------------------------------------------


def hidden(values):
    """An index that only the workers know."""
    return -(-gt.tensor(np.array(values)))


ERRORS = {
    "index_select": lambda x: x.index_select(0, hidden([1, 99])),
    "negative index_select": lambda x: x.index_select(0, hidden([1, -1])),
    "indexing": lambda x: x[hidden([1, -8])],
    "embedding": lambda x: gt.nn.functional.embedding(hidden([[7]]), x),
    "gather": lambda x: x.gather(0, hidden([[1, 2, 3, 4, 9]])),
    "negative gather": lambda x: x.gather(0, hidden([[1, 2, 3, 4, -1]])),
    "gather of all": lambda x: x.gather(0, hidden(np.full((7, 5), 7))),
    "scatter": lambda x: x.scatter(0, hidden([[1, 2, 3, 4, 9]]), 1.0),
    "scatter_add": lambda x: x.scatter_add(0, hidden([[1, 2, 3, 4, -2]]), x[:1] * 1),
    "scatter_reduce": lambda x: x.scatter_reduce(0, hidden([[1, 2, 3, 4, 8]]), x[:1] * 1, "amax"),
    "scatter of all": lambda x: x.scatter_add(0, hidden(np.full((7, 5), -1)), x),
    "topk": lambda x: x.topk(8, 0),
    "negative topk": lambda x: x.topk(-1, 0),
    "softmax": lambda x: x.softmax(2),
    "cumsum": lambda x: x.cumsum(-3),
    "argmax": lambda x: x.argmax(2),
    "sort": lambda x: x.sort(5),
    "flip": lambda x: x.flip(2),
    "cat": lambda x: gt.cat([x, gt.ones(2, 4, dtype=gt.float64)]),
    "cat's axis": lambda x: gt.cat([x, x], 2),
    "assignment": lambda x: x.__setitem__(slice(1, 4), gt.ones(2, 5)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_those_of_the_whole_tensor(workers, name):
    workers(3)
    values, texts = numbers((7, 5)), []
    whole, parts = gt.tensor(values), split(gt.tensor(values), 0)
    before = live()
    for x in (whole, parts):
        with pytest.raises(Exception) as caught:
            ERRORS[name](x).numpy()
        texts.append((type(caught.value), str(caught.value).split(" (on ")[0]))
        del caught
    assert texts[0] == texts[1]
    assert np.array_equal(parts.numpy(), values)  # the session goes on
    del x
    assert live() == before


def test_intermediates_are_freed(workers):
    workers(3)
    x = split(gt.tensor(numbers((8, 5))), 0)
    index = {}

    def kept(array):  # one copy of each index, so that only results and intermediates come and go
        return index.setdefault(array.tobytes(), gt.tensor(array))

    for run in {**SUMS, **SELECTIONS, **POSITIONS}.values():
        run(x, 0, kept).numpy()
        before = live()
        run(x, 0, kept).numpy()
        assert live() == before


# ---- loops ------------------------------------------------------------------------------------------------------------

LOOP = """
import numpy as np
import gt
from gt.nn import functional as F
gt.gpu_workers(3)
gt.register_config("classes", gt.SignalConfig(gt.ShardConfig(0, [0, 1, 2])))
rng = np.random.default_rng(0)
x, y = gt.tensor(rng.standard_normal((12, 6))), gt.tensor(rng.integers(0, 8, 12))
w = gt.signal.tensor(gt.tensor(rng.standard_normal((8, 6))), name="classes")
for step in range(40):
    w = w.detach().requires_grad_(True)
    logits = x @ w.T
    p = logits.softmax(1)
    more = (p.cumsum(1) * p.flip(1)).mean() + (gt.cat([p, p], 1).sort(1)[0] ** 2).mean() + p.topk(3, 1)[0].sum() * 0.1
    more = more + (p.argmax(1) * 0.001).sum() + p.cummax(1)[0].mean() + p.logcumsumexp(1)[:, ::3].mean()
    loss = F.cross_entropy(logits, y)
    (loss + more).backward()
    w = w - w.grad * (0.3 + step / 100)
    if step % 10 == 9:
        print(loss.item().hex(), w.detach().sum().item().hex())
assert logits.placement == "split(axis=1, workers=[0,1,2])" and w.placement == "split(axis=0, workers=[0,1,2])"
stats = gt.debug.get_worker_stats(wait=True).values()
assert sum(worker["gathers"] for worker in stats) == 0
print(sum(worker["hotpath"]["worker_runs"] for worker in stats))
print([worker["tensors"] for worker in gt.debug.memory(wait=True)["workers"].values()])
"""


def test_a_loop_gives_the_same_bits_as_a_hot_path(programs):
    """Training with the classes split: the loss and several other functions run along the split axis, forward and backward."""
    cold = programs.run(LOOP, GT_AUTO_COMPILE="0").splitlines()
    hot = programs.run(LOOP, GT_COMPILE="1", GT_HOTPATH_MIN_SEQ="2").splitlines()
    assert hot[:4] == cold[:4] and hot[5] == cold[5]
    assert int(cold[4]) == 0 and int(hot[4]) > 500


def test_narrow_integers_are_added_up_before_they_become_wide(workers):
    """Sums that wait on several workers: integers wrap, and bools saturate, in their own dtype."""
    workers(3)
    first, last = torch.tensor([0]), torch.tensor([8])
    yes, yes_split = both(np.ones(9, bool), gt.bool, 0)
    many, many_split = both(np.full(9, 100, np.uint8), gt.uint8, 0)
    for whole, parts in ((yes, yes_split), (many, many_split)):
        expected = whole[first] + whole[last]
        got = parts.index_select(0, gt.tensor([0])) + parts.index_select(0, gt.tensor([8]))
        assert got.placement.startswith("partial")
        assert got.sum().item() == expected.sum().item()
        assert (got.sum() + got.sum()).item() == 2 * expected.sum().item()
    a, b = np.full((2, 9), 12, np.uint8), np.full((9, 2), 11, np.uint8)
    product = split(gt.tensor(a), 1) @ split(gt.tensor(b), 0)
    wide = split(gt.tensor(a.astype(np.int64)), 1) @ split(gt.tensor(b.astype(np.int64)), 0)
    assert product.placement.startswith("partial") and wide.placement.startswith("partial")
    expected = torch.tensor(a) @ torch.tensor(b)
    assert product.sum().item() == expected.sum().item()
    np.testing.assert_array_equal((product + wide).numpy(), (expected + torch.tensor(a).long() @ torch.tensor(b).long()).numpy())


def test_products_so_far_of_a_zero_and_parts_that_overflow(workers):
    workers(2)
    values = np.full(240, 2.5, np.float32)
    values[3] = 0
    whole, parts = both(values, gt.float32, 0)
    whole.requires_grad_(), parts.requires_grad_()
    np.testing.assert_array_equal(array(parts.cumprod(0)), array(whole.cumprod(0)))
    parts.cumprod(0).sum().backward()
    whole.cumprod(0).sum().backward()
    np.testing.assert_allclose(parts.grad.numpy(), whole.grad.numpy(), rtol=1e-4)
