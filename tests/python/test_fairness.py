"""Clients share a worker's time: a light one does not wait for the backlog of a heavy one, equal ones get equal shares."""

import signal

import pytest

from support import until

LINKS = ("memory", "ipc", "tcp")
PRODUCTS = 1500

# Queues many products, says so, and waits for them. With a weight: asks for it.
HEAVY = """
    import sys
    import gt
    gt.connect(sys.argv[1], weight=float(sys.argv[4]) if len(sys.argv) > 4 else None)
    size = int(sys.argv[2])
    a = gt.ones(size, size)
    a.sum().item()
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


# From when all clients work: the least time that a client got, in parts of the most. It ends when all have got a second, and not when
# the first has: if the machine takes the worker's processor away, that counts for one of them, and the others catch up.
WATCH = """
    import sys
    import gt
    gt.connect(sys.argv[1])
    count = int(sys.argv[2])
    def seconds(least=0):
        clients = gt.debug.dispatcher_stats()["clients"]
        return {client["number"]: client["seconds"] for client in clients if client["seconds"] >= least}
    while len(start := seconds(0.02)) < count:
        pass
    got = [0]
    while min(got) < 1 and max(got) < 10:
        now = seconds()
        got = [now[number] - start[number] for number in start]
    print(min(got) / max(got))
"""


def least_part(programs, address, weights):
    """What the client that got least time got, in parts of the one that got most, while all of them work."""
    heavy = [programs.python(HEAVY, address, 256, 10 ** 6, weight, name="heavy") for weight in weights]
    least = float(programs.run(WATCH, address, len(weights)))
    for process in heavy:
        assert process.alive, process.text()
        process.kill()
    return least


@pytest.mark.parametrize("link", LINKS)
def test_equal_clients_get_equal_shares(programs, link):
    server = programs.cluster()
    address = f"{link}://localhost:{server.port}"
    assert least_part(programs, address, [1, 1, 1]) > 0.8


def test_a_client_gets_time_in_proportion_to_its_weight(programs):
    server = programs.server("--max-weight", 4)
    programs.worker(server.port)
    address = f"localhost:{server.port}"
    assert 0.2 < least_part(programs, address, [1, 3]) < 0.45


# ---- small records that take long -----------------------------------------------------------------------------------

# Special functions of few elements, each of which takes about as long as a product of the other client. Without hot paths, whose
# time does not count for their operations.
SPECIAL = """
    import sys
    import gt
    gt.connect(sys.argv[1])
    x = gt.ones(2047) * 1.5
    z = gt.special.zeta(x, x)
    z.sum().item()
    print("works", flush=True)
    while True:
        z = gt.special.zeta(x, x)
"""

# From when both clients work: the part of the worker's time that products got, in a second of it.
WATCH_PRODUCTS = """
    import sys
    import gt
    gt.connect(sys.argv[1])
    def seconds():
        ops = gt.debug.dispatcher_stats()["workers"][0]["ops"]
        return [ops.get(name, {"seconds": 0})["seconds"] for name in ("matmul", "zeta")]
    while min(start := seconds()) == 0:
        pass
    got = [0, 0]
    while sum(got) < 1:
        got = [now - before for now, before in zip(seconds(), start)]
    print(got[0] / sum(got))
"""

# The fewest special functions that were executed between a question and its answer.
WATCH_WAIT = """
    import sys
    import gt
    gt.connect(sys.argv[1])
    def done():
        return gt.debug.dispatcher_stats()["workers"][0]["ops"]["zeta"]["count"]
    a = gt.ones(8)
    waits = []
    for k in range(20):
        before = done()
        assert (a + k).sum().item() == 8 + 8 * k
        waits.append(done() - before)
    print(min(waits))
"""


def test_products_beside_a_stream_of_small_special_functions_get_their_share(programs):
    server = programs.cluster(worker_options=("--threads", 1))
    address = f"localhost:{server.port}"
    special = programs.python(SPECIAL, address, name="special", GT_AUTO_COMPILE="0")
    until(lambda: "works" in special.text() or not special.alive, "the special functions")
    products = programs.python(HEAVY, address, 256, 10 ** 6, name="products", GT_AUTO_COMPILE="0")
    share = float(programs.run(WATCH_PRODUCTS, address))
    for process in (special, products):
        assert process.alive, process.text()
        process.kill()
    assert share > 0.15  # 0.5 is fair


@pytest.mark.parametrize("hot_paths", ("0", "1"))
def test_a_light_client_does_not_wait_for_a_queue_of_small_special_functions(programs, hot_paths):
    server = programs.cluster(worker_options=("--threads", 1))
    address = f"localhost:{server.port}"
    special = programs.python(SPECIAL, address, name="special", GT_AUTO_COMPILE=hot_paths)
    until(lambda: "works" in special.text() or not special.alive, "the special functions")
    waited = int(programs.run(WATCH_WAIT, address))
    assert special.alive, special.text()
    special.kill()
    assert waited < 300  # a link has room for 8192


def test_the_server_limits_weights(programs):
    server = programs.cluster()
    program = """
        import sys
        import gt
        gt.connect(sys.argv[1], weight=float(sys.argv[2]))
        gt.ones(2).sum().item()
        print([client["weight"] for client in gt.debug.dispatcher_stats()["clients"]])
    """
    assert programs.run(program, f"localhost:{server.port}", 5) == "[1]\n"
    assert programs.run(program, f"localhost:{server.port}", 0.25) == "[0.25]\n"
    for wrong in (0, -1, "nan"):
        assert "ValueError: weight must be" in failure(programs, program, server, wrong)


def failure(programs, program, server, *arguments):
    process = programs.python(program, f"localhost:{server.port}", *arguments)
    assert process.wait() == 1
    return process.text()


SHARDED = """
    import sys
    import gt
    gt.connect(sys.argv[1])
    while len(gt.debug.get_worker_stats()) < 2:
        pass
    gt.register_config("rows", gt.SignalConfig(shard=gt.ShardConfig(axis=0)))
    x = gt.signal.tensor(gt.ones(256, 256), name="rows")
    for _ in range(int(sys.argv[2])):
        y = x.T @ x  # each worker's part of the sum, and then the sum of the parts
        z = y.sum()
    print(z.item())
