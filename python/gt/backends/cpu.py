"""torch.backends.cpu."""

import platform


def get_cpu_capability() -> str:
    """The machine's name; workers choose their loops by themselves."""
    return platform.machine()
