"""Gradients: every differentiable row of the op table against finite differences, and the API against PyTorch."""

import gc
import threading

import numpy as np
import pytest
import torch

import gt
from gt import _gt
from table_windows import DIFFERENTIATED

ROWS = {name: (form, types) for name, form, types, grad in _gt.op_table() if grad == 'DIFF'}

# Inputs for functions that are not smooth everywhere or have a limited domain.
DOMAINS = {
    'sqrt': (0.3, 3.0), 'rsqrt': (0.3, 3.0), 'log': (0.3, 3.0), 'reciprocal': (0.5, 3.0), 'log1p': (-0.5, 3.0),
    'pow': (0.4, 2.0), 'div': (0.5, 3.0), 'remainder': (1.1, 1.9), 'fmod': (1.1, 1.9), 'log2': (0.3, 3.0),
    'log10': (0.3, 3.0), 'tan': (-1.2, 1.2), 'asin': (-0.8, 0.8), 'acos': (-0.8, 0.8), 'atanh': (-0.8, 0.8),
    'acosh': (1.2, 3.0), 'erfinv': (-0.8, 0.8), 'ndtri': (0.1, 0.8), 'entr': (0.3, 3.0), 'logit': (0.1, 0.8),
    'xlogy': (0.3, 3.0), 'xlog1py': (-0.4, 3.0),
}


def numbers(shape, seed, low=-2.0, high=2.0):
    """Random float64 values that stay clear of the integers and half-integers, where rounding functions jump."""
    values = np.random.default_rng(seed).uniform(low, high, shape)
    near = np.abs(values * 2 - np.round(values * 2)) < 0.1
    return np.where(near, values + 0.12, values)


def check(function, *arrays, tolerance=1e-6):
    """Compare the gradient of sum(weights * function(inputs)) with central differences, for every input."""
    inputs = [gt.tensor(a, dtype=gt.float64, requires_grad=True) for a in arrays]
    out = function(*inputs)
    weights = gt.tensor(np.random.default_rng(7).normal(size=out.shape), dtype=gt.float64)
    (out * weights).sum().backward()

    def loss(values):
        with gt.no_grad():
            return (function(*[gt.tensor(v, dtype=gt.float64) for v in values]) * weights).sum().item()

    step = 1e-5
    for which, array in enumerate(arrays):
        got = inputs[which].grad.numpy()
        assert got.shape == array.shape
        for index in np.ndindex(array.shape):
            shifted = [a.copy() for a in arrays]
            shifted[which][index] += step
            above = loss(shifted)
            shifted[which][index] -= 2 * step
            slope = (above - loss(shifted)) / (2 * step)
            assert got[index] == pytest.approx(slope, rel=tolerance * 100, abs=tolerance * 100), \
                f'input {which} at {index}: {got[index]} instead of {slope}'


def domain(name):
    return DOMAINS.get(name, (-2.0, 2.0))


def with_numbers(name, *values):
    check(lambda g, x: getattr(g, name)(x, *values), numbers((2, 3), 1), numbers((2, 3), 2))


def refused(function, *arrays):
    """PyTorch has no gradient here either, and both say so in the backward pass."""
    inputs = [gt.tensor(a, dtype=gt.float64, requires_grad=True) for a in arrays]
    with pytest.raises(NotImplementedError, match='is not implemented'):
        function(*inputs).sum().backward()


def by_second(function):
    """The gradient by the second operand; that of the first is refused."""
    first = gt.tensor(numbers((2, 3), 1, 1.2, 3.0))
    check(lambda y: function(first, y), numbers((2, 3), 2, 0.5, 3.0))
    check(lambda y: function(gt.tensor(1.7, dtype=gt.float64), y), numbers((2, 1), 2, 0.5, 3.0))
    refused(function, numbers((2, 3), 1, 1.2, 3.0), numbers((2, 3), 2, 0.5, 3.0))


def sampled(draw, slope):
    """The gradient of samples is slope(samples, parameters, gradient); test_distributions.py checks what it means."""
    parameters = gt.tensor(numbers((2, 3), 1, 0.3, 0.8), requires_grad=True)
    samples, gradient = draw(parameters), gt.tensor(numbers((2, 3), 2))
    samples.backward(gradient)
    expected = slope(samples.detach(), parameters.detach(), gradient)
    assert np.allclose(parameters.grad.numpy(), expected.numpy())


def dirichlet_slope(x, a, g):
    return x.dirichlet_grad(a, a.sum(-1, True)) * (g - (x * g).sum(-1, True))


