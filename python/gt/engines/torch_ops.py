"""PyTorch's functions for the rows of the op table: elementwise, reductions, products, linear algebra, movement, indexing.

A function here gets the engine, the result's view and the operands. It writes the result or returns a tensor, which is copied;
NotImplemented leaves the call to the `reference` engine, which also has the words for indices out of range.
"""

import math

import torch
from torch.nn import functional as F

HALVES = (torch.float16, torch.bfloat16)

# Rows whose function takes out=. The name in PyTorch, where it is another.
DIRECT = {name: getattr(torch, name) for name in """
    neg abs sign sgn square sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh
    asinh acosh atanh sinc erf erfc erfinv floor ceil round trunc frac logical_not bitwise_not sigmoid lgamma digamma i0
    add sub mul maximum minimum fmod atan2 hypot copysign logaddexp logaddexp2 heaviside gcd lcm eq ne lt le gt ge
    logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift
    xlogy igamma igammac""".split()}
DIRECT |= {name: getattr(torch.special, name) for name in
           'erfcx ndtri log_ndtr i1 i1e entr xlog1py zeta'.split()}
DIRECT |= {'angle': torch.angle, 'conj': torch.conj_physical, 'div': torch.true_divide, 'remainder': torch.remainder,
           'floor_divide': torch.floor_divide, 'pow': torch.pow}

# Rows whose function returns the result.
RETURNED = {
    'isnan': torch.isnan, 'isinf': torch.isinf, 'isfinite': torch.isfinite,
    'logsigmoid': F.logsigmoid, 'relu': torch.relu, 'relu6': F.relu6, 'silu': F.silu, 'softplus': F.softplus,
    'softsign': F.softsign, 'mish': F.mish, 'selu': torch.selu, 'hardsigmoid': F.hardsigmoid, 'hardswish': F.hardswish,
    'gelu': lambda x: F.gelu(x).masked_fill_(x == torch.inf, torch.inf),  # oneDNN with AVX-512 has nan there
    'gelu_tanh': lambda x: F.gelu(x, approximate='tanh'),
    'trunc_divide': lambda x, y: torch.div(precise(x), precise(y), rounding_mode='trunc'),
    'where': lambda c, x, y: torch.where(c != 0, x, y),
    'ndtr': lambda x: torch.special.ndtr(wide(x)),
    'i0e': lambda x: torch.special.i0e(wide(x)),
    'frexp_mantissa': lambda x: torch.frexp(x)[0],
    'frexp_exponent': lambda x: torch.frexp(x)[1],
}

# Rows with the numbers p and q.
NUMBERED = {
    'hardtanh': lambda x, p, q: bounded(x, p, q),
    'clamp': lambda x, p, q: bounded(x, p, q),
    'leaky_relu': lambda x, p, q: F.leaky_relu(x, p),
    'elu': lambda x, p, q: torch.ops.aten.elu(x, p, 1, q),
    'logit': lambda x, p, q: torch.logit(wide(x), p if p >= 0 else None),
    'polygamma': lambda x, p, q: torch.polygamma(int(p), precise(x)),
    'hardtanh_backward': lambda g, x, p, q: torch.where((x > p) & (x < q), g, 0),
    'clamp_backward': lambda g, x, p, q: torch.where((x >= p) & (x <= q), g, 0),
    'leaky_relu_backward': lambda g, x, p, q: torch.where(x > 0, g, g * p),
}

# Gradients in one step: g is that of the result; y the result (relu, tanh, sigmoid), x the operand.
BACKWARD = {
    'relu_backward': lambda g, y: torch.where(y <= 0, 0, g),
    'tanh_backward': torch.ops.aten.tanh_backward,
    'sigmoid_backward': torch.ops.aten.sigmoid_backward,
    'gelu_backward': lambda g, x: gelu_backward(wide(g), wide(x)),
    'gelu_tanh_backward': lambda g, x: gelu_tanh_backward(wide(g), wide(x)),
    'silu_backward': torch.ops.aten.silu_backward,
    'mish_backward': torch.ops.aten.mish_backward,
    'hardsigmoid_backward': lambda g, x: torch.where(x.abs() < 3, g / 6, 0),  # PyTorch's 1/6 is a float32
    'softplus_backward': lambda g, x: torch.ops.aten.softplus_backward(g, x, 1, 20),
}

