"""Every optimiser and every schedule of torch.optim against GT's: parameters, rates, state dictionaries both ways, errors."""

import copy
import importlib
import inspect
import pickle
import warnings

import numpy as np
import pytest
import torch

import gt
from nn_support import close, numbers

SHAPES = (3, 4), (5,), (2, 3, 2), ()

# (class, options, steps): several options of each, and enough steps for corrections and thresholds to show
OPTIMISERS = [
    ('SGD', dict(lr=0.1)), ('SGD', dict(lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01)),
    ('SGD', dict(lr=0.1, momentum=0.9, nesterov=True, maximize=True)), ('SGD', dict(foreach=True)), ('SGD', dict(fused=False)),
    ('ASGD', dict(lr=0.1)), ('ASGD', dict(lr=0.1, t0=2, lambd=0.01, alpha=0.5, weight_decay=0.01, maximize=True)),
    ('Adagrad', dict(lr=0.1)), ('Adagrad', dict(lr=0.1, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.5)),
    ('Adadelta', dict()), ('Adadelta', dict(lr=0.5, rho=0.8, eps=1e-4, weight_decay=0.1, maximize=True)),
    ('Adam', dict(lr=0.1)), ('Adam', dict(lr=0.1, betas=(0.8, 0.9), weight_decay=0.1, amsgrad=True, maximize=True)),
    ('Adam', dict(lr=0.1, decoupled_weight_decay=True, weight_decay=0.1)), ('Adam', dict(capturable=False, foreach=False)),
    ('AdamW', dict(lr=0.1)), ('AdamW', dict(lr=0.1, amsgrad=True, weight_decay=0.3)),
    ('Adamax', dict(lr=0.1)), ('Adamax', dict(lr=0.1, betas=(0.7, 0.8), weight_decay=0.1, maximize=True, eps=1e-3)),
    ('NAdam', dict(lr=0.1)), ('NAdam', dict(lr=0.1, momentum_decay=0.1, weight_decay=0.1, decoupled_weight_decay=True)),
    ('NAdam', dict(lr=0.1, weight_decay=0.1, maximize=True)),
    ('RAdam', dict(lr=0.1)), ('RAdam', dict(lr=0.1, betas=(0.8, 0.9), weight_decay=0.1)),
    ('RAdam', dict(lr=0.1, weight_decay=0.1, decoupled_weight_decay=True, maximize=True)),
    ('RMSprop', dict(lr=0.1)), ('RMSprop', dict(lr=0.1, momentum=0.5, centered=True, weight_decay=0.1, alpha=0.8)),
    ('Rprop', dict(lr=0.1)), ('Rprop', dict(lr=0.1, etas=(0.3, 1.5), step_sizes=(0.05, 0.2), maximize=True)),
    ('Adafactor', dict(lr=0.1)), ('Adafactor', dict(lr=0.1, beta2_decay=-0.5, eps=(1e-4, 1e-2), d=1.5, weight_decay=0.1)),
    ('LBFGS', dict(lr=0.5, max_iter=4)), ('LBFGS', dict(line_search_fn='strong_wolfe', max_iter=6, history_size=3)),
    ('LBFGS', dict(lr=0.1, max_iter=3, history_size=2, max_eval=4)),
]


def parameters(library, shapes=SHAPES):
    found = [library.tensor(numbers(*shape, seed=k)) for k, shape in enumerate(shapes)]
    return [tensor.requires_grad_() for tensor in found]


def loss_of(library, params, k):
    """A loss whose gradients change with the parameters and the step, and change their signs."""
    total = 0.0
    for n, p in enumerate(params):
        goal = library.tensor(numbers(*p.shape, seed=100 + n + 7 * (k % 3)))
        total = total + ((p - goal) ** 2).sum() + (p * goal).sin().sum() * 0.3
    return total


