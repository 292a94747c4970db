"""Batch norm against PyTorch: values, gradients, gradients of gradients, running statistics, vmap, halves, parts on workers."""
import numpy as np
import pytest
import torch

import gt

TOLERANCE = {'float32': 2e-5, 'float64': 1e-10, 'float16': 4e-3, 'bfloat16': 3e-2}
SHAPES = [(6, 4), (70, 65), (3, 4, 5), (4, 3, 5, 7), (2, 6, 14, 14), (3, 2, 2, 3, 4)]


def tensor(library, array, dtype='float32', grad=False):
    made = torch.tensor(array) if library is torch else gt.tensor(array)
    return made.to(getattr(library, dtype)).requires_grad_(grad)


def numbers(value):
    return np.array(value.detach().to(value.dtype if 'int' in str(value.dtype) else
                                      gt.float64 if isinstance(value, gt.Tensor) else torch.float64).tolist())


def same(ours, theirs, dtype):
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        assert str(a.dtype).split('.')[1] == str(b.dtype).split('.')[1] and tuple(a.shape) == tuple(b.shape)
        a, b = numbers(a), numbers(b)
        scale = np.abs(b[np.isfinite(b)]).max(initial=1)
        np.testing.assert_allclose(a, b, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * scale)


def arrays(*shapes, seed=0):
    generator = np.random.default_rng(seed)
    return [generator.standard_normal(shape).astype(np.float32) for shape in shapes]


def module_step(library, shape, dtype, training, options, wide_weights):
    """A layer after two batches: the result, all gradients, all buffers."""
    kind = {2: 'BatchNorm1d', 3: 'BatchNorm1d', 4: 'BatchNorm2d', 5: 'BatchNorm3d'}[len(shape)]
    layer = getattr(library.nn, kind)(shape[1], **options)
    first, x, g, weight, bias = arrays(shape, shape, shape, shape[1], shape[1])
    if options.get('affine', True):
        with library.no_grad():
            layer.weight.copy_(tensor(library, weight))
            layer.bias.copy_(tensor(library, bias))
    if dtype == 'float64' or not wide_weights:
        layer = layer.to(getattr(library, dtype))
    layer(tensor(library, 3 * first - 1, dtype))
    layer.train(training)
    x = tensor(library, 2 * x + 5, dtype, True)
    y = layer(x)
    y.backward(tensor(library, g, dtype))
    return [y, x.grad, *(p.grad for p in layer.parameters()), *layer.buffers()]


@pytest.mark.parametrize('dtype', TOLERANCE)
@pytest.mark.parametrize('shape', SHAPES, ids=str)
def test_layers(shape, dtype):
    for options in ({}, {'affine': False}, {'track_running_stats': False}, {'momentum': None}, {'eps': 0.1, 'momentum': 0.3}):
        for training in (True, False):
            for wide_weights in (True, False):
                case = shape, dtype, training, options, wide_weights
                same(module_step(gt, *case), module_step(torch, *case), dtype)


@pytest.mark.parametrize('training', [True, False])
@pytest.mark.parametrize('given', [(True, True), (True, False), (False, False)], ids=str)  # PyTorch fails without weight
def test_gradients_of_gradients(given, training):
    def work(library):
        x, g, weight, bias, mean, variance = (tensor(library, a, 'float64', True) for a in arrays((4, 3, 2, 3), (4, 3, 2, 3), 3, 3, 3, 3))
        weight, bias = weight if given[0] else None, bias if given[1] else None
        mean, variance = mean.detach(), variance.detach().abs() + 0.5
        y = library.nn.functional.batch_norm(x, mean, variance, weight, bias, training, 0.1, 0.1)
        inputs = [t for t in (x, weight, bias) if t is not None]
        first = library.autograd.grad(y, inputs, g, create_graph=True)
        total = sum((t * t).sum() for t in first)
        return [*first, *library.autograd.grad(total, [g, *inputs], allow_unused=True)]
    ours, theirs = work(gt), work(torch)
    assert all(a is None or not a.any() for a, b in zip(ours, theirs) if b is None)
    same([a for a, b in zip(ours, theirs) if b is not None], [b for b in theirs if b is not None], 'float64')


