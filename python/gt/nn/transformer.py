"""The transformer: encoder and decoder layers, stacks of them, and both together."""

import copy
import math

import gt
from gt.nn import functional as F
from gt.nn import init
from gt.nn.containers import ModuleList
from gt.nn.layers import Dropout, Linear
from gt.nn.module import Module
from gt.nn.multihead import MultiheadAttention, canonical_mask
from gt.nn.norm import LayerNorm


def _activation(given):
    if not isinstance(given, str):
        return given
    if given not in ('relu', 'gelu'):
        raise RuntimeError(f'activation should be relu/gelu, not {given}')
    return getattr(F, given)


class _Layer(Module):
    """Common to both kinds of layers: the two-layer network and the normalisations."""

    def _gt_add_network(self, d_model, dim_feedforward, dropout, activation, layer_norm_eps, norm_first, bias, dtype, parts):
        """Modules in the order in which PyTorch's state has them, one normalisation and one dropout for each part."""
        self.linear1 = Linear(d_model, dim_feedforward, bias, dtype=dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, dtype=dtype)
        self.norm_first = norm_first
        for k in range(1, parts + 1):
            setattr(self, f'norm{k}', LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype))
        for k in range(1, parts + 1):
            setattr(self, f'dropout{k}', Dropout(dropout))
        self.activation = _activation(activation)

    def _gt_attended(self, x, mask, padding, is_causal):
        return self.dropout1(self.self_attn(x, x, x, padding, False, mask, is_causal=is_causal)[0])

    def _gt_fed_forward(self, x, dropout):
        return dropout(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerEncoderLayer(_Layer):
    """Self-attention and a two-layer network, each with a residual connection and normalisation (first if norm_first).

    >>> nn.TransformerEncoderLayer(64, 8, batch_first=True)(gt.randn(2, 10, 64)).shape
    (2, 10, 64)
    """

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=F.relu, layer_norm_eps=1e-5,
                 batch_first=False, norm_first=False, bias=True, device=None, dtype=None):
        super().__init__()
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, dtype=dtype)
        self._gt_add_network(d_model, dim_feedforward, dropout, activation, layer_norm_eps, norm_first, bias, dtype, 2)
        self.activation_relu_or_gelu = {F.relu: 1, F.gelu: 2}.get(self.activation, 0)

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        """The encoded sequence. is_causal says that src_mask is the causal one."""
        masks = src_mask, src_key_padding_mask, is_causal
        if self.norm_first:
            src = src + self._gt_attended(self.norm1(src), *masks)
            return src + self._gt_fed_forward(self.norm2(src), self.dropout2)
        src = self.norm1(src + self._gt_attended(src, *masks))
        return self.norm2(src + self._gt_fed_forward(src, self.dropout2))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the memory and a two-layer network, each with a residual connection.

    >>> nn.TransformerDecoderLayer(64, 8)(gt.randn(20, 2, 64), gt.randn(10, 2, 64)).shape
    (20, 2, 64)
    """

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=F.relu, layer_norm_eps=1e-5,
                 batch_first=False, norm_first=False, bias=True, device=None, dtype=None):
        super().__init__()
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, dtype=dtype)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, dtype=dtype)
        self._gt_add_network(d_model, dim_feedforward, dropout, activation, layer_norm_eps, norm_first, bias, dtype, 3)

    def _gt_remembered(self, x, memory, mask, padding, is_causal):
        return self.dropout2(self.multihead_attn(x, memory, memory, padding, False, mask, is_causal=is_causal)[0])

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
                memory_key_padding_mask=None, tgt_is_causal=False, memory_is_causal=False):
        """The decoded sequence."""
        own = tgt_mask, tgt_key_padding_mask, tgt_is_causal
        theirs = memory, memory_mask, memory_key_padding_mask, memory_is_causal
        if self.norm_first:
            tgt = tgt + self._gt_attended(self.norm1(tgt), *own)
            tgt = tgt + self._gt_remembered(self.norm2(tgt), *theirs)
            return tgt + self._gt_fed_forward(self.norm3(tgt), self.dropout3)
        tgt = self.norm1(tgt + self._gt_attended(tgt, *own))
        tgt = self.norm2(tgt + self._gt_remembered(tgt, *theirs))
        return self.norm3(tgt + self._gt_fed_forward(tgt, self.dropout3))


def _copies(layer, count):
    return ModuleList([copy.deepcopy(layer) for _ in range(count)])


class TransformerEncoder(Module):
    """Copies of an encoder layer, one after the other, and a last normalisation."""

    def __init__(self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True):
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        """The encoded sequence. is_causal: whether the mask is the causal one; None: find out."""
        padding = canonical_mask(src_key_padding_mask, 'src_key_padding_mask', None if mask is None else mask.dtype, 'mask',
                                 src.dtype)
        mask = canonical_mask(mask, 'mask', None, '', src.dtype, False)
        causal = mask is not None and bool(is_causal)
        for layer in self.layers:
            src = layer(src, src_mask=mask, is_causal=causal, src_key_padding_mask=padding)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """Copies of a decoder layer, one after the other, and a last normalisation."""

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
                memory_key_padding_mask=None, tgt_is_causal=None, memory_is_causal=False):
        """The decoded sequence. tgt_is_causal: whether tgt_mask is the causal one; None: find out."""
        causal = tgt_mask is not None and bool(tgt_is_causal)
        for layer in self.layers:
            tgt = layer(tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                        tgt_key_padding_mask=tgt_key_padding_mask, memory_key_padding_mask=memory_key_padding_mask,
                        tgt_is_causal=causal, memory_is_causal=memory_is_causal)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder, and a decoder that attends to what it gives.

    >>> nn.Transformer(64, 8)(gt.randn(10, 2, 64), gt.randn(20, 2, 64)).shape
    (20, 2, 64)
    """

    def __init__(self, d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6, dim_feedforward=2048, dropout=0.1,
                 activation=F.relu, custom_encoder=None, custom_decoder=None, layer_norm_eps=1e-5, batch_first=False,
                 norm_first=False, bias=True, device=None, dtype=None):
        super().__init__()
        options = d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias

        def last():
            return LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)
        self.encoder = custom_encoder if custom_encoder is not None else TransformerEncoder(
            TransformerEncoderLayer(*options, dtype=dtype), num_encoder_layers, last())
        self.decoder = custom_decoder if custom_decoder is not None else TransformerDecoder(
            TransformerDecoderLayer(*options, dtype=dtype), num_decoder_layers, last())
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def _reset_parameters(self):
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    @staticmethod
    def generate_square_subsequent_mask(sz, device=None, dtype=None):
        """(sz, sz): minus infinity above the diagonal, else 0."""
        return gt.full((sz, sz), -math.inf, dtype=dtype or gt.float32).triu(1)

    def forward(self, src, tgt, src_mask=None, tgt_mask=None, memory_mask=None, src_key_padding_mask=None,
                tgt_key_padding_mask=None, memory_key_padding_mask=None, src_is_causal=None, tgt_is_causal=None,
                memory_is_causal=False):
        """The decoded tgt, with the encoded src as memory."""
        if src.ndim == 3 and src.shape[0 if self.batch_first else 1] != tgt.shape[0 if self.batch_first else 1]:
            raise RuntimeError('the batch number of src and tgt must be equal')
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError('the feature number of src and tgt must be equal to d_model')
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                            tgt_key_padding_mask=tgt_key_padding_mask, memory_key_padding_mask=memory_key_padding_mask,
                            tgt_is_causal=tgt_is_causal, memory_is_causal=memory_is_causal)
