"""Linear layers and losses of classes, each one node of the tape: values, gradients and refusals are PyTorch's."""

import contextlib

import numpy
import pytest
import torch

import gt
import gt.nn.functional as F

SHAPES = [(3,), (4, 3), (2, 5, 3), (2, 2, 2, 3), (0, 3)]


def arrays(*shapes):
    random = numpy.random.default_rng(7)
    return [random.standard_normal(shape).astype('float32') for shape in shapes]


def leaves(n, values):
    return [n.tensor(v).requires_grad_() for v in values]


@pytest.mark.parametrize('shape', SHAPES)
@pytest.mark.parametrize('bias', [True, False])
def test_linear(shape, bias):
    values = arrays(shape, (5, 3), (5,))[:3 if bias else 2]
    results = []
    for n in (gt, torch):
        tensors = leaves(n, values)
        y = n.nn.functional.linear(*tensors)
        (y * y).sum().backward()
        results.append([y.detach().numpy()] + [t.grad.numpy() for t in tensors])
    for ours, theirs in zip(*results):
        numpy.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_gradient_of_the_weight_is_contiguous():
    w = gt.randn(5, 3, requires_grad=True)
    F.linear(gt.randn(4, 3), w).sum().backward()
    assert w.grad.stride() == (3, 1)


@pytest.mark.parametrize('wanted', [(0,), (1,), (2,), (0, 2)])
def test_only_some_gradients(wanted):
    values = arrays((4, 3), (5, 3), (5,))
    results = []
    for n in (gt, torch):
        tensors = [n.tensor(v).requires_grad_(k in wanted) for k, v in enumerate(values)]
        n.nn.functional.linear(*tensors).square().sum().backward()
        assert [t.grad is not None for t in tensors] == [k in wanted for k in range(3)]
        results.append([tensors[k].grad.numpy() for k in wanted])
    for ours, theirs in zip(*results):
        numpy.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_second_gradients():
    values = arrays((4, 3), (5, 3), (5,))
    results = []
    for n in (gt, torch):
        tensors = leaves(n, values)
        y = n.nn.functional.linear(*tensors).tanh().sum()
        first = n.autograd.grad(y, tensors, create_graph=True)
        second = n.autograd.grad(sum((g * g).sum() for g in first), tensors)
        results.append([g.detach().numpy() for g in (*first, *second)])
    for ours, theirs in zip(*results):
        numpy.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('which', [0, 1])
def test_a_saved_operand_that_was_overwritten(which):
    for n in (gt, torch):
        tensors = [t * 1 for t in leaves(n, arrays((4, 3), (5, 3)))]
        y = n.nn.functional.linear(*tensors).sum()
        tensors[which].add_(1)
        with pytest.raises(RuntimeError, match='modified by an inplace operation'):
            y.backward()


def test_a_saved_weight_that_was_written_through_data():
    results = []
    for n in (gt, torch):
        x, w = leaves(n, arrays((4, 3), (5, 3)))
        y = n.nn.functional.linear(x, w).sum()
        w.data[1:].mul_(3)
        y.backward()
        results.append(x.grad.numpy())
    numpy.testing.assert_allclose(*results, rtol=1e-5)


@pytest.mark.parametrize('shape', [(4, 3), (2, 4, 3)])
@pytest.mark.parametrize('which', [0, 1])
def test_other_memory_between_the_passes(shape, which):
    results = []
    for n in (gt, torch):
        tensors = leaves(n, arrays(shape, (5, 3)))
        y = n.nn.functional.linear(*tensors).sum()
        tensors[which].data = n.ones(*tensors[which].shape)
        y.backward()
        results.append([t.grad.numpy() for t in tensors])
    for ours, theirs in zip(*results):
        numpy.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_backward_twice():
    x, w = leaves(gt, arrays((4, 3), (5, 3)))
    y = F.linear(x, w).sum()
    y.backward()
    with pytest.raises(RuntimeError, match='second time'):
        y.backward()


def executed():
    ops = next(iter(gt.debug.get_worker_stats(wait=True).values()))['ops']
    return {op: row['count'] for op, row in ops.items() if op in ('matmul', 'permute', 'reshape', 'where', 'sum')}


def test_layers_in_a_scope_are_joined_as_well():
    """Nothing else is sent than outside."""
    values, classes = arrays((4, 3), (5, 3), (5,)), gt.arange(4) % 5
    results = []
    for scope in (contextlib.nullcontext(), gt.signal.context('block')):
        x, w, b = leaves(gt, values)
        before = executed()
        with scope:
            y = F.linear(x, w, b)
            loss = F.cross_entropy(y, classes)
            loss.backward()
        sent = {op: count - before.get(op, 0) for op, count in executed().items()}
        assert y.grad_fn.name() == 'AddmmBackward0' and 'NllLoss' in loss.grad_fn.name()
        results.append([sent, loss.item()] + [t.grad.tolist() for t in (x, w, b)])
    assert results[0] == results[1]


