"""Servers and workers in other processes: all transports, several clients, peers that die or stop."""

import os
import shutil
import signal
import socket
import subprocess
import threading

import pytest

from support import GT_BINARY, PATIENCE_S, free_port, in_process_group, until

TRANSPORTS = ["memory", "ipc", "tcp"]

# A small program with the right answers: sys.argv[1] is the address.
WORK = """
    import sys
    import numpy as np
    import gt
    gt.connect(sys.argv[1])
    a = gt.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))
    b = gt.ones(3, 2)
    assert (a @ b).tolist() == [[3, 3], [12, 12]]
    assert (a + 1).sum().item() == 21
    t = gt.zeros(8, 8)
    for _ in range(5000):
        t = t + 1
    assert t.sum().item() == 64 * 5000
    print("right")
"""

BULK = """
    import sys
    import numpy as np
    import gt
    gt.connect(sys.argv[1])
    data = np.random.default_rng(1).random(8 * 1024 * 1024)  # 64 MiB
    t = gt.from_numpy(data)
    assert np.array_equal(t.numpy(), data)
    assert np.array_equal((t * 2).numpy(), data * 2)
    assert t[12345].item() == data[12345]
    print("right")
"""


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_transport(programs, transport):
    server = programs.cluster()
    assert programs.run(WORK, f"{transport}://localhost:{server.port}") == "right\n"
    assert server.alive and server.workers[0].alive


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_bulk(programs, transport):
    server = programs.cluster()
    assert programs.run(BULK, f"{transport}://localhost:{server.port}", patience_s=2 * PATIENCE_S) == "right\n"


def test_the_address_without_a_transport(programs):
    server = programs.cluster()
    assert programs.run(WORK, f"localhost:{server.port}") == "right\n"
    assert programs.run(WORK, f"127.0.0.1:{server.port}") == "right\n"


def test_python_modules_are_the_programs(programs):
    server = programs.server(python=True)
    worker = programs.worker(server.port, python=True)
    assert programs.run(WORK, f"localhost:{server.port}") == "right\n"
    assert server.alive and worker.alive
    for process in (worker, server):
        process.signal(signal.SIGINT)
        assert process.wait() in (0, -signal.SIGINT, 130), process.text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_ends_when_asked_and_takes_its_sockets_with_it(programs, number):
    server = programs.cluster()
    assert programs.run(WORK, f"localhost:{server.port}") == "right\n"
    assert programs.runtime_entries(), "a server has its sockets in the runtime directory"
    server.signal(number)
    assert server.wait() in (0, 128 + number, -number), server.text()
    assert server.workers[0].wait() is not None
    assert programs.runtime_entries() == []


def test_a_killed_server_leaves_nothing_that_stops_the_next(programs):
    server = programs.cluster(worker_options=["--timeout", 1])
    server.kill()
    server.workers[0].wait()
    again = programs.start(
        [*server.arguments[:2], "-p", server.port, "--port-file", programs.directory / "again"], "server"
    )
    until(lambda: (programs.directory / "again").exists() or not again.alive, "the second server")
    assert again.alive, again.text()
    programs.worker(server.port)
    assert programs.run(WORK, f"localhost:{server.port}") == "right\n"


