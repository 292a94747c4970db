"""Adam and its relatives: AdamW with decoupled weight decay, Adamax, NAdam, RAdam and SparseAdam."""

import math

from gt import _gt
from gt.optim.optimizer import Optimizer, require, require_betas, require_common, require_implementation


class Adam(Optimizer):
    """p -= lr * mean / (sqrt(mean of squares) + eps), with running means of gradients, bias-corrected."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, *, foreach=None,
                 maximize=False, capturable=False, differentiable=False, fused=None, decoupled_weight_decay=False):
        require_common(lr, weight_decay, eps)
        require_betas(betas)
        require_implementation(foreach, fused, differentiable)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad,
                                      maximize=maximize, foreach=foreach, capturable=capturable,
                                      differentiable=differentiable, fused=fused,
                                      decoupled_weight_decay=decoupled_weight_decay))

    def _gt_update(self, group):
        """Update the parameters of a group."""
        rest = _gt._adam(group, self.state)  # the same for parameters that have their state and are nothing special
        if not rest:
            return
        lr, (beta1, beta2), eps, weight_decay = group['lr'], group['betas'], group['eps'], group['weight_decay']
        amsgrad, decoupled, states = group['amsgrad'], group['decoupled_weight_decay'], self.state
        keep1, keep2, counted = 1 - beta1, 1 - beta2, None
        for p, g in self._gt_gradients(group, rest, decays=not decoupled):
            state = states[p]
            if state:
                step = state['step'] = state['step'] + 1
                mean, squares = state['exp_avg'], state['exp_avg_sq']
                mean._become(mean * beta1 + g * keep1)
                squares._become(squares * beta2 + g.square() * keep2)
            else:
                step = state['step'] = 1.0
                mean, squares = state['exp_avg'], state['exp_avg_sq'] = g * keep1, g.square() * keep2
            if amsgrad:
                largest = state.get('max_exp_avg_sq')
                if largest is None:
                    squares = state['max_exp_avg_sq'] = squares.clone()
                else:
                    squares = largest._become(largest.maximum(squares))
            if step != counted:  # the parameters of a group have most often the same number of steps
                # lr * (mean / c1) / (sqrt(squares / c2) + eps), with c1 and c2 folded into scalars
                counted, c2 = step, math.sqrt(1 - beta2 ** step)
                rate, least = lr * c2 / (1 - beta1 ** step), eps * c2
            if weight_decay and decoupled:
                p *= 1 - lr * weight_decay
            p -= mean * rate / (squares.sqrt() + least)


class AdamW(Adam):
    """Adam, and p *= 1 - lr * weight_decay.

    >>> optimizer = gt.optim.AdamW(model.parameters(), lr=1e-3)
    """

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *,
                 maximize=False, foreach=None, capturable=False, differentiable=False, fused=None):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
                         capturable=capturable, differentiable=differentiable, fused=fused, decoupled_weight_decay=True)

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group['decoupled_weight_decay'] = True


class Adamax(Optimizer):
    """Adam with the maximum of gradients, which decays, in the place of the mean of squares."""

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, foreach=None, *, maximize=False,
                 differentiable=False, capturable=False):
        require_common(lr, weight_decay, eps)
        require_betas(betas)
        require_implementation(foreach, None, differentiable)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, foreach=foreach,
                                      maximize=maximize, differentiable=differentiable, capturable=capturable))

    def _gt_update(self, group):
        """Update the parameters of a group."""
        lr, (beta1, beta2), eps = group['lr'], group['betas'], group['eps']
        for p, g in self._gt_gradients(group):
            state = self.state[p]
            if not state:
                state.update(step=0.0, exp_avg=_gt.zeros_like(p), exp_inf=_gt.zeros_like(p))
            step = state['step'] = state['step'] + 1
            mean, largest = state['exp_avg'], state['exp_inf']
            mean *= beta1
            mean += g * (1 - beta1)
            largest._become((largest * beta2).maximum(g.abs() + eps))
            p -= mean * (lr / (1 - beta1 ** step)) / largest


class _Corrected(Optimizer):
    """Common to NAdam and RAdam: running means and two kinds of weight decay."""

    def _gt_means(self, group):
        """(parameter, gradient, its state, mean, mean of squares, step) for each parameter with a gradient."""
        lr, (beta1, beta2), decay = group['lr'], group['betas'], group['weight_decay']
        decoupled = group['decoupled_weight_decay']
        for p, g in self._gt_gradients(group, decays=not decoupled):
            state = self.state[p]
            if not state:
                state.update(step=0.0, exp_avg=_gt.zeros_like(p), exp_avg_sq=_gt.zeros_like(p), **self._gt_first_state())
            step = state['step'] = state['step'] + 1
            if decay and decoupled:
                p *= 1 - lr * decay
            mean, squares = state['exp_avg'], state['exp_avg_sq']
            mean *= beta1
            mean += g * (1 - beta1)
            squares *= beta2
            squares += g.square() * (1 - beta2)
            yield p, g, state, mean, squares, step

    @staticmethod
    def _gt_first_state():
        return {}


class NAdam(_Corrected):
    """Adam with Nesterov momentum, whose factor grows by momentum_decay."""

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3,
                 decoupled_weight_decay=False, *, foreach=None, maximize=False, capturable=False, differentiable=False):
        require_common(lr, weight_decay, eps)
        require_betas(betas)
        require(momentum_decay >= 0, 'momentum_decay value', momentum_decay)
        require_implementation(foreach, None, differentiable)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay,
                                      momentum_decay=momentum_decay, decoupled_weight_decay=decoupled_weight_decay,
                                      maximize=maximize, foreach=foreach, capturable=capturable,
                                      differentiable=differentiable))

    @staticmethod
    def _gt_first_state():
        return {'mu_product': 1.0}

    def _gt_update(self, group):
        """Update the parameters of a group."""
        lr, (beta1, beta2), eps, decay = group['lr'], group['betas'], group['eps'], group['momentum_decay']
        for p, g, state, mean, squares, step in self._gt_means(group):
            now = beta1 * (1 - 0.5 * 0.96 ** (step * decay))
            then = beta1 * (1 - 0.5 * 0.96 ** ((step + 1) * decay))
            product = state['mu_product'] = state['mu_product'] * now
            scale = (squares / (1 - beta2 ** step)).sqrt() + eps
            p -= (g * (lr * (1 - now) / (1 - product)) + mean * (lr * then / (1 - product * then))) / scale


class RAdam(_Corrected):
    """Adam whose first steps, with too few squares for a good mean, go without them."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, decoupled_weight_decay=False, *,
                 foreach=None, maximize=False, capturable=False, differentiable=False):
        require_common(lr, weight_decay, eps)
        require_betas(betas)
        require_implementation(foreach, None, differentiable)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, maximize=maximize,
                                      foreach=foreach, capturable=capturable,
                                      decoupled_weight_decay=decoupled_weight_decay, differentiable=differentiable))

    def _gt_update(self, group):
        """Update the parameters of a group."""
        lr, (beta1, beta2), eps = group['lr'], group['betas'], group['eps']
        longest = 2 / (1 - beta2) - 1
        for p, _, _, mean, squares, step in self._gt_means(group):
            correction = 1 - beta2 ** step
            length = longest - 2 * step * beta2 ** step / correction
            rate = lr / (1 - beta1 ** step)
            if length <= 5:
                p -= mean * rate
                continue
            rectified = math.sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length))
            p -= mean * (rate * rectified * math.sqrt(correction)) / (squares.sqrt() + eps)


class SparseAdam(Optimizer):
    """Adam for sparse gradients. GT has none, so step() raises PyTorch's error for dense gradients."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
        if isinstance(lr, _gt.Tensor) and lr.numel() != 1:
            raise ValueError('Tensor lr must be 1-element')
        require(lr > 0, 'learning rate', lr)
        require(eps > 0, 'epsilon value', eps)
        require_betas(betas)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, maximize=maximize))

    def _gt_update(self, group):
        """Raise if there is a gradient."""
        if any(p.grad is not None for p in group['params']):
            raise RuntimeError('SparseAdam does not support dense gradients, please consider Adam instead')
