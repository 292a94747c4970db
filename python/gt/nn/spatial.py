"""Convolutions, pooling, interpolation, fold and unfold as functions, with torch.nn.functional's arguments and results.

Each expands its arguments to all spatial dimensions and calls one function of the extension. Read next: conv.py and
pooling.py, the modules.
"""

import math

from gt import _gt
from gt.client.dtypes import iinfo
from gt.client.halves import HALVES, in_float32


def _numbers(value, dimensions, name):
    """One number for all spatial dimensions, or one for each."""
    if hasattr(value, '__index__'):
        return (value.__index__(),) * dimensions
    numbers = tuple(value)
    if len(numbers) == 1:
        numbers *= dimensions
    if len(numbers) != dimensions:
        raise RuntimeError(f'expected {name} to be a single integer value or a list of {dimensions} values to match the '
                           f'convolution dimensions, but got {name}={list(numbers)}')
    return numbers


def _batched(input, dimensions, name):
    """The input with a batch dimension, and whether it had one."""
    if input.ndim == dimensions + 2:
        return input, True
    if input.ndim != dimensions + 1:
        raise RuntimeError(f'Expected {dimensions + 1}D (unbatched) or {dimensions + 2}D (batched) input to {name}, but '
                           f'got input of size: {list(input.shape)}')
    return input.unsqueeze(0), False


# ---- convolutions --------------------------------------------------------------------------------------------


def same_padding(kernel, dilation):
    """Padding before and after with which a convolution of stride 1 keeps the size."""
    total = [d * (k - 1) for k, d in zip(kernel, dilation)]
    return tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)


def _conv(input, weight, bias, stride, padding, dilation, groups, dimensions, name):
    stride = _numbers(stride, dimensions, 'stride')
    dilation = _numbers(dilation, dimensions, 'dilation')
    if isinstance(padding, str):
        if padding not in ('same', 'valid'):
            raise RuntimeError(f"Invalid padding string: '{padding}'")
        if padding == 'same' and any(s != 1 for s in stride):
            raise RuntimeError("padding='same' is not supported for strided convolutions")
        zeros = (0,) * dimensions
        before, behind = same_padding(weight.shape[2:], dilation) if padding == 'same' else (zeros, zeros)
    else:
        before = behind = _numbers(padding, dimensions, 'padding')
    input, batched = _batched(input, dimensions, name)
    output = _gt.conv(input, weight, bias, stride, before, behind, dilation, groups)
    return output if batched else output.squeeze(0)


def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """The cross-correlation of (N, C, L) with weight (Cout, C / groups, K), plus bias (Cout)."""
    return _conv(input, weight, bias, stride, padding, dilation, groups, 1, 'conv1d')


def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """The cross-correlation of (N, C, H, W) with weight (Cout, C / groups, KH, KW), plus bias (Cout)."""
    return _conv(input, weight, bias, stride, padding, dilation, groups, 2, 'conv2d')


def conv3d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """The cross-correlation of (N, C, D, H, W) with weight (Cout, C / groups, KD, KH, KW), plus bias (Cout)."""
    return _conv(input, weight, bias, stride, padding, dilation, groups, 3, 'conv3d')


def _conv_transpose(input, weight, bias, stride, padding, output_padding, groups, dilation, dimensions, name):
    input, batched = _batched(input, dimensions, name)
    output = _gt.conv_transpose(input, weight, bias, _numbers(stride, dimensions, 'stride'),
                                _numbers(padding, dimensions, 'padding'),
                                _numbers(output_padding, dimensions, 'output_padding'),
                                _numbers(dilation, dimensions, 'dilation'), groups)
    return output if batched else output.squeeze(0)


def conv_transpose1d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The transpose of conv1d, that is its gradient by the input: weight is (C, Cout / groups, K)."""
    return _conv_transpose(input, weight, bias, stride, padding, output_padding, groups, dilation, 1, 'conv_transpose1d')


def conv_transpose2d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The transpose of conv2d, that is its gradient by the input: weight is (C, Cout / groups, KH, KW)."""
    return _conv_transpose(input, weight, bias, stride, padding, output_padding, groups, dilation, 2, 'conv_transpose2d')


