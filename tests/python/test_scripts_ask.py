"""What scripts ask of tensors and modules besides arithmetic: memory, kinds, gt.testing, gt.profiler, errors of both types."""

import numpy as np
import pytest
import torch
import torch.nn.functional as TF

import gt
import gt.nn.functional as F
from gt.testing import assert_close
from support import raises

FLAGS = ["is_meta", "is_mkldnn", "is_mps", "is_nested", "is_quantized", "is_sparse_csr", "is_vulkan", "is_xla", "is_xpu"]


def test_memory_and_kinds():
    ours, theirs = gt.ones(2), torch.ones(2)
    for name in FLAGS:
        assert getattr(ours, name) is getattr(theirs, name) is False
    assert ours.get_device() == theirs.get_device() == -1
    assert ours.is_pinned() is ours.is_shared() is ours.is_inference() is False
    assert ours.pin_memory().to("cpu", non_blocking=True).tolist() == [1, 1]
    assert ours.is_same_size(gt.zeros(2)) and not ours.is_same_size(gt.zeros(1))
    assert ours.record_stream(None) is None
    raises(NotImplementedError, ours.share_memory_, "share")
    raises(NotImplementedError, ours.chalf, "complex32")
    assert not gt.cuda.is_initialized() or gt.cuda.is_available()


def test_apply():
    x = torch.arange(6.0).reshape(2, 3)
    ours = gt.arange(6.0).reshape(2, 3)
    assert ours.apply_(lambda v: v * v + 1) is ours
    assert ours.tolist() == x.apply_(lambda v: v * v + 1).tolist()
    raises(TypeError, lambda: gt.ones(1, requires_grad=True).apply_(abs), "requires grad")


def test_activations_as_methods():
    x = torch.linspace(-1, 1, 7)
    assert gt.tensor(x.numpy()).hardshrink(0.4).tolist() == x.hardshrink(0.4).tolist()
    assert gt.tensor(x.numpy()).prelu(gt.tensor([0.25])).tolist() == x.prelu(torch.tensor([0.25])).tolist()


@pytest.mark.parametrize("error", [IndexError, RuntimeError])
def test_an_index_out_of_range_is_an_error_of_both_types(error):
    x, index = gt.zeros(3, 4), gt.tensor([[0, 4]])
    raises(error, lambda: x.gather(1, index), "out of bounds")
    raises(error, lambda: x.scatter(1, index, 1.0), "out of bounds")
    raises(error, lambda: F.one_hot(gt.tensor([0, 5]), 4), "num_classes")
    raises(error, lambda: F.multi_margin_loss(x, gt.tensor([0, 1, 4])))
    raises(error, lambda: x[gt.tensor([3])], "out of bounds")
    with pytest.raises(RuntimeError):
        TF.one_hot(torch.tensor([0, 5]), 4)


CLOSE = [
    (1.0, 1.0 + 1e-9), ([1.0, 2.0], [1.0, 2.1]), (np.array([1.0]), np.array([1.0])), (float("nan"), float("nan")), (1, 2),
    ({"a": 1.0}, {"a": 1.0}), ({"a": 1.0}, {"b": 1.0}), ([1, 2], [1, 2, 3]), (float("inf"), float("inf")),
    (float("inf"), 1.0), (1e30, 1e30 * (1 + 1e-6)), (True, False), (2 + 1j, 2 + 1j), (None, None)]


@pytest.mark.parametrize("actual, expected", CLOSE, ids=str)
def test_assert_close_of_numbers_and_containers(actual, expected):
    def refuses(module):
        try:
            module.assert_close(actual, expected)
        except (AssertionError, TypeError) as error:
            return type(error)
    assert refuses(gt.testing) is refuses(torch.testing)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64", "complex64"])
@pytest.mark.parametrize("error", [0, 1e-9, 1e-6, 3e-5, 1e-2, 1])
def test_assert_close_of_tensors(dtype, error):
    def text(T, module):
        x = T.arange(1.0, 5.0).to(getattr(T, dtype))
        y = (x.to(T.complex128 if dtype == "complex64" else T.float64) + error * T.tensor([0, 0, 1, 0])).to(x.dtype)
        try:
            module.assert_close(y, x)
        except AssertionError as problem:
            return str(problem).split("difference")[0]
    assert text(gt, gt.testing) == text(torch, torch.testing)


def test_assert_close_options():
    a, b = gt.tensor([1.0, float("nan")]), gt.tensor([1.1, float("nan")])
    raises(AssertionError, lambda: assert_close(a, b, rtol=0.2, atol=0.0), "not close")
    assert_close(a, b, rtol=0.2, atol=0.0, equal_nan=True)
    raises(AssertionError, lambda: assert_close(a, b.double()), "dtype")
    raises(AssertionError, lambda: assert_close(a, a[:1]), "shape")
    raises(AssertionError, lambda: assert_close(a, b, msg="mine"), "mine")
    raises(AssertionError, lambda: assert_close({"w": [a]}, {"w": [b]}), "['w'][0]")
    raises(ValueError, lambda: assert_close(a, b, rtol=0.1), "atol")
    raises(TypeError, lambda: assert_close(a, "text"), "No comparison")


def test_profiler():
    from gt.profiler import ProfilerActivity, profile, record_function, schedule
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
        with record_function("block"):
            gt.ones(3).exp().tolist()
    assert any(row.key == "exp" for row in prof.key_averages()) and "exp" in prof.key_averages().table()
    ready = []
    plan = schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    theirs = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    assert [plan(k).name for k in range(14)] == [theirs(k).name for k in range(14)]
    with profile(schedule=plan, on_trace_ready=lambda p: ready.append(sum(r.count for r in p.key_averages() if r.key == "sin"))) as p:
        for _ in range(12):
            gt.ones(2).sin().tolist()
            p.step()
    assert ready == [2, 2]
