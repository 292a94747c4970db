"""L-BFGS: steps along the inverse of an estimated Hessian, kept as a history of steps and changes of the gradient.

All parameters are one vector. The decisions of the method need values, so each iteration waits for a few numbers.
"""

import math

import gt
from gt import _gt
from gt.optim.optimizer import Optimizer, require


def _cubic_minimum(x1, f1, g1, x2, f2, g2, bounds=None):
    """The minimum, within bounds, of the cubic through two points with their values and slopes."""
    low, high = bounds if bounds is not None else (min(x1, x2), max(x1, x2))
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1 * d1 - g1 * g2
    if not square >= 0:
        return (low + high) / 2
    d2 = math.sqrt(square)
    first, second = ((x1, g1), (x2, g2)) if x1 <= x2 else ((x2, g2), (x1, g1))
    divisor = second[1] - first[1] + 2 * d2
    if divisor == 0:
        return (low + high) / 2
    place = second[0] - (second[0] - first[0]) * ((second[1] + d2 - d1) / divisor)
    return min(max(place, low), high)


class _Point:
    """A step length on the line, with the loss, gradient and slope there."""

    def __init__(self, t, loss, gradient, slope):
        self.t, self.loss, self.gradient, self.slope = t, loss, gradient, slope


def _between(a, b, bounds=None):
    return _cubic_minimum(a.t, a.loss, a.slope, b.t, b.loss, b.slope, bounds)


class _LineSearch:
    """The search for a step with the strong Wolfe conditions: the loss falls enough, and the slope too."""

    def __init__(self, evaluate, start, t, longest, tolerance, most, c1=1e-4, c2=0.9):
        self.evaluate, self.start, self.tolerance, self.most = evaluate, start, tolerance, most
        self.longest, self.c1, self.c2 = longest, c1, c2  # longest: the largest element of the direction
        self.count, self.iterations, self.found = 1, 0, False
        self.now = evaluate(t)

    def _too_high(self, point):
        return point.loss > self.start.loss + self.c1 * point.t * self.start.slope

    def _flat_enough(self, point):
        return abs(point.slope) <= -self.c2 * self.start.slope

    def _try(self, t):
        self.count += 1
        self.iterations += 1
        return self.evaluate(t)

    def _bracket(self):
        """Two points with a good one between them, or one good point."""
        before = self.start
        while self.iterations < self.most:
            now = self.now
            if self._too_high(now) or (self.iterations > 1 and now.loss >= before.loss):
                return [before, now]
            if self._flat_enough(now):
                self.found = True
                return [now]
            if now.slope >= 0:
                return [before, now]
            t = _between(before, now, (now.t + 0.01 * (now.t - before.t), now.t * 10))
            before, self.now = now, self._try(t)
        return [_Point(0.0, self.start.loss, self.start.gradient, self.start.slope), self.now]

    @staticmethod
    def _away_from_ends(t, bracket, stuck):
        """A place that is not too near an end of the bracket if that happened twice, and whether it was near."""
        low, high = min(point.t for point in bracket), max(point.t for point in bracket)
        margin = 0.1 * (high - low)
        if min(high - t, t - low) >= margin:
            return t, False
        if stuck or t >= high or t <= low:
            return (high - margin if abs(t - high) < abs(t - low) else low + margin), False
        return t, True

    def run(self):
        """The best point found."""
        bracket, stuck = self._bracket(), False
        low, high = (0, 1) if bracket[0].loss <= bracket[-1].loss else (1, 0)
        while not self.found and self.iterations < self.most:
            if abs(bracket[1].t - bracket[0].t) * self.longest < self.tolerance:
                break
            t, stuck = self._away_from_ends(_between(*bracket), bracket, stuck)
            new = self._try(t)
            if self._too_high(new) or new.loss >= bracket[low].loss:
                bracket[high] = new
                low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
                continue
            if self._flat_enough(new):
                self.found = True
            elif new.slope * (bracket[high].t - bracket[low].t) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = new
        return bracket[low if len(bracket) > 1 else 0]


