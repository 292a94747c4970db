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
    # an operation that failed leaves nothing to the writes after it
    *(f"v = y[1:3]; v.register_hook(hook('v'))\ntry: v.{failing}\nexcept RuntimeError: log('failed')\nz = v * 5; {write}; (z.sum() + y.sum()).backward()"
      for failing in ("add_(n.ones(7))", "clamp_(n.ones(7))", "masked_fill_(n.ones(7) > 0, 1.)")
      for write in ("v.zero_()", "v[:] = 3", "v[...] = 3", "v.fill_(3)", "v.normal_()", "v.mul_(3)", "v.copy_(z)", "v[:] = z",
                    "v[n.tensor([1, 0])] = z", "v[0] = z[1]", "v += z")),
    # the tensor that is changed is an argument, too: its gradient as an argument flows through its own node
    *(f"v = y[1:3]; v.retain_grad(); v.register_hook(hook('v')); {write}; {LAST}"
      for write in ("v.add_(v)", "v += v", "v.add_(other=v)", "v.add_(v, alpha=3)", "v.sub_(v, alpha=3)", "v.addcmul_(v, n.ones(2))",
                    "v.addcmul_(n.ones(2), tensor2=v)", "v.addcdiv_(v, n.ones(2) * 2)", "v.lerp_(v, 0.25)", "v.lerp_(end=v, weight=0.25)",
                    "v.square_()", "v.mul_(v)", "v.mul_(other=v)", "v.mul_(v.clone())", "v.copysign_(v)")),
    f"v = y.as_strided((2,), (2,), 1); v.register_hook(hook('v')); v.add_(v); {LAST}",
    f"v = y[1:]; u = v[1:]; v.register_hook(hook('v')); u.register_hook(hook('u')); u.add_(u); {LAST}",
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


# retain_grad(), then another shape: the gradient is that of the tensor before.
BACKWARD = "(y * 2).sum().backward(retain_graph=True); log(seen(y))"
SHAPES = [
    *(f"y.retain_grad(); {first}; {change}; log(seen(y)); {BACKWARD}; {BACKWARD}; y.grad = None; {BACKWARD}"
      for first in ("pass", BACKWARD)
      for change in ("y.t_()", "y.unsqueeze_(0)", "y.unsqueeze_(2)", "y.squeeze_()", "y.squeeze_(0)", "y.transpose_(0, 1)",
                     "y.swapaxes_(0, 1)", "y.t_(); y.unsqueeze_(0)", "y.t_(); y.retain_grad()")),
    f"y.t_(); y.retain_grad(); {BACKWARD}; {BACKWARD}",
    f"y.t_(); y.retain_grad(); y.mul_(2); {BACKWARD}",
    f"y.t_(); y.retain_grad(); y.t_(); {BACKWARD}; {BACKWARD}",
    f"y.t_(); y.retain_grad(); y.t_(); y.unsqueeze_(1); {BACKWARD}",
    "y.retain_grad(); z = y * 3; y.t_(); (z.sum() + (y * 2).sum()).backward(); log(seen(y))",
    "y.retain_grad(); v = y[0]; y.t_(); (v * 2).sum().backward(); log(seen(y))",
    f"y.retain_grad(); y.t_(); y.register_hook(hook); {BACKWARD}",
    "y.retain_grad(); y.t_(); log(tuple(n.autograd.grad((y * 2).sum(), y)[0].shape)); log(seen(y))",
    f"y.retain_grad(); y.unsqueeze_(0); y.detach().mul_(2); {BACKWARD}",
    f"y.retain_grad(); y.unsqueeze_(0)\nwith n.no_grad(): y.mul_(2)\n{BACKWARD}",
    "(y * 2).sum().backward(inputs=[y], retain_graph=True); y.t_(); log(seen(y)); (y * 2).sum().backward(inputs=[y]); log(seen(y))",
    f"base = y; y = y[0:1]; y.retain_grad(); {BACKWARD}; y.t_(); log(seen(y)); {BACKWARD}",
    f"base = y; y = y[0:1]; y.retain_grad(); {BACKWARD}; y.unsqueeze_(0); y.unsqueeze_(0); {BACKWARD}",
]


def shapes(n, rows, lines):
    """What a program logs of the gradient of y, a computed matrix, and at its end of the leaf below it."""
    calls = []

    def seen(t):
        return t.retains_grad, tuple(t.shape), None if t.grad is None else (tuple(t.grad.shape), t.grad.tolist())
    x = n.ones(rows, 3, requires_grad=True)
    exec(lines, {"n": n, "y": x * 1, "log": calls.append, "seen": seen, "hook": lambda g: calls.append(tuple(g.shape))})
    return calls, seen(x)


@pytest.mark.parametrize("lines", SHAPES, ids=lambda text: text.replace("\n", "; ")[:100])
def test_retain_grad_stays_with_the_shape_before(lines):
    for rows in (1, 2):
        assert shapes(gt, rows, lines) == shapes(torch, rows, lines)


def test_nothing_stays_on_the_tape():
    gc.collect()
    before = len(gt._gt._tape())
    for lines in PROGRAMS:
        run(gt, lines)
    for lines in SHAPES:
        shapes(gt, 2, lines)
    gc.collect()
    assert len(gt._gt._tape()) == before
