"""Linear algebra as methods of Tensor and functions of gt, by PyTorch's older names. gt.linalg has the newer ones."""

from collections import namedtuple

from gt import _gt, linalg
from gt._gt import eye, is_grad_enabled, randn, where, zeros
from gt.autograd import Function
from gt.client.arrangement import broadcast_shapes
from gt.client.registry import function, method, no_view

_SVD = namedtuple('svd', ['U', 'S', 'V'])
_QR = namedtuple('qr', ['Q', 'R'])
_Geqrf = namedtuple('geqrf', ['a', 'tau'])
_TriangularSolve = namedtuple('triangular_solve', ['solution', 'cloned_coefficient'])


@method
def inverse(self):
    """inverse(): the inverse of matrices."""
    return linalg.inv(self)


@method
def pinverse(self, rcond=1e-15):
    """pinverse(rcond=1e-15): the pseudo-inverse."""
    return linalg.pinv(self, rtol=rcond)


@method
def det(self):
    """det(): the determinant."""
    return linalg.det(self)


@method
def slogdet(self):
    """slogdet(): (sign, logabsdet) of the determinant."""
    return linalg.slogdet(self)


@method
def logdet(self):
    """logdet(): the logarithm of the determinant; NaN where that is negative. It is complex for complex matrices."""
    sign, logabsdet = linalg.slogdet(self)
    if self.is_complex():
        return sign.log() + logabsdet
    return where(sign < 0, float('nan'), logabsdet)


@method
def cholesky(self, upper=False):
    """cholesky(upper=False): the lower triangular L with self = L L^H, or its adjoint."""
    return linalg.cholesky(self, upper=upper)


def _symmetrised(common):
    return common + common.mH


class _CholeskySolve(Function):
    """As in PyTorch the gradient by the factor is not cut to a triangle."""

    @staticmethod
    def forward(ctx, B, L, upper):
        factor = L.mH if upper else L
        half = linalg.solve_triangular(factor, B, upper=False)
        X = linalg.solve_triangular(factor.mH, half, upper=True)
        ctx.save_for_backward(B, L, X)
        ctx.upper = upper
        return X

    @staticmethod
    def backward(ctx, g):
        B, L, X = ctx.saved_tensors
        if is_grad_enabled():  # of a second derivative: X must depend on B and L
            X = cholesky_solve(B, L, ctx.upper)
        gB = cholesky_solve(g, L, ctx.upper)
        common = _symmetrised(gB @ X.mH)
        return gB, -(L @ common if ctx.upper else common @ L), None


class _CholeskyInverse(Function):
    @staticmethod
    def forward(ctx, L, upper):
        identity = eye(L.shape[-1], dtype=L.dtype).expand(L.shape)
        return _CholeskySolve.forward(ctx, identity, L, upper)

    @staticmethod
    def backward(ctx, g):
        _, L, X = ctx.saved_tensors
        if is_grad_enabled():
            X = cholesky_inverse(L, ctx.upper)
        common = _symmetrised(X @ (g @ X))
        return -(L @ common if ctx.upper else common @ L), None


@method
def cholesky_solve(self, L, upper=False):
    """cholesky_solve(L, upper=False): the X with A X = self, where L is the Cholesky factor of A."""
    if self.ndim < 2 or L.ndim < 2:
        raise RuntimeError(f'b should have at least 2 dimensions, but has {self.ndim} dimensions instead')
    shape = broadcast_shapes(self.shape[:-2], L.shape[:-2])
    return _CholeskySolve.apply(self.expand(*shape, *self.shape[-2:]), L.expand(*shape, *L.shape[-2:]), upper)


@method
def cholesky_inverse(self, upper=False):
    """cholesky_inverse(upper=False): the inverse of the matrix whose Cholesky factor this is."""
    linalg._square(self, 'cholesky_inverse')
    return _CholeskyInverse.apply(self, upper)


@method
def qr(self, some=True):
    """qr(some=True): (Q, R); some=False: Q is square."""
    return _QR(*linalg.qr(self, 'reduced' if some else 'complete'))


@method
def svd(self, some=True, compute_uv=True):
    """svd(some=True): (U, S, V) with self = U diag(S) V^H; some=False: U and V are square."""
    if not compute_uv:
        batch, (m, n) = self.shape[:-2], self.shape[-2:]
        left, right = zeros(*batch, m, m, dtype=self.dtype), zeros(*batch, n, n, dtype=self.dtype)
        return _SVD(left, linalg.svdvals(self), right)
    u, s, vh = linalg.svd(self, full_matrices=not some)
    return _SVD(u, s, vh.mH)


@method
def matrix_power(self, n):
    """matrix_power(n): multiplied by itself n times."""
    return linalg.matrix_power(self, n)


