"""torch.backends.cuda."""

import contextlib
import types

from gt import _defaults, _help


class _Matmul(types.SimpleNamespace):
    """Settings of matrix products. allow_tf32 is another name of set_float32_matmul_precision."""

    @property
    def allow_tf32(self):
        return _defaults.get_float32_matmul_precision() != 'highest'

    @allow_tf32.setter
    def allow_tf32(self, allowed):
        _defaults.set_float32_matmul_precision('high' if allowed else 'highest')


matmul = _Matmul(allow_fp16_reduced_precision_reduction=True, allow_bf16_reduced_precision_reduction=True,
                 allow_fp16_accumulation=False, fp32_precision='none')
cufft_plan_cache = types.SimpleNamespace(size=0, max_size=4096, clear=lambda: None)
_kernels = {'flash': True, 'mem_efficient': True, 'math': True, 'cudnn': True}
_linalg = ['default']


def is_built() -> bool:
    """False: GT's GPU engine is a plug-in of the workers."""
    return False


def preferred_linalg_library(backend=None):
    """The name that was set last."""
    if backend is not None:
        _linalg[0] = backend
    return _linalg[0]


def _setting(kernel):
    def enabled():
        return _kernels[kernel]

    def enable(enabled):
        _kernels[kernel] = bool(enabled)
    enabled.__doc__, enable.__doc__ = f'Whether {kernel} attention is allowed.', f'Allow {kernel} attention, or not.'
    return enabled, enable


flash_sdp_enabled, enable_flash_sdp = _setting('flash')
mem_efficient_sdp_enabled, enable_mem_efficient_sdp = _setting('mem_efficient')
math_sdp_enabled, enable_math_sdp = _setting('math')
cudnn_sdp_enabled, enable_cudnn_sdp = _setting('cudnn')


@contextlib.contextmanager
def sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
    """A context with these settings of attention; GT has one algorithm."""
    before = dict(_kernels)
    _kernels.update(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn)
    try:
        yield
    finally:
        _kernels.update(before)

__dir__ = _help.publish(__name__)
