"""Clusters of several hosts, on a network that may be slow, lossy, cut or resetting: sharding, faults and recovery, over each exchange.

Programs of other suites run here as they are. A disturbed run must say what an undisturbed one says, to the last bit, or a clear error.
"""
import pathlib
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from bed import GT_BINARY, PATIENCE_S, REPOSITORY, Bed, until

from test_live import BEGIN, SHARDED as LIVE
from test_sharded_processes import PROGRAM as SPREAD

HAS_UCX = (pathlib.Path(GT_BINARY).resolve().parent / "gt-exchange-ucx.so").exists()
exchanges = pytest.mark.parametrize("exchange", [
    "mesh", pytest.param("ucx", marks=pytest.mark.skipif(not HAS_UCX, reason="gt is built without libucx"))])
# Silent peers are dropped soon.
SOON = {"GT_TIMEOUT": 5}


def check_exchange(one):
    """The workers used the exchange that was asked for."""
    said = sum(" exchange by ucx\n" in worker.text() for worker in one.workers.values())
    assert said == (len(one.workers) if one.exchange == "ucx" else 0), [worker.text() for worker in one.workers.values()]


# ---- the bed itself -------------------------------------------------------------------------------------------------

TALK = """
    import socket, sys, time
    with socket.create_server(("", 0)) if sys.argv[1] == "listen" else socket.create_connection((sys.argv[1], sys.argv[2]), 30) as s:
        if sys.argv[1] == "listen":
            print(s.getsockname()[1], flush=True)
            s, _ = s.accept()
            while data := s.recv(1 << 16):
                s.sendall(data)
        else:
            sent, start = bytes(int(sys.argv[3])), time.monotonic()
            try:
                s.sendall(sent)
                got = 0
                s.settimeout(float(sys.argv[4]))
                while got < len(sent):
                    got += len(s.recv(1 << 16))
                print("came", time.monotonic() - start)
            except OSError as error:
                print(type(error).__name__)
"""


def talk(one, count, patience=30.0):
    """Send bytes from host 0 to host 1 and back: ("came", seconds), or the name of an error."""
    listener = subprocess.Popen([*one.at(1), sys.executable, "-c", textwrap.dedent(TALK), "listen"], stdout=subprocess.PIPE, text=True)
    try:
        port = listener.stdout.readline().strip()
        done = subprocess.run([*one.at(0), sys.executable, "-c", textwrap.dedent(TALK), one.address(1), port, str(count), str(patience)],
                              capture_output=True, text=True, timeout=2 * PATIENCE_S)
        return done.stdout.split() or [done.stderr.strip().splitlines()[-1].partition(":")[0]]
    finally:
        listener.kill()
        listener.wait()
        listener.stdout.close()


@pytest.mark.usual
def test_what_the_wire_does(bed):
    """At least the delay, at most the rate; lost packets are sent again; a cut is silent, a reset is not."""
    one = bed(3)
    assert talk(one, 100)[0] == "came"
    one.order("delay", 0, 1, 40)
    assert float(talk(one, 100)[1]) >= 0.08
    one.order("heal")
    one.order("rate", 0, 1, 1 << 20)
    assert float(talk(one, 1 << 18)[1]) >= 0.25
    one.order("heal")
    one.order("loss", 0, 1, 0.05)
    assert talk(one, 1 << 16)[0] == "came"
    one.order("heal")
    one.order("reset", 0, 1)
    assert talk(one, 100) == ["ConnectionRefusedError"]
    one.order("heal")
    one.order("cut", 0, 2)
    assert talk(one, 100)[0] == "came"


@pytest.mark.usual
def test_nothing_stays(bed):
    """Not even if whoever made the namespaces is killed: the wire removes them."""
    one = bed(2)
    names = pathlib.Path("/run/netns")
    assert set(one.names) <= {path.name for path in names.iterdir()}
    other = Bed(2)
    assert not set(one.names) & set(other.names)
    one.wire.stdin.close()
    one.wire.wait(PATIENCE_S)
    assert not set(one.names) & {path.name for path in names.iterdir()}


# ---- sharding -------------------------------------------------------------------------------------------------------


@pytest.mark.usual
@exchanges
def test_spread_tensors(cluster, exchange):
    one = cluster(3, exchange=exchange)
    program = one.python(SPREAD, one.address, 3)
    assert program.wait(2 * PATIENCE_S) == 0, program.text()
    assert program.output.read_text() == "agreed ['tcp', 'tcp', 'tcp']\n"
    check_exchange(one)


