"""Optimizer: parameter groups, state, hooks and step(). Subclasses implement _gt_update() for one group, or
step() as in PyTorch.

Updates are ordinary operations that are not recorded. They use few instructions, because every parameter costs each of
them at every step. Options by which PyTorch chooses an implementation (foreach, fused, capturable) are accepted and
ignored; differentiable=True is not supported. Numbers such as `step` are plain numbers in `state` of the optimisers of this
package, and tensors in state_dict(), as PyTorch's are.
"""

import copy
import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Iterable

from gt import Tensor, _gt
from gt.nn.hooks import RemovableHandle, add  # noqa: F401
from gt.nn.members import typename
from gt.nn.parameter import zero_in_place

_set_grad_enabled = _gt._set_grad_enabled

required = type('_RequiredParameter', (), {
    '__doc__': 'The default of an option that must be given.', '__repr__': lambda self: '<required parameter>'})()

# ---- hooks of every optimizer ----------------------------------------------------------------------------------

_global_optimizer_pre_hooks, _global_optimizer_post_hooks = OrderedDict(), OrderedDict()
_HOOKS = ('_optimizer_step_pre_hooks', '_optimizer_step_post_hooks', '_optimizer_state_dict_pre_hooks',
          '_optimizer_state_dict_post_hooks', '_optimizer_load_state_dict_pre_hooks', '_optimizer_load_state_dict_post_hooks')


def register_optimizer_step_pre_hook(hook):
    """Call hook(optimizer, args, kwargs) before the step() of every optimizer."""
    return add(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook):
    """Call hook(optimizer, args, kwargs) after the step() of every optimizer."""
    return add(_global_optimizer_post_hooks, hook)


def _with_hooks(self, step, args, kwargs):
    """step(*args, **kwargs) with the hooks before and after it; the first argument is the optimizer, as in PyTorch."""
    for hook in (*_global_optimizer_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()):
        found = hook(self, args, kwargs)
        if found is not None:
            if not (isinstance(found, tuple) and len(found) == 2):
                raise RuntimeError(f'{step} must return None or a tuple of (new_args, new_kwargs), but got {found}.')
            args, kwargs = found
    result = step(*args, **kwargs)
    for hook in (*self._optimizer_step_post_hooks.values(), *_global_optimizer_post_hooks.values()):
        hook(self, args, kwargs)
    return result


def _has_hooks(optimizer):
    return (optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks or _global_optimizer_pre_hooks or
            _global_optimizer_post_hooks)


# ---- options ---------------------------------------------------------------------------------------------------


def require(valid, what, value):
    """Raise PyTorch's error for an invalid option."""
    if not valid:
        raise ValueError(f'Invalid {what}: {value}')


