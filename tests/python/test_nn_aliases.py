"""Modules and optimisers share memory as PyTorch's do: state dictionaries, tied weights, .data, buffers, held gradients."""

import pytest
import torch

import gt


def states(T):
    layer = T.nn.Linear(2, 2)
    layer.load_state_dict({'weight': T.ones(2, 2), 'bias': T.zeros(2)})
    layer.weight.data[0].fill_(3.0)
    yield layer.weight
    layer.state_dict()['weight'][1] = 7.0
    yield layer.weight
    weight = layer.weight
    layer.load_state_dict({'weight': T.zeros(2, 2), 'bias': T.zeros(2)})
    yield weight
    T.nn.init.constant_(layer.weight, 2.0)
    yield weight


def ties(T):
    embedding, head, other = T.nn.Embedding(3, 2), T.nn.Linear(2, 3, bias=False), T.nn.Linear(2, 3, bias=False)
    head.weight, other.weight.data = embedding.weight, embedding.weight.data
    with T.no_grad():
        embedding.weight.zero_()
        embedding.weight[0] = 5.0
    yield head.weight
    yield other.weight
    shared = T.zeros(2)
    parameter = T.nn.Parameter(shared)
    shared[0] = 4.0
    yield parameter


def buffers(T):
    norm = T.nn.BatchNorm1d(2)
    mean, count = norm.running_mean, norm.num_batches_tracked
    norm(T.tensor([[1.0, 2.0], [3.0, 5.0]]))
    yield mean
    yield count


def updates(T):
    for name, options in (('SGD', dict(lr=0.5, momentum=0.9)), ('Adam', dict(lr=0.5)), ('Rprop', {}), ('ASGD', {}), ('Adafactor', {})):
        parameter = T.nn.Parameter(T.ones(3))
        optimizer, data, view = getattr(T.optim, name)([parameter], **options), parameter.data, parameter.detach()
        for _ in range(3):
            optimizer.zero_grad(set_to_none=False)
            (parameter * parameter).sum().backward()
            optimizer.step()
        yield data
        yield view
        yield parameter


def gradients(T):
    parameter = T.tensor([3.0, 4.0], requires_grad=True)
    (parameter * parameter).sum().backward()
    held = parameter.grad
    T.nn.utils.clip_grad_norm_([parameter], 1.0)
    yield held.clone()
    T.nn.utils.clip_grad_value_(parameter, 0.7)
    yield held.clone()
    T.optim.SGD([parameter]).zero_grad(set_to_none=False)
    yield held


def averages(T):
    net = T.nn.Sequential(T.nn.Linear(2, 1))
    T.nn.init.ones_(net[0].weight), T.nn.init.zeros_(net[0].bias)
    average = T.optim.swa_utils.AveragedModel(net)
    with T.no_grad():
        net[0].weight.mul_(10.0)
    yield average.module[0].weight.clone()
    average.update_parameters(net)
    yield average.module[0].weight
    vector = T.nn.utils.parameters_to_vector(net.parameters()).detach()
    T.nn.utils.vector_to_parameters(vector * 2, net.parameters())
    yield net[0].weight


@pytest.mark.parametrize('program', [states, ties, buffers, updates, gradients, averages], ids=lambda program: program.__name__)
def test_shared_memory(program):
    for k, (ours, theirs) in enumerate(zip(program(gt), program(torch), strict=True)):
        assert ours.tolist() == pytest.approx(theirs.tolist(), rel=1e-4) if ours.ndim < 2 else ours.tolist() == theirs.tolist(), k


def test_the_gradient_stays_the_same_object_when_a_module_changes_its_dtype():
    def run(n):
        module = n.nn.Linear(2, 2)
        module(n.ones(1, 2)).sum().backward()
        p, g, seen = module.weight, module.weight.grad, []
        for change in (module.half, module.double, module.float, lambda: module._apply(lambda t: t.clone())):
            change()
            seen.append((module.weight is p, p.grad is g, str(g.dtype).split(".")[1], str(p.dtype).split(".")[1], g.tolist()))
        module.zero_grad(set_to_none=False)
        return seen, g.tolist()

    assert run(gt) == run(torch)
