"""Random programs of views and in-place operations, run in PyTorch and in GT.

A program is a list of Python lines over the names `lib`, v0, v1, ... The generator runs each line in torch while it writes the
program, because the next line depends on shapes. GT then runs the same lines. After each line both must agree: it worked, or
raised the same type of error for the same reason; at the end, every variable has the same value, shape, dtype, requires_grad,
is_leaf and gradient. A failing program is printed as a script.

Left out, because docs/pytorch.md lists them as differences: writes of a tensor to memory that overlaps it where torch cannot
tell, out= an expanded tensor where torch does not notice that, new .data of a tensor that has views or is one, the strides of what
autograd.grad returns, and leaves made of results that are views in torch only.

    python tests/python/alias_programs.py --seed 17          # show one program and what differs
    python tests/python/alias_programs.py --seed 1000 --count 100000 --processes 8     # many
"""

import argparse
import concurrent.futures
import gc
import multiprocessing
import random
import re
import sys
import time
import warnings

import numpy as np
import torch

import gt

# What a user may match on in PyTorch's messages. Where torch's text has one of these, ours has the same.
REASONS = [
    "a leaf Variable that requires grad",
    "a view of a leaf Variable that requires grad",
    "modified by an inplace operation",
    "view was created in no_grad mode",
    "is a view of a view which was created in no_grad mode",
    "returns multiple views",
    "more than one element of the written-to tensor",
    "view size is not compatible",
    "does not require grad",
    "backward through the graph a second time",
    "grad can be implicitly created only for scalar outputs",
    "only change requires_grad flags of leaf",
    "must match the existing size",
    "is invalid for input of size",
    "out of range",
    "doesn't match the broadcast shape",
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location",
]


def holds(condition, t):
    try:
        return condition(t)
    except RuntimeError:  # is_leaf and grad of a view that torch refuses to follow
        return False


def overlapping(t):
    """Whether two elements are in the same place."""
    places = torch.zeros((), dtype=torch.int64)
    for size, stride in zip(t.shape, t.stride()):
        places = places.unsqueeze(-1) + torch.arange(size) * stride
    return places.unique().numel() < t.numel()


def same_memory(a, b):
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def dense(t):
    """Whether torch can tell if it overlaps another such tensor. If not, the result depends on the order of the writes."""
    return torch.ops.aten.is_non_overlapping_and_dense(t)


def hook(operation, number):
    """A hook that does not refer to the program's variables, which would keep the graph alive."""
    return f"__import__('functools').partial(__import__('operator').{operation}, {number})"


