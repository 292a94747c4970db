"""Views and in-place operations where PyTorch's rules are least expected. Each program runs in both libraries: what it leaves in
`r` must agree, or the error that it raises. Random programs are in alias_programs.py, the idioms of users in test_aliasing.py."""

import gc
import warnings

import numpy as np
import pytest
import torch

import gt

PROLOGUE = """
x = (n.arange(12.) / 4 + 1).reshape(3, 4).clone()
w = ((n.arange(12.) / 8 + 0.5).reshape(3, 4)).clone().requires_grad_()
y = w * 2
"""


def product(n):
    class Product(n.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            return g * b, g * a
    return Product


def plain(value):
    """What can be compared: tensors as lists of numbers."""
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (gt.Tensor, torch.Tensor)):
        return [list(value.shape), value.detach().clone().resolve_conj().numpy()]
    return value


def outcome(n, lines):
    """The value of r, or the beginning of the error."""
    names = {"n": n, "Product": product(n)}
    exec(PROLOGUE, names)
    try:
        exec(lines, names)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        kind = next(k for k in (RuntimeError, ValueError, TypeError, IndexError) if isinstance(error, k))
        text = str(error).replace("torch.", "gt.")
        return kind.__name__, (text.split(":")[0] if "modified by an inplace" in text else text[:60])
    return plain(names.get("r"))


def same(ours, theirs):
    if isinstance(theirs, np.ndarray):
        return isinstance(ours, np.ndarray) and np.allclose(ours, theirs, rtol=1e-5, atol=1e-6, equal_nan=True)
    if isinstance(theirs, (list, tuple)):
        return len(ours) == len(theirs) and all(same(a, b) for a, b in zip(ours, theirs))
    return ours == theirs


def check(lines):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = outcome(gt, lines), outcome(torch, lines)
    assert same(ours, theirs), f"{lines}\nGT: {ours}\ntorch: {theirs}"


ALL = []


def programs(*texts):
    ALL.extend(texts)
    return pytest.mark.parametrize("lines", texts, ids=lambda text: text.replace("\n", "; ")[:90])


@programs(
    "v = y.unbind()[1]\ny.copy_(y)\nr = v * 2",
    "v = y[1:]\ny.copy_(y)\nv.sum().backward()\nr = w.grad",
    "z = y * y\ny.copy_(y)\nz.sum().backward()",
    "y.copy_(y)\ny.sum().backward()\nr = [w.grad, y._version]",
    "v = y[1:]\nv.copy_(v)\ny.sum().backward()\nr = [w.grad, y._version]",
    "w.copy_(w)",
    "x.add_(w).sigmoid_()\nv = x[1:]\nv.copy_(v)\nx.sum().backward()",
    "v = w.view_as(w)\nw.requires_grad_(False)\nw.copy_(v)\nr = [w.requires_grad, w.is_leaf]",
    "v = x[:]\nv.requires_grad_()\nx.copy_(v)\nr = [x.requires_grad, x.is_leaf]",
    "v = y.unbind()[1]\nwith n.no_grad(): v.add_(1)\ny[1].copy_(v)",
)
def test_a_copy_to_itself(lines):
    check(lines)


# PyTorch takes a view whose base was recorded since for a leaf, until something has asked for its grad_fn.
@programs(
    "v = x[1:]\nx.mul_(w)\nv.clamp_(-1, 1)",
    "v = x[1:]\nx.mul_(w)\nv.sin_()",
    "v = x[1:]\nx.mul_(w)\nv += w[0]",
    "v = x.expand_as(x)\nx.mul_(w)\nv.add_(1)",
    "v = x[1:]\nx.mul_(w)\nwith n.no_grad(): u = v * 2\nv.add_(1)",
    "v = x[1:]\nx.mul_(w)\nv.is_leaf\nv.add_(1)\nx.sum().backward()\nr = [w.grad, x]",
    "v = x[1:]\nx.mul_(w)\nu = v * 2\nv.add_(1)\n(x * x).sum().backward()\nr = [w.grad, x]",
    "v = x[1:]\nx.mul_(w)\nv[0] = 3\nv.add_(1)\n(x * x).sum().backward()\nr = [w.grad, x]",
    "v = x[1:]\nx.mul_(w)\nv.requires_grad_()\nr = v.is_leaf",
    "v = x[1:]\nx.mul_(w)\nwith n.no_grad(): v.add_(1)\nx.sum().backward()\nr = [w.grad, x]",
)
def test_views_taken_before_their_base_was_recorded(lines):
    check(lines)


@programs(
    "with n.no_grad(): v = y.unsqueeze(0)\nv.requires_grad_()\n(v * v).sum().backward()\nr = [v.grad, w.grad]",
    "with n.no_grad(): v = y.unsqueeze(0)\nv.requires_grad_().requires_grad_()\nv[0, 1].sum().backward()\nr = v.grad",
    "v = x[:]\nv.requires_grad_()\na = v.chunk(2)[0]\nx[0, 0] = 1\nr = a.is_leaf",
    "v = x[:]\nv.requires_grad_()\na = v.chunk(2)[0]\nx[0, 0] = 1\nwith n.no_grad(): a.sum()\nr = a * 2",
    "with n.no_grad(): v = y[1:]\nv[:, ...] = 0.5",
    "with n.no_grad(): v = y[1:]\nv[:, 1] = 0.5",
    "with n.no_grad(): v = w[:, 1:]\nwith n.no_grad(): v.detach()[0] = 1\nr = v.view(2, 2, 2)",
    "v = y.chunk(2)[0]\nv.detach()[0] = 2\nw.sub_(v)",
    "y[:, :] = w\ny.sum().backward()\ny.sum().backward()\nr = w.grad",
)
def test_views_with_a_state_of_their_own(lines):
    check(lines)


