"""Derivatives of functions: jacobian, hessian, and products of them with vectors.

    gt.autograd.functional.jacobian(lambda x: x.exp(), gt.ones(2))      # diagonal, (2, 2)
"""

from gt import _gt, _help
from gt.autograd.grad_mode import enable_grad


def _grad(outputs, inputs, gradients, create_graph):
    """Gradients, None where an output does not depend on an input, and for outputs without a gradient."""
    pairs = [(output, gradient) for output, gradient in zip(outputs, gradients) if output.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    return _gt.grad([output for output, _ in pairs], list(inputs), [gradient for _, gradient in pairs], True, create_graph,
                    True)


def _tuple(value, what, function):
    if isinstance(value, _gt.Tensor):
        return False, (value,)
    tuple_ = tuple(value) if isinstance(value, (tuple, list)) else None
    if tuple_ is None:
        raise TypeError(f'The {what} given to {function} must be either a Tensor or a tuple of Tensors but the given {what} '
                        f'has type {type(value)}.')
    for k, item in enumerate(tuple_):
        if not isinstance(item, _gt.Tensor):
            raise TypeError(f'The {what} given to {function} must be either a Tensor or a tuple of Tensors but the value at '
                            f'index {k} of the given {what} has type {type(item)}.')
    return True, tuple_


def _ready(inputs, create_graph):
    """Inputs that gradients can be asked of: parts of the graph if create_graph, else leaves."""
    if create_graph:
        return tuple(x.view_as(x) if x.requires_grad else x.detach().clone().requires_grad_() for x in inputs)
    return tuple(x.detach().clone().requires_grad_() for x in inputs)


def _done(values, create_graph):
    return values if create_graph else tuple(value.detach() for value in values)


def _unwrap(is_tuple, values):
    return tuple(values) if is_tuple else values[0]


def _filled(values, likes, strict, stage, create_graph):
    """Zeros for missing gradients; with strict an error that names the problem, as in PyTorch."""
    filled = []
    for k, (value, like) in enumerate(zip(values, likes)):
        if value is None:
            if strict:
                raise RuntimeError({
                    'back': f'The output of the user-provided function is independent of input {k}. This is not allowed in '
                            'strict mode.',
                    'back_trick': f'The gradient with respect to the input is independent of entry {k} in the grad_outputs '
                                  'when using the double backward trick to compute forward mode gradients. This is not '
                                  'allowed in strict mode.',
                    'double_back': f'The jacobian of the user-provided function is independent of input {k}. This is not '
                                   'allowed in strict mode.',
                    'double_back_trick': f'The hessian of the user-provided function is independent of entry {k} in the '
                                         'grad_jacobian. This is not allowed in strict mode as it prevents from using the '
                                         'double backward trick to replace forward mode AD.'}[stage])
            value = _gt.zeros_like(like)
        elif strict and create_graph and not value.requires_grad:
            kind = 'jacobian' if stage == 'back' else 'hessian' if 'double' in stage else 'jacobian'
            raise RuntimeError(f'The {kind} of the user-provided function is independent of input {k}. This is not allowed '
                               'in strict mode when create_graph=True.')
        filled.append(value)
    return tuple(filled)


def _check_outputs(outputs, strict):
    for k, output in enumerate(outputs):
        if strict and not output.requires_grad:
            raise RuntimeError(f'Output {k} of the user-provided function does not require gradients. The outputs must be '
                               'computed in a differentiable manner from the input when running in strict mode.')


def _vector(v, likes, is_tuple, message):
    """The vector v as a tuple that fits `likes`."""
    if v is None:
        if len(likes) != 1 or likes[0].numel() != 1:
            raise RuntimeError(message)
        return tuple(_gt.ones_like(like) for like in likes)
    v_tuple, v = _tuple(v, 'v', 'the function')
    if len(v) != len(likes):
        if is_tuple:
            raise RuntimeError(f'v is a tuple of invalid length: should be {len(likes)} but got {len(v)}.')
        raise RuntimeError('The given v should contain a single Tensor.')
    for k, (one, like) in enumerate(zip(v, likes)):
        if one.shape != like.shape:
            prefix = f'Entry {k} in ' if is_tuple else ''
            raise RuntimeError(f'{prefix}v has invalid size: should be {like.shape} but got {one.shape}.')
    return tuple(v)


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), v times the Jacobian): the gradient of the outputs weighted by v.

        outputs, product = vjp(f, x, v)
    """
    with enable_grad():
        is_tuple, inputs = _tuple(inputs, 'inputs', 'vjp')
        ready = _ready(inputs, create_graph)
        out_tuple, outputs = _tuple(func(*ready), 'outputs of the user-provided function', 'vjp')
        _check_outputs(outputs, strict)
        v = _vector(v, outputs, out_tuple, 'The vector v can only be None if the user-provided function returns a single '
                                           'Tensor with a single element.')
    with _maybe_graph(create_graph):
        product = _filled(_grad(outputs, ready, v, create_graph), ready, strict, 'back', create_graph)
    return _unwrap(out_tuple, _done(outputs, create_graph)), _unwrap(is_tuple, _done(product, create_graph))


class _maybe_graph(enable_grad):
    """Recording, if a graph is wanted; else as it is."""

    def __new__(cls, wanted):
        return object.__new__(cls)

    def __init__(self, wanted):
        super().__init__()
        self.mode = True if wanted else _gt.is_grad_enabled()


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), the Jacobian times v): the derivative along v, by differentiating twice backwards.

        outputs, product = jvp(f, x, v)
    """
    with enable_grad():
        is_tuple, inputs = _tuple(inputs, 'inputs', 'jvp')
        ready = _ready(inputs, create_graph)
        v = _vector(v, ready, is_tuple, 'The vector v can only be None if the input to the user-provided function is a single '
                                        'Tensor with a single element.')
        out_tuple, outputs = _tuple(func(*ready), 'outputs of the user-provided function', 'jvp')
        _check_outputs(outputs, strict)
        weights = tuple(_gt.zeros_like(output).requires_grad_() for output in outputs)
        through = _filled(_grad(outputs, ready, weights, True), ready, strict, 'back', True)
        product = _filled(_grad(through, weights, v, create_graph), outputs, strict, 'back_trick', create_graph)
    return _unwrap(out_tuple, _done(outputs, create_graph)), _unwrap(out_tuple, _done(product, create_graph))


