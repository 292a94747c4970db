"""gt top: in a real terminal, where keys are typed and the screen is read, and for scripts (--once, --json)."""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap

import pytest

from support import GT_BINARY, PATIENCE_S, clean_environment, free_port, until
from terminal import Terminal

# Works until a file appears, and checks its results.
LOAD = """
    import math, os, sys, time
    import gt
    if sys.argv[2] != "embedded":
        gt.connect(f"localhost:{sys.argv[2]}")
    a, b = gt.randn(192, 192), gt.randn(192, 192)
    expected = ((a @ b).relu() + 1).sum().item()
    while not os.path.exists(sys.argv[1]):
        results = [((a @ b).relu() + 1).sum() for _ in range(8)]
        assert all(math.isclose(result.item(), expected, rel_tol=1e-6) for result in results)
        time.sleep(0.001)
"""


class Busy:
    """A server with workers and clients that keep them busy: with single instructions, whose times are shown, or with hot paths."""

    def __init__(self, programs, workers=2, clients=2, hot=0):
        self.programs = programs
        self.server = programs.server()
        self.port = self.server.port
        self.workers = [programs.worker(self.port, "--name", f"worker_{index}") for index in range(workers)]
        self.flag = programs.directory / f"end-{self.port}"
        self.clients = [programs.python(LOAD, self.flag, self.port, name="load", GT_AUTO_COMPILE=hot) for _ in range(clients)]

    def finish(self):
        """End the clients; all of them must have correct results."""
        self.flag.touch()
        for client in self.clients:
            assert client.wait() == 0, client.text()


@pytest.fixture
def busy(programs):
    return Busy(programs)


@pytest.fixture
def terminal(programs):
    """Start a terminal: terminal(command); all end with the test."""
    started = []

    def start(*arguments, **options):
        command = " ".join([GT_BINARY, "top", *map(str, arguments)])
        started.append(Terminal(command, programs.directory, programs.runtime, **options))
        return started[-1]

    yield start
    for each in started:
        each.end()


