"""Automatic mixed precision: autocast, and GradScaler for float16.

    scaler = gt.amp.GradScaler()
    with gt.autocast('cuda', dtype=gt.float16):
        loss = model(x).square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""

from gt import _help
from gt.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from gt.amp.grad_scaler import GradScaler

__all__ = ['GradScaler', 'autocast', 'custom_bwd', 'custom_fwd', 'is_autocast_available']

__dir__ = _help.publish(__name__)
