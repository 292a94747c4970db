"""
A server with a journal is killed and started again (docs/recovery.md): programs go on, and end with the results of an undisturbed run.
"""

import math
import random
import signal
import struct
import subprocess
import threading
from types import SimpleNamespace

import pytest
from cutting import TRAIN, CuttingProxy
from support import GT_BINARY, clean_environment, until
from test_handover import FIRST, SECOND, WHOLE

PLAIN_PORTS = range(20000, 32000)  # below those that the system gives to connections


# A session goes on in another process, and lives through a restart there.
ATTACHED = """
import os, sys, time
import gt
kept = gt.attach(sys.argv[1])["kept"]
print(int(kept.sum().item()), flush=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
print(int((kept * 2).sum().item()))
"""

LEAVES = """
import os, sys, time
import gt
gt.connect(sys.argv[1])
kept = gt.arange(5)
print(int(kept.sum().item()), flush=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
print(gt.detach({"kept": kept}))
"""


class Restarted:
    """A server with a journal, started again as often as a test wants, and its workers."""

    def __init__(self, programs, *options, workers=1, **environment):
        self.programs, self.options, self.environment = programs, options, environment
        self.directory = programs.directory / "journal"
        self.restarts = 0
        self.lock = threading.Lock()
        chance = random.Random()
        while True:
            self.port = chance.choice(PLAIN_PORTS)
            self.server = self.start()
            if self.is_ready():
                break
        self.workers = [programs.worker(self.port, "--threads", 1, "--index", k, GT_CONNECT_TIMEOUT=60, GT_VERBOSE=1) for k in range(workers)]
        for worker in self.workers:
            until(lambda worker=worker: " joined " in worker.text(), "a worker")

    def start(self):
        arguments = [GT_BINARY, "server", "-p", self.port, "--journal", self.directory, *self.options]
        return self.programs.start(arguments, "server", GT_VERBOSE=1, **self.environment)

    def is_ready(self):
        """Whether it listens; False: another program has the port."""
        until(lambda: "listening" in self.server.text() or not self.server.alive, "the server")
        if not self.server.alive:
            assert "already in use" in self.server.text(), self.server.text()
        return self.server.alive

    def restart(self, number=signal.SIGKILL):
        with self.lock:
            self.server.signal(number)
            self.server.popen.wait()
            self.server = self.start()
            self.restarts += 1
            assert self.is_ready(), self.server.text()

    def address(self, transport):
        return f"{transport}://localhost:{self.port}"


# The program with pauses, in which it works without a trace until the test lets it go on: the server ends in the middle of that.
PAUSES = (0, 6, 17, 28)
DISTURBED = TRAIN.replace(
    "gt.manual_seed(3)\n",
    """gt.manual_seed(3)
import os
def pause(step):
    open(f"{sys.argv[2]}/at-{step}", "w").close()
    scratch = weight.detach()
    while not os.path.exists(f"{sys.argv[2]}/go-{step}"):
        for _ in range(20):
            scratch = scratch * 0.5 + gt.from_numpy(np.ones((64, 32), np.float32)) @ gt.eye(32)
        assert scratch.sum().item() != 0
""",
).replace("    print(loss.item().hex())\n", f"    print(loss.item().hex(), flush=True)\n    if step in {PAUSES}:\n        pause(step)\n")
SETTINGS = {"GT_RESUME": 60}
# Pauses are of any length, and so it differs from which step on a hot path runs, in which sums are rounded in another way.
EAGER, HOT = {"GT_AUTO_COMPILE": 0}, {"GT_AUTO_COMPILE": 1}