def top(programs, *arguments, status=0, python=False):
    program = [sys.executable, "-m", "gt.scripts.top"] if python else [GT_BINARY, "top"]
    ended = subprocess.run(
        [*program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        env=clean_environment(programs.runtime),
    )
    assert ended.returncode == status, f"status {ended.returncode}:\n{ended.stdout}{ended.stderr}"
    return ended


def settled(programs, *arguments, condition, what):
    """Run `gt top --once --json` until the output satisfies a condition; programs take time to start."""
    said = None

    def look():
        nonlocal said
        said = json.loads(top(programs, "--once", "--json", "--interval", 0.5, *arguments).stdout)
        return condition(said)

    until(look, what)
    return said


def rows(screen, pattern):
    return re.findall(pattern, screen, re.M)


# ---- for scripts ----------------------------------------------------------------------------------------------


def test_json_tells_what_workers_and_clients_do(programs, busy):
    said = settled(
        programs,
        condition=lambda said: len(said["clients"]) == 2
        and all(client["instructions_per_second"] > 0 for client in said["clients"])
        and all(worker["activity"].get("MatMul", 0) > 0 for worker in said["workers"]),
        what="two busy workers and clients",
    )
    assert said["address"] == f"localhost:{busy.port}"
    assert said["instructions_per_second"] > 0 and said["seconds"] > 0
    assert [worker["name"] for worker in said["workers"]] == ["worker_0", "worker_1"]
    for worker in said["workers"]:
        assert worker["engine"] == "cpu" and worker["link"] == "memory"
        assert 0 <= worker["idle"] <= 1 and sum(worker["activity"].values()) <= 1.001
        assert sum(worker["activity"].values()) + worker["idle"] == pytest.approx(1, abs=0.02)
        assert {"MatMul", "ReLU", "BinaryOp", "Sum"} <= worker["activity"].keys()
        assert worker["ops_per_second"] > 0 and worker["bytes_per_second"] > 0
        assert 0 < worker["memory"] < worker["memory_limit"] and worker["tensors"] > 0
        assert 0 <= worker["queue"] < 100  # its client waits for each result
    assert sum(client["share"] for client in said["clients"]) == pytest.approx(1, abs=0.01)
    for client in said["clients"]:
        assert client["tensors"] >= 2 and client["bytes"] >= 2 * 192 * 192 * 4
        assert re.fullmatch(r"\d+-\w+\.py:\d+", client["name"]), "the program, and its process"
    busy.finish()


def test_json_tells_of_hot_paths(programs):
    """Their time is a kind of activity, and their instructions count."""
    busy = Busy(programs, workers=1, clients=1, hot=1)
    said = settled(
        programs,
        condition=lambda said: said["clients"] and all(worker["activity"].get("HotPath", 0) > 0 for worker in said["workers"]),
        what="a worker that runs a hot path",
    )
    (worker,) = said["workers"]
    assert sum(worker["activity"].values()) + worker["idle"] == pytest.approx(1, abs=0.02)
    assert worker["ops_per_second"] > 0 and said["clients"][0]["instructions_per_second"] > 0
    busy.finish()


def test_json_without_once_is_a_line_for_each_look(programs, busy):
    process = programs.start([GT_BINARY, "top", "--json", "--interval", "0.1"], "top")
    lines = until(
        lambda: (text := process.output.read_text().splitlines()) and len(text) >= 4 and text, "four lines"
    )
    seconds = [json.loads(line)["seconds"] for line in lines[:4]]
    assert seconds == sorted(set(seconds))
    process.signal(signal.SIGINT)
    assert process.wait() == 0
    busy.finish()


def test_once_prints_a_table(programs, busy):
    settled(
        programs,
        condition=lambda said: len(said["clients"]) == 2 and len(said["workers"]) == 2,
        what="all parties",
    )
    for python in (False, True):
        text = top(programs, "--once", python=python).stdout
        assert f"localhost:{busy.port}" in text.splitlines()[0]
        assert re.search(r"^WORKER +ENGINE +IDLE +OPS/S +BYTES/S +MEMORY +LIMIT +QUEUE +ACTIVITY$", text, re.M)
        assert re.search(r"^CLIENT +NAME +USER +SHARE +TENSORS +BYTES +INSTR/S +WORKER$", text, re.M)
        assert rows(text, r"^(worker_\d) +cpu +\d+%") == ["worker_0", "worker_1"]
        assert rows(text, r"^([12]) .* +\d+%") == ["1", "2"]
    busy.finish()


def test_an_idle_worker_is_idle(programs):
    server = programs.server()
    programs.worker(server.port, "--name", "lazy")
    said = settled(programs, condition=lambda said: said["workers"], what="the worker")
    (worker,) = said["workers"]
    assert worker["idle"] > 0.9 and sum(worker["activity"].values()) < 0.1 and said["clients"] == []


def test_a_server_inside_a_program_is_found(programs):
    flag = programs.directory / "end"
    client = programs.python(LOAD, flag, "embedded", name="embedded")
    until(lambda: programs_found(programs), "the embedded dispatcher")
    said = settled(
        programs, condition=lambda said: said["workers"] and said["clients"], what="its worker and client"
    )
    assert len(said["workers"]) == 1 and len(said["clients"]) == 1
    flag.touch()
    assert client.wait() == 0, client.text()


def programs_found(programs):
    ended = subprocess.run(
        [GT_BINARY, "top", "--once", "--json"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=clean_environment(programs.runtime),
    )
    return ended.returncode == 0


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "tcp://127.0.0.1", "ipc://localhost"])
def test_host_and_port(programs, host):
    server, other = programs.server(), programs.server()
    for each in (server, other):
        said = json.loads(top(programs, "--host", host, "--port", each.port, "--once", "--json").stdout)
        assert said["address"] == f"{host}:{each.port}"


