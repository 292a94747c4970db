"""retain_grad() and hooks of tensors that are changed in place, against PyTorch: retain_grad() goes with the tensor, a hook stays
with the value that it was registered for."""

import gc

import pytest
import torch

import gt

PROLOGUE = """
w = n.tensor([1., 2, 3, 4], requires_grad=True)
y = w * 2
"""
LAST = "(y * n.tensor([1., 10, 100, 1000])).sum().backward(retain_graph=True)"


def numbers(gradient):
    return None if gradient is None else [round(float(e), 3) for e in gradient.flatten()]


def run(n, lines):
    """The gradients of all tensors, which of them are retained, and what the hooks were called with; or the error."""
    calls = []
    names = {"n": n, "times": lambda number: lambda gradient: gradient * number, "log": calls.append, "numbers": numbers,
             "hook": lambda name: lambda gradient: calls.append((name, numbers(gradient)))}
    try:
        exec(PROLOGUE + lines, names)
    except RuntimeError as error:
        return str(error)[:40], calls
    tensors = {name: t for name, t in names.items() if isinstance(t, n.Tensor)}
    return {name: (numbers(t.grad), t.retains_grad) for name, t in tensors.items()}, calls


PROGRAMS = [
    # the tensor itself
    f"y.retain_grad(); y.register_hook(hook('y')); y.mul_(3); {LAST}",
    f"y.retain_grad(); y.register_hook(hook('y')); y.mul_(3); y.register_hook(hook('y2')); {LAST}",
    f"y.retain_grad(); y.register_hook(hook('y')); y.copy_(w * 5); {LAST}",
    f"y.retain_grad(); y.register_hook(hook('y')); y.zero_(); {LAST}",
    "y.retain_grad(); y.register_hook(hook('y')); y.unsqueeze_(0); y.sum().backward()",
    "y.register_hook(times(2)); y.retain_grad(); y.add_(1); y.register_hook(times(3)); y.sum().backward()",
    "x = n.ones(4); x.add_(w); x.retain_grad(); x.register_hook(hook('x')); x.mul_(w); x.sum().backward()",
    f"y.retain_grad(); y.register_hook(hook('y'))\nwith n.no_grad(): y.mul_(3)\n{LAST}",
    "h = y.register_hook(hook('y')); y.mul_(2); h.remove(); y.sum().backward()",
    "y.retain_grad(); y.sum().backward(retain_graph=True); y.add_(3); log(numbers(y.grad)); y.sum().backward()",
    "y.retain_grad(); y.sum().backward(retain_graph=True); y.grad.zero_(); y.mul_(3); y.sum().backward()",
    # a base, written through a view
    f"y.retain_grad(); y.register_hook(hook('y')); y[1:3].mul_(3); {LAST}",
    f"y.retain_grad(); v = y[1:3]; y.register_hook(hook('y')); v.mul_(3); {LAST}",
    # a view, whose base is written
    f"v = y[1:3]; v.retain_grad(); v.register_hook(hook('v')); y.mul_(3); {LAST}",
    f"v = y[1:3]; v.retain_grad(); v.register_hook(hook('v')); y.mul_(3); (v * v).sum().backward(retain_graph=True); {LAST}",
    f"v = y[1:3]; v.retain_grad(); v.register_hook(hook('v')); z = v * 5; y.mul_(3); z.sum().backward(retain_graph=True); {LAST}",
    f"v = y[1:3]; v.retain_grad(); v.register_hook(hook('v')); z = v * 5; y.mul_(3); v.grad_fn; z.sum().backward(retain_graph=True); {LAST}",
    f"v = y[1:3]; v.retain_grad(); v.register_hook(hook('v')); z = v * 5; y.mul_(3); (z.sum() + (v * 7).sum()).backward(retain_graph=True); {LAST}",
    f"v = y[1:3]; v.retain_grad(); v.register_hook(hook('v')); y[0].mul_(3); (v * v).sum().backward(retain_graph=True); {LAST}",
    f"v = y[1:3]; v.retain_grad(); v.register_hook(hook('v'))\nwith n.no_grad(): y.mul_(3)\n(v * v).sum().backward(retain_graph=True); {LAST}",
    f"v = y[1:3]; y.mul_(3); v.retain_grad(); v.register_hook(hook('v')); (v * v).sum().backward(retain_graph=True); {LAST}",
    "v = y[1:]; v.sum().backward(inputs=[v], retain_graph=True); y.mul_(2); log(numbers(v.grad)); v.sum().backward(inputs=[v])",
    # a view that is written itself
    f"v = y[1:3]; v.retain_grad(); v.register_hook(hook('v')); v.mul_(3); {LAST}",
    f"v = y[1:3]; v.retain_grad(); v.register_hook(hook('v')); z = v * 5; v.mul_(3); z.sum().backward(retain_graph=True); {LAST}",
    f"v = y[1:3]; v.retain_grad(); v.register_hook(hook('v')); v.mul_(3); (v * v).sum().backward(retain_graph=True); {LAST}",
    f"v = y[1:3]; v.retain_grad(); v.mul_(3); v.register_hook(hook('v')); (v * v).sum().backward(retain_graph=True); {LAST}",
    f"v = y[1:3]; v.register_hook(hook('v')); v += w[:2]; {LAST}",
    f"v = y[1:3]; v.register_hook(hook('v')); v.clamp_(3, 5); {LAST}",
    f"v = y[1:3]; v.register_hook(hook('v')); v[0] = 7; {LAST}",
    f"v = y[1:3]; v.register_hook(hook('v')); v.masked_scatter_(v > 0, w[2:]); {LAST}",
    "g = n.autograd.grad; v = y[1:3]; v.register_hook(hook('v')); v.mul_(v * 2); log(numbers(g((y * y).sum(), [w], retain_graph=True)[0]))",
    # a refused operation changes nothing
    f"v = y[1:3]; v.register_hook(hook('v'))\ntry: v.add_(y[2:])\nexcept RuntimeError: log('refused')\n(v * v).sum().backward(retain_graph=True); {LAST}",
    f"v = y[1:3]; v.register_hook(hook('v'))\ntry: v.add_(y[2:])\nexcept RuntimeError: log('refused')\nz = v * 5; v.mul_(3); z.sum().backward(retain_graph=True); {LAST}",
    f"v = y[1:3].as_strided((3,), (1,), 0)\ntry: v.add_(y[1:])\nexcept RuntimeError: log('refused')\n(v * v).sum().backward(retain_graph=True); {LAST}",
    f"v = y[1:3].as_strided((3,), (1,), 0); z = v * 5; v.mul_(2); z.sum().backward(retain_graph=True); {LAST}",
    # a view of a view belongs to the base after a write
    f"v = y[1:]; u = v[1:]; u.retain_grad(); v.retain_grad(); u.register_hook(hook('u')); v.register_hook(hook('v')); y.mul_(3); (u * u).sum().backward(retain_graph=True); {LAST}",
    f"v = y[1:]; u = v[1:]; y.mul_(3); v.retain_grad(); v.register_hook(hook('v')); (u * u).sum().backward(retain_graph=True); {LAST}",
    f"v = y[1:]; u = v[1:]; v.retain_grad(); v.register_hook(hook('v')); v.mul_(3); (u * u).sum().backward(retain_graph=True); {LAST}",
    f"v = y[1:]; u = v[1:]; v.retain_grad(); v.register_hook(hook('v')); u.mul_(3); (v * v).sum().backward(retain_graph=True); {LAST}",
    f"v = y[1:]; v.retain_grad(); u = v[1:]; (u * u).sum().backward(retain_graph=True); {LAST}",
    # a retained gradient is a new tensor after each pass, that of a leaf is not
    "y.retain_grad(); y.sum().backward(retain_graph=True); a = y.grad; (y * y).sum().backward(); log((a is y.grad, numbers(a)))",
    "w.sum().backward(); a = w.grad; (w * w).sum().backward(); log((a is w.grad, numbers(a)))",
    "y.sum().backward(inputs=[y], retain_graph=True); a = y.grad; y.sum().backward(retain_graph=True); log((numbers(a), y.retains_grad))",
]


@pytest.mark.parametrize("lines", PROGRAMS, ids=lambda text: text.replace("\n", "; ")[:100])
def test_gradients_and_hooks_of_tensors_changed_in_place(lines):
    assert run(gt, lines) == run(torch, lines)


def test_nothing_stays_on_the_tape():
    gc.collect()
    before = len(gt._gt._tape())
    for lines in PROGRAMS:
        run(gt, lines)
    gc.collect()
    assert len(gt._gt._tape()) == before
