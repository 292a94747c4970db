"""out= and input=: what PyTorch's functions accept and methods do not.

gt.Function (extension/functions.c) calls with_options() if a call has one of these keywords. A result is computed as
usual and then becomes the value of the tensor given as out.
"""

import operator
import warnings

from gt import _gt
from gt._gt import Function, Tensor

from gt.client.copies import resized

# Functions that make a tensor of a dtype, or compute in one: that of out, if none is given.
_MAKERS = frozenset(('arange', 'empty', 'eye', 'full', 'linspace', 'logspace', 'normal', 'ones', 'rand', 'randint', 'randn', 'randperm',
                     'range', 'zeros'))
OF_DTYPE = _MAKERS | {'cumprod', 'cumsum', 'mean', 'nansum', 'prod', 'sum'}

# Functions that fill an out with the right number of elements, whatever its shape.
_KEEP_SHAPE = frozenset(('arange', 'linspace', 'logspace', 'range'))

# Functions that do not convert their result to out's dtype.
_EXACT = frozenset((
    'addbmm', 'addmm', 'addmv', 'addr', 'all', 'amax', 'amin', 'aminmax', 'any', 'argmax', 'argmin', 'baddbmm', 'bmm', 'chain_matmul',
    'complex', 'cross', 'cummax', 'cummin', 'diag', 'dot', 'gather', 'histc', 'index_select', 'inner', 'inverse', 'isneginf', 'isposinf',
    'kthvalue', 'logcumsumexp', 'masked_select', 'matmul', 'mm', 'mode', 'multinomial', 'mv', 'nonzero', 'norm', 'log_softmax', 'softmax', 'sort',
    'take', 'tensordot', 'topk', 'tril', 'triu', 'vdot', 'where'))
_EXACT_ELEMENTS = frozenset(('abs', 'absolute', 'ceil', 'fix', 'floor', 'frac', 'neg', 'negative', 'round', 'sgn', 'sign', 'trunc'))
_JOINS = frozenset(('cat', 'concat', 'concatenate', 'dstack', 'hstack', 'stack', 'vstack'))

# Functions whose first operand may be a number, with their Python operator: gt.pow(2, t) is 2 ** t.
EITHER_ORDER = {
    'add': operator.add, 'sub': operator.sub, 'subtract': operator.sub, 'mul': operator.mul, 'multiply': operator.mul,
    'div': operator.truediv, 'divide': operator.truediv, 'true_divide': operator.truediv,
    'floor_divide': operator.floordiv, 'remainder': operator.mod, 'pow': operator.pow, 'bitwise_and': operator.and_,
    'bitwise_or': operator.or_, 'bitwise_xor': operator.xor, 'bitwise_left_shift': operator.lshift,
    'bitwise_right_shift': operator.rshift}


def published(name, call, others=None):
    """The function of the package that calls a method or a function; `others` instead, if one of the first two operands is not a
    tensor."""
    return Function(name, call, with_options, EITHER_ORDER.get(name), others)


def published_all(calls, module='gt'):
    """The same for a dictionary of them; classes stay as they are."""
    made = {name: call if isinstance(call, type) else published(name, call) for name, call in calls.items()}
    for function in made.values():
        if module != 'gt' and isinstance(function, Function):
            function.__module__ = module
    return made


def with_options(function, arguments, options):
    """Call a function with out= or input= among its keywords."""
    name, call = function.__name__, function.__wrapped__
    if 'input' in options and not arguments and getattr(Tensor, getattr(call, '__name__', ''), None) is call:
        arguments = (options.pop('input'), *arguments)
    if 'out' not in options:
        return function(*arguments, **options) if 'input' not in options else call(*arguments, **options)
    out = options.pop('out')
    if out is None:
        return function(*arguments, **options)
    if name in OF_DTYPE:
        _check_dtype(name, options.setdefault('dtype', out.dtype) or out.dtype, out.dtype)
    result = function(*arguments, **options)
    return store(name, result, out)


def _check_dtype(name, given, dtype):
    """dtype= and out= must agree."""
    given = _gt.dtype(given)
    if given == dtype:
        return
    if name in _MAKERS:
        raise RuntimeError(f'dtype {given._kind} does not match dtype of out parameter ({dtype._kind})')
    raise RuntimeError(f'Expected out tensor to have dtype {given._c_name}, but got {dtype._c_name} instead')


def store(name, result, out):
    """Make a result, or each of several, the value of the tensor given for it, and return those."""
    if isinstance(out, Tensor):
        if not isinstance(result, Tensor):
            raise TypeError(f"{name}(): argument 'out' must be tuple of Tensors, not Tensor")
        return _store_one(name, result, out)
    if isinstance(result, Tensor) or not isinstance(out, (tuple, list)) or len(out) != len(result):
        count = 1 if isinstance(result, Tensor) else len(result)
        raise TypeError(f"{name}(): argument 'out' must be {count} tensor(s), not {type(out).__name__}")
    stored = [_store_one(name, one, other) for one, other in zip(result, out)]
    return type(result)(*stored) if hasattr(result, '_fields') else tuple(stored)


def _narrows(dtype, other):
    """Whether other has no fractions, imaginary parts or numbers beside 0 and 1, and dtype has."""
    return (dtype.is_complex > other.is_complex or (dtype.is_floating_point and not (other.is_floating_point or other.is_complex))
            or (other == _gt.bool and dtype != other))


def _store_one(name, result, out):
    if _gt.is_grad_enabled() and (result.requires_grad or out.requires_grad):
        raise RuntimeError(f"{name}(): functions with out=... arguments don't support automatic differentiation, but one "
                           f'of the arguments requires grad.')
    if out.dtype != result.dtype:
        if name in _EXACT:
            raise RuntimeError(f'Expected out tensor to have dtype {result.dtype._c_name}, but got {out.dtype._c_name} instead')
        if name in _EXACT_ELEMENTS:
            raise RuntimeError(f'Found dtype {out.dtype._kind} but expected {result.dtype._kind}')
        if name in _JOINS and _narrows(result.dtype, out.dtype):
            raise TypeError(f"{name}(): input types can't be cast to the desired output type {out.dtype._kind}")
    if name in _KEEP_SHAPE and out.shape != result.shape and out.numel() == result.numel():
        result = result.reshape(out.shape)
    if out.shape == result.shape:
        return out._become(result)
    if out.numel():
        warnings.warn(f'An output with one or more elements was resized since it had shape {list(out.shape)}, which does '
                      f'not match the required output shape {list(result.shape)}. This behavior is deprecated, and in a '
                      f'future PyTorch release outputs will not be resized unless they have zero elements.', stacklevel=4)
    if out.storage_offset() + result.numel() <= out._room:
        out.data = resized(out, result.shape)
        return out._become(result)
    if result.dtype != out.dtype:
        result = _gt.empty(result.shape, dtype=out.dtype)._become(result)
    return out._set(result)
