"""Sparse tensors in coordinate form, as graph networks use them: a list of positions, and a value for each.

    >>> A = gt.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
    >>> gt.sparse.mm(A, gt.ones(3, 2))
    tensor([[3., 3.],
            [4., 4.]])

A SparseTensor holds two ordinary tensors, so gradients reach the values and the dense operands of a product by themselves.
Products of float32 and float64 matrices are one instruction (sparse_mm of the op table).
"""

import math

from gt.client.outputs import published
from gt import _gt, _help
from gt._gt import Tensor, cat, stack
from gt.client.registry import axis_of


class layout:
    """How a tensor is stored: gt.strided or gt.sparse_coo."""

    def __init__(self, name):
        self._name = name

    def __repr__(self):
        return 'gt.' + self._name


strided, sparse_coo = layout('strided'), layout('sparse_coo')
Tensor.layout, Tensor.is_sparse = strided, False


class SparseTensor:
    """A sparse tensor: indices (sparse dimensions, nnz), values (nnz, dense dimensions...), a size.

    Positions may occur more than once; their values count together. coalesce() adds them up and sorts. It is made by
    gt.sparse_coo_tensor and Tensor.to_sparse, and it is not a Tensor: operations that it does not have raise.
    """

    layout, is_sparse, is_cuda, is_cpu = sparse_coo, True, False, False
    __array_ufunc__ = None

    def __init__(self, indices, values, size, coalesced=False):
        self._i, self._v, self.shape, self._coalesced = indices, values, tuple(size), coalesced

    # ---- what it is made of ----

    dtype = property(lambda self: self._v.dtype)
    device = property(lambda self: self._v.device)
    requires_grad = property(lambda self: self._v.requires_grad)
    is_leaf = property(lambda self: self._v.is_leaf)
    ndim = property(lambda self: len(self.shape))
    T = property(lambda self: self.t())

    @property
    def grad(self):
        """The gradient of the values, at the same positions."""
        return None if self._v.grad is None else SparseTensor(self._i, self._v.grad, self.shape, self._coalesced)

    def size(self, dim=None):
        """size(dim=None): the shape, or the size of one dimension."""
        return self.shape if dim is None else self.shape[axis_of(self, dim)]

    def dim(self):
        """dim(): the number of dimensions."""
        return len(self.shape)

    def numel(self):
        """numel(): the number of elements, zeros included."""
        return math.prod(self.shape)

    def _indices(self):
        return self._i

    def _values(self):
        return self._v

    def _nnz(self):
        return self._i.shape[1]

    def sparse_dim(self):
        """sparse_dim(): dimensions that have indices."""
        return self._i.shape[0]

    def dense_dim(self):
        """dense_dim(): dimensions of each value."""
        return self._v.ndim - 1

    def is_coalesced(self):
        """is_coalesced(): whether every position occurs once, in order."""
        return self._coalesced

    def is_floating_point(self):
        """is_floating_point(): whether the dtype is a float one."""
        return self._v.is_floating_point()

    def is_complex(self):
        """is_complex(): whether the dtype is a complex one."""
        return self._v.is_complex()

    def _need(self, what):
        if not self._coalesced:
            raise RuntimeError(f'Cannot get {what} on an uncoalesced tensor, please call .coalesce() first')

    def indices(self):
        """indices(): the positions of a coalesced tensor, (sparse dimensions, nnz)."""
        self._need('indices')
        return self._i

    def values(self):
        """values(): the values of a coalesced tensor."""
        self._need('values')
        return self._v

    # ---- conversions ----

    def _with(self, values):
        return SparseTensor(self._i, values, self.shape, self._coalesced)

    def _linear(self):
        """Positions as numbers in row-major order."""
        number = _gt.zeros(self._nnz(), dtype=_gt.int64)
        for d in range(self.sparse_dim()):
            number = number * self.shape[d] + self._i[d]
        return number

    def coalesce(self):
        """coalesce(): the values at equal positions added up, positions in order. Waits for the number of positions."""
        if self._coalesced:
            return self
        numbers, inverse = self._linear().unique(return_inverse=True)
        zeros = _gt.zeros((numbers.shape[0],) + self._v.shape[1:], dtype=self.dtype)
        rows = []
        for d in reversed(range(self.sparse_dim())):
            size = max(self.shape[d], 1)
            rows.append(numbers % size)
            numbers = numbers // size
        indices = stack(rows[::-1]) if rows else _gt.zeros(0, inverse.shape[0], dtype=_gt.int64)
        return SparseTensor(indices, zeros.index_add(0, inverse, self._v), self.shape, True)

    def to_dense(self):
        """to_dense(): the ordinary tensor."""
        sparse = self.shape[:self.sparse_dim()]
        zeros = _gt.zeros((math.prod(sparse),) + self._v.shape[1:], dtype=self.dtype)
        return zeros.index_add(0, self._linear(), self._v).reshape(self.shape)

    def to_sparse(self, sparse_dim=None):
        """to_sparse(): self."""
        return self

    def to(self, *arguments, **options):
        """to(dtype), to(device): the same with converted values."""
        return self._with(self._v.to(*arguments, **options))

    def float(self):
        """float(): to float32."""
        return self._with(self._v.float())

    def double(self):
        """double(): to float64."""
        return self._with(self._v.double())

    def cpu(self):
        """cpu(): self."""
        return self

    def cuda(self, *_, **__):
        """cuda(): self; the dispatcher places tensors."""
        return self

    def detach(self):
        """detach(): the same values without a gradient."""
        return self._with(self._v.detach())

    def clone(self):
        """clone(): a copy."""
        return SparseTensor(self._i.clone(), self._v.clone(), self.shape, self._coalesced)

    def requires_grad_(self, requires_grad=True):
        """requires_grad_(): ask for the gradient of the values."""
        self._v.requires_grad_(requires_grad)
        return self

    def transpose(self, dim0, dim1):
        """transpose(dim0, dim1): two sparse dimensions swapped."""
        a, b = axis_of(self, dim0), axis_of(self, dim1)
        if max(a, b) >= self.sparse_dim():
            raise RuntimeError('transpose: dense dimensions of a sparse tensor cannot be transposed')
        order, size = list(range(self.sparse_dim())), list(self.shape)
        order[a], order[b], size[a], size[b] = b, a, size[b], size[a]
        return SparseTensor(stack([self._i[d] for d in order]), self._v, size, self._coalesced and a == b)

    def t(self):
        """t(): a matrix transposed."""
        if self.ndim > 2:
            raise RuntimeError(f't() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {self.ndim}')
        return self if self.ndim < 2 else self.transpose(0, 1)

    # ---- elementwise ----

    def __neg__(self):
        return self._with(-self._v)

    neg = __neg__

    def __mul__(self, other):
        if isinstance(other, SparseTensor):
            return _intersection(self, other)
        if isinstance(other, Tensor) and other.ndim:
            if other.shape != self.shape:
                other = other.expand(self.shape)
            return self._with(self._v * other[tuple(self._i[d] for d in range(self.sparse_dim()))])
        return self._with(self._v * other)

    __rmul__ = mul = __mul__

    def __truediv__(self, other):
        if isinstance(other, SparseTensor) or (isinstance(other, Tensor) and other.ndim):
            raise RuntimeError('A Sparse Tensor can only be divided by a scalar or zero-dim dense tensor')
        return self._with(self._v / other)

    div = __truediv__

    def __add__(self, other):
        if not isinstance(other, SparseTensor):
            raise RuntimeError('add(sparse, dense) is not supported. Use add(dense, sparse) instead.')
        if other.shape != self.shape or other.sparse_dim() != self.sparse_dim():
            raise RuntimeError(f"add: Expected sizes of 'self' and 'other' to match, but {self.shape} != {other.shape}")
        return SparseTensor(cat([self._i, other._i], 1), cat([self._v, other._v]), self.shape)

    def add(self, other, *, alpha=1):
        """add(other, alpha=1): self + alpha * other, both sparse."""
        return self + (other if alpha == 1 else other * alpha)

    def __radd__(self, other):
        return other + self.to_dense()

    def __sub__(self, other):
        return self + -other if isinstance(other, SparseTensor) else self + other

    def __rsub__(self, other):
        return other - self.to_dense()

    sub = __sub__

    # ---- products and sums ----

    def __matmul__(self, other):
        return mm(self, other) if other.ndim == 2 else self.mv(other)

    matmul = mm = __matmul__

    def mv(self, vector):
        """mv(vector): the product with a vector."""
        return mm(self, vector.unsqueeze(1)).squeeze(1)

    def __rmatmul__(self, other):
        if other.ndim == 1:
            return self.t().mv(other)
        return mm(self.t(), other.t()).t()

    def sum(self, dim=None, dtype=None):
        """sum(dim=None): over all elements: a 0-d tensor; over some dimensions: sparse."""
        return sum(self, dim, dtype)

    def __repr__(self):
        lines = [_part('indices', self._i), _part('values', self._v.detach())]
        tail = f'size={self.shape}, nnz={self._nnz()}, layout=gt.sparse_coo'
        if self.requires_grad:
            tail += ', requires_grad=True'
        if self.dtype.name not in ('float32', 'int64', 'bool', 'complex64') and not self._nnz():
            tail += f', dtype={self.dtype}'
        return 'tensor(' + ',\n       '.join(lines + [tail]) + ')'


