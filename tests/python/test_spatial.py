"""Convolutions, pooling, interpolation, fold and unfold against PyTorch: functions over a wide grid of parameters, first
and second derivatives, modules, and errors."""

import itertools
import random

import pytest
import torch
import torch.nn.functional as F

import gt
import gt.nn.functional as G
from gt import nn
from support import check, to_gt, to_torch

CLOSE = dict(rtol=2e-4, atol=2e-4)


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def compare(torch_function, gt_function, inputs, what, seed=9):
    """Results and the gradients of all inputs."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    ours = [to_gt(x).requires_grad_() for x in inputs]
    y, t = torch_function(*leaves), gt_function(*ours)
    check(t, y.detach(), what, **CLOSE)
    g = draw(*y.shape, seed=seed)
    y.backward(g)
    t.backward(to_gt(g))
    for k, (leaf, our) in enumerate(zip(leaves, ours)):
        check(our.grad, leaf.grad, f"{what}: gradient {k}", **CLOSE)


def function(module, name, dimensions):
    return getattr(module, f"{name}{dimensions}d")


# ---- convolutions ---------------------------------------------------------------------------------------------


def conv_grid(dimensions):
    for k, s, p, d, g in itertools.product((1, 2, 3), (1, 2), (0, 1), (1, 2), (1, 2)):
        yield dict(kernel=k, stride=s, padding=p, dilation=d, groups=g)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_conv_grid(dimensions):
    for options in conv_grid(dimensions):
        kernel = options.pop("kernel")
        x = draw(2, 4, *(7, 6, 5)[:dimensions], seed=1)
        w = draw(6, 4 // options["groups"], *(kernel,) * dimensions, seed=2)
        b = draw(6, seed=3)
        compare(
            lambda *a: function(F, "conv", dimensions)(*a, **options),
            lambda *a: function(G, "conv", dimensions)(*a, **options),
            [x, w, b],
            f"conv{dimensions}d, kernel {kernel}, {options}",
        )


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_conv_transpose_grid(dimensions):
    for options in conv_grid(dimensions):
        kernel = options.pop("kernel")
        options["output_padding"] = max(options["stride"], options["dilation"]) - 1
        x = draw(2, 4, *(4, 3, 5)[:dimensions], seed=1)
        w = draw(4, 6 // options["groups"], *(kernel,) * dimensions, seed=2)
        b = draw(6, seed=3)
        if kernel == 1 and options["padding"] and min(x.shape[2:]) < 4:
            continue  # nothing is left
        compare(
            lambda *a: function(F, "conv_transpose", dimensions)(*a, **options),
            lambda *a: function(G, "conv_transpose", dimensions)(*a, **options),
            [x, w, b],
            f"conv_transpose{dimensions}d, kernel {kernel}, {options}",
        )


@pytest.mark.parametrize("seed", range(40))
def test_conv_at_random(seed):
    """Different parameters for each axis; channel counts that fill tiles and that do not."""
    rng = random.Random(seed)
    dimensions, groups = rng.choice([1, 2, 2, 3]), rng.choice([1, 1, 2, 3])
    kernel, stride, padding, dilation = (
        [rng.choice(numbers) for _ in range(dimensions)] for numbers in ([1, 2, 3, 5], [1, 1, 2, 3], [0, 1, 3], [1, 1, 3])
    )
    sizes = [max(1, d * (k - 1) + 1 - 2 * p) + rng.randint(0, 12) for k, d, p in zip(kernel, dilation, padding)]
    x = draw(rng.choice([1, 3]), groups * rng.choice([1, 2, 5]), *sizes, seed=seed)
    w = draw(groups * rng.choice([1, 3, 8, 17]), x.shape[1] // groups, *kernel, seed=seed + 1)
    arguments = (None, stride, padding, dilation, groups)
    compare(
        lambda a, b: function(F, "conv", dimensions)(a, b, *arguments),
        lambda a, b: function(G, "conv", dimensions)(a, b, *arguments),
        [x, w],
        f"{tuple(x.shape)} with {tuple(w.shape)}, {arguments}",
    )


@pytest.mark.parametrize(
    "shape, weight, options",
    [
        ((2, 24, 30, 31), (40, 24, 3, 3), dict(padding=1)),  # several tiles of channels
        ((1, 3, 65, 67), (16, 3, 7, 7), dict(stride=2, padding=3)),
        ((2, 600, 5, 5), (9, 600, 1, 1), {}),  # more taps than are done at once
        ((2, 70, 6, 7), (10, 70, 3, 3), dict(padding=1)),
        ((3, 32, 17, 19), (32, 1, 3, 3), dict(padding=1, groups=32)),  # depthwise
        ((3, 8, 17, 19), (16, 1, 5, 5), dict(padding=2, groups=8)),
        ((2, 8, 40, 40), (8, 8, 1, 1), dict(stride=2)),
        ((1, 1, 200, 180), (4, 1, 3, 3), dict(padding=2, dilation=2)),
    ],
)
def test_conv_large(shape, weight, options):
    x, w = draw(*shape, seed=1), draw(*weight, seed=2) * 0.2
    compare(lambda a, b: F.conv2d(a, b, **options), lambda a, b: G.conv2d(a, b, **options), [x, w], f"{shape}, {weight}")


def test_conv_padding_names():
    for kernel, dilation in itertools.product((1, 2, 3, 4), (1, 2)):
        x, w = draw(2, 3, 9, 8), draw(4, 3, kernel, kernel)
        for padding in ("same", "valid"):
            compare(
                lambda a, b: F.conv2d(a, b, padding=padding, dilation=dilation),
                lambda a, b: G.conv2d(a, b, padding=padding, dilation=dilation),
                [x, w],
                f"{padding}, kernel {kernel}, dilation {dilation}",
            )
    with pytest.raises(RuntimeError, match="not supported for strided"):
        G.conv2d(to_gt(x), to_gt(w), padding="same", stride=2)
    with pytest.raises(RuntimeError, match="Invalid padding string"):
        G.conv2d(to_gt(x), to_gt(w), padding="full")


def test_conv_unbatched_and_empty():
    x, w, b = draw(3, 8, 7), draw(4, 3, 3, 3), draw(4)
    compare(F.conv2d, G.conv2d, [x, w, b], "unbatched")
    compare(F.conv_transpose2d, G.conv_transpose2d, [draw(4, 5, 5), w, draw(3)], "unbatched, transposed")
    empty = torch.zeros(0, 3, 8, 7)
    compare(F.conv2d, G.conv2d, [empty, w, b], "no images")
    assert tuple(G.max_pool2d(to_gt(empty), 2).shape) == (0, 3, 4, 3)


def test_conv_of_views():
    x, w = draw(2, 5, 9, 8), draw(6, 5, 3, 3)
    for view in (lambda t: t.permute(0, 1, 3, 2), lambda t: t[:, :, ::2, 1:], lambda t: t[:1].expand(3, 5, 9, 8)):
        compare(
            lambda a, b: F.conv2d(view(a), b.transpose(2, 3)), lambda a, b: G.conv2d(view(a), b.transpose(2, 3)), [x, w],
            "views",
        )  # fmt: skip


@pytest.mark.parametrize("name", ["conv", "conv_transpose"])
def test_conv_second_derivatives(name):
    """d/d(x, w) of the squared norm of the gradients: every row's rule is used again."""
    options = dict(stride=2, padding=1, groups=2)
    x, w = draw(2, 4, 6, 5, seed=1).double(), draw(4, 2, 3, 3, seed=2).double()

    def twice(function, grad, x, w):
        y = function(x, w, **options)
        first = grad((y * y * y).sum(), [x, w], create_graph=True)
        return grad((first[0] * first[0]).sum() + (first[1] * first[1]).sum(), [x, w])

    expected = twice(function(F, name, 2), torch.autograd.grad, x.requires_grad_(), w.requires_grad_())
    actual = twice(function(G, name, 2), gt.grad, to_gt(x).requires_grad_(), to_gt(w).requires_grad_())
    for ours, theirs in zip(actual, expected):
        check(ours, theirs, rtol=1e-9, atol=1e-9)


