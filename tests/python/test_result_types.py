"""Results of unusual operands that PyTorch defines: dtypes, empty tensors, windows of padding, missing gradients."""

import platform

import pytest
import torch

import gt
import gt.nn.functional
from support import dtype_name

BYTES = [2, 3, 255, 3, 0]


def agree(program):
    """The program, a function of the package, gives the same with gt as with torch: values, shapes and dtypes."""
    wanted, found = program(torch), program(gt)
    wanted, found = (r if isinstance(r, (list, tuple)) else [r] for r in (wanted, found))
    assert len(wanted) == len(found)
    for a, b in zip(wanted, found):
        assert dtype_name(a.dtype) == dtype_name(b.dtype)
        assert tuple(a.shape) == tuple(b.shape)
        torch.testing.assert_close(torch.tensor(b.tolist(), dtype=a.dtype).reshape(a.shape), a.detach(), equal_nan=True)


@pytest.mark.parametrize('empty', ['float32', 'float64', 'float16', 'uint8', 'bool'])
@pytest.mark.parametrize('other', ['int64', 'bool', 'float16', 'float32'])
def test_empty_tensors_count_for_the_dtype_of_cat(empty, other):
    agree(lambda m: [m.cat([m.tensor([], dtype=getattr(m, empty)), m.ones(2, 3, dtype=getattr(m, other))]),
                     m.cat([m.ones(2, 3, dtype=m.int32), m.tensor([], dtype=getattr(m, empty)),
                            m.full((1, 3), 3, dtype=getattr(m, other))])])


def test_integers_beside_an_empty_float64_are_exact_in_cat():
    agree(lambda m: m.cat([m.ones(1, 1, dtype=m.float16), m.tensor([[4099]]), m.tensor([], dtype=m.float64)]))


def test_gradients_pass_the_cast_of_cat():
    x = gt.ones(2, 3, requires_grad=True)
    gt.cat([x, gt.tensor([], dtype=gt.float64)]).sum().backward()
    assert x.grad.dtype == gt.float32 and x.grad.tolist() == [[1.0] * 3] * 2


@pytest.mark.parametrize('dtype', ['float32', 'float64', 'int64'])
def test_max_pool_of_padding_is_the_least_value(dtype):
    def program(m):
        x = m.arange(1, 19).to(getattr(m, dtype))
        pool = m.nn.functional
        return [pool.max_pool2d(x[:2].reshape(1, 1, 1, 2), 2, 1, 1, 2), pool.max_pool2d(x[:6].reshape(1, 1, 2, 3), 2, 1, 1, 3),
                pool.max_pool2d(x.reshape(1, 1, 9, 2), 2, 2, 1, (1, 3))]
    agree(program)


def test_max_pool_of_padding_in_one_and_three_dimensions():
    agree(lambda m: [m.nn.functional.max_pool1d(m.ones(1, 1, 2), 2, 1, 1, 3), m.nn.functional.max_pool3d(m.ones(1, 1, 2, 2, 2), 2, 1, 1, 3)])


def test_windows_of_padding_give_no_gradient():
    x = gt.arange(6.0).reshape(1, 1, 2, 3).requires_grad_()
    y = gt.nn.functional.max_pool2d(x, 2, 1, 1, (1, 4))
    y[y > -gt.inf].sum().backward()
    assert x.grad.sum().item() == (y > -gt.inf).sum().item()


@pytest.mark.parametrize('dtype', ['uint8', 'int8', 'int32', 'int64', 'float32', 'float64'])
def test_trapezoids_of_integers_do_not_wrap(dtype):
    def program(m):
        y = m.tensor([BYTES, BYTES[::-1]], dtype=m.int32).to(getattr(m, dtype))
        return [m.trapz(y), m.trapezoid(y, dx=2), m.trapezoid(y, dim=0), m.trapz(y, m.tensor([0., 1, 2, 4, 5])), m.trapz(y[:, :1]),
                m.trapz(y[:, :0]), m.cumulative_trapezoid(y)]
    agree(program)


def test_trapezoids_of_bools_are_refused():
    with pytest.raises(RuntimeError, match='received a bool input for `y`'):
        gt.trapz(gt.tensor([True, False]))
    with pytest.raises(RuntimeError, match='received a bool input for `x`'):
        gt.trapz(gt.ones(2), gt.tensor([True, False]))


def test_the_norm_of_order_0_has_no_gradient():
    def grads(m):
        found = []
        for function in (lambda x: x.norm(p=0), lambda x: m.linalg.vector_norm(x, 0, 0), lambda x: m.dist(x, m.ones(3), 0),
                         lambda x: m.cdist(x[None], m.ones(1, 3), 0), lambda x: m.pdist(x[:, None], 0)):
            x = m.tensor([1.0, 0.0, 3.0], requires_grad=True)
            y = function(x)
            assert y.requires_grad
            y.sum().backward()
            found.append((y.tolist(), None if x.grad is None else x.grad.tolist()))
        return found
    assert grads(gt) == grads(torch)


