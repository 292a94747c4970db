"""Spread tensors on worker processes, on this host with each transport and on two hosts (network namespaces). Workers
pass data to each other directly."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap

import pytest

from support import GT_BINARY, PATIENCE_S, until

PROGRAM = """
    import sys
    import numpy as np
    import gt

    gt.connect(sys.argv[1])
    count = int(sys.argv[2])
    while len(gt.debug.get_worker_stats()) < count:
        pass
    gt.register_config('rows', gt.SignalConfig(shard=gt.ShardConfig(axis=0)))
    gt.register_config('columns', gt.SignalConfig(shard=gt.ShardConfig(axis=1)))
    gt.register_config('whole', gt.SignalConfig(shard=gt.ShardConfig(replicated=True)))
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((2, 300, 300))
    rows, columns = gt.signal.tensor(gt.tensor(A), name='rows'), gt.signal.tensor(gt.tensor(B), name='columns')
    whole = gt.signal.tensor(gt.tensor(B), name='whole')
    checks = [(rows @ whole, A @ B), (rows.T @ rows, A.T @ A), (rows @ columns, A @ B),
              (gt.signal.tensor(rows, name='columns') * 2, A * 2), (columns.T @ rows + rows, B.T @ A + A),
              (rows.amax(dim=0), A.max(0)), (rows.sum(dim=0) * columns.sum(dim=1), A.sum(0) * B.sum(1)),
              (rows.var(dim=0), A.var(0, ddof=1))]
    for got, expected in checks:
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-10)
    large = gt.signal.tensor(gt.full((1 << 19, 4), 1.5), name='rows')    # parts of megabytes: by segments where there are any
    assert (gt.signal.tensor(large, name='columns').sum(dim=0).numpy() == 1.5 * (1 << 19)).all()
    gt.synchronize()
    stats = gt.debug.get_worker_stats(wait=True).values()
    assert sum(w['collectives'] for w in stats) > 0 and sum(w['moves'] for w in stats) > 0
    print('agreed', sorted(w['link'] for w in stats))
"""


@pytest.mark.parametrize("transport", ["memory", "ipc", "tcp"])
def test_workers_of_several_processes(programs, transport):
    server = programs.server()
    for _ in range(3):
        programs.worker(server.port, "--threads", 1, host=f"{transport}://localhost")
    said = programs.run(PROGRAM, f"localhost:{server.port}", 3)
    assert said.strip() == f"agreed {[transport] * 3}"


def test_the_servers_config_is_the_default(programs):
    config = programs.directory / "server.yaml"
    config.write_text("ours: {shard: {axis: 0, workers: [0, 1]}}\nshared: {shard: {axis: 0, workers: [0, 1]}}\n"
                      "deep: {shard: {axis: 3}}\nabsent: {shard: {workers: [5]}}\n")
    server = programs.cluster(workers=2)
    other = programs.server("--config", config)
    for _ in range(2):
        programs.worker(other.port)
    said = programs.run("""
        import sys
        import gt
        for port in sys.argv[1:]:
            gt.connect('localhost:' + port)
            while len(gt.debug.get_worker_stats()) < 2:
                pass
            gt.register_config('shared', gt.SignalConfig(shard=gt.ShardConfig(axis=1, workers=[1, 0])))
            for name in ('ours', 'shared'):
                with gt.signal.context(name):
                    print(gt.zeros(4, 4).placement)
        for name in ('deep', 'absent'):             # only the server knows that these cannot be
            with gt.signal.context(name):
                made = gt.ones(4, 4), gt.tensor([1.0, 2.0]) * 2
            for t in made:
                try:
                    t.numpy()
                except Exception as error:
                    print(error)
        assert gt.ones(3).sum().item() == 3
    """, server.port, other.port)
    lines = said.splitlines()
    assert all("axis 3 of the signal is out of range" in line for line in lines[4:6]), lines
    assert all("signal absent: worker 5 is not there" in line for line in lines[6:8]), lines
    assert lines[:4] == ["single(worker=0)", "split(axis=1, workers=[1,0])",
                                 "split(axis=0, workers=[0,1])", "split(axis=1, workers=[1,0])"]


def test_shards_that_the_server_learns_of_later(programs):
    """A signal without shards leaves tensors on one worker, until the server's config has shards for it."""
    config = programs.directory / "server.yaml"
    config.write_text("ours: {compile: false}\n")
    server = programs.server("--config", config)
    for _ in range(2):
        programs.worker(server.port)
    client = programs.python("""
        import sys
        import gt
        gt.connect(sys.argv[1])
        while len(gt.debug.get_worker_stats()) < 2:
            pass
        def made():
            with gt.signal.context('ours'):
                a = gt.ones(4, 4)
                for _ in range(20):
                    b = a * 2 + 1
                assert b.sum().item() == 48
                return b.placement
        print(made(), flush=True)
        while made().startswith('single'):
            pass
        print(made(), flush=True)
        """, f"localhost:{server.port}", name="client")
    until(lambda: "single" in client.text() or not client.alive, "the first tensor")
    config.write_text("ours: {shard: {axis: 0, workers: [0, 1]}}\n")
    server.signal(signal.SIGHUP)
    assert client.wait() == 0, client.text()
    assert client.text().splitlines()[-1] == "split(axis=0, workers=[0,1])"


