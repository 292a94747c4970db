"""Module: the base class of layers and models.

Attributes that are Parameters or Modules are its parameters and children. They are plain attributes, so reading one costs
no more than any other; members.py says how their names are kept. Hooks are in hooks.py, saving and loading in state.py.
"""

import itertools

import gt
from gt import Tensor, _gt, no_grad
from gt.nn import hooks
from gt.nn.hooks import Hooks
from gt.nn.members import BUFFER, MODULE, PARAMETER, Members, forget, typename
from gt.nn.parameter import Buffer, Parameter, is_lazy, zero_in_place
from gt.nn.state import State


class Parameters(list):
    """The result of parameters(): a list that also supports next(), like PyTorch's generator."""

    def __next__(self):
        self._iterator = iterator = getattr(self, '_iterator', None) or iter(self)
        return next(iterator)


def indented(text):
    """The text with every line but the first indented by two columns."""
    return text.replace('\n', '\n  ')


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

    training = True
    call_super_init = False
    _hooked = False  # whether a call must look for hooks, or is compiled
    _region = None  # the number of a compiled module
    _forward_hooks = _forward_pre_hooks = _backward_hooks = _backward_pre_hooks = Hooks()
    _forward_hooks_with_kwargs = _forward_hooks_always_called = _forward_pre_hooks_with_kwargs = Hooks()
    _is_full_backward_hook = None

    def __init__(self, *args, **kwargs):
        if kwargs and not self.call_super_init:
            raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'")
        if args and not self.call_super_init:
            raise TypeError(f'{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given')
        values = self.__dict__
        values['training'], values['_members'], values['_non_persistent_buffers_set'] = True, {}, set()
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *inputs):
        """Compute the output; subclasses implement it."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    _call_impl = _gt._Caller.__call__

    def _call_hooked(self, args, keywords):
        return hooks.call(self, args, keywords)

    def __setstate__(self, state):
        self.__dict__.update(state)
        if self._region is not None:
            self.__dict__['_region'] = next(hooks.regions)

    # ---- hooks ---------------------------------------------------------------------------------------------

    def _add_hook(self, name, hook, prepend, options=(), marks=()):
        self.__dict__['_hooked'] = True
        return self._own_hooks(name).add(hook, prepend, [self._own_hooks(option) for option in options], marks)

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """Call hook(module, args, output) after forward(). If it returns a value, that is the output.

        with_kwargs: call hook(module, args, kwargs, output). always_call: also if forward() raises an exception.
        """
        return self._add_hook('_forward_hooks', hook, prepend, (
            '_forward_hooks_with_kwargs', '_forward_hooks_always_called'), (with_kwargs, always_call))

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """Call hook(module, args) before forward(). If it returns a value, those are the arguments.

        with_kwargs: call hook(module, args, kwargs), which returns None or (args, kwargs).
        """
        return self._add_hook('_forward_pre_hooks', hook, prepend, ('_forward_pre_hooks_with_kwargs',), (with_kwargs,))

    def register_full_backward_hook(self, hook, prepend=False):
        """Call hook(module, grad_input, grad_output) when the gradients of the inputs are known. If it returns a tuple,
        those are the gradients of the inputs."""
        hooks._only_one_kind(self._is_full_backward_hook, True, 'on a single Module')
        self.__dict__['_is_full_backward_hook'] = True
        return self._add_hook('_backward_hooks', hook, prepend)

    def register_backward_hook(self, hook):
        """register_full_backward_hook, under its old name: grad_input are the gradients of the arguments."""
        hooks._only_one_kind(self._is_full_backward_hook, False, 'on a single Module')
        self.__dict__['_is_full_backward_hook'] = False
        return self._add_hook('_backward_hooks', hook, False)

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """Call hook(module, grad_output) when the gradients of the outputs are known. If it returns a tuple, those are
        the gradients of the outputs."""
        return self._add_hook('_backward_pre_hooks', hook, prepend)

    # ---- members -------------------------------------------------------------------------------------------

    _parameters = property(lambda self: self._of_kind(PARAMETER))
    _buffers = property(lambda self: self._of_kind(BUFFER), lambda self, new: self._replace_kind(BUFFER, new))
    _modules = property(lambda self: self._of_kind(MODULE), lambda self, new: self._replace_kind(MODULE, new))

    @_parameters.setter
    def _parameters(self, new):
        if hasattr(new, 'items'):
            self._replace_kind(PARAMETER, new)
        else:  # a list by hand, as in modules of the prototype
            self.__dict__['_by_hand'] = list(new)

    def _of_kind(self, kind):
        if '_members' not in self.__dict__:
            raise AttributeError(f"'{type(self).__name__}' object has no members before Module.__init__() call")
        return Members(self, kind)

    def _replace_kind(self, kind, new):
        members, new = self._of_kind(kind), dict(new)
        for name in list(members):
            del members[name]
        members.update(new)

    def __getattr__(self, name):
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name, value):
        if isinstance(value, (Parameter, Module, Buffer)):
            self._set_member(name, value)
            return
        kind = self.__dict__.get('_members', {}).get(name)
        if kind is None:
            object.__setattr__(self, name, value)
        elif value is None or (kind == BUFFER and isinstance(value, Tensor)):
            self.__dict__[name] = value if kind != BUFFER else hooks.registered(
                hooks._buffer_registration, self, name, value)
        else:
            what, expected = {PARAMETER: ('parameter', 'gt.nn.Parameter or None'),
                              MODULE: ('child module', 'gt.nn.Module or None'),
                              BUFFER: ('buffer', 'gt.nn.Buffer, gt.Tensor or None')}[kind]
            raise TypeError(f"cannot assign '{typename(value)}' as {what} '{name}' ({expected} expected)")

    def _set_member(self, name, value):
        """Assign a Parameter, a Module or a Buffer."""
        members = self.__dict__.get('_members')
        kind = PARAMETER if isinstance(value, Parameter) else MODULE if isinstance(value, Module) else BUFFER
        if members is None:
            raise AttributeError(f'cannot assign {"module" if kind == MODULE else kind + "s"} before Module.__init__() '
                                 'call')
        if kind == BUFFER and members.get(name) in (PARAMETER, MODULE):
            raise TypeError(f"cannot assign '{typename(value)}' as "
                            f"{'parameter' if members[name] == PARAMETER else 'child module'} '{name}' (gt.nn."
                            f"{'Parameter' if members[name] == PARAMETER else 'Module'} or None expected)")
        if members.get(name) != kind:  # it takes its place at the end, whatever the name was before
            forget(self, name)
        if kind == PARAMETER:
            self.register_parameter(name, value)
        elif kind == BUFFER:
            self.register_buffer(name, value, value.persistent)
        else:
            members[name] = MODULE
            self.__dict__[name] = hooks.registered(hooks._module_registration, self, name, value)

    def __delattr__(self, name):
        if name in self.__dict__.get('_members', ()):
            forget(self, name)
        else:
            object.__delattr__(self, name)

    def _check_name(self, name, kind):
        """Raise PyTorch's error unless a member of this kind may have the name."""
        if not isinstance(name, str):
            raise TypeError(f'{kind} name should be a string. Got {typename(name)}')
        if '_members' not in self.__dict__:
            raise AttributeError(f'cannot assign {kind} before Module.__init__() call')
        if '.' in name:
            raise KeyError(f'{kind} name can\'t contain "."' + (f', got: {name}' if kind == MODULE else ''))
        if name == '':
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if self.__dict__['_members'].get(name) != kind and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name, param):
        """Add a parameter, or None, under a name."""
        self._check_name(name, PARAMETER)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(f"cannot assign '{typename(param)}' object to parameter '{name}' "
                                '(gt.nn.Parameter or None required)')
            if not param.is_leaf:
                raise ValueError(f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                                 f"explicitly. To express '{name}' as a function of another Tensor, compute the value in "
                                 'the forward() method.')
            param = hooks.registered(hooks._parameter_registration, self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name, tensor, persistent=True):
        """Add a tensor that is not trained. It is part of the state if persistent."""
        self._check_name(name, BUFFER)
        if not (tensor is None or isinstance(tensor, Tensor)):
            raise TypeError(f"cannot assign '{typename(tensor)}' object to buffer '{name}' (gt Tensor or None required)")
        self._buffers[name] = hooks.registered(hooks._buffer_registration, self, name, tensor)
        if persistent:
            self.__dict__['_non_persistent_buffers_set'].discard(name)
        else:
            self.__dict__['_non_persistent_buffers_set'].add(name)

    def add_module(self, name, module):
        """Add a child under a name."""
        if not (module is None or isinstance(module, Module)):
            raise TypeError(f'{typename(module)} is not a Module subclass')
        self._check_name(name, MODULE)
        self._modules[name] = hooks.registered(hooks._module_registration, self, name, module)

    def register_module(self, name, module):
        """add_module, under another name."""
        self.add_module(name, module)

    def _own(self, kind):
        """(name, value) for each member of a kind that is not None."""
        values = self.__dict__
        return [(name, values[name]) for name, of in values['_members'].items()
                if of == kind and values[name] is not None]

    def named_children(self):
        """(name, module) for each child, once."""
        seen = set()
        for name, module in self._own(MODULE):
            if module not in seen:
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
        for name, module in self._own(MODULE):
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

    def _get_member(self, target):
        path, _, name = target.rpartition('.')
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f'{module._get_name()} has no attribute `{name}`')
        return module, name, getattr(module, name)

    def get_parameter(self, target):
        """The parameter at a path such as 'layers.0.weight'."""
        _, name, found = self._get_member(target)
        if not isinstance(found, Parameter):
            raise AttributeError(f'`{name}` is not an nn.Parameter')
        return found

    def get_buffer(self, target):
        """The buffer at a path such as 'layers.0.running_mean'."""
        module, name, found = self._get_member(target)
        if name not in module._buffers:
            raise AttributeError(f'`{name}` is not a buffer')
        return found

    def _by_hand_names(self):
        """Parameters that the user added to a list by hand, named by their attribute or else their position."""
        for k, tensor in enumerate(self.__dict__.get('_by_hand', ())):
            names = (name for name, value in self.__dict__.items() if value is tensor)
            yield next(names, f'_parameters.{k}'), tensor

    def _named_members(self, get_members_fn, prefix='', recurse=True, remove_duplicate=True):
        """(path, member) for what get_members_fn(module) yields for each module."""
        seen = set()
        modules = self.named_modules(None, prefix, remove_duplicate) if recurse else [(prefix, self)]
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
        for path, member in self._named_members(lambda module: module._own(PARAMETER), prefix, recurse, remove_duplicate):
            seen.add(member)
            yield path, member
        for path, member in self._named_members(lambda module: module._by_hand_names(), prefix, recurse):
            if member not in seen:
                yield path, member

    def parameters(self, recurse=True):
        """Each parameter, once."""
        if type(self).named_parameters is not Module.named_parameters:
            return Parameters(parameter for _, parameter in self.named_parameters(recurse=recurse))
        found, modules = {}, self._tree({}) if recurse else (self,)
        for module in modules:
            values = module.__dict__
            for name, kind in values['_members'].items():
                if kind == PARAMETER and values[name] is not None:
                    found[values[name]] = True
        for module in modules:
            found.update((tensor, True) for tensor in module.__dict__.get('_by_hand', ()))
        return Parameters(found)

    def _tree(self, found):
        """This module and all below it, once each, as the keys of a dictionary."""
        found[self] = True
        values = self.__dict__
        for name, kind in values['_members'].items():
            if kind == MODULE and values[name] is not None and values[name] not in found:
                values[name]._tree(found)
        return found

    def named_buffers(self, prefix='', recurse=True, remove_duplicate=True):
        """(path, tensor) for each buffer, once unless remove_duplicate is False."""
        return self._named_members(lambda module: module._own(BUFFER), prefix, recurse, remove_duplicate)

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
        for _, parameter in self._own(PARAMETER):
            if not is_lazy(parameter):
                gradient, needed = parameter.grad, parameter.requires_grad
                with no_grad():
                    value = fn(parameter.data)
                    parameter.data = value
                if needed != parameter.requires_grad:
                    parameter.requires_grad_(needed)
                if gradient is not None:
                    with no_grad():
                        parameter.grad = fn(gradient)
        for name, tensor in self._own(BUFFER):
            if not is_lazy(tensor):
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

    def _to_dtype(self, dtype):
        return self._apply(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)

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
            if isinstance(value, (_gt.dtype, Tensor)):
                dtype = value.dtype if isinstance(value, Tensor) else value
            elif isinstance(value, str):
                gt.device(value)  # an unknown one raises
        if dtype is None:
            return self
        if not gt.empty(0, dtype=dtype).is_floating_point() and not dtype.name.startswith('complex'):
            raise TypeError(f'nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}')
        return self._to_dtype(dtype)

    def to_empty(self, *, device, recurse=True):
        """Replace all values by undefined ones, without copying."""
        return self._apply(lambda tensor: gt.empty_like(tensor), recurse)

    def float(self):
        """Convert all floating point parameters and buffers to float32."""
        return self._to_dtype(_gt.float32)

    def double(self):
        """Convert all floating point parameters and buffers to float64."""
        return self._to_dtype(_gt.float64)

    def half(self):
        """Convert all floating point parameters and buffers to float16."""
        return self._to_dtype(_gt.float16)

    def bfloat16(self):
        """Convert all floating point parameters and buffers to bfloat16."""
        return self._to_dtype(_gt.bfloat16)

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
        if not kwargs.get('disable'):
            self.__dict__['_region'] = next(hooks.regions)
            self.__dict__['_hooked'] = True

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
        return [name for name in super().__dir__() if not name[0].isdigit()]
