"""Attention and the transformer's encoder."""

import copy
import math

import gt
from gt import _gt
from gt.nn import functional as F
from gt.nn import init
from gt.nn.containers import ModuleList
from gt.nn.layers import Dropout, Linear
from gt.nn.module import Module
from gt.nn.norm import LayerNorm
from gt.nn.parameter import Parameter


def _additive(mask, like):
    """A mask to add to scores: where a bool mask is True, minus infinity."""
    if mask.dtype != _gt.bool:
        return mask
    return gt.zeros(mask.shape, dtype=like.dtype).masked_fill(mask, -math.inf)


class MultiheadAttention(Module):
    """Attention in several heads, each with embed_dim / num_heads of the projected features."""

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None,
                 vdim=None, batch_first=False, device=None, dtype=None):
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0 or embed_dim % num_heads:
            raise AssertionError('embed_dim must be divisible by num_heads')
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        if self.kdim == self.vdim == embed_dim:
            self.in_proj_weight = Parameter(gt.empty(3 * embed_dim, embed_dim, dtype=dtype))
        else:
            self.q_proj_weight = Parameter(gt.empty(embed_dim, embed_dim, dtype=dtype))
            self.k_proj_weight = Parameter(gt.empty(embed_dim, self.kdim, dtype=dtype))
            self.v_proj_weight = Parameter(gt.empty(embed_dim, self.vdim, dtype=dtype))
            self.in_proj_weight = None
        self.in_proj_bias = Parameter(gt.zeros(3 * embed_dim, dtype=dtype)) if bias else None
        self.bias_k = Parameter(gt.empty(1, 1, embed_dim, dtype=dtype)) if add_bias_kv else None
        self.bias_v = Parameter(gt.empty(1, 1, embed_dim, dtype=dtype)) if add_bias_kv else None
        self.out_proj = Linear(embed_dim, embed_dim, bias, dtype=dtype)
        self._reset_parameters()

    def _reset_parameters(self):
        for name, parameter in self.named_parameters(recurse=False):
            fill = init.xavier_uniform_ if name.endswith('weight') else init.zeros_
            (init.xavier_normal_ if name in ('bias_k', 'bias_v') else fill)(parameter)
        if self.out_proj.bias is not None:
            init.zeros_(self.out_proj.bias)

    def _projected(self, query, key, value):
        weight, bias = self.in_proj_weight, self.in_proj_bias
        if weight is not None and query is key is value:
            return F.linear(query, weight, bias).chunk(3, -1)
        weights = weight.chunk(3) if weight is not None else (
            self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None,) * 3 if bias is None else bias.chunk(3)
        return [F.linear(*arguments) for arguments in zip((query, key, value), weights, biases)]

    def _mask(self, scores_shape, attn_mask, key_padding_mask, is_causal, like):
        """One mask to add to scores (N, heads, L, S), or None."""
        batch, _, queries, keys = scores_shape
        mask = None
        if attn_mask is not None:
            mask = _additive(attn_mask, like)
            mask = mask.reshape(batch, -1, queries, keys) if mask.ndim == 3 else mask
        elif is_causal:
            mask = _additive(gt.ones(queries, keys, dtype=_gt.bool).triu(1), like)
        if key_padding_mask is not None:
            padding = _additive(key_padding_mask, like).reshape(batch, 1, 1, keys)
            mask = padding if mask is None else mask + padding
        return mask

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
                average_attn_weights=True, is_causal=False):
        batched = query.ndim == 3
        if query is key is value:
            query = key = value = self._arranged(query, batched)
        else:
            query, key, value = (self._arranged(tensor, batched) for tensor in (query, key, value))
        batch, queries, _ = query.shape
        shape = batch, -1, self.num_heads, self.head_dim
        q, k, v = self._projected(query, key, value)
        given = k.shape[1]
        if self.bias_k is not None:
            k, v = (gt.cat([part, extra.expand(batch, 1, self.embed_dim)], 1)
                    for part, extra in ((k, self.bias_k), (v, self.bias_v)))
        if self.add_zero_attn:
            k, v = F.pad(k, (0, 0, 0, 1)), F.pad(v, (0, 0, 0, 1))
        q, k, v = (part.reshape(shape).transpose(1, 2) for part in (q, k, v))
        mask = self._mask((*q.shape[:3], given), attn_mask, key_padding_mask, is_causal, q)
        if mask is not None and k.shape[2] > given:
            mask = F.pad(mask, (0, k.shape[2] - given))  # added keys are never masked
        dropout = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            scores = (q * (1 / math.sqrt(self.head_dim))) @ k.transpose(-2, -1)
            weights = F.dropout((scores if mask is None else scores + mask).softmax(-1), dropout)
            output = weights @ v
            weights = weights.mean(1) if average_attn_weights else weights
            weights = weights if batched else weights.squeeze(0)
        else:
            output = F.scaled_dot_product_attention(q, k, v, mask, dropout)
        output = self.out_proj(output.transpose(1, 2).reshape(batch, queries, self.embed_dim))
        if not batched:
            return output.squeeze(0), weights
        return output if self.batch_first else output.transpose(0, 1), weights

    def _arranged(self, tensor, batched):
        """The input as (N, L, features)."""
        if not batched:
            return tensor.unsqueeze(0)
        return tensor if self.batch_first else tensor.transpose(0, 1)


class TransformerEncoderLayer(Module):
    """Self-attention and a two-layer network, each with a residual connection and normalisation (first if norm_first)."""

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=F.relu, layer_norm_eps=1e-5,
                 batch_first=False, norm_first=False, bias=True, device=None, dtype=None):
        super().__init__()
        if isinstance(activation, str):
            if activation not in ('relu', 'gelu'):
                raise RuntimeError(f'activation should be relu/gelu, not {activation}')
            activation = getattr(F, activation)
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, dtype=dtype)
        self.linear1 = Linear(d_model, dim_feedforward, bias, dtype=dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, dtype=dtype)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = activation

    def _attended(self, x, mask, padding, is_causal):
        return self.dropout1(self.self_attn(x, x, x, padding, False, mask, is_causal=is_causal)[0])

    def _fed_forward(self, x):
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        masks = src_mask, src_key_padding_mask, is_causal
        if self.norm_first:
            src = src + self._attended(self.norm1(src), *masks)
            return src + self._fed_forward(self.norm2(src))
        src = self.norm1(src + self._attended(src, *masks))
        return self.norm2(src + self._fed_forward(src))


class TransformerEncoder(Module):
    """Copies of an encoder layer, one after the other, and a last normalisation."""

    def __init__(self, encoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(encoder_layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=False):
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, is_causal)
        return src if self.norm is None else self.norm(src)
