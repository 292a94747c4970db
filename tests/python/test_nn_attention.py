"""Attention with every kind of mask and option, and the transformer's masks, against PyTorch."""

import copy

import numpy as np
import pytest
import torch

import gt
from gt import nn
from nn_support import close, compare_functions, numbers

L, S, N, E, H = 4, 5, 3, 8, 2
MASKS = {
    'none': {}, 'bool 2D': dict(attn_mask=numbers(L, S) > 1), 'float 2D': dict(attn_mask=numbers(L, S)),
    'bool 3D': dict(attn_mask=numbers(N * H, L, S) > 1), 'float 3D': dict(attn_mask=numbers(N * H, L, S)),
    'padding': dict(key_padding_mask=numbers(N, S) > 1), 'float padding': dict(key_padding_mask=numbers(N, S)),
    'both': dict(attn_mask=numbers(L, S) > 1.5, key_padding_mask=numbers(N, S, seed=2) > 1.5)}


def given(library, masks):
    return {name: library.tensor(value) for name, value in masks.items()}


@pytest.mark.parametrize('mask', MASKS)
@pytest.mark.parametrize('options', [{}, dict(need_weights=False), dict(average_attn_weights=False)], ids=str)
@pytest.mark.parametrize('built', [{}, dict(add_bias_kv=True, batch_first=True), dict(add_zero_attn=True, kdim=6, vdim=3)], ids=str)
def test_masks(mask, options, built):
    theirs, ours = torch.nn.MultiheadAttention(E, H, **built), nn.MultiheadAttention(E, H, **built)
    ours.load_state_dict(theirs.state_dict())
    lead = (lambda length: (N, length)) if built.get('batch_first') else (lambda length: (length, N))
    arrays = [numbers(*lead(L), E), numbers(*lead(S), built.get('kdim', E), seed=1), numbers(*lead(S), built.get('vdim', E), seed=2)]
    compare_functions(lambda *x: ours(*x, **options, **given(gt, MASKS[mask])),
                      lambda *x: theirs(*x, **options, **given(torch, MASKS[mask])), *arrays)
    for (name, mine), (_, other) in zip(ours.named_parameters(), theirs.named_parameters()):
        close(mine.grad, other.grad)


@pytest.mark.parametrize('mask', ['bool 2D', 'unbatched padding', 'unbatched 3D'])
def test_unbatched(mask):
    masks = {'bool 2D': MASKS['bool 2D'], 'unbatched padding': dict(key_padding_mask=np.array([False, False, True, False, True])),
             'unbatched 3D': dict(attn_mask=numbers(H, L, S))}[mask]
    theirs, ours = torch.nn.MultiheadAttention(E, H), nn.MultiheadAttention(E, H)
    ours.load_state_dict(theirs.state_dict())
    compare_functions(lambda *x: ours(*x, **given(gt, masks)), lambda *x: theirs(*x, **given(torch, masks)),
                      numbers(L, E), numbers(S, E, seed=1), numbers(S, E, seed=2))


@pytest.mark.parametrize('options', [{}, dict(need_weights=False), MASKS['float 2D']], ids=['plain', 'no weights', 'mask'])
@pytest.mark.parametrize('separate', [False, True])
def test_the_function(options, separate):
    def of(library):
        weights = dict(zip(('q_proj_weight', 'k_proj_weight', 'v_proj_weight'),
                           (library.tensor(numbers(E, E, seed=seed, scale=0.3)) for seed in (11, 12, 13)))) if separate else {}
        extra = {name: library.tensor(value) if isinstance(value, np.ndarray) else value for name, value in options.items()}

        def run(q, k, v):
            return library.nn.functional.multi_head_attention_forward(
                q, k, v, E, H, None if separate else library.tensor(numbers(3 * E, E, seed=5, scale=0.3)), library.tensor(numbers(3 * E, seed=6)),
                library.tensor(numbers(1, 1, E, seed=7)), library.tensor(numbers(1, 1, E, seed=8)), True, 0.0,
                library.tensor(numbers(E, E, seed=9, scale=0.3)), library.tensor(numbers(E, seed=10)), use_separate_proj_weight=separate,
                **weights, **extra)
        return run
    compare_functions(of(gt), of(torch), numbers(L, N, E), numbers(S, N, E, seed=1), numbers(S, N, E, seed=2))


@pytest.mark.parametrize('batch_first', [False, True])
def test_transformer_masks(batch_first):
    arguments = dict(d_model=E, nhead=H, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=6, dropout=0.0, batch_first=batch_first)
    theirs, ours = torch.nn.Transformer(**arguments), nn.Transformer(**arguments)
    ours.load_state_dict(theirs.state_dict())
    shapes = ((N, L, E), (N, S, E)) if batch_first else ((L, N, E), (S, N, E))

    def of(library, net):
        mask = library.nn.Transformer.generate_square_subsequent_mask
        extra = given(library, dict(src_key_padding_mask=numbers(N, L) > 1, tgt_key_padding_mask=numbers(N, S) > 1,
                                    memory_key_padding_mask=numbers(N, L) > 1, memory_mask=numbers(S, L) > 1.5))
        return lambda src, tgt: net(src, tgt, src_mask=mask(L), tgt_mask=mask(S), tgt_is_causal=True, **extra)
    compare_functions(of(gt, ours), of(torch, theirs), *(numbers(*shape, seed=k) for k, shape in enumerate(shapes)))
    close(nn.Transformer.generate_square_subsequent_mask(4), torch.nn.Transformer.generate_square_subsequent_mask(4))


def test_stacks_of_layers():
    """Layers are copied, and the names in the state are PyTorch's."""
    made = []
    for library in (gt, torch):
        n = library.nn
        encoder = n.TransformerEncoder(n.TransformerEncoderLayer(E, H, 6), 2, n.LayerNorm(E), enable_nested_tensor=False)
        decoder = n.TransformerDecoder(n.TransformerDecoderLayer(E, H, 6), 2, n.LayerNorm(E))
        made.append((repr(encoder), repr(decoder), list(encoder.state_dict()), list(decoder.state_dict())))
        assert encoder.layers[0].linear1.weight is not encoder.layers[1].linear1.weight
    assert made[0] == made[1]
    custom = copy.deepcopy(nn.TransformerEncoder(nn.TransformerEncoderLayer(E, H, 6), 1))
    assert nn.Transformer(E, H, custom_encoder=custom, num_decoder_layers=1).encoder is custom
