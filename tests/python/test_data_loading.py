"""gt.utils.data: datasets, samplers, collate functions and DataLoader, against torch.utils.data; worker processes."""

import collections
import functools
import math
import os
import random
import signal

import numpy as np
import pytest
import torch
import torch.utils.data

import gt
import gt.utils.data as ours
from support import check, dtype_name, in_process_group, raises, until

theirs = torch.utils.data
BOTH = ((gt, ours), (torch, theirs))


def same(mine, its, what="value"):
    """Compare nested batches: the same containers, the same values; GT tensors for PyTorch's."""
    if isinstance(its, torch.Tensor):
        check(mine, its, what)
    elif isinstance(its, dict):
        assert list(mine) == list(its), what
        for key in its:
            same(mine[key], its[key], f"{what}[{key!r}]")
    elif isinstance(its, (list, tuple)):
        assert type(mine).__name__ == type(its).__name__ and len(mine) == len(its), f"{what}: {mine!r}, expected {its!r}"
        for k, item in enumerate(its):
            same(mine[k], item, f"{what}[{k}]")
    else:
        assert mine == its and type(mine) is type(its), f"{what}: {mine!r}, expected {its!r}"


def both(function):
    """function(library, its utils.data) in both libraries: the same result, or the same exception."""
    results = []
    for library, data in BOTH:
        try:
            results.append((None, function(library, data)))
        except Exception as error:
            results.append((type(error), str(error)))
    (mine, value), (its, expected) = results
    assert mine is its or (mine and its and issubclass(mine, its)), f"{mine}: {value}, expected {its}: {expected}"
    if its is None:
        same(value, expected)
    return results[0]


def numbers(library, *shape):
    return library.arange(math.prod(shape)).reshape(*shape)


class Squares(ours.Dataset):
    """Samples on the host."""

    def __init__(self, length=10):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if not 0 <= index < self.length:
            raise IndexError(index)
        return np.full(3, index, np.float32), index * index


class Stream(ours.IterableDataset):
    def __init__(self, length, told=None):
        self.length, self.told = length, told

    def __iter__(self):
        info = ours.get_worker_info()
        return iter(range(self.length) if info is None else range(info.id, self.length, info.num_workers))

    def __len__(self):
        if self.told is None:
            raise TypeError("no length")
        return self.told


# ---- datasets -------------------------------------------------------------------------------------------------


def test_datasets():
    both(lambda library, data: list(data.TensorDataset(numbers(library, 4, 2), numbers(library, 4))))
    both(lambda library, data: data.TensorDataset(numbers(library, 4, 2))[1:3])
    both(lambda library, data: data.ConcatDataset([range(3), range(10, 12)])[-1])
    both(lambda library, data: [(data.ConcatDataset([range(3), [7], range(2)]))[k] for k in range(6)])
    both(lambda library, data: data.ConcatDataset([range(3)])[-4])
    both(lambda library, data: data.ConcatDataset([]))
    both(lambda library, data: data.ConcatDataset([range(3), range(4)]).cumulative_sizes)
    both(lambda library, data: list(data.StackDataset([1, 2], "ab")))
    both(lambda library, data: list(data.StackDataset(x=[1, 2], y="ab")))
    both(lambda library, data: data.StackDataset([1, 2], [1, 2, 3]))
    both(lambda library, data: data.StackDataset([1, 2], x=[1, 2]))
    both(lambda library, data: data.StackDataset())
    both(lambda library, data: data.StackDataset(x=[1, 2, 3], y="abc").__getitems__([2, 0]))
    both(lambda library, data: data.Subset("abcdef", [4, 2])[1])
    both(lambda library, data: data.Subset("abcdef", [4, 2, 1]).__getitems__([2, 0]))
    both(lambda library, data: len(data.TensorDataset(numbers(library, 5)) + data.TensorDataset(numbers(library, 6))))
    both(lambda library, data: data.Dataset()[0])
    raises(AssertionError, lambda: ours.TensorDataset(gt.ones(3), gt.ones(4)), "Size mismatch")
    chained = Stream(3) + Stream(2)
    assert isinstance(chained, ours.ChainDataset) and list(chained) == [0, 1, 2, 0, 1]
    assert isinstance(ours.Dataset[int], object)


