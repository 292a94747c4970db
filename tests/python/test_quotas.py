"""Memory that is counted and given back, limits of clients and users, and clients that do not play along."""

import os
import pathlib
import signal
import socket
import textwrap

import pytest

from support import GT_BINARY, HELD, clean_environment, until

LINKS = ("memory", "ipc", "tcp")


def resident_mib(process, field="VmRSS"):
    """MiB of a process in memory; VmHWM: the most there ever were."""
    for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) // 1024
    raise AssertionError(f"no {field}")


# ---- the worker's memory -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("link", ("memory", "tcp"))
def test_uploads_count_against_the_workers_memory(programs, link):
    server = programs.server()
    programs.worker(server.port, GT_WORKER_MEMORY="100M")
    assert programs.run("""
        import sys
        import gt
        import numpy as np
        gt.connect(sys.argv[1])
        data = np.ones((30, 1 << 18), np.float32)               # 30 MiB
        held, refused = [], 0
        for k in range(6):
            t = gt.from_numpy(data)
            try:
                assert t.sum().item() == data.size
                held.append(t)
            except MemoryError as error:
                refused += 1
                assert "upload: the worker cannot allocate" in str(error), error
        del t
        print(len(held), refused)
        held.clear()
        print(gt.from_numpy(data).sum().item() == data.size)     # it lives, and works again
        """, f"{link}://localhost:{server.port}").split("\n")[:2] == ["3 3", "True"]


def test_memory_goes_back_to_the_system_when_a_client_leaves(programs):
    server = programs.server()
    worker = programs.worker(server.port)
    light = programs.python("""
        import sys
        import time
        import gt
        gt.connect(sys.argv[1])
        a = gt.ones(8)
        while True:                                              # the worker never rests
            a.sum().item()
            time.sleep(0.001)
        """, f"localhost:{server.port}", name="light")
    programs.run("import sys, gt\ngt.connect(sys.argv[1])\ngt.ones(4).sum().item()", f"localhost:{server.port}")
    before = resident_mib(worker)
    programs.run("""
        import sys
        import gt
        import numpy as np
        gt.connect(sys.argv[1])
        many = [gt.ones(4) for _ in range(30000)]
        large = [gt.ones(1 << 24) for _ in range(3)]             # 64 MiB each
        small = [gt.ones(1 << 16) for _ in range(400)]           # 100 MiB in blocks of malloc
        uploads = [gt.from_numpy(np.ones(1 << 23, np.float32)) for _ in range(2)]
        print(sum(t.sum().item() for t in large + small + uploads))
        """, f"localhost:{server.port}")
    room = 100 if os.environ.get("GT_BACKEND") == "cuda" or pathlib.Path("/dev/nvidiactl").exists() else 40  # the driver's own
    until(lambda: resident_mib(worker) < before + room, f"the worker's memory: {before} MiB before")
    assert light.alive, light.text()



# ---- limits --------------------------------------------------------------------------------------------------------


def limited(programs, *options, workers=1, **environment):
    """A server with these options, and its workers."""
    server = programs.server(*options, **environment)
    server.workers = [programs.worker(server.port, "--index", k, GT_VERBOSE="1") for k in range(workers)]
    for worker in server.workers if workers > 1 else ():  # a config that names a worker which is not there is refused
        until(lambda worker=worker: " joined " in worker.text() or not worker.alive, "the workers")
    return server


@pytest.mark.parametrize("link", LINKS)
def test_a_client_over_its_memory_limit_gets_an_exception_and_lives(programs, link):
    server = limited(programs, "--max-memory", "9M")
    source = """
        import sys
        import gt
        gt.connect(sys.argv[1])
        a = gt.ones(1 << 20)                                     # 4 MiB
        views = [a[0:], a.reshape(1024, 1024).T, a.expand(100, 1 << 20)]
        assert [v.sum().item() for v in views[:2]] == [1 << 20, 1 << 20]
        b = a + 1                                                # 8 MiB: views share memory
        c = a * 3                                                # over the limit
        d = c.sum() + 5                                          # follows from it
        try:
            print(d.item())
        except MemoryError as error:
            print(error)
        print(b.sum().item() == 2 << 20)                         # the others are unharmed
        del b, c, d
        print((a + 2).sum().item() == 3 << 20)                   # what was freed can be used again
        """
    lines = programs.run(source, f"{link}://localhost:{server.port}").splitlines()
    assert lines[0].startswith(
        "mul: limit of 9.0 MiB for one client (--max-memory): 8.0 MiB in use, the result needs 4.0 MiB")
    assert lines[0].endswith("program.py:9")                     # the line that was refused
    assert lines[1:] == ["True", "True"]


