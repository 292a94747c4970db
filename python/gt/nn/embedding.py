"""Embedding and EmbeddingBag, as functions and as modules; gt.nn.functional has the functions too."""

import gt
from gt import _gt, where
from gt.client.halves import HALVES
from gt.client.registry import no_view
from gt.nn import functional as F
from gt.nn import init
from gt.nn.module import Module
from gt.nn.parameter import Parameter


@gt.no_grad()
def _shorten(weight, index, max_norm, norm_type):
    """Scale the rows at the index down to at most max_norm."""
    named = gt.zeros(weight.shape[0], dtype=_gt.bool).scatter(0, index.flatten(), True)
    length = weight.norm(norm_type, 1)
    scale = where(named & (length > max_norm), max_norm / (length + 1e-7), 1.0)
    weight._become(weight * scale.unsqueeze(1))


def _place(padding_idx, rows):
    """padding_idx, counted from the start."""
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise AssertionError('Padding_idx must be within num_embeddings')
    return padding_idx + rows if padding_idx is not None and padding_idx < 0 else padding_idx


def _rarer(rows, index, count):
    """The rows, with each gradient divided by how often its index is there."""
    often = gt.zeros(count, dtype=rows.dtype).scatter_add(0, index.flatten(), gt.ones(index.numel(), dtype=rows.dtype))
    still = rows.detach()
    return (rows - still) / often._pick_rows(0, index).unsqueeze(-1) + still


def _rows(weight, index, scale_grad_by_freq):
    if not isinstance(index, gt.Tensor):
        raise TypeError(f"embedding(): argument 'indices' (position 2) must be Tensor, not {type(index).__name__}")
    if index.is_floating_point() or index.dtype == _gt.bool:
        raise RuntimeError(f'Expected tensor for argument #1 \'indices\' to have one of the following scalar types: Long, '
                           f'Int; but got {index.dtype} instead (while checking arguments for embedding)')
    index = index.long()
    rows = weight._pick_rows(0, index, True)
    return _rarer(rows, index, weight.shape[0]) if scale_grad_by_freq and rows.requires_grad else rows


def rows_of(weight, indices, padding_idx, scale_grad_by_freq):
    """Rows of weight by index; the row at padding_idx, which is None or not negative, gets no gradient."""
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    rows = _rows(weight, indices, scale_grad_by_freq)
    if padding_idx is None:
        return rows
    return where((indices != padding_idx).unsqueeze(-1), rows, rows.detach())


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    """Rows of weight by index; the row at padding_idx gets no gradient.

    max_norm: longer rows are scaled down first, in the weight. scale_grad_by_freq: gradients are divided by how often
    their index is in the input. sparse: accepted; gradients are dense.
    """
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    padding_idx = _place(padding_idx, weight.shape[0])
    if max_norm is not None:
        _shorten(weight, input.long(), max_norm, norm_type)
    return rows_of(weight, input, padding_idx, scale_grad_by_freq)


def _check_bags(input, weight, offsets, mode, per_sample_weights, scale_grad_by_freq, sparse):
    if per_sample_weights is not None and input.shape != per_sample_weights.shape:
        raise ValueError(f'embedding_bag: If per_sample_weights ({list(per_sample_weights.shape)}) is not None, then it '
                         f'must have the same shape as the input ({list(input.shape)})')
    if weight.ndim != 2:
        raise ValueError(f'weight has to be a 2D Tensor, but got Tensor of dimension {weight.ndim}')
    if input.ndim == 2 and offsets is not None:
        raise ValueError('if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length '
                         f'sequences. However, found offsets of type {type(offsets)}')
    if input.ndim == 1 and (offsets is None or offsets.ndim != 1):
        raise ValueError('offsets has to be a 1D Tensor' + (' but got None' if offsets is None else ''))
    if input.ndim not in (1, 2):
        raise ValueError(f'input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}')
    if mode not in ('sum', 'mean', 'max'):
        raise ValueError('mode has to be one of sum, mean or max')
    if mode == 'max' and scale_grad_by_freq:
        raise ValueError('max mode does not support scaling the gradient by the frequency')
    if mode == 'max' and sparse:
        raise ValueError('max mode does not support sparse weights')
    if per_sample_weights is not None and mode != 'sum':
        raise NotImplementedError('embedding_bag: per_sample_weights was not None. per_sample_weights is only supported '
                                  f"for mode='sum' (got mode='{mode}'). Please open a feature request on GitHub.")


