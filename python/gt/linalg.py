"""gt.linalg: the functions of torch.linalg. All work on the last two dimensions, in float32, float64, complex64 and
complex128. Leading dimensions are batches.

Workers compute decompositions with LAPACK. Norms, powers and ranks are Python functions of other operations. If a
matrix has no result (singular, not positive-definite), the worker finds out, and reading the result raises LinAlgError.
"""

import math
from collections import namedtuple
from types import FunctionType

from gt import _gt, _help
from gt._gt import LinAlgError, Tensor, where  # noqa: F401
from gt.autograd import Function
from gt.client.arrangement import broadcast_shapes
from gt.client.halves import HALVES as _HALVES, half_of as _half_of, in_float32 as _in_float32
from gt.client.outputs import published_all
from gt.client.registry import no_view as _no_view

_QR = namedtuple('linalg_qr', ['Q', 'R'])
_SVD = namedtuple('linalg_svd', ['U', 'S', 'Vh'])
_Eig = namedtuple('linalg_eig', ['eigenvalues', 'eigenvectors'])
_Eigh = namedtuple('linalg_eigh', ['eigenvalues', 'eigenvectors'])
_Slogdet = namedtuple('linalg_slogdet', ['sign', 'logabsdet'])
_Lstsq = namedtuple('linalg_lstsq', ['solution', 'residuals', 'rank', 'singular_values'])
_LU = namedtuple('linalg_lu', ['P', 'L', 'U'])
_LUFactor = namedtuple('linalg_lu_factor', ['LU', 'pivots'])
_LUFactorEx = namedtuple('linalg_lu_factor_ex', ['LU', 'pivots', 'info'])
_InvEx = namedtuple('linalg_inv_ex', ['inverse', 'info'])
_SolveEx = namedtuple('linalg_solve_ex', ['result', 'info'])
_CholeskyEx = namedtuple('linalg_cholesky_ex', ['L', 'info'])
_LDL = namedtuple('linalg_ldl_factor', ['LD', 'pivots'])
_LDLEx = namedtuple('linalg_ldl_factor_ex', ['LD', 'pivots', 'info'])
_inf = float('inf')
_PRECISION = {_gt.float32: 2.0 ** -23, _gt.float64: 2.0 ** -52, _gt.complex64: 2.0 ** -23, _gt.complex128: 2.0 ** -52}


def _matrices(A, name):
    """Raise PyTorch's error unless A has matrices."""
    if not isinstance(A, Tensor):
        raise TypeError(f"linalg_{name}(): argument 'A' must be Tensor, not {type(A).__name__}")
    if A.ndim < 2:
        raise _gt.GtError(f'linalg.{name}: The input tensor A must have at least 2 dimensions.')


def _square(A, name):
    _matrices(A, name)
    if A.shape[-2] != A.shape[-1]:
        raise _gt.GtError(f'linalg.{name}: A must be batches of square matrices, but they are {A.shape[-2]} by '
                          f'{A.shape[-1]} matrices')


def _floating(A, name, dtype=None):
    A = A if dtype is None else A.to(dtype)
    if not (A.is_floating_point() or A.is_complex()):
        raise _gt.GtTypeError(f'linalg.{name}: Expected a floating point or complex tensor as input. Got {A.dtype}')
    return A


# ---- equations -----------------------------------------------------------------------------------------------


def inv(A):
    """inv(A): the inverse."""
    return _gt._inverse(A)


def solve(A, B, *, left=True):
    """solve(A, B): the X with A X = B, or with X A = B if not left; B may be one vector per matrix of A."""
    return _gt._solve(A, B) if left else _gt._solve(A.mT, B.mT).mT


@_no_view
def solve_triangular(A, B, *, upper, left=True, unitriangular=False):
    """solve_triangular(A, B, upper=...): the X with A X = B for triangular A, whose other triangle is not read."""
    if left:
        return _gt._solve_triangular(A, B, upper, unitriangular)
    return _gt._solve_triangular(A.mT, B.mT, not upper, unitriangular).mT


