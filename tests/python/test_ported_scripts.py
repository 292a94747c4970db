"""Features of PyTorch training scripts besides feed-forward layers: recurrent layers, module hooks, parameter lists,
padding, pair losses, schedules, custom autograd functions. Both libraries compute the same from the same weights."""

import numpy as np
import pytest
import torch

import gt
from nn_support import close, numbers

RECURRENT = [
    ('RNN', (4, 5), {}), ('RNN', (4, 5, 2), {'nonlinearity': 'relu', 'bidirectional': True}),
    ('LSTM', (4, 5), {}), ('LSTM', (4, 5), {'num_layers': 3, 'bias': False, 'batch_first': True}),
    ('LSTM', (4, 5, 2), {'bidirectional': True, 'batch_first': True, 'dropout': 0.0}),
    ('GRU', (4, 5), {'batch_first': True}), ('GRU', (4, 5, 2), {'bidirectional': True}),
]


def both(name, arguments, options):
    """The same layer twice, with PyTorch's weights."""
    theirs = getattr(torch.nn, name)(*arguments, **options)
    ours = getattr(gt.nn, name)(*arguments, **options)
    assert list(ours.state_dict()) == list(theirs.state_dict()) and repr(ours) == repr(theirs)
    ours.load_state_dict({key: value.numpy() for key, value in theirs.state_dict().items()})
    return ours, theirs


def flattened(value):
    return [item for part in value for item in flattened(part)] if isinstance(value, (tuple, list)) else [value]


def check_recurrent(ours, theirs, input, state):
    results = []
    for library, layer in ((gt, ours), (torch, theirs)):
        x = library.tensor(input).requires_grad_()
        given = None if state is None else [library.tensor(part) for part in state]
        hx = given if given is None or isinstance(layer, library.nn.LSTM) else given[0]
        found = flattened(layer(x, hx))
        sum((part * part).sum() for part in found).backward()
        results.append(found + [x.grad] + [parameter.grad for parameter in layer.parameters()])
    assert len(results[0]) == len(results[1])
    for mine, its in zip(*results):
        close(mine, its)


@pytest.mark.parametrize('name, arguments, options', RECURRENT)
def test_recurrent_layers(name, arguments, options):
    ours, theirs = both(name, arguments, options)
    input = numbers(3, 6, 4, seed=1)
    batch = 3 if options.get('batch_first') else 6
    rows = ours.num_layers * (2 if options.get('bidirectional') else 1)
    check_recurrent(ours, theirs, input, None)
    check_recurrent(ours, theirs, input, [numbers(rows, batch, 5, seed=2), numbers(rows, batch, 5, seed=3)])
    check_recurrent(ours, theirs, input[0], None)  # one sequence, no batch


def test_recurrent_layers_refuse():
    for library in (gt, torch):
        with pytest.raises(ValueError):
            library.nn.LSTM(4, 5, dropout=1.5)
        with pytest.raises(ValueError):
            library.nn.RNN(4, 5, nonlinearity='sine')
        layer = library.nn.LSTM(4, 5)
        for shape in ((2, 3, 7), (4,)):
            with pytest.raises((RuntimeError, ValueError)):
                layer(library.zeros(*shape))
        with pytest.raises(RuntimeError):
            layer(library.zeros(2, 3, 4), (library.zeros(1, 7, 5), library.zeros(1, 7, 5)))


def test_dropout_between_layers_only_in_training():
    layer = gt.nn.LSTM(4, 50, num_layers=2, dropout=0.9)
    x = gt.randn(3, 2, 4)
    assert not layer(x)[0].equal(layer(x)[0])
    layer.eval()
    assert layer(x)[0].equal(layer(x)[0])


def hooked(library):
    """Hooks before and after, with and without keywords, in order, removed."""
    seen = []
    layer = library.nn.Linear(2, 2)
    library.nn.init.eye_(layer.weight)
    library.nn.init.zeros_(layer.bias)
    layer.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    layer.register_forward_pre_hook(lambda module, args, keywords: seen.append(len(keywords)), with_kwargs=True)
    doubled = layer.register_forward_hook(lambda module, args, output: output * 2)
    layer.register_forward_hook(lambda module, args, output: seen.append(output.sum().item()))
    layer.register_forward_hook(lambda module, args, output: seen.append(args[0].sum().item()), prepend=True)
    x = library.tensor([[1.0, 2.0]])
    results = [layer(x).tolist()]
    doubled.remove()
    results.append(layer(x).tolist())
    return results, seen


