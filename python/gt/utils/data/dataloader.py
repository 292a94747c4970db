"""DataLoader: batches of a dataset, in this process or from worker processes."""

import itertools
import multiprocessing
import os
import warnings
from multiprocessing.context import BaseContext
from typing import Generic, TypeVar

from gt.utils.data.collate import default_collate, default_convert
from gt.utils.data.dataset import Dataset, IterableDataset, rows_of
from gt.utils.data.processes import ProcessIterator
from gt.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler
from gt.utils.data.worker import IterableFetcher, MapFetcher

T_co = TypeVar('T_co', covariant=True)
_FIXED = ('batch_size', 'batch_sampler', 'sampler', 'drop_last', 'dataset', 'persistent_workers')


class _Nothing:
    """The sampler of a dataset without indices."""

    def __iter__(self):
        return itertools.repeat(None)


class _HereIterator:
    """One pass over the batches of a loader, fetched in this process."""

    def __init__(self, loader, rows):
        self.loader, self.rows = loader, rows
        self.indices = iter(loader._index_sampler)
        self.fetch = loader._fetcher(loader.dataset, loader._auto_collation, loader.collate_fn, loader.drop_last).fetch

    def __iter__(self):
        return self

    def __len__(self):
        return len(self.loader._index_sampler)

    def __next__(self):
        index = next(self.indices)
        if self.rows is not None:
            batch = self.rows(index)
            if batch is not None:
                return batch
        return self.fetch(index)


class _Counted:
    """Warns when an IterableDataset gives more samples than its length."""

    def __init__(self, batches, loader):
        self.batches, self.loader, self.given, self.warned = batches, loader, 0, False

    def __iter__(self):
        return self

    def __len__(self):
        return len(self.batches)

    def __next__(self):
        batch = next(self.batches)
        self.given += 1
        told = self.loader._told_length
        if told is not None and self.given > told and not self.warned:
            self.warned = True
            hint = ('For multiprocessing data-loading, this could be caused by not properly configuring the '
                    'IterableDataset replica at each worker.') if self.loader.num_workers else ''
            warnings.warn(f'Length of IterableDataset {self.loader.dataset} was reported to be {told} (when accessing '
                          f'len(dataloader)), but {self.given} samples have been fetched. {hint}', stacklevel=2)
        return batch


