"""The state of a module: state_dict() and load_state_dict(), their hooks, and what a subclass may override.

Each module saves and loads its own members (_save_to_state_dict, _load_from_state_dict); the functions here walk the
children.
"""

from collections import OrderedDict
from collections.abc import Mapping

from gt import Tensor, _gt, no_grad
from gt.nn.hooks import Hooks, WithoutModule
from gt.nn.members import BUFFER, PARAMETER
from gt.nn.parameter import Parameter, is_lazy

EXTRA_STATE = '_extra_state'


class IncompatibleKeys(tuple):
    """The result of load_state_dict(): (missing_keys, unexpected_keys)."""

    missing_keys = property(lambda self: self[0])
    unexpected_keys = property(lambda self: self[1])

    def __repr__(self):
        if not (self[0] or self[1]):
            return '<All keys matched successfully>'
        return f'_IncompatibleKeys(missing_keys={self[0]}, unexpected_keys={self[1]})'

    __str__ = __repr__


def as_tensor(value):
    """A GT tensor from a tensor of GT, PyTorch or NumPy."""
    if isinstance(value, Tensor):
        return value
    return _gt.as_tensor(value.detach().cpu() if hasattr(value, 'detach') else value)


class State:
    """The part of Module that saves and loads."""

    _version = 1
    _state_dict_hooks = _state_dict_pre_hooks = Hooks()
    _load_state_dict_pre_hooks = _load_state_dict_post_hooks = Hooks()

    # ---- hooks ---------------------------------------------------------------------------------------------

    def _own_hooks(self, name):
        """The hooks of this instance under a name; the class has empty ones for all without any."""
        hooks = self.__dict__.get(name)
        if hooks is None:
            hooks = self.__dict__[name] = Hooks()
        return hooks

    def register_state_dict_post_hook(self, hook):
        """Call hook(module, state_dict, prefix, local_metadata) after state_dict(); it may change the dictionary."""
        hook._from_public_api = True
        return self._own_hooks('_state_dict_hooks').add(hook)

    def _register_state_dict_hook(self, hook):
        """The same; what the hook returns, if anything, takes the dictionary's place."""
        if getattr(hook, '_from_public_api', False):
            raise RuntimeError('Cannot register the same function as the state dict post hook that was previously '
                               'registered via register_state_dict_post_hook')
        return self._own_hooks('_state_dict_hooks').add(hook)

    def register_state_dict_pre_hook(self, hook):
        """Call hook(module, prefix, keep_vars) before state_dict()."""
        return self._own_hooks('_state_dict_pre_hooks').add(hook)

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        """Call hook([module,] state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        before this module loads its own state."""
        return self._own_hooks('_load_state_dict_pre_hooks').add(hook if with_module else WithoutModule(hook))

    def register_load_state_dict_pre_hook(self, hook):
        """Call hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        before this module loads its own state."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook):
        """Call hook(module, incompatible_keys) after load_state_dict(); it may change the lists of keys."""
        return self._own_hooks('_load_state_dict_post_hooks').add(hook)

    # ---- saving --------------------------------------------------------------------------------------------

    def get_extra_state(self):
        """State that is no tensor; a subclass that has some overrides this and set_extra_state()."""
        raise RuntimeError(f'{type(self).__name__} has no extra state')

    def set_extra_state(self, state):
        """Take what get_extra_state() gave."""
        raise RuntimeError(f'{type(self).__name__} has no extra state')

    def _keeps_extra_state(self):
        return type(self).get_extra_state is not State.get_extra_state

    def _persistent_members(self):
        """(name, tensor) for each parameter, then for each persistent buffer, of this module alone."""
        values, members = self.__dict__, self.__dict__['_members']
        passing = self.__dict__['_non_persistent_buffers_set']
        own = [name for name, kind in members.items() if kind == PARAMETER]
        own += [name for name, kind in members.items() if kind == BUFFER and name not in passing]
        return [(name, values[name]) for name in own if values[name] is not None]

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        """Add the state of this module alone."""
        for name, tensor in self._persistent_members():
            destination[prefix + name] = tensor if keep_vars or is_lazy(tensor) else tensor.detach()
        if self._keeps_extra_state():
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def state_dict(self, *args, destination=None, prefix='', keep_vars=False):
        """The values of all parameters and persistent buffers, by path, in an OrderedDict.

        prefix: put before every path. keep_vars: the parameters themselves instead of detached tensors.

        >>> gt.save(model.state_dict(), 'model.pt')
        """
        if args:  # PyTorch's old order of arguments
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
            self._save_by_hand(destination, prefix, keep_vars)
        for hook in tuple(self._state_dict_hooks.values()):
            found = hook(self, destination, prefix, local_metadata)
            if found is not None:
                if getattr(hook, '_from_public_api', False):
                    raise RuntimeError('state_dict post-hook must return None')
                destination = found
        return destination

    def _by_hand_members(self, prefix):
        """(path, tensor) for the parameters that were added to lists by hand and are no member of any module."""
        members = {tensor for module in self.modules() for _, tensor in module._persistent_members()}
        return [(prefix + name, tensor) for name, tensor in self.named_parameters() if tensor not in members]

    def _save_by_hand(self, destination, prefix, keep_vars):
        for path, tensor in self._by_hand_members(prefix):
            destination[path] = tensor if keep_vars else tensor.detach()

    # ---- loading -------------------------------------------------------------------------------------------

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        """Load the state of this module alone: add to the lists what is missing, unexpected or wrong."""
        for hook in tuple(self._load_state_dict_pre_hooks.values()):
            hook(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        own = self._persistent_members()
        for name, tensor in own:
            key = prefix + name
            if key in state_dict:
                self._load_member(name, tensor, key, state_dict[key], local_metadata, error_msgs)
            elif strict:
                missing_keys.append(key)
        extra = prefix + EXTRA_STATE
        if self._keeps_extra_state():
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            self._note_unexpected(state_dict, prefix, {name for name, _ in own}, unexpected_keys)

    def _note_unexpected(self, state_dict, prefix, known, unexpected_keys):
        children = self._modules
        for key in state_dict:
            if key.startswith(prefix) and key != prefix + EXTRA_STATE:
                first, *rest = key[len(prefix):].split('.', 1)
                if not (first in children if rest else first in known):
                    unexpected_keys.append(key)

    def _load_member(self, name, tensor, key, value, local_metadata, error_msgs):
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
            self._take(name, tensor, value, local_metadata.get('assign_to_params_buffers', False))
        except Exception as error:
            error_msgs.append(f'While copying the parameter named "{key}", whose dimensions in the model are '
                              f'gt.Size({list(tensor.shape)}) and whose dimensions in the checkpoint are '
                              f'gt.Size({list(value.shape)}), an exception occurred : {error.args}.')

    def _take(self, name, tensor, value, assign):
        """Copy the value into a member, or let it take the member's place."""
        if not assign:
            with no_grad():
                tensor._become(value.to(tensor.dtype))
        elif isinstance(tensor, Parameter):
            setattr(self, name, value if isinstance(value, Parameter) else Parameter(value, tensor.requires_grad))
        else:
            setattr(self, name, value)

    def _load_tree(self, state_dict, metadata, prefix, assign, missing, unexpected, errors):
        """Load this module and its children, each from the part of the dictionary below it."""
        local_metadata = dict(metadata.get(prefix[:-1], {}))
        if assign:
            local_metadata['assign_to_params_buffers'] = assign
        self._load_from_state_dict(state_dict, prefix, local_metadata, True, missing, unexpected, errors)
        for name, child in self._modules.items():
            if child is not None:
                below = f'{prefix}{name}.'
                part = {key: value for key, value in state_dict.items() if key.startswith(below)}
                child._load_tree(part, metadata, below, assign, missing, unexpected, errors)
        for hook in tuple(self._load_state_dict_post_hooks.values()):
            if hook(self, IncompatibleKeys((missing, unexpected))) is not None:
                raise AssertionError('Hooks registered with ``register_load_state_dict_post_hook`` are not expected to '
                                     'return new values, if incompatible_keys need to be modified, it should be done '
                                     'inplace.')

    def _load_by_hand(self, state_dict, missing, unexpected):
        for path, tensor in self._by_hand_members(''):
            if path in state_dict:
                unexpected[:] = [key for key in unexpected if key != path]
                with no_grad():
                    tensor._become(as_tensor(state_dict[path]).to(tensor.dtype))
            else:
                missing.append(path)

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
        self._load_tree(state_dict, metadata, '', assign, missing, unexpected, errors)
        self._load_by_hand(state_dict, missing, unexpected)
        for title, keys in (('Unexpected', unexpected), ('Missing', missing)) if strict else ():
            if keys:
                errors.insert(0, f'{title} key(s) in state_dict: {", ".join(f"{chr(34)}{key}{chr(34)}" for key in keys)}. ')
        if errors:
            raise RuntimeError('\n\t'.join([f'Error(s) in loading state_dict for {type(self).__name__}:', *errors]))
        return IncompatibleKeys((missing, unexpected))
