"""Workers on several hosts, network namespaces of this machine (tests/cluster/bed.py): the rows of cluster.py that need a network."""
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from processes import Failure

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "cluster"))

BEGIN = """
import pathlib, statistics, sys, time
import gt
from gt import nn
gt.connect(sys.argv[1])
ask, orders = pathlib.Path(sys.argv[2]), 0
def please(order):
    global orders
    orders += 1
    (ask / f"{orders}.new").write_text(order)
    (ask / f"{orders}.new").rename(ask / str(orders))
    while not (ask / f"{orders}.done").exists():
        time.sleep(0.001)
def workers(count):
    while len(gt.debug.get_worker_stats()) != count:
        time.sleep(0.001)
"""

STEPS = BEGIN + """
workers(2)
gt.register_config("data", gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[0, 1])))
gt.manual_seed(0)
model = nn.Sequential(*[part for _ in range(8) for part in (nn.Linear(256, 256), nn.ReLU())])
optimizer = gt.optim.SGD(model.parameters(), lr=1e-3)
with gt.signal.context("data"):
    x, y = gt.randn(64, 256), gt.randn(64, 256)
def step():
    with gt.signal.context("data"):
        loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss
for _ in range(30):
    step()
def collectives():
    return max(worker["collectives"] for worker in gt.debug.get_worker_stats(wait=True).values())
times, before = [], collectives()
for _ in range(30):
    gt.synchronize()
    start = time.perf_counter()
    step()
    gt.synchronize()
    times.append(time.perf_counter() - start)
print(statistics.median(times), (collectives() - before) / 30)
"""

# 64 MiB live, split over both workers.
CHANGES = BEGIN + """
workers(2)
x = gt.signal.tensor(gt.ones(4096, 4096), name="data")
assert x.sum().item() == 1 << 24
def timed(name, *changes, until=lambda: True):
    start = time.perf_counter()
    for change in changes:
        please(change)
    while not until():
        time.sleep(0.001)
    assert (x + 1).sum().item() == 1 << 25
    print(name, time.perf_counter() - start, flush=True)
timed("drain", "drain 1")
please("join 1")
workers(2)
timed("re-shard", "reload 1", until=lambda: "axis=1" in x.placement)
if sys.argv[3] == "recover":
    timed("rejoin", "kill 1", "join 1")
"""


def cluster(workers, directory, hosts=None, **options):
    """(Bed, Cluster), not entered yet."""
    from bed import Bed, Cluster
    bed = Bed(hosts or workers + 2)
    return bed, Cluster(bed, directory, workers, **options)


def not_permitted():
    """Why this machine cannot have hosts; None: it can."""
    from bed import Bed, NotPermitted
    try:
        with Bed(1):
            return None
    except NotPermitted as reason:
        return str(reason)


def delayed_steps(rounds):
    """({name: seconds of a step}, {name: all-reduces of a step}) of an MLP with 16 gradients on two workers, with 0 and 1 ms of delay."""
    seen, rounds_of = {}, {}
    ways = (("no delay", 0, False, 1), ("1 ms", 1, False, 1), ("1 ms, a sum for each gradient, when it is needed", 1, False, 0),
            ("1 ms, without overlap", 1, True, 1))
    for _ in range(rounds):
        for name, delay, log, ahead in ways:
            with tempfile.TemporaryDirectory() as directory:
                options = ("--log", pathlib.Path(directory) / "run.log") if log else ()  # workers keep to the order of their streams
                bed, made = cluster(2, directory, options=options, GT_SUM_AHEAD=ahead)
                with bed, made:
                    bed.order("delay", value=delay)
                    lines, _ = made.run(STEPS)
                    seconds, rounds_of[name] = map(float, lines[-1].split())
                    seen.setdefault(name, []).append(seconds)
    return {name: statistics.median(times) for name, times in seen.items()}, rounds_of


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def crowd(hosts, clients, rounds):
    """{name: value} of a server with two workers on each host and clients on another, all at work at once."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as directory:
        bed, made = cluster(0, directory, hosts=hosts + 2)
        with bed, made:
            for index in range(2 * hosts):
                made.workers[index] = made.start_worker(index, host=1 + index // 2)
            process = subprocess.Popen([*bed.at(hosts + 1), ROOT / "build" / "load_clients", str(clients), str(rounds), "0", made.address],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                       env={**os.environ, "GT_KEY_FILE": str(made.key)})
            try:
                def phase(name):
                    said = process.stdout.readline().split()
                    if not said or said[0] != name or said[3:] != ["0", "0"]:
                        raise Failure(f"{clients} clients: {said}")
                    return float(said[1]), int(said[2])

                connected, _ = phase("connected")
                before = processor_seconds(made.server.pid)
                process.stdin.write("\n")
                process.stdin.flush()
                seconds, answers = phase("worked")
                spent = processor_seconds(made.server.pid) - before
            finally:
                process.kill()
                process.wait()
                process.stdin.close()
                process.stdout.close()
    return {"connected": connected, "answers": answers / seconds, "per_processor_second": answers / spent}


def changes():
    """{name: seconds} of what a running cluster goes through, with 64 MiB on two workers."""
    seen = {}
    for options in ((), ("--recover", "--recover-stand-in", 30)):
        with tempfile.TemporaryDirectory() as directory:
            bed, made = cluster(2, directory, options=options, config="data: {shard: {axis: 0}}\n", worker_options=("--wait",))
            with bed, made:
                made.reload = lambda axis: (made.config.write_text(f"data: {{shard: {{axis: {axis}}}}}\n"), made.gt("reload"))
                made.ask.mkdir()
                lines, _ = made.run(CHANGES, "recover" if options else "")
                seen = {line.split()[0]: float(line.split()[1]) for line in lines} | seen
                if not options:
                    seen["restart"] = restart(made)
    return seen


def restart(made):
    """From the start of another server, at the port of one that was killed, to a result of both workers that were there before."""
    made.server.kill()
    start = time.perf_counter()
    made.server = made.start_server(made.port)
    program = made.python(BEGIN + "workers(2)\nx = gt.signal.tensor(gt.ones(2, 2), name='data')\nassert x.sum().item() == 4\n", made.address, made.ask)
    if program.wait():
        raise Failure(f"after a restart: {program.text()}")
    return time.perf_counter() - start
