"""Function: operations whose gradient is written by the user."""

import collections
import functools
import warnings
import weakref

from gt import _gt, _help
from gt.autograd.grad_mode import no_grad
from gt.autograd.graph import _saved_hooks


class _Saved:
    """One tensor saved for backward: its memory, its version and its node; of an output only the memory."""

    object, node = None, None

    def __init__(self, tensor, output):
        self.output, self.hooks = output, _saved_hooks()
        self.version = getattr(tensor, '_version', None) if output is None else None
        self.tensor = tensor if self.hooks is None else self.hooks[0](tensor)
        if output is None and self.hooks is None and _may_follow(tensor):
            # Not the object: once it is changed in place, its history may lead here, and neither would ever be freed.
            self.object, self.tensor, self.node = weakref.ref(tensor), tensor.detach(), _gt._node(tensor)

    def follow(self, result):
        """The object of an output shares its memory with what was saved."""
        self.tensor, self.version = result.detach(), result._version

    def unpack(self, ctx):
        if self.hooks is not None:
            return self.hooks[1](self.tensor)
        now = getattr(self.tensor, '_version', None)
        if self.version is not None and now != self.version:
            kind = f'{self.tensor.type()} {list(self.tensor.shape)}'
            origin = '' if self.output is None else f', which is output {self.output} of {ctx._name},'
            raise RuntimeError(
                'one of the variables needed for gradient computation has been modified by an inplace operation: '
                f'[{kind}]{origin} is at version {now}; expected version {self.version} instead. Hint: enable anomaly '
                'detection to find the operation that failed to compute its gradient, with '
                'gt.autograd.set_detect_anomaly(True).')
        if self.output is not None:
            return ctx._output(self.output, self.tensor)
        original = self.object and self.object()
        if original is not None or self.node is None:
            return self.tensor if original is None else original
        return _gt._attach(self.tensor, self.node)


def _may_follow(tensor):
    """Whether an in-place operation can make the tensor a result of others: any but a leaf that requires a gradient."""
    return (tensor.is_floating_point() or tensor.is_complex()) and not (tensor.requires_grad and tensor.is_leaf)


