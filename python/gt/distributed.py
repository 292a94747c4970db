"""torch.distributed: not needed. Many workers serve one program (docs/sharding.md); these say so to scripts that ask."""

from gt import _help


def is_available() -> bool:
    """False: a program does not talk to other programs."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def is_torchelastic_launched() -> bool:
    """False."""
    return False


def get_rank(group=None) -> int:
    """0: a program is alone. PyTorch raises ValueError here, so scripts ask is_initialized() first."""
    return 0


def get_world_size(group=None) -> int:
    """1."""
    return 1


def barrier(*arguments, **options) -> None:
    """Does nothing: a program is alone."""


def init_process_group(*arguments, **options) -> None:
    """Refused with a hint."""
    raise RuntimeError('gt.distributed has no process groups: one program uses all workers. Say with signals how tensors '
                       'are split (docs/sharding.md)')


def destroy_process_group(group=None) -> None:
    """Does nothing."""

__dir__ = _help.publish(__name__)
