"""Tensor methods about order: extremes with their places, sorting, medians, distinct elements, searches.

Everything that sorts is stable. Results whose size depends on the elements (unique) wait once, for that size.
"""

from gt import _gt, return_types
from gt._gt import Tensor, arange, cat, full, where
from gt.client.dtypes import result_type
from gt.client.registry import axis_of, function, method, no_view


# ---- extremes ------------------------------------------------------------------------------------------------


def _extremum(kind, self, dim, keepdim, other, elementwise, reduce, search, of_all):
    if other is None and isinstance(dim, Tensor):
        dim, other = None, dim
    if other is not None:
        return elementwise(self, other)
    if dim is None:
        if not self.numel():
            raise RuntimeError(f'{kind.__name__}(): Expected reduction dim to be specified for input.numel() == 0. Specify the '
                               "reduction dim with the 'dim' argument.")
        return reduce(self, keepdim=True) if keepdim else of_all(self)
    if not hasattr(dim, '__index__'):
        return reduce(self, dim, keepdim)
    indices = search(self, dim, True)
    return _reduced(kind, self.gather(dim, indices), indices, dim, keepdim)


def _reduced(kind, values, indices, dim, keepdim):
    """A result with size 1 along a dimension, or without that dimension."""
    result = kind(values, indices) if keepdim else _gt._own(kind(values.squeeze(dim), indices.squeeze(dim)))
    result.values._watch(result.indices)
    return result


@method
def max(self, dim=None, keepdim=False, *, other=None, axis=None, keepdims=False):
    """max(): the largest element; max(dim): (values, indices); max(other): maximum; max((0, 1)): over several."""
    dim = axis if dim is None else dim
    if isinstance(keepdim, Tensor):
        raise TypeError('max() received an invalid combination of arguments - got (Tensor, Tensor, Tensor)')
    return _extremum(return_types.max, self, dim, keepdim or keepdims, other, Tensor.maximum, Tensor.amax,
                     Tensor.argmax, Tensor._max_of_all)


@method
def min(self, dim=None, keepdim=False, *, other=None, axis=None, keepdims=False):
    """min(): the smallest element; min(dim): (values, indices); min(other): minimum; min((0, 1)): over several."""
    dim = axis if dim is None else dim
    if isinstance(keepdim, Tensor):
        raise TypeError('min() received an invalid combination of arguments - got (Tensor, Tensor, Tensor)')
    return _extremum(return_types.min, self, dim, keepdim or keepdims, other, Tensor.minimum, Tensor.amin,
                     Tensor.argmin, Tensor._min_of_all)


@method
def aminmax(self, *, dim=None, keepdim=False):
    """aminmax(dim=None, keepdim=False): (min, max)."""
    return return_types.aminmax(self.amin(dim, keepdim), self.amax(dim, keepdim))


@method
def cummax(self, dim):
    """cummax(dim): (values, indices) of the largest element so far."""
    indices = self._cummax_indices(dim)
    return return_types.cummax(self.gather(dim, indices), indices)


@method
def cummin(self, dim):
    """cummin(dim): (values, indices) of the smallest element so far."""
    indices = self._cummin_indices(dim)
    return return_types.cummin(self.gather(dim, indices), indices)


# ---- sorting -------------------------------------------------------------------------------------------------


@method
def sort(self, dim=-1, descending=False, stable=False, *, axis=None):
    """sort(dim=-1, descending=False, stable=False): (values, indices); always stable."""
    dim = dim if axis is None else axis
    indices = self.argsort(dim, descending)
    return return_types.sort(self.gather(dim, indices)._laid_like(self), indices._laid_like(self))


@method
def msort(self):
    """msort(): sorted along the first dimension."""
    return self.sort(0).values


@method
def topk(self, k, dim=-1, largest=True, sorted=True, *, axis=None):
    """topk(k, dim=-1, largest=True): (values, indices) of the k largest or smallest, best first."""
    dim = dim if axis is None else axis
    indices = self._topk_indices(k, dim, largest)
    return return_types.topk(self.gather(dim, indices), indices)


def _size(self, dim):
    return self.shape[dim] if self.ndim else 1