def test_sockets_of_killed_servers_are_swept(programs):
    """The next server that starts removes them, on any port; sockets of running servers stay."""
    killed, living = [programs.server() for _ in range(3)], programs.server()
    for server in killed:
        server.kill()
    left = programs.runtime_entries()
    assert all(any(str(server.port) in entry for entry in left) for server in (*killed, living))
    last = programs.server()
    ports = {entry.rpartition("/")[2].partition(".")[0] for entry in programs.runtime_entries()}
    assert ports == {str(living.port), str(last.port)}
    for server in (living, last):
        programs.worker(server.port)
        assert programs.run(WORK, f"memory://localhost:{server.port}") == "right\n"
        assert programs.run(WORK, f"ipc://localhost:{server.port}") == "right\n"


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_what_a_killed_server_leaves_is_removed_by_its_peers(programs, transport):
    """By the worker alone, and by the client alone."""
    server = programs.server()
    worker = programs.worker(server.port, "--timeout", 1, host=f"{transport}://localhost")
    assert programs.run(WORK, f"localhost:{server.port}") == "right\n"
    server.kill()
    assert worker.wait() != 0
    assert programs.runtime_entries() == []
    server = programs.cluster()
    ready, dead = programs.directory / "ready", programs.directory / "dead"
    client = programs.python("""
        import pathlib, sys, gt
        gt.connect(sys.argv[1])
        a = gt.ones(3)
        a.sum().item()
        pathlib.Path(sys.argv[2]).touch()
        try:
            while True:
                (a + 1).sum().item()
        except ConnectionError:
            while not pathlib.Path(sys.argv[3]).exists():
                pass
        """, f"{transport}://localhost:{server.port}", ready, dead)
    until(ready.exists, "the client")
    server.workers[0].signal(signal.SIGSTOP)  # so that it is the client that removes them
    server.kill()
    dead.touch()
    assert client.wait() == 0, client.text()
    left = [entry for entry in programs.runtime_entries() if f"/{server.port}." in entry]
    server.workers[0].kill()
    assert left == []


def test_what_a_killed_worker_leaves_is_removed_by_the_server(programs):
    server = programs.cluster(workers=2)
    assert programs.run(WORK, f"localhost:{server.port}") == "right\n"
    until(lambda: len(programs.runtime_entries()) == 5, "the sockets of server and workers")
    server.workers[0].kill()
    until(lambda: len(programs.runtime_entries()) == 4, "the server to remove the worker's socket")
    server.workers[1].kill()
    until(lambda: len(programs.runtime_entries()) == 3, "the server to remove the other socket")


HOLDS = """
    import pathlib, sys, time
    import gt
    if len(sys.argv) > 2:
        gt.connect(sys.argv[2])
    kept = [gt.from_numpy(__import__("numpy").ones(1 << 20)) + k for k in range(3)]
    assert kept[-1].sum().item() == 3 << 20
    pathlib.Path(sys.argv[1]).touch()
    time.sleep(600)
"""


def test_nothing_is_left_of_killed_processes(programs):
    """Clients, workers, the server and a program with its own server are killed: no process, no shared memory, and no file but
    sockets, which the next server removes."""
    def segments():
        return {name for name in os.listdir("/dev/shm") if "gt" in name}

    before = segments()
    server = programs.cluster(workers=2)
    ready = [programs.directory / f"ready-{k}" for k in range(4)]
    clients = [programs.python(HOLDS, path, f"{transport}://localhost:{server.port}") for path, transport in zip(ready, TRANSPORTS)]
    clients.append(programs.python(HOLDS, ready[-1]))
    until(lambda: all(path.exists() for path in ready), "the clients")
    killed = [*clients, *server.workers, server]
    for process in killed:
        process.kill()
    assert not any(in_process_group(process.pid) for process in killed)
    assert segments() <= before
    assert all(entry.rpartition(".")[2] in ("memory", "ipc", "keys", "lock") for entry in programs.runtime_entries())
    other = programs.cluster()
    assert programs.run(WORK, f"localhost:{other.port}") == "right\n"
    other.end()
    assert other.workers[0].wait() == 0, other.workers[0].text()
    assert programs.runtime_entries() == []


def test_two_servers_cannot_have_one_port(programs):
    server = programs.server()
    second = programs.start([*server.arguments[:2], "-p", server.port], "second")
    assert second.wait() != 0
    assert str(server.port) in second.text()
    assert server.alive


# ---- no server ------------------------------------------------------------------------------------------------

CONNECT = """
    import sys, time
    import gt
    start = time.monotonic()
    try:
        gt.connect(sys.argv[1], **eval(sys.argv[2]))
    except ConnectionError as error:
        kind = "TimeoutError" if isinstance(error, TimeoutError) else "ConnectionError"
        print(kind, round(time.monotonic() - start, 2), error, sep="|")
    else:
        print("connected", gt.ones(3).sum().item(), sep="|")
"""


