"""Parallel modules: the module itself, because the dispatcher spreads one program over its workers (see docs/sharding.md).

The wrappers exist so that scripts run unchanged: `.module` is the module, and the names in state dicts start with it.
"""

from gt import _help
from gt.nn.parallel.data_parallel import DataParallel, data_parallel  # noqa: F401
from gt.nn.parallel.distributed import DistributedDataParallel  # noqa: F401
from gt.nn.parallel.scatter_gather import gather, parallel_apply, replicate, scatter  # noqa: F401

DistributedDataParallelCPU = DistributedDataParallel  # its old name

__dir__ = _help.publish(__name__)
