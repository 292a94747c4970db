"""Hooks of modules: their handles, the hooks that apply to every module, and the call of a module that has hooks.

A call of a module runs forward() alone unless one of the dictionaries of hooks has an entry, on the instance or here
(python/extension/caller.c). This file has the path with hooks. The dictionaries are ordinary ones, as in PyTorch: programs
write into them and replace them.
"""

import functools
import itertools
import warnings
import weakref
from collections import OrderedDict

from gt import Tensor, _gt, autograd
from gt.nn import members

regions = itertools.count(1)  # numbers of compiled modules and functions (gt.compiler)


class RemovableHandle:
    """Returned when a hook is registered: remove() removes it, and so does the end of a `with` block.

    hooks_dict: the hooks by id. extra_dict: a dictionary, or a list of them, that also has entries of that id.
    """

    next_id = 0

    def __init__(self, hooks_dict, *, extra_dict=None):
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        extra = extra_dict if isinstance(extra_dict, list) else [] if extra_dict is None else [extra_dict]
        self.extra_dict_ref = tuple(map(weakref.ref, extra))

    def remove(self):
        """Remove the hook."""
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            dictionary = reference()
            if dictionary is not None:
                dictionary.pop(self.id, None)

    def __getstate__(self):
        """The dictionaries themselves: the handle of a copied module belongs to the copied dictionaries."""
        return self.hooks_dict_ref(), self.id, tuple(reference() for reference in self.extra_dict_ref)

    def __setstate__(self, state):
        hooks_dict, self.id, extra = state
        self.hooks_dict_ref, *rest = [weakref.ref(OrderedDict() if each is None else each) for each in (hooks_dict, *extra)]
        self.extra_dict_ref = tuple(rest)
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.remove()


class WrappedHook:
    """A hook that is called with a module before its arguments, or without one. A copy of the module has a copy of the hook."""

    def __init__(self, hook, module=None):
        functools.update_wrapper(self, hook)
        self.hook, self.with_module = hook, module is not None
        if self.with_module:
            self.module = weakref.ref(module)

    def __call__(self, *args, **kwargs):
        if not self.with_module:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError('You are trying to call the hook of a dead Module!')
        return self.hook(module, *args, **kwargs)

    def __getstate__(self):
        return {'hook': self.hook, 'with_module': self.with_module, 'module': self.module() if self.with_module else None}

    def __setstate__(self, state):
        self.hook, self.with_module = state['hook'], state['with_module']
        if self.with_module:
            if state['module'] is None:
                raise RuntimeError('You are trying to revive the hook of a dead Module!')
            self.module = weakref.ref(state['module'])