@pytest.mark.parametrize(
    "address", ["localhost:{}", "memory://localhost:{}", "ipc://localhost:{}", "tcp://localhost:{}"]
)
def test_unreachable_server(programs, address):
    port = free_port()
    kind, seconds, text = programs.run(CONNECT, address.format(port), "dict(timeout=2)").split("|", 2)
    assert kind == "ConnectionError"
    assert float(seconds) < 10 and str(port) in text


def test_the_timeout_of_the_environment(programs):
    kind, seconds, _ = programs.run(CONNECT, f"tcp://localhost:{free_port()}", "{}", GT_CONNECT_TIMEOUT=1).split(
        "|", 2
    )
    assert float(seconds) < 9, "the default of 10 s was not replaced"


def test_a_host_that_does_not_exist(programs):
    kind, _, text = programs.run(CONNECT, "no-such-host.invalid:12345", "dict(timeout=2)").split("|", 2)
    assert "no-such-host.invalid" in text


def test_something_else_listens_on_the_port(programs):
    """A port that accepts and never answers, like that of another program."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        kind, seconds, text = programs.run(
            CONNECT, f"tcp://localhost:{listener.getsockname()[1]}", "dict(timeout=2)"
        ).split("|", 2)
    assert kind == "TimeoutError" and float(seconds) < 10


def test_a_port_of_another_protocol(programs):
    """A port that answers HTTP."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def serve():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    try:
                        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                    except OSError:
                        pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        kind, seconds, _ = programs.run(
            CONNECT, f"tcp://localhost:{listener.getsockname()[1]}", "dict(timeout=2)"
        ).split("|", 2)
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(PATIENCE_S)
    assert kind == "ConnectionError" and float(seconds) < 10


def test_bad_addresses(programs):
    text = programs.run("""
        import gt
        for address in ("localhost", "localhost:", "localhost:port", "localhost:0", "localhost:70000", "", ":",
                        "quux://localhost:1", "localhost:-1", "localhost:1x"):
            try:
                gt.connect(address)
            except ValueError as error:
                assert str(error), address
            else:
                print("accepted", address)
        for address in (12345, None, b"localhost:1", ("localhost", 1)):
            try:
                gt.connect(address)
            except TypeError as error:
                assert "address" in str(error) and type(address).__name__ in str(error), error
            else:
                print("accepted", address)
        print(gt.ones(2).sum().item())
    """)
    assert text == "2.0\n"


def test_no_worker_in_time(programs):
    server = programs.server()
    kind, seconds, text = programs.run(CONNECT, f"localhost:{server.port}", "dict(timeout=1)").split("|", 2)
    assert kind == "TimeoutError" and "worker" in text and float(seconds) < 8
    assert server.alive


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_late_worker_is_waited_for(programs, transport):
    server = programs.server()
    client = programs.python(
        f"""
        import pathlib, sys
        import gt
        pathlib.Path(sys.argv[2]).touch()
        gt.connect(sys.argv[1], timeout={PATIENCE_S})
        print(gt.ones(3).sum().item())
    """,
        f"{transport}://localhost:{server.port}",
        programs.directory / "started",
    )
    until((programs.directory / "started").exists, "the client")
    programs.worker(server.port)
    assert client.wait() == 0, client.text()
    assert client.output.read_text() == "3.0\n"


IN_CONTAINER = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]


def may_unshare():
    return shutil.which("unshare") and not subprocess.run([*IN_CONTAINER, "true"], capture_output=True).returncode


