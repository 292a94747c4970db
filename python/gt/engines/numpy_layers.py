"""NumPy's functions for the rows of layers: attention, normalisation, convolutions, pooling. numpy_ops.py says how.

Records say how many windows there are and where they lie (core/window.h). `windows_of` makes a view of a padded operand with an
axis for each axis of the windows; the other direction adds one element of all windows at a time.
"""

import itertools
import math

import numpy as np
from numpy.lib.stride_tricks import as_strided

# ---- attention and normalisation ------------------------------------------------------------------------------------


def transposed(x):
    return np.swapaxes(x, -1, -2)


def attention_weights(q, k, scale, period):
    """softmax(q k' scale); query i sees the keys up to i % period, or all of them (core/attention.h)."""
    scores = q @ transposed(k) * scale
    if period:
        hidden = np.arange(k.shape[-2]) > (np.arange(q.shape[-2]) % period)[:, None]
        scores = np.where(hidden, -np.inf, scores)
    scores = np.exp(scores - np.max(scores, -1, keepdims=True))
    return scores / np.sum(scores, -1, keepdims=True)


def attention(self, out, q, k, v, scale, period):
    if not q.numel or not k.numel:
        return NotImplemented
    q, k, v = (self.operand(x, out.dtype) for x in (q, k, v))
    return attention_weights(q, k, scale, period) @ v


def attention_backward(self, out, qg, k, v, scale, period):
    if not qg.numel or not k.numel or not v.numel:
        return NotImplemented
    qg, k, v = (self.operand(x, out.dtype) for x in (qg, k, v))
    q, g = qg[..., :k.shape[-1]], qg[..., k.shape[-1]:]
    weights = attention_weights(q, k, scale, period)
    slope = g @ transposed(v)
    slope = weights * (slope - np.sum(slope * weights, -1, keepdims=True)) * scale
    parts = slope @ k, transposed(slope) @ q, transposed(weights) @ g
    return np.concatenate([part.reshape(*part.shape[:-2], -1) for part in parts], -1)


def standardised(x, axis, eps):
    """(x - mean) * scale over the last axes, and the scale; all axes before as one."""
    lines = x.astype(np.float64).reshape(math.prod(x.shape[:axis]), -1)
    lines = lines - np.mean(lines, 1, keepdims=True)
    scale = 1 / np.sqrt(np.mean(lines * lines, 1, keepdims=True) + eps)
    return lines * scale, scale


def flat(self, value):
    return value if isinstance(value, (bool, int, float)) else self.array(value).reshape(-1).astype(np.float64)


def layer_norm(self, out, x, weight, bias, axis, eps):
    if not x.numel:
        return NotImplemented
    h, _ = standardised(self.array(x), axis, eps)
    return (h * flat(self, weight) + flat(self, bias)).reshape(out.shape)


def layer_norm_backward(self, out, g, x, weight, axis, eps):
    if not x.numel:
        return NotImplemented
    h, scale = standardised(self.array(x), axis, eps)
    g = self.array(g).reshape(h.shape) * flat(self, weight)
    return ((g - np.mean(g, 1, keepdims=True) - h * np.mean(g * h, 1, keepdims=True)) * scale).reshape(out.shape)


def layer_norm_backward_weight(self, out, g, x, weight, axis, eps):
    if not x.numel:
        return NotImplemented
    h, _ = standardised(self.array(x), axis, eps)
    return np.sum(self.array(g).reshape(h.shape) * h, 0).reshape(out.shape)


def of_channels(self, rows, x):
    """Rows of numbers of the channels, each to be broadcast against x, in float64."""
    return self.array(rows).astype(np.float64).reshape(-1, 1, x.shape[1], *(1,) * (len(x.shape) - 2))


def batch_moments(self, out, x):
    if not x.numel:
        return NotImplemented
    x = self.array(x).astype(np.float64)
    axes = tuple(axis for axis in range(x.ndim) if axis != 1)
    return np.stack([np.mean(x, axes), np.var(x, axes)])