@programs(
    "y[1:].mul_(3)\nl = (y * y).sum()\nl.backward(retain_graph=True)\nl.backward()\nr = w.grad",
    "y = w + 2\ny[1:] = 3\nl = y.sum()\nl.backward()\nl.backward()",
    "y = w + 2\ny[1:].add_(3)\nl = y.sum()\nl.backward()\nl.backward()",
    "y = w + 2\ny.view(-1).add_(3)\nl = y.sum()\nl.backward()\nl.backward()",
    "y = w + 2\ny.diagonal().add_(3)\nl = y.sum()\nl.backward()\nl.backward()",
    "y = w + 2\ny.add_(3)\nl = y.sum()\nl.backward()\nl.backward()\nr = w.grad",
    "y = w + 2\nv = y[1:]\nv.add_(3)\nl = v.sum()\nl.backward(retain_graph=True)\n(y * y).sum().backward()\nl.backward()",
    "y[1:].sin_()\ng, = n.autograd.grad(y.sum(), w, create_graph=True)\ng.sum().backward()\nr = w.grad",
    "v = y[1:]\nv.mul_(v.clone())\nv.exp_()\ng, = n.autograd.grad(y.sum(), w, create_graph=True)\n"
    "h, = n.autograd.grad((g * g).sum(), w, create_graph=True)\nr = [h, n.autograd.grad(h.sum(), w)]",
    "y.t()[1].mul_(w[:, 0])\ng, = n.autograd.grad((y * y).sum(), w, create_graph=True)\n(g * g).sum().backward()\nr = w.grad",
)
def test_passes_through_a_view_that_was_written_to(lines):
    check(lines)


# median() saves its operand and its result, also where the operand has no history to lead to.
@programs(
    "m = y.median()\nm.add_(1)\nm.sum().backward()",
    "m = y.median()\ny.add_(1)\nm.sum().backward()",
    "with n.no_grad(): v = y[1]\nm = v.median()\nm.sigmoid_()\nm.sum().backward()",
    "with n.no_grad(): v = y[1:]\nm = v.median()\ny.add_(1)\ntry: m.backward()\nexcept RuntimeError: r = 'raised'",
    "with n.no_grad(): v = y[1:]\nm = v.nanmedian()\ny.detach().add_(1)\ntry: m.backward()\nexcept RuntimeError: r = 'raised'",
    "m = y[:, :0].median()\ny.add_(1)\nm.sum().backward()",
    "m = y[:, 1:].median()\nm.backward()\nr = [w.grad, m, m.grad_fn.name(), y.max().grad_fn.name()]",
    "y.data[0] = y.data[1]\nm = y.nanmedian()\nm.backward()\nr = [w.grad, m, m.grad_fn.name()]",
    "m = y.median()\ny.data.add_(1)\nm.backward()\nr = [w.grad, m]",
)
def test_a_median_saves_what_pytorch_saves(lines):
    check(lines)


# A write through .data is not noticed by the graph, whose saved values share the memory.
@programs(
    "z = w * x\nw.data.mul_(2)\nx.requires_grad_()\nz = w * x\nw.data.mul_(2)\nw.data.add_(1)\nz.sum().backward()\nr = [x.grad, w.grad]",
    "x.requires_grad_()\nz = y * x\ny.data[1].fill_(7)\nz.sum().backward()\nr = [x.grad, w.grad]",
    "z = y.exp()\nz.data.mul_(2)\nz.data[0] = 1\nz.sum().backward()\nr = w.grad",
    "z = y.tanh()\nq = z * z\nz.data.fill_(0.5)\nq.sum().backward()\nr = w.grad",
    "z = y[1] * y[0]\ny.data.mul_(3)\nz.sum().backward()\nr = w.grad",
    "z = y.t() @ y\nd = y.data\ndel y\nd.zero_()\nz.sum().backward()\nr = w.grad",
    "z = y[1:] ** 3\nfor _ in range(3): y.data[1] *= 2\nz.sum().backward()\nr = w.grad",
    "d = y.data\nz = w * d\nd.add_(1)\nz.sum().backward()",
    "d = y.data\nz = w * d\nwith n.no_grad(): y.add_(1)\nz.sum().backward()\nr = w.grad",
    "z = y * w\ny.data.add_(1)\ny.add_(1)\nz.sum().backward()",
    "u = x.clone().requires_grad_()\nz = w * u\nu.data = u.data + 5\nz.sum().backward()\nr = w.grad",
    "u = x.clone()\nz = w * u\nu.data = x\nx.mul_(2)\nz.sum().backward()\nr = w.grad",
    "u = y * 1\nz = w * u\nu.data = x\nz.sum().backward()\nr = w.grad",
    "z = (y * w).sum()\nh = w.register_hook(lambda g: (w.data.add_(g), None)[1])\nz.backward()\nh.remove()\nr = [w, w.grad]",
    "z = y.sigmoid()\nz.data[:, 1:].zero_()\ng, = n.autograd.grad(z.sum(), w, create_graph=True)\n(g * g).sum().backward()\nr = w.grad",
    "z = w * x\nv = w.data.view(-1)\nv[3:5] = 9\nx.data.t()[1] = 4\nz.sum().backward()\nr = w.grad",
)
def test_writes_through_data_before_the_backward_pass(lines):
    check(lines)


def test_saved_views_do_not_stay():
    x = gt.ones(100, 3)
    w = gt.ones(3, requires_grad=True)
    for _ in range(5):
        for k in range(100):
            (x[k] * w).sum().backward()
    x.data.mul_(2)
    (x[0] * w).sum().backward()
    assert w.grad.tolist() == [502.0] * 3