def trained(library, optimizer, params, steps, start=0):
    for k in range(start, start + steps):
        def closure():
            optimizer.zero_grad()
            loss = loss_of(library, params, 0 if isinstance(optimizer, (gt.optim.LBFGS, torch.optim.LBFGS)) else k)
            loss.backward()
            return loss
        optimizer.step(closure)


def both(name, options, steps=6, shapes=SHAPES):
    made = []
    for library in (gt, torch):
        params = parameters(library, shapes)
        optimizer = getattr(library.optim, name)(params, **options)
        trained(library, optimizer, params, steps)
        made.append((optimizer, params))
    return made


@pytest.mark.parametrize('name, options', OPTIMISERS, ids=[f'{name}-{options}' for name, options in OPTIMISERS])
def test_optimiser(name, options):
    (ours, params), (theirs, expected) = both(name, options)
    close(params, expected, rtol=1e-3, atol=1e-4)
    assert repr(ours) == repr(theirs)
    mine, other = ours.state_dict(), theirs.state_dict()
    assert mine['param_groups'] == other['param_groups']
    assert list(mine['state']) == list(other['state'])
    for position, state in other['state'].items():
        missing = state.keys() ^ mine['state'][position].keys()
        assert missing <= ({'al'} if name == 'LBFGS' else set())
        for key, value in state.items():
            if isinstance(value, torch.Tensor) and name != 'LBFGS':
                close(mine['state'][position][key], value, rtol=1e-3, atol=1e-4)
    # A state of PyTorch goes on in GT, and one of GT in PyTorch.
    fresh, again = parameters(gt), parameters(torch)
    for new, old in zip(fresh, expected):
        new.data = gt.tensor(old.detach().numpy())
    for new, old in zip(again, params):
        new.data = torch.tensor(old.detach().numpy())
    loaded, back = getattr(gt.optim, name)(fresh, **options), getattr(torch.optim, name)(again, **options)
    loaded.load_state_dict(copy.deepcopy(other))
    back.load_state_dict(as_torch(mine))
    trained(gt, loaded, fresh, 2, 6)
    trained(torch, back, again, 2, 6)
    trained(torch, theirs, expected, 2, 6)
    close(fresh, expected, rtol=2e-3, atol=2e-4)
    close([gt.tensor(p.detach().numpy()) for p in again], expected, rtol=2e-3, atol=2e-4)


def as_torch(value):
    """A state dictionary of GT with PyTorch's tensors."""
    if isinstance(value, gt.Tensor):
        return torch.tensor(value.detach().numpy())
    if isinstance(value, dict):
        return {key: as_torch(of) for key, of in value.items()}
    return [as_torch(of) for of in value] if isinstance(value, list) else value


@pytest.mark.parametrize('name', ['SGD', 'RMSprop', 'Adam', 'Rprop', 'LBFGS'])
def test_gradients_that_are_kept_and_zeroed(name):
    """The state has values of its own: zeroing .grad in place does not change it."""
    options = {'SGD': dict(lr=0.1, momentum=0.9), 'LBFGS': dict(max_iter=2)}.get(name, dict(lr=0.1))
    made = []
    for library in (gt, torch):
        params = parameters(library, ((4,),))
        optimizer = getattr(library.optim, name)(params, **options)
        for k in range(4):
            def closure():
                optimizer.zero_grad(set_to_none=False)
                loss = loss_of(library, params, 0)
                loss.backward()
                return loss
            optimizer.step(closure)
            params[0].grad.zero_()
        made.append(params)
    close(*made, rtol=1e-3, atol=1e-4)


def test_muon():
    """It computes in bfloat16, so only about the same."""
    (ours, params), (theirs, expected) = both('Muon', dict(lr=0.1), 3, ((3, 4), (6, 5)))
    close(params, expected, rtol=0.05, atol=0.02)
    assert repr(ours) == repr(theirs)


