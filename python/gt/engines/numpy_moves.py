"""NumPy's functions for products, linear algebra, movement, indexing, sorting and creation. numpy_ops.py says how."""

import numpy as np

# ---- products and linear algebra ------------------------------------------------------------------------------------


def matmul(self, out, a, b):
    return np.matmul(self.operand(a, out.dtype), self.operand(b, out.dtype))


def linear(self, out, a, b, bias):
    return np.matmul(self.operand(a, out.dtype), self.operand(b, out.dtype)) + self.operand(bias, out.dtype)


def fft(self, out, x, kind, axes, half, inverse, scale):
    x = self.array(x)
    order = (*(axis for axis in axes if axis != half), half)
    if kind == 'complex':
        result = np.fft.ifftn(x, axes=axes, norm='forward') if inverse else np.fft.fftn(x, axes=axes)
    elif kind == 'real':
        result = np.fft.rfftn(x, axes=order)
        result = np.conjugate(result) if inverse else result
    else:
        x = x if inverse else np.conjugate(x)
        result = np.fft.irfftn(x, [out.shape[axis] for axis in order], order, norm='forward')
    return result * scale


def factors(function):
    """A decomposition; a matrix that it refuses has its words in the reference engine."""
    def method(self, out, *operands, **attributes):
        values = [self.array(value) for value in operands]
        if not all(np.isfinite(value).all() for value in values) or not out.numel:
            return NotImplemented
        try:
            return function(*values, **attributes)
        except np.linalg.LinAlgError:
            return NotImplemented
    return method


def transposed(x):
    return np.swapaxes(x, -1, -2)


def rows(*parts):
    """The factors as rows of one matrix (core/linalg.h)."""
    return np.concatenate(parts, -2)


def slogdet(x):
    return np.stack(np.linalg.slogdet(x), -1)


def cholesky(x, never_fail):
    return NotImplemented if never_fail else np.linalg.cholesky(x)


def qr(x, vectors):
    if vectors == 'none':
        return NotImplemented
    q, r = np.linalg.qr(x, 'complete' if vectors == 'full' else 'reduced')
    return rows(q, transposed(r))


def svd(x, vectors):
    if vectors == 'full':
        return NotImplemented
    if vectors == 'none':
        return np.linalg.svd(x, compute_uv=False)[..., None, :]
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    return rows(u, s[..., None, :], transposed(vh))


def eigh(x, vectors, upper):
    uplo = 'U' if upper else 'L'
    if vectors == 'none':
        return np.linalg.eigvalsh(x, uplo)[..., None, :]
    w, v = np.linalg.eigh(x, uplo)
    return rows(w[..., None, :], v)


def solve(a, b, **_attributes):
    return np.linalg.solve(a, b) if a.ndim == b.ndim else NotImplemented


# ---- movement -------------------------------------------------------------------------------------------------------


def moved(self, out, elements):
    """Elements of the result's own dtype, bfloat16 as bits, without arithmetic."""
    np.copyto(np.asarray(out), elements)


def copy(self, out, x):
    moved(self, out, self.raw(x).reshape(out.shape))


def cast(self, out, x):
    if out.dtype == x.dtype:
        return copy(self, out, x)
    result = self.stored(self.array(x), out.dtype)
    if result is NotImplemented:
        return result
    np.copyto(np.asarray(out), result, casting='unsafe')
    return None


def element(self, value, dtype):
    """A view or number as elements of a dtype, bfloat16 as bits."""
    if isinstance(value, (bool, int, float)):
        elements = self.stored(np.asarray(value), dtype)
    elif value.dtype == dtype:
        return self.raw(value)
    else:
        elements = self.stored(self.array(value), dtype)
    return elements if elements is NotImplemented or dtype == 'bfloat16' else elements.astype(dtype)


def cat(self, out, *parts, axis):
    pieces = [element(self, part, out.dtype) for part in parts]
    if any(piece is NotImplemented for piece in pieces):
        return NotImplemented
    np.concatenate(pieces, axis, out=np.asarray(out))
    return None


def triangle(function):
    def method(self, out, x, diagonal):
        moved(self, out, function(self.raw(x), diagonal))
    return method


# ---- indexing -------------------------------------------------------------------------------------------------------


def indices(self, view, low, size):
    """The indices as int64, or None if one is out of range."""
    index = self.raw(view).astype(np.int64)
    return index if not index.size or (index.min() >= low and index.max() < size) else None


