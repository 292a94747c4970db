"""Arrays of others: NumPy by the array protocol, DLPack in and out, torch both ways."""

import numpy as np
import pytest
import torch

import gt
from support import DTYPES, Collector, check, gt_dtype, raises, to_gt, values

NUMPY_DTYPES = [name for name in DTYPES if name != "bfloat16"]


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_numpy_out(dtype):
    for shape in [(), (0,), (3,), (2, 3), (2, 0, 3), (300, 400)]:
        x = values(shape, dtype, 1)
        t = to_gt(x)
        for array in (t.numpy(), t.data.numpy(), np.asarray(t), np.array(t)):
            assert isinstance(array, np.ndarray) and array.dtype == x.numpy().dtype and array.shape == shape
            assert np.array_equal(array, x.numpy())
    t = to_gt(values((4, 6), dtype, 2))
    assert np.array_equal(np.asarray(t.T), values((4, 6), dtype, 2).numpy().T)


def test_asarray_with_a_dtype():
    t = gt.tensor([1.5, 2.5])
    assert np.asarray(t, dtype=np.float64).dtype == np.float64
    assert np.asarray(t, dtype=np.int32).tolist() == [1, 2]
    assert np.array(t, dtype="float16").dtype == np.float16
    assert np.array(t, copy=True).tolist() == [1.5, 2.5]


def test_bfloat16_is_float32_in_numpy():
    """NumPy has no bfloat16; torch refuses, GT widens, which loses nothing."""
    array = gt.tensor([1.5, -3.0], dtype=gt.bfloat16).numpy()
    assert array.dtype == np.float32 and array.tolist() == [1.5, -3.0]
    assert gt.ones(2, dtype=gt.bfloat16).float().numpy().tolist() == [1, 1]


def test_an_array_is_its_own_value():
    """The array outlives the tensor, and writing to it does not change the tensor."""
    t = gt.ones(1000)
    array = t.numpy()
    other = t.numpy()
    array[:] = 7
    assert other.sum() == 1000 and t.sum().item() == 1000
    t += 1
    assert other.sum() == 1000
    del t
    assert array.sum() == 7000
    arrays = [gt.full((100_000,), float(k)).numpy() for k in range(20)]
    assert [array[0] for array in arrays] == list(range(20)) and all((a == a[0]).all() for a in arrays)


def test_mixed_arithmetic():
    array, t = np.array([1.0, 2.0, 3.0], np.float32), gt.tensor([10.0, 20.0, 30.0])
    check(t + array, torch.tensor([11.0, 22.0, 33.0]))
    check(t * np.float32(2), torch.tensor([20.0, 40.0, 60.0]))
    check(gt.add(t, array), torch.tensor([11.0, 22.0, 33.0]))
    assert np.asarray(array + t).tolist() == [11, 22, 33]
    assert np.asarray(np.float32(2) * t).tolist() == [20, 40, 60]
    assert float(np.sum(t.numpy())) == 60
    assert t[np.array([True, False, True])].tolist() == [10, 30]


# ---- DLPack ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack_to_torch_and_back(dtype):
    cases = Collector()
    for shape in [(), (3,), (2, 3), (0,), (2, 0, 3), (200, 300)]:
        x = values(shape, dtype, 1)
        out = torch.from_dlpack(to_gt(x))
        cases.true(
            f"torch gets {dtype} {shape}", out.dtype == x.dtype and out.shape == x.shape and bool((out == x).all())
        )
        cases.same(f"gt gets {dtype} {shape}", lambda: gt.from_dlpack(x), x)
    x = values((4, 6), dtype, 2)
    cases.same("transposed", lambda: gt.from_dlpack(x.T), x.T)
    cases.same("stepped", lambda: gt.from_dlpack(x[::2, 1::2]), x[::2, 1::2])
    cases.same("expanded", lambda: gt.from_dlpack(x[:1].expand(3, 6)), x[:1].expand(3, 6))
    cases.finish()


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_dlpack_to_numpy_and_back(dtype):
    x = values((3, 4), dtype, 1)
    assert np.array_equal(np.from_dlpack(to_gt(x)), x.numpy())
    check(gt.from_dlpack(x.numpy().copy()), x)


