"""Losses of pairs, triplets and distributions, as functions and as modules; gt.nn.functional has them too."""

import math

from gt import where
from gt.client.statistics import cosine_similarity
from gt.nn.losses import _Loss, _reduced
from gt.nn.module import Module


def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """The p-norm of x1 - x2 + eps along the last dimension."""
    return (x1 - x2 + eps).norm(p, -1, keepdim)


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, reduction='mean'):
    """max(distance to the positive - distance to the negative + margin, 0)."""
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = far.minimum(pairwise_distance(positive, negative, p, eps))
    return _reduced((near - far + margin).clamp(min=0), reduction)


def margin_ranking_loss(input1, input2, target, margin=0.0, reduction='mean'):
    """max(-target * (input1 - input2) + margin, 0), with targets 1 and -1."""
    return _reduced((-target * (input1 - input2) + margin).clamp(min=0), reduction)


def hinge_embedding_loss(input, target, margin=1.0, reduction='mean'):
    """The input where the target is 1, and max(margin - input, 0) where it is -1."""
    lacking = where(target == -1, (margin - input).clamp(min=0), 0.0)
    return _reduced(where(target == 1, input, 0.0) + lacking, reduction)


def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction='mean'):
    """1 - cosine where the target is 1, and max(cosine - margin, 0) where it is -1."""
    cosine = cosine_similarity(input1, input2, -1)
    excess = where(target == -1, (cosine - margin).clamp(min=0), 0.0)
    return _reduced(where(target == 1, 1.0 - cosine, 0.0) + excess, reduction)


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction='mean'):
    """-log of the normal density with mean input and variance var, at the target."""
    value = var.detach().clamp(min=eps) - var.detach() + var  # clamped, but with the gradient of var
    loss = (value.log() + (input - target).square() / value) * 0.5
    return _reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


def poisson_nll_loss(input, target, log_input=True, full=False, eps=1e-8, reduction='mean'):
    """-log of the Poisson probability of the target; full: with Stirling's term for targets above 1."""
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (target * (2 * math.pi)).log()
        loss = loss + where(target > 1, stirling, 0.0)
    return _reduced(loss, reduction)


# ---- modules -------------------------------------------------------------------------------------------------


class _Several(_Loss):
    """A loss of more than two tensors."""

    def forward(self, *tensors):
        options = {name: getattr(self, name) for name in self.options}
        return self.function(*tensors, reduction=self.reduction, **options)


class PairwiseDistance(Module):
    """pairwise_distance."""

    def __init__(self, p=2.0, eps=1e-6, keepdim=False):
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1, x2):
        return pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class TripletMarginLoss(_Several):
    """triplet_margin_loss."""

    function = staticmethod(triplet_margin_loss)

    def __init__(self, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction='mean'):
        super().__init__(reduction, margin=margin, p=p, eps=eps, swap=swap)


class MarginRankingLoss(_Several):
    """margin_ranking_loss."""

    function = staticmethod(margin_ranking_loss)

    def __init__(self, margin=0.0, reduction='mean'):
        super().__init__(reduction, margin=margin)


class HingeEmbeddingLoss(_Several):
    """hinge_embedding_loss."""

    function = staticmethod(hinge_embedding_loss)

    def __init__(self, margin=1.0, reduction='mean'):
        super().__init__(reduction, margin=margin)


class CosineEmbeddingLoss(_Several):
    """cosine_embedding_loss."""

    function = staticmethod(cosine_embedding_loss)

    def __init__(self, margin=0.0, reduction='mean'):
        super().__init__(reduction, margin=margin)


class GaussianNLLLoss(_Several):
    """gaussian_nll_loss."""

    function = staticmethod(gaussian_nll_loss)

    def __init__(self, *, full=False, eps=1e-6, reduction='mean'):
        super().__init__(reduction, full=full, eps=eps)


class PoissonNLLLoss(_Several):
    """poisson_nll_loss."""

    function = staticmethod(poisson_nll_loss)

    def __init__(self, log_input=True, full=False, eps=1e-8, reduction='mean'):
        super().__init__(reduction, log_input=log_input, full=full, eps=eps)
