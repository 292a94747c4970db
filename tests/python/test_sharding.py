"""Tensors spread over workers: placements, signals, configs, and random programs on one worker and on several."""

import os
import textwrap
import threading

import numpy as np
import pytest

import gt
import sharded_programs
from gt import _gt
from support import PATIENCE_S

PROGRAMS = int(os.environ.get("GT_TEST_PROGRAMS", "500"))
BLOCK = 50


def shard(name, axis=None, workers=None, replicated=False, backward=None):
    gt.register_config(name, gt.SignalConfig(gt.ShardConfig(axis, workers, replicated), backward))


def totals(key):
    return sum(worker[key] for worker in gt.debug.get_worker_stats(wait=True).values())


# ---- random programs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", range(0, PROGRAMS, BLOCK))
def test_random_programs_agree_with_one_worker(first):
    connections = sharded_programs.Connections()
    try:
        for seed in range(first, min(first + BLOCK, PROGRAMS)):
            report = sharded_programs.run(sharded_programs.Generator(seed).write(), connections)
            assert not report, report
    finally:
        connections.close()


def test_a_program_that_differs_is_printed_as_a_script_that_does(programs):
    """The program's result depends on a placement, as it would after a placement error."""
    program = next(p for p in map(sharded_programs.Generator, range(99)) if p.workers > 1).write()
    assert program.count >= 50
    program.config["s0"] = (0, [1, 0], False, None)
    program.lines += ["wrong = gt.signal.tensor(gt.zeros(8), name='s0')", "wrong = wrong + float('split' in wrong.placement)"]
    program.values.append(sharded_programs.Value("wrong", (8,), "f", True))
    connections = sharded_programs.Connections()
    try:
        report = sharded_programs.run(program, connections)
    finally:
        connections.close()
    assert "wrong differs in 8 of 8 elements" in report
    alone = programs.python(report.split("\n\n", 1)[1], name="printed")
    assert alone.wait(PATIENCE_S) == 1, alone.text()
    assert alone.output.read_text() == "wrong differs in 8 of 8 elements\n"


def test_a_list_of_workers_that_shrinks_while_it_is_read():
    listed = []

    class Shrinking:
        def __index__(self):
            listed.clear()
            return 0

    listed.extend([Shrinking(), 1, 2])
    _gt.config_set("shrinking", (0, listed, False), None, False)
    assert _gt.config_get("shrinking")[0][1] == [0, 1, 2]


# ---- placements -----------------------------------------------------------------------------------------------


def test_a_scope_places_tensors_and_results(workers):
    workers(4)
    shard("rows", 0, [0, 1, 2, 3])
    shard("columns", 1, [2, 0])
    shard("everywhere", workers=[1, 3], replicated=True)
    shard("there", workers=[2])
    outside = gt.zeros(8, 4)
    with gt.signal.context("rows"):
        x = gt.randn(100, 64)
        assert (x * 2).placement == "split(axis=0, workers=[0,1,2,3])"
        with gt.signal.context("columns"):
            assert gt.zeros(8, 4).placement == "split(axis=1, workers=[2,0])"
        with gt.signal.context("unheard of"):
            assert gt.zeros(8, 4).placement == "split(axis=0, workers=[0,1,2,3])"
    with gt.signal.context("everywhere"):
        assert gt.zeros(8, 4).placement == "replicated(workers=[1,3])"
    with gt.signal.context("there"):
        assert gt.zeros(8, 4).placement == (outside + 1).placement == "single(worker=2)"
    assert outside.placement == "single(worker=0)"
    assert x.T.placement == "split(axis=1, workers=[0,1,2,3])"
    assert gt.signal.tensor(outside, name="rows").placement == "split(axis=0, workers=[0,1,2,3])"


def test_enter_and_exit(workers):
    workers(2)
    shard("rows", 0, [0, 1])
    gt.signal.enter("rows")
    inside = gt.zeros(4, 2)
    gt.signal.exit("rows")
    assert inside.placement == "split(axis=0, workers=[0,1])"
    assert gt.zeros(4, 2).placement == "single(worker=0)"


