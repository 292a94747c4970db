"""Layers: Linear, Bilinear, Embedding, Dropout, and layers that only reshape."""

import math

import gt
from gt.nn import functional as F
from gt.nn import init
from gt.nn.module import Module
from gt.nn.parameter import Parameter


class Identity(Module):
    """Returns its input; constructor arguments are ignored."""

    def __init__(self, *args, **keywords):
        super().__init__()

    def forward(self, input):
        return input


class Linear(Module):
    """x @ weight.T + bias: weight is (out_features, in_features)."""

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(gt.empty(out_features, in_features, dtype=dtype))
        self.bias = Parameter(gt.empty(out_features, dtype=dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self):
        """Uniform between ±1 / sqrt(in_features)."""
        bound = 1 / math.sqrt(self.in_features) if self.in_features else 0.0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input):
        output, bias = input @ self.weight.t(), self.bias
        return output if bias is None else output + bias

    def extra_repr(self):
        return f'in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}'


class Bilinear(Module):
    """x1 @ weight[k] @ x2 + bias[k] for each output k."""

    def __init__(self, in1_features, in2_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = Parameter(gt.empty(out_features, in1_features, in2_features, dtype=dtype))
        self.bias = Parameter(gt.empty(out_features, dtype=dtype)) if bias else None
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


class Embedding(Module):
    """A row of weight (num_embeddings, embedding_dim) for each index; the row at padding_idx is not trained."""

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0,
                 scale_grad_by_freq=False, sparse=False, device=None, dtype=None):
        super().__init__()
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise AssertionError('Padding_idx must be within num_embeddings')
        if scale_grad_by_freq:
            raise NotImplementedError('Embedding: scale_grad_by_freq is not supported')
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.max_norm, self.norm_type = max_norm, norm_type
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.weight = Parameter(gt.empty(num_embeddings, embedding_dim, dtype=dtype))
        self.reset_parameters()

    @classmethod
    def from_pretrained(cls, embeddings, freeze=True, padding_idx=None):
        """An embedding with these rows, which are trained unless frozen."""
        layer = cls(*embeddings.shape, padding_idx)
        layer.weight = Parameter(embeddings, not freeze)
        return layer

    def reset_parameters(self):
        """Normal; the padding is zero."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            self.weight.data[self.padding_idx] = 0.0

    def forward(self, input):
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type)

    def extra_repr(self):
        padding = '' if self.padding_idx is None else f', padding_idx={self.padding_idx}'
        longest = '' if self.max_norm is None else f', max_norm={self.max_norm}'
        return f'{self.num_embeddings}, {self.embedding_dim}{padding}{longest}'


class Dropout(Module):
    """In training, zero elements with probability p and scale the others by 1 / (1 - p); see gt.manual_seed."""

    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f'dropout probability has to be between 0 and 1, but got {p}')
        self.p, self.inplace = p, inplace

    def forward(self, input):
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self):
        return f'p={self.p}, inplace={self.inplace}'


class Dropout1d(Dropout):
    """Dropout of whole channels of (N, C, L) or (C, L)."""

    function = staticmethod(F.dropout1d)

    def forward(self, input):
        return self.function(input, self.p, self.training, self.inplace)


class Dropout2d(Dropout1d):
    """Dropout of whole channels of (N, C, H, W) or (C, H, W)."""

    function = staticmethod(F.dropout2d)


class Dropout3d(Dropout1d):
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W)."""

    function = staticmethod(F.dropout3d)


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along a dimension."""

    def __init__(self, dim=1, eps=1e-8):
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1, x2):
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


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
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input):
        dim = self.dim % input.ndim
        return input.reshape(*input.shape[:dim], *self.unflattened_size, *input.shape[dim + 1:])

    def extra_repr(self):
        return f'dim={self.dim}, unflattened_size={self.unflattened_size}'