@pytest.mark.usual
@pytest.mark.skipif(not HAS_UCX, reason="gt is built without libucx")
def test_the_exchange_that_is_chosen(cluster):
    """Links are encrypted, so UCX is used between hosts only where both workers trust the network."""
    one = cluster(0, exchange="auto")
    one.bed.order("heal")
    trusting = {"GT_TRUST_NETWORK": 1}
    one.workers = {0: one.start_worker(0, 0, **trusting), 1: one.start_worker(1, 1, **trusting), 2: one.start_worker(2, 1)}
    program = one.python(SPREAD + "\n    print(*(w['exchange'] for w in gt.debug.get_worker_stats().values()))\n", one.address, 3)
    assert program.wait(2 * PATIENCE_S) == 0, program.text()
    assert program.output.read_text().splitlines()[1:] == ["ucx ucx mesh"]
    said = [worker.text() for worker in one.workers.values()]
    assert [" exchange by ucx\n" in text for text in said] == [True, True, False], said
    assert "worker 0 and worker 1 exchange by ucx\n" in said[0] and "workers exchange by ucx where both have it, on the interface " in said[0]
    assert one.gt("top", "--once").count(" cpu+ucx ") == 2


@pytest.mark.usual
@exchanges
def test_a_bad_network(cluster, exchange):
    """1 ms, 100 MB/s, one packet of 200 is lost: everything arrives, later."""
    one = cluster(3, exchange=exchange)
    for verb, value in (("delay", 1), ("rate", 1e8), ("loss", 0.005)):
        one.bed.order(verb, value=value)
    program = one.python(SPREAD, one.address, 3)
    assert program.wait(4 * PATIENCE_S) == 0, program.text()
    assert program.output.read_text() == "agreed ['tcp', 'tcp', 'tcp']\n"


@exchanges
@pytest.mark.parametrize("mode", ["data", "tensor", "pipeline", "sequence", "expert", "mesh"])
def test_a_transformer(cluster, exchange, mode):
    """examples/sharding on hosts 1 ms apart has the losses of one worker."""
    one = cluster(4, exchange=exchange)
    one.bed.order("delay", value=0.5)
    program = f"""
        import runpy, sys
        import gt
        gt.connect(sys.argv[1])
        while len(gt.debug.get_worker_stats()) < 4:
            pass
        example = runpy.run_path({str(REPOSITORY / "examples/sharding/transformer.py")!r})
        for sharded in (False, True):
            if sharded:
                gt.load_config({str(REPOSITORY / f"examples/sharding/{mode}.yaml")!r})
            losses, _ = example['train'](6, **example['settings']({mode!r}))
            print(*losses)
    """
    run = one.python(program, one.address)
    assert run.wait(4 * PATIENCE_S) == 0, run.text()
    plain, sharded = (np.array(line.split(), float) for line in run.output.read_text().splitlines())
    np.testing.assert_allclose(sharded, plain, rtol=1e-4)
    if mode != "pipeline":  # it has two workers
        check_exchange(one)


# ---- faults ---------------------------------------------------------------------------------------------------------

FAULT = BEGIN + """
workers(3)
gt.register_config('rows', gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[0, 1, 2])))
gt.register_config('two', gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[0, 2])))
with gt.signal.context('rows'):
    x = gt.arange(3000).reshape(300, 10)
with gt.signal.context('two'):
    y = gt.ones(100000, 2)
say(x.sum(dim=0).tolist())
say(y.sum(dim=0).tolist())
please(sys.argv[3])
for t in (x * 2, x + 1):
    try:
        say(t.sum(dim=0).tolist())
    except gt.GtConnectionError as error:
        say('lost:', error)
say((y * 2).sum(dim=0).tolist())
say(gt.ones(3).sum().item())
"""


def lose(one, order):
    """Run FAULT; its lines behind the order."""
    one.ask.mkdir()
    process = one.python(FAULT, one.address, one.ask, order)
    until(lambda: (one.ask / "1").exists() or not process.alive, "the program", 2 * PATIENCE_S)
    verb, *hosts = order.split()
    one.bed.order(verb, *hosts)
    (one.ask / "1.done").touch()
    assert process.wait(4 * PATIENCE_S) == 0, f"{process.text()}\n{one.server.text()[-3000:]}"
    lines = process.output.read_text().splitlines()
    sums = np.arange(3000).reshape(300, 10).sum(0)
    assert lines[:2] == [str(sums.tolist()), "[100000.0, 100000.0]"]
    assert lines[4:] == ["[200000.0, 200000.0]", (3.0).hex()], lines  # those without it go on
    return lines[2:4]


@pytest.mark.usual
@exchanges
def test_a_host_is_cut_off(cluster, exchange):
    """Its worker is named; the others go on."""
    one = cluster(3, exchange=exchange, **SOON)
    lines = lose(one, "cut 2 *")
    assert all(line.startswith("lost:") and re.search(r"worker[_ ]1\b", line) for line in lines), lines


@exchanges
@pytest.mark.parametrize("verb", ["cut", "reset"])
def test_no_way_between_two_workers(cluster, exchange, verb):
    """Both reach the server, but not each other: an error, and others go on."""
    one = cluster(3, exchange=exchange, **SOON)
    lines = lose(one, f"{verb} 1 2")
    assert all(line.startswith("lost:") for line in lines), lines


