"""Module: the base class of layers and models.

A module has no separate registry. Attributes that are Parameters or Modules are its parameters and children, in the
order of their first assignment, so reading one costs no more than any attribute. Buffers are attributes whose names
register_buffer() has noted.
"""

from collections import OrderedDict

from gt import Tensor, _gt, no_grad
from gt.nn.parameter import Parameter


class Parameters(list):
    """The result of parameters(): a list that also supports next(), like PyTorch's generator."""

    def __next__(self):
        self._iterator = iterator = getattr(self, '_iterator', None) or iter(self)
        return next(iterator)


class IncompatibleKeys(tuple):
    """The result of load_state_dict(): (missing_keys, unexpected_keys)."""

    missing_keys = property(lambda self: self[0])
    unexpected_keys = property(lambda self: self[1])

    def __repr__(self):
        if not (self[0] or self[1]):
            return '<All keys matched successfully>'
        return f'_IncompatibleKeys(missing_keys={self[0]}, unexpected_keys={self[1]})'


class HookHandle:
    """The result of register_forward_hook(): remove() removes the hook."""

    def __init__(self, module, entry):
        self.module, self.entry = module, entry

    def remove(self):
        """Remove the hook."""
        self.module._hooks = [entry for entry in self.module._hooks if entry is not self.entry]

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.remove()


def as_tensor(value):
    """A GT tensor from a tensor of GT, PyTorch or NumPy."""
    if isinstance(value, Tensor):
        return value
    return _gt.as_tensor(value.detach().cpu() if hasattr(value, 'detach') else value)


def indented(text):
    """The text with every line but the first indented by two columns."""
    return text.replace('\n', '\n  ')


