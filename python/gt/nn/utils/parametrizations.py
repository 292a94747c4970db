"""Ready-made parametrisations: weight_norm, spectral_norm and orthogonal."""

import enum
import math

import gt
from gt import _help
from gt.nn import functional as F
from gt.nn.module import Module
from gt.nn.utils import parametrize
from gt.nn.utils.weight_norm import norm_except, weight_of


class _WeightNorm(Module):
    """g * v / |v| from the length g and the direction v."""

    def __init__(self, dim=0):
        super().__init__()
        self.dim = dim

    def forward(self, weight_g, weight_v):
        """The weight."""
        return weight_of(weight_g, weight_v, self.dim)

    def right_inverse(self, weight):
        """Its length and direction."""
        return norm_except(weight, self.dim), weight


def weight_norm(module, name='weight', dim=0):
    """Parametrise a weight by its length (over all dimensions but dim) and direction.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(20, 40))
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def old_names(state_dict, prefix, *rest):
        for old, new in (('g', 0), ('v', 1)):
            key = f'{prefix}{name}_{old}'
            if key in state_dict:
                state_dict[f'{prefix}parametrizations.{name}.original{new}'] = state_dict.pop(key)
    module._register_load_state_dict_pre_hook(old_names)
    return module


class _SpectralNorm(Module):
    """The weight divided by its largest singular value, which each call in training improves."""

    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(f'Dimension out of range (expected to be in range of [-{weight.ndim}, {weight.ndim - 1}] but '
                             f'got {dim})')
        if n_power_iterations <= 0:
            raise ValueError(f'Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}')
        self.dim, self.eps = dim if dim >= 0 else dim + weight.ndim, eps
        if weight.ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._matrix(weight.detach())
            height, width = matrix.shape
            self.register_buffer('_u', F.normalize(gt.randn(height, dtype=weight.dtype), dim=0, eps=eps))
            self.register_buffer('_v', F.normalize(gt.randn(width, dtype=weight.dtype), dim=0, eps=eps))
            self._power_method(matrix, 15)

    def _matrix(self, weight):
        return weight.movedim(self.dim, 0).flatten(1)

    @gt.no_grad()
    def _power_method(self, matrix, count):
        for _ in range(count):
            self._u.copy_(F.normalize(matrix.mv(self._v), dim=0, eps=self.eps))
            self._v.copy_(F.normalize(matrix.t().mv(self._u), dim=0, eps=self.eps))

    def forward(self, weight):
        """The normalised weight."""
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._power_method(matrix.detach(), self.n_power_iterations)
        return weight / self._u.clone().dot(matrix.mv(self._v.clone()))

    def right_inverse(self, value):
        """Any weight gives itself."""
        return value


def spectral_norm(module, name='weight', n_power_iterations=1, eps=1e-12, dim=None):
    """Divide a weight by its largest singular value.

    >>> layer = nn.utils.parametrizations.spectral_norm(nn.Linear(20, 40))
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, gt.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        transposed = type(module).__name__ in ('ConvTranspose1d', 'ConvTranspose2d', 'ConvTranspose3d')
        dim = 1 if transposed else 0
    parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
    return module


# ---- orthogonal matrices ---------------------------------------------------------------------------------------


class _OrthMaps(enum.Enum):
    matrix_exp = enum.auto()
    cayley = enum.auto()
    householder = enum.auto()


def _matrix_exp(matrix):
    """exp(A) of one matrix: a Taylor series of A / 2**k, squared k times. The norm decides k, which waits."""
    norm = float(matrix.detach().abs().sum(-1).max())
    halvings = max(0, math.ceil(math.log2(norm)) + 3) if norm > 0 else 0
    scaled = matrix / 2.0 ** halvings
    identity = gt.eye(matrix.shape[-1], dtype=matrix.dtype)
    result = identity
    for k in range(12, 0, -1):
        result = identity + (scaled @ result) / float(k)
    for _ in range(halvings):
        result = result @ result
    return result


