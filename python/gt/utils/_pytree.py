"""Nested containers with tensors at their leaves, as torch.utils._pytree has them.

Containers are tuples, named tuples, lists, dicts, OrderedDicts, defaultdicts and deques, and classes that
register_pytree_node() adds. All other objects are leaves, also subclasses of these types.

    leaves, spec = tree_flatten({'x': gt.ones(2), 'y': [1, 2]})
    tree_unflatten([0, 1, 2], spec)                                 # {'x': 0, 'y': [1, 2]}
"""

import collections
import dataclasses
from typing import Any, Callable, Iterable, Optional

_NAMED = collections.namedtuple  # the key of all named tuples
_nodes = {}  # the type of a container: (flatten, unflatten)


def register_pytree_node(cls, flatten_fn: Callable, unflatten_fn: Callable, **options) -> None:
    """Make a class a container.

    flatten_fn(obj) gives (children, context) and unflatten_fn(children, context) the object again. Names for saved files
    (serialized_type_name= and others) are accepted.

        register_pytree_node(Batch, lambda b: ([b.x, b.y], None), lambda children, context: Batch(*children))
    """
    if cls in _nodes:
        raise ValueError(f'{cls} is already registered as pytree node.')
    _nodes[cls] = flatten_fn, unflatten_fn


_register_pytree_node = register_pytree_node
register_pytree_node(tuple, lambda t: (list(t), None), lambda children, context: tuple(children))
register_pytree_node(list, lambda t: (t, None), lambda children, context: list(children))
register_pytree_node(dict, lambda t: (list(t.values()), list(t)), lambda children, context: dict(zip(context, children)))
register_pytree_node(collections.OrderedDict, lambda t: (list(t.values()), list(t)),
                     lambda children, context: collections.OrderedDict(zip(context, children)))
register_pytree_node(collections.defaultdict, lambda t: (list(t.values()), [t.default_factory, list(t)]),
                     lambda children, context: collections.defaultdict(context[0], zip(context[1], children)))
register_pytree_node(collections.deque, lambda t: (list(t), t.maxlen), lambda children, context: collections.deque(children, context))
register_pytree_node(_NAMED, lambda t: (list(t), type(t)), lambda children, context: context(*children))


def _kind(tree):
    """The registered type of a container; None: it is a leaf."""
    kind = type(tree)
    if isinstance(tree, tuple) and kind is not tuple and hasattr(kind, '_fields') and kind not in _nodes:
        return _NAMED
    return kind if kind in _nodes else None


@dataclasses.dataclass(frozen=True)
class TreeSpec:
    """The structure of a tree: the type of each container, what it needs to be rebuilt, and the structures of its children.

    type is None for a leaf.
    """

    type: Any
    context: Any
    children_specs: list

    @property
    def num_leaves(self) -> int:
        """The number of leaves."""
        return 1 if self.is_leaf() else sum(child.num_leaves for child in self.children_specs)

    @property
    def num_children(self) -> int:
        """The number of children of the outermost container."""
        return len(self.children_specs)

    @property
    def num_nodes(self) -> int:
        """The number of containers and leaves."""
        return 1 + sum(child.num_nodes for child in self.children_specs)

    def is_leaf(self) -> bool:
        """Whether it is that of a leaf."""
        return self.type is None

    def flatten_up_to(self, tree) -> list:
        """The parts of a tree at the leaves of this structure."""
        if self.is_leaf():
            return [tree]
        if _kind(tree) is not self.type:
            raise ValueError(f'Type mismatch; expected {self.type!r}, but got {type(tree)!r}.')
        children, context = _nodes[self.type][0](tree)
        if len(children) != self.num_children:
            raise ValueError(f'Node arity mismatch; expected {self.num_children}, but got {len(children)}.')
        if isinstance(tree, dict):
            keys = self.context[1] if isinstance(tree, collections.defaultdict) else self.context
            if set(keys) != set(tree):
                raise ValueError(f'Node keys mismatch; expected {list(keys)}, but got {list(tree)}.')
            children = [tree[key] for key in keys]
        elif context != self.context:
            raise ValueError(f'Node context mismatch for custom node type {self.type!r}.')
        return [leaf for spec, child in zip(self.children_specs, children) for leaf in spec.flatten_up_to(child)]

    def unflatten(self, leaves: Iterable):
        """The tree of this structure with these leaves."""
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(f'treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a pytree that '
                             f'holds {self.num_leaves} items ({self}).')
        return self._built(iter(leaves))

    def _built(self, leaves):
        if self.is_leaf():
            return next(leaves)
        return _nodes[self.type][1]([child._built(leaves) for child in self.children_specs], self.context)


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    def __init__(self):
        super().__init__(None, None, [])

    def __repr__(self):
        return '*'


