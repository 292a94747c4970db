"""Transformations of functions: grad, vjp, jvp, jacrev, jacfwd, hessian, vmap, and functional_call for modules.

    per_sample = gt.func.vmap(gt.func.grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
"""

from gt import _help
from gt.func.functional_call import functional_call, replace_all_batch_norm_modules_, stack_module_state  # noqa: F401
from gt.func.transforms import (  # noqa: F401
    functionalize, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp)
from gt.func.vmap import vmap  # noqa: F401

__all__ = ['functional_call', 'functionalize', 'grad', 'grad_and_value', 'hessian', 'jacfwd', 'jacrev', 'jvp', 'linearize',
           'replace_all_batch_norm_modules_', 'stack_module_state', 'vjp', 'vmap']

__dir__ = _help.publish(__name__)