def test_a_bad_config_stops_the_server(programs):
    config = programs.directory / "bad.yaml"
    config.write_text("ours:\n  shard: {axes: 0}\n")
    server = programs.start([GT_BINARY, "server", "-p", 0, "--config", config], "server")
    assert server.wait(PATIENCE_S) == 1
    assert "bad.yaml:2: ours: unknown key 'axes'" in server.text()


def test_a_config_of_the_environment_that_is_wrong(programs):
    config = programs.directory / "bad.yaml"
    config.write_text("ours:\n  sharding: {axis: 0}\n")
    said = programs.run("""
        import gt
        try:
            gt.zeros(3)
        except gt.GtError as error:
            print(error)
    """, GT_CONFIG=str(config))
    assert "bad.yaml:2: ours: unknown key 'sharding'" in said


def test_a_worker_that_joins_late_and_one_that_leaves(programs):
    server = programs.server()
    programs.worker(server.port, "--name", "first")
    program = programs.python("""
        import sys
        import gt
        gt.connect('localhost:' + sys.argv[1])
        gt.register_config('both', gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[0, 1])))
        gt.register_config('copies', gt.SignalConfig(shard=gt.ShardConfig(workers=[0, 1], replicated=True)))
        try:
            gt.signal.enter('both')
        except gt.GtError as error:
            print(error, flush=True)
        while len(gt.debug.get_worker_stats()) < 2:
            pass
        with gt.signal.context('both'):
            x = gt.arange(10)
        with gt.signal.context('copies'):
            copies = gt.ones(5)
        print(x.placement, (x * 2).sum().item(), flush=True)
        while len(gt.debug.get_worker_stats()) > 1:
            pass
        for t in (x, x + 1):
            try:
                print(t.numpy())
            except gt.GtConnectionError as error:
                print(error, flush=True)
        print(copies.placement, copies.sum().item(), gt.ones(3).sum().item(), flush=True)
    """, server.port, name="waits")
    until(lambda: "worker 1 is not there: the server has 1 worker" in program.output.read_text(), "the first error")
    second = programs.worker(server.port, "--name", "second")
    until(lambda: "split(axis=0, workers=[0,1]) 90" in program.output.read_text(), "the split tensor")
    second.kill()
    assert program.wait(PATIENCE_S) == 0, program.text()
    lines = program.output.read_text().splitlines()
    assert all("worker second is gone" in line for line in lines[2:4]), lines
    assert lines[4] == "single(worker=0) 5.0 3.0"


def test_a_worker_without_memory_fails_what_all_take_part_in(programs):
    """All readers of the result get MemoryError, no worker hangs, and existing tensors stay usable."""
    server = programs.server()
    programs.worker(server.port)
    programs.worker(server.port, GT_WORKER_MEMORY="20M")
    said = programs.run("""
        import sys
        import gt
        gt.connect('localhost:' + sys.argv[1])
        while len(gt.debug.get_worker_stats()) < 2:
            pass
        gt.register_config('rows', gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[0, 1])))
        gt.register_config('whole', gt.SignalConfig(shard=gt.ShardConfig(workers=[0, 1], replicated=True)))
        with gt.signal.context('rows'):
            x = gt.ones(1 << 20, 4)
        for make in (lambda: gt.signal.tensor(x, name='whole'), lambda: gt.signal.tensor(x.T @ x.T.T, name='whole'),
                     lambda: gt.signal.tensor(x, name='whole') + 1):
            try:
                print(make().sum().item())
            except MemoryError as error:
                print('MemoryError')
        print(x.sum().item(), (x * 2).sum(dim=0).tolist())
    """, server.port)
    assert said.split() == ["MemoryError", str(float(16 << 20)), "MemoryError", str(float(4 << 20)), "[2097152.0,"] + [
        "2097152.0,"] * 2 + ["2097152.0]"]


def test_a_worker_that_is_stopped_in_the_middle(programs):
    """It keeps its connections open. Workers that wait for its part fail after GT_TIMEOUT and go on."""
    patience = {"GT_TIMEOUT": "2"}
    server = programs.server(**patience)
    programs.worker(server.port, "--name", "first", **patience)
    second = programs.worker(server.port, "--name", "second", **patience)
    news = programs.directory / "news"
    news.write_text("")
    program = programs.python("""
        import sys
        import gt
        gt.connect('localhost:' + sys.argv[1])
        while len(gt.debug.get_worker_stats()) < 2:
            pass
        gt.register_config('rows', gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[0, 1])))
        with gt.signal.context('rows'):
            x = gt.ones(1000, 4)
        print(x.sum(dim=0).tolist(), flush=True)
        while 'stopped' not in open(sys.argv[2]).read():
            pass
        try:
            print((x * 2).sum(dim=0).tolist())
        except gt.GtConnectionError as error:
            print(error)
        print(gt.ones(3).sum().item())
    """, server.port, news, name="waits", **patience)
    until(lambda: "[1000.0, 1000.0, 1000.0, 1000.0]" in program.output.read_text(), "the first sum")
    second.popen.send_signal(signal.SIGSTOP)
    news.write_text("stopped")
    assert program.wait(PATIENCE_S) == 0, program.text()
    lines = program.output.read_text().splitlines()
    assert "second" in lines[1] and "gone" in lines[1], lines
    assert lines[2] == "3.0"


