"""Checks of the op table's rows of linear algebra, called by test_ops_table.py like those of table_movement.py.

They work in float32 and float64 and raise for other dtypes. If a decomposition is not unique, its properties are checked.
"""

import torch

import gt
from support import raises, to_gt, values

TOLERANCE = {"float32": (2e-4, 2e-4), "float64": (1e-9, 1e-9)}
SQUARE = [(1, 1), (4, 4), (3, 5, 5), (2, 1, 3, 3), (0, 0), (2, 0, 0), (0, 3, 3), (33, 33)]
RECTANGULAR = [(5, 3), (3, 5), (2, 6, 2), (2, 1, 7), (0, 3), (3, 0), (0, 4, 2), (40, 25)]


def matrices(shapes, dtype, regular=True):
    """(what, GT tensor, torch tensor), also as views; regular: far from singular."""
    for shape in shapes:
        x = values(shape, dtype, 1)
        if regular:
            x = x / 4 + 2 * torch.eye(shape[-2], shape[-1], dtype=x.dtype)
        yield f"{shape}", to_gt(x), x
    wide = values((2, 6, 12), dtype, 2) / 4 + 2 * torch.eye(6, 12, dtype=x.dtype)
    wide[:, :, ::2] += 2 * torch.eye(6, dtype=x.dtype)
    yield "transposed", to_gt(wide[:, :, :6]).mT, wide[:, :, :6].mT
    yield "stepped", to_gt(wide)[:, :, ::2], wide[:, :, ::2]
    yield "flipped", to_gt(wide[..., :6].flip(1))[:, ::-1], wide[..., :6]
    yield "expanded", to_gt(wide[:1, :, :6]).expand(3, 6, 6), wide[:1, :, :6].expand(3, 6, 6)


def refused(name, dtype, cases, run):
    if dtype in TOLERANCE:
        return False
    raises((TypeError, RuntimeError), run, "linalg.")
    cases.true(f"{name} of {dtype} is refused", True)
    return True


def check_function(name, types, dtype, cases):
    """Rows whose result is unique: the same as torch's."""
    function, reference = {
        "inverse": (gt.inverse, torch.inverse),
        "pinv": (gt.linalg.pinv, torch.linalg.pinv),
        "det": (gt.det, torch.det),
        "cofactor": (gt._gt._cofactor, lambda x: torch.linalg.det(x)[..., None, None] * torch.linalg.inv(x).mT),
    }[name]
    if refused(name, dtype, cases, lambda: function(to_gt(values((3, 3), dtype)))):
        return
    rtol, atol = TOLERANCE[dtype]
    for what, t, x in matrices(SQUARE + (RECTANGULAR if name == "pinv" else []), dtype):
        expected = reference(x)
        scale = 1 + float(expected.abs().max()) if expected.numel() else 1
        cases.same(f"{name}({what})", lambda: function(t), expected, rtol=rtol, atol=atol * scale)


def check_slogdet(name, types, dtype, cases):
    if refused(name, dtype, cases, lambda: gt.slogdet(to_gt(values((3, 3), dtype)))):
        return
    rtol, atol = TOLERANCE[dtype]
    for what, t, x in matrices(SQUARE, dtype, regular=False):
        expected = torch.linalg.slogdet(x)
        cases.same(f"sign of {what}", lambda: gt.slogdet(t).sign, expected.sign)
        cases.same(f"log of {what}", lambda: gt.slogdet(t).logabsdet, expected.logabsdet, rtol=rtol, atol=atol)
    singular = torch.ones(2, 2, dtype=x.dtype)
    cases.same("a singular one", lambda: gt.stack(gt.slogdet(to_gt(singular))), torch.stack(torch.slogdet(singular)))


