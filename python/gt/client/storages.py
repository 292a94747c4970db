"""Tensors that share memory, made again from their sizes and strides: by files, pickle and copy.deepcopy."""

from gt import _gt
from gt._gt import Tensor


class Memory:
    """The memory of one storage, from which tensors are cut that share it, as PyTorch's do.

    >>> memory = Memory(gt.arange(6))
    >>> memory.tensor((2, 3), (3, 1), 0)[0].zero_()
    >>> memory.tensor((3,), (1,), 0)
    tensor([0, 0, 0])
    """

    def __init__(self, root):
        """root has all elements, in order; its shape does not matter. Tensors are cut from the memory of root itself."""
        self.root = root

    def tensor(self, size, stride, offset):
        """The tensor of this size and these strides, a leaf without a base."""
        return self.root.detach().as_strided(size, stride, offset).data


def plain_class(tensor):
    """The class of a tensor: a tensor with attributes has a class of its own, which is not meant."""
    return next(cls for cls in type(tensor).__mro__ if cls.__name__ != 'Tensor' or cls is Tensor)


def typed(elements, dtype):
    """A view of all elements of a memory as numbers of this dtype: view_as_real(), view_as_complex()."""
    if elements.dtype == dtype:
        return elements
    if elements.is_complex():
        return _gt.view_as_real(elements).reshape(-1)
    return _gt.view_as_complex(elements[:len(elements) // 2 * 2].reshape(-1, 2))


def copied(tensor, memo):
    """A copy for copy.deepcopy: tensors that share memory have copies that share memory."""
    shared = tensor._memory()
    if shared is None:
        return tensor.detach().clone()
    number, elements = shared
    copies = memo.setdefault('gt', {})
    if number not in copies:
        copies[number] = Memory(elements.clone()), tensor.detach()  # the latter keeps the memory, and with it the number
    memory = Memory(typed(copies[number][0].root, tensor.dtype))
    return memory.tensor(tensor.shape, tensor.stride(), tensor.storage_offset())


def rebuilt(elements, size, stride, offset, requires_grad):
    """A tensor from its pickle: elements has those of its memory."""
    tensor = Memory(elements).tensor(size, stride, offset)
    return tensor.requires_grad_() if requires_grad else tensor


def reduced(tensor):
    """Tensor.__reduce__ of a tensor whose elements do not lie in order; None: they do."""
    shared = None if tensor.is_contiguous() else tensor._memory()
    if shared is None:
        return None
    return rebuilt, (typed(shared[1], tensor.dtype), tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.requires_grad)
