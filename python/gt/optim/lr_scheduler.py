"""Learning rate schedules: call scheduler.step() after each epoch, or each optimizer.step().

Most multiply the current rate by the change from one epoch to the next, as in PyTorch, so several schedules can be
combined. Attributes have PyTorch's names: state dictionaries are interchangeable.
"""

import math
import types
import warnings
from bisect import bisect_right
from collections import Counter
from functools import partial

from gt import _help
from gt import Tensor
from gt.optim.optimizer import Optimizer

EPOCH_DEPRECATION_WARNING = (
    'The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use '
    '`scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from None, the closed form is '
    'used instead of the new chainable form, where available. Please open an issue if you are unable to replicate your use '
    'case: https://github.com/pytorch/pytorch/issues/new/choose.')


def _for_each_group(name, optimizer, value):
    """One value for each parameter group."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise ValueError(f'{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, '
                         f'param_groups has {count}.')
    return list(value)


def _values(optimizer, key):
    return [group[key].clone() if isinstance(group[key], Tensor) else group[key] for group in optimizer.param_groups]


def _put(group, key, value):
    """Set an option of a group; a tensor keeps its identity."""
    if isinstance(group[key], Tensor):
        group[key].fill_(float(value))
    else:
        group[key] = value


class LRScheduler:
    """The base of schedules. get_lr() returns the rates at `last_epoch`, one per parameter group."""

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer, last_epoch=-1):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f'{type(optimizer).__name__} is not an Optimizer')
        self.optimizer = optimizer
        for k, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault('initial_lr', group['lr'].clone() if isinstance(group['lr'], Tensor) else group['lr'])
            elif 'initial_lr' not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{k}] when resuming scheduler with last_epoch >= "
                    "0.\nThis typically happens when:\n1. You're trying to resume training from a checkpoint but haven't "
                    "properly loaded the optimizer state\n2. You're using last_epoch >= 0 for a fresh training run (not "
                    'recommended)')
        self.base_lrs = _values(optimizer, 'initial_lr')
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self):
        self._step_count, self._is_initial = 0, True
        try:
            self.step()
        finally:
            self._is_initial = False

    def get_lr(self):
        """The rate of each group; step() calls it."""
        raise NotImplementedError

    def get_last_lr(self):
        """The current rates."""
        return self._last_lr

    def _gt_warn_outside(self):
        if not self._get_lr_called_within_step:
            warnings.warn('To get the last learning rate computed by the scheduler, please use `get_last_lr()`.',
                          UserWarning, stacklevel=3)

    def _gt_rates(self, factor=None):
        """The current rates, times a factor."""
        if factor is None:
            return _values(self.optimizer, 'lr')
        return [group['lr'] * factor for group in self.optimizer.param_groups]

    def step(self, epoch=None):
        """Go to the next epoch and set its rates."""
        if self._step_count == 1 and not getattr(self.optimizer, '_opt_called', False):
            warnings.warn('Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you '
                          'should call them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure '
                          'to do this will result in PyTorch skipping the first value of the learning rate schedule.',
                          UserWarning, stacklevel=2)
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch=None):
        self._get_lr_called_within_step = True
        try:
            self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
            closed = getattr(self, '_get_closed_form_lr', None) if epoch is not None else None
            rates = self.get_lr() if closed is None else closed()
        finally:
            self._get_lr_called_within_step = False
        self._gt_set(rates)

    def _gt_set(self, rates):
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            _put(group, 'lr', rate)
        self._last_lr = _values(self.optimizer, 'lr')

    def state_dict(self):
        """The state, without the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != 'optimizer'}

    def load_state_dict(self, state_dict):
        """Take what state_dict() gave, here or in PyTorch."""
        self.__dict__.update(state_dict)


_LRScheduler = LRScheduler


