"""torch.xpu: there is no such device; synchronize() waits, the rest reports nothing."""

from gt import _help
from gt._gt import synchronize  # noqa: F401
from gt.client.random import manual_seed  # noqa: F401

manual_seed_all = manual_seed


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def empty_cache() -> None:
    """Does nothing."""

__dir__ = _help.publish(__name__, 'manual_seed', 'manual_seed_all', 'synchronize')