def _householder_product(vectors):
    """The product of the reflections by the columns of a matrix, each with a leading 1 on the diagonal, and the tau's
    that make them reflections; its first columns."""
    rows, columns = vectors.shape
    lower = vectors.tril(-1) + gt.eye(rows, columns, dtype=vectors.dtype)
    taus = 2.0 / (1.0 + vectors.tril(-1).square().sum(0))
    result = gt.eye(rows, columns, dtype=vectors.dtype)
    for k in reversed(range(columns)):
        v = lower[:, k:k + 1]
        result = result - taus[k] * (v @ (v.t() @ result))
    return result


class _Orthogonal(Module):
    """An orthogonal matrix, or one with orthogonal rows or columns, from any matrix."""

    def __init__(self, weight, orthogonal_map, use_trivialization=True):
        super().__init__()
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        if use_trivialization:
            self.register_buffer('base', None)

    def forward(self, X):
        """The orthogonal matrix."""
        rows, columns = X.shape[-2:]
        transposed = rows < columns
        if transposed:
            X, (rows, columns) = X.t(), (columns, rows)
        if self.orthogonal_map is _OrthMaps.householder:
            Q = _householder_product(X) * X.detach().diagonal().int()  # 1 and -1, which are not trained
        else:
            A = X.tril()
            if rows != columns:
                A = F.pad(A, (0, rows - columns))
            A = A - A.t()
            if self.orthogonal_map is _OrthMaps.matrix_exp:
                Q = _matrix_exp(A)
            else:
                identity = gt.eye(rows, dtype=A.dtype)
                Q = gt.linalg.solve(identity - A * 0.5, identity + A * 0.5)
            Q = Q[:, :columns] if rows != columns else Q
        base = getattr(self, 'base', None)
        if base is not None:
            Q = base @ Q
        return Q.t() if transposed else Q


    @gt.no_grad()
    def right_inverse(self, Q):
        """The matrix from which forward() gives the orthogonal matrix nearest to Q's directions."""
        if Q.shape != self.shape:
            raise ValueError(f'Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape '
                             f'{Q.shape}.')
        rows, columns = Q.shape
        tall = Q.t() if rows < columns else Q
        if 'base' not in self._buffers:
            if self.orthogonal_map is not _OrthMaps.householder:
                raise NotImplementedError('It is not possible to assign to the matrix exponential or the Cayley '
                                          'parametrizations when use_trivialization=False.')
            reflections = _reflections(tall)
            return reflections.t() if rows < columns else reflections
        if rows != columns:
            extra = gt.randn(max(rows, columns), abs(rows - columns), dtype=Q.dtype)
            tall = gt.cat([tall, extra], 1)
        self.base = _made_orthogonal(tall)
        return -gt.eye(rows, columns, dtype=Q.dtype)


def _made_orthogonal(matrix):
    """Q of the QR decomposition with a positive diagonal of R."""
    Q, R = gt.linalg.qr(matrix)
    return Q * R.diagonal().sign()


def _reflections(matrix):
    """LAPACK's reflections below the diagonal, and on it the signs that make Q R's diagonal positive; by NumPy in this
    process."""
    import numpy
    raw, tau = numpy.linalg.qr(matrix.detach().numpy(), 'raw')
    raw = raw.T.copy()
    diagonal = numpy.sign(numpy.diagonal(raw)) * numpy.where(tau == 0, -1, 1)
    numpy.fill_diagonal(raw, diagonal)
    return gt.tensor(raw, dtype=matrix.dtype)


def orthogonal(module, name='weight', orthogonal_map=None, *, use_trivialization=True):
    """Keep a weight orthogonal: 'matrix_exp' (the default of square matrices), 'cayley' or 'householder'.

    >>> layer = nn.utils.parametrizations.orthogonal(nn.Linear(20, 20))
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, gt.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(f'Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.')
    if orthogonal_map is None:
        orthogonal_map = 'matrix_exp' if weight.shape[-2] == weight.shape[-1] else 'householder'
    if orthogonal_map not in _OrthMaps.__members__:
        raise ValueError('orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
                         f'Got: {orthogonal_map}')
    if weight.ndim > 2:
        raise NotImplementedError('orthogonal: batches of matrices are not supported')
    parametrization = _Orthogonal(weight, _OrthMaps[orthogonal_map], use_trivialization)
    parametrize.register_parametrization(module, name, parametrization, unsafe=True)
    return module

__dir__ = _help.publish(__name__)
