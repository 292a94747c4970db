"""Signals: names for parts of a program. A config says where their tensors live.

    with gt.signal.context('layer1'):       # tensors and operations in this block are placed as `layer1` says
        y = x @ w
    x = gt.signal.tensor(x, name='layer1')  # a copy of one tensor, placed the same way

Without a config (gt.load_config, GT_CONFIG, gt.register_config) the same program runs unsharded. docs/sharding.md is
the guide.
"""

import sys

from gt import _gt, _help
from gt.client import windows

sys.modules[f'{__name__}.windows'] = windows  # gt.signal.windows, as in torch.signal


class context:
    """A scope for `with`. backward names the signal for the gradients of the operations inside."""

    def __init__(self, name, backward=None):
        self.name, self.backward = name, backward

    def __enter__(self):
        _gt.signal_enter(self.name, self.backward)
        return self

    def __exit__(self, *unused):
        _gt.signal_exit(self.name)


def enter(name, backward=None):
    """Enter a scope; exit(name) leaves it. Each thread has its own scopes."""
    _gt.signal_enter(name, backward)


def exit(name):
    """Leave the innermost scope, which must have this name."""
    _gt.signal_exit(name)


def tensor(x, name):
    """A copy of x, placed as the signal says."""
    return _gt.signal_tensor(x, name)

__dir__ = _help.publish(__name__, 'windows')
