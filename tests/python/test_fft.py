"""gt.fft, stft and the windows against PyTorch: values, sizes, normalisations, gradients, refusals."""

import numpy as np
import pytest
import torch

import gt
from test_complex import check, numbers, to_gt

# Powers of two, small factors, primes up to the one from which Bluestein's algorithm takes over, and beyond.
SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 16, 22, 23, 29, 31, 50, 64, 97, 100, 101, 224, 499, 512, 997, 1024, 2310]


def reals(*shape, dtype="float64", seed=0):
    return torch.randn(*shape, dtype=getattr(torch, dtype), generator=torch.Generator().manual_seed(seed))


def close(actual, expected):
    expected = expected.detach().resolve_conj()
    wide = expected.dtype in (torch.complex128, torch.float64)
    largest = expected.abs().max().item() if expected.numel() else 1
    assert actual.dtype.name == str(expected.dtype)[6:] and tuple(actual.shape) == tuple(expected.shape)
    np.testing.assert_allclose(actual.numpy(), expected.numpy(), atol=(1e-13 if wide else 2e-6) * max(1, largest) * 8, rtol=0)


@pytest.mark.parametrize("n", SIZES)
def test_sizes(n):
    for dtype in ("float32", "float64"):
        x, z = reals(3, n, dtype=dtype), numbers(3, n, dtype="complex64" if dtype == "float32" else "complex128")
        for name in ("fft", "ifft"):
            close(getattr(gt.fft, name)(to_gt(z)), getattr(torch.fft, name)(z))
            close(getattr(gt.fft, name)(to_gt(x)), getattr(torch.fft, name)(x))
        for name in ("rfft", "ihfft"):
            close(getattr(gt.fft, name)(to_gt(x)), getattr(torch.fft, name)(x))
        for m in {2 * (n - 1), 2 * n - 1, n} - {0}:
            for name in ("irfft", "hfft"):
                close(getattr(gt.fft, name)(to_gt(z), m), getattr(torch.fft, name)(z, m))


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn"])
def test_several_dimensions(name):
    x, z = reals(4, 6, 5), numbers(4, 6, 5, dtype="complex128")
    x = x if name in ("rfftn", "ihfftn") else z
    for norm in (None, "forward", "backward", "ortho"):
        for dim in (None, (0, 1), (1, 0), (-1,), (0, 2), (2, 0)):
            for s in (None, [5, 4, 7][: 3 if dim is None else len(dim)]):
                close(getattr(gt.fft, name)(to_gt(x), s, dim, norm), getattr(torch.fft, name)(x, s, dim, norm))
    close(getattr(gt.fft, name)(to_gt(x), s=(3, 8)), getattr(torch.fft, name)(x, s=(3, 8)))
    plane = name[:-1] + "2"
    close(getattr(gt.fft, plane)(to_gt(x)), getattr(torch.fft, plane)(x))
    close(getattr(gt.fft, plane)(to_gt(x).permute(2, 0, 1)), getattr(torch.fft, plane)(x.permute(2, 0, 1)))


def test_dimension_and_size_arguments():
    z = numbers(4, 6, dtype="complex64")
    for n in (None, 3, 6, 9):
        for dim in (0, 1, -1, -2):
            for norm in (None, "ortho", "forward"):
                close(gt.fft.fft(to_gt(z), n, dim, norm), torch.fft.fft(z, n, dim, norm))
    close(gt.fft.fft(gt.arange(5)), torch.fft.fft(torch.arange(5)))
    close(gt.fft.rfft(gt.ones(4, dtype=gt.bool)), torch.fft.rfft(torch.ones(4, dtype=torch.bool)))


def test_large_prime():
    """O(n log n): at O(n^2) this would take minutes."""
    z = numbers(100003, dtype="complex128")
    close(gt.fft.fft(to_gt(z)), torch.fft.fft(z))


def test_frequencies_and_shifts():
    for n in (1, 4, 5):
        close(gt.fft.fftfreq(n, 0.3), torch.fft.fftfreq(n, 0.3))
        close(gt.fft.rfftfreq(n, 0.3), torch.fft.rfftfreq(n, 0.3))
        x = reals(n, 6, 3)
        for dim in (None, 0, (0, 2)):
            close(gt.fft.fftshift(to_gt(x), dim), torch.fft.fftshift(x, dim))
            close(gt.fft.ifftshift(to_gt(x), dim), torch.fft.ifftshift(x, dim))


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fftn", "rfftn", "irfftn", "ihfftn"])
def test_gradients(name):
    for last in (6, 7):
        x, z = reals(3, 4, last), numbers(3, 4, last, dtype="complex128")
        x = x if name in ("rfft", "ihfft", "rfftn", "ihfftn") else z
        for options in ({}, dict(norm="ortho"), dict(n=5) if not name.endswith("n") else dict(s=(5, 5))):
            g, t = to_gt(x).requires_grad_(), x.clone().requires_grad_()
            ours, theirs = getattr(gt.fft, name)(g, **options), getattr(torch.fft, name)(t, **options)
            weight = torch.randn_like(theirs)
            (ours * to_gt(weight)).abs().sum().backward()
            (theirs * weight).abs().sum().backward()
            check(g.grad, t.grad, 1e-9)


def test_gradient_of_a_real_input_of_fft():
    x = reals(8)
    g, t = to_gt(x).requires_grad_(), x.clone().requires_grad_()
    gt.fft.fft(g).abs().square().sum().backward()
    torch.fft.fft(t).abs().square().sum().backward()
    check(g.grad, t.grad, 1e-9)