def test_every_optimiser_is_tested():
    classes = {name for name, found in vars(torch.optim).items() if inspect.isclass(found)} - {'Optimizer'}
    assert classes - {name for name, _ in OPTIMISERS} == {'Muon', 'SparseAdam'}
    assert all(hasattr(gt.optim, name) for name in classes)


BAD = [
    'o.SGD([])', 'o.SGD(p)', 'o.SGD([p], lr=-1)', 'o.SGD([p], momentum=-1)', 'o.SGD([p], nesterov=True)', 'o.SGD([1])',
    'o.SGD([p * 2])', 'o.SGD([{"params": {p}}])', 'o.SGD([{"params": [p]}, {"params": [p]}])',
    'o.SGD([p]).add_param_group([p])', 'o.SGD([p]).add_param_group({"params": [p]})', 'o.SGD([("a", p), q])',
    'o.SGD([("a", p)]).add_param_group({"params": [q]})', 'o.SGD([p], foreach=True, fused=True)', 'o.SGD([p], weight_decay=-1)',
    'o.Adam([p], betas=(1.0, 0.9))', 'o.Adam([p], betas=(0.9, 1.5))', 'o.Adam([p], eps=-1)', 'o.Adam([p], lr=-1.0)',
    'o.AdamW([p], weight_decay=-0.1)', 'o.Adagrad([p], lr_decay=-1)', 'o.Adagrad([p], initial_accumulator_value=-1)',
    'o.Adadelta([p], rho=1.5)', 'o.Adadelta([p], eps=-1)', 'o.Adamax([p], betas=(-1, 0.5))', 'o.NAdam([p], momentum_decay=-1)',
    'o.RAdam([p], eps=-1)', 'o.RMSprop([p], alpha=-1)', 'o.RMSprop([p], momentum=-1)', 'o.Rprop([p], etas=(1.5, 1.2))',
    'o.Rprop([p], lr=-1)', 'o.ASGD([p], lr=-1)', 'o.LBFGS([{"params": [p]}, {"params": [q]}])', 'o.LBFGS([p], lr=-1)',
    'o.SparseAdam([p], lr=0)', 'o.SparseAdam([p], betas=(2, 2))', 'o.Adafactor([p], beta2_decay=0.5)', 'o.Adafactor([p], d=0.5)',
    'o.Adafactor([p], lr=-1)', 'o.Adafactor([p], eps=(-1, 1))', 'o.Muon([p], lr=-1)', 'o.Muon([T.zeros(3, requires_grad=True)])',
    'o.Muon([p], adjust_lr_fn="x")', 'o.Muon([p], momentum=-1)', 'o.Optimizer([p], {"lr": R})',
    'o.SGD([p]).load_state_dict({"state": {}, "param_groups": []})',
    'o.SGD([p]).load_state_dict({"state": {}, "param_groups": [{"params": [0, 1]}]})',
    's.StepLR(3, 1)', 's.LambdaLR(o.SGD([p]), [abs, abs])', 's.MultiplicativeLR(o.SGD([p]), 3)', 's.LinearLR(o.SGD([p]), 0)',
    's.LinearLR(o.SGD([p]), end_factor=2)', 's.ConstantLR(o.SGD([p]), 2)', 's.StepLR(o.SGD([p]), 3, last_epoch=2)',
    's.SequentialLR(o.SGD([p]), [], [])', 's.SequentialLR(a, [s.StepLR(a, 1)], [1])', 's.SequentialLR(a, [3], [])',
    's.SequentialLR(a, [s.ReduceLROnPlateau(a)], [])', 's.ChainedScheduler([])',
    's.ChainedScheduler([s.StepLR(a, 1), s.ReduceLROnPlateau(a)])', 's.ReduceLROnPlateau(a, factor=1.5)',
    's.ReduceLROnPlateau(a, mode="x")', 's.ReduceLROnPlateau(a, threshold_mode="x")', 's.ReduceLROnPlateau(a, min_lr=[1, 2])',
    's.ReduceLROnPlateau(3)', 's.CosineAnnealingWarmRestarts(a, 0)', 's.CosineAnnealingWarmRestarts(a, 1, 0)',
    's.CosineAnnealingWarmRestarts(a, 1).step(-1)', 's.CyclicLR(o.Adagrad([p]), 0.1, 0.2)', 's.CyclicLR(a, 0.1, 0.2, mode="x")',
    's.CyclicLR(a, [0.1, 0.2], 0.2)', 's.OneCycleLR(a, 0.1)', 's.OneCycleLR(a, 0.1, total_steps=-1)',
    's.OneCycleLR(a, 0.1, epochs=0, steps_per_epoch=3)', 's.OneCycleLR(a, 0.1, total_steps=10, pct_start=2.0)',
    's.OneCycleLR(a, 0.1, total_steps=10, anneal_strategy="x")', 's.OneCycleLR(o.Adagrad([p]), 0.1, total_steps=3)',
    'w.SWALR(a, 0.1, anneal_strategy="x")', 'w.SWALR(a, 0.1, anneal_epochs=-1)', 'w.get_ema_avg_fn(2)', 'w.get_ema_multi_avg_fn(-1)',
    'w.AveragedModel(T.nn.Linear(1, 1), avg_fn=1, multi_avg_fn=2)',
]


