"""torch.backends.openmp."""


def is_available() -> bool:
    """False: workers have their own threads."""
    return False