def _part(name, tensor):
    text = repr(tensor) if tensor.numel() else f'tensor([], size={tuple(tensor.shape)})'
    return f'{name}=' + text.replace('\n', '\n' + ' ' * (len(name) + 8))


def _preserving(name):
    """A function that keeps zeros, of the values; not linear, so positions must be unique."""
    def apply(self):
        whole = self.coalesce()
        return whole._with(getattr(whole._v, name)())
    apply.__name__, apply.__doc__ = name, f'{name}(): of each value.'
    return apply


for _name in ('abs', 'sqrt', 'square', 'sin', 'tan', 'tanh', 'sinh', 'asin', 'atan', 'asinh', 'atanh', 'relu', 'sign',
              'sgn', 'floor', 'ceil', 'round', 'trunc', 'expm1', 'log1p', 'erf'):
    setattr(SparseTensor, _name, _preserving(_name))


# ---- making them ---------------------------------------------------------------------------------------------


def sparse_coo_tensor(indices, values=None, size=None, *, dtype=None, device=None, requires_grad=False,
                      check_invariants=None, is_coalesced=None):
    """sparse_coo_tensor(indices, values, size=None): a sparse tensor with values at positions.

    indices is (sparse dimensions, nnz), values (nnz, ...). Without a size, the smallest that holds all positions (waits).

    >>> gt.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0]).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 0.]])
    """
    if values is None:  # sparse_coo_tensor(size): no elements
        size = indices if size is None else size
        indices, values = _gt.zeros(len(size), 0, dtype=_gt.int64), _gt.zeros(0, dtype=dtype or _gt.float32)
    indices = indices if isinstance(indices, Tensor) else _gt.tensor(indices, dtype=_gt.int64)
    values = values if isinstance(values, Tensor) else _gt.tensor(values)
    values = values if dtype is None else values.to(dtype)
    if indices.ndim != 2:
        raise RuntimeError(f'indices must be sparse_dim x nnz, but got: {list(indices.shape)}')
    if values.ndim == 0:
        values = values.expand(indices.shape[1])
    if indices.shape[1] != values.shape[0]:
        raise RuntimeError(f'indices and values must have same nnz, but got nnz from indices: {indices.shape[1]}, nnz from '
                           f'values: {values.shape[0]}')
    indices = indices.to(_gt.int64)
    if size is None:
        reach = (indices.amax(1) + 1).tolist() if indices.shape[1] else [0] * indices.shape[0]
        size = tuple(reach) + tuple(values.shape[1:])
    if len(size) != indices.shape[0] + values.ndim - 1:
        raise RuntimeError(f'number of dimensions must be sparse_dim ({indices.shape[0]}) + dense_dim ({values.ndim - 1}), '
                           f'but got {len(size)}')
    if check_invariants and indices.shape[1]:
        for d, (low, high) in enumerate(zip(indices.amin(1).tolist(), indices.amax(1).tolist())):
            if low < 0 or high >= size[d]:
                raise RuntimeError(f'size is inconsistent with indices: for dim {d}, size is {size[d]} but found index '
                                   f'{low if low < 0 else high}')
    if requires_grad:
        values = values.detach().requires_grad_()
    return SparseTensor(indices, values, size, bool(is_coalesced))


