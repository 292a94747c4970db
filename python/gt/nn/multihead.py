"""Multi-head attention, as a function and as a module; gt.nn.functional has the function too."""

import math

import gt
from gt import _gt
from gt.nn import functional as F
from gt.nn import init
from gt.nn.module import Module
from gt.nn.parameter import Parameter


def canonical_mask(mask, name, other, other_name, dtype, check_other=True):
    """A mask to add to scores: minus infinity where a bool mask is True. Raises PyTorch's error for other dtypes."""
    if mask is None:
        return None
    if mask.dtype != _gt.bool and not mask.is_floating_point():
        raise AssertionError(f'only bool and floating types of {name} are supported')
    if check_other and other is not None and mask.dtype != other:
        import warnings
        warnings.warn(f'Support for mismatched {name} and {other_name} is deprecated. Use same type for both instead.',
                      stacklevel=4)
    if mask.dtype != _gt.bool:
        return mask
    return gt.zeros(mask.shape, dtype=dtype).masked_fill(mask, -math.inf)


def _one_mask(q, keys, heads, attn_mask, key_padding_mask, is_causal):
    """One mask to add to scores (N, heads, L, S), or None."""
    batch, queries = q.shape[:2]
    if is_causal and attn_mask is None:
        raise RuntimeError('Need attn_mask if specifying the is_causal hint. You may use the Transformer module method '
                           '`generate_square_subsequent_mask` to create this mask.')
    padding = canonical_mask(key_padding_mask, 'key_padding_mask', None if attn_mask is None else attn_mask.dtype,
                             'attn_mask', q.dtype)
    mask = canonical_mask(attn_mask, 'attn_mask', None, '', q.dtype, False)
    if mask is not None and mask.ndim == 2:
        if mask.shape != (queries, keys):
            raise RuntimeError(f'The shape of the 2D attn_mask is gt.Size({list(mask.shape)}), but should be '
                               f'{(queries, keys)}.')
    elif mask is not None and mask.ndim == 3:
        if mask.shape != (batch * heads, queries, keys):
            raise RuntimeError(f'The shape of the 3D attn_mask is gt.Size({list(mask.shape)}), but should be '
                               f'{(batch * heads, queries, keys)}.')
        mask = mask.reshape(batch, heads, queries, keys)
    elif mask is not None:
        raise RuntimeError(f"attn_mask's dimension {mask.ndim} is not supported")
    if padding is None:
        return mask
    if padding.shape != (batch, keys):
        raise AssertionError(f'expecting key_padding_mask shape of {(batch, keys)}, but got gt.Size({list(padding.shape)})')
    padding = padding.reshape(batch, 1, 1, keys)
    return padding if mask is None else mask + padding


def attend(q, k, v, heads, bias_k=None, bias_v=None, add_zero_attn=False, dropout_p=0.0, key_padding_mask=None,
           attn_mask=None, need_weights=True, average_attn_weights=True, is_causal=False):
    """Attention of projected q (N, L, E), k and v (N, S, E) in heads: the outputs (N, L, E), and weights or None."""
    batch, queries, width = q.shape
    given = k.shape[1]
    mask = _one_mask(q, given, heads, attn_mask, key_padding_mask, is_causal)
    if bias_k is not None:
        k, v = (gt.cat([part, extra.reshape(1, 1, -1).expand(batch, 1, part.shape[2])], 1)
                for part, extra in ((k, bias_k), (v, bias_v)))
    if add_zero_attn:
        k, v = F.pad(k, (0, 0, 0, 1)), F.pad(v, (0, 0, 0, 1))
    if mask is not None and k.shape[1] > given:
        mask = F.pad(mask, (0, k.shape[1] - given))  # added keys are never masked
    q, k, v = (part.reshape(batch, part.shape[1], heads, -1).transpose(1, 2) for part in (q, k, v))
    if not need_weights:
        output = F.scaled_dot_product_attention(q, k, v, mask, dropout_p)
        return output.transpose(1, 2).reshape(batch, queries, width), None
    scores = (q * (1 / math.sqrt(q.shape[-1]))) @ k.transpose(-2, -1)
    weights = F.dropout((scores if mask is None else scores + mask).softmax(-1), dropout_p)
    output = (weights @ v).transpose(1, 2).reshape(batch, queries, width)
    return output, weights.mean(1) if average_attn_weights else weights


