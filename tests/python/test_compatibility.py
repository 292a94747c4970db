"""The module tree of the first prototype: code written for it imports and runs unchanged."""

import sys

import pytest

import gt
from support import free_port


def test_modules_import():
    from gt.client import client, tensor
    from gt.client.client import Client
    from gt.client.tensor import Tensor, from_numpy, ones, randn, zeros
    from gt.dispatcher.dispatcher import Dispatcher
    from gt.worker.worker import Worker

    assert Tensor is gt.Tensor and client.Client is Client and tensor.zeros is zeros
    assert zeros(2, 3).shape == (2, 3) and ones(2).tolist() == [1, 1] and randn(2, 2).shape == (2, 2)
    assert callable(from_numpy) and callable(Dispatcher) and callable(Worker)


def test_server_and_worker_are_modules(programs):
    for module, option in [("gt.server", "-p"), ("gt.worker", "--host")]:
        process = programs.start([sys.executable, "-m", module, "--help"], "help")
        assert process.wait() == 0, process.text()
        assert option in process.text()


SYSTEM = """
    import sys, threading, time
    from gt.client.client import Client
    from gt.dispatcher.dispatcher import Dispatcher
    from gt.worker.worker import Worker
    from gt.client.tensor import randn, zeros, ones, from_numpy
    import numpy as np

    port = int(sys.argv[1])
    dispatcher = Dispatcher(host="localhost", port=port, log_file=None, console_log=False)
    serving = threading.Thread(target=dispatcher.start, daemon=True)
    serving.start()
    worker = Worker(worker_id="worker_0", backend="cpu")
    working = threading.Thread(target=worker.connect_to_dispatcher, daemon=True,
                               kwargs=dict(dispatcher_host="localhost", dispatcher_port=port))
    working.start()
    client = Client(dispatcher_host="localhost", dispatcher_port=port)
    client.connect()
    a, b = randn(8, 4), from_numpy(np.ones((4, 2), np.float32))
    assert (a @ b).shape == (8, 2) and (zeros(3) + ones(3)).data.numpy().tolist() == [1, 1, 1]
    client.disconnect()
    dispatcher.stop()
    serving.join(20)
    working.join(20)
    print(serving.is_alive(), working.is_alive())
"""


def test_a_system_of_python_classes(programs):
    assert programs.run(SYSTEM, free_port()) == "False False\n"


def test_start_blocks_and_stop_ends_it(programs):
    text = programs.run("""
        import sys, threading
        from gt.dispatcher.dispatcher import Dispatcher
        for _ in range(3):
            dispatcher = Dispatcher(host="localhost", port=0)
            thread = threading.Thread(target=dispatcher.start)
            thread.start()
            thread.join(0.2)
            assert thread.is_alive(), "start() returned by itself"
            dispatcher.stop()
            thread.join(20)
            assert not thread.is_alive(), "stop() did not end start()"
            dispatcher.stop()
        print("right")
    """)
    assert text == "right\n"
    assert programs.runtime_entries() == []


def test_classes_with_real_programs(programs):
    server = programs.cluster()
    text = programs.run(
        """
        import sys
        import gt
        from gt.client.client import Client
        client = Client(dispatcher_host="localhost", dispatcher_port=int(sys.argv[1]))
        client.connect()
        t = gt.ones(3)
        assert t.sum().item() == 3
        client.disconnect()
        client.disconnect()
        try:
            t.numpy()
        except (ConnectionError, RuntimeError) as error:
            print("closed" if str(error) else "no message")
    """,
        server.port,
    )
    assert text == "closed\n"
    worker = programs.python(
        """
        import sys
        from gt.worker.worker import Worker
        worker = Worker(worker_id="second")
        worker.connect_to_dispatcher(dispatcher_host="localhost", dispatcher_port=int(sys.argv[1]))
        print("ended")
    """,
        server.port,
    )
    server.workers[0].end()
    assert (
        programs.run(
            """
        import sys, gt
        gt.connect(f"localhost:{sys.argv[1]}", timeout=20)
        print(gt.ones(2).sum().item())
    """,
            server.port,
        )
        == "2.0\n"
    )
    server.end()
    worker.wait()