def batch_norm(self, out, x, moments, affine, elements, eps):
    mean, variance = of_channels(self, moments, x)
    h = (self.array(x) - mean) / np.sqrt(variance + eps)
    if isinstance(affine, (bool, int, float)):
        return h
    weight, bias = of_channels(self, affine, x)
    return h * weight + bias


def batch_norm_backward_affine(self, out, g, x, moments, elements, eps):
    mean, variance = of_channels(self, moments, x)
    g, h = self.array(g).astype(np.float64), (self.array(x) - mean) / np.sqrt(variance + eps)
    axes = tuple(axis for axis in range(h.ndim) if axis != 1)
    return np.stack([np.sum(g * h, axes), np.sum(g, axes)])


def batch_norm_backward(self, out, g, x, rows, elements, eps):
    mean, variance, *others = of_channels(self, rows, x)
    g, scale = self.array(g).astype(np.float64), 1 / np.sqrt(variance + eps)
    if elements:
        g = g - others[-1] / elements - (self.array(x) - mean) * scale * others[-2] / elements
    return g * scale * (others[0] if len(others) == (4 if elements else 2) else 1)


# ---- windows --------------------------------------------------------------------------------------------------------


def framed(x, lengths, padding, fill=0):
    """x from -padding on, of these lengths in its last axes."""
    kept = x.ndim - len(lengths)
    result = np.full((*x.shape[:kept], *lengths), fill, x.dtype)
    source, target = [...], [...]
    for length, before, size in zip(lengths, padding, x.shape[kept:]):
        first, end = max(before, 0), min(before + size, length)
        target.append(slice(first, max(end, first)))
        source.append(slice(first - before, max(end, first) - before))
    result[tuple(target)] = x[tuple(source)]
    return result


def extent(kernel, strides, dilation, count):
    """How many positions `count` windows cover along each axis."""
    return [(n - 1) * s + (k - 1) * d + 1 for k, s, d, n in zip(kernel, strides, dilation, count)]


def windows_of(x, kernel, strides, padding, dilation, count, fill=0):
    """(..., *count, *kernel): a view of x with padding."""
    x = framed(x, extent(kernel, strides, dilation, count), padding, fill)
    kept = x.ndim - len(kernel)
    steps = x.strides[kept:]
    return as_strided(x, (*x.shape[:kept], *count, *kernel),
                      (*x.strides[:kept], *(b * s for b, s in zip(steps, strides)), *(b * d for b, d in zip(steps, dilation))))


def added(parts, shape, kernel, strides, padding, dilation, count, dtype):
    """The sum of elements of windows where they lie: parts(index) is (..., *count) for one element of the windows."""
    lengths = extent(kernel, strides, dilation, count)
    total = np.zeros((*shape[:len(shape) - len(kernel)], *lengths), dtype)
    for index in itertools.product(*map(range, kernel)):
        place = [slice(k * d, k * d + (n - 1) * s + 1, s) for k, d, n, s in zip(index, dilation, count, strides)]
        total[(..., *place)] += parts(index)
    return framed(total, shape[len(shape) - len(kernel):], [-p for p in padding])


def usable(out, *views):
    return out.numel and all(isinstance(v, (bool, int, float)) or v.numel for v in views)


# ---- convolutions ---------------------------------------------------------------------------------------------------