def test_conv_errors():
    x, w = to_gt(draw(2, 3, 8, 8)), to_gt(draw(4, 3, 3, 3))
    with pytest.raises(RuntimeError, match="expected input.* to have 3 channels, but got 2 channels instead"):
        G.conv2d(x[:, :2], w)
    with pytest.raises(RuntimeError, match=r"Kernel size: \(3 x 3\). Kernel size can't be greater than actual input size"):
        G.conv2d(x[:, :, :2], w)
    with pytest.raises(RuntimeError, match=r"Expected 3D \(unbatched\) or 4D \(batched\) input to conv2d"):
        G.conv2d(x[0, 0], w)
    with pytest.raises(RuntimeError, match="weight of"):
        G.conv2d(x, w[0])
    with pytest.raises(RuntimeError, match="stride should be greater than zero"):
        G.conv2d(x, w, stride=0)
    with pytest.raises(RuntimeError, match="padding should be not negative"):
        G.conv2d(x, w, padding=-1)
    with pytest.raises(RuntimeError, match="groups"):
        G.conv2d(x, w, groups=3)
    with pytest.raises(RuntimeError, match="bias to be 1-dimensional with 4 elements"):
        G.conv2d(x, w, to_gt(draw(3)))
    with pytest.raises((RuntimeError, TypeError), match="should be the same"):
        G.conv2d(x, w.double())
    with pytest.raises(RuntimeError, match="expected stride to be a single integer value or a list of 2 values"):
        G.conv2d(x, w, stride=(1, 2, 3))
    with pytest.raises(RuntimeError, match="output padding must be smaller"):
        G.conv_transpose2d(to_gt(draw(2, 4, 5, 5)), w, output_padding=1)
    with pytest.raises(TypeError):
        G.conv2d(x, None)
    check(G.conv2d(x, w), F.conv2d(to_torch(x), to_torch(w)), "the session goes on", **CLOSE)


