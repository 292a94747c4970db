"""RMSprop and Rprop."""

import gt
from gt import _gt
from gt.optim.optimizer import Optimizer, require, require_common, require_implementation


class RMSprop(Optimizer):
    """p -= lr * gradient / (sqrt(running mean of squares) + eps); centered: of squared deviations."""

    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False,
                 capturable=False, foreach=None, maximize=False, differentiable=False):
        require_common(lr, weight_decay, eps)
        require(momentum >= 0, 'momentum value', momentum)
        require(alpha >= 0, 'alpha value', alpha)
        require_implementation(foreach, None, differentiable)
        super().__init__(params, dict(lr=lr, momentum=momentum, alpha=alpha, eps=eps, centered=centered,
                                      weight_decay=weight_decay, capturable=capturable, foreach=foreach,
                                      maximize=maximize, differentiable=differentiable))

    def _gt_update(self, group):
        """Update the parameters of a group."""
        lr, alpha, eps, momentum = group['lr'], group['alpha'], group['eps'], group['momentum']
        centered, keep, states = group['centered'], 1 - alpha, self.state
        for p, g in self._gt_gradients(group):
            state = states[p]
            if state:
                state['step'] += 1
                squares = state['square_avg']
                squares *= alpha
                squares += g.square() * keep
            else:
                state['step'], squares = 1.0, g.square() * keep
                state['square_avg'] = squares
            if centered:
                mean = self._gt_running(state, 'grad_avg', alpha, g * keep)
                squares = squares - mean.square()
            g = g / (squares.sqrt() + eps)
            if momentum:
                g = self._gt_running(state, 'momentum_buffer', momentum, g)
            p -= g * lr

    @staticmethod
    def _gt_running(state, name, factor, value):
        """A tensor of the state, times factor, plus value; the first time it is value."""
        running = state.get(name)
        if running is None:
            state[name] = value
            return value
        running *= factor
        running += value
        return running


class Rprop(Optimizer):
    """Steps by the signs of gradients: each element's step grows while its sign stays, and shrinks when it changes."""

    def __init__(self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, capturable=False, foreach=None,
                 maximize=False, differentiable=False):
        require_common(lr, 0)
        if not 0 < etas[0] < 1 < etas[1]:
            raise ValueError(f'Invalid eta values: {etas[0]}, {etas[1]}')
        require_implementation(foreach, None, differentiable)
        super().__init__(params, dict(lr=lr, etas=etas, step_sizes=step_sizes, foreach=foreach, maximize=maximize,
                                      differentiable=differentiable, capturable=capturable))

    def _gt_update(self, group):
        """Update the parameters of a group."""
        (shrink, grow), (least, most) = group['etas'], group['step_sizes']
        for p, g in self._gt_gradients(group, decays=False):
            state = self.state[p]
            if not state:
                state.update(step=0.0, prev=_gt.zeros_like(p), step_size=_gt.full_like(g, float(group['lr'])))
            state['step'] += 1
            before, size = state['prev'], state['step_size']
            agreement = g * before
            factor = gt.where(agreement > 0, grow, gt.where(agreement < 0, shrink, 1.0))
            size._become((size * factor).clamp(least, most))
            before._become(gt.where(agreement < 0, 0.0, g))
            p -= before.sign() * size