DIVISIONS = ('remainder', 'floor_divide', 'fmod', 'trunc_divide')


def bounded(x, low, high):
    """clamp with infinite bounds for none, and integer ones for integers, saturated like those of the other engines."""
    if x.dtype is torch.bool:
        return NotImplemented
    if not x.is_floating_point():
        if math.isnan(low) or math.isnan(high):
            return NotImplemented
        most = 2**63 - 1 if x.dtype is torch.int64 else 2**31 - 1
        low, high = (max(min(int(bound), most), -most - 1) if math.isfinite(bound) else None if bound * sign > 0 else bound
                     for bound, sign in ((low, -1), (high, 1)))
        if isinstance(low, float) or isinstance(high, float):
            return NotImplemented  # everything is clamped to infinity
        wide = x.long()
        return wide if low is None and high is None else torch.clamp(wide, low, high)
    return torch.clamp(x, low, high)


def wide(x):
    """Half-precision numbers in single precision, for results of several steps."""
    return x.float() if x.dtype in HALVES else x


def precise(x):
    """Floats in double precision, if the device has it: functions whose float32 version is less precise than GT's."""
    return x.double() if x.is_floating_point() and x.device.type != 'mps' else x


def gelu_backward(g, x):
    return g * (0.5 * (1 + torch.erf(x * 0.5**0.5)) + x * torch.exp(x * x * -0.5) * (2 * math.pi)**-0.5)


def gelu_tanh_backward(g, x):
    s = torch.sigmoid(x * (x * x * 0.07135481627260025 + 1.5957691216057308))
    return g * (s * (1 + x * (x * x * 0.21406444881780073 + 1.5957691216057308) * (1 - s)))


def divides_by_zero(name, y):
    """An integer division by zero is an error, which has its words in the reference engine."""
    if name not in DIVISIONS:
        return False
    return y == 0 if isinstance(y, (bool, int, float)) else not y.is_floating_point() and bool((y == 0).any())


def as_tensor(value, like):
    """A number as a tensor without axes; it wraps, where it does not fit."""
    dtype = torch.float64 if isinstance(value, float) else torch.int64
    return torch.tensor(value, dtype=dtype).to(like.device, like.dtype)


def as_tensors(name, values):
    """The operands, with tensors for the numbers that the function does not take."""
    if len(values) == 1 or all(isinstance(value, torch.Tensor) for value in values):
        return values
    like = next(value for value in values if isinstance(value, torch.Tensor))
    if name == 'mul':
        values = [like, *(value for value in values if value is not like)]
    if name in NUMBER_LAST and like is values[0]:
        return values
    return [value if isinstance(value, torch.Tensor) else as_tensor(value, like) for value in values]


def elementwise(name, function, dtypes, takes_out):
    def method(self, out, *operands, compute, **numbers):
        dtype = dtypes[compute]
        values = as_tensors(name, [self.operand(value, dtype) for value in operands])
        if len(values) == 2 and not dtype.is_floating_point and divides_by_zero(name, values[1]):
            return NotImplemented
        if takes_out and dtypes[out.dtype] is (torch.bool if name in PREDICATES else dtype):
            function(*values, **numbers, out=self.tensor(out))
            return None
        return function(*values, **numbers)
    return method


PREDICATES = frozenset('eq ne lt le gt ge logical_and logical_or logical_xor logical_not'.split())
NUMBER_LAST = frozenset('add sub mul div pow eq ne lt le gt ge'.split())


def lerp(self, out, start, end, weight, compute):
    dtype = self.tensor(out).dtype
    values = [self.operand(value, dtype) for value in (start, end)]
    return torch.lerp(*as_tensors('lerp', values), self.operand(weight, dtype))


# ---- reductions and lines -------------------------------------------------------------------------------------------


