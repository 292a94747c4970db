"""Convolution layers. Their functions are in spatial.py."""

import math

import gt
from gt.nn import functional as F
from gt.nn import init
from gt.nn.module import Module
from gt.nn.parameter import Parameter
from gt.nn.spatial import same_padding

PADDING_MODES = ('zeros', 'reflect', 'replicate', 'circular')


def per_dimension(value, dimensions):
    """A number for each spatial dimension."""
    return (value,) * dimensions if hasattr(value, '__index__') else tuple(value)


class _Conv(Module):
    """Common to all convolutions: sizes, weight and bias, initial values, repr."""

    _gt_dimensions, _gt_transposed = None, False

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding, groups, bias,
                 padding_mode, dtype):
        super().__init__()
        if groups <= 0:
            raise ValueError('groups must be a positive integer')
        if in_channels % groups:
            raise ValueError('in_channels must be divisible by groups')
        if out_channels % groups:
            raise ValueError('out_channels must be divisible by groups')
        if padding_mode not in PADDING_MODES:
            raise ValueError(f"padding_mode must be one of {set(PADDING_MODES)}, but got padding_mode='{padding_mode}'")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = per_dimension(kernel_size, self._gt_dimensions)
        self.stride = per_dimension(stride, self._gt_dimensions)
        self.dilation = per_dimension(dilation, self._gt_dimensions)
        self.output_padding = per_dimension(output_padding, self._gt_dimensions)
        self.padding, self.padding_mode = padding, padding_mode
        if isinstance(padding, str):
            if padding not in ('same', 'valid'):
                raise ValueError(f"Invalid padding string '{padding}', should be one of {{'same', 'valid'}}")
            if padding == 'same' and any(step != 1 for step in self.stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        else:
            self.padding = per_dimension(padding, self._gt_dimensions)
        self.transposed, self._reversed_padding_repeated_twice = self._gt_transposed, self._gt_around()
        channels = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        self.weight = Parameter(gt.empty(channels[0], channels[1] // groups, *self.kernel_size, dtype=dtype))
        self.register_parameter('bias', Parameter(gt.empty(out_channels, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def _gt_around(self):
        """Padding before and after each dimension, the last one first, as the argument of pad."""
        if isinstance(self.padding, str):
            zeros = (0,) * self._gt_dimensions
            pads = same_padding(self.kernel_size, self.dilation) if self.padding == 'same' else (zeros, zeros)
            return [number for pair in reversed(list(zip(*pads))) for number in pair]
        return tuple(number for number in reversed(self.padding) for _ in range(2))

    def reset_parameters(self):
        """Uniform between ±1 / sqrt(number of inputs of an output)."""
        inputs = math.prod(self.weight.shape[1:])
        bound = 1 / math.sqrt(inputs) if inputs else 0.0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def extra_repr(self):
        text = f'{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}'
        if any(self.padding):
            text += f', padding={self.padding}'
        if any(step != 1 for step in self.dilation):
            text += f', dilation={self.dilation}'
        if any(self.output_padding):
            text += f', output_padding={self.output_padding}'
        if self.groups != 1:
            text += f', groups={self.groups}'
        if self.bias is None:
            text += ', bias=False'
        if self.padding_mode != 'zeros':
            text += f', padding_mode={self.padding_mode}'
        return text


class _Forward(_Conv):
    """A convolution: weight is (out_channels, in_channels / groups, *kernel_size)."""

    _gt_function = None

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 padding_mode='zeros', device=None, dtype=None):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, 0, groups, bias,
                         padding_mode, dtype)

    def _conv_forward(self, input, weight, bias):
        """The convolution with another weight and bias."""
        padding = self.padding
        if self.padding_mode != 'zeros':
            input, padding = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode), 0
        return getattr(F, self._gt_function)(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input):
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Forward):
    """conv1d with a weight and bias of its own."""

    _gt_dimensions, _gt_function = 1, 'conv1d'


class Conv2d(_Forward):
    """conv2d with a weight and bias of its own."""

    _gt_dimensions, _gt_function = 2, 'conv2d'


class Conv3d(_Forward):
    """conv3d with a weight and bias of its own."""

    _gt_dimensions, _gt_function = 3, 'conv3d'


class _Transposed(_Conv):
    """A transposed convolution: weight is (in_channels, out_channels / groups, *kernel_size)."""

    _gt_function, _gt_transposed = None, True

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True,
                 dilation=1, padding_mode='zeros', device=None, dtype=None):
        if padding_mode != 'zeros':
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding, groups, bias,
                         padding_mode, dtype)

    def _output_padding(self, input, output_size):
        """The output_padding that gives this size."""
        if output_size is None:
            return self.output_padding
        size = tuple(output_size)[-self._gt_dimensions:]
        least = [(length - 1) * s - 2 * p + d * (k - 1) + 1 for length, s, p, d, k in zip(
            input.shape[-self._gt_dimensions:], self.stride, self.padding, self.dilation, self.kernel_size)]
        most = [low + s - 1 for low, s in zip(least, self.stride)]
        if len(size) != self._gt_dimensions or any(not low <= n <= high for low, n, high in zip(least, size, most)):
            raise ValueError(f'requested an output size of {list(size)}, but valid sizes range from {least} to {most} '
                             f'(for an input of {list(input.shape[-self._gt_dimensions:])})')
        return tuple(n - low for n, low in zip(size, least))

    def forward(self, input, output_size=None):
        return getattr(F, self._gt_function)(input, self.weight, self.bias, self.stride, self.padding,
                             self._output_padding(input, output_size), self.groups, self.dilation)


class ConvTranspose1d(_Transposed):
    """conv_transpose1d with a weight and bias of its own."""

    _gt_dimensions, _gt_function = 1, 'conv_transpose1d'


class ConvTranspose2d(_Transposed):
    """conv_transpose2d with a weight and bias of its own."""

    _gt_dimensions, _gt_function = 2, 'conv_transpose2d'


class ConvTranspose3d(_Transposed):
    """conv_transpose3d with a weight and bias of its own."""

    _gt_dimensions, _gt_function = 3, 'conv_transpose3d'
