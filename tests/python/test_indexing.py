"""Reading and writing by index: random expressions against NumPy, and special cases."""

import random

import numpy as np
import pytest
import torch

import gt
from support import Collector, check, raises, to_gt, values


def random_slice(rng, size, negative_steps):
    def bound():
        return rng.choice([None, None, rng.randint(-size - 2, size + 2)])

    step = rng.choice([None, 1, 1, 2, 3] + ([-1, -2, -3] if negative_steps else []))
    return slice(bound(), bound(), step)


def random_index(rng, shape, arrays=True, negative_steps=True):
    """A random expression NumPy accepts for this shape (the caller checks: broadcasts may still disagree)."""
    index, axis = [], 0
    broadcast = rng.choice([(), (1,), (3,), (2, 3), (0,)])
    while axis < len(shape):
        size = shape[axis]
        kind = rng.random()
        if kind < 0.35:
            index.append(random_slice(rng, size, negative_steps))
        elif kind < 0.5 and size:
            index.append(rng.randint(-size, size - 1))
        elif kind < 0.6:
            index.append(None)
            continue
        elif kind < 0.68 and Ellipsis not in [i for i in index if not isinstance(i, (np.ndarray, list))]:
            index.append(Ellipsis)
            axis += rng.randint(0, len(shape) - axis)
            continue
        elif kind < 0.85 and arrays and size:
            chosen = tuple(rng.choice([n, 1]) for n in broadcast)
            index.append(
                np.array(
                    [rng.randint(-size, size - 1) for _ in range(int(np.prod(chosen)))],
                    dtype=rng.choice([np.int64, np.int32]),
                ).reshape(chosen)
            )
        elif kind < 0.92 and arrays:
            index.append(np.array([rng.random() < 0.6 for _ in range(size)], dtype=bool))
        elif kind < 0.95 and arrays and axis + 1 < len(shape):
            index.append(
                np.array([rng.random() < 0.4 for _ in range(size * shape[axis + 1])], dtype=bool).reshape(
                    size, shape[axis + 1]
                )
            )
            axis += 1
        else:
            break
        axis += 1
    return tuple(index)


def agreed(index):
    """Whether NumPy and PyTorch agree on this expression.

    Only NumPy treats an integer among index arrays as an index array. That changes the order of the axes unless they
    are neighbours.
    """
    advanced = [k for k, part in enumerate(index) if isinstance(part, (int, np.ndarray))]
    scalars = [k for k in advanced if not isinstance(index[k], np.ndarray) or index[k].ndim == 0]
    if advanced and any(part is Ellipsis for part in index[advanced[0] : advanced[-1]]):
        return False  # an ellipsis without axes separates index arrays in NumPy only
    neighbours = not advanced or advanced[-1] - advanced[0] == len(advanced) - 1
    return neighbours or not scalars or len(scalars) == len(advanced)


def as_gt(index, rng=None):
    """The same expression with GT tensors (or, now and then, lists and NumPy arrays) in place of arrays."""

    def convert(part):
        if not isinstance(part, np.ndarray):
            return part
        choice = rng.random() if rng else 0
        if choice < 0.7 or part.ndim != 1 or not part.size:
            return gt.from_numpy(part)
        return part if choice < 0.85 else part.tolist()

    parts = tuple(convert(part) for part in index)
    return parts[0] if len(parts) == 1 and (rng is None or rng.random() < 0.5) else parts


def describe(shape, index):
    def text(part):
        if isinstance(part, slice):
            return ":".join("" if bound is None else str(bound) for bound in (part.start, part.stop, part.step))
        if isinstance(part, np.ndarray):
            return f"{part.dtype}{part.tolist()}"
        return "..." if part is Ellipsis else str(part)

    return f"{shape}[{', '.join(text(part) for part in index)}]"


SHAPES = [(7,), (5, 6), (4, 3, 5), (2, 3, 4, 3), (1, 5), (6, 1, 4), (0, 3), (3, 0), ()]


@pytest.mark.parametrize("seed", range(8))
def test_random_get(seed):
    rng, cases, done = random.Random(seed), Collector(), 0
    while done < 150:
        shape = rng.choice(SHAPES)
        array = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
        index = random_index(rng, shape)
        if not agreed(index):
            continue
        try:
            expected = np.asarray(array[index])
        except (IndexError, ValueError):  # index arrays that do not broadcast
            continue
        t = gt.from_numpy(array)
        if seed % 2 and array.ndim > 1:  # the same through a view
            t = gt.from_numpy(np.ascontiguousarray(array.T)).permute(tuple(reversed(range(array.ndim))))
        cases.same(
            describe(shape, index),
            lambda: t[as_gt(index, rng)],
            np.ascontiguousarray(expected).reshape(expected.shape),
        )
        done += 1
    cases.finish()


