"""The state of a module: state_dict() and load_state_dict(), their hooks, and what a subclass may override.

Each module saves and loads its own members (_save_to_state_dict, _load_from_state_dict); the functions here walk the
children.
"""

import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Mapping

from gt import Tensor, _gt, no_grad
from gt.nn import hooks, members
from gt.nn.parameter import Parameter, is_lazy

EXTRA_STATE = '_extra_state'


class _IncompatibleKeys(namedtuple('_IncompatibleKeys', ('missing_keys', 'unexpected_keys'))):
    """The result of load_state_dict()."""

    __slots__ = ()

    def __repr__(self):
        return super().__repr__() if self.missing_keys or self.unexpected_keys else '<All keys matched successfully>'

    __str__ = __repr__


def as_tensor(value):
    """A GT tensor from a tensor of GT, PyTorch or NumPy."""
    if isinstance(value, Tensor):
        return value
    return _gt.as_tensor(value.detach().cpu() if hasattr(value, 'detach') else value)


def _members_by_hand(module, prefix=''):
    """(path, tensor) for the parameters that were added to lists by hand and are no member of any module."""
    known = {tensor for part in module.modules() for _, tensor in members.persistent(part)}
    return [(prefix + name, tensor) for name, tensor in module.named_parameters() if tensor not in known]


def _note_unexpected(module, state_dict, prefix, known, unexpected_keys):
    """Add the paths below a prefix that are neither members of the module nor below its children."""
    for key in state_dict:
        if key.startswith(prefix) and key != prefix + EXTRA_STATE:
            first, *rest = key[len(prefix):].split('.', 1)
            if not (first in module._modules if rest else first in known):
                unexpected_keys.append(key)


def _load_member(module, name, tensor, key, value, assign, error_msgs):
    """Load one parameter or buffer of a module, or add to the errors."""
    if not hasattr(value, 'shape'):
        error_msgs.append(f'While copying the parameter named "{key}", expected gt.Tensor or Tensor-like object from '
                          f'checkpoint but received {type(value)}')
        return
    value = as_tensor(value)
    if tensor.ndim == 0 and value.shape == (1,):
        value = value[0]
    if value.shape != tensor.shape:
        error_msgs.append(f'size mismatch for {key}: copying a param with shape gt.Size({list(value.shape)}) from '
                          f'checkpoint, the shape in current model is gt.Size({list(tensor.shape)}).')
        return
    try:
        _take(module, name, tensor, value, assign)
    except Exception as error:
        error_msgs.append(f'While copying the parameter named "{key}", whose dimensions in the model are '
                          f'gt.Size({list(tensor.shape)}) and whose dimensions in the checkpoint are '
                          f'gt.Size({list(value.shape)}), an exception occurred : {error.args}.')


def _take(module, name, tensor, value, assign):
    """Copy the value into a member, or let it take the member's place."""
    if not assign:
        with no_grad():
            tensor._become(value.to(tensor.dtype))
    elif isinstance(tensor, Parameter):
        setattr(module, name, value.requires_grad_(tensor.requires_grad) if isinstance(value, Parameter) else
                Parameter(value, tensor.requires_grad))
    else:
        setattr(module, name, value)


def _load_tree(module, state_dict, metadata, prefix, assign, lists):
    """Load a module and its children, each from the part of the dictionary below it. lists: missing, unexpected, errors."""
    local_metadata = dict(metadata.get(prefix[:-1], {}))
    if assign:
        local_metadata['assign_to_params_buffers'] = assign
    module._load_from_state_dict(state_dict, prefix, local_metadata, True, *lists)
    for name, child in module._modules.items():
        if child is not None:
            below = f'{prefix}{name}.'
            part = {key: value for key, value in state_dict.items() if key.startswith(below)}
            _load_tree(child, part, metadata, below, assign, lists)
    for hook in tuple(module._load_state_dict_post_hooks.values()):
        if hook(module, _IncompatibleKeys(*lists[:2])) is not None:
            raise AssertionError('Hooks registered with ``register_load_state_dict_post_hook`` are not expected to '
                                 'return new values, if incompatible_keys need to be modified, it should be done '
                                 'inplace.')


def _load_by_hand(module, state_dict, missing, unexpected):
    for path, tensor in _members_by_hand(module):
        if path in state_dict:
            unexpected[:] = [key for key in unexpected if key != path]
            with no_grad():
                tensor._become(as_tensor(state_dict[path]).to(tensor.dtype))
        else:
            missing.append(path)


