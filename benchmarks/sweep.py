"""Eager kernels against PyTorch: ops x shape classes x dtypes, in one run: `make bench-sweep`, or sweep.py --help.

Prints GT's time over PyTorch's for every cell, then the median, and each cell above the limit with the reason that REASONS has for
it. The exit status is 1 if a cell above the limit has no reason, or could not be measured. sweep_works.py has the work, README.md
says how it is measured.
"""
import argparse
import contextlib
import json
import pathlib
import re
import statistics
import sys
import time

import sweep_works
from bench import calibrate, compare_checks
from processes import Child, Failure
from report import processor, quantity

LIMIT, MEDIAN = 1.1, 0.65
ROUNDS, ROUND_SECONDS, SETTLE_SECONDS = 7, 0.008, 0.005

# Cells that may be above the limit, as regular expressions of "op/class/dtype", and why.
ELEMENTWISE = "(add|mul|maximum|lt|div|add row|add column|abs|neg|exp|tanh|sqrt|where|to [a-z]+[0-9]+)"
REASONS = {
    f"{ELEMENTWISE}/strided/.*": "PyTorch's result keeps the operands' transposed layout; GT's is contiguous, so it is transposed",
    "(cumsum|cumprod)/strided/.*": "PyTorch's result keeps the operand's transposed layout; GT's is contiguous",
    "(mul|maximum|div|sqrt|abs|neg)/.*/bfloat16": "widened into tiles of float32 and rounded back; PyTorch does both in registers",
    "add column/.*/(float32|int64)": "in short rows the column is spread into a tile before it is added",
    "(mul|maximum)/middle/(float32|int64)": "the broadcast operand is copied into a tile before it is used",
    "(sum|amax|max with index|argmin|argmax)/(short rows|many rows|odd sizes)/int64":
        "short rows are transposed into a tile, two 64-bit integers at a time",
    "(amax|amin|max with index)/odd sizes/float32": "67 elements: a third of the time is the end of the row, lane by lane",
    "max with index/.*": "two passes: the maximum, and its position",
    "(sum0|amax0)/(short rows|few rows|middle)/.*": "narrow columns: partial results are merged in double precision",
    "sum/middle/bfloat16": "widened into tiles of float32 first",
    "(softmax0/long rows|norm/long rows|cumsum0/many rows)/bfloat16": "widened and rounded in tiles, a pass more than in PyTorch",
    "cumsum/(few rows|long rows|many rows)/.*":
        "sums in double precision through tiles; few rows are summed twice, so that all cores take part in one row",
    "(cumsum|cumprod)/short rows/int64": "bound by memory: 8 bytes in and 8 bytes out for one addition",
    "cumprod/few rows/bfloat16": "three rows: fewer than advance together, and a product must not be cut into segments",
    "(matrix @ vector)/strided/bfloat16": "the matrix is widened to float32 for OpenBLAS; PyTorch multiplies bfloat16 directly",
    "vector @ matrix/short rows/float32": "OpenBLAS's product of a vector and a matrix of 16 columns",
    "(gather|index_add|cat)/.*/int64": "bound by memory: 8-byte elements and indices",
    "(topk|sort)/(short rows|odd sizes)/.*": "each short row is selected or sorted on its own, in general code; not tuned",
    "layer_norm/short rows/.*": "each short row is normalised on its own; not tuned",
}


def reason_for(cell):
    return next((reason for pattern, reason in REASONS.items() if re.fullmatch(pattern, cell)), None)


class Sides:
    """GT, and PyTorch on all cores and on one: the faster of the two counts. `cpu`: processor time, one thread each."""

    def __init__(self, stack, cpu):
        # Compiled loops would leave out the ops to be measured.
        settings = {"GT_AUTO_COMPILE": "0", **({"GT_NUM_THREADS": "1"} if cpu else {})}
        names = ("torch on one thread",) if cpu else ("torch on one thread", "torch")
        self.cpu = cpu
        self.gt = stack.enter_context(Child("gt", **settings))
        self.torch = {name: stack.enter_context(Child(name)) for name in names}

    def run(self, child, count):
        return child("run", count=count, cpu=self.cpu)

    def faster_torch(self, count):
        """The PyTorch process that does the prepared work faster."""
        return min(self.torch.values(), key=lambda child: min(self.run(child, count) for _ in range(3)))