SPECIAL = {
    'bernoulli': lambda: sampled(gt.bernoulli, lambda x, p, g: g * 0),
    'poisson': lambda: sampled(gt.poisson, lambda x, p, g: g * 0),
    'binomial': lambda: refused(lambda p: gt.binomial(gt.full_like(p, 3.0), p), numbers((2, 3), 1, 0.1, 0.8)),
    'standard_gamma': lambda: sampled(gt._standard_gamma, lambda x, a, g: g * gt._standard_gamma_grad(a, x)),
    'dirichlet': lambda: sampled(gt._sample_dirichlet, dirichlet_slope),
    'standard_gamma_grad': lambda: refused(gt._standard_gamma_grad, numbers((2,), 1, 0.3, 2.0), numbers((2,), 2, 0.3, 2.0)),
    'dirichlet_grad': lambda: refused(gt._dirichlet_grad, *(numbers((2,), k, 0.1 + k, 0.8 + k) for k in range(3))),
    'heaviside': lambda: refused(gt.heaviside, numbers((2,), 1), numbers((2,), 2)),
    'nextafter': lambda: refused(gt.nextafter, numbers((2,), 1), numbers((2,), 2)),
    'floor_divide': lambda: refused(lambda x, y: x // y, numbers((2, 3), 1), numbers((3,), 2)),
    'trunc_divide': lambda: [check(lambda x, y: x.div(y, rounding_mode=rounding), numbers((2, 3), 1), numbers((3,), 2))
                             for rounding in ('trunc', 'floor')],
    'ldl': lambda: refused(lambda x: gt.linalg.ldl_factor(positive(x)).LD, numbers((2, 3, 3), 1)),
    'ldl_solve': lambda: refused(lambda x, b: gt.linalg.ldl_solve(*gt.linalg.ldl_factor(positive(x.detach())), b),
                                 numbers((3, 3), 1), numbers((3, 2), 2)),
    'geqrf': lambda: refused(lambda x: gt.geqrf(x).a, numbers((2, 3, 3), 1)),
    'igamma': lambda: by_second(gt.igamma),
    'igammac': lambda: by_second(gt.igammac),
    'zeta': lambda: by_second(gt.zeta),
    'polygamma': lambda: [check(lambda x: x.polygamma(n), numbers((2, 3), 1, 0.4, 3.0)) for n in (0, 1, 2)],
    'clamp': lambda: check(lambda x: x.clamp(-0.7, 0.9), numbers((2, 3), 1)),
    'hardtanh': lambda: check(lambda x: x.hardtanh(-0.7, 0.9), numbers((2, 3), 1)),
    'leaky_relu': lambda: check(lambda x: x.leaky_relu(0.2), numbers((2, 3), 1)),
    'elu': lambda: check(lambda x: x.elu(1.5, 0.6), numbers((2, 3), 1)),
    'clamp_backward': lambda: with_numbers('clamp_backward', -0.7, 0.9),
    'hardtanh_backward': lambda: with_numbers('hardtanh_backward', -0.7, 0.9),
    'leaky_relu_backward': lambda: with_numbers('leaky_relu_backward', 0.2),
    'elu_backward': lambda: with_numbers('elu_backward', 1.5, 0.6),
    'lerp': lambda: [
        check(gt.lerp, numbers((2, 3), 1), numbers((2, 3), 2), numbers((3,), 3)),
        check(lambda x, y: x.lerp(y, 0.3), numbers((2, 1), 1), numbers((2, 3), 2)),
        check(lambda x, w: x.lerp(1.5, w), numbers((2, 3), 1), numbers((3,), 2))],
    'matmul': lambda: [
        check(lambda a, b: a @ b, numbers(s, 1), numbers(t, 2))
        for s, t in [((2, 3), (3, 2)), ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 2, 3), (3, 2)),
                     ((2, 1, 2, 3), (3, 3, 1)), ((2, 2, 3), (3,)), ((3,), (2, 3, 2))]],
    'batch_norm': lambda: [
        check(lambda x, w, b: x._batch_norm(x.detach()._batch_moments(), None, w, b, 0.1), numbers(shape, 1), numbers((3,), 2),
              numbers((3,), 3)) for shape in ((4, 3), (2, 3, 2, 2))],
    'layer_norm': lambda: [
        check(lambda x, w, b: x._layer_norm(dims, w, b, 0.1), numbers((2, 2, 4), 1), numbers(shape, 2), numbers(shape, 3))
        for dims, shape in [(1, (4,)), (2, (2, 4)), (3, (2, 2, 4))]],
    'reshape': lambda: check(lambda x: x.reshape(3, 2) * 2, numbers((2, 3), 1)),
    'permute': lambda: check(lambda x: x.permute(2, 0, 1) * 2, numbers((2, 3, 2), 1)),
    'expand': lambda: check(lambda x: x.expand(4, 2, 3), numbers((2, 1), 1)),
    'slice': lambda: check(lambda x: x[1:, ::2], numbers((3, 4), 1)),
    'cast': lambda: check(lambda x: x.to(gt.float32).to(gt.float64), numbers((2, 3), 1), tolerance=1e-3),
    'copy': lambda: check(lambda x: x.clone() * 3, numbers((2, 3), 1)),
    'cat': lambda: check(lambda a, b: gt.cat([a, b, a], dim=1), numbers((2, 3), 1), numbers((2, 1), 2)),
    'tril': lambda: check(lambda x: x.tril(1), numbers((3, 4), 1)),
    'triu': lambda: check(lambda x: x.triu(-1), numbers((3, 4), 1)),
    'take': lambda: check(lambda x: x[gt.tensor([[0, 2], [-1, 0]])], numbers((3, 2), 1)),
    'gather': lambda: check(lambda x: x.gather(1, gt.tensor([[0, 0], [2, 1]])), numbers((2, 3), 1)),
    'scatter': lambda: check(lambda x, s: x.scatter(1, gt.tensor([[0, 2], [2, 1]]), s), numbers((2, 3), 1),
                             numbers((2, 3), 2)),
    'scatter_add': lambda: check(lambda x, s: x.scatter_add(1, gt.tensor([[0, 0], [2, 1]]), s), numbers((2, 3), 1),
                                 numbers((2, 2), 2)),
    'assign': lambda: check(assigned, numbers((3, 4), 1), numbers((4,), 2)),
    'where': lambda: check(lambda a, b: gt.where(gt.tensor([[True], [False]]), a, b), numbers((2, 3), 1),
                           numbers((3,), 2)),
    'cumsum': lambda: check(lambda x: x.cumsum(1), numbers((2, 4), 1)),
    'cumprod': lambda: check(lambda x: x.cumprod(1), numbers((2, 4), 1)),
    'logcumsumexp': lambda: check(lambda x: x.logcumsumexp(1), numbers((2, 4), 1)),
    'softmax': lambda: [check(lambda x: x.softmax(axis), numbers((2, 4, 2), 1)) for axis in (0, 1, -1)],
    'log_softmax': lambda: [check(lambda x: x.log_softmax(axis), numbers((2, 4, 2), 1)) for axis in (0, 1, -1)],
    'softmax_backward': lambda: check(first_derivative(lambda x: x.softmax(1)), numbers((2, 3), 1)),
    'log_softmax_backward': lambda: check(first_derivative(lambda x: x.log_softmax(1)), numbers((2, 3), 1)),
    'norm': lambda: [check(lambda x: x.norm(p, dim, True), numbers((2, 3, 2), 1))
                     for p in (0.5, 1, 1.5, 2, 3, float('inf'), -float('inf')) for dim in (None, 1, (0, 2))],
    'diagonal': lambda: [check(lambda x: x.diagonal(offset, *dims), numbers((2, 3, 4), 1))
                         for offset, dims in ((0, (0, 1)), (1, (1, 2)), (-1, (2, 0)), (9, (0, 1)))],
    'unfold': lambda: [check(lambda x: x.unfold(axis, size, step), numbers((3, 5), 1))
                       for axis, size, step in ((1, 3, 1), (1, 2, 2), (0, 2, 1), (1, 5, 7), (0, 0, 1))],
    'scatter_reduce': lambda: [
        check(lambda x, s: x.scatter_reduce(1, gt.tensor([[0, 0], [2, 1]]), s, reduce, include_self=include_self),
              numbers((2, 3), 1), numbers((2, 3), 2))
        for reduce in ('sum', 'prod', 'mean', 'amax', 'amin') for include_self in (True, False)],
}


