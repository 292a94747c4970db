"""Tensor: the methods that are written in Python, on top of the C extension.

The C extension (gt._gt) has every operation of the op table, indexing and shapes. A function marked @method becomes a
method of Tensor. The methods are in files by family (ordering, picking, arrangement, products, linalg, statistics,
random, creation, dtypes, calculus, copies, elementwise, special). The rest is here.
"""

import copy
import functools

from gt import _gt, _repr
from gt import overrides as _overrides  # noqa: F401  (subclasses of Tensor with __torch_function__ are refused)
from gt._gt import (  # noqa: F401
    Tensor, arange, as_tensor, cat, empty, eye, from_numpy, full, linspace, ones, rand, randint, randn, stack,
    tensor, where, zeros, zeros_like)
from gt.client import (  # noqa: F401
    arrangement, calculus, complex, copies, creation, dtypes, elementwise, histograms, linalg, memory, ordering, picking, products,
    random, special, statistics, stft, windows)
from gt.client import storages
from gt.client.arrangement import movedim
from gt.client.registry import functions, in_place, method, methods, no_view, reshaped_in_place, sizes_of, tensor_argument


# ---- elementwise ---------------------------------------------------------------------------------------------


def _is_number(bound):
    return isinstance(bound, Tensor) or bound == bound


@method
def clamp_min(self, min):
    """clamp_min(min): at least min."""
    return self.clamp(min=min) if _is_number(min) else self.clamp(min, min)  # NaN


@method
def clamp_max(self, max):
    """clamp_max(max): at most max."""
    return self.clamp(max=max) if _is_number(max) else self.clamp(max, max)


@method
def nan_to_num(self, nan=None, posinf=None, neginf=None):
    """nan_to_num(nan=0.0, posinf=None, neginf=None): NaN and infinities replaced, by default by the ends of the range."""
    if self.is_complex():
        return complex.nan_to_num_parts(self, nan, posinf, neginf)
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


_whole = Tensor.round


@method
def round(self, *, decimals=0):
    """round(decimals=0): to the nearest number with that many decimals, halves to even."""
    if not decimals:
        return _whole(self)
    if not self.is_floating_point():
        raise NotImplementedError(f'"round" with decimals is not implemented for {self.dtype}')
    scale = 10.0 ** abs(decimals)
    return _whole(self * scale) / scale if decimals > 0 else _whole(self / scale) * scale


@method
def float_power_(self, exponent):
    """float_power_(exponent): float_power in place, of float64 or complex128."""
    result = self.float_power(exponent)
    if self.dtype != result.dtype:
        kind = 'ComplexDouble' if result.is_complex() else 'Double'
        raise RuntimeError(f"the base given to float_power_ has dtype {self.dtype} but the operation's result requires "
                           f'dtype {kind}')
    return self._become(result)


@method
def fmax(self, other):
    """fmax(other): the larger one; NaN only if both are NaN."""
    tensor_argument('fmax', 'other', other)
    keep = self >= other
    keep = keep | other.isnan() if other.is_floating_point() else keep
    return where(keep, self, other)


@method
def fmin(self, other):
    """fmin(other): the smaller one; NaN only if both are NaN."""
    tensor_argument('fmin', 'other', other)
    keep = self <= other
    keep = keep | other.isnan() if other.is_floating_point() else keep
    return where(keep, self, other)


@method
def isposinf(self):
    """isposinf(): whether an element is infinity."""
    return self == float('inf')


@method
def isneginf(self):
    """isneginf(): whether an element is minus infinity."""
    return self == -float('inf')


@method
def signbit(self):
    """signbit(): whether an element is negative, or -0.0."""
    return _gt.ones_like(self).copysign(self) < 0 if self.is_floating_point() else self < 0


in_place('renorm', 'clamp_min', 'clamp_max', 'nan_to_num', 'celu', 'round', 'tril', 'triu', 'cumsum', 'cumprod')
reshaped_in_place('squeeze', 'unsqueeze', 't', 'transpose', 'swapaxes', 'swapdims')

