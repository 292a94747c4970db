"""torch.backends.opt_einsum."""

enabled, strategy = False, None


def is_available() -> bool:
    """False: einsum contracts from left to right."""
    return False
