"""repr: the same characters as torch, with gt in place of torch."""

import pytest
import torch

import gt
from support import DTYPES, to_gt, torch_dtype, values

nan, inf = float("nan"), float("inf")

VALUES = {
    "integers": [1, 2, 3],
    "negative integers": [-1, 20, -300],
    "one integer": 5,
    "big integers": [2**40, -1],
    "floats": [1.5, 2.25, -3.125],
    "whole floats": [1.0, 2.0, 30.0],
    "one float": 2.5,
    "one whole float": 2.0,
    "small": [0.001, 0.002],
    "tiny": [1e-5, 1.0],
    "very tiny": [1e-10, 2e-10],
    "huge": [1e10, 1.0],
    "huge alone": 1e20,
    "mixed magnitude": [1e-3, 1e3],
    "ratio": [0.01, 100000.0],
    "hundred million": [1e8, 2e8],
    "below it": [99999999.0, 1.0],
    "many digits": [3.14159265, 2.71828183],
    "thirds": [1 / 3, 2 / 3, 1e6 / 3],
    "zero": 0.0,
    "zeros": [0.0, 0.0],
    "negative zero": [-0.0, 1.0],
    "nan": [nan, 1.0],
    "inf": [inf, 1.5],
    "all special": [nan, inf, -inf],
    "one nan": nan,
    "one inf": -inf,
    "nan and whole": [nan, 2.0],
    "inf and tiny": [inf, 1e-8],
    "bools": [True, False],
    "one bool": True,
    "empty": [],
    "empty rows": [[], []],
    "matrix": [[1, 2], [3, 4]],
    "float matrix": [[1.5, -2.0], [3.25, 400.0]],
    "cube": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]],
    "four axes": [[[[1.0], [2.0]]], [[[3.0], [4.0]]]],
    "long row": list(range(100)),
    "long float row": [k / 7 for k in range(50)],
    "denormal": [1e-42, 1.0],
    "sci whole": [1e9, 2e9],
    "negative sci": [-1e-6, 5e-7],
    "1e5": [100000.0, 0.5],
    "1e4": [10000.5, 0.0001],
}


def torch_text(x):
    return repr(x).replace("torch.", "gt.")


@pytest.mark.parametrize("what", VALUES)
def test_values(what):
    assert repr(gt.tensor(VALUES[what])) == torch_text(torch.tensor(VALUES[what]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype):
    for shape in [(), (0,), (3,), (2, 3), (0, 4), (2, 3, 4)]:
        x = values(shape, dtype, 1)
        assert repr(to_gt(x)) == torch_text(x), f"{dtype} {shape}"
    x = torch.full((2,), 1.0).to(torch_dtype(dtype))
    assert repr(to_gt(x)) == torch_text(x)


@pytest.mark.parametrize(
    "shape",
    [
        (1001,),
        (1000,),
        (2000, 3),
        (3, 2000),
        (40, 40),
        (101, 11),
        (11, 101),
        (20, 20, 20),
        (7, 8, 9, 10),
        (1, 1500),
        (2, 1, 1000),
        (6, 6, 40),
        (7, 7, 30),
    ],
)
def test_summaries(shape):
    x = torch.arange(torch.Size(shape).numel()).reshape(shape)
    assert repr(to_gt(x)) == torch_text(x)
    y = values(shape, "float32", 1) * 100
    assert repr(to_gt(y)) == torch_text(y)


def test_a_summary_hides_the_middle():
    """torch formats a summary from the elements it shows only."""
    x = torch.zeros(5000)
    x[2500] = 123456.75
    assert repr(to_gt(x)) == torch_text(x)


def test_empty_shapes():
    for shape in [(0,), (0, 3), (3, 0), (2, 0, 4)]:
        for dtype in ("float32", "int64", "bool", "float64"):
            x = torch.zeros(shape, dtype=torch_dtype(dtype))
            assert repr(to_gt(x)) == torch_text(x), f"{dtype} {shape}"


def test_random_floats():
    for seed in range(40):
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(3, 5, generator=generator) * 10.0 ** float(torch.randint(-8, 9, (), generator=generator))
        assert repr(to_gt(x)) == torch_text(x), f"seed {seed}"


def test_views_and_str():
    x = values((4, 6), "float32", 1)
    assert repr(to_gt(x).T) == torch_text(x.T)
    assert repr(to_gt(x)[::2, 1::2]) == torch_text(x[::2, 1::2])
    assert str(to_gt(x)) == str(x)
    assert f"{to_gt(x)}" == f"{x}" and "{}".format(to_gt(x)[0, 0]) == "{}".format(x[0, 0])


def test_dtype_repr():
    for name in DTYPES:
        assert repr(getattr(gt, name)) == f"gt.{name}"


def test_shape_of_a_print():
    assert str(gt.zeros(2, 3).shape) in ("(2, 3)", "gt.Size([2, 3])")
