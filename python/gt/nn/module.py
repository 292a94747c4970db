"""Module: the base class of layers and models.

Attributes that are Parameters or Modules are its parameters and children; members.py says where they are kept, and
python/extension/caller.c finds them and sets other attributes. Hooks are in hooks.py, saving and loading in state.py. Names of GT's own that a module
has beside PyTorch's begin with `_gt_`, so that they do not collide with those of users.
"""

import inspect
import itertools
from collections import OrderedDict

import gt
from gt import Tensor, _gt, no_grad
from gt.nn import hooks, members
from gt.nn.members import BUFFER, MODULE, PARAMETER, ParameterTable, typename
from gt.nn.parameter import Buffer, Parameter, is_lazy, zero_in_place
from gt.nn.state import State

_set_plain = _gt._set_plain
_HOOKS = ('_backward_pre_hooks', '_backward_hooks', '_forward_hooks', '_forward_hooks_with_kwargs',
          '_forward_hooks_always_called', '_forward_pre_hooks', '_forward_pre_hooks_with_kwargs', '_state_dict_hooks',
          '_state_dict_pre_hooks', '_load_state_dict_pre_hooks', '_load_state_dict_post_hooks')


class Parameters(list):
    """The result of parameters(): a list that also supports next(), like PyTorch's generator."""

    def __next__(self):
        self._iterator = iterator = getattr(self, '_iterator', None) or iter(self)
        return next(iterator)


def indented(text):
    """The text with every line but the first indented by two columns."""
    return text.replace('\n', '\n  ')


def _to_dtype(module, dtype):
    return module._apply(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)


def _set_member(module, name, value):
    """Assign a member, or another value under the name of one."""
    values = module.__dict__
    if isinstance(value, Parameter):
        if '_parameters' not in values:
            raise AttributeError('cannot assign parameters before Module.__init__() call')
        members.clear_name(module, name, PARAMETER)
        module.register_parameter(name, value)
    elif name in values.get('_parameters', ()):
        if value is not None:
            raise TypeError(f"cannot assign '{typename(value)}' as parameter '{name}' (gt.nn.Parameter or None expected)")
        module.register_parameter(name, value)
    elif isinstance(value, Module):
        if '_modules' not in values:
            raise AttributeError('cannot assign module before Module.__init__() call')
        members.clear_name(module, name, MODULE)
        module._modules[name] = hooks.registered(hooks._global_module_registration_hooks, module, name, value)
        members.names_changed(module)
    elif name in values.get('_modules', ()):
        if value is not None:
            raise TypeError(f"cannot assign '{typename(value)}' as child module '{name}' (gt.nn.Module or None expected)")
        module._modules[name] = hooks.registered(hooks._global_module_registration_hooks, module, name, value)
    elif isinstance(value, Buffer) or name in values.get('_buffers', ()):
        _set_buffer(module, name, value)
    elif name == '_parameters' and not hasattr(value, 'items'):  # a list by hand, as in modules of the prototype
        module._parameters.by_hand = list(value)
    else:
        super(Module, module).__setattr__(name, value)


def _set_buffer(module, name, value):
    """Assign a Buffer, or another value to a buffer."""
    if not (value is None or isinstance(value, Tensor)):
        raise TypeError(f"cannot assign '{typename(value)}' as buffer '{name}' (gt.nn.Buffer, gt.Tensor or None expected)")
    persistent = value.persistent if isinstance(value, Buffer) else name not in module._non_persistent_buffers_set
    register = module.register_buffer
    if getattr(register, '__func__', None) is Module.register_buffer or (
            'persistent' in inspect.signature(register).parameters):
        register(name, value, persistent)
    elif persistent:  # a subclass's own, without that argument
        register(name, value)
    else:
        raise RuntimeError('Registering a non-persistent buffer on a Module subclass that implements register_buffer() '
                           'without the persistent argument is not allowed.')


