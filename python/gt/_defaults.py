"""Settings of the process that PyTorch scripts make: default dtype and device, determinism, threads, precision."""

import os
import warnings

from gt import _gt
from gt.client import device as _devices
from gt.client.device import device as _device
from gt.client.registry import function

_state = {'deterministic': False, 'warn_only': False, 'matmul': 'highest', 'threads': None, 'interop': None,
          'warn_always': False}


@function
def set_default_dtype(d) -> None:
    """set_default_dtype(d): the floating dtype of new tensors without one, and of integers in floating operations."""
    if not isinstance(d, _gt.dtype):
        raise TypeError(f'invalid dtype object: {d!r}')
    _gt._set_default_dtype(d)


@function
def set_default_tensor_type(t) -> None:
    """set_default_tensor_type(t): set_default_dtype by the name or class of a typed tensor: gt.DoubleTensor."""
    from gt._types import dtype_of_type
    set_default_dtype(dtype_of_type(t))


@function
def set_default_device(device) -> None:
    """set_default_device(device): what get_default_device() returns. None: the device of tensors, again.

    The dispatcher places tensors in any case."""
    if device is not None and _device(device).type == 'meta':
        raise NotImplementedError("set_default_device('meta'): GT has no meta device")
    _devices.default[:] = [] if device is None else [_device(device)]


@function
def get_default_device():
    """get_default_device(): the device of `with device(...)` or set_default_device(), else that of all tensors."""
    return _devices.default[-1] if _devices.default else _devices.of_tensors()


@function
def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """use_deterministic_algorithms(mode): recorded. Results do not depend on timing in either case."""
    _state['deterministic'], _state['warn_only'] = bool(mode), bool(warn_only)


@function
def are_deterministic_algorithms_enabled() -> bool:
    """are_deterministic_algorithms_enabled(): the mode of use_deterministic_algorithms()."""
    return _state['deterministic']


@function
def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """is_deterministic_algorithms_warn_only_enabled(): warn_only of use_deterministic_algorithms()."""
    return _state['warn_only']


@function
def set_deterministic_debug_mode(debug_mode) -> None:
    """set_deterministic_debug_mode(debug_mode): 'default', 'warn' or 'error', or 0, 1, 2."""
    modes = {'default': 0, 'warn': 1, 'error': 2}
    if isinstance(debug_mode, str) and debug_mode not in modes:
        raise RuntimeError(f'invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got {debug_mode}')
    number = modes.get(debug_mode, debug_mode)
    if number not in (0, 1, 2):
        raise RuntimeError(f'invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}')
    use_deterministic_algorithms(number > 0, warn_only=number == 1)


@function
def get_deterministic_debug_mode() -> int:
    """get_deterministic_debug_mode(): 0, 1 or 2."""
    return 0 if not _state['deterministic'] else 1 if _state['warn_only'] else 2


@function
def set_float32_matmul_precision(precision: str) -> None:
    """set_float32_matmul_precision(precision): 'highest', 'high' or 'medium'. Other than 'highest' the cuda engine may compute
    products of float32 in TF32; the cpu engine computes them in float32 always."""
    if precision not in ('highest', 'high', 'medium'):
        warnings.warn(f"{precision} is not one of 'highest', 'high', or 'medium'; the current "
                      'set_float32_matmul_precision call has no effect.', stacklevel=2)
        return
    _state['matmul'] = precision
    _gt._set_fast_products(precision != 'highest')


@function
def get_float32_matmul_precision() -> str:
    """get_float32_matmul_precision(): the setting."""
    return _state['matmul']


def _positive(name, number):
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f'{name} expects an int, but got {type(number).__name__}')
    if number <= 0:
        raise RuntimeError(f'{name} expects a positive integer')
    return number


@function
def set_num_threads(num: int) -> None:
    """set_num_threads(num): threads of an embedded server that starts after this; GT_NUM_THREADS does the same."""
    _state['threads'] = _positive('set_num_threads', num)
    os.environ['GT_NUM_THREADS'] = str(num)


@function
def get_num_threads() -> int:
    """get_num_threads(): the number of set_num_threads(), of GT_NUM_THREADS, or of cores."""
    for variable in ('GT_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'OMP_NUM_THREADS'):
        text = os.environ.get(variable, '')
        if text.isdecimal() and int(text) > 0:
            return int(text)
    return len(os.sched_getaffinity(0))


@function
def set_num_interop_threads(num: int) -> None:
    """set_num_interop_threads(num): recorded."""
    _state['interop'] = _positive('set_num_interop_threads', num)


@function
def get_num_interop_threads() -> int:
    """get_num_interop_threads(): the setting, or the number of cores."""
    return _state['interop'] or len(os.sched_getaffinity(0))


@function
def set_warn_always(b: bool) -> None:
    """set_warn_always(b): recorded."""
    _state['warn_always'] = bool(b)


@function
def is_warn_always_enabled() -> bool:
    """is_warn_always_enabled(): the setting."""
    return _state['warn_always']


@function
def set_flush_denormal(mode: bool) -> bool:
    """set_flush_denormal(mode): False, workers keep denormal numbers."""
    return False


@function
def typename(obj) -> str:
    """typename(obj): 'gt.FloatTensor' of a tensor, else the qualified name of the type."""
    if isinstance(obj, _gt.Tensor):
        return obj.type()
    kind = obj if isinstance(obj, type) else type(obj)
    module = getattr(obj, '__module__', None) or kind.__module__
    name = getattr(obj, '__qualname__', None) or getattr(obj, '__name__', None) or kind.__qualname__
    return name if module in ('builtins', None) else f'{module}.{name}'


@function
def is_storage(obj) -> bool:
    """is_storage(obj): False; tensors have no storage object."""
    return False


_CATEGORY = {'bool': 0, 'uint8': 1, 'int8': 1, 'int16': 1, 'int32': 1, 'int64': 1, 'float16': 2, 'bfloat16': 2, 'float32': 2,
             'float64': 2, 'complex64': 3, 'complex128': 3}


@function
def can_cast(from_, to) -> bool:
    """can_cast(from_, to): whether a dtype may be converted in an assignment: not to a lower category."""
    return _CATEGORY[from_.name] <= _CATEGORY[to.name]
