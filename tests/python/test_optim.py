"""Optimisers and schedules against PyTorch, and whole trainings: the same losses from the same weights."""

import copy
import math

import numpy as np
import pytest
import torch

import gt
from nn_support import close, numbers

OPTIMISERS = [
    ('SGD', {'lr': 0.1}), ('SGD', {'lr': 0.1, 'momentum': 0.9}),
    ('SGD', {'lr': 0.1, 'momentum': 0.9, 'nesterov': True}),
    ('SGD', {'lr': 0.1, 'momentum': 0.8, 'dampening': 0.3, 'weight_decay': 0.1}),
    ('SGD', {'lr': 0.01, 'weight_decay': 0.1, 'maximize': True}),
    ('Adam', {'lr': 0.05}), ('Adam', {'lr': 0.05, 'betas': (0.7, 0.9), 'eps': 1e-3, 'weight_decay': 0.1}),
    ('Adam', {'lr': 0.05, 'amsgrad': True}), ('Adam', {'lr': 0.01, 'maximize': True}),
    ('AdamW', {'lr': 0.05}), ('AdamW', {'lr': 0.05, 'weight_decay': 0.3, 'amsgrad': True}),
    ('RMSprop', {'lr': 0.05}), ('RMSprop', {'lr': 0.05, 'alpha': 0.8, 'momentum': 0.9, 'weight_decay': 0.1}),
    ('RMSprop', {'lr': 0.05, 'centered': True, 'momentum': 0.5}), ('RMSprop', {'lr': 0.01, 'maximize': True}),
    ('Adagrad', {'lr': 0.1}), ('Adagrad', {'lr': 0.1, 'lr_decay': 0.1, 'weight_decay': 0.1, 'eps': 1e-3}),
    ('Adagrad', {'lr': 0.1, 'initial_accumulator_value': 0.5}),
]


def regression(module, seed=0):
    """Two parameters, one that is never used, and a loss of the first two that changes with the step."""
    parameters = [module.tensor(numbers(3, 4, seed=seed)).requires_grad_(),
                  module.tensor(numbers(4, seed=seed + 1)).requires_grad_(), module.ones(2).requires_grad_()]
    x, y = module.tensor(numbers(5, 3, seed=8)), module.tensor(numbers(5, 4, seed=9))

    def loss(step):
        return ((x * (1 + step % 3) @ parameters[0] + parameters[1] - y) ** 2).mean()

    return parameters, loss


def steps(optimiser, loss, count, start=0):
    for step in range(start, start + count):
        optimiser.zero_grad()
        loss(step).backward()
        optimiser.step()


@pytest.mark.parametrize('name, options', OPTIMISERS)
def test_optimisers_as_in_torch(name, options):
    results = []
    for module in (gt, torch):
        parameters, loss = regression(module)
        optimiser = getattr(module.optim, name)(parameters, **options)
        steps(optimiser, loss, 12)
        results.append((parameters, optimiser))
    (ours, optimiser), (theirs, expected) = results
    close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert ours[0].is_leaf and ours[0].requires_grad and gt.is_grad_enabled()
    mine, other = optimiser.state_dict(), expected.state_dict()
    assert mine['state'].keys() == other['state'].keys()
    for position, state in other['state'].items():
        for key, value in state.items():
            close(gt.as_tensor(mine['state'][position][key]), torch.as_tensor(value), rtol=1e-3, atol=1e-5)
    for group, expected_group in zip(mine['param_groups'], other['param_groups'], strict=True):
        for key, value in group.items():
            assert expected_group[key] == value, key