def test_hooks_of_modules():
    assert hooked(gt) == hooked(torch)


def listed(library):
    class Model(library.nn.Module):
        def __init__(self):
            super().__init__()
            self.scales = library.nn.ParameterList([library.ones(1), library.nn.Parameter(library.ones(2))])
            self.named = library.nn.ParameterDict({'a': library.nn.Parameter(library.ones(3))})

    model = Model()
    model.scales.append(library.zeros(4))
    model.named['b'] = library.zeros(5)
    model.scales[0] = library.zeros(6)
    shapes = [(name, tuple(parameter.shape)) for name, parameter in model.named_parameters()]
    popped = tuple(model.named.pop('a').shape)
    return (shapes, list(model.state_dict()), len(model.scales), len(model.scales[1:]), list(model.named), popped,
            tuple(model.scales[-1].shape), 'b' in model.named, tuple(model.get_parameter('scales.1').shape))


def test_lists_of_parameters():
    assert listed(gt) == listed(torch)
    with pytest.raises(IndexError):
        gt.nn.ParameterList([gt.ones(1)])[1]
    with pytest.raises(AttributeError, match="'ParameterDict' object has no attribute 'a'"):
        gt.nn.ParameterDict()['a']


LAYERS = [
    ('ZeroPad2d', (1,), (2, 3, 4, 5)), ('ConstantPad1d', ((1, 2), 3.5), (2, 3, 4)),
    ('ReflectionPad2d', ((1, 2, 0, 1),), (2, 3, 4, 5)),
    ('ReplicationPad3d', (1,), (1, 2, 3, 4, 5)), ('CircularPad1d', (2,), (2, 3, 4)),
    ('PixelShuffle', (2,), (2, 8, 3, 4)),
    ('PixelUnshuffle', (2,), (2, 3, 4, 6)), ('BatchNorm3d', (2,), (3, 2, 3, 4, 2)),
    ('Threshold', (0.1, 2.0), (3, 4)),
    ('Hardshrink', (), (3, 4)), ('Softshrink', (0.3,), (3, 4)), ('Tanhshrink', (), (3, 4)),
    ('Dropout2d', (0.0,), (2, 3, 4, 5)),
]


@pytest.mark.parametrize('name, arguments, shape', LAYERS)
def test_layers(name, arguments, shape):
    results = []
    for library in (gt, torch):
        x = library.tensor(numbers(*shape, seed=4)).requires_grad_()
        output = getattr(library.nn, name)(*arguments)(x)
        (output * output).sum().backward()
        results.append((output, x.grad))
    close(results[0][0], results[1][0])
    close(results[0][1], results[1][1])


LOSSES = [
    ('triplet_margin_loss', 3, {}),
    ('triplet_margin_loss', 3, {'margin': 2.0, 'p': 1, 'swap': True, 'reduction': 'none'}),
    ('margin_ranking_loss', 2, {'target': 'signs', 'margin': 0.3}),
    ('hinge_embedding_loss', 1, {'target': 'signs'}),
    ('cosine_embedding_loss', 2, {'target': 'row signs', 'margin': 0.1, 'reduction': 'sum'}),
    ('gaussian_nll_loss', 2, {'var': 'positive', 'full': True}),
    ('pairwise_distance', 2, {'p': 3.0, 'keepdim': True}),
    ('poisson_nll_loss', 1, {'target': 'positive', 'full': True}),
    ('poisson_nll_loss', 1, {'target': 'positive', 'reduction': 'sum'}),
]


@pytest.mark.parametrize('name, count, options', LOSSES)
def test_losses(name, count, options):
    special = {'signs': np.sign(numbers(3, 4, seed=9)), 'row signs': np.array([1, -1, 1]),
               'positive': np.abs(numbers(3, 4, seed=8)) * 3}
    results = []
    for library in (gt, torch):
        inputs = [library.tensor(numbers(3, 4, seed=k)).requires_grad_() for k in range(count)]
        given = {key: library.tensor(special[value]) if value in special else value
                 for key, value in options.items()}
        loss = getattr(library.nn.functional, name)(*inputs, **given)
        loss.sum().backward()
        results.append([loss] + [x.grad for x in inputs])
    for mine, its in zip(*results):
        close(mine, its)


