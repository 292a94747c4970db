"""Adagrad."""

from gt import _gt
from gt.optim.optimizer import Optimizer, require, require_common


class Adagrad(Optimizer):
    """p -= lr * gradient / (sqrt(sum of squares) + eps); lr falls with lr_decay."""

    def __init__(self, params, lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10,
                 foreach=None, *, maximize=False, differentiable=False, fused=None):
        require_common(lr, weight_decay, eps)
        require(lr_decay >= 0, 'lr_decay value', lr_decay)
        require(initial_accumulator_value >= 0, 'initial_accumulator_value value', initial_accumulator_value)
        super().__init__(params, dict(lr=lr, lr_decay=lr_decay, eps=eps, weight_decay=weight_decay,
                                      initial_accumulator_value=initial_accumulator_value, maximize=maximize))

    def add_param_group(self, param_group):
        """Add parameters; their sums start at initial_accumulator_value."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for p in group['params']:
            self.state[p] = {'step': 0.0, 'sum': _gt.full_like(p, float(group['initial_accumulator_value']))}

    def update(self, group):
        """Update the parameters of a group."""
        lr, lr_decay, eps, states = group['lr'], group['lr_decay'], group['eps'], self.state
        for p, g in self.gradients(group):
            state = states[p]
            step, squares = state['step'], state['sum'] + g.square()
            state['step'], state['sum'] = step + 1, squares
            p -= g * (lr / (1 + step * lr_decay)) / (squares.sqrt() + eps)
