"""gt.func and vmap against torch.func: transformations, nesting, batching rules of every family, errors."""

import warnings

import numpy as np
import pytest

import gt
from both import both, same_error

RNG = np.random.default_rng(3)


def floats(*shape):
    return RNG.standard_normal(shape).astype('float32')


A, B, V, W = floats(5, 3, 4), floats(5, 4, 2), floats(5, 3), floats(3, 4)
INDEX = RNG.integers(0, 3, (5, 6))


# ---- batching rules ------------------------------------------------------------------------------------------------

UNBATCHED_SECOND = dict(in_dims=(0, None))
RULES = {
    'unary': (lambda m, a: (a.exp(), a.neg(), a.to(m.float64)), A),
    'binary of different ranks': (lambda m, a, b: a * b, A, V[:, :1]),
    'a 0-d operand gives way in promotion': (lambda m, a, b: a.sum() + b.to(m.float64), A, V),
    'ternary': (lambda m, a, b: m.where(a > 0, a, b), A, A),
    'comparison': (lambda m, a: (a > 0, a == a.amax()), A),
    'reductions': (lambda m, a: (a.sum(), a.mean(0), a.var(1), a.amax((0, 1)), a.norm(), a[0, 0].sum(),
                                 (a > 0).any(), a.prod(0, keepdim=True)), A),
    'argreduce': (lambda m, a: (a.argmax(), a.argmin(0), a.argmax(1, keepdim=True), a[0, 0].argmax()), A),
    'scan': (lambda m, a: (a.cumsum(0), a.cumprod(-1), a.logcumsumexp(0)), A),
    'softmax': (lambda m, a: (m.softmax(a, 0), m.log_softmax(a, -1)), A),
    'sort': (lambda m, a: (m.sort(a, 1)[0], m.argsort(a, 0), m.topk(a, 2)[0]), A),
    'matrices': (lambda m, a, b: a @ b, A, B),
    'vectors': (lambda m, a: (a @ a, m.dot(a, a), m.outer(a, a)), V),
    'matrix and vector': (lambda m, a, v: v @ a, A, V),
    'views': (lambda m, a: (a.t(), a.reshape(-1), a.expand(2, 3, 4), a[1:, ::2], a[None, :, 0], a.diagonal(), a.unfold(1, 2, 1),
                            a.flatten(), a.unsqueeze(0).squeeze(0), a.flip(0)), A),
    'joined': (lambda m, a: (m.cat([a, a * 2]), m.stack([a[0], a[1]], 1)), A),
    'triangle': (lambda m, a: (a.tril(), a.triu(1)), A),
    'take': (lambda m, a, i: (a[i], a[:, i]), A, INDEX),
    'gather': (lambda m, a, i: a.gather(0, i[:4].unsqueeze(0)), A, INDEX),
    'scatter': (lambda m, a, i: a.scatter_add(0, i[:4].unsqueeze(0), a[:1] * 2), A, INDEX),
    'linear algebra': (lambda m, a: (m.linalg.inv(a @ a.t() + 3 * m.eye(3)), m.linalg.det(a @ a.t()),
                                     m.linalg.solve(a @ a.t() + 3 * m.eye(3), a)), A),
    'fourier transforms': (lambda m, a: (m.fft.rfft(a).abs(), m.view_as_real(m.fft.fft2(a)), m.fft.irfft(m.fft.rfft(a, dim=0), dim=0)),
                           A),
    'einsum': (lambda m, a, b: m.einsum('ij,jk->ki', a, b), A, B),
    'in place': (lambda m, a: (lambda c: (c.mul_(2), c)[1])(a.clone()), A),
    'clamp and numbers': (lambda m, a: a.clamp(-0.5, 0.5) + 2.5, A),
}


@pytest.mark.parametrize('name', RULES)
def test_rule(name):
    function, *arrays = RULES[name]
    with warnings.catch_warnings():
        warnings.simplefilter('error')  # no rule is missing
        both(lambda m, *t: m.vmap(lambda *x: function(m, *x))(*t), *arrays)


SHARED = {
    'rows of one product': (lambda m, v, w: v @ w, V, W),
    'one matrix, many vectors': (lambda m, v, w: w.t() @ v, V, W),
    'a table, many indices': (lambda m, i, w: w[i], INDEX, W),
    'many tables, one index': (lambda m, a, i: a[i], A, INDEX[0]),
    'cat with a shared part': (lambda m, a, w: m.cat([a, w]), A, W),
    'elementwise': (lambda m, a, w: a * w + w, A, W),
}


@pytest.mark.parametrize('name', SHARED)
def test_shared_operand(name):
    function, *arrays = SHARED[name]
    both(lambda m, *t: m.vmap(lambda *x: function(m, *x), **UNBATCHED_SECOND)(*t), *arrays)


