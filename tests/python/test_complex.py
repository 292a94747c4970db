"""Complex tensors against PyTorch: promotion, arithmetic, parts, reductions, movement, gradients, printing, refusals."""

import numpy as np
import pytest
import torch

import gt

UNARY = (
    "neg conj sgn square sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh "
    "asinh acosh atanh sinc sigmoid abs angle isnan isinf isfinite logical_not"
).split()
PAIR = pytest.mark.parametrize("dtype", ["complex64", "complex128"])


def numbers(*shape, dtype="complex64", seed=0, scale=1.5):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=getattr(torch, dtype), generator=generator) * scale


def to_gt(x):
    return gt.from_numpy(x.detach().resolve_conj().numpy().copy())


def check(actual, expected, tolerance=None):
    expected = expected.detach().resolve_conj().resolve_neg()
    assert tuple(actual.shape) == tuple(expected.shape)
    assert actual.dtype.name == str(expected.dtype)[len("torch.") :]
    wide = expected.dtype in (torch.complex128, torch.float64)
    tolerance = tolerance or (1e-11 if wide else 2e-5)
    np.testing.assert_allclose(actual.detach().numpy(), expected.numpy(), rtol=tolerance, atol=tolerance)


# ---- dtypes ---------------------------------------------------------------------------------------------------


def test_dtypes():
    assert gt.complex64.is_complex and not gt.complex64.is_floating_point and gt.complex64.itemsize == 8
    assert gt.cfloat is gt.complex64 and gt.cdouble is gt.complex128
    assert gt.float64.to_complex() is gt.complex128 and gt.complex64.to_real() is gt.float32
    assert gt.tensor(1j).dtype == gt.complex64 and gt.zeros(2, dtype=complex).dtype == gt.complex128
    assert gt.finfo(gt.complex64).eps == torch.finfo(torch.complex64).eps


def test_promotion():
    """Tensors, 0-d tensors and Python numbers of every dtype with complex ones."""
    kinds = ["bool", "uint8", "int16", "int64", "bfloat16", "float32", "float64", "complex64", "complex128"]
    for left in kinds:
        for shape in ((3,), ()):
            x = torch.ones(shape, dtype=getattr(torch, left))
            g = gt.ones(shape, dtype=left)
            assert (g * 1j).dtype.name == str((x * 1j).dtype)[6:]
            assert (2j + g).dtype.name == str((2j + x).dtype)[6:]
            for right in ("complex64", "complex128"):
                for other in ((3,), ()):
                    y = torch.ones(other, dtype=getattr(torch, right))
                    expected = str((x + y).dtype)[6:]
                    assert (g + gt.ones(other, dtype=right)).dtype.name == expected, (left, shape, right, other)


def test_python_numbers_keep_their_digits():
    x = gt.ones(2, dtype=gt.float64)
    assert (x * 0.1j).tolist() == [0.1j, 0.1j]
    assert (x ** (0.5 + 0.1j)).tolist() == [1, 1]
    assert (np.complex64(2j) * gt.ones(1)).tolist() == [2j]
    assert (x == 1 + 0j).all().item()


def test_creation_and_interchange():
    data = [[1 + 2j, 3], [0.5, -1j]]
    check(gt.tensor(data), torch.tensor(data))
    check(gt.tensor(data, dtype=gt.complex128), torch.tensor(data, dtype=torch.complex128))
    check(gt.full((2, 3), 1 - 1j), torch.full((2, 3), 1 - 1j))
    check(gt.full_like(gt.zeros(2, dtype=gt.complex128), 2j), torch.full((2,), 2j, dtype=torch.complex128))
    check(gt.ones(2, dtype=gt.complex64), torch.ones(2, dtype=torch.complex64))
    check(gt.eye(3, dtype=gt.complex64), torch.eye(3, dtype=torch.complex64))
    x = numbers(3, 2, dtype="complex128")
    check(gt.from_dlpack(x), x)
    assert torch.equal(torch.from_dlpack(to_gt(x)), x)
    assert to_gt(x).tolist() == x.tolist() and to_gt(x)[0, 1].item() == x[0, 1].item()
    assert complex(gt.tensor(1 + 2j)) == 1 + 2j
    big = gt.randn(20000, dtype=gt.complex64)
    assert abs(big.abs().square().mean().item() - 1) < 0.05
    assert gt.rand(5, dtype=gt.complex128).imag.ge(0).all().item()
    with pytest.raises(TypeError):
        gt.tensor(1j, dtype=gt.float32)


