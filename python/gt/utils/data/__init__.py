"""Datasets, samplers and DataLoader, as in torch.utils.data.

    from gt.utils.data import DataLoader, TensorDataset
    loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
    for inputs, targets in loader:
        ...

dataset.py has the datasets, sampler.py and distributed.py choose indices, collate.py makes a batch of samples, and
dataloader.py joins them. With num_workers, processes.py starts processes that run worker.py, and transport.py brings their
batches back through shared memory.
"""

from gt import _help, _paths
from gt.utils.data.collate import default_collate, default_convert
from gt.utils.data.dataloader import DataLoader
from gt.utils.data.dataset import (
    ChainDataset, ConcatDataset, Dataset, IterableDataset, StackDataset, Subset, TensorDataset, random_split)
from gt.utils.data.distributed import DistributedSampler
from gt.utils.data.sampler import (
    BatchSampler, RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler)
from gt.utils.data.worker import WorkerInfo, get_worker_info

__all__ = [
    'BatchSampler', 'ChainDataset', 'ConcatDataset', 'DataLoader', 'Dataset', 'DistributedSampler', 'IterableDataset',
    'RandomSampler', 'Sampler', 'SequentialSampler', 'StackDataset', 'Subset', 'SubsetRandomSampler', 'TensorDataset',
    'WeightedRandomSampler', 'WorkerInfo', 'default_collate', 'default_convert', 'get_worker_info', 'random_split']

_utils = _paths.path(f'{__name__}._utils', collate=_paths.path(
    f'{__name__}._utils.collate', default_collate=default_collate, default_convert=default_convert))

__dir__ = _help.publish(__name__)
