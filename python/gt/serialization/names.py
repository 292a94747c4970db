"""The names that a .pt file uses for PyTorch's types and functions, and what GT builds from them.

A .pt file is a pickle. A tensor in it is a call of torch._utils._rebuild_tensor_v2 with a storage, an offset, sizes and
strides; a storage is a persistent id that names a record of the archive. known() resolves these names without importing
PyTorch. Global stands for such a name when GT writes a file.
"""

import pickle
import reprlib
import warnings

from gt import _gt
from gt._gt import Tensor
from gt.client.storages import Memory

# The storage class of each dtype. Dtypes that this GT does not have are refused when a file uses them.
STORAGES = {
    'DoubleStorage': 'float64', 'FloatStorage': 'float32', 'HalfStorage': 'float16', 'BFloat16Storage': 'bfloat16',
    'LongStorage': 'int64', 'IntStorage': 'int32', 'ShortStorage': 'int16', 'CharStorage': 'int8', 'ByteStorage': 'uint8',
    'BoolStorage': 'bool', 'ComplexFloatStorage': 'complex64', 'ComplexDoubleStorage': 'complex128'}
STORAGE_OF = {getattr(_gt, dtype): storage for storage, dtype in STORAGES.items() if hasattr(_gt, dtype)}
# PyTorch's other dtypes, which a file may also name.
_OTHER_DTYPES = (
    'uint16', 'uint32', 'uint64', 'complex32', 'float8_e4m3fn', 'float8_e5m2', 'float8_e4m3fnuz', 'float8_e5m2fnuz',
    'float8_e8m0fnu', 'float4_e2m1fn_x2', 'quint8', 'qint8', 'qint32', 'quint4x2', 'quint2x4')
_DTYPES = {*STORAGES.values(), *_OTHER_DTYPES}
_LARGEST_EXPANSION = 1 << 32  # bytes of a tensor that repeats the elements of its storage
_MOST_COPIES = 16  # of the elements of a storage, by tensors that are views for PyTorch and copies for GT


_short = reprlib.Repr()
_short.maxlevel, _short.maxstring, _short.maxother = 2, 60, 60


def shown(value):
    """A value of a file, for an error: short, whatever it is."""
    try:
        return _short.repr(value)[:100]
    except Exception:  # an integer of a million digits
        return f'a value of type {type(value).__name__}'


class Global:
    """A name in PyTorch's package, written to a file without importing PyTorch."""

    def __init__(self, module, name):
        self.module, self.name = module, name

    def __call__(self, *args):
        raise TypeError(f'{self.module}.{self.name} is only a name here')


class StorageType:
    """The class of a storage, such as torch.FloatStorage: its dtype."""

    def __init__(self, dtype):
        self.dtype = dtype


def _refused(what):
    return pickle.UnpicklingError(f'{what} is not supported by GT')


def _dtype(name):
    if not hasattr(_gt, name):
        raise _refused(f'dtype torch.{name}')
    return getattr(_gt, name)


# ---- storages ------------------------------------------------------------------------------------------------


def _whole(values):
    return isinstance(values, (tuple, list)) and all(type(value) is int and value >= 0 for value in values)


def packed_strides(size):
    """The strides of a tensor whose elements are in order, as PyTorch counts them."""
    strides, step = [], 1
    for length in reversed(size):
        strides.append(step)
        step *= max(length, 1)
    return tuple(reversed(strides))


class Storage:
    """The elements of one record. Tensors of the same storage share their memory."""

    def __init__(self, dtype, data, location='cpu'):
        self.dtype, self.location = dtype, location
        self._data, self._memories = data, {}
        self._copies = _MOST_COPIES * len(data) + (1 << 20)  # bytes that may still be copied

    def __len__(self):
        return len(self._data) // self.dtype.itemsize

    def _moved(self, *args, **options):
        """Every device is GT's: the storage itself."""
        return self

    cpu = cuda = to = pin_memory = _moved

    def copy_of(self, tensor, made):
        """made(tensor), which needs memory of its own: small files must not take any amount of it."""
        self._copies -= tensor.numel() * tensor.element_size()
        if self._copies < 0:
            raise pickle.UnpicklingError(f'a tensor of size {tuple(tensor.shape)} copies the elements of its storage once too '
                                         'often')
        return made(tensor)

    def close(self):
        """Release the memory that belongs to the file."""
        self._data = b''
        self._memories.clear()

    def tensor(self, offset, size, stride, dtype=None):
        """A tensor with this view of the elements, after checking that all of them are in the storage."""
        dtype = dtype or self.dtype
        if type(offset) is not int or offset < 0 or not _whole(size) or not _whole(stride) or len(size) != len(stride):
            raise pickle.UnpicklingError(f'a tensor with offset {shown(offset)}, size {shown(size)} and stride '
                                         f'{shown(stride)}')
        length = 1
        for extent in size:
            length *= extent
        last = offset + sum((extent - 1) * step for extent, step in zip(size, stride))
        have = len(self._data) // dtype.itemsize
        if length and last >= have:
            raise pickle.UnpicklingError(f'a tensor of size {tuple(size)} and stride {tuple(stride)} at offset {offset} '
                                         f'needs {last + 1} elements, but its storage has {have}')
        if length > have and length * dtype.itemsize > _LARGEST_EXPANSION:
            raise pickle.UnpicklingError(f'a tensor of size {tuple(size)} repeats the {have} elements of its storage')
        size, stride = tuple(size), tuple(stride)
        if dtype not in self._memories:
            root, taken = self._root(dtype, offset, size, stride, length, have)
            self._memories[dtype] = Memory(root)
            if taken:
                return root
        return self._memories[dtype].tensor(size, stride, offset)

    def _root(self, dtype, offset, size, stride, length, have):
        """(the tensor with all elements, whether it is the wanted one)"""
        order = sorted(range(len(size)), key=lambda axis: -stride[axis])
        inner = [size[axis] for axis in order]
        data = self._data[:have * dtype.itemsize]
        if offset or length != have or not length or [stride[axis] for axis in order] != list(packed_strides(inner)):
            return _gt._rebuild(data, dtype, (have,), False), False
        if order == sorted(order):
            return _gt._rebuild(data, dtype, size, False), True
        import numpy as np
        words = np.frombuffer(data, np.dtype((np.void, dtype.itemsize))).reshape(inner)
        elements = words.transpose([order.index(axis) for axis in range(len(size))]).tobytes()
        laid = _gt.empty(have, dtype=dtype).as_strided(size, stride)
        return _gt._rebuild(elements, dtype, size, False)._laid_like(laid), True


