"""Tensor: the methods that are put together from the C extension's, and PyTorch's names for them.

The C extension (gt._gt) has every operation of the op table, indexing and shapes. What is here needs no speed of
its own: it calls those. Each function below marked @method becomes a method of Tensor.
"""

from gt import _gt
from gt._gt import (  # noqa: F401
    Tensor, arange, as_tensor, cat, empty, eye, from_numpy, full, linspace, ones, rand, randint, randn, stack,
    tensor, where, zeros, zeros_like)

_names = []


def method(function):
    """Make a function a method of Tensor."""
    setattr(Tensor, function.__name__, function)
    _names.append(function.__name__)
    return function


def _axis(self, dim):
    limit = self.ndim or 1
    if not -limit <= dim < limit:
        raise IndexError(
            f'Dimension out of range (expected to be in range of [{-limit}, {limit - 1}], but got {dim})')
    return dim % limit


def _sizes(sizes):
    return tuple(sizes[0]) if len(sizes) == 1 and not hasattr(sizes[0], '__index__') else sizes


# ---- values with indices -------------------------------------------------------------------------------------


class ValuesIndices:
    """What max, min, sort and topk return: (values, indices), with names. max and min search only when asked."""

    __slots__ = ('_name', 'values', '_indices')

    def __init__(self, name, values, indices):
        self._name, self.values, self._indices = name, values, indices

    @property
    def indices(self):
        """Where the values came from."""
        if callable(self._indices):
            self._indices = self._indices()
        return self._indices

    def __len__(self):
        return 2

    def __getitem__(self, position):
        return (self.values, self.indices)[position] if position not in (0, -2) else self.values

    def __iter__(self):
        return iter((self.values, self.indices))

    def __repr__(self):
        return f'gt.return_types.{self._name}(\nvalues={self.values!r},\nindices={self.indices!r})'


def _extremum(name, self, dim, keepdim, other, elementwise, reduce, search):
    if other is None and isinstance(dim, Tensor):
        dim, other = None, dim
    if other is not None:
        return elementwise(self, other)
    if dim is None:
        return reduce(self, keepdim=keepdim)
    if not hasattr(dim, '__index__'):
        return reduce(self, dim, keepdim)
    source = self.data
    return ValuesIndices(name, reduce(self, dim, keepdim), lambda: search(source, dim, keepdim))


@method
def max(self, dim=None, keepdim=False, *, other=None, axis=None, keepdims=False):
    """max(): the largest element; max(dim): (values, indices); max(other): maximum; max((0, 1)): over several."""
    dim = axis if dim is None else dim
    return _extremum('max', self, dim, keepdim or keepdims, other, Tensor.maximum, Tensor.amax, Tensor.argmax)


@method
def min(self, dim=None, keepdim=False, *, other=None, axis=None, keepdims=False):
    """min(): the smallest element; min(dim): (values, indices); min(other): minimum; min((0, 1)): over several."""
    dim = axis if dim is None else dim
    return _extremum('min', self, dim, keepdim or keepdims, other, Tensor.minimum, Tensor.amin, Tensor.argmin)


@method
def sort(self, dim=-1, descending=False, stable=False, *, axis=None):
    """sort(dim=-1, descending=False, stable=False): (values, indices); always stable."""
    dim = dim if axis is None else axis
    indices = self.argsort(dim, descending)
    return ValuesIndices('sort', self.gather(dim, indices), indices)


@method
def topk(self, k, dim=-1, largest=True, sorted=True, *, axis=None):
    """topk(k, dim=-1, largest=True): (values, indices) of the k largest or smallest, best first."""
    dim = dim if axis is None else axis
    indices = self._topk_indices(k, dim, largest)
    return ValuesIndices('topk', self.gather(dim, indices), indices)


# ---- elementwise ---------------------------------------------------------------------------------------------


@method
def clamp_min(self, min):
    """clamp_min(min): at least min."""
    return self.clamp(min=min)


@method
def clamp_max(self, max):
    """clamp_max(max): at most max."""
    return self.clamp(max=max)


