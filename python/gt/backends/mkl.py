"""torch.backends.mkl."""

VERBOSE_OFF, VERBOSE_ON = 0, 1


def is_available() -> bool:
    """False: workers use OpenBLAS."""
    return False
