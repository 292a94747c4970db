"""Counts by value: bincount, histc, histogram, histogramdd."""

from builtins import range as builtin_range

from gt import _gt, return_types
from gt._gt import Tensor, full, stack, where, zeros
from gt.autograd.function import Function
from gt.client.creation import linspace
from gt.client.registry import function, method, no_view


@method
def bincount(self, weights=None, minlength=0):
    """bincount(weights=None, minlength=0): how often each number occurs, or the sum of its weights. Waits for the
    largest."""
    if self.ndim != 1 or self.is_floating_point() or self.dtype == _gt.bool:
        raise RuntimeError('bincount only supports 1-d non-negative integral inputs.')
    if minlength < 0:
        raise RuntimeError('minlength should be >= 0')
    if weights is not None and weights.shape != self.shape:
        raise RuntimeError('weights should be 1-d and have the same length as input')
    least, most = stack([self.amin(), self.amax()]).tolist() if self.numel() else (0, -1)
    if least < 0:
        raise RuntimeError('bincount only supports 1-d non-negative integral inputs.')
    if weights is None:
        weights = full((), 1, dtype=_gt.int64).expand(self.shape)
    elif not weights.is_floating_point():
        weights = weights.double()
    size = most + 1 if most + 1 > minlength else minlength
    return zeros(size, dtype=weights.dtype).scatter_add(0, self.long(), weights)


@method
def histc(self, bins=100, min=0, max=0):
    """histc(bins=100, min=0, max=0): how many elements lie in each of `bins` equal parts of [min, max]; with equal
    bounds, of the range of the elements, for which it waits."""
    flat = self.flatten().detach()
    if bins <= 0:
        raise RuntimeError('bins must be > 0')
    if min == max and flat.numel():
        min, max = stack([flat.amin(), flat.amax()]).tolist()
    if min == max:
        min, max = min - 1, max + 1
    inside = (flat >= min) & (flat <= max)
    place = ((flat.double() - min) * (bins / (max - min))).floor().clamp(0, bins - 1)
    place = place.masked_fill(~inside, 0).long()
    return zeros(bins, dtype=self.dtype).scatter_add(0, place, inside.to(self.dtype))


# ---- histograms with edges -------------------------------------------------------------------------------------


def _range_of(name, points, range):
    """The lowest and the highest edge of each dimension; without a range it waits for those of the elements."""
    count = points.shape[1]
    if range is not None:
        range = [float(r) for r in range]
        if len(range) != 2 * count:
            raise RuntimeError(f'{name}: for a {count}-dimensional histogram range should have {2 * count} elements, but got '
                               f'{len(range)}')
        ends = list(zip(range[::2], range[1::2]))
        if any(not low <= high or high - low == float('inf') for low, high in ends):
            raise RuntimeError(f'{name}: min should not exceed max, and both must be finite, got {ends}')
    elif points.shape[0]:
        low, high = stack([points.amin(0), points.amax(0)]).tolist()
        ends = list(zip(low, high))
        if any(high - low != high - low or high - low == float('inf') for low, high in ends):
            raise RuntimeError(f'{name}: dimension has non-finite range')
    else:
        ends = [(0.0, 1.0)] * count
    return [(low - 0.5, high + 0.5) if low == high else (low, high) for low, high in ends]


def _edges_of(name, points, bins, range):
    if bins and isinstance(bins[0], Tensor):
        for edges in bins:
            if edges.ndim != 1 or not edges.numel():
                raise RuntimeError(f'{name}: bins tensor should have one dimension and at least one element')
            if edges.dtype != points.dtype:
                raise RuntimeError(f'{name}: input tensor and bins tensors should have the same dtype')
        return list(bins)
    if any(count <= 0 for count in bins):
        raise RuntimeError(f'{name}: bins must be > 0, but got {list(bins)}')
    ends = _range_of(name, points, range)
    return [linspace(low, high, count + 1, dtype=_gt.float64).to(points.dtype) for count, (low, high) in zip(bins, ends)]