def test_saved_and_loaded(tmp_path):
    """safetensors has complex64; complex128 is refused by name."""
    from safetensors.torch import load_file

    x = numbers(3, 2)
    gt.save({"x": to_gt(x)}, str(tmp_path / "x.safetensors"))
    check(gt.load(str(tmp_path / "x.safetensors"))["x"], x)
    assert torch.equal(load_file(str(tmp_path / "x.safetensors"))["x"], x)
    with pytest.raises(TypeError, match="no gt.complex128"):
        gt.save({"x": to_gt(x).cdouble()}, str(tmp_path / "y.safetensors"))


def test_repr():
    for x in (
        torch.tensor([1 + 2j, 3.5 - 1j]), torch.tensor(1j), torch.tensor([[1, 2], [3j, 4]], dtype=torch.complex128),
        torch.zeros(0, dtype=torch.complex64), torch.tensor([1e10 + 1j, 1e-5j]), torch.tensor([complex("nan"), 1j]),
        numbers(3, scale=1000), torch.tensor([100000 + 2j, 3.5 - 1j]), torch.arange(1200) * 1j,
        numbers(7, 5, scale=100), torch.tensor([-1 - 0.0j, complex(0, float("inf"))]),
    ):
        assert repr(to_gt(x)) == repr(x).replace("torch.", "gt.")


# ---- arithmetic -----------------------------------------------------------------------------------------------


@PAIR
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, dtype):
    for x in (numbers(37, dtype=dtype), numbers(5, 6, dtype=dtype, seed=1).t(), numbers(4, dtype=dtype)[::2]):
        check(getattr(gt, name)(to_gt(x)), getattr(torch, name)(x), 1e-4 if dtype == "complex64" else None)


def test_special_values():
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([0j, 1, -1, 1j, complex(inf, 1), complex(nan, 1), complex(1, inf), complex(0, nan)])
    for name in ("abs", "isnan", "isinf", "isfinite", "sgn", "logical_not", "angle", "square"):
        expected, actual = getattr(torch, name)(x), getattr(gt, name)(to_gt(x))
        np.testing.assert_array_equal(actual.numpy()[:4], expected.numpy()[:4], err_msg=name)
    for name in ("isnan", "isinf", "isfinite"):
        assert getattr(gt, name)(to_gt(x)).tolist() == getattr(torch, name)(x).tolist()


@PAIR
def test_binary(dtype):
    x, y = numbers(5, 1, dtype=dtype), numbers(4, dtype=dtype, seed=1)
    real = torch.rand(5, 4, generator=torch.Generator().manual_seed(2)) + 0.5
    for name in ("add", "sub", "mul", "div", "pow"):
        operation = getattr(torch, name)
        for a, b in ((x, y), (x, real), (real, y), (x, 2), (x, 0.5), (x, 3), (x, -1), (x, 1.7), (x, 2j)):
            left, right = (to_gt(v) if isinstance(v, torch.Tensor) else v for v in (a, b))
            check(getattr(gt, name)(left, right), operation(a, b), 1e-4 if dtype == "complex64" else None)
    check(1 / to_gt(x), 1 / x)
    check(2j - to_gt(x), 2j - x)
    check(1.5 ** to_gt(x), 1.5**x, 1e-4)
    assert (to_gt(x) == to_gt(x)).all().item() and not (to_gt(x) != to_gt(x)).any().item()
    check(gt.where(to_gt(real) > 1, to_gt(x), to_gt(y)), torch.where(real > 1, x, y))
    check(gt.where(to_gt(real) > 1, to_gt(x), 1j), torch.where(real > 1, x, 1j))
    check(gt.lerp(to_gt(x), to_gt(y), to_gt(y)), torch.lerp(x, y, y))
    check(gt.logical_and(to_gt(x), to_gt(y)), torch.logical_and(x, y))
    z = to_gt(x)
    z *= 1j
    z += 1
    check(z, x * 1j + 1)


