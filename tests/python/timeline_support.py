"""For the tests of gt visualize: run it, and read what it wrote."""

import json
import re
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest

from log_maker import Log
from support import GT_BINARY, PATIENCE_S, clean_environment


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
