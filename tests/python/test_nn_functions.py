"""Activations, losses, initialisation and clipping against PyTorch."""

import itertools
import math

import numpy as np
import pytest
import torch

import gt
from gt import nn
from nn_support import close, compare_functions, numbers, pair
from support import check, to_gt, values

ACTIVATIONS = [
    ('relu', {}), ('relu6', {}), ('leaky_relu', {}), ('leaky_relu', {'negative_slope': 0.3}), ('elu', {}),
    ('elu', {'alpha': 0.7}), ('celu', {'alpha': 1.5}), ('selu', {}), ('gelu', {}),
    ('gelu', {'approximate': 'tanh'}), ('silu', {}), ('mish', {}), ('softplus', {}),
    ('softplus', {'beta': 2.0, 'threshold': 3.0}), ('softsign', {}),
    ('logsigmoid', {}), ('hardtanh', {}), ('hardtanh', {'min_val': -0.5, 'max_val': 2.0}), ('hardsigmoid', {}),
    ('hardswish', {}), ('glu', {}), ('glu', {'dim': 0}), ('softmax', {'dim': 1}), ('softmax', {'dim': 0}),
    ('log_softmax', {'dim': -1}), ('softmin', {'dim': 1}), ('sigmoid', {}), ('tanh', {}), ('normalize', {}),
    ('normalize', {'p': 1.0, 'dim': 0}),
]
MODULES = {
    'relu': 'ReLU', 'relu6': 'ReLU6', 'leaky_relu': 'LeakyReLU', 'logsigmoid': 'LogSigmoid',
    'log_softmax': 'LogSoftmax', 'silu': 'SiLU', 'elu': 'ELU', 'celu': 'CELU', 'selu': 'SELU', 'gelu': 'GELU',
    'glu': 'GLU',
}


@pytest.mark.parametrize('name, options', ACTIVATIONS)
def test_activations(name, options):
    ours, theirs = getattr(nn.functional, name), getattr(torch.nn.functional, name)
    values = numbers(4, 6, scale=4.0)
    compare_functions(lambda x: ours(x, **options), lambda x: theirs(x, **options), values)
    large = numbers(4, 6, scale=100.0)
    compare_functions(lambda x: ours(x, **options), lambda x: theirs(x, **options), large)
    module = MODULES.get(name, name.capitalize())
    if hasattr(torch.nn, module):
        compare_functions(getattr(nn, module)(**options), getattr(torch.nn, module)(**options), values)


def test_activations_at_zero():
    for name in ('relu', 'relu6', 'leaky_relu', 'elu', 'celu', 'selu', 'silu', 'softsign', 'hardswish'):
        ours, theirs = getattr(nn.functional, name), getattr(torch.nn.functional, name)
        compare_functions(ours, theirs, np.zeros(3, np.float32))


@pytest.mark.parametrize('name', ['relu', 'leaky_relu', 'elu', 'silu', 'hardtanh', 'mish'])
def test_activations_in_place(name):
    (ours, theirs), function = pair(numbers(5)), getattr(nn.functional, name)
    result = function(ours, inplace=True)
    assert result is ours
    close(ours, getattr(torch.nn.functional, name)(theirs))
    layer = nn.ReLU(inplace=True)
    assert layer(ours) is ours and ours.amin().item() >= 0


@pytest.mark.parametrize('channels', [1, 3])
def test_prelu(channels):
    ours, theirs = nn.PReLU(channels), torch.nn.PReLU(channels)
    for shape in ((4, 3), (2, 3, 4, 4)):
        compare_functions(ours, theirs, numbers(*shape))
    close(ours.weight.grad, theirs.weight.grad)


def test_activation_arguments_are_checked():
    with pytest.raises(TypeError, match='unexpected keyword argument .slope.'):
        nn.LeakyReLU(slope=1)
    with pytest.raises(TypeError, match='too many positional'):
        nn.Tanh(3)
    with pytest.raises(RuntimeError, match='none or tanh'):
        nn.functional.gelu(gt.ones(1), 'erf')
    with pytest.raises(RuntimeError, match='must be even'):
        nn.functional.glu(gt.ones(3))


