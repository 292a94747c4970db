"""The functions of torch.cuda that scripts call. A program has no GPU of its own: workers have them."""

from gt import manual_seed, synchronize as _synchronize


def is_available():
    """False, so `'cuda' if is_available() else 'cpu'` gives 'cpu', which GT ignores like any device."""
    return False


def device_count():
    """0."""
    return 0


def synchronize(device=None):
    """Wait until all instructions so far are executed."""
    _synchronize()


def empty_cache():
    """Does nothing: workers keep the memory of freed tensors for new ones."""


manual_seed_all = manual_seed
