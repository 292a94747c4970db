"""Optimizer: parameter groups, state, and step(). Subclasses implement update() for one group.

Updates are ordinary operations that are not recorded. They use few instructions, because every parameter costs each of
them at every step. Options by which PyTorch chooses an implementation (foreach, fused, capturable, differentiable) are
accepted and ignored.
"""

from collections import defaultdict

from gt import Tensor, _gt

_set_grad_enabled = _gt._set_grad_enabled


def require(valid, what, value):
    """Raise PyTorch's error for an invalid option."""
    if not valid:
        raise ValueError(f'Invalid {what}: {value}')


def require_common(lr, weight_decay, eps=0.0):
    """Check the options that all optimisers have."""
    require(lr >= 0, 'learning rate', lr)
    require(eps >= 0, 'epsilon value', eps)
    require(weight_decay >= 0, 'weight_decay value', weight_decay)


def _loaded(key, value, parameter):
    """Convert a value of a loaded state; step is a plain number here."""
    if key == 'step':
        return float(value)
    if not hasattr(value, 'shape'):
        return value
    return _gt.as_tensor(value).to(parameter.dtype)


class Optimizer:
    """The base of optimisers: params are tensors, or dicts of tensors with options that override `defaults`."""

    takes_complex = False  # whether the update is right for complex numbers

    def __init__(self, params, defaults):
        if isinstance(params, Tensor):
            raise TypeError('params argument given to the optimizer should be an iterable of Tensors or dicts, '
                            f'but got {type(params).__name__}')
        self.defaults, self.state, self.param_groups = defaults, defaultdict(dict), []
        groups = list(params)
        if not groups:
            raise ValueError('optimizer got an empty parameter list')
        for group in groups if isinstance(groups[0], dict) else [{'params': groups}]:
            self.add_param_group(group)

    def add_param_group(self, param_group):
        """Add parameters, with options of their own: {'params': [...], 'lr': 0.1}."""
        params = param_group['params']
        params = [params] if isinstance(params, Tensor) else list(params)
        params = [p[1] if isinstance(p, tuple) and len(p) == 2 else p for p in params]  # named_parameters()
        known = {p for group in self.param_groups for p in group['params']}
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(
                    f'optimizer can only optimize Tensors, but one of the params is {type(p).__name__}')
            if p.is_complex() and not self.takes_complex:
                raise NotImplementedError(f'{type(self).__name__} does not take complex parameters: make the parameter '
                                          f'gt.view_as_real(p) and use gt.view_as_complex of it')
            if not p.is_leaf:
                raise ValueError("can't optimize a non-leaf Tensor")
            if p in known:
                raise ValueError('some parameters appear in more than one parameter group')
        self.param_groups.append({**self.defaults, **param_group, 'params': params})

    def zero_grad(self, set_to_none=True):
        """Drop all gradients, or set them to zero."""
        for group in self.param_groups:
            for p in group['params']:
                if set_to_none:
                    p.grad = None
                elif p.grad is not None:
                    p.grad = _gt.zeros_like(p)

    def step(self, closure=None):
        """Update all parameters that have a gradient. closure(), if given, computes the loss first."""
        loss = None
        before = _set_grad_enabled(True)
        try:
            if closure is not None:
                loss = closure()
            _set_grad_enabled(False)
            for group in self.param_groups:
                self.update(group)
        finally:
            _set_grad_enabled(before)
        return loss

    def update(self, group):
        """Update the parameters of a group."""
        raise NotImplementedError

    @staticmethod
    def gradients(group, decays=True):
        """(parameter, gradient) for each parameter with a gradient: negated to maximize, with weight decay added."""
        maximize, weight_decay = group['maximize'], group['weight_decay'] if decays else 0
        for p in group['params']:
            g = p.grad
            if g is None:
                continue
            if maximize:
                g = -g
            if weight_decay:
                g = g + p * weight_decay
            yield p, g

    def state_dict(self):
        """{'state': by position, 'param_groups': with positions for parameters}, as in PyTorch."""
        positions, groups = {}, []
        for group in self.param_groups:
            for p in group['params']:
                positions.setdefault(p, len(positions))
            groups.append({**group, 'params': [positions[p] for p in group['params']]})
        return {'state': {positions[p]: dict(state) for p, state in self.state.items()}, 'param_groups': groups}

    def load_state_dict(self, state_dict):
        """Load options and state from a state_dict() of GT or PyTorch."""
        groups = state_dict['param_groups']
        if len(groups) != len(self.param_groups):
            raise ValueError('loaded state dict has a different number of parameter groups')
        if any(len(group['params']) != len(own['params']) for group, own in zip(groups, self.param_groups)):
            raise ValueError('loaded state dict contains a parameter group '
                             "that doesn't match the size of optimizer's group")
        parameters = {}
        for group, own in zip(groups, self.param_groups):
            parameters.update(zip(group['params'], own['params']))
            own.update({key: value for key, value in group.items() if key != 'params'})
        self.state = defaultdict(dict)
        for position, state in state_dict['state'].items():
            p = parameters[position]
            self.state[p] = {key: _loaded(key, value, p) for key, value in state.items()}

    def __repr__(self):
        text = type(self).__name__ + ' ('
        for k, group in enumerate(self.param_groups):
            options = ''.join(f'    {key}: {group[key]}\n' for key in sorted(group) if key != 'params')
            text += f'\nParameter Group {k}\n{options}'
        return text + ')'