@exchanges
def test_two_workers_that_never_met(cluster, exchange):
    """They cannot connect: whoever waits is told who could not be reached."""
    one = cluster(2, exchange=exchange, GT_CONNECT_TIMEOUT=3, **SOON)
    one.bed.order("cut", 1, 2)
    program = one.python("""
        import sys
        import gt
        gt.connect(sys.argv[1])
        while len(gt.debug.get_worker_stats()) < 2:
            pass
        gt.register_config('rows', gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[0, 1])))
        with gt.signal.context('rows'):
            x = gt.ones(10, 4)
        try:
            print(x.sum(dim=0).tolist())
        except gt.GtConnectionError as error:
            print(error)
        print(gt.ones(3).sum().item())
    """, one.address)
    assert program.wait(2 * PATIENCE_S) == 0, program.text()
    lines = program.output.read_text().splitlines()
    assert "could not be reached at 10.88.0." in lines[0] and lines[1] == "3.0", lines


def test_a_client_is_cut_off(cluster):
    """Its tensors are freed, and another client goes on."""
    one = cluster(1, **SOON)
    first = one.python("""
        import sys, time
        import gt
        gt.connect(sys.argv[1])
        x = gt.ones(1 << 22)
        print(x.sum().item(), flush=True)
        time.sleep(600)
    """, one.address)
    until(lambda: "4194304" in first.text() or not first.alive, "the first client")
    one.bed.order("cut", 2, "*")
    second = one.python("""
        import sys, time
        import gt
        gt.connect(sys.argv[1])
        def used():
            return sum(w['memory']['used'] for w in gt.debug.get_worker_stats(wait=True).values())
        while used() >= 1 << 24:
            time.sleep(0.05)
        print(gt.ones(3).sum().item())
    """, one.address, host=1)
    assert second.wait(2 * PATIENCE_S) == 0, second.text()
    assert second.output.read_text() == "3.0\n"


@pytest.mark.parametrize("verb", ["cut", "reset"])
def test_a_client_comes_back(cluster, verb):
    """Its link is cut for a while, silently or by resets: each addition is executed once."""
    one = cluster(1, GT_RESUME=60, **SOON)
    healed = one.directory / "healed"
    program = one.python("""
        import os, sys
        import gt
        gt.connect(sys.argv[1])
        x, steps = gt.zeros(1000), 0
        while not os.path.exists(sys.argv[2]) or steps % 100:
            x, steps = x + 1, steps + 1
            assert x[7].item() == steps
            if steps == 50:
                print("begun", flush=True)
        print(x.sum().item() == 1000 * steps)
    """, one.address, healed)
    until(lambda: "begun" in program.text() or not program.alive, "the program")
    one.bed.order(verb, 2, 0)
    until(lambda: "lost its connection" in one.server.text(), "the loss of the connection")
    one.bed.order("heal", 2, 0)
    until(lambda: "connected again" in program.text() or not program.alive, "another connection")
    healed.touch()
    assert program.wait(2 * PATIENCE_S) == 0, program.text()
    assert program.output.read_text() == "begun\nTrue\n", program.text()



# ---- recovery and changes -------------------------------------------------------------------------------------------

TRAINING = BEGIN + """
workers(3)
gt.register_config("data", gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[0, 1, 2])))
gt.manual_seed(1)
rng = np.random.default_rng(3)
model = nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 10))
optimizer = optim.AdamW(model.parameters(), lr=1e-3)
for step in range(60):
    for order in AT.get(step, ()):
        please(order)
    with gt.signal.context("data"):
        x = gt.tensor(rng.standard_normal((30, 24)).astype(np.float32))
        loss = nn.functional.cross_entropy(model(x), gt.tensor(rng.integers(0, 10, 30)))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 5 == 3:
        say(step, loss.item())
say(*(p.detach().numpy().tobytes().hex()[:64] for p in model.parameters()))
"""
RECOVER = ("--recover", "--recover-every", 0.05, "--recover-stand-in", 0.5)


def both(one, source):
    """The program says the same undisturbed and with the changes that it asks for."""
    calm, none = one.run(source)
    one.ask.mkdir()
    disturbed, given = one.run(source)
    assert calm and not none and given
    assert disturbed == calm
    assert one.server.alive


@pytest.mark.usual
@exchanges
def test_training_goes_on_when_hosts_are_lost(cluster, exchange):
    """One worker is killed and replaced, another host is cut off, and a third worker stands in for it."""
    one = cluster(3, exchange=exchange, options=RECOVER, **SOON)
    both(one, TRAINING.replace("AT.get", "{10: ['kill 1', 'join 1'], 40: ['cut 2']}.get"))


@exchanges
def test_a_host_that_comes_back(cluster, exchange):
    """The worker of a host that was cut off is not used any more; another one takes its number when the network is whole again."""
    one = cluster(3, exchange=exchange, options=RECOVER, **SOON)
    both(one, TRAINING.replace("AT.get", "{10: ['cut 1'], 30: ['heal 1', 'kill 1', 'join 1']}.get"))


@exchanges
def test_workers_leave_and_join(cluster, exchange):
    one = cluster(2, exchange=exchange)
    both(one, BEGIN + LIVE)
    assert all("drained" in text for text in one.texts) and len(one.texts) == 2, one.texts