def test_uneven_parts_and_more_workers_than_rows(workers):
    workers(5)
    shard("uneven", 0, [0, 1, 2])
    shard("many", 0)
    with gt.signal.context("uneven"):
        x = gt.arange(100)
    assert x.placement == "split(axis=0, workers=[0,1,2])"
    assert np.array_equal(x.numpy(), np.arange(100))
    with gt.signal.context("many"):
        few, one, none = gt.arange(3), gt.ones(1, 5), gt.ones(0, 5)
    assert few.placement == "split(axis=0, workers=[0,1,2])"
    assert one.placement == none.placement == "single(worker=0)"
    assert np.array_equal((few + 1).numpy(), [1, 2, 3])
    assert none.numpy().shape == (0, 5)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("count", [2, 3, 8])
def test_random_numbers_do_not_depend_on_the_split(workers, axis, count):
    workers(count)
    shard("split", axis)
    for make in (lambda: gt.randn(30, 21, 17), lambda: gt.rand(30, 21, 17, dtype=gt.float64),
                 lambda: gt.randint(-9, 9, (30, 21, 17)), lambda: gt.randn(30, 21, 17, dtype=gt.float16)):
        gt.manual_seed(0)
        whole = make()
        gt.manual_seed(0)
        with gt.signal.context("split"):
            split = make()
        assert split.placement.startswith(f"split(axis={axis}")
        assert np.array_equal(whole.numpy(), split.numpy())


def test_a_large_randn_is_the_same_under_any_split(workers):
    workers(4)
    shard("rows", 0)
    shard("columns", 1)
    gt.manual_seed(0)
    whole = gt.randn(1000, 1000).numpy()
    for name in ("rows", "columns"):
        gt.manual_seed(0)
        with gt.signal.context(name):
            assert np.array_equal(gt.randn(1000, 1000).numpy(), whole)


# ---- products and sums ------------------------------------------------------------------------------------------

A, B = np.random.default_rng(0).standard_normal((2, 12, 12))


@pytest.mark.parametrize("left, right, result, collectives", [
    ("rows", "whole", "split(axis=0", 0),      # no communication
    ("whole", "columns", "split(axis=1", 0),
    ("columns", "rows", "partial(", 0),        # each worker has a part of the contraction
    ("rows", "rows", "split(axis=0", 4),       # the right operand is gathered
    ("columns", "whole", "partial(", 0),
    ("whole", "rows", "partial(", 0),
    ("rows", "columns", "split(", 4),
])
def test_patterns_of_matmul(workers, left, right, result, collectives):
    workers(4)
    shard("rows", 0)
    shard("columns", 1)
    shard("whole", replicated=True)
    a = gt.signal.tensor(gt.tensor(A), name=left)
    b = gt.signal.tensor(gt.tensor(B), name=right)
    gt.synchronize()
    before = totals("collectives")
    product = a @ b
    assert product.placement.startswith(result)
    assert totals("collectives") - before == collectives
    np.testing.assert_allclose(product.numpy(), A @ B, rtol=1e-12)


def test_a_sum_that_is_owed_is_paid_once(workers):
    workers(3)
    shard("rows", 0)
    x = gt.signal.tensor(gt.tensor(A), name="rows")
    total = x.sum(dim=0)
    assert total.placement == "partial(workers=[0,1,2])"
    assert (total + x.sum(dim=0)).placement == "partial(workers=[0,1,2])"
    before = totals("collectives")
    np.testing.assert_allclose((total * total).numpy(), A.sum(0) ** 2, rtol=1e-12)
    assert total.placement == "replicated(workers=[0,1,2])"
    paid = totals("collectives")
    assert paid > before
    np.testing.assert_allclose(total.exp().numpy(), np.exp(A.sum(0)), rtol=1e-12)
    assert totals("collectives") == paid


