"""Normalisation layers. Their functions are in normalization.py."""

import warnings

import gt
from gt.nn import functional as F
from gt.nn import init
from gt.nn.module import Module
from gt.nn.parameter import Parameter


def _weight_and_bias(module, shape, weight, bias, dtype):
    """Ones and zeros, or None."""
    module.register_parameter('weight', Parameter(gt.ones(shape, dtype=dtype)) if weight else None)
    module.register_parameter('bias', Parameter(gt.zeros(shape, dtype=dtype)) if bias else None)


class _Affine(Module):
    """Common to normalisations by the input alone: weight and bias start at 1 and 0."""

    def reset_parameters(self):
        """Weight to 1 and bias to 0."""
        for name, parameter in self.named_parameters(recurse=False):
            init.constant_(parameter, 1.0 if name == 'weight' else 0.0)


class LayerNorm(_Affine):
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


class RMSNorm(_Affine):
    """x divided by its root mean square over the last dimensions, times weight."""

    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None):
        super().__init__()
        shape = (normalized_shape,) if hasattr(normalized_shape, '__index__') else tuple(normalized_shape)
        self.normalized_shape, self.eps, self.elementwise_affine = shape, eps, elementwise_affine
        self.register_parameter('weight', Parameter(gt.ones(shape, dtype=dtype)) if elementwise_affine else None)

    def forward(self, input):
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self):
        return f'{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}'


class GroupNorm(_Affine):
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


class _NormBase(Module):
    """Common to batch and instance normalisation: weight and bias, running values, and the check of the input."""

    _version = 2
    _gt_ranks = ()  # the allowed numbers of dimensions

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

    def _check_input_dim(self, input):
        if self._gt_ranks and input.ndim not in self._gt_ranks:
            raise ValueError(f'expected {" or ".join(f"{rank}D" for rank in self._gt_ranks)} input '
                             f'(got {input.ndim}D input)')

    def extra_repr(self):
        return (f'{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, '
                f'track_running_stats={self.track_running_stats}')

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *lists):
        """States of before version 2 do not count batches."""
        key, version = prefix + 'num_batches_tracked', local_metadata.get('version')
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            state_dict[key] = self.num_batches_tracked if self.num_batches_tracked is not None else gt.tensor(0)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *lists)


class _BatchNorm(_NormBase):
    """Mean 0 and variance 1 over all but the channels; in evaluation mode by the running values of training."""

    def forward(self, input):
        """The normalised input."""
        self._check_input_dim(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the average of all batches
                momentum = 1.0 / self.num_batches_tracked
        of_batch = self.training or (self.running_mean is None and self.running_var is None)
        tracked = not self.training or self.track_running_stats
        return F.batch_norm(input, self.running_mean if tracked else None, self.running_var if tracked else None,
                            self.weight, self.bias, of_batch, momentum, self.eps)


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of (N, C) or (N, C, L)."""

    _gt_ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of (N, C, H, W)."""

    _gt_ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of (N, C, D, H, W)."""

    _gt_ranks = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation of (N, C, ...). The dispatcher spreads one program, so batches need no synchronisation."""

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, process_group=None,
                 device=None, dtype=None):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)
        self.process_group = process_group

    def _check_input_dim(self, input):
        if input.ndim < 2:
            raise ValueError(f'expected at least 2D input (got {input.ndim}D input)')

    @classmethod
    def convert_sync_batchnorm(cls, module, process_group=None):
        """The module with every BatchNorm replaced by a SyncBatchNorm with the same weights."""
        converted = module
        if isinstance(module, _BatchNorm):
            converted = cls(module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats,
                            process_group)
            if module.affine:
                converted.weight, converted.bias = module.weight, module.bias
            for name in ('running_mean', 'running_var', 'num_batches_tracked'):
                setattr(converted, name, getattr(module, name))
            converted.training = module.training
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted


class _InstanceNorm(_NormBase):
    """Mean 0 and variance 1 over each channel of each sample."""

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False, device=None,
                 dtype=None):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)

    def forward(self, input):
        """The normalised input, with or without a batch dimension."""
        self._check_input_dim(input)
        batched = input.ndim == self._gt_ranks[1]
        channels = input.shape[1 if batched else 0]
        if channels != self.num_features:
            if self.affine:
                raise ValueError(f"expected input's size at dim={1 if batched else 0} to match num_features "
                                 f'({self.num_features}), but got: {channels}.')
            warnings.warn(f"input's size at dim={1 if batched else 0} does not match num_features. You can silence this "
                          'warning by not passing in num_features, which is not used because affine=False', stacklevel=2)
        x = input if batched else input.unsqueeze(0)
        output = F.instance_norm(x, self.running_mean, self.running_var, self.weight, self.bias,
                                 self.training or not self.track_running_stats,
                                 0.0 if self.momentum is None else self.momentum, self.eps)
        return output if batched else output.squeeze(0)


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of (N, C, L) or (C, L)."""

    _gt_ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of (N, C, H, W) or (C, H, W)."""

    _gt_ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of (N, C, D, H, W) or (C, D, H, W)."""

    _gt_ranks = (4, 5)


class LocalResponseNorm(Module):
    """local_response_norm over neighbouring channels."""

    def __init__(self, size, alpha=1e-4, beta=0.75, k=1.0):
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input):
        """The normalised input."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self):
        return f'{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}'


class CrossMapLRN2d(LocalResponseNorm):
    """LocalResponseNorm of (N, C, H, W), under its old name."""

    def __init__(self, size, alpha=1e-4, beta=0.75, k=1):
        super().__init__(size, alpha, beta, k)