def check_cholesky(name, types, dtype, cases):
    if refused(name, dtype, cases, lambda: gt.cholesky(to_gt(values((3, 3), dtype)))):
        return
    rtol, atol = TOLERANCE[dtype]
    for what, t, x in matrices(SQUARE, dtype):
        t, x = t @ t.mT, x @ x.mT
        for upper in (False, True):
            expected = torch.linalg.cholesky(x, upper=upper)
            cases.same(f"{what}, {upper}", lambda: gt.cholesky(t, upper), expected, rtol=rtol, atol=atol)
    noise = torch.triu(values((4, 4), dtype, 3), 1)
    x = torch.eye(4, dtype=noise.dtype)
    cases.same("only the lower triangle is read", lambda: gt.cholesky(to_gt(x + noise)), x)


def check_lu(name, types, dtype, cases):
    if refused(name, dtype, cases, lambda: gt.linalg.lu(to_gt(values((3, 3), dtype)))):
        return
    rtol, atol = TOLERANCE[dtype]
    for what, t, x in matrices(SQUARE + RECTANGULAR, dtype):
        for k, (part, expected) in enumerate(zip("PLU", torch.linalg.lu(x))):
            cases.same(f"{part} of {what}", lambda: gt.linalg.lu(t)[k], expected, rtol=rtol, atol=4 * atol)
        pivots = torch.linalg.lu_factor_ex(x).pivots
        cases.same(f"pivots of {what}", lambda: gt.linalg.lu_factor_ex(t).pivots, pivots)
    singular = to_gt(torch.ones(2, 2, dtype=x.dtype))
    cases.same("info of a singular one", lambda: gt.linalg.lu_factor_ex(singular).info, torch.tensor(2, dtype=torch.int32))
    raises(RuntimeError, lambda: gt.linalg.lu_factor(singular).LU.numpy(), "U[2,2] is zero")


def check_ldl(name, types, dtype, cases):
    if refused(name, dtype, cases, lambda: gt.linalg.ldl_factor(to_gt(values((3, 3), dtype)))):
        return
    rtol, atol = TOLERANCE[dtype]
    for what, t, x in matrices([s for s in SQUARE if s != (33, 33)], dtype, regular=False):
        expected = torch.linalg.ldl_factor_ex(x)
        for k, part in enumerate(("LD", "pivots", "info")):
            run = lambda: gt.linalg.ldl_factor_ex(t)[k]  # noqa: E731
            cases.same(f"{part} of {what}", run, expected[k].contiguous(), rtol=rtol, atol=8 * atol)
    raises(RuntimeError, lambda: gt.linalg.ldl_factor(gt.zeros(2, 2, dtype=t.dtype)), "ldl_factor")


def check_ldl_solve(name, types, dtype, cases):
    square = to_gt(values((3, 3), dtype))
    if refused(name, dtype, cases, lambda: gt.linalg.ldl_solve(square, gt.ones(3, dtype=gt.int32), square)):
        return
    rtol, atol = TOLERANCE[dtype]
    for first, second in EQUATIONS:
        x, y = values(first, dtype, 1), values(second, dtype, 2)
        x = x / 4 + 2 * torch.eye(first[-1], dtype=y.dtype)
        LD, pivots = torch.linalg.ldl_factor(x)
        run = lambda: gt.linalg.ldl_solve(to_gt(LD.contiguous()), to_gt(pivots), to_gt(y))  # noqa: E731
        # torch's ldl_solve reads beyond its operands if it has to broadcast them
        symmetric = x.tril() + x.tril(-1).mT
        cases.same(f"{first}, {second}", run, torch.linalg.solve(symmetric, y), rtol=rtol, atol=8 * atol)
    LD, pivots = torch.linalg.ldl_factor(values((6, 6), dtype, 4).tril(-1))  # blocks of 2 by 2
    cases.true("blocks of 2 by 2", bool((pivots < 0).any()))
    y = values((6, 2), dtype, 5)
    run = lambda: gt.linalg.ldl_solve(to_gt(LD.contiguous()), to_gt(pivots), to_gt(y))  # noqa: E731
    cases.same("blocks of 2 by 2", run, torch.linalg.ldl_solve(LD, pivots, y), rtol=rtol, atol=20 * atol)