@pytest.mark.parametrize('expression', BAD)
def test_error(expression):
    found = []
    for library in (torch, gt):
        p, q = parameters(library, ((2, 2), (3, 2)))
        names = {'o': library.optim, 's': library.optim.lr_scheduler, 'w': library.optim.swa_utils, 'p': p, 'q': q, 'T': library,
                 'a': library.optim.SGD([p], lr=0.1, momentum=0.5), 'R': importlib.import_module(library.__name__ + '.optim.optimizer').required}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter('ignore')
                eval(expression, names)
            found.append((None, ''))
        except Exception as error:
            found.append((type(error), str(error).replace('torch.', 'gt.')))
    assert found[0][0] is not None, 'PyTorch accepts this'
    assert found[1] == found[0]


SCHEDULES = [
    ('LambdaLR', (lambda epoch: 0.9 ** epoch,), {}), ('MultiplicativeLR', (lambda epoch: 0.95,), {}), ('StepLR', (3,), {}),
    ('StepLR', (2, 0.5), {}), ('MultiStepLR', ([2, 5, 5, 9],), dict(gamma=0.5)), ('ConstantLR', (), {}),
    ('ConstantLR', (0.5, 3), {}), ('LinearLR', (), {}), ('LinearLR', (0.1, 0.8, 7), {}), ('ExponentialLR', (0.9,), {}),
    ('PolynomialLR', (), {}), ('PolynomialLR', (8, 2.0), {}), ('CosineAnnealingLR', (5,), {}), ('CosineAnnealingLR', (4, 0.01), {}),
    ('CosineAnnealingWarmRestarts', (4,), {}), ('CosineAnnealingWarmRestarts', (2, 2, 0.01), {}), ('CyclicLR', (0.01, 0.2, 3), {}),
    ('CyclicLR', (0.01, 0.2, 3, 2), dict(mode='triangular2')), ('CyclicLR', (0.01, 0.2, 3), dict(mode='exp_range', gamma=0.9)),
    ('CyclicLR', (0.01, 0.2, 3), dict(scale_fn=lambda x: 1 / (1 + x), scale_mode='iterations', cycle_momentum=False)),
    ('OneCycleLR', (0.3,), dict(total_steps=14)), ('OneCycleLR', (0.3,), dict(epochs=7, steps_per_epoch=2, three_phase=True)),
    ('OneCycleLR', (0.3,), dict(total_steps=14, anneal_strategy='linear', cycle_momentum=False)),
]


