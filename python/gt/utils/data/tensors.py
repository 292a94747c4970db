"""GT tensors in the datasets of forked worker processes.

A tensor belongs to a client, and a forked child cannot use its parent's client. So the parent fetches the tensors that a
dataset can reach, and the child gives their objects values of its own client.
"""

import collections
import functools
import types

from gt import _gt
from gt._gt import Tensor

_PLAIN = frozenset((int, float, complex, bool, str, bytes, bytearray, type(None), range, slice, type, types.ModuleType,
                    types.BuiltinFunctionType, type(Ellipsis), type(NotImplemented), _gt.dtype))
_LIBRARIES = frozenset(('gt', 'torch', 'numpy', 'builtins', 'collections', 'typing', 'abc', 'functools', 'torchvision',
                        'PIL', 'pandas', 'threading', 'random', 'logging', 'io', 'pathlib', 'h5py'))


def _library(thing):
    return (getattr(thing, '__module__', None) or '').partition('.')[0] in _LIBRARIES


def _names(code):
    """Global names that code, and the functions defined in it, may read."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _of_function(function):
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            pass
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    if not _library(function):
        for name in _names(function.__code__):
            yield function.__globals__.get(name)


def _of_object(value):
    yield from getattr(value, '__dict__', {}).values()
    for kind in type(value).__mro__:
        if _library(kind):
            continue
        slots = kind.__dict__.get('__slots__', ())
        for name in (slots,) if isinstance(slots, str) else slots:
            yield getattr(value, name, None)
        for member in kind.__dict__.values():
            yield getattr(member, '__func__', getattr(member, 'fget', member))


def _inside(value):
    """What a value holds."""
    if isinstance(value, dict):
        return [*value.values(), *getattr(value, '__dict__', {}).values()]
    if isinstance(value, (list, tuple, set, frozenset, collections.deque)):
        return [*value, *getattr(value, '__dict__', {}).values()]
    if isinstance(value, types.FunctionType):
        return _of_function(value)
    if isinstance(value, types.MethodType):
        return value.__self__, value.__func__
    if isinstance(value, functools.partial):
        return value.func, value.args, value.keywords
    if isinstance(value, type):
        return ()
    return _of_object(value)


def reachable(*roots):
    """The tensors that objects and functions hold: in attributes, containers, closures, and globals that they name."""
    waiting, seen, found = list(roots), {}, []
    while waiting:
        value = waiting.pop()
        if type(value) in _PLAIN or id(value) in seen:
            continue
        seen[id(value)] = value  # keeps it, so that no other object gets its id
        if isinstance(value, Tensor):
            found.append(value)
        else:
            waiting.extend(_inside(value))
    return found


def fetched(tensors):
    """[(tensor, its elements on the host)]"""
    return [(tensor, bytes(memoryview(tensor._elements()).cast('B')) if tensor.numel() else b'') for tensor in tensors]


def adopt(fetched_tensors):
    """In a child: the tensors get their elements again, as values of the child's client."""
    for tensor, elements in fetched_tensors:
        tensor.data = _gt._rebuild(elements, tensor.dtype, tuple(tensor.shape), False)