def test_any_and_all_of_bytes_are_bytes():
    def program(m):
        x = m.tensor([[2, 0], [3, 0]], dtype=m.uint8)
        return [x.any(), x.all(), m.any(x, 0), m.all(x, 1, keepdim=True), m.any(x, (0, 1)), x.bool().any(), x.int().all(0)]
    agree(program)


@pytest.mark.parametrize('dtype', ['float16', 'bfloat16', 'float32', 'float64', 'int32'])
def test_ldexp_has_the_dtype_of_self(dtype):
    agree(lambda m: [m.ldexp(m.ones(3, dtype=getattr(m, dtype)), m.tensor(powers)) for powers in ([1, 2, -3], [20, -24, -30])])


def test_ldexp_of_float64_has_its_range():
    agree(lambda m: m.ldexp(m.ones(2, dtype=m.float64), m.tensor([200, -200])))


@pytest.mark.parametrize('target', ['float64', 'float32', 'float16', 'bfloat16'])
@pytest.mark.parametrize('input', ['float64', 'float32', 'float16'])
def test_bce_with_logits_has_the_dtype_of_the_target(input, target):
    def program(m):
        x, y = m.tensor([0.5, -1.0], dtype=getattr(m, input)), m.tensor([1.0, 0.0], dtype=getattr(m, target))
        loss = m.nn.functional.binary_cross_entropy_with_logits
        return [loss(x, y), loss(x, y, reduction='none'), loss(x, y, weight=m.ones(2)), loss(x, y, pos_weight=m.ones(2))]
    agree(program)


def test_bce_with_logits_refuses_integers():
    for m in (torch, gt):
        with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
            m.nn.functional.binary_cross_entropy_with_logits(m.ones(2), m.tensor([0, 1]))


@pytest.mark.parametrize('dtype', ['int64', 'uint8', 'float16', 'float32', 'bool'])
def test_the_median_of_nothing(dtype):
    if platform.machine() == 'x86_64' and dtype == 'int64':
        pytest.skip("PyTorch makes NaN an integer as the processor does, which gives INT64_MIN on x86-64; GT gives 0, as on arm64")
    agree(lambda m: [m.tensor([], dtype=getattr(m, dtype)).median(), m.tensor([], dtype=getattr(m, dtype)).nanmedian()])


@pytest.mark.parametrize('dtype', ['int32', 'uint8', 'bool', 'float32'])
def test_vander_of_nothing(dtype):
    agree(lambda m: m.vander(m.tensor([], dtype=getattr(m, dtype))))


def test_embeddings_of_integers():
    agree(lambda m: m.nn.functional.embedding(m.tensor([1, 0, 1]), m.arange(4).reshape(2, 2), scale_grad_by_freq=True))


@pytest.mark.parametrize('ends', [(0, 1 + 1j), (1j, 1)])
def test_linspace_of_complex_ends(ends):
    agree(lambda m: [m.linspace(*ends, 3), m.linspace(*ends, 1), m.linspace(*ends, 0), m.linspace(*ends, 4, dtype=m.complex128)])
    for m in (torch, gt):
        with pytest.raises(RuntimeError, match="can't be safely cast to passed dtype Float"):
            m.linspace(*ends, 3, dtype=m.float32)


@pytest.mark.filterwarnings('ignore:.*degrees of freedom')
def test_the_variance_of_a_complex_number():
    def program(m):
        x = m.tensor(1 + 1j)
        return [x.var(), x.std(), x.var(0), x.std(correction=0), *m.var_mean(x, correction=0), *m.std_mean(x)]
    agree(program)


def test_softmax_of_no_integers():
    def program(m):
        x = m.tensor([], dtype=m.int64)
        return [x.softmax(0), x.log_softmax(0), x.bool().softmax(0), m.ones(2, 0, dtype=m.int32).softmax(0), x.softmax(0, dtype=m.float32)]
    agree(program)


def test_complex_numbers_as_bools():
    agree(lambda m: [m.full((2,), value, dtype=m.bool) for value in (1 + 1j, 1j, 0j)])
    agree(lambda m: [m.tensor(value, dtype=m.bool) for value in (1 + 1j, [1j, 0j])])


@pytest.mark.parametrize('dtype', ['bfloat16', 'float16'])
def test_mv_is_not_cast_by_autocast_on_the_cpu(dtype):
    def program(m):
        with m.autocast('cpu', getattr(m, dtype)):
            matrix, vector = m.ones(2, 2), m.ones(2)
            return [m.mv(matrix, vector), matrix.mv(vector), matrix @ vector]
    agree(program)
