"""Workers die, and programs go on: gt server --recover. Without it, what is lost is named, and nothing hangs.

Each program says what it computed, once undisturbed and once with kills: both must say the same, to the last bit. The kills are
at steps of the program, which waits for each: a file says that it is time, another that it is done.
"""
import os

import pytest

from support import PATIENCE_S, REPOSITORY, clean_environment, until

# What programs begin with. kill(n) has the test kill worker n, which starts it again; the program waits for the death, or not.
BEGIN = """
import os, pathlib, sys, time
import numpy as np
import gt
from gt import nn, optim
gt.connect(sys.argv[1])
kills = 0
def kill(worker, wait=True):
    global kills
    kills += 1
    ask = pathlib.Path(sys.argv[2])
    if not ask.exists():
        return
    (ask / f"{kills}.new").write_text(str(worker))
    (ask / f"{kills}.new").rename(ask / str(kills))
    while wait and not (ask / f"{kills}.done").exists():
        time.sleep(0.002)
def say(*values):
    print(*(v.hex() if isinstance(v, float) else v for v in values), flush=True)
"""


class Cluster:
    """A server and workers with numbers; kills workers as its program asks, and starts them again."""

    def __init__(self, programs, workers, options=("--recover",), transport="", engine={}, **environment):
        self.programs = programs
        self.engine = engine  # variables of the workers
        self.transport = transport and f"{transport}://"
        self.server = programs.server(*options, **environment)
        self.port = self.server.port
        self.workers = [self.start(index) for index in range(workers)]

    def start(self, index):
        return self.programs.worker(self.port, "--index", index, "--threads", 1, host=f"{self.transport}localhost",
                                    **self.engine)

    def start_again(self, number, index):
        """A new worker, after kill `number` of the program."""
        return self.start(index)

    def run(self, source, ask, restart=True, replace=False, **environment):
        """What the program says, and how often it had a worker killed. replace: "none" asks for a new worker, without a kill."""
        process = self.programs.python(BEGIN + source, f"{self.transport}localhost:{self.port}", ask, **environment)
        number = 0
        while process.alive:
            wanted = ask / str(number + 1)
            until(lambda: wanted.exists() or not process.alive, "the program", 2 * PATIENCE_S)
            if not process.alive:
                break
            number += 1
            if replace and wanted.read_text() == "none":
                self.workers.append(self.start(0))
                continue
            index = int(wanted.read_text())
            self.workers[index].kill()
            (ask / f"{number}.done").touch()
            if restart:
                self.workers[index] = self.start_again(number, index)
        assert process.wait() == 0, process.text()
        return process.output.read_text().splitlines(), number


def both(programs, source, workers=1, options=("--recover",), restart=True, transport="", cluster=None,
         **environment):
    """What the program says undisturbed, and on workers that die; both must be the same. Returns the lines and the kills."""
    source = source if source.startswith("\n") else "\n" + source
    ask = programs.directory / "kills"
    cluster = cluster or Cluster(programs, workers, options, transport)
    calm, none = cluster.run(source, ask, **environment)
    ask.mkdir()
    disturbed, kills = cluster.run(source, ask, restart, **environment)
    assert calm and none == 0 and kills > 0
    assert disturbed == calm
    assert cluster.server.alive
    return calm, kills


VALUES = """
x = gt.from_numpy(np.arange(12, dtype=np.float32).reshape(3, 4))
large = gt.from_numpy(np.random.default_rng(1).standard_normal((600, 700)).astype(np.float32))   # by a shared segment
gt.manual_seed(7)
r = gt.randn(50, 40)
view = r.T[3:7]
x[1] = 5.0
total = (large @ large.T).sum()
say(total.item())
kill(0)
say(x.numpy().tolist(), view.numpy().tobytes().hex(), (r @ r.T).sum().item(), total.item())
y = gt.rand(5)
kill(0)
say(y.numpy().tobytes().hex(), large.numpy().tobytes().hex()[:400], (large * 2).sum().item())
"""


