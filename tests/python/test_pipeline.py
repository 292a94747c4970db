"""gt.signal.Pipeline: micro-batches through stages on different workers, in the order of a schedule.

The order is read from the log of the server: each micro-batch has another number of rows, so that the shapes name it.
"""

import re

import numpy as np
import pytest

import gt
from gt import nn
from gt.nn import functional as F

pytestmark = pytest.mark.usefixtures("own_signals")
STAGES, BATCHES, WIDTH = 3, 5, 24
SIGNALS = [f"stage_{stage}" for stage in range(STAGES)]

# F0 F1 ... and B0 B1 ..., written by hand: with three stages and five micro-batches.
GPIPE = ["F0 F1 F2 F3 F4 B0 B1 B2 B3 B4"] * STAGES
ONE_FORWARD_ONE_BACKWARD = ["F0 F1 F2 B0 F3 B1 F4 B2 B3 B4",
                            "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4",
                            "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4"]


def register(count, schedule=None):
    for stage, name in enumerate(SIGNALS):
        shard = gt.ShardConfig(workers=[stage]) if count > 1 else None
        gt.register_config(name, gt.SignalConfig(shard, schedule=schedule))


def make_stages():
    gt.manual_seed(2)
    stages = {}
    for name in SIGNALS:
        with gt.signal.context(name):
            stages[name] = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())
    return stages


RNG = np.random.default_rng(0)
ROWS = [2 + batch for batch in range(BATCHES)]
INPUTS = [RNG.standard_normal((rows, WIDTH)).astype(np.float32) for rows in ROWS]
TARGETS = [RNG.standard_normal((rows, WIDTH)).astype(np.float32) for rows in ROWS]


def train(schedule, steps=3):
    """Losses and gradients, without or with a pipeline."""
    stages = make_stages()
    parameters = [p for stage in stages.values() for p in stage.parameters()]
    optimizer = gt.optim.SGD(parameters, lr=0.1)
    pipeline = gt.signal.Pipeline(stages, schedule) if schedule else None
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        x, y = [gt.tensor(array) for array in INPUTS], [gt.tensor(array) for array in TARGETS]
        if pipeline:
            loss = pipeline.step(x, y, F.mse_loss)
        else:
            outputs = x
            for stage in stages.values():
                outputs = [stage(value) for value in outputs]
            loss = sum(F.mse_loss(out, target) for out, target in zip(outputs, y)) / BATCHES
            loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [p.grad.numpy() for p in parameters], [p.placement for p in parameters]


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_gradients_are_those_without_a_pipeline(workers, schedule):
    workers(1)
    register(1)
    plain_losses, plain, _ = train(None)
    workers(STAGES)
    register(STAGES)
    losses, gradients, places = train(schedule)
    np.testing.assert_allclose(losses, plain_losses, rtol=1e-5)
    for expected, gradient in zip(plain, gradients, strict=True):
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-6)
    assert places == [f"single(worker={stage})" for stage in range(STAGES) for _ in range(2)]


GRID = {"data": 2, "model": 2}


@pytest.mark.parametrize("shards", [
    [gt.ShardConfig(0, [0, 1]), gt.ShardConfig(0, [3, 2]), gt.ShardConfig(workers=[4])],
    [gt.ShardConfig(mesh=GRID, split={0: "data"}, workers=[0, 1, 2, 3]),
     gt.ShardConfig(mesh=GRID, split={0: "data", 1: "model"}, workers=[4, 5, 6, 7]),
     gt.ShardConfig(mesh=GRID, split={-1: "model"}, workers=[3, 2, 1, 0])],
], ids=["pairs", "meshes"])
def test_stages_of_several_workers(workers, shards):
    workers(1)
    register(1)
    plain_losses, plain, _ = train(None)
    workers(8)
    for name, shard in zip(SIGNALS, shards):
        gt.register_config(name, gt.SignalConfig(shard))
    losses, gradients, places = train("1f1b")
    np.testing.assert_allclose(losses, plain_losses, rtol=1e-5)
    for expected, gradient in zip(plain, gradients, strict=True):
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-6)
    assert len(set(places)) > 1


def test_a_long_run_as_hot_paths(programs):
    """40 steps with recording and replay of the streams have the losses of the same run without."""
    source = """
        import sys
        sys.path.insert(0, sys.argv[1])
        import gt, test_pipeline
        gt.gpu_workers(3)
        test_pipeline.register(3)
        print(test_pipeline.train(sys.argv[2], 40)[0])
    """
    folder = __file__.rpartition("/")[0]
    cold = programs.run(source, folder, "1f1b", GT_AUTO_COMPILE=0)
    assert programs.run(source, folder, "1f1b", GT_AUTO_COMPILE=1) == cold
    assert programs.run(source, folder, "gpipe", GT_AUTO_COMPILE=1) == cold  # the same sums in the same order


# ---- the order --------------------------------------------------------------------------------------------------------

LOGGED = """
import sys
sys.path.insert(0, sys.argv[1])
import gt, test_pipeline
gt.gpu_workers(test_pipeline.STAGES)
test_pipeline.register(test_pipeline.STAGES)
test_pipeline.train(sys.argv[2], 1)
gt.synchronize()
"""


def orders(log):
    """What each worker has done, from the activations of its layers and their gradients."""
    done = {name: [] for name in ("auto_worker", "auto_worker_1", "auto_worker_2")}
    for line in log.splitlines():
        found = re.search(rf"WORKER_RECV +\| WORKER (\w+) .*op=(tanh|tanh_backward) .*shape=\((\d+),{WIDTH}\)", line)
        if found:
            done[found[1]].append(f"{'FB'['backward' in found[2]]}{int(found[3]) - ROWS[0]}")
    return [" ".join(each) for each in done.values()]


