"""All parameters as one vector, and back."""

from gt import Tensor, cat
from gt.nn.members import typename


def parameters_to_vector(parameters):
    """All elements of all parameters, in one vector."""
    return cat([parameter.flatten() for parameter in parameters])


def vector_to_parameters(vec, parameters):
    """Copy the elements of one vector into parameters."""
    if not isinstance(vec, Tensor):
        raise TypeError(f'expected gt.Tensor, but got: {typename(vec)}')
    start = 0
    for parameter in parameters:
        count = parameter.numel()
        parameter.data = vec[start:start + count].reshape(parameter.shape).detach()
        start += count