@pytest.fixture
def disturbed(programs):
    """Runs the program: what it prints undisturbed; then as a process, and how it gets to a pause and out of it."""
    started = []

    def expected(address, **environment):
        free = programs.directory / "free"
        free.mkdir()
        for step in PAUSES:
            (free / f"go-{step}").touch()
        return programs.run(DISTURBED, address, free, **{**EAGER, **environment})

    def start(address, **environment):
        started.append(programs.directory / f"pauses-{len(started)}")
        started[-1].mkdir()
        return programs.python(DISTURBED, address, started[-1], **{**SETTINGS, **EAGER, **environment})

    def reach(step, program):
        until(lambda: (started[-1] / f"at-{step}").exists() or not program.alive, f"step {step}")
        assert program.alive, program.text()

    def release(step):
        (started[-1] / f"go-{step}").touch()

    return SimpleNamespace(expected=expected, start=start, reach=reach, release=release)


def is_close(output, expected):
    """Whether all losses are the same but for the rounding of sums."""
    pairs = list(zip(output.splitlines()[:-1], expected.splitlines()[:-1], strict=True))
    return all(math.isclose(float.fromhex(one), float.fromhex(other), rel_tol=1e-3) for one, other in pairs)


def check_restarts(restarted, disturbed, address, number=signal.SIGKILL, same=str.__eq__, before=lambda: None, **environment):
    """A run with a restart in each pause prints what one without does."""
    expected = disturbed.expected(address, **environment)
    program = disturbed.start(address, **environment)
    for step in PAUSES:
        disturbed.reach(step, program)
        before()
        ended = restarted.server
        restarted.restart(number)
        assert "is restored from the journal" in restarted.server.text(), ended.text() + program.text()
        disturbed.release(step)
    assert program.wait() == 0, program.text() + restarted.server.text()
    assert same(program.output.read_text(), expected)


@pytest.mark.parametrize("every, sync", [(0.01, "always"), (5, "never")], ids=["snapshots", "records"])
@pytest.mark.parametrize("transport", ["ipc", "tcp"])
def test_programs_outlive_the_server(programs, disturbed, transport, every, sync):
    restarted = Restarted(programs, "--recover-every", every, "--journal-sync", sync)
    check_restarts(restarted, disturbed, restarted.address(transport))


def test_hot_paths_outlive_the_server(programs, disturbed):
    restarted = Restarted(programs)
    check_restarts(restarted, disturbed, restarted.address("ipc"), same=is_close, **HOT)


def test_generations_of_a_small_journal(programs, disturbed):
    restarted = Restarted(programs, "--recover-every", 0.01, "--journal-size", "64M")

    def newest():
        return max(int(path.suffix[1:]) for path in restarted.directory.glob("journal.*"))

    def fill():
        """The program works in its pause until a generation was full, and another has begun."""
        before = newest()
        until(lambda: newest() > before, "another generation")

    check_restarts(restarted, disturbed, restarted.address("ipc"), before=fill)
    restarted.server.end()  # it may be removing a file
    assert sum(path.stat().st_size for path in restarted.directory.glob("journal.*")) <= 64 << 20


def test_sharded_programs_outlive_the_server(programs, disturbed):
    restarted = Restarted(programs, "--recover-every", 0.05, workers=2)
    check_restarts(restarted, disturbed, restarted.address("ipc"), GT_AUTO_SHARD=1)


def test_hot_paths_of_sharded_programs_outlive_the_server(programs, disturbed):
    restarted = Restarted(programs, workers=2)  # which records them anew: they round in another way meanwhile
    check_restarts(restarted, disturbed, restarted.address("ipc"), same=is_close, GT_AUTO_SHARD=1, **HOT)


# Too little work for a snapshot, but for the one that follows a restart. Prints how many there were.
QUIET = """
import os, sys, time
import gt
gt.connect(sys.argv[1])
kept = gt.ones(1000)
assert kept.sum().item() == 1000
print(gt.debug.dispatcher_stats()["snapshots"], flush=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
for _ in range(300):
    assert kept.sum().item() == 1000
    if gt.debug.dispatcher_stats()["snapshots"]:
        break
print(gt.debug.dispatcher_stats()["snapshots"])
"""


