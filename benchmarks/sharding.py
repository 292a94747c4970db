"""Gain and cost of several workers. Adds to the figures of figures.py.

Each measurement is a separate program (sharding_child.py) with one BLAS thread per worker, so that two workers on two
cores are compared with one worker on one core.
"""
import json
import os
import subprocess
import sys

from figures import figure
from processes import HERE, Failure
from report import Figure

PATIENCE_S = 600


def measure(work, quick, **environment):
    variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "GT_NUM_THREADS": "1", **environment}
    command = [sys.executable, HERE / "sharding_child.py", work, "quick" if quick else "full"]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=PATIENCE_S)
    if done.returncode:
        raise Failure(f"{work}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


@figure("sharding: data parallel")
def data_parallel(children, quick):
    seconds = measure("data_parallel", quick)
    return [Figure("two workers, data-parallel MLP 4x1024, batch 512", seconds["one"] / seconds["two"], "x", bound=1.7,
                   at_least=True)]


@figure("sharding: pipeline")
def pipeline(children, quick):
    seconds = measure("pipeline", quick)
    return [Figure("two workers, pipelined MLP, 8 micro-batches", seconds["one"] / seconds["two"], "x", bound=1.5,
                   at_least=True)]


@figure("sharding: all-reduce")
def all_reduce(children, quick):
    """Compared with the time to copy the bytes that the algorithm reads and writes."""
    seconds = measure("all_reduce", quick)
    return [
        Figure("all-reduce, 64 MiB over 4 workers", seconds["measured"], "s"),
        Figure("all-reduce, 64 MiB over 4 workers, bound by memory", seconds["bound"], "s"),
        Figure("all-reduce, of what memory allows", seconds["bound"] / seconds["measured"], "x", bound=0.4, at_least=True),
    ]


@figure("sharding: dispatch")
def dispatch(children, quick):
    """With the null engine, which computes nothing: the dispatcher's own work."""
    cost = measure("dispatch_cost", quick, GT_BACKEND="null")
    rate = measure("dispatch_rate", quick, GT_BACKEND="null")
    return [
        Figure("dispatcher, elementwise op on 8 workers", cost["seconds"], "s", bound=2e-6),
        Figure("dispatcher, matmul and relu on 72 workers", rate["rate"], "instr/s", bound=200e3, at_least=True),
        Figure("dispatcher, the same, of its own CPU time", rate["own"], "instr/s"),
    ]
