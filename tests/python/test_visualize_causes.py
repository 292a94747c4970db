"""gt visualize: scopes, signals and waits, drawn where workers executed them; and logs of real programs."""

import json
import re

import pytest

from log_maker import Log
from timeline_support import collective, draw, read_png, visualize  # noqa: F401: a fixture

# ---- signals, waits and batches where they were executed -------------------------------------------------------


def queued(work, workers=("a",), emitted=0.001):
    """A log in which one client emits everything at once. work: (scope, op, start, duration) of each line; a str is a mark."""
    log, number, told = Log(), 0, max(item[2] + item[3] for item in work if not isinstance(item, str)) + 0.01
    scope_before = None
    for item in work:
        if isinstance(item, str):
            log.line(emitted, "SIGNAL", "CLIENT 1", "Signal", 0, f'name="{item}"')
            continue
        scope, op, start, duration = item
        number += 1
        if scope and scope != scope_before:
            log.line(emitted, "SIGNAL", "CLIENT 1", "Signal", 0, f'enters scope={scope} name="{scope}"')
        scope_before = scope
        log.line(emitted, "RECV", "CLIENT 1", "UnaryOp", 64, f"result={number} op={op}" + (f" scope={scope}" if scope else ""))
        for worker in workers:
            log.line(emitted, "WORKER_SEND", f"WORKER {worker}", "WorkerUnaryOp", 64, f"op={op} result=1_{number}")
        for worker in workers:
            log.line(told, "WORKER_RECV", f"WORKER {worker}", "WorkerUnaryOp", 16,
                     f"success=True op={op} result=1_{number} start={start} duration={duration}")
    return log


def test_a_scope_is_a_band_over_the_lanes_where_its_instructions_run(tmp_path):
    log = queued([("forward", "exp", 0.01, 0.02), ("forward", "relu", 0.03, 0.01), (None, "neg", 0.04, 0.01),
                  ("update", "mul", 0.05, 0.04), ("forward", "exp", 0.09, 0.01)], workers=("a", "b"))
    layout = draw(log, tmp_path)
    assert layout["signals"] == []  # not a line where they were emitted, before all of the work
    expected = [("forward", 0.01, 0.04, 2), ("update", 0.05, 0.09, 1), ("forward", 0.09, 0.1, 1)]
    for worker in ("Worker a", "Worker b"):
        bands = [band for band in layout["bands"] if layout["lanes"][band["lane"]]["name"] == worker]
        assert [(band["scope"], round(band["start"], 6), round(band["end"], 6), band["operations"]) for band in bands] == expected
        for band in bands:
            inside = [bar for bar in layout["bars"] if bar["lane"] == band["lane"] and band["start"] - 1e-9 <= bar["start"] < band["end"] - 1e-9]
            assert len(inside) == band["operations"]
            assert band["x"] == pytest.approx(inside[0]["x"]) and band["x"] + band["width"] == pytest.approx(inside[-1]["x"] + inside[-1]["width"])
    assert {"forward", "update"} <= {item["text"] for item in layout["legend"]}
    # on paper: above the bars, in the scope's colour
    pixels, scale = read_png(tmp_path / "log.png"), 150 / 72
    one, other = (next(band for band in layout["bands"] if band["scope"] == scope) for scope in ("forward", "update"))
    lane = layout["lanes"][one["lane"]]
    shown = [tuple(pixels[int((lane["top"] + 5) * scale), int((band["x"] + 3) * scale)]) for band in (one, other)]
    assert len(set(shown)) == 2 and all(max(colour) - min(colour) > 40 for colour in shown)


def test_a_mark_is_where_the_workers_reach_it(tmp_path):
    log = queued(["START", (None, "exp", 0.01, 0.02), "HALF", (None, "relu", 0.03, 0.01), "END"])
    layout = draw(log, tmp_path)
    per_point = (layout["end"] - layout["begin"]) / (layout["right"] - layout["left"])
    places = {line["name"]: layout["begin"] + (line["x"] - layout["left"]) * per_point for line in layout["signals"]}
    assert places == {name: pytest.approx(at, abs=1e-4) for name, at in {"START": 0.001, "HALF": 0.03, "END": 0.04}.items()}


