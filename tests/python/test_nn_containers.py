"""Containers and members of modules: the same program in GT and in PyTorch gives the same names, text and errors."""

import copy
import pickle
from collections import OrderedDict

import pytest
import torch

import gt
from gt import nn

PROGRAMS = {
    'sequential': '''
s = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 3))
say(len(s), s[0], s[-1], s[1:], [type(m).__name__ for m in s])
s.append(nn.Tanh()).insert(1, nn.Sigmoid())
say(s)
s.insert(-1, nn.GELU())
del s[0]
del s[1:3]
say(s, s.pop(-1), s)
t = s + nn.Sequential(nn.Linear(3, 3))
t += nn.Sequential(nn.ReLU())
say(t, t * 2, 2 * nn.Sequential(nn.ReLU()))
t *= 2
t[0] = nn.Softsign()
t.extend(nn.Sequential(nn.ReLU(), nn.ReLU()))
say(t, list(t.state_dict()))
n = nn.Sequential(OrderedDict([('a', nn.Linear(1, 1)), ('b', nn.ReLU())]))
say(n, n.a, n[0], n[:1], list(n._modules), 'a' in n._modules)
n.add_module('c', nn.Tanh())
del n[0]
say(n)
''',
    'modulelist': '''
l = nn.ModuleList([nn.Linear(1, 1) for _ in range(3)])
say(l, len(l), l[1:], l[-1])
l.append(nn.ReLU())
l.insert(0, nn.Tanh())
l.extend([nn.ReLU(), nn.ReLU()])
l += [nn.GELU()]
say(l, l + [nn.Tanh()], l.pop(0), l)
del l[1]
del l[::2]
l[0] = nn.Softplus()
say(l, [type(m).__name__ for m in l], list(dict(l.named_children())))
say(nn.ModuleList(), nn.ModuleList([nn.ModuleList([nn.ReLU()])]), nn.Linear in [type(m) for m in l.modules()])
''',
    'moduledict': '''
d = nn.ModuleDict({'b': nn.Linear(1, 1), 'a': nn.ReLU()})
say(d, list(d), list(d.keys()), 'a' in d, len(d))
d['c'] = nn.Tanh()
d.update([['e', nn.GELU()], ('d', nn.GELU())])
say(d, [k for k, v in d.items()], [type(v).__name__ for v in d.values()], d.pop('b'), d)
del d['a']
d.update(nn.ModuleDict({'z': nn.ReLU()}))
say(d)
d.clear()
say(d, len(d))
''',
    'parameterlist': '''
p = nn.ParameterList([nn.Parameter(T.ones(2, 3)), T.zeros(4)])
say(p, len(p), [tuple(x.shape) for x in p], isinstance(p[1], nn.Parameter))
p.append(T.ones(1)).extend([T.ones(2), 'text'])
p += [T.ones(5)]
p[0] = T.ones(7)
say(p, list(p.state_dict()), p[1:3], p[-1].shape == (5,))
''',
    'parameterdict': '''
d = nn.ParameterDict({'b': T.ones(2), 'a': nn.Parameter(T.ones(3))})
say(d, list(d), 'a' in d, len(d), list(d.state_dict()))
d['c'] = T.ones(1)
d.update(nn.ParameterDict({'z': T.ones(1)}))
d.update(OrderedDict([('y', T.ones(1)), ('x', T.ones(1))]))
say(list(d), d.get('nothing'), d.setdefault('s', T.ones(4)).shape == (4,), list(reversed(d)))
say(d.pop('c').shape == (1,), d.popitem()[0], list(d))
say(list(d | nn.ParameterDict({'q': T.ones(1)})), list(d.copy()), list(d.fromkeys(['k', 'j'], T.ones(1))))
d |= nn.ParameterDict({'r': T.ones(1)})
say(list(d.keys()), [tuple(v.shape) for v in d.values()], [k for k, v in d.items()])
d.clear()
say(len(d))
''',
    'members': '''
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.nothing = None
        self.w = nn.Parameter(T.ones(2))
        self.nothing = nn.Parameter(T.ones(1))
        self.register_parameter('later', None)
        self.register_buffer('kept', T.zeros(2))
        self.register_buffer('dropped', T.zeros(1), persistent=False)
        self.register_buffer('empty', None)
        self.block = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        self.same = self.block[0]
        self.plain = T.ones(3)
        self.missing = None
n = Net()
say(n, [k for k, _ in n.named_parameters()], [k for k, _ in n.named_buffers()], list(n.state_dict()))
n.later = nn.Parameter(T.ones(1))
n.empty = T.ones(4)
n.missing = nn.ReLU()
say([k for k, _ in n.named_parameters()], list(n.state_dict()), [k for k, _ in n.named_modules()], [k for k, _ in n.named_children()])
say([k for k, _ in n.named_parameters(prefix='x', recurse=False)], [k for k, _ in n.named_modules(prefix='x', remove_duplicate=False)],
    [k for k, _ in n.named_parameters(remove_duplicate=False)], [k for k, _ in n.named_buffers('p', True, False)])
say(list(n._parameters), list(n._buffers), list(n._modules), n._non_persistent_buffers_set)
n.w = None
del n.block
say(list(n.state_dict()), 'w' in n._parameters, n.w is None, hasattr(n, 'block'))
n._modules['block'] = nn.ReLU()
n._parameters['q'] = nn.Parameter(T.ones(1))
n._buffers.pop('kept')
say(n, list(n.state_dict()), n.q.shape == (1,), hasattr(n, 'kept'))
n.register_buffer('dropped', T.ones(2))
n.buf = nn.Buffer(T.ones(1), persistent=False)
n.buf2 = nn.Buffer(T.ones(1))
say(list(n.state_dict()), list(n.state_dict(prefix='a.')), [k for k, _ in n.named_buffers()])
n.set_submodule('block', nn.Tanh())
n.register_module('m', nn.Tanh())
say(n, n.get_submodule('') is n, type(n.get_submodule('m')).__name__, n.get_parameter('q').shape == (1,))
n.dropped = n.plain
say('dropped' in n._buffers, n.state_dict()['dropped'].shape == (3,))
''',
    'applied': '''
n = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2)))
seen = []
n.apply(lambda m: seen.append(type(m).__name__))
say(seen, n.training, n.eval()[1][0].training, n.train().training)
n.double()
say([str(p.dtype).split('.')[1] for p in n.parameters()], [str(b.dtype).split('.')[1] for b in n.buffers()])
n.to(T.float32).half().bfloat16().float()
say([str(b.dtype).split('.')[1] for b in n.buffers()], n.to('cpu') is n, n.to(dtype=T.float64)[0].weight.dtype == T.float64)
n.requires_grad_(False)
say([p.requires_grad for p in n.parameters()])
n.float().requires_grad_()
n(T.ones(3, 2)).sum().backward()
say(n[0].weight.grad is not None)
n.zero_grad(set_to_none=False)
say(n[0].weight.grad.abs().sum().item())
n.zero_grad()
say(n[0].weight.grad is None, n.to_empty(device='cpu')[0].weight.shape == (2, 2))
''',
    'states': '''
class Extra(nn.Linear):
    def get_extra_state(self):
        return {'x': 1}
    def set_extra_state(self, state):
        say(state)
a = nn.Sequential(nn.Linear(2, 2), Extra(2, 2))
state = a.state_dict()
say(list(state), list(state._metadata.items()))
say(repr(a.load_state_dict(state)))
state.pop('0.bias')
state['more'] = T.ones(1)
found = a.load_state_dict(state, strict=False)
say(found.missing_keys, found.unexpected_keys, found)
calls = []
a.register_state_dict_pre_hook(lambda m, prefix, keep: calls.append(('pre', prefix, keep)))
a.register_state_dict_post_hook(lambda m, state, prefix, meta: calls.append(('post', len(state), prefix)))
a.register_load_state_dict_pre_hook(lambda m, state, prefix, *rest: calls.append(('load', prefix, len(state))))
a.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
a._register_state_dict_hook(lambda m, state, prefix, meta: OrderedDict((k, v) for k, v in state.items() if 'bias' not in k))
s = a.state_dict()
say(list(s), calls)
say(a.load_state_dict(s, strict=True), calls)
b = nn.Linear(2, 2)
old = b.weight
b.load_state_dict({'weight': T.ones(2, 2).double(), 'bias': T.zeros(2)}, assign=True)
say(b.weight is old, b.weight.dtype == T.float64, isinstance(b.weight, nn.Parameter), b.weight.requires_grad)
bn = nn.BatchNorm1d(2)
state = dict(bn.state_dict())
state.pop('num_batches_tracked')
say(bn.load_state_dict(state))
''',
    'old state': '''
w = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
w.load_state_dict({'bias': T.zeros(3), 'weight_g': T.ones(3, 1), 'weight_v': T.ones(3, 2)})
say(list(w.state_dict()), w)
''',
    'lazy': '''
m = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d())
say(m, m[0].weight, [k for k, _ in m.named_parameters()], m[0].has_uninitialized_params(), nn.parameter.is_lazy(m[0].weight))
m(T.ones(4, 5))
say(m, list(m.state_dict()))
l = nn.LazyLinear(3)
l.load_state_dict(nn.Linear(2, 3).state_dict())
say(l.weight.shape == (3, 2), l(T.ones(1, 2)).shape == (1, 3), l)
''',
}