def test_one_hot():
    indices = np.array([[0, 2], [1, 1]])
    for classes in (-1, 5):
        close(nn.functional.one_hot(gt.tensor(indices), classes),
              torch.nn.functional.one_hot(torch.tensor(indices), classes))


# ---- losses ----------------------------------------------------------------------------------------------------

REDUCTIONS = ['mean', 'sum', 'none']


@pytest.mark.parametrize('reduction', REDUCTIONS)
@pytest.mark.parametrize('name, options', [
    ('mse_loss', {}), ('l1_loss', {}), ('smooth_l1_loss', {}), ('smooth_l1_loss', {'beta': 0.3}),
    ('smooth_l1_loss', {'beta': 0.0}), ('huber_loss', {}), ('huber_loss', {'delta': 0.4})])
def test_distances(name, options, reduction):
    ours, theirs = getattr(nn.functional, name), getattr(torch.nn.functional, name)
    compare_functions(lambda x, y: ours(x, y, reduction=reduction, **options),
                      lambda x, y: theirs(x, y, reduction=reduction, **options),
                      numbers(4, 5), numbers(4, 5, seed=1))


@pytest.mark.parametrize('reduction', REDUCTIONS)
@pytest.mark.parametrize('weighted', [False, True])
def test_binary_cross_entropy(reduction, weighted):
    targets, weight = (numbers(4, 5, seed=1) > 0).astype(np.float32), np.abs(numbers(4, 5, seed=2))
    probabilities, logits = 1 / (1 + np.exp(-numbers(4, 5))), numbers(4, 5, scale=20.0)

    def of(module, name, **more):
        options = {k: module.tensor(v) for k, v in more.items()}
        if weighted:
            options['weight'] = module.tensor(weight)
        function = getattr(module.nn.functional, name)
        return lambda x: function(x, module.tensor(targets), reduction=reduction, **options)

    name = 'binary_cross_entropy'
    compare_functions(of(gt, name), of(torch, name), probabilities)
    name = 'binary_cross_entropy_with_logits'
    compare_functions(of(gt, name), of(torch, name), logits)
    positive = np.array([0.5, 1.0, 2.0, 3.0, 4.0], np.float32)
    compare_functions(of(gt, name, pos_weight=positive), of(torch, name, pos_weight=positive), logits)


def test_binary_cross_entropy_of_certain_predictions():
    scores = gt.tensor([40.0, -120.0, 40.0, -120.0], requires_grad=True)
    targets = gt.tensor([1.0, 0.0, 0.0, 1.0])
    loss = nn.binary_cross_entropy(scores.sigmoid(), targets, reduction='none')
    assert loss.tolist() == pytest.approx([0, 0, 100, 100])
    loss.sum().backward()
    assert np.isfinite(scores.grad.numpy()).all()


@pytest.mark.parametrize('reduction', REDUCTIONS)
@pytest.mark.parametrize('smoothing', [0.0, 0.2])
@pytest.mark.parametrize('weighted', [False, True])
@pytest.mark.parametrize('shape', [(5, 4), (4,), (3, 4, 2), (2, 4, 2, 3)])
def test_cross_entropy(shape, weighted, smoothing, reduction):
    scores, weight = numbers(*shape, scale=3.0), np.array([0.5, 1.0, 2.0, 0.1], np.float32)
    spatial = shape[:1] + shape[2:] if len(shape) > 1 else ()
    rng = np.random.default_rng(4)
    targets = rng.integers(0, 4, spatial)
    ignoring = np.where(rng.random(spatial) < 0.3, -100, targets) if spatial else targets
    class_dim = 1 if len(shape) > 1 else 0
    probabilities = torch.softmax(torch.tensor(numbers(*shape, seed=5)), class_dim).numpy()
    options = dict(reduction=reduction, label_smoothing=smoothing)

    def of(module, target, **more):
        extra = {'weight': module.tensor(weight)} if weighted else {}
        return lambda x: module.nn.functional.cross_entropy(x, module.tensor(target), **extra, **options, **more)

    for target in (targets, ignoring, probabilities):
        compare_functions(of(gt, target), of(torch, target), scores)
    compare_functions(of(gt, targets, ignore_index=2), of(torch, targets, ignore_index=2), scores,
                      equal_nan=True)


