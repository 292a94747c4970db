"""torch.backends.openmp."""

from gt import _help


def is_available() -> bool:
    """False: workers have their own threads."""
    return False

__dir__ = _help.publish(__name__)
