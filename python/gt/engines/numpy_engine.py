"""The engine `numpy`: NumPy's functions on the worker's memory.

The ops are in numpy_ops.py (elementwise and along axes), numpy_moves.py (movement, indexing, linear algebra) and
numpy_layers.py. What NumPy has not (erf, gamma, random numbers by GT's definition, ...), and calls where NumPy and PyTorch
differ, are left to the `reference` engine.

NumPy has no bfloat16. Such a view comes as the bits in uint16; arithmetic converts them to float32 and rounds the result.
"""

import numpy as np

from gt import engines
from gt.engines import numpy_layers, numpy_moves, numpy_ops

# What a dtype is computed in. Halves are rounded once, at the end.
WORK = {name: np.dtype(name) for name in 'bool uint8 int8 int16 int32 int64 float32 float64 complex64 complex128'.split()}
WORK |= {'float16': np.dtype('float32'), 'bfloat16': np.dtype('float32')}


def widened(bits):
    """bfloat16 as float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def narrowed(x):
    """float32 as the bits of bfloat16, rounded to the nearest, ties to even. NaN stays NaN."""
    bits = np.ascontiguousarray(x, np.float32).reshape(np.shape(x)).view(np.uint32)
    rounded = (bits + (0x7fff + ((bits >> 16) & 1)).astype(np.uint32)) >> 16
    return np.where(np.isnan(x), np.uint32(0x7fc0), rounded).astype(np.uint16)


def fits(x, dtype):
    """Whether conversion of floats to these integers is the same everywhere."""
    limits = np.iinfo(dtype)
    return not x.size or bool((x > float(limits.min) - 1).all() and (x < float(limits.max) + 1).all())


class Engine(engines.Engine):
    """NumPy as an engine. `raw` and `array` make arrays of views."""

    def __init__(self, threads: int = 0):
        super().__init__(threads)
        np.seterr(all='ignore')  # of this thread: infinities and NaN are results

    def raw(self, view):
        """The elements on their memory; of bfloat16 the bits."""
        return np.asarray(view)

    def array(self, view):
        """The elements as numbers."""
        elements = np.asarray(view)
        return widened(elements) if view.dtype == 'bfloat16' else elements

    def operand(self, value, compute, exact=False):
        """A view or number, rounded to the dtype `compute`, in the dtype that it is computed in. exact: a single number is
        not rounded to a half."""
        if isinstance(value, (bool, int, float)):
            elements, dtype = np.asarray(value), None
        else:
            elements, dtype = self.array(value), value.dtype
        if dtype != compute and not (exact and elements.size == 1 and compute in ('float16', 'bfloat16')):
            elements = self.rounded(elements, compute)
        work = WORK[compute]
        return elements if elements.dtype == work else elements.astype(work)

    def rounded(self, elements, dtype):
        """Converted to a dtype; bfloat16 as float32."""
        if dtype == 'bfloat16':
            return widened(narrowed(elements.astype(np.float32)))
        return elements.astype(dtype)

    def stored(self, result, dtype):
        """As elements of a dtype, bfloat16 as bits. NotImplemented: NumPy's conversion is not PyTorch's."""
        result = np.asarray(result)
        if dtype == 'bfloat16':
            return narrowed(result.real.astype(np.float32))
        kind = np.dtype(dtype).kind
        if result.dtype.kind == 'c' and kind != 'c':
            result = result != 0 if kind == 'b' else result.real
        if result.dtype.kind == 'f' and kind in 'iu' and not fits(result, dtype):
            return NotImplemented
        return result

    def store(self, out, result):
        result = self.stored(result, out.dtype)
        if result is NotImplemented:
            raise NotImplementedError(f'a float does not fit into {out.dtype}')
        np.copyto(np.asarray(out), result, casting='unsafe')


for module in (numpy_ops, numpy_moves, numpy_layers):
    for name, method in module.METHODS.items():
        setattr(Engine, name, method)
