"""gt.linalg against torch.linalg: functions written in Python, first and second derivatives, and errors.

The rows themselves, in every shape and layout, are in table_linalg.py.
"""

import numpy as np
import pytest
import torch

import gt
from support import check, raises, to_gt, to_torch

INF = float("inf")
TIGHT = dict(rtol=1e-9, atol=1e-9)


def random(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def regular(*shape, seed=0):
    return random(*shape, seed=seed) + 3 * torch.eye(shape[-1], dtype=torch.float64)


def both(function, *operands):
    """Check that function(gt, ...) equals function(torch, ...); it may return several tensors."""
    ours, theirs = function(gt, *[to_gt(x) for x in operands]), function(torch, *operands)
    for k, (t, x) in enumerate(zip(*[r if isinstance(r, (tuple, list)) else [r] for r in (ours, theirs)])):
        check(t, x, f"result {k}", **TIGHT)


# ---- values ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["fro", "nuc", INF, -INF, 1, -1, 2, -2])
def test_matrix_norms(order):
    x = random(2, 3, 4, 3)
    both(lambda t, x: t.linalg.matrix_norm(x, order), x)
    both(lambda t, x: t.linalg.matrix_norm(x, order, dim=(0, 2), keepdim=True), x)
    both(lambda t, x: t.linalg.matrix_norm(x, order, dim=(-1, 1)), x)
    both(lambda t, x: t.linalg.norm(x[0, 0], order), x)
    both(lambda t, x: t.linalg.norm(x, order, (1, 3)), x)
    both(lambda t, x: t.linalg.cond(x, order), regular(3, 4, 4))


@pytest.mark.parametrize("order", [0, 0.5, 1, 2, 3, INF, -INF])
def test_vector_norms(order):
    x = random(2, 3, 4)
    for dim in (None, 1, (0, 2), -1):
        for keepdim in (False, True):
            both(lambda t, x: t.linalg.vector_norm(x, order, dim, keepdim), x)
    both(lambda t, x: t.linalg.norm(x[0, 0], order), x)
    both(lambda t, x: t.norm(x, order, 1), x)


def test_norm_without_order():
    both(lambda t, x: [t.linalg.norm(x), t.linalg.norm(x, dim=1), t.linalg.cond(x), t.norm(x, "nuc", (1, 2))], random(2, 3, 4))
    both(lambda t, x: t.linalg.vector_norm(x, dtype=t.float64), random(3).float())


def test_powers_and_products():
    x = regular(2, 3, 3)
    for n in (-3, -1, 0, 1, 2, 5, 8):
        both(lambda t, x: t.linalg.matrix_power(x, n), x)
    chain = [random(3, 40), random(40, 2), random(2, 30), random(30)]
    both(lambda t, *chain: [t.linalg.multi_dot(chain), t.linalg.multi_dot(chain[:2])], *chain)
    both(lambda t, x, y: [t.linalg.vecdot(x, y), t.linalg.cross(x, y)], random(4, 3), random(4, 3, seed=1))


def test_ranks_and_tolerances():
    low = random(5, 2) @ random(2, 4, seed=1)
    batch = torch.stack([low, random(5, 4, seed=2), torch.zeros(5, 4, dtype=torch.float64)])
    both(lambda t, x: [t.linalg.matrix_rank(x), t.linalg.matrix_rank(x, atol=100.0), t.linalg.matrix_rank(x, rtol=0.5)], batch)
    both(lambda t, x: t.linalg.matrix_rank(x @ x.mT, hermitian=True), batch)
    both(lambda t, x: [t.linalg.pinv(x), t.linalg.pinv(x, rtol=0.5), t.linalg.pinv(x, atol=1.0)], batch)
    both(lambda t, x: t.linalg.pinv(x @ x.mT, hermitian=True), low)
    assert gt.linalg.matrix_rank(gt.zeros(2, 0, 3)).tolist() == [0, 0]


def test_equations():
    a, b = random(6, 3), random(6, 2, seed=1)
    both(lambda t, a, b: [t.linalg.lstsq(a, b).solution, t.linalg.lstsq(a, b).rank], a, b)
    both(lambda t, a, b: t.linalg.lstsq(a.mT, b).solution, a, random(3, 2))
    both(lambda t, a, b: t.linalg.tensorsolve(a, b), random(2, 3, 6) + torch.eye(6).reshape(2, 3, 6), random(2, 3))
    both(lambda t, a: t.linalg.tensorinv(a, ind=1), random(6, 2, 3) + torch.eye(6).reshape(6, 2, 3))


@pytest.mark.filterwarnings("ignore:.*deprecated")
def test_older_names():
    """Methods of Tensor and functions of gt."""
    x, b = regular(2, 4, 4), random(2, 4, 3, seed=1)
    positive = x @ x.mT
    both(lambda t, x: [x.inverse(), x.pinverse(), x.det(), *x.slogdet(), x.matrix_power(3)], x)
    both(lambda t, x: [t.inverse(x), t.det(x), t.logdet(x), t.cholesky(x), t.cholesky(x, upper=True)], positive)
    both(lambda t, x, b: t.cholesky_solve(b, t.linalg.cholesky(x)), positive, b)
    both(lambda t, x: t.cholesky_inverse(t.linalg.cholesky(x)), positive)
    both(lambda t, x, b: t.triangular_solve(b, x, upper=False, transpose=True).solution, x, b)
    both(lambda t, x: [*t.qr(x), *t.qr(x, some=False)], random(5, 3))
    u, s, v = gt.svd(to_gt(random(5, 3)))
    check((u * s) @ v.mT, random(5, 3), **TIGHT)
    both(lambda t, x: [t.svd(x, compute_uv=False)[1]], random(5, 3))
    assert gt.tensor([[0.0, 1.0], [1.0, 0.0]]).logdet().isnan().item()


# ---- gradients ------------------------------------------------------------------------------------------------


def no_sign(u, s, vh):
    """A function of all factors that does not depend on the signs of the vectors."""
    k = s.shape[-1]
    return (u[..., :k].abs() * s.unsqueeze(-2)) @ vh[..., :k, :].abs()


DIFFERENTIABLE = {
    "inv": (lambda t, x: t.linalg.inv(x), regular(2, 3, 3)),
    "det": (lambda t, x: t.linalg.det(x), random(2, 3, 3)),
    "slogdet": (lambda t, x: t.linalg.slogdet(x)[1], random(2, 3, 3)),
    "cholesky": (lambda t, x: t.linalg.cholesky(x @ x.mT), regular(2, 3, 3)),
    "qr, tall": (lambda t, x: t.linalg.qr(x), random(2, 4, 3)),
    "qr, wide": (lambda t, x: t.linalg.qr(x), random(2, 3, 4)),
    "qr, complete": (lambda t, x: t.linalg.qr(x, "complete"), random(3, 4)),
    "svd": (lambda t, x: no_sign(*t.linalg.svd(x, full_matrices=False)), random(2, 4, 3)),
    "svd, wide": (lambda t, x: no_sign(*t.linalg.svd(x, full_matrices=False)), random(3, 5)),
    "svd, full": (lambda t, x: no_sign(*t.linalg.svd(x)), random(4, 2)),
    "svdvals": (lambda t, x: t.linalg.svdvals(x), random(2, 4, 3)),
    "eigh": (lambda t, x: [r.abs() for r in t.linalg.eigh(x, "U")], regular(3, 3) + regular(3, 3).mT),
    "eigvalsh": (lambda t, x: t.linalg.eigvalsh(x), regular(2, 3, 3) + regular(2, 3, 3).mT),
    "solve": (lambda t, x: t.linalg.solve(x, x.mT), regular(2, 3, 3)),
    "solve_triangular": (lambda t, x: t.linalg.solve_triangular(x, x, upper=True), regular(2, 3, 3)),
    "unitriangular": (lambda t, x: t.linalg.solve_triangular(x, x, upper=False, unitriangular=True), regular(3, 3)),
    "pinv": (lambda t, x: t.linalg.pinv(x), random(4, 3)),
    "lstsq": (lambda t, x: t.linalg.lstsq(x, x[:, :1] * x[:, :1]).solution, random(5, 3)),
    "matrix_power": (lambda t, x: t.linalg.matrix_power(x, -3), regular(3, 3)),
    "nuclear norm": (lambda t, x: t.linalg.matrix_norm(x, "nuc"), random(2, 3, 4)),
    "2-norm": (lambda t, x: t.linalg.matrix_norm(x, 2), random(2, 3, 4)),
    "1-norm": (lambda t, x: t.linalg.matrix_norm(x, 1), random(2, 3, 4)),
    "cond": (lambda t, x: t.linalg.cond(x), regular(3, 3)),
    "logdet": (lambda t, x: t.logdet(x @ x.mT), regular(3, 3)),
}


def loss_of(results, weight):
    results = results if isinstance(results, (tuple, list)) else [results]
    total = 0
    for k, result in enumerate(results):
        total = total + (result * weight(tuple(result.shape), k)).sum()
    return total


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_as_torch(name):
    function, x = DIFFERENTIABLE[name]
    t, y = to_gt(x).requires_grad_(), x.clone().requires_grad_()
    ours = gt.grad(loss_of(function(gt, t), lambda s, k: to_gt(random(*s, seed=k))), t, create_graph=True)[0]
    loss = loss_of(function(torch, y), lambda s, k: random(*s, seed=k))
    theirs = torch.autograd.grad(loss, y, create_graph=True)[0]
    check(ours.detach(), theirs.detach(), "gradient", rtol=1e-7, atol=1e-7)
    second = gt.grad((ours * ours).sum(), t)[0]
    expected = torch.autograd.grad((theirs * theirs).sum(), y)[0]
    scale = float(expected.abs().max()) + 1
    check(second, expected, "second derivative", rtol=1e-7, atol=1e-9 * scale)


def test_gradient_of_det_at_a_singular_matrix():
    """The gradient is the cofactors; det * inverse would be 0 * infinity."""
    a = gt.tensor([[1.0, 2, 3], [2, 4, 6], [1, 1, 1]], dtype=gt.float64).requires_grad_()
    gt.det(a).backward()
    check(a.grad, torch.tensor([[-2.0, 4, -2], [1, -2, 1], [0, 0, 0]], dtype=torch.float64), **TIGHT)


def test_equal_values_give_no_nan():
    """Functions of the values alone, and functions that do not depend on the choice of vectors."""
    x = gt.eye(3, dtype=gt.float64).requires_grad_()
    gt.linalg.eigh(x).eigenvalues.sum().backward()
    check(x.grad, torch.eye(3, dtype=torch.float64), **TIGHT)
    x = gt.eye(3, dtype=gt.float64).requires_grad_()
    u, s, vh = gt.linalg.svd(x)
    ((u * s) @ vh).sum().backward()
    assert not x.grad.isnan().any().item()
    x = gt.zeros(2, 3, dtype=gt.float64).requires_grad_()
    (gt.linalg.svdvals(x).sum() + gt.linalg.norm(x)).backward()
    assert not x.grad.isnan().any().item()


def test_what_is_not_differentiable():
    x = to_gt(random(4, 2)).requires_grad_()
    q, _ = gt.linalg.qr(x, "complete")
    raises(RuntimeError, lambda: q.sum().backward(), "mode='complete'")
    assert not gt.linalg.matrix_rank(x).requires_grad


# ---- errors ---------------------------------------------------------------------------------------------------


def test_refused_at_the_line():
    a = gt.ones(2, 2)
    raises(RuntimeError, lambda: gt.linalg.inv(gt.ones(2, 3)), "linalg.inv", "2 by 3")
    raises(RuntimeError, lambda: gt.linalg.det(gt.ones(3)), "at least 2 dimensions")
    raises(RuntimeError, lambda: gt.linalg.svd(a.half()), "Low precision", "float16")
    raises(RuntimeError, lambda: gt.linalg.inv(a.long()), "linalg.inv", "int64")
    raises(RuntimeError, lambda: gt.linalg.solve(a, gt.ones(3, 1)), "Incompatible shapes")
    raises(RuntimeError, lambda: gt.linalg.solve(a, gt.ones(2, 1, dtype=gt.float64)), "same dtype")
    raises(RuntimeError, lambda: gt.linalg.qr(a, "bad"), "unrecognized mode")
    raises(RuntimeError, lambda: gt.linalg.eigh(a, "Q"), "UPLO")
    raises(RuntimeError, lambda: gt.linalg.matrix_norm(a, "bad"), "bad")
    raises(RuntimeError, lambda: gt.linalg.norm(gt.ones(2, 2, 2), "fro"), "1D or 2D")
    raises(RuntimeError, lambda: gt.linalg.vector_norm(a.long()), "floating point")
    raises(RuntimeError, lambda: gt.linalg.matrix_power(gt.ones(2, 3), 2), "square")
    raises(TypeError, lambda: gt.linalg.inv([[1.0]]))


def test_matrices_without_a_result():
    """The worker finds the error: reading the result, or anything computed from it, raises. The session goes on."""
    batch = gt.stack([gt.eye(2), gt.ones(2, 2)])
    raises(gt.linalg.LinAlgError, gt.linalg.inv(batch).tolist, "Batch element 1", "diagonal element 2 is zero")
    raises(gt.linalg.LinAlgError, (gt.linalg.inv(gt.ones(2, 2)) + 1).tolist, "inverse", "singular")
    raises(gt.linalg.LinAlgError, gt.linalg.solve(gt.zeros(2, 2), gt.ones(2)).tolist, "The solver failed")
    raises(gt.linalg.LinAlgError, gt.linalg.cholesky(-gt.eye(2)).tolist, "positive-definite", "order 1")
    raises(gt.linalg.LinAlgError, gt.linalg.svd(gt.full((2, 2), INF)).S.tolist, "non-finite")
    raises(gt.linalg.LinAlgError, gt.linalg.eigvalsh(gt.full((2, 2), float("nan"))).tolist, "non-finite")
    assert issubclass(gt.linalg.LinAlgError, RuntimeError)
    assert gt.linalg.cond(gt.ones(2, 2), 1).item() == INF
    assert gt.linalg.det(gt.eye(3)).item() == 1
    assert to_torch(gt.linalg.inv(gt.eye(2) * 2)).tolist() == [[0.5, 0], [0, 0.5]]


# ---- complex matrices, and eigenvalues of any ------------------------------------------------------------------


def complex_pair(*shape, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.standard_normal(shape) + 1j * generator.standard_normal(shape)
    return gt.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)


def check_parts(ours, theirs, tolerance):
    """Complex numbers by their parts; `check` allows no difference."""
    if theirs.is_complex():
        ours, theirs = gt.view_as_real(ours.detach()), torch.view_as_real(theirs.detach().resolve_conj())
    check(ours.detach(), theirs.detach(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("function", [
    lambda m, a, b: m.linalg.solve(a, b),
    lambda m, a, b: m.linalg.solve(a, b[0, :, 0]),
    lambda m, a, b: m.linalg.inv(a),
    lambda m, a, b: m.linalg.solve_triangular(a.tril(), b, upper=False),
    lambda m, a, b: m.linalg.solve_triangular(a, b, upper=True, unitriangular=True),
    lambda m, a, b: m.linalg.eigvals(a).abs().sort(-1)[0],
    lambda m, a, b: m.linalg.eig(a)[1].abs().sum(-1),
], ids=["solve", "solve vector", "inv", "lower", "unit upper", "eigvals", "eig"])
def test_complex_matrices(function):
    (a, x), (b, y) = complex_pair(2, 4, 4), complex_pair(2, 4, 3, seed=1)
    ours, theirs = function(gt, a, b), function(torch, x, y)
    check_parts(ours, theirs, 1e-9)
    ours.abs().square().sum().backward()
    theirs.abs().square().sum().backward()
    for got, wanted in ((a, x), (b, y)):
        assert (got.grad is None) == (wanted.grad is None)
        if wanted.grad is not None:
            check_parts(got.grad, wanted.grad, 1e-7)


def test_eig_of_real_matrices():
    numbers = np.random.default_rng(3).standard_normal((3, 5, 5))
    a, x = gt.tensor(numbers, requires_grad=True), torch.tensor(numbers, requires_grad=True)
    ours, theirs = gt.linalg.eig(a), torch.linalg.eig(x)
    assert type(ours).__name__ == "linalg_eig"
    check_parts(ours.eigenvalues, theirs.eigenvalues, 1e-9)
    check((ours[1] @ ours[0].diag_embed() @ gt.linalg.inv(ours[1])).detach().real, x.detach(), rtol=1e-9, atol=1e-9)
    (ours[1].abs() * ours[0].abs().unsqueeze(-1)).sum().backward()
    (theirs[1].abs() * theirs[0].abs().unsqueeze(-1)).sum().backward()
    check(a.grad, x.grad, rtol=1e-7, atol=1e-7)
    with pytest.raises(RuntimeError, match="non-finite"):
        gt.linalg.eigvals(gt.tensor([[1.0, float("nan")], [0.0, 1.0]])).sum().item()
    with pytest.raises(RuntimeError, match="square"):
        gt.linalg.eig(gt.ones(2, 3))
