"""Checks of the other rows of the op table (not elementwise, not reductions): products, views, moves, creation.

Each takes the row's name and types, a dtype and a Collector for its cases. Called by test_ops_table.py.
"""

import torch

import gt
from support import DTYPES, FLOATS, gt_dtype, raises, to_gt, to_torch, torch_dtype, torch_promotion, values
from table_operands import LARGE, SHAPES, SUM_TOLERANCE, operands, torch_function
from table_windows import WINDOW_CHECKS

# ---- normalisation ---------------------------------------------------------------------------------------------


def check_layer_norm(name, types, dtype, cases):
    """All three rows: the two of the backward pass through gradients."""
    if dtype not in FLOATS:
        t = to_gt(values((3, 3), dtype))
        raises((TypeError, RuntimeError), lambda: t._layer_norm(1, None, None, 1e-5), "not implemented for")
        cases.true("refused", True)
        return
    rtol, atol = SUM_TOLERANCE[dtype]
    for what, t, x in operands(dtype, 1):
        if x.dim() == 0 or (x.numel() == 0 and x.shape[-1] == 0):
            continue  # nothing to normalise
        for dims in range(1, x.dim() + 1):
            shape = tuple(x.shape[-dims:])
            arrays = [x.clone(), values(shape, dtype, 2), values(shape, dtype, 3)]
            theirs = [a.requires_grad_() for a in arrays]
            ours = [t.detach().requires_grad_(), *(to_gt(a.detach()).requires_grad_() for a in arrays[1:])]
            expected = torch.nn.functional.layer_norm(theirs[0], shape, theirs[1], theirs[2], eps=0.01)
            result = gt.nn.functional.layer_norm(ours[0], shape, ours[1], ours[2], eps=0.01)
            cases.same(f"layer_norm({what}, {shape})", lambda: result.detach(), expected.detach(), rtol=rtol, atol=atol)
            expected.sum().backward() if expected.numel() == 0 else (expected * expected.detach()).sum().backward()
            (result * result.detach()).sum().backward()
            for which, got, wanted in zip(("input", "weight", "bias"), ours, theirs):
                scale = float(wanted.grad.abs().max()) if wanted.grad.numel() else 0.0
                cases.same(f"gradient of {which}, {what}, {shape}", lambda: got.grad, wanted.grad, rtol=rtol * 4,
                           atol=atol * max(1.0, scale))


def check_batch_norm(name, types, dtype, cases):
    """All four rows: the two of the backward pass through gradients."""
    if dtype not in FLOATS:
        t = to_gt(values((3, 3), dtype))
        raises(RuntimeError, lambda: gt.nn.functional.batch_norm(t, None, None, training=True), "not implemented for")
        cases.true("refused", True)
        return
    rtol, atol = SUM_TOLERANCE[dtype]
    for what, t, x in operands(dtype, 1):
        if x.dim() < 2 or x.numel() <= x.shape[1]:
            continue  # nothing to normalise
        channels = x.shape[1]
        arrays = [x.clone(), values((channels,), dtype, 2), values((channels,), dtype, 3)]
        g = values(tuple(x.shape), dtype, 4)
        theirs = [a.requires_grad_() for a in arrays]
        ours = [t.detach().requires_grad_(), *(to_gt(a.detach()).requires_grad_() for a in arrays[1:])]
        expected = torch.nn.functional.batch_norm(theirs[0], None, None, theirs[1], theirs[2], True, eps=0.01)
        result = gt.nn.functional.batch_norm(ours[0], None, None, ours[1], ours[2], True, eps=0.01)
        cases.same(f"batch_norm({what})", lambda: result.detach(), expected.detach(), rtol=rtol, atol=atol)
        expected.backward(g)
        result.backward(to_gt(g))
        for which, got, wanted in zip(("input", "weight", "bias"), ours, theirs):
            scale = float(wanted.grad.abs().max())
            cases.same(f"gradient of {which}, {what}", lambda: got.grad, wanted.grad, rtol=rtol * 4, atol=atol * max(1.0, scale))


# ---- products, views, data movement ---------------------------------------------------------------------------


