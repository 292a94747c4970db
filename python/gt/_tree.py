"""Nested containers: flatten, rebuild and map over tuples, named tuples, lists, dicts and OrderedDicts; all else is a leaf."""

import collections


def flatten(tree):
    """(leaves, spec): the leaves in order, and what unflatten() needs to rebuild the tree."""
    leaves = []
    return leaves, _flatten(tree, leaves)


def _flatten(tree, leaves):
    if isinstance(tree, tuple) and hasattr(tree, '_fields'):
        return type(tree), None, [_flatten(item, leaves) for item in tree]
    if isinstance(tree, (tuple, list)):
        return type(tree), None, [_flatten(item, leaves) for item in tree]
    if type(tree) in (dict, collections.OrderedDict):
        return type(tree), list(tree), [_flatten(item, leaves) for item in tree.values()]
    leaves.append(tree)
    return None


def unflatten(leaves, spec):
    """The tree of a spec with these leaves."""
    return _unflatten(iter(leaves), spec)


def _unflatten(leaves, spec):
    if spec is None:
        return next(leaves)
    kind, keys, specs = spec
    items = [_unflatten(leaves, item) for item in specs]
    if keys is not None:
        return kind(zip(keys, items))
    return kind(*items) if hasattr(kind, '_fields') else kind(items)


def map(function, tree, *others):
    """The tree with function(leaf, ...) of the leaves of all trees, which have one structure."""
    leaves, spec = flatten(tree)
    more = [flatten(other)[0] for other in others]
    return unflatten([function(*items) for items in zip(leaves, *more)], spec)


def leaves(tree):
    """The leaves in order."""
    return flatten(tree)[0]


def broadcast(prefix, spec):
    """The leaves of a prefix of a tree, each repeated for all leaves below it; None if it is no prefix."""
    if spec is None:
        return [prefix]
    kind, keys, specs = spec
    if not isinstance(prefix, (tuple, list, dict)):
        return [prefix] * count(spec)
    if isinstance(prefix, dict) != (keys is not None) or len(prefix) != len(specs):
        return None
    items = [prefix[key] for key in keys] if keys is not None else list(prefix)
    found = []
    for item, below in zip(items, specs):
        part = broadcast(item, below)
        if part is None:
            return None
        found += part
    return found


def count(spec):
    """The number of leaves."""
    return 1 if spec is None else sum(count(item) for item in spec[2])
