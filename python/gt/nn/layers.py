"""Layers: Linear, Bilinear, Dropout, and layers that only reshape."""

import math

import gt
from gt import _gt
from gt.nn import functional as F
from gt.nn import init
from gt.nn.module import Module
from gt.nn.parameter import Parameter


_linear_layer = _gt._linear_layer
_gt._functions(vars(F), F.linear, F.relu)


class Identity(Module):
    """Returns its input; constructor arguments are ignored."""

    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, input):
        """The input itself."""
        return input


class Linear(Module):
    """x @ weight.T + bias: weight is (out_features, in_features)."""

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(gt.empty(out_features, in_features, dtype=dtype))
        self.register_parameter('bias', Parameter(gt.empty(out_features, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Uniform between ±1 / sqrt(in_features)."""
        bound = 1 / math.sqrt(self.in_features) if self.in_features else 0.0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input):
        output = _linear_layer(self, input)  # F.linear, unless the program has put another function there: with one call less
        return F.linear(input, self.weight, self.bias) if output is None else output

    def extra_repr(self):
        return f'in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}'


class NonDynamicallyQuantizableLinear(Linear):
    """Linear, under the name that it has as the last layer of MultiheadAttention."""


class Bilinear(Module):
    """x1 @ weight[k] @ x2 + bias[k] for each output k."""

    def __init__(self, in1_features, in2_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = Parameter(gt.empty(out_features, in1_features, in2_features, dtype=dtype))
        self.register_parameter('bias', Parameter(gt.empty(out_features, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Uniform between ±1 / sqrt(in1_features)."""
        bound = 1 / math.sqrt(self.in1_features)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def forward(self, input1, input2):
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self):
        return (f'in1_features={self.in1_features}, in2_features={self.in2_features}, '
                f'out_features={self.out_features}, bias={self.bias is not None}')


class _DropoutNd(Module):
    """The base of dropout layers: the probability p, and whether they change their input in place."""

    _gt_function = None

    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f'dropout probability has to be between 0 and 1, but got {p}')
        self.p, self.inplace = p, inplace

    def forward(self, input):
        """The input with a part of it zeroed in training."""
        return getattr(F, self._gt_function)(input, self.p, self.training, self.inplace)

    def extra_repr(self):
        return f'p={self.p}, inplace={self.inplace}'


class Dropout(_DropoutNd):
    """In training, zero elements with probability p and scale the others by 1 / (1 - p); see gt.manual_seed."""

    _gt_function = 'dropout'


class Dropout1d(_DropoutNd):
    """Dropout of whole channels of (N, C, L) or (C, L)."""

    _gt_function = 'dropout1d'


class Dropout2d(_DropoutNd):
    """Dropout of whole channels of (N, C, H, W) or (C, H, W)."""

    _gt_function = 'dropout2d'


class Dropout3d(_DropoutNd):
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W)."""

    _gt_function = 'dropout3d'


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean and variance after SELU."""

    _gt_function = 'alpha_dropout'


class FeatureAlphaDropout(_DropoutNd):
    """AlphaDropout of whole channels."""

    _gt_function = 'feature_alpha_dropout'


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along a dimension."""

    def __init__(self, dim=1, eps=1e-8):
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1, x2):
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class ChannelShuffle(Module):
    """Channels (N, C, ...) in groups, interleaved."""

    def __init__(self, groups):
        super().__init__()
        self.groups = groups

    def forward(self, input):
        """The input with its channels in another order."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self):
        return f'groups={self.groups}'


class PixelShuffle(Module):
    """(..., C * r * r, H, W) to (..., C, H * r, W * r)."""

    def __init__(self, upscale_factor):
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input):
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self):
        return f'upscale_factor={self.upscale_factor}'


class PixelUnshuffle(Module):
    """(..., C, H * r, W * r) to (..., C * r * r, H, W)."""

    def __init__(self, downscale_factor):
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input):
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self):
        return f'downscale_factor={self.downscale_factor}'


class Flatten(Module):
    """Merge the dimensions from start_dim to end_dim into one."""

    def __init__(self, start_dim=1, end_dim=-1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input):
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self):
        return f'start_dim={self.start_dim}, end_dim={self.end_dim}'


class Unflatten(Module):
    """Split one dimension into several."""

    def __init__(self, dim, unflattened_size):
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError(f'unflatten requires the dim to be an int, but found {type(dim).__name__}')
        if not isinstance(unflattened_size, (tuple, list)) or not all(hasattr(n, '__index__') for n in unflattened_size):
            raise TypeError(f'unflattened_size must be a tuple of ints, but found type {type(unflattened_size).__name__}')
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input):
        """The input with one dimension split."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self):
        return f'dim={self.dim}, unflattened_size={self.unflattened_size}'
