"""Engines in Python: a class whose methods execute a worker's instructions.

    import numpy as np
    import gt

    class Loud(gt.engines.Engine):
        def add(self, out, a, b, compute):
            print('add', out.shape)
            np.add(a, b, out=np.asarray(out), dtype=compute)

    gt.engines.register('loud', Loud)       # before the first tensor, with GT_BACKEND=loud

A method has the name of an op. It gets the result and the operands, then immediates by name (docs/engines.md). Ops without a
method run on the `reference` engine. `numpy` and `pytorch` are engines of this kind; a module `gt_engine_NAME` with a class
`Engine` is found by its name, also by `python -m gt.worker --backend NAME`.
"""

import importlib
import importlib.util

from gt._gt import EngineView, _engine_names, _engine_register

__all__ = ['Engine', 'EngineView', 'names', 'register']

_MODULES = {'numpy': 'gt.engines.numpy_engine', 'pytorch': 'gt.engines.torch_engine'}


class Engine:
    """The base of engines in Python; one object for each worker, called by that worker's thread alone.

    With `host_memory` the worker has the memory, and views of it are arrays without a copy: `numpy.asarray(view)`,
    `torch.from_dlpack(view)`. Without it the class has the memory and defines `allocate`, `write`, `read`,
    `memory_limit` and `memory_identity`; views then have `memory` and `offset`.
    """

    host_memory = True

    def __init__(self, threads: int = 0):
        """`threads` to compute with; 0: the engine decides."""
        self.threads = threads

    def close(self) -> None:
        """The worker ends."""

    def store(self, out: EngineView, result) -> None:
        """Copy what a method returned into its result. Called if that is not None.

        A number fills the result; an array must have its shape. Numbers are rounded to a bfloat16 result; an array of uint16 is
        taken for its bits.
        """
        import numpy
        result = numpy.asarray(result)
        if result.ndim and result.shape != tuple(out.shape):
            raise ValueError(f'the method returned an array of shape {result.shape}, expected {tuple(out.shape)}')
        if out.dtype == 'bfloat16':
            from gt.engines.numpy_engine import narrowed
            if result.dtype != numpy.uint16:
                result = narrowed(result.real.astype(numpy.float32))
        numpy.copyto(numpy.asarray(out), result, casting='unsafe')

    def allocate(self, size: int):
        """An object that stands for `size` bytes of memory, or MemoryError."""
        raise NotImplementedError(f'{type(self).__name__} has no memory of its own')

    def write(self, memory, offset: int, data: memoryview) -> None:
        """Copy bytes of the host, which are lent for this call and read-only, into memory, from `offset` on."""
        raise NotImplementedError(f'{type(self).__name__} has no memory of its own')

    def read(self, memory, offset: int, data: memoryview) -> None:
        """Copy bytes from memory, from `offset` on, to the host's, which are lent for this call."""
        raise NotImplementedError(f'{type(self).__name__} has no memory of its own')

    def memory_limit(self, sharers: int) -> int:
        """Bytes that tensors may take, with this number of workers on the same memory."""
        raise NotImplementedError(f'{type(self).__name__} has no memory of its own')

    def memory_identity(self, _unused: int = 0) -> int:
        """A number; engines that draw on the same memory have the same one."""
        raise NotImplementedError(f'{type(self).__name__} has no memory of its own')


def register(name: str, engine: type) -> None:
    """Make a class an engine that GT_BACKEND and workers find by name.

    Arguments:
        name: letters, digits, - and _; not that of another engine.
        engine: a subclass of Engine, or any class with the same methods.

    Example:
        gt.engines.register('mine', MyEngine)
    """
    if name in _MODULES:
        raise ValueError(f"'{name}' cannot be the name of an engine: there is one in this package")
    _engine_register(name, engine)


def names() -> list:
    """The engines in Python that there are: those of this package and registered ones."""
    return sorted({*_MODULES, *_engine_names()})


def _load(name):
    """Register the engine of a module, if there is one of this name. Called by the extension."""
    module = _MODULES.get(name, f'gt_engine_{name.replace("-", "_")}')
    if name in _MODULES or importlib.util.find_spec(module):
        _engine_register(name, importlib.import_module(module).Engine)


def _compile(engine, values, steps, marked):
    """Called by the extension, with the descriptions of a plan."""
    from gt.engines.plan import compile_plan
    return compile_plan(engine, values, steps, marked)


def _listed():
    return ', '.join(names())