@method
@no_view
def kthvalue(self, k, dim=-1, keepdim=False):
    """kthvalue(k, dim=-1, keepdim=False): (values, indices) of the k-th smallest, counted from 1."""
    dim, size = axis_of(self, dim), _size(self, axis_of(self, dim))
    if not 1 <= k <= size:
        raise RuntimeError('kthvalue(): selected number k out of range for dimension %d' % dim)
    indices = self._topk_indices(k, dim, False)
    indices = indices.narrow(dim, k - 1, 1).contiguous() if self.ndim else indices
    return _reduced(return_types.kthvalue, self.gather(dim, indices), indices, dim, keepdim)


def _recorded_median(self, value, skips_nan):
    """The value, of detached elements, with a gradient that all elements equal to it share, as in PyTorch."""
    level = _gt._vmap_level(self) if _gt._vmap_active() else 0
    if not level:
        return self._as_median(value, skips_nan)
    samples = _gt._vmap_unwrap(self.reshape(-1), level)
    return _gt._vmap_wrap(_recorded_median(samples, _gt._vmap_unwrap(value, level), skips_nan), level)


def _median_of_none(self):
    """The median of no elements, as in PyTorch: NaN, or what a NaN becomes as an integer or a bool."""
    kind = self.dtype
    return full((), float('nan') if kind.is_floating_point else kind == _gt.bool, dtype=kind)


