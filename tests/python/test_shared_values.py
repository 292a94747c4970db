"""Objects that share a value: x.data and x.detach() with x, x.grad with the gradient that autograd keeps. As in PyTorch,
an in-place change of one changes the others. Each program runs in both libraries."""

import gc
import weakref

import numpy as np
import pytest
import torch

import gt


def leaf(library, *values):
    return library.tensor(values or [1.0, -2.0, 3.0], requires_grad=True)


def data_in_place(library):
    x = leaf(library)
    x.data.clamp_(min=0)
    x.data.mul_(2).add_(1)
    x.data[0] = 9
    return x


def data_kept(library):
    x = leaf(library)
    data = x.data
    with library.no_grad():
        x += 1
    data *= 3
    return x, data, x.data


def detached_both_ways(library):
    x = leaf(library)
    one, two = x.detach(), x.detach()
    one.zero_()
    with library.no_grad():
        x.add_(5)
    two.mul_(2)
    return x, one, two, one.detach()


def data_of_a_result(library):
    x = leaf(library)
    y = x * 2
    y.data.add_(100)
    y.sum().backward()
    return x.grad, y, library.tensor(y.requires_grad)


def other_data(library):
    x = leaf(library)
    before = x.data
    x.data = library.tensor([7.0, 8.0, 9.0])
    before.zero_()
    x.data.add_(1)
    return x, before


def gradient_in_place(library):
    x = leaf(library)
    (x * x).sum().backward()
    x.grad.mul_(0.5)
    x.grad[0] = 40.0
    x.grad += 1
    x.grad.data.clamp_(-10, 10)
    x.grad.data = x.grad.data * 3
    return x.grad


def gradient_zeroed_between_steps(library):
    x = leaf(library)
    for _ in range(3):
        (x * x).sum().backward()
        with library.no_grad():
            x -= 0.1 * x.grad
        x.grad.zero_()
    return x, x.grad


def gradient_of_a_past_step(library):
    x = leaf(library)
    (x * x).sum().backward()
    old = x.grad
    x.grad = None
    x.sum().backward()
    old.zero_()
    return x.grad, old


def gradient_detached(library):
    x = leaf(library)
    (x * x).sum().backward()
    x.grad.detach_()
    x.grad.detach().zero_()
    return x.grad


def initialised_by_data(library):
    layer = library.nn.Linear(3, 2)
    library.nn.init.constant_(layer.weight.data, 0.25)
    layer.bias.data.fill_(-1)
    return layer.weight, layer.bias


def state_in_place(library):
    ours, theirs = library.nn.BatchNorm1d(3), library.nn.BatchNorm1d(3)
    theirs(library.tensor([[1.0, 2.0, 3.0], [3.0, 5.0, 7.0]]))
    for value, other in zip(ours.state_dict().values(), theirs.state_dict().values()):
        value.copy_(other)
    return list(ours.state_dict().values())


def loaded_state_seen(library):
    layer = library.nn.Linear(1, 1)
    state = layer.state_dict()
    layer.load_state_dict({'weight': library.tensor([[3.0]]), 'bias': library.tensor([4.0])})
    return state['weight'], state['bias']


def moving_average(library):
    online, target = leaf(library), leaf(library, 0.0, 0.0, 0.0)
    for _ in range(2):
        target.data.copy_(target.data * 0.5 + online.data * 0.5)
    return target


PROGRAMS = [data_in_place, data_kept, detached_both_ways, data_of_a_result, other_data, gradient_in_place,
            gradient_zeroed_between_steps, gradient_of_a_past_step, gradient_detached, initialised_by_data,
            state_in_place, loaded_state_seen, moving_average]


@pytest.mark.parametrize('program', PROGRAMS, ids=lambda program: program.__name__)
def test_as_pytorch(program):
    ours, theirs = program(gt), program(torch)
    pairs = [(ours, theirs)] if isinstance(ours, gt.Tensor) else list(zip(ours, theirs))
    for mine, its in pairs:
        np.testing.assert_allclose(mine.detach().numpy(), its.detach().numpy(), rtol=1e-6)


@pytest.mark.parametrize('name, arguments', [
    ('zero_', ()), ('fill_', (1,)), ('normal_', ()), ('uniform_', ()), ('bernoulli_', ()), ('exponential_', ()),
    ('random_', (3,)), ('copy_', (3.0,)), ('add_', (1,))])
def test_a_leaf_is_not_changed_in_place(name, arguments):
    for library in (gt, torch):
        x = leaf(library)
        taken = tuple(library.tensor(a) if name == 'copy_' else a for a in arguments)
        with pytest.raises(RuntimeError, match='a leaf Variable that requires grad'):
            getattr(x, name)(*taken)
        with library.no_grad():
            assert getattr(x, name)(*taken) is x
        assert x.requires_grad and x.is_leaf


def test_clones_and_copies_are_apart():
    import copy
    x = gt.tensor([1.0, 2.0])
    others, same = [x.clone(), copy.deepcopy(x), x.data.clone()], copy.copy(x)
    x.zero_()
    assert all(other.tolist() == [1.0, 2.0] for other in others) and same.tolist() == [0.0, 0.0]


def test_sharing_keeps_nobody_alive():
    x = gt.nn.Parameter(gt.tensor([1.0, 2.0]))
    data, seen = x.data, weakref.ref(x)
    (x * x).sum().backward()
    gradient = x.grad
    x.kept = data  # no cycle
    del x
    gc.collect()
    assert seen() is None
    data.add_(1)
    gradient.add_(1)
    assert data.tolist() == [2.0, 3.0] and gradient.tolist() == [3.0, 5.0]