def test_dlpack_protocol():
    t = gt.ones(2)
    assert t.__dlpack_device__() == (1, 0)
    capsule = t.__dlpack__()
    assert "dltensor" in repr(capsule)
    del capsule  # never consumed: freed by its destructor
    assert "dltensor" in repr(t.__dlpack__(stream=None))
    check(gt.from_dlpack(t), torch.ones(2))
    raises((TypeError, AttributeError, ValueError), lambda: gt.from_dlpack([1, 2]))
    out = torch.from_dlpack(t)
    del t
    assert out.tolist() == [1, 1]


def test_dlpack_keeps_the_values_of_the_call():
    x = torch.ones(100_000)
    t = gt.from_dlpack(x)
    x.fill_(7)
    assert t.sum().item() == 100_000


def test_foreign_dlpack_dtypes_are_refused():
    for x in (torch.zeros(2, dtype=torch.complex32), torch.zeros(2, dtype=torch.uint16)):
        try:
            t = gt.from_dlpack(x)
        except (TypeError, NotImplementedError) as refusal:
            assert str(refusal)
        else:
            assert t.tolist() == [0, 0]


def test_torch_tensors_as_data():
    x = torch.tensor([[1.5, 2.5], [3.5, 4.5]])
    check(gt.tensor(x), x)
    check(gt.tensor(x.T), x.T)
    check(gt.tensor(x, dtype=gt.float64), x.double())
    check(gt.as_tensor(x.numpy()) if hasattr(gt, "as_tensor") else gt.tensor(x), x)


def test_64_mib_there_and_back():
    array = np.random.default_rng(1).random(8 * 1024 * 1024)
    t = gt.from_numpy(array)
    assert np.array_equal(t.numpy(), array)
    assert np.array_equal((t + 1).numpy(), array + 1)
    assert np.array_equal(t.reshape(1024, -1).T.numpy(), array.reshape(1024, -1).T)


def test_dtype_from_others():
    for name in NUMPY_DTYPES:
        assert gt.from_numpy(np.zeros(1, name)).dtype == gt_dtype(name)


def test_numpy_functions_take_tensors_and_give_tensors():
    """As with torch: np.exp(t) converts, computes and gives a tensor back; operators stay GT's."""
    t, x = gt.tensor([[1.0, 4.0], [9.0, 16.0]]), np.array([[1.0, 4.0], [9.0, 16.0]], np.float32)
    for function in (np.exp, np.sqrt, np.isnan, np.negative):
        result = function(t)
        assert isinstance(result, gt.Tensor)
        np.testing.assert_array_equal(result.numpy(), function(x))
    whole, part = np.divmod(t, 3.0)
    assert isinstance(whole, gt.Tensor) and part.tolist() == np.divmod(x, 3.0)[1].tolist()
    assert np.add.reduce(t).tolist() == x.sum(0).tolist()
    out = np.zeros((2, 2), np.float32)
    assert np.exp(t, out=out) is out and np.array_equal(out, np.exp(x))
    out += t
    assert np.array_equal(out, np.exp(x) + x)
    assert np.sin(gt.tensor([1, 2])).dtype == gt.float64
    with pytest.raises(TypeError):
        np.exp(x, out=t)


def test_operators_with_arrays_stay_gt_operations():
    a = np.array([1.0, 2.0], np.float32)
    t = gt.tensor([3.0, 5.0], requires_grad=True)
    for result, wanted in [
        (a + t, [4, 7]), (a - t, [-2, -3]), (a * t, [3, 10]), (a / t, [1 / 3, 0.4]), (a < t, [True, True]),
        (np.float32(2) * t, [6, 10]), (np.add(a, t), [4, 7]), (np.power(a, t), [1, 32]), (a @ t, 13.0),
        (np.array(2.0, np.float32) - t, [-1, -3]), (t % a, [0, 1]),
    ]:
        assert isinstance(result, gt.Tensor)
        np.testing.assert_allclose(result.detach().numpy(), wanted, rtol=1e-6)
    (a * t).sum().backward()
    assert t.grad.tolist() == [1, 2]
