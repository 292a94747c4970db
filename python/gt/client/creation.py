"""New tensors like another one, and functions built on arange and linspace."""

from gt import _gt
from gt.client.registry import function, method, sizes_of


@method
def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False):
    """new_tensor(data): a tensor of data, of self's dtype."""
    return _gt.tensor(data, dtype=dtype or self.dtype, requires_grad=requires_grad)


@method
def new_full(self, size, fill_value, *, dtype=None, device=None, requires_grad=False):
    """new_full(size, fill_value): one value everywhere, of self's dtype."""
    return _gt.full(size, fill_value, dtype=dtype or self.dtype, requires_grad=requires_grad)


@method
def new_zeros(self, *size, dtype=None, device=None, requires_grad=False):
    """new_zeros(*size): zeros of self's dtype."""
    return _gt.zeros(sizes_of(size), dtype=dtype or self.dtype, requires_grad=requires_grad)


@method
def new_ones(self, *size, dtype=None, device=None, requires_grad=False):
    """new_ones(*size): ones of self's dtype."""
    return _gt.ones(sizes_of(size), dtype=dtype or self.dtype, requires_grad=requires_grad)


@method
def new_empty(self, *size, dtype=None, device=None, requires_grad=False):
    """new_empty(*size): a tensor of self's dtype to be filled."""
    return _gt.empty(sizes_of(size), dtype=dtype or self.dtype, requires_grad=requires_grad)


@function
def logspace(start, end, steps, base=10.0, *, dtype=None, device=None, requires_grad=False):
    """logspace(start, end, steps, base=10.0): powers of base whose exponents are evenly spaced."""
    powers = base ** _gt.linspace(start, end, steps, dtype=_gt.float64)
    return _gt.tensor(powers, dtype=dtype or _gt.get_default_dtype(), requires_grad=requires_grad)


@function
def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False):
    """asarray(obj): as_tensor(obj), which need not copy."""
    tensor = _gt.as_tensor(obj, dtype=dtype) if dtype else _gt.as_tensor(obj)
    return tensor.requires_grad_() if requires_grad else tensor


@function
def scalar_tensor(s, *, dtype=None, device=None, requires_grad=False):
    """scalar_tensor(s): a 0-d tensor."""
    return _gt.tensor(float(s), dtype=dtype or _gt.get_default_dtype(), requires_grad=requires_grad)


@function
def unravel_index(indices, shape):
    """unravel_index(indices, shape): the index along each dimension of positions in a flattened tensor."""
    found = []
    for size in reversed([shape] if hasattr(shape, '__index__') else tuple(shape)):
        found.append(indices % size)
        indices = indices // size
    return tuple(reversed(found))
