"""Batches from worker processes: a pickle for the structure, shared memory for the elements.

A worker has a few segments of anonymous memory, one for each batch that may wait, and uses each again when the parent has
read it. A segment ends with the processes that map it, so a crash leaves nothing behind.
"""

import io
import mmap
import os
import pickle

import numpy as np

from gt import _gt
from gt._gt import Tensor
from gt.utils.data.collate import Upload

_ALIGNMENT = 64
_SMALL = 512  # bytes; arrays below this are part of the pickle
_UNIT = 1 << 16  # segments are multiples of this

_NON_LEAF = ('Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support crossing '
             'process boundaries. If you just want to transfer the data, call detach() on the tensor before serializing '
             '(e.g., putting it on the queue).')


class _Packer(pickle.Pickler):
    """Pickles an object; the elements of tensors and arrays are collected beside it."""

    def __init__(self, file):
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.parts, self.size = [], 0

    def _add(self, array):
        at = self.size
        self.parts.append((at, array))
        self.size += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
        return at

    def persistent_id(self, value):
        kind = type(value)
        if kind is Upload:
            array = value.array
            if array.dtype.kind not in 'biufc':
                raise TypeError(f"can't convert an array of type {array.dtype} to a tensor")
            return 'upload', self._add(array), array.dtype.str, array.shape
        if isinstance(value, Tensor):
            if value.requires_grad and not value.is_leaf:
                raise RuntimeError(_NON_LEAF)
            array = np.frombuffer(memoryview(value._elements()).cast('B') if value.numel() else b'', np.uint8)
            return 'tensor', self._add(array), value.dtype.name, tuple(value.shape), value.requires_grad
        if kind is np.ndarray and value.dtype.kind in 'biufc' and value.nbytes >= _SMALL:
            return 'array', self._add(value), value.dtype.str, value.shape
        return None


def pack(value):
    """(the pickle, [(position, array)], bytes of all arrays)"""
    file = io.BytesIO()
    packer = _Packer(file)
    packer.dump(value)
    return file.getvalue(), packer.parts, packer.size


class _Unpacker(pickle.Unpickler):
    def __init__(self, content, segment):
        super().__init__(io.BytesIO(content))
        self.segment = segment

    def persistent_load(self, identity):
        kind, at, dtype, shape, *more = identity
        if kind == 'tensor':
            dtype = getattr(_gt, dtype)
            size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            return _gt._rebuild(memoryview(self.segment)[at:at + size] if size else b'', dtype, shape, *more)
        array = np.ndarray(shape, dtype, self.segment, at) if np.prod(shape, dtype=np.int64) else np.empty(shape, dtype)
        return _gt.as_tensor(array) if kind == 'upload' else array.copy()


def unpack(content, segment):
    """The object of a pickle and its segment. Its tensors belong to this process's client."""
    return _Unpacker(content, segment).load()


class Segments:
    """A worker's segments by number."""

    def __init__(self):
        self.maps = {}

    def write(self, slot, parts, size):
        """Write arrays. Returns (the descriptor of a new segment, its size), or (None, 0) if the old one was large enough."""
        descriptor, length = None, 0
        if size > (len(self.maps[slot]) if slot in self.maps else 0):
            length = -(-size // _UNIT) * _UNIT
            descriptor = os.memfd_create('gt-batch')
            os.ftruncate(descriptor, length)
            self.maps[slot] = mmap.mmap(descriptor, length)
        for at, array in parts:
            if array.size:
                np.ndarray(array.shape, array.dtype, self.maps[slot], at)[...] = array
        return descriptor, length
