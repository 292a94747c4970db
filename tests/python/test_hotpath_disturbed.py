"""Hot paths that something comes between: changes, errors, forks, signals, other threads and clients, a lost worker."""

import signal

import pytest
from support import until
from test_hotpath import HOT, check, run

STEP = """
def step(h, x):
    a = gt.tanh(h + x)
    {middle}
    b = a * 0.5 + x
    return gt.relu(b - 0.1) - h * 0.25
"""

CHANGING = """
import random
choice = random.Random(SEED)
x, h = gt.arange(12.0) / 7, gt.zeros(12)
kinds = [
    lambda h: gt.tanh(h + x) * 0.5,
    lambda h: gt.relu(h - x) + h * 0.25 - (x * h).clamp(-1, 1),
    lambda h: h * float(h.sum()) * 0.1,
    lambda h: (h.reshape(3, 4) - x.reshape(3, 4)).sigmoid().reshape(12),
    lambda h: gt.where(h > x, h, x) * 0.9 + gt.exp(-h * h),
]
for _ in range(120):
    kind = choice.choice(kinds)
    for _ in range(choice.randrange(1, 9)):
        h = kind(h)
        if choice.random() < 0.05:
            keep(h)
keep(h)
"""


@pytest.mark.parametrize("seed", range(2))
def test_a_loop_that_changes_every_few_steps(seed):
    check(CHANGING.replace("SEED", str(seed)), least=0)


def disturbed(middle, least=0.3):
    """A loop whose step is disturbed now and then, in its middle, at no fixed distance."""
    return check(STEP.format(middle=middle) + """
import os, signal
turn = 0
x, h = gt.arange(6.0) / 5, gt.zeros(6)
for turn in range(200):
    try:
        h = step(h, x)
    except (KeyboardInterrupt, ZeroDivisionError):
        results.append(turn)
keep(h)
""", least=least)


NOW_AND_THEN = "if turn > 40 and turn * turn % 17 == 1: "


def test_synchronize_while_instructions_are_held_back():
    disturbed(NOW_AND_THEN + "gt.synchronize()")


def test_ctrl_c_while_instructions_are_held_back():
    disturbed(NOW_AND_THEN + "signal.raise_signal(signal.SIGINT)")


def test_an_exception_while_instructions_are_held_back():
    disturbed(NOW_AND_THEN + "1 / 0")


def test_garbage_collection_while_instructions_are_held_back():
    """A cycle that dies frees tensors that the path knows nothing of."""
    disturbed("cycle = [a * 3]; cycle.append(cycle); del cycle\n    " + NOW_AND_THEN + "import gc; gc.collect()")


def test_a_fork_while_instructions_are_held_back():
    """The child has no connection; the parent goes on where it was."""
    disturbed("""if turn in (60, 61, 150):
        child = os.fork()
        if not child:
            try:
                (a + 1).sum().item()
            except RuntimeError as error:
                os._exit(7 if 'fork' in str(error) else 8)
            os._exit(9)
        results.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))""")


@pytest.mark.parametrize("lookup", ["gt.index_select(w * 2, 0, at)", "gt.gather(w * 2, 0, at.reshape(1, 1))",
                                    "nn.functional.embedding(at, w * 2)"])
def test_a_bad_index_in_the_middle_of_a_path(lookup):
    """The error of its instruction, with its line; tensors from before the path stay."""
    check("""
w, h = gt.randn(10, 4), gt.zeros(4)
for turn in range(80):
    at = gt.tensor([turn % 10 if turn not in (50, 51, 70) else 99]) + 0
    before = h
    try:
        row = LOOKUP
        h = gt.tanh(h * 0.5 + row.sum(0))
        results.append((h * h).sum().item())
    except IndexError as error:
        results.append(str(error))
        h = before
assert sum(isinstance(result, str) for result in results) == 3
keep(h)
""".replace("LOOKUP", lookup))


def test_memory_that_runs_out_in_the_middle_of_a_path():
    results, hotpath, _ = run("""
row, kept = gt.ones(1, 4096), None
for turn in range(60):
    column = gt.ones(64 if turn not in (45, 46) else 8192, 1)
    kept = (column * 2 + 1) * row
    kept = kept - row * 0.5
    total = kept[0] * 2 + 1
    try:
        results.append(total.sum().item())
    except (MemoryError, RuntimeError) as error:
        results.append(str(error))
""", GT_WORKER_MEMORY="64M", **HOT)
    assert [turn for turn, result in enumerate(results) if isinstance(result, str)] == [45, 46]
    assert "allocate" in results[45] and len({result for result in results if not isinstance(result, str)}) == 1
    assert hotpath["runs"] > 10


def test_threads_that_share_a_client():
    """Their instructions are mixed in an order of its own each time."""
    check("""
import threading
totals = {}
def work(number):
    x, h = gt.full((7,), float(number + 1)), gt.zeros(7)
    for turn in range(300):
        h = gt.relu(h * 0.5 + x) - 0.125
        if turn % (10 + number) == 0:
            h.sum().item()
    totals[number] = h
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
keep(*(totals[number] for number in range(4)))
""", least=0)


CLIENT = """
    import pathlib, sys
    import gt
    gt.connect(sys.argv[1])
    number, ready, go = float(sys.argv[2]), pathlib.Path(sys.argv[3]), pathlib.Path(sys.argv[4])
    x, h = gt.arange(8.0) * number, gt.zeros(8)
    for turn in range(400):
        h = gt.tanh(h * 0.5 + x) - h * number
        if turn == 200:
            h.sum().item()
            ready.touch()
            while not go.exists():
                h = gt.tanh(h * 0.5 + x) - h * number
                h.sum().item()
            h = gt.zeros(8)
    print(h.numpy().tolist())
    runs = next(iter(gt.debug.get_worker_stats(wait=True).values()))["hotpath"]["runs"]
    assert runs > 5 or not HOT, runs
"""


