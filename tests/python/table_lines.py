"""Checks of the rows of the op table that work along one axis, and of views that are only strides.

Softmax, scans with indices, searches, scatter_reduce, diagonal, unfold. Called by test_ops_table.py, as table_movement.py.
"""

import torch

import gt
from support import FLOATS, to_gt, values
from table_operands import SUM_TOLERANCE, operands


def exact(name, x, axis):
    """softmax or log_softmax, computed in double: torch's own float32 is off by more than GT's."""
    result = getattr(torch, name)(x.double(), axis)
    return result.to(x.dtype) if x.is_floating_point() else result.float()


def check_softmax(name, types, dtype, cases):
    function = getattr(gt, name)
    for what, t, x in operands(dtype, 1):
        for axis in range(-1 if x.dim() else 0, x.dim()):
            cases.same(f"gt.{name}({what}, {axis})", lambda: function(t, axis), exact(name, x, axis))
    if dtype in FLOATS:
        inf = float("inf")
        x = torch.tensor([[1, -inf, 2], [-inf, -inf, -inf], [inf, 1, 2], [float("nan"), 0, 1], [-100, 0, 90]])
        x = x.to(values((), dtype).dtype)
        for axis in (0, 1):
            cases.same(f"{name} of infinities, {axis}", lambda: function(to_gt(x), axis), exact(name, x, axis))
    x = values((3, 4), dtype, 2)
    cases.same(
        f"t.{name}(dtype)", lambda: getattr(to_gt(x), name)(1, dtype=gt.float64), exact(name, x.double(), 1)
    )


def check_softmax_backward(name, types, dtype, cases):
    """Through autograd: there is no function of this name."""
    if dtype not in FLOATS:
        cases.true("integers have no gradient", True)
        return
    forward = name.removesuffix("_backward")
    # the gradient is computed from the result after rounding to 16 bits
    rtol, atol = {"float16": (2e-2, 2e-2), "bfloat16": (1e-1, 2e-1)}.get(dtype, (2e-5, 2e-5))
    for what, t, x in operands(dtype, 1):
        x = x.double().requires_grad_(True)
        for axis in range(-1 if x.dim() else 0, x.dim()):
            weights = values(tuple(x.shape), dtype, 3)
            t = t.detach()
            t.requires_grad = True
            (expected,) = torch.autograd.grad(getattr(torch, forward)(x, axis), x, weights.double())
            expected = expected.to(weights.dtype)
            run = lambda: gt.grad(getattr(gt, forward)(t, axis), t, to_gt(weights))[0]  # noqa: E731
            cases.same(f"gradient of {forward}({what}, {axis})", run, expected, rtol=rtol, atol=atol)


def check_cumulative(name, types, dtype, cases):
    function = getattr(gt, name)
    for what, t, x in operands(dtype, 1):
        for axis in range(-1 if x.dim() else 0, x.dim()):
            expected = getattr(torch, name)(x, axis)
            cases.same(f"gt.{name}({what}, {axis}).values", lambda: function(t, axis).values, expected.values)
            cases.same(f"gt.{name}({what}, {axis}).indices", lambda: function(t, axis)[1], expected.indices)
    if dtype in FLOATS:
        x = torch.tensor([1.0, 3.0, 3.0, float("nan"), 2.0, float("nan"), 5.0]).to(values((), dtype).dtype)
        cases.same("with NaN", lambda: function(to_gt(x), 0).indices, getattr(torch, name)(x, 0).indices)


def check_scatter_reduce(name, types, dtype, cases):
    generator = torch.Generator().manual_seed(5)
    rtol, atol = SUM_TOLERANCE.get(dtype, (None, None))
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        for include_self in (True, False):
            for axis, shape in ((0, (3, 6)), (1, (5, 4)), (-1, (2, 9))):
                x, source = values((5, 6), dtype, 1), values((5, 9), dtype, 2)
                index = torch.randint(0, x.shape[axis], shape, generator=generator)
                if dtype == "bool" and reduce == "mean":
                    continue  # torch does not have it
                cases.same(
                    f"{reduce} along {axis}, include_self={include_self}",
                    lambda: to_gt(x).scatter_reduce(axis, to_gt(index), to_gt(source), reduce, include_self=include_self),
                    x.scatter_reduce(axis, index, source, reduce, include_self=include_self),
                    rtol=rtol,
                    atol=atol,
                )


def check_searchsorted(name, types, dtype, cases):
    line = values((20,), dtype, 1).sort().values
    lines = values((3, 4, 9), dtype, 2).sort(-1).values
    boundaries = (line.int() if dtype == "bool" else line), (lines.int() if dtype == "bool" else lines)
    for right in (False, True):
        for what, t, x in operands(dtype, 3):
            y = x.int() if dtype == "bool" else x
            cases.same(
                f"{what}, right={right}",
                lambda: gt.searchsorted(to_gt(line), t, right=right),
                torch.searchsorted(boundaries[0], y, right=right),
            )
        x = values((3, 4, 5), dtype, 4)
        cases.same(
            f"a line each, right={right}",
            lambda: gt.searchsorted(to_gt(lines), to_gt(x), right=right),
            torch.searchsorted(boundaries[1], x.int() if dtype == "bool" else x, right=right),
        )


def check_diagonal(name, types, dtype, cases):
    for what, t, x in operands(dtype, 1):
        if x.dim() < 2:
            continue
        for offset in (0, 1, -2, 50, -50):
            for dims in ((0, 1), (-1, 0), (1, -1)):
                if dims[0] % x.dim() == dims[1] % x.dim():
                    continue
                cases.same(
                    f"diagonal({what}, {offset}, {dims})",
                    lambda: gt.diagonal(t, offset, *dims),
                    torch.diagonal(x, offset, *dims),
                )


def check_unfold(name, types, dtype, cases):
    for what, t, x in operands(dtype, 1):
        if x.dim() == 8:
            continue  # more axes than a GT tensor can have
        for axis in range(-1 if x.dim() else 0, x.dim()):
            size = x.shape[axis] if x.dim() else 1
            for width, step in ((0, 1), (1, 1), (min(size, 2), 1), (min(size, 3), 2), (size, 5)):
                if width > size:
                    continue
                cases.same(
                    f"unfold({what}, {axis}, {width}, {step})",
                    lambda: t.unfold(axis, width, step),
                    x.unfold(axis, width, step),
                )
                cases.same(
                    f"sum of unfold({what}, {axis}, {width}, {step})",
                    lambda: t.unfold(axis, width, step).sum(),
                    x.unfold(axis, width, step).sum(),
                    rtol=1e-1 if dtype in ("float16", "bfloat16") else 1e-4,
                    atol=1,
                )


CHECKS = {
    "softmax": check_softmax,
    "log_softmax": check_softmax,
    "softmax_backward": check_softmax_backward,
    "log_softmax_backward": check_softmax_backward,
    "cummax": check_cumulative,
    "cummin": check_cumulative,
    "scatter_reduce": check_scatter_reduce,
    "searchsorted": check_searchsorted,
    "diagonal": check_diagonal,
    "unfold": check_unfold,
}