def test_mistakes_and_help(programs):
    assert "no dispatcher runs here" in top(programs, "--once", status=1).stderr
    assert "'nowhere.invalid'" in top(programs, "--once", "--host", "tcp://nowhere.invalid", status=1).stderr
    assert top(programs, "--once", "--port", free_port(), status=1).stderr.startswith("gt top: ")
    server = programs.server()
    assert "not a terminal" in top(programs, "--port", server.port, status=1).stderr
    for arguments in (["--interval", "0"], ["--interval", "soon"], ["--port", "x"], ["more"], ["--colours"]):
        assert "try `gt top --help`" in top(programs, *arguments, status=2).stderr
    assert "too long for a host" in top(programs, "--once", "--host", "a" * 400, "-p", 1, status=1).stderr
    text = top(programs, "--help").stdout
    for option in ("--host", "--port", "--interval", "--once", "--json", "--plain"):
        assert option in text


# ---- in a terminal --------------------------------------------------------------------------------------------

BAR = r"^(worker_\d+) +\[(.*)\] +(\d+)%"


def test_a_row_for_each_worker_and_client(busy, terminal):
    screen = terminal().shows(
        lambda text: len(rows(text, BAR)) == 2 and len(rows(text, r"^[12] .*\[#* *\] +\d+%")) == 2, "all rows"
    )
    assert f"gt top  localhost:{busy.port}" in screen and "2 workers  2 clients" in screen
    assert re.search(r"WORKER +ACTIVITY +IDLE +OPS/S +BYTES/S +MEMORY +QUEUE", screen)
    assert re.search(r"CLIENT +NAME +WORKER +USER +SHARE +TENSORS +BYTES +INSTR/S", screen)
    busy.finish()


def test_activity_is_a_coloured_bar_and_the_legend_names_the_colours(busy, terminal):
    shown = terminal()
    shown.shows(lambda text: "MatMul" in text.splitlines()[-2], "the legend")
    # As in the pictures, MatMul is red. The other worker's client may be the first to start.
    red = re.compile(r"^.*worker_0\b.*[\[;]48;5;160m", re.M)
    until(lambda: red.search(shown.screen(colours=True)), "MatMul's red")
    busy.finish()


@pytest.mark.parametrize("how", ["--plain", "NO_COLOR"])
def test_without_colours_bars_are_letters(busy, terminal, how):
    shown = terminal("--plain") if how == "--plain" else terminal(NO_COLOR="1")
    shown.shows(lambda text: any("MM" in bar for _, bar, _ in rows(text, BAR)), "a bar of letters")
    shown.shows(lambda text: "M MatMul" in text.splitlines()[-2], "the legend")  # the screen may have been half drawn
    assert not re.search(r"\x1b\[[\d;]*[34]8;5", shown.screen(colours=True))
    busy.finish()


def test_sort_and_reverse(programs, terminal):
    busy = Busy(programs, workers=3, clients=1)  # one client's work is on one worker
    shown = terminal()
    names = lambda text: [name for name, _, _ in rows(text, BAR)]
    shown.shows(lambda text: names(text) == ["worker_0", "worker_1", "worker_2"], "the order of names")
    assert "sort: name" in shown.screen()
    shown.keys("r")
    shown.shows(lambda text: names(text) == ["worker_2", "worker_1", "worker_0"], "the reverse order")
    shown.keys("r")
    for order in ("activity", "ops/s", "bytes", "memory", "name"):
        shown.keys("s")
        shown.shows(f"sort: {order}", f"sorting by {order}")
        if order == "activity":
            shown.shows(
                lambda text: (idle := [int(row[2]) for row in rows(text, BAR)]) == sorted(idle), "idle ascending"
            )
    busy.finish()


def test_eighty_columns_have_the_pause_and_the_whole_help(busy, terminal):
    shown = terminal("--interval", "0.1", width=80, height=24)
    shown.shows("WORKER", "the first view")
    for keys in ("s", "r", "s", "s", "s"):  # activity; all reversed: the longest last line
        shown.keys(keys)
        shown.shows("p pause", "the last key")
    shown.shows("sort: -memory", "sorting by memory, reversed")
    shown.keys("p")
    shown.shows("PAUSED", "the pause")
    shown.keys("h")
    screen = shown.shows("reverse the order", "the help")
    assert "smoothed over two seconds;" in screen and "not executed yet." in screen and "spend on clients." in screen
    busy.finish()