@pytest.mark.parametrize('name, options', OPTIMISERS)
def test_optimisers_go_on_from_each_others_state(name, options):
    ours, our_loss = regression(gt)
    theirs, their_loss = regression(torch)
    mine, other = getattr(gt.optim, name)(ours, **options), getattr(torch.optim, name)(theirs, **options)
    steps(mine, our_loss, 3)
    steps(other, their_loss, 3)
    # load GT's state in PyTorch and PyTorch's in GT
    state = mine.state_dict()
    for values in state['state'].values():
        values.update({k: torch.tensor(v.numpy()) for k, v in values.items() if isinstance(v, gt.Tensor)})
    fresh, fresh_loss = regression(gt, seed=5)
    with torch.no_grad():
        for p, q, f in zip(theirs, ours, fresh):
            f.data = gt.tensor(p.detach().numpy())
            p.copy_(torch.tensor(q.detach().numpy()))
    continued = getattr(gt.optim, name)(fresh, lr=7.0)
    continued.load_state_dict(copy.deepcopy(other.state_dict()))
    other.load_state_dict(state)
    assert continued.param_groups[0]['lr'] == options['lr']
    for optimiser, loss in ((continued, fresh_loss), (other, their_loss), (mine, our_loss)):
        steps(optimiser, loss, 4, start=3)
    close(ours, theirs, rtol=1e-4, atol=1e-5)
    close(fresh, theirs, rtol=1e-4, atol=1e-5)


def test_groups():
    results = []
    for module in (gt, torch):
        parameters, loss = regression(module)
        optimiser = module.optim.SGD([{'params': parameters[0], 'lr': 0.05}, {'params': [parameters[1]]}], lr=0.1,
                                     momentum=0.9)
        optimiser.add_param_group({'params': parameters[2:], 'momentum': 0.0})
        steps(optimiser, loss, 5)
        results.append(parameters)
        assert [group['lr'] for group in optimiser.param_groups] == [0.05, 0.1, 0.1]
        assert optimiser.state_dict()['param_groups'][1]['params'] == [1]
    close(results[0], results[1], rtol=1e-4)


def test_zero_grad_closure_and_text():
    parameters, loss = regression(gt)
    optimiser = gt.optim.SGD(parameters, lr=0.1)
    loss(0).backward()
    optimiser.zero_grad(set_to_none=False)
    assert parameters[0].grad.abs().sum().item() == 0 and parameters[2].grad is None
    optimiser.zero_grad()
    assert parameters[0].grad is None

    def closure():
        optimiser.zero_grad()
        value = loss(0)
        value.backward()
        return value

    with gt.no_grad():
        first = optimiser.step(closure).item()
        assert optimiser.step(closure).item() < first and not gt.is_grad_enabled()
    assert repr(gt.optim.Adagrad([gt.ones(1)])) == repr(torch.optim.Adagrad([torch.ones(1)]))


@pytest.mark.parametrize('build, message', [
    (lambda o, p: o.SGD([], lr=0.1), 'empty parameter list'),
    (lambda o, p: o.SGD(p, lr=0.1), 'iterable of Tensors'),
    (lambda o, p: o.SGD([p], lr=-1), 'Invalid learning rate: -1'), (lambda o, p: o.SGD([p * 2]), 'non-leaf'),
    (lambda o, p: o.Adam([p], betas=(1.0, 0.9)), 'Invalid beta parameter at index 0: 1.0'),
    (lambda o, p: o.SGD([p], nesterov=True), 'Nesterov momentum requires a momentum and zero dampening'),
    (lambda o, p: o.SGD([3], lr=0.1), 'can only optimize Tensors'),
    (lambda o, p: o.SGD([{'params': p}, {'params': p}], lr=0.1), 'more than one parameter group'),
    (lambda o, p: o.RMSprop([p], alpha=-1), 'Invalid alpha value: -1'),
    (lambda o, p: o.Adagrad([p], lr_decay=-1), 'Invalid lr_decay value: -1'),
])
def test_wrong_options(build, message):
    for module in (gt, torch):
        with pytest.raises((ValueError, TypeError), match=message):
            build(module.optim, module.ones(2).requires_grad_())


