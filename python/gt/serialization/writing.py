"""Writing .pt files: the archives that torch.save writes, which PyTorch and GT read.

The pickle uses PyTorch's names for tensors, parameters, dtypes, devices and sizes. PyTorch need not be installed. Tensors
that share memory share a record, which has all of that memory. Records begin at multiples of 64 bytes, so that a reader may map them.
"""

import io
import pickle
import struct
import sys
import zipfile
from collections import OrderedDict

from gt import _gt
from gt._gt import Tensor
from gt.client.device import device
from gt.client.storages import plain_class, typed
from gt.serialization.names import STORAGE_OF, Global, packed_strides

_ALIGNMENT = 64
_ZIP64_LIMIT = (1 << 31) - 1
_DATE = (1980, 1, 1, 0, 0, 0)  # the same content gives the same file

_REBUILD_TENSOR = Global('torch._utils', '_rebuild_tensor_v2')
_REBUILD_PARAMETER = Global('torch._utils', '_rebuild_parameter')
_REBUILD_PARAMETER_WITH_STATE = Global('torch._utils', '_rebuild_parameter_with_state')
_REBUILD_FROM_TYPE = Global('torch._tensor', '_rebuild_from_type_v2')
_TENSOR, _DEVICE, _SIZE = Global('torch', 'Tensor'), Global('torch', 'device'), Global('torch', 'Size')
_DTYPES = {dtype: Global('torch', dtype.name) for dtype in STORAGE_OF}
_STORAGE_TYPES = {dtype: Global('torch', name) for dtype, name in STORAGE_OF.items()}


class _Stored:
    """The memory of a tensor, as a storage of the file: `number` is the same for tensors that share it, or None."""

    def __init__(self, elements, number=None, owner=None):
        self.elements, self.number, self.owner = elements, number, owner


def _of_torch(value):
    """Whether it is a tensor of PyTorch."""
    return type(value).__module__.partition('.')[0] == 'torch' and hasattr(value, '__dlpack__')


class Records:
    """The storages of a file: each memory once."""

    def __init__(self):
        self.keys, self.stored = {}, []

    def identity(self, stored):
        """The persistent id of a storage."""
        elements, key = stored.elements, self.keys.get(stored.number)
        if key is None:
            key = len(self.stored)
            self.stored.append(stored)
            if stored.number is not None:
                self.keys[stored.number] = key
        elif self.stored[key].elements.dtype != elements.dtype:
            raise RuntimeError('Cannot save multiple tensors or storages that view the same data as different types')
        return 'storage', _STORAGE_TYPES[elements.dtype], str(key), 'cpu', elements.numel()

    def reduce(self, value):
        """How PyTorch would pickle a value; NotImplemented: as Python does."""
        kind = type(value)
        if isinstance(value, Tensor):
            return self._reduce_tensor(value) if plain_class(value) is Tensor else self._reduce_parameter(value)
        if kind is _gt.dtype:
            return _DTYPES[value].name
        if kind is device:
            where = ('cpu',) if value.type == 'gt' else (value.type,)
            return _DEVICE, where if value.index is None else (*where, value.index)
        if isinstance(value, tuple) and kind is not tuple and kind is _size_type():
            return _SIZE, (tuple(value),)
        if _of_torch(value):
            plain = _gt.as_tensor(value.detach().cpu()).requires_grad_(value.requires_grad)
            if kind.__name__ == 'Parameter':
                return _REBUILD_PARAMETER, (plain.detach(), value.requires_grad, OrderedDict())
            return self._reduce_tensor(plain)
        return NotImplemented

    @staticmethod
    def _reduce_tensor(tensor):
        size, shared = tuple(tensor.shape), tensor._memory()
        if shared is None:
            stored, offset, stride = _Stored(tensor), 0, packed_strides(size)
        else:  # the tensor that is kept keeps the memory, and so its number
            stored = _Stored(typed(shared[1], tensor.dtype), shared[0], tensor.detach())
            offset, stride = tensor.storage_offset(), tensor.stride()
        args = stored, offset, size, stride, tensor.requires_grad, OrderedDict()
        state = getattr(tensor, '__dict__', None)
        if state:
            return _REBUILD_FROM_TYPE, (_REBUILD_TENSOR, _TENSOR, args, state)
        return _REBUILD_TENSOR, args

    @staticmethod
    def _reduce_parameter(parameter):
        from gt.nn import Parameter
        if type(parameter) is not Parameter:
            return NotImplemented
        args = parameter.detach(), parameter.requires_grad, OrderedDict()
        state = getattr(parameter, '__dict__', None)
        if state:
            return _REBUILD_PARAMETER_WITH_STATE, (*args, state)
        return _REBUILD_PARAMETER, args


def _size_type():
    from gt import Size
    return Size


def _pickler(base, file, protocol, records):
    """A pickler that writes PyTorch's names; `base` is the Python version of Pickler, in which methods can be replaced."""
    class Pickler(base):
        def persistent_id(self, value):
            return records.identity(value) if type(value) is _Stored else None

        def reducer_override(self, value):
            return value.name if type(value) is Global else records.reduce(value)

        def save_global(self, value, name=None):
            found = _DTYPES.get(value) if type(value) is _gt.dtype else value
            if type(found) is not Global:
                return super().save_global(value, name)
            self.write(pickle.GLOBAL + f'{found.module}\n{found.name}\n'.encode())
            self.memoize(value)
    return Pickler(file, protocol)


def _python_pickler(pickle_module):
    """The class to derive from; None: the module has only one written in C, which cannot write PyTorch's names."""
    if pickle_module is pickle:
        return pickle._Pickler
    found = pickle_module.Pickler
    return found if issubclass(found, pickle._Pickler) else None


def _add(archive, name, data):
    """Add a record, its data at a multiple of 64 bytes."""
    entry = zipfile.ZipInfo(name, _DATE)
    entry.CRC, entry.file_size = 0, memoryview(data).nbytes
    large = entry.file_size * 1.05 > _ZIP64_LIMIT  # when zipfile itself chooses the larger header
    begin = archive.fp.tell() + len(entry.FileHeader(large)) + 4
    padding = -begin % _ALIGNMENT
    entry.extra = struct.pack('<2sH', b'FB', padding) + b'Z' * padding
    with archive.open(entry, 'w', force_zip64=large) as record:
        record.write(data)


def write(obj, file, folder, pickle_module, protocol, byte_order=True):
    """Write an archive to a file object; its records are in `folder`."""
    records, content = Records(), io.BytesIO()
    base = _python_pickler(pickle_module)
    if base is None:
        pickle_module.Pickler(content, protocol).dump(obj)
    else:
        _pickler(base, content, protocol, records).dump(obj)
    with zipfile.ZipFile(file, 'w', zipfile.ZIP_STORED) as archive:
        _add(archive, f'{folder}/data.pkl', content.getbuffer())
        _add(archive, f'{folder}/.format_version', b'1')
        _add(archive, f'{folder}/.storage_alignment', str(_ALIGNMENT).encode())
        if byte_order:
            _add(archive, f'{folder}/byteorder', sys.byteorder.encode())
        for key, stored in enumerate(records.stored):
            _add(archive, f'{folder}/data/{key}', stored.elements._elements() if stored.elements.numel() else b'')
        _add(archive, f'{folder}/version', b'3\n')
