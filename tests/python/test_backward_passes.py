"""Which part of a graph a backward pass walks, and when operations are recorded: as in PyTorch."""

import gc

import numpy as np
import pytest
import torch

import gt
import gt.debug
from gt import _gt

LIBRARIES = [gt, torch]


def leaf(library, values):
    return library.tensor(values, requires_grad=True)


def same(function):
    """Check that function(library) returns the same arrays, or lists of them, with both libraries."""
    ours, theirs = ([np.asarray(None if value is None else value.detach()) for value in function(library)]
                    for library in LIBRARIES)
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs):
        assert mine.shape == other.shape
        if mine.dtype != object:
            np.testing.assert_allclose(mine, other, rtol=1e-6)
        else:
            assert mine == other


# ---- inputs ------------------------------------------------------------------------------------------------------


def test_grad_of_a_middle_leaves_the_rest_of_the_graph_alone():
    def stages(library):
        x, other = leaf(library, [1.0, 2.0]), leaf(library, [3.0, 4.0])
        h = x.exp()
        loss = (h * other).sum()
        (gradient,) = library.autograd.grad(loss, h)
        h.backward(gradient)
        return [gradient, x.grad, other.grad]
    same(stages)


def test_grad_twice_of_parts_that_have_nothing_in_common():
    def parts(library):
        x, y = leaf(library, [1.0, 2.0]), leaf(library, [3.0, 4.0])
        a, b = x.exp(), y.exp()
        loss = (a + b).sum()  # a sum saves no values, so a second pass is allowed
        first = library.autograd.grad(a.sum(), x)
        second = library.autograd.grad(b.sum(), y)
        return [*first, *second, loss]
    same(parts)


def test_grad_computes_only_what_was_asked_for():
    x, weight = leaf(gt, [[1.0, 2.0]]), leaf(gt, [[1.0], [2.0]])
    called = []
    weight.register_hook(called.append)
    loss = (x @ weight).sum()
    loss.backward(inputs=[x])
    assert x.grad is not None and weight.grad is None and not called


def test_grad_of_inputs_that_are_not_reached():
    x, unused = leaf(gt, [1.0]), leaf(gt, [1.0])
    y = (x * 2).sum()
    with pytest.raises(RuntimeError, match='not have been used in the graph'):
        gt.grad(y, [x, unused], retain_graph=True)
    assert gt.grad(y, [x, unused], retain_graph=True, allow_unused=True)[1] is None
    with pytest.raises(ValueError, match='non-empty inputs'):
        gt.grad(y, [])
    assert x.grad is None  # not even by accident


@pytest.mark.filterwarnings('ignore:The .grad attribute')  # of PyTorch's, at every look at h.grad
def test_backward_to_inputs():
    def chosen(library):
        x, y = leaf(library, [1.0, 2.0]), leaf(library, [3.0, 4.0])
        h = x * y
        h.sum().backward(inputs=[x, h], retain_graph=True)
        h.sum().backward(inputs=x)
        return [x.grad, h.grad, y.grad]
    same(chosen)


def test_a_retained_gradient_is_added_to_by_every_pass_that_comes_by():
    def retained(library):
        x, y = leaf(library, [1.0, 2.0]), leaf(library, [3.0, 4.0])
        h = x * y
        h.retain_grad()
        found = [*library.autograd.grad(h.sum(), x, retain_graph=True), *library.autograd.grad(h.exp().sum(), h)]
        return [*found, h.grad, x.grad]
    same(retained)


def test_backward_to_no_inputs_is_refused():
    x = leaf(gt, [1.0])
    for run in (lambda: x.sum().backward(inputs=[]), lambda: gt.autograd.backward(x.sum(), inputs=[])):
        with pytest.raises(RuntimeError, match='cannot be empty'):
            run()


def test_a_long_chain_with_inputs():
    x = leaf(gt, [1.0])
    y = x
    for _ in range(20000):
        y = y + 1.0
    assert gt.grad(y.sum(), x)[0].item() == 1


# ---- what is kept ------------------------------------------------------------------------------------------------


KEEPING = {
    'add': lambda x, y: x + y.detach() - x, 'mean': lambda x, y: x.mean(0),
    'views': lambda x, y: x.t()[0].reshape(1, -1), 'product': lambda x, y: x * y, 'quotient': lambda x, y: x / y,
    'square': lambda x, y: x * x,
}


@pytest.mark.parametrize('name', KEEPING)
def test_only_what_was_kept_can_be_used_up(name):
    """A second pass is an error only if the first one dropped saved values."""
    def twice(library):
        x, y = leaf(library, [[1.0, 2.0]]), leaf(library, [[3.0, 4.0]])
        total = KEEPING[name](x, y).sum()
        total.backward()
        try:
            total.backward()
        except RuntimeError:
            return [library.tensor(-1.0)]
        return [x.grad]
    same(twice)


def test_values_that_no_gradient_takes_are_not_kept():
    """The gradient of x times a constant does not need x: its memory is freed at once."""
    def tensors():
        gc.collect()
        gt.synchronize()
        return sum(client['tensors'] for client in gt.debug.memory(wait=True)['clients'].values())

    x, constant = leaf(gt, [[1.0, 2.0], [3.0, 4.0]]), gt.tensor([[2.0, 3.0], [4.0, 5.0]])
    before = tensors()
    total = ((x + 1.0) * constant @ constant / constant).sum()
    assert tensors() == before + 1  # the total
    total.backward()
    np.testing.assert_allclose(x.grad.numpy(), ((1 / constant) @ constant.t() * constant).numpy(), rtol=1e-6)


