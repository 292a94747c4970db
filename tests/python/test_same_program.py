"""Expressions that give the same in both libraries: details that scripts rely on.

`T` is the library, `F` its nn.functional; x, y (3, 4) are float32 and require gradients, j is int, b bool.
"""

import numpy as np
import pytest
import torch

import gt
from support import dtype_name

EXPRESSIONS = [
    # numbers and rounding
    'x.round(decimals=2)', 'T.round(x * 100, decimals=-1)', 'x.detach().clone().round_(decimals=1)', 'T.round(j)',
    'T.linspace(0, 10, 5, dtype=T.int64)', 'T.linspace(10, -10, 7, dtype=T.int8)', 'T.logspace(0, 2, 5)',
    'T.logspace(0, 3, 4, base=2)', 'T.tensor(2 ** 64, dtype=T.float32)', 'T.tensor([2 ** 70, 1], dtype=T.float64)',
    'T.logit(x.sigmoid())', 'T.logit(x, eps=0.1)', 'T.xlogy(j.float(), x.exp())',
    'T.xlogy(x, T.tensor(float("nan")))',
    'T.float_power(j, 2)', 'T.fmax(x, y)', 'T.fmin(x, T.tensor(float("nan")))', 'T.sgn(x)',
    'T.signbit(T.tensor([-0.0, 1]))',
    'T.isposinf(x / 0)', 'T.isneginf(x / 0)', 'T.unravel_index(T.tensor([5, 11]), (3, 4))', 'T.scalar_tensor(3)',
    'T.asarray([1, 2])', 'T.detach(x)',
    'T.Tensor([1, 2])', 'T.Tensor(np.ones((2, 1)))', 'T.Tensor(2, 3).shape', 'T.Tensor(2, 3).dtype', 'T.Tensor()',
    # dtypes, devices, shapes
    'T.finfo(T.float32).eps', 'T.finfo(T.float16).min', 'T.finfo(x.dtype).max', 'T.finfo(T.bfloat16).tiny',
    'T.finfo(T.float64).bits', 'T.finfo(T.float64).resolution', 'T.finfo(T.float32).resolution',
    'T.iinfo(T.int64).max',
    'T.iinfo(T.uint8).min', 'T.iinfo(T.int8).min', 'T.get_default_dtype()', 'T.promote_types(T.float16, T.int64)',
    'T.tensor(5.).gather(0, T.tensor(0))', 'T.tensor(5.).gather(0, T.tensor([0, 0]))',
    'T.tensor(5.).scatter(0, T.tensor(0), 2.)', 'T.tensor(5.).scatter_add(0, T.tensor([0]), T.tensor([2.]))',
    'T.tensor(5.).index_select(0, T.tensor([0]))',
    'T.result_type(j, 1.5)', 'T.result_type(x, j)', 'T.result_type(2, j)', 'T.Size([2, 3])',
    'T.device("cuda:1").index', 'T.device("cuda", 1).type', 'str(T.device("cuda:1"))', 'repr(T.device("cpu"))',
    'T.device("cpu") == T.device("cpu")', 'x.to(T.device("cpu"))', 'x.to(device="cpu", dtype=T.float64)',
    'x.to("cpu", T.float16, True)', 'x.to(dtype=T.int64)', 'x.byte().dtype', 'j.char()',
    'x.new_zeros(2, 3)', 'x.new_ones((2,))', 'j.new_full((2,), 3)', 'x.double().new_tensor([1, 2])',
    'x.new_empty(2, 0)', 'j.new_zeros(2, dtype=T.float64, device="cpu")', 'T.zeros(2, device=T.device("cpu"))',
    'x.stride()', 'x.stride(0)', 'x.is_signed()', 'x.is_complex()', 'T.tensor(1).is_nonzero()',
    'x.sum_to_size(1, 4)',
    'x.sum_to_size(4)',
    # in place, of another shape too
    '(x * 1).unsqueeze_(0)', '(x * 1)[None].squeeze_(0)', '(x * 1).t_()', '(x * 1).transpose_(0, 1)',
    '(x * 1).tril_()',
    '(x * 1).cumsum_(0)', 'x.detach().clone().fill_diagonal_(7)', 'T.zeros(7, 2).fill_diagonal_(1, wrap=True)',
    'T.zeros(3, 3, 3).fill_diagonal_(1)', '(x * 1).fill_diagonal_(0)',
    # picking
    'x.index_select(0, T.tensor(1))', 'T.take(x, T.tensor(1))', 'T.take(x, T.tensor([[1, -1]]))',
    'T.repeat_interleave(T.tensor([1, 0, 2]))', 'T.tile(x, dims=(2, 1, 1))',
    'x.detach().scatter(0, j % 3, y.detach(), reduce="add")',
    'x.detach().scatter(0, j % 3, 2.0, reduce="multiply")',
    'T.zeros(3, 4).scatter_(1, j % 4, 1.0, reduce="add")', 'T.zeros(3, 4).scatter_(1, j % 4, value=2.0)',
    # losses and layers
    'F.mse_loss(x, y, weight=y.exp())', 'F.mse_loss(x, y, weight=y.exp(), reduction="sum")',
    'F.cross_entropy(x, T.tensor([1, -1, 2]), ignore_index=-1)',
    'F.cross_entropy(x, T.tensor([1, 0, 2]).to(T.uint8))',
    'F.embedding(T.tensor(1), x)', 'F.embedding(j % 3, x)', 'T.conv1d(x[None], y[:, :3, None].transpose(0, 1))',
    'T.layer_norm(x, (4,))', 'T.max_pool1d(x, 2)', 'T.dropout(x, 0.0, True)',
    'F.scaled_dot_product_attention(x[None], y[None], y[None], b[None, :, :3])',
    'F.scaled_dot_product_attention(x[None], y[None], y[None], T.zeros(3, 3, dtype=T.bool))',
]