def said(program, library):
    lines = []

    def say(*values):
        lines.append(' | '.join(repr(value) for value in values))
    exec(program, {'nn': library.nn, 'T': library, 'say': say, 'OrderedDict': OrderedDict})
    return '\n'.join(lines)


@pytest.mark.parametrize('name', PROGRAMS)
@pytest.mark.filterwarnings('ignore')
def test_program(name):
    expected = said(PROGRAMS[name], torch).replace('torch.', 'gt.').replace('gt.cuda.', 'gt.')
    assert said(PROGRAMS[name], gt) == expected


def test_members_before_init():
    class Wrong(nn.Module):
        def __init__(self, value):
            self.value = value

    with pytest.raises(AttributeError, match='cannot assign parameters before Module.__init__'):
        Wrong(nn.Parameter(gt.ones(1)))
    with pytest.raises(AttributeError, match='cannot assign module before Module.__init__'):
        Wrong(nn.ReLU())


def test_getattr_of_a_wrapper():
    """Wrappers forward unknown names to the module inside, through super().__getattr__."""
    class Wrapper(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.inner, name)

    wrapper = Wrapper(nn.Linear(3, 4))
    assert wrapper.in_features == 3 and wrapper.weight.shape == (4, 3) and list(wrapper.state_dict()) == ['inner.weight', 'inner.bias']


