"""grad() and backward(), and which operations are recorded: no_grad() and its kin, as context managers or decorators."""

import functools

from gt import _gt
from gt._gt import grad  # noqa: F401


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
        @functools.wraps(function)
        def wrapped(*args, **keywords):
            before = _gt._set_grad_enabled(self.mode)
            try:
                return function(*args, **keywords)
            finally:
                _gt._set_grad_enabled(before)
        return wrapped


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
    gradients = [grad_tensors] if grad_tensors is None or isinstance(grad_tensors, _gt.Tensor) else list(grad_tensors)
    gradients = gradients * len(tensors) if grad_tensors is None else gradients
    if len(tensors) != len(gradients):
        raise RuntimeError(f'got {len(tensors)} tensors and {len(gradients)} gradients')
    if inputs is not None:
        leaves = [inputs] if isinstance(inputs, _gt.Tensor) else list(inputs)
        found = grad(tensors, leaves, gradients, create_graph if retain_graph is None else retain_graph, create_graph, True)
        for leaf, gradient in zip(leaves, found):
            if gradient is not None:
                leaf.grad = gradient if leaf.grad is None else leaf.grad + gradient
        return
    last = len(tensors) - 1
    for k, (tensor, gradient) in enumerate(zip(tensors, gradients)):
        tensor.backward(gradient, retain_graph=bool(retain_graph) or create_graph or k < last, create_graph=create_graph)


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