@pytest.mark.parametrize("width", [80, 120])
def test_a_client_has_its_worker_beside_it(busy, terminal, width):
    shown = terminal("--interval", "0.1", width=width, height=24)
    pattern = r"^[12] +\S+ +(worker_[01])\+? .*\[#* *\] +\d+% +\S+ +\S+ +\S+"
    screen = shown.shows(lambda text: set(rows(text, pattern)) == {"worker_0", "worker_1"}, "a worker for each client")
    assert re.search(r"^CLIENT +NAME +WORKER .*SHARE +TENSORS +BYTES +INSTR/S", screen, re.M), screen
    assert max(map(len, screen.splitlines())) <= width
    if width == 120:
        shown.shows(lambda text: re.search(r"^[12] .*load\.py:\d+$", text, re.M), "the line that runs")
    busy.finish()


def test_once_says_how_long_it_measured(programs, busy):
    said = json.loads(top(programs, "--once", "--json").stdout)
    assert said["sample_seconds"] >= 0.4, "long enough for the shares of operations to mean something"
    header = top(programs, "--once", "--interval", 0.7).stdout.splitlines()[0]
    seconds = float(re.search(r"of the last (\S+) s\)", header).group(1))
    assert seconds >= 0.6, header
    busy.finish()


def test_clients_are_sorted_by_their_memory(programs, terminal):
    server = programs.server()
    programs.worker(server.port)
    held = """
        import sys, time, gt
        gt.connect(sys.argv[1])
        kept = [gt.ones(int(sys.argv[2])) for _ in range(2)]
        gt.synchronize()
        print("ready", flush=True)
        time.sleep(600)
    """
    for size in (100, 300000, 10000):  # as many tensors each
        client = programs.python(held, f"localhost:{server.port}", size, name=f"has{size}")
        until(lambda: "ready" in client.text(), "the client's tensors")
    shown = terminal("--interval", "0.1")
    shown.shows(lambda text: len(rows(text, r"has\d+")) == 3, "three clients")
    for order in ("activity", "ops/s", "bytes", "memory"):
        shown.keys("s")
        shown.shows(f"sort: {order}", f"sorting by {order}")
    shown.shows(lambda text: rows(text, r"has\d+") == ["has300000", "has10000", "has100"], "the largest first")


def test_views_help_pause_and_quit(busy, terminal):
    shown = terminal("--interval", "0.1")
    shown.shows("WORKER", "the first view")
    shown.keys("v")
    screen = shown.shows(lambda text: re.search(r"^matmul +MatMul +\d+\.\d%", text, re.M), "the operations")
    assert re.search(r"OPERATION +KIND +TIME +CALLS/S +BYTES/S", screen) and "WORKER" not in screen
    shown.keys("Tab")
    shown.shows(lambda text: "CLIENT" in text and "ACTIVITY" not in text and "OPERATION" not in text, "the clients")
    shown.keys("v")
    shown.shows("WORKER", "the first view again")
    shown.keys("h")
    words = ("reverse the order", "sort", "switch views", "pause", "quit")
    shown.shows(lambda text: all(word in text for word in words), "the help")
    shown.keys("?")
    shown.shows("WORKER", "no help any more")
    shown.keys("p")
    paused = shown.shows("PAUSED", "the pause")
    # Paused, nothing but what is typed changes the screen: sorting redraws it with the same numbers.
    shown.keys("s")
    again = shown.shows("sort: activity", "a key while paused")
    assert rows(again, r"up \S+") == rows(paused, r"up \S+")
    assert sorted(rows(again, BAR)) == sorted(rows(paused, BAR))
    shown.keys("Space")
    shown.shows(lambda text: "PAUSED" not in text and rows(text, r"up \S+") != rows(paused, r"up \S+"), "going on")
    shown.keys("q")
    shown.shows("ended:0", "the end")
    busy.finish()


