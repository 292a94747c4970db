"""ctc_loss: the sum over all alignments of a sequence of labels to a longer sequence of frames.

Labels are extended by blanks: blank, first label, blank, second label, ... The forward pass finds for each frame t and
place s in the extended sequence the log-probability alpha[t, s] of all ways to be there; the backward pass finds
beta[t, s], that of all ways to go on from there. Each frame is a few operations for the whole batch.
"""

import math

import gt
from gt import _gt, autograd, where
from gt.nn import functional as F
from gt.nn.losses import _Loss, _reduced


def _lengths(name, given, batch):
    """Lengths as a list of numbers; a tensor is read, which waits."""
    lengths = given.tolist() if isinstance(given, gt.Tensor) else list(given) if hasattr(given, '__iter__') else given
    lengths = lengths if isinstance(lengths, list) else [lengths]
    if isinstance(given, gt.Tensor) and given.is_floating_point():
        raise RuntimeError(f'{name} must be integral')
    if len(lengths) != batch:
        raise RuntimeError(f'{name} must be of size batch_size')
    return [int(length) for length in lengths]


class _Problem:
    """The extended labels (N, 2 S + 1) of a batch, and what does not depend on the probabilities."""

    def __init__(self, log_probs, targets, input_lengths, target_lengths, blank):
        steps, batch, _ = log_probs.shape
        self.input_lengths, self.target_lengths = input_lengths, target_lengths
        longest = max(target_lengths, default=0)
        if targets.ndim == 1:
            starts = [sum(target_lengths[:n]) for n in range(batch)]
            index = [[start + min(k, max(length - 1, 0)) for k in range(longest)]
                     for start, length in zip(starts, target_lengths)]
            padded = targets._pick_rows(0, gt.tensor(index, dtype=_gt.int64).clamp(max=max(targets.numel() - 1, 0))) \
                if longest and targets.numel() else gt.zeros(batch, longest, dtype=_gt.int64)
        else:
            padded = targets[:, :longest]
        places = 2 * longest + 1
        lengths = gt.tensor(target_lengths, dtype=_gt.int64).reshape(batch, 1)
        padded = where(gt.arange(longest).reshape(1, -1) < lengths, padded.long(), blank)
        blanks = gt.full((batch, longest), blank, dtype=_gt.int64)
        self.labels = gt.cat([gt.stack([blanks, padded], 2).reshape(batch, places - 1),
                              gt.full((batch, 1), blank, dtype=_gt.int64)], 1)
        place = gt.arange(places).reshape(1, -1)
        self.ends = (place == 2 * lengths) | (place == 2 * lengths - 1)  # where an alignment may end
        # A label may follow the one before without a blank between them, unless both are the same.
        differs = gt.cat([gt.zeros(batch, min(2, places), dtype=_gt.bool), self.labels[:, 2:] != self.labels[:, :-2]], 1)
        self.skip = self._bias((place % 2 == 1) & differs, log_probs.dtype)
        self.dtype, self.outside = log_probs.dtype, gt.full((batch, 2), -math.inf, dtype=log_probs.dtype)
        # (T, N, places): the log-probability of the label at each place
        self.scores = log_probs.gather(2, self.labels.unsqueeze(0).expand(steps, batch, places))
        self.last = gt.tensor([length - 1 for length in input_lengths], dtype=_gt.int64).reshape(batch, 1)

    @staticmethod
    def _bias(allowed, dtype):
        return gt.zeros(allowed.shape, dtype=dtype).masked_fill(~allowed, -math.inf)

    def alphas(self):
        """(T, N, places)."""
        steps, _, places = self.scores.shape
        alpha = self.scores[0] + self._bias(gt.arange(places) < 2, self.dtype)
        found = [alpha]
        for t in range(1, steps):
            before = gt.cat([self.outside, alpha], 1)
            alpha = gt.stack([alpha, before[:, 1:-1], before[:, :-2] + self.skip]).logsumexp(0) + self.scores[t]
            found.append(alpha)
        return gt.stack(found)

    def betas(self):
        """(T, N, places)."""
        steps = self.scores.shape[0]
        start = self._bias(self.ends, self.dtype)
        beta, found = gt.full_like(start, -math.inf), []
        even = len(set(self.input_lengths)) == 1
        for t in reversed(range(steps)):
            if t < steps - 1:
                after = beta + self.scores[t + 1]
                beta = gt.stack([after, gt.cat([after[:, 1:], self.outside[:, :1]], 1),
                                 gt.cat([(after + self.skip)[:, 2:], self.outside], 1)[:, :after.shape[1]]]).logsumexp(0)
            if not even:
                beta = where(self.last == t, start, beta)
            elif t == self.input_lengths[0] - 1:
                beta = start
            found.append(beta)
        return gt.stack(found[::-1])

    def losses(self, alphas):
        """(N): minus the log-probability of all alignments."""
        batch, places = self.labels.shape
        last = self.last.clamp(min=0).reshape(1, batch, 1).expand(1, batch, places)
        final = alphas.gather(0, last).squeeze(0) + self._bias(self.ends, self.dtype)
        losses = -final.logsumexp(1)
        if 0 in self.input_lengths:  # without frames only the empty sequence is possible
            empty = [0.0 if length == 0 else math.inf for length in self.target_lengths]
            losses = where(self.last.squeeze(1) < 0, gt.tensor(empty, dtype=self.dtype), losses)
        return losses


