"""Parameter: a tensor that a module trains. Buffer: one that it only keeps. Both may be without a shape at first."""

import gt
from gt import Tensor
from gt.client.tensor import reduce_attributes


class Parameter(Tensor):
    """A leaf tensor that Module.parameters() finds; it requires gradients unless told otherwise.

    >>> weight = nn.Parameter(gt.zeros(3))
    """

    def __new__(cls, data=None, requires_grad=True):
        return Tensor.__new__(cls, gt.empty(0) if data is None else data, requires_grad)

    def __copy__(self):
        return type(self)(self, self.requires_grad)

    def __deepcopy__(self, memo):
        known = memo.get(id(self))
        if known is None:
            known = memo[id(self)] = type(self)(self.detach().clone(), self.requires_grad)
        return known

    def __reduce__(self):
        return reduce_attributes(self, (type(self), (self.detach(), self.requires_grad)))

    def __repr__(self):
        return 'Parameter containing:\n' + super().__repr__()


class Buffer(Tensor):
    """A tensor that becomes a buffer of the module that it is assigned to.

    >>> self.mask = nn.Buffer(gt.ones(3), persistent=False)
    """

    def __new__(cls, data=None, *, persistent=True):
        data = gt.empty(0) if data is None else data
        buffer = Tensor.__new__(cls, data.detach() if isinstance(data, Tensor) else data, False)
        buffer.persistent = persistent
        return buffer


class UninitializedTensorMixin:
    """A tensor whose shape is not known yet: materialize(shape) makes it an ordinary one."""

    cls_to_become = None

    def materialize(self, shape, device=None, dtype=None):
        """Take a shape and, if given, a dtype; the values are undefined until they are initialised."""
        self.data = gt.empty(shape, dtype=dtype or self.dtype)
        self.__class__ = self.cls_to_become

    @property
    def shape(self):
        """Not known: raises RuntimeError."""
        raise RuntimeError("Can't access the shape of an uninitialized parameter or buffer. This error usually happens "
                           'in `load_state_dict` when trying to load an uninitialized parameter into an initialized '
                           'one. Call `forward` to initialize the parameters before accessing their attributes.')

    def share_memory_(self):
        """Not known: raises RuntimeError."""
        raise RuntimeError("Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize "
                           'the parameters before calling `module.share_memory()`.')

    def __repr__(self):
        return f'<{type(self).__name__}>'

    def __reduce__(self):
        return type(self), (self.requires_grad,) if isinstance(self, Parameter) else ()

    def __deepcopy__(self, memo):
        known = memo.get(id(self))
        if known is None:
            function, arguments = self.__reduce__()
            known = memo[id(self)] = function(*arguments, dtype=self.dtype)
        return known


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape the first forward() of its lazy module decides."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad=True, device=None, dtype=None):
        return Parameter.__new__(cls, gt.empty(0, dtype=dtype), requires_grad)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape the first forward() of its lazy module decides."""

    cls_to_become = Buffer

    def __new__(cls, requires_grad=False, device=None, dtype=None, persistent=True):
        buffer = Tensor.__new__(cls, gt.empty(0, dtype=dtype), requires_grad)
        buffer.persistent = persistent
        return buffer


def zero_in_place(parameter):
    """Set the gradient of a parameter to zero, without its history."""
    if parameter.grad.requires_grad:
        parameter.grad = parameter.grad.detach()
    parameter.grad.zero_()


def is_lazy(param):
    """Whether a parameter or buffer has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)