class State:
    """The part of Module that saves and loads."""

    _version = 1

    # ---- hooks ---------------------------------------------------------------------------------------------

    def register_state_dict_post_hook(self, hook):
        """Call hook(module, state_dict, prefix, local_metadata) after state_dict(); it may change the dictionary."""
        hook._from_public_api = True
        return hooks.add(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook):
        """The same; what the hook returns, if anything, takes the dictionary's place."""
        if getattr(hook, '_from_public_api', False):
            raise RuntimeError('Cannot register the same function as the state dict post hook that was previously '
                               'registered via register_state_dict_post_hook')
        return hooks.add(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook):
        """Call hook(module, prefix, keep_vars) before state_dict()."""
        return hooks.add(self._state_dict_pre_hooks, hook)

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        """Call hook([module,] state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        before this module loads its own state."""
        return hooks.add(self._load_state_dict_pre_hooks, hooks.WrappedHook(hook, self if with_module else None))

    def register_load_state_dict_pre_hook(self, hook):
        """Call hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        before this module loads its own state."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook):
        """Call hook(module, incompatible_keys) after load_state_dict(); it may change the lists of keys."""
        return hooks.add(self._load_state_dict_post_hooks, hook)

    # ---- saving --------------------------------------------------------------------------------------------

    def get_extra_state(self):
        """State that is no tensor; a subclass that has some overrides this and set_extra_state()."""
        raise RuntimeError(f'{type(self).__name__} has no extra state: override get_extra_state() and set_extra_state()')

    def set_extra_state(self, state):
        """Take what get_extra_state() gave."""
        raise RuntimeError(f'{type(self).__name__} has no extra state: override get_extra_state() and set_extra_state()')

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        """Add the state of this module alone."""
        for name, tensor in members.persistent(self):
            destination[prefix + name] = tensor if keep_vars or is_lazy(tensor) else tensor.detach()
        if type(self).get_extra_state is not State.get_extra_state:
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def state_dict(self, *args, destination=None, prefix='', keep_vars=False):
        """The values of all parameters and persistent buffers, by path, in an OrderedDict.

        prefix: put before every path. keep_vars: the parameters themselves instead of detached tensors.

        >>> gt.save(model.state_dict(), 'model.pt')
        """
        if args:
            warnings.warn('Positional args are being deprecated, use kwargs instead.', FutureWarning, stacklevel=2)
            destination, prefix, keep_vars = (*args, *(destination, prefix, keep_vars)[len(args):])
        first = destination is None
        if first:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {'version': self._version}
        if hasattr(destination, '_metadata'):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in tuple(self._state_dict_pre_hooks.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, child in self._modules.items():
            if child is not None:
                child.state_dict(destination=destination, prefix=f'{prefix}{name}.', keep_vars=keep_vars)
        if first:
            for path, tensor in _members_by_hand(self, prefix):
                destination[path] = tensor if keep_vars else tensor.detach()
        for hook in tuple(self._state_dict_hooks.values()):
            found = hook(self, destination, prefix, local_metadata)
            if found is not None:
                if getattr(hook, '_from_public_api', False):
                    raise RuntimeError('state_dict post-hook must return None')
                destination = found
        return destination

    # ---- loading -------------------------------------------------------------------------------------------

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        """Load the state of this module alone: add to the lists what is missing, unexpected or wrong."""
        for hook in tuple(self._load_state_dict_pre_hooks.values()):
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        own = members.persistent(self)
        for name, tensor in own:
            key = prefix + name
            if key in state_dict:
                _load_member(self, name, tensor, key, state_dict[key], local_metadata.get('assign_to_params_buffers', False),
                             error_msgs)
            elif strict:
                missing_keys.append(key)
        extra = prefix + EXTRA_STATE
        if type(self).set_extra_state is not State.set_extra_state:
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            _note_unexpected(self, state_dict, prefix, {name for name, _ in own}, unexpected_keys)

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Load values by path: tensors of GT, PyTorch or NumPy. Returns (missing_keys, unexpected_keys).

        strict: no path may be missing or unknown. assign: the values take the place of the members, with their dtypes,
        instead of being copied into them.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f'Expected state_dict to be dict-like, got {type(state_dict)}.')
        metadata = getattr(state_dict, '_metadata', None) or {}
        missing, unexpected, errors = [], [], []
        state_dict = OrderedDict(state_dict)
        state_dict._metadata = metadata
        _load_tree(self, state_dict, metadata, '', assign, (missing, unexpected, errors))
        _load_by_hand(self, state_dict, missing, unexpected)
        for title, keys in (('Unexpected', unexpected), ('Missing', missing)) if strict else ():
            if keys:
                errors.insert(0, f'{title} key(s) in state_dict: {", ".join(f"{chr(34)}{key}{chr(34)}" for key in keys)}. ')
        if errors:
            raise RuntimeError('\n\t'.join([f'Error(s) in loading state_dict for {type(self).__name__}:', *errors]))
        return _IncompatibleKeys(missing, unexpected)
