"""Tools beside the tensors, as in torch.utils: data, checkpoint, tensorboard, dlpack."""

_MODULES = ('checkpoint', 'data', 'dlpack', 'tensorboard')


def __getattr__(name):
    """Load gt.utils.data and the others on first use."""
    if name in _MODULES:
        import importlib
        return importlib.import_module('gt.utils.' + name)
    raise AttributeError(f"module 'gt.utils' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), *_MODULES})
