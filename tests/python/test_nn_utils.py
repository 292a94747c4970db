"""nn.utils and nn.parallel against PyTorch: packed sequences, parametrisations, pruning, clipping, fusion."""

import copy
import warnings

import numpy as np
import pytest
import torch

import gt
from gt import nn
from nn_support import as_torch, close, numbers

# ---- packed sequences ------------------------------------------------------------------------------------------


@pytest.mark.parametrize('batch_first', [False, True])
@pytest.mark.parametrize('lengths', [[5, 3, 3, 1], [2, 5, 1, 4]])
def test_packing(batch_first, lengths):
    x = numbers(4, 5, 2) if batch_first else numbers(5, 4, 2)
    ordered = lengths == sorted(lengths, reverse=True)
    made = []
    for library in (gt, torch):
        rnn = library.nn.utils.rnn
        leaf = library.tensor(x, requires_grad=True)
        packed = rnn.pack_padded_sequence(leaf, library.tensor(lengths), batch_first, enforce_sorted=ordered)
        padded, found = rnn.pad_packed_sequence(packed, batch_first, padding_value=7.0, total_length=6)
        (padded * padded).sum().backward()
        made.append([packed.data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices, padded, found, leaf.grad])
        unpacked = rnn.unpack_sequence(packed)
        assert [tuple(tensor.shape) for tensor in unpacked] == [(length, 2) for length in lengths]
    close(*made)


@pytest.mark.parametrize('batch_first', [False, True])
@pytest.mark.parametrize('side', ['left', 'right'])
def test_padding(batch_first, side):
    arrays = [numbers(length, 2, seed=length) for length in (3, 5, 1)]
    results = []
    for library in (gt, torch):
        rnn, tensors = library.nn.utils.rnn, [library.tensor(array) for array in arrays]
        padded = rnn.pad_sequence(tensors, batch_first, -1.0, side)
        packed = rnn.pack_sequence(tensors, enforce_sorted=False)
        right = rnn.pad_sequence(tensors, batch_first)
        results.append([padded, packed.data, packed.batch_sizes, *rnn.unpad_sequence(right, library.tensor([3, 5, 1]), batch_first)])
    close(*results)


@pytest.mark.parametrize('kind, options', [('RNN', {}), ('LSTM', {}), ('GRU', {}), ('LSTM', dict(bidirectional=True, num_layers=2)),
                                           ('GRU', dict(bidirectional=True)), ('LSTM', dict(proj_size=2, bidirectional=True))])
@pytest.mark.parametrize('given', [False, True])
def test_recurrent_layers_of_packed_sequences(kind, options, given):
    theirs, lengths = getattr(torch.nn, kind)(3, 4, **options), [2, 5, 1, 4]
    ours = getattr(nn, kind)(3, 4, **options)
    ours.load_state_dict(theirs.state_dict())
    layers = options.get('num_layers', 1) * (2 if options.get('bidirectional') else 1)
    results = []
    for library, net in ((gt, ours), (torch, theirs)):
        x = library.tensor(numbers(5, 4, 3), requires_grad=True)
        packed = library.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        h = library.tensor(numbers(layers, 4, options.get('proj_size', 4), seed=1))
        c = library.tensor(numbers(layers, 4, 4, seed=2))
        state = None if not given else (h, c) if kind == 'LSTM' else h
        output, last = net(packed, state)
        padded, _ = library.nn.utils.rnn.pad_packed_sequence(output)
        last = last if isinstance(last, tuple) else (last,)
        (padded.square().sum() + sum((tensor * tensor.sin()).sum() for tensor in last)).backward()
        results.append([padded, *last, x.grad, *(p.grad for p in net.parameters())])
        assert output.sorted_indices is not None
    close(*results)


