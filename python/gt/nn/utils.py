"""Functions for gradients and parameters between backward() and step(). None of them waits for the server."""

import math

from gt import Tensor, autograd, cat, stack


def _with_gradients(parameters):
    parameters = [parameters] if isinstance(parameters, Tensor) else parameters
    return [parameter for parameter in parameters if parameter.grad is not None]


@autograd.no_grad()
def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False):
    """The norm of all elements of all tensors, as if they were one vector."""
    tensors, norm_type = list(tensors), float(norm_type)
    if not tensors:
        return Tensor(0.0)
    if norm_type == 2:
        norm = sum(tensor.square().sum() for tensor in tensors).sqrt()
    else:
        norm = stack([tensor.norm(norm_type) for tensor in tensors]).norm(norm_type)
    if error_if_nonfinite and not math.isfinite(norm.item()):
        raise RuntimeError(f'The total norm of order {norm_type} for gradients from `parameters` is non-finite, '
                           'so it cannot be clipped.')
    return norm


@autograd.no_grad()
def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False):
    """Scale the gradients so that their total norm is at most max_norm; returns the norm before."""
    parameters = _with_gradients(parameters)
    norm = get_total_norm([parameter.grad for parameter in parameters], norm_type, error_if_nonfinite)
    scale = (float(max_norm) / (norm + 1e-6)).clamp(max=1.0)
    for parameter in parameters:
        gradient = parameter.grad
        parameter.grad = (gradient * scale).to(gradient.dtype)
    return norm


@autograd.no_grad()
def clip_grad_value_(parameters, clip_value):
    """Keep every element of every gradient between ±clip_value."""
    clip_value = float(clip_value)
    for parameter in _with_gradients(parameters):
        parameter.grad = parameter.grad.clamp(-clip_value, clip_value)


def parameters_to_vector(parameters):
    """All elements of all parameters, in one vector."""
    return cat([parameter.flatten() for parameter in parameters])


def vector_to_parameters(vec, parameters):
    """Copy the elements of one vector into parameters."""
    start = 0
    for parameter in parameters:
        count = parameter.numel()
        parameter.data = vec[start:start + count].reshape(parameter.shape)
        start += count
