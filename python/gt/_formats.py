"""gt.channels_last and the other memory formats, gt.strided and the other layouts: names that PyTorch's functions take.

A format says how the elements of a tensor lie in memory. Here that is the engine's choice: it is accepted and changes no value.
"""


class _Name:
    def __init__(self, name):
        self._name = name

    def __repr__(self):
        return f'gt.{self._name}'

    def __reduce__(self):
        return _named, (self._name,)


class memory_format(_Name):
    """How elements lie in memory: gt.contiguous_format, gt.channels_last, gt.channels_last_3d, gt.preserve_format."""


class layout(_Name):
    """How a tensor is stored: gt.strided, and gt.sparse_coo."""


NAMES = {name: memory_format(name) for name in ('contiguous_format', 'channels_last', 'channels_last_3d', 'preserve_format')}
NAMES |= {name: layout(name) for name in ('strided', 'sparse_coo')}
NAMES |= {'memory_format': memory_format, 'layout': layout}


def _named(name):
    return NAMES[name]