def check_matmul(name, types, dtype, cases):
    if dtype == "bool":  # as in torch
        t = to_gt(values((3, 3), dtype))
        raises((TypeError, RuntimeError), lambda: t @ t, "Bool")
        cases.true("refused", True)
        return
    shapes = [
        ((3,), (3,)),
        ((4, 3), (3,)),
        ((3,), (3, 5)),
        ((4, 3), (3, 5)),
        ((2, 4, 3), (3, 5)),
        ((4, 3), (2, 3, 5)),
        ((2, 4, 3), (2, 3, 5)),
        ((2, 1, 4, 3), (6, 3, 5)),
        ((0, 3), (3, 5)),
        ((4, 0), (0, 5)),
        ((2, 0, 3), (3, 4)),
        ((1, 1), (1, 1)),
        ((33, 65), (65, 17)),
        ((3,), (2, 3, 4)),
        ((2, 4, 3), (3,)),
    ]
    rtol, atol = SUM_TOLERANCE.get(dtype, (None, None))
    for left, right in shapes:
        x, y = values(left, dtype, 1), values(right, dtype, 2)
        cases.same(f"{left} @ {right}", lambda: to_gt(x) @ to_gt(y), torch.matmul(x, y), rtol=rtol, atol=atol)
    x, y = values((6, 8), dtype, 3), values((6, 8), dtype, 4)
    s, t = to_gt(x), to_gt(y)
    cases.same("a @ b.T", lambda: s @ t.T, torch.matmul(x, y.T), rtol=rtol, atol=atol)
    cases.same("a.T @ b", lambda: s.T @ t, torch.matmul(x.T, y), rtol=rtol, atol=atol)
    cases.same(
        "stepped",
        lambda: s[::2, ::2] @ t[1::2, ::2].T,
        torch.matmul(x[::2, ::2], y[1::2, ::2].T),
        rtol=rtol,
        atol=atol,
    )
    cases.same(
        "flipped", lambda: s[::-1] @ t[:, ::-1].T, torch.matmul(x.flip(0), y.flip(1).T), rtol=rtol, atol=atol
    )
    cases.same(
        "expanded", lambda: s[:1].expand(6, 8) @ t.T, torch.matmul(x[:1].expand(6, 8), y.T), rtol=rtol, atol=atol
    )


def check_linear(name, types, dtype, cases):
    """Halves with a bias are one row, rounded once; other dtypes are composed."""
    if dtype not in FLOATS:
        cases.true("not used", True)
        return
    rtol, atol = SUM_TOLERANCE[dtype]
    for shape in [(3,), (4, 3), (2, 5, 3), (0, 3), (33, 3)]:
        x, w, b = values(shape, dtype, 1), values((7, 3), dtype, 2), values((7,), dtype, 3)
        expected = (x.double() @ w.double().T + b.double()).to(x.dtype)
        cases.same(f"linear of {shape}", lambda: gt.nn.functional.linear(to_gt(x), to_gt(w), to_gt(b)), expected, rtol=rtol, atol=atol)
    x, w, b = values((16, 40), dtype, 4), values((24, 80), dtype, 5), values((24, 2), dtype, 6)
    s, t, u = to_gt(x), to_gt(w)[:, ::2], to_gt(b)[:, 1]
    expected = torch.nn.functional.linear(x, w[:, ::2], b[:, 1])
    cases.same("stepped", lambda: gt.nn.functional.linear(s, t, u), expected, rtol=rtol, atol=atol)


def check_reshape(name, types, dtype, cases):
    for what, t, x in operands(dtype, 1):
        for shape in [(-1,), (x.numel(),), (1, x.numel(), 1)]:
            if -1 in shape and x.numel() == 0:
                continue
            cases.same(f"reshape({what}, {shape})", lambda: t.reshape(*shape), x.reshape(*shape))
    x = values((4, 6), dtype, 2)
    for shape in [(24,), (2, 12), (8, 3), (2, 2, 2, 3), (-1, 6), (3, -1, 2), (4, 6, 1)]:
        cases.same(f"reshape to {shape}", lambda: to_gt(x).reshape(shape), x.reshape(shape))
        cases.same(f"T reshape to {shape}", lambda: gt.reshape(to_gt(x).T, shape), x.T.reshape(shape))
        cases.same(f"view as {shape}", lambda: to_gt(x).view(*shape), x.view(*shape))