def test_division_of_large_numbers():
    x = torch.tensor([1e30 + 1e30j, 3e38 + 0j, 1e-30 + 1e-30j])
    check(to_gt(x) / to_gt(x), torch.ones(3, dtype=torch.complex64))


def test_refusals():
    x = gt.ones(2, dtype=gt.complex64)
    for call in (
        lambda: x < x, lambda: x.floor(), lambda: x.maximum(x), lambda: x.sort(), lambda: x.argmax(), lambda: x.relu(),
        lambda: x % 2, lambda: gt.softmax(x, 0), lambda: x.amax(), lambda: x // 2,
        lambda: gt.atan2(x, x), lambda: x.erf(), lambda: x.cummax(0),
    ):
        with pytest.raises((RuntimeError, TypeError), match="not implemented for 'ComplexFloat'"):
            call()
    with pytest.raises(NotImplementedError, match="clamp is not supported for complex types"):
        x.clamp(0, 1)
    with pytest.raises(RuntimeError):
        gt.ones(2).imag
    with pytest.raises(RuntimeError):
        y = gt.ones(2)
        y += 1j
    for call in (lambda: gt.ones(2).__setitem__(0, 1j), lambda: gt.ones(2).fill_(1j), lambda: gt.ones(2).masked_fill(gt.ones(2) > 0, 1j)):
        with pytest.raises(RuntimeError, match="value cannot be converted to type float without overflow"):
            call()
    with pytest.raises(NotImplementedError, match="Adam does not take complex parameters"):
        gt.optim.Adam([x.requires_grad_()])
    with pytest.raises((RuntimeError, TypeError)):
        gt.arange(3, dtype=gt.complex64)
    with pytest.raises((IndexError, TypeError, RuntimeError)):
        gt.ones(3)[x]


# ---- parts ----------------------------------------------------------------------------------------------------


@PAIR
def test_parts(dtype):
    x = numbers(3, 4, dtype=dtype)
    g = to_gt(x)
    check(g.real, x.real)
    check(g.imag, x.imag)
    check(gt.real(g), x.real)
    check(gt.view_as_real(g), torch.view_as_real(x))
    check(gt.view_as_complex(gt.view_as_real(g)), x)
    check(gt.view_as_complex(gt.view_as_real(g)[1:, ::2]), x[1:, ::2])
    check(gt.view_as_complex(gt.view_as_real(g).flip(2)), torch.view_as_complex(torch.view_as_real(x).flip(2)))
    odd = torch.arange(15, dtype=x.real.dtype)[1:].reshape(7, 2)  # pairs that start between two complex numbers
    check(gt._gt._as_complex(gt.arange(15, dtype=g.real.dtype)[1:].reshape(7, 2)), torch.view_as_complex(odd.clone()))
    with pytest.raises(RuntimeError, match="storage_offset divisible by 2"):
        gt.view_as_complex(gt.arange(15, dtype=g.real.dtype)[1:].reshape(7, 2))
    check(gt.complex(g.real, g.imag), x)
    check(gt.polar(g.abs(), g.angle()), torch.polar(x.abs(), x.angle()))
    check(g.mH, x.mH)
    check(g.H, x.H)
    check(gt.isreal(gt.tensor([1, 1j])), torch.isreal(torch.tensor([1, 1j])))
    check(gt.tensor([1.0, -2.0, float("nan")]).angle(), torch.tensor([1.0, -2.0, float("nan")]).angle())
    check(g.cdouble(), x.cdouble())
    check(g.to(gt.complex64), x.to(torch.complex64))
    check(g.float(), x.real.float())
    check(gt.tensor([0j, 1j, 1]).bool(), torch.tensor([0j, 1j, 1]).bool())
    g.imag = 0
    check(g, torch.complex(x.real, torch.zeros_like(x.real)))