def lstsq(A, B, rcond=None, *, driver=None):
    """lstsq(A, B): the X that minimises the norm of A X - B, the smallest if there are several: (solution, residuals,
    rank, singular_values). As in PyTorch, which of the last three are there depends on driver."""
    _matrices(A, 'lstsq')
    driver = driver or 'gelsy'
    if driver not in ('gels', 'gelsy', 'gelsd', 'gelss'):
        raise _gt.GtError(f'torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), got {driver}')
    if A.dtype != B.dtype:
        raise _gt.GtError(f'torch.linalg.lstsq: input.scalar_type() {A.dtype} and other.scalar_type() {B.dtype} must match')
    vector = B.ndim == A.ndim - 1 and A.shape[:-1] == B.shape
    if not vector and (B.ndim < 2 or B.shape[-2] != A.shape[-2]):
        raise _gt.GtError('torch.linalg.lstsq: input.size(-2) should match other.size(-2)')
    columns = B.unsqueeze(-1) if vector else B
    solution = pinv(A, rtol=rcond if driver != 'gels' else None) @ columns
    rows, width = A.shape[-2:]
    none = _gt.zeros(0, dtype=A.dtype)
    rank = _gt.zeros(0, dtype=_gt.int64) if driver == 'gels' else matrix_rank(A, rtol=rcond)
    values = svdvals(A.detach()) if driver in ('gelsd', 'gelss') else none.abs()
    full = driver != 'gelsy' and rows > width and (driver == 'gels' or bool((rank == width).all()))
    residuals = (A @ solution - columns).abs().square().sum(-2) if full else none.abs()
    return _Lstsq(solution.squeeze(-1) if vector else solution, residuals, rank, values)


def tensorsolve(A, B, dims=None):
    """tensorsolve(A, B): the X with tensordot(A, X, X.ndim) == B."""
    if dims is not None:
        A = A.movedim(dims, tuple(range(A.ndim - len(dims), A.ndim)))
    shape = A.shape[B.ndim:]
    return solve(A.reshape(B.numel(), -1), B.flatten()).reshape(shape)


def tensorinv(A, ind=2):
    """tensorinv(A, ind=2): the inverse of A as a map from its last dimensions to its first `ind`."""
    rows = 1
    for size in A.shape[:ind]:
        rows *= size
    return inv(A.reshape(rows, -1)).reshape(A.shape[ind:] + A.shape[:ind])


# ---- determinants --------------------------------------------------------------------------------------------


def det(A):
    """det(A): the determinant."""
    return _gt._det(A)


def slogdet(A):
    """slogdet(A): (sign, logabsdet): sign of the determinant and logarithm of its absolute value."""
    return _Slogdet(*_gt._slogdet(A))


# ---- decompositions ------------------------------------------------------------------------------------------


class _SameAdjoint(Function):
    """The adjoint of a matrix that is its own: it brings the upper triangle to the lower. The gradient passes unchanged, as in
    PyTorch, which matters where it is complex and not its own adjoint."""

    @staticmethod
    def forward(ctx, A):
        """The adjoint."""
        return A.mH

    @staticmethod
    def backward(ctx, gradient):
        """As it is."""
        return gradient

    @staticmethod
    def vmap(info, in_dims, A):
        """A batch of matrices."""
        return _SameAdjoint.apply(A.movedim(in_dims[0], 0)), 0


def _upper_as_lower(A):
    return _SameAdjoint.apply(A) if A.is_complex() else A.mH


@_no_view
def cholesky(A, *, upper=False):
    """cholesky(A, upper=False): the lower triangular L with A = L L^H, or its adjoint."""
    return _gt._cholesky(_upper_as_lower(A)).mH if upper else _gt._cholesky(A)


def qr(A, mode='reduced'):
    """qr(A, mode='reduced'): (Q, R); mode 'complete': Q is square; 'r': Q is empty."""
    if mode not in ('reduced', 'complete', 'r'):
        raise _gt.GtError(f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or "
                          "'complete'")
    q, r = _gt._qr(A, mode == 'complete')
    return _QR(_gt.zeros(0, dtype=A.dtype) if mode == 'r' else q, r)


def svd(A, full_matrices=True, *, driver=None):
    """svd(A, full_matrices=True): (U, S, Vh) with A = U diag(S) Vh, S descending."""
    return _SVD(*_gt._svd(A, full_matrices))


def svdvals(A, *, driver=None):
    """svdvals(A): the singular values, descending."""
    return _gt._svdvals(A)


