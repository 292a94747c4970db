"""Sequences of different lengths: packed, one time step after the other without padding, or padded.

A PackedSequence has the sequences in the order of falling lengths: first the first elements of all of them, then the
second elements of those that have any, and so on.
"""

import itertools
from collections import namedtuple

import gt
from gt import _help
from gt import Tensor, _gt

_fields = namedtuple('PackedSequence', ['data', 'batch_sizes', 'sorted_indices', 'unsorted_indices'],
                     defaults=(None, None, None))


def invert_permutation(permutation):
    """The permutation that undoes another, or None for None."""
    if permutation is None:
        return None
    return gt.zeros_like(permutation).scatter(0, permutation, gt.arange(permutation.numel()))


class PackedSequence(_fields):
    """Sequences of different lengths in one tensor: data (rows, ...) and batch_sizes, the number of rows of each step.

    pack_padded_sequence() and pack_sequence() make them; RNN, LSTM and GRU take and return them.
    """

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if batch_sizes is None:
            if not (isinstance(data, (tuple, list)) and len(data) == 2):
                raise ValueError('PackedSequence needs data and batch_sizes')
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def sizes(self):
        """batch_sizes as a list; it is read once, which waits."""
        known = self.__dict__.get('_sizes')
        if known is None:
            known = self._sizes = self.batch_sizes.tolist()
        return known

    def with_data(self, data):
        """The same with other data."""
        packed = type(self)(data, self.batch_sizes, self.sorted_indices, self.unsorted_indices)
        packed._sizes = self.sizes()
        return packed

    def to(self, *args, **kwargs):
        """The same with converted data."""
        return self.with_data(self.data.to(*args, **kwargs))

    def float(self):
        """The same in float32."""
        return self.to(_gt.float32)

    def double(self):
        """The same in float64."""
        return self.to(_gt.float64)

    def half(self):
        """The same in float16."""
        return self.to(_gt.float16)

    def long(self):
        """The same in int64."""
        return self.to(_gt.int64)

    def int(self):
        """The same in int32."""
        return self.to(_gt.int32)

    def cpu(self, *args, **kwargs):
        """The sequence itself."""
        return self

    def cuda(self, *args, **kwargs):
        """The sequence itself."""
        return self

    def pin_memory(self):
        """The sequence itself."""
        return self

    def is_pinned(self):
        """False."""
        return False

    @property
    def is_cuda(self):
        """Whether the data is on a GPU of PyTorch's: False."""
        return self.data.is_cuda


def _packed(data, sizes, order):
    packed = PackedSequence(data, gt.tensor(sizes, dtype=_gt.int64),
                            None if order is None else gt.tensor(order, dtype=_gt.int64))
    packed._sizes = sizes
    return packed


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """A PackedSequence of padded sequences (T, N, ...), or (N, T, ...) if batch_first.

    lengths: a list or tensor (which is read). enforce_sorted: the lengths must be falling; False: they are sorted here.

    >>> packed = pack_padded_sequence(gt.randn(5, 2, 3), [5, 3])
    """
    lengths = [int(length) for length in (lengths.tolist() if isinstance(lengths, Tensor) else lengths)]
    batch = input.shape[0 if batch_first else 1]
    if len(lengths) != batch:
        raise RuntimeError(f'Expected `len(lengths)` to be equal to batch_size, but got {len(lengths)} '
                           f'(batch_size={batch})')
    if min(lengths, default=0) <= 0:
        raise RuntimeError("Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0")
    order = None
    if not enforce_sorted:
        order = sorted(range(batch), key=lambda n: -lengths[n])
    elif any(first < second for first, second in itertools.pairwise(lengths)):
        raise RuntimeError('`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass '
                           '`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this '
                           'requirement if you do not need ONNX exportability.')
    steps = input.shape[1 if batch_first else 0]
    if max(lengths) > steps:
        raise RuntimeError(f'Expected lengths of at most {steps}, the size of the input, but got {max(lengths)}')
    order_of = range(batch) if order is None else order
    counts = [sum(length > t for length in lengths) for t in range(max(lengths))]
    index = [n * steps + t if batch_first else t * batch + n
             for t, count in enumerate(counts) for n in itertools.islice(order_of, count)]
    rows = input.reshape(input.shape[0] * input.shape[1], *input.shape[2:])
    return _packed(rows._pick_rows(0, gt.tensor(index, dtype=_gt.int64)), counts, order)


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """(padded sequences (T, N, ...) or (N, T, ...), their lengths) of a PackedSequence.

    total_length: pad to this length instead of the longest one.
    """
    counts, data = sequence.sizes(), sequence.data
    longest, batch = len(counts), counts[0]
    if total_length is not None and total_length < longest:
        raise ValueError('Expected total_length to be at least the length of the longest sequence in input, but got '
                         f'total_length={total_length} and max sequence length being {longest}')
    steps = longest if total_length is None else total_length
    starts = [0, *itertools.accumulate(counts)]
    outside = data.shape[0]  # the row of padding

    def row(t, n):
        return starts[t] + n if t < longest and n < counts[t] else outside
    places = [(t, n) for n in range(batch) for t in range(steps)] if batch_first else [
        (t, n) for t in range(steps) for n in range(batch)]
    padded = gt.cat([data, gt.full((1, *data.shape[1:]), padding_value, dtype=data.dtype)])
    rows = padded._pick_rows(0, gt.tensor([row(t, n) for t, n in places], dtype=_gt.int64))
    output = rows.reshape(*((batch, steps) if batch_first else (steps, batch)), *data.shape[1:])
    lengths = gt.tensor([sum(count > n for count in counts) for n in range(batch)], dtype=_gt.int64)
    if sequence.unsorted_indices is not None:
        output = output.index_select(0 if batch_first else 1, sequence.unsorted_indices)
        lengths = lengths.index_select(0, sequence.unsorted_indices)
    return output, lengths


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side='right'):
    """Sequences (L, ...) of different lengths in one tensor (T, N, ...), or (N, T, ...) if batch_first.

    >>> pad_sequence([gt.ones(3), gt.ones(5)], batch_first=True).shape
    (2, 5)
    """
    if padding_side not in ('left', 'right'):
        raise RuntimeError(f'Expected padding_side to be one of left or right, but got {padding_side}.')
    if isinstance(sequences, Tensor):
        sequences = sequences.unbind(0)
    elif not hasattr(sequences, '__iter__'):
        raise RuntimeError(f'pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}')
    sequences = list(sequences)
    if not sequences:
        raise RuntimeError('received an empty list of sequences')
    longest, rest = max(tensor.shape[0] for tensor in sequences), sequences[0].shape[1:]
    padded = []
    for tensor in sequences:
        missing = longest - tensor.shape[0]
        if missing:
            filling = gt.full((missing, *rest), padding_value, dtype=tensor.dtype)
            tensor = gt.cat([tensor, filling] if padding_side == 'right' else [filling, tensor])
        padded.append(tensor)
    return gt.stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The sequences of a padded tensor, each with its own length."""
    sequences = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    lengths = lengths.tolist() if isinstance(lengths, Tensor) else lengths
    return [sequence[:length] for sequence, length in zip(sequences.unbind(0), lengths)]


def pack_sequence(sequences, enforce_sorted=True):
    """A PackedSequence of a list of sequences (L, ...)."""
    lengths = [sequence.shape[0] for sequence in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    """The sequences of a PackedSequence."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True), batch_first=True)

__dir__ = _help.publish(__name__)
