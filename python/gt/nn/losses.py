"""Losses, as functions and as modules. gt.nn.functional has the functions too."""

import gt
from gt.nn.module import Module


def _reduced(loss, reduction):
    if reduction == 'mean':
        return loss.mean()
    if reduction == 'sum':
        return loss.sum()
    if reduction == 'none':
        return loss
    raise ValueError(f'{reduction} is not a valid value for reduction')


# ---- distances -----------------------------------------------------------------------------------------------


def mse_loss(input, target, reduction='mean', weight=None):
    """(x - y)², times weight; with weights, the mean divides by their sum."""
    squares = (input - target).square()
    if weight is None:
        return _reduced(squares, reduction)
    return (squares * weight).sum() / weight.sum() if reduction == 'mean' else _reduced(squares * weight, reduction)


def l1_loss(input, target, reduction='mean'):
    """|x - y|."""
    return _reduced((input - target).abs(), reduction)


def smooth_l1_loss(input, target, reduction='mean', beta=1.0):
    """(x - y)² / (2 beta) where |x - y| < beta, else |x - y| - beta / 2."""
    if beta < 0:
        raise RuntimeError('smooth_l1_loss does not support negative values for beta.')
    if beta == 0:
        return l1_loss(input, target, reduction)
    distance = (input - target).abs()
    near = distance.clamp(max=beta)
    return _reduced(near.square() * (0.5 / beta) + (distance - near), reduction)


def huber_loss(input, target, reduction='mean', delta=1.0):
    """(x - y)² / 2 where |x - y| <= delta, else delta * (|x - y| - delta / 2)."""
    distance = (input - target).abs()
    near = distance.clamp(max=delta)
    return _reduced(near.square() * 0.5 + (distance - near) * delta, reduction)


# ---- probabilities of two classes ----------------------------------------------------------------------------


def _log(probability):
    """log(p), at least -100, with gradients that stay finite: the first bound is just below exp(-100)."""
    return probability.clamp(min=3.7e-44).log().clamp(min=-100.0)


def _check_sizes(input, target):
    if input.shape != target.shape:
        raise ValueError(f'Target size ({target.shape}) must be the same as input size ({input.shape})')


def binary_cross_entropy(input, target, weight=None, reduction='mean'):
    """-(y log(p) + (1 - y) log(1 - p)) of probabilities p."""
    _check_sizes(input, target)
    loss = -(target * _log(input) + (1.0 - target) * _log(1.0 - input))
    return _reduced(loss if weight is None else loss * weight, reduction)


def binary_cross_entropy_with_logits(input, target, weight=None, reduction='mean', pos_weight=None):
    """binary_cross_entropy of sigmoid(x), computed stably; pos_weight scales the loss of positives."""
    _check_sizes(input, target)
    softplus = (-input).softplus()
    if pos_weight is not None:
        softplus = softplus * ((pos_weight - 1.0) * target + 1.0)
    loss = (1.0 - target) * input + softplus
    return _reduced(loss if weight is None else loss * weight, reduction)


# ---- probabilities of many classes ---------------------------------------------------------------------------


def _class_dim(input):
    return 1 if input.ndim > 1 else 0


def _class_shape(weight, input):
    """Class weights, shaped to multiply scores."""
    return weight.reshape(-1, *(1,) * (input.ndim - 1 - _class_dim(input)))


def _picked(scores, target, weight, ignore_index):
    """-score of each target class times its weight, those weights, and which targets count."""
    dim = _class_dim(scores)
    expected = scores.shape[:dim] + scores.shape[dim + 1:]
    if target.shape != expected:
        raise ValueError(
            f'Expected target of shape {expected} for input of shape {scores.shape}, got {target.shape}')
    bad = target._outside(0, scores.shape[dim] - 1, ignore_index)
    if bad is not None and bad != ignore_index:
        raise IndexError(f'Target {bad} is out of bounds.')
    weights = counted = target != ignore_index
    index = (target * counted).long()
    losses = -scores.gather(dim, index.unsqueeze(dim)).squeeze(dim)
    if weight is not None:
        weights = weight._pick_rows(0, index) * counted
        losses = losses * weights
    return _where_counted(counted, losses), weights, counted


def _where_counted(counted, losses):
    """0 for ignored targets. Selected, not multiplied, so that no NaN gradient passes even if all are ignored."""
    return gt.where(counted, losses, 0.0)


