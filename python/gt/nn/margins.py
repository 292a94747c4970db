"""Margin losses of several classes, as functions and as modules; gt.nn.functional has them too."""

import gt
from gt import where
from gt.nn import functional as F
from gt.nn.losses import _Loss, _reduced, _WeightedLoss, legacy_reduction


def soft_margin_loss(input, target, size_average=None, reduce=None, reduction='mean'):
    """log(1 + exp(-y x)), with targets 1 and -1."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    return _reduced((-target * input).exp().log1p(), reduction)


def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction='mean'):
    """The mean over the classes (the last dimension) of binary_cross_entropy_with_logits, times weight."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    loss = -(target * input.logsigmoid() + (1 - target) * (-input).logsigmoid())
    loss = (loss if weight is None else loss * weight).sum(-1) / input.shape[-1]
    if reduction not in ('mean', 'sum', 'none'):
        raise ValueError(f'{reduction} is not valid')
    return _reduced(loss, reduction)


def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction='mean'):
    """The mean over the other classes of max(margin - x[class] + x[other], 0)^p, times the weight of the class."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError('only p == 1 and p == 2 supported')
    if weight is not None and weight.ndim != 1:
        raise ValueError('weight must be one-dimensional')
    if weight is not None and weight.dtype != input.dtype:
        raise RuntimeError(f'expected scalar type {input.dtype._kind} but found {weight.dtype._kind}')
    if input.ndim > 2 or 0 in input.shape[1:]:
        raise RuntimeError('Expected non-empty vector or matrix with optional 0-dim batch size, but got: '
                           f'{list(input.shape)}')
    scores, classes = (input, target) if input.ndim == 2 else (input.reshape(1, -1), target.reshape(1))
    if classes.shape != scores.shape[:1]:
        raise RuntimeError(f'inconsistent target size, expected {list(scores.shape[:1])} but got {list(target.shape)}')
    index = classes.unsqueeze(1)
    lack = (margin - scores.gather(1, index) + scores).clamp(min=0)
    lack = lack if p == 1 else lack.square()
    if weight is not None:
        lack = lack * weight._pick_rows(0, classes).unsqueeze(1)
    others = gt.ones(scores.shape, dtype=gt.bool).scatter(1, index, False)
    losses = where(others, lack, 0.0).sum(1) / scores.shape[1]
    return _reduced(losses if input.ndim == 2 else losses.squeeze(0), reduction)


def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction='mean'):
    """The sum over labels and other classes of max(1 - x[label] + x[other], 0), divided by the number of classes.

    A row of targets has the labels of one sample, ended by -1.
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    if input.ndim > 2 or 0 in input.shape[1:]:
        raise RuntimeError('Expected non-empty vector or matrix with optional 0-dim batch size, but got: '
                           f'{list(input.shape)}')
    if target.shape != input.shape:
        raise RuntimeError(f'inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}')
    single = input.ndim < 2
    scores, labels = (input.reshape(1, -1), target.reshape(1, -1)) if single else (input, target)
    counted = (labels < 0).long().cumsum(1) == 0  # up to the first -1
    index = where(counted, labels, 0)
    named = gt.zeros(scores.shape, dtype=gt.int64).scatter_add(1, index, counted.long()) > 0
    of_labels = scores.gather(1, index)  # (N, labels)
    lack = (1 - of_labels.unsqueeze(2) + scores.unsqueeze(1)).clamp(min=0)  # (N, labels, classes)
    losses = where(counted.unsqueeze(2) & ~named.unsqueeze(1), lack, 0.0).sum((1, 2)) / scores.shape[1]
    return _reduced(losses.squeeze(0) if single else losses, reduction)


class SoftMarginLoss(_Loss):
    """soft_margin_loss."""

    _gt_function = 'soft_margin_loss'


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """multilabel_soft_margin_loss."""

    _gt_function = 'multilabel_soft_margin_loss'


class MultiLabelMarginLoss(_Loss):
    """multilabel_margin_loss."""

    _gt_function = 'multilabel_margin_loss'


class MultiMarginLoss(_WeightedLoss):
    """multi_margin_loss."""

    _gt_function, _gt_options = 'multi_margin_loss', ('p', 'margin', 'weight')

    def __init__(self, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction='mean'):
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError('only p == 1 and p == 2 supported')
        if weight is not None and weight.ndim != 1:
            raise ValueError(f'MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.ndim}D instead')
        self.p, self.margin = p, margin
