"""Hot paths by shape: short rows, short broadcasts and operands that lie by column, against the same steps one by one."""

import numpy as np
import pytest

import gt
from test_hotpath import run

LENGTHS = [*range(2, 41), 64]


def gradient(function, x, g):
    leaf = x.detach().requires_grad_(True)
    (function(leaf) * g).sum().backward()
    return leaf.grad


SHORT_ROWS = {
    "amax": lambda x, g: (x * 2 + 1).amax(1) * 2,
    "amin": lambda x, g: x.amin(1) + 1,
    "sum": lambda x, g: (x * 2).sum(1) + 1,
    "mean": lambda x, g: (x + g).mean(1) * 2,
    "prod": lambda x, g: x.prod(1) + 1,
    "var": lambda x, g: (x * 2 + 1).var(1) + 1,
    "logsumexp": lambda x, g: (x * 2 + 1).logsumexp(1) + 1,
    "any": lambda x, g: (x > 1).any(1).float() + 1,
    "columns": lambda x, g: (x * g).sum(0) + (x + g).amax(0),
    "softmax": lambda x, g: (x * 2 + 1).softmax(-1) * g,
    "log_softmax": lambda x, g: (x * 2 + 1).log_softmax(-1) + g,
    "below the maximum": lambda x, g: (x - x.amax(1, keepdim=True)).exp() * g,
    "softmax's gradient": lambda x, g: gradient(lambda x: x.softmax(-1), x, g),
    "log_softmax's gradient": lambda x, g: gradient(lambda x: x.log_softmax(-1), x, g),
    "layer_norm's gradient": lambda x, g: gradient(lambda x: gt.nn.functional.layer_norm(x, x.shape[1:]), x, g),
}  # fmt: skip
EXACT = ["amax", "amin", "any", "below the maximum"]


def both(function, *operands):
    """What a function gives step by step, and as a path."""
    compiled = gt.compile(function)
    turns = [compiled(*operands).float().numpy() for _ in range(4)]
    assert all(np.array_equal(turns[-1], turn, equal_nan=True) for turn in turns[2:])
    return function(*operands).float().numpy(), turns[-1]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", SHORT_ROWS)
def test_short_rows(name, dtype):
    """Few rows and many; the last tile is not full."""
    for length in LENGTHS if dtype == "float32" else LENGTHS[::7]:
        for rows in (3, 9001 // length):
            x, g = (gt.randn(rows, length).to(getattr(gt, dtype)) for _ in range(2))
            eager, path = both(SHORT_ROWS[name], x, g)
            if name in EXACT:
                np.testing.assert_array_equal(path, eager, err_msg=f"{rows} rows of {length}")
            else:
                close = 1e-4 if dtype == "float32" else 3e-2
                np.testing.assert_allclose(path, eager, rtol=close, atol=close * max(1, np.abs(eager).max()))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "uint8"])
def test_operands_in_another_order(dtype):
    for rows, columns in [(3, 2), (16, 16), (700, 3), (33, 65), (65, 33), (40, 1000), (1000, 40), (5, 2048), (6, 2049), (3, 5000)]:
        def number(*shape):
            return (gt.rand(*shape) * 9).to(getattr(gt, dtype))

        x, y, row, column = number(rows, columns), number(columns, rows), number(rows, 1), number(columns)
        z, part = number(3, columns, rows), number(columns + 3, rows + 2)
        for name, function in {
            "by column": lambda: (y.t() * x + 1) * x,
            "made, then by column": lambda: (y + 1).t() * x + 1,
            "by column, in planes": lambda: (z.transpose(1, 2) + x) * x + row,
            "a part, by column": lambda: (part[1 : columns + 1, 1 : rows + 1].t() + x) * column,
            "by column and cast": lambda: y.t().to(gt.float32) * x + x.float(),
            "by column, before a sine": lambda: ((y.t() + x).float().sin() + 1) * 2,
            "by column, reduced": lambda: y.t().amax(1) * 2 + (y.t() + x).amin(1),
            "a row and a column": lambda: (row * column + x) * row + column,
        }.items():  # fmt: skip
            eager, path = both(function)
            np.testing.assert_array_equal(path, eager, err_msg=f"{name}, {rows} x {columns}")


def grouped(statement):
    """The steps of a path that run as one, by name."""
    program = f"""
x, y = gt.randn(20000, 8), gt.randn(5000, 100)
f = gt.compile(lambda: {statement})
for k in range(6):
    f()
gt.synchronize()
results.append(gt.debug.get_hot_paths(wait=True))
"""
    (paths,), _, _ = run(program, GT_AUTO_COMPILE="0")
    groups = [[paths[0]["steps"][step][0] for step in group] for group in paths[0]["groups"]]
    return [group for group in groups if group != ["permute"]]


def test_what_short_rows_become_runs_in_the_same_pass():
    assert grouped("((x - x.amax(1, keepdim=True)).exp() * 2).sum(1) + 1") == [["amax", "sub", "exp", "mul", "sum", "add"]]


def test_long_rows_of_an_operand_by_column_are_read_on_their_own():
    """In tiles of a few long rows every element that is read would be the only one of its cache line."""
    assert grouped("((y.t() + 1) * 2).relu()") == [["add"], ["mul", "relu"]]


REPEATED_BROADCASTS = {
    "(3, 1)": ((2, 3, 4), (3, 1), (4, 3, 2), lambda x, b: x + b, lambda y, b: (y + b) * 2),
    "(8, 1)": ((4, 8, 36), (8, 1), (24, 8, 6), lambda x, b: x + b, lambda y, b: (y * b) + 1),
    "(6, 1, 8)": ((6, 10, 8), (6, 1, 8), (2, 6, 5, 8), lambda x, b: x + b, lambda y, b: (y + b) * 2),
}


@pytest.mark.parametrize("name", REPEATED_BROADCASTS)
def test_an_operand_is_broadcast_to_two_shapes(name):
    """A view between the steps of a pass: the same operand belongs to other elements behind it."""
    shape, short, after, first, second = REPEATED_BROADCASTS[name]
    rng = np.random.default_rng(1)
    x, b = (rng.integers(-9, 9, size).astype(np.float32) for size in (shape, short))
    compiled = gt.compile(lambda x, b: second(first(x, b).reshape(after), b))
    expected = second(first(x, b).reshape(after), b)
    tensors = gt.tensor(x), gt.tensor(b)
    for _ in range(6):
        np.testing.assert_array_equal(compiled(*tensors).numpy(), expected)
