"""grad() and backward(), and which operations are recorded: no_grad() and its kin, as context managers or
decorators. Function: operations whose gradient the user writes."""

import functools
import inspect

from gt import _gt
from gt._gt import grad  # noqa: F401


def _in_mode(function, mode):
    """The function, run with operations recorded or not; of a generator each step is, and what happens between is not."""
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
    """Record operations, or do not, from here on or inside a `with` block or a decorated function."""

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
    """As no_grad(): GT's tensors carry nothing that could be left out besides."""

    def __init__(self, mode=True):
        super().__init__()
        self.mode = not mode


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, inputs=None):
    """Add the gradients of the sum of tensors, each times its gradient, to .grad of leaves: of all, or of inputs."""
    tensors = [tensors] if isinstance(tensors, _gt.Tensor) else list(tensors)
    grad_tensors = [None] * len(tensors) if grad_tensors is None else grad_tensors
    gradients = [grad_tensors] if isinstance(grad_tensors, _gt.Tensor) else list(grad_tensors)
    _gt._backward(tensors, gradients, retain_graph, create_graph, inputs)


class RemovableHandle:
    """What register_hook returns: remove() takes the hook away, also when the tensor has been changed in place since."""

    def __init__(self, entry):
        self.entry = entry

    def remove(self):
        _gt._remove_hook(self.entry)


def register_hook(tensor, hook):
    """Call hook(grad) when the gradient of `tensor` is known; what it returns, if anything, replaces the gradient.

    The tensor keeps the hook, and the garbage collector does not look into tensors: a hook that refers to its own
    tensor keeps it for ever. Give such a hook a weakref to the tensor, or remove() it when it has done its work.
    """
    return RemovableHandle(tensor._register_hook(hook))


_gt.Tensor.register_hook = register_hook


# ---- operations with a gradient of the user's ------------------------------------------------------------------


class FunctionContext:
    """What forward() leaves for backward(): saved tensors, and any attributes."""

    saved_tensors, needs_input_grad = (), ()
    _unreached_are_zeros, _without_gradient = True, ()

    def save_for_backward(self, *tensors):
        """Keep tensors, which backward() finds in saved_tensors."""
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *tensors):
        """Outputs that have no gradient."""
        self._without_gradient = tensors

    def set_materialize_grads(self, value):
        """Whether backward() gets zeros, or None, for outputs that nothing was computed from."""
        self._unreached_are_zeros = value


class Function:
    """An operation with its own gradient: write forward(ctx, ...) and backward(ctx, *gradients), call apply(...)."""

    @staticmethod
    def forward(ctx, *args, **keywords):
        """The results, a tensor or a tuple."""
        raise NotImplementedError('You must implement the forward function for custom autograd.Function.')

    setup_context = None  # setup_context(ctx, inputs, output): then forward() takes no ctx

    @staticmethod
    def backward(ctx, *grad_outputs):
        """A gradient, or None, for each argument of forward()."""
        raise NotImplementedError('You must implement the backward function for custom autograd.Function.')

    @classmethod
    def apply(cls, *args, **keywords):
        """Compute forward(); its gradient is what backward() says."""
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
    """The outputs as results of the arguments: each plus a sum of none of the arguments' elements, which is 0. The tape
    then leads from outputs to arguments, and hooks on the way put in what backward() says."""
    arrived, found = [None] * len(outputs), []  # in the pass under way: gradients of outputs, of arguments

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
            argument = args[k].clone()  # a place of its own on the tape
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
    """backward() whose own operations are not recorded."""
    return no_grad()(function)