@programs(
    "with n.no_grad(): v = y.chunk(2)[0]\nz = v * v\ny.detach().zero_()\nz.sum().backward()\nr = [w.grad, z.requires_grad]",
    "with n.no_grad(): v = y[0]\nr = n.autograd.grad((v * 2).sum(), v)",
    "v = x[1:]\nx.mul_(w)\nv.masked_fill_(v > 1, 0)",
    "v = x[1:]\nx.mul_(w)\nv.index_fill_(0, n.tensor([0]), 2)",
    "v = x[1:]\nx.mul_(w)\nv.scatter_(0, n.tensor([[0]]), 2.)",
    "with n.no_grad(): v = y[0:0, 0]\ny.detach().add_(1)\nr = v.unfold(0, 1, 2)",
    "with n.no_grad(): v = y[0]\ny.detach().add_(1)\nr = v.expand(3, 3)",
)
def test_the_order_of_checks(lines):
    check(lines)


@programs(
    "with n.no_grad(): v = y[:]\nz = v.sigmoid()\nz.detach().fill_(0.5)\nz.sum().backward()",
    "with n.no_grad(): v = y[:]\nz = v.sigmoid()\nz.sum().backward()\nz.sum().backward()",
    "y[-1].tanh_()\ny.data.mul_(2)\n(y * 3).sum().backward()\nr = w.grad",
    "y.view(-1)[2:5].exp_()\ny.data.t()[1] = 9\ny[0, 0] = 1\ny.sum().backward()\nr = w.grad",
    "v = y.t()\nv.sigmoid_()\nv.data[0] = 2\ny.sum().backward()\nr = w.grad",
)
def test_results_that_the_graph_has_saved(lines):
    check(lines)


@programs(
    "z = n.tensor([1 + 2j, 3 - 1j])\nq = z.real\nz.real.mul_(2)\nz.imag[0] = 9\nr = [n.view_as_real(z), q, q.stride()]",
    "z = n.tensor([[1 + 2j, 3 - 1j]])\nn.view_as_real(z)[0, 1] = n.tensor([5., 6.])\nz.t().imag.add_(1)\nr = n.view_as_real(z)",
    "c = n.view_as_complex(x.view(3, 2, 2))\nc[1] *= 1j\nx[0] = 5\nr = [x, n.view_as_real(c), c.stride()]",
    "c = n.view_as_complex(x.view(3, 2, 2))\nc.imag[:, 1] = 8\nc.t().real[0].zero_()\nr = x",
    "z = n.tensor([1 + 2j, 3 - 1j]).requires_grad_()\ny = z * 2\ny.real.mul_(3)\nn.view_as_real(y).sum().backward()\nr = n.view_as_real(z.grad)",
    "z = n.tensor([1 + 2j, 3 - 1j]).requires_grad_()\ny = z * z\ny[0].mul_(2j)\nn.view_as_real(y).sum().backward()\nr = n.view_as_real(z.grad)",
    "c = n.view_as_complex(y.view(3, 2, 2))\nc.mul_(2j)\n(y * y).sum().backward()\nr = w.grad",
    "z = n.tensor([1 + 2j, 3 - 1j]).requires_grad_()\nz.real.add_(1)",
    "z = n.tensor([1 + 2j, 3 - 1j])\nz.real = n.tensor([7., 8.])\nz.imag = 4\nr = n.view_as_real(z)",
    "r = n.view_as_complex(x[:, :3])", "r = n.view_as_complex(x.t()[:2].t())", "r = n.view_as_complex(x[:, 1:3])", "r = n.view_as_complex(x[0, 0])",
    "r = n.view_as_real(x)", "x.real.add_(1)\nr = x",
)
def test_parts_of_complex_numbers_are_views(lines):
    check(lines)


@programs(
    "v = w[0]\nw.requires_grad_(False)\nw.add_(1)\n(v * v).sum().backward()\nr = [w.grad, v.requires_grad]",
    "with n.no_grad(): v = y[0]\nv.requires_grad_(False)\nr = [v.requires_grad, v.is_leaf]",
    "v = y.chunk(2)[0]\nwith n.no_grad(): y[0, 0] = 1\nv.requires_grad_(False)",
    "with n.no_grad(): v = y[0]\nv.requires_grad_()\nu = v[1:]\nv.requires_grad_(False)\nr = [v.requires_grad, u.requires_grad]",
    "v = x[0]\nx.data = n.ones(3, 4)\nx.mul_(2)\nv.add_(1)\nr = [v, x, x._version]",
    "y.view(-1).sigmoid_()\ny.data = n.ones(3, 4)\ny[0].zero_()\n(y * 2).sum().backward()",
    "with n.no_grad(): v = w[1, 0:0]\nv[0:-1] = -1", "with n.no_grad(): v = w[1, 0:0]\nv[:] = -1",
    "o = n.zeros(2)\nn.exp(x, out=o)\nr = o", "o = n.zeros(4, 3)\nn.exp(x, out=o.t())\nr = o", "o = n.zeros(3, 4)\nn.exp(x, out=o.data)\nr = [o, o._version]",
    "n.exp(x, out=y)", "v = x[0].expand(3, 4)\nn.add(v, 1, out=v)", "x[:2].copy_(x[1:])", "q = x[:, :3].clone()\nq.copy_(q.t())\nr = q",
    "v = x[0].expand(3, 4)\nv.scatter_(0, n.tensor([[0]]), 5.)", "v = x[0].expand(3, 4)\nv.index_add_(0, n.tensor([0]), n.ones(1, 4))",
)
def test_leaves_outputs_and_overlaps(lines):
    check(lines)


