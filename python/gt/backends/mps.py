"""torch.backends.mps."""


def is_available() -> bool:
    """False."""
    return False


def is_built() -> bool:
    """False."""
    return False


def is_macos_or_newer(major, minor) -> bool:
    """False."""
    return False
