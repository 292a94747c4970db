"""Functions whose arguments are those of torch by position and by name, and what inspect.signature says of them."""

import inspect

import pytest
import torch

import gt
from support import raises

WINDOWS = ["bartlett", "blackman", "hamming", "hann", "kaiser"]


@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name):
    ours, theirs = getattr(gt, name + "_window"), getattr(torch, name + "_window")
    parameters = inspect.signature(ours).parameters
    assert list(parameters)[:2] == ["window_length", "periodic"]
    assert not any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters.values())
    calls = [((9,), {}), ((8, False), {}), ((0,), {}), ((1,), {}), ((7,), {"periodic": False})]
    calls += {"kaiser": [((9, True, 5.0), {}), ((9, False), {"beta": 3.0})],
              "hamming": [((9, True, 0.6), {}), ((9, False), {"alpha": 0.5, "beta": 0.5})]}.get(name, [])
    for arguments, options in calls:
        torch.testing.assert_close(torch.from_numpy(ours(*arguments, **options).numpy()), theirs(*arguments, **options))
    assert ours(5, dtype=gt.float64).dtype == gt.float64 and ours(5, requires_grad=True).requires_grad
    raises(RuntimeError, lambda: ours(5, dtype=gt.int64), "floating point")
    raises(RuntimeError, lambda: ours(-1), "non-negative")
    raises(TypeError, lambda: ours(5, gamma=1))
    gt.set_default_dtype(gt.float64)
    try:
        assert ours(5).dtype == gt.float64
    finally:
        gt.set_default_dtype(gt.float32)


def test_einsum():
    assert list(inspect.signature(gt.einsum).parameters) == ["equation", "operands", "out"]
    a, b = gt.arange(6.0).reshape(2, 3), gt.arange(12.0).reshape(3, 4)
    expected = (a @ b).tolist()
    assert gt.einsum("ij,jk->ik", a, b).tolist() == gt.einsum("ij,jk", [a, b]).tolist() == expected
    assert gt.einsum(a, [0, 1], b, [1, 2], [0, 2]).tolist() == expected
    raises(ValueError, lambda: gt.einsum("ij,jk->ik"), "at least one operand")


def test_embedding_has_the_weight_first():
    """As torch.embedding; nn.functional.embedding has the indices first."""
    def run(T):
        weight = T.arange(8.0).reshape(4, 2).clone().requires_grad_()
        indices = T.tensor([[1, 3], [3, 0]])
        rows = [T.embedding(weight, indices), T.embedding(weight, indices, 3), T.embedding(weight, indices, -1, True),
                T.embedding(weight=weight, indices=indices, padding_idx=0, scale_grad_by_freq=False, sparse=False)]
        gradients = []
        for each in rows:
            each.sum().backward()
            gradients.append(weight.grad.tolist())
            weight.grad = None
        return [each.tolist() for each in rows], gradients
    assert run(gt) == run(torch)
    raises(RuntimeError, lambda: gt.embedding(gt.zeros(3), gt.tensor([0])), "2-D")
    raises(RuntimeError, lambda: gt.embedding(gt.zeros(3, 2), gt.tensor([0.0])), "indices")
