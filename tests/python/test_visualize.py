"""gt visualize: what the pictures show, compared with what the log says.

--dump-layout prints what is drawn and where. The PNG's pixels and the SVG's shapes are compared with that, so the
picture itself is tested. log_maker.py writes the logs.
"""

import collections
import gzip
import json
import re
import subprocess
import sys
import xml.etree.ElementTree

import numpy as np
import pytest

from log_maker import Log, simulate
from support import clean_environment
from timeline_support import collective, draw, operation, read_png, rgb, visualize  # noqa: F401: a fixture

# The colours of the legend, and the shapes of events.
LEGEND = {
    "MatMul": "red",
    "BinaryOp": "blue",
    "UnaryOp": "green",
    "ReLU": "dark gray",
    "Sum": "purple",
    "Mean": "teal",
    "GetData": "dark orange",
    "AllGather": "dark red",
    "FreeTensor": "light gray",
}
CATEGORY = {
    "matmul": "MatMul",
    "add": "BinaryOp",
    "mul": "BinaryOp",
    "relu": "ReLU",
    "exp": "UnaryOp",
    "sum": "Sum",
    "mean": "Mean",
    "randn": "Create",
    None: "GetData",
}


# ---- what is drawn --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A log of a few hundred events with everything in it, and its picture."""
    directory = tmp_path_factory.mktemp("small")
    log = simulate(200, clients=2, workers=3, signals=("START FORWARD", "END_FORWARD"), failures=1, scale=5)
    layout = draw(log, directory)
    return log, layout, directory


def test_a_lane_for_each_party(small):
    log, layout, _ = small
    lanes = layout["lanes"]
    assert [(lane["kind"], lane["name"]) for lane in lanes] == [
        ("client", "Client 006b8b4567"),
        ("client", "Client 016b8b4567"),
        ("dispatcher", "Dispatcher"),
        ("worker", "Worker worker_0"),
        ("worker", "Worker worker_1"),
        ("worker", "Worker worker_2"),
    ]
    for lane in lanes:
        source = lane["name"].upper().split(" ")[0] + lane["name"][lane["name"].find(" ") :]
        assert lane["events"] == sum(line[3] == source for line in log.lines)
    assert all(a["top"] + a["height"] <= b["top"] + 1e-6 for a, b in zip(lanes, lanes[1:]))


def test_workers_are_in_the_order_of_their_numbers(tmp_path):
    layout = draw(simulate(400, workers=12), tmp_path)
    workers = [lane["name"] for lane in layout["lanes"] if lane["kind"] == "worker"]
    assert workers == [f"Worker worker_{index}" for index in range(12)]


def test_bars_have_the_worker_s_own_times(small):
    log, layout, _ = small
    per_point = (layout["end"] - layout["begin"]) / (layout["right"] - layout["left"])
    expected = {}
    for _, sequence, event, source, _, _, details in log.lines:
        if event == "WORKER_RECV":
            start, duration = (
                float(re.search(rf"{key}=(\S+)", details).group(1)) for key in ("start", "duration")
            )
            expected[sequence] = (f"Worker {source.split()[1]}", start, duration, CATEGORY[operation(details)])
    single = [bar for bar in layout["bars"] if not bar["aggregated"] and not bar["waiting"]]
    assert single
    for bar in single:
        lane, start, duration, category = expected[bar["sequence"]]
        assert layout["lanes"][bar["lane"]]["name"] == lane
        assert bar["start"] == pytest.approx(start, abs=1e-9) and bar["duration"] == pytest.approx(
            duration, abs=1e-9
        )
        assert bar["category"] == category
        assert bar["width"] == pytest.approx(max(duration / per_point, 1.2), rel=0.02)
        assert bar["x"] == pytest.approx(layout["left"] + (start - layout["begin"]) / per_point, abs=0.1)
    drawn = sum(bar["count"] for bar in layout["bars"] if not bar["waiting"])
    assert drawn == log.count("WORKER_RECV")
    busy = sum(lane["busy"] for lane in layout["lanes"] if lane["kind"] == "worker")
    assert busy == pytest.approx(sum(duration for _, _, duration, _ in expected.values()), rel=1e-6)


def test_waits_of_clients_are_bars_from_request_to_answer(small):
    log, layout, _ = small
    waiting = [bar for bar in layout["bars"] if bar["waiting"]]
    assert sum(bar["count"] for bar in waiting) == log.count("SEND") > 0
    requests = [line for line in log.lines if line[2] == "RECV" and line[4] == "GetData"]
    asked = {re.search(r"result=(\d+)", line[6]).group(1): line[0] for line in requests}
    answers = {line[1]: line for line in log.lines if line[2] == "SEND"}
    for bar in waiting:
        if bar["aggregated"]:
            continue
        line = answers[bar["sequence"]]
        begin = asked[re.search(r"result=(\d+)", line[6]).group(1)]
        assert bar["start"] == pytest.approx(begin, abs=2e-6)
        assert bar["duration"] == pytest.approx(line[0] - begin, abs=2e-6)


def test_one_marker_for_each_event_in_its_lane_and_its_echo_at_the_dispatcher(small):
    log, layout, _ = small
    shown, echoes = collections.Counter(), collections.Counter()
    for marker in layout["markers"]:
        (echoes if marker["echo"] else shown)[layout["lanes"][marker["lane"]]["name"]] += marker["count"]
    for lane in layout["lanes"]:
        if lane["kind"] == "dispatcher":
            messages = sum(log.count(event) for event in ("RECV", "SEND", "WORKER_SEND", "WORKER_RECV"))
            assert echoes[lane["name"]] == messages
        else:
            source = lane["kind"].upper() + lane["name"][lane["name"].find(" ") :]
            assert shown[lane["name"]] == sum(line[3] == source and line[2] != "SIGNAL" for line in log.lines)


