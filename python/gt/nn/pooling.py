"""Pooling, upsampling, fold and unfold as layers. Their functions are in spatial.py."""

from gt.nn import functional as F
from gt.nn.conv import per_dimension
from gt.nn.module import Module


class _MaxPool(Module):
    """The largest element of each window."""

    _gt_function = None

    def __init__(self, kernel_size, stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False):
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input):
        return getattr(F, self._gt_function)(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode,
                             self.return_indices)

    def extra_repr(self):
        return (f'kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, '
                f'dilation={self.dilation}, ceil_mode={self.ceil_mode}')


class MaxPool1d(_MaxPool):
    """max_pool1d."""

    _gt_function = 'max_pool1d'


class MaxPool2d(_MaxPool):
    """max_pool2d."""

    _gt_function = 'max_pool2d'


class MaxPool3d(_MaxPool):
    """max_pool3d."""

    _gt_function = 'max_pool3d'


class _Unpool(Module):
    """The reverse of a max pooling with return_indices."""

    _gt_function, _gt_dimensions = None, None

    def __init__(self, kernel_size, stride=None, padding=0):
        super().__init__()
        self.kernel_size = per_dimension(kernel_size, self._gt_dimensions)
        self.stride = per_dimension(kernel_size if stride is None else stride, self._gt_dimensions)
        self.padding = per_dimension(padding, self._gt_dimensions)

    def forward(self, input, indices, output_size=None):
        """Maxima at their places, and zeros."""
        return getattr(F, self._gt_function)(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self):
        return f'kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}'


class MaxUnpool1d(_Unpool):
    """max_unpool1d."""

    _gt_function, _gt_dimensions = 'max_unpool1d', 1


class MaxUnpool2d(_Unpool):
    """max_unpool2d."""

    _gt_function, _gt_dimensions = 'max_unpool2d', 2


class MaxUnpool3d(_Unpool):
    """max_unpool3d."""

    _gt_function, _gt_dimensions = 'max_unpool3d', 3


class _LPPool(Module):
    """Power averages of windows."""

    _gt_function = None

    def __init__(self, norm_type, kernel_size, stride=None, ceil_mode=False):
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, input):
        """The pooled input."""
        return getattr(F, self._gt_function)(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self):
        return (f'norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, '
                f'ceil_mode={self.ceil_mode}')


class LPPool1d(_LPPool):
    """lp_pool1d."""

    _gt_function = 'lp_pool1d'


class LPPool2d(_LPPool):
    """lp_pool2d."""

    _gt_function = 'lp_pool2d'


class LPPool3d(_LPPool):
    """lp_pool3d."""

    _gt_function = 'lp_pool3d'


class _FractionalMaxPool(Module):
    """Maxima of windows at random places."""

    _gt_function, _gt_dimensions = None, None

    def __init__(self, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
        super().__init__()
        name = type(self).__name__
        if (output_size is None) == (output_ratio is None):
            raise ValueError(f'{name} requires specifying either an output size, or a pooling ratio'
                             if output_size is None else 'only one of output_size and output_ratio may be specified')
        self.kernel_size = per_dimension(kernel_size, self._gt_dimensions)
        self.return_indices = return_indices
        self.register_buffer('_random_samples', _random_samples)
        self.output_size = None if output_size is None else per_dimension(output_size, self._gt_dimensions)
        self.output_ratio = None if output_ratio is None else (
            tuple(output_ratio) if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * self._gt_dimensions)
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f'output_ratio must be between 0 and 1 (got {output_ratio})')

    def forward(self, input):
        """The maxima, and their places if return_indices."""
        return getattr(F, self._gt_function)(input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
                             self._random_samples)


class FractionalMaxPool2d(_FractionalMaxPool):
    """fractional_max_pool2d."""

    _gt_function, _gt_dimensions = 'fractional_max_pool2d', 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """fractional_max_pool3d."""

    _gt_function, _gt_dimensions = 'fractional_max_pool3d', 3