def in_projection(query, key, value, weight, weights, bias):
    """Queries, keys and values from one weight (3 E, E) or from three."""
    if weight is not None and query is key is value:
        return F.linear(query, weight, bias).chunk(3, -1)
    weights = weight.chunk(3) if weight is not None else weights
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    return [F.linear(*arguments) for arguments in zip((query, key, value), weights, biases)]


def check_shapes(query, key, value, key_padding_mask, attn_mask, heads):
    """Whether the inputs have a batch dimension. Raises PyTorch's error if their dimensions do not fit."""
    if query.ndim not in (2, 3):
        raise AssertionError(f'query should be unbatched 2D or batched 3D tensor but received {query.ndim}-D query tensor')
    batched = query.ndim == 3
    word, more = ('batched', query.ndim) if batched else ('unbatched', query.ndim)
    if not key.ndim == value.ndim == query.ndim:
        raise AssertionError(f'For {word} ({more}-D) `query`, expected `key` and `value` to be {more}-D but found '
                             f'{key.ndim}-D and {value.ndim}-D tensors respectively')
    if key_padding_mask is not None and key_padding_mask.ndim != query.ndim - 1:
        raise AssertionError(f'For {word} ({more}-D) `query`, expected `key_padding_mask` to be `None` or {more - 1}-D but '
                             f'found {key_padding_mask.ndim}-D tensor instead')
    if attn_mask is not None and attn_mask.ndim not in (2, 3):
        raise AssertionError(f'For {word} ({more}-D) `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found '
                             f'{attn_mask.ndim}-D tensor instead')
    return batched


def multi_head_attention_forward(
        query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v, add_zero_attn,
        dropout_p, out_proj_weight, out_proj_bias, training=True, key_padding_mask=None, need_weights=True, attn_mask=None,
        use_separate_proj_weight=False, q_proj_weight=None, k_proj_weight=None, v_proj_weight=None, static_k=None,
        static_v=None, average_attn_weights=True, is_causal=False):
    """What MultiheadAttention computes, of (L, N, E) or (L, E) and weights given as arguments."""
    batched = check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    if query.shape[-1] != embed_dim_to_check:
        raise AssertionError(f'was expecting embedding dimension of {embed_dim_to_check}, but got {query.shape[-1]}')
    if embed_dim_to_check % num_heads:
        raise AssertionError(f'embed_dim {embed_dim_to_check} not divisible by num_heads {num_heads}')
    if static_k is not None or static_v is not None:
        raise NotImplementedError('multi_head_attention_forward: static_k and static_v are not supported')

    def arranged(tensor):
        return tensor.transpose(0, 1) if batched else tensor.unsqueeze(0)
    if query is key is value:
        query = key = value = arranged(query)
    else:
        query, key, value = map(arranged, (query, key, value))
    if key_padding_mask is not None and not batched:
        key_padding_mask = key_padding_mask.unsqueeze(0)
    weight = None if use_separate_proj_weight else in_proj_weight
    q, k, v = in_projection(query, key, value, weight, (q_proj_weight, k_proj_weight, v_proj_weight), in_proj_bias)
    output, weights = attend(q, k, v, num_heads, bias_k, bias_v, add_zero_attn, dropout_p if training else 0.0,
                             key_padding_mask, attn_mask, need_weights, average_attn_weights, is_causal)
    output = F.linear(output, out_proj_weight, out_proj_bias)
    if batched:
        return output.transpose(0, 1), weights
    return output.squeeze(0), None if weights is None else weights.squeeze(0)