def first_derivative(function):
    def derivative(x):
        if not x.requires_grad:
            x = x.detach()
            x.requires_grad = True
        with gt.enable_grad():
            y = function(x)
            weights = gt.arange(y.numel(), dtype=gt.float64).reshape(y.shape) + 1
            return gt.grad((y * weights).sum(), x, create_graph=True)[0]
    return derivative
def regular(x):
    """Matrices far from singular."""
    return x * 0.3 + gt.eye(x.shape[-1], dtype=gt.float64) * 2


def positive(x):
    return x @ x.mT + gt.eye(x.shape[-1], dtype=gt.float64)


def singular(x):
    """A function of all factors that does not depend on the signs of the vectors."""
    u, s, vh = gt.linalg.svd(x, full_matrices=False)
    return (u.abs() * s.unsqueeze(-2)) @ vh.abs()


def proper(x):
    w, v = gt.linalg.eigh(positive(x))
    return (v.abs() * w.unsqueeze(-2)) @ v.mT.abs()


def factors(x):
    q, r = gt.linalg.qr(x)
    return q.sin() @ r.cos()


SPECIAL.update({
    'inverse': lambda: check(lambda x: gt.inverse(regular(x)), numbers((2, 3, 3), 1)),
    'pinv': lambda: [check(gt.linalg.pinv, numbers(s, 2)) for s in [(4, 2), (2, 4), (2, 3, 3)]],
    'cofactor': lambda: check(lambda x: _gt._cofactor(regular(x)), numbers((2, 3, 3), 1)),
    'det': lambda: check(gt.det, numbers((2, 3, 3), 1)),
    'slogdet': lambda: check(lambda x: gt.slogdet(regular(x)).logabsdet, numbers((2, 3, 3), 1)),
    'cholesky': lambda: [check(lambda x: gt.linalg.cholesky(positive(x), upper=u), numbers((2, 3, 3), 1))
                         for u in (False, True)],
    'qr': lambda: [check(factors, numbers(s, 1)) for s in [(4, 2), (2, 4), (2, 3, 3)]],
    'svd': lambda: [check(f, numbers(s, 3)) for s in [(4, 2), (2, 4), (2, 3, 3)] for f in (singular, gt.linalg.svdvals)],
    'eigh': lambda: [check(f, numbers((2, 3, 3), 3)) for f in (proper, lambda x: gt.linalg.eigvalsh(positive(x)))],
    'solve': lambda: [check(lambda a, b: gt.linalg.solve(regular(a), b), numbers(s, 1), numbers(t, 2))
                      for s, t in [((3, 3), (3, 2)), ((3, 3), (2, 3, 2)), ((2, 3, 3), (3, 1)), ((3, 3), (3,))]],
    'solve_triangular': lambda: [
        check(lambda a, b: gt.linalg.solve_triangular(regular(a), b, upper=u, unitriangular=n), numbers((2, 3, 3), 1),
              numbers((3, 2), 2))
        for u in (False, True) for n in (False, True)],
})


