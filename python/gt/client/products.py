"""Products of tensors: einsum, tensordot and others. All of them end in matmul or in one multiplication."""

import math
import string
import warnings

from gt import _gt
from gt._gt import Tensor
from gt.client.halves import HALVES, half_of, in_float32
from gt.client.registry import axes_of, axis_of, function, in_place, method, no_view, tensor_argument


# ---- vectors and matrices ------------------------------------------------------------------------------------


@method
def outer(self, vec2):
    """outer(vec2): the outer product of two vectors."""
    tensor_argument('outer', 'vec2', vec2)
    if self.ndim != 1 or vec2.ndim != 1:
        raise RuntimeError(f'outer: expected two vectors, got tensors of {self.ndim} and {vec2.ndim} dimensions')
    return self.unsqueeze(1) * vec2.unsqueeze(0)


@method
def ger(self, vec2):
    """ger(vec2): outer."""
    tensor_argument('ger', 'vec2', vec2)
    return self.outer(vec2)


@method
def inner(self, other):
    """inner(other): products summed over the last dimension of both."""
    tensor_argument('inner', 'other', other)
    if self.ndim == 0 or other.ndim == 0:
        return self * other
    return tensordot(self, other, ([-1], [-1]))


@method
def vdot(self, other):
    """vdot(other): the inner product of two vectors, the first conjugated."""
    tensor_argument('vdot', 'other', other)
    return (self.conj() if self.is_complex() else self).dot(other)


_RANKS = {'mm': (2, 2), 'mv': (2, 1), 'bmm': (3, 3)}


def _product(name, a, b):
    """a.mm(b) and its relatives. Of halves it is float32, and _scaled_sum rounds."""
    if a.dtype in HALVES and a.dtype == b.dtype and (a.ndim, b.ndim) == _RANKS[name]:
        return a._wide_product(b)
    return getattr(a, name)(b)


def _scaled_sum(self, product, beta, alpha):
    if self.dtype in HALVES and product.dtype == _gt.float32:
        return in_float32(_scaled_sum, self.dtype, self, product, beta, alpha)
    if not self.is_floating_point() and not self.is_complex():
        beta, alpha = product._fit(beta), product._fit(alpha)
        if self.dtype == _gt.bool:
            product = product if alpha else _gt.zeros_like(product)
            return product | self if beta else product | _gt.zeros_like(self)
    else:
        beta, alpha = product._fit(beta), product._fit(alpha)
    product = product if alpha == 1 else product._scaled(alpha)
    if beta == 0:  # beta 0 ignores self, even NaN
        return product
    return (self if beta == 1 else self._scaled(beta)) + product


def _checked(name, product, self):
    """Check that self broadcasts to the product's shape and does not extend it."""
    sizes = self.shape[::-1]
    if self.ndim > product.ndim or any(s not in (1, p) for s, p in zip(sizes, product.shape[::-1])):
        raise RuntimeError(f'{name}: a tensor of shape {tuple(self.shape)} cannot be expanded to '
                           f'{tuple(product.shape)}')
    return product


def _warn_old(name, old, new):
    warnings.warn(f'This overload of {name} is deprecated:\n\t{name}({old})\nConsider using one of the following signatures '
                  f'instead:\n\t{name}({new})', stacklevel=4)


def _is_number(value):
    return isinstance(value, (int, float, complex))


def _numbers_first(function, given, *arguments):
    """PyTorch's deprecated overloads: x.addmm(beta, a, b), x.addmm(beta, alpha, a, b), addmm(beta, x, alpha, a, b)."""
    tensors = [argument for argument in arguments if isinstance(argument, Tensor)]
    numbers = [argument for argument in arguments if not isinstance(argument, Tensor)]
    kinds = ''.join('t' if isinstance(argument, Tensor) else 'n' for argument in arguments)
    name = function.__name__
    if given != (1, 1) or kinds not in ('tntt', 'tnntt', 'nttt', 'ntntt') or not all(map(_is_number, numbers)):
        raise TypeError(f'{name}() received an invalid combination of arguments')
    _warn_old(name, 'Number beta, Number alpha, Tensor, Tensor', 'Tensor, Tensor, *, Number beta = 1, Number alpha = 1')
    return function(*tensors, beta=numbers[0], alpha=numbers[1] if len(numbers) > 1 else 1)