"""


def test_sharded_programs_get_their_turn_among_others(programs):
    server = programs.cluster(workers=2)
    address = f"localhost:{server.port}"
    heavy = [programs.python(HEAVY, address, 256, PRODUCTS, name="heavy") for _ in range(2)]
    until(lambda: all("queued" in process.text() or not process.alive for process in heavy), "their backlogs")
    sharded = [programs.python(SHARDED, address, 40, name="sharded") for _ in range(2)]
    for process in sharded:
        assert process.wait() == 0, process.text()
        assert process.output.read_text() == f"{256.0 ** 3}\n"
    for process in heavy:
        assert process.alive or "done" in process.text(), process.text()


# Splits a tensor over two workers and multiplies its parts for ever; or splits it once, and then works on its own worker.
SPREAD = """
    import sys
    import gt
    gt.connect(sys.argv[1])
    while len(gt.debug.get_worker_stats()) < 2:
        pass
    gt.register_config("rows", gt.SignalConfig(shard=gt.ShardConfig(axis=0)))
    size, split = int(sys.argv[2]), sys.argv[3] == "split"
    x = gt.signal.tensor(gt.ones(size, size), name="rows")
    w = gt.ones(size, size) / size
    (x @ w).sum().item()
    print("works", flush=True)
    x = x if split else gt.ones(size, size)
    while True:
        y = (x @ w).tanh()
        x = x if split else y
"""


def spread_clients(programs, address, count, size, what="split", hot_paths="1"):
    clients = [programs.python(SPREAD, address, size, what, name="spread", GT_AUTO_COMPILE=hot_paths) for _ in range(count)]
    until(lambda: all("works" in client.text() or not client.alive for client in clients), "the spread clients")
    return clients


@pytest.mark.parametrize("hot_paths", ("0", "1"))
@pytest.mark.parametrize("what", ("split", "split once"))
def test_light_clients_do_not_wait_for_the_stream_of_a_spread_one(programs, what, hot_paths):
    server = programs.cluster(workers=2, worker_options=("--threads", 1))
    address = f"localhost:{server.port}"
    spread, = spread_clients(programs, address, 1, 512, what, hot_paths)
    for _ in range(2):  # one at each worker
        programs.run(LIGHT, address)
    assert spread.alive, spread.text()
    spread.kill()


def test_equal_spread_clients_get_equal_shares(programs):
    server = programs.cluster(workers=2, worker_options=("--threads", 1))
    address = f"localhost:{server.port}"
    clients = spread_clients(programs, address, 4, 256)
    least = float(programs.run(WATCH, address, 4))
    for client in clients:
        assert client.alive, client.text()
        client.kill()
    assert least > 0.6


# ---- hot paths --------------------------------------------------------------------------------------------------

# Runs a path of many milliseconds until a file appears; says what 20 runs gave.
PATH = """
    import hashlib
    import os
    import sys
    import gt
    gt.connect(sys.argv[1])

    @gt.compile
    def step(x, w):
        for _ in range(10):
            x = (x @ w).tanh() + x
        return x / 2

    x, w = gt.arange(512 * 512).reshape(512, 512).float().sin(), gt.arange(512 * 512).reshape(512, 512).float().cos()
    for k in range(20):
        x = step(x, w)
    print(hashlib.sha256(x.numpy().tobytes()).hexdigest(), flush=True)
    while not os.path.exists(sys.argv[2]):
        x = step(x, w)
        x.sum().item()
"""

# Asks small questions until a run of a path was executed in several records.
ASK = """
    import sys
    import gt
    gt.connect(sys.argv[1])
    a = gt.ones(8)
    while True:
        for k in range(5):
            assert (a + k).sum().item() == 8 + 8 * k
        gt.debug.get_worker_stats(wait=True)
        worker = gt.debug.dispatcher_stats(wait=True)["workers"][0]
        if worker["ops"].get("repeat", {"count": 0})["count"] > worker["paths"]["runs"]:
            break
"""


def test_a_path_is_run_in_slices_beside_another_client(programs, tmp_path):
    server = programs.cluster()
    address, stop = f"localhost:{server.port}", tmp_path / "stop"
    stop.touch()
    alone = programs.run(PATH, address, stop)
    stop.unlink()
    asking = programs.python(ASK, address, name="ask")
    path = programs.python(PATH, address, stop, name="path")
    assert asking.wait() == 0, asking.text() + path.text()
    stop.touch()
    assert path.wait() == 0, path.text()
    assert path.text() == alone


# Until the worker has no tensors but the small ones of this client.
LONELY = """
    import sys
    import gt
    gt.connect(sys.argv[1])
    a = gt.ones(8)
    while True:
        assert (a + 1).sum().item() == 16
        if all(worker["memory"]["used"] < 4096 for worker in gt.debug.get_worker_stats(wait=True).values()):
            break
"""


def test_a_client_that_is_killed_in_the_middle_of_a_path_leaves_nothing(programs, tmp_path):
    server = programs.cluster()
    address = f"localhost:{server.port}"
    path = programs.python(PATH, address, tmp_path / "never", name="path")
    programs.run(ASK, address)
    path.signal(signal.SIGKILL)
    path.wait()
    programs.run(LONELY, address)