def places():
    """Of a sparse matrix of 4 rows and 3 columns."""
    return gt.tensor([[0, 3, 3, 1], [2, 0, 1, 2]])


SPECIAL.update({
    'view_as_real': lambda: check(lambda x, y: gt.view_as_real(gt.complex(x, y).square()), numbers((2, 3), 1), numbers((2, 3), 2)),
    'view_as_complex': lambda: check(lambda x: gt.view_as_complex(x).square().abs(), numbers((3, 2), 1)),
    'attention': lambda: [check(lambda q, k, v: gt.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal),
                                *(numbers((1, 2, 4, 3), seed) for seed in (1, 2, 3))) for causal in (False, True)],
    'fft': lambda: [check(lambda x: function(x).abs(), numbers((2, n), 1))
                    for function in (gt.fft.fft, gt.fft.ifft, gt.fft.rfft, gt.fft.ihfft, gt.fft.irfft, gt.fft.hfft) for n in (4, 5)],
    'sparse_mm': lambda: [check(lambda v, x: _gt._sparse_mm(places(), v, x, rows, rows == 3), numbers((4,), 1), numbers((7 - rows, 2), 2))
                          for rows in (4, 3)],
    'sampled_mm': lambda: check(lambda a, b: _gt._sampled_mm(places(), a, b), numbers((4, 2), 1), numbers((3, 2), 2)),
})


def assigned(x, value):
    y = x * 1
    y[1] = value
    y[:, 2] = 5.0
    return y


@pytest.mark.parametrize('name', sorted(ROWS))
def test_every_differentiable_row_against_finite_differences(name):
    form = ROWS[name][0]
    if name in SPECIAL:
        SPECIAL[name]()
    elif name in DIFFERENTIATED:
        function, *shapes = DIFFERENTIATED[name]
        check(function, *(numbers(shape, seed) for seed, shape in enumerate(shapes, 1)))
    elif form == 'UNARY':
        check(getattr(gt, name), numbers((2, 3), 1, *domain(name)))
    elif form == 'BINARY':
        function, (low, high) = getattr(gt, name), domain(name)
        check(function, numbers((2, 3), 1, low, high), numbers((2, 3), 2, low, high))
        check(function, numbers((2, 3), 1, low, high), numbers((3,), 2, low, high))
        check(lambda x: function(x, gt.tensor(1.3, dtype=gt.float64)), numbers((2, 3), 1, low, high))
        check(lambda x: function(gt.tensor(1.3, dtype=gt.float64), x), numbers((2, 1), 1, low, high))
    elif form == 'REDUCE':
        everything = {'dim': (0, 1, 2)} if name == 'logsumexp' else {}
        for arguments in (everything, {'dim': 1}, {'dim': (0, 2), 'keepdim': True}, {'dim': -1}):
            check(lambda x: getattr(x, name)(**arguments), numbers((2, 3, 2), 1))
    else:
        pytest.fail(f'{name}: a differentiable row of form {form} without a gradient test')


