"""GradScaler: scales the loss so that small float16 gradients do not vanish, and skips steps with infinite ones."""

import enum

from gt import _gt


class OptState(enum.Enum):
    """What was done with an optimizer since the last update()."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _fresh():
    return {'stage': OptState.READY, 'found_inf': None}


class GradScaler:
    """Multiplies losses by a scale, divides gradients by it before a step, and adapts it.

    A step whose gradients have an infinity or NaN is skipped, and the scale is multiplied by backoff_factor. After
    growth_interval steps without one it is multiplied by growth_factor. enabled=False makes all methods pass through.

        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    """

    def __init__(self, device='cuda', init_scale=2.0 ** 16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000,
                 enabled=True):
        self._device, self._enabled = device, bool(enabled)
        if self._enabled:
            assert growth_factor > 1.0, 'The growth factor must be > 1.0.'
            assert backoff_factor < 1.0, 'The backoff factor must be < 1.0.'
        self._init_scale, self._scale, self._growth_tracker = float(init_scale), None, 0
        self._growth_factor, self._backoff_factor, self._growth_interval = growth_factor, backoff_factor, growth_interval
        self._states = {}

    def _state(self, optimizer):
        return self._states.setdefault(id(optimizer), _fresh())

    def _current(self):
        if self._scale is None:
            self._scale = self._init_scale
        return self._scale

    def scale(self, outputs):
        """Multiply a tensor, or tensors in an iterable, by the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, _gt.Tensor):
            return outputs * self._current()
        if hasattr(outputs, '__iter__'):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled
        raise ValueError('outputs must be a Tensor or an iterable of Tensors')

    def _check_started(self, what):
        if self._scale is None:
            raise AssertionError(f'Attempted {what} but _scale is None.  This may indicate your script did not use '
                                 'scaler.scale(loss or outputs) earlier in the iteration.')

    @staticmethod
    def _divide(optimizer, factor, allow_fp16):
        """Multiply all gradients by a factor. Returns a 0-d bool tensor: whether one is not finite; None: there are none."""
        found = []
        with _no_grad():
            for group in optimizer.param_groups:
                for parameter in group['params']:
                    gradient = parameter.grad
                    if gradient is None:
                        continue
                    if not allow_fp16 and gradient.dtype == _gt.float16:
                        raise ValueError('Attempting to unscale FP16 gradients.')
                    found.append(~gradient.isfinite().all())
                    if factor != 1.0:
                        gradient.mul_(factor)
            return _gt.stack(found).any() if found else None

    def unscale_(self, optimizer):
        """Divide the gradients of an optimizer's parameters by the scale, for example before clipping them."""
        if not self._enabled:
            return
        self._check_started('unscale_')
        state = self._state(optimizer)
        if state['stage'] is OptState.UNSCALED:
            raise RuntimeError('unscale_() has already been called on this optimizer since the last update().')
        if state['stage'] is OptState.STEPPED:
            raise RuntimeError('unscale_() is being called after step().')
        state['found_inf'] = self._divide(optimizer, 1.0 / self._scale, False)
        state['stage'] = OptState.UNSCALED

    @staticmethod
    def _value(state):
        """Whether the gradients have an infinity; waits for the answer the first time."""
        if isinstance(state['found_inf'], _gt.Tensor):
            state['found_inf'] = bool(state['found_inf'])
        return state['found_inf']

    def step(self, optimizer, *args, **kwargs):
        """Unscale the gradients, if that was not done, and call optimizer.step(*args, **kwargs) if they are all finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if 'closure' in kwargs:
            raise RuntimeError('Closure use is not currently supported if GradScaler is enabled.')
        self._check_started('step')
        state = self._state(optimizer)
        if state['stage'] is OptState.STEPPED:
            raise RuntimeError('step() has already been called since the last update().')
        if state['stage'] is OptState.READY:
            self.unscale_(optimizer)
        if state['found_inf'] is None:
            raise AssertionError('No inf checks were recorded for this optimizer.')
        result = None if self._value(state) else optimizer.step(*args, **kwargs)
        state['stage'] = OptState.STEPPED
        return result

    def update(self, new_scale=None):
        """Adapt the scale to the steps since the last call, or set it to new_scale (a number or a tensor)."""
        if not self._enabled:
            return
        self._check_started('update')
        if new_scale is not None:
            self._scale = float(new_scale)
        else:
            found = [self._value(state) for state in self._states.values() if state['found_inf'] is not None]
            if not found:
                raise AssertionError('No inf checks were recorded prior to update.')
            self._adapt(any(found))
        self._states.clear()

    def _adapt(self, overflowed):
        if overflowed:
            self._scale *= self._backoff_factor
            self._growth_tracker = 0
            return
        self._growth_tracker += 1
        if self._growth_tracker == self._growth_interval:
            grown = self._scale * self._growth_factor
            self._scale = grown if grown <= 3.4028234663852886e38 else self._scale
            self._growth_tracker = 0

    def get_scale(self):
        """The scale, a float."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale

    def get_growth_factor(self):
        """The growth factor."""
        return self._growth_factor

    def set_growth_factor(self, new_factor):
        """Set the growth factor."""
        self._growth_factor = new_factor

    def get_backoff_factor(self):
        """The backoff factor."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor):
        """Set the backoff factor."""
        self._backoff_factor = new_factor

    def get_growth_interval(self):
        """The growth interval."""
        return self._growth_interval

    def set_growth_interval(self, new_interval):
        """Set the growth interval."""
        self._growth_interval = new_interval

    def is_enabled(self):
        """Whether the scaler is enabled."""
        return self._enabled

    def state_dict(self):
        """scale, growth_factor, backoff_factor, growth_interval, _growth_tracker; empty if disabled."""
        if not self._enabled:
            return {}
        return {'scale': self.get_scale(), 'growth_factor': self._growth_factor, 'backoff_factor': self._backoff_factor,
                'growth_interval': self._growth_interval, '_growth_tracker': self._growth_tracker}

    def load_state_dict(self, state_dict):
        """Restore a state from state_dict()."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError('The source state dict is empty, possibly because it was saved from a disabled instance of '
                               'GradScaler.')
        self._init_scale = float(state_dict['scale'])
        if self._scale is not None:
            self._scale = self._init_scale
        self._growth_factor, self._backoff_factor = state_dict['growth_factor'], state_dict['backoff_factor']
        self._growth_interval, self._growth_tracker = state_dict['growth_interval'], state_dict['_growth_tracker']


def _no_grad():
    from gt.autograd import no_grad
    return no_grad()