def to_sparse(self, sparse_dim=None, *, layout=None):
    """to_sparse(sparse_dim=None): the elements that are not 0, with their positions. Waits for their number."""
    if layout is not None and layout is not sparse_coo:
        raise NotImplementedError(f'to_sparse: layout {layout} is not supported, only gt.sparse_coo')
    count = self.ndim if sparse_dim is None else sparse_dim
    there = self != 0
    if count < self.ndim:
        there = there.reshape(self.shape[:count] + (-1,)).any(-1)
    places = there.nonzero().t()
    values = self[tuple(places[d] for d in range(count))]
    return SparseTensor(places, values, self.shape, True)


Tensor.to_sparse = Tensor.to_sparse_coo = to_sparse
Tensor.to_dense = lambda self, *_, **__: self


# ---- products ------------------------------------------------------------------------------------------------


def mm(mat1, mat2):
    """mm(mat1, mat2): the product of a sparse matrix and a dense or sparse one.

    Gradients reach the values of the sparse matrix, at its positions, and the dense one.
    """
    if not isinstance(mat1, SparseTensor):
        return mat1.mm(mat2) if isinstance(mat2, Tensor) else mat2.__rmatmul__(mat1)
    if mat1.ndim != 2 or mat1.dense_dim() or mat2.ndim != 2:
        raise RuntimeError(f'mm: expected matrices, but got tensors of {mat1.ndim} and {mat2.ndim} dimensions')
    if mat1.shape[1] != mat2.shape[0]:
        raise RuntimeError(f'addmm: Argument #3 (dense): Expected dim 0 size {mat1.shape[1]}, got {mat2.shape[0]}')
    if isinstance(mat2, SparseTensor):
        return _sparse_product(mat1, mat2)
    if mat1.dtype != mat2.dtype:
        raise RuntimeError(f'addmm: Expected mat1 and mat2 to have the same dtype, but got: {mat1.dtype} and {mat2.dtype}')
    if mat1.dtype in (_gt.float32, _gt.float64):
        return _gt._sparse_mm(mat1._i, mat1._v, mat2, mat1.shape[0], False)
    parts = mat1._v.unsqueeze(1) * mat2[mat1._i[1]]
    return _gt.zeros(mat1.shape[0], mat2.shape[1], dtype=mat1.dtype).index_add(0, mat1._i[0], parts)