# A leaf keeps its place in graphs, and its gradient, while it requires none.
@programs(
    "y.sum().backward()\ny = w.sin()\nw.requires_grad_(False)\nr = w.grad",
    "w.requires_grad_(False)\ny.sum().backward()\nr = w.grad",
    "y.sum().backward(retain_graph=True)\nw.requires_grad_(False)\ny.sum().backward()\nr = w.grad",
    "w.requires_grad_(False)\nw.requires_grad_()\ny.sum().backward()\nr = w.grad",
    "v = w[1:]\n(v * 2).sum().backward()\nw.requires_grad_(False)\n(v * 3).sum().backward()\nr = [w.grad, v.requires_grad]",
    "seen = []\nw.register_hook(seen.append)\nw.requires_grad_(False)\nw.requires_grad_()\n(w * 2).sum().backward()\nr = seen",
    "w.requires_grad_(False)\nw.add_((x * 2).requires_grad_() * 1)\ny.sum().backward()",
    "with n.no_grad(): v = w[1:]\nwith n.no_grad(): v += 1\nv * 2\nw.requires_grad_(False)\nr = (v * 2).requires_grad",
    "with n.no_grad(): v = w[1:].t()\nv + 1\nw.requires_grad_(False)\nr = (v + 1).requires_grad",
)
def test_leaves_that_require_no_gradient_for_now(lines):
    check(lines)


# A view that was made a leaf is one no more when its base gets a history.
@programs(
    "v = x[1:].requires_grad_()\nu = v * 2\nx.mul_(w)\nu.sum().backward()",
    "v = x[1:].requires_grad_()\nu = v * 2\nx.mul_(w)\nv.is_leaf\nu.sum().backward()",
    "v = x.split(2)[0].requires_grad_()\nx[:2].add_(v)\nx.sum().backward()",
    "v = x[1:].requires_grad_()\nu = v * 2\nwith n.no_grad(): x.add_(1)\nu.sum().backward()\nr = v.grad",
    "v = x[1:].requires_grad_()\nu = v.sin()\nx.add_(1)\nv.requires_grad_(False)\nr = v.requires_grad",
    "v = x[1:].requires_grad_()\nu = v.view(-1)\nx.relu_()\nu.sum().backward()\nr = v.grad",
    "v = x[1:].requires_grad_()\nu = v.view(-1)\nu.sum().backward()\nx.relu_()\n(u * 2).sum().backward()\nr = v.grad",
)
def test_views_that_were_leaves(lines):
    check(lines)


# The views of a tensor that changes its shape in place are still its views.
@programs(
    "v = x[0]\nx.unsqueeze_(0)\nx.requires_grad_()\nr = [v.requires_grad, x.is_leaf, v.is_leaf]",
    "v = x[0]\nx.t_()\nx.requires_grad_()\nv.add_(1)",
    "v = x[0]\nx.t_()\nx.requires_grad_()\nx.add_(1)",
    "x.unsqueeze_(0)\nx.requires_grad_()\nwith n.no_grad(): v = x[0]\n(v * 2).sum().backward()\nr = [v.requires_grad, x.grad]",
    "v = x[0]\nx.t_().unsqueeze_(1)\nx.requires_grad_()\n(x * x).sum().backward()\nr = x.grad",
    "v = x[0]\nx.t_().unsqueeze_(1)\nx.requires_grad_()\nwith n.no_grad(): v.mul_(2)\n(x[1] * v[0]).sum().backward()\nr = [x.grad, v.is_leaf]",
    "v = x[0]\nx.unsqueeze_(0)\nx.requires_grad_()\nx.requires_grad_(False)\nv.add_(1)\nr = [v.requires_grad, x]",
    "v = x.unbind(0)[0]\nx.unsqueeze_(0).zero_()\nx.requires_grad_()\nv.view(-1)",
    "v = y[0]\ny.unsqueeze_(0)\ny.mul_(2)\n(y * y).sum().backward()\nr = [w.grad, v.is_leaf]",
    "with n.no_grad(): v = x[0]\nv.unsqueeze_(0)\nx.requires_grad_()\nr = v.is_leaf",
    "v = x.unbind()[0]\nv.unsqueeze_(0)\nx.requires_grad_()\nv.add_(1)",
    "v = y.split(2)[0]\nv.unsqueeze_(0)\nv.add_(1)",
    "x.unsqueeze_(0).requires_grad_()\n(x * 2).sum().backward()\nx.detach_()\nr = [x.requires_grad, x.is_leaf]",
)
def test_shapes_changed_in_place(lines):
    check(lines)


@programs(
    "r = [x._base is None, x[0]._base is x, x.view(-1)[1:]._base is x, x._is_view(), x.t()._is_view()]",
    "r = [x.detach()._base is None, x.data._base is None, (x + 1)._base is None, x.reshape(3, 4).contiguous()._base is x]",
    "d = x.detach()\nv = d[0]\nr = [v._base is d, v._base is x, v.detach()._base is None]",
    "with n.no_grad(): v = w[0]\nr = [v._base is w, w.unbind()[0]._base is w, w.expand(2, 3, 4)._base is w]",
    "v = n.ones(3)[1:]\nr = [v._base.shape, v._base is v._base]\nv._base.add_(1)\nr += [v]",
    "v = y[0]\ndel y\nv._base.mul_(2)\nv.sum().backward()\nr = [w.grad, v]",
    "v = x[0]\nx.unsqueeze_(0)\nr = [v._base is x, x._base is None, x._is_view()]",
)
def test_the_base_of_a_view(lines):
    check(lines)


