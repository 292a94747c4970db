"""A complete engine in Python: a few ops with NumPy, all others on GT's reference engine. Run a program on it with

    PYTHONPATH=examples/engines GT_BACKEND=tiny python your_script.py

or a worker of its own with `PYTHONPATH=examples/engines python -m gt.worker --backend tiny`. A module gt_engine_NAME with a
class Engine is the engine NAME. docs/engines.md explains the interface.
"""

import numpy as np

import gt

NUMPY = {'float32', 'float64', 'int32', 'int64'}  # dtypes that these methods take; the others are left to the reference engine


class Engine(gt.engines.Engine):
    """A method has the name of an op: its result, its operands, and what else the instruction says, by name."""

    def __init__(self, threads):
        super().__init__(threads)
        self.calls = 0

    def elementwise(self, function, out, *operands, compute):
        """Operands are views, of which NumPy makes arrays without a copy, or numbers."""
        if out.dtype != compute or not NUMPY.issuperset(getattr(x, 'dtype', compute) for x in operands):
            return NotImplemented
        self.calls += 1
        function(*operands, out=np.asarray(out), dtype=compute, casting='unsafe')
        return None  # the result is written

    def add(self, out, a, b, compute):
        return self.elementwise(np.add, out, a, b, compute=compute)

    def mul(self, out, a, b, compute):
        return self.elementwise(np.multiply, out, a, b, compute=compute)

    def sum(self, out, x, axes, keepdim):
        if x.dtype not in NUMPY:
            return NotImplemented
        self.calls += 1
        return np.sum(x, axis=axes, keepdims=keepdim, dtype=out.dtype)  # an array that is returned is copied to the result

    def matmul(self, out, a, b):
        if a.dtype not in NUMPY or b.dtype not in NUMPY:
            return NotImplemented
        self.calls += 1
        return np.matmul(a, b)

    def close(self):
        print(f'tiny: {self.calls} calls')
