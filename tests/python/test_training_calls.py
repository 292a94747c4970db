"""Calls of a training step that run without Python in between: updates of SGD and Adam, and layers. They must do what the Python
code does, and see every change that a program makes to a module between two calls."""

import copy
import inspect
import os

import pytest
import torch

import gt
from gt import _gt, nn
from gt.nn import functional as F

SGD, ADAM, ADAMW = gt.optim.SGD, gt.optim.Adam, gt.optim.AdamW


# ---- optimisers --------------------------------------------------------------------------------------------------


def train(make, options, prepare=lambda parameters: None, steps=4):
    """The values of parameters and of their states after some steps, from the same start."""
    gt.manual_seed(0)
    parameters = [nn.Parameter(gt.randn(3, 4)), nn.Parameter(gt.randn(4)), nn.Parameter(gt.randn(2))]
    kept = prepare(parameters)
    optimizer = make(parameters, **options)
    x = gt.randn(5, 3)
    for step in range(steps):
        optimizer.zero_grad()
        loss = ((x @ parameters[0] + parameters[1]).tanh() ** 2).sum()
        if step:
            loss = loss + parameters[2].sum()  # this one has its first gradient later than the others
        loss.backward()
        optimizer.step()
    del kept
    state = [value for p in parameters for _, value in sorted(optimizer.state[p].items())]
    return [v.tolist() if isinstance(v, gt.Tensor) else v for v in (*parameters, *state)]


@pytest.mark.parametrize('make, options', [
    (SGD, dict(lr=0.1)),
    (SGD, dict(lr=0.1, weight_decay=0.01)),
    (SGD, dict(lr=0.1, momentum=0.9)),
    (SGD, dict(lr=0.1, momentum=0.9, dampening=0.5, weight_decay=0.01)),
    (SGD, dict(lr=0.1, momentum=0.9, nesterov=True)),
    (SGD, dict(lr=0.1, momentum=0.9, maximize=True)),
    (SGD, dict(lr=1)),
    (ADAM, dict(lr=0.01)),
    (ADAM, dict(lr=0.01, weight_decay=0.1, betas=(0.8, 0.95), eps=1e-3)),
    (ADAM, dict(lr=0.01, amsgrad=True)),
    (ADAMW, dict(lr=0.01)),
    (ADAMW, dict(lr=0.01, maximize=True)),
])
@pytest.mark.parametrize('prepare', [lambda ps: None, lambda ps: [p.detach() for p in ps]], ids=['alone', 'shared memory'])
def test_updates_are_those_of_the_python_code(make, options, prepare, monkeypatch):
    found = train(make, options, prepare)
    monkeypatch.setattr(_gt, '_step', lambda optimizer: False)
    assert found == train(make, options, prepare)
    for name in ('_sgd', '_adam'):
        monkeypatch.setattr(_gt, name, lambda group, states: group['params'])
    assert found == train(make, options, prepare)


def test_an_update_uses_the_operators_of_a_subclass():
    calls = []

    class Watched(nn.Parameter):
        def __isub__(self, other):
            calls.append(other.tolist())
            return super().__isub__(other)

    p, q = Watched(gt.ones(2)), nn.Parameter(gt.ones(2))
    optimizer = SGD([p, q], lr=0.5)
    (p * 2 + q * 4).sum().backward()
    optimizer.step()
    assert calls == [[1.0, 1.0]]
    assert p.tolist() == [0.0, 0.0] and q.tolist() == [-1.0, -1.0]


def test_hooks_and_methods_of_an_optimizer_are_called():
    p, seen = nn.Parameter(gt.ones(1)), []
    optimizer = SGD([p], lr=0.5)
    p.sum().backward()
    optimizer.step()
    handles = [optimizer.register_step_pre_hook(lambda *args: seen.append('before')),
               optimizer.register_step_post_hook(lambda *args: seen.append('after')),
               gt.optim.optimizer.register_optimizer_step_pre_hook(lambda *args: seen.append('before all'))]
    optimizer.step()
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert seen == ['before all', 'before', 'after'] and p.item() == -0.5

    class Own(SGD):
        def _gt_update(self, group):
            seen.append('own')

        def step(self, closure=None):
            return super().step(closure)

    own = Own([p], lr=0.5)
    own.step()
    assert seen[3:] == ['own'] and p.item() == -0.5
    assert optimizer.step(lambda: 7) == 7 and p.item() == -1.0


