"""Tensor methods that select elements by index or mask, write at indices, and count values.

Results whose size depends on the elements (masked_select, nonzero, bincount) wait once, for that size.
"""

import math
from types import MethodType, SimpleNamespace

from gt import _gt
from gt._gt import Tensor, arange, cat, full, full_like, stack, where, zeros
from gt.client.registry import axis_of, function, in_place, method, no_view


# ---- reading -------------------------------------------------------------------------------------------------


@method
def take_along_dim(self, indices, dim=None):
    """take_along_dim(indices, dim=None): gather with indices broadcast; without dim, from the flattened tensor."""
    if dim is None:
        return self.flatten().take_along_dim(indices.flatten(), 0)
    if indices.dtype != _gt.int64:
        raise RuntimeError(f'torch.take_along_dim(): dtype of indices should be Long but got {indices.dtype}')
    dim = axis_of(self, dim)
    if indices.ndim != self.ndim:
        raise RuntimeError(f'take_along_dim(): input and indices should have the same number of dimensions, but '
                           f'got {self.ndim} for input and {indices.ndim} for indices')
    shape = [i if s == 1 else s for s, i in zip(self.shape, indices.shape)]
    mine, theirs = list(shape), list(shape)
    mine[dim], theirs[dim] = self.shape[dim], indices.shape[dim]
    size = self.shape[dim]
    return self.expand(mine).gather(dim, where(indices < 0, indices + size, indices).expand(theirs))


@method
def take_along_axis(self, indices, axis):
    """take_along_axis(indices, axis): NumPy's take_along_dim: negative indices count from the end."""
    size = self.numel() if axis is None else self.shape[axis]
    return self.take_along_dim(indices + (indices < 0) * size, axis)


@method
def take(self, index, axis=None):
    """take(index): elements of the flattened tensor; take(index, axis): slices along a dimension."""
    if not isinstance(index, Tensor):
        raise TypeError(f"take(): argument 'index' (position 1) must be Tensor, not {type(index).__name__}")
    if index.dtype != _gt.int64:
        raise RuntimeError(f'take(): Expected a long tensor for index, but got {index.dtype._kind}')
    flat, axis = (self.flatten(), 0) if axis is None else (self, axis)
    return flat._pick_rows(axis, index)


@function
def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    """embedding(weight, indices, padding_idx=-1): rows of weight (V, D) for each of the indices (...): a tensor (..., D).
    nn.functional.embedding has the indices first. A padding_idx that is not negative names a row that gets no gradient;
    scale_grad_by_freq divides gradients by how often their index occurs; sparse is accepted, gradients are dense."""
    from gt.nn.embedding import rows_of
    return rows_of(weight, indices, padding_idx if padding_idx >= 0 else None, scale_grad_by_freq)


# ---- masks ---------------------------------------------------------------------------------------------------


def _broadcast_mask(self, mask):
    if mask.dtype != _gt.bool:
        raise RuntimeError(f'masked_select: expected BoolTensor for mask, but got {mask.dtype}')
    if mask.shape == self.shape:
        return self, mask
    both = (mask | (self != self)).shape
    return self.expand(both), mask.expand(both)


@method
def masked_select(self, mask):
    """masked_select(mask): the elements where a (broadcast) mask holds, flat."""
    given = mask
    self, mask = _broadcast_mask(self, mask)
    return self[mask]._watch(given)


@method
@no_view
def masked_scatter(self, mask, source):
    """masked_scatter(mask, source): the elements where a mask holds are replaced by those of source, in order."""
    given = mask
    self, mask = _broadcast_mask(self, mask)
    positions = mask._positions()
    count = positions.shape[0]
    if count > source.numel():
        raise RuntimeError(f'masked_scatter: expected self and source to have same dtypes and source to have at least '
                           f'{count} elements, but got {source.numel()}')
    return self.flatten().scatter(0, positions, source.flatten().narrow(0, 0, count)).reshape(self.shape)._watch(given)


