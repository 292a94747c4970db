"""gt.utils.checkpoint: the same gradients as without it and as in PyTorch, less memory, the same random numbers."""

import gc

import pytest
import torch
import torch.utils.checkpoint

import gt
from gt.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential
from nn_support import close, numbers
from support import raises


def layers(nn, width=6, dropout=0.0):
    parts = []
    for _ in range(3):
        parts += [nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width), nn.Tanh()]
    return nn.Sequential(*parts, nn.Dropout(dropout))


def both_models():
    theirs, ours = layers(torch.nn), layers(gt.nn)
    ours.load_state_dict({name: value.numpy() for name, value in theirs.state_dict().items()})
    return (gt, ours, gt.utils.checkpoint), (torch, theirs, torch.utils.checkpoint)


def results(loss, x, model):
    return [loss, x.grad] + [parameter.grad for parameter in model.parameters()]


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("segments", [0, 1, 2, 3, 5])
def test_gradients_are_those_of_pytorch(reentrant, segments):
    found = []
    for library, model, utils in both_models():
        x = library.tensor(numbers(4, 6)).requires_grad_()
        if segments:
            y = utils.checkpoint_sequential(model, segments, x, use_reentrant=reentrant)
        else:
            y = utils.checkpoint(model, x, use_reentrant=reentrant)
        loss = (y * y).sum()
        loss.backward()
        found.append(results(loss, x, model))
    for mine, its in zip(*found, strict=True):
        close(mine, its)


@pytest.mark.parametrize("reentrant", [True, False])
def test_dropout_drops_the_same_elements(reentrant):
    """Bit for bit the result of the pass without checkpoints; and the random numbers afterwards are not disturbed."""
    gt.manual_seed(1)
    model = layers(gt.nn, dropout=0.5)

    def run(call):
        model.zero_grad()
        gt.manual_seed(2)
        x = gt.ones(8, 6, requires_grad=True)
        y = call(model[:-1], call(model[-1:], x)) + gt.rand(8, 6)
        y = call(lambda t: gt.nn.functional.dropout(t, 0.3) * gt.randn(8, 6), y)
        before = gt.rand(3)
        (y * y).sum().backward()
        return [*results(y, x, model), before, gt.rand(3)]

    plain = run(lambda function, x: function(x))
    for mine, expected in zip(run(lambda function, x: checkpoint(function, x, use_reentrant=reentrant)), plain):
        assert gt.equal(mine, expected)


def test_only_parameters_need_gradients():
    x = gt.ones(2, 3)
    layer = gt.nn.Linear(3, 3)
    checkpoint(layer, x, use_reentrant=False).sum().backward()
    assert layer.weight.grad.tolist() == [[2] * 3] * 3
    layer.zero_grad()
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        y = checkpoint(layer, x, use_reentrant=True)
    assert not y.requires_grad
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        checkpoint(layer, gt.ones(2, 3, requires_grad=True))


def test_grad_keywords_and_structures():
    weight = gt.tensor([2.0, 3.0], requires_grad=True)
    x = gt.tensor([1.0, 4.0], requires_grad=True)

    def function(pair, *, scale, other=None):
        product = pair["x"] * weight
        return {"a": product.exp() * scale, "b": [product.sin(), 5]}

    result = checkpoint(function, {"x": x}, scale=2.0, use_reentrant=False)
    plain = function({"x": x}, scale=2.0)
    assert result["b"][1] == 5
    for key in (lambda r: r["a"].sum(), lambda r: (r["a"] * r["b"][0]).sum()):
        mine = gt.autograd.grad(key(result), [weight, x], retain_graph=True)
        for found, expected in zip(mine, gt.autograd.grad(key(plain), [weight, x], retain_graph=True)):
            assert gt.equal(found, expected)


def test_second_derivatives():
    def function(t):
        return (t.sin() * t.exp()).tanh()

    grads = []
    for call in (function, lambda t: checkpoint(function, t, use_reentrant=False)):
        x = gt.tensor([0.3, -0.7], requires_grad=True)
        (first,) = gt.autograd.grad(call(x).sum(), x, create_graph=True)
        (second,) = gt.autograd.grad((first * first).sum(), x)
        grads.append([first, second])
    for mine, its in zip(*grads):
        assert mine.tolist() == pytest.approx(its.tolist(), rel=1e-6)


def test_nested_checkpoints():
    model = layers(gt.nn)
    calls = []

    def inner(t):
        calls.append(1)
        return model[:6](t)

    def outer(t):
        return model[6:](checkpoint(inner, t, use_reentrant=False)).exp()

    found = []
    for call in (lambda x: model[6:](inner(x)).exp(), lambda x: checkpoint(outer, x, use_reentrant=False)):
        model.zero_grad()
        x = gt.ones(2, 6, requires_grad=True)
        loss = call(x).sum()
        loss.backward()
        found.append(results(loss, x, model))
    for mine, its in zip(*found):
        assert gt.equal(mine, its)
    assert len(calls) == 4  # without; forward, again for the outer region, again for the inner one


