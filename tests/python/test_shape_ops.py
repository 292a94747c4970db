"""Shapes: reshape, view, flatten, squeeze, transposes, flips, rolls, repeats, cat, stack, split, chunk."""

import numpy as np
import pytest
import torch

import gt
from support import DTYPES, Collector, check, raises, to_gt, values


def compare(cases, what, x, function, reference=None):
    """One expression on a GT tensor and on torch, contiguous and transposed."""
    reference = reference or function
    cases.same(what, lambda: function(to_gt(x)), reference(x))
    if x.dim() == 3:
        other = x.permute(2, 1, 0)
        base = to_gt(other.contiguous())
        cases.same(f"{what}, of a view", lambda: function(base.permute(2, 1, 0)), reference(x))


@pytest.mark.parametrize("dtype", DTYPES)
def test_methods(dtype):
    cases, x = Collector(), values((2, 3, 4), dtype, 1)
    for what, function in {
        "reshape(6, 4)": lambda t: t.reshape(6, 4),
        "reshape((4, -1))": lambda t: t.reshape((4, -1)),
        "reshape([24])": lambda t: t.reshape([24]),
        "flatten()": lambda t: t.flatten(),
        "flatten(1)": lambda t: t.flatten(1),
        "flatten(0, 1)": lambda t: t.flatten(0, 1),
        "flatten(-2)": lambda t: t.flatten(-2),
        "flatten(start_dim=1)": lambda t: t.flatten(start_dim=1),
        "ravel()": lambda t: t.ravel(),
        "unsqueeze(0)": lambda t: t.unsqueeze(0),
        "unsqueeze(-1)": lambda t: t.unsqueeze(-1),
        "unsqueeze(3)": lambda t: t.unsqueeze(3),
        "unsqueeze(-4)": lambda t: t.unsqueeze(-4),
        "transpose(0, 2)": lambda t: t.transpose(0, 2),
        "transpose(-1, -2)": lambda t: t.transpose(-1, -2),
        "permute(1, 2, 0)": lambda t: t.permute(1, 2, 0),
        "permute((2, 0, 1))": lambda t: t.permute((2, 0, 1)),
        "mT": lambda t: t.transpose(-2, -1),
        "expand": lambda t: t.unsqueeze(1).expand(2, 5, 3, 4),
        "expand with -1": lambda t: t.unsqueeze(1).expand(-1, 5, -1, -1),
        "flip(0)": lambda t: t.flip(0),
        "flip((0, 2))": lambda t: t.flip((0, 2)),
        "flip(-1)": lambda t: t.flip(-1),
        "roll(1, 0)": lambda t: t.roll(1, 0),
        "roll(-2, -1)": lambda t: t.roll(-2, -1),
        "roll(5)": lambda t: t.roll(5),
        "roll((1, 2), (0, 2))": lambda t: t.roll((1, 2), (0, 2)),
        "roll(100, 1)": lambda t: t.roll(100, 1),
        "repeat(2, 1, 3)": lambda t: t.repeat(2, 1, 3),
        "repeat(2, 1, 1, 2)": lambda t: t.repeat(2, 1, 1, 2),
        "repeat((1, 0, 1))": lambda t: t.repeat((1, 0, 1)),
        "squeeze of ones": lambda t: t[:1, :, :1].squeeze(),
        "squeeze(0)": lambda t: t[:1].squeeze(0),
        "squeeze(1) of no one": lambda t: t.squeeze(1),
        "squeeze(-1)": lambda t: t[..., :1].squeeze(-1),
        "squeeze((0, 2))": lambda t: t[:1, :, :1].squeeze((0, 2)),
    }.items():
        compare(cases, what, x, function)
    cases.finish()


def test_functions():
    cases, x = Collector(), values((2, 3, 4), "float32", 1)
    for name, arguments in [
        ("reshape", ((6, 4),)),
        ("flatten", ()),
        ("squeeze", ()),
        ("unsqueeze", (1,)),
        ("transpose", (0, 1)),
        ("permute", ((2, 1, 0),)),
        ("broadcast_to", ((5, 2, 3, 4),)),
        ("flip", ((0,),)),
        ("roll", (1, 0)),
        ("tril", ()),
        ("triu", (1,)),
    ]:
        cases.same(
            f"gt.{name}{arguments}",
            lambda: getattr(gt, name)(to_gt(x), *arguments),
            getattr(torch, name)(x, *arguments),
        )
    cases.finish()