def check_permute(name, types, dtype, cases):
    x = values((2, 3, 4, 5), dtype, 1)
    for order in [(0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2), (-1, 0, 1, 2), (0, -1, 2, 1)]:
        cases.same(f"permute{order}", lambda: to_gt(x).permute(*order), x.permute(*order))
        cases.same(
            f"permute of a permute{order}",
            lambda: gt.permute(to_gt(x).permute(1, 0, 3, 2), order),
            x.permute(1, 0, 3, 2).permute(order),
        )
    for what, t, y in operands(dtype, 2):
        order = tuple(reversed(range(y.dim())))
        cases.same(f"reversed axes of {what}", lambda: t.permute(order), y.permute(order))


def check_expand(name, types, dtype, cases):
    for shape, target in [
        ((), (3,)),
        ((), ()),
        ((1,), (4,)),
        ((3, 1), (3, 5)),
        ((3, 1), (2, 3, 5)),
        ((1, 1), (0, 4)),
        ((4,), (2, -1)),
        ((3, 1), (-1, 7)),
        ((1, 5), (1, 5)),
        ((0,), (2, 0)),
    ]:
        x = values(shape, dtype, 1)
        cases.same(f"{shape}.expand{target}", lambda: to_gt(x).expand(target), x.expand(target))
        if -1 not in target:
            cases.same(
                f"broadcast_to({shape}, {target})",
                lambda: gt.broadcast_to(to_gt(x), target),
                torch.broadcast_to(x, target),
            )


SLICES = [
    (slice(None),),
    (slice(1, 3),),
    (slice(None, None, 2),),
    (slice(-2, None),),
    (slice(5, 1),),
    (slice(0, 100),),
    (slice(None), slice(1, None, 3)),
    (2,),
    (-1,),
    (slice(None), -2),
    (Ellipsis, 1),
    (None, slice(1, 2)),
    (1, 2),
]


def check_slice(name, types, dtype, cases):
    for what, t, x in operands(dtype, 1):
        for index in SLICES:
            try:
                expected = x[index]
            except IndexError:
                continue
            if expected.dim() > 8:
                continue  # more axes than a GT tensor can have
            cases.same(f"{what}{list(index)}", lambda: t[index], expected)


def check_cast(name, types, dtype, cases):
    for target in DTYPES:
        x = values((5, 7), dtype, 1, low=0)
        if dtype in FLOATS and target in ("uint8",):
            x = x.abs()  # a negative float as an unsigned integer is undefined in C
        cases.same(f"{dtype} to {target}", lambda: to_gt(x).to(gt_dtype(target)), x.to(torch_dtype(target)))
        cases.same(
            f"{dtype} to {target}, transposed",
            lambda: to_gt(x).T.to(gt_dtype(target)),
            x.T.to(torch_dtype(target)),
        )
        cases.same(
            f"{dtype} to {target}, 0-d",
            lambda: to_gt(x)[1, 1].to(gt_dtype(target)),
            x[1, 1].to(torch_dtype(target)),
        )
        empty = values((0, 3), dtype)
        cases.same(
            f"{dtype} to {target}, empty", lambda: to_gt(empty).to(gt_dtype(target)), empty.to(torch_dtype(target))
        )
        large = values(LARGE, dtype, 2, low=0).abs() if dtype != "bool" else values(LARGE, dtype, 2)
        cases.same(
            f"{dtype} to {target}, large", lambda: to_gt(large).to(gt_dtype(target)), large.to(torch_dtype(target))
        )
    for method in ("float", "double", "half", "bfloat16", "int", "long", "bool"):
        x = values((4,), dtype, 3, low=0)
        cases.same(f"t.{method}()", lambda: getattr(to_gt(x), method)(), getattr(x, method)())


def check_copy(name, types, dtype, cases):
    for what, t, x in operands(dtype, 1):
        cases.same(f"clone of {what}", lambda: t.clone(), x)
        cases.same(f"contiguous {what}", lambda: t.contiguous(), x)
    x = values((3,), dtype, 2)
    t = to_gt(x)
    other = t.clone()
    other[0] = 0
    cases.same("the original of a clone", lambda: t, x)


