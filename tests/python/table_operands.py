"""Operands for the walk over the op table, and torch's results for them. Read next: test_ops_table.py."""

import torch
import torch.nn.functional

from support import to_gt, values

SHAPES = [
    (),
    (1,),
    (0,),
    (7,),
    (3, 0, 2),
    (5, 6),
    (2, 3, 4),
    (4, 1, 3),
    (1, 1, 1, 1),
    (2, 1, 2, 1, 2, 1, 2, 1),
    (257,),
]
LARGE = (311, 403)

# (what it is, shape of the base, the view in torch, the view in GT where it is written otherwise)
VIEWS = [
    ("transposed", (5, 7), lambda t: t.T, None),
    ("permuted", (3, 4, 5), lambda t: t.permute(2, 0, 1), None),
    ("stepped", (9, 10), lambda t: t[::2, 1::3], None),
    ("offset", (6, 8), lambda t: t[2:5, 3:], None),
    ("row", (6, 8), lambda t: t[3], None),
    ("column", (6, 8), lambda t: t[:, 2], None),
    ("element", (6, 8), lambda t: t[2, 3], None),
    ("expanded", (1, 6), lambda t: t.expand(4, 6), None),
    ("expanded inside", (4, 1, 3), lambda t: t.expand(4, 5, 3), None),
    ("flipped", (6, 7), lambda t: t.flip(0), lambda t: t[::-1]),
    ("flipped twice", (6, 7), lambda t: t.flip(0, 1), lambda t: t[::-1, ::-1]),
    ("negative step", (10,), lambda t: t.flip(0)[::3], lambda t: t[::-3]),
    ("empty slice", (5, 6), lambda t: t[3:3], None),
    ("new axes", (4, 5), lambda t: t[None, :, None], None),
    ("transposed slice", (8, 6), lambda t: t[1::2].T, None),
    ("wide transposed", (64, 65), lambda t: t.T, None),
]

SPECIAL_FLOATS = [
    float("nan"),
    float("inf"),
    -float("inf"),
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    1e-3,
    -1e-3,
    1e-7,
    3.0,
    19.5,
    20.5,
    -20.5,
    88.0,
    -88.0,
    150.0,
    -150.0,
    1000.5,
]

# Sums of many elements, compared with torch's, which adds them in another order.
SUM_TOLERANCE = {
    "float16": (4e-3, 4e-2),
    "bfloat16": (3e-2, 3e-1),
    "float32": (2e-5, 2e-4),
    "float64": (1e-11, 1e-11),
}

# Rows that are not torch.<name> or torch.nn.functional.<name> in PyTorch, or where PyTorch is not exact enough: its
# float32 gelu on x86-64 has errors of a thousandth for large inputs, and NaN at infinity.
aten, INFINITY = torch.ops.aten, float("inf")


def trunc_divide(x, y):
    """torch rounds the quotient to the dtype before truncating, so 2.9998 becomes 3 in float16."""
    kind = torch.result_type(x, y)
    if kind.is_floating_point:
        return torch.div(x.to(kind).double(), y.to(kind).double(), rounding_mode="trunc").to(kind)
    return torch.div(x, y, rounding_mode="trunc")


def slope(function):
    """A gradient function of aten. They need floats of one dtype and shape; computed in float32 at least."""

    def run(g, x, *numbers):
        kind = torch.result_type(g, x)
        kind = kind if kind.is_floating_point else torch.float32
        wide = torch.float64 if kind == torch.float64 else torch.float32
        g, x = torch.broadcast_tensors(g.to(kind).to(wide), x.to(kind).to(wide))
        return function(g, x, *numbers).to(kind)

    return run


def widened(function):
    """A function that torch computes in float32 and float64 only, and float32 with larger errors: in float64, then rounded."""

    def run(*operands):
        kind = torch.result_type(*operands) if len(operands) > 1 else operands[0].dtype
        kind = kind if kind.is_floating_point else torch.get_default_dtype()
        return function(*[operand.to(kind).double() for operand in operands]).to(kind)

    return run


