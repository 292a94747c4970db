"""torch.backends.opt_einsum."""

from gt import _help

enabled, strategy = False, None


def is_available() -> bool:
    """False: einsum contracts from left to right."""
    return False

__dir__ = _help.publish(__name__)
