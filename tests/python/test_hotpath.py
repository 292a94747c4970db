"""Hot paths: programs with loops give the same results, errors, logs and counts as without."""

import json
import os
import subprocess
import sys

import numpy
import pytest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
HOT = {"GT_AUTO_COMPILE": "1", "GT_HOTPATH_THRESHOLD": "3", "GT_HOTPATH_MIN_SEQ": "2"}

HEAD = """
import json, gt, numpy as np
from gt import nn
gt.gpu_workers(WORKERS)
gt.manual_seed(0)
results = []
def keep(*tensors):
    results.extend(np.asarray(t.detach().numpy()).tolist() for t in tensors)
"""

TAIL = """
hotpath = next(iter(gt.debug.get_worker_stats(wait=True).values()))["hotpath"]
print(json.dumps([results, hotpath]))
"""


def run(program, workers=1, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GT_AUTO_C", "GT_COMPILE", "GT_HOT"))}
    done = subprocess.run([sys.executable, "-c", HEAD.replace("WORKERS", str(workers)) + program + TAIL], env=environment | variables, capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr
    return *json.loads(done.stdout.splitlines()[-1]), done.stderr


def check(program, least=0.3, exact=True, **variables):
    """The program's results with hot paths are those without; at least this part of its instructions was in paths."""
    cold, _, _ = run(program, GT_AUTO_COMPILE="0")
    hot, hotpath, _ = run(program, **HOT | variables)
    if exact:
        assert hot == cold
    else:
        for a, b in zip(hot, cold, strict=True):
            numpy.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)
    assert hotpath["hot_instructions"] >= least * hotpath["total_instructions"], hotpath
    return hotpath


ELEMENTWISE = """
x = gt.randn(100, 33)
for k in range(50):
    y = gt.relu(x * 2 + 1) * x
keep(y)
"""

CARRIED = """
h = gt.zeros(8)
for k in range(60):
    h = (h + 1.5) * 0.75 - h.sin()
keep(h)
"""

CHANGING_LITERALS = """
x = gt.ones(5)
for k in range(60):
    x = x * (1 + 1 / (k + 1)) - 0.01 * k
    x = gt.clamp(x, -k, k + 1.0)
keep(x)
"""

DROPOUT = """
x, drop = gt.ones(64), nn.Dropout(0.5)
total = gt.zeros(64)
for k in range(40):
    total = total + drop(x) * gt.rand(64)
keep(total)
"""

KEPT = """
x, kept = gt.arange(6.0), []
for k in range(40):
    y = (x + k).exp()
    z = y / (y.sum() + 1)
    if k % 4 == 0:
        kept.append(y)
    if k % 7 == 0:
        keep(z)
keep(*kept)
"""

DETOURS = """
x, y = gt.ones(4), gt.zeros(4)
for k in range(90):
    y = y * 0.5 + x
    y = y.tanh() - 0.25
    if k % 20 == 19:
        z = (y * 3).sum()
        keep(z / 2)
keep(y)
"""

ALTERNATING = """
a, b = gt.ones(4), gt.ones(3, 3)
for k in range(60):
    if k % 2:
        a = (a * 1.01).sqrt() + 0.5
        a = a - a.mean()
    else:
        b = (b @ b).tanh() + 0.1
        b = b / b.sum()
keep(a, b)
"""

SMALLER_BATCH = """
data, w = gt.randn(50, 8), gt.randn(8, 4)
for epoch in range(12):
    for start in range(0, 50, 16):
        part = data[start:start + 16]
        out = (part @ w).relu() * 2 + 1
        out = out - out.mean(0)
    keep(out)
"""

IN_PLACE = """
cache, m = gt.zeros(4, 32), gt.zeros(6)
for k in range(32):
    cache[:, k].copy_(gt.full((4,), float(k)) * 2)
    m.mul_(0.5).add_(k)
    m[1:3] += 1
keep(cache, m)
"""

SHARED = """
x = gt.ones(6)
view = x[2:4]
old = []
for k in range(40):
    x = x * 1.5 - 0.5
    old.append(x)
    x = x + 0.25
    old = old[-3:]
keep(view, x, *old)
"""

BOOLS = """
x = gt.arange(20) - 10
for k in range(40):
    even = x % 2 == 0
    y = gt.where(even & (x > k - 20), x * 3, -x)
    s = y.sum() + even.sum()
keep(y, s)
"""

SYNCED = """
w = gt.zeros(3)
for k in range(40):
    w = w + 1
    v = w * w
    v = v.sqrt() + 0.5
    keep(v.sum())
"""


LAYERS = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)
    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))