def test_thousands_of_short_scopes_are_added_up(tmp_path):
    work = [(f"layer{k % 3}", "exp", 0.01 + k * 1e-5, 9e-6) for k in range(6000)]
    layout = draw(queued(work), tmp_path)
    assert sum(band["operations"] for band in layout["bands"]) == 6000 and len(layout["bands"]) < 600
    assert {band["scope"] for band in layout["bands"]} <= {"layer0", "layer1", "layer2"}


def test_inside_an_all_reduce_the_early_workers_wait(collective):
    arrivals, layout, _ = collective
    for worker, start in arrivals.items():
        index = next(k for k, lane in enumerate(layout["lanes"]) if lane["name"] == f"Worker {worker}")
        bars = {bar["waiting"]: bar for bar in layout["bars"] if bar["lane"] == index}
        assert (bars[False]["start"], bars[False]["duration"]) == (pytest.approx(0.05), pytest.approx(0.01))
        assert (True in bars) == (start < 0.05)
        if start < 0.05:
            assert (bars[True]["start"], bars[True]["duration"]) == (pytest.approx(start), pytest.approx(0.05 - start))
            assert "waits for other workers" in bars[True]["title"]
        assert layout["lanes"][index]["busy"] == pytest.approx(0.01)
        assert layout["lanes"][index]["waited"] == pytest.approx(0.05 - start)


def test_the_receiver_of_a_move_waits_for_its_sender(tmp_path):
    log = Log()
    log.line(0.001, "WORKER_SEND", "WORKER a", "WorkerMove", 64, "op=send result=1_6")
    log.line(0.001, "WORKER_SEND", "WORKER b", "WorkerMove", 64, "op=recv result=1_6")
    log.line(0.07, "WORKER_RECV", "WORKER a", "WorkerMove", 16, "success=True op=send result=1_6 start=0.03 duration=0.01")
    log.line(0.07, "WORKER_RECV", "WORKER b", "WorkerMove", 16, "success=True op=recv result=1_6 start=0.01 duration=0.05")
    bars = {(bar["category"], bar["waiting"], round(bar["start"], 6), round(bar["duration"], 6)) for bar in draw(log, tmp_path)["bars"]}
    assert bars == {("Move", False, 0.03, 0.01), ("Move", True, 0.01, 0.02), ("Move", False, 0.03, 0.03)}


def test_the_receivers_of_a_broadcast_wait_for_its_sender_alone(tmp_path):
    log = Log()
    spans = {"a": (0.03, 0.02), "b": (0.01, 0.04), "c": (0.04, 0.02)}
    for worker in spans:
        log.line(0.001, "WORKER_SEND", f"WORKER {worker}", "WorkerBroadcast", 64, "op=broadcast result=1_6")
    for worker, (start, duration) in spans.items():
        log.line(0.07, "WORKER_RECV", f"WORKER {worker}", "WorkerBroadcast", 16, f"success=True op=broadcast result=1_6 start={start} duration={duration}")
    layout = draw(log, tmp_path)
    bars = {(layout["lanes"][bar["lane"]]["name"], bar["waiting"], round(bar["start"], 6), round(bar["duration"], 6)) for bar in layout["bars"]}
    assert bars == {("Worker a", False, 0.03, 0.02), ("Worker b", True, 0.01, 0.02), ("Worker b", False, 0.03, 0.02), ("Worker c", False, 0.04, 0.02)}


def test_a_broadcast_of_a_program_goes_to_its_sender_first(programs, tmp_path):
    """The worker that has the tensor is the one whose line comes first: the timeline relies on it."""
    path = tmp_path / "run.log"
    config = tmp_path / "gt.yaml"
    config.write_text("split:\n  shard:\n    axis: 0\n    workers: [0, 1, 2]\n")
    programs.run(
        """
        import gt
        gt.gpu_workers(3)
        w = gt.randn(6, 6)
        with gt.signal.context("split"):
            x = gt.randn(9, 6)
        print((x @ w).sum().item())
        """, GT_INSTRUCTION_LOG=str(path), GT_CONFIG=str(config))
    lines = path.read_text().splitlines()
    sent = [re.search(r"WORKER (\S+)", line).group(1) for line in lines if "WORKER_SEND" in line and "op=broadcast" in line]
    (made,) = {re.search(r"WORKER (\S+)", line).group(1) for line in lines if "WORKER_SEND" in line and "op=randn" in line and "shape=(6,6)" in line}
    assert len(sent) >= 3 and sent[0] == made


