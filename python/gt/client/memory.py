"""What scripts ask of a tensor's memory, its device and its kind. Workers own the memory, so most answers are constant."""

from gt._gt import Tensor, tensor

# Kinds of tensors that GT does not have.
for _name in ('is_ipu', 'is_maia', 'is_meta', 'is_mkldnn', 'is_mps', 'is_mtia', 'is_nested', 'is_quantized', 'is_sparse_csr',
              'is_vulkan', 'is_xla', 'is_xpu'):
    setattr(Tensor, _name, False)


def _add(function):
    """Make a function a method of Tensor only: the package has no function of this name."""
    setattr(Tensor, function.__name__, function)


@_add
def pin_memory(self, device=None):
    """pin_memory(): self; uploads go through shared memory anyway."""
    return self


@_add
def is_pinned(self, device=None):
    """is_pinned(): False; there is no pinned memory."""
    return False


@_add
def is_shared(self):
    """is_shared(): False; processes do not share the memory of tensors."""
    return False


@_add
def share_memory_(self):
    """share_memory_(): refused; processes do not share the memory of tensors."""
    raise NotImplementedError('share_memory_(): processes do not share the memory of tensors; connect them to one server')


@_add
def get_device(self):
    """get_device(): 0 if a worker has a GPU, else -1."""
    return 0 if self.is_cuda else -1


@_add
def record_stream(self, stream):
    """record_stream(stream): does nothing; there is one stream."""


@_add
def is_same_size(self, other):
    """is_same_size(other): whether the shapes are equal."""
    return self.shape == other.shape


@_add
def hardshrink(self, lambd=0.5):
    """hardshrink(lambd=0.5): 0 where the absolute value is at most lambd."""
    from gt.nn import functional
    return functional.hardshrink(self, lambd)


@_add
def prelu(self, weight):
    """prelu(weight): self where it is positive, else self * weight."""
    from gt.nn import functional
    return functional.prelu(self, weight)


@_add
def apply_(self, callable):
    """apply_(callable): replace each element by callable(element), in Python. Waits for the elements."""
    if self.requires_grad:
        raise TypeError('apply_() called on a Tensor that requires grad; use tensor.detach().apply_() or a function of tensors')
    changed = [callable(x) for x in self.flatten().tolist()]
    return self.copy_(tensor(changed, dtype=self.dtype).reshape(self.shape)) if changed else self
