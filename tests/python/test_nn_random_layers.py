"""Layers that draw random numbers: the numbers are GT's own, so shapes, supports and statistics are compared with PyTorch's."""

import math

import numpy as np
import pytest

import gt
from gt import nn

F = nn.functional


def test_rrelu():
    x = gt.full((100, 100), -1.0, requires_grad=True)
    y = F.rrelu(x, 0.1, 0.5, training=True)
    slopes = -y.detach().numpy()
    assert slopes.min() >= 0.1 and slopes.max() <= 0.5 and abs(slopes.mean() - 0.3) < 0.01
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), slopes, rtol=1e-6)
    assert (nn.RReLU().eval()(gt.tensor([-1.0, 2.0])).numpy() == np.float32([-(1 / 8 + 1 / 3) / 2, 2])).all()
    inplace = gt.tensor([-1.0, 2.0])
    assert nn.RReLU(0.2, 0.2, inplace=True)(inplace) is inplace and abs(inplace[0].item() + 0.2) < 1e-6


@pytest.mark.parametrize('p', [0.1, 0.5])
def test_alpha_dropout(p):
    x = gt.randn(400, 500)
    y = F.alpha_dropout(x, p, training=True).numpy()
    assert abs(y.mean()) < 0.03 and abs(y.std() - 1) < 0.03
    values, counts = np.unique(y.round(4), return_counts=True)
    assert abs(counts.max() / y.size - p) < 0.02  # the dropped ones all have one value
    assert values[counts.argmax()] < -0.5
    assert F.alpha_dropout(x, p) is x
    assert F.alpha_dropout(x, 1.0, training=True).abs().sum().item() == 0


def test_feature_alpha_dropout():
    y = F.feature_alpha_dropout(gt.ones(50, 40, 3, 2), 0.3, training=True).numpy()
    assert (y == y[:, :, :1, :1]).all() and len(np.unique(y.round(5))) == 2
    assert nn.FeatureAlphaDropout(0.3).eval()(gt.ones(2, 2)).sum().item() == 4


@pytest.mark.parametrize('name, shape', [('Dropout', (60, 70)), ('Dropout1d', (60, 70, 3)), ('Dropout2d', (60, 70, 3, 2)), ('Dropout3d', (60, 70, 2, 2, 2))])
def test_dropout(name, shape):
    layer, x = getattr(nn, name)(0.25), gt.ones(shape, requires_grad=True)
    y = layer(x)
    values = y.detach().numpy().reshape(60, 70, -1)
    assert set(np.unique(values.round(5))) == {0.0, np.float32(1 / 0.75).round(5)} and abs((values == 0).mean() - 0.25) < 0.04
    assert (values == values[:, :, :1]).all()
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), y.detach().numpy())
    assert layer.eval()(x) is x


def test_fractional_pooling_draws_its_places():
    x = gt.arange(100.0).reshape(1, 1, 10, 10)
    y = nn.FractionalMaxPool2d(2, output_size=4)(x).numpy()
    assert y.shape == (1, 1, 4, 4) and (np.diff(y, axis=2) > 0).all() and (np.diff(y, axis=3) > 0).all() and y.max() == 99


def test_gumbel_softmax():
    logits = gt.tensor([[1.0, 2.0, 3.0]]).expand(3000, 3)
    hard = F.gumbel_softmax(logits, hard=True).numpy()
    assert (hard.sum(1).round(5) == 1).all()
    expected = np.exp([1, 2, 3]) / np.exp([1, 2, 3]).sum()
    np.testing.assert_allclose(hard.mean(0), expected, atol=0.05)
    assert math.isclose(F.gumbel_softmax(logits, tau=0.5).sum().item(), 3000, rel_tol=1e-4)
