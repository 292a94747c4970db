"""default_collate and default_convert: samples become the tensors of a batch.

NumPy arrays and numbers are stacked on the host and uploaded once per batch. A worker process uses the same functions with
Upload instead of an upload: the parent makes the tensor.
"""

import collections.abc
import copy

import numpy as np

from gt import _gt
from gt._gt import Tensor

_NOT_TENSORS = 'default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}'


class Upload:
    """An array that becomes a tensor in the process that receives it."""

    __slots__ = ('array',)

    def __init__(self, array):
        self.array = array


def _is_text(array):
    return array.dtype.kind in 'SUO'


def _mapping(elem, convert):
    """A mapping like elem whose values are convert(key)."""
    values = {key: convert(key) for key in elem}
    try:
        if isinstance(elem, collections.abc.MutableMapping):
            clone = copy.copy(elem)  # it may have more than its items
            clone.update(values)
            return clone
        return type(elem)(values)
    except TypeError:
        return values


def _sequence(elem, values):
    """A sequence like elem with these values. Tuples become lists, as in PyTorch."""
    if isinstance(elem, tuple) and hasattr(elem, '_fields'):
        return type(elem)(*values)
    if isinstance(elem, tuple):
        return values
    try:
        if isinstance(elem, collections.abc.MutableSequence):
            clone = copy.copy(elem)
            for k, value in enumerate(values):
                clone[k] = value
            return clone
        return type(elem)(values)
    except TypeError:
        return values


def _stacked(arrays):
    """np.stack, with PyTorch's error."""
    for k, array in enumerate(arrays):
        if array.shape != arrays[0].shape:
            raise RuntimeError(f'stack expects each tensor to be equal size, but got {list(arrays[0].shape)} at entry 0 and '
                               f'{list(array.shape)} at entry {k}')
    return np.stack(arrays)


def _foreign(batch, upload):
    """A batch of another library's tensors."""
    try:
        return upload(_stacked([np.asarray(sample) for sample in batch]))
    except TypeError:  # bfloat16, which NumPy lacks
        return _gt.stack([_gt.as_tensor(sample) for sample in batch])


def _integers(batch, upload):
    if upload is not Upload:
        return _gt.tensor(batch)
    array = np.array(batch)
    return upload(array.astype(np.float32) if array.dtype == np.float64 else array)


def collate(batch, upload=_gt.as_tensor):
    """A batch of samples; upload(array) makes the tensors."""
    elem = batch[0]
    if isinstance(elem, Tensor):
        return _gt.stack(batch)
    if isinstance(elem, np.ndarray):
        if _is_text(elem):
            raise TypeError(_NOT_TENSORS.format(elem.dtype))
        return upload(_stacked(batch))
    if isinstance(elem, (np.bool_, np.number)):
        return upload(np.array(batch))
    if isinstance(elem, float):
        return upload(np.array(batch, np.float64))
    if isinstance(elem, int):
        return _integers(batch, upload)
    if isinstance(elem, (str, bytes)):
        return batch
    if isinstance(elem, collections.abc.Mapping):
        return _mapping(elem, lambda key: collate([sample[key] for sample in batch], upload))
    if isinstance(elem, collections.abc.Sequence):
        if not (isinstance(elem, tuple) and hasattr(elem, '_fields')) and any(len(s) != len(elem) for s in batch):
            raise RuntimeError('each element in list of batch should be of equal size')
        return _sequence(elem, [collate(samples, upload) for samples in zip(*batch)])
    if hasattr(elem, '__dlpack__'):
        return _foreign(batch, upload)
    raise TypeError(_NOT_TENSORS.format(type(elem)))


def default_collate(batch):
    """Make a batch of a list of samples: tensors, arrays and numbers are stacked, containers are collated inside.

        default_collate([(1, 'a'), (2, 'b')])    # [tensor([1, 2]), ('a', 'b')]
    """
    return collate(batch)


def convert(data, upload=_gt.as_tensor):
    """A sample with its arrays as tensors; upload(array) makes them."""
    if isinstance(data, Tensor):
        return data
    if isinstance(data, np.ndarray):
        return data if _is_text(data) else upload(data)
    if isinstance(data, (np.bool_, np.number)):
        return upload(np.asarray(data))
    if isinstance(data, collections.abc.Mapping):
        return _mapping(data, lambda key: convert(data[key], upload))
    if isinstance(data, collections.abc.Sequence) and not isinstance(data, (str, bytes)):
        return _sequence(data, [convert(item, upload) for item in data])
    return data


def default_convert(data):
    """Make tensors of the NumPy arrays in a sample, and leave everything else: what DataLoader does without batches.

        default_convert({'x': np.ones(2), 'name': 'a'})    # {'x': tensor([1., 1.], dtype=gt.float64), 'name': 'a'}
    """
    return convert(data)


def on_host(function):
    """The function to use in a worker process: the default ones leave the upload to the parent."""
    if function is default_collate:
        return lambda batch: collate(batch, Upload)
    if function is default_convert:
        return lambda data: convert(data, Upload)
    return function
