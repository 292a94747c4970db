"""gt trace: what a running dispatcher does, as a log that gt visualize draws. test_top.py has the busy server."""

import json
import pathlib
import re
import signal
import subprocess
import sys

import pytest

from support import GT_BINARY, PATIENCE_S, clean_environment, until
from test_top import Busy, top

LINE = re.compile(
    r"\d+\.\d{6}s \| #\d{4,} \| (RECV|SEND|WORKER_SEND|WORKER_RECV|CONNECT|DISCONNECT|SIGNAL|ERROR) +\| "
    r"(CLIENT|WORKER) \S.*? +\| \S+ +\| +[\d.]+[KMGT]?B \| .*"
)


@pytest.fixture
def busy(programs):
    started = Busy(programs)
    until(
        lambda: len(json.loads(top(programs, "--once", "--json", "--port", started.port).stdout)["clients"]) == 2,
        "the clients",
    )
    return started


def trace(programs, *arguments, status=0, python=False, cwd=None):
    program = [sys.executable, "-m", "gt.scripts.trace"] if python else [GT_BINARY, "trace"]
    ended = subprocess.run(
        [*program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        env=clean_environment(programs.runtime),
        cwd=cwd,
    )
    assert ended.returncode == status, f"status {ended.returncode}:\n{ended.stdout}{ended.stderr}"
    return ended


def saved(text):
    return pathlib.Path(re.search(r"✓ Trace saved to: (.*)", text).group(1))


@pytest.mark.parametrize("python", [False, True])
def test_a_number_of_events(programs, busy, tmp_path, python):
    ended = trace(programs, "-s", 60, "-n", 100, "--dir", tmp_path / "traces", python=python)
    path = saved(ended.stdout)
    assert path.parent == tmp_path / "traces" and re.fullmatch(
        rf"trace_\d{{8}}_\d{{6}}_{busy.port}\.log", path.name
    )
    lines = path.read_text().splitlines()
    assert len(lines) == 100 and "Events: 100\n" in ended.stdout
    assert all(LINE.fullmatch(line) for line in lines), [line for line in lines if not LINE.fullmatch(line)]
    busy.finish()


def test_visualize_draws_it(programs, busy, tmp_path):
    path = saved(trace(programs, "--seconds", 60, "--max-events", 3000, "--dir", tmp_path).stdout)
    ended = subprocess.run(
        [GT_BINARY, "visualize", path, "--output", tmp_path / "p.png", "--dump-layout"],
        text=True,
        capture_output=True,
        timeout=PATIENCE_S,
    )
    assert "not a log line" not in ended.stderr and "Events: 3000\n" in ended.stderr
    layout = json.loads(ended.stdout)
    assert [lane["name"] for lane in layout["lanes"]] == [
        "Client 1",
        "Client 2",
        "Dispatcher",
        "Worker worker_0",
        "Worker worker_1",
    ]
    received = path.read_text().count("| WORKER_RECV")
    assert sum(bar["count"] for bar in layout["bars"] if not bar["waiting"]) == received > 0
    assert {"MatMul", "BinaryOp", "ReLU", "Sum", "GetData"} <= {bar["category"] for bar in layout["bars"]}
    # A worker does one thing at a time, within the time that the trace covers.
    for index in (3, 4):
        bars = sorted(
            (bar["start"], bar["duration"])
            for bar in layout["bars"]
            if bar["lane"] == index and not bar["aggregated"]
        )
        assert all(a[0] + a[1] <= b[0] + 1e-6 for a, b in zip(bars, bars[1:]))
        assert layout["lanes"][index]["busy"] <= layout["end"] - layout["begin"]
    busy.finish()


def test_a_length_of_time(programs, busy, tmp_path):
    ended = trace(programs, "-s", 0.3, cwd=tmp_path)
    path = tmp_path / saved(ended.stdout)
    assert path.parent == tmp_path and path.read_text()
    assert float(re.search(r"Duration: (\S+)s", ended.stdout).group(1)) >= 0.3
    busy.finish()


def test_two_traces_in_one_second_do_not_meet(programs, busy, tmp_path):
    paths = {saved(trace(programs, "-s", 60, "-n", 10, "--dir", tmp_path).stdout) for _ in range(4)}
    assert len(paths) == 4 and all(len(path.read_text().splitlines()) == 10 for path in paths)
    busy.finish()


def test_an_interrupted_trace_keeps_what_it_has(programs, busy, tmp_path):
    process = programs.start([GT_BINARY, "trace", "-s", "600", "--dir", tmp_path], "trace")
    until(lambda: any(path.stat().st_size for path in tmp_path.glob("trace_*.log")), "something in the file")
    process.signal(signal.SIGINT)
    assert process.wait() == 0
    lines = saved(process.output.read_text()).read_text().splitlines()
    assert lines and all(LINE.fullmatch(line) for line in lines)
    busy.finish()


def test_a_trace_ends_with_its_dispatcher(programs, busy, tmp_path):
    process = programs.start([GT_BINARY, "trace", "-s", "600", "--dir", tmp_path], "trace")
    until(lambda: any(path.stat().st_size for path in tmp_path.glob("trace_*.log")), "something in the file")
    busy.server.end()
    assert process.wait() == 0 and saved(process.output.read_text()).read_text()


def test_which_dispatcher(programs, tmp_path):
    first, second = Busy(programs, workers=1, clients=1), Busy(programs, workers=1, clients=1)
    message = trace(programs, "-s", 1, status=1).stderr
    assert "several dispatchers" in message and str(first.port) in message and str(second.port) in message
    assert not list(tmp_path.iterdir())
    for each in (first, second):
        path = saved(
            trace(
                programs, "-s", 60, "-n", 5, "--port", each.port, "--host", "localhost", "--dir", tmp_path
            ).stdout
        )
        assert path.name.endswith(f"_{each.port}.log")
        each.finish()


def test_mistakes_and_help(programs):
    assert "no dispatcher runs here" in trace(programs, "-s", 1, status=1).stderr
    assert "-s SECONDS" in trace(programs, status=2).stderr
    for arguments in (
        ["-s", "x"],
        ["-s", "0"],
        ["-s", "1", "-n", "0"],
        ["-s", "1", "-n", "1.5"],
        ["-s", "1", "--port", "x"],
        ["-s", "1", "more"],
        ["-s", "1", "--where"],
    ):
        assert "try `gt trace --help`" in trace(programs, *arguments, status=2).stderr
    text = trace(programs, "--help").stdout
    for option in ("--seconds", "--max-events", "--port", "--host", "--dir"):
        assert option in text
    programs.server()
    assert "cannot create" in trace(programs, "-s", 1, "--dir", "/no/such/place", status=1).stderr


def test_a_trace_in_the_middle_has_no_wrong_shapes(programs, tmp_path):
    """Nobody followed the stream before: tensors of then have no shape in its lines, and what is made of them has none."""
    server = programs.server()
    programs.worker(server.port)
    client = programs.python(
        """
        import sys, gt
        gt.connect(sys.argv[1])
        x = gt.ones(3, 4)
        x.sum().item()
        print("before", flush=True)
        while True:
            y = gt.ones(7)
            (x.exp().sum() + y.tanh().sum()).item()
        """,
        f"localhost:{server.port}",
        GT_AUTO_COMPILE=0,
    )
    until(lambda: "before" in client.text(), "the tensor")
    ended = trace(programs, "-s", 60, "-n", 200, "--port", server.port, "--dir", tmp_path)
    lines = [line for line in saved(ended.stdout).read_text().splitlines() if "WORKER_SEND" in line]
    old, new = ({re.search(r"shape=\S+|$", line)[0] for line in lines if op in line} for op in ("op=exp", "op=tanh"))
    assert old == {""} and new == {"shape=(7,)"}
    client.kill()
