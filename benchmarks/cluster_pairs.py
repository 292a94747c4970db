"""Data between workers that are processes of this host: the rows of cluster.py for bandwidth and for data-parallel training."""
import contextlib
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
HAS_UCX = (PROGRAM.parent / "gt-exchange-ucx.so").exists()
# What the exchange uses on one host, and between hosts (src/worker/peers/ucx/lane_ucx.c).
UCX_ON_HOST = {"UCX_TLS": "sysv,cma,self", "UCX_SYSV_ERROR_HANDLING": "y", "UCX_CMA_MEMORY_INVALIDATE": "y", "UCX_RNDV_SCHEME": "get_zcopy"}
UCX_BY_TCP = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}

CLIENT = """
    import sys, time
    import gt
    from gt import nn
    gt.connect(sys.argv[1])
    workers, elements = int(sys.argv[2]), int(sys.argv[3])
    while len(gt.debug.get_worker_stats()) < workers:
        time.sleep(0.01)
    for number in range(workers):
        gt.register_config(f'on{number}', gt.SignalConfig(shard=gt.ShardConfig(workers=[number], replicated=True)))
    gt.register_config('rows', gt.SignalConfig(shard=gt.ShardConfig(axis=0)))
    gt.register_config('all', gt.SignalConfig(shard=gt.ShardConfig(replicated=True)))
    def there(count):            # new tensors: what has a copy on the other worker would not go again
        with gt.signal.context('on0'):
            tensors = [gt.full((elements,), float(k)) for k in range(count)]
        assert sum(t[0].item() for t in tensors) == sum(range(count))
        start = time.perf_counter()
        with gt.signal.context('on1'):                          # a view: nothing but the transfer
            firsts = [t[:1] for t in tensors]
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
    def reduce(count):
        with gt.signal.context('rows'):
            rows = gt.ones(workers, elements)
        sums = [(rows * k).sum(dim=0) for k in range(count)]
        assert workers == 1 or 'partial' in sums[0].placement, sums[0].placement
        gt.synchronize()
        start = time.perf_counter()
        firsts = [gt.signal.tensor(t, name='all')[:1] for t in sums]
        assert [t.item() for t in firsts] == [k * workers for k in range(count)]
        return time.perf_counter() - start
    step = None
    def train(count):
        global step
        if step is None:
            gt.manual_seed(0)
            model = nn.Sequential(*[part for _ in range(4) for part in (nn.Linear(1024, 1024), nn.ReLU())])
            optimizer = gt.optim.SGD(model.parameters(), lr=1e-3)
            with gt.signal.context('rows'):
                x, y = gt.randn(512, 1024), gt.randn(512, 1024)
            def step():
                with gt.signal.context('rows'):
                    loss = nn.functional.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
        start = time.perf_counter()
        for _ in range(count):
            step()
        gt.synchronize()
        return time.perf_counter() - start
    for line in sys.stdin:
        work, count = line.split()
        print(globals()[work](int(count)) / int(count), flush=True)
"""


class Workers(Process):
    """A server, workers with one exchange, and a client that measures: workers("there", 20) is the seconds of one."""

    def __init__(self, count, exchange, by_tcp=False):
        self.stack = contextlib.ExitStack()
        folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        port_file = pathlib.Path(folder) / "port"
        environment = {**os.environ, "GT_EXCHANGE": exchange, "OPENBLAS_NUM_THREADS": "1", **(UCX_BY_TCP if by_tcp else {})}
        self.launch([PROGRAM, "server", "-p", 0, "--port-file", port_file], env=environment)
        deadline = time.monotonic() + 20
        while not port_file.exists() or not port_file.read_text().strip():
            if time.monotonic() > deadline:
                raise Failure("the server does not start")
            time.sleep(0.01)
        port = port_file.read_text().strip()
        for _ in range(count):
            self.launch([PROGRAM, "worker", "-p", port, "--threads", 1, *(["--listen", "127.0.0.1"] if by_tcp else [])], env=environment)
        self.start([sys.executable, "-c", textwrap.dedent(CLIENT), f"localhost:{port}", count, LARGE // 4], stdin=subprocess.PIPE,
                   stdout=subprocess.PIPE, text=True, env={**environment, "PYTHONPATH": str(ROOT / "build" / "python")})

    def launch(self, command, **options):
        process = Process()
        process.start(command, stdout=subprocess.DEVNULL, **options)
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


def perftest(count, environment, *options):
    """ucx_perftest's bytes a second for messages of LARGE bytes; None: it is not there, or says nothing."""
    if not shutil.which("ucx_perftest"):
        return None
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, **environment, "UCX_WARN_UNUSED_ENV_VARS": "n"}
    with Process() as server:
        server.start(["ucx_perftest", *options, "-p", port], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(50):
            done = subprocess.run(["ucx_perftest", "127.0.0.1", *options, "-p", str(port), "-t", "ucp_am_bw", "-s", str(LARGE),
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


def medians(seen):
    return {name: statistics.median(values) for name, values in seen.items() if values}


def point_to_point(rounds, count):
    """({name: bytes a second}, {exchange: seconds there and back})."""
    kinds = {"mesh": ("mesh", False)}
    if HAS_UCX:
        kinds |= {"ucx": ("ucx", False), "ucx by tcp": ("ucx", True)}
    tests = {"ucx_perftest": (UCX_ON_HOST, "-e"), "ucx_perftest by tcp": (UCX_BY_TCP,),
             "ucx_perftest by tcp, endpoints that may fail": (UCX_BY_TCP, "-e")}
    rates = {name: [] for name in ("memcpy", *tests, *kinds)}
    trips = {name: [] for name in kinds}
    with contextlib.ExitStack() as stack:
        pairs = {name: stack.enter_context(Workers(2, *kind)) for name, kind in kinds.items()}
        for pair in pairs.values():
            pair("there", 3)
            pair("back", 20)
        for _ in range(rounds):
            rates["memcpy"].append(memcpy())
            for name, how in tests.items():
                rate = perftest(count, *how)
                rates[name] += [rate] if rate else []
            for name, pair in pairs.items():
                pair("there", count)  # workers give memory back that they did not use for seconds: fresh pages cost as much as a transfer
                rates[name].append(LARGE / pair("there", count))
                trips[name].append(pair("back", 200))
    return medians(rates), medians(trips)


def all_reduce(rounds, count, workers):
    """{exchange: bytes a second that leave each worker}: 2 (n-1)/n of the tensor."""
    names = ["mesh"] + (["ucx"] if HAS_UCX else [])
    rates = {name: [] for name in names}
    with contextlib.ExitStack() as stack:
        groups = {name: stack.enter_context(Workers(workers, name)) for name in names}
        for group in groups.values():
            group("reduce", 2)
        for _ in range(rounds):
            for name, group in groups.items():
                rates[name].append(LARGE * 2 * (workers - 1) / workers / group("reduce", count))
    return medians(rates)


def scaling(rounds, counts):
    """{workers: seconds of a step}; numbers of workers alternate, and the best round counts."""
    best = dict.fromkeys(counts, float("inf"))
    for count in counts:
        with Workers(count, "mesh") as group:
            group("train", 30)
            for _ in range(rounds):
                best[count] = min(best[count], group("train", 5))
    return best
