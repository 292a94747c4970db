"""Every row of the op table, in every dtype, on every class of shape, against PyTorch.

The table comes from the extension (built from ops.def), so a new elementwise row or reduction is tested automatically:
its form says how to call it, and torch has a function of its name. A row without a counterpart in torch and without an
entry here or in table_movement.py fails the suite.
"""

import math
import zlib

import pytest
import torch

import gt
import table_complex
import table_linalg
import table_lines
import table_movement
import table_special
from gt._gt import op_table
from support import DTYPES, FLOATS, INTEGERS, Collector, check, raises, to_gt, torch_dtype, values
from table_operands import INEXACT, LARGE, SPECIAL_FLOATS, SUM_TOLERANCE, VIEWS, operands, torch_function, torch_result, views

CHECKS = {**table_movement.CHECKS, **table_lines.CHECKS, **table_linalg.CHECKS, **table_special.CHECKS, **table_complex.CHECKS}
ROWS = {row[0]: row for row in op_table() if row[1] != "CONTROL"}

BROADCASTS = [
    ((), ()),
    ((), (3,)),
    ((4,), (1,)),
    ((5, 6), (6,)),
    ((5, 1), (6,)),
    ((5, 1), (1, 6)),
    ((2, 3, 4), (3, 1)),
    ((1, 3, 1), (2, 1, 4)),
    ((0,), (1,)),
    ((0,), ()),
    ((3, 0), (1, 0)),
    ((2, 0, 3), (3,)),
    ((7, 9), (7, 9)),
    ((1,), (1, 1, 1)),
    ((129, 1), (1, 130)),
]

# Arguments after the tensor, for the unary rows that take numbers.
PARAMETERS = {
    "hardtanh": [dict(min_val=-1, max_val=1), dict(min_val=0, max_val=3)],
    "leaky_relu": [dict(), dict(negative_slope=0.3)],
    "elu": [dict(), dict(alpha=0.7), dict(alpha=2.0, input_scale=0.5)],
    "clamp": [dict(min=-1, max=2), dict(min=1), dict(max=1), dict(min=0.5, max=1.5), dict(min=3, max=-3)],
}

# And for those binary rows.
NUMBERS = {
    "clamp_backward": (-1.0, 1.5),
    "hardtanh_backward": (-0.5, 1.5),
    "leaky_relu_backward": (0.3,),
    "elu_backward": (2.0, 0.5),
}

# Operands for ops where the general values are outside the domain: integer division by zero is an error in PyTorch,
# and so are negative integer powers with a number.
SECOND_OPERAND = {
    "remainder": lambda y: torch.where(y == 0, torch.ones_like(y), y),
    "floor_divide": lambda y: torch.where(y == 0, torch.ones_like(y), y),
    "fmod": lambda y: torch.where(y == 0, torch.ones_like(y), y),
    "trunc_divide": lambda y: torch.where(y == 0, torch.ones_like(y), y),
    "pow": lambda y: y if y.is_floating_point() or y.dtype == torch.bool else y.abs() % 5,
}

# As in PyTorch, these take no number as the second operand.
TENSORS_ONLY = ("atan2", "hypot", "igamma", "igammac", "logaddexp", "logaddexp2", "logical_and", "logical_or", "logical_xor", "maximum",
                "minimum")

# Nor integers, unless dtype= is a floating one.
NOT_FOR_INTEGERS = ("leaky_relu", "elu", "lerp")
OF_FLOATS = ("log_softmax", "mean", "softmax", "var")


def refused_dtype(types, dtype):
    """The rule of the types column: ops.def."""
    without_bool, without_floats = types in ("ARITH", "INT"), types in ("BITS", "INT")
    return (without_bool and dtype == "bool") or (without_floats and dtype in FLOATS)


def seed_of(name):
    return zlib.crc32(name.encode()) % 1000


# ---- elementwise ----------------------------------------------------------------------------------------------


def unary_operands(dtype, seed):
    yield from operands(dtype, seed)
    if dtype in FLOATS:
        x = torch.tensor(SPECIAL_FLOATS, dtype=torch.float64).to(torch_dtype(dtype))
        yield "special values", to_gt(x), x
    elif dtype in INTEGERS:
        limits = torch.iinfo(torch_dtype(dtype))
        x = torch.tensor([limits.min, limits.max, 0, 1], dtype=torch_dtype(dtype))
        yield "limits", to_gt(x), x