class LBFGS(Optimizer):
    """L-BFGS. step(closure) needs a closure that clears the gradients, computes the loss and calls backward().

    line_search_fn: None for steps of length lr, or 'strong_wolfe'.

    >>> optimizer = gt.optim.LBFGS(model.parameters(), line_search_fn='strong_wolfe')
    """

    def __init__(self, params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7, tolerance_change=1e-9,
                 history_size=100, line_search_fn=None):
        if isinstance(lr, _gt.Tensor) and lr.numel() != 1:
            raise ValueError('Tensor lr must be 1-element')
        require(lr >= 0, 'learning rate', lr)
        super().__init__(params, dict(lr=lr, max_iter=max_iter, max_eval=max_iter * 5 // 4 if max_eval is None else max_eval,
                                      tolerance_grad=tolerance_grad, tolerance_change=tolerance_change,
                                      history_size=history_size, line_search_fn=line_search_fn))
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]['params']

    # ---- all parameters as one vector ----------------------------------------------------------------------

    def _gt_flat_gradient(self):
        return gt.cat([gt.zeros(p.numel(), dtype=p.dtype) if p.grad is None else p.grad.reshape(-1) for p in self._params])

    def _gt_move(self, t, direction):
        start = 0
        for p in self._params:
            count = p.numel()
            p += direction[start:start + count].reshape(p.shape) * t
            start += count

    def _gt_evaluated(self, closure, values, t, direction):
        """The loss and gradient after a step from `values`, which is then undone."""
        self._gt_move(t, direction)
        with gt.enable_grad():
            loss = float(closure())
        gradient = self._gt_flat_gradient()
        for p, value in zip(self._params, values):
            p.copy_(value)
        return _Point(t, loss, gradient, float(gradient.dot(direction)))

    # ---- the method ----------------------------------------------------------------------------------------

    @staticmethod
    def _gt_direction(state, gradient, history_size):
        """The direction of the next step, by the two loops over the history."""
        if state['n_iter'] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
            return -gradient
        y, s = gradient - state['prev_flat_grad'], state['d'] * state['t']
        ys, yy = gt.stack([y.dot(s), y.dot(y)]).tolist()
        changes, steps, ro = state['old_dirs'], state['old_stps'], state['ro']
        if ys > 1e-10:
            if len(changes) == history_size:
                for history in (changes, steps, ro):
                    history.pop(0)
            changes.append(y)
            steps.append(s)
            ro.append(1.0 / ys)
            state['H_diag'] = ys / yy
        q, weights = -gradient, [None] * len(changes)
        for k in reversed(range(len(changes))):
            weights[k] = steps[k].dot(q) * ro[k]
            q = q - changes[k] * weights[k]
        r = q * state['H_diag']
        for k in range(len(changes)):
            r = r + steps[k] * (weights[k] - changes[k].dot(r) * ro[k])
        return r

    def _gt_searched(self, closure, group, state, loss, gradient, slope, evaluations):
        """A step by the line search: the new loss and gradient, and the number of evaluations."""
        if group['line_search_fn'] != 'strong_wolfe':
            raise RuntimeError("only 'strong_wolfe' is supported")
        values, direction = [p.detach().clone() for p in self._params], state['d']

        def evaluate(t):
            return self._gt_evaluated(closure, values, t, direction)
        search = _LineSearch(evaluate, _Point(0.0, loss, gradient, slope), state['t'], float(direction.abs().max()), 1e-9,
                             group['max_eval'] - evaluations)
        best = search.run()
        state['t'] = best.t
        self._gt_move(best.t, direction)
        return best.loss, best.gradient, search.count

    @gt.no_grad()
    def step(self, closure):
        """Up to max_iter iterations; returns the loss before them."""
        group, state = self.param_groups[0], self.state[self._params[0]]
        lr, tolerance = float(group['lr']), group['tolerance_change']
        state.setdefault('func_evals', 0)
        state.setdefault('n_iter', 0)
        with gt.enable_grad():
            first = closure()
        loss, gradient, evaluations = float(first), self._gt_flat_gradient(), 1
        state['func_evals'] += 1
        if float(gradient.abs().max()) <= group['tolerance_grad']:
            return first
        for iteration in range(1, group['max_iter'] + 1):
            state['n_iter'] += 1
            direction = state['d'] = self._gt_direction(state, gradient, group['history_size'])
            state['prev_loss'] = loss
            if 'prev_flat_grad' in state:
                state['prev_flat_grad'].copy_(gradient)
            else:
                state['prev_flat_grad'] = gradient.clone()
            state['t'] = min(1.0, 1.0 / float(gradient.abs().sum())) * lr if state['n_iter'] == 1 else lr
            slope = float(gradient.dot(direction))
            if slope > -tolerance:
                break
            count = 0
            if group['line_search_fn'] is not None:
                loss, gradient, count = self._gt_searched(closure, group, state, loss, gradient, slope, evaluations)
            else:
                self._gt_move(state['t'], direction)
                if iteration != group['max_iter']:
                    with gt.enable_grad():
                        loss = float(closure())
                    gradient, count = self._gt_flat_gradient(), 1
            evaluations += count
            state['func_evals'] += count
            if iteration == group['max_iter'] or evaluations >= group['max_eval']:
                break
            largest, move = gt.stack([gradient.abs().max(), (direction * state['t']).abs().max()]).tolist()
            if largest <= group['tolerance_grad'] or move <= tolerance or abs(loss - state['prev_loss']) < tolerance:
                break
        return first
