"""Data between two workers, processes of this host: `make bench-cluster`.

A tensor of 64 MiB goes from one worker to the other, over and over, by each exchange (GT_EXCHANGE), beside `ucx_perftest`'s
bandwidth for such messages with the same transports, and beside memcpy. A small tensor goes there and back, each step waiting for
the one before. Rounds alternate, and the median counts. Without libucx or ucx_perftest (ucx-utils), their rows are left out.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time

import numpy as np

from processes import Failure, Process

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "build" / "gt"
LARGE = 64 << 20
# What the exchange uses on one host (src/worker/peers/ucx/lane_ucx.c).
UCX_ON_HOST = {"UCX_TLS": "sysv,cma,self", "UCX_SYSV_ERROR_HANDLING": "y", "UCX_CMA_MEMORY_INVALIDATE": "y",
               "UCX_RNDV_SCHEME": "get_zcopy"}

CLIENT = """
    import json, sys, time
    import gt
    gt.connect(sys.argv[1])
    while len(gt.debug.get_worker_stats()) < 2:
        time.sleep(0.01)
    for number in (0, 1):
        gt.register_config(f'on{number}', gt.SignalConfig(shard=gt.ShardConfig(workers=[number], replicated=True)))
    def on(number, tensors):
        return [gt.signal.tensor(t, name=f'on{number}') for t in tensors]
    def there(count):            # new tensors: what has a copy on the other worker would not go again
        with gt.signal.context('on0'):
            tensors = [gt.full((%d,), float(k)) for k in range(count)]
        assert sum(t[0].item() for t in tensors) == sum(range(count))
        start = time.perf_counter()
        firsts = [t[:1] for t in on(1, tensors)]
        assert [t.item() for t in firsts] == list(range(count))
        return time.perf_counter() - start
    def back(count):
        x = gt.signal.tensor(gt.ones(256), name='on0')
        gt.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            x = gt.signal.tensor(gt.signal.tensor(x, name='on1') + 1, name='on0') + 1
        assert x.numpy()[0] == 1 + 2 * count
        return time.perf_counter() - start
    for line in sys.stdin:
        work, count = line.split()
        print((there if work == 'there' else back)(int(count)) / int(count), flush=True)
""" % (LARGE // 4)


class Pair(Process):
    """A server, two workers with one exchange, and a client that measures."""

    def __init__(self, exchange):
        self.stack = contextlib.ExitStack()
        folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        port_file = pathlib.Path(folder) / "port"
        environment = {**os.environ, "GT_EXCHANGE": exchange, "OPENBLAS_NUM_THREADS": "1"}
        self.launch([PROGRAM, "server", "-p", 0, "--port-file", port_file], env=environment)
        deadline = time.monotonic() + 20
        while not port_file.exists() or not port_file.read_text().strip():
            if time.monotonic() > deadline:
                raise Failure("the server does not start")
            time.sleep(0.01)
        port = port_file.read_text().strip()
        for _ in range(2):
            self.launch([PROGRAM, "worker", "-p", port, "--threads", 1], env=environment)
        self.start([sys.executable, "-c", textwrap.dedent(CLIENT), f"localhost:{port}"], stdin=subprocess.PIPE,
                   stdout=subprocess.PIPE, text=True, env={**environment, "PYTHONPATH": str(ROOT / "build" / "python")})

    def launch(self, command, **options):
        process = Process()
        process.start(command, **options)
        self.stack.enter_context(process)

    def __call__(self, work, count):
        self.process.stdin.write(f"{work} {count}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise Failure("the client ended")
        return float(line)

    def __exit__(self, *more):
        super().__exit__(*more)
        self.stack.close()


def perftest(count):
    """ucx_perftest's bytes a second for messages of LARGE bytes; None: it is not there, or says nothing."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, **UCX_ON_HOST, "UCX_WARN_UNUSED_ENV_VARS": "n"}
    with Process() as server:
        server.start(["ucx_perftest", "-e", "-p", port], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(50):
            done = subprocess.run(["ucx_perftest", "127.0.0.1", "-e", "-p", str(port), "-t", "ucp_am_bw", "-s", str(LARGE),
                                   "-n", str(count), "-w", "3"], env=environment, capture_output=True, text=True, timeout=120)
            if done.returncode == 0:
                break
            time.sleep(0.1)
    final = re.search(r"^Final:.*$", done.stdout, re.MULTILINE)
    return float(final[0].split()[-3]) * (1 << 20) if final else None


def memcpy():
    source, target = np.ones(LARGE, np.uint8), np.empty(LARGE, np.uint8)
    np.copyto(target, source)
    start = time.perf_counter()
    np.copyto(target, source)
    return LARGE / (time.perf_counter() - start)


def measure(rounds, count):
    exchanges = ["mesh"] + (["ucx"] if (PROGRAM.parent / "gt-exchange-ucx.so").exists() else [])
    seen = {name: [] for name in ("memcpy", "ucx_perftest", *exchanges)}
    trips = {name: [] for name in exchanges}
    with contextlib.ExitStack() as stack:
        pairs = {name: stack.enter_context(Pair(name)) for name in exchanges}
        for pair in pairs.values():
            pair("there", 3)
            pair("back", 20)
        for _ in range(rounds):
            seen["memcpy"].append(memcpy())
            if shutil.which("ucx_perftest"):
                rate = perftest(count)
                seen["ucx_perftest"] += [rate] if rate else []
            for name, pair in pairs.items():
                seen[name].append(LARGE / pair("there", count))
                trips[name].append(pair("back", 200))
    return ({name: statistics.median(rates) for name, rates in seen.items() if rates},
            {name: statistics.median(times) for name, times in trips.items()})


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--count", type=int, default=20, help="messages of 64 MiB in a round")
    arguments.add_argument("--json", help="write the figures to this file, too")
    chosen = arguments.parse_args()
    try:
        rates, trips = measure(chosen.rounds, chosen.count)
    except Failure as failure:
        sys.exit(f"cluster.py: {failure}")
    limit = rates.get("ucx_perftest")
    print(f"{'64 MiB, worker to worker':26s} {'GB/s':>6s}  of ucx_perftest")
    for name, rate in rates.items():
        print(f"{name:26s} {rate / 1e9:6.2f}  {f'{rate / limit:.2f}' if limit else '-'}")
    print(f"\n{'1 KiB, there and back':26s} {'us':>6s}")
    for name, seconds in trips.items():
        print(f"{name:26s} {seconds * 1e6:6.0f}")
    if chosen.json:
        pathlib.Path(chosen.json).write_text(json.dumps({"bytes_per_second": rates, "round_trip_seconds": trips}, indent=1))


if __name__ == "__main__":
    main()