@method
def nan_to_num(self, nan=None, posinf=None, neginf=None):
    """nan_to_num(nan=0.0, posinf=None, neginf=None): NaN and infinities replaced, by default by the ends of the range."""
    if not self.is_floating_point():
        return self.clone()
    largest = {'float64': 1.7976931348623157e308, 'float16': 65504.0, 'bfloat16': 3.3895313892515355e38}
    end = largest.get(self.dtype.name, 3.4028234663852886e38)
    result = where(self.isnan(), 0.0 if nan is None else nan, self)
    result = where(self == float('inf'), end if posinf is None else posinf, result)
    return where(self == -float('inf'), -end if neginf is None else neginf, result)


@method
def celu(self, alpha=1.0):
    """celu(alpha=1.0): x where positive, else alpha * (exp(x / alpha) - 1)."""
    if alpha == 0:
        raise RuntimeError('ZeroDivisionError: alpha cannot be 0 for CELU')
    return self.elu(alpha, 1 / alpha)


def _in_place(name):
    """name_(...): what name(...) gives becomes the tensor's value."""
    def run(self, *args, **keywords):
        return self.copy_(getattr(self, name)(*args, **keywords))
    run.__name__, run.__doc__ = name + '_', f'{name}_(...): {name} in place.'
    return method(run)


for _name in ('clamp_min', 'clamp_max', 'nan_to_num', 'celu'):
    _in_place(_name)


# ---- normalised exponentials ---------------------------------------------------------------------------------


@method
def softmax(self, dim=None, dtype=None, *, axis=None):
    """softmax(dim): exp(x) normalised to sum 1 along a dimension."""
    dim = axis if dim is None else dim
    self = self if dtype is None else self.to(dtype)
    scaled = (self - self.detach().amax(dim, True)).exp()  # the shift changes no value, so it has no gradient
    return scaled / scaled.sum(dim, True)


@method
def log_softmax(self, dim=None, dtype=None, *, axis=None):
    """log_softmax(dim): the logarithm of softmax, computed stably."""
    dim = axis if dim is None else dim
    self = self if dtype is None else self.to(dtype)
    shifted = self - self.detach().amax(dim, True)
    return shifted - shifted.exp().sum(dim, True).log()


@method
def logsumexp(self, dim, keepdim=False):
    """logsumexp(dim): log(sum(exp(x))), computed stably."""
    top = self.detach().amax(dim, True)
    top = where(top.abs() == float('inf'), 0.0, top)
    total = (self - top).exp().sum(dim, True).log() + top
    return total if keepdim else total.squeeze(dim)


# ---- pieces --------------------------------------------------------------------------------------------------