def test_copies_count_and_views_do_not(programs):
    server = limited(programs, "--max-memory", "9M")
    assert programs.run("""
        import sys
        import gt
        gt.connect(sys.argv[1])
        a = gt.ones(1024, 1024)
        kept = []
        try:
            for k in range(20):                                  # of a transposed matrix, each is a copy
                kept.append(a.T.reshape(-1))
                kept[-1][:1].item()
        except MemoryError as error:
            print(len(kept))
        kept.clear()
        b = a.T
        del a
        c = b + 0                                                # 8 MiB: the view keeps the memory
        try:
            (c + 1)[0, 0].item()
        except MemoryError as error:
            print("refused")
        del b
        print((c + 1).sum().item() == 2 << 20)
        for k in range(50):
            c += 1                                               # in place: nothing is needed for it
        print(c[0, 0].item())
        """, f"localhost:{server.port}").splitlines() == ["2", "refused", "True", "51.0"]


def test_a_training_loop_within_its_limit_runs_as_a_hot_path(programs):
    server = limited(programs, "--max-memory", "40M", "--max-tensors", "1000")
    assert programs.run("""
        import sys
        import gt
        from gt import nn, optim
        gt.connect(sys.argv[1])
        gt.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))
        optimizer = optim.AdamW(model.parameters(), lr=1e-2)
        x = gt.randn(256, 64)
        for step in range(60):
            loss = nn.functional.mse_loss(model(x), x)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        print(loss.item() < 0.5, gt.debug.get_worker_stats(wait=True)["worker_0"]["hotpath"]["worker_runs"] > 5)
        big, refused = [], 0
        for step in range(60):                                   # and over it: each step in a loop is refused
            y = (model(x) * 2).expand(80, 256, 64) + 1  # 5 MiB
            big.append(y)
        for y in big:
            try:
                y.sum().item()
            except MemoryError:
                refused += 1
        print(50 < refused < 58)
        big.clear()
        del y
        print(model(x).sum().item() != 0)
        """, f"localhost:{server.port}").splitlines() == ["True True", "True", "True"]


def test_spread_tensors_count(programs):
    server = limited(programs, "--max-memory", "9M", workers=2)
    assert programs.run("""
        import sys
        import gt
        gt.connect(sys.argv[1])
        with gt.signal.context("rows"):
            a = gt.ones(1024, 1024)
            b = a + 1
            c = b + 1
            try:
                print(c.sum().item())
            except MemoryError as error:
                print("--max-memory" in str(error))
            del b, c
            d = a + 3
            print(d.sum().item() == 4 << 20)
            del d
            kept = []
            for step in range(30):                               # a loop, which is replayed
                kept.append(((a * 2) - 1) + 1)
                if step % 2:
                    kept.clear()
            print((a * 2).sum().item() == 2 << 20)
        """, f"localhost:{server.port}", GT_CONFIG=rows_config(programs)).splitlines() == ["True", "True", "True"]


def rows_config(programs, text="rows: {shard: {axis: 0, workers: [0, 1]}}\n"):
    path = programs.directory / "rows.yaml"
    path.write_text(text)
    return path


def test_limits_of_tensors(programs):
    server = limited(programs, "--max-tensors", "100", "--max-user-tensors", "150")
    fill = """
        import sys
        import time
        import gt
        gt.connect(sys.argv[1])
        held = []
        try:
            while len(held) < 1000:
                held.append(gt.zeros(3))
                held[-1].sum().item()
        except MemoryError as error:
            print(error, flush=True)
        del held[40:]
        print((gt.zeros(3) + 1).sum().item(), flush=True)         # what was freed can be used again
        held += [gt.zeros(3) for _ in range(50)]
        print(held[-1].sum().item(), flush=True)
        time.sleep(100 if sys.argv[2] == "stay" else 0)
        """
    first = programs.python(fill, f"localhost:{server.port}", "stay", name="first")
    until(lambda: first.text().endswith("0.0\n") or not first.alive, "the first client's tensors")
    text, *works = first.text().splitlines()
    assert "limit of 100 for one client (--max-tensors): there are 100; free some first" in text
    assert works == ["3.0", "0.0"]
    second = programs.python(fill, f"localhost:{server.port}", "go", name="second")
    assert second.wait() == 1
    assert "limit of 150 for one user (--max-user-tensors): there are 150" in second.text(), second.text()
    assert "3.0" in second.text().splitlines(), second.text()


