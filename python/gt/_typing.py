"""Names of types for the stubs (*.pyi) of this package."""

from collections.abc import Sequence
from types import EllipsisType
from typing import Any, TypeAlias, Union

import numpy

from gt._gt import Tensor
from gt.client.device import device

ndarray: TypeAlias = numpy.ndarray[Any, Any]
Number: TypeAlias = Union[int, float, complex]  # bool is an int
Operand: TypeAlias = Union[Tensor, int, float, complex]
Dims: TypeAlias = Union[int, Sequence[int]]
Device: TypeAlias = Union[str, int, device, None]
Index: TypeAlias = Union[None, int, slice, EllipsisType, Tensor, range, Sequence[Any], tuple[Any, ...]]
Tensors: TypeAlias = Union[Tensor, Sequence[Tensor]]