def conv_transpose3d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The transpose of conv3d, that is its gradient by the input: weight is (C, Cout / groups, KD, KH, KW)."""
    return _conv_transpose(input, weight, bias, stride, padding, output_padding, groups, dilation, 3, 'conv_transpose3d')


# ---- pooling -------------------------------------------------------------------------------------------------


def _check_pooled(input, dimensions, name):
    if input.ndim not in (dimensions + 1, dimensions + 2):
        raise RuntimeError(f'{name}: Expected {dimensions + 1}D or {dimensions + 2}D (batch mode) tensor with non-zero '
                           f'size for the dimensions pooled over, but got input of size {list(input.shape)}')


def _strides(stride, kernel_size, dimensions):
    """Without a stride, or with an empty list of them, windows do not overlap."""
    return _numbers(kernel_size if stride is None or stride == [] or stride == () else stride, dimensions, 'stride')


def _without_padding(output, input, kernel, strides, padding, dilation):
    """The maxima, and the least value for windows that have only padding; there are such only with a dilation."""
    dimensions, inside = len(kernel), None
    for axis in range(dimensions):
        size = input.shape[axis - dimensions]
        firsts = (window * strides[axis] - padding[axis] for window in range(output.shape[axis - dimensions]))
        found = [any(0 <= first + tap * dilation[axis] < size for tap in range(kernel[axis])) for first in firsts]
        if not all(found):
            found = _gt.tensor(found).reshape(-1, *(1,) * (dimensions - 1 - axis))
            inside = found if inside is None else inside & found
    if inside is None:
        return output
    least = -float('inf') if output.is_floating_point() else iinfo(output.dtype).min
    return output.masked_fill(~inside, least)


def _max_pool(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, dimensions, name):
    _check_pooled(input, dimensions, name)
    if 0 in input.shape[-dimensions - 1:]:
        raise RuntimeError(f'{name}: Expected {dimensions + 1}D or {dimensions + 2}D (batch mode) tensor with optional 0 '
                           f'dim batch size for input, but got:{list(input.shape)}')
    arguments = (_numbers(kernel_size, dimensions, 'kernel_size'), _strides(stride, kernel_size, dimensions),
                 _numbers(padding, dimensions, 'padding'), _numbers(dilation, dimensions, 'dilation'), ceil_mode)
    output = _gt.max_pool(input, *arguments)
    if any(step > 1 for step in arguments[3]):
        output = _without_padding(output, input, *arguments[:4])
    return (output, _gt.max_pool_index(input, *arguments)) if return_indices else output


def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The largest element of each window along the last dimension, and where it is."""
    return _max_pool(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 1, 'max_pool1d')


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The largest element of each window over the last two dimensions, and where it is, counted in a plane."""
    return _max_pool(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 2, 'max_pool2d')


def max_pool3d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The largest element of each window over the last three dimensions, and where it is, counted in a volume."""
    return _max_pool(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 3, 'max_pool3d')


def _avg_pool(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, dimensions, name):
    _check_pooled(input, dimensions, name)
    if divisor_override == 0:
        raise RuntimeError('divisor must be not zero')
    arguments = (_numbers(kernel_size, dimensions, 'kernel_size'), _strides(stride, kernel_size, dimensions),
                 _numbers(padding, dimensions, 'padding'), ceil_mode, count_include_pad)
    if input.dtype == _gt.int64:
        return _avg_pool_integers(input, arguments, divisor_override)
    return _gt.avg_pool(input, *arguments, divisor_override or 0)


def _avg_pool_integers(input, arguments, divisor):
    """Sums and divisors are exact in float64; the quotient is cut towards 0, as in torch."""
    sums = _gt.avg_pool(input.double(), *arguments, 1)
    if divisor is None:
        ones = _gt.ones(input.shape, dtype=_gt.float64)
        divisor = (_gt.avg_pool(ones, *arguments, 1) / _gt.avg_pool(ones, *arguments, 0)).round()
    return (sums.round() / divisor).trunc().to(input.dtype)