def test_few_events_are_drawn_one_by_one(tmp_path):
    log = simulate(30, scale=20)
    layout = draw(log, tmp_path)
    assert not any(marker["heap"] for marker in layout["markers"])
    assert not any(bar["aggregated"] for bar in layout["bars"])
    for marker in layout["markers"]:
        line = log.lines[marker["sequence"] - 1]
        assert line[2] == marker["event"]
    arrows = collections.Counter(arrow["event"] for arrow in layout["arrows"])
    assert arrows == {event: log.count(event) for event in ("RECV", "SEND", "WORKER_SEND", "WORKER_RECV")}
    # Key events carry their number: the bars that have room for it, and the requests.
    ids = {item["id"] for item in layout["markers"] + layout["bars"] if item["id"]}
    assert ids and all(int(text[1:]) in range(1, len(log.lines) + 1) for text in ids)
    assert f"#{next(line[1] for line in log.lines if line[2] == 'RECV')}" in ids
    assert {"matmul", "randn"} & {bar["label"] for bar in layout["bars"]}


def test_arrows_go_from_lane_to_lane(small):
    log, layout, _ = small
    kinds = [lane["kind"] for lane in layout["lanes"]]
    ways = collections.Counter()
    for arrow in layout["arrows"]:
        ways[arrow["event"], kinds[arrow["from"]], kinds[arrow["to"]]] += arrow["count"]
        assert arrow["x1"] >= arrow["x0"] - 0.01  # nothing arrives before it was sent
    assert ways == {
        ("RECV", "client", "dispatcher"): log.count("RECV"),
        ("SEND", "dispatcher", "client"): log.count("SEND"),
        ("WORKER_SEND", "dispatcher", "worker"): log.count("WORKER_SEND"),
        ("WORKER_RECV", "worker", "dispatcher"): log.count("WORKER_RECV"),
    }


def test_moves_are_arrows_from_worker_to_worker(tmp_path):
    log = Log()
    log.line(0.001, "WORKER_SEND", "WORKER a", "WorkerMove", 64, "result=1_1 to=b")
    log.line(
        0.004, "WORKER_RECV", "WORKER a", "WorkerMove", 64, "result=1_1 success=True start=0.002 duration=0.001"
    )
    log.line(0.005, "WORKER_SEND", "WORKER b", "WorkerUnaryOp", 64, "result=1_2 op=relu")
    layout = draw(log, tmp_path)
    names = [lane["name"] for lane in layout["lanes"]]
    assert ("Worker a", "Worker b") in {(names[arrow["from"]], names[arrow["to"]]) for arrow in layout["arrows"]}
    assert [bar["category"] for bar in layout["bars"]] == ["Move"]


def test_collectives_and_sends_join_their_workers(tmp_path):
    log = Log()
    for index, worker in enumerate("abc"):
        log.line(0.001 + 1e-6 * index, "WORKER_SEND", f"WORKER {worker}", "WorkerAllReduce", 64, "op=all_reduce result=1_5")
    log.line(0.0011, "WORKER_SEND", "WORKER a", "WorkerMove", 64, "op=send result=1_6")
    log.line(0.0012, "WORKER_SEND", "WORKER c", "WorkerMove", 64, "op=recv result=1_6")
    for worker, command, op, tensor, time in [
        ("a", "WorkerAllReduce", "all_reduce", 5, 2),
        ("b", "WorkerAllReduce", "all_reduce", 5, 2.1),
        ("c", "WorkerAllReduce", "all_reduce", 5, 2.2),
        ("a", "WorkerMove", "send", 6, 3),
        ("c", "WorkerMove", "recv", 6, 4),
    ]:
        log.line(
            time * 1e-3,
            "WORKER_RECV",
            f"WORKER {worker}",
            command,
            16,
            f"success=True op={op} result=1_{tensor} start={time * 1e-3 - 5e-4} duration=0.0004",
        )
    layout = draw(log, tmp_path)
    names = [lane["name"][-1] for lane in layout["lanes"]]
    kinds = [lane["kind"] for lane in layout["lanes"]]
    between = sorted(
        names[arrow["from"]] + names[arrow["to"]]
        for arrow in layout["arrows"]
        if kinds[arrow["from"]] == kinds[arrow["to"]] == "worker"
    )
    assert between == ["ac", "ba", "cb"]
    assert {bar["category"] for bar in layout["bars"]} == {"AllReduce", "Move"}


def test_more_bytes_are_larger_markers_and_thicker_arrows(tmp_path):
    log = Log()
    sizes = [64, 4096, 1 << 20, 1 << 30]
    for index, size in enumerate(sizes):
        log.line(0.001 * (index + 1), "RECV", "CLIENT 1", "UploadData", size, f"result={index}")
    layout = draw(log, tmp_path)
    markers = sorted((m for m in layout["markers"] if not m["echo"]), key=lambda marker: marker["x"])
    radii = [marker["radius"] for marker in markers]
    widths = [arrow["width"] for arrow in sorted(layout["arrows"], key=lambda arrow: arrow["x0"])]
    assert radii == sorted(set(radii)) and widths == sorted(set(widths))


def test_signals_are_red_lines_through_all_lanes(small):
    log, layout, directory = small
    assert [line["name"] for line in layout["signals"]] == ["START FORWARD", "END_FORWARD"]
    pixels, scale = read_png(directory / "log.png"), 150 / 72
    for line in layout["signals"]:
        at = int(line["x"] * scale)
        column = pixels[int(layout["top"] * scale) : int(layout["bottom"] * scale), at - 1 : at + 3]
        red = (column[..., 0] > 200) & (column[..., 1] < 140) & (column[..., 2] < 140)
        assert red.any(1).mean() > 0.95