def test_a_batch_of_acknowledgements_is_one_arrow_unless_asked_for(tmp_path):
    log = queued([(None, "exp", 0.01 * k, 0.01) for k in range(1, 13)])
    layout = draw(log, tmp_path)
    arrows = {arrow["event"]: arrow for arrow in layout["arrows"] if arrow["event"].startswith("WORKER")}
    assert {event: arrow["count"] for event, arrow in arrows.items()} == {"WORKER_SEND": 12, "WORKER_RECV": 12}
    assert len(layout["arrows"]) == 2 + 12
    bars = sorted(layout["bars"], key=lambda bar: bar["x"])
    assert arrows["WORKER_SEND"]["x1"] == pytest.approx(bars[0]["x"], abs=0.01)
    assert arrows["WORKER_RECV"]["x0"] == pytest.approx(bars[-1]["x"] + bars[-1]["width"], abs=0.01)
    assert len(draw(log, tmp_path, "--arrows", "all")["arrows"]) == 3 * 12
    assert draw(log, tmp_path, "--arrows", "none")["arrows"] == []


def test_clients_are_named_by_their_programs(tmp_path):
    log = Log()
    log.line(0.001, "CONNECT", "CLIENT 7", "RegisterClient", 320, 'link=memory name="train.py:4711"')
    log.line(0.002, "CONNECT", "CLIENT 8", "RegisterClient", 320, "link=memory")
    lanes = draw(log, tmp_path)["lanes"]
    assert [(lane["name"], lane["note"]) for lane in lanes] == [("train.py:4711", "Client 7"), ("Client 8", ""), ("Dispatcher", "")]


# ---- real logs ------------------------------------------------------------------------------------------------


def test_a_real_log_with_signals(programs, tmp_path):
    """Marks and scopes of a program are red lines at their time; every line of the log is parsed."""
    path = tmp_path / "run.log"
    programs.run(
        """
        import gt
        from gt.signals import signal
        a = gt.randn(64, 64)
        signal("START_FORWARD")
        b = (a @ a).relu()
        with gt.signal.context("layer 2"):
            c = (b + 1) * 2
            d = c.exp()
        signal("END_FORWARD")
        print(d.sum().item())
        """,
        GT_INSTRUCTION_LOG=path,
    )
    lines = path.read_text().splitlines()
    signals = [re.search(r'name="(.*)"', line).group(1) for line in lines if "| SIGNAL " in line]
    assert signals == ["START_FORWARD", "layer 2", "END_FORWARD"]
    order = [
        re.search(r'name="(.*)"|op=(\S+)', line).group(0)
        for line in lines
        if re.search(r"\| (SIGNAL|RECV) .*(name=|op=)", line)
    ]
    assert order.index('name="START_FORWARD"') < order.index("op=matmul") < order.index('name="layer 2"')
    assert (
        order.index('name="layer 2"')
        < order.index("op=exp")
        < order.index('name="END_FORWARD"')
        < order.index("op=sum")
    )
    ended = visualize(path, "--output", tmp_path / "p.png", "--dump-layout")
    assert "not a log line" not in ended.stderr and f"Events: {len(lines)}\n" in ended.stderr
    layout = json.loads(ended.stdout)
    assert [line["name"] for line in layout["signals"]] in (
        ["START_FORWARD", "END_FORWARD"],
        ["START_FORWARD, END_FORWARD"],
    )
    assert {band["scope"] for band in layout["bands"]} == {"layer 2"}
    assert sum(bar["count"] for bar in layout["bars"] if not bar["waiting"]) == sum(
        "| WORKER_RECV" in line for line in lines
    )
    assert {"MatMul", "ReLU", "BinaryOp", "UnaryOp", "Sum", "Create"} <= {
        marker["category"] for marker in layout["markers"]
    }


