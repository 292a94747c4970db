"""GT against PyTorch and NumPy on this machine, in one run: `make bench`, or python benchmarks/bench.py --help.

Prints a table of ratios with their bounds, then figures of GT alone, and writes everything to results.json. README.md
in this folder says how it measures; works.py has the measured work.
"""
import argparse
import contextlib
import dataclasses
import os
import pathlib
import re
import signal
import statistics
import sys
import time

import fairness  # noqa: F401: its figures join those of figures.py
import figures
import hot  # noqa: F401: its figures join those of figures.py
import monitoring  # noqa: F401: its figures join those of figures.py
import recovery  # noqa: F401: its figures, too
import report
import safety  # noqa: F401: its figures, too
import sharding  # noqa: F401: its figures, too
from processes import HERE, Child, Failure, Server


@dataclasses.dataclass
class Row:
    """A line of the table: GT takes at most `bound` of PyTorch's time, or reaches at least `bound` of memcpy's speed."""
    name: str
    work: str
    bound: float
    link: str = "embedded"  # "eager": the same, without hot paths
    count: int = 0         # repetitions per round; 0: calibrate
    of_memcpy: bool = False
    training: bool = False  # no NumPy column


ROWS = [
    Row("async a + b, 8x8, embedded", "small_add", 0.03, count=100_000),
    Row("async a + b, 8x8, other processes, memory", "small_add", 0.06, "memory", count=100_000),
    Row("async a + b, 8x8, other processes, ipc", "small_add", 0.15, "ipc", count=100_000),
    Row("async a + b, 8x8, other processes, tcp", "small_add", 0.15, "tcp", count=100_000),
    Row("async a + 1.0, 8x8, embedded", "small_add_scalar", 0.03, count=100_000),
    Row("(a + b).sum().item(), 8x8, embedded", "small_item", 1.0, count=5_000),
    Row("matmul 1000x1000", "matmul", 1.05, "eager"),
    Row("matmul 32x128x128, batched", "batched_matmul", 1.05, "eager"),
    Row("a + b, 4 M floats", "large_add", 1.0, "eager"),
    Row("exp, 4 M floats", "large_exp", 0.5, "eager"),
    Row("tanh, 4 M floats", "large_tanh", 0.3, "eager"),
    Row("sigmoid, 4 M floats", "large_sigmoid", 0.5, "eager"),
    Row("sum, 4 M floats", "large_sum", 1.0, "eager"),
    Row("row sums, 2048x2048", "row_sums", 1.0, "eager"),
    Row("column sums, 2048x2048", "column_sums", 1.0, "eager"),
    Row("max, sub, exp, sum, div, 4096x1024", "softmax_chain", 1.0, "eager"),
    Row("relu(x * 2 + 1) * x, 4 M floats", "relu_chain", 0.35, training=True),
    Row("gelu(x @ W + b), 512x1024", "gelu_block", 0.85, training=True),
    Row("layer norm, gelu, residual, 4096x1024, forward and backward", "norm_chain", 0.4, training=True),
    Row("AdamW update, 10 M parameters", "adamw_update", 0.4, training=True),
    Row("a + b with requires_grad, 8x8", "small_add_tracked", 0.05, count=100_000, training=True),
    Row("MLP 784-256-10, batch 64, SGD step", "mlp_sgd", 0.48, training=True),
    Row("MLP 784-256-10, batch 64, AdamW step", "mlp_adamw", 0.42, training=True),
    Row("CNN step, 1x28x28, two convolutions, batch 32", "cnn_sgd", 0.28, training=True),
    Row("char-GPT, 4 layers, AdamW step", "char_gpt", 0.62, training=True),
    Row("from_numpy, 64 MiB, embedded", "copy_in", 0.5, of_memcpy=True),
    Row("from_numpy, 64 MiB, other processes, memory", "copy_in", 0.5, "memory", of_memcpy=True),
    Row("numpy(), 64 MiB, embedded", "copy_out", 0.5, of_memcpy=True),
    Row("numpy(), 64 MiB, other processes, memory", "copy_out", 0.5, "memory", of_memcpy=True),
]


@dataclasses.dataclass
class Pace:
    """How long to measure."""
    rounds: int            # alternating rounds per row; the median counts
    round_seconds: float   # approximate duration of a calibrated round
    row_seconds: float     # no further round after this
    settle_seconds: float  # rest between two rounds: idle threads of the last one spin for a while


UNTIL_HOT = 24  # repetitions of a loop after which it runs as a hot path

FULL = Pace(rounds=7, round_seconds=0.1, row_seconds=5, settle_seconds=0.08)
QUICK = Pace(rounds=3, round_seconds=0.03, row_seconds=0.6, settle_seconds=0.02)


