"""Statistics of a worker that is inside an operation, with work queued behind it: they come at once, and are true."""

import json
import pathlib
import subprocess

import pytest
from support import GT_BINARY, HELD, PATIENCE_S, clean_environment, until

import gt

# More than fits between the client and the worker: a question in the stream would wait behind all of it.
QUEUED = 5000
PROGRAM = f"""
    import os, pathlib, sys, time
    import gt
    folder = pathlib.Path(sys.argv[1])
    gt.connect(sys.argv[2])
    a = gt.ones(64, 64)
    (a + a).sum().item()
    before = gt.debug.get_worker_stats(wait=True)["held"]
    product = a @ a
    gt.debug.dispatcher_stats(wait=True)  # sends it off
    while not (folder / "began").exists():
        time.sleep(0.001)
    for _ in range({QUEUED}):
        a = a + 1
    now = gt.debug.get_worker_stats()["held"]
    used = gt.debug.dispatcher_stats()["clients"][0]["seconds"]
    later = gt.debug.get_worker_stats()["held"]
    while gt.debug.dispatcher_stats()["clients"][0]["seconds"] < used + 0.1:
        pass
    took = 1
    while took > 0.015:  # with any interval that is waited for, none would be so quick
        began = time.perf_counter()
        gt.debug.get_worker_stats()
        took = time.perf_counter() - began
    print((before, now, later))
    sys.stdout.flush()
    while not (folder / "go").exists():
        time.sleep(0.001)
    print(product[0, 0].item(), a[0, 0].item(), gt.debug.get_worker_stats(wait=True)["held"]["ops"]["add"]["count"])
"""


def top(programs, port):
    ended = subprocess.run([GT_BINARY, "top", "--once", "--json", "--port", str(port)], capture_output=True, text=True, check=True,
                           timeout=PATIENCE_S, env=clean_environment(programs.runtime))
    return json.loads(ended.stdout)


@pytest.mark.parametrize("link", ["memory", "ipc", "tcp"])
def test_a_worker_inside_an_operation(programs, link):
    folder = programs.directory
    (folder / "gt_engine_held.py").write_text(HELD)
    package = pathlib.Path(gt.__file__).absolute().parents[1]
    server = programs.server()
    programs.worker(server.port, "--name", "held", "--backend", "held", python=True, host=f"{link}://localhost",
                    HELD=folder, PYTHONPATH=f"{folder}:{package}")
    client = programs.python(PROGRAM, folder, f"localhost:{server.port}", GT_AUTO_COMPILE=0)
    until(lambda: client.text().endswith("\n"), "the client has its statistics while the product lasts")
    before, now, later = eval(client.text())
    said = top(programs, server.port)
    (folder / "go").touch()
    assert client.wait() == 0, client.text()
    assert client.text().splitlines()[-1] == f"64.0 {QUEUED + 1.0} {QUEUED + 1}"
    assert now["link"] == link
    assert now["queue"] >= QUEUED, "also those that the dispatcher has not taken from the client yet"
    assert now["ops"].get("add") == before["ops"]["add"] == later["ops"]["add"], "none of the queued ones is executed"
    assert later["busy_seconds"] > now["busy_seconds"] > before["busy_seconds"], "it is busy all the time"
    assert later["idle_seconds"] == now["idle_seconds"]
    [worker] = said["workers"]
    assert worker["idle"] == 0 and worker["queue"] >= QUEUED and worker["memory"] > 0
    assert [(client["name"].split(":")[0], client["share"]) for client in said["clients"]] == [("2-program.py", 1)]
    assert now["doing"]["op"] == later["doing"]["op"] == "matmul"
    assert later["doing"]["seconds"] > now["doing"]["seconds"] > 0
    assert later["ops"]["matmul"]["count"] == 1 and later["ops"]["matmul"]["seconds"] > now["ops"]["matmul"]["seconds"]
    assert now["memory"]["used"] >= 2 * 64 * 64 * 4, "the operand and the result"
    assert worker["activity"] == {"MatMul": 1}


def test_a_worker_that_has_nothing_to_do(programs):
    stats, [client] = eval(programs.run("""
        import gt
        a = gt.ones(3) + 1
        gt.synchronize()
        print(([gt.debug.get_worker_stats()["auto_worker"] for _ in range(2)], gt.debug.dispatcher_stats()["clients"]))
    """, GT_AUTO_COMPILE=0))
    assert all(worker["ops"]["add"]["count"] == 1 and worker["queue"] == 0 for worker in stats)
    assert all(worker["doing"] is None for worker in stats), "the last operation is not said to be executed for ever"
    assert stats[1]["idle_seconds"] > stats[0]["idle_seconds"]
    assert client["queued"] == 0


def test_names_are_shown_as_they_are(programs):
    """All letters, quotes and backslashes; without what a terminal would obey, and bytes that are no letters become U+FFFD."""
    server = programs.server()
    programs.worker(server.port, "--name", 'Zürich "日本" \\ 🙂\x1b[31m\x85\udca2\udcdc')
    said = programs.python("""
        import sys
        import gt
        gt.connect(sys.argv[1])
        gt.ones(3).numpy()
        with gt.signal.context('größe "1"'):
            kept = gt.ones(5)
            kept.numpy()
        print(ascii((list(gt.debug.get_worker_stats()), [client["name"] for client in gt.debug.dispatcher_stats()["clients"]])))
    """, f"localhost:{server.port}", name='naïve "x"')
    assert said.wait() == 0, said.text()
    workers, [program] = eval(said.output.read_text())
    assert workers == ['Zürich "日本" \\ 🙂[31m\ufffd\ufffd']
    assert program.split(":")[0].endswith('-naïve "x".py')