def _counted(name, points, bins, range, weight, density):
    """points (M, N): the counts, or sums of weights, in N dimensions, and the edges along each."""
    if not points.is_floating_point():
        raise NotImplementedError(f'"{name}" not implemented for {points.dtype}')
    if len(bins) != points.shape[1]:
        raise RuntimeError(f'{name}: expected {points.shape[1]} sequences of bin edges for a {points.shape[1]}-dimensional '
                           f'histogram but got {len(bins)}')
    if weight is not None and (weight.numel() != points.shape[0] or weight.dtype != points.dtype):
        raise RuntimeError(f'{name}: if weight tensor is provided it should have the same shape and dtype as the points')
    points = points.detach()
    edges = _edges_of(name, points, bins, range)
    counts = _counts([e.detach() for e in edges], points, weight, density)
    return counts, edges


def _counts(edges, points, weight, density):
    sizes = [e.numel() - 1 for e in edges]
    place, inside = zeros(points.shape[0], dtype=_gt.int64), full((points.shape[0],), True, dtype=_gt.bool)
    for d, (line, size) in enumerate(zip(edges, sizes)):
        x = points.select(1, d)
        found = line.searchsorted(x.contiguous(), right=True) - 1
        inside = inside & (x >= line[0]) & (x <= line[size])
        place = place * size + found.clamp(0, max(size - 1, 0))
    total = 1
    for size in sizes:
        total *= size
    values = _gt.ones(points.shape[0], dtype=points.dtype) if weight is None else weight.detach().flatten()
    counts = zeros(total + 1, dtype=points.dtype).scatter_add(0, where(inside, place, total), values)[:total].reshape(sizes)
    if density:
        counts = counts / counts.sum()
        for d, line in enumerate(edges):
            counts = counts / line.diff().reshape([-1 if k == d else 1 for k in builtin_range(len(sizes))])
    return counts


class _Refused(Function):
    """A result of which PyTorch knows no gradient: its node says so when one is wanted."""

    @staticmethod
    def forward(ctx, name, result, *inputs):
        ctx.name = name
        return result.detach()

    @staticmethod
    def backward(ctx, gradient):
        raise NotImplementedError(f'derivative for aten::{ctx.name} is not implemented')


def _refused(name, results, *inputs):
    inputs = [t for t in inputs if isinstance(t, Tensor) and t.requires_grad]
    return [_Refused.apply(name, result, *inputs) for result in results] if inputs else results


@method
@no_view
def histogram(self, bins, *, range=None, weight=None, density=False):
    """histogram(bins, range=None, weight=None, density=False): (hist, bin_edges): how many elements lie between edges, a
    number of bins or the edges themselves.

    >>> gt.histogram(gt.tensor([1., 2., 1.]), bins=4, range=(0., 3.)).hist
    tensor([0., 2., 1., 0.])
    """
    if weight is not None and weight.shape != self.shape:
        raise RuntimeError('histogram(): if weight tensor is provided it should have the same shape as the input tensor')
    counts, edges = _counted('histogram', self.reshape(-1, 1), [bins], range, weight, density)
    return return_types.histogram(*_refused('histogram', [counts, edges[0]], self, weight, bins))


@function
@no_view
def histogramdd(input, bins, *, range=None, weight=None, density=False):
    """histogramdd(input, bins, range=None, weight=None, density=False): (hist, bin_edges) of points (..., N) in N
    dimensions; bins: a number, one for each dimension, or their edges."""
    if input.ndim < 2:
        raise RuntimeError(f'histogramdd: input tensor should have at least 2 dimensions, but got {input.ndim}')
    count = input.shape[-1]
    bins = [bins] * count if hasattr(bins, '__index__') and not isinstance(bins, Tensor) else list(bins)
    counts, edges = _counted('histogramdd', input.reshape(-1, count), bins, range, weight, density)
    given = isinstance(bins[0], Tensor)
    counts, = _refused('_histogramdd_from_bin_tensors' if given else '_histogramdd_from_bin_cts', [counts], input, weight, *bins)
    return return_types.histogramdd(counts, tuple(edges if given else _refused('_histogramdd_bin_edges', edges, input, weight)))
