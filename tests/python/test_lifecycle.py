"""Start and end: import, fork, threads, Ctrl-C, all ways to exit. Nothing leaks, nothing hangs."""

import signal
import time

import pytest

from support import in_process_group, until

USE = "import gt; t = gt.ones(3); assert t.sum().item() == 3; "

EXITS = {
    "normally": (USE, 0),
    "with an exception": (USE + "1 / 0", 1),
    "by sys.exit": (USE + "import sys; sys.exit(3)", 3),
    "by os._exit": (USE + "import os; os._exit(4)", 4),
    "unused": ("import gt", 0),
    "with work queued": (USE + "[t + k for k in range(5000)]", 0),
    "with a signal": (USE + "import os; os.kill(os.getpid(), 15)", -15),
    "killed": (USE + "import os; os.kill(os.getpid(), 9)", -9),
    "with tensors in a cycle": (USE + "a = [t]; a.append(a)", 0),
    "with a tensor in a module": (USE + "import sys; sys.kept = t", 0),
    "in atexit": (USE + "import atexit; atexit.register(lambda: t.sum())", 0),
    "with a thread alive": (
        USE + "import threading; threading.Thread(target=lambda: [t + k for k in range(1000)]).start()",
        0,
    ),
    "with a daemon thread": (
        USE + "import threading; turns = threading.Semaphore(0)\n"
        "def loop():\n  while True: (t + 1).sum().item(); turns.release()\n"
        "threading.Thread(target=loop, daemon=True).start()\nfor _ in range(10): turns.acquire()",
        0,
    ),
    "in a __del__": (USE + "pass\nclass D:\n  def __del__(self): t.sum()\nd = D()", 0),
}


@pytest.mark.parametrize("how", EXITS)
def test_exit_embedded(programs, how):
    source, status = EXITS[how]
    process = programs.python(source)
    assert process.wait() == status, process.text()
    assert in_process_group(process.pid) == []
    assert programs.runtime_entries() == []
    if how == "in a __del__":  # after the client: an error like any other, which Python reports and ignores
        assert "is closed" in process.text()
    elif status == 0:
        assert process.text() == ""


@pytest.mark.parametrize(
    "how", ["normally", "with an exception", "by sys.exit", "by os._exit", "killed", "with work queued"]
)
@pytest.mark.parametrize("transport", ["memory", "tcp"])
def test_exit_connected(programs, how, transport):
    source, status = EXITS[how]
    server = programs.cluster()
    connect = f"import gt; gt.connect('{transport}://localhost:{server.port}'); "
    process = programs.python(connect + source)
    assert process.wait() == status, process.text()
    assert in_process_group(process.pid) == []
    assert programs.run(connect + USE + "print('right')") == "right\n"
    assert server.alive and server.workers[0].alive


# ---- Ctrl-C ---------------------------------------------------------------------------------------------------

INTERRUPTED = """
    import pathlib, sys, time
    import gt
    {connect}
    t = gt.ones(3)
    assert t.sum().item() == 3
    x = {slow}
    try:
        pathlib.Path(sys.argv[1]).touch()  # the signal may come as soon as the file is there
        x.sum().item()
        print("finished")
    except KeyboardInterrupt:
        pathlib.Path(sys.argv[2]).touch()
    assert (t + 1).sum().item() == 6
    print("went on")
"""


@pytest.mark.parametrize("transport", ["memory", "ipc", "tcp"])
def test_ctrl_c_interrupts_a_wait(programs, transport):
    server = programs.cluster()
    waiting, caught = programs.directory / "waiting", programs.directory / "caught"
    worker = server.workers[0]
    process = programs.python(
        INTERRUPTED.format(
            connect=f"gt.connect('{transport}://localhost:{server.port}')", slow="stop_worker(t)"
        ).replace(
            "t = gt.ones(3)",
            f"""t = gt.ones(3)
    def stop_worker(t):
        import os, signal
        os.kill({worker.pid}, signal.SIGSTOP)
        return t * 2""",
        ),
        waiting,
        caught,
    )
    try:
        until(lambda: waiting.exists() or not process.alive, "the program")
        start = time.monotonic()
        process.signal(signal.SIGINT)
        until(lambda: caught.exists() or not process.alive, "KeyboardInterrupt")
        assert time.monotonic() - start < 5
    finally:
        worker.signal(signal.SIGCONT)
    assert process.wait() == 0, process.text()
    assert process.output.read_text() == "went on\n"