@pytest.mark.skipif(not may_unshare(), reason="this user may not make namespaces")
def test_workers_in_containers_have_different_names(programs):
    """Both are process 1; if they share a network they have the same host name, too."""
    server = programs.server()
    for _ in range(2):
        programs.start([*IN_CONTAINER, GT_BINARY, "worker", "-p", server.port], "worker", GT_BACKEND="cpu")
    names = eval(programs.run(
        """
        import sys, time
        import gt
        gt.connect(sys.argv[1])
        until = time.monotonic() + 30
        while len(found := gt.debug.dispatcher_stats()["workers"]) < 2 and time.monotonic() < until:
            pass
        print([worker["name"] for worker in found])
        """,
        f"localhost:{server.port}",
    ))
    assert names == [f"worker_{socket.gethostname()[:47]}", f"worker_{socket.gethostname()[:47]}_1"]


def test_one_process_has_several_workers(programs):
    server = programs.server()
    worker = programs.worker(server.port, "--workers", 3, "--name", "card", "--index", 1)
    text = programs.run(
        """
        import sys, time
        import gt
        gt.connect(sys.argv[1])
        found, until = {}, time.monotonic() + 30
        while len(found) < 3 and time.monotonic() < until:
            found = {w["index"]: w["name"] for w in gt.debug.get_worker_stats().values()}
        print(sorted(found.items()))
        gt.register_config("each", gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[1, 2, 3])))
        with gt.signal.context("each"):
            x = gt.ones(6, 2)
            print(x.placement, (x * 2).sum().item())
        """,
        f"localhost:{server.port}",
    )
    assert text.splitlines() == ["[(1, 'card'), (2, 'card_1'), (3, 'card_2')]", "split(axis=0, workers=[1,2,3]) 24.0"]
    worker.popen.terminate()
    assert worker.wait() == 0, worker.text()


def test_workers_of_one_process_have_numbers_below_the_limit(programs):
    worker = programs.worker(1, "--workers", 4, "--index", 254)
    assert worker.wait() == 1
    assert "--index 254 and --workers 4: numbers end at 255" in worker.text()


STEADY = """
    import pathlib, sys, time
    import gt
    gt.connect(sys.argv[1])
    started, stop = map(pathlib.Path, sys.argv[2:4])
    deadline, count = time.monotonic() + float(sys.argv[4]), 0
    while not stop.exists() and time.monotonic() < deadline:
        t = gt.ones(100)
        assert (t + t).sum().item() == 200
        count += 1
        started.touch()
    print("right", count > 0)
"""


def steady_client(programs, address, seconds=60):
    """Works for a time, or until the file `stop` exists."""
    started, stop = programs.directory / "started", programs.directory / "stop"
    client = programs.python(STEADY, address, started, stop, seconds)
    until(lambda: started.exists() or not client.alive, "the steady client")
    assert client.alive, client.text()
    return client, stop


# ---- peers that die -------------------------------------------------------------------------------------------

# Connects and touches argv[2]. When argv[3] exists, touches argv[4] and reads a sum; prints the outcome and the time.
WAITER = """
    import pathlib, sys, time
    import gt

    def kind(error):
        return next(one.__name__ for one in (ConnectionError, type(error)) if isinstance(error, one))

    gt.connect(sys.argv[1])
    t = gt.ones(1000)
    assert t.sum().item() == 1000
    pathlib.Path(sys.argv[2]).touch()
    while not pathlib.Path(sys.argv[3]).exists():
        time.sleep(0.01)
    pathlib.Path(sys.argv[4]).touch()
    start = time.monotonic()
    try:
        print("read", t.sum().item())
    except Exception as error:
        print(kind(error), round(time.monotonic() - start, 2), error, sep="|")
        try:
            gt.ones(2).sum().item()
        except Exception as error:
            print(kind(error), error, sep="|")
"""


def state_of(pid):
    """'R' running, 'S' sleeping, ..."""
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0]


