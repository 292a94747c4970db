"""vmap: a function of one sample becomes a function of a batch.

The function runs once, on batched tensors: they hide the batch axis, and every operation on them is one operation on all
samples (src/client/batch.h). Operations without a batching rule are computed sample by sample, with a warning.
"""

import functools

from gt import _gt, _tree

_RANDOMNESS = ('error', 'different', 'same')


def _name(function):
    return getattr(function, '__name__', repr(function))


def _sized(in_dims, args, function):
    """(leaves of the arguments, their structure, dim of each leaf or None, batch size), checked as PyTorch does."""
    if not isinstance(in_dims, int) and not isinstance(in_dims, tuple):
        raise ValueError(
            f'vmap({_name(function)}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be int or a (potentially '
            f'nested) tuple matching the structure of inputs, got: {type(in_dims)}.')
    if not args:
        raise ValueError(f'vmap({_name(function)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are '
                         'trying to vmap over a function with no inputs. The latter is unsupported.')
    leaves, spec = _tree.flatten(args)
    dims = _tree.broadcast(in_dims, spec)
    if dims is None:
        raise ValueError(f'vmap({_name(function)}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible with the '
                         'structure of `inputs`. in_dims has structure different from inputs.')
    sizes = []
    for k, (leaf, dim) in enumerate(zip(leaves, dims)):
        if dim is None:
            continue
        where = f'vmap({_name(function)}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for an input but '
        if not isinstance(dim, int):
            raise ValueError(where + f'in_dim must be either an integer dimension or None, got {type(dim)}.')
        if not isinstance(leaf, _gt.Tensor):
            raise ValueError(where + f'the input is of type {type(leaf)}. We cannot vmap over non-Tensor arguments, please '
                                     'use None as the respective in_dim')
        if not -leaf.ndim <= dim < leaf.ndim:
            raise ValueError(where + f'that input is a Tensor of dimensionality {leaf.ndim} so expected in_dim to satisfy '
                                     f'-{leaf.ndim} <= in_dim < {leaf.ndim}.')
        dims[k] = dim % leaf.ndim
        sizes.append(leaf.shape[dims[k]])
    if not sizes:
        raise ValueError(f'vmap({_name(function)}, in_dims={in_dims}, ...)(<inputs>): at least one input must be vmapped over: '
                         'all in_dims are None.')
    if len(set(sizes)) > 1:
        raise ValueError(f'vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for '
                         'the mapped dimension')
    return leaves, spec, dims, sizes[0]


def _unwrapped(outputs, out_dims, level, function):
    """The outputs with the batch axis at out_dims."""
    leaves, spec = _tree.flatten(outputs)
    dims = _tree.broadcast(out_dims, spec) if not isinstance(out_dims, int) else [out_dims] * len(leaves)
    if isinstance(out_dims, tuple) and len(out_dims) == 1 and spec is None:
        dims = [out_dims[0]]
    if dims is None:
        raise ValueError(f'vmap({_name(function)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the '
                         'structure of `outputs`. out_dims has structure different from outputs.')
    results = []
    for leaf, dim in zip(leaves, dims):
        if not isinstance(leaf, _gt.Tensor):
            raise ValueError(f'vmap({_name(function)}, ...): `{_name(function)}` must only return Tensors, got type '
                             f'{type(leaf)}. Did you mean to set out_dims= to None for output?')
        if dim is None:
            if _gt._vmap_level(leaf) == level:
                raise ValueError(f'vmap({_name(function)}, ...): `{_name(function)}` can not return a BatchedTensor when '
                                 'out_dim is None')
            results.append(leaf)
            continue
        whole = _gt._vmap_unwrap(leaf, level)
        if not -whole.ndim <= dim < whole.ndim:
            raise IndexError(f'Dimension out of range (expected to be in range of [{-whole.ndim}, {whole.ndim - 1}], but got '
                             f'{dim})')
        results.append(whole.movedim(0, dim) if dim else whole)
    return _tree.unflatten(results, spec)


def _run(function, leaves, spec, dims, size, out_dims, randomness, options):
    level = _gt._vmap_enter(size, randomness)
    try:
        inside = [leaf if dim is None else _gt._vmap_wrap(leaf.movedim(dim, 0) if dim else leaf, level)
                  for leaf, dim in zip(leaves, dims)]
        return _unwrapped(function(*_tree.unflatten(inside, spec), **options), out_dims, level, function)
    finally:
        _gt._vmap_exit(level)


def _chunked(function, leaves, spec, dims, size, out_dims, randomness, options, chunk_size):
    parts = []
    for start in range(0, size, chunk_size):
        count = min(chunk_size, size - start)
        chunk = [leaf if dim is None else leaf.narrow(dim, start, count) for leaf, dim in zip(leaves, dims)]
        parts.append(_tree.flatten(_run(function, chunk, spec, dims, count, out_dims, randomness, options)))
    spec = parts[0][1]
    out = _tree.broadcast(out_dims, spec) if not isinstance(out_dims, int) else [out_dims] * len(parts[0][0])
    joined = [items[0] if dim is None else _gt.cat(list(items), dim) for dim, items in zip(out, zip(*(p[0] for p in parts)))]
    return _tree.unflatten(joined, spec)


def vmap(func, in_dims=0, out_dims=0, randomness='error', *, chunk_size=None):
    """A function that applies func to every sample of a batch, vectorised.

    in_dims: which dimension of each argument is the batch, None for arguments that all samples share; a nested tuple or
    dict for nested arguments. out_dims: where the batch goes in the results. randomness: 'error', 'different' or 'same'
    numbers for the samples. chunk_size: samples that are computed at once.

        gt.vmap(gt.dot)(gt.randn(8, 3), gt.randn(8, 3))     # 8 dot products
    """
    if randomness not in _RANDOMNESS:
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f'vmap: chunk_size should be None or greater than 0. (got {chunk_size})')
    if isinstance(in_dims, list):
        in_dims = tuple(in_dims)

    @functools.wraps(func, assigned=('__name__', '__doc__', '__qualname__', '__module__'), updated=())
    def mapped(*args, **options):
        leaves, spec, dims, size = _sized(in_dims, args, func)
        if chunk_size is not None and chunk_size < size:
            return _chunked(func, leaves, spec, dims, size, out_dims, randomness, options, chunk_size)
        return _run(func, leaves, spec, dims, size, out_dims, randomness, options)
    return mapped


def vmap_gradients(run, gradients):
    """run(*gradients) -> a tuple of tensors or None, over gradients (or None) that have a batch axis in front."""
    size = next(gradient.shape[0] for gradient in gradients if gradient is not None)
    level = _gt._vmap_enter(size, 'error')
    try:
        found = run(*(None if gradient is None else _gt._vmap_wrap(gradient, level) for gradient in gradients))
        return tuple(None if value is None else _gt._vmap_unwrap(value, level) for value in found)
    finally:
        _gt._vmap_exit(level)