def check_cat(name, types, dtype, cases):
    x, y = values((2, 3), dtype, 1), values((4, 3), dtype, 2)
    cases.same("rows", lambda: gt.cat([to_gt(x), to_gt(y)]), torch.cat([x, y]))
    cases.same("columns", lambda: gt.cat([to_gt(x), to_gt(x)], dim=1), torch.cat([x, x], dim=1))
    cases.same("last axis", lambda: gt.cat((to_gt(x), to_gt(x)), dim=-1), torch.cat((x, x), dim=-1))
    cases.same("one", lambda: gt.cat([to_gt(x)]), torch.cat([x]))
    cases.same("with an empty one", lambda: gt.cat([to_gt(x), to_gt(x[:0])]), torch.cat([x, x[:0]]))
    cases.same("views", lambda: gt.cat([to_gt(y).T, to_gt(x).T[:, ::2]], 1), torch.cat([y.T, x.T[:, ::2]], 1))
    cases.same("many", lambda: gt.cat([to_gt(x)] * 600), torch.cat([x] * 600))
    cases.same("axis spelled NumPy's way", lambda: gt.cat([to_gt(x), to_gt(y)], axis=0), torch.cat([x, y]))
    for other in DTYPES:
        z = values((2, 3), other, 3)
        kind = torch_promotion(x.dtype, z.dtype)
        cases.same(
            f"{dtype} with {other}", lambda: gt.cat([to_gt(x), to_gt(z)]), torch.cat([x.to(kind), z.to(kind)])
        )


def check_triangle(name, types, dtype, cases):
    function, reference = getattr(gt, name), torch_function(name)
    for shape in [(4, 4), (3, 5), (5, 3), (2, 3, 4), (0, 3), (3, 0), (1, 1), (70, 60)]:
        x = values(shape, dtype, 1)
        for diagonal in (0, 1, -1, 2, -3, 10, -10):
            cases.same(
                f"gt.{name}({shape}, {diagonal})", lambda: function(to_gt(x), diagonal), reference(x, diagonal)
            )
    x = values((6, 8), dtype, 2)
    cases.same(f"{name} of a transposed", lambda: function(to_gt(x).T), reference(x.T))
    cases.same(f"{name} of a flipped", lambda: function(to_gt(x)[::-1]), reference(x.flip(0)))


def check_take(name, types, dtype, cases):
    x = values((5, 6, 7), dtype, 1)
    t = to_gt(x)
    index = torch.tensor([3, 0, 0, 4, 2])
    for axis in (0, 1, 2, -1, -3):
        cases.same(
            f"index_select({axis})",
            lambda: gt.index_select(t, axis, to_gt(index)),
            torch.index_select(x, axis, index),
        )
        cases.same(
            f"t.index_select({axis})",
            lambda: t.index_select(axis, to_gt(index.int())),
            x.index_select(axis, index),
        )
    view, torch_view = t.permute(2, 0, 1)[::2], x.permute(2, 0, 1)[::2]
    cases.same("of a view", lambda: view.index_select(1, to_gt(index)), torch_view.index_select(1, index))
    cases.same("nothing", lambda: t.index_select(0, to_gt(index[:0])), x.index_select(0, index[:0]))
    table = values((11, 4), dtype, 2)
    tokens = torch.randint(0, 11, (3, 5), generator=torch.Generator().manual_seed(1))
    cases.same("embedding", lambda: gt.embedding(to_gt(table), to_gt(tokens)), table[tokens])
    cases.same("by an integer tensor", lambda: to_gt(table)[to_gt(tokens)], table[tokens])
    cases.same("0-d index", lambda: to_gt(table)[to_gt(torch.tensor(4))], table[4])
    large = values((1000, 33), dtype, 3)
    many = torch.randint(0, 1000, (4000,), generator=torch.Generator().manual_seed(2))
    cases.same("large", lambda: to_gt(large).index_select(0, to_gt(many)), large.index_select(0, many))


def check_gather(name, types, dtype, cases):
    x = values((4, 5, 6), dtype, 1)
    for axis in (0, 1, 2, -1):
        for shape in [(4, 5, 6), (2, 3, 4), (4, 5, 1), (0, 5, 6)]:
            index = torch.randint(0, x.shape[axis], shape, generator=torch.Generator().manual_seed(3))
            cases.same(
                f"gather {shape} along {axis}",
                lambda: gt.gather(to_gt(x), axis, to_gt(index)),
                x.gather(axis, index),
            )
    index = x.double().sort(dim=1, stable=True).indices
    cases.same(
        "take_along_axis",
        lambda: gt.take_along_axis(to_gt(x), to_gt(index), axis=1),
        torch.take_along_dim(x, index, 1),
    )
    cases.same(
        "of a view",
        lambda: to_gt(x).permute(1, 0, 2).gather(0, to_gt(index[:2, :4])),
        x.permute(1, 0, 2).gather(0, index[:2, :4]),
    )


