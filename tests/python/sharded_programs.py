"""Random programs on spread tensors: the generator, and a runner that compares one worker with many.

A program is Python text, so that a failing one can be printed and run by itself:

    python tests/python/sharded_programs.py SEED        run the program of a seed
    python tests/python/sharded_programs.py FIRST LAST  run many; print the first that fails, as a script

The same text runs on one worker, without a config, and on several, where a random config spreads tensors. Results of
elementwise ops and movement must be the same bit for bit; results of sums and products within rounding.
"""

import inspect
import random
import sys

import numpy as np

import gt
from gt import _gt

OPS = 55
SIGNALS = 5
# Ops with kinks or jumps: they, or their gradients, would amplify the rounding of an inexact value.
BENT = ["abs", "relu", "hardtanh", "leaky_relu", "relu6", "sin", "cos"]  # the last two: of large values
STEPS = ["floor", "ceil", "round", "sign", "trunc"]
SMOOTH = ["tanh", "sigmoid", "gelu", "silu", "neg", "softplus", "erf", "mish", "atan", "logsigmoid"]


def differs(a, b, exact, single):
    """A text on how b differs from a, or None. single: the program computes in float32."""
    if (a is None) != (b is None):
        return f"{'is' if a is None else 'is not'} there"
    if a is None:
        return None
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype}{a.shape} became {b.dtype}{b.shape}"
    if exact or a.dtype.kind != "f":
        wrong = ~((a == b) | ((a != a) & (b != b)))
        return f"differs in {wrong.sum()} of {a.size} elements" if wrong.any() else None
    scale = max(np.abs(a).max(initial=0.0), np.abs(b).max(initial=0.0), 1.0)
    relative, absolute = (1e-3, 2e-4) if single else (1e-8, 1e-9)
    if np.allclose(a, b, rtol=relative, atol=absolute * scale, equal_nan=True):
        return None
    return f"differs by {np.abs(a - b).max()}"


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
    """Writes one program: write() fills lines, values, workers and config."""

    def __init__(self, seed):
        self.seed, self.rng = seed, random.Random(seed)
        self.lines, self.values, self.count, self.scopes = [], [], 0, []
        self.workers = self.rng.randint(1, 8)
        self.config = {f"s{k}": self.signal() for k in range(SIGNALS)}
        self.backward = self.rng.random() < 0.7
        self.single = self.rng.random() < 0.2
        self.dtype = "gt.float32" if self.single else "gt.float64"

    def signal(self):
        """(axis, workers, replicated, backward signal); None for the first three: no shard entry."""
        roll, backward = self.rng.random(), self.rng.choice([None, None, f"s{self.rng.randrange(SIGNALS)}"])
        chosen = self.rng.sample(range(self.workers), self.rng.randint(1, self.workers))
        if roll < 0.1:
            return (None, None, None, backward)
        if roll < 0.3:
            return (None, chosen, True, backward)
        return (self.rng.choice([0, 0, 0, 1, -1, -2]), chosen, False, backward)

    # ---- what may be written where -----------------------------------------------------------------------------

    def name(self):
        return f"s{self.rng.randrange(SIGNALS)}"

    def allows(self, signal, rank):
        """Whether a new tensor of that rank can be placed this way: a missing axis is an error."""
        axis, workers, replicated, *_ = self.config[signal]
        return rank == 0 or axis is None or replicated or len(workers) == 1 or -rank <= axis < rank

    def allows_shape(self, signal, shape):
        return self.allows(signal, len(shape))

    def fits(self, rank):
        """The same for the current scopes: the innermost one with a shard entry decides."""
        deciding = [s for s in self.scopes if self.config[s][1] is not None]
        return not deciding or self.allows(deciding[-1], rank)

    def line(self, text):
        self.lines.append("    " * len(self.scopes) + text)

    def new(self, text, shape, kind, exact, tracked=False):
        if len(shape) > 5 or int(np.prod(shape)) > 5000:
            return None
        value = Value(f"t{self.count}", shape, kind, exact, tracked)
        self.count += 1
        self.line(f"{value.name} = {text}")
        self.values.append(value)
        return value

    def pick(self, *kinds, exact=None, rank=None, least=0, tracked=None):
        fitting = [v for v in self.values if (not kinds or v.kind in kinds) and (exact is None or v.exact == exact)
                   and (rank is None or v.rank >= rank) and v.size >= least and (tracked is None or v.tracked == tracked)]
        return self.rng.choice(fitting[-14:]) if fitting else None

    def shape(self, rank=None):
        rank = rank or self.rng.choice([1, 2, 2, 2, 3, 3, 4])
        return tuple(self.rng.choice([1, 2, 3, 4, 5, 7, 8, 12] + ([16, 33, 100] if rank < 3 else [])) for _ in range(rank))

    # ---- ops: each writes a line, or nothing if it finds no operand -------------------------------------------

    def create(self):
        shape = self.shape()
        if not self.fits(len(shape)):
            return
        roll, dtype = self.rng.random(), self.dtype
        if roll < 0.55:
            leaf = self.backward and self.rng.random() < 0.6
            value = self.new(f"gt.randn({shape}, dtype={dtype})", shape, "f", True, leaf)
            if leaf and value:
                self.line(f"leaves.append({value.name}.requires_grad_(True))")
        elif roll < 0.7:
            self.new(f"gt.randint(-3, 4, {shape})", shape, "i", True)
        elif roll < 0.8:
            self.new(f"gt.tensor(np.arange({int(np.prod(shape))}).reshape({shape}) / 7, dtype={dtype})", shape, "f", True)
        elif roll < 0.88:
            self.new(f"gt.full({shape}, 0.75, dtype={dtype})", shape, "f", True)
        elif roll < 0.94 and self.fits(1):
            n = self.rng.randint(1, 40)
            self.new(f"gt.arange({n}, dtype={dtype}) * 0.1", (n,), "f", True)
        elif self.fits(2):
            n, m = self.rng.randint(1, 12), self.rng.randint(1, 12)
            self.new(f"gt.eye({n}, {m}, dtype={dtype})", (n, m), "f", True)

    def unary(self):
        a = self.pick("f")
        if a:
            names = SMOOTH + (BENT if a.exact else []) + (STEPS if a.exact and not a.tracked else [])
            self.new(f"{a.name}.{self.rng.choice(names)}()", a.shape, "f", a.exact, a.tracked)

    def literal(self):
        a = self.pick("f")
        if a:
            texts = ["{0} * 0.5", "{0} + 1.25", "1.0 - {0}", "{0} / 3.0", "({0} * 0.1) ** 2", "({0} * {0} + 1).sqrt()",
                     "2.0 / ({0} * {0} + 1)"] + (["{0}.clamp(-1.5, 1.5)"] if a.exact else [])
            self.new(self.rng.choice(texts).format(a.name), a.shape, "f", a.exact, a.tracked)

    def binary(self):
        a, b = self.pick("f"), self.pick("f")
        if not a:
            return
        tracked, exact = a.tracked or b.tracked, a.exact and b.exact
        try:
            shape = np.broadcast_shapes(a.shape, b.shape)
        except ValueError:
            if b.size:
                self.new(f"{a.name} + {b.name}.sum() * 0.01", a.shape, "f", False, tracked)
            return
        texts = ["{0} + {1}", "{0} - {1}", "({0} * {1}).tanh()", "{0} / ({1} * {1} + 1)", "gt.lerp({0}, {1}, 0.3)",
                 "gt.atan2({0}, {1} * {1} + 1)"]
        if exact:
            texts += ["gt.maximum({0}, {1})", "gt.where({0} > {1}, {0}, {1})"]
        self.new(self.rng.choice(texts).format(a.name, b.name), shape, "f", exact, tracked)

    def integers(self):
        a = self.pick("i")
        if a:
            text = self.rng.choice(["{0} % 3 + 1", "{0} * 2 - 1", "({0} + 4) // 2", "{0} & 3", "{0}.abs()"])
            self.new(text.format(a.name), a.shape, "i", True)

    def integer_sums(self):
        a = self.pick("i", rank=1, least=1)
        if a:
            dim = self.rng.randrange(a.rank)
            text = self.rng.choice(["{0}.sum(dim={1})", "({0} % 2).prod(dim={1})", "{0}.amax(dim={1})"])
            self.new(text.format(a.name, dim), a.shape[:dim] + a.shape[dim + 1:], "i", True)

    def compare(self):
        a, b = self.pick("f", exact=True), self.pick("f", exact=True)
        if a and a.shape == b.shape:
            self.new(f"{a.name} < {b.name}", a.shape, "b", True)
        elif a:
            self.new(f"({a.name} > 0.1).logical_not()", a.shape, "b", True)

    def use_mask(self):
        m = self.pick("b")
        fitting = [v for v in self.values[-20:] if m and v.kind == "f" and v.shape == m.shape]
        if fitting:
            a = self.rng.choice(fitting)
            self.new(f"gt.where({m.name}, {a.name}, 0.25)", a.shape, "f", a.exact, a.tracked)
            if a.exact and m.rank:
                self.new(f"{m.name}.any(dim={self.rng.randrange(-m.rank, 0)}, keepdim=True) & {m.name}", m.shape, "b", True)

    def reduce(self):
        a = self.pick("f", rank=1, least=1)
        if not a:
            return
        dim, keep = self.rng.randrange(a.rank), self.rng.random() < 0.4
        shape = tuple(1 if d == dim else s for d, s in enumerate(a.shape) if d != dim or keep)
        names = ["sum", "mean", "sum", "mean", "logsumexp"] + (["var"] if a.shape[dim] > 1 else []) + \
            (["amax", "amin"] if a.exact else [])
        name = self.rng.choice(names)
        if name in ("sum", "mean", "var") and a.size > 1 and self.rng.random() < 0.2:
            self.new(f"{a.name}.{name}()", (), "f", False, a.tracked)
        else:
            self.new(f"{a.name}.{name}(dim={dim}, keepdim={keep})", shape, "f", name in ("amax", "amin"), a.tracked)

    def normalise(self):
        a = self.pick("f", rank=1, least=1)
        if not a:
            return
        dim = self.rng.randrange(a.rank)
        texts = [f"{a.name}.softmax(dim={dim})", f"{a.name}.log_softmax(dim={dim}) * 0.1",
                 f"{a.name} / ({a.name}.norm(dim={dim}, keepdim=True) + 1)"]
        if a.shape[-1] > 1:
            texts.append(f"F.layer_norm({a.name}, ({a.shape[-1]},), eps=0.1)")
        if a.rank >= 2 and a.size // a.shape[1] > 1:
            texts.append(f"F.batch_norm({a.name}, None, None, training=True, eps=0.1)" if a.rank in (2, 3, 4) else texts[0])
        self.new(self.rng.choice(texts), a.shape, "f", False, a.tracked)

    def order(self):
        a = self.pick("f", exact=True, rank=1, least=1)
        if not a:
            return
        dim = self.rng.randrange(a.rank)
        less = a.shape[:dim] + a.shape[dim + 1:]
        roll = self.rng.randrange(10)
        if roll == 0:
            self.new(f"{a.name}.{self.rng.choice(['argmax', 'argmin'])}(dim={dim})", less, "i", True)
        elif roll == 6:
            self.new(f"{a.name}.{self.rng.choice(['argmax', 'argmin'])}()", (), "i", True)
        elif roll == 7:
            self.new(f"{a.name}.{self.rng.choice(['cummax', 'cummin'])}(dim={dim})[1]", a.shape, "i", True)
        elif roll == 8:
            k = self.rng.randint(1, a.shape[dim])
            self.new(f"{a.name}.topk({k}, dim={dim}, largest=False)[1]", a.shape[:dim] + (k,) + a.shape[dim + 1:], "i", True)
        elif roll == 9:
            self.new(f"({a.name} * 0.3).tanh().{self.rng.choice(['cumprod', 'logcumsumexp'])}(dim={dim})", a.shape, "f", False, a.tracked)
        elif roll == 1:
            self.new(f"{a.name}.argsort(dim={dim})", a.shape, "i", True)
        elif roll == 2:
            self.new(f"{a.name}.sort(dim={dim}, descending=True)[0]", a.shape, "f", True, a.tracked)
        elif roll == 3:
            k = self.rng.randint(1, a.shape[dim])
            self.new(f"{a.name}.topk({k}, dim={dim})[0]", a.shape[:dim] + (k,) + a.shape[dim + 1:], "f", True, a.tracked)
        elif roll == 4:
            self.new(f"{a.name}.cummax(dim={dim})[0]", a.shape, "f", True, a.tracked)
        else:
            self.new(f"{a.name}.cumsum(dim={dim}) * 0.2", a.shape, "f", False, a.tracked)

    def matmul(self):
        a, b = self.pick("f", rank=1, least=1), self.pick("f", rank=1, least=1)
        if not a:
            return
        tracked, roll = a.tracked or b.tracked, self.rng.random()
        if a.rank == 2 and b.rank == 2 and a.shape[1] == b.shape[0]:
            self.new(f"({a.name} @ {b.name}) * 0.3", (a.shape[0], b.shape[1]), "f", False, tracked)
        elif a.rank == 2 and b.rank == 2 and a.shape[0] == b.shape[0]:
            self.new(f"({a.name}.T @ {b.name}) * 0.3", (a.shape[1], b.shape[1]), "f", False, tracked)
        elif a.rank >= 2 and b.rank == 2 and a.shape[-1] == b.shape[-1]:
            self.new(f"({a.name} @ {b.name}.T) * 0.3", a.shape[:-1] + (b.shape[0],), "f", False, tracked)
        elif a.rank >= 2 and b.rank == 1 and a.shape[-1] == b.shape[0]:
            self.new(f"{a.name} @ {b.name} * 0.3", a.shape[:-1], "f", False, tracked)
        elif a.rank >= 2 and roll < 0.5:
            self.new(f"({a.name} @ {a.name}.transpose(-1, -2)) * 0.2", a.shape[:-1] + (a.shape[-2],), "f", False, a.tracked)
        elif a.rank >= 2 and self.fits(2):
            n = self.rng.randint(1, 9)
            self.new(f"F.linear({a.name}, gt.randn({n}, {a.shape[-1]}, dtype={self.dtype})) * 0.3", a.shape[:-1] + (n,), "f",
                     False, a.tracked)
        elif a.rank == 1:
            self.new(f"{a.name} @ {a.name} * 0.1", (), "f", False, a.tracked)

    def view(self):
        a = self.pick("f", "i", rank=1, least=1)
        if not a:
            return
        same = dict(kind=a.kind, exact=a.exact, tracked=a.tracked)
        d = self.rng.randrange(a.rank)
        roll = self.rng.randrange(10)
        if roll == 0:
            self.new(f"{a.name}.permute({tuple(reversed(range(a.rank)))})", a.shape[::-1], **same)
        elif roll == 1:
            dims = list(range(a.rank))
            self.rng.shuffle(dims)
            self.new(f"{a.name}.permute({tuple(dims)})", [a.shape[d] for d in dims], **same)
        elif roll == 2:
            shape = self.reshaped(a.shape)
            self.new(f"{a.name}.reshape({shape})", shape, **same)
        elif roll == 3:
            start, step = self.rng.randrange(a.shape[d]), self.rng.choice([1, 1, 2, 3])
            stop = self.rng.randint(start, a.shape[d])
            count = len(range(start, stop, step))
            if count:
                self.new(f"{a.name}[{':, ' * d}{start}:{stop}:{step}]", a.shape[:d] + (count,) + a.shape[d + 1:], **same)
        elif roll == 4:
            self.new(f"{a.name}.unsqueeze(0).expand(3, {', '.join(map(str, a.shape))})", (3,) + a.shape, **same)
        elif roll == 5:
            self.new(f"{a.name}[{self.rng.randrange(a.shape[0])}]", a.shape[1:], **same)
        elif roll == 6:
            self.new(f"{a.name}.flip({d})", a.shape, **same)
        elif roll == 7:
            self.new(f"{a.name}.roll({self.rng.randint(-3, 3)}, {d})", a.shape, **same)
        elif roll == 8 and a.rank >= 2:
            n, m = sorted(self.rng.sample(range(a.rank), 2))
            rest = tuple(s for k, s in enumerate(a.shape) if k not in (n, m))
            self.new(f"{a.name}.diagonal(0, {n}, {m})", rest + (min(a.shape[n], a.shape[m]),), **same)
        elif roll == 9 and a.shape[d] >= 2:
            windows = (a.shape[d] - 2) // 2 + 1
            self.new(f"{a.name}.unfold({d}, 2, 2)", a.shape[:d] + (windows,) + a.shape[d + 1:] + (2,), **same)

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
        roll, rest = self.rng.randrange(13), (a.shape[:d], a.shape[d + 1:])
        if roll == 0:
            self.new(f"gt.cat([{a.name}, {a.name} * 2, {a.name}], dim={d})", rest[0] + (3 * a.shape[d],) + rest[1], **same)
        elif roll == 1 and a.rank >= 2:
            self.new(f"gt.{self.rng.choice(['tril', 'triu'])}({a.name}, {self.rng.randint(-2, 2)})", a.shape, **same)
        elif roll == 2 and self.fits(1):
            n = self.rng.randint(1, 8)
            self.new(f"{a.name}.index_select({d}, gt.randint(0, {a.shape[d]}, ({n},)))", rest[0] + (n,) + rest[1], **same)
        elif roll == 3 and self.fits(a.rank):
            shape = rest[0] + (self.rng.randint(1, 6),) + rest[1]
            self.new(f"{a.name}.gather({d}, gt.randint(0, {a.shape[d]}, {shape}))", shape, **same)
        elif roll == 4 and self.fits(a.rank):
            self.new(f"gt.zeros({a.shape}, dtype={self.dtype}).scatter_add({d}, gt.randint(0, {a.shape[d]}, {a.shape}), "
                     f"{a.name})", a.shape, kind="f", exact=False, tracked=a.tracked)
        elif roll == 5 and not a.tracked:
            copy = self.new(f"{a.name} * 1.0", a.shape, **same)
            if copy:
                at = ", ".join(self.rng.choice([":", "0", "1:"]) for _ in a.shape)
                self.line(f"{copy.name}[{at}] = 0.5")
        elif roll == 6:
            self.new(f"gt.stack([{a.name}, {a.name} * 2], dim={d})", rest[0] + (2,) + a.shape[d:], **same)
        elif roll == 9 and self.fits(a.rank):
            self.new(f"gt.cat([{a.name}.flip({d}), gt.ones({a.shape}, dtype=gt.int32), {a.name} - 1], dim={d})",
                     rest[0] + (3 * a.shape[d],) + rest[1], **same)
        elif roll == 10 and self.fits(a.rank):
            self.new(f"{a.name}.scatter({d}, gt.randint(0, {a.shape[d]}, {rest[0] + (1,) + rest[1]}), 0.5)", a.shape, **same)
        elif roll == 11 and self.fits(a.rank):
            self.new(f"{a.name}.gather({d}, gt.randint(0, {a.shape[d]}, {a.shape}))", a.shape, **same)
        elif roll == 12 and not a.tracked:
            copy = self.new(f"{a.name} * 1.0", a.shape, **same)
            if copy:
                self.line(f"{copy.name}[{':, ' * d}{self.rng.randrange(a.shape[d])}::{self.rng.choice([1, 2, 3])}] = "
                          f"{a.name}.amax(dim={d}, keepdim=True)")
        elif roll == 7:
            self.new(f"F.pad({a.name}, (1, 2), value=0.5)", a.shape[:-1] + (a.shape[-1] + 3,), **same)
        else:
            self.new(f"{a.name}.{self.rng.choice(['contiguous()', 'clone()', f'chunk(1, dim={d})[0]'])}", a.shape, **same)

    def made(self, shape):
        """A new tensor, placed anywhere; sometimes a leaf."""
        leaf, signal = self.backward and self.rng.random() < 0.5, self.name()
        value = self.new(f"gt.randn({tuple(shape)}, dtype={self.dtype})", shape, "f", True, leaf)
        if self.rng.random() < 0.6 and self.allows(signal, len(shape)):
            self.line(f"{value.name} = gt.signal.tensor({value.name}, name='{signal}')")
        if leaf:
            self.line(f"leaves.append({value.name}.requires_grad_(True))")
        return value

    def layer(self):
        """A larger function: images, an embedding, equations, attention, a loss."""
        roll, n = self.rng.randrange(6), self.rng.randint(1, 9)
        if not all(self.fits(rank) for rank in (1, 2, 3, 4)):
            return
        if roll < 2:
            c = self.rng.choice([1, 2, 4])
            x, w = self.made((n, 2, 6, 6)), self.made((c, 2, 3, 3))
            text = self.rng.choice(["F.max_pool2d({}, 2)", "F.avg_pool2d({}, 2)", "F.interpolate({}, size=(3, 3))"])
            self.new(text.format(f"F.conv2d({x.name}, {w.name}, padding=1)"), (n, c, 3, 3), "f", False, x.tracked or w.tracked)
        elif roll == 2:
            table, shape = self.made((7, 5)), self.rng.choice([(n,), (2, n)])
            self.new(f"F.embedding(gt.randint(0, 7, {shape}), {table.name})", shape + (5,), "f", True, table.tracked)
        elif roll == 3:
            a, b = self.made((n, 3, 3)), self.made((1, 3, 2))
            self.new(f"gt.linalg.solve({a.name} + 9 * gt.eye(3, dtype={self.dtype}), {b.name})", (n, 3, 2), "f", False,
                     a.tracked or b.tracked)
        elif roll == 4:
            q, k = self.made((n, 2, 3, 4)), self.made((n, 2, 5, 4))
            self.new(f"F.scaled_dot_product_attention({q.name}, {k.name}, {k.name})", q.shape, "f", False, q.tracked or k.tracked)
        else:
            a = self.pick("f", rank=2, least=2)
            if a and a.rank == 2:
                self.new(f"F.cross_entropy({a.name}, gt.randint(0, {a.shape[1]}, ({a.shape[0]},)))", (), "f", False, a.tracked)

    def broadcast(self):
        """With a new tensor of other dimensions: fewer, more, or some of size 1."""
        a = self.pick("f", rank=1, least=1)
        if not a:
            return
        shape = [self.rng.choice([s, s, 1]) for s in a.shape][self.rng.randrange(a.rank):]
        if self.rng.random() < 0.4 and a.rank < 4:
            shape = [self.rng.choice([1, 2, 3])] + [self.rng.choice([s, 1]) for s in a.shape]
        if self.fits(len(shape)) and np.prod(shape) <= 5000:
            b = self.made(shape)
            text = self.rng.choice(["{0} + {1}", "{1} - {0}", "({0} * {1}).tanh()", "gt.where({1} > 0, {0}, {1})"])
            self.new(text.format(a.name, b.name), np.broadcast_shapes(a.shape, b.shape), "f", a.exact, a.tracked or b.tracked)

    def sums(self):
        """Sums that may be partial, added to each other and to other tensors, and scaled."""
        a = self.pick("f", rank=1, least=1)
        if a:
            d = self.rng.randrange(a.rank)
            shape = a.shape[:d] + (1,) + a.shape[d + 1:]
            text = self.rng.choice(["{0}.sum(dim={1}, keepdim=True) * 0.1 - {0}.mean()",
                                    "({0}.mean(dim={1}, keepdim=True) + {0}.sum()) * 0.01",
                                    "-({0}.mean(dim={1}, keepdim=True) + {0}.mean(dim={1}, keepdim=True)) / 3"])
            self.new(text.format(a.name, d), shape, "f", False, a.tracked)

    def accumulate(self):
        """Add a split tensor to one that is not split, at repeated indices."""
        a, signal = self.pick("f", rank=1, least=1), self.name()
        if a and a.size <= 500 and self.fits(a.rank) and self.allows_shape(signal, a.shape):
            d, n = self.rng.randrange(a.rank), self.rng.randint(1, 4)
            shape = a.shape[:d] + (n,) + a.shape[d + 1:]
            index = self.new(f"gt.signal.tensor(gt.randint(0, {n}, {a.shape}), name='{signal}')", a.shape, "i", True)
            base = self.made(shape)
            self.new(f"{base.name}.scatter_add({d}, {index.name}, gt.signal.tensor({a.name}, name='{signal}'))", shape, "f", False,
                     a.tracked or base.tracked)

    def place(self):
        a, signal = self.pick("f", "i", rank=1), self.name()
        if a and self.allows_shape(signal, a.shape):
            self.new(f"gt.signal.tensor({a.name}, name='{signal}')", a.shape, a.kind, a.exact, a.tracked)

    def forget(self):
        if len(self.values) > 16:
            gone = self.values.pop(self.rng.randrange(len(self.values) - 8))
            self.line(f"del {gone.name}")

    # ---- the whole ---------------------------------------------------------------------------------------------

    def scope(self):
        if self.scopes and self.rng.random() < 0.5:
            self.scopes.pop()
        elif len(self.scopes) < 3:
            name, backward = self.name(), self.rng.choice(["", "", f", backward='{self.name()}'"])
            self.line(f"with gt.signal.context('{name}'{backward}):")
            self.scopes.append(name)
            self.line("pass")

    def write(self):
        steps = [(self.create, 3), (self.unary, 4), (self.literal, 3), (self.binary, 5), (self.integers, 1),
                 (self.integer_sums, 1), (self.compare, 1), (self.use_mask, 1), (self.reduce, 4), (self.normalise, 2),
                 (self.order, 2), (self.matmul, 4), (self.view, 5), (self.move, 4), (self.layer, 3), (self.place, 4),
                 (self.broadcast, 3), (self.sums, 2), (self.accumulate, 1),
                 (self.forget, 1), (self.scope, 5)]
        functions, weights = zip(*steps)
        for _ in range(3):
            self.create()
        while self.count < OPS:
            self.rng.choices(functions, weights)[0]()
        self.scopes = []
        tracked = [v for v in self.values if v.tracked and v.kind == "f" and v.size]
        if tracked:
            self.line("loss = " + " + ".join(f"({v.name} * 0.1).tanh().mean()" for v in tracked[-6:]))
            self.line("loss.backward()")
        return self