class Writer:
    """Writes one program: keeps torch's state to know shapes and errors."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.torch = {"lib": torch}
        self.lines = []  # (line, the exception that torch raised or None)
        self.count = 0

    # ---- choices ----

    def pick(self, condition=lambda t: True):
        names = [name for name, t in self.torch.items() if isinstance(t, torch.Tensor) and holds(condition, t)]
        return self.rng.choice(names) if names else None

    def new_name(self):
        self.count += 1
        return f"v{self.count - 1}"

    def shape(self):
        return [self.rng.choice([1, 2, 3, 4]) for _ in range(self.rng.choice([0, 1, 1, 2, 2, 2, 3]))]

    def number(self):
        return self.rng.choice(["0.5", "2", "-1", "1.5", "0", "-0.25"])

    def axis(self, t):
        return self.rng.randrange(-t.dim(), t.dim()) if t.dim() else 0

    def key(self, t):
        """A basic subscript, nearly always within bounds."""
        items, axes = [], t.dim()
        used = self.rng.randint(0 if axes == 0 else 1, axes)
        for k in range(used):
            size = t.shape[k]
            choice = self.rng.random()
            if choice < 0.4 and size:
                items.append(str(self.rng.randrange(-size, size)))
            elif choice < 0.8:
                start = self.rng.choice(["", str(self.rng.randint(0, size))])
                stop = self.rng.choice(["", str(self.rng.randint(0, size)), "-1"])
                step = self.rng.choice(["", "", ":2"])
                items.append(f"{start}:{stop}{step}")
            else:
                items.append(":")
        if self.rng.random() < 0.1:
            items.insert(self.rng.randint(0, len(items)), "None")
        if self.rng.random() < 0.1 and used == axes:
            items.insert(self.rng.randint(0, len(items)), "...")
        return ", ".join(items) or "..."

    def factors(self, numel):
        """A shape with that many elements, with perhaps one -1."""
        shape, rest = [], numel
        while rest > 1:
            divisors = [d for d in range(2, rest + 1) if rest % d == 0]
            divisor = self.rng.choice(divisors)
            shape.append(divisor)
            rest //= divisor
        if self.rng.random() < 0.2:
            shape.insert(self.rng.randint(0, len(shape)), 1)
        if shape and numel and self.rng.random() < 0.4:
            shape[self.rng.randrange(len(shape))] = -1
        if numel == 0:
            shape = [0]
        return shape

    def like(self, name):
        """An operand that broadcasts to the shape of `name`: a variable, or a new constant."""
        t = self.torch[name]

        def fits(o):
            apart = o is t or not same_memory(o, t) or (dense(o) and dense(t))
            return o.is_floating_point() and apart and o.dim() <= t.dim() and all(
                a in (1, b) for a, b in zip(reversed(o.shape), reversed(t.shape)))

        if self.rng.random() < 0.7:
            other = self.pick(fits)
            if other:
                return other
        shape = list(t.shape)
        if shape and self.rng.random() < 0.3:
            shape[self.rng.randrange(len(shape))] = 1
        return self.constant(shape)

    def constant(self, shape):
        values = [self.rng.choice([0.5, -1.0, 2.0, 0.25, 3.0, -1.5]) for _ in range(int(np.prod(shape)))]
        return f"lib.tensor({values}, dtype=lib.float64).reshape({list(shape)})"

    # ---- lines ----

    def leaf(self):
        suffix = self.rng.choice(["", "", ".requires_grad_()", ".requires_grad_() * 1", ".requires_grad_() * 1"])
        return f"{self.new_name()} = {self.constant(self.shape())}.clone(){suffix}"

    def view(self):
        name = self.pick()
        t = self.torch[name]
        axis, size = self.axis(t), (t.shape[self.axis(t)] if t.dim() else 0)
        perm = self.rng.sample(range(t.dim()), t.dim())
        other = self.axis(t)
        axis_size = t.shape[axis] if t.dim() else 0
        start = self.rng.randint(0, max(axis_size - 1, 0))
        choices = [
            f"{name}[{self.key(t)}]", f"{name}[{self.key(t)}]", f"{name}[{self.key(t)}]",
            f"{name}.view({self.factors(t.numel())})", f"{name}.reshape({self.factors(t.numel())})",
            f"{name}.permute({perm})", f"{name}.squeeze()", f"{name}.unsqueeze({self.rng.randint(0, t.dim())})",
            f"{name}.detach()", f"{name}.data", f"{name}.flatten()", f"{name}.expand({[2] + list(t.shape)})",
            f"{name}.contiguous()", f"{name}.view_as({name})", f"{name}.expand_as({name})",
        ]
        if t.dim():
            choices += [
                f"{name}.transpose({axis}, {other})", f"{name}.narrow({axis}, {start}, {self.rng.randint(0, axis_size - start)})",
                f"{name}.select({axis}, {start})" if axis_size else f"{name}.detach()",
                f"{name}.chunk(2, {axis})[0]", f"{name}.split(2, {axis})[-1]", f"{name}.unbind({axis})[0]" if axis_size else f"{name}.detach()",
                f"list({name})[-1]" if t.shape[0] else f"{name}.detach()", f"{name}.movedim({axis}, {other})",
                f"{name}.unfold({axis}, {self.rng.randint(1, max(1, axis_size))}, {self.rng.randint(1, 3)})",
                f"{name}.swapaxes({axis}, {other})", f"{name}.squeeze({axis})", f"{name}.ravel()",
                f"{name}.tensor_split(2, {axis})[1]",
            ]
        if t.dim() == 2:
            choices += [f"{name}.t()", f"{name}.T", f"{name}.mT"]
        if t.dim() >= 2:
            choices += [f"{name}.diagonal()", f"{name}.diagonal(1, -1, -2)"]
        del size
        return f"{self.new_name()} = {self.rng.choice(choices)}"

    def compute(self):
        name = self.pick(lambda t: t.is_floating_point())
        other = self.like(name)
        choices = [
            f"{name} * {other}", f"{name} + {other}", f"{name} - {other}", f"{name} * {self.number()}", f"{name} + 1",
            f"{name}.tanh()", f"{name}.sigmoid()", f"{name}.relu()", f"{name}.exp().clamp(max=9.)", f"{name}.clone()", f"-{name}",
            f"{name}.sum()", f"{name} * {name}", f"{name}.abs()", f"lib.where({name} > 0, {name}, {other})",
            f"lib.cat([{name}.reshape(-1), {name}.reshape(-1)])", f"lib.zeros_like({name})", f"{name}.sin()", f"{name} / 2",
            f"{name}.pow(2)", f"{name}.flip({list(range(self.torch[name].dim()))})",
        ]
        t = self.torch[name]
        if t.dim() and t.shape[0]:
            choices += [f"{name}[{self.index(t.shape[0])}]", f"{name}.mean(0)", f"{name}.amax()", f"{name}.max()", f"{name}.min()",
                        f"{name}.max(0).values", f"{name}.median()"]
        return f"{self.new_name()} = {self.rng.choice(choices)}"

    def index(self, size):
        chosen = self.rng.sample(range(size), self.rng.randint(1, size))
        return f"lib.tensor({chosen})"

    def target(self):
        """Something to write to: a variable, or a view taken on the spot."""
        name = self.pick(lambda t: t.is_floating_point())
        t = self.torch[name]
        choice = self.rng.random()
        if choice < 0.45:
            return name, t
        if choice < 0.75:
            expression = f"{name}[{self.key(t)}]"
        elif choice < 0.85:
            expression = f"{name}.data[{self.key(t)}]"
        elif choice < 0.95:
            expression = f"{name}.detach()"
        else:
            expression = f"{name}.flatten()"
        try:
            return expression, eval(expression, self.torch)
        except Exception:  # the key was out of range
            return name, t

    def write(self):
        target, t = self.target()
        if overlapping(t):  # refused if expanded; the order of writes to overlapping windows is not specified
            return f"{target}.add_(1)" if 0 in t.stride() else self.read()
        self.torch["_t"] = t
        other = self.like("_t")
        del self.torch["_t"]
        if other == "_t":
            other = "1.5"
        scalar = self.number()
        choices = [
            f"{target}.add_({scalar})", f"{target}.mul_({scalar})", f"{target}.zero_()", f"{target}.fill_({scalar})",
            f"{target}.copy_({other})", f"{target}.add_({other})", f"{target}.mul_({other})", f"{target}.sub_({other})",
            f"{target}.clamp_(-1, 1)", f"{target}.tanh_()", f"{target}.relu_()", f"{target}.neg_()", f"{target}.sigmoid_()",
            f"{target}.div_(2)", f"{target}.masked_fill_({target} > 0, {scalar})", f"{target}.add_({other}, alpha=2)",
            f"{target}.exp_().clamp_(max=9.)", f"{target}.sin_()", f"{target}.pow_(2)", f"{target}.addcmul_({target}, {target}, value=0.5)",
            f"{target}.lerp_({target}.clone() + 1, 0.5)", f"lib.mul({self.constant(t.shape)}, 2, out={target})",
            f"lib.add({target}, 1, out={target})", f"lib.exp({self.constant(t.shape)}, out={target})",
        ]
        key = self.key(t)
        choices += [f"{target}[{key}] = {scalar}", f"{target}[{key}] += {scalar}", f"{target}[{key}] *= {scalar}"] * 2
        if t.dim() and t.shape[0]:
            index = self.index(t.shape[0])
            choices += [f"{target}[{index}] = {scalar}", f"{target}.index_fill_(0, {index}, {scalar})", f"{target}[{index}] += 1",
                        f"{target}[{target} > 0] = {scalar}", f"{target}.index_add_(0, {index}, {target}[{index}].detach().clone())"]
        if re.fullmatch(r"v\d+", target):
            choices += [f"{target} += {scalar}", f"{target} *= {other}", f"{target} -= 1",
                        f"{target}.unsqueeze_(0)" if self.rng.random() < 0.3 and not t.requires_grad else f"{target} /= 2"]
        return self.rng.choice(choices)

    def gradient(self):
        wanted = self.rng.random() < 0.9
        name = self.pick(lambda t: t.is_floating_point() and t.requires_grad >= wanted) or "v0"
        t = self.torch[name]
        retain = self.rng.choice(["", "retain_graph=True"])
        leaf = self.pick(lambda t: t._base is None and t.is_leaf and t.grad is not None)
        if leaf and self.rng.random() < 0.5:
            key = self.key(self.torch[leaf].grad)
            return self.rng.choice([
                f"{leaf}.grad.zero_()", f"{leaf}.grad[{key}].mul_(2)", f"{leaf}.grad = None", f"{self.new_name()} = {leaf}.grad",
                f"{leaf}.grad = {leaf}.grad.clone()", f"{leaf}.grad += 1", f"{leaf}.grad[{key}] = 3."])
        if self.rng.random() < 0.1:
            return f"{name}.requires_grad_(False)"
        if self.rng.random() < 0.1 and not self.has_views(t):
            return f"{name}.data = {self.constant(t.shape)}"
        if self.rng.random() < 0.2:
            self.run(f"{name}.is_leaf")  # torch computes the grad_fn of a view when it is asked for
            if attribute(t, "is_leaf") is True and (t._base is None or base(self.torch, t)):
                return f"{name}.requires_grad_()"
        return f"({name} * {self.rng.choice(['1.', '2.', name])}).sum().backward({retain})"

    def scattered(self):
        """A write of single elements or rows, by index."""
        target, t = self.target()
        if overlapping(t) or not t.dim() or not t.numel():
            return self.read()
        axis, size = self.axis(t), t.shape[0]
        index = self.index(size)
        rows = self.constant([len(eval(index, {"lib": torch})), *t.shape[1:]])
        picked = self.rng.choices(range(t.shape[axis]), k=self.rng.randint(1, t.shape[axis]))
        shape = [len(picked) if d == axis % t.dim() else 1 for d in range(t.dim())]
        places = f"lib.tensor({picked}).reshape({shape}).expand({[len(picked) if d == axis % t.dim() else n for d, n in enumerate(t.shape)]})"
        added = self.constant([len(picked) if d == axis % t.dim() else n for d, n in enumerate(t.shape)])
        return self.rng.choice([
            f"{target}.index_put_(({index},), lib.tensor(2., dtype=lib.float64))", f"{target}.index_put_(({index},), {rows}, accumulate=True)",
            f"{target}.index_copy_(0, {index}, {rows})", f"{target}.scatter_({axis}, {places}, {self.number()})",
            f"{target}.scatter_add_({axis}, {places}, {added})", f"{target}.masked_scatter_({target} > 0, {self.constant([t.numel()])})",
            f"{target}.masked_fill_({target}.detach() < 1, {self.number()})", f"{target}.take_along_dim({places}, {axis})",
            f"{target}.put_(lib.tensor([0]), lib.tensor([3.], dtype=lib.float64))", f"{target}[{index}] = {rows}",
        ])

    def reshaped(self):
        """In-place operations that change the shape, results in out=, new memory for a tensor."""
        name = self.pick(lambda t: t.is_floating_point() and not self.has_views(t) and not t.requires_grad)
        if not name:
            return self.leaf()
        t = self.torch[name]
        axis, other = self.axis(t), self.axis(t)
        if overlapping(t):
            return f"{name}.unsqueeze_(0)"
        choices = [f"{name}.unsqueeze_(0)", f"{name}.squeeze_()", f"lib.sum({self.constant([2, *t.shape])}, 0, out={name})",
                   f"lib.stack([{self.constant(t.shape)}]).squeeze_(0)"]
        if not any(o is not t and isinstance(o, torch.Tensor) and same_memory(o, t) for o in self.torch.values()):
            choices.append(f"{name}.set_({name}.detach().clone() + 1)")
        if t.dim():
            choices += [f"{name}.transpose_({axis}, {other})", f"lib.clamp({self.constant(t.shape)}, 0, 1, out={name})"]
        if t.dim() == 2:
            choices += [f"{name}.t_()", f"lib.mm({self.constant([t.shape[0], 2])}, {self.constant([2, t.shape[1]])}, out={name})"]
        return self.rng.choice(choices)

    def product(self):
        """A matrix product, which saves its operands, or copies of them."""
        name = self.pick(lambda t: t.is_floating_point() and t.dim() and t.numel())
        if not name:
            return self.leaf()
        inner = self.torch[name].shape[-1]
        other = self.pick(lambda t: t.is_floating_point() and t.dim() and t.shape[-1] == inner and t.numel()) or name
        square = self.constant([inner, 2])
        choices = [f"{name} @ {square}", f"{name} @ {square}.requires_grad_()", f"{name} @ {other}.mT" if self.torch[other].dim() > 1 else f"{name} @ {other}",
                   f"lib.nn.functional.linear({name}, {self.constant([2, inner])}, {self.constant([2])})",
                   f"lib.einsum('...i,ij->...j', {name}, {square})", f"lib.tensordot({name}, {square}, 1)"]
        return f"{self.new_name()} = {self.rng.choice(choices)}"

    def training(self):
        """What a training loop does to its parameters."""
        leaf = self.pick(lambda t: t._base is None and t.is_leaf and t.requires_grad)
        if not leaf:
            return f"{self.new_name()} = lib.nn.Parameter({self.constant(self.shape())})"
        t = self.torch[leaf]
        computed = self.pick(lambda o: o.is_floating_point() and o.requires_grad and o.numel()) or leaf
        # A gradient that is kept and has a graph itself would keep its tensor alive, and the tensor the gradient.
        kept = any(isinstance(o, torch.Tensor) and o.retains_grad for o in self.torch.values())
        hooked = self.pick(lambda o: o._base is None and o.requires_grad)  # torch crashes on views without a history
        choices = [
            f"lib.optim.SGD([{leaf}], lr=0.5).step()", f"lib.optim.SGD([{leaf}], lr=0.5, momentum=0.9).zero_grad()",
            f"{leaf}.register_hook({hook('mul', 2)})", f"{leaf}.grad = lib.zeros_like({leaf})", f"{leaf}.data.mul_(0.5)",
            f"{self.new_name()} = lib.nn.Parameter({leaf}.detach())", f"{self.new_name()} = lib.nn.Parameter({leaf}.data, requires_grad=False)",
            f"{leaf}.data.copy_({self.constant(t.shape)})", f"{leaf}.detach_()", f"lib.nn.init.constant_({leaf}, 0.5)",
            *(f"{self.new_name()} = [g if g is None else g.clone(memory_format=lib.contiguous_format) for g in lib.autograd.grad("
              f"({computed} * {computed}).sum(), {leaf}, allow_unused=True, {option}=True)][0]" for option in ("retain_graph", "retain_graph" if kept else "create_graph")),
            *([f"lib.nn.utils.clip_grad_norm_([{leaf}], 1.0)", f"lib.nn.utils.clip_grad_value_([{leaf}], 1.0)"] if t.grad is not None else []),
            f"{hooked}.register_hook({hook('add', 1)})", f"{hooked}.retain_grad()",
        ]
        return self.rng.choice(choices)

    def has_views(self, t):
        """Whether it is a view or has some: after x.data = y these belong to x's graph and to other memory."""
        tensors = [o for o in self.torch.values() if isinstance(o, torch.Tensor)]
        return t._base is not None or any(o._base is t for o in tensors)

    def read(self):
        return f"{self.pick()}.sum().item()"

    def line(self):
        kinds = [self.view] * 6 + [self.compute] * 4 + [self.write] * 7 + [self.gradient] * 2 + [self.read] + [self.leaf] + [
            self.scattered, self.scattered, self.product, self.product, self.training, self.training, self.reshaped]
        kind = self.rng.choice(kinds)
        line = kind()
        if self.rng.random() < 0.15 and kind != self.product:  # torch's result may be a view, and refuse later writes
            line = f"with lib.no_grad(): {line}"
        return line

    def run(self, line):
        error = execute(line, self.torch)
        self.lines.append((line, error))
        return error

    def write_program(self, length):
        self.run(self.leaf())
        self.run(self.leaf())
        for _ in range(length):
            line = self.line()
            if self.run(line) is not None and ".backward(" in line:
                break  # which gradients were added before the failure is not specified
            if any(isinstance(t, torch.Tensor) and t.numel() > 256 for t in self.torch.values()):
                break
        return self


