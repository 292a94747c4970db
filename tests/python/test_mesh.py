"""Tensors on a mesh of workers: `mesh: {data: 4, model: 2}` and `shard: {0: data, 1: model}`, compared with one worker."""

import os

import numpy as np
import pytest

import gt
import mesh_programs
import sharded_programs
from gt import _gt, nn
from gt.nn import functional as F
from support import until
from test_recovery import SOON, both
from test_sharded_training import CHAR_GPT, CONTEXT, STEPS, TEXT

pytestmark = pytest.mark.usefixtures("own_signals")
PROGRAMS = int(os.environ.get("GT_TEST_PROGRAMS", "300"))
BLOCK = 50
MESH = {"data": 4, "model": 2}
WORKERS = "workers=[0,1,2,3,4,5,6,7]"
A, B = np.random.default_rng(0).standard_normal((2, 16, 16))


def shard(name, split, mesh=MESH, workers=None, backward=None):
    gt.register_config(name, gt.SignalConfig(gt.ShardConfig(mesh=mesh, split=split, workers=workers), backward))


@pytest.fixture
def eight(workers):
    workers(8)
    shard("rows", {0: "data"})
    shard("columns", {1: "model"})
    shard("both", {0: "data", 1: "model"})
    shard("turned", {1: "data", 0: "model"})


def on(name, array):
    return gt.signal.tensor(gt.tensor(array), name=name)


def totals(key):
    return sum(worker[key] for worker in gt.debug.get_worker_stats(wait=True).values())


def each(key):
    return [worker[key] for worker in gt.debug.get_worker_stats(wait=True).values()]


# ---- random programs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", range(0, PROGRAMS, BLOCK))
def test_random_programs_agree_with_one_worker(first):
    connections = sharded_programs.Connections()
    try:
        for seed in range(first, min(first + BLOCK, PROGRAMS)):
            report = sharded_programs.run(mesh_programs.Generator(seed).write(), connections)
            assert not report, report
    finally:
        connections.close()


def test_random_programs_agree_when_they_run_again(programs):
    """As hot paths, whose runs on spread tensors are recorded and replayed."""
    said = programs.run("""
        import sys
        sys.path.insert(0, sys.argv[1])
        import gt, mesh_programs, sharded_programs
        connections = sharded_programs.Connections()
        reports = [sharded_programs.run(mesh_programs.Generator(seed).write(), connections, calls=6) for seed in range(30)]
        paths = 0
        for connection in connections.open.values():
            gt._gt.use(connection)
            paths += sum(worker["hotpath"]["worker_runs"] for worker in gt.debug.get_worker_stats(wait=True).values())
        assert paths > 500, paths
        connections.close()
        print([report for report in reports if report])
    """, os.path.dirname(os.path.abspath(__file__)), GT_AUTO_COMPILE=1, GT_HOTPATH_THRESHOLD=3, GT_HOTPATH_MIN_SEQ=2)
    assert said == "[]\n"


# ---- placements -----------------------------------------------------------------------------------------------------


def test_a_config_file(workers, tmp_path):
    path = tmp_path / "mesh.yaml"
    path.write_text("in_file: {shard: {0: data, -1: model}}\n"     # the mesh may come later
                    "elsewhere: {shard: {0: data, workers: [3, 2, 1, 0]}}\n"
                    "mesh: {data: 2, model: 2}\n")
    gt.load_config(path)
    workers(4)
    expected = gt.ShardConfig(workers=[0, 1, 2, 3], mesh={"data": 2, "model": 2}, split={0: "data", -1: "model"})
    assert gt.get_config("in_file") == gt.SignalConfig(expected)
    assert "mesh" not in gt.get_config()
    with gt.signal.context("in_file"):
        assert gt.zeros(4, 3, 2).placement == "mesh(data=2 split(axis=0), model=2 split(axis=2), workers=[0,1,2,3])"
        assert gt.zeros(()).placement == "replicated(workers=[0,1,2,3])"
    with gt.signal.context("elsewhere"):
        assert gt.zeros(4, 3).placement == "mesh(data=2 split(axis=0), model=2 replicated, workers=[3,2,1,0])"


