"""gt visualize: what the pictures show, compared with what the log says.

--dump-layout prints what is drawn and where. The PNG's pixels and the SVG's shapes are compared with that, so the
picture itself is tested. log_maker.py writes the logs.
"""

import collections
import gzip
import json
import re
import struct
import subprocess
import sys
import xml.etree.ElementTree
import zlib

import numpy as np
import pytest

from log_maker import Log, simulate
from support import GT_BINARY, PATIENCE_S, clean_environment

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


def visualize(*arguments, status=0, python=False, cwd=None):
    program = [sys.executable, "-m", "gt.scripts.visualize"] if python else [GT_BINARY, "visualize"]
    ended = subprocess.run(
        [*program, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=4 * PATIENCE_S,
        env=clean_environment(),
    )
    assert (
        ended.returncode == status
    ), f"status {ended.returncode}, expected {status}:\n{ended.stdout}{ended.stderr}"
    return ended


def draw(log, directory, *options, name="log"):
    """The layout of a log's picture (a PNG unless the options say otherwise), and where the log lies."""
    path = directory / f"{name}.txt"
    path.write_text(log if isinstance(log, str) else log.text())
    ended = visualize(path, "--output", directory / f"{name}.png", *options, "--dump-layout")
    return json.loads(ended.stdout)


def operation(details):
    found = re.search(r"\bop=(\S+)", details)
    return found and found.group(1)


def read_png(path):
    """The pixels of an 8-bit RGB PNG, as (height, width, 3)."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, compressed = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + length]
        at += 12 + length
        if kind == b"IHDR":
            width, height, depth, colours, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            assert (depth, colours, interlaced) == (8, 2, 0)
        elif kind == b"IDAT":
            compressed += body
    rows = np.frombuffer(zlib.decompress(compressed), np.uint8).reshape(height, 1 + 3 * width)
    pixels = np.zeros((height + 1, width + 1, 3), np.int32)  # a zero row above and a zero column to the left
    for y in range(height):
        kind, row = rows[y, 0], rows[y, 1:].reshape(width, 3).astype(np.int32)
        above = pixels[y, 1:]
        if kind == 0:
            pixels[y + 1, 1:] = row
        elif kind == 1:
            pixels[y + 1, 1:] = np.cumsum(row, 0) & 255
        elif kind == 2:
            pixels[y + 1, 1:] = (row + above) & 255
        else:
            for x in range(width):
                a, b, c = pixels[y + 1, x], pixels[y, x + 1], pixels[y, x]
                if kind == 3:
                    guess = (a + b) // 2
                else:
                    pa, pb, pc = abs(b - c), abs(a - c), abs(a + b - 2 * c)
                    guess = np.where((pa <= pb) & (pa <= pc), a, np.where(pb <= pc, b, c))
                pixels[y + 1, x + 1] = (row[x] + guess) & 255
    return pixels[1:, 1:]


def rgb(colour):
    return tuple(int(colour[k : k + 2], 16) for k in (1, 3, 5))


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
    slices = collections.defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] != "M":
            assert (event["pid"], event["tid"]) in named["thread_name"] and (event["pid"], 0) in named["process_name"], event
        if event["ph"] == "X":
            assert event["dur"] >= 0
            slices[event["pid"], event["tid"]].append((round(event["ts"] * 1000), round((event["ts"] + event["dur"]) * 1000)))
        if event["ph"] == "i":
            assert event["s"] in "gpt"
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
        assert any(start <= at <= end for start, end in slices[event["pid"], event["tid"]]), "a flow outside of slices"
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
    assert threads == {"dispatcher", "train.py:4711 (client 1)", "a"}
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
    phases = check_trace(chrome_trace(log, tmp_path))
    assert sum(event["cat"] == "UnaryOp" for event in phases["X"]) == 8
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
    assert "no events between" in visualize(tmp_path / "log.txt", "--from", 1e6, status=1).stderr


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
        (["a.log", "--arrows", "some"], 2, "batches, all or none"),
        (["a.log", "--from", "x"], 2, "not a number"),
        (["a.log", "--to", "-1"], 2, "not a number"),
        (["a.log", "--colour"], 2, "--help"),
    ]:
        assert message in visualize(*arguments, status=status, cwd=tmp_path).stderr, arguments


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


@pytest.fixture
def collective(tmp_path):
    """Three workers that arrive at an all-reduce at 10, 30 and 50 ms; all leave it at 60 ms."""
    log = Log()
    arrivals = {"a": 0.01, "b": 0.03, "c": 0.05}
    for worker in arrivals:
        log.line(0.001, "WORKER_SEND", f"WORKER {worker}", "WorkerAllReduce", 64, "op=all_reduce result=1_5")
    for worker, start in arrivals.items():
        log.line(0.07, "WORKER_RECV", f"WORKER {worker}", "WorkerAllReduce", 16,
                 f"success=True op=all_reduce result=1_5 start={start} duration={0.06 - start:.9f}")
    return arrivals, draw(log, tmp_path), tmp_path


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