def test_a_sum_is_left_in_parts_where_parts_are_wanted(workers):
    """Partial + split is a reduce-scatter: the result stays split."""
    workers(4)
    shard("rows", 0)
    shard("columns", 1)
    a = gt.signal.tensor(gt.tensor(A), name="columns")
    product = a @ gt.tensor(B)
    assert product.placement.startswith("partial")
    rows = gt.signal.tensor(gt.tensor(B), name="rows")
    result = product + rows
    assert result.placement == product.placement == "split(axis=0, workers=[0,1,2,3])"
    np.testing.assert_allclose(result.numpy(), A @ B + B, rtol=1e-12)


@pytest.mark.parametrize("before, after, times", [
    ("rows", "whole", 3),        # all_gather: each of four lacks three quarters
    ("rows", "columns", 0.75),   # all_to_all
    ("there", "whole", 3),       # broadcast to the three others
    ("there", "rows", 0.75),     # moves
])
def test_bytes_moved_are_those_that_arrive(workers, before, after, times):
    workers(4)
    shard("rows", 0)
    shard("columns", 1)
    shard("whole", replicated=True)
    shard("there", workers=[0])
    x = gt.signal.tensor(gt.zeros(400, 100, dtype=gt.float64), name=before)
    gt.synchronize()
    start = totals("bytes_moved")
    y = gt.signal.tensor(x, name=after)
    assert totals("bytes_moved") - start == times * 400 * 100 * 8
    assert y.placement.startswith("replicated" if after == "whole" else "split")


def test_bytes_moved_by_a_sum(workers):
    workers(4)
    shard("rows", 0)
    x = gt.signal.tensor(gt.ones(400, 100, dtype=gt.float64), name="rows").sum(dim=0)
    assert x.placement.startswith("partial")
    start = totals("bytes_moved")
    assert (x * 2).placement.startswith("replicated")
    assert totals("bytes_moved") - start == 4 * (2 * 3 / 4) * 100 * 8


def test_what_has_no_rule_is_gathered_and_counted(workers):
    workers(3)
    shard("rows", 0)
    x = gt.signal.tensor(gt.tensor(A), name="rows")
    assert totals("gathers") == 0
    assert np.array_equal(x.diagonal().numpy(), A.diagonal())
    assert totals("gathers") == 3


@pytest.mark.parametrize("dim", [0, (0, 1)])
@pytest.mark.parametrize("name, options", [("sum", {}), ("mean", {}), ("var", {}), ("var", dict(correction=0)), ("var", dict(correction=3)),
                                           ("amax", {}), ("logsumexp", {}), ("norm", {}), ("norm", dict(p=1)),
                                           ("norm", dict(p=float("inf")))])
def test_reductions_of_the_split_axis_gather_nothing(workers, name, options, dim):
    workers(5)
    shard("rows", 0)
    whole = gt.tensor(A + 3)  # 12 rows on 5 workers
    split = gt.signal.tensor(whole, name="rows")
    for keepdim in (False, True):
        expected = getattr(whole, name)(dim=dim, keepdim=keepdim, **options).numpy()
        result = getattr(split, name)(dim=dim, keepdim=keepdim, **options).numpy()
        assert result.shape == expected.shape
        np.testing.assert_allclose(result, expected, rtol=1e-12)
    assert totals("gathers") == 0


@pytest.mark.parametrize("dtype", [gt.float16, gt.bfloat16])
def test_a_mean_of_many_halves_fits_where_their_sum_does_not(workers, dtype):
    workers(3)
    shard("rows", 0)
    with gt.signal.context("rows"):
        x = gt.full((300001, 2), 3.0, dtype=dtype)
    assert x.mean().item() == 3.0
    assert x.mean(dim=0).tolist() == [3.0, 3.0]
    assert x.var(dim=0).tolist() == [0.0, 0.0]


