"""grad, vjp, jvp, jacrev, jacfwd, hessian: functions to functions.

Arguments become fresh nodes of the tape, so transformations nest. Inside a vmap they are made batched first, so that
gradients are those of each sample. Forward mode is two backward passes.
"""

import functools
import threading

from gt import _gt, _tree
from gt.autograd.grad_mode import enable_grad

_nesting = threading.local()


class _level:
    """Counts the transformations around this one: only results of the outermost are detached."""

    def __enter__(self):
        _nesting.depth = getattr(_nesting, 'depth', 0) + 1
        return _nesting.depth

    def __exit__(self, *exception):
        _nesting.depth -= 1


def _fresh(tensor):
    """The tensor as a new node, which still depends on the tensor where that has a gradient."""
    if not isinstance(tensor, _gt.Tensor):
        raise TypeError(f'expected a Tensor to differentiate with respect to, got {type(tensor).__name__}')
    if not tensor.is_floating_point():
        raise RuntimeError('only Tensors of floating point dtype can require gradients')
    wide = _gt._vmap_expand(tensor) if _gt._vmap_active() else tensor
    if wide.requires_grad:
        return wide.view_as(wide) if hasattr(wide, 'view_as') else wide.reshape(wide.shape)
    return wide.detach().clone().requires_grad_()


def _result(value, keeps):
    """A result: still recorded where it is used in another transformation or depends on leaves of the user's."""
    return value if keeps or not isinstance(value, _gt.Tensor) else value.detach()


def _outside(tensors):
    """Whether a gradient of the caller's flows through these tensors."""
    return any(isinstance(x, _gt.Tensor) and x.requires_grad for x in tensors)


def _argnums(argnums, args):
    """The positions, as a list; PyTorch's error if one does not exist."""
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    for number in numbers:
        if not -len(args) <= number < len(args):
            raise RuntimeError(f'Got argnum={number}, but only {len(args)} positional inputs')
    return [number % len(args) for number in numbers]


def _prepared(args, numbers):
    """(args with fresh leaves at the positions, those leaves, their structure)."""
    fresh, flat = list(args), []
    for number in numbers:
        leaves, spec = _tree.flatten(args[number])
        made = [_fresh(leaf) for leaf in leaves]
        flat.append((made, spec))
        fresh[number] = _tree.unflatten(made, spec)
    return fresh, flat


def grad_and_value(func, argnums=0, has_aux=False):
    """A function that returns (the gradient of func, the value of func), for a func with a scalar result.

    argnums: the arguments to differentiate by; has_aux: func returns (value, anything), and so does the second part.

        gradient, value = gt.func.grad_and_value(loss)(weights, batch)
    """
    @functools.wraps(func, assigned=('__name__', '__doc__'), updated=())
    def wrapper(*args, **options):
        with _level() as depth, enable_grad():
            numbers = _argnums(argnums, args)
            fresh, flat = _prepared(args, numbers)
            output = func(*fresh, **options)
            if has_aux:
                if not (isinstance(output, tuple) and len(output) == 2):
                    raise RuntimeError('grad_and_value(f)(*args): output of function f should be a tuple: (output, aux) if '
                                       'has_aux is True')
                output, aux = output
            if not isinstance(output, _gt.Tensor):
                raise RuntimeError(f'grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got type {type(output)}')
            if output.ndim != 0:
                raise RuntimeError('grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with '
                                   f'{output.ndim} dims. Maybe you wanted to use the vjp or jacrev APIs instead?')
            wanted = [leaf for leaves, _ in flat for leaf in leaves]
            keeps = depth > 1 or _depends(output, wanted, args, options)
            found = _grads([output], wanted, None, keeps)
        found = iter([_result(value, keeps) for value in found])
        trees = [_tree.unflatten([next(found) for _ in leaves], spec) for leaves, spec in flat]
        gradient = trees[0] if isinstance(argnums, int) else tuple(trees)
        value = _result(output, keeps)
        return (gradient, (value, _tree.map(lambda x: _result(x, keeps), aux))) if has_aux else (gradient, value)
    return wrapper