def avg_pool1d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    """The average of each window along the last dimension."""
    return _avg_pool(input, kernel_size, stride, padding, ceil_mode, count_include_pad, None, 1, 'avg_pool1d')


def avg_pool2d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
               divisor_override=None):
    """The average of each window over the last two dimensions."""
    return _avg_pool(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, 2,
                     'avg_pool2d')


def avg_pool3d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
               divisor_override=None):
    """The average of each window over the last three dimensions."""
    return _avg_pool(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, 3,
                     'avg_pool3d')


def _adaptive_size(input, output_size, dimensions):
    """None keeps a dimension's size."""
    listed = isinstance(output_size, (tuple, list))
    if listed and input.ndim <= len(output_size):
        raise ValueError(f'Input dimension should be at least {len(output_size) + 1}')
    sizes = output_size if listed else (output_size,) * dimensions
    return tuple(kept if size is None else size for size, kept in zip(sizes, input.shape[-dimensions:]))


def _adaptive_avg_pool(input, output_size, dimensions, name):
    size = _adaptive_size(input, output_size, dimensions)
    _check_pooled(input, dimensions, name)
    return _gt.adaptive_avg_pool(input, size)


def adaptive_avg_pool1d(input, output_size):
    """Averages of output_size parts of the last dimension."""
    return _adaptive_avg_pool(input, output_size, 1, 'adaptive_avg_pool1d')


def adaptive_avg_pool2d(input, output_size):
    """Averages of output_size parts of the last two dimensions."""
    return _adaptive_avg_pool(input, output_size, 2, 'adaptive_avg_pool2d')


def adaptive_avg_pool3d(input, output_size):
    """Averages of output_size parts of the last three dimensions."""
    return _adaptive_avg_pool(input, output_size, 3, 'adaptive_avg_pool3d')


def _adaptive_max_pool(input, output_size, return_indices, dimensions, name):
    size = _adaptive_size(input, output_size, dimensions)
    _check_pooled(input, dimensions, name)
    output = _gt.adaptive_max_pool(input, size)
    return (output, _gt.adaptive_max_pool_index(input, size)) if return_indices else output


def adaptive_max_pool1d(input, output_size, return_indices=False):
    """Maxima of output_size parts of the last dimension."""
    return _adaptive_max_pool(input, output_size, return_indices, 1, 'adaptive_max_pool1d')


def adaptive_max_pool2d(input, output_size, return_indices=False):
    """Maxima of output_size parts of the last two dimensions."""
    return _adaptive_max_pool(input, output_size, return_indices, 2, 'adaptive_max_pool2d')


def adaptive_max_pool3d(input, output_size, return_indices=False):
    """Maxima of output_size parts of the last three dimensions."""
    return _adaptive_max_pool(input, output_size, return_indices, 3, 'adaptive_max_pool3d')


# ---- interpolation -------------------------------------------------------------------------------------------

# The mode of _gt.resample, and the allowed numbers of spatial dimensions.
_MODES = {'nearest': (0, (1, 2, 3)), 'nearest-exact': (1, (1, 2, 3)), 'linear': (2, (1,)), 'bilinear': (2, (2,)),
          'trilinear': (2, (3,)), 'bicubic': (3, (2,))}


