"""The rows of special functions that take numbers, or whose functions take them in another order, against PyTorch."""

import torch

import gt
from support import FLOATS, raises, to_gt, to_torch, torch_dtype, values
from table_operands import SPECIAL_FLOATS, VIEWS, operands


def wide(x):
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def one_operand(dtype, thorough=True):
    """All shapes and views, or (for further kinds of one row) one view."""
    cases = operands(dtype, 3)
    yield from cases if thorough else (case for case in cases if case[0] in ("shape (5, 6)", "transposed"))
    if dtype in FLOATS:
        x = torch.tensor(SPECIAL_FLOATS, dtype=torch.float64).to(torch_dtype(dtype))
        yield "special values", to_gt(x), x


def result_dtype(x):
    return x.dtype if x.is_floating_point() else torch.float32


def check_polygamma(name, types, dtype, cases):
    for n in (0, 1, 2, 5):
        for what, t, x in one_operand(dtype, n == 2):
            x = x[~((wide(x) <= 0) & (wide(x) == wide(x).trunc()))] if n == 1 else x  # poles: rounding errors in torch
            t = to_gt(x) if n == 1 else t
            expected = torch.polygamma(n, wide(x).double()).to(result_dtype(x))
            cases.same(f"polygamma({n}, {what})", lambda: gt.polygamma(n, t), expected,
                       rtol=1e-2 if dtype in FLOATS[:2] else 1e-6 if n == 1 else None)  # torch's trigamma has ten digits
    raises(RuntimeError, lambda: gt.polygamma(-1, gt.ones(2)), "negative n")


def check_logit(name, types, dtype, cases):
    for eps in (None, 0.0, 0.1, 0.3):
        for what, t, x in one_operand(dtype, eps == 0.1):
            cases.same(f"logit({what}, {eps})", lambda: gt.logit(t, eps), torch.logit(wide(x), eps).to(result_dtype(x)))


def check_bessel(name, types, dtype, cases):
    if dtype in FLOATS[:2]:
        cases.true("torch has no functions of half precision", True)
        return
    for kind in gt.client.special.BESSEL:
        function = getattr(torch.special, kind)
        for what, t, x in one_operand(dtype, kind == "modified_bessel_k0"):
            x = wide(x)
            expected = function(x.double()).to(result_dtype(x))
            # torch's own errors: a constant of j0, y0 and the Airy function is not exact
            options = dict(rtol=2e-3, atol=1e-5) if kind in ("airy_ai", "bessel_j0", "bessel_y0") else dict(rtol=2e-5, atol=1e-6)
            cases.same(f"{kind}({what})", lambda: getattr(gt.special, kind)(t), expected, **options)


def check_polynomial(name, types, dtype, cases):
    degrees = torch.tensor([-1, 0, 1, 2, 3, 5, 7, 9, 12, 20])
    x = torch.tensor([-1.0, -0.7, -0.01, 0.0, 0.3, 0.99, 1.0, 1.5, 3.0], dtype=torch.float64)
    x = (x if dtype in FLOATS else x.abs()).to(torch_dtype(dtype))[:, None]
    for kind in gt.client.special.POLYNOMIALS:
        function, ours = getattr(torch.special, kind), getattr(gt.special, kind)
        expected = function(wide(x).double(), degrees.double()).to(result_dtype(x))
        rtol = {"float64": 1e-9, "float32": 1e-4}.get(dtype, 2e-2)
        cases.same(f"{kind}", lambda: ours(to_gt(x), to_gt(degrees)), expected, rtol=rtol, atol=1e-4)
        cases.same(f"{kind} of a number", lambda: ours(0.5, to_gt(degrees.double())), function(0.5, degrees.double()), rtol=1e-9)
        cases.same(f"{kind} of degree 4", lambda: ours(to_gt(x), 4), function(wide(x), 4).to(result_dtype(x)), rtol=rtol, atol=1e-4)


def check_nextafter(name, types, dtype, cases):
    if dtype not in FLOATS:
        raises(NotImplementedError, lambda: gt.nextafter(to_gt(values((3,), dtype)), to_gt(values((3,), dtype))), "nextafter")
        cases.true("refused", True)
        return
    info = torch.finfo(torch_dtype(dtype))
    special = [*SPECIAL_FLOATS, info.max, -info.max, info.tiny, info.smallest_normal / 2, 2.0, 4.0]
    x = torch.tensor(special, dtype=torch.float64).to(torch_dtype(dtype))
    cases.same("special values", lambda: gt.nextafter(to_gt(x[:, None]), to_gt(x)), torch.nextafter(x[:, None], x), rtol=0, atol=0)
    for what, shape, torch_view, gt_view in VIEWS:
        a, b = values(shape, dtype, 1), values(shape, dtype, 2)
        cases.same(what, lambda: gt.nextafter((gt_view or torch_view)(to_gt(a)), (gt_view or torch_view)(to_gt(b))),
                   torch.nextafter(torch_view(a), torch_view(b)), rtol=0, atol=0)