@pytest.mark.parametrize('of', [
    lambda g, x: x // 0.5,
    lambda g, x: x.floor_divide(x + 2),
    lambda g, x: g.geqrf(x).a,
    lambda g, x: g.linalg.ldl_factor(x @ x.mT).LD,
    lambda g, x: g.histogram(x, 3).hist,
    lambda g, x: g.histogram(x, x.detach()[0].sort().values, weight=x).hist,
], ids=['//', 'floor_divide', 'geqrf', 'ldl_factor', 'histogram', 'histogram of weights'])
def test_results_without_a_gradient_refuse_it_as_torch(of):
    """They require a gradient, so that a loss that needs it fails where it would lose that part in silence."""
    said = []
    for g in (gt, torch):
        y = of(g, g.tensor(numbers((3, 3), 1).tolist(), requires_grad=True))
        assert y.requires_grad
        with pytest.raises((NotImplementedError, RuntimeError)) as caught:
            y.sum().backward()
        said.append(str(caught.value))
    assert said[0] == said[1]


@pytest.mark.parametrize('literal', [2, 3, 0.5, -1, 0, 1])
def test_powers_of_literals(literal):
    check(lambda x: x ** literal, numbers((2, 3), 1, 0.4, 2.0))
    if literal > 0:
        check(lambda x: literal ** x, numbers((2, 3), 1))


def test_prod_with_zeros_as_torch():
    for values in ([2.0, 0.0, 3.0], [0.0, 0.0, 3.0], [1.0, 2.0, 3.0]):
        ours = gt.tensor(values, requires_grad=True)
        theirs = torch.tensor(values, requires_grad=True)
        ours.prod().backward()
        theirs.prod().backward()
        assert ours.grad.tolist() == pytest.approx(theirs.grad.tolist())


@pytest.mark.parametrize('name', ['maximum', 'minimum', 'amax', 'amin', 'abs', 'relu', 'clamp'])
def test_ties_and_kinks_as_torch(name):
    values = np.array([[0.0, 1.0, 1.0, -1.0], [2.0, 2.0, -0.0, 2.0]], dtype=np.float32)
    ours, theirs = gt.tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)
    for module, x in ((gt, ours), (torch, theirs)):
        if name in ('maximum', 'minimum'):
            y = getattr(module, name)(x, module.tensor([1.0, 1.0, 0.0, 2.0]))
        elif name in ('amax', 'amin'):
            y = getattr(module, name)(x, 1)
        elif name == 'clamp':
            y = module.clamp(x, 0.0, 1.0)
        else:
            y = getattr(module, name)(x)
        y.sum().backward()
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy())


@pytest.mark.parametrize('name', ['exp', 'tanh', 'sigmoid', 'sqrt', 'log', 'sin', 'gelu', 'silu', 'softplus', 'square'])
def test_second_derivatives(name):
    values = numbers((3,), 4, 0.5, 2.0)
    x = gt.tensor(values, dtype=gt.float64, requires_grad=True)
    first, = gt.grad(getattr(gt, name)(x).sum(), x, create_graph=True)
    second, = gt.grad(first.sum(), x)
    t = torch.tensor(values, requires_grad=True)
    function = getattr(torch, name, None) or getattr(torch.nn.functional, name)
    expected, = torch.autograd.grad(function(t).sum(), t, create_graph=True)
    expected, = torch.autograd.grad(expected.sum(), t)
    np.testing.assert_allclose(second.numpy(), expected.numpy(), rtol=1e-9, atol=1e-12)


def test_second_derivatives_of_layer_norm():
    arrays = numbers((3, 4), 1), numbers((4,), 2), numbers((4,), 3)

    def second(lib, tensors):
        y = lib.nn.functional.layer_norm(tensors[0], (4,), tensors[1], tensors[2])
        first = lib.autograd.grad(y.square().sum(), tensors, create_graph=True)
        return lib.autograd.grad(sum(g.square().sum() for g in first), tensors)

    ours = second(gt, [gt.tensor(a, dtype=gt.float64, requires_grad=True) for a in arrays])
    theirs = second(torch, [torch.tensor(a, requires_grad=True) for a in arrays])
    for got, expected in zip(ours, theirs):
        np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-8, atol=1e-9)


