"""torch.backends.mps."""

from gt import _help


def is_available() -> bool:
    """False."""
    return False


def is_built() -> bool:
    """False."""
    return False


def is_macos_or_newer(major, minor) -> bool:
    """False."""
    return False

__dir__ = _help.publish(__name__)