@pytest.mark.parametrize('reduction', REDUCTIONS)
def test_nll_loss(reduction):
    targets, weight = np.array([0, 2, -100, 1]), np.array([0.5, 1.0, 2.0], np.float32)

    def of(module):
        return lambda x: module.nn.functional.nll_loss(x, module.tensor(targets), module.tensor(weight),
                                                       reduction=reduction)

    compare_functions(of(gt), of(torch), numbers(4, 3))


def test_targets_are_checked():
    with pytest.raises(ValueError, match=r'Expected input batch_size \(3\) to match target batch_size \(4\)'):
        nn.functional.cross_entropy(gt.ones(3, 4), gt.zeros(4, dtype=gt.int64))
    with pytest.raises(IndexError):
        nn.functional.cross_entropy(gt.ones(3, 4), gt.tensor([0, 4, 1])).item()
    with pytest.raises(ValueError, match='not a valid value for reduction'):
        nn.mse_loss(gt.ones(2), gt.ones(2), reduction='median')


@pytest.mark.filterwarnings('ignore:reduction. .mean. divides')
@pytest.mark.parametrize('reduction', REDUCTIONS + ['batchmean'])
@pytest.mark.parametrize('log_target', [False, True])
def test_kl_div(reduction, log_target):
    target = torch.softmax(torch.tensor(numbers(4, 5, seed=1)), 1).numpy()
    target[0, 0] = 0.0 if not log_target else 0.1
    target = np.log(target) if log_target else target

    def of(module):
        return lambda x: module.nn.functional.kl_div(x, module.tensor(target), reduction=reduction,
                                                     log_target=log_target)

    compare_functions(of(gt), of(torch), numbers(4, 5))


@pytest.mark.filterwarnings('ignore:reduction. .mean. divides')
@pytest.mark.parametrize('name, options, target', [
    ('MSELoss', {}, 'float'), ('L1Loss', {'reduction': 'sum'}, 'float'), ('SmoothL1Loss', {'beta': 0.5}, 'float'),
    ('HuberLoss', {'delta': 0.5}, 'float'), ('BCEWithLogitsLoss', {}, 'float'),
    ('KLDivLoss', {'log_target': True}, 'float'), ('NLLLoss', {}, 'index'),
    ('CrossEntropyLoss', {'label_smoothing': 0.1}, 'index'),
    ('CrossEntropyLoss', {'weight': np.array([0.5, 1, 2, 3, 4], np.float32), 'ignore_index': 1}, 'index')])
