"""The recorded graph: nodes (Tensor.grad_fn), hooks, and hooks of saved tensors."""

import functools
import threading
import weakref

from gt import _gt, _help

# ---- nodes -------------------------------------------------------------------------------------------------------


class Node:
    """A recorded operation. type(node).__name__ and name() are as in PyTorch: 'AddBackward0'."""

    def __init__(self, node):
        self._node = node

    def name(self) -> str:
        """The name of the operation."""
        return type(self).__name__

    @property
    def next_functions(self):
        """The nodes that its operands come from, as pairs (node or None, 0)."""
        return tuple((None if node is None else _wrap(node), 0) for node in _gt._node_info(self._node)[3])

    @property
    def metadata(self):
        """A dictionary of the user's."""
        return self.__dict__.setdefault('_metadata', {})

    def register_prehook(self, fn):
        """Call fn((gradient,)) before the operation's gradient is computed; a returned tuple replaces it."""
        def hook(gradient):
            replaced = fn((gradient,))
            return replaced[0] if isinstance(replaced, tuple) else replaced
        return RemovableHandle(_gt._attach(_gt.zeros(0), self._node)._register_hook(hook))

    def register_hook(self, fn):
        """Refused: use register_prehook, or Tensor.register_hook on the operands."""
        raise NotImplementedError('Node.register_hook: hooks on all gradients of an operation are not supported; use '
                                  'register_prehook, or Tensor.register_hook on its operands')

    def _sequence_nr(self):
        return _gt._node_info(self._node)[1]

    def __eq__(self, other):
        return isinstance(other, Node) and self._sequence_nr() == other._sequence_nr()

    def __hash__(self):
        return hash(self._sequence_nr())

    def __repr__(self):
        return f'<{self.name()} object at {id(self):#x}>'


class AccumulateGrad(Node):
    """A leaf, where gradients are added to .grad."""


@functools.lru_cache(maxsize=None)
def _class_of(name):
    return AccumulateGrad if name == 'AccumulateGrad' else type(name, (Node,), {'__module__': 'gt.autograd.graph'})


def _wrap(node):
    return _class_of(_gt._node_info(node)[0])(node)


def _grad_fn(self):
    """The node of the recorded operation; None for leaves."""
    return None if self.is_leaf else _wrap(_gt._node(self))


_gt.Tensor.grad_fn = property(_grad_fn, doc='The node of the recorded operation, or None.')


def get_gradient_edge(tensor):
    """The (node, output number) of a tensor."""
    return (_wrap(_gt._node(tensor)), 0)


# ---- hooks -------------------------------------------------------------------------------------------------------


class RemovableHandle:
    """Returned by register_hook. remove() removes the hook, even if the tensor was changed in place since."""

    def __init__(self, *entries):
        self.entries = entries

    def remove(self):
        """Remove the hook."""
        for entry in self.entries:
            _gt._remove_hook(entry)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.remove()


def register_hook(tensor, hook):
    """Call hook(grad) when the gradient of `tensor` is known. If it returns a tensor, that replaces the gradient.

    The tensor holds the hook, and the garbage collector cannot see references inside tensors. A hook that refers to
    its own tensor is a leak: give it a weakref to the tensor, or remove() it after use.
    """
    return RemovableHandle(tensor._register_hook(hook))


def register_post_accumulate_grad_hook(tensor, hook):
    """Call hook(tensor) whenever a gradient was added to the .grad of this leaf.

        handle = p.register_post_accumulate_grad_hook(lambda p: optimizer_of[p].step())
    """
    if not tensor.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if not tensor.is_leaf:
        raise RuntimeError('post accumulate grad hooks cannot be registered on non-leaf tensors')
    alive = weakref.ref(tensor)

    def after(gradient):
        target = alive()
        if target is not None:
            hook(target)
    return RemovableHandle(tensor._register_hook_after(after))


_gt.Tensor.register_hook = register_hook
_gt.Tensor.register_post_accumulate_grad_hook = register_post_accumulate_grad_hook


def register_multi_grad_hook(tensors, fn, *, mode='all'):
    """Call fn when the gradients of several tensors are known: with a list of all of them (None for those a pass did not
    reach) when the last one arrives, or (mode 'any') with the first gradient.

    A pass that reaches only some of the tensors does not call fn in mode 'all'.
    """
    if mode not in ('all', 'any'):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    tensors = tuple(tensors)
    arrived, lock = {}, threading.Lock()

    def hook(k, gradient):
        with lock:
            if mode == 'any':
                first = not arrived
                arrived[k] = gradient
                if len(arrived) == len(wanted):
                    arrived.clear()
                if not first:
                    return
            else:
                arrived[k] = gradient
                if len(arrived) < len(wanted):
                    return
                gradients = [arrived.get(j) for j in range(len(tensors))]
                arrived.clear()
        fn(gradient if mode == 'any' else gradients)
    wanted = [k for k, tensor in enumerate(tensors) if tensor.requires_grad]
    return RemovableHandle(*(tensors[k]._register_hook(functools.partial(hook, k)) for k in wanted))


# ---- hooks of saved tensors ----------------------------------------------------------------------------------------

_saved = threading.local()


def _saved_hooks():
    """The innermost (pack, unpack) of this thread, or None."""
    stack = getattr(_saved, 'stack', None)
    return stack[-1] if stack else None


class saved_tensors_hooks:
    """A context in which tensors that a Function saves for backward are packed by pack_hook and unpacked when used.

    Operations of GT save values that never change and are not packed: only ctx.save_for_backward() calls the hooks.
    """

    def __init__(self, pack_hook, unpack_hook):
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self):
        if not hasattr(_saved, 'stack'):
            _saved.stack = []
        _saved.stack.append((self.pack_hook, self.unpack_hook))

    def __exit__(self, *exception):
        _saved.stack.pop()


class save_on_cpu(saved_tensors_hooks):
    """Accepted: workers decide where values live."""

    def __init__(self, pin_memory=False, device_type='cuda'):
        super().__init__(lambda tensor: tensor, lambda tensor: tensor)


class disable_saved_tensors_hooks:
    """A context in which saved_tensors_hooks are refused."""

    def __init__(self, error_message):
        self.error_message = error_message

    def __enter__(self):
        self.before = getattr(_saved, 'stack', [])
        _saved.stack = []

    def __exit__(self, *exception):
        _saved.stack = self.before

__dir__ = _help.publish(__name__)
