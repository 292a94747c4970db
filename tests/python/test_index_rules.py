"""Subscripts that PyTorch reads in a way of its own: bytes as masks, lists as tuples, values of other dtypes."""

import numpy as np
import pytest
import torch

import gt

pytestmark = pytest.mark.filterwarnings("ignore:indexing with dtype", "ignore:Using a non-tuple sequence",
                                        "ignore:where received a uint8")

BYTES = [
    "y = v[byte([0, 1, 0, 1])]", "y = v[byte([0, 2, 0, 255])]", "v[byte([0, 1, 0, 1])] += 1", "y = x[(x > 5).byte()]",
    "y = x[:, byte([0, 1, 0, 1])]", "y = x[np.array([0, 1, 0], np.uint8)]", "y = x[np.array(1, np.uint8)]",
    "y = x[np.uint8(1)]", "y = x[byte(1)]", "y = x[byte(0)]", "y = x[byte(2), 0]", "x[byte(1)] = 5",
    "v[byte([0, 1, 0, 1])] = n.tensor([9., 8.])", "x[byte([0, 1, 0])] = n.ones(1, 4)", "x[byte([0, 1, 0]), n.tensor([0])] = 9",
    "w = x.clone().requires_grad_(); w[byte([0, 1, 1])].sum().backward(); y = w.grad",
    "y = x.index_put((byte([0, 1, 1]),), n.tensor(5.), accumulate=True)",
    "y = x.index_put((byte([0, 1, 1]),), n.arange(8.).view(2, 4))",
    # PyTorch fills with one value, which takes no bytes.
    "v[byte([0, 1, 0, 1])] = 9", "v[byte([0, 1, 0, 1])] = n.tensor(9.)", "v[byte([0, 1, 0, 1])] = n.tensor([9.])",
    "x[:, byte([0, 1, 0, 1])] = 9", "x[0, byte([0, 1, 0, 1])] = 9", "x[None, byte([0, 1, 0])] = 9", "x[(x > 5).byte()] = 9",
    "x.index_put_((byte([0, 1, 1]),), n.tensor(5.))", "y = x[byte([])]", "y = x[byte([0, 0, 0, 0])]",
]  # fmt: skip

LISTS = [
    "y = x[[[0, 1], [1, 2]]]", "y = x[[[0, 1]]]", "y = x[[[[0, 1]]]]", "y = x[[(0, 1), (1, 2)]]", "y = x[[[]]]", "y = x[[()]]",
    "y = x[[n.tensor(0), n.tensor(1)]]", "x[[n.tensor([0]), n.tensor([1])]] = 99", "y = x[list(n.where(x > 5))]",
    "s = [slice(None)] * 2; s[1] = 0; y = x[s]", "s = [slice(None)] * 2; s[1] = 0; x[s] = 5", "y = x[[x > 5]]", "x[[x > 5]] = 1",
    "y = x[[None]]", "y = x[[...]]", "y = x[[0, None]]", "y = x[[np.array([0, 1])]]", "y = x[[np.array(0), np.array(1)]]",
    "y = x[[range(2)]]", "y = x[[0, [1]]]", "y = x[[[0, 1], 2]]", "y = x[[[0, 1], slice(None)]]", "y = x[[0, n.tensor([1])]]",
    "y = x[[n.tensor([0, 1])]]", "y = x[[[True, False, True], [0, 1]]]", "y = x[[True, [False]]]", "y = x[[[0, 1]] * 31]",
    "w = x.clone().requires_grad_(); w[[[0, 1], [1, 1]]].sum().backward(); y = w.grad", "y = x[['a']]",
    # These are index tensors.
    "y = x[[0, 1]]", "y = x[[True, False, True]]", "y = x[[]]", "y = x[[0., 1.]]", "y = x[[[0, 1]] * 32]", "y = x[[[0]] * 33]",
    "y = x[range(2)]", "y = x[[np.int64(0), np.int64(1)]]", "y = x[np.array([[0, 1], [1, 2]])]", "y = x[np.array([0.])]",
]  # fmt: skip

