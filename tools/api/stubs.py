"""Writes a stub (*.pyi) for every module of the package, so that type checkers know the types of its functions.

The parts of a stub come from the module itself: what it defines, what it takes from other modules, its classes with their
methods and attributes. typed.py finds the types.
"""

import abc
import ast
import enum
import inspect
import sys
import textwrap
import types
import typing

import typed
import walk
from typed import Parameter, Signature

HEADER = '''\
# Written by tools/api when the package is built.
from builtins import (
    bool as _bool, complex as _complex, float as _float, int as _int, object as _object, slice as _slice, str as _str,
    type as _type)
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, Literal, NamedTuple, Self, SupportsIndex, TypeVar, final, overload

'''
# Types that signatures name, and where stubs import them from.
COMMON = {
    'Tensor': 'gt._gt', 'Size': 'gt._gt', '_dtype': ('gt._gt', 'dtype'), 'Device': 'gt._typing',
    'Dims': 'gt._typing', 'Index': 'gt._typing', 'Number': 'gt._typing', 'Operand': 'gt._typing', 'Tensors': 'gt._typing',
    '_device': ('gt.client.device', 'device'), 'Generator': 'gt.client.random', 'RemovableHandle': 'gt.autograd.graph',
    '_layout': ('gt.sparse', 'layout'), '_memory_format': ('gt._formats', 'memory_format'),
    'Parameter': 'gt.nn.parameter', 'Module': 'gt.nn.module', 'Optimizer': 'gt.optim.optimizer',
    'Distribution': 'gt.distributions.distribution', 'PackedSequence': 'gt.nn.utils.rnn',
    'Dataset': 'gt.utils.data.dataset', 'Sampler': 'gt.utils.data.sampler', 'Constraint': 'gt.distributions.constraints',
    'Transform': 'gt.distributions.transforms', 'return_types': 'gt', 'ndarray': 'gt._typing'}
# Modules whose source says enough.
INLINE = {'gt._typing', 'gt.multiprocessing', 'gt.nn.common_types', 'gt.types', 'gt.utils._pytree', 'gt.utils.benchmark', 'gt.utils.data.dataset', 'gt.utils.data.sampler', 'gt.utils.tensorboard',
          'gt.config', 'gt.version', 'gt._einops_layers'}
# Modules whose functions return a tensor unless results.txt says otherwise.
OF_TENSORS = ('gt', 'gt.client.', 'gt.fft', 'gt.linalg', 'gt.special', 'gt.masked', 'gt.nn.', 'gt.sparse')
SPECIAL = ('__init__', '__new__', '__call__', '__len__', '__getitem__', '__setitem__', '__delitem__', '__iter__', '__next__',
           '__contains__', '__enter__', '__exit__', '__add__', '__iadd__', '__or__', '__ior__', '__ror__', '__reversed__',
           '__getattr__', '__eq__', '__hash__', '__sub__', '__rsub__', '__radd__', '__mul__', '__rmul__', '__imul__',
           '__matmul__', '__rmatmul__', '__truediv__', '__neg__', '__get__', '__class_getitem__', '__deepcopy__')


def read_results():
    """{name: type of the result} of results.txt: gt.module.function, Class.method, or a method of any class."""
    found = {}
    for line in (typed.HERE / 'results.txt').read_text().splitlines():
        if line and not line.startswith('#'):
            names, kind = line.split(' : ')
            for name in names.split(', '):
                found[name.strip()] = kind.strip()
    return found


RESULTS = read_results()
ROWS = {}  # the op table: name: form
PROBLEMS = []  # what a new function still needs, in words


# ---- the signatures of names -----------------------------------------------------------------------------------

def method_signatures(name):
    """The overloads of a method of Tensor."""
    import gt
    if 'Tensor.' + name in typed.SIGNATURES:
        return typed.SIGNATURES['Tensor.' + name]
    value = getattr(gt.Tensor, name)
    base = name[:-1] if name.endswith('_') else name
    wrapped = getattr(value, '__wrapped__', None)
    around = isinstance(wrapped, types.MethodDescriptorType) and wrapped.__name__ == name
    if isinstance(value, types.MethodDescriptorType) or around:
        row = typed.of_row(name, ROWS.get(typed.ALIASES.get(base, base)))
        if row:
            return [row]
        if 'Tensor.' + base in typed.SIGNATURES:
            return [Signature(each.parameters, 'Self') for each in typed.SIGNATURES['Tensor.' + base]]
        PROBLEMS.append(f'Tensor.{name} is written in C: give its signature in tools/api/signatures.pyi')
        return [Signature((Parameter('self', '', ''), Parameter('args', '*', 'Any'), Parameter('kwargs', '**', 'Any')), 'Any')]
    if isinstance(wrapped, types.MethodDescriptorType):
        result = 'Self' if name.endswith('_') else None
        return [Signature(each.parameters, result or each.result) for each in method_signatures(wrapped.__name__)]
    result = RESULTS.get('Tensor.' + name, 'Self' if name.endswith('_') else 'Tensor')
    return [typed.of_runtime(value, ('Tensor.' + name, 'Tensor'), result, True)]


