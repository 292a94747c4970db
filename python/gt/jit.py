"""torch.jit: functions and modules run as they are; script() and trace() return what they are given."""

from gt import _help


def script(obj=None, optimize=None, example_inputs=None, _frames_up=0, _rcb=None):
    """The function, class or module itself; also a decorator.

        @gt.jit.script
        def f(x): return x + 1
    """
    return script if obj is None else obj


def trace(func=None, example_inputs=None, *arguments, **options):
    """The function or module itself. It is not called: GT traces nothing."""
    return func


def trace_module(mod, inputs, *arguments, **options):
    """The module itself."""
    return mod


def _same(fn=None, **options):
    """The function itself; also with options, as a decorator."""
    return fn if fn is not None else _same


ignore = unused = export = _same
interface = script_if_tracing = _same


def script_method(fn):
    """The method itself."""
    return fn


def is_scripting() -> bool:
    """False."""
    return False


def is_tracing() -> bool:
    """False."""
    return False


def annotate(the_type, the_value):
    """The value."""
    return the_value


def isinstance(obj, target_type) -> bool:
    """Python's isinstance, for plain types."""
    import builtins
    return builtins.isinstance(obj, target_type)


def freeze(mod, *arguments, **options):
    """The module itself."""
    return mod


optimize_for_inference = freeze


def fork(func, *arguments, **options):
    """Call the function at once; wait() returns its result."""
    return func(*arguments, **options)


def wait(future):
    """The result of fork()."""
    return future


Final = type('Final', (), {'__class_getitem__': classmethod(lambda cls, item: item)})
Attribute = annotate


class ScriptModule:
    """Refused: a base class of TorchScript modules; use nn.Module."""

    def __init__(self, *arguments, **options):
        raise NotImplementedError('gt.jit.ScriptModule: derive from gt.nn.Module instead')


def save(m, f, _extra_files=None):
    """Refused with a hint."""
    raise NotImplementedError('gt.jit.save: GT has no TorchScript files; save model.state_dict() with gt.save()')


def load(f, map_location=None, _extra_files=None, _restore_shapes=False):
    """Refused with a hint."""
    raise NotImplementedError('gt.jit.load: GT has no TorchScript files; load a state_dict with gt.load()')

__dir__ = _help.publish(__name__)
