"""gt.FloatTensor, gt.LongTensor and the others, Tensor.type() and Tensor.new(): PyTorch's old typed constructors."""

import builtins

from gt import _gt
from gt._gt import Tensor
from gt.client.registry import method

_DTYPES = (_gt.float32, _gt.float64, _gt.float16, _gt.bfloat16, _gt.int64, _gt.int32, _gt.int16, _gt.int8, _gt.uint8, _gt.bool,
           _gt.complex64, _gt.complex128)


class _TypedMeta(type):
    """The type of the classes: isinstance(tensor, gt.LongTensor) compares dtypes."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, Tensor) and instance.dtype == cls.dtype

    def __subclasscheck__(cls, subclass):
        return subclass is cls

    def __repr__(cls):
        return f"<class 'gt.{cls.__name__}'>"


def _construct(dtype, arguments):
    """Of sizes, of a sequence, or of an array."""
    if len(arguments) == 1 and isinstance(arguments[0], Tensor):
        if arguments[0].dtype != dtype:
            raise TypeError(f'expected a tensor of dtype {dtype.name}, but got {arguments[0].dtype.name}; use to() to convert')
        return arguments[0].to(dtype)
    if len(arguments) == 1 and not isinstance(arguments[0], (int, _gt.Size)):
        return _gt.tensor(arguments[0], dtype=dtype)
    sizes = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], _gt.Size) else arguments
    return _gt.empty(tuple(sizes) or (0,), dtype=dtype)


def _make(name, dtype):
    def new(cls, *arguments, device=None):
        return _construct(cls.dtype, arguments)
    doc = f'{name}(*sizes) or {name}(data): a tensor of dtype {dtype.name}.'
    return _TypedMeta(name, (), {'__new__': new, 'dtype': dtype, '__doc__': doc, '__module__': 'gt'})


TYPES = {f'{dtype._kind}Tensor': _make(f'{dtype._kind}Tensor', dtype) for dtype in _DTYPES}


def dtype_of_type(kind):
    """The dtype of gt.FloatTensor, 'gt.FloatTensor', 'torch.cuda.FloatTensor', or a dtype itself."""
    if isinstance(kind, _gt.dtype):
        return kind
    if isinstance(kind, _TypedMeta):
        return kind.dtype
    if kind is Tensor:
        return _gt.get_default_dtype()
    name = str(kind).rpartition('.')[2]
    if isinstance(kind, str) and name in TYPES:
        return TYPES[name].dtype
    if isinstance(kind, str) and name == 'Tensor':
        return _gt.get_default_dtype()
    if isinstance(kind, (str, builtins.type)):
        raise ValueError(f'invalid type: {kind if isinstance(kind, str) else kind.__name__!r}')
    raise TypeError('dtype must be a type, str, or dtype object')


@method
def type(self, dtype=None, non_blocking=False):
    """type(): 'gt.FloatTensor' and so on; type(dtype): converted to a dtype, or to a typed tensor such as gt.LongTensor."""
    if dtype is None:
        return f'gt.{self.dtype._kind}Tensor'
    return self.to(dtype_of_type(dtype))


@method
def new(self, *arguments, device=None):
    """new(*sizes) or new(data): a tensor of self's dtype."""
    return _construct(self.dtype, arguments)