model = nn.Sequential(*(Block() for _ in range(12)), nn.Linear(16, 4))
optimizer = gt.optim.AdamW(model.parameters(), lr=1e-3)
x, y = gt.randn(8, 16), gt.randint(0, 4, (8,))
runs = []
for k in range(40):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if k >= 20:
        keep(loss)
        runs.append(next(iter(gt.debug.get_worker_stats(wait=True).values()))["hotpath"]["runs"])
steps = [b - a for a, b in zip(runs, runs[1:])]
assert not runs[-1] or steps[-10:] == [1] * 10, steps
"""


def test_a_step_of_equal_layers_becomes_one_path():
    """The layers are loops themselves, and found first."""
    check(LAYERS, least=0.5, exact=False, GT_HOTPATH_MIN_SEQ="5")



ZERO_GRAD_LAST = """
parameters = [gt.randn(20000).requires_grad_() for _ in range(32)]
x = gt.randn(20000)
optimizer = gt.optim.SGD(parameters, lr=0.1)
for _ in range(60):
    h = x
    for k, p in enumerate(parameters):
        h = (h * p).tanh() if k % 3 else (h + p).sin()
    h.sum().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
keep(*(p[:20] for p in parameters))
path = max(gt.debug.get_hot_paths(), key=lambda path: path["instructions"], default=None)
assert not path or path["instructions"] - path["intermediates"] == 32, path
"""


def test_gradients_do_not_outlive_a_step():
    """The path begins where the step does, although the last updates, which are no whole path, are followed by zero_grad()."""
    check(ZERO_GRAD_LAST, least=0.5, exact=False, GT_HOTPATH_THRESHOLD="10", GT_HOTPATH_MIN_SEQ="5")


@pytest.mark.parametrize("program", [ELEMENTWISE, CARRIED, CHANGING_LITERALS, DROPOUT, KEPT, DETOURS, ALTERNATING, SMALLER_BATCH, IN_PLACE,
                                     SHARED, BOOLS, SYNCED],
                         ids=["elementwise", "carried", "literals", "dropout", "kept", "detours", "alternating", "smaller_batch", "in_place",
                              "shared", "bools", "synced"])
def test_results_are_the_same(program):
    exact = program not in (ALTERNATING, SMALLER_BATCH, KEPT, DETOURS, BOOLS)
    check(program, least=0.1 if program in (KEPT, SMALLER_BATCH, IN_PLACE) else 0.3, exact=exact)


TRAINING = """
x, y = gt.randn(32, 20), gt.randint(0, 5, (32,))
model = nn.Sequential(nn.Linear(20, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 5))
optimizer = gt.optim.{optimizer}(model.parameters(), lr=0.05)
schedule = gt.optim.lr_scheduler.StepLR(optimizer, 10)
for k in range(60):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    if k % 10 == 9:
        keep(loss)
        with gt.no_grad():
            keep(model(x[:7]).argmax(1))
keep(*model.parameters())
"""


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW", "RMSprop"])
def test_training_is_the_same(optimizer):
    check(TRAINING.format(optimizer=optimizer), least=0.5, exact=False)


@pytest.mark.parametrize("backend", ["reference", "late"])
def test_engines_without_a_compiler_of_their_own_agree(backend):
    if backend == "late":
        folder = os.path.join(os.path.dirname(__file__), "..", "..", "build", "tests", "plugins")
        check(TRAINING.format(optimizer="SGD"), least=0.5, exact=False, GT_BACKEND="late", GT_ENGINE_PATH=os.path.abspath(folder))
    else:
        check(ELEMENTWISE, GT_BACKEND="reference")


def test_a_failure_names_its_line():
    program = """
table, index = gt.randn(10, 4), gt.arange(3)
def loop(index):
    for k in range(30):
        picked = table[index]
        out = (picked * 2).sum() + 1
    return out
loop(index)
bad = (index + gt.tensor(100)) * 1
try:
    out = loop(bad)
    keep(out)
    results.append("no error")
except IndexError as error:
    results.append("table[index]" in str(error) or "<string>" in str(error) or "out of" in str(error))