def test_signals_of_one_moment_share_a_line(tmp_path):
    log = Log()
    for index in range(30):
        log.line(0.001, "SIGNAL", "CLIENT 1", "Signal", 0, f'name="first {index}"')
    log.line(0.002, "SIGNAL", "CLIENT 1", "Signal", 0, 'name="a"')
    log.line(0.002, "SIGNAL", "CLIENT 1", "Signal", 0, 'name="b"')
    crowd, couple = draw(log, tmp_path)["signals"]
    assert crowd["count"] == 30 and crowd["name"].startswith("first 0, first 1")
    assert (couple["count"], couple["name"]) == (2, "a, b")


def test_failures_stand_out(small):
    log, layout, _ = small
    assert log.count("ERROR") == 1
    failed = [marker["event"] for marker in layout["markers"] if marker["failed"] and not marker["heap"]]
    assert failed.count("ERROR") == 1
    assert sum(bar["failed"] for bar in layout["bars"]) == 1
    assert "ERROR" in {item["text"] for item in layout["legend"]}


def test_the_legend_has_what_the_picture_has(small):
    log, layout, _ = small
    used = {CATEGORY[operation(line[6])] for line in log.lines if line[2] in ("RECV", "WORKER_RECV")}
    assert {item["text"] for item in layout["legend"] if "category" in item} == used
    assert all(layout["bottom"] < item["y"] < layout["height"] for item in layout["legend"])


def test_the_seeds_colours(tmp_path):
    log = Log()
    commands = [
        ("BinaryOp", "op=matmul"),
        ("BinaryOp", "op=add"),
        ("UnaryOp", "op=exp"),
        ("UnaryOp", "op=relu"),
        ("UnaryOp", "op=sum"),
        ("UnaryOp", "op=mean"),
        ("GetData", ""),
        ("AllGather", ""),
        ("FreeTensor", ""),
    ]
    for index, (command, details) in enumerate(commands):
        log.line(
            index + 0.5,
            "WORKER_RECV",
            "WORKER w",
            f"Worker{command}",
            64,
            f"{details} success=True start={index + 0.1} duration=0.3",
        )
    layout = draw(log, tmp_path, "--dpi", 100)
    bars = sorted(layout["bars"], key=lambda bar: bar["x"])
    assert [bar["category"] for bar in bars] == list(LEGEND)
    colours = [rgb(bar["colour"]) for bar in bars]
    red, blue, green, gray, purple, teal, orange, dark_red, light = colours
    assert red[0] > 180 > 100 > max(red[1:]) and max(blue) == blue[2] > 150 and max(green) == green[1] > 130
    assert len(set(gray)) == 1 and gray[0] < 100 and len(set(light)) == 1 and light[0] > 180
    assert purple[0] > purple[1] < purple[2] and abs(teal[1] - teal[2]) < 30 > teal[0]
    assert orange[0] > 200 > orange[1] > 80 > orange[2] and 100 < dark_red[0] < 160 > 20 > max(dark_red[1:])
    # and on paper: a corner of each bar, away from its label
    pixels, scale = read_png(tmp_path / "log.png"), 100 / 72
    for bar, colour in zip(bars, colours):
        x, y = int((bar["x"] + 4) * scale), int((bar["y"] + 3) * scale)
        assert tuple(pixels[y, x]) == colour, bar["category"]


def test_the_bar_of_a_hot_path_says_what_is_in_it(tmp_path):
    log = Log()
    ops = "permute,matmul,add,relu,matmul,add,mul,mul,mul"
    log.line(0.01, "RECV", "CLIENT 1", "RunPath", 192, f"path=0 instructions=9 ops={ops}")
    log.line(0.02, "RECV", "CLIENT 1", "RunPath", 192, "path=1 instructions=900 ops=" + ",".join(["add"] * 100 + ["..."]))
    for end, start, path in ((0.5, 0.1, 0), (0.53, 0.5, 0), (0.9, 0.6, 1), (0.95, 0.92, 7)):
        log.line(end, "WORKER_RECV", "WORKER w", "WorkerRunPath", 16, f"success=True path=1_{path} start={start} duration={end - start}")
    layout = draw(log, tmp_path)
    whole, narrow, long, unknown = sorted(layout["bars"], key=lambda bar: bar["x"])
    assert {bar["category"] for bar in layout["bars"]} == {"HotPath"}
    assert whole["label"].startswith("9 ops: 2 matmul, 3 mul, 2 add") and long["label"] == "900 ops: 100 add"
    assert narrow["label"] in ("", "9 ops") and "add" not in unknown["label"]


# ---- many events ----------------------------------------------------------------------------------------------


def test_a_hundred_thousand_events_are_added_up_and_none_is_lost(tmp_path):
    log = simulate(100_000, clients=4, workers=8, signals=[f"epoch_{k}" for k in range(200)], scale=2)
    layout = draw(log, tmp_path, "--dpi", 60)
    assert len(log.lines) > 100_000
    assert sum(bar["count"] for bar in layout["bars"] if not bar["waiting"]) == log.count("WORKER_RECV")
    own = sum(marker["count"] for marker in layout["markers"] if not marker["echo"])
    assert own == len(log.lines) - log.count("SIGNAL")
    assert sum(arrow["count"] for arrow in layout["arrows"]) == sum(
        log.count(event) for event in ("RECV", "SEND", "WORKER_SEND", "WORKER_RECV")
    )
    assert sum(line["count"] for line in layout["signals"]) == 200
    # Readable: about as many things as a page can hold, not as many as there were events.
    lanes = len(layout["lanes"])
    assert (
        len(layout["bars"]) < 4000 * lanes
        and len(layout["markers"]) < 1500 * lanes
        and len(layout["arrows"]) < 500
    )
    # The columns' heights are the share of time that the worker was busy.
    for index, lane in enumerate(layout["lanes"]):
        if lane["kind"] == "worker":
            drawn = sum(bar["duration"] for bar in layout["bars"] if bar["lane"] == index)
            assert drawn == pytest.approx(lane["busy"], rel=1e-3)