# ---- reductions, products, movement ---------------------------------------------------------------------------


@PAIR
def test_reductions(dtype):
    x = numbers(4, 5, 6, dtype=dtype)
    for source, view in ((x, to_gt(x)), (x.permute(2, 0, 1), to_gt(x).permute(2, 0, 1)), (x[1:, ::2], to_gt(x)[1:, ::2])):
        for name in ("sum", "mean", "var", "std"):
            check(getattr(view, name)(), getattr(source, name)())
            check(getattr(view, name)((0, 2)), getattr(source, name)((0, 2)))
            check(getattr(view, name)(1, keepdim=True), getattr(source, name)(1, keepdim=True))
        check(view.prod(1), source.prod(1), 1e-4)
        for name in ("cumsum", "cumprod"):
            check(getattr(view, name)(1), getattr(source, name)(1), 1e-4)
        check(view.any(0), source.any(0))
        check(view.all(), source.all())
        check(gt.linalg.norm(view.reshape(-1)), torch.linalg.norm(source.reshape(-1)))
        check(view.norm(p=1), source.norm(p=1))
    check(to_gt(x[0, 0, 0]).sum(), x[0, 0, 0].sum())
    check(to_gt(x[:0]).sum(0), x[:0].sum(0))


@PAIR
def test_products(dtype):
    a, b = numbers(2, 5, 70, dtype=dtype), numbers(70, 3, dtype=dtype, seed=1)
    tolerance = 1e-4 if dtype == "complex64" else None
    check(to_gt(a) @ to_gt(b), a @ b, tolerance)
    check(to_gt(a).mT.conj() @ to_gt(a), a.mT.conj() @ a, tolerance)
    check(to_gt(a)[0] @ to_gt(b)[:, 0], a[0] @ b[:, 0], tolerance)
    u, v = a[0, 0], b[:, 1]
    check(gt.dot(to_gt(u), to_gt(v)), torch.dot(u, v), tolerance)
    check(gt.vdot(to_gt(u), to_gt(v)), torch.vdot(u, v), tolerance)
    check(gt.einsum("bij,jk->bik", to_gt(a), to_gt(b)), torch.einsum("bij,jk->bik", a, b), tolerance)
    large = numbers(150, 150, dtype=dtype)
    check(to_gt(large).t() @ to_gt(large), large.t() @ large, 1e-3 if dtype == "complex64" else None)


@PAIR
def test_movement(dtype):
    x, y = numbers(6, 7, dtype=dtype), numbers(6, 7, dtype=dtype, seed=1)
    g, h = to_gt(x), to_gt(y)
    index = torch.tensor([[0, 2, 1], [5, 5, 3]])
    check(gt.cat([g, h, gt.ones(6, 1)], 1), torch.cat([x, y, torch.ones(6, 1)], 1))
    check(gt.stack([g, h]).permute(2, 0, 1).reshape(7, -1), torch.stack([x, y]).permute(2, 0, 1).reshape(7, -1))
    check(g.flip(0).roll(2, 1), x.flip(0).roll(2, 1))
    check(g[index[0].tolist()], x[index[0]])
    check(g.gather(0, gt.tensor(index.tolist())), x.gather(0, index))
    check(g.scatter_add(0, gt.tensor(index.tolist()), h), x.scatter_add(0, index, y))
    check(g.index_add(0, gt.tensor([1, 1, 3]), h[:3]), x.index_add(0, torch.tensor([1, 1, 3]), y[:3]))
    check(g.scatter(0, gt.tensor(index.tolist()), h), x.scatter(0, index, y))
    check(g.tril(), x.tril())
    check(g.diagonal(), x.diagonal())
    check(g.masked_fill(g.abs() > 1, 1j), x.masked_fill(x.abs() > 1, 1j))
    check(g[g.abs() > 1], x[x.abs() > 1])
    check(g.t().contiguous(), x.t().contiguous())
    g[1:3, ::2] = 2 - 1j
    g[0] = h[0]
    x[1:3, ::2] = 2 - 1j
    x[0] = y[0]
    check(g, x)
    assert gt.allclose(g, g) and not gt.allclose(g, g + 0.1) and g.equal(g)
    big = numbers(300, 200, dtype=dtype)
    check(to_gt(big).t().contiguous(), big.t().contiguous())