def _walk(tree, leaves, is_leaf):
    kind = None if is_leaf is not None and is_leaf(tree) else _kind(tree)
    if kind is None:
        leaves.append(tree)
        return LeafSpec()
    children, context = _nodes[kind][0](tree)
    return TreeSpec(kind, context, [_walk(child, leaves, is_leaf) for child in children])


def tree_flatten(tree, is_leaf: Optional[Callable] = None):
    """(leaves, spec): the leaves in order, and the structure. is_leaf(obj): stop at this object."""
    leaves = []
    spec = _walk(tree, leaves, is_leaf)
    return leaves, spec


def tree_unflatten(leaves: Iterable, treespec: TreeSpec):
    """The tree of a structure with these leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f'tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec but got item of type '
                        f'{type(treespec)}.')
    return treespec.unflatten(leaves)


def tree_leaves(tree, is_leaf: Optional[Callable] = None) -> list:
    """The leaves in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree, is_leaf: Optional[Callable] = None):
    """An iterator over the leaves."""
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree, is_leaf: Optional[Callable] = None) -> TreeSpec:
    """The structure."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable, tree, *rests, is_leaf: Optional[Callable] = None):
    """The tree with func(leaf, ...) at its leaves; rests: trees with the structure of the first, whose parts are more arguments."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [spec.flatten_up_to(other) for other in rests]
    return spec.unflatten(func(*items) for items in zip(leaves, *others))


def tree_map_(func: Callable, tree, *rests, is_leaf: Optional[Callable] = None):
    """Call func for each leaf; returns the tree itself."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _chosen(type_or_types_or_pred):
    """Whether a leaf is of a type, of one of several, or fulfils a condition."""
    if isinstance(type_or_types_or_pred, (type, tuple)):
        return lambda leaf: isinstance(leaf, type_or_types_or_pred)
    if callable(type_or_types_or_pred):
        return type_or_types_or_pred
    raise TypeError('Argument must be a type, a tuple of types, or a callable.')


def tree_map_only(type_or_types_or_pred, func: Callable, tree, is_leaf: Optional[Callable] = None):
    """tree_map over the leaves of a type, of some types, or that fulfil a condition; the others stay.

        tree_map_only(gt.Tensor, lambda t: t.to(gt.float16), batch)
    """
    chosen = _chosen(type_or_types_or_pred)
    return tree_map(lambda leaf: func(leaf) if chosen(leaf) else leaf, tree, is_leaf=is_leaf)


def tree_map_only_(type_or_types_or_pred, func: Callable, tree, is_leaf: Optional[Callable] = None):
    """Call func for each leaf that is chosen; returns the tree itself."""
    tree_map_only(type_or_types_or_pred, func, tree, is_leaf)
    return tree


def tree_all(pred: Callable, tree, is_leaf: Optional[Callable] = None) -> bool:
    """Whether all leaves fulfil a condition."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable, tree, is_leaf: Optional[Callable] = None) -> bool:
    """Whether a leaf fulfils a condition."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(type_or_types, pred: Callable, tree, is_leaf: Optional[Callable] = None) -> bool:
    """Whether all leaves of a type fulfil a condition."""
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, type_or_types))


def tree_any_only(type_or_types, pred: Callable, tree, is_leaf: Optional[Callable] = None) -> bool:
    """Whether a leaf of a type fulfils a condition."""
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, type_or_types))