class Children:
    """The measuring processes, started on first use: one per library, and one per transport of GT."""

    def __init__(self, stack, program):
        self.stack = stack
        self.program = program
        self.started = {}

    def server(self, transport):
        return self.get(f"{transport} server", lambda: Server(self.program, transport))

    def library(self, name):
        return self.get(name, lambda: Child(name))

    def gt(self, link):
        if link == "embedded":
            return self.get("gt", lambda: Child("gt"))
        if link == "eager":
            return self.get(link, lambda: Child("gt", GT_AUTO_COMPILE="0"))
        return self.get(link, lambda: Child("gt", self.server(link).address()))

    def get(self, key, start):
        if key not in self.started:
            self.started[key] = self.stack.enter_context(start())
        return self.started[key]


def calibrate(child, round_seconds):
    """Repetitions that fill a round."""
    return max(1, min(10_000, round(round_seconds / child("run", count=1))))


def compare_checks(checks, tolerance=1e-3):
    """Fail if the libraries' results differ."""
    for library, check in checks.items():
        if abs(check - checks["gt"]) > tolerance * abs(check):
            raise Failure(f"results differ: gt {checks['gt']:.6g}, {library} {check:.6g}")


def measure(row, children, pace):
    """Median seconds of one repetition, by library: rounds of GT and PyTorch alternate, so a slow moment of the machine hits both.
    NumPy follows: the threads of its OpenBLAS spin for a tenth of a second after their work, as long as the next round."""
    sides = {"gt": children.gt(row.link)}
    for library in ("numpy",) if row.of_memcpy else ("torch",) if row.training else ("torch", "numpy"):
        sides[library] = children.library(library)
    compare_checks({library: child("prepare", work=row.work) for library, child in sides.items()})
    reference = sides["numpy" if row.of_memcpy else "torch"]
    count = row.count or calibrate(reference, pace.round_seconds)
    for library, child in sides.items():
        child("run", count=max(count, UNTIL_HOT) if library == "gt" and row.training else count)

    times = {library: [] for library in sides}
    compared = [library for library in sides if row.of_memcpy or library != "numpy"]
    for group in (compared, [library for library in sides if library not in compared]):
        end = time.monotonic() + pace.row_seconds
        for number in range(pace.rounds if group else 0):
            for library in group:
                time.sleep(pace.settle_seconds)
                times[library].append(sides[library]("run", count=count) / count)
            if number >= 2 and time.monotonic() > end:
                break
    return {library: statistics.median(values) for library, values in times.items()}


def measure_row(row, children, pace):
    """The row as it is printed and stored."""
    line = report.Line(name=row.name, bound=row.bound, at_least=row.of_memcpy)
    try:
        line.seconds = measure(row, children, pace)
    except Failure as failure:
        line.error = str(failure)
        return line
    seconds = line.seconds
    line.value = seconds["numpy"] / seconds["gt"] if row.of_memcpy else seconds["gt"] / seconds["torch"]
    return line


def parse_arguments():
    parser = argparse.ArgumentParser(description="Measure GT against PyTorch and NumPy.")
    parser.add_argument("--quick", action="store_true", help="half a minute, rougher")
    parser.add_argument("--only", metavar="PATTERN", help="only rows and figures matching this regular expression")
    parser.add_argument("--json", metavar="PATH", type=pathlib.Path, default=HERE / "results.json",
                        help="where the results go (default: results.json beside this file)")
    parser.add_argument("--build", metavar="FOLDER", type=pathlib.Path, default=HERE.parent / "build",
                        help="where the gt program was built (default: build)")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # unwind the stack, which ends our processes
    os.environ.setdefault("GT_BACKEND", "cpu")  # where there is a GPU as well: PyTorch's tensors are on the host here
    wanted = re.compile(arguments.only or "", re.IGNORECASE)
    pace = QUICK if arguments.quick else FULL
    with contextlib.ExitStack() as stack:
        children = Children(stack, arguments.build / "gt")
        try:
            versions = {name: children.library(name)("version") for name in ("gt", "torch", "numpy")}
        except Failure as failure:
            sys.exit(f"bench: {failure}")
        results = report.Report(versions)
        results.print_head()
        for row in ROWS:
            if wanted.search(row.name):
                results.add_row(measure_row(row, children, pace))
        for name, figure in figures.FIGURES.items():
            if wanted.search(name):
                results.add_figures(figures.measure(name, figure, children, arguments.quick))
    results.print_foot()
    results.write(arguments.json)
    return 1 if results.failed() else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