def scheduled(library, name, args, options, optimizer='SGD'):
    params = parameters(library, ((2,), (3,)))
    arguments = dict(lr=0.1, **({'momentum': 0.9} if optimizer == 'SGD' else {}))
    found = getattr(library.optim, optimizer)([{'params': params[0]}, {'params': params[1], 'lr': 0.05}], **arguments)
    return found, getattr(library.optim.lr_scheduler, name)(found, *args, **options)


def rates_of(optimizer):
    return [(group['lr'], group.get('momentum', 0), *group.get('betas', ())) for group in optimizer.param_groups]


def same_rates(ours, theirs):
    for mine, other in zip(rates_of(ours), rates_of(theirs), strict=True):
        assert mine == pytest.approx(other, rel=1e-12)


@pytest.mark.parametrize('name, args, options', SCHEDULES, ids=[f'{row[0]}-{k}' for k, row in enumerate(SCHEDULES)])
@pytest.mark.parametrize('optimizer', ['SGD', 'AdamW'])
@pytest.mark.filterwarnings('ignore')
def test_schedule(name, args, options, optimizer):
    (ours, mine), (theirs, other) = (scheduled(library, name, args, options, optimizer) for library in (gt, torch))
    for k in range(13):
        assert mine.get_last_lr() == pytest.approx(other.get_last_lr(), rel=1e-12)
        same_rates(ours, theirs)
        assert mine.state_dict().keys() == other.state_dict().keys()
        ours.step(), theirs.step()
        mine.step(), other.step()
        if k == 6:  # go on from PyTorch's state
            ours, mine = scheduled(gt, name, args, options, optimizer)
            mine.load_state_dict(copy.deepcopy(other.state_dict()))
            ours.load_state_dict(copy.deepcopy(theirs.state_dict()))
    if name not in ('CosineAnnealingWarmRestarts',):
        mine.step(4), other.step(4)
        same_rates(ours, theirs)


def sequences(library):
    """Composed schedules of a library."""
    s = library.optim.lr_scheduler
    return {
        'sequential': lambda o: s.SequentialLR(o, [s.LinearLR(o, 0.1, total_iters=3), s.CosineAnnealingLR(o, 5),
                                                   s.ExponentialLR(o, 0.5)], [3, 8]),
        'chained': lambda o: s.ChainedScheduler([s.ConstantLR(o, 0.5, 4), s.ExponentialLR(o, 0.9)]),
        'nested': lambda o: s.SequentialLR(o, [s.ChainedScheduler([s.LinearLR(o), s.StepLR(o, 2)]), s.StepLR(o, 2)], [4]),
        'swa': lambda o: library.optim.swa_utils.SWALR(o, [0.01, 0.02], anneal_epochs=4),
        'swa linear': lambda o: library.optim.swa_utils.SWALR(o, 0.01, anneal_epochs=4, anneal_strategy='linear'),
        'swa at once': lambda o: library.optim.swa_utils.SWALR(o, 0.01, anneal_epochs=0)}


@pytest.mark.parametrize('name', sequences(gt))
@pytest.mark.filterwarnings('ignore')
def test_composed_schedule(name):
    made = []
    for library in (gt, torch):
        params = parameters(library, ((2,), (3,)))
        optimizer = library.optim.SGD([{'params': params[0]}, {'params': params[1], 'lr': 0.05}], lr=0.1)
        made.append((optimizer, sequences(library)[name](optimizer)))
    (ours, mine), (theirs, other) = made
    for _ in range(12):
        np.testing.assert_allclose([rates[0] for rates in rates_of(ours)], [rates[0] for rates in rates_of(theirs)], rtol=1e-12)
        np.testing.assert_allclose(mine.get_last_lr(), other.get_last_lr(), rtol=1e-12)
        assert mine.state_dict().keys() == other.state_dict().keys()
        ours.step(), theirs.step()
        mine.step(), other.step()
    mine.load_state_dict(copy.deepcopy(other.state_dict()))
    assert mine.state_dict() == other.state_dict()