class FunctionCtx:
    """State that forward() passes to backward(): saved tensors and any attributes."""

    needs_input_grad = ()
    _to_save, _saved, _dirty, _without_gradient, _materialize = (), (), (), (), True
    _node = _attached = _name = None

    def save_for_backward(self, *tensors):
        """Save tensors for backward(), which reads them from saved_tensors."""
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, _gt.Tensor):
                raise TypeError(f'save_for_backward can only save variables, but argument {tensors.index(tensor)} is of type '
                                f'{type(tensor).__name__}')
        self._to_save = tensors

    def save_for_forward(self, *tensors):
        """Accepted: forward mode runs on backward()."""

    def mark_dirty(self, *tensors):
        """Mark arguments that forward() changed in place; it returns them."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors):
        """Mark outputs that have no gradient."""
        self._without_gradient = tensors

    def set_materialize_grads(self, value):
        """Whether backward() gets zeros or None for unused outputs."""
        self._materialize = value

    @property
    def saved_tensors(self):
        """The tensors of save_for_backward()."""
        if self._saved is None:
            raise RuntimeError(
                'Trying to backward through the graph a second time (or directly access saved tensors after they have '
                'already been freed). Saved intermediate values of the graph are freed when you call .backward() or '
                'autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or if '
                'you need to access saved tensors after calling backward.')
        if self._saved == () and self._to_save:
            return tuple(self._to_save)
        return tuple(None if saved is None else saved.unpack(self) for saved in self._saved)

    saved_variables = saved_tensors

    def _output(self, k, value):
        """Output k again, as the result of this operation, for a second derivative."""
        return value if self._attached is None else self._attached(k, value)

    def _drop(self):
        self._saved = None


FunctionContext = BackwardCFunction = FunctionCtx


class FunctionMeta(type):
    """The type of Functions."""


class Function(metaclass=FunctionMeta):
    """An operation with its own gradient: write forward(ctx, ...) and backward(ctx, *gradients), call apply(...).

        class Exp(gt.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                y = x.exp()
                ctx.save_for_backward(y)
                return y

            @staticmethod
            def backward(ctx, gradient):
                (y,) = ctx.saved_tensors
                return gradient * y
    """

    generate_vmap_rule = False

    def __init__(self, *arguments, **options):
        warnings.warn(f'{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should '
                      'invoke them on the class itself. Instantiating an autograd function will raise an error in a future '
                      'version of PyTorch.', DeprecationWarning, stacklevel=2)

    @staticmethod
    def forward(*arguments, **options):
        """The results, a tensor or a tuple."""
        raise NotImplementedError('You must implement the forward function for custom autograd.Function.')

    @staticmethod
    def setup_context(ctx, inputs, output):
        """If defined, forward() takes no ctx, and this prepares it."""
        raise NotImplementedError('setup_context is not implemented.')

    @staticmethod
    def backward(ctx, *grad_outputs):
        """A gradient, or None, for each argument of forward()."""
        raise NotImplementedError(
            'You must implement either the backward or vjp method for your custom autograd.Function to use it with backward '
            'mode AD.')

    @staticmethod
    def vmap(info, in_dims, *args):
        """If defined, the operation on a batch: returns (output, out_dims). info has batch_size and randomness."""
        raise NotImplementedError('vmap is not implemented.')

    @staticmethod
    def jvp(ctx, *grad_inputs):
        """Not used: forward mode runs on backward()."""
        raise NotImplementedError('You must implement the jvp function for custom autograd.Function to use it with forward '
                                  'mode AD.')

    @classmethod
    def apply(cls, *args, **keywords):
        """Run forward() and record it, with backward() as its gradient."""
        if _gt._vmap_active():
            level = max((_gt._vmap_level(value) for value in args if isinstance(value, _gt.Tensor)), default=0)
            if level:
                return _apply_batched(cls, level, args, keywords)
        ctx = FunctionCtx()
        ctx.needs_input_grad = tuple(isinstance(value, _gt.Tensor) and value.requires_grad for value in args)
        leaf, nodes = _dirty_leaf(args), _nodes(args)
        with no_grad():
            if cls.setup_context is Function.setup_context:
                result = cls.forward(ctx, *args, **keywords)
            else:
                result = cls.forward(*args, **keywords)
                cls.setup_context(ctx, args, result)
        recorded = _gt.is_grad_enabled() and any(ctx.needs_input_grad)
        if not recorded:
            return result
        single = not isinstance(result, (tuple, list))
        if ctx._dirty:  # what was changed in place has lost its node
            operands = tuple(value if node is None else _gt._attach(value, node) for value, node in zip(args, nodes))
        else:
            operands = args
        outputs = _recorded(cls, ctx, args, operands, (result,) if single else tuple(result), leaf)
        return outputs[0] if single else outputs


VmapInfo = collections.namedtuple('VmapInfo', 'batch_size randomness')


def _apply_batched(cls, level, args, keywords):
    """apply() inside a vmap: by the class's own rule vmap(info, in_dims, *args), or sample by sample."""
    dims = tuple(0 if isinstance(value, _gt.Tensor) and _gt._vmap_level(value) == level else None for value in args)
    whole = [value if dim is None else _gt._vmap_unwrap(value, level) for value, dim in zip(args, dims)]
    size = next(value.shape[0] for value, dim in zip(whole, dims) if dim == 0)
    if cls.vmap is not Function.vmap:
        output, out_dims = cls.vmap(VmapInfo(size, 'error'), dims, *whole, **keywords)
        if not isinstance(output, (tuple, list)):
            return output if out_dims is None else _gt._vmap_wrap(output.movedim(out_dims, 0), level)
        out_dims = out_dims if isinstance(out_dims, (tuple, list)) else (out_dims,) * len(output)
        return tuple(one if dim is None else _gt._vmap_wrap(one.movedim(dim, 0), level)
                     for one, dim in zip(output, out_dims))
    if cls not in _warned:
        _warned.add(cls)
        warnings.warn(f'There is a performance drop because {cls.__name__} has no vmap staticmethod. It is computed sample by '
                      'sample.', stacklevel=3)
    rows = [cls.apply(*(value if dim is None else value[k] for value, dim in zip(whole, dims)), **keywords)
            for k in range(size)]
    if isinstance(rows[0], _gt.Tensor):
        return _gt._vmap_wrap(_gt.stack(rows), level)
    return tuple(_gt._vmap_wrap(_gt.stack(list(column)), level) for column in zip(*rows))


_warned = set()  # Functions that were computed sample by sample


def _dirty_leaf(args):
    """Ids of arguments that may not be changed in place."""
    return {id(value) for value in args if isinstance(value, _gt.Tensor) and value.requires_grad and value.is_leaf}


def _nodes(args):
    """The nodes of the arguments, None for those without a gradient."""
    return [_gt._node(value) if isinstance(value, _gt.Tensor) else None for value in args]


def _index(item, items):
    return next((k for k, other in enumerate(items) if other is item), None)


def _differentiable(ctx, output):
    return (isinstance(output, _gt.Tensor) and (output.is_floating_point() or output.is_complex())
            and _index(output, ctx._without_gradient) is None)


def _recorded(cls, ctx, args, operands, outputs, leaves):
    """The outputs as results of a node on the tape whose rule is backward()."""
    for tensor in ctx._dirty:
        if id(tensor) in leaves and _gt.is_grad_enabled():
            raise RuntimeError('a leaf Variable that requires grad is being used in an in-place operation.')
    values = [output.detach() if isinstance(output, _gt.Tensor) else output for output in outputs]
    ctx._saved = tuple(
        None if tensor is None else _Saved(tensor if k is None else values[k], k)
        for tensor in ctx._to_save
        for k in [None if _index(tensor, args) is not None and _index(tensor, ctx._dirty) is None
                  else _index(tensor, outputs)])
    keeps = bool(ctx._to_save)
    ctx._to_save = ()
    name = ctx._name = cls.__name__ + 'Backward'
    wanted = [k for k, output in enumerate(outputs) if _differentiable(ctx, output)]
    shapes = [(value.shape, value.dtype) if isinstance(value, _gt.Tensor) else None for value in values]
    run = functools.partial(_run, cls, ctx, _args_info(args), shapes, name)
    results = list(values)
    for k, output in enumerate(outputs):  # an argument that is returned as it is becomes a view of it
        if isinstance(output, _gt.Tensor) and k not in wanted:
            results[k] = output if _index(output, args) is None else output.detach()
    if len(wanted) == 1:
        (k,) = wanted
        results[k] = _gt._custom(values[k], operands, functools.partial(_only, run, k, len(values)), ctx._drop, name, keeps)
        ctx._attached = _Reattached(ctx, k)
    elif wanted:
        arrived = [None] * len(values)
        token = _gt._custom(_gt.zeros(0), operands, functools.partial(_all, run, arrived), ctx._drop, name, keeps)
        for k in wanted:
            results[k] = _port(values[k], token, arrived, k, name)
        ctx._attached = _Reattached(ctx, None, arrived, name)
    for saved in ctx._saved:
        if saved is not None and saved.hooks is None and saved.output in wanted:
            saved.follow(results[saved.output])
    for k, output in enumerate(outputs):
        if _index(output, ctx._dirty) is not None:
            output._become(results[k])
            results[k] = output
    return tuple(results)


def _args_info(args):
    """Shape and dtype of the arguments that are tensors."""
    return [(value.shape, value.dtype) if isinstance(value, _gt.Tensor) else None for value in args]


class _Reattached:
    """Makes an output that was saved lead back to its operation, while backward() runs."""

    def __init__(self, ctx, only, arrived=None, name=None):
        self.only, self.arrived, self.name, self.node = only, arrived, name, None
        ctx._reattach = self

    def __call__(self, k, value):
        if self.node is None:
            return value
        if self.only is not None:
            return _gt._attach(value, self.node) if k == self.only else value
        return _port(value, _gt._attach(_gt.zeros(0), self.node), self.arrived, k, self.name)


def _port(value, token, arrived, k, name):
    """Output k of an operation with several: its gradient is kept until those of all outputs are known."""
    def keep(gradient, node, wanted):
        arrived[k] = gradient if arrived[k] is None else arrived[k] + gradient
        return (_gt.zeros(0),)
    return _gt._custom(value, (token,), keep, None, name, False)


def _only(run, k, count, gradient, node, wanted):
    gradients = [None] * count
    gradients[k] = gradient
    return run(gradients, node)


def _all(run, arrived, gradient, node, wanted):
    gradients = list(arrived)
    arrived[:] = [None] * len(arrived)
    return run(gradients, node)


def _run(cls, ctx, arguments, shapes, name, gradients, node):
    """Call backward() and check what it returns."""
    if ctx._materialize:
        gradients = [_gt.zeros(shapes[k][0], dtype=shapes[k][1]) if gradient is None and shapes[k] else gradient
                     for k, gradient in enumerate(gradients)]
    ctx._reattach.node = node
    try:
        found = cls.backward(ctx, *gradients)
    finally:
        ctx._reattach.node = None
    found = list(found) if isinstance(found, (tuple, list)) else [found]
    while len(found) > len(arguments) and found[-1] is None:
        found.pop()
    if len(found) != len(arguments):
        raise RuntimeError(f'function {name} returned an incorrect number of gradients (expected {len(arguments)}, got '
                           f'{len(found)})')
    for k, (gradient, info) in enumerate(zip(found, arguments)):
        if gradient is None or not ctx.needs_input_grad[k]:
            found[k] = None
            continue
        if not isinstance(gradient, _gt.Tensor):
            raise TypeError(f'expected Variable or None (got {type(gradient).__name__})')
        if gradient.shape != info[0]:
            lead = gradient.ndim - len(info[0])
            if lead < 0 or any(want not in (1, have) for want, have in zip(info[0], gradient.shape[lead:])):
                raise RuntimeError(f'Function {name} returned an invalid gradient at index {k} - got {list(gradient.shape)} '
                                   f'but expected shape compatible with {list(info[0])}')
    return found


def once_differentiable(fn):
    """Decorate backward(): its operations are not recorded, and a second derivative raises an error."""
    @functools.wraps(fn)
    def wrapper(ctx, *gradients):
        with no_grad():
            outputs = fn(ctx, *gradients)
        if not _gt.is_grad_enabled() or not any(isinstance(g, _gt.Tensor) and g.requires_grad for g in gradients):
            return outputs
        single = not isinstance(outputs, tuple)
        given = tuple(g for g in gradients if isinstance(g, _gt.Tensor))

        def refuse(gradient, node, wanted):
            raise RuntimeError('trying to differentiate twice a function that was marked with @once_differentiable')
        made = tuple(output if output is None else _gt._custom(output.detach(), given, refuse, None, 'OnceBackward', False)
                     for output in ((outputs,) if single else outputs))
        return made[0] if single else made
    return wrapper


class InplaceFunction(Function):
    """A Function with an option inplace; PyTorch keeps it for old code."""


class NestedIOFunction(Function):
    """PyTorch's old Function of nested arguments; refused."""

    @classmethod
    def apply(cls, *args, **keywords):
        raise NotImplementedError('NestedIOFunction is not supported; use Function with flat arguments')

__dir__ = _help.publish(__name__)
