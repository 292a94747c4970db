"""Workers that pass data to each other by UCX (GT_EXCHANGE=ucx), a plug-in that is built where libucx is."""

import json
import pathlib
import shutil
import subprocess
import sys
import textwrap

import pytest

from support import GT_BINARY, PATIENCE_S, clean_environment, until
from test_security import listening_ports
from test_sharded_processes import PROGRAM, namespaces  # noqa: F401, a fixture

PLUGIN = pathlib.Path(GT_BINARY).resolve().parent / "gt-exchange-ucx.so"
needs_ucx = pytest.mark.skipif(not PLUGIN.exists(), reason="gt is built without libucx")

TRAINING = """
    import json, sys
    import numpy as np
    import gt
    import gt.nn as nn

    gt.connect(sys.argv[1])
    while len(gt.debug.get_worker_stats()) < 2:
        pass
    gt.register_config('batch', gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[0, 1])))
    gt.register_config('weights', gt.SignalConfig(shard=gt.ShardConfig(workers=[0, 1], replicated=True)))
    rng = np.random.default_rng(0)
    x = rng.standard_normal((512, 300)).astype(np.float32)
    y = np.tanh(x @ rng.standard_normal((300, 10)).astype(np.float32))
    gt.manual_seed(0)
    model = nn.Sequential(nn.Linear(300, 400), nn.ReLU(), nn.Linear(400, 10))
    with gt.signal.context('weights'):
        for parameter in model.parameters():
            parameter.data = gt.signal.tensor(parameter.data, name='weights')
    optimizer = gt.optim.SGD(model.parameters(), lr=0.05)
    a, b = (gt.signal.tensor(gt.tensor(each), name='batch') for each in (x, y))
    losses = []
    for _ in range(12):
        loss = ((model(a) - b) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    stats = gt.debug.get_worker_stats(wait=True).values()
    assert sum(w['collectives'] for w in stats) > 0
    print(json.dumps([losses, sorted(w['exchange'] for w in stats)]))
"""


def trained(programs, *exchanges):
    server = programs.server()
    for exchange in exchanges:
        programs.worker(server.port, "--threads", 1, GT_EXCHANGE=exchange)
    return json.loads(programs.run(TRAINING, f"localhost:{server.port}"))


@needs_ucx
def test_training_is_the_same(programs):
    """Also where only one of two workers has it: they use what both have."""
    losses, exchanges = trained(programs, "mesh", "auto")
    assert exchanges == ["mesh", "mesh"] and losses[-1] < losses[0]
    assert trained(programs, "ucx", "ucx") == [losses, ["ucx", "ucx"]]
    assert trained(programs, "ucx", "mesh") == [losses, ["mesh", "ucx"]]


@needs_ucx
def test_what_spread_tensors_do(programs):
    server = programs.server()
    workers = [programs.worker(server.port, "--threads", 1, GT_EXCHANGE="ucx", GT_VERBOSE=1) for _ in range(3)]
    assert "agreed" in programs.run(PROGRAM, f"localhost:{server.port}", 3)
    top = subprocess.run([GT_BINARY, "top", "--once", "-p", str(server.port)], capture_output=True, text=True, check=True,
                         env=clean_environment(programs.runtime)).stdout
    assert top.count(" cpu+ucx ") == 3, top
    for worker in workers:
        assert not listening_ports(worker.pid)
        assert "workers exchange by ucx where both have it, on this host\n" in worker.text()
        assert " exchange by ucx\n" in worker.text()


@needs_ucx
def test_memory_that_the_host_does_not_read(programs):
    """Tensors go by UCX from one engine's memory to the other's; a queue computes them. The losses are those of the cpu engine."""
    losses, _ = trained(programs, "mesh", "mesh")
    server = programs.server()
    workers = [programs.worker(server.port, "--backend", "late", "--threads", 1, GT_EXCHANGE="ucx", GT_LATE_LENDS=1, GT_VERBOSE=1)
               for _ in range(2)]
    assert json.loads(programs.run(TRAINING, f"localhost:{server.port}")) == [losses, ["ucx", "ucx"]]
    moved = programs.run("""
        import sys
        import gt
        gt.connect(sys.argv[1])
        for number in range(2):
            gt.register_config(f'on{number}', gt.SignalConfig(shard=gt.ShardConfig(workers=[number], replicated=True)))
        x = gt.signal.tensor(gt.arange(1 << 20), name='on0')
        for k in range(20):
            x = gt.signal.tensor(x + 1, name=f'on{(k + 1) % 2}')
        print((x - gt.signal.tensor(gt.arange(1 << 20), name='on0')).sum().item())
    """, f"localhost:{server.port}")
    assert moved.strip() == str(20 << 20)
    for worker in workers:
        assert "tensors in the memory of the late engine go by ucx directly\n" in worker.text()