def check_unary(name, types, dtype, cases):
    function = getattr(gt, name)
    if refused_dtype(types, dtype) and (name, dtype) != ("bitwise_not", "bool"):
        raises((TypeError, RuntimeError), lambda: function(to_gt(values((3,), dtype))))
        cases.true("refused", True)
        return
    for options in PARAMETERS.get(name, [{}]):
        for what, t, x in unary_operands(dtype, seed_of(name)):
            if dtype in ("bool", "uint8") and min(options.values(), default=0) < 0:
                continue  # a negative bound does not fit; PyTorch wraps it, GT does not
            expected = torch_result(name, types, x, **options)
            cases.same(f"gt.{name}({what}, {options})", lambda: function(t, **options), expected)
    x = values((4, 3), dtype, 5)
    options = PARAMETERS.get(name, [{}])[-1 if name != "clamp" else 1]
    cases.same(f"t.{name}()", lambda: getattr(to_gt(x), name)(**options), torch_result(name, types, x, **options))


def binary_operands(name, dtype):
    fit = SECOND_OPERAND.get(name, lambda y: y)
    for left, right in BROADCASTS:
        x, y = values(left, dtype, 1), fit(values(right, dtype, 2))
        yield f"shapes {left} and {right}", to_gt(x), to_gt(y), x, y
        if name not in SECOND_OPERAND:
            yield f"shapes {right} and {left}", to_gt(y), to_gt(x), y, x
    for what, shape, torch_view, gt_view in VIEWS:
        base, other = values(shape, dtype, 3), values(shape, dtype, 4)
        x, y = torch_view(base), fit(torch_view(other))
        view = gt_view or torch_view
        yield f"{what} and contiguous", view(to_gt(base)), to_gt(y), x, y
        yield f"contiguous and {what}", to_gt(x), view(to_gt(fit(other))), x, torch_view(fit(other))
        yield f"{what}, both", view(to_gt(base)), view(to_gt(fit(other))), x, torch_view(fit(other))
    x = values((6, 6), dtype, 5)
    y = fit(x)
    same = to_gt(y)
    yield "itself", same, same, y, y
    yield "itself transposed", same, same.T, y, y.T
    x, y = values(LARGE, dtype, 6), fit(values(LARGE, dtype, 7))
    yield "large", to_gt(x), to_gt(y), x, y
    yield "large and row", to_gt(x), to_gt(y[0]), x, y[0]
    yield "large and column", to_gt(x), to_gt(y[:, :1]), x, y[:, :1]
    if dtype in FLOATS:
        specials = torch.tensor(SPECIAL_FLOATS, dtype=torch.float64).to(torch_dtype(dtype))
        specials[specials.isnan()] = float("nan")  # PyTorch on x86 casts to a negative NaN, and a cast need not keep a NaN's sign
        if name.endswith("_backward"):
            specials = specials[specials.isfinite() & (specials.abs() < 21)]  # slopes are of results or moderate numbers
        yield "special values", to_gt(specials[:, None]), to_gt(specials[None]), specials[:, None], specials[None]


def check_binary(name, types, dtype, cases):
    function = getattr(gt, name)
    if refused_dtype(types, dtype):
        t = to_gt(values((3,), dtype))
        raises((TypeError, RuntimeError), lambda: function(t, t))
        cases.true("refused", True)
        return
    numbers = NUMBERS.get(name, ())
    digits = INEXACT.get(name, {}) if dtype == "float64" else {}
    for what, s, t, x, y in binary_operands(name, dtype):
        cases.same(f"gt.{name}({what})", lambda: function(s, t, *numbers), torch_result(name, types, x, y, *numbers), **digits)
    if numbers:
        return
    x, y = values((4, 3), dtype, 8), SECOND_OPERAND.get(name, lambda y: y)(values((4, 3), dtype, 9))
    cases.same(f"a.{name}(b)", lambda: getattr(to_gt(x), name)(to_gt(y)), torch_result(name, types, x, y))
    if name in TENSORS_ONLY:
        raises(TypeError, lambda: function(to_gt(x), 2), "argument 'other' (position 2) must be Tensor, not int")
        return
    for number in (2,) if types in ("BITS", "INT") else (2, 1.5) if types == "ARITH" else (2, 1.5, True):
        expected = torch_result(name, types, x, torch.tensor(number))
        cases.same(f"gt.{name}(t, {number})", lambda: function(to_gt(x), number), expected)


