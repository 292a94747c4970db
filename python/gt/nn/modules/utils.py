"""Small tools of layers: one number for all dimensions, or one for each; names in state dictionaries."""

from itertools import repeat


def _ntuple(n, name='parse'):
    def parse(x):
        return tuple(x) if hasattr(x, '__iter__') else tuple(repeat(x, n))
    parse.__name__ = name
    return parse


_single, _pair, _triple, _quadruple = (
    _ntuple(n, name) for n, name in ((1, '_single'), (2, '_pair'), (3, '_triple'), (4, '_quadruple')))


def _reverse_repeat_tuple(t, n):
    """(a, b) to (b, b, a, a) for n = 2."""
    return tuple(x for x in reversed(t) for _ in range(n))


def consume_prefix_in_state_dict_if_present(state_dict, prefix):
    """Remove a prefix, such as 'module.', from all names of a state dictionary, in place.

    >>> consume_prefix_in_state_dict_if_present(state, 'module.')
    """
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix):]] = state_dict.pop(key)
    metadata = getattr(state_dict, '_metadata', None)
    for key in list(metadata or ()):
        if key and (key == prefix.replace('.', '') or key.startswith(prefix)):
            metadata[key[len(prefix):]] = metadata.pop(key)