LAYERS = {
    'linear': lambda F, x, w, b: F.linear(x.flatten(), w.flatten(1)[:, :48], b),
    'conv': lambda F, x, w, b: F.conv2d(x[None], w, b, padding=1, stride=2),
    'grouped conv': lambda F, x, w, b: F.conv2d(x[None], w[:, :1], b, groups=3),
    'transposed conv': lambda F, x, w, b: F.conv_transpose2d(x[None], w[:3], None, stride=2),
    'pool': lambda F, x, w, b: F.max_pool2d(x[None], 2) + F.avg_pool2d(x[None], 2),
    'interpolate': lambda F, x, w, b: F.interpolate(x[None], scale_factor=2.0, mode='bilinear'),
    'layer norm': lambda F, x, w, b: F.layer_norm(x, (4, 4), w[0, :1].repeat(1, 2, 2)[0, :4, :4], None),
    'group norm': lambda F, x, w, b: F.group_norm(x[None], 3, b[:3], b[3:6]),
    'unfold': lambda F, x, w, b: F.unfold(x[None], 2),
}
IMAGES, KERNEL, BIAS = floats(4, 3, 4, 4), floats(6, 3, 2, 2), floats(6)


@pytest.mark.parametrize('name', ['conv', 'grouped conv', 'transposed conv', 'pool', 'interpolate', 'layer norm', 'group norm',
                                  'unfold'])
def test_layer_and_its_gradient_of_each_sample(name):
    layer = LAYERS[name]

    def run(m, x, w, b):
        def loss(w, b, x):
            return (layer(m.nn.functional, x, w, b) ** 2).mean()
        outputs = m.vmap(lambda x: layer(m.nn.functional, x, w, b))(x)
        return outputs, m.vmap(m.func.grad(loss, argnums=(0, 1, 2)), in_dims=(None, None, 0))(w, b, x)
    both(run, IMAGES, KERNEL, BIAS)


def test_operations_without_a_rule_are_computed_sample_by_sample_with_one_warning():
    def run(m, x, s):  # more shared operands than the rule of cat expands
        return m.vmap(lambda a, b: m.cat([a] * 9 + [b]), in_dims=(0, None))(x, s)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter('always')
        both(run, V, V[0])
        both(run, V, V[0])
    assert sum('performance drop' in str(w.message) for w in seen) <= 1


# ---- arguments -------------------------------------------------------------------------------------------------------


def test_dims_of_nested_arguments_and_results():
    both(lambda m, a, b: m.vmap(lambda d, s: {'x': d['p'][0] * s, 'y': (d['p'][1], s)},
                                in_dims=({'p': (0, 2)}, None))({'p': (a, b)}, a[0, 0]), V, floats(3, 2, 5))
    both(lambda m, a: m.vmap(lambda x: (x.sum(0), x * 2), in_dims=-1, out_dims=(0, -1))(a), A)


def test_chunks():
    both(lambda m, a: m.vmap(lambda x: (x.sum(0), x * 2), chunk_size=2)(a), A)


def test_nested():
    both(lambda m, a, b: m.vmap(m.vmap(m.dot, in_dims=(None, 0)), in_dims=(0, None))(a, b), V, V)
    both(lambda m, a, b: m.vmap(lambda x: m.vmap(lambda y: (x.unsqueeze(1) * y).sum(0))(b))(a), V, B[:, :3])


def test_random_numbers():
    gt.manual_seed(0)
    x = gt.zeros(4, 3)
    different = gt.vmap(lambda a: a + gt.randn(3), randomness='different')(x)
    same = gt.vmap(lambda a: a + gt.randn(3), randomness='same')(x)
    assert (different[0] != different[1]).all() and (same[0] == same[3]).all()
    dropped = gt.vmap(lambda a: gt.nn.functional.dropout(a + 1), randomness='different')(gt.zeros(2, 200))
    assert (dropped[0] != dropped[1]).any()
    nested = gt.vmap(lambda a: gt.vmap(lambda b: gt.rand(()), randomness='same')(a), randomness='different')(x)
    assert (nested[0] == nested[0, 0]).all() and (nested[0] != nested[1]).all()
    ones = gt.vmap(lambda p: (gt.bernoulli(p), gt.bernoulli(gt.full((300,), 0.5)), gt.multinomial(p, 40)),
                   randomness='different')(gt.full((2, 300), 0.5))
    assert all((x[0] != x[1]).any() for x in ones)
    trials = gt.vmap(lambda n, p: gt.binomial(n, p), randomness='different')(gt.full((2, 300), 9.0), gt.full((2, 300), 0.5))
    assert (trials[0] != trials[1]).any() and bool(((trials >= 0) & (trials <= 9)).all())
    same_error(lambda m: m.vmap(lambda a: m.rand(3))(m.zeros(2, 3)), 'randomness error mode')