def _weighted(losses, weights, reduction):
    if reduction == 'mean':
        return losses.sum() / weights.sum()
    return _reduced(losses, reduction)


def nll_loss(input, target, weight=None, ignore_index=-100, reduction='mean'):
    """-x[class]: of log-probabilities (N, C, ...) and class indices (N, ...)."""
    losses, weights, _ = _picked(input, target, weight, ignore_index)
    return _weighted(losses, weights, reduction)


def cross_entropy(input, target, weight=None, ignore_index=-100, reduction='mean', label_smoothing=0.0):
    """-log(softmax(x))[class]: of scores (N, C, ...) and class indices (N, ...) or probabilities (N, C, ...)."""
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f'label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}')
    dim = _class_dim(input)
    scores = input.log_softmax(dim)
    smoothing = label_smoothing / input.shape[dim]
    if target.is_floating_point():
        if label_smoothing:
            target = target * (1 - label_smoothing) + smoothing
        weighted = scores * target if weight is None else scores * target * _class_shape(weight, input)
        losses = -weighted.sum(dim)
        return losses.sum() / max(losses.numel(), 1) if reduction == 'mean' else _reduced(losses, reduction)
    losses, weights, counted = _picked(scores, target, weight, ignore_index)
    if label_smoothing:
        smooth = scores if weight is None else scores * _class_shape(weight, input)
        losses = losses * (1 - label_smoothing) - _where_counted(counted, smooth.sum(dim)) * smoothing
    return _weighted(losses, weights, reduction)


def kl_div(input, target, reduction='mean', log_target=False):
    """y (log(y) - x) of log-probabilities x and probabilities y, or their logarithms."""
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = target * (target.clamp(min=1e-38).log() - input)
    if reduction == 'batchmean':
        return loss.sum() / input.shape[0] if input.ndim else loss.sum()
    return _reduced(loss, reduction)


# ---- modules -------------------------------------------------------------------------------------------------


class _Loss(Module):
    """A loss with its reduction and the other options of its function."""

    function = None

    def __init__(self, reduction='mean', **options):
        super().__init__()
        self.reduction = reduction
        self.options = tuple(options)
        for name, value in options.items():
            if isinstance(value, gt.Tensor):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, input, target):
        options = {name: getattr(self, name) for name in self.options}
        return self.function(input, target, reduction=self.reduction, **options)


class MSELoss(_Loss):
    """mse_loss."""

    function = staticmethod(mse_loss)

    def __init__(self, reduction='mean'):
        super().__init__(reduction)


class L1Loss(_Loss):
    """l1_loss."""

    function = staticmethod(l1_loss)

    def __init__(self, reduction='mean'):
        super().__init__(reduction)


class SmoothL1Loss(_Loss):
    """smooth_l1_loss."""

    function = staticmethod(smooth_l1_loss)

    def __init__(self, reduction='mean', beta=1.0):
        super().__init__(reduction, beta=beta)


class HuberLoss(_Loss):
    """huber_loss."""

    function = staticmethod(huber_loss)

    def __init__(self, reduction='mean', delta=1.0):
        super().__init__(reduction, delta=delta)


class BCELoss(_Loss):
    """binary_cross_entropy."""

    function = staticmethod(binary_cross_entropy)

    def __init__(self, weight=None, reduction='mean'):
        super().__init__(reduction, weight=weight)


class BCEWithLogitsLoss(_Loss):
    """binary_cross_entropy_with_logits."""

    function = staticmethod(binary_cross_entropy_with_logits)

    def __init__(self, weight=None, reduction='mean', pos_weight=None):
        super().__init__(reduction, weight=weight, pos_weight=pos_weight)


class NLLLoss(_Loss):
    """nll_loss."""

    function = staticmethod(nll_loss)

    def __init__(self, weight=None, ignore_index=-100, reduction='mean'):
        super().__init__(reduction, weight=weight, ignore_index=ignore_index)


class CrossEntropyLoss(_Loss):
    """cross_entropy."""

    function = staticmethod(cross_entropy)

    def __init__(self, weight=None, ignore_index=-100, reduction='mean', label_smoothing=0.0):
        super().__init__(reduction, weight=weight, ignore_index=ignore_index, label_smoothing=label_smoothing)


class KLDivLoss(_Loss):
    """kl_div."""

    function = staticmethod(kl_div)

    def __init__(self, reduction='mean', log_target=False):
        super().__init__(reduction, log_target=log_target)