def test_values_are_the_same_when_a_worker_is_started_again(programs):
    both(programs, VALUES)


def test_another_worker_takes_over(programs):
    both(programs, VALUES.replace("kill(0)", "kill(int(x.placement[-2]))", 1).replace("kill(0)", "pass"), workers=2,
         restart=False)


def test_large_uploads_one_after_the_other(programs):
    """The client would use the shared memory of one for the next, but what a recovery needs stays: in a tensor that was dropped
    before the loss, and in one that lives long."""
    source = """
rng = np.random.default_rng(4)
kept = gt.from_numpy(rng.standard_normal(400_000).astype(np.float32))
state = gt.zeros(400_000)
for step in range(90):
    batch = rng.standard_normal(400_000).astype(np.float32)
    state = gt.tanh(state + gt.from_numpy(batch)[:400_000])
    del batch
    if step in (10, 75, 87):
        kill(0)
        say(state.numpy().tobytes().hex()[:400], state.sum().item(), (kept * state).sum().item())
"""
    both(programs, source)


def test_views_that_live_long(programs):
    """A snapshot has the values of views, too; what is computed from them afterwards is right."""
    source = """
rng = np.random.default_rng(0)
base = gt.from_numpy(rng.standard_normal((40, 30)).astype(np.float32))
turned, part, broad = base.T, base[::2, 1:], base[:1].expand(5, 30)
for turn in range(500):
    h = gt.zeros(30)
    for step in range(200):
        h = gt.tanh(turned @ base[:, 0] * 0.01 + h)
    h.sum().item()
    if gt.debug.dispatcher_stats()["snapshots"] > 0:
        break
else:
    raise AssertionError("no snapshot")
kill(0)
say(turned.numpy().tobytes().hex(), part.numpy().tobytes().hex(), broad.numpy().tobytes().hex())
say(np.abs((turned @ base).numpy() - base.numpy().T @ base.numpy()).max() < 1e-4)
"""
    both(programs, source, options=SOON)


def test_many_tensors(programs):
    """A snapshot of them takes many turns of the dispatcher, and of the worker; the program makes and frees tensors all the while."""
    source = """
kept = [gt.full((3,), float(k)) for k in range(4_000)]
for turn in range(2000):
    before = gt.debug.dispatcher_stats()["snapshots"] if turn % 20 == 0 else 0
    for step in range(100):
        at = (turn * 7919 + step * 104729) % len(kept)
        kept[at] = kept[at] + 1
    kept[at].sum().item()
    if before >= 2:
        break
else:
    raise AssertionError("no snapshots")
changed = np.zeros(len(kept))
for past in range(turn + 1):
    for step in range(100):
        changed[(past * 7919 + step * 104729) % len(kept)] += 1
kill(0)
values = gt.stack(kept).numpy()
say(bool((values == (np.arange(len(kept)) + changed)[:, None]).all()))
"""
    said, _ = both(programs, source, options=SOON)
    assert said == ["True"]


@pytest.mark.parametrize("transport", ["memory", "ipc", "tcp"])
def test_answers_under_way_are_completed(programs, transport):
    """Long answers come in parts: the client has some of them when the worker dies."""
    source = """
x = gt.arange(1_500_000) * 3
y = gt.from_numpy(np.arange(700_000.0))
for step in range(7):
    if step % 3 == 1:
        kill(0, wait=False)
    say(step, int(x.numpy()[::1000].sum()), int((y + step).numpy()[::77].sum()), (x + step).sum().item())
"""
    both(programs, source, transport=transport)


def test_errors_come_again(programs):
    """A failure is part of the program: it is the same after a recovery, and it is told once for each read."""
    source = """
bad = gt.arange(10)[(gt.rand(2) * 0 + 99).long()] * 2     # an index that only the worker knows
good = gt.ones(3)
def read():
    try:
        say(bad.numpy().tolist())
    except Exception as error:
        say(type(error).__name__, str(error).split(", issued")[0])
read()
for step in range(3):
    kill(0)
    say(good.sum().item())
    read()
    good = good + 1
"""
    lines, _ = both(programs, source, options=SOON)
    assert len(lines) == 7 and "99" in lines[0]