def reduction(function):
    """function(x, axes, keepdim) of x in the result's dtype."""
    def method(self, out, x, axes, keepdim):
        target = self.tensor(out)
        return function(self.operand(x, target.dtype), axes, keepdim)
    return method


def sum_(self, out, x, axes, keepdim):
    target = self.tensor(out)
    torch.sum(self.tensor(x), axes, keepdim=keepdim, dtype=target.dtype, out=target)


def prod(self, out, x, axes, keepdim):
    result = wide(self.operand(x, self.tensor(out).dtype))
    for axis in reversed(axes):
        result = torch.prod(result, axis, keepdim=keepdim, dtype=result.dtype)
    return result


def var(self, out, x, axes, keepdim, correction):
    x = self.operand(x, self.tensor(out).dtype)
    if math.prod(x.shape[axis] for axis in axes) - correction <= 0:
        return NotImplemented  # PyTorch warns
    return torch.var(x, axes, correction=correction, keepdim=keepdim)


def extreme(function):
    def method(self, out, x, axes, keepdim):
        return function(self.tensor(x), axes, keepdim)
    return method


def truth(function):
    def method(self, out, x, axes, keepdim):
        return function(self.tensor(x) != 0, axes, keepdim)
    return method


def norm(self, out, x, axes, keepdim, p):
    x = self.operand(x, self.tensor(out).dtype)
    return torch.linalg.vector_norm(x, p, axes, keepdim)


def position(function):
    def method(self, out, x, axis, keepdim):
        x = self.tensor(x)
        if x.dtype is torch.bool:
            x = x.to(torch.uint8)
        return function(x, axis, keepdim).reshape(out.shape)
    return method


def scan(function):
    def method(self, out, x, axis):
        target = self.tensor(out)
        return function(wide(self.operand(x, target.dtype)), axis)
    return method


def scan_position(function):
    def method(self, out, x, axis):
        return function(self.tensor(x), axis)[1]
    return method


def softmax(function):
    def method(self, out, x, axis):
        return function(wide(self.operand(x, self.tensor(out).dtype)), axis)
    return method


def softmax_backward(function):
    def method(self, out, g, y, axis):
        dtype = self.tensor(out).dtype
        return function(self.operand(g, dtype), self.operand(y, dtype), axis, dtype)
    return method


# ---- products and linear algebra ------------------------------------------------------------------------------------


def matmul(self, out, a, b):
    target = self.tensor(out)
    dtype = target.dtype
    if dtype is torch.bool or (self.device.type != 'cpu' and not dtype.is_floating_point and not dtype.is_complex):
        return NotImplemented
    a, b = self.operand(a, dtype), self.operand(b, dtype)
    if a.ndim < 2 or b.ndim < 2:
        return torch.matmul(a, b)
    torch.matmul(a, b, out=target)
    return None


def linear(self, out, a, b, bias):
    dtype = self.tensor(out).dtype
    return torch.nn.functional.linear(self.operand(a, dtype), self.operand(b, dtype).mT, self.operand(bias, dtype))


def fft(self, out, x, kind, axes, half, inverse, scale):
    x, target = self.tensor(x), self.tensor(out)
    others = tuple(axis for axis in axes if axis != half)
    if kind == 'complex':
        result = (torch.fft.ifftn(x, dim=axes, norm='forward') if inverse else torch.fft.fftn(x, dim=axes, norm='backward'))
    elif kind == 'real':
        result = torch.fft.rfftn(x, dim=(*others, half), norm='backward')
        result = result.conj() if inverse else result
    else:
        x = x if inverse else x.conj()
        result = torch.fft.irfftn(x, [target.shape[axis] for axis in (*others, half)], (*others, half), norm='forward')
    return result * scale


def factors(function):
    """A decomposition; a matrix that it refuses has its words in the reference engine."""
    def method(self, out, *operands, **attributes):
        values = [self.operand(value, None) if isinstance(value, (bool, int, float)) else self.tensor(value)
                  for value in operands]
        try:
            return function(*values, **attributes)
        except torch.linalg.LinAlgError:
            return NotImplemented
    return method


