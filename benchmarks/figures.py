"""Measurements of GT alone: the dispatcher's rate, round trips, start-up, memory.

Each figure is a function from the measuring processes of bench.py to a list of report.Figure.
"""
import statistics
import subprocess
import sys

from child import resident_bytes
from processes import Child, Failure
from report import Figure

TRANSPORTS = ("embedded", "memory", "ipc", "tcp")
TENSOR_BYTES = 8 * 8 * 4
CLIENTS = 50

FIGURES = {}


def figure(name):
    def register(function):
        FIGURES[name] = function
        return function
    return register


def measure(name, function, children, quick):
    try:
        return function(children, quick)
    except (Failure, OSError, subprocess.SubprocessError) as failure:
        return [Figure(name, error=str(failure))]


@figure("dispatcher rate")
def dispatcher_rate(children, quick):
    """A stream of a million additions, and the frees of their results, through `gt server`: one thread."""
    count = 200_000 if quick else 1_000_000
    child = children.gt("memory")
    child("prepare", work="small_add")
    child("run", count=count)
    wall, own = [], []
    for _ in range(3):
        before = child("dispatcher_stats")
        seconds = child("run", count=count)
        after = child("dispatcher_stats")
        instructions = after["instructions"] - before["instructions"]
        wall.append(instructions / seconds)
        own.append(instructions / (after["cpu_seconds"] - before["cpu_seconds"]))
    name = "dispatcher rate, memory link"
    return [
        Figure(f"{name}, wall time", statistics.median(wall), "instr/s", bound=5e6, at_least=True),
        Figure(f"{name}, its own CPU time", statistics.median(own), "instr/s"),
    ]


@figure("round trip")
def round_trips(children, quick):
    results = []
    for link in TRANSPORTS:
        child = children.gt(link)
        child("round_trips", count=200)
        times = sorted(child("round_trips", count=500 if quick else 3000))
        for percent in (50, 99):
            nanoseconds = times[len(times) * percent // 100]
            results.append(Figure(f"round trip of item(), {link}, p{percent}", nanoseconds / 1e9, "s"))
    return results


@figure("assignment")
def assignment(children, quick):
    """x[0] = 1 and x[:, i].copy_(v), thousands of times: in place, or each of them copies 40 MB."""
    count = 1_000 if quick else 10_000
    results = []
    for work, name in (("assign_element", "x[0] = 1 on 40 MB, one owner, embedded"),
                       ("copy_column", "x[:, i].copy_(v) on 40 MB, embedded")):
        child = children.gt("embedded")
        child("prepare", work=work)  # whose first assignment copies: until then the memory is the upload's
        times = [child("run", count=count) / count for _ in range(3)]
        results.append(Figure(name, statistics.median(times), "s", bound=10e-6))
    return results


START = """
import time
start = time.perf_counter()
import gt
imported = time.perf_counter()
gt.ones(2, 2).sum().item()
print(imported - start, time.perf_counter() - imported)
"""


@figure("start-up")
def start_up(children, quick):
    """In fresh processes: import, then start of the embedded server to the first result."""
    runs = []
    for _ in range(3 if quick else 7):
        result = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, timeout=60)
        if result.returncode:
            raise Failure(result.stderr.strip()[-200:] or f"exit status {result.returncode}")
        runs.append([float(word) for word in result.stdout.split()])
    imports, firsts = zip(*runs)
    return [
        Figure("start-up, import gt", statistics.median(imports), "s", bound=0.1),
        Figure("start-up, embedded server to first result", statistics.median(firsts), "s", bound=0.05),
    ]


@figure("memory")
def memory(children, quick):
    server = children.server("memory")
    results = []
    with Child("gt", server.address()) as child:
        pids = {"dispatcher": server.process.pid, "worker": server.worker.process.pid, "client": child.process.pid}
        child("idle_clients", host=server.host, port=server.port, count=1)
        before = {side: resident_bytes(pid) for side, pid in pids.items()}
        child("idle_clients", host=server.host, port=server.port, count=CLIENTS)
        for side, pid in pids.items():
            grown = (resident_bytes(pid) - before[side]) / CLIENTS
            results.append(Figure(f"memory per idle client, {side}", grown, "B"))
    count = 20_000 if quick else 100_000
    with Child("gt") as child:
        overhead = child("live_tensors", count=count) / count - TENSOR_BYTES
    results.append(Figure("memory per live 8x8 tensor beyond its data, embedded", overhead, "B"))
    return results


@figure("training memory")
def training_memory(children, quick):
    """Peak memory of training, with model and optimiser state, against PyTorch in the same kind of process."""
    results = []
    for name, work in (("MLP, AdamW", "mlp_adamw"), ("CNN", "cnn_sgd"), ("char-GPT", "char_gpt")):
        peaks = {}
        for library in ("gt", "torch"):
            with Child(library) as child:
                peaks[library] = child("training_peak", work=work)
        results.append(Figure(f"peak memory of training, {name}, torch", peaks["torch"], "B"))
        results.append(Figure(f"peak memory of training, {name}, GT", peaks["gt"], "B", bound=0.7 * peaks["torch"]))
    return results
