"""Losses, as functions and as modules. gt.nn.functional has the functions too."""

import warnings

import gt
from gt import _gt
from gt.autograd import Function
from gt.client.halves import HALVES, half_of, in_float32
from gt.nn import functional as F
from gt.nn.module import Module


def legacy_reduction(size_average, reduce, reduction):
    """The reduction that PyTorch's old arguments mean, or `reduction` if neither is given."""
    if size_average is None and reduce is None:
        return reduction
    meant = 'none' if reduce is not None and not reduce else 'mean' if size_average in (None, True) else 'sum'
    warnings.warn(f"size_average and reduce args will be deprecated, please use reduction='{meant}' instead.",
                  stacklevel=3)
    return meant


def _reduced(loss, reduction):
    if reduction == 'mean':
        return loss.mean()
    if reduction == 'sum':
        return loss.sum()
    if reduction == 'none':
        return loss
    if reduction == 'elementwise_mean':
        warnings.warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.", stacklevel=3)
        return loss.mean()
    raise ValueError(f'{reduction} is not a valid value for reduction')


def _warn_of_sizes(input, target):
    if target.shape != input.shape:
        warnings.warn(f'Using a target size (gt.Size({list(target.shape)})) that is different to the input size '
                      f'(gt.Size({list(input.shape)})). This will likely lead to incorrect results due to broadcasting. '
                      'Please ensure they have the same size.', stacklevel=3)


def _check_weight(input, weight):
    if weight.shape != input.shape:
        raise ValueError('Weights and input must have the same size.')


def _weighted_mean(losses, weight, reduction):
    return (losses * weight).sum() / weight.sum() if reduction == 'mean' else _reduced(losses * weight, reduction)


# ---- distances -----------------------------------------------------------------------------------------------


def mse_loss(input, target, size_average=None, reduce=None, reduction='mean', weight=None):
    """(x - y)², times weight; with weights, the mean divides by their sum."""
    _warn_of_sizes(input, target)
    reduction = legacy_reduction(size_average, reduce, reduction)
    squares = (input - target).square()
    if weight is None:
        return _reduced(squares, reduction)
    _check_weight(input, weight)
    return _weighted_mean(squares, weight, reduction)


def l1_loss(input, target, size_average=None, reduce=None, reduction='mean', weight=None):
    """|x - y|, times weight; with weights, the mean divides by their sum."""
    _warn_of_sizes(input, target)
    reduction = legacy_reduction(size_average, reduce, reduction)
    distance = (input - target).abs()
    if weight is None:
        return _reduced(distance, reduction)
    _check_weight(input, weight)
    return _weighted_mean(distance, weight, reduction)


def _once(losses, input, target, *options):
    """losses(input, target, ...), of halves in float32 and rounded once."""
    dtype = half_of(input, target) if input.dtype in HALVES else None
    return in_float32(losses, dtype, input, target, *options) if dtype else losses(input, target, *options)


def _smooth_l1(input, target, beta):
    distance = (input - target).abs()
    return gt.where(distance < beta, distance.clamp(max=beta).square() * (0.5 / beta), distance - 0.5 * beta)


def _huber(input, target, delta):
    distance = (input - target).abs()
    return gt.where(distance <= delta, distance.clamp(max=delta).square() * 0.5, (distance - 0.5 * delta) * delta)


def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction='mean', beta=1.0):
    """(x - y)² / (2 beta) where |x - y| < beta, else |x - y| - beta / 2."""
    if beta < 0:
        raise RuntimeError('smooth_l1_loss does not support negative values for beta.')
    reduction = legacy_reduction(size_average, reduce, reduction)
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    _warn_of_sizes(input, target)
    return _reduced(_once(_smooth_l1, input, target, beta), reduction)


