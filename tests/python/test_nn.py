"""Module, containers and state against PyTorch: the same names, order, errors and text."""

import copy
import pickle
from collections import OrderedDict

import pytest
import torch

import gt
from gt import nn
from nn_support import as_torch, close, numbers


def mlp(module):
    return module.nn.Sequential(module.nn.Linear(6, 8), module.nn.Tanh(), module.nn.Linear(8, 3))


# ---- Module ----------------------------------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(gt.ones(2))
        self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2, bias=False)])
        self.register_buffer('offset', gt.zeros(2))
        self.register_buffer('scratch', gt.zeros(2), persistent=False)
        self.heads = nn.ModuleDict({'a': nn.Linear(2, 1), 'b': nn.Dropout(0.1)})
        self.tied = self.layers[0]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.heads['a'](x * self.scale + self.offset)


def test_what_a_module_finds():
    net = Net()
    names = ['scale', 'layers.0.weight', 'layers.0.bias', 'layers.1.weight', 'heads.a.weight', 'heads.a.bias']
    assert [name for name, _ in net.named_parameters()] == names
    assert [name for name, _ in net.named_buffers()] == ['offset', 'scratch']
    assert [name for name, _ in net.named_children()] == ['layers', 'heads', 'tied']
    assert [name for name, _ in net.named_modules()] == [
        '', 'layers', 'layers.0', 'layers.1', 'heads', 'heads.a', 'heads.b']
    assert list(net.state_dict()) == [
        'scale', 'offset', 'layers.0.weight', 'layers.0.bias', 'layers.1.weight', 'heads.a.weight', 'heads.a.bias',
        'tied.weight', 'tied.bias']
    assert len(net.parameters()) == 6 and len(net.parameters(recurse=False)) == 1
    assert len(list(net.named_parameters(remove_duplicate=False))) == 8
    assert len(list(net.children())) == 3 and len(list(net.modules())) == 7 and len(list(net.buffers())) == 2
    assert net.get_submodule('heads.a') is net.heads['a']
    with pytest.raises(AttributeError, match='ModuleDict has no attribute `c`'):
        net.get_submodule('heads.c')
    parameters = net.parameters()
    assert next(parameters) is net.scale and next(parameters) is net.layers[0].weight


def test_train_eval_apply_and_gradients():
    net = Net()
    assert all(module.training for module in net.modules())
    assert net.eval() is net and not net.heads['b'].training and net.train().heads['b'].training
    visited = []
    net.apply(lambda module: visited.append(type(module).__name__))
    assert visited[-1] == 'Net' and visited.count('Linear') == 4
    net(gt.ones(3, 2)).sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    net.zero_grad(set_to_none=False)
    assert net.scale.grad.tolist() == [0, 0]
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    net.requires_grad_(False)
    assert not net(gt.ones(3, 2)).requires_grad
    net.requires_grad_()
    assert net(gt.ones(3, 2)).requires_grad


def test_parameters_are_guarded():
    net = Net()
    with pytest.raises(TypeError, match="cannot assign 'gt.FloatTensor' as parameter 'scale'"):
        net.scale = gt.ones(2)
    net.scale = None
    assert 'scale' not in dict(net.named_parameters())
    net.register_parameter('extra', nn.Parameter(gt.ones(1)))
    assert 'extra' in dict(net.named_parameters())
    for wrong in ('forward', 'a.b', ''):
        with pytest.raises(KeyError):
            net.register_parameter(wrong, None)
    with pytest.raises(TypeError, match='buffer'):
        net.register_buffer('more', [1, 2])
    with pytest.raises(TypeError, match='not a Module'):
        net.add_module('child', 3)
    with pytest.raises(NotImplementedError, match='forward'):
        nn.Module()(1)


def test_parameter_is_a_tensor():
    source = gt.ones(2, requires_grad=True) * 2
    parameter = nn.Parameter(source)
    assert isinstance(parameter, gt.Tensor) and parameter.is_leaf and parameter.requires_grad
    assert type(parameter + 1) is gt.Tensor and type(parameter.data) is gt.Tensor
    assert repr(parameter) == 'Parameter containing:\ntensor([2., 2.], requires_grad=True)'
    for twin in (copy.deepcopy(parameter), copy.copy(parameter), pickle.loads(pickle.dumps(parameter))):
        assert type(twin) is nn.Parameter and twin is not parameter
        assert twin.tolist() == [2, 2] and twin.requires_grad
    with gt.no_grad():
        parameter += 1
    assert twin.tolist() == [2, 2] and parameter.tolist() == [3, 3] and type(parameter) is nn.Parameter
    assert not nn.Parameter(gt.ones(2), requires_grad=False).requires_grad


