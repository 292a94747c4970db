"""What help(), inspect and dir() show of the package.

The docstrings are in gt._documents, which tools/api writes when the package is built: from the first lines in the source,
from texts for parameters, and from examples. A public module ends with

    __dir__ = _help.publish(__name__)

which gives its functions and classes their docstrings. Functions of the type gt.Function look theirs up when asked.
"""

import importlib
import sys
import types

from gt import _gt


def _texts(name):
    """A table of gt._documents; empty if the package was not built completely."""
    try:
        return importlib.import_module('gt._documents.' + name.replace('.', '_')).TEXTS
    except ImportError:
        return {}


class _Arguments:
    """The __signature__ of classes whose constructors Python knows nothing about: exceptions and metaclasses."""

    def __get__(self, instance, owner):
        if instance is not None:  # a class, whose metaclass has this
            raise AttributeError('__signature__')
        import inspect
        return inspect.Signature([inspect.Parameter('args', inspect.Parameter.VAR_POSITIONAL)])


def _describe(value, text):
    if isinstance(value, type) and issubclass(value, (BaseException, type)):
        value.__signature__ = _Arguments()
    if isinstance(value, (types.MethodDescriptorType, types.GetSetDescriptorType, types.BuiltinFunctionType)):
        _gt._document(value, text)
    elif '\n--\n\n' in text:  # a function around a method in C, which has the signature
        _gt._document(value.__wrapped__, text)
        value.__doc__ = text.rpartition('\n--\n\n')[2]
    elif not isinstance(value, _gt.Function):
        value.__doc__ = text


def describe_tensor():
    """Give the methods of Tensor their docstrings and signatures."""
    methods = vars(_gt.Tensor)
    for name, text in _texts('Tensor').items():
        _describe(methods[name], text)


def _is_public(module, name, value, sources):
    if name.startswith('_'):
        return False
    if isinstance(value, types.ModuleType):
        return value.__name__ == f'{module}.{name}'
    where = getattr(value, '__module__', None)
    if where is None:
        return not isinstance(value, (dict, list, tuple))
    return where == module or where.startswith(sources)


def publish(name, *also, sources=None):
    """Give the public functions and classes of a module their docstrings; return its __dir__.

    dir() lists what the module defines, its submodules, and `also`. A package lists what it takes from modules inside it,
    too; another module what it takes from modules whose names begin with `sources`.
    """
    module = sys.modules[name]
    members = vars(module)
    for member, text in _texts(name).items():
        _describe(members[member], text)
    if sources is None:
        sources = '.'.join(name.split('.')[:2]) if hasattr(module, '__path__') else name

    def __dir__():
        return sorted({*also, *(key for key, value in members.items() if _is_public(name, key, value, sources))})
    return __dir__


def doc_of(function):
    """The docstring of a gt.Function."""
    text = _texts(function.__module__ + '.functions').get(function.__name__) or function.__wrapped__.__doc__
    return text.rpartition('\n--\n\n')[2] if text else text


def _without_private(parameters):
    return [each for each in parameters if not each.name.startswith('_')]


def signature_of(function):
    """The signature of a gt.Function: that of its method, whose self is called input, with out=."""
    import inspect
    call = function.__wrapped__
    text = _texts(function.__module__ + '.functions').get(function.__name__, '')
    if '\n--\n\n' in text:  # of a function in C, with its signature
        _gt._document(call, text)
    parameters = _without_private(inspect.signature(call).parameters.values())
    if parameters and parameters[0].name == 'self':
        taken = any(each.name == 'input' for each in parameters)  # searchsorted(sorted_sequence, input)
        if taken:
            parameters[0] = parameters[0].replace(name='sorted_sequence', kind=inspect.Parameter.POSITIONAL_ONLY)
        else:
            parameters[0] = parameters[0].replace(name='input', kind=inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if not function.__name__.endswith('_') and not any(each.name == 'out' for each in parameters):
        out = inspect.Parameter('out', inspect.Parameter.KEYWORD_ONLY, default=None)
        at = len(parameters) - any(each.kind == each.VAR_KEYWORD for each in parameters)
        parameters.insert(at, out)
    return inspect.Signature(parameters)

