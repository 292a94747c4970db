"""PyTorch's functions for the rows of layers: attention, normalisation, convolutions, pooling, windows as columns.

Records say how many windows there are (core/window.h). Where that is not the number that PyTorch's own arguments give, the
operand is padded or cut to the extent of the windows.
"""

import math

import torch
from torch.nn import functional as F

aten = torch.ops.aten
POOLS = {1: (F.max_pool1d, F.adaptive_max_pool1d), 2: (F.max_pool2d, F.adaptive_max_pool2d),
         3: (F.max_pool3d, F.adaptive_max_pool3d)}
AVERAGES = {2: (F.avg_pool2d, F.adaptive_avg_pool2d), 3: (F.avg_pool3d, F.adaptive_avg_pool3d)}


# ---- attention and normalisation ------------------------------------------------------------------------------------


def attended(q, k, v, scale, period):
    """softmax(q k' scale) v; query i sees the keys up to i % period, or all of them (core/attention.h)."""
    mask = None
    if period:
        queries = torch.arange(q.shape[-2], device=q.device) % period
        mask = torch.arange(k.shape[-2], device=q.device) <= queries[:, None]
    q, k, v = (x if x.ndim > 2 else x[None] for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, mask, scale=scale)


def attention(self, out, q, k, v, scale, period):
    if not k.numel or not q.numel:
        return NotImplemented
    dtype = self.tensor(out).dtype
    return attended(*(self.operand(x, dtype) for x in (q, k, v)), scale, period).reshape(out.shape)


def attention_backward(self, out, qg, k, v, scale, period):
    if not k.numel or not qg.numel or not v.numel:
        return NotImplemented
    dtype = self.tensor(out).dtype
    qg, k, v = (self.operand(x, dtype) for x in (qg, k, v))
    q, g = qg.split((k.shape[-1], v.shape[-1]), -1)
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    with torch.enable_grad():
        result = attended(*leaves, scale, period)
    gradients = torch.autograd.grad(result, leaves, g.reshape(result.shape))
    return torch.cat([x.flatten(-2) for x in gradients], -1)


def weights(self, value, x, axis, neutral):
    """A weight or bias, or None if it is the number that changes nothing."""
    if isinstance(value, (bool, int, float)):
        return None if value == neutral else torch.full(x.shape[axis:], value, dtype=x.dtype, device=x.device)
    return self.operand(value, x.dtype)


def layer_norm(self, out, x, weight, bias, axis, eps):
    x = self.operand(x, self.tensor(out).dtype)
    return F.layer_norm(x, x.shape[axis:], weights(self, weight, x, axis, 1), weights(self, bias, x, axis, 0), eps)


def normalised(g, x, weight, axis, eps, wanted):
    shape = x.shape[axis:]
    _, mean, rstd = aten.native_layer_norm(x, shape, None, None, eps)
    return aten.native_layer_norm_backward(g, x, shape, mean, rstd, weight, None, wanted)


def layer_norm_backward(self, out, g, x, weight, axis, eps):
    if not x.numel:
        return NotImplemented
    dtype = self.tensor(out).dtype
    g, x = self.operand(g, dtype), self.operand(x, dtype)
    return normalised(g, x, weights(self, weight, x, axis, 1), axis, eps, [True, False, False])[0]


def layer_norm_backward_weight(self, out, g, x, weight, axis, eps):
    if not x.numel:
        return NotImplemented
    dtype = self.tensor(out).dtype
    g, x = self.operand(g, dtype), self.operand(x, dtype)
    weight = torch.ones(x.shape[axis:], dtype=dtype, device=x.device)
    return normalised(g, x, weight, axis, eps, [False, True, False])[1].reshape(out.shape)


def of_channels(rows, x):
    """Rows of numbers of the channels, each to be broadcast against x."""
    return rows.reshape(-1, 1, x.shape[1], *(1,) * (x.ndim - 2))


def batch_moments(self, out, x):
    x = self.operand(x, self.tensor(out).dtype)
    axes = [axis for axis in range(x.ndim) if axis != 1]
    return torch.stack([x.mean(axes), x.var(axes, correction=0)])


def batch_norm(self, out, x, moments, affine, elements, eps):
    moments = self.tensor(moments)
    x = self.operand(x, moments.dtype)
    mean, variance = of_channels(moments, x)
    h = (x - mean) * (variance + eps).rsqrt()
    if isinstance(affine, (bool, int, float)):
        return h
    weight, bias = of_channels(self.tensor(affine), x)
    return h * weight + bias


def batch_norm_backward_affine(self, out, g, x, moments, elements, eps):
    moments = self.tensor(moments)
    g, x = self.operand(g, moments.dtype), self.operand(x, moments.dtype)
    mean, variance = of_channels(moments, x)
    axes = [axis for axis in range(x.ndim) if axis != 1]
    return torch.stack([(g * (x - mean)).sum(axes) * (moments[1] + eps).rsqrt(), g.sum(axes)])


