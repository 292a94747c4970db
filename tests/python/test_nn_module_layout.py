"""nn.Module as libraries use it: its dictionaries, hooks, copies, overrides and errors, each program in GT and in PyTorch."""

import types

import pytest
import torch

import gt
from table_modules import rows
from twin_programs import said, same_text

PROGRAMS = {
    'entries of __dict__': '''
m = nn.Linear(2, 3)
say(sorted(m.__dict__))
say([type(m.__dict__[k]).__name__ for k in sorted(m.__dict__) if k != '_parameters'])
say(isinstance(m._parameters, dict), list(m.__dict__['_parameters']), m.__dict__['training'])
n = nn.BatchNorm1d(2)
say(sorted(n.__dict__), list(n.__dict__['_buffers']), n._non_persistent_buffers_set)
s = nn.Sequential(nn.ReLU(), nn.Dropout(0.1))
say(sorted(s.__dict__), list(s.__dict__['_modules']), sorted(s[0].__dict__), sorted(s[1].__dict__))
say('weight' in vars(m), 'weight' in dir(m), hasattr(m, 'weight'))
''',
    'hook dictionaries': '''
a, b = nn.Identity(), nn.Identity()
say(a._forward_hooks is b._forward_hooks, type(a._forward_hooks).__name__, len(a._forward_hooks))
a._forward_hooks[99] = lambda m, x, y: y + 1
say(a(T.ones(2)), b(T.ones(2)))
a._forward_hooks.clear()
say(a(T.ones(2)))
a._forward_pre_hooks['p'] = lambda m, x: (x[0] * 2,)
say(a(T.ones(2)))
a._forward_pre_hooks = OrderedDict()
say(a(T.ones(2)))
h = a.register_forward_hook(lambda m, x, y: y * 5)
say(len(a._forward_hooks), list(a._forward_hooks) == [h.id], a(T.ones(1)))
kept = a._forward_hooks
a._forward_hooks = OrderedDict()
say(a(T.ones(1)))
a._forward_hooks = kept
say(a(T.ones(1)))
h.remove()
say(len(a._forward_hooks), a(T.ones(1)))
b._forward_hooks = a._forward_hooks
a.register_forward_hook(lambda m, x, y: y - 1)
say(b(T.ones(1)))
c = nn.Identity()
c.__dict__['_forward_hooks'] = OrderedDict(k=lambda m, x, y: y * 9)
say(c(T.ones(1)))
''',
    'backward hook dictionaries': '''
m = filled(nn.Linear(2, 1))
seen = []
m._backward_hooks[0] = lambda mod, gi, go: seen.append((gi[0], go[0]))
m._is_full_backward_hook = True
x = T.ones(1, 2, requires_grad=True)
m(x).sum().backward()
say(seen, x.grad)
m._backward_hooks.clear()
m._backward_pre_hooks[5] = lambda mod, go: (go[0] * 3,)
x.grad = None
m(x).sum().backward()
say(len(seen), x.grad)
''',
    'kwargs and always_call dictionaries': '''
class M(nn.Module):
    def forward(self, x, k=1):
        if k < 0: raise ValueError('negative')
        return x * k
m = M()
h = m.register_forward_hook(lambda m, a, k, out: out + k['k'], with_kwargs=True)
say(m(T.ones(1), k=3), list(m._forward_hooks_with_kwargs) == [h.id], len(m._forward_hooks_always_called))
h.remove()
say(len(m._forward_hooks_with_kwargs), m(T.ones(1), k=3))
seen = []
h = m.register_forward_hook(lambda m, a, out: seen.append(out), always_call=True)
bad(m, T.ones(1), k=-1)
say(seen, len(m._forward_hooks_always_called))
p = m.register_forward_pre_hook(lambda m, a, k: (a, {'k': k['k'] + 1}), with_kwargs=True)
say(m(T.ones(1), k=3), list(m._forward_pre_hooks_with_kwargs) == [p.id])
q = m.register_forward_pre_hook(lambda m, a: 7, prepend=True)
bad(m, T.ones(1), k=1)
say(list(m._forward_pre_hooks) == [q.id, p.id])
''',
    'writing members': '''
m = filled(nn.Linear(2, 2))
m._parameters['weight'] = nn.Parameter(T.eye(2))
say(m.weight, m(T.ones(1, 2)), list(m.state_dict()))
m._parameters['extra'] = nn.Parameter(T.ones(1))
say(m.extra, [n for n, _ in m.named_parameters()], list(m.state_dict()))
del m._parameters['extra']
say(hasattr(m, 'extra'), list(m.state_dict()))
m._buffers['b'] = T.zeros(1)
say(m.b, list(m.state_dict()), [n for n, _ in m.named_buffers()])
m._non_persistent_buffers_set.add('b')
say(list(m.state_dict()))
m._modules['child'] = nn.ReLU()
say(m.child, [n for n, _ in m.named_modules()], m)
del m._modules['child']
bad(lambda: m.child)
m.__dict__['_modules'] = {'x': nn.Tanh()}
say(m.x, list(m.children()))
m._parameters = OrderedDict(w=nn.Parameter(T.ones(1)))
say(m.w, list(m.state_dict()), type(m._parameters).__name__)
bad(lambda: m.weight)
m._parameters.pop('w')
m._buffers.clear()
say(list(m.state_dict()), list(m.parameters()))
''',
    'a mapping of the user': '''
class Loud(OrderedDict):
    def __getitem__(self, key):
        asked.append(key)
        return super().__getitem__(key)
asked = []
m = filled(nn.Linear(1, 1))
m._parameters = Loud(m._parameters)
say(m(T.ones(1, 1)), sorted(set(asked)))
''',
    'copy.copy': '''
m = filled(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
c = copy.copy(m)
say(c._modules is m._modules, c._parameters is m._parameters, c[0] is m[0], c._forward_hooks is m._forward_hooks, type(c) is type(m))
c.add_module('2', nn.ReLU())
say(len(m), list(m.state_dict()) == list(c.state_dict()))
l = copy.copy(m[0])
say(l.weight is m[0].weight, l._parameters is m[0]._parameters, l.__dict__ is m[0].__dict__)
l.weight = nn.Parameter(T.zeros(2, 2))
say(m[0].weight)
l.training = False
say(m[0].training)
l._parameters = l._parameters.copy()
l.bias = nn.Parameter(T.ones(2))
say(m[0].bias)
l.note = 3
say(hasattr(m[0], 'note'))
h = l.register_forward_hook(lambda m, x, y: y * 0)
say(m[0](T.ones(1, 2)))
''',
    'deepcopy and pickle': '''
m = filled(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
m[0].note = [1]
for c in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
    say(list(c.state_dict().items()) and [n for n, _ in c.named_parameters()], c[0].note, c[0].note is m[0].note, sorted(c[0].__dict__))
    c[0].weight.data.zero_()
    c[0]._parameters['z'] = nn.Parameter(T.ones(1))
    say(m[0].weight, hasattr(m[0], 'z'), c(T.ones(2, 2)))
tied = nn.Linear(2, 2)
tied.other = tied.weight
c = copy.deepcopy(tied)
say(c.other is c.weight, [n for n, _ in c.named_parameters()])
memo = {id(tied.weight): tied.weight}
say(copy.deepcopy(tied, memo).weight is tied.weight)
state = m.__getstate__()
say(sorted(state) == sorted(m.__dict__), state is m.__dict__)
new = nn.Linear.__new__(nn.Linear)
new.__setstate__({'training': False, '_parameters': {}, '_buffers': {}, '_modules': {}, '_forward_hooks': OrderedDict(), '_backward_hooks': OrderedDict()})
say(sorted(new.__dict__), new.training)
''',
    'without super().__init__()': '''
class A(nn.Module):
    def __init__(self): self.layer = nn.ReLU()
class B(nn.Module):
    def __init__(self): self.w = nn.Parameter(T.ones(1))
class C(nn.Module):
    def __init__(self): self.register_buffer('b', T.ones(1))
class D(nn.Module):
    def __init__(self): self.register_parameter('w', None)
class E(nn.Module):
    def __init__(self): self.k = 1
    def forward(self, x): return x
class G(nn.Module):
    def __init__(self): self.x = T.ones(1)
class H(nn.Module):
    def __init__(self): self.add_module('a', nn.ReLU())
for cls in (A, B, C, D, H): bad(cls)
say(E().k, G().x)
bad(E(), 1)
bad(lambda: E().state_dict())
bad(lambda: E().eval())
bad(lambda: E().foo)
bad(lambda: delattr(E(), 'k'))
bad(lambda: E().register_forward_hook(print))
bad(lambda: repr(E()))
''',
    'kinds of attributes': '''
m = nn.Module()
m.a = nn.Parameter(T.ones(1))
m.a = None
say(m.a, list(m._parameters), list(m.state_dict()))
bad(setattr, m, 'a', 3)
bad(setattr, m, 'a', T.ones(1))
bad(setattr, m, 'a', [1])
del m.a
m.a = nn.ReLU()
say(list(m._parameters), list(m._modules))
bad(setattr, m, 'a', 3)
m.a = None
say(m.a, list(m._modules))
m.a = nn.Parameter(T.ones(2))
say(list(m._parameters), list(m._modules))
m.register_buffer('b', T.ones(1), persistent=False)
m.b = T.zeros(2)
say(m.b, m._non_persistent_buffers_set, list(m.state_dict()))
bad(setattr, m, 'b', 'text')
m.b = nn.Parameter(T.ones(1))
say(m._non_persistent_buffers_set, list(m._buffers), list(m._parameters))
m.c = T.ones(1)
say('c' in m.__dict__, list(m.state_dict()))
m.c = nn.Parameter(T.ones(1))
say('c' in m.__dict__, list(m.state_dict()))
m.d = nn.Buffer(T.ones(1))
m.e = nn.Buffer(T.ones(1), persistent=False)
say(list(m._buffers), list(m.state_dict()))
bad(m.register_buffer, 'c', T.ones(1))
bad(m.register_buffer, 'd.e', T.ones(1))
bad(m.register_buffer, '', T.ones(1))
bad(m.register_buffer, 'z', 3)
bad(m.register_buffer, 3, T.ones(1))
bad(m.register_parameter, 'z', T.ones(1))
bad(m.register_parameter, 'forward', None)
bad(m.add_module, 'c', nn.ReLU())
bad(m.add_module, 'f.g', nn.ReLU())
bad(m.add_module, 'f', 3)
bad(m.register_module, '', nn.ReLU())
del m.c, m.d
say(list(m.state_dict()))
bad(delattr, m, 'nothing')
bad(getattr, m, 'nothing')
''',
    'names of the user': '''
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self._hooked, self._members, self._by_hand, self._region = True, {'x': 1}, [3], 'r'
        self._own, self._tree, self._list, self.function, self.options = 1, 2, 3, 4, 5
        self._take = self._load_tree = self._check_name = self._set_member = self._get_member = None
        self.l = nn.Linear(1, 1)
        self.w = nn.Parameter(T.ones(1))
    def _to_dtype(self, x): return 'mine'
    def _of_kind(self): return 'mine'
    def _call_hooked(self, *a): return 'mine'
    def _persistent_members(self): return 'mine'
    def forward(self, x): return x * self.w
m = M()
say(m(T.ones(1)), list(m.state_dict()), len(list(m.parameters())), m._members, m._by_hand, m._region)
m.load_state_dict(m.state_dict())
say(copy.deepcopy(m)._members, m.double().w, m._to_dtype(1))
''',
    'overridden __getattr__ and __getattribute__': '''
class A(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(1, 1)
        self.plain = 1
    def __getattr__(self, name):
        asked.append(name)
        try: return super().__getattr__(name)
        except AttributeError: return getattr(self.inner, name)
asked = []
a = A()
del asked[:]
say(a.in_features, a.plain, a.inner is a._modules['inner'], asked)
bad(lambda: a.nothing)
class B(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(T.ones(1))
    def __getattribute__(self, name):
        if name == 'secret': return 'told'
        return super().__getattribute__(name)
    def forward(self, x): return self.w * x
b = B()
say(b.secret, b.w, b(T.ones(1)))
bad(lambda: b.nothing)
class C(nn.Linear): pass
c = C(1, 1)
C.__getattr__ = lambda self, name: 'from class' if name == 'magic' else nn.Linear.__getattr__(self, name)
say(c.magic, tuple(c.weight.shape))
del C.__getattr__
bad(lambda: c.magic)
say(tuple(c.weight.shape))
class P(nn.Linear):
    @property
    def weight2(self): return self.missing
    @property
    def weight(self): return 'property'
bad(lambda: nn.Linear(1, 1).foo)
bad(lambda: P.__new__(P).weight2)
class Mixin:
    def __getattr__(self, name):
        if name.startswith('get_'): return lambda: name
        return super().__getattr__(name)
class D(Mixin, nn.Linear): pass
say(D(1, 1).get_this(), tuple(D(1, 1).weight.shape))
''',
    'calls': '''
class A(nn.Module):
    def forward(self, x, *more, scale=1, **rest): return x * scale, more, rest
a = A()
say(a(T.ones(1), 2, 3, scale=2, k=1), a(x=T.ones(1)))
say(a._call_impl(T.ones(1))[0], a._wrapped_call_impl(T.ones(1))[0], nn.Module.__call__(a, T.ones(1))[0])
a.forward = lambda x: x + 1
say(a(T.ones(1)))
del a.forward
a.forward = types.MethodType(lambda self, x: (self.training, x), a)
say(a(1))
class B(nn.Module):
    def _call_impl(self, *args, **kwargs): return 'impl', args
    def forward(self, x): return x
say(B()(1))
class C(nn.Linear):
    def __call__(self, *args): return 'called', super().__call__(*args)
say(filled(C(1, 1))(T.ones(1, 1)))
class D(nn.Module):
    forward = staticmethod(lambda x: ('static', x))
class E(nn.Module):
    @classmethod
    def forward(cls, x): return cls.__name__, x
say(D()(1), E()(1))
class N(nn.Module): pass
bad(N(), 1)
bad(nn.Linear(1, 1))
bad(lambda: nn.Linear(1, 1)(T.ones(1, 1), 2))
before = nn.Module.__call__
calls = []
def counted(self, *args, **kwargs):
    calls.append(type(self).__name__)
    return before(self, *args, **kwargs)
nn.Module.__call__ = counted
try: nn.Sequential(nn.Linear(1, 1), nn.ReLU())(T.ones(1, 1))
finally: nn.Module.__call__ = before
say(calls)
m = nn.ReLU()
m._compiled_call_impl = lambda *a: 'compiled'
say(m(1), copy.deepcopy(m)(T.ones(1)), '_compiled_call_impl' in m.__getstate__())
many = nn.Identity()
class Many(nn.Module):
    def forward(self, *args): return len(args)
say(Many()(*range(20)))
''',
    'global hooks': '''
M = nn.modules.module
seen = []
h = [M.register_module_forward_pre_hook(lambda m, x: seen.append(('pre', type(m).__name__))),
     M.register_module_forward_hook(lambda m, x, y: seen.append(('post', type(m).__name__)))]
net = filled(nn.Sequential(nn.Linear(1, 1), nn.ReLU()))
net(T.ones(1, 1))
say(seen, len(M._global_forward_hooks), len(M._global_forward_pre_hooks))
for each in h: each.remove()
del seen[:]
net(T.ones(1, 1))
say(seen, len(M._global_forward_hooks))
with M.register_module_forward_hook(lambda m, a, k, y: y + 1, with_kwargs=True):
    say(nn.Identity()(T.ones(1)))
say(nn.Identity()(T.ones(1)))
h = M.register_module_full_backward_hook(lambda m, gi, go: seen.append((type(m).__name__, go)))
p = M.register_module_full_backward_pre_hook(lambda m, go: seen.append(('pre', type(m).__name__)))
net(T.ones(1, 1, requires_grad=True)).sum().backward()
say(seen)
h.remove(); p.remove()
h = M.register_module_parameter_registration_hook(lambda m, name, p: seen.append((name, tuple(p.shape))))
b = M.register_module_buffer_registration_hook(lambda m, name, p: seen.append((name, None if p is None else tuple(p.shape))))
c = M.register_module_module_registration_hook(lambda m, name, p: seen.append((name, type(p).__name__)))
del seen[:]
nn.Sequential(nn.Linear(1, 2), nn.BatchNorm1d(2))
say(seen)
h.remove(); b.remove(); c.remove()
''',
    'setting attributes': '''
class Mixin:
    def __setattr__(self, name, value):
        seen.append(name)
        super().__setattr__(name, value)
class After(nn.Module, Mixin): pass
class Before(Mixin, nn.Module): pass
for cls in (After, Before):
    seen = []
    m = cls()
    del seen[:]
    m.plain, m.w, m.child = 1, nn.Parameter(T.ones(1)), nn.ReLU()
    m.training = False
    say([n for n in seen if not n.startswith('_')], list(m._parameters), list(m._modules), m.plain, m.training)
class Own(nn.Module):
    @property
    def half(self): return self.__dict__['h'] / 2
    @half.setter
    def half(self, v): self.__dict__['h'] = v * 2
    def __setattr__(self, name, value):
        if name == 'double': value = value * 2
        super().__setattr__(name, value)
    def __delattr__(self, name):
        if name == 'never': raise AttributeError('no')
        super().__delattr__(name)
o = Own()
o.half = 4; o.double = 3; o.never = 1; o.w = nn.Parameter(T.ones(1)); o.m = nn.ReLU()
say(o.half, o.double, sorted(k for k in vars(o) if not k.startswith('_')), list(o._parameters), list(o._modules))
bad(delattr, o, 'never')
del o.w, o.double, o.m
bad(lambda: o.w); bad(lambda: delattr(o, 'w'))
nn.Module.__setattr__(o, 'x', 5)
object.__setattr__(o, 'y', 6)
say(o.x, o.y)
class RO(nn.Module):
    @property
    def ro(self): return 1
bad(setattr, RO(), 'ro', 2)
t = RO(); t.t = T.ones(1); t.n = None; t.l = [nn.Parameter(T.ones(1))]
say(list(t.state_dict()), t.t, t.n)
t._private = 1; t._buffers['k'] = T.ones(1); t.k = None
say(t.k, t._buffers, list(t.state_dict()))
old = nn.Module.__setattr__
names = []
def patched(self, name, value): names.append(name); old(self, name, value)
nn.Module.__setattr__ = patched
try:
    z = nn.Module(); z.p = nn.Parameter(T.ones(1)); z.q = 1
finally: nn.Module.__setattr__ = old
say([n for n in names if n in 'pq'], list(z._parameters), z.q)
class NoInit(nn.Module):
    def __init__(self): self.before = 1; super().__init__(); self.after = 2
say(NoInit().before, NoInit().after)
''',
    'copies of tensors': '''
x = T.arange(3.).requires_grad_()
y = x * 2
bad(copy.deepcopy, y)
bad(copy.deepcopy, [y])
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.y = y
bad(copy.deepcopy, M())
with T.no_grad(): say(copy.deepcopy(x * 2).requires_grad)
x.sum().backward()
c = copy.deepcopy(x)
say(c, c.grad, c.grad is x.grad, c.requires_grad, c.is_leaf)
c.grad.zero_()
say(x.grad)
x.note = [1]
c = copy.deepcopy(x)
say(c.note, c.note is x.note)
p = nn.Parameter(T.ones(2))
p.note = 1
(p * 2).sum().backward()
c = copy.deepcopy(p)
say(type(c).__name__, c.grad, hasattr(c, 'note'), c.requires_grad)
b = nn.Buffer(T.ones(1), persistent=False)
c = copy.deepcopy(b)
say(isinstance(c, nn.Buffer), c.persistent)
z = T.zeros(2)
s = copy.copy(z)
s.add_(1)
say(z, s is z)
s = copy.copy(x)
say(s.requires_grad, s.is_leaf, s.grad)
bad(copy.copy, y)
l = [z, z]
m = copy.deepcopy(l)
say(m[0] is m[1], m[0] is z)
memo = {}
c = copy.deepcopy(z, memo)
say(memo[id(z)] is c, copy.deepcopy(z, memo) is c)
f = nn.Parameter(T.ones(1), requires_grad=False)
say(copy.deepcopy(f).requires_grad, copy.copy(f).requires_grad, type(copy.copy(f)).__name__)
say(type(pickle.loads(pickle.dumps(p))).__name__, pickle.loads(pickle.dumps(x)))
bad(pickle.dumps, y)
''',
}