@pytest.mark.parametrize('options', [{}, dict(mode='max', threshold_mode='abs'), dict(cooldown=2, min_lr=[0.01, 0.02], factor=0.5),
                                     dict(threshold=0.1, eps=0.01)])
def test_plateau(options):
    (ours, mine), (theirs, other) = (scheduled(library, 'ReduceLROnPlateau', (), {'patience': 1, **options})
                                     for library in (gt, torch))
    for metric in (3, 2, 2, 2, 2, 1, 1, 1.01, 1, 1, 1, 0.5, 0.6, 0.7, 0.8):
        mine.step(gt.tensor(float(metric))), other.step(torch.tensor(float(metric)))
        assert rates_of(ours) == rates_of(theirs) and mine.get_last_lr() == other.get_last_lr()
        assert mine.state_dict() == other.state_dict()


def test_every_schedule_is_tested():
    module = torch.optim.lr_scheduler
    classes = {name for name, found in vars(module).items() if inspect.isclass(found) and issubclass(found, module.LRScheduler)}
    tested = {name for name, *_ in SCHEDULES} | {'SequentialLR', 'ChainedScheduler', 'ReduceLROnPlateau', 'LRScheduler', '_LRScheduler'}
    assert classes - tested == set()


def test_order_of_steps_is_checked():
    optimizer, scheduler = scheduled(gt, 'StepLR', (1,), {})
    with pytest.warns(UserWarning, match='before `optimizer.step'):
        scheduler.step()
    with pytest.warns(UserWarning, match='get_last_lr'):
        scheduler.get_lr()


def test_arguments_of_hooks():
    found = []
    for library in (gt, torch):
        seen = []
        optimizer = library.optim.SGD(parameters(library, ((2,),)), lr=0.1)
        optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append((args[0] is o, len(args), list(kwargs))))
        optimizer.register_step_pre_hook(lambda o, args, kwargs: ((o, lambda: 7), {}))
        seen.append(optimizer.step())
        seen.append(optimizer.step(lambda: 3))
        found.append(seen)
    assert found[0] == found[1] == [(True, 1, []), 7, (True, 2, []), 7]


def test_hooks_of_steps():
    params, calls = parameters(gt, ((2,),)), []
    optimizer = gt.optim.SGD(params, lr=0.1)
    handles = [optimizer.register_step_pre_hook(lambda o, args, kwargs: calls.append('before')),
               optimizer.register_step_post_hook(lambda o, args, kwargs: calls.append('after')),
               gt.optim.optimizer.register_optimizer_step_pre_hook(lambda o, args, kwargs: calls.append('before all')),
               gt.optim.optimizer.register_optimizer_step_post_hook(lambda o, args, kwargs: calls.append('after all'))]
    optimizer.step()
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert calls == ['before all', 'before', 'after', 'after all']
    optimizer.register_state_dict_pre_hook(lambda o: calls.append('save'))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, 'extra': 1})
    optimizer.register_load_state_dict_pre_hook(lambda o, state: calls.append(state['extra']))
    optimizer.register_load_state_dict_post_hook(lambda o: calls.append('loaded'))
    optimizer.load_state_dict(optimizer.state_dict())
    assert calls[4:] == ['save', 1, 'loaded']


def test_an_optimiser_of_ones_own():
    """A subclass with its own step(), as scripts write them."""
    class Own(gt.optim.Optimizer):
        def __init__(self, params, lr=gt.optim.optimizer.required):
            super().__init__(params, dict(lr=lr))

        @gt.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group['params']:
                    if p.grad is not None:
                        state = self.state[p]
                        state['step'] = state.get('step', 0) + 1
                        p.add_(p.grad * -group['lr'])

    params, calls = parameters(gt, ((2,),)), []
    with pytest.raises(ValueError, match="didn't specify a value of required optimization parameter lr"):
        Own(params)
    optimizer = Own(params, lr=0.5)
    optimizer.register_step_post_hook(lambda o, args, kwargs: calls.append(1))
    before = params[0].detach().numpy()
    params[0].square().sum().backward()
    optimizer.step()
    np.testing.assert_allclose(params[0].detach().numpy(), before - before, atol=1e-6)
    assert calls == [1]