def test_a_dispatcher_accepts_a_log_file(programs):
    log = programs.directory / "instructions.log"
    process = programs.python(
        """
        import sys, threading
        from gt.dispatcher.dispatcher import Dispatcher
        dispatcher = Dispatcher(host="localhost", port=0, log_file=sys.argv[1], console_log=False)
        threading.Timer(0.5, dispatcher.stop).start()
        dispatcher.start()
    """,
        log,
    )
    assert process.wait() == 0, process.text()
    assert log.exists()


def test_a_client_that_finds_nobody(programs):
    text = programs.run(
        """
        import sys
        from gt.client.client import Client
        try:
            Client(dispatcher_host="localhost", dispatcher_port=int(sys.argv[1])).connect()
        except (ConnectionError, TimeoutError) as error:
            print(sys.argv[1] in str(error))
    """,
        free_port(),
        GT_CONNECT_TIMEOUT=1,
    )
    assert text == "True\n"


def test_each_thread_has_its_current_client(programs):
    server = programs.cluster()
    text = programs.run(
        """
        import sys, threading
        import gt
        from gt.client.client import Client
        mine = gt.ones(2)
        assert mine.sum().item() == 2  # the embedded server's

        def other():
            gt.connect(f"localhost:{sys.argv[1]}")
            theirs.append(gt.ones(2))
            assert theirs[0].sum().item() == 2
        theirs = []
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert (mine + gt.ones(2)).sum().item() == 4, "connecting in one thread changed another's client"
        try:
            mine + theirs[0]
        except (RuntimeError, ValueError) as error:
            print("client" in str(error))
    """,
        server.port,
    )
    assert text == "True\n"


@pytest.mark.parametrize("transport", ["memory", "ipc", "tcp"])
def test_a_worker_can_be_stopped_while_nobody_greets_it(programs, transport):
    """The server accepts and never answers: stop() ends the worker's wait long before the timeout."""
    text = programs.run(
        """
        import sys, threading, time
        from gt.dispatcher.dispatcher import Dispatcher
        from gt.worker.worker import Worker
        silent = Dispatcher(port=0)
        worker = Worker(worker_id="patient")
        failures = []
        def work():
            try:
                worker.connect_to_dispatcher(f"{sys.argv[1]}://localhost", silent.port, timeout=60)
            except ConnectionError as error:
                failures.append(error)
        thread = threading.Thread(target=work)
        thread.start()
        def asleep():
            with open(f"/proc/self/task/{thread.native_id}/stat") as stat:
                return stat.read().rpartition(")")[2].split()[0] == "S"
        while not asleep():
            time.sleep(0.001)
        worker.stop()
        start = time.monotonic()
        thread.join(20)
        print(thread.is_alive(), time.monotonic() - start < 10)
    """,
        transport,
    )
    assert text == "False True\n"


def test_bad_arguments_of_the_classes(programs):
    text = programs.run("""
        from gt.dispatcher.dispatcher import Dispatcher
        from gt.worker.worker import Worker
        tries = {
            "port 70000": lambda: Dispatcher(port=70000),
            "port -1": lambda: Dispatcher(port=-1),
            "open to the network": lambda: Dispatcher(host="0.0.0.0", port=0),
            "timeout -1": lambda: Worker().connect_to_dispatcher(dispatcher_port=1, timeout=-1),
            "timeout nan": lambda: Worker().connect_to_dispatcher(dispatcher_port=1, timeout=float("nan")),
        }
        for name, run in tries.items():
            try:
                run()
            except ValueError as error:
                assert str(error), name
            else:
                print("accepted", name)
        print(Dispatcher(host="0.0.0.0", port=0, insecure=True).port > 0)
    """)
    assert text == "True\n"