def _equal_bags(rows, counted, mode):
    """Bags of the same size: rows (B, N, D) and which count (B, N), or None for all."""
    if mode == 'max':
        if counted is None:
            return rows.max(1)[0] if rows.shape[1] else gt.zeros(rows.shape[0], rows.shape[2], dtype=rows.dtype)
        best = rows.masked_fill(~counted.unsqueeze(2), -float('inf')).max(1)[0]
        return where(counted.any(1, True), best, 0.0)
    if counted is not None:
        rows = where(counted.unsqueeze(2), rows, 0.0)
    total = rows.sum(1)
    if mode == 'sum':
        return total
    return total / (rows.shape[1] if counted is None else counted.sum(1, True).clamp(min=1))


def _bags(rows, counted, bag, bags, mode):
    """Bags of any size: rows (N, D), which count (N), and the bag of each (N)."""
    if mode == 'max':
        index = bag.unsqueeze(1).expand(rows.shape)
        low = gt.full((bags, rows.shape[1]), -float('inf'), dtype=rows.dtype)
        rows = rows if counted is None else rows.masked_fill(~counted.unsqueeze(1), -float('inf'))
        best = low.scatter_reduce(0, index, rows, 'amax')
        return where(best == -float('inf'), 0.0, best)
    if counted is not None:
        rows = where(counted.unsqueeze(1), rows, 0.0)
    total = gt.zeros(bags, rows.shape[1], dtype=rows.dtype).index_add(0, bag, rows)
    if mode == 'sum':
        return total
    ones = gt.ones(rows.shape[0], dtype=rows.dtype) if counted is None else counted.to(rows.dtype)
    return total / gt.zeros(bags, dtype=rows.dtype).index_add(0, bag, ones).clamp(min=1).unsqueeze(1)


@no_view
def embedding_bag(input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode='mean',
                  sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=None):
    """The sum, mean or maximum of the rows of each bag of indices.

    input: (B, N), bags of one size, or (N), where each bag starts at one of the offsets (B). include_last_offset: the last
    offset is the end of the last bag. per_sample_weights: factors of the rows. padding_idx: an index that does not count.

    >>> F.embedding_bag(gt.tensor([1, 2, 4, 5]), weight, gt.tensor([0, 3]), mode='sum')
    """
    _check_bags(input, weight, offsets, mode, per_sample_weights, scale_grad_by_freq, sparse)
    padding_idx = _place(padding_idx, weight.shape[0])
    if max_norm is not None:
        _shorten(weight, input.long(), max_norm, norm_type)
    rows = _rows(weight, input, scale_grad_by_freq)
    if rows.dtype in HALVES:  # the sums are rounded once
        return _bags_of(rows.float(), input, offsets, mode, per_sample_weights, include_last_offset, padding_idx).to(rows.dtype)
    return _bags_of(rows, input, offsets, mode, per_sample_weights, include_last_offset, padding_idx)


def _bags_of(rows, input, offsets, mode, per_sample_weights, include_last_offset, padding_idx):
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    counted = None if padding_idx is None else input != padding_idx
    if input.ndim == 2:
        return _equal_bags(rows, counted, mode)
    bags = offsets.shape[0] - (1 if include_last_offset else 0)
    bag = gt.searchsorted(offsets.long(), gt.arange(input.shape[0]), right=True) - 1
    if include_last_offset:  # elements after the last bag fall into one that is dropped
        return _bags(rows, counted, bag, bags + 1, mode)[:bags]
    return _bags(rows, counted, bag, bags, mode)