@pytest.mark.parametrize('name', PROGRAMS)
@pytest.mark.filterwarnings('ignore')
def test_program(name):
    assert said(PROGRAMS[name], gt) == same_text(said(PROGRAMS[name], torch))


# What GT has beside PyTorch's names must not be in the way of a user's.
MODULES = sorted(name for name, value in vars(torch.nn).items() if isinstance(value, type) and issubclass(value, torch.nn.Module))


@pytest.mark.parametrize('name', MODULES)
def test_names_of_a_class(name):
    theirs, ours = dir(getattr(torch.nn, name)), dir(getattr(gt.nn, name))
    assert [extra for extra in ours if extra not in theirs and not extra.startswith(('_gt_', '__'))] == []


def test_names_of_optimisers():
    for name, theirs in vars(torch.optim).items():
        if isinstance(theirs, type) and issubclass(theirs, torch.optim.Optimizer):
            ours, known = dir(getattr(gt.optim, name)), {*dir(theirs), '_opt_called'}
            assert [extra for extra in ours if extra not in known and not extra.startswith(('_gt_', '__'))] == [], name


def first_rows():
    """One row of the table for each class."""
    return list({row[0]: row for row in reversed(rows())}.values())


@pytest.mark.parametrize('row', first_rows(), ids=lambda row: row[0])
@pytest.mark.filterwarnings('ignore')
def test_entries_of_dict(row):
    name, args, keywords, _ = row
    ours, theirs = (vars(getattr(library.nn, name)(*args, **keywords)) for library in (gt, torch))
    flat = {'_flat_weights', '_flat_weight_refs', '_flat_weights_names', '_all_weights'}  # of PyTorch's recurrent layers
    assert {entry for entry in ours if not entry.startswith('_gt_')} == set(theirs) - flat