def test_linear_under_vmap_and_autocast():
    x, w, b = map(gt.tensor, arrays((6, 4, 3), (5, 3), (5,)))
    whole = gt.func.vmap(lambda row: F.linear(row, w, b))(x)
    numpy.testing.assert_allclose(whole.numpy(), F.linear(x, w, b).numpy(), rtol=1e-5, atol=1e-6)
    with gt.autocast('cpu', dtype=gt.bfloat16):
        assert F.linear(x, w, b).dtype == gt.bfloat16


@pytest.mark.parametrize('arguments, error', [
    (((4, 3), (5, 2)), RuntimeError), (((4, 3), (5, 3), (4,)), RuntimeError)])
def test_linear_refuses(arguments, error):
    for n in (gt, torch):
        with pytest.raises(error):
            n.nn.functional.linear(*map(n.tensor, arrays(*arguments)))


CLASSES = [((6, 4), (6,)), ((2, 4, 3), (2, 3)), ((4,), ())]


@pytest.mark.parametrize('reduction', ['mean', 'sum', 'none'])
@pytest.mark.parametrize('shape, classes', CLASSES)
@pytest.mark.parametrize('ignored', [-100, 2])
def test_cross_entropy(reduction, shape, classes, ignored):
    scores, = arrays(shape)
    target = numpy.random.default_rng(3).integers(0, 4, classes)
    results = []
    for n in (gt, torch):
        x, = leaves(n, [scores])
        loss = n.nn.functional.cross_entropy(x, n.tensor(target), reduction=reduction, ignore_index=ignored)
        (loss * loss).sum().backward()
        results.append((loss.detach().numpy(), x.grad.numpy()))
    for ours, theirs in zip(*results):
        numpy.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_classes_of_unknown_range_give_the_same():
    x = gt.tensor(arrays((6, 4))[0])
    known = gt.tensor([0, 1, 2, 3, 1, 0])
    unknown = (known.float() + 0.5).floor().long()
    for reduction in ('mean', 'sum', 'none'):
        a, b = (F.cross_entropy(x, t, reduction=reduction) for t in (known, unknown))
        numpy.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)


def test_second_gradient_of_cross_entropy():
    results = []
    for n in (gt, torch):
        x, = leaves(n, arrays((6, 4)))
        first, = n.autograd.grad(n.nn.functional.cross_entropy(x, n.tensor([0, 1, 2, 3, 1, 0])), x, create_graph=True)
        second, = n.autograd.grad((first * first).sum(), x)
        results.append(second.numpy())
    numpy.testing.assert_allclose(*results, rtol=1e-4, atol=1e-6)


def test_classes_that_were_overwritten():
    for n in (gt, torch):
        x, = leaves(n, arrays((6, 4)))
        target = n.tensor([0, 1, 2, 3, 1, 0])
        loss = n.nn.functional.cross_entropy(x, target)
        target.zero_()
        with pytest.raises(RuntimeError, match='modified by an inplace operation'):
            loss.backward()


def test_no_classes_at_all():
    empty = gt.zeros(0, 4), gt.zeros(0, dtype=gt.int64)
    assert numpy.isnan(F.cross_entropy(*empty).item())
    assert F.cross_entropy(*empty, reduction='sum').item() == 0


def test_gradients_that_an_optimiser_read_do_not_follow_later_changes():
    results = []
    for n in (gt, torch):
        p, = leaves(n, arrays((3,)))
        optimizer = n.optim.SGD([p], lr=0.1, momentum=0.9)
        for _ in range(3):
            (p * p).sum().backward()
            optimizer.step()
            p.grad.zero_()  # the state must not see this
        results.append(p.detach().numpy())
    numpy.testing.assert_allclose(*results, rtol=1e-6)


def test_calls_of_modules():
    class Doubles(gt.nn.Module):
        def forward(self, x, times=2):
            return x * times

    module, x = Doubles(), gt.ones(2)
    assert module(x, times=3).tolist() == [3, 3] and module(x).tolist() == [2, 2]
    module.forward = lambda x: x - 1
    assert module(x).tolist() == [0, 0]
    del module.forward
    handle = module.register_forward_hook(lambda module, inputs, output: output + 1)
    assert module(x, times=5).tolist() == [6, 6]
    handle.remove()
    assert module(x).tolist() == [2, 2]
    with pytest.raises(TypeError):
        module(x, unknown=1)
