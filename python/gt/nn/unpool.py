"""Pooling that is made of other operations: power averages, unpooling, and windows at random places.

gt.nn.functional has these functions too; pooling.py has the modules.
"""

import gt
from gt import _gt
from gt.client.registry import no_view
from gt.nn.spatial import _numbers, avg_pool1d, avg_pool2d, avg_pool3d


def _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, pool, dimensions):
    kernel = _numbers(kernel_size, dimensions, 'kernel_size')
    count = 1
    for size in kernel:
        count *= size
    stride = kernel if stride is None else _numbers(stride, dimensions, 'stride')
    means = pool(input.pow(norm_type), kernel, stride, 0, ceil_mode)
    return (means.sign() * means.abs().relu() * count).pow(1.0 / norm_type)


def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The sum of x ** p in each window of the last dimension, to the power 1 / p."""
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, avg_pool1d, 1)


def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The sum of x ** p in each window of the last two dimensions, to the power 1 / p."""
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, avg_pool2d, 2)


def lp_pool3d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The sum of x ** p in each window of the last three dimensions, to the power 1 / p."""
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, avg_pool3d, 3)


# ---- unpooling -----------------------------------------------------------------------------------------------


def _unpooled_size(input, kernel, stride, padding, output_size, dimensions):
    sizes = [(length - 1) * s + k - 2 * p
             for length, k, s, p in zip(input.shape[-dimensions:], kernel, stride, padding)]
    if output_size is None:
        return sizes
    output_size = tuple(output_size)
    if len(output_size) == len(kernel) + 2:
        output_size = output_size[2:]
    if len(output_size) != len(kernel):
        raise ValueError(f'output_size should be a sequence containing {len(kernel)} or {len(kernel) + 2} elements, but it '
                         f"has a length of '{len(output_size)}'")
    for d, (given, default) in enumerate(zip(output_size, sizes)):
        low, high = default - stride[d], default + stride[d]
        if not low < given < high:
            raise ValueError(f'invalid output_size "{output_size}" (dim {d} must be between {low} and {high})')
    return output_size


def _max_unpool(input, indices, kernel_size, stride, padding, output_size, dimensions):
    if indices.is_floating_point() or indices.dtype != _gt.int64:
        raise RuntimeError(f'elements in indices should be type int64 but got: {indices.dtype}')
    if input.shape != indices.shape:
        raise RuntimeError(f'Expected shape of indices to be same as that of the input tensor ({list(input.shape)}) but got '
                           f'indices tensor with shape: {list(indices.shape)}')
    kernel = _numbers(kernel_size, dimensions, 'kernel_size')
    stride = kernel if stride is None else _numbers(stride, dimensions, 'stride')
    padding = _numbers(padding, dimensions, 'padding')
    sizes = _unpooled_size(input, kernel, stride, padding, output_size, dimensions)
    lead = input.shape[:-dimensions]
    flat, count = (*lead, -1), 1
    for size in sizes:
        count *= size
    output = gt.zeros(*lead, count, dtype=input.dtype).scatter(-1, indices.reshape(flat), input.reshape(flat))
    return output.reshape(*lead, *sizes)


@no_view
def max_unpool1d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """The reverse of max_pool1d(return_indices=True): maxima at their places, and zeros."""
    return _max_unpool(input, indices, kernel_size, stride, padding, output_size, 1)


@no_view
def max_unpool2d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """The reverse of max_pool2d(return_indices=True): maxima at their places, and zeros."""
    return _max_unpool(input, indices, kernel_size, stride, padding, output_size, 2)


@no_view
def max_unpool3d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """The reverse of max_pool3d(return_indices=True): maxima at their places, and zeros."""
    return _max_unpool(input, indices, kernel_size, stride, padding, output_size, 3)


# ---- windows at random places --------------------------------------------------------------------------------


def _starts(samples, input_size, output_size, window):
    """The first element of each window (N, C, output_size), from samples (N, C) between 0 and 1."""
    end = gt.full((*samples.shape, 1), input_size - window, dtype=_gt.int64)
    if output_size == 1:
        return end
    step = (input_size - window) / (output_size - 1)
    places = gt.arange(output_size - 1, dtype=samples.dtype) + samples.unsqueeze(-1)
    return gt.cat([(places * step).long() - (samples.unsqueeze(-1) * step).long(), end], -1)


def _fractional(input, kernel_size, output_size, output_ratio, samples, dimensions, name):
    if output_size is None and output_ratio is None:
        raise ValueError(f'{name} requires specifying either an output_size or an output_ratio')
    batched = input.ndim == dimensions + 2
    x = input if batched else input.unsqueeze(0)
    if x.ndim != dimensions + 2:
        raise RuntimeError(f'{name}: Expected {dimensions + 1}D or {dimensions + 2}D tensor, but got: {list(input.shape)}')
    sizes, kernel = x.shape[2:], _numbers(kernel_size, dimensions, 'kernel_size')
    if output_size is None:
        ratios = output_ratio if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * dimensions
        output_size = [int(size * ratio) for size, ratio in zip(sizes, ratios)]
    output = _numbers(output_size, dimensions, 'output_size')
    for size, window, count in zip(sizes, kernel, output):
        if count + window - 1 > size:
            raise RuntimeError(f'{name}: pool size {window} too large relative to input size {size}')
    if samples is None:
        samples = gt.rand(*x.shape[:2], dimensions, dtype=x.dtype)
    # With two dimensions the first sample is that of the last dimension.
    order = (1, 0) if dimensions == 2 else range(dimensions)
    index = None  # (N, C, *output, windows): places in the flat image
    for axis, (size, window, count) in enumerate(zip(sizes, kernel, output)):
        places = _starts(samples[:, :, list(order)[axis]], size, count, window).unsqueeze(-1) + gt.arange(window)
        shape = [*x.shape[:2], *(1,) * (2 * dimensions)]
        shape[2 + axis], shape[2 + dimensions + axis] = count, window
        places = places.reshape(shape)
        index = places if index is None else index * size + places
    index = index.flatten(2 + dimensions)
    windows = x.flatten(2).gather(2, index.flatten(2)).reshape(index.shape)
    best, which = windows.max(-1)
    where = index.gather(-1, which.unsqueeze(-1)).squeeze(-1)
    return (best, where) if batched else (best.squeeze(0), where.squeeze(0))


@no_view
def fractional_max_pool2d_with_indices(input, kernel_size, output_size=None, output_ratio=None, return_indices=False,
                                       _random_samples=None):
    """fractional_max_pool2d, and the places of the maxima."""
    return _fractional(input, kernel_size, output_size, output_ratio, _random_samples, 2, 'fractional_max_pool2d')


@no_view
def fractional_max_pool3d_with_indices(input, kernel_size, output_size=None, output_ratio=None, return_indices=False,
                                       _random_samples=None):
    """fractional_max_pool3d, and the places of the maxima."""
    return _fractional(input, kernel_size, output_size, output_ratio, _random_samples, 3, 'fractional_max_pool3d')


@no_view
def fractional_max_pool2d(input, kernel_size, output_size=None, output_ratio=None, return_indices=False,
                          _random_samples=None):
    """Maxima of windows whose distances are drawn, so that the output has a given size or ratio."""
    found = fractional_max_pool2d_with_indices(input, kernel_size, output_size, output_ratio, True, _random_samples)
    return found if return_indices else found[0]


@no_view
def fractional_max_pool3d(input, kernel_size, output_size=None, output_ratio=None, return_indices=False,
                          _random_samples=None):
    """Maxima of windows whose distances are drawn, so that the output has a given size or ratio."""
    found = fractional_max_pool3d_with_indices(input, kernel_size, output_size, output_ratio, True, _random_samples)
    return found if return_indices else found[0]