@pytest.mark.filterwarnings("ignore:Length of split")
@pytest.mark.parametrize("lengths", [[6, 4], [10, 0], [0.5, 0.5], [0.34, 0.33, 0.33], [0.1, 0.9], [0.99, 0.01], [1.0], [3, 3]])
def test_random_split(lengths):
    both(lambda library, data: [len(part) for part in data.random_split(range(10), lengths)])
    if sum(lengths) in (1, 10):
        parts = ours.random_split(range(10), lengths, generator=gt.Generator().manual_seed(3))
        assert sorted(value for part in parts for value in part) == list(range(10))
        again = ours.random_split(range(10), lengths, generator=gt.Generator().manual_seed(3))
        assert [part.indices for part in parts] == [part.indices for part in again]
    both(lambda library, data: data.random_split(range(10), [1.5, -0.5]))


# ---- samplers -------------------------------------------------------------------------------------------------


def test_samplers_give_what_they_should():
    n = 20
    assert list(ours.SequentialSampler(range(n))) == list(range(n))
    assert sorted(ours.RandomSampler(range(n))) == list(range(n))
    assert len(list(ours.RandomSampler(range(n), num_samples=7))) == 7 == len(set(ours.RandomSampler(range(n), num_samples=7)))
    long = list(ours.RandomSampler(range(n), num_samples=50))
    assert len(long) == 50 and sorted(long[:n]) == list(range(n)) == sorted(long[n : 2 * n])
    assert set(ours.RandomSampler(range(3), replacement=True, num_samples=200)) == {0, 1, 2}
    assert sorted(ours.SubsetRandomSampler([3, 5, 9])) == [3, 5, 9]
    drawn = collections.Counter(ours.WeightedRandomSampler([0.0, 3.0, 1.0], 4000))
    assert set(drawn) == {1, 2} and 2800 < drawn[1] < 3200
    assert sorted(ours.WeightedRandomSampler([1, 5, 2, 0], 3, replacement=False)) == [0, 1, 2]
    assert sorted(ours.WeightedRandomSampler(gt.tensor([1.0, 5.0]), 2, replacement=False)) == [0, 1]
    raises(RuntimeError, lambda: iter(ours.WeightedRandomSampler([1, 0], 2, replacement=False)), "multinomial")
    raises(RuntimeError, lambda: iter(ours.WeightedRandomSampler([1, -1], 2)), "probability")


def test_samplers_repeat_with_the_seed():
    def orders():
        gt.manual_seed(5)
        samplers = [ours.RandomSampler(range(50)), ours.SubsetRandomSampler(range(50)), ours.WeightedRandomSampler(range(50), 9)]
        return [list(sampler) for sampler in samplers for _ in range(2)]

    first = orders()
    assert first == orders() and first[0] != first[1]
    one, other = (ours.RandomSampler(range(50), generator=gt.Generator().manual_seed(k)) for k in (1, 2))
    same_one = ours.RandomSampler(range(50), generator=gt.Generator().manual_seed(1))
    passes = [list(one), list(one)]
    assert passes == [list(same_one), list(same_one)] and passes[0] != passes[1] and passes[0] != list(other)
    raises(TypeError, lambda: list(ours.RandomSampler(range(5), generator=torch.Generator())), "gt.Generator")


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("count, size", [(10, 3), (9, 3), (2, 5), (0, 4), (7, 1)])
def test_batch_sampler(count, size, drop_last):
    both(lambda library, data: list(data.BatchSampler(range(count), size, drop_last)))
    both(lambda library, data: len(data.BatchSampler(range(count), size, drop_last)))