# Tensors that failed, one of them without elements, are alive in all snapshots.
FAILED = """
import os, sys, time
import gt
gt.connect(sys.argv[1])
bad = gt.linalg.cholesky(-gt.eye(3))
empty = bad.sum() * gt.zeros(0)
def read():
    for tensor in bad, empty:
        try:
            print(tensor.sum().item(), flush=True)
        except gt.linalg.LinAlgError as error:
            print(str(error).partition(", issued at ")[::2], flush=True)
def work():
    before, value = gt.debug.dispatcher_stats()["snapshots"], gt.ones(3)
    for _ in range(100000):
        value = value * 0.5 + 1
        if value.sum().item() and gt.debug.dispatcher_stats()["snapshots"] > before:
            return
    raise AssertionError("no snapshot")
work()
read()
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
read()
work()
read()
"""


def test_a_failed_tensor_outlives_the_server(programs):
    restarted, go = Restarted(programs, "--recover-every", 0.005), programs.directory / "go"
    program = programs.python(FAILED, restarted.address("ipc"), go, **SETTINGS)
    until(lambda: program.output.read_text().count("\n") == 2 or not program.alive, "the program")
    restarted.restart()
    assert "is restored from the journal" in restarted.server.text(), program.text()
    go.touch()
    assert program.wait() == 0, program.text()
    lines = program.output.read_text().splitlines()
    assert len(lines) == 6 and len(set(lines)) == 1 and "positive-definite" in lines[0], lines


# Tensors of a program that names no signal, read whenever a file says so.
KEPT = """
import os, sys, time
import gt
gt.connect(sys.argv[1])
kept = [gt.full((100,), float(k)) for k in range(5)]
before, value = gt.debug.dispatcher_stats()["snapshots"], gt.ones(3)
while gt.debug.dispatcher_stats()["snapshots"] == before:
    value = value * 0.5 + 1
    assert value.sum().item()
for number in range(3):
    print(kept[0].placement, *((tensor * 2).sum().item() for tensor in kept), flush=True)
    while number < 2 and not os.path.exists(f"{sys.argv[2]}-{number}"):
        time.sleep(0.01)
"""


@pytest.mark.parametrize("replaced", [False, True], ids=["alone", "replaced"])
def test_the_journal_names_the_worker_to_which_a_program_went(programs, replaced):
    """Its first worker died, and it went on with another one. The snapshot of before is brought back there, also if the server's config
    shards tensors, so that it has to name workers."""
    config = programs.directory / "signals.yaml"
    config.write_text("rows: {shard: {axis: 0}}\n")
    restarted, go = Restarted(programs, "--recover-every", 0.005, "--config", config, workers=2), programs.directory / "go"
    program = programs.python(KEPT, restarted.address("ipc"), go, **SETTINGS)

    def line(number):
        until(lambda: program.output.read_text().count("\n") > number or not program.alive or not restarted.server.alive, "the program")
        assert program.output.read_text().count("\n") > number, program.text() + restarted.server.text()
        return program.output.read_text().splitlines()[number]

    home = int(line(0)[len("single(worker=")])
    restarted.workers[home].kill()
    (programs.directory / "go-0").touch()
    assert line(1) == line(0).replace(str(home), str(1 - home), 1)
    restarted.restart()
    until(lambda: restarted.workers[1 - home].text().count(" joined ") == 2 or not restarted.server.alive, "the worker that is left")
    if replaced:
        worker = programs.worker(restarted.port, "--threads", 1, "--index", home, GT_VERBOSE=1)
        until(lambda: " joined " in worker.text() or not restarted.server.alive, "a worker")
    (programs.directory / "go-1").touch()
    assert line(2) == line(1)
    assert program.wait() == 0 and restarted.server.alive, program.text() + restarted.server.text()


