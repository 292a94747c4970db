"""Stochastic gradient descent."""

from gt.optim.optimizer import Optimizer, require, require_common


class SGD(Optimizer):
    """p -= lr * gradient, or lr * a running sum of gradients with momentum."""

    takes_complex = True

    def __init__(self, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *,
                 maximize=False, foreach=None, differentiable=False, fused=None):
        require_common(lr, weight_decay)
        require(momentum >= 0, 'momentum value', momentum)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError('Nesterov momentum requires a momentum and zero dampening')
        super().__init__(params, dict(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay,
                                      nesterov=nesterov, maximize=maximize))

    def update(self, group):
        """Update the parameters of a group."""
        lr, momentum, keep, nesterov = group['lr'], group['momentum'], 1 - group['dampening'], group['nesterov']
        states = self.state
        for p, g in self.gradients(group):
            if momentum:
                state = states[p]
                buffer = state.get('momentum_buffer')
                if buffer is None:
                    buffer = g
                else:
                    buffer = buffer * momentum + (g if keep == 1 else g * keep)
                state['momentum_buffer'] = buffer
                g = g + buffer * momentum if nesterov else buffer
            p -= g * lr