def check_ternary(name, types, dtype, cases):
    function, reference = getattr(gt, name), lambda *operands: torch_result(name, types, *operands)
    first_dtype = "bool" if name == "where" else dtype
    shapes = [
        ((), (), ()),
        ((4,), (4,), (4,)),
        ((5, 1), (6,), ()),
        ((3, 1, 1), (4, 1), (5,)),
        ((0,), (1,), ()),
        ((2, 3), (2, 3), (1, 3)),
        (LARGE, LARGE, LARGE),
    ]
    for first, second, third in shapes:
        c, x, y = values(first, first_dtype, 1), values(second, dtype, 2), values(third, dtype, 3)
        cases.same(
            f"gt.{name}({first}, {second}, {third})",
            lambda: function(to_gt(c), to_gt(x), to_gt(y)),
            reference(c, x, y),
        )
    for what, shape, torch_view, gt_view in VIEWS:
        view = gt_view or torch_view
        c, x, y = values(shape, first_dtype, 4), values(shape, dtype, 5), values(shape, dtype, 6)
        cases.same(
            f"gt.{name}({what})",
            lambda: function(view(to_gt(c)), view(to_gt(x)), view(to_gt(y))),
            reference(torch_view(c), torch_view(x), torch_view(y)),
        )


# ---- reductions -----------------------------------------------------------------------------------------------


def reduce_with_torch(name, types, x, axes, keepdim):
    """torch's reduction over any set of axes: the reduced ones are moved together and flattened first."""
    axes = range(x.dim()) if axes is None else sorted(axis % x.dim() for axis in axes)
    kept = [axis for axis in range(x.dim()) if axis not in axes]
    size = math.prod(x.shape[axis] for axis in axes)
    flat = x.permute((*kept, *axes)).reshape((*(x.shape[axis] for axis in kept), size))
    result = torch_result(name, types, flat, dim=-1)
    shape = [1 if axis in axes else x.shape[axis] for axis in range(x.dim())] if keepdim else result.shape
    return result.reshape(tuple(shape))


def axis_choices(rank):
    choices = [None]
    choices += [axis for axis in range(-rank, rank)]
    choices += {2: [(0, 1), (-1,)], 3: [(0, 2), (1, -1), (0, 1, 2)], 4: [(0, 2), (1, 3), (0, 1, 3)]}.get(rank, [])
    return choices


def check_reduce(name, types, dtype, cases):
    function = getattr(gt, name)
    rtol, atol = SUM_TOLERANCE.get(dtype, (2e-5, 2e-4))
    scale = 1.0 if name == "prod" else 2.0
    bases = [
        (f"shape {shape}", to_gt(x), x)
        for shape in [(), (1,), (7,), (5, 6), (2, 3, 4), (2, 3, 2, 4), (3, 0, 2), (0,)]
        for x in [values(shape, dtype, 1, scale=scale)]
    ]
    if name != "prod":
        bases += views(dtype, 2)
        x = values(LARGE, dtype, 3)
        bases.append(("large", to_gt(x), x))
    for what, t, x in bases:
        for axes in axis_choices(x.dim()):
            for keepdim in (False, True):
                as_tuple = (axes,) if isinstance(axes, int) else axes
                call = f"gt.{name}({what}, {axes}, keepdim={keepdim})"
                options = {} if axes is None and not keepdim and name != "logsumexp" else dict(dim=axes, keepdim=keepdim)
                run = lambda: function(t, **options)  # noqa: E731
                try:
                    expected = reduce_with_torch(name, types, x, as_tuple, keepdim)
                except (IndexError, RuntimeError) as refusal:  # amax of nothing
                    cases.true(f"{call} must raise as torch does: {refusal}", refused(run))
                    continue
                cases.same(call, run, expected, rtol=rtol, atol=atol)
    x = values((4, 5), dtype, 4, scale=scale)
    cases.same(
        f"t.{name}(dim=1)",
        lambda: getattr(to_gt(x), name)(dim=1),
        reduce_with_torch(name, types, x, (1,), False),
        rtol=rtol,
        atol=atol,
    )


def refused(run):
    """Whether the call, or reading its result, raised a documented exception."""
    try:
        run().numpy()
    except (ValueError, IndexError, RuntimeError):
        return True
    return False


def check_argreduce(name, types, dtype, cases):
    function = getattr(gt, name)
    reference = torch_function(name)
    for what, t, x in operands(dtype, 1):
        y = x.to(torch.uint8) if dtype == "bool" else x  # torch refuses bool here
        for axis in [None, *range(-x.dim(), x.dim())]:
            for keepdim in (False, True) if axis is not None else (False,):
                run = lambda: function(t) if axis is None else function(t, axis, keepdim=keepdim)  # noqa: E731
                call = f"gt.{name}({what}, {axis}, {keepdim})"
                try:
                    expected = reference(y) if axis is None else reference(y, axis, keepdim=keepdim)
                except (IndexError, RuntimeError) as refusal:
                    cases.true(f"{call} must raise as torch does: {refusal}", refused(run))
                    continue
                cases.same(call, run, expected)


