"""Modules that contain modules or parameters: Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

from collections import OrderedDict

from gt import Tensor
from gt.nn.module import Module, indented
from gt.nn.parameter import Parameter


class _Numbered(Module):
    """Children in a row, named by their positions."""

    def _modules(self):
        return [module for module in self.__dict__.values() if isinstance(module, Module)]

    def _renumber(self, modules):
        for name, _ in self._own(Module):
            delattr(self, name)
        for k, module in enumerate(modules):
            self.add_module(str(k), module)

    def __len__(self):
        return len(self._modules())

    def __iter__(self):
        return iter(self._modules())

    def __getitem__(self, position):
        return self._modules()[position]

    def __setitem__(self, position, module):
        names = [name for name, _ in self._own(Module)]
        setattr(self, names[position], module)

    def __delitem__(self, position):
        modules = self._modules()
        del modules[position]
        self._renumber(modules)

    def append(self, module):
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules):
        """Add modules at the end."""
        for module in modules:
            self.append(module)
        return self

    def insert(self, index, module):
        """Put a module before the one at a position."""
        modules = self._modules()
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def pop(self, key):
        """Remove and return the module at a position."""
        module = self[key]
        del self[key]
        return module


class Sequential(_Numbered):
    """Modules one after the other: Sequential(a, b) computes b(a(x)). An OrderedDict gives them names."""

    def __init__(self, *modules):
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], OrderedDict):
            for name, module in modules[0].items():
                self.add_module(name, module)
        else:
            self.extend(modules)

    def forward(self, input):
        for module in self.__dict__.values():
            if isinstance(module, Module):
                input = module(input)
        return input

    def __getitem__(self, position):
        if isinstance(position, slice):
            return type(self)(OrderedDict(self._own(Module)[position]))
        return super().__getitem__(position)


class ModuleList(_Numbered):
    """A list of modules; parameters() finds theirs."""

    def __init__(self, modules=()):
        super().__init__()
        self.extend(modules)

    def __getitem__(self, position):
        found = super().__getitem__(position)
        return type(self)(found) if isinstance(position, slice) else found

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
    """Modules by name."""

    def __init__(self, modules=None):
        super().__init__()
        self.update(modules or {})

    def update(self, modules):
        """Add the modules of a dictionary, or of (name, module) pairs."""
        for name, module in modules.items() if hasattr(modules, 'items') else modules:
            self[name] = module

    def keys(self):
        """The names."""
        return dict(self._own(Module)).keys()

    def values(self):
        """The modules."""
        return dict(self._own(Module)).values()

    def items(self):
        """(name, module) pairs."""
        return dict(self._own(Module)).items()

    def pop(self, key):
        """Remove and return a module."""
        module = self[key]
        del self[key]
        return module

    def clear(self):
        """Remove all modules."""
        for name in list(self):
            del self[name]

    def __getitem__(self, name):
        return dict(self._own(Module))[name]

    def __setitem__(self, name, module):
        self.add_module(name, module)

    def __delitem__(self, name):
        delattr(self, name)

    def __len__(self):
        return len(self.keys())

    def __iter__(self):
        return iter(self.keys())

    def __contains__(self, name):
        return name in self.keys()


def _as_parameter(value):
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _shown(pairs):
    return '\n'.join(f'({name}): {type(value).__name__} containing: [{value.dtype} of size '
                     f'{"x".join(map(str, value.shape))}]' for name, value in pairs)


class ParameterList(Module):
    """A list of parameters; tensors become parameters."""

    def __init__(self, values=()):
        super().__init__()
        self._size = 0
        self.extend(values)

    def append(self, value):
        """Add one at the end."""
        setattr(self, str(self._size), _as_parameter(value))
        self._size += 1
        return self

    def extend(self, values):
        """Add several at the end."""
        for value in values:
            self.append(value)
        return self

    def _place(self, position):
        if not -self._size <= position < self._size:
            raise IndexError(f'index {position} is out of range')
        return str(position % self._size)

    def __getitem__(self, position):
        if isinstance(position, slice):
            return type(self)(list(self)[position])
        return getattr(self, self._place(position))

    def __setitem__(self, position, value):
        setattr(self, self._place(position), _as_parameter(value))

    def __len__(self):
        return self._size

    def __iter__(self):
        return iter([getattr(self, str(k)) for k in range(self._size)])

    def extra_repr(self):
        return _shown(enumerate(self))


class ParameterDict(Module):
    """Parameters by name; tensors become parameters."""

    def __init__(self, parameters=None):
        super().__init__()
        self._names = []
        self.update(parameters or {})

    def update(self, parameters):
        """Add those of a dictionary, or of (name, parameter) pairs."""
        for name, value in parameters.items() if hasattr(parameters, 'items') else parameters:
            self[name] = value

    def keys(self):
        """The names."""
        return list(self._names)

    def values(self):
        """The parameters."""
        return [getattr(self, name) for name in self._names]

    def items(self):
        """(name, parameter) pairs."""
        return list(zip(self._names, self.values()))

    def get(self, key, default=None):
        """The parameter of that name, or default."""
        return getattr(self, key) if key in self else default

    def pop(self, key):
        """Remove and return a parameter."""
        value = self[key]
        del self[key]
        return value

    def __getitem__(self, name):
        if name not in self:
            raise KeyError(name)
        return getattr(self, name)

    def __setitem__(self, name, value):
        if name not in self:
            self._check_name(name)
            self._names.append(name)
        setattr(self, name, _as_parameter(value))

    def __delitem__(self, name):
        self._names.remove(name)
        delattr(self, name)

    def __len__(self):
        return len(self._names)

    def __iter__(self):
        return iter(self.keys())

    def __contains__(self, name):
        return name in self._names

    def extra_repr(self):
        return _shown(self.items())