class _CTC(autograd.Function):
    """The losses (N) of log-probabilities (T, N, C). The gradient is PyTorch's, that by the scores before log_softmax."""

    @staticmethod
    def forward(ctx, log_probs, problem, zero_infinity):
        ctx.problem, ctx.zero_infinity = problem, zero_infinity
        alphas = problem.alphas()
        losses = problem.losses(alphas)
        ctx.save_for_backward(log_probs, alphas, losses)
        return where(losses == math.inf, 0.0, losses) if zero_infinity else losses

    @staticmethod
    def backward(ctx, gradient):
        (log_probs, alphas, losses), problem = ctx.saved_tensors, ctx.problem
        steps, batch, _ = log_probs.shape
        visits = (alphas + problem.betas() + losses.unsqueeze(1)).exp()  # the probability to be at a place
        index = problem.labels.unsqueeze(0).expand(steps, *problem.labels.shape)
        expected = gt.zeros_like(log_probs).scatter_add(2, index, visits)
        change = (log_probs.exp() - expected) * gradient.unsqueeze(1)
        counted = gt.arange(steps).reshape(-1, 1) <= problem.last.reshape(1, -1)
        if ctx.zero_infinity:
            counted = counted & (losses != math.inf).unsqueeze(0)
        return where(counted.unsqueeze(2), change, 0.0), None, None


def _check(log_probs, targets, input_lengths, target_lengths, blank):
    steps, _, classes = log_probs.shape
    if not 0 <= blank < classes:
        raise RuntimeError('blank must be in label range')
    for number, length in enumerate(input_lengths):
        if not 0 <= length <= steps:
            problem = 'at most' if length > steps else 'non-negative'
            raise RuntimeError(f'Expected input_lengths to have value {problem} {steps if length > steps else ""}, but got '
                               f'value {length} at index {number}')
    for number, length in enumerate(target_lengths):
        if length < 0 or (targets.ndim == 2 and length > targets.shape[1]):
            raise RuntimeError(f'Expected target_lengths between 0 and {targets.shape[-1]}, but got value {length} at index '
                               f'{number}')
    if targets.ndim == 1 and sum(target_lengths) > targets.shape[0]:
        raise RuntimeError(f'Expected tensor to have size at least {sum(target_lengths)} at dimension 0, but got size '
                           f'{targets.shape[0]} for argument #2 \'targets\'')


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction='mean', zero_infinity=False):
    """Minus the log-probability of label sequences, summed over all alignments to the frames of log_probs.

    log_probs: (T, N, C) or (T, C), after log_softmax. targets: (N, S), or all sequences one after the other, without
    `blank`. zero_infinity: 0 where no alignment is possible. The mean divides each loss by its target length first.

    >>> F.ctc_loss(scores.log_softmax(2), targets, [50] * 4, [10] * 4)
    """
    if not log_probs.is_floating_point():
        raise RuntimeError('ctc_loss expects floating point log_probs')
    if targets.is_floating_point():
        raise RuntimeError('ctc_loss expects integer targets')
    if log_probs.ndim not in (2, 3):
        raise RuntimeError(f'log_probs must have 2 or 3 dimensions, got {log_probs.ndim}')
    batched = log_probs.ndim == 3
    if not batched:
        log_probs = log_probs.unsqueeze(1)
    elif targets.ndim not in (1, 2) or (targets.ndim == 2 and targets.shape[0] != log_probs.shape[1]):
        raise RuntimeError(f'targets must have size (N, S) or (sum of target_lengths), got {list(targets.shape)}')
    if not batched and targets.ndim == 2:
        targets = targets.reshape(-1)
    batch = log_probs.shape[1]
    input_lengths = _lengths('input_lengths', input_lengths, batch)
    target_lengths = _lengths('target_lengths', target_lengths, batch)
    _check(log_probs, targets, input_lengths, target_lengths, blank)
    with gt.no_grad():
        problem = _Problem(log_probs.detach(), targets, input_lengths, target_lengths, blank)
    losses = _CTC.apply(log_probs, problem, zero_infinity)
    if reduction == 'mean':
        return (losses / gt.tensor([max(length, 1) for length in target_lengths], dtype=losses.dtype)).mean()
    return _reduced(losses if batched else losses.squeeze(0), reduction)


class CTCLoss(_Loss):
    """ctc_loss."""

    _gt_function, _gt_options = 'ctc_loss', ('blank', 'zero_infinity')

    def __init__(self, blank=0, reduction='mean', zero_infinity=False):
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(self, log_probs, targets, input_lengths, target_lengths):
        """The loss."""
        return self._gt_called(log_probs, targets, input_lengths, target_lengths)
