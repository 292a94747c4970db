"""The rows that slide windows (convolutions, pooling, im2col, resample) for the walk over the op table: each in every dtype
against torch, through the functions users call. test_spatial.py has the wide grid of parameters."""

import torch
import torch.nn.functional as F

import gt
import gt.nn.functional as G
from support import FLOATS, raises, to_gt, values

# Both sides round products and sums in different orders.
TOLERANCE = {"float16": (1e-2, 5e-2), "bfloat16": (5e-2, 4e-1), "float32": (1e-5, 1e-4), "float64": (1e-11, 1e-11)}


def layouts(x):
    """The same values, contiguous and as views; (what, GT's tensor)."""
    yield "contiguous", to_gt(x)
    yield "permuted", to_gt(x.movedim(1, -1).contiguous()).movedim(-1, 1)
    yield "flipped", to_gt(x.flip(-1).contiguous())[..., ::-1]


def wide(x):
    """A copy to compute with: half precision in float32, so that torch's own rounding does not count, and integers in
    float64, for which torch has all of these functions."""
    kind = torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
    return x.detach().to(kind if x.is_floating_point() else torch.float64, copy=True)


def narrow(result, like):
    """Back to the dtype that is tested; integers wrap."""
    return (result if like.is_floating_point() else result.long()).to(like.dtype)


def refuses(cases, dtype, run, why="not"):
    raises((TypeError, RuntimeError), run, why)
    cases.true(f"{dtype} is refused", True)


def check_conv(name, types, dtype, cases):
    rtol, atol = TOLERANCE.get(dtype, (0, 0))
    x, w, b = values((2, 4, 7, 6), dtype, 1), values((6, 2, 3, 2), dtype, 2), values((6,), dtype, 3)
    if dtype == "bool":
        refuses(cases, dtype, lambda: G.conv2d(to_gt(x), to_gt(w), groups=2))
        return
    options = dict(stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2)
    for what, t in layouts(x):
        expected = narrow(F.conv2d(wide(x), wide(w), wide(b), **options), x)
        cases.same(f"conv2d, {what}", lambda: G.conv2d(t, to_gt(w), to_gt(b), **options), expected, rtol=rtol, atol=atol)
    for shape, kernel in [((0, 4, 5, 5), (2, 4, 3, 3)), ((3, 4, 1, 1), (5, 4, 1, 1)), ((1, 16, 33, 35), (20, 16, 3, 3))]:
        x, w = values(shape, dtype, 4), values(kernel, dtype, 5)
        expected = narrow(F.conv2d(wide(x), wide(w)), x)
        cases.same(f"conv2d of {shape}", lambda: G.conv2d(to_gt(x), to_gt(w)), expected, rtol=rtol, atol=4 * atol)


def check_conv_input(name, types, dtype, cases):
    rtol, atol = TOLERANCE.get(dtype, (0, 0))
    x, w, b = values((2, 6, 4, 5), dtype, 1), values((6, 2, 3, 2), dtype, 2), values((4,), dtype, 3)
    options = dict(stride=(2, 3), padding=(1, 0), output_padding=(1, 2), groups=2, dilation=(2, 1))
    if dtype == "bool":
        refuses(cases, dtype, lambda: G.conv_transpose2d(to_gt(x), to_gt(w), groups=2))
        return
    for what, t in layouts(x):
        run = lambda: G.conv_transpose2d(t, to_gt(w), to_gt(b), **options)  # noqa: E731
        expected = narrow(F.conv_transpose2d(wide(x), wide(w), wide(b), **options), x)
        cases.same(f"conv_transpose2d, {what}", run, expected, rtol=rtol, atol=atol)


def check_conv_weight(name, types, dtype, cases):
    if dtype not in FLOATS:
        cases.true("integers have no gradients, which is what this row is for", True)
        return
    rtol, atol = TOLERANCE[dtype]
    x, w = values((2, 4, 7, 6), dtype, 1), values((6, 2, 3, 2), dtype, 2)
    options = dict(stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2)
    leaf = wide(w).requires_grad_()
    y = F.conv2d(wide(x), leaf, **options)
    g = values(tuple(y.shape), dtype, 3)
    y.backward(wide(g))
    for what, t in layouts(x):

        def run():
            weight = to_gt(w).requires_grad_()
            G.conv2d(t, weight, **options).backward(to_gt(g))
            return weight.grad

        cases.same(f"gradient by weight, {what}", run, leaf.grad.to(x.dtype), rtol=rtol, atol=4 * atol)


