"""out= and input= of functions, as in PyTorch: what is resized, converted and refused."""

import inspect
import pickle
import warnings

import pytest
import torch

import gt
from support import check, raises, to_gt, values

X, Y = values((3, 4), "float32", 1), values((3, 4), "float32", 2)


def both(run):
    """The results of a function of (namespace, convert), in GT and in torch."""
    return run(gt, to_gt), run(torch, lambda t: t.clone())


@pytest.mark.parametrize("call", [
    lambda n, c, out: n.add(c(X), c(Y), out=out),
    lambda n, c, out: n.exp(c(X), out=out),
    lambda n, c, out: n.matmul(c(X), c(Y).T, out=out),
    lambda n, c, out: n.sum(c(X), 1, out=out),
    lambda n, c, out: n.cat([c(X), c(Y)], out=out),
    lambda n, c, out: n.where(c(X) > 0, c(X), c(Y), out=out),
    lambda n, c, out: n.linalg.norm(c(X), dim=1, out=out),
    lambda n, c, out: n.arange(5, out=out),
    lambda n, c, out: n.zeros(2, 3, out=out),
    lambda n, c, out: n.add(input=c(X), other=c(Y), alpha=2, out=out),
])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_out_is_the_result(call, dtype):
    """An empty tensor is resized; a wider dtype stays."""
    mine, theirs = gt.empty(0, dtype=getattr(gt, dtype)), torch.empty(0, dtype=getattr(torch, dtype))
    try:
        expected = call(torch, lambda t: t.clone(), theirs)
    except RuntimeError:  # matmul and norm do not convert
        return
    result = call(gt, to_gt, mine)
    assert result is mine and expected is theirs
    check(mine, theirs)


def test_out_of_another_shape_is_resized_with_a_warning():
    mine = gt.ones(2)
    with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
        gt.exp(to_gt(X), out=mine)
    check(mine, X.exp())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gt.exp(to_gt(X), out=mine)


def test_out_that_cannot_hold_the_result():
    raises(RuntimeError, lambda: gt.add(to_gt(X), 1, out=gt.zeros(3, 4, dtype=gt.int64)), "can't be cast")
    raises(RuntimeError, lambda: gt.gather(to_gt(X), 1, gt.zeros(3, 4, dtype=gt.int64), out=gt.zeros(3, 4).double()),
           "Expected out tensor to have dtype")
    raises(TypeError, lambda: gt.sort(to_gt(X), out=gt.zeros(3, 4)), "out")


def test_out_and_gradients():
    x = to_gt(X).requires_grad_()
    raises(RuntimeError, lambda: gt.exp(x, out=gt.zeros(3, 4)), "don't support automatic differentiation")
    with gt.no_grad():
        check(gt.exp(x, out=gt.zeros(3, 4)), X.exp())


def test_several_outputs():
    mine = gt.empty(0), gt.empty(0, dtype=gt.int64)
    result = gt.sort(to_gt(X), dim=1, out=mine)
    expected = X.sort(dim=1)
    assert result.values is mine[0] and result.indices is mine[1]
    check(mine[0], expected.values)
    check(mine[1], expected.indices)


def test_input_by_name():
    one, other = both(lambda n, c: n.softmax(input=c(X), dim=1))
    check(one, other)
    one, other = both(lambda n, c: n.clamp(input=c(X), min=0.5))
    check(one, other)


def test_functions_are_objects():
    assert pickle.loads(pickle.dumps(gt.exp)) is gt.exp
    assert gt.exp.__name__ == "exp" and "exp" in gt.exp.__doc__
    assert list(inspect.signature(gt.diff).parameters)[:3] == ["input", "n", "dim"]
    assert callable(gt.linalg.inv) and gt.linalg.inv.__module__ == "gt.linalg"


def test_second_derivatives_of_factors():
    """Rules that are written in Python: their results must depend on the operands."""
    def second(n, c):
        a = c((X[:, :3] + 4 * torch.eye(3)).double()).requires_grad_()  # small differences of large numbers
        lu = n.linalg.lu_factor_ex(a)[0]
        (first,) = n.autograd.grad((lu ** 3).sum(), a, create_graph=True)
        return n.autograd.grad((first ** 2).sum(), a)[0]
    check(*both(second), rtol=1e-3, atol=1e-3)

    def solved(n, c):
        l = c(X[:, :3].tril() + 4 * torch.eye(3)).requires_grad_()
        x = n.cholesky_solve(c(Y[:, :2]), l)
        (first,) = n.autograd.grad((x ** 2).sum(), l, create_graph=True)
        return n.autograd.grad((first ** 2).sum(), l)[0]
    check(*both(solved), rtol=1e-3, atol=1e-4)
