"""Learning rate schedules: call scheduler.step() after each epoch, or each optimizer.step().

Most multiply the current rate by the change from one epoch to the next, as in PyTorch, so several schedules can be
combined.
"""

import math
from bisect import bisect_right
from collections import Counter

from gt.optim.optimizer import Optimizer


class LRScheduler:
    """The base of schedules. get_lr() returns the rates at `last_epoch`, one per parameter group."""

    def __init__(self, optimizer, last_epoch=-1):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f'{type(optimizer).__name__} is not an Optimizer')
        self.optimizer, self.last_epoch = optimizer, last_epoch
        for k, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault('initial_lr', group['lr'])
            elif 'initial_lr' not in group:
                raise KeyError(f"param 'initial_lr' is not specified in param_groups[{k}] "
                               'when resuming an optimizer')
        self.base_lrs = [group['initial_lr'] for group in optimizer.param_groups]
        self.step()

    def get_lr(self):
        """The rate of each group."""
        raise NotImplementedError

    def get_last_lr(self):
        """The current rates."""
        return self._last_lr

    def _rates(self, factor=1.0):
        return [group['lr'] * factor for group in self.optimizer.param_groups]

    def step(self):
        """Go to the next epoch and set its rates."""
        self.last_epoch += 1
        self._set(self.get_lr())

    def _set(self, rates):
        for group, rate in zip(self.optimizer.param_groups, rates):
            group['lr'] = rate
        self._last_lr = list(rates)

    def state_dict(self):
        """The state, without the optimizer and functions."""
        return {key: value for key, value in self.__dict__.items() if key not in ('optimizer', 'lr_lambdas')}

    def load_state_dict(self, state_dict):
        """Take what state_dict() gave."""
        self.__dict__.update(state_dict)