@pytest.mark.parametrize("how", ["QUIT", "HUP", "SEGV"])
def test_however_it_ends_the_terminal_is_as_it_was(busy, programs, how):
    """After Ctrl-\\, a closed terminal or a crash, the terminal echoes input line by line again."""
    pid = programs.directory / "top.pid"
    command = f"sh -c 'echo $$ > {pid}; exec {GT_BINARY} top'; stty -a"
    shown = Terminal(command, programs.directory, programs.runtime)
    try:
        shown.shows(lambda text: len(rows(text, BAR)) == 2, "the workers")
        os.kill(int(pid.read_text()), getattr(signal, f"SIG{how}"))
        screen = shown.shows("ended:", "the end")
        modes = set(re.search(r"isig .*\n(.*)", screen)[0].split())
        assert {"isig", "icanon", "echo"} <= modes, screen
        assert "ACTIVITY" not in screen
    finally:
        shown.end()


def test_it_follows_the_size_of_the_terminal(busy, terminal):
    shown = terminal(width=100, height=20)
    width = lambda text: len(rows(text, BAR)[0][1]) if rows(text, BAR) else 0
    screen = shown.shows(width, "a bar")
    before = width(screen)
    shown.resize(140, 40)
    bottom = lambda text, line: text.splitlines()[line:line + 1] and text.splitlines()[line].startswith("q quit")
    shown.shows(lambda text: width(text) == before + 40 and bottom(text, 39), "a longer bar")
    shown.resize(60, 10)
    shown.shows(
        lambda text: (text.count("\n") <= 10 and 0 < width(text) < before or "... and" in text) and bottom(text, 9), "a short one"
    )
    shown.resize(52, 20)
    words = lambda text, first: next((line.split() for line in text.splitlines() if line.startswith(first)), [])
    shown.shows(lambda text: words(text, "WORKER") == ["WORKER", "ACTIVITY", "IDLE", "OPS/S", "BYTES/S"], "whole columns")
    assert words(shown.screen(), "CLIENT") == ["CLIENT", "NAME", "SHARE", "TENSORS"]
    shown.resize(100, 20)
    shown.shows(lambda text: width(text) == before, "the first size")
    busy.finish()


def test_several_dispatchers(programs, terminal):
    ports = sorted(server.port for server in (programs.server(), programs.server()))
    shown = terminal()
    shown.shows(f"localhost:{ports[0]} (1 of 2)", "the first")
    shown.keys("n")
    shown.shows(f"localhost:{ports[1]} (2 of 2)", "the second")
    shown.keys("p")
    shown.shows("PAUSED", "the pause")
    shown.keys("n")
    shown.shows(
        lambda text: f"localhost:{ports[0]} (1 of 2)" in text and "PAUSED" not in text, "the first again, as it is now"
    )


def test_it_outlives_the_dispatcher_and_finds_the_next(programs, terminal):
    server = programs.server()
    shown = terminal()
    shown.shows(f"localhost:{server.port}", "the dispatcher")
    server.end()
    shown.shows(
        lambda text: "no dispatcher runs here" in text or "stopping" in text or "gone" in text, "that it is gone"
    )
    other = programs.server()
    shown.shows(lambda text: f"localhost:{other.port}  up" in text and "no dispatcher" not in text, "the next one")


def test_a_dumb_terminal_is_told(programs):
    programs.server()
    shown = Terminal(f"env TERM=nothing-known {GT_BINARY} top", programs.directory, programs.runtime)
    try:
        assert "unknown terminal 'nothing-known'; try --once" in shown.shows("ended:1", "the end")
    finally:
        shown.end()


# ---- one client, and many -------------------------------------------------------------------------------------

