"""Linear algebra of complex matrices against torch: values, dtypes, and gradients twice."""

import pytest
import torch

import gt
from support import raises


def hermitian(T, x):
    """A positive definite matrix from any."""
    return x @ x.mH + 2 * T.eye(x.shape[-1], dtype=x.dtype)


def determined(vectors):
    """What does not depend on the phases of singular vectors."""
    u, s, vh = vectors
    return u.abs(), s, vh.abs(), u[..., :, :1] @ vh[..., :1, :]


SQUARE, TALL, WIDE = (2, 4, 4), (2, 5, 3), (2, 3, 5)
FUNCTIONS = {
    "det": (lambda T, x: T.linalg.det(x), SQUARE),
    "det of singular": (lambda T, x: T.linalg.det(x[..., :1] * x[..., :1, :]), (3, 3)),
    "slogdet": (lambda T, x: tuple(T.linalg.slogdet(x)), SQUARE),
    "sign": (lambda T, x: T.linalg.slogdet(x)[0].real, SQUARE),
    "logdet": (lambda T, x: T.logdet(x).imag, (4, 4)),
    "inv": (lambda T, x: T.linalg.inv(x), SQUARE),
    "pinv": (lambda T, x: T.linalg.pinv(x), TALL),
    "pinv of wide": (lambda T, x: T.linalg.pinv(x), WIDE),
    "pinv of Hermitian": (lambda T, x: T.linalg.pinv(hermitian(T, x), hermitian=True), SQUARE),
    "cholesky": (lambda T, x: T.linalg.cholesky(hermitian(T, x)), SQUARE),
    "cholesky upper": (lambda T, x: T.linalg.cholesky(hermitian(T, x), upper=True), SQUARE),
    "cholesky of any": (lambda T, x: T.linalg.cholesky(x + 4 * T.eye(3, dtype=x.dtype)).abs(), (3, 3)),
    "cholesky_inverse": (lambda T, x: T.cholesky_inverse(T.linalg.cholesky(hermitian(T, x))), SQUARE),
    "cholesky_solve": (lambda T, x, y: T.cholesky_solve(y, T.linalg.cholesky(hermitian(T, x))), SQUARE, (2, 4, 3)),
    "qr": (lambda T, x: tuple(T.linalg.qr(x)), TALL),
    "qr of square": (lambda T, x: tuple(T.linalg.qr(x)), SQUARE),
    "qr of wide": (lambda T, x: tuple(T.linalg.qr(x)), WIDE),
    "svdvals": (lambda T, x: T.linalg.svdvals(x), TALL),
    "svd": (lambda T, x: determined(T.linalg.svd(x, full_matrices=False)), TALL),
    "svd of wide": (lambda T, x: determined(T.linalg.svd(x, full_matrices=False)), WIDE),
    "eigvalsh": (lambda T, x: T.linalg.eigvalsh(hermitian(T, x)), SQUARE),
    "eigh": (lambda T, x: (lambda w, v: (w, v.abs()))(*T.linalg.eigh(hermitian(T, x))), SQUARE),
    "eigh upper": (lambda T, x: (lambda w, v: (w, v.abs()))(*T.linalg.eigh(x + x.mH, "U")), SQUARE),
    "lu": (lambda T, x: tuple(T.linalg.lu(x))[1:], SQUARE),
    "lu of tall": (lambda T, x: tuple(T.linalg.lu(x))[1:], TALL),
    "lu of wide": (lambda T, x: tuple(T.linalg.lu(x))[1:], WIDE),
    "lu_solve": (lambda T, x, y: T.linalg.lu_solve(*T.linalg.lu_factor(x), y), SQUARE, (2, 4, 3)),
    "lu_solve right": (lambda T, x, y: T.linalg.lu_solve(*T.linalg.lu_factor(x), y, left=False), (4, 4), (3, 4)),
    "lu_solve adjoint": (lambda T, x, y: T.linalg.lu_solve(*T.linalg.lu_factor(x), y, adjoint=True), (4, 4), (4, 3)),
    "solve": (lambda T, x, y: T.linalg.solve(x, y), SQUARE, (2, 4, 3)),
    "solve_ex": (lambda T, x, y: T.linalg.solve_ex(x, y)[0], SQUARE, (2, 4, 3)),
    "lstsq": (lambda T, x, y: T.linalg.lstsq(x, y)[0], TALL, (2, 5, 2)),
    "nuclear norm": (lambda T, x: T.linalg.matrix_norm(x, "nuc"), TALL),
    "norm 2": (lambda T, x: T.linalg.matrix_norm(x, 2), TALL),
    "cond": (lambda T, x: T.linalg.cond(x), SQUARE),
    "matrix_exp": (lambda T, x: T.linalg.matrix_exp(x), SQUARE),
    "matrix_power": (lambda T, x: T.linalg.matrix_power(x, -3), SQUARE),
    "householder_product": (lambda T, x, tau: T.linalg.householder_product(x, tau), (5, 3), (3,)),
    "ormqr": (lambda T, x, tau, y: T.ormqr(x, tau, y), (5, 3), (3,), (5, 2)),
    "vecdot": (lambda T, x, y: T.linalg.vecdot(x, y), (5, 3), (5, 3)),
    "cov": (lambda T, x: T.cov(x), (3, 6)),
    "corrcoef": (lambda T, x: T.corrcoef(x), (3, 6)),
}
WITHOUT_GRADIENT = {
    "matrix_rank": (lambda T, x: T.linalg.matrix_rank(x), TALL),
    "matrix_rank of Hermitian": (lambda T, x: T.linalg.matrix_rank(hermitian(T, x), hermitian=True), SQUARE),
    "geqrf": (lambda T, x: tuple(T.geqrf(x)), TALL),
    "geqrf of wide": (lambda T, x: tuple(T.geqrf(x)), WIDE),
    "ldl_factor": (lambda T, x: tuple(T.linalg.ldl_factor(x)), (2, 5, 5)),
    "ldl_factor of Hermitian": (lambda T, x: tuple(T.linalg.ldl_factor(x + x.mH, hermitian=True)), (2, 5, 5)),
    "ldl_solve": (lambda T, x, y: T.linalg.ldl_solve(*T.linalg.ldl_factor(x + x.mT), y), (2, 5, 5), (2, 5, 2)),
    "ldl_solve of Hermitian": (
        lambda T, x, y: T.linalg.ldl_solve(*T.linalg.ldl_factor(x + x.mH, hermitian=True), y, hermitian=True), (2, 5, 5),
        (2, 5, 2)),
    "lstsq gelsd": (lambda T, x, y: tuple(T.linalg.lstsq(x, y, driver="gelsd")), (5, 3), (5, 2)),
    "lstsq gelsy": (lambda T, x, y: tuple(T.linalg.lstsq(x, y)), (5, 3), (5, 2)),
    "complete qr": (lambda T, x: tuple(T.linalg.qr(x, "complete")), TALL),
    "cholesky_ex": (lambda T, x: tuple(T.linalg.cholesky_ex(hermitian(T, x))), SQUARE),
    "inv_ex": (lambda T, x: tuple(T.linalg.inv_ex(x)), SQUARE),
    "lu_factor_ex": (lambda T, x: tuple(T.linalg.lu_factor_ex(x)), SQUARE),
    "empty": (lambda T, x: (T.linalg.det(x), *T.linalg.slogdet(x), *T.linalg.qr(x), *T.linalg.svd(x)), (2, 0, 0)),
}


