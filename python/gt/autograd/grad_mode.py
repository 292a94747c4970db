"""no_grad() and the like, as context managers or decorators, say which operations are recorded."""

import functools
import inspect
import threading
import warnings

from gt import _gt, _help


def _in_mode(function, mode):
    """Wrap a function so that its operations are recorded or not. Of a generator, only the steps run in that mode."""
    if inspect.isgeneratorfunction(function):
        @functools.wraps(function)
        def wrapped(*args, **keywords):
            steps = function(*args, **keywords)
            resume, value = steps.send, None
            while True:
                before = _gt._set_grad_enabled(mode)
                try:
                    given = resume(value)
                except StopIteration as end:
                    return end.value
                finally:
                    _gt._set_grad_enabled(before)
                try:
                    resume, value = steps.send, (yield given)
                except GeneratorExit:
                    steps.close()
                    raise
                except BaseException as error:
                    resume, value = steps.throw, error
    else:
        @functools.wraps(function)
        def wrapped(*args, **keywords):
            before = _gt._set_grad_enabled(mode)
            try:
                return function(*args, **keywords)
            finally:
                _gt._set_grad_enabled(before)
    return wrapped


def _decorated(function, mode):
    """The function in that mode; of a class, its __init__, with the warning that PyTorch gives."""
    if not inspect.isclass(function):
        return _in_mode(function, mode)
    warnings.warn('Decorating classes is deprecated and will be disabled in future versions. You should only decorate '
                  'functions or methods. To preserve the current behavior of class decoration, you can directly decorate '
                  'the `__init__` method and nothing else.', FutureWarning, stacklevel=3)
    function.__init__ = _in_mode(function.__init__, mode)
    return function


class set_grad_enabled:
    """Switch recording on or off: from here on, in a `with` block, or in a decorated function."""

    def __init__(self, mode):
        self.mode = bool(mode)
        self.before = _gt._set_grad_enabled(self.mode)

    def __enter__(self):
        _gt._set_grad_enabled(self.mode)
        return self

    def __exit__(self, *exception):
        _gt._set_grad_enabled(self.before)

    def __call__(self, function):
        _gt._set_grad_enabled(self.before)
        return _decorated(function, self.mode)


class _Mode:
    """A context manager and decorator; nests and may be entered several times."""

    mode = False

    def __init__(self):
        self.before = []

    def __enter__(self):
        self.before.append(_gt._set_grad_enabled(self.mode))
        return self

    def __exit__(self, *exception):
        _gt._set_grad_enabled(self.before.pop())

    def __call__(self, function):
        return _decorated(function, self.mode)


class no_grad(_Mode):
    """Do not record operations."""

    def __new__(cls, function=None):
        mode = super().__new__(cls)
        if function is None:
            return mode
        mode.__init__()
        return mode(function)

    def __init__(self, function=None):
        super().__init__()


class enable_grad(no_grad):
    """Record operations, also inside no_grad()."""

    mode = True


_inference = threading.local()


def is_inference_mode_enabled() -> bool:
    """Whether this thread is in inference_mode()."""
    return getattr(_inference, 'on', False)


class inference_mode(_Mode):
    """no_grad(); tensors made inside can be used as any other afterwards. inference_mode(False) records."""

    def __new__(cls, mode=True):
        if isinstance(mode, bool):
            return super().__new__(cls)
        made = super().__new__(cls)
        made.__init__()
        return made(mode)

    def __init__(self, mode=True):
        super().__init__()
        self.mode, self._inside = not mode, []

    def __call__(self, function):
        inner = super().__call__(function)
        if inspect.isclass(function) or inspect.isgeneratorfunction(function):
            return inner

        @functools.wraps(function)
        def wrapped(*args, **keywords):
            with inference_mode(not self.mode):
                return function(*args, **keywords)
        return wrapped

    def __enter__(self):
        self._inside.append(is_inference_mode_enabled())
        _inference.on = not self.mode
        return super().__enter__()

    def __exit__(self, *exception):
        _inference.on = self._inside.pop()
        super().__exit__(*exception)

__dir__ = _help.publish(__name__)