@programs(
    "v = x.t()\nx.sub_(w)\ntry:\n    x.mul_(v[:, :3])\nexcept RuntimeError: pass\nv.mul_(2)\nr = x",
    "q = n.ones(4, 4)\nv = q.t()\nq.sub_(w[0])\ntry:\n    q.mul_(v)\nexcept RuntimeError: pass\nv.mul_(2)\nr = q",
    "v = n.ones(1).unfold(0, 1, 3)\nr = v.stride()",
    "with n.no_grad(): v = y[0]\ny.exp_()\ntry:\n    x.add_(v)\nexcept RuntimeError: pass\nv.requires_grad_(False)\nr = v",
    "q = n.ones(1)\nq.unfold(0, 1, 3).copy_(q.unsqueeze(0))",
    # distances that no number of bytes can say
    "r = n.ones(4).as_strided((3,), (2**63 - 1,))",
    "r = n.ones(4).as_strided((2, 3), (2**62, 2**62))",
    "r = n.ones(4).as_strided((2,), (1,), 2**63 - 1)",
    "r = n.ones(4).as_strided((1,), (2**62,))[::4].stride()",
)
def test_refused_operations_and_strides(lines):
    check(lines)


# A function that GT composes of others may end with a view. Its result is none.
@programs(*(f"with n.no_grad(): v = {call}\nr = [v._base is None, v.stride()]\nv.mul_(w.sum())\nr += [v, x]" for call in (
    "x.max(0).values", "x.min(1)[0]", "x.median(1).values", "x.kthvalue(2, 0, True).values", "x.mode(0).values", "x.quantile(0.3, 0)",
    "x[0].diag_embed()", "x.diag()", "x.diag(1)", "x.rot90()", "x.sum_to_size(1, 4)", "x.masked_scatter(x > 2, x)", "n.kron(x, x)",
    "x.unique()", "x.put(n.tensor([1]), n.tensor([5.]))", "n.combinations(x[0], 1)",
    "x.diagonal_scatter(n.ones(3))", "n.nn.functional.pixel_shuffle(x.view(1, 1, 3, 4), 1)")))
def test_results_are_no_views(lines):
    check(lines)


@programs(
    "i = n.zeros(0, 9, dtype=n.int64)\nv = y.gather(0, i)\nv.sum().backward()\nr = [v, w.grad]",
    "i = n.zeros(5, 0, 2, dtype=n.int64)\nv = y.gather(0, i)\nv.sum().backward()\nr = [v, w.grad]",
    "r = y[:, :0].max(0).values.requires_grad",
)
def test_results_without_elements_are_recorded(lines):
    check(lines)


# Expanded tensors: each place is written once, or more.
@programs(*(f"r = [{call}, x]" for call in (
    "x.expand(2, 3, 4).triu_()", "x[:1].expand(3, 4).triu_()", "x[:1].expand(3, 4).tril_()", "x[:, :1].expand(3, 4).triu_(1)",
    "x.expand(2, 3, 4).tril_(-1)", "n.ones(1).expand(3, 3).triu_()", "x[:1].expand(3, 4).fill_diagonal_(5)",
    "x[:, :1].expand(3, 4).fill_diagonal_(5)", "x.as_strided((3, 3), (1, 1)).fill_diagonal_(2)",
    "n.zeros(3).expand(3, 3).fill_diagonal_(3, wrap=True)", "n.ones(7, 2).t().fill_diagonal_(3, True)",
    "n.zeros(8, 3).fill_diagonal_(3, True)", "n.zeros(3, 8).t().fill_diagonal_(3, True)", "n.zeros(3, 3, 3).fill_diagonal_(1)",
    "x.t().fill_diagonal_(7)")),
    "y.fill_diagonal_(5)\n(y * y).sum().backward()\nr = w.grad",
    "v = w[0] * 2\nv.expand(4, 4).fill_diagonal_(5)\nv.sum().backward()\nr = [w.grad, v]",
    "w.fill_diagonal_(5)",
)
def test_triangles_and_diagonals_in_place(lines):
    check(lines)


# After x.data = y writes to the memory that x had still count for x, if x.detach() has it.
@programs(
    "d = w.detach()\nw.data = x.clone()\nd.mul_(2)\n(w * w).sum().backward()\nr = [w.grad, w._version]",
    "d = w.detach()\nw.data = x.clone()\nz = w * w\nd.mul_(2)\nz.sum().backward()",
    "d = w.detach()\nw.data = x.clone()\nz = w * w\nd.mul_(2)\n(w * w).sum().backward()\nr = w.grad\nz.sum().backward()",
    "w.data = x.clone()\n(w * w).sum().backward()\nr = [w.grad, w._version]",
)
def test_writes_to_the_memory_before(lines):
    check(lines)


# Of a recorded write through x.data: the value that the graph has saved does not lead back to the graph.
@programs(
    "z = y.sin()\nd = y.data\nd.add_(z)\nz.sum().backward()\nr = [w.grad, d.requires_grad]",
    "z = y.sin()\nd = y.data\nd.add_(z)\nr = [y, d.requires_grad]",
)
def test_recorded_writes_through_data(lines):
    check(lines)


@programs(*(f"x = n.tensor({values}).requires_grad_()\nm = x.{name}()\n{write}\n(m * 3).backward()\nr = x.grad"
            for name in ("max", "min", "median", "nanmedian", "amax")
            for values in ("[1., 3., 3., 2.]", "[1., float('nan'), float('nan'), 2.]", "[3., 3., 1.]")
            for write in ("x.data.mul_(2).add_(0.25)", "x.data[0] = 3", "")))
def test_gradients_of_the_extreme_of_all_elements(lines):
    check(lines)


