"""Variable: PyTorch's old name of a tensor with a gradient."""

from gt import _gt


class _VariableMeta(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, _gt.Tensor)


class Variable(metaclass=_VariableMeta):
    """Variable(tensor, requires_grad=False): a tensor of the same value. isinstance() is true for every tensor."""

    def __new__(cls, data, requires_grad=False, volatile=False):
        made = data.detach() if isinstance(data, _gt.Tensor) else _gt.tensor(data)
        return made.requires_grad_() if requires_grad else made