def test_many_parties_share_the_last_lane(tmp_path):
    log = simulate(3000, clients=40, workers=70)
    layout = draw(log, tmp_path, "--dpi", 40)
    names = [lane["name"] for lane in layout["lanes"]]
    assert "17 more clients" in names and "7 more workers" in names
    assert sum(lane["events"] for lane in layout["lanes"]) == len(log.lines)


def test_long_idle_times_are_left_out(tmp_path):
    log = Log()
    for index, time in enumerate((1.0, 1.001, 500.0, 500.001)):
        log.line(time, "RECV", "CLIENT 1", "UnaryOp", 64, f"result={index} op=relu")
    layout = draw(log, tmp_path)
    ticks = [float(tick["text"]) for tick in layout["ticks"]]  # each part of the axis has its own, in milliseconds
    assert any(abs(tick - 1000) <= 1.5 for tick in ticks) and any(abs(tick - 500_000) <= 1.5 for tick in ticks)
    markers = [m for m in layout["markers"] if not m["echo"]]
    first, second, third, fourth = (marker["x"] for marker in markers)
    assert second - first == pytest.approx(fourth - third, rel=0.01) and second - first > 100 > third - second


# ---- reading logs ---------------------------------------------------------------------------------------------

SEED_LINES = """\
1.608s | #0011 | RECV         | CLIENT 006b8b4568           | BinaryOp        |       117B | result=2 op=add left=0 right=1
1.608s | #0012 | WORKER_SEND  | WORKER auto_worker          | WorkerBinaryOp  |       152B | op=add result=006b8b4568_2
1.609s | #0013 | WORKER_RECV  | WORKER auto_worker          | WorkerBinaryOp  |        91B | success=True
  1.612s | #0043 | WORKER_SEND  | WORKER worker_0        | WorkerBinaryOp  | 123KB | op=add
  1.615s | #0044 | WORKER_RECV  | WORKER worker_0        | WorkerResponse  | 45B   | success=True
  1.616s | #0045 | SEND         | CLIENT 127.0.0.1:12345 | BinaryOp        | 45B   | success=True
"""


def test_the_seeds_own_examples(tmp_path):
    """Without durations in the log, an operation lasts from its request to its answer."""
    layout = draw(SEED_LINES, tmp_path)
    assert [lane["name"] for lane in layout["lanes"]] == [
        "Client 006b8b4568",
        "Client 127.0.0.1:12345",
        "Dispatcher",
        "Worker auto_worker",
        "Worker worker_0",
    ]
    durations = sorted(round(bar["duration"], 6) for bar in layout["bars"])
    assert durations == [0.001, 0.003]


def test_malformed_lines_are_named_and_skipped(tmp_path):
    path = tmp_path / "log.txt"
    good = SEED_LINES.splitlines()
    bad = {
        2: "nonsense",
        4: "x.608s | #0011 | RECV | CLIENT 1 | BinaryOp | 117B | result=2",
        5: "1.608s | 0011 | RECV | CLIENT 1 | BinaryOp | 117B | result=2",
        6: "1.608s | #0011 | RECEIVE | CLIENT 1 | BinaryOp | 117B | result=2",
        7: "1.608s | #0011 | RECV | SOMEBODY 1 | BinaryOp | 117B | result=2",
        8: "1.608s | #0011 | RECV | CLIENT 1 | BinaryOp | many | result=2",
        9: "1.608s | #0011 | WORKER_RECV | WORKER 1 | WorkerBinaryOp | 117B | duration=long",
    }
    lines = [good[0], bad[2], good[1], *(bad[k] for k in range(4, 10)), *good[2:]]
    path.write_text("\n".join(lines))
    ended = visualize(path, "--output", tmp_path / "picture.png")
    assert "Events: 6" in ended.stdout
    reported = re.findall(r"log\.txt:(\d+): not a log line", ended.stderr)
    assert [int(number) for number in reported] == sorted(bad)