# What a Function saves is the tensor as it was: its later history may lead to the Function.
@programs(
    "p = Product.apply(y, y)\ny.add_(p)\nr = y",
    "p = Product.apply(y, y)\ny.add_(p)\np.sum().backward()",
    "p = Product.apply(w, x)\nx.add_(p)\nr = x",
    "p = Product.apply(w, x)\nx.add_(p)\nx.sum().backward()",
    "p = Product.apply(y, y)\ny.data.add_(1)\np.sum().backward()\nr = w.grad",
    "p = Product.apply(y, y[1:2])\ny[1].mul_(p[0])\nr = y",
    "v = y[1:2]\np = Product.apply(y, v)\ndel v, y\np.sum().backward()\nr = w.grad",
    "p = Product.apply(y, x)\ndel y, x\ng, = n.autograd.grad(p.sum(), w, create_graph=True)\nr = [g, g.requires_grad]",
    "p = Product.apply(y, y)\ndel y\ng, = n.autograd.grad(p.sum(), w, create_graph=True)\ng.sum().backward()\nr = [g, w.grad]",
    "class Kept(Product):\n    @staticmethod\n    def backward(ctx, g):\n        kept.extend(t is o for t, o in zip(ctx.saved_tensors, (y, x)))\n        return g, None\nkept = []\nKept.apply(y, x).sum().backward()\nr = kept",
)
def test_tensors_that_a_function_saves(lines):
    check(lines)


# The gradient of as_strided() is that of its operand: elements of the memory that the operand has not get none.
@programs(
    "v = y.view(-1)[5:9]\nu = v.as_strided((2, 2), (1, 2), 0)\n(u * u).sum().backward()\nr = [u, w.grad]",
    "v = y.view(-1)[5:9]\nu = v.as_strided((2, 2), (1, 2), 3)\n(u * u).sum().backward()\nr = [u, w.grad]",
    "v = y.view(-1)[5:9]\nu = v.as_strided((2, 2), (1, 2), 3)\nu.mul_(2)\n(y * y).sum().backward()\nr = [u, y, w.grad]",
    "v = y.view(-1)[5:9]\nu = v.as_strided((2, 2), (1, 2), 3)\ny.mul_(2)\n(u * u).sum().backward()\nr = [u, w.grad]",
    "q = x[:, 1:3].detach().requires_grad_()\nu = q.as_strided((2, 3), (1, 4), 0)\n(u * u).sum().backward()\nr = [u, q.grad]",
    "q = x[:, 1:3].detach().requires_grad_()\nu = q.as_strided((2, 3), (1, 4), 0)\nwith n.no_grad(): u.mul_(3)\n"
    "(u * u).sum().backward()\nr = [u, q.grad, x]",
    "q = x[1:].detach().requires_grad_()\nu = q.as_strided((3,), (2,))\nu.sum().backward()\nr = [u, q.grad, u.storage_offset()]",
    "u = y.unfold(1, 2, 1).as_strided((2, 2), (1, 3), 1)\n(u * u).sum().backward()\nr = [u, w.grad]",
    "u = y.as_strided((13,), (1,))",
)
def test_gradients_of_strided_views(lines):
    check(lines)


@programs(
    "z = n.complex(x, -x).requires_grad_()\nu = n.view_as_real(z).as_strided((3, 2), (2, 3), 1)\n(u * u).sum().backward()\nr = [u, z.grad]",
    "z = n.complex(x, -x).requires_grad_()\nu = z.real.as_strided((3,), (3,), 0)\n(u * u).sum().backward()\nr = [u, z.grad]",
    "z = n.complex(x, -x)\nv = z.imag\nu = v.as_strided((3,), (3,), 0)\nu.fill_(7)\nr = [u, z, v]",
    "z = n.complex(w, -w)\nu = z.real.as_strided((3,), (3,), 0)\nu.mul_(3)\nz.abs().sum().backward()\nr = [u, z, w.grad]",
    "z = n.complex(x, -x).t().clone()\nu = n.view_as_real(z).as_strided((3,), (3,), 0)\nu.fill_(7)\nr = [u, z]",
    "z = n.complex(x, -x).t().clone()\nz.imag.fill_(2)\nz.real[1:] = 5\nr = z",
    "z = n.complex(x, -x)\nq = z[1:].detach().requires_grad_()\np = q * 1\np.real.mul_(w[1:])\np.abs().sum().backward()\nr = [p, q.grad, w.grad]",
    "c = n.view_as_complex(y.view(6, 2))\nu = c.as_strided((2, 2), (1, 3), 1)\nn.view_as_real(u).square().sum().backward()\nr = [u, w.grad]",
    "z = n.complex(x, -x)\nz.real.as_strided((25,), (1,))",
)
def test_strided_views_of_the_parts_of_complex_numbers(lines):
    check(lines)


@programs(
    *(f"v = {base}[:, :1].expand(3, 3)\nv.{name}_()\nr = [v, {base}, v.requires_grad]" for base in ("x", "y", "w") for name in ("triu", "tril")),
    "w.set_(x)", "w[1:].set_(x)", "y.unbind()[1].set_(x)", "x.set_(y.detach()[1:])\nx.add_(1)\nr = [x, y]",
)
def test_other_writes_that_pytorch_allows_or_refuses(lines):
    check(lines)


@programs(
    "w.sum().backward()\nw.detach_()\nr = [w.grad, w.requires_grad]",
    "w.sum().backward()\nw.detach_()\nw.requires_grad_()\n(w * w).sum().backward()\nr = w.grad",
    "y.detach_()\ny.add_(1)\nr = [y, y.requires_grad]",
    "v = y[1:]\ny.detach_()\nv.sum().backward()\nr = [w.grad, v.requires_grad, y.requires_grad]",
    "w.detach_()\nw.detach_()\nr = [w.grad, w.requires_grad]",
    "w.sum().backward()\nw.detach_()\nw.t_()\nr = w.grad",
    "w.sum().backward()\nw.requires_grad_(False)\nw.set_(x)\nr = w.grad",
    "w.sum().backward()\nw.requires_grad_(False)\nw.data = x\nr = [w, w.grad]",
)
def test_detach_in_place(lines):
    check(lines)