@pytest.mark.parametrize("spread", (False, True))
def test_a_client_that_makes_tensors_far_beyond_its_limit_lives(programs, spread):
    """However many it makes: reading those that were refused says so, and the server keeps a limited number of them."""
    server = limited(programs, "--max-tensors", "100", workers=2 if spread else 1)
    assert programs.run("""
        import contextlib
        import sys
        import gt
        import numpy as np
        gt.connect(sys.argv[1])
        with gt.signal.context("rows") if sys.argv[2] == "True" else contextlib.nullcontext():
            held = [gt.zeros(4) + k for k in range(20)]
            first = held[0] + 5
            held += [gt.zeros(4) for _ in range(20000)]
            held += [gt.from_numpy(np.ones(4, np.float32)) for _ in range(10)]
            held += [gt.from_numpy(np.ones(1 << 20, np.float32)) for _ in range(3)]
            loop = held[-20]
            for _ in range(100):                                  # becomes a hot path, on a tensor that was refused
                loop = (loop * 2 + 1).relu() - 1
            last = held[-20]
            last += 1                                             # in place
            refused = set()
            for tensor in (held[200], held[-20], held[-1], held[-1][:2], held[-15] + held[0], loop, last):
                try:
                    tensor.numpy()
                    refused.add(False)
                except MemoryError as error:
                    refused.add("limit of 100 for one client (--max-tensors): there are" in str(error))
            print(refused, first.numpy().sum(), gt.debug.dispatcher_stats()["clients"][0]["tensors"] < 5000)
            del held[20:], loop, last, tensor
            print(sum((tensor + 1).sum().item() for tensor in held))
            loop = held[0]
            for _ in range(100):
                loop = (loop * 2 + 1).relu() - 1
            print(loop.sum().item(), gt.from_numpy(np.ones(1 << 20, np.float32)).sum().item())
        """, f"localhost:{server.port}", spread, **{"GT_CONFIG": rows_config(programs)} if spread else {},
    ).splitlines() == ["{True} 20.0 True", "840.0", "0.0 1048576.0"]


@pytest.mark.parametrize("link, most", (("memory", 1), ("memory", 100), ("tcp", 100)))
def test_a_client_waits_while_it_has_queued_what_it_may(programs, link, most):
    server = limited(programs, "--max-queued", most)
    address = f"{link}://localhost:{server.port}"
    watch = programs.python("""
        import sys
        import gt
        gt.connect(sys.argv[1])
        most = 0
        while True:
            seen = max(client["queued"] for client in gt.debug.dispatcher_stats()["clients"])
            if seen > most:
                most = seen
                print(most, flush=True)
        """, address, name="watch")
    assert programs.run("""
        import sys
        import gt
        gt.connect(sys.argv[1])
        while len(gt.debug.dispatcher_stats()["clients"]) < 2:
            pass
        a, b = gt.ones(300, 300), gt.ones(3)
        for k in range(200):
            c = a @ a
            b = b + 1
        print(b.sum().item(), c[0, 0].item())
        """, address) == "603.0 300.0\n"
    assert watch.alive, watch.text()
    most_seen = int(watch.text().split()[-1])
    assert most_seen < most + 16, most_seen                      # a run of a hot path counts at once


def test_limits_of_connections(programs):
    server = limited(programs, "--max-connections", "3", "--max-user-connections", "2")
    stay = "import sys, time, gt\ngt.connect(sys.argv[1])\nprint('in', flush=True)\ntime.sleep(100)"
    staying = [programs.python(stay, f"localhost:{server.port}", name=f"stay{k}") for k in range(2)]
    until(lambda: all("in" in process.text() for process in staying), "two clients")
    text = programs.run("""
        import sys
        import gt
        try:
            gt.connect(sys.argv[1])
        except ConnectionError as error:
            print(error)
        """, f"localhost:{server.port}")
    assert "limit of 2 for one user (--max-user-connections)" in text, text
    staying[0].kill()

    def connects():
        return "in" in programs.run("import sys, gt\ntry:\n    gt.connect(sys.argv[1])\n    print('in')\n"
                                    "except ConnectionError:\n    pass", f"localhost:{server.port}")

    until(connects, "a place for another client")