DTYPES = [
    "x[[0, 1]] = n.ones(2, 4).double()", "x[[0, 1]] = n.tensor(1)", "x[[0, 1]] = n.tensor([1])", "x[[0, 1], 0] = n.arange(2)",
    "x[0, [0, 1]] = n.arange(2)", "x[n.tensor([0])] = n.arange(4)", "x[x > 5] = n.arange(6)", "x[x > 50] = n.ones(0).double()",
    "i[[0, 1]] = n.tensor(1.5)", "i[i > 5] = n.ones(6)", "x[(True,)] = n.arange(4)", "x[n.tensor(True)] = n.arange(4)",
    "x[x[:, 0] > 3, [0]] = n.tensor(4)", "x[1:][[0]] = n.arange(4)", "y = x.index_put((n.tensor([0]),), n.arange(4))",
    "y = x.index_put((n.tensor(0),), n.arange(4))", "x.index_put_((n.tensor([0]),), n.tensor([4]))",
    "x.index_put_((n.tensor([0]),), n.tensor([4]), accumulate=True)",
    "x.index_put_((x > 5,), n.tensor([4]), accumulate=True)",
    # These are converted.
    "x[x > 5] = n.tensor([1])", "x[x > 5] = n.tensor(1)", "i[i > 5] = n.tensor(1.5)", "i[[0, 1]] = 1.5", "x[0] = n.arange(4)",
    "x[:, 0] = n.arange(3)", "x[n.tensor(0)] = n.arange(4)", "x[n.tensor(0), n.tensor(1)] = n.tensor([3])",
    "x[True] = n.arange(4)", "x[x[:, 0] > 3, 0] = n.tensor(4)", "x[x[:, 0] > 3, n.tensor(0)] = n.tensor(4)",
    "y = x.index_put((x > 5,), n.tensor([4]))", "y = x.index_put((n.tensor(0),), n.arange(4.))",
    # Nothing is written.
    "x[False] = n.arange(5.)", "x[False] = n.arange(5)", "x[False] = 7", "x[False, 0] = n.arange(5.)", "x[False] = 'a'",
    "x[n.tensor(False)] = n.arange(5.)",
    # Indices.
    "y = x[n.tensor([0]).short()]", "y = x[n.tensor([0], dtype=n.int8)]", "y = x[n.tensor([0]).int()]", "y = x[n.tensor([])]",
    "y = x[n.tensor([]).short()]", "y = x[n.tensor(1).short()]", "y = x[n.tensor(1.)]", "x[n.tensor([0]).short()] = 1",
    "y = x[np.array([0], np.int16)]", "x.index_put_((n.tensor([0]).short(),), n.tensor(4.))",
]  # fmt: skip

# 0-d tensors are numbers, which do not separate index tensors.
NUMBERS = [
    "y = c[n.tensor(1), :, [0, 1]]", "y = c[n.tensor(1), ..., n.tensor([[0], [2]])]", "y = c[[0, 1], :, n.tensor(0)]",
    "y = c[:, n.tensor(1), [0, 1]]", "y = c[n.tensor(1), :, n.tensor(2)]", "y = c[:, n.tensor(1), n.tensor(2)]",
    "y = c[n.tensor(1), None, [0, 1]]", "y = c[n.tensor(0), [0, 1], None, [1, 2]]", "y = c[1, :, [0, 1]]",
    "y = c[[0, 1], :, [1, 2]]", "y = c.permute(2, 1, 0)[n.tensor(1), :, [0, 1]]", "c[n.tensor(1), :, [0, 1]] = n.arange(6.).view(3, 2)",
    "c[n.tensor(1), :, n.tensor(2)] = n.arange(3.)", "c[[0, 1], :, n.tensor(2)] = n.arange(6.).view(2, 3)",
    "c[n.tensor(1), :, [0, 1]] = n.arange(6.).view(2, 3)", "c.permute(2, 1, 0)[n.tensor(1), :, [0, 1]] = n.arange(6.).view(3, 2)",
    "w = c.clone().requires_grad_(); z = w[n.tensor(1), :, [0, 1]]; (z * n.arange(6.).view(3, 2)).sum().backward(); y = w.grad",
]  # fmt: skip


def outcome(n, program):
    """The tensors after a program, or what it raises."""
    def byte(values):
        return n.tensor(values, dtype=n.uint8)
    names = {"n": n, "np": np, "byte": byte, "v": n.arange(4.0), "x": n.arange(12.0).view(3, 4), "i": n.arange(12).view(3, 4)}
    names["c"] = n.arange(24.0).view(2, 3, 4)
    try:
        exec(program, names)
    except Exception as error:  # noqa: BLE001
        return next(kind for kind in (IndexError, TypeError, RuntimeError) if isinstance(error, kind))
    return {k: (str(names[k].dtype).split(".")[-1], tuple(names[k].shape), names[k].tolist()) for k in "vxicy" if k in names}


