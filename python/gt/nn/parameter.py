"""Parameter: a tensor that a module trains."""

from gt import Tensor


class Parameter(Tensor):
    """A leaf tensor that Module.parameters() finds; it requires gradients unless told otherwise."""

    def __new__(cls, data, requires_grad=True):
        return Tensor.__new__(cls, data, requires_grad)

    def __copy__(self):
        return type(self)(self, self.requires_grad)

    def __deepcopy__(self, memo):
        memo[id(self)] = copy = type(self)(self.detach().clone(), self.requires_grad)
        return copy

    def __reduce__(self):
        return type(self), (self.detach(), self.requires_grad)

    def __repr__(self):
        return 'Parameter containing:\n' + super().__repr__()
