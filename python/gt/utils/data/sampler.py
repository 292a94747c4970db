"""Samplers: which samples, in which order.

Indices are drawn on the host, by NumPy's generator with a seed from GT's: no sampler waits for a worker, and the order
depends only on gt.manual_seed or on the generator that is given.
"""

import itertools
from typing import Generic, Iterable, Iterator, List, Optional, Sequence, Sized, TypeVar

import numpy as np

from gt import _gt
from gt.client.random import Generator

T_co = TypeVar('T_co', covariant=True)
_WORD = (1 << 64) - 1


def draw_seed(generator=None):
    """A seed of 63 bits from the generator, or from GT's own; each call gives another one. Waits for nothing."""
    if generator is None:
        seed, count = _gt._random_state()
        _gt._set_random_state(seed, count + 1)
    elif isinstance(generator, Generator):
        seed, count = generator._state
        generator._state = (seed, count + 1)
    else:
        raise TypeError(f'generator: a gt.Generator, not {type(generator).__name__}')
    # splitmix64: neighbouring seeds and counts give unrelated numbers
    mixed = (seed + (count + 1) * 0x9E3779B97F4A7C15) & _WORD
    mixed = ((mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9) & _WORD
    mixed = ((mixed ^ mixed >> 27) * 0x94D049BB133111EB) & _WORD
    return (mixed ^ mixed >> 31) >> 1


def host_generator(seed):
    """NumPy's generator for a seed."""
    return np.random.Generator(np.random.Philox(key=seed))


def _positive_integer(name, value):
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f'{name} should be a positive integer value, but got {name}={value}')


def _flag(name, value, error):
    if not isinstance(value, bool):
        raise error(f'{name} should be a boolean value, but got {name}={value}')


class Sampler(Generic[T_co]):
    """The base of samplers: write __iter__(), which gives indices or lists of indices, and __len__()."""

    def __init__(self, data_source: Optional[Sized] = None) -> None:
        pass

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """All indices in order: SequentialSampler(dataset)."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """All indices in random order, or num_samples of them; replacement: an index may come again.

        RandomSampler(dataset, generator=gt.Generator().manual_seed(0))
    """

    def __init__(self, data_source: Sized, replacement: bool = False, num_samples: Optional[int] = None,
                 generator=None) -> None:
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._num_samples = num_samples
        _flag('replacement', replacement, TypeError)
        _positive_integer('num_samples', self.num_samples)

    @property
    def num_samples(self) -> int:
        """How many indices one pass gives; by default the length of the dataset, which may change."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        count, wanted = len(self.data_source), self.num_samples
        random = host_generator(draw_seed(self.generator))
        if self.replacement:
            return iter(random.integers(0, count, wanted).tolist())
        if wanted <= count:
            return iter(random.permutation(count)[:wanted].tolist())
        parts = (random.permutation(count).tolist() for _ in range(-(-wanted // count)))
        return itertools.islice(itertools.chain.from_iterable(parts), wanted)

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order: SubsetRandomSampler(range(100), generator=None)."""

    def __init__(self, indices: Sequence[int], generator=None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        for k in host_generator(draw_seed(self.generator)).permutation(len(self.indices)).tolist():
            yield self.indices[k]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """num_samples indices, each with a probability proportional to its weight.

        WeightedRandomSampler([0.1, 0.9, 0.4], num_samples=5, replacement=True)
    """

    def __init__(self, weights: Sequence[float], num_samples: int, replacement: bool = True, generator=None) -> None:
        _positive_integer('num_samples', num_samples)
        _flag('replacement', replacement, ValueError)
        weights = np.asarray(weights, dtype=np.float64)
        if weights.ndim != 1:
            raise ValueError('weights should be a 1d sequence but given weights have shape '
                             f'{tuple(weights.shape)}')
        self.weights = _gt.as_tensor(weights)
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self) -> Iterator[int]:
        weights = np.asarray(self.weights, dtype=np.float64)
        if not np.isfinite(weights).all() or (weights < 0).any() or not weights.sum() > 0:
            raise RuntimeError('probability tensor contains either `inf`, `nan` or element < 0, or its sum is 0')
        if not self.replacement and np.count_nonzero(weights) < self.num_samples:
            raise RuntimeError('invalid multinomial distribution (with replacement=False, not enough non-negative category '
                               'to sample)')
        random = host_generator(draw_seed(self.generator))
        if self.replacement:
            ends = np.cumsum(weights)
            found = np.searchsorted(ends, random.random(self.num_samples) * ends[-1], side='right')
        else:
            found = random.choice(len(weights), self.num_samples, replace=False, p=weights / weights.sum())
        return iter(found.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[List[int]]):
    """Lists of batch_size indices of another sampler; drop_last: no shorter list at the end.

        list(BatchSampler(SequentialSampler(range(10)), batch_size=3, drop_last=False))
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        _positive_integer('batch_size', batch_size)
        _flag('drop_last', drop_last, ValueError)
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[List[int]]:
        indices, size = iter(self.sampler), self.batch_size
        while batch := list(itertools.islice(indices, size)):
            if len(batch) < size and self.drop_last:
                return
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
