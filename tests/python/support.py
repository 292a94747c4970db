"""Shared by the Python tests: values and comparison against PyTorch, and processes that always end.

Read next: conftest.py (the fixtures made from this), then test_ops_table.py (the walk over the op table).
"""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import textwrap
import time

import numpy as np
import torch

import gt

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
GT_BINARY = os.environ.get("GT_BIN") or str(REPOSITORY / "build" / "gt")

# The limit of every wait in the suite.
PATIENCE_S = float(os.environ.get("GT_TEST_PATIENCE", "30"))
# `make test-long`: all of what `make test` has a cut of.
LONG = os.environ.get("GT_TEST_LONG") == "1"

INTEGERS = ["uint8", "int8", "int16", "int32", "int64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
DTYPES = ["bool"] + INTEGERS + FLOATS

# An engine on which a matrix product begins, and lasts until a file appears.
HELD = """
import os, pathlib, time
import numpy as np
import gt

class Engine(gt.engines.Engine):
    def matmul(self, out, a, b):
        folder = pathlib.Path(os.environ["HELD"])
        (folder / "began").touch()
        while not (folder / "go").exists():
            time.sleep(0.001)
        return np.matmul(a, b)
"""

# (relative, absolute). A half result may differ by one unit in the last place: both sides round a float32 once.
TOLERANCE = {
    "float64": (1e-11, 1e-12),
    "float32": (1e-5, 1e-6),
    "float16": (2e-3, 1e-4),
    "bfloat16": (1.6e-2, 1e-4),
}


# ---- dtypes and conversion ------------------------------------------------------------------------------------


def torch_dtype(name):
    return getattr(torch, name)


def gt_dtype(name):
    return getattr(gt, name)


def dtype_name(dtype):
    """'float32' for gt.float32 and torch.float32."""
    return str(dtype).rpartition(".")[2]


def torch_promotion(*dtypes):
    """PyTorch's promoted dtype."""
    result = dtypes[0]
    for dtype in dtypes[1:]:
        result = torch.promote_types(result, dtype)
    return result


def placed(t):
    """The placement of test tensors; test_sharded_table.py replaces this to spread them."""
    return t


def to_gt(x):
    """A GT tensor with the values and dtype of a torch tensor. NumPy has no bfloat16: it goes through float32."""
    if x.dtype == torch.bfloat16:
        return placed(gt.from_numpy(x.float().contiguous().numpy()).to(gt.bfloat16))
    return placed(gt.from_numpy(np.ascontiguousarray(x.detach().numpy()).reshape(tuple(x.shape))))


def to_torch(t):
    if dtype_name(t.dtype) == "bfloat16":
        return torch.from_numpy(np.array(t.detach().to(gt.float32).numpy())).to(torch.bfloat16)
    return torch.from_numpy(np.array(t.detach().numpy()))


def pair(x):
    """(the GT tensor, the torch tensor) with the same values."""
    return to_gt(x), x


def values(shape, dtype, seed=0, low=-5, high=6, scale=2.0):
    """Repeatable torch values of a dtype: small integers (none negative in uint8), normal floats, coin flips."""
    generator = torch.Generator().manual_seed(seed + 1000 * len(shape))
    name = dtype_name(dtype)
    kind = torch_dtype(name)
    if name == "bool":
        return torch.randint(0, 2, tuple(shape), generator=generator).to(kind)
    if name in INTEGERS:
        low = max(low, 0) if name == "uint8" else low
        return torch.randint(low, high, tuple(shape), generator=generator).to(kind)
    return (torch.randn(tuple(shape), generator=generator, dtype=torch.float64) * scale).to(kind)


# ---- comparison -----------------------------------------------------------------------------------------------


def difference(actual, expected, rtol=None, atol=None, check_dtype=True):
    """Why a GT tensor is not the torch tensor (or NumPy array) expected; None if it is."""
    if isinstance(expected, np.ndarray) or np.isscalar(expected):
        expected = torch.from_numpy(np.array(expected))
    if not isinstance(actual, gt.Tensor):
        return f"not a gt.Tensor but {type(actual).__name__}: {actual!r}"
    if tuple(actual.shape) != tuple(expected.shape):
        return f"shape {tuple(actual.shape)}, expected {tuple(expected.shape)}"
    name = dtype_name(actual.dtype)
    if check_dtype and name != dtype_name(expected.dtype):
        return f"dtype {name}, expected {dtype_name(expected.dtype)}"
    got = to_torch(actual)
    if tuple(got.shape) != tuple(expected.shape):
        return f"fetched shape {tuple(got.shape)}, but .shape is {tuple(actual.shape)}"
    if expected.is_floating_point() or got.is_floating_point():
        default_rtol, default_atol = TOLERANCE.get(dtype_name(expected.dtype), TOLERANCE["float32"])
        got, expected = got.double(), expected.double()
        rtol = default_rtol if rtol is None else rtol
        atol = default_atol if atol is None else atol
        finite = torch.isfinite(expected)
        bound = torch.where(finite, atol + rtol * expected.abs(), torch.zeros_like(expected))
        close = (got == expected) | (got.isnan() & expected.isnan()) | (finite & ((got - expected).abs() <= bound))
    else:
        close = got == expected
    if bool(close.all()):
        return None
    wrong = (~close).nonzero()
    where = tuple(wrong[0].tolist())
    return (
        f"{len(wrong)} of {expected.numel()} elements differ, the first at {list(where)}: "
        f"{got[where].item()!r}, expected {expected[where].item()!r}"
    )


def check(actual, expected, what="result", **options):
    """Fail with `what` unless the GT tensor is the expected one: shape, dtype, values."""
    problem = difference(actual, expected, **options)
    assert problem is None, f"{what}: {problem}"


class Collector:
    """Runs many small cases in one test and reports every failing one by name."""

    def __init__(self, limit=10):
        self.problems, self.cases, self.limit = [], 0, limit

    def same(self, what, actual, expected, **options):
        """`actual` is a function, so that an exception is reported with its case too."""
        self.cases += 1
        try:
            problem = difference(actual(), expected, **options)
        except Exception as error:  # any exception is a failure of this case
            problem = f"{type(error).__name__}: {error}"
        if problem:
            self.problems.append(f"{what}: {problem}")

    def true(self, what, condition):
        self.cases += 1
        if not condition:
            self.problems.append(what)

    def finish(self):
        assert self.cases, "no case was run"
        shown = "\n  ".join(self.problems[: self.limit])
        assert not self.problems, f"{len(self.problems)} of {self.cases} cases failed:\n  {shown}"


def raises(kinds, function, *words):
    """The message of the exception `function` must raise; every word must be in it."""
    try:
        result = function()
    except kinds as error:
        text = str(error)
        for word in words:
            assert word in text, f"{word!r} is not in the message: {text!r}"
        assert text, f"{type(error).__name__} without a message"
        return text
    raise AssertionError(f"no exception, but {result!r}")


# ---- processes ------------------------------------------------------------------------------------------------


def until(condition, what, patience_s=PATIENCE_S):
    """Poll until condition() is true and return its value; fail, naming `what`, when it takes too long."""
    deadline = time.monotonic() + patience_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"waited {patience_s:.0f} s for {what}"
        time.sleep(0.01)


def clean_environment(runtime=None, **extra):
    """This process's environment without GT_ settings, able to import the gt under test. The engine under test stays."""
    kept = ("GT_BACKEND", "GT_ENGINE_PATH")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GT_") or key in kept}
    package = str(pathlib.Path(gt.__file__).absolute().parents[1])
    environment["PYTHONPATH"] = os.pathsep.join([package, *filter(None, [environment.get("PYTHONPATH")])])
    environment.setdefault("OPENBLAS_NUM_THREADS", "1")
    if runtime is not None:
        environment["XDG_RUNTIME_DIR"] = str(runtime)
    environment.update({key: str(value) for key, value in extra.items()})
    return environment


class Process:
    """A child in its own process group, with its output in files; always ended, by its own pid."""

    def __init__(self, arguments, directory, name, environment):
        self.name = name
        self.arguments = [str(argument) for argument in arguments]
        self.output = pathlib.Path(directory) / f"{name}.out"
        self.errors = pathlib.Path(directory) / f"{name}.err"
        with open(self.output, "wb") as out, open(self.errors, "wb") as err:
            self.popen = subprocess.Popen(
                self.arguments,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=environment,
                start_new_session=True,
            )
        self.pid = self.popen.pid

    @property
    def alive(self):
        return self.popen.poll() is None

    def text(self):
        return f"{self.output.read_text(errors='replace')}{self.errors.read_text(errors='replace')}"

    def signal(self, number):
        if self.alive:
            self.popen.send_signal(number)

    def wait(self, patience_s=PATIENCE_S):
        """The exit status; a child that does not end in time is killed and reported with its output."""
        try:
            return self.popen.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
            raise AssertionError(f"{self.name} did not end within {patience_s:.0f} s:\n{self.text()}") from None

    def kill(self):
        self.signal(signal.SIGKILL)
        self.popen.wait()

    def end(self):
        """Terminate, wait a little, then kill."""
        if self.alive:
            self.popen.terminate()
            try:
                self.popen.wait(5)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()


class Programs:
    """Starts servers, workers and Python programs for one test, in a runtime directory of its own."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        # Unix socket paths are short (108 bytes): pytest's own directories may be too deep.
        self.runtime = pathlib.Path(directory) / "run"
        self.runtime.mkdir(mode=0o700)
        self.processes = []

    def start(self, arguments, name, **environment):
        process = Process(
            arguments,
            self.directory,
            f"{len(self.processes)}-{name}",
            clean_environment(self.runtime, **environment),
        )
        self.processes.append(process)
        return process

    def server(self, *options, python=False, **environment):
        """Start a server and wait until it is ready; .port is its port."""
        port_file = self.directory / f"port-{len(self.processes)}"
        program = [sys.executable, "-m", "gt.server"] if python else [GT_BINARY, "server"]
        server = self.start([*program, "-p", 0, "--port-file", port_file, *options], "server", **environment)

        def bound():
            assert server.alive, f"the server ended with {server.popen.returncode}:\n{server.text()}"
            return port_file.exists() and port_file.read_text().strip()

        server.port = int(until(bound, "the server's port"))
        return server

    def worker(self, port, *options, python=False, host="localhost", **environment):
        program = [sys.executable, "-m", "gt.worker"] if python else [GT_BINARY, "worker"]
        return self.start([*program, "--host", host, "-p", port, *options], "worker", **environment)

    def cluster(self, workers=1, worker_options=(), **options):
        server = self.server(**options)
        server.workers = [self.worker(server.port, *worker_options) for _ in range(workers)]
        return server

    def python(self, source, *arguments, name="program", **environment):
        """A Python program given as text; not waited for."""
        path = self.directory / f"{len(self.processes)}-{name}.py"
        path.write_text(textwrap.dedent(source))
        return self.start([sys.executable, path, *arguments], name, **environment)

    def run(self, source, *arguments, status=0, patience_s=PATIENCE_S, **environment):
        """Run a Python program to its end and return what it printed; its exit status must be `status`."""
        process = self.python(source, *arguments, **environment)
        ended = process.wait(patience_s)
        assert ended == status, f"the program ended with {ended}, expected {status}:\n{process.text()}"
        return process.output.read_text()

    def runtime_entries(self):
        """Files left in the runtime directory."""
        return sorted(str(path.relative_to(self.runtime)) for path in self.runtime.rglob("*") if not path.is_dir())

    def end(self):
        for process in reversed(self.processes):
            process.end()


def free_port():
    """A free port. Only for tests of refused connections: another program may take it at any time."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def in_process_group(group):
    """Processes of this group that still live (zombies excluded)."""
    living = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(fields[2]) == group and fields[0] not in "ZX":
            living.append(int(entry.name))
    return living