def _is_upper(UPLO):
    if UPLO not in ('L', 'U', 'l', 'u'):
        raise _gt.GtError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return UPLO in ('U', 'u')


def eigh(A, UPLO='L'):
    """eigh(A, UPLO='L'): (eigenvalues, eigenvectors) of a symmetric or Hermitian A, ascending; one triangle is read."""
    return _Eigh(*_gt._eigh(A, _is_upper(UPLO)))


def eigvalsh(A, UPLO='L'):
    """eigvalsh(A, UPLO='L'): the eigenvalues of a symmetric or Hermitian A, ascending."""
    return _gt._eigvalsh(A, _is_upper(UPLO))[0]


class _EigValues(Function):
    """The eigenvalues of any square matrices."""

    @staticmethod
    def forward(ctx, A):
        ctx.save_for_backward(A)
        return _gt._eigvals(A)

    @staticmethod
    def backward(ctx, g):
        A, = ctx.saved_tensors
        L, V = _EigVectors.apply(A) if _gt.is_grad_enabled() else _gt._eig(A)
        return _eig_gradient(A, L, V, g, None)


class _EigVectors(Function):
    """Eigenvalues and eigenvectors of any square matrices. The gradient exists if the loss does not depend on the vectors'
    phases, as in PyTorch."""

    @staticmethod
    def forward(ctx, A):
        L, V = _gt._eig(A)
        ctx.save_for_backward(A, L, V)
        return L, V

    @staticmethod
    def backward(ctx, gL, gV):
        A, L, V = ctx.saved_tensors
        if _gt.is_grad_enabled():  # of a second derivative: L and V must depend on A
            L, V = _EigVectors.apply(A)
        return _eig_gradient(A, L, V, gL, gV)


def _eig_gradient(A, L, V, gL, gV):
    """V^-H (diag(gL) + (V^H gV - V^H V diag(Re V^H gV)) / conj(L_j - L_i)) V^H"""
    adjoint = V.mH
    inner = gL.unsqueeze(-1) * adjoint
    if gV is not None:
        along = adjoint @ gV
        along = along - (adjoint @ V) * along.diagonal(0, -2, -1).real.unsqueeze(-2)
        unit = _gt.eye(V.shape[-1], dtype=V.dtype)
        inner = inner + along * (1 - unit) / ((L.unsqueeze(-2) - L.unsqueeze(-1)).conj() + unit) @ adjoint
    result = _gt._solve(adjoint, inner)
    return result if A.is_complex() else result.real


def eig(A):
    """eig(A): (eigenvalues, eigenvectors) of any square A, complex; in the order that LAPACK finds them.

    >>> gt.linalg.eig(gt.tensor([[0.0, 1.0], [-1.0, 0.0]])).eigenvalues
    tensor([0.+1.j, 0.-1.j])
    """
    _square(A, 'eig')
    return _Eig(*_EigVectors.apply(_gt._copied(A)))


def eigvals(A):
    """eigvals(A): the eigenvalues of any square A, complex."""
    _square(A, 'eigvals')
    return _EigValues.apply(_gt._copied(A))


@_no_view
def cholesky_ex(A, *, upper=False, check_errors=False):
    """cholesky_ex(A): (L, info): cholesky; info is the order of the first leading minor that is not positive, or 0."""
    if check_errors:
        L = cholesky(A, upper=upper)
        return _CholeskyEx(L, _gt.zeros(A.shape[:-2], dtype=_gt.int32))
    L = _gt._cholesky_ex(_upper_as_lower(A) if upper else A)
    return _CholeskyEx(L.mH if upper else L, _first(L.detach().diagonal(0, -2, -1).isnan()))


def _first(found):
    """The position, from 1, of the first True along the last dimension, or 0; int32."""
    if not found.shape[-1]:
        return _gt.zeros(found.shape[:-1], dtype=_gt.int32)
    return where(found.any(-1), found.int().argmax(-1) + 1, 0).to(_gt.int32)


# ---- LU --------------------------------------------------------------------------------------------------------


def _inverse_order(order):
    return order.argsort(-1)


def _rows_in_order(A, order):
    """The rows of matrices in an order that is given for each of them."""
    shape = broadcast_shapes(A.shape[:-2], order.shape[:-1])
    A = A.expand(*shape, *A.shape[-2:])
    return A.gather(-2, order.unsqueeze(-1).expand(*shape, *A.shape[-2:]))


