"""A cut of tests/load/load.py: 200 clients at work at once, and 1,000 connections in a storm. `make load` has 1,000 and 10,000."""

import subprocess
import sys

import pytest

from support import PATIENCE_S, REPOSITORY, clean_environment


@pytest.mark.parametrize("links", ["memory", "ipc", "tcp", "memory,ipc,tcp"])
def test_many_clients_work_at_once(links):
    done = subprocess.run(
        [sys.executable, REPOSITORY / "tests" / "load" / "load.py", "--clients", "200", "--connects", "1000", "--links", links],
        capture_output=True, text=True, timeout=4 * PATIENCE_S, env=clean_environment())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing is left over" in done.stdout
