"""NumPy's functions for the rows of the op table that compute elementwise or along axes.

A method gets the engine, the result's view and the operands, and returns an array, which is converted and stored.
NotImplemented leaves the call to the `reference` engine.
"""

import math

import numpy as np

# ---- elementwise ----------------------------------------------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def clamped(x, low, high):
    return np.minimum(np.maximum(x, low), high)


def signs(x):
    return (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype) if x.dtype != bool else x


def whole(function):
    """Rounding; integers are whole."""
    return lambda x: function(x) if x.dtype.kind == 'f' else x


def gate_slope(u, w):
    s = sigmoid(u)
    return s * (1 + w * (1 - s))


def mish_slope(x):
    s, t = sigmoid(x), np.tanh(np.log1p(np.exp(x)))
    return np.where(x > 100, 1, t + x * s * (1 - t * t))


def trunc_divide(x, y):
    if x.dtype.kind == 'f':
        return np.trunc(x.astype(np.float64) / y)
    quotient = np.floor_divide(x, y)
    return quotient + ((quotient * y != x) & ((x < 0) != (y < 0))).astype(x.dtype)


def power(x, y):
    if x.dtype.kind == 'c' or (x.dtype.kind in 'iub' and bool(np.any(y < 0))):
        return NotImplemented
    return np.power(x, y)


def log_product(logarithm):
    return lambda x, y: np.where(np.isnan(y), y, np.where(x == 0, 0, x * logarithm(y)))


def lerp(x, y, z):
    return np.where(np.abs(z) < 0.5, x + z * (y - x), y - (y - x) * (1 - z))


UNARY = {
    'neg': np.negative, 'abs': np.abs, 'sign': signs, 'sgn': signs, 'conj': lambda x: np.conjugate(x) if x.dtype.kind == 'c' else x, 'square': lambda x: x * x,
    'angle': lambda x: np.angle(x) if x.dtype.kind == 'c' else np.where(np.isnan(x), x, np.where(x < 0, np.pi, 0)),
    'sqrt': np.sqrt, 'rsqrt': lambda x: 1 / np.sqrt(x), 'reciprocal': lambda x: 1 / x,
    'exp': np.exp, 'exp2': np.exp2, 'expm1': np.expm1, 'log': np.log, 'log2': np.log2, 'log10': np.log10, 'log1p': np.log1p,
    'sin': np.sin, 'cos': np.cos, 'tan': np.tan, 'asin': np.arcsin, 'acos': np.arccos, 'atan': np.arctan,
    'sinh': np.sinh, 'cosh': np.cosh, 'tanh': np.tanh, 'asinh': np.arcsinh, 'acosh': np.arccosh, 'atanh': np.arctanh,
    'sinc': np.sinc, 'floor': whole(np.floor), 'ceil': whole(np.ceil), 'round': whole(np.rint), 'trunc': whole(np.trunc),
    'frac': lambda x: x - np.trunc(x), 'isnan': np.isnan, 'isinf': np.isinf, 'isfinite': np.isfinite,
    'logical_not': np.logical_not, 'bitwise_not': np.invert,
    'sigmoid': sigmoid, 'logsigmoid': lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))),
    'relu': lambda x: np.where(x <= 0, 0, x), 'relu6': lambda x: clamped(x, 0, 6),
    'gelu_tanh': lambda x: x * sigmoid(x * (x * x * 0.07135481627260025 + 1.5957691216057308)),
    'silu': lambda x: x / (1 + np.exp(-x)), 'softplus': lambda x: np.where(x > 20, x, np.log1p(np.exp(np.minimum(x, 20)))),
    'softsign': lambda x: x / (1 + np.abs(x)), 'mish': lambda x: x * np.tanh(np.log1p(np.exp(x))),
    'selu': lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0))),
    'hardsigmoid': lambda x: clamped(x + 3, 0, 6) / 6, 'hardswish': lambda x: x * clamped(x + 3, 0, 6) / 6,
}

