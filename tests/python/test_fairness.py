"""Clients share a worker's time: a light one does not wait for the backlog of a heavy one, equal ones get equal shares."""

import signal

import pytest

from support import until

LINKS = ("memory", "ipc", "tcp")
PRODUCTS = 1500

# Queues many products, says so, and waits for them. With a file: not before the file is there.
HEAVY = """
    import os
    import sys
    import time
    import gt
    gt.connect(sys.argv[1])
    size = int(sys.argv[2])
    a = gt.ones(size, size)
    a.sum().item()
    print("ready", flush=True)
    while len(sys.argv) > 4 and not os.path.exists(sys.argv[4]):
        time.sleep(0.001)
    for _ in range(int(sys.argv[3])):
        b = a @ a
    print("queued", flush=True)
    b.sum().item()
    print("done", flush=True)
"""

# Small questions one after another, and what the statistics say of products then.
LIGHT = """
    import sys
    import gt
    gt.connect(sys.argv[1])
    a = gt.ones(8)
    for k in range(5):
        assert (a + k).sum().item() == 8 + 8 * k
    print(gt.debug.dispatcher_stats()["workers"][0]["ops"].get("matmul", {"count": 0})["count"])
"""


def products_done(programs, address):
    return int(programs.run(LIGHT, address))


@pytest.mark.parametrize("link", LINKS)
def test_a_light_client_does_not_wait_for_a_heavy_ones_backlog(programs, link):
    server = programs.cluster()
    address = f"{link}://localhost:{server.port}"
    heavy = programs.python(HEAVY, address, 384, PRODUCTS, name="heavy")
    until(lambda: "queued" in heavy.text() or not heavy.alive, "the heavy client's backlog")
    done = products_done(programs, address)
    assert "done" not in heavy.text() and heavy.alive, heavy.text()
    assert done < PRODUCTS


def test_the_backlog_of_a_killed_client_is_dropped(programs):
    server = programs.cluster()
    address = f"memory://localhost:{server.port}"
    heavy = programs.python(HEAVY, address, 384, PRODUCTS, name="heavy")
    until(lambda: "queued" in heavy.text() or not heavy.alive, "the heavy client's backlog")
    heavy.signal(signal.SIGKILL)
    heavy.wait()
    before = products_done(programs, address)
    # The programs in between take longer than the worker's own queue, which is all that is left of the backlog.
    assert products_done(programs, address) - before < PRODUCTS / 4
    assert before < PRODUCTS


# From when all clients work until the first is done: the least time that a client got, in parts of the most.
WATCH = """
    import sys
    import gt
    gt.connect(sys.argv[1])
    count = int(sys.argv[2])
    def seconds():
        clients = gt.debug.dispatcher_stats()["clients"]
        return {client["number"]: client["seconds"] for client in clients if client["seconds"] > 0.02}
    start = now = {}
    while len(start) < count or len(now) == count:
        last, now = now, seconds()
        start = start if len(start) == count else now
    got = [last[number] - start[number] for number in start]
    print(min(got) / max(got))
"""


@pytest.mark.parametrize("link", LINKS)
def test_equal_clients_get_equal_shares(programs, link):
    server = programs.cluster()
    address = f"{link}://localhost:{server.port}"
    watcher = programs.python(WATCH, address, 3, name="watcher")
    begin = programs.directory / "begin"
    heavy = [programs.python(HEAVY, address, 256, PRODUCTS // 3, begin, name="heavy") for _ in range(3)]
    until(lambda: all("ready" in process.text() or not process.alive for process in heavy), "the clients")
    begin.touch()
    assert watcher.wait() == 0, watcher.text()
    assert float(watcher.output.read_text()) > 0.8, watcher.text()
    for process in heavy:
        assert process.wait() == 0, process.text()