def require_common(lr, weight_decay, eps=0.0):
    """Check the options that all optimisers have."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError('Tensor lr must be 1-element')
    require(lr >= 0, 'learning rate', lr)
    require(eps >= 0, 'epsilon value', eps)
    require(weight_decay >= 0, 'weight_decay value', weight_decay)


def require_betas(betas):
    """Check the two factors of running means."""
    for k, beta in enumerate(betas):
        require(0 <= beta < 1, f'beta parameter at index {k}', beta)


def require_implementation(foreach=None, fused=None, differentiable=False):
    """Check the options by which PyTorch chooses an implementation."""
    if differentiable:
        raise NotImplementedError('differentiable=True is not supported: updates are not recorded')
    if foreach and fused:
        raise RuntimeError('`fused` and `foreach` cannot be `True` together.')


# Numbers of a parameter's state that are tensors in PyTorch, and in state_dict(), for the optimisers of this package.
NUMBERS = ('step', 'eta', 'mu', 'mu_product')


def _saved(key, value):
    """A value of the state for state_dict()."""
    return _gt.tensor(float(value)) if key in NUMBERS and isinstance(value, (int, float)) else value


def _loaded(key, value, parameter, numbers):
    """A value of a loaded state. Tensors get the dtype of the parameter if that is floating, except `step`."""
    if key in numbers:
        return float(value)
    if isinstance(value, dict):
        return {inner: _loaded(inner, of, parameter, numbers) for inner, of in value.items()}
    if not hasattr(value, 'shape'):
        plain = isinstance(value, (str, bytes)) or not isinstance(value, Iterable)
        return value if plain else type(value)(_loaded(key, of, parameter, numbers) for of in value)
    if not isinstance(value, Tensor):  # PyTorch's
        value = _gt.as_tensor(value.detach() if hasattr(value, 'detach') else value)
    return value.to(parameter.dtype) if parameter.is_floating_point() and key != 'step' else value


def _split_names(group):
    """The parameters of a group; the names of named_parameters() go to 'param_names'."""
    params = group['params']
    if isinstance(params, Tensor):
        return [params]
    if isinstance(params, set):
        raise TypeError('optimizer parameters need to be organized in ordered collections, but the ordering of tensors '
                        'in sets will change between runs. Please use a list instead.')
    params = list(params)
    if not any(isinstance(p, tuple) for p in params):
        return params
    if not all(isinstance(p, tuple) for p in params):
        raise ValueError('all optimizer params should be with/without names. Some param names are missing')
    group['param_names'] = [p[0] for p in params]
    return [p[1] for p in params]


class Optimizer:
    """The base of optimisers: params are tensors, or dicts of tensors with options that override `defaults`.

    A subclass implements step(), as in PyTorch.
    """

    _opt_called = False  # whether step() was called, which schedules check

    _gt_takes_complex = False  # whether the update is right for complex numbers

    def __init__(self, params, defaults):
        if isinstance(params, Tensor):
            raise TypeError('params argument given to the optimizer should be an iterable of Tensors or dicts, '
                            f'but got {typename(params)}')
        for name in _HOOKS:
            setattr(self, name, OrderedDict())
        self._patch_step_function()
        self.defaults, self.state, self.param_groups = defaults, defaultdict(dict), []
        groups = list(params)
        if not groups:
            raise ValueError('optimizer got an empty parameter list')
        for group in groups if isinstance(groups[0], dict) else [{'params': groups}]:
            self.add_param_group(group)

    # ---- hooks ---------------------------------------------------------------------------------------------

    def _patch_step_function(self):
        """Let step() of a class that has its own call the hooks."""
        cls = type(self)
        if not getattr(cls.step, 'hooked', False):
            cls.step = self.profile_hook_step(cls.step)
            cls.step.hooked = True

    @staticmethod
    def profile_hook_step(func):
        """A function step(optimizer, ...) with the hooks before and after it."""
        @functools.wraps(func)
        def wrapper(self, *args, **kwargs):
            self._opt_called = True
            if _has_hooks(self):
                return _with_hooks(self, func, (self, *args), kwargs)
            return func(self, *args, **kwargs)
        return wrapper

    def register_step_pre_hook(self, hook):
        """Call hook(optimizer, args, kwargs) before step(). If it returns (args, kwargs), those are the arguments."""
        return add(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook):
        """Call hook(optimizer, args, kwargs) after step()."""
        return add(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook, prepend=False):
        """Call hook(optimizer) before state_dict()."""
        return add(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook, prepend=False):
        """Call hook(optimizer, state_dict) after state_dict(). If it returns a dict, that is the result."""
        return add(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook, prepend=False):
        """Call hook(optimizer, state_dict) before load_state_dict(). If it returns a dict, that is loaded."""
        return add(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook, prepend=False):
        """Call hook(optimizer) after load_state_dict()."""
        return add(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # ---- parameters ----------------------------------------------------------------------------------------

    def add_param_group(self, param_group):
        """Add parameters, with options of their own: {'params': [...], 'lr': 0.1}."""
        if not isinstance(param_group, dict):
            raise TypeError(f'param_group must be a dict, but got {type(param_group)}')
        group = dict(param_group)
        params = group['params'] = _split_names(group)
        known = {p for other in self.param_groups for p in other['params']}
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f'optimizer can only optimize Tensors, but one of the params is {typename(p)}')
            if p.is_complex() and not self._gt_takes_complex:
                raise NotImplementedError(f'{type(self).__name__} does not take complex parameters: make the parameter '
                                          f'gt.view_as_real(p) and use gt.view_as_complex of it')
            if not (p.is_leaf or self.defaults.get('differentiable')):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            group.setdefault(name, default)
        if len(set(params)) != len(params):
            warnings.warn('optimizer contains a parameter group with duplicate parameters; in future, this will cause an '
                          'error; see github.com/pytorch/pytorch/issues/40967 for more information', stacklevel=3)
        if not known.isdisjoint(params):
            raise ValueError('some parameters appear in more than one parameter group')
        if self.param_groups and ('param_names' in group) != ('param_names' in self.param_groups[0]):
            given = 'with' if 'param_names' in group else 'without'
            raise ValueError(f'all optimizer param groups should be with/without names. cannot add param group {given} names '
                             'to the optimizer')
        self.param_groups.append(group)

    def zero_grad(self, set_to_none=True):
        """Drop all gradients, or set them to zero."""
        for group in self.param_groups:
            if set_to_none:
                _gt._drop_gradients(group['params'])
                continue
            for p in group['params']:
                if p.grad is not None:
                    zero_in_place(p)

    # ---- steps ---------------------------------------------------------------------------------------------

    def step(self, closure=None):
        """Update all parameters that have a gradient. closure(), if given, computes the loss first."""
        self._opt_called = True
        if (self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks or _global_optimizer_pre_hooks or
                _global_optimizer_post_hooks) and type(self).step is Optimizer.step:  # else that of the class calls the hooks
            return _with_hooks(self, Optimizer._gt_updated, (self,) if closure is None else (self, closure), {})
        return self._gt_updated(closure)

    step.hooked = True

    def _gt_updated(self, closure=None):
        loss = None
        before = _set_grad_enabled(closure is not None)
        try:
            if closure is not None:
                loss = closure()
                _set_grad_enabled(False)
            for group in self.param_groups:
                self._gt_update(group)
        finally:
            _set_grad_enabled(before)
        return loss

    def _gt_update(self, group):
        """Update the parameters of a group."""
        raise NotImplementedError

    @staticmethod
    def _gt_gradients(group, params=None, decays=True):
        """(parameter, gradient) for each parameter with a gradient, of the group or those given: negated to maximize, with
        weight decay added."""
        pairs = _gt._gradients(group['params'] if params is None else params)
        if group['maximize']:
            pairs = ((p, -g) for p, g in pairs)
        weight_decay = group['weight_decay'] if decays else 0
        return ((p, g + p * weight_decay) for p, g in pairs) if weight_decay else pairs

    # ---- state ---------------------------------------------------------------------------------------------

    def state_dict(self):
        """{'state': by position, 'param_groups': with positions for parameters}, as in PyTorch."""
        for hook in tuple(self._optimizer_state_dict_pre_hooks.values()):
            hook(self)
        positions, groups = {}, []
        for group in self.param_groups:
            for p in group['params']:
                positions.setdefault(p, len(positions))
            groups.append({**{key: value for key, value in group.items() if key != 'params'},
                           'params': [positions[p] for p in group['params']]})
        state = {positions[p] if isinstance(p, Tensor) else p: of for p, of in self.state.items()}
        if self._gt_numbers():
            state = {key: {name: _saved(name, value) for name, value in of.items()} if isinstance(of, dict) else of
                     for key, of in state.items()}
        result = {'state': state, 'param_groups': groups}
        for hook in tuple(self._optimizer_state_dict_post_hooks.values()):
            found = hook(self, result)
            result = result if found is None else found
        return result

    def _gt_numbers(self):
        """The names of the numbers in the state that are tensors in state_dict(): none if the class is the user's own."""
        return () if type(self)._gt_update is Optimizer._gt_update else NUMBERS

    def load_state_dict(self, state_dict):
        """Load options and state from a state_dict() of GT or PyTorch."""
        state_dict = dict(state_dict)
        for hook in tuple(self._optimizer_load_state_dict_pre_hooks.values()):
            found = hook(self, state_dict)
            state_dict = state_dict if found is None else found
        groups = state_dict['param_groups']
        if len(groups) != len(self.param_groups):
            raise ValueError('loaded state dict has a different number of parameter groups')
        if any(len(group['params']) != len(own['params']) for group, own in zip(groups, self.param_groups)):
            raise ValueError('loaded state dict contains a parameter group '
                             "that doesn't match the size of optimizer's group")
        parameters, numbers = {}, self._gt_numbers()
        groups = [{**copy.deepcopy({key: value for key, value in group.items() if key != 'params'}), 'params': group['params']}
                  for group in groups]
        for group, own in zip(groups, self.param_groups):
            parameters.update(zip(group['params'], own['params']))
            group['params'] = own['params']
            if 'param_names' in own:
                group.setdefault('param_names', own['param_names'])
            for name, default in self.defaults.items() if numbers else ():  # options that an old file does not have
                group.setdefault(name, default)
        loaded = defaultdict(dict)
        for position, state in state_dict['state'].items():
            if position in parameters:
                loaded[parameters[position]] = _loaded(None, state, parameters[position], numbers)
            else:
                loaded[position] = state
        self.__setstate__({'state': loaded, 'param_groups': groups})
        for hook in tuple(self._optimizer_load_state_dict_post_hooks.values()):
            hook(self)

    def __getstate__(self):
        return {'defaults': self.defaults, 'state': self.state, 'param_groups': self.param_groups}

    def __setstate__(self, state):
        self.__dict__.update(state)
        for name in _HOOKS:
            self.__dict__.setdefault(name, OrderedDict())
        self._patch_step_function()

    def __repr__(self):
        text = type(self).__name__ + ' ('
        for k, group in enumerate(self.param_groups):
            options = ''.join(f'    {key}: {group[key]}\n' for key in sorted(group) if key != 'params')
            text += f'\nParameter Group {k}\n{options}'
        return text + ')'
