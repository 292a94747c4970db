"""A worker process of DataLoader: fetches samples, makes batches, and sends them to the parent.

The process computes on the host. If the dataset uses GT operations, its first one starts a server inside the process.
"""

import os
import pickle
import queue
import random
import signal
import threading
import traceback
from dataclasses import dataclass
from multiprocessing import reduction
from typing import Any, Optional

import numpy as np

from gt import _gt
from gt.utils.data import tensors
from gt.utils.data.collate import on_host
from gt.utils.data.transport import Segments, pack

_GRACE_S = 5.0  # how long a fetch may go on after the parent went away

_info = None


@dataclass
class WorkerInfo:
    """What get_worker_info() tells: the worker's number, how many there are, its seed, its copy of the dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


def get_worker_info() -> Optional[WorkerInfo]:
    """In a worker process of DataLoader: its WorkerInfo. Elsewhere: None."""
    return _info


# ---- fetching -------------------------------------------------------------------------------------------------


class MapFetcher:
    """Batches of a dataset with indices."""

    def __init__(self, dataset, auto_collation, collate_fn, drop_last):
        self.dataset, self.auto_collation, self.collate_fn = dataset, auto_collation, collate_fn
        several = getattr(dataset, '__getitems__', None)
        self.several = several if callable(several) else None

    def fetch(self, index):
        """The batch of these indices, or the sample of this index."""
        if not self.auto_collation:
            data = self.dataset[index]
        elif self.several:
            data = self.several(index)
        else:
            dataset = self.dataset
            data = [dataset[k] for k in index]
        return self.collate_fn(data)


class IterableFetcher:
    """Batches of a dataset without indices; StopIteration at its end."""

    def __init__(self, dataset, auto_collation, collate_fn, drop_last):
        self.samples, self.auto_collation, self.collate_fn = iter(dataset), auto_collation, collate_fn
        self.drop_last, self.ended = drop_last, False

    def fetch(self, index):
        """The next batch, of as many samples as there are indices, or the next sample."""
        if not self.auto_collation:
            return self.collate_fn(next(self.samples))
        if self.ended:
            raise StopIteration
        data = []
        for _ in index:
            try:
                data.append(next(self.samples))
            except StopIteration:
                self.ended = True
                break
        if not data or (self.drop_last and len(data) < len(index)):
            raise StopIteration
        return self.collate_fn(data)


# ---- the process ----------------------------------------------------------------------------------------------


@dataclass
class Job:
    """What a worker needs to know of its loader."""

    dataset: Any
    fetcher: type
    auto_collation: bool
    collate_fn: Any
    drop_last: bool
    worker_init_fn: Any
    number: int
    num_workers: int
    base_seed: int
    host_tensors: Any = ()  # of a forked worker: what tensors.fetched() gave in the parent

    def start(self):
        """Prepare this process; then open() gives the fetcher."""
        global _info
        seed = self.base_seed + self.number
        random.seed(seed)
        np.random.seed(seed & 0xFFFFFFFF)
        _gt._seed_later(seed & ((1 << 64) - 1))
        tensors.adopt(self.host_tensors)
        _info = WorkerInfo(self.number, self.num_workers, seed, self.dataset)
        if self.worker_init_fn is not None:
            self.worker_init_fn(self.number)

    def open(self):
        """A fetcher that begins at the start of the dataset."""
        return self.fetcher(self.dataset, self.auto_collation, on_host(self.collate_fn), self.drop_last)


class Failure:
    """An exception of a worker: its type, and its text with the worker's traceback."""

    def __init__(self, error, where):
        self.kind, self.name, self.where = type(error), type(error).__name__, where
        self.text = ''.join(traceback.format_exception(error))

    def __reduce__(self):
        try:  # a type that the parent can find
            kind = pickle.loads(pickle.dumps(self.kind))
        except Exception:
            kind = RuntimeError
        return _failure, (kind, self.name, self.text, self.where)

    def reraise(self):
        """Raise it in the parent."""
        text = f'Caught {self.name} {self.where}.\nOriginal {self.text}'
        if self.kind is KeyError:
            text = _KeyText(text)
        try:
            error = self.kind(text)
        except Exception:  # a type that needs other arguments
            error = RuntimeError(text)
        try:
            raise error
        finally:
            del error  # its traceback holds this frame, and that the loader's iterator


class _KeyText(str):
    """KeyError shows its argument by repr()."""

    def __repr__(self):
        return str(self)


def _failure(kind, name, text, where):
    failure = Failure.__new__(Failure)
    failure.kind, failure.name, failure.text, failure.where = kind, name, text, where
    return failure


def _prepare_process():
    """Ctrl-C is the parent's business. A server inside this process is on the CPU, and writes no logs of its parent."""
    signal.signal(signal.SIGINT, lambda number, frame: None)
    os.environ.update(GT_BACKEND='cpu', GT_NUM_THREADS='1')
    for name in ('GT_INSTRUCTION_LOG', 'GT_TAPE', 'GT_CONFIG'):
        os.environ.pop(name, None)
    _gt.use(None)
    _gt.gpu_workers(1)


def _receive(connection, tasks):
    """Put messages into the queue until the parent closes the connection or ends."""
    parent = os.getppid()  # or the server of 'forkserver', which ends with the parent
    try:
        while True:
            while not connection.poll(_GRACE_S):
                if os.getppid() != parent:
                    raise EOFError
            message = pickle.loads(connection.recv_bytes())
            if message is None:
                raise EOFError
            tasks.put(message)
    except (EOFError, OSError):
        tasks.put(None)
        timer = threading.Timer(_GRACE_S, os._exit, (1,))
        timer.daemon = True
        timer.start()


class _Sender:
    """The worker's half of the connection."""

    def __init__(self, connection):
        self.connection, self.segments = connection, Segments()

    def send(self, kind, task, slot, value):
        """Send a message: 'batch', 'failure', 'end' or 'ready'."""
        content, parts, size = pack(value)
        descriptor, length = self.segments.write(slot, parts, size)
        self.connection.send_bytes(pickle.dumps((kind, task, slot, length, content)))
        if descriptor is not None:
            reduction.send_handle(self.connection, descriptor, os.getppid())
            os.close(descriptor)


def main(connection, inherited, job):
    """The process: answer tasks in order. `inherited` are the connections that a forked child shares with its parent."""
    for other in inherited:
        other.close()
    _prepare_process()
    tasks = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(connection, tasks), daemon=True).start()
    sender, fetcher, broken = _Sender(connection), None, None
    number = '?'
    try:
        job = pickle.loads(job) if isinstance(job, bytes) else job
        number = job.number
        job.start()
    except Exception as error:
        broken = Failure(error, f'in DataLoader worker process {number}')
    while (message := tasks.get()) is not None:
        kind, task, slot, index = message
        try:
            if kind == 'reset':
                fetcher = None
                sender.send('ready', task, 0, None)
                continue
            if broken is None and fetcher is None:
                fetcher = job.open()
            value, kind = (broken, 'failure') if broken else (fetcher.fetch(index), 'batch')
            sender.send(kind, task, slot, value)
        except StopIteration as error:
            if job.fetcher is IterableFetcher:
                sender.send('end', task, slot, None)
            else:
                sender.send('failure', task, slot, Failure(error, f'in DataLoader worker process {number}'))
        except (BrokenPipeError, ConnectionResetError):  # the parent is not interested any more
            break
        except Exception as error:
            sender.send('failure', task, slot, Failure(error, f'in DataLoader worker process {number}'))