def check_max_pool(name, types, dtype, cases):
    x = values((2, 3, 9, 8), dtype, 1)
    if dtype == "bool":
        refuses(cases, dtype, lambda: G.max_pool2d(to_gt(x), 2))
        return
    options = dict(kernel_size=(3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), ceil_mode=True)
    expected, index = F.max_pool2d(x, **options, return_indices=True)
    for what, t in layouts(x):
        cases.same(f"max_pool2d, {what}", lambda: G.max_pool2d(t, **options), expected)
        # Among equal integers torch's choice is the first, too.
        cases.same(f"indices, {what}", lambda: G.max_pool2d(t, **options, return_indices=True)[1], index)
    if dtype not in FLOATS:
        return
    leaf = wide(x).requires_grad_()
    g = values(tuple(expected.shape), dtype, 2)
    F.max_pool2d(leaf, **options).backward(wide(g))

    def gradient():
        t = to_gt(x).requires_grad_()
        G.max_pool2d(t, **options).backward(to_gt(g))
        return t.grad

    rtol, atol = TOLERANCE[dtype]
    cases.same("gradient", gradient, leaf.grad.to(x.dtype), rtol=rtol, atol=atol)


def check_avg_pool(name, types, dtype, cases):
    x = values((2, 3, 9, 8), dtype, 1)
    if dtype == "int64":  # the only integers that PyTorch takes
        for options in (dict(kernel_size=2), dict(kernel_size=3, padding=1, count_include_pad=False)):
            cases.same(f"avg_pool2d, {options}", lambda: G.avg_pool2d(to_gt(x), **options), F.avg_pool2d(x, **options), rtol=0, atol=0)
        return
    if dtype not in FLOATS:
        refuses(cases, dtype, lambda: G.avg_pool2d(to_gt(x), 2))
        return
    rtol, atol = TOLERANCE[dtype]
    for options in [
        dict(kernel_size=2),
        dict(kernel_size=(3, 2), stride=(2, 1), padding=1, ceil_mode=True),
        dict(kernel_size=3, padding=1, count_include_pad=False),
        dict(kernel_size=3, divisor_override=5),
    ]:
        leaf = wide(x).requires_grad_()
        expected = F.avg_pool2d(leaf, **options)
        g = values(tuple(expected.shape), dtype, 2)
        expected.backward(wide(g))
        for what, t in layouts(x):
            cases.same(f"avg_pool2d, {what}, {options}", lambda: G.avg_pool2d(t, **options),
                       expected.detach().to(x.dtype), rtol=rtol, atol=atol)  # fmt: skip

        def gradient():
            t = to_gt(x).requires_grad_()
            G.avg_pool2d(t, **options).backward(to_gt(g))
            return t.grad

        cases.same(f"gradient, {options}", gradient, leaf.grad.to(x.dtype), rtol=rtol, atol=atol)


def check_unfold(name, types, dtype, cases):
    x = values((2, 3, 7, 6), dtype, 1)
    options = dict(kernel_size=(3, 2), dilation=(1, 2), padding=(1, 0), stride=(2, 1))
    columns = narrow(F.unfold(x.double(), **options), x)
    if name == "im2col":
        for what, t in layouts(x):
            cases.same(f"unfold, {what}", lambda: G.unfold(t, **options), columns)
        return
    if dtype == "bool":
        refuses(cases, dtype, lambda: G.fold(to_gt(columns), (7, 6), **options))
        return
    columns = values(tuple(columns.shape), dtype, 2)
    expected = narrow(F.fold(columns.double(), (7, 6), **options), x)
    rtol, atol = TOLERANCE.get(dtype, (0, 0))
    cases.same("fold", lambda: G.fold(to_gt(columns), (7, 6), **options), expected, rtol=rtol, atol=atol)


