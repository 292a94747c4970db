"""Windows of signal processing, and the short-time Fourier transform.

gt.signal is GT's own (signals that place tensors), so the windows are functions of the package, as PyTorch has them too.
"""

import math

from gt import _gt
from gt.client.registry import function, method


def _check(name, window_length, dtype):
    if window_length < 0:
        raise RuntimeError(f'{name} requires non-negative window_length, got window_length={window_length}')
    dtype = _gt.float32 if dtype is None else dtype
    if not dtype.is_floating_point:
        raise RuntimeError(f'{name} expects floating point dtypes, got: {dtype}')
    return dtype


def _cosines(name, window_length, periodic, factors, dtype, requires_grad):
    """The sum of factors[k] * cos(2 pi k i / n), with alternating signs."""
    dtype = _check(name, window_length, dtype)
    if window_length <= 1:
        window = _gt.ones(window_length, dtype=dtype)
    else:
        angle = _gt.arange(window_length, dtype=_gt.float64) * (2 * math.pi / (window_length - (not periodic)))
        window = sum((-1) ** k * factor * (angle * k).cos() for k, factor in enumerate(factors)).to(dtype)
    return window.requires_grad_() if requires_grad else window


@function
def hann_window(window_length, periodic=True, *, dtype=None, device=None, requires_grad=False):
    """hann_window(window_length, periodic=True): (1 - cos) / 2."""
    return _cosines('hann_window', window_length, periodic, (0.5, 0.5), dtype, requires_grad)


@function
def hamming_window(window_length, periodic=True, alpha=0.54, beta=0.46, *, dtype=None, device=None, requires_grad=False):
    """hamming_window(window_length, periodic=True, alpha=0.54, beta=0.46): alpha - beta cos."""
    return _cosines('hamming_window', window_length, periodic, (alpha, beta), dtype, requires_grad)


@function
def blackman_window(window_length, periodic=True, *, dtype=None, device=None, requires_grad=False):
    """blackman_window(window_length, periodic=True): 0.42 - 0.5 cos + 0.08 cos of twice the angle."""
    return _cosines('blackman_window', window_length, periodic, (0.42, 0.5, 0.08), dtype, requires_grad)


@function
def bartlett_window(window_length, periodic=True, *, dtype=None, device=None, requires_grad=False):
    """bartlett_window(window_length, periodic=True): a triangle."""
    dtype = _check('bartlett_window', window_length, dtype)
    if window_length <= 1:
        window = _gt.ones(window_length, dtype=dtype)
    else:
        length = window_length + periodic
        ramp = _gt.arange(window_length, dtype=_gt.float64) * (2 / (length - 1))
        window = (1 - (ramp - 1).abs()).to(dtype)
    return window.requires_grad_() if requires_grad else window


@function
def kaiser_window(window_length, periodic=True, beta=12.0, *, dtype=None, device=None, requires_grad=False):
    """kaiser_window(window_length, periodic=True, beta=12.0): by the Bessel function of order 0."""
    dtype = _check('kaiser_window', window_length, dtype)
    if window_length <= 1:
        window = _gt.ones(window_length, dtype=dtype)
    else:
        ramp = _gt.arange(window_length, dtype=_gt.float64) * (2 / (window_length + periodic - 1)) - 1
        window = (_bessel_zero((1 - ramp.square()).clamp(min=0).sqrt() * beta) / _bessel_zero(
            _gt.tensor(float(beta), dtype=_gt.float64))).to(dtype)
    return window.requires_grad_() if requires_grad else window


def _bessel_zero(x):
    """I0: the sum of ((x / 2)^k / k!)^2, which converges for every x; 200 terms serve windows of any beta in use."""
    half = x / 2
    term = total = _gt.ones_like(x)
    for k in range(1, 200):
        term = term * (half / k).square()
        total = total + term
    return total


# ---- the short-time transform --------------------------------------------------------------------------------


def _full_window(window, win_length, n_fft, dtype, name):
    if window is not None and (window.ndim != 1 or window.shape[0] != win_length):
        raise RuntimeError(f'{name} expected a 1D window tensor of size equal to win_length={win_length}, but got window '
                           f'with size {list(window.shape)}')
    window = _gt.ones(win_length, dtype=dtype) if window is None else window
    left = (n_fft - win_length) // 2
    if win_length == n_fft:
        return window
    return _gt.cat([_gt.zeros(left, dtype=window.dtype), window,
                    _gt.zeros(n_fft - win_length - left, dtype=window.dtype)])


