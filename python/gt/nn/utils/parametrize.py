"""Parametrisations: a parameter or buffer of a module becomes a function of others.

register_parametrization() gives the module a class of its own, in which the parameter is a property that computes the
value from module.parametrizations[name].original.
"""

import collections
import contextlib
import copy

import gt
from gt import _help
from gt import Tensor
from gt.nn.containers import ModuleDict, ModuleList
from gt.nn.module import Module
from gt.nn.parameter import Parameter

_cache = {}
_cache_depth = [0]


@contextlib.contextmanager
def cached():
    """In the `with` block, compute each parametrised value once and keep it."""
    _cache_depth[0] += 1
    try:
        yield
    finally:
        _cache_depth[0] -= 1
        if not _cache_depth[0]:
            _cache.clear()


def _register(module, name, tensor):
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _refuse(title, before, after):
    raise ValueError(f'{title}\noriginal: {before}\nparametrized: {after}')


class ParametrizationList(ModuleList):
    """The parametrisations of one tensor, and the original tensors (`original`, or `original0`, `original1`, ...)."""

    def __init__(self, modules, original, unsafe=False):
        if not modules:
            raise ValueError('ParametrizationList requires one or more modules.')
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with gt.no_grad():
            new = self._inverted(original)
        if not isinstance(new, (Tensor, collections.abc.Sequence)):
            raise ValueError("'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got "
                             f'{type(new).__name__}')
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            if new.dtype != dtype:
                _refuse('When `right_inverse` outputs one tensor, it may not change the dtype.', dtype, new.dtype)
            with gt.no_grad():
                original.data = new.detach()
            _register(self, 'original', original)
        else:
            for k, tensor in enumerate(new):
                if not isinstance(tensor, Tensor):
                    raise ValueError("'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got "
                                     f'element {k} of the sequence with type {type(tensor).__name__}.')
                if isinstance(original, Parameter):
                    tensor = Parameter(tensor.detach(), original.requires_grad)
                _register(self, f'original{k}', tensor)
        if not unsafe:
            value = self()
            if not isinstance(value, Tensor):
                raise ValueError(f'A parametrization must return a tensor. Got {type(value).__name__}.')
            if value.dtype != dtype:
                _refuse('Registering a parametrization may not change the dtype of the tensor, unless the `unsafe` flag is '
                        'enabled.', dtype, value.dtype)
            if value.shape != shape:
                _refuse('Registering a parametrization may not change the shape of the tensor, unless the `unsafe` flag is '
                        'enabled.', shape, value.shape)

    def _inverted(self, value):
        for module in reversed(list(self)):
            if hasattr(module, 'right_inverse'):
                try:
                    value = module.right_inverse(value)
                except NotImplementedError:
                    pass
        return value

    def right_inverse(self, value):
        """Set the originals so that the parametrised tensor is `value`."""
        with gt.no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, 'right_inverse'):
                    raise RuntimeError(f'parametrization {type(module).__name__} does not implement right_inverse.')
                value = module.right_inverse(value)
            if self.is_tensor:
                if not isinstance(value, Tensor):
                    raise ValueError(f'`right_inverse` should return a tensor. Got {type(value).__name__}')
                self.original.data = value.detach()
                return
            if len(value) != self.ntensors:
                raise ValueError(f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a "
                                 f'sequence of length {len(value)}.')
            for k, tensor in enumerate(value):
                getattr(self, f'original{k}').data = tensor.detach()

    def forward(self):
        """The parametrised tensor."""
        if self.is_tensor:
            value = self[0](self.original)
        else:
            value = self[0](*(getattr(self, f'original{k}') for k in range(self.ntensors)))
        for k in range(1, len(self)):
            value = self[k](value)
        return value


def _inject_new_class(module):
    """Give a module a class of its own."""
    cls = module.__class__

    def getstate(self):
        raise RuntimeError('Serialization of parametrized modules is only supported through state_dict(). See:\n'
                           'https://pytorch.org/tutorials/beginner/saving_loading_models.html'
                           '#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training')

    def deepcopy(self, memo):
        known = memo.get(id(self))
        if known is not None:
            return known
        replica = memo[id(self)] = self.__new__(self.__class__)
        replica.__dict__.update(copy.deepcopy(Module.__getstate__(self), memo))
        return replica
    methods = {'__getstate__': getstate}
    if not hasattr(cls, '__deepcopy__'):
        methods['__deepcopy__'] = deepcopy
    module.__class__ = type(f'Parametrized{cls.__name__}', (cls,), methods)