def test_operations_too_short_for_their_names_are_named_behind_them(tmp_path):
    """Three short operations after a long one, a gap, and a short one whose name the next bar would cover."""
    log = Log()
    times = [(0.001, 0.004, "matmul"), (0.005, 1e-5, "relu"), (0.00501, 1e-5, "add"), (0.00502, 1e-5, "add")]
    times += [(0.0079, 1e-5, "sum"), (0.008, 0.002, "exp")]
    for number, (_, _, op) in enumerate(times):
        log.line(0.0005, "WORKER_SEND", "WORKER a", "WorkerUnaryOp", 64, f"op={op} result=1_{number}")
    for number, (start, duration, op) in enumerate(times):
        details = f"success=True op={op} result=1_{number} start={start} duration={duration}"
        log.line(0.011, "WORKER_RECV", "WORKER a", "WorkerUnaryOp", 16, details)
    layout = draw(log, tmp_path)
    assert [note["text"] for note in layout["notes"]] == ["relu, add ×2"]
    (note,) = layout["notes"]
    bars = sorted((bar for bar in layout["bars"]), key=lambda bar: bar["x"])
    short, following = [bar for bar in bars if bar["start"] < 0.0055][-1], [bar for bar in bars if bar["start"] > 0.0055][0]
    assert short["x"] + short["width"] <= note["x"] + layout["font"] and note["x"] < following["x"]
    assert layout["lanes"][note["lane"]]["name"] == "Worker a"


def test_the_scopes_of_a_hot_path_are_bands_over_its_bar(tmp_path):
    """Workers run a path as one operation; the log has its instructions, whose times alone divide the path's time."""
    log = Log()

    def lines(at, first):
        for scope, op, number in (("forward", "matmul", first), ("forward", "permute", first + 1), ("update", "mul", first + 2)):
            if op != "permute":
                log.line(at, "SIGNAL", "CLIENT 1", "Signal", 0, f'enters scope={scope} name="{scope}"')
            log.line(at, "RECV", "CLIENT 1", "BinaryOp", 64, f"result={number} op={op} scope={scope} at=train.py:{40 + len(scope)}")
            log.line(at, "RECV", "CLIENT 1", "FreeTensor", 64, f"tensor_id={number - 1}")

    lines(0.001, 1)
    for number, op in enumerate(("matmul", "permute", "mul"), 1):
        log.line(0.002, "WORKER_SEND", "WORKER a", "WorkerBinaryOp", 64, f"op={op} result=1_{number}")
    for number, (op, start, duration) in enumerate((("matmul", 0.01, 0.03), ("permute", 0.04, 1e-9), ("mul", 0.04, 0.01)), 1):
        log.line(0.06, "WORKER_RECV", "WORKER a", "WorkerBinaryOp", 16, f"success=True op={op} result=1_{number} start={start} duration={duration}")
    for run in range(2):
        log.line(0.061 + run / 100, "RECV", "CLIENT 1", "RunPath", 128, "path=0 instructions=3 ops=matmul,permute,mul")
        lines(0.062 + run / 100, 10 * run + 10)
        for worker in "ab":
            log.line(0.063 + run / 100, "WORKER_SEND", f"WORKER {worker}", "WorkerRunPath", 192, "path=1_0")
        for worker in "ab":
            log.line(0.4, "WORKER_RECV", f"WORKER {worker}", "WorkerRunPath", 16, f"success=True path=1_0 start={0.1 + run / 10} duration=0.08")
    layout = draw(log, tmp_path)
    assert layout["signals"] == []  # no lines: their scopes are bands
    paths = [("forward", 0.1, 0.16, 2), ("update", 0.16, 0.18, 1), ("forward", 0.2, 0.26, 2), ("update", 0.26, 0.28, 1)]
    alone = [("forward", 0.01, 0.04, 2), ("update", 0.04, 0.05, 1)]
    for worker, expected in (("Worker a", alone + paths), ("Worker b", paths)):
        bands = [band for band in layout["bands"] if layout["lanes"][band["lane"]]["name"] == worker]
        assert [(band["scope"], round(band["start"], 6), round(band["end"], 6), band["operations"]) for band in bands] == expected
    cut = draw(log, tmp_path, "--from", 0.17, "--to", 0.23, name="cut")
    bands = [(band["scope"], round(band["start"], 6), round(band["end"], 6)) for band in cut["bands"]]
    assert bands == 2 * [("update", 0.17, 0.18), ("forward", 0.2, 0.23)]
    svg = tmp_path / "log.svg"
    visualize(tmp_path / "log.txt", "--output", svg)
    assert "3 ops: 1 matmul, 1 mul, 1 permute, train.py:46-47, scopes forward, update, 80.0 ms" in svg.read_text()  # its title