@pytest.mark.parametrize('over', [(0, None, None), (0, 0, 0), (None, 0, None), (0, None, 0)], ids=str)
@pytest.mark.parametrize('shape', [(5, 3), (4, 3, 2, 5)], ids=str)
def test_vmap(shape, over):
    def work(library):
        x, weight, bias = (tensor(library, a, 'float64') for a in
                           arrays(*((7, *s) if axis == 0 else s for s, axis in zip((shape, (3,), (3,)), over))))

        def loss(x, weight, bias):
            return (library.nn.functional.batch_norm(x, None, None, weight, bias, True) ** 3).sum()
        return library.func.vmap(library.func.grad(loss, (0, 1, 2)), over)(x, weight, bias)
    same(work(gt), work(torch), 'float64')


def test_a_large_mean_costs_no_digits():
    def work(library):
        x = tensor(library, arrays((16, 2, 40, 40))[0] + np.float32(4096), 'float32', True)
        mean, variance = tensor(library, np.zeros(2, np.float32)), tensor(library, np.ones(2, np.float32))
        y = library.nn.functional.batch_norm(x, mean, variance, training=True)
        return [y, mean, variance]
    same(work(gt), work(torch), 'bfloat16')
    assert abs(numbers(work(gt)[2]) - numbers(work(torch)[2])).max() < 1e-4


