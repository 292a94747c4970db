"""Reading .pt files: the zip archives that torch.save writes, and the files of PyTorch before 1.6.

An archive has a pickle, NAME/data.pkl, and one record per storage, NAME/data/KEY, all uncompressed. The file is mapped, and
each storage is uploaded from the map when the pickle first names it. An older file is a sequence of pickles, followed by
all storages.
"""

import io
import pickle
import struct
import sys
import zipfile
import zlib

from gt import _gt
from gt.client.device import device
from gt.serialization import names
from gt.serialization.restricted import Anything, Machine

_LEGACY_MAGIC = (0x1950a86a20f9469cfc6c).to_bytes(10, 'little')
_KEYS = (str, bytes, int)  # of storages
_HEADER = struct.Struct('<4s22sHH')  # of a record: signature, .., lengths of the name and of the extra field


class Damaged(Exception):
    """Why a file cannot be read."""


def is_archive(data):
    """Whether a file begins like a zip archive."""
    return bytes(data[:4]) == b'PK\x03\x04'


def is_legacy(data):
    """Whether a file begins like one of PyTorch before 1.6: a pickle of a certain number."""
    return bytes(data[:1]) == b'\x80' and _LEGACY_MAGIC in bytes(data[:32])


class View(io.RawIOBase):
    """A file object on a buffer, without a copy of it."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def readable(self):
        return True

    seekable = readable

    def seek(self, offset, whence=0):
        self.at = max(0, offset + (0, self.at, len(self.data))[whence])
        return self.at

    def tell(self):
        return self.at

    def readinto(self, buffer):
        part = self.data[self.at:self.at + len(buffer)]
        buffer[:len(part)] = part
        self.at += len(part)
        return len(part)


# ---- devices -------------------------------------------------------------------------------------------------


def placer(map_location):
    """A function of (storage, location) that applies map_location. Tensors have no device, so only errors remain."""
    if map_location is None:
        return lambda storage, location: None
    if isinstance(map_location, dict):
        return lambda storage, location: device(map_location.get(location, location))
    is_device = hasattr(map_location, 'type') and hasattr(map_location, 'index')
    if isinstance(map_location, (str, bytes)) or is_device or not callable(map_location):
        if not isinstance(map_location, str) and not is_device:
            raise TypeError(f'map_location: a device, text, a dict or a function, not {type(map_location).__name__}')
        device(str(map_location))
        return lambda storage, location: None

    def called(storage, location):
        result = map_location(storage, location)
        if result is not None and not isinstance(result, names.Storage):
            raise TypeError(f'map_location returned {type(result).__name__}, not a storage or None')
    return called


# ---- pickles -------------------------------------------------------------------------------------------------


def _trusting(pickle_module, file, persistent_load, options):
    """An unpickler of pickle_module that knows PyTorch's names and runs whatever else the file says."""
    class Unpickler(pickle_module.Unpickler):
        def find_class(self, module, name):
            found = names.known(module, name)
            if found is not None:
                return found
            if module == 'torch.nn' or module.startswith('torch.nn.'):
                raise pickle.UnpicklingError(f'a PyTorch module, {module}.{name}: GT loads its state_dict(), not the '
                                             'module itself')
            return super().find_class(module, name)

        def persistent_load(self, identity):
            return persistent_load(identity)
    return Unpickler(file, **options)


class Reader:
    """What load() was asked for: how pickles are read, where storages go."""

    def __init__(self, weights_only, pickle_module, map_location, options):
        self.weights_only, self.pickle_module, self.options = weights_only, pickle_module, options
        self.place, self.storages = placer(map_location), {}

    def unpickle(self, data, find_storage, at=0):
        """The object of the pickle at `at`. find_storage(key) gives the bytes of a storage, and checks their length."""
        def persistent_load(identity):
            return self._storage(identity, find_storage)
        if self.weights_only:
            return Machine(data, persistent_load, self.options.get('encoding', 'utf-8'), at).load()
        file = io.BufferedReader(View(data[at:]))
        return _trusting(self.pickle_module, file, persistent_load, self.options).load()

    def _storage(self, identity, find):
        kind, storage_type, key, location, count, *view = identity
        if isinstance(location, bytes):
            location = location.decode('ascii')
        if kind not in ('storage', b'storage') or not isinstance(storage_type, names.StorageType):
            raise pickle.UnpicklingError(f'Only persistent_load of storage is allowed, but got {names.shown(kind)}')
        if any(view) or type(count) is not int or count < 0:
            raise pickle.UnpicklingError(f'a storage of {names.shown(count)} elements, view {names.shown(view)}')
        if not isinstance(key, _KEYS) or not isinstance(location, str):
            raise pickle.UnpicklingError(f'a storage of name {names.shown(key)} at {names.shown(location)}')
        known = key, storage_type.dtype
        if known not in self.storages:
            data = find(key, count * storage_type.dtype.itemsize, storage_type.dtype)
            storage = self.storages[known] = names.Storage(storage_type.dtype, data, location)
            self.place(storage, location)
        return self.storages[known]

    def close(self):
        """Release the file's memory. Tensors that were made have their own."""
        for storage in self.storages.values():
            storage.close()


def _swapped(data, dtype, order):
    """Elements in this machine's byte order."""
    if order == sys.byteorder or dtype.itemsize == 1:
        return data
    import numpy as np
    width = dtype.itemsize // 2 if dtype.name.startswith('complex') else dtype.itemsize
    return memoryview(np.frombuffer(data, f'u{width}').byteswap().tobytes())