def test_t_property():
    x = values((3, 5), "float32", 1)
    check(to_gt(x).T, x.T)
    check(to_gt(x).t(), x.t())
    check(to_gt(x)[0].T, x[0])
    assert to_gt(x).T.T.tolist() == x.tolist()


def test_0d_and_empty():
    cases = Collector()
    zero = torch.tensor(3.5)
    for what, function in {
        "reshape": lambda t: t.reshape(1, 1),
        "flatten": lambda t: t.flatten(),
        "squeeze": lambda t: t.squeeze(),
        "unsqueeze": lambda t: t.unsqueeze(0),
        "expand": lambda t: t.expand(3, 2),
        "repeat": lambda t: t.repeat(2),
        "permute": lambda t: t.permute(()),
        "clone": lambda t: t.clone(),
    }.items():
        compare(cases, f"0-d {what}", zero, function)
    empty = torch.zeros(0, 3)
    for what, function in {
        "reshape": lambda t: t.reshape(3, 0),
        "reshape with -1": lambda t: t.reshape(-1, 3),
        "flatten": lambda t: t.flatten(),
        "T": lambda t: t.T,
        "flip": lambda t: t.flip(0),
        "roll": lambda t: t.roll(1, 0),
        "repeat": lambda t: t.repeat(2, 2),
        "expand": lambda t: t.expand(4, 0, 3),
        "unsqueeze": lambda t: t.unsqueeze(2),
        "slice": lambda t: t[:, 1:],
    }.items():
        compare(cases, f"empty {what}", empty, function)
    cases.finish()


@pytest.mark.parametrize("function", ["cat", "stack", "concat", "concatenate"])
def test_joining(function):
    cases = Collector()
    parts = [values((2, 3), "float32", k) for k in range(3)]
    tensors = [to_gt(part) for part in parts]
    for axis in (0, 1, -1, -2) + ((2, -3) if function == "stack" else ()):
        wanted = getattr(torch, function)(parts, axis)
        cases.same(f"{function}(dim={axis})", lambda: getattr(gt, function)(tensors, dim=axis), wanted)
        cases.same(f"{function}(axis={axis})", lambda: getattr(gt, function)(tensors, axis=axis), wanted)
        cases.same(f"{function}(tuple, {axis})", lambda: getattr(gt, function)(tuple(tensors), axis), wanted)
    cases.finish()


