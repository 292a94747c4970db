"""gt.special and the elementwise functions around it against PyTorch: values over the whole domain, gradients, second
gradients, signatures and errors. The op-table test has dtypes, shapes and views of the rows."""

import math

import pytest
import torch

import gt
from support import check, raises, to_gt, to_torch

INFINITY, NAN = float("inf"), float("nan")

# Arguments for each function: the interval in which it is smooth, for gradients, and how exact torch itself is (float64).
UNARY = {
    "digamma": (-6.3, 30, 1e-12),
    "entr": (0.01, 9, 1e-13),
    "erf": (-4, 4, 1e-13),
    "erfc": (-4, 9, 1e-12),
    "erfcx": (-5, 60, 1e-13),
    "erfinv": (-0.999, 0.999, 1e-12),
    "expit": (-30, 30, 1e-13),
    "gammaln": (-6.3, 300, 1e-12),
    "i0": (-30, 30, 1e-13),
    "i0e": (-30, 300, 1e-13),
    "i1": (-30, 30, 1e-13),
    "i1e": (-30, 300, 1e-13),
    "log_ndtr": (-40, 8, 1e-12),
    "logit": (0.001, 0.999, 1e-12),
    "ndtr": (-8, 8, 1e-12),
    "ndtri": (0.001, 0.999, 1e-13),
    "sinc": (-9, 9, 1e-12),
    "psi": (0.1, 30, 1e-12),
}
# torch's own errors are larger: a constant of j0, y0 and the Airy function is not exact.
WITHOUT_GRADIENT = {
    "bessel_j0": (-20, 20, 1e-3),
    "bessel_j1": (-20, 20, 1e-6),
    "bessel_y0": (0.1, 20, 1e-3),
    "bessel_y1": (0.1, 20, 1e-6),
    "modified_bessel_k0": (0.01, 40, 1e-13),
    "modified_bessel_k1": (0.01, 40, 1e-13),
    "scaled_modified_bessel_k0": (0.01, 400, 1e-13),
    "scaled_modified_bessel_k1": (0.01, 400, 1e-13),
    "spherical_bessel_j0": (-30, 30, 1e-12),
    "airy_ai": (-20, 20, 1e-3),
}
EXTREMES = [NAN, INFINITY, -INFINITY, 0.0, -0.0, 1.0, -1.0, 0.5, 1e-40, -1e-40, 5e-324, 1e-300, 1e300, -1e300, 1e8, 171.5]


