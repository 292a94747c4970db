"""Fixtures of the test bed. `make test-cluster` runs all tests, `make test` those with the mark `usual`."""
import faulthandler
import os
import shutil
import sys
import tempfile

import pytest

os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())

from bed import Bed, Cluster, NotPermitted, PATIENCE_S  # noqa: E402

TEST_LIMIT_S = 5 * PATIENCE_S


@pytest.fixture(autouse=True)
def watchdog():
    faulthandler.dump_traceback_later(TEST_LIMIT_S, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()


def pytest_configure(config):
    config.addinivalue_line("markers", "usual: runs in `make test`, too")


@pytest.fixture
def bed():
    """bed(hosts): a Bed. Without the right to make one, the test is skipped."""
    opened = []

    def make(hosts):
        try:
            opened.append(Bed(hosts).__enter__())
        except NotPermitted as reason:
            pytest.skip(str(reason))
        return opened[-1]

    yield make
    for one in opened:
        one.__exit__()


@pytest.fixture
def cluster(bed):
    """cluster(workers, ...): a Cluster with a host for each worker, one for the server and one for programs."""
    opened, directories = [], []

    def make(workers, **options):
        directories.append(tempfile.mkdtemp(prefix="gt-bed-"))
        opened.append(Cluster(bed(workers + 2), directories[-1], workers, **options).__enter__())
        return opened[-1]

    yield make
    for one in opened:
        one.__exit__()
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)