# Known tensors, made at known lines, and then work at known lines until a file appears.
DETAIL = """
    import os, sys
    import gt
    gt.connect(f"localhost:{sys.argv[2]}")
    big = gt.ones(1000, 500)
    with gt.signal.context("small"):
        few = [gt.zeros(k + 1, dtype=gt.int64) for k in range(3)]
    a = gt.randn(256, 256)
    while not os.path.exists(sys.argv[1]):
        b = a @ a
        c = (a + 1).sum()
        c.item()
"""


def line_of(text):
    """The number of the line in DETAIL that has this text."""
    return next(number for number, line in enumerate(textwrap.dedent(DETAIL).splitlines(), 1) if text in line)


@pytest.fixture(params=[0, 1], ids=["instructions", "hot path"])
def detailed(programs, request):
    server = programs.server()
    programs.worker(server.port, "--name", "worker_0")
    flag = programs.directory / "end"
    how = dict(GT_COMPILE=1, GT_HOTPATH_MIN_SEQ=2) if request.param else dict(GT_AUTO_COMPILE=0)
    client = programs.python(DETAIL, flag, server.port, name="detail", **how)
    client.hot = request.param
    yield client
    flag.touch()
    assert client.wait() == 0, client.text()


def test_a_client_has_the_lines_of_its_time_and_of_its_tensors(programs, detailed):
    said = None

    def look():
        nonlocal said
        ended = subprocess.run([GT_BINARY, "top", "--once", "--json", "--client", "1"], capture_output=True, text=True,
                               timeout=PATIENCE_S, env=clean_environment(programs.runtime))
        said = json.loads(ended.stdout) if ended.returncode == 0 else None
        return said and any(line["seconds"] > 0.05 and line["path"] == bool(detailed.hot) for line in said["lines"])

    until(look, "a client that has used its worker")
    place = lambda text: f"2-detail.py:{line_of(text)}"
    named = lambda entry: entry["line"].rpartition("/")[2]
    first = said["largest"][0]
    assert (first["dtype"], first["shape"], first["bytes"]) == ("float32", [1000, 500], 2000000)
    assert first["place"] == "single(worker=0)" and named(first) == place("gt.ones(") and first["scope"] == ""
    small = [tensor for tensor in said["largest"] if tensor["dtype"] == "int64"]
    assert [tensor["shape"] for tensor in small] == [[3], [2], [1]]
    assert all(tensor["scope"] == "small" and named(tensor) == place("gt.zeros(") for tensor in small)
    assert [tensor["bytes"] for tensor in said["largest"]] == sorted((tensor["bytes"] for tensor in said["largest"]), reverse=True)
    lines = {(named(line), line["path"]): line for line in said["lines"]}
    made = lines[place("gt.ones("), False]
    assert (made["tensors"], made["bytes"]) == (1, 2000000)
    zeros = lines[place("gt.zeros("), False]
    assert (zeros["tensors"], zeros["bytes"]) == (3, 8 * (1 + 2 + 3))
    assert said["tensors"] >= 5 and said["bytes"] >= 2000000 + 48 + 256 * 256 * 4
    product, rest = place("a @ a"), place("(a + 1)")
    if detailed.hot:
        path = max(lines.values(), key=lambda line: line["seconds"])
        first, last = (int(text.rpartition(":")[2]) for text in (product, rest))
        assert path["path"] and named(path) == f"2-detail.py:{first}-{last}" and path["count"] > 0
    else:
        assert lines[product, False]["seconds"] > lines[rest, False]["seconds"] > 0, "a product costs more than a sum"
        assert lines[product, False]["count"] > 0
    assert "there is no client 77" in top(programs, "--once", "--client", 77, status=1).stderr
    text = top(programs, "--once", "--client", 1).stdout
    assert re.search(rf"^ +1\.9M float32 +\(1000, 500\) +single\(worker=0\) .*:{line_of('gt.ones(')}$", text, re.M), text