def _sparse_product(a, b):
    """Each element of a meets the elements of b in the row that its column names."""
    b = b.coalesce()
    counts = b._i[0].bincount(minlength=b.shape[0])
    start = counts.cumsum(0) - counts
    met = counts[a._i[1]]
    which = _gt.arange(a._nnz()).repeat_interleave(met)
    place = _gt.arange(which.shape[0]) - (met.cumsum(0) - met)[which] + start[a._i[1]][which]
    values = a._v[which] * b._v[place]
    return SparseTensor(stack([a._i[0][which], b._i[1][place]]), values, (a.shape[0], b.shape[1])).coalesce()


def _intersection(a, b):
    """The products where both have a value."""
    a, b = a.coalesce(), b.coalesce()
    if a.shape != b.shape:
        raise RuntimeError(f"mul: Expected sizes of 'self' and 'other' to match, but {a.shape} != {b.shape}")
    ours, theirs = a._linear(), b._linear()
    if not b._nnz():
        return b._with(b._v * 1)
    place = theirs.searchsorted(ours).clamp(max=b._nnz() - 1)
    both = (theirs[place] == ours).nonzero().reshape(-1)
    return SparseTensor(a._i[:, both], a._v[both] * b._v[place[both]], a.shape, True)


def addmm(mat, mat1, mat2, *, beta=1.0, alpha=1.0):
    """addmm(mat, mat1, mat2, beta=1, alpha=1): beta * mat + alpha * (mat1 @ mat2), mat1 sparse."""
    product = mm(mat1, mat2)
    product = product if alpha == 1 else product * alpha
    return (mat if beta == 1 else mat * beta) + product