# ---- gradients ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in UNARY if not n.startswith(("is", "logical"))])
def test_gradients_of_unary(name):
    x = numbers(4, 3, dtype="complex128")
    g = to_gt(x).requires_grad_()
    x.requires_grad_()
    weight = numbers(4, 3, dtype="complex128", seed=3)
    (getattr(gt, name)(g) * to_gt(weight)).abs().sum().backward()
    (getattr(torch, name)(x) * weight).abs().sum().backward()
    check(g.grad, x.grad, 1e-9)


CASES = {
    "product": lambda T, x, y, r: x * y,
    "quotient": lambda T, x, y, r: x / y,
    "real times complex": lambda T, x, y, r: r * x,
    "complex over real": lambda T, x, y, r: x / r,
    "power": lambda T, x, y, r: x**y,
    "power of a number": lambda T, x, y, r: x**2.5 + x**2,
    "number": lambda T, x, y, r: (x * 3 + 1) / 2 - x * (1 + 2j),
    "matmul": lambda T, x, y, r: x @ y.mT,
    "matrix and vector": lambda T, x, y, r: x @ y[0],
    "real matrix": lambda T, x, y, r: r.to(x.dtype) @ y.mT,
    "prod": lambda T, x, y, r: x.prod(1),
    "cumprod": lambda T, x, y, r: x.cumprod(0),
    "mean": lambda T, x, y, r: x.mean(0) + y.sum(),
    "var": lambda T, x, y, r: x.var(1),
    "norm": lambda T, x, y, r: T.linalg.norm(x.reshape(-1)),
    "parts": lambda T, x, y, r: x.real * y.imag + r,
    "joined": lambda T, x, y, r: T.complex(r, x.abs()) * y,
    "polar": lambda T, x, y, r: T.polar(r, y.angle()) * x,
    "views": lambda T, x, y, r: T.view_as_real(x * y).sum(0) * r.sum(),
    "where": lambda T, x, y, r: T.where(r > 0.5, x, y),
    "indexing": lambda T, x, y, r: x[1:] * y.t().conj().t()[:-1] + T.cat([x, y])[2],
    "sgn": lambda T, x, y, r: T.sgn(x) * y,
    "real part of a cast": lambda T, x, y, r: (x * y).real.to(x.dtype) * x,
}


@pytest.mark.parametrize("case", CASES)
def test_gradients(case):
    tensors = [numbers(3, 4, dtype="complex128"), numbers(3, 4, dtype="complex128", seed=1)]
    tensors.append(torch.rand(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) + 0.3)
    ours = [to_gt(t).requires_grad_() for t in tensors]
    for t in tensors:
        t.requires_grad_()
    (CASES[case](gt, *ours).abs() ** 1.5).sum().backward()
    (CASES[case](torch, *tensors).abs() ** 1.5).sum().backward()
    for a, b in zip(ours, tensors):
        assert (a.grad is None) == (b.grad is None)
        if b.grad is not None:
            check(a.grad, b.grad, 1e-9)


def test_backward_of_a_complex_output():
    x = gt.tensor([1 + 1j, 2], requires_grad=True)
    y = (x * x).sum()
    with pytest.raises(RuntimeError, match="only for real scalar outputs but got gt.complex64"):
        y.backward()
    y.backward(gt.tensor(1 + 0j))
    t = torch.tensor([1 + 1j, 2], requires_grad=True)
    (t * t).sum().backward(torch.tensor(1 + 0j))
    check(x.grad, t.grad)
    with pytest.raises(RuntimeError):
        gt.arange(3).requires_grad_()