@pytest.mark.parametrize('call, text', [
    (lambda m: m.vmap(m.sin)(), 'got no inputs'),
    (lambda m: m.vmap(m.sin, in_dims=None)(m.ones(2)), 'expected `in_dims` to be int or a (potentially'),
    (lambda m: m.vmap(m.sin, in_dims=(None,))(m.ones(2)), None),
    (lambda m: m.vmap(m.sin, in_dims=3)(m.ones(2)), 'that input is a Tensor of dimensionality 1'),
    (lambda m: m.vmap(m.add)(m.ones(2), m.ones(3)), 'Expected all tensors to have the same size in the mapped dimension'),
    (lambda m: m.vmap(m.add)(m.ones(2), 3.0), 'We cannot vmap over non-Tensor arguments'),
    (lambda m: m.vmap(lambda x: 3)(m.ones(2)), 'must only return Tensors'),
    (lambda m: m.vmap(lambda x: x.item())(m.ones(2)), 'calling .item() on a Tensor'),
    (lambda m: m.vmap(m.sin, randomness='x')(m.ones(2)), 'Only allowed values for randomness'),
    (lambda m: m.vmap(m.sin, chunk_size=0)(m.ones(2)), 'chunk_size should be None or greater than 0'),
])
def test_errors(call, text):
    same_error(call, text)


def test_a_tensor_that_leaves_its_vmap_cannot_be_used():
    kept = []
    gt.vmap(lambda x: kept.append(x * 2) or x)(gt.ones(3))
    with pytest.raises(RuntimeError, match='vmap that has ended'):
        kept[0] + 1
    assert (gt.ones(2) + 1).tolist() == [2, 2]


# ---- transformations --------------------------------------------------------------------------------------------------


def test_grad():
    both(lambda m, x: m.func.grad(lambda a: (a ** 3).sum())(x), V)
    both(lambda m, x: m.func.grad(lambda a, b: (a * b['w']).sum(), argnums=(0, 1))(x, {'w': x * 2}), V)
    both(lambda m, x: m.func.grad_and_value(lambda a: ((a ** 3).sum(), a * 2), has_aux=True)(x), V)
    both(lambda m, x: m.func.grad(m.func.grad(m.func.grad(lambda a: m.sin(a) * a ** 3)))(x[0, 0]), V)
    both(lambda m, x: m.func.grad(lambda a: m.ones(()) * 3)(x), V)  # does not depend on x
    same_error(lambda m: m.func.grad(m.sin)(m.ones(3)), 'Expected f(*args) to return a scalar Tensor')
    same_error(lambda m: m.func.grad(lambda a: a.sum(), argnums=2)(m.ones(3)), None)


def test_results_are_recorded_only_where_a_gradient_is_around():
    x = gt.ones(3)
    assert not gt.func.grad(lambda a: (a ** 2).sum())(x).requires_grad
    w = gt.ones(3, requires_grad=True)
    through = gt.func.grad(lambda a: (a ** 2 * w).sum())(x)
    assert through.requires_grad
    through.sum().backward()
    assert w.grad.tolist() == [2, 2, 2]


def test_vjp_and_jvp():
    both(lambda m, x: m.func.vjp(lambda a: (m.sin(a), a.sum()), x)[1]((x, x[0, 0])), V)
    both(lambda m, x: m.func.jvp(lambda a, b: m.sin(a) * b, (x, x), (x, x * 2)), V)
    both(lambda m, x: m.func.jvp(lambda a: (m.sin(a), a * 2), (x,), (x,), has_aux=True), V)
    both(lambda m, x: m.func.linearize(m.sin, x)[1](x * 2), V)


def test_jacobians():
    both(lambda m, x: m.func.jacrev(lambda a: m.sin(a) * a.sum())(x), V[0])
    both(lambda m, x: m.func.jacfwd(lambda a: m.sin(a) * a.sum())(x), V[0])
    both(lambda m, x: m.func.jacrev(lambda a, b: {'o': (a * b).sum(0), 'p': a[0]}, argnums=(0, 1))(x, x * 2), V)
    both(lambda m, x: m.func.jacfwd(lambda a, b: (a * b).sum(0), argnums=(0, 1))(x, x * 2), V)
    both(lambda m, x: m.func.jacrev(lambda a: (a.exp(), a * 2), has_aux=True)(x), V)
    both(lambda m, x: m.func.hessian(lambda a: (a ** 3).sum() * a[0])(x), V[0])
    both(lambda m, x: m.func.jacfwd(m.func.jacfwd(lambda a: (a ** 3).sum()))(x), V[0])