def check_scan(name, types, dtype, cases):
    function = getattr(gt, name)
    rtol, atol = SUM_TOLERANCE.get(dtype, (None, None))

    def bounded(result):
        """Near the largest float, rounding decides whether a result is infinite."""
        if name != "cumprod" or dtype not in FLOATS:
            return result
        limit = 0.9 * torch.finfo(torch_dtype(dtype)).max
        return result.clamp(-limit, limit)

    for what, t, x in operands(dtype, 1):
        for axis in range(-x.dim(), x.dim()):
            cases.same(
                f"gt.{name}({what}, {axis})",
                lambda: bounded(function(t, axis)),
                bounded(torch_result(name, types, x, axis)),
                rtol=rtol,
                atol=2 * atol if atol else None,
            )


ELEMENTWISE_AND_REDUCTIONS = {
    "UNARY": check_unary,
    "BINARY": check_binary,
    "TERNARY": check_ternary,
    "REDUCE": check_reduce,
    "ARGREDUCE": check_argreduce,
    "SCAN": check_scan,
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ROWS)
def test_row(name, dtype):
    _, form, types, _ = ROWS[name]
    checker = CHECKS.get(name) or ELEMENTWISE_AND_REDUCTIONS.get(form)
    assert checker, f"row {name!r} of form {form} has no test: give it an entry in CHECKS"
    if name in OF_FLOATS and dtype not in FLOATS:
        x, dim = values((3,), dtype), () if form == "REDUCE" else (0,)
        raises(RuntimeError, lambda: getattr(to_gt(x), name)(*dim))
        raises(RuntimeError, lambda: getattr(x, name)(*dim))
        return
    if name in NOT_FOR_INTEGERS and dtype not in FLOATS:  # as in PyTorch: test_numbers.py
        x = to_gt(values((3,), dtype))
        raises(NotImplementedError, lambda: getattr(x, name)(*((x, x) if name == "lerp" else ())))
        return
    cases = Collector()
    checker(name, types, dtype, cases)
    cases.finish()


def test_the_table_is_whole():
    """Rows that must exist, so that a missing one is noticed."""
    wanted = """
        neg abs sign sqrt rsqrt exp log log1p expm1 sin cos tanh sigmoid relu gelu silu softplus erf floor ceil
        round reciprocal clamp add sub mul div pow maximum minimum eq ne lt le gt ge where sum prod mean var any
        all argmax argmin cumsum matmul reshape permute expand slice cast copy cat tril triu gather scatter argsort
        topk rand randn randint softmax log_softmax logsumexp norm cumprod logcumsumexp cummax cummin scatter_reduce
        searchsorted diagonal unfold tan asin acos atan atan2 sinh cosh asinh acosh atanh exp2 log2 log10 copysign lerp trunc
        fmod remainder floor_divide square isnan isinf isfinite bitwise_and bitwise_or bitwise_xor bitwise_not
        bitwise_left_shift bitwise_right_shift leaky_relu elu selu relu6 hardtanh hardswish hardsigmoid mish softsign
        logsigmoid logaddexp hypot sinc frac erfc erfinv lgamma digamma polygamma i0 i0e i1 i1e igamma igammac xlogy xlog1py
        zeta erfcx ndtr ndtri log_ndtr entr logit gcd lcm nextafter heaviside logaddexp2"""
    assert set(wanted.split()) <= set(ROWS)


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row[1] in ELEMENTWISE_AND_REDUCTIONS])
def test_row_is_function_and_method(name):
    assert callable(getattr(gt, name, None)), f"gt.{name} is missing"
    assert callable(getattr(gt.Tensor, name, None)), f"gt.Tensor.{name} is missing"


def test_large_elementwise_chain():
    """Four million elements: much larger than caches, several chunks of every kernel, through upload and download."""
    x = values((2048, 2048), "float32", 1)
    t = to_gt(x)
    check((t * 2 + 1).relu() - t.T, torch.relu(x * 2 + 1) - x.T)
    check(t.exp(), x.exp())
    check(t.sum(), x.double().sum().float(), rtol=1e-4, atol=0.1)
