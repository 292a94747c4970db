"""A process that measures one library, on request: python child.py gt|torch|numpy [address].

GT and PyTorch are measured in separate processes, so that neither is disturbed by the other's threads: an idle OpenMP
thread spins for a while after its last work. The parent (processes.py) sends one JSON object per line,
{"call": method, ...arguments}, and gets one back: {"result": ...} or {"error": text}.
"""
import gc
import json
import os
import sys
import time

import numpy

import fused  # noqa: F401: its works join those of works.py
import sweep_works  # noqa: F401: its works, too
import training  # noqa: F401: its works, too
import works


def peak_bytes():
    """Peak resident memory of this process since forget_peak()."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


def forget_peak():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def resident_bytes(pid="self"):
    """Resident memory of a process, including shared pages."""
    with open(f"/proc/{pid}/status") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/{pid}/status has no VmRSS")


class Session:
    """One method per request."""

    def __init__(self, library, *address):
        self.lib = works.LIBRARIES[library](*address)
        self.name = None
        self.work = None
        self.clients = []

    def version(self):
        return self.lib.version

    def prepare(self, work):
        """Make the inputs of a work. Returns the mean size of its result, to compare libraries."""
        if self.name != work:
            self.name, self.work = None, None
            gc.collect()
            self.name, self.work = work, works.WORKS[work](self.lib)
        result = self.work(2)
        if not isinstance(result, (float, numpy.ndarray)):
            result = self.lib.to_numpy(result)
        return float(numpy.abs(numpy.asarray(result, numpy.float64)).mean())

    def run(self, count, cpu=False):
        """Seconds that `count` repetitions of the prepared work take, or processor seconds."""
        clock = time.process_time if cpu else time.perf_counter
        start = clock()
        result = self.work(count)
        seconds = clock() - start
        del result
        return seconds

    def training_peak(self, work):
        """Bytes by which this process grows at its peak while a model is made and trained for twenty steps."""
        self.prepare("tiny_mlp")  # loads the library first
        gc.collect()
        before = resident_bytes()
        forget_peak()
        works.WORKS[work](self.lib)(20)
        return peak_bytes() - before

    # ---- only for GT: the figures of figures.py --------------------------------------------------------------

    def round_trips(self, count):
        """Nanoseconds of item() for `count` different 0-d tensors that are already computed."""
        a = self.lib.tensor(numpy.ones((8, 8), numpy.float32))
        sums = [a.sum() for _ in range(count)]
        self.lib.synchronize()
        clock = time.perf_counter_ns
        times = []
        for tensor in sums:
            start = clock()
            tensor.item()
            times.append(clock() - start)
        return times

    def dispatcher_stats(self):
        return self.lib.module.debug.dispatcher_stats(wait=True)

    def make(self, work):
        """The same as prepare, without a result: an engine that computes nothing has none."""
        self.work = works.WORKS[work](self.lib)

    def client_seconds(self, count):
        """Processor seconds of this thread, and of the embedded dispatcher, for `count` repetitions."""
        before, start = self.dispatcher_stats()["cpu_seconds"], time.thread_time()
        self.work(count)
        seconds = time.thread_time() - start
        return seconds, self.dispatcher_stats()["cpu_seconds"] - before

    def hotpath(self):
        return next(iter(self.lib.module.debug.get_worker_stats(wait=True).values()))["hotpath"]

    def client_instructions(self):
        """Instructions that the detector of hot paths has seen, or paths stood for."""
        return self.hotpath()["total_instructions"]

    def steps_until_hot(self):
        """Repetitions of the work until one of them runs as a hot path, and the seconds that compiling it took."""
        for step in range(1, 1000):
            self.work(1)
            if self.hotpath()["runs"]:
                return step, self.hotpath()["compile_seconds"]
        raise RuntimeError("no hot path was found in 1000 steps")

    def live_tensors(self, count):
        """Bytes by which this process grows for `count` live 8x8 tensors."""
        a = self.lib.tensor(numpy.ones((8, 8), numpy.float32))
        tensors = [a + a for _ in range(64)] + [None] * count
        self.lib.synchronize()
        before = resident_bytes()
        for k in range(count):
            tensors[k] = a + a
        self.lib.synchronize()
        return resident_bytes() - before

    def idle_clients(self, host, port, count):
        """Open `count` more clients, use each once, keep them."""
        from gt.client.client import Client
        for _ in range(count):
            client = Client(dispatcher_host=host, dispatcher_port=port)
            client.connect()
            (self.lib.module.ones(8, 8) + 1).sum().item()
            self.clients.append(client)


def main():
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keep the libraries' output out of the replies
    session = None
    for line in sys.stdin:
        request = json.loads(line)
        call = request.pop("call")
        try:
            if session is None:
                session = Session(*sys.argv[1:])
            reply = {"result": getattr(session, call)(**request)}
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    main()