def waiter(programs, server, transport, **environment):
    ready, go, waiting = (programs.directory / name for name in ("ready", "go", "waiting"))
    client = programs.python(
        WAITER, f"{transport}://localhost:{server.port}", ready, go, waiting, **environment
    )
    until(lambda: ready.exists() or not client.alive, "the client")
    assert client.alive, client.text()
    client.waits = lambda: waiting.exists() and state_of(client.pid) == "S"
    return client, go


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_server_is_killed_while_a_client_waits(programs, transport):
    server = programs.cluster(worker_options=["--timeout", 1])
    client, go = waiter(programs, server, transport)
    os.kill(server.workers[0].pid, signal.SIGSTOP)  # so that the client certainly waits
    try:
        go.touch()
        until(client.waits, "the client to wait")
        server.kill()
        assert client.wait(2 * PATIENCE_S) == 0, client.text()
    finally:
        server.workers[0].signal(signal.SIGCONT)
    first = client.output.read_text().splitlines()[0]
    assert first.split("|")[0] == "ConnectionError", first
    assert server.workers[0].wait(2 * PATIENCE_S) is not None, "a worker without a server ends"


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_server_is_gone_before_the_next_read(programs, transport):
    server = programs.cluster()
    client, go = waiter(programs, server, transport)
    server.kill()
    go.touch()
    assert client.wait(2 * PATIENCE_S) == 0, client.text()
    lines = client.output.read_text().splitlines()
    assert lines[0].startswith("Connection") and lines[1].startswith("Connection"), lines


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_worker_is_killed(programs, transport):
    server = programs.cluster()
    client, go = waiter(programs, server, transport)
    server.workers[0].kill()
    go.touch()
    assert client.wait(2 * PATIENCE_S) == 0, client.text()
    first = client.output.read_text().splitlines()[0]
    assert "Error" in first and "worker" in first, first
    assert server.alive
    programs.worker(server.port)
    assert programs.run(WORK, f"localhost:{server.port}") == "right\n"


def test_a_worker_is_killed_while_a_client_waits(programs):
    server = programs.cluster()
    client, go = waiter(programs, server, "memory")
    worker = server.workers[0]
    os.kill(worker.pid, signal.SIGSTOP)
    go.touch()
    until(client.waits, "the client to wait")
    worker.kill()
    assert client.wait(2 * PATIENCE_S) == 0, client.text()
    assert "worker" in client.output.read_text()


# ---- peers that stop ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_server_is_stopped_while_a_client_waits(programs, transport):
    """A stopped server keeps its connections open: an exception after GT_TIMEOUT, and the worker ends too."""
    server = programs.server()
    worker = programs.worker(server.port, "--timeout", 1, host=f"{transport}://localhost", GT_TIMEOUT=2)
    client, go = waiter(programs, server, transport, GT_TIMEOUT=2)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        go.touch()
        assert client.wait(PATIENCE_S) == 0, client.text()
        assert worker.wait(PATIENCE_S) == 1, worker.text()
    finally:
        server.signal(signal.SIGCONT)
    first = client.output.read_text().splitlines()[0]
    assert first.startswith("ConnectionError") and "the server" in first, first
    assert "the server" in worker.text()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_worker_is_stopped_while_a_client_waits(programs, transport):
    """Reads of its tensors fail with its name, the server and its other worker go on."""
    server = programs.server(GT_TIMEOUT=2)
    worker = programs.worker(server.port, "--name", "sleepy", host=f"{transport}://localhost", GT_TIMEOUT=2)
    client, go = waiter(programs, server, "memory")
    os.kill(worker.pid, signal.SIGSTOP)
    try:
        go.touch()
        assert client.wait(PATIENCE_S) == 0, client.text()
        first = client.output.read_text().splitlines()[0]
        assert first.startswith("ConnectionError") and "sleepy" in first, first
        programs.worker(server.port)
        assert programs.run(WORK, f"localhost:{server.port}") == "right\n"
    finally:
        worker.signal(signal.SIGCONT)
    # A worker that was given up joins again when it wakes.
    names = "import sys, gt, gt.debug; gt.connect(sys.argv[1]); print(*gt.debug.get_worker_stats())"
    until(lambda: "sleepy" in programs.run(names, f"localhost:{server.port}"), "the worker to come back")


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_busy_worker_is_not_given_up(programs, transport):
    """One instruction takes several times GT_TIMEOUT, with more frames queued behind it than ZeroMQ's default limit."""
    server = programs.server(GT_TIMEOUT=2)
    worker = programs.worker(
        server.port, "--backend", "reference", host=f"{transport}://localhost", GT_TIMEOUT=2
    )
    text = programs.run(
        """
        import sys, time
        import gt
        gt.connect(sys.argv[1])
        def took(size):
            start = time.monotonic()
            a = gt.ones(size, size)
            assert (a @ a)[0, 0].item() == size
            return time.monotonic() - start
        size = int(256 * (5 / min(took(256) for _ in range(2))) ** (1 / 3))  # about five seconds on this machine
        a = gt.ones(size, size)
        b, c = a @ a, gt.ones(2)
        flush = gt._gt.stats  # answered by the dispatcher alone: each goes out, and what was emitted before it
        for _ in range(3000):
            c = c + 1
            flush()
        print(b[0, 0].item() == size, c.tolist())
    """,
        f"{transport}://localhost:{server.port}",
        GT_TIMEOUT=2,
        patience_s=4 * PATIENCE_S,
    )
    assert text == "True [3001.0, 3001.0]\n"
    assert worker.alive