# Failed tensors, and others, that a program keeps; and what the server may use for snapshots.
KEPT = {
    "one": ("bad", ()),
    "empty ones": ("bad[:0], bad.sum() * gt.zeros(0, 5)", ()),
    "larger than the memory": ("bad[0, 0].expand(8 << 20) * 2,", ("--recover-memory", "16M")),
    "larger than the disk": ("bad[0, 0].expand(8 << 20) * 2,", ("--recover-disk", "16M", "--recover-snapshots", "/tmp")),
    "several that fill the memory": (
        "*[bad[0, 0].expand(3 << 20) * k for k in range(5)], gt.ones(1 << 20)", ("--recover-memory", "16M")),
}


@pytest.mark.parametrize("kept", KEPT)
def test_a_failed_tensor_that_lives_is_part_of_snapshots(programs, kept):
    """It fails in the same way after them, whatever failed; programs keep such tensors without knowing. Snapshots go on."""
    tensors, options = KEPT[kept]
    source = f"""
bad = gt.linalg.cholesky(-gt.eye(3))
kept = [{tensors}]
""" + """
good = gt.ones(3)
def read(tensor):
    try:
        say(tensor.sum().item())
    except Exception as error:
        text, _, place = str(error).partition(", issued at ")
        say(type(error).__name__, text, place.rpartition(":")[2])
for step in range(3):
    before = gt.debug.dispatcher_stats()["snapshots"]
    for turn in range(400000):
        good = good * 0.5 + 1
        if turn % 100 == 0:
            good.sum().item()
            if gt.debug.dispatcher_stats()["snapshots"] > before:
                break
    else:
        raise AssertionError("no snapshot")
    kill(0)
    for tensor in kept:
        read(tensor)
    read(bad @ gt.ones(3, 1))
    good = gt.ones(3)
say(good.sum().item())
"""
    lines, _ = both(programs, source, options=(*SOON, *options))
    failures = [line for line in lines if line.startswith("LinAlgError cholesky: ")]
    assert len(failures) % 3 == 0 and len(failures) >= 6 and len(set(failures)) == 1, lines
    assert len(lines) - len(failures) == (4 if "ones(1 << 20)" in tensors else 1), lines
    assert failures[0].endswith(f"(on worker_0) {BEGIN.count(chr(10)) + 2}"), lines


def test_what_a_limit_refused_is_refused_again(programs):
    """Also an upload whose data a snapshot could have without the worker, and what was within the limits before it."""
    source = """
def read(t):
    try:
        say(t.sum().item())
    except gt.OutOfMemoryError as error:
        say(type(error).__name__, str(error).split(", issued")[0])
x = gt.from_numpy(np.full((300, 400), 2, np.float32))
large = gt.from_numpy(np.ones((600, 700), np.float32))
doubled = gt.cat([x, x]) + gt.cat([x, x])
read(large)
read(doubled)
kill(0)
read(large)
for turn in range(30):
    h = gt.zeros(30)
    for step in range(100):
        h = gt.tanh(h + turn)
    h.sum().item()
read(x)
kill(0)
read(large)
read(doubled)
del large, doubled
read(gt.from_numpy(np.ones((200, 300), np.float32)) + 1)
kill(0)
read(x)
"""
    lines, _ = both(programs, source, options=(*SOON, "--max-memory", "1M"))
    assert lines[0] == lines[2] == lines[4] and "--max-memory" in lines[0], lines
    assert lines[1] == lines[5] and "--max-memory" in lines[1], lines