def measure(sides, cell):
    """Seconds of one repetition, (GT, PyTorch). Rounds alternate, and the lower quartile counts: the machine may be busy."""
    children = {"gt": sides.gt, **sides.torch}
    checks = {name: child("prepare", work=cell) for name, child in children.items()}
    compare_checks(checks, 1e-2 if cell.endswith("bfloat16") else 1e-3)
    one_thread = sides.torch["torch on one thread"]
    sides.run(one_thread, 2)
    count = calibrate(one_thread, ROUND_SECONDS)
    pair = (sides.gt, sides.faster_torch(count))
    times = ([], [])
    sides.run(sides.gt, count)
    for _ in range(ROUNDS):
        for child, values in zip(pair, times):
            time.sleep(0 if sides.cpu else SETTLE_SECONDS)
            values.append(sides.run(child, count) / count)
    return tuple(statistics.quantiles(values, n=4)[0] for values in times)


def cells(pattern):
    wanted = re.compile(pattern or "")
    for name, (_, dtypes, classes) in sweep_works.OPS.items():
        for dtype in dtypes:
            for kind in classes:
                if wanted.search(f"{name}/{kind}/{dtype}"):
                    yield name, kind, dtype


def print_line(name, dtype, ratios):
    line = "".join(f"{ratios[kind]:11.2f}" if ratios.get(kind) else f"{'-':>11}" for kind in sweep_works.CLASSES)
    print(f"{name:16} {dtype:9}{line}", flush=True)


def run(sides, pattern):
    """Measure and print all cells; returns {cell: (GT's seconds, PyTorch's)} and {cell: error}."""
    print(f"{'GT / torch':26}" + "".join(f"{kind:>11}" for kind in sweep_works.CLASSES))
    results, errors, line, ratios = {}, {}, None, {}
    for name, kind, dtype in cells(pattern):
        if line and line != (name, dtype):
            print_line(*line, ratios)
            ratios = {}
        line, cell = (name, dtype), f"{name}/{kind}/{dtype}"
        try:
            results[cell] = measure(sides, cell)
            ratios[kind] = results[cell][0] / results[cell][1]
        except Failure as failure:
            errors[cell] = str(failure)
    if line:
        print_line(*line, ratios)
    return results, errors


def summarise(results, errors):
    """Print the summary; returns the number of cells that are above the limit without a reason."""
    ratios = {cell: ours / theirs for cell, (ours, theirs) in results.items()}
    above = sorted((cell for cell in ratios if ratios[cell] > LIMIT), key=ratios.get, reverse=True)
    if ratios:
        print(f"\n{len(ratios)} cells, median {statistics.median(ratios.values()):.2f} (goal {MEDIAN}), "
              f"{len(above)} above {LIMIT}")
    for cell in above:
        ours, theirs = results[cell]
        print(f"  {ratios[cell]:5.2f}  {cell} ({quantity(ours, 's')} against {quantity(theirs, 's')}): "
              f"{reason_for(cell) or 'NO REASON KNOWN'}")
    for cell, error in errors.items():
        print(f"  failed: {cell}: {error}")
    return sum(reason_for(cell) is None for cell in above)


def main():
    parser = argparse.ArgumentParser(description="Measure GT's eager kernels against PyTorch.")
    parser.add_argument("--only", metavar="PATTERN", help='only cells "op/class/dtype" matching this regular expression')
    parser.add_argument("--json", metavar="PATH", type=pathlib.Path, help="write the times here, too")
    parser.add_argument("--cpu", action="store_true", help="processor time on one thread each, for a busy machine")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        sides = Sides(stack, arguments.cpu)
        how = "processor time, one thread each" if arguments.cpu else "the faster of all cores and one thread"
        print(f"{processor()}; torch {sides.torch['torch on one thread']('version')}: {how}")
        results, errors = run(sides, arguments.only)
    unexplained = summarise(results, errors)
    if arguments.json:
        arguments.json.write_text(json.dumps({"seconds": results, "errors": errors}, indent=1))
    return 1 if unexplained or errors else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