def test_clients_with_paths_share_a_worker(programs):
    """Each has paths of its own there; those of one that leaves do not take the others' with them."""
    server = programs.cluster()
    go = programs.directory / "go"

    def client(number, hot, name):
        settings = HOT if hot else {"GT_AUTO_COMPILE": "0"}
        return programs.python(CLIENT.replace("HOT", str(hot)), f"localhost:{server.port}", number,
                               programs.directory / name, go, **settings)

    hot = [client(number, True, f"hot{number}") for number in range(1, 4)]
    until(lambda: all((programs.directory / f"hot{number}").exists() for number in range(1, 4))
          or not all(process.alive for process in hot), "the clients")
    leaving, *hot = hot
    leaving.kill()
    go.touch()
    for number, process in enumerate(hot, start=2):
        assert process.wait() == 0, process.text()
        cold = client(number, False, f"cold{number}")
        assert cold.wait() == 0, cold.text()
        assert process.output.read_text() == cold.output.read_text()


def test_a_worker_is_killed_while_a_path_runs(programs):
    """What was on it is lost, with an error that says so; the same loop then runs as a path on another worker."""
    server = programs.cluster()
    waiting = programs.directory / "waiting"
    client = programs.python("""
        import pathlib, sys
        import gt
        gt.connect(sys.argv[1])
        def loop(turns):
            x, h = gt.arange(8.0), gt.zeros(8)
            for turn in range(turns):
                h = gt.tanh(h * 0.5 + x) - h * 0.25
                if turn % 50 == 49:
                    h.sum().item()
                    pathlib.Path(sys.argv[2]).touch()
            return h.numpy().tolist()
        try:
            loop(10 ** 9)
        except Exception as error:
            print(type(error).__name__, error)
        pathlib.Path(sys.argv[3]).touch()
        while True:
            try:
                gt.ones(1).item()
                break
            except Exception:
                pass
        first = loop(500)  # a path may be as long as from one wait to the next
        assert loop(500) == first
        print(next(iter(gt.debug.get_worker_stats(wait=True).values()))["hotpath"]["worker_runs"] > 5)
        """, f"localhost:{server.port}", waiting, programs.directory / "failed", **HOT)
    until(lambda: waiting.exists() or not client.alive, "the loop")
    server.workers[0].kill()
    until(lambda: (programs.directory / "failed").exists() or not client.alive, "the error")
    programs.worker(server.port)
    assert client.wait() == 0, client.text()
    error, hot = client.output.read_text().splitlines()
    assert "worker" in error and hot == "True"


def asleep(process):
    """A condition for until(): the first thread sleeps whenever it is looked at for a while, so it waits for something."""
    looks = []

    def condition():
        with open(f"/proc/{process.pid}/stat") as file:
            looks.append(file.read().rpartition(")")[2].split()[0] == "S")
        return len(looks) >= 30 and all(looks[-30:])

    return condition


def test_ctrl_c_while_a_call_of_a_marked_function_waits_for_room(programs):
    """It waits where it ends until its run has been sent. A run has nine slots, so there hardly ever is none left for the next call's
    first instruction, which would wait then; and if so, the program tries again."""
    server = programs.cluster()
    going = programs.directory / "going"
    client = programs.python("""
        import pathlib, sys, traceback
        import gt
        gt.connect(f"memory://{sys.argv[1]}")
        inputs, going, where = [gt.arange(8.0) + k for k in range(60)], pathlib.Path(sys.argv[2]), ""
        @gt.compile
        def step(h):
            for x in inputs:
                h = h * 0.5 + x
            return h
        def loop(turns):
            h = gt.zeros(8)
            for turn in range(turns):
                h = step(h)
            return h.numpy().tolist()
        expected = loop(100)
        while where != "compiled":
            going.touch()
            try:
                loop(10 ** 9)
            except KeyboardInterrupt as error:
                where = traceback.extract_tb(error.__traceback__)[-1].name
            going.unlink()
            assert loop(100) == expected
        hotpath = next(iter(gt.debug.get_worker_stats(wait=True).values()))["hotpath"]
        print(hotpath["total_instructions"] - hotpath["hot_instructions"])
        """, f"localhost:{server.port}", going, GT_AUTO_COMPILE="0")
    while until(lambda: going.exists() or not client.alive, "the loop") and client.alive:
        server.signal(signal.SIGSTOP)
        try:
            until(asleep(client), "the link is full")
            client.signal(signal.SIGINT)
            until(lambda: not going.exists() or not client.alive, "KeyboardInterrupt")
        finally:
            server.signal(signal.SIGCONT)
    assert client.wait() == 0, client.text()
    assert int(client.output.read_text()) < 3 * 120  # the two calls that it was learned from


def test_a_client_that_is_far_ahead_sends_every_run():
    """Whether there is room in its link is a matter of time. Results must not be, and a sum may round in another way in a path."""
    def alone(steps):
        _, hotpath, _ = run("""
x, h = gt.full((160, 160), 0.01), gt.zeros(160, 160)
for turn in range(STEPS):
    for k in range(10):
        h = h * (turn + k) - turn * k
    h = gt.tanh(h @ x)
gt.synchronize()
""".replace("STEPS", str(steps)), **HOT)
        return hotpath["total_instructions"] - hotpath["hot_instructions"]

    assert alone(5000) == alone(100)