def _rows(outputs, ready, create_graph, strict, vectorize):
    """For each output, the tuple of its Jacobians with respect to the inputs."""
    jacobians = []
    for k, output in enumerate(outputs):
        count = output.numel()
        if not output.requires_grad:
            parts = [_gt.zeros(*output.shape, *x.shape, dtype=x.dtype) for x in ready]
        elif vectorize and count:
            from gt.func.vmap import vmap_gradients
            basis = _gt.eye(count, dtype=output.dtype).reshape(count, *output.shape)
            found = vmap_gradients(lambda g: _gt.grad([output], list(ready), [g], True, create_graph, True), [basis])
            parts = [_gt.zeros(*output.shape, *x.shape, dtype=x.dtype) if part is None
                     else part.reshape(*output.shape, *x.shape) for part, x in zip(found, ready)]
        else:
            flat = output.reshape(-1)
            rows = [_filled_row(_gt.grad([flat[j]], list(ready), None, True, create_graph, True), ready, k, strict,
                                create_graph) for j in range(count)]
            parts = [_gt.stack([row[n] for row in rows]).reshape(*output.shape, *x.shape) if rows
                     else _gt.zeros(*output.shape, *x.shape, dtype=x.dtype) for n, x in enumerate(ready)]
        jacobians.append(tuple(parts))
    return jacobians


def _filled_row(row, ready, output, strict, create_graph):
    for n, value in enumerate(row):
        if value is None and strict:
            raise RuntimeError(f'Output {output} of the user-provided function is independent of input {n}. This is not '
                               'allowed in strict mode.')
        if value is not None and strict and create_graph and not value.requires_grad:
            raise RuntimeError('The jacobian of the user-provided function is independent of '
                               f'input {n}. This is not allowed in strict mode when create_graph=True.')
    return [_gt.zeros_like(x) if value is None else value for value, x in zip(row, ready)]


