"""Adagrad and Adadelta."""

from gt import _gt
from gt.optim.optimizer import Optimizer, require, require_common, require_implementation


class Adagrad(Optimizer):
    """p -= lr * gradient / (sqrt(sum of squares) + eps); lr falls with lr_decay."""

    def __init__(self, params, lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10,
                 foreach=None, *, maximize=False, differentiable=False, fused=None):
        require_common(lr, weight_decay, eps)
        require(lr_decay >= 0, 'lr_decay value', lr_decay)
        require(initial_accumulator_value >= 0, 'initial_accumulator_value value', initial_accumulator_value)
        require_implementation(foreach, fused, differentiable)
        super().__init__(params, dict(lr=lr, lr_decay=lr_decay, eps=eps, weight_decay=weight_decay,
                                      initial_accumulator_value=initial_accumulator_value, foreach=foreach,
                                      maximize=maximize, differentiable=differentiable, fused=fused))

    def add_param_group(self, param_group):
        """Add parameters; their sums start at initial_accumulator_value."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for p in group['params']:
            self.state[p] = {'step': 0.0, 'sum': _gt.full_like(p, float(group['initial_accumulator_value']))}

    def share_memory(self):
        """Raises: processes do not share the memory of GT tensors."""
        raise NotImplementedError('share_memory() is not supported: processes do not share the memory of GT tensors')

    def _gt_update(self, group):
        """Update the parameters of a group."""
        lr, lr_decay, eps, states = group['lr'], group['lr_decay'], group['eps'], self.state
        for p, g in self._gt_gradients(group):
            state = states[p]
            step, squares = state['step'], state['sum']
            state['step'] = step + 1
            squares += g.square()
            p -= g * (lr / (1 + step * lr_decay)) / (squares.sqrt() + eps)


class Adadelta(Optimizer):
    """p -= lr * gradient * sqrt(running mean of squared changes) / sqrt(running mean of squared gradients)."""

    def __init__(self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, foreach=None, *, capturable=False,
                 maximize=False, differentiable=False):
        require_common(lr, weight_decay, eps)
        require(0 <= rho <= 1, 'rho value', rho)
        require_implementation(foreach, None, differentiable)
        super().__init__(params, dict(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay, maximize=maximize,
                                      capturable=capturable, foreach=foreach, differentiable=differentiable))

    def _gt_update(self, group):
        """Update the parameters of a group."""
        lr, rho, eps = group['lr'], group['rho'], group['eps']
        for p, g in self._gt_gradients(group):
            state = self.state[p]
            if not state:
                state.update(step=0.0, square_avg=_gt.zeros_like(p), acc_delta=_gt.zeros_like(p))
            state['step'] += 1
            squares, changes = state['square_avg'], state['acc_delta']
            squares *= rho
            squares += g.square() * (1 - rho)
            change = (changes + eps).sqrt() / (squares + eps).sqrt() * g
            changes *= rho
            changes += change.square() * (1 - rho)
            p -= change * lr
