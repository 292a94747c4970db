"""The members of a module: parameters, buffers and children.

A module keeps them in three dictionaries, `_parameters`, `_buffers` and `_modules` of its __dict__, as PyTorch does. Programs read
and change these directly. An attribute that the module does not have is looked up there by python/extension/caller.c.
"""

import weakref

from gt import Tensor

PARAMETER, BUFFER, MODULE = 'parameter', 'buffer', 'module'
TABLES = {PARAMETER: '_parameters', BUFFER: '_buffers', MODULE: '_modules'}


class ParameterTable(dict):
    """The parameters of a module by name, and a list of those that modules of the prototype added by hand."""

    __slots__ = ('by_hand',)

    def append(self, tensor):
        """Add a parameter by hand."""
        self.by_hand = [*added_by_hand(self), tensor]


def added_by_hand(parameters):
    """The tensors that were added by hand to the parameters of a module."""
    return getattr(parameters, 'by_hand', ())


def named_by_hand(module):
    """(name, tensor) for the parameters that were added by hand, named by their attribute or else their position."""
    for k, tensor in enumerate(added_by_hand(module._parameters)):
        names = (name for name, value in module.__dict__.items() if value is tensor)
        yield next(names, f'_parameters.{k}'), tensor


def tree(module, found):
    """A module and all below it, once each, as the keys of a dictionary."""
    found[module] = True
    for child in module._modules.values():
        if child is not None and child not in found:
            tree(child, found)
    return found


def _paths(module, path, found):
    """(module, path) of a module and all below it, by their ids."""
    found[id(module)] = module, path
    for name, child in module._modules.items():
        if id(child) not in found and isinstance(getattr(child, '__dict__', {}).get('_modules'), dict):
            _paths(child, f'{path}{name}.', found)
    return found


_ROOTS = weakref.WeakKeyDictionary()  # of modules whose parameters have been named: the module that the names are seen from


def names_changed(module):
    """A member that may have parameters was added to a module, or removed: the next call of the root names them again."""
    root = _ROOTS.get(module) if '_gt_named' in module.__dict__ else None
    if root is not None and root() is not None:
        root().__dict__.pop('_gt_named', None)


def name_parameters(module):
    """Tell the names of all parameters of a module and those below it, for `gt replay`. The first call of a module does this; the
    marks tell caller.c that it is done."""
    named, root = set(), weakref.ref(module)
    for below, path in _paths(module, '', {}).values():
        below.__dict__['_gt_named'] = id(below)
        _ROOTS[below] = root
        for name, parameter in below._parameters.items():
            if isinstance(parameter, Tensor) and id(parameter) not in named:
                named.add(id(parameter))
                Tensor._name(parameter, path + name)


def persistent(module):
    """(name, tensor) for each parameter, then for each persistent buffer, of a module alone."""
    passing = module._non_persistent_buffers_set
    own = list(module._parameters.items())
    own += [(name, tensor) for name, tensor in module._buffers.items() if name not in passing]
    return [(name, tensor) for name, tensor in own if tensor is not None]


def check_name(module, name, kind):
    """Raise PyTorch's error unless a member of this kind may have the name."""
    if TABLES[kind] not in module.__dict__ and kind != MODULE:
        raise AttributeError(f'cannot assign {kind} before Module.__init__() call')
    if not isinstance(name, str):
        raise TypeError(f'{kind} name should be a string. Got {typename(name)}')
    taken = hasattr(module, name) and name not in getattr(module, TABLES[kind])
    if kind == MODULE and taken:
        raise KeyError(f"attribute '{name}' already exists")
    if '.' in name:
        raise KeyError(f'{kind} name can\'t contain "."' + (f', got: {name}' if kind == MODULE else ''))
    if name == '':
        raise KeyError(f'{kind} name can\'t be empty string ""')
    if taken:
        raise KeyError(f"attribute '{name}' already exists")


def clear_name(module, name, kind):
    """Remove what has the name of a new member, unless it is of the same kind."""
    module.__dict__.pop(name, None)
    for other, table in TABLES.items():
        if other != kind:
            getattr(module, table).pop(name, None)
    module._non_persistent_buffers_set.discard(name)


def find(module, target):
    """(the module that has it, its name, the member) of a path such as 'layers.0.weight'."""
    path, _, name = target.rpartition('.')
    module = module.get_submodule(path)
    if not hasattr(module, name):
        raise AttributeError(f'{module._get_name()} has no attribute `{name}`')
    return module, name, getattr(module, name)


def typename(value):
    """The name of a value's type in errors: 'gt.FloatTensor', 'int', 'collections.deque'."""
    names = {'float32': 'Float', 'float64': 'Double', 'float16': 'Half', 'bfloat16': 'BFloat16', 'int64': 'Long',
             'int32': 'Int', 'int16': 'Short', 'int8': 'Char', 'uint8': 'Byte', 'bool': 'Bool'}
    if isinstance(value, Tensor):
        return f'gt.{names.get(value.dtype.name, "")}Tensor'
    kind = type(value)
    return kind.__qualname__ if kind.__module__ in ('builtins', None) else f'{kind.__module__}.{kind.__qualname__}'