def test_ctrl_c_interrupts_an_embedded_wait(programs):
    """During a long matrix product: the wait ends at once, the product continues in its thread."""
    waiting, caught = programs.directory / "waiting", programs.directory / "caught"
    slow = "gt.ones(600, 600)\n    for _ in range(150): x = (x @ x) * 1e-3"
    process = programs.python(INTERRUPTED.format(connect="", slow=slow), waiting, caught)
    until(lambda: waiting.exists() or not process.alive, "the program")
    process.signal(signal.SIGINT)
    assert process.wait() == 0, process.text()
    assert process.output.read_text() in ("went on\n", "finished\nwent on\n")
    assert caught.exists() or "finished" in process.output.read_text()


def test_ctrl_c_without_a_handler_ends_the_program(programs):
    waiting = programs.directory / "waiting"
    process = programs.python(
        """
        import pathlib, sys
        import gt
        t = gt.ones(600, 600)
        t.sum().item()
        pathlib.Path(sys.argv[1]).touch()
        while True:
            (t @ t).sum().item()
    """,
        waiting,
    )
    until(waiting.exists, "the program")
    process.signal(signal.SIGINT)
    assert process.wait() in (1, -signal.SIGINT), process.text()
    assert "KeyboardInterrupt" in process.text()
    assert in_process_group(process.pid) == []


CONNECTS = """
    import signal, sys
    import gt
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
    try:
        gt.connect(sys.argv[1], timeout=60)
        print(gt.ones(3).sum().item())
    except KeyboardInterrupt:
        print("interrupted")
    signal.setitimer(signal.ITIMER_REAL, 0)
"""


def greeted(server, process):
    """The client has said hello, so it waits for a worker."""
    until(lambda: "connected" in server.text() or not process.alive, "the client's greeting")
    assert process.alive, process.text()


@pytest.mark.parametrize("transport", ["memory", "ipc", "tcp"])
def test_ctrl_c_interrupts_connecting(programs, transport):
    """There is a server but no worker, and harmless signals arrive all the time."""
    server = programs.server(GT_VERBOSE=1)
    process = programs.python(CONNECTS, f"{transport}://localhost:{server.port}")
    greeted(server, process)
    process.signal(signal.SIGINT)
    assert process.wait(5) == 0, process.text()
    assert process.output.read_text() == "interrupted\n"


@pytest.mark.parametrize("transport", ["memory", "ipc", "tcp"])
def test_other_signals_do_not_disturb_connecting(programs, transport):
    server = programs.server(GT_VERBOSE=1)
    process = programs.python(CONNECTS, f"{transport}://localhost:{server.port}")
    greeted(server, process)
    programs.worker(server.port)
    assert process.wait() == 0, process.text()
    assert process.output.read_text() == "3.0\n"


def test_other_signals_do_not_disturb_a_wait(programs):
    text = programs.run("""
        import signal
        import gt
        count = 0
        def tick(*_):
            global count
            count += 1
        signal.signal(signal.SIGALRM, tick)
        signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
        t = gt.ones(64, 64)
        for _ in range(300):
            assert (t @ t).sum().item() == 64 ** 3
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(count > 0)
    """)
    assert text == "True\n"


# ---- fork -----------------------------------------------------------------------------------------------------

FORK = """
    import os, sys, time
    import gt
    {connect}
    t = gt.ones(3)
    assert t.sum().item() == 3
    pid = os.fork()
    if pid == 0:
        {child}
    deadline = time.monotonic() + 20
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > deadline:
            os.kill(pid, 9)
            sys.exit("the child hangs")
        time.sleep(0.005)
    assert os.waitstatus_to_exitcode(status) == 0, status
    assert (t + 1).sum().item() == 6
    print("right")
"""

CHILDREN = {
    "exits at once": "os._exit(0)",
    "exits through Python": "sys.exit(0)",
    "uses an old tensor": """
        for use in (lambda: t + 1, t.numpy, lambda: t.sum().item(), lambda: gt.cat([t, t])):
            try:
                use()
            except RuntimeError as error:
                if 'fork' not in str(error):
                    print(error); os._exit(5)
            else:
                os._exit(6)
        os._exit(0)""",
    "drops an old tensor": "del t; sys.exit(0)",
    "runs a program": "os.execv(sys.executable, [sys.executable, '-c', 'import gt; gt.ones(2).sum().item()'])",
    "forks again": """
        if os.fork() == 0:
            os._exit(0)
        os.wait(); sys.exit(0)""",
}

EMBEDDED_CHILDREN = {
    "makes new tensors": "u = gt.ones(4); os._exit(0 if u.sum().item() == 4 else 7)",
    "makes new tensors and exits through Python": "u = gt.ones(4); sys.exit(0 if u.sum().item() == 4 else 7)",
    "mixes old and new": """
        u = gt.ones(3)
        try:
            t + u
        except RuntimeError:
            os._exit(0)
        os._exit(8)""",
}