# ---- running ----------------------------------------------------------------------------------------------------


def program_text(program):
    """The program as a function: its variables and the gradients of its leaves, by name, as arrays."""
    found = ", ".join(f"'{v.name}': {v.name}" for v in program.values)
    lines = ["def program():", "    gt.manual_seed(1)", "    leaves, loss = [], None"]
    lines += [f"    {line}" for line in program.lines]
    lines += [f"    found = {{{found}}}", "    found = {name: value.detach().numpy() for name, value in found.items()}",
              "    found['loss'] = None if loss is None else loss.detach().numpy()",
              "    for k, leaf in enumerate(leaves):",
              "        found[f'gradient {k}'] = None if leaf.grad is None else leaf.grad.numpy()", "    return found"]
    return "\n".join(lines)


def register(config, meaningful):
    """Register the config, unless the program runs on one worker."""
    for name, (axis, workers, replicated, backward, *mesh) in config.items():
        shard = gt.ShardConfig(axis, workers, replicated, *mesh) if meaningful and workers else None
        gt.register_config(name, gt.SignalConfig(shard, backward))


def script(program):
    """A file that runs the program on one worker and on several, by itself, and fails where they differ."""
    return f'''"""Program {program.seed} of tests/python/sharded_programs.py."""
import sys
import numpy as np
import gt
from gt.client.client import disconnect
from gt.nn import functional as F

CONFIG = {program.config!r}  # axis, workers, replicated, backward
EXACT = {[v.name for v in program.values if v.exact]!r}


{program_text(program)}


{inspect.getsource(register)}

{inspect.getsource(differs)}

gt.gpu_workers(1)
register(CONFIG, False)
plain = program()
disconnect()
gt.gpu_workers({program.workers})
register(CONFIG, True)
spread = program()
wrong = {{name: differs(plain[name], spread[name], name in EXACT, {program.single}) for name in plain}}
print("\\n".join(f"{{name}} {{text}}" for name, text in wrong.items() if text) or "agreed")
sys.exit(any(wrong.values()))
'''


