"""Planned sequences as engines in Python see them: what `Engine.compile` gets and returns.

A step is an operation on values. Values lie in buffers; a buffer may hold several values, as views of it or one after the
other. The extension makes the descriptions from src/engines/plan.h.
"""

from dataclasses import dataclass, field
from typing import Any, Callable, Optional


@dataclass(eq=False)
class Value:
    """A tensor of a plan.

    Attributes:
        dtype, shape, stride: as those of a view; strides are in elements.
        buffer: the number of the buffer that it lies in, at `offset` bytes.
        last_use: the number of the last step that reads it; None: it lives on after the sequence.
        made_by: the number of the step that makes it; None: it is an input.
    """

    number: int
    dtype: str
    shape: tuple
    stride: tuple
    buffer: int
    offset: int
    last_use: Optional[int]
    made_by: Optional[int] = None


@dataclass(eq=False)
class Number:
    """An operand that is a number, `value` now, and may be another one of the same type in each run."""

    value: Any


@dataclass(eq=False)
class Step:
    """An instruction of a plan.

    Attributes:
        op: the method's name.
        kind: 'run'; 'in_place', which computes into the memory of its first operand, which dies; or 'view', which
            computes nothing: its result is other strides on its operand's memory.
        moves: it is a slice or an assignment that begins elsewhere in each run, so it cannot be in a part.
        operands: each a Value, a Number or a constant.
        attributes: the method's keyword arguments.
    """

    op: str
    kind: str
    moves: bool
    result: Value
    operands: tuple
    attributes: dict = field(default_factory=dict)


@dataclass(eq=False)
class Part:
    """Neighbouring steps that one function runs.

    Attributes:
        first, count: which steps.
        writes: values of these steps that are used after them, each the result of a step that is not a view.
        reads: values that these steps read and other steps make.
        function: `function(reads, numbers)` gets views of the values that are read, and the numbers of the steps in order. It
            returns the results, one for each of `writes`, which `Engine.store` copies into place afterwards.
    """

    first: int
    count: int
    writes: tuple
    reads: tuple
    function: Callable[[tuple, tuple], Any]


def ends_of_parts(steps, wanted, shortest=2):
    """Ranges of neighbouring steps for which wanted(step) is true and that compute at least `shortest` results."""
    ranges, begin = [], None
    for number, step in enumerate([*steps, None]):
        inside = step is not None and wanted(step)
        if inside and begin is None:
            begin = number
        elif not inside and begin is not None:
            if sum(step.kind != 'view' for step in steps[begin:number]) >= shortest:
                ranges.append(range(begin, number))
            begin = None
    return ranges


def reads_and_writes(steps, chosen):
    """The values that the steps of a range read from outside, and those they make for others: two lists."""
    made = {steps[k].result.buffer for k in chosen if steps[k].kind != 'view'}
    late = {value.buffer for step in steps for value in (step.result, *step.operands)
            if isinstance(value, Value) and (value.last_use is None or value.last_use >= chosen.stop)}
    reads, writes = {}, []
    inner = set()
    for k in chosen:
        step = steps[k]
        for value in step.operands:
            if isinstance(value, Value) and value.number not in inner:
                reads[value.number] = value
        if step.kind == 'view' and step.operands[0].number not in inner:
            continue  # other strides on memory from outside: its result is read from there, too
        inner.add(step.result.number)
        if step.kind != 'view' and step.result.buffer in late & made:
            writes.append(step.result)
    last = {value.buffer: value for value in writes}  # of those that lie in one buffer one after the other
    return list(reads.values()), list(last.values())


def compile_plan(engine, values, steps, marked):
    """Called by the extension: has `engine.compile` choose parts, and returns them as tuples of numbers."""
    described = [Value(number, *value) for number, value in enumerate(values)]
    made = []
    for number, (op, kind, moves, result, operands, attributes) in enumerate(steps):
        described[result].made_by = number
        made.append(Step(op, kind, moves, described[result], tuple(
            described[what] if how == 'value' else Number(what) if how == 'number' else what for how, what in operands), attributes))
    parts = engine.compile(made, marked)
    if parts is NotImplemented:
        return []
    return [(part.first, part.count, tuple(value.number for value in part.writes), tuple(value.number for value in part.reads),
             part.function) for part in parts]
