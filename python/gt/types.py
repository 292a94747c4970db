"""Names of types for annotations, as torch.types has them."""

import builtins as _builtins
import os as _os
from collections.abc import Sequence as _Sequence
from typing import IO as _IO, Union as _Union

from gt._gt import Size, Tensor, dtype as _dtype  # noqa: F401
from gt.client.device import device as _device
from gt.sparse import layout as _layout  # noqa: F401

_int, _float, _bool, _complex = _builtins.int, _builtins.float, _builtins.bool, _builtins.complex
_size = _Union[Size, list[_builtins.int], tuple[_builtins.int, ...]]
_symsize = _Union[Size, _Sequence[_builtins.int]]
_TensorOrTensors = _Union[Tensor, _Sequence[Tensor]]
Number = _Union[_builtins.int, _builtins.float, _builtins.bool]
Device = _Union[_device, str, _builtins.int, None]
FileLike = _Union[str, _os.PathLike, _IO[bytes]]
IntLikeType, FloatLikeType, BoolLikeType = _builtins.int, _builtins.float, _builtins.bool
py_sym_types = ()

__all__ = ['BoolLikeType', 'Device', 'FileLike', 'FloatLikeType', 'IntLikeType', 'Number', 'Size', 'Tensor', 'py_sym_types']
