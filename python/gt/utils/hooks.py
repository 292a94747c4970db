"""What registering a hook returns, as in torch.utils.hooks; the hooks of modules are in gt.nn.hooks."""

from gt import _help
from gt.nn.hooks import BackwardHook, RemovableHandle  # noqa: F401


def unserializable_hook(f):
    """Mark a hook f as one that a file does not keep. GT writes no hooks, so this has no other effect."""
    f.__gt_unserializable__ = True
    return f


__dir__ = _help.publish(__name__, 'BackwardHook', 'RemovableHandle')
