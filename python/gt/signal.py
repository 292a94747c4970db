"""Signals: names for parts of a program. A config says where their tensors live.

    with gt.signal.context('layer1'):       # tensors and operations in this block are placed as `layer1` says
        y = x @ w
    x = gt.signal.tensor(x, name='layer1')  # a copy of one tensor, placed the same way

Without a config (gt.load_config, GT_CONFIG, gt.register_config) the same program runs unsharded. docs/sharding.md is
the guide.
"""

import sys

from gt import _gt, _help, autograd
from gt.client import windows
from gt.config import get_config

sys.modules[f'{__name__}.windows'] = windows  # gt.signal.windows, as in torch.signal


class context:
    """A scope for `with`. backward names the signal for the gradients of the operations inside."""

    def __init__(self, name, backward=None):
        self.name, self.backward = name, backward

    def __enter__(self):
        _gt.signal_enter(self.name, self.backward)
        return self

    def __exit__(self, *unused):
        _gt.signal_exit(self.name)


def enter(name, backward=None):
    """Enter a scope; exit(name) leaves it. Each thread has its own scopes."""
    _gt.signal_enter(name, backward)


def exit(name):
    """Leave the innermost scope, which must have this name."""
    _gt.signal_exit(name)


def tensor(x, name):
    """A copy of x, placed as the signal says."""
    return _gt.signal_tensor(x, name)


def _orders(stages, batches, schedule):
    """What each stage does with the micro-batches, in order: (is_forward, micro-batch)."""
    orders = []
    for stage in range(stages):
        ahead = batches if schedule == 'gpipe' else min(stages - stage, batches)
        order = [(True, batch) for batch in range(ahead)]
        for batch in range(batches):
            order.append((False, batch))
            if ahead + batch < batches:
                order.append((True, ahead + batch))
        orders.append(order)
    return orders


def _tensors(values):
    return list(values) if isinstance(values, (tuple, list)) else [values]


class Pipeline:
    """Stages, each under a signal, through which micro-batches go in the order of a schedule.

    stages is {signal: module}. 'gpipe' does all forwards of a stage, then all backwards. '1f1b' does a backward as soon as it
    can, then the next forward: a stage holds the activations of no more micro-batches than there are stages from it on. The
    default is what the signals' configs say, or '1f1b'.
    """

    def __init__(self, stages, schedule=None):
        self.signals, self.modules = list(stages), list(stages.values())
        if not self.signals:
            raise ValueError('a pipeline needs a stage')
        said = {config.schedule for config in map(get_config, self.signals) if config and config.schedule}
        if schedule is None and len(said) > 1:
            raise ValueError(f"the stages {', '.join(self.signals)} have different schedules: {' and '.join(sorted(said))}")
        self.schedule = schedule or (said.pop() if said else '1f1b')
        if self.schedule not in ('gpipe', '1f1b'):
            raise ValueError(f"schedule must be 'gpipe' or '1f1b', not {self.schedule!r}")
        self._held = [{} for _ in self.signals]      # by stage and micro-batch: its inputs and outputs, until its backward
        self._sent = [{} for _ in self.signals]      # outputs that the next stage has not taken
        self._returned = [{} for _ in self.signals]  # gradients of the outputs

    def step(self, inputs, targets, loss):
        """Forward and backward of all micro-batches: inputs[k] and targets[k], with loss(output, target).

        The gradients are those of the mean of the losses, which is returned. The parameters are not updated.
        """
        if len(inputs) != len(targets) or not len(inputs):
            raise ValueError(f'{len(inputs)} inputs and {len(targets)} targets: one of each for every micro-batch')
        orders = _orders(len(self.signals), len(inputs), self.schedule)
        losses = []
        try:
            while any(orders):  # in turn, so that no stage gets far ahead of the others in the stream
                for stage, order in enumerate(orders):
                    if not order or not self._is_ready(stage, *order[0]):
                        continue
                    forward, batch = order.pop(0)
                    if not forward:
                        self._backward(stage, batch)
                    elif stage + 1 < len(self.signals):
                        self._forward(stage, batch, inputs)
                    else:
                        self._forward(stage, batch, inputs, lambda out: loss(out, targets[batch]) / len(inputs))
                        losses.append(self._held[stage][batch][1][0].detach())
        finally:
            for kept in self._held + self._sent + self._returned:
                kept.clear()
        with context(self.signals[-1]):
            return sum(losses[1:], losses[0])

    def _is_ready(self, stage, forward, batch):
        if forward:
            return stage == 0 or batch in self._sent[stage - 1]
        return stage + 1 == len(self.signals) or batch in self._returned[stage]

    def _forward(self, stage, batch, inputs, loss=None):
        # The graph ends between stages, so that each stage's backward is a step of its own.
        given = _tensors(inputs[batch]) if stage == 0 else [
            value.detach().requires_grad_(value.requires_grad) for value in self._sent[stage - 1].pop(batch)]
        with context(self.signals[stage]):
            out = self.modules[stage](*given)
            out = [loss(out)] if loss else _tensors(out)
        self._held[stage][batch] = given, out
        if not loss:
            self._sent[stage][batch] = out

    def _backward(self, stage, batch):
        given, out = self._held[stage].pop(batch)
        gradients = self._returned[stage].pop(batch, [None] * len(out))
        wanted = [(value, gradient) for value, gradient in zip(out, gradients)
                  if value.requires_grad and (gradient is not None or stage + 1 == len(self.signals))]
        if wanted:
            autograd.backward(*map(list, zip(*wanted)))
        if stage:
            self._returned[stage - 1][batch] = [value.grad for value in given]


__dir__ = _help.publish(__name__, 'windows')