@pytest.mark.parametrize("child", [*CHILDREN, *EMBEDDED_CHILDREN])
def test_fork_embedded(programs, child):
    body = {**CHILDREN, **EMBEDDED_CHILDREN}[child]
    assert programs.run(FORK.format(connect="", child=body)) == "right\n"
    assert in_process_group(programs.processes[-1].pid) == []


@pytest.mark.parametrize("child", [*CHILDREN, "reconnects"])
@pytest.mark.parametrize("transport", ["memory", "tcp"])
def test_fork_connected(programs, child, transport):
    server = programs.cluster()
    connect = f"gt.connect('{transport}://localhost:{server.port}')"
    body = (
        f"{connect}; u = gt.ones(4); sys.exit(0 if u.sum().item() == 4 else 7)"
        if child == "reconnects"
        else CHILDREN[child]
    )
    assert programs.run(FORK.format(connect=connect, child=body)) == "right\n"
    assert server.alive and server.workers[0].alive


def test_fork_while_another_thread_waits(programs):
    """The child has no waiting thread: using an old tensor raises instead of waiting."""
    server = programs.cluster()
    text = programs.run(
        """
        import os, signal, sys, threading, time
        import gt
        from gt import _gt
        gt.connect(f"localhost:{sys.argv[1]}")
        connection, worker = _gt.current(), int(sys.argv[2])
        t = gt.ones(3)
        assert t.sum().item() == 3
        os.kill(worker, signal.SIGSTOP)
        def wait():
            _gt.use(connection)
            results.append(t.sum().item())
        results, thread = [], threading.Thread(target=wait)
        thread.start()
        while not connection.waiting:
            time.sleep(0.001)
        pid = os.fork()
        if pid == 0:
            for use in (lambda: t + 1, t.numpy, lambda: t.sum().item(), lambda: t[0] + 1):
                try:
                    use()
                except RuntimeError as error:
                    if "fork" not in str(error):
                        print(error); os._exit(5)
                else:
                    os._exit(6)
            os._exit(0)
        deadline, ended = time.monotonic() + 10, 0
        while not ended and time.monotonic() < deadline:
            ended, status = os.waitpid(pid, os.WNOHANG)
            time.sleep(0.005)
        if not ended:
            os.kill(pid, 9)
        os.kill(worker, signal.SIGCONT)
        thread.join()
        print(os.waitstatus_to_exitcode(status) if ended else "the child hangs", results)
    """,
        server.port,
        server.workers[0].pid,
    )
    assert text == "0 [3.0]\n"


def test_fork_before_the_first_tensor(programs):
    text = programs.run("""
        import os
        import gt
        pid = os.fork()
        value = gt.ones(3).sum().item()
        if pid == 0:
            os._exit(int(value))
        print(value, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """)
    assert text == "3.0 3\n"


def test_multiprocessing(programs):
    for method in ("fork", "spawn"):
        text = programs.run(
            """
            import multiprocessing, sys
            import gt

            def work(k):
                return gt.full((10,), k).sum().item()

            if __name__ == "__main__":
                gt.ones(2).sum().item()
                with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
                    print(pool.map(work, range(4)))
        """,
            method,
        )
        assert text == "[0, 10, 20, 30]\n"


# ---- beginnings -----------------------------------------------------------------------------------------------


def test_import_and_start_are_quick(programs):
    """The limit is ten times the goal (100 ms, 50 ms). The benchmark measures; this only finds disasters."""
    text = programs.run("""
        import time
        import numpy
        start = time.perf_counter()
        import gt
        imported = time.perf_counter()
        gt.ones(1).sum().item()
        started = time.perf_counter()
        print(imported - start, started - imported)
    """)
    imported, started = map(float, text.split())
    assert imported < 1.0 and started < 0.5


def test_import_starts_nothing(programs):
    text = programs.run("""
        import os, threading
        before = len(os.listdir("/proc/self/task"))
        import gt
        print(len(os.listdir("/proc/self/task")) - before)
    """)
    assert text == "0\n"


def test_gpu_workers(programs):
    text = programs.run("""
        import gt
        gt.gpu_workers(4)
        t = gt.randn(100, 100)
        assert (t @ t).shape == (100, 100) and (t * 0 + 1).sum().item() == 10000
        try:
            gt.gpu_workers(2)
        except RuntimeError as error:
            print("refused" if "before" in str(error) else error)
    """)
    assert text == "refused\n"