def _value_first(function, given, self, value, *tensors):
    """PyTorch's deprecated overload x.addcmul(value, a, b)."""
    name = function.__name__
    if given != 1 or not _is_number(value) or len(tensors) != 2 or not all(isinstance(t, Tensor) for t in (self, *tensors)):
        raise TypeError(f'{name}() received an invalid combination of arguments')
    _warn_old(name, 'Number value, Tensor tensor1, Tensor tensor2', 'Tensor tensor1, Tensor tensor2, *, Number value = 1')
    return function(self, *tensors, value=value)


@method
def addmm(self, mat1, mat2, *old, beta=1, alpha=1):
    """addmm(mat1, mat2): beta * self + alpha * (mat1 @ mat2)."""
    if old:
        return _numbers_first(addmm, (beta, alpha), self, mat1, mat2, *old)
    return _scaled_sum(self, _checked('addmm', _product('mm', mat1, mat2), self), beta, alpha)._packed()


@method
def addmv(self, mat, vec, *old, beta=1, alpha=1):
    """addmv(mat, vec): beta * self + alpha * (mat @ vec)."""
    if old:
        return _numbers_first(addmv, (beta, alpha), self, mat, vec, *old)
    product = _checked('addmv', _product('mv', mat, vec), self)
    self._fit(alpha), self._fit(beta)  # PyTorch refuses numbers that halves cannot hold, here only
    return _scaled_sum(self, product, beta, alpha)


@method
def addr(self, vec1, vec2, *old, beta=1, alpha=1):
    """addr(vec1, vec2): beta * self + alpha * outer(vec1, vec2)."""
    if old:
        return _numbers_first(addr, (beta, alpha), self, vec1, vec2, *old)
    if self.dtype in HALVES and half_of(self, vec1, vec2):
        return in_float32(addr, self.dtype, self, vec1, vec2, beta=beta, alpha=alpha)
    return _scaled_sum(self, _checked('addr', vec1.outer(vec2), self), beta, alpha)


@method
def baddbmm(self, batch1, batch2, *old, beta=1, alpha=1):
    """baddbmm(batch1, batch2): beta * self + alpha * bmm(batch1, batch2)."""
    if old:
        return _numbers_first(baddbmm, (beta, alpha), self, batch1, batch2, *old)
    return _scaled_sum(self, _checked('baddbmm', _product('bmm', batch1, batch2), self), beta, alpha)._packed()


@method
def addbmm(self, batch1, batch2, *old, beta=1, alpha=1):
    """addbmm(batch1, batch2): beta * self + alpha * the sum of the products of a batch."""
    if old:
        return _numbers_first(addbmm, (beta, alpha), self, batch1, batch2, *old)
    if batch1.ndim != 3 or batch2.ndim != 3:
        raise RuntimeError('addbmm: batch1 and batch2 must be 3D tensors')
    product = _product('mm', batch1.transpose(0, 1).flatten(1), batch2.flatten(0, 1))
    return _scaled_sum(self, _checked('addbmm', product, self), beta, alpha)._packed()


_ADDCDIV_OF_INTEGERS = (
    'Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a true division of '
    'tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value * torch.trunc(tensor1 / '
    'tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) for float inputs. The future '
    'addcdiv behavior is just the latter implementation: (input + value * tensor1 / tensor2), for all dtypes.')