def _interpolated_sizes(input, size, scale_factor, recompute):
    """For each spatial dimension the new size and the scale factor (0: the ratio of the sizes)."""
    old = input.shape[2:]
    if (size is None) == (scale_factor is None):
        raise ValueError('only one of size or scale_factor should be defined' if size is not None else
                         'either size or scale_factor should be defined')
    if size is not None:
        sizes = (size,) * len(old) if hasattr(size, '__index__') else tuple(size)
        if len(sizes) != len(old):
            raise ValueError(f'Input and output must have the same number of spatial dimensions, but got input with '
                             f'spatial dimensions of {list(old)} and output size of {list(sizes)}.')
        return sizes, (0.0,) * len(old)
    factors = tuple(scale_factor) if isinstance(scale_factor, (tuple, list)) else (scale_factor,) * len(old)
    if len(factors) != len(old):
        raise ValueError(f'Input and scale_factor must have the same number of spatial dimensions, but got input with '
                         f'spatial dimensions of {list(old)} and scale_factor of shape {list(factors)}.')
    sizes = tuple(math.floor(float(length) * factor) for length, factor in zip(old, factors))
    return sizes, (0.0,) * len(old) if recompute else tuple(float(factor) for factor in factors)


def interpolate(input, size=None, scale_factor=None, mode='nearest', align_corners=None, recompute_scale_factor=None,
                antialias=False):
    """The input (N, C, ...) with other spatial sizes: 'nearest', 'nearest-exact', 'linear' (3 dimensions), 'bilinear' (4),
    'trilinear' (5), 'bicubic' (4) or 'area'."""
    if antialias:
        raise NotImplementedError('interpolate(antialias=True)')
    if align_corners is not None and mode in ('nearest', 'nearest-exact', 'area'):
        raise ValueError('align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic '
                         '| trilinear')
    dimensions = input.ndim - 2
    if dimensions not in (1, 2, 3):
        raise NotImplementedError(f'Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.ndim}D) for the '
                                  f'modes: nearest | linear | bilinear | bicubic | trilinear | area | nearest-exact '
                                  f'(got {mode})')
    sizes, factors = _interpolated_sizes(input, size, scale_factor, recompute_scale_factor)
    if any(length <= 0 for length in sizes):
        raise RuntimeError(f'Input and output sizes should be greater than 0, but got input (H: {input.shape[2:]}) output '
                           f'(H: {sizes})')
    if mode == 'area':
        return _gt.adaptive_avg_pool(input, sizes)
    number, allowed = _MODES.get(mode, (None, ()))
    if dimensions not in allowed:
        raise NotImplementedError(f'Got {input.ndim}D input, but {mode} mode needs '
                                  f'{" or ".join(f"{n + 2}D" for n in allowed) or "another name"} input')
    if input.dtype in HALVES and number > 1:  # rounded once, and not after each axis
        return in_float32(interpolate, input.dtype, input, size, scale_factor, mode, align_corners, recompute_scale_factor)
    result = input
    for axis, length, factor in reversed(list(zip(range(2, input.ndim), sizes, factors))):  # rows are copied last
        if length != input.shape[axis] or factor not in (0.0, 1.0):
            result = _gt.resample(result, axis, length, number, bool(align_corners), factor)
    return input.clone() if result is input else result


def upsample(input, size=None, scale_factor=None, mode='nearest', align_corners=None):
    """interpolate, under its old name."""
    return interpolate(input, size, scale_factor, mode, align_corners)


# ---- columns -------------------------------------------------------------------------------------------------


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """(N, C, H, W) to (N, C * KH * KW, windows): each window of an image as a column."""
    input, batched = _batched(input, 2, 'unfold')
    output = _gt.im2col(input, _numbers(kernel_size, 2, 'kernel_size'), _numbers(stride, 2, 'stride'),
                        _numbers(padding, 2, 'padding'), _numbers(dilation, 2, 'dilation'))
    return output if batched else output.squeeze(0)


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """The reverse of unfold: (N, C * KH * KW, windows) to (N, C, H, W); where windows overlap, they add up."""
    if input.ndim not in (2, 3):
        raise RuntimeError(f'Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size, but got: '
                           f'{list(input.shape)}')
    columns = input if input.ndim == 3 else input.unsqueeze(0)
    output = _gt.col2im(columns, _numbers(output_size, 2, 'output_size'), _numbers(kernel_size, 2, 'kernel_size'),
                        _numbers(stride, 2, 'stride'), _numbers(padding, 2, 'padding'), _numbers(dilation, 2, 'dilation'))
    return output if input.ndim == 3 else output.squeeze(0)