def test_a_graph_is_used_twice():
    x = gt.tensor([0.5, 1.5], requires_grad=True)
    y = checkpoint(lambda t: t.sin().exp(), x, use_reentrant=False).sum()
    y.backward(retain_graph=True)
    first = x.grad.clone()
    y.backward()
    assert gt.equal(x.grad, first * 2)
    raises(RuntimeError, y.backward, "a second time")


def test_arguments_that_change_afterwards():
    x = gt.ones(3)
    weight = gt.full((3,), 2.0, requires_grad=True)
    y = checkpoint(lambda t: t * weight, x, use_reentrant=False)
    x.add_(10)
    with pytest.raises(RuntimeError, match='modified by an inplace operation'):  # as in PyTorch
        y.sum().backward()


def test_without_gradients():
    layer = gt.nn.Linear(2, 2)
    with gt.no_grad():
        assert not checkpoint(layer, gt.ones(1, 2), use_reentrant=False).requires_grad
    assert not checkpoint(lambda t: t + 1, gt.ones(2), use_reentrant=False).requires_grad


def test_autocast_of_the_forward_pass():
    """backward() is called outside of autocast; what is computed again is cast as before."""
    weight = gt.tensor(numbers(4, 4, seed=1)).requires_grad_()
    x = gt.tensor(numbers(3, 4)).requires_grad_()

    def function(t):
        return (t @ weight).sin()

    found = []
    for call in (function, lambda t: checkpoint(function, t, use_reentrant=False)):
        with gt.autocast("cpu", dtype=gt.bfloat16):
            y = call(x)
        assert y.dtype == gt.bfloat16
        found.append(gt.autograd.grad(y.float().sum(), [weight, x]))
    for mine, its in zip(*found):
        assert gt.equal(mine, its)


def test_memory_is_freed():
    """The values in between are dropped after the forward pass."""

    def live():
        gc.collect()
        return sum(worker["used"] for worker in gt.debug.memory(wait=True)["workers"].values())

    def function(t):
        for _ in range(10):
            t = t.sin()
        return t

    x = gt.ones(100_000, requires_grad=True)
    used = []
    for call in (function, lambda t: checkpoint(function, t, use_reentrant=False)):
        before = live()
        y = call(x)
        used.append((live() - before) / (4 * x.numel()))
        y.sum().backward()
        del y
    assert used[0] >= 9 and used[1] <= 2, used


def test_functions_that_do_something_else():
    x = gt.ones(3, requires_grad=True)
    turns = []

    def more(t):
        turns.append(1)
        return t.sin().exp() if len(turns) % 2 else t.sin().exp().tanh()

    def other(t):
        turns.append(1)
        return (t.sin() if len(turns) % 2 else t.exp()).tanh()

    def wider(t):
        turns.append(1)
        return (t if len(turns) % 2 else gt.cat([t, t])).sin().exp().sum()

    for function, words in ((more, "number of operations"), (other, "another operation")):
        turns.clear()
        y = checkpoint(function, x, use_reentrant=False)
        raises(CheckpointError, y.sum().backward, words)
    turns.clear()
    raises(RuntimeError, checkpoint(wider, x, use_reentrant=False).backward)

    def failing(t):
        turns.append(1)
        if len(turns) > 1:
            raise KeyError("second run")
        return t.sin()

    turns.clear()
    raises(KeyError, checkpoint(failing, x, use_reentrant=False).sum().backward, "second run")


def test_arguments():
    x = gt.ones(3, requires_grad=True)
    raises(ValueError, lambda: checkpoint(gt.sin, x, use_reentrant=True, scale=1), "Unexpected keyword arguments: scale")
    raises(ValueError, lambda: checkpoint(gt.sin, x, use_reentrant=True, debug=True), "use_reentrant=False")
    raises(ValueError, lambda: checkpoint(gt.sin, x, use_reentrant=False, determinism_check="no"), "determinism_check")
    raises(ValueError, lambda: checkpoint_sequential([gt.sin], 1, x, use_reentrant=False, other=1), "other")
    entered = []

    class Context:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            entered.append(self.name)

        def __exit__(self, *exception):
            pass

    checkpoint(gt.sin, x, use_reentrant=False, context_fn=lambda: (Context("first"), Context("second"))).sum().backward()
    assert entered == ["first", "second"]


def test_signals_of_the_forward_pass(programs, tmp_path):
    """What is computed again is placed as the forward pass was."""
    config = tmp_path / "rows.yaml"
    config.write_text("rows: {shard: {axis: 0, workers: [0, 1]}}")
    output = programs.run("""
        import gt
        from gt.utils.checkpoint import checkpoint
        gt.gpu_workers(2)
        seen = []

        def function(t):
            made = gt.ones(8, 4)
            seen.append(made.placement)
            return (t * made).sin()

        with gt.signal.context('rows'):
            x = gt.ones(8, 4).requires_grad_()
            y = checkpoint(function, x, use_reentrant=False)
        y.sum().backward()
        print(len(seen), seen[0] == seen[1], 'split' in seen[0], x.grad.sum().item())
    """, GT_CONFIG=config)  # fmt: skip
    assert output.split()[:3] == ["2", "True", "True"]