class Module(State, _gt._Caller):
    """The base of layers and models: assign parameters and other modules in __init__, write forward().

    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layer = nn.Linear(3, 1)
    ...
    ...     def forward(self, x):
    ...         return self.layer(x)
    """

    dump_patches = False
    call_super_init = False
    _compiled_call_impl = None

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        _gt._fast_attributes(cls)

    def __init__(self, *args, **kwargs):
        if kwargs and not self.call_super_init:
            raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'")
        if args and not self.call_super_init:
            raise TypeError(f'{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given')
        values = self.__dict__
        values['training'] = True
        values['_parameters'], values['_buffers'], values['_non_persistent_buffers_set'] = ParameterTable(), {}, set()
        values['_is_full_backward_hook'] = None
        for name in _HOOKS:
            values[name] = OrderedDict()
        values['_modules'] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *inputs):
        """Compute the output; subclasses implement it."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    _wrapped_call_impl = _gt._Caller.__call__

    def __getstate__(self):
        state = self.__dict__.copy()
        state.pop('_compiled_call_impl', None)
        state.pop('_gt_named', None)
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.__dict__.setdefault('_non_persistent_buffers_set', set())
        self.__dict__.setdefault('_is_full_backward_hook', None)
        for name in _HOOKS:  # those of a file that does not have them all
            if name not in self.__dict__:
                self.__dict__[name] = OrderedDict()
        if '_gt_compiled' in self.__dict__:  # a copy is a path of its own
            self.compile(*self._gt_compiled[0], **self._gt_compiled[1])

    # ---- hooks ---------------------------------------------------------------------------------------------

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """Call hook(module, args, output) after forward(). If it returns a value, that is the output.

        with_kwargs: call hook(module, args, kwargs, output). always_call: also if forward() raises an exception.
        """
        return hooks.add(self._forward_hooks, hook, prepend, (
            self._forward_hooks_with_kwargs, self._forward_hooks_always_called), (with_kwargs, always_call))

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """Call hook(module, args) before forward(). If it returns a value, those are the arguments.

        with_kwargs: call hook(module, args, kwargs), which returns None or (args, kwargs).
        """
        return hooks.add(self._forward_pre_hooks, hook, prepend, (self._forward_pre_hooks_with_kwargs,), (with_kwargs,))

    def register_full_backward_hook(self, hook, prepend=False):
        """Call hook(module, grad_input, grad_output) when the gradients of the inputs are known. If it returns a tuple,
        those are the gradients of the inputs."""
        hooks._only_one_kind(self._is_full_backward_hook, True, 'on a single Module')
        self._is_full_backward_hook = True
        return hooks.add(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook):
        """register_full_backward_hook, under its old name: grad_input are the gradients of the arguments."""
        hooks._only_one_kind(self._is_full_backward_hook, False, 'on a single Module')
        self._is_full_backward_hook = False
        return hooks.add(self._backward_hooks, hook)

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """Call hook(module, grad_output) when the gradients of the outputs are known. If it returns a tuple, those are
        the gradients of the outputs."""
        return hooks.add(self._backward_pre_hooks, hook, prepend)

    # ---- members -------------------------------------------------------------------------------------------

    def __setattr__(self, name, value):
        if not _set_plain(self, name, value):
            _set_member(self, name, value)

    def __delattr__(self, name):
        members.names_changed(self)
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            super().__delattr__(name)

    def register_parameter(self, name, param):
        """Add a parameter, or None, under a name."""
        members.check_name(self, name, PARAMETER)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(f"cannot assign '{typename(param)}' object to parameter '{name}' "
                                '(gt.nn.Parameter or None required)')
            if not param.is_leaf:
                raise ValueError(f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                                 f"explicitly. To express '{name}' as a function of another Tensor, compute the value in "
                                 'the forward() method.')
            param = hooks.registered(hooks._global_parameter_registration_hooks, self, name, param)
        if self._parameters.get(name) is not param:  # module.weight -= g assigns the member that is there
            members.names_changed(self)
        self._parameters[name] = param

    def register_buffer(self, name, tensor, persistent=True):
        """Add a tensor that is not trained. It is part of the state if persistent."""
        members.check_name(self, name, BUFFER)
        if not (tensor is None or isinstance(tensor, Tensor)):
            raise TypeError(f"cannot assign '{typename(tensor)}' object to buffer '{name}' (gt Tensor or None required)")
        self._buffers[name] = hooks.registered(hooks._global_buffer_registration_hooks, self, name, tensor)
        if persistent:
            self.__dict__['_non_persistent_buffers_set'].discard(name)
        else:
            self.__dict__['_non_persistent_buffers_set'].add(name)

    def add_module(self, name, module):
        """Add a child under a name."""
        if not (module is None or isinstance(module, Module)):
            raise TypeError(f'{typename(module)} is not a Module subclass')
        members.check_name(self, name, MODULE)
        self._modules[name] = hooks.registered(hooks._global_module_registration_hooks, self, name, module)
        members.names_changed(self)

    def register_module(self, name, module):
        """add_module, under another name."""
        self.add_module(name, module)

    def named_children(self):
        """(name, module) for each child, once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self):
        """Each child, once."""
        return (module for _, module in self.named_children())

    def named_modules(self, memo=None, prefix='', remove_duplicate=True):
        """(path, module) for this module and all below it."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f'{prefix}.{name}' if prefix else name, remove_duplicate)

    def modules(self):
        """This module and all below it."""
        return (module for _, module in self.named_modules())

    def get_submodule(self, target):
        """The module at a path such as 'layers.0.attention'."""
        module = self
        for name in target.split('.') if target else ():
            if not hasattr(module, name):
                raise AttributeError(f'{module._get_name()} has no attribute `{name}`')
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f'`{name}` is not an nn.Module')
        return module

    def set_submodule(self, target, module, strict=False):
        """Put a module at a path. strict: only in the place of another."""
        if target == '':
            raise ValueError('Cannot set the submodule without a target name!')
        if not isinstance(module, Module):
            raise ValueError(f'`module` is not an nn.Module, found {type(module)}')
        path, _, name = target.rpartition('.')
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f'{parent._get_name()} has no attribute `{name}`')
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f'`{name}` is not an nn.Module')
        setattr(parent, name, module)

    def get_parameter(self, target):
        """The parameter at a path such as 'layers.0.weight'."""
        _, name, found = members.find(self, target)
        if not isinstance(found, Parameter):
            raise AttributeError(f'`{name}` is not an nn.Parameter')
        return found

    def get_buffer(self, target):
        """The buffer at a path such as 'layers.0.running_mean'."""
        module, name, found = members.find(self, target)
        if name not in module._buffers:
            raise AttributeError(f'`{name}` is not a buffer')
        return found

    def _named_members(self, get_members_fn, prefix='', recurse=True, remove_duplicate=True):
        """(path, member) for what get_members_fn(module) yields for each module."""
        seen = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, member in get_members_fn(module):
                if member is None or member in seen:
                    continue
                if remove_duplicate:
                    seen.add(member)
                yield f'{path}.{name}' if path else name, member

    def named_parameters(self, prefix='', recurse=True, remove_duplicate=True):
        """(path, parameter) for each parameter, once unless remove_duplicate is False."""
        seen = set()
        for path, member in self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate):
            seen.add(member)
            yield path, member
        for path, member in self._named_members(members.named_by_hand, prefix, recurse):
            if member not in seen:
                yield path, member

    def parameters(self, recurse=True):
        """Each parameter, once."""
        if type(self).named_parameters is not Module.named_parameters:
            return Parameters(parameter for _, parameter in self.named_parameters(recurse=recurse))
        found, modules = {}, members.tree(self, {}) if recurse else (self,)
        for module in modules:
            found.update((tensor, True) for tensor in module._parameters.values() if tensor is not None)
        for module in modules:
            found.update((tensor, True) for tensor in members.added_by_hand(module._parameters))
        return Parameters(found)

    def named_buffers(self, prefix='', recurse=True, remove_duplicate=True):
        """(path, tensor) for each buffer, once unless remove_duplicate is False."""
        return self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse=True):
        """Each buffer, once."""
        return (tensor for _, tensor in self.named_buffers('', recurse))

    # ---- applied to all members ----------------------------------------------------------------------------

    def apply(self, fn):
        """Call fn(module) for all modules below this one, and this one last."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self, fn, recurse=True):
        """Replace the value of every parameter, its gradient and every buffer by fn of it."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for parameter in self._parameters.values():
            if parameter is not None and not is_lazy(parameter):
                gradient, needed = parameter.grad, parameter.requires_grad
                with no_grad():
                    value = fn(parameter.data)
                    parameter.data = value
                if needed != parameter.requires_grad:
                    parameter.requires_grad_(needed)
                if gradient is not None:
                    with no_grad():
                        gradient.data = fn(gradient)  # the object stays
                        parameter.grad = gradient
        for name, tensor in self._buffers.items():
            if tensor is not None and not is_lazy(tensor):
                self._buffers[name] = fn(tensor)
        return self

    def train(self, mode=True):
        """Set training mode, which dropout and batch normalisation read, in all modules."""
        if not isinstance(mode, bool):
            raise ValueError('training mode is expected to be boolean')
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self):
        """train(False)."""
        return self.train(False)

    def zero_grad(self, set_to_none=True):
        """Drop the gradients of all parameters, or set them to zero."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                zero_in_place(parameter)

    def requires_grad_(self, requires_grad=True):
        """Train all parameters, or none."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def type(self, dst_type):
        """Convert all parameters and buffers."""
        return self._apply(lambda tensor: tensor.to(dst_type) if isinstance(dst_type, _gt.dtype) else tensor.type(dst_type))

    def to(self, *args, **kwargs):
        """to(dtype), to(device), to(device, dtype), to(tensor): convert all floating point parameters and buffers.

        The device is accepted and ignored: the dispatcher decides where tensors live.
        """
        known = {'device', 'dtype', 'non_blocking', 'tensor', 'memory_format'}
        for name in kwargs:
            if name not in known:
                raise TypeError(f"to() got an unexpected keyword argument '{name}'")
        dtype = None
        for value in itertools.chain(args, kwargs.values()):
            if value in (float, int, bool, complex) and isinstance(value, type):
                value = gt.empty(0).to(value).dtype
            if isinstance(value, (_gt.dtype, Tensor)):
                dtype = value.dtype if isinstance(value, Tensor) else value
            elif isinstance(value, str):
                gt.device(value)  # an unknown one raises
        if dtype is None:
            return self
        if not gt.empty(0, dtype=dtype).is_floating_point() and not dtype.name.startswith('complex'):
            raise TypeError(f'nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}')
        return _to_dtype(self, dtype)

    def to_empty(self, *, device, recurse=True):
        """Replace all values by undefined ones, without copying."""
        return self._apply(lambda tensor: gt.empty_like(tensor), recurse)

    def float(self):
        """Convert all floating point parameters and buffers to float32."""
        return _to_dtype(self, _gt.float32)

    def double(self):
        """Convert all floating point parameters and buffers to float64."""
        return _to_dtype(self, _gt.float64)

    def half(self):
        """Convert all floating point parameters and buffers to float16."""
        return _to_dtype(self, _gt.float16)

    def bfloat16(self):
        """Convert all floating point parameters and buffers to bfloat16."""
        return _to_dtype(self, _gt.bfloat16)

    def cpu(self):
        """The module itself, as to(device) is."""
        return self

    def cuda(self, device=None):
        """The module itself, as to(device) is."""
        return self

    ipu = xpu = mtia = cuda

    def share_memory(self):
        """Raises: programs share tensors by connecting to one server, each with a copy of its own."""
        raise NotImplementedError('share_memory() is not supported: processes do not share the memory of GT tensors')

    def compile(self, *args, **kwargs):
        """Make each call of the module a hot path, as gt.compile does. The arguments are those of gt.compile."""
        from gt.compiler import compile
        self._compiled_call_impl, self._gt_compiled = compile(self._call_impl, *args, **kwargs), (args, kwargs)

    # ---- text ----------------------------------------------------------------------------------------------

    def _get_name(self):
        return type(self).__name__

    def extra_repr(self):
        """What repr() shows of the module itself."""
        return ''

    def __repr__(self):
        extra = self.extra_repr()
        lines = extra.split('\n') if extra else []
        children = [f'({name}): {indented(repr(module))}' for name, module in self._modules.items()]
        if not children and len(lines) <= 1:
            return f'{self._get_name()}({extra})'
        return f'{self._get_name()}(\n  ' + '\n  '.join(lines + children) + '\n)'

    def __dir__(self):
        names = [*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers]
        return sorted(name for name in names if not name[0].isdigit())

    def _replicate_for_data_parallel(self):
        """A module with the same values, and no parameters of its own."""
        replica = self.__new__(type(self))
        replica.__dict__ = self.__dict__.copy()
        replica._parameters = {}
        replica._buffers, replica._modules = replica._buffers.copy(), replica._modules.copy()
        replica._is_replica = True
        return replica


_gt._fast_attributes(Module)
