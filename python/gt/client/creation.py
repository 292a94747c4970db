"""New tensors like another one, and functions built on arange and linspace."""

from builtins import range as _builtin_range

from gt import _gt
from gt._gt import Tensor
from gt.client.halves import HALVES
from gt.client.registry import function, method, sizes_of
from gt.client.storages import Memory


@method
def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    """new_tensor(data): a tensor of data, of self's dtype."""
    return _gt.tensor(data, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad, layout=layout)


@method
def new_full(self, size, fill_value, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    """new_full(size, fill_value): one value everywhere, of self's dtype."""
    return _gt.full(size, fill_value, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad, layout=layout)


@method
def new_zeros(self, *sizes, size=None, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    """new_zeros(*size): zeros of self's dtype."""
    return _gt.zeros(sizes_of(sizes, size), dtype=dtype or self.dtype, device=device, requires_grad=requires_grad,
                     layout=layout)


@method
def new_ones(self, *sizes, size=None, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    """new_ones(*size): ones of self's dtype."""
    return _gt.ones(sizes_of(sizes, size), dtype=dtype or self.dtype, device=device, requires_grad=requires_grad,
                    layout=layout)


@method
def new_empty(self, *sizes, size=None, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    """new_empty(*size): a tensor of self's dtype to be filled."""
    return _gt.empty(sizes_of(sizes, size), dtype=dtype or self.dtype, device=device, requires_grad=requires_grad,
                     layout=layout)


def _refuse(name, dtype, *dtypes):
    if dtype in dtypes:
        raise NotImplementedError(f'"{name}_cpu" not implemented for \'{dtype._kind}\'')


@function
def logspace(start, end, steps, base=10.0, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    """logspace(start, end, steps, base=10.0): powers of base whose exponents are evenly spaced."""
    if dtype is not None and not dtype.is_floating_point:
        start, end = int(start), int(end)
    _refuse('logspace', dtype, _gt.bool)
    powers = float(base) ** _gt.linspace(start, end, steps, dtype=_gt.float64, device=device, layout=layout)
    return _gt.tensor(powers, dtype=dtype or _gt.get_default_dtype(), requires_grad=requires_grad)


def _number(value):
    """The number of a 0-d tensor, or itself."""
    return value.item() if isinstance(value, Tensor) else value


@function
def linspace(start, end, steps, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    """linspace(start, end, steps): evenly spaced numbers, both ends included."""
    if any(value.is_complex() if isinstance(value, Tensor) else isinstance(value, complex) for value in (start, end)):
        inferred = _gt.complex128 if _gt.get_default_dtype() == _gt.float64 else _gt.complex64
        if dtype is not None and not dtype.is_complex:
            name = 'double' if inferred == _gt.complex128 else 'float'
            raise RuntimeError(f"torch.linspace(): inferred dtype c10::complex<{name}> can't be safely cast to passed dtype "
                               f'{dtype._kind}')
        dtype = dtype or inferred
    if dtype in HALVES:
        for end_point in (start, end):
            _gt.empty(0, dtype=dtype)._fit(end_point)
    if dtype is None or dtype.is_floating_point and dtype != _gt.float64:
        return _gt.linspace(start, end, steps, dtype=dtype, device=device, requires_grad=requires_grad, layout=layout)
    _refuse('linspace', dtype, _gt.bool)
    if steps < 0:
        raise RuntimeError('number of steps must be non-negative')
    start, end = _number(start) + 0, _number(end) + 0
    if not dtype.is_floating_point and not dtype.is_complex:
        like = _gt.empty(0, dtype=dtype)
        start, end = like._fit(start), like._fit(end)
    place = _gt.arange(steps, dtype=_gt.float64, device=device, layout=layout)
    step = (end - start) / (steps - 1) if steps > 1 else 0.0
    first, last = start + step * place, end - step * (steps - 1 - place)  # so that the last one is end itself
    made = _gt.where(place < max(steps // 2, 1), first, last).to(dtype)
    return made.requires_grad_() if requires_grad else made


@function
def range(start=0, end=None, step=1, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    """range(start, end, step=1): numbers up to end, which is included; arange is usual."""
    start, end = (0, start) if end is None else (start, end)
    _refuse('range', dtype, _gt.bool, _gt.complex64, _gt.complex128)
    if step == 0:
        raise RuntimeError('step must be nonzero')
    if (end - start) * step < 0:
        raise RuntimeError('upper bound and larger bound inconsistent with step sign')
    count = int((end - start) / step) + 1
    return (_gt.arange(count, dtype=_gt.float64, device=device, layout=layout) * step + start).to(dtype or _gt.get_default_dtype()).requires_grad_(requires_grad)


@function
def empty_strided(size, stride, *, dtype=None, device=None, layout=None, requires_grad=False, pin_memory=False):
    """empty_strided(size, stride): a tensor to be filled, with these strides."""
    if len(size) != len(stride):
        raise RuntimeError(f'dimensionality of sizes ({len(size)}) must match dimensionality of strides ({len(stride)})')
    dtype = dtype or _gt.get_default_dtype()
    last = sum((extent - 1) * step for extent, step in zip(size, stride)) if all(size) else -1
    made = Memory(_gt.empty(last + 1, dtype=dtype)).tensor(tuple(size), tuple(stride), 0)
    return made.requires_grad_() if requires_grad else made


@function
def empty_permuted(size, physical_layout, *, dtype=None, device=None, layout=None, requires_grad=False, pin_memory=False):
    """empty_permuted(size, physical_layout): a tensor to be filled, with its dimensions in
    this order in memory."""
    if len(size) != len(physical_layout):
        raise RuntimeError(f'Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = '
                           f'{len(size)} is not equal to len(physical_layout) = {len(physical_layout)}')
    if sorted(physical_layout) != list(_builtin_range(len(size))):
        raise RuntimeError(f'Dimension out of range, or duplicate dim: {list(physical_layout)}')
    stride, step = [0] * len(size), 1
    for axis in reversed(physical_layout):
        stride[axis] = step
        step *= max(size[axis], 1)
    return empty_strided(size, stride, dtype=dtype, requires_grad=requires_grad)


@method
def new_empty_strided(self, size, stride, *, dtype=None, device=None, layout=None, requires_grad=False, pin_memory=False):
    """new_empty_strided(size, stride): empty_strided of self's dtype."""
    return empty_strided(size, stride, dtype=dtype or self.dtype, requires_grad=requires_grad)


@function
def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False):
    """asarray(obj): as_tensor(obj), which need not copy."""
    tensor = _gt.as_tensor(obj, dtype=dtype) if dtype else _gt.as_tensor(obj)
    return tensor.requires_grad_() if requires_grad else tensor


@function
def scalar_tensor(s, *, dtype=None, device=None, requires_grad=False):
    """scalar_tensor(s): a 0-d tensor."""
    return _gt.full((), s, dtype=dtype or _gt.get_default_dtype(), requires_grad=requires_grad)


@function
def unravel_index(indices, shape):
    """unravel_index(indices, shape): the index along each dimension of positions in a flattened tensor."""
    found = []
    for size in reversed([shape] if hasattr(shape, '__index__') else tuple(shape)):
        found.append(indices % size)
        indices = indices // size
    return tuple(reversed(found))