def test_refusals():
    with pytest.raises(RuntimeError, match="expects a real input tensor"):
        gt.fft.rfft(gt.ones(3, dtype=gt.complex64))
    with pytest.raises(RuntimeError, match="Invalid number of data points"):
        gt.fft.fft(gt.ones(3), 0)
    with pytest.raises(RuntimeError, match="Invalid number of data points"):
        gt.fft.irfft(gt.ones(1, dtype=gt.complex64))
    with pytest.raises(RuntimeError, match="Invalid normalization mode"):
        gt.fft.fft(gt.ones(3), norm="other")
    with pytest.raises(RuntimeError, match="must be unique"):
        gt.fft.fftn(gt.ones(3, 3), dim=(0, 0))
    with pytest.raises(RuntimeError, match="same length"):
        gt.fft.fftn(gt.ones(3, 3), s=(2,), dim=(0, 1))
    with pytest.raises(IndexError):
        gt.fft.fft(gt.ones(3), dim=1)
    with pytest.raises(RuntimeError, match="Unsupported dtype"):
        gt.fft.fft(gt.ones(3, dtype=gt.float16))


# ---- windows and frames ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hann", "hamming", "blackman", "bartlett", "kaiser"])
def test_windows(name):
    for n in (0, 1, 2, 7, 64):
        for periodic in (True, False):
            for dtype in ("float32", "float64"):
                expected = getattr(torch, name + "_window")(n, periodic, dtype=getattr(torch, dtype))
                actual = getattr(gt, name + "_window")(n, periodic, dtype=getattr(gt, dtype))
                np.testing.assert_allclose(actual.numpy(), expected.numpy(), atol=1e-6 if dtype == "float32" else 1e-12)
    with pytest.raises(RuntimeError):
        getattr(gt, name + "_window")(-1)


def test_stft_and_istft():
    signal, window = reals(2, 1000), torch.hann_window(64, dtype=torch.float64)
    for options in (
        {}, dict(hop_length=10), dict(center=False), dict(normalized=True), dict(onesided=False), dict(pad_mode="constant"),
    ):
        close(
            gt.stft(to_gt(signal), 64, window=to_gt(window), return_complex=True, **options),
            torch.stft(signal, 64, window=window, return_complex=True, **options),
        )
    short = torch.hann_window(50, dtype=torch.float64)
    spectrum = torch.stft(signal[0], 64, 16, 50, short, return_complex=True)
    close(gt.stft(to_gt(signal[0]), 64, 16, 50, to_gt(short), return_complex=True), spectrum)
    close(gt.istft(to_gt(spectrum), 64, 16, 50, to_gt(short)), torch.istft(spectrum, 64, 16, 50, short))
    close(gt.istft(to_gt(spectrum), 64, 16, 50, to_gt(short), length=990), torch.istft(spectrum, 64, 16, 50, short, length=990))
    both = torch.stft(signal, 64, window=window, onesided=False, normalized=True, return_complex=True)
    close(
        gt.istft(to_gt(both), 64, window=to_gt(window), onesided=False, normalized=True),
        torch.istft(both, 64, window=window, onesided=False, normalized=True),
    )
    g, t = to_gt(signal).requires_grad_(), signal.clone().requires_grad_()
    gt.stft(g, 64, window=to_gt(window), return_complex=True).abs().sum().backward()
    torch.stft(t, 64, window=window, return_complex=True).abs().sum().backward()
    check(g.grad, t.grad, 1e-8)
    with pytest.raises(RuntimeError, match="return_complex"):
        gt.stft(to_gt(signal), 64)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lines_of_powers_of_two(dtype):
    """Every size has its own stages; one line and several go different ways."""
    for size in [2 ** k for k in range(1, 15)] + [65536]:
        for lines in (1, 3):
            x = torch.randn(lines, size, dtype=getattr(torch, dtype))
            z = torch.complex(x, x.flip(1))
            tolerance = dict(rtol=0, atol=size ** 0.5 * (2e-6 if dtype == "float32" else 1e-14))
            for name, operand in (("fft", z), ("ifft", z), ("rfft", x), ("irfft", z[:, :size // 2 + 1])):
                actual = getattr(gt.fft, name)(gt.from_numpy(operand.contiguous().numpy()))
                np.testing.assert_allclose(actual.numpy(), getattr(torch.fft, name)(operand).numpy(), **tolerance,
                                           err_msg=f"{name} {lines} x {size}")


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("shape, dim", [((16, 1), 0), ((16, 3), 0), ((64, 37), 0), ((12, 5), 0), ((3, 32, 5), 1), ((2, 30, 9), 1),
                                        ((8, 3, 7), 0), ((16384, 2), 0), ((33, 8), 0)])
def test_lines_along_other_axes_than_the_last(shape, dim, dtype):
    x = torch.randn(shape, dtype=getattr(torch, dtype))
    tolerance = dict(rtol=0, atol=max(shape) ** 0.5 * (3e-6 if dtype == "complex64" else 1e-13))
    for name in ("fft", "ifft"):
        actual = getattr(gt.fft, name)(gt.from_numpy(x.numpy()), dim=dim)
        np.testing.assert_allclose(actual.numpy(), getattr(torch.fft, name)(x, dim=dim).numpy(), **tolerance)