@method
def nonzero(self, as_tuple=False):
    """nonzero(as_tuple=False): the indices of nonzero elements, a row each, or a tensor for each dimension."""
    if as_tuple and self.ndim == 0:
        return self.reshape(1).nonzero(as_tuple=True)
    flat = (self if self.dtype == _gt.bool else self != 0)._positions()
    columns = []
    for size in reversed(self.shape[1:]):
        columns.append(flat % size)
        flat = flat // size
    columns = [flat, *reversed(columns)] if self.ndim else []
    if as_tuple:
        return tuple(columns)
    return stack(columns, 1) if columns else zeros(flat.numel(), 0, dtype=_gt.int64)


@method
def argwhere(self):
    """argwhere(): the indices of nonzero elements, a row each."""
    return self.nonzero()


@method
def count_nonzero(self, dim=None):
    """count_nonzero(dim=None): how many elements are not zero."""
    return (self != 0).sum(dim)


# ---- writing at indices --------------------------------------------------------------------------------------


def _spread(self, dim, index, shape):
    """Expand a one-dimensional index along a dimension to an index for every element of this shape."""
    if index.ndim > 1:
        raise IndexError('Index is supposed to be a vector, but got dim: %d' % index.ndim)
    lines = [index.numel() if d == dim else 1 for d in range(len(shape))]
    return index.reshape(lines).expand(shape)


_ROWS = ('scatter', 'scatter_add', 'scatter_reduce', '_add_stepwise', '_index_put')


_APART = ('index_add', 'index_copy', 'index_fill', 'index_reduce')  # PyTorch refuses operands with memory of self


def _written(make, suffix):
    rows = SimpleNamespace(in_place=bool(suffix), **{name: getattr(Tensor, name + suffix) for name in _ROWS})
    bound = MethodType(make, rows)

    def written(self, *arguments, **options):
        if suffix:
            self._check_write()
            if make.__name__ in _APART:
                self._check_apart(*(x for x in (*arguments, *options.values()) if isinstance(x, Tensor)))
        return bound(self, *arguments, **options)
    written.__name__, written.__wrapped__ = make.__name__ + suffix, bound
    written.__doc__ = f'{make.__name__}_(...): {make.__name__}, in place.' if suffix else make.__doc__
    return written


def _writes(make):
    """Two methods of one definition: name() makes a new tensor, name_() writes in place. Its first argument, `rows`, has
    the methods of _ROWS to do it with."""
    for suffix in ('', '_'):
        method(_written(make, suffix))


def _indexed(name, self, dim, index, source, write):
    dim = axis_of(self, dim)
    if self.ndim == 0:
        index, source = index.reshape(-1), source.reshape(-1)
    wanted = [index.numel() if d == dim else s for d, s in enumerate(self.shape or (1,))]
    if list(source.shape) != wanted:
        raise RuntimeError(f'{name}(): expected source of shape {tuple(wanted)} for an index of {index.numel()} elements, '
                           f'but got {tuple(source.shape)}')
    return write(self, dim, _spread(self, dim, index, source.shape), source)


@_writes
def index_add(rows, self, dim, index, source, *, alpha=1):
    """index_add(dim, index, source, alpha=1): add alpha times the slices of source to the slices at index."""
    # PyTorch sums halves in float32 along the first or last of several dimensions only.
    wide = alpha == 1 and self.ndim > 1 and axis_of(self, dim) in (0, self.ndim - 1) and index.dtype == _gt.int64
    write = rows.scatter_add if wide else rows._add_stepwise
    alpha = self._fit(alpha)
    return _indexed('index_add', self, dim, index, source if alpha == 1 else source._scaled(alpha), write)


@_writes
def index_copy(rows, self, dim, index, source):
    """index_copy(dim, index, source): replace the slices at index by those of source."""
    return _indexed('index_copy', self, dim, index, source, rows.scatter)


