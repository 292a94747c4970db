"""Tensors in files of the safetensors format, which PyTorch users exchange too.

A file is eight bytes of length (little-endian), a JSON header of that length, and the elements of all tensors:

    {"__metadata__": {"any": "text"}, "layer.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}

Reading uploads each tensor from the mapped file. Writing fetches one tensor at a time. Nested values (an optimiser's
state, a checkpoint of several parts) are stored with joined names, and their structure as JSON in the metadata; other
readers see a flat dictionary.
"""

import json

from gt import _gt
from gt._gt import Tensor

_DTYPES = {'BOOL': _gt.bool, 'U8': _gt.uint8, 'I8': _gt.int8, 'I16': _gt.int16, 'I32': _gt.int32, 'I64': _gt.int64,
           'F16': _gt.float16, 'BF16': _gt.bfloat16, 'F32': _gt.float32, 'F64': _gt.float64,
           'C64': _gt.complex64}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_STRUCTURE = 'gt.structure'  # the metadata key for the structure of nested values
_LONGEST_HEADER = 100_000_000  # bytes; other readers have the same limit
_MOST_DIMENSIONS = 8


# ---- structure -----------------------------------------------------------------------------------------------


def _is_array(value):
    return isinstance(value, Tensor) or hasattr(value, '__dlpack__') or hasattr(value, '__array__')


