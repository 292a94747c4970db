"""Stream modifiers in Python: functions that see each instruction in the server inside this program, and may change it.

A prototype of what a modifier in C does (src/dispatcher/modifier.h). docs/extending.md shows how to use it.
"""

import itertools
import struct
import threading
from typing import NamedTuple, Union

from gt import _gt, _help

_SLOT = 64
_HEAD = struct.Struct('<HBBBBHQ3Q2QII')  # gt_instruction in src/core/instruction.h
_OP, _FLAGS, _LITERALS, _RESULT, _OPERAND, _COUNT = 0, 2, 3, 6, 7, 11  # places in it
_CONSUMES = 1 << 2
_MOST_FREED = 6

_rows = [(name, form, types) for name, form, types, _ in _gt.op_table()]
_NAMES = dict(enumerate((name for name, _, _ in _rows), 1))
_NUMBERS = {name: number for number, name in _NAMES.items()}
_KINDS = {name: (form, types) for name, form, types in _rows}
_COUNTS = _gt._operand_counts()

_new_ids = itertools.count((1 << 63) + 1)


class Number(NamedTuple):
    """An operand that is a number and not a tensor."""
    value: Union[bool, int, float]


def _decoded(word, kind):
    if not kind:
        return word
    packed = struct.pack('<Q', word)
    return Number(bool(word) if kind == 1 else struct.unpack('<q' if kind == 2 else '<d', packed)[0])


def _encoded(operand):
    """(the word, the kind) of an operand."""
    if not isinstance(operand, Number):
        return operand, 0
    if isinstance(operand.value, bool):
        return int(operand.value), 1
    if isinstance(operand.value, int):
        return struct.unpack('<Q', struct.pack('<q', operand.value))[0], 2
    return struct.unpack('<Q', struct.pack('<d', operand.value))[0], 3


def new_id():
    """A number for a tensor that a modifier makes. The modifier frees it: Instruction.free."""
    return next(_new_ids)


class Instruction:
    """One instruction of a client's stream. It does not change: replace() makes another."""
    __slots__ = ('_record', '_head', 'place')

    def __init__(self, record, place=None):
        self._record = record
        self._head = _HEAD.unpack_from(record)
        self.place = place

    @property
    def op(self):
        """The name of its row in src/core/ops.def, or 'free'."""
        return _NAMES[self._head[_OP]]

    @property
    def result(self):
        """The number of the tensor that it makes; None: it makes none."""
        return None if self.op == 'free' else self._head[_RESULT]

    @property
    def operands(self):
        """Numbers of tensors, and Numbers. Of 'free': the tensors to free."""
        words = self._head[_RESULT:_RESULT + _MOST_FREED]
        if self.op == 'free':
            return tuple(word for word in words if word)
        if self.op == 'cat':
            return struct.unpack_from(f'<{self._head[_COUNT]}Q', self._record, _SLOT)
        literals = self._head[_LITERALS]
        return tuple(_decoded(words[1 + k], literals >> 2 * k & 3) for k in range(_COUNTS[self._head[_OP]]))

    @property
    def consumes(self):
        """Whether its first operand dies with it."""
        return self.op != 'free' and bool(self._head[_FLAGS] & _CONSUMES)

    def replace(self, op=None, result=None, operands=None):
        """Another instruction: with another op of the same form and types, another result, or other operands."""
        head = list(self._head)
        if self.op == 'free':
            raise ValueError('a free cannot be changed: make another with Instruction.free')
        if op is not None:
            if op not in _KINDS or _KINDS[op] != _KINDS[self.op]:
                raise ValueError(f"'{op}' cannot take the place of '{self.op}': it has another form or other types")
            head[_OP] = _NUMBERS[op]
        if result is not None:
            head[_RESULT] = result
        if operands is not None:
            if len(operands) != len(self.operands) or self.op == 'cat':
                raise ValueError(f"'{self.op}' has {len(self.operands)} operands, which cannot be replaced by {len(operands)}"
                                 if self.op != 'cat' else "the operands of 'cat' cannot be replaced")
            head[_LITERALS] = 0
            for place, operand in enumerate(operands):
                head[_OPERAND + place], kind = _encoded(operand)
                head[_LITERALS] |= kind << 2 * place
        return Instruction(_HEAD.pack(*head) + self._record[_SLOT:], self.place)

    @staticmethod
    def free(*ids):
        """An instruction that frees up to six tensors."""
        if not 0 < len(ids) <= _MOST_FREED:
            raise ValueError(f'a free has one to {_MOST_FREED} tensors, not {len(ids)}')
        words = [*ids, *[0] * (_MOST_FREED - len(ids))]
        return Instruction(_HEAD.pack(_NUMBERS['free'], 0, 0, 0, 0, 0, *words, 0, 0))

    def __repr__(self):
        where = f' at {self.place}' if self.place else ''
        operands = ', '.join(str(each.value) if isinstance(each, Number) else f'#{each}' for each in self.operands)
        return f'<{self.op} {operands}{where}>' if self.result is None else f'<#{self.result} = {self.op} {operands}{where}>'


def _listed(result):
    """What a function returned, as a list of instructions."""
    found = [] if result is None else [result] if isinstance(result, Instruction) else result
    if not isinstance(found, (list, tuple)) or not all(isinstance(each, Instruction) for each in found):
        raise TypeError(f'a modifier returns an Instruction, None or a list of Instructions, not {type(result).__name__}')
    return list(found)


class _Chain:
    """The functions of one session, in the order in which they were registered. The C side calls it."""

    def __init__(self, functions):
        self.functions = functions

    def _through(self, instructions, functions):
        for function, _ in functions:
            instructions = [each for one in instructions for each in _listed(function(one))]
        return instructions

    def step(self, record, place):
        """The records that one record becomes."""
        return [each._record for each in self._through([Instruction(record, place)], self.functions)]

    def flush(self):
        """The records that the functions held back; each goes through the functions behind its own."""
        found = []
        for k, (_, flush) in enumerate(self.functions):
            if flush is not None:
                found += self._through(_listed(flush()), self.functions[k + 1:])
        return [each._record for each in found]


_lock = threading.Lock()
_registered = []


def _publish():
    _gt._embedded_modifier((lambda functions=tuple(_registered): _Chain(functions)) if _registered else None)


class Registration:
    """What register_modifier returns: remove() takes the function out again, for servers that start afterwards."""

    def __init__(self, entry):
        self._entry = entry

    def remove(self):
        """Take the function out. A server that runs keeps it until it ends."""
        with _lock:
            if self._entry in _registered:
                _registered.remove(self._entry)
                _publish()


def register_modifier(fn, flush=None):
    """Have fn see every instruction in the server inside this program, before it goes to a worker.

    fn(instruction) returns the instruction, another one, None to drop it, or a list. It is called in the dispatcher's
    thread, for each operation and each free. An exception in fn is raised where the result of that operation is read.
    Call this before the first tensor, or after gt.disconnect(). For prototypes: hot paths are off, and each call costs
    microseconds.
    """
    if not callable(fn) or not (flush is None or callable(flush)):
        raise TypeError('register_modifier takes functions')
    connection = _gt.current()
    if connection is not None and not connection.closed:
        raise _gt.GtError(f'register_modifier: this program already uses {connection.description}. Modifiers in Python run in the '
                          'server inside the program: register them before the first tensor, or after gt.disconnect(). '
                          'Other servers take modifiers in C: docs/extending.md')
    entry = (fn, flush)
    with _lock:
        _registered.append(entry)
        _publish()
    return Registration(entry)


__dir__ = _help.publish(__name__)