def check_resample(name, types, dtype, cases):
    x = values((2, 3, 5, 7), dtype, 1)
    if dtype == "bool":
        refuses(cases, dtype, lambda: G.interpolate(to_gt(x), scale_factor=2))
        return
    for what, t in layouts(x):
        expected = narrow(F.interpolate(x.double(), size=(8, 4)), x)
        cases.same(f"nearest, {what}", lambda: G.interpolate(t, size=(8, 4)), expected)
    if dtype not in FLOATS:
        refuses(cases, dtype, lambda: G.interpolate(to_gt(x), scale_factor=2, mode="bilinear"))
        return
    rtol, atol = TOLERANCE[dtype]
    for options in [dict(mode="bilinear"), dict(mode="bilinear", align_corners=True), dict(mode="bicubic")]:
        leaf = wide(x).requires_grad_()
        expected = F.interpolate(leaf, size=(8, 4), **options)
        g = values(tuple(expected.shape), dtype, 2)
        expected.backward(wide(g))

        def gradient():
            t = to_gt(x).requires_grad_()
            G.interpolate(t, size=(8, 4), **options).backward(to_gt(g))
            return t.grad

        cases.same(f"{options}", lambda: G.interpolate(to_gt(x), size=(8, 4), **options), expected.detach().to(x.dtype),
                   rtol=rtol, atol=atol)  # fmt: skip
        cases.same(f"gradient, {options}", gradient, leaf.grad.to(x.dtype), rtol=rtol, atol=2 * atol)


WINDOW_CHECKS = {
    "conv": check_conv,
    "conv_input": check_conv_input,
    "conv_weight": check_conv_weight,
    "max_pool": check_max_pool,
    "max_pool_input": check_max_pool,
    "max_pool_index": check_max_pool,
    "avg_pool": check_avg_pool,
    "avg_pool_input": check_avg_pool,
    "im2col": check_unfold,
    "col2im": check_unfold,
    "resample": check_resample,
    "resample_input": check_resample,
}


def gradient_of(function):
    """(inputs..., g) to the gradient of function(inputs...) by its first input, g being that of its result."""

    def run(*arguments):
        *inputs, g = arguments
        x = inputs[0].detach().requires_grad_()
        with gt.enable_grad():
            return gt.grad([function(x, *inputs[1:])], [x], [g], create_graph=True)[0]

    return run


def conv(x, w, b=None):
    return G.conv2d(x, w, b, stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2)


def fixed(function, *shape):
    """The gradient of function at fixed inputs, as a function of the gradient of its result."""
    x = to_gt(values(shape, "float64", 7))
    return lambda g: gradient_of(function)(x, g)


# For each row a function of float64 tensors that uses it, and their shapes. Gradients use the *_input rows and
# conv_weight.
DIFFERENTIATED = {
    "conv": (conv, (1, 2, 4, 5), (4, 1, 2, 2), (4,)),
    "conv_input": (
        lambda x, w, b: G.conv_transpose1d(x, w, b, stride=2, padding=1, output_padding=1), (2, 2, 3), (2, 3, 2), (3,)),
    "conv_weight": (
        lambda x, g: gradient_of(lambda w: G.conv1d(x, w, padding=1))(to_gt(values((3, 2, 2), "float64", 7)), g),
        (2, 2, 4), (2, 3, 5)),
    "max_pool": (lambda x: G.max_pool2d(x, (2, 3), (2, 1), (0, 1)), (2, 4, 4)),
    "max_pool_input": (lambda g: fixed(lambda x: G.max_pool1d(x, 2, 1), 2, 5)(g), (2, 4)),
    "avg_pool": (lambda x: G.avg_pool2d(x, (2, 3), (2, 1), 1, count_include_pad=False), (2, 4, 4)),
    "avg_pool_input": (lambda g: fixed(lambda x: G.avg_pool1d(x, 2, 1), 2, 5)(g), (2, 4)),
    "im2col": (lambda x: G.unfold(x, 2, padding=1, stride=2), (1, 2, 3, 4)),
    "col2im": (lambda x: G.fold(x, (3, 3), 2), (1, 8, 4)),
    "resample": (lambda x: G.interpolate(x, size=(3, 7), mode="bicubic"), (1, 2, 4, 3)),
    "resample_input": (lambda g: fixed(lambda x: G.interpolate(x, size=5, mode="linear"), 1, 2, 3)(g), (1, 2, 5)),
}  # fmt: skip