def test_gradients_accumulate_and_can_be_cleared():
    x = gt.tensor([1.0, 2.0], requires_grad=True)
    assert x.grad is None
    (x * 3).sum().backward()
    (x * x).sum().backward()
    assert x.grad.tolist() == [5.0, 7.0]
    x.grad = None
    assert x.grad is None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_a_value_used_twice_gets_both_gradients():
    x = gt.tensor(3.0, requires_grad=True)
    y = x * x
    (y * y + y).backward()
    assert x.grad.item() == pytest.approx(4 * 27 + 6)


def test_backward_twice_needs_retain_graph():
    x = gt.tensor(2.0, requires_grad=True)
    y = (x * x).exp()
    y.backward(retain_graph=True)
    first = x.grad.item()
    y.backward()
    assert x.grad.item() == pytest.approx(2 * first)
    with pytest.raises(RuntimeError, match='second time'):
        y.backward()


def test_backward_of_a_non_scalar_needs_a_gradient():
    x = gt.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match='scalar'):
        (x * 2).backward()
    (x * 2).backward(gt.tensor([1.0, 2.0, 3.0]))
    assert x.grad.tolist() == [2.0, 4.0, 6.0]
    with pytest.raises(RuntimeError, match='shape'):
        (x * 2).backward(gt.ones(4))
    with pytest.raises(RuntimeError, match='does not require grad'):
        gt.ones(3).sum().backward()


def test_no_grad_and_detach():
    x = gt.ones(2, requires_grad=True)
    with gt.no_grad():
        assert not (x * 2).requires_grad
        with gt.enable_grad():
            assert (x * 2).requires_grad
    assert (x * 2).requires_grad and gt.is_grad_enabled()
    assert not (x * 2).detach().requires_grad

    @gt.no_grad()
    def frozen(t):
        return t * 2

    assert not frozen(x).requires_grad
    with gt.inference_mode():
        assert not (x * 2).requires_grad
    with gt.set_grad_enabled(False):
        assert not (x * 2).requires_grad
    assert gt.is_grad_enabled()


def test_leaves_and_in_place_updates():
    w = gt.tensor([1.0, 2.0], requires_grad=True)
    assert w.is_leaf and w.grad_fn is None
    assert (w * 2).grad_fn.name() == 'MulBackward0' and not (w * 2).is_leaf
    with pytest.raises(RuntimeError, match='leaf Variable'):
        w += 1
    with pytest.raises(RuntimeError, match='leaf Variable'):
        w[0] = 1
    (w * w).sum().backward()
    with gt.no_grad():
        w -= 0.5 * w.grad
    assert w.is_leaf and w.requires_grad and w.tolist() == [0.0, 0.0]
    assert w.grad.tolist() == [2.0, 4.0]
    h = w * 1
    h += 3
    h[0] = 7.0
    h.sum().backward()
    assert w.grad.tolist() == [2.0, 5.0]


def test_saved_values_that_were_changed_in_place_are_refused():
    x = gt.tensor([1.0, 2.0], requires_grad=True)
    y = x * 1
    z = y * y
    y += 100
    with pytest.raises(RuntimeError, match='modified by an inplace operation'):
        (z.sum() + 0 * y.sum()).backward()


def test_only_floating_tensors_require_grad():
    with pytest.raises(RuntimeError, match='floating'):
        gt.tensor([1, 2], requires_grad=True)
    x = gt.tensor([1.0, 2.0], requires_grad=True)
    assert not (x > 1).requires_grad
    assert not x.argmax().requires_grad
    with pytest.raises(RuntimeError, match='leaf'):
        (x * 2).requires_grad_(False)
    assert not x.requires_grad_(False).requires_grad


def test_grad_returns_what_was_asked_for():
    a, b, c = (gt.tensor(float(v), requires_grad=True) for v in (2, 3, 5))
    ga, gb = gt.grad(a * b + a, [a, b])
    assert (ga.item(), gb.item()) == (4.0, 2.0)
    assert a.grad is None and b.grad is None
    with pytest.raises(RuntimeError, match='not have been used'):
        gt.grad(a * b, [a, c])
    assert gt.grad(a * b, [a, c], allow_unused=True)[1] is None
    middle = a * b
    g, = gt.grad(middle * middle, middle)
    assert g.item() == 12.0
    with pytest.raises(RuntimeError, match='require grad'):
        gt.grad(a * 2, gt.tensor(1.0))


def test_hooks_see_and_replace_gradients():
    x = gt.tensor([1.0, 2.0], requires_grad=True)
    seen = []
    handle = x.register_hook(lambda g: seen.append(g.tolist()))
    y = x * 2
    y.register_hook(lambda g: g * 10)
    y.sum().backward()
    assert seen == [[20.0, 20.0]] and x.grad.tolist() == [20.0, 20.0]
    handle.remove()
    (x * 1).sum().backward()
    assert len(seen) == 1

    def broken(gradient):
        raise KeyError('mine')

    z = x * 2
    z.register_hook(broken)
    with pytest.raises(KeyError, match='mine'):
        z.sum().backward()
    with pytest.raises(RuntimeError, match="doesn't require"):
        gt.ones(2).register_hook(print)