def test_the_scopes_of_a_program_with_hot_paths_are_bands(programs, tmp_path):
    path = tmp_path / "run.log"
    programs.run(
        """
        import gt
        w = gt.randn(64, 64)
        for step in range(40):
            with gt.signal.context("forward"):
                y = (w @ w).relu().mean()
            with gt.signal.context("update"):
                w = w * 0.5 + y
        w.sum().item()
        """,
        GT_INSTRUCTION_LOG=path,
    )
    ended = visualize(path, "--output", tmp_path / "p.png", "--dump-layout")
    layout = json.loads(ended.stdout)
    assert any(bar["category"] == "HotPath" for bar in layout["bars"])
    assert layout["signals"] == [] and {band["scope"] for band in layout["bands"]} == {"forward", "update"}
    assert sum(band["operations"] for band in layout["bands"]) == 40 * 5


def test_a_wait_that_reaches_beyond_the_window_is_cut(tmp_path):
    log = Log()
    for client, (asked, told) in enumerate(((0.1, 0.5), (0.4, 0.9), (0.1, 0.9), (0.35, 0.45), (0.1, 0.2)), 1):
        log.line(asked, "RECV", f"CLIENT {client}", "GetData", 64, "tensor_id=1")
        log.line(told, "SEND", f"CLIENT {client}", "GetData", 4, "success=True tensor_id=1")
    layout = draw(log, tmp_path, "--from", 0.3, "--to", 0.6)
    shown = {layout["lanes"][bar["lane"]]["name"]: (round(bar["start"], 6), round(bar["start"] + bar["duration"], 6)) for bar in layout["bars"]}
    assert shown == {"Client 1": (0.3, 0.5), "Client 2": (0.4, 0.6), "Client 3": (0.3, 0.6), "Client 4": (0.35, 0.45)}
    visualize(tmp_path / "log.txt", "--from", 0.3, "--to", 0.6, "--output", tmp_path / "cut.json")
    events = json.loads((tmp_path / "cut.json").read_text())["traceEvents"]
    waits = sorted((event["ts"], event["ts"] + event["dur"]) for event in events if event.get("cat") == "wait")
    assert waits == [(pytest.approx(a), pytest.approx(b)) for a, b in ((3e5, 5e5), (3e5, 6e5), (3.5e5, 4.5e5), (4e5, 6e5))]


def test_a_column_of_short_operations_names_them(tmp_path):
    """Operations that are too short for a bar of their own: one of its kind has its own title, of several the longest is named."""
    log = Log()
    # (start in s, duration in ns, op, line): the four in the middle are in one column, which is some milliseconds wide
    ran = [(0, 400_000_000, "matmul", 5), (0.503, 3, "relu", 6), (0.50300001, 2, "add", 7), (0.50300002, 9, "mul", 8),
           (0.50300004, 2, "add", 9), (0.6, 400_000_000, "matmul", 10)]
    for number, (_, _, op, line) in enumerate(ran, 1):
        log.line(0.0, "RECV", "CLIENT 1", "BinaryOp", 64, f"result={number} op={op} left=0 right=0 at=train.py:{line}")
        log.line(0.0, "WORKER_SEND", "WORKER a", "WorkerBinaryOp", 64, f"op={op} result=1_{number} shape=(4,4)")
    for number, (start, duration, op, _) in enumerate(ran, 1):
        log.line(1.1, "WORKER_RECV", "WORKER a", "WorkerBinaryOp", 16,
                 f"success=True op={op} result=1_{number} shape=(4,4) start={start:.9f}s duration={duration * 1e-9:.9f}s")
    titles = {bar["title"] for bar in draw(log, tmp_path)["bars"] if bar["aggregated"]}
    assert titles == {"relu (4,4), train.py:6, 3 ns, #14",
                      "3 × BinaryOp, 13 ns; the longest: mul (4,4), train.py:8, 9 ns, #16"}
