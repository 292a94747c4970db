"""The cpu engine against the reference engine: the same program, walked from the op table, in two processes."""

import pathlib
import pickle
import sys

import numpy as np
import pytest

from support import DTYPES, PATIENCE_S

PROGRAM = """
    import pickle, sys
    import numpy as np
    import gt
    from gt._gt import op_table

    results = {}

    def record(what, run):
        try:
            t = run()
            t = t[1] if isinstance(t, tuple) else t  # indices
            t = t.to(gt.float64) if "float" in str(t.dtype) else t
            results[what] = t.numpy().copy()
        except (TypeError, ValueError, RuntimeError, IndexError) as error:
            results[what] = type(error).__name__

    rng = np.random.default_rng(1)
    dtype = getattr(gt, sys.argv[2])
    def operand(*shape):
        x = rng.standard_normal(shape) * 3
        return gt.from_numpy(np.abs(x) if "uint" in str(dtype) else x).to(dtype)

    a, b = operand(17, 33), operand(17, 33)
    row, empty, large = operand(33), operand(0, 3), operand(130, 1030)
    views = {"whole": a, "transposed": a.T, "stepped": a[::2, 1::3], "flipped": a[::-1], "0-d": a[1, 1],
             "expanded": row.expand(5, 33), "empty": empty, "large": large}
    ones = (b * 0 + 1).to(dtype) if dtype != gt.bool else gt.ones(17, 33, dtype=dtype)
    for name, form, types, _ in op_table():
        if form == "UNARY":
            options = {"clamp": dict(min=0, max=1), "polygamma": dict(n=2)}.get(name, {})
            for what, view in views.items():
                record((name, what), lambda: getattr(gt.Tensor, name)(view, **options))
        elif form == "BINARY":
            second = ones if name in ("remainder", "floor_divide", "pow") else b
            for what, left, right in [
                ("same", a, second), ("row", a, second[0]), ("column", a, second[:, :1]),
                ("transposed", a.T, second.T),
                ("stepped", a[::2], second[0]), ("outer", second[:, :1], second[:1]), ("0-d", a, second[0, 0]),
                ("empty", empty, empty),
            ]:
                record((name, what), lambda: getattr(gt, name)(left, right))
            if name not in ("heaviside", "nextafter", "polynomial"):
                record((name, "number"), lambda: getattr(gt, name)(a, 2))
        elif form == "REDUCE":
            for what, view in views.items():
                record((name, what), lambda: getattr(gt, name)(view))
                for axis in range(view.ndim):
                    record((name, what, axis), lambda: getattr(gt, name)(view, axis))
        elif form in ("ARGREDUCE", "SCAN", "SOFTMAX"):
            for what, view in views.items():
                for axis in range(view.ndim):
                    record((name, what, axis), lambda: getattr(gt, name)(view, axis))
        elif form == "TRIANGLE":
            record((name, "whole"), lambda: getattr(gt, name)(a, 1))
    record("matmul", lambda: a @ b.T)
    record("batched", lambda: operand(3, 5, 7) @ operand(3, 7, 4))
    record("cat", lambda: gt.cat([a, b, a[::2]], 0))
    record("sort", lambda: gt.sort(a, 1)[1])
    record("topk", lambda: gt.topk(a, 3, 0)[0])
    record("take", lambda: a[gt.tensor([3, 0, -1])])
    record("gather", lambda: a.gather(0, gt.arange(17).reshape(17, 1)))
    record("where", lambda: gt.where(a > b, a, b))
    record("mask", lambda: a[a > b])
    def assigned():
        t = a.clone()
        t[::2, 3] = b[0, 0]
        return t
    record("assign", assigned)
    gt.manual_seed(5)
    if "float" in str(dtype):
        record("rand", lambda: gt.rand(33, 7, dtype=dtype))
        record("randn", lambda: gt.randn(1000, dtype=dtype))
        record("bernoulli", lambda: gt.bernoulli(gt.rand(33, 7, dtype=dtype)))
        record("poisson", lambda: gt.poisson(gt.rand(33, 7, dtype=dtype) * 30))
        record("binomial", lambda: gt.binomial(gt.full((33, 7), 50.0, dtype=dtype), gt.rand(33, 7, dtype=dtype)))
        record("gamma", lambda: gt._standard_gamma(gt.rand(33, 7, dtype=dtype) * 3))
        record("dirichlet", lambda: gt._sample_dirichlet(gt.rand(33, 7, dtype=dtype)))
        record("multinomial", lambda: gt.multinomial(gt.rand(33, 7, dtype=dtype), 3))
        record("multinomial, replacement", lambda: gt.multinomial(gt.rand(5, 70, dtype=dtype), 30, True))
    record("randint", lambda: gt.randint(0, 2, (1000,), dtype=dtype))
    record("arange", lambda: gt.arange(50).to(dtype))
    record("eye", lambda: gt.eye(5, 7, dtype=dtype))
    pickle.dump(results, open(sys.argv[1], "wb"))
"""

TOLERANCE = {"float64": 1e-11, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


@pytest.mark.parametrize("dtype", DTYPES)
def test_cpu_against_reference(programs, dtype):
    results = {}
    for backend in ("cpu", "reference"):
        path = programs.directory / f"{backend}.pickle"
        programs.run(PROGRAM, path, dtype, GT_BACKEND=backend)
        results[backend] = pickle.loads(path.read_bytes())
    one, other = results["cpu"], results["reference"]
    assert one.keys() == other.keys() and len(one) > 300
    tolerance = TOLERANCE.get(dtype, 2e-5)
    wrong = []
    for what, x in one.items():
        y = other[what]
        if isinstance(x, str) or isinstance(y, str):
            same = type(x) is type(y) and x == y
        elif x.shape != y.shape or x.dtype != y.dtype:
            same = False
        elif x.dtype.kind == "f":
            with np.errstate(invalid="ignore", over="ignore"):
                scale = (
                    np.abs(y[np.isfinite(y)]).max(initial=1.0)
                    if what[0] in ("sum", "cumsum", "mean", "prod")
                    else np.abs(y)
                )
                same = bool(
                    np.all((x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= tolerance * (scale + 1)))
                )
        else:
            same = np.array_equal(x, y)
        if not same:
            wrong.append(
                f"{what}: cpu {x if isinstance(x, str) else x.ravel()[:3]}, "
                f"reference {y if isinstance(y, str) else y.ravel()[:3]}"
            )
    assert not wrong, f"{len(wrong)} of {len(one)} differ:\n" + "\n".join(wrong[:10])
    refused = [what for what, result in one.items() if isinstance(result, str)]
    assert len(refused) < len(one) // 4, f"too many refusals: {refused[:10]}"


def test_the_reference_engine_walks_the_table_too(programs):
    """Compared with torch, in one dtype. The tests above cannot find an error that both engines share."""
    walk = pathlib.Path(__file__).with_name("test_ops_table.py")
    arguments = ["-q", "-p", "no:cacheprovider", "--tb=short", "-k", "float32", walk]
    process = programs.start([sys.executable, "-m", "pytest", *arguments], "walk", GT_BACKEND="reference")
    assert process.wait(4 * PATIENCE_S) == 0, process.text()
