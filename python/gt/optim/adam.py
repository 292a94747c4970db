"""Adam, and AdamW with decoupled weight decay."""

import math

from gt.optim.optimizer import Optimizer, require, require_common


class Adam(Optimizer):
    """p -= lr * mean / (sqrt(mean of squares) + eps), with running means of gradients, bias-corrected."""

    decoupled = False

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, *, foreach=None,
                 maximize=False, capturable=False, differentiable=False, fused=None, decoupled_weight_decay=False):
        self.decoupled = self.decoupled or decoupled_weight_decay
        require_common(lr, weight_decay, eps)
        for k, beta in enumerate(betas):
            require(0 <= beta < 1, f'beta parameter at index {k}', beta)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad,
                                      maximize=maximize))

    def update(self, group):
        """Update the parameters of a group."""
        lr, (beta1, beta2), eps, weight_decay = group['lr'], group['betas'], group['eps'], group['weight_decay']
        amsgrad, decoupled, states = group['amsgrad'], self.decoupled, self.state
        keep1, keep2 = 1 - beta1, 1 - beta2
        for p, g in self.gradients(group, decays=not decoupled):
            state = states[p]
            if state:
                step = state['step'] + 1
                mean = state['exp_avg'] * beta1 + g * keep1
                squares = state['exp_avg_sq'] * beta2 + g.square() * keep2
            else:
                step, mean, squares = 1.0, g * keep1, g.square() * keep2
            state['step'], state['exp_avg'], state['exp_avg_sq'] = step, mean, squares
            if amsgrad:
                before = state.get('max_exp_avg_sq')
                squares = state['max_exp_avg_sq'] = squares if before is None else before.maximum(squares)
            # lr * (mean / c1) / (sqrt(squares / c2) + eps), with c1 and c2 folded into scalars
            c1, c2 = 1 - beta1 ** step, math.sqrt(1 - beta2 ** step)
            change = mean * (lr * c2 / c1) / (squares.sqrt() + eps * c2)
            if weight_decay and decoupled:
                p *= 1 - lr * weight_decay
            p -= change


class AdamW(Adam):
    """Adam, and p *= 1 - lr * weight_decay."""

    decoupled = True

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *,
                 maximize=False, foreach=None, capturable=False, differentiable=False, fused=None):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)