@method
def addcmul(self, tensor1, tensor2, *old, value=1):
    """addcmul(tensor1, tensor2, value=1): self + value * tensor1 * tensor2."""
    if old:
        return _value_first(addcmul, value, self, tensor1, tensor2, *old)
    if self.dtype in HALVES and half_of(self, tensor1, tensor2):
        return in_float32(addcmul, self.dtype, self, tensor1, tensor2, value=value)
    product = tensor1 * tensor2
    dtype = self._result_dtype(product)
    if dtype == _gt.bool:
        raise NotImplementedError('"addcmul_cpu_out" not implemented for \'Bool\'')
    value = product._fit(value, dtype)
    return self + (product if value == 1 else product * value)


@method
def addcdiv(self, tensor1, tensor2, *old, value=1):
    """addcdiv(tensor1, tensor2, value=1): self + value * tensor1 / tensor2."""
    if old:
        return _value_first(addcdiv, value, self, tensor1, tensor2, *old)
    if self.dtype in HALVES and half_of(self, tensor1, tensor2):
        return in_float32(addcdiv, self.dtype, self, tensor1, tensor2, value=value)
    if not (tensor1.is_floating_point() or tensor1.is_complex() or tensor2.is_floating_point() or tensor2.is_complex()):
        raise RuntimeError(_ADDCDIV_OF_INTEGERS)
    quotient = tensor1 / tensor2
    value = quotient._fit(value)
    return self + (quotient if value == 1 else quotient * value)


in_place('addmm', 'addmv', 'addr', 'baddbmm', 'addbmm', 'addcmul', 'addcdiv')


@method
def cross(self, other, dim=None):
    """cross(other, dim=None): the vector product along a dimension of size 3; without dim, the first of that size."""
    tensor_argument('cross', 'other', other)
    if dim is None:
        dim = next((d for d, size in enumerate(self.shape) if size == 3), None)
        if dim is None:
            raise RuntimeError('no dimension of size 3 in input')
    shape = (self.reshape(self.shape) * other).shape if self.shape != other.shape else self.shape
    a, b = self.expand(shape), other.expand(shape)
    dim = axis_of(a, dim)
    if shape[dim] != 3:
        raise RuntimeError(f'linalg.cross: inputs dimension {dim} must have length 3. Got {self.shape[dim]} and '
                           f'{other.shape[dim]}')
    return a.roll(-1, dim) * b.roll(-2, dim) - a.roll(-2, dim) * b.roll(-1, dim)


@method
@no_view
def kron(self, other):
    """kron(other): the Kronecker product."""
    tensor_argument('kron', 'other', other)
    rank = max(self.ndim, other.ndim)
    a = self.reshape((1,) * (rank - self.ndim) + self.shape)
    b = other.reshape((1,) * (rank - other.ndim) + other.shape)
    product = a.reshape([n for s in a.shape for n in (s, 1)]) * b.reshape([n for s in b.shape for n in (1, s)])
    return product.reshape([s * t for s, t in zip(a.shape, b.shape)])


@function
def chain_matmul(*matrices):
    """chain_matmul(*matrices): their product, multiplied in the cheapest order."""
    if len(matrices) == 1:
        return matrices[0].clone()
    letters = string.ascii_letters
    terms = ','.join(letters[k] + letters[k + 1] for k in range(len(matrices)))
    return einsum(f'{terms}->{letters[0]}{letters[len(matrices)]}', *matrices)


def _distances(difference, p):
    """The norms of rows; those of order 0 have a gradient of 0, as in PyTorch, where those of norm() have none."""
    return difference._vector_norm(p, -1) if p else difference.sign().abs().sum(-1)