# ---- pooling --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_max_pool_grid(dimensions):
    x = draw(2, 3, *(9, 8, 7)[:dimensions])
    for k, s, p, d, ceil in itertools.product((1, 2, 3), (None, 1, 2, 3), (0, 1), (1, 2), (False, True)):
        if p > k // 2:
            continue
        arguments = (k, s, p, d, ceil)
        what = f"max_pool{dimensions}d{arguments}"
        compare(
            lambda a: function(F, "max_pool", dimensions)(a, *arguments),
            lambda a: function(G, "max_pool", dimensions)(a, *arguments),
            [x],
            what,
        )
        _, index = function(F, "max_pool", dimensions)(x, *arguments, return_indices=True)
        check(function(G, "max_pool", dimensions)(to_gt(x), *arguments, return_indices=True)[1], index, what)


def test_max_pool_of_special_values():
    """NaN wins, the first of equal elements is taken, and a window of minus infinities has an index."""
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([[-inf, -inf, 1, 1, nan, 0, 2, nan, nan, 3], [0.0, -0.0, 5, 5, 5, 5, -inf, -1, inf, nan]])
    values, index = F.max_pool1d(x, 2, 1, return_indices=True)
    ours, places = G.max_pool1d(to_gt(x), 2, 1, return_indices=True)
    check(ours, values)
    check(places, index)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_avg_pool_grid(dimensions):
    x = draw(2, 3, *(9, 8, 7)[:dimensions])
    for k, s, p, ceil, count in itertools.product((1, 2, 3), (None, 1, 2, 3), (0, 1), (False, True), (False, True)):
        if p > k // 2:
            continue
        for divisor in (None, 3) if dimensions > 1 else (None,):
            arguments = (k, s, p, ceil, count) + ((divisor,) if dimensions > 1 else ())
            compare(
                lambda a: function(F, "avg_pool", dimensions)(a, *arguments),
                lambda a: function(G, "avg_pool", dimensions)(a, *arguments),
                [x],
                f"avg_pool{dimensions}d{arguments}",
            )