def test_the_workers_of_a_mesh_are_listed_in_its_order(workers, tmp_path):
    """The last axis varies fastest: [5, 3, 1] are the workers of data 0."""
    workers(6)
    path = tmp_path / "mesh.yaml"
    path.write_text("mesh:\n  data: 2\n  model: 3\n  workers: [5, 3, 1, 4, 2, 0]\nlisted: {shard: {0: data}}\n")
    gt.load_config(path)
    with gt.signal.context("listed"):
        x = gt.arange(4)
    assert x.placement == "mesh(data=2 split(axis=0), model=3 replicated, workers=[5,3,1,4,2,0])"
    assert np.array_equal((x + 1).numpy(), [1, 2, 3, 4])


def test_large_things_that_are_spread_by_themselves_meet_a_mesh(programs):
    said = programs.run("""
        import gt
        gt.gpu_workers(4)
        mesh = {"data": 2, "model": 2}
        gt.register_config("both", gt.SignalConfig(gt.ShardConfig(mesh=mesh, split={0: "data", 1: "model"})))
        gt.manual_seed(0)
        large = gt.randn(1024, 2048)
        x = gt.signal.tensor(large, name="both")
        print(large.placement, (x + large).placement, ((x + large) - 2 * large).abs().max().item())
        product, expected = x @ large.T, large @ large.T
        print((product - expected).abs().max().item() < 1e-2)
    """, GT_AUTO_SHARD=1).splitlines()
    assert said == ["split(axis=0, workers=[0,1,2,3]) mesh(data=2 split(axis=0), model=2 split(axis=1), workers=[0,1,2,3]) 0.0", "True"]


def test_axes_of_one_worker(workers):
    """They do not matter: what is left is a line of workers, or one worker."""
    workers(3)
    shard("line", {0: "data", 1: "model"}, {"data": 3, "model": 1})
    shard("point", {0: "data"}, {"data": 1, "model": 1})
    with gt.signal.context("line"):
        assert gt.zeros(3, 5).placement == "split(axis=0, workers=[0,1,2])"
    with gt.signal.context("point"):
        assert gt.zeros(3, 5).placement == "single(worker=0)"


@pytest.mark.parametrize("split", [{0: "data"}, {1: "model"}, {0: "data", 1: "model"}, {2: "data", 0: "model"}])
def test_new_tensors_have_the_numbers_of_one_worker(workers, split):
    workers(8)
    shard("new", split)
    for make in (lambda: gt.randn(8, 4, 12), lambda: gt.randint(-9, 9, (8, 4, 12)), lambda: gt.full((4, 2, 4), 3.0)):
        gt.manual_seed(0)
        whole = make()
        gt.manual_seed(0)
        with gt.signal.context("new"):
            parts = make()
        assert parts.placement.startswith("mesh(data=4") and parts.placement.count("split") == len(split)
        assert np.array_equal(whole.numpy(), parts.numpy())
    if max(split) < 2:
        with gt.signal.context("new"):
            assert np.array_equal(gt.eye(8, 4).numpy(), np.eye(8, 4))
    if split == {0: "data"}:
        with gt.signal.context("new"):
            assert np.array_equal(gt.arange(3, 19, 2).numpy(), np.arange(3, 19, 2))


NAMES = ["rows", "columns", "both", "turned", "one", "line", "copies", "pair"]


@pytest.mark.parametrize("before", NAMES)
@pytest.mark.parametrize("after", NAMES)
def test_from_each_placement_to_each_other(eight, before, after):
    for name, config in {"one": gt.ShardConfig(workers=[3]), "line": gt.ShardConfig(1, [7, 0, 3]),
                         "copies": gt.ShardConfig(None, [2, 5], True),
                         "pair": gt.ShardConfig(mesh={"a": 2, "b": 2}, split={1: "a", 0: "b"}, workers=[6, 1, 4, 3])}.items():
        gt.register_config(name, gt.SignalConfig(config))
    x = on(before, A)
    y = gt.signal.tensor(x, name=after)
    assert np.array_equal(y.numpy(), A) and np.array_equal((y * 2 + x).numpy(), 3 * A)


