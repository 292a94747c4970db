"""The timed work: each is written once and runs on GT, PyTorch and NumPy.

A work is a function that takes a library (one of the classes below), makes its inputs, and returns run(count): do
the work `count` times, wait until all of it has been executed, return the last result. GT only emits in the loop
and executes in the background; lib.synchronize() at the end of run() waits for all repetitions.

Small works have an inline loop: a function call around `a + b` would cost more than `a + b`.
Read next: child.py, which runs these in a separate process; bench.py, which says when and how often.
"""
import functools
import os

import numpy

MEBIBYTE = 1 << 20


class Gt:
    """GT, on its embedded server or on the server at `address`."""

    def __init__(self, address=None):
        import gt
        if address:
            gt.connect(address)
        self.module = gt
        self.version = getattr(gt, "__version__", "unknown")
        self.synchronize = gt.synchronize
        self.tensor = gt.from_numpy
        self.sigmoid = gt.sigmoid

    def compile(self, function):
        """The function itself: this library compiles nothing."""
        return function

    def row_maximum(self, x):
        return x.amax(1, keepdim=True)

    def row_sum(self, x):
        return x.sum(1, keepdim=True)

    def to_numpy(self, x):
        return (x.float() if x.dtype == self.module.bfloat16 else x).detach().numpy()

    def copy_in(self, array):
        """A function that makes a tensor of the array."""
        return lambda: self.module.from_numpy(array)

    def copy_out(self, array):
        """A function that makes an array of a tensor."""
        tensor = self.module.from_numpy(array)
        return lambda: tensor.numpy()


class Torch:
    """PyTorch on all cores, without autograd's bookkeeping."""

    def __init__(self, threads=0):
        import torch
        torch.set_num_threads(threads or len(os.sched_getaffinity(0)))
        torch.set_grad_enabled(False)
        self.module = torch
        self.version = torch.__version__
        self.sigmoid = torch.sigmoid

    def synchronize(self):
        """Nothing to wait for: PyTorch on a CPU has executed an operation when it returns."""

    def tensor(self, array):
        return self.module.from_numpy(array).clone()

    def compile(self, function):
        """The function itself: this library compiles nothing."""
        return function

    def row_maximum(self, x):
        return x.amax(1, keepdim=True)

    def row_sum(self, x):
        return x.sum(1, keepdim=True)

    def to_numpy(self, x):
        return (x.float() if x.dtype == self.module.bfloat16 else x).detach().numpy()


class Numpy:
    """NumPy. Its copyto() between warm arrays is the memcpy that transfers are compared with."""

    def __init__(self):
        self.module = numpy
        self.version = numpy.__version__
        self.tensor = numpy.array
        self.to_numpy = numpy.asarray

    def synchronize(self):
        """Nothing to wait for."""

    def sigmoid(self, x):
        return 1 / (1 + numpy.exp(-x))

    def row_maximum(self, x):
        return x.max(1, keepdims=True)

    def row_sum(self, x):
        return x.sum(1, keepdims=True)

    def copy_in(self, array):
        target = numpy.zeros_like(array)

        def copy():
            numpy.copyto(target, array)
            return target
        return copy

    copy_out = copy_in


class CompiledTorch(Torch):
    """PyTorch with torch.compile, for models."""

    def compile(self, function):
        return self.module.compile(function)


LIBRARIES = {"gt": Gt, "torch": Torch, "torch compiled": CompiledTorch, "torch on one thread": functools.partial(Torch, 1),
             "numpy": Numpy}

WORKS = {}


def work(make):
    WORKS[make.__name__] = make
    return make


def inputs(*shape, count=1):
    """The same numbers for every library."""
    generator = numpy.random.default_rng(0)
    return [generator.standard_normal(shape, dtype=numpy.float32) for _ in range(count)]


def repeat(lib, step):
    """A loop for large works, where the call does not matter."""
    def run(count):
        for _ in range(count):
            result = step()
        lib.synchronize()
        return result
    return run


# ---- small: what an operation costs apart from its arithmetic ---------------------------------------------------


@work
def small_add(lib):
    a, b = map(lib.tensor, inputs(8, 8, count=2))

    def run(count):
        for _ in range(count):
            c = a + b
        lib.synchronize()
        return c
    return run


@work
def small_add_scalar(lib):
    a, = map(lib.tensor, inputs(8, 8))

    def run(count):
        for _ in range(count):
            c = a + 1.0
        lib.synchronize()
        return c
    return run


@work
def small_item(lib):
    a, b = map(lib.tensor, inputs(8, 8, count=2))

    def run(count):
        for _ in range(count):
            value = (a + b).sum().item()
        return value
    return run


# ---- large: arithmetic and memory -------------------------------------------------------------------------------


@work
def matmul(lib):
    a, b = map(lib.tensor, inputs(1000, 1000, count=2))
    return repeat(lib, lambda: a @ b)


@work
def batched_matmul(lib):
    a, b = map(lib.tensor, inputs(32, 128, 128, count=2))
    return repeat(lib, lambda: a @ b)


@work
def large_add(lib):
    a, b = map(lib.tensor, inputs(4 * MEBIBYTE, count=2))
    return repeat(lib, lambda: a + b)


@work
def large_exp(lib):
    a, = map(lib.tensor, inputs(4 * MEBIBYTE))
    exp = lib.module.exp
    return repeat(lib, lambda: exp(a))


@work
def large_tanh(lib):
    a, = map(lib.tensor, inputs(4 * MEBIBYTE))
    tanh = lib.module.tanh
    return repeat(lib, lambda: tanh(a))


@work
def large_sigmoid(lib):
    a, = map(lib.tensor, inputs(4 * MEBIBYTE))
    return repeat(lib, lambda: lib.sigmoid(a))


@work
def large_sum(lib):
    a, = map(lib.tensor, inputs(2048, 2048))
    return repeat(lib, lambda: a.sum())


@work
def row_sums(lib):
    a, = map(lib.tensor, inputs(2048, 2048))
    return repeat(lib, lambda: a.sum(1))


@work
def column_sums(lib):
    a, = map(lib.tensor, inputs(2048, 2048))
    return repeat(lib, lambda: a.sum(0))


@work
def softmax_chain(lib):
    x, = map(lib.tensor, inputs(4096, 1024))
    exp = lib.module.exp

    def step():
        e = exp(x - lib.row_maximum(x))
        return e / lib.row_sum(e)
    return repeat(lib, step)


@work
def assign_element(lib):
    """An element of 40 MB: what has one owner is changed where it lies."""
    x, = map(lib.tensor, inputs(10_000_000))

    def run(count):
        for _ in range(count):
            x[0] = 1
        lib.synchronize()
        return x
    return run


@work
def copy_column(lib):
    """A column of 40 MB, written through a view of it: work for 100 elements, whatever the size."""
    x, = map(lib.tensor, inputs(100, 100_000))
    column, = map(lib.tensor, inputs(100))

    def run(count):
        for k in range(count):
            x[:, k % 100_000].copy_(column)
        lib.synchronize()
        return x
    return run


# ---- copies between NumPy arrays and tensors --------------------------------------------------------------------


@work
def copy_in(lib):
    array, = inputs(16 * MEBIBYTE)
    return repeat(lib, lib.copy_in(array))


@work
def copy_in_small(lib):
    array, = inputs(1024)
    return repeat(lib, lib.copy_in(array))


@work
def copy_out(lib):
    array, = inputs(16 * MEBIBYTE)
    copy = lib.copy_out(array)

    def step():
        result = copy()
        result[::1024].sum()  # touch every page, so that lazy copies count
        return result
    return repeat(lib, step)
