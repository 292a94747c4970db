"""Padding layers: functional.pad with a mode and a number of dimensions."""

from gt.nn import functional as F
from gt.nn.module import Module


class _Pad(Module):
    """`padding` is one number for every side, or (left, right, top, bottom, front, back), the last dimension first."""

    _gt_dimensions, _gt_mode = 1, 'constant'

    def __init__(self, padding):
        super().__init__()
        sides = 2 * self._gt_dimensions
        self.padding = (padding,) * sides if hasattr(padding, '__index__') else tuple(padding)
        if len(self.padding) != sides:
            raise ValueError(f'expected 1 or {sides} numbers of padding, got {len(self.padding)}')

    def forward(self, input):
        """The padded input."""
        return F.pad(input, self.padding, self._gt_mode)

    def extra_repr(self):
        return f'{self.padding}'


class _ConstantPad(_Pad):
    """The same value around the last dimensions."""

    def __init__(self, padding, value):
        super().__init__(padding)
        self.value = value

    def forward(self, input):
        """The padded input."""
        return F.pad(input, self.padding, 'constant', self.value)

    def extra_repr(self):
        return f'padding={self.padding}, value={self.value}'


class _ZeroPad(_ConstantPad):
    """Zeros around the last dimensions."""

    def __init__(self, padding):
        super().__init__(padding, 0.0)

    def extra_repr(self):
        return f'{self.padding}'


class _ReflectionPad(_Pad):
    """The elements next to the edge, mirrored."""

    _gt_mode = 'reflect'


class _ReplicationPad(_Pad):
    """The elements at the edge, repeated."""

    _gt_mode = 'replicate'


class _CircularPad(_Pad):
    """The elements from the other edge."""

    _gt_mode = 'circular'


class ConstantPad1d(_ConstantPad):
    """The same value around the last dimension."""


class ConstantPad2d(_ConstantPad):
    """The same value around the last two dimensions."""

    _gt_dimensions = 2


class ConstantPad3d(_ConstantPad):
    """The same value around the last three dimensions."""

    _gt_dimensions = 3


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """Zeros around the last dimension."""


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """Zeros around the last two dimensions."""


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """Zeros around the last three dimensions."""


class ReflectionPad1d(_ReflectionPad):
    """The elements next to the edge, mirrored."""


class ReflectionPad2d(_ReflectionPad):
    """The elements next to the edges of the last two dimensions, mirrored."""

    _gt_dimensions = 2


class ReflectionPad3d(_ReflectionPad):
    """The elements next to the edges of the last three dimensions, mirrored."""

    _gt_dimensions = 3


class ReplicationPad1d(_ReplicationPad):
    """The elements at the edge, repeated."""


class ReplicationPad2d(_ReplicationPad):
    """The elements at the edges of the last two dimensions, repeated."""

    _gt_dimensions = 2


class ReplicationPad3d(_ReplicationPad):
    """The elements at the edges of the last three dimensions, repeated."""

    _gt_dimensions = 3


class CircularPad1d(_CircularPad):
    """The elements from the other edge."""


class CircularPad2d(_CircularPad):
    """The elements from the other edges of the last two dimensions."""

    _gt_dimensions = 2


class CircularPad3d(_CircularPad):
    """The elements from the other edges of the last three dimensions."""

    _gt_dimensions = 3
