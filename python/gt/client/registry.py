"""Decorators that make Python functions methods of Tensor and functions of the package.

Used by the families (ordering, picking, arrangement, products, linalg, statistics, random, creation, dtypes) and
tensor.py.
"""

import functools

from gt._gt import Tensor, _own

methods = []  # names of methods written in Python; those without a trailing _ are functions of the package too
functions = {}  # functions that are not methods


def method(function):
    """Make a function a method of Tensor."""
    setattr(Tensor, function.__name__, function)
    methods.append(function.__name__)
    return function


def tensor_argument(name, label, value):
    """Raise PyTorch's error if the second argument of a function is not a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}(): argument '{label}' (position 2) must be Tensor, not {type(value).__name__}")


def no_view(function):
    """For a function that ends with a reshape or a transposition: its results are no views, as PyTorch's are none."""
    @functools.wraps(function)
    def call(*arguments, **options):
        return _own(function(*arguments, **options))
    return call


def function(function):
    """Make a function one of the package, not a method."""
    functions[function.__name__] = function
    return function


def _stored(name, replace):
    if replace:
        def stored(self, *arguments, **options):
            return self._replace(getattr(self, name)(*arguments, **options))
    else:
        def stored(self, *arguments, **options):
            self._check_write(*arguments, *options.values())
            return self._become(getattr(self._value(), name)(*arguments, **options))
    stored.__name__, stored.__doc__ = name + '_', f'{name}_(...): {name}, in place.'
    stored.__wrapped__ = getattr(Tensor, name)  # the signature
    return stored


def in_place(*names):
    """Give each method an in-place variant name_()."""
    for name in names:
        method(_stored(name, False))


def reshaped_in_place(*names):
    """The same for methods that change the shape."""
    for name in names:
        method(_stored(name, True))


def axis_of(self, dim):
    """A dimension counted from the start; raises PyTorch's error if it does not exist."""
    limit = self.ndim or 1
    if not -limit <= dim < limit:
        raise IndexError(
            f'Dimension out of range (expected to be in range of [{-limit}, {limit - 1}], but got {dim})')
    return dim % limit


def axes_of(self, dims):
    """Dimensions, counted from the start; None is all of them."""
    if dims is None:
        return list(range(self.ndim))
    return [axis_of(self, d) for d in ([dims] if hasattr(dims, '__index__') else dims)]


def sizes_of(sizes, named=None):
    """Sizes given one by one, as one sequence, or by the keyword of that sequence."""
    if named is not None:
        if sizes:
            raise TypeError('sizes are given by position and by keyword')
        return tuple(named)
    return tuple(sizes[0]) if len(sizes) == 1 and not hasattr(sizes[0], '__index__') else sizes


def tensors_of(tensors):
    """Tensors given one by one or as one sequence."""
    return tuple(tensors[0]) if len(tensors) == 1 and not isinstance(tensors[0], Tensor) else tensors