def test_gumbel_softmax():
    logits = gt.tensor(numbers(200, 5, seed=3)).requires_grad_()
    soft = gt.nn.functional.gumbel_softmax(logits, tau=0.5)
    hard = gt.nn.functional.gumbel_softmax(logits, hard=True)
    assert soft.sum(-1).allclose(gt.ones(200), atol=1e-5)
    assert hard.amax(-1).allclose(gt.ones(200), atol=1e-5) and hard.sum(-1).allclose(gt.ones(200), atol=1e-5)
    (hard * gt.arange(5.0)).sum().backward()
    assert logits.grad.abs().sum().item() > 0


def test_whole_channels_are_dropped():
    kept = gt.nn.functional.dropout2d(gt.ones(20, 30, 3, 3), 0.5).reshape(600, 9).numpy()
    assert ((kept == 0).all(1) | (kept == 2).all(1)).all() and 200 < (kept[:, 0] == 0).sum() < 400


def rates(library, make):
    parameter = library.tensor([1.0], requires_grad=True)
    optimiser = library.optim.SGD([parameter], lr=0.1, foreach=False, fused=None)
    scheduler, found = make(library.optim.lr_scheduler, optimiser), []
    for _ in range(12):
        optimiser.step()
        scheduler.step()
        found.append(scheduler.get_last_lr()[0])
    return found


@pytest.mark.parametrize('make', [
    lambda s, o: s.ConstantLR(o, 0.5, 3), lambda s, o: s.PolynomialLR(o, 6, 2.0),
    lambda s, o: s.MultiplicativeLR(o, lambda e: 0.9),
    lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    lambda s, o: s.SequentialLR(o, [s.LinearLR(o, 0.1, total_iters=4), s.CosineAnnealingLR(o, 6)], [4])],
    ids=['constant', 'polynomial', 'multiplicative', 'restarts', 'sequential'])
def test_schedules(make):
    assert rates(gt, make) == pytest.approx(rates(torch, make), rel=1e-6, abs=1e-12)


def test_a_sequence_of_schedules_goes_on():
    def made():
        optimiser = gt.optim.SGD([gt.ones(1).requires_grad_()], lr=0.1)
        schedules = gt.optim.lr_scheduler
        return schedules.SequentialLR(optimiser, [schedules.ConstantLR(optimiser, 0.5, 9),
                                                  schedules.ExponentialLR(optimiser, 0.9)], [3])
    one, other = made(), made()
    for _ in range(5):
        one.step()
    other.load_state_dict(one.state_dict())
    other.optimizer.load_state_dict(one.optimizer.state_dict())
    one.step()
    other.step()
    assert one.get_last_lr() == other.get_last_lr() == [pytest.approx(0.1 * 0.9 ** 3)]


def gradients(library):
    x, y = (library.tensor(numbers(3, seed=k)).requires_grad_() for k in (1, 2))
    library.autograd.backward([(x * y).sum(), x * 3], [None, library.ones(3)])
    library.autograd.backward((x * y).sum(), inputs=[y])
    unused, = library.autograd.grad(x.sum(), [y], materialize_grads=True)
    return x.grad, y.grad, unused


def test_autograd_backward():
    for mine, its in zip(gradients(gt), gradients(torch)):
        close(mine, its)


def test_options_of_optimisers():
    for name in ('Adam', 'AdamW'):
        results = []
        for library in (gt, torch):
            x = library.tensor(numbers(4, seed=6)).requires_grad_()
            options = {'decoupled_weight_decay': True} if name == 'Adam' else {'capturable': False}
            options.update(lr=0.1, weight_decay=0.5, foreach=False, fused=False)
            optimiser = getattr(library.optim, name)([('x', x)], **options)
            for _ in range(3):
                optimiser.zero_grad()
                (x ** 3).sum().backward()
                optimiser.step()
            results.append(x)
        close(*results)


