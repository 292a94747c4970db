"""The parent's side of worker processes: starts them, gives them tasks, and takes their batches in order.

Task k goes to the next worker in turn, and batches come out in the order of tasks, so the result does not depend on how
fast a worker is. A worker closes with its connection: when the loader's iterator is freed, when the parent ends, however.
"""

import collections
import mmap
import multiprocessing
import os
import pickle
import signal
import time
from multiprocessing import connection as connections
from multiprocessing import reduction

from gt.utils.data import tensors, worker
from gt.utils.data.sampler import draw_seed
from gt.utils.data.transport import unpack

_JOIN_S = 5.0


class _Worker:
    """One process, the connection to it, and its segments."""

    def __init__(self, context, job, inherited):
        self.connection, other = context.Pipe()
        forked = context.get_start_method() == 'fork'
        if not forked:
            job = bytes(reduction.ForkingPickler.dumps(job))  # read when the process is prepared
        inherited = [*inherited, self.connection] if forked else []
        self.process = context.Process(target=worker.main, args=(other, inherited, job), daemon=True)
        self.process.start()
        other.close()
        self.segments, self.free, self.slots, self.active = {}, [], 0, True

    def send(self, kind, task, index):
        """Send a task with a free segment."""
        if not self.free:
            self.free.append(self.slots)
            self.slots += 1
        slot = self.free.pop()
        self.connection.send_bytes(pickle.dumps((kind, task, slot, index), pickle.HIGHEST_PROTOCOL))

    def receive(self):
        """(kind, task, slot, content) of the next message."""
        kind, task, slot, length, content = pickle.loads(self.connection.recv_bytes())
        if length:
            descriptor = reduction.recv_handle(self.connection)
            try:
                self.segments[slot] = mmap.mmap(descriptor, length)
            finally:
                os.close(descriptor)
        return kind, task, slot, content

    def unpack(self, slot, content):
        """The object of a message; its segment is free afterwards."""
        try:
            return unpack(content, self.segments.get(slot, b''))
        finally:
            self.free.append(slot)

    def stop(self):
        """Tell the process to end. Closing the connection is not enough: later processes may have inherited it."""
        try:
            os.set_blocking(self.connection.fileno(), False)
            self.connection.send_bytes(pickle.dumps(None))
        except OSError:  # it has ended, or does not read
            pass
        self.connection.close()

    def obituary(self):
        """Why the process ended."""
        self.process.join(_JOIN_S)
        code = self.process.exitcode
        if code is not None and code < 0:
            return f'DataLoader worker (pid {self.process.pid}) is killed by signal: {signal.strsignal(-code)}.'
        return f'DataLoader worker (pid(s) {self.process.pid}) exited unexpectedly with exit code {code}.'


def _end(workers, patience_s):
    """End the processes: by a message, after the time that a fetch may take by signals."""
    for each in workers:
        each.stop()
    deadline = time.monotonic() + patience_s
    for end in (lambda process: None, multiprocessing.Process.terminate, multiprocessing.Process.kill):
        for each in workers:
            if each.process.exitcode is None:
                end(each.process)
                each.process.join(max(0.2, deadline - time.monotonic()))


