"""gradcheck and gradgradcheck: compare gradients with finite differences."""

import warnings

from gt import _gt, _help
from gt.autograd.grad_mode import enable_grad, no_grad


class GradcheckError(RuntimeError):
    """Raised by gradcheck and gradgradcheck."""


def _tensors(value):
    return tuple(x for x in (value if isinstance(value, (tuple, list)) else (value,)) if isinstance(x, _gt.Tensor))


def _outputs(value):
    if isinstance(value, _gt.Tensor):
        value = (value,)
    return tuple(x for x in value if isinstance(x, _gt.Tensor) and x.is_floating_point())


def _differentiable(inputs):
    return [(k, x) for k, x in enumerate(inputs) if isinstance(x, _gt.Tensor) and x.requires_grad]


def _check_inputs(inputs):
    wanted = _differentiable(inputs)
    if not wanted:
        raise ValueError('gradcheck expects at least one input tensor to require gradient, but none of the them have '
                         'requires_grad=True.')
    for k, x in wanted:
        if x.dtype not in (_gt.float64, getattr(_gt, 'complex128', None)):
            warnings.warn(f'Input #{k} requires gradient and is not a double precision floating point or complex. This check '
                          'will likely fail if all the inputs are not of double precision floating point or complex. ',
                          stacklevel=3)
        x.retain_grad()
    return wanted


def _numerical(func, inputs, which, eps, count):
    """The Jacobian of each output with respect to input `which`, by central differences: (elements, elements of output)."""
    base = inputs[which].detach()
    size = base.numel()
    rows = [[] for _ in range(count)]
    with no_grad():
        flat = base.reshape(-1)
        for j in range(size):
            step = _gt.zeros(size, dtype=base.dtype)
            step[j] = eps
            values = []
            for moved in (flat + step, flat - step):
                arguments = list(inputs)
                arguments[which] = moved.reshape(base.shape)
                values.append(_outputs(func(*arguments)))
            for k, (up, down) in enumerate(zip(*values)):
                rows[k].append(((up - down) / (2 * eps)).reshape(-1))
        shapes = [output.numel() for output in _outputs(func(*inputs))]
    return [_gt.stack(row) if row else _gt.zeros(0, shapes[k], dtype=base.dtype) for k, row in enumerate(rows)]


def _analytical(output, inputs):
    """The Jacobians of one output with respect to the inputs, by backward passes: (elements, elements of output) each."""
    columns = [[] for _ in inputs]
    flat = output.reshape(-1)
    for j in range(flat.numel()):
        weight = _gt.zeros(flat.numel(), dtype=output.dtype)
        weight[j] = 1
        found = _gt.grad([output], inputs, [weight.reshape(output.shape)], True, False, True)
        for k, (gradient, x) in enumerate(zip(found, inputs)):
            if gradient is not None and gradient.shape != x.shape:
                raise GradcheckError('Analytical gradient has incorrect size')
            columns[k].append(_gt.zeros(x.numel(), dtype=x.dtype) if gradient is None else gradient.detach().reshape(-1))
    return [_gt.stack(column, 1) if column else _gt.zeros(x.numel(), 0, dtype=x.dtype) for column, x in zip(columns, inputs)]


def _close(a, n, rtol, atol):
    return a.shape == n.shape and bool(((a - n).abs() <= atol + rtol * n.abs()).all()) if a.numel() else True


def _expect_constant(func, inputs, wanted, eps, count):
    """No output has a gradient: then none may depend on the inputs."""
    for k, _ in wanted:
        if any(bool((n != 0).any()) for n in _numerical(func, inputs, k, eps, count) if n.numel()):
            raise GradcheckError('Numerical gradient for function expected to be zero')
    return True


def _compare(func, inputs, eps, atol, rtol, nondet_tol):
    wanted = _check_inputs(inputs)
    with enable_grad():
        outputs = _outputs(func(*inputs))
        if not any(output.requires_grad for output in outputs):
            return _expect_constant(func, inputs, wanted, eps, len(outputs))
        tensors = [x for _, x in wanted]
        numerical = {k: _numerical(func, inputs, k, eps, len(outputs)) for k, _ in wanted}
        for j, output in enumerate(outputs):
            if not output.requires_grad:
                continue
            first = _analytical(output, tensors)
            again = _analytical(output, tensors)
            for (k, _), a, b in zip(wanted, first, again):
                if a.numel() and bool(((a - b).abs() > nondet_tol).any()):
                    raise GradcheckError(
                        'Backward is not reentrant, i.e., running backward with same input and grad_output multiple times '
                        'gives different values, although analytical gradient matches numerical gradient. The tolerance for '
                        f'nondeterminism was {nondet_tol}.')
                n = numerical[k][j]
                if not _close(a, n.to(a.dtype), rtol, atol):
                    raise GradcheckError(f'Jacobian mismatch for output {j} with respect to input {k},\n'
                                         f'numerical:{n}\nanalytical:{a}\n')
    return True


def gradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, nondet_tol=0.0,
              check_undefined_grad=True, check_grad_dtypes=False, check_batched_grad=False, check_batched_forward_grad=False,
              check_forward_ad=False, check_backward_ad=True, fast_mode=False, masked=None):
    """Compare the gradients of func at the inputs (float64) with finite differences; True, or GradcheckError.

    raise_exception=False: return False instead. fast_mode makes the same, complete comparison.

        gt.autograd.gradcheck(gt.sin, gt.randn(3, dtype=gt.float64, requires_grad=True))
    """
    if check_forward_ad and not check_backward_ad and not fast_mode:
        raise NotImplementedError('gradcheck: GT has no forward mode of its own (check_forward_ad)')
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    try:
        _compare(func, inputs, eps, atol, rtol, nondet_tol)
        if check_grad_dtypes:
            _check_dtypes(func, inputs)
        if check_batched_grad:
            _check_batched(func, inputs)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check_dtypes(func, inputs):
    wanted = [x for _, x in _differentiable(inputs)]
    outputs = [output for output in _outputs(func(*inputs)) if output.requires_grad]
    for gradient, x in zip(_gt.grad(outputs, wanted, [_gt.ones_like(o) for o in outputs], True, False, True), wanted):
        if gradient is not None and gradient.dtype != x.dtype:
            raise GradcheckError('Analytical gradient has incorrect type')


def _check_batched(func, inputs):
    """A vectorised backward pass gives what single ones do."""
    from gt.func.vmap import vmap_gradients
    wanted = [x for _, x in _differentiable(inputs)]
    for output in _outputs(func(*inputs)):
        if not output.requires_grad:
            continue
        weights = _gt.randn(3, *output.shape, dtype=output.dtype)

        def run(weight):
            return _gt.grad([output], wanted, [weight], True, False, True)
        batched = vmap_gradients(run, [weights])
        for single, many in zip(zip(*(run(weights[k]) for k in range(3))), batched):
            if many is not None and not _gt.stack([g for g in single]).allclose(many):
                raise GradcheckError('While computing batched gradients, got a different result than without batching')


def gradgradcheck(func, inputs, grad_outputs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3, gen_non_contig_grad_outputs=False,
                  raise_exception=True, nondet_tol=0.0, check_undefined_grad=True, check_grad_dtypes=False,
                  check_batched_grad=False, check_fwd_over_rev=False, check_rev_over_rev=True, fast_mode=False, masked=False):
    """gradcheck of the gradient of func: compares second derivatives with finite differences.

    grad_outputs: what the outputs are weighted with; random by default.
    """
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    if grad_outputs is None:
        outputs = [output for output in _outputs(func(*inputs)) if output.requires_grad]
        grad_outputs = tuple(_gt.randn(output.shape, dtype=output.dtype).requires_grad_() for output in outputs)
    else:
        grad_outputs = tuple(grad_outputs) if isinstance(grad_outputs, (tuple, list)) else (grad_outputs,)
    count = len(grad_outputs)

    def gradient(*arguments):
        values, weights = arguments[:-count], arguments[-count:]
        with enable_grad():
            values = tuple(x.requires_grad_() if isinstance(x, _gt.Tensor) and k in which and not x.requires_grad else x
                           for k, x in enumerate(values))
            wanted = [values[k] for k in sorted(which)]
            outputs = [output for output in _outputs(func(*values)) if output.requires_grad]
            found = _gt.grad(outputs, wanted, list(weights), True, True, True)
        return tuple(g for g in found if g is not None)
    which = {k for k, _ in _differentiable(inputs)}
    return gradcheck(gradient, (*inputs, *grad_outputs), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
                     nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
                     check_batched_grad=check_batched_grad, fast_mode=fast_mode)


__dir__ = _help.publish(__name__)
