"""Training loops, schedules, shared weights and initialisation as scripts write them, each program in GT and in PyTorch."""

import pytest
import torch

import gt
from twin_programs import said, same_text

PROGRAMS = {
    'gradient accumulation': '''
m = filled(nn.Linear(2, 1))
o = optim.SGD(m.parameters(), lr=0.1, momentum=0.9, nesterov=True)
data = [(T.ones(2, 2) * k, T.zeros(2, 1)) for k in range(1, 5)]
for step, (x, y) in enumerate(data):
    loss = F.mse_loss(m(x), y) / 2
    loss.backward()
    if (step + 1) % 2 == 0:
        total = nn.utils.clip_grad_norm_(m.parameters(), max_norm=1.0, error_if_nonfinite=True)
        o.step()
        o.zero_grad(set_to_none=True)
say(m.weight, m.bias, m.weight.grad, total, o.state[m.weight]['momentum_buffer'])
m(T.ones(1, 2)).backward()
nn.utils.clip_grad_value_(m.parameters(), 0.1)
say(m.weight.grad)
''',
    'closures and lbfgs': '''
p = nn.Parameter(T.tensor([2., -3.]))
o = optim.LBFGS([p], lr=1, max_iter=5, line_search_fn='strong_wolfe')
def closure():
    o.zero_grad()
    loss = ((p - T.tensor([1., 2.])) ** 2).sum()
    loss.backward()
    return loss
say(o.step(closure), p)
s = optim.SGD([p], lr=0.1)
say(s.step(lambda: 3.0), s.step())
bad(o.step)
a = optim.Adam([p], lr=0.1)
def c2():
    a.zero_grad(); l = p.sum(); l.backward(); return l
say(a.step(c2), a.step(closure=c2))
''',
    'optimiser surgery': '''
m = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
filled(m)
o = optim.Adam(m.parameters(), lr=0.1)
m(T.ones(1, 2)).sum().backward()
o.step()
old = m[0].weight
new = nn.Parameter(T.cat([old.data, T.zeros(1, 2)]))
g = o.param_groups[0]
stored = o.state.get(old, None)
stored['exp_avg'] = T.cat((stored['exp_avg'], T.zeros(1, 2)))
stored['exp_avg_sq'] = T.cat((stored['exp_avg_sq'], T.zeros(1, 2)))
del o.state[old]
g['params'][0] = new
o.state[new] = stored
new.grad = T.ones(3, 2)
o.step()
say(new, o.state[new]['exp_avg'], len(o.state), old in o.state)
for g in o.param_groups: g['lr'] *= 0.5; g['betas'] = (0.5, 0.9)
o.step()
say(new, o.param_groups[0]['lr'])
o.state.clear()
o.step()
say(new)
o.param_groups.clear()
o.add_param_group({'params': new, 'lr': 1.0})
say(len(o.param_groups), o.param_groups[0]['betas'])
o.zero_grad()
say(new.grad)
say(type(o.state).__name__, isinstance(o.state, collections.defaultdict))
''',
    'schedules as libraries write them': '''
from importlib import import_module
L = import_module(optim.__name__ + '.lr_scheduler')
p = nn.Parameter(T.ones(1))
def lr_lambda(step, warm=2, total=6): return step / warm if step < warm else max(0.0, (total - step) / (total - warm))
o = optim.AdamW([p], lr=1.0)
s = L.LambdaLR(o, functools.partial(lr_lambda, warm=2, total=6))
r = []
for _ in range(6): o.step(); s.step(); r.append(round(s.get_last_lr()[0], 4))
say(r, s.last_epoch, s._step_count)
class Poly(L.LRScheduler):
    def __init__(self, opt, n, power=2., last_epoch=-1):
        self.n, self.power = n, power
        super().__init__(opt, last_epoch)
    def get_lr(self):
        if self.last_epoch == 0: return self.base_lrs
        return [b * (1 - self.last_epoch / self.n) ** self.power for b in self.base_lrs]
o = optim.SGD([p], lr=1.0)
s = Poly(o, 4)
r = []
for _ in range(4): r.append(s.get_last_lr()); o.step(); s.step()
say(r, s.state_dict())
o = optim.SGD([{'params': [p], 'initial_lr': 0.5}], lr=0.5)
s = L.CosineAnnealingLR(o, 10, last_epoch=4)
say([round(x, 5) for x in s.get_last_lr()])
o = optim.SGD([p], lr=0.1, momentum=0.9)
s = L.OneCycleLR(o, max_lr=1.0, total_steps=5)
r = []
for _ in range(4): o.step(); s.step(); r.append((round(o.param_groups[0]['lr'], 5), round(o.param_groups[0]['momentum'], 5)))
say(r)
bad(lambda: [s.step() for _ in range(3)])
o = optim.SGD([p], lr=1.0)
c = L.ChainedScheduler([L.ConstantLR(o, 0.1, 2), L.ExponentialLR(o, 0.9)])
for _ in range(3): o.step(); c.step()
say(c.get_last_lr(), o.param_groups[0]['lr'])
w = L.CosineAnnealingWarmRestarts(optim.SGD([p], lr=1.0), T_0=2, T_mult=2)
r = []
for k in range(5): w.step(k + 0.5); r.append(round(w.get_last_lr()[0], 5))
say(r)
pl = L.ReduceLROnPlateau(optim.SGD([p], lr=1.0), 'max', factor=0.1, patience=1, threshold=0.1)
for v in (1, 1.05, 1.0, 0.9, 2): pl.step(v)
say(pl.get_last_lr(), {k: v for k, v in pl.state_dict().items() if k not in ('mode_worse',)})
say(optim.SGD([p], lr=T.tensor(0.5)).param_groups[0]['lr'])
''',
    'swa': '''
from importlib import import_module
S = import_module(optim.__name__ + '.swa_utils')
m = filled(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
a = S.AveragedModel(m)
for k in range(3):
    with T.no_grad():
        for p in m.parameters(): p.add_(0.1)
    a.update_parameters(m)
say(a.module[0].weight, a.n_averaged, list(a.state_dict())[:3], a(T.ones(2, 2)).shape == (2, 2))
S.update_bn([T.arange(8.).reshape(4, 2)], a)
say(a.module[1].running_mean)
e = S.AveragedModel(m, multi_avg_fn=S.get_ema_multi_avg_fn(0.9))
e.update_parameters(m); e.update_parameters(m)
say(e.module[0].bias)
''',
    'data parallel names': '''
m = filled(nn.Linear(2, 1))
d = nn.DataParallel(m)
say(list(d.state_dict()), d.module is m, d(T.ones(1, 2)), [n for n, _ in d.named_parameters()])
plain = d.module if hasattr(d, 'module') else d
say(plain is m, isinstance(d, nn.DataParallel))
m.load_state_dict({k.replace('module.', ''): v for k, v in d.state_dict().items()})
r = m._replicate_for_data_parallel()
say(list(r._parameters), r._buffers is m._buffers, r._modules is m._modules, r._is_replica, r.in_features)
''',
    'checkpointing of activations': '''
from importlib import import_module
cp = import_module(T.__name__ + '.utils.checkpoint').checkpoint
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(2, 3), nn.Linear(3, 1)
        self.calls = 0
        self.use = True
    def _inner(self, x):
        self.calls += 1
        return T.tanh(self.a(x))
    def forward(self, x):
        y = cp(self._inner, x, use_reentrant=False) if self.training and self.use else self._inner(x)
        return self.b(y)
m = filled(Net())
x = T.ones(1, 2, requires_grad=True)
m(x).sum().backward()
say(m.calls, m.a.weight.grad, x.grad)
m.eval()
say(m(x))
''',
    'weight tying and sharing': '''
class AE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(3, 2, bias=False)
        self.dec_bias = nn.Parameter(T.zeros(3))
    def forward(self, x): return F.linear(self.enc(x), self.enc.weight.t(), self.dec_bias)
m = filled(AE())
o = optim.SGD(m.parameters(), lr=0.1)
F.mse_loss(m(T.ones(2, 3)), T.ones(2, 3)).backward()
o.step()
say(m.enc.weight, m.enc.weight.grad)
a, b = nn.Linear(2, 2), nn.Linear(2, 2)
b.weight = a.weight
b._parameters['bias'] = a._parameters['bias']
net = nn.ModuleList([a, b])
say(len(list(net.parameters())), list(net.state_dict()), len(list(net.named_parameters(remove_duplicate=False))))
sd = net.state_dict()
net.load_state_dict({'0.weight': T.ones(2, 2), '0.bias': T.ones(2), '1.weight': T.ones(2, 2) * 2, '1.bias': T.ones(2)})
say(a.weight, b.weight is a.weight)
c = copy.deepcopy(net)
say(c[0].weight is c[1].weight, c[0].weight is a.weight)
net.double()
say(a.weight is b.weight, a.weight.dtype == T.float64)
p = nn.Parameter(T.zeros(2))
holder = nn.Module(); holder.p = p; holder.view = p.data.view(1, 2)
with T.no_grad(): p += 1
say(holder.view, 'view' in holder.state_dict())
''',
    'initialisation walks': '''
def init(m):
    if isinstance(m, nn.Linear):
        nn.init.constant_(m.weight, 0.5)
        if m.bias is not None: nn.init.zeros_(m.bias)
    elif isinstance(m, (nn.BatchNorm2d, nn.GroupNorm)):
        nn.init.constant_(m.weight, 1); nn.init.constant_(m.bias, 0)
    elif hasattr(m, 'reset_parameters') and not list(m.children()): m.reset_parameters()
net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 1, bias=False)), nn.GroupNorm(1, 1))
say(net.apply(init) is net, net[0].weight, net[1][0].bias)
for n, p in net.named_parameters():
    if 'bias' in n: p.data.fill_(0.1)
    elif p.dim() > 1: nn.init.eye_(p) if p.shape[0] == p.shape[1] else nn.init.ones_(p)
say(net.state_dict())
with T.no_grad():
    net[0].weight[0, 0] = 7
    net[0].bias[:] = T.tensor([1., 2.])
    net[0].weight.copy_(net[0].weight.t().clone())
say(net[0].weight, net[0].bias)
net[0].weight.data[1] = 0
net[0].weight.data *= 2
net[0].bias.data = T.zeros(2)
say(net[0].weight, net[0].bias, net[0].bias.requires_grad, type(net[0].bias).__name__)
bad(lambda: net[0].weight.fill_(1))
bad(lambda: net[0].weight.__setitem__(0, 1))
bad(lambda: setattr(net[0], 'weight', T.ones(2, 2)))
net[0].weight.requires_grad_(False).fill_(3)
say(net[0].weight)
''',
    'recurrent state and masks': '''
class Gen(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.rnn, self.out = nn.Embedding(5, 3), nn.GRU(3, 4, batch_first=True), nn.Linear(4, 5)
        self.register_buffer('mask', T.triu(T.ones(4, 4, dtype=T.bool), 1), persistent=False)
    def forward(self, x, h=None):
        y, h = self.rnn(self.emb(x), h)
        return self.out(y), h
m = filled(Gen())
x = T.tensor([[1, 2, 3]])
y, h = m(x)
y2, h2 = m(x[:, :1], h)
say(y, h2, list(m.state_dict()), m.mask.dtype == T.bool)
m.rnn.flatten_parameters()
say([tuple(w.shape) for w in m.rnn.all_weights[0]], m.rnn.weight_hh_l0.shape == (12, 4))
del m.rnn._parameters['bias_ih_l0']
m.rnn.bias_ih_l0 = T.zeros(12)
say('bias_ih_l0' in m.rnn.__dict__, [n for n, _ in m.named_parameters()])
for n, p in m.rnn.named_parameters():
    if 'weight_hh' in n: nn.init.ones_(p)
    elif 'bias' in n: p.data[4:8].fill_(1)
say(m.rnn.bias_hh_l0)
''',
}


@pytest.mark.parametrize('name', PROGRAMS)
@pytest.mark.filterwarnings('ignore')
def test_program(name):
    assert said(PROGRAMS[name], gt) == same_text(said(PROGRAMS[name], torch))