def test_to_a_mesh_of_other_workers_each_part_moves_once(workers):
    """Two stages, each a mesh of its own."""
    workers(8)
    shard("first", {0: "data", 1: "model"}, {"data": 2, "model": 2}, [0, 1, 2, 3])
    shard("second", {0: "data", 1: "model"}, {"data": 2, "model": 2}, [4, 5, 6, 7])
    x = on("first", A)
    gt.synchronize()
    start, moved = each("moves"), totals("bytes_moved")
    with gt.signal.context("second"):
        y = x * 2
    assert y.placement == "mesh(data=2 split(axis=0), model=2 split(axis=1), workers=[4,5,6,7])"
    assert [b - a for a, b in zip(start, each("moves"))] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert totals("bytes_moved") - moved == A.nbytes
    assert np.array_equal(y.numpy(), 2 * A)


# ---- operations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("left, right, data, model, collectives", [
    ("rows", "columns", "split(axis=0)", "split(axis=1)", 0),
    ("both", "both", "split(axis=0)", "split(axis=1)", 16),  # the left along model, the right along data
    ("turned", "rows", "partial", "split(axis=0)", 0),       # the contraction is split along data
    ("rows", "both", "split(axis=0)", "split(axis=1)", 8),
    ("columns", "turned", "split(axis=1)", "partial", 0),
])
def test_patterns_of_matmul(eight, left, right, data, model, collectives):
    a, b = on(left, A), on(right, B)
    gt.synchronize()
    before = totals("collectives")
    product = a @ b
    assert product.placement == f"mesh(data=4 {data}, model=2 {model}, {WORKERS})"
    assert totals("collectives") - before == collectives
    np.testing.assert_allclose(product.numpy(), A @ B, rtol=1e-12)


def test_a_sum_over_one_axis_is_added_up_along_it(eight):
    """Each worker takes part in one sum, with the three others of its line; its part along the other axis stays."""
    x = on("both", A)
    total = x.sum(dim=0)
    assert total.placement == f"mesh(data=4 partial, model=2 split(axis=0), {WORKERS})"
    gt.synchronize()
    collectives, moved = each("collectives"), totals("bytes_moved")
    doubled = total * 2
    assert doubled.placement == total.placement == f"mesh(data=4 replicated, model=2 split(axis=0), {WORKERS})"
    assert [b - a for a, b in zip(collectives, each("collectives"))] == [1] * 8
    assert totals("bytes_moved") - moved == 8 * (2 * 3 / 4) * 8 * 8  # of 8 numbers of 8 bytes on each worker
    np.testing.assert_allclose(doubled.numpy(), 2 * A.sum(0), rtol=1e-12)


def test_a_sum_is_left_in_parts_where_parts_are_wanted(eight):
    a, b = on("turned", A), on("rows", B)
    product = a @ b  # partial along data, rows split along model
    result = product + on("turned", A)
    assert result.placement == product.placement == f"mesh(data=4 split(axis=1), model=2 split(axis=0), {WORKERS})"
    np.testing.assert_allclose(result.numpy(), A @ B + A, rtol=1e-12)


@pytest.mark.parametrize("name", ["rows", "columns", "both", "turned"])
def test_what_is_not_split_stays_and_what_has_no_rule_is_gathered_along_its_axis(eight, name):
    x, whole, gathers = on(name, A), gt.tensor(A), 0
    for function, gathered in [(lambda t: t.exp() * 2, False), (lambda t: t.T.contiguous(), False), (lambda t: t.mean(), False),
                               (lambda t: t.amax(0), False), (lambda t: t.norm(), False), (lambda t: t.logsumexp(1), False),
                               (lambda t: t.reshape(4, 4, 16), name == "turned"), (lambda t: t.softmax(1), False),
                               (lambda t: t.cumsum(0), name in ("both", "turned")), (lambda t: F.layer_norm(t, (16,)), name != "rows"),
                               (lambda t: t.var(), False), (lambda t: t.sort(1)[0], name in ("both", "turned"))]:
        result = function(x)
        np.testing.assert_allclose(result.numpy(), function(whole).numpy(), rtol=1e-12, atol=1e-12)
        now = totals("gathers")
        if not gathered:
            assert now == gathers, function
        gathers = now
    # Along the other axis it stays split.
    if name == "both":
        assert x.cumsum(1).placement == f"mesh(data=4 split(axis=0), model=2 replicated, {WORKERS})"