def rows(*parts):
    """The factors as rows of one matrix (core/linalg.h)."""
    return torch.cat([part if part.ndim > 1 else part[None] for part in parts], -2)


def cholesky(x, never_fail):
    return NotImplemented if never_fail else torch.linalg.cholesky(x)


def qr(x, vectors):
    if vectors == 'none':
        return NotImplemented
    q, r = torch.linalg.qr(x, 'complete' if vectors == 'full' else 'reduced')
    return rows(q, r.mT)


def svd(x, vectors):
    if vectors == 'full':
        return NotImplemented
    if vectors == 'none':
        return torch.linalg.svdvals(x)[..., None, :]
    u, s, vh = torch.linalg.svd(x, full_matrices=False)
    return rows(u, s[..., None, :], vh.mT)


def eigh(x, vectors, upper):
    uplo = 'U' if upper else 'L'
    if vectors == 'none':
        return torch.linalg.eigvalsh(x, uplo)[..., None, :]
    w, v = torch.linalg.eigh(x, uplo)
    return rows(w[..., None, :], v)


def solve(a, b, **_attributes):
    return torch.linalg.solve(a, b) if a.ndim == b.ndim else NotImplemented


def solve_triangular(a, b, upper, unit):
    return torch.linalg.solve_triangular(a, b, upper=upper, unitriangular=unit) if a.ndim == b.ndim else NotImplemented


# ---- movement and indexing ------------------------------------------------------------------------------------------


def copy(self, out, x):
    return self.tensor(x).reshape(out.shape)


def cat(self, out, *parts, axis):
    target = self.tensor(out)
    torch.cat([self.operand(part, target.dtype) for part in parts], axis, out=target)


def triangle(function):
    def method(self, out, x, diagonal):
        return function(self.tensor(x), diagonal)
    return method


def indices(self, view, low, size):
    """The indices as int64, or None if one is out of range."""
    index = self.tensor(view).long()
    if index.numel() and not (int(index.min()) >= low and int(index.max()) < size):
        return None
    return index


def wrapped_index(index, size):
    return torch.where(index < 0, index + size, index)


def wrap_index(self, out, index, size, axis):
    index = indices(self, index, -size, size)
    return NotImplemented if index is None else wrapped_index(index, size)


def take(self, out, x, index, axis, negative):
    size = x.shape[axis]
    index = indices(self, index, -size if negative else 0, size)
    if index is None:
        return NotImplemented
    return self.tensor(x).index_select(axis, wrapped_index(index, size).flatten()).reshape(out.shape)


def gather(self, out, x, index, axis):
    index = indices(self, index, 0, x.shape[axis])
    return NotImplemented if index is None else torch.gather(self.tensor(x), axis, index)


def base_of(self, out, x):
    """The result, with the contents of an operand that may be its own memory."""
    target = self.tensor(out)
    same = out.address == x.address if self.host_memory else (out.memory is x.memory and out.offset == x.offset)
    return target if same else target.copy_(self.tensor(x))


def scattered(self, out, x, index, source, axis, write):
    index = indices(self, index, 0, out.shape[axis])
    if index is None:
        return NotImplemented
    target = base_of(self, out, x)
    source = self.operand(source, target.dtype)
    if not isinstance(source, torch.Tensor):
        source = torch.tensor(source, dtype=target.dtype, device=target.device)
    write(target, index, source if source.ndim else source.expand(index.shape))
    return None


def scatter(self, out, x, index, source, axis):
    return scattered(self, out, x, index, source, axis, lambda t, i, s: t.scatter_(axis, i, s))


def scatter_add(self, out, x, index, source, axis):
    return scattered(self, out, x, index, source, axis, lambda t, i, s: t.scatter_add_(axis, i, s))


def scatter_reduce(self, out, x, index, source, axis, reduce, include_self):
    if out.dtype == 'bool':
        return NotImplemented
    return scattered(self, out, x, index, source, axis,
                     lambda t, i, s: t.scatter_reduce_(axis, i, s, reduce, include_self=include_self))


