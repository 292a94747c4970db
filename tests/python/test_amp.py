"""autocast and GradScaler: result dtypes of PyTorch's lists, nesting, decorators, training, skipped steps."""

import threading

import numpy as np
import pytest
import torch

import gt
from both import both, same, same_error

RNG = np.random.default_rng(5)
X = RNG.random((4, 4)).astype('float32') * 0.5 + 0.2

# Each is called with the library, its functional module, and one tensor, float32 and bfloat16.
CALLS = {
    'matmul': lambda m, F, a, x: a @ x,
    'mv': lambda m, F, a, x: a @ x[0],
    'dot': lambda m, F, a, x: m.dot(a[0], x[0].to(a.dtype)),
    'linear': lambda m, F, a, x: F.linear(a, x, x[0]),
    'linear without bias': lambda m, F, a, x: F.linear(a, x),
    'einsum': lambda m, F, a, x: m.einsum('ij,jk->ik', a, x),
    'addmm': lambda m, F, a, x: m.addmm(x, a, x),
    'bmm': lambda m, F, a, x: m.bmm(a[None], x[None]),
    'baddbmm': lambda m, F, a, x: m.baddbmm(x[None], a[None], x[None]),
    'conv1d': lambda m, F, a, x: F.conv1d(a[None], x[None, :, :2].expand(4, 4, 2), x[0]),
    'conv2d': lambda m, F, a, x: F.conv2d(a[None, None], x[None, None, :2, :2]),
    'conv_transpose2d': lambda m, F, a, x: F.conv_transpose2d(a[None, None], x[None, None, :2, :2]),
    'attention': lambda m, F, a, x: F.scaled_dot_product_attention(a[None, None], x[None, None], x[None, None]),
    'prelu': lambda m, F, a, x: F.prelu(a, x[0, :1]),
    'add': lambda m, F, a, x: a + x,
    'exp': lambda m, F, a, x: a.exp(),
    'pow': lambda m, F, a, x: a ** 2.5,
    'sum': lambda m, F, a, x: a.sum(),
    'prod': lambda m, F, a, x: a.prod(),
    'softmax': lambda m, F, a, x: F.softmax(a, 0),
    'cat': lambda m, F, a, x: m.cat([a, x]),
    'stack': lambda m, F, a, x: m.stack([a, x]),
    'layer_norm': lambda m, F, a, x: F.layer_norm(a, (4,), x[0], x[1]),
    'group_norm': lambda m, F, a, x: F.group_norm(a, 2, x[0], x[1]),
    'batch_norm': lambda m, F, a, x: F.batch_norm(a, None, None, x[0], x[1], True),
    'mse_loss': lambda m, F, a, x: F.mse_loss(a, x),
    'l1_loss': lambda m, F, a, x: F.l1_loss(a, x),
    'smooth_l1_loss': lambda m, F, a, x: F.smooth_l1_loss(a, x),
    'huber_loss': lambda m, F, a, x: F.huber_loss(a, x),
    'cross_entropy': lambda m, F, a, x: F.cross_entropy(a, m.tensor([0, 1, 2, 3])),
    'nll_loss': lambda m, F, a, x: F.nll_loss(a, m.tensor([0, 1, 2, 3])),
    'bce': lambda m, F, a, x: F.binary_cross_entropy(a, x),
    'bce_with_logits': lambda m, F, a, x: F.binary_cross_entropy_with_logits(a, x),
    'kl_div': lambda m, F, a, x: F.kl_div(a, x, reduction='sum'),
    'embedding': lambda m, F, a, x: F.embedding(m.tensor([1, 2]), a),
    'max_pool': lambda m, F, a, x: F.max_pool2d(a[None, None], 2),
    'inverse': lambda m, F, a, x: m.linalg.inv(a + m.eye(4) * 3),
    'cdist': lambda m, F, a, x: m.cdist(a, x.to(a.dtype)),
}


@pytest.mark.parametrize('half', [False, True], ids=['float32', 'bfloat16'])
@pytest.mark.parametrize('name', CALLS)
def test_cpu_list(name, half):
    def run(m, x):
        a = x.bfloat16() if half else x
        with m.autocast('cpu', dtype=m.bfloat16):
            return CALLS[name](m, m.nn.functional, a, x)
    both(run, X, rtol=3e-2, atol=2e-2)