# ---- several outputs ---------------------------------------------------------------------------------------------


def test_backward_of_several_outputs_is_one_pass():
    def together(library):
        x = leaf(library, [1.0, 2.0])
        seen = []
        shared = x.exp()
        shared.register_hook(lambda gradient: seen.append(gradient) or gradient.clamp(max=3.0))
        library.autograd.backward([shared.sum(), (shared * 4).sum()])
        return [x.grad, *seen]
    same(together)


def test_backward_of_several_outputs_uses_them_all_up():
    x = leaf(gt, [1.0, 2.0])
    first, second = x.exp().sum(), x.sin().sum()
    gt.autograd.backward([first, second])
    for used in (first, second):
        with pytest.raises(RuntimeError, match='second time'):
            used.backward()
    with pytest.raises(RuntimeError, match='2 tensors and 1 gradients'):
        gt.autograd.backward([first, second], [None])


# ---- autograd.Function -------------------------------------------------------------------------------------------


def test_a_function_of_the_users_is_walked_again_with_other_gradients():
    def twice(library):
        class Split(library.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2, x * 3

            @staticmethod
            def backward(ctx, first, second):
                return first * 2 + second * 3

        x = leaf(library, [1.0, 2.0])
        a, b = Split.apply(x)
        total = a + b
        results = []
        for gradient in ([1.0, 1.0], [10.0, 20.0]):
            results += library.autograd.grad(total, x, library.tensor(gradient), retain_graph=True)
        results += library.autograd.grad(b, x, library.tensor([5.0, 5.0]), retain_graph=True)
        return results
    same(twice)


# ---- recording ---------------------------------------------------------------------------------------------------


def test_set_grad_enabled_decorates():
    for library in LIBRARIES:
        @library.set_grad_enabled(False)
        def off():
            return library.is_grad_enabled()

        assert library.is_grad_enabled() and off() is False and library.is_grad_enabled()


@pytest.mark.parametrize('library', LIBRARIES, ids=['gt', 'torch'])
def test_a_decorated_generator_is_in_the_mode_while_it_runs(library):
    log = []

    @library.no_grad()
    def steps():
        log.append(library.is_grad_enabled())
        try:
            log.append((yield 1))
        except KeyError:
            log.append(('thrown', library.is_grad_enabled()))
        try:
            yield 2
        finally:
            log.append('closed')
        return 'never'

    made = steps()
    assert next(made) == 1 and library.is_grad_enabled()
    assert made.throw(KeyError()) == 2 and library.is_grad_enabled()
    made.close()
    assert log == [False, ('thrown', False), 'closed']

    @library.no_grad()
    def returning():
        received = yield library.is_grad_enabled()
        return received

    made = returning()
    assert next(made) is False
    with pytest.raises(StopIteration) as end:
        made.send('value')
    assert end.value.value == 'value' and library.is_grad_enabled()


# ---- the tape ----------------------------------------------------------------------------------------------------


def test_the_tape_is_read_while_garbage_is_collected():
    """Reference cycles with tensors are collected in the middle of the walk."""
    class Cycle:
        def __init__(self, tensor):
            self.tensor, self.itself = tensor, self

    before = gc.get_threshold()
    kept = [leaf(gt, [float(k)]) for k in range(50)]
    gc.disable()
    for k in range(2000):
        Cycle(kept[k % 50] * 2.0)
    try:
        gc.set_threshold(1, 1, 1)
        gc.enable()
        tape = gt.debug.get_tape()
    finally:
        gc.set_threshold(*before)
        gc.enable()
    numbers = [entry[0] for entry in tape]
    assert numbers == sorted(set(numbers)) and len(numbers) >= 50


def test_data_of_another_client_makes_a_leaf_there():
    elsewhere = _gt.open_embedded(1)
    x = leaf(gt, [1.0, 2.0])
    _gt.use(elsewhere)
    try:
        x.data = gt.tensor([3.0, 4.0])
        assert x.requires_grad and x.is_leaf
        assert gt.grad((x * x).sum(), x)[0].tolist() == [6, 8]
        (x * x).sum().backward()
        assert x.grad.tolist() == [6, 8]
    finally:
        _gt.use(None)
        elsewhere.close()


def test_gradients_of_slices_are_added_to_their_part():
    """The work is that of the slices: zeros as large as the whole are made once, and the parts are written into them."""
    def run(library):
        x = library.arange(60.0).reshape(12, 5).requires_grad_()
        y = x * 0.1
        loss = sum((row * (k + 1)).sin().sum() for k, row in enumerate(y)) + (y[::2, 1:3] * y[1::2, 2:4]).sum()
        return x, loss

    def made():
        return next(iter(gt.debug.get_worker_stats(wait=True).values()))["ops"].get("full", {"count": 0})["count"]

    x, loss = run(gt)
    before = made()
    loss.backward()
    assert made() - before <= 2, "the first gradient, and the zeros"
    theirs, loss = run(torch)
    loss.backward()
    np.testing.assert_allclose(x.grad.numpy(), theirs.grad.numpy(), rtol=1e-5, atol=1e-6)
