"""Datasets: samples by index, or one after the other.

rows_of() is for DataLoader: a batch of a TensorDataset is cut out of its tensors by one operation each.
"""

import bisect
import itertools
import math
import warnings
from typing import Any, Callable, Dict, Generic, Iterable, Iterator, List, Optional, Sequence, Tuple, TypeVar, Union

from gt import _gt
from gt._gt import Tensor
from gt.utils.data.sampler import draw_seed, host_generator

T_co = TypeVar('T_co', covariant=True)


class Dataset(Generic[T_co]):
    """Samples by index: write __getitem__(index) and __len__(). __getitems__(indices), a list of samples, is optional.

        class Squares(Dataset):
            def __len__(self):
                return 10
            def __getitem__(self, index):
                return index, index * index
    """

    def __getitem__(self, index) -> T_co:
        raise NotImplementedError('Subclasses of Dataset should implement __getitem__.')

    def __add__(self, other: 'Dataset[T_co]') -> 'ConcatDataset[T_co]':
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """Samples one after the other: write __iter__().

    Each worker process iterates over its own copy; use get_worker_info() to give each of them another part.
    """

    def __add__(self, other: Dataset[T_co]) -> 'ChainDataset':
        return ChainDataset([self, other])


class TensorDataset(Dataset[Tuple[Tensor, ...]]):
    """Samples are the rows of tensors: TensorDataset(inputs, targets)[3] is (inputs[3], targets[3])."""

    tensors: Tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensors[0].size(0) != tensor.size(0) for tensor in tensors):
            raise AssertionError('Size mismatch between tensors')
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)


def _samples(dataset, indices):
    """The samples of several indices, at once if the dataset can."""
    several = getattr(dataset, '__getitems__', None)
    if not callable(several):
        return [dataset[index] for index in indices]
    items = several(indices)
    if len(items) != len(indices):
        raise ValueError(f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(items)}")
    return items


class StackDataset(Dataset):
    """Samples of several datasets side by side: tuples, or dictionaries if the datasets have names.

        StackDataset(images, labels)[0]; StackDataset(image=images, label=labels)[0]
    """

    datasets: Union[tuple, Dict[str, Dataset]]

    def __init__(self, *args: Dataset, **kwargs: Dataset) -> None:
        if args and kwargs:
            raise ValueError('Supported either ``tuple``- (via ``args``) or ``dict``- (via ``kwargs``) like input/output, '
                             'but both types are given.')
        if not args and not kwargs:
            raise ValueError('At least one dataset should be passed')
        self.datasets = args or kwargs
        members = self._members()
        self._length = len(members[0])
        if any(len(member) != self._length for member in members):
            raise ValueError('Size mismatch between datasets')

    def _members(self):
        return list(self.datasets.values()) if isinstance(self.datasets, dict) else list(self.datasets)

    def _joined(self, parts):
        return dict(zip(self.datasets, parts)) if isinstance(self.datasets, dict) else tuple(parts)

    def __getitem__(self, index):
        return self._joined([member[index] for member in self._members()])

    def __getitems__(self, indices: list):
        return [self._joined(parts) for parts in zip(*(_samples(member, indices) for member in self._members()))]

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[T_co]):
    """Several datasets one after the other: ConcatDataset([first, second])."""

    datasets: List[Dataset[T_co]]
    cumulative_sizes: List[int]

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError('datasets should not be an empty iterable')
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError('ConcatDataset does not support IterableDataset')
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence) -> List[int]:
        """Where each dataset ends."""
        return list(itertools.accumulate(len(part) for part in sequence))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index):
        if index < 0:
            if -index > len(self):
                raise ValueError('absolute value of index should not exceed dataset length')
            index += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]

    @property
    def cummulative_sizes(self):
        """PyTorch's old name of cumulative_sizes."""
        warnings.warn('cummulative_sizes attribute is renamed to cumulative_sizes', DeprecationWarning, stacklevel=2)
        return self.cumulative_sizes


class ChainDataset(IterableDataset):
    """Several iterable datasets one after the other: ChainDataset([first, second])."""

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError('ChainDataset only supports IterableDataset')
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self.datasets)


class Subset(Dataset[T_co]):
    """The samples of a dataset at these indices: Subset(dataset, [4, 2, 7])."""

    dataset: Dataset[T_co]
    indices: Sequence[int]

    def __init__(self, dataset: Dataset[T_co], indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index):
        if isinstance(index, list):
            return self.dataset[[self.indices[k] for k in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: List[int]) -> List[T_co]:
        return _samples(self.dataset, [self.indices[k] for k in indices])

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Dataset[T_co], lengths: Sequence[Union[int, float]], generator=None) -> List[Subset[T_co]]:
    """Split a dataset into parts that do not overlap, in random order.

    lengths: numbers of samples that add up to the dataset's, or fractions that add up to 1; samples that fractions leave
    over go to the first parts in turn.

        train, test = random_split(dataset, [0.8, 0.2], generator=gt.Generator().manual_seed(42))
    """
    lengths = list(lengths)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        sizes = []
        for k, fraction in enumerate(lengths):
            if fraction < 0 or fraction > 1:
                raise ValueError(f'Fraction at index {k} is not between 0 and 1')
            sizes.append(math.floor(len(dataset) * fraction))
        for k in range(len(dataset) - sum(sizes)):
            sizes[k % len(sizes)] += 1
        for k, size in enumerate(sizes):
            if size == 0:
                warnings.warn(f'Length of split at index {k} is 0. This might result in an empty dataset.', stacklevel=2)
        lengths = sizes
    if sum(lengths) != len(dataset):
        raise ValueError('Sum of input lengths does not equal the length of the input dataset!')
    order = host_generator(draw_seed(generator)).permutation(sum(lengths)).tolist()
    ends = list(itertools.accumulate(lengths))
    return [Subset(dataset, order[end - length:end]) for end, length in zip(ends, lengths)]


# ---- batches without samples ---------------------------------------------------------------------------------


def _cut(tensors, indices):
    """default_collate of the rows at these indices: one operation per tensor."""
    count, first, last = tensors[0].shape[0], indices[0], indices[-1]
    low, high = min(indices), max(indices)
    if low < -count or high >= count:
        bad = high if high >= count else low
        raise IndexError(f'index {bad} is out of bounds for dimension 0 with size {count}')
    if low == first and last - first == len(indices) - 1 and first >= 0 and indices == list(range(first, last + 1)):
        return [tensor[first:last + 1] for tensor in tensors]
    if low < 0:
        indices = [index + count if index < 0 else index for index in indices]
    rows = _gt.tensor(indices)
    return [tensor.index_select(0, rows) for tensor in tensors]


def rows_of(dataset: Any) -> Optional[Callable[[List[int]], Any]]:
    """A function that makes the batch of a list of indices without making its samples; None: the dataset needs them.

    It may return None for indices that are not plain integers.
    """
    if type(dataset) is TensorDataset:
        tensors = dataset.tensors
        return lambda indices: _cut(tensors, indices) if indices and set(map(type, indices)) == {int} else None
    if type(dataset) is Subset:
        inner, chosen = rows_of(dataset.dataset), dataset.indices
        return inner and (lambda indices: inner([chosen[k] for k in indices]))
    return None