def test_of_many_malformed_lines_only_some_are_named(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text(SEED_LINES + "what?\n" * 50)
    ended = visualize(path, "--output", tmp_path / "picture.png")
    assert ended.stderr.count("not a log line") == 10 and "and 40 more lines" in ended.stderr


def test_long_names_are_cut_between_characters(tmp_path):
    """Signals, commands and parties may be called anything, in any script."""
    for name in ("é" * 34, "x" + "é" * 34, "日本語" * 10, "🙂" * 20, "a🙂é" * 10):
        log = Log()
        log.line(0.1, "SIGNAL", "CLIENT 1", "Signal", 0, f'name="{name}"')
        log.line(0.2, "WORKER_SEND", f"WORKER {name}", f"Worker{name}", 64)
        log.line(0.9, "WORKER_RECV", f"WORKER {name}", f"Worker{name}", 64, "success=True start=0.2s duration=0.7s")
        log.line(1.0, "WORKER_SEND", "WORKER 2", f"Worker{name}", 64)
        log.line(1.1, "WORKER_RECV", "WORKER 2", f"Worker{name}", 64, "success=True start=1.0s duration=0.000001s")
        log.line(2.0, "DISCONNECT", "CLIENT 1")
        layout = draw(log, tmp_path)
        shown = [layout["signals"][0]["name"], *(bar["label"] for bar in layout["bars"] if bar["label"])]
        shown += [note["text"] for note in layout["notes"]]
        assert len(shown) >= 2 and all(name.startswith(text) and len(text) > 4 for text in shown)
        assert any(lane["name"].startswith(f"Worker {name[:4]}") and lane["name"][-1] == "…" for lane in layout["lanes"])


def test_times_without_end(tmp_path):
    """Impossible times are malformed lines; possible ones are drawn, however far apart or close."""
    line = "{} | #{} | RECV | CLIENT 1 | GetData | 64B | tensor_id=1\n"
    for one, other in (("1e15s", "1e15s"), ("1e308s", "1.7e308s"), ("-1s", "infs")):
        (tmp_path / "log.txt").write_text(line.format(one, 1) + line.format(other, 2))
        assert "is not a time" in visualize(tmp_path / "log.txt", "--output", tmp_path / "p.png", status=1).stderr
    for one, other in (("9e8s", "900000000.0000002s"), ("1e9s", "1e9s"), ("0s", "1e9s"), ("0s", "1e-300s")):
        layout = draw(line.format(one, 1) + line.format(other, 2), tmp_path)
        assert 1 <= len(layout["ticks"]) < 50
        assert all(layout["left"] <= marker["x"] <= layout["right"] for marker in layout["markers"])


def test_a_read_after_thousands_of_operations_is_a_wait(tmp_path):
    log = Log()
    for number in range(20_000):
        log.line(number * 1e-6, "RECV", "CLIENT 1", "BinaryOp", 64, f"result={number + 1} op=add")
    log.line(0.05, "RECV", "CLIENT 1", "GetData", 64, "tensor_id=20000")
    log.line(0.09, "SEND", "CLIENT 1", "GetData", 64, "success=True tensor_id=20000")
    waits = [bar for bar in draw(log, tmp_path)["bars"] if bar["waiting"]]
    assert [(bar["category"], round(bar["duration"], 6)) for bar in waits] == [("GetData", 0.04)]


def test_a_server_that_had_many_clients(tmp_path):
    """A hundred thousand names take a second, not minutes."""
    log = Log()
    for number in range(100_000):
        log.line(number * 1e-5, "CONNECT", f"CLIENT {number}", "RegisterClient")
    assert len(draw(log, tmp_path)["lanes"]) == 25
    assert "100000 clients" in draw(log, tmp_path)["title"]


def test_hostile_bytes_do_no_harm(tmp_path):
    path = tmp_path / "log.txt"
    random_numbers = np.random.default_rng(0)
    noise = random_numbers.integers(0, 256, 20_000, np.uint8).tobytes()
    strange = '0.5s | #1 | SIGNAL | CLIENT "\\\u202e | Signal | 0B | name='.encode()
    strange += b"\xff\xfe\x00\xc3" + b"y" * 9000
    infinite = b"\ninfs | #1 | RECV | CLIENT 1 | A | 1B | x\nnans | #1 | RECV | CLIENT 1 | A | 1B | x\n"
    huge = b"1e300s | #99999999999999999999999 | RECV | CLIENT 1 | A | 1e300TB | op=add\n"
    path.write_bytes(noise + b"\n" + strange + infinite + huge + SEED_LINES.encode())
    for output in ("picture.png", "picture.svg", "picture.json"):
        visualize(path, "--output", tmp_path / output)
    json.loads((tmp_path / "picture.json").read_text())
    json.loads(visualize(path, "--output", tmp_path / "p.png", "--dump-layout").stdout)


def test_quoted_text_is_not_looked_into(tmp_path):
    line = '1.0s | #0001 | RECV | CLIENT 1 | UnaryOp | 64B | result=1 op=relu error="it says op=matmul"\n'
    assert {marker["category"] for marker in draw(line, tmp_path)["markers"]} == {"ReLU"}
    line = '1.0s | #0001 | SIGNAL | CLIENT 1 | Signal | 0B | name="two words op=add" more\n'
    assert [signal["name"] for signal in draw(line, tmp_path)["signals"]] == ["two words op=add"]


def test_several_logs_make_one_picture(tmp_path):
    lines = SEED_LINES.splitlines(keepends=True)
    (tmp_path / "1.log").write_text("".join(lines[3:]))
    (tmp_path / "2.log").write_text("".join(lines[:3]))
    ended = visualize(tmp_path / "1.log", tmp_path / "2.log", "--output", tmp_path / "p.png", "--dump-layout")
    (tmp_path / "all.log").write_text(SEED_LINES)
    together = visualize(tmp_path / "all.log", "--output", tmp_path / "p.png", "--dump-layout")
    assert json.loads(ended.stdout) == json.loads(together.stdout)


# ---- options --------------------------------------------------------------------------------------------------


def test_the_summary_and_the_defaults(tmp_path):
    (tmp_path / "a.log").write_text(SEED_LINES)
    ended = visualize("a.log", cwd=tmp_path)
    pixels = read_png(tmp_path / "tape_timeline.png")
    assert ended.stdout == (
        "✓ Visualization saved to: tape_timeline.png\n"
        f"  Resolution: {pixels.shape[1]} x {pixels.shape[0]} pixels\n"
        "  Events: 6\n  Workers: 2\n  Duration: 0.008s\n"
    )
    assert ended.stderr == ""
    assert (pixels[0, 0] == 255).all()  # a white background, for papers


def test_python_module_is_the_same_program(tmp_path):
    log = simulate(50, workers=2)
    (tmp_path / "a.log").write_text(log.text())
    (tmp_path / "c").mkdir(), (tmp_path / "python").mkdir()
    mine = visualize("../a.log", "--output", "p.png", "--dpi", 80, "--dump-layout", cwd=tmp_path / "c")
    theirs = visualize(
        "../a.log", "--output", "p.png", "--dpi", 80, "--dump-layout", cwd=tmp_path / "python", python=True
    )
    assert (mine.stdout, mine.stderr) == (theirs.stdout, theirs.stderr)
    assert (tmp_path / "c" / "p.png").read_bytes() == (tmp_path / "python" / "p.png").read_bytes()


def test_import_gt_loads_none_of_the_tools_libraries():
    code = "import gt; gt.ones(2).sum().item(); print(open('/proc/self/maps').read())"
    maps = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=clean_environment()
    ).stdout
    assert "/_gt." in maps and "libcairo" not in maps and "libncurses" not in maps


