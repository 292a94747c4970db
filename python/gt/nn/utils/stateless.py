"""functional_call, under its old path."""

from gt import _help


def functional_call(module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """Call a module with other parameters and buffers; see gt.func.functional_call."""
    from gt import func
    return func.functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)

__dir__ = _help.publish(__name__)