def test_modules_copy_and_pickle():
    net = Net()
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert twin.tied is twin.layers[0] and twin.scale is not net.scale
        for (name, ours), (other, theirs) in zip(net.state_dict().items(), twin.state_dict().items(), strict=True):
            assert name == other and ours.equal(theirs)
        with gt.no_grad():
            twin.scale += 1
        assert net.scale.tolist() == [1, 1]


def test_conversion():
    net = Net().double()
    assert all(p.dtype == gt.float64 for p in (*net.parameters(), *net.buffers()))
    net(gt.ones(1, 2, dtype=gt.float64)).sum().backward()
    assert net.scale.grad.dtype == gt.float64
    assert net.to('cpu', gt.float32).scale.grad.dtype == gt.float32
    assert net.to(device='cuda') is net and net.cuda().cpu().scale.dtype == gt.float32
    assert net.half().scale.dtype == gt.float16 and net.bfloat16().scale.dtype == gt.bfloat16
    assert net.to(gt.ones(1)).float().scale.dtype == gt.float32
    net(gt.ones(1, 2)).sum().backward()


def test_a_list_of_parameters_by_hand():
    class Listed(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1 = nn.Linear(4, 3)
            self.fc2 = nn.Linear(3, 1)
            self._parameters = self.fc1.parameters() + self.fc2.parameters()

        def forward(self, x):
            return self.fc2(self.fc1(x).relu())

    class Bare(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = gt.ones(2, requires_grad=True)
            self._parameters.append(self.w)
            self._parameters.append(gt.zeros(3, requires_grad=True))

    listed = Listed()
    assert [name for name, _ in listed.named_parameters()] == ['fc1.weight', 'fc1.bias', 'fc2.weight', 'fc2.bias']
    nn.mse_loss(listed(gt.randn(5, 4)), gt.zeros(5, 1)).backward()
    for parameter in listed.parameters():
        parameter.data -= 0.1 * parameter.grad.data
    bare = nn.Sequential(Bare())
    assert [p.shape for p in bare.parameters()] == [(2,), (3,)]
    assert list(bare.state_dict()) == ['0.w', '0._parameters.1']
    bare.load_state_dict({'0.w': gt.zeros(2), '0._parameters.1': gt.ones(3)})
    assert bare[0].w.tolist() == [0, 0] and bare[0].w.requires_grad


# ---- state -----------------------------------------------------------------------------------------------------


def test_state_moves_both_ways():
    ours, theirs = mlp(gt), mlp(torch)
    assert repr(ours.load_state_dict(theirs.state_dict())) == '<All keys matched successfully>'
    x = numbers(4, 6)
    close(ours(gt.tensor(x)), theirs(torch.tensor(x)))
    fresh = mlp(torch)
    fresh.load_state_dict(as_torch(ours.state_dict()))
    close(ours(gt.tensor(x)), fresh(torch.tensor(x)))
    again = mlp(gt)
    again.load_state_dict({name: value.numpy() for name, value in theirs.state_dict().items()})
    close(again(gt.tensor(x)), theirs(torch.tensor(x)))
    again.load_state_dict(dict(theirs.named_parameters()))
    assert again[0].weight.requires_grad and not again.state_dict()['0.weight'].requires_grad
    assert again.state_dict(keep_vars=True)['0.weight'] is again[0].weight
    assert list(again.state_dict(prefix='net.'))[0] == 'net.0.weight'
    half = mlp(gt)
    half.load_state_dict(theirs.bfloat16().state_dict())
    assert half[0].weight.dtype == gt.float32


@pytest.mark.parametrize('change', [
    lambda state: state.pop('0.weight'), lambda state: state.update(more=torch.ones(1)),
    lambda state: (state.pop('2.bias'), state.pop('0.bias'), state.update(a=torch.ones(1), b=torch.ones(1))),
])
def test_state_errors_as_in_torch(change):
    ours, theirs = mlp(gt), mlp(torch)
    state = theirs.state_dict()
    change(state)
    with pytest.raises(RuntimeError) as expected:
        theirs.load_state_dict(state)
    with pytest.raises(RuntimeError) as error:
        ours.load_state_dict(state)
    assert str(error.value) == str(expected.value)
    keys, expected_keys = ours.load_state_dict(state, strict=False), theirs.load_state_dict(state, strict=False)
    assert (keys.missing_keys, keys.unexpected_keys) == (expected_keys.missing_keys, expected_keys.unexpected_keys)
    assert repr(keys) == repr(expected_keys)


def test_state_of_another_shape():
    with pytest.raises(RuntimeError, match=r'size mismatch for 0.weight: copying a param with shape gt.Size\(\[3, 6\]\) from '
                                           r'checkpoint, the shape in current model is gt.Size\(\[8, 6\]\)'):
        mlp(gt).load_state_dict({**mlp(gt).state_dict(), '0.weight': gt.ones(3, 6)})


# ---- containers and text ---------------------------------------------------------------------------------------


def test_sequential_is_a_list():
    model = nn.Sequential(OrderedDict(first=nn.Linear(2, 3), then=nn.ReLU()))
    assert model.first is model[0] and len(model) == 2 and model[-1] is model.then
    assert isinstance(model[:1], nn.Sequential) and model[:1].first is model.first
    model.append(nn.Linear(3, 1))
    assert model(gt.ones(1, 2)).shape == (1, 1)
    assert [type(m).__name__ for m in model] == ['Linear', 'ReLU', 'Linear']
    model[1] = nn.Tanh()
    assert isinstance(model.then, nn.Tanh)
    del model[1]
    assert list(dict(model.named_children())) == ['0', '1'] and model(gt.ones(1, 2)).shape == (1, 1)


def test_module_list_and_dict():
    layers = nn.ModuleList([nn.Linear(1, 1)])
    layers.extend([nn.ReLU(), nn.Tanh()]).insert(0, nn.Sigmoid())
    assert [type(m).__name__ for m in layers] == ['Sigmoid', 'Linear', 'ReLU', 'Tanh'] and len(layers[1:3]) == 2
    assert isinstance(layers.pop(0), nn.Sigmoid)
    assert list(dict(layers.named_parameters())) == ['0.weight', '0.bias']
    table = nn.ModuleDict([('a', nn.ReLU())])
    table['b'] = nn.Tanh()
    table['a'] = nn.Sigmoid()
    assert list(table) == ['a', 'b'] and 'b' in table and len(table) == 2 and isinstance(table['a'], nn.Sigmoid)
    assert list(table.keys()) == ['a', 'b'] and len(table.values()) == 2 and dict(table.items())['b'] is table['b']
    assert isinstance(table.pop('b'), nn.Tanh)
    table.clear()
    assert len(table) == 0
    with pytest.raises(KeyError, match='exists'):
        table['keys'] = nn.ReLU()


@pytest.mark.parametrize('build', [
    lambda m: m.Sequential(m.Linear(2, 3), m.ReLU(), m.Sequential(m.Dropout(0.2), m.Linear(3, 1, bias=False))),
    lambda m: m.Sequential(), lambda m: m.ModuleList(), lambda m: m.ModuleList([m.Linear(2, 2) for _ in range(3)]),
    lambda m: m.ModuleList([m.Sequential(m.ReLU()), m.Sequential(m.ReLU()), m.Tanh()]),
    lambda m: m.ModuleDict({'a': m.ReLU(inplace=True), 'b': m.LeakyReLU(0.2)}),
    lambda m: m.Embedding(5, 3, padding_idx=1), lambda m: m.Bilinear(2, 3, 4), lambda m: m.LayerNorm((2, 3)),
    lambda m: m.RMSNorm(3), lambda m: m.GroupNorm(2, 4), lambda m: m.BatchNorm1d(3), lambda m: m.BatchNorm2d(3),
    lambda m: m.Flatten(), lambda m: m.Unflatten(1, (2, 3)), lambda m: m.Identity(), lambda m: m.GELU('tanh'),
    lambda m: m.Softmax(dim=1), lambda m: m.LSTMCell(2, 3), lambda m: m.RNNCell(2, 3, nonlinearity='relu'),
    lambda m: m.GRUCell(2, 3, bias=False), lambda m: m.PReLU(), lambda m: m.Softplus(),
    lambda m: m.CrossEntropyLoss(), lambda m: m.Hardtanh(), lambda m: m.ELU(0.5), lambda m: m.GLU(),
    lambda m: m.SiLU(),
])
def test_text_as_in_torch(build):
    assert repr(build(nn)) == repr(build(torch.nn))


def test_the_prototypes_names():
    from gt.client import nn as old
    for name in ('Module', 'Linear', 'SGD', 'mse_loss', 'cross_entropy_loss', 'binary_cross_entropy', 'relu',
                 'sigmoid', 'tanh', 'functional', 'init'):
        assert getattr(old, name) is getattr(nn, name)
    assert nn.relu(gt.tensor([-1.0, 1.0])).tolist() == [0, 1] and gt.nn is nn