@pytest.mark.parametrize("program", BYTES + LISTS + DTYPES + NUMBERS)
def test_as_in_torch(program):
    assert outcome(gt, program) == outcome(torch, program)


def test_messages():
    x = gt.arange(4.0)
    with pytest.raises(RuntimeError, match="got Float for the destination and Long for the source"):
        x[[0, 1]] = gt.tensor([1, 2])
    with pytest.raises(RuntimeError, match="masked_fill_ only supports boolean masks, but got mask with dtype unsigned char"):
        x[gt.tensor([0, 1, 0, 1], dtype=gt.uint8)] = 1
    with pytest.warns(UserWarning, match="indexing with dtype gt.uint8 is now deprecated"):
        x[gt.tensor([0, 1, 0, 1], dtype=gt.uint8)]
    with pytest.warns(UserWarning, match="Using a non-tuple sequence for multidimensional indexing is deprecated"):
        x[[None]]


CALLS = [
    "y = n.where(byte([1, 0, 2, 0]), x, -x)", "y = n.where(byte([1, 0, 2, 0]), x, 5)", "y = n.where(byte([1, 0, 2, 0]), 1, 5)",
    "y = x.where(byte([1, 0, 2, 0]), x * 0)", "y = n.empty(3, 4); n.where(byte([1, 0, 2, 0]), x, -x, out=y)",
    "y = n.where(n.tensor([1, 0, 2, 0]), x, -x)", "y = n.where(v, x, -x)", "y, = n.where(byte([1, 0, 2, 0]))",
    "w = x.clone().requires_grad_(); n.where(byte([1, 0, 2, 0]), w, 0.).sum().backward(); y = w.grad",
    "y = n.nn.functional.one_hot(i[0].int())", "y = n.nn.functional.one_hot(byte([0, 1]))", "y = n.nn.functional.one_hot(i[0])",
    "y = n.nn.functional.one_hot(v)", "y = x.take(i[0].int())", "y = n.take(x, byte([0, 1]))", "y = x.take(v)",
    "y = x.take(n.tensor([0, -1]))", "y = x.take([0, 1])", "y = n.LongTensor(v)", "y = n.LongTensor(i)",
    "y = n.LongTensor(i.int())", "y = n.FloatTensor(i)", "y = x.new(i)", "y = x.new(v)", "y = n.LongTensor([1.5])",
    "y = x.flip(dim=0)", "y = x.flip(axis=0)", "y = x.flip(dims=0)", "y = x.flip(dims=(0,))", "y = x.flip(dims=[0, 1])",
    "y = x.flip(0, 1)", "y = x.flip()", "y = x.flip(())", "y = n.flip(x, dims=(0,))", "y = n.flip(x, dim=(0,))",
    "y = n.flip(x, (1,))", "y = x.logsumexp()", "y = n.logsumexp(x)", "y = x.logsumexp(keepdim=True)",
    "y = v.logsumexp(axis=0) * 0", "y = v.logsumexp(dim=0) * 0", "y = n.block_diag(n.zeros(1, 1, 1))",
    "y = n.block_diag(x, n.zeros(1, 1, 1))", "y = n.block_diag(x, v, n.tensor(2.))", "y = n.block_diag()",
    "y = n.block_diag(x, 3)", "y = x.index_put([[0]], n.tensor([4.]))", "y = x.index_put((None, i[0]), n.tensor([4.]))",
    "y = x.index_put(n.tensor([0]), n.tensor([4.]))",
]  # fmt: skip


@pytest.mark.parametrize("program", CALLS)
def test_calls(program):
    assert outcome(gt, program) == outcome(torch, program)


@pytest.mark.parametrize("name", ["fmax_", "fmin_", "isfinite_", "isinf_", "isnan_", "logaddexp_", "logaddexp2_", "maximum_",
                                  "minimum_"])  # fmt: skip
def test_no_method_in_place(name):
    assert not hasattr(torch.Tensor, name) and not hasattr(gt.Tensor, name)