def test_clients_beside_each_other(programs):
    """All clients of a dead worker go on, each with its own tensors."""
    cluster = Cluster(programs, 1)
    source = BEGIN + """
number = int(sys.argv[3])
gt.manual_seed(number)
x = gt.rand(1000)
for step in range(300):
    x = gt.sin(x * (1 + number)) + 0.5
    if step % 10 == 0:
        say(step, x.sum().item())
        pathlib.Path(sys.argv[4]).touch()
"""
    def run(disturbed):
        going = programs.directory / f"going-{disturbed}"
        clients = [programs.python(source, f"localhost:{cluster.port}", programs.directory / "none", number, going)
                   for number in range(4)]
        until(lambda: going.exists(), "the clients")
        if disturbed:
            cluster.workers[0].kill()
            cluster.workers[0] = cluster.start(0)
        for client in clients:
            assert client.wait() == 0, client.text()
        return [client.output.read_text() for client in clients]

    assert run(True) == run(False)


# ---- where recovery ends ----------------------------------------------------------------------------------------

LOST = """
def read(t):
    try:
        say(t.sum().item())
    except gt.GtConnectionError as error:
        say("lost:", error)
x = gt.ones(300, 300) * 2
read(x)
"""


def test_no_worker_comes(programs):
    """After --recover-wait it is as without recovery: an error that names the worker, and the program may go on."""
    cluster = Cluster(programs, 1, ("--recover", "--recover-wait", 0.3))
    ask = programs.directory / "kills"
    ask.mkdir()
    lines, _ = cluster.run(LOST + """
kill(0)
read(x)
(ask := pathlib.Path(sys.argv[2])).joinpath("2").write_text("none")
while True:
    try:
        say(gt.ones(3).sum().item())
        break
    except gt.GtConnectionError:
        pass
""", ask, restart=False, replace=True)
    assert "worker_0" in lines[1] and lines[1].startswith("lost:") and lines[2] == (3.0).hex(), lines


def test_too_little_memory(programs):
    """A client whose journal and tensors need more than --recover-memory is not recoverable; the server says so, once."""
    cluster = Cluster(programs, 1, ("--recover", "--recover-memory", "1M"))
    ask = programs.directory / "kills"
    ask.mkdir()
    lines, _ = cluster.run(LOST + """
big = [gt.from_numpy(np.full((500, 1000), k, np.float32)) for k in range(4)]
total = 0
for k in range(2000):
    x = x * 1.0001 + big[k % 4][:300, :300]
read(x)
kill(0)
read(x)
""", ask)
    assert lines[-1].startswith("lost:") and "worker_0" in lines[-1]
    assert cluster.server.text().count("cannot be recovered") == 1


def test_workers_that_die_again_and_again(programs):
    """A program that reads its values between the deaths of its workers goes on, however often they die."""
    _, kills = both(programs, """
x = gt.arange(600) * 1.0
for step in range(12):
    kill(0)
    say((x + step).sum().item())
""")
    assert kills == 12


# An engine that ends its worker at the first matrix product.
DEADLY = """
import os
import gt
class Engine(gt.engines.Engine):
    def matmul(self, out, a, b):
        os._exit(1)
"""