def test_copies_and_pickles():
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    net.append(net[0].__class__(3, 2))
    for again in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert list(again.state_dict()) == list(net.state_dict()) and repr(again) == repr(net)
        again[0].weight.data = gt.zeros(3, 2)
        assert net[0].weight.abs().sum().item() > 0
    tied = nn.ModuleList([nn.Linear(2, 2)])
    tied.append(tied[0])
    again = copy.deepcopy(tied)
    assert again[0] is again[1] and again[0].weight is again[1].weight and len(again.parameters()) == 2


def test_hooks_of_copies():
    """A copied module has hooks of its own, and bound methods that are hooks belong to the copy."""
    class Renaming(nn.Linear):
        def __init__(self, *args):
            super().__init__(*args)
            self._register_load_state_dict_pre_hook(self.renamed)
            self.called = 0

        def renamed(self, state_dict, prefix, *rest):
            self.called += 1
            if prefix + 'old' in state_dict:
                state_dict[prefix + 'weight'] = state_dict.pop(prefix + 'old')

    layer = Renaming(2, 2)
    again = copy.deepcopy(layer)
    again.load_state_dict({'old': gt.ones(2, 2), 'bias': gt.ones(2)})
    assert (layer.called, again.called) == (0, 1) and again.weight.sum().item() == 4
    lazy = nn.LazyLinear(3)
    other = copy.deepcopy(lazy)
    assert other(gt.ones(1, 4)).shape == (1, 3) and lazy.has_uninitialized_params()
    assert type(other) is nn.Linear and lazy(gt.ones(1, 2)).shape == (1, 3) and other(gt.ones(1, 4)).shape == (1, 3)


def test_registration_hooks():
    from gt.nn.modules import module as m
    seen = []
    handles = [m.register_module_buffer_registration_hook(lambda owner, name, value: seen.append(('buffer', name))),
               m.register_module_module_registration_hook(lambda owner, name, value: seen.append(('module', name))),
               m.register_module_parameter_registration_hook(lambda owner, name, value: seen.append(('parameter', name)))]
    net = nn.Sequential(nn.Linear(1, 1))
    net.register_buffer('b', gt.ones(1))
    for handle in handles:
        handle.remove()
    nn.Linear(1, 1)
    assert seen == [('parameter', 'weight'), ('parameter', 'bias'), ('module', '0'), ('buffer', 'b')]
