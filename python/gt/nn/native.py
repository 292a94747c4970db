"""Functions of gt that torch has beside those of nn.functional: native_layer_norm and native_batch_norm, which also return what
their gradients need, and grid_sampler, whose options are numbers."""

from gt._gt import zeros
from gt.client.halves import HALVES, in_float32
from gt.nn import functional


def native_layer_norm(input, normalized_shape, weight, bias, eps):
    """native_layer_norm(input, normalized_shape, weight, bias, eps): (layer_norm, the mean, 1 / the standard deviation)."""
    if not len(normalized_shape):
        raise RuntimeError('Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, '
                           'but got normalized_shape = []')
    result = functional.layer_norm(input, normalized_shape, weight, bias, eps)
    lead = input.ndim - len(normalized_shape)
    dims = list(range(lead, input.ndim))
    return result, input.mean(dims, keepdim=True), _inverse_deviation(input, dims, eps, True)


def _inverse_deviation(input, dims, eps, keepdim=False):
    if input.dtype in HALVES:
        return in_float32(_inverse_deviation, input.dtype, input, dims, eps, keepdim)
    return (input.var(dims, correction=0, keepdim=keepdim) + eps).rsqrt()


def native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps):
    """native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps): (batch_norm, the mean and
    1 / the standard deviation of each channel; these are empty if not training)."""
    result = functional.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        return result, zeros(0, dtype=input.dtype), zeros(0, dtype=input.dtype)
    dims = [d for d in range(input.ndim) if d != 1]
    return result, input.mean(dims), _inverse_deviation(input, dims, eps)


def grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners):
    """grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners): nn.functional.grid_sample with numbers: mode 0
    bilinear, 1 nearest, 2 bicubic; padding 0 zeros, 1 border, 2 reflection."""
    return functional.grid_sample(input, grid, ('bilinear', 'nearest', 'bicubic')[interpolation_mode],
                                  ('zeros', 'border', 'reflection')[padding_mode], align_corners)


def grid_sampler_2d(input, grid, interpolation_mode, padding_mode, align_corners):
    """grid_sampler_2d(input, grid, interpolation_mode, padding_mode, align_corners): grid_sampler of images."""
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler_3d(input, grid, interpolation_mode, padding_mode, align_corners):
    """grid_sampler_3d(input, grid, interpolation_mode, padding_mode, align_corners): grid_sampler of volumes."""
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)
