"""out= of the functions that make tensors, and dtypes that out= and they refuse: PyTorch's rules."""

import pytest
import torch

import gt
from both import outcome

MAKERS = {
    'arange': (6,), 'linspace': (0, 1, 6), 'logspace': (0, 1, 6), 'range': (0, 5), 'full': ((6,), 3), 'zeros': (6,), 'ones': (6,), 'empty': (6,),
    'eye': (3, 2), 'rand': (6,), 'randn': (6,), 'randint': (0, 9, (6,)), 'randperm': (6,), 'normal': (0., 1., (6,))}
WITHOUT_VALUES = {'empty', 'normal', 'rand', 'randint', 'randn', 'randperm'}
SIZES = [(6,), (2, 3), (0,), (5,)]


def described(result, values):
    if isinstance(result, Exception):
        return str(result)
    numbers = [round(number, 5) for number in result.flatten().double().tolist()] if values else None
    return tuple(result.shape), tuple(result.stride()), str(result.dtype).rpartition('.')[2], numbers


@pytest.mark.filterwarnings('ignore')
@pytest.mark.parametrize('dtype', ['float32', 'float16', 'int64', 'bool'])
@pytest.mark.parametrize('name', MAKERS)
def test_makers_write_into_out(name, dtype):
    for size in SIZES:
        for transposed in (False, True):
            def run(library):
                out = library.zeros(size, dtype=getattr(library, dtype))
                out = out.t() if transposed else out
                result = getattr(library, name)(*MAKERS[name], out=out)
                assert result is out
                return result
            ours, theirs = outcome(run, gt), outcome(run, torch)
            assert described(ours, name not in WITHOUT_VALUES) == described(theirs, name not in WITHOUT_VALUES), (size, transposed)
            assert isinstance(ours, type(theirs)) or not isinstance(theirs, Exception)


OTHERS = {
    'sum': lambda L, out: L.sum(L.ones(2, 3), 1, dtype=L.float64, out=out(2)),
    'cumsum': lambda L, out: L.cumsum(L.ones(2), 0, dtype=L.int64, out=out(2)),
    'zeros': lambda L, out: L.zeros(2, dtype=L.float64, out=out(2)),
    'mm': lambda L, out: L.mm(L.ones(2, 2), L.ones(2, 2), out=out(2, 2)),
    'addmm': lambda L, out: L.addmm(L.ones(2, 2), L.ones(2, 2), L.ones(2, 2), out=out(2, 2)),
    'abs': lambda L, out: L.abs(L.ones(2), out=out(2)),
    'exp': lambda L, out: L.exp(L.ones(2), out=out(2)),
    'cat': lambda L, out: L.cat([L.ones(2), L.ones(2)], out=out(4)),
    'argmax': lambda L, out: L.argmax(L.ones(2, 2), 1, out=out(2)),
    'tril': lambda L, out: L.tril(L.ones(2, 2), out=out(2, 2))}


@pytest.mark.parametrize('dtype', ['float32', 'float64', 'int64', 'bool'])
@pytest.mark.parametrize('name', OTHERS)
def test_dtypes_of_out(name, dtype):
    ours, theirs = (outcome(lambda L: OTHERS[name](L, lambda *size: L.zeros(size, dtype=getattr(L, dtype))), library) for library in (gt, torch))
    assert isinstance(ours, Exception) == isinstance(theirs, Exception), f'{ours!r} instead of {theirs!r}'
    if isinstance(theirs, Exception):
        assert isinstance(ours, type(theirs)) and str(ours) == str(theirs).replace('torch.', '')
