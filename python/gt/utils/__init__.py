"""Tools beside the tensors, as in torch.utils: data, checkpoint, hooks, tensorboard, dlpack."""

from gt import _help

_MODULES = ('checkpoint', 'data', 'dlpack', 'hooks', 'tensorboard')


def __getattr__(name):
    """Load gt.utils.data and the others on first use."""
    if name in _MODULES:
        import importlib
        return importlib.import_module('gt.utils.' + name)
    raise AttributeError(f"module 'gt.utils' has no attribute '{name}'")


def __dir__():
    """The public names; tensorboard only where that package is."""
    from importlib.util import find_spec
    return [name for name in _public() if name != 'tensorboard' or find_spec('tensorboard')]


_public = _help.publish(__name__, *_MODULES)
