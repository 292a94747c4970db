"""Programs on a server with a journal, while everything around them ends, stops, moves and changes at random moments.

    python tests/python/chaos.py --minutes 5 --seed 17

Workers and the server are killed, ended or stopped for a while; workers are drained and come back; the config is replaced. The
programs compare what they compute with NumPy or with what they computed before the first event, and run until they are told to
stop. It fails if a program ends early, or the server or a worker ends by itself.
"""

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from support import GT_BINARY, PATIENCE_S, Programs, clean_environment, until

PORTS = range(20000, 32000)  # below those that the system gives to connections

# What programs begin with: calm() returns once the events may begin, stopped() says when they are over.
BEGIN = """
import os, pathlib, sys, time
import numpy as np
import gt
from gt import nn, optim
address, directory, seed = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
def calm():
    (directory / f"calm-{os.getpid()}").touch()
    while not (directory / "begun").exists():
        time.sleep(0.01)
def stopped():
    return (directory / "stop").exists()
"""

# Whole numbers below 97, so that every value is exact: tensors, plain and spread, and the same arrays in NumPy.
NUMBERS = """
rng = np.random.default_rng(seed)
gt.connect(address)
pool = []
def check(t, a):
    got = t.numpy()
    assert got.shape == a.shape and (got == a).all(), f"step {step}: {(got != a).sum()} of {a.size} values are wrong, {t.placement}: {got} for {a}"
def upload():
    rows, columns = (int(n) * 4 for n in rng.integers(1, 40, 2))
    if rng.random() < 0.05:
        rows, columns = 400, 600
    a = rng.integers(0, 97, (rows, columns)).astype(np.float32 if rng.random() < 0.7 else np.int64)
    place = rng.random()
    if place < 0.5:
        return gt.tensor(a), a
    with gt.signal.context("data" if place < 0.8 else "model"):
        return gt.tensor(a), a
def of_one_shape(t, a):
    for u, b in pool:
        if b.shape == a.shape and b.dtype == a.dtype and u is not t:
            return u, b
    return t, a
def one():
    t, a = pool[rng.integers(len(pool))]
    what = rng.integers(11)
    if what == 0:
        return upload()
    if what == 1:
        u, b = of_one_shape(t, a)
        return (t + u) % 97, (a + b) % 97
    if what == 2:
        return (t * 3 + 5) % 97, (a * 3 + 5) % 97
    if what == 3:
        return t.sum(0) % 97 + t * 0, a.sum(0) % 97 + a * 0
    if what == 4:
        return (t - t.amax(1, keepdim=True)).abs(), abs(a - a.max(1, keepdims=True))
    if what == 5:
        return t.T.contiguous(), np.ascontiguousarray(a.T)
    if what == 6 and a.shape[0] > 8:
        half = a.shape[0] // 8 * 4
        return t[half:] * 1, a[half:] * 1
    if what == 7:
        return gt.cat([t, t], 1)[:, ::2] * 1, np.concatenate([a, a], 1)[:, ::2] * 1
    if what == 8 and a.dtype == np.float32 and a.shape[1] < 200:
        return (t % 7 @ (t % 7).T) % 97, (a % 7 @ (a % 7).T) % 97
    if what == 9:
        return gt.where(t > 40, t, t * 0 + 1), np.where(a > 40, a, a * 0 + 1).astype(a.dtype)
    row = int(rng.integers(a.shape[0]))
    t, a = t * 1, a.copy()
    t[row] = 5
    t[:, 1:3] += 1
    a[row] = 5
    a[:, 1:3] += 1
    return t, a
step = 0
for _ in range(5):
    pool.append(upload())
calm()
while not stopped():
    step += 1
    made = one()
    if len(pool) < 24:
        pool.append(made)
    else:
        pool[rng.integers(len(pool))] = made
    if step % 10 == 0:
        check(*pool[rng.integers(len(pool))])
for t, a in pool:
    check(t, a)
print(step)
"""

