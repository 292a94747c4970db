"""The short-time Fourier transform and its inverse."""

from gt import _gt
from gt.client.registry import method, no_view


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
@no_view
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