# ---- archives ------------------------------------------------------------------------------------------------


class Archive:
    """The records of a zip archive, as parts of the mapped file."""

    def __init__(self, data):
        self.data, self.found, self.left = data, set(), len(data)
        try:
            with zipfile.ZipFile(io.BufferedReader(View(data))) as archive:
                self.entries = {entry.filename: entry for entry in archive.infolist()}
        except Exception as error:  # damaged archives raise many kinds
            raise Damaged(f'failed finding central directory: {error or type(error).__name__}') from None
        pickles = sorted((name for name in self.entries if name.endswith('/data.pkl')), key=len)
        if not pickles:
            raise Damaged('the archive has no data.pkl: it is not one that torch.save or gt.save wrote')
        self.folder = pickles[0].removesuffix('data.pkl')

    def __contains__(self, name):
        return self.folder + name in self.entries

    def record(self, name):
        """The bytes of a record."""
        entry = self.entries.get(self.folder + name)
        if entry is None:
            raise Damaged(f'file not found: {self.folder}{name}')
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
            raise Damaged(f'record {entry.filename} is compressed or encrypted: torch.save and gt.save store records as '
                          'they are')
        at, size = entry.header_offset, entry.file_size
        if at < 0 or at + _HEADER.size > len(self.data):
            raise Damaged(f'record {entry.filename} is outside of the file')
        signature, _, name_length, extra_length = _HEADER.unpack(self.data[at:at + _HEADER.size])
        begin = at + _HEADER.size + name_length + extra_length
        if signature != b'PK\x03\x04' or entry.compress_size != size or begin + size > len(self.data):
            raise Damaged(f'record {entry.filename} is damaged or truncated')
        if entry.filename not in self.found:  # a small file could have the same bytes under many names
            self.found.add(entry.filename)
            self.left -= size
        if self.left < 0:
            raise Damaged(f'record {entry.filename} overlaps others: together they have more bytes than the file')
        return self.data[begin:begin + size]


def read_archive(data, reader):
    """The object in an archive."""
    archive = Archive(data)
    if 'constants.pkl' in archive:
        raise Damaged('it is a TorchScript archive; save the state_dict() of the module instead')
    order = bytes(archive.record('byteorder')).decode('latin-1') if 'byteorder' in archive else 'little'
    if order not in ('little', 'big'):
        raise Damaged(f'Unknown endianness type: {names.shown(order)}')

    def find(key, size, dtype):
        content = archive.record(f'data/{key}')
        if len(content) != size:
            raise Damaged(f'record data/{key} has {len(content)} bytes, but the storage needs {size}')
        return _swapped(content, dtype, order)
    content = archive.record('data.pkl')
    checksum = archive.entries[f'{archive.folder}data.pkl'].CRC
    if checksum and zlib.crc32(content) != checksum:
        raise Damaged('the checksum of data.pkl is wrong')
    return reader.unpickle(content, find)


# ---- files of PyTorch before 1.6 ------------------------------------------------------------------------------


def _next_pickle(data, at):
    """(the value of a pickle without tensors, its end)"""
    machine = Machine(data, at=at)
    return machine.load(), machine.at


def read_legacy(data, reader):
    """(the object, the end of the file's part that holds it)"""
    _, at = _next_pickle(data, 0)
    version, at = _next_pickle(data, at)
    if version != 1001:
        raise Damaged(f'Invalid protocol version: {names.shown(version)}')
    system, at = _next_pickle(data, at)
    order = 'little' if not isinstance(system, dict) or system.get('little_endian', True) else 'big'
    sizes = _Sizes(data, at)
    sizes.load()
    keys, end = _next_pickle(data, sizes.at)
    if not isinstance(keys, list):
        raise Damaged('the list of storages is missing')
    where = {}
    for key in keys:
        if not isinstance(key, _KEYS) or key not in sizes.widths or end + 8 > len(data):
            raise Damaged(f'storage {names.shown(key)} is missing or truncated')
        count = int.from_bytes(data[end:end + 8], 'little')
        where[key] = end + 8, end + 8 + count * sizes.widths[key]
        end = where[key][1]
        if end > len(data):
            raise Damaged(f'storage {names.shown(key)} is truncated')

    def find(key, size, dtype):
        begin, stop = where.get(key, (0, -1))
        if stop - begin != size:
            raise Damaged(f'storage {names.shown(key)} has {stop - begin} bytes, but the object needs {size}')
        return _swapped(data[begin:stop], dtype, order)
    return reader.unpickle(data, find, at), end


class _Sizes(Machine):
    """Measures a pickle, and notes the element size of the storages in it, which stand behind it without their sizes."""

    def __init__(self, data, at):
        super().__init__(data, at=at, measure=True)
        self.widths = {}

    def push_global(self, module, name):
        found = names.known(module, name) if module == 'torch' else None
        if isinstance(found, names.StorageType):
            self.stack.append(found)
        else:
            super().push_global(module, name)

    def persistent(self):
        identity = self.stack.pop()
        if (type(identity) is not tuple or len(identity) < 5 or not isinstance(identity[1], names.StorageType)
                or not isinstance(identity[2], _KEYS)):
            raise pickle.UnpicklingError(f'unsupported persistent id {names.shown(identity)}')
        self.widths[identity[2]] = identity[1].dtype.itemsize
        self.stack.append(Anything())


def damaged_error(label, reason):
    """The exception for a damaged file: a RuntimeError, as PyTorch raises, and a ValueError."""
    return _gt.GtError(f'{label}: not a whole .pt file: {reason}')