def test_the_page_of_a_client(programs, terminal, detailed):
    shown = terminal("--interval", "0.1", width=100, height=30)
    shown.shows(lambda text: rows(text, r"^1 .*detail.*%"), "the client")
    shown.keys("Enter")
    screen = shown.shows(lambda text: "1000, 500" in text and re.search(r"LINE\n +\d", text), "its lines and tensors")
    assert re.search(r"^ +SECONDS +SHARE +COUNT +TENSORS +BYTES +LINE$", screen, re.M)
    assert re.search(rf"^ +1.9M +float32 +\(1000, 500\) .*:{line_of('gt.ones(')}$", screen, re.M), screen
    assert re.search(r"^client 1  .*detail\S+  uid \d+  on worker_0", screen, re.M), screen
    now = r"^now in path 0: .*detail.*:10-11, \d+ instructions" if detailed.hot else r"^now at .*detail.*:\d+"
    shown.shows(lambda text: re.search(now, text, re.M), "what runs")
    shown.keys("q")
    shown.shows("ACTIVITY", "back")
    shown.keys("F5")
    shown.shows("SECONDS", "the client again")
    shown.keys("F10")
    shown.shows("ended:0", "the end")


def test_a_client_that_leaves_while_it_is_shown(programs, terminal):
    busy = Busy(programs, workers=1, clients=1)
    shown = terminal("--interval", "0.1")
    shown.shows(lambda text: rows(text, r"^1 .*%"), "the client")
    shown.keys("Enter")
    shown.shows("SECONDS", "its page")
    busy.finish()
    shown.shows("client 1 is gone", "that it is gone")
    shown.keys("Escape")
    shown.shows("ACTIVITY", "back")


@pytest.fixture
def crowd(programs):
    """Forty clients of one process."""
    server = programs.server()
    programs.worker(server.port, "--name", "worker_0")
    client = programs.python("""
        import sys, threading
        import gt
        ready = threading.Barrier(41)
        def live(number):
            gt.connect(sys.argv[1])
            kept = [gt.ones(10) for _ in range(number)]
            gt.synchronize()
            ready.wait()
            threading.Event().wait()
        for number in range(1, 41):
            threading.Thread(target=live, args=(number,), daemon=True).start()
        ready.wait()
        print("ready", flush=True)
        threading.Event().wait()
    """, f"localhost:{server.port}", name="crowd")
    until(lambda: "ready" in client.text() or not client.alive, "forty clients")
    assert client.alive, client.text()
    return client


NUMBERS = r"^(\d+) +\S*crowd"


def test_the_cursor_scrolls_and_the_filter_hides(terminal, crowd):
    shown = terminal("--interval", "0.1", width=80, height=24)
    numbers = lambda text: [int(number) for number in rows(text, NUMBERS)]
    screen = shown.shows(lambda text: numbers(text)[:1] == [1] and "more, 0 above" in text, "the first clients")
    assert max(numbers(screen)) < 40 and len(screen.splitlines()) == 24
    shown.keys("End")
    shown.shows(lambda text: numbers(text)[-1:] == [40] and "and 0 more" in text, "the last clients")
    shown.keys("Home")
    shown.shows(lambda text: numbers(text)[:1] == [1], "the first ones again")
    shown.keys(*["Down"] * 3)
    shown.keys("Enter")
    shown.shows(lambda text: re.search(r"^client 4 ", text, re.M), "the fourth")
    shown.keys("Escape")
    shown.keys("/")
    shown.shows("filter: _", "the filter")
    one = next(number for number in range(10, 41) if str(number) not in str(crowd.pid))  # their names contain it
    shown.keys(*str(one))
    shown.shows(lambda text: numbers(text) == [one] and f"filter: {one}_" in text, "the client of this number")
    shown.keys("Enter")
    shown.shows(lambda text: numbers(text) == [one] and f"1 of 40, with '{one}'" in text, "the filter stays")
    shown.keys("Enter")
    shown.shows(lambda text: re.search(rf"^client {one} ", text, re.M), "the one under the cursor")
    shown.keys("q")
    shown.keys("/", "BSpace", "BSpace", "n", "o", "t", "h", "e", "r", "e", "Enter")
    shown.shows("0 of 40, with 'nothere'", "no client")
    shown.keys("Enter")  # no client is under the cursor
    shown.keys("Escape")
    shown.shows(lambda text: numbers(text)[:1] == [1] and "with '" not in text, "all clients")