def test_gpu_workers_bad_counts(programs):
    text = programs.run("""
        import gt
        for count in (0, -1, 257, 300, 10**9, 2.5, "four"):
            try:
                gt.gpu_workers(count)
            except ValueError as error:
                print(error)
                continue
            except TypeError:
                continue
            print("accepted", count)
        print(gt.ones(2).sum().item())
    """)
    assert text.splitlines() == [f"an embedded server has 1 to 256 workers, not {n}" for n in (0, -1, 257, 300, 10**9)] + ["2.0"]


def test_a_program_may_be_interpreted_twice(programs):
    """Reloading the package and importing from several threads at once."""
    text = programs.run("""
        import importlib, threading
        def load():
            import gt
            loaded.append(gt.ones(1).sum().item())
        loaded = []
        threads = [threading.Thread(target=load) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        import gt
        importlib.reload(gt)
        print(loaded, gt.ones(2).sum().item())
    """)
    assert text == "[1.0, 1.0, 1.0, 1.0] 2.0\n"


def test_descriptors_and_memory_do_not_grow(programs):
    text = programs.run("""
        import os, resource
        import numpy as np
        import gt
        def round_():
            data = np.ones(300_000, np.float32)
            for _ in range(20):
                t = gt.from_numpy(data)
                assert (t + 1).numpy()[0] == 2
        round_()
        descriptors, memory = len(os.listdir("/proc/self/fd")), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(20):
            round_()
        print(len(os.listdir("/proc/self/fd")) - descriptors <= 4,
              resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 100_000)
    """)
    assert text == "True True\n"


# ---- threads --------------------------------------------------------------------------------------------------


def test_threads_start_one_embedded_server(programs):
    text = programs.run("""
        import pathlib, threading
        import gt
        barrier, sums = threading.Barrier(8), []
        def work(k):
            barrier.wait()
            sums.append(gt.full((3,), k).sum().item())
        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        names = [path.read_text().strip() for path in pathlib.Path("/proc/self/task").glob("*/comm")]
        print(sorted(sums), names.count("gt dispatcher"))
    """)
    assert text == f"{[3 * k for k in range(8)]} 1\n"


def test_closing_lets_other_threads_run(programs):
    """An embedded server ends only after its worker has finished the current operation, a large product."""
    text = programs.run("""
        import threading, time
        import gt
        from gt import _gt
        connection = _gt.open_embedded(1)
        _gt.use(connection)
        a = gt.ones(2000, 2000)
        a.sum().item()
        ticks, ended = [], threading.Event()
        def tick():
            while not ended.is_set():
                ticks.append(time.monotonic())
                time.sleep(0.001)
        thread = threading.Thread(target=tick)
        thread.start()
        b = a @ a @ a
        _gt.stats()  # answered by the dispatcher: the worker has it all
        start = time.monotonic()
        connection.close()
        end = time.monotonic()
        ended.set()
        thread.join()
        during = sum(start < at < end for at in ticks)
        print("right" if end - start < 0.05 or during > 5 else (end - start, during))
        try:
            a + 1
        except ConnectionError as error:
            print(error)
    """)
    assert text == "right\nthe client is closed\n"


def test_closing_while_others_wait_their_turn(programs):
    """One thread waits for the server, others for that thread, and one of them closes the client: all of them end."""
    server = programs.cluster()
    text = programs.run(
        """
        import os, signal, sys, threading, time
        import gt
        from gt import _gt
        worker, wrong = int(sys.argv[2]), []
        def asleep(thread):
            return open(f"/proc/self/task/{thread.native_id}/stat").read().rpartition(")")[2].split()[0] == "S"
        for _ in range(5):
            connection = _gt.open(f"localhost:{sys.argv[1]}")
            def use(work):
                _gt.use(connection)
                try:
                    work()
                except ConnectionError as error:
                    if "closed" not in str(error):
                        wrong.append(error)
                except BaseException as error:
                    wrong.append(error)
                _gt.use(None)
            os.kill(worker, signal.SIGSTOP)
            works = [gt.synchronize, *[lambda: gt.ones(3)] * 3, connection.close, connection.close, lambda: gt.ones(2)]
            threads = []
            for work in works:
                threads.append(threading.Thread(target=use, args=(work,)))
                threads[-1].start()
                while not asleep(threads[-1]) or not connection.waiting:
                    time.sleep(0.001)
            os.kill(worker, signal.SIGCONT)
            for thread in threads:
                thread.join(10)
                if thread.is_alive():
                    os._exit(9)
            if not connection.closed:
                wrong.append("not closed")
        print(wrong)
    """,
        server.port,
        server.workers[0].pid,
    )
    assert text == "[]\n"
