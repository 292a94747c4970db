"""no_grad() and the like, as context managers or decorators, say which operations are recorded."""

import functools
import inspect
import warnings

from gt import _gt, _help
from gt._gt import is_inference_mode_enabled  # noqa: F401


def _in_mode(function, mode):
    """Wrap a function so that it runs in a mode, a context manager. Of a generator, only the steps run in that mode."""
    if inspect.isgeneratorfunction(function):
        @functools.wraps(function)
        def wrapped(*args, **keywords):
            steps = function(*args, **keywords)
            resume, value = steps.send, None
            while True:
                before = mode._gt_enter()
                try:
                    given = resume(value)
                except StopIteration as end:
                    return end.value
                finally:
                    mode._gt_leave(before)
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
            before = mode._gt_enter()
            try:
                return function(*args, **keywords)
            finally:
                mode._gt_leave(before)
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


class _Mode:
    """A context manager and decorator; nests and may be entered several times."""

    mode = False

    def __init__(self):
        self.before = []

    def _gt_enter(self):
        return _gt._set_grad_enabled(self.mode)

    def _gt_leave(self, before):
        _gt._set_grad_enabled(before)

    def __enter__(self):
        self.before.append(self._gt_enter())
        return self

    def __exit__(self, *exception):
        self._gt_leave(self.before.pop())

    def __call__(self, function):
        return _decorated(function, self)


class set_grad_enabled(_Mode):
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
        return super().__call__(function)


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


class inference_mode(_Mode):
    """Do not record operations, and mark the tensors made inside: they refuse to be changed in place outside, and to be saved for
    a gradient. clone() of such a tensor is an ordinary one. inference_mode(False) records, also inside inference_mode().

    >>> with gt.inference_mode():
    ...     output = model(x)
    """

    def __new__(cls, mode=True):
        if isinstance(mode, bool):
            return super().__new__(cls)
        made = super().__new__(cls)
        made.__init__()
        return made(mode)

    def __init__(self, mode=True):
        super().__init__()
        self.mode = mode

    def _gt_enter(self):
        return _gt._set_inference(self.mode)

    def _gt_leave(self, before):
        _gt._restore_inference(before)


def is_inference(input) -> bool:
    """is_inference(input): whether a tensor was made in inference_mode()."""
    return input.is_inference()


__dir__ = _help.publish(__name__)