def test_an_update_leaves_the_grad_mode_as_it_was():
    p = nn.Parameter(gt.ones(1))
    optimizer = SGD([p], lr=0.5)
    optimizer.param_groups[0]['params'].append(3)  # no tensor
    for enabled in (True, False):
        with gt.set_grad_enabled(enabled):
            with pytest.raises(TypeError):
                optimizer.step()
            assert gt.is_grad_enabled() is enabled
            with pytest.raises(TypeError):
                optimizer.zero_grad()


def test_an_update_of_a_view_writes_its_memory():
    memory = gt.zeros(4)
    p = memory[1:3].requires_grad_()
    optimizer = ADAMW([p], lr=0.5, weight_decay=0.0)
    for _ in range(2):
        optimizer.zero_grad()
        p.sum().backward()
        optimizer.step()
    assert memory[1:3].tolist() == p.tolist() and p.tolist()[0] < -0.9
    assert memory.tolist()[0] == memory.tolist()[3] == 0.0


@pytest.mark.parametrize('make', [SGD, ADAM])
def test_a_group_without_parameters_in_a_list_is_refused(make):
    optimizer = make([nn.Parameter(gt.ones(2))], lr=0.5)
    optimizer.param_groups[0]['params'] = [1.0]
    with pytest.raises(TypeError, match='must be tensors'):
        optimizer.step()
    del optimizer.param_groups[0]['params']
    with pytest.raises(KeyError, match='params'):
        optimizer.step()


def test_numbers_that_change_between_steps_are_used():
    p, q = nn.Parameter(gt.ones(1)), torch.nn.Parameter(torch.ones(1))
    ours, theirs = ADAMW([p], lr=0.1), torch.optim.AdamW([q], lr=0.1)
    for lr in (0.1, 0.2, 0.05):
        for optimizer, parameter in ((ours, p), (theirs, q)):
            optimizer.param_groups[0]['lr'] = lr
            optimizer.zero_grad()
            (parameter ** 2).sum().backward()
            optimizer.step()
    assert p.item() == pytest.approx(q.item(), rel=1e-6)
    assert ours.state[p]['step'] == 3.0


# ---- modules -----------------------------------------------------------------------------------------------------


def network(library=gt):
    model = library.nn.Sequential(library.nn.Linear(3, 4), library.nn.ReLU(), library.nn.Linear(4, 2))
    with library.no_grad():
        for k, p in enumerate(model.parameters()):
            p.copy_(library.arange(p.numel()).reshape(p.shape) * 0.1 - 0.3 + k)
    return model


def add_hook(library, model):
    model[1].register_forward_hook(lambda module, args, output: output * 2)


def add_hook_to_the_whole(library, model):
    model.register_forward_pre_hook(lambda module, args: (args[0] + 1,))


def replace_forward_of_the_module(library, model):
    model[0].forward = lambda input: input.new_ones(1, 4)


def replace_weight(library, model):
    model[0].weight = library.nn.Parameter(library.ones(4, 3))


def replace_table_entry(library, model):
    model[2]._parameters['bias'] = library.nn.Parameter(library.ones(2) * 9)


def remove_bias(library, model):
    model[2].bias = None


def hide_weight(library, model):
    model[2].__dict__['weight'] = library.ones(2, 4) * 7


def replace_child(library, model):
    model[1] = library.nn.Sigmoid()


def append_child(library, model):
    model.append(library.nn.ReLU())


def write_in_place(library, model):
    with library.no_grad():
        model[0].weight.mul_(3)


def set_in_place(library, model):
    model[1].inplace = True


def to_double(library, model):
    model.double().float()


def freeze(library, model):
    model.eval().requires_grad_(False)


@pytest.mark.parametrize('change', [
    add_hook, add_hook_to_the_whole, replace_forward_of_the_module, replace_weight, replace_table_entry, remove_bias, hide_weight,
    replace_child, append_child, write_in_place, set_in_place, to_double, freeze], ids=lambda change: change.__name__)
def test_a_change_of_a_module_is_seen_by_its_next_call(change):
    results = []
    for library in (gt, torch):
        model, x = network(library), library.arange(3.0).reshape(1, 3)
        before = [model(x).tolist() for _ in range(3)]
        change(library, model)
        after = [model(x).tolist() for _ in range(2)]
        results.append((before, after))
    for ours, theirs in zip(*results):
        assert ours == [[pytest.approx(row, rel=1e-5) for row in rows] for rows in theirs]


