"""Tensor methods that rearrange: split, join, repeat, move and split dimensions, diagonals, padding.

Most of them are views, which cost the worker nothing; the others copy once.
"""

import math

from gt import _gt
from gt._gt import Tensor, arange, cat, full, zeros
from gt.client.registry import axes_of, axis_of, function, method, no_view, sizes_of, tensors_of


_SPLIT, _WITH_SIZES, _UNBIND = range(3)  # which operation has returned several views

# ---- pieces --------------------------------------------------------------------------------------------------


@method
def split(self, split_size, dim=0, *, axis=None):
    """split(size, dim=0) or split([sizes], dim=0): a tuple of consecutive pieces."""
    dim = axis_of(self, dim if axis is None else axis)
    if self.ndim == 0:
        raise RuntimeError('split expects at least a 1-dimensional tensor')
    total, sections = self.shape[dim], split_size
    if hasattr(sections, '__index__'):
        size = sections.__index__()
        if size == 0 and total:
            raise RuntimeError(f'split_size can only be 0 if dimension size is 0, but got dimension size of {total}')
        if size < 0:
            raise RuntimeError(f'split expects split_size be non-negative, but got split_size={size}')
        sections = [size] * (total // size) if size else [0]
        if size and (total % size or not sections):
            sections.append(total % size)
    elif sum(sections) != total:
        raise RuntimeError(f'split_with_sizes expects split_sizes to sum exactly to {total} (input tensor\'s size at '
                           f'dimension {dim}), but got split_sizes={list(sections)}')
    pieces, start = [], 0
    for size in sections:
        pieces.append(self.narrow(dim, start, size))
        start += size
    return _gt._pieces(tuple(pieces), _WITH_SIZES if sections is split_size else _SPLIT)


@method
def split_with_sizes(self, split_sizes, dim=0):
    """split_with_sizes([sizes], dim=0): a tuple of consecutive pieces."""
    return self.split(list(split_sizes), dim)


@method
def tensor_split(self, indices_or_sections, dim=0):
    """tensor_split(sections or [indices], dim=0): pieces of nearly equal size, or cut at indices."""
    dim = axis_of(self, dim)
    if self.ndim == 0:
        raise RuntimeError('tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims')
    size, cuts = self.shape[dim], indices_or_sections
    if isinstance(cuts, Tensor) and cuts.ndim == 0 or not isinstance(cuts, Tensor) and hasattr(cuts, '__index__'):
        sections = int(cuts)
        if sections <= 0:
            raise RuntimeError(f'number of sections must be larger than 0, got {sections}')
        cuts = [k * (size // sections) + min(k, size % sections) for k in range(1, sections)]
    else:
        cuts = cuts.tolist() if isinstance(cuts, Tensor) else list(cuts)
    ends = [slice(None, cut).indices(size)[1] for cut in cuts] + [size]
    starts = [0] + ends[:-1]
    return tuple(self.narrow(dim, start, max(end - start, 0)) for start, end in zip(starts, ends))


def _split_along(name, least, dim):
    def split_along(self, indices_or_sections):
        if self.ndim < least:
            raise RuntimeError(f'torch.{name} requires a tensor with at least {least} dimension, but got a tensor with '
                               f'{self.ndim} dimensions!')
        along = dim if self.ndim > 1 or name != 'hsplit' else 0
        cuts = indices_or_sections
        if hasattr(cuts, '__index__') and (cuts <= 0 or self.shape[along] % cuts):
            raise RuntimeError(f'torch.{name} attempted to split along dimension {along}, but the size of the dimension '
                               f'{self.shape[along]} is not divisible by the split_size {cuts}!')
        return self.tensor_split(cuts, along)
    split_along.__name__, split_along.__doc__ = name, f'{name}(sections or [indices]): tensor_split.'
    return method(split_along)


hsplit, vsplit, dsplit = _split_along('hsplit', 1, 1), _split_along('vsplit', 2, 0), _split_along('dsplit', 3, 2)


@method
def chunk(self, chunks, dim=0, *, axis=None):
    """chunk(chunks, dim=0): at most that many pieces of equal size, the last one smaller."""
    dim = axis_of(self, dim if axis is None else axis)
    if chunks <= 0:
        raise RuntimeError(f'chunk expects `chunks` to be greater than 0, got: {chunks}')
    if self.ndim == 0:
        raise RuntimeError('chunk expects at least a 1-dimensional tensor')
    size = -(-self.shape[dim] // chunks)
    return self.split(size or [0] * chunks, dim)


@method
def unbind(self, dim=0, *, axis=None):
    """unbind(dim=0): the slices along a dimension, without that dimension."""
    dim = axis_of(self, dim if axis is None else axis)
    if self.ndim == 0:
        raise IndexError('Dimension specified as 0 but tensor has no dimensions')
    return _gt._pieces(tuple(self.select(dim, k) for k in range(self.shape[dim])), _UNBIND)


# ---- joins ---------------------------------------------------------------------------------------------------


def _each(tensors, change):
    tensors = tensors_of(tensors)
    return change(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], Tensor) else tuple(map(change, tensors))


def _as_1d(t):
    return t.reshape(1) if t.ndim == 0 else t


def _as_2d(t):
    return t.reshape(1, -1) if t.ndim < 2 else t


def _as_3d(t):
    return t.reshape(1, -1, 1) if t.ndim < 2 else t.unsqueeze(-1) if t.ndim == 2 else t


@function
def atleast_1d(*tensors):
    """atleast_1d(*tensors): each with at least one dimension."""
    return _each(tensors, _as_1d)


@function
def atleast_2d(*tensors):
    """atleast_2d(*tensors): each with at least two dimensions, new ones in front."""
    return _each(tensors, _as_2d)


@function
def atleast_3d(*tensors):
    """atleast_3d(*tensors): each with at least three dimensions."""
    return _each(tensors, _as_3d)


def _some(name, tensors):
    if not len(tensors):
        raise RuntimeError(f'{name} expects a non-empty TensorList')
    return tensors


@function
def hstack(tensors):
    """hstack(tensors): joined along the second dimension, vectors along their only one."""
    tensors = [_as_1d(t) for t in _some('hstack', tensors)]
    return cat(tensors, 0 if tensors and tensors[0].ndim == 1 else 1)


@function
def vstack(tensors):
    """vstack(tensors): joined along the first dimension, vectors as rows."""
    return cat([_as_2d(t) for t in _some('vstack', tensors)])


@function
def dstack(tensors):
    """dstack(tensors): joined along the third dimension."""
    return cat([_as_3d(t) for t in _some('dstack', tensors)], 2)


@function
def column_stack(tensors):
    """column_stack(tensors): joined along the second dimension, vectors as columns."""
    return cat([t.reshape(-1, 1) if t.ndim < 2 else t for t in tensors], 1)


@function
def row_stack(tensors):
    """row_stack(tensors): vstack."""
    return vstack(tensors)


@function
def block_diag(*tensors):
    """block_diag(*tensors): a matrix with these along its diagonal."""
    for position, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            raise TypeError(f'expected Tensor as element {position} in argument 0, but got {type(tensor).__name__}')
        if tensor.ndim > 2:
            raise RuntimeError(f'torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {position} has '
                               f'{tensor.ndim} dimensions')
    if not tensors:
        return zeros(1, 0)
    blocks = [_as_2d(t) for t in tensors]
    width, rows, before = sum(b.shape[1] for b in blocks), [], 0
    for block in blocks:
        rows.append(pad(block, (before, width - before - block.shape[1])))
        before += block.shape[1]
    return cat(rows)


# ---- dimensions ----------------------------------------------------------------------------------------------


@method
def movedim(self, source, destination):
    """movedim(source, destination): move dimensions, the others keep their order."""
    source, destination = axes_of(self, source), axes_of(self, destination)
    if not len(source) == len(destination) == len(set(source)) == len(set(destination)):
        raise RuntimeError('movedim: source and destination must be distinct dimensions, as many of each')
    if self.ndim == 0:
        return self
    order = [d for d in range(self.ndim) if d not in source]
    for to, origin in sorted(zip(destination, source)):
        order.insert(to, origin)
    return self.permute(order)


@method
def unflatten(self, dim, sizes):
    """unflatten(dim, sizes): one dimension becomes several; one size may be -1."""
    if not self.ndim and dim in (-1, 0):
        raise RuntimeError(f'unflatten got an unexpected error:\nDimension specified as {dim} but tensor has no dimensions')
    dim, sizes = axis_of(self, dim), list(sizes)
    if not sizes:
        raise RuntimeError('unflatten: sizes must be non-empty')
    known = math.prod(s for s in sizes if s != -1)
    if sizes.count(-1) == 1 and known and self.shape[dim] % known == 0:
        sizes[sizes.index(-1)] = self.shape[dim] // known
    if math.prod(sizes) != self.shape[dim]:
        raise RuntimeError(f"unflatten: Provided sizes {sizes} don't multiply up to the size of dim {dim} "
                           f'({self.shape[dim]}) in the input tensor')
    return self.reshape(*self.shape[:dim], *sizes, *self.shape[dim + 1:])


@method
@no_view
def rot90(self, k=1, dims=(0, 1)):
    """rot90(k=1, dims=(0, 1)): k quarter turns from the first of two dimensions towards the second."""
    if len(dims) != 2:
        raise RuntimeError(f'expected total rotation dims == 2, but got dims = {len(dims)}')
    if self.ndim < 2:
        raise RuntimeError(f'expected total dims >= 2, but got total dims = {self.ndim}')
    first, second = axes_of(self, dims)
    if first == second:
        raise RuntimeError(f'expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}')
    k %= 4
    if k == 2:
        return self.flip(first, second)
    return (self.flip(second) if k == 1 else self.flip(first)).transpose(first, second) if k else self.clone()._packed()


@method
def fliplr(self):
    """fliplr(): reversed along the second dimension."""
    if self.ndim < 2:
        raise RuntimeError('Input must be >= 2-d.')
    return self.flip(1)


@method
def flipud(self):
    """flipud(): reversed along the first dimension."""
    if self.ndim < 1:
        raise RuntimeError('Input must be >= 1-d.')
    return self.flip(0)


@method
def roll(self, shifts, dims=None, *, axis=None):
    """roll(shifts, dims=None): shift elements around; without dims, in the flattened tensor."""
    dims = axis if dims is None else dims
    if dims is None or dims == ():
        if not hasattr(shifts, '__index__') and len(shifts) != 1:
            raise RuntimeError(f'shifts and dimensions must align. shifts: {len(shifts)}, dims:0')
        return self.flatten().roll(shifts, 0).reshape(self.shape)
    shifts = [shifts] if hasattr(shifts, '__index__') else list(shifts)
    dims = [dims] if hasattr(dims, '__index__') else list(dims)
    if len(shifts) != len(dims):
        raise RuntimeError(f'shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}')
    if not self.ndim:
        raise IndexError(f'Dimension specified as {dims[0]} but tensor has no dimensions')
    for shift, dim in zip(shifts, dims):
        size = self.size(dim)
        shift = shift % size if size else 0
        if shift:
            self = cat([self.narrow(dim, size - shift, shift), self.narrow(dim, 0, size - shift)], dim)
    return self.clone()._packed()


@function
def channel_shuffle(input, groups):
    """channel_shuffle(input, groups): the second dimension as groups, transposed."""
    if input.ndim < 3:
        raise RuntimeError(f'channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}')
    if groups <= 0:
        raise RuntimeError(f'Number of groups to divide channels in must be positive. Value of groups:{groups}')
    if input.shape[1] % groups:
        raise RuntimeError(f'Number of channels must be divisible by groups. Got {input.shape[1]} channels and {groups} groups.')
    shape = input.shape
    return input.reshape(shape[0], groups, shape[1] // groups, *shape[2:]).transpose(1, 2).reshape(shape)


@function
def meshgrid(*tensors, indexing='ij'):
    """meshgrid(*tensors, indexing='ij'): the coordinates of a grid; 'xy' swaps the first two dimensions."""
    tensors = tensors_of(tensors)
    if indexing not in ('ij', 'xy'):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    if any(t.ndim > 1 for t in tensors):
        raise RuntimeError('torch.meshgrid: Expected 0D or 1D tensor in the tensor list')
    if indexing == 'xy' and len(tensors) > 1:
        grids = meshgrid(tensors[1], tensors[0], *tensors[2:])
        return (grids[1], grids[0], *grids[2:])
    shape = [t.numel() for t in tensors]
    return tuple(t.reshape([t.numel() if d == k else 1 for d in range(len(tensors))]).expand(shape)
                 for k, t in enumerate(tensors))


@function
def broadcast_tensors(*tensors):
    """broadcast_tensors(*tensors): all expanded to one shape."""
    tensors = tensors_of(tensors)
    shape = broadcast_shapes(*(t.shape for t in tensors))
    return tuple(t.expand(shape) for t in tensors)


@function
def broadcast_shapes(*shapes):
    """broadcast_shapes(*shapes): the shape that tensors of these shapes broadcast to."""
    shapes = [(s,) if hasattr(s, '__index__') else tuple(s) for s in shapes]
    result = []
    for k in range(1, max(map(len, shapes), default=0) + 1):
        sizes = {s[-k] for s in shapes if len(s) >= k} - {1}
        if len(sizes) > 1:
            raise RuntimeError('Shape mismatch: objects cannot be broadcast to a single shape')
        result.append(sizes.pop() if sizes else 1)
    return _gt.Size(reversed(result))


# ---- repetitions ---------------------------------------------------------------------------------------------


@method
def repeat(self, *sizes, repeats=None):
    """repeat(*sizes): copies along each dimension; more sizes than dimensions add leading ones."""
    sizes = sizes_of(sizes, repeats)
    if len(sizes) < self.ndim:
        raise RuntimeError(
            'Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor')
    if any(size < 0 for size in sizes):
        raise RuntimeError(f'Trying to create tensor with negative dimension {[s for s in sizes if s < 0][0]}')
    result = self.reshape((1,) * (len(sizes) - self.ndim) + self.shape)
    for dim, times in enumerate(sizes):
        if times != 1:
            result = _repeat_axis(result, dim, times)
    return result._value()  # a tensor of its own, also where nothing is repeated


def _repeat_axis(self, dim, times):
    """Repeat one dimension within the limits of rank and operand count: views, then one copy."""
    before, size, after = self.shape[:dim], self.shape[dim], self.shape[dim + 1:]
    outer, inner = math.prod(before), size * math.prod(after)
    return self.reshape(outer, 1, inner).expand(outer, times, inner).reshape(*before, times * size, *after)


@method
def tile(self, *repetitions, dims=None):
    """tile(*dims): repeat, with missing leading repetitions taken as 1."""
    dims = sizes_of(repetitions if dims is None else (dims,))
    return self.repeat((1,) * (self.ndim - len(dims)) + tuple(dims))


@method
def repeat_interleave(self, repeats=None, dim=None, *, output_size=None):
    """repeat_interleave(repeats, dim=None): each element `repeats` times in a row; without dim, flattened. A tensor
    gives a count per element; then it waits for their sum unless output_size is given. Repeats alone: positions."""
    if repeats is None:
        return arange(self.numel()).repeat_interleave(self, 0, output_size=output_size)
    if dim is None:
        return self.flatten().repeat_interleave(repeats, 0, output_size=output_size)
    dim = axis_of(self, dim)
    if isinstance(repeats, Tensor) and repeats.numel() > 1 or isinstance(repeats, (list, tuple)):
        return self.index_select(dim, _repeated_indices(self, repeats, dim, output_size))
    repeats = int(repeats)
    if repeats < 0:
        raise RuntimeError('Repeats must be non-negative')
    before, size, after = self.shape[:dim], self.shape[dim] if self.ndim else 1, self.shape[dim + 1:]
    outer, inner = math.prod(before), math.prod(after)
    flat = self.reshape(outer * size, 1, inner).expand(outer * size, repeats, inner)
    return flat.reshape(*before, size * repeats, *after)._value()


def _repeated_indices(self, repeats, dim, output_size):
    repeats = repeats if isinstance(repeats, Tensor) else _gt.tensor(repeats)
    if repeats.ndim != 1 or repeats.shape[0] != self.shape[dim]:
        raise RuntimeError('repeats must have the same size as input along dim, but got repeats.size(0) = '
                           f'{repeats.numel()} and input.size({dim}) = {self.shape[dim]}')
    ends = repeats.long().cumsum(0)
    total = int(ends[-1]) if output_size is None else output_size
    return ends.searchsorted(arange(total), right=True)


# ---- diagonals -----------------------------------------------------------------------------------------------


@method
@no_view
def diag_embed(self, offset=0, dim1=-2, dim2=-1):
    """diag_embed(offset=0, dim1=-2, dim2=-1): matrices that have the last dimension as their diagonal."""
    size, rank = self.shape[-1], self.ndim + 1
    dims = [d + rank if d < 0 else d for d in (dim1, dim2)]
    if not all(0 <= d < rank for d in dims):
        raise IndexError(f'Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got '
                         f'{dim1 if not 0 <= dims[0] < rank else dim2})')
    if dims[0] == dims[1]:
        raise RuntimeError(f'diagonal dimensions cannot be identical {dim1}, {dim2}')
    width = size + abs(offset)
    start = offset if offset >= 0 else -offset * width
    flat = zeros(*self.shape[:-1], width * width, dtype=self.dtype)
    if size:
        flat[..., start:start + (size - 1) * (width + 1) + 1:width + 1] = self
    return flat.reshape(*self.shape[:-1], width, width).movedim((-2, -1), dims)


@method
def diag(self, diagonal=0):
    """diag(diagonal=0): the diagonal of a matrix, or the matrix with this diagonal."""
    if self.ndim == 1:
        return self.diag_embed(diagonal)
    if self.ndim != 2:
        raise RuntimeError(f'diag(): Supports 1D or 2D tensors. Got {self.ndim}D')
    return self.diagonal(diagonal)._value()


@method
@no_view
def diagflat(self, offset=0):
    """diagflat(offset=0): the matrix with all elements on its diagonal."""
    return self.flatten().diag_embed(offset)


@method
def trace(self):
    """trace(): the sum of the diagonal of a matrix."""
    if self.ndim != 2:
        raise RuntimeError(f'trace: expected a matrix, but got tensor with dim {self.ndim}')
    return self.diagonal().sum()


# ---- padding -------------------------------------------------------------------------------------------------


def _pad_constant(input, sides, value):
    """sides: (before, after) for every dimension; negative ones cut."""
    for dim, (before, after) in enumerate(sides):
        if before < 0 or after < 0:
            start = -before if before < 0 else 0
            length = input.shape[dim] - start - (-after if after < 0 else 0)
            if length < 0:
                raise RuntimeError(f'The input size {input.shape[dim]}, plus negative padding {before} and {after}, '
                                   f'resulted in a negative output size')
            input = input.narrow(dim, start, length)
    sides = [(before if before > 0 else 0, after if after > 0 else 0) for before, after in sides]
    if not any(before or after for before, after in sides):
        return input.clone()
    shape = [before + size + after for size, (before, after) in zip(input.shape, sides)]
    result = full(shape, value, dtype=input.dtype)
    result[tuple(slice(before, before + size) for size, (before, _) in zip(input.shape, sides))] = input
    return result


def _pad_axis(input, dim, before, after, mode):
    """Pad one dimension by gathering the element that each new position repeats."""
    size = input.shape[dim]
    place = arange(-before, size + after)
    if mode == 'reflect':
        if before >= size or after >= size:
            raise RuntimeError(f'Padding size should be less than the corresponding input dimension, but got: padding '
                               f'({before}, {after}) at dimension {dim} of input {list(input.shape)}')
        place = (size - 1) - ((size - 1) - place.abs()).abs()
    elif mode == 'replicate':
        if not size:
            raise RuntimeError(f'Expected a non-empty dimension {dim} for replicate padding')
        place = place.clamp(0, size - 1)
    else:
        if before > size or after > size:
            raise RuntimeError(f'Padding value causes wrapping around more than once: ({before}, {after}) at dimension '
                               f'{dim} of input {list(input.shape)}')
        place = place % size
    return input.index_select(dim, place)


@function
def constant_pad_nd(input, pad, value=0):
    """constant_pad_nd(input, pad, value=0): nn.functional.pad with a constant."""
    return globals()['pad'](input, pad, 'constant', value)


def pad(input, pad, mode='constant', value=None):
    """Pad dimensions from the last one backwards: pad is (left, right, top, bottom, ...); negative sizes cut. The new
    elements are a value, or 'reflect', 'replicate' or 'circular' copies."""
    pad = tuple(int(p) for p in pad)
    if len(pad) % 2:
        raise RuntimeError('Padding length must be divisible by 2')
    if len(pad) > 2 * input.ndim:
        raise RuntimeError(f'Padding length should be less than or equal to two times the input dimension. Padding '
                           f'length: {len(pad)}, input dimension: {input.ndim}')
    sides = [(0, 0)] * (input.ndim - len(pad) // 2)
    sides += reversed([(pad[k], pad[k + 1]) for k in range(0, len(pad), 2)])
    if mode == 'constant':
        if value is not None and not isinstance(value, Tensor):
            value = input._fit(value if isinstance(value, complex) else float(value))
        return _pad_constant(input, sides, 0 if value is None else value)
    if mode not in ('reflect', 'replicate', 'circular'):
        raise NotImplementedError(f'Unrecognised padding mode {mode}')
    for dim, (before, after) in enumerate(sides):
        if mode != 'replicate' and (before < 0 or after < 0):
            input = _pad_constant(input, [(min(b, 0), min(a, 0)) if d == dim else (0, 0)
                                          for d, (b, a) in enumerate(sides)], 0)
            before, after = max(before, 0), max(after, 0)
        if before or after:
            input = _pad_axis(input, dim, before, after, mode)
    return input
