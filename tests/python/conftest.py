"""Fixtures: a runtime directory for the whole run, and programs that end with their test."""

import faulthandler
import os
import shutil
import signal
import sys
import tempfile

import pytest

# Before gt is imported: keep the sockets of this process's embedded server apart from the user's.
RUNTIME = tempfile.mkdtemp(prefix="gt-test-")
os.environ["XDG_RUNTIME_DIR"] = RUNTIME

from support import Programs, PATIENCE_S  # noqa: E402

# A test that hangs is a failure with a stack trace, not a suite that never ends.
TEST_LIMIT_S = 5 * PATIENCE_S


STDERR = []  # a descriptor of standard error that pytest does not capture


@pytest.fixture(autouse=True)
def watchdog():
    faulthandler.dump_traceback_later(TEST_LIMIT_S, exit=True, file=STDERR[0] if STDERR else sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def programs():
    """Real servers, workers and programs; all of them end with the test."""
    directory = tempfile.mkdtemp(prefix="gt-test-")
    started = Programs(directory)
    yield started
    started.end()
    shutil.rmtree(directory, ignore_errors=True)


def pytest_configure(config):
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        STDERR.append(os.dup(2))
    # A background job ignores Ctrl-C, and its children would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if os.environ.get("GT_BACKEND") == "cuda":  # results are compared with those of float32
        from gt.backends import cudnn
        cudnn.allow_tf32 = False
    # torch warns of variances of too few elements, which are tested.
    config.addinivalue_line("filterwarnings", "ignore:.*degrees of freedom is <= 0:UserWarning")


# Files of few tests that take long. Of pytest-xdist's processes, one would be busy with them when the others have nothing left.
LONG_FILES = ["test_engines", "test_server", "test_recovery", "test_torch_compile", "test_http", "test_visualize", "test_types", "test_examples",
              "test_python_engines", "test_op_database", "test_alias_programs", "test_training", "test_sharding", "test_random_programs"]


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: LONG_FILES.index(item.path.stem) if item.path.stem in LONG_FILES else len(LONG_FILES))


def pytest_unconfigure(config):
    shutil.rmtree(RUNTIME, ignore_errors=True)


@pytest.fixture
def own_signals():
    """Signals that the test registers have no effect on those that follow."""
    import gt
    before = gt.get_config()
    yield
    for name in gt.get_config():
        gt.register_config(name, before.get(name, gt.SignalConfig()))


@pytest.fixture
def workers():
    """workers(n): this thread uses an embedded server of n workers until the test ends."""
    from gt import _gt
    opened = []

    def open(count):
        opened.append(_gt.open_embedded(count))
        _gt.use(opened[-1])

    yield open
    _gt.use(None)
    for connection in opened:
        connection.close()