def assign(self, out, x, source, start, step, count):
    target = base_of(self, out, x)
    source = self.operand(source, target.dtype)
    flipped = [axis for axis in range(target.ndim) if step[axis] < 0 and count[axis] > 1]
    place = []
    for first, by, n in zip(start, step, count):
        low, by = (first + (n - 1) * by, -by) if by < 0 and n > 1 else (first, max(by, 1))
        place.append(slice(low, low + (n - 1) * by + 1 if n else low, by))
    if not isinstance(source, torch.Tensor):
        target[tuple(place)] = source
    elif flipped:
        target[tuple(place)] = source.expand(count).flip(flipped)
    else:
        target[tuple(place)] = source


def mask_index(self, out, mask, count):
    found = self.tensor(mask).flatten().nonzero().flatten()
    return found if found.numel() == count else NotImplemented


def argsort(self, out, x, axis, descending):
    return torch.sort(self.tensor(x), dim=axis, descending=descending, stable=True)[1]


def topk(self, out, x, axis, k, largest):
    x = self.tensor(x)
    return torch.sort(x, dim=axis, descending=largest, stable=True)[1].narrow(axis, 0, k) if x.ndim else torch.zeros((), dtype=torch.int64)


def searchsorted(self, out, sequence, values, right):
    if isinstance(values, (bool, int, float)):
        return NotImplemented
    sequence = self.tensor(sequence).contiguous()
    return torch.searchsorted(sequence, self.tensor(values).contiguous(), right=right)


# ---- creation -------------------------------------------------------------------------------------------------------


def full(self, out, value):
    self.tensor(out).fill_(value)


def arange(self, out, start, step, first):
    dtype = torch.float64 if isinstance(start, float) else torch.int64
    if self.device.type == 'mps' and dtype is torch.float64:
        return NotImplemented
    return torch.arange(first, first + out.numel, dtype=dtype, device=self.device) * step + start


def eye(self, out, column):
    target = self.tensor(out).zero_()
    if column < target.shape[1] and -column < target.shape[0]:
        target.diagonal(column).fill_(1)


def install(engine, dtypes):
    """Give the class a method for each row."""
    methods = {name: elementwise(name, function, dtypes, True) for name, function in DIRECT.items()}
    methods |= {name: elementwise(name, function, dtypes, False) for name, function in (RETURNED | NUMBERED | BACKWARD).items()}
    methods |= {name: globals()[name] for name in (
        'lerp prod var norm matmul linear fft copy cat wrap_index take gather scatter scatter_add scatter_reduce assign mask_index '
        'argsort topk searchsorted full arange eye').split()}
    methods |= {
        'sum': sum_, 'mean': reduction(torch.mean), 'logsumexp': reduction(torch.logsumexp),
        'amax': extreme(torch.amax), 'amin': extreme(torch.amin), 'any': truth(torch.any), 'all': truth(torch.all),
        'argmax': position(torch.argmax), 'argmin': position(torch.argmin),
        'cumsum': scan(torch.cumsum), 'cumprod': scan(torch.cumprod), 'logcumsumexp': scan(torch.logcumsumexp),
        'cummax': scan_position(torch.cummax), 'cummin': scan_position(torch.cummin),
        'softmax': softmax(torch.softmax), 'log_softmax': softmax(torch.log_softmax),
        'softmax_backward': softmax_backward(torch.ops.aten._softmax_backward_data),
        'log_softmax_backward': softmax_backward(torch.ops.aten._log_softmax_backward_data),
        'inverse': factors(torch.linalg.inv), 'det': factors(torch.linalg.det),
        'slogdet': factors(lambda x: torch.stack(torch.linalg.slogdet(x), -1)),
        'cholesky': factors(cholesky), 'qr': factors(qr), 'svd': factors(svd), 'eigh': factors(eigh),
        'solve': factors(solve), 'solve_triangular': factors(solve_triangular),
        'reshape': copy, 'cast': copy, 'tril': triangle(torch.tril), 'triu': triangle(torch.triu),
    }
    for name, method in methods.items():
        setattr(engine, name, method)
