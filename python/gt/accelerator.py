"""torch.accelerator: the GPUs of the workers, if there are any. The dispatcher places tensors."""

from gt import _help, cuda
from gt.client.device import device as _device
from gt.cuda import current_stream, set_stream, synchronize  # noqa: F401
from gt.cuda import empty_cache, max_memory_allocated, max_memory_reserved, memory_allocated, memory_reserved  # noqa: F401
from gt.cuda import memory_stats, reset_accumulated_memory_stats, reset_peak_memory_stats  # noqa: F401


def is_available() -> bool:
    """Whether a worker has a GPU."""
    return cuda.is_available()


def device_count() -> int:
    """The number of workers with a GPU."""
    return cuda.device_count()


def current_accelerator(check_available: bool = False):
    """device('cuda') if a worker has a GPU, else None.

        device = gt.accelerator.current_accelerator() or gt.device('cpu')
    """
    return _device('cuda') if cuda.is_available() else None


def current_device_index() -> int:
    """The index of set_device_index(), 0 at first."""
    return cuda.current_device()


def set_device_index(device) -> None:
    """Set what current_device_index() returns; placement is the dispatcher's business."""
    cuda.set_device(device)


def get_memory_info(device_index=None):
    """(free, total) bytes of all workers."""
    return cuda.mem_get_info(device_index)


current_device_idx, set_device_idx = current_device_index, set_device_index
device_index = cuda.device

__dir__ = _help.publish(__name__, 'current_stream', 'device_index', 'empty_cache', 'memory_allocated', 'memory_reserved', 'memory_stats',
                        'set_stream', 'synchronize')