@pytest.mark.parametrize("kind", ["avg", "max"])
def test_adaptive_pool(kind):
    for dimensions, sizes in [(1, [1, 3, 5, 11]), (2, [1, (3, 2), (7, 9), (None, 4), (10, 11)]), (3, [1, (2, 3, 4)])]:
        x = draw(2, 3, *(7, 9, 5)[:dimensions])
        for size in sizes:
            name = f"adaptive_{kind}_pool"
            compare(
                lambda a: function(F, name, dimensions)(a, size), lambda a: function(G, name, dimensions)(a, size), [x],
                f"{name}{dimensions}d({size})",
            )  # fmt: skip
    values, index = F.adaptive_max_pool2d(x[:, :, 0], (3, 2), return_indices=True)
    ours, places = G.adaptive_max_pool2d(to_gt(x[:, :, 0]), (3, 2), return_indices=True)
    check(ours, values)
    check(places, index)


def test_pool_second_derivatives():
    x = draw(2, 2, 6, 6).double()
    for pool in ("max_pool2d", "avg_pool2d"):

        def twice(module, grad, x):
            (first,) = grad((getattr(module, pool)(x, 3, 2, 1) ** 3).sum(), [x], create_graph=True)
            return grad((first * first).sum(), [x])[0]

        expected = twice(F, torch.autograd.grad, x.clone().requires_grad_())
        check(twice(G, gt.grad, to_gt(x).requires_grad_()), expected, pool, rtol=1e-9, atol=1e-9)


def test_pool_errors():
    x = to_gt(draw(2, 3, 8, 8))
    with pytest.raises(RuntimeError, match="pad should be at most half of effective kernel size"):
        G.max_pool2d(x, 2, padding=2)
    with pytest.raises(RuntimeError, match="Output size is too small"):
        G.max_pool2d(x, 9)
    with pytest.raises(RuntimeError, match="Expected 3D or 4D"):
        G.avg_pool2d(x[0, 0], 2)
    with pytest.raises(RuntimeError, match="divisor must be not zero"):
        G.avg_pool2d(x, 2, divisor_override=0)
    with pytest.raises(RuntimeError, match="stride should be greater than zero"):
        G.avg_pool2d(x, 2, stride=0)
    with pytest.raises(RuntimeError, match="non-zero size"):
        G.adaptive_avg_pool2d(x[:, :, :0], 2)


# ---- interpolation, columns -----------------------------------------------------------------------------------

INTERPOLATIONS = [
    (shape, options, mode)
    for shape, modes in [
        ((2, 3, 7), ["nearest", "nearest-exact", "linear", "area"]),
        ((2, 3, 7, 5), ["nearest", "nearest-exact", "bilinear", "bicubic", "area"]),
        ((2, 2, 4, 5, 3), ["nearest", "trilinear"]),
    ]
    for mode in modes
    for options in [dict(scale_factor=2), dict(scale_factor=1.7), dict(scale_factor=0.6), dict(size=(9, 4, 6)), dict(size=5),
                    dict(scale_factor=1.7, recompute_scale_factor=True)]  # fmt: skip
]


@pytest.mark.parametrize("shape, options, mode", INTERPOLATIONS)
def test_interpolate(shape, options, mode):
    options = dict(options)
    if isinstance(options.get("size"), tuple):
        options["size"] = options["size"][: len(shape) - 2]
    for align in (None, False, True) if mode.endswith(("linear", "cubic")) else (None,):
        keywords = dict(**options, mode=mode, align_corners=align)
        compare(
            lambda a: F.interpolate(a, **keywords), lambda a: G.interpolate(a, **keywords), [draw(*shape)], f"{keywords}"
        )


def test_nearest_picks_the_same_elements():
    """Sizes for which the position computed in float and in double round to different sides."""
    x = torch.arange(49.0).reshape(1, 1, 49)
    for size in range(1, 160):
        check(G.interpolate(to_gt(x), size=size), F.interpolate(x, size=size), f"size {size}")