@pytest.mark.parametrize("size", [(80, 24), (160, 50), (200, 60)])
def test_no_line_is_longer_than_the_screen(terminal, crowd, size):
    shown = terminal("--interval", "0.1", width=size[0], height=size[1])
    screen = shown.shows(lambda text: "CLIENT" in text and rows(text, NUMBERS), "the clients")
    assert screen.splitlines()[size[1] - 1].startswith("q quit") and len(screen.splitlines()) == size[1]
    assert re.search(r"worker_0 busy +\d+%, \d+:\d\d min +memory \S+, peak", screen), screen


@pytest.mark.parametrize("locale, cells", [("C.UTF-8", "[\u2801-\u28ff]"), ("C", "[#.]")])
def test_graphs_have_the_history(programs, terminal, locale, cells):
    busy = Busy(programs, workers=1, clients=1)
    shown = terminal("--interval", "0.05", width=80, height=24, LC_ALL=locale)
    graphs = lambda text: text[text.index("worker_0 busy"):text.index("CLIENT")] if "worker_0 busy" in text and "CLIENT" in text else ""
    shown.shows(lambda text: len(re.findall(cells, graphs(text))) > 4, "cells of a graph")
    shown.keys("+", "+", "+")
    shown.shows(lambda text: len(re.findall(cells, graphs(text))) > 40, "more of them, as time passes and the span is short")
    busy.finish()


def test_a_worker_that_does_not_answer_hides_no_dispatcher(programs):
    """Each port is asked by itself: a worker that is stopped does not even accept a connection."""
    server = programs.server()
    workers = [programs.worker(server.port, "--name", f"worker_{index}") for index in range(3)]
    for worker in workers:
        worker.signal(signal.SIGSTOP)
    try:
        said = json.loads(top(programs, "--once", "--json").stdout)
        assert said["address"] == f"localhost:{server.port}"
    finally:
        for worker in workers:
            worker.signal(signal.SIGCONT)


# ---- under load -----------------------------------------------------------------------------------------------


def test_attaching_and_detaching_under_load(programs, busy):
    """Monitors connect, leave and are killed while clients work: no wrong result, and no client waits for them."""
    for round in range(6):
        watchers = [programs.start([GT_BINARY, "top", "--json", "--interval", "0.05"], "top") for _ in range(2)]
        watchers.append(
            programs.start([GT_BINARY, "trace", "-s", "60", "--dir", programs.directory / "traces"], "trace")
        )
        for watcher in watchers[:2]:
            until(lambda: watcher.output.read_text().count("\n") >= 2, "two looks")
        for watcher, number in zip(
            watchers, (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL if round % 2 else signal.SIGINT)
        ):
            watcher.signal(number)
        for watcher in watchers:
            watcher.wait()
    assert busy.server.alive and all(worker.alive for worker in busy.workers)
    said = json.loads(top(programs, "--once", "--json").stdout)
    assert len(said["workers"]) == 2
    busy.finish()


def test_a_stopped_monitor_holds_nobody_up(programs, busy):
    """A monitor that does not read is dropped by the dispatcher, which goes on."""
    watcher = programs.start([GT_BINARY, "trace", "-s", "60", "--dir", programs.directory / "traces"], "trace")
    until(lambda: list((programs.directory / "traces").glob("trace_*.log")), "the trace's file")
    watcher.signal(signal.SIGSTOP)
    before = settled(programs, condition=lambda said: len(said["clients"]) == 2, what="the clients")
    settled(
        programs,
        condition=lambda said: said["seconds"] > before["seconds"] + 1
        and all(client["instructions_per_second"] > 0 for client in said["clients"]),
        what="clients that go on",
    )
    watcher.signal(signal.SIGCONT)
    watcher.signal(signal.SIGINT)
    assert watcher.wait() == 0
    busy.finish()
