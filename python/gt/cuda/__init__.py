"""What scripts ask of torch.cuda. A program has no GPU of its own: workers have them.

Devices are the workers whose engine is `cuda`. Tensors are placed by the dispatcher, so a device that is set or given is
recorded and has no other effect. Streams are executed in order; events measure when the work before them is done.
"""

import contextlib
import json
import time
import types

from gt import _gt, _help
from gt._gt import synchronize as _synchronize
from gt.client.device import device as _device, gpu_workers as _gpu_workers
from gt.cuda import amp  # noqa: F401

_state = {'device': 0, 'peak': 0, 'peak_reserved': 0}


def is_available() -> bool:
    """Whether a worker has a GPU."""
    return device_count() > 0


def is_initialized() -> bool:
    """Whether there is a worker with a GPU, and a server is connected."""
    return _gt.current() is not None and is_available()


def init() -> None:
    """Does nothing."""


def device_count() -> int:
    """The number of workers with a GPU."""
    return len(_gpu_workers())


def _index(device):
    if device is None:
        return _state['device']
    if isinstance(device, int):
        return device
    index = _device(device).index
    return _state['device'] if index is None else index


def current_device() -> int:
    """The index of set_device(), 0 at first."""
    return _state['device']


def set_device(device) -> None:
    """Set what current_device() returns; placement is the dispatcher's business."""
    index = _index(device)
    if index >= 0:
        _state['device'] = index


class device(contextlib.ContextDecorator):
    """A context in which current_device() is another index."""

    def __init__(self, device):
        self.idx = _index(device)
        self.prev_idx = -1

    def __enter__(self):
        self.prev_idx, _state['device'] = _state['device'], self.idx if self.idx >= 0 else _state['device']
        return self

    def __exit__(self, *exception):
        _state['device'] = self.prev_idx


class device_of(device):
    """device() of a tensor's device."""

    def __init__(self, obj):
        super().__init__(None)


def _worker(device):
    workers, index = _gpu_workers(True), _index(device)
    if not 0 <= index < len(workers):
        raise AssertionError(f'Invalid device id {index}: the server has {len(workers)} workers with a GPU')
    return workers[index]


def get_device_name(device=None) -> str:
    """The name of a worker with a GPU."""
    return _worker(device)['name']


def get_device_capability(device=None):
    """(9, 0): GT does not ask the GPU; bfloat16 and tensor cores are there."""
    _worker(device)
    return 9, 0


def get_device_properties(device=None):
    """name, total_memory, major, minor, multi_processor_count of a worker with a GPU."""
    worker = _worker(device)
    return types.SimpleNamespace(name=worker['name'], total_memory=worker['memory']['limit'], major=9, minor=0,
                                 multi_processor_count=1)


def get_arch_list():
    """An empty list."""
    return []


def can_device_access_peer(device, peer_device) -> bool:
    """Whether two devices exist: workers exchange tensors directly."""
    count = device_count()
    return _index(device) < count and _index(peer_device) < count


def is_bf16_supported(including_emulation=True) -> bool:
    """True: all engines compute in bfloat16."""
    return True


def synchronize(device=None) -> None:
    """Wait until all instructions so far are executed."""
    _synchronize()


def empty_cache() -> None:
    """Does nothing: workers keep the memory of freed tensors for new ones."""


def ipc_collect() -> None:
    """Does nothing."""


# ---- memory ------------------------------------------------------------------------------------------------------


def _memory():
    """Bytes of tensors and bytes kept for reuse, over all workers; waits for their report."""
    if _gt.current() is None:
        return 0, 0, 0
    reports = [worker['memory'] for worker in json.loads(_gt.stats(True))['workers']]
    used, pooled = sum(r['used'] for r in reports), sum(r['pooled'] for r in reports)
    _state['peak'] = max(_state['peak'], used)
    _state['peak_reserved'] = max(_state['peak_reserved'], used + pooled)
    return used, pooled, sum(r['limit'] for r in reports)


def memory_allocated(device=None) -> int:
    """Bytes of the tensors on all workers; waits for them."""
    return _memory()[0]


def memory_reserved(device=None) -> int:
    """Bytes of tensors and of memory kept for reuse, on all workers."""
    return sum(_memory()[:2])


def max_memory_allocated(device=None) -> int:
    """The largest memory_allocated() that was seen by a call of these functions since reset_peak_memory_stats()."""
    _memory()
    return _state['peak']


def max_memory_reserved(device=None) -> int:
    """The largest memory_reserved() that was seen."""
    _memory()
    return _state['peak_reserved']


memory_cached, max_memory_cached = memory_reserved, max_memory_reserved


def reset_peak_memory_stats(device=None) -> None:
    """Forget the largest values."""
    _state['peak'] = _state['peak_reserved'] = 0
    _memory()


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def reset_accumulated_memory_stats(device=None) -> None:
    """Does nothing."""


