"""Random programs on spread tensors: the generator, and a runner that compares one worker with many.

A program is Python text, so that a failing one can be printed and run by itself:

    python tests/python/sharded_programs.py SEED        run the program of a seed
    python tests/python/sharded_programs.py FIRST LAST  run many; the first that fails is printed

The same text runs on one worker, where no signal means anything, and on several, where a random config spreads tensors.
What follows from elementwise ops and movement alone must be the same bit for bit; what passed through a sum or a product,
within rounding (the programs compute in float64, so that rounding is far from anything else).
"""

import random
import sys

import numpy as np

import gt
from gt import _gt

OPS = 55
SIGNALS = 4
# Ops that jump: of a value that is only known within rounding they would show the rounding.
STEPS = ["floor", "ceil", "round", "sign"]
SMOOTH = ["tanh", "sigmoid", "sin", "cos", "abs", "relu", "gelu", "silu", "square", "neg", "softplus", "erf"]


class Value:
    """A variable of the program: float ('f'), integer ('i') or bool ('b')."""

    def __init__(self, name, shape, kind, exact, tracked=False):
        self.name, self.shape, self.kind, self.exact, self.tracked = name, tuple(shape), kind, exact, tracked

    @property
    def rank(self):
        return len(self.shape)

    @property
    def size(self):
        return int(np.prod(self.shape))


