"""Progress of long waits: a line in a terminal, nothing elsewhere; and what Ctrl-C says."""

import pathlib
import shlex
import sys

import pytest
from support import HELD, until
from terminal import Terminal

import gt

WAITS = """
import os, pathlib, sys
import gt
go = pathlib.Path(os.environ["HELD"]) / "go"
a = gt.ones(64, 64)
b = a @ a
for _ in range(6000):
    b = b + 1
try:
    print("value", b.numpy()[0, 0])
except KeyboardInterrupt as error:
    print("caught:", error)
    go.touch()
    print("then", b.numpy()[0, 0], (a + 1).sum().item())
print("line after it")
"""


class Waiting:
    """The program in a terminal, inside the product; finish() lets that end."""

    def __init__(self, programs, name, redirect="", before="", width=160, **environment):
        self.folder = programs.directory / name
        self.folder.mkdir()
        (self.folder / "gt_engine_held.py").write_text(HELD)
        (self.folder / "waits.py").write_text(before + WAITS)
        package = pathlib.Path(gt.__file__).absolute().parents[1]
        command = f"cd {shlex.quote(str(self.folder))}; {shlex.quote(sys.executable)} waits.py {redirect}"
        self.terminal = Terminal(command, programs.directory, programs.runtime, width=width, HELD=self.folder, GT_BACKEND="held",
                                 GT_AUTO_COMPILE=0, PYTHONPATH=f"{self.folder}:{package}", **environment)
        self.shows, self.keys = self.terminal.shows, self.terminal.keys

    def begun(self):
        until((self.folder / "began").exists, "the product")
        return self

    def finish(self):
        (self.folder / "go").touch()
        return self.shows("ended:0", "the end")


@pytest.fixture
def waiting(programs):
    """Start the program: waiting(name, ...); all end with the test."""
    started = []

    def start(*arguments, **options):
        started.append(Waiting(programs, *arguments, **options))
        return started[-1]

    yield start
    for each in started:
        (each.folder / "go").touch()
        each.terminal.end()


def test_a_long_wait_shows_a_line_that_goes_away(waiting):
    shown = waiting("shown")
    line = shown.shows(lambda text: "matmul for" in text, "progress").splitlines()[0]
    assert line.startswith("gt: ") and " s for the value of a float32 tensor of shape (64,64): " in line, line
    assert "instructions left, auto_worker: matmul for" in line and "waits.py:6" in line, line
    assert int(line.split(" instructions left")[0].split()[-1]) >= 6000, line  # most wait in the client's ring
    seconds = lambda text: float(text.split("matmul for ")[1].split()[0]) if "matmul for " in text else 0
    shown.shows(lambda text: seconds(text) > seconds(line) and text.count("gt: ") == 1, "the same line, with other numbers")
    screen = shown.finish()
    assert screen.splitlines()[:2] == ["value 6064.0", "line after it"], screen


def test_eighty_columns_have_what_runs_now(waiting):
    line = waiting("narrow", width=80).shows(lambda text: "matmul for" in text, "progress").splitlines()[0]
    assert "instructions left, auto_worker: matmul for" in line, line


def test_interrupting_says_what_was_waited_for_and_the_client_goes_on(waiting):
    shown = waiting("interrupted").begun()
    shown.shows("gt: ", "progress")
    shown.keys("C-c")
    screen = shown.shows("ended:0", "the end").replace("\n", " ")
    assert "caught: interrupted while waiting for the value of a float32 tensor of shape (64,64): " in screen, screen
    assert "instructions left, auto_worker: matmul for" in screen, screen
    assert "then 6064.0 8192.0" in screen, screen


def test_silent_where_nobody_wants_it(waiting):
    """A program that shows progress is the clock: the silent ones began to wait before it."""
    silent = [
        waiting("variable", GT_PROGRESS=0),
        waiting("call", before="import gt; gt.debug.progress(False)\n"),
        waiting("file", redirect="2> errors"),
        waiting("notebook", before="import io, sys; sys.stderr = io.StringIO()\n"),
    ]
    for each in silent:
        each.begun()
    waiting("clock").shows("gt: ", "progress")
    for each in silent:
        screen = each.finish()
        assert screen.splitlines()[:2] == ["value 6064.0", "line after it"] and "gt: " not in screen, screen
    assert (silent[2].folder / "errors").read_text() == ""


def test_progress_says_what_it_was():
    before = gt.debug.progress(False)
    assert gt.debug.progress(True) is False
    assert gt.debug.progress(before) is True
