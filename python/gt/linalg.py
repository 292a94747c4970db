"""gt.linalg: the functions of torch.linalg. All work on the last two dimensions, in float32 and float64; leading
dimensions are batches.

Workers compute decompositions with LAPACK. Norms, powers and ranks are Python functions of other operations. If a
matrix has no result (singular, not positive-definite), the worker finds out, and reading the result raises LinAlgError.
"""

from collections import namedtuple

from gt import _gt
from gt._gt import LinAlgError, Tensor, where  # noqa: F401

_QR = namedtuple('linalg_qr', ['Q', 'R'])
_SVD = namedtuple('linalg_svd', ['U', 'S', 'Vh'])
_Eigh = namedtuple('linalg_eigh', ['eigenvalues', 'eigenvectors'])
_Slogdet = namedtuple('linalg_slogdet', ['sign', 'logabsdet'])
_Lstsq = namedtuple('linalg_lstsq', ['solution', 'residuals', 'rank', 'singular_values'])
_inf = float('inf')
_PRECISION = {_gt.float32: 2.0 ** -23, _gt.float64: 2.0 ** -52}


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


def solve_triangular(A, B, *, upper, left=True, unitriangular=False):
    """solve_triangular(A, B, upper=...): the X with A X = B for triangular A, whose other triangle is not read."""
    if left:
        return _gt._solve_triangular(A, B, upper, unitriangular)
    return _gt._solve_triangular(A.mT, B.mT, not upper, unitriangular).mT


def lstsq(A, B, rcond=None, *, driver=None):
    """lstsq(A, B): the X that minimises the norm of A X - B, the smallest if there are several: (solution, ...)."""
    _matrices(A, 'lstsq')
    vector = B.ndim == A.ndim - 1
    solution = pinv(A, rtol=rcond) @ (B.unsqueeze(-1) if vector else B)
    values = driver in ('gelsd', 'gelss')
    return _Lstsq(solution.squeeze(-1) if vector else solution, _gt.zeros(0, dtype=A.dtype), matrix_rank(A, rtol=rcond),
                  svdvals(A) if values else _gt.zeros(0, dtype=A.dtype))


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


def cholesky(A, *, upper=False):
    """cholesky(A, upper=False): the lower triangular L with A = L L^T, or its transpose."""
    return _gt._cholesky(A.mT).mT if upper else _gt._cholesky(A)


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
    """eigh(A, UPLO='L'): (eigenvalues, eigenvectors) of a symmetric A, ascending; one triangle is read."""
    return _Eigh(*_gt._eigh(A, _is_upper(UPLO)))


def eigvalsh(A, UPLO='L'):
    """eigvalsh(A, UPLO='L'): the eigenvalues of a symmetric A, ascending."""
    return _gt._eigvalsh(A, _is_upper(UPLO))[0]


# ---- inverses and ranks, up to a tolerance -------------------------------------------------------------------


def _symmetric(A):
    """The symmetric matrix that the lower triangle of A defines."""
    return A.tril() + A.tril(-1).mT


def pinv(A, rcond=None, *, atol=None, rtol=None, hermitian=False):
    """pinv(A): the pseudo-inverse; singular values up to max(atol, rtol * the largest) count as zero."""
    rtol = rcond if rtol is None else rtol
    if rtol is None:
        rtol = -1.0 if not atol else 0.0
    if hermitian:
        _square(A, 'pinv')
        A = _symmetric(A)
    return _gt._pinv(A, rtol, atol or 0.0)


def matrix_rank(A, tol=None, hermitian=False, *, atol=None, rtol=None):
    """matrix_rank(A): how many singular values exceed max(atol, rtol * the largest)."""
    _matrices(A, 'matrix_rank')
    A = A.detach()
    atol = tol if atol is None else atol
    if rtol is None:
        rtol = max(A.shape[-2:]) * _PRECISION.get(A.dtype, 0) if not atol else 0.0
    values = eigvalsh(A).abs() if hermitian else svdvals(A)
    if not values.shape[-1]:
        return _gt.zeros(A.shape[:-2], dtype=_gt.int64)
    return (values > (values.amax(-1, True) * rtol).clamp(atol or 0.0)).sum(-1)


# ---- products ------------------------------------------------------------------------------------------------


def matrix_power(A, n):
    """matrix_power(A, n): A multiplied by itself n times; n < 0: powers of the inverse."""
    _square(A, 'matrix_power')
    if n < 0:
        return matrix_power(inv(A), -n)
    if n == 0:
        return _gt.eye(A.shape[-1], dtype=A.dtype).expand(A.shape)
    result = None
    while n:
        if n & 1:
            result = A if result is None else result @ A
        n >>= 1
        A = A @ A if n else A
    return result


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
    return (x * y).sum(dim)


def cross(input, other, *, dim=-1):
    """cross(input, other, dim=-1): the vector product in three dimensions."""
    return input.cross(other, dim)


# ---- norms ---------------------------------------------------------------------------------------------------


def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None):
    """vector_norm(x, ord=2, dim=None): the norm of the elements over dimensions, all by default."""
    return _floating(x, 'vector_norm', dtype)._vector_norm(float(ord), None if dim == () else dim, keepdim)


def _two(dim, rank, name):
    dims = [d % rank for d in dim]
    if len(dims) != 2 or dims[0] == dims[1]:
        raise _gt.GtError(f'linalg.{name}: dims must be different. Got {tuple(dim)}')
    return dims


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