def test_transformations_of_samples():
    both(lambda m, x: m.vmap(m.func.jacrev(lambda a: m.sin(a) * a.sum()))(x), V)
    both(lambda m, x: m.vmap(m.func.hessian(lambda a: (a ** 3).sum() * a[0]))(x), V)
    both(lambda m, w, x: m.func.grad(lambda p: m.vmap(lambda a: (a @ p).sin().sum())(x).sum())(w), W, V)
    both(lambda m, x: m.func.jacrev(m.vmap(lambda a: a.softmax(0)))(x), V)


def test_per_sample_gradients_of_a_network():
    def run(m, x, w1, w2, y):
        def loss(p, a, t):
            h = m.nn.functional.layer_norm(m.tanh(a @ p['w1']), (4,))
            return m.nn.functional.cross_entropy((h @ p['w2'])[None], t[None])
        return m.func.vmap(m.func.grad(loss), in_dims=(None, 0, 0))({'w1': w1, 'w2': w2}, x, y)
    both(run, V, W, W.T.copy(), RNG.integers(0, 3, 5))


def test_embedding_gradients_of_samples():
    both(lambda m, w, i: m.vmap(m.func.grad(lambda p, j: m.nn.functional.embedding(j, p).square().sum()),
                                in_dims=(None, 0))(w, i), W, INDEX)


def test_functional_call():
    model = gt.nn.Sequential(gt.nn.Linear(3, 4), gt.nn.ReLU(), gt.nn.Linear(4, 2))
    parameters = dict(model.named_parameters())
    x = gt.tensor(V)
    doubled = {name: p.detach() * 2 for name, p in parameters.items()}
    out = gt.func.functional_call(model, doubled, (x,))
    assert not out.requires_grad and model[0].weight is parameters['0.weight']
    expected = (x @ doubled['0.weight'].t() + doubled['0.bias']).relu() @ doubled['2.weight'].t() + doubled['2.bias']
    assert out.allclose(expected)
    gradients = gt.func.grad(lambda p: gt.func.functional_call(model, p, (x,)).sum())(
        {name: p.detach() for name, p in parameters.items()})
    model(x).sum().backward()
    assert all(gradients[name].allclose(p.grad) for name, p in parameters.items())
    gt.func.functional_call(model, {'nothing': x}, (x,))  # an attribute during the call, as in PyTorch
    assert not hasattr(model, 'nothing')
    with pytest.raises(RuntimeError, match=r"Error\(s\) in reparametrizing for Sequential:\n\tUnexpected key\(s\): 'nothing'"):
        gt.func.functional_call(model, {'nothing': x}, (x,), strict=True)


def test_an_ensemble_in_one_call():
    models = [gt.nn.Linear(3, 2) for _ in range(4)]
    parameters, buffers = gt.func.stack_module_state(models)
    x = gt.tensor(V)
    outputs = gt.vmap(lambda p: gt.func.functional_call(models[0], p, (x,)))(parameters)
    assert outputs.allclose(gt.stack([model(x) for model in models]))


# ---- Functions ---------------------------------------------------------------------------------------------------------


class Cube(gt.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3

    @staticmethod
    def backward(ctx, g):
        return g * 3 * ctx.saved_tensors[0] ** 2


class CubeOfBatches(Cube):
    @staticmethod
    def vmap(info, in_dims, x):
        assert info.batch_size == 5 and in_dims == (0,)
        return CubeOfBatches.apply(x), 0


@pytest.mark.parametrize('function', [Cube, CubeOfBatches])
@pytest.mark.filterwarnings('ignore:There is a performance drop')
def test_functions_of_the_user(function):
    x = gt.tensor(V)
    cubes = gt.vmap(lambda a: function.apply(a).sum())(x)
    assert cubes.allclose((x ** 3).sum(1))
    gradients = gt.vmap(gt.func.grad(lambda a: function.apply(a).sum() * a[0]))(x)
    expected = 3 * x ** 2 * x[:, :1]
    expected[:, 0] += (x ** 3).sum(1)
    assert gradients.allclose(expected, rtol=1e-4)
    jacobian = gt.func.jacrev(function.apply)(x[0])
    assert jacobian.allclose((3 * x[0] ** 2).diag(), rtol=1e-4)


def test_bce_of_samples():
    def run(m, p, y):
        return m.vmap(m.func.grad(lambda a, b: m.nn.functional.binary_cross_entropy(m.sigmoid(a), b)))(p, y)
    both(run, V, (V > 0).astype('float32'))
