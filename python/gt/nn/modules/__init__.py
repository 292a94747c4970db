"""PyTorch's paths to the modules: gt.nn.modules.batchnorm._BatchNorm and the like."""

import importlib
import sys
import types

from gt.nn.modules import utils  # noqa: F401

# The files in which gt.nn keeps the classes of each of PyTorch's, and names that differ.
_FILES = {
    'activation': ('activations', 'multihead'), 'adaptive': ('adaptive',), 'batchnorm': ('norm', 'lazy'),
    'channelshuffle': ('layers',), 'container': ('containers',), 'conv': ('conv', 'lazy'), 'distance': ('distances', 'layers'),
    'dropout': ('layers',), 'flatten': ('layers',), 'fold': ('pooling',), 'instancenorm': ('norm', 'lazy'), 'lazy': ('lazy',),
    'linear': ('layers', 'lazy'), 'loss': ('losses', 'distances', 'margins', 'ctc'), 'module': ('module', 'hooks', 'state'),
    'normalization': ('norm',), 'padding': ('padding',), 'pixelshuffle': ('layers',), 'pooling': ('pooling',),
    'rnn': ('recurrent',), 'sparse': ('embedding',), 'transformer': ('transformer',), 'upsampling': ('pooling',)}
_NAMES = {'conv': {'_ConvNd': '_Conv', '_ConvTransposeNd': '_Transposed'},
          'pooling': {'_MaxPoolNd': '_MaxPool', '_AvgPoolNd': '_AvgPool'}}


def _paths():
    """Make the modules, so that both `import` and attributes find them."""
    for name, files in _FILES.items():
        module = types.ModuleType(f'{__name__}.{name}', f'PyTorch\'s path to {", ".join(files)} of gt.nn.')
        for file in reversed(files):
            found = vars(importlib.import_module(f'gt.nn.{file}'))
            vars(module).update({key: value for key, value in found.items() if not key.startswith('__')})
            vars(module).update({new: found[old] for new, old in _NAMES.get(name, {}).items() if old in found})
        sys.modules[module.__name__] = globals()[name] = module


_paths()


def __getattr__(name):
    """Classes of gt.nn, under PyTorch's path."""
    from gt import nn
    try:
        return nn.__dict__[name]
    except KeyError:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}') from None
