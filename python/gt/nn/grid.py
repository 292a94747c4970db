"""grid_sample and affine_grid: sampling images at any positions. functional.py exports them.

grid_sample is composed of gathers: of each element's neighbours in the image, with weights that depend on the position. So
it has gradients by the image and by the grid.
"""

import itertools
import math
import warnings

import gt
from gt import _gt
from gt.client.registry import no_view

_MODES = ('bilinear', 'nearest', 'bicubic')
_PADDINGS = ('zeros', 'border', 'reflection')


def _sizes(tensor):
    return list(tensor.shape)


def _check(input, grid, mode):
    """PyTorch's errors."""
    spatial = input.ndim - 2
    if input.ndim not in (4, 5) or input.ndim != grid.ndim:
        raise RuntimeError('grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with '
                           f'sizes {_sizes(input)} and grid with sizes {_sizes(grid)}')
    if input.shape[0] != grid.shape[0]:
        raise RuntimeError('grid_sampler(): expected grid and input to have same batch size, but got input with sizes '
                           f'{_sizes(input)} and grid with sizes {_sizes(grid)}')
    if grid.shape[-1] != spatial:
        raise RuntimeError(f'grid_sampler(): expected grid to have size {spatial} in last dimension, but got grid with sizes '
                           f'{_sizes(grid)}')
    if 0 in input.shape[2:]:
        raise RuntimeError('grid_sampler(): expected input to have non-empty spatial dimensions, but got input with sizes '
                           f'{_sizes(input)}')
    if mode == 'bicubic' and input.ndim == 5:
        raise RuntimeError('grid_sampler(): bicubic interpolation only supports 4D input')
    if input.dtype != grid.dtype:
        raise RuntimeError('grid_sampler(): expected input and grid to have same dtype, but input has '
                           f'{input.dtype} and grid has {grid.dtype}')


def _reflected(x, low, high):
    """x between low and high, as if there were mirrors at both. The slope at a mirror is PyTorch's."""
    span = high - low
    if span <= 0:
        return x * 0
    distance = gt.where(x < low, low - x, x - low)
    flips = (distance / span).floor().detach()
    rest = distance - flips * span
    return gt.where(flips % 2 == 0, rest + low, span - rest + low)


def _inside(x, size, padding_mode, align_corners):
    """Positions moved into the image, unless the padding is zeros. hardtanh has no slope at its ends."""
    if padding_mode == 'zeros':
        return x
    if padding_mode == 'reflection':
        x = _reflected(x, 0.0, size - 1.0) if align_corners else _reflected(x, -0.5, size - 0.5)
    return x.hardtanh(0, size - 1) if size > 1 else x * 0


def _cubic(t):
    """The weights of the four neighbours of a position, t behind the second; Keys' kernel with a = -3/4."""
    def near(u):
        return ((1.25 * u) - 2.25) * u * u + 1

    def far(u):
        return ((-0.75 * u + 3.75) * u - 6) * u + 3
    return far(t + 1), near(t), near(1 - t), far(2 - t)


def _taps(x, size, mode, padding_mode, align_corners):
    """For one axis: the neighbours' indices (whole floats) and their weights."""
    if mode == 'bicubic':
        base = x.floor().detach()
        indices = [_inside(base + (k - 1), size, padding_mode, align_corners) for k in range(4)]
        return list(zip(indices, _cubic(x - base)))
    x = _inside(x, size, padding_mode, align_corners)
    if mode == 'nearest':
        return [(x.detach().round(), None)]
    base = x.floor().detach()
    return [(base, base + 1 - x), (base + 1, x - base)]


