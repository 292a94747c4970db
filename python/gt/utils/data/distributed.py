"""DistributedSampler: the part of a dataset that one of several processes sees."""

import math
from typing import Iterator, Optional

from gt.utils.data.sampler import Sampler, host_generator


class DistributedSampler(Sampler):
    """Every num_replicas-th index, beginning at `rank`; all ranks together see the whole dataset.

    shuffle: in an order that depends on seed and set_epoch(), the same on every rank. drop_last: leave out the samples that
    do not divide evenly; otherwise some come twice. num_replicas and rank must be given: GT has no process groups.

        sampler = DistributedSampler(dataset, num_replicas=4, rank=1)
        loader = DataLoader(dataset, batch_size=32, sampler=sampler)
    """

    def __init__(self, dataset, num_replicas: Optional[int] = None, rank: Optional[int] = None, shuffle: bool = True,
                 seed: int = 0, drop_last: bool = False) -> None:
        if num_replicas is None or rank is None:
            raise RuntimeError('DistributedSampler needs num_replicas and rank: GT has no process groups to ask')
        if rank >= num_replicas or rank < 0:
            raise ValueError(f'Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]')
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.epoch, self.shuffle, self.seed, self.drop_last = 0, shuffle, seed, drop_last
        count = len(dataset)
        self.num_samples = count // num_replicas if drop_last else math.ceil(count / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        if self.shuffle:
            indices = host_generator(self.seed + self.epoch).permutation(count).tolist()
        else:
            indices = list(range(count))
        missing = self.total_size - len(indices)
        if missing > 0 and indices:
            indices += (indices * math.ceil(missing / len(indices)))[:missing]
        return iter(indices[self.rank:self.total_size:self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Choose another order: call it before each epoch, with the same number on every rank."""
        self.epoch = epoch
