"""Layers against PyTorch: from the same weights the same outputs, and the same gradients."""

import numpy as np
import pytest
import torch

import gt
from gt import nn
from nn_support import close, compare_functions, compare_modules, numbers


# ---- layers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize('bias', [True, False])
@pytest.mark.parametrize('shape', [(6,), (4, 6), (2, 3, 6)])
def test_linear(shape, bias):
    compare_modules(nn.Linear(6, 5, bias), torch.nn.Linear(6, 5, bias), numbers(*shape))


@pytest.mark.parametrize('shape', [(), (4,), (2, 3)])
def test_bilinear(shape):
    compare_modules(nn.Bilinear(3, 4, 5), torch.nn.Bilinear(3, 4, 5), numbers(*shape, 3),
                    numbers(*shape, 4, seed=1))


@pytest.mark.parametrize('padding', [None, 2, -1])
def test_embedding(padding):
    ours, theirs = nn.Embedding(5, 3, padding), torch.nn.Embedding(5, 3, padding)
    assert padding is None or ours.weight[padding].tolist() == [0, 0, 0]
    ours.load_state_dict(theirs.state_dict())
    indices = np.array([[0, 2, 2], [4, 1, 0]])
    out, expected = ours(gt.tensor(indices)), theirs(torch.tensor(indices))
    close(out, expected)
    out.square().sum().backward()
    expected.square().sum().backward()
    close(ours.weight.grad, theirs.weight.grad)
    assert nn.Embedding.from_pretrained(gt.eye(3)).weight.requires_grad is False


@pytest.mark.parametrize('build, shape', [
    (lambda m: m.LayerNorm(6), (4, 6)),
    (lambda m: m.LayerNorm((3, 6), eps=1e-2), (2, 3, 6)),
    (lambda m: m.LayerNorm(6, elementwise_affine=False), (4, 6)),
    (lambda m: m.LayerNorm(6, bias=False), (4, 6)),
    (lambda m: m.RMSNorm(6), (4, 6)),
    (lambda m: m.RMSNorm((3, 6), eps=1e-3), (2, 3, 6)),
    (lambda m: m.GroupNorm(2, 4), (3, 4, 5)),
    (lambda m: m.GroupNorm(4, 4, affine=False), (3, 4, 2, 3)),
    (lambda m: m.BatchNorm1d(4), (5, 4)),
    (lambda m: m.BatchNorm1d(4, momentum=None), (5, 4, 3)),
    (lambda m: m.BatchNorm2d(3, eps=1e-3, momentum=0.3), (4, 3, 2, 2)),
    (lambda m: m.BatchNorm2d(3, affine=False, track_running_stats=False), (4, 3, 2, 2)),
])
def test_normalisation(build, shape):
    mine, other = build(nn), build(torch.nn)
    for step in range(3):  # batch normalisation has running values
        mine.zero_grad()
        other.zero_grad()
        compare_modules(mine, other, numbers(*shape, seed=step) + 1, rtol=1e-3, atol=1e-4)
    mine.zero_grad()
    other.zero_grad()
    compare_modules(mine.eval(), other.eval(), numbers(*shape, seed=7), rtol=1e-3, atol=1e-4)


def test_normalisation_refuses_wrong_shapes():
    with pytest.raises(RuntimeError, match='normalized_shape'):
        nn.LayerNorm(5)(gt.ones(2, 6))
    with pytest.raises(ValueError, match='divisible'):
        nn.GroupNorm(2, 3)
    with pytest.raises(ValueError, match='expected 4D'):
        nn.BatchNorm2d(3)(gt.ones(2, 3))
    with pytest.raises(ValueError, match='more than 1 value per channel'):
        nn.BatchNorm1d(3)(gt.ones(1, 3))
    norm = nn.BatchNorm1d(2)
    norm(gt.randn(4, 2))
    norm.reset_parameters()
    assert norm.running_mean.tolist() == [0, 0] and norm.num_batches_tracked.item() == 0


def test_dropout_drops_scales_and_is_seeded():
    layer, x = nn.Dropout(0.25), gt.ones(100, 100, requires_grad=True)
    gt.manual_seed(3)
    y = layer(x)
    y.sum().backward()
    values = y.detach().numpy()
    assert set(np.unique(values)) == {0, np.float32(1 / 0.75)} and abs((values == 0).mean() - 0.25) < 0.02
    np.testing.assert_array_equal(x.grad.numpy(), values)
    gt.manual_seed(3)
    np.testing.assert_array_equal(layer(x).detach().numpy(), values)
    assert layer.eval()(x) is x
    assert nn.functional.dropout(gt.ones(4), 1.0).tolist() == [0] * 4
    assert nn.Dropout(0.5)(gt.ones(4, dtype=gt.bfloat16)).dtype == gt.bfloat16
    with pytest.raises(ValueError, match='between 0 and 1'):
        nn.Dropout(1.5)


def test_layers_that_reshape():
    assert nn.Flatten()(gt.ones(2, 3, 4)).shape == (2, 12)
    assert nn.Flatten(0, 1)(gt.ones(2, 3, 4)).shape == (6, 4)
    assert nn.Unflatten(1, (2, 3))(gt.ones(4, 6)).shape == (4, 2, 3)
    assert nn.Unflatten(-1, (-1, 3))(gt.ones(4, 6)).shape == (4, 2, 3)
    x = gt.ones(2)
    assert nn.Identity('anything', at=1)(x) is x