ALONG = {
    "softmax": lambda t, d: t.softmax(d), "log_softmax": lambda t, d: t.log_softmax(d), "cumsum": lambda t, d: t.cumsum(d),
    "cumprod": lambda t, d: t.cumprod(d), "logcumsumexp": lambda t, d: t.logcumsumexp(d), "cummax": lambda t, d: t.cummax(d)[0],
    "cummin": lambda t, d: t.cummin(d)[1], "argmax": lambda t, d: t.argmax(d), "argmin": lambda t, d: t.argmin(d, keepdim=True),
    "sort": lambda t, d: t.sort(d)[0], "argsort": lambda t, d: t.argsort(d, descending=True), "topk": lambda t, d: t.topk(3, d)[0],
    "topk positions": lambda t, d: t.topk(2, d, largest=False)[1], "cat": lambda t, d: gt.cat([t, t * 2, t + 1], d),
    "cat of different lengths": lambda t, d: gt.cat([t, gt.zeros([1 if k == d else n for k, n in enumerate(t.shape)], dtype=t.dtype)], d),
    "gather": lambda t, d: t.gather(d, t.argsort(d)),
    "flip": lambda t, d: t.flip(d), "slice": lambda t, d: t.narrow(d, 1, t.shape[d] - 2) * 2, "one element": lambda t, d: t.narrow(d, 1, 1),
    "slice with a step": lambda t, d: t[(slice(None),) * d + (slice(None, None, 2),)],
    "slice along two dimensions": lambda t, d: t.narrow(3, 1, 3).narrow(d, 0, 2).flip(d, 3),
    "var": lambda t, d: t.var(d), "var with others": lambda t, d: t.var((d, 3), keepdim=True), "std": lambda t, d: t.std(unbiased=False),
    "flip backward": lambda t, d: gradient(t, lambda x: (x.flip(d) * x.cos()).sum()),
    "slice backward": lambda t, d: gradient(t, lambda x: (x.narrow(d, 1, 2) ** 3).sum()),
    "assignment": lambda t, d: assigned(t, d, t.narrow(d, 0, 2).sin()), "assignment of a number": lambda t, d: assigned(t, d, 7.5),
    "cumsum backward": lambda t, d: gradient(t, lambda x: (x.cumsum(d) ** 3).sum()),
    "var backward": lambda t, d: gradient(t, lambda x: (x.var(d) * 3).sum()),
    "softmax backward": lambda t, d: gradient(t, lambda x: (x.softmax(d) ** 3).sum()),
    "log_softmax backward": lambda t, d: gradient(t, lambda x: (x.log_softmax(d) * x).sum()),
}


def assigned(t, dimension, value):
    t = t * 1
    t[(slice(None),) * dimension + (slice(1, 3),)] = value
    return t


def gradient(t, function):
    x = t.detach().requires_grad_(True)
    function(x).backward()
    return x.grad


@pytest.mark.parametrize("op", ALONG)
def test_along_a_split_dimension_nothing_is_gathered(workers, op):
    """Against one worker, along each dimension that is split: dimensions of 4, 12, 6 and 5 elements, of which the last divides by nothing."""
    workers(8)
    array = np.random.default_rng(3).standard_normal((4, 12, 6, 5))
    array[1, 3:5] = array[0, 0, 0, 0]  # equal elements
    whole = gt.tensor(array)
    for number, split in enumerate([{0: "data"}, {1: "data"}, {1: "model"}, {0: "data", 2: "model"}, {2: "model", 1: "data"}]):
        shard(f"s{number}", split)
        for dimension in split:
            x = on(f"s{number}", array)
            before, moved = totals("gathers"), totals("bytes_moved")
            result = ALONG[op](x, dimension)
            assert totals("gathers") == before, (op, split, dimension)
            assert totals("bytes_moved") - moved < (24 if "backward" in op else 8) * 2 * array.size * 8
            if op not in ("argmax", "std"):
                assert "mesh(" in result.placement, (result.placement, split, dimension)
            expected = ALONG[op](whole, dimension)
            assert result.dtype == expected.dtype
            np.testing.assert_allclose(result.numpy(), expected.numpy(), rtol=1e-12, atol=1e-12, err_msg=f"{split} {dimension}")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("config", ["line", "mesh"])