def test_state_of_another_model():
    one, two = (gt.optim.SGD([gt.ones(k), gt.ones(k)], lr=0.1) for k in (1, 2))
    grouped = gt.optim.SGD([{'params': [gt.ones(1)]}, {'params': [gt.ones(1)]}], lr=0.1)
    with pytest.raises(ValueError, match='different number of parameter groups'):
        one.load_state_dict(grouped.state_dict())
    with pytest.raises(ValueError, match="doesn't match the size"):
        two.load_state_dict(gt.optim.SGD([gt.ones(1)], lr=0.1).state_dict())


# ---- schedules -------------------------------------------------------------------------------------------------

SCHEDULES = [
    ('StepLR', {'step_size': 3, 'gamma': 0.5}), ('MultiStepLR', {'milestones': [2, 5, 5, 9], 'gamma': 0.3}),
    ('ExponentialLR', {'gamma': 0.9}), ('CosineAnnealingLR', {'T_max': 6}),
    ('CosineAnnealingLR', {'T_max': 10, 'eta_min': 0.01}), ('LambdaLR', {'lr_lambda': lambda e: 1 / (1 + e)}),
    ('LambdaLR', {'lr_lambda': [lambda e: 0.9 ** e, lambda e: 1 - e / 40]}), ('LinearLR', {}),
    ('LinearLR', {'start_factor': 1.0, 'end_factor': 0.1, 'total_iters': 8}),
    ('OneCycleLR', {'max_lr': 0.5, 'total_steps': 21}),
    ('OneCycleLR', {'max_lr': [0.5, 0.7], 'epochs': 3, 'steps_per_epoch': 7, 'anneal_strategy': 'linear'}),
    ('OneCycleLR', {'max_lr': 0.5, 'total_steps': 25, 'three_phase': True, 'pct_start': 0.4}),
]