def test_cat_of_different_sizes_and_empties():
    x, y = values((2, 3), "float32", 1), values((4, 3), "float32", 2)
    check(gt.cat([to_gt(x), to_gt(y)]), torch.cat([x, y]))
    check(gt.cat([gt.zeros(0, 3), to_gt(y), gt.zeros(0, 3)]), y)
    check(gt.cat([gt.tensor([]), to_gt(x[0])]), x[0])  # torch's old rule: a shape (0,) joins anything
    for dim in (1, -1):  # and dimensions are those of the others
        check(gt.cat([gt.tensor([]), to_gt(y), to_gt(y)], dim), torch.cat([torch.tensor([]), y, y], dim))
    check(gt.stack([gt.tensor(1), gt.tensor(2)]), torch.tensor([1, 2]))
    check(gt.cat([gt.zeros(1, k) for k in range(1, 300)], 1), torch.zeros(1, 299 * 300 // 2))


def test_split_and_chunk():
    cases = Collector()
    x = values((10, 4), "float32", 1)
    t = to_gt(x)
    for what, function in {
        "split(3)": lambda t: t.split(3),
        "split(5)": lambda t: t.split(5),
        "split(100)": lambda t: t.split(100),
        "split([2, 3, 5])": lambda t: t.split([2, 3, 5]),
        "split(2, 1)": lambda t: t.split(2, 1),
        "split(2, dim=-1)": lambda t: t.split(2, dim=-1),
        "chunk(3)": lambda t: t.chunk(3),
        "chunk(4, 0)": lambda t: t.chunk(4, 0),
        "chunk(2, -1)": lambda t: t.chunk(2, -1),
        "chunk(20)": lambda t: t.chunk(20),
        "chunk(7)": lambda t: t.chunk(7),
    }.items():
        got, wanted = function(t), function(x)
        cases.true(f"{what} gives a tuple of {len(wanted)}", isinstance(got, tuple) and len(got) == len(wanted))
        for k, (one, other) in enumerate(zip(got, wanted)):
            cases.same(f"{what}[{k}]", lambda: one, other)
    cases.true("gt.split", len(gt.split(t, 4)) == 3)
    cases.true("gt.chunk", len(gt.chunk(t, 5, dim=0)) == 5)
    cases.finish()


def test_tril_triu():
    x = values((4, 6), "float32", 1)
    for diagonal in range(-5, 7):
        check(gt.tril(to_gt(x), diagonal), torch.tril(x, diagonal), f"tril {diagonal}")
        check(to_gt(x).triu(diagonal=diagonal), torch.triu(x, diagonal), f"triu {diagonal}")


def test_eight_axes():
    x = values((2, 1, 3, 1, 2, 1, 2, 2), "float32", 1)
    t = to_gt(x)
    check(t.permute(7, 6, 5, 4, 3, 2, 1, 0) + 1, x.permute(7, 6, 5, 4, 3, 2, 1, 0) + 1)
    check(t.sum((0, 2, 4)), x.sum((0, 2, 4)))
    raises((ValueError, RuntimeError), lambda: t.unsqueeze(0), "8")
    raises((ValueError, RuntimeError), lambda: gt.zeros(1, 1, 1, 1, 1, 1, 1, 1, 1), "8")


def test_long_chains_of_views():
    x = torch.arange(720).reshape(2, 3, 4, 5, 6)
    t = gt.arange(720).reshape(2, 3, 4, 5, 6)
    check(
        t.permute(4, 2, 0, 1, 3)[::2, 1:].reshape(-1, 15).T[::3].flatten()[::7],
        x.permute(4, 2, 0, 1, 3)[::2, 1:].reshape(-1, 15).T[::3].flatten()[::7],
    )
    check(
        t.flip(0).transpose(1, 3)[:, 2].unsqueeze(1).expand(2, 3, 4, 3, 6).sum(1),
        x.flip(0).transpose(1, 3)[:, 2].unsqueeze(1).expand(2, 3, 4, 3, 6).sum(1),
    )


def test_bad_shapes_name_the_shapes():
    t = gt.zeros(3, 4)
    raises((ValueError, RuntimeError), lambda: t.reshape(5, 5), "5")
    raises((ValueError, RuntimeError), lambda: t.reshape(-1, 5))
    raises((ValueError, RuntimeError), lambda: t.reshape(-1, -1))
    raises((ValueError, RuntimeError), lambda: t.view(13), "13")
    raises((ValueError, RuntimeError), lambda: t.expand(3, 5), "5")
    raises((ValueError, RuntimeError), lambda: t.expand(4))
    raises((ValueError, RuntimeError, IndexError), lambda: t.permute(0, 0))
    raises((ValueError, RuntimeError, IndexError), lambda: t.permute(0))
    raises(IndexError, lambda: t.transpose(0, 2))
    raises(IndexError, lambda: t.unsqueeze(4))
    raises(IndexError, lambda: t.squeeze(2))
    raises(IndexError, lambda: t.flip(2))
    raises((ValueError, RuntimeError), lambda: gt.cat([]))
    raises((ValueError, RuntimeError), lambda: gt.cat([t, gt.zeros(3, 5)]), "4", "5")
    raises((ValueError, RuntimeError), lambda: gt.stack([t, gt.zeros(3, 5)]))
    raises(IndexError, lambda: gt.cat([t, t], 2))
    raises(TypeError, lambda: gt.cat([t, 1]))
    raises((ValueError, RuntimeError), lambda: t.split([1, 1]))
    raises((ValueError, RuntimeError), lambda: t.chunk(0))
    raises((ValueError, RuntimeError), lambda: t.repeat(2))
    raises((ValueError, RuntimeError), lambda: gt.tril(gt.zeros(3)))
    check(t, np.zeros((3, 4), np.float32), "after the refusals")
