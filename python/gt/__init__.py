"""GT, a multiplexing tensor framework.

    import gt
    a = gt.randn(1000, 1000)
    print((a @ a).mean().item())        # a server starts by itself, in this process
    gt.connect('localhost:12345')       # or use a real one: gt server, gt worker

Tensors behave like PyTorch's. An operation only sends an instruction; reading an element waits. gt._gt is the C
extension. gt.client.tensor has the methods that are written in Python.
"""

from math import e, inf, nan, pi  # noqa: F401

from gt import _gt
from gt._gt import (  # noqa: F401
    Connection, GtConnectionError, GtError, GtIndexError, GtTimeoutError, GtTypeError, Size, Tensor, arange, as_tensor, bfloat16, cat,
    complex128, complex64, concat, concatenate, dtype, empty, empty_like, eye, float16, float32, float64, from_dlpack,
    from_numpy, full, full_like, get_default_dtype, gpu_workers, int16, int32, int64, int8, is_grad_enabled, linspace,
    ones, ones_like, rand, rand_like,
    randint, randint_like, randn, randn_like, stack, synchronize, tensor, uint8, where, zeros, zeros_like)
from gt.autograd.grad_mode import (  # noqa: F401
    enable_grad, inference_mode, is_inference, is_inference_mode_enabled, no_grad, set_grad_enabled)
from gt import linalg  # noqa: F401
from gt import _defaults, _formats, _names, _types  # noqa: F401
from gt._repr import set_printoptions  # noqa: F401
from gt.client import tensor as _tensor
from gt.amp import policies as _policies
from gt.client.client import Client, client_description, connect, disconnect  # noqa: F401
from gt.client.outputs import published_all as _published_all
from gt.client.registry import functions as _functions
from gt.client.device import device  # noqa: F401
from gt.client.random import manual_seed  # noqa: F401
from gt.client.tensor import is_tensor  # noqa: F401
from gt.config import ShardConfig, SignalConfig, get_config, load_config, register_config  # noqa: F401
from gt import signal  # noqa: F401
from gt.modifier import register_modifier  # noqa: F401
from gt import engines  # noqa: F401
from gt import _help, _packages

__version__ = '0.1.0'

# Errors that surface later name the line that issued the operation: the user's, not one of these files.
_gt._site_package(__file__.rpartition('__init__')[0])

_packages.install()

# Every method that PyTorch also offers as a function is one: gt.exp(t) is t.exp(). All of them take out= and input=.
_policies.install_methods(_functions)
globals().update(_published_all({name: getattr(Tensor, name) for name in _tensor.FUNCTIONS} | _functions))
globals().update(_published_all({name: globals()[name] for name in _tensor.EXTENSION_FUNCTIONS}))
globals().update(_types.TYPES, **_formats.NAMES, **_names.VALUES)

from gt.client.handover import attach, detach  # noqa: E402, F401

from gt import sparse as _sparse  # noqa: E402

globals().update(_sparse.FUNCTIONS)

# PyTorch's short names of dtypes, which hide Python's own in this namespace only.
globals().update(bool=_gt.bool, float=float32, double=float64, half=float16, long=int64, int=int32, short=int16, cfloat=complex64,
                 cdouble=complex128)


# Functions that PyTorch has both here and in nn.functional.
_LAYERS = frozenset((
    'adaptive_avg_pool1d', 'adaptive_max_pool1d', 'avg_pool1d', 'batch_norm', 'bilinear',
    'alpha_dropout', 'binary_cross_entropy_with_logits', 'conv1d', 'conv2d', 'conv3d', 'conv_transpose1d', 'conv_transpose2d',
    'conv_transpose3d', 'dropout', 'feature_alpha_dropout', 'group_norm', 'hardshrink', 'kl_div', 'layer_norm', 'max_pool1d',
    'max_pool2d', 'max_pool3d', 'pairwise_distance', 'pixel_shuffle', 'pixel_unshuffle', 'prelu', 'rms_norm', 'rrelu', 'rrelu_', 'threshold',
    'threshold_'))


# Modules that are loaded on first use, and functions that are found in one of them.
_MODULES = frozenset((
    '__config__', 'accelerator', 'amp', 'autograd', 'backends', 'compiler', 'cuda', 'debug', 'distributed', 'distributions', 'fft', 'func',
    'hub', 'jit', 'masked', 'mps', 'multiprocessing', 'nn', 'optim', 'overrides', 'profiler', 'random', 'serialization', 'sparse', 'special', 'testing', 'types', 'utils', 'version',
    'xpu'))
_ELSEWHERE = {
    **dict.fromkeys(_LAYERS, 'nn.functional'), **dict.fromkeys(('load', 'save'), 'serialization'),
    **dict.fromkeys(('clear_autocast_cache', 'get_autocast_dtype', 'is_autocast_cache_enabled', 'is_autocast_enabled',
                     'set_autocast_cache_enabled', 'set_autocast_dtype', 'set_autocast_enabled'), 'amp.autocast_mode'),
    **dict.fromkeys(('Event', 'Stream'), 'cuda'), 'GradScaler': 'amp', 'autocast': 'amp', 'compile': 'compiler', 'grad': 'autograd', 'is_anomaly_enabled': 'autograd', 'vmap': 'func'}


def __getattr__(name):
    """Load modules, and functions of modules such as nn.functional, on first use."""
    import importlib
    if name in _MODULES:
        return importlib.import_module('gt.' + name)
    if name in ('grid_sampler', 'grid_sampler_2d', 'grid_sampler_3d', 'native_batch_norm', 'native_layer_norm'):
        from gt.nn import native
        return _published_all({name: getattr(native, name)})[name]
    if name in _ELSEWHERE:
        return getattr(importlib.import_module('gt.' + _ELSEWHERE[name]), name)
    raise AttributeError(_names.missing("module 'gt'", name))


_help.describe_tensor()
__dir__ = _help.publish(__name__, '__version__', *_MODULES, *_ELSEWHERE, 'native_batch_norm', 'native_layer_norm')