class _Factor(Function):
    """L and U in one matrix, the pivots, and the order of the rows of A in P A."""

    @staticmethod
    def forward(ctx, A, check):
        packed, (m, n) = _gt._lu(A, check), A.shape[-2:]
        LU, order = packed[..., :m, :n].clone(), packed[..., :m, n].real.long()
        pivots = packed[..., m, :min(m, n)].real.to(_gt.int32)
        ctx.mark_non_differentiable(pivots, order)
        ctx.save_for_backward(A, LU, order)
        return LU, pivots, order

    @staticmethod
    def backward(ctx, g, *unused):
        A, LU, order = ctx.saved_tensors
        if _gt.is_grad_enabled():  # of a second derivative: LU must depend on A
            LU, _, order = _Factor.apply(_gt._copied(A), False)
        m, n = LU.shape[-2:]
        k = min(m, n)
        square, gL, gU = LU[..., :k, :k], g.tril(-1), g.triu()
        inner_lower, inner_upper = _unit_lower(square).mH @ gL[..., :k, :k], gU[..., :k, :k] @ square.triu().mH
        if n > m:
            inner_lower = inner_lower - gU[..., k:] @ LU[..., k:].mH
        if m > n:
            inner_upper = inner_upper - LU[..., k:, :].mH @ g[..., k:, :]
        inner = inner_lower.tril(-1) + inner_upper.triu()
        # L^-H inner U^-H
        left = solve_triangular(square.mH, inner, upper=True, unitriangular=True)
        result = solve_triangular(square, left.mH, upper=True).mH
        if n > m:
            rest = solve_triangular(square.mH, gU[..., k:], upper=True, unitriangular=True)
            result = _gt.cat([result, rest], -1)
        if m > n:
            result = _gt.cat([result, solve_triangular(square, g[..., k:, :].mH, upper=True).mH], -2)
        return _rows_in_order(result, _inverse_order(order)), None


def _unit_lower(LU):
    k = min(LU.shape[-2:])
    return LU[..., :k].tril(-1) + _gt.eye(LU.shape[-2], k, dtype=LU.dtype)


def _pivoting(pivot, name):
    if not pivot:
        raise _gt.GtError(f'linalg.{name}: LU without pivoting is not implemented on the CPU')


def _order_of(pivots, m):
    """The order of rows that pivots stand for."""
    order = _gt.arange(m).expand(*pivots.shape[:-1], m).clone()
    for k in range(pivots.shape[-1]):
        other = (pivots[..., k:k + 1] - 1).long()
        one = order[..., k:k + 1].clone()
        moved = order.gather(-1, other)
        order = order.scatter(-1, other, one)
        order[..., k:k + 1] = moved
    return order


def _permutation(order, dtype):
    """P with A = P L U."""
    return (order.unsqueeze(-2) == _gt.arange(order.shape[-1]).unsqueeze(-1)).to(dtype)


def lu_factor(A, *, pivot=True):
    """lu_factor(A): (LU, pivots): L below the diagonal, with ones on it, and U, in one matrix, as LAPACK has them."""
    _matrices(A, 'lu_factor')
    _pivoting(pivot, 'lu_factor')
    return _LUFactor(*_Factor.apply(_gt._copied(A), True)[:2])


def lu_factor_ex(A, *, pivot=True, check_errors=False):
    """lu_factor_ex(A): (LU, pivots, info); info is the position of the first zero on U's diagonal, or 0."""
    _matrices(A, 'lu_factor_ex')
    _pivoting(pivot, 'lu_factor_ex')
    LU, pivots, _ = _Factor.apply(_gt._copied(A), check_errors)
    return _LUFactorEx(LU, pivots, _first(LU.detach().diagonal(0, -2, -1) == 0))


def lu(A, *, pivot=True):
    """lu(A): (P, L, U) with A = P L U."""
    _matrices(A, 'lu')
    _pivoting(pivot, 'lu')
    LU, _, order = _Factor.apply(_gt._copied(A), False)
    k = min(A.shape[-2:])
    return _LU(_permutation(order, A.dtype), _unit_lower(LU), LU[..., :k, :].triu())