def test_the_variance_of_halves_far_from_zero(workers, config, dtype):
    """The means of the parts differ by less than a half can say: their distance counts as it is, not as it is rounded."""
    workers(2)
    gt.register_config("line", gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[0, 1])))
    shard("mesh", {0: "data"}, {"data": 2})
    array = np.random.default_rng(5).standard_normal((4096, 3)) * 0.1 + 50
    array[2048:] += 0.01 if dtype == "float16" else 0.1
    whole = gt.tensor(array).to(getattr(gt, dtype))
    expected = np.var(whole.double().numpy(), 0, ddof=1)
    np.testing.assert_allclose(gt.signal.tensor(whole, name=config).var(0).float().numpy(), expected, rtol=0.008)


@pytest.mark.parametrize("split", [{0: "data"}, {0: "data", 1: "model"}, {1: "data"}, {1: "model", 2: "data"}], ids=str)
def test_batch_norm_over_split_dimensions_gathers_nothing(workers, split):
    """Training on 8 workers against one: the moments are those of all samples, and so are the gradients and the running statistics."""
    workers(8)
    shard("batch", split)
    array = np.random.default_rng(5).standard_normal((8, 4, 12, 3))
    found = []
    for spread in (False, True):
        x = on("batch", array) if spread else gt.tensor(array)
        x = x.requires_grad_(True)
        norm = gt.nn.BatchNorm2d(4, dtype=gt.float64)
        before = totals("gathers")
        y = norm(x)
        (y ** 3).sum().backward()
        assert totals("gathers") == before
        found.append([t.detach().numpy() for t in (y, x.grad, norm.weight.grad, norm.bias.grad, norm.running_mean, norm.running_var)])
    for plain, meshed in zip(*found):
        np.testing.assert_allclose(meshed, plain, rtol=1e-9, atol=1e-9)


def test_along_the_only_dimension_the_line_is_gathered(eight):
    x = np.random.default_rng(4).standard_normal(16)
    spread, whole = on("rows", x), gt.tensor(x)
    for name in ("softmax", "cumsum", "argmax", "sort", "topk", "cat"):
        np.testing.assert_allclose(ALONG[name](spread, 0).numpy(), ALONG[name](whole, 0).numpy(), rtol=1e-12)


def test_a_table_that_is_looked_up_by_parts_of_a_batch(workers):
    """The embedding's columns are split along model, the batch along data; the gradient is partial along data."""
    workers(4)
    shard("columns", {1: "model"}, {"data": 2, "model": 2})
    shard("batch", {0: "data"}, {"data": 2, "model": 2})
    table, index = np.random.default_rng(1).standard_normal((10, 6)), np.random.default_rng(2).integers(0, 10, (8, 3))
    found = []
    for name in (None, "columns"):
        weight = gt.tensor(table) if name is None else on(name, table)
        weight.requires_grad_(True)
        rows = gt.tensor(index) if name is None else on("batch", index)
        out = F.embedding(rows, weight)
        if name:
            assert out.placement == "mesh(data=2 split(axis=0), model=2 split(axis=2), workers=[0,1,2,3])"
        (out ** 3).sum().backward()
        found.append((out.detach().numpy(), weight.grad.numpy()))
    for plain, spread in zip(*found):
        np.testing.assert_allclose(spread, plain, rtol=1e-12)


def test_a_sum_that_begins_with_a_tensor_of_its_own(eight):
    """Of the workers along data, one adds to the tensor, and the others to zeros."""
    index = np.random.default_rng(3).integers(0, 16, (16, 16))
    for name in ("rows", "both"):
        base, result = gt.tensor(B), gt.tensor(B).scatter_add(0, on(name, index), on(name, A))
        assert "data=4 partial" in result.placement
        np.testing.assert_allclose(result.numpy(), base.scatter_add(0, gt.tensor(index), gt.tensor(A)).numpy(), rtol=1e-12)


