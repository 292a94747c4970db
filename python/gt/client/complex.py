"""Complex numbers: their parts, making them from parts, and what is only interesting for them."""

from gt import _gt
from gt._gt import Tensor, stack, view_as_complex, view_as_real
from gt.client.registry import function, in_place, method

function(view_as_real)
function(view_as_complex)


def _part(self, which):
    return view_as_real(self).select(-1, which)


def _real(self):
    return _part(self, 0) if self.is_complex() else self


def _imag(self):
    if not self.is_complex():
        raise RuntimeError('imag is not implemented for tensors with non-complex dtypes.')
    return _part(self, 1)


def _set_real(self, value):
    self.copy_(complex(_as_part(self, value), _imag(self)) if self.is_complex() else value)


def _set_imag(self, value):
    self.copy_(complex(_real(self), _as_part(self, value)))


def _as_part(self, value):
    real = _real(self)
    return (value if isinstance(value, Tensor) else _gt.tensor(value)).to(real.dtype).expand(real.shape)


Tensor.real = property(_real, _set_real, doc='The real parts of a complex tensor; a real tensor itself.')
Tensor.imag = property(_imag, _set_imag, doc='The imaginary parts of a complex tensor.')
Tensor.H = property(lambda self: _adjoint_matrix(self), doc='The conjugate transpose of a matrix.')
Tensor.mH = property(lambda self: self.adjoint(), doc='The last two dimensions swapped, and the conjugates.')


def _adjoint_matrix(self):
    if self.ndim not in (0, 2):
        raise RuntimeError(f'tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor. For batches '
                           f'of matrices, consider using tensor.mH')
    return self.adjoint() if self.ndim else self.conj()


@function
def real(input):
    """real(input): the real parts; a real tensor itself.

    >>> gt.real(gt.tensor([1 + 2j]))
    tensor([1.])
    """
    return input.real


@function
def imag(input):
    """imag(input): the imaginary parts of a complex tensor."""
    return input.imag


@function
def complex(real, imag):
    """complex(real, imag): a complex tensor of two float32 or two float64 tensors.

    >>> gt.complex(gt.tensor([1.0]), gt.tensor([2.0]))
    tensor([1.+2.j])
    """
    for part in (real, imag):
        if part.dtype not in (_gt.float32, _gt.float64):
            raise RuntimeError(f'Expected both inputs to be Half, Float or Double tensors but got {real.dtype} and '
                               f'{imag.dtype}')
    if real.dtype != imag.dtype:
        raise RuntimeError(f'Expected object of scalar type {real.dtype} but got scalar type {imag.dtype} for second '
                           f'argument')
    if real.shape != imag.shape:
        real, imag = real + _gt.zeros_like(imag), imag + _gt.zeros_like(real)
    return _gt._as_complex(stack([real, imag], -1))


@function
def polar(abs, angle):
    """polar(abs, angle): abs * exp(i * angle)."""
    if abs.dtype != angle.dtype:
        raise RuntimeError(f'Expected object of scalar type {abs.dtype} but got scalar type {angle.dtype} for second '
                           f'argument')
    abs, angle = _gt._copied(abs), _gt._copied(angle)  # PyTorch's graph has the result
    return complex(abs * angle.cos(), abs * angle.sin())


def _no_chalf(self, *, memory_format=None):
    """chalf(): complex32, which GT does not have: raises NotImplementedError."""
    raise NotImplementedError('GT has no complex32: use cfloat()')


_no_chalf.__name__ = _no_chalf.__qualname__ = 'chalf'
Tensor.chalf = _no_chalf  # gt.chalf would be the dtype


@method
def conj_physical(self):
    """conj_physical(): the conjugates."""
    return self.conj()


in_place('conj_physical')


@method
def resolve_conj(self):
    """resolve_conj(): self; conjugates are always computed."""
    return self


@method
def resolve_neg(self):
    """resolve_neg(): self; negatives are always computed."""
    return self


@method
def is_conj(self):
    """is_conj(): False; conjugates are always computed."""
    return False


@method
def is_neg(self):
    """is_neg(): False; negatives are always computed."""
    return False


@method
def isreal(self):
    """isreal(): whether an element's imaginary part is 0."""
    return self.imag == 0 if self.is_complex() else _gt.ones_like(self, dtype=_gt.bool)


def nan_to_num_parts(self, nan, posinf, neginf):
    """nan_to_num of the real and of the imaginary parts."""
    return _gt._as_complex(_gt._as_real(self).nan_to_num(nan, posinf, neginf))


def close(self, other, rtol, atol, equal_nan):
    """isclose of complex numbers: by the absolute value of the difference."""
    near = self == other
    if equal_nan:
        near = near | (self.isnan() & other.isnan())
    error = (self - other).abs()
    return near | (error.isfinite() & (error <= other.abs() * rtol + atol))
