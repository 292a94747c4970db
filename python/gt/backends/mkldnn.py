"""torch.backends.mkldnn."""

from gt import _help
from gt.backends._flags import flags_of

enabled, deterministic, allow_tf32, fp32_precision = True, False, True, 'none'
flags = flags_of(globals(), enabled=False, deterministic=False, allow_tf32=True)


def is_available() -> bool:
    """False."""
    return False

__dir__ = _help.publish(__name__, 'flags')