@method
def median(self, dim=None, keepdim=False):
    """median(): the median element, the lower of two; median(dim): (values, indices). NaN makes it NaN."""
    if dim is None:
        return _recorded_median(self, self.detach().flatten().median(0).values if self.numel() else _median_of_none(self), False)
    dim = axis_of(self, dim)
    indices = self._topk_indices((_size(self, dim) + 1) // 2, dim, False)
    indices = indices.narrow(dim, indices.shape[dim] - 1, 1) if self.ndim else indices
    if self.is_floating_point():  # argmax treats NaN as the largest, too
        indices = where(self.isnan().any(dim, True), self.argmax(dim, True), indices)
    return _reduced(return_types.median, self.gather(dim, indices), indices, dim, keepdim)


@method
def nanmedian(self, dim=None, keepdim=False):
    """nanmedian(): the median of the elements that are numbers; nanmedian(dim): (values, indices)."""
    if dim is None:
        value = self.detach().flatten().nanmedian(0).values if self.numel() else _median_of_none(self)
        return _recorded_median(self, value, True)
    if not self.is_floating_point():
        return return_types.nanmedian(*self.median(dim, keepdim))
    dim = axis_of(self, dim)
    order = self.argsort(dim)
    middle = (((~self.isnan()).sum(dim, True) - 1).clamp(min=0) // 2)
    indices = order.gather(dim, middle)
    return _reduced(return_types.nanmedian, self.gather(dim, indices), indices, dim, keepdim)


_INTERPOLATIONS = ('linear', 'lower', 'higher', 'nearest', 'midpoint')


def _quantile_fraction(name, self, q):
    """q as a tensor, checked."""
    if self.dtype not in (_gt.float32, _gt.float64):
        raise RuntimeError(f'{name}() input tensor must be either float or double dtype')
    if not isinstance(q, Tensor):
        if not 0 <= q <= 1:
            raise RuntimeError(f'{name}() q must be in the range [0, 1] but got {q}')
        return _gt.tensor(q, dtype=self.dtype)
    if q.ndim > 1:
        raise RuntimeError(f'{name}() q must be a scalar or 1D tensor')
    if q.dtype != self.dtype:
        raise RuntimeError(f'{name}() q tensor must be same dtype as the input tensor')
    if q.numel() and bool(((q < 0) | (q > 1)).any()):
        raise RuntimeError(f'{name}() q values must be in the range [0, 1]')
    return q


def _quantile(name, self, q, dim, keepdim, interpolation, skip_nan):
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(f'{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got '
                           f'{interpolation}')
    q = _quantile_fraction(name, self, q)
    if not self.numel():
        raise RuntimeError(f'{name}() input tensor must be non-empty')
    if dim is None:
        flat = _quantile(name, self.flatten(), q, 0, False, interpolation, skip_nan)
        return flat.reshape(flat.shape + (1,) * self.ndim) if keepdim else flat
    dim = axis_of(self, dim)
    ordered = self.sort(dim).values.movedim(dim, -1) if self.ndim else self.reshape(1)
    nan = ordered.isnan()
    last = ((~nan).sum(-1, True) - 1).clamp(min=0) if skip_nan else ordered.shape[-1] - 1
    place = (q.flatten() * last).expand(*ordered.shape[:-1], q.numel())
    low, high = place.floor(), place.ceil()
    if interpolation != 'linear':
        chosen = {'lower': lambda: low, 'higher': lambda: high, 'nearest': place.round,
                  'midpoint': lambda: place}[interpolation]
        place = (low + high) / 2 if interpolation == 'midpoint' else chosen()
    below, above = (ordered.gather(-1, place.floor().long()), ordered.gather(-1, place.ceil().long()))
    value = below.lerp(above, place - place.floor())
    missing = nan.all(-1, True) if skip_nan else nan.any(-1, True)
    value = where(missing, ordered.sum(-1, True), value)
    value = value.movedim(-1, 0)
    value = value.unsqueeze(dim + 1) if keepdim and self.ndim else value
    return value if q.ndim else value.squeeze(0)


@method
@no_view
def quantile(self, q, dim=None, keepdim=False, *, interpolation='linear'):
    """quantile(q, dim=None, keepdim=False, interpolation='linear'): a fraction q of the elements is below it."""
    return _quantile('quantile', self, q, dim, keepdim, interpolation, False)


@method
@no_view
def nanquantile(self, q, dim=None, keepdim=False, *, interpolation='linear'):
    """nanquantile(q, dim=None, keepdim=False, interpolation='linear'): quantile of the elements that are numbers."""
    return _quantile('nanquantile', self, q, dim, keepdim, interpolation, True)


@method
def mode(self, dim=-1, keepdim=False):
    """mode(dim=-1, keepdim=False): (values, indices) of the most frequent element, the smallest of several."""
    if self.ndim == 0:
        return return_types.mode(self.clone(), _gt.zeros((), dtype=_gt.int64))
    dim = axis_of(self, dim)
    order = self.argsort(dim)
    ordered = self.gather(dim, order)
    size = self.shape[dim]
    shape = [size if d == dim else 1 for d in range(self.ndim)]
    places = arange(size).reshape(shape).expand(self.shape)
    starts = cat([full([1 if d == dim else s for d, s in enumerate(self.shape)], True, dtype=_gt.bool),
                  ordered.narrow(dim, 1, size - 1) != ordered.narrow(dim, 0, size - 1)], dim)
    run = places - where(starts, places, 0).cummax(dim).values  # how many equal elements come before
    indices = order.gather(dim, run.argmax(dim, True))
    return _reduced(return_types.mode, self.gather(dim, indices), indices, dim, keepdim)


# ---- distinct elements ---------------------------------------------------------------------------------------


def _runs(items, differs, order, return_inverse, return_counts):
    """Runs of equal items: [the first of each], and if requested the run of every item and the length of each run."""
    count = items.shape[0]
    starts = cat([full((1,), True, dtype=_gt.bool), differs]) if count else differs
    firsts = starts._positions()
    results = [items.index_select(0, firsts)]
    if return_inverse:
        runs = starts.cumsum(0) - 1
        results.append(runs if order is None else _gt.zeros_like(runs).scatter(0, order, runs))
    if return_counts:
        ends = cat([firsts, full((1,), count, dtype=_gt.int64)])
        results.append(ends.narrow(0, 1, firsts.shape[0]) - firsts)
    return results


def _lexicographic(rows):
    """The order that sorts rows (n, k): stable sorts by each column, from the last to the first."""
    order = arange(rows.shape[0])
    for column in reversed(range(rows.shape[1])):
        order = order.gather(0, rows.select(1, column).gather(0, order).argsort(0))
    return order


def _distinct(self, sort, return_inverse, return_counts, dim):
    if dim is None:
        items, order = self.flatten(), None
        if sort:
            order = items.argsort(0)
            items = items.gather(0, order)
        n = items.shape[0]
        differs = items.narrow(0, 1, n - 1) != items.narrow(0, 0, n - 1) if n else items != items
        results = _runs(items, differs, order, return_inverse, return_counts)
        if return_inverse:
            results[1] = results[1].reshape(self.shape)
    else:
        dim = axis_of(self, dim)
        moved = self.movedim(dim, 0)
        rows, order = moved.reshape(moved.shape[0], -1) if moved.numel() else moved.reshape(moved.shape[0], 0), None
        if sort:
            order = _lexicographic(rows)
            rows = rows.index_select(0, order)
        n = rows.shape[0]
        differs = ((rows.narrow(0, 1, n - 1) != rows.narrow(0, 0, n - 1)).any(1) if n
                   else _gt.zeros(0, dtype=_gt.bool))
        results = _runs(rows, differs, order, return_inverse, return_counts)
        results[0] = results[0].reshape(-1 if moved.numel() else 0, *moved.shape[1:]).movedim(0, dim)
    return results[0] if len(results) == 1 else tuple(results)


@method
@no_view
def unique(self, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """unique(sorted=True, return_inverse=False, return_counts=False, dim=None): the distinct elements, or slices along
    a dimension, sorted; on request the position of each element and the counts. Waits for their number."""
    return _distinct(self, True, return_inverse, return_counts, dim)


@method
@no_view
def unique_consecutive(self, return_inverse=False, return_counts=False, dim=None):
    """unique_consecutive(...): like unique, but only merges equal neighbours, without sorting."""
    return _distinct(self, False, return_inverse, return_counts, dim)


# ---- searches ------------------------------------------------------------------------------------------------


@method
def searchsorted(self, input, *, out_int32=False, right=False, side=None, sorter=None):
    """searchsorted(values, right=False): where each value would go in the sorted last dimension."""
    if side not in (None, 'left', 'right'):
        raise RuntimeError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
    if side == 'left' and right:
        raise RuntimeError('torch.searchsorted(): side and right can\'t be set to opposites, got side of left while '
                           'right was True')
    boundaries = self if sorter is None else self.gather(-1, sorter)
    values = input if isinstance(input, Tensor) else _gt.tensor(input)
    if values is not input and not isinstance(input, (list, tuple)):  # a number becomes the dtype of the boundaries
        both = result_type(boundaries, input)
        if both == _gt.bool:
            raise NotImplementedError('"searchsorted_out_cpu" not implemented for \'Bool\'')
        boundaries, values = boundaries.to(both), values.to(both)
    elif values.dtype != boundaries.dtype:
        both = (boundaries.reshape(-1)[:0] + values.reshape(-1)[:0]).dtype
        boundaries, values = boundaries.to(both), values.to(both)
    found = boundaries.detach()._search(values.detach(), bool(right or side == 'right'))
    return found.to(_gt.int32) if out_int32 else found


@method
def bucketize(self, boundaries, *, out_int32=False, right=False):
    """bucketize(boundaries, right=False): which of the intervals between sorted boundaries an element lies in."""
    boundaries = boundaries if isinstance(boundaries, Tensor) else _gt.tensor(boundaries)
    return boundaries.searchsorted(self, out_int32=out_int32, right=right)


@function
def isin(elements, test_elements, *, assume_unique=False, invert=False):
    """isin(elements, test_elements, invert=False): which elements are among the others."""
    dtype = result_type(elements, test_elements)  # numbers become the dtype of the others
    elements, tests = (x if isinstance(x, Tensor) else _gt.tensor(x) for x in (elements, test_elements))
    if _gt.bool in (elements.dtype, tests.dtype):
        raise RuntimeError('Unsupported input type encountered for isin(): Bool')
    elements, tests = elements.to(dtype), tests.to(dtype)
    if not tests.numel():
        return full(elements.shape, invert, dtype=_gt.bool)
    ordered = tests.flatten().sort().values
    place = ordered.searchsorted(elements).clamp(max=tests.numel() - 1)
    found = ordered.gather(0, place.flatten()).reshape(elements.shape) == elements
    return ~found if invert else found
