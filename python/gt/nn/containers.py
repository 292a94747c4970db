"""Modules that hold modules: Sequential, ModuleList, ModuleDict."""

from collections import OrderedDict

from gt.nn.module import Module, indented


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
        """Take the module at a position away."""
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
    """A list of modules, whose parameters are found."""

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
        """Take a module away."""
        module = self[key]
        del self[key]
        return module

    def clear(self):
        """Take all modules away."""
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