def check_geqrf(name, types, dtype, cases):
    if refused(name, dtype, cases, lambda: gt.geqrf(to_gt(values((3, 3), dtype)))):
        return
    rtol, atol = TOLERANCE[dtype]
    for what, t, x in matrices(SQUARE + RECTANGULAR, dtype, regular=False):
        expected = torch.geqrf(x)
        for k, part in enumerate(("a", "tau")):
            cases.same(f"{part} of {what}", lambda: gt.geqrf(t)[k], expected[k], rtol=rtol, atol=8 * atol)


def check_qr(name, types, dtype, cases):
    if refused(name, dtype, cases, lambda: gt.linalg.qr(to_gt(values((3, 3), dtype)))):
        return
    rtol, atol = TOLERANCE[dtype]
    for what, t, x in matrices(SQUARE + RECTANGULAR, dtype, regular=False):
        for mode in ("reduced", "complete", "r"):
            expected = torch.linalg.qr(x, mode)
            for k, part in enumerate("QR"):
                run = lambda: gt.linalg.qr(t, mode)[k]  # noqa: E731
                cases.same(f"{part} of {what}, {mode}", run, expected[k], rtol=rtol, atol=4 * atol)


def identity_error(t, dtype):
    """The distance of t^T t from the identity."""
    product = t.mT @ t
    return float((product - gt.eye(t.shape[-1], dtype=t.dtype)).abs().amax()) if product.numel() else 0.0


def check_svd(name, types, dtype, cases):
    if refused(name, dtype, cases, lambda: gt.linalg.svd(to_gt(values((3, 3), dtype)))):
        return
    rtol, atol = TOLERANCE[dtype]
    for what, t, x in matrices(SQUARE + RECTANGULAR, dtype, regular=False):
        expected = torch.linalg.svdvals(x)
        cases.same(f"svdvals({what})", lambda: gt.linalg.svdvals(t), expected, rtol=rtol, atol=4 * atol)
        for full in (True, False):
            u, s, vh = gt.linalg.svd(t, full_matrices=full)
            shapes = [tuple(part.shape) for part in torch.linalg.svd(x, full_matrices=full)]
            cases.true(f"shapes of {what}, {full}", [tuple(part.shape) for part in (u, s, vh)] == shapes)
            cases.same(f"values of {what}, {full}", lambda: s, expected, rtol=rtol, atol=4 * atol)
            k = s.shape[-1]
            product = (u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :]
            cases.same(f"product of {what}, {full}", lambda: product, x, rtol=rtol, atol=8 * atol)
            orthogonal = max(identity_error(u, dtype), identity_error(vh.mT, dtype)) < 10 * atol
            cases.true(f"orthonormal vectors of {what}, {full}", orthogonal)


def check_eigh(name, types, dtype, cases):
    if refused(name, dtype, cases, lambda: gt.linalg.eigh(to_gt(values((3, 3), dtype)))):
        return
    rtol, atol = TOLERANCE[dtype]
    for what, t, x in matrices(SQUARE, dtype, regular=False):
        for uplo in "LU":
            w, v = gt.linalg.eigh(t, uplo)
            expected = torch.linalg.eigvalsh(x, uplo)
            cases.same(f"{what}, {uplo}", lambda: w, expected, rtol=rtol, atol=4 * atol)
            cases.same(f"eigvalsh {what}", lambda: gt.linalg.eigvalsh(t, uplo), expected, rtol=rtol, atol=4 * atol)
            symmetric = x.tril() + x.tril(-1).mT if uplo == "L" else x.triu() + x.triu(1).mT
            product = (v * w.unsqueeze(-2)) @ v.mT
            cases.same(f"product of {what}, {uplo}", lambda: product, symmetric, rtol=rtol, atol=8 * atol)
            cases.true(f"orthonormal vectors of {what}, {uplo}", identity_error(v, dtype) < 10 * atol)