@method
def split(self, split_size_or_sections, dim=0, *, axis=None):
    """split(size, dim=0) or split([sizes], dim=0): a tuple of consecutive pieces."""
    dim = _axis(self, dim if axis is None else axis)
    if self.ndim == 0:
        raise RuntimeError('split expects at least a 1-dimensional tensor')
    total, sections = self.shape[dim], split_size_or_sections
    if hasattr(sections, '__index__'):
        size = sections.__index__()
        if size < 0 or (size == 0 and total):
            raise RuntimeError(f'split expects split_size be non-negative, but got split_size={size}')
        sections = [size] * (total // size) if size else [0]
        if size and (total % size or not sections):
            sections.append(total % size)
    elif sum(sections) != total:
        raise RuntimeError(f'split_with_sizes expects split_sizes to sum exactly to {total} (the size of dimension '
                           f'{dim}), but got split_sizes={list(sections)}')
    pieces, start = [], 0
    for size in sections:
        pieces.append(self.narrow(dim, start, size))
        start += size
    return tuple(pieces)


@method
def chunk(self, chunks, dim=0, *, axis=None):
    """chunk(chunks, dim=0): at most that many pieces of equal size, the last one smaller."""
    dim = _axis(self, dim if axis is None else axis)
    if chunks <= 0:
        raise RuntimeError(f'chunk expects `chunks` to be greater than 0, got: {chunks}')
    if self.ndim == 0:
        raise RuntimeError('chunk expects at least a 1-dimensional tensor')
    size = -(-self.shape[dim] // chunks)
    return self.split(size or [0] * chunks, dim)


@method
def unbind(self, dim=0, *, axis=None):
    """unbind(dim=0): the slices along a dimension, which goes."""
    dim = _axis(self, dim if axis is None else axis)
    if self.ndim == 0:
        raise RuntimeError('Dimension specified as 0 but tensor has no dimensions')
    return tuple(self.select(dim, k) for k in range(self.shape[dim]))


# ---- arrangement ---------------------------------------------------------------------------------------------


@method
def movedim(self, source, destination):
    """movedim(source, destination): move dimensions, the others keep their order."""
    def listed(dims):
        return [_axis(self, d) for d in ([dims] if hasattr(dims, '__index__') else dims)]
    source, destination = listed(source), listed(destination)
    if not len(source) == len(destination) == len(set(source)) == len(set(destination)):
        raise RuntimeError('movedim: source and destination must be distinct dimensions, as many of each')
    order = [d for d in range(self.ndim) if d not in source]
    for to, origin in sorted(zip(destination, source)):
        order.insert(to, origin)
    return self.permute(order)


@method
def roll(self, shifts, dims=None, *, axis=None):
    """roll(shifts, dims=None): shift elements around; without dims, in the flattened tensor."""
    dims = axis if dims is None else dims
    if dims is None or dims == ():
        return self.flatten().roll(shifts, 0).reshape(self.shape)
    shifts = [shifts] if hasattr(shifts, '__index__') else list(shifts)
    dims = [dims] if hasattr(dims, '__index__') else list(dims)
    if len(shifts) != len(dims):
        raise RuntimeError(f'shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}')
    for shift, dim in zip(shifts, dims):
        size = self.size(dim) if self.ndim else 1
        shift = shift % size if size else 0
        if shift:
            self = cat([self.narrow(dim, size - shift, shift), self.narrow(dim, 0, size - shift)], dim)
    return self.clone()


@method
def repeat(self, *sizes):
    """repeat(*sizes): copies along each dimension; more sizes than dimensions add leading ones."""
    sizes = _sizes(sizes)
    if len(sizes) < self.ndim:
        raise RuntimeError(
            'Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor')
    if any(size < 0 for size in sizes):
        raise RuntimeError(f'Trying to create tensor with negative dimension {[s for s in sizes if s < 0][0]}')
    result = self.reshape((1,) * (len(sizes) - self.ndim) + self.shape)
    for dim, times in enumerate(sizes):
        if times != 1:
            result = _repeat_axis(result, dim, times)
    return result if result is not self else self.clone()


def _repeat_axis(self, dim, times):
    """One dimension, without exceeding the ranks and operand counts of the ops: views, then one copy."""
    before, size, after = self.shape[:dim], self.shape[dim], self.shape[dim + 1:]
    outer = 1
    for length in before:
        outer *= length
    inner = size
    for length in after:
        inner *= length
    return self.reshape(outer, 1, inner).expand(outer, times, inner).reshape(*before, times * size, *after)


@method
def tile(self, *dims):
    """tile(*dims): repeat, with missing leading repetitions taken as 1."""
    dims = _sizes(dims)
    return self.repeat((1,) * (self.ndim - len(dims)) + tuple(dims))


@method
def repeat_interleave(self, repeats, dim=None):
    """repeat_interleave(repeats, dim=None): each element `repeats` times in a row; without dim, flattened."""
    if dim is None:
        return self.flatten().repeat_interleave(repeats, 0)
    dim = _axis(self, dim)
    before, size, after = self.shape[:dim], self.shape[dim], self.shape[dim + 1:]
    flat = self.reshape(*before, size, 1, *after).expand(*before, size, repeats, *after)
    return flat.reshape(*before, size * repeats, *after)


# ---- picking -------------------------------------------------------------------------------------------------


@method
def take_along_dim(self, indices, dim=None):
    """take_along_dim(indices, dim=None): gather with indices broadcast; without dim, from the flattened tensor."""
    if dim is None:
        return self.flatten().gather(0, indices.flatten())
    dim = _axis(self, dim)
    if indices.ndim != self.ndim:
        raise RuntimeError(f'take_along_dim(): input and indices should have the same number of dimensions, but '
                           f'got {self.ndim} for input and {indices.ndim} for indices')
    shape = [i if s == 1 else s for s, i in zip(self.shape, indices.shape)]
    mine, theirs = list(shape), list(shape)
    mine[dim], theirs[dim] = self.shape[dim], indices.shape[dim]
    return self.expand(mine).gather(dim, indices.expand(theirs))


@method
def take_along_axis(self, indices, axis):
    """take_along_axis(indices, axis): NumPy's name of take_along_dim."""
    return self.take_along_dim(indices, axis)


@method
def take(self, indices, axis=None):
    """take(indices): elements of the flattened tensor; take(indices, axis): slices along a dimension."""
    return self.flatten().index_select(0, indices) if axis is None else self.index_select(axis, indices)


@method
def masked_select(self, mask):
    """masked_select(mask): the elements where a (broadcast) mask holds, flat."""
    if mask.shape != self.shape:
        both = (mask | (self != self)).shape
        self, mask = self.expand(both), mask.expand(both)
    return self[mask]


@method
def nonzero(self, as_tuple=False):
    """nonzero(as_tuple=False): the indices of nonzero elements, a row each."""
    flat = arange(self.numel())[(self != 0).flatten()]
    columns = []
    for size in reversed(self.shape):
        columns.append(flat % size)
        flat = flat // size
    columns.reverse()
    if as_tuple:
        return tuple(columns)
    return stack(columns, 1) if columns else zeros(flat.numel(), 0, dtype=_gt.int64)


@method
def count_nonzero(self, dim=None):
    """count_nonzero(dim=None): how many elements are not zero."""
    return (self != 0).sum(dim)


def embedding(input, weight):
    """embedding(input, weight): rows of weight (V, D) for each index of input (...): a tensor (..., D)."""
    return weight.index_select(0, input)


# ---- tests ---------------------------------------------------------------------------------------------------


@method
def isclose(self, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """isclose(other, rtol=1e-05, atol=1e-08): |self - other| <= atol + rtol * |other|, elementwise."""
    if rtol < 0 or atol < 0:
        raise RuntimeError('rtol and atol must be greater than or equal to zero')
    if self.dtype != other.dtype:
        raise RuntimeError(f'{self.dtype} did not match {other.dtype}')
    close = self == other
    if equal_nan and self.is_floating_point():
        close = close | (self.isnan() & other.isnan())
    if rtol == 0 and atol == 0:
        return close
    a, b = (self, other) if self.is_floating_point() else (self.double(), other.double())
    error = (a - b).abs()
    return close | (error.isfinite() & (error <= (b * rtol).abs() + atol))


@method
def allclose(self, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """allclose(other, rtol=1e-05, atol=1e-08): whether all elements are close; waits."""
    return bool(self.isclose(other, rtol, atol, equal_nan).all())


@method
def equal(self, other):
    """equal(other): whether shapes and all elements are the same; waits."""
    return self.shape == other.shape and bool((self == other).all())


def is_tensor(obj):
    """is_tensor(obj): whether it is a Tensor."""
    return isinstance(obj, Tensor)


# ---- products ------------------------------------------------------------------------------------------------


@method
def outer(self, vec2):
    """outer(vec2): the outer product of two vectors."""
    if self.ndim != 1 or vec2.ndim != 1:
        raise RuntimeError(f'outer: expected two vectors, got tensors of {self.ndim} and {vec2.ndim} dimensions')
    return self.unsqueeze(1) * vec2.unsqueeze(0)


@method
def addmm(self, mat1, mat2, *, beta=1, alpha=1):
    """addmm(mat1, mat2): beta * self + alpha * (mat1 @ mat2)."""
    product = mat1 @ mat2
    return (self if beta == 1 else self * beta) + (product if alpha == 1 else product * alpha)


@method
def norm(self, p=2, dim=None, keepdim=False):
    """norm(p=2, dim=None, keepdim=False): the p-norm of the elements."""
    if p in (2, 'fro'):
        return (self * self).sum(dim, keepdim).sqrt()
    if p == float('inf'):
        return self.abs().amax(dim, keepdim)
    if p == 1:
        return self.abs().sum(dim, keepdim)
    return (self.abs() ** p).sum(dim, keepdim) ** (1 / p)


# ---- in place: the object gets a new value -------------------------------------------------------------------


@method
def zero_(self):
    """zero_(): set every element to 0."""
    self.data = _gt.zeros_like(self)
    return self


@method
def fill_(self, value):
    """fill_(value): set every element."""
    self[...] = value
    return self


@method
def copy_(self, src, non_blocking=False):
    """copy_(src): take the elements of src, broadcast and converted."""
    self[...] = src
    return self


@method
def masked_fill_(self, mask, value):
    """masked_fill_(mask, value): masked_fill in place."""
    self.data = self.masked_fill(mask, value)
    return self


@method
def scatter_(self, dim, index, src=None, *, value=None):
    """scatter_(dim, index, src): scatter in place."""
    self.data = self.scatter(dim, index, value if src is None else src)
    return self


@method
def scatter_add_(self, dim, index, src):
    """scatter_add_(dim, index, src): scatter_add in place."""
    self.data = self.scatter_add(dim, index, src)
    return self


# ---- the rest ------------------------------------------------------------------------------------------------


@method
def type_as(self, other):
    """type_as(other): converted to other's dtype."""
    return self.to(other.dtype)


def _format(self, spec):
    return format(self.item(), spec) if self.ndim == 0 else format(repr(self), spec)


Tensor.__format__ = _format
Tensor.T = property(lambda self: self.transpose(), doc='The dimensions reversed.')
Tensor.mT = property(lambda self: self.transpose(-2, -1), doc='The last two dimensions swapped.')
Tensor.moveaxis = movedim
Tensor.is_cuda = False
Tensor.__array_priority__ = 1000  # above numpy.matrix and pandas

# NumPy's functions of two operands that Python's operators stand for: these stay GT's operations.
_OPERATORS = {
    'add': 'add', 'subtract': 'sub', 'multiply': 'mul', 'divide': 'truediv', 'true_divide': 'truediv',
    'floor_divide': 'floordiv', 'remainder': 'mod', 'power': 'pow', 'matmul': 'matmul', 'bitwise_and': 'and',
    'bitwise_or': 'or', 'bitwise_xor': 'xor', 'left_shift': 'lshift', 'right_shift': 'rshift'}
_COMPARISONS = {'equal': ('eq', 'eq'), 'not_equal': ('ne', 'ne'), 'less': ('lt', 'gt'), 'less_equal': ('le', 'ge'),
                'greater': ('gt', 'lt'), 'greater_equal': ('ge', 'le')}


def _array_ufunc(self, ufunc, method, *inputs, **options):
    """NumPy's functions on tensors: `array + tensor` is a GT operation; others are computed by NumPy, on copies.

    As with PyTorch, np.exp(tensor) gives a tensor, and arrays where out= asks for them.
    """
    name = ufunc.__name__
    if method == '__call__' and not options and len(inputs) == 2 and (name in _OPERATORS or name in _COMPARISONS):
        first = isinstance(inputs[0], Tensor)
        forward, reflected = _COMPARISONS.get(name) or (_OPERATORS[name], 'r' + _OPERATORS.get(name, ''))
        operator = getattr(Tensor, f'__{forward if first else reflected}__')
        return operator(*inputs) if first else operator(inputs[1], inputs[0])
    if any(isinstance(out, Tensor) for out in options.get('out', ())):
        return NotImplemented
    result = getattr(ufunc, method)(*[x.numpy() if isinstance(x, Tensor) else x for x in inputs], **options)
    if 'out' in options or result is None:
        return result
    return tuple(map(as_tensor, result)) if isinstance(result, tuple) else as_tensor(result)


Tensor.__array_ufunc__ = _array_ufunc

# Methods of Tensor that the package offers as functions.
_rows = tuple(name for name, form, *_ in _gt.op_table() if form in ('UNARY', 'BINARY', 'REDUCE'))
FUNCTIONS = _rows + tuple(name for name in _names if not name.endswith('_') and name != 'type_as') + (
    'clip', 'lerp', 'arctan2', 'fix', 'arcsin', 'arccos', 'arctan', 'arcsinh', 'arccosh', 'arctanh', 'subtract', 'multiply', 'divide', 'true_divide', 'not_equal', 'less', 'less_equal', 'greater',
    'greater_equal', 'negative', 'absolute', 'std', 'argmax', 'argmin', 'cumsum', 'matmul', 'mm', 'bmm', 'mv',
    'dot', 'clone', 'tril', 'triu', 'argsort', 'gather', 'index_select', 'scatter', 'scatter_add',
    'masked_fill', 'reshape', 'flatten', 'ravel', 'squeeze', 'unsqueeze', 'permute', 'transpose', 'swapaxes',
    'swapdims', 't', 'broadcast_to', 'flip', 'narrow', 'select', 'moveaxis', 'numel', 'is_floating_point')
