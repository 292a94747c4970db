"""Normalisation layers."""

import gt
from gt.nn import functional as F
from gt.nn import init
from gt.nn.module import Module
from gt.nn.parameter import Parameter


def _weight_and_bias(module, shape, weight, bias, dtype):
    """Ones and zeros, or None."""
    module.weight = Parameter(gt.ones(shape, dtype=dtype)) if weight else None
    module.bias = Parameter(gt.zeros(shape, dtype=dtype)) if bias else None


class LayerNorm(Module):
    """Mean 0 and variance 1 over the last dimensions, times weight, plus bias."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None, dtype=None):
        super().__init__()
        shape = (normalized_shape,) if hasattr(normalized_shape, '__index__') else tuple(normalized_shape)
        self.normalized_shape, self.eps, self.elementwise_affine = shape, eps, elementwise_affine
        _weight_and_bias(self, shape, elementwise_affine, elementwise_affine and bias, dtype)

    def forward(self, input):
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return f'{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}'


class RMSNorm(Module):
    """x divided by its root mean square over the last dimensions, times weight."""

    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None):
        super().__init__()
        shape = (normalized_shape,) if hasattr(normalized_shape, '__index__') else tuple(normalized_shape)
        self.normalized_shape, self.eps, self.elementwise_affine = shape, eps, elementwise_affine
        self.weight = Parameter(gt.ones(shape, dtype=dtype)) if elementwise_affine else None

    def forward(self, input):
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self):
        return f'{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}'


class GroupNorm(Module):
    """Mean 0 and variance 1 over each group of channels (dimension 1), times weight, plus bias."""

    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True, device=None, dtype=None):
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f'num_channels ({num_channels}) must be divisible by num_groups ({num_groups})')
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        _weight_and_bias(self, (num_channels,), affine, affine, dtype)

    def forward(self, input):
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return f'{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}'


class _BatchNorm(Module):
    """Mean 0 and variance 1 over all but the channels; in evaluation mode by the running values of training."""

    ranks = ()

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None,
                 dtype=None):
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        _weight_and_bias(self, (num_features,), affine, affine, dtype)
        tracked = track_running_stats
        self.register_buffer('running_mean', gt.zeros(num_features, dtype=dtype) if tracked else None)
        self.register_buffer('running_var', gt.ones(num_features, dtype=dtype) if tracked else None)
        self.register_buffer('num_batches_tracked', gt.tensor(0) if tracked else None)

    def reset_running_stats(self):
        """Reset the running mean and variance."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self):
        """Reset the running values, weight to 1 and bias to 0."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            init.zeros_(self.bias)

    def forward(self, input):
        if input.ndim not in self.ranks:
            raise ValueError(f'expected {" or ".join(f"{rank}D" for rank in self.ranks)} input '
                             f'(got {input.ndim}D input)')
        momentum = self.momentum
        if self.training and self.track_running_stats:
            self.num_batches_tracked += 1
            if momentum is None:  # the average of all batches
                momentum = 1.0 / self.num_batches_tracked
        of_batch = self.training or self.running_mean is None
        return F.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, of_batch, momentum,
                            self.eps)

    def extra_repr(self):
        return (f'{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, '
                f'track_running_stats={self.track_running_stats}')


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of (N, C) or (N, C, L)."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of (N, C, H, W)."""

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of (N, C, D, H, W)."""

    ranks = (5,)