class ProcessIterator:
    """One pass over the batches of a loader, fetched by processes."""

    def __init__(self, loader):
        if loader.prefetch_factor < 1:
            raise AssertionError('prefetch_factor must be positive')
        # Not the loader itself: it holds this iterator if the workers persist, and the last reference ends them.
        self.index_sampler, self.timeout, self.in_order = loader._index_sampler, loader.timeout, loader.in_order
        self.prefetch_factor, self.persistent = loader.prefetch_factor, loader.persistent_workers
        self.workers, self.generation, self.pid = [], 0, os.getpid()
        context = loader.multiprocessing_context or multiprocessing.get_context()
        job = worker.Job(loader.dataset, loader._fetcher, loader._auto_collation, loader.collate_fn, loader.drop_last,
                         loader.worker_init_fn, 0, loader.num_workers, draw_seed(loader.generator))
        if context.get_start_method() == 'fork':
            job.host_tensors = tensors.fetched(tensors.reachable(job.dataset, job.collate_fn, job.worker_init_fn))
        try:
            for number in range(loader.num_workers):
                job.number = number
                self.workers.append(_Worker(context, job, [each.connection for each in self.workers]))
        except BaseException:
            self.close()
            raise
        self._begin()

    def _begin(self):
        """Start a pass: the first tasks of every worker."""
        self.indices = iter(self.index_sampler)
        self.sent, self.given, self.turn = 0, 0, 0
        self.owner, self.arrived = {}, collections.OrderedDict()
        for each in self.workers:
            each.active = True
        for _ in range(self.prefetch_factor * len(self.workers)):
            self._send()

    def reset(self):
        """Start another pass with the same processes, after what remains of the last one."""
        self.generation += 1
        for task in list(self.arrived):
            each, slot, _, _ = self.arrived.pop(task)
            each.free.append(slot)
        for each in self.workers:
            each.send('reset', -self.generation, None)
        for each in self.workers:
            while True:
                kind, task, slot, _ = self._message(each)
                if kind == 'ready' and task == -self.generation:
                    each.free = list(range(each.slots))
                    break
                each.free.append(slot)
        self._begin()

    def _send(self):
        """Give the next worker in turn the next task."""
        for _ in self.workers:
            each = self.workers[self.turn]
            self.turn = (self.turn + 1) % len(self.workers)
            if each.active and (self.in_order or list(self.owner.values()).count(each) < self.prefetch_factor):
                break
        else:
            return
        try:
            index = next(self.indices)
        except StopIteration:
            return
        self.owner[self.sent] = each
        try:
            each.send('task', self.sent, index)
        except (BrokenPipeError, ConnectionResetError):
            self._died(each)
        self.sent += 1

    def _died(self, each):
        text = each.obituary()
        self.close(0)
        raise RuntimeError(text)

    def _message(self, each):
        try:
            return each.receive()
        except (EOFError, ConnectionResetError):
            self._died(each)

    def _wait(self):
        """Take the messages that have arrived, at least one."""
        timeout = self.timeout or None
        by_connection = {each.connection: each for each in self.workers}
        ready = connections.wait(list(by_connection), timeout)
        if not ready:
            self.close(0)
            raise RuntimeError(f'DataLoader timed out after {timeout} seconds')
        for connection in ready:
            each = by_connection[connection]
            kind, task, slot, content = self._message(each)
            if kind == 'end':
                each.active = False
                each.free.append(slot)
                del self.owner[task]
                self._send()
            else:
                self.arrived[task] = each, slot, kind, content

    def _next_arrived(self):
        """The next task to give out; None: nothing is left."""
        if not self.in_order and self.arrived:
            return next(iter(self.arrived))
        while self.given < self.sent and self.given not in self.owner:  # ended workers
            self.given += 1
        if not self.owner:
            return None
        return self.given if self.given in self.arrived else -1

    def __next__(self):
        if not self.workers:
            raise StopIteration
        while (task := self._next_arrived()) == -1:
            self._wait()
        if task is None:
            if not self.persistent:
                self.close()
            raise StopIteration
        each, slot, kind, content = self.arrived.pop(task)
        del self.owner[task]
        value = each.unpack(slot, content)
        self._send()
        if kind == 'failure':
            value.reraise()
        return value

    def __iter__(self):
        return self

    def __len__(self):
        return len(self.index_sampler)

    def close(self, patience_s=_JOIN_S):
        """End the processes."""
        workers, self.workers = self.workers, []
        if self.pid == os.getpid():
            _end(workers, patience_s)

    def __del__(self):
        if getattr(self, 'workers', None):
            self.close()