class Module:
    """The base of layers and models: assign parameters and other modules in __init__, write forward()."""

    training = True
    _parameters = ()  # parameters that the user adds by hand; attributes need not be here
    _persistent = {}  # names of buffers, and whether they are persistent
    _hooks = ()  # hooks of forward(): [whether before it, function, whether it takes keywords]

    def __init__(self):
        self._parameters = []

    def forward(self, *inputs):
        """Compute the output; subclasses implement it."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args, **keywords):
        if self._hooks:
            return self._call_with_hooks(args, keywords)
        return self.forward(*args, **keywords)

    def _call_with_hooks(self, args, keywords):
        for before, hook, takes_keywords in tuple(self._hooks):
            found = None if not before else hook(self, args, keywords) if takes_keywords else hook(self, args)
            if found is not None and takes_keywords:
                args, keywords = found
            elif found is not None:
                args = found if isinstance(found, tuple) else (found,)
        output = self.forward(*args, **keywords)
        for before, hook, takes_keywords in tuple(self._hooks):
            if not before:
                found = hook(self, args, keywords, output) if takes_keywords else hook(self, args, output)
                output = output if found is None else found
        return output

    def _register_hook(self, entry, prepend):
        self._hooks = [entry, *self._hooks] if prepend else [*self._hooks, entry]
        return HookHandle(self, entry)

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """Call hook(module, args, output) after forward(). If it returns a value, that is the output."""
        return self._register_hook([False, hook, with_kwargs], prepend)

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """Call hook(module, args) before forward(). If it returns a value, those are the arguments."""
        return self._register_hook([True, hook, with_kwargs], prepend)

    def __setattr__(self, name, value):
        if isinstance(self.__dict__.get(name), Parameter) and not (value is None or isinstance(value, Parameter)):
            raise TypeError(f"cannot assign '{type(value).__name__}' as parameter '{name}' "
                            '(gt.nn.Parameter or None expected)')
        object.__setattr__(self, name, value)

    # ---- members -------------------------------------------------------------------------------------------

    def register_parameter(self, name, param):
        """Add a parameter, or None, under a name."""
        self._check_name(name)
        if not (param is None or isinstance(param, Parameter)):
            raise TypeError(f"cannot assign '{type(param).__name__}' object to parameter '{name}' "
                            '(gt.nn.Parameter or None required)')
        setattr(self, name, param)

    def register_buffer(self, name, tensor, persistent=True):
        """Add a tensor that is not trained. It is part of the state if persistent."""
        if name not in self._persistent:
            self._check_name(name)
        if not (tensor is None or isinstance(tensor, Tensor)):
            raise TypeError(f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' "
                            '(gt.Tensor or None required)')
        self._persistent = {**self._persistent, name: persistent}
        setattr(self, name, tensor)

    def add_module(self, name, module):
        """Add a child under a name."""
        if not isinstance(self.__dict__.get(name), Module):
            self._check_name(name)
        if not (module is None or isinstance(module, Module)):
            raise TypeError(f'{type(module).__name__} is not a Module subclass')
        setattr(self, name, module)

    register_module = add_module

    def _check_name(self, name):
        if not isinstance(name, str) or name == '' or '.' in name:
            raise KeyError(f'a name must be a string that is not empty and has no ".", got {name!r}')
        if hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    def _own(self, kind):
        return [(name, value) for name, value in self.__dict__.items() if isinstance(value, kind)]

    def named_children(self):
        """(name, module) for each child, once."""
        seen = set()
        for name, module in self._own(Module):
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
        for name, module in self._own(Module):
            yield from module.named_modules(memo, f'{prefix}.{name}' if prefix else name, remove_duplicate)

    def modules(self):
        """This module and all below it."""
        return (module for _, module in self.named_modules())

    def get_submodule(self, target):
        """The module at a path such as 'layers.0.attention'."""
        module = self
        for name in target.split('.') if target else ():
            module = module.__dict__.get(name)
            if not isinstance(module, Module):
                raise AttributeError(f'{type(self).__name__} has no module at {target!r}')
        return module

    def get_parameter(self, target):
        """The parameter at a path such as 'layers.0.weight'."""
        path, _, name = target.rpartition('.')
        found = self.get_submodule(path).__dict__.get(name)
        if not isinstance(found, Parameter):
            raise AttributeError(f'{type(self).__name__} has no parameter at {target!r}')
        return found

    def get_buffer(self, target):
        """The buffer at a path such as 'layers.0.running_mean'."""
        path, _, name = target.rpartition('.')
        module = self.get_submodule(path)
        if name not in module._persistent:
            raise AttributeError(f'{type(self).__name__} has no buffer at {target!r}')
        return getattr(module, name)

    def _listed(self):
        """Parameters that the user added by hand, named by their attribute or else their position."""
        for k, tensor in enumerate(self._parameters):
            names = (name for name, value in self.__dict__.items() if value is tensor)
            yield next(names, f'_parameters.{k}'), tensor

    def named_parameters(self, prefix='', recurse=True, remove_duplicate=True):
        """(path, parameter) for each parameter, once."""
        modules = list(self.named_modules(None, prefix, remove_duplicate)) if recurse else [(prefix, self)]
        seen = set()
        for path, module in modules:
            for name, parameter in module._own(Parameter):
                if not (remove_duplicate and parameter in seen):
                    seen.add(parameter)
                    yield f'{path}.{name}' if path else name, parameter
        for path, module in modules:
            for name, tensor in module._listed():
                if tensor not in seen:
                    seen.add(tensor)
                    yield f'{path}.{name}' if path else name, tensor

    def parameters(self, recurse=True):
        """Each parameter, once."""
        return Parameters(parameter for _, parameter in self.named_parameters('', recurse))

    def named_buffers(self, prefix='', recurse=True, remove_duplicate=True):
        """(path, tensor) for each buffer, once."""
        seen = set()
        for path, module in self.named_modules(None, prefix, remove_duplicate) if recurse else [(prefix, self)]:
            for name in module._persistent:
                tensor = module.__dict__.get(name)
                if tensor is not None and not (remove_duplicate and tensor in seen):
                    seen.add(tensor)
                    yield f'{path}.{name}' if path else name, tensor

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

    def train(self, mode=True):
        """Set training mode, which dropout and batch normalisation read, in all modules."""
        for module in self.modules():
            module.training = mode
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
                parameter.grad = _gt.zeros_like(parameter)

    def requires_grad_(self, requires_grad=True):
        """Train all parameters, or none."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def type(self, dst_type):
        """Convert all floating point parameters and buffers."""
        for tensor in (*self.parameters(), *self.buffers()):
            if tensor.is_floating_point():
                gradient = tensor.grad
                tensor.data = tensor.data.to(dst_type)
                if gradient is not None:
                    tensor.grad = gradient.to(dst_type)
        return self

    def to(self, *args, **keywords):
        """Convert to a dtype, or another tensor's; a device is accepted and ignored."""
        for value in (*args, *keywords.values()):
            if isinstance(value, (_gt.dtype, Tensor)):
                return self.type(value.dtype if isinstance(value, Tensor) else value)
        return self

    def float(self):
        """type(gt.float32)."""
        return self.type(_gt.float32)

    def double(self):
        """type(gt.float64)."""
        return self.type(_gt.float64)

    def half(self):
        """type(gt.float16)."""
        return self.type(_gt.float16)

    def bfloat16(self):
        """type(gt.bfloat16)."""
        return self.type(_gt.bfloat16)

    def cpu(self):
        """The module itself, as to(device) is."""
        return self

    def cuda(self, device=None):
        """The module itself, as to(device) is."""
        return self

    # ---- state ---------------------------------------------------------------------------------------------

    def _state(self, prefix=''):
        """Every parameter and persistent buffer under each of its paths, in PyTorch's order."""
        state = OrderedDict()
        for path, module in self.named_modules(None, prefix.rstrip('.'), False):
            dot = f'{path}.' if path else ''
            state.update((dot + name, parameter) for name, parameter in module._own(Parameter))
            state.update((dot + name, module.__dict__[name]) for name, kept in module._persistent.items()
                         if kept and module.__dict__.get(name) is not None)
        known = set(state.values())
        state.update((name, tensor) for name, tensor in self.named_parameters(prefix.rstrip('.'))
                     if tensor not in known)
        return state

    def state_dict(self, *, prefix='', keep_vars=False):
        """The values of all parameters and persistent buffers, by path."""
        state = self._state(prefix)
        return state if keep_vars else OrderedDict((name, tensor.detach()) for name, tensor in state.items())

    @no_grad()
    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Load values by path: tensors of GT, PyTorch or NumPy. strict: no path may be missing or unknown; assign: take
        their dtypes too."""
        if not hasattr(state_dict, 'keys'):
            raise TypeError(f'Expected state_dict to be dict-like, got {type(state_dict)}.')
        own, errors = self._state(), []
        missing = [name for name in own if name not in state_dict]
        unexpected = [name for name in state_dict if name not in own]
        if strict and missing:
            errors.append('Missing key(s) in state_dict: {}. '.format(', '.join(f'"{name}"' for name in missing)))
        if strict and unexpected:
            errors.append(
                'Unexpected key(s) in state_dict: {}. '.format(', '.join(f'"{name}"' for name in unexpected)))
        for name, tensor in own.items():
            if name not in state_dict:
                continue
            value = as_tensor(state_dict[name])
            if value.shape == tensor.shape and assign:
                tensor.data = value
            elif value.shape == tensor.shape:
                tensor._become(value.to(tensor.dtype))
            else:
                errors.append(f'size mismatch for {name}: copying a param with shape {value.shape} from '
                              f'checkpoint, the shape in current model is {tensor.shape}.')
        if errors:
            title = f'Error(s) in loading state_dict for {type(self).__name__}:'
            raise RuntimeError('\n\t'.join([title, *errors]))
        return IncompatibleKeys((missing, unexpected))

    # ---- text ----------------------------------------------------------------------------------------------

    def extra_repr(self):
        """What repr() shows of the module itself."""
        return ''

    def __repr__(self):
        extra = self.extra_repr()
        lines = extra.split('\n') if extra else []
        children = [f'({name}): {indented(repr(module))}' for name, module in self._own(Module)]
        if not children and len(lines) <= 1:
            return f'{type(self).__name__}({extra})'
        return f'{type(self).__name__}(\n  ' + '\n  '.join(lines + children) + '\n)'