keep(loop(index))
"""
    hot, hotpath, _ = run(program, **HOT)
    cold, _, _ = run(program, GT_AUTO_COMPILE="0")
    assert hot == cold and hot[0] is True
    assert hotpath["hot_instructions"]


def test_tensors_are_freed():
    program = """
x = gt.randn(50, 50)
def loop(count):
    for k in range(count):
        y = gt.relu(x * 2 + k) * x
        z = y.sum()
    gt.cuda.synchronize()
    clients = gt.debug.memory(wait=True)["clients"]
    return [client["tensors"] for client in clients.values()], [worker["tensors"] for worker in gt.debug.memory(wait=True)["workers"].values()]
results.append(loop(50))
results.append(loop(500))
results.append(loop(50))
"""
    hot, hotpath, _ = run(program, **HOT)
    assert hotpath["runs"] > 10
    assert hot[0] == hot[1] == hot[2]


def test_the_log_shows_every_instruction(tmp_path):
    def lines(name, **variables):
        path = tmp_path / name
        run(ELEMENTWISE, GT_INSTRUCTION_LOG=str(path), **variables)
        return sum(" RECV " in line and " op=relu " in line for line in path.read_text().splitlines())
    cold = lines("cold", GT_AUTO_COMPILE="0")
    assert lines("hot", **HOT) == cold >= 50


def test_the_worker_runs_paths_while_they_are_logged_and_the_timeline_shows_them(tmp_path):
    log, picture = tmp_path / "log", tmp_path / "timeline.json"
    run(ELEMENTWISE, GT_INSTRUCTION_LOG=str(log), **HOT)
    runs = [line for line in log.read_text().splitlines() if "WorkerRunPath" in line and "WORKER_RECV" in line]
    assert len(runs) > 5 and all("success=True path=1_0" in line and "duration=" in line for line in runs)
    drawn = subprocess.run([sys.executable, "-m", "gt.scripts.visualize", str(log), "-o", str(picture), "--format", "chrome"],
                           check=True, timeout=60, capture_output=True, text=True)
    assert not drawn.stderr  # every line is one of a log, also those after an answer that no record asked for
    bars = [event for event in json.loads(picture.read_text())["traceEvents"]
            if event["ph"] == "X" and event["cat"] != "message"]
    assert sum(bar["name"].startswith("mul,add,relu,mul") for bar in bars) == len(runs)


def test_a_tape_of_paths_replays_record_by_record(tmp_path):
    def records(name, **variables):
        tape = tmp_path / name
        run(ELEMENTWISE, GT_TAPE=str(tape), **variables)
        done = subprocess.run(["build/gt", "replay", str(tape)], cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return int(done.stdout.split()[1])  # with frees: six tensors to a record, and some less at the end of a run
    hot, cold = records("hot", **HOT), records("cold", GT_AUTO_COMPILE="0")
    assert 200 < cold <= hot < 1.2 * cold


LATE = """
x, kept = gt.randn(40, 5), []
for k in range(90):
    y = gt.relu(x * 2 + 1)
    z = y * x
    x = z - x * 0.5
    if k % 10 == 3:
        kept.append(y if k % 20 == 3 else z)
    if k % 7 == 2:
        results.append(x.sum().item())
    y = z = None
keep(x, *kept)
"""


def test_what_dies_after_the_last_instruction_is_not_stored():
    """Python frees the operands of a statement's last operation after it was issued."""
    (paths,), _, _ = run("x = gt.randn(50, 50)\nfor k in range(200):\n    x = gt.relu(x * 2 + 1) * x\n"
                         "results.append([(p['instructions'], p['intermediates']) for p in gt.debug.get_hot_paths()])", **HOT)
    assert paths and all(intermediates == instructions - 1 for instructions, intermediates in paths)


def test_values_kept_and_read_now_and_then():
    check(LATE, least=0.2)


def test_what_is_found_is_reported():
    _, hotpath, text = run(ELEMENTWISE, GT_DEBUG_COMPILE="1", **HOT)
    assert "[HotPath] Stream-based hot path detection enabled" in text
    assert "[HotPath] Detected hot sequence after 3 reps: Stream(" in text
    assert "binary:mul:in2 -> binary:add:in2 -> unary:relu:in1" in text
    assert hotpath["hot_threshold"] == 3 and hotpath["min_sequence_length"] == 2 and hotpath["runs"] > 0