@programs(
    "p = n.nn.Parameter(x)\nv = list(p)[1]\nwith n.no_grad(): p.add_(1)\nr = v * 2",
    "p = n.nn.Parameter(x)\nfor row in p.data: row.mul_(2)\nr = [p, type(list(p)[0]) is n.Tensor, list(n.nn.Parameter(n.zeros(0, 2)))]",
    "a, b, c = n.nn.Parameter(x)\n(a * b).sum().backward()\nr = [a, c, a.is_leaf]",
)
def test_iteration_over_parameters(lines):
    check(lines)


@programs(
    "v = y[:]\ny.relu_()\ny.masked_scatter_(y > 0, x + 0)\ny.sum().backward()",
    "y.relu_()\nv = y[:]\nwith n.no_grad(): y.masked_scatter_(y > 0, x + 0)\nv.sum().backward()",
    "v = y[:]\ny.tanh_()\ntry: y.masked_scatter_(y > 0, x[0])\nexcept RuntimeError: pass\ny.add_(1)\ny.sum().backward()",
    "x.add_(w, alpha=2)\n(x * 1).sum().backward()\n(x * 1).sum().backward()\nr = w.grad",
    "z = x.sub(w, alpha=2)\nz.sum().backward()\nz.sum().backward()\nr = w.grad",
    "z = n.rsub(w, x, alpha=3)\nz.sum().backward()\nz.sum().backward()\nr = w.grad",
    "x.lerp_(w, 0.25)\nx.sum().backward()\nx.sum().backward()\nr = w.grad",
    "z = n.lerp(x, w, x)\nz.sum().backward()\nz.sum().backward()",
    "z = n.addmm(w, x[:, :3], x, beta=2)\nz.sum().backward()\nz.sum().backward()\nr = w.grad",
    "z = w * 2\nz.sum().backward()\nz.sum().backward()",
)
def test_what_an_operation_saves(lines):
    check(lines)


@programs(
    "z = w * x\nx.set_(x + 1)\nz.sum().backward()",
    "z = w * x\nx.detach().set_(n.ones(2))\nz.sum().backward()",
    "z = w * x\nx.data.set_(n.ones(2))\nz.sum().backward()\nr = w.grad",
    "z = w * x\nx.resize_(3, 4)\nz.sum().backward()\nr = [w.grad, x._version]",
    "z = w * x\nx.resize_(2, 4)\nz.sum().backward()",
    "z = w * x\nx[0].resize_(2)\nz.sum().backward()",
    "z = w * x\nn.add(n.ones(2), 1, out=x)\nz.sum().backward()",
    "v, d, c = x[1], x.data, x.t()\nx.resize_(2, 2).add_(9)\nr = [x, v, d, c, x.stride(), x._version]",
    "v, d, c = x[1], x.data, x.t()\nv.resize_(2, 3).add_(9)\nr = [x, v, d, c, v.storage_offset(), x._version]",
    "v, c = x[1], x.t()\nc.resize_(2, 6).add_(9)\nr = [x, v, c, c.stride(), x._version]",
    "v = x[1]\nx.resize_(0)\nx.resize_(3).add_(9)\nr = [x, v]",
    "v = x[1]\nn.add(n.ones(2), 1, out=x)\nr = [x, v, x._version]",
    "v = x[1]\nn.add(n.ones(2, 2), 1, out=v)\nr = [x, v, x._version, v.storage_offset()]",
    "v = x[1].detach()\nn.add(n.ones(2, dtype=n.float64), 1, out=v)\nr = [x, v, x._version]",
)
def test_other_memory_and_other_sizes(lines):
    check(lines)


@programs(*(
    text.replace("CALL", call) for call in ("unsafe_chunk(2, 1)", "unsafe_split(2, 1)", "unsafe_split_with_sizes([1, 3], 1)") for text in (
        "a, b = x.CALL\na.add_(5)\nr = [x, a, b, a._base is None, a._version, x._version, b._version, a.is_leaf, a._is_view()]",
        "a, b = y.CALL\na.mul_(5)\n(a.sum() + b.sum()).backward(retain_graph=True)\nr = [w.grad + 0]\ny.sum().backward()\nr += [y, a, w.grad, a.is_leaf]",
        "a, b = y.CALL\nz = y * y\na.mul_(5)\nz.sum().backward()\nr = w.grad",
        "a, b = y.CALL\nz = a * a\ny.mul_(5)\nz.sum().backward()\nr = w.grad",
        "a, b = w.CALL\na.mul_(5)\na.sum().backward()\nr = [w, w.grad]",
        "with n.no_grad(): a, b = w.CALL\na.mul_(5)\nr = [w, a.requires_grad]",
        "with n.no_grad(): a, b = y.CALL\na.mul_(w[:, :1])\nr = [y, a.requires_grad]",
        "a, b = y.CALL\ny.mul_(3)\na.sum().backward()\nr = [a, b, w.grad]",
        "a, b = y.CALL\na = a[:1]\na.mul_(3)\na.sum().backward()\nr = [a, y, w.grad]",
        "a, b = y.CALL\nr = [a.grad_fn is not None, list(a.stride()), b.storage_offset()]",
    )))
def test_parts_that_autograd_takes_for_copies(lines):
    check(lines)