def wrap_index(self, out, index, size, axis):
    index = indices(self, index, -size, size)
    return NotImplemented if index is None else np.where(index < 0, index + size, index)


def take(self, out, x, index, axis, negative):
    size = x.shape[axis]
    index = indices(self, index, -size if negative else 0, size)
    if index is None:
        return NotImplemented
    moved(self, out, np.take(self.raw(x), index, axis))
    return None


def corner(x, shape, axis):
    """The part of x that indices of this shape along `axis` reach."""
    return x[tuple(slice(None) if k == axis else slice(n) for k, n in enumerate(shape))]


def gather(self, out, x, index, axis):
    if not index.shape:
        return NotImplemented
    index = indices(self, index, 0, x.shape[axis])
    if index is None:
        return NotImplemented
    moved(self, out, np.take_along_axis(corner(self.raw(x), index.shape, axis), index, axis))
    return None


def base_of(self, out, x):
    """The result, with the contents of an operand that may be its own memory."""
    target = np.asarray(out)
    if out.address != x.address:
        np.copyto(target, self.raw(x))
    return target


def scatter(self, out, x, index, source, axis):
    if not index.shape:
        return NotImplemented
    index, source = indices(self, index, 0, out.shape[axis]), element(self, source, out.dtype)
    if index is None or source is NotImplemented:
        return NotImplemented
    if source.ndim:
        source = source[tuple(slice(n) for n in index.shape)]
    np.put_along_axis(corner(base_of(self, out, x), index.shape, axis), index, np.broadcast_to(source, index.shape), axis)
    return None


def scatter_add(self, out, x, index, source, axis):
    if not index.shape or out.dtype in ('bool', 'bfloat16', 'float16'):
        return NotImplemented
    index, source = indices(self, index, 0, out.shape[axis]), element(self, source, out.dtype)
    if index is None or source is NotImplemented:
        return NotImplemented
    if source.ndim:
        source = source[tuple(slice(n) for n in index.shape)]
    places = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    places[axis] = index
    np.add.at(base_of(self, out, x), tuple(places), source)
    return None


def assign(self, out, x, source, start, step, count):
    source = element(self, source, out.dtype)
    if source is NotImplemented:
        return NotImplemented
    target = base_of(self, out, x)
    place = []
    for first, by, n in zip(start, step, count):
        stop = first + n * by if n > 1 else first + n
        place.append(slice(first, None if stop < 0 else stop, by if n > 1 else 1))
    target[tuple(place)] = source
    return None


def mask_index(self, out, mask, count):
    found = np.flatnonzero(self.raw(mask))
    return found if found.size == count else NotImplemented


def order(x, axis, descending):
    """A stable order; NaN is the largest number."""
    if not descending:
        return np.argsort(x, axis, kind='stable')
    return x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind='stable'), axis)


def argsort(self, out, x, axis, descending):
    return order(self.array(x).reshape(x.shape or (1,)), axis, descending).reshape(out.shape)


def topk(self, out, x, axis, k, largest):
    found = order(self.array(x).reshape(x.shape or (1,)), axis, largest)
    return np.take(found, range(k), axis).reshape(out.shape)


def searchsorted(self, out, sequence, values, right):
    if len(sequence.shape) != 1 or isinstance(values, (bool, int, float)) or sequence.dtype != values.dtype:
        return NotImplemented
    return np.searchsorted(self.array(sequence), self.array(values), 'right' if right else 'left')


# ---- creation -------------------------------------------------------------------------------------------------------


def full(self, out, value):
    return np.asarray(value)


def arange(self, out, start, step, first):
    places = np.arange(first, first + out.numel, dtype=np.float64 if isinstance(start, float) else np.int64)
    return places * step + start


def eye(self, out, column):
    return np.eye(*out.shape, column, dtype=np.float32)


METHODS = {name: globals()[name] for name in (
    'matmul linear fft copy cast cat wrap_index take gather scatter scatter_add assign mask_index argsort topk searchsorted full arange '
    'eye').split()}
METHODS |= {
    'reshape': copy, 'tril': triangle(np.tril), 'triu': triangle(np.triu),
    'inverse': factors(np.linalg.inv), 'det': factors(np.linalg.det), 'slogdet': factors(slogdet),
    'cholesky': factors(cholesky), 'qr': factors(qr), 'svd': factors(svd), 'eigh': factors(eigh), 'solve': factors(solve),
}