class _Lambdas(LRScheduler):
    """A function of the epoch for each group. Functions are not part of the state, attributes of callables are."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        self.optimizer = optimizer
        groups = len(optimizer.param_groups)
        self.lr_lambdas = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * groups
        if len(self.lr_lambdas) != groups:
            raise ValueError(f'Expected {groups} lr_lambdas, but got {len(self.lr_lambdas)}')
        super().__init__(optimizer, last_epoch)

    def state_dict(self):
        """The state, with the attributes of callable objects."""
        state = super().state_dict()
        state.pop('lr_lambdas')
        return {**state, 'lr_lambdas': [None if isinstance(function, types.FunctionType) else function.__dict__.copy()
                                        for function in self.lr_lambdas]}

    def load_state_dict(self, state_dict):
        """Take what state_dict() gave."""
        self.__dict__.update({key: value for key, value in state_dict.items() if key != 'lr_lambdas'})
        for function, attributes in zip(self.lr_lambdas, state_dict['lr_lambdas']):
            if attributes is not None:
                function.__dict__.update(attributes)


class LambdaLR(_Lambdas):
    """The initial rate times lr_lambda(epoch): one function, or one for each group.

    >>> scheduler = LambdaLR(optimizer, lambda epoch: 0.95 ** epoch)
    """

    def get_lr(self):
        """The rate of each group."""
        self._gt_warn_outside()
        return [base * function(self.last_epoch) for base, function in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class MultiplicativeLR(_Lambdas):
    """Times lr_lambda(epoch) every epoch."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        for function in lr_lambda if isinstance(lr_lambda, (list, tuple)) else [lr_lambda]:
            if not callable(function):
                raise TypeError(f'lr_lambda should be a function, but got {type(function).__name__}')
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self):
        """The rate of each group."""
        self._gt_warn_outside()
        if self._is_initial:
            return self._gt_rates()
        return [rate * function(self.last_epoch) for rate, function in zip(self._gt_rates(), self.lr_lambdas, strict=True)]


