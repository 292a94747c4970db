"""RMSprop."""

from gt.optim.optimizer import Optimizer, require, require_common


class RMSprop(Optimizer):
    """p -= lr * gradient / (sqrt(running mean of squares) + eps); centered: of squared deviations."""

    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False,
                 capturable=False, foreach=None, maximize=False, differentiable=False):
        require_common(lr, weight_decay, eps)
        require(momentum >= 0, 'momentum value', momentum)
        require(alpha >= 0, 'alpha value', alpha)
        super().__init__(params, dict(lr=lr, momentum=momentum, alpha=alpha, eps=eps, centered=centered,
                                      weight_decay=weight_decay, maximize=maximize))

    def update(self, group):
        """Update the parameters of a group."""
        lr, alpha, eps, momentum = group['lr'], group['alpha'], group['eps'], group['momentum']
        centered, keep, states = group['centered'], 1 - alpha, self.state
        for p, g in self.gradients(group):
            state = states[p]
            if state:
                state['step'] += 1
                squares = state['square_avg'] * alpha + g.square() * keep
            else:
                state['step'], squares = 1.0, g.square() * keep
            state['square_avg'] = squares
            if centered:
                mean = g * keep
                if 'grad_avg' in state:
                    mean = state['grad_avg'] * alpha + mean
                state['grad_avg'] = mean
                squares = squares - mean.square()
            g = g / (squares.sqrt() + eps)
            if momentum:
                if 'momentum_buffer' in state:
                    g = state['momentum_buffer'] * momentum + g
                state['momentum_buffer'] = g
            p -= g * lr
