"""torch.multiprocessing: the standard library's module. Tensors travel by pickling their values."""

import multiprocessing as _standard
from multiprocessing import *  # noqa: F401, F403

from gt import _help

__all__ = [*_standard.__all__, 'get_all_sharing_strategies', 'get_sharing_strategy', 'set_sharing_strategy', 'spawn']
_strategy = ['file_system']


def get_all_sharing_strategies():
    """The accepted names."""
    return {'file_descriptor', 'file_system'}


def get_sharing_strategy() -> str:
    """The name of set_sharing_strategy()."""
    return _strategy[0]


def set_sharing_strategy(new_strategy: str) -> None:
    """Recorded: tensors are pickled."""
    assert new_strategy in get_all_sharing_strategies()
    _strategy[0] = new_strategy


def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method='spawn'):
    """Start fn(rank, *args) in nprocs processes and wait for them, unless join is False."""
    context = _standard.get_context(start_method)
    processes = [context.Process(target=fn, args=(rank, *args), daemon=daemon) for rank in range(nprocs)]
    for process in processes:
        process.start()
    if not join:
        return processes
    for process in processes:
        process.join()
    failed = [rank for rank, process in enumerate(processes) if process.exitcode]
    if failed:
        raise RuntimeError(f'process {failed[0]} terminated with exit code {processes[failed[0]].exitcode}')
    return None

__dir__ = _help.publish(__name__, *__all__)