def outer_calls(library, call):
    """The functions of nn.functional that a call of a module calls itself, in order."""
    functional, calls, depth = library.nn.functional, [], [0]

    def watched(name, function):
        def wrapper(*args, **keywords):
            if not depth[0]:
                calls.append(name)
            depth[0] += 1
            try:
                return function(*args, **keywords)
            finally:
                depth[0] -= 1
        return wrapper
    before = {}
    for name in dir(torch.nn.functional):
        function = getattr(functional, name, None)
        if not name.startswith('_') and 'torch_function' not in name and callable(function) and not isinstance(function, (
                type, types.ModuleType)):
            before[name] = function
            setattr(functional, name, watched(name, function))
    try:
        call()
    finally:
        for name, function in before.items():
            setattr(functional, name, function)
    return calls


# AdaptiveLogSoftmaxWithLoss calls its tails on the rows of their targets only; GT computes all rows.
WATCHED = [row for row in rows() if any(given is not None for given in row[3]) and row[0] not in (
    'AdaptiveLogSoftmaxWithLoss', 'RNNBase', 'SyncBatchNorm') and row[2].get('reduction', 'mean') == 'mean']


@pytest.mark.parametrize('row', WATCHED, ids=lambda row: row[0])
@pytest.mark.filterwarnings('ignore')
def test_modules_call_what_the_program_put_into_functional(row):
    name, args, keywords, inputs = row
    arrays = [given.array(k) for k, given in enumerate(inputs) if given is not None]
    calls = []
    for library in (torch, gt):
        module = getattr(library.nn, name)(*args, **keywords)
        tensors = [library.tensor(array) for array in arrays]
        calls.append(outer_calls(library, lambda: module(*tensors)))
    assert calls[0] == calls[1]


def test_replaced_functions_change_modules(monkeypatch):
    layer, x = gt.nn.Linear(2, 2), gt.ones(1, 2)
    monkeypatch.setattr(gt.nn.functional, 'linear', lambda input, weight, bias=None: 'linear')
    monkeypatch.setattr(gt.nn.functional, 'relu', lambda input, inplace=False: 'relu')
    monkeypatch.setattr(gt.nn.functional, 'cross_entropy', lambda *args, **keywords: 'loss')
    assert (layer(x), gt.nn.ReLU()(x), gt.nn.CrossEntropyLoss()(x, x)) == ('linear', 'relu', 'loss')
    monkeypatch.undo()
    assert layer(x).shape == (1, 2)