def execute(line, names):
    try:
        exec(line, names)
    except Exception as error:  # noqa: BLE001 - the error is what is compared
        return error
    return None


def reasons(error):
    text = str(error).replace("torch.", "gt.")
    return {reason for reason in REASONS if reason in text}


def values(t):
    with gt.no_grad(), torch.no_grad():
        return t.clone().detach().numpy()


def difference(ours, theirs, what):
    """What differs between a GT and a torch tensor; None: nothing."""
    if tuple(ours.shape) != tuple(theirs.shape):
        return f"{what}: shape {tuple(ours.shape)}, torch {tuple(theirs.shape)}"
    if str(ours.dtype).split(".")[-1] != str(theirs.dtype).split(".")[-1]:
        return f"{what}: dtype {ours.dtype}, torch {theirs.dtype}"
    if not np.allclose(values(ours), values(theirs), rtol=1e-9, atol=1e-9, equal_nan=True):
        return f"{what}: {values(ours).tolist()}, torch {values(theirs).tolist()}"
    for name in ("requires_grad", "is_leaf"):
        if attribute(ours, name) != attribute(theirs, name):
            return f"{what}.{name}: {attribute(ours, name)}, torch {attribute(theirs, name)}"
    return None


def places(t):
    """Where the elements lie, as far as that can matter."""
    if not t.numel():
        return None
    return t.is_contiguous(), t.storage_offset(), [stride for size, stride in zip(t.shape, t.stride()) if size > 1]


