"""Every row of the op table with its operands on a mesh of workers: test_sharded_table.py, with other signals. A dimension that
does not divide cannot be split along a mesh axis, so each operand gets one of the signals that fit its shape."""

import itertools

import pytest

import gt
import support
from gt import _gt
from support import Collector
from test_ops_table import CHECKS, ELEMENTWISE_AND_REDUCTIONS, FLOATS, NOT_FOR_INTEGERS, OF_FLOATS, ROWS

MESH = {"a": 2, "b": 3}
SPLITS = {"a0": {0: "a"}, "b0": {0: "b"}, "a1": {1: "a"}, "b1": {1: "b"}, "a2": {2: "a"}, "a0b1": {0: "a", 1: "b"},
          "b0a1": {0: "b", 1: "a"}, "a0b2": {0: "a", 2: "b"}, "a1b2": {1: "a", 2: "b"}, "last": {-1: "a"}}
OTHERS = {"line": gt.ShardConfig(0, [2, 0, 1]), "whole": gt.ShardConfig(None, [0, 1, 2, 3, 4, 5], True),
          "there": gt.ShardConfig(None, [1])}


def fits(split, shape):
    return all(-len(shape) <= d < len(shape) and shape[d] % MESH[axis] == 0 for d, axis in split.items())


@pytest.fixture(scope="module")
def six_workers():
    connection = _gt.open_embedded(6)
    for name, split in SPLITS.items():
        gt.register_config(name, gt.SignalConfig(gt.ShardConfig(mesh=MESH, split=split)))
    for name, shard in OTHERS.items():
        gt.register_config(name, gt.SignalConfig(shard))
    yield connection
    connection.close()
    for name in (*SPLITS, *OTHERS):
        gt.register_config(name, gt.SignalConfig())


def placer(start):
    turn = itertools.count(start)

    def place(t):
        fitting = [name for name, split in SPLITS.items() if fits(split, t.shape)] if t.shape else []
        fitting += ["line"] * bool(t.shape) + ["whole", "there"]
        return gt.signal.tensor(t, name=fitting[next(turn) * 7 % len(fitting)])

    return place


# float32, and int64 for every fourth row: the rules do not look at dtypes.
PAIRS = [(name, dtype) for row, name in enumerate(ROWS) for dtype in ("float32", "int64") if dtype == "float32" or row % 4 == 0]


@pytest.mark.parametrize("name, dtype", PAIRS)
def test_row(six_workers, monkeypatch, name, dtype):
    _, form, types, _ = ROWS[name]
    checker = CHECKS.get(name) or ELEMENTWISE_AND_REDUCTIONS.get(form)
    if name in (*OF_FLOATS, *NOT_FOR_INTEGERS) and dtype not in FLOATS:
        return  # refused before anything is sent: test_ops_table.py
    monkeypatch.setattr(support, "placed", placer(len(name)))
    cases = Collector()
    _gt.use(six_workers)
    try:
        checker(name, types, dtype, cases)
    finally:
        _gt.use(None)
    cases.finish()