def test_loss_modules(name, options, target):
    targets = np.abs(numbers(4, 5, seed=1)) / 4 if target == 'float' else np.array([0, 4, 1, 2])

    def of(module):
        converted = {k: module.tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
        loss = getattr(module.nn, name)(**converted)
        return lambda x: loss(x, module.tensor(targets))

    compare_functions(of(gt), of(torch), numbers(4, 5))


def test_bce_loss_module():
    loss, expected = nn.BCELoss(reduction='sum'), torch.nn.BCELoss(reduction='sum')
    probabilities, targets = np.array([[0.2, 0.9], [0.0, 1.0]], np.float32)
    compare_functions(loss, expected, probabilities, constants=[targets])


# ---- initialisation --------------------------------------------------------------------------------------------


@pytest.mark.parametrize('name, options, low, high, std', [
    ('uniform_', {'a': -2.0, 'b': 3.0}, -2, 3, 5 / math.sqrt(12)),
    ('normal_', {'mean': 0.0, 'std': 0.5}, None, None, 0.5),
    ('xavier_uniform_', {'gain': 2.0}, -2 * math.sqrt(6 / 700), 2 * math.sqrt(6 / 700), 2 * math.sqrt(2 / 700)),
    ('xavier_normal_', {}, None, None, math.sqrt(2 / 700)),
    ('kaiming_uniform_', {'a': math.sqrt(5)}, -1 / 20, 1 / 20, 1 / 20 / math.sqrt(3)),
    ('kaiming_normal_', {'mode': 'fan_out', 'nonlinearity': 'relu'}, None, None, math.sqrt(2 / 300)),
    ('trunc_normal_', {'std': 1.0, 'a': -1.0, 'b': 1.0}, -1, 1, 0.5396),
    ('trunc_normal_', {'std': 0.02}, None, None, 0.02),
])
def test_random_initialisation(name, options, low, high, std):
    gt.manual_seed(1)
    weight = nn.Parameter(gt.empty(300, 400))
    assert getattr(nn.init, name)(weight, **options) is weight and weight.requires_grad
    values = weight.detach().numpy().astype(np.float64)
    assert np.isfinite(values).all()
    if low is not None:
        assert low <= values.min() < low * 0.99 if low < 0 else True
        assert values.max() <= high and values.max() > high * 0.99
    assert values.std() == pytest.approx(std, rel=0.01)


def test_fixed_initialisation():
    weight = nn.Parameter(gt.empty(3, 4))
    assert nn.init.zeros_(weight).sum().item() == 0 and nn.init.ones_(weight).sum().item() == 12
    assert nn.init.constant_(weight, 0.5).mean().item() == 0.5
    np.testing.assert_array_equal(nn.init.eye_(weight).detach().numpy(), np.eye(3, 4))
    for shape in ((3, 4), (6, 2), (2, 3, 4)):
        rows = nn.init.orthogonal_(gt.empty(*shape), gain=2.0).reshape(shape[0], -1).numpy()
        product = rows @ rows.T if rows.shape[0] <= rows.shape[1] else rows.T @ rows
        np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-5)
    with pytest.raises(ValueError, match='fewer than 2'):
        nn.init.xavier_uniform_(gt.empty(3))
    for nonlinearity in ('linear', 'sigmoid', 'tanh', 'relu', 'selu', 'conv2d'):
        assert nn.init.calculate_gain(nonlinearity) == torch.nn.init.calculate_gain(nonlinearity)
    assert nn.init.calculate_gain('leaky_relu', 0.2) == torch.nn.init.calculate_gain('leaky_relu', 0.2)


@pytest.mark.parametrize('build', [
    lambda m: m.Linear(40, 300), lambda m: m.Bilinear(20, 30, 40), lambda m: m.Embedding(200, 30),
    lambda m: m.LSTMCell(40, 60), lambda m: m.MultiheadAttention(60, 2), lambda m: m.LayerNorm(5),
])
def test_layers_start_as_in_torch(build):
    gt.manual_seed(0)
    torch.manual_seed(0)
    ours, theirs = build(nn), dict(build(torch.nn).named_parameters())
    for name, parameter in ours.named_parameters():
        values, expected = parameter.detach().numpy(), theirs[name].detach().numpy()
        assert values.shape == expected.shape and values.dtype == expected.dtype
        assert values.std() == pytest.approx(expected.std(), rel=0.2, abs=1e-6)
        assert np.abs(values).max() == pytest.approx(np.abs(expected).max(), rel=0.3)


# ---- clipping --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize('norm_type', [2.0, 1.0, 3.0, math.inf])
@pytest.mark.parametrize('limit', [0.1, 100.0])
def test_clip_grad_norm(norm_type, limit):
    pairs = [pair(numbers(*shape), requires_grad=True) for shape in ((3, 4), (5,))]
    for k, (ours, theirs) in enumerate(pairs):
        (ours * (k + 2)).square().sum().backward()
        (theirs * (k + 2)).square().sum().backward()
    mine, others = [p[0] for p in pairs] + [gt.ones(1)], [p[1] for p in pairs] + [torch.ones(1)]
    close(nn.utils.clip_grad_norm_(mine, limit, norm_type),
          torch.nn.utils.clip_grad_norm_(others, limit, norm_type))
    for ours, theirs in pairs:
        close(ours.grad, theirs.grad)


