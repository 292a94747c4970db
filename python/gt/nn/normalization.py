"""Normalisation as functions, with torch.nn.functional's arguments; norm.py has the modules."""

import math

import gt
from gt import _gt
from gt.client.arrangement import pad
from gt.client.halves import HALVES
from gt.nn.spatial import avg_pool2d


def _affine(input, weight, bias):
    if weight is not None:
        input = input * weight
    return input if bias is None else input + bias


def _trailing(input, normalized_shape):
    shape = tuple(normalized_shape)
    if input.shape[input.ndim - len(shape):] != shape:
        raise RuntimeError(f'Given normalized_shape={list(shape)}, expected input with shape [*, '
                           f'{", ".join(map(str, shape))}], but got input of size{list(input.shape)}')
    return tuple(range(-len(shape), 0))


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Mean 0 and variance 1 over the last dimensions, times weight, plus bias."""
    shape = input.shape
    if len(normalized_shape) == 1 and shape and shape[-1] == normalized_shape[0]:  # most often
        return input._layer_norm(1, weight, bias, eps)
    return input._layer_norm(len(_trailing(input, normalized_shape)), weight, bias, eps)


def rms_norm(input, normalized_shape, weight=None, eps=None):
    """x divided by its root mean square over the last dimensions, times weight."""
    if not len(normalized_shape):
        raise RuntimeError('Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, '
                           'but got normalized_shape = []')
    if eps is None:
        eps = 2.0 ** (-52 if input.dtype.name == 'float64' else -23)
    wide = input.float() if input.dtype.name in ('float16', 'bfloat16') else input
    squares = wide.square().mean(_trailing(input, normalized_shape), True)
    return _affine(wide * (squares + eps).rsqrt(), weight, None).to(input.dtype)._packed()


def _per_channel(tensor, input):
    return None if tensor is None else tensor.reshape(1, -1, *(1,) * (input.ndim - 2))


def _dense(tensor):
    """What PyTorch's contiguous() is to the graph, without a copy."""
    return tensor if tensor is None or tensor.is_contiguous() else _gt._copied(tensor)


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """Mean 0 and variance 1 over each group of channels (dimension 1), times weight, plus bias."""
    if input.ndim < 2:
        raise RuntimeError(f'Expected at least 2 dimensions for input tensor but received {input.ndim}')
    if input.shape[1] % num_groups:
        raise RuntimeError(f'Expected number of channels in input to be divisible by num_groups, but got input of '
                           f'shape {list(input.shape)} and num_groups={num_groups}')
    if not input.numel():
        return _affine(input, _per_channel(weight, input), _per_channel(bias, input))
    groups = _dense(input).reshape(input.shape[0], num_groups, -1)._layer_norm(1, None, None, eps)
    return _affine(groups.reshape(input.shape), _per_channel(_dense(weight), input), _per_channel(bias, input))


def _check_channels(input, **tensors):
    channels = input.shape[1] if input.ndim > 1 else 0
    for name, tensor in tensors.items():
        if tensor is not None and tensor.numel() != channels:
            raise RuntimeError(f'{name} should contain {channels} elements not {tensor.numel()}')


def _follow(running, value, momentum):
    """Move running values towards those of a batch. The momentum may be a tensor."""
    value = value if value.dtype == running.dtype else value.to(running.dtype)
    running._become(running * (1 - momentum) + value * momentum if isinstance(momentum, gt.Tensor)
                    else running.lerp(value, momentum))


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    """Mean 0 and variance 1 over all but the channels: of this batch in training, else by the running values."""
    if input.ndim < 2 and not input.numel():
        return input.clone()
    if (running_mean is None) != (running_var is None) and training:
        raise ValueError('running_mean and running_var must either both be None or neither be None')
    count = input.shape[0] * math.prod(input.shape[2:]) if training else None  # elements of a channel
    if count == 1:
        raise ValueError(f'Expected more than 1 value per channel when training, got input size gt.Size('
                         f'{list(input.shape)})')
    _check_channels(input, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    if not training:
        for name, tensor in (('running_mean', running_mean), ('running_var', running_var)):
            if tensor is None:
                raise RuntimeError(f'{name} must be defined in evaluation mode')
        return input._batch_norm(running_mean, running_var, weight, bias, eps)
    if input.ndim < 2:
        raise IndexError('Dimension out of range (expected to be in range of [-1, 0], but got 1)')
    if not count:  # no moments, which would be NaN: the running values stay, and the gradients of weight and bias are 0
        mean = input.new_zeros(input.shape[1])
        return input._batch_norm(mean, mean + 1, weight, bias, eps)
    moments = input._batch_moments()
    if running_mean is not None:
        with gt.no_grad():
            _follow(running_mean, moments[0], momentum)
            _follow(running_var, moments[1] * (count / (count - 1)), momentum)
    return input._batch_norm(moments, None, weight, bias, eps)


def _check_instances(input):
    if min(input.shape[2:], default=1) == 0 or all(size == 1 for size in input.shape[2:]):
        raise ValueError(f'Expected more than 1 spatial element when training, got input size gt.Size({list(input.shape)})')


def instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1,
                  eps=1e-5):
    """Mean 0 and variance 1 over each channel of each sample: of the input, or by the running values."""
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError('Expected running_mean and running_var to be defined when use_input_stats is false')
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    _check_instances(input)
    if running_mean is None and weight is None and bias is None and input.dtype not in HALVES:
        return group_norm(input, input.shape[1], None, None, eps)  # one pass
    samples, channels = input.shape[:2]
    elements = math.prod(input.shape[2:])
    rows = _dense(input).reshape(1, samples * channels, elements)  # each sample has channels of its own
    moments = rows._batch_moments()
    if running_mean is not None:
        with gt.no_grad():
            mean, variance = moments.reshape(2, samples, channels).mean(1)
            _follow(running_mean, mean, momentum)
            _follow(running_var, variance * (elements / (elements - 1)), momentum)
    weight, bias = (None if t is None else t.reshape(1, channels).expand(samples, channels).reshape(-1)
                    for t in (weight, bias))
    return rows._batch_norm(moments, None, weight, bias, eps).reshape(input.shape)


def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """x / (k + alpha * mean of the squares of `size` neighbouring channels) ** beta."""
    if input.ndim < 3:
        raise ValueError(f'Expected 3D or higher dimensionality                          input (got {input.ndim} dimensions)')
    if not input.numel():
        return input
    squares = input.square().reshape(input.shape[0], 1, input.shape[1], -1)
    means = avg_pool2d(pad(squares, (0, 0, size // 2, (size - 1) // 2)), (size, 1), 1)
    return input / (means.reshape(input.shape) * alpha + k) ** beta