# ---- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text, line, words", [
    ("mesh: {data: 2}\na:\n  shard:\n    0: dta\n", 4, "a: the mesh has no axis 'dta'; there are data"),
    ("mesh: {data: 2, model: 2}\na:\n  shard:\n    0: data\n    1: data\n", 5, "a: mesh axis 'data' is used twice"),
    ("mesh: {data: 2, model: 2}\na:\n  shard:\n    0: data\n    0: model\n", 5, "a: '0' is there twice"),
    ("mesh: {data: 2, model: 2}\na:\n  shard:\n    0: data\n    00: model\n", 5, "a: axis 0 is split along 'data' and 'model'"),
    ("a:\n  shard:\n    0: data\n", 3, "a: 'data' is an axis of a mesh, and the file has none"),
    ("mesh: {data: 2}\na:\n  shard:\n    9: data\n", 4, "a: axis 9 is out of range"),
    ("mesh: {data: 2}\na:\n  shard:\n    0: [data]\n", 4, "a: dimension 0 must be the name of a mesh axis"),
    ("mesh: {data: 2}\na:\n  shard:\n    0: data\n    axis: 1\n", 5, "a: a shard names mesh axes, or has axis or replicated, not"),
    ("mesh: {data: 2}\na:\n  shard:\n    replicated: true\n    0: data\n", 5, "a: a shard names mesh axes"),
    ("mesh: {data: 2}\na:\n  shard:\n    0: data\n    workers: [0, 1, 2]\n", 5, "a: the mesh has 2 places, and workers lists 3"),
    ("mesh:\n  data: two\n", 2, "data must be an integer, not 'two'"),
    ("mesh:\n  data: 0\n", 2, "mesh axis 'data' of 0: there are 1 to 256 workers"),
    ("mesh:\n  data: 100\n  model: 3\n", 3, "mesh axis 'model' of 3: there are 1 to 256 workers"),
    ("mesh:\n  data: 2\n  data: 2\n", 3, "'data' is there twice"),
    ("mesh: {a: 1, b: 1, c: 1, d: 1, e: 1}\n", 1, "a mesh has at most 4 axes"),
    ("mesh: {data: 2, model: 2, workers: [0, 1, 2]}\n", 1, "mesh: the mesh has 4 places, and workers lists 3"),
    ("mesh: {data: 2, workers: [1, 1]}\n", 1, "mesh: worker 1 is named twice"),
    ("mesh: {da ta: 2}\n", 1, "mesh: a mesh axis has a name of letters, digits, _ and -"),
    ("mesh: {a_name_that_is_too_long_for_this: 2}\n", 1, "a mesh axis has a name of 1 to 23 bytes"),
    ("mesh: {}\n", 1, "a mesh has axes and their sizes"),
    ("mesh: 8\n", 1, "mesh must be a mapping"),
])
def test_what_is_wrong_with_a_mesh_is_told_with_its_place(tmp_path, text, line, words):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    before = gt.get_config()
    with pytest.raises(gt.GtError, match=f"bad.yaml:{line}: {words.replace('[', '.')}"):
        gt.load_config(str(path))
    assert gt.get_config() == before


@pytest.mark.parametrize("config, words", [
    (dict(split={0: "data"}), "needs a mesh"),
    (dict(mesh={}, split={}), "a mesh has axes"),
    (dict(mesh={"data": 2}, split={0: "model"}), "no axis 'model'; there are data"),
    (dict(mesh={"data": 2}, split={0: "data", 1: "data"}), "'data' is used twice"),
    (dict(mesh={"data": 0}), "axes of 1 to 256 workers"),
    (dict(mesh={"data": 200, "model": 2}), "axes of 1 to 256 workers"),
    (dict(mesh={"data": 2}, split={8: "data"}), "a tensor 8 dimensions"),
    (dict(mesh={"data": 2}, axis=0), "not both"),
    (dict(mesh={"data": 2}, workers=[0]), "2 places, and workers lists 1"),
    (dict(mesh={"da\nta": 2}), "letters, digits"),
    (dict(mesh=dict.fromkeys("abcde", 1)), "at most 4 axes"),
])
def test_what_is_wrong_with_a_mesh_that_a_program_registers(config, words):
    with pytest.raises((ValueError, gt.GtError), match=words):
        gt.register_config("wrong", gt.SignalConfig(gt.ShardConfig(**config)))
    assert gt.get_config("wrong") is None