def check_eig(name, types, dtype, cases):
    if refused(name, dtype, cases, lambda: gt.linalg.eig(to_gt(values((3, 3), dtype)))):
        return
    rtol, atol = TOLERANCE[dtype]
    for what, t, x in matrices(SQUARE, dtype, regular=False):
        w, v = gt.linalg.eig(t)
        kind = gt.complex64 if dtype == "float32" else gt.complex128
        cases.true(f"dtype of {what}", w.dtype == v.dtype == kind)
        if not x.numel():
            continue
        scale = float(x.abs().max()) * x.shape[-1]
        error = (t.to(kind) @ v - v * w.unsqueeze(-2)).abs().max().item()
        cases.true(f"A v = w v of {what}", error < 8 * atol * scale)
        lengths = v.abs().square().sum(-2).sqrt()
        cases.same(f"lengths of {what}", lambda: lengths, torch.ones(lengths.shape, dtype=x.dtype), rtol=rtol, atol=atol)
        cases.same(f"sum of {what}", lambda: gt.linalg.eigvals(t).real.sum(-1), torch.linalg.eigvals(x).real.sum(-1), rtol=rtol,
                   atol=4 * atol * scale)


EQUATIONS = [
    ((4, 4), (4, 3)),
    ((2, 4, 4), (4, 1)),
    ((4, 4), (5, 4, 2)),
    ((1, 3, 3), (2, 1, 3, 3)),
    ((0, 0), (0, 2)),
    ((3, 3), (3, 0)),
    ((0, 3, 3), (3, 2)),
    ((40, 40), (40, 7)),
]


def check_solve(name, types, dtype, cases):
    square = to_gt(values((3, 3), dtype))
    if refused(name, dtype, cases, lambda: gt.linalg.solve(square, square)):
        return
    rtol, atol = TOLERANCE[dtype]
    for first, second in [*EQUATIONS, ((4, 4), (4,)), ((2, 4, 4), (2, 4))]:
        x, y = values(first, dtype, 1) / 4 + 2 * torch.eye(first[-1]), values(second, dtype, 2)
        x = x.to(y.dtype)
        expected = torch.linalg.solve(x, y)
        cases.same(f"{first}, {second}", lambda: gt.linalg.solve(to_gt(x), to_gt(y)), expected, rtol=rtol, atol=atol)
    for what, t, x in matrices([(3, 3), (2, 4, 4)], dtype):
        y = values((x.shape[-1], x.shape[-1]), dtype, 3)
        expected = torch.linalg.solve(x, y)
        cases.same(f"{what}", lambda: gt.linalg.solve(t, to_gt(y.T).T), expected, rtol=rtol, atol=atol)
        expected = torch.linalg.solve(x, y, left=False)
        cases.same(f"{what}, right", lambda: gt.linalg.solve(t, to_gt(y), left=False), expected, rtol=rtol, atol=atol)


def check_solve_triangular(name, types, dtype, cases):
    square = to_gt(values((3, 3), dtype))
    if refused(name, dtype, cases, lambda: gt.linalg.solve_triangular(square, square, upper=True)):
        return
    rtol, atol = TOLERANCE[dtype]
    for first, second in EQUATIONS:
        x, y = values(first, dtype, 1) / 40 + torch.eye(first[-1]), values(second, dtype, 2)
        x = x.to(y.dtype)
        for upper in (False, True):
            for unit in (False, True):
                for left in (False, True):
                    b = y if left else y.mT
                    options = dict(upper=upper, left=left, unitriangular=unit)
                    expected = torch.linalg.solve_triangular(x, b, **options)
                    run = lambda: gt.linalg.solve_triangular(to_gt(x), to_gt(b), **options)  # noqa: E731
                    cases.same(f"{first}, {second}, {options}", run, expected, rtol=rtol, atol=4 * atol)


CHECKS = {
    "inverse": check_function,
    "pinv": check_function,
    "det": check_function,
    "cofactor": check_function,
    "slogdet": check_slogdet,
    "cholesky": check_cholesky,
    "lu": check_lu,
    "ldl": check_ldl,
    "ldl_solve": check_ldl_solve,
    "geqrf": check_geqrf,
    "qr": check_qr,
    "svd": check_svd,
    "eig": check_eig,
    "eigh": check_eigh,
    "solve": check_solve,
    "solve_triangular": check_solve_triangular,
}