def test_parts_move_to_the_workers_of_the_next_stage(workers):
    """Any op may be the first of a stage: parts move as parts, without a gather."""
    workers(5)
    shard("first", 0, [0, 1])
    shard("second", 0, [4, 2, 3])
    with gt.signal.context("first"):
        x = gt.tensor(A)
    with gt.signal.context("second"):
        checks = [(x.softmax(dim=1), np.exp(A) / np.exp(A).sum(1, keepdims=True)), (x.reshape(12, 3, 4), A.reshape(12, 3, 4)),
                  (x.var(dim=0), A.var(0, ddof=1)), (x.amax(dim=0), A.max(0)), (x[1:9:2], A[1:9:2]), (x.T @ x, A.T @ A),
                  (x.cumsum(dim=1), A.cumsum(1)), (gt.cat([x, x], dim=1), np.concatenate([A, A], 1)), (x.mean(), A.mean())]
    for result, expected in checks:
        assert {int(n) for n in result.placement.split("[")[1].rstrip("])").split(",")} <= {2, 3, 4}
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-12)
    assert totals("gathers") == 0


def matrices(*shape):
    return np.random.default_rng(2).standard_normal(shape)


@pytest.mark.parametrize("name, shape, run", [
    ("columns of zeros", (7, 6), lambda x: x[:, 2:4]),
    ("chunks", (7, 6), lambda x: x.chunk(3, dim=1)[1] * 2),
    ("padding", (7, 6), lambda x: gt.nn.functional.pad(x, (1, 2))),
    ("flip", (7, 6), lambda x: x.flip(1)),
    ("interpolation", (7, 2, 4, 4), lambda x: gt.nn.functional.interpolate(x, scale_factor=2, mode="bilinear")),
    ("patches", (7, 2, 5, 5), lambda x: gt.nn.functional.unfold(x, 3)),
    ("windows", (7, 9), lambda x: x.unfold(1, 3, 2)),
    ("diagonals", (7, 4, 4), lambda x: x.diagonal(0, 1, 2)),
    ("inverses", (7, 3, 3), gt.linalg.inv),
    ("determinants", (7, 3, 3), gt.linalg.det),
    ("equations", (7, 3, 3), lambda x: gt.linalg.solve(x, gt.tensor(matrices(3, 2)))),
    ("batch normalisation", (7, 3, 4, 4), lambda x: gt.nn.BatchNorm2d(3).double()(x)),
])
def test_what_does_not_mix_the_batch_keeps_it_split(workers, name, shape, run):
    """Forward and backward, without a gather."""
    workers(3)
    shard("rows", 0)
    whole = gt.tensor(matrices(*shape), requires_grad=True)
    split = gt.signal.tensor(gt.tensor(matrices(*shape)), name="rows").requires_grad_(True)
    results = []
    for x in (whole, split):
        y = run(x)
        (y * y).sum().backward()
        results.append((y.detach().numpy(), x.grad.numpy()))
    assert y.placement == "split(axis=0, workers=[0,1,2])"
    for one, many in zip(*results):
        np.testing.assert_allclose(many, one, rtol=1e-9, atol=1e-12)
    assert totals("gathers") == 0


