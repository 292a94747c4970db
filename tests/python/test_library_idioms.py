"""Optimisers, schedules, state dictionaries, parametrisations and wrappers as libraries write them, in GT and in PyTorch."""

import pytest
import torch

import gt
from twin_programs import said, same_text

PROGRAMS = {
    'own optimiser': '''
class Own(optim.Optimizer):
    def __init__(self, params, lr=0.1):
        super().__init__(params, dict(lr=lr))
    @T.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group['params']:
                if p.grad is None: continue
                state = self.state[p]
                if not state: state['step'], state['avg'], state['name'], state['list'] = 0, T.zeros_like(p), 'text', [1, T.ones(1)]
                state['step'] += 1
                state['avg'].mul_(0.9).add_(p.grad)
                p.add_(state['avg'], alpha=-group['lr'])
w = nn.Parameter(T.ones(2))
o = Own([w])
(w * 3).sum().backward()
o.step(); o.step()
d = o.state_dict()
say(d, type(d['state'][0]['step']).__name__, d['state'][0]['avg'] is o.state[w]['avg'])
v = nn.Parameter(T.ones(2, dtype=T.float64))
q = Own([v], lr=5)
q.load_state_dict({'state': {0: {k: x for k, x in d['state'][0].items() if k != 'name'}}, 'param_groups': d['param_groups']})
say(q.state[v], type(q.state[v]['step']).__name__, q.param_groups)
(v * 3).sum().backward()
q.step()
say(q.state[v]['step'], v)
say(o)
''',
    'own optimiser with tensor steps': '''
class Own(optim.Optimizer):
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group['params']:
                self.state[p]['step'] = T.tensor(3, dtype=T.int64)
                self.state[p]['n'] = T.tensor(3, dtype=T.int64)
                self.state[p]['deep'] = {'step': 4, 'x': [T.ones(1)]}
p = nn.Parameter(T.ones(1, dtype=T.float64))
o = Own([p], {})
o.step()
o.load_state_dict(o.state_dict())
say(o.state[p])
i = T.ones(1, dtype=T.int64)
o = Own([i], {})
o.step()
o.load_state_dict(o.state_dict())
say(o.state[i])
''',
    'loaded groups': '''
p = nn.Parameter(T.ones(1))
o = optim.SGD([p], lr=0.1, momentum=0.9)
o.param_groups[0]['mine'] = 7
before = o.param_groups[0]
d = o.state_dict()
o.param_groups[0]['gone'] = 1
o.load_state_dict(d)
say(sorted(o.param_groups[0]), o.param_groups[0]['mine'], before is o.param_groups[0])
o.load_state_dict({'state': {}, 'param_groups': [{'lr': 0.5, 'params': [0], **{k: v for k, v in d['param_groups'][0].items() if k not in ('lr', 'params')}}]})
say(o.param_groups[0]['lr'])
bad(o.load_state_dict, {'state': {}, 'param_groups': []})
bad(o.load_state_dict, {'state': {}, 'param_groups': [{'params': [0, 1]}]})
class Own(optim.SGD):
    def __setstate__(self, state):
        super().__setstate__(state)
        for g in self.param_groups: g.setdefault('extra', 1)
o = Own([p], lr=0.1)
o.load_state_dict(o.state_dict())
say(o.param_groups[0]['extra'])
c = copy.deepcopy(o)
say(c.param_groups[0]['lr'], c.param_groups[0]['params'][0] is p)
r = pickle.loads(pickle.dumps(optim.SGD([p], lr=0.1)))
say(r.param_groups[0]['lr'], r.state_dict()['param_groups'])
''',
    'optimiser hooks': '''
p = nn.Parameter(T.ones(1))
o = optim.SGD([p], lr=0.1)
seen = []
say(type(o._optimizer_step_pre_hooks).__name__, len(o._optimizer_step_pre_hooks))
o._optimizer_step_pre_hooks[0] = lambda *a: seen.append('direct')
p.grad = T.ones(1)
o.step()
o._optimizer_step_pre_hooks.clear()
h = o.register_step_post_hook(lambda opt, args, kwargs: seen.append((len(args), kwargs)))
o.step()
h.remove()
o.step()
say(seen)
class Sub(optim.Optimizer):
    def step(self, closure=None):
        seen.append('own')
del seen[:]
s = Sub([p], {})
s.register_step_pre_hook(lambda *a: seen.append('pre'))
s.register_step_post_hook(lambda *a: seen.append('post'))
s.step()
say(seen, p)
from importlib import import_module
O = import_module(optim.__name__ + '.optimizer')
del seen[:]
with O.register_optimizer_step_pre_hook(lambda *a: seen.append('global pre')), O.register_optimizer_step_post_hook(lambda *a: seen.append('global post')):
    o.step()
o.step()
say(seen)
a = o.register_state_dict_pre_hook(lambda opt: seen.append('sd'))
b = o.register_state_dict_post_hook(lambda opt, sd: {**sd, 'more': 1})
c = o.register_load_state_dict_pre_hook(lambda opt, sd: seen.append(sorted(sd)))
d = o.register_load_state_dict_post_hook(lambda opt: seen.append('loaded'))
o.load_state_dict(o.state_dict())
say(seen)
''',
    'an optimiser around another': '''
class Around(optim.Optimizer):
    def __init__(self, inner): self.inner, self.calls = inner, 0
    @property
    def state(self): return self.inner.state
    @property
    def param_groups(self): return self.inner.param_groups
    @property
    def defaults(self): return self.inner.defaults
    def zero_grad(self, set_to_none=True): self.inner.zero_grad(set_to_none)
    def state_dict(self): return self.inner.state_dict()
    def step(self, closure=None):
        self.calls += 1
        return self.inner.step(closure)
p = nn.Parameter(T.ones(1))
o = Around(optim.SGD([p], lr=0.5))
p.grad = T.ones(1)
o.step()
o.zero_grad()
say(p, p.grad, o.calls, isinstance(o, optim.Optimizer), o.param_groups[0]['lr'])
s = optim.lr_scheduler.StepLR(o, 1, 0.1)
p.grad = T.ones(1)
o.step()
s.step()
say(o.param_groups[0]['lr'], s.get_last_lr(), o.calls)
''',
    'sam': '''
class SAM(optim.Optimizer):
    def __init__(self, params, base, rho=0.05, **kwargs):
        super().__init__(params, dict(rho=rho, **kwargs))
        self.base_optimizer = base(self.param_groups, **kwargs)
        self.param_groups = self.base_optimizer.param_groups
        self.defaults.update(self.base_optimizer.defaults)
    @T.no_grad()
    def first_step(self, zero_grad=False):
        norm = T.norm(T.stack([p.grad.norm(p=2) for g in self.param_groups for p in g['params'] if p.grad is not None]), p=2)
        for g in self.param_groups:
            scale = g['rho'] / (norm + 1e-12)
            for p in g['params']:
                if p.grad is None: continue
                self.state[p]['old_p'] = p.data.clone()
                p.add_(p.grad * scale.to(p))
        if zero_grad: self.zero_grad()
    @T.no_grad()
    def second_step(self, zero_grad=False):
        for g in self.param_groups:
            for p in g['params']:
                if p.grad is None: continue
                p.data = self.state[p]['old_p']
        self.base_optimizer.step()
        if zero_grad: self.zero_grad()
m = filled(nn.Linear(2, 1))
o = SAM(m.parameters(), optim.SGD, lr=0.1, momentum=0.9)
for _ in range(3):
    m(T.ones(2, 2)).square().sum().backward()
    o.first_step(True)
    m(T.ones(2, 2)).square().sum().backward()
    o.second_step(True)
say(m.weight, m.bias, o.param_groups[0]['lr'])
''',
    'lookahead': '''
class Lookahead:
    def __init__(self, base, alpha=0.5, k=2):
        self.base, self.alpha, self.k, self.n = base, alpha, k, 0
        self.slow = [[p.clone().detach() for p in g['params']] for g in base.param_groups]
        for w in itertools.chain(*self.slow): w.requires_grad = False
    def step(self):
        loss = self.base.step()
        self.n += 1
        if self.n % self.k == 0:
            for g, slow in zip(self.base.param_groups, self.slow):
                for p, q in zip(g['params'], slow):
                    q.data.add_(p.data - q.data, alpha=self.alpha)
                    p.data.copy_(q.data)
m = filled(nn.Linear(2, 1))
o = Lookahead(optim.Adam(m.parameters(), lr=0.1))
for _ in range(4):
    m.zero_grad()
    m(T.ones(1, 2)).square().sum().backward()
    o.step()
say(m.weight, m.bias)
''',
    'schedules': '''
p = nn.Parameter(T.ones(1))
o = optim.SGD([{'params': [p], 'lr': 0.1}, {'params': [nn.Parameter(T.ones(1))]}], lr=1.0, momentum=0.9)
s = optim.lr_scheduler.LambdaLR(o, lambda e: min(1, (e + 1) / 3))
say(s.get_last_lr(), s.last_epoch, s.base_lrs)
for _ in range(3):
    o.step(); s.step()
say(s.get_last_lr(), {k: v for k, v in s.state_dict().items() if k != 'lr_lambdas'})
class Warm(optim.lr_scheduler._LRScheduler):
    def __init__(self, optimizer, n, last_epoch=-1):
        self.n = n
        super().__init__(optimizer, last_epoch)
    def get_lr(self):
        return [b * min(1.0, (self.last_epoch + 1) / self.n) for b in self.base_lrs]
o = optim.Adam([p], lr=0.4)
s = Warm(o, 4)
rates = [s.get_last_lr()[0]]
for _ in range(5):
    o.step(); s.step(); rates.append(o.param_groups[0]['lr'])
say(rates)
d = s.state_dict()
t = Warm(optim.Adam([p], lr=0.4), 9)
t.load_state_dict(d)
say(t.n, t.last_epoch, t._step_count, sorted(d), o.param_groups[0]['initial_lr'])
seq = optim.lr_scheduler.SequentialLR(o, [optim.lr_scheduler.LinearLR(o, 0.1, 1, 2), optim.lr_scheduler.CosineAnnealingLR(o, 4)], [2])
for _ in range(5):
    o.step(); seq.step()
say(seq.get_last_lr())
o.add_param_group({'params': [nn.Parameter(T.ones(1))], 'lr': 3})
say(len(o.param_groups), sorted(k for k in o.param_groups[1] if k != 'params'))
plateau = optim.lr_scheduler.ReduceLROnPlateau(o, patience=0, factor=0.5)
for v in (1.0, 2.0, T.tensor(3.0)): plateau.step(v)
say([g['lr'] for g in o.param_groups], plateau.best, plateau.num_bad_epochs)
for g in o.param_groups: g['lr'] = 0.25
say([g['lr'] for g in o.param_groups], isinstance(plateau, optim.lr_scheduler.LRScheduler))
bad(optim.lr_scheduler.StepLR, 3, 1)
bad(optim.lr_scheduler.StepLR, optim.SGD([p], lr=1), 1, last_epoch=3)
''',
    'groups without decay': '''
m = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2), nn.Embedding(3, 2))
decay, none = set(), set()
for mn, mod in m.named_modules():
    for pn, p in mod.named_parameters(recurse=False):
        full = f'{mn}.{pn}' if mn else pn
        (none if pn.endswith('bias') or isinstance(mod, (nn.LayerNorm, nn.Embedding)) else decay).add(full)
d = {n: p for n, p in m.named_parameters()}
o = optim.AdamW([{'params': [d[n] for n in sorted(decay)], 'weight_decay': 0.1}, {'params': [d[n] for n in sorted(none)], 'weight_decay': 0.0}], lr=1e-3, betas=(0.9, 0.95))
say(sorted(decay), sorted(none), [len(g['params']) for g in o.param_groups], [g['weight_decay'] for g in o.param_groups], o.defaults['betas'])
say([n for n, p in m.named_parameters() if p.ndim >= 2], sum(p.numel() for p in m.parameters() if p.requires_grad))
named = optim.SGD(m.named_parameters(), lr=0.1)
say(named.param_groups[0]['param_names'], named.state_dict()['param_groups'][0]['param_names'])
bad(optim.SGD, [], 0.1)
bad(optim.SGD, [T.ones(1) * nn.Parameter(T.ones(1))], 0.1)
bad(optim.SGD, m[0].weight, 0.1)
bad(optim.SGD, [{'params': [d['0.bias']]}, {'params': [d['0.bias']]}], 0.1)
bad(optim.SGD, {1}, 0.1)
bad(optim.SGD, [d['0.bias']], -1.0)
bad(optim.Adam, [d['0.bias']], 0.1, (2, 0))
''',
    'lora': '''
class LoRALinear(nn.Linear):
    def __init__(self, a, b, r=2, alpha=4, **kw):
        nn.Linear.__init__(self, a, b, **kw)
        self.lora_A = nn.Parameter(self.weight.new_zeros((r, a)))
        self.lora_B = nn.Parameter(self.weight.new_zeros((b, r)))
        self.scaling = alpha / r
        self.weight.requires_grad = False
        self.merged = False
    def train(self, mode=True):
        nn.Linear.train(self, mode)
        if mode and self.merged:
            self.weight.data -= (self.lora_B @ self.lora_A) * self.scaling
            self.merged = False
        elif not mode and not self.merged:
            self.weight.data += (self.lora_B @ self.lora_A) * self.scaling
            self.merged = True
        return self
    def forward(self, x):
        y = F.linear(x, self.weight, bias=self.bias)
        return y if self.merged else y + (x @ self.lora_A.transpose(0, 1) @ self.lora_B.transpose(0, 1)) * self.scaling
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.v_proj, self.out = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 1)
    def forward(self, x): return self.out(self.q_proj(x) * self.v_proj(x))
m = filled(Net())
for p in m.parameters(): p.requires_grad_(False)
for name, mod in list(m.named_modules()):
    if isinstance(mod, nn.Linear) and name.endswith('_proj'):
        parent = m.get_submodule('.'.join(name.split('.')[:-1]))
        new = LoRALinear(mod.in_features, mod.out_features, bias=mod.bias is not None)
        new.load_state_dict(mod.state_dict(), strict=False)
        setattr(parent, name.split('.')[-1], new)
for n, p in m.named_parameters():
    p.requires_grad = 'lora_' in n
with T.no_grad():
    for n, p in m.named_parameters():
        if 'lora_' in n: p.copy_(T.arange(p.numel()).reshape(p.shape) * 0.1)
x = T.arange(6.).reshape(2, 3)
a = m(x)
a.sum().backward()
say([n for n, p in m.named_parameters() if p.grad is not None], a, m.q_proj.lora_A.grad)
m.eval()
say(m(x), m.q_proj.merged)
m.train()
say(m(x), {k: tuple(v.shape) for k, v in m.state_dict().items() if 'lora_' in k})
say(m.load_state_dict({k: v for k, v in m.state_dict().items() if 'lora_' in k}, strict=False))
say(m)
''',
    'peft style wrapper': '''
class LoraLayer(nn.Module):
    adapter_layer_names = ('lora_A', 'lora_B')
    def __init__(self, base):
        super().__init__()
        self.base_layer = base
        self.lora_A, self.lora_B = nn.ModuleDict({}), nn.ModuleDict({})
        self.lora_dropout = nn.ModuleDict({})
        self.scaling = {}
        self._active = ['default']
        self._disable_adapters = False
    @property
    def weight(self): return self.base_layer.weight
    def update_layer(self, name, r):
        self.lora_dropout.update(nn.ModuleDict({name: nn.Identity()}))
        self.lora_A[name] = nn.Linear(self.base_layer.in_features, r, bias=False)
        self.lora_B[name] = nn.Linear(r, self.base_layer.out_features, bias=False)
        self.scaling[name] = 2 / r
    def forward(self, x, *args, **kwargs):
        result = self.base_layer(x, *args, **kwargs)
        dtype = result.dtype
        for name in self._active:
            if name not in self.lora_A.keys(): continue
            x = x.to(self.lora_A[name].weight.dtype)
            result = result + self.lora_B[name](self.lora_A[name](self.lora_dropout[name](x))) * self.scaling[name]
        return result.to(dtype)
class Model(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model
    def __getattr__(self, name):
        try: return super().__getattr__(name)
        except AttributeError:
            if name == 'model': raise
            return getattr(self.model, name)
    def forward(self, *a, **k): return self.model.forward(*a, **k)
base = nn.Sequential(OrderedDict(fc=nn.Linear(2, 2), act=nn.ReLU()))
m = Model(base)
for name, mod in list(base.named_modules()):
    if isinstance(mod, nn.Linear):
        layer = LoraLayer(mod)
        layer.update_layer('default', 2)
        layer.update_layer('other', 1)
        setattr(base, name, layer)
filled(m)
say(m(T.ones(1, 2)), m.fc.weight, m.fc.scaling, [n for n, _ in m.named_parameters()])
say({k: v.shape[0] for k, v in m.state_dict().items() if 'default' in k}, 'default' in m.fc.lora_A, list(m.fc.lora_A), m)
for n, p in m.named_parameters(): p.requires_grad = 'lora_' in n and 'default' in n
say([n for n, p in m.named_parameters() if p.requires_grad])
del m.fc.lora_A['other']
say(m.fc.lora_A.keys(), hasattr(m, 'nothing'))
delta = m.fc.lora_B['default'].weight @ m.fc.lora_A['default'].weight * m.fc.scaling['default']
m.fc.base_layer.weight.data += delta
say(m.fc.base_layer(T.ones(1, 2)))
''',
    'accelerate style hooks': '''
def add_hook(module, pre, post):
    old = module.forward
    module._old_forward = old
    @functools.wraps(old)
    def new(module, *args, **kwargs):
        args, kwargs = pre(module, *args, **kwargs)
        return post(module, module._old_forward(*args, **kwargs))
    module.forward = functools.update_wrapper(functools.partial(new, module), old)
    return module
m = filled(nn.Linear(2, 2))
add_hook(m, lambda mod, x: ((x * 2,), {}), lambda mod, y: y + 1)
say(m(T.ones(1, 2)), m.forward.__name__)
m.forward = m._old_forward
delattr(m, '_old_forward')
say(m(T.ones(1, 2)))
def set_tensor(module, name, value):
    if '.' in name:
        parts = name.split('.')
        for part in parts[:-1]: module = getattr(module, part)
        name = parts[-1]
    is_buffer = name in module._buffers
    old = getattr(module, name)
    if is_buffer: module._buffers[name] = value
    else:
        cls = type(module._parameters[name])
        module._parameters[name] = cls(value, requires_grad=old.requires_grad)
net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
set_tensor(net, '0.weight', T.eye(2))
set_tensor(net, '1.running_mean', T.ones(2))
say(net[0].weight, net[1].running_mean, type(net[0].weight).__name__)
def named_module_tensors(module, recurse=False):
    yield from module.named_parameters(recurse=recurse)
    non = set()
    for n, _ in module.named_buffers(recurse=recurse): non.add(n)
    yield from ((n, b) for n, b in module.named_buffers(recurse=recurse) if n not in module._non_persistent_buffers_set)
say([n for n, _ in named_module_tensors(net[1])])
def find_tied(model):
    seen, tied = {}, []
    for n, p in model.named_parameters(remove_duplicate=False):
        if id(p) in seen: tied.append((seen[id(p)], n))
        seen.setdefault(id(p), n)
    return tied
e = nn.Module(); e.emb = nn.Embedding(3, 2); e.head = nn.Linear(2, 3, bias=False); e.head.weight = e.emb.weight
say(find_tied(e), [n for n, _ in e.named_parameters()], list(e.state_dict()))
old_register = nn.Module.register_parameter
def patched(module, name, param):
    old_register(module, name, param)
    if param is not None:
        module._parameters[name] = type(module._parameters[name])(module._parameters[name].data * 0, requires_grad=param.requires_grad)
try:
    nn.Module.register_parameter = patched
    z = nn.Linear(2, 2)
finally: nn.Module.register_parameter = old_register
class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(T.ones(2))
try:
    nn.Module.register_parameter = patched
    z = Own()
finally: nn.Module.register_parameter = old_register
say(z.w)
''',
    'state dict overrides': '''
class Old(nn.Module):
    _version = 2
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(T.zeros(2))
        self.register_buffer('count', T.zeros(1))
    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + 'extra'] = T.ones(1)
    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        seen.append((prefix, local_metadata.get('version'), strict, sorted(state_dict)))
        version = local_metadata.get('version', None)
        if version is None or version < 2:
            state_dict[prefix + 'weight'] = state_dict.pop(prefix + 'w')
        state_dict.pop(prefix + 'extra', None)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
seen = []
m = nn.Sequential(Old(), nn.Linear(1, 1))
d = m.state_dict()
say(list(d), d._metadata)
m.load_state_dict(d)
old = OrderedDict((k.replace('weight', 'w') if k.startswith('0.') else k, v) for k, v in d.items())
say(m.load_state_dict(old))
bad(m.load_state_dict, OrderedDict([*d.items(), ('9.x', T.ones(1))]))
say(seen)
class Err(nn.Module):
    def _load_from_state_dict(self, sd, prefix, meta, strict, missing, unexpected, errors):
        errors.append('my error'); missing.append(prefix + 'mine')
bad(Err().load_state_dict, {})
bad(Err().load_state_dict, {}, strict=False)
n = nn.Linear(2, 2)
bad(n.load_state_dict, {'weight': T.ones(3, 3), 'bias': T.ones(2)})
bad(n.load_state_dict, {'weight': T.ones(2, 2)})
bad(n.load_state_dict, {'weight': T.ones(2, 2), 'bias': 3})
bad(n.load_state_dict, [1])
say(n.load_state_dict({'weight': T.ones(2, 2), 'new': 1}, strict=False))
say(n.load_state_dict({'weight': T.full((2, 2), 2.), 'bias': T.zeros(2, dtype=T.float64)}), n.weight, n.bias)
k = n.state_dict(keep_vars=True)
say(k['weight'] is n.weight, n.state_dict()['weight'].requires_grad, n.state_dict(prefix='a.').keys())
dest = OrderedDict()
n.state_dict(destination=dest, prefix='p.')
say(list(dest))
''',
    'state dict hooks': '''
m = filled(nn.Sequential(nn.Linear(1, 1), nn.ReLU()))
seen = []
def rename(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
    seen.append((prefix, sorted(state_dict)))
    for k in list(state_dict):
        if k.startswith(prefix + 'old_'): state_dict[prefix + k[len(prefix) + 4:]] = state_dict.pop(k)
h = m[0]._register_load_state_dict_pre_hook(rename)
m.load_state_dict({'0.old_weight': T.ones(1, 1), '0.bias': T.ones(1)})
say(m[0].weight, seen)
h.remove()
bad(m.load_state_dict, {'0.old_weight': T.ones(1, 1), '0.bias': T.ones(1)})
m[0]._register_load_state_dict_pre_hook(lambda mod, sd, prefix, *a: seen.append(type(mod).__name__), with_module=True)
m[0].register_load_state_dict_pre_hook(lambda mod, sd, prefix, *a: seen.append((type(mod).__name__, prefix)))
m.register_load_state_dict_post_hook(lambda mod, keys: keys.missing_keys.clear())
del seen[:]
say(m.load_state_dict({'0.weight': T.zeros(1, 1)}), seen)
m._register_state_dict_hook(lambda mod, sd, prefix, meta: OrderedDict((k, v) for k, v in sd.items() if 'bias' not in k))
say(list(m.state_dict()))
m.register_state_dict_pre_hook(lambda mod, prefix, keep: seen.append(('pre', prefix, keep)))
def post(mod, sd, prefix, meta): sd['added'] = 1
m[0].register_state_dict_post_hook(post)
say(list(m.state_dict()), seen[-1], len(m._state_dict_hooks), len(m._state_dict_pre_hooks), len(m[0]._load_state_dict_pre_hooks))
m[0]._load_state_dict_pre_hooks.clear()
m[0]._load_state_dict_pre_hooks['x'] = lambda sd, prefix, *a: seen.append('raw')
m.load_state_dict({'0.weight': T.zeros(1, 1)}, strict=False)
say(seen[-1])
class Extra(nn.Module):
    def __init__(self, v):
        super().__init__()
        self.v = v
    def get_extra_state(self): return {'v': self.v}
    def set_extra_state(self, state): self.v = state['v']
e = Extra(3)
d = e.state_dict()
f = Extra(0)
f.load_state_dict(d)
say(d, f.v)
bad(f.load_state_dict, {})
bad(nn.ReLU().load_state_dict, d)
w = nn.Linear(1, 1)
c = copy.deepcopy(m[0])
say(len(c._load_state_dict_pre_hooks))
''',
    'assign': '''
m = nn.Linear(2, 2)
p = m.weight
m.weight.requires_grad_(False)
sd = {'weight': T.ones(2, 2, dtype=T.float64), 'bias': nn.Parameter(T.zeros(2), requires_grad=False)}
m.load_state_dict(sd, assign=True)
say(m.weight is p, m.weight.dtype == T.float64, m.weight.requires_grad, m.bias is sd['bias'], m.bias.requires_grad, type(m.weight).__name__)
b = nn.BatchNorm1d(2)
mean = T.full((2,), 5.)
b.load_state_dict({**b.state_dict(), 'running_mean': mean}, assign=True)
say(b.running_mean is mean, list(b.state_dict()))
m = nn.Linear(1, 1)
opt = optim.SGD(m.parameters(), lr=1.)
m.load_state_dict({'weight': T.ones(1, 1), 'bias': T.ones(1)})
m(T.ones(1, 1)).sum().backward()
opt.step()
say(m.weight, m.bias)
v = m.weight.view(-1)
with T.no_grad(): m.load_state_dict({'weight': T.full((1, 1), 9.), 'bias': T.ones(1)})
say(v.detach(), m.weight._version > 0)
''',
    'parametrize': '''
from importlib import import_module
import_module(nn.__name__ + '.utils.prune')
P = nn.utils.parametrize
class Sym(nn.Module):
    def forward(self, X): return X.triu() + X.triu(1).transpose(-1, -2)
class Scale(nn.Module):
    def __init__(self): super().__init__(); self.s = nn.Parameter(T.tensor(2.))
    def forward(self, X): return X * self.s
    def right_inverse(self, Y): return Y / self.s
m = filled(nn.Linear(2, 2))
P.register_parametrization(m, 'weight', Sym())
P.register_parametrization(m, 'weight', Scale())
say(m, m.weight, m(T.ones(1, 2)), [n for n, _ in m.named_parameters()], list(m.state_dict()), type(m).__name__, isinstance(m, nn.Linear))
m(T.ones(1, 2)).sum().backward()
say(m.parametrizations.weight.original.grad, m.parametrizations['weight'][1].s.grad)
c = copy.deepcopy(m)
with T.no_grad(): c.parametrizations.weight.original.zero_()
say(m.weight, c.weight)
with P.cached(): say(m.weight is m.weight)
say(m.weight is m.weight, P.is_parametrized(m), P.is_parametrized(m, 'bias'), 'weight' in m._parameters, hasattr(m, 'weight'))
P.remove_parametrizations(m, 'weight')
say(m, m.weight, list(m._parameters), type(m).__name__)
n = nn.utils.parametrizations.weight_norm(filled(nn.Linear(2, 2)))
say(n, list(n.state_dict()), n(T.ones(1, 2)))
o = nn.utils.weight_norm(filled(nn.Linear(2, 2)))
say(sorted(k for k in vars(o) if 'weight' in k), list(o._parameters), o(T.ones(1, 2)), len(o._forward_pre_hooks))
bad(copy.deepcopy, o)
nn.utils.remove_weight_norm(o)
say(list(o._parameters), len(o._forward_pre_hooks))
q = nn.utils.prune.l1_unstructured(filled(nn.Linear(2, 2)), 'weight', 0.5)
say(list(q._parameters), list(q._buffers), q.weight, 'weight' in vars(q), len(q._forward_pre_hooks))
nn.utils.prune.remove(q, 'weight')
say(list(q._parameters), list(q._buffers), q.weight)
bad(pickle.dumps, P.register_parametrization(nn.Linear(2, 2), 'weight', Sym()))
''',
    'functional_call': '''
from importlib import import_module
fc = import_module(T.__name__ + '.func').functional_call
m = filled(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.BatchNorm1d(2))).eval()
p = {k: v.detach().clone() for k, v in m.named_parameters()}
p['0.weight'] = T.eye(2)
say(fc(m, p, (T.ones(1, 2),)), m[0].weight)
say(fc(m, [p, dict(m.named_buffers())], T.ones(1, 2)))
bad(fc, m, {'nothing': T.ones(1)}, (T.ones(1, 2),))
bad(fc, m, p, (T.ones(1, 2),), strict=True)
w = T.eye(2).requires_grad_()
fc(m[0], {'weight': w}, (T.ones(1, 2),)).sum().backward()
say(w.grad, m[0].weight.grad)
class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer('n', T.zeros(1))
        self.register_buffer('k', T.zeros(1))
    def forward(self, x):
        self.n = self.n + 1
        self.k.add_(1)
        return x + self.n
m2 = Counting()
given = {'n': T.ones(1), 'k': T.ones(1)}
say(fc(m2, given, (T.zeros(1),)), given, m2.n, m2.k)
bad(fc, m2, {'a.b': T.ones(1)}, (T.zeros(1),))
bad(fc, m2, {'training': T.ones(1)}, (T.zeros(1),))
say(hasattr(m2, 'nothing'), list(m2._buffers))
bad(fc, m2, {'n': 3}, (T.zeros(1),))
bad(fc, m2, [{'n': T.ones(1)}, {'n': T.ones(1)}], (T.zeros(1),))
bad(fc, m2, 3, (T.zeros(1),))
g = import_module(T.__name__ + '.func').grad(lambda q, x: fc(m[0], q, (x,)).sum())(dict(m[0].named_parameters()), T.ones(1, 2))
say(g)
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 2, bias=False); self.b = nn.Linear(2, 2, bias=False); self.b.weight = self.a.weight
    def forward(self, x): return self.a(x) + self.b(x)
t = filled(Tied())
say(fc(t, {'a.weight': T.eye(2)}, (T.ones(1, 2),)), fc(t, {'a.weight': T.eye(2)}, (T.ones(1, 2),), tie_weights=False))
say(nn.utils.stateless.functional_call(m[0], {'weight': T.eye(2)}, (T.ones(1, 2),)))
''',
}


@pytest.mark.parametrize('name', PROGRAMS)
@pytest.mark.filterwarnings('ignore')
def test_program(name):
    assert said(PROGRAMS[name], gt) == same_text(said(PROGRAMS[name], torch))