def test_one_infinite_element_spoils_its_channel_alone():
    def work(library):
        x = arrays((4, 3, 5))[0]
        x[1, 1, 2] = np.inf
        mean, variance = tensor(library, np.zeros(3, np.float32)), tensor(library, np.ones(3, np.float32))
        return library.nn.functional.batch_norm(tensor(library, x), mean, variance, training=True), mean, variance
    for ours, theirs in zip(work(gt), work(torch)):
        np.testing.assert_allclose(numbers(ours), numbers(theirs), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('call', [
    lambda L, F: F.batch_norm(L.ones(2, 3), L.ones(2), L.ones(2)), lambda L, F: F.batch_norm(L.ones(2, 3), L.ones(3), L.ones(2)),
    lambda L, F: F.batch_norm(L.ones(2, 3), None, None), lambda L, F: F.batch_norm(L.ones(2, 3), L.ones(3), None),
    lambda L, F: F.batch_norm(L.ones(2, 3), None, None, L.ones(2), training=True),
    lambda L, F: F.batch_norm(L.ones(2, 3), None, None, L.ones(3), L.ones(4), training=True),
    lambda L, F: F.batch_norm(L.ones(2, 3), L.ones(3), None, training=True),
    lambda L, F: F.batch_norm(L.ones(2, 3), None, L.ones(3), training=True),
    lambda L, F: F.batch_norm(L.ones(2, 3, dtype=L.int64), None, None, training=True),
    lambda L, F: F.batch_norm(L.ones(3), L.ones(3), L.ones(3)), lambda L, F: F.batch_norm(L.ones(3), None, None, training=True),
    lambda L, F: F.batch_norm(L.ones(3), L.ones(3), L.ones(3), training=True), lambda L, F: F.batch_norm(L.ones(()), None, None),
    lambda L, F: F.batch_norm(L.ones(()), None, None, training=True), lambda L, F: F.batch_norm(L.ones(()), L.ones(3), L.ones(3)),
    lambda L, F: F.batch_norm(L.ones(1, 3), L.ones(2), L.ones(2), training=True),
    lambda L, F: F.batch_norm(L.ones(1, 0), None, None, training=True),
])
def test_errors(call):
    with pytest.raises(Exception) as theirs:
        call(torch, torch.nn.functional)
    with pytest.raises(Exception) as ours:
        call(gt, gt.nn.functional)
    assert type(ours.value).__name__ == type(theirs.value).__name__
    assert str(ours.value).splitlines()[0] == str(theirs.value).splitlines()[0].replace('torch.Size', 'gt.Size')


def test_three_passes_forward_and_four_backward():
    """No intermediate tensors of the input's size: this is what makes the layer fast."""
    def counts():
        return {name: row['count'] for worker in gt.debug.get_worker_stats(wait=True).values() for name, row in worker['ops'].items()}
    x = tensor(gt, arrays((4, 3, 5, 5))[0], 'bfloat16', True)
    layer = gt.nn.BatchNorm2d(3)
    layer(x).sum().item()
    before = counts()
    layer(x).backward(gt.ones_like(x))
    x.grad.sum().item()
    after = counts()
    new = {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}
    assert all(new[name] == 1 for name in ('batch_moments', 'batch_norm', 'batch_norm_backward', 'batch_norm_backward_affine'))
    assert not {'sub', 'square', 'rsqrt', 'mean', 'cast'} & new.keys()


@pytest.mark.parametrize('axis', [0, 1, 2])
def test_parts_on_workers(axis):
    """Split along samples, channels or rows of pixels, the parts stay where they are."""
    x, g, weight, bias = arrays((7, 5, 6, 4), (7, 5, 6, 4), 5, 5)
    connection = gt._gt.open_embedded(3)
    gt._gt.use(connection)
    try:
        gt.register_config('parts', gt.SignalConfig(gt.ShardConfig(axis, None, False), None))
        results = []
        for split in (False, True):
            a = tensor(gt, x + 3, 'float64')
            a = (gt.signal.tensor(a, name='parts') if split else a).requires_grad_()
            w, b = tensor(gt, weight, 'float64', True), tensor(gt, bias, 'float64', True)
            y = gt.nn.functional.batch_norm(a, None, None, w, b, True)
            (y * y * tensor(gt, g, 'float64')).sum().backward()
            results.append([numbers(t) for t in (y, a.grad, w.grad, b.grad)])
        assert y.placement == f'split(axis={axis}, workers=[0,1,2])'
        assert not any(worker['gathers'] for worker in gt.debug.get_worker_stats(wait=True).values())
    finally:
        gt._gt.use(None)
        connection.close()
    for one, many in zip(*results):
        np.testing.assert_allclose(many, one, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize('shape, strange', [((1, 2, 512, 512), 0), ((1, 2, 512, 512), 64), ((1, 1, 2048, 2048), 64),
                                            ((64, 3, 14, 14), 196), ((50, 4, 3), 3), ((20000, 5), 0), ((200, 5), 1)], ids=str)
def test_moments_keep_the_digits(shape, strange):
    """The first elements of each channel are far from the others. PyTorch sums planes in float64."""
    x = arrays(shape)[0]
    x[0].reshape(shape[1], -1)[:, :strange] = 1000
    axes = tuple(axis for axis in range(x.ndim) if axis != 1)
    mean, variance = x.mean(axes, dtype=np.float64), x.var(axes, dtype=np.float64)
    ours = numbers(gt.tensor(x)._batch_moments())
    assert np.abs(ours[0] - mean).max() <= 2e-7 * np.sqrt(variance.max())
    np.testing.assert_allclose(ours[1], variance, rtol=1e-6)
    y = gt.nn.functional.batch_norm(gt.tensor(x), None, None, training=True)
    exact = torch.nn.functional.batch_norm(torch.tensor(x, dtype=torch.float64), None, None, training=True).numpy()
    np.testing.assert_allclose(y.numpy(), exact, rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize('shape', [(0, 3), (0, 3, 2), (2, 3, 0)], ids=str)
def test_an_empty_batch_leaves_the_running_values(shape):
    def work(library):
        layer = library.nn.BatchNorm1d(shape[1])
        x = library.ones(shape, requires_grad=True)
        y = layer(x)
        y.sum().backward()
        return [y, x.grad, layer.weight.grad, layer.bias.grad, *layer.buffers()]
    same(work(gt), work(torch), 'float32')


def test_a_vector_has_no_channels():
    """Also where the method is called without the checks of batch_norm."""
    with pytest.raises(gt.GtError, match='at least 2 dimensions'):
        gt.ones(3)._batch_norm(gt.zeros(3), gt.ones(3), None, None, 1e-5)
    with pytest.raises(gt.GtError, match='at least 2 dimensions'):
        gt.ones(3)._batch_norm(gt.zeros(2, 3), None, gt.ones(3), None, 1e-5)


def test_planes_without_elements():
    """However many samples there are, they take no time: 2^40 of them once held up the worker for ever."""
    x = gt.zeros(1 << 40, 3, 0)
    assert gt.nn.functional.batch_norm(x, None, None, training=True).shape == (1 << 40, 3, 0)
    assert gt.nn.functional.batch_norm(x, gt.zeros(3), gt.ones(3), training=True).sum().item() == 0
