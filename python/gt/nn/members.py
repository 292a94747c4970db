"""The members of a module: parameters, buffers and children, as dictionaries.

A module keeps its members as plain attributes, so that reading one costs no more than any attribute, and notes each
name with its kind in `_members`. Module._parameters, _buffers and _modules are views of these, made when they are read.
"""

from collections.abc import MutableMapping

from gt import Tensor

PARAMETER, BUFFER, MODULE = 'parameter', 'buffer', 'module'


class Members(MutableMapping):
    """The members of one kind, by name, in the order of their registration. Changes change the module."""

    __slots__ = ('owner', 'kind')

    def __init__(self, owner, kind):
        self.owner, self.kind = owner, kind

    def __iter__(self):
        return iter([name for name, kind in self.owner.__dict__['_members'].items() if kind == self.kind])

    def __len__(self):
        return sum(kind == self.kind for kind in self.owner.__dict__['_members'].values())

    def __contains__(self, name):
        return self.owner.__dict__['_members'].get(name) == self.kind

    def __getitem__(self, name):
        if name not in self:
            raise KeyError(name)
        return self.owner.__dict__[name]

    def __setitem__(self, name, value):
        self.owner.__dict__['_members'][name] = self.kind
        self.owner.__dict__[name] = value

    def __delitem__(self, name):
        if name not in self:
            raise KeyError(name)
        forget(self.owner, name)

    def values(self):
        """The members."""
        values = self.owner.__dict__
        return [values[name] for name, kind in values['_members'].items() if kind == self.kind]

    def items(self):
        """(name, member) pairs."""
        values = self.owner.__dict__
        return [(name, values[name]) for name, kind in values['_members'].items() if kind == self.kind]

    def copy(self):
        """A dictionary of the members."""
        return dict(self)

    def move_to_end(self, name):
        """Make a member the last one."""
        members = self.owner.__dict__['_members']
        members[name] = members.pop(name)

    def append(self, tensor):
        """Add a parameter by hand, as modules of the prototype did."""
        values = self.owner.__dict__
        values['_by_hand'] = [*values.get('_by_hand', ()), tensor]

    def __repr__(self):
        return repr(dict(self))


def forget(module, name):
    """Remove a member."""
    module.__dict__['_members'].pop(name, None)
    module.__dict__.pop(name, None)
    module.__dict__.get('_non_persistent_buffers_set', set()).discard(name)


def typename(value):
    """The name of a value's type in errors: 'gt.FloatTensor', 'int', 'collections.deque'."""
    names = {'float32': 'Float', 'float64': 'Double', 'float16': 'Half', 'bfloat16': 'BFloat16', 'int64': 'Long',
             'int32': 'Int', 'int16': 'Short', 'int8': 'Char', 'uint8': 'Byte', 'bool': 'Bool'}
    if isinstance(value, Tensor):
        return f'gt.{names.get(value.dtype.name, "")}Tensor'
    kind = type(value)
    return kind.__qualname__ if kind.__module__ in ('builtins', None) else f'{kind.__module__}.{kind.__qualname__}'