def check_scatter(name, types, dtype, cases):
    if name == "scatter_add" and dtype == "bool":
        cases.true("bool sums are not compared", True)
        return
    for axis in (0, 1, -1):
        x, source = values((5, 6), dtype, 1), values((5, 6), dtype, 2)
        index = torch.stack(
            [
                torch.randperm(x.shape[axis], generator=torch.Generator().manual_seed(k))
                for k in range(x.shape[1 - axis % 2])
            ],
            1 - axis % 2,
        )
        run = lambda: getattr(to_gt(x), name)(axis, to_gt(index), to_gt(source))  # noqa: E731
        cases.same(f"{name} along {axis}", run, getattr(x, name)(axis, index, source))
        small = index[:3, :2] if axis == 0 else index[:2, :3]
        cases.same(
            f"{name} a part along {axis}",
            lambda: getattr(to_gt(x), name)(axis, to_gt(small), to_gt(source)),
            getattr(x, name)(axis, small, source),
        )
    if name == "scatter_add":
        x, source = values((3,), dtype, 3), values((50,), dtype, 4, low=0, high=2)
        index = torch.arange(50) % 3
        rtol, atol = SUM_TOLERANCE.get(dtype, (None, None))
        cases.same(
            "repeated indices add up",
            lambda: to_gt(x).scatter_add(0, to_gt(index), to_gt(source)),
            x.double().scatter_add(0, index, source.double()).to(x.dtype),
            rtol=rtol,
            atol=atol,
        )
    else:
        cases.same(
            "a number",
            lambda: to_gt(x).scatter(1, to_gt(torch.tensor([[0], [2]])), 1),
            x.scatter(1, torch.tensor([[0], [2]]), 1),
        )


def check_assign(name, types, dtype, cases):
    assignments = [
        (slice(None), ()),
        (1, (7,)),
        ((slice(None), 2), (6,)),
        (slice(1, 5, 2), (2, 7)),
        ((Ellipsis, slice(2, 4)), (6, 2)),
        (slice(3, 3), (0, 7)),
        ((slice(0, 2), slice(0, 2)), (2,)),
        ((2, 3), ()),
        (slice(None), (1, 7)),
    ]
    for index, shape in assignments:
        x, source = values((6, 7), dtype, 1), values(shape, dtype, 2)
        for view in ("contiguous", "transposed"):

            def run():
                t = to_gt(x.T).T if view == "transposed" else to_gt(x)
                t[index] = to_gt(source)
                return t

            expected = x.clone()
            expected[index] = source
            cases.same(f"t[{index}] = {shape}, {view}", run, expected)

        def run_number():
            t = to_gt(x)
            t[index] = 1
            return t

        expected = x.clone()
        expected[index] = 1
        cases.same(f"t[{index}] = 1", run_number, expected)


def check_wrap_index(name, types, dtype, cases):
    x = values((5, 6), dtype, 1)
    for kind in (torch.int64, torch.int32):
        index = torch.tensor([-1, 0, -5, 4, 2], dtype=kind)
        cases.same(f"{kind} index", lambda: to_gt(x)[to_gt(index)], x[index.long()])
        cases.same(f"{kind} second axis", lambda: to_gt(x)[:, to_gt(index)], x[:, index.long()])
    one, two = torch.tensor([0, -1, 2]), torch.tensor([-6, 5, 1])
    cases.same("a pair", lambda: to_gt(x)[to_gt(one), to_gt(two)], x[one, two])


def check_mask_index(name, types, dtype, cases):
    x = values((5, 6), dtype, 1)
    for what, mask in [
        ("some", values((5, 6), "bool", 2)),
        ("none", torch.zeros(5, 6).bool()),
        ("all", torch.ones(5, 6).bool()),
        ("rows", torch.tensor([True, False, True, True, False])),
    ]:
        cases.same(f"{what}", lambda: to_gt(x)[to_gt(mask)], x[mask])
    large, mask = values((300, 200), dtype, 3), values((300, 200), "bool", 4)
    cases.same("large", lambda: to_gt(large)[to_gt(mask)], large[mask])
    cases.same(
        "transposed mask", lambda: to_gt(x.T)[to_gt(values((5, 6), "bool", 2)).T], x.T[values((5, 6), "bool", 2).T]
    )


