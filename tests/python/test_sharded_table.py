"""Every row of the op table on every placement: the checks of test_ops_table.py, with operands that are spread over workers.

Each operand is placed by one of a handful of signals, in turn, so that an op meets split, replicated, single and home tensors in
all combinations; with `split` in the name, results are asked for in parts, too.
"""

import itertools

import pytest

import gt
import support
from gt import _gt
from support import DTYPES, Collector
from test_ops_table import CHECKS, ELEMENTWISE_AND_REDUCTIONS, ROWS

# By the rank of a tensor: what it may be placed by.
SIGNALS = {
    "first": (0, [2, 0, 1], False),
    "second": (1, [0, 1], False),
    "third": (2, [1, 2, 0], False),
    "last": (-1, [0, 1, 2], False),
    "whole": (None, [1, 0], True),
    "there": (None, [1], False),
}
FITTING = {0: ["whole", "there"], 1: ["first", "last", "whole"], 2: ["first", "second", "last", "whole", "there", "first", "second"]}
ANY = ["first", "second", "third", "last", "whole", "second", "third", "first"]


@pytest.fixture(scope="module")
def three_workers():
    connection = _gt.open_embedded(3)
    for name, (axis, workers, replicated) in SIGNALS.items():
        gt.register_config(name, gt.SignalConfig(gt.ShardConfig(axis, workers, replicated)))
    yield connection
    connection.close()


def placer(start):
    turn = itertools.count(start)

    def place(t):
        fitting = FITTING.get(len(t.shape), ANY)
        return gt.signal.tensor(t, name=fitting[next(turn) % len(fitting)])

    return place


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ROWS)
def test_row(three_workers, monkeypatch, name, dtype):
    _, form, types, _ = ROWS[name]
    checker = CHECKS.get(name) or ELEMENTWISE_AND_REDUCTIONS.get(form)
    _gt.use(three_workers)
    monkeypatch.setattr(support, "placed", placer(DTYPES.index(dtype)))
    cases = Collector()
    try:
        checker(name, types, dtype, cases)
    finally:
        _gt.use(None)
    cases.finish()
