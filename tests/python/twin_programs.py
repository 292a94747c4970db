"""Programs that run in GT and in PyTorch and must say the same: values, names, text, warnings' effects and errors."""

import collections
import copy
import functools
import gc
import io
import itertools
import math
import pickle
import types
import weakref

import numpy as np


def _plain(value):
    """A value as text that is the same in both libraries: tensors by dtype and rounded elements."""
    if hasattr(value, 'detach') and hasattr(value, 'dtype'):
        array = np.asarray(value.detach().tolist(), dtype=np.float64)
        return f'{type(value).__name__} {str(value.dtype).rpartition(".")[2]} {np.round(array, 4).tolist()}'
    if isinstance(value, dict):
        return type(value).__name__ + '{' + ', '.join(f'{key!r}: {_plain(of)}' for key, of in value.items()) + '}'
    if isinstance(value, (list, tuple)):
        return f'{type(value).__name__}[' + ', '.join(map(_plain, value)) + ']'
    if isinstance(value, float):
        return f'{value:.6g}'
    return repr(value)


def said(program, library):
    """What a program says: say(values), bad(function) for the error that a function must raise."""
    lines = []

    def say(*values):
        lines.append(' | '.join(map(_plain, values)))

    def bad(function, *args, **keywords):
        try:
            function(*args, **keywords)
        except Exception as error:
            kind = next(cls for cls in type(error).__mro__ if cls.__module__ == 'builtins')
            lines.append(f'{kind.__name__}: {error}')
        else:
            lines.append('no error')

    def filled(module, scale=0.1):
        """The module with parameters and buffers that are easy to repeat."""
        with library.no_grad():
            for k, tensor in enumerate([*module.parameters(), *module.buffers()]):
                if tensor.is_floating_point():
                    tensor.copy_(((library.arange(tensor.numel()) * 7 + k) % 11 - 5).reshape(tensor.shape) * scale)
        return module

    names = {module.__name__: module for module in (collections, copy, functools, gc, io, itertools, math, pickle, types, weakref)}
    # A module of its own, so that classes of the program can be pickled within it.
    scope = types.ModuleType('twin_program')
    vars(scope).update(names, T=library, nn=library.nn, F=library.nn.functional, optim=library.optim, say=say, bad=bad, filled=filled,
                       OrderedDict=collections.OrderedDict)
    exec(compile(program, '<program>', 'exec'), vars(scope))
    return '\n'.join(lines)


def same_text(text):
    """What PyTorch says, with the names of GT."""
    return text.replace('torch.', 'gt.').replace('pygt.org', 'pytorch.org').replace('(torch ', '(gt ').replace('Torch', 'Gt').replace('gt.cuda.', 'gt.')