def _lu_unpack(LU, pivots, unpack_data, unpack_pivots):
    if pivots.dtype != _gt.int32:
        raise _gt.GtError('torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.')
    none = _gt.zeros(0, dtype=LU.dtype)
    P = _permutation(_order_of(pivots, LU.shape[-2]), LU.dtype) if unpack_pivots else none
    k = min(LU.shape[-2:])
    return _LU(P, *((_unit_lower(LU), LU[..., :k, :].triu()) if unpack_data else (none, none)))


@_no_view
def lu_solve(LU, pivots, B, *, left=True, adjoint=False):
    """lu_solve(LU, pivots, B): the X with A X = B (X A = B if not left; A^H X = B if adjoint), from lu_factor(A)."""
    _square(LU, 'lu_solve')
    if LU.dtype != B.dtype:
        raise _gt.GtError(f'linalg.lu_solve: Expected LU and B to have the same dtype, but found LU of type {LU.dtype} and '
                          f'B of type {B.dtype} instead')
    if pivots.dtype != _gt.int32:
        raise _gt.GtError('linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32')
    if not left:
        return lu_solve(LU, pivots, B.mH, adjoint=not adjoint).mH
    order = _order_of(pivots, LU.shape[-1])
    if not adjoint:
        half = solve_triangular(LU, _rows_in_order(B, order), upper=False, unitriangular=True)
        return solve_triangular(LU, half, upper=True)
    half = solve_triangular(LU.mH, B, upper=False)
    return _rows_in_order(solve_triangular(LU.mH, half, upper=True, unitriangular=True), _inverse_order(order))


def _ldl(A, hermitian, name):
    """(LD, pivots) of ldl_factor, and the position of the first zero in D, or 0."""
    _square(A, name)
    packed = _gt._ldl(A, hermitian)
    LD, pivots = packed[..., :-1, :], packed[..., -1, :].real.to(_gt.int32)
    return LD, pivots, _first((LD.diagonal(0, -2, -1) == 0) & (pivots > 0))


def ldl_factor(A, *, hermitian=False):
    """ldl_factor(A, hermitian=False): (LD, pivots): A = L D L^T, or L D L^H, of symmetric or Hermitian matrices, of which the
    lower triangle is read; D has blocks of 1 by 1 and 2 by 2. As LAPACK has them, without a gradient. Waits for D."""
    LD, pivots, info = _ldl(A, hermitian, 'ldl_factor')
    _check_ldl(info)
    return _LDL(LD, pivots)


def ldl_factor_ex(A, *, hermitian=False, check_errors=False):
    """ldl_factor_ex(A): (LD, pivots, info): ldl_factor; info is the position of the first zero in D, or 0."""
    result = _LDLEx(*_ldl(A, hermitian, 'ldl_factor_ex'))
    if check_errors:
        _check_ldl(result.info)
    return result


def _check_ldl(info):
    for place, at in enumerate(info.flatten().tolist()):
        if at:
            where = f'(Batch element {place}): ' if info.ndim else ''
            raise LinAlgError(f'linalg.ldl_factor: {where}The diagonal element {at} of D is zero: it cannot be used to solve '
                              'equations')


def ldl_solve(LD, pivots, B, *, hermitian=False):
    """ldl_solve(LD, pivots, B): the X with A X = B, from LD, pivots = ldl_factor(A); without a gradient."""
    _square(LD, 'ldl_solve')
    if B.ndim < 2:
        raise _gt.GtError(f'linalg.ldl_solve: Expected B to have at least 2 dimensions, but it has {B.ndim} dimensions instead')
    if LD.dtype != B.dtype:
        raise _gt.GtError(f'linalg.ldl_solve: Expected LD and B to have the same dtype, but found LD of type {LD.dtype} and '
                          f'B of type {B.dtype} instead')
    if pivots.shape != LD.shape[:-1]:
        raise _gt.GtError(f'linalg.ldl_solve: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape '
                          f'{list(pivots.shape)} instead')
    if pivots.dtype.is_floating_point or pivots.dtype.is_complex or pivots.dtype == _gt.bool:
        raise _gt.GtError(f'linalg.ldl_solve: Expected pivots to be integers. Got {pivots.dtype}')
    packed = _gt.cat([LD, pivots.to(LD.dtype).unsqueeze(-2)], -2)
    return _gt._ldl_solve(packed, B, hermitian)