@method
def cdist(self, x2, p=2.0, compute_mode='use_mm_for_euclid_dist_if_necessary'):
    """cdist(x2, p=2): the p-norm distance of each pair of rows: (..., P, M) and (..., R, M) give (..., P, R)."""
    tensor_argument('cdist', 'x2', x2)
    for label, rows in (('X1', self), ('X2', x2)):
        if rows.ndim < 2:
            raise RuntimeError(f'cdist only supports at least 2D tensors, {label} got: {rows.ndim}D')
    if self.shape[-1] != x2.shape[-1]:
        raise RuntimeError(f'X1 and X2 must have the same number of columns. X1: {self.shape[-1]} X2: {x2.shape[-1]}')
    many = max(self.shape[-2], x2.shape[-2]) > 25
    by_product = {'use_mm_for_euclid_dist_if_necessary': many, 'use_mm_for_euclid_dist': True,
                  'donot_use_mm_for_euclid_dist': False}
    if compute_mode not in by_product:
        raise ValueError(f'{compute_mode} is not a valid value for compute_mode')
    if p != 2 or not by_product[compute_mode]:
        return _distances(self.unsqueeze(-2) - x2.unsqueeze(-3), p)
    squares = (self * self).sum(-1, keepdim=True) + (x2 * x2).sum(-1).unsqueeze(-2) - 2 * (self @ x2.mT)
    none = squares <= 0  # rounding may give less than 0, where sqrt has no gradient
    return squares.masked_fill(none, 1).sqrt().masked_fill(none, 0)


@function
def pdist(input, p=2.0):
    """pdist(input, p=2): the p-norm distance of each pair of rows of a matrix, in the order of the upper triangle."""
    from gt.client.picking import triu_indices
    if input.ndim != 2:
        raise RuntimeError(f'pdist only supports 2D tensors, got: {input.ndim}D')
    if p < 0:
        raise RuntimeError('pdist only supports non-negative p values')
    rows, columns = triu_indices(input.shape[0], input.shape[0], 1)
    return _distances(input.index_select(0, rows) - input.index_select(0, columns), float(p))


# ---- tensordot and einsum ------------------------------------------------------------------------------------


@function
def tensordot(a, b, dims=2):
    """tensordot(a, b, dims=2): products summed over the last dims of a and the first of b, or over pairs of lists."""
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if hasattr(dims, '__index__'):
        if not 0 <= dims <= min(a.ndim, b.ndim):
            raise RuntimeError(f'tensordot expects dims >= 0 and at most the dimensions of both, but got dims={dims}')
        dims = (list(range(a.ndim - dims, a.ndim)), list(range(dims)))
    left, right = axes_of(a, dims[0]), axes_of(b, dims[1])
    if len(left) != len(right):
        raise RuntimeError('both dimension lists should have same length')
    for i, j in zip(left, right):
        if b.shape[j] == 1 != a.shape[i]:
            a = a.sum(i, keepdim=True)
        elif a.shape[i] == 1 != b.shape[j]:
            b = b.sum(j, keepdim=True)
        elif a.shape[i] != b.shape[j]:
            raise RuntimeError(f'contracted dimensions need to match, but first has size {a.shape[i]} in dim {i} and '
                               f'second has size {b.shape[j]} in dim {j}')
    rows, columns = ([d for d in range(t.ndim) if d not in axes] for t, axes in ((a, left), (b, right)))
    shape, inner = [a.shape[d] for d in rows] + [b.shape[d] for d in columns], math.prod(a.shape[d] for d in left)
    first = a.permute(rows + left).reshape(math.prod(a.shape[d] for d in rows), inner)
    return first.mm(b.permute(right + columns).reshape(inner, math.prod(b.shape[d] for d in columns))).reshape(shape)


def _letters(text, position):
    """'ab...c' as a list of labels, '...' being one of them."""
    labels, k = [], 0
    while k < len(text):
        if text.startswith('...', k):
            if '...' in labels:
                raise RuntimeError(f"einsum(): found '.' for operand {position} for which an ellipsis was already found")
            labels.append('...')
            k += 3
        elif text[k] in string.ascii_letters:
            labels.append(text[k])
            k += 1
        else:
            raise RuntimeError(f'einsum(): invalid subscript given at index {k} in the equation string, subscripts must '
                               f'be in [a-zA-Z]')
    return labels