BINARY = {
    'add': np.add, 'sub': np.subtract, 'mul': np.multiply, 'div': np.true_divide, 'pow': power,
    'maximum': np.maximum, 'minimum': np.minimum, 'remainder': np.remainder, 'fmod': np.fmod, 'floor_divide': np.floor_divide,
    'trunc_divide': trunc_divide, 'atan2': np.arctan2, 'hypot': np.hypot, 'copysign': np.copysign,
    'logaddexp': np.logaddexp, 'logaddexp2': np.logaddexp2,
    'heaviside': lambda x, y: np.where(x == 0, y, (x > 0).astype(y.dtype)), 'gcd': np.gcd, 'lcm': np.lcm,
    'eq': np.equal, 'ne': np.not_equal, 'lt': np.less, 'le': np.less_equal, 'gt': np.greater, 'ge': np.greater_equal,
    'logical_and': np.logical_and, 'logical_or': np.logical_or, 'logical_xor': np.logical_xor,
    'bitwise_and': np.bitwise_and, 'bitwise_or': np.bitwise_or, 'bitwise_xor': np.bitwise_xor,
    'bitwise_left_shift': np.left_shift, 'bitwise_right_shift': np.right_shift,
    'xlogy': log_product(np.log), 'xlog1py': log_product(np.log1p),
    'relu_backward': lambda g, y: np.where(y <= 0, 0, g), 'tanh_backward': lambda g, y: g * (1 - y * y),
    'sigmoid_backward': lambda g, y: g * (1 - y) * y,
    'gelu_tanh_backward': lambda g, x: g * gate_slope(x * (x * x * 0.07135481627260025 + 1.5957691216057308),
                                                      x * (x * x * 0.21406444881780073 + 1.5957691216057308)),
    'silu_backward': lambda g, x: g * gate_slope(x, x), 'softplus_backward': lambda g, x: np.where(x > 20, g, g / (1 + np.exp(-x))),
    'logsigmoid_backward': lambda g, x: g / (1 + np.exp(x)), 'mish_backward': lambda g, x: g * mish_slope(x),
    'hardsigmoid_backward': lambda g, x: np.where(np.abs(x) < 3, g / 6, 0),
    'hardswish_backward': lambda g, x: np.where(x <= -3, 0, np.where(x >= 3, g, g * (x / 3 + 0.5))),
}

TERNARY = {'where': lambda c, x, y: np.where(c != 0, x, y), 'lerp': lerp}

# With the numbers p and q, of the dtype that is computed in.
NUMBERED = {
    'hardtanh': clamped, 'clamp': clamped,
    'leaky_relu': lambda x, p, q: np.where(x > 0, x, x * p),
    'elu': lambda x, p, q: np.where(x > 0, x, p * np.expm1(np.minimum(x, 0) * q)),
    'clamp_backward': lambda g, x, p, q: np.where((x >= p) & (x <= q), g, 0),
    'hardtanh_backward': lambda g, x, p, q: np.where((x > p) & (x < q), g, 0),
    'leaky_relu_backward': lambda g, x, p, q: np.where(x > 0, g, g * p),
    'elu_backward': lambda g, x, p, q: np.where(x > 0, g, g * p * q * np.exp(np.minimum(x, 0) * q)),
}

DIVISIONS = ('remainder', 'floor_divide', 'fmod', 'trunc_divide')
REAL_ONLY = ('sgn', 'log1p', 'expm1', 'sinc', 'div', 'reciprocal', 'lerp', 'sigmoid', 'asin', 'acos', 'atan', 'asinh', 'acosh',
             'atanh', 'tan', 'tanh', 'log2', 'exp2')  # complex ones follow C's rules for infinities in the reference engine


def is_exact(name, position, value):
    """Whether a number stays as it is among halves: gt__number_dtype in src/engines/engine.h."""
    literal = isinstance(value, (bool, int, float))
    if name == 'mul':
        return position == 1 or literal
    return position == 2 and literal if name == 'lerp' else position == 1 and name in ('div', 'floor_divide', 'trunc_divide')


def elementwise(name, function):
    def method(self, out, *operands, compute):
        if compute.startswith('complex') and name in REAL_ONLY:
            return NotImplemented
        values = [self.operand(value, compute, is_exact(name, k, value)) for k, value in enumerate(operands)]
        if name in DIVISIONS and values[0].dtype.kind != 'f' and not values[1].all():
            return NotImplemented  # the reference engine has the words
        return function(*values)
    return method


def direct(name, function):
    """A ufunc: it writes into the result itself, where the dtypes allow."""
    indirect = elementwise(name, function)

    def method(self, out, *operands, compute):
        if out.dtype != compute or compute in ('float16', 'bfloat16') or name in DIVISIONS or name in REAL_ONLY:
            return indirect(self, out, *operands, compute=compute)
        function(*[self.operand(value, compute) for value in operands], out=np.asarray(out))
        return None
    return method


def saturated(number, dtype):
    limits = np.iinfo(np.int64 if dtype == np.int64 else np.int32)
    return limits.max if number >= limits.max else limits.min if number <= limits.min else int(number)


def numbered(function):
    def method(self, out, *operands, compute, p, q):
        values = [self.operand(value, compute) for value in operands]
        dtype = values[0].dtype
        if dtype.kind == 'b' or (dtype.kind != 'f' and (math.isnan(p) or math.isnan(q))):
            return NotImplemented
        if dtype.kind in 'iu':
            wide = [value.astype(np.int64) for value in values]
            return function(*wide, saturated(p, dtype), saturated(q, dtype))
        return function(*values, dtype.type(p), dtype.type(q))
    return method


# ---- reductions -----------------------------------------------------------------------------------------------------


def exact(x):
    """Floats in double precision, for sums."""
    return x.astype(np.complex128 if x.dtype.kind == 'c' else np.float64) if x.dtype.kind in 'fc' else x


def accumulated(function):
    def method(self, out, x, axes, keepdim):
        x = exact(self.array(x))
        return function(x, axis=axes, keepdims=keepdim, dtype=x.dtype if x.dtype.kind in 'fc' else np.int64)
    return method


