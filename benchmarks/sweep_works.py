"""The work of the sweep (sweep.py): ops x shape classes x dtypes, each as a work in the sense of works.py.

A work is named "op/class/dtype". Every op is written once and runs on GT and PyTorch, which have the same functions. Inputs are
small positive numbers, so that every op has finite results in every dtype.
"""
import numpy

import works

# The main operand of a class. Reductions and scans run along the last axis, except in "middle" (axis 1) and in the ops whose name
# ends in 0 (axis 0). "strided" operands are views: a transposed matrix.
CLASSES = {
    "tiny": (8, 8),
    "short rows": (20000, 16),
    "long rows": (64, 16384),
    "few rows": (3, 300_000),
    "many rows": (150_000, 5),
    "odd sizes": (1021, 67),
    "middle": (500, 64, 32),
    "strided": (1000, 1024),
}
DTYPES = ("float32", "bfloat16", "int64")
FLOATS = ("float32", "bfloat16")

OPS = {}  # name: (function, dtypes, classes)


def op(*names, dtypes=DTYPES, classes=tuple(CLASSES)):
    """Register make(case), which returns the step to repeat, under these names."""
    def register(make):
        for name in names:
            OPS[name] = (make, dtypes, classes)
        return make
    return register


class Case:
    """One cell of the sweep: its library, shape and operands."""

    def __init__(self, lib, name, kind, dtype):
        self.lib, self.name, self.kind, self.dtype = lib, name, kind, dtype
        self.module = lib.module
        self.shape = CLASSES[kind]
        self.axis = 1 if kind == "middle" else 0 if name.endswith("0") else -1
        self.generator = numpy.random.default_rng(0)

    def tensor(self, *shape, dtype=None):
        """Numbers of this case's dtype."""
        dtype = dtype or self.dtype
        if dtype == "int64":
            return self.lib.tensor(self.generator.integers(1, 100, shape))
        numbers = self.generator.random(shape, dtype=numpy.float32) + numpy.float32(0.1)
        return self.lib.tensor(numbers).to(getattr(self.module, dtype))

    def indices(self, limit, *shape):
        return self.lib.tensor(self.generator.integers(0, limit, shape))

    def operand(self, dtype=None):
        """The main operand."""
        if self.kind == "strided":
            return self.tensor(*reversed(self.shape), dtype=dtype).t()
        return self.tensor(*self.shape, dtype=dtype)


def function(name):
    """torch.<name>, gt.<name>; without the axis in the name of a sweep."""
    return name.rstrip("01")


# ---- elementwise ------------------------------------------------------------------------------------------------


@op("add", "mul", "maximum", "lt")
def binary(case):
    if case.kind == "middle":
        x, y = case.tensor(20000, 1, 8), case.tensor(1, 16, 8)
    else:
        x, y = case.operand(), case.operand()
    f = getattr(case.module, case.name)
    return lambda: f(x, y)


@op("div", dtypes=FLOATS, classes=("tiny", "short rows", "long rows", "middle", "strided", "odd sizes"))
def divide(case):
    return binary(case)


@op("add row", "add column", classes=("tiny", "short rows", "long rows", "few rows", "many rows", "odd sizes", "strided"))
def bias(case):
    x = case.operand()
    y = case.tensor(case.shape[-1]) if case.name == "add row" else case.tensor(case.shape[0], 1)
    return lambda: x + y


@op("abs", "neg")
def unary(case):
    x = case.operand()
    f = getattr(case.module, case.name)
    return lambda: f(x)


@op("exp", "tanh", "sqrt", dtypes=FLOATS, classes=("tiny", "short rows", "long rows", "strided", "odd sizes"))
def mathematics(case):
    return unary(case)


@op("where")
def where(case):
    x, y = case.operand(), case.operand()
    condition = x < y
    return lambda: case.module.where(condition, x, y)


@op("to int64", dtypes=FLOATS)
@op("to float32", dtypes=("bfloat16", "int64"))
@op("to bfloat16", dtypes=("float32", "int64"))
def cast(case):
    x = case.operand()
    target = getattr(case.module, case.name.split()[1])
    return lambda: x.to(target)


# ---- reductions, scans, lines -----------------------------------------------------------------------------------


@op("sum", "amax", "amin", "sum0", "amax0", "argmax", "argmin", "argmin0")
def reduction(case):
    x, axis = case.operand(), case.axis
    f = getattr(case.module, function(case.name))
    return lambda: f(x, axis)


@op("mean", "var", "logsumexp", "softmax", "log_softmax", "softmax0", dtypes=FLOATS)
def float_reduction(case):
    return reduction(case)


