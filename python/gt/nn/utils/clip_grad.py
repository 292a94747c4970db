"""Clipping of gradients between backward() and step(). Only error_if_nonfinite waits for the server."""

import math
import warnings

from gt import Tensor, autograd, stack


def _with_gradients(parameters):
    parameters = [parameters] if isinstance(parameters, Tensor) else parameters
    return [parameter for parameter in parameters if parameter.grad is not None]


@autograd.no_grad()
def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The norm of all elements of all tensors, as if they were one vector."""
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return Tensor(0.0)
    if norm_type == 2:
        norm = sum(tensor.square().sum() for tensor in tensors).sqrt()
    else:
        norm = stack([tensor.norm(norm_type) for tensor in tensors]).norm(norm_type)
    if error_if_nonfinite and not math.isfinite(norm.item()):
        raise RuntimeError(f'The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it '
                           'cannot be clipped. To disable this error and scale the gradients by the non-finite norm '
                           'anyway, set `error_if_nonfinite=False`')
    return norm


@autograd.no_grad()
def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    """Scale the gradients by max_norm / total_norm if that is less than 1."""
    scale = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    for parameter in _with_gradients(parameters):
        parameter.grad.mul_(scale)


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scale the gradients so that their total norm is at most max_norm; returns the norm before.

    >>> nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    """
    parameters = _with_gradients(parameters)
    norm = get_total_norm([parameter.grad for parameter in parameters], norm_type, error_if_nonfinite)
    clip_grads_with_norm_(parameters, max_norm, norm)
    return norm


def clip_grad_norm(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """clip_grad_norm_, under its old name."""
    warnings.warn('`gt.nn.utils.clip_grad_norm` is now deprecated in favor of `gt.nn.utils.clip_grad_norm_`.',
                  FutureWarning, stacklevel=2)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@autograd.no_grad()
def clip_grad_value_(parameters, clip_value, foreach=None):
    """Keep every element of every gradient between ±clip_value."""
    clip_value = float(clip_value)
    for parameter in _with_gradients(parameters):
        parameter.grad.clamp_(-clip_value, clip_value)
