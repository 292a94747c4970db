"""torch.cuda's questions, answered: a program has no GPU of its own. Those of the workers are the dispatcher's business."""

from gt import manual_seed, synchronize as _synchronize


def is_available():
    """False: `'cuda' if is_available() else 'cpu'` gives a device that means the same here."""
    return False


def device_count():
    """0."""
    return 0


def synchronize(device=None):
    """Wait until everything so far has been computed."""
    _synchronize()


def empty_cache():
    """Nothing: workers keep the memory of freed tensors for the next ones."""


manual_seed_all = manual_seed
