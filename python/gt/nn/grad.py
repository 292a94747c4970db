"""Gradients of convolutions by their inputs and weights, as functions."""

import gt
from gt import _help
from gt.nn import functional as F


def _gradient(function, wanted, other, grad_output, options, by_weight):
    with gt.enable_grad():
        leaf = gt.zeros(wanted, dtype=other.dtype, requires_grad=True)
        output = function(other, leaf, None, *options) if by_weight else function(leaf, other, None, *options)
        return gt.grad(output, leaf, grad_output)[0]


def conv1d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv1d by its input of this size."""
    return _gradient(F.conv1d, input_size, weight, grad_output, (stride, padding, dilation, groups), False)


def conv1d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv1d by its weight of this size."""
    return _gradient(F.conv1d, weight_size, input, grad_output, (stride, padding, dilation, groups), True)


def conv2d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv2d by its input of this size."""
    return _gradient(F.conv2d, input_size, weight, grad_output, (stride, padding, dilation, groups), False)


def conv2d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv2d by its weight of this size."""
    return _gradient(F.conv2d, weight_size, input, grad_output, (stride, padding, dilation, groups), True)


def conv3d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv3d by its input of this size."""
    return _gradient(F.conv3d, input_size, weight, grad_output, (stride, padding, dilation, groups), False)


def conv3d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv3d by its weight of this size."""
    return _gradient(F.conv3d, weight_size, input, grad_output, (stride, padding, dilation, groups), True)

__dir__ = _help.publish(__name__)