def test_a_stopped_client_is_not_given_up(programs):
    """A client stopped with Ctrl-Z keeps its session on the memory link, where it costs nothing."""
    server = programs.cluster(GT_TIMEOUT=1)
    client, go = waiter(programs, server, "memory")
    os.kill(client.pid, signal.SIGSTOP)
    other, stop = steady_client(programs, f"localhost:{server.port}", seconds=3)
    assert other.wait() == 0, other.text()
    client.signal(signal.SIGCONT)
    go.touch()
    assert client.wait() == 0, client.text()
    assert client.output.read_text() == "read 1000.0\n"


def test_a_client_goes_on_with_a_new_worker(programs):
    """Tensors are lost with the worker, and reading one says so; new ones live on the next worker."""
    server = programs.cluster()
    lost, go = programs.directory / "lost", programs.directory / "go"
    client = programs.python(
        """
        import pathlib, sys, time
        import gt
        gt.connect(sys.argv[1])
        old = gt.ones(3)
        assert old.sum().item() == 3
        pathlib.Path(sys.argv[2]).touch()
        while not pathlib.Path(sys.argv[3]).exists():
            time.sleep(0.01)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                assert gt.ones(4).sum().item() == 4
                break
            except Exception as error:
                assert "worker" in str(error), error
                time.sleep(0.05)
        else:
            sys.exit("no new worker")
        try:
            old.numpy()
        except Exception as error:
            assert "worker" in str(error), error
            print("lost")
    """,
        f"localhost:{server.port}",
        lost,
        go,
    )
    until(lambda: lost.exists() or not client.alive, "the client")
    server.workers[0].kill()
    programs.worker(server.port)
    go.touch()
    assert client.wait() == 0, client.text()
    assert client.output.read_text() == "lost\n"


@pytest.mark.parametrize("link", ["memory", "tcp"])
def test_a_client_that_vanishes_is_forgotten(programs, link):
    server = programs.cluster(GT_RESUME=3600)  # which is for clients that may come back: none of this host
    address = f"{link}://localhost:{server.port}"
    for ending in ("os._exit(0)", "os.kill(os.getpid(), 9)", "raise SystemExit", "1 / 0"):
        process = programs.python(
            f"""
            import os, sys
            import gt
            gt.connect(sys.argv[1])
            kept = [gt.ones(1000, 1000) + k for k in range(10)]
            kept[-1].sum().item()
            {ending}
        """,
            address,
        )
        process.wait()
    text = programs.run(
        """
        import json, sys, time
        import gt
        gt.connect(sys.argv[1])
        deadline = time.monotonic() + 20
        while True:
            stats = json.loads(gt._gt.stats())
            clients, tensors = len(stats["clients"]), stats["workers"][0]["tensors"]
            if (clients, tensors) == (1, 0) or time.monotonic() > deadline:
                break
            time.sleep(0.02)
        print(clients, tensors, gt.ones(3).sum().item())
    """,
        address,
    )
    assert text == "1 0 3.0\n"