def test_clip_grad_value_and_vectors():
    (ours, theirs) = pair(numbers(6), requires_grad=True)
    ours.square().sum().backward()
    theirs.square().sum().backward()
    nn.utils.clip_grad_value_(ours, 0.3)
    torch.nn.utils.clip_grad_value_(theirs, 0.3)
    close(ours.grad, theirs.grad)
    assert nn.utils.clip_grad_norm_([gt.ones(2)], 1.0).item() == 0
    ours.grad = gt.tensor([math.inf] * 6)
    with pytest.raises(RuntimeError, match='non-finite'):
        nn.utils.clip_grad_norm_(ours, 1.0, error_if_nonfinite=True)
    layer = nn.Linear(2, 3)
    nn.utils.vector_to_parameters(gt.arange(9).float(), layer.parameters())
    assert layer.bias.tolist() == [6, 7, 8] and layer.weight.requires_grad
    assert nn.utils.parameters_to_vector(layer.parameters()).tolist() == list(range(9))


# ---- cosine similarity: both inputs broadcast -------------------------------------------------------------------

COSINE_SHAPES = [((3, 4), (3, 4)), ((4,), (3, 4)), ((3, 1), (3, 4)), ((1, 4), (3, 1)), ((2, 3, 4), (4,)),
                 ((2, 1, 4), (1, 3, 4)), ((5, 1, 4), (1, 3, 1)), ((2, 3, 4), (3, 1)), ((1,), (4,)), ((), (4,)), ((), ()),
                 ((0, 4), (1, 4)), ((3, 0), (1,))]


@pytest.mark.parametrize("shapes", COSINE_SHAPES, ids=str)
def test_cosine_similarity_broadcasts(shapes):
    """Along every dimension of the broadcast shape, with vectors of zeros and ones shorter than eps, and gradients."""
    rank = max(1, *map(len, shapes))
    for shape1, shape2 in (shapes, shapes[::-1]):
        for dim, eps in itertools.product(range(-rank, rank), (1e-8, 1.5)):
            theirs = [values(shape1, "float64", seed=1), values(shape2, "float64", seed=2)]
            if theirs[0].ndim and theirs[0].numel():
                theirs[0][0] = 0
            ours = [to_gt(x).requires_grad_() for x in theirs]
            theirs = [x.requires_grad_() for x in theirs]
            results = [n.nn.functional.cosine_similarity(*x, dim=dim, eps=eps) for n, x in ((gt, ours), (torch, theirs))]
            check(results[0], results[1].detach(), f"dim {dim}, eps {eps}")
            for result in results:
                (result * 2).sum().backward()
            for mine, its in zip(ours, theirs):
                check(mine.grad, its.grad, f"gradient, dim {dim}, eps {eps}", rtol=1e-9, atol=1e-6)


def test_cosine_similarity_refuses():
    for library in (gt, torch):
        similarity = library.nn.functional.cosine_similarity
        x, whole = library.ones(3, 4), library.tensor([1, 2, 3, 4])
        assert similarity(x, whole).shape == (3,) and similarity(whole, x).dtype == library.float32
        with pytest.raises(IndexError):
            similarity(x, x, dim=2)
        with pytest.raises(RuntimeError):
            similarity(x, library.ones(5))
        with pytest.raises(RuntimeError, match="common dtype to be floating point"):
            similarity(whole, whole, dim=0)


@pytest.mark.parametrize('dtype', ['bfloat16', 'float16', 'float32', 'float64'])
@pytest.mark.parametrize('scale', [300.0, 0.03])
@pytest.mark.parametrize('weighted', [False, True])
def test_rms_norm_of_large_and_small_numbers(dtype, scale, weighted):
    values = np.random.default_rng(1).standard_normal((4, 64)) * scale
    results = []
    for n in (gt, torch):
        x = n.tensor(values.tolist(), dtype=getattr(n, dtype)).requires_grad_()
        weight = n.linspace(0.5, 2, 64, dtype=getattr(n, dtype)) if weighted else None
        y = n.nn.functional.rms_norm(x, (64,), weight)
        assert str(y.dtype).endswith(dtype)
        (y.float() * n.linspace(-1, 1, 64)).sum().backward()
        results.append((y.detach().float().numpy(), x.grad.float().numpy()))
    for ours, theirs in zip(*results):
        scale = max(1e-9, float(np.abs(theirs).max()))
        np.testing.assert_allclose(ours / scale, theirs / scale, atol={'bfloat16': 1e-2, 'float16': 2e-3}.get(dtype, 1e-5))