def _depends(output, wanted, args, options):
    """Whether results depend on tensors of the caller's that require a gradient, so that they must stay recorded."""
    return _outside(_tree.leaves(args)) or _outside(_tree.leaves(options)) or _has_other_leaves(output, wanted)


def _has_other_leaves(output, wanted):
    """Whether the graph of an output has leaves other than the wanted ones: a closure over parameters."""
    if not output.requires_grad:
        return False
    own = {_gt._node_info(_gt._node(leaf))[1] for leaf in wanted if leaf.requires_grad}
    seen, todo = set(), [_gt._node(output)]
    while todo:
        _, number, is_leaf, operands = _gt._node_info(todo.pop())
        if number in seen or number in own:
            continue
        if is_leaf:
            return True
        seen.add(number)
        todo += [operand for operand in operands if operand is not None]
    return False


def _grads(outputs, wanted, weights, create_graph):
    """Gradients, zeros where there are none."""
    pairs = [(output, None if weights is None else weight)
             for output, weight in zip(outputs, weights or [None] * len(outputs)) if output.requires_grad]
    if not wanted:
        return []
    if not pairs:
        return [_gt.zeros_like(leaf) for leaf in wanted]
    return list(_gt.grad([output for output, _ in pairs], wanted, [weight for _, weight in pairs], True, create_graph, True,
                         False, True))


