"""The Tensor object: attributes, conversions to Python, in-place operations, identity, copies, pickles."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest
import torch

import gt
from support import DTYPES, FLOATS, INTEGERS, Collector, check, dtype_name, gt_dtype, raises, to_gt, values


def test_attributes():
    t = gt.zeros(2, 3, 4, dtype=gt.int32)
    assert t.shape == (2, 3, 4) and isinstance(t.shape, tuple)
    assert t.ndim == t.dim() == 3
    assert t.numel() == 24 and t.nelement() == 24 if hasattr(t, "nelement") else t.numel() == 24
    assert tuple(t.size()) == (2, 3, 4) and t.size(1) == 3 and t.size(-1) == 4
    assert t.dtype == gt.int32 and len(t) == 2
    assert gt.tensor(1.0).shape == () and gt.tensor(1.0).ndim == 0 and gt.tensor(1.0).numel() == 1
    assert gt.zeros(0, 3).numel() == 0 and len(gt.zeros(0, 3)) == 0
    assert t.itemsize == 4 if hasattr(t, "itemsize") else True
    assert t.is_floating_point() is False and gt.zeros(1).is_floating_point() is True
    raises(TypeError, lambda: len(gt.tensor(1)), "0-d")
    raises(IndexError, lambda: t.size(3))
    with pytest.raises(AttributeError):
        t.shape = (24,)
    with pytest.raises(AttributeError):
        t.dtype = gt.float32
    with pytest.raises(AttributeError):
        t.no_such_thing


def test_item_and_tolist():
    for dtype in DTYPES:
        x = values((2, 3), dtype, 1)
        t = to_gt(x)
        assert t.tolist() == x.tolist(), dtype
        assert t[0, 1].item() == x[0, 1].item() and type(t[0, 1].item()) is type(x[0, 1].item()), dtype
        assert t[0, 1].tolist() == x[0, 1].tolist()
        assert type(t.tolist()[0][0]) is type(x.tolist()[0][0])
    assert gt.tensor([[[5]]]).item() == 5
    assert gt.zeros(2, 0).tolist() == [[], []] and gt.zeros(0).tolist() == []
    assert gt.tensor(2**53 + 1).item() == 2**53 + 1
    raises((ValueError, RuntimeError), lambda: gt.zeros(2).item())
    raises((ValueError, RuntimeError), lambda: gt.zeros(0).item())


def test_numbers_from_tensors():
    assert float(gt.tensor(2.5)) == 2.5 and int(gt.tensor(2.9)) == 2 and int(gt.tensor([7])) == 7
    assert bool(gt.tensor(0)) is False and bool(gt.tensor([0.5])) is True and bool(gt.tensor(float("nan"))) is True
    assert complex(gt.tensor(1.5)) == 1.5
    assert [10, 20, 30][gt.tensor(1)] == 20
    assert list(range(gt.tensor(3))) == [0, 1, 2]
    assert round(float(gt.tensor(2.567)), 1) == 2.6
    assert f"{gt.tensor(2.5):.2f}" == "2.50" and f"{gt.tensor(3)}" == "3"
    for convert in (bool, float, int):
        raises((ValueError, RuntimeError, TypeError), lambda: convert(gt.zeros(2)))
    raises((ValueError, RuntimeError), lambda: bool(gt.zeros(2)), "ambiguous")
    raises((ValueError, RuntimeError, TypeError), lambda: bool(gt.zeros(0)))
    raises(TypeError, lambda: [1, 2][gt.tensor(1.5)])
    raises((ValueError, OverflowError), lambda: int(gt.tensor(float("nan"))))


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
def test_in_place_operators(dtype):
    cases = Collector()
    for name in ("__iadd__", "__isub__", "__imul__", "__itruediv__"):
        if name == "__itruediv__" and dtype in INTEGERS:
            t = to_gt(values((2, 3), dtype, 1))
            raises((RuntimeError, TypeError), lambda: getattr(t, name)(2))
            continue
        for other in (2, values((3,), dtype, 2, low=1), values((2, 3), dtype, 3, low=1)):
            x = values((2, 3), dtype, 1)
            t = to_gt(x)
            identity = id(t)
            wanted = getattr(x.clone(), name)(other)

            def run():
                result = getattr(t, name)(to_gt(other) if isinstance(other, torch.Tensor) else other)
                assert result is t and id(result) == identity, "in place keeps the object"
                return result

            cases.same(f"{name} {other if isinstance(other, int) else tuple(other.shape)}", run, wanted)
    cases.finish()


def test_in_place_methods():
    t = gt.ones(2, 3)
    alias = t
    assert t.zero_() is t and t.tolist() == [[0, 0, 0], [0, 0, 0]]
    assert t.fill_(2.5) is t and t.tolist() == [[2.5] * 3] * 2
    assert t.copy_(gt.tensor([1, 2, 3])) is t and t.tolist() == [[1, 2, 3], [1, 2, 3]] and t.dtype == gt.float32
    t.add_(1)
    t.sub_(gt.ones(3))
    t.mul_(2)
    t.div_(4)
    assert t.tolist() == [[0.5, 1, 1.5]] * 2
    assert alias is t and alias.tolist() == t.tolist()
    integers = gt.zeros(2, dtype=gt.int64)
    integers.copy_(gt.tensor([1.9, -1.9]))
    assert integers.tolist() == [1, -1] and integers.dtype == gt.int64
    integers.fill_(7)
    assert integers.tolist() == [7, 7]
    raises((ValueError, RuntimeError), lambda: t.copy_(gt.zeros(5)))
    raises((ValueError, RuntimeError), lambda: t.add_(gt.zeros(4, 2, 3)))
    raises(TypeError, lambda: t.fill_("x"))
    assert t.tolist() == [[0.5, 1, 1.5]] * 2


def test_in_place_does_not_touch_results_computed_before():
    """Operations are asynchronous: results computed from the old value must keep it."""
    t = gt.ones(1000)
    before = t + 1
    view = t[:10]
    copied = t.clone()
    t += 5
    t[0] = 100
    t.mul_(2)
    assert before.sum().item() == 2000 and copied.sum().item() == 1000
    assert t.tolist()[:2] == [200, 12]
    assert view.shape == (10,)
    total = gt.zeros(())
    history = []
    for k in range(20):
        total += k
        history.append(total + 0)
    assert [int(value) for value in history] == np.cumsum(range(20)).tolist()


def test_identity_and_hash():
    a, b = gt.ones(2), gt.ones(2)
    assert hash(a) == hash(a) and len({a, b, a}) == 2
    assert {a: 1}[a] == 1
    before = hash(a)
    a += 1
    assert hash(a) == before
    assert a is not a.T


def test_weak_references_and_release():
    t = gt.ones(3)
    reference = weakref.ref(t)
    assert reference() is t
    del t
    gc.collect()
    assert reference() is None


def test_many_short_lived_tensors():
    a = gt.ones(8, 8)
    for _ in range(20_000):
        a + a
    assert (a + a).sum().item() == 128


def test_results_outlive_their_operands():
    def build():
        a = gt.ones(100)
        b = a * 2
        return b.reshape(10, 10).T[::2]

    for _ in range(50):
        assert build().sum().item() == 100


@pytest.mark.parametrize("dtype", DTYPES)
def test_pickle_and_copy(dtype):
    for shape in [(), (0,), (3,), (2, 3), (2, 0, 1)]:
        x = values(shape, dtype, 1)
        t = to_gt(x)
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            check(pickle.loads(pickle.dumps(t, protocol)), x, f"pickle {shape}")
        check(copy.deepcopy(t), x, f"deepcopy {shape}")
        check(copy.copy(t), x, f"copy {shape}")
    t = to_gt(values((3, 4), dtype, 2))
    check(pickle.loads(pickle.dumps(t.T[::2])), values((3, 4), dtype, 2).T[::2], "pickle of a view")
    state = {"weights": [t, t], "name": "layer"}
    again = copy.deepcopy(state)
    assert again["weights"][0] is again["weights"][1] and again["weights"][0] is not t
    assert dtype_name(pickle.loads(pickle.dumps(gt_dtype(dtype)))) == dtype


def test_deepcopy_is_independent():
    t = gt.ones(3)
    other = copy.deepcopy(t)
    other += 1
    t -= 1
    assert t.tolist() == [0, 0, 0] and other.tolist() == [2, 2, 2]


def test_pickle_to_another_process(programs):
    path = programs.directory / "tensor.pickle"
    path.write_bytes(pickle.dumps({"w": gt.arange(6).reshape(2, 3).T, "b": gt.tensor(0.5, dtype=gt.bfloat16)}))
    text = programs.run(
        """
        import pickle, sys
        state = pickle.load(open(sys.argv[1], "rb"))
        print(state["w"].tolist(), state["b"].item(), state["b"].dtype)
    """,
        path,
    )
    assert text.split("\n")[0] == "[[0, 3], [1, 4], [2, 5]] 0.5 gt.bfloat16"


def test_casts():
    t = gt.tensor([1.7, -1.7, 0.0])
    assert t.int().tolist() == [1, -1, 0] and t.int().dtype == gt.int32
    assert t.long().dtype == gt.int64 and t.double().dtype == gt.float64 and t.half().dtype == gt.float16
    assert (
        t.bfloat16().dtype == gt.bfloat16
        and t.bool().tolist() == [True, True, False]
        and t.float().dtype == gt.float32
    )
    assert (
        t.to(gt.int8).dtype == gt.int8
        and t.to(dtype=gt.uint8).dtype == gt.uint8
        and t.type_as(gt.zeros(1, dtype=gt.int64)).dtype == gt.int64
    )
    assert t.to(gt.float32).tolist() == t.tolist()


def test_comparison_helpers():
    a, b = gt.tensor([1.0, 2.0]), gt.tensor([1.0, 2.0 + 1e-9])
    assert gt.allclose(a, b) is True and gt.allclose(a, a + 1) is False
    assert gt.equal(a, a.clone()) is True and gt.equal(a, a + 1) is False


def test_truth_of_a_comparison():
    assert (gt.tensor(1) == 1) and not (gt.tensor(1) > 2)
    assert (gt.ones(3) == gt.ones(3)).all()


def test_data_attribute():
    t = gt.arange(4)
    array = t.data.numpy()
    assert isinstance(array, np.ndarray) and array.tolist() == [0, 1, 2, 3]
    assert isinstance(t.data, gt.Tensor)
    assert t.detach().tolist() == [0, 1, 2, 3] and t.cpu().tolist() == [0, 1, 2, 3]


def test_tensor_is_not_made_by_calling_nonsense():
    raises(TypeError, lambda: gt.Tensor(object()))


def test_methods_reject_unknown_arguments():
    t = gt.zeros(2, 3)
    raises(TypeError, lambda: t.sum(0, nonsense=1), "nonsense")
    raises(TypeError, lambda: t.sum(0, dim=1))
    raises(TypeError, lambda: gt.relu())
    raises(TypeError, lambda: gt.relu(t, t, t))
    raises(TypeError, lambda: gt.add(t))