def test_paths_are_shown_by_line_and_by_what_runs_as_one():
    program = ELEMENTWISE + """
import contextlib, io
results.append(gt.debug.get_hot_paths(wait=True))
with contextlib.redirect_stdout(io.StringIO()) as text:
    gt.debug.print_hot_paths(wait=True)
results.append(text.getvalue())
"""
    (_, paths, text), hotpath, _ = run(program, **HOT)
    assert [op for op, _ in paths[0]["steps"]][:4] == ["mul", "add", "relu", "mul"]
    assert paths[0]["runs"] > 0 and paths[0]["inputs"] == 1
    assert sorted(step for group in paths[0]["groups"] for step in group) == list(range(paths[0]["instructions"]))
    assert [0, 1, 2, 3] == paths[0]["groups"][0][:4] and paths[0]["compile_seconds"] > 0
    assert "<string>:12: mul -> add -> relu -> mul" in text and "run as one: mul+add+relu+mul" in text
    assert hotpath["hits"] == hotpath["worker_runs"] == hotpath["runs"] and hotpath["fallbacks"] == 0
    assert hotpath["plans"] >= hotpath["compiled"] > 0 and hotpath["compile_seconds"] > 0


def test_lines_that_repeat_are_shown_once():
    program = """
import contextlib, io
x = gt.ones(8, 8)
for k in range(400):
    y = x * 1.01
    x = y.tanh()
    if k % 10 == 9:
        results.append(x.sum().item())
with contextlib.redirect_stdout(io.StringIO()) as text:
    gt.debug.print_hot_paths(wait=True)
results.append(text.getvalue())
"""
    results, _, _ = run(program, **HOT)
    lines = results[-1].splitlines()
    at = next(k for k, line in enumerate(lines) if line == "  10 times:")
    assert [line.split(": ")[1] for line in lines[at + 1:at + 3]] == ["mul", "tanh"] and len(lines) < 12


def test_paths_in_a_scope_without_shards_run_as_one():
    """A signal that places nothing, such as one for a timeline, changes nothing of how a path runs."""
    program = """
x = gt.randn(100, 33)
for k in range(50):
    with gt.signal.context("layer"):
        y = gt.relu(x * 2 + 1) * x
keep(y)
results.append(gt.debug.get_hot_paths(wait=True))
"""
    (_, paths), hotpath, _ = run(program, workers=2, **HOT)
    assert [0, 1, 2, 3] == paths[0]["groups"][0][:4] and paths[0]["compile_seconds"] > 0
    assert hotpath["hits"] == hotpath["worker_runs"] == hotpath["runs"] > 0 and hotpath["fallbacks"] == 0


def test_a_wait_after_the_first_turns_does_not_keep_paths_short():
    """One operation again and again is unrolled as far as it went on without a wait, also if it was waited for early."""
    program = """
a, b = gt.randn(8, 8), gt.randn(8, 8)
for count in (2, 3000):
    for k in range(count):
        c = a + b
    gt.synchronize()
keep(c)
results.append(gt.debug.get_hot_paths(wait=True)[0]["instructions"])
"""
    (_, instructions), hotpath, _ = run(program, GT_AUTO_COMPILE="1")
    assert instructions >= 3 * hotpath["min_sequence_length"]


def test_counts_and_bytes_by_op_include_paths():
    """Bytes of instructions that run alone are sampled."""
    program = ELEMENTWISE + "results.append(next(iter(gt.debug.get_worker_stats(wait=True).values()))['ops']['relu'])"
    hot, cold = (run(program, **settings)[0][-1] for settings in (HOT, {"GT_AUTO_COMPILE": "0"}))
    assert hot["count"] == cold["count"] == 50
    assert 0.7 < hot["bytes"] / (50 * 100 * 33 * 4) < 1.4, hot


def test_waiting_every_few_steps_is_not_a_miss():
    program = """
h, x = gt.zeros(8), gt.randn(8)
for k in range(200):
    a = (x * 2 + h).tanh()
    b = a * a + x
    h = (b - a) * 0.5
    if k % 10 == 9:
        results.append(h.sum().item())
"""
    hot, hotpath, _ = run(program, **HOT)
    assert hot == run(program, GT_AUTO_COMPILE="0")[0]
    assert hotpath["hot_instructions"] > 0.8 * hotpath["total_instructions"] and hotpath["misses"] < 6, hotpath