def _parse(arguments):
    """(labels of each operand, labels of the result or None, operands), from either notation."""
    if isinstance(arguments[0], str):
        equation, operands = arguments[0].replace(' ', ''), arguments[1:]
        if len(operands) == 1 and not isinstance(operands[0], Tensor):
            operands = tuple(operands[0])
        left, arrow, right = equation.partition('->')
        terms = [_letters(term, k) for k, term in enumerate(left.split(','))]
        result = _letters(right, 'output') if arrow else None
    else:  # operand, [labels], operand, [labels], ..., [labels of the result]
        operands, lists = arguments[0::2], arguments[1::2]
        result = None
        if len(arguments) % 2:
            operands, result = operands[:-1], ['...' if n is Ellipsis else n for n in arguments[-1]]
        terms = [['...' if n is Ellipsis else n for n in labels] for labels in lists]
    if len(terms) != len(operands):
        raise RuntimeError(f'einsum(): {"fewer" if len(operands) > len(terms) else "more"} operands were provided in the '
                           f'equation than as arguments: {len(terms)} and {len(operands)}')
    return terms, result, operands


def _without_ellipsis(terms, result, operands):
    """Every '...' written out: ('...', k) is the k-th broadcast dimension, counted from the last."""
    widest = 0
    for position, (labels, operand) in enumerate(zip(terms, operands)):
        covered = operand.ndim - (len(labels) - ('...' in labels))
        if covered < 0 or covered and '...' not in labels:
            raise RuntimeError(f'einsum(): the number of subscripts in the equation ({len(labels) - ("..." in labels)}) '
                               f'does not match the number of dimensions ({operand.ndim}) for operand {position} and no '
                               f'ellipsis was given')
        if '...' in labels:
            at = labels.index('...')
            labels[at:at + 1] = [('...', k) for k in reversed(range(covered))]
            widest = max(widest, covered)
    broadcast = [('...', k) for k in reversed(range(widest))]
    if result is None:
        seen = [n for labels in terms for n in labels if not isinstance(n, tuple)]
        return terms, broadcast + sorted(n for n in set(seen) if seen.count(n) == 1)
    if '...' in result:
        at = result.index('...')
        result[at:at + 1] = broadcast
    return terms, result


def _check_result(result, terms):
    known = {n for labels in terms for n in labels}
    for label in result:
        if result.count(label) > 1:
            raise RuntimeError(f'einsum(): output subscript {label} appears more than once in the output')
        if label not in known:
            raise RuntimeError(f'einsum(): output subscript {label} does not appear in the equation for any input operand')


def _take_diagonals(operand, labels, position):
    """Replace a label that an operand has twice by the diagonal of both dimensions."""
    labels = list(labels)
    for label in {n for n in labels if labels.count(n) > 1}:
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            if operand.shape[first] != operand.shape[second]:
                raise RuntimeError(f'einsum(): subscript {label} is repeated for operand {position} but the sizes don\'t '
                                   f'match, {operand.shape[second]} != {operand.shape[first]}')
            operand = operand.diagonal(0, first, second)
            labels = labels[:first] + labels[first + 1:second] + labels[second + 1:] + [label]
    return operand, labels


def _summed(operand, labels, kept):
    """Sum over the labels that only this operand has."""
    gone = [d for d, n in enumerate(labels) if n not in kept]
    return (operand.sum(gone) if gone else operand), [n for n in labels if n in kept]


def _ordered(operand, labels, order):
    return operand if labels == order else operand.permute([labels.index(n) for n in order])


def _aligned(operand, labels, order):
    """Permute dimensions into an order; missing ones get size 1, and PyTorch's strides: the format of a product depends on them."""
    missing = [n for n in order if n not in labels]
    for _ in missing:
        operand = operand.unsqueeze(-1)
    return _ordered(operand, [*labels, *missing], order)