def test_what_kills_its_workers_is_given_up_and_other_programs_go_on(programs):
    """What kills its worker kills the next one, too: after a few of them it is an error, for the program that has it."""
    (programs.directory / "gt_engine_deadly.py").write_text(DEADLY)
    server = programs.server("--recover")
    address = f"localhost:{server.port}"
    paths = f"{programs.directory}:{clean_environment()['PYTHONPATH']}"

    def start():
        return programs.worker(server.port, "--index", 0, python=True, GT_BACKEND="deadly", PYTHONPATH=paths)

    workers = [start()]
    stop = programs.directory / "stop"
    others = [programs.python("""
        import pathlib, sys, time
        import gt
        gt.connect(sys.argv[1])
        x = gt.arange(1000) * 1.0
        print("ready", x[3].item(), flush=True)
        steps = 0
        while not pathlib.Path(sys.argv[2]).exists():
            if sys.argv[3] == "busy":
                x, steps = x + 1, steps + 1
                assert x[0].item() == steps
            time.sleep(0.01)
        print((x - steps).sum().item() == 499500, flush=True)
        """, address, stop, kind, name=kind) for kind in ("busy", "busy", "idle")]
    for other in others:
        until(lambda: "ready 3.0" in other.text(), f"{other.name}: {other.text()}")
    deadly = programs.python("""
        import sys
        import gt
        gt.connect(sys.argv[1])
        a = gt.ones(4, 4)
        try:
            print((a @ a).sum().item())
        except gt.GtConnectionError as error:
            print(error)
        """, address, name="deadly")
    while deadly.alive:
        until(lambda: not (deadly.alive and workers[-1].alive), "the worker's end")
        if not workers[-1].alive:
            workers.append(start())
    assert "5 workers died while they repeated its instructions; worker worker_0 is gone" in deadly.text()
    stop.touch()
    for other in others:
        assert other.wait() == 0 and other.text().split()[-1] == "True", other.text()
    assert server.text().count("is not recovered") == 1, server.text()


def test_without_recovery_others_go_on(programs):
    """Reads of a dead worker's tensors fail and name it. A client of another worker does not notice, and a replacement is used."""
    cluster = Cluster(programs, 2, ())
    go = programs.directory / "go"
    ask = programs.directory / "kills"
    ask.mkdir()
    other = programs.python(BEGIN + """
y = gt.ones(5)
say(y.placement)
while not pathlib.Path(sys.argv[3]).exists():
    y = y + 1
    y.sum().item()
say("went on")
""", f"localhost:{cluster.port}", programs.directory / "none", go)
    until(lambda: "single" in other.text(), "the other client")
    index = int(other.output.read_text().strip()[-2])
    lines, _ = cluster.run(LOST + f"""
mine = int(x.placement[-2])
assert mine != {index}
kill(mine)
read(x)
while len(gt.debug.get_worker_stats()) < 2:
    pass
say(gt.ones(2).sum().item())
""", ask)
    go.touch()
    assert other.wait() == 0 and "went on" in other.output.read_text(), other.text()
    assert lines[1].startswith("lost:") and f"worker_{1 - index}" in lines[1] and lines[2] == (2.0).hex(), lines


def test_others_go_on_while_a_sharded_client_waits_for_a_replacement(programs):
    cluster = Cluster(programs, 2, ("--recover", "--recover-wait", 600, "--recover-stand-in", 600))
    address = f"localhost:{cluster.port}"
    waiting = programs.python(BEGIN + """
while len(gt.debug.get_worker_stats()) < 2:
    pass
gt.register_config("rows", gt.SignalConfig(shard=gt.ShardConfig(axis=0)))
x = gt.signal.tensor(gt.ones(256, 4), name="rows")
while True:
    say((x * 2).sum().item())
""", address, programs.directory / "none")
    until(lambda: (2048.0).hex() in waiting.text(), "the sharded client")
    cluster.workers[1].kill()
    for _ in range(3):
        assert programs.run(BEGIN + """
for k in range(200):
    assert (gt.ones(8) + k).sum().item() == 8 + 8 * k
say("right")
""", address, programs.directory / "none") == "right\n"
    assert waiting.alive, waiting.text()
    waiting.kill()


MLP = """
gt.manual_seed(1)
rng = np.random.default_rng(3)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10))
optimizer = optim.AdamW(model.parameters(), lr=1e-3)
STEPS, AT = int(os.environ["STEPS"]), [int(step) for step in os.environ["AT"].split()]
for step in range(STEPS):
    if step in AT:
        kill(0)
    x = gt.from_numpy(rng.standard_normal((32, 64)).astype(np.float32))
    loss = nn.functional.cross_entropy(model(x), gt.from_numpy(rng.integers(0, 10, 32)))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 7 == 3:
        say(step, loss.item())
say(*(p.detach().numpy().tobytes().hex()[:64] for p in model.parameters()))
stats = gt.debug.dispatcher_stats(wait=True)
assert stats["snapshots"] > 0 and (stats["recoveries"] > 0) == pathlib.Path(sys.argv[2]).exists(), stats
"""
SOON = ("--recover", "--recover-every", 0.002)  # snapshots, also in a short program