def batch_norm_backward(self, out, g, x, rows, elements, eps):
    rows = self.tensor(rows)
    g, x = self.operand(g, rows.dtype), self.operand(x, rows.dtype)
    mean, variance, *others = of_channels(rows, x)
    scale = (variance + eps).rsqrt()
    if elements:
        g = g - others[-1] / elements - (x - mean) * scale * others[-2] / elements
    return g * scale * (others[0] if len(others) == (4 if elements else 2) else 1)


# ---- convolutions ---------------------------------------------------------------------------------------------------


def extent(kernel, strides, dilation, count):
    """How many positions `count` windows cover along each axis."""
    return [(n - 1) * s + (k - 1) * d + 1 for k, s, d, n in zip(kernel, strides, dilation, count)]


def framed(x, lengths, padding):
    """x from -padding on, of these lengths in its last axes."""
    pads = []
    for length, before, size in zip(reversed(lengths), reversed(padding), reversed(x.shape[-len(lengths):])):
        pads += [before, length - before - size]
    return F.pad(x, pads) if any(pads) else x


def floats(self, out, *views):
    """Convolutions are of floats; an empty operand has shapes that PyTorch refuses."""
    return self.tensor(out).is_floating_point() and out.numel and all(isinstance(v, (int, float)) or v.numel for v in views)


def conv(self, out, x, weight, bias, strides, padding, dilation, groups, **_window):
    if not floats(self, out, x, weight):
        return NotImplemented
    dtype = self.tensor(out).dtype
    x, weight, bias = (self.operand(value, dtype) for value in (x, weight, bias))
    bias = bias if isinstance(bias, torch.Tensor) else None
    lengths = extent(weight.shape[2:], strides, dilation, out.shape[2:])
    usual = [(size + 2 * p - (k - 1) * d - 1) // s + 1
             for size, p, k, d, s in zip(x.shape[2:], padding, weight.shape[2:], dilation, strides)]
    if usual == list(out.shape[2:]):
        return aten.convolution(x, weight, bias, strides, padding, dilation, False, [0] * len(strides), groups)
    return aten.convolution(framed(x, lengths, padding), weight, bias, strides, [0] * len(strides), dilation, False,
                            [0] * len(strides), groups)


def conv_input(self, out, y, weight, bias, strides, padding, dilation, groups, **_window):
    if not floats(self, out, y, weight):
        return NotImplemented
    dtype = self.tensor(out).dtype
    y, weight, bias = (self.operand(value, dtype) for value in (y, weight, bias))
    none = [0] * len(strides)
    result = aten.convolution(y, weight, None, strides, none, dilation, True, none, groups)
    sizes = out.shape[2:]  # from `padding` on, and zeros behind the last window
    result = framed(result, sizes, [-p for p in padding])
    return result + bias.reshape(-1, *(1,) * len(sizes)) if isinstance(bias, torch.Tensor) else result


def conv_weight(self, out, y, x, strides, padding, dilation, groups, **_window):
    if not floats(self, out, x, y):
        return NotImplemented
    dtype = self.tensor(out).dtype
    y, x = self.operand(y, dtype), self.operand(x, dtype)
    shape, none = out.shape, [0] * len(strides)
    x = framed(x, extent(shape[2:], strides, dilation, y.shape[2:]), padding)
    like = torch.empty(shape, dtype=dtype, device=x.device)
    return aten.convolution_backward(y, x, like, None, strides, none, dilation, False, none, groups, [False, True, False])[1]


# ---- pooling --------------------------------------------------------------------------------------------------------


def planes(x, spatial):
    """(1, planes, ...): the axes before the spatial ones as one."""
    return x.reshape(1, -1, *x.shape[x.ndim - spatial:])


