"""The choice of attention kernels: accepted, and without effect, because GT has one way to compute attention.

MultiheadAttention is in multihead.py.
"""

import contextlib
import enum

from gt import _help


class SDPBackend(enum.IntEnum):
    """PyTorch's kernels for scaled_dot_product_attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends, set_priority=False):
    """Choose the kernels of scaled_dot_product_attention in a `with` block: accepted; GT computes it one way.

    >>> with nn.attention.sdpa_kernel(nn.attention.SDPBackend.FLASH_ATTENTION):
    ...     F.scaled_dot_product_attention(q, k, v)
    """
    given = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(given, (list, tuple, set)) or not all(isinstance(backend, SDPBackend) for backend in given):
        raise AssertionError('Backend must be an instance of SDPBackend or a list of SDPBackend instances')
    yield {}

__dir__ = _help.publish(__name__)