@method
def stft(self, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode='reflect', normalized=False,
         onesided=None, return_complex=None):
    """stft(n_fft, hop_length=None, win_length=None, window=None, ...): the transforms of overlapping frames of a signal,
    (batch, frequencies, frames).

    >>> gt.stft(gt.randn(1000), 64, window=gt.hann_window(64), return_complex=True).shape
    (33, 63)
    """
    from gt import fft
    from gt.nn import functional
    hop_length = n_fft // 4 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    self_complex = self.is_complex() or (window is not None and window.is_complex())
    if return_complex is None:
        if not self_complex:
            raise RuntimeError('stft requires the return_complex parameter be given for real inputs, and will further '
                               'require that return_complex=True in a future PyTorch release.')
        return_complex = True
    if self.ndim not in (1, 2):
        raise RuntimeError(f'stft expected a 1D or 2D tensor, but got {self.ndim}D tensor')
    signal = self if self.ndim == 2 else self.unsqueeze(0)
    if center:
        signal = functional.pad(signal.unsqueeze(1), (n_fft // 2, n_fft // 2), mode=pad_mode).squeeze(1)
    length = signal.shape[1]
    if n_fft <= 0 or n_fft > length:
        raise RuntimeError(f'stft expected 0 < n_fft < {length}, but got n_fft={n_fft}')
    if hop_length <= 0:
        raise RuntimeError(f'stft expected hop_length > 0, but got hop_length={hop_length}')
    if win_length <= 0 or win_length > n_fft:
        raise RuntimeError(f'stft expected 0 < win_length <= n_fft, but got win_length={win_length}')
    window = _full_window(window, win_length, n_fft, self.dtype.to_real(), 'stft')
    onesided = not self_complex if onesided is None else onesided
    if onesided and self_complex:
        raise RuntimeError('Cannot have onesided output if window or input is complex')
    frames = signal.unfold(1, n_fft, hop_length) * window
    norm = 'ortho' if normalized else None
    result = (fft.rfft if onesided else fft.fft)(frames, norm=norm).transpose(1, 2)
    result = result if self.ndim == 2 else result.squeeze(0)
    return result if return_complex else _gt.view_as_real(result)


@method
def istft(self, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False, onesided=None,
          length=None, return_complex=False):
    """istft(n_fft, hop_length=None, win_length=None, window=None, ...): the signal whose stft this is.

    Frames are added up where they overlap and divided by the sum of the squared windows.
    """
    from gt import fft
    if not self.is_complex():
        raise RuntimeError('istft requires a complex-valued input tensor matching the output from stft with '
                           'return_complex=True.')
    hop_length = n_fft // 4 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    if self.ndim not in (2, 3):
        raise RuntimeError(f'istft(...): expected a tensor with 2 or 3 dimensions, but got {self.ndim}')
    spectrum = (self if self.ndim == 3 else self.unsqueeze(0)).transpose(1, 2)
    frames_count, frequencies = spectrum.shape[1], spectrum.shape[2]
    onesided = frequencies != n_fft if onesided is None else onesided
    wanted = n_fft // 2 + 1 if onesided else n_fft
    if frequencies != wanted:
        raise RuntimeError(f'istft(...): expected the frequency dimension (3rd to the last) of the input tensor to match '
                           f'n_fft {"/ 2 + 1" if onesided else ""}={wanted} but got {frequencies}')
    if not 0 < hop_length <= win_length:
        raise RuntimeError('istft(...): expected 0 < hop_length <= win_length')
    if not 0 < win_length <= n_fft:
        raise RuntimeError('istft(...): expected 0 < win_length <= n_fft')
    window = _full_window(window, win_length, n_fft, self.dtype.to_real(), 'istft')
    norm = 'ortho' if normalized else None
    if return_complex:
        if onesided:
            raise RuntimeError('istft(...): cannot have onesided output if window or input is complex')
        frames = fft.ifft(spectrum, norm=norm)
    elif window.is_complex():
        raise RuntimeError('Complex windows are incompatible with return_complex=False')
    else:
        frames = fft.irfft(spectrum if onesided else spectrum[..., :n_fft // 2 + 1], n_fft, norm=norm)
    signal = _overlapped(frames * window, hop_length)
    envelope = _overlapped(window.square().expand(1, frames_count, n_fft), hop_length)
    start = n_fft // 2 if center else 0
    if length is not None:
        end = start + length
    else:
        end = signal.shape[1] - (n_fft // 2 if center else 0)
    stop = min(end, signal.shape[1])
    signal, envelope = signal[:, start:stop], envelope[:, start:stop]
    if envelope.shape[1] and not bool((envelope.abs() > 1e-11).all()):
        raise RuntimeError('istft(...) window overlap add min: 1')
    signal = signal / envelope
    if end > stop:
        signal = _gt.cat([signal, _gt.zeros(signal.shape[0], end - stop, dtype=signal.dtype)], 1)
    return signal if self.ndim == 3 else signal.squeeze(0)


def _overlapped(frames, hop):
    """(batch, frames, n) added up, each frame `hop` after the one before."""
    batch, count, n = frames.shape
    total = n + hop * (count - 1)
    places = (_gt.arange(count).unsqueeze(1) * hop + _gt.arange(n)).reshape(-1)
    return _gt.zeros(batch, total, dtype=frames.dtype).index_add(1, places, frames.reshape(batch, -1))