@method
def triangular_solve(self, A, upper=True, transpose=False, unitriangular=False):
    """triangular_solve(A, upper=True): (the X with A X = self, A) for triangular A."""
    matrix, up = (A.mT, not upper) if transpose else (A, upper)
    return _TriangularSolve(linalg.solve_triangular(matrix, self, upper=up, unitriangular=unitriangular), A.clone())


@method
def matrix_exp(self):
    """matrix_exp(): the exponential of matrices."""
    return linalg.matrix_exp(self)


@method
def geqrf(self):
    """geqrf(): (a, tau): QR as LAPACK has it: R, and below its diagonal the vectors of Householder matrices, whose factors are
    tau. householder_product gives Q. Without a gradient."""
    packed = _gt._geqrf(self, False)
    return _Geqrf(packed[..., :-1, :], packed[..., -1, :min(self.shape[-2:])])


@method
def orgqr(self, input2):
    """orgqr(tau): linalg.householder_product."""
    return linalg.householder_product(self, input2)


@method
def ormqr(self, input2, input3, left=True, transpose=False):
    """ormqr(tau, other, left=True, transpose=False): other multiplied by the product of Householder matrices, of full
    size, or by its adjoint."""
    if self.ndim < 2 or input3.ndim < 2:
        which = 'input' if self.ndim < 2 else 'other'
        raise RuntimeError(f'torch.ormqr: {which} must have at least 2 dimensions.')
    if input2.shape[-1] > self.shape[-2] or self.shape[-2] != input3.shape[-2 if left else -1]:
        raise RuntimeError(f'torch.ormqr: the sizes of input {list(self.shape)}, tau {list(input2.shape)} and other '
                           f'{list(input3.shape)} do not fit')
    if not self.dtype == input2.dtype == input3.dtype:
        raise RuntimeError(f'torch.ormqr: Expected input, tau and other to have the same dtype, but got {self.dtype}, '
                           f'{input2.dtype} and {input3.dtype}')
    v, t = linalg._reflectors(self, input2)
    t = t.mH if transpose else t
    if left:
        return input3 - v @ (t @ (v.mH @ input3))
    return input3 - ((input3 @ v) @ t) @ v.mH


@method
def lu(self, pivot=True, get_infos=False):
    """lu(): (LU, pivots) of linalg.lu_factor, with get_infos also info."""
    LU, pivots, info = linalg.lu_factor_ex(self, pivot=pivot)
    return (LU, pivots, info) if get_infos else (LU, pivots)


@method
@no_view
def lu_solve(self, LU_data, LU_pivots):
    """lu_solve(LU, pivots): the X with A X = self, from LU, pivots = lu(A)."""
    return linalg.lu_solve(LU_data, LU_pivots, self)


@function
def lu_unpack(LU_data, LU_pivots, unpack_data=True, unpack_pivots=True):
    """lu_unpack(LU, pivots): (P, L, U) from lu(A)."""
    return linalg._lu_unpack(LU_data, LU_pivots, unpack_data, unpack_pivots)


@function
def vander(x, N=None, increasing=False):
    """vander(x, N=None, increasing=False): rows of the powers of each element, falling by default."""
    if x.ndim != 1:
        raise RuntimeError(f'x must be a one-dimensional tensor, but got {x.ndim} dimensions')
    N = x.shape[0] if N is None else N
    if N == 0:
        return zeros(x.shape[0], 0, dtype=x.dtype if x.is_floating_point() or x.is_complex() else _gt.int64)
    powers = linalg.vander(x, N)
    return powers if increasing else powers.flip(-1)


def _range_finder(A, q, niter, M):
    """An orthonormal basis of the range of A - M, by a random projection and niter power iterations."""
    centred = A if M is None else A - M
    Q = linalg.qr(centred @ randn(*A.shape[:-2], A.shape[-1], q, dtype=A.dtype)).Q
    for _ in range(niter):
        Q = linalg.qr(centred.mH @ Q).Q
        Q = linalg.qr(centred @ Q).Q
    return Q


@function
def svd_lowrank(A, q=6, niter=2, M=None):
    """svd_lowrank(A, q=6, niter=2, M=None): (U, S, V) of rank q for a large A, less its mean M, by random projection."""
    m, n = A.shape[-2:]
    if m < n:
        v, s, u = svd_lowrank(A.mH, q, niter, None if M is None else M.mH)
        return u, s, v
    Q = _range_finder(A, q, niter, M)
    u, s, vh = linalg.svd(Q.mH @ (A if M is None else A - M), full_matrices=False)
    return Q @ u, s, vh.mH


@function
def pca_lowrank(A, q=None, center=True, niter=2):
    """pca_lowrank(A, q=None, center=True, niter=2): the q principal components of rows: (U, S, V)."""
    m, n = A.shape[-2:]
    q = min(6, m, n) if q is None else q
    if not 0 <= q <= min(m, n):
        raise ValueError(f'q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}')
    if niter < 0:
        raise ValueError(f'niter(={niter}) must be non-negative integer')
    return svd_lowrank(A - A.mean(-2, True) if center else A, q, niter)