def mem_get_info(device=None):
    """(free, total) bytes of all workers."""
    used, _, limit = _memory()
    return limit - used, limit


def memory_stats(device=None):
    """allocated_bytes.all.current and .peak, reserved_bytes.all.current and .peak."""
    used, pooled, _ = _memory()
    return {'allocated_bytes.all.current': used, 'allocated_bytes.all.peak': _state['peak'],
            'reserved_bytes.all.current': used + pooled, 'reserved_bytes.all.peak': _state['peak_reserved']}


def memory_summary(device=None, abbreviated=False) -> str:
    """The memory of the workers as text."""
    used, pooled, limit = _memory()
    return f'{used} bytes in tensors, {pooled} bytes kept for reuse, limit {limit} bytes'


def set_per_process_memory_fraction(fraction, device=None) -> None:
    """Refused: GT_WORKER_MEMORY sets the limit of a worker."""
    raise NotImplementedError('set_per_process_memory_fraction: set GT_WORKER_MEMORY for the worker instead')


# ---- random numbers -----------------------------------------------------------------------------------------------


def manual_seed(seed) -> None:
    """The seed of all random numbers: there is one generator for all devices."""
    _gt.manual_seed(seed)


manual_seed_all = manual_seed


def seed() -> None:
    """Choose a random seed."""
    import gt
    gt.seed()


seed_all = seed


def initial_seed() -> int:
    """The current seed."""
    import gt
    return gt.initial_seed()


def get_rng_state(device='cuda'):
    """gt.get_rng_state()."""
    import gt
    return gt.get_rng_state()


def set_rng_state(new_state, device='cuda') -> None:
    """gt.set_rng_state(new_state)."""
    import gt
    gt.set_rng_state(new_state)


def get_rng_state_all():
    """A list with the state of the one generator."""
    return [get_rng_state()]


def set_rng_state_all(new_states) -> None:
    """Restore the first of the states."""
    for state in new_states[:1]:
        set_rng_state(state)


# ---- streams and events -------------------------------------------------------------------------------------------


class Stream:
    """All instructions of a client are executed in order, so every stream is the same one. synchronize() waits."""

    def __init__(self, device=None, priority=0, **options):
        self.device, self.priority = _device('cuda', _index(device)), priority

    def synchronize(self):
        """Wait until all instructions so far are executed."""
        _synchronize()

    def query(self):
        """Wait, and return True."""
        _synchronize()
        return True

    def wait_stream(self, stream):
        """Does nothing: the order is kept."""

    def wait_event(self, event):
        """Does nothing: the order is kept."""

    def record_event(self, event=None):
        """Record an event."""
        event = event or Event()
        event.record(self)
        return event

    def __eq__(self, other):
        return isinstance(other, Stream)

    def __hash__(self):
        return 0


class ExternalStream(Stream):
    """The same."""


class Event:
    """A point in the stream. With enable_timing, record() waits for the work before it, so that elapsed_time() is real."""

    def __init__(self, enable_timing=False, blocking=False, interprocess=False, **options):
        self._timing, self._at = enable_timing, None

    def record(self, stream=None):
        """Note the time at which all work so far is done."""
        if self._timing:
            _synchronize()
        self._at = time.perf_counter()

    def synchronize(self):
        """Wait until all instructions so far are executed."""
        _synchronize()

    def query(self):
        """Wait, and return True."""
        _synchronize()
        return True

    def wait(self, stream=None):
        """Does nothing: the order is kept."""

    def elapsed_time(self, end_event):
        """Milliseconds between two recorded events."""
        if not (self._timing and end_event._timing):
            raise ValueError('Both events must be created with argument enable_timing=True.')
        if self._at is None or end_event._at is None:
            raise ValueError('Both events must be recorded before calculating elapsed time.')
        return (end_event._at - self._at) * 1e3


def current_stream(device=None) -> Stream:
    """The one stream."""
    return Stream(device)


default_stream = current_stream


def set_stream(stream) -> None:
    """Does nothing."""


@contextlib.contextmanager
def stream(stream):
    """A context; the order of instructions is the program's."""
    yield


StreamContext = stream


class nvtx:
    """Ranges: signals of GT's timeline (gt.signal.context) do this."""

    @staticmethod
    def range_push(msg):
        """Put a mark with this name into the instruction log."""
        _gt.signal_mark(str(msg))
        return 0

    @staticmethod
    def range_pop():
        """Does nothing."""
        return 0

    @staticmethod
    @contextlib.contextmanager
    def range(msg, *arguments):
        """range_push() and range_pop()."""
        nvtx.range_push(msg)
        yield

__dir__ = _help.publish(__name__)