BAD = ['r.pack_padded_sequence(T.ones(3, 2), [1, 2])', 'r.pack_padded_sequence(T.ones(3, 2), [2])', 'r.pack_padded_sequence(T.ones(3, 2), [2, 0])',
       'r.pad_packed_sequence(r.pack_padded_sequence(T.ones(3, 2), [3, 1]), total_length=2)', 'r.pad_sequence([T.ones(2)], padding_side="x")',
       'r.pad_sequence(3)', 'u.parametrize.register_parametrization(nn.Linear(1, 1), "x", nn.ReLU())', 'u.remove_weight_norm(nn.Linear(1, 1))',
       'u.remove_spectral_norm(nn.Linear(1, 1))', 'u.spectral_norm(nn.Linear(1, 1), n_power_iterations=0)', 'u.vector_to_parameters(3, [])',
       'u.parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="x")', 'u.parametrizations.orthogonal(nn.Linear(2, 2), "bias")',
       'u.parametrizations.spectral_norm(nn.Linear(2, 2), dim=5)', 'u.parametrize.remove_parametrizations(nn.ReLU(), "weight")',
       'P.l1_unstructured(nn.Linear(2, 2), "weight", -1)', 'P.l1_unstructured(nn.Linear(2, 2), "weight", 1.5)',
       'P.l1_unstructured(nn.Linear(2, 2), "weight", 99)', 'P.l1_unstructured(nn.Linear(2, 2), "weight", "x")', 'P.remove(nn.Linear(2, 2), "weight")',
       'P.ln_structured(nn.Linear(2, 2), "bias", 1, 2, 0)', 'P.random_structured(nn.Linear(2, 2), "weight", 1, 5)',
       'P.global_unstructured(3, P.L1Unstructured)', 'P.global_unstructured([(nn.Linear(1, 1), "weight")], P.LnStructured, amount=1, n=2)',
       'u.skip_init(3)', 'u.clip_grad_norm_([x], 1.0, error_if_nonfinite=True)', 'nn.attention.sdpa_kernel(3).__enter__()']


@pytest.mark.parametrize('expression', BAD)
def test_error(expression):
    found = []
    for library in (torch, gt):
        import importlib
        x = library.ones(2, requires_grad=True)
        (x * float('inf')).sum().backward()
        importlib.import_module(library.__name__ + '.nn.attention')
        names = {'nn': library.nn, 'T': library, 'u': library.nn.utils, 'r': library.nn.utils.rnn, 'x': x,
                 'P': importlib.import_module(library.__name__ + '.nn.utils.prune')}
        with warnings.catch_warnings(), pytest.raises(Exception) as error:
            warnings.simplefilter('ignore')
            eval(expression, names)
        found.append((error.type, str(error.value).replace('torch.', 'gt.').replace('nn.utils.prune', 'nn.utils.prune')))
    assert found[1][0] is found[0][0], found
    if 'argument' not in found[0][1] and 'shape' not in found[0][1] and 'size gt' not in found[0][1]:
        assert found[1] == found[0]


# ---- clipping and vectors --------------------------------------------------------------------------------------


@pytest.mark.parametrize('norm', [2.0, 1.0, float('inf'), 0.5])
def test_clipping(norm):
    results = []
    for library in (gt, torch):
        params = [library.tensor(numbers(*shape, seed=len(shape)), requires_grad=True) for shape in ((3, 4), (5,))]
        sum((p * p).sum() for p in params).backward()
        utils = library.nn.utils
        total = utils.clip_grad_norm_(params, 1.5, norm)
        results.append([total, *(p.grad.clone() for p in params)])
        utils.clip_grad_value_(params, 0.05)
        results[-1] += [*(p.grad.clone() for p in params), utils.get_total_norm([p.grad for p in params], norm)]
        utils.clip_grads_with_norm_(params, 0.01, library.tensor(2.0))
        results[-1] += [p.grad for p in params]
    close(*results)


def test_vectors():
    model, other = nn.Linear(2, 3), torch.nn.Linear(2, 3)
    other.load_state_dict(as_torch(model.state_dict()))
    vector = nn.utils.parameters_to_vector(model.parameters())
    close(vector, torch.nn.utils.parameters_to_vector(other.parameters()))
    nn.utils.vector_to_parameters(vector * 2, model.parameters())
    torch.nn.utils.vector_to_parameters(torch.tensor(vector.detach().numpy()) * 2, other.parameters())
    close(list(model.parameters()), list(other.parameters()))
    assert all(p.is_leaf and p.requires_grad for p in model.parameters())