# Every row of the table of operations has a method in place; PyTorch has none of these.
for _name in ('isfinite_', 'isinf_', 'isnan_', 'logaddexp_', 'logaddexp2_', 'maximum_', 'minimum_'):
    delattr(Tensor, _name)


# ---- tests ---------------------------------------------------------------------------------------------------


@method
def isclose(self, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """isclose(other, rtol=1e-05, atol=1e-08): |self - other| <= atol + rtol * |other|, elementwise."""
    tensor_argument('isclose', 'other', other)
    if rtol < 0 or atol < 0:
        raise RuntimeError('rtol and atol must be greater than or equal to zero')
    if self.dtype != other.dtype:
        raise RuntimeError(f'{self.dtype} did not match {other.dtype}')
    if self.is_complex():
        return complex.close(self, other, rtol, atol, equal_nan)
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
    tensor_argument('allclose', 'other', other)
    return bool(self.isclose(other, rtol, atol, equal_nan).all())


@method
def equal(self, other):
    """equal(other): whether shapes and all elements are the same; waits."""
    tensor_argument('equal', 'other', other)
    return self.shape == other.shape and bool((self == other).all())


def is_tensor(obj):
    """is_tensor(obj): whether it is a Tensor."""
    return isinstance(obj, Tensor)


# ---- in place: the object gets a new value -------------------------------------------------------------------


def _unlinked(self, value):
    """A value that does not depend on self, with a gradient of 0 for it."""
    if not (self.requires_grad and _gt.is_grad_enabled()) or self.is_leaf:
        return value
    return where(_gt.zeros((), dtype=_gt.bool), self, value)


@method
def zero_(self):
    """zero_(): set every element to 0."""
    return self._fill(0)


@method
def fill_(self, value):
    """fill_(value): set every element."""
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError('fill_ only supports 0-dimension value tensor but got tensor with '
                           f'{value.ndim} dimensions.')
    return self._fill(value)


def _zero_where_expanded(name):
    """triu_() and tril_() of an expanded tensor: as in PyTorch a place is 0 if any of its elements is outside the triangle."""
    plain = getattr(Tensor, name + '_')

    @functools.wraps(plain)
    def call(self, *arguments, **options):
        if 0 not in self.stride() or self.ndim < 2:
            return plain(self, *arguments, **options)
        kept = getattr(_gt.ones(*self.shape[-2:], dtype=_gt.bool), name)(*arguments, **options)
        self[(~kept).expand(self.shape)] = 0
        return self
    call.__wrapped__ = plain.__wrapped__  # the signature
    setattr(Tensor, name + '_', call)


_zero_where_expanded('triu')
_zero_where_expanded('tril')


@method
def fill_diagonal_(self, fill_value, wrap=False):
    """fill_diagonal_(fill_value, wrap=False): set the diagonal; wrap: repeat it down a tall matrix."""
    if self.ndim < 2:
        raise RuntimeError('dimensions must larger than 1')
    if self.ndim > 2 and len(set(self.shape)) > 1:
        raise RuntimeError('all dimensions of input must be of equal length')
    size, steps, width = min(self.shape), self.stride(), self.shape[-1]
    if self.ndim == 2:
        self.diagonal()._fill(fill_value)
    else:
        self.as_strided((size,), (sum(steps),))._fill(fill_value)
    if wrap and self.ndim == 2 and self.shape[0] > width + 1:
        count = (self.numel() + width) // (width + 1) - size
        self.as_strided((count,), (sum(steps),), self.storage_offset() + steps[0] * (width + 1))._fill(fill_value)
    return self


@method
def set_(self, source=None):
    """set_(source): share the memory of source from now on; without one, no elements.

    >>> x, y = gt.zeros(2), gt.ones(3)
    >>> x.set_(y)
    tensor([1., 1., 1.])
    """
    self._check_write()
    return self._set(_gt.empty(0, dtype=self.dtype) if source is None else source)


# ---- the rest ------------------------------------------------------------------------------------------------


@method
def is_signed(self):
    """is_signed(): whether the dtype is signed."""
    return self.dtype not in (_gt.uint8, _gt.bool)


@method
def is_nonzero(self):
    """is_nonzero(): whether the one element is not zero; waits."""
    return bool(self)


@method
@no_view
def sum_to_size(self, *size):
    """sum_to_size(*size): sum over dimensions to get this size, which must broadcast to self's."""
    size = sizes_of(size)
    lead = self.ndim - len(size)
    if lead < 0 or any(want not in (1, have) for want, have in zip(size, self.shape[lead:])):
        raise RuntimeError(f'size {{{list(size)}}} is not expandable to size {{{list(self.shape)}}}.')
    dims = [*range(lead), *(lead + k for k, want in enumerate(size) if want != self.shape[lead + k])]
    return self.sum(dims).reshape(size) if dims or not size else self


@method
def type_as(self, other):
    """type_as(other): converted to other's dtype."""
    return self.to(other.dtype)


@method
def adjoint(self):
    """adjoint(): the last two dimensions swapped, and the conjugates of complex numbers."""
    if self.ndim == 1:
        raise RuntimeError('tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor.')
    swapped = self.transpose(-2, -1) if self.ndim else self
    return swapped.conj() if self.is_complex() else swapped


def _format(self, spec):
    return format(self.item(), spec) if self.ndim == 0 else format(repr(self), spec)


def _like(self, value):
    """A tensor of the class of self, with a value, that requires gradients as self does."""
    kind = storages.plain_class(self)
    if kind is not Tensor:
        return Tensor.__new__(kind, value, self.requires_grad)
    return value.requires_grad_() if self.requires_grad else value


def _copy(self):
    """copy.copy: another tensor of the same memory, with the same attributes."""
    copied = _like(self, self.detach())
    for name, value in getattr(self, '__dict__', {}).items():
        setattr(copied, name, value)
    return copied


def _deepcopy(self, memo):
    """copy.deepcopy: a leaf of the same value, gradient and attributes."""
    if not self.is_leaf:
        raise RuntimeError('Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the '
                           'moment.  If you were attempting to deepcopy a module, this may be because of a '
                           'gt.nn.utils.weight_norm usage, see https://github.com/pytorch/pytorch/pull/103001')
    if id(self) in memo:
        return memo[id(self)]
    copied = memo[id(self)] = _like(self, storages.copied(self, memo))
    if self.grad is not None:
        copied.grad = copy.deepcopy(self.grad, memo)
    for name, value in getattr(self, '__dict__', {}).items():
        setattr(copied, name, copy.deepcopy(value, memo))
    return copied


def set_attributes(target, state):
    """Give a tensor the attributes of a saved one."""
    for name, value in state.items():
        setattr(target, name, value)


def reduce_attributes(self, reduced):
    """What __reduce__ returns, with the attributes of self."""
    state = getattr(self, '__dict__', None)
    return (*reduced, dict(state), None, None, set_attributes) if state else reduced


_reduce_in_order = Tensor.__reduce__


def _reduce(self):
    """pickle: elements, strides and attributes. Tensors that share memory do not share it in the copy, as in PyTorch."""
    return reduce_attributes(self, storages.reduced(self) or _reduce_in_order(self))


Tensor.__copy__, Tensor.__deepcopy__, Tensor.__reduce__ = _copy, _deepcopy, _reduce
Tensor.__format__ = _format
Tensor._repr_html_ = _repr.tensor_html
Tensor.T = property(lambda self: self.transpose(), doc='The dimensions reversed.')
Tensor.mT = property(lambda self: self.transpose(-2, -1), doc='The last two dimensions swapped.')
Tensor.placement = property(_gt.placement, doc='Where it lives: "split(axis=0, workers=[0,1])". Waits for the answer.')
Tensor.moveaxis = movedim
Tensor.__rdiv__ = Tensor.__rtruediv__
Tensor.__array_priority__ = 1000  # above numpy.matrix and pandas

# NumPy functions behind Python's operators: these become GT operations.
_OPERATORS = {
    'add': 'add', 'subtract': 'sub', 'multiply': 'mul', 'divide': 'truediv', 'true_divide': 'truediv',
    'floor_divide': 'floordiv', 'remainder': 'mod', 'power': 'pow', 'matmul': 'matmul', 'bitwise_and': 'and',
    'bitwise_or': 'or', 'bitwise_xor': 'xor', 'left_shift': 'lshift', 'right_shift': 'rshift'}
_COMPARISONS = {'equal': ('eq', 'eq'), 'not_equal': ('ne', 'ne'), 'less': ('lt', 'gt'), 'less_equal': ('le', 'ge'),
                'greater': ('gt', 'lt'), 'greater_equal': ('ge', 'le')}


def _array_ufunc(self, ufunc, method, *inputs, **options):
    """NumPy functions on tensors: `array + tensor` is a GT operation; NumPy computes the others on copies.

    As in PyTorch, np.exp(tensor) returns a tensor, or arrays if out= is given.
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
_written_here = tuple(name for name in methods if not name.endswith('_') and not name.startswith(('new_', 'type_as')))
FUNCTIONS = _rows + _written_here + (
    'clip', 'lerp', 'dirichlet_grad', 'arctan2', 'fix', 'arcsin', 'arccos', 'arctan', 'arcsinh', 'arccosh', 'arctanh', 'subtract',
    'multiply', 'divide', 'true_divide', 'not_equal', 'less', 'less_equal', 'greater', 'greater_equal', 'negative',
    'absolute', 'std', 'argmax', 'argmin', 'cumsum', 'cumprod', 'logcumsumexp', 'softmax', 'log_softmax', 'matmul', 'mm',
    'bmm', 'mv', 'dot', 'clone', 'tril', 'triu', 'diagonal', 'argsort', 'gather', 'index_select', 'scatter_add',
    'scatter_reduce', 'masked_fill', 'reshape', 'flatten', 'ravel', 'squeeze', 'unsqueeze', 'permute', 'transpose',
    'swapaxes', 'swapdims', 't', 'broadcast_to', 'flip', 'narrow', 'select', 'moveaxis', 'numel', 'is_floating_point',
    'as_strided', 'detach', 'is_complex', 'sgn')

# In-place methods that are functions too.
FUNCTIONS += tuple(name + '_' for name in (
    'abs', 'acos', 'acosh', 'addmv', 'arccos', 'arccosh', 'arcsin', 'arcsinh', 'arctan', 'arctanh', 'as_strided', 'asin', 'asinh', 'atan', 'atanh', 'ceil', 'celu', 'clamp', 'clamp_max', 'clamp_min',
    'clip', 'conj_physical', 'cos', 'cosh', 'deg2rad', 'detach', 'erf', 'erfc', 'exp', 'exp2', 'expm1', 'fill', 'fix', 'floor', 'frac', 'gcd', 'i0', 'index_put', 'lcm',
    'ldexp', 'log', 'log10', 'log1p', 'log2', 'logit', 'nan_to_num', 'neg', 'negative', 'rad2deg', 'reciprocal', 'relu', 'resize_as',
    'round', 'rsqrt', 'selu', 'sigmoid', 'sin', 'sinc', 'sinh', 'sqrt', 'square', 'tan', 'tanh', 'trunc', 'xlogy', 'zero'))

# Functions of the C extension that take out= in the package.
EXTENSION_FUNCTIONS = ('arange', 'cat', 'concat', 'concatenate', 'empty', 'eye', 'full', 'ones', 'rand', 'randint',
                       'randn', 'stack', 'where', 'zeros')