class LambdaLR(LRScheduler):
    """The initial rate times lr_lambda(epoch): one function, or one for each group."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        groups = len(optimizer.param_groups)
        self.lr_lambdas = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * groups
        if len(self.lr_lambdas) != groups:
            raise ValueError(f'Expected {groups} lr_lambdas, but got {len(self.lr_lambdas)}')
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [base * function(self.last_epoch) for base, function in zip(self.base_lrs, self.lr_lambdas)]


class StepLR(LRScheduler):
    """Times gamma every step_size epochs."""

    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return self._rates(1.0 if self.last_epoch == 0 or self.last_epoch % self.step_size else self.gamma)


class MultiStepLR(LRScheduler):
    """Times gamma at each milestone."""

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1):
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return self._rates(self.gamma ** self.milestones[self.last_epoch])


class ExponentialLR(LRScheduler):
    """Times gamma every epoch."""

    def __init__(self, optimizer, gamma, last_epoch=-1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return self._rates(1.0 if self.last_epoch == 0 else self.gamma)


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
        epoch, rise = self.last_epoch, self.end_factor - self.start_factor
        if epoch == 0:
            return self._rates(self.start_factor)
        if epoch > self.total_iters:
            return self._rates()
        return self._rates(1 + rise / (self.total_iters * self.start_factor + (epoch - 1) * rise))


class ConstantLR(LRScheduler):
    """Times factor until total_iters."""

    def __init__(self, optimizer, factor=1.0 / 3, total_iters=5, last_epoch=-1):
        if not 0 <= factor <= 1:
            raise ValueError('Constant multiplicative factor expected to be between 0 and 1.')
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self.last_epoch == 0:
            return self._rates(self.factor)
        return self._rates(1.0 / self.factor if self.last_epoch == self.total_iters else 1.0)


class PolynomialLR(LRScheduler):
    """The initial rate times (1 - epoch / total_iters) ** power, and 0 after that."""

    def __init__(self, optimizer, total_iters=5, power=1.0, last_epoch=-1):
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        epoch, total = self.last_epoch, self.total_iters
        if epoch == 0 or epoch > total:
            return self._rates()
        return self._rates(((1 - epoch / total) / (1 - (epoch - 1) / total)) ** self.power)


class MultiplicativeLR(LambdaLR):
    """Times lr_lambda(epoch) every epoch."""

    def get_lr(self):
        if self.last_epoch == 0:
            return self._rates()
        return [rate * function(self.last_epoch) for rate, function in zip(self._rates(), self.lr_lambdas)]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Down to eta_min along half a cosine, then restart: after T_0 epochs, then after T_mult times as many."""

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1):
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f'Expected positive integer T_0, but got {T_0}')
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f'Expected integer T_mult >= 1, but got {T_mult}')
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        epoch, span = max(self.last_epoch, 0), self.T_0
        while epoch >= span:
            epoch, span = epoch - span, span * self.T_mult
        part = (1 + math.cos(math.pi * epoch / span)) / 2
        return [self.eta_min + (base - self.eta_min) * part for base in self.base_lrs]

    def step(self, epoch=None):
        """Go to the next epoch, or a given one, which may be a fraction."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._set(self.get_lr())


class SequentialLR(LRScheduler):
    """One schedule after the other, changing at milestones."""

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        if len(milestones) != len(schedulers) - 1:
            raise ValueError('Sequential Schedulers expects number of schedulers provided to be one more than the number '
                             f'of milestone points, but got {len(schedulers)} and {len(milestones)}')
        if any(scheduler.optimizer is not optimizer for scheduler in schedulers):
            raise ValueError('Sequential Schedulers expects all schedulers to belong to the same optimizer')
        self._schedulers, self._milestones = list(schedulers), list(milestones)
        self.optimizer, self.last_epoch = optimizer, last_epoch + 1
        for group in optimizer.param_groups:
            group['lr'] = group['initial_lr']
        for scheduler in self._schedulers:  # each schedule made its first step; only that of the first one counts
            scheduler.last_epoch -= 1
        self._schedulers[0].step()
        self._last_lr = self._schedulers[0].get_last_lr()

    def step(self):
        """Go to the next epoch."""
        self.last_epoch += 1
        which = bisect_right(self._milestones, self.last_epoch)
        current = self._schedulers[which]
        if which and self._milestones[which - 1] == self.last_epoch:
            current.last_epoch = -1
            for group in self.optimizer.param_groups:
                group['lr'] = group['initial_lr']
        current.step()
        self._last_lr = current.get_last_lr()

    def state_dict(self):
        """The state, with the state of each schedule."""
        state = super().state_dict()
        return {**state, '_schedulers': [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict):
        """Take what state_dict() gave."""
        for scheduler, state in zip(self._schedulers, state_dict['_schedulers']):
            scheduler.load_state_dict(state)
        super().load_state_dict({key: value for key, value in state_dict.items() if key != '_schedulers'})


class CosineAnnealingLR(LRScheduler):
    """Down to eta_min along half a cosine of T_max epochs, and up again."""

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        epoch, span, low = self.last_epoch, self.T_max, self.eta_min
        if epoch == 0:
            return self._rates()
        if (epoch - 1 - span) % (2 * span) == 0:
            rise = (1 - math.cos(math.pi / span)) / 2
            return [rate + (base - low) * rise for rate, base in zip(self._rates(), self.base_lrs)]
        factor = (1 + math.cos(math.pi * epoch / span)) / (1 + math.cos(math.pi * (epoch - 1) / span))
        return [factor * (rate - low) + low for rate in self._rates()]


class OneCycleLR(LRScheduler):
    """Up to max_lr, then down to far below the initial rate. Momentum, if cycled, goes the other way."""

    def __init__(self, optimizer, max_lr, total_steps=None, epochs=None, steps_per_epoch=None, pct_start=0.3,
                 anneal_strategy='cos', cycle_momentum=True, base_momentum=0.85, max_momentum=0.95,
                 div_factor=25.0, final_div_factor=1e4, three_phase=False, last_epoch=-1):
        if total_steps is None and (epochs is None or steps_per_epoch is None):
            raise ValueError('You must define either total_steps OR (epochs AND steps_per_epoch)')
        if anneal_strategy not in ('cos', 'linear'):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self.total_steps = epochs * steps_per_epoch if total_steps is None else total_steps
        self.anneal_strategy, self.cycle_momentum = anneal_strategy, cycle_momentum
        rise = float(pct_start * self.total_steps) - 1
        last = self.total_steps - 1
        # [last step, rate at its start, at its end, momentum at its start, at its end]
        self._phases = [[rise, 'initial_lr', 'max_lr', 'max_momentum', 'base_momentum']]
        if three_phase:
            self._phases += [[2 * rise, 'max_lr', 'initial_lr', 'base_momentum', 'max_momentum'],
                             [last, 'initial_lr', 'min_lr', 'max_momentum', 'max_momentum']]
        else:
            self._phases += [[last, 'max_lr', 'min_lr', 'base_momentum', 'max_momentum']]
        if cycle_momentum and not {'momentum', 'betas'} & optimizer.defaults.keys():
            raise ValueError('optimizer must support momentum or beta1 with `cycle_momentum` option enabled')
        if last_epoch == -1:
            peaks = self._for_each(optimizer, max_lr)
            lows, highs = self._for_each(optimizer, base_momentum), self._for_each(optimizer, max_momentum)
            for group, peak, low, high in zip(optimizer.param_groups, peaks, lows, highs):
                group['initial_lr'], group['max_lr'] = peak / div_factor, peak
                group['min_lr'] = group['initial_lr'] / final_div_factor
                if cycle_momentum:
                    group['base_momentum'], group['max_momentum'] = low, high
        super().__init__(optimizer, last_epoch)

    @staticmethod
    def _for_each(optimizer, value):
        return value if isinstance(value, (list, tuple)) else [value] * len(optimizer.param_groups)

    def _between(self, start, end, part):
        if self.anneal_strategy == 'linear':
            return (end - start) * part + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)

    def get_lr(self):
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f'Tried to step {step} times. The specified number of total steps is {self.total_steps}')
        start = 0.0
        for end, *names in self._phases:
            if step <= end:
                break
            start = end
        else:
            start = self._phases[-2][0]
        part, rates = (step - start) / (end - start), []
        for group in self.optimizer.param_groups:
            low, high, *momenta = names
            rates.append(self._between(group[low], group[high], part))
            if self.cycle_momentum:
                momentum = self._between(group[momenta[0]], group[momenta[1]], part)
                if 'betas' in group:
                    group['betas'] = (momentum, *group['betas'][1:])
                else:
                    group['momentum'] = momentum
        return rates


class ReduceLROnPlateau(LRScheduler):
    """Times factor when a metric, given to step(), has not improved for more than `patience` epochs."""

    def __init__(self, optimizer, mode='min', factor=0.1, patience=10, threshold=1e-4, threshold_mode='rel',
                 cooldown=0, min_lr=0, eps=1e-8):
        if factor >= 1.0:
            raise ValueError('Factor should be < 1.0.')
        if mode not in ('min', 'max'):
            raise ValueError(f'mode {mode} is unknown!')
        if threshold_mode not in ('rel', 'abs'):
            raise ValueError(f'threshold mode {threshold_mode} is unknown!')
        groups = len(optimizer.param_groups)
        self.optimizer, self.factor, self.patience, self.eps = optimizer, factor, patience, eps
        self.min_lrs = list(min_lr) if isinstance(min_lr, (list, tuple)) else [min_lr] * groups
        self.mode, self.threshold, self.threshold_mode, self.cooldown = mode, threshold, threshold_mode, cooldown
        self.best = math.inf if mode == 'min' else -math.inf
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0
        self._last_lr = self._rates()

    def _is_better(self, metric):
        sign = 1 if self.mode == 'max' else -1
        relative = self.threshold_mode == 'rel'
        bound = self.best * (1 + sign * self.threshold) if relative else self.best + sign * self.threshold
        return metric * sign > bound * sign

    def step(self, metrics):
        """Take the metric of an epoch."""
        metric = float(metrics)
        self.last_epoch += 1
        self.num_bad_epochs += 1
        if self._is_better(metric):
            self.best, self.num_bad_epochs = metric, 0
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._set([max(rate * self.factor, low) if rate - max(rate * self.factor, low) > self.eps else rate
                       for rate, low in zip(self._rates(), self.min_lrs)])
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._rates()
