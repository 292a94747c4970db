"""Windows whose inner loops take several elements at once: 2x2 pooling of every width, convolutions of many images. Against PyTorch."""
import numpy
import pytest
import torch

import gt

WIDTHS = [2, 6, 7, 8, 9, 10, 14, 15, 17, 28, 33]


def images(*shape, values=None):
    drawn = numpy.random.default_rng(sum(shape)).standard_normal(shape, dtype=numpy.float32)
    if values is not None:  # many equal ones: which of them is taken matters
        drawn = values[numpy.abs(drawn * 1000).astype(int) % len(values)]
    return drawn


def pooled(lib, x, g):
    """The maxima, their positions, and the gradient of x."""
    leaf = lib.from_numpy(x.copy()).requires_grad_()
    y, at = lib.nn.functional.max_pool2d(leaf, 2, return_indices=True)
    plain = lib.nn.functional.max_pool2d(leaf, 2)
    plain.backward(lib.from_numpy(g.copy()))
    return [part.detach().numpy() for part in (plain, y, at, leaf.grad)]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("values", [None, numpy.array([1, 1, 2, 0, -0.0, numpy.inf, -numpy.inf], numpy.float32),
                                    numpy.array([1, numpy.nan, 2, numpy.inf], numpy.float32)], ids=["drawn", "equal", "nan"])
def test_maxima_of_pairs_are_those_of_pytorch(width, values):
    x = images(2, 3, 5, width, values=values)
    g = images(2, 3, 2, width // 2)
    g[0, 0, 0, 0] = -0.0
    for ours, theirs in zip(pooled(gt, x, g), pooled(torch, x, g)):
        assert ours.dtype == theirs.dtype
        numpy.testing.assert_array_equal(ours, theirs)
        if ours.dtype == numpy.float32:
            numpy.testing.assert_array_equal(numpy.signbit(ours), numpy.signbit(theirs))


@pytest.mark.parametrize("channels, width, kernel, stride", [(1, 13, 3, 1), (16, 28, 3, 1), (17, 14, 3, 2), (35, 9, 5, 1), (8, 30, 1, 3)])
def test_convolutions_of_many_images_keep_their_padding(channels, width, kernel, stride):
    """More images than are packed at a time, so that one follows another in the same memory."""
    x, w = images(37, 3, 11, width), images(channels, 3, kernel, kernel)

    def run(lib, dtype):
        leaves = [lib.from_numpy(array).to(dtype).requires_grad_() for array in (x, w)]
        y = lib.nn.functional.conv2d(*leaves, stride=stride, padding=kernel // 2 + 1)
        (y * y).sum().backward()
        return [part.detach().numpy() for part in (y, *(leaf.grad for leaf in leaves))]
    for ours, theirs in zip(run(gt, gt.float32), run(torch, torch.float64)):
        numpy.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-4 * numpy.abs(theirs).max())
