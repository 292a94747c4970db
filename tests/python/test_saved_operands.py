"""Which operands the graph has saved, after an in-place change of one of them: backward raises, or gives these gradients.

PyTorch copies some operands of a product, depending on their strides and on which of them require gradients. A later change of
such an operand is no error. GT saves values and needs no copies, but a program that runs in PyTorch must run here.
"""

import itertools
import warnings

import numpy as np
import pytest
import torch

import gt

# The shape of the tensor that an operand of the given shape is made from (None: not of this shape), and how.
LAYOUTS = {
    "plain": (lambda s: s, "x"),
    "swap_last": (lambda s: s[:-2] + (s[-1], s[-2]) if len(s) > 1 else None, "x.transpose(-1, -2)"),
    "swap_first": (lambda s: (s[1], s[0]) + s[2:] if len(s) > 2 else None, "x.transpose(0, 1)"),
    "reversed": (lambda s: s[::-1] if len(s) > 2 else None, "x.permute(*range(x.dim() - 1, -1, -1))"),
    "step": (lambda s: s[:-1] + (2 * s[-1],), "x[..., ::2]"),
    "rows": (lambda s: (2 * s[0],) + s[1:] if len(s) > 1 else None, "x[::2]"),
    "expand": (lambda s: (1,) + s[1:] if len(s) > 2 else None, "x.expand({})"),
    "expand_second": (lambda s: (s[0], 1) + s[2:] if len(s) > 3 else None, "x.expand({})"),
}

CHANGES = {"in place": "with n.no_grad(): x.add_(1)", "data": "x.data.add_(1)"}


def outcome(n, expression, shapes, layouts, required, changed, change):
    """'raises', or the gradients of what the operands were made from."""
    sources, names = [], {"n": n, "F": n.nn.functional}
    for k, (shape, layout) in enumerate(zip(shapes, layouts)):
        values = np.random.default_rng(k).standard_normal(LAYOUTS[layout][0](shape))
        x = n.tensor(values, dtype=n.float64)
        sources.append(x.requires_grad_() if required[k] else x)
        names["ab"[k] if k < 2 else "c"] = eval(LAYOUTS[layout][1].format(list(shape)), {"x": x})
    y = eval(expression, names)
    exec(CHANGES[change], {"n": n, "x": sources[changed]})
    try:
        (y * y.detach()).sum().backward()
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
        return "raises"
    return [None if x.grad is None else np.array(x.grad.tolist()) for x in sources]


def same(ours, theirs):
    if isinstance(ours, str) or isinstance(theirs, str):
        return isinstance(ours, str) and isinstance(theirs, str)
    return all((a is None) == (b is None) and (a is None or np.allclose(a, b)) for a, b in zip(ours, theirs))


def cases(shapes, most=1, attention=False):
    """Layouts of the operands, which of them require a gradient, and which is changed: a third one only in attention."""
    fitting = [[name for name, (made_from, _) in LAYOUTS.items() if made_from(shape)] for shape in shapes]
    for layouts in itertools.product(*fitting):
        if sum(layout != "plain" for layout in layouts) > most:
            continue
        for required in ((True,) * len(shapes), *(tuple(j == k for j in range(len(shapes))) for k in range(len(shapes)))):
            yield from ((layouts, required, changed) for changed in range(min(len(shapes), 2 + attention)))


LEFT, RIGHT = [(3,), (2, 3), (5, 2, 3), (4, 5, 2, 3)], [(3,), (3, 6), (5, 3, 6), (4, 5, 3, 6)]
ONES = [((1, 2, 3), (4, 3, 6)), ((4, 2, 3), (1, 3, 6)), ((4, 1, 2, 3), (5, 3, 6)), ((1, 5, 2, 3), (4, 5, 3, 6)),
        ((2, 3), (1, 3, 6)), ((4, 5, 2, 3), (3, 1))]


@pytest.mark.parametrize("shapes", [*itertools.product(LEFT, RIGHT), *ONES], ids=str)
def test_matmul(shapes):
    for case in cases(shapes, 2 if sum(map(len, shapes)) < 5 else 1):
        ours, theirs = (outcome(n, "a @ b", shapes, *case, "in place") for n in (gt, torch))
        assert same(ours, theirs), (case, ours, theirs)