def check_argsort(name, types, dtype, cases):
    for what, t, x in operands(dtype, 1):
        for axis in range(-1 if x.dim() else 0, x.dim()):
            for descending in (False, True):
                expected = torch.sort(x, dim=axis, descending=descending, stable=True)
                cases.same(
                    f"argsort({what}, {axis}, {descending})",
                    lambda: gt.argsort(t, dim=axis, descending=descending, stable=True),
                    expected.indices,
                )
                cases.same(
                    f"sort({what}, {axis}, {descending})", lambda: gt.sort(t, axis, descending)[0], expected.values
                )


def check_topk(name, types, dtype, cases):
    for what, t, x in operands(dtype, 1):
        y = x.to(torch.uint8) if dtype == "bool" else x  # torch refuses bool here
        for axis in range(-x.dim(), x.dim()):
            for k in {0, min(2, x.shape[axis]), x.shape[axis]}:
                for largest in (True, False):
                    expected = y.topk(k, axis, largest).values.to(x.dtype)
                    call = f"topk({what}, k={k}, {axis}, largest={largest})"
                    cases.same(call, lambda: gt.topk(t, k, axis, largest)[0], expected)
                    # Ties have no order in torch: the indices must lead to the values.
                    cases.same(
                        f"{call} indices", lambda: t.gather(axis, gt.topk(t, k, axis, largest)[1]), expected
                    )


# ---- creation -------------------------------------------------------------------------------------------------


def check_full(name, types, dtype, cases):
    for shape in [*SHAPES, LARGE]:
        for value in (0, 1, True, 2.5):
            cases.same(
                f"full({shape}, {value})",
                lambda: gt.full(shape, value, dtype=gt_dtype(dtype)),
                torch.full(shape, value, dtype=torch_dtype(dtype)),
            )
        cases.same(
            f"zeros{shape}",
            lambda: gt.zeros(shape, dtype=gt_dtype(dtype)),
            torch.zeros(shape, dtype=torch_dtype(dtype)),
        )
        cases.same(
            f"ones{shape}",
            lambda: gt.ones(*(shape or [()]), dtype=gt_dtype(dtype)),
            torch.ones(shape, dtype=torch_dtype(dtype)),
        )


def check_arange(name, types, dtype, cases):
    if dtype == "bool":
        cases.true("torch has no range of bool", True)
        return
    for arguments in [(5,), (0,), (2, 9), (1, 10, 3), (10, 1, -2), (100,)]:
        if dtype == "uint8" and len(arguments) == 3 and arguments[2] < 0:
            continue
        cases.same(
            f"arange{arguments}",
            lambda: gt.arange(*arguments, dtype=gt_dtype(dtype)),
            torch.arange(*arguments, dtype=torch_dtype(dtype)),
        )


def check_eye(name, types, dtype, cases):
    for arguments in [(1,), (4,), (3, 5), (5, 3), (0,), (0, 3), (70, 71)]:
        cases.same(
            f"eye{arguments}",
            lambda: gt.eye(*arguments, dtype=gt_dtype(dtype)),
            torch.eye(*arguments, dtype=torch_dtype(dtype)),
        )


def check_random(name, types, dtype, cases):
    function = getattr(gt, name)
    arguments = (0, 100) if name == "randint" else ()
    if name != "randint" and dtype not in FLOATS:
        raises((TypeError, ValueError, RuntimeError), lambda: function(3, dtype=gt_dtype(dtype)))
        cases.true("refused", True)
        return
    if name == "randint" and dtype == "bool":
        arguments = (0, 2)
    for shape in [(), (0,), (5,), (3, 0), (4, 5), LARGE]:

        def draw():
            gt.manual_seed(7)
            return function(*arguments, shape, dtype=gt_dtype(dtype))

        first = draw()
        cases.true(
            f"{name}{shape} has its shape and dtype",
            tuple(first.shape) == shape and first.dtype == gt_dtype(dtype),
        )
        cases.same(
            f"{name}{shape} again", draw, torch.from_numpy(first.to(gt.float64).numpy().copy()), check_dtype=False
        )
    drawn = torch.from_numpy(first.to(gt.float64).numpy().copy())
    bounds = {"rand": (0, 1), "randn": (-8, 8), "randint": arguments}[name]
    cases.true(f"{name} within {bounds}", bool(((drawn >= bounds[0]) & (drawn <= bounds[1])).all()))
    cases.true(f"{name} is not constant", float(drawn.std()) > 0.1)


