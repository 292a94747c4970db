"""inference_mode(): what it marks, what marked tensors refuse, and its forms, each program in GT and in PyTorch."""

import pytest
import torch

import gt
from twin_programs import said, same_text

PROGRAMS = {
    'tensors': '''
w = T.ones(2, requires_grad=True)
n = T.ones(2)
with T.inference_mode():
    say(T.is_inference_mode_enabled(), T.is_grad_enabled())
    a = T.ones(2); b = n * 2; c = w * 2; v = n[0:1]; d = n.detach(); e = w.detach()
    say(*[t.is_inference() for t in (a, b, c, v, d, e, n, w)])
    say(c.requires_grad, v.requires_grad, c.is_leaf, c.grad_fn)
    n.add_(1)
    say(n.is_inference(), n)
    a.add_(1); a[0] = 5
    say(a.is_inference(), a[0:1].is_inference(), a.view(2, 1).is_inference())
    f = T.ones(2, requires_grad=True)
    say(f.is_inference(), f.requires_grad)
    g = (f * 2)
    say(g.requires_grad, g.is_inference())
    h = T.ones(2).requires_grad_()
    say(h.requires_grad, h.is_inference())
    with T.enable_grad():
        say(T.is_grad_enabled())
        k = n * 2
        say(k.requires_grad, k.is_inference())
    with T.no_grad():
        say(T.is_grad_enabled(), T.ones(1).is_inference())
    with T.inference_mode(False):
        say(T.is_inference_mode_enabled(), T.is_grad_enabled(), (w * 2).requires_grad, T.ones(1).is_inference(), a.view(2, 1).is_inference(), (a + 1).is_inference())
    o = T.empty(2)
    T.add(n, 1, out=o)
    say(o.is_inference(), T.zeros_like(n).is_inference(), n.clone().is_inference(), n.to(T.float64).is_inference(), n.float().is_inference(), T.tensor([1.]).is_inference())
    lin = nn.Linear(2, 2)
    say(lin.weight.is_inference(), lin.weight.requires_grad, lin(T.ones(1, 2)).is_inference())
    z = n.unsqueeze(0); z.mul_(2)
    say(z.is_inference(), n, T.cat([n, n]).is_inference(), [t.is_inference() for t in n.split(1)], n.expand(2, 2).is_inference())
say(T.is_inference_mode_enabled(), T.is_grad_enabled())
say(a.is_inference(), b.is_inference(), a.detach().is_inference(), a.view(1, 2).is_inference(), a[0].is_inference(), a.clone().is_inference(), (a + 1).is_inference(), a.data.is_inference(), a.t().is_inference())
bad(a.add_, 1)
bad(lambda: a.__setitem__(0, 1))
bad(lambda: a[0].mul_(2))
bad(a.copy_, n)
bad(a.fill_, 0)
bad(a.zero_)
with T.no_grad(): bad(a.add_, 1)
bad(a.requires_grad_)
bad(lambda: setattr(a, 'requires_grad', True))
say(a.requires_grad_(False).requires_grad)
bad(lambda: nn.Parameter(a))
bad(lambda: a._version)
say((a + w).requires_grad)
bad(lambda: a * w)
bad(lambda: w * a)
bad(lambda: a @ w)
with T.inference_mode(): a.fill_(5)  # PyTorch has written before it refused
say((w * a.clone()).sum())
bad(lambda: (w * c))
bad(lambda: F.linear(a.view(1, 2), nn.Linear(2, 2).weight))
bad(lambda: nn.Linear(2, 2)(a.view(1, 2)))
say((a.view(1, 2) @ T.ones(2, 2)).requires_grad)
with T.no_grad(): say((a * w).is_inference(), (a * w).requires_grad)
n.mul_(a)
say(n)
x = w * 1
bad(lambda: x.mul_(a))
x.add_(a)
x.sum().backward()
say(w.grad, w.grad.is_inference())
with T.inference_mode():
    say(w.grad.is_inference())
    w.grad.zero_()
w.grad.add_(1)
say(w.grad, a.tolist(), a.sum().is_inference(), a.numpy().tolist())
bad(lambda: h.mul_(2))
bad(lambda: (h * 2).sum().backward())
bad(lambda: b[0:1].__setitem__(0, 1))
bad(lambda: a.index_put_((T.tensor([0]),), T.ones(1)))
bad(lambda: a.index_add_(0, T.tensor([0]), T.ones(1)))
bad(lambda: a.__setitem__(T.tensor([True, False]), 0.))
bad(a.uniform_)
a.detach().add_(1); a.data.mul_(2)
say(a.tolist()[:0])
bad(lambda: T.exp(w).mul(a))
bad(lambda: T.where(T.tensor([True, False]), w, a).sum().backward())
with T.inference_mode(): m = T.tensor([True, False]); idx = T.tensor([0, 1])
bad(lambda: T.where(m, w, n).sum())
bad(lambda: w.masked_fill(m, 0.))
bad(lambda: F.cross_entropy(w.view(1, 2), idx[:1]))
bad(lambda: F.embedding(idx, nn.Parameter(T.ones(2, 2))))
bad(lambda: w.relu() + a.relu())
bad(lambda: T.cat([w, a]).sum().backward())
bad(lambda: w.pow(2) - a)
bad(lambda: w / a)
bad(lambda: (a - w).abs())
say(T.is_inference(a), T.is_inference(n))
''',
    'forms': '''
@T.inference_mode()
def f(x):
    "doc"
    return x * 2, T.is_grad_enabled(), T.is_inference_mode_enabled()
say(f(T.ones(1)), f.__name__, f.__doc__, T.is_inference_mode_enabled())
say(f(T.ones(1))[0].is_inference())
@T.inference_mode
def g(x): return T.is_inference_mode_enabled(), x
say(g(1))
@T.inference_mode(mode=False)
def h(): return T.is_inference_mode_enabled(), T.is_grad_enabled()
with T.inference_mode(): say(h())
@T.inference_mode()
def gen():
    for k in range(3):
        got = yield T.is_inference_mode_enabled(), T.ones(1).is_inference()
it = gen()
say(next(it), T.is_inference_mode_enabled(), next(it))
class M(nn.Module):
    @T.inference_mode()
    def forward(self, x): return x + 1
say(M()(T.ones(1)).is_inference())
c = T.inference_mode()
with c: pass
with c: say(T.is_inference_mode_enabled())
say(T.is_inference_mode_enabled())
try:
    with T.inference_mode(): raise ValueError('x')
except ValueError: say(T.is_inference_mode_enabled(), T.is_grad_enabled())
with T.no_grad():
    with T.inference_mode(): pass
    say(T.is_grad_enabled())
    with T.inference_mode(False): say(T.is_grad_enabled(), T.is_inference_mode_enabled())
    say(T.is_grad_enabled())
with T.inference_mode(True), T.set_grad_enabled(True): say(T.is_grad_enabled(), T.is_inference_mode_enabled())
with T.autograd.inference_mode(): say(T.is_inference_mode_enabled())
with T.autograd.grad_mode.inference_mode(): say(T.is_inference_mode_enabled())
import threading
seen = []
with T.inference_mode():
    t = threading.Thread(target=lambda: seen.append((T.is_inference_mode_enabled(), T.is_grad_enabled(), T.ones(1).is_inference())))
    t.start(); t.join()
say(seen)
''',
    'models': '''
m = filled(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 1)))
x = T.arange(8.).reshape(4, 2)
with T.inference_mode(): y = m(x)
say(y, y.is_inference(), [p.is_inference() for p in m.parameters()], [b.is_inference() for b in m.buffers()], m[1].running_mean, m[1].num_batches_tracked)
loss = m(x).square().mean()
loss.backward()
say(m[0].weight.grad, m[1].num_batches_tracked)
m.eval()
with T.inference_mode(): target = m(x)
bad(lambda: F.mse_loss(m(x), target.clone()).backward())
o = optim.SGD(m.parameters(), lr=0.1)
o.step()
with T.inference_mode():
    m[0].weight.mul_(2)
say(m[0].weight, m[0].weight.is_inference(), m[0].weight.requires_grad)
with T.inference_mode(): sd = {k: v for k, v in m.state_dict().items()}
say([v.is_inference() for v in sd.values()])
with T.inference_mode(): clone = {k: v.clone() for k, v in m.state_dict().items()}
say([v.is_inference() for v in clone.values()])
m.load_state_dict(clone)
say([p.is_inference() for p in m.parameters()])
m(x).sum().backward()
c = copy.deepcopy(target)
say(c.is_inference(), pickle.loads(pickle.dumps(target)).is_inference())
''',
}


@pytest.mark.parametrize('name', PROGRAMS)
@pytest.mark.filterwarnings('ignore')
def test_program(name):
    assert said(PROGRAMS[name], gt) == same_text(said(PROGRAMS[name], torch))


def test_writes_in_place_stay_in_place():
    """A refused write leaves the tensor as it was, and one inside the mode does not copy a large tensor that has views."""
    with gt.inference_mode():
        cache = gt.zeros(4, 8)
    with pytest.raises(RuntimeError, match='Inplace update to inference tensor'):
        cache += 1
    with pytest.raises(RuntimeError, match='Inplace update to inference tensor'):
        cache[:, 2] = gt.ones(4)
    assert cache.sum().item() == 0
    with gt.inference_mode():
        cache[:, 2] = gt.ones(4)
        row = cache[1]
        row += 1
    assert cache.sum().item() == 12 and cache.is_inference() and row.is_inference()


def test_objects_are_reused_after_the_mode():
    """Tensors of the mode, once freed, do not mark those made later."""
    for _ in range(3):
        with gt.inference_mode():
            kept = [gt.ones(1) for _ in range(50)]
        del kept
        assert not any(gt.ones(1).is_inference() for _ in range(100))