@pytest.mark.parametrize('name, dtype', [
    ('matmul', 'float16'), ('linear', 'float16'), ('conv2d', 'float16'), ('softmax', 'float32'), ('exp', 'float32'),
    ('sum', 'float32'), ('layer_norm', 'float32'), ('mse_loss', 'float32'), ('batch_norm', 'float16'), ('cat', 'float32'),
    ('addmm', 'float16'), ('pow', 'float32'), ('attention', 'float16'), ('max_pool', 'float16')])
def test_cuda_list(name, dtype):
    x = gt.tensor(X)
    with gt.autocast('cuda'):
        assert CALLS[name](gt, gt.nn.functional, x.half(), x).dtype == dtype


def test_state_nests_and_is_of_its_thread():
    assert not gt.is_autocast_enabled('cpu') and gt.get_autocast_dtype('cpu') == gt.bfloat16
    assert gt.get_autocast_dtype('cuda') == gt.float16 and not gt.is_autocast_enabled()
    x = gt.ones(2, 2)
    with gt.autocast('cpu', dtype=gt.float16):
        assert gt.is_autocast_enabled('cpu') and (x @ x).dtype == gt.float16
        with gt.autocast('cpu', enabled=False):
            assert (x @ x).dtype == gt.float32
        with gt.autocast('cpu', dtype=gt.bfloat16):
            assert (x @ x).dtype == gt.bfloat16
        assert gt.get_autocast_dtype('cpu') == gt.float16
        elsewhere = []
        thread = threading.Thread(target=lambda: elsewhere.append((x @ x).dtype))
        thread.start()
        thread.join()
        assert elsewhere == [gt.float32]
    assert (x @ x).dtype == gt.float32 and gt.get_autocast_dtype('cpu') == gt.bfloat16


def test_float64_and_integers_stay():
    with gt.autocast('cpu'):
        assert (gt.ones(2, 2, dtype=gt.float64) @ gt.ones(2, 2, dtype=gt.float64)).dtype == gt.float64
        assert (gt.ones(2, 2, dtype=gt.int64) @ gt.ones(2, 2, dtype=gt.int64)).dtype == gt.int64


def test_decorator_and_classes_of_cuda_amp():
    @gt.autocast('cpu', dtype=gt.bfloat16)
    def product(x):
        return x @ x
    assert product(gt.ones(2, 2)).dtype == gt.bfloat16 and product.__name__ == 'product'
    with gt.cuda.amp.autocast(dtype=gt.bfloat16):
        assert (gt.ones(2, 2) @ gt.ones(2, 2)).dtype == gt.bfloat16
    with pytest.warns(UserWarning, match='Disabling autocast'):
        with gt.autocast('cpu', dtype=gt.float32):
            assert (gt.ones(2, 2) @ gt.ones(2, 2)).dtype == gt.float32
    same_error(lambda m: m.autocast('nothing'), None)
    same_error(lambda m: m.autocast(3), 'Expected `device_type` of type `str`')


def test_gradients_have_the_dtype_of_parameters():
    def run(m, x, w, b):
        w, b = w.requires_grad_(), b.requires_grad_()
        with m.autocast('cpu', dtype=m.bfloat16):
            out = m.nn.functional.linear(x, w, b)
            loss = m.nn.functional.mse_loss(out.relu(), x)
        loss.backward()
        return loss, w.grad, b.grad
    both(run, X, X.T.copy(), X[0].copy(), rtol=3e-2, atol=2e-2)


def test_custom_fwd_and_bwd():
    seen = []

    class Product(gt.autograd.Function):
        @staticmethod
        @gt.amp.custom_fwd(device_type='cpu', cast_inputs=gt.float32)
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            seen.append((a.dtype, gt.is_autocast_enabled('cpu')))
            return a @ b

        @staticmethod
        @gt.amp.custom_bwd(device_type='cpu')
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            seen.append(gt.is_autocast_enabled('cpu'))
            return g @ b.t(), a.t() @ g
    a = gt.ones(2, 2, dtype=gt.bfloat16).requires_grad_()
    with gt.autocast('cpu'):
        out = Product.apply(a, a)
    assert out.dtype == gt.float32
    out.sum().backward()
    assert seen == [(gt.float32, False), False] and a.grad.dtype == gt.bfloat16


