"""autocast: matrix products and convolutions in a narrow dtype, sensitive functions in float32.

Which functions are cast follows PyTorch's lists: that of its CPU for device_type 'cpu', that of its GPU for the others.
The client casts single operations as it emits them (src/client/intercept.c); policies.py wraps composed functions.
"""

import contextlib
import functools
import warnings

from gt import _gt, _help
from gt.amp.policies import active, install_late

_CPU, _CUDA = 0, 1
_DEVICES = {'cpu': _CPU, 'gt': _CPU, 'cuda': _CUDA, 'mps': _CUDA, 'xpu': _CUDA}
_DTYPES = (_gt.bfloat16, _gt.float16)
_cache = [True]


def _device(device_type):
    if not isinstance(device_type, str):
        raise ValueError(f'Expected `device_type` of type `str`, got: `{type(device_type)}`')
    kind = device_type.partition(':')[0]
    if kind not in _DEVICES:
        raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
    return _DEVICES[kind]


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast exists for a device type: 'cpu', 'cuda', 'mps', 'xpu', 'gt'."""
    if not isinstance(device_type, str):
        raise TypeError(f'is_autocast_available(): device_type must be str, not {type(device_type).__name__}')
    return device_type in _DEVICES


def is_autocast_enabled(device_type: str = 'cuda') -> bool:
    """Whether autocast is on for a device type, in this thread."""
    return _gt._autocast()[_device(device_type)][0]


def get_autocast_dtype(device_type: str):
    """The dtype that autocast casts to: bfloat16 for 'cpu' and float16 for others, unless set."""
    return _gt._autocast()[_device(device_type)][1]


def _set(device, enabled, dtype):
    before = _gt._autocast()[device]
    _gt._set_autocast(device, enabled, dtype)
    if bool(enabled) != before[0]:
        if enabled:
            install_late()
        active.append(None) if enabled else active.pop()
    return before


def set_autocast_enabled(device_type, enabled=None) -> None:
    """set_autocast_enabled(device_type, enabled), or set_autocast_enabled(enabled) for 'cuda'."""
    if enabled is None:
        device_type, enabled = 'cuda', device_type
    device = _device(device_type)
    _set(device, enabled, _gt._autocast()[device][1])


def set_autocast_dtype(device_type: str, dtype) -> None:
    """Set the dtype that autocast casts to."""
    device = _device(device_type)
    _set(device, _gt._autocast()[device][0], dtype)


def is_autocast_cache_enabled() -> bool:
    """The setting of cache_enabled; casts are never kept, so it has no effect."""
    return _cache[0]


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Set what is_autocast_cache_enabled() returns."""
    _cache[0] = bool(enabled)


def clear_autocast_cache() -> None:
    """Does nothing: casts are not kept."""


class autocast:
    """A context manager or decorator in which some operations run in a narrow dtype.

    device_type: 'cpu' or 'cuda', which chooses PyTorch's list; dtype: bfloat16 or float16 (the default of 'cuda').

        with gt.autocast('cpu', dtype=gt.bfloat16):
            y = model(x)        # products in bfloat16
    """

    def __init__(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        self._device = _device(device_type)
        self.device, self.device_type = device_type, device_type
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else _gt.dtype(dtype)
        self._cache_enabled = _cache[0] if cache_enabled is None else bool(cache_enabled)
        if enabled and self.fast_dtype not in _DTYPES:
            name = device_type.upper() if self._device == _CPU else device_type
            warnings.warn(f'In {name} autocast, but the target dtype is not supported. Disabling autocast.\n'
                          f'{name} Autocast only supports dtype of {_gt.bfloat16!r}, {_gt.float16!r} currently.',
                          stacklevel=2)
            enabled = False
        self._enabled = bool(enabled)
        self._before = []

    def __enter__(self):
        dtype = self.fast_dtype if self.fast_dtype in _DTYPES else _gt._autocast()[self._device][1]
        self._before.append((_set(self._device, self._enabled, dtype), _cache[0]))
        _cache[0] = self._cache_enabled
        return self

    def __exit__(self, *exception):
        state, _cache[0] = self._before.pop()
        _set(self._device, *state)
        return False

    def __call__(self, function):
        @functools.wraps(function)
        def wrapped(*arguments, **options):
            with self:
                return function(*arguments, **options)
        return wrapped


@contextlib.contextmanager
def _restored(states):
    """A context with the autocast of another time: what gt._gt._autocast() returned then."""
    before = [_set(device, *state) for device, state in enumerate(states)]
    try:
        yield
    finally:
        for device, state in enumerate(before):
            _set(device, *state)


def _cast(value, dtype):
    """Floating tensors (not float64) in a nest of containers, cast."""
    if isinstance(value, _gt.Tensor):
        return value.to(dtype) if value.is_floating_point() and value.dtype != _gt.float64 else value
    if isinstance(value, dict):
        return {_cast(key, dtype): _cast(item, dtype) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, '_fields'):
        return type(value)(_cast(item, dtype) for item in value)
    return value


def custom_fwd(fwd=None, *, device_type: str, cast_inputs=None):
    """Decorate forward() of an autograd.Function: its inputs are cast to cast_inputs, and autocast is off inside.

    Without cast_inputs it runs under the current autocast; custom_bwd runs backward() in the same state.
    """
    device = _device(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(*arguments, **options):
        ctx = arguments[0]
        ctx._dtype = _gt._autocast()[device][1]
        if cast_inputs is None:
            ctx._fwd_used_autocast = _gt._autocast()[device][0]
            return fwd(*arguments, **options)
        on = _gt._autocast()[device][0]
        ctx._fwd_used_autocast = False
        if not on:
            return fwd(*arguments, **options)
        with autocast(device_type, enabled=False):
            return fwd(*_cast(arguments, cast_inputs), **_cast(options, cast_inputs))
    return decorated


def custom_bwd(bwd=None, *, device_type: str):
    """Decorate backward() of an autograd.Function whose forward() has custom_fwd: it runs in the same autocast state."""
    _device(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(*arguments, **options):
        ctx = arguments[0]
        with autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return bwd(*arguments, **options)
    return decorated


__dir__ = _help.publish(__name__)