class StepLR(LRScheduler):
    """Times gamma every step_size epochs."""

    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """The rate of each group."""
        self._gt_warn_outside()
        return self._gt_rates(None if self.last_epoch == 0 or self.last_epoch % self.step_size else self.gamma)

    def _get_closed_form_lr(self):
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Times gamma at each milestone."""

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1):
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """The rate of each group."""
        self._gt_warn_outside()
        if self.last_epoch not in self.milestones:
            return self._gt_rates()
        return self._gt_rates(self.gamma ** self.milestones[self.last_epoch])

    def _get_closed_form_lr(self):
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma ** passed for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Times gamma every epoch."""

    def __init__(self, optimizer, gamma, last_epoch=-1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """The rate of each group."""
        self._gt_warn_outside()
        return self._gt_rates(None if self._is_initial else self.gamma)

    def _get_closed_form_lr(self):
        return [base * self.gamma ** self.last_epoch for base in self.base_lrs]


class LinearLR(LRScheduler):
    """From start_factor to end_factor of the rate, in equal steps, within total_iters epochs."""

    def __init__(self, optimizer, start_factor=1.0 / 3, end_factor=1.0, total_iters=5, last_epoch=-1):
        if not 0 < start_factor <= 1:
            raise ValueError(
                'Starting multiplicative factor expected to be greater than 0 and less or equal to 1.')
        if not 0 <= end_factor <= 1:
            raise ValueError('Ending multiplicative factor expected to be between 0 and 1.')
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """The rate of each group."""
        self._gt_warn_outside()
        epoch, rise = self.last_epoch, self.end_factor - self.start_factor
        if epoch == 0:
            return self._gt_rates(self.start_factor)
        if self._is_initial or epoch > self.total_iters:
            return self._gt_rates()
        return self._gt_rates(1.0 + rise / (self.total_iters * self.start_factor + (epoch - 1) * rise))

    def _get_closed_form_lr(self):
        rise = self.end_factor - self.start_factor
        part = min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (self.start_factor + rise * part) for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Times factor until total_iters."""

    def __init__(self, optimizer, factor=1.0 / 3, total_iters=5, last_epoch=-1):
        if not 0 <= factor <= 1:
            raise ValueError('Constant multiplicative factor expected to be between 0 and 1.')
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """The rate of each group."""
        self._gt_warn_outside()
        if self.last_epoch == 0:
            return self._gt_rates(self.factor)
        return self._gt_rates(None if self.last_epoch != self.total_iters else 1.0 / self.factor)

    def _get_closed_form_lr(self):
        factor = 1.0 if self.last_epoch >= self.total_iters else self.factor
        return [base * factor for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """The initial rate times (1 - epoch / total_iters) ** power, and 0 after that."""

    def __init__(self, optimizer, total_iters=5, power=1.0, last_epoch=-1):
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """The rate of each group."""
        self._gt_warn_outside()
        epoch, total = self.last_epoch, self.total_iters
        if self._is_initial or epoch > total:
            return self._gt_rates()
        return self._gt_rates(((1.0 - epoch / total) / (1.0 - (epoch - 1) / total)) ** self.power)

    def _get_closed_form_lr(self):
        part = min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (1.0 - part) ** self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Down to eta_min along half a cosine of T_max epochs, and up again."""

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """The rate of each group."""
        self._gt_warn_outside()
        epoch, span, low = self.last_epoch, self.T_max, self.eta_min
        if self._is_initial:
            return self._gt_rates()
        if self._step_count == 1 and epoch > 0:
            return self._get_closed_form_lr()
        if (epoch - 1 - span) % (2 * span) == 0:
            rise = (1 - math.cos(math.pi / span)) / 2
            return [rate + (base - low) * rise for rate, base in zip(self._gt_rates(), self.base_lrs, strict=True)]
        factor = (1 + math.cos(math.pi * epoch / span)) / (1 + math.cos(math.pi * (epoch - 1) / span))
        return [factor * (rate - low) + low for rate in self._gt_rates()]

    def _get_closed_form_lr(self):
        part = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * part for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Down to eta_min along half a cosine, then restart: after T_0 epochs, then after T_mult times as many."""

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1):
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f'Expected positive integer T_0, but got {T_0}')
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f'Expected integer T_mult >= 1, but got {T_mult}')
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f'Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}')
        self.T_0, self.T_i, self.T_mult, self.eta_min, self.T_cur = T_0, T_0, T_mult, eta_min, last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """The rate of each group."""
        self._gt_warn_outside()
        part = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * part for base in self.base_lrs]

    def _gt_place(self, epoch):
        """Set the length of the current run and the place in it."""
        self.T_i, self.T_cur = self.T_0, epoch
        if epoch >= self.T_0 and self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        elif epoch >= self.T_0:
            runs = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult ** runs - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult ** runs

    def step(self, epoch=None):
        """Go to the next epoch, or a given one, which may be a fraction."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur, self.T_i = self.T_cur % self.T_i, self.T_i * self.T_mult
        elif epoch < 0:
            raise ValueError(f'Expected non-negative epoch, but got {epoch}')
        else:
            self._gt_place(epoch)
        self.last_epoch = math.floor(epoch)
        self._get_lr_called_within_step = True
        try:
            rates = self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        self._gt_set(rates)


class _Composed(LRScheduler):
    """Common to schedules that are made of others."""

    def _gt_check(self, optimizer, schedulers):
        name = type(self).__name__
        for k, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, 'optimizer'):
                raise TypeError(f'{name} at index {k} should have `optimizer` as its attribute.')
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(f'{name} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to '
                                 f'be specified when calling `step`, but got one at index {k} in the given schedulers '
                                 'sequence.')
            if optimizer is not scheduler.optimizer:
                raise ValueError(f'{name} expects all schedulers to belong to the same optimizer, but got scheduler '
                                 f'{type(scheduler).__name__} at index {k} has {scheduler.optimizer}, which is different '
                                 f'from {type(optimizer).__name__}.')

    def state_dict(self):
        """The state, with the state of each schedule."""
        state = {key: value for key, value in self.__dict__.items() if key not in ('optimizer', '_schedulers')}
        return {**state, '_schedulers': [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict):
        """Take what state_dict() gave."""
        self.__dict__.update({key: value for key, value in state_dict.items() if key != '_schedulers'})
        for scheduler, state in zip(self._schedulers, state_dict['_schedulers']):
            scheduler.load_state_dict(state)


class SequentialLR(_Composed):
    """One schedule after the other, changing at milestones.

    >>> scheduler = SequentialLR(optimizer, [LinearLR(optimizer), CosineAnnealingLR(optimizer, 95)], milestones=[5])
    """

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        if len(schedulers) < 1:
            raise ValueError(f'{type(self).__name__} expects at least one scheduler, but got no scheduler.')
        self._gt_check(optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError('Sequential Schedulers expects number of schedulers provided to be one more than the number '
                             f'of milestone points, but got number of schedulers {len(schedulers)} and the number of '
                             f'milestones to be equal to {len(milestones)}')
        self._schedulers, self._milestones = schedulers, milestones
        self.last_epoch, self.optimizer = last_epoch + 1, optimizer
        for group in optimizer.param_groups:
            _put(group, 'lr', group['initial_lr'])
        self.recursive_undo()  # each schedule made its first step; only that of the first one counts
        self._schedulers[0]._initial_step()
        self._last_lr = self._schedulers[0].get_last_lr()

    def recursive_undo(self, sched=None):
        """Take back the first step of all schedules."""
        sched = self if sched is None else sched
        if hasattr(sched, '_schedulers'):
            for each in sched._schedulers:
                self.recursive_undo(each)
        elif hasattr(sched, 'last_epoch'):
            sched.last_epoch -= 1

    def step(self):
        """Go to the next epoch."""
        self.last_epoch += 1
        which = bisect_right(self._milestones, self.last_epoch)
        current = self._schedulers[which]
        if which and self._milestones[which - 1] == self.last_epoch:
            current._update_lr(0)
        else:
            current.step()
        self._last_lr = current.get_last_lr()


class ChainedScheduler(_Composed):
    """Several schedules, all at every step.

    >>> scheduler = ChainedScheduler([ConstantLR(optimizer), ExponentialLR(optimizer, 0.9)])
    """

    def __init__(self, schedulers, optimizer=None):
        if len(schedulers) < 1:
            raise ValueError(f'{type(self).__name__} expects at least one scheduler to be chained, but got no scheduler.')
        optimizer = optimizer or schedulers[0].optimizer
        self._gt_check(optimizer, schedulers)
        self._schedulers, self.optimizer = schedulers, optimizer
        self._last_lr = _values(schedulers[-1].optimizer, 'lr')

    def step(self):
        """Go to the next epoch of all schedules."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = _values(self._schedulers[-1].optimizer, 'lr')


class _Cycled(LRScheduler):
    """Common to schedules that cycle momentum against the rate."""

    def _gt_start_momentum(self, optimizer, base_momentum, max_momentum, first):
        if 'momentum' not in optimizer.defaults and 'betas' not in optimizer.defaults:
            raise ValueError('optimizer must support momentum or beta1 with `cycle_momentum` option enabled')
        self.use_beta1 = 'betas' in optimizer.defaults
        lows = _for_each_group('base_momentum', optimizer, base_momentum)
        highs = _for_each_group('max_momentum', optimizer, max_momentum)
        for low, high, group in zip(lows, highs, optimizer.param_groups) if first else ():
            self._gt_set_momentum(group, high)
            group['max_momentum'], group['base_momentum'] = high, low
        return lows, highs

    def _gt_set_momentum(self, group, momentum):
        if self.use_beta1:
            group['betas'] = (momentum, *group['betas'][1:])
        else:
            group['momentum'] = momentum


class CyclicLR(_Cycled):
    """Up and down between base_lr and max_lr: 'triangular', 'triangular2' (halved each cycle) or 'exp_range'."""

    def __init__(self, optimizer, base_lr, max_lr, step_size_up=2000, step_size_down=None, mode='triangular', gamma=1.0,
                 scale_fn=None, scale_mode='cycle', cycle_momentum=True, base_momentum=0.8, max_momentum=0.9,
                 last_epoch=-1):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f'{type(optimizer).__name__} is not an Optimizer')
        self.optimizer = optimizer
        base_lrs = _for_each_group('base_lr', optimizer, base_lr)
        for rate, group in zip(base_lrs, optimizer.param_groups) if last_epoch == -1 else ():
            _put(group, 'lr', rate)
        self.max_lrs = _for_each_group('max_lr', optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ('triangular', 'triangular2', 'exp_range') and scale_fn is None:
            raise ValueError('mode is invalid and scale_fn is None')
        self.mode, self.gamma, self._scale_fn_custom, self.scale_mode = mode, gamma, scale_fn, scale_mode
        self._init_scale_fn()
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums, self.max_momentums = self._gt_start_momentum(
                optimizer, base_momentum, max_momentum, last_epoch == -1)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _init_scale_fn(self):
        if self._scale_fn_custom is None:
            self._scale_fn_ref = {'triangular': self._triangular_scale_fn, 'triangular2': self._triangular2_scale_fn,
                                  'exp_range': partial(self._exp_range_scale_fn, self.gamma)}[self.mode]
            self.scale_mode = 'iterations' if self.mode == 'exp_range' else 'cycle'

    def scale_fn(self, x):
        """The factor of the height of a cycle."""
        return self._scale_fn_ref(x) if self._scale_fn_custom is None else self._scale_fn_custom(x)

    @staticmethod
    def _triangular_scale_fn(x):
        return 1.0

    @staticmethod
    def _triangular2_scale_fn(x):
        return 1 / (2.0 ** (x - 1))

    @staticmethod
    def _exp_range_scale_fn(gamma, x):
        return gamma ** x

    def get_lr(self):
        """The rate of each group."""
        self._gt_warn_outside()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == 'cycle' else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True):
                self._gt_set_momentum(group, high - (high - low) * height * scale)
        return [base + (peak - base) * height * scale for base, peak in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self):
        """The state; of a custom scale_fn only the attributes of a callable object."""
        state = super().state_dict()
        state.pop('_scale_fn_ref', None)
        function = state.pop('_scale_fn_custom')
        kept = None if function is None or isinstance(function, types.FunctionType) else function.__dict__.copy()
        return {**state, '_scale_fn_custom': kept}

    def load_state_dict(self, state_dict):
        """Take what state_dict() gave."""
        super().load_state_dict({key: value for key, value in state_dict.items() if key != '_scale_fn_custom'})
        if state_dict['_scale_fn_custom'] is not None:
            self._scale_fn_custom.__dict__.update(state_dict['_scale_fn_custom'])
        self._init_scale_fn()


def _positive(name, value):
    if not isinstance(value, int) or value <= 0:
        raise ValueError(f'Expected positive integer {name}, but got {value}')


class OneCycleLR(_Cycled):
    """Up to max_lr, then down to far below the initial rate. Momentum, if cycled, goes the other way."""

    def __init__(self, optimizer, max_lr, total_steps=None, epochs=None, steps_per_epoch=None, pct_start=0.3,
                 anneal_strategy='cos', cycle_momentum=True, base_momentum=0.85, max_momentum=0.95, div_factor=25.0,
                 final_div_factor=1e4, three_phase=False, last_epoch=-1):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f'{type(optimizer).__name__} is not an Optimizer')
        self.optimizer = optimizer
        if total_steps is not None:
            _positive('total_steps', total_steps)
            self.total_steps = total_steps
        elif epochs is not None and steps_per_epoch is not None:
            _positive('epochs', epochs)
            _positive('steps_per_epoch', steps_per_epoch)
            self.total_steps = epochs * steps_per_epoch
        else:
            raise ValueError('You must define either total_steps OR (epochs AND steps_per_epoch)')
        self._schedule_phases = self._gt_phases(pct_start, three_phase)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f'Expected float between 0 and 1 pct_start, but got {pct_start}')
        if anneal_strategy not in ('cos', 'linear'):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_func_type = anneal_strategy
        peaks = _for_each_group('max_lr', optimizer, max_lr)
        for group, peak in zip(optimizer.param_groups, peaks) if last_epoch == -1 else ():
            group['initial_lr'], group['max_lr'] = peak / div_factor, peak
            group['min_lr'] = group['initial_lr'] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._gt_start_momentum(optimizer, base_momentum, max_momentum, last_epoch == -1)
        super().__init__(optimizer, last_epoch)

    def _gt_phases(self, pct_start, three_phase):
        """The last step of each phase, and the options of a group between which it goes."""
        def phase(end_step, start_lr, end_lr, start_momentum, end_momentum):
            return {'end_step': end_step, 'start_lr': start_lr, 'end_lr': end_lr, 'start_momentum': start_momentum,
                    'end_momentum': end_momentum}
        phases = [phase(float(pct_start * self.total_steps) - 1, 'initial_lr', 'max_lr', 'max_momentum', 'base_momentum')]
        if not three_phase:
            return [*phases, phase(self.total_steps - 1, 'max_lr', 'min_lr', 'base_momentum', 'max_momentum')]
        return [*phases, phase(float(2 * pct_start * self.total_steps) - 2, 'max_lr', 'initial_lr', 'base_momentum',
                               'max_momentum'),
                phase(self.total_steps - 1, 'initial_lr', 'min_lr', 'max_momentum', 'max_momentum')]

    def _gt_between(self, start, end, part):
        if self._anneal_func_type == 'linear':
            return (end - start) * part + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)

    def get_lr(self):
        """The rate of each group; momentum, if cycled, is set too."""
        self._gt_warn_outside()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f'Tried to step {step} times. The specified number of total steps is {self.total_steps}')
        start, phases = 0.0, self._schedule_phases
        for phase in phases:
            if step <= phase['end_step'] or phase is phases[-1]:
                break
            start = phase['end_step']
        part, rates = (step - start) / (phase['end_step'] - start), []
        for group in self.optimizer.param_groups:
            rates.append(self._gt_between(group[phase['start_lr']], group[phase['end_lr']], part))
            if self.cycle_momentum:
                self._gt_set_momentum(group, self._gt_between(group[phase['start_momentum']], group[phase['end_momentum']], part))
        return rates


class ReduceLROnPlateau(LRScheduler):
    """Times factor when a metric, given to step(), has not improved for more than `patience` epochs."""

    def __init__(self, optimizer, mode='min', factor=0.1, patience=10, threshold=1e-4, threshold_mode='rel',
                 cooldown=0, min_lr=0, eps=1e-8):
        if factor >= 1.0:
            raise ValueError('Factor should be < 1.0.')
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f'{type(optimizer).__name__} is not an Optimizer')
        groups = len(optimizer.param_groups)
        if isinstance(min_lr, (list, tuple)) and len(min_lr) != groups:
            raise ValueError(f'expected {groups} min_lrs, got {len(min_lr)}')
        self.factor, self.optimizer = factor, optimizer
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.min_lrs = list(min_lr) if isinstance(min_lr, (list, tuple)) else [min_lr] * groups
        self.patience, self.cooldown, self.eps, self.last_epoch = patience, cooldown, eps, 0
        self._last_lr = self._gt_rates()
        self._init_is_better(mode, threshold, threshold_mode)
        self._reset()

    def _reset(self):
        self.best, self.cooldown_counter, self.num_bad_epochs = self.mode_worse, 0, 0

    def _init_is_better(self, mode, threshold, threshold_mode):
        if mode not in ('min', 'max'):
            raise ValueError(f'mode {mode} is unknown!')
        if threshold_mode not in ('rel', 'abs'):
            raise ValueError(f'threshold mode {threshold_mode} is unknown!')
        self.mode_worse = math.inf if mode == 'min' else -math.inf
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode

    def _is_better(self, a, best):
        sign = 1 if self.mode == 'max' else -1
        relative = self.threshold_mode == 'rel'
        bound = best * (1 + sign * self.threshold) if relative else best + sign * self.threshold
        return a * sign > bound * sign

    @property
    def in_cooldown(self):
        """Whether the rate was reduced less than `cooldown` epochs ago."""
        return self.cooldown_counter > 0

    def step(self, metrics, epoch=None):
        """Take the metric of an epoch."""
        metric = float(metrics)
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(metric, self.best):
            self.best, self.num_bad_epochs = metric, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._gt_rates()

    def _reduce_lr(self):
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f'The number of param groups in the `optimizer` ({len(groups)}) differs from when `ReduceLROnPlateau` was '
                    f'initialized ({len(self.min_lrs)}), usually due to a new param group being added to the optimizer. '
                    'Please modify the `min_lrs` field to match the length of the `optimizer` param groups.')
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, low in zip(groups, self.min_lrs):
            rate = float(group['lr'])
            new = max(rate * self.factor, low)
            if rate - new > self.eps:
                _put(group, 'lr', new)

    def load_state_dict(self, state_dict):
        """Take what state_dict() gave."""
        self.__dict__.update(state_dict)
        self._init_is_better(self.mode, self.threshold, self.threshold_mode)

__dir__ = _help.publish(__name__)
