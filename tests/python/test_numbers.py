"""Numbers as arguments: converted to the dtype of the tensor, or refused, as PyTorch does."""

import operator

import numpy as np
import pytest
import torch

import gt
from both import outcome, same

DTYPES = ['bool', 'uint8', 'int8', 'int16', 'int32', 'int64', 'float16', 'bfloat16', 'float32', 'float64', 'complex64']
NUMBERS = [True, -1, 3, 128, 200, 256, -129, 70000, 2**31, 2**40, 0.5, -1.0, 255.5, -1.5, 65519.0, -1e9, 1e19, 3.395e38, 1e39,
           float('inf'), float('-inf'), float('nan')]
F = 'nn.functional'


def _assigned(key):
    def assign(library, x, mask, number):
        x[key(library, mask)] = number
        return x
    return assign


# Each: f(library, x, mask, number), where x is [0, 1, 1].
OPERATIONS = {
    'masked_fill': lambda L, x, m, v: x.masked_fill(m, v),
    'masked_fill_': lambda L, x, m, v: x.masked_fill_(m, v),
    'full': lambda L, x, m, v: L.full((2,), v, dtype=x.dtype),
    'full of one': lambda L, x, m, v: L.full((), v, dtype=x.dtype),
    'full_like': lambda L, x, m, v: L.full_like(x, v),
    'new_full': lambda L, x, m, v: x.new_full((2,), v),
    'fill_': lambda L, x, m, v: x.fill_(v),
    'x[0] =': _assigned(lambda L, m: 0),
    'x[:2] =': _assigned(lambda L, m: slice(2)),
    'x[mask] =': _assigned(lambda L, m: m),
    'x[[0, 1]] =': _assigned(lambda L, m: [0, 1]),
    'clamp(min=)': lambda L, x, m, v: x.clamp(min=v),
    'clamp(max=)': lambda L, x, m, v: x.clamp(max=v),
    'clamp': lambda L, x, m, v: x.clamp(v, v),
    'clamp_': lambda L, x, m, v: x.clamp_(min=v) if x.is_floating_point() else x,
    'clamp_min': lambda L, x, m, v: x.clamp_min(v),
    'pad': lambda L, x, m, v: L.nn.functional.pad(x, (1, 1), value=v),
    'where': lambda L, x, m, v: L.where(m, x, v),
    'add': lambda L, x, m, v: x + v if not x.is_complex() else x,
    'mul': lambda L, x, m, v: x * v,
    'pow': lambda L, x, m, v: x ** v,
    'pow(exponent=)': lambda L, x, m, v: x.pow(exponent=v),
    'gt.pow(exponent=)': lambda L, x, m, v: L.pow(x, exponent=v),
    '**=': lambda L, x, m, v: operator.ipow(x, v),
    'pow_': lambda L, x, m, v: x.pow_(v),
    'pow_(exponent=)': lambda L, x, m, v: x.pow_(exponent=v),
    'add alpha': lambda L, x, m, v: L.add(x, x, alpha=v),
    'sub alpha': lambda L, x, m, v: L.sub(x, x, alpha=v),
    'add_ alpha': lambda L, x, m, v: x.add_(x, alpha=v),
    'lt': lambda L, x, m, v: x < v,
    'index_fill': lambda L, x, m, v: x.index_fill(0, L.tensor([0]), v),
    'index_add': lambda L, x, m, v: x.index_add(0, L.tensor([0]), x[:1], alpha=v),
    'scatter': lambda L, x, m, v: x.scatter(0, L.tensor([0]), v),
    'addcmul': lambda L, x, m, v: L.addcmul(x, x, x, value=v),
    'addcdiv': lambda L, x, m, v: L.addcdiv(x, x[1:2], x[1:2], value=v) if x.dtype not in (L.float32, L.bfloat16, L.complex64) else x,
    'addmm': lambda L, x, m, v: L.addmm(x[1:].view(1, 2), x[1:2].view(1, 1), x[1:].view(1, 2), alpha=v),
    'baddbmm': lambda L, x, m, v: L.baddbmm(x[1:].view(1, 1, 2), x[1:2].view(1, 1, 1), x[1:].view(1, 1, 2), beta=v) if x.dtype != L.bool else x,
    'addmv': lambda L, x, m, v: L.addmv(x[1:], x[1:].view(2, 1), x[1:2], alpha=v) if v != 1e39 else x,
    'isin': lambda L, x, m, v: L.isin(x, v) if x.dtype != L.complex64 else x,
    'searchsorted': lambda L, x, m, v: L.searchsorted(x, v) if x.dtype != L.complex64 else x,
    'hardtanh': lambda L, x, m, v: L.nn.functional.hardtanh(x, -1, v) if abs(v) < 1e10 and not x.is_complex() else x,
    'threshold': lambda L, x, m, v: L.nn.functional.threshold(x, v, v) if v != 1e39 else x,
    'leaky_relu': lambda L, x, m, v: L.nn.functional.leaky_relu(x, v),
    'hardshrink': lambda L, x, m, v: L.nn.functional.hardshrink(x, v),
    'softshrink': lambda L, x, m, v: L.nn.functional.softshrink(x, v) if v >= 0 else x,
    'fill_diagonal_': lambda L, x, m, v: L.zeros(2, 2, dtype=x.dtype).fill_diagonal_(v),
    'scalar_tensor': lambda L, x, m, v: L.scalar_tensor(v, dtype=x.dtype),
    'tensor': lambda L, x, m, v: L.tensor([v], dtype=x.dtype),
    'constant_': lambda L, x, m, v: L.nn.init.constant_(x, v),
    'linspace': lambda L, x, m, v: (L.linspace(0, v, 3, dtype=x.dtype) if x.dtype != L.bool and
                                    not (x.dtype.is_floating_point and (abs(v) > 1e9 or v != v)) and
                                    not (x.dtype.is_complex and (abs(v) > 1e9 or v != v)) else x),
}