def inputs(shapes, dtype):
    generator = torch.Generator().manual_seed(len(shapes))
    theirs = [torch.randn(*shape, dtype=dtype, generator=generator) for shape in shapes]
    return theirs, [gt.from_numpy(x.numpy()) for x in theirs]


def results_of(function, T, operands):
    result = function(T, *operands)
    return result if isinstance(result, tuple) else (result,)


def check(ours, expected, tolerance):
    assert str(ours.dtype).split(".")[1] == str(expected.dtype).split(".")[1]
    expected = expected.detach().resolve_conj()
    got = torch.from_numpy(ours.detach().numpy())
    assert got.shape == expected.shape
    scale = 1 + expected.abs().max() if expected.numel() else 1
    torch.testing.assert_close(got, expected, rtol=0, atol=float(tolerance * scale))


def gradients(T, operands, results):
    """Of a real function of the results, and of one of those gradients."""
    weights = [T.arange(1, r.numel() + 1, dtype=T.float64).reshape(r.shape).cos() for r in results]
    loss = sum((r * w).abs().square().sum() for r, w in zip(results, weights))
    first = T.autograd.grad(loss, operands, create_graph=True)
    return first, T.autograd.grad(sum(g.abs().square().sum() for g in first), operands)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_and_gradients(name):
    function, *shapes = FUNCTIONS[name]
    theirs, ours = inputs(shapes, torch.complex128)
    for each in [*theirs, *ours]:
        each.requires_grad_()
    expected, got = results_of(function, torch, theirs), results_of(function, gt, ours)
    for a, b in zip(got, expected, strict=True):
        check(a, b, 1e-10)
    if name == "det of singular":  # its second derivative in torch is that of a nearby matrix
        return
    for order, (a, b) in enumerate(zip(gradients(gt, ours, got), gradients(torch, theirs, expected))):
        for x, y in zip(a, b, strict=True):
            check(x, y, 1e-6 if order else 1e-8)


@pytest.mark.parametrize("name", WITHOUT_GRADIENT)
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_functions(name, dtype):
    function, *shapes = WITHOUT_GRADIENT[name]
    theirs, ours = inputs(shapes, dtype)
    for a, b in zip(results_of(function, gt, ours), results_of(function, torch, theirs), strict=True):
        check(a, b, 1e-10 if dtype == torch.complex128 else 1e-4)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_large_factors_give_the_matrix_back(dtype):
    (x,), (t,) = inputs([(60, 90)], dtype)
    tolerance = 1e-3 if dtype == torch.complex64 else 1e-11
    for full in (False, True):
        u, s, vh = gt.linalg.svd(t, full_matrices=full)
        check((u[:, :60] * s) @ vh[:60], x, tolerance)
    q, r = gt.linalg.qr(t.mH, "complete")
    check(q @ r, x.mH, tolerance)
    w, v = gt.linalg.eigh(t @ t.mH)
    check((v * w) @ v.mH, x @ x.mH, tolerance)


def test_failures():
    z = gt.tensor([[1 + 1j, 2], [2 + 2j, 4]])
    raises(gt.linalg.LinAlgError, lambda: gt.linalg.inv(z).numpy(), "singular")
    raises(gt.linalg.LinAlgError, lambda: gt.linalg.cholesky(-z).numpy(), "positive-definite")
    raises(gt.linalg.LinAlgError, lambda: gt.linalg.svdvals(z * float("nan")).numpy(), "non-finite")
    raises(gt.linalg.LinAlgError, lambda: gt.linalg.ldl_factor(gt.zeros(2, 2, dtype=gt.complex64)), "ldl_factor")
    LD, pivots = gt.linalg.ldl_factor(z)
    raises(RuntimeError, lambda: gt.linalg.ldl_solve(LD, pivots * 9, z).numpy(), "pivot")
