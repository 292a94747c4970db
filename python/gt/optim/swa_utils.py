"""Averages of models during training: AveragedModel, its rules, the schedule SWALR, and update_bn()."""

import copy
import itertools
import math

import gt
from gt import _help
from gt.nn.module import Module
from gt.optim.lr_scheduler import LRScheduler, _for_each_group
from gt.optim.optimizer import Optimizer  # noqa: F401


def _check_decay(decay):
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f'Invalid decay value {decay} provided. Please provide a value in [0,1] range.')


def get_ema_avg_fn(decay=0.999):
    """avg_fn of an exponential moving average."""
    _check_decay(decay)

    @gt.no_grad()
    def ema_update(ema_param, current_param, num_averaged):
        return decay * ema_param + (1 - decay) * current_param
    return ema_update


def get_swa_avg_fn():
    """avg_fn of the mean of all models."""
    @gt.no_grad()
    def swa_update(averaged_param, current_param, num_averaged):
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)
    return swa_update


def _lerp(average, current, part):
    """Move an average towards a value, in place."""
    if average.is_floating_point():
        average += (current - average) * part
    else:
        average.copy_(average * (1 - part) + current * part)


def get_ema_multi_avg_fn(decay=0.999):
    """multi_avg_fn of an exponential moving average.

    >>> model = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.999))
    """
    _check_decay(decay)

    @gt.no_grad()
    def ema_update(ema_param_list, current_param_list, _):
        for average, current in zip(ema_param_list, current_param_list, strict=True):
            _lerp(average, current, 1 - decay)
    return ema_update


def get_swa_multi_avg_fn():
    """multi_avg_fn of the mean of all models."""
    @gt.no_grad()
    def swa_update(averaged_param_list, current_param_list, num_averaged):
        for average, current in zip(averaged_param_list, current_param_list, strict=True):
            _lerp(average, current, 1 / (num_averaged + 1))
    return swa_update


class AveragedModel(Module):
    """A copy of a model whose parameters are the average of those given to update_parameters().

    avg_fn(average, current, count) returns an average; multi_avg_fn(averages, currents, count) changes all in place.
    Without either it is the mean. use_buffers: buffers are averaged too, instead of copied.
    """

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError('Only one of avg_fn and multi_avg_fn should be provided')
        self.module = copy.deepcopy(model)
        self.register_buffer('n_averaged', gt.tensor(0))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers
        self._started = False  # whether n_averaged is above 0; None if it must be read

    def forward(self, *args, **kwargs):
        """The output of the averaged model."""
        return self.module(*args, **kwargs)

    def _load_from_state_dict(self, *arguments):
        super()._load_from_state_dict(*arguments)
        self._started = None

    @gt.no_grad()
    def update_parameters(self, model):
        """Add the parameters of a model to the average."""
        averages, currents = self.parameters(), model.parameters()
        if self.use_buffers:
            averages = itertools.chain(self.module.parameters(), self.module.buffers())
            currents = itertools.chain(model.parameters(), model.buffers())
        averages, currents = list(averages), [tensor.detach() for tensor in currents]
        if self._started is None:
            self._started = bool(self.n_averaged > 0)
        if not self._started:
            for average, current in zip(averages, currents):
                average.copy_(current)
        elif self.avg_fn is not None:
            for average, current in zip(averages, currents):
                average.copy_(self.avg_fn(average.detach(), current, self.n_averaged))
        else:
            (self.multi_avg_fn or get_swa_multi_avg_fn())(averages, currents, self.n_averaged)
        if not self.use_buffers:
            for average, current in zip(self.module.buffers(), model.buffers(), strict=True):
                average.copy_(current.detach())
        self.n_averaged += 1
        self._started = True


@gt.no_grad()
def update_bn(loader, model, device=None):
    """Compute the running values of all batch normalisations anew, from the batches of a loader."""
    from gt.nn.norm import _BatchNorm
    layers = {module: module.momentum for module in model.modules() if isinstance(module, _BatchNorm)}
    if not layers:
        return
    for module in layers:
        module.reset_running_stats()
        module.momentum = None
    was_training = model.training
    model.train()
    for batch in loader:
        model(batch[0] if isinstance(batch, (list, tuple)) else batch)
    for module, momentum in layers.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """From the current rate to swa_lr within anneal_epochs, along a cosine or a line; then constant."""

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy='cos', last_epoch=-1):
        for rate, group in zip(_for_each_group('swa_lr', optimizer, swa_lr), optimizer.param_groups):
            group['swa_lr'] = rate
        if anneal_strategy not in ('cos', 'linear'):
            raise ValueError(f"anneal_strategy must by one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_strategy = anneal_strategy
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f'anneal_epochs must be equal or greater than 0, got {anneal_epochs}')
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _part(self, step):
        """How far the rate has gone."""
        t = max(0, min(1, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == 'linear' else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self):
        """The rate of each group."""
        self._gt_warn_outside()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now, rates = self._part(step - 1), self._part(step), []
        for group in self.optimizer.param_groups:
            goal = group['swa_lr']
            first = goal if before == 1 else (group['lr'] - before * goal) / (1 - before)
            rates.append(goal * now + first * (1 - now))
        return rates

__dir__ = _help.publish(__name__)