def base(names, t):
    """The variables that it is a view of. The base may also be in no variable: results of some operations are views in torch."""
    return [name for name, other in names.items() if other is t._base and other is not None]


def attribute(t, name):
    """Its value, or why it cannot be read: torch refuses to follow some views."""
    try:
        return getattr(t, name)
    except RuntimeError as error:
        return reasons(error)


def compare(names, theirs):
    for name, t in theirs.items():
        if not isinstance(t, torch.Tensor):
            continue
        problem = difference(names[name], t, name)
        if problem:
            return problem
        if (t._base is None or base(theirs, t)) and base(names, names[name]) != base(theirs, t):
            return f"{name}._base: {base(names, names[name])}, torch {base(theirs, t)}"
        if places(names[name]) != places(t):
            return f"{name}: strides {names[name].stride()}, torch {t.stride()}"
        if attribute(t, "is_leaf") is not True:
            continue
        ours = names[name].grad
        if (ours is None) != (t.grad is None):
            return f"{name}.grad: {ours}, torch {t.grad}"
        problem = t.grad is not None and difference(ours, t.grad, f"{name}.grad")
        if problem:
            return problem
    return None


def check_program(seed, length=14, every_line=False):
    """None, or a text with the program and the first difference."""
    program = Writer(seed).write_program(length)
    names, done = {"lib": gt}, []
    theirs = {"lib": torch}

    def report(problem):
        return "\n".join([f"seed {seed}:", *done, f"# {problem}"])

    for line, expected in program.lines:
        error = execute(line, names)
        done.append(line + (f"  # {type(expected).__name__}: {str(expected)[:90]}" if expected else ""))
        if (error is None) != (expected is None) or (error is not None and not isinstance(error, type(expected))):
            return report(f"GT: {type(error).__name__ if error else 'no error'}: {error}")
        if expected is not None and ".backward(" not in line and not reasons(expected) <= reasons(error):
            return report(f"GT: {error}")
        if every_line:
            execute(line, theirs)
            problem = compare(names, theirs) if not (expected and ".backward(" in line) else None
            if problem:
                return report(problem)
    if program.lines[-1][1] is not None and ".backward(" in program.lines[-1][0]:
        return None
    problem = compare(names, program.torch)
    if problem and not every_line:
        return check_program(seed, length, every_line=True) or report(problem)
    return report(problem) if problem else None