def _run(library, operation, dtype, number):
    def call(library):
        x = library.tensor([0, 1, 1], dtype=getattr(library, dtype))
        return operation(library, x, library.tensor([True, False, True]), number)
    return outcome(call, library)


@pytest.mark.parametrize('name', OPERATIONS)
def test_number(name):
    """Values and dtypes agree; a number that PyTorch refuses is refused with the same type and words."""
    differ = []
    for dtype in DTYPES:
        for number in NUMBERS:
            ours, theirs = (_run(library, OPERATIONS[name], dtype, number) for library in (gt, torch))
            if isinstance(theirs, Exception):
                first = str(theirs).split('\n')[0]
                if not isinstance(ours, type(theirs)) or str(ours).split('\n')[0] != first:
                    differ.append(f'{dtype} {number}: {ours!r} instead of {theirs!r}')
                continue
            try:
                if isinstance(ours, Exception):
                    raise AssertionError(repr(ours))
                with np.errstate(invalid='ignore'):
                    same(ours, theirs, rtol=1e-2 if dtype == 'bfloat16' else 2e-3)
            except AssertionError as error:
                differ.append(f'{dtype} {number}: {str(error)[:300]}, torch {theirs}')
    assert not differ, '\n'.join(differ)


def test_masks_of_attention():
    """The usual large negative number is refused in half precision, and not elsewhere."""
    scores = gt.zeros(2, 2)
    mask = gt.tensor([[True, False], [False, True]])
    assert scores.masked_fill(mask, -1e9)[0, 0].item() == -1e9
    with pytest.raises(RuntimeError, match='value cannot be converted to type c10::Half without overflow'):
        scores.half().masked_fill(mask, -1e9)
    assert scores.half().masked_fill(mask, float('-inf'))[0, 0].item() == float('-inf')


@pytest.mark.parametrize('function', [
    lambda L: L.add(L.ones(2, dtype=L.float16), L.ones(2, dtype=L.int32), alpha=0.5),
    lambda L: L.add(L.ones(2, dtype=L.float32), L.ones(2, dtype=L.float64), alpha=0.5),
    lambda L: L.add(L.tensor([True, False]), L.tensor([False, True]), alpha=2),
    lambda L: L.add(L.tensor([True, False]), True, alpha=True),
    lambda L: L.sub(L.ones(2, dtype=L.int8), L.ones(2, dtype=L.int8), alpha=128),
    lambda L: L.add(L.ones(2), L.ones(2), alpha=1j),
    lambda L: L.lerp(L.ones(2), L.ones(2, dtype=L.float64), 0.5),
    lambda L: L.lerp(L.ones(2, dtype=L.int64), L.ones(2, dtype=L.int64), 0.5),
    lambda L: L.ones(2, dtype=L.int64).lerp(weight=0.5, end=L.ones(2, dtype=L.int64)),
    lambda L: L.ones(2).lerp(weight=L.ones(2), end=L.ones(2, dtype=L.float64)),
    lambda L: L.ones(2).lerp_(weight=L.ones(2, dtype=L.float64), end=L.ones(2)),
    lambda L: L.ones(2).lerp(weight=1e300, end=L.ones(2)),
    lambda L: L.ones(2).lerp(weight=0.5, end=L.zeros(2)),
    lambda L: L.addcmul(L.ones(2, dtype=L.int32), L.ones(2), L.ones(2, dtype=L.int32), value=0.5),
    lambda L: L.zeros(3, dtype=L.uint8).random_(0, 300),
    lambda L: L.zeros(3, dtype=L.float16).random_(0, 70000),
    lambda L: L.ones(2, 2, dtype=L.int64).renorm(2, 0, 1),
    lambda L: L.tensor([True]) ** False,
    lambda L: L.tensor([True]) ** L.tensor([True]),
    lambda L: L.tensor([True]).abs(),
    lambda L: L.tensor([True]) // True,
    lambda L: L.nn.functional.relu(L.tensor([True])),
    lambda L: L.ones(2, 2, dtype=L.bool) @ L.ones(2, 2, dtype=L.bool),
    lambda L: L.tensor([2**62 + 3, 5]).clamp(2**53 + 1, 2**62 + 1),
    lambda L: L.tensor([2**62 + 3, 5]).clamp(max=2**62 + 1),
    lambda L: L.tensor([3, 5], dtype=L.int8).clamp(max=2**62 + 1),
    lambda L: L.linspace(0, 1 + 2j, 3, dtype=L.complex64),
    lambda L: L.linspace(0, 0.5, 3, dtype=L.complex64),
    lambda L: L.empty_strided((2, 3), (1, 2)).fill_(1).stride(),
    lambda L: L.empty_permuted((2, 3, 4), (2, 0, 1)).stride(),
])
def test_converted(function):
    ours, theirs = outcome(function, gt), outcome(function, torch)
    if isinstance(theirs, Exception):
        assert isinstance(ours, type(theirs)) and str(ours).split('\n')[0] == str(theirs).split('\n')[0]
    else:
        same(ours, theirs)
