"""Lazy modules: layers that learn their input sizes from the first input, then become ordinary ones."""

import gt
from gt.nn import members
from gt.nn.conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from gt.nn.layers import Linear
from gt.nn.norm import BatchNorm1d, BatchNorm2d, BatchNorm3d, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from gt.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy


class LazyModuleMixin:
    """Before the first forward(), initialize_parameters(*inputs) gives shapes to the parameters without any."""

    cls_to_become = None

    def _gt_make_lazy(self):
        """Call this at the end of __init__."""
        self._load_hook = self._register_load_state_dict_pre_hook(self._gt_lazy_load)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def has_uninitialized_params(self):
        """Whether a parameter or buffer has no shape yet."""
        return any(is_lazy(member) for member in (*self._parameters.values(), *self._buffers.values()))

    def initialize_parameters(self, *args, **kwargs):
        """Give shapes to the parameters; subclasses implement it."""
        raise NotImplementedError(f'initialize_parameters is not implemented for {type(self).__name__}')

    def _gt_lazy_load(self, state_dict, prefix, *lists):
        """A state that is loaded decides the shapes."""
        for name, member in members.persistent(self):
            value = state_dict.get(prefix + name)
            if value is not None and is_lazy(member) and not is_lazy(value):
                member.materialize(tuple(value.shape))

    @staticmethod
    def _infer_parameters(module, args, kwargs):
        module.initialize_parameters(*args, **kwargs)
        if module.has_uninitialized_params():
            raise RuntimeError(f'module {module._get_name()} has not been fully initialized')
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become


def _weight_and_bias(layer, bias, dtype):
    layer.weight = UninitializedParameter(dtype=dtype)
    layer.bias = UninitializedParameter(dtype=dtype) if bias else None


class LazyLinear(LazyModuleMixin, Linear):
    """Linear whose in_features is the size of the first input's last dimension.

    >>> nn.LazyLinear(10)(gt.randn(2, 5)).shape
    (2, 10)
    """

    cls_to_become = Linear

    def __init__(self, out_features, bias=True, device=None, dtype=None):
        super().__init__(0, 0, False)
        _weight_and_bias(self, bias, dtype)
        self.out_features = out_features
        self._gt_make_lazy()

    def reset_parameters(self):
        """Initialise the parameters, if they have a shape."""
        if '_load_hook' in self.__dict__ and not self.has_uninitialized_params() and self.in_features:
            super().reset_parameters()

    def initialize_parameters(self, input):
        """Take the size of the input's last dimension."""
        if self.has_uninitialized_params():
            self.in_features = input.shape[-1]
            self.weight.materialize((self.out_features, self.in_features))
            if self.bias is not None:
                self.bias.materialize((self.out_features,))
            self.reset_parameters()
        elif not self.in_features:
            self.in_features = self.weight.shape[1]


class _Becoming(LazyModuleMixin):
    """A subclass that also names an ordinary class becomes that."""

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        if len(cls.__bases__) == 2 and cls.__module__ == __name__:
            cls.cls_to_become = cls.__bases__[1]


class _LazyConv(_Becoming):
    """A convolution whose in_channels is the size of the first input's channel dimension."""

    def _gt_start_lazy(self, out_channels, bias, dtype):
        self.out_channels = out_channels
        _weight_and_bias(self, bias, dtype)
        self._gt_make_lazy()

    def reset_parameters(self):
        """Initialise the parameters, if they have a shape."""
        if '_load_hook' in self.__dict__ and not self.has_uninitialized_params() and self.in_channels:
            super().reset_parameters()

    def initialize_parameters(self, input, *args, **kwargs):
        """Take the number of the input's channels."""
        if not self.has_uninitialized_params():
            if not self.in_channels:
                self.in_channels = self.weight.shape[0] if self.transposed else self.weight.shape[1] * self.groups
            return
        if input.ndim not in (self._gt_dimensions + 1, self._gt_dimensions + 2):
            raise RuntimeError(f'Expected {self._gt_dimensions + 1}D (unbatched) or {self._gt_dimensions + 2}D (batched) input to '
                               f'{type(self).__name__}, but got input of size: gt.Size({list(input.shape)})')
        self.in_channels = input.shape[-self._gt_dimensions - 1]
        if self.in_channels % self.groups:
            raise ValueError('in_channels must be divisible by groups')
        both = (self.in_channels, self.out_channels) if self.transposed else (self.out_channels, self.in_channels)
        self.weight.materialize((both[0], both[1] // self.groups, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


class _LazyForward(_LazyConv):
    def __init__(self, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 padding_mode='zeros', device=None, dtype=None):
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self._gt_start_lazy(out_channels, bias, dtype)


class LazyConv1d(_LazyForward, Conv1d):
    """Conv1d with in_channels of the first input."""


class LazyConv2d(_LazyForward, Conv2d):
    """Conv2d with in_channels of the first input."""


class LazyConv3d(_LazyForward, Conv3d):
    """Conv3d with in_channels of the first input."""


class _LazyTransposed(_LazyConv):
    def __init__(self, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True, dilation=1,
                 padding_mode='zeros', device=None, dtype=None):
        super().__init__(0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode)
        self._gt_start_lazy(out_channels, bias, dtype)


class LazyConvTranspose1d(_LazyTransposed, ConvTranspose1d):
    """ConvTranspose1d with in_channels of the first input."""


class LazyConvTranspose2d(_LazyTransposed, ConvTranspose2d):
    """ConvTranspose2d with in_channels of the first input."""


class LazyConvTranspose3d(_LazyTransposed, ConvTranspose3d):
    """ConvTranspose3d with in_channels of the first input."""


class _LazyNorm(_Becoming):
    """A normalisation whose num_features is the number of the first input's channels."""

    def __init__(self, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None):
        super().__init__(0, eps, momentum, False, False)
        # affine and tracking start off, because there is no size for their tensors
        self.affine, self.track_running_stats = affine, track_running_stats
        if affine:
            self.weight, self.bias = UninitializedParameter(dtype=dtype), UninitializedParameter(dtype=dtype)
        if track_running_stats:
            self._buffers['running_mean'] = UninitializedBuffer(dtype=dtype)
            self._buffers['running_var'] = UninitializedBuffer(dtype=dtype)
            self._buffers['num_batches_tracked'] = gt.tensor(0)
        self._gt_make_lazy()

    def reset_parameters(self):
        """Initialise the parameters, if they have a shape."""
        if not self.has_uninitialized_params() and self.num_features:
            super().reset_parameters()

    def initialize_parameters(self, input):
        """Take the number of the input's channels."""
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1] if input.ndim >= self._gt_ranks[-1] or len(self._gt_ranks) == 1 else input.shape[
            1 if isinstance(self, LazyBatchNorm1d) else 0]
        for member in (*self._parameters.values(), *self._buffers.values()):
            if is_lazy(member):
                member.materialize((self.num_features,))
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """BatchNorm1d with num_features of the first input."""


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """BatchNorm2d with num_features of the first input."""


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """BatchNorm3d with num_features of the first input."""


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):
    """InstanceNorm1d with num_features of the first input."""


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):
    """InstanceNorm2d with num_features of the first input."""


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):
    """InstanceNorm3d with num_features of the first input."""