@pytest.mark.parametrize("seed", range(8))
def test_random_set(seed):
    rng, cases, done = random.Random(100 + seed), Collector(), 0
    while done < 120:
        shape = rng.choice(SHAPES)
        array = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
        index = random_index(rng, shape)
        if not agreed(index):
            continue
        try:
            selected = np.asarray(array[index])
        except (IndexError, ValueError):
            continue
        positions = np.arange(array.size).reshape(shape)[index]
        if np.unique(positions).size != np.asarray(positions).size:
            continue  # written twice: the order is undefined
        form = rng.choice(["number", "whole", "broadcast", "scalar"])
        source = {
            "number": -1.5,
            "scalar": np.float32(-2.5),
            "whole": -1 - np.random.random(selected.shape),
            "broadcast": np.full(selected.shape[rng.randint(0, selected.ndim) :], -3.0, np.float32),
        }[form]
        expected = array.copy()
        expected[index] = source

        def run():
            t = gt.from_numpy(array.copy())
            t[as_gt(index, rng)] = source if form == "number" else gt.from_numpy(np.array(source, np.float32))
            return t

        cases.same(f"{describe(shape, index)} = {form}", run, expected)
        done += 1
    cases.finish()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int32", "float16", "bfloat16", "float64"])
def test_random_get_and_set_in_other_dtypes(dtype):
    rng, cases = random.Random(dtype), Collector()
    for _ in range(40):
        x = values((5, 6, 4), dtype, 1)
        index = random_index(rng, (5, 6, 4), arrays=False, negative_steps=False)
        try:
            cases.same(describe((5, 6, 4), index), lambda: to_gt(x)[index], x[index])
        except IndexError:  # the ellipsis moved an integer to an axis too short for it
            continue

        def run():
            t = to_gt(x)
            t[index] = 1
            return t

        expected = x.clone()
        expected[index] = 1
        cases.same(f"{describe((5, 6, 4), index)} = 1", run, expected)
    cases.finish()


def test_negative_steps_follow_numpy():
    array = np.arange(30).reshape(5, 6)
    t = gt.from_numpy(array)
    for index in [
        np.s_[::-1],
        np.s_[:, ::-1],
        np.s_[::-2, ::-3],
        np.s_[4:1:-1],
        np.s_[1:4:-1],
        np.s_[-1:-6:-2],
        np.s_[100::-1],
        np.s_[::-1, 2],
        np.s_[3, ::-1],
    ]:
        check(t[index], array[index].copy(), str(index))


def test_views_share_memory():
    t = gt.zeros(4, 4)
    row = t[1]
    row[0] = 5
    assert row.tolist() == t[1].tolist() == [5, 0, 0, 0]
    transposed = t.T
    t[0] = 1
    assert t[0].tolist() == [1, 1, 1, 1]
    assert transposed.sum().item() == 9.0


def test_augmented_assignment_to_an_index():
    t = gt.zeros(3, 3)
    t[1] += 2
    t[:, 0] -= 1
    t[2, 2] *= 5
    t[1:, 1:] /= 2
    assert t.tolist() == [[-1, 0, 0], [1, 1, 1], [-1, 0, 0]]


def test_assignment_casts_the_source():
    t = gt.zeros(3, dtype=gt.int64)
    t[1] = 2.7
    t[gt.tensor([0, 2])] = gt.tensor([3, -1])  # with index tensors only numbers are converted
    assert t.tolist() == [3, 2, -1]
    t = gt.zeros(3, dtype=gt.float16)
    t[0] = gt.tensor(1.5, dtype=gt.float64)
    t[1:] = gt.tensor([True, False])
    assert t.tolist() == [1.5, 1.0, 0.0] and t.dtype == gt.float16


def test_masks():
    x = values((6, 5), "float32", 1)
    t = to_gt(x)
    check(t[t > 0], x[x > 0])
    check(t[(t > 0) & (t < 1)], x[(x > 0) & (x < 1)])
    t[t < 0] = 0
    check(t, x.clamp(min=0))
    t[gt.zeros(6, 5, dtype=gt.bool)] = 7
    check(t, x.clamp(min=0))
    count = int((x > 0).sum())
    t = to_gt(x)
    t[t > 0] = gt.arange(count).float()
    x[x > 0] = torch.arange(count).float()
    check(t, x)