class AvgPool1d(Module):
    """avg_pool1d: the average of each window along the last dimension."""

    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
        super().__init__()
        stride = kernel_size if stride is None else stride
        self.kernel_size, self.stride, self.padding = (
            (value,) if hasattr(value, '__index__') else tuple(value) for value in (kernel_size, stride, padding))
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input):
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)

    def extra_repr(self):
        return f'kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}'


class _AvgPool(Module):
    """The average of each window."""

    _gt_function = None

    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
                 divisor_override=None):
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, input):
        return getattr(F, self._gt_function)(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
                             self.divisor_override)

    def extra_repr(self):
        return f'kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}'


class AvgPool2d(_AvgPool):
    """avg_pool2d."""

    _gt_function = 'avg_pool2d'


class AvgPool3d(_AvgPool):
    """avg_pool3d."""

    _gt_function = 'avg_pool3d'


class _Adaptive(Module):
    """Pooling with one window per element of the output size."""

    _gt_function = None

    def __init__(self, output_size):
        super().__init__()
        self.output_size = output_size

    def forward(self, input):
        return getattr(F, self._gt_function)(input, self.output_size)

    def extra_repr(self):
        return f'output_size={self.output_size}'


class AdaptiveAvgPool1d(_Adaptive):
    """adaptive_avg_pool1d."""

    _gt_function = 'adaptive_avg_pool1d'


class AdaptiveAvgPool2d(_Adaptive):
    """adaptive_avg_pool2d."""

    _gt_function = 'adaptive_avg_pool2d'


class AdaptiveAvgPool3d(_Adaptive):
    """adaptive_avg_pool3d."""

    _gt_function = 'adaptive_avg_pool3d'


class _AdaptiveMax(_Adaptive):
    """Maxima, and their indices if return_indices."""

    def __init__(self, output_size, return_indices=False):
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input):
        return getattr(F, self._gt_function)(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMax):
    """adaptive_max_pool1d."""

    _gt_function = 'adaptive_max_pool1d'


class AdaptiveMaxPool2d(_AdaptiveMax):
    """adaptive_max_pool2d."""

    _gt_function = 'adaptive_max_pool2d'


class AdaptiveMaxPool3d(_AdaptiveMax):
    """adaptive_max_pool3d."""

    _gt_function = 'adaptive_max_pool3d'


class Upsample(Module):
    """interpolate, to a size or by a factor."""

    def __init__(self, size=None, scale_factor=None, mode='nearest', align_corners=None, recompute_scale_factor=None):
        super().__init__()
        self.name = type(self).__name__
        self.size, self.mode, self.align_corners = size, mode, align_corners
        self.recompute_scale_factor = recompute_scale_factor
        self.scale_factor = (tuple(map(float, scale_factor)) if isinstance(scale_factor, tuple) else
                             float(scale_factor) if scale_factor else None)

    def forward(self, input):
        return F.interpolate(input, self.size, self.scale_factor, self.mode, self.align_corners,
                             self.recompute_scale_factor)

    def extra_repr(self):
        given = (f'scale_factor={self.scale_factor!r}' if self.scale_factor is not None else f'size={self.size!r}')
        return f'{given}, mode={self.mode!r}'


class UpsamplingNearest2d(Upsample):
    """Upsample with mode 'nearest'."""

    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, 'nearest')


class UpsamplingBilinear2d(Upsample):
    """Upsample with mode 'bilinear' and aligned corners."""

    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, 'bilinear', True)


class Unfold(Module):
    """unfold: each window of an image as a column."""

    def __init__(self, kernel_size, dilation=1, padding=0, stride=1):
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input):
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self):
        return (f'kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, '
                f'stride={self.stride}')


class Fold(Module):
    """fold: columns added up to an image."""

    def __init__(self, output_size, kernel_size, dilation=1, padding=0, stride=1):
        super().__init__()
        self.output_size, self.kernel_size = output_size, kernel_size
        self.dilation, self.padding, self.stride = dilation, padding, stride

    def forward(self, input):
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self):
        return (f'output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, '
                f'padding={self.padding}, stride={self.stride}')
