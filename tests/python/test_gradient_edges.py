"""Values and gradients at the edges of functions (infinities, zeros, rows of NaN), against PyTorch.

Not tested: overflow inside PyTorch's own formulas (sinh(88.9) is finite, and GT gives it), and NaN in activations, where
PyTorch's result depends on the position in the tensor.
"""

import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional

import gt
import gt.nn.functional

inf, nan = math.inf, math.nan
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 3.0, -3.0, 6.0, 1e-30, -1e-30, 1e-7, 17.5, 20.0, -20.0, inf, -inf, nan]
FINITE = [x for x in EDGES if math.isfinite(x)]
PAIRS = list(itertools.product([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, inf, -inf, nan, 1e30, 3.0], repeat=2))
FIRST, SECOND = ([pair[k] for pair in PAIRS] for k in (0, 1))
ROWS = [[1, 2, 3], [inf, 1, 2], [-inf, -inf, -inf], [nan, 1, 2], [-inf, 0, 1], [inf, inf, 0], [0, 0, 0], [1e30, -1e30, 0],
        [0, 3, 4], [2, 2, 2], [-inf, inf, 0]]
NUMBERS = [row for row in ROWS if np.isfinite(row).all() and 1e30 not in row]
PROBABILITIES = [0.0, 1.0, 0.5, 1e-30, 1 - 6e-8, 0.3]
LOGITS = [0.0, 100.0, -100.0, 1e4, -1e4, 88.0, inf, -inf, 20.5, -20.5]


def check(function, *arrays):
    """function(library, its nn.functional, *tensors): the same value, and gradients of its sum, from both libraries."""
    results = []
    for library in (gt, torch):
        inputs = [library.tensor(np.array(array, np.float32)).requires_grad_() for array in arrays]
        out = function(library, library.nn.functional, *inputs)
        gradients = library.autograd.grad(out.sum(), inputs, allow_unused=True)
        zeros = [np.zeros(np.shape(array), np.float32) for array in arrays]
        results.append([out.detach().numpy()] + [zero if gradient is None else gradient.detach().numpy()
                                                 for gradient, zero in zip(gradients, zeros)])
    for what, ours, theirs in zip(['the value', 'the first gradient', 'the second', 'the third'], *results):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=1e-6, err_msg=what)


UNARY = ('abs sign square sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan tanh asinh acosh '
         'atanh sinc erf floor ceil round trunc frac sigmoid relu').split()
# Not gelu: at -inf PyTorch has NaN or 0, depending on the processor.
ACTIVATIONS = ('logsigmoid relu6 softplus selu hardsigmoid hardswish hardtanh leaky_relu elu celu').split()
BINARY = 'add sub mul div pow maximum minimum remainder fmod atan2 hypot copysign logaddexp'.split()


@pytest.mark.parametrize('name', UNARY)
def test_of_one(name):
    check(lambda library, F, x: getattr(library, name)(x), EDGES)


@pytest.mark.parametrize('name', ACTIVATIONS)
def test_activations(name):
    check(lambda library, F, x: getattr(F, name)(x), EDGES[:-1])


@pytest.mark.parametrize('name', ['silu', 'mish', 'softsign', 'tanhshrink', 'hardshrink', 'softshrink'])
def test_activations_of_numbers(name):
    check(lambda library, F, x: getattr(F, name)(x), FINITE)


@pytest.mark.parametrize('name', ['hardshrink', 'softshrink'])
def test_nan_stays(name):
    assert math.isnan(getattr(gt.nn.functional, name)(gt.tensor(nan)).item())


@pytest.mark.parametrize('name', BINARY)
def test_of_two(name):
    check(lambda library, F, x, y: getattr(library, name)(x, y), FIRST, SECOND)


@pytest.mark.parametrize('number', [0, 1, 2, 3, 0.5, -1, -0.5, 2.5])
def test_powers(number):
    check(lambda library, F, x: x ** number, EDGES)
    if number >= 0:
        check(lambda library, F, x: number ** x, EDGES)


@pytest.mark.parametrize('name', ['softmax', 'log_softmax', 'softmin'])
def test_softmax(name):
    check(lambda library, F, x: getattr(F, name)(x, dim=1), ROWS)


@pytest.mark.parametrize('name', ['logsumexp', 'amax', 'amin', 'sum', 'mean', 'var', 'cumsum', 'cumprod', 'logcumsumexp'])
def test_reductions(name):
    check(lambda library, F, x: getattr(x, name)(1), ROWS)


