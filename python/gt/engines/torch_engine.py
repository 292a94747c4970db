"""The engine `pytorch`: PyTorch's operations on a GPU that PyTorch has (CUDA, MPS), else on the CPU.

On the CPU the tensors are PyTorch's views of the worker's memory. On a device the memory is PyTorch's: a block is a tensor of
bytes, and an operand is a view of it. GT_TORCH_DEVICE names another device, such as cuda:1 or cpu.

The ops are in torch_ops.py and torch_layers.py. Random numbers, whose values GT defines, and rare ops are left to the
`reference` engine.
"""

import os
import warnings
import zlib

import torch
from torch.utils.dlpack import from_dlpack

from gt import engines
from gt.engines import torch_layers, torch_ops

DTYPES = {name: getattr(torch, name) for name in (
    'bool', 'uint8', 'int8', 'int16', 'int32', 'int64', 'float16', 'bfloat16', 'float32', 'float64', 'complex64', 'complex128')}

warnings.filterwarnings('ignore', 'The given buffer is not writable')  # `write` only reads it


def choose_device() -> torch.device:
    """The device of GT_TORCH_DEVICE, else the first one that PyTorch can use."""
    name = os.environ.get('GT_TORCH_DEVICE')
    if name:
        return torch.device(name)
    if torch.cuda.is_available():
        return torch.device('cuda', torch.cuda.current_device())
    if torch.backends.mps.is_available():
        return torch.device('mps')
    return torch.device('cpu')


class Engine(engines.Engine):
    """PyTorch as an engine. Every method gets views; `tensor` and `operand` make tensors of them."""

    device = choose_device()
    host_memory = device.type == 'cpu'

    def __init__(self, threads: int = 0):
        super().__init__(threads)
        torch.empty(1, device=self.device)  # a device that is not there fails here, and not with the first tensor
        if threads and threads != torch.get_num_threads():
            torch.set_num_threads(threads)

    # ---- memory that the host cannot read ---------------------------------------------------------------------

    def allocate(self, size):
        try:
            return torch.empty((size + 63) // 64 * 64, dtype=torch.uint8, device=self.device)
        except torch.OutOfMemoryError as error:
            raise MemoryError(str(error)) from None

    def write(self, memory, offset, data):
        memory[offset:offset + len(data)].copy_(torch.frombuffer(data, dtype=torch.uint8))

    def read(self, memory, offset, data):
        torch.frombuffer(data, dtype=torch.uint8).copy_(memory[offset:offset + len(data)])

    def memory_limit(self, sharers):
        if self.device.type == 'cuda':
            free, _total = torch.cuda.mem_get_info(self.device)
            return (free + torch.cuda.memory_reserved(self.device)) * 9 // 10 // max(sharers, 1)
        if self.device.type == 'mps':
            return torch.mps.recommended_max_memory() * 9 // 10 // max(sharers, 1)
        return (1 << 34) // max(sharers, 1)

    def memory_identity(self, _unused=0):
        name = str(self.device)
        if self.device.type == 'cuda':
            name = str(torch.cuda.get_device_properties(self.device).uuid)
        return zlib.crc32(name.encode()) + 1

    # ---- tensors of views -------------------------------------------------------------------------------------

    def tensor(self, view):
        """The elements of a view: a tensor on its memory, or a copy if it has negative strides."""
        if view.descending:
            view, flipped = view.ascending()
            return self.tensor(view).flip(flipped)
        if self.host_memory:
            return from_dlpack(view.__dlpack__())
        dtype = DTYPES[view.dtype]
        return view.memory.view(dtype).as_strided(view.shape, view.stride, view.offset // dtype.itemsize)

    def operand(self, value, dtype):
        """A view as a tensor of this dtype; a number as it is."""
        if isinstance(value, (bool, int, float)):
            return value
        tensor = self.tensor(value)
        return tensor if tensor.dtype is dtype else tensor.to(dtype)

    def store(self, out, result):
        target = self.tensor(out)
        if result.is_complex() and not target.is_complex():
            result = result.ne(0) if target.dtype is torch.bool else result.real
        target.copy_(result)

    # ---- planned sequences ------------------------------------------------------------------------------------

    def compile(self, steps, marked):
        """torch.compile for what the program marks by gt.compile or `compile: true`: it takes seconds."""
        if not marked:
            return NotImplemented
        from gt.engines.torch_compile import compile_steps
        return compile_steps(self, DTYPES, steps)


torch_ops.install(Engine, DTYPES)
torch_layers.install(Engine, DTYPES)