class DataLoader(Generic[T_co]):
    """Batches of a dataset: for batch in DataLoader(dataset, batch_size=64, shuffle=True).

    dataset: a Dataset with indices, or an IterableDataset.
    batch_size, drop_last: how many samples a batch has, and whether a shorter one at the end is left out. None: samples
    without batches.
    shuffle, sampler, batch_sampler: the order; at most one of them.
    collate_fn: makes a batch of a list of samples; by default default_collate.
    num_workers: this many processes fetch and collate; 0: this process does. prefetch_factor batches of each are fetched
    ahead; persistent_workers keeps the processes for the next pass. worker_init_fn(number) runs in each of them first.
    multiprocessing_context: how they are started ('fork', 'spawn', 'forkserver'). timeout: seconds to wait for a batch.
    in_order: whether batches come in the order of the sampler, however fast each process is.
    generator: a gt.Generator for the order and the seeds of the processes.
    pin_memory, pin_memory_device: accepted; GT uploads from shared memory.

        loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True, drop_last=True)
        for inputs, targets in loader:
            ...
    """

    _ready = False

    def __init__(self, dataset: Dataset[T_co], batch_size=1, shuffle=None, sampler=None, batch_sampler=None,
                 num_workers: int = 0, collate_fn=None, pin_memory: bool = False, drop_last: bool = False,
                 timeout: float = 0, worker_init_fn=None, multiprocessing_context=None, generator=None, *,
                 prefetch_factor=None, persistent_workers: bool = False, pin_memory_device: str = '',
                 in_order: bool = True) -> None:
        self._check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        if num_workers > 0 and prefetch_factor is None:
            prefetch_factor = 2
        self.dataset, self.num_workers, self.prefetch_factor = dataset, num_workers, prefetch_factor
        self.pin_memory, self.pin_memory_device, self.timeout = pin_memory, pin_memory_device, timeout
        self.worker_init_fn, self.in_order = worker_init_fn, in_order
        self.multiprocessing_context = multiprocessing_context
        iterable = isinstance(dataset, IterableDataset)
        if iterable:
            self._check_iterable(shuffle, sampler, batch_sampler)
        self._check_order(batch_size, bool(shuffle), sampler, batch_sampler, drop_last)
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        if sampler is None and iterable:
            sampler = _Nothing()
        elif sampler is None:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last, self.sampler, self.batch_sampler = batch_size, drop_last, sampler, batch_sampler
        self.generator, self.persistent_workers = generator, persistent_workers
        self._fetcher = IterableFetcher if iterable else MapFetcher
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self._told_length, self._iterator = None, None
        self.check_worker_number_rationality()
        self._ready = True

    @staticmethod
    def _check_workers(num_workers, timeout, prefetch_factor, persistent_workers):
        if num_workers < 0:
            raise ValueError('num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.')
        if timeout < 0:
            raise ValueError('timeout option should be non-negative')
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError('prefetch_factor option could only be specified in multiprocessing. let num_workers > 0 to '
                             'enable multiprocessing, otherwise set prefetch_factor to None.')
        if prefetch_factor is not None and prefetch_factor < 0:
            raise ValueError('prefetch_factor option should be non-negative')
        if persistent_workers and num_workers == 0:
            raise ValueError('persistent_workers option needs num_workers > 0')

    @staticmethod
    def _check_iterable(shuffle, sampler, batch_sampler):
        for name, value in (('shuffle', shuffle or None), ('sampler', sampler), ('batch_sampler', batch_sampler)):
            if value is not None:
                raise ValueError(f'DataLoader with IterableDataset: expected unspecified {name} option, but got '
                                 f'{name}={value}')

    @staticmethod
    def _check_order(batch_size, shuffle, sampler, batch_sampler, drop_last):
        if sampler is not None and shuffle:
            raise ValueError('sampler option is mutually exclusive with shuffle')
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError('batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last')
        if batch_sampler is None and batch_size is None and drop_last:
            raise ValueError('batch_size=None option disables auto-batching and is mutually exclusive with drop_last')

    def __setattr__(self, name, value):
        if self._ready and name in _FIXED:
            raise ValueError(f'{name} attribute should not be set after {type(self).__name__} is initialized')
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self):
        """How worker processes are started; None: Python's default."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context):
        if context is not None and self.num_workers == 0:
            raise ValueError('multiprocessing_context can only be used with multi-process loading (num_workers > 0), but '
                             f'got num_workers={self.num_workers}')
        if isinstance(context, str):
            methods = multiprocessing.get_all_start_methods()
            if context not in methods:
                raise ValueError(f'multiprocessing_context option should specify a valid start method in {methods!r}, but '
                                 f'got multiprocessing_context={context!r}')
            context = multiprocessing.get_context(context)
        if context is not None and not isinstance(context, BaseContext):
            raise TypeError('multiprocessing_context option should be a valid context object or a string specifying the '
                            f'start method, but got multiprocessing_context={context}')
        self._context = context

    @property
    def _auto_collation(self):
        return self.batch_sampler is not None

    @property
    def _index_sampler(self):
        return self.batch_sampler if self._auto_collation else self.sampler

    def _rows(self):
        """The function that makes batches without samples, where the default collate_fn allows it."""
        default = self._auto_collation and self.collate_fn is default_collate and self.worker_init_fn is None
        return rows_of(self.dataset) if default else None

    def __iter__(self):
        rows = self._rows()
        if self.num_workers == 0 or rows is not None:  # worker processes would only copy the rows
            batches = _HereIterator(self, rows)
        elif not self.persistent_workers:
            batches = ProcessIterator(self)
        elif self._iterator is None or not self._iterator.workers:
            batches = self._iterator = ProcessIterator(self)
        else:
            batches = self._iterator
            batches.reset()
        return _Counted(batches, self) if isinstance(self.dataset, IterableDataset) else batches

    def __len__(self) -> int:
        if not isinstance(self.dataset, IterableDataset):
            return len(self._index_sampler)
        length = self._told_length = len(self.dataset)
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)

    def check_worker_number_rationality(self):
        """Warn if there are more worker processes than cores."""
        cores = len(os.sched_getaffinity(0))
        if self.num_workers > cores:
            warnings.warn(f'This DataLoader will create {self.num_workers} worker processes in total. Our suggested max '
                          f'number of worker in current system is {cores}, which is smaller than what this DataLoader is '
                          'going to create. Please be aware that excessive worker creation might get DataLoader running '
                          'slow or even freeze, lower the worker number to avoid potential slowness/freeze if necessary.',
                          stacklevel=3)
