"""tensor() of nested sequences: numbers, tensors, NumPy's numbers and arrays, as in PyTorch."""

import numpy as np
import pytest
import torch

import gt
from both import outcome


def test_a_list_in_itself_is_refused_each_time():
    """Without using up the interpreter's limit, or lifting it."""
    endless = [0]
    endless.append(endless)
    for _ in range(50):
        with pytest.raises((RecursionError, ValueError)):
            gt.tensor(endless)

    def deep(count):
        return deep(count - 1) if count else 0
    with pytest.raises(RecursionError):
        deep(100_000)

f16, f32, f64, i32, i64, u8 = np.float16, np.float32, np.float64, np.int32, np.int64, np.uint8

CASES = {
    'tensors of one element': lambda L: L.tensor([L.tensor([1.]), L.tensor([2.])]),
    'of more dimensions': lambda L: L.tensor([L.tensor([[1.]]), L.tensor([[2.]])]),
    'of two elements': lambda L: L.tensor([L.tensor([1., 2.]), L.tensor([2., 3.])]),
    'of no elements': lambda L: L.tensor([L.tensor([]), L.tensor([])]),
    'one tensor': lambda L: L.tensor([L.tensor([1., 2.])]),
    'a matrix': lambda L: L.tensor([L.ones(2, 2)]),
    'as_tensor': lambda L: L.as_tensor([L.tensor([1.]), L.tensor([2.])]),
    'FloatTensor': lambda L: L.FloatTensor([L.tensor([1.]), L.tensor([2.])]),
    'LongTensor': lambda L: L.LongTensor([L.tensor([1]), L.tensor([2])]),
    'new_tensor': lambda L: L.zeros(1).new_tensor([L.tensor([1]), L.tensor([2])]),
    'nested': lambda L: L.tensor([[L.tensor([1.]), L.tensor([2.])], [1, 2]]),
    'numbers and 0-d tensors': lambda L: L.tensor([[L.tensor(1.), 2], [3, L.tensor(4)]]),
    'rows of lists and tensors': lambda L: L.tensor([[1, 2], L.tensor([1., 2])]),
    'a tensor before a list': lambda L: L.tensor([L.tensor([1., 2]), [1, 2]]),
    'float64 tensor and number': lambda L: L.tensor([L.tensor(1., dtype=L.float64), 2]),
    'int32 and int16 tensors': lambda L: L.tensor([L.tensor(1, dtype=L.int32), L.tensor(1, dtype=L.int16)]),
    'float16 and bfloat16': lambda L: L.tensor([L.tensor(1., dtype=L.float16), L.tensor(1., dtype=L.bfloat16)]),
    'a tensor with a gradient': lambda L: L.tensor([L.tensor(1., requires_grad=True), 2.]),
    'float tensors to integers': lambda L: L.tensor([L.tensor(1.)], dtype=L.int64),
    'float tensors to bools': lambda L: L.tensor([L.tensor(1.)], dtype=L.bool),
    'integer tensors to floats': lambda L: L.tensor([L.tensor(1)], dtype=L.float32),
    'tensors and NumPy numbers': lambda L: L.tensor([L.tensor(1), f64(2)]),
    'floats to integers': lambda L: L.tensor([1.5, 2], dtype=L.int64),
    **{f'{kind.__name__} list': lambda L, kind=kind: L.tensor([kind(1), kind(2)])
       for kind in (f16, f32, f64, np.int8, np.int16, i32, i64, u8, np.bool_, np.complex64, np.complex128)},
    **{f'{kind.__name__} and {type(number).__name__}': lambda L, kind=kind, number=number: L.tensor([number, kind(2)])
       for kind in (f16, f32, f64, i32, u8) for number in (True, 1, 1.5)},
    'float32 and float64': lambda L: L.tensor([f32(1), f64(2)]),
    'int32 and float16': lambda L: L.tensor([i32(1), f16(2)]),
    'precision of float64': lambda L: L.tensor([f64(0.1)]),
    'arrays': lambda L: L.tensor([np.array([1., 2.]), np.array([3., 4.])]),
    'arrays of two dtypes': lambda L: L.tensor([np.array([1., 2.], f32), np.array([3., 4.])]),
    'integer arrays': lambda L: L.tensor([np.array([1, 2], i32), np.array([3, 4], i32)]),
    'an array and a list': lambda L: L.tensor([np.array([1, 2], i32), [3, 4]]),
    'integers and floats': lambda L: L.tensor([np.array([1, 2], i64), [3.5, 4]]),
    'matrices': lambda L: L.tensor([[np.arange(6, dtype=f32).reshape(2, 3).T], [np.ones((3, 2))]]),
    'big-endian arrays': lambda L: L.tensor([np.array([1., 2.], '>f8'), np.array([3., 4.], '>f8')]),
    'complex arrays': lambda L: L.tensor([np.array([1j, 2]), np.array([3., 4.])]),
    'empty arrays': lambda L: L.tensor([[], np.array([], f64)]),
    'arrays to a dtype': lambda L: L.tensor([np.array([1.5, 2.]), np.array([3., 4.])], dtype=L.int32),
    'arrays of two lengths': lambda L: L.tensor([np.array([1]), np.array([2, 3])]),
    'as_tensor of arrays': lambda L: L.as_tensor([np.array([1., 2.]), np.array([3., 4.])]),
    'sizes and ranges': lambda L: L.tensor([L.Size([1, 2]), range(2)]),
    'ragged lists': lambda L: L.tensor([[1, 2], [3]]),
    'a number for a list': lambda L: L.tensor([[1, 2], 3]),
    'a list for an int': lambda L: L.tensor([1, [2, 3]]),
    'a list for a float': lambda L: L.tensor([1., [2, 3]]),
    'a text': lambda L: L.tensor('abc'),
    'texts': lambda L: L.tensor(['a']),
    'a text for a number': lambda L: L.tensor([1, 'x']),
    'a text for a float': lambda L: L.tensor([1, 'x'], dtype=L.float32),
    'a text for an int': lambda L: L.tensor([1, 'x'], dtype=L.int64),
    'None': lambda L: L.tensor([1, None]),
    'None for a float': lambda L: L.tensor([1, None], dtype=L.float32),
    'an int beyond 64 bits': lambda L: L.tensor([2 ** 70]),
    'a float beyond the dtype': lambda L: L.tensor([f64(1e10)], dtype=L.int32),
}