def sampled_addmm(input, mat1, mat2, *, beta=1.0, alpha=1.0):
    """sampled_addmm(input, mat1, mat2): mat1 @ mat2 only at the positions of the sparse input, which is added."""
    input = input.coalesce()
    sampled = _gt._sampled_mm(input._i, mat1, mat2.t())
    return input._with(input._v * beta + sampled * alpha)


# ---- sums and softmax ----------------------------------------------------------------------------------------


def sum(input, dim=None, dtype=None):
    """sum(input, dim=None): over all elements: a 0-d tensor; over some dimensions: sparse, or dense if none is left."""
    input = input if dtype is None else input.to(dtype)
    if dim is None:
        return input._v.sum()
    dims = {axis_of(input, d) for d in ([dim] if hasattr(dim, '__index__') else dim)}
    count = input.sparse_dim()
    inner = [d - count + 1 for d in dims if d >= count]
    values = input._v.sum(inner) if inner else input._v
    kept = [d for d in range(count) if d not in dims]
    size = [n for d, n in enumerate(input.shape) if d not in dims]
    if not kept:
        return values.sum(0)
    return SparseTensor(stack([input._i[d] for d in kept]), values, size).coalesce()


def _softmax(input, dim, logarithm):
    input = input.coalesce()
    dim = axis_of(input, dim)
    if dim >= input.sparse_dim():
        values = input._v
        return input._with((values.log_softmax if logarithm else values.softmax)(dim - input.sparse_dim() + 1))
    size = [n for d, n in enumerate(input.shape[:input.sparse_dim()]) if d != dim]
    group = _gt.zeros(input._nnz(), dtype=_gt.int64)
    for d in range(input.sparse_dim()):
        if d != dim:
            group = group * input.shape[d] + input._i[d]
    zeros = _gt.zeros((math.prod(size),) + input._v.shape[1:], dtype=input.dtype)
    index = group.reshape((-1,) + (1,) * input.dense_dim()).expand(input._v.shape)
    largest = zeros.scatter_reduce(0, index, input._v.detach(), 'amax', include_self=False)
    shifted = input._v - largest[group]
    total = zeros.index_add(0, group, shifted.exp())[group]
    return input._with(shifted - total.log() if logarithm else shifted.exp() / total)


def softmax(input, dim, *, dtype=None):
    """softmax(input, dim): softmax of the elements that there are along a dimension; the others count as -inf."""
    return _softmax(input if dtype is None else input.to(dtype), dim, False)


def log_softmax(input, dim, *, dtype=None):
    """log_softmax(input, dim): the logarithm of softmax."""
    return _softmax(input if dtype is None else input.to(dtype), dim, True)


# ---- functions of the package that take sparse matrices, too ---------------------------------------------------


def _dispatched(name):
    dense = getattr(Tensor, name)

    def others(input, *arguments, **options):
        if isinstance(input, SparseTensor):
            return getattr(input, name)(*arguments, **options)
        if arguments and isinstance(arguments[0], SparseTensor):
            return input @ arguments[0]
        return dense(input, *arguments, **options)
    return published(name, dense, others)


FUNCTIONS = {'sparse_coo_tensor': sparse_coo_tensor, 'strided': strided, 'sparse_coo': sparse_coo, 'layout': layout,
             'spmm': mm, **{name: _dispatched(name) for name in ('mm', 'matmul', 'mv')}}

__dir__ = _help.publish(__name__)