@pytest.mark.parametrize('name', ['RNNCell', 'LSTMCell', 'GRUCell'])
@pytest.mark.parametrize('options', [{}, {'bias': False}])
def test_recurrent_cells(name, options):
    ours, theirs = getattr(nn, name)(4, 5, **options), getattr(torch.nn, name)(4, 5, **options)
    ours.load_state_dict(theirs.state_dict())
    states = [numbers(3, 5, seed=k) for k in range(2 if name == 'LSTMCell' else 1)]

    def with_states(cell):
        return lambda x, *hidden: cell(x, tuple(hidden) if name == 'LSTMCell' else hidden[0])

    compare_functions(with_states(ours), with_states(theirs), numbers(3, 4), *states)
    theirs.zero_grad()
    compare_modules(getattr(nn, name)(4, 5, **options), theirs, numbers(3, 4))
    assert (ours(gt.ones(4))[0] if name == 'LSTMCell' else ours(gt.ones(4))).shape == (5,)


def test_rnn_with_relu():
    ours, theirs = (m.nn.RNNCell(4, 5, nonlinearity='relu') for m in (gt, torch))
    compare_modules(ours, theirs, numbers(3, 4))
    with pytest.raises(ValueError, match='nonlinearity'):
        nn.RNNCell(4, 5, nonlinearity='sin')


# ---- attention -------------------------------------------------------------------------------------------------

CAUSAL = np.triu(np.ones((5, 5), bool), 1)
PADDING = np.array([[False, False, False, True, True], [False, False, False, False, True]])


@pytest.mark.parametrize('options', [
    {}, {'is_causal': True}, {'scale': 0.3}, {'mask': ~CAUSAL}, {'mask': numbers(5, 5)},
    {'mask': numbers(2, 1, 5, 5)},
])
def test_scaled_dot_product_attention(options):
    options = dict(options)
    mask = options.pop('mask', None)

    def attention(module):
        extra = {} if mask is None else {'attn_mask': module.tensor(mask)}
        return lambda q, k, v: module.nn.functional.scaled_dot_product_attention(q, k, v, **extra, **options)

    compare_functions(attention(gt), attention(torch), *[numbers(2, 3, 5, 4, seed=k) for k in range(3)])


def test_grouped_queries():
    def attention(module):
        return lambda q, k, v: module.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    compare_functions(attention(gt), attention(torch), numbers(2, 4, 5, 3), numbers(2, 2, 6, 3, seed=1),
                      numbers(2, 2, 6, 3, seed=2))


@pytest.mark.parametrize('batch_first', [True, False])
@pytest.mark.parametrize('call', [
    {}, {'need_weights': False}, {'average_attn_weights': False}, {'attn_mask': CAUSAL},
    {'attn_mask': numbers(5, 5)}, {'key_padding_mask': PADDING},
    {'attn_mask': CAUSAL, 'key_padding_mask': PADDING, 'need_weights': False},
    {'attn_mask': numbers(4, 5, 5)},
])
def test_multihead_attention_of_itself(batch_first, call):
    ours, theirs = (m.nn.MultiheadAttention(6, 2, batch_first=batch_first) for m in (gt, torch))
    ours.load_state_dict(theirs.state_dict())

    def attend(module, layer):
        options = {k: module.tensor(v) if isinstance(v, np.ndarray) else v for k, v in call.items()}
        return lambda x: layer(x, x, x, **options)

    x = numbers(2, 5, 6) if batch_first else numbers(5, 2, 6)
    compare_functions(attend(gt, ours), attend(torch, theirs), x)
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        close(one.grad, other.grad)


@pytest.mark.parametrize('options, sizes', [
    ({}, (6, 6)), ({'kdim': 3, 'vdim': 4}, (3, 4)), ({'bias': False}, (6, 6))])
def test_multihead_attention_of_others(options, sizes):
    ours, theirs = (m.nn.MultiheadAttention(6, 3, batch_first=True, **options) for m in (gt, torch))
    compare_modules(ours, theirs, numbers(2, 5, 6), numbers(2, 4, sizes[0], seed=1),
                    numbers(2, 4, sizes[1], seed=2))
    compare_functions(ours, theirs, numbers(5, 6), numbers(4, sizes[0], seed=1), numbers(4, sizes[1], seed=2))


@pytest.mark.parametrize('options', [{}, {'norm_first': True, 'activation': 'gelu'}, {'bias': False}])
def test_transformer_encoder_layer(options):
    ours, theirs = (m.nn.TransformerEncoderLayer(6, 2, 12, 0.0, batch_first=True, **options) for m in (gt, torch))
    compare_modules(ours, theirs, numbers(2, 5, 6), rtol=1e-3, atol=1e-4)
    ours.eval()
    theirs.train()  # PyTorch uses a fast path in evaluation mode
    mask, padding = torch.tensor(CAUSAL), torch.tensor(PADDING)
    close(ours(gt.tensor(numbers(2, 5, 6)), gt.tensor(CAUSAL), gt.tensor(PADDING)),
          theirs(torch.tensor(numbers(2, 5, 6)), mask, padding), rtol=1e-3, atol=1e-4)


def test_transformer_encoder():
    ours, theirs = (m.nn.TransformerEncoder(m.nn.TransformerEncoderLayer(6, 2, 12, 0.0, batch_first=True), 2,
                                            m.nn.LayerNorm(6)) for m in (gt, torch))
    compare_modules(ours, theirs, numbers(2, 5, 6), rtol=1e-3, atol=1e-4)


def test_dropout_in_attention_is_for_training():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5)
    x = gt.randn(3, 2, 8)
    assert not layer(x).equal(layer(x))
    layer.eval()
    assert layer(x).equal(layer(x))