def check_bernoulli(name, types, dtype, cases):
    if dtype not in FLOATS:
        raises((TypeError, RuntimeError), lambda: gt.bernoulli(to_gt(values((3,), dtype))), "floating")
        cases.true("refused", True)
        return
    for what, t, x in operands(dtype, 1):
        chances = t.sigmoid()

        def draw():
            gt.manual_seed(9)
            return gt.bernoulli(chances)

        # The same uniform numbers, compared by hand: bernoulli and rand take them from the same place.
        gt.manual_seed(9)
        uniform = gt.rand(x.shape, dtype=gt.float64 if dtype == "float64" else gt.float32)
        expected = (uniform < chances.to(uniform.dtype)).to(gt_dtype(dtype))
        cases.same(f"bernoulli({what})", draw, to_torch(expected))
    sure = torch.tensor([0, 1, 0, 1.0]).to(torch_dtype(dtype))
    cases.same("certain", lambda: gt.bernoulli(to_gt(sure)), sure)


def check_multinomial(name, types, dtype, cases):
    if dtype not in FLOATS:
        raises((TypeError, RuntimeError), lambda: gt.multinomial(to_gt(values((3,), dtype)), 1), "floating")
        cases.true("refused", True)
        return
    weights = torch.tensor([[0, 1, 0, 2], [3, 0, 0.5, 0], [0, 0, 0, 1]]).to(torch_dtype(dtype))
    for replacement in (False, True):
        for what, t, x in [
            ("rows", to_gt(weights), weights),
            ("one row", to_gt(weights[0]), weights[0]),
            ("transposed", to_gt(weights.T.contiguous()).T, weights),
            ("stepped", to_gt(weights)[::2], weights[::2]),
            ("expanded", to_gt(weights[:1]).expand(5, 4), weights[:1].expand(5, 4)),
            ("no rows", to_gt(weights[:0]), weights[:0]),
        ]:
            samples = 300 if replacement else 1
            drawn = gt.multinomial(t, samples, replacement)
            shape = (*x.shape[:-1], samples)
            cases.true(f"{what} shape", tuple(drawn.shape) == shape and drawn.dtype == gt.int64)
            picked = torch.take_along_dim(x, to_torch(drawn), -1)
            cases.true(f"{what}: only what has a weight is drawn", bool((picked > 0).all()))
    drawn = to_torch(gt.multinomial(to_gt(torch.rand(50, 30).to(torch_dtype(dtype)) + 0.1), 30))
    cases.same("all of them, each once", lambda: to_gt(drawn.sort(-1).values), torch.arange(30).expand(50, 30))


def check_upload(name, types, dtype, cases):
    for shape in [*SHAPES, LARGE]:
        x = values(shape, dtype, 1)
        cases.same(f"there and back, {shape}", lambda: to_gt(x), x)


# Rows of the other forms, each with its own test.
CHECKS = {
    **WINDOW_CHECKS,
    "matmul": check_matmul,
    "linear": check_linear,
    **dict.fromkeys(("batch_moments", "batch_norm", "batch_norm_backward", "batch_norm_backward_affine"), check_batch_norm),
    "layer_norm": check_layer_norm,
    "layer_norm_backward": check_layer_norm,
    "layer_norm_backward_weight": check_layer_norm,
    "reshape": check_reshape,
    "permute": check_permute,
    "expand": check_expand,
    "slice": check_slice,
    "cast": check_cast,
    "copy": check_copy,
    "cat": check_cat,
    "tril": check_triangle,
    "triu": check_triangle,
    "take": check_take,
    "gather": check_gather,
    "scatter": check_scatter,
    "scatter_add": check_scatter,
    "assign": check_assign,
    "wrap_index": check_wrap_index,
    "mask_index": check_mask_index,
    "argsort": check_argsort,
    "topk": check_topk,
    "full": check_full,
    "arange": check_arange,
    "eye": check_eye,
    "rand": check_random,
    "randn": check_random,
    "randint": check_random,
    "upload": check_upload,
    "bernoulli": check_bernoulli,
    "multinomial": check_multinomial,
}