def test_fusion():
    for kind, shape in (('Conv2d', (2, 3, 5, 5)), ('ConvTranspose2d', (2, 3, 5, 5)), ('Linear', (4, 3))):
        args = (3, 4) if kind == 'Linear' else (3, 4, 2)
        layer = getattr(nn, kind)(*args)
        bn = nn.BatchNorm1d(4) if kind == 'Linear' else nn.BatchNorm2d(4)
        for _ in range(3):
            bn(layer(gt.tensor(numbers(*shape))))
        layer.eval(), bn.eval()
        fused = nn.utils.fuse_linear_bn_eval(layer, bn) if kind == 'Linear' else nn.utils.fuse_conv_bn_eval(
            layer, bn, transpose=kind.startswith('ConvT'))
        x = gt.tensor(numbers(*shape))
        np.testing.assert_allclose(fused(x).detach().numpy(), bn(layer(x)).detach().numpy(), atol=1e-5)


# ---- parametrisations ------------------------------------------------------------------------------------------


def test_a_parametrised_weight_is_computed_once():
    calls = []

    class Counted(gt.nn.Module):
        def forward(self, weight):
            calls.append(weight.shape)
            return weight * 2

    layer = gt.nn.utils.parametrize.register_parametrization(gt.nn.Linear(3, 4), 'weight', Counted())
    calls.clear()
    layer(gt.ones(5, 3))
    with gt.signal.context('inside'):
        layer(gt.ones(5, 3))
    assert len(calls) == 2


def trained(library, layer, shape, steps=3):
    """Outputs and parameters while a layer is trained a little."""
    outputs, optimizer = [], library.optim.SGD(layer.parameters(), lr=0.1)
    for k in range(steps):
        output = layer(library.tensor(numbers(*shape, seed=k)))
        outputs.append(output)
        optimizer.zero_grad()
        output.sin().sum().backward()
        optimizer.step()
    return outputs + list(layer.parameters())


NORMS = {
    'weight_norm': lambda nn, layer: nn.utils.weight_norm(layer), 'weight_norm None': lambda nn, layer: nn.utils.weight_norm(layer, dim=None),
    'weight_norm 1': lambda nn, layer: nn.utils.weight_norm(layer, dim=1),
    'parametrised weight_norm': lambda nn, layer: nn.utils.parametrizations.weight_norm(layer),
    'parametrised weight_norm 1': lambda nn, layer: nn.utils.parametrizations.weight_norm(layer, dim=1),
    'spectral_norm': lambda nn, layer: nn.utils.spectral_norm(layer),
    'parametrised spectral_norm': lambda nn, layer: nn.utils.parametrizations.spectral_norm(layer, n_power_iterations=2),
    'cayley': lambda nn, layer: nn.utils.parametrizations.orthogonal(layer, orthogonal_map='cayley'),
    'householder': lambda nn, layer: nn.utils.parametrizations.orthogonal(layer, orthogonal_map='householder'),
    'householder alone': lambda nn, layer: nn.utils.parametrizations.orthogonal(
        layer, orthogonal_map='householder', use_trivialization=False),
    'orthogonal': lambda nn, layer: nn.utils.parametrizations.orthogonal(layer)}


MATRICES = [('Linear', (3, 4), (5, 3)), ('Linear', (3, 3), (5, 3)), ('Linear', (4, 3), (5, 4))]
IMAGES = [('Conv2d', (3, 4, 2), (2, 3, 4, 4)), ('ConvTranspose2d', (3, 4, 2), (2, 3, 4, 4))]


@pytest.mark.parametrize('norm, kind, args, shape', [
    (norm, *layer) for norm in NORMS for layer in MATRICES + (IMAGES if 'norm' in norm else [])])