@needs_ucx
def test_a_worker_that_is_killed(programs):
    server = programs.server()
    programs.worker(server.port, "--name", "first", "--index", 0, GT_EXCHANGE="ucx")
    second = programs.worker(server.port, "--name", "second", "--index", 1, GT_EXCHANGE="ucx")
    program = programs.python("""
        import sys
        import gt
        gt.connect(sys.argv[1])
        while len(gt.debug.get_worker_stats()) < 2:
            pass
        for number in range(2):
            gt.register_config(f'on{number}', gt.SignalConfig(shard=gt.ShardConfig(workers=[number], replicated=True)))
        x = gt.signal.tensor(gt.ones(1 << 20), name='on1')
        kept = gt.signal.tensor(x, name='on0')
        print(kept.sum().item(), flush=True)
        try:
            while True:
                gt.signal.tensor(x + 1, name='on0').sum().item()
        except gt.GtConnectionError as error:
            print(error)
        print(kept.sum().item())
    """, f"localhost:{server.port}", name="client")
    until(lambda: "1048576" in program.text() or not program.alive, "the first sum")
    second.kill()
    assert program.wait(PATIENCE_S) == 0, program.text()
    lines = program.text().splitlines()
    assert "worker second is gone" in lines[1] and lines[2] == "1048576.0", lines


@needs_ucx
def test_two_hosts(programs, namespaces):  # noqa: F811
    """By tcp, the one way that two network namespaces have in any case. UCX listens only on the interface towards the server."""
    near, far = (["ip", "netns", "exec", name] for name in namespaces)
    port_file, server_key, key, allowed = (programs.directory / name for name in ("port", "server.key", "key", "allowed"))

    def keygen(*arguments):
        return subprocess.run([GT_BINARY, "keygen", *arguments], capture_output=True, text=True, check=True).stdout.strip()

    for number, name in enumerate(namespaces):                  # a new interface takes a second; UCX leaves out one that is not up
        until(lambda: b"state UP" in subprocess.run(["ip", "-n", name, "link", "show", f"gt{number}"], capture_output=True).stdout,
              "the interface")
    public = keygen(server_key)
    pair = keygen(key, "--server", public)
    allowed.write_text(f"worker {pair} workers\nclient {pair} clients\n")
    programs.start([*near, GT_BINARY, "server", "-p", 0, "--host", "10.77.0.1", "--key-file", server_key,
                    "--allow-keys", allowed, "--port-file", port_file], "server")
    port = until(lambda: port_file.exists() and port_file.read_text().strip(), "the server's port")
    workers = [programs.start([*place, GT_BINARY, "worker", "--host", "10.77.0.1", "-p", port, "--threads", 1, "--key-file", key,
                               "--listen", "auto"], "worker", GT_EXCHANGE="ucx", UCX_TLS="tcp", GT_VERBOSE=1)
               for place in (near, far)]
    path = programs.directory / "program.py"
    path.write_text(textwrap.dedent(PROGRAM))
    client = programs.start([*near, sys.executable, path, f"10.77.0.1:{port}", "2"], "client", GT_KEY_FILE=key)
    assert client.wait(2 * PATIENCE_S) == 0, client.text()
    for worker, interface in zip(workers, ("gt0", "gt1")):
        assert f"workers exchange by ucx where both have it, on this host and on the interface {interface}\n" in worker.text()
        assert " exchange by ucx\n" in worker.text()
    sockets = subprocess.run([*far, "cat", "/proc/net/tcp"], capture_output=True, text=True, check=True).stdout.splitlines()[1:]
    listening = {line.split()[1].split(":")[0] for line in sockets if line.split()[3] == "0A"}
    assert listening == {"02004D0A"}                             # 10.77.0.2


def test_an_exchange_that_is_not_there(programs, tmp_path):
    server = programs.server()
    elsewhere = tmp_path / "gt"
    shutil.copy(GT_BINARY, elsewhere)
    for program, name, text in [(GT_BINARY, "pigeons", "GT_EXCHANGE is 'auto', 'mesh', 'ucx' or 'nccl', not 'pigeons'"),
                                (GT_BINARY, "nccl", "GT_EXCHANGE=nccl cannot be used: it is for workers of the cuda engine"),
                                (elsewhere, "ucx", "GT_EXCHANGE=ucx: this installation is built without it")]:
        worker = programs.start([program, "worker", "-p", server.port], "worker", GT_EXCHANGE=name)
        assert worker.wait(PATIENCE_S) == 1
        assert text in worker.text() and worker.text().count("\n") == 1, worker.text()
