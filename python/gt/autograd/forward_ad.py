"""torch.autograd.forward_ad: dual numbers are not supported; gt.func.jvp computes derivatives along a direction."""

from gt import _help


def _refuse(*arguments, **options):
    """Refused with a hint."""
    raise NotImplementedError('gt.autograd.forward_ad: GT has no dual tensors; use gt.func.jvp or gt.func.jacfwd')


dual_level = make_dual = unpack_dual = enter_dual_level = exit_dual_level = _refuse

__dir__ = _help.publish(__name__)