def test_a_change_of_a_class_is_seen_by_the_next_call(monkeypatch):
    model, x = network(), gt.arange(3.0).reshape(1, 3)
    plain = model(x).tolist()
    monkeypatch.setattr(nn.ReLU, 'forward', lambda self, input: input * 0)
    assert model(x).tolist() == model[2](gt.zeros(1, 4)).tolist() != plain
    monkeypatch.undo()
    assert model(x).tolist() == plain
    monkeypatch.setattr(nn.Linear, '__call__', lambda self, input: input.sum(), raising=False)
    assert model[:1](x).item() == 3.0
    monkeypatch.undo()
    assert model(x).tolist() == plain


@pytest.mark.parametrize('name', ['linear', 'relu'])
def test_a_function_of_the_programs_is_called(name, monkeypatch):
    model, x, calls = network(), gt.arange(3.0).reshape(1, 3), []
    plain, original = model(x).tolist(), getattr(F, name)

    def own(*args, **kwargs):
        calls.append(name)
        return original(*args, **kwargs)

    monkeypatch.setattr(F, name, own)
    assert model(x).tolist() == plain
    assert len(calls) == (2 if name == 'linear' else 1)
    monkeypatch.undo()
    model(x)
    assert len(calls) == (2 if name == 'linear' else 1)


def test_a_global_hook_is_called_and_removed():
    model, x, seen = network(), gt.arange(3.0).reshape(1, 3), []
    model(x)
    handle = nn.modules.module.register_module_forward_hook(lambda module, args, output: seen.append(type(module).__name__))
    model(x)
    handle.remove()
    model(x)
    assert seen == ['Linear', 'ReLU', 'Linear', 'Sequential']


def test_a_subclass_with_its_own_forward_and_a_copy():
    class Doubled(nn.Linear):
        def forward(self, input):
            return super().forward(input) * 2

    layer, x = Doubled(3, 2), gt.ones(1, 3)
    other = copy.deepcopy(layer)
    with gt.no_grad():
        other.weight.zero_()
    expected = (x @ layer.weight.T + layer.bias) * 2
    for _ in range(2):
        assert layer(x).tolist() == expected.tolist()
        assert other(x).tolist() == (other.bias * 2).reshape(1, 2).tolist()


def test_children_that_are_no_modules_and_mistakes():
    model = nn.Sequential(nn.Linear(3, 3))
    model._modules['1'] = lambda input: input * 0  # any callable
    assert model(gt.ones(1, 3)).tolist() == [[0.0, 0.0, 0.0]]
    model._modules['1'] = None
    with pytest.raises(TypeError, match='not callable'):
        model(gt.ones(1, 3))
    model._modules['1'] = model
    with pytest.raises(RecursionError):
        model(gt.ones(1, 3))
    del model._modules['1']
    with pytest.raises(TypeError):
        model()
    with pytest.raises(TypeError):
        model(gt.ones(1, 3), 2)
    assert model(input=gt.ones(1, 3)).shape == (1, 3)
    with pytest.raises(RuntimeError, match='mat1 and mat2 shapes cannot be multiplied'):
        model(gt.ones(1, 4))
    with pytest.raises(TypeError, match=r"argument 'input' \(position 1\) must be Tensor"):
        nn.Sequential(nn.ReLU())(3)


def test_a_child_that_adds_a_child():
    class Growing(nn.Module):
        def forward(self, input):
            model.append(nn.Identity())
            return input

    model = nn.Sequential(Growing())
    with pytest.raises(RuntimeError, match='changed size during iteration'):
        model(gt.ones(1))


# ---- lines -------------------------------------------------------------------------------------------------------


def test_operations_of_a_backward_pass_and_an_update_have_the_lines_that_called_them():
    first = inspect.currentframe().f_lineno
    p = nn.Parameter(gt.ones(2, 3))

    def hook(gradient):
        return gradient * 2  # line first + 4

    p.register_hook(hook)
    optimizer = SGD([p], lr=0.5)
    for _ in range(40):
        loss = p.exp().sum()  # first + 9
        optimizer.zero_grad()
        loss.backward()  # first + 11
        optimizer.step()  # first + 12
        loss.item()
    here = f'{os.path.basename(__file__)}:{first + 12}'
    steps = [step for path in gt.debug.get_hot_paths() for step in path['steps'] if step[1].endswith(here)]
    assert [op for op, _ in steps] == ['mul', 'sub']
    path = next(path['steps'] for path in gt.debug.get_hot_paths() if steps[0] in path['steps'])
    lines = [int(line.rpartition(':')[2]) - first for _, line in path]
    assert set(lines) == {4, 9, 11, 12}
    assert lines.index(4) > lines.index(11)  # the hook's own line, in the middle of the pass
