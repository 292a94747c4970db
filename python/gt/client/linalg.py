"""Linear algebra as methods of Tensor and functions of gt, by PyTorch's older names. gt.linalg has the newer ones."""

from collections import namedtuple

from gt import linalg
from gt._gt import eye, where, zeros
from gt.client.registry import method

_SVD = namedtuple('svd', ['U', 'S', 'V'])
_QR = namedtuple('qr', ['Q', 'R'])
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
    """logdet(): the logarithm of the determinant; NaN where that is negative."""
    sign, logabsdet = linalg.slogdet(self)
    return where(sign < 0, float('nan'), logabsdet)


@method
def cholesky(self, upper=False):
    """cholesky(upper=False): the lower triangular L with self = L L^T, or its transpose."""
    return linalg.cholesky(self, upper=upper)


@method
def cholesky_solve(self, L, upper=False):
    """cholesky_solve(L, upper=False): the X with A X = self, where L is the Cholesky factor of A."""
    L = L.mT if upper else L
    half = linalg.solve_triangular(L, self, upper=False)
    return linalg.solve_triangular(L.mT, half, upper=True)


@method
def cholesky_inverse(self, upper=False):
    """cholesky_inverse(upper=False): the inverse of the matrix whose Cholesky factor this is."""
    return cholesky_solve(eye(self.shape[-1], dtype=self.dtype), self, upper)


@method
def qr(self, some=True):
    """qr(some=True): (Q, R); some=False: Q is square."""
    return _QR(*linalg.qr(self, 'reduced' if some else 'complete'))


@method
def svd(self, some=True, compute_uv=True):
    """svd(some=True): (U, S, V) with self = U diag(S) V^T; some=False: U and V are square."""
    if not compute_uv:
        batch, (m, n) = self.shape[:-2], self.shape[-2:]
        left, right = zeros(*batch, m, m, dtype=self.dtype), zeros(*batch, n, n, dtype=self.dtype)
        return _SVD(left, linalg.svdvals(self), right)
    u, s, vh = linalg.svd(self, full_matrices=not some)
    return _SVD(u, s, vh.mT)


@method
def matrix_power(self, n):
    """matrix_power(n): multiplied by itself n times."""
    return linalg.matrix_power(self, n)


@method
def triangular_solve(self, A, upper=True, transpose=False, unitriangular=False):
    """triangular_solve(A, upper=True): (the X with A X = self, A) for triangular A."""
    matrix, up = (A.mT, not upper) if transpose else (A, upper)
    return _TriangularSolve(linalg.solve_triangular(matrix, self, upper=up, unitriangular=unitriangular), A.clone())