@pytest.mark.parametrize("hot", [True, False], ids=["hot", "eager"])
def test_an_mlp_is_trained_on_workers_that_die(programs, hot):
    options = {"STEPS": 400, "AT": "2 60 61 200 390"} if hot else {"STEPS": 120, "AT": "2 60 61 100", "GT_AUTO_COMPILE": 0}
    both(programs, MLP, options=SOON, **options)


def test_snapshots_on_disk(programs):
    """They are read back from there, and the server's memory stays small. The files have no names, and go with the server."""
    folder = programs.directory / "snapshots"
    folder.mkdir()
    source = """
server = int(os.environ["SERVER"])
def memory():
    status = pathlib.Path(f"/proc/{server}/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) >> 10
gt.manual_seed(7)
x = gt.rand(4, 1_000_000, dtype=gt.float64)
parts = [row * 2 for row in x]
while gt.debug.dispatcher_stats()["snapshots"] < 1:
    gt.tanh(parts[0][:1000]).sum().item()
while memory() >= 40:   # until the snapshot is written
    pass
kill(0)
say(*(part.sum().item() for part in parts))
kill(0)
say(parts[3].numpy().tobytes().hex()[:1000], x.sum().item())
"""
    ask = programs.directory / "kills"
    cluster = Cluster(programs, 1, (*SOON, "--recover-snapshots", folder))
    calm, _ = cluster.run(source, ask, SERVER=cluster.server.pid)
    ask.mkdir()
    assert cluster.run(source, ask, SERVER=cluster.server.pid) == (calm, 2)
    assert not list(folder.iterdir())


@pytest.mark.parametrize("most", [None, "1M"], ids=["disk", "full"])
def test_training_with_snapshots_on_disk(programs, most):
    """With --recover-disk too small for one, the program is not recoverable, and computes all the same."""
    options = (*SOON, "--recover-snapshots", programs.directory)
    if most is None:
        both(programs, MLP, options=options, STEPS=400, AT="2 60 61 200 390")
        return
    cluster = Cluster(programs, 1, (*options, "--recover-disk", most))
    lines, _ = cluster.run("""
x = gt.ones(1000, 1000) + 1
for step in range(2000):
    x = gt.tanh(x)
say(x.sum().item() > 0)
""", programs.directory / "none")
    assert lines == ["True"]
    assert cluster.server.text().count("--recover-disk") == 1, cluster.server.text()


SHARDED = """
gt.register_config("data", gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[0, 1, 2])))
while len(gt.debug.get_worker_stats()) < 3:
    pass
gt.manual_seed(1)
rng = np.random.default_rng(3)
model = nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 10))
optimizer = optim.AdamW(model.parameters(), lr=1e-3)
AT = {20: 1, 95: 0, 160: 2, 220: 1}
for step in range(250):
    if step in AT:
        kill(AT[step], wait=step % 2)
    with gt.signal.context("data"):
        x = gt.tensor(rng.standard_normal((30, 24)).astype(np.float32))
        loss = nn.functional.cross_entropy(model(x), gt.tensor(rng.integers(0, 10, 30)))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 5 == 3:
        say(step, loss.item())
say(*(p.placement for p in model.parameters()))
say(*(p.detach().numpy().tobytes().hex()[:64] for p in model.parameters()))
stats = gt.debug.dispatcher_stats(wait=True)
assert stats["snapshots"] > 0, stats
"""


@pytest.mark.parametrize("hot", [True, False], ids=["hot", "eager"])
def test_data_parallel_training_on_workers_that_die(programs, hot):
    both(programs, SHARDED, workers=3, options=SOON, GT_AUTO_COMPILE=int(hot))