# The same training again and again: the losses are those of the first time, but for the rounding of sums.
TRAINING = """
gt.connect(address)
spread = seed % 2
rng = np.random.default_rng(seed)
batches = [(rng.standard_normal((48, 24)).astype(np.float32), rng.integers(0, 10, 48)) for _ in range(8)]
def train(steps):
    gt.manual_seed(seed)
    model = nn.Sequential(nn.Linear(24, 48), nn.Tanh(), nn.Linear(48, 10))
    if spread:
        model[0].weight.data = gt.signal.tensor(model[0].weight, name="columns")
    optimizer = optim.AdamW(model.parameters(), lr=1e-3) if seed % 4 < 2 else optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for step in range(steps):
        x, y = batches[step % 8]
        with gt.signal.context("data" if spread else "nothing"):
            loss = nn.functional.cross_entropy(model(gt.from_numpy(x)), gt.from_numpy(y))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return np.array([loss.item() for loss in losses])
expected = train(60)
calm()
rounds = 0
while not stopped():
    got = train(60)
    assert np.allclose(got, expected, rtol=2e-4, atol=1e-6), f"round {rounds}: {np.abs(got - expected).max()}\\n{got}\\n{expected}"
    rounds += 1
print(rounds)
"""

# A session that goes from process to process. One that is just detaching when the server ends may be lost, and says so.
HANDED_ON = """
if len(sys.argv) == 4:
    while True:
        try:
            gt.connect(address)
            break
        except gt.GtConnectionError as error:
            assert "no server at" in str(error) or "refused the connection" in str(error), error
            time.sleep(0.05)
    state = {"sum": gt.zeros(64, 32), "spread": gt.zeros(8, 4), "turn": 0}
    with gt.signal.context("data"):
        state["spread"] = gt.zeros(8, 4)
    if not (directory / "begun").exists():
        calm()
else:
    state = None
    while state is None:
        try:
            state = gt.attach(sys.argv[4])
        except gt.GtConnectionError as error:  # a program that begins while the server is down
            assert "no server at" in str(error) or "refused the connection" in str(error), error
            time.sleep(0.05)
turns = state["turn"]
assert (state["sum"].numpy() == turns).all() and (state["spread"].numpy() == 2 * turns).all(), turns
if stopped():
    print(turns)
    sys.exit()
for _ in range(50):
    state["sum"] = state["sum"] * 0.5 + 0.5 * turns
state = {"sum": state["sum"] * 0 + (turns + 1), "spread": state["spread"] + 2, "turn": turns + 1}
try:
    token = gt.detach(state)
except gt.GtConnectionError as error:
    print(error)
    os.execv(sys.executable, [sys.executable, *sys.argv[:4]])
os.execv(sys.executable, [sys.executable, *sys.argv[:4], token])
"""

CONFIGS = [
    "data: {shard: {axis: 0}}\ncolumns: {shard: {axis: 0}}\n",
    "data: {shard: {axis: 0, workers: [0, 1]}}\ncolumns: {shard: {axis: 1, workers: [0, 1]}}\nmodel: {shard: {axis: 1}}\n",
    "data: {shard: {axis: 0, workers: [1, 2]}}\ncolumns: {shard: {replicated: true, workers: [1, 2]}}\nmodel: {shard: {workers: [2]}}\n",
    "mesh: {d: 2, m: 2, workers: [0, 1, 2, 3]}\ndata: {shard: {0: d}}\ncolumns: {shard: {0: m}}\nmodel: {shard: {0: d, 1: m}}\n",
    "model: {shard: {replicated: true}}\n",
    "",
]
WRONG_CONFIG = "data: {shard: {axis: 0, workers: [0, 17]}}\n"