def tape_length():
    """How many nodes there are."""
    gc.collect()
    gt.ones(1).requires_grad_().sum().backward()  # the end of a pass frees values that the graph has saved no longer
    return len(gt._gt._tape())


def check_block(first, count):
    """The programs of one block that differ, as texts, and how many nodes were not freed."""
    warnings.simplefilter("ignore")
    before = tape_length()
    problems = [problem for seed in range(first, first + count) if (problem := check_program(seed))]
    return problems, tape_length() - before


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--block", type=int, default=100, help="programs between two counts of the nodes")
    parser.add_argument("--show", type=int, default=5, help="print at most so many failing programs")
    arguments = parser.parse_args()
    failed, leaking, began = 0, 0, time.monotonic()
    end = arguments.seed + arguments.count
    blocks = {first: min(arguments.block, end - first) for first in range(arguments.seed, end, arguments.block)}
    torch.set_num_threads(1)
    with concurrent.futures.ProcessPoolExecutor(arguments.processes, multiprocessing.get_context("spawn"),
                                                torch.set_num_threads, (1,)) as pool:
        for first, (problems, left) in zip(blocks, pool.map(check_block, blocks, blocks.values())):
            for problem in problems[:max(0, arguments.show - failed)]:
                print(problem, end="\n\n", flush=True)
            failed += len(problems)
            leaking += left != 0
            if left:
                print(f"{left} nodes were not freed: seeds {first} to {first + blocks[first] - 1}", flush=True)
    print(f"{arguments.count} programs, {failed} differ, {leaking} blocks leak, {time.monotonic() - began:.0f} s")
    return failed != 0 or leaking != 0


if __name__ == "__main__":
    sys.exit(main())