def add(hooks, hook, prepend=False, options=(), marks=()):
    """Add a hook to a dictionary, note its id in each dictionary of `options` whose mark is set, and return its handle."""
    handle = RemovableHandle(hooks, extra_dict=list(options))
    hooks[handle.id] = hook
    for dictionary, marked in zip(options, marks):
        if marked:
            dictionary[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


# ---- hooks of every module ------------------------------------------------------------------------------------

_global_forward_hooks, _global_forward_pre_hooks = OrderedDict(), OrderedDict()
_global_backward_hooks, _global_backward_pre_hooks = OrderedDict(), OrderedDict()
_global_forward_hooks_with_kwargs, _global_forward_hooks_always_called = OrderedDict(), OrderedDict()
_global_buffer_registration_hooks, _global_module_registration_hooks = OrderedDict(), OrderedDict()
_global_parameter_registration_hooks = OrderedDict()
_backward_is_full = [None]  # whether the hooks in _global_backward_hooks are full ones; None without any


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    """Call hook(module, args, output) after the forward() of every module."""
    return add(_global_forward_hooks, hook, False, (_global_forward_hooks_with_kwargs, _global_forward_hooks_always_called), (
        with_kwargs, always_call))


def register_module_forward_pre_hook(hook):
    """Call hook(module, args) before the forward() of every module."""
    return add(_global_forward_pre_hooks, hook)


def _only_one_kind(current, full, where):
    if current is (not full):
        raise RuntimeError(f'Cannot use both regular backward hooks and full backward hooks {where}. '
                           'Please use only one of them.')


def register_module_full_backward_hook(hook):
    """Call hook(module, grad_input, grad_output) when the gradients of any module's inputs are known."""
    _only_one_kind(_backward_is_full[0], True, 'as a global Module hook')
    _backward_is_full[0] = True
    return add(_global_backward_hooks, hook)


def register_module_backward_hook(hook):
    """register_module_full_backward_hook, under its old name: grad_input are the gradients of the arguments."""
    _only_one_kind(_backward_is_full[0], False, 'as a global Module hook')
    _backward_is_full[0] = False
    return add(_global_backward_hooks, hook)


def register_module_full_backward_pre_hook(hook):
    """Call hook(module, grad_output) when the gradients of any module's outputs are known."""
    return add(_global_backward_pre_hooks, hook)


def register_module_buffer_registration_hook(hook):
    """Call hook(module, name, buffer) when any module registers a buffer; what it returns takes the buffer's place."""
    return add(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook):
    """Call hook(module, name, child) when any module registers a child; what it returns takes the child's place."""
    return add(_global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook):
    """Call hook(module, name, parameter) when any module registers a parameter; what it returns takes its place."""
    return add(_global_parameter_registration_hooks, hook)


def registered(hooks, module, name, value):
    """The value to register under a name, after the hooks for registrations."""
    for hook in tuple(hooks.values()):
        found = hook(module, name, value)
        value = value if found is None else found
    return value


# ---- gradients of a module's inputs and outputs ---------------------------------------------------------------


class _Passed(autograd.Function):
    """The tensors themselves; `seen` is called with their gradients, and what it returns takes their place."""

    @staticmethod
    def forward(ctx, seen, *tensors):
        ctx.seen = seen
        ctx.set_materialize_grads(False)
        return tuple(tensor.detach() for tensor in tensors)

    @staticmethod
    def backward(ctx, *gradients):
        found = ctx.seen(gradients)
        return (None, *(gradients if found is None else found))


class BackwardHook:
    """One call of a module with backward hooks: it collects the gradients of its outputs, then those of its inputs."""

    def __init__(self, module, user_hooks, user_pre_hooks):
        self.module, self.hooks, self.pre_hooks = module, user_hooks, user_pre_hooks
        self.of_outputs, self.inputs, self.outputs = None, None, None  # gradients; places of tensors
        self.input_count = self.output_count = 0

    @staticmethod
    def _packed(places, gradients, count):
        packed = [None] * count
        for place, gradient in zip(places, gradients):
            packed[place] = gradient
        return tuple(packed)

    @staticmethod
    def _replaced(gradients, result, title, name):
        """The gradients, or those that a hook returned in their place."""
        if result is None:
            return gradients
        result = (result,) if isinstance(result, Tensor) else result
        if len(result) != len(gradients):
            raise RuntimeError(f'{title} returned an invalid number of {name}, got {len(result)}, but expected '
                               f'{len(gradients)}')
        return result

    @staticmethod
    def _observed(seen, values):
        """The values with their tensors behind a node of the tape, and the places of the tensors."""
        places = [k for k, value in enumerate(values) if isinstance(value, Tensor)]
        if not (_gt.is_grad_enabled() and any(values[k].requires_grad for k in places)):
            return values, None
        passed = list(values)
        for k, tensor in zip(places, _Passed.apply(seen, *[values[k] for k in places])):
            passed[k] = tensor
        return tuple(passed) if type(values) is tuple else type(values)(*passed), places

    def setup_input_hook(self, args):
        """The arguments, observed."""
        self.input_count = len(args)
        args, self.inputs = self._observed(self._inputs_known, args)
        return args

    def setup_output_hook(self, result):
        """The result, observed."""
        values = result if isinstance(result, tuple) else (result,)
        self.output_count = len(values)
        values, self.outputs = self._observed(self._outputs_known, values)
        return values if isinstance(result, tuple) else values[0]

    def _inputs_known(self, gradients):
        if self.of_outputs is None:  # they came by another way than the outputs, as in a second backward()
            return None
        found = self._packed(self.inputs, gradients, self.input_count)
        for hook in self.hooks:
            found = self._replaced(found, hook(self.module, found, self.of_outputs), 'Backward hook', 'grad_input')
        self.of_outputs = None
        return [found[k] for k in self.inputs]

    def _outputs_known(self, gradients):
        of_outputs = self._packed(self.outputs, gradients, self.output_count)
        for hook in self.pre_hooks:
            of_outputs = self._replaced(of_outputs, hook(self.module, of_outputs), 'Backward pre hook', 'grad_output')
        self.of_outputs = of_outputs
        if self.inputs is None and self.hooks:
            self._without_inputs()
        return [of_outputs[k] for k in self.outputs]

    def _without_inputs(self):
        warnings.warn('Full backward hook is firing when gradients are computed with respect to module outputs since '
                      'no inputs require gradients.', stacklevel=2)
        for hook in self.hooks:
            result = hook(self.module, (None,) * self.input_count, self.of_outputs)
            if result is not None and not (isinstance(result, tuple) and all(each is None for each in result)):
                raise RuntimeError('Backward hook for Modules where no input requires gradient should always return '
                                   'None or None for all gradients.')
        self.of_outputs = None


# ---- the call of a module -------------------------------------------------------------------------------------


def _prepared(module, args, keywords):
    """The arguments after the hooks that run before forward()."""
    for number, hook in (*_global_forward_pre_hooks.items(), *module._forward_pre_hooks.items()):
        if number in module._forward_pre_hooks_with_kwargs:
            found = hook(module, args, keywords)
            if found is None:
                continue
            if not (isinstance(found, tuple) and len(found) == 2):
                raise RuntimeError('forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got '
                                   f'{found}.')
            args, keywords = found
        else:
            found = hook(module, args)
            if found is not None:
                args = found if isinstance(found, tuple) else (found,)
    return args, keywords


def _after(module, number, hook, args, keywords, result):
    """The result after one hook that runs after forward()."""
    if number in module._forward_hooks_with_kwargs or number in _global_forward_hooks_with_kwargs:
        found = hook(module, args, keywords, result)
    else:
        found = hook(module, args, result)
    return result if found is None else found


def call(module, args, keywords):
    """module(*args, **keywords) with all hooks."""
    result, called = None, set()
    try:
        args, keywords = _prepared(module, args, keywords)
        hooks, pre_hooks = (*_global_backward_hooks.values(), *module._backward_hooks.values()), (
            *_global_backward_pre_hooks.values(), *module._backward_pre_hooks.values())
        gradients = BackwardHook(module, hooks, pre_hooks) if hooks or pre_hooks else None
        if gradients is not None:
            args = gradients.setup_input_hook(args)
        result = module.forward(*args, **keywords)
        for number, hook in (*_global_forward_hooks.items(), *module._forward_hooks.items()):
            called.add(number)
            result = _after(module, number, hook, args, keywords, result)
        if gradients is not None:
            if not isinstance(result, (Tensor, tuple)):
                warnings.warn('For backward hooks to be called, module output should be a Tensor or a tuple of Tensors '
                              f'but received {type(result)}', stacklevel=3)
            result = gradients.setup_output_hook(result)
        return result
    except Exception:
        _always_called(module, args, keywords, result, called)
        raise


def _always_called(module, args, keywords, result, called):
    """After an exception: the hooks with always_call that have not run."""
    for number, hook in (*_global_forward_hooks.items(), *module._forward_hooks.items()):
        always = number in _global_forward_hooks_always_called or number in module._forward_hooks_always_called
        if not always or number in called:
            continue
        try:
            result = _after(module, number, hook, args, keywords, result)
        except Exception as error:
            warnings.warn('module forward hook with ``always_call=True`` raised an exception that was silenced as '
                          f'another error was raised in forward: {error}', stacklevel=4)


_gt._module_hooks(call, members.name_parameters, members.ParameterTable, _global_forward_hooks, _global_forward_pre_hooks, _global_backward_hooks,
                  _global_backward_pre_hooks)
