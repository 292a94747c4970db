"""Names of PyTorch's top level that scripts use rarely, and what to say of those that GT does not have."""

import re as _re

from gt import _gt
from gt.client.registry import function


@function
def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False):
    """frombuffer(buffer, dtype): a 1-d tensor of the bytes of a buffer, from an offset on; a copy."""
    view = memoryview(buffer).cast('B')
    if offset < 0 or offset >= len(view):
        raise ValueError(f'offset ({offset} bytes) must be non-negative and no greater than buffer length ({len(view)} bytes) minus 1')
    count = (len(view) - offset) // dtype.itemsize if count < 0 else count
    if count == 0 or offset + count * dtype.itemsize > len(view):
        raise ValueError(f'requested buffer length ({count} * {dtype.itemsize} bytes) after offset ({offset} bytes) must not be '
                         f'greater than actual buffer length ({len(view)} bytes)')
    return _gt._rebuild(view[offset:offset + count * dtype.itemsize], dtype, (count,), requires_grad)


# Functions whose first parameter is not called input in PyTorch.


@function
def cdist(x1, x2, p=2.0, compute_mode='use_mm_for_euclid_dist_if_necessary'):
    """cdist(x1, x2, p=2): the p-norm distance of each pair of rows: (..., P, M) and (..., R, M) give (..., P, R)."""
    return x1.cdist(x2, p, compute_mode)


@function
def lu(A, pivot=True, get_infos=False):
    """lu(A): (LU, pivots) of linalg.lu_factor, with get_infos also info."""
    return A.lu(pivot, get_infos)


@function
def split(tensor, split_size_or_sections, dim=0):
    """split(tensor, size, dim=0) or split(tensor, [sizes], dim=0): a tuple of consecutive pieces."""
    return tensor.split(split_size_or_sections, dim)


@function
def searchsorted(sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None):
    """searchsorted(sorted_sequence, input, right=False): where each value would go in the sorted last dimension."""
    return sorted_sequence.searchsorted(input, out_int32=out_int32, right=right, side=side, sorter=sorter)


@function
def get_device(input):
    """get_device(input): 0 if a worker has a GPU, else -1."""
    return input.get_device()


@function
def get_device_module(device=None):
    """get_device_module(device=None): gt.cuda, gt.mps or gt.xpu, by the type of a device."""
    import importlib
    from gt.client.device import device as kind, of_tensors
    name = (of_tensors() if device is None else kind(device)).type
    if name not in ('cuda', 'mps', 'xpu'):
        raise RuntimeError(f'Device {name!r} does not have a corresponding module registered as gt.{name}')
    return importlib.import_module('gt.' + name)


@function
def to_dlpack(tensor):
    """to_dlpack(tensor): a DLPack capsule of the elements, in host memory; waits for them."""
    return tensor.__dlpack__()


@function
def frobenius_norm(input, dim, keepdim=False):
    """frobenius_norm(input, dim, keepdim=False): the root of the sum of squares over dimensions."""
    from gt import linalg
    return linalg.vector_norm(input, 2, dim if dim != [] else None, keepdim)


@function
def nuclear_norm(input, dim=None, keepdim=False):
    """nuclear_norm(input, dim=None, keepdim=False): the sum of the singular values of a matrix, or of two dimensions."""
    from gt import linalg
    return linalg.matrix_norm(input, 'nuc', (-2, -1) if dim is None else dim, keepdim)


@function
def norm_except_dim(v, pow=2, dim=0):
    """norm_except_dim(v, pow=2, dim=0): norms over all dimensions but one."""
    if dim == -1:
        return v.norm(pow)
    return v.norm(pow, [axis for axis in range(v.ndim) if axis != dim % v.ndim], keepdim=True)


@function
def set_anomaly_enabled(enabled, check_nan=True):
    """set_anomaly_enabled(enabled): set_detect_anomaly of gt.autograd."""
    from gt import autograd
    autograd.set_detect_anomaly(enabled, check_nan)


class SymInt:
    """Sizes are ints here: no object is one."""


class SymFloat(SymInt):
    """Numbers are floats here: no object is one."""


class SymBool(SymInt):
    """Conditions are bools here: no object is one."""


VALUES = {'newaxis': None, 'SymInt': SymInt, 'SymFloat': SymFloat, 'SymBool': SymBool, 'OutOfMemoryError': _gt.OutOfMemoryError}

# What an AttributeError says of a name that GT does not have: how the name begins, and the advice.
_ADVICE = (
    (r'uint(16|32|64)$', 'of the unsigned integers GT has uint8 only; use int32 or int64'),
    (r'u?int[1-7]$|bits', 'GT has no integers narrower than 8 bits'),
    (r'float[48]_', 'GT has no floats narrower than 16 bits; use bfloat16 or float16'),
    (r'complex32$|chalf$', 'use complex64'),
    (r'q_|qu?int|quantize|qscheme|fake_quantize|per_(tensor|channel)_|ao$|dequantize|int_repr', 'GT has no quantised dtypes'),
    (r'sparse_(csr|csc|bsr|bsc|compressed)', 'use sparse_coo_tensor'),
    (r'(\w*S|untyped_s|s)torage$|data_ptr$', 'the memory of tensors belongs to the workers'),
    (r'(fx|export|onnx|package|library|ops|classes)$', 'GT has no graphs of programs; gt.compile marks hot paths'),
    (r'nested$|jagged$', 'pad sequences with gt.nn.utils.rnn.pad_sequence'),
    (r'default_generator$', 'use gt.manual_seed, gt.get_rng_state and gt.set_rng_state'),
    (r'(eig|symeig|lstsq|solve|matrix_rank)$', 'use the function of gt.linalg, as in PyTorch'))


def missing(holder, name):
    """The text of the AttributeError for a name that does not exist."""
    text = f"{holder} has no attribute '{name}'"
    return next((f'{text}: {advice}' for start, advice in _ADVICE if _re.match(start, name)), text)