class MultiheadAttention(Module):
    """Attention in several heads, each with embed_dim / num_heads of the projected features.

    >>> output, weights = nn.MultiheadAttention(64, 8, batch_first=True)(x, x, x)
    """

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None,
                 vdim=None, batch_first=False, device=None, dtype=None):
        from gt.nn.layers import NonDynamicallyQuantizableLinear
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(f'embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and '
                             f'num_heads={num_heads} instead')
        super().__init__()
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError('embed_dim must be divisible by num_heads')
        if self._qkv_same_embed_dim:
            self.in_proj_weight = Parameter(gt.empty(3 * embed_dim, embed_dim, dtype=dtype))
            for name in ('q_proj_weight', 'k_proj_weight', 'v_proj_weight'):
                self.register_parameter(name, None)
        else:
            self.q_proj_weight = Parameter(gt.empty(embed_dim, embed_dim, dtype=dtype))
            self.k_proj_weight = Parameter(gt.empty(embed_dim, self.kdim, dtype=dtype))
            self.v_proj_weight = Parameter(gt.empty(embed_dim, self.vdim, dtype=dtype))
            self.register_parameter('in_proj_weight', None)
        self.register_parameter('in_proj_bias', Parameter(gt.empty(3 * embed_dim, dtype=dtype)) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, dtype=dtype)
        self.bias_k = Parameter(gt.empty(1, 1, embed_dim, dtype=dtype)) if add_bias_kv else None
        self.bias_v = Parameter(gt.empty(1, 1, embed_dim, dtype=dtype)) if add_bias_kv else None
        self._reset_parameters()

    def _reset_parameters(self):
        for name, parameter in self.named_parameters(recurse=False):
            fill = init.xavier_uniform_ if name.endswith('weight') else init.zeros_
            (init.xavier_normal_ if name in ('bias_k', 'bias_v') else fill)(parameter)
        if self.in_proj_bias is not None:
            init.zeros_(self.out_proj.bias)

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
                average_attn_weights=True, is_causal=False):
        """(output, weights or None) of (L, N, E), (N, L, E) if batch_first, or (L, E).

        A bool mask is True where a query must not see a key; a float mask is added to the scores. is_causal says that
        attn_mask is the causal one.
        """
        if F.multi_head_attention_forward is not multi_head_attention_forward:  # the program has put another function there
            return self._gt_called(query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights,
                                   is_causal)
        batched = check_shapes(query, key, value, key_padding_mask, attn_mask, self.num_heads)
        if query is key is value:
            query = key = value = self._gt_arranged(query, batched)
        else:
            query, key, value = (self._gt_arranged(tensor, batched) for tensor in (query, key, value))
        if query.shape[-1] != self.embed_dim:
            raise AssertionError(f'was expecting embedding dimension of {self.embed_dim}, but got {query.shape[-1]}')
        if key_padding_mask is not None and not batched:
            key_padding_mask = key_padding_mask.unsqueeze(0)
        separate = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        q, k, v = in_projection(query, key, value, self.in_proj_weight, separate, self.in_proj_bias)
        output, weights = attend(q, k, v, self.num_heads, self.bias_k, self.bias_v, self.add_zero_attn,
                                 self.dropout if self.training else 0.0, key_padding_mask, attn_mask, need_weights,
                                 average_attn_weights, is_causal)
        output = F.linear(output, self.out_proj.weight, self.out_proj.bias)
        if not batched:
            return output.squeeze(0), None if weights is None else weights.squeeze(0)
        return output if self.batch_first else output.transpose(0, 1), weights

    def _gt_called(self, query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal):
        """forward() by F.multi_head_attention_forward, whose tensors are (L, N, E)."""
        turned = self.batch_first and query.ndim == 3
        if turned:
            query, key, value = (tensor.transpose(0, 1) for tensor in (query, key, value))
        separate = {} if self._qkv_same_embed_dim else dict(
            use_separate_proj_weight=True, q_proj_weight=self.q_proj_weight, k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight)
        output, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias, training=self.training,
            key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
            average_attn_weights=average_attn_weights, is_causal=is_causal, **separate)
        return output.transpose(0, 1) if turned else output, weights

    def merge_masks(self, attn_mask, key_padding_mask, query):
        """One mask of both, and its kind: 0 for attn_mask alone, 1 for key_padding_mask alone, 2 for both."""
        if attn_mask is None or key_padding_mask is None:
            kind = 0 if attn_mask is not None else 1 if key_padding_mask is not None else None
            return attn_mask if key_padding_mask is None else key_padding_mask, kind
        batch, length, _ = query.shape
        padding = key_padding_mask.reshape(batch, 1, 1, length).expand(batch, self.num_heads, length, length)
        attention = attn_mask if attn_mask.ndim == 3 else attn_mask.unsqueeze(0)
        attention = attention.reshape(-1 if attn_mask.ndim == 3 else 1, attention.shape[0] // (
            batch if attn_mask.ndim == 3 else 1), length, length).expand(batch, self.num_heads, length, length)
        return attention + padding, 2

    def _gt_arranged(self, tensor, batched):
        """The input as (N, L, features)."""
        if not batched:
            return tensor.unsqueeze(0)
        return tensor if self.batch_first else tensor.transpose(0, 1)