class _Table(Module):
    """Rows by index: weight is (num_embeddings, embedding_dim)."""

    def _gt_add_weight(self, given, freeze, dtype):
        if given is None:
            self.weight = Parameter(gt.empty(self.num_embeddings, self.embedding_dim, dtype=dtype), not freeze)
            self.reset_parameters()
        elif tuple(given.shape) != (self.num_embeddings, self.embedding_dim):
            raise AssertionError('Shape of weight does not match num_embeddings and embedding_dim')
        else:
            self.weight = Parameter(given, not freeze)

    def reset_parameters(self):
        """Normal; the padding is zero."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self):
        if self.padding_idx is not None:
            with gt.no_grad():
                self.weight[self.padding_idx] = 0.0

    def _gt_options_text(self):
        text = '' if self.max_norm is None else f', max_norm={self.max_norm!r}'
        text += '' if self.norm_type == 2 else f', norm_type={self.norm_type!r}'
        return text + ('' if self.scale_grad_by_freq is False else f', scale_grad_by_freq={self.scale_grad_by_freq!r}')


def _check_table(embeddings):
    if embeddings.ndim != 2:
        raise AssertionError('Embeddings parameter is expected to be 2-dimensional')
    return embeddings.shape


class Embedding(_Table):
    """A row of weight (num_embeddings, embedding_dim) for each index; the row at padding_idx is not trained.

    >>> nn.Embedding(1000, 64)(gt.tensor([[1, 2], [3, 4]])).shape
    (2, 2, 64)
    """

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0,
                 scale_grad_by_freq=False, sparse=False, _weight=None, _freeze=False, device=None, dtype=None):
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = _place(padding_idx, num_embeddings)
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self._gt_add_weight(_weight, _freeze, dtype)

    @classmethod
    def from_pretrained(cls, embeddings, freeze=True, padding_idx=None, max_norm=None, norm_type=2.0,
                        scale_grad_by_freq=False, sparse=False):
        """An embedding with these rows, which are trained unless frozen."""
        rows, columns = _check_table(embeddings)
        return cls(rows, columns, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, embeddings, freeze)

    def forward(self, input):
        """(..., embedding_dim) of indices (...)."""
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq,
                         self.sparse)

    def extra_repr(self):
        padding = '' if self.padding_idx is None else f', padding_idx={self.padding_idx}'
        sparse = ', sparse=True' if self.sparse else ''
        return f'{self.num_embeddings}, {self.embedding_dim}{padding}{self._gt_options_text()}{sparse}'


class EmbeddingBag(_Table):
    """embedding_bag with a weight of its own.

    >>> nn.EmbeddingBag(10, 3, mode='sum')(gt.tensor([1, 2, 4, 5]), gt.tensor([0, 3]))
    """

    def __init__(self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode='mean',
                 sparse=False, _weight=None, include_last_offset=False, padding_idx=None, device=None, dtype=None):
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise AssertionError('padding_idx must be within num_embeddings')
        self.padding_idx = _place(padding_idx, num_embeddings)
        self._gt_add_weight(_weight, False, dtype)
        self.mode, self.sparse, self.include_last_offset = mode, sparse, include_last_offset

    @classmethod
    def from_pretrained(cls, embeddings, freeze=True, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
                        mode='mean', sparse=False, include_last_offset=False, padding_idx=None):
        """A layer with these rows, which are trained unless frozen."""
        rows, columns = _check_table(embeddings)
        layer = cls(rows, columns, max_norm, norm_type, scale_grad_by_freq, mode, sparse, embeddings, include_last_offset,
                    padding_idx)
        layer.weight.requires_grad = not freeze
        return layer

    def forward(self, input, offsets=None, per_sample_weights=None):
        """(B, embedding_dim)."""
        return F.embedding_bag(input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
                             self.mode, self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx)

    def extra_repr(self):
        padding = '' if self.padding_idx is None else f', padding_idx={self.padding_idx!r}'
        return f'{self.num_embeddings!r}, {self.embedding_dim!r}{self._gt_options_text()}, mode={self.mode!r}{padding}'