def test_second_derivative():
    x, t = gt.tensor([1 + 0.5j, 2j], requires_grad=True), torch.tensor([1 + 0.5j, 2j], requires_grad=True)
    for T, v in ((gt, x), (torch, t)):
        first = (T.grad if T is gt else torch.autograd.grad)((v**3).abs().sum(), v, create_graph=True)[0]
        first.abs().sum().backward()
    check(x.grad, t.grad, 1e-4)


def test_training_with_complex_weights():
    """A few steps of gradient descent on a phase, as with torch."""
    losses = []
    for T in (gt, torch):
        w = T.tensor([0.3 + 0.1j, -0.2j], requires_grad=True)
        for _ in range(5):
            loss = (w * T.tensor([1j, 2.0]) - T.tensor([1.0, 1.0])).abs().square().sum()
            loss.backward()
            with T.no_grad():
                w -= 0.1 * w.grad
            w.grad = None
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


# ---- several workers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1])
def test_spread_over_workers(axis):
    """The same numbers and gradients from split tensors as from whole ones."""
    from gt import _gt

    x, y = numbers(8, 6, 4, dtype="complex128"), numbers(8, 6, 4, dtype="complex128", seed=1)
    connection = _gt.open_embedded(2)
    try:
        _gt.use(connection)
        gt.register_config("parts", gt.SignalConfig(gt.ShardConfig(axis, [0, 1], False), None))
        with gt.signal.context("parts"):
            g, h = to_gt(x).requires_grad_(), to_gt(y)
            product = g * h
            assert "split" in product.placement
            check(product, x * y)
            for actual, expected in (
                (product.abs(), (x * y).abs()), (product.sum(0), (x * y).sum(0)), (product.mean(), (x * y).mean()),
                (product.prod(0), (x * y).prod(0)), (product.real, (x * y).real), (product.conj() * 1j, (x * y).conj() * 1j),
                (gt.view_as_complex(gt.view_as_real(product) * 2), x * y * 2), (product @ h.mT, (x * y) @ y.mT),
                (gt.fft.fft(g), torch.fft.fft(x)), (gt.fft.fftn(g), torch.fft.fftn(x)), (product.cumsum(1), (x * y).cumsum(1)),
                (gt.fft.irfft(g, dim=1), torch.fft.irfft(x, dim=1)), (gt.fft.rfft(g.real, dim=0), torch.fft.rfft(x.real, dim=0)),
                (gt.cat([g, h], 2)[1:, ::2], torch.cat([x, y], 2)[1:, ::2]), (g.var(), x.var()), (g.any(0), x.any(0)),
            ):
                check(actual, expected)
            loss = gt.fft.fft2(g * h).abs().sum()
            loss.backward()
        t = x.clone().requires_grad_()
        torch.fft.fft2(t * y).abs().sum().backward()
        check(g.grad, t.grad, 1e-9)
    finally:
        _gt.use(None)
        connection.close()


@pytest.mark.parametrize("n", [4, 30, 46, 100, 1024, 16384])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_lines_side_by_side(name, n):
    """Seven lines of float32 numbers, which are computed four at a time, are as exact as torch's."""
    generator = np.random.default_rng(n)
    x = generator.standard_normal((7, n)).astype("f")
    x = x if name == "rfft" else (x + 1j * generator.standard_normal((7, n))).astype("c8")
    exact = getattr(torch.fft, name)(torch.tensor(x).to(torch.float64 if name == "rfft" else torch.complex128))
    error = (torch.tensor(getattr(gt.fft, name)(gt.tensor(x)).numpy()) - exact).abs().max() / exact.abs().max()
    theirs = (getattr(torch.fft, name)(torch.tensor(x)) - exact).abs().max() / exact.abs().max()
    assert error <= 4 * theirs + 1e-8