@pytest.mark.parametrize("schedule, expected, most", [("gpipe", GPIPE, [5, 5, 5]), ("1f1b", ONE_FORWARD_ONE_BACKWARD, [3, 2, 1])])
def test_each_worker_works_in_the_order_of_the_schedule(programs, schedule, expected, most):
    log = programs.directory / "instructions.log"
    programs.run(LOGGED, __file__.rpartition("/")[0], schedule, GT_INSTRUCTION_LOG=log, GT_AUTO_COMPILE=0)
    done = orders(log.read_text())
    assert done == expected
    for order, held in zip(done, most):  # micro-batches whose forward is done and whose backward is not
        steps = [1 if step[0] == "F" else -1 for step in order.split()]
        assert max(np.cumsum(steps)) == held


def test_activations_that_a_stage_holds(workers):
    """By the count of the second stage's worker, of 24 micro-batches: with GPipe those of all, with 1F1B those of two."""
    batches, rows, peak = 24, 1000, {}
    size = rows * WIDTH * 4
    workers(STAGES)
    register(STAGES)
    x = [gt.signal.tensor(gt.ones(rows, WIDTH), name=SIGNALS[0]) for _ in range(batches)]
    y = [gt.signal.tensor(gt.ones(rows, WIDTH), name=SIGNALS[-1]) for _ in range(batches)]
    for schedule in ("1f1b", "gpipe"):
        stages = make_stages()
        inner, peak[schedule] = stages[SIGNALS[1]], 0

        def watched(value):
            gt.synchronize()  # all workers have done what was sent to them
            stats = gt.debug.get_worker_stats(wait=True)
            used = next(worker["memory"]["used"] for worker in stats.values() if worker["index"] == 1)
            peak[schedule] = max(peak[schedule], used / size)
            return inner(value)

        stages[SIGNALS[1]] = watched
        gt.signal.Pipeline(stages, schedule).step(x, y, F.mse_loss)
    # A micro-batch has an input and an activation there, and gradients on the way; freed tensors are told of a little later.
    assert peak["gpipe"] >= batches - 1, peak
    assert peak["1f1b"] <= 2 * 4 + 6, peak


# ---- configs and mistakes ---------------------------------------------------------------------------------------------


def test_the_config_says_the_schedule(tmp_path):
    path = tmp_path / "stages.yaml"
    path.write_text("one: {schedule: gpipe}\ntwo: {shard: {workers: [0]}}\nother: {schedule: 1F1B}\n")
    gt.load_config(path)
    assert gt.get_config("one") == gt.SignalConfig(schedule="gpipe")
    modules = nn.Identity(), nn.Identity()
    assert gt.signal.Pipeline(dict(zip(["one", "two"], modules))).schedule == "gpipe"
    assert gt.signal.Pipeline(dict(zip(["two", "other"], modules))).schedule == "1f1b"
    assert gt.signal.Pipeline(dict(zip(["two", "not there"], modules))).schedule == "1f1b"
    assert gt.signal.Pipeline(dict(zip(["one", "other"], modules)), "gpipe").schedule == "gpipe"
    with pytest.raises(ValueError, match="one, other have different schedules: 1f1b and gpipe"):
        gt.signal.Pipeline(dict(zip(["one", "other"], modules)))
    path.write_text("one:\n  schedule: zigzag\n")
    with pytest.raises(gt.GtError, match="stages.yaml:2: one: schedule must be gpipe or 1f1b, not 'zigzag'"):
        gt.load_config(path)


def test_mistakes():
    with pytest.raises(ValueError, match="a pipeline needs a stage"):
        gt.signal.Pipeline({})
    with pytest.raises(ValueError, match="'gpipe' or '1f1b', not 'zigzag'"):
        gt.signal.Pipeline({"a": nn.Identity()}, "zigzag")
    with pytest.raises(ValueError, match="'gpipe' or '1f1b', not 'zigzag'"):
        gt.register_config("a", gt.SignalConfig(schedule="zigzag"))
    pipeline = gt.signal.Pipeline({"a": nn.Linear(2, 2)})
    with pytest.raises(ValueError, match="2 inputs and 1 targets"):
        pipeline.step([gt.ones(1, 2)] * 2, [gt.ones(1, 2)], F.mse_loss)
    with pytest.raises(ValueError, match="0 inputs"):
        pipeline.step([], [], F.mse_loss)
    with pytest.raises(ZeroDivisionError):
        pipeline.step([gt.ones(1, 2)] * 2, [gt.ones(1, 2)] * 2, lambda out, target: 1 / 0)
    assert pipeline.step([gt.ones(1, 2)], [gt.zeros(1, 2)], F.mse_loss).item() > 0  # and it can be used again


def test_stages_that_pass_several_tensors(workers):
    workers(2)
    for stage in range(2):
        gt.register_config(SIGNALS[stage], gt.SignalConfig(gt.ShardConfig(workers=[stage])))
    found = []
    for pipelined in (False, True):
        w = [gt.full((3,), 2.0, requires_grad=True), gt.full((3,), 3.0, requires_grad=True)]
        def first(x): return x * w[0], x.long(), x + 1
        def second(a, index, c): return (a * w[1])[index] + c
        x, y = [gt.tensor([0.0, 1.0, 2.0]), gt.tensor([2.0, 1.0, 1.0])], [gt.ones(3)] * 2
        if pipelined:
            loss = gt.signal.Pipeline({SIGNALS[0]: first, SIGNALS[1]: second}).step(x, y, F.mse_loss)
        else:
            loss = sum(F.mse_loss(second(*first(value)), target) for value, target in zip(x, y)) / 2
            loss.backward()
        found.append([loss.item(), w[0].grad.tolist(), w[1].grad.tolist()])
    assert found[0] == found[1]