def test_a_mesh_of_more_workers_than_there_are(workers):
    workers(4)
    shard("large", {0: "data"})
    with pytest.raises(gt.GtError, match="large: the mesh needs worker 4: the server has 4 workers"):
        with gt.signal.context("large"):
            pass


def test_dimensions_that_do_not_divide(eight):
    shard("ends", {0: "data", -1: "model"})
    with gt.signal.context("both"):
        with pytest.raises(gt.GtError, match=r"both: axis 0 of a tensor of shape \(6,4\) does not divide into 4 equal parts along 'data'"):
            gt.zeros(6, 4)
        with pytest.raises(gt.GtError, match=r"both: axis 1 is out of range for a tensor of shape \(8,\)"):
            gt.zeros(8)
        assert gt.zeros(0, 4).placement == f"mesh(data=4 replicated, model=2 split(axis=1), {WORKERS})"
    with gt.signal.context("ends"):
        with pytest.raises(gt.GtError, match=r"ends: axis -1 of a tensor of shape \(8,\) would be split twice"):
            gt.zeros(8)
    with pytest.raises(gt.GtError, match=r"both: axis 1 of a tensor of shape \(8,3\) does not divide"):
        gt.signal.tensor(gt.zeros(8, 3), name="both")


def test_the_mesh_of_a_servers_config(programs):
    """The client does not know it: what does not divide fails when it is read. The log names the parts."""
    config = programs.directory / "server.yaml"
    config.write_text("mesh: {data: 2, model: 2}\nboth: {shard: {0: data, 1: model}}\n")
    log = programs.directory / "run.log"
    server = programs.server("--config", config, "--log", log)
    for index in range(4):
        programs.worker(server.port, "--index", index)
    said = programs.run("""
        import sys
        import gt
        gt.connect(sys.argv[1])
        while len(gt.debug.get_worker_stats()) < 4:
            pass
        with gt.signal.context("both"):
            x, wrong, short = gt.ones(4, 6), gt.ones(4, 5), gt.ones(4)
        print(x.placement, x.sum().item())
        for tensor in (wrong, short, wrong + 1):
            try:
                print(tensor.numpy())
            except gt.GtConnectionError as error:
                print(str(error).splitlines()[0])
    """, f"localhost:{server.port}").splitlines()
    assert said[0] == "mesh(data=2 split(axis=0), model=2 split(axis=1), workers=[0,1,2,3]) 24.0"
    assert "axis 1 of a tensor of shape (4,5) does not divide along mesh axis 'model' of 2" in said[1]
    assert "axis 1 of a tensor of shape (4,) is out of range, to be split along mesh axis 'model' of 2" in said[2]
    assert "does not divide" in said[3] and len(said) == 4
    server.end()
    text = log.read_text()
    for part in range(1, 5):
        assert f"shape=(2,3) shard={part}/4 axes=0,1" in text


def test_parts_of_a_worker_that_is_gone(programs):
    """A tensor with a part there is lost, and names the worker; what is replicated remains."""
    server = programs.server()
    ends = [programs.worker(server.port, "--index", k) for k in range(4)]
    program = programs.python("""
        import sys
        import gt
        gt.connect(sys.argv[1])
        while len(gt.debug.get_worker_stats()) < 4:
            pass
        mesh = {"data": 2, "model": 2}
        gt.register_config("both", gt.SignalConfig(gt.ShardConfig(mesh=mesh, split={0: "data", 1: "model"})))
        x = gt.signal.tensor(gt.ones(4, 4), name="both")
        total = x.sum() * 1
        print(total.item(), total.placement, flush=True)
        while total.placement == "replicated(workers=[0,1,2,3])":
            pass
        try:
            (x + 1).numpy()
        except gt.GtConnectionError as error:
            print(error)
        print(total.item(), total.placement)
    """, f"localhost:{server.port}")
    until(lambda: program.output.read_text(), "the sum")
    ends[3].kill()
    assert program.wait() == 0, program.text()
    first, lost, last = program.output.read_text().splitlines()
    assert first == "16.0 replicated(workers=[0,1,2,3])" and last == "16.0 replicated(workers=[0,1,2])"
    assert "worker_3 is gone" in lost, lost