DISPATCHER = f"""
    import pathlib, sys, time
    import gt
    folder = pathlib.Path(sys.argv[1])
    gt.connect(sys.argv[2])
    a = gt.ones(64, 64)
    for _ in range(100):
        a = (a * 2 - a).relu()
    (a @ a).sum().sigmoid()
    for _ in range({QUEUED}):
        a = a + 1
        a.sum()
    while not (folder / "began").exists():
        time.sleep(0.001)
    print((gt.debug.dispatcher_stats(), gt.debug.get_hot_paths()), flush=True)
    while not (folder / "go").exists():
        time.sleep(0.001)
    emitted = gt.debug.dispatcher_stats(wait=True)
    print(emitted["clients"][0]["modifiers"]["statistics"]["ops"]["matmul"])
"""


def test_the_dispatcher_and_paths_behind_queued_work(programs):
    """The dispatcher has not taken all that the client emitted: a question in the stream would wait."""
    folder = programs.directory
    (folder / "gt_engine_held.py").write_text(HELD)
    server = programs.server("--max-queued", 1000)
    programs.worker(server.port, "--name", "held", "--backend", "held", python=True, HELD=folder,
                    PYTHONPATH=f"{folder}:{pathlib.Path(gt.__file__).absolute().parents[1]}")
    client = programs.python(DISPATCHER, folder, f"localhost:{server.port}", GT_HOTPATH_THRESHOLD=5, GT_HOTPATH_MIN_SEQ=3)
    until(lambda: client.text().endswith("\n"), "the client has its statistics while the product lasts")
    dispatcher, paths = eval(client.text())
    (folder / "go").touch()
    assert client.wait() == 0, client.text()
    assert [worker["name"] for worker in dispatcher["workers"]] == ["held"] and dispatcher["clients"][0]["tensors"] > 0
    assert paths and paths[0]["runs"] > 0
    assert client.text().splitlines()[-1] == "1"


HELD_PATH = """
import os, pathlib, time
import numpy as np
import gt

class Engine(gt.engines.Engine):
    def matmul(self, out, a, b):
        folder = pathlib.Path(os.environ["HELD"])
        while (folder / "hold").exists():
            (folder / "began").touch()
            time.sleep(0.001)
        return np.matmul(a, b)
"""
PATHS = """
import os, pathlib, sys, time
import gt
folder = pathlib.Path(os.environ["HELD"])
a = gt.zeros(8, 8)
for step in range(60):
    if step == 50:
        gt.synchronize()
        (folder / "hold").touch()
    with gt.signal.context("forward"):
        b = (a + 1) @ a
    with gt.signal.context("update"):
        a = a * 0.5 + b.relu()
gt.debug.dispatcher_stats(wait=True)  # sends it off
while not (folder / "began").exists():
    time.sleep(0.001)
print((gt.debug.get_worker_stats()["auto_worker"], gt.debug.dispatcher_stats()["clients"][0]), flush=True)
print(a.sum().item())
"""


def test_a_worker_inside_a_hot_path_tells_its_lines_and_scopes(programs):
    folder = programs.directory
    (folder / "gt_engine_held.py").write_text(HELD_PATH)
    client = programs.python(PATHS, HELD=folder, GT_BACKEND="held", GT_HOTPATH_THRESHOLD=5, GT_HOTPATH_MIN_SEQ=3, name="paths",
                             PYTHONPATH=f"{folder}:{pathlib.Path(gt.__file__).absolute().parents[1]}")
    until(lambda: client.text().endswith("\n"), "statistics from inside the path")
    (folder / "hold").unlink()
    assert client.wait() == 0, client.text()
    worker, program = eval(client.text().splitlines()[0])
    place = {key: program[key] for key in ("line", "scope", "path")}
    assert place["line"].endswith("paths.py:11-13") and place["scope"] in ("forward, update", "update, forward")
    assert place["path"]["instructions"] >= 4
    assert worker["doing"]["op"] == "matmul" and place.items() <= worker["doing"].items()


def test_all_workers_of_a_sharded_program_are_waited_for(programs):
    """Also those whose links are full when the question comes."""
    client = programs.python("""
import gt
gt.gpu_workers(2)
gt.register_config("rows", gt.SignalConfig(gt.ShardConfig(0, [0, 1])))
with gt.signal.context("rows"):
    x, w = gt.ones(2000, 64), gt.ones(64, 64)
    for step in range(300):
        x = ((x @ w) * 0.01).tanh()
print([worker["ops"]["tanh"]["count"] for worker in gt.debug.get_worker_stats(wait=True).values()])
""", GT_AUTO_COMPILE=0, name="sharded")
    assert client.wait() == 0 and client.text() == "[300, 300]\n", client.text()
