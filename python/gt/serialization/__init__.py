"""save and load: PyTorch's .pt files and safetensors files.

writing.py and reading.py have the .pt format, restricted.py the pickle machine that runs no code of a file, names.py the
names of PyTorch in it, safetensors.py the other format.
"""

import contextlib
import io
import mmap as _mmap
import os
import pickle
import stat

from gt import _help
from gt.serialization import reading, safetensors, writing
from gt.serialization.restricted import (  # noqa: F401
    add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals)

DEFAULT_PROTOCOL = 2


# ---- writing -------------------------------------------------------------------------------------------------


def _sync_folder(folder):
    """Write the renamed directory entry to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _replacing(path):
    """A file to write that takes the place of `path` when it is complete, and disappears if it does not get so far."""
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        with open(path, 'wb') as file:  # a pipe or a device
            yield file
        return
    path = os.path.realpath(path)
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise RuntimeError(f'Parent directory {folder} does not exist.')
    unfinished = f'{path}.{os.urandom(4).hex()}.part'
    try:
        with open(unfinished, 'xb') as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        if os.path.exists(unfinished):
            os.unlink(unfinished)
        raise
    _sync_folder(folder)


def save(obj, f, pickle_module=pickle, pickle_protocol=DEFAULT_PROTOCOL, _use_new_zipfile_serialization=True,
         _disable_byteorder_record=False, *, metadata=None):
    """save(obj, f): write an object to a .pt file, which PyTorch and GT load.

    obj: tensors, parameters, numbers, text, containers of them, or any object that pickle takes, such as a module.
    f: a path, or a file object with write(). A file on disk is replaced in one step, when the new one is complete.
    pickle_module, pickle_protocol: how objects are pickled.
    metadata: text by text; the file is then a safetensors file. So is one whose path ends in .safetensors. It holds a
    module's state_dict, a dictionary of tensors, or a nesting of dictionaries, lists and numbers with tensors in it.

        gt.save({'model': model.state_dict(), 'optimizer': optimizer.state_dict(), 'epoch': 3}, 'checkpoint.pt')
        gt.save(model.state_dict(), 'model.safetensors')
    """
    if not _use_new_zipfile_serialization:
        raise NotImplementedError('save: the format of PyTorch before 1.6 is only read')
    is_path = isinstance(f, (str, os.PathLike))
    path = os.fspath(f) if is_path else None
    if not is_path and not hasattr(f, 'write'):
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
    if metadata is not None or (path is not None and path.endswith('.safetensors')):
        write = safetensors.writer(obj, metadata)
    else:
        folder = os.path.splitext(os.path.basename(path))[0] if path else ''

        def write(file):
            writing.write(obj, file, folder or 'archive', pickle_module, pickle_protocol, not _disable_byteorder_record)
    if path is None:
        write(f)
    else:
        with _replacing(path) as file:
            write(file)


# ---- reading -------------------------------------------------------------------------------------------------


def _mapped(file, position=0):
    """The bytes of a file on disk from a position on. The map ends with the last use of them."""
    if os.fstat(file.fileno()).st_size <= position:
        return memoryview(b'')
    return memoryview(_mmap.mmap(file.fileno(), 0, access=_mmap.ACCESS_READ))[position:]


def _content(f):
    """(the bytes of a path or file object, its name)"""
    if isinstance(f, (str, os.PathLike)):
        with open(f, 'rb') as file:
            on_disk = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            return _mapped(file) if on_disk else memoryview(file.read()), os.fspath(f)
    if not hasattr(f, 'read'):
        raise AttributeError(f"'{type(f).__name__}' object has no attribute 'read': load() takes a path or a file object")
    if isinstance(f, io.BufferedReader) and isinstance(f.raw, io.FileIO) and f.seekable():
        return _mapped(f, f.tell()), str(f.name)
    content = f.read()
    if isinstance(content, str):
        raise TypeError('load: the file is open for text; open it for bytes')
    return memoryview(content), 'the file object'


def _read(data, label, reader, f):
    if not len(data):
        raise EOFError(f'{label}: it is empty')
    if reading.is_archive(data):
        return reading.read_archive(data, reader)
    if reading.is_legacy(data):
        start = f.tell() if hasattr(f, 'tell') and isinstance(f, io.BufferedReader) else None
        obj, end = reading.read_legacy(data, reader)
        if start is not None:
            f.seek(start + end)
        return obj
    if data[0] == 0x80 and len(data) > 2 and data[1] <= 5 and data[-1] == ord('.'):
        raise pickle.UnpicklingError('a plain pickle, which no version of save() wrote: read it with pickle.load, if you trust it')
    return safetensors.read(data, label)


def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **pickle_load_args):
    """load(f): the object in a .pt file of PyTorch or GT, or the tensors of a safetensors file.

    f: a path, or a file object with read().
    map_location: a device, text, a dict or a function, as in PyTorch. It changes nothing: the dispatcher places tensors.
    weights_only: True, the default, builds tensors, containers, numbers and text, and refuses every other name in the file
    with pickle.UnpicklingError. False builds anything, also whole modules; such a file may run any code, so load only files
    that you trust.
    pickle_module, with weights_only=False: the module whose Unpickler reads the file.
    mmap: accepted; files on disk are always mapped.
    A damaged file raises an error that is a ValueError and a RuntimeError, with its name and the reason.

        model.load_state_dict(gt.load('model.pt'))
    """
    if weights_only is None:
        weights_only = pickle_module is None
    if weights_only and pickle_module is not None:
        raise RuntimeError('Can not safely load weights when explicit pickle_module is specified')
    if mmap and not isinstance(f, (str, os.PathLike)):
        raise ValueError('f must be a file path in order to use the mmap argument')
    if weights_only and set(pickle_load_args) - {'encoding'}:
        raise TypeError(f'load: weights_only=True takes no {next(iter(set(pickle_load_args) - {"encoding"}))!r}')
    reader = reading.Reader(weights_only, pickle_module or pickle, map_location, pickle_load_args)
    data, label = _content(f)
    try:
        return _read(data, label, reader, f)
    except reading.Damaged as reason:
        raise reading.damaged_error(label, reason) from None
    except pickle.UnpicklingError as reason:
        first = 'Weights only load failed. ' if weights_only else ''
        raise pickle.UnpicklingError(f'{first}{label}: {reason}') from reason.__cause__
    finally:
        reader.close()

__dir__ = _help.publish(__name__)