def test_arguments_of_samplers():
    both(lambda library, data: data.RandomSampler(range(3), replacement=1))
    both(lambda library, data: data.RandomSampler(range(3), num_samples=0))
    both(lambda library, data: data.RandomSampler([]))
    both(lambda library, data: data.BatchSampler(range(3), 0, False))
    both(lambda library, data: data.BatchSampler(range(3), 2.0, False))
    both(lambda library, data: data.BatchSampler(range(3), 2, 1))
    both(lambda library, data: data.WeightedRandomSampler([1, 2], 0))
    both(lambda library, data: data.WeightedRandomSampler([1, 2], 1, replacement=1))
    both(lambda library, data: data.WeightedRandomSampler([[1, 2]], 2))


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("count", [1, 3, 10, 12, 13])
def test_distributed_sampler(count, drop_last):
    def parts(library, data, **options):
        make = data.distributed.DistributedSampler
        return [make(range(count), num_replicas=4, rank=k, drop_last=drop_last, **options) for k in range(4)]

    both(lambda library, data: [list(part) for part in parts(library, data, shuffle=False)])
    both(lambda library, data: [len(part) for part in parts(library, data)])
    shuffled = parts(gt, ours)
    seen = [index for part in shuffled for index in part]
    assert len(seen) == sum(map(len, shuffled))
    if not drop_last:
        assert set(seen) == set(range(count))
    if count > 5:
        before = [list(part) for part in shuffled]
        for part in shuffled:
            part.set_epoch(1)
        assert before != [list(part) for part in shuffled]
    both(lambda library, data: data.distributed.DistributedSampler(range(3), num_replicas=2, rank=2))
    raises(RuntimeError, lambda: ours.DistributedSampler(range(3)), "num_replicas")


# ---- collate --------------------------------------------------------------------------------------------------

Point = collections.namedtuple("Point", ["x", "y"])


class Mapping(dict):
    pass


def structures(library):
    t, array = numbers(library, 2, 2), np.arange(3, dtype=np.float32)
    return [
        [1, 2], [1.5, 2], [1, 2.5], [True, False], ["a", "b"], [b"a", b"b"], [(1, "a"), (2, "b")], [[1, 2.0], [3, 4.0]],
        [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}], [t, t + 1], [array, array + 1], [np.float32(1), np.float32(2)],
        [np.float64(1), np.float64(2)], [np.int32(1), np.int32(2)], [np.bool_(True), np.bool_(False)],
        [np.array(1), np.array(2)], [Point(1, array), Point(2, array)], [(t, (array, {"k": [1, "z"]}))] * 3,
        [Mapping(a=array), Mapping(a=array)], [collections.OrderedDict(b=1, a=2.0)] * 2, [np.zeros((0, 3))] * 2,
        [range(3), range(3, 6)], [(), ()], [np.arange(2, dtype=np.uint8)] * 2, [np.float16(1)] * 2, [["a", 1], ["b", 2]],
        [None, None], [object(), object()], [np.array(["a"]), np.array(["b"])], [np.array([None])] * 2, [[1, 2], [1]],
        [{"a": 1}, {"b": 1}], [np.ones(2), np.ones(3)], [],
    ]  # fmt: skip


@pytest.mark.parametrize("case", range(len(structures(torch))))
def test_default_collate(case):
    both(lambda library, data: data.default_collate(structures(library)[case]))


@pytest.mark.parametrize("case", range(len(structures(torch))))
def test_default_convert(case):
    if case != 27:  # objects, which are equal to themselves only
        both(lambda library, data: [data.default_convert(sample) for sample in structures(library)[case]])


def test_tensors_of_pytorch_are_samples():
    check(ours.default_collate([torch.ones(2), torch.zeros(2)]), torch.tensor([[1.0, 1.0], [0.0, 0.0]]))
    check(ours.default_collate([torch.ones(2).bfloat16()] * 2), torch.ones(2, 2).bfloat16())


