"""Losses of pairs, triplets and distributions, as functions and as modules; gt.nn.functional has them too."""

import math

import gt
from gt import where
from gt.nn import functional as F
from gt.nn.losses import _Loss, _reduced, legacy_reduction
from gt.nn.module import Module


def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """The p-norm of x1 - x2 + eps along the last dimension."""
    return (x1 - x2 + eps).norm(p, -1, keepdim)


def _check_margin(margin):
    if margin <= 0:
        raise ValueError(f'margin must be greater than 0, got {margin}')


def _check_dimensions(anchor, positive, negative):
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError('The anchor, positive, and negative tensors are expected to have the same number of '
                           f'dimensions, but got: anchor {anchor.ndim}D, positive {positive.ndim}D, and negative '
                           f'{negative.ndim}D inputs')


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None,
                        reduce=None, reduction='mean'):
    """max(distance to the positive - distance to the negative + margin, 0)."""
    def distance(a, b):
        return pairwise_distance(a, b, p, eps)
    reduction = legacy_reduction(size_average, reduce, reduction)
    return triplet_margin_with_distance_loss(anchor, positive, negative, distance_function=distance, margin=margin,
                                             swap=swap, reduction=reduction)


def triplet_margin_with_distance_loss(anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False,
                                      reduction='mean'):
    """triplet_margin_loss with any distance; swap: use the distance of positive and negative if it is smaller."""
    if reduction not in ('mean', 'sum', 'none'):
        raise ValueError(f'{reduction} is not a valid value for reduction')
    _check_margin(margin)
    _check_dimensions(anchor, positive, negative)
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return _reduced((near - far + margin).clamp(min=0), reduction)


def margin_ranking_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction='mean'):
    """max(-target * (input1 - input2) + margin, 0), with targets 1 and -1."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    if not input1.ndim == input2.ndim == target.ndim:
        sizes = [f'gt.Size({list(tensor.shape)})' for tensor in (input1, input2, target)]
        raise RuntimeError('margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: '
                           f'{sizes[0]}, input2: {sizes[1]}, target: {sizes[2]} ')
    return _reduced((-target * (input1 - input2) + margin).clamp(min=0), reduction)


def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction='mean'):
    """The input where the target is 1, and max(margin - input, 0) where it is -1; both where it is neither."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    lacking = where(target == 1, 0.0, (margin - input).clamp(min=0))
    return _reduced(where(target == -1, 0.0, input) + lacking, reduction)


def cosine_embedding_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction='mean'):
    """1 - cosine where the target is 1, and max(cosine - margin, 0) where it is -1."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    if target.ndim > 1 or input1.ndim != input2.ndim or input1.ndim != target.ndim + 1:
        raise RuntimeError(f'{target.ndim}D target tensor expects {target.ndim + 1}D input tensors, but found inputs with '
                           f'sizes {list(input1.shape)} and {list(input2.shape)}.')
    # PyTorch's epsilon, which is added to the squares
    squares1, squares2 = input1.square().sum(-1) + 1e-12, input2.square().sum(-1) + 1e-12
    cosine = (input1 * input2).sum(-1) / (squares1 * squares2).sqrt()
    excess = where(target == -1, (cosine - margin).clamp(min=0), 0.0)
    return _reduced(where(target == 1, 1.0 - cosine, 0.0) + excess, reduction)


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction='mean'):
    """-log of the normal density with mean input and variance var, a tensor or a number, at the target."""
    if isinstance(var, float):
        if var < 0:
            raise ValueError('var has negative entry/entries')
        var = gt.full_like(input, var)
    elif bool((var < 0).any()):
        raise ValueError('var has negative entry/entries')
    if var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif input.ndim != var.ndim or sum(y for x, y in zip(input.shape, var.shape) if x != y) != 1:
            raise ValueError('var is of incorrect size')
    if reduction not in ('mean', 'sum', 'none'):
        raise ValueError(f'{reduction} is not valid')
    value = var.detach().clamp(min=eps) - var.detach() + var  # clamped, but with the gradient of var
    loss = (value.log() + (input - target).square() / value) * 0.5
    return _reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


def poisson_nll_loss(input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None,
                     reduction='mean'):
    """-log of the Poisson probability of the target; full: with Stirling's term for targets above 1."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (target * (2 * math.pi)).log()
        loss = loss + where(target > 1, stirling, 0.0)
    return _reduced(loss, reduction)


# ---- modules -------------------------------------------------------------------------------------------------


class PairwiseDistance(Module):
    """pairwise_distance."""

    def __init__(self, p=2.0, eps=1e-6, keepdim=False):
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1, x2):
        """The distances."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class TripletMarginLoss(_Loss):
    """triplet_margin_loss."""

    _gt_function, _gt_options = 'triplet_margin_loss', ('margin', 'p', 'eps', 'swap')

    def __init__(self, margin=1.0, p=2.0, eps=1e-6, swap=False, size_average=None, reduce=None, reduction='mean'):
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(f'TripletMarginLoss: expected margin to be greater than 0, got {margin} instead')
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor, positive, negative):
        """The loss."""
        return self._gt_called(anchor, positive, negative)


class TripletMarginWithDistanceLoss(_Loss):
    """triplet_margin_with_distance_loss."""

    _gt_function = 'triplet_margin_with_distance_loss'
    _gt_options = ('distance_function', 'margin', 'swap')

    def __init__(self, *, distance_function=None, margin=1.0, swap=False, reduction='mean'):
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(f'TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin} instead')
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self.margin, self.swap = margin, swap

    def forward(self, anchor, positive, negative):
        """The loss."""
        return self._gt_called(anchor, positive, negative)


class _Margin(_Loss):
    """A loss of two inputs and a target, with a margin."""

    _gt_options = ('margin',)

    def __init__(self, margin=0.0, size_average=None, reduce=None, reduction='mean'):
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1, input2, target):
        """The loss."""
        return self._gt_called(input1, input2, target)


class MarginRankingLoss(_Margin):
    """margin_ranking_loss."""

    _gt_function = 'margin_ranking_loss'


class CosineEmbeddingLoss(_Margin):
    """cosine_embedding_loss."""

    _gt_function = 'cosine_embedding_loss'


class HingeEmbeddingLoss(_Loss):
    """hinge_embedding_loss."""

    _gt_function, _gt_options = 'hinge_embedding_loss', ('margin',)

    def __init__(self, margin=1.0, size_average=None, reduce=None, reduction='mean'):
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class GaussianNLLLoss(_Loss):
    """gaussian_nll_loss."""

    _gt_function, _gt_options = 'gaussian_nll_loss', ('full', 'eps')

    def __init__(self, *, full=False, eps=1e-6, reduction='mean'):
        super().__init__(reduction=reduction)
        self.full, self.eps = full, eps

    def forward(self, input, target, var):
        """The loss."""
        return self._gt_called(input, target, var)


class PoissonNLLLoss(_Loss):
    """poisson_nll_loss."""

    _gt_function, _gt_options = 'poisson_nll_loss', ('log_input', 'full', 'eps')

    def __init__(self, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction='mean'):
        super().__init__(size_average, reduce, reduction)
        self.log_input, self.full, self.eps = log_input, full, eps
