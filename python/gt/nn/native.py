"""Normalisations that also return what their gradients need: gt.native_layer_norm and others, as in torch."""

from gt._gt import zeros
from gt.nn import functional


def native_layer_norm(input, normalized_shape, weight, bias, eps):
    """native_layer_norm(input, normalized_shape, weight, bias, eps): (layer_norm, the mean, 1 / the standard deviation)."""
    if not len(normalized_shape):
        raise RuntimeError('Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, '
                           'but got normalized_shape = []')
    result = functional.layer_norm(input, normalized_shape, weight, bias, eps)
    lead = input.ndim - len(normalized_shape)
    dims = list(range(lead, input.ndim))
    mean = input.mean(dims, keepdim=True)
    return result, mean, (input.var(dims, correction=0, keepdim=True) + eps).rsqrt()


def native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps):
    """native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps): (batch_norm, the mean and
    1 / the standard deviation of each channel; these are empty if not training)."""
    result = functional.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        return result, zeros(0, dtype=input.dtype), zeros(0, dtype=input.dtype)
    dims = [d for d in range(input.ndim) if d != 1]
    return result, input.mean(dims), (input.var(dims, correction=0) + eps).rsqrt()
