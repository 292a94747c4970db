"""Functions marked by gt.compile whose calls take different branches: each that comes again is a path of its own."""

import os
import subprocess
import sys

import pytest

import gt
from test_hotpath import HOT, run

PROGRAM = """
import random
COUNT = 300
SOURCE = '''
@mark
def f(x, way, k):
    y = x * 2 + 1
    if way == 1:
        y = (y.relu() - x) * 3
    elif way == 2:
        y = y.tanh() + x * x
    elif way == 3:
        return y
    elif way == 4:
        say(y[0].item())
    elif way == 5:
        raise ValueError(k)
    elif way == 6:
        y = y + gt.tensor([k / 8])
    elif way >= 10:
        for _ in range(way):
            y = y * 0.5
    y = y - 1
    return y * 0.25 + x
'''

def counted():
    hotpath = gt.debug.get_worker_stats(wait=True)["auto_worker"]["hotpath"]
    return hotpath["total_instructions"], hotpath["hot_instructions"], hotpath["hot_sequences"]

def calls(name, way, size):
    said, scope = [], {"gt": gt, "mark": MARK}
    scope["say"] = said.append
    exec(compile(SOURCE, name, "exec"), scope)   # lines of its own
    lot = random.Random(1)
    sequences = counted()[2]
    for k in range(COUNT):
        x = gt.arange(eval(size, {"k": k})) / 8
        try:
            h = scope["f"](x, eval(way, {"k": k, "lot": lot}), k)
        except ValueError as error:
            said.append(str(error))
        if k % 7 == 0:
            said.append(h.numpy().tolist())
        if k == COUNT // 2:
            total, hot, _ = counted()
    said.append(h.numpy().tolist())
    total, hot = counted()[0] - total - 2 * (COUNT - COUNT // 2 - 1), counted()[1] - hot   # less those that make x
    results.append([said, hot / max(total, 1), counted()[2] - sequences])

for name, (way, size, _) in WAYS.items():
    calls(name, way, size)
"""

# Which branch a call takes, the size of its operand, and how much of the function is in paths at the end.
WAYS = {
    "one branch": ("0", "8", 1),
    "in turn": ("1 + k % 2", "8", 1),
    "three": ("k % 3", "8", 1),
    "now and then": ("2 if k % 10 == 9 else 1", "8", 1),
    "by lot": ("lot.choice([0, 1, 1, 2])", "8", 1),
    "early return": ("1 if k % 3 else 3", "8", 1),
    "a wait now and then": ("4 if k % 10 == 9 else 0", "8", 1),
    "a wait by lot": ("lot.choice([0, 4])", "8", 1),
    "an exception": ("5 if k % 4 == 3 else 1", "8", 1),
    "an upload": ("6 if k % 10 == 9 else 1", "8", 1),
    "all of them by lot": ("lot.randrange(7)", "8", 0.9),
    "two shapes": ("1", "8 if k % 10 != 9 else 5", 1),
    "five lengths": ("10 + k % 5", "8", 1),
    "another shape each time": ("1", "8 + k", 1),
    "too many": ("10 + k % 20", "8", 0.2),
    "another length each time": ("10 + k", "8", 0),
}


def branches(mark, **variables):
    results, *_ = run(PROGRAM.replace("WAYS", repr(WAYS)).replace("MARK", mark), **variables)
    return dict(zip(WAYS, results, strict=True))


@pytest.fixture(scope="module")
def plain():
    return branches("lambda function: function", GT_AUTO_COMPILE="0")


@pytest.fixture(scope="module")
def marked():
    return branches("gt.compile", GT_AUTO_COMPILE="0")


@pytest.fixture(scope="module")
def both():
    return branches("gt.compile", **HOT)


@pytest.mark.parametrize("name", WAYS)
def test_branches(name, plain, marked, both):
    """After the first calls all instructions of the function are in paths, of which there are not too many."""
    said, hot, sequences = marked[name]
    assert said == plain[name][0] == both[name][0]
    assert hot >= WAYS[name][2] * 0.99 and sequences <= 8, (hot, sequences)


def digests(*options, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GT_AUTO_C", "GT_COMPILE", "GT_HOT"))}
    program = os.path.join(os.path.dirname(__file__), "marked_programs.py")
    done = subprocess.run([sys.executable, program, "--count", "40", *options], env=environment | variables, capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    *lines, counts = done.stdout.splitlines()
    return lines, int(counts.split()[1])


def test_random_programs():
    plain, none = digests("--plain", GT_AUTO_COMPILE="0")
    assert len(plain) == 40 and none == 0
    for settings in ({"GT_AUTO_COMPILE": "0"}, HOT, {"GT_COMPILE": "1", "GT_HOTPATH_MIN_SEQ": "2"}):
        lines, hot = digests(**settings)
        assert lines == plain and hot > 50_000, (settings, hot)


def test_generators_and_coroutines_stay_as_they_are():
    def numbers(n):
        for k in range(n):
            yield gt.ones(3) * k

    async def later(x):
        return x + 1

    for function in (numbers, later):
        with pytest.warns(UserWarning, match="mark the functions that it calls"):
            assert gt.compile(function) is function