def _check_strategy(strategy, vectorize, strict, create_graph):
    if strategy not in ('forward-mode', 'reverse-mode'):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has '
                             'more outputs than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use '
                             '"reverse-mode".')
    if strategy == 'forward-mode' and create_graph:
        raise NotImplementedError('torch.autograd.functional.jacobian: `create_graph=True` and `strategy="forward-mode"` are '
                                  'not supported together (yet). Please either set `create_graph=False` or '
                                  '`strategy="reverse-mode"`.')
    if strategy == 'forward-mode' and strict:
        raise RuntimeError('torch.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` are not supported '
                           'together (yet). Please either set `strict=False` or `strategy="reverse-mode"`.')
    if strategy == 'forward-mode' and not vectorize:
        raise NotImplementedError('Computing Jacobian using forward-AD or forward-over-reverse Hessian is only implemented '
                                  'for `vectorize=True`.')
    if vectorize and strict:
        raise RuntimeError('torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported '
                           'together. Please either set `strict=False` or `vectorize=False`.')


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False, strategy='reverse-mode'):
    """The derivative of each output with respect to each input: shape output.shape + input.shape, in nested tuples where
    there are several. vectorize: all rows in one vectorised backward pass.

        jacobian(f, x)
    """
    _check_strategy(strategy, vectorize, strict, create_graph)
    with enable_grad():
        is_tuple, inputs = _tuple(inputs, 'inputs', 'jacobian')
        ready = _ready(inputs, create_graph)
        out_tuple, outputs = _tuple(func(*ready), 'outputs of the user-provided function', 'jacobian')
        _check_outputs(outputs, strict)
        rows = _rows(outputs, ready, create_graph, strict, vectorize)
        rows = [_done(row, create_graph) for row in rows]
    return _unwrap(out_tuple, [_unwrap(is_tuple, row) for row in rows])


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False, outer_jacobian_strategy='reverse-mode'):
    """The second derivatives of a scalar function: shape input.shape + input.shape, in nested tuples for several inputs.

        hessian(lambda x: (x ** 3).sum(), gt.ones(2))
    """
    is_tuple, inputs = _tuple(inputs, 'inputs', 'hessian')
    if outer_jacobian_strategy not in ('forward-mode', 'reverse-mode'):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')

    def scalar(*values):
        output = func(*values)
        if not isinstance(output, _gt.Tensor):
            raise RuntimeError('The function given to hessian should return a single Tensor')
        if output.numel() != 1:
            raise RuntimeError('The Tensor returned by the function given to hessian should contain a single element')
        return output.squeeze() if output.ndim else output

    def first(*values):
        if outer_jacobian_strategy == 'forward-mode':
            values = tuple(value.requires_grad_() for value in values)
        found = jacobian(scalar, values, create_graph=True)
        return found
    strategy = outer_jacobian_strategy
    result = jacobian(first, inputs, create_graph, strict, vectorize, strategy)
    return result if is_tuple else result[0][0]


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), v times the Hessian) of a scalar function."""
    with enable_grad():
        is_tuple, inputs = _tuple(inputs, 'inputs', 'vhp')
        ready = _ready(inputs, create_graph)
        v = _vector(v, ready, is_tuple, 'The vector v can only be None if the input to the user-provided function is a single '
                                        'Tensor with a single element.')
        output = _scalar_output(func(*ready), 'vhp', strict)
        first = _filled(_grad((output,), ready, (None,), True), ready, strict, 'back', True)
        product = _filled(_grad(first, ready, v, create_graph), ready, strict, 'double_back', create_graph)
    return _done((output,), create_graph)[0], _unwrap(is_tuple, _done(product, create_graph))


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), the Hessian times v) of a scalar function, by differentiating twice backwards."""
    with enable_grad():
        is_tuple, inputs = _tuple(inputs, 'inputs', 'hvp')
        ready = _ready(inputs, create_graph)
        v = _vector(v, ready, is_tuple, 'The vector v can only be None if the input to the user-provided function is a single '
                                        'Tensor with a single element.')
        output = _scalar_output(func(*ready), 'hvp', strict)
        first = _filled(_grad((output,), ready, (None,), True), ready, strict, 'back', True)
        weights = tuple(_gt.zeros_like(x).requires_grad_() for x in ready)
        double = _filled(_grad(first, ready, weights, True), ready, strict, 'double_back', True)
        product = _filled(_grad(double, weights, v, create_graph), ready, strict, 'double_back_trick', create_graph)
    return _done((output,), create_graph)[0], _unwrap(is_tuple, _done(product, create_graph))


def _scalar_output(outputs, name, strict):
    is_tuple, outputs = _tuple(outputs, 'outputs of the user-provided function', name)
    _check_outputs(outputs, strict)
    if is_tuple:
        raise RuntimeError(f'The function given to {name} should return a single Tensor')
    if outputs[0].numel() != 1:
        raise RuntimeError(f'The Tensor returned by the function given to {name} should contain a single element')
    return outputs[0]

__dir__ = _help.publish(__name__)
