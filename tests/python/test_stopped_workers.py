"""A worker stops without a word (SIGSTOP stands for a network that is cut): its peers wait for it in collectives and moves, and serve
other clients meanwhile. When it goes on, the program that waited ends as if nothing had happened; when it dies, that program is told."""

import collections
import signal

import pytest

from support import until

# Data parallel training on workers 0 and 1. Says how many steps it has done, until the test has seen enough, then all losses.
TRAINING = """
import pathlib, sys
import numpy as np
import gt
from gt import nn, optim
import gt.nn.functional as F
gt.connect(sys.argv[1])
folder, most = pathlib.Path(sys.argv[2]), int(sys.argv[3])
workers = [int(word) for word in sys.argv[4].split(",")]
while not set(workers) <= {worker["index"] for worker in gt.debug.dispatcher_stats()["workers"]}:
    pass
gt.register_config("data", gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=workers)))
gt.manual_seed(1)
rng = np.random.default_rng(2)
batch, labels = rng.standard_normal((24, 20)).astype(np.float32), rng.integers(0, 5, 24)
model = nn.Sequential(nn.Linear(20, 300), nn.Tanh(), nn.Linear(300, 60), nn.Tanh(), nn.Linear(60, 5))
optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
losses = []
while len(losses) < most and not (folder / "enough").exists():
    optimizer.zero_grad()
    with gt.signal.context("data"):
        loss = F.cross_entropy(model(gt.from_numpy(batch)), gt.from_numpy(labels))
    loss.backward()
    optimizer.step()
    losses.append(loss.item() if len(losses) % 50 == 0 else loss)
    (folder / "steps").write_text(str(len(losses)))
print(len(losses))
print(*(float(loss).hex() for loss in losses))
"""

# Says on which worker it is, then waits until the test has stopped the other one. Then asks questions with new and freed tensors, hot
# loops and large answers.
OTHER = """
import pathlib, sys
import numpy as np
import gt
gt.connect(sys.argv[1])
folder = pathlib.Path(sys.argv[2])
a = gt.ones(4, 4)
own = int(a.placement.split("=")[1].rstrip(")"))
(folder / "worker.new").write_text(str(own))
(folder / "worker.new").rename(folder / "worker")
while not (folder / "stopped").exists():
    pass
rng = np.random.default_rng(3)
large = rng.standard_normal((300, 300)).astype(np.float32)
total = gt.from_numpy(large)
kept = []
for k in range(2000):
    a = a * 2 - gt.ones(4, 4)
    kept.append(gt.full((3, 3), float(k)))
    if k % 10 == 0:
        assert a.sum().item() == 16, k
        assert kept[k // 2].numpy().tolist() == [[k // 2] * 3] * 3
        kept[k // 2] = gt.full((3, 3), float(k // 2))
np.testing.assert_allclose((total @ total).numpy(), large @ large, rtol=1e-3, atol=1e-3)
gt.synchronize()
assert [int(t.sum().item()) for t in kept[::100]] == [9 * k for k in range(0, 2000, 100)]
print("answered", flush=True)
while not (folder / "over").exists():
    pass
print("still there", (a + 1).sum().item(), flush=True)
"""


# What a worker waits for, in the eyes of the server, after a moment; nothing if it does not.
WATCH = """
import sys
import gt
gt.connect(sys.argv[1])
seen = ""
for _ in range(200):
    worker = next(w for w in gt.debug.dispatcher_stats()["workers"] if w["index"] == int(sys.argv[2]))
    seen = worker["doing"]["op"] if worker["doing"] and worker["doing"]["seconds"] > 0.02 else ""
print(seen)
"""
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all")


class Stop:
    """A server, workers with numbers, a client that trains on 0 and 1, and another one on one of these, whose peer is stopped."""

    def __init__(self, programs, workers=2, options=(), transport="memory", **environment):
        self.programs = programs
        self.folder = programs.directory
        self.environment = {"GT_TIMEOUT": "600", **environment}
        self.server = programs.server(*options, **self.environment)
        self.address = f"{transport}://localhost:{self.server.port}"
        self.host = f"{transport}://localhost"
        self.workers = [self.start_worker(k) for k in range(workers)]

    def start_worker(self, index):
        return self.programs.worker(self.server.port, "--index", index, "--threads", 1, host=self.host,
                                    **self.environment)

    def begin(self, program=TRAINING, most=1_000_000):
        self.training = self.programs.python(program, self.address, self.folder, most, "0,1", name="training")
        self.steps(30)
        self.other = self.programs.python(OTHER, self.address, self.folder, name="other")
        until(lambda: (self.folder / "worker").exists() or not self.other.alive, "the other client")
        assert self.other.alive, self.other.text()
        self.beside = int((self.folder / "worker").read_text())
        self.stopped = self.workers[1 - self.beside]
        until(self.stop, "a collective that waits")
        (self.folder / "stopped").touch()

    def stop(self):
        """Where it stops is a matter of luck: again, if no collective of its peer waits for it there. By tcp, a worker does not say
        what it does while it is not asked: it stops anywhere."""
        self.steps(10)
        self.stopped.signal(signal.SIGSTOP)
        if self.host.startswith("tcp"):
            return True
        if self.programs.run(WATCH, self.address, self.beside).strip() in COLLECTIVES:
            return True
        self.stopped.signal(signal.SIGCONT)
        return False

    def steps(self, more):
        def done():
            assert self.training.alive, self.training.text()
            return int((self.folder / "steps").read_text() or 0) if (self.folder / "steps").exists() else 0
        target = done() + more
        until(lambda: done() >= target, "the training")

    def answered(self):
        until(lambda: "answered" in self.other.text() or not self.other.alive, "answers beside a worker that waits")
        assert self.other.alive, self.other.text()

    def end_other(self):
        (self.folder / "over").touch()
        assert self.other.wait() == 0, self.other.text()
        assert "still there 32.0" in self.other.text()

    def losses(self):
        (self.folder / "enough").touch()
        assert self.training.wait() == 0, self.training.text()
        count, losses = self.training.output.read_text().splitlines()
        return int(count), losses

    def undisturbed(self, count):
        (self.folder / "enough").unlink()
        said = self.programs.run(TRAINING, self.address, self.folder, count, "0,1")
        return said.splitlines()[1]