def test_a_checkpoint_is_computed_again_under_the_same_autocast():
    def run(checkpointed):
        w = gt.tensor(X).requires_grad_()

        def block(x):
            return (x @ w).relu() @ w
        with gt.autocast('cpu', dtype=gt.bfloat16):
            out = gt.utils.checkpoint.checkpoint(block, gt.tensor(X), use_reentrant=False) if checkpointed else block(gt.tensor(X))
        assert out.dtype == gt.bfloat16
        out.float().sum().backward()
        return w.grad
    assert run(True).equal(run(False))


# ---- GradScaler ----------------------------------------------------------------------------------------------------


def scaled_training(m, w, x, overflow_at=2):
    """Losses, scales and weights of a few steps; one of them has an infinite gradient."""
    w = w.requires_grad_()
    optimizer = m.optim.SGD([w], lr=0.1)
    scaler = m.amp.GradScaler('cpu', init_scale=8.0, growth_interval=2)
    history = []
    for step in range(6):
        optimizer.zero_grad()
        loss = ((x @ w) ** 2).mean() * (float('inf') if step == overflow_at else 1.0)
        scaler.scale(loss).backward()
        if step % 2:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        history.append(scaler.get_scale())
    return w.detach(), history, scaler.state_dict()


def test_scaler_skips_and_adapts_as_in_pytorch():
    ours = scaled_training(gt, gt.tensor(X), gt.tensor(X))
    theirs = scaled_training(torch, torch.tensor(X), torch.tensor(X))
    same(ours[0], theirs[0])
    assert ours[1] == theirs[1] and ours[2] == theirs[2]


def test_scaler_states():
    def unscale_twice(m):
        w = m.ones(2, requires_grad=True)
        optimizer, scaler = m.optim.SGD([w], lr=0.1), m.amp.GradScaler('cpu')
        scaler.scale(w.sum()).backward()
        scaler.unscale_(optimizer)
        scaler.unscale_(optimizer)

    def step_twice(m):
        w = m.ones(2, requires_grad=True)
        optimizer, scaler = m.optim.SGD([w], lr=0.1), m.amp.GradScaler('cpu')
        scaler.scale(w.sum()).backward()
        scaler.step(optimizer)
        scaler.step(optimizer)

    def half_gradients(m):
        w = m.ones(2, dtype=m.float16, requires_grad=True)
        optimizer, scaler = m.optim.SGD([w], lr=0.1), m.amp.GradScaler('cpu')
        scaler.scale((w * 1).sum()).backward()
        scaler.unscale_(optimizer)
    same_error(unscale_twice, 'unscale_() has already been called on this optimizer since the last update()')
    same_error(step_twice, 'step() has already been called since the last update()')
    same_error(half_gradients, 'Attempting to unscale FP16 gradients')
    same_error(lambda m: m.amp.GradScaler('cpu').update(), 'Attempted update but _scale is None')


def test_scaler_disabled_and_saved():
    scaler = gt.amp.GradScaler(enabled=False)
    x = gt.ones(2)
    assert scaler.scale(x) is x and scaler.get_scale() == 1.0 and scaler.state_dict() == {}
    first, second = gt.cuda.amp.GradScaler(init_scale=4.0), gt.amp.GradScaler()
    second.load_state_dict(first.state_dict())
    assert second.get_scale() == 4.0 and [t.item() for t in second.scale([gt.ones(()), gt.ones(())])] == [4.0, 4.0]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_linear_rounds_once(dtype):
    """The bias is added before the sum is rounded, as PyTorch does under autocast."""
    torch.manual_seed(3)
    x, w, b = torch.randn(64, 128), torch.randn(96, 128), 8 * torch.randn(96)
    narrow = getattr(torch, dtype)
    exact = x.to(narrow).double() @ w.to(narrow).double().T + b.to(narrow).double()
    with gt.autocast("cuda", dtype=getattr(gt, dtype)):
        y = gt.nn.functional.linear(gt.tensor(x.numpy()), gt.tensor(w.numpy()), gt.tensor(b.numpy()))
    assert y.dtype == getattr(gt, dtype)
    differ = (torch.tensor(y.float().numpy()) != exact.to(narrow).float()).sum().item()
    assert differ < 0.005 * y.numel()  # rounded twice, about a tenth would
