"""nn.init: values where they are certain, else shape, bounds and statistics; errors as PyTorch's."""

import math

import numpy as np
import pytest
import torch

import gt
from gt import nn

CERTAIN = [('constant_', (0.3,), (3, 4)), ('ones_', (), (3,)), ('zeros_', (), (2, 2)), ('eye_', (), (3, 4)), ('dirac_', (), (4, 3, 5)),
           ('dirac_', (2,), (4, 3, 3, 4)), ('dirac_', (), (2, 3, 3, 2, 3))]


@pytest.mark.parametrize('name, args, shape', CERTAIN)
def test_certain_values(name, args, shape):
    ours, theirs = gt.ones(shape, requires_grad=True), torch.ones(shape, requires_grad=True)
    assert getattr(nn.init, name)(ours, *args) is ours
    getattr(torch.nn.init, name)(theirs, *args)
    np.testing.assert_array_equal(ours.detach().numpy(), theirs.detach().numpy())
    assert ours.requires_grad and ours.is_leaf


RANDOM = [('uniform_', (-1, 3)), ('normal_', (1, 2)), ('trunc_normal_', (0.5, 1.0, -1.0, 1.5)), ('xavier_uniform_', (2.0,)),
          ('xavier_normal_', ()), ('kaiming_uniform_', (0.1, 'fan_out')), ('kaiming_normal_', (0, 'fan_in', 'relu')), ('sparse_', (0.3, 0.5))]


@pytest.mark.parametrize('name, args', RANDOM)
def test_random_values(name, args):
    gt.manual_seed(1)
    torch.manual_seed(1)
    ours, theirs = gt.ones(200, 300), torch.ones(200, 300)
    getattr(nn.init, name)(ours, *args)
    getattr(torch.nn.init, name)(theirs, *args)
    mine, other = ours.numpy(), theirs.numpy()
    assert abs(mine.mean() - other.mean()) < 0.03 * (1 + other.std()) and abs(mine.std() - other.std()) < 0.03 * other.std()
    assert abs(mine.max() - other.max()) < 0.25 * abs(other.max())
    if name == 'sparse_':
        assert ((mine == 0).sum(0) == math.ceil(0.3 * 200)).all()


@pytest.mark.parametrize('shape', [(4, 7), (7, 4), (5, 2, 3)])
def test_orthogonal(shape):
    value = nn.init.orthogonal_(gt.empty(*shape), gain=2).numpy().reshape(shape[0], -1)
    product = value @ value.T if shape[0] < value.shape[1] else value.T @ value
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-5)


BAD = ['init.eye_(T.ones(3))', 'init.dirac_(T.ones(3, 3))', 'init.dirac_(T.ones(3, 3, 3), 2)', 'init.sparse_(T.ones(3), 0.1)',
       'init.xavier_uniform_(T.ones(3))', 'init.kaiming_normal_(T.ones(3, 3), mode="x")', 'init.orthogonal_(T.ones(3))',
       'init.calculate_gain("x")', 'init.calculate_gain("leaky_relu", "x")', 'init.calculate_gain("leaky_relu", True)']


@pytest.mark.parametrize('expression', BAD)
def test_error(expression):
    found = []
    for library in (torch, gt):
        with pytest.raises(Exception) as error:
            eval(expression, {'init': library.nn.init, 'T': library})
        found.append((error.type, str(error.value)))
    assert found[1] == found[0]


def test_gains_and_old_names():
    for name in ('linear', 'conv2d', 'conv_transpose3d', 'sigmoid', 'tanh', 'relu', 'selu', 'leaky_relu'):
        assert nn.init.calculate_gain(name) == torch.nn.init.calculate_gain(name)
    assert nn.init.calculate_gain('leaky_relu', 0.3) == torch.nn.init.calculate_gain('leaky_relu', 0.3)
    with pytest.warns(FutureWarning, match='now deprecated in favor of `nn.init.xavier_uniform_`'):
        nn.init.xavier_uniform(gt.ones(2, 2))
    with pytest.warns(UserWarning, match='zero-element'):
        nn.init.kaiming_uniform_(gt.ones(0, 2))
    assert nn.init._calculate_fan_in_and_fan_out(gt.ones(3, 4, 2)) == torch.nn.init._calculate_fan_in_and_fan_out(torch.ones(3, 4, 2))