@pytest.mark.parametrize("transport", ["memory", "tcp"])
def test_other_clients_are_served_while_a_worker_is_stopped(programs, transport):
    stop = Stop(programs, transport=transport)
    stop.begin()
    stop.answered()
    assert stop.training.alive, stop.training.text()
    stop.stopped.signal(signal.SIGCONT)
    stop.steps(30)
    stop.end_other()
    count, losses = stop.losses()
    assert losses == stop.undisturbed(count)


def test_other_clients_are_served_while_the_instructions_are_logged(programs):
    """The log shows what waited when it has run: a line for each instruction that was sent, and no line twice."""
    log = programs.directory / "instructions.log"
    stop = Stop(programs, options=("--log", log))
    stop.begin()
    stop.answered()
    assert stop.training.alive, stop.training.text()
    stop.stopped.signal(signal.SIGCONT)
    stop.steps(30)
    stop.end_other()
    count, losses = stop.losses()
    assert losses == stop.undisturbed(count)
    until(lambda: is_complete(log.read_text()), "the lines of all that the workers did")


def is_complete(log):
    """Whether each worker's instructions that others wait for, or that need these, have as many lines at their end as at their start."""
    lines = collections.Counter()
    for line in log.splitlines():
        _, _, event, worker, command, *_ = (part.strip() for part in line.split("|"))
        if command in ("WorkerAllReduce", "WorkerAllGather", "WorkerReduceScatter", "WorkerMove", "WorkerBinaryOp"):
            lines[worker, command, event] += 1
    assert any(command == "WorkerAllReduce" for _, command, _ in lines), lines
    return all(lines[worker, command, "WORKER_SEND"] == lines[worker, command, "WORKER_RECV"] for worker, command, _ in list(lines))


def test_a_stopped_worker_that_dies_is_named(programs):
    stop = Stop(programs)
    stop.begin()
    stop.answered()
    stop.stopped.kill()
    until(lambda: not stop.training.alive, "the end of the training")
    assert stop.training.wait() == 1
    # A tensor that was lost, or the next step, which cannot be placed any more.
    said = stop.training.text()
    assert "is gone" in said or f"worker {1 - stop.beside} is not there" in said, said
    stop.end_other()


def test_a_client_that_is_killed_while_its_collective_waits(programs):
    """What it left behind is dropped when the stopped worker goes on, and nothing of it stays."""
    stop = Stop(programs)
    stop.begin()
    stop.training.kill()
    stop.answered()
    stop.stopped.signal(signal.SIGCONT)
    stop.end_other()
    watch = """
        import sys
        import gt
        gt.connect(sys.argv[1])
        while sum(worker["tensors"] for worker in gt.debug.get_worker_stats(wait=True).values()):
            pass
    """
    programs.run(watch, stop.address)
    (stop.folder / "steps").unlink()
    programs.run(TRAINING, stop.address, stop.folder, 40, "0,1")


def test_a_client_spread_over_the_workers_that_are_left(programs):
    stop = Stop(programs, workers=3)
    stop.begin()
    said = programs.run(TRAINING, stop.address, programs.runtime, 60, f"{stop.beside},2").splitlines()
    assert int(said[0]) == 60
    assert stop.training.alive
    stop.answered()
    stop.stopped.signal(signal.SIGCONT)
    stop.end_other()
    count, losses = stop.losses()
    assert losses.split()[:60] == said[1].split()[:count]


def test_a_recovery_while_a_collective_waits(programs):
    """The stopped worker dies and another one takes its place: the program goes on as if nothing had happened."""
    stop = Stop(programs, options=("--recover",))
    stop.begin()
    stop.answered()
    stop.stopped.kill()
    stop.start_worker(1 - stop.beside)
    stop.steps(60)
    stop.end_other()
    count, losses = stop.losses()
    assert losses == stop.undisturbed(count)
