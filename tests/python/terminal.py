"""A real terminal for a test: a tmux server that runs a program, takes keys and returns the screen."""

import os
import shutil
import subprocess

from support import PATIENCE_S, clean_environment, until


class Terminal:
    """Runs a command line; when it ends, the screen says `ended:STATUS`."""

    def __init__(self, command, directory, runtime, width=110, height=24, **environment):
        assert shutil.which("tmux"), "tmux is missing; tools/setup test installs it"
        self.name = f"gt-{os.getpid()}-{id(self):x}"
        configuration = directory / f"{self.name}.conf"
        configuration.write_text('set -g default-terminal "screen-256color"\nset -g status off\n')
        self.environment = clean_environment(runtime, TMUX_TMPDIR=directory, **environment)
        for name in ("TMUX", "COLUMNS", "LINES"):  # of the terminal in which the tests run
            self.environment.pop(name, None)
        self.configuration = configuration
        script = f"{command}; echo ended:$?; exec cat"
        self.tmux("new-session", "-d", "-x", width, "-y", height, script)

    def tmux(self, *arguments):
        return subprocess.run(
            ["tmux", "-L", self.name, "-f", str(self.configuration), *map(str, arguments)],
            env=self.environment,
            check=True,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        ).stdout

    def screen(self, colours=False):
        return self.tmux("capture-pane", "-p", *(["-e"] if colours else []))

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def resize(self, width, height):
        self.tmux("resize-window", "-x", width, "-y", height)

    def shows(self, condition, what):
        """Wait until the screen satisfies a condition (a text in it, or a function of it); the screen."""
        test = condition if callable(condition) else lambda screen: condition in screen
        last = None

        def look():
            nonlocal last
            last = self.screen()
            return last if test(last) else None

        try:
            return until(look, what)
        except AssertionError as error:
            raise AssertionError(f"{error}; the screen:\n{last}") from None

    def end(self):
        subprocess.run(["tmux", "-L", self.name, "kill-server"], env=self.environment, capture_output=True)