@pytest.mark.parametrize("name", [*UNARY, *WITHOUT_GRADIENT])
def test_values(name):
    low, high, error = {**UNARY, **WITHOUT_GRADIENT}[name]
    ours, theirs = getattr(gt.special, name), getattr(torch.special, name)
    x = torch.linspace(low, high, 2001, dtype=torch.float64)
    check(ours(to_gt(x)), theirs(x), rtol=10 * error, atol=error)
    check(ours(to_gt(x.float())), theirs(x.float().double()).float(), rtol=max(2e-6, 10 * error), atol=max(6e-7, error))
    if error < 1e-6:
        x = torch.tensor(EXTREMES, dtype=torch.float64)
        check(ours(to_gt(x)), theirs(x), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", UNARY)
def test_gradients(name):
    low, high, _ = UNARY[name]
    x = torch.linspace(low, high, 36, dtype=torch.float64)
    compare_gradients(getattr(gt.special, name), getattr(torch.special, name), x)


def compare_gradients(ours, theirs, *inputs, which=None, rtol=1e-9):
    """Gradients, and the gradients of their squares, by the inputs (or some of them)."""
    mine, other = [to_gt(x) for x in inputs], [x.clone() for x in inputs]
    chosen = range(len(inputs)) if which is None else which
    for k in chosen:
        mine[k].requires_grad = other[k].requires_grad = True
    gradients = gt.grad(ours(*mine).sum(), [mine[k] for k in chosen], create_graph=True)
    expected = torch.autograd.grad(theirs(*other).sum(), [other[k] for k in chosen], create_graph=True)
    for a, b in zip(gradients, expected):
        check(a.detach(), b.detach(), "gradient", rtol=rtol, atol=1e-10)
    try:
        expected = torch.autograd.grad(sum((b * b).sum() for b in expected), [other[k] for k in chosen], allow_unused=True)
    except (RuntimeError, NotImplementedError):
        return
    for k, b in zip(chosen, expected):
        (a,) = gt.grad(sum((g * g).sum() for g in gradients), [mine[k]], retain_graph=True, allow_unused=True)
        if b is not None:
            check(a, b, "second gradient", rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_polygamma(n):
    x = torch.linspace(0.2, 20, 50, dtype=torch.float64)
    check(gt.polygamma(n, to_gt(x)), torch.polygamma(n, x), rtol=1e-9)
    check(to_gt(x).polygamma(n), torch.polygamma(n, x), rtol=1e-9)
    compare_gradients(lambda t: gt.polygamma(n, t), lambda t: torch.polygamma(n, t), x, rtol=1e-8)
    check(gt.special.polygamma(n, to_gt(x.float())), torch.polygamma(n, x).float())


@pytest.mark.parametrize("p", [1, 2, 5])
def test_mvlgamma(p):
    x = torch.linspace(3, 20, 30, dtype=torch.float64)
    for name in ("gt.mvlgamma", "gt.special.multigammaln"):
        ours = gt.mvlgamma if name == "gt.mvlgamma" else gt.special.multigammaln
        check(ours(to_gt(x), p), torch.mvlgamma(x, p), name)
    compare_gradients(lambda t: t.mvlgamma(p), lambda t: t.mvlgamma(p), x)
    check(gt.mvlgamma(to_gt(torch.arange(4, 9)), p), torch.mvlgamma(torch.arange(4, 9), p))
    raises(RuntimeError, lambda: gt.ones(2).mvlgamma(0), "greater than or equal to 1")


def test_incomplete_gamma():
    a = torch.logspace(-2, 4, 61, dtype=torch.float64)[:, None]
    x = a * torch.linspace(0.05, 2.5, 50, dtype=torch.float64)
    for ours, theirs in ((gt.igamma, torch.igamma), (gt.special.gammaincc, torch.igammac)):
        check(ours(to_gt(a), to_gt(x)), theirs(a, x), rtol=2e-8, atol=1e-14)
        check(ours(to_gt(a.float()), to_gt(x.float())), theirs(a.float().double(), x.float().double()).float(), atol=1e-7)
    total = gt.igamma(to_gt(a), to_gt(x)) + gt.igammac(to_gt(a), to_gt(x))
    check(total, torch.ones_like(x), rtol=4e-16, atol=0)
    some = torch.tensor([0.5, 2.0, 30.0], dtype=torch.float64)
    for name in ("igamma", "igammac"):
        compare_gradients(getattr(gt, name), getattr(torch, name), some, some + 1, which=[1])
        t = to_gt(some).requires_grad_()
        raises(NotImplementedError, lambda: getattr(gt, name)(t, gt.tensor(1.5)).sum().backward(), f"'{name}: input' is not implemented")


def test_zeta():
    s = torch.linspace(1.01, 30, 40, dtype=torch.float64)[:, None]
    q = torch.linspace(0.05, 40, 30, dtype=torch.float64)
    check(gt.special.zeta(to_gt(s), to_gt(q)), torch.special.zeta(s, q))
    q, s = torch.linspace(-20.3, -0.1, 30, dtype=torch.float64), torch.tensor([[2.0], [3.0], [6.0]], dtype=torch.float64)
    check(gt.special.zeta(to_gt(s), to_gt(q)), torch.special.zeta(s, q))
    check(gt.special.zeta(2, to_gt(s)), torch.special.zeta(2, s))
    check(gt.special.zeta(to_gt(s), 3), torch.special.zeta(s, 3))
    compare_gradients(gt.special.zeta, torch.special.zeta, s, s + 0.5, which=[1])
    t = gt.tensor([2.0]).requires_grad_()
    raises(NotImplementedError, lambda: gt.special.zeta(t, 1.0).backward(), "zeta")


@pytest.mark.parametrize("name", ["xlogy", "xlog1py"])
def test_products_with_logarithms(name):
    ours, theirs = getattr(gt.special, name), getattr(torch.special, name)
    x = torch.tensor([0.0, 0.0, 0.0, 1.5, -2.0, NAN, 0.0, 3.0], dtype=torch.float64)
    y = torch.tensor([0.0, -3.0, NAN, 2.0, 0.5, 1.0, INFINITY, 0.0], dtype=torch.float64)
    check(ours(to_gt(x), to_gt(y)), theirs(x, y))
    check(ours(2, to_gt(y)), theirs(2, y))
    check(ours(0, to_gt(y)), theirs(0, y))
    check(ours(to_gt(x), 3), theirs(x, 3))
    if name == "xlogy":
        check(to_gt(x).xlogy(to_gt(y)), x.xlogy(y))
        check(gt.xlogy(0.0, to_gt(y.float())), torch.xlogy(0.0, y.float()))
    compare_gradients(ours, theirs, x[[0, 1, 3, 4, 6, 7]], y[[0, 1, 3, 4, 6, 7]].abs())
    compare_gradients(lambda t: ours(t, 2.0), lambda t: theirs(t, 2.0), x[3:5])
    compare_gradients(lambda t: ours(1.5, t), lambda t: theirs(1.5, t), y[3:5])


def test_logit_with_bounds():
    x = torch.tensor([-1.0, 0.0, 0.05, 0.1, 0.5, 0.9, 0.95, 1.0, 2.0], dtype=torch.float64)
    for eps in (None, 0.1, 0.0):
        check(gt.logit(to_gt(x), eps), torch.logit(x, eps))
        check(gt.special.logit(to_gt(x), eps=eps), torch.special.logit(x, eps=eps))
        compare_gradients(lambda t: gt.logit(t, eps), lambda t: torch.logit(t, eps), x[2:7])
    t = to_gt(x)
    assert t.logit_(0.1) is t
    check(t, torch.logit(x, 0.1))


def test_gradient_of_entropy_terms_at_zero():
    x = torch.tensor([0.0, 0.3], dtype=torch.float64)
    compare_gradients(gt.special.entr, torch.special.entr, x[1:])
    t = to_gt(x).requires_grad_()
    gt.special.entr(t).sum().backward()
    other = x.clone().requires_grad_()
    torch.special.entr(other).sum().backward()
    check(t.grad, other.grad)


def test_functions_without_gradient_do_not_require_one():
    t = gt.tensor([0.5]).requires_grad_()
    assert not gt.special.bessel_j0(t).requires_grad
    assert not gt.special.hermite_polynomial_h(t, 2).requires_grad
    for name in ("nextafter", "heaviside"):
        raises(NotImplementedError, lambda: getattr(gt, name)(t, t.detach()).backward(), name)


def test_polynomials_of_high_degree():
    x = torch.linspace(-1, 1, 41, dtype=torch.float64)
    for name in ("chebyshev_polynomial_t", "chebyshev_polynomial_u", "legendre_polynomial_p", "shifted_chebyshev_polynomial_w"):
        check(getattr(gt.special, name)(to_gt(x), 100), getattr(torch.special, name)(x, 100), name, rtol=1e-9, atol=1e-9)
    check(gt.special.hermite_polynomial_h(gt.ones(1), 200), torch.special.hermite_polynomial_h(torch.ones(1), 200))  # NaN
    raises(TypeError, lambda: gt.special.legendre_polynomial_p(1, 2), "Tensor")


def test_every_name_of_torch_special():
    listed = {name for name in dir(torch.special) if not name.startswith("_")} - {
        "Tensor", "torch", "common_args", "multi_dim_common"}
    assert listed <= set(dir(gt.special)), listed - set(dir(gt.special))
    assert listed <= set(gt.special.__all__)


# ---- parts of numbers, and integers ---------------------------------------------------------------------------


def test_frexp_and_ldexp():
    x = torch.tensor([0.0, -0.0, 1.0, -3.5, 1e-310, 5e-324, 1e300, INFINITY, NAN], dtype=torch.float64)
    mantissa, exponent = gt.frexp(to_gt(x))
    check(mantissa, torch.frexp(x).mantissa, rtol=0, atol=0)
    check(exponent[:7], torch.frexp(x).exponent[:7])
    check(gt.ldexp(mantissa, exponent)[:4], x[:4])
    for a, b in ((torch.tensor([3, 4]), torch.tensor([2, -1])), (torch.tensor([1.5]), torch.tensor([10]))):
        check(gt.ldexp(to_gt(a), to_gt(b)), torch.ldexp(a, b))
    compare_gradients(lambda t: gt.frexp(t).mantissa, lambda t: torch.frexp(t).mantissa, x[2:4])
    raises(RuntimeError, lambda: gt.arange(3).frexp(), "floating-point")


def test_gcd_and_lcm():
    a = torch.tensor([0, 0, 12, -12, 7, 1 << 40, -(1 << 62)])
    b = torch.tensor([0, 5, 18, 18, -13, 1 << 20, 6])
    for dtype in (torch.int64, torch.int32, torch.int8, torch.uint8):
        x, y = (a[:5], b[:5]) if dtype != torch.int64 else (a, b)
        x, y = (x.abs(), y.abs()) if dtype == torch.uint8 else (x, y)
        check(gt.gcd(to_gt(x.to(dtype)), to_gt(y.to(dtype))), torch.gcd(x.to(dtype), y.to(dtype)))
        check(gt.lcm(to_gt(x[:5].to(dtype)), to_gt(y[:5].to(dtype))), torch.lcm(x[:5].to(dtype), y[:5].to(dtype)))
    t = to_gt(a)
    assert t.gcd_(to_gt(b)) is t
    check(t, torch.gcd(a, b))
    raises((TypeError, RuntimeError), lambda: gt.gcd(gt.ones(2), gt.ones(2)), "gcd")
    raises((TypeError, RuntimeError), lambda: gt.lcm(gt.ones(2) > 0, gt.ones(2) > 0), "lcm")


def test_logaddexp2_and_hypot():
    x = torch.tensor([0.0, 1.0, -INFINITY, INFINITY, 200.0, -3.0, NAN], dtype=torch.float64)
    y = torch.tensor([0.0, -5.0, -INFINITY, INFINITY, 1.0, -3.5, 1.0], dtype=torch.float64)
    check(gt.logaddexp2(to_gt(x), to_gt(y)), torch.logaddexp2(x, y))
    compare_gradients(gt.logaddexp2, torch.logaddexp2, x[[1, 4, 5]], y[[1, 4, 5]])
    compare_gradients(gt.hypot, torch.hypot, x[[1, 4, 5]], y[[1, 4, 5]])


def test_float_power():
    x = torch.tensor([1, 2, 3])
    check(gt.float_power(to_gt(x), 2), torch.float_power(x, 2))
    check(gt.float_power(2, to_gt(x)), torch.float_power(2, x))
    check(gt.float_power(to_gt(x.float()), to_gt(-x)), torch.float_power(x.float(), -x))


def test_signs():
    x = torch.tensor([-2.0, -0.0, 0.0, 3.0, NAN, -INFINITY])
    for name in ("sgn", "sign", "signbit"):
        check(getattr(gt, name)(to_gt(x)), getattr(torch, name)(x), name)
    assert to_torch(gt.copysign(to_gt(x), -1.0)).signbit().all()
    assert math.copysign(1, to_gt(x)[1].item()) == -1


# ---- slopes of samples ------------------------------------------------------------------------------------------


def test_slope_of_gamma_samples_is_the_derivative_at_a_fixed_quantile():
    """dx/da while igamma(a, x) stays: by finite differences of igamma."""
    a = torch.tensor([0.1, 0.5, 1.0, 3.0, 9.0, 25.0, 80.0, 1e3], dtype=torch.float64)[:, None]
    x = a * torch.tensor([0.4, 0.8, 1.0, 1.3, 2.0], dtype=torch.float64)
    t, u = to_gt(a), to_gt(x)
    step = 1e-5
    by_a = (gt.igamma(t * (1 + step), u) - gt.igamma(t * (1 - step), u)) / (2 * step * t)
    density = ((t - 1) * u.log() - u - t.lgamma()).exp()
    expected = to_torch(-by_a / density)
    where = to_torch(density) > 1e-6
    got = to_torch(gt.standard_gamma_grad(t, u))
    assert torch.allclose(got[where], expected[where], rtol=1e-4)
    assert torch.allclose(got, torch._standard_gamma_grad(*torch.broadcast_tensors(a, x)), rtol=6e-3)


def test_slope_of_dirichlet_samples():
    a = torch.tensor([0.1, 0.5, 1.0, 3.0, 30.0], dtype=torch.float64)[:, None, None]
    b = torch.tensor([0.2, 1.0, 7.0], dtype=torch.float64)[:, None]
    x = torch.tensor([0.01, 0.3, 0.6, 0.95], dtype=torch.float64)
    x, a, total = torch.broadcast_tensors(x, a, a + b)
    got = to_torch(gt.dirichlet_grad(to_gt(x), to_gt(a), to_gt(total)))
    expected = torch._dirichlet_grad(x.contiguous(), a.contiguous(), total.contiguous())
    assert torch.allclose(got, expected, rtol=2e-2, atol=1e-6)