@op("cumsum", "cumsum0", "cumprod")
def scan(case):
    return reduction(case)


@op("any", "all", classes=("tiny", "short rows", "long rows", "odd sizes"))
def truth(case):
    return reduction(case)


@op("norm", dtypes=FLOATS, classes=("tiny", "short rows", "long rows", "odd sizes"))
def norm(case):
    x, axis = case.operand(), case.axis
    return lambda: x.norm(dim=axis)


@op("max with index")
def maximum(case):
    x, axis = case.operand(), case.axis
    return lambda: x.max(axis)[0]


@op("sort", "topk", dtypes=("float32", "int64"), classes=("tiny", "short rows", "odd sizes"))
def order(case):
    x, axis = case.operand(), case.axis
    if case.name == "topk":
        return lambda: case.module.topk(x, 4, axis)[0]
    return lambda: case.module.sort(x, axis)[0]


@op("layer_norm", dtypes=FLOATS, classes=("tiny", "short rows", "long rows", "many rows", "odd sizes"))
def layer_norm(case):
    x, width = case.operand(), case.shape[-1]
    f = case.module.nn.functional.layer_norm
    return lambda: f(x, (width,))


# ---- movement ---------------------------------------------------------------------------------------------------


@op("cat", "cat0")
def cat(case):
    x, y, axis = case.operand(), case.operand(), case.axis
    return lambda: case.module.cat((x, y), axis)


@op("stack", classes=("tiny", "short rows", "long rows", "odd sizes"))
def stack(case):
    x, y = case.operand(), case.operand()
    return lambda: case.module.stack((x, y), -1)


@op("index_select", classes=("tiny", "short rows", "many rows", "odd sizes"))
def index_select(case):
    x = case.operand()
    index = case.indices(case.shape[0], case.shape[0])
    return lambda: case.module.index_select(x, 0, index)


@op("gather", classes=("tiny", "short rows", "long rows", "odd sizes"))
def gather(case):
    x = case.operand()
    index = case.indices(case.shape[-1], *case.shape)
    return lambda: case.module.gather(x, -1, index)


@op("index_add", dtypes=("float32", "int64"), classes=("tiny", "short rows", "many rows", "odd sizes"))
def index_add(case):
    x = case.operand()
    index = case.indices(16, case.shape[0])
    zeros = case.tensor(16, case.shape[-1]) * 0
    return lambda: case.module.index_add(zeros, 0, index, x)


# ---- products ---------------------------------------------------------------------------------------------------


@op("matrix @ vector", dtypes=FLOATS, classes=("tiny", "short rows", "long rows", "few rows", "many rows", "odd sizes", "strided"))
def matrix_vector(case):
    x, y = case.operand(), case.tensor(case.shape[-1])
    return lambda: x @ y


@op("vector @ matrix", dtypes=FLOATS, classes=("tiny", "short rows", "long rows", "odd sizes", "strided"))
def vector_matrix(case):
    x, y = case.operand(), case.tensor(case.shape[0])
    return lambda: y @ x


@op("matmul", dtypes=("float32",), classes=("tiny", "short rows", "odd sizes", "strided"))
def matmul(case):
    x, y = case.operand(), case.tensor(case.shape[-1], 64)
    return lambda: x @ y


@op("bmm", dtypes=("float32",), classes=("middle",))
def batched(case):
    x = case.operand()
    y = case.tensor(case.shape[0], case.shape[2], 16)
    return lambda: x @ y


# ---- programs ---------------------------------------------------------------------------------------------------


@op("k-means", dtypes=("float32",), classes=("short rows",))
def k_means(case):
    """An iteration of Lloyd's algorithm: 20000 points in 8 dimensions, 16 means."""
    m = case.module
    points, start = case.tensor(20000, 8), case.tensor(16, 8)
    ones = points[:, :1] * 0 + 1
    state = [start]

    def step():
        means = state[0]
        difference = points.unsqueeze(1) - means.unsqueeze(0)
        nearest = (difference * difference).sum(2).argmin(1)
        sums = m.zeros(16, 8).index_add(0, nearest, points)
        counts = m.zeros(16, 1).index_add(0, nearest, ones)
        state[0] = sums / counts.clamp(min=1)
        return state[0]
    return step


def make_work(name, kind, dtype):
    def make(lib):
        return works.repeat(lib, OPS[name][0](Case(lib, name, kind, dtype)))
    return make


for _name, (_, _dtypes, _classes) in OPS.items():
    for _kind in _classes:
        for _dtype in _dtypes:
            works.WORKS[f"{_name}/{_kind}/{_dtype}"] = make_work(_name, _kind, _dtype)