ELSEWHERE = {
    **{name: widened(getattr(torch, name)) for name in ("erfinv", "digamma", "igamma", "igammac")},
    "softsign": lambda x: torch.nn.functional.softsign(x if x.is_floating_point() else x.float()),  # 1 + |x| overflows
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "trunc_divide": trunc_divide,
    "elu": lambda x, alpha=1.0, input_scale=1.0: aten.elu(x, alpha, 1, input_scale),
    "relu_backward": slope(lambda g, y: aten.threshold_backward(g, y, 0)),
    "tanh_backward": slope(aten.tanh_backward),
    "sigmoid_backward": slope(aten.sigmoid_backward),
    "gelu_backward": slope(lambda g, x: aten.gelu_backward(g.double(), x.double()).to(g.dtype)),
    "gelu_tanh_backward": slope(lambda g, x: aten.gelu_backward(g.double(), x.double(), approximate="tanh").to(g.dtype)),
    "silu_backward": slope(aten.silu_backward),
    "softplus_backward": slope(lambda g, x: aten.softplus_backward(g, x, 1, 20)),
    "logsigmoid_backward": slope(lambda g, x: g * torch.sigmoid(-x)),
    "mish_backward": slope(aten.mish_backward),
    "hardsigmoid_backward": slope(lambda g, x: torch.where(x.abs() < 3, g / 6, 0)),  # torch has 1/6 as a float32
    "hardswish_backward": slope(aten.hardswish_backward),
    "clamp_backward": slope(lambda g, x, low=-INFINITY, high=INFINITY: torch.where((x >= low) & (x <= high), g, 0)),
    "hardtanh_backward": slope(lambda g, x, low=-1, high=1: aten.hardtanh_backward(g, x, low, high)),
    "leaky_relu_backward": slope(lambda g, x, slope=0.01: aten.leaky_relu_backward(g, x, slope, False)),
    "elu_backward": slope(lambda g, x, alpha=1, scale=1: aten.elu_backward(g, alpha, 1, scale, False, x)),
    "gelu": lambda x: torch.nn.functional.gelu(x.double() if x.is_floating_point() else x).to(x.dtype),
}


# Rows that PyTorch computes with fewer digits than float64 has.
INEXACT = {"igamma": dict(rtol=2e-9), "igammac": dict(rtol=2e-9)}


def torch_function(name):
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    for namespace in (torch, torch.nn.functional):
        if hasattr(namespace, name):
            return getattr(namespace, name)
    if hasattr(torch.special, name):
        return widened(getattr(torch.special, name))
    raise AssertionError(
        f"no torch function is called {name!r}: give it an entry in ELSEWHERE (table_operands.py)"
    )


def torch_result(name, types, *operands, **options):
    """PyTorch's result. For a dtype that the row allows and PyTorch does not: its result after the row's conversion.

    FLT rows take integers and bool as float32 (gelu, mean, ...); NUM rows compute bool as integers, and any
    nonzero is True (floor, pow, remainder, ...).
    """
    function = torch_function(name)
    try:
        return function(*operands, **options)
    except (RuntimeError, NotImplementedError):
        tensors = [operand for operand in operands if isinstance(operand, torch.Tensor)]
        if types == "FLT" and not any(t.is_floating_point() for t in tensors):
            return function(*[t.float() if isinstance(t, torch.Tensor) else t for t in operands], **options)
        if types != "ARITH" and all(t.dtype == torch.bool for t in tensors):
            result = function(*[t.long() if isinstance(t, torch.Tensor) else t for t in operands], **options)
            return result.to(torch.bool) if types == "NUM" else result
        raise


def views(dtype, seed=0):
    """(what, GT view, torch view) of equal values."""
    for what, shape, torch_view, gt_view in VIEWS:
        base = values(shape, dtype, seed)
        yield what, (gt_view or torch_view)(to_gt(base)), torch_view(base)


def operands(dtype, seed=0):
    """Every shape class for a one-operand op: (what, GT tensor, torch tensor)."""
    for shape in [*SHAPES, LARGE]:
        x = values(shape, dtype, seed)
        yield f"shape {shape}", to_gt(x), x
    yield from views(dtype, seed)