class Generator:
    """Writes one program."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.lines, self.values, self.count, self.depth = [], [], 0, 0
        self.workers = self.rng.randint(1, 8)
        # A signal of axis 1 refuses new tensors of one dimension: the last signal places what is there, and no more.
        self.config = {f"s{k}": self.signal([0, 0, 0, -1]) for k in range(SIGNALS - 1)}
        self.config[f"s{SIGNALS - 1}"] = self.signal([0, 1, -1, -2])
        self.backward = self.rng.random() < 0.6

    def signal(self, axes):
        chosen = self.rng.sample(range(self.workers), self.rng.randint(1, self.workers))
        if self.rng.random() < 0.25:
            return dict(axis=None, workers=chosen, replicated=True)
        return dict(axis=self.rng.choice(axes), workers=chosen, replicated=False)

    def line(self, text):
        self.lines.append("    " * self.depth + text)

    def new(self, text, shape, kind, exact, tracked=False):
        if len(shape) > 5 or int(np.prod(shape)) > 5000:
            return
        name = f"t{self.count}"
        self.count += 1
        self.line(f"{name} = {text}")
        self.values.append(Value(name, shape, kind, exact, tracked))

    def pick(self, *kinds, exact=None, rank=None, least=0):
        fitting = [v for v in self.values if (not kinds or v.kind in kinds) and (exact is None or v.exact == exact)
                   and (rank is None or v.rank >= rank) and v.size >= least]
        return self.rng.choice(fitting[-12:]) if fitting else None

    # ---- ops: each writes a line, or nothing if it finds no operand -------------------------------------------

    def create(self):
        shape = self.rng.choice([(7,), (6, 5), (12, 8), (3, 4, 6), (5, 1, 4), (16, 16), (2, 3, 2, 4), (100,), (33, 3)])
        roll = self.rng.random()
        if roll < 0.55:
            leaf = self.backward and self.rng.random() < 0.6
            self.new(f"gt.randn({', '.join(map(str, shape))}, dtype=gt.float64)", shape, "f", True)
            if leaf:
                self.line(f"{self.values[-1].name}.requires_grad_(True)")
                self.line(f"leaves.append({self.values[-1].name})")
                self.values[-1].tracked = True
        elif roll < 0.7:
            self.new(f"gt.randint(-3, 4, {shape})", shape, "i", True)
        elif roll < 0.8:
            self.new(f"gt.tensor(np.arange({int(np.prod(shape))}, dtype=np.float64).reshape({shape}) / 7)", shape, "f", True)
        elif roll < 0.88:
            self.new(f"gt.full({shape}, 0.75, dtype=gt.float64)", shape, "f", True)
        elif roll < 0.94:
            n = self.rng.randint(1, 40)
            self.new(f"gt.arange({n}, dtype=gt.float64) * 0.1", (n,), "f", True)
        else:
            n, m = self.rng.randint(1, 12), self.rng.randint(1, 12)
            self.new(f"gt.eye({n}, {m}, dtype=gt.float64)", (n, m), "f", True)

    def unary(self):
        a = self.pick("f")
        if a:
            names = SMOOTH if not a.exact or a.tracked else SMOOTH + STEPS
            name = self.rng.choice(names)
            extra = ".clamp(-4, 4)" if name == "square" else ""
            self.new(f"{a.name}.{name}(){extra}", a.shape, "f", a.exact, a.tracked)

    def literal(self):
        a = self.pick("f")
        if a:
            text = self.rng.choice(["{0} * 0.5", "{0} + 1.25", "1.0 - {0}", "{0} / 3.0", "{0}.clamp(-1.5, 1.5)"])
            self.new(text.format(a.name), a.shape, "f", a.exact, a.tracked)

    def binary(self):
        a, b = self.pick("f"), self.pick("f")
        if not a:
            return
        try:
            shape = np.broadcast_shapes(a.shape, b.shape)
        except ValueError:
            if a.rank != b.rank or not a.rank:
                return
            b_text = f"{b.name}.sum() * 0.01" if b.size else b.name
            self.new(f"{a.name} + {b_text}", a.shape, "f", False, a.tracked or b.tracked)
            return
        op = self.rng.choice(["+", "-", "*", "maximum", "where"])
        exact, tracked = a.exact and b.exact, a.tracked or b.tracked
        if op == "maximum" and exact and not tracked:
            self.new(f"gt.maximum({a.name}, {b.name})", shape, "f", True)
        elif op == "where" and exact and not tracked:
            self.new(f"gt.where({a.name} > {b.name}, {a.name}, {b.name})", shape, "f", True)
        elif op in "+-":
            self.new(f"{a.name} {op} {b.name}", shape, "f", exact, tracked)
        else:
            self.new(f"({a.name} * {b.name}).tanh()", shape, "f", exact, tracked)

    def compare(self):
        a, b = self.pick("f", exact=True), self.pick("f", exact=True)
        if a and a.shape == b.shape:
            self.new(f"{a.name} < {b.name}", a.shape, "b", True)
        elif a:
            self.new(f"{a.name} > 0.1", a.shape, "b", True)

    def use_mask(self):
        a, m = self.pick("f"), self.pick("b")
        if a and m and a.shape == m.shape:
            self.new(f"gt.where({m.name}, {a.name}, 0.25)", a.shape, "f", a.exact, a.tracked)

    def reduce(self):
        a = self.pick("f", rank=1, least=1)
        if not a:
            return
        dim, keep = self.rng.randrange(a.rank), self.rng.random() < 0.4
        shape = tuple(1 if d == dim else s for d, s in enumerate(a.shape) if d != dim or keep)
        name = self.rng.choice(["sum", "mean", "amax", "amin", "var", "all"])
        if name in ("sum", "mean") or a.tracked:
            name = name if name in ("sum", "mean") else "mean"
            if self.rng.random() < 0.2:
                self.new(f"{a.name}.{name}()", (), "f", False, a.tracked)
            else:
                self.new(f"{a.name}.{name}(dim={dim}, keepdim={keep})", shape, "f", False, a.tracked)
        elif name == "var" and a.shape[dim] > 1:
            self.new(f"{a.name}.var(dim={dim}, keepdim={keep})", shape, "f", False)
        elif name == "all":
            self.new(f"({a.name} > -1).any(dim={dim}, keepdim={keep})", shape, "b" if a.exact else "x", a.exact)
        elif a.exact or name != "var":
            self.new(f"{a.name}.{name if name != 'var' else 'amax'}(dim={dim}, keepdim={keep})", shape, "f", a.exact)

    def along(self):
        a = self.pick("f", exact=True, rank=1, least=1)
        if a and not a.tracked:
            dim = self.rng.randrange(a.rank)
            name = self.rng.choice(["argmax", "argmin", "cumsum", "argsort"])
            if name == "cumsum":
                self.new(f"{a.name}.cumsum(dim={dim})", a.shape, "f", False)
            elif name == "argsort":
                self.new(f"{a.name}.argsort(dim={dim})", a.shape, "i", True)
            else:
                self.new(f"{a.name}.{name}(dim={dim})", a.shape[:dim] + a.shape[dim + 1:], "i", True)

    def matmul(self):
        a = self.pick("f", rank=1, least=1)
        if not a:
            return
        roll = self.rng.random()
        b = self.pick("f", rank=1, least=1)
        tracked = a.tracked or b.tracked
        if a.rank == 2 and b.rank == 2 and a.shape[1] == b.shape[0]:
            self.new(f"({a.name} @ {b.name}) * 0.3", (a.shape[0], b.shape[1]), "f", False, tracked)
        elif a.rank == 2 and b.rank == 2 and a.shape[0] == b.shape[0]:
            self.new(f"({a.name}.T @ {b.name}) * 0.3", (a.shape[1], b.shape[1]), "f", False, tracked)
        elif a.rank >= 2 and b.rank == 2 and a.shape[-1] == b.shape[-1]:
            self.new(f"({a.name} @ {b.name}.T) * 0.3", a.shape[:-1] + (b.shape[0],), "f", False, tracked)
        elif a.rank >= 2 and roll < 0.6:
            self.new(f"({a.name} @ {a.name}.transpose(-1, -2)) * 0.2", a.shape[:-1] + (a.shape[-2],), "f", False, a.tracked)
        elif a.rank >= 2:
            n = self.rng.randint(1, 9)
            self.new(f"({a.name} @ gt.randn({a.shape[-1]}, {n}, dtype=gt.float64)) * 0.3", a.shape[:-1] + (n,), "f", False,
                     a.tracked)
        else:
            self.new(f"{a.name} @ {a.name} * 0.1", (), "f", False, a.tracked)

    def view(self):
        a = self.pick("f", "i", rank=1, least=1)
        if not a:
            return
        same = dict(kind=a.kind, exact=a.exact, tracked=a.tracked)
        roll = self.rng.randrange(7)
        if roll == 0:
            self.new(f"{a.name}.T", a.shape[::-1], **same)
        elif roll == 1:
            dims = list(range(a.rank))
            self.rng.shuffle(dims)
            self.new(f"{a.name}.permute({tuple(dims)})", [a.shape[d] for d in dims], **same)
        elif roll == 2:
            shape = self.reshaped(a.shape)
            self.new(f"{a.name}.reshape({shape})", shape, **same)
        elif roll == 3:
            d = self.rng.randrange(a.rank)
            start, step = self.rng.randrange(a.shape[d]), self.rng.choice([1, 1, 2, 3])
            stop = self.rng.randint(start, a.shape[d])
            count = len(range(start, stop, step))
            if count:
                self.new(f"{a.name}[{':, ' * d}{start}:{stop}:{step}]", a.shape[:d] + (count,) + a.shape[d + 1:], **same)
        elif roll == 4:
            self.new(f"{a.name}.unsqueeze(0).expand(3, {', '.join(map(str, a.shape))})", (3,) + a.shape, **same)
        elif roll == 5:
            self.new(f"{a.name}[{self.rng.randrange(a.shape[0])}]", a.shape[1:], **same)
        else:
            d = self.rng.randrange(a.rank)
            self.new(f"{a.name}.flip({d})", a.shape, **same)

    def reshaped(self, shape):
        shape = list(shape)
        if len(shape) > 1 and self.rng.random() < 0.6:
            k = self.rng.randrange(len(shape) - 1)
            shape[k:k + 2] = [shape[k] * shape[k + 1]]
        else:
            k = self.rng.randrange(len(shape))
            for factor in (2, 3, 5):
                if shape[k] % factor == 0 and shape[k] > factor:
                    shape[k:k + 1] = [factor, shape[k] // factor]
                    break
        return tuple(shape)

    def move(self):
        a = self.pick("f", rank=1, least=1)
        if not a:
            return
        d = self.rng.randrange(a.rank)
        same = dict(kind="f", exact=a.exact, tracked=a.tracked)
        roll = self.rng.randrange(7)
        if roll == 0:
            self.new(f"gt.cat([{a.name}, {a.name} * 2, {a.name}], dim={d})",
                     a.shape[:d] + (3 * a.shape[d],) + a.shape[d + 1:], **same)
        elif roll == 1 and a.rank >= 2:
            self.new(f"gt.{self.rng.choice(['tril', 'triu'])}({a.name}, {self.rng.randint(-2, 2)})", a.shape, **same)
        elif roll == 2:
            n = self.rng.randint(1, 8)
            self.new(f"{a.name}.index_select({d}, gt.randint(0, {a.shape[d]}, ({n},)))",
                     a.shape[:d] + (n,) + a.shape[d + 1:], **same)
        elif roll == 3:
            n = self.rng.randint(1, 6)
            shape = a.shape[:d] + (n,) + a.shape[d + 1:]
            self.new(f"{a.name}.gather({d}, gt.randint(0, {a.shape[d]}, {shape}))", shape, **same)
        elif roll == 4:
            self.new(f"gt.zeros({a.shape}, dtype=gt.float64).scatter_add({d}, gt.randint(0, {a.shape[d]}, {a.shape}), "
                     f"{a.name})", a.shape, kind="f", exact=False, tracked=a.tracked)
        elif roll == 5 and not a.tracked:
            name = f"t{self.count}"
            self.new(f"{a.name} * 1.0", a.shape, **same)
            if self.values[-1].name == name:
                at = ", ".join(self.rng.choice([":", "0", "1:"]) for _ in a.shape)
                self.line(f"{name}[{at}] = 0.5")
        else:
            self.new(f"{a.name}.{self.rng.choice(['contiguous()', 'clone()', 'to(gt.float64)'])}", a.shape, **same)

    def place(self):
        a = self.pick("f", rank=2)
        if a:
            self.new(f"gt.signal.tensor({a.name}, name='s{self.rng.randrange(SIGNALS)}')", a.shape, a.kind, a.exact, a.tracked)

    def forget(self):
        if len(self.values) > 16:
            gone = self.values.pop(self.rng.randrange(len(self.values) - 8))
            self.line(f"del {gone.name}")

    # ---- the whole ---------------------------------------------------------------------------------------------

    def scope(self):
        if self.depth and self.rng.random() < 0.5:
            self.depth -= 1
        elif self.depth < 2:
            backward = self.rng.choice(["", f", backward='s{self.rng.randrange(SIGNALS - 1)}'"])
            self.line(f"with gt.signal.context('s{self.rng.randrange(SIGNALS - 1)}'{backward}):")
            self.depth += 1
            self.line("pass")

    def write(self):
        steps = [(self.create, 3), (self.unary, 4), (self.literal, 3), (self.binary, 5), (self.compare, 1),
                 (self.use_mask, 1), (self.reduce, 4), (self.along, 2), (self.matmul, 4), (self.view, 5), (self.move, 4),
                 (self.place, 3), (self.forget, 1), (self.scope, 5)]
        functions, weights = zip(*steps)
        for _ in range(3):
            self.create()
        while len(self.lines) < OPS:
            self.rng.choices(functions, weights)[0]()
        self.depth = 0
        tracked = [v for v in self.values if v.tracked and v.kind == "f" and v.size]
        if tracked:
            self.line("loss = " + " + ".join(f"({v.name} * 0.1).tanh().mean()" for v in tracked[-4:]))
            self.line("loss.backward()")
        return self


def script(program):
    """The program as a file that runs by itself, with its workers and its config."""
    registered = "\n".join(
        f"gt.register_config('{name}', gt.SignalConfig(shard=gt.ShardConfig(axis={c['axis']}, workers={c['workers']}, "
        f"replicated={c['replicated']})))" for name, c in program.config.items())
    body = "\n".join(program.lines)
    return (f"import numpy as np\nimport gt\n\ngt.gpu_workers({program.workers})\n{registered}\ngt.manual_seed(1)\n"
            f"leaves = []\n{body}\n")


def execute(program):
    """Run it on the current client; its variables and the gradients of its leaves, as arrays."""
    names = {"gt": gt, "np": np, "leaves": []}
    gt.manual_seed(1)
    for line in compile_lines(program):
        exec(line, names)
    results = {v.name: names[v.name].detach().numpy() for v in program.values}
    grads = [None if leaf.grad is None else leaf.grad.numpy() for leaf in names["leaves"]]
    loss = names["loss"].item() if "loss" in names else 0.0
    return results, grads, loss


def compile_lines(program):
    return [compile("\n".join(program.lines), "<program>", "exec")]


def register(program, meaningful):
    """What its signals mean; nothing, where it runs on one worker."""
    for name, c in program.config.items():
        shard = gt.ShardConfig(axis=c["axis"], workers=c["workers"], replicated=c["replicated"]) if meaningful else None
        gt.register_config(name, gt.SignalConfig(shard=shard))


def close(a, b):
    scale = max(np.abs(a).max(initial=0.0), np.abs(b).max(initial=0.0), 1.0)
    return np.allclose(a, b, rtol=1e-8, atol=1e-9 * scale, equal_nan=True)


def differences(program, connections):
    """What differs between one worker and several, in words. connections: by number of workers."""
    wrong = []
    _gt.use(connections(1))
    register(program, False)
    plain, plain_grads, plain_loss = execute(program)
    _gt.use(connections(program.workers))
    register(program, True)
    spread, grads, loss = execute(program)
    for value in program.values:
        a, b = plain[value.name], spread[value.name]
        if a.shape != b.shape or a.dtype != b.dtype:
            wrong.append(f"{value.name}: {a.dtype}{a.shape} became {b.dtype}{b.shape}")
        elif value.exact and not np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
            wrong.append(f"{value.name} differs in {np.sum(a != b)} of {a.size} elements")
        elif a.dtype.kind == "f" and not close(a, b):
            wrong.append(f"{value.name} differs by {np.abs(a - b).max()}")
    for k, (a, b) in enumerate(zip(plain_grads, grads)):
        if (a is None) != (b is None) or (a is not None and not close(a, b)):
            wrong.append(f"the gradient of leaf {k} differs" + (f" by {np.abs(a - b).max()}" if a is not None and b is not None else ""))
    if not close(np.array(plain_loss), np.array(loss)):
        wrong.append(f"the loss is {loss} instead of {plain_loss}")
    return wrong


class Connections:
    """Embedded servers, one for each number of workers."""

    def __init__(self):
        self.open = {}

    def __call__(self, workers):
        if workers not in self.open:
            self.open[workers] = _gt.open_embedded(workers)
        return self.open[workers]

    def close(self):
        _gt.use(None)
        for connection in self.open.values():
            connection.close()
        self.open = {}


def run(seed, connections):
    """None, or a report with the program."""
    program = Generator(seed).write()
    try:
        wrong = differences(program, connections)
    except Exception as error:
        wrong = [f"{type(error).__name__}: {error}"]
    if not wrong:
        return None
    return f"program {seed}, on {program.workers} workers:\n  " + "\n  ".join(wrong) + "\n\n" + script(program)


if __name__ == "__main__":
    first, last = int(sys.argv[1]), int(sys.argv[-1])
    servers = Connections()
    for seed in range(first, last + 1):
        report = run(seed, servers)
        if report:
            print(report)
            sys.exit(1)
    servers.close()
    print(f"{last - first + 1} programs agree")
