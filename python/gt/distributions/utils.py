"""Helpers of the distributions: broadcasting of parameters, probabilities and logits, properties that are computed once."""

import functools
import numbers

import gt
from gt import Tensor

euler_constant = 0.57721566490153286060
_EPS = {gt.float64: 2.220446049250313e-16, gt.float32: 1.1920928955078125e-07, gt.float16: 0.0009765625, gt.bfloat16: 0.0078125}
_TINY = {gt.float64: 2.2250738585072014e-308, gt.float32: 1.1754943508222875e-38, gt.float16: 6.103515625e-05,
         gt.bfloat16: 1.1754943508222875e-38}


def eps_of(dtype):
    """The distance from 1 to the next number of a dtype."""
    return _EPS[dtype]


def tiny_of(dtype):
    """The smallest normal number of a dtype."""
    return _TINY[dtype]


def broadcast_all(*values):
    """broadcast_all(*values): tensors of one shape. Numbers become tensors with the dtype of the tensors, or float32."""
    if not all(isinstance(v, (Tensor, numbers.Number)) for v in values):
        raise ValueError('Input arguments must all be instances of Number, torch.Tensor or objects implementing '
                         '__torch_function__.')
    tensors = [v for v in values if isinstance(v, Tensor)]
    dtype = tensors[0].dtype if tensors else gt.get_default_dtype() if hasattr(gt, 'get_default_dtype') else gt.float32
    if not all(isinstance(v, Tensor) for v in values):
        values = [v if isinstance(v, Tensor) else gt.tensor(v, dtype=dtype) for v in values]
    if len(values) == 1 or all(v.shape == values[0].shape for v in values):
        return list(values)
    return list(gt.broadcast_tensors(*values))


def standard_normal(shape, dtype):
    """Normal numbers with mean 0 and variance 1."""
    return gt.randn(shape, dtype=dtype)


def rand_open(shape, dtype):
    """Uniform numbers that are never 0."""
    return gt.rand(shape, dtype=dtype).clamp(min=tiny_of(dtype))


def clamp_probs(probs):
    """clamp_probs(probs): kept away from 0 and 1 by the dtype's precision."""
    eps = eps_of(probs.dtype)
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits, is_binary=False):
    """logits_to_probs(logits, is_binary=False): the sigmoid, or the softmax over the last dimension."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def probs_to_logits(probs, is_binary=False):
    """probs_to_logits(probs, is_binary=False): the log-odds, or the logarithm."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


def sum_rightmost(value, dim):
    """The sum over the last dimensions."""
    return value if dim == 0 else value.reshape(*value.shape[:value.ndim - dim], -1).sum(-1)


class lazy_property:
    """A property that is computed on first use and then kept."""

    def __init__(self, wrapped):
        self.wrapped = wrapped
        functools.update_wrapper(self, wrapped)

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        with gt.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def tril_matrix_to_vec(mat, diag=0):
    """tril_matrix_to_vec(mat, diag=0): the lower triangle of matrices, row by row."""
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ValueError(f'diag ({diag}) provided is outside [{-n}, {n - 1}].')
    places = [i * n + j for i in range(n) for j in range(n) if j <= i + diag]
    return mat.reshape(*mat.shape[:-2], n * n).index_select(-1, gt.tensor(places, dtype=gt.int64))


def vec_to_tril_matrix(vec, diag=0):
    """vec_to_tril_matrix(vec, diag=0): the matrices of tril_matrix_to_vec, with zeros above."""
    length = vec.shape[-1]
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * length + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if not abs(n - round(n)) < 1e-6:
        raise ValueError(f'The size of last dimension is {length} which cannot be expressed as the lower triangular part of '
                         'a square D x D matrix.')
    n = round(n)
    sources = {(i, j): k for k, (i, j) in enumerate((i, j) for i in range(n) for j in range(n) if j <= i + diag)}
    padded = gt.cat([vec, gt.zeros(*vec.shape[:-1], 1, dtype=vec.dtype)], -1)
    places = [sources.get((i, j), length) for i in range(n) for j in range(n)]
    return padded.index_select(-1, gt.tensor(places, dtype=gt.int64)).reshape(*vec.shape[:-1], n, n)
