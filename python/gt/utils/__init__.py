"""Tools beside the tensors, as in torch.utils: data, checkpoint, tensorboard, dlpack."""

from gt import _help

_MODULES = ('checkpoint', 'data', 'dlpack', 'tensorboard')


def __getattr__(name):
    """Load gt.utils.data and the others on first use."""
    if name in _MODULES:
        import importlib
        return importlib.import_module('gt.utils.' + name)
    raise AttributeError(f"module 'gt.utils' has no attribute '{name}'")


__dir__ = _help.publish(__name__, *_MODULES)
