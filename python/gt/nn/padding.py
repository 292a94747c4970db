"""Padding layers: functional.pad with a mode and a number of dimensions."""

from gt.nn import functional as F
from gt.nn.module import Module


class _Pad(Module):
    """`padding` is one number for every side, or (left, right, top, bottom, front, back), the last dimension first."""

    dimensions, mode = 1, 'constant'

    def __init__(self, padding):
        super().__init__()
        sides = 2 * self.dimensions
        self.padding = (padding,) * sides if hasattr(padding, '__index__') else tuple(padding)
        if len(self.padding) != sides:
            raise ValueError(f'expected 1 or {sides} numbers of padding, got {len(self.padding)}')

    def forward(self, input):
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self):
        return f'{self.padding}'


class ConstantPad1d(_Pad):
    """The same value around the last dimension."""

    def __init__(self, padding, value):
        super().__init__(padding)
        self.value = value

    def forward(self, input):
        return F.pad(input, self.padding, 'constant', self.value)

    def extra_repr(self):
        return f'padding={self.padding}, value={self.value}'


class ConstantPad2d(ConstantPad1d):
    """The same value around the last two dimensions."""

    dimensions = 2


class ConstantPad3d(ConstantPad1d):
    """The same value around the last three dimensions."""

    dimensions = 3


class ZeroPad1d(_Pad):
    """Zeros around the last dimension."""


class ZeroPad2d(_Pad):
    """Zeros around the last two dimensions."""

    dimensions = 2


class ZeroPad3d(_Pad):
    """Zeros around the last three dimensions."""

    dimensions = 3


class ReflectionPad1d(_Pad):
    """The elements next to the edge, mirrored."""

    mode = 'reflect'


class ReflectionPad2d(ReflectionPad1d):
    """The same for two dimensions."""

    dimensions = 2


class ReflectionPad3d(ReflectionPad1d):
    """The same for three dimensions."""

    dimensions = 3


class ReplicationPad1d(_Pad):
    """The elements of the edge, repeated."""

    mode = 'replicate'


class ReplicationPad2d(ReplicationPad1d):
    """The same for two dimensions."""

    dimensions = 2


class ReplicationPad3d(ReplicationPad1d):
    """The same for three dimensions."""

    dimensions = 3


class CircularPad1d(_Pad):
    """The elements of the other end."""

    mode = 'circular'


class CircularPad2d(CircularPad1d):
    """The same for two dimensions."""

    dimensions = 2


class CircularPad3d(CircularPad1d):
    """The same for three dimensions."""

    dimensions = 3