# ---- DataLoader in one process --------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [
    {}, {"batch_size": 3}, {"batch_size": 3, "drop_last": True}, {"batch_size": 20}, {"batch_size": None},
    {"batch_size": 10, "drop_last": True}, {"sampler": [4, 2, -1, 7]}, {"batch_sampler": [[1, 2], [0], [3, -4, 5]]},
    {"batch_size": 2, "sampler": [3, 9, 1], "drop_last": True}, {"batch_size": 4, "pin_memory": True}], ids=str)  # fmt: skip
def test_batches(options):
    def tensors(library, data):
        return list(data.DataLoader(data.TensorDataset(numbers(library, 10, 3), numbers(library, 10).float()), **options))

    def subset(library, data):
        rows = data.Subset(data.TensorDataset(numbers(library, 30, 3)), list(range(19, -1, -2)))
        return list(data.DataLoader(data.Subset(rows, range(10)), **options))

    def samples(library, data):
        return list(data.DataLoader([(k, np.full(2, k), {"n": str(k)}) for k in range(10)], **options))

    for function in (tensors, subset, samples):
        both(function)
        both(lambda library, data: len(data.DataLoader(range(10), **options)))


def test_shuffle():
    dataset = ours.TensorDataset(gt.arange(100), gt.arange(100) * 2)
    loader = ours.DataLoader(dataset, batch_size=7, shuffle=True)

    def order():
        batches = list(loader)
        assert all((x * 2 == y).all() for x, y in batches)
        return [value for x, _ in batches for value in x.tolist()]

    gt.manual_seed(1)
    first, second = order(), order()
    assert first != second and sorted(first) == sorted(second) == list(range(100))
    gt.manual_seed(1)
    assert [first, second] == [order(), order()]


def test_an_index_out_of_range_raises_at_its_line():
    loader = ours.DataLoader(ours.TensorDataset(gt.arange(5)), batch_size=2, sampler=[1, 5])
    raises(IndexError, lambda: next(iter(loader)), "index 5", "size 5")


def test_a_batch_of_rows_is_cut_and_not_copied_sample_by_sample():
    class Counting(ours.TensorDataset):
        calls = 0

        def __getitem__(self, index):
            Counting.calls += 1
            return super().__getitem__(index)

    for kind, expected in ((ours.TensorDataset, 0), (Counting, 12)):  # a subclass may do anything in __getitem__
        batches = list(ours.DataLoader(kind(gt.arange(12)), batch_size=4))
        assert [batch[0].tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
        assert Counting.calls == expected
    x = gt.arange(6.0).requires_grad_()
    (batch,) = next(iter(ours.DataLoader(ours.TensorDataset(x), batch_size=2)))
    batch.sum().backward()
    assert x.grad.tolist() == [1, 1, 0, 0, 0, 0]


def test_getitems_is_used():
    class Several(Squares):
        def __getitems__(self, indices):
            return [-k for k in indices]

    assert next(iter(ours.DataLoader(Several(), batch_size=3))).tolist() == [0, -1, -2]


@pytest.mark.parametrize("options", [{"batch_size": 3}, {"batch_size": 3, "drop_last": True}, {"batch_size": None}], ids=str)
def test_iterable_datasets(options):
    class Theirs(theirs.IterableDataset):
        def __iter__(self):
            return iter(range(8))

    mine, its = list(ours.DataLoader(Stream(8), **options)), list(theirs.DataLoader(Theirs(), **options))
    same(mine, its)


def test_length_of_an_iterable_dataset():
    loader = ours.DataLoader(Stream(8, told=7), batch_size=3)
    assert len(loader) == 3 and len(ours.DataLoader(Stream(8, told=8), batch_size=3, drop_last=True)) == 2
    with pytest.raises(TypeError):
        len(ours.DataLoader(Stream(8)))
    loader = ours.DataLoader(Stream(8, told=2))
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="reported to be 2"):
        list(loader)


