"""Arguments that PyTorch refuses: numbers too large for the elements, numbers in place of tensors, too few dimensions."""

import pytest
import torch

import gt


def refused(kind, program, *words):
    """gt and torch raise errors of this kind, with these words."""
    for m in (torch, gt):
        with pytest.raises(kind) as raised:
            program(m)
        for word in words:
            assert word in str(raised.value)


@pytest.mark.parametrize('dtype, number, name', [('float16', 1e9, 'c10::Half'), ('bfloat16', 1e39, 'c10::BFloat16'),
                                                 ('int8', 300, 'int8_t'), ('int16', 1e6, 'int16_t'), ('float32', -1e39, 'float')])
def test_numbers_in_tensors_that_overflow(dtype, number, name):
    def value(m):
        return m.tensor(number, dtype=m.float64 if isinstance(number, float) else m.int64)
    mask = [True, False]
    for fill in ('masked_fill', 'masked_fill_'):
        refused(RuntimeError, lambda m: getattr(m.ones(2).to(getattr(m, dtype)), fill)(m.tensor(mask), value(m)),
                f'value cannot be converted to type {name} without overflow')


@pytest.mark.parametrize('dtype, number', [('float16', float('-inf')), ('float16', 60000), ('int8', 3.5), ('bool', 7), ('uint8', 255)])
def test_numbers_in_tensors_that_fit(dtype, number):
    results = [m.ones(2).to(getattr(m, dtype)).masked_fill(m.tensor([True, False]), m.tensor(number)).tolist() for m in (torch, gt)]
    assert results[0] == results[1]


def test_values_of_samples_are_not_read():
    x = gt.ones(2, dtype=gt.float16)
    filled = gt.func.vmap(lambda value: x.masked_fill(gt.tensor([True, False]), value))(gt.tensor([2.0, 3.0]))
    assert filled.tolist() == [[2.0, 1.0], [3.0, 1.0]]


@pytest.mark.parametrize('dtype, low, high', [('float16', 0, 1e9), ('float16', -1e9, 0), ('float16', -60000, 60000),
                                              ('float32', 0, 1e39), ('float32', -3e38, 3e38), ('bfloat16', 0, 3e39),
                                              ('float64', 0, float('inf')), ('float32', float('nan'), 1)])
def test_bounds_of_uniform(dtype, low, high):
    with pytest.raises(RuntimeError) as wanted:
        torch.ones(2, dtype=getattr(torch, dtype)).uniform_(low, high)
    with pytest.raises(RuntimeError) as found:
        gt.ones(2, dtype=getattr(gt, dtype)).uniform_(low, high)
    assert str(found.value) == str(wanted.value)


@pytest.mark.parametrize('name', ['equal', 'allclose', 'isclose', 'outer', 'ger', 'inner', 'vdot', 'kron', 'cdist', 'cross',
                                  'heaviside', 'dist', 'fmax', 'fmin'])
def test_numbers_in_place_of_tensors(name):
    refused(TypeError, lambda m: getattr(m, name)(m.ones(3), 2), f'{name}(): argument', '(position 2) must be Tensor, not int')


def test_too_few_dimensions():
    refused(RuntimeError, lambda m: m.cdist(m.ones(3), m.ones(2, 3)), 'cdist only supports at least 2D tensors, X1 got: 1D')
    refused(RuntimeError, lambda m: m.cdist(m.ones(2, 3), m.ones(3)), 'cdist only supports at least 2D tensors, X2 got: 1D')
    refused(RuntimeError, lambda m: m.tensor(1.0).unflatten(0, (1, 1)), 'Dimension specified as 0 but tensor has no dimensions')
    refused(IndexError, lambda m: m.tensor(1.0).unflatten(1, (1, 1)), 'Dimension out of range')


@pytest.mark.parametrize('value', [1 + 1j, [1, 1j]])
def test_complex_numbers_as_reals(value):
    refused(TypeError, lambda m: m.tensor(value, dtype=m.int8), "'complex' object cannot be interpreted as an integer")
    refused(TypeError, lambda m: m.tensor(value, dtype=m.float16), 'must be real number, not complex')


@pytest.mark.parametrize('layer', ['GRU', 'LSTM', 'RNN'])
def test_recurrent_layers_of_another_dtype(layer):
    refused(ValueError, lambda m: getattr(m.nn, layer)(2, 2)(m.ones(1, 2).half()), 'input must have the type', 'float32, got type')
    with gt.autocast('cpu'):
        getattr(gt.nn, layer)(2, 2)(gt.ones(1, 2).bfloat16())


def test_functions_without_integers():
    refused(NotImplementedError, lambda m: m.nn.functional.layer_norm(m.ones(2, 2).long(), (2,)), "not implemented for 'Long'")
    refused(NotImplementedError, lambda m: m.nn.functional.avg_pool2d(m.ones(1, 1, 2, 2).int(), 2), "not implemented for 'Int'")
    refused(NotImplementedError, lambda m: m.nn.functional.interpolate(m.ones(1, 1, 2, 2).long(), scale_factor=2, mode='bilinear'),
            "not implemented for 'Long'")