@pytest.mark.parametrize('ours, theirs', [
    (gt.float32, gt.float64), (gt.float16, gt.float32), (gt.bfloat16, gt.float64)])
def test_gradients_have_the_dtype_of_their_tensor(ours, theirs):
    x = gt.tensor([1.0, 2.0], dtype=ours, requires_grad=True)
    y = gt.tensor([[3.0, 4.0], [5.0, 6.0]], dtype=theirs, requires_grad=True)
    (x * y).sum().backward()
    assert x.grad.dtype == ours and y.grad.dtype == theirs
    assert x.grad.tolist() == [8.0, 10.0] and y.grad.tolist() == [[1.0, 2.0]] * 2
    x.grad = None
    gt.where(gt.tensor([True, False]), x, y).sum().backward()
    assert x.grad.dtype == ours and x.grad.tolist() == [2.0, 0.0]
    x.grad = None
    z = x * 2
    z.backward(gt.ones(2, dtype=theirs))
    assert x.grad.dtype == ours and x.grad.tolist() == [2.0, 2.0]
    for name in ('add', 'maximum', 'div', 'pow'):
        assert [g.dtype for g in gt.grad(getattr(gt, name)(x, y).sum(), [x, y])] == [ours, theirs]


def test_a_hook_may_remove_hooks_while_they_run():
    x = gt.ones(2, requires_grad=True)
    called, handles = [], []

    def first(gradient):
        called.append('first')
        for handle in handles:
            handle.remove()
            handle.remove()

    handles.append(x.register_hook(first))
    handles.append(x.register_hook(lambda g: called.append('second')))
    x.register_hook(lambda g: called.append('third'))
    (x * 2).sum().backward()
    assert called == ['first', 'third']
    (x * 2).sum().backward()
    assert called == ['first', 'third', 'third']


def test_a_hook_added_by_a_hook_waits_for_the_next_pass():
    x = gt.ones(2, requires_grad=True)
    called = []

    def again(gradient):
        called.append(len(called))
        x.register_hook(again)

    x.register_hook(again)
    (x * 2).sum().backward()
    assert called == [0]
    (x * 2).sum().backward()
    assert called == [0, 1, 2]


def test_a_running_hook_outlives_its_removal():
    x = gt.ones(2, requires_grad=True)

    class Hook:
        alive = 0

        def __init__(self):
            Hook.alive += 1

        def __del__(self):
            Hook.alive -= 1

        def __call__(self, gradient):
            handle.remove()
            gc.collect()
            self.called = Hook.alive

    handle = x.register_hook(Hook())
    (x * 2).sum().backward()
    assert Hook.alive == 0
    handle.remove()


def test_a_handle_finds_its_hook_after_in_place_changes():
    x = gt.ones(2, requires_grad=True)
    called = []
    y = x * 2
    handle = y.register_hook(lambda g: called.append(1))
    y += 1
    handle.remove()
    y.sum().backward()
    assert not called

    y = x * 2
    y.register_hook(lambda g: called.append(2))
    y += 1
    y.sum().backward()
    assert called == [2]


def test_a_handle_may_outlive_its_tensor():
    x = gt.ones(2, requires_grad=True)
    recorded = len(_gt._tape())
    y = x * 2
    handle = y.register_hook(lambda g: None)
    del y
    assert len(_gt._tape()) == recorded
    handle.remove()


def test_hooks_must_keep_shape_and_dtype():
    x = gt.ones(2, requires_grad=True)
    for change in (lambda g: g.sum(), lambda g: g.to(gt.float64)):
        y = x * 2
        y.register_hook(change)
        with pytest.raises(RuntimeError, match='a hook has changed its gradient'):
            y.sum().backward()


def test_backward_inside_a_hook_over_the_same_graph():
    x = gt.tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    total, inner = y.sum(), []

    def hook(gradient):
        if not inner:
            inner.append(None)
            inner[0], = gt.grad(total, x, retain_graph=True)

    handle = y.register_hook(hook)
    (y * 3 + x).sum().backward()
    assert inner[0].tolist() == [2.0, 4.0]
    assert x.grad.tolist() == [7.0, 13.0]
    handle.remove()  # a cycle: it holds total, whose record holds it


def test_backward_inside_a_hook_that_consumes_the_graph():
    x = gt.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).exp()
    totals, z = [y.sum()], (y * 3).sum()
    y.register_hook(lambda g: totals.pop().backward() if totals else None)
    with pytest.raises(RuntimeError, match='second time'):
        z.backward()
    assert x.grad.tolist() == pytest.approx((2 * x * (x * x).exp()).tolist())


