"""Operations that a path expects take a shortcut in the client (src/client/quick.h): whatever is not as expected must not."""

import collections
import re

import pytest

from test_hotpath import HOT, check, run

STEP = """
def step(a, b):
    c = a + b           # the first use of both
    d = a * b           # and these use what came before
    e = d * 2.0
    f = (-e).relu()
    return c, d, e, f

def note(*tensors):
    keep(*tensors)
    results.append([[list(t.shape), str(t.dtype), t.requires_grad] for t in tensors])

plain = gt.randn(8, 8), gt.randn(8, 8)
"""

OTHERS = {
    "a row": "plain[0], gt.randn(1, 8)",
    "a row first": "gt.randn(1, 8), plain[1]",
    "a column": "plain[0], gt.randn(8, 1)",
    "a number": "plain[0], gt.tensor(3.0)",
    "another shape": "gt.randn(4, 16), gt.randn(4, 16)",
    "transposed sizes": "gt.randn(4, 16), gt.randn(16, 4).t()",
    "one axis": "gt.randn(8), gt.randn(8)",
    "one axis, one element": "gt.randn(8), gt.randn(1)",
    "three axes": "gt.randn(2, 8, 8), gt.randn(2, 8, 8)",
    "the same": "(plain[0],) * 2",
    "float64": "plain[0].double(), plain[1].double()",
    "mixed": "plain[0], plain[1].double()",
    "integers": "gt.arange(64).reshape(8, 8), gt.arange(64).reshape(8, 8) - 9",
    "gradients": "gt.randn(8, 8).requires_grad_(), plain[1]",
    "gradients second": "plain[0], gt.randn(8, 8).requires_grad_()",
    "views": "gt.randn(16, 8)[4:12], gt.randn(8, 16)[:, ::2]",
}


@pytest.mark.parametrize("name", OTHERS)
def test_operands_of_another_kind(name):
    """From the same lines, between steps that are as always."""
    program = STEP + f"""
for turn in range(12):
    for k in range(25):
        out = step(*plain)
    note(*out)
    for k in range(turn % 4):
        other = step(*({OTHERS[name]}))
        note(*other)
"""
    check(program, least=0.2)


def test_the_same_operation_from_another_line(tmp_path):
    """The log has the line that issued each instruction."""
    program = """
a, b = gt.randn(8, 8), gt.randn(8, 8)
def step(often):
    c = a * b
    if often:
        d = a + b
    else:
        d = a + b
    e = d * c
    return e - d
for k in range(400):
    e = step(k < 200 or k % 7)
gt.synchronize()
"""
    counts = []
    for settings in (HOT, {"GT_AUTO_COMPILE": "0"}):
        log = tmp_path / "run.log"
        _, hotpath, _ = run(program, GT_INSTRUCTION_LOG=str(log), **settings)
        counts.append(collections.Counter(re.findall(r"op=(\w+) left=.* at=<string>:(\d+)", log.read_text())))
        log.unlink()
        assert (hotpath["runs"] > 10) == (settings is HOT)
    assert counts[0] == counts[1] and len(counts[0]) == 5 and sum(counts[0].values()) == 1600, counts


def test_results_with_references_and_attributes():
    """A result that dies in the loop takes its attributes along, and tells those who watch it."""
    program = STEP + """
import weakref
died = []
for k in range(300):
    out = step(*plain)
    if k % 7 == 3:
        out[1].note = k
        watch = weakref.ref(out[2], lambda _, k=k: died.append(k))
    if k % 11 == 5:
        watched = watch
fresh = [step(*plain) for _ in range(20)]
results.append([hasattr(t, "note") for out in fresh for t in out])
out = None
results.append(len(died) > 0 and died == sorted(died))
keep(*fresh[0], *fresh[-1])
"""
    hot, hotpath, _ = run(program, **HOT)
    cold, _, _ = run(program, GT_AUTO_COMPILE="0")
    assert hot == cold and hot[1] is True and not any(hot[0])
    assert hotpath["hot_instructions"] > 0.3 * hotpath["total_instructions"], hotpath


def test_a_forked_child_does_not_go_on_with_the_path():
    program = STEP + """
import os
for k in range(100):
    c = plain[0] + plain[1]
    child = os.fork() if k == 90 else None
    try:
        d = plain[0] * plain[1]
    except ConnectionError:
        os._exit(7)
    e = c - d
    f = e * c
    if child == 0:
        os._exit(0)
    if child:
        results.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
keep(c, d, e, f)
"""
    hot, hotpath, _ = run(program, **HOT)
    assert hot[0] == 7 and hot == run(program, GT_AUTO_COMPILE="0")[0]
    assert hotpath["runs"] > 0