# Indices, masks and classes that are changed before the backward pass.
@programs(*(f"i, c, m, mm = n.tensor([0, 2]), n.tensor([1, 3, 0]), n.tensor([True, False, True]), w > 1\ng = c.expand(4, 3).t().contiguous()\n{text}.zero_()\n"
            "z.sum().backward()\nr = w.grad" for text in (
    "z = y[i]\ni", "z = y[i, i]\ni", "z = y[:, i]\ni", "z = y[i, 0]\ni", "z = y[i][:]\ni", "z = y[i, None]\ni", "z = y[i[1]]\ni", "z = y[m]\nm",
    "z = y[mm]\nmm", "z = y[[0, 1]]\ni", "z = y.flatten()[c]\nc",
    "z = y\nz[i] = 0.\ni", "z = y\nz[i] = x[:2]\ni", "z = y\nz[m] = 0.\nm", "z = y\nz[m] = x[:1]\nm", "z = y\nz[i] += x[:2]\ni",
    "z = y.flatten()\nz[c] = 1.\nc", "z = y[:, 1]\nz[i] = 1.\ni", "with n.no_grad(): y[i] = 0.\nz = y\ni",
    "z = y.index_put((i,), x[:2])\ni", "z = y.index_put((i,), x[:2], accumulate=True)\ni", "z = x.index_put((i,), y[:2])\ni",
    "z = n.zeros(5).index_put((c,), y[:, 0], accumulate=True)\nc", "z = y[0].index_put((c,), x[:, 0], accumulate=True)\nc",
    "z = y.gather(1, g)\ng", "z = y.scatter(1, g, x)\ng", "z = y.scatter(1, g, 2.)\ng", "z = y.scatter_add(1, g, x)\ng",
    "z = x.scatter_add(1, g, y)\ng", "z = y.index_select(0, i)\ni", "z = y.index_add(0, i, x[:2])\ni", "z = x.index_add(0, i, y[:2])\ni",
    "z = y.index_copy(0, i, x[:2])\ni", "z = y.index_fill(0, i, 2.)\ni", "z = y.take(i)\ni", "z = y.take_along_dim(g, 1)\ng",
    "z = y.put(i, n.ones(2))\ni", "z = y.masked_select(mm)\nmm", "z = y.masked_scatter(mm, x)\nmm", "z = y.masked_fill(mm, 2.)\nmm",
    "z = n.where(mm, y, x)\nmm", "z, i = y.max(0)\ni", "z, i = y.min(1, keepdim=True)\ni", "z, i = y.median(0)\ni", "z, i = y.kthvalue(2, 1)\ni",
    "z, i = y.mode(0)\ni", "z, i = y.sort(0)\ni", "z, i = y.topk(2, 1)\ni", "z = n.nn.functional.embedding(i, y)\ni",
    *(f"z = n.nn.functional.{loss}(y, c{rest})\nc" for loss in ("cross_entropy", "nll_loss")
      for rest in ("", ", reduction='sum'", ", reduction='none'", ", weight=n.ones(4)", ", weight=n.ones(4), reduction='none'", ", ignore_index=1")),
    "z = n.nn.functional.cross_entropy(y, c, label_smoothing=0.1)\nc", "z = n.nn.functional.multi_margin_loss(y, c)\nc",
)))
def test_indices_that_change_before_the_backward_pass(lines):
    check(lines)


@programs(
    "v = x.reshape(2, 6).flatten()\nx.t().copy_(w.t())\nv.sum()\nv.requires_grad_(False)",
    "v = x.flatten()\nx.mul_(w)\nwith n.no_grad(): v.sum()\nv.requires_grad_(False)",
)
def test_a_view_with_a_known_history_is_no_leaf(lines):
    check(lines)


@pytest.mark.parametrize("shape", [(4, 1, 1), (2, 4, 1, 1), (4, 3, 1), (1, 4, 1, 1)])
def test_the_format_of_an_einsum_over_one_element(shape):
    def strides(n):
        results = []
        for axis in range(len(shape)):
            sizes = [shape[-1 - k] if k in (axis, len(shape) - 1 - axis) else size for k, size in enumerate(shape)]
            a = n.ones(sizes).transpose(axis, len(shape) - 1 - axis)
            result = n.einsum("...i,ij->...j", a, n.ones(a.shape[-1], 2))
            results.append([step for size, step in zip(result.shape, result.stride()) if size > 1])
        return results

    assert strides(gt) == strides(torch)


def test_strided_views_of_expanded_leaves_are_refused():
    leaf = gt.arange(5.0).expand(3, 5).detach().requires_grad_()
    with pytest.raises(NotImplementedError, match="clone"):
        leaf.as_strided((2,), (1,)).sum()
    with gt.no_grad():
        assert leaf.as_strided((2,), (1,), 3).tolist() == [3, 4]


def test_a_view_that_is_a_leaf_again_can_stop_to_be_one():
    for n in (gt, torch):
        base = n.arange(6.0)
        v = base[2:4]
        v.requires_grad_()
        w = v * 3
        v.requires_grad_(False)
        v.requires_grad_(True)
        v.requires_grad_(False)
        assert w.requires_grad and not v.requires_grad and v.is_leaf


def test_nothing_stays_on_the_tape():
    gc.collect()
    before = len(gt._gt._tape())
    for lines in ALL:
        outcome(gt, lines)
    gc.collect()
    assert len(gt._gt._tape()) == before


def test_retains_grad_of_views_and_their_bases():
    def run(library):
        x = library.tensor([1.0, 2.0], requires_grad=True)
        y = x * 2
        y.retain_grad()
        v = y.view(-1)
        v.retain_grad()
        x.retain_grad()
        return y.retains_grad, v.retains_grad, x.retains_grad, (x * 3).retains_grad

    assert run(gt) == run(torch)
