"""name_copy(): what a view shows, as a new tensor; name_scatter(): a tensor with what a view shows replaced."""

import math

from gt import _gt
from gt._gt import Tensor, arange
from gt.client.registry import axis_of, function, method, no_view, sizes_of


# ---- views by size and stride ----------------------------------------------------------------------------------


def _places(self, size, stride, storage_offset):
    """The position in the flattened tensor of every element of a view given by size and stride."""
    size, stride = tuple(size), tuple(stride)
    if len(size) != len(stride):
        raise RuntimeError(f'mismatch in length of strides and shape: {len(stride)} and {len(size)}')
    if any(s < 0 for s in stride):
        raise RuntimeError(f'as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}')
    start = storage_offset or 0
    last = start + sum((n - 1) * s for n, s in zip(size, stride)) if all(size) else -1
    if start < 0 or last >= self.numel():
        raise RuntimeError(f'setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {start} are out of '
                           f'bounds for storage of {self.numel()} elements')
    place = _gt.full((), start, dtype=_gt.int64).expand(size)
    for d, (n, s) in enumerate(zip(size, stride)):
        place = place + (arange(n) * s).reshape([n if k == d else 1 for k in range(len(size))])
    return place


@method
def as_strided_(self, size, stride, storage_offset=None):
    """as_strided_(size, stride, storage_offset=0): as_strided, in place."""
    self.data = self.as_strided(size, stride, storage_offset)
    return self


@method
@no_view
def as_strided_scatter(self, src, size, stride, storage_offset=None):
    """as_strided_scatter(src, size, stride): self with the elements that as_strided shows replaced by src."""
    return _replaced(self, _places(self, size, stride, storage_offset), src)


def _replaced(self, place, src):
    if tuple(src.shape) != tuple(place.shape):
        raise RuntimeError(f'expected src to have a size equal to the slice of self. src size = {list(src.shape)}, slice '
                           f'size = {list(place.shape)}')
    return self.flatten().scatter(0, place.flatten(), src.to(self.dtype).flatten()).reshape(self.shape)


# ---- scatter ---------------------------------------------------------------------------------------------------


def _numbered(self):
    return arange(self.numel()).reshape(self.shape)


@method
@no_view
def diagonal_scatter(self, src, offset=0, dim1=0, dim2=1):
    """diagonal_scatter(src, offset=0, dim1=0, dim2=1): self with a diagonal replaced by src."""
    return _replaced(self, _numbered(self).diagonal(offset, dim1, dim2), src)


def _assigned(self, index, src, shape):
    if tuple(src.shape) != tuple(shape):
        raise RuntimeError(f'expected src to have a size equal to the slice of self. src size = {list(src.shape)}, slice '
                           f'size = {list(shape)}')
    result = self.clone()
    result[index] = src
    return result


@method
def select_scatter(self, src, dim, index):
    """select_scatter(src, dim, index): self with one slice replaced by src."""
    dim = axis_of(self, dim)
    if not -self.shape[dim] <= index < self.shape[dim]:
        raise IndexError(f'select(): index {index} out of range for tensor of size {list(self.shape)} at dimension {dim}')
    shape = self.shape[:dim] + self.shape[dim + 1:]
    return _assigned(self, (slice(None),) * dim + (index,), src, shape)


@method
def slice_scatter(self, src, dim=0, start=None, end=None, step=1):
    """slice_scatter(src, dim=0, start=None, end=None, step=1): self with a range of slices replaced by src."""
    dim = axis_of(self, dim)
    if step <= 0:
        raise RuntimeError('slice step must be positive')
    count = len(range(*slice(start, end, step).indices(self.shape[dim])))
    shape = [count if d == dim else s for d, s in enumerate(self.shape)]
    return _assigned(self, (slice(None),) * dim + (slice(start, end, step),), src, shape)


# ---- copies ----------------------------------------------------------------------------------------------------


def _copying(name, view):
    def copy(input, *arguments, **options):
        result = view(input, *arguments, **options)
        return tuple(t.clone()._packed() for t in result) if isinstance(result, tuple) else result.clone()._packed()
    copy.__name__ = copy.__qualname__ = name + '_copy'
    copy.__wrapped__ = view  # the signature
    copy.__doc__ = f'{name}_copy(input, ...): {name}, as a new tensor.'
    return copy


for _name in ('as_strided', 'detach', 'diagonal', 'expand', 'permute', 'select', 'split', 'split_with_sizes', 'squeeze', 't',
              'transpose', 'unbind', 'unfold', 'unsqueeze', 'view'):
    function(_copying(_name, getattr(Tensor, _name)))
function(_copying('alias', lambda input: input))
method(_copying('narrow', Tensor.narrow))


@function
def slice_copy(input, dim=0, start=None, end=None, step=1):
    """slice_copy(input, dim=0, start=None, end=None, step=1): a range of slices along a dimension, as a new tensor."""
    return input[(slice(None),) * axis_of(input, dim) + (slice(start, end, step),)].clone()


@method
def unsafe_chunk(self, chunks, dim=0):
    """unsafe_chunk(chunks, dim=0): chunk, for results that may be changed in place: autograd takes them for copies."""
    return _gt._parts(self.chunk(chunks, dim))


@method
def unsafe_split(self, split_size, dim=0):
    """unsafe_split(split_size, dim=0): split, for results that may be changed in place: autograd takes them for copies."""
    return _gt._parts(self.split(split_size, dim))


@method
def unsafe_split_with_sizes(self, split_sizes, dim=0):
    """unsafe_split_with_sizes(split_sizes, dim=0): split_with_sizes, for results that may be changed in place: autograd takes them for copies."""
    return _gt._parts(self.split_with_sizes(split_sizes, dim))


# ---- another size in place -------------------------------------------------------------------------------------


def resized(tensor, sizes):
    """A tensor of another shape that begins at the same place, in the same memory if that has room."""
    offset, room, end = tensor.storage_offset(), tensor._room, tensor.storage_offset() + math.prod(sizes)
    memory = tensor.detach()
    if end > room:
        memory = _gt.cat([memory.as_strided((room,), (1,), 0), _gt.zeros(end - room, dtype=tensor.dtype)])
    strides = [math.prod(max(size, 1) for size in sizes[k + 1:]) for k in range(len(sizes))]
    return memory.as_strided(sizes, strides, offset)


@method
def resize_(self, *sizes, size=None, memory_format=None):
    """resize_(*sizes): another shape, in place: elements keep their order, new ones are zeros."""
    if self.requires_grad:
        raise RuntimeError('cannot resize variables that require grad')
    self._check_write()
    sizes = sizes_of(sizes, size)
    return self if tuple(sizes) == self.shape else self._set(resized(self, sizes))


@method
def resize_as_(self, the_template, *, memory_format=None):
    """resize_as_(other): resize_ to the shape of other."""
    return self.resize_(the_template.shape)