def pooled_sizes(sizes, kernel, strides, padding, dilation, ceil):
    result = []
    for size, k, s, p, d in zip(sizes, kernel, strides, padding, dilation):
        n = -(-(size + 2 * p - (k - 1) * d - 1) // s) if ceil else (size + 2 * p - (k - 1) * d - 1) // s
        n += 1
        result.append(n - 1 if ceil and (n - 1) * s >= size + p else n)
    return result


def rounding(sizes, wanted, kernel, strides, padding, dilation):
    """PyTorch's ceil_mode for this number of windows; None: it has none."""
    if any(2 * p > k for p, k in zip(padding, kernel)):
        return None
    for ceil in (False, True):
        if pooled_sizes(sizes, kernel, strides, padding, dilation, ceil) == list(wanted):
            return ceil
    return None


def largest(x, wanted, kernel, strides, padding, dilation):
    """Flat positions of the largest elements of x (1, planes, ...), or None."""
    pool, adaptive = POOLS[len(kernel)]
    if not any(kernel):
        return adaptive(x, list(wanted), return_indices=True)[1]
    ceil = rounding(x.shape[2:], wanted, kernel, strides, padding, dilation) if all(kernel) else None
    if ceil is None:
        return None
    return pool(x, kernel, strides, padding, dilation, ceil_mode=ceil, return_indices=True)[1]


def max_pool_index(self, out, x, kernel, strides, padding, dilation, **_window):
    if x.dtype not in ('float32', 'float64') or not out.numel or not x.numel:
        return NotImplemented
    spatial = len(kernel)
    found = largest(planes(self.tensor(x), spatial), out.shape[-spatial:], kernel, strides, padding, dilation)
    return NotImplemented if found is None else found.reshape(out.shape)


def max_pool(self, out, a, x, kernel, strides, padding, dilation, **_window):
    if x.dtype not in ('float32', 'float64') or not out.numel or not x.numel:
        return NotImplemented
    spatial = len(kernel)
    found = largest(planes(self.tensor(x), spatial), out.shape[-spatial:], kernel, strides, padding, dilation)
    if found is None:
        return NotImplemented
    flat = planes(self.tensor(a), spatial).flatten(2)
    return flat.gather(2, found.flatten(2)).reshape(out.shape)


def max_pool_input(self, out, y, x, kernel, strides, padding, dilation, **_window):
    if x.dtype not in ('float32', 'float64') or not x.numel or not y.numel:
        return NotImplemented
    spatial = len(kernel)
    y, target = self.tensor(y), self.tensor(out)
    found = largest(planes(self.tensor(x), spatial), y.shape[-spatial:], kernel, strides, padding, dilation)
    if found is None:
        return NotImplemented
    flat = planes(target.zero_(), spatial).flatten(2)
    flat.scatter_add_(2, found.flatten(2), planes(y, spatial).flatten(2))
    return None


def averaged(x, wanted, kernel, strides, padding, divisor, count_padding):
    """Averages of x (1, planes, ...), or None."""
    if len(kernel) == 1:  # avg_pool1d takes no divisor
        result = averaged(x[:, :, None], (1, *wanted), (1, *kernel) if any(kernel) else (0, 0), (1, *strides), (0, *padding),
                          divisor, count_padding)
        return None if result is None else result[:, :, 0]
    pool, adaptive = AVERAGES[len(kernel)]
    if not any(kernel):
        return adaptive(x, list(wanted))
    ceil = rounding(x.shape[2:], wanted, kernel, strides, padding, (1,) * len(kernel)) if all(kernel) else None
    if ceil is None:
        return None
    return pool(x, kernel, strides, padding, ceil_mode=ceil, count_include_pad=count_padding, divisor_override=divisor or None)


def avg_pool(self, out, x, kernel, strides, padding, divisor, count_padding, **_window):
    if not floats(self, out, x):
        return NotImplemented
    x = planes(self.tensor(x), len(kernel))
    result = averaged(x, out.shape[-len(kernel):], kernel, strides, padding, divisor, count_padding)
    return NotImplemented if result is None else result.reshape(out.shape)


def avg_pool_input(self, out, y, kernel, strides, padding, divisor, count_padding, **_window):
    if not floats(self, out, y):
        return NotImplemented
    y, spatial = self.tensor(y), len(kernel)
    x = planes(torch.zeros(out.shape, dtype=y.dtype, device=y.device), spatial).requires_grad_()
    with torch.enable_grad():
        result = averaged(x, y.shape[-spatial:], kernel, strides, padding, divisor, count_padding)
    if result is None:
        return NotImplemented
    return torch.autograd.grad(result, x, planes(y, spatial))[0].reshape(out.shape)


# ---- windows as columns ---------------------------------------------------------------------------------------------


def im2col(self, out, x, kernel, strides, padding, dilation, size, **_window):
    if len(kernel) != 2 or not floats(self, out, x):
        return NotImplemented
    x = framed(self.tensor(x), extent(kernel, strides, dilation, size), padding)
    return F.unfold(x, kernel, dilation, 0, strides)


def col2im(self, out, columns, kernel, strides, padding, dilation, windows, **_window):
    if len(kernel) != 2 or not floats(self, out, columns):
        return NotImplemented
    lengths = extent(kernel, strides, dilation, windows)
    image = F.fold(self.tensor(columns), lengths, kernel, dilation, 0, strides)
    return framed(image, out.shape[2:], [-p for p in padding])


def install(engine, _dtypes):
    """Give the class a method for each row."""
    for name in ('attention attention_backward layer_norm layer_norm_backward layer_norm_backward_weight batch_moments batch_norm '
                 'batch_norm_backward batch_norm_backward_affine conv conv_input '
                 'conv_weight max_pool max_pool_index max_pool_input avg_pool avg_pool_input im2col col2im').split():
        setattr(engine, name, globals()[name])