@pytest.mark.filterwarnings('ignore')
def test_norms(norm, kind, args, shape):
    torch.manual_seed(1)
    theirs, ours = (NORMS[norm](library.nn, getattr(library.nn, kind)(*args)) for library in (torch, gt))
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [name for name, _ in ours.named_parameters()] == [name for name, _ in theirs.named_parameters()]
    assert repr(ours) == repr(theirs)
    ours.load_state_dict(theirs.state_dict())
    close(trained(gt, ours, shape), trained(torch, theirs, shape), rtol=1e-3, atol=1e-4)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    close(ours.eval()(gt.tensor(numbers(*shape))), theirs.eval()(torch.tensor(numbers(*shape))), rtol=1e-3, atol=1e-4)
    if norm in ('weight_norm', 'spectral_norm'):
        getattr(nn.utils, 'remove_' + norm)(ours), getattr(torch.nn.utils, 'remove_' + norm)(theirs)
    elif 'weight_norm' not in norm or 'parametrised' in norm:
        nn.utils.parametrize.remove_parametrizations(ours, 'weight')
        torch.nn.utils.parametrize.remove_parametrizations(theirs, 'weight')
    else:
        return
    assert sorted(ours.state_dict()) == sorted(theirs.state_dict()) and repr(ours) == repr(theirs)
    close(ours.weight, theirs.weight, rtol=1e-3, atol=1e-4)


def symmetric(library):
    class Symmetric(library.nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).transpose(-1, -2)

        def right_inverse(self, x):
            return x.triu()

    class Doubled(library.nn.Module):
        def forward(self, x):
            return x * 2

        def right_inverse(self, x):
            return x / 2
    return Symmetric, Doubled


def test_parametrisation():
    made = []
    state = {'weight': numbers(3, 3), 'bias': numbers(3, seed=1)}
    for library in (gt, torch):
        parametrize, (Symmetric, Doubled) = library.nn.utils.parametrize, symmetric(library)
        layer = library.nn.Linear(3, 3)
        layer.load_state_dict({key: library.tensor(value) for key, value in state.items()})
        parametrize.register_parametrization(layer, 'weight', Symmetric())
        found = [layer.weight]
        parametrize.register_parametrization(layer, 'weight', Doubled())
        assert parametrize.is_parametrized(layer) and parametrize.is_parametrized(layer, 'weight')
        assert not parametrize.is_parametrized(layer, 'bias')
        assert parametrize.type_before_parametrizations(layer) is library.nn.Linear
        found += trained(library, layer, (2, 3))
        layer.weight = library.tensor(numbers(3, 3, seed=5)) + library.tensor(numbers(3, 3, seed=5)).t()
        found += [layer.weight, layer.parametrizations.weight.original, layer.parametrizations['weight'][0](layer.bias.diag())]
        text = repr(layer) + str(list(layer.state_dict()))
        with parametrize.cached():
            assert layer.weight is layer.weight
        again = copy.deepcopy(layer)
        assert type(again).__name__ == 'ParametrizedLinear'
        found.append(again.weight)
        parametrize.remove_parametrizations(layer, 'weight', leave_parametrized=True)
        found.append(layer.weight)
        assert type(layer) is library.nn.Linear and not parametrize.is_parametrized(layer)
        made.append((found, text))
    close(made[0][0], made[1][0])
    assert made[0][1] == made[1][1]


# ---- pruning ---------------------------------------------------------------------------------------------------

PRUNINGS = {
    'identity': lambda p, T, m: p.identity(m, 'weight'), 'l1': lambda p, T, m: p.l1_unstructured(m, 'weight', 0.4),
    'l1 count': lambda p, T, m: p.l1_unstructured(m, 'weight', 5), 'ln': lambda p, T, m: p.ln_structured(m, 'weight', 2, 2, 0),
    'ln 1': lambda p, T, m: p.ln_structured(m, 'weight', 0.5, 1, 1),
    'scores': lambda p, T, m: p.l1_unstructured(m, 'weight', 4, importance_scores=m.weight.detach() * -1 + 3),
    'mask': lambda p, T, m: p.custom_from_mask(m, 'weight', T.tensor(numbers(4, 6) > 0)),
    'twice': lambda p, T, m: p.l1_unstructured(p.l1_unstructured(m, 'weight', 0.3), 'weight', 0.5),
    'mixed': lambda p, T, m: p.ln_structured(p.l1_unstructured(m, 'weight', 0.3), 'weight', 1, 2, 0),
    'global': lambda p, T, m: p.global_unstructured([(m, 'weight'), (m, 'bias')], pruning_method=p.L1Unstructured, amount=0.4)}