class Chaos:
    def __init__(self, arguments, programs):
        self.arguments = arguments
        self.chance = random.Random(arguments.seed)
        self.programs = programs
        self.directory = programs.directory
        self.config = self.directory / "signals.yaml"
        self.config.write_text(CONFIGS[0])
        while True:
            self.port = self.chance.choice(PORTS)
            self.server = self.start_server()
            if self.server:
                break
        self.workers = {index: self.start_worker(index) for index in range(arguments.workers)}
        self.due = {}  # when a worker that has ended comes back
        self.events = {}
        self.ended = None  # the latest death of a worker or of the server

    # ---- processes -----------------------------------------------------------------------------------------------

    def start_server(self):
        """None: another program has the port."""
        server = self.programs.start(
            [GT_BINARY, "server", "-p", self.port, "--journal", self.directory / "journal", "--config", self.config,
             "--recover-every", self.arguments.every, "--recover-stand-in", self.arguments.stand_in, "--recover-wait", 30],
            "server", GT_VERBOSE=1)
        until(lambda: "listening" in server.text() or not server.alive, "the server")
        assert server.alive or "already in use" in server.text(), server.text()
        return server if server.alive else None

    def start_worker(self, index):
        transport = self.chance.choice(["ipc", "tcp"])
        return self.programs.worker(self.port, "--index", index, "--threads", 1, host=f"{transport}://localhost", GT_CONNECT_TIMEOUT=60, GT_VERBOSE=1)

    def start_program(self, source, seed):
        transport = self.chance.choice(["ipc", "tcp"])
        return self.programs.python(BEGIN + source, f"{transport}://localhost:{self.port}", self.directory, seed, GT_RESUME=60,
                                    GT_AUTO_COMPILE=int(seed % 3 != 0))

    def check_alive(self, programs):
        assert self.server.alive, f"the server ended with {self.server.popen.returncode}:\n{self.server.text()}"
        for index, worker in self.workers.items():
            assert worker.alive or index in self.due, f"worker {index} ended with {worker.popen.returncode}:\n{worker.text()}"
        for program in programs:
            assert program.alive, f"{program.name} ended with {program.popen.returncode}:\n{program.text()[-4000:]}"

    # ---- events --------------------------------------------------------------------------------------------------

    def some_worker(self):
        """One that is there, and whose end leaves another one."""
        there = [index for index in self.workers if index not in self.due]
        return self.chance.choice(there) if len(there) > 1 else None

    def gone(self, index):
        self.ended = time.monotonic()
        self.due[index] = self.ended + self.chance.choice([0, 0.3, 1, 4])

    def kill_worker(self):
        index = self.some_worker()
        if index is None:
            return "no worker to kill"
        self.workers[index].kill()
        self.gone(index)
        return f"worker {index} is killed"

    def drain_worker(self):
        index = self.some_worker()
        if index is None:
            return "no worker to drain"
        done = subprocess.run([GT_BINARY, "drain", "-p", str(self.port), str(index)], capture_output=True, text=True, timeout=4 * PATIENCE_S,
                              env=clean_environment(self.programs.runtime))
        if done.returncode == 0:
            status = self.workers[index].wait()
            assert status == 0, f"drained worker {index} ended with {status}:\n{self.workers[index].text()}"
            self.gone(index)
        return f"worker {index} is drained: {done.returncode} {(done.stdout + done.stderr).strip()}"

    def restart_server(self):
        number = self.chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM])
        self.server.signal(number)
        status = self.server.wait()
        assert status in (-signal.SIGKILL, 0, -signal.SIGTERM), f"the server ended with {status}:\n{self.server.text()}"
        time.sleep(self.chance.choice([0, 0, 0.5, 2]))
        self.server = self.start_server()
        self.ended = time.monotonic()
        assert self.server, "the port is taken"
        return f"the server is ended by {number.name}"

    def stop_a_while(self):
        process = self.chance.choice([self.server, *(w for k, w in self.workers.items() if k not in self.due), *self.running])
        process.signal(signal.SIGSTOP)
        pause = self.chance.choice([0.05, 0.3, 1])
        time.sleep(pause)
        process.signal(signal.SIGCONT)
        return f"{process.name} stood for {pause} s"

    def reload(self):
        self.config.write_text(self.chance.choice([*CONFIGS, WRONG_CONFIG]))
        done = subprocess.run([GT_BINARY, "reload", "-p", str(self.port)], capture_output=True, text=True, timeout=4 * PATIENCE_S,
                              env=clean_environment(self.programs.runtime))
        if done.returncode:
            self.config.write_text(CONFIGS[-1])  # what a server started again can read
        return f"reload: {done.returncode} {(done.stdout + done.stderr).strip()}"

    def kill_program(self):
        """And another one like it begins."""
        number = self.chance.randrange(1000)
        short = self.start_program(NUMBERS, number)
        time.sleep(self.chance.uniform(0.1, 1.5))
        alive = short.alive
        short.kill()
        assert alive or (not self.server.alive) or "Connection" in short.text(), short.text()
        return "a program is killed"

    def look(self):
        done = subprocess.run([GT_BINARY, "top", "-p", str(self.port), "--once"], capture_output=True, text=True, timeout=PATIENCE_S,
                              env=clean_environment(self.programs.runtime))
        return f"gt top: {done.returncode}"

    # ---- the run -------------------------------------------------------------------------------------------------

    def run(self):
        for worker in self.workers.values():
            until(lambda worker=worker: " joined " in worker.text(), "a worker")
        seed = self.arguments.seed
        kinds = [NUMBERS, TRAINING, NUMBERS, TRAINING, HANDED_ON]
        self.running = [self.start_program(kinds[k % len(kinds)], seed + k) for k in range(self.arguments.programs)]
        until(lambda: self.check_alive(self.running) or len(list(self.directory.glob("calm-*"))) == len(self.running), "the programs", 4 * PATIENCE_S)
        (self.directory / "begun").touch()
        kinds = [self.kill_worker] * 3 + [self.drain_worker] * 2 + [self.restart_server] * 3 + [self.stop_a_while] * 3
        kinds += [self.reload] * 3 + [self.kill_program, self.look]
        if self.arguments.only:
            kinds = [kind for kind in kinds if kind.__name__ in self.arguments.only]
        end = time.monotonic() + 60 * self.arguments.minutes
        count = 0
        while time.monotonic() < end:
            time.sleep(self.chance.choice([0.05, 0.3, 0.8, 2]))
            self.check_alive(self.running)
            for index in [index for index, at in self.due.items() if at <= time.monotonic()]:
                self.workers[index] = self.start_worker(index)
                del self.due[index]
            event = self.chance.choice(kinds)
            # A worker that dies again and again ends the programs that it works for.
            if event in (self.kill_worker, self.restart_server) and self.ended and time.monotonic() - self.ended < self.arguments.between:
                continue
            count += 1
            began = time.monotonic()
            print(f"{60 * self.arguments.minutes - (end - began):7.2f} {event()} ({time.monotonic() - began:.2f} s)", flush=True)
        for index in self.due:
            self.workers[index] = self.start_worker(index)
        self.due = {}
        (self.directory / "stop").touch()
        for program in self.running:
            status = program.wait(4 * PATIENCE_S)
            assert status == 0, f"{program.name} ended with {status}:\n{program.text()[-4000:]}"
        self.check_alive([])
        print(f"{count} events; the programs' rounds: {', '.join(p.output.read_text().split()[-1] for p in self.running)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--programs", type=int, default=5)
    parser.add_argument("--every", type=float, default=0.5, help="seconds between snapshots")
    parser.add_argument("--stand-in", type=float, default=1, help="seconds until another worker stands in")
    parser.add_argument("--between", type=float, default=2, help="seconds between two deaths, at least")
    parser.add_argument("--only", nargs="*", help="events, by the names of their functions")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    directory = tempfile.mkdtemp(prefix="gt-chaos-")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit("terminated"))  # what was started is ended, too
    programs = Programs(directory)
    try:
        Chaos(arguments, programs).run()
    except BaseException as error:
        print(f"failed: {error}\nthe output of all processes is in {directory}", file=sys.stderr)
        return 1
    finally:
        for process in programs.processes:
            process.signal(signal.SIGCONT)
        programs.end()
    shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
