"""Modules that contain modules or parameters: Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

import operator
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Mapping

from gt import Tensor
from gt.nn.members import names_changed, typename
from gt.nn.module import Module, indented
from gt.nn.parameter import Parameter


def _pairs(name, given):
    """(key, value) pairs of a mapping or a sequence of pairs."""
    if not isinstance(given, Iterable):
        raise TypeError(f'{name}.update should be called with an iterable of key/value pairs, but got '
                        f'{type(given).__name__}')
    if hasattr(given, 'items'):
        return given.items()
    pairs = []
    for j, pair in enumerate(given):
        if not isinstance(pair, Iterable):
            raise TypeError(f'{name} update sequence element #{j} should be Iterable; is{type(pair).__name__}')
        pair = tuple(pair)
        if len(pair) != 2:
            raise ValueError(f'{name} update sequence element #{j} has length {len(pair)}; 2 is required')
        pairs.append(pair)
    return pairs


def _position(container, position):
    """A position counted from the start."""
    position = operator.index(position)
    if not -len(container) <= position < len(container):
        raise IndexError(f'index {position} is out of range')
    return position % len(container)


def _renumber(container, modules):
    container._modules = {str(k): module for k, module in enumerate(modules)}


class _Numbered(Module):
    """Children in a row, named by their positions."""

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __setitem__(self, position, module):
        setattr(self, list(self._modules)[_position(self, position)], module)

    def __delitem__(self, position):
        modules = list(self._modules.values())
        del modules[position if isinstance(position, slice) else _position(self, position)]
        _renumber(self, modules)

    def append(self, module):
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key):
        """Remove and return the module at a position, or those of a slice."""
        module = self[key]
        del self[key]
        return module


class Sequential(_Numbered):
    """Modules one after the other: Sequential(a, b) computes b(a(x)). An OrderedDict gives them names.

    >>> model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    """

    def __init__(self, *args):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for k, module in enumerate(args):
                self.add_module(str(k), module)

    def forward(self, input):
        """The output of the last module."""
        for module in self._modules.values():
            input = module(input)
        return input

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            return type(self)(OrderedDict(list(self._modules.items())[idx]))
        return list(self._modules.values())[_position(self, idx)]

    def extend(self, sequential):
        """Add modules at the end."""
        for module in sequential:
            self.append(module)
        return self

    def insert(self, index, module):
        """Put a module before the one at a position."""
        if not isinstance(module, Module):
            raise AssertionError(f'module should be of type: {Module}')
        if not -len(self) <= index <= len(self):
            raise IndexError(f'Index out of range: {index}')
        modules = list(self._modules.values())
        modules.insert(index, module)
        _renumber(self, modules)
        return self

    @staticmethod
    def _gt_check_added(other):
        if not isinstance(other, Sequential):
            raise ValueError(f'add operator supports only objects of Sequential class, but {type(other)} is given.')

    def _gt_check_factor(self, factor):
        if not isinstance(factor, int):
            raise TypeError(f'unsupported operand type(s) for *: {type(self)} and {type(factor)}')
        if factor <= 0:
            raise ValueError(f'Non-positive multiplication factor {factor} for {type(self)}')

    def __add__(self, other):
        self._gt_check_added(other)
        return Sequential(*self, *other)

    def __iadd__(self, other):
        self._gt_check_added(other)
        return self.extend(list(other))

    def __mul__(self, other):
        self._gt_check_factor(other)
        return Sequential(*list(self._modules.values()) * other)

    __rmul__ = __mul__

    def __imul__(self, other):
        self._gt_check_factor(other)
        return self.extend(list(self._modules.values()) * (other - 1))


class ModuleList(_Numbered):
    """A list of modules; parameters() finds theirs.

    >>> layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(4)])
    """

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            return type(self)(list(self._modules.values())[idx])
        return list(self._modules.values())[_position(self, idx)]

    def extend(self, modules):
        """Add modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(f'ModuleList.extend should be called with an iterable, but got {type(modules).__name__}')
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index, module):
        """Put a module before the one at a position."""
        modules = list(self._modules.values())
        modules.insert(index, module)
        _renumber(self, modules)

    def __iadd__(self, modules):
        return self.extend(modules)

    def __add__(self, other):
        return ModuleList([*self, *other])

    def __repr__(self):
        runs = []  # [first, last, text] of equal neighbours
        for k, text in enumerate(map(repr, self)):
            if runs and runs[-1][2] == text:
                runs[-1][1] = k
            else:
                runs.append([k, k, text])
        lines = [indented(f'({first}): {text}' if first == last else
                          f'({first}-{last}): {last - first + 1} x {text}') for first, last, text in runs]
        return f'{type(self).__name__}(' + ('\n  ' + '\n  '.join(lines) + '\n' if lines else '') + ')'