def test_interpolate_errors():
    x = to_gt(draw(1, 2, 4, 4))
    with pytest.raises(ValueError, match="only one of size or scale_factor"):
        G.interpolate(x, size=3, scale_factor=2)
    with pytest.raises(ValueError, match="either size or scale_factor"):
        G.interpolate(x)
    with pytest.raises(ValueError, match="align_corners option can only be set"):
        G.interpolate(x, size=3, align_corners=True)
    with pytest.raises(NotImplementedError, match="linear"):
        G.interpolate(x, size=3, mode="linear")
    with pytest.raises(RuntimeError, match="greater than 0"):
        G.interpolate(x, size=0)


def test_unfold_and_fold():
    for k, d, p, s in itertools.product(((1, 1), (3, 2), (2, 4)), (1, 2), (0, 1), (1, 2)):
        x = draw(2, 3, 9, 8)
        compare(lambda a: F.unfold(a, k, d, p, s), lambda a: G.unfold(a, k, d, p, s), [x], f"unfold{k, d, p, s}")
        columns = draw(*F.unfold(x, k, d, p, s).shape, seed=4)
        fold = ((9, 8), k, d, p, s)
        compare(lambda a: F.fold(a, *fold), lambda a: G.fold(a, *fold), [columns], f"fold{fold}")
    check(G.unfold(to_gt(x[0]), 3), F.unfold(x[0], 3), "unbatched")
    with pytest.raises(RuntimeError, match="columns"):
        G.fold(to_gt(columns), (9, 9), 3)
    with pytest.raises(RuntimeError, match="not positive"):
        G.unfold(to_gt(x), 10)


# ---- modules --------------------------------------------------------------------------------------------------

MODULES = [
    ("Conv1d", (4, 6, 3), {}, (2, 4, 9)),
    ("Conv1d", (4, 6, 3), dict(padding="same", bias=False), (4, 9)),
    ("Conv2d", (4, 6, 3), dict(stride=2, padding=1), (2, 4, 9, 8)),
    ("Conv2d", (4, 8, (3, 2)), dict(dilation=2, groups=4), (2, 4, 9, 8)),
    ("Conv2d", (2, 3, 3), dict(padding=(1, 2), padding_mode="reflect"), (2, 2, 5, 6)),
    ("Conv2d", (2, 3, 3), dict(padding=1, padding_mode="replicate"), (2, 5, 6)),
    ("Conv1d", (2, 3, 4), dict(padding="same", padding_mode="circular"), (2, 2, 7)),
    ("Conv3d", (2, 3, 2), dict(padding=(1, 0, 1)), (2, 2, 4, 5, 3)),
    ("ConvTranspose1d", (4, 6, 3), dict(stride=2), (2, 4, 9)),
    ("ConvTranspose2d", (4, 6, 3), dict(stride=2, padding=1, output_padding=1, groups=2), (2, 4, 5, 6)),
    ("ConvTranspose3d", (2, 3, 2), dict(bias=False, dilation=2), (1, 2, 3, 4, 3)),
    ("MaxPool1d", (2,), {}, (2, 3, 8)),
    ("MaxPool2d", ((3, 2),), dict(stride=2, padding=1, ceil_mode=True), (2, 3, 9, 8)),
    ("MaxPool3d", (2,), dict(dilation=2), (2, 3, 5, 6, 7)),
    ("AvgPool1d", (2,), {}, (2, 3, 8)),
    ("AvgPool2d", (3,), dict(padding=1, count_include_pad=False), (2, 3, 9, 8)),
    ("AvgPool3d", (2,), dict(divisor_override=3), (2, 3, 5, 6, 7)),
    ("AdaptiveAvgPool1d", (3,), {}, (2, 3, 8)),
    ("AdaptiveAvgPool2d", ((3, None),), {}, (2, 3, 9, 8)),
    ("AdaptiveMaxPool2d", (1,), {}, (2, 3, 9, 8)),
    ("Upsample", (), dict(scale_factor=2), (2, 3, 4, 5)),
    ("Upsample", (), dict(size=(5, 9), mode="bilinear", align_corners=True), (2, 3, 4, 5)),
    ("Unfold", ((2, 3),), dict(padding=1), (2, 3, 5, 6)),
    ("Fold", ((5, 6), 3), {}, (2, 27, 12)),
]