# ---- the functions that a file may call ----------------------------------------------------------------------


def _rebuild_tensor(storage, offset, size, stride, dtype=None):
    if not isinstance(storage, Storage):
        raise pickle.UnpicklingError(f'a tensor of {type(storage).__name__}, not of a storage')
    return storage.tensor(offset, size, stride, dtype)


def _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, backward_hooks, metadata=None, dtype=None):
    tensor = _rebuild_tensor(storage, offset, size, stride, dtype)
    for bit, set in (metadata or {}).items():
        if set and bit == 'neg':
            tensor = storage.copy_of(tensor, lambda view: -view)
        elif set and bit == 'conj':
            tensor = storage.copy_of(tensor, lambda view: view.conj())
    return tensor.requires_grad_() if requires_grad else tensor


def _rebuild_tensor_v3(storage, offset, size, stride, requires_grad, backward_hooks, dtype, metadata=None):
    return _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, backward_hooks, metadata, dtype)


def _rebuild_parameter(data, requires_grad=True, backward_hooks=None):
    from gt.nn import Parameter
    return Parameter(data, requires_grad)


def set_attributes(target, state):
    """Give a tensor the attributes of a saved one; warn where tensors take none."""
    if isinstance(state, tuple) and len(state) == 2:
        state = {**(state[0] or {}), **(state[1] or {})}
    for name, value in (state or {}).items():
        try:
            setattr(target, name, value)
        except AttributeError:
            warnings.warn(f'the attribute {name!r} of a saved tensor is dropped', stacklevel=2)
    return target


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    return set_attributes(_rebuild_parameter(data, requires_grad), state)


def _rebuild_from_type_v2(function, new_type, args, state):
    if function not in _REBUILD.values():
        raise pickle.UnpicklingError(f'Trying to call reduce for unrecognized function {function}')
    result = function(*args)
    if new_type is not Tensor and not isinstance(result, new_type):
        result = result.as_subclass(new_type)
    return set_attributes(result, state)


def _rebuild_device_tensor(data, dtype, device, requires_grad):
    return _gt.as_tensor(data).to(dtype).requires_grad_(requires_grad)


def _device(*args):
    from gt import device
    return device(*args)


def _size(values):
    from gt import Size
    return Size(values)


_REBUILD = {
    'torch._utils._rebuild_tensor': _rebuild_tensor,
    'torch._utils._rebuild_tensor_v2': _rebuild_tensor_v2,
    'torch._utils._rebuild_tensor_v3': _rebuild_tensor_v3,
    'torch._utils._rebuild_parameter': _rebuild_parameter,
    'torch._utils._rebuild_parameter_with_state': _rebuild_parameter_with_state,
    'torch._utils._rebuild_device_tensor_from_cpu_tensor': _rebuild_device_tensor,
    'torch._utils._rebuild_device_tensor_from_numpy': _rebuild_device_tensor,
    'torch._tensor._rebuild_from_type_v2': _rebuild_from_type_v2,
}
_OTHERS = {
    'torch.nn.parameter.Parameter': _rebuild_parameter, 'torch.device': _device, 'torch.Size': _size,
    'torch.Tensor': Tensor, 'torch.storage.UntypedStorage': StorageType(_gt.uint8),
    'torch.UntypedStorage': StorageType(_gt.uint8)}


def known(module, name):
    """What GT has for a name in PyTorch's package; None: nothing."""
    path = f'{module}.{name}'
    found = _REBUILD.get(path) or _OTHERS.get(path)
    if found is None and module == 'torch' and name in STORAGES:
        found = StorageType(_dtype(STORAGES[name]))
    elif found is None and module == 'torch' and name in _DTYPES:
        found = _dtype(name)
    elif found is None and path.startswith('torch._utils._rebuild_'):
        raise _refused(f'a tensor made by {path}')
    return found