# The classes are split: softmax, sort, cumsum and topk run along the split axis, in several steps each.
ALONG = """
gt.register_config("classes", gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[0, 1, 2])))
while len(gt.debug.get_worker_stats()) < 3:
    pass
rng = np.random.default_rng(3)
w = gt.signal.tensor(gt.tensor(rng.standard_normal((10, 8))), name="classes")
x, y = gt.tensor(rng.standard_normal((30, 8))), gt.tensor(rng.integers(0, 10, 30))
AT = {15: 1, 45: 0, 70: 2}
for step in range(90):
    if step in AT:
        kill(AT[step], wait=step % 2)
    w = w.detach().requires_grad_(True)
    logits = x @ w.T
    p = logits.softmax(1)
    more = (p.cumsum(1) * p.flip(1)).mean() + (gt.cat([p, p], 1).sort(1)[0] ** 2).mean() + p.topk(3, 1)[0].mean()
    loss = nn.functional.cross_entropy(logits, y) + more
    loss.backward()
    w = w - w.grad * 0.3
    if step % 5 == 3:
        say(step, loss.item(), p.argmax(1).sum().item())
say(w.placement, w.detach().numpy().tobytes().hex())
assert sum(worker["gathers"] for worker in gt.debug.get_worker_stats(wait=True).values()) == 0
"""


@pytest.mark.parametrize("hot", [True, False], ids=["hot", "eager"])
def test_steps_along_the_split_axis_on_workers_that_die(programs, hot):
    both(programs, ALONG, workers=3, options=SOON, GT_AUTO_COMPILE=int(hot))


# ---- workers that are not replaced -------------------------------------------------------------------------------

STAND_IN = (*SOON, "--recover-stand-in", 0.05)
WITHOUT = SHARDED.replace("{20: 1, 95: 0, 160: 2, 220: 1}", "{20: 1, 160: 2}")


@pytest.mark.parametrize("hot", [True, False], ids=["hot", "eager"])
def test_data_parallel_training_goes_on_without_workers_that_die(programs, hot):
    """Worker 1 dies, then worker 2, which may stand in for it: worker 0 has all three parts, and the bits are the same."""
    both(programs, WITHOUT, workers=3, options=STAND_IN, restart=False, GT_AUTO_COMPILE=int(hot))


def test_a_signal_of_yaml_names_a_dead_worker(programs):
    """The home worker dies, and stays away. New tensors of the signal use its number, as before."""
    config = programs.directory / "rows.yaml"
    config.write_text("rows: {shard: {axis: 0, workers: [0, 1]}}\n")
    source = """
while len(gt.debug.get_worker_stats()) < 2:
    pass
rng = np.random.default_rng(2)
with gt.signal.context("rows"):
    x = gt.tensor(rng.standard_normal((40, 30)).astype(np.float32))
    y = gt.tanh(x @ gt.tensor(rng.standard_normal((30, 30)).astype(np.float32)))
say(y.placement, y.sum().item())
for worker in (0, 1):
    if worker == int(gt.ones(2).placement[-2]):
        kill(worker)
        break
with gt.signal.context("rows"):
    z = gt.tensor(rng.standard_normal((40, 30)).astype(np.float32))
say(z.placement, (y * z).sum().item(), y.numpy().tobytes().hex()[:200])
"""
    both(programs, source, workers=2, options=(*STAND_IN, "--config", config), restart=False)


