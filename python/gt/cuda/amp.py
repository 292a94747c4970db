"""torch.cuda.amp: autocast and GradScaler for 'cuda'."""

import functools

from gt import _help, _paths
from gt.amp import GradScaler as _GradScaler
from gt.amp import autocast as _autocast
from gt.amp import custom_bwd as _custom_bwd
from gt.amp import custom_fwd as _custom_fwd


class autocast(_autocast):
    """gt.autocast('cuda', ...)."""

    def __init__(self, enabled=True, dtype=None, cache_enabled=True):
        super().__init__('cuda', dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(_GradScaler):
    """gt.amp.GradScaler('cuda', ...)."""

    def __init__(self, init_scale=2.0 ** 16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        super().__init__('cuda', init_scale, growth_factor, backoff_factor, growth_interval, enabled)


custom_fwd = functools.partial(_custom_fwd, device_type='cuda')
custom_bwd = functools.partial(_custom_bwd, device_type='cuda')

_paths.path(f'{__name__}.grad_scaler', GradScaler=GradScaler)
_paths.path(f'{__name__}.autocast_mode', autocast=autocast, custom_bwd=custom_bwd, custom_fwd=custom_fwd)

__dir__ = _help.publish(__name__, 'custom_bwd', 'custom_fwd')