def check_heaviside(name, types, dtype, cases):
    raises(RuntimeError, lambda: gt.heaviside(gt.ones(2), gt.ones(2, dtype=gt.int64)), "different dtypes")
    for what, t, x in one_operand(dtype):
        y = values(tuple(x.shape), dtype, 5)
        cases.same(what, lambda: gt.heaviside(t, to_gt(y)), torch.heaviside(x, y))
        if dtype != "bool":
            cases.same(what + ", zeros", lambda: gt.heaviside(t * 0, to_gt(y)), torch.heaviside(x * 0, y))


def check_frexp(name, types, dtype, cases):
    part = ("mantissa", "exponent")[name == "frexp_exponent"]
    if dtype not in FLOATS:
        raises(RuntimeError, lambda: gt.frexp(to_gt(values((3,), dtype))), "floating-point")
        cases.true("refused", True)
        return
    for what, t, x in one_operand(dtype):
        expected, finite = getattr(torch.frexp(x), part), wide(x).isfinite()
        if part == "exponent":
            expected = torch.where(finite, expected, 0)  # the C library leaves open what infinity's is
        cases.same(what, lambda: getattr(gt.frexp(t), part), expected)


def positive(shape, dtype, seed):
    return values(shape, "float64", seed).abs().add(0.05).to(torch_dtype(dtype) if dtype in FLOATS else torch.float32)


def check_standard_gamma_grad(name, types, dtype, cases):
    dtype = dtype if dtype in FLOATS else "float32"
    for shape in ((), (0,), (40,), (7, 9)):
        a, x = positive(shape, dtype, 1), positive(shape, dtype, 2)
        expected = torch._standard_gamma_grad(wide(a).double(), wide(x).double()).to(a.dtype)
        # torch's approximation is good to some thousandths
        cases.same(f"shape {shape}", lambda: gt.standard_gamma_grad(to_gt(a), to_gt(x)), expected, rtol=1e-2)


def check_dirichlet_grad(name, types, dtype, cases):
    dtype = dtype if dtype in FLOATS else "float32"
    for shape in ((), (0,), (40,), (7, 9)):
        a, b = positive(shape, dtype, 1), positive(shape, dtype, 2)
        x = torch.rand(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).mul(0.9).add(0.05).to(a.dtype)
        expected = torch._dirichlet_grad(wide(x).double(), wide(a).double(), wide(a + b).double()).to(a.dtype)
        cases.same(f"shape {shape}", lambda: gt.dirichlet_grad(to_gt(x), to_gt(a), to_gt(a + b)), expected,
                   rtol=2e-2 if dtype in FLOATS[2:] else 6e-2)


def check_draws(name, types, dtype, cases):
    """The moments are in test_distributions.py; here: dtypes, shapes, views, limits, refusals, and the same numbers again."""
    draw = {"standard_gamma": gt._standard_gamma, "dirichlet": gt._sample_dirichlet, "poisson": gt.poisson}.get(name)
    draw = draw or (lambda t: gt.binomial(t, t))
    if dtype not in FLOATS:
        raises((TypeError, RuntimeError), lambda: draw(to_gt(values((3,), dtype))), "float")
        cases.true("refused", True)
        return
    for what, t, x in operands(dtype, 4):
        if name == "dirichlet" and x.dim() == 0:
            continue
        parameter = t.abs() + 0.5 if name != "binomial" else t.sigmoid()
        results = []
        for _ in range(2):
            gt.manual_seed(4)
            results.append(to_torch(draw(parameter)))
        cases.true(f"{what}: shape and dtype", results[0].shape == x.shape and results[0].dtype == x.dtype)
        cases.true(f"{what}: the same again", torch.equal(results[0], results[1]))
        cases.true(f"{what}: in range", bool((results[0] >= 0).all() and results[0].isfinite().all()))
    limits = torch.tensor([0.0, float("nan")]).to(torch_dtype(dtype))
    if name != "dirichlet":
        drawn = to_torch(draw(to_gt(limits)))
        cases.true("zero and NaN", drawn[0] <= 1e-4 and bool(drawn[1].isnan()))


CHECKS = {
    "poisson": check_draws,
    "binomial": check_draws,
    "standard_gamma": check_draws,
    "dirichlet": check_draws,
    "polygamma": check_polygamma,
    "logit": check_logit,
    "bessel": check_bessel,
    "polynomial": check_polynomial,
    "nextafter": check_nextafter,
    "heaviside": check_heaviside,
    "frexp_mantissa": check_frexp,
    "frexp_exponent": check_frexp,
    "standard_gamma_grad": check_standard_gamma_grad,
    "dirichlet_grad": check_dirichlet_grad,
}