def test_a_replacement_takes_over_from_a_stand_in(programs):
    """A worker that joins late gets the number of the dead one, though another stands in for it; the program goes on."""
    cluster = Cluster(programs, 2, STAND_IN)
    go = programs.directory / "go"
    address = f"localhost:{cluster.port}"
    program = programs.python(BEGIN + """
while len(gt.debug.get_worker_stats()) < 2:
    pass
gt.register_config("rows", gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[0, 1])))
x = gt.signal.tensor(gt.ones(256, 4), name="rows")
steps = 0
while not pathlib.Path(sys.argv[3]).exists():
    x = x + 1
    steps += 1
    assert x.sum().item() == 1024 * (1 + steps)
    say(gt.debug.dispatcher_stats()["recoveries"])
say(x.placement, int(x.sum().item()) == 1024 * (1 + steps))
""", address, programs.directory / "none", go)
    until(lambda: "0\n" in program.output.read_text(), "the program")
    cluster.workers[1].kill()
    until(lambda: "1\n" in program.output.read_text(), "a stand-in")
    replacement = cluster.start(1)
    until(lambda: "2\n" in program.output.read_text(), "the replacement")
    cluster.workers[0].kill()  # which stood in
    until(lambda: "3\n" in program.output.read_text(), "a stand-in for the other")
    assert replacement.alive, replacement.text()
    go.touch()
    assert program.wait() == 0, program.text()
    assert program.output.read_text().splitlines()[-1] == "split(axis=0, workers=[0,1]) True"
    # No program needs the stand-in any more: it leaves.
    programs.run(BEGIN + """
while len(gt.debug.get_worker_stats()) != 1:
    pass
""", address, programs.directory / "none")


# Workers read each other's memory, and finish later, as those on GPUs do. All pause now and then; new ones are slow at first.
LENDS = {"GT_BACKEND": "late", "GT_LATE_LENDS": 1, "GT_LATE_DELAY": 2000, "GT_LATE_HOST": 5000, "GT_LATE_FIRST": 60_000}
REPLACED = ALONG.replace("{15: 1, 45: 0, 70: 2}", "{15: 1}").replace("range(90)", "range(30)")


class Replaced(Cluster):
    """Its workers are started again when others stand in for them, which have yet to repeat what the dead ones did."""

    def start_again(self, number, index):
        until(lambda: self.server.text().count("stands in for worker") >= number, "a stand-in")
        return self.start(index)


def test_memory_that_is_lent_to_a_replacement(programs):
    """What a worker lends to the successor of a stand-in is not used again before the successor has read it."""
    both(programs, REPLACED, cluster=Replaced(programs, 3, STAND_IN, engine=LENDS, GT_VERBOSE=1), GT_AUTO_COMPILE=1)


GPT = """
import importlib.util, random
spec = importlib.util.spec_from_file_location("char_gpt", os.environ["EXAMPLE"])
char_gpt = importlib.util.module_from_spec(spec)
spec.loader.exec_module(char_gpt)
gt.register_config("data", gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[0, 1, 2])))
while len(gt.debug.get_worker_stats()) < 3:
    pass
gt.manual_seed(5)
moments = random.Random(int(os.environ.get("SEED", "0")))
text = np.random.default_rng(0).integers(0, 20, 400)
model = char_gpt.Gpt(20, 12, width=32, heads=4, depth=2)
optimizer = optim.AdamW(model.parameters(), lr=2e-3)
STEPS, KILLS = int(os.environ["STEPS"]), int(os.environ["KILLS"])
at = {STEPS * (k + 1) // (KILLS + 1): moments.randrange(3) for k in range(KILLS)}
for step, (x, y) in zip(range(STEPS), char_gpt.batches(text, 12, 9, seed=1)):
    if step in at:
        kill(at[step], wait=False)
    with gt.signal.context("data"):
        x, y = gt.signal.tensor(x, name="data"), gt.signal.tensor(y, name="data")
        logits = model(x)
        loss = nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    say(step, loss.item())
"""


def test_a_gpt_is_trained_on_three_workers_and_each_dies_now_and_then(programs):
    kills = int(os.environ.get("GT_TEST_KILLS", "10"))  # make test-long has more
    both(programs, GPT, workers=3, options=SOON, EXAMPLE=REPOSITORY / "examples" / "char_gpt.py", STEPS=22 * kills,
         KILLS=kills, SEED=kills)
