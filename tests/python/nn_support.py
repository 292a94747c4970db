"""The same module, function or training in GT and in PyTorch, and the comparison of what comes out."""

import numpy as np
import torch

import gt

TOLERANCE = dict(rtol=2e-4, atol=2e-5)


def numbers(*shape, seed=0, scale=1.0):
    """Normally distributed float32 values."""
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float32)


def pair(array, requires_grad=False):
    """An array as a tensor of GT and as one of PyTorch."""
    return gt.tensor(array, requires_grad=requires_grad), torch.tensor(array, requires_grad=requires_grad)


def close(ours, theirs, **tolerance):
    """Compare tensors, tuples of them, and Nones."""
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs):
            close(one, other, **tolerance)
    elif theirs is None:
        assert ours is None
    else:
        assert tuple(ours.shape) == tuple(theirs.shape)
        np.testing.assert_allclose(ours.numpy() if not ours.requires_grad else ours.detach().numpy(),
                                   theirs.detach().numpy(), **{**TOLERANCE, **tolerance})


def compare_functions(ours, theirs, *arrays, constants=(), **tolerance):
    """Compare two functions and their gradients at arrays; constants are passed on, without gradients."""
    mine, others = zip(*[pair(array, requires_grad=True) for array in arrays])
    my_constants, other_constants = zip(*[pair(array) for array in constants]) if constants else ((), ())
    out, expected = ours(*mine, *my_constants), theirs(*others, *other_constants)
    close(out, expected, **tolerance)
    first, first_expected = (out[0], expected[0]) if isinstance(expected, tuple) else (out, expected)
    weights = numbers(*first_expected.shape, seed=9)
    (first * gt.tensor(weights)).sum().backward()
    (first_expected * torch.tensor(weights)).sum().backward()
    for one, other in zip(mine, others):
        close(one.grad, other.grad, **tolerance)


def compare_modules(ours, theirs, *arrays, constants=(), **tolerance):
    """Copy PyTorch's weights to GT's module; compare outputs, gradients of inputs and parameters, then buffers."""
    ours.load_state_dict(theirs.state_dict())
    compare_functions(ours, theirs, *arrays, constants=constants, **tolerance)
    expected = dict(theirs.named_parameters())
    assert [name for name, _ in ours.named_parameters()] == list(expected)
    for name, parameter in ours.named_parameters():
        close(parameter.grad, expected[name].grad, **tolerance)
    for (name, buffer), (other_name, other) in zip(ours.named_buffers(), theirs.named_buffers(), strict=True):
        assert name == other_name
        close(buffer, other, **tolerance)


def as_torch(state):
    """A state_dict of GT for PyTorch."""
    return {name: torch.tensor(value.numpy()) for name, value in state.items()}
