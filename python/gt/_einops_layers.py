"""einops.layers.gt: Rearrange, Reduce and EinMix as modules of gt.nn."""

from einops.layers import RearrangeMixin, ReduceMixin
from einops.layers._einmix import _EinmixMixin

import gt
from gt import nn


class Rearrange(RearrangeMixin, nn.Module):
    """einops.rearrange as a layer: Rearrange('b c h w -> b (c h w)')."""

    def forward(self, input):
        """The rearranged tensor."""
        return self._apply_recipe(input)


class Reduce(ReduceMixin, nn.Module):
    """einops.reduce as a layer: Reduce('b c h w -> b c', 'mean')."""

    def forward(self, input):
        """The reduced tensor."""
        return self._apply_recipe(input)


class EinMix(_EinmixMixin, nn.Module):
    """A linear layer by an einsum pattern: EinMix('b i -> b o', weight_shape='i o', bias_shape='o', i=3, o=5)."""

    def _create_parameters(self, weight_shape, weight_bound, bias_shape, bias_bound):
        self.weight = nn.Parameter(gt.empty(weight_shape).uniform_(-weight_bound, weight_bound))
        self.bias = None if bias_shape is None else nn.Parameter(gt.empty(bias_shape).uniform_(-bias_bound, bias_bound))

    def _create_rearrange_layers(self, pre_reshape_pattern, pre_reshape_lengths, post_reshape_pattern,
                                 post_reshape_lengths):
        self.pre_rearrange = pre_reshape_pattern and Rearrange(pre_reshape_pattern, **pre_reshape_lengths)
        self.post_rearrange = post_reshape_pattern and Rearrange(post_reshape_pattern, **post_reshape_lengths)

    def forward(self, input):
        """The mixed tensor."""
        if self.pre_rearrange is not None:
            input = self.pre_rearrange(input)
        result = gt.einsum(self.einsum_pattern, input, self.weight)
        if self.bias is not None:
            result = result + self.bias
        return result if self.post_rearrange is None else self.post_rearrange(result)
