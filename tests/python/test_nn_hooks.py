"""Hooks of modules, forward and backward: the same calls, in the same order, with the same gradients as in PyTorch."""

import warnings

import pytest
import torch

import gt
from gt import nn
from nn_support import numbers

PROGRAMS = {
    'forward': '''
m = nn.Linear(2, 2)
h = [m.register_forward_pre_hook(lambda m, a: say('pre 1')), m.register_forward_pre_hook(lambda m, a: (a[0] * 2,), prepend=True),
     m.register_forward_pre_hook(lambda m, a, k: say('pre kw', sorted(k)) , with_kwargs=True),
     m.register_forward_hook(lambda m, a, o: say('post 1', a, o)), m.register_forward_hook(lambda m, a, o: o + 1, prepend=True),
     m.register_forward_hook(lambda m, a, k, o: say('post kw', sorted(k), o), with_kwargs=True)]
say(m(X), m(input=X) if False else None)
h[1].remove()
with h[3]:
    say(m(X))
for handle in h:
    handle.remove()
say(m(X))
''',
    'kwargs': '''
class M(nn.Module):
    def forward(self, x, scale=1.0):
        return x * scale
m = M()
m.register_forward_pre_hook(lambda m, a, k: (a, {'scale': k['scale'] + 1}), with_kwargs=True)
m.register_forward_hook(lambda m, a, k, o: say(sorted(k.items())), with_kwargs=True)
say(m(X, scale=2.0))
n = M()
n.register_forward_pre_hook(lambda m, a: a[0] + 1)
say(n(X))
''',
    'always': '''
class M(nn.Module):
    def forward(self, x):
        raise KeyError('x')
m = M()
m.register_forward_hook(lambda m, a, o: say('not this'))
m.register_forward_hook(lambda m, a, o: say('always', o), always_call=True)
try:
    m(X)
except KeyError as e:
    say(repr(e))
''',
    'bad pre-hook': '''
m = nn.ReLU()
m.register_forward_pre_hook(lambda m, a, k: 3, with_kwargs=True)
try:
    m(X)
except RuntimeError as e:
    say(str(e))
''',
    'backward': '''
m = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
load(m)
for k, layer in enumerate(m):
    layer.register_full_backward_hook(lambda l, gi, go, k=k: say('layer', k, gi, go))
m.register_full_backward_hook(lambda l, gi, go: say('all', gi, go))
m(X).sum().backward()
say(X.grad, m[0].weight.grad)
''',
    'backward changes': '''
m = nn.Linear(2, 3)
load(m)
m.register_full_backward_pre_hook(lambda l, go: (go[0] * 10,))
m.register_full_backward_pre_hook(lambda l, go: say('first', go), prepend=True)
m.register_full_backward_hook(lambda l, gi, go: say('seen', gi, go))
m.register_full_backward_hook(lambda l, gi, go: (gi[0] + 1,))
(m(X) * X.sum(1, keepdim=True)).sum().backward()
say(X.grad, m.weight.grad, m.bias.grad)
''',
    'several': '''
class M(nn.Module):
    def forward(self, a, text, b):
        return a * b, text, a + 1
m = M()
m.register_full_backward_hook(lambda l, gi, go: say(gi, go))
y = m(X, 'words', X * 3)
(y[0] * 2 + y[2]).sum().backward()
say(y[1], X.grad)
''',
    'without inputs': '''
m = nn.Linear(2, 3)
load(m)
m.register_full_backward_hook(lambda l, gi, go: say(gi, go))
m(X.detach()).sum().backward()
say(m.weight.grad)
''',
    'without grad': '''
m = nn.Linear(2, 3)
load(m)
m.register_full_backward_hook(lambda l, gi, go: say('never'))
with T.no_grad():
    say(m(X).requires_grad)
''',
    'both kinds': '''
m = nn.Linear(2, 3)
m.register_full_backward_hook(lambda l, gi, go: None)
try:
    m.register_backward_hook(lambda l, gi, go: None)
except RuntimeError as e:
    say(str(e))
''',
    'wrong number': '''
m = nn.Linear(2, 3)
load(m)
m.register_full_backward_hook(lambda l, gi, go: (gi[0], gi[0]))
try:
    m(X).sum().backward()
except RuntimeError as e:
    say(str(e))
''',
    'gradcam': '''
m = nn.Sequential(nn.Conv1d(1, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(2, 2))
load(m)
kept = {}
m[0].register_forward_hook(lambda l, i, o: kept.update(a=o.detach()))
m[0].register_full_backward_hook(lambda l, gi, go: kept.update(g=go[0].detach()))
m(X.unsqueeze(1))[:, 0].sum().backward()
say(kept['a'], kept['g'])
''',
    'every module': '''
from {T}.nn.modules import module as M
h = [M.register_module_forward_pre_hook(lambda m, a: say('pre', type(m).__name__)),
     M.register_module_forward_hook(lambda m, a, o: say('post', type(m).__name__)),
     M.register_module_full_backward_pre_hook(lambda m, go: say('bpre', type(m).__name__, go)),
     M.register_module_full_backward_hook(lambda m, gi, go: say('back', type(m).__name__, gi))]
m = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
load(m)
m(X).sum().backward()
for handle in h:
    handle.remove()
m(X)
say('end')
''',
}


def shown(value):
    if isinstance(value, (tuple, list)):
        return type(value)(map(shown, value))
    if isinstance(value, (gt.Tensor, torch.Tensor)):
        return [round(float(x), 4) + 0.0 for x in value.detach().numpy().reshape(-1)]
    return value


def said(program, library):
    lines = []

    def say(*values):
        lines.append(repr(shown(list(values))))

    def load(module):
        module.load_state_dict({name: library.tensor(numbers(*value.shape, seed=len(name)))
                                for name, value in module.state_dict().items()})
    x = library.tensor(numbers(3, 2), requires_grad=True)
    torch.manual_seed(0)
    names = {'nn': library.nn, 'T': library, 'X': x, 'say': say, 'load': load}
    if 'Linear(2, 2)' in program:
        original = library.nn.Linear
        made = original(2, 2)
        load(made)
        program = program.replace('nn.Linear(2, 2)', 'made')
        names['made'] = made
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        exec(program.replace('{T}', library.__name__), names)
    return lines


@pytest.mark.parametrize('name', PROGRAMS)
def test_program(name):
    assert said(PROGRAMS[name], gt) == said(PROGRAMS[name], torch)


def test_a_call_without_hooks_is_forward_alone():
    """Removing the last hook of a module takes it back to the plain call, in effect."""
    layer = nn.ReLU()
    handle = layer.register_forward_hook(lambda module, args, output: output * 0)
    assert layer(gt.ones(2)).sum().item() == 0
    handle.remove()
    assert layer(gt.ones(2)).sum().item() == 2 and not layer._forward_hooks