def test_standard_deviations_of_what_is_equal():
    check(lambda library, F, x: x.std(1), NUMBERS)
    check(lambda library, F, x: x.std(1, correction=0), [[1.0], [2.0]])
    check(lambda library, F, x: x.std(1), [[1.0], [2.0]])
    check(lambda library, F, x: x.std(), [[2.0, 2.0], [2.0, 2.0]])
    check(lambda library, F, x: library.std_mean(x, 1)[0] + library.var_mean(x, 1)[0], NUMBERS)


@pytest.mark.parametrize('p', [0, 0.5, 1, 1.5, 2, 3, inf, -inf, -1])
def test_norms(p):
    check(lambda library, F, x: library.linalg.vector_norm(x, p, 1), NUMBERS)


def test_distances_of_nothing():
    check(lambda library, F, x, y: library.dist(x, y), [1.0, 2.0], [1.0, 2.0])
    check(lambda library, F, x, y: library.cdist(x, y), [[1.0, 2.0], [0, 0]], [[1.0, 2.0], [3, 4]])
    check(lambda library, F, x: F.normalize(x), NUMBERS)


@pytest.mark.parametrize('target', [0.0, 1.0, 0.5])
def test_binary_cross_entropy_of_logits(target):
    check(lambda library, F, x: F.binary_cross_entropy_with_logits(x, library.full((len(LOGITS),), target), reduction='none'),
          LOGITS)


@pytest.mark.parametrize('name', ['mse_loss', 'l1_loss', 'smooth_l1_loss', 'huber_loss'])
def test_losses_of_distances(name):
    check(lambda library, F, x, y: getattr(F, name)(x, y, reduction='none'), [0.0, 1, -1, 1e15, inf, 2, 0.5], [0.0, 0, 0, 0, 0, 1, 0])


@pytest.mark.parametrize('classes', [[0, 1, 2], [-100, -100, -100], [0, -100, 1]], ids=['all', 'none', 'some'])
@pytest.mark.parametrize('reduction', ['mean', 'sum', 'none'])
def test_cross_entropy(classes, reduction):
    scores = [[1.0, 2, 3], [1e4, -1e4, 0], [-1, 0, 1]]
    for smoothing in (0.0, 0.1):
        check(lambda library, F, x: F.cross_entropy(x, library.tensor(classes), reduction=reduction, label_smoothing=smoothing),
              scores)


def test_logit_and_xlogy():
    check(lambda library, F, x: library.logit(x), PROBABILITIES)
    check(lambda library, F, x: library.logit(x, 1e-6), PROBABILITIES)
    check(lambda library, F, x, y: library.xlogy(x, y), [0.0, 0.0, 0.0, 1, 2, 0.5, 1, inf], [2.0, 0.5, 1, 0, 3, inf, nan, 2])
    assert gt.xlogy(gt.tensor([0.0, 0.0]), gt.tensor([0.0, inf])).tolist() == [0, 0]


@pytest.mark.parametrize('mask', [[[True, False], [False, False]], [[0.0, -inf], [-inf, -inf]]], ids=['bool', 'float'])
def test_attention_of_a_query_that_sees_nothing(mask):
    check(lambda library, F, x: F.scaled_dot_product_attention(x, x, x, attn_mask=library.tensor(mask)),
          [[[1.0, 2], [3, 4]]])


@pytest.mark.parametrize('dtype', ['float16', 'bfloat16'])
def test_counts_that_halves_do_not_have(dtype):
    """Gradients divided among more elements than float16 can count."""
    def shared(library):
        x = library.ones(3000, dtype=getattr(library, dtype), requires_grad=True)
        src = library.ones(3000, dtype=getattr(library, dtype), requires_grad=True)
        index = library.zeros(3000, dtype=library.int64)
        scale = library.tensor(3000.0, dtype=getattr(library, dtype))
        (x.amax() * scale).backward()
        start = library.zeros(1, dtype=getattr(library, dtype))
        for reduction in ('mean', 'amax'):
            (start.scatter_reduce(0, index, src, reduction, include_self=False) * scale).sum().backward()
        return [x.grad[0].item(), src.grad[0].item()]
    assert shared(gt) == pytest.approx([1.0, 2.0], rel=0.01)
    assert shared(torch)[0] == pytest.approx(1.0, rel=0.01)