# ---- several at once ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_processes_at_once(programs, transport):
    server = programs.cluster(workers=2)
    clients = [programs.python(WORK, f"{transport}://localhost:{server.port}") for _ in range(4)]
    for client in clients:
        assert client.wait() == 0, client.text()
        assert client.output.read_text() == "right\n"


THREADS = """
    import sys, threading
    import gt
    from gt.client.client import Client

    host, port = sys.argv[1], int(sys.argv[2])
    results, failures = {}, []
    barrier = threading.Barrier(4)

    def work(k):
        try:
            client = Client(dispatcher_host=host, dispatcher_port=port)
            client.connect()
            barrier.wait(30)
            t = gt.full((50,), float(k))
            for _ in range(300):
                t = t + 1
            results[k] = t.sum().item()
            for _ in range(50):
                assert (t * 0 + k).sum().item() == 50 * k
            client.disconnect()
        except BaseException as error:
            failures.append(repr(error))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failures, failures
    print(sorted(results.items()) == [(k, 50.0 * (k + 300)) for k in range(4)])
"""


def test_threads_with_their_own_clients(programs):
    server = programs.cluster(workers=2)
    assert programs.run(THREADS, "localhost", server.port) == "True\n"


def test_threads_share_the_embedded_client(programs):
    text = programs.run("""
        import threading
        import gt
        failures = []

        def work(k):
            try:
                for n in range(200):
                    assert (gt.full((20,), float(k)) + n).sum().item() == 20 * (k + n)
            except BaseException as error:
                failures.append(repr(error))

        threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        print(failures)
    """)
    assert text == "[]\n"


def test_a_tensor_belongs_to_its_client(programs):
    server = programs.cluster()
    text = programs.run(
        """
        import sys
        import gt
        from gt.client.client import Client
        first = Client(dispatcher_host="localhost", dispatcher_port=int(sys.argv[1]))
        first.connect()
        a = gt.ones(3)
        second = Client(dispatcher_host="localhost", dispatcher_port=int(sys.argv[1]))
        second.connect()
        b = gt.ones(3)
        for run in (lambda: a + b, lambda: gt.cat([a, b]), lambda: gt.where(a > 0, a, b), lambda: a @ b):
            try:
                run()
            except (RuntimeError, ValueError) as error:
                assert "client" in str(error), error
            else:
                print("mixed clients")
        assert a.sum().item() == 3 and b.sum().item() == 3 and (a + a).sum().item() == 6
        second.disconnect()
        first.disconnect()
        print("right")
    """,
        server.port,
    )
    assert text == "right\n"


def test_many_connections_in_turn(programs):
    server = programs.cluster()
    text = programs.run(
        """
        import sys
        import gt
        from gt.client.client import Client
        for k in range(60):
            transport = ("memory", "ipc", "tcp")[k % 3]
            gt.connect(f"{transport}://localhost:{sys.argv[1]}")
            assert gt.full((3,), k).sum().item() == 3 * k
        print("right")
    """,
        server.port,
    )
    assert text == "right\n"
    assert server.alive


@pytest.mark.parametrize("host", ["0.0.0.0", "127.example.org"])
def test_the_server_binds_loopback_only(programs, host):
    """Another address of this host must not reach it, unless it was asked for with keys or --insecure."""
    refused = programs.start([*programs.server().arguments[:2], "-p", 0, "--host", host], "open")
    ended = until(lambda: refused.popen.poll() is not None or refused.text(), "a refusal")
    assert ended and refused.wait(5) != 0, "a server open to the network without keys or --insecure"
    assert "insecure" in refused.text()


@pytest.mark.parametrize("command", ["server", "worker", "replay", "top"])
def test_unknown_options_are_refused_by_the_commands_name(command):
    done = subprocess.run([GT_BINARY, command, "--nonsense"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stderr.startswith(f"gt {command}: "), done.stderr
    assert f"try `gt {command} --help`" in done.stderr