@_no_view
def solve_ex(A, B, *, left=True, check_errors=False):
    """solve_ex(A, B): (result, info): solve; info is not 0 where A is singular, and nothing is raised."""
    _square(A, 'solve_ex')
    vector = B.ndim == 1 or B.ndim == A.ndim - 1 and B.shape == A.shape[:-1]
    LU, pivots, order = _Factor.apply(_gt._copied(A), check_errors)
    columns = B.unsqueeze(-1) if vector else B
    result = lu_solve(LU, pivots, columns, left=left)
    return _SolveEx(result.squeeze(-1) if vector else result, _first(LU.detach().diagonal(0, -2, -1) == 0))


def inv_ex(A, *, check_errors=False):
    """inv_ex(A): (inverse, info): inv; info is not 0 where A is singular, and nothing is raised."""
    _square(A, 'inv_ex')
    result = solve_ex(_gt._copied(A), _gt.eye(A.shape[-1], dtype=A.dtype).expand(A.shape), check_errors=check_errors)
    return _InvEx(*result)


# ---- inverses and ranks, up to a tolerance -------------------------------------------------------------------


def _symmetric(A):
    """The symmetric or Hermitian matrix that the lower triangle of A defines."""
    return A.tril() + A.tril(-1).mH


def _limit(values, atol, rtol, default):
    """The largest singular value that counts as zero: max(atol, rtol * the largest); both may be tensors."""
    if rtol is None:
        given = isinstance(atol, Tensor) or atol
        rtol = default if not given else 0.0
        if isinstance(atol, Tensor):
            rtol = where(atol > 0, 0.0, default)

    def column(x):
        return x.to(values.dtype).unsqueeze(-1) if isinstance(x, Tensor) else x
    bound = values.amax(-1, True) * column(rtol)
    atol = column(0.0 if atol is None else atol)
    return bound.maximum(atol.to(bound.dtype)) if isinstance(atol, Tensor) else bound.clamp(min=atol)


@_no_view
def pinv(A, rcond=None, *, atol=None, rtol=None, hermitian=False):
    """pinv(A): the pseudo-inverse; singular values up to max(atol, rtol * the largest) count as zero."""
    _matrices(A, 'pinv')
    rtol = rcond if rtol is None else rtol
    if hermitian:
        _square(A, 'pinv')
        A = A + (_symmetric(A) - A).detach()  # as in PyTorch the gradient is that of any matrix
    if isinstance(rtol, Tensor) or isinstance(atol, Tensor):
        u, values, vh = svd(A, full_matrices=False)
        if not values.shape[-1]:
            return A.mH
        keep = values > _limit(values, atol, rtol, max(A.shape[-2:]) * _PRECISION.get(A.dtype, 0))
        return vh.mH * where(keep, 1 / where(keep, values, 1.0), 0.0).unsqueeze(-2) @ u.mH
    if rtol is None:
        rtol = -1.0 if not atol else 0.0
    return _gt._pinv(A, rtol, atol or 0.0)


def matrix_rank(A, tol=None, hermitian=False, *, atol=None, rtol=None):
    """matrix_rank(A): how many singular values exceed max(atol, rtol * the largest)."""
    _matrices(A, 'matrix_rank')
    A = A.detach()
    values = eigvalsh(A).abs() if hermitian else svdvals(A)
    if not values.shape[-1]:
        return _gt.zeros(A.shape[:-2], dtype=_gt.int64)
    atol, rtol = (tol, 0.0) if tol is not None else (atol, rtol)
    return (values > _limit(values, atol, rtol, max(A.shape[-2:]) * _PRECISION.get(A.dtype, 0))).sum(-1)


# ---- products ------------------------------------------------------------------------------------------------


def matrix_power(A, n):
    """matrix_power(A, n): A multiplied by itself n times; n < 0: powers of the inverse."""
    _square(A, 'matrix_power')
    if n < 0:
        return matrix_power(inv(A), -n)
    if n == 0:
        one = _gt.eye(A.shape[-1], dtype=A.dtype).expand(A.shape)
        return where(_gt.zeros((), dtype=_gt.bool), A, one) if A.requires_grad else one.clone()
    result = None
    while n:
        if n & 1:
            result = A if result is None else result @ A
        n >>= 1
        A = A @ A if n else A
    return result._value()  # a tensor of its own, also where n is 1