# ---- two hosts ------------------------------------------------------------------------------------------------------


def ip(*arguments):
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=PATIENCE_S)


@pytest.fixture
def namespaces():
    """Two network namespaces with a wire between them: (name, name), addresses 10.77.0.1 and 10.77.0.2."""
    if not shutil.which("ip"):
        pytest.skip("the ip command is not installed")
    names = [f"gt-test-{os.getpid()}-{k}" for k in range(2)]
    made = ip("netns", "add", names[0])
    if made.returncode:
        pytest.skip(f"network namespaces are not allowed here: {made.stderr.strip()}")
    try:
        steps = [("netns", "add", names[1]),
                 ("link", "add", "gt0", "netns", names[0], "type", "veth", "peer", "name", "gt1", "netns", names[1])]
        for k, name in enumerate(names):
            steps += [("-n", name, "addr", "add", f"10.77.0.{k + 1}/24", "dev", f"gt{k}"),
                      ("-n", name, "link", "set", f"gt{k}", "up"), ("-n", name, "link", "set", "lo", "up")]
        for step in steps:
            done = ip(*step)
            if done.returncode:
                pytest.skip(f"network namespaces do not work here: ip {' '.join(step)}: {done.stderr.strip()}")
        yield names
    finally:
        for name in names:
            ip("netns", "delete", name)


def test_workers_on_two_hosts(programs, namespaces):
    near, far = (["ip", "netns", "exec", name] for name in namespaces)
    port_file, server_key, far_key, allowed = (programs.directory / name for name in ("port", "server.key", "far.key", "allowed"))

    def keygen(*arguments):
        return subprocess.run([GT_BINARY, "keygen", *arguments], capture_output=True, text=True, check=True).stdout.strip()

    public = keygen(server_key)
    allowed.write_text(f"worker {keygen(far_key, '--server', public)} far\n")
    programs.start([*near, GT_BINARY, "server", "-p", 0, "--host", "0.0.0.0", "--key-file", server_key,
                    "--allow-keys", allowed, "--port-file", port_file], "server")
    port = until(lambda: port_file.exists() and port_file.read_text().strip(), "the server's port")
    for place, host in ((near, "localhost"), (near, "localhost"), (far, "10.77.0.1"), (far, "10.77.0.1")):
        keys = ["--key-file", far_key, "--listen", "auto"] if place is far else []
        programs.start([*place, GT_BINARY, "worker", "--host", host, "-p", port, "--threads", 1, *keys], "worker")
    path = programs.directory / "program.py"
    path.write_text(textwrap.dedent(PROGRAM))
    client = programs.start([*near, sys.executable, path, f"localhost:{port}", "4"], "client")
    assert client.wait(2 * PATIENCE_S) == 0, client.text()
    assert client.output.read_text().strip() == "agreed ['memory', 'memory', 'tcp', 'tcp']"



COPIES = """
    import sys
    import numpy as np
    import gt
    gt.connect('localhost:' + sys.argv[1])
    gt.register_config('one', gt.SignalConfig(gt.ShardConfig(None, [1])))
    gt.register_config('rows', gt.SignalConfig(gt.ShardConfig(0, [0, 1, 2])))
    with gt.signal.context('one'):
        x = gt.tensor(np.arange(6.)) + 0
    with gt.signal.context('rows'):
        rows = gt.tensor(np.ones((6, 6)))
    print(x.placement, (rows * x).sum().item(), flush=True)
    while len(gt.debug.get_worker_stats()) > 2:
        pass
    for name, tensor in (('x', x), ('rows', rows)):
        try:
            print(name, tensor.sum().item())
        except gt.GtConnectionError:
            print(name, 'is gone')
"""


def test_copies_on_other_workers_remain(programs):
    """A tensor of one worker that others have copies of is not lost with that worker; one of which it has a part is."""
    server = programs.server()
    workers = [programs.worker(server.port, "--index", str(k)) for k in range(3)]
    program = programs.python(COPIES, server.port, name="copies")
    until(lambda: "single(worker=1) 90.0" in program.output.read_text(), "the product")
    workers[1].kill()
    assert program.wait(PATIENCE_S) == 0, program.text()
    assert program.output.read_text().splitlines()[-2:] == ["x 15.0", "rows is gone"]