@pytest.mark.parametrize("taken", [True, False], ids=["with a snapshot", "without a snapshot"])
def test_the_journal_names_only_the_worker_to_which_a_program_went(programs, taken):
    """And at once: the server is started again before the program sends anything. It does not wait for the first worker, which is dead."""
    config = programs.directory / "signals.yaml"
    config.write_text("rows: {shard: {axis: 0}}\n")
    restarted = Restarted(programs, "--recover-every", 0.005 if taken else 1000, "--config", config, workers=2)
    source = KEPT if taken else KEPT.replace('["snapshots"] == before', '["snapshots"] != before')
    program, go = programs.python(source, restarted.address("ipc"), programs.directory / "go", **SETTINGS), programs.directory / "go-0"
    until(lambda: program.output.read_text().count("\n") == 1 or not program.alive, "the program")
    home = int(program.output.read_text()[len("single(worker=")])
    restarted.workers[home].kill()
    until(lambda: "goes on" in restarted.server.text(), "the recovery")
    restarted.restart(signal.SIGTERM)
    until(lambda: "goes on" in restarted.server.text() or not restarted.server.alive, "the restart")
    assert "stands in" not in restarted.server.text(), restarted.server.text()
    for number in range(2):
        go.with_name(f"go-{number}").touch()
    assert program.wait() == 0, program.text() + restarted.server.text()
    lines = program.output.read_text().splitlines()
    assert lines[1] == lines[2] == lines[0].replace(str(home), str(1 - home), 1)


def test_a_config_is_not_read_again_before_programs_are_recovered(programs):
    """Until then the server does not know which signals they use: this config names a worker for one of them that is not there."""
    config, go = programs.directory / "signals.yaml", programs.directory / "go"
    config.write_text("rows: {shard: {axis: 0, workers: [0, 1]}}\n")
    restarted = Restarted(programs, "--config", config, workers=2)
    program = programs.python("""
import os, sys, time
import gt
gt.connect(sys.argv[1])
x = gt.signal.tensor(gt.arange(8), name="rows")
print(x.placement, x.sum().item(), flush=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
print(x.placement, gt.signal.tensor(x * 1, name="rows").sum().item())
""", restarted.address("ipc"), go, **SETTINGS)
    until(lambda: program.output.read_text() or not program.alive, "the program")
    for worker in restarted.workers:
        worker.kill()
    restarted.restart()
    config.write_text("rows: {shard: {axis: 0, workers: [0, 7]}}\n")
    reload = programs.start([GT_BINARY, "reload", "-p", restarted.port], "reload")
    until(lambda: "reads its config again when all programs are recovered" in restarted.server.text() or not reload.alive, "the order")
    for index in range(2):
        programs.worker(restarted.port, "--threads", 1, "--index", index)
    assert reload.wait() == 1 and "signal rows: worker 7 is not there" in reload.text(), reload.text()
    go.touch()
    assert program.wait() == 0, program.text() + restarted.server.text()
    assert program.output.read_text().splitlines() == ["split(axis=0, workers=[0,1]) 28"] * 2


def test_a_restart_is_followed_by_a_snapshot(programs):
    restarted = Restarted(programs, "--recover-every", 1000000)
    program = programs.python(QUIET, restarted.address("ipc"), programs.directory / "go", **SETTINGS)
    until(lambda: program.output.read_text() or not program.alive, "the program")
    restarted.restart()
    (programs.directory / "go").touch()
    assert program.wait() == 0, program.text() + restarted.server.text()
    assert program.output.read_text() == "0\n1\n"


def test_a_server_that_is_stopped_and_started_again_goes_on(programs, disturbed):
    restarted = Restarted(programs)
    check_restarts(restarted, disturbed, restarted.address("ipc"), number=signal.SIGTERM)


def test_the_server_may_end_anywhere_in_the_stream(programs):
    restarted = Restarted(programs, "--insecure", "--recover-every", 0.01)
    whole = CuttingProxy(restarted.port)
    expected = programs.run(TRAIN, f"tcp://127.0.0.1:{whole.port}")
    whole.close()
    cuts = random.Random(5).sample(range(8000, whole.passed), 8)
    proxy = CuttingProxy(restarted.port, cuts, on_cut=restarted.restart)
    try:
        output = programs.run(TRAIN, f"tcp://127.0.0.1:{proxy.port}", **SETTINGS)
        assert output == expected, restarted.server.text()
        assert restarted.restarts >= 4
    finally:
        proxy.close()