COMPILED = """
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
x, y = gt.randn(32, 6), gt.arange(32) % 3
{mark}
for k in range(20):
    loss = step(k)
    if k % 4 == 0:
        keep(loss)
keep(*model.parameters())
"""

STEP = """
optimizer = gt.optim.AdamW(model.parameters(), lr=0.05)
{decorator}
def step(k):
    batch = slice(k % 4 * 8, k % 4 * 8 + 8)
    loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss
"""


@pytest.mark.parametrize("decorator", ["@gt.compile", "@gt.compile(mode='max-autotune', fullgraph=True, dynamic=False)"])
def test_a_compiled_function_is_a_path_from_its_third_call_on(decorator):
    compiled, plain = (COMPILED.format(mark=STEP.format(decorator=each)) for each in (decorator, ""))
    cold, off, _ = run(plain, GT_AUTO_COMPILE="0")
    hot, hotpath, _ = run(compiled, GT_AUTO_COMPILE="0")
    assert not off["enabled"] and hotpath["runs"] >= 16, hotpath
    for a, b in zip(hot, cold, strict=True):
        numpy.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)
    assert hotpath["hot_instructions"] > 0.7 * hotpath["total_instructions"], hotpath


def test_a_compiled_module_is_a_path_and_its_copies_are_not_compiled():
    program = """
import copy, pickle
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
x = gt.randn(4, 6)
expected = model(x)
assert gt.compile(model) is model and gt.compile(model, disable=True) is model
twin, thawed = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
for each in (model, twin, thawed):
    assert each(x).shape == (4, 3)
for k in range(10):
    for each in (model, twin, thawed):
        results.append(bool((each(x) == expected).all().item()))
"""
    values, hotpath, _ = run(program, GT_AUTO_COMPILE="0")
    assert all(values) and hotpath["runs"] >= 8 and hotpath["hot_sequences"] >= 1, hotpath


def test_a_compiled_function_may_change_fail_and_call_others():
    program = """
@gt.compile
def inner(a):
    return (a * 2).relu() + 1

@gt.compile
def outer(a, k):
    b = inner(a) - inner(-a)
    if k % 5 == 4:
        b = b.exp()
    if k == 13:
        raise ValueError("thirteen")
    return b.sum()

a = gt.arange(-4.0, 4.0)
for k in range(30):
    try:
        keep(outer(a, k), inner(a))
    except ValueError as error:
        results.append(str(error))
"""
    hot, hotpath, _ = run(program, GT_AUTO_COMPILE="0")
    assert hot == run(program.replace("@gt.compile", ""), GT_AUTO_COMPILE="0")[0] and "thirteen" in hot
    assert hotpath["runs"] > 20, hotpath


def test_values_that_a_compiled_function_keeps_to_itself_are_intermediates():
    program = """
@gt.compile
def f(x):
    own = x * 2
    other = own + x
    return (other - own).sum()
x = gt.arange(6.0)
for k in range(10):
    keep(f(x))
results.append(gt.debug.get_hot_paths()[0]["intermediates"])
"""
    hot, _, _ = run(program, GT_AUTO_COMPILE="0")
    assert hot[-1] == 3 and hot[0] == hot[9]


def test_a_scope_with_compile_is_a_path():
    program = """
gt.register_config("block", gt.SignalConfig(compile=True))
x = gt.randn(4, 4)
for k in range(12):
    with gt.signal.context("block"):
        y = (x * k + 1).relu()
        y = y @ x
    keep(y.sum())
"""
    hot, hotpath, _ = run(program, GT_AUTO_COMPILE="0")
    assert hotpath["runs"] == 10 and hotpath["hot_instructions"] == 40, hotpath
    assert hot == run(program.replace("compile=True", "compile=False"), GT_AUTO_COMPILE="0")[0]


def test_a_loop_that_waits_too_often_becomes_a_path_when_it_no_longer_waits():
    hotpath = check("""
x = gt.arange(6) / 5
def loop(count, waits):
    for k in range(count):
        y = (x * 2 + x).relu()
        if waits:
            keep(y)
    keep(y)
loop(100, True)
loop(200, False)
loop(20, True)
""", least=0.4, GT_HOTPATH_MIN_SEQ="5")
    assert hotpath["runs"] > 5


SHARDED = """
gt.register_config("data", gt.SignalConfig(gt.ShardConfig(0, [0, 1])))
gt.register_config("weights", gt.SignalConfig(gt.ShardConfig(None, [0, 1], True)))
with gt.signal.context("weights"):
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = gt.optim.AdamW(model.parameters(), lr=0.01)
with gt.signal.context("data"):
    x, y = gt.tensor(np.sin(np.arange(192.0, dtype=np.float32)).reshape(32, 6)), gt.tensor(np.arange(32) % 3)
for k in range(60):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if k % 10 == 9:
        keep(loss)
keep(*model.parameters())
assert x.placement == "split(axis=0, workers=[0,1])"
workers = gt.debug.get_worker_stats(wait=True)
"""


def test_a_sharded_program_runs_as_paths_on_each_worker():
    ops = SHARDED + "results.append([{name: op['count'] for name, op in worker['ops'].items()} for worker in workers.values()])"
    *cold, cold_ops = run(ops, workers=2, GT_AUTO_COMPILE="0")[0]
    (*hot, hot_ops), hotpath, _ = run(ops, workers=2, **HOT)
    for a, b in zip(hot, cold, strict=True):
        numpy.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)
    assert hotpath["runs"] > 40
    for before, after in zip(cold_ops, hot_ops, strict=True):
        assert after.pop("repeat") > 80
        for each in (before, after):
            each.pop("free"), each.pop("path", None)
        assert after == before


def test_tensors_of_a_sharded_program_are_freed():
    program = """
gt.register_config("data", gt.SignalConfig(gt.ShardConfig(0, [0, 1])))
with gt.signal.context("data"):
    x = gt.ones(8, 4)
def loop(count):
    global z
    for k in range(count):
        y = gt.relu(x * 2 + k) * x
        z = y.sum() + y.mean()
    gt.synchronize()
    return [worker["tensors"] for worker in gt.debug.memory(wait=True)["workers"].values()]
results.extend(loop(count) for count in (50, 500, 50))
keep(z)
"""
    hot, hotpath, _ = run(program, workers=2, **HOT)
    assert hotpath["runs"] > 10 and hot[0] == hot[1] == hot[2]
    assert hot[3] == run(program, workers=2, GT_AUTO_COMPILE="0")[0][3]


def test_a_failure_in_a_sharded_path_names_its_line():
    program = """
gt.register_config("data", gt.SignalConfig(gt.ShardConfig(0, [0, 1])))
with gt.signal.context("data"):
    a, good = gt.ones(8, 8), gt.full((8,), 1)
def loop(index):
    for k in range(30):
        picked = (a * 2).gather(1, index.reshape(8, 1))
        out = (picked * 3).sum() + 1
    return out
keep(loop(good))
bad = good + gt.tensor(100)
try:
    keep(loop(bad))
except (IndexError, RuntimeError) as error:
    results.append(str(error))
keep(loop(good))
"""
    hot, hotpath, _ = run(program, workers=2, **HOT)
    cold = run(program, workers=2, GT_AUTO_COMPILE="0")[0]
    assert hot == cold and len(hot) == 3 and hotpath["runs"] > 10


def test_sharded_runs_follow_what_changes_between_them():
    """Numbers, inputs that are one tensor, sums that are owed, copies that a run leaves, another signal, shapes."""
    program = """
gt.register_config("data", gt.SignalConfig(gt.ShardConfig(0, [0, 1])))
gt.register_config("one", gt.SignalConfig(gt.ShardConfig(None, [1])))
def made(rows, scope):
    with gt.signal.context(scope):
        return gt.arange(rows * 4).reshape(rows, 4) / 7
@gt.compile
def step(a, b, w, lr):
    h = (a @ w).relu() + b * lr
    with gt.signal.context("one"):
        total = h.sum(dim=0) - lr
    return w - (a.T @ h) * lr * 0.01, total
def loop(a, b, count=6):
    w = gt.ones(4, 4)
    for k in range(count):
        w, total = step(a, b, w, 0.1 * (k + 1))
        results.append(total.placement)
    keep(w, total)
a, b = made(8, "data"), made(8, "data")
loop(a, b), loop(a, a), loop(a, made(8, "one")), loop(made(9, "data"), made(9, "data"))
owed = made(64, "data").reshape(8, 8, 4).sum(dim=0)
loop(owed, b), loop(a, owed)
gt.register_config("data", gt.SignalConfig(gt.ShardConfig(0, [1, 2])))
loop(made(8, "data"), made(8, "data"))
gt.register_config("one", gt.SignalConfig(gt.ShardConfig(None, [2])))
loop(made(8, "data"), made(8, "data")), loop(a, b)
"""
    hot, hotpath, _ = run(program, workers=3)
    cold = run(program.replace("@gt.compile", ""), workers=3, GT_AUTO_COMPILE="0")[0]
    assert hotpath["worker_runs"] > 20
    for a, b in zip(hot, cold, strict=True):
        assert a == b if isinstance(a, str) else numpy.allclose(a, b, rtol=1e-5)
    assert {"single(worker=1)", "single(worker=2)"} <= {value for value in hot if isinstance(value, str)}


def test_random_sharded_programs_agree_when_they_run_again():
    program = """
import sys
sys.path.insert(0, PATH)
import sharded_programs
connections = sharded_programs.Connections()
for seed in range(30):
    results.append(sharded_programs.run(sharded_programs.Generator(seed).write(), connections, calls=6))
paths = 0
for connection in connections.open.values():
    gt._gt.use(connection)
    paths += sum(worker["hotpath"]["worker_runs"] for worker in gt.debug.get_worker_stats(wait=True).values())
assert paths > 500, paths
connections.close()
""".replace("PATH", repr(os.path.dirname(os.path.abspath(__file__))))
    assert run(program, **HOT)[0] == [None] * 30


def test_a_function_with_more_results_than_a_path_may_have():
    program = """
x = gt.ones(4)
@gt.compile
def many(x):
    return [x + float(k) for k in range(4200)]
for _ in range(5):
    made = many(x)
    results.append((made[7].tolist(), made[-1].tolist()))
"""
    assert run(program)[0] == [[[8.0] * 4, [4200.0] * 4]] * 5


def test_runs_that_fall_back_use_the_slots_there_are():
    """A path with an input that failed runs record by record; a table that grew each time would be full after 19 runs."""
    program = """
bad, good = gt.linalg.cholesky(-gt.eye(4)), gt.ones(4, 4)
@gt.compile
def compute(x):
    return ((x * 2.0) + 1.0).exp() - 1.0
for _ in range(30):
    failed = compute(bad)
    gt.ones(1).item()
try:
    failed.sum().item()
except gt.linalg.LinAlgError as error:
    results.append("positive-definite" in str(error))
keep(compute(good))
"""
    hot, hotpath, _ = run(program, **HOT)
    assert hot[0] is True and hotpath["fallbacks"] > 20
    assert hot[1:] == run(program, GT_AUTO_COMPILE="0")[0][1:]


def test_loops_that_differ_in_what_their_records_read_are_two_paths():
    hotpath = check("""
x = gt.randn(30)
for k in range(60):
    keep((x * 2 + 1).cos() - x)
for k in range(60):
    keep(x - (x * 2 + 1).cos())
""", least=0.75)
    assert hotpath["hot_sequences"] == 2


def test_a_region_ends_on_the_connection_where_it_began(programs):
    """The thread may use another one by then: here inside a compiled function that opens a connection for what follows."""
    address = f"localhost:{programs.cluster().port}"
    results, hotpath, _ = run(f"""
gt.ones(1)
@gt.compile
def opens():
    return gt.connect("{address}")
opens().disconnect()
x = gt.ones(5)
for k in range(60):
    x = (x * 0.5) + 1
keep(x)
""", XDG_RUNTIME_DIR=str(programs.runtime), **HOT)
    numpy.testing.assert_allclose(results[0], [2.0] * 5)
    assert hotpath["hot_instructions"] > 50, hotpath


def test_loops_that_keep_nothing_are_executed():
    """A path without operands and results: its run has no words."""
    _, hotpath, _ = run("""
for _ in range(300):
    gt.ones(4, 4) @ gt.ones(4, 4)
worker = next(iter(gt.debug.get_worker_stats(wait=True).values()))
assert worker["ops"]["matmul"]["count"] == 300, worker["ops"]
""", **HOT)
    assert hotpath["worker_runs"] > 0, hotpath