def multi_dot(tensors):
    """multi_dot(tensors): the product of matrices (the first and last may be vectors), in the cheapest order."""
    if len(tensors) < 2:
        raise _gt.GtError(f'multi_dot(): expected at least 2 tensors but got {len(tensors)}')
    from gt.client.products import chain_matmul
    chain = list(tensors)
    chain[0] = chain[0].unsqueeze(0) if chain[0].ndim == 1 else chain[0]
    chain[-1] = chain[-1].unsqueeze(1) if chain[-1].ndim == 1 else chain[-1]
    result = chain_matmul(*chain)
    result = result.squeeze(0) if tensors[0].ndim == 1 else result
    return result.squeeze(-1) if tensors[-1].ndim == 1 else result


def matmul(input, other):
    """matmul(input, other): input @ other."""
    return input @ other


def vecdot(x, y, *, dim=-1):
    """vecdot(x, y, dim=-1): the products of vectors along a dimension."""
    if x.dtype in _HALVES and _half_of(x, y):
        return _in_float32(vecdot, x.dtype, x, y, dim=dim)
    return (x.conj() * y).sum(dim)


def cross(input, other, *, dim=-1):
    """cross(input, other, dim=-1): the vector product in three dimensions."""
    if input.ndim != other.ndim:
        raise _gt.GtError('linalg.cross: inputs must have the same number of dimensions.')
    sizes = input.shape[dim], other.shape[dim]
    if sizes != (3, 3):
        raise _gt.GtError(f'linalg.cross: inputs dimension {dim} must have length 3. Got {sizes[0]} and {sizes[1]}')
    return input.cross(other, dim)


def diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    """diagonal(A, offset=0, dim1=-2, dim2=-1): the diagonals of matrices."""
    return A.diagonal(offset, dim1, dim2)


def vander(x, N=None):
    """vander(x, N=None): rows of the powers 0 .. N-1 of each element."""
    x = x if x.ndim else x.reshape(1)
    N = x.shape[-1] if N is None else N
    if N < 1:
        raise _gt.GtError(f'linalg.vander: N must be greater than 1, but got {N}')
    x = x if x.dtype != _gt.bool else x.long()
    one = _gt.ones(*x.shape, 1, dtype=x.dtype)
    powers = x.unsqueeze(-1).expand(*x.shape, N - 1).cumprod(-1)
    return _gt.cat([one.to(powers.dtype), powers], -1)


def matrix_exp(A):
    """matrix_exp(A): the exponential of matrices, by scaling, a Taylor polynomial of degree 18 and squaring. Waits for the
    norm of A."""
    _square(A, 'matrix_exp')
    _floating(A, 'matrix_exp')
    if not A.numel():
        return A.clone()
    wide = A if A.dtype in _PRECISION else A.float()
    norm = wide.detach().abs().sum(-2).amax().item()
    limit = 1.09 if _PRECISION[wide.dtype] == 2.0 ** -52 else 3.01
    squarings = max(0, math.ceil(math.log2(norm / limit))) if limit < norm < _inf else 0
    x = wide * 2.0 ** -squarings
    one = _gt.eye(A.shape[-1], dtype=wide.dtype)
    x2 = x @ x
    powers = [one, x, x2, x2 @ x, x2 @ x2]
    result = None
    for first in (16, 12, 8, 4, 0):
        terms = [powers[k] * (1 / math.factorial(first + k)) for k in range(4) if first + k <= 18]
        group = sum(terms[1:], terms[0])
        result = group if result is None else group + powers[4] @ result
    for _ in range(squarings):
        result = result @ result
    return result if result.dtype == A.dtype else result.to(A.dtype)


def householder_product(A, tau):
    """householder_product(A, tau): the first columns of the product of Householder matrices, whose vectors are below the
    diagonal of A."""
    _matrices(A, 'householder_product')
    if A.shape[-2] < A.shape[-1]:
        raise _gt.GtError('linalg.householder_product: input.shape[-2] must be greater than or equal to input.shape[-1]')
    if tau.shape[-1] > A.shape[-1]:
        raise _gt.GtError('linalg.householder_product: input.shape[-1] must be greater than or equal to tau.shape[-1]')
    _same_dtype('householder_product', A, tau)
    v, t = _reflectors(A, tau)
    return _gt.eye(*A.shape[-2:], dtype=A.dtype) - v @ (t @ v[..., :A.shape[-1], :].mH)


def _same_dtype(name, a, b):
    if a.dtype != b.dtype:
        raise _gt.GtError(f'linalg.{name}: tau dtype {b.dtype} does not match input dtype {a.dtype}')


def _reflectors(A, tau):
    """(V, T): the product of the Householder matrices is 1 - V T V^H."""
    k = tau.shape[-1]
    v = A[..., :k].tril(-1) + _gt.eye(A.shape[-2], k, dtype=A.dtype)
    system = (tau.unsqueeze(-1) * (v.mH @ v)).triu(1)
    return v, solve_triangular(system, tau.diag_embed(), upper=True, unitriangular=True)


# ---- norms ---------------------------------------------------------------------------------------------------


def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None):
    """vector_norm(x, ord=2, dim=None): the norm of the elements over dimensions, all by default."""
    return _floating(x, 'vector_norm', dtype)._vector_norm(float(ord), None if dim == () else dim, keepdim)


def _two(dim, rank, name):
    dims = [d % rank for d in dim]
    if len(dims) != 2 or dims[0] == dims[1]:
        raise _gt.GtError(f'linalg.{name}: dims must be different. Got {tuple(dim)}')
    return dims


@_no_view
def matrix_norm(A, ord='fro', dim=(-2, -1), keepdim=False, *, dtype=None):
    """matrix_norm(A, ord='fro', dim=(-2, -1)): ord is 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2."""
    _matrices(A, 'matrix_norm')
    A = _floating(A, 'matrix_norm', dtype)
    row, column = _two(dim, A.ndim, 'matrix_norm')
    if ord == 'fro':
        return vector_norm(A, 2, (row, column), keepdim)
    if ord in (1, -1, _inf, -_inf):
        along, over = (row, column) if abs(ord) == 1 else (column, row)
        sums = A.abs().sum(along, True)
        result = sums.amax(over, True) if ord > 0 else sums.amin(over, True)
    elif ord in (2, -2, 'nuc'):
        values = svdvals(A.movedim((row, column), (-2, -1)))
        result = values.sum(-1) if ord == 'nuc' else values.amax(-1) if ord == 2 else values.amin(-1)
        for d in sorted((row, column)):
            result = result.unsqueeze(d)
    else:
        raise _gt.GtError(f'linalg.matrix_norm: Order {ord} not supported.')
    return result if keepdim else result.squeeze(max(row, column)).squeeze(min(row, column))


def norm(A, ord=None, dim=None, keepdim=False, *, dtype=None):
    """norm(A, ord=None, dim=None): a vector norm for one dimension, a matrix norm for two dimensions and an ord."""
    A = _floating(A, 'norm', dtype)
    if dim is None and ord is not None and A.ndim not in (1, 2):
        raise _gt.GtError('linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. '
                          f'Got {A.ndim}D.')
    dims = (dim,) if hasattr(dim, '__index__') else dim
    if ord is not None and (len(dims) == 2 if dims is not None else A.ndim == 2):
        return matrix_norm(A, ord, dims or (-2, -1), keepdim)
    if isinstance(ord, str):
        raise _gt.GtError(f'linalg.norm: Order {ord} is of matrices, and needs two dimensions')
    return vector_norm(A, 2 if ord is None else ord, dims, keepdim)


def cond(A, p=None):
    """cond(A, p=None): the condition number, in the 2-norm by default; of singular matrices it is infinite."""
    _matrices(A, 'cond')
    if p in (None, 2, -2):
        values = svdvals(A)
        return values[..., -1] / values[..., 0] if p == -2 else values[..., 0] / values[..., -1]
    _square(A, 'cond')
    product = matrix_norm(A, p) * matrix_norm(pinv(A, rtol=0.0), p)
    return where(slogdet(A.detach()).sign == 0, _inf, product)


globals().update(published_all({name: function for name, function in globals().items() if not name.startswith('_')
                                and isinstance(function, FunctionType) and function.__module__ == __name__}, 'gt.linalg'))

__dir__ = _help.publish(__name__, 'LinAlgError')
