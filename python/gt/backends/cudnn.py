"""torch.backends.cudnn."""

from gt import _help
from gt.backends._flags import flags_of

enabled, benchmark, deterministic, allow_tf32, benchmark_limit, fp32_precision = True, False, False, True, 10, 'none'
flags = flags_of(globals(), enabled=False, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True)


def is_available() -> bool:
    """False: GPU workers have their own convolutions."""
    return False


def version():
    """None."""
    return None


def is_acceptable(tensor) -> bool:
    """False."""
    return False


def set_flags(_enabled=None, _benchmark=None, _benchmark_limit=None, _deterministic=None, _allow_tf32=None):
    """Set the given settings; returns the previous ones."""
    given = {'enabled': _enabled, 'benchmark': _benchmark, 'benchmark_limit': _benchmark_limit,
             'deterministic': _deterministic, 'allow_tf32': _allow_tf32}
    before = tuple(globals()[name] for name in given)
    globals().update({name: value for name, value in given.items() if value is not None})
    return before

__dir__ = _help.publish(__name__, 'flags')
