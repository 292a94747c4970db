"""Result dtypes: all pairs of dtypes, Python numbers on either side, 0-d tensors, where, cat, in-place."""

import operator

import pytest
import torch

import gt
from gt._gt import op_table
from table_operands import torch_function
from support import DTYPES, FLOATS, INTEGERS, Collector, check, raises, to_gt, torch_dtype, torch_promotion, values

# Two rows are not functions of PyTorch's: test_special.py and test_random.py judge them.
BINARY = {name: types for name, form, types, _ in op_table()
          if form == "BINARY" and name not in ("polynomial", "standard_gamma_grad")}
DIVISIONS = ("remainder", "floor_divide", "trunc_divide", "fmod", "pow")


def refused(name, left, right):
    """Pairs that a row does not accept: by the types column, and subtraction with a bool."""
    kind = torch_promotion(torch_dtype(left), torch_dtype(right))
    if name == "sub" and "bool" in (left, right):
        return True
    without_bool, without_floats = BINARY[name] in ("ARITH", "INT"), BINARY[name] in ("BITS", "INT")
    return (without_bool and kind == torch.bool) or (without_floats and kind.is_floating_point)


# Rows that torch has for floats only.
WANTS_FLOATS = ("logaddexp", "hypot")

SYMBOLS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def operand(name, shape, dtype, seed):
    """Values in the domain of a division or a power, for any dtype."""
    x = values(shape, dtype, seed)
    if name in DIVISIONS:
        return (x.abs() if dtype != "bool" else x).to(torch.float64).clamp(1, 3).to(x.dtype)
    return x


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("whole", ["int16", "int32", "int64"])
def test_integers_become_halves_before_they_are_compared(whole, dtype):
    for number in (257, 2049, 32767) if whole == "int16" else (257, 2049, 65520, 70000, 2**31 - 1):
        numbers = torch.full((24,), number, dtype=torch_dtype(whole))
        halves = numbers.to(torch_dtype(dtype))
        check(to_gt(numbers) == to_gt(halves), numbers == halves)
        check((to_gt(numbers) - to_gt(halves)).isnan(), (numbers - halves).isnan())


def judged(name, x, y):
    """PyTorch's result; None where it has no kernel for these dtypes (test_special.py compares what it has)."""
    try:
        return torch_function(name)(x, y)
    except (NotImplementedError, RuntimeError):
        assert name in ("nextafter", "logaddexp2", "heaviside"), name
        return None


@pytest.mark.parametrize("name", BINARY)
def test_all_pairs(name):
    cases, function, types = Collector(), getattr(gt, name), BINARY[name]
    for left in DTYPES:
        for right in DTYPES:
            x, y = operand(name, (2, 3), left, 1), operand(name, (2, 3), right, 2)
            call = f"gt.{name}({left}, {right})"
            if refused(name, left, right):
                raises((TypeError, RuntimeError), lambda: function(to_gt(x), to_gt(y)))
                continue
            if name in WANTS_FLOATS and not torch_promotion(x.dtype, y.dtype).is_floating_point:
                continue  # no kernel in torch; in test_ops_table.py
            kind = torch_promotion(x.dtype, y.dtype)
            reference = judged(name, x, y)
            if reference is None:
                continue
            if types in ("NUM", "ARITH", "BITS", "INT"):
                cases.true(f"the reference of {call} is {kind}", reference.dtype == kind)
            cases.same(call, lambda: function(to_gt(x), to_gt(y)), reference)
    cases.finish()


@pytest.mark.parametrize("name", BINARY)
def test_a_0d_tensor_promotes_between_categories_only(name):
    """PyTorch's dimension rule: bool < integers < floats; within its category a 0-d tensor follows the other."""
    cases, function = Collector(), getattr(gt, name)
    for left in DTYPES:
        for right in DTYPES:
            if refused(name, left, right):
                continue
            if name in WANTS_FLOATS and not torch_promotion(torch_dtype(left), torch_dtype(right)).is_floating_point:
                continue
            x, y = operand(name, (3,), left, 1), operand(name, (), right, 2)
            reference = judged(name, x, y)
            if reference is None:
                continue
            cases.same(f"gt.{name}({left}, 0-d {right})", lambda: function(to_gt(x), to_gt(y)), reference)
            x = operand(name, (), left, 3)
            y = operand(name, (3,), right, 4)
            cases.same(
                f"gt.{name}(0-d {left}, {right})",
                lambda: function(to_gt(x), to_gt(y)),
                torch_function(name)(x, y),
            )
    cases.finish()


