"""Ctrl-C in the tools, in a terminal: they end at once, and what comes after them begins a line."""

import fcntl
import os
import pty
import subprocess
import sys
import termios

import pytest
from support import GT_BINARY, PATIENCE_S, clean_environment, until

LOG = "0.000100s | #0001 | CONNECT      | CLIENT 1                    | Connect             |       192B | \n"


class Typed:
    """A program whose terminal is ours: .text is what it has shown."""

    def __init__(self, arguments, environment):
        self.terminal, other = pty.openpty()
        os.set_blocking(self.terminal, False)
        self.popen = subprocess.Popen([*map(str, arguments)], stdin=other, stdout=other, stderr=other, env=environment,
                                      start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(other)
        self.text = ""

    def read(self):
        try:
            while got := os.read(self.terminal, 65536):
                self.text += got.decode()
        except OSError:  # nothing more now, or the program has ended
            pass
        return self.text

    def shows(self, text):
        until(lambda: text in self.read(), f"{text!r} in the terminal")

    def interrupt(self):
        """Type Ctrl-C; the exit status."""
        os.write(self.terminal, b"\x03")
        self.popen.wait(PATIENCE_S)
        until(lambda: "^C" in self.read(), "the terminal shows ^C")
        return self.popen.returncode

    def end(self):
        self.popen.kill()
        self.popen.wait()
        os.close(self.terminal)


@pytest.fixture
def typed(programs):
    started = []

    def start(*arguments):
        started.append(Typed(arguments, clean_environment(programs.runtime)))
        return started[-1]

    yield start
    for each in started:
        each.end()


@pytest.mark.parametrize("program", [[GT_BINARY, "server"], [sys.executable, "-m", "gt.server"]], ids=["gt server", "gt.server"])
def test_a_server(typed, program):
    server = typed(*program, "-p", 0)
    server.shows("listening")
    assert server.interrupt() == 0
    assert server.text.splitlines()[1:] == ["^C"] and server.text.endswith("\n")


def test_following_a_log(typed, tmp_path):
    (tmp_path / "run.log").write_text(LOG)
    log = typed(GT_BINARY, "log", "--follow", tmp_path / "run.log")
    log.shows("192B")
    assert log.interrupt() == 0
    assert log.text.replace("\r", "") == LOG + "^C\n"


def test_a_trace_is_kept(typed, programs, tmp_path):
    server = programs.server()
    trace = typed(GT_BINARY, "trace", "-s", 1000, "-p", server.port, "--dir", tmp_path)
    until(lambda: list(tmp_path.glob("trace_*.log")), "the file of the trace")
    assert trace.interrupt() == 0
    said = trace.text.splitlines()
    assert said[0] == "^C" and said[1].startswith("✓ Trace saved to: ") and len(said) == 4 and trace.text.endswith("\n")


def test_statistics_that_did_not_come(typed, programs):
    """A script does not take an empty answer for one."""
    server = programs.server(GT_VERBOSE=1)
    top = typed(GT_BINARY, "top", "--once", "--interval", 1000, "-p", server.port)
    until(lambda: "connected by" in server.text(), "top is connected")
    assert top.interrupt() == 1
    assert top.text.splitlines() == ["^C", "gt top: interrupted before the statistics came"]