@pytest.mark.parametrize('name, options', SCHEDULES)
@pytest.mark.parametrize('optimiser', ['SGD', 'Adam'])
def test_schedules_as_in_torch(name, options, optimiser):
    rates = []
    for module in (gt, torch):
        groups = [{'params': [module.ones(1).requires_grad_()], 'lr': lr} for lr in (0.2, 0.1)]
        extra = {'momentum': 0.9} if optimiser == 'SGD' else {}
        made = getattr(module.optim, optimiser)(groups, lr=0.1, **extra)
        schedule = getattr(module.optim.lr_scheduler, name)(made, **options)
        rates.append([])
        for _ in range(20):
            rates[-1].append(schedule.get_last_lr())
            rates[-1].append([group['betas'][0] if 'betas' in group else group['momentum']
                              for group in made.param_groups])
            assert schedule.get_last_lr() == [group['lr'] for group in made.param_groups]
            made.step()
            schedule.step()
        again = getattr(module.optim.lr_scheduler, name)(made, **options)
        again.load_state_dict(schedule.state_dict())
        assert again.last_epoch == schedule.last_epoch == 20
    np.testing.assert_allclose(rates[0], rates[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize('options', [
    {'patience': 1}, {'patience': 0, 'mode': 'max', 'factor': 0.5, 'cooldown': 2}, {'patience': 1, 'min_lr': 0.05},
    {'patience': 1, 'threshold': 0.2, 'threshold_mode': 'abs'}, {'patience': 2, 'threshold': 0.3},
])
def test_plateaus_as_in_torch(options):
    metrics = [3.0, 2.5, 2.4, 2.39, 2.39, 2.5, 2.6, 1.0, 1.1, 1.0, 0.99, 0.98, -1.0, -1.1, -1.0, -1.2, 4.0, 4.0]
    rates = []
    for module in (gt, torch):
        optimiser = module.optim.SGD([module.ones(1).requires_grad_()], lr=0.4)
        schedule = module.optim.lr_scheduler.ReduceLROnPlateau(optimiser, **options)
        rates.append([])
        for metric in metrics:
            schedule.step(module.tensor(metric))
            rates[-1].append(schedule.get_last_lr()[0])
    assert rates[0] == pytest.approx(rates[1])


def test_schedules_go_on_and_refuse():
    optimiser = gt.optim.SGD([gt.ones(1)], lr=0.4)
    with pytest.raises(KeyError, match='initial_lr'):
        gt.optim.lr_scheduler.StepLR(optimiser, 2, last_epoch=3)
    with pytest.raises(ValueError, match='total_steps'):
        gt.optim.lr_scheduler.OneCycleLR(optimiser, 0.1)
    with pytest.raises(ValueError, match='momentum or beta1'):
        gt.optim.lr_scheduler.OneCycleLR(gt.optim.Adagrad([gt.ones(1)]), 0.1, total_steps=4)
    schedule = gt.optim.lr_scheduler.OneCycleLR(optimiser, 0.1, total_steps=4)
    with pytest.raises(ValueError, match='number of total steps'):
        for _ in range(5):
            schedule.step()
    with pytest.raises(ValueError, match='lr_lambdas'):
        gt.optim.lr_scheduler.LambdaLR(optimiser, [math.sqrt, math.sqrt])


# ---- trainings -------------------------------------------------------------------------------------------------


def mlp(module):
    return module.nn.Sequential(module.nn.Linear(20, 32), module.nn.ReLU(), module.nn.Linear(32, 5))


def transformer(module):
    nn = module.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(11, 16)
            self.places = nn.Parameter(module.zeros(6, 16))
            layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, activation='gelu', batch_first=True,
                                               norm_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2)
            self.norm = nn.LayerNorm(16)
            self.head = nn.Linear(16, 11, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, tokens):
            mask = module.ones(6, 6).triu(1) == 1
            x = self.encoder(self.tokens(tokens) + self.places, mask=mask)
            return self.head(self.norm(x)).transpose(1, 2)

    return Model()


def train(module, model, data, targets, optimiser, scheduler=None, clip=None):
    losses = []
    for step in range(30):
        loss = module.nn.functional.cross_entropy(model(data), targets)
        optimiser.zero_grad()
        loss.backward()
        if clip:
            module.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimiser.step()
        if scheduler:
            scheduler.step()
        losses.append(loss.item())
    return losses


def compare_training(build, data, targets, make_optimiser, make_scheduler=None, clip=None):
    theirs = build(torch)
    ours = build(gt)
    ours.load_state_dict(theirs.state_dict())
    losses = {}
    for module, model in ((gt, ours), (torch, theirs)):
        optimiser = make_optimiser(module.optim, model.parameters())
        scheduler = make_scheduler(module.optim.lr_scheduler, optimiser) if make_scheduler else None
        losses[module] = train(module, model, module.tensor(data), module.tensor(targets), optimiser, scheduler,
                               clip)
    np.testing.assert_allclose(losses[gt], losses[torch], rtol=1e-4)
    assert losses[gt][-1] < losses[gt][0] * 0.8
    for name, value in ours.state_dict().items():
        close(value, theirs.state_dict()[name], rtol=1e-3, atol=1e-4)


def test_an_mlp_learns_as_in_torch():
    torch.manual_seed(0)
    compare_training(mlp, numbers(64, 20), np.random.default_rng(1).integers(0, 5, 64),
                     lambda optim, p: optim.SGD(p, lr=0.2, momentum=0.9))


@pytest.mark.filterwarnings('ignore:enable_nested_tensor')
def test_a_transformer_learns_as_in_torch():
    torch.manual_seed(0)
    tokens = np.random.default_rng(2).integers(0, 11, (8, 7))
    compare_training(transformer, tokens[:, :-1], tokens[:, 1:],
                     lambda optim, p: optim.AdamW(p, lr=3e-3, eps=1e-6, weight_decay=0.1),
                     lambda schedule, o: schedule.CosineAnnealingLR(o, 30), clip=1.0)
