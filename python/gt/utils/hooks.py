"""What registering a hook returns, as in torch.utils.hooks; the hooks of modules are in gt.nn.hooks."""

import warnings

from gt import _help
from gt.nn.hooks import BackwardHook, RemovableHandle  # noqa: F401


def unserializable_hook(f):
    """Mark a hook that must not be saved with its tensor; returns it. Files of GT never hold hooks.

        @gt.utils.hooks.unserializable_hook
        def hook(grad):
            return grad * 2
    """
    f.__torch_unserializable__ = True
    return f


def warn_if_has_hooks(tensor) -> None:
    """Warn if a tensor has hooks that are not marked by unserializable_hook: they are not saved with it."""
    for hook in (getattr(tensor, '_backward_hooks', None) or {}).values():
        if not hasattr(hook, '__torch_unserializable__'):
            warnings.warn(f'backward hook {hook!r} on tensor will not be serialized. If this is expected, you can decorate the '
                          'function with @gt.utils.hooks.unserializable_hook to suppress this warning', stacklevel=2)


__dir__ = _help.publish(__name__, 'BackwardHook', 'RemovableHandle')