def test_names_of_parameters():
    for library in (gt, torch):
        model = library.nn.Linear(2, 3)
        optimizer = library.optim.SGD(model.named_parameters(), lr=0.1)
        assert optimizer.param_groups[0]['param_names'] == ['weight', 'bias']
        assert optimizer.state_dict()['param_groups'][0]['param_names'] == ['weight', 'bias']


def test_differentiable_is_refused():
    with pytest.raises(NotImplementedError, match='differentiable=True is not supported'):
        gt.optim.SGD(parameters(gt), differentiable=True)


def test_sparse_adam_refuses_dense_gradients():
    for library in (gt, torch):
        params = parameters(library, ((2, 2),))
        optimizer = library.optim.SparseAdam(params)
        params[0].sum().backward()
        with pytest.raises(RuntimeError, match='SparseAdam does not support dense gradients, please consider Adam instead'):
            optimizer.step()


def test_rate_as_a_tensor():
    for name in ('SGD', 'AdamW'):
        made = []
        for library in (gt, torch):
            params = parameters(library)
            optimizer = getattr(library.optim, name)(params, lr=library.tensor(0.1))
            scheduler = library.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
            for k in range(5):
                trained(library, optimizer, params, 1, k)
                scheduler.step()
            made.append(params)
        close(*made, rtol=1e-3, atol=1e-4)


def test_pickling_and_copying():
    params = parameters(gt, ((2,),))
    optimizer = gt.optim.Adam(params)
    params[0].sum().backward()
    optimizer.step()
    again = pickle.loads(pickle.dumps(optimizer))
    assert again.state_dict()['param_groups'] == optimizer.state_dict()['param_groups']
    other = copy.deepcopy(optimizer)
    assert list(other.state_dict()['state'][0]) == ['step', 'exp_avg', 'exp_avg_sq']


# ---- averages of models ----------------------------------------------------------------------------------------


@pytest.mark.parametrize('kind', ['mean', 'ema', 'multi ema', 'multi mean', 'buffers'])
def test_averaged_model(kind):
    made, state = [], None
    for library in (torch, gt):
        utils = library.optim.swa_utils
        options = {'mean': {}, 'ema': {'avg_fn': utils.get_ema_avg_fn(0.9)}, 'multi ema': {'multi_avg_fn': utils.get_ema_multi_avg_fn(0.9)},
                   'multi mean': {'multi_avg_fn': utils.get_swa_multi_avg_fn()}, 'buffers': {'use_buffers': True}}[kind]
        net = library.nn.Sequential(library.nn.Linear(3, 4), library.nn.BatchNorm1d(4))
        state = state or {key: value.clone().numpy() for key, value in net.state_dict().items()}
        net.load_state_dict({key: library.tensor(value) for key, value in state.items()})
        average = utils.AveragedModel(net, **options)
        optimizer = library.optim.SGD(net.parameters(), lr=0.1)
        for k in range(4):
            x = library.tensor(numbers(5, 3, seed=k))
            optimizer.zero_grad()
            net(x).sin().sum().backward()
            optimizer.step()
            average.update_parameters(net)
        utils.update_bn([library.tensor(numbers(5, 3, seed=20 + k)) for k in range(3)], average)
        made.append(average)
    assert list(made[1].state_dict()) == list(made[0].state_dict())
    for (name, mine), other in zip(made[1].state_dict().items(), made[0].state_dict().values()):
        close(mine, other, rtol=1e-3, atol=1e-5)
    again = gt.optim.swa_utils.AveragedModel(made[1].module)
    again.load_state_dict(made[0].state_dict())
    again.update_parameters(made[1].module)
    assert again.n_averaged.item() == 5
