"""Views share memory, as in PyTorch: writes through one reach all others. Each program runs in both libraries, and values,
gradients and errors are compared. Random programs are in alias_programs.py; these are the idioms of users' code."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest
import torch

import gt


def grid(n, rows=3, columns=4):
    return n.arange(float(rows * columns)).reshape(rows, columns).clone()


def weights(n, rows=3, columns=4):
    return (grid(n, rows, columns) * 0.1 + 0.5).requires_grad_()


# ---- values ------------------------------------------------------------------------------------------------------


def written(*lines, make=grid):
    """A program: the lines run on x, and x is the result."""
    def program(n):
        names = {'n': n, 'x': make(n)}
        for line in lines:
            exec(line, names)
        return names['x']
    program.__name__ = '; '.join(lines)
    return program


WRITES = [
    written('x[:, 1].copy_(n.tensor([7., 8., 9.]))'), written('x[1:2].fill_(1.)'), written('x[2].zero_()'),
    written('x[0][1] += 1'), written('x[0][1:3] *= 2', 'x[0, :2] -= 3'), written('x[:, 0].clamp_(1, 5)'),
    written('x.view(-1)[0] = 50'), written('x.t()[1] = 5'), written('x.diagonal().fill_(7)'),
    written('x.diagonal(1).mul_(3)'), written('x.diagonal(-1, 1, 0).add_(n.tensor([1., 2., 3.]))'),
    written('a, b = x.chunk(2, 1)', 'a.zero_()', 'b += 1'), written('for row in x: row.mul_(2)'),
    written('for row in x: row[0] = row[1]'), written('a, b = x.split([1, 3], 1)', 'b.neg_()'),
    written('a, b, c = x.unbind()', 'b.copy_(a)'), written('x.narrow(1, 1, 2).add_(100)'),
    written('x.select(1, -1).fill_(4)'), written('x[::2, ::3] = n.tensor([[1., 2.], [3., 4.]])'),
    written('x.permute(1, 0)[1:3, 0] = n.tensor([8., 9.])'), written('x.reshape(2, 6)[1, 2:4] = 77'),
    written('x.flatten()[3:9].mul_(-1)'), written('x.unsqueeze(1)[:, 0, 2] = 6'), written('x[None, ..., 0].zero_()'),
    written('x.squeeze().add_(1)'), written('x.swapaxes(0, 1)[0] += 5'), written('x.movedim(0, 1)[2, 1] = -1'),
    written('x.T[2].exp_()'), written('x.mT[:2].fill_(3)'), written('x.unfold(1, 2, 2)[:, 1].fill_(9)'),
    written('x.view(3, 2, 2)[:, :, 1] = 0'), written('x.view(3, 2, 2).transpose(0, 2)[0] += 1'),
    written('x.view(2, 3, 2).permute(2, 0, 1)[1, 0].copy_(n.tensor([1., 2., 3.]))'),
    written('x.unflatten(1, (2, 2))[:, 0, 1] = 5'), written('x[n.tensor([0, 2])] = 0'),
    written('x[1:][n.tensor([0, 1]), n.tensor([3, 0])] = n.tensor([8., 9.])'),
    written('x.t()[n.tensor([1, 3])] *= 10'), written('x.t()[x.t() > 5] = 0'), written('x[:, 1:][x[:, 1:] > 5] = 0'),
    written('x[1:].index_fill_(1, n.tensor([0, 2]), -1.)'), written('x.t().scatter_(0, n.tensor([[0, 1, 2]]), 5.)'),
    written('x[1:].index_add_(0, n.tensor([1, 1]), n.ones(2, 4))'), written('x.t().masked_fill_(x.t() < 3, -3.)'),
    written('x[:2].index_put_((n.tensor([0, 0]), n.tensor([1, 1])), n.tensor([5., 6.]), accumulate=True)'),
    written('x.data[1].fill_(2)'), written('x.detach().view(-1)[2:4] = 1'), written('x[1].data[2] = 30'),
    written('y = x[1:]', 'z = y[:, 2]', 'x += 1', 'z *= 2', 'y[0, 0] = 100', 'x = n.cat([x, y, z[None].expand(1, 2).T.expand(2, 4)])'),
    written('y = x.t()', 'x[0] = 9', 'x = y.clone()'), written('y = x.expand(2, 3, 4)', 'x[0] = 9', 'x = y.clone()'),
    written('x.t().t_().add_(1)'), written('x.unsqueeze_(0)', 'x[0, 0] = 1'), written('x.transpose_(0, 1)', 'x[0] = 5'),
    written('y = x[0]', 'y.unsqueeze_(0)', 'y[0, 1] = 44'), written('x[x[:, 0] > 3, 1:3] = 0'),
    written('x[...] = x.clone() * 2'), written('x[:] = 5'), written('x.ravel()[1] = 8'), written('x.view_as(x)[1, 1] = 8'),
    written('x.contiguous()[0] = 8'), written('x.t().contiguous()[0] = 8'), written('x.t().reshape(-1)[0:2] = 8'),
    written('x[:, :2].reshape(-1)[0] = 8'), written('x.to(n.float32)[0] = 8'), written('x.double()[0] = 8'),
    written('x.clone()[0] = 8'), written('(+x)[0] = 8'), written('x.flip(0)[0] = 8'), written('x.repeat(1, 1)[0] = 8'),
    written('x[n.tensor([0])][0] = 8'), written('x[x > -1][0] = 8'), written('n.diag(x[:, :3])[0] = 8'),
    written('x.tensor_split(2, 1)[1].zero_()'), written('x.hsplit(2)[0].zero_()'), written('x.vsplit(3)[1].zero_()'),
    written('n.atleast_3d(x)[0] = 8'), written('n.broadcast_tensors(x, n.zeros(4))[0][1] = 8'),
    written('a, b = n.meshgrid(x[0], x[1], indexing="ij")', 'x[0] = 5', 'x = a + b'),
    written('x.as_strided((2, 2), (4, 1), 1).fill_(9)'), written('x.as_strided((2,), (5,)).add_(100)'),
    written('y = x.as_strided((3, 2), (1, 4))', 'x[1] = 0', 'x = y.clone()'),
    written('x.data = n.ones(2, 2)', 'x[0] = 3'), written('y = n.ones(2, 2)', 'x.data = y', 'y[0] = 3'),
    written('y = n.ones(2, 2)', 'x.data = y', 'x[0] = 3', 'x = y'), written('x.set_(n.ones(2))', 'x += 1'),
    written('n.add(x, 1, out=x)'), written('n.mul(x[0], 2, out=x[1])'),
    written('y = n.zeros(3, 4)', 'n.exp(x * 0.1, out=y[:])', 'x = y'), written('y = n.zeros(4)', 'n.sum(x, 0, out=y)', 'x = y'),
    written('y = n.empty(0)', 'n.mul(x, 2, out=y)', 'x = y'),
    written('y = x[0]', 'del x', 'y += 1', 'x = y', make=grid), written('x[1:2, 0:0] = 5'), written('x[0:0].fill_(5)'),
    written('x[:, 0].copy_(5)'), written('x[0].copy_(x[1])'), written('x[::2].add_(x[1])'), written('x[0] += x[1] * x[0]'),
    written('y = x.view(-1)', 'y[::5] = n.arange(3)', 'x *= 2'),
]


@pytest.mark.parametrize('program', WRITES, ids=lambda program: program.__name__)
def test_writes(program):
    with gt.no_grad(), torch.no_grad():
        ours, theirs = program(gt), program(torch)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy())


# ---- gradients ---------------------------------------------------------------------------------------------------


def scaled(*lines):
    """A program on y, which is computed from the leaf w; the sum of squares of y is the loss."""
    def program(n):
        w = weights(n)
        names = {'n': n, 'w': w, 'y': w * 2}
        for line in lines:
            exec(line, names)
        (names['y'] ** 2).sum().backward()
        return w.grad
    program.__name__ = '; '.join(lines)
    return program


GRADIENTS = [
    scaled('y[1:].mul_(3)'), scaled('y[0] = 0'), scaled('y[:, 1] = w[:, 0]'), scaled('y.t()[1].mul_(w[:, 0])'),
    scaled('v = y[1]', 'v *= w[0]', 'y = y + v'), scaled('v = y.view(-1)', 'y[0] = 1', 'y = v * 2'),
    scaled('y.diagonal().add_(w[0, :3])'), scaled('v = y[0]', 'y.mul_(2)', 'y = v'), scaled('y.zero_()', 'y = y + w'),
    scaled('y[0].fill_(2)', 'y[1].copy_(w[2])'), scaled('v = y[:, 2:]', 'v.mul_(3)', 'v[0].mul_(w[0, :2])'),
    scaled('with n.no_grad(): y[0] = 5'), scaled('y.data[0] = 0'), scaled('y.detach()[0] = 0'),
    scaled('y[n.tensor([0, 2])] = w[:2]'), scaled('y[1:][n.tensor([1]), n.tensor([0])] = w[0, :1]'),
    scaled('y[y > 1.5] = 0'), scaled('y.t()[n.tensor([0])] *= 3'), scaled('y[0] += w[1]', 'y[0] += w[2]'),
    scaled('z = n.zeros(3, 4)', 'z[:, 1:3] = y[:, :2]', 'z[0].add_(1)', 'y = z'),
    scaled('z = n.zeros(5)', 'v = z[1:3]', 'v.add_(w[0, :2])', 'v.mul_(2)', 'y = z'),
    scaled('y.unsqueeze(0)[0, 1:].sub_(w[:1])'), scaled('y.view(2, 6)[1].relu_()'), scaled('y.reshape(-1)[::3] = 1'),
    scaled('y.unfold(1, 2, 2)[:, 0, 1].mul_(5)'), scaled('y.as_strided((2, 2), (4, 1)).mul_(2)'),
    scaled('y.expand(2, 3, 4)[0].mul_(2)'), scaled('a = y.detach()', 'a.mul_(3)', 'y = y + a'),
    scaled('h = y.detach()[1:]', 'h[0].mul_(w[0])', 'y = h'), scaled('y.transpose_(0, 1)', 'y[0].mul_(2)'),
    scaled('p = n.nn.Parameter(y.detach())', '(p * 3).sum().backward()', 'y = y * p.grad'),
]


@pytest.mark.parametrize('program', GRADIENTS, ids=lambda program: program.__name__)
def test_gradients(program):
    np.testing.assert_allclose(program(gt).numpy(), program(torch).numpy(), rtol=1e-6)


def gradient_program(*lines):
    """A program on w, a leaf that has had one backward pass; w.grad is the result."""
    def program(n):
        w = weights(n)
        names = {'n': n, 'w': w, 'again': lambda: (w * 3).sum().backward()}
        (w * w).sum().backward()
        for line in lines:
            exec(line, names)
        return names['w'].grad if names['w'].grad is not None else n.zeros(1)
    program.__name__ = '; '.join(lines)
    return program


GRAD_ATTRIBUTE = [
    gradient_program('w.grad[1:].zero_()'), gradient_program('w.grad.mul_(2)', 'again()'),
    gradient_program('g = w.grad', 'again()', 'w.grad = g * 2'), gradient_program('g = w.grad', 'g.zero_()', 'again()'),
    gradient_program('g = w.grad[0]', 'again()', 'w.grad[1] = g'), gradient_program('assert w.grad is w.grad'),
    gradient_program('w.grad = n.ones(3, 4)', 'again()'), gradient_program('t = n.ones(3, 4)', 'w.grad = t', 'again()', 'w.grad = t + 1'),
    gradient_program('t = n.zeros(3, 8)', 'w.grad = t[:, ::2]', 'again()', 'w.grad = t[:, :4]'),
    gradient_program('w.grad = None', 'again()'), gradient_program('w.grad.data.fill_(2)', 'again()'),
    gradient_program('w.grad.view(-1)[0] = 100', 'w.grad.t()[1].zero_()'), gradient_program('w.grad += 1'),
    gradient_program('n.nn.utils.clip_grad_norm_([w], 0.5)'), gradient_program('g = w.grad', 'n.nn.utils.clip_grad_value_([w], 0.5)', 'w.grad = g'),
    gradient_program('w.register_hook(lambda g: (g.mul_(2), None)[1])', 'again()'),
    gradient_program('w.register_hook(lambda g: (g[0].zero_(), None)[1])', 'again()'),
    gradient_program('w.requires_grad_(False)', 'w.grad.add_(1)'), gradient_program('o = n.optim.SGD([w], 0.1)', 'g = w.grad', 'o.zero_grad(set_to_none=False)', 'w.grad = g + 1'),
]


@pytest.mark.parametrize('program', GRAD_ATTRIBUTE, ids=lambda program: program.__name__)
def test_the_gradient_is_memory(program):
    np.testing.assert_allclose(program(gt).numpy(), program(torch).numpy(), rtol=1e-6)


# ---- what is refused ---------------------------------------------------------------------------------------------

REFUSED = [
    'w.add_(1)', 'w[0] = 1', 'w[:2].mul_(2)', 'w.view(-1).zero_()', 'w[n.tensor([0])] = 1', 'w.t()[0].fill_(1)',
    'for row in y: row.mul_(2)', 'y.chunk(2)[0].zero_()', 'y.unbind()[1].add_(1)', 'y.split(2)[0][0].add_(1)',
    'with n.no_grad(): v = y[0]\nv.mul_(2)', 'with n.no_grad(): v = y[0]\ny.mul_(2)\nv * 2',
    'v = y.chunk(2)[0]\ny.mul_(2)\nv + 1', 'x.expand(2, 3, 4).add_(1)', 'x[0].expand(3, 4).copy_(x)', 'x[0, 1:].copy_(x[0, :-1])',
    'x[0, 1:] += x[0, :-1]', 'x[0, 1:] = x[0, :-1]', 'x.t().view(-1)', 'x[:, :2].view(-1)',
    'z = y * y\ny.add_(1)\nz.sum().backward()', 'z = y.exp()\nz.mul_(2)\nz.sum().backward()',
    'z = y[1:] ** 2\ny[0, 0] = 1\nz.sum().backward()', 'z = y.sigmoid()\nz.view(-1)[0] = 1\nz.sum().backward()',
    'z = (y @ y.t())\ny.t().zero_()\nz.sum().backward()', 'z = y * y\ny.detach().zero_()\nz.sum().backward()',
    'z = y.tanh()\nwith n.no_grad(): z.zero_()\nz.sum().backward()', 'z = y.max()\ny.zero_()\nz.backward()',
    'w.grad = n.ones(2)', 'y[0].detach_()', 'x.as_strided((5, 5), (4, 1))',
]


@pytest.mark.parametrize('lines', REFUSED)
def test_refused_as_in_pytorch(lines):
    errors = []
    for n in (gt, torch):
        w = weights(n)
        names = {'n': n, 'w': w, 'y': w * 2, 'x': grid(n)}
        with pytest.raises(RuntimeError) as caught:
            exec(lines, names)
        errors.append(str(caught.value).replace('torch.', 'gt.'))
    ours, theirs = errors
    start = theirs.split(':')[0] if 'modified by an inplace' in theirs else theirs.split('.')[0][:60]
    assert ours.startswith(start), f'{ours}\n{theirs}'


ALLOWED = ['w.data[0] = 1', 'w.detach()[0].zero_()', 'z = y + 1\ny.zero_()\nz.sum().backward()',
           'z = y * y\ny.data.zero_()', 'z = y.sum()\ny[0] = 1\nz.backward()', 'y.mul_(w)\ny.sum().backward()',
           'y.sigmoid_()\ny = y * 2\ny[0].exp_()\ny.sum().backward()', 'y.pow_(2).sum().backward()', 'y.abs_().sum().backward()',
           'z = y.relu()\ny.zero_()\nz.sum().backward()', 'with n.no_grad():\n    v = w[0]\n    v.mul_(2)',
           'x.expand(2, 3, 4).fill_(1)', 'z = n.where(y > 0, y, 0 * y)\ny.zero_()\nz.sum().backward()',
           'z = y.lerp(x, 0.5)\ny.zero_()\nz.sum().backward()', 'with n.no_grad():\n    for row in w: row.mul_(2)']


@pytest.mark.parametrize('lines', ALLOWED)
def test_allowed_as_in_pytorch(lines):
    for n in (gt, torch):
        w = weights(n)
        exec(lines, {'n': n, 'w': w, 'y': w * 2, 'x': grid(n)})


# ---- attributes --------------------------------------------------------------------------------------------------

STRIDED = ['x', 'x[1:]', 'x[:, 1]', 'x.t()', 'x.t()[1:]', 'x[:, ::2]', 'x.view(2, 6)', 'x.view(2, 6).t().view(3, 2, 2)', 'x.diagonal()',
           'x.expand(2, 3, 4)', 'x[0].expand(1, 4)', 'x.unfold(1, 2, 1)', 'x.unsqueeze(0)', 'x.unsqueeze(-1)', 'x[:, None, 1:]', 'x[1:2].squeeze()',
           'x.permute(1, 0).unsqueeze(1)', 'x.detach()', 'x[2:, 3:]', 'x[::2, 1].clone()', 'x[0:0]', 'x.flatten()[5:]', 'x.as_strided((2, 2), (1, 4), 3)',
           'x.narrow(1, 1, 0)', 'x.t().contiguous()', 'x[0, 0]']


@pytest.mark.parametrize('expression', STRIDED)
def test_strides(expression):
    ours, theirs = (eval(expression, {'x': grid(n)}) for n in (gt, torch))
    assert ours.stride() == theirs.stride() and ours.storage_offset() == theirs.storage_offset()
    assert ours.is_contiguous() == theirs.is_contiguous()
    assert [ours.stride(k) for k in range(ours.ndim)] == list(theirs.stride())


def test_versions():
    counts = []
    for n in (gt, torch):
        x = grid(n)
        v, d, a = x[1:], x.detach(), x.data
        v.add_(1)
        x[0] = 1
        d.zero_()
        a.fill_(5)
        counts.append([t._version for t in (x, v, d, a)])
    assert counts[0] == counts[1]


# ---- modules -----------------------------------------------------------------------------------------------------


def test_parameters_share_what_they_are_made_of():
    t = gt.ones(3)
    p = gt.nn.Parameter(t)
    t[0] = 5
    with gt.no_grad():
        p[1] = 7
    assert p.tolist() == t.tolist() == [5, 7, 1] and p.requires_grad and not t.requires_grad


def test_tied_weights():
    a, b = gt.nn.Linear(2, 2), gt.nn.Linear(2, 2)
    b.weight.data = a.weight.data
    optimizer = gt.optim.SGD(a.parameters(), 0.5)
    a(gt.ones(1, 2)).sum().backward()
    optimizer.step()
    assert b.weight.tolist() == a.weight.tolist()
    state = {name: gt.full_like(value, 3.0) for name, value in b.state_dict().items()}
    view = a.weight.view(-1)
    b.load_state_dict(state)
    assert a.weight.tolist() == [[3, 3], [3, 3]] and view.tolist() == [3, 3, 3, 3]


def test_copies_are_apart():
    x = gt.arange(6.0).reshape(2, 3)
    row = x[1]
    copies = [copy.copy(row), copy.deepcopy(row), pickle.loads(pickle.dumps(row)), row.clone(), gt.tensor(row)]
    module = gt.nn.Linear(3, 3)
    twin = copy.deepcopy(module)
    row.zero_()
    with gt.no_grad():
        module.weight.zero_()
    assert all(other.tolist() == [3, 4, 5] for other in copies[1:])
    assert twin.weight.abs().sum().item() > 0


def test_a_cache_is_filled_through_slices():
    cache = gt.zeros(2, 5, 3)
    for position in range(5):
        cache[:, position].copy_(gt.full((2, 3), float(position)))
        keys = cache[:, :position + 1]
        assert keys.sum().item() == 6 * sum(range(position + 1))


# ---- lifetime ----------------------------------------------------------------------------------------------------


def test_long_chains_of_views():
    x = gt.arange(30000.0)
    whole = x
    for _ in range(29000):
        x = x[1:]
    x[0] = -1
    assert x[:2].tolist() == [-1, 29001] and whole[29000].item() == -1
    y = w = gt.arange(100.0, requires_grad=True)
    for k in range(40):
        y = y[1:].view(-1) if k % 2 else y[:-1]
    y.sum().backward()
    assert w.grad.tolist() == [0.0] * 20 + [1.0] * 60 + [0.0] * 20


def test_views_keep_no_object_and_no_graph_alive():
    x = gt.ones(3, requires_grad=True)
    y = (x * 2).exp()
    row, gone = y[1:].detach(), weakref.ref(y)
    tape = len(gt._gt._tape())
    del y
    gc.collect()
    assert gone() is None and len(gt._gt._tape()) < tape
    assert row.tolist() == pytest.approx([np.exp(2)] * 2)


def test_a_view_outlives_its_base():
    view = gt.arange(6.0)[2:4]
    view += 10
    assert view.tolist() == [12, 13]


def test_nothing_is_left_on_the_worker():
    def used():
        gc.collect()
        gt.synchronize()
        return sum(worker['used'] for worker in gt.debug.memory(wait=True)['workers'].values())

    def run():
        for program in [*GRADIENTS, *GRAD_ATTRIBUTE]:
            if 'register_hook' not in program.__name__:  # these hooks refer to their tensor: never freed, as documented
                program(gt)
        with gt.no_grad():
            for program in WRITES:
                program(gt)

    for _ in range(3):
        run()  # what is made once, such as constants
    before = used()
    for _ in range(3):
        run()
    assert used() == before
