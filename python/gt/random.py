"""torch.random: the state of the generator, and fork_rng()."""

import contextlib

from gt import _help
from gt.client.random import get_rng_state, initial_seed, manual_seed, seed, set_rng_state  # noqa: F401


@contextlib.contextmanager
def fork_rng(devices=None, enabled=True, _caller='fork_rng', _devices_kw='devices', device_type='cuda'):
    """A context that puts the generator back at its end to where it was.

        with gt.random.fork_rng():
            gt.manual_seed(0)
    """
    if not enabled:
        yield
        return
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)

__dir__ = _help.publish(__name__, 'get_rng_state', 'initial_seed', 'manual_seed', 'seed', 'set_rng_state')