def test_dpi_scales_the_picture(tmp_path):
    layout = draw(SEED_LINES, tmp_path, "--dpi", 72)
    low = read_png(tmp_path / "log.png").shape
    draw(SEED_LINES, tmp_path, "--dpi", 144)
    high = read_png(tmp_path / "log.png").shape
    assert low[:2] == (np.ceil(layout["height"]), np.ceil(layout["width"]))
    assert high[:2] == (np.ceil(2 * layout["height"]), np.ceil(2 * layout["width"]))


def test_dimensions_follow_the_log(tmp_path):
    few, many = draw(simulate(10), tmp_path), draw(simulate(2000, workers=8), tmp_path)
    assert few["width"] < many["width"] and few["height"] < many["height"]


@pytest.mark.parametrize("chosen", ["by name", "by option"])
@pytest.mark.parametrize("format", ["png", "svg", "pdf", "chrome"])
def test_formats(tmp_path, format, chosen):
    extension = "json" if format == "chrome" else format
    options = ["--output", f"picture.{extension}"] if chosen == "by name" else ["--format", format]
    (tmp_path / "a.log").write_text(SEED_LINES)
    ended = visualize("a.log", *options, cwd=tmp_path)
    name = f"picture.{extension}" if chosen == "by name" else f"tape_timeline.{extension}"
    assert f"saved to: {name}\n" in ended.stdout
    beginning = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF", "chrome": b"{"}
    assert (tmp_path / name).read_bytes().startswith(beginning[format])


SVG = "{http://www.w3.org/2000/svg}"


def test_svg_has_the_bars_of_the_layout(tmp_path):
    log = simulate(60, workers=2, scale=20)
    layout = draw(log, tmp_path)
    visualize(tmp_path / "log.txt", "--output", tmp_path / "p.svg")
    root = xml.etree.ElementTree.parse(tmp_path / "p.svg").getroot()
    corners = collections.Counter()
    for rectangle in root.iter(f"{SVG}rect"):
        if rectangle.get("x"):
            corners[float(rectangle.get("x")), float(rectangle.get("y")), rectangle.get("fill")] += 1
    for bar in layout["bars"]:
        assert corners[bar["x"], bar["y"], bar["colour"]], bar


def test_svg_has_text_as_text_and_a_title_on_every_bar(tmp_path):
    """What is written can be searched, and a pointer at a bar shows op, shape, line, scope and duration."""
    log = Log()
    log.line(0.0, "CONNECT", "CLIENT 1", "RegisterClient", 320, 'link=memory name="train<&>.py:4711"')
    log.line(0.001, "SIGNAL", "CLIENT 1", "Signal", 0, 'enters scope=layer_2 name="layer 2"')
    log.line(0.001, "RECV", "CLIENT 1", "CreateTensor", 64, "tensor_id=3 op=randn shape=(32,10) scope=layer_2 at=train.py:7")
    log.line(0.002, "WORKER_SEND", "WORKER a", "WorkerCreateTensor", 64, "op=randn result=1_3")
    log.line(0.009, "WORKER_RECV", "WORKER a", "WorkerCreateTensor", 16, "success=True op=randn result=1_3 start=0.002s duration=0.0015s")
    layout = draw(log, tmp_path)
    visualize(tmp_path / "log.txt", "--output", tmp_path / "p.svg")
    root = xml.etree.ElementTree.parse(tmp_path / "p.svg").getroot()
    texts = {text.text for text in root.iter(f"{SVG}text")}
    assert {"train<&>.py:4711", "Client 1", "Dispatcher", "Worker a", "randn", "layer 2", layout["title"], layout["axis"]} <= texts
    titles = {group.find(f"{SVG}title").text for group in root.iter(f"{SVG}g")}
    assert titles == {"randn (32,10), train.py:7, scope layer 2, 1.50 ms, #5", "scope layer 2, 1 operation, 1.50 ms"}
    assert {bar["title"] for bar in layout["bars"]} < titles


def check_trace(trace):
    """The rules of the Trace Event Format that viewers rely on; returns the events by phase."""
    assert trace.keys() <= {"traceEvents", "displayTimeUnit", "otherData"} and trace["displayTimeUnit"] in ("ms", "ns")
    by_phase = collections.defaultdict(list)
    for event in trace["traceEvents"]:
        assert isinstance(event["name"], str) and isinstance(event["pid"], int) and isinstance(event["tid"], int)
        assert event["ph"] in "MXistf", event
        by_phase[event["ph"]].append(event)
        if event["ph"] != "M":
            assert isinstance(event["ts"], (int, float)) and event["ts"] >= 0 and isinstance(event["cat"], str)
    named = collections.defaultdict(dict)
    for event in by_phase["M"]:
        kind, value = event["name"], event["args"]
        assert kind in ("process_name", "thread_name") and isinstance(value["name"], str) and value["name"] or (
            kind in ("process_sort_index", "thread_sort_index") and isinstance(value["sort_index"], int)
        ), event
        assert (event["pid"], event["tid"]) not in named[kind], "named twice"
        named[kind][event["pid"], event["tid"]] = value
    processes, threads = {pid for pid, _ in named["process_name"]}, [tid for _, tid in named["thread_name"]]
    assert len(threads) == len(set(threads)), "Perfetto takes a number in two processes for one thread"
    assert not processes & set(threads) and min(threads) > 0, "and the number of a process for its main thread"
    slices = collections.defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] != "M":
            assert (event["pid"], event["tid"]) in named["thread_name"] and (event["pid"], event["pid"]) in named["process_name"], event
        if event["ph"] == "X":
            assert event["dur"] >= 0
            slices[event["pid"], event["tid"]].append((round(event["ts"] * 1000), round((event["ts"] + event["dur"]) * 1000)))
        if event["ph"] == "i":
            assert event["s"] == "t", "Perfetto shows instants of no thread in an unnamed track"
    for thread, spans in slices.items():  # one after another or one inside another: as if B and E were balanced
        open_until = []
        for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while open_until and open_until[-1] <= start:
                open_until.pop()
            assert not open_until or end <= open_until[-1], f"overlapping slices in thread {thread}"
            open_until.append(end)
    flows = collections.defaultdict(list)
    for event in by_phase["s"] + by_phase["t"] + by_phase["f"]:
        flows[event["cat"], event["name"], event["id"]].append(event)
        at = round(event["ts"] * 1000)
        assert any(start <= at < end for start, end in slices[event["pid"], event["tid"]]), "a flow outside of slices"
    for steps in flows.values():  # begins once, ends once, in this order
        assert [step["ph"] for step in steps if step["ph"] != "t"] == ["s", "f"]
        ordered = sorted(steps, key=lambda step: "stf".index(step["ph"]))
        assert [step["ts"] for step in ordered] == sorted(step["ts"] for step in ordered)
    return by_phase