@pytest.mark.parametrize("name, arguments, options, shape", MODULES)
def test_module(name, arguments, options, shape):
    theirs, ours = getattr(torch.nn, name)(*arguments, **options), getattr(nn, name)(*arguments, **options)
    assert repr(ours) == repr(theirs)
    assert {key: tuple(value.shape) for key, value in ours.state_dict().items()} == {
        key: tuple(value.shape) for key, value in theirs.state_dict().items()
    }
    ours.load_state_dict({key: to_gt(value) for key, value in theirs.state_dict().items()})
    x = draw(*shape)
    compare(theirs, ours, [x], repr(ours))
    for parameter, reference in zip(ours.parameters(), theirs.parameters()):
        check(parameter.grad, reference.grad, f"{name}: a parameter's gradient", **CLOSE)


def test_transposed_output_size():
    theirs, ours = torch.nn.ConvTranspose2d(3, 2, 3, stride=2), nn.ConvTranspose2d(3, 2, 3, stride=2)
    ours.load_state_dict({key: to_gt(value) for key, value in theirs.state_dict().items()})
    x = draw(1, 3, 4, 5)
    for size in [(9, 11), (10, 12), [1, 2, 9, 12]]:
        check(ours(to_gt(x), output_size=size), theirs(x, output_size=size).detach(), f"{size}", **CLOSE)
    with pytest.raises(ValueError, match="requested an output size"):
        ours(to_gt(x), output_size=(20, 20))


def test_initial_weights():
    """PyTorch's distribution: uniform within one over the root of the inputs of an output."""
    gt.manual_seed(3)
    for layer, inputs in [(nn.Conv2d(16, 40, 5), 400), (nn.ConvTranspose2d(16, 40, 5), 1000), (nn.Conv1d(8, 64, 4, groups=2), 16)]:
        bound = inputs**-0.5
        for parameter in layer.parameters():
            x = to_torch(parameter.detach())
            assert float(x.abs().max()) <= bound
            assert float(x.abs().max()) > bound * 0.8
            assert abs(float(x.mean())) < bound * 0.3
    with pytest.raises(ValueError, match="divisible by groups"):
        nn.Conv2d(3, 4, 3, groups=2)
    with pytest.raises(ValueError, match="padding_mode"):
        nn.Conv2d(3, 4, 3, padding_mode="mirror")


def test_training_a_cnn_like_torch():
    """The same network from the same weights: each of 20 losses, and the weights in the end."""

    def network(nn):
        return nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 8, 3), nn.ReLU(),
                             nn.AvgPool2d(2), nn.Flatten(), nn.Linear(32, 4))  # fmt: skip

    torch.manual_seed(0)
    theirs, ours = network(torch.nn), network(nn)
    ours.load_state_dict({key: to_gt(value) for key, value in theirs.state_dict().items()})
    optimizers = torch.optim.SGD(theirs.parameters(), lr=0.1), gt.optim.SGD(ours.parameters(), lr=0.1)
    for step in range(20):
        x = draw(16, 1, 12, 12, seed=step)
        y = (x.sum((1, 2, 3)) > 0).long() + 2 * (x[:, 0, 0, 0] > 0).long()
        losses = F.cross_entropy(theirs(x), y), G.cross_entropy(ours(to_gt(x)), to_gt(y))
        for loss, optimizer in zip(losses, optimizers):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert abs(losses[1].item() - losses[0].item()) <= 1e-4 * abs(losses[0].item()), f"step {step}"
    for name, parameter in theirs.state_dict().items():
        check(ours.state_dict()[name], parameter, name, rtol=1e-3, atol=1e-4)