def test_the_server_and_its_worker_may_end_together(programs, disturbed):
    restarted = Restarted(programs)
    expected = disturbed.expected(restarted.address("ipc"))
    program = disturbed.start(restarted.address("ipc"))
    for step in PAUSES:
        disturbed.reach(step, program)
        if step == PAUSES[1]:
            restarted.workers[0].kill()
            restarted.restart()
            programs.worker(restarted.port, "--threads", 1)
        disturbed.release(step)
    assert program.wait() == 0, program.text() + restarted.server.text()
    assert program.output.read_text() == expected


def test_a_worker_tries_again_if_the_server_ends_while_it_joins(programs):
    def keygen(name, *more):
        made = subprocess.run([GT_BINARY, "keygen", programs.directory / name, *more], capture_output=True, text=True, check=True)
        return made.stdout.strip()

    def join(proxy):
        key = programs.directory / "worker"
        worker = programs.worker(proxy.port, "--key-file", key, "--wait", host="tcp://127.0.0.1", GT_VERBOSE=1)
        until(lambda: " joined " in worker.text() or not worker.alive, "a worker")
        assert worker.alive, worker.text()
        return worker

    allowed = programs.directory / "allowed"
    allowed.write_text(f"worker {keygen('worker', '--server', keygen('server'))} worker\n")
    restarted = Restarted(programs, "--key-file", programs.directory / "server", "--allow-keys", allowed, workers=0)
    whole = CuttingProxy(restarted.port)
    join(whole).kill()
    whole.close()
    part = whole.passed // 12  # each connection is cut a little later than the one before
    proxy = CuttingProxy(restarted.port, [k * (k + 1) // 2 * part for k in range(1, 12)])
    try:
        join(proxy)
        assert proxy.cut_count >= 3
    finally:
        proxy.close()


def test_a_session_whose_client_does_not_come_back_ends(programs, disturbed):
    restarted = Restarted(programs, GT_RESUME=0.5)
    program = disturbed.start(restarted.address("ipc"))
    disturbed.reach(0, program)
    program.kill()
    restarted.restart()
    until(lambda: "has not come back within 0.5 s" in restarted.server.text(), "the end of the session")
    restarted.restart(signal.SIGTERM)  # the journal says that it left; killed, the server may not have written that yet
    assert "is restored from the journal" not in restarted.server.text()


def test_a_server_without_the_journal_does_not_know_the_program(programs, disturbed):
    restarted = Restarted(programs)
    program = disturbed.start(restarted.address("ipc"))
    disturbed.reach(0, program)
    restarted.directory = programs.directory / "another"
    restarted.restart()
    assert program.wait() != 0
    assert "does not know this client any more: it was restarted" in program.text()


# Its signal names workers 0 and 1. While it waits, worker 2 takes the place of worker 0.
DRAINED = """
import os, sys, time
import numpy as np
import gt
gt.connect(sys.argv[1])
gt.register_config("rows", gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[0, 1])))
values = np.arange(40.0)
x = gt.signal.tensor(gt.from_numpy(values), name="rows")
print(x.placement, flush=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
with gt.signal.context("rows"):
    y = gt.from_numpy(values) + x
print(x.placement, y.placement, np.array_equal(y.numpy(), values + values))
"""


def test_the_successor_of_a_drained_worker_keeps_its_place(programs):
    restarted = Restarted(programs, workers=3)
    go = programs.directory / "go"
    program = programs.python(DRAINED, restarted.address("ipc"), go, **SETTINGS)
    until(lambda: program.output.read_text() or not program.alive, "the program")
    drained = subprocess.run([GT_BINARY, "drain", "-p", str(restarted.port), "0"], capture_output=True, text=True, timeout=120,
                             env=clean_environment(programs.runtime))
    assert drained.returncode == 0, drained.stderr + restarted.server.text()
    restarted.restart()
    restarted.restart()  # the journal of a restored session has it, too
    go.touch()
    assert program.wait() == 0, program.text() + restarted.server.text()
    rows = "split(axis=0, workers=[2,1])"
    assert program.output.read_text() == f"split(axis=0, workers=[0,1])\n{rows} {rows} True\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
def test_detached_sessions_outlive_the_server(programs, number):
    restarted = Restarted(programs, "--recover-every", 0.001)
    *_, token = programs.run(FIRST, restarted.address("ipc")).split()
    restarted.restart(number)
    assert "is restored from the journal, and detached" in restarted.server.text()
    restarted.restart(number)  # nor is the second one its end
    expected = programs.run(WHOLE, restarted.address("ipc")).splitlines()
    assert programs.run(SECOND, token).splitlines() == expected[5:]
    used = programs.python(SECOND, token)
    assert used.wait() != 0 and "no session is detached under this token" in used.text()
    restarted.restart(number)
    assert "is restored from the journal" not in restarted.server.text()


def test_a_restored_session_ends_when_its_key_is_taken_out_of_the_list(programs):
    def keygen(name, *more):
        made = subprocess.run([GT_BINARY, "keygen", programs.directory / name, *more], capture_output=True, text=True, check=True)
        return made.stdout.strip()

    allowed, client = programs.directory / "allowed", programs.directory / "client"
    server = keygen("server")
    worker, kept = f"worker {keygen('worker', '--server', server)} worker", f"client {keygen('client', '--server', server)} alice"
    allowed.write_text(f"{worker}\n{kept}\n")
    restarted = Restarted(programs, "--key-file", programs.directory / "server", "--allow-keys", allowed, workers=0)
    programs.worker(restarted.port, "--key-file", programs.directory / "worker", "--wait", host="tcp://127.0.0.1")
    program = "import gt, sys; gt.connect(sys.argv[1]); print(gt.detach({'kept': gt.arange(5)}))"
    programs.run(program, restarted.address("tcp").replace("localhost", "127.0.0.1"), GT_KEY_FILE=client)
    restarted.restart()
    assert "is restored from the journal, and detached" in restarted.server.text()
    reload = [GT_BINARY, "reload", "-p", str(restarted.port)]
    environment = clean_environment(programs.runtime)
    subprocess.run(reload, check=True, capture_output=True, env=environment)
    assert "this key is not allowed any more" not in restarted.server.text()
    allowed.write_text(f"{worker}\n")
    subprocess.run(reload, check=True, capture_output=True, env=environment)
    until(lambda: "this key is not allowed any more" in restarted.server.text(), "the end of the session")


def test_an_attached_session_outlives_the_server(programs):
    restarted = Restarted(programs)
    token = programs.run("import gt, sys; gt.connect(sys.argv[1]); print(gt.detach({'kept': gt.arange(5)}))", restarted.address("ipc")).strip()
    restarted.restart()
    go = programs.directory / "go"
    program = programs.python(ATTACHED, token, go, **SETTINGS)
    until(lambda: program.output.read_text() or not program.alive, "the program")
    restarted.restart()
    go.touch()
    assert program.wait() == 0, program.text() + restarted.server.text()
    assert program.output.read_text() == "10\n20\n"


def test_a_restored_session_can_be_detached(programs):
    restarted = Restarted(programs)
    go = programs.directory / "go"
    program = programs.python(LEAVES, restarted.address("ipc"), go, **SETTINGS)
    until(lambda: program.output.read_text() or not program.alive, "the program")
    restarted.restart()
    go.touch()
    assert program.wait() == 0, program.text() + restarted.server.text()
    assert programs.run(ATTACHED, program.output.read_text().split()[1], go) == "10\n20\n"


def test_the_token_of_a_server_without_the_journal(programs):
    restarted = Restarted(programs)
    *_, token = programs.run(FIRST, restarted.address("ipc")).split()
    restarted.directory = programs.directory / "another"
    restarted.restart()
    program = programs.python(SECOND, token)
    assert program.wait() != 0
    assert "or ended with a server" in program.text()


def test_the_log_and_the_tape_of_before_are_kept(programs, disturbed):
    log, tape = programs.directory / "run.log", programs.directory / "run.tape"
    restarted = Restarted(programs, "--log", log, "--tape", tape)

    def replay(path):
        ended = subprocess.run([GT_BINARY, "replay", path], capture_output=True, text=True, timeout=120,
                               env=clean_environment(programs.runtime))
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    program = disturbed.start(restarted.address("ipc"))
    disturbed.reach(0, program)
    restarted.restart(signal.SIGTERM)
    for step in PAUSES:
        disturbed.release(step)
    assert program.wait() == 0, program.text() + restarted.server.text()
    programs.run("import gt, sys; gt.connect(sys.argv[1]); assert gt.ones(3).cumsum(0).sum().item() == 6", restarted.address("ipc"))
    restarted.server.end()
    before = (programs.directory / "run.log.1").read_text()
    assert "matmul" in before.lower() and "cumsum" not in before.lower()
    after = log.read_text()
    assert "matmul" in after.lower() and "cumsum" in after.lower()
    replay(programs.directory / "run.tape.1")
    replay(tape)  # of the programs that began with this process: the others' beginning is on the other tape


# ---- refusals --------------------------------------------------------------------------------------------------


def refusal(programs, *options):
    """What a server that does not start says: one line."""
    ended = subprocess.run([GT_BINARY, "server", *map(str, options)], capture_output=True, text=True, timeout=60,
                           env=clean_environment(programs.runtime))
    assert ended.returncode == 1 and ended.stderr.count("\n") == 1, ended.stderr
    return ended.stderr


def test_a_journal_needs_a_port(programs):
    assert "--journal needs a port" in refusal(programs, "-p", 0, "--journal", programs.directory / "journal")


@pytest.mark.parametrize("option, value, other", [
    ("--journal-sync", "never", "--journal DIR"), ("--journal-size", "64M", "--journal DIR"), ("--recover-wait", 3, "--recover"),
    ("--recover-memory", "3G", "--recover"), ("--recover-disk", "3G", "--recover-snapshots")])
def test_options_that_need_another_one(programs, option, value, other):
    ended = subprocess.run([GT_BINARY, "server", "-p", "0", option, str(value)], capture_output=True, text=True, timeout=60,
                           env=clean_environment(programs.runtime))
    assert ended.returncode == 2 and f"{option} has no effect without {other}\n" in ended.stderr


def test_a_server_with_a_journal_has_no_shared_memory(programs):
    restarted = Restarted(programs, workers=0)
    program = programs.python("import gt, sys; gt.connect(sys.argv[1])", f"memory://localhost:{restarted.port}")
    assert program.wait() != 0
    assert f"has a journal, and so no links by shared memory: connect to ipc://localhost:{restarted.port}" in program.text()


def test_a_journal_belongs_to_one_server(programs):
    restarted = Restarted(programs, workers=0)
    text = "already in use"
    while "already in use" in text:
        text = refusal(programs, "-p", random.choice(PLAIN_PORTS), "--journal", restarted.directory)
    assert "another server" in text


def test_a_port_in_use_is_named(programs):
    restarted = Restarted(programs, workers=0)
    text = refusal(programs, "-p", restarted.port, "--journal", programs.directory / "another")
    assert f"port {restarted.port} is already in use" in text


@pytest.mark.parametrize("offset, what", [(8, "layout"), (12, "version"), (16, "op table")])
def test_a_journal_of_another_version_is_refused(programs, offset, what):
    restarted = Restarted(programs, workers=0)
    restarted.server.signal(signal.SIGTERM)
    restarted.server.popen.wait()
    newest = max(restarted.directory.glob("journal.*"))
    content = bytearray(newest.read_bytes())
    content[offset] ^= 0x40
    struct.pack_into("<I", content, 44, crc32c(content[:44]))
    newest.write_bytes(content)
    assert what in refusal(programs, "-p", restarted.port, "--journal", restarted.directory)


def crc32c(data):
    """The checksum of the header, bit by bit."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF
