"""Differences and integrals along a dimension: diff, gradient, trapezoid."""

from gt import _gt
from gt._gt import Tensor, cat
from gt.client.registry import axes_of, axis_of, function, method


@method
def diff(self, n=1, dim=-1, prepend=None, append=None):
    """diff(n=1, dim=-1, prepend=None, append=None): differences of neighbours, n times over."""
    if self.ndim == 0:
        raise RuntimeError('diff expects input to be at least one-dimensional')
    if n < 0:
        raise RuntimeError(f'order must be non-negative but got {n}')
    if n == 0:
        return self.clone()
    dim = axis_of(self, dim)
    parts = [t for t in (prepend, self, append) if t is not None]
    if any(t.ndim != self.ndim for t in parts):
        raise RuntimeError('diff expects prepend or append to be the same dimension as input')
    self = cat(parts, dim) if len(parts) > 1 else self
    if not self.shape[dim]:
        return self.clone()
    for _ in range(n if n < self.shape[dim] else self.shape[dim]):
        later, earlier = self.narrow(dim, 1, self.shape[dim] - 1), self.narrow(dim, 0, self.shape[dim] - 1)
        self = later ^ earlier if self.dtype.name == 'bool' else later - earlier
    return self


def _panels(name, y, x, dx, dim):
    """The areas between neighbours: (y[k] + y[k + 1]) / 2 * width."""
    for label, values in (('y', y), ('x', x)):
        if values is not None and values.dtype == _gt.bool:
            raise RuntimeError(f'{name}: received a bool input for `{label}`, but bool is not supported')
    dim = axis_of(y, dim)
    if y.ndim == 0:
        raise IndexError(f'{name}: y must have at least one dimension')
    size = y.shape[dim]
    if x is not None and dx is not None:
        raise TypeError(f'{name}() received both x and dx')
    if size == 0:
        return y.sum(dim, keepdim=True) * 0, dim
    pairs = y.narrow(dim, 1, size - 1) + y.narrow(dim, 0, size - 1)
    if x is None:
        return pairs * ((1 if dx is None else dx) / 2.0), dim
    if x.ndim == 1:
        if x.shape[0] != size:
            raise RuntimeError(f'{name}: There must be one `x` value for each sample point')
        widths = x.diff().reshape([size - 1 if d == dim else 1 for d in range(y.ndim)])
    else:
        lead = y.ndim - x.ndim
        widths = x.diff(dim=dim - lead if lead > 0 else dim)
    return pairs * widths / 2.0, dim


@function
def trapezoid(y, x=None, *, dx=None, dim=-1):
    """trapezoid(y, x) or trapezoid(y, dx=1): the integral along a dimension by the trapezoidal rule."""
    panels, dim = _panels('trapezoid', y, x, dx, dim)
    if not y.shape[dim]:
        return panels.select(dim, 0).to(y.dtype)
    if x is None:  # integers are summed as int64: the sums of two neighbours may wrap
        return (y.sum(dim) - (y.select(dim, 0) + y.select(dim, -1)) * 0.5) * (1 if dx is None else dx)
    return panels.sum(dim if panels.ndim == y.ndim else dim + panels.ndim - y.ndim)


@function
def trapz(y, x=None, *, dx=None, dim=-1):
    """trapz(y, x): trapezoid."""
    return trapezoid(y, x, dx=dx, dim=dim)


@function
def cumulative_trapezoid(y, x=None, *, dx=None, dim=-1):
    """cumulative_trapezoid(y, x) or (y, dx=1): the integral up to each point, by the trapezoidal rule."""
    panels, dim = _panels('cumulative_trapezoid', y, x, dx, dim)
    return panels.cumsum(dim if panels.ndim == y.ndim else dim + panels.ndim - y.ndim)


def _slope(self, dim, spacing, edge_order):
    """The derivative along one dimension; spacing is a number, or the coordinates."""
    size = self.shape[dim]

    def at(start, count):
        return self.narrow(dim, start, count)
    if not isinstance(spacing, Tensor):
        inner = (at(2, size - 2) - at(0, size - 2)) / (2.0 * spacing)
        if edge_order == 1:
            first, last = (at(1, 1) - at(0, 1)) / spacing, (at(size - 1, 1) - at(size - 2, 1)) / spacing
        else:
            first = (-3 * at(0, 1) + 4 * at(1, 1) - at(2, 1)) / (2 * spacing)
            last = (3 * at(size - 1, 1) - 4 * at(size - 2, 1) + at(size - 3, 1)) / (2 * spacing)
        return cat([first, inner, last], dim)
    widths = spacing.diff().reshape([size - 1 if d == dim else 1 for d in range(self.ndim)])

    def width(k, count=1):
        return widths.narrow(dim, k, count)
    a, b = width(0, size - 2), width(1, size - 2)
    inner = (at(0, size - 2) * (-b / (a * (a + b))) + at(1, size - 2) * ((b - a) / (a * b))
             + at(2, size - 2) * (a / (b * (a + b))))
    if edge_order == 1:
        first = (at(1, 1) - at(0, 1)) / width(0)
        last = (at(size - 1, 1) - at(size - 2, 1)) / width(size - 2)
    else:
        a, b = width(0), width(1)
        first = (at(0, 1) * (-(2 * a + b) / (a * (a + b))) + at(1, 1) * ((a + b) / (a * b))
                 - at(2, 1) * (a / (b * (a + b))))
        a, b = width(size - 3), width(size - 2)
        last = (at(size - 3, 1) * (b / (a * (a + b))) - at(size - 2, 1) * ((a + b) / (a * b))
                + at(size - 1, 1) * ((2 * b + a) / (b * (a + b))))
    return cat([first, inner, last], dim)


@function
def gradient(input, *, spacing=None, dim=None, edge_order=1):
    """gradient(input, spacing=1, dim=None, edge_order=1): the derivative along each dimension, by central differences.
    spacing: a number, one for each dimension, or the coordinates along each as tensors.

    >>> gt.gradient(gt.tensor([1., 4., 9.]))
    (tensor([3., 4., 5.]),)
    """
    if edge_order not in (1, 2):
        raise RuntimeError('torch.gradient only supports edge_order=1 and edge_order=2.')
    spacing = 1 if spacing is None else spacing
    dims = axes_of(input, dim)
    if len(set(dims)) != len(dims):
        raise RuntimeError(f'dim {dims[0]} appears multiple times in the list of dims')
    many = isinstance(spacing, (list, tuple))
    if isinstance(spacing, Tensor):
        spacing = spacing.item() if spacing.ndim == 0 else (spacing,)
        many = isinstance(spacing, tuple)
    spacings = tuple(spacing) if many else (spacing,) * len(dims)
    if len(spacings) != len(dims):
        raise RuntimeError(f'torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to '
                           f'{len(dims)}, but got a list of length {len(spacings)}')
    for d, s in zip(dims, spacings):
        if input.shape[d] < edge_order + 1:
            raise RuntimeError('torch.gradient expected each dimension size to be at least edge_order+1')
        if isinstance(s, Tensor) and (s.ndim != 1 or s.shape[0] != input.shape[d]):
            raise RuntimeError('torch.gradient expected each element of spacing to be a vector as long as its dimension')
    self = input if input.is_floating_point() or input.is_complex() else input.to(_gt.get_default_dtype())
    return tuple(_slope(self, d, s, edge_order) for d, s in zip(dims, spacings))