def differences(program, connections, calls=1):
    """A text on the differences between one worker and several. connections: by number of workers. calls: of the program on
    several workers; the last one counts."""
    names = {"gt": gt, "np": np, "F": gt.nn.functional}
    exec(compile(program_text(program), f"<program {program.seed}>", "exec"), names)
    _gt.use(connections(1))
    register(program.config, False)
    plain = names["program"]()
    _gt.use(connections(program.workers))
    register(program.config, True)
    for _ in range(calls):
        spread = names["program"]()
    exact = {v.name for v in program.values if v.exact}
    wrong = {name: differs(plain[name], spread[name], name in exact, program.single) for name in plain}
    return [f"{name} {text}" for name, text in wrong.items() if text]


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


def run(program, connections, calls=1):
    """None, or a report with the program."""
    try:
        wrong = differences(program, connections, calls)
    except Exception as error:
        wrong = [f"{type(error).__name__}: {error}"]
    if not wrong:
        return None
    return f"program {program.seed}, on {program.workers} workers:\n  " + "\n  ".join(wrong) + "\n\n" + script(program)


def main(arguments, generator):
    first, last = int(arguments[0]), int(arguments[-1])
    servers = Connections()
    for seed in range(first, last + 1):
        report = run(generator(seed).write(), servers)
        if report:
            sys.exit(report)
    servers.close()
    print(f"{last - first + 1} programs agree")


if __name__ == "__main__":
    main(sys.argv[1:], Generator)