def function_signatures(module, name, value):
    """The overloads of a function of a module."""
    import gt
    if isinstance(value, gt._gt.Function):
        method = getattr(value.__wrapped__, '__name__', '')
        if getattr(gt.Tensor, method, None) is value.__wrapped__:
            return [typed.as_function(each) for each in method_signatures(method)]
        wrapped = getattr(value.__wrapped__, '__wrapped__', None)
        if isinstance(wrapped, types.MethodDescriptorType):
            return [typed.as_function(each) for each in method_signatures(wrapped.__name__)]
    if module in ('gt', 'gt._gt') and name in typed.SIGNATURES:
        return typed.SIGNATURES[name]
    if isinstance(value, types.BuiltinFunctionType):
        return [Signature((Parameter('args', '*', 'Any'), Parameter('kwargs', '**', 'Any')), 'Any')]
    tensors = module.startswith(OF_TENSORS[1:]) or module == 'gt'
    home = walk.home(module, value)
    result = RESULTS.get(f'{module}.{name}') or RESULTS.get(f'{home}.{name}') or ('Tensor' if tensors else 'Any')
    return [typed.of_runtime(value, (f'{home}.{name}', home, module), result)]


# ---- text ------------------------------------------------------------------------------------------------------

def function_text(name, signatures, indent='', decorator=''):
    """The definition, or definitions, of a function in a stub."""
    lines = []
    for each in signatures:
        if len(signatures) > 1:
            note = f'  {each.note}' if each is signatures[0] and each.note else ''
            lines.append(f'{indent}@overload{note}')
        if decorator:
            lines.append(f'{indent}{decorator}')
        note = f'  {each.note}' if each.note and len(signatures) == 1 else ''
        lines.append(f'{indent}def {name}({typed.parameters_text(each)}) -> {typed.type_text(each.result)}: ...{note}')
    return lines


SUBCLASSABLE = 1 << 10  # Py_TPFLAGS_BASETYPE
WRITABLE = ('data', 'grad', 'requires_grad')  # attributes of Tensor that can be assigned


def attribute_lines(name):
    """The attributes of a class of the extension; most are read-only."""
    lines, cls = [], getattr(walk.module('gt._gt'), name)
    for attribute, kind in typed.ATTRIBUTES[name].items():
        if not hasattr(cls, attribute):
            continue
        descriptor = vars(cls).get(attribute)
        if attribute in WRITABLE or not hasattr(descriptor, '__get__'):
            lines.append(f'    {attribute}: {typed.type_text(kind)}')
        else:
            lines += ['    @property', f'    def {attribute}(self) -> {typed.type_text(kind)}: ...']
    return lines


def tensor_text():
    """class Tensor."""
    import gt
    lines = ['class Tensor:']
    lines += attribute_lines('Tensor')
    done = set()
    for key, signatures in typed.SIGNATURES.items():
        if key.startswith('Tensor.') and hasattr(gt.Tensor, key[7:]):
            done.add(key[7:])
            lines += function_text(key[7:], signatures, '    ')
    for name, value in walk.tensor_methods():
        if name not in done:
            lines += function_text(name, method_signatures(name), '    ')
    return lines


def table_class_text(name):
    """A class of the extension, as signatures.pyi has it."""
    bases = ', '.join(map(typed.type_text, typed.BASES[name]))
    lines = ['@final'] if not getattr(walk.module('gt._gt'), name).__flags__ & SUBCLASSABLE else []
    lines.append(f'class {name}({bases}):' if bases else f'class {name}:')
    lines += attribute_lines(name)
    for key, signatures in typed.SIGNATURES.items():
        if key.startswith(name + '.'):
            lines += function_text(key[len(name) + 1:], signatures, '    ')
    return lines if lines[-1].startswith(' ') else [*lines[:-1], lines[-1] + ' ...']