class ModuleDict(Module):
    """Modules by name.

    >>> heads = nn.ModuleDict({'mean': nn.Linear(8, 1), 'variance': nn.Linear(8, 1)})
    """

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def update(self, modules):
        """Add the modules of a dictionary, or of (name, module) pairs."""
        for name, module in _pairs('ModuleDict', modules):
            self[name] = module

    def keys(self):
        """The names."""
        return self._modules.keys()

    def values(self):
        """The modules."""
        return self._modules.values()

    def items(self):
        """(name, module) pairs."""
        return self._modules.items()

    def pop(self, key):
        """Remove and return a module."""
        module = self[key]
        del self[key]
        return module

    def clear(self):
        """Remove all modules."""
        self._modules.clear()

    def __getitem__(self, key):
        return self._modules[key]

    def __setitem__(self, key, module):
        self.add_module(key, module)

    def __delitem__(self, key):
        del self._modules[key]
        names_changed(self)

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key):
        return key in self._modules


class Container(Module):
    """Modules by keyword, under an old name of ModuleDict."""

    def __init__(self, **kwargs):
        super().__init__()
        warnings.warn('nn.Container is deprecated. All of it\'s functionality is now implemented in nn.Module. Subclass that '
                      'instead.', FutureWarning, stacklevel=2)
        for name, module in kwargs.items():
            self.add_module(name, module)


def _as_parameter(value):
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _shown(pairs, kind):
    """A line for each value; kind(tensor) names the type of a tensor."""
    lines = []
    for name, value in pairs:
        if isinstance(value, Tensor):
            title = 'Parameter' if isinstance(value, Parameter) else 'Tensor'
            lines.append(f'  ({name}): {title} containing: [{kind(value)} of size {"x".join(map(str, value.shape))}]')
        else:
            lines.append(f'  ({name}): Object of type: {type(value).__name__}')
    return '\n'.join(lines)


class ParameterList(Module):
    """A list of parameters; tensors become parameters, other values are kept as they are."""

    def __init__(self, values=None):
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def append(self, value):
        """Add one at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values):
        """Add several at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f'ParameterList.extend should be called with an iterable, but got {type(values).__name__}')
        for value in values:
            self.append(value)
        return self

    def __iadd__(self, parameters):
        return self.extend(parameters)

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            return type(self)(list(self)[idx])
        return getattr(self, str(_position(self, idx)))

    def __setitem__(self, idx, param):
        setattr(self, str(_position(self, idx)), _as_parameter(param))

    def __len__(self):
        return self._size

    def __iter__(self):
        return iter([getattr(self, str(k)) for k in range(self._size)])

    def extra_repr(self):
        return _shown(enumerate(self), lambda value: value.dtype)

    def __call__(self, *args, **kwargs):
        raise RuntimeError('ParameterList should not be called.')


class ParameterDict(Module):
    """Parameters by name; tensors become parameters, other values are kept as they are."""

    def __init__(self, parameters=None):
        super().__init__()
        self._keys = {}
        if parameters is not None:
            self.update(parameters)

    def update(self, parameters):
        """Add those of a dictionary (a plain one in the order of its sorted keys), or of (name, parameter) pairs."""
        pairs = _pairs('ParametersDict' if not isinstance(parameters, Iterable) else 'ParameterDict', parameters)
        plain = isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict)
        for name, value in sorted(pairs, key=operator.itemgetter(0)) if plain else pairs:
            self[name] = value

    def keys(self):
        """The names."""
        return self._keys.keys()

    def values(self):
        """The parameters."""
        return (self[name] for name in self._keys)

    def items(self):
        """(name, parameter) pairs."""
        return ((name, self[name]) for name in self._keys)

    def get(self, key, default=None):
        """The parameter of that name, or default."""
        return self[key] if key in self else default

    def setdefault(self, key, default=None):
        """The parameter of that name, which becomes default if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key):
        """Remove and return a parameter."""
        value = self[key]
        del self[key]
        return value

    def popitem(self):
        """Remove and return the last (name, parameter) pair."""
        if not self._keys:
            raise KeyError('popitem(): dictionary is empty')
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def clear(self):
        """Remove all parameters."""
        for name in list(self._keys):
            del self[name]

    def copy(self):
        """Another ParameterDict of the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def fromkeys(self, keys, default=None):
        """A new ParameterDict with the same value for all names."""
        return ParameterDict((key, default) for key in keys)

    @staticmethod
    def _key_to_attr(key):
        if not isinstance(key, str):
            raise TypeError(f'Index given to ParameterDict cannot be used as a key as it is not a string (type is '
                            f"'{type(key).__name__}'). Open an issue on github if you need non-string keys.")
        return key

    def __getitem__(self, key):
        return getattr(self, self._key_to_attr(key))

    def __setitem__(self, key, value):
        attribute = self._key_to_attr(key)
        self._keys[key] = None
        setattr(self, attribute, _as_parameter(value))

    def __delitem__(self, key):
        del self._keys[key]
        delattr(self, key)

    def __len__(self):
        return len(self._keys)

    def __iter__(self):
        return iter(self._keys)

    def __reversed__(self):
        return reversed(list(self._keys))

    def __contains__(self, key):
        return key in self._keys

    def __or__(self, other):
        both = self.copy()
        both.update(other)
        return both

    def __ror__(self, other):
        both = other.copy()
        both.update(self)
        return both

    def __ior__(self, other):
        self.update(other)
        return self

    def extra_repr(self):
        return _shown(self.items(), typename)

    def __call__(self, input):
        raise RuntimeError('ParameterDict should not be called.')
