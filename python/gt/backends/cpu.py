"""torch.backends.cpu."""

import platform

from gt import _help


def get_cpu_capability() -> str:
    """The machine's name; workers choose their loops by themselves."""
    return platform.machine()

__dir__ = _help.publish(__name__)