@pytest.mark.parametrize("symbol", SYMBOLS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_on_either_side(symbol, dtype):
    cases, function = Collector(), SYMBOLS[symbol]
    if symbol == "-" and dtype == "bool":
        raises((TypeError, RuntimeError), lambda: to_gt(values((3,), "bool")) - True)
        return
    for shape in [(2, 3), (), (0,)]:
        x = operand("pow", shape, dtype, 1)
        for number in (True, False, 3, 1, 2.5, 0.5):
            if dtype == "bool" and symbol in ("//", "%", "**") and isinstance(number, int):
                continue  # refused by torch or without a kernel there
            if symbol == "-" and isinstance(number, bool):
                continue
            if symbol in ("/", "//", "%") and not number:
                continue
            for what, run, reference in [
                (
                    f"{dtype}{shape} {symbol} {number!r}",
                    lambda: function(to_gt(x), number),
                    lambda: function(x, number),
                ),
                (
                    f"{number!r} {symbol} {dtype}{shape}",
                    lambda: function(number, to_gt(x)),
                    lambda: function(number, x),
                ),
            ]:
                try:
                    wanted = reference()
                except (RuntimeError, NotImplementedError, ZeroDivisionError):
                    continue
                cases.same(what, run, wanted)
    cases.finish()


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_operators_on_tensors(symbol):
    cases, function = Collector(), SYMBOLS[symbol]
    for dtype in INTEGERS + FLOATS:
        x, y = operand("pow", (4, 1), dtype, 1), operand("pow", (3,), dtype, 2)
        cases.same(f"{dtype} {symbol} {dtype}", lambda: function(to_gt(x), to_gt(y)), function(x, y))
    cases.finish()


def test_logical_operators():
    cases = Collector()
    x, y = values((4, 5), "bool", 1), values((4, 5), "bool", 2)
    s, t = to_gt(x), to_gt(y)
    cases.same("&", lambda: s & t, x & y)
    cases.same("|", lambda: s | t, x | y)
    cases.same("^", lambda: s ^ t, x ^ y)
    cases.same("~", lambda: ~s, ~x)
    cases.same("& True", lambda: s & True, x & True)
    cases.same("| False", lambda: s | False, x | False)
    cases.finish()


BITS = {"&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift}


@pytest.mark.parametrize("symbol", BITS)
@pytest.mark.parametrize("dtype", ["bool", *INTEGERS])
def test_operators_on_bits(symbol, dtype):
    """Tensors of one and of two dtypes, numbers on either side, in place; what torch refuses, GT refuses."""
    cases, function = Collector(), BITS[symbol]
    x, y = values((4, 1), dtype, 1), values((3,), dtype, 2, low=0)
    pairs = [(x, y), (x, y.long()), (y.long(), x.abs() if dtype != "bool" else x), (x, 3), (2, y), (x, True)]
    for left, right in pairs:
        run = lambda: function(*(to_gt(t) if isinstance(t, torch.Tensor) else t for t in (left, right)))  # noqa: E731
        try:
            reference = function(left, right)
        except (RuntimeError, NotImplementedError):
            raises((RuntimeError, TypeError), run)
            continue
        cases.same(f"{left!r} {symbol} {right!r}", run, reference)
    raises((RuntimeError, TypeError), lambda: function(to_gt(x), 1.5), "not implemented for 'Float'")
    raises((RuntimeError, TypeError), lambda: function(to_gt(x.float()), to_gt(y)), "not implemented for 'Float'")
    if dtype != "bool":
        t, reference = to_gt(x), x.clone()
        t = getattr(operator, "i" + {"&": "and", "|": "or", "^": "xor", "<<": "lshift", ">>": "rshift"}[symbol])(t, 2)
        cases.same(f"{symbol}=", lambda: t, function(reference, 2))
        cases.same("~", lambda: ~to_gt(x), ~x)
    cases.finish()


def test_shifts_beyond_the_width():
    cases = Collector()
    for dtype in INTEGERS:
        x = torch.tensor([1, 5, 127, 0], dtype=torch_dtype(dtype))
        x = x if dtype == "uint8" else torch.cat([x, -x])
        for count in (7, 8, 31, 32, 63, 64, 100):
            y = torch.full_like(x, count)
            cases.same(f"{dtype} << {count}", lambda: to_gt(x) << to_gt(y), x << y)
            cases.same(f"{dtype} >> {count}", lambda: to_gt(x) >> to_gt(y), x >> y)
    cases.finish()


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
@pytest.mark.parametrize("mode", [None, "floor", "trunc"])
def test_div_rounding_mode(dtype, mode):
    cases = Collector()
    x = torch.tensor([7, 6, 5, 3, 0, 1], dtype=torch_dtype(dtype))
    y = torch.tensor([2, 3, 4, 5, 7, 1], dtype=torch_dtype(dtype))
    signs = [1] if dtype == "uint8" else [1, -1]
    for a in signs:
        for b in signs:
            cases.same(
                f"{a} {b}",
                lambda: gt.div(to_gt(x * a), to_gt(y * b), rounding_mode=mode),
                torch.div(x * a, y * b, rounding_mode=mode),
            )
    raises((RuntimeError, ValueError), lambda: gt.div(to_gt(x), to_gt(y), rounding_mode="up"), "rounding_mode")
    cases.finish()


def test_a_minus_with_a_bool_is_refused():
    t, b = gt.tensor([1, 2]), gt.tensor([True, False])
    for run in (lambda: t - True, lambda: t - b, lambda: b - t, lambda: b - 1, lambda: True - t, lambda: b - 1.5):
        raises((RuntimeError, TypeError), run, "Subtraction")


def test_unary_operators():
    x = values((4,), "float32", 1)
    check(-to_gt(x), -x)
    check(+to_gt(x), x)
    check(abs(to_gt(x)), abs(x))


def test_where():
    cases, condition = Collector(), values((2, 3), "bool", 9)
    c = to_gt(condition)
    for left in DTYPES:
        for right in DTYPES:
            x, y = values((2, 3), left, 1), values((2, 3), right, 2)
            kind = torch_promotion(x.dtype, y.dtype)
            cases.same(
                f"where({left}, {right})",
                lambda: gt.where(c, to_gt(x), to_gt(y)),
                torch.where(condition, x.to(kind), y.to(kind)),
            )
        x = values((2, 3), left, 3)
        for number in (True, 2, 2.5):
            cases.same(
                f"where({left}, {number!r})",
                lambda: gt.where(c, to_gt(x), number),
                torch.where(condition, x, number),
            )
            cases.same(
                f"where({number!r}, {left})",
                lambda: gt.where(c, number, to_gt(x)),
                torch.where(condition, number, x),
            )
    for one, other in [(1, 2), (1.5, 2), (True, False), (1, 2.5)]:
        cases.same(
            f"where({one!r}, {other!r})", lambda: gt.where(c, one, other), torch.where(condition, one, other)
        )
    cases.finish()


def test_cat_and_stack_promote():
    cases = Collector()
    for left in DTYPES:
        for right in DTYPES:
            x, y = values((3,), left, 1), values((3,), right, 2)
            kind = torch_promotion(x.dtype, y.dtype)
            cases.same(
                f"cat({left}, {right})", lambda: gt.cat([to_gt(x), to_gt(y)]), torch.cat([x.to(kind), y.to(kind)])
            )
    cases.finish()


@pytest.mark.parametrize("dtype", DTYPES)
def test_in_place_keeps_the_dtype(dtype):
    """t += x computes in the promoted dtype and stores in t's; a higher category is refused, as in torch."""
    for number in (2, 1.5):
        x = values((3,), dtype, 1)
        t, reference = to_gt(x), x.clone()
        try:
            reference += number
        except RuntimeError:

            def run():
                nonlocal t
                t += number

            raises((RuntimeError, TypeError), run)
            check(t, x, "an operand of a refused +=")
        else:
            t += number
            check(t, reference, f"{dtype} += {number}")


def test_promote_types_is_torch_s():
    if not hasattr(gt, "promote_types"):
        return  # not in the public interface of this version
    for left in DTYPES:
        for right in DTYPES:
            wanted = torch_promotion(torch_dtype(left), torch_dtype(right))
            assert str(gt.promote_types(getattr(gt, left), getattr(gt, right))).endswith(str(wanted).split(".")[1])


def test_int64_arithmetic_is_exact():
    big = 2**53 + 1
    t = gt.tensor([big, -big])
    assert (t + 1).tolist() == [big + 1, -big + 1]
    assert (t * 1).tolist() == [big, -big]
    assert (t - t).tolist() == [0, 0]
    assert gt.full((2,), big).tolist() == [big, big]
    assert gt.tensor(2**62).item() == 2**62
    assert gt.tensor([2**62, 1]).sum().item() == 2**62 + 1
    assert gt.tensor([big]).max().item() == big


def test_integers_wrap():
    cases = Collector()
    for dtype in INTEGERS:
        limits = torch.iinfo(torch_dtype(dtype))
        x = torch.tensor([limits.max, limits.min], dtype=torch_dtype(dtype))
        cases.same(f"{dtype} + 1", lambda: to_gt(x) + 1, x + 1)
        cases.same(f"{dtype} * 2", lambda: to_gt(x) * 2, x * 2)
        cases.same(f"{dtype} - x", lambda: 0 - to_gt(x), 0 - x)
    cases.finish()


def test_integer_powers_and_divisions_follow_python():
    cases = Collector()
    x, y = torch.tensor([7, -7, 7, -7, 0]), torch.tensor([2, 2, -2, -2, 3])
    cases.same("//", lambda: to_gt(x) // to_gt(y), x // y)
    cases.same("%", lambda: to_gt(x) % to_gt(y), x % y)
    base, power = torch.tensor([2, 1, -1, -1, 3]), torch.tensor([-1, -2, -3, -2, 0])
    cases.same("negative powers of tensors", lambda: to_gt(base) ** to_gt(power), base**power)
    x, y = torch.tensor([7.5, -7.5, 7.5, -7.5]), torch.tensor([2.0, 2.0, -2.0, -2.0])
    cases.same("float //", lambda: to_gt(x) // to_gt(y), x // y)
    cases.same("float %", lambda: to_gt(x) % to_gt(y), x % y)
    cases.finish()


def test_comparisons_with_non_numbers():
    t = gt.tensor([1, 2])
    assert (t == None) is False  # noqa: E711
    assert (t != None) is True  # noqa: E711
    assert (t == "text") is False
    with pytest.raises(TypeError):
        t < "text"
    with pytest.raises(TypeError):
        t + "text"
    with pytest.raises(TypeError):
        t + None
