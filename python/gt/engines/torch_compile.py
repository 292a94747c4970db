"""Planned sequences on the engine `pytorch`: torch.compile.

The engine's own methods run on tensors that only trace (make_fx), and the graph goes to torch.compile. Steps that look at values
on the way, as those with indices do to check them, and steps that are left to `reference` are not part of it; they run one by
one in between.
"""

import functools

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from gt.engines import plan


class _Slot:
    """A value while its steps are traced. Looks like a view."""

    def __init__(self, value, tensor=None):
        self.dtype, self.shape, self.stride = value.dtype, value.shape, value.stride
        self.numel = 1
        for size in value.shape:
            self.numel *= size
        self.contiguous, self.descending = True, False
        self.address, self.memory, self.offset = id(self), self, 0
        self.result = tensor
        self.root, self.start = None, 0  # of values made in the part: the tensor with the memory, and its offset there


def tracing(engine):
    """An engine of the same methods whose views are slots."""
    class Tracer(engine):
        def __init__(self, dtypes):
            self.dtypes = dtypes

        def tensor(self, slot):
            if slot.result is None:
                slot.result = torch.empty(slot.shape, dtype=self.dtypes[slot.dtype], device=self.device)
            return slot.result

        def operand(self, value, dtype):
            if isinstance(value, torch.Tensor):  # a number; halves are multiplied by numbers in single precision
                return value.to(torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype)
            return engine.operand(self, value, dtype)

        def store(self, out, result):
            target = self.tensor(out)
            if result.dtype is target.dtype and result.shape == target.shape:
                out.result = result.contiguous()
            else:
                engine.store(self, out, result)
    return Tracer


def run_step(tracer, step, slots, numbers):
    """Compute a step's slot from those of its operands. Raises if it cannot be traced."""
    value = step.result
    if step.kind == 'view':
        base = slots[step.operands[0].number]
        if base.dtype != value.dtype or min(value.stride, default=0) < 0:
            raise NotImplementedError('a view that PyTorch does not have')
        offset = (value.offset - base.start) // base.root.itemsize
        slot = _Slot(value, base.root.as_strided(value.shape, value.stride, offset))
        slot.root, slot.start = base.root, base.start
    else:
        slot = _Slot(value)
        operands = [slots[operand.number] if isinstance(operand, plan.Value) else
                    next(numbers) if isinstance(operand, plan.Number) else operand for operand in step.operands]
        result = getattr(tracer, step.op)(slot, *operands, **step.attributes)
        if result is NotImplemented:
            raise NotImplementedError(step.op)
        if result is not None:
            tracer.store(slot, result)
        slot.root, slot.start = slot.result, value.offset
    slots[value.number] = slot


def number_tensors(values):
    return [torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None) for value in values]


class _Compiler:
    def __init__(self, engine, dtypes, steps, compiler):
        self.engine, self.steps, self.dtypes, self.compiler = engine, steps, dtypes, compiler
        self.tracer = tracing(type(engine))(dtypes)

    def example(self, value):
        """A tensor that looks as a value of the plan will."""
        if min(value.stride, default=0) < 0:
            raise NotImplementedError('negative strides')
        return torch.empty_strided(value.shape, value.stride, dtype=self.dtypes[value.dtype], device=self.engine.device)

    def replay(self, chosen, reads, writes):
        """A function of the reads and the numbers: the writes."""
        def run(*tensors):
            slots = {}
            for value, tensor in zip(reads, tensors):
                slots[value.number] = _Slot(value, tensor)
            numbers = iter(tensors[len(reads):])
            for k in chosen:
                step = self.steps[k]
                if step.kind == 'view' and slots[step.operands[0].number].root is None:
                    continue  # of memory from outside: the result is one of the reads, if it is read here
                run_step(self.tracer, step, slots, numbers)
            return [slots[value.number].result for value in writes]
        return run

    def number_examples(self, chosen):
        return number_tensors(operand.value for k in chosen for operand in self.steps[k].operands
                              if isinstance(operand, plan.Number))

    def traceable(self, step):
        """Whether the step alone can be traced."""
        if step.kind == 'view':
            return True
        if step.moves or not hasattr(self.engine, step.op):
            return False
        try:
            with FakeTensorMode():
                slots = {value.number: _Slot(value, self.example(value)) for value in step.operands
                         if isinstance(value, plan.Value)}
                numbers = number_tensors(value.value for value in step.operands if isinstance(value, plan.Number))
                run_step(self.tracer, step, slots, iter(numbers))
            return True
        except Exception:  # whatever a function says to a tensor without values
            return False

    def part(self, chosen):
        reads, writes = plan.reads_and_writes(self.steps, chosen)
        examples = [self.example(value) for value in reads] + self.number_examples(chosen)
        graph = make_fx(self.replay(chosen, reads, writes), tracing_mode='fake')(*examples)
        compiled = self.compiler(graph)
        with torch.no_grad():
            compiled(*examples)  # compiles

        def function(views, numbers):
            with torch.no_grad():
                return compiled(*(self.engine.tensor(view) for view in views), *number_tensors(numbers))
        return plan.Part(chosen.start, len(chosen), writes, reads, function)


def compile_steps(engine, dtypes, steps, compiler=functools.partial(torch.compile, dynamic=False)):
    """Parts of a plan that `compiler` takes: a function of a graph that returns a function."""
    compiler = _Compiler(engine, dtypes, steps, compiler)
    return [compiler.part(chosen) for chosen in plan.ends_of_parts(steps, compiler.traceable)]
