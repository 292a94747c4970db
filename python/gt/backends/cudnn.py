"""torch.backends.cudnn. allow_tf32 says whether convolutions of float32 may be computed in TF32 by the cuda engine."""

import sys
import types

from gt import _gt, _help
from gt.backends._flags import flags_of


class _Module(types.ModuleType):
    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == 'allow_tf32':
            _gt._set_exact_convolutions(not value)


class _Settings:
    """The module's attributes, as a mapping."""

    def __getitem__(self, name):
        return globals()[name]

    def update(self, values):
        for name, value in values.items():
            setattr(sys.modules[__name__], name, value)


sys.modules[__name__].__class__ = _Module
_settings = _Settings()
enabled, benchmark, deterministic, allow_tf32, benchmark_limit, fp32_precision = True, False, False, True, 10, 'none'
flags = flags_of(_settings, enabled=False, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True)


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
    before = tuple(_settings[name] for name in given)
    _settings.update({name: value for name, value in given.items() if value is not None})
    return before

__dir__ = _help.publish(__name__, 'flags')
