"""Gradients: grad(), backward(), which operations are recorded, operations with a gradient of their own.

    x = gt.tensor(3.0, requires_grad=True)
    (slope,) = gt.autograd.grad(x * x, x)       # 6
"""

from gt import _gt, _help
from gt.autograd import function, graph  # noqa: F401
from gt.autograd.anomaly_mode import detect_anomaly, is_anomaly_enabled, set_detect_anomaly  # noqa: F401
from gt.autograd.function import Function  # noqa: F401
from gt.autograd.grad_mode import (  # noqa: F401
    enable_grad, inference_mode, is_inference_mode_enabled, no_grad, set_grad_enabled)
from gt.autograd.graph import RemovableHandle, register_hook  # noqa: F401
from gt.autograd.variable import Variable  # noqa: F401


def _listed(value):
    return [value] if isinstance(value, _gt.Tensor) else list(value)


def _check_gradients(outputs, gradients, batched):
    """The errors that PyTorch raises for gradients that do not fit."""
    if len(outputs) != len(gradients):
        raise RuntimeError(f'got {len(outputs)} tensors and {len(gradients)} gradients')
    for k, (output, gradient) in enumerate(zip(outputs, gradients)):
        if gradient is None:
            if output.requires_grad and output.numel() != 1:
                raise RuntimeError('grad can be implicitly created only for scalar outputs')
            continue
        if not isinstance(gradient, _gt.Tensor):
            raise TypeError(f'gradients can be either Tensors or None, but got {type(gradient).__name__}')
        shape = gradient.shape[1:] if batched else gradient.shape
        if shape != output.shape:
            hint = ('If you only want some tensors in `grad_output` to be considered batched, consider using vmap.'
                    if batched else '')
            raise RuntimeError(
                ('If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch dimension. '
                 'The sizes of the remaining dimensions are expected to match the shape of corresponding output, but a '
                 'mismatch was detected: ' if batched else 'Mismatch in shape: ')
                + f'grad_output[{k}] has a shape of {gradient.shape} and output[{k}] has a shape of {output.shape}.' + hint)


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None):
    """Add the gradients of the sum of tensors, each times its gradient, to .grad of all leaves, or of `inputs` only.

        gt.autograd.backward([loss1, loss2])
    """
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError('`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. '
                               'Please only use `grad_tensors`.')
        grad_tensors = grad_variables
    if inputs is not None and not isinstance(inputs, _gt.Tensor) and len(inputs) == 0:
        raise RuntimeError('`inputs` argument to `backward()` cannot be empty.')
    tensors = _listed(tensors)
    gradients = [None] * len(tensors) if grad_tensors is None else _listed(grad_tensors)
    _check_gradients(tensors, gradients, False)
    _gt._backward(tensors, gradients, retain_graph, create_graph, inputs)


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True, allow_unused=None,
         is_grads_batched=False, materialize_grads=False):
    """The gradients of the sum of outputs, each times its grad_output, with respect to the inputs, as a tuple.

    allow_unused: None for inputs that the outputs do not depend on, instead of an error; materialize_grads: zeros.
    is_grads_batched: grad_outputs have one more dimension in front, over which the computation is vectorised.

        (slope,) = gt.autograd.grad(y, x)
    """
    if not only_inputs:
        import warnings
        warnings.warn('only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for '
                      'other parts of the graph, please use torch.autograd.backward.', FutureWarning, stacklevel=2)
    if materialize_grads and allow_unused is False:
        raise ValueError('Expected allow_unused to be True or not passed when materialize_grads=True, but got: '
                         'allow_unused=False.')
    outputs, inputs = _listed(outputs), _listed(inputs)
    gradients = [None] * len(outputs) if grad_outputs is None else _listed(grad_outputs)
    _check_gradients(outputs, gradients, is_grads_batched)
    unused = bool(allow_unused) or materialize_grads

    def run(*given):
        return _gt.grad(outputs, inputs, list(given), retain_graph, create_graph, unused, False, materialize_grads)
    if not is_grads_batched:
        return run(*gradients)
    from gt.func.vmap import vmap_gradients
    return vmap_gradients(run, gradients)


# Loaded on first use, so that `import gt` stays short: modules, and functions of gradcheck.
_LATER = {'forward_ad': None, 'functional': None, 'profiler': None, 'GradcheckError': 'gradcheck', 'gradcheck': 'gradcheck',
          'gradgradcheck': 'gradcheck'}


def __getattr__(name):
    if name not in _LATER:
        raise AttributeError(f"module 'gt.autograd' has no attribute '{name}'")
    import importlib
    module = importlib.import_module('gt.autograd.' + (_LATER[name] or name))
    if not _LATER[name]:
        return module
    for function_name in ('GradcheckError', 'gradcheck', 'gradgradcheck'):  # gradcheck is a module and its function
        globals()[function_name] = getattr(module, function_name)
    return globals()[name]


__dir__ = _help.publish(__name__, *_LATER)