def grouped(x, groups, axis):
    """An axis as (groups, rest)."""
    return x.reshape(*x.shape[:axis], groups, x.shape[axis] // groups, *x.shape[axis + 1:])


def with_bias(self, result, bias, out):
    if isinstance(bias, (bool, int, float)):
        return result
    return result + self.operand(bias, out.dtype).reshape(-1, *(1,) * (result.ndim - 2))


def conv(self, out, x, weight, bias, strides, padding, dilation, groups, **_window):
    if not usable(out, x, weight):
        return NotImplemented
    x, w = self.operand(x, out.dtype), self.operand(weight, out.dtype)
    spatial = len(strides)
    count = out.shape[2:]
    view = windows_of(x, w.shape[2:], strides, padding, dilation, count)
    view = np.moveaxis(grouped(view, groups, 1), 1, 0)  # (G, N, C, *count, *kernel)
    columns = np.moveaxis(view, 2, 2 + spatial).reshape(groups, x.shape[0] * math.prod(count), -1)
    result = columns @ transposed(w.reshape(groups, w.shape[0] // groups, -1))  # (G, N * windows, Cout)
    result = result.reshape(groups, x.shape[0], *count, -1)
    return with_bias(self, np.moveaxis(np.moveaxis(result, -1, 2), 0, 1).reshape(out.shape), bias, out)


def conv_input(self, out, y, weight, bias, strides, padding, dilation, groups, **_window):
    if not usable(out, y, weight):
        return NotImplemented
    y, w = self.operand(y, out.dtype), self.operand(weight, out.dtype)
    count, kernel = y.shape[2:], w.shape[2:]
    lines = grouped(y, groups, 1).reshape(y.shape[0], groups, w.shape[0] // groups, -1)
    matrices = grouped(w, groups, 0)  # (G, Cout, C, *kernel)

    def part(index):
        product = transposed(matrices[(..., *index)]) @ lines  # (N, G, C, windows)
        return product.reshape(*out.shape[:2], *count)
    return with_bias(self, added(part, out.shape, kernel, strides, padding, dilation, count, y.dtype), bias, out)


def conv_weight(self, out, y, x, strides, padding, dilation, groups, **_window):
    if not usable(out, y, x):
        return NotImplemented
    y, x = self.operand(y, out.dtype), self.operand(x, out.dtype)
    spatial, count = len(strides), y.shape[2:]
    view = windows_of(x, out.shape[2:], strides, padding, dilation, count)
    view = np.moveaxis(grouped(view, groups, 1), 1, 0)
    columns = np.moveaxis(view, 2, 2 + spatial).reshape(groups, x.shape[0] * math.prod(count), -1)
    lines = np.moveaxis(grouped(y, groups, 1), 0, 2).reshape(groups, y.shape[1] // groups, -1)
    return (lines @ columns).reshape(out.shape)


# ---- pooling --------------------------------------------------------------------------------------------------------


def largest(x, kernel, strides, padding, dilation, count):
    """Flat positions in x's spatial axes of the first largest element of each window; None: leave it."""
    if not all(kernel) or (x.dtype.kind == 'f' and np.isnan(x).any()):
        return None
    fill = -np.inf if x.dtype.kind == 'f' else np.iinfo(x.dtype).min
    sizes, spatial = x.shape[-len(kernel):], len(kernel)
    places = windows_of(np.arange(math.prod(sizes)).reshape(sizes), kernel, strides, padding, dilation, count, -1)
    places = places.reshape(*count, -1)
    values = windows_of(x, kernel, strides, padding, dilation, count, fill)
    values = values.reshape(*values.shape[:values.ndim - spatial], -1)
    # Padding never wins, and the first element does if all are equal to what stands for padding.
    best = np.argmax(np.where(places < 0, 0, values > fill) if (values == fill).all() else values, -1)
    found = np.take_along_axis(np.broadcast_to(places, values.shape), best[..., None], -1)[..., 0]
    return None if (found < 0).any() else found


def pool_operand(self, view):
    return None if view.dtype in ('bool', 'bfloat16') or not view.numel else self.array(view)


def max_pool_index(self, out, x, kernel, strides, padding, dilation, **_window):
    x = pool_operand(self, x) if out.numel else None
    found = None if x is None else largest(x, kernel, strides, padding, dilation, out.shape[-len(kernel):])
    return NotImplemented if found is None else found.reshape(out.shape)


def max_pool(self, out, a, x, kernel, strides, padding, dilation, **_window):
    x = pool_operand(self, x) if out.numel else None
    found = None if x is None else largest(x, kernel, strides, padding, dilation, out.shape[-len(kernel):])
    if found is None:
        return NotImplemented
    flat_shape = (*x.shape[:x.ndim - len(kernel)], -1)
    return np.take_along_axis(self.array(a).reshape(flat_shape), found.reshape(flat_shape), -1).reshape(out.shape)


def max_pool_input(self, out, y, x, kernel, strides, padding, dilation, **_window):
    x = pool_operand(self, x) if y.numel else None
    found = None if x is None else largest(x, kernel, strides, padding, dilation, y.shape[-len(kernel):])
    if found is None:
        return NotImplemented
    planes, size = math.prod(x.shape[:x.ndim - len(kernel)]), math.prod(x.shape[-len(kernel):])
    total = np.zeros((planes, size), np.float64 if x.dtype.kind == 'f' else np.int64)
    np.add.at(total, (np.arange(planes)[:, None], found.reshape(planes, -1)), self.array(y).reshape(planes, -1))
    return total.reshape(out.shape)


def divisors(sizes, kernel, strides, padding, count, divisor, count_padding):
    """What the sum of each window is divided by, (*count)."""
    if divisor:
        return divisor
    result = np.ones(count)
    for axis, (size, k, s, p, n) in enumerate(zip(sizes, kernel, strides, padding, count)):
        first = np.arange(n) * s - p
        end = np.minimum(first + k, size + (p if count_padding else 0))
        length = end - (first if count_padding else np.maximum(first, 0))
        result = result * length.reshape([-1 if other == axis else 1 for other in range(len(count))])
    return result


def avg_pool(self, out, x, kernel, strides, padding, divisor, count_padding, **_window):
    if not usable(out, x) or not all(kernel) or out.dtype not in ('float16', 'bfloat16', 'float32', 'float64'):
        return NotImplemented
    x, spatial = self.array(x).astype(np.float64), len(kernel)
    count = out.shape[-spatial:]
    view = windows_of(x, kernel, strides, padding, (1,) * spatial, count)
    total = np.sum(view, tuple(range(-spatial, 0)))
    return total / divisors(x.shape[-spatial:], kernel, strides, padding, count, divisor, count_padding)


def avg_pool_input(self, out, y, kernel, strides, padding, divisor, count_padding, **_window):
    if not usable(out, y) or not all(kernel) or out.dtype not in ('float16', 'bfloat16', 'float32', 'float64'):
        return NotImplemented
    y, spatial = self.array(y).astype(np.float64), len(kernel)
    count = y.shape[-spatial:]
    y = y / divisors(out.shape[-spatial:], kernel, strides, padding, count, divisor, count_padding)
    return added(lambda index: y, out.shape, kernel, strides, padding, (1,) * spatial, count, y.dtype)


# ---- windows as columns ---------------------------------------------------------------------------------------------


def im2col(self, out, x, kernel, strides, padding, dilation, size, **_window):
    if not usable(out, x):
        return NotImplemented
    view = windows_of(self.raw(x), kernel, strides, padding, dilation, size)  # (N, C, *count, *kernel)
    spatial = len(kernel)
    order = (0, 1, *range(2 + spatial, 2 + 2 * spatial), *range(2, 2 + spatial))
    np.copyto(np.asarray(out), view.transpose(order).reshape(out.shape))
    return None


def col2im(self, out, columns, kernel, strides, padding, dilation, windows, **_window):
    if not usable(out, columns):
        return NotImplemented
    x = self.operand(columns, out.dtype)
    x = x.reshape(*out.shape[:2], *kernel, *windows)
    return added(lambda index: x[(slice(None), slice(None), *index)], out.shape, kernel, strides, padding, dilation, windows, x.dtype)


METHODS = {name: globals()[name] for name in (
    'attention attention_backward layer_norm layer_norm_backward layer_norm_backward_weight batch_moments batch_norm '
    'batch_norm_backward batch_norm_backward_affine conv conv_input conv_weight max_pool '
    'max_pool_index max_pool_input avg_pool avg_pool_input im2col col2im').split()}
