"""F.grid_sample and F.affine_grid against PyTorch: every mode, padding and alignment, 4-D and 5-D, gradients, errors."""

import itertools
import warnings

import pytest
import torch
import torch.nn.functional as TF

import gt
import gt.nn.functional as F
from support import check, raises, to_gt

PADDINGS = ("zeros", "border", "reflection")


def image_and_grid(shape, positions, dtype=torch.float64, spread=1.6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    image = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    grid = (torch.rand((shape[0], *positions, len(shape) - 2), generator=generator, dtype=torch.float64) * 2 - 1) * spread
    return image, grid.to(dtype)


def compare(image, grid, mode, padding, align, **options):
    x, g = image.clone().requires_grad_(), grid.clone().requires_grad_()
    expected = TF.grid_sample(x, g, mode, padding, align)
    weights = torch.linspace(0.5, 1.5, expected.numel(), dtype=image.dtype).reshape(expected.shape)
    (expected * weights).sum().backward()
    y, h = to_gt(image).requires_grad_(), to_gt(grid).requires_grad_()
    result = F.grid_sample(y, h, mode, padding, align)
    what = f"{mode}, {padding}, align_corners={align}, {tuple(image.shape)}"
    check(result.detach(), expected.detach(), what, **options)
    (result * to_gt(weights)).sum().backward()
    check(y.grad, x.grad, f"{what}: gradient of the image", **options)
    if h.grad is None:
        assert mode == "nearest" and not g.grad.any(), f"{what}: no gradient of the grid"
    else:
        check(h.grad, g.grad, f"{what}: gradient of the grid", **options)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", PADDINGS)
def test_images(mode, padding):
    for align in (False, True):
        compare(*image_and_grid((2, 3, 5, 7), (4, 6)), mode, padding, align)
        compare(*image_and_grid((1, 1, 8, 3), (2, 9), spread=4, seed=2), mode, padding, align, atol=1e-9)
        compare(*image_and_grid((2, 3, 5, 7), (4, 6), torch.float32), mode, padding, align, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("padding", PADDINGS)
def test_volumes(mode, padding):
    for align in (False, True):
        compare(*image_and_grid((2, 3, 4, 5, 6), (3, 2, 4)), mode, padding, align)


@pytest.mark.parametrize("mode, padding", list(itertools.product(["bilinear", "nearest", "bicubic"], PADDINGS)))
def test_one_pixel(mode, padding):
    for align in (False, True):
        compare(*image_and_grid((1, 2, 1, 1), (3, 3)), mode, padding, align)
        compare(*image_and_grid((1, 2, 1, 4), (3, 3)), mode, padding, align)


def test_positions_at_pixels_and_edges():
    """Whole positions, halves and the very ends: where rounding and clipping decide. The values are compared."""
    steps = torch.tensor([-1.5, -1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5], dtype=torch.float64)
    grid = torch.stack(torch.meshgrid(steps, steps, indexing="xy"), -1)[None]
    image, _ = image_and_grid((1, 2, 4, 4), (1, 1))
    for mode, padding, align in itertools.product(["bilinear", "nearest", "bicubic"], PADDINGS, (False, True)):
        check(F.grid_sample(to_gt(image), to_gt(grid), mode, padding, align), TF.grid_sample(image, grid, mode, padding, align),
              f"{mode}, {padding}, {align}")


@pytest.mark.parametrize("align", [False, True])
def test_affine_grid(align):
    for shape, rows in (((2, 3, 4, 5), 2), ((2, 1, 1, 3), 2), ((2, 3, 2, 4, 3), 3), ((1, 1, 1, 1), 2)):
        theta = torch.randn(shape[0], rows, rows + 1, dtype=torch.float64).requires_grad_()
        ours = to_gt(theta.detach()).requires_grad_()
        expected, result = TF.affine_grid(theta, shape, align), F.affine_grid(ours, shape, align)
        check(result.detach(), expected.detach(), str(shape))
        (expected * expected).sum().backward()
        (result * result).sum().backward()
        check(ours.grad, theta.grad, f"{shape}: gradient")


def test_identity_is_the_image():
    image, _ = image_and_grid((2, 3, 6, 5), (1, 1), torch.float32)
    for align in (False, True):
        grid = F.affine_grid(gt.eye(2, 3).expand(2, 2, 3), (2, 3, 6, 5), align)
        check(F.grid_sample(to_gt(image), grid, align_corners=align), image, atol=1e-5)


def test_defaults_warn():
    image, grid = gt.ones(1, 1, 2, 2), gt.zeros(1, 1, 1, 2)
    for call in (lambda: F.grid_sample(image, grid), lambda: F.affine_grid(gt.eye(2, 3)[None], (1, 1, 2, 2))):
        with pytest.warns(UserWarning, match="align_corners=False"):
            call()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        F.grid_sample(image, grid, align_corners=False)


def test_errors():
    image, grid = gt.ones(2, 1, 4, 4), gt.zeros(2, 3, 3, 2)
    sample = lambda *a, **k: F.grid_sample(*a, align_corners=False, **k)  # noqa: E731
    raises(ValueError, lambda: sample(image, grid, mode="cubic"), "expected mode to be", "'cubic'")
    raises(ValueError, lambda: sample(image, grid, padding_mode="wrap"), "expected padding_mode")
    raises(RuntimeError, lambda: sample(image, grid[:1]), "same batch size")
    raises(RuntimeError, lambda: sample(image, gt.zeros(2, 3, 3, 3)), "size 2 in last dimension")
    raises(RuntimeError, lambda: sample(gt.ones(2, 1, 4), gt.zeros(2, 3, 1)), "4D or 5D")
    raises(RuntimeError, lambda: sample(gt.ones(2, 1, 0, 4), grid), "non-empty spatial dimensions")
    raises(RuntimeError, lambda: sample(gt.ones(2, 1, 4, 4, 4), gt.zeros(2, 3, 3, 3, 3), mode="bicubic"), "only supports 4D")
    raises(ValueError, lambda: F.affine_grid(gt.eye(2), (1, 1, 2, 2), False), "Nx2x3")
    raises(NotImplementedError, lambda: F.affine_grid(gt.zeros(1, 2, 3), (1, 2, 2), False), "4D and 5D")