def _instance_attributes(cls):
    """{name: type} of what __init__ assigns to self."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls.__init__)))
    except (OSError, TypeError):
        return {}
    scopes = _class_scopes(cls)
    found = {}
    parameters = inspect.signature(cls.__init__).parameters
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        for target in targets:
            values = [node.value]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple) and len(target.elts) == len(node.value.elts):
                pairs = zip(target.elts, node.value.elts)
            else:
                pairs = [(part, None) for part in target.elts] if isinstance(target, ast.Tuple) else [(target, values[0])]
            for part, value in pairs:
                if not (isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == 'self'):
                    continue
                name, kind = part.attr, 'Any'
                text = ast.unparse(value) if value is not None else ''
                if text.startswith('Parameter('):
                    kind = 'Parameter'
                elif text == name and name in parameters:
                    entry = typed.known(scopes, name)
                    kind = entry[0] if entry else 'Any'
                    if parameters[name].default is None and kind != 'Any' and 'None' not in kind:
                        kind += ' | None'
                found[name] = kind
    return found


def _class_scopes(cls):
    home = walk.home(cls.__module__, cls)
    return (f'{home}.{cls.__name__}', home, home + '.classes')


def _result(cls, name, default='Any'):
    for base in cls.__mro__:
        if f'{base.__name__}.{name}' in RESULTS:
            return RESULTS[f'{base.__name__}.{name}']
    return RESULTS.get('.' + name, default)


# Methods of classes whose parameters mean what they mean in functions of tensors.
OF_TENSORS_TOO = ('__init__', 'forward', 'log_prob', 'cdf', 'icdf', 'log_abs_det_jacobian')


def _loose(parameter):
    loose = any(kind in parameter.type for kind in ('Tensor', 'Operand', 'Dims'))
    return typed.replace(parameter, type='Any') if loose else parameter


def _is_plain_somewhere(cls, name):
    """Whether a class of this family has a plain attribute where others have a property."""
    root = [base for base in cls.__mro__ if name in vars(base)][-1]
    return any(name in vars(each) and not isinstance(vars(each)[name], property) for each in (root, *_subclasses(root)))


def _member_lines(cls, name, value):
    scopes = (f'{cls.__name__}.{name}', *_class_scopes(cls))
    decorator = ''
    if isinstance(value, property) and _is_plain_somewhere(cls, name):
        return [f'    {name}: {typed.type_text(_result(cls, name))}']
    if isinstance(value, property):
        lines = ['    @property', f'    def {name}(self) -> {typed.type_text(_result(cls, name))}: ...']
        if value.fset:
            lines += [f'    @{name}.setter', f'    def {name}(self, value: Any) -> None: ...']
        return lines
    is_method = True
    if isinstance(value, staticmethod) and name != '__new__':
        decorator, value, is_method = '@staticmethod', value.__func__, False
    elif isinstance(value, staticmethod):
        value = value.__func__
    elif isinstance(value, classmethod):
        decorator, value = '@classmethod', value.__func__
    if not callable(value) or isinstance(value, type):
        kind = type(value).__name__ if type(value) in (bool, int, float, str) else 'Any'
        return [f'    {name}: {typed.type_text(_result(cls, name, kind))}']
    if f'{cls.__name__}.{name}' in VARIABLES:
        return [f'    {name}: {VARIABLES[f"{cls.__name__}.{name}"]}']
    if not inspect.isroutine(value):
        return [f'    {name}: Any']
    signature = typed.of_runtime(value, scopes, _result(cls, name), is_method)
    if name not in OF_TENSORS_TOO:
        signature = Signature(tuple(_loose(each) for each in signature.parameters), signature.result)
    if name in ('__add__', '__iadd__', '__or__', '__ior__', '__ror__'):
        signature = Signature((signature.parameters[0], Parameter('other', '/', 'Any')), signature.result)
    if name in ('__contains__', '__eq__'):
        signature = Signature((signature.parameters[0], Parameter('other', '/', 'object')), 'bool')
    note = NOTES.get(f'{cls.__name__}.{name}', '')
    return function_text(name, [Signature(signature.parameters, signature.result, note)], '    ', decorator)


# Methods that subclasses define with parameters of their own.
VARIABLES = dict.fromkeys(('_Loss.forward', 'Module.forward', 'Function.forward', 'Function.backward', 'Function.vmap'),
                          'Callable[..., Any]')
# Methods whose parameters differ from those of the method they override, as in PyTorch.
NOTES = {
    **dict.fromkeys(('dependent_property.__call__', '_DependentProperty.__call__', 'LBFGS.step', 'ChainedScheduler.step',
                     'ReduceLROnPlateau.step', 'SequentialLR.step'), '# type: ignore[override]'),
    **dict.fromkeys(('MixtureSameFamily.cdf', 'MixtureSameFamily.log_prob', '_Dependent.check', '_Half.icdf',
                     '_Multinomial.check'),
                    '# pyright: ignore[reportIncompatibleMethodOverride]')}


def _subclasses(cls):
    for each in cls.__subclasses__():
        yield each
        yield from _subclasses(each)


def _is_plain_tuple(cls):
    """Whether a class is a named tuple without methods of its own."""
    own = {name for name in vars(cls) if not name.startswith('_')} if hasattr(cls, '_fields') else ()
    return hasattr(cls, '_fields') and issubclass(cls, tuple) and own <= set(cls._fields)


def class_text(cls, name_of, name):
    """A class that is written in Python."""
    if _is_plain_tuple(cls):
        kind = 'Tensor' if cls.__module__ in ('gt.return_types', 'gt.linalg') else 'Any'
        return [f'class {name}(NamedTuple):',
                *(f"    {field}: {kind}{' = ...' if field in cls._field_defaults else ''}" for field in cls._fields)]
    bases = [name_of(base) for base in cls.__bases__ if base is not object]
    if type(cls) not in (type, abc.ABCMeta, enum.EnumMeta):
        bases.append(f'metaclass={name_of(type(cls))}')
    lines = [f"class {cls.__name__}({', '.join(bases)}):" if bases else f'class {cls.__name__}:']
    if issubclass(cls, enum.Enum):
        return lines + [f'    {each.name} = {each.value!r}' for each in cls]
    own = {name: value for name, value in vars(cls).items()
           if name in SPECIAL or not name.startswith('_') and name not in ('T_destination',)}
    own.pop('__hash__', None) if cls.__hash__ is None else None
    attributes = _instance_attributes(cls) if '__init__' in vars(cls) else {}
    inherited = {name for base in cls.__mro__[1:] for name in vars(base)}
    for name, kind in attributes.items():
        if name.startswith('_') or name in own or name in inherited:
            continue
        lines.append(f'    {name}: {typed.type_text(_result(cls, name, kind))}')
    for name, annotation in vars(cls).get('__annotations__', {}).items():
        if not name.startswith('_') and name not in own and name not in attributes:
            lines.append(f'    {name}: {typed.type_text(_result(cls, name))}')
    for name, value in own.items():
        lines += _member_lines(cls, name, value)
    return lines if len(lines) > 1 else [lines[0] + ' ...']


def home_of(value):
    """The name of the module that an object says it comes from, or None."""
    home = getattr(value, '__module__', None)
    return 'gt._gt' if isinstance(value, type) and not isinstance(home, str) else home


# ---- one module ------------------------------------------------------------------------------------------------

GENERIC = {'OrderedDict': '[Any, Any]', 'MutableMapping': '[Any, Any]', 'dict': '[Any, Any]', 'list': '[Any]',
           'tuple': '[Any, ...]', 'Sampler': '[Any]', 'Dataset': '[Any]'}


class Stub:
    """The stub of one module: definitions, and the imports that they need."""

    def __init__(self, name):
        self.name, self.module = name, walk.module(name)
        self.imports, self.lines = set(), []  # imports: (module, name, name here, whether users see it)

    def where(self, value, name):
        """(module, name) that an object is imported from, or None if this module defines it."""
        home, own = home_of(value), getattr(value, '__name__', name)
        if home == 'gt' and getattr(walk.module('gt._gt'), own, None) is value:
            home = 'gt._gt'
        if not home or home == self.name or home not in walk.all_modules():
            return None
        return (home, own) if getattr(walk.module(home), own, None) is value else None

    def name_of(self, cls):
        """How the stub writes a base class; imports it if needed."""
        return self.plain_name_of(cls) + GENERIC.get(cls.__name__, '')

    def plain_name_of(self, cls):
        if cls is typing.Generic:
            return 'Generic[_T]'
        if cls is types.ModuleType:
            self.imports.add(('types', 'ModuleType', '_ModuleType', False))
            return '_ModuleType'
        if cls.__module__ == 'builtins':
            return typed.type_text(cls.__name__)
        found = self.where(cls, cls.__name__)
        if found:
            alias = found[1] if vars(self.module).get(found[1], cls) is cls else '_' + found[1]
            self.imports.add((*found, alias, False))
            return alias
        if cls.__module__ != self.name:
            if cls.__module__ == 'typing' or not hasattr(sys.modules.get(cls.__module__), cls.__name__):
                return 'Any'
            self.imports.add((cls.__module__, cls.__name__, '_' + cls.__name__, False))
            return '_' + cls.__name__
        return next((name for name, value in vars(self.module).items() if value is cls), cls.__name__)

    def add(self, name, value):
        """One name of the module."""
        if isinstance(value, types.ModuleType):
            if value.__name__ == f'{self.name}.{name}' or value.__name__ in walk.PUBLIC:
                parent, _, child = value.__name__.rpartition('.')
                if value.__name__ not in walk.all_modules():
                    self.lines.append(f'{name}: Any')
                elif parent.startswith('gt'):
                    self.imports.add((parent, child, name, True))
            return
        if type(value).__module__ == 'typing':
            return
        if self.name == 'gt._gt' and name in typed.BASES:
            self.lines += tensor_text() if name == 'Tensor' else table_class_text(name)
            return
        is_object = inspect.isroutine(value) or isinstance(value, type)
        if is_object:
            found = self.where(value, name)
            if found:
                self.imports.add((*found, name, True))
                return
            home = home_of(value)
            if home not in (self.name, 'gt', None) and not (home or '').startswith('gt'):
                return
        if isinstance(value, type):
            if value.__name__ == name or _is_plain_tuple(value):
                self.lines += class_text(value, self.name_of, name)
            else:
                self.lines.append(f'{name} = {value.__name__}')
        elif inspect.isroutine(value):
            own = getattr(value, '__name__', name)
            if own != name and getattr(self.module, own, None) is value and not own.startswith('_'):
                self.lines.append(f'{name} = {own}')
            else:
                self.lines += function_text(name, function_signatures(self.name, name, value))
        else:
            self.lines.append(f'{name}: {self.value_type(value, name)}')

    def value_type(self, value, name):
        """The type of a constant."""
        if f'{self.name}.{name}' in RESULTS:
            return typed.type_text(RESULTS[f'{self.name}.{name}'])
        kind = type(value)
        if kind in (bool, int, float, str):
            return '_' + kind.__name__
        if kind.__module__.startswith('gt') and kind.__name__ in ('dtype', 'layout', 'memory_format'):
            return '_' + kind.__name__
        return 'Any'

    def text(self):
        """The whole stub."""
        for name in sorted({*vars(self.module), *dir(self.module)}, key=self.order):
            value = getattr(self.module, name, None)
            private = name.startswith('_') and name != '__version__'
            if private and not (isinstance(value, type) and value.__module__ == self.name):
                continue
            self.add(name, value)
        body = '\n'.join(self.lines)
        words = set(typed.re.findall(r'\w+', body))
        known = {alias for _, _, alias, _ in self.imports}
        for name, source in COMMON.items():
            source, own = source if isinstance(source, tuple) else (source, name)
            if name in words and name not in known and not (source == self.name and name == own) and f'class {name}' not in body:
                self.imports.add((source, own, name, False))
        shown = {entry[:3] for entry in self.imports if entry[3]}
        lines = {f'from {source} import {own}' + (f' as {alias}' if (source, own, alias) in shown or own != alias else '')
                 for source, own, alias, _ in self.imports}
        if hasattr(self.module, '__all__'):
            body = f'__all__ = {sorted(self.module.__all__)!r}\n' + body
        if 'Generic[_T]' in body:
            body = "_T = TypeVar('_T', covariant=True)\n" + body
        return HEADER + '\n'.join(sorted(lines)) + '\n\n' + body + '\n'

    def order(self, name):
        """Definitions in alphabetical order, constants first."""
        return name


def write(folder):
    """Write all stubs below a folder."""
    import gt
    ROWS.update({name: form for name, form, *_ in gt._gt.op_table()})
    for name in walk.all_modules():
        if name in INLINE:
            continue
        module = walk.module(name)
        path = folder.joinpath(*name.split('.'))
        path = path / '__init__.pyi' if hasattr(module, '__path__') else path.with_suffix('.pyi')
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(Stub(name).text())
    (folder / 'gt' / 'py.typed').write_text('')