def test_limits_are_read_again(programs):
    config = rows_config(programs, "limits: {max-memory: 8M}\n")
    server = limited(programs, "--config", config)
    client = programs.python("""
        import sys
        import gt
        import time
        gt.connect(sys.argv[1])
        a = gt.ones(1 << 20)
        def works():
            try:
                return (a + 1, a + 2)[1].sum().item() > 0
            except MemoryError:
                return False
        print(works(), flush=True)
        while not works():
            time.sleep(0.01)
        print("more", flush=True)
        while works():
            time.sleep(0.01)
        print("less", flush=True)
        """, f"localhost:{server.port}", name="client")
    until(lambda: "False" in client.text() or not client.alive, "the client")
    config.write_text("limits: {max-memory: 8M, users: {uid %d: {max-memory: 1G}}}\n" % os.getuid())
    server.signal(signal.SIGHUP)
    until(lambda: "more" in client.text() or not client.alive, "the new limit")
    config.write_text("limits: {max-memory: nonsense}\n")      # a mistake: the limits stay, and the server says why
    server.signal(signal.SIGHUP)
    until(lambda: "max-memory must be bytes" in server.text(), "the error")
    config.write_text("limits: {max-memory: 8M}\n")
    server.signal(signal.SIGHUP)
    assert client.wait() == 0 and "less" in client.text(), client.text()


@pytest.mark.parametrize("text, words", (
    ("limits: {max-memory: 4Q}", "max-memory must be bytes, as 4G or 4096 or none, not '4Q'"),
    ("limits: {max-tensors: 0.5}", "max-tensors must be a whole number from 1 on or none, not '0.5'"),
    ("limits: {max-bananas: 5}", "unknown limit 'max-bananas'"),
    ("limits: 5", "limits must be a mapping"),
    ("limits: {users: {alice: {max-tensors: x}}}", "max-tensors must be"),
    ("limits: {users: {alice: 5}}", "the limits of a user must be a mapping"),
))
def test_mistakes_in_limits_are_named(programs, text, words):
    config = rows_config(programs, text + "\n")
    server = programs.start([GT_BINARY, "server", "-p", 0, "--config", config], "server")
    assert server.wait() == 1 and f"rows.yaml:1: {words}" in server.text(), server.text()


def test_a_client_reads_a_config_with_limits(programs):
    """The same file may serve both; its limits are the server's."""
    config = rows_config(programs, "limits: {max-memory: 1, users: {alice: {max-tensors: none}}}\nrows: {compile: true}\n")
    assert programs.run("import gt\nprint(gt.ones(4).sum().item())", GT_CONFIG=config) == "4.0\n"


# ---- clients that do not play along -----------------------------------------------------------------------------------


@pytest.mark.parametrize("link", LINKS)
def test_a_long_stream_costs_bounded_memory(programs, link):
    server = programs.cluster()
    worker = server.workers[0]
    stream = """
        import sys
        import gt
        gt.connect(sys.argv[1])
        a = gt.ones(1000)
        one = gt.ones(1000)
        for k in range(int(sys.argv[2])):                        # no sync; 19 MB of records on their way
            b = a + one
        print(b.sum().item())
        """

    def run(operations):
        assert programs.run(stream, f"{link}://localhost:{server.port}", operations, GT_AUTO_COMPILE=0) == "2000.0\n"

    run(3000)                                                    # engines make kernels and buffers with the first operations
    before = resident_mib(server), resident_mib(worker)
    run(300000)
    most = resident_mib(server, "VmHWM"), resident_mib(worker, "VmHWM")
    assert most[0] < before[0] + 16 and most[1] < before[1] + 16, (before, most)


def test_uploads_wait_for_a_worker_that_is_busy(programs):
    """While a matrix product lasts, a program sends 256 MiB in shared memory and one array more, not all that it has."""
    (programs.directory / "gt_engine_held.py").write_text(HELD)
    server = programs.server()
    programs.worker(server.port, python=True, GT_BACKEND="held", HELD=programs.directory,
                    PYTHONPATH=f"{programs.directory}:{clean_environment()['PYTHONPATH']}")
    sent, product = map(float, programs.run("""
        import pathlib, sys, threading, time
        import gt
        import numpy as np
        gt.connect(sys.argv[1])
        a = gt.ones(2, 2)
        product = a @ a
        array, sent, at_go = np.ones(1 << 22, np.float32), 0, 0
        def go():                                                # when no upload has come for a while: it waits
            global at_go
            before = -1
            while sent < 24 and before != sent:
                before = sent
                time.sleep(1)
            at_go = sent
            pathlib.Path(sys.argv[2]).touch()
        helper = threading.Thread(target=go)
        helper.start()
        for k in range(24):
            x = gt.from_numpy(array)
            sent += 1
        helper.join()
        assert x.sum().item() == array.size
        print(at_go, product.sum().item())
        """, f"memory://localhost:{server.port}", programs.directory / "go").split())
    assert sent <= 256 // 16 + 1 and product == 8