# ---- training -------------------------------------------------------------------------------------------------------

GRID = {"data": 2, "model": 2}


def train_gpt(count):
    """The character-level GPT: the batch split along data, the layers along model. Losses and placements."""
    for name, split in {"batch": {0: "data"}, "out": {0: "model"}, "in": {1: "model"}}.items():
        gt.register_config(name, gt.SignalConfig(gt.ShardConfig(mesh=GRID, split=split) if count > 1 else None))
    connection = _gt.open_embedded(count)
    _gt.use(connection)
    try:
        gt.manual_seed(5)
        model = CHAR_GPT.Gpt(20, CONTEXT, width=32, heads=4, depth=2)
        for block in model.blocks:
            for parameter, name in [(block.up.weight, "out"), (block.up.bias, "out"), (block.down.weight, "in")]:
                parameter.data = gt.signal.tensor(parameter.data, name=name)
        optimizer = gt.optim.AdamW(model.parameters(), lr=2e-3)
        losses = []
        for _, (x, y) in zip(range(STEPS), CHAR_GPT.batches(TEXT, CONTEXT, 8, seed=1)):
            with gt.signal.context("batch"):
                logits = model(gt.signal.tensor(x, name="batch"))
                loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), gt.signal.tensor(y, name="batch").reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        return losses, [model.blocks[0].up.weight.placement, model.blocks[1].down.weight.placement, model.head.weight.placement]
    finally:
        _gt.use(None)
        connection.close()


def test_gpt_on_a_mesh():
    plain, _ = train_gpt(1)
    losses, places = train_gpt(4)
    np.testing.assert_allclose(losses, plain, rtol=2e-4)
    assert places == ["mesh(data=2 replicated, model=2 split(axis=0), workers=[0,1,2,3])",
                      "mesh(data=2 replicated, model=2 split(axis=1), workers=[0,1,2,3])", "replicated(workers=[0,1,2,3])"]


RECOVERED = """
mesh = {"data": 2, "model": 2}
for name, split in {"batch": {0: "data"}, "out": {0: "model"}, "in": {1: "model"}}.items():
    gt.register_config(name, gt.SignalConfig(gt.ShardConfig(mesh=mesh, split=split)))
while len(gt.debug.get_worker_stats()) < 4:
    pass
gt.manual_seed(1)
rng = np.random.default_rng(3)
model = nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 10))
for parameter, name in [(model[0].weight, "out"), (model[0].bias, "out"), (model[2].weight, "in")]:
    parameter.data = gt.signal.tensor(parameter.data, name=name)
optimizer = optim.AdamW(model.parameters(), lr=1e-3)
AT = {20: 1, 65: 0, 110: 3}
for step in range(150):
    if step in AT:
        kill(AT[step], wait=step % 2)
    with gt.signal.context("batch"):
        x = gt.tensor(rng.standard_normal((32, 24)).astype(np.float32))
        loss = nn.functional.cross_entropy(model(x), gt.tensor(rng.integers(0, 10, 32)))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 5 == 3:
        say(step, loss.item())
say(*(p.placement for p in model.parameters()))
say(*(p.detach().numpy().tobytes().hex()[:64] for p in model.parameters()))
assert gt.debug.dispatcher_stats(wait=True)["snapshots"] > 0
"""


@pytest.mark.parametrize("hot", [True, False], ids=["hot", "eager"])
def test_training_on_a_mesh_of_workers_that_die(programs, hot):
    lines, _ = both(programs, RECOVERED, workers=4, options=SOON, GT_AUTO_COMPILE=int(hot))
    assert "mesh(data=2 replicated, model=2 split(axis=0), workers=[0,1,2,3])" in lines[-2]