@pytest.mark.parametrize('flag', [True, False])
def test_masks_of_no_dimensions(flag):
    """True, False and 0-d masks add a new axis with one element or none."""
    def keys(library):
        return (flag, library.tensor(flag), (flag, 1), (slice(None), flag), (flag, library.tensor([0, 2])[:1], 1),
                (None, flag), (Ellipsis, library.tensor(flag)))

    x = torch.arange(12.0).reshape(3, 4)
    for ours, theirs in zip(keys(gt), keys(torch)):
        check(to_gt(x)[ours], x[theirs], f"read {theirs}")
        for source in (7.0, torch.full_like(x[theirs], 8.0)):
            t, expected = to_gt(x), x.clone()
            t[ours] = source if isinstance(source, float) else to_gt(source)
            expected[theirs] = source
            check(t, expected, f"write {theirs}")
    scalar = gt.tensor(2.0)
    check(scalar[scalar > 5], torch.tensor([]), "0-d by its own mask")
    scalar[scalar > 1 if flag else scalar > 5] = 9
    assert scalar.shape == () and scalar.item() == (9.0 if flag else 2.0)
    deep = gt.zeros(*[1] * 8)
    deep[deep == (0 if flag else 1)] = 3
    deep[..., flag] = gt.tensor([[4.0]])
    assert deep.sum().item() == (4.0 if flag else 0.0)


def test_lists_numbers_and_numpy_scalars():
    array = np.arange(12).reshape(3, 4)
    t = gt.from_numpy(array)
    check(t[[0, 2]], array[[0, 2]])
    check(t[[0, 2], [1, -1]], array[[0, 2], [1, -1]])
    check(t[[True, False, True]], array[[True, False, True]])
    check(t[np.int64(1)], array[1])
    check(t[np.array([2, 0])], array[np.array([2, 0])])
    check(t[()], array)
    check(t[...], array)
    check(t[gt.tensor(1)], array[1])
    check(t[:, gt.tensor([[0, 1], [2, 3]])], array[:, np.array([[0, 1], [2, 3]])])
    assert t[1, 2].shape == () and t[1, 2].item() == 6


def test_bad_indices_raise_here_and_now():
    t = gt.zeros(3, 4)
    raises(IndexError, lambda: t[3], "3")
    raises(IndexError, lambda: t[-4], "-4")
    raises(IndexError, lambda: t[0, 4], "4")
    raises(IndexError, lambda: t[0, 0, 0])
    raises(IndexError, lambda: t[..., ...])
    raises((IndexError, TypeError), lambda: t[1.5])
    raises((IndexError, TypeError), lambda: t["row"])
    raises((IndexError, TypeError), lambda: t[gt.tensor([0.5])])
    raises(IndexError, lambda: t[gt.tensor([True, False])])
    raises((IndexError, ValueError), lambda: t[gt.tensor([0, 1]), gt.tensor([0, 1, 2])])
    raises(ValueError, lambda: t[::0])
    raises(IndexError, lambda: gt.tensor(1.0)[0])

    def assign(index, source):
        t[index] = source

    raises(IndexError, lambda: assign(3, 0))
    raises((ValueError, RuntimeError), lambda: assign(0, gt.zeros(5)), "5", "4")
    raises((ValueError, RuntimeError), lambda: assign(slice(None), gt.zeros(2, 3, 4)))
    raises(TypeError, lambda: assign(0, "text"))
    check(t, np.zeros((3, 4), np.float32), "after the refusals")


def test_an_index_out_of_range_in_data_surfaces_at_the_read():
    """The client does not know the elements of an index tensor; reading the result raises."""
    t = gt.arange(5)
    for run in (
        lambda: t[gt.tensor([0, 5])],
        lambda: t[gt.tensor([-6])],
        lambda: t.index_select(0, gt.tensor([7])),
        lambda: t.gather(0, gt.tensor([9])),
        lambda: gt.take_along_axis(t, gt.tensor([5]), 0),
        lambda: gt.embedding(gt.zeros(4, 2), gt.tensor([4])),
    ):
        raises(IndexError, lambda: run().numpy())
    check(t + 1, np.arange(1, 6), "the session goes on")
    table, far = gt.zeros(2, 3, 4), gt.tensor([9])
    for run, dimension in (
        (lambda: table[far], 0),
        (lambda: table[:, far], 1),
        (lambda: table[0, :, far], 2),
        (lambda: table[None, gt.tensor([0]), 1:, far], 2),
        (lambda: table.gather(2, far.reshape(1, 1, 1)), 2),
    ):
        raises(IndexError, lambda: run().numpy(), f"index 9 is out of bounds for dimension {dimension} with size")
    raises(IndexError, lambda: table.index_select(1, far).numpy(), "index out of range in self")


def test_iteration_and_unpacking():
    array = np.arange(6).reshape(3, 2)
    rows = list(gt.from_numpy(array))
    assert len(rows) == 3 and [row.tolist() for row in rows] == array.tolist()
    first, second, third = gt.from_numpy(array)
    assert second.tolist() == [2, 3]
    assert [int(value) for value in gt.arange(4)] == [0, 1, 2, 3]
    raises(TypeError, lambda: list(gt.tensor(1)), "0-d")
    assert 3 in gt.arange(5) and 7 not in gt.arange(5)