def test_uploads_go_on_after_the_worker_that_was_waited_for_is_lost(programs):
    server = programs.server()
    worker = programs.worker(server.port)
    program = programs.python("""
        import pathlib, sys, time
        import gt
        import numpy as np
        gt.connect(sys.argv[1])
        array = np.ones(1 << 22, np.float32)
        gt.ones(1).item()
        print("ready", flush=True)
        while not pathlib.Path(sys.argv[2]).exists():
            time.sleep(0.01)
        lost = [gt.from_numpy(array) for k in range(12)]         # there is a question behind the first eight
        print("sent", flush=True)
        while not pathlib.Path(sys.argv[3]).exists():
            time.sleep(0.01)
        for k in range(16):
            x = gt.from_numpy(array)
        print(x.sum().item() == array.size)
        try:
            lost[0].sum().item()
        except gt.GtConnectionError as error:
            print(error)
        """, f"memory://localhost:{server.port}", programs.directory / "stopped", programs.directory / "lost")
    until(lambda: "ready" in program.text(), "the program")
    worker.signal(signal.SIGSTOP)
    (programs.directory / "stopped").touch()
    until(lambda: "sent" in program.text(), "the uploads")
    worker.kill()
    other = programs.worker(server.port, GT_VERBOSE=1)
    until(lambda: " joined " in other.text(), "another worker")
    (programs.directory / "lost").touch()
    assert program.wait() == 0, program.text()
    assert program.text().split("\n")[2] == "True" and "is gone" in program.text(), program.text()


def test_peers_that_send_a_byte_now_and_then(programs):
    """They are given up after a few seconds, or cost nothing: an honest client works meanwhile."""
    server = programs.cluster()
    before = resident_mib(server)
    slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
    for path in (programs.runtime / "gt").iterdir():
        for kind in 10 * [socket.SOCK_STREAM, socket.SOCK_SEQPACKET]:
            peer = socket.socket(socket.AF_UNIX, kind)
            try:
                peer.connect(str(path))
                slow.append(peer)
            except OSError:  # a socket of the other kind, or none
                peer.close()
    for byte in range(3):
        for peer in slow:
            try:
                peer.send(b"\xff\0\0\0\0\0\0\1"[byte:byte + 1])
            except OSError:  # it was given up
                pass
        assert programs.run("import sys, gt\ngt.connect(sys.argv[1])\nprint(gt.ones(4).sum().item())",
                            f"localhost:{server.port}") == "4.0\n"
    assert len(slow) > 20 and resident_mib(server) < before + 16
    for peer in slow:
        peer.close()


# ---- memory of others ------------------------------------------------------------------------------------------------


def test_a_client_never_sees_what_another_left_in_memory(programs):
    server = programs.cluster()
    fill = """
        import sys
        import gt
        gt.connect(sys.argv[1])
        sizes = [*range(1, 70), *(2 ** k + d for k in range(7, 21) for d in (-1, 0, 1))]
        for size in sizes:
            gt.full((size,), 1234.5)
            kept = [gt.full((size,), 1234.5) for _ in range(3)]
        kept[-1].sum().item()
        """
    look = """
        import sys
        import gt
        gt.connect(sys.argv[1])
        sizes = [*range(1, 70), *(2 ** k + d for k in range(7, 21) for d in (-1, 0, 1))]
        a = gt.ones(3)
        seen = gt.zeros(())
        for size in sizes:
            made = [gt.empty(size), gt.empty(size, dtype=gt.float64), gt.empty_like(gt.ones(size)), a.new_empty(size),
                    gt.empty(2, size, dtype=gt.float16), gt.empty(size, dtype=gt.int8)]
            seen += sum((t != 0).sum() for t in made)
        print(seen.item())
        """
    stays = programs.python(textwrap.dedent(fill) + "\nprint('filled', flush=True)\nimport time\ntime.sleep(100)",
                            f"localhost:{server.port}", name="stays")
    programs.run(fill, f"localhost:{server.port}")
    until(lambda: "filled" in stays.text() or not stays.alive, "the client that stays")
    assert programs.run(look, f"localhost:{server.port}") == "0.0\n"