@pytest.mark.parametrize('name', PRUNINGS)
def test_pruning(name):
    import torch.nn.utils.prune as torch_prune

    import gt.nn.utils.prune as gt_prune
    made = []
    for library, prune in ((gt, gt_prune), (torch, torch_prune)):
        layer = library.nn.Linear(6, 4)
        layer.load_state_dict({'weight': library.tensor(numbers(4, 6)), 'bias': library.tensor(numbers(4, seed=3))})
        PRUNINGS[name](prune, library, layer)
        assert prune.is_pruned(layer)
        found = [layer.weight, layer.weight_mask, *trained(library, layer, (3, 6))]
        keys = list(layer.state_dict())
        prune.remove(layer, 'weight')
        made.append(([*found, layer.weight], keys, list(layer.state_dict())))
    close(made[0][0], made[1][0])
    assert made[0][1:] == made[1][1:]


def test_random_pruning():
    import gt.nn.utils.prune as prune
    layer = prune.random_unstructured(nn.Linear(6, 4), 'weight', 0.5)
    assert layer.weight_mask.sum().item() == 12
    layer = prune.random_structured(nn.Linear(6, 4), 'weight', 2, 1)
    assert sorted(layer.weight_mask.sum(0).tolist()) == [0, 0, 4, 4, 4, 4]
    assert prune.L1Unstructured(2).prune(gt.tensor([1.0, -3.0, 2.0])).tolist() == [0.0, -3.0, 0.0]


# ---- the rest --------------------------------------------------------------------------------------------------


def test_parallel_modules():
    net = nn.Sequential(nn.Linear(2, 3))
    for wrapped in (nn.DataParallel(net, [0, 1]), nn.parallel.DistributedDataParallel(net, find_unused_parameters=True)):
        assert wrapped.module is net and list(wrapped.state_dict()) == ['module.0.weight', 'module.0.bias']
        assert wrapped(gt.ones(1, 2)).shape == (1, 3)
    with wrapped.no_sync():
        pass
    state = wrapped.state_dict()
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, 'module.')
    net.load_state_dict(state)
    assert nn.parallel.data_parallel(net, gt.ones(1, 2)).shape == (1, 3)


def test_paths_and_attention_kernels():
    from gt.nn.attention import SDPBackend, sdpa_kernel
    from gt.nn.modules.batchnorm import _BatchNorm
    from gt.nn.modules.conv import _ConvNd
    from gt.nn.modules.loss import _Loss
    from gt.nn.modules.utils import _pair
    assert isinstance(nn.BatchNorm2d(2), _BatchNorm) and isinstance(nn.Conv1d(1, 1, 1), _ConvNd) and isinstance(nn.MSELoss(), _Loss)
    assert _pair(3) == (3, 3) and nn.modules.rnn.LSTM is nn.LSTM and nn.modules.Linear is nn.Linear
    x = gt.ones(1, 2, 3, 4)
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
        assert nn.functional.scaled_dot_product_attention(x, x, x).shape == x.shape


def test_gradients_of_convolutions():
    for d in (1, 2, 3):
        size = (5, 6, 4)[:d]
        x, w = numbers(2, 4, *size), numbers(6, 2, *(2,) * d, seed=1)
        g = numbers(*torch.nn.functional.__dict__[f'conv{d}d'](torch.tensor(x), torch.tensor(w), groups=2, padding=1).shape, seed=2)
        for library, results in ((gt, []), (torch, [])):
            module = library.nn.grad
            tensors = [library.tensor(array) for array in (x, w, g)]
            results.append(getattr(module, f'conv{d}d_input')(tuple(x.shape), tensors[1], tensors[2], padding=1, groups=2))
            results.append(getattr(module, f'conv{d}d_weight')(tensors[0], tuple(w.shape), tensors[2], padding=1, groups=2))
            if library is gt:
                ours = results
        close(ours, results)
