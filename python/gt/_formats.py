"""gt.channels_last and the other memory formats: names that PyTorch's functions take.

A format says how the elements of a tensor lie in memory. Here that is the engine's choice: a format changes what stride() and
is_contiguous() say, as in PyTorch, and no value.
"""


class memory_format:
    """How elements lie in memory: gt.contiguous_format, gt.channels_last, gt.channels_last_3d, gt.preserve_format."""

    def __init__(self, name):
        self._name = name

    def __repr__(self):
        return f'gt.{self._name}'

    def __reduce__(self):
        return _named, (self._name,)


NAMES = {name: memory_format(name) for name in ('contiguous_format', 'channels_last', 'channels_last_3d', 'preserve_format')}
NAMES['memory_format'] = memory_format


def _named(name):
    return NAMES[name]