@pytest.mark.parametrize("options", [
    {"num_workers": -1}, {"timeout": -1}, {"prefetch_factor": 2}, {"persistent_workers": True}, {"batch_size": 0},
    {"shuffle": True, "sampler": [1]}, {"batch_sampler": [[1]], "batch_size": 2}, {"batch_sampler": [[1]], "drop_last": True},
    {"batch_size": None, "drop_last": True}, {"multiprocessing_context": "fork"}, {"prefetch_factor": -1, "num_workers": 1},
    {"multiprocessing_context": "nonsense", "num_workers": 1}, {"multiprocessing_context": 5, "num_workers": 1}], ids=str)  # fmt: skip
def test_arguments(options):
    kind, text = both(lambda library, data: data.DataLoader(range(3), **options) and None)
    assert kind is not None and text


def test_more_arguments():
    for options in ({"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}):
        raises(ValueError, lambda: ours.DataLoader(Stream(3), **options), "IterableDataset")
    loader = ours.DataLoader(range(3))
    raises(ValueError, lambda: setattr(loader, "batch_size", 4), "batch_size attribute should not be set")
    with pytest.warns(UserWarning, match="suggested max"):
        ours.DataLoader(range(3), num_workers=1000)


# ---- worker processes -----------------------------------------------------------------------------------------


def worker_pids():
    """Living child processes of this one."""
    children = []
    for pid in os.listdir("/proc"):
        try:
            fields = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split() if pid.isdigit() else None
        except OSError:
            continue
        if fields and int(fields[1]) == os.getpid() and fields[0] not in "ZX":
            children.append(int(pid))
    return children


@pytest.fixture
def no_children_left():
    before = set(worker_pids())
    yield
    until(lambda: set(worker_pids()) <= before, "the end of the worker processes")


pytestmark = [
    pytest.mark.usefixtures("no_children_left"),
    pytest.mark.filterwarnings("ignore:.*suggested max"),
    pytest.mark.filterwarnings("ignore:.*pin_memory.*no accelerator"),
]


class Identity(Squares):
    """Who made the sample."""

    def __getitem__(self, index):
        return index, os.getpid(), ours.get_worker_info().id


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_processes_give_the_same_batches_in_order(workers):
    options = {"batch_size": 4, "collate_fn": None}
    expected = list(ours.DataLoader(Squares(22), **options))
    loader = ours.DataLoader(Squares(22), num_workers=workers, **options)
    for mine, its in zip(list(loader), expected, strict=True):
        assert [dtype_name(t.dtype) for t in mine] == ["float32", "int64"]
        assert [t.tolist() for t in mine] == [t.tolist() for t in its]
    assert len(loader) == 6


def test_processes_that_are_not_forked(programs):
    """GT tensors in the dataset go by value. A program of its own: the processes import its main file, not this one."""
    output = programs.run("""
        import gt
        from gt.utils.data import DataLoader, TensorDataset

        def join(samples):
            return [gt.stack(parts) for parts in zip(*samples)]

        if __name__ == '__main__':
            dataset = TensorDataset(gt.arange(6), gt.arange(12.0).reshape(6, 2).bfloat16())
            for context in ('spawn', 'forkserver'):
                loader = DataLoader(dataset, batch_size=4, num_workers=2, multiprocessing_context=context, collate_fn=join)
                print([(x.tolist(), str(y.dtype), y[0].tolist()) for x, y in loader])
    """)
    expected = "[([0, 1, 2, 3], 'gt.bfloat16', [0.0, 1.0]), ([4, 5], 'gt.bfloat16', [8.0, 9.0])]"
    assert output.splitlines() == [expected, expected]


def test_processes_are_real():
    batches = list(ours.DataLoader(Identity(8), batch_size=2, num_workers=2))
    assert [batch[2].tolist() for batch in batches] == [[0, 0], [1, 1], [0, 0], [1, 1]]
    pids = {pid for batch in batches for pid in batch[1].tolist()}
    assert len(pids) == 2 and os.getpid() not in pids
    assert ours.get_worker_info() is None


def test_every_kind_of_value_crosses():
    class Kinds(Squares):
        def __getitem__(self, index):
            array = np.arange(300, dtype=np.int64) + index
            return {"large": array, "t": (np.float16(index), index > 1), "text": f"é{index}", "empty": np.zeros((0, 4)),
                    "f": 1.5, "strided": np.arange(40.0)[::4], "b": np.array([True])}  # fmt: skip

    expected = list(ours.DataLoader(Kinds(6), batch_size=2))
    for mine, its in zip(ours.DataLoader(Kinds(6), batch_size=2, num_workers=2), expected, strict=True):
        assert mine["text"] == its["text"]
        for key in ("large", "empty", "f", "strided", "b"):
            assert mine[key].dtype == its[key].dtype and mine[key].tolist() == its[key].tolist(), key
    plain = next(iter(ours.DataLoader(Kinds(6), batch_size=2, num_workers=1, collate_fn=list)))
    assert isinstance(plain[0]["large"], np.ndarray) and plain[1]["large"][-1] == 300
    plain[1]["large"][0] = 5  # an array of its own, not of the worker's memory
    alone = list(ours.DataLoader(Kinds(2), batch_size=None, num_workers=1))
    assert alone[1]["large"].tolist() == list(range(1, 301))


def test_batches_of_changing_size_share_no_memory():
    """Segments are used again: a batch keeps its values when later ones come."""

    class Growing(Squares):
        def __getitem__(self, index):
            return np.full((index * 9973) % 70_000 + 1, index, np.int64)

    loader = ours.DataLoader(Growing(30), batch_size=1, num_workers=2, prefetch_factor=1)
    batches = list(loader)
    assert [(batch.shape[1], batch[0, 0].item(), batch[0, -1].item()) for batch in batches] == [
        ((k * 9973) % 70_000 + 1, k, k) for k in range(30)]  # fmt: skip


def test_worker_info_and_init():
    def init(number):
        info = ours.get_worker_info()
        info.dataset.told = (number, info.id, info.num_workers, info.seed, gt.initial_seed(), random.random(), np.random.rand())

    class Told(Squares):
        def __getitem__(self, index):
            return self.told

    def told():
        gt.manual_seed(4)
        options = {"num_workers": 2, "worker_init_fn": init, "collate_fn": list, "batch_size": 2}
        return [batch[0] for batch in ours.DataLoader(Told(4), **options)]

    first, second = told()
    assert first[:3] == (0, 0, 2) and second[:3] == (1, 1, 2)
    assert first[3] == first[4] and second[3] == first[3] + 1
    assert first[5:] != second[5:] and told() == [first, second]


def test_random_numbers_of_gt_in_workers():
    class Noise(Squares):
        def __getitem__(self, index):
            return gt.rand(2)

    def noise():
        gt.manual_seed(4)
        return [row for batch in ours.DataLoader(Noise(4), batch_size=2, num_workers=2) for row in batch.tolist()]

    drawn = noise()
    assert drawn == noise() and len({tuple(row) for row in drawn}) == 4


SCALE = gt.tensor([10.0])


class OfTensors(ours.Dataset):
    """Holds GT tensors in every place that a forked child looks at."""

    offset = gt.tensor(0.5)

    def __init__(self):
        self.x = gt.arange(12.0).reshape(6, 2)
        self.inside = {"list": [gt.tensor([1.0, 2.0])]}
        bias = gt.tensor([100.0, 200.0])
        self.transform = lambda row: row + bias
        self.partial = functools.partial(lambda a, b: a * b, gt.tensor(2.0))

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return self.partial(self.transform(self.x[index] * SCALE) + self.inside["list"][0]) + self.offset


def test_datasets_with_gt_tensors():
    dataset = ours.TensorDataset(gt.arange(6), gt.arange(12.0).reshape(6, 2).bfloat16())
    loader = ours.DataLoader(dataset, batch_size=4, num_workers=2, collate_fn=join)
    assert [(x.tolist(), y.dtype, y[0].tolist()) for x, y in loader] == [
        ([0, 1, 2, 3], gt.bfloat16, [0, 1]), ([4, 5], gt.bfloat16, [8, 9])]  # fmt: skip
    expected = [batch.tolist() for batch in ours.DataLoader(OfTensors(), batch_size=4)]
    assert expected[0][1] == [2 * (20 + 100 + 1) + 0.5, 2 * (30 + 200 + 2) + 0.5]
    assert [batch.tolist() for batch in ours.DataLoader(OfTensors(), batch_size=4, num_workers=2)] == expected
    rows = list(ours.DataLoader(dataset, batch_size=4, num_workers=2))
    assert rows[1][0].tolist() == [4, 5]


def join(samples):
    return [gt.stack(parts) for parts in zip(*samples)]


def test_tensors_that_require_gradients():
    class Leaves(Squares):
        def __getitem__(self, index):
            leaf = gt.ones(2, requires_grad=True)
            return leaf if index == 0 else leaf * 2

    loader = iter(ours.DataLoader(Leaves(2), batch_size=None, num_workers=1))
    assert next(loader).requires_grad
    raises(RuntimeError, lambda: next(loader), "non-leaf tensor which requires_grad")


def test_iterable_dataset_in_workers():
    batches = [batch.tolist() for batch in ours.DataLoader(Stream(11), batch_size=2, num_workers=2)]
    assert batches == [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10], [9]]
    assert [batch.tolist() for batch in ours.DataLoader(Stream(11), batch_size=2, num_workers=3, drop_last=True)] == [
        [0, 3], [1, 4], [2, 5], [6, 9], [7, 10]]  # fmt: skip
    assert list(ours.DataLoader(Stream(3), batch_size=None, num_workers=2)) == [0, 1, 2]


def test_persistent_workers():
    loader = ours.DataLoader(Identity(8), batch_size=2, num_workers=2, persistent_workers=True)
    first = [batch[1].tolist() for batch in loader]
    for batch in loader:  # an unfinished pass
        break
    assert [batch[1].tolist() for batch in loader] == first
    assert [batch[0].tolist() for batch in loader] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    stream = ours.DataLoader(Stream(5), batch_size=2, num_workers=2, persistent_workers=True)
    assert [batch.tolist() for batch in stream] == [batch.tolist() for batch in stream] == [[0, 2], [1, 3], [4]]


def test_batches_out_of_order():
    class Slow(Squares):
        def __getitem__(self, index):
            if index == 0:  # the first batch waits for the last one
                until(lambda: os.path.exists(self.path), "the last batch")
            if index == 7:
                open(self.path, "w").close()
            return index

    dataset = Slow(8)
    dataset.path = f"/dev/shm/gt-test-{os.getpid()}"
    try:
        loader = ours.DataLoader(dataset, batch_size=1, num_workers=2, in_order=False)
        order = [batch.item() for batch in loader]
    finally:
        os.path.exists(dataset.path) and os.unlink(dataset.path)
    assert sorted(order) == list(range(8)) and order[0] != 0


# ---- failures in workers --------------------------------------------------------------------------------------


class Odd(Exception):
    def __init__(self, one, two):
        super().__init__(one, two)


class Failing(Squares):
    def __getitem__(self, index):
        if index == 3:
            raise {"value": ValueError("bad sample"), "key": KeyError("name"), "odd": Odd(1, 2)}[self.kind]
        return index


@pytest.mark.parametrize("kind, expected", [("value", ValueError), ("key", KeyError), ("odd", RuntimeError)])
def test_an_exception_in_a_worker(kind, expected):
    dataset = Failing(8)
    dataset.kind = kind
    batches = iter(ours.DataLoader(dataset, batch_size=2, num_workers=2))
    assert next(batches).tolist() == [0, 1]
    text = raises(expected, lambda: next(batches), "in DataLoader worker process 1", "Original Traceback", "__getitem__")
    assert "test_data_loading.py" in text and "\\n" not in text
    assert f"Caught {'Odd' if kind == 'odd' else expected.__name__} in" in text
    assert [batch.tolist() for batch in batches] == [[4, 5], [6, 7]]  # the pass goes on


def test_an_exception_in_worker_init_and_collate():
    def bad(number):
        raise OSError("no file")

    raises(OSError, lambda: list(ours.DataLoader(range(4), num_workers=1, worker_init_fn=bad)), "no file", "worker process 0")
    raises(OSError, lambda: list(ours.DataLoader(range(4), num_workers=1, collate_fn=bad)), "no file")
    raises(TypeError, lambda: list(ours.DataLoader([None], num_workers=1)), "default_collate", "NoneType")


@pytest.mark.parametrize("how, words", [("kill", "killed by signal: Killed"), ("exit", "exit code 7")])
def test_a_worker_that_dies(how, words):
    class Dying(Squares):
        def __getitem__(self, index):
            if index == 5:
                os.kill(os.getpid(), signal.SIGKILL) if how == "kill" else os._exit(7)
            return index

    raises(RuntimeError, lambda: list(ours.DataLoader(Dying(8), batch_size=2, num_workers=2)), "DataLoader worker", words)


def test_timeout():
    class Stuck(Squares):
        def __getitem__(self, index):
            signal.pause()

    raises(RuntimeError, lambda: list(ours.DataLoader(Stuck(), num_workers=1, timeout=0.2)), "timed out after 0.2 seconds")


def test_an_early_end_leaves_no_processes():
    before = set(worker_pids())
    for _ in ours.DataLoader(Squares(100), num_workers=2):
        break
    until(lambda: set(worker_pids()) <= before, "the end of the worker processes")


LOADING = """
    import os, sys, time
    import gt
    from gt.utils.data import DataLoader, Dataset

    class Endless(Dataset):
        def __len__(self):
            return 1_000_000
        def __getitem__(self, index):
            if index == 40:
                open(sys.argv[1], 'w').close()
            return index

    loader = DataLoader(Endless(), num_workers=2, persistent_workers=len(sys.argv) > 2)
    for batch in loader:
        pass
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signals_leave_no_processes(programs, tmp_path, number):
    process = programs.python(LOADING, tmp_path / "going", *(["persistent"] if number == signal.SIGINT else []))
    until(lambda: (tmp_path / "going").exists(), "the first batches")
    # Ctrl-C reaches the whole process group; other signals are for the parent alone.
    os.killpg(process.pid, number) if number == signal.SIGINT else os.kill(process.pid, number)
    assert process.wait() != 0
    until(lambda: not in_process_group(process.pid), "the end of all processes")
    if number == signal.SIGINT:
        assert process.text().count("Traceback") == 1 and "KeyboardInterrupt" in process.text()


def test_a_program_that_ends_in_the_middle(programs):
    """The iterator is alive when the interpreter ends."""
    output = programs.run("""
        from gt.utils.data import DataLoader
        batches = iter(DataLoader(range(1000), num_workers=2))
        print(next(batches).tolist())
    """)
    assert output.split() == ["[0]"]
    assert programs.runtime_entries() == []


def test_a_loader_beside_a_server_elsewhere(programs):
    """Workers of a program that is connected to a server have clients of their own."""
    server = programs.cluster()
    output = programs.run(f"""
        import gt
        from gt.utils.data import DataLoader, Dataset
        gt.connect('localhost:{server.port}')

        class Rows(Dataset):
            def __init__(self):
                self.x = gt.arange(6.0)
            def __len__(self):
                return 6
            def __getitem__(self, index):
                return self.x[index] * 2

        print([(batch + 1).tolist() for batch in DataLoader(Rows(), batch_size=3, num_workers=2)])
    """)
    assert output.strip() == "[[1.0, 3.0, 5.0], [7.0, 9.0, 11.0]]"


def test_training_with_a_loader():
    gt.manual_seed(0)
    x = gt.randn(256, 4)
    loader = ours.DataLoader(ours.TensorDataset(x, x.sum(1, keepdim=True)), batch_size=32, shuffle=True)
    model = gt.nn.Linear(4, 1)
    optimizer = gt.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(20):
        for inputs, targets in loader:
            loss = gt.nn.functional.mse_loss(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert loss.item() < 1e-2