def test_backward_that_never_ends_is_a_recursion_error():
    x = gt.ones(2, requires_grad=True)
    y = x * 2
    total = y.sum()
    handle = y.register_hook(lambda g: total.backward(retain_graph=True))
    with pytest.raises(RecursionError):
        total.backward(retain_graph=True)
    handle.remove()
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_two_threads_walk_one_graph():
    """Hooks that wait let the other thread run while both passes are at the same nodes."""
    x = gt.tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    meet = threading.Barrier(2, timeout=20)
    z = (y * 3 + x).sum()

    def hook(gradient):
        meet.wait()

    y.register_hook(hook)
    results = [None, None]

    def run(which):
        results[which], = gt.grad(z * (which + 1), x, retain_graph=True)

    threads = [threading.Thread(target=run, args=(which,)) for which in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [r.tolist() for r in results] == [[7.0, 13.0], [14.0, 26.0]]


def test_retain_grad_keeps_a_middle_gradient():
    x = gt.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    y.retain_grad()
    (y * y).sum().backward()
    assert y.grad.tolist() == [6.0, 12.0]


def test_a_long_chain_neither_recurses_nor_leaks():
    x = gt.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y + 1
    y.backward()
    assert x.grad.item() == 1.0
    del y
    gc.collect()
    assert all(entry[1] == 'leaf' for entry in _gt._tape() if entry[2] == ())


def test_backward_frees_what_it_consumed():
    gc.collect()
    gt.synchronize()
    before = gt.debug.dispatcher_stats(wait=True)['workers'][0]['tensors']
    x = gt.ones(4, requires_grad=True)
    y = (x * 2).exp().sum()
    y.backward()
    del y
    x.grad = None
    del x
    gt.synchronize()
    assert gt.debug.dispatcher_stats(wait=True)['workers'][0]['tensors'] == before


def test_an_mlp_learns_as_in_torch():
    rng = np.random.default_rng(0)
    data = {'x': (16, 8), 'w1': (8, 32), 'b1': (32,), 'w2': (32, 4), 'b2': (4,), 'y': (16, 4)}
    data = {k: rng.normal(size=s).astype(np.float32) * 0.3 for k, s in data.items()}
    losses = {}
    for module in (gt, torch):
        x, y = module.tensor(data['x']), module.tensor(data['y'])
        weights = [module.tensor(data[k]).requires_grad_() for k in ('w1', 'b1', 'w2', 'b2')]
        losses[module] = []
        for _ in range(50):
            w1, b1, w2, b2 = weights
            hidden = module.relu(x @ w1 + b1)
            loss = ((hidden @ w2 + b2 - y) ** 2).mean()
            loss.backward()
            with module.no_grad():
                for w in weights:
                    w -= 0.1 * w.grad
                    w.grad = None
            losses[module].append(loss.item())
    np.testing.assert_allclose(losses[gt], losses[torch], rtol=1e-4)
    assert losses[gt][-1] < losses[gt][0] / 2


def test_slices_of_one_tensor():
    """Parts that overlap or do not, with steps, along several axes, and the whole: their gradients add up."""
    rng = np.random.default_rng(7)
    values = rng.standard_normal((5, 4, 3)).astype('f')
    parts = [lambda h: h[0], lambda h: h[1:3], lambda h: h[3:], lambda h: h[2:4], lambda h: h[:, 1:3], lambda h: h[::2],
             lambda h: h, lambda h: h[4], lambda h: h[:, :, 1], lambda h: h[1:2, 1:2]]
    for _ in range(40):
        chosen = [parts[k] for k in rng.integers(0, len(parts), rng.integers(2, 7))]
        gradients = []
        for library in (torch, gt):
            x = library.tensor(values).requires_grad_()
            h = x * 2
            sum((cut(h) * cut(h) * (k + 1)).sum() for k, cut in enumerate(chosen)).backward()
            gradients.append(x.grad.numpy())
        np.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-5, atol=1e-6)


def test_unbind_makes_no_sums():
    """The gradients of parts that do not overlap are put together without additions."""
    x = gt.randn(3, 4, 5, requires_grad=True)
    h = x.exp()
    q, k, v = h
    y = q * k * v
    before = gt.debug.get_worker_stats(wait=True)
    y.backward(gt.ones(4, 5))
    x.grad.numpy()
    after = gt.debug.get_worker_stats(wait=True)

    def adds(stats):
        return sum(worker.get('ops', {}).get('add', {}).get('count', 0) for worker in stats.values() if isinstance(worker, dict))
    assert adds(after) == adds(before)