def grad(func, argnums=0, has_aux=False):
    """A function that returns the gradient of func, which has a scalar result.

        gt.func.grad(gt.sin)(gt.tensor(0.0))        # 1
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func, assigned=('__name__', '__doc__'), updated=())
    def wrapper(*args, **options):
        gradient, value = both(*args, **options)
        return (gradient, value[1]) if has_aux else gradient
    return wrapper


def _checked_outputs(outputs, name):
    leaves, spec = _tree.flatten(outputs)
    for leaf in leaves:
        if not isinstance(leaf, _gt.Tensor):
            raise RuntimeError(f'{name}: Expected f(*args) to return only tensors, got unsupported type {type(leaf)}')
    return leaves, spec


def vjp(func, *primals, has_aux=False):
    """(func(*primals), a function of cotangents that returns their product with the Jacobian, a tuple).

        output, pull = gt.func.vjp(f, x)
        (gradient,) = pull(gt.ones_like(output))
    """
    with _level() as depth, enable_grad():
        fresh, flat = _prepared(primals, range(len(primals)))
        outputs = func(*fresh)
        if has_aux:
            if not (isinstance(outputs, tuple) and len(outputs) == 2):
                raise RuntimeError('vjp(f, *primals): output of function f should be a tuple: (output, aux) if has_aux is True')
            outputs, aux = outputs
        leaves, spec = _checked_outputs(outputs, 'vjp(f, *primals)')
        wanted = [leaf for part, _ in flat for leaf in part]
        keeps = depth > 1 or any(_depends(leaf, wanted, primals, {}) for leaf in leaves)

    def pull(*cotangents, retain_graph=True, create_graph=None):
        given = cotangents[0] if len(cotangents) == 1 and not (isinstance(outputs, tuple) and len(leaves) == 1
                                                               and isinstance(cotangents[0], _gt.Tensor)) else cotangents
        weights, weight_spec = _tree.flatten(given)
        if len(weights) != len(leaves):
            raise RuntimeError(f'Expected pytree structure of cotangents to be the same as pytree structure of outputs to the '
                               f'function. cotangents: {weight_spec}, primal output: {spec}')
        for weight, leaf in zip(weights, leaves):
            if weight.shape != leaf.shape:
                raise RuntimeError(f'Expected cotangent of shape {leaf.shape}, got {weight.shape}')
        graph = (keeps or _outside(weights) or getattr(_nesting, 'depth', 0) > 0) if create_graph is None else create_graph
        with enable_grad():
            found = _grads(leaves, wanted, weights, graph)
        found = iter([_result(value, graph) for value in found])
        return tuple(_tree.unflatten([next(found) for _ in part], part_spec) for part, part_spec in flat)
    result = _tree.unflatten([_result(leaf, keeps) for leaf in leaves], spec)
    if has_aux:
        return result, pull, _tree.map(lambda x: _result(x, keeps), aux)
    return result, pull


def _check_tangents(primals, tangents):
    if not isinstance(primals, tuple):
        raise RuntimeError(f'jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it should be valid to call '
                           f'f(*primals). Got {type(primals)}')
    left, spec = _tree.flatten(primals)
    right, other = _tree.flatten(tangents)
    if spec != other:
        raise RuntimeError('jvp(f, primals, tangents): Expected primals and tangents to have the same python structure. For '
                           f'example, if primals is a tuple of 3 tensors, tangents also must be. Got primals with structure '
                           f'{spec} and tangents with structure {other}')
    if not left:
        raise RuntimeError('jvp(f, primals, tangents): Expected at least one Tensor')
    for a, b in zip(left, right):
        if not isinstance(a, _gt.Tensor) or not isinstance(b, _gt.Tensor):
            raise RuntimeError('jvp(f, primals, tangents): Expected tensors')
        if a.shape != b.shape:
            raise RuntimeError(f'jvp(f, primals, tangents): Expected tangent of shape {a.shape}, got {b.shape}')
    return right


def _pushed(leaves, wanted, tangents, keeps):
    """The derivative of the leaves along the tangents: the gradient of a gradient that is linear in its weights."""
    weights = [_fresh(_gt.zeros_like(leaf)) for leaf in leaves]
    through = _grads(leaves, wanted, weights, True)
    linear = [(value, tangent) for value, tangent in zip(through, tangents) if value.requires_grad]
    if not linear:
        return [_gt.zeros_like(leaf) for leaf in leaves]
    return list(_gt.grad([value for value, _ in linear], weights, [tangent for _, tangent in linear], True, keeps, True,
                         False, True))


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """(func(*primals), its derivative along the tangents).

        value, slope = gt.func.jvp(gt.sin, (x,), (gt.ones_like(x),))
    """
    directions = _check_tangents(primals, tangents)
    with _level() as depth, enable_grad():
        fresh, flat = _prepared(primals, range(len(primals)))
        outputs = func(*fresh)
        if has_aux:
            if not (isinstance(outputs, tuple) and len(outputs) == 2):
                raise RuntimeError('jvp(f, primals, tangents): output of function f should be a tuple: (output, aux) if '
                                   'has_aux is True')
            outputs, aux = outputs
        leaves, spec = _checked_outputs(outputs, 'jvp(f, primals, tangents)')
        wanted = [leaf for part, _ in flat for leaf in part]
        keeps = depth > 1 or _outside(directions) or any(_depends(leaf, wanted, primals, {}) for leaf in leaves)
        if strict and not all(leaf.requires_grad for leaf in leaves):
            raise RuntimeError('jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is '
                               'not allowed with strict=True.')
        pushed = _pushed(leaves, wanted, directions, keeps)
    values = _tree.unflatten([_result(leaf, keeps) for leaf in leaves], spec)
    slopes = _tree.unflatten([_result(value, keeps) for value in pushed], spec)
    return (values, slopes, _tree.map(lambda x: _result(x, keeps), aux)) if has_aux else (values, slopes)


def linearize(func, *primals):
    """(func(*primals), a function of tangents that returns the derivative along them, without running func again)."""
    with _level(), enable_grad():
        fresh, flat = _prepared(primals, range(len(primals)))
        leaves, spec = _checked_outputs(func(*fresh), 'linearize(f, *primals)')
        wanted = [leaf for part, _ in flat for leaf in part]

    def push(*tangents):
        directions = _check_tangents(primals, tangents)
        with enable_grad():
            pushed = _pushed(leaves, wanted, directions, False)
        return _tree.unflatten([value.detach() for value in pushed], spec)
    return _tree.unflatten([leaf.detach() for leaf in leaves], spec), push


# ---- Jacobians ---------------------------------------------------------------------------------------------------


def _basis(leaves):
    """Unit vectors of the elements of several tensors together: for each tensor (count, *shape)."""
    sizes = [leaf.numel() for leaf in leaves]
    total, start, parts = sum(sizes), 0, []
    for leaf, size in zip(leaves, sizes):
        part = _gt.zeros(total, size, dtype=leaf.dtype)
        part[start:start + size] = _gt.eye(size, dtype=leaf.dtype)
        parts.append(part.reshape(total, *leaf.shape))
        start += size
    return parts, sizes


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None, _preallocate_and_copy=False):
    """A function that returns the Jacobian of func by backward passes, all rows at once: shape output.shape + input.shape.

        gt.func.jacrev(gt.exp)(gt.ones(3))
    """
    from gt.func.vmap import vmap

    @functools.wraps(func, assigned=('__name__', '__doc__'), updated=())
    def wrapper(*args):
        numbers = _argnums(argnums, args)

        def partial(*chosen):
            full = list(args)
            for number, value in zip(numbers, chosen):
                full[number] = value
            return func(*full)
        found = vjp(partial, *(args[number] for number in numbers), has_aux=has_aux)
        output, pull = found[0], found[1]
        leaves, spec = _tree.flatten(output)
        basis, sizes = _basis(leaves)
        rows = vmap(lambda *weights: pull(_tree.unflatten(list(weights), spec) if spec is not None else weights[0]),
                    chunk_size=chunk_size)(*basis)
        trees = []
        for k, (leaf, size) in enumerate(zip(leaves, sizes)):
            start = sum(sizes[:k])
            parts = tuple(_tree.map(lambda row: row[start:start + size].reshape(*leaf.shape, *row.shape[1:]), tree)
                          for tree in rows)
            trees.append(parts[0] if isinstance(argnums, int) else parts)
        jacobian = _tree.unflatten(trees, spec)
        return (jacobian, found[2]) if has_aux else jacobian
    return wrapper


def jacfwd(func, argnums=0, has_aux=False, *, randomness='error'):
    """A function that returns the Jacobian of func, one column for each input element, all at once.

        gt.func.jacfwd(gt.exp)(gt.ones(3))
    """
    from gt.func.vmap import vmap

    @functools.wraps(func, assigned=('__name__', '__doc__'), updated=())
    def wrapper(*args):
        numbers = _argnums(argnums, args)
        chosen = tuple(args[number] for number in numbers)
        flat, chosen_spec = _tree.flatten(chosen)
        basis, sizes = _basis(flat)

        def push(*tangents):
            def partial(*values):
                full = list(args)
                for number, value in zip(numbers, values):
                    full[number] = value
                return func(*full)
            found = jvp(partial, chosen, _tree.unflatten(list(tangents), chosen_spec), has_aux=has_aux)
            return (found[1], found[2]) if has_aux else found[1]
        columns = vmap(push, randomness=randomness)(*basis)
        if has_aux:
            columns, aux = columns
            aux = _tree.map(lambda x: x[0], aux)
        leaves, spec = _tree.flatten(columns)
        trees = []
        for column in leaves:
            shape = column.shape[1:]
            parts = [column[sum(sizes[:k]):sum(sizes[:k + 1])].movedim(0, -1).reshape(*shape, *leaf.shape)
                     for k, leaf in enumerate(flat)]
            tree = _tree.unflatten(parts, chosen_spec)
            trees.append(tree[0] if isinstance(argnums, int) else tree)
        jacobian = _tree.unflatten(trees, spec)
        return (jacobian, aux) if has_aux else jacobian
    return wrapper


def hessian(func, argnums=0):
    """A function that returns the matrix of second derivatives of func: jacfwd(jacrev(func)).

        gt.func.hessian(lambda x: (x ** 3).sum())(gt.ones(2))
    """
    return jacfwd(jacrev(func, argnums), argnums)


def functionalize(func, *, remove='mutations'):
    """The function itself: GT's instructions are functional anyway."""
    return func
