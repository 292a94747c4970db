"""Fold a batch normalisation in evaluation mode into the layer before it."""

import copy

import gt
from gt.nn.parameter import Parameter


def _scale(bn_rv, bn_eps, bn_w):
    return bn_w * (bn_rv + bn_eps).rsqrt()


def fuse_conv_bn_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, transpose=False):
    """The weight and bias of the convolution that includes the normalisation."""
    conv_b = gt.zeros_like(bn_rm) if conv_b is None else conv_b
    bn_w = gt.ones_like(bn_rm) if bn_w is None else bn_w
    bn_b = gt.zeros_like(bn_rm) if bn_b is None else bn_b
    scale = _scale(bn_rv, bn_eps, bn_w)
    shape = [1] * conv_w.ndim
    shape[1 if transpose else 0] = -1
    weight, bias = conv_w * scale.reshape(shape), (conv_b - bn_rm) * scale + bn_b
    return Parameter(weight.to(conv_w.dtype), conv_w.requires_grad), Parameter(bias.to(conv_w.dtype), conv_b.requires_grad)


def fuse_linear_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b):
    """The weight and bias of the linear layer that includes the normalisation."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def _fused(layer, bn, transpose):
    if layer.training or bn.training:
        raise AssertionError('Fusion only for eval!')
    fused = copy.deepcopy(layer)
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError('Batch norm without running values cannot be fused')
    fused.weight, fused.bias = fuse_conv_bn_weights(fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps,
                                                    bn.weight, bn.bias, transpose)
    return fused


def fuse_conv_bn_eval(conv, bn, transpose=False):
    """A convolution that computes bn(conv(x)), both in evaluation mode."""
    return _fused(conv, bn, transpose)


def fuse_linear_bn_eval(linear, bn):
    """A linear layer that computes bn(linear(x)), both in evaluation mode."""
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError('To fuse, linear.out_features == bn.num_features or bn.num_features == 1')
    return _fused(linear, bn, False)