def chrome_trace(log, directory, name="trace.json"):
    (directory / "log.txt").write_text(log.text())
    visualize(directory / "log.txt", "--output", directory / name)
    data = (directory / name).read_bytes()
    return json.loads(gzip.decompress(data) if name.endswith(".gz") else data)


def test_chrome_trace_is_what_perfetto_reads(tmp_path):
    log = simulate(300, clients=2, workers=2, signals=("START",), failures=1)
    phases = check_trace(chrome_trace(log, tmp_path))
    kinds = collections.Counter(event["cat"] for event in phases["X"])
    assert kinds.pop("wait") == log.count("SEND")
    assert kinds.pop("message") == log.count("RECV") - log.count("SEND") + log.count("WORKER_SEND")
    assert sum(kinds.values()) == log.count("WORKER_RECV")
    assert len(phases["s"]) == len(phases["f"]) == log.count("WORKER_SEND")
    assert collections.Counter(event["cat"] for event in phases["i"]) == {
        event: log.count(event) for event in ("CONNECT", "DISCONNECT", "SIGNAL", "ERROR")
    }
    assert [event["name"] for event in phases["i"] if event["cat"] in ("SIGNAL", "ERROR")] == ["out of memory", "START"]
    slowest = max((event for event in phases["X"] if event["cat"] != "wait"), key=lambda event: event["dur"])
    assert slowest["cat"] == "MatMul" and slowest["args"]["details"]


def test_chrome_trace_names_lines_shapes_and_scopes(tmp_path):
    log = Log()
    log.line(0.0, "CONNECT", "WORKER a", "RegisterWorker", 320, 'link=memory engine="cpu"')
    log.line(0.0, "CONNECT", "CLIENT 1", "RegisterClient", 320, 'link=memory name="train.py:4711"')
    log.line(0.001, "SIGNAL", "CLIENT 1", "Signal", 0, 'name="epoch 1"')
    log.line(0.001, "SIGNAL", "CLIENT 1", "Signal", 0, 'enters scope=forward name="forward (backward)"')
    log.line(0.001, "RECV", "CLIENT 1", "CreateTensor", 64, "tensor_id=3 op=randn shape=(32,10) scope=forward at=train.py:7")
    log.line(0.002, "WORKER_SEND", "WORKER a", "WorkerCreateTensor", 64, "op=randn result=1_3")
    log.line(0.009, "WORKER_RECV", "WORKER a", "WorkerCreateTensor", 16, "success=True op=randn result=1_3 start=0.002s duration=0.0015s")
    phases = check_trace(chrome_trace(log, tmp_path))
    threads = {event["args"]["name"] for event in phases["M"] if event["name"] == "thread_name"}
    assert threads == {"dispatcher", "train.py:4711 (client 1)", "a", "signals"}
    (work,) = [event for event in phases["X"] if event["cat"] == "Create"]
    assert (work["name"], work["ts"], work["dur"]) == ("randn", 2000, 1500)
    assert (work["args"]["line"], work["args"]["shape"], work["args"]["scope"]) == ("train.py:7", "(32,10)", "forward (backward)")
    (scope,) = [event for event in phases["X"] if event["cat"] == "scope"]
    assert scope["name"] == "forward (backward)" and (scope["pid"], scope["tid"], scope["ts"], scope["dur"]) == (
        work["pid"], work["tid"], work["ts"], work["dur"]
    )
    assert {event["name"] for event in phases["i"] if event["cat"] == "SIGNAL"} == {"epoch 1", "forward (backward)"}
    (begin,), (end,) = phases["s"], phases["f"]  # from the client's line to the worker's operation
    assert begin["pid"] == next(event["pid"] for event in phases["M"] if event["args"] == {"name": "Clients"})
    assert (end["pid"], end["tid"], end["ts"]) == (work["pid"], work["tid"], work["ts"])


def test_chrome_trace_of_work_that_overlaps(tmp_path):
    """An engine may run several operations at once, and reads of one client may overlap: slices of a thread may not."""
    log = Log()
    for number in range(8):
        log.line(0.001, "WORKER_SEND", "WORKER a", "WorkerUnaryOp", 64, f"op=exp result=1_{number}")
    for number in range(8):
        log.line(0.1, "WORKER_RECV", "WORKER a", "WorkerUnaryOp", 16,
                 f"success=True op=exp result=1_{number} start={0.01 + 0.005 * number} duration=0.012")
    for number in range(3):
        log.line(0.12 + 0.001 * number, "RECV", "CLIENT 1", "GetData", 64, f"tensor_id={number}")
    for number in range(3):
        log.line(0.13 + 0.001 * number, "SEND", "CLIENT 1", "GetData", 64, f"tensor_id={number} success=True")
    log.line(0.14, "WORKER_SEND", "WORKER a", "WorkerUnaryOp", 64, "op=exp result=1_9")  # too short to measure
    log.line(0.15, "WORKER_RECV", "WORKER a", "WorkerUnaryOp", 16, "success=True op=exp result=1_9 start=0.145s duration=0s")
    phases = check_trace(chrome_trace(log, tmp_path))
    assert sum(event["cat"] == "UnaryOp" for event in phases["X"]) == 9 == len(phases["f"])
    assert sum(event["cat"] == "wait" for event in phases["X"]) == 3