def cube(library):
    class Cube(library.autograd.Function):
        @staticmethod
        def forward(ctx, x, power):
            ctx.save_for_backward(x)
            ctx.power = power
            return x ** power

        @staticmethod
        def backward(ctx, gradient):
            x, = ctx.saved_tensors
            return gradient * ctx.power * x ** (ctx.power - 1), None

    return Cube.apply


def straight_through(library):
    class Rounded(library.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.round()

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 10

    return Rounded.apply


def two_results(library):
    class Both(library.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            index = x.argmax()
            ctx.mark_non_differentiable(index)
            ctx.save_for_backward(x, y)
            return x + y, x * y, index

        @staticmethod
        def backward(ctx, of_sum, of_product, of_index):
            x, y = ctx.saved_tensors
            return of_sum + of_product * y, of_sum + of_product * x

    return Both.apply


def custom_gradients(library):
    x, y = (library.tensor(numbers(3, 2, seed=k)).requires_grad_() for k in (1, 2))
    first, = library.autograd.grad(cube(library)(x, 3).sum(), x, create_graph=True)
    second, = library.autograd.grad(first.sum(), x)
    (straight_through(library)(x * 2) * y).sum().backward()
    once = x.grad.clone(), y.grad.clone()
    total, product, index = two_results(library)(x, y * 2)
    (product * product).sum().backward()  # nothing is computed from the sum
    scalar = library.tensor(2.0, requires_grad=True)
    cube(library)(scalar, 4).backward()
    row = library.tensor(numbers(4, seed=7)).requires_grad_()
    (cube(library)(row, 2) + row * 5).sum().backward()  # used elsewhere too
    with library.no_grad():
        plain = cube(library)(x, 2)
    assert not plain.requires_grad and not index.requires_grad and total.requires_grad
    return first, second, *once, x.grad, y.grad, total, product, index, scalar.grad, plain, row.grad


def test_functions_with_gradients_of_their_own():
    for mine, its in zip(custom_gradients(gt), custom_gradients(torch)):
        close(mine, its)


def test_a_function_may_be_used_many_times_and_forgotten():
    import gc
    x = gt.ones(1000, requires_grad=True)
    function = cube(gt)
    for _ in range(20):
        function(x, 2).sum().backward()
    gc.collect()
    before = len(gt.debug.get_tape())
    for _ in range(20):
        function(x, 2).sum().backward()
    gc.collect()
    assert len(gt.debug.get_tape()) == before
    assert x.grad.sum().item() == 80_000


def test_a_function_that_forgets_a_gradient():
    class Wrong(gt.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    x, y = gt.ones(2, requires_grad=True), gt.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match='incorrect number of gradients'):
        Wrong.apply(x, y).sum().backward()


@pytest.mark.parametrize('options', [
    {'add_bias_kv': True}, {'add_zero_attn': True}, {'add_bias_kv': True, 'add_zero_attn': True}])
def test_attention_to_more_than_the_keys(options):
    ours, theirs = (library.nn.MultiheadAttention(8, 2, batch_first=True, **options) for library in (gt, torch))
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict({key: value.numpy() for key, value in theirs.state_dict().items()})
    query, key = numbers(2, 3, 8, seed=1), numbers(2, 5, 8, seed=2)
    padding = np.array([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]], dtype=bool)
    for given in ({}, {'key_padding_mask': padding}):
        for weights in (True, False):
            results = []
            for library, layer in ((gt, ours), (torch, theirs)):
                masks = {name: library.tensor(mask) for name, mask in given.items()}
                q, k = library.tensor(query).requires_grad_(), library.tensor(key)
                output, found = layer(q, k, k, need_weights=weights, **masks)
                (output * output).sum().backward()
                results.append((output, found, q.grad))
            close(*results)


def test_embeddings_of_bounded_length():
    results = []
    for library in (gt, torch):
        layer = library.nn.Embedding(4, 3, max_norm=1.0)
        layer.load_state_dict({'weight': library.tensor(numbers(4, 3, seed=5) * 3)})
        output = layer(library.tensor([[0, 2], [2, 2]]))
        (output * output).sum().backward()
        results.append((output, layer.weight, layer.weight.grad))
    close(*results)
    assert repr(gt.nn.Embedding(4, 3, 1, 2.0)) == repr(torch.nn.Embedding(4, 3, 1, 2.0))