@no_view
def grid_sample(input, grid, mode='bilinear', padding_mode='zeros', align_corners=None):
    """grid_sample(input, grid, mode='bilinear', padding_mode='zeros', align_corners=False): the image at positions.

    input is (N, C, H, W) or (N, C, D, H, W); grid is (N, ..., 2 or 3) with x, y (and z) from -1 to 1, the ends of the image.
    mode: 'bilinear', 'nearest' or 'bicubic'. padding_mode: what is outside, 'zeros', 'border' or 'reflection'.
    align_corners: -1 and 1 are the centres of the outer pixels, not their outer edges.

    >>> F.grid_sample(gt.ones(1, 1, 4, 4), gt.zeros(1, 2, 2, 2), align_corners=False).shape
    (1, 1, 2, 2)
    """
    if mode not in _MODES:
        raise ValueError("nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: "
                         f"'{mode}'")
    if padding_mode not in _PADDINGS:
        raise ValueError("nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
                         f"'{padding_mode}'")
    if align_corners is None:
        warnings.warn('Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please '
                      'specify align_corners=True if the old behavior is desired. See the documentation of grid_sample for '
                      'details.', stacklevel=2)
        align_corners = False
    _check(input, grid, mode)
    sizes, n, channels = input.shape[2:], input.shape[0], input.shape[1]
    out_sizes = tuple(grid.shape[1:-1])
    taps = []
    for axis, size in enumerate(sizes):
        x = grid.select(-1, len(sizes) - 1 - axis).reshape(n, -1)
        x = (x + 1) / 2 * (size - 1) if align_corners else ((x + 1) * size - 1) / 2
        taps.append(_taps(x, size, mode, padding_mode, align_corners))
    flat, result = input.reshape(n, channels, math.prod(sizes)), None
    for corner in itertools.product(*taps):
        part = _corner(flat, corner, sizes, padding_mode)
        result = part if result is None else result + part
    return result.reshape((n, channels, *out_sizes))


def _corner(flat, corner, sizes, padding_mode):
    """One neighbour of every position, times its weight; outside the image 0."""
    index, weight, inside = 0, None, None
    for (place, share), size in zip(corner, sizes):
        if padding_mode == 'zeros':
            fits = (place >= 0) & (place <= size - 1)
            inside = fits if inside is None else inside & fits
        # NaN goes to 0, as in PyTorch.
        index = index * size + gt.where(place == place, place, 0.0).clamp(0, size - 1).long()
        weight = share if weight is None else weight if share is None else weight * share
    n, channels, _ = flat.shape
    values = flat.gather(2, index.unsqueeze(1).expand(n, channels, index.shape[-1]))
    if weight is None:
        return values if inside is None else gt.where(inside.unsqueeze(1), values, 0.0)
    if inside is not None:
        weight = gt.where(inside, weight, 0.0)
    return values * weight.unsqueeze(1)


def _steps(count, align_corners, dtype):
    """From -1 to 1 in count steps; or their centres."""
    if count <= 1:
        return _gt.zeros(count, dtype=dtype)
    steps = _gt.linspace(-1, 1, count, dtype=dtype)
    return steps if align_corners else steps * (count - 1) / count


def affine_grid(theta, size, align_corners=None):
    """affine_grid(theta, size, align_corners=False): the grid of an affine map, for grid_sample.

    theta is (N, 2, 3) for size (N, C, H, W), or (N, 3, 4) for size (N, C, D, H, W).

    >>> F.affine_grid(gt.eye(2, 3).unsqueeze(0), (1, 1, 4, 4), align_corners=False).shape
    (1, 4, 4, 2)
    """
    if align_corners is None:
        warnings.warn('Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please '
                      'specify align_corners=True if the old behavior is desired. See the documentation of grid_sample for '
                      'details.', stacklevel=2)
        align_corners = False
    if not theta.is_floating_point():
        raise ValueError(f'Expected theta to have floating point type, but got {theta.dtype}')
    rows = {4: 2, 5: 3}.get(len(size))
    if rows is None:
        raise NotImplementedError('affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. '
                                  f'Got size {tuple(size)}.')
    if theta.ndim != 3 or tuple(theta.shape[-2:]) != (rows, rows + 1):
        raise ValueError(f'Expected a batch of {rows}D affine matrices of shape Nx{rows}x{rows + 1} for size {tuple(size)}. '
                         f'Got {tuple(theta.shape)}.')
    if min(size) <= 0:
        raise ValueError(f'Expected non-zero, positive output size. Got {tuple(size)}')
    spatial = tuple(size[2:])
    axes = [_steps(count, align_corners, theta.dtype) for count in spatial]
    coordinates = [axis.reshape([-1 if k == j else 1 for j in range(len(spatial))]).expand(spatial)
                   for k, axis in enumerate(axes)]
    base = _gt.stack([*reversed(coordinates), _gt.ones(spatial, dtype=theta.dtype)], -1).reshape(1, -1, rows + 1)
    return (base.expand(size[0], -1, -1) @ theta.transpose(1, 2)).reshape((size[0], *spatial, rows))