def _contract(a, a_labels, b, b_labels, kept):
    """The product of two operands, summed over the labels that are not kept: (result, its labels)."""
    whole = a, a_labels, b, b_labels
    ones = [n for n, size in zip(a_labels, a.shape) if size == 1 and n not in kept and n in b_labels and b.shape[b_labels.index(n)] == 1]
    a, a_labels = _drop_ones(a, a_labels, b, b_labels)
    b, b_labels = _drop_ones(b, b_labels, a, a_labels)
    a, a_labels = _summed(a, a_labels, kept | set(b_labels))
    b, b_labels = _summed(b, b_labels, kept | set(a_labels))
    batch = [n for n in a_labels if n in b_labels and n in kept]
    inner = [n for n in a_labels if n in b_labels and n not in kept]
    rows, columns = [n for n in a_labels if n not in b_labels], [n for n in b_labels if n not in a_labels]
    labels = batch + rows + columns
    if ones and not inner and len(labels) + len(ones) == len({*whole[1], *whole[3]}):
        order = labels + ones
        product = _aligned(*whole[:2], order) * _aligned(*whole[2:], order)
        return product.squeeze(tuple(range(len(labels), len(order)))), labels
    if not inner:
        return _aligned(a, a_labels, labels) * _aligned(b, b_labels, labels), labels
    sizes = dict(zip(a_labels, a.shape)) | dict(zip(b_labels, b.shape))

    def volume(names):
        return math.prod(sizes[n] for n in names)
    leading = [volume(batch)] if batch else []
    left = _ordered(a, a_labels, batch + rows + inner).reshape(*leading, volume(rows), volume(inner))
    right = _ordered(b, b_labels, batch + inner + columns).reshape(*leading, volume(inner), volume(columns))
    return (left @ right).reshape([sizes[n] for n in labels]), labels


def _drop_ones(a, a_labels, b, b_labels):
    """Drop dimensions of size 1 that broadcast against a longer one."""
    dropped = [d for d, n in enumerate(a_labels) if a.shape[d] == 1 and n in b_labels]
    if not dropped:
        return a, a_labels
    return a.squeeze(tuple(dropped)), [n for d, n in enumerate(a_labels) if d not in dropped]


def _cheapest_pair(items, kept):
    """The pair with the least growth: size of the product minus the sizes of both operands."""
    def growth(i, j):
        (a, x), (b, y) = items[i], items[j]
        others = kept.union(*(labels for k, (_, labels) in enumerate(items) if k not in (i, j)))
        sizes = dict(zip(x, a.shape))
        sizes.update((n, s) for n, s in zip(y, b.shape) if s != 1 or n not in sizes)
        return math.prod(s for n, s in sizes.items() if n in others) - a.numel() - b.numel()
    pairs = [(i, j) for i in range(len(items)) for j in range(i + 1, len(items))]
    return min(pairs, key=lambda pair: growth(*pair))


def _check_sizes(items):
    sizes = {}
    for operand, labels in items:
        for label, size in zip(labels, operand.shape):
            known = sizes.get(label, 1)
            if size != known and 1 not in (size, known):
                raise RuntimeError(f'einsum(): operands do not broadcast with remapped shapes: subscript {label} has size '
                                   f'{size} and {known}')
            sizes[label] = max(size, known) if 0 not in (size, known) else 0


@function
def einsum(equation, *operands):
    """einsum(equation, *operands): products of elements, summed over the labels that the result does not have. Instead of an
    equation, each operand may be followed by a list of its labels: einsum(a, [0, 1], b, [1, 2], [0, 2])."""
    if not operands:
        raise ValueError('einsum(): must specify the equation string and at least one operand, or at least one operand and '
                         'its subscripts list')
    terms, result, operands = _parse((equation, *operands))
    terms, result = _without_ellipsis(terms, result, operands)
    _check_result(result, terms)
    items = [_take_diagonals(t, labels, k) for k, (t, labels) in enumerate(zip(operands, terms))]
    _check_sizes(items)
    kept = set(result)
    while len(items) > 1:
        i, j = _cheapest_pair(items, kept) if len(items) > 2 else (0, 1)
        (a, x), (b, y) = items[i], items[j]
        items = [item for k, item in enumerate(items) if k not in (i, j)]
        items.append(_contract(a, x, b, y, kept.union(*(labels for _, labels in items))))
    operand, labels = _summed(*items[0], kept)
    return _ordered(operand, labels, result)