def test_convolutions_split_the_batch(workers):
    workers(3)
    shard("rows", 0)
    rng = np.random.default_rng(1)
    images, weight = rng.standard_normal((7, 2, 8, 8)), rng.standard_normal((4, 2, 3, 3))

    def run(x):
        w = gt.tensor(weight, requires_grad=True)
        y = gt.nn.functional.max_pool2d(gt.nn.functional.conv2d(x, w, padding=1).relu(), 2)
        gt.nn.functional.avg_pool2d(y * y, 2).mean().backward()
        return y, w.grad

    y, gradient = run(gt.tensor(images))
    split, split_gradient = run(gt.signal.tensor(gt.tensor(images), name="rows"))
    assert split.placement == "split(axis=0, workers=[0,1,2])"
    assert split_gradient.placement == "partial(workers=[0,1,2])"
    np.testing.assert_allclose(split.detach().numpy(), y.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(split_gradient.numpy(), gradient.numpy(), rtol=1e-10)
    assert totals("gathers") == 0


# ---- gradients ----------------------------------------------------------------------------------------------------


def test_gradients_run_under_the_backward_signal(workers):
    workers(4)
    shard("stage", 0, [0, 1], backward="stage_backward")
    shard("stage_backward", 0, [2, 3])
    w = gt.tensor(A, requires_grad=True)
    x = gt.tensor(B)
    with gt.signal.context("stage"):
        y = (x @ w).relu()
    assert y.placement == "split(axis=0, workers=[0,1])"
    y.sum().backward()
    assert w.grad.placement == "partial(workers=[2,3])"
    mask = (B @ A > 0).astype(float)
    np.testing.assert_allclose(w.grad.numpy(), B.T @ mask, rtol=1e-12)


def test_a_context_may_name_the_backward_signal(workers):
    workers(3)
    shard("forward", workers=[1])
    shard("backward", workers=[2])
    w = gt.tensor(A, requires_grad=True)
    with gt.signal.context("forward", backward="backward"):
        y = (w * w).sum()
    assert y.placement == "single(worker=1)"
    y.backward()
    assert w.grad.placement == "single(worker=2)"
    np.testing.assert_allclose(w.grad.numpy(), 2 * A, rtol=1e-12)


def test_scopes_belong_to_their_thread(workers):
    workers(2)
    shard("rows", 0, [0, 1])
    connection, seen = _gt.current(), []

    def other():
        _gt.use(connection)
        seen.append(gt.zeros(4, 2).placement)

    with gt.signal.context("rows"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert gt.zeros(4, 2).placement == "split(axis=0, workers=[0,1])"
    assert seen == ["single(worker=0)"]


# ---- configs ------------------------------------------------------------------------------------------------------


def test_a_config_file(workers, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(textwrap.dedent("""
        from_file:            # a comment
          shard:
            axis: 1
            workers: [1, 0]
          backward: from_file_backward
        from_file_backward:
          shard: {replicated: true}
          compile: true
    """))
    gt.load_config(path)
    assert gt.get_config("from_file") == gt.SignalConfig(gt.ShardConfig(1, [1, 0]), "from_file_backward")
    assert gt.get_config("from_file_backward") == gt.SignalConfig(gt.ShardConfig(None, None, True), None, True)
    assert "from_file" in gt.get_config()
    assert gt.get_config("no such signal") is None
    workers(2)
    with gt.signal.context("from_file"):
        assert gt.zeros(4, 4).placement == "split(axis=1, workers=[1,0])"


@pytest.mark.parametrize("text, line, words", [
    ("a:\n  shards: {axis: 0}\n", 2, "a: unknown key 'shards'"),
    ("a:\n  shard:\n    axle: 0\n", 3, "a: unknown key 'axle'"),
    ("a:\n  shard:\n    axis: first\n", 3, "a: axis must be an integer, not 'first'"),
    ("a:\n  shard:\n    workers: 3\n", 3, "a: workers must be a list"),
    ("a:\n  shard:\n    workers: [0, one]\n", 3, "a: a worker must be an integer, not 'one'"),
    ("a:\n  shard:\n    workers: [0, -1]\n", 3, "a: worker -1"),
    ("a:\n  shard:\n    workers: [0, 1, 0]\n", 3, "a: worker 0 is named twice"),
    ("a:\n  shard:\n    axis: 0\n    replicated: true\n", 4, "a: a tensor cannot be replicated and split"),
    ("a:\n  shard:\n    replicated: perhaps\n", 3, "a: replicated must be true or false"),
    ("a:\n  backward: [b]\n", 2, "a: backward must be a name"),
    ("a:\n  compile: 7\n", 2, "a: compile must be true or false"),
    ("a:\n  shard: {axis: 0}\na:\n  shard: {axis: 1}\n", 3, "'a' is there twice"),
    ("a: 5\n", 1, "a: a signal must be a mapping"),
    ("a:\n  shard: {axis: 0\n", 3, ""),
    ("- a\n", 1, "the file must be a mapping"),
    ("a:\n\tshard: {axis: 0}\n", 2, "found character that cannot start any token"),
    ("a:\n  shard:\n    axis: '0'\n", 3, "a: axis must be an integer, not the text '0'"),
    ("a:\n  compile: 'yes'\n", 2, "a: compile must be true or false, not the text 'yes'"),
    ("a:\n  shard:\n    workers: [0]\n    axis: 12\n", 4, "a: axis 12 is out of range"),
    ("a:\n  shard:\n    workers: []\n", 3, "a: workers is empty"),
    ("a:\n  shard:\n    axis: 99999999999999999999\n", 3, "a: axis must be an integer"),
    ("a:\n  shard:\n", 2, "a: shard must be a mapping"),
    ("a:\n  shard: {axis: 0}\n  shard: {axis: 1}\n", 3, "a: 'shard' is there twice"),
    ("a:\n  backward: \"b\\0c\"\n", 2, "a: backward must be a name"),
    ("a: {shard: {axis: 0}}\n---\nb: {}\n", 3, "a second document"),
    ("".join(f"s{k}: {{}}\n" for k in range(5000)), 4097, "more than 4096 signals"),
])
def test_what_is_wrong_with_a_config_is_told_with_its_place(tmp_path, text, line, words):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    before = gt.get_config()
    with pytest.raises(gt.GtError, match=f"bad.yaml:{line}: .*{words.replace('[', '.')}"):
        gt.load_config(str(path))
    assert gt.get_config() == before


def test_a_missing_config_file(tmp_path):
    with pytest.raises(gt.GtError, match="no_such.yaml: No such file"):
        gt.load_config(str(tmp_path / "no_such.yaml"))


def test_large_things_are_spread_by_themselves(programs):
    said = programs.run("""
        import gt
        gt.gpu_workers(4)
        gt.manual_seed(0)
        large, small = gt.randn(2048, 1024), gt.randn(64, 64)
        print(large.placement, small.placement, (small @ small).placement)
        a, b = gt.ones(512, 512), gt.ones(512, 512)
        print(a.placement, (a @ b).placement, (a @ b).sum().item())
        print((large * 2 + 1).placement, abs(large.mean().item()) < 0.01)
        print((gt.ones(1000) @ gt.ones(1000)).placement)
    """, GT_AUTO_SHARD="1")
    assert said.splitlines() == [
        "split(axis=0, workers=[0,1,2,3]) single(worker=0) single(worker=0)",
        "single(worker=0) split(axis=0, workers=[0,1,2,3]) 134217728.0",
        "split(axis=0, workers=[0,1,2,3]) True",
        "single(worker=0)",
    ]


def test_what_was_made_for_a_copy_is_the_copy(programs, tmp_path):
    """A part that came from another worker is not copied again; a part of a tensor that stays is."""
    log = tmp_path / "log"
    said = programs.run("""
        import gt
        gt.gpu_workers(2)
        for axis, name in enumerate(("rows", "columns")):
            gt.register_config(name, gt.SignalConfig(gt.ShardConfig(axis=axis)))
        x = gt.arange(64).reshape(8, 8)
        rows = gt.signal.tensor(x, name="rows")
        columns = gt.signal.tensor(rows, name="columns")
        again = gt.signal.tensor(columns, name="columns")
        print(columns.placement, (columns == x).all().item(), (rows == x).all().item(), (again == x).all().item())
    """, GT_INSTRUCTION_LOG=log)
    assert said == "split(axis=1, workers=[0,1]) True True True\n"
    sent = [line for line in log.read_text().splitlines() if "WORKER_SEND" in line and "op=copy" in line]
    copies = [sum(name in line for line in sent) for name in ("WORKER auto_worker ", "WORKER auto_worker_1 ")]
    assert copies == [2, 1], sent  # worker 0 keeps its part of x; both copy what is in place, for `again`


# ---- bad input ------------------------------------------------------------------------------------------------------


def test_a_worker_that_is_not_there(workers):
    workers(4)
    shard("too many", 0, [0, 7])
    with pytest.raises(gt.GtError, match="too many: worker 7 is not there: the server has 4 workers"):
        with gt.signal.context("too many"):
            pass
    with pytest.raises(gt.GtError, match="worker 7 is not there"):
        gt.signal.tensor(gt.zeros(4), name="too many")


def test_gradients_on_a_worker_that_is_not_there(workers):
    """An error when the scope is entered, whether the config or the program names the backward signal."""
    workers(2)
    shard("too many", 0, [0, 7])
    shard("stage", 0, [0, 1], backward="too many")
    for enter in (lambda: gt.signal.enter("stage"), lambda: gt.signal.enter("other", backward="too many"),
                  lambda: gt.signal.tensor(gt.zeros(4), name="stage")):
        with pytest.raises(gt.GtError, match="too many: worker 7 is not there: the server has 2 workers"):
            enter()
    gt.signal.enter("stage", backward="stage")  # this one is used instead
    gt.signal.exit("stage")


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "{}\n"])
def test_a_config_that_says_nothing(tmp_path, text):
    path = tmp_path / "empty.yaml"
    path.write_text(text)
    before = gt.get_config()
    gt.load_config(str(path))
    assert gt.get_config() == before


def test_an_axis_out_of_range(workers):
    workers(2)
    shard("deep", 2)
    with gt.signal.context("deep"):
        with pytest.raises(gt.GtError, match=r"deep: axis 2 is out of range for a tensor of shape \(4,4\)"):
            gt.zeros(4, 4)
        assert gt.zeros(2, 2, 2).numpy().sum() == 0
    with pytest.raises(gt.GtError, match="axis 2 is out of range"):
        gt.signal.tensor(gt.zeros(4), name="deep")


MISSING_AXIS = {
    "slice": lambda v: v[1:3],
    "element": lambda v: v[2],
    "list": lambda v: v[[0, 2]],
    "mask": lambda v: v[v > 0],
    "flip": lambda v: v.flip(0),
    "roll": lambda v: v.roll(1),
    "sort": lambda v: v.sort()[0],
    "scatter": lambda v: v.scatter(0, v.argsort()[:2], 1.0),
    "padding": lambda v: gt.nn.functional.pad(v, (1, 1)),
    "dropout": lambda v: gt.nn.functional.dropout(v),
    "copy": lambda v: v.clone(),
    "diagonal": lambda v: v.diag(),
    "median": lambda v: v.median(),
    "layer": lambda v: gt.nn.Linear(6, 3).double()(v),
}


@pytest.mark.parametrize("name", MISSING_AXIS)
def test_functions_work_under_an_axis_that_their_tensors_do_not_have(workers, name):
    """The scope splits columns, and vectors have none: neither temporaries of the function nor gradients fail."""
    workers(3)
    shard("columns", 1)
    results = []
    for scope in ("unheard of", "columns"):
        gt.manual_seed(0)
        vector = gt.tensor(A[0, :6].copy(), requires_grad=True)
        with gt.signal.context(scope):
            y = MISSING_AXIS[name](vector)
        (y * y).sum().backward()
        results.append((y.detach().numpy(), vector.grad.numpy()))
    for one, many in zip(*results):
        np.testing.assert_allclose(many, one, rtol=1e-12)


def test_scopes_that_contradict_each_other():
    with pytest.raises(gt.GtError, match="'never' is exited but was never entered"):
        gt.signal.exit("never")
    gt.signal.enter("outer")
    gt.signal.enter("inner")
    with pytest.raises(gt.GtError, match="'outer' is exited inside 'inner'"):
        gt.signal.exit("outer")
    gt.signal.exit("inner")
    gt.signal.exit("outer")
    with pytest.raises(gt.GtError, match="a signal needs a name"):
        gt.signal.enter("")
    with pytest.raises(gt.GtError, match="replicated and split"):
        shard("both", axis=0, replicated=True)


def test_poison_travels(workers):
    """Every reader of the spread result gets the failure of the one worker; the session goes on."""
    workers(3)
    shard("rows", 0)
    index = gt.signal.tensor(-(-gt.tensor([0, 1, 99, 2, 1, 0])), name="rows")  # -(-x): only the workers know the values
    bad = gt.tensor(A)[index].sum(dim=0)
    with pytest.raises(Exception, match="99"):
        (bad * 2).numpy()
    assert gt.ones(3).sum().item() == 3


def test_marks_are_accepted(workers):
    workers(1)
    from gt.signals import signal
    signal("START_FORWARD")
    assert gt.ones(3).sum().item() == 3
    with pytest.raises(gt.GtError, match="at most 127 bytes"):
        signal("x" * 500)