@pytest.mark.parametrize("expression, shapes", [
    ("F.linear(a, b)", ((5, 2, 3), (4, 3))), ("F.linear(a, b)", ((2, 5, 2, 3), (4, 3))), ("F.linear(a, b)", ((2, 3), (4, 3))),
    ("F.linear(a, b, c)", ((3,), (4, 3), (4,))), ("F.linear(a, b, c)", ((2, 3), (4, 3), (4,))),
    ("F.linear(a, b, c)", ((5, 2, 3), (4, 3), (4,))), ("F.linear(a, b, c)", ((2, 5, 2, 3), (4, 3), (4,))),
    ("a.bmm(b)", ((5, 2, 3), (5, 3, 6))), ("a.mm(b)", ((2, 3), (3, 6))), ("a.mv(b)", ((2, 3), (3,))),
    ("n.baddbmm(c, a, b)", ((5, 2, 3), (5, 3, 4), (5, 2, 4))), ("n.addmm(c, a, b)", ((2, 3), (3, 4), (2, 4))),
    ("n.einsum('bij,jk->bik', a, b)", ((5, 2, 3), (3, 4))), ("n.einsum('bhid,bhjd->bhij', a, b)", ((2, 3, 4, 5), (2, 3, 6, 5))),
    ("n.einsum('bij,bkj->bik', a, b)", ((5, 2, 3), (5, 4, 3))), ("n.einsum('ij,ij->i', a, b)", ((2, 3), (2, 3))),
    ("n.tensordot(a, b, 2)", ((5, 2, 3), (2, 3, 4))), ("n.tensordot(a, b, ([2, 0], [1, 0]))", ((5, 2, 3), (5, 3, 4))),
    ("n.tensordot(a, b, 0)", ((2, 3), (4,))), ("n.inner(a, b)", ((5, 2, 3), (4, 3))),
    ("F.scaled_dot_product_attention(a, b, c)", ((2, 3, 4), (2, 3, 4), (2, 3, 4))),
    ("F.scaled_dot_product_attention(a, b, c)", ((2, 2, 3, 4), (2, 2, 3, 4), (2, 2, 3, 4))),
    ("n.hypot(a, b)", ((2, 3), (2, 3))), ("n.copysign(a, b)", ((2, 3), (2, 3))), ("n.lerp(a, b, c)", ((3,), (3,), (3,))),
], ids=str)
def test_products(expression, shapes):
    for case in cases(shapes, attention="attention" in expression):
        ours, theirs = (outcome(n, expression, shapes, *case, "in place") for n in (gt, torch))
        assert same(ours, theirs), (case, ours, theirs)


@pytest.mark.parametrize("expression, shapes", [
    ("a @ b", ((5, 2, 3), (3, 6))), ("a @ b", ((5, 2, 3), (4, 5, 3, 6))), ("F.linear(a, b)", ((2, 5, 2, 3), (4, 3))),
    ("n.tensordot(a, b, 2)", ((5, 2, 3), (2, 3, 4))),
], ids=str)
def test_a_write_through_data_changes_what_pytorch_has_not_copied(expression, shapes):
    for case in cases(shapes):
        ours, theirs = (outcome(n, expression, shapes, *case, "data") for n in (gt, torch))
        assert same(ours, theirs), (case, ours, theirs)


@pytest.mark.parametrize("expression, shapes", [
    ("F.conv2d(a, b)", ((2, 3, 4, 5), (4, 3, 2, 2))), ("F.conv1d(a, b, c)", ((2, 3, 6), (4, 3, 2), (4,))),
    ("F.group_norm(a, 2, b, c)", ((2, 4, 3), (4,), (4,))), ("F.instance_norm(a, None, None, b, c)", ((2, 4, 3), (4,), (4,))),
    ("F.bilinear(a, b, c)", ((2, 3), (2, 4), (5, 3, 4))), ("n.addbmm(c, a, b)", ((5, 2, 3), (5, 3, 4), (2, 4))),
    ("F.mse_loss(a, b)", ((2, 3), (2, 3))), ("n.cdist(a, b)", ((2, 3), (4, 3))), ("n.linalg.eigvalsh(a) * b", ((3, 3), (3,))),
    ("n.linalg.svdvals(a) * b", ((3, 3), (3,))), ("n.linalg.lu(a)[1] * b", ((3, 3), (3,))),
    ("n.linalg.eigvals(a).abs() * b", ((3, 3), (3,))), ("n.linalg.inv_ex(a)[0] * b", ((3, 3), (3,))),
    ("n.view_as_real(n.polar(a.abs(), b))", ((3,), (3,))), ("F.cross_entropy(a, n.tensor([[1, 0], [2, 1]])) * b", ((2, 3, 2), (1,))),
], ids=str)
def test_what_runs_in_pytorch_runs(expression, shapes):
    """Where PyTorch raises, because it saves more than its gradient needs, GT may give the gradient."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in cases(shapes):
            theirs = outcome(torch, expression, shapes, *case, "in place")
            ours = outcome(gt, expression, shapes, *case, "in place")
            assert same(ours, theirs) or theirs == "raises", (case, ours, theirs)