# GT raises the same type as PyTorch, in some cases only when the result is read.
ERRORS = [
    ('float(x)', ValueError), ('int(x)', ValueError), ('float(x[:0])', ValueError), ('x.item()', RuntimeError),
    ('bool(x)', RuntimeError), ('T.cat([])', ValueError), ('T.stack([])', RuntimeError),
    ('T.cat([x[0, 0], x[0, 0]])', RuntimeError), ('T.tensor(2 ** 63)', ValueError),
    ('T.tensor([-2 ** 64])', ValueError),
    ('T.tensor(None)', RuntimeError), ('T.tensor([None])', RuntimeError), ('T.tensor({1: 2})', RuntimeError),
    ('T.tensor("a")', TypeError), ('T.Tensor(object())', TypeError), ('x[:0].max()', RuntimeError),
    ('x[:0].min()', RuntimeError),
    ('x[:0].amax()', RuntimeError), ('x[:0].max(0)', IndexError), ('x[:0].argmax(0)', IndexError),
    ('T.device("nowhere")', RuntimeError), ('T.finfo(T.int64)', TypeError), ('T.iinfo(T.float32)', TypeError),
    ('T.round(j, decimals=1)', NotImplementedError), ('x.sum_to_size(3, 3)', RuntimeError),
    ('T.zeros(3).fill_diagonal_(1)', RuntimeError), ('x.scatter(0, j % 3, y, reduce="divide")', RuntimeError),
    ('F.cross_entropy(x, T.tensor([1, -1, 2])).item()', IndexError),
    ('F.nll_loss(x, T.tensor([1, 4, 2])).item()', IndexError),
    ('F.cross_entropy(x, j[:, 0] % 3, label_smoothing=1.5)', RuntimeError),
    ('F.binary_cross_entropy(x.sigmoid(), b[0].float())', ValueError),
    ('F.binary_cross_entropy_with_logits(x, b[0].float())', ValueError),
    ('F.smooth_l1_loss(x, y, beta=-1)', RuntimeError),
]


def names(library):
    random = np.random.default_rng(5)
    values = {'x': random.standard_normal((3, 4)).astype(np.float32),
              'y': random.standard_normal((3, 4)).astype(np.float32),
              'j': random.integers(-5, 6, (3, 4)),
              'b': np.array([[1, 0, 1, 0], [0, 0, 0, 1], [1, 1, 1, 1]], dtype=bool)}
    found = {name: library.tensor(value) for name, value in values.items()}
    found['x'].requires_grad_()
    found['y'].requires_grad_()
    return {'T': library, 'np': np, 'F': library.nn.functional, **found}


def described(value, library):
    """A comparable form: dtype and elements of a tensor, the name of a dtype, any other value itself."""
    if isinstance(value, (tuple, list)) and any(isinstance(item, library.Tensor) for item in value):
        return [described(item, library) for item in value]
    if isinstance(value, library.Tensor):
        return dtype_name(value.dtype), tuple(value.shape), value.detach().double().numpy()
    return dtype_name(value) if isinstance(value, library.dtype) else value


def check(ours, theirs):
    if isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for mine, its in zip(ours, theirs):
            check(mine, its)
    elif isinstance(theirs, tuple) and len(theirs) == 3 and isinstance(theirs[2], np.ndarray):
        assert ours[:2] == theirs[:2]
        np.testing.assert_allclose(ours[2], theirs[2], rtol=1e-5, atol=1e-6)
    else:
        assert ours == theirs


@pytest.mark.parametrize('expression', EXPRESSIONS)
def test_expression(expression):
    results, gradients = [], []
    for library in (gt, torch):
        scope = names(library)
        result = eval(expression, scope)
        results.append(described(result, library))
        wants = isinstance(result, library.Tensor) and result.requires_grad
        if wants and result.isfinite().all():
            (result * result).sum().backward()
        gradients.append([None if scope[name].grad is None else (scope[name].grad + 0).numpy() for name in 'xy'])
    check(*results)
    for mine, its in zip(*gradients):
        assert (mine is None) == (its is None)
        if its is not None:
            np.testing.assert_allclose(mine, its, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('expression, exception', ERRORS)
def test_error(expression, exception):
    for library in (gt, torch):
        with pytest.raises(exception):
            eval(expression, names(library))