@_writes
def index_reduce(rows, self, dim, index, source, reduce, *, include_self=True):
    """index_reduce(dim, index, source, reduce, include_self=True): prod, mean, amax or amin by index."""
    def write(a, d, i, s):
        return rows.scatter_reduce(a, d, i, s, reduce, include_self=include_self)
    return _indexed('index_reduce', self, dim, index, source, write)


@_writes
def index_fill(rows, self, dim, index, value):
    """index_fill(dim, index, value): set the slices at index to one value."""
    dim = axis_of(self, dim)
    shape = [index.numel() if d == dim else s for d, s in enumerate(self.shape or (1,))]
    if isinstance(value, complex):
        value = _gt.tensor(value, dtype=self.dtype)
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(f'index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} '
                               f'dimension(s).')
        if value.requires_grad and self.ndim:  # an index that occurs twice counts once
            line = zeros(self.shape[dim], dtype=_gt.bool).scatter(0, index.reshape(-1), True)
            chosen = line.reshape([-1 if d == dim else 1 for d in range(self.ndim)])
            filled = where(chosen, value.to(self.dtype), self)
            return self._become(filled) if rows.scatter is Tensor.scatter_ else filled
        value = value.to(self.dtype).expand(shape)
    else:
        value = self._fit(value)
    if rows.in_place and self._overlaps():
        self[(slice(None),) * dim + (index,)] = value
        return self
    return rows.scatter(self, dim, _spread(self, dim, index, shape), value)


@_writes
def index_put(rows, self, indices, values, accumulate=False):
    """index_put(indices, values, accumulate=False): self after self[indices] = values, or +=, where repeated
    indices add repeatedly."""
    if isinstance(indices, Tensor):
        raise TypeError("index_put(): argument 'indices' (position 1) must be tuple of Tensors, not Tensor")
    indices = tuple(indices)
    for position, index in enumerate(indices):
        if not isinstance(index, Tensor):
            raise TypeError(f'expected Tensor as element {position} in argument 0, but got {type(index).__name__}')
    return rows._index_put(self, indices, values, accumulate)


@_writes
def scatter(rows, self, dim, index, src=None, *, value=None, reduce=None):
    """scatter(dim, index, src): write src, a tensor or a number, at index; reduce: 'add' or 'multiply'."""
    src = value if src is None else src
    if reduce is None:
        return rows.scatter(self, dim, index, src)
    if reduce not in ('add', 'multiply'):
        raise RuntimeError('reduce argument must be either add or multiply.')
    src = src if isinstance(src, Tensor) else full_like(index, src, dtype=self.dtype)
    if reduce == 'add':
        return rows.scatter_add(self, dim, index, src)
    return rows.scatter_reduce(self, dim, index, src, 'prod')


@method
@no_view
def put(self, index, source, accumulate=False):
    """put(index, source, accumulate=False): replace elements of the flattened tensor, or add to them."""
    if index.dtype != _gt.int64:
        raise RuntimeError(f'put_(): Expected a long tensor for index, but got {index.dtype}')
    if source.dtype != self.dtype:
        raise RuntimeError('put_(): self and source expected to have the same dtype, but got self.dtype = '
                           f'{self.dtype} and source.dtype = {source.dtype}')
    if index.numel() != source.numel():
        raise RuntimeError(f'put_(): Expected source and index to have the same number of elements, but got source.numel() '
                           f'= {source.numel()}, index.numel() = {index.numel()}')
    size = self.numel()
    if not size and index.numel():
        raise IndexError('put_(): Expected self not to be empty for a non-empty index')
    write = Tensor._add_stepwise if accumulate else Tensor.scatter
    place = index.flatten()
    return write(self.flatten(), 0, where(place < 0, place + size, place), source.flatten()).reshape(self.shape)._watch(index)


in_place('masked_scatter', 'put')


