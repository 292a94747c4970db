"""torch.backends.mkl."""

from gt import _help

VERBOSE_OFF, VERBOSE_ON = 0, 1


def is_available() -> bool:
    """False: workers use OpenBLAS."""
    return False

__dir__ = _help.publish(__name__)