def huber_loss(input, target, reduction='mean', delta=1.0, weight=None):
    """(x - y)² / 2 where |x - y| <= delta, else delta * (|x - y| - delta / 2); times weight."""
    if delta <= 0:
        raise RuntimeError('huber_loss does not support non-positive values for delta.')
    _warn_of_sizes(input, target)
    losses = _once(_huber, input, target, delta)
    if weight is not None:
        _check_weight(input, weight)
        losses = losses * weight
    return _reduced(losses, reduction)


# ---- probabilities of two classes ----------------------------------------------------------------------------


class _BinaryCrossEntropy(Function):
    """The loss of each element. Logarithms are at least -100, and the denominator of the gradient at least 1e-12."""

    @staticmethod
    def forward(ctx, input, target):
        """-(y log(p) + (1 - y) log(1 - p))."""
        ctx.save_for_backward(input, target)
        log, log_other = input.log().clamp(min=-100.0), (-input).log1p().clamp(min=-100.0)
        return (target - 1.0) * log_other - target * log

    @staticmethod
    def backward(ctx, gradient):
        """By input, and by target where it is wanted."""
        input, target = ctx.saved_tensors
        slope = gradient * (input - target) / ((1.0 - input) * input).clamp(min=1e-12)
        if not ctx.needs_input_grad[1]:
            return slope, None
        return slope, gradient * ((-input).log1p().clamp(min=-100.0) - input.log().clamp(min=-100.0))

    @staticmethod
    def vmap(info, in_dims, input, target):
        """Elementwise, so that a batch is only larger."""
        both = [x.unsqueeze(0).expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
                for x, dim in zip((input, target), in_dims)]
        return _BinaryCrossEntropy.apply(*both), 0


def _check_probabilities(input, target):
    """Raise if an element is outside 0..1, as PyTorch does; waits for the values."""
    if gt._gt._vmap_active() or not input.numel():
        return
    with gt.no_grad():
        answers = gt.stack([((x >= 0) & (x <= 1)).all() for x in (input, target)]).tolist()
    for name, fits in zip(('input', 'target'), answers):
        if not fits:
            raise RuntimeError(f'all elements of {name} should be between 0 and 1')


def _check_sizes(input, target):
    if input.shape != target.shape:
        raise ValueError(f'Target size (gt.Size({list(target.shape)})) must be the same as input size '
                         f'(gt.Size({list(input.shape)}))')


def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction='mean'):
    """-(y log(p) + (1 - y) log(1 - p)) of probabilities p."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    if input.shape != target.shape:
        raise ValueError(f'Using a target size (gt.Size({list(target.shape)})) that is different to the input size '
                         f'(gt.Size({list(input.shape)})) is deprecated. Please ensure they have the same size.')
    if input.dtype != target.dtype:
        raise RuntimeError(f'Found dtype {target.dtype._kind} but expected {input.dtype._kind}')
    _check_probabilities(input, target)
    loss = _BinaryCrossEntropy.apply(input, target)
    return _reduced(loss if weight is None else (loss * weight).to(loss.dtype), reduction)


def binary_cross_entropy_with_logits(input, target, weight=None, size_average=None, reduce=None, reduction='mean',
                                     pos_weight=None):
    """binary_cross_entropy of sigmoid(x), computed stably; pos_weight scales the loss of positives."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    _check_sizes(input, target)
    softplus = (-input).softplus()
    if pos_weight is not None:
        softplus = (softplus * ((pos_weight - 1.0) * target + 1.0)).to(softplus.dtype)
    loss = (1.0 - target) * input + softplus
    loss = loss if weight is None else loss * weight
    if not target.is_floating_point():
        raise RuntimeError(f"result type {loss.dtype._kind} can't be cast to the desired output type {target.dtype._kind}")
    return _reduced(loss if loss.dtype == target.dtype else loss.to(target.dtype), reduction)


# ---- probabilities of many classes ---------------------------------------------------------------------------


def _class_dim(input):
    return 1 if input.ndim > 1 else 0


def _class_shape(weight, input):
    """Class weights, shaped to multiply scores."""
    return weight.reshape(-1, *(1,) * (input.ndim - 1 - _class_dim(input)))


