"""Adafactor: squares of gradients in rows and columns. Muon: orthogonalised momentum of matrices."""

import math

from gt import _gt
from gt.optim.optimizer import Optimizer

_PRECISION = {'float64': 2.0 ** -52, 'float32': 2.0 ** -23, 'float16': 2.0 ** -10, 'bfloat16': 2.0 ** -7}


class Adafactor(Optimizer):
    """Adam without momentum, whose mean of squares of a matrix is the product of a row and a column."""

    def __init__(self, params, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0, *, foreach=None,
                 maximize=False):
        for name, value in (('Learning rate', lr), ('epsilon1', eps[0]), ('epsilon2', eps[1]),
                            ('weight_decay', weight_decay)):
            if value is not None and not value >= 0:
                raise ValueError(f'{name} should be >= 0 but is: {value}')
        if not beta2_decay <= 0:
            raise ValueError(f'beta2_decay should be <= 0 but is: {beta2_decay}')
        if not d >= 1:
            raise ValueError(f'Clipping threshold d should be >= 1 but is: {d}')
        super().__init__(params, dict(lr=lr, beta2_decay=beta2_decay, eps=eps, d=d, weight_decay=weight_decay,
                                      foreach=foreach, maximize=maximize))

    @staticmethod
    def _gt_variance(state, g, keep, least):
        """The running estimate of the squares of gradients."""
        if g.ndim < 2:
            variance = state['variance']
            variance += (g.square() - variance) * keep
            return variance
        rows, columns = state['row_var'], state['col_var']
        rows += (g.square().mean(-1, True) - rows) * keep
        columns += (g.square().mean(-2, True) - columns) * keep
        return rows @ columns / rows.mean(-2, True).clamp(min=least)

    def _gt_update(self, group):
        """Update the parameters of a group."""
        lr, (least, smallest), limit, decay = group['lr'], group['eps'], group['d'], group['weight_decay']
        for p, g in self._gt_gradients(group, decays=False):
            state, precision = self.state[p], _PRECISION[p.dtype.name] if least is None else least
            if not state:
                state['step'] = 0.0
                if g.ndim > 1:
                    state['row_var'] = _gt.zeros(*g.shape[:-1], 1, dtype=g.dtype)
                    state['col_var'] = _gt.zeros(*g.shape[:-2], 1, g.shape[-1], dtype=g.dtype)
                else:
                    state['variance'] = _gt.zeros_like(g)
            step = state['step'] = state['step'] + 1
            root = math.sqrt(p.numel())
            rate = (p.norm() / root).clamp(min=smallest) * min(lr, 1 / math.sqrt(step))
            if decay:
                p *= 1 - lr * decay
            variance = self._gt_variance(state, g, step ** group['beta2_decay'], precision)
            change = variance.clamp(min=precision ** 2).rsqrt() * g
            p -= change * (rate / (change.norm() / (root * limit)).clamp(min=1.0))


def _orthogonalised(matrix, coefficients, steps, eps):
    """A matrix with the same directions and singular values near 1, by Newton-Schulz iterations in bfloat16."""
    a, b, c = coefficients
    x = matrix.to(_gt.bfloat16)
    tall = matrix.shape[0] > matrix.shape[1]
    x = x.t() if tall else x
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.t()
        x = x * a + (gram * b + (gram @ gram) * c) @ x
    return x.t() if tall else x


class Muon(Optimizer):
    """Momentum of matrices, orthogonalised; other parameters need another optimizer."""

    def __init__(self, params, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True,
                 ns_coefficients=(3.4445, -4.775, 2.0315), eps=1e-7, ns_steps=5, adjust_lr_fn=None):
        if isinstance(lr, _gt.Tensor) and lr.numel() != 1:
            raise ValueError('Tensor lr must be 1-element')
        if not lr >= 0:
            raise ValueError(f'Learning rate should be >= 0 but is: {lr}')
        if not momentum >= 0:
            raise ValueError(f'momentum should be >= 0 but is: {momentum}')
        if not weight_decay >= 0:
            raise ValueError(f'weight decay should be >= 0 but is: {weight_decay}')
        if adjust_lr_fn not in (None, 'original', 'match_rms_adamw'):
            raise ValueError(f'Adjust learning rate function {adjust_lr_fn} is not supported')
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay, momentum=momentum, nesterov=nesterov,
                                      ns_coefficients=ns_coefficients, eps=eps, ns_steps=ns_steps,
                                      adjust_lr_fn=adjust_lr_fn))
        for group in self.param_groups:
            for p in group['params']:
                if p.ndim != 2:
                    raise ValueError('Muon only supports 2D parameters whereas we found a parameter with size: '
                                     f'gt.Size({list(p.shape)})')

    @staticmethod
    def _gt_rate(lr, adjustment, shape):
        rows, columns = shape
        if adjustment == 'match_rms_adamw':
            return lr * 0.2 * math.sqrt(max(rows, columns))
        return lr * math.sqrt(max(1, rows / columns))

    def _gt_update(self, group):
        """Update the parameters of a group."""
        lr, momentum, keep = group['lr'], group['momentum'], 1 - group['momentum']
        for p in group['params']:
            g = p.grad
            if g is None:
                continue
            if g.ndim != 2:
                raise ValueError('Param gradient must be a 2D matrix')
            state = self.state[p]
            buffer = state.get('momentum_buffer')
            if buffer is None:
                buffer = state['momentum_buffer'] = g * keep
            else:
                buffer += (g - buffer) * keep
            change = g + (buffer - g) * momentum if group['nesterov'] else buffer
            change = _orthogonalised(change, group['ns_coefficients'], group['ns_steps'], group['eps'])
            p *= 1 - lr * group['weight_decay']
            p -= change.to(p.dtype) * self._gt_rate(lr, group['adjust_lr_fn'], p.shape)