@method
def masked_fill_(self, mask, value):
    """masked_fill_(mask, value): masked_fill, in place."""
    self._check_write()
    if self._overlaps():
        self[mask.expand(self.shape)] = value
        return self
    return self._become(self._value().masked_fill(mask, value))


@method
def nonzero_static(self, *, size, fill_value=-1):
    """nonzero_static(size, fill_value=-1): nonzero() cut, or filled up, to a number of rows; it does not wait."""
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    if not self.ndim:
        return full((size, 0), fill_value, dtype=_gt.int64)
    flat = (self != 0).flatten()
    count = flat.sum()
    order = (~flat).to(_gt.uint8).argsort(0)[:size]
    if order.shape[0] < size:
        order = _gt.cat([order, zeros(size - order.shape[0], dtype=_gt.int64)])
    rows = []
    for dim in reversed(self.shape):
        rows.append(order % dim if dim else order)
        order = order // dim if dim else order
    inside = _gt.arange(size) < count
    return stack([where(inside, row, fill_value) for row in reversed(rows)], 1)


# ---- triangles by index --------------------------------------------------------------------------------------


@function
def tril_indices(row, col, offset=0, *, dtype=_gt.int64, device=None, layout=None):
    """tril_indices(row, col, offset=0): rows and columns of the elements of a lower triangle, (2, count)."""
    return _triangle((full((row, col), True, dtype=_gt.bool)).tril(offset), dtype)


@function
def triu_indices(row, col, offset=0, *, dtype=_gt.int64, device=None, layout=None):
    """triu_indices(row, col, offset=0): rows and columns of the elements of an upper triangle, (2, count)."""
    return _triangle((full((row, col), True, dtype=_gt.bool)).triu(offset), dtype)


def _triangle(mask, dtype):
    return stack(mask.nonzero(as_tuple=True)).to(dtype)


@function
@no_view
def combinations(input, r=2, with_replacement=False):
    """combinations(input, r=2, with_replacement=False): the choices of r elements of a vector, a row each."""
    if input.ndim != 1:
        raise RuntimeError(f'Expect a 1D vector, but got shape {list(input.shape)}')
    if r < 0:
        raise RuntimeError(f'Expect a non-negative number, but got {r}')
    if r == 0:
        return zeros(0, dtype=input.dtype)
    size = input.shape[0]
    count = math.comb(size + r - 1, r) if with_replacement and size else math.comb(size, r)
    if not count:
        return input[:0].reshape(0, 1).expand(0, r)
    if count > _MOST_ELEMENTS // r:
        raise _gt.OutOfMemoryError(f'combinations: the choices of {r} of {size} elements do not fit into any memory')
    return input[_choices(size, r, with_replacement)]


_MOST_ELEMENTS = 1 << 58  # more do not fit into any memory; fewer may still be too many for the worker


def _choices(size, r, with_replacement):
    """The positions of all choices, (count, r), in order. Computed by the worker, a column at a time: each beginning of a row is
    followed by every position that may come next."""
    spare = size if with_replacement else size - r + 1  # positions that the first column may have
    rows = arange(spare).reshape(spare, 1)
    for column in range(1, r):
        last = rows[:, -1]
        first_next = last if with_replacement else last + 1
        counts = (size if with_replacement else spare + column) - first_next
        ends = counts.cumsum(0)
        total = math.comb(size + column, column + 1) if with_replacement else math.comb(spare + column, column + 1)
        positions = arange(total)
        parent = ends.searchsorted(positions, right=True)
        following = positions - (ends - counts)[parent] + first_next[parent]
        rows = cat([rows[parent], following.reshape(total, 1)], 1)
    return rows


@function
def cartesian_prod(*tensors):
    """cartesian_prod(*tensors): every choice of one element of each vector, a row each."""
    if len(tensors) == 1:
        return tensors[0]
    from gt.client.arrangement import meshgrid
    return stack([grid.flatten() for grid in meshgrid(*tensors, indexing='ij')], 1)