def test_chrome_trace_shows_waits_inside_collectives(collective):
    arrivals, _, directory = collective
    visualize(directory / "log.txt", "--output", directory / "trace.json")
    phases = check_trace(json.loads((directory / "trace.json").read_text()))
    waits = sorted((event["ts"], event["dur"]) for event in phases["X"] if event["cat"] == "wait")
    assert waits == [(10_000, 40_000), (30_000, 20_000)]
    assert [(event["ts"], event["dur"]) for event in phases["X"] if event["cat"] == "AllReduce"] == 3 * [(50_000, 10_000)]


def test_chrome_trace_is_compressed_if_its_name_says_so(tmp_path):
    log = simulate(2000, clients=2, workers=2)
    plain, packed = chrome_trace(log, tmp_path), chrome_trace(log, tmp_path, "trace.json.gz")
    assert plain == packed
    assert (tmp_path / "trace.json.gz").stat().st_size < (tmp_path / "trace.json").stat().st_size / 5
    visualize(tmp_path / "log.txt", "--format", "chrome", "--output", tmp_path / "other.gz")
    assert json.loads(gzip.decompress((tmp_path / "other.gz").read_bytes())) == plain


def test_from_and_to_choose_a_part(tmp_path):
    log = simulate(500)
    draw(log, tmp_path)
    begin, end = log.lines[100][0], log.lines[200][0]
    ended = visualize(
        tmp_path / "log.txt", "--from", begin - 5e-7, "--to", end + 5e-7, "--output", tmp_path / "p.png"
    )
    assert f"Events: {sum(begin <= line[0] <= end for line in log.lines)}\n" in ended.stdout
    said = visualize(tmp_path / "log.txt", "--from", 1e6, status=1).stderr
    first, last = min(line[0] for line in log.lines), max(line[0] for line in log.lines)
    told = re.search(r"no events from 1e\+06 s to the end: those of the log are from (\S+) s to (\S+) s", said)
    assert float(told[1]) == pytest.approx(first, abs=1e-3) and float(told[2]) == pytest.approx(last, abs=1e-3)


def test_from_and_to_are_times_of_execution(tmp_path):
    """A worker tells what it did later, many operations at once: their lines are all of one moment."""
    width = {"WORKER_SEND": "64B", "WORKER_RECV": "16B"}
    lines = [(0.001, "WORKER_SEND", f"op=relu result=1_{k}") for k in range(10)]
    lines += [(2, "WORKER_RECV", f"success=True op=relu result=1_{k} start={k / 10:.9f}s duration=0.1s") for k in range(10)]
    text = "".join(f"{at:.6f}s | #{number:04d} | {event} | WORKER w | WorkerUnaryOp | {width[event]} | {details}\n"
                   for number, (at, event, details) in enumerate(lines, 1))
    layout = draw(text, tmp_path, "--from", 0.25, "--to", 0.75)
    bars = sorted((round(box["start"], 6), round(box["duration"], 6)) for box in layout["bars"])
    assert bars == [(0.25, 0.05), (0.3, 0.1), (0.4, 0.1), (0.5, 0.1), (0.6, 0.1), (0.7, 0.05)]
    assert max(float(tick["text"]) for tick in layout["ticks"]) < 1000, "milliseconds; the lines of second 2 are not on the axis"


def test_help_and_mistakes(tmp_path):
    (tmp_path / "a.log").write_text(SEED_LINES)
    (tmp_path / "empty.log").write_text("")
    text = visualize("--help").stdout
    for option in ("--output", "--dpi", "--format", "--from", "--to", "--dump-layout"):
        assert option in text
    for arguments, status, message in [
        ([], 2, "which log"),
        (["missing.log"], 1, "cannot read missing.log"),
        (["empty.log"], 1, "GT_INSTRUCTION_LOG"),
        (["a.log", "--dpi", "none"], 2, "not a number"),
        (["a.log", "--dpi", "0"], 2, "from 1 to"),
        (["a.log", "--dpi", "100000"], 1, "lower --dpi"),
        (["a.log", "--format", "gif"], 2, "png, svg, pdf or chrome"),
        (["a.log", "--output", "no/such/folder.png"], 1, "cannot write"),
        (["a.log", "--output", "no/such/folder.json"], 1, "cannot write"),
        (["a.log", "--output", "no/such/folder.json.gz"], 1, "cannot write"),
        (["a.log", "--output", "no/such/folder.svg"], 1, "cannot write"),
        (["a.log", "--output", "picture.gif"], 2, "picture.gif ends with none of .png, .svg, .pdf, .json and .json.gz"),
        (["a.log", "--output", "picture"], 2, "picture ends with none of .png, .svg, .pdf, .json and .json.gz"),
        (["a.log", "--output", "of.png/picture"], 2, "of.png/picture ends with none of .png, .svg, .pdf, .json and .json.gz"),
        (["a.log", "--arrows", "some"], 2, "batches, all or none"),
        (["a.log", "--from", "x"], 2, "not a number"),
        (["a.log", "--to", "-1"], 2, "not a number"),
        (["a.log", "--from", "5", "--to", "2"], 2, "--from 5 is after --to 2"),
        (["a.log", "--colour"], 2, "--help"),
    ]:
        assert message in visualize(*arguments, status=status, cwd=tmp_path).stderr, arguments