def _flatten(value, path, tensors):
    """`value` as JSON; its tensors go to `tensors` under joined names."""
    if _is_array(value):
        name = '.'.join(path) or 'tensor'
        while name in tensors:  # {'a': {'b': x}, 'a.b': y}
            name += '_'
        tensors[name] = value
        return {'tensor': name}
    if isinstance(value, dict):
        return {'dict': [[_key(key, path), _flatten(item, [*path, str(key)], tensors)]
                         for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        items = [_flatten(item, [*path, str(k)], tensors) for k, item in enumerate(value)]
        return {'tuple' if isinstance(value, tuple) else 'list': items}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"save: cannot store {type(value).__name__} at '{'.'.join(path)}': only tensors, numbers, text, "
                    'None, and dicts, lists and tuples of them')


def _key(key, path):
    if isinstance(key, (str, int)):
        return key
    raise TypeError(f"save: a key of type {type(key).__name__} at '{'.'.join(path)}': keys are text or integers")


def _rebuild(structure, tensors):
    """The inverse of _flatten. A malformed description raises KeyError, TypeError or ValueError."""
    if not isinstance(structure, dict):
        return structure
    (kind, content), = structure.items()
    if kind == 'tensor':
        return tensors[content]
    if kind == 'dict':
        return {key: _rebuild(item, tensors) for key, item in content}
    return {'list': list, 'tuple': tuple}[kind](_rebuild(item, tensors) for item in content)


# ---- writing -------------------------------------------------------------------------------------------------


def _checked(tensors, metadata):
    for name in tensors:
        if name == '__metadata__':
            raise ValueError("save: no tensor can be called '__metadata__' in a safetensors file")
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError('save: metadata is text by text')


def _header(tensors, metadata):
    """(the encoded header, the names in the order of their data): large elements first, so that all are aligned."""
    order = sorted(tensors, key=lambda name: -tensors[name].element_size())
    entries, end = {}, 0
    for name in order:
        tensor = tensors[name]
        begin, end = end, end + tensor.numel() * tensor.element_size()
        if tensor.dtype not in _NAMES:
            raise TypeError(f'{name}: the safetensors format has no {tensor.dtype}')
        entries[name] = {'dtype': _NAMES[tensor.dtype], 'shape': list(tensor.shape), 'data_offsets': [begin, end]}
    named = {name: entries[name] for name in tensors}
    text = json.dumps({'__metadata__': metadata, **named} if metadata else named, ensure_ascii=False,
                      separators=(',', ':')).encode()
    return text + b' ' * (-len(text) % 8), order


def _write(file, tensors, metadata):
    header, order = _header(tensors, metadata)
    file.write(len(header).to_bytes(8, 'little') + header)
    for name in order:
        if tensors[name].numel():
            file.write(tensors[name]._elements())


def writer(obj, metadata):
    """A function that writes obj to a file object: a Module's state_dict, a dictionary of tensors (of GT, NumPy or PyTorch)
    by name, or any nesting of dictionaries, lists and numbers with tensors in it."""
    if hasattr(obj, 'state_dict'):
        obj = obj.state_dict()
    metadata = dict(metadata or {})
    if isinstance(obj, dict) and all(isinstance(name, str) and _is_array(value) for name, value in obj.items()):
        tensors = dict(obj)
    else:
        tensors = {}
        metadata[_STRUCTURE] = json.dumps(_flatten(obj, [], tensors))
    _checked(tensors, metadata)
    tensors = {name: _gt.as_tensor(value) for name, value in tensors.items()}
    return lambda file: _write(file, tensors, metadata)


# ---- reading -------------------------------------------------------------------------------------------------


class _Bad(Exception):
    """Why a file is malformed."""


def _object(pairs):
    """A JSON object: no name twice, and only text that UTF-8 can express (JSON can escape half a surrogate pair)."""
    found = {}
    for name, value in pairs:
        for text in name, value:
            try:
                if isinstance(text, str):
                    text.encode()
            except UnicodeEncodeError:
                raise _Bad(f'{text!r} in the header is not text') from None
        if name in found:
            raise _Bad(f'{name!r} occurs twice in the header')
        found[name] = value
    return found


def _integer(text):
    if text == '-0':  # a float to other readers
        raise _Bad('-0 in the header is not a size')
    return int(text)


def _read_header(data):
    """(the entries by name, the metadata, where the elements begin)"""
    if len(data) < 8:
        raise _Bad(f'it has {len(data)} bytes, fewer than the header needs')
    length = int.from_bytes(data[:8], 'little')
    if length > _LONGEST_HEADER:
        raise _Bad(f'a header of {length} bytes is too large')
    if length > len(data) - 8:
        raise _Bad(f'the header has {length} bytes, but only {len(data) - 8} follow: the file is truncated')
    try:
        header = json.loads(bytes(data[8:8 + length]).decode(), object_pairs_hook=_object,
                            parse_int=_integer)
    except UnicodeDecodeError:
        raise _Bad('the header is not UTF-8') from None
    except (ValueError, RecursionError) as error:
        raise _Bad(f'the header is not JSON: {error}') from None
    if not isinstance(header, dict):
        raise _Bad('the header is not a JSON object')
    metadata = header.pop('__metadata__', None)
    metadata = {} if metadata is None else metadata
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise _Bad('__metadata__ is not text by text')
    return header, metadata, 8 + length


def _is_size(value):
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


def _entry(name, entry, size):
    """(dtype, shape, begin, end) of one tensor, checked against itself and the `size` bytes of elements."""
    def bad(reason):
        return _Bad(f'tensor {name!r}: {reason}')
    if not isinstance(entry, dict) or set(entry) != {'dtype', 'shape', 'data_offsets'}:
        raise bad('its entry needs dtype, shape and data_offsets, and nothing else')
    dtype, shape, offsets = entry['dtype'], entry['shape'], entry['data_offsets']
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise bad(f'dtype {dtype!r} is not one of {", ".join(_DTYPES)}')
    if not isinstance(shape, list) or not all(_is_size(length) for length in shape):
        raise bad(f'shape {shape!r} is not a list of sizes')
    if len(shape) > _MOST_DIMENSIONS:
        raise bad(f'it has {len(shape)} dimensions, more than {_MOST_DIMENSIONS}')
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(_is_size(offset) for offset in offsets):
        raise bad(f'data_offsets {offsets!r} are not two positions')
    begin, end = offsets
    if begin > end or end > size:
        raise bad(f'its bytes {begin} to {end} are not within the {size} of the file: it is truncated or damaged')
    needed = _DTYPES[dtype].itemsize
    for length in shape:
        needed *= length
    if needed != end - begin:
        raise bad(f'{dtype} of shape {shape} needs {needed} bytes, but it has {end - begin}')
    return _DTYPES[dtype], shape, begin, end


def _read_entries(header, size):
    """The _entry of each tensor, after checking that they cover the file without gap or overlap."""
    entries = {name: _entry(name, entry, size) for name, entry in header.items()}
    at = 0
    for name in sorted(entries, key=lambda name: entries[name][2:]):
        _, _, begin, end = entries[name]
        if begin != at:
            raise _Bad(f'tensor {name!r} begins at {begin}, {"inside" if begin < at else "not right after"} the one '
                       f'before it, which ends at {at}')
        at = end
    if at != size:
        raise _Bad(f'{size - at} bytes at its end belong to no tensor')
    return entries


def _load(data):
    header, metadata, first = _read_header(data)
    tensors = {}
    for name, (dtype, shape, begin, end) in _read_entries(header, len(data) - first).items():
        with data[first + begin:first + end] as elements:
            tensors[name] = _gt._rebuild(elements, dtype, shape, False)
    if _STRUCTURE not in metadata:
        return tensors
    try:
        return _rebuild(json.loads(metadata[_STRUCTURE]), tensors)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise _Bad(f'the metadata {_STRUCTURE!r} does not describe its tensors') from None


def read(data, label):
    """What save() wrote, or the dictionary of tensors in any safetensors file."""
    try:
        return _load(data)
    except _Bad as reason:
        # A header is JSON. Anything else may have been meant for another format.
        kind = 'not a whole safetensors file' if bytes(data[8:9]) == b'{' else 'neither a .pt nor a safetensors file'
        raise _gt.GtError(f'{label}: {kind}: {reason}') from None
