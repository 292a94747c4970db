"""Hooks of modules: their handles, the hooks that apply to every module, and the call of a module that has hooks.

Module.__call__ runs forward() alone unless `_hooked` is set, on the instance by its first hook or on the class by the
first hook for every module. This file has the path with hooks.
"""

import itertools
import warnings
import weakref
from collections import OrderedDict

from gt import Tensor, _gt, autograd

_ids = itertools.count()
regions = itertools.count(1)  # numbers of compiled modules and functions (gt.compiler)


class RemovableHandle:
    """Returned when a hook is registered: remove() removes it, and so does the end of a `with` block."""

    def __init__(self, hooks, *extra):
        self.id = next(_ids)
        self._dictionaries = [weakref.ref(each) for each in (hooks, *extra)]

    def remove(self):
        """Remove the hook."""
        for reference in self._dictionaries:
            dictionary = reference()
            if dictionary is not None:
                dictionary.pop(self.id, None)

    def __getstate__(self):
        """The dictionaries themselves: the handle of a copied module belongs to the copied dictionaries."""
        return self.id, [reference() for reference in self._dictionaries]

    def __setstate__(self, state):
        self.id, dictionaries = state
        self._dictionaries = [weakref.ref(Hooks() if each is None else each) for each in dictionaries]

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.remove()


class WithoutModule:
    """A hook that does not take the module. An object, so that a bound method inside follows copies of its module."""

    def __init__(self, hook):
        self.hook = hook

    def __call__(self, module, *arguments):
        return self.hook(*arguments)


class Hooks(OrderedDict):
    """Hooks by id, in the order of their calls. `options` has the ids that take keywords or are always called."""

    def add(self, hook, prepend=False, options=(), marks=()):
        """Add a hook, note its id in each dictionary of `options` whose mark is set, and return its handle."""
        handle = RemovableHandle(self, *options)
        self[handle.id] = hook
        for dictionary, marked in zip(options, marks):
            if marked:
                dictionary[handle.id] = True
        if prepend:
            self.move_to_end(handle.id, last=False)
        return handle


# ---- hooks of every module ------------------------------------------------------------------------------------

_forward, _forward_pre, _backward, _backward_pre = Hooks(), Hooks(), Hooks(), Hooks()
_forward_with_kwargs, _forward_always = Hooks(), Hooks()
_buffer_registration, _module_registration, _parameter_registration = Hooks(), Hooks(), Hooks()
_backward_is_full = [None]  # whether the hooks in _backward are full ones; None without any


def _everywhere():
    """Let every module take the path with hooks."""
    from gt.nn.module import Module
    Module._hooked = True


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    """Call hook(module, args, output) after the forward() of every module."""
    _everywhere()
    return _forward.add(hook, False, (_forward_with_kwargs, _forward_always), (with_kwargs, always_call))


def register_module_forward_pre_hook(hook):
    """Call hook(module, args) before the forward() of every module."""
    _everywhere()
    return _forward_pre.add(hook)


def _only_one_kind(current, full, where):
    if current is (not full):
        raise RuntimeError(f'Cannot use both regular backward hooks and full backward hooks {where}. '
                           'Please use only one of them.')


def register_module_full_backward_hook(hook):
    """Call hook(module, grad_input, grad_output) when the gradients of any module's inputs are known."""
    _only_one_kind(_backward_is_full[0], True, 'as a global Module hook')
    _everywhere()
    _backward_is_full[0] = True
    return _backward.add(hook)


def register_module_backward_hook(hook):
    """register_module_full_backward_hook, under its old name: grad_input are the gradients of the arguments."""
    _only_one_kind(_backward_is_full[0], False, 'as a global Module hook')
    _everywhere()
    _backward_is_full[0] = False
    return _backward.add(hook)


def register_module_full_backward_pre_hook(hook):
    """Call hook(module, grad_output) when the gradients of any module's outputs are known."""
    _everywhere()
    return _backward_pre.add(hook)


def register_module_buffer_registration_hook(hook):
    """Call hook(module, name, buffer) when any module registers a buffer; what it returns takes the buffer's place."""
    return _buffer_registration.add(hook)


def register_module_module_registration_hook(hook):
    """Call hook(module, name, child) when any module registers a child; what it returns takes the child's place."""
    return _module_registration.add(hook)


def register_module_parameter_registration_hook(hook):
    """Call hook(module, name, parameter) when any module registers a parameter; what it returns takes its place."""
    return _parameter_registration.add(hook)


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


class _Gradients:
    """One call of a module with backward hooks: it collects the gradients of its outputs, then those of its inputs."""

    def __init__(self, module, hooks, pre_hooks):
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
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

    def watch_inputs(self, args):
        """The arguments, observed."""
        self.input_count = len(args)
        args, self.inputs = self._observed(self._inputs_known, args)
        return args

    def watch_outputs(self, result):
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
    for number, hook in (*_forward_pre.items(), *module._forward_pre_hooks.items()):
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
    if number in module._forward_hooks_with_kwargs or number in _forward_with_kwargs:
        found = hook(module, args, keywords, result)
    else:
        found = hook(module, args, result)
    return result if found is None else found


def call(module, args, keywords):
    """module(*args, **keywords) with all hooks; as a region of its own if the module is compiled."""
    if module._region is None:
        return _call(module, args, keywords)
    entered = _gt._region_enter(module._region)
    try:
        return _call(module, args, keywords)
    finally:
        _gt._region_leave(entered)


def _call(module, args, keywords):
    result, called = None, set()
    try:
        args, keywords = _prepared(module, args, keywords)
        hooks, pre_hooks = (*_backward.values(), *module._backward_hooks.values()), (
            *_backward_pre.values(), *module._backward_pre_hooks.values())
        gradients = _Gradients(module, hooks, pre_hooks) if hooks or pre_hooks else None
        if gradients is not None:
            args = gradients.watch_inputs(args)
        result = module.forward(*args, **keywords)
        for number, hook in (*_forward.items(), *module._forward_hooks.items()):
            called.add(number)
            result = _after(module, number, hook, args, keywords, result)
        if gradients is not None:
            if not isinstance(result, (Tensor, tuple)):
                warnings.warn('For backward hooks to be called, module output should be a Tensor or a tuple of Tensors '
                              f'but received {type(result)}', stacklevel=3)
            result = gradients.watch_outputs(result)
        return result
    except Exception:
        _always_called(module, args, keywords, result, called)
        raise


def _always_called(module, args, keywords, result, called):
    """After an exception: the hooks with always_call that have not run."""
    for number, hook in (*_forward.items(), *module._forward_hooks.items()):
        always = number in _forward_always or number in module._forward_hooks_always_called
        if not always or number in called:
            continue
        try:
            result = _after(module, number, hook, args, keywords, result)
        except Exception as error:
            warnings.warn('module forward hook with ``always_call=True`` raised an exception that was silenced as '
                          f'another error was raised in forward: {error}', stacklevel=4)