def _refuse_target(shape, target, expected):
    """Raise PyTorch's error for class indices of a shape that does not fit the scores'."""
    if len(shape) != 1 and shape[0] != (target[0] if target else 0):
        raise ValueError(f'Expected input batch_size ({shape[0]}) to match target batch_size ({target[0] if target else 0}).')
    if len(shape) < 3 and len(target) > 1:
        raise RuntimeError('0D or 1D target tensor expected, multi-target not supported')
    if len(shape) == 4 and len(target) != 3:
        raise RuntimeError(f'only batches of spatial targets supported (3D tensors) but got targets of dimension: {len(target)}')
    if len(shape) in (1, 2, 4):
        raise RuntimeError(f'size mismatch (got input: {list(shape)} , target: {list(target)}')
    raise RuntimeError(f'Expected target size {list(expected)}, got {list(target)}')


def _check_classes(name, input, target):
    if not isinstance(target, gt.Tensor):
        raise TypeError(f"{name}(): argument 'target' (position 2) must be Tensor, not {type(target).__name__}")
    if not isinstance(input, gt.Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")


def _picked(scores, target, weight, ignore_index):
    """-score of each target class times its weight, those weights, and which targets count."""
    dim, shape = _class_dim(scores), scores.shape
    expected, classes = shape[:dim] + shape[dim + 1:], shape[dim]
    if target.shape != expected:
        _refuse_target(shape, target.shape, expected)
    if weight is not None and weight.shape != (classes,):
        raise RuntimeError(f'weight tensor should be defined either for all {classes} classes or no classes but got weight '
                           f'tensor of shape: {list(weight.shape)}')
    if weight is not None and weight.dtype != scores.dtype:
        raise RuntimeError(f'expected scalar type {scores.dtype._kind} but found {weight.dtype._kind}')
    if target.dtype not in (gt.int64, gt.uint8):
        raise RuntimeError(f'expected scalar type Long but found {target.dtype._kind}')
    given, target = target, target.long()  # ignore_index may be no uint8
    bad = target._outside(0, classes - 1, ignore_index)
    if bad is not None and bad != ignore_index:
        raise IndexError(f'Target {bad} is out of bounds.')
    weights = counted = target != ignore_index
    index = (target * counted).long()
    losses = (-scores.gather(dim, index.unsqueeze(dim)).squeeze(dim))._watch(given)
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


def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean'):
    """-x[class]: of log-probabilities (N, C, ...) and class indices (N, ...)."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    loss = _gt._nll(input, target, ignore_index, reduction) if weight is None else None
    if loss is not None:
        return loss
    _check_classes('nll_loss_nd', input, target)
    if not (input.is_floating_point() or input.is_complex()):
        raise NotImplementedError(f'"nll_loss_out_frame" not implemented for \'{input.dtype._kind}\'')
    losses, weights, _ = _picked(input, target, weight, ignore_index)
    return _weighted(losses, weights, reduction)


def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean',
                  label_smoothing=0.0):
    """-log(softmax(x))[class]: of scores (N, C, ...) and class indices (N, ...) or probabilities (N, C, ...)."""
    if weight is None and size_average is None and reduce is None and label_smoothing == 0.0:
        loss = _gt._cross_entropy(input, target, ignore_index, reduction)  # in the most common case
        if loss is not None:
            return loss
    reduction = legacy_reduction(size_average, reduce, reduction)
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f'label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing:g}')
    _check_classes('cross_entropy_loss', input, target)
    dim = _class_dim(input)
    scores = input.log_softmax(dim)
    loss = _gt._nll(scores, target, ignore_index, reduction) if weight is None and not label_smoothing else None
    if loss is not None:
        return loss
    smoothing = label_smoothing / input.shape[dim]
    if target.shape == input.shape:
        if not target.is_floating_point():
            raise RuntimeError('Expected floating point type for target with class probabilities, got '
                               f'{target.dtype._kind}')
        if ignore_index >= 0:
            raise RuntimeError('ignore_index is not supported for floating point target')
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


def kl_div(input, target, size_average=None, reduce=None, reduction='mean', log_target=False):
    """y (log(y) - x) of log-probabilities x and probabilities y, or their logarithms."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    if reduction == 'mean':
        warnings.warn("reduction: 'mean' divides the total loss by both the batch size and the support size.'batchmean' "
                      "divides only by the batch size, and aligns with the KL div math definition.'mean' will be changed "
                      "to behave the same as 'batchmean' in the next major release.", stacklevel=2)
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = target.xlogy(target) - target * input
    if reduction == 'batchmean':
        return loss.sum() / input.shape[0] if input.ndim else loss.sum()
    return _reduced(loss, reduction)


# ---- modules -------------------------------------------------------------------------------------------------


class _Loss(Module):
    """The base of losses, with their reduction: 'mean', 'sum' or 'none'."""

    _gt_function, _gt_options = None, ()  # what a loss computes, and the names of its options

    def __init__(self, size_average=None, reduce=None, reduction='mean'):
        super().__init__()
        self.reduction = legacy_reduction(size_average, reduce, reduction)

    def _gt_called(self, *tensors):
        """The function of the tensors with the options of this module."""
        options = {name: getattr(self, name) for name in self._gt_options}
        return getattr(F, self._gt_function)(*tensors, reduction=self.reduction, **options)

    def forward(self, input, target):
        """The loss."""
        return self._gt_called(input, target)


class _WeightedLoss(_Loss):
    """The base of losses with a weight."""

    _gt_options = ('weight',)

    def __init__(self, weight=None, size_average=None, reduce=None, reduction='mean'):
        super().__init__(size_average, reduce, reduction)
        self.register_buffer('weight', weight)


class MSELoss(_Loss):
    """mse_loss.

    >>> nn.MSELoss()(prediction, target)
    """

    _gt_function = 'mse_loss'


class L1Loss(_Loss):
    """l1_loss."""

    _gt_function = 'l1_loss'


class SmoothL1Loss(_Loss):
    """smooth_l1_loss."""

    _gt_function, _gt_options = 'smooth_l1_loss', ('beta',)

    def __init__(self, size_average=None, reduce=None, reduction='mean', beta=1.0):
        super().__init__(size_average, reduce, reduction)
        self.beta = beta


class HuberLoss(_Loss):
    """huber_loss."""

    _gt_function, _gt_options = 'huber_loss', ('delta',)

    def __init__(self, reduction='mean', delta=1.0):
        super().__init__(reduction=reduction)
        self.delta = delta


class BCELoss(_WeightedLoss):
    """binary_cross_entropy."""

    _gt_function = 'binary_cross_entropy'


class BCEWithLogitsLoss(_Loss):
    """binary_cross_entropy_with_logits."""

    _gt_function, _gt_options = 'binary_cross_entropy_with_logits', ('weight', 'pos_weight')

    def __init__(self, weight=None, size_average=None, reduce=None, reduction='mean', pos_weight=None):
        super().__init__(size_average, reduce, reduction)
        self.register_buffer('weight', weight)
        self.register_buffer('pos_weight', pos_weight)


class NLLLoss(_WeightedLoss):
    """nll_loss."""

    _gt_function, _gt_options = 'nll_loss', ('weight', 'ignore_index')

    def __init__(self, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean'):
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index


class NLLLoss2d(NLLLoss):
    """NLLLoss, under its old name."""


class CrossEntropyLoss(_WeightedLoss):
    """cross_entropy.

    >>> nn.CrossEntropyLoss()(scores, classes)
    """

    _gt_function, _gt_options = 'cross_entropy', ('weight', 'ignore_index', 'label_smoothing')

    def __init__(self, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean',
                 label_smoothing=0.0):
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing


class KLDivLoss(_Loss):
    """kl_div."""

    _gt_function, _gt_options = 'kl_div', ('log_target',)

    def __init__(self, size_average=None, reduce=None, reduction='mean', log_target=False):
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target
