"""torch.overrides: GT has no __torch_function__ protocol, so nothing is ever overridden.

Libraries ask these functions before they call one of PyTorch's: the answers let them go on. A subclass of Tensor that defines
__torch_function__ or __torch_dispatch__ is refused when the class is made.
"""

from gt import _gt

_HOOKS = ('__torch_function__', '__torch_dispatch__')


def has_torch_function(relevant_args) -> bool:
    """False: no argument overrides functions."""
    return False


def has_torch_function_unary(obj) -> bool:
    """False."""
    return False


def has_torch_function_variadic(*relevant_args) -> bool:
    """False."""
    return False


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    """Raises NotImplementedError: call it only if has_torch_function() is True."""
    raise NotImplementedError(f'handle_torch_function({getattr(public_api, "__name__", public_api)}): GT has no __torch_function__')


def is_tensor_like(inp) -> bool:
    """Whether it is a Tensor, or an object with __torch_function__."""
    return isinstance(inp, _gt.Tensor) or hasattr(inp, '__torch_function__')


def is_tensor_method_or_property(func) -> bool:
    """Whether a function or descriptor is one of Tensor's."""
    return any(each is func for each in vars(_gt.Tensor).values()) or getattr(func, '__name__', None) == '__get__'


def resolve_name(f):
    """The name of a function, with its module."""
    return f'{f.__module__}.{f.__name__}' if getattr(f, '__module__', None) and hasattr(f, '__name__') else None


def get_ignored_functions() -> set:
    """An empty set."""
    return set()


def get_overridable_functions() -> dict:
    """An empty dictionary."""
    return {}


def get_testing_overrides() -> dict:
    """An empty dictionary."""
    return {}


def wrap_torch_function(dispatcher):
    """A decorator that returns the function."""
    return lambda func: func


class TorchFunctionMode:
    """Refused: GT has no modes that see every function."""

    def __init__(self):
        raise NotImplementedError('TorchFunctionMode: GT has no __torch_function__; see GT_INSTRUCTION_LOG for what a program does')


def _refuse_hooks(cls, **options):
    """Called when a subclass of Tensor is made."""
    for name in _HOOKS:
        if name in vars(cls):
            raise NotImplementedError(f'{cls.__name__}.{name}: GT does not call it. Subclass Tensor without it, or wrap a tensor in a '
                                      'class of your own')


_gt.Tensor.__init_subclass__ = classmethod(_refuse_hooks)