def _inject_property(module, tensor_name):
    def value(self):
        if not _cache_depth[0]:
            return self.parametrizations[tensor_name]()
        key = id(self), tensor_name
        found = _cache.get(key)
        if found is None:
            found = _cache[key] = self.parametrizations[tensor_name]()
        return found

    def assign(self, new):
        self.parametrizations[tensor_name].right_inverse(new)
    setattr(module.__class__, tensor_name, property(value, assign))


def is_parametrized(module, tensor_name=None):
    """Whether a tensor of a module, or any, is parametrised."""
    parametrizations = getattr(module, 'parametrizations', None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """Make a parameter or buffer of a module a function of the original one; returns the module.

    parametrization: a module whose forward() gives the value; its right_inverse(), if it has one, gives the original.
    unsafe: it may change shape or dtype.

    >>> register_parametrization(nn.Linear(5, 5), 'weight', Symmetric())
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            value = getattr(module, tensor_name)
            new = parametrization(value)
            if not isinstance(new, Tensor):
                raise ValueError(f'A parametrization must return a tensor. Got {type(new).__name__}.')
            if new.dtype != value.dtype:
                _refuse('Registering a parametrization may not change the dtype of the tensor, unless the `unsafe` flag is '
                        'enabled.', value.dtype, new.dtype)
            if new.shape != value.shape:
                _refuse('Registering a parametrization may not change the shape of the tensor, unless the `unsafe` flag is '
                        'enabled.', value.shape, new.shape)
        module.parametrizations[tensor_name].append(parametrization)
        module.parametrizations[tensor_name].unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        parametrizations = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_new_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = parametrizations
    else:
        raise ValueError(f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
                         f"'{tensor_name}'")
    return module


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    """Make a tensor an ordinary one again: with its parametrised value, or with the original."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f'Module {module} does not have a parametrization on {tensor_name}')
    parametrizations = module.parametrizations[tensor_name]
    if leave_parametrized:
        with gt.no_grad():
            value = getattr(module, tensor_name)
        if parametrizations.is_tensor:
            original = parametrizations.original
            original.data = value.detach()
        elif any(isinstance(parameter, Parameter) for parameter in parametrizations.parameters(recurse=False)):
            trained = any(parameter.requires_grad for parameter in parametrizations.parameters(recurse=False))
            original = Parameter(value.detach(), trained)
        else:
            original = value.detach()
    elif parametrizations.is_tensor:
        original = parametrizations.original
    else:
        raise ValueError('Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms '
                         'of a sequence of tensors.')
    delattr(module.__class__, tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, 'parametrizations')
        module.__class__ = module.__class__.__bases__[0]
    return module


def type_before_parametrizations(module):
    """The class of a module, without that which parametrisation gave it."""
    return module.__class__.__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module, to_module, tensor_name=None):
    """Parametrise another module in the same way, with the same originals."""
    if not is_parametrized(from_module):
        return to_module
    if not isinstance(from_module.parametrizations, ModuleDict):
        raise AssertionError('from_module.parametrizations must be a ModuleDict')
    names = from_module.parametrizations if tensor_name is None else [tensor_name]
    for name in names:
        if not hasattr(to_module, name):
            setattr(to_module, name, copy.deepcopy(getattr(from_module, name)))
        for parametrization in from_module.parametrizations[name]:
            register_parametrization(to_module, name, parametrization)
        if not hasattr(to_module.parametrizations[name], 'original'):
            for k in range(from_module.parametrizations[name].ntensors):
                setattr(to_module.parametrizations[name], f'original{k}',
                        getattr(from_module.parametrizations[name], f'original{k}'))
        else:
            to_module.parametrizations[name].original = from_module.parametrizations[name].original
    return to_module

__dir__ = _help.publish(__name__)