def mean(self, out, x, axes, keepdim):
    x = exact(self.array(x))
    count = math.prod(x.shape[axis] for axis in axes)
    total = np.sum(x, axis=axes, keepdims=keepdim, dtype=x.dtype if x.dtype.kind in 'fc' else np.float64)
    return np.true_divide(total, count)


def var(self, out, x, axes, keepdim, correction):
    x = self.array(x).astype(np.float64)
    count = math.prod(x.shape[axis] for axis in axes)
    distance = x - np.true_divide(np.sum(x, axis=axes, keepdims=True), count)
    return np.true_divide(np.sum(distance * distance, axis=axes, keepdims=keepdim), max(count - correction, 0))


def reduced(function):
    def method(self, out, x, axes, keepdim):
        return function(self.array(x), axis=axes, keepdims=keepdim)
    return method


def logsumexp(self, out, x, axes, keepdim):
    x = self.array(x).astype(np.float64)
    if not x.size:
        return NotImplemented
    most = np.max(x, axis=axes, keepdims=True)
    total = np.where(np.isfinite(most), most + np.log(np.sum(np.exp(x - most), axis=axes, keepdims=True)), most)
    return total.reshape(out.shape)


def norm(self, out, x, axes, keepdim, p):
    x = np.abs(self.array(x)).astype(np.float64)
    if math.isinf(p):
        extreme = np.max if p > 0 else np.min
        return extreme(x, axis=axes, keepdims=keepdim, initial=0.0 if p > 0 else np.inf)
    if p == 0:
        return np.sum(x != 0, axis=axes, keepdims=keepdim)
    return np.sum(x**p, axis=axes, keepdims=keepdim)**(1 / p)


def position(function):
    def method(self, out, x, axis, keepdim):
        x = self.array(x)
        return function(x, axis=axis if x.ndim else None).reshape(out.shape)
    return method


# ---- lines ----------------------------------------------------------------------------------------------------------


def scan(function):
    def method(self, out, x, axis):
        x = exact(self.array(x)).reshape(x.shape or (1,))
        return function(x, axis=axis, dtype=x.dtype if x.dtype.kind in 'fc' else np.int64).reshape(out.shape)
    return method


def logcumsumexp(self, out, x, axis):
    x = self.array(x).astype(np.float64).reshape(x.shape or (1,))
    return np.logaddexp.accumulate(x, axis=axis).reshape(out.shape)


def extreme_position(function):
    def method(self, out, x, axis):
        x = self.array(x).reshape(x.shape or (1,))
        if x.dtype.kind == 'f' and np.isnan(x).any():
            return NotImplemented
        places = np.arange(x.shape[axis]).reshape([-1 if k == axis else 1 for k in range(x.ndim)])
        found = np.where(x == function.accumulate(x, axis=axis), places, 0)
        return np.maximum.accumulate(found, axis=axis).reshape(out.shape)
    return method


def softmax(logarithm):
    def method(self, out, x, axis):
        x = self.array(x).astype(np.float64).reshape(x.shape or (1,))
        if not x.size:
            return x.reshape(out.shape)
        x = x - np.max(x, axis=axis, keepdims=True)
        total = np.sum(np.exp(x), axis=axis, keepdims=True)
        return (x - np.log(total) if logarithm else np.exp(x) / total).reshape(out.shape)
    return method


def softmax_backward(self, out, g, y, axis):
    g, y = (self.array(v).astype(np.float64).reshape(v.shape or (1,)) for v in (g, y))
    return (y * (g - np.sum(g * y, axis=axis, keepdims=True))).reshape(out.shape)


def log_softmax_backward(self, out, g, y, axis):
    g, y = (self.array(v).astype(np.float64).reshape(v.shape or (1,)) for v in (g, y))
    return (g - np.exp(y) * np.sum(g, axis=axis, keepdims=True)).reshape(out.shape)


METHODS = {name: (direct if isinstance(function, np.ufunc) else elementwise)(name, function)
           for name, function in (UNARY | BINARY | TERNARY).items()}
METHODS |= {name: numbered(function) for name, function in NUMBERED.items()}
METHODS |= {
    'sum': accumulated(np.sum), 'prod': accumulated(np.prod), 'mean': mean, 'var': var, 'logsumexp': logsumexp, 'norm': norm,
    'amax': reduced(np.max), 'amin': reduced(np.min), 'any': reduced(np.any), 'all': reduced(np.all),
    'argmax': position(np.argmax), 'argmin': position(np.argmin),
    'cumsum': scan(np.cumsum), 'cumprod': scan(np.cumprod), 'logcumsumexp': logcumsumexp,
    'cummax': extreme_position(np.maximum), 'cummin': extreme_position(np.minimum),
    'softmax': softmax(False), 'log_softmax': softmax(True), 'softmax_backward': softmax_backward,
    'log_softmax_backward': log_softmax_backward,
}
