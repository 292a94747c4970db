"""Stochastic gradient descent, and its average (ASGD)."""

from gt import _gt
from gt.optim.optimizer import Optimizer, require, require_common, require_implementation


class SGD(Optimizer):
    """p -= lr * gradient, or lr * a running sum of gradients with momentum.

    >>> optimizer = gt.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    """

    _gt_takes_complex = True

    def __init__(self, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *,
                 maximize=False, foreach=None, differentiable=False, fused=None):
        require_common(lr, weight_decay)
        require(momentum >= 0, 'momentum value', momentum)
        require_implementation(foreach, fused, differentiable)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError('Nesterov momentum requires a momentum and zero dampening')
        super().__init__(params, dict(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay,
                                      nesterov=nesterov, maximize=maximize, foreach=foreach,
                                      differentiable=differentiable, fused=fused))

    def _gt_update(self, group):
        """Update the parameters of a group."""
        rest = _gt._sgd(group, self.state)  # the same for parameters that have their state and are nothing special
        if not rest:
            return
        lr, momentum, keep, nesterov = group['lr'], group['momentum'], 1 - group['dampening'], group['nesterov']
        states = self.state
        for p, g in self._gt_gradients(group, rest):
            if momentum:
                state = states[p]
                buffer = state.get('momentum_buffer')
                if buffer is None:
                    buffer = state['momentum_buffer'] = g.clone()  # the user may change .grad in place
                else:
                    buffer *= momentum
                    buffer += g if keep == 1 else g * keep
                g = g + buffer * momentum if nesterov else buffer
            p -= g * lr


class ASGD(Optimizer):
    """Stochastic gradient descent with a falling rate; state 'ax' is the average of the parameters after step t0."""

    def __init__(self, params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0, foreach=None, maximize=False,
                 differentiable=False, capturable=False):
        require_common(lr, weight_decay)
        require_implementation(foreach, None, differentiable)
        super().__init__(params, dict(lr=lr, lambd=lambd, alpha=alpha, t0=t0, weight_decay=weight_decay, foreach=foreach,
                                      maximize=maximize, differentiable=differentiable, capturable=capturable))

    def _gt_update(self, group):
        """Update the parameters of a group."""
        lr, lambd, alpha, t0 = group['lr'], group['lambd'], group['alpha'], group['t0']
        for p, g in self._gt_gradients(group):
            state = self.state[p]
            if not state:
                state.update(step=0.0, eta=lr, mu=1.0, ax=_gt.zeros_like(p))
            state['step'] += 1
            eta, step, average = state['eta'], state['step'], state['ax']
            p *= 1 - lambd * eta
            p -= g * eta
            if state['mu'] == 1:
                average.copy_(p)
            else:
                average += (p - average) * state['mu']
            state['eta'] = lr / (1 + lambd * lr * step) ** alpha
            state['mu'] = 1 / max(1, step - t0)
