"""GT, a multiplexing tensor framework.

    import gt
    a = gt.randn(1000, 1000)
    print((a @ a).mean().item())        # a server starts by itself, in this process
    gt.connect('localhost:12345')       # or use a real one: gt server, gt worker

Tensors behave like PyTorch's. An operation only sends an instruction; reading an element waits. gt._gt is the C
extension. gt.client.tensor has the methods that are written in Python.
"""

from gt import _gt
from gt._gt import (  # noqa: F401
    Connection, GtConnectionError, GtError, GtTimeoutError, GtTypeError, Tensor, arange, as_tensor, bfloat16, cat,
    complex128, complex64, concat, concatenate, dtype, empty, empty_like, eye, float16, float32, float64, from_dlpack, from_numpy, full,
    full_like, gpu_workers, grad, int16, int32, int64, int8, is_grad_enabled, linspace, manual_seed, ones, ones_like, rand, rand_like,
    randint, randint_like, randn, randn_like, stack, synchronize, tensor, uint8, where, zeros, zeros_like)
from gt.autograd import enable_grad, inference_mode, no_grad, set_grad_enabled  # noqa: F401
from gt import linalg  # noqa: F401
from gt.client import tensor as _tensor
from gt.client.client import Client, client_description, connect, disconnect  # noqa: F401
from gt.client.registry import functions as _functions
from gt.client.device import device  # noqa: F401
from gt.client.tensor import is_tensor  # noqa: F401
from gt.config import ShardConfig, SignalConfig, get_config, load_config, register_config  # noqa: F401
from gt import signal  # noqa: F401

__version__ = '0.1.0'

# Errors that surface later name the line that issued the operation: the user's, not one of these files.
_gt._site_package(__file__.rpartition('__init__')[0])

# Every method that PyTorch also offers as a function is one: gt.exp(t) is t.exp().
globals().update({name: getattr(Tensor, name) for name in _tensor.FUNCTIONS}, **_functions)

from gt import sparse as _sparse  # noqa: E402

globals().update(_sparse.FUNCTIONS)

# PyTorch's short names of dtypes, which hide Python's own in this namespace only.
Size = tuple
globals().update(bool=_gt.bool, float=float32, double=float64, half=float16, long=int64, int=int32, short=int16, cfloat=complex64,
                 cdouble=complex128)


# Functions that PyTorch has both here and in nn.functional.
_LAYERS = frozenset((
    'adaptive_avg_pool1d', 'adaptive_max_pool1d', 'avg_pool1d', 'batch_norm', 'bilinear',
    'binary_cross_entropy_with_logits', 'conv1d', 'conv2d', 'conv3d', 'conv_transpose1d', 'conv_transpose2d',
    'conv_transpose3d', 'dropout', 'group_norm', 'kl_div', 'layer_norm', 'max_pool1d', 'max_pool2d',
    'max_pool3d', 'prelu', 'rms_norm'))


def __getattr__(name):
    """Load gt.nn, gt.optim, gt.debug, gt.cuda, gt.fft, gt.sparse, gt.save, gt.load and functions of nn.functional on first use."""
    if name in ('nn', 'optim', 'debug', 'cuda', 'fft', 'sparse'):
        import importlib
        return importlib.import_module('gt.' + name)
    if name in ('save', 'load'):
        from gt import serialization
        return getattr(serialization, name)
    if name in _LAYERS:
        from gt.nn import functional
        return getattr(functional, name)
    raise AttributeError(f"module 'gt' has no attribute '{name}'")