def described(result):
    if isinstance(result, Exception):
        return str(result)
    return str(result.dtype).rpartition('.')[2], tuple(result.shape), result.tolist()


@pytest.mark.filterwarnings('ignore')
@pytest.mark.parametrize('name', CASES)
def test_sequences_are_pytorchs(name):
    ours, theirs = outcome(CASES[name], gt), outcome(CASES[name], torch)
    assert described(ours) == described(theirs)
    if isinstance(theirs, Exception):
        assert isinstance(ours, type(theirs)), f'{ours!r} instead of {theirs!r}'


def test_assigned_lists_may_hold_tensors():
    x = gt.zeros(2, 2)
    x[0] = [gt.tensor([1.]), gt.tensor(2.)]
    assert x.tolist() == [[1, 2], [0, 0]]
    with pytest.raises(ValueError, match='only one element tensors'):
        x[0] = [gt.ones(2)]


def test_a_list_that_changes_while_it_is_read():
    class Shrinking:
        def __float__(self):
            numbers.clear()
            return 1.0
    numbers = [Shrinking(), 2.0, 3.0]
    with pytest.raises(RuntimeError, match='changed size'):
        gt.tensor(numbers, dtype=gt.float32)


def test_python_types_are_dtypes_of_pythons_precision():
    for kind in (float, int, bool, complex):
        for make in (lambda library: library.tensor([1, 0], dtype=kind), lambda library: library.ones(2).to(kind),
                     lambda library: library.zeros(2, dtype=kind), lambda library: library.arange(2, dtype=kind) if kind in (float, int) else
                     library.ones(1, dtype=kind)):
            assert str(make(gt).dtype).removeprefix('gt.') == str(make(torch).dtype).removeprefix('torch.')
    assert gt.tensor([16777217, 1], dtype=float).sum().item() == 16777218


def test_classes_of_uint8_are_not_taken_for_ignore_index():
    def run(library):
        scores = library.arange(400.0).reshape(2, 200) / 100
        target = library.tensor([156, 1], dtype=library.uint8)
        loss = library.nn.functional.cross_entropy
        return [loss(scores, target, reduction='none').tolist(), loss(scores, target, ignore_index=256 + 156).item(),
                loss(scores, target, ignore_index=1).item()]
    for ours, theirs in zip(run(gt), run(torch)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
