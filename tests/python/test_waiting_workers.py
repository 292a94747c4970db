"""Workers that are there before their server, or outlive it: `gt worker --wait`."""

import pytest
from support import GT_BINARY, until

TRANSPORTS = ["memory", "ipc", "tcp"]

WORK = """
    import sys, gt
    gt.connect(sys.argv[1])
    assert (gt.ones(3) + gt.arange(3.0)).sum().item() == 6
    print("right")
"""


def waits(worker, times=1):
    """It has said so for the `times`-th time, and lives."""
    until(lambda: worker.text().count("waiting for the server") == times or not worker.alive, "the worker to say that it waits")
    assert worker.alive, worker.text()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_worker_waits_for_a_server_that_comes_late_and_for_the_next_one(programs, transport):
    first = programs.server()
    port = first.port
    first.end()  # its port is likely to stay free
    worker = programs.worker(port, "--wait", "--timeout", 0.2, host=f"{transport}://localhost")
    for times in (1, 2):
        waits(worker, times)
        server = programs.start([GT_BINARY, "server", "-p", port], "server")
        assert programs.run(WORK, f"localhost:{port}") == "right\n"
        assert server.alive and worker.alive, server.text() + worker.text()
        if times == 1:
            server.kill()
    server.end()
    assert worker.wait() == 0, "a worker ends when its server says goodbye"


def test_a_waiting_worker_ends_when_asked(programs):
    worker = programs.worker(1, "--wait", "--timeout", 0.2, host="tcp://no-such-host.invalid")
    waits(worker)
    worker.popen.terminate()
    assert worker.wait() == 0, worker.text()


def test_without_it_a_worker_gives_up(programs):
    worker = programs.worker(1, "--timeout", 0.2)
    assert worker.wait() == 1 and "localhost:1" in worker.text(), worker.text()
