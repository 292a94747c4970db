"""grad() and backward(). no_grad() and the like, as context managers or decorators, say which operations are
recorded. Function is the base of operations with a gradient of their own."""

import functools
import inspect

from gt import _gt
from gt._gt import grad  # noqa: F401


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
        return _in_mode(function, self.mode)


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
        return _in_mode(function, self.mode)


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
    """The same as no_grad(). GT tensors have no further state to leave out."""

    def __init__(self, mode=True):
        super().__init__()
        self.mode = not mode


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, inputs=None):
    """Add the gradients of the sum of tensors, each times its gradient, to .grad of all leaves, or of `inputs` only."""
    tensors = [tensors] if isinstance(tensors, _gt.Tensor) else list(tensors)
    grad_tensors = [None] * len(tensors) if grad_tensors is None else grad_tensors
    gradients = [grad_tensors] if isinstance(grad_tensors, _gt.Tensor) else list(grad_tensors)
    _gt._backward(tensors, gradients, retain_graph, create_graph, inputs)


class RemovableHandle:
    """Returned by register_hook. remove() removes the hook, even if the tensor was changed in place since."""

    def __init__(self, entry):
        self.entry = entry

    def remove(self):
        _gt._remove_hook(self.entry)


def register_hook(tensor, hook):
    """Call hook(grad) when the gradient of `tensor` is known. If it returns a tensor, that replaces the gradient.

    The tensor holds the hook, and the garbage collector cannot see references inside tensors. A hook that refers to
    its own tensor is a leak: give it a weakref to the tensor, or remove() it after use.
    """
    return RemovableHandle(tensor._register_hook(hook))


_gt.Tensor.register_hook = register_hook


# ---- operations with a user-defined gradient -------------------------------------------------------------------


class FunctionContext:
    """State that forward() passes to backward(): saved tensors and any attributes."""

    saved_tensors, needs_input_grad = (), ()
    _unreached_are_zeros, _without_gradient = True, ()

    def save_for_backward(self, *tensors):
        """Save tensors for backward(), which reads them from saved_tensors."""
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *tensors):
        """Mark outputs that have no gradient."""
        self._without_gradient = tensors

    def set_materialize_grads(self, value):
        """Whether backward() gets zeros or None for unused outputs."""
        self._unreached_are_zeros = value


class Function:
    """An operation with its own gradient: write forward(ctx, ...) and backward(ctx, *gradients), call apply(...)."""

    @staticmethod
    def forward(ctx, *args, **keywords):
        """The results, a tensor or a tuple."""
        raise NotImplementedError('You must implement the forward function for custom autograd.Function.')

    setup_context = None  # setup_context(ctx, inputs, output): if defined, forward() takes no ctx

    @staticmethod
    def backward(ctx, *grad_outputs):
        """A gradient, or None, for each argument of forward()."""
        raise NotImplementedError('You must implement the backward function for custom autograd.Function.')

    @classmethod
    def apply(cls, *args, **keywords):
        """Run forward() and record it, with backward() as its gradient."""
        ctx = FunctionContext()
        ctx.needs_input_grad = tuple(isinstance(value, _gt.Tensor) and value.requires_grad for value in args)
        with no_grad():
            if cls.setup_context is None:
                result = cls.forward(ctx, *args, **keywords)
            else:
                result = cls.forward(*args, **keywords)
                cls.setup_context(ctx, args, result)
        if not (_gt.is_grad_enabled() and any(ctx.needs_input_grad)):
            return result
        outputs = _linked(cls, ctx, args, result if isinstance(result, tuple) else (result,))
        return outputs if isinstance(result, tuple) else outputs[0]


def _linked(cls, ctx, args, outputs):
    """Connect the outputs to the arguments on the tape: each output plus an empty sum over the arguments, which is 0.
    Hooks on these sums replace the gradient by the one that backward() returns."""
    arrived, found = [None] * len(outputs), []  # of the current pass: gradients of outputs, of arguments

    def arrive(k, gradient):
        arrived[k] = gradient
        found.clear()

    def arguments_gradient(k, zeros):
        if not found:
            given, arrived[:] = list(arrived), [None] * len(outputs)
            for j, output in enumerate(outputs):
                if given[j] is None and ctx._unreached_are_zeros and isinstance(output, _gt.Tensor):
                    given[j] = _gt.zeros_like(output)
            gradients = cls.backward(ctx, *given)
            found.extend(gradients if isinstance(gradients, tuple) else (gradients,))
            if len(found) < len(args):
                raise RuntimeError(f'function {cls.__name__}Backward returned an incorrect number of gradients (expected '
                                   f'{len(args)}, got {len(found)})')
        return zeros if found[k] is None else found[k]

    link = 0.0
    for k, wanted in enumerate(ctx.needs_input_grad):
        if wanted:
            argument = args[k].clone()  # a separate node on the tape
            argument.register_hook(functools.partial(arguments_gradient, k))
            link = argument.reshape(-1)[:0].sum() + link
    results = []
    for k, output in enumerate(outputs):
        apart = any(output is other for other in ctx._without_gradient)
        if isinstance(output, _gt.Tensor) and output.is_floating_point() and not apart:
            output = output.detach() + link.to(output.dtype)
            output.register_hook(functools.partial(arrive, k))
        results.append(output)
    return tuple(results)


def once_differentiable(function):
    """Do not record the operations of backward()."""
    return no_grad()(function)
