"""Elementwise functions that are composed of rows of the op table, with PyTorch's rules of promotion."""

import math

from gt import _gt
from gt._gt import Tensor, where
from gt.client.registry import function, in_place, method


@method
def deg2rad(self):
    """deg2rad(): degrees as radians."""
    return self * (math.pi / 180)


@method
def rad2deg(self):
    """rad2deg(): radians as degrees."""
    return self * (180 / math.pi)


@method
def positive(self):
    """positive(): the tensor itself; not for bool."""
    if self.dtype == _gt.bool:
        raise RuntimeError('The `+` operator, on a bool tensor is not supported.')
    return self


@function
def rsub(input, other, *, alpha=1):
    """rsub(input, other, alpha=1): other - alpha * input."""
    if input.dtype == _gt.bool or isinstance(other, (bool, Tensor)) and getattr(other, 'dtype', _gt.bool) == _gt.bool:
        raise RuntimeError('Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or '
                           '`logical_xor()` operator instead.')
    return other - (input if alpha == 1 else input._scaled(alpha))


@function
def fill(input, value):
    """fill(input, value): a tensor like input with one value everywhere, a number or a 0-d tensor."""
    if isinstance(value, Tensor):
        _zero_dimensional('fill_', value)
        value = value.to(input.dtype)
    if not (input.requires_grad and _gt.is_grad_enabled()):
        return value.expand(input.shape).clone() if isinstance(value, Tensor) else _gt.full_like(input, value)
    nowhere = _gt.zeros(input.shape, dtype=_gt.bool)
    return where(nowhere, input, value)  # recorded: input gets a gradient of 0


def _zero_dimensional(name, value):
    if value.ndim:
        raise RuntimeError(f'{name} only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.')


in_place('deg2rad', 'rad2deg')
