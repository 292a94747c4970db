"""Every row of the op table on every placement: the checks of test_ops_table.py, with their operands spread over workers.

Operands are placed by these signals in turn, so that an op meets split, replicated and single tensors in all combinations, on workers
in other orders and other numbers. Gradients are tried by the random programs (sharded_programs.py).
"""

import itertools

import pytest

import gt
import support
import table_operands
from gt import _gt
from support import DTYPES, LONG, Collector
from test_ops_table import CHECKS, ELEMENTWISE_AND_REDUCTIONS, FLOATS, NOT_FOR_INTEGERS, OF_FLOATS, ROWS

SIGNALS = {
    "first": gt.ShardConfig(0, [2, 0, 1]),
    "second": gt.ShardConfig(1, [0, 1]),
    "third": gt.ShardConfig(2, [1, 2, 0]),
    "last": gt.ShardConfig(-1, [0, 1, 2]),
    "whole": gt.ShardConfig(None, [1, 0], True),
    "there": gt.ShardConfig(None, [1]),
}
# Signals by rank of the tensor. Seven each, a prime, so that they combine differently with the checks' operands.
ONE = ["first", "last", "whole", "first", "there", "first", "last"]
TWO = ["first", "second", "last", "whole", "first", "second", "there"]
MORE = ["first", "second", "third", "last", "whole", "second", "third"]
FITTING = {0: ["whole", "there"], 1: ONE, 2: TWO}


@pytest.fixture(scope="module")
def three_workers():
    connection = _gt.open_embedded(3)
    for name, shard in SIGNALS.items():
        gt.register_config(name, gt.SignalConfig(shard))
    yield connection
    connection.close()


def placer(start):
    turn = itertools.count(start)

    def place(t):
        fitting = FITTING.get(len(t.shape), MORE)
        return gt.signal.tensor(t, name=fitting[next(turn) % len(fitting)])

    return place


# float32 and about a fifth of the other dtypes, in turn from row to row: the rules of placement do not look at them.
PAIRS = [(name, dtype) for row, name in enumerate(ROWS) for turn, dtype in enumerate(DTYPES)
         if LONG or dtype == "float32" or (row + turn) % 5 == 0]


@pytest.mark.parametrize("name, dtype", PAIRS)
def test_row(three_workers, monkeypatch, name, dtype):
    _, form, types, _ = ROWS[name]
    checker = CHECKS.get(name) or ELEMENTWISE_AND_REDUCTIONS.get(form)
    if name in (*OF_FLOATS, *NOT_FOR_INTEGERS) and dtype not in FLOATS:
        return  # refused before anything is sent: test_ops_table.py
    monkeypatch.setattr(support, "placed", placer(DTYPES.index(dtype)))
    # Each part's sum is rounded to the dtype before the parts are added up.
    monkeypatch.setitem(table_operands.SUM_TOLERANCE, "bfloat16", (3e-2, 1.0))
    monkeypatch.setitem(table_operands.SUM_TOLERANCE, "float16", (4e-3, 1e-1))
    cases = Collector()
    _gt.use(three_workers)
    try:
        checker(name, types, dtype, cases)
    finally:
        _gt.use(None)
    cases.finish()
