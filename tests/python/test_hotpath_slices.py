"""Hot paths of loops that take another part of a tensor in each turn: where it begins is a parameter of the path."""

import numpy
import pytest

from test_hotpath import HOT, check, run
from test_hotpath_loops import COUNT, DEFAULT

BATCHES = COUNT + """
data, labels = gt.randn(64 * 16, 12), gt.arange(64 * 16) % 3
model = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = gt.optim.AdamW(model.parameters(), lr=1e-2)
for k in range(60):
    if k == 40:
        before = counts()
    i = k * 7 % 16
    x, y = data[i * 64:(i + 1) * 64], TAKE_LABELS
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
last = since(before)
if last["total_instructions"]:
    assert last["hot_instructions"] >= 0.9 * last["total_instructions"] and 18 <= last["runs"] <= 21 and last["misses"] <= 2, last
keep(*model.parameters(), loss)
"""


@pytest.mark.parametrize("labels", ["labels[i * 64:(i + 1) * 64]", "labels.narrow(0, i * 64, 64)", "labels.view(16, 64)[i]", "labels.view(16, 64).select(0, i)"])
def test_a_step_on_another_part_of_the_data_is_one_path(labels):
    hotpath = check(BATCHES.replace("TAKE_LABELS", labels), exact=False, **DEFAULT)
    assert hotpath["fallbacks"] == 0, hotpath


PARTS = [
    "x[k % 9:k % 9 + 3]",
    "x[k % 12]",
    "x[:, k % 5:k % 5 + 2]",
    "x[k % 7:k % 7 + 4:2, k % 3:k % 3 + 5]",
    "x.T[k % 6]",
    "x[k % 3:k % 3 + 8][k % 5:k % 5 + 2]",
    "(x * 2 + k)[k % 8:k % 8 + 3]",  # of a result
    "(x[k % 3:k % 3 + 8] * 2)[k % 5:k % 5 + 2]",
    "x.cumsum(0)[k % 12]",
    "x[k % 2::2]",
    "x[k % 12].expand(4, 7)",
    "x[k % 12:k % 12]",  # empty
]

READ = """
x = gt.randn(12, 7)
for k in range(50):
    part = PART
    y = (part * 2 + 1).relu() * part
    keep_later.extend([part, y])
"""

WRITTEN = """
memory, x = gt.zeros(16, 5), gt.randn(16, 5)
for k in range(60):
    memory[k % 16] = x[(k * 3) % 16] * k
    memory[k % 13:k % 13 + 2, 1:3] += 1.5
    seen = memory * 2 - memory[k % 5]
keep_later.extend([memory, seen])
table = gt.randn(16, 5, requires_grad=True)
for k in range(60):
    loss = (table[k % 13:k % 13 + 3] ** 3).sum()
    loss.backward()
    with gt.no_grad():
        table -= 0.01 * table.grad
    table.grad = None
keep_later.append(table)
"""


@pytest.mark.parametrize("engine", ["cpu", "reference", "late"])
def test_parts_are_read_kept_and_written(engine):
    """Of inputs, of results, of other parts; by work that runs as one pass, and by assignments and gradients."""
    loops = [READ.replace("PART", part) for part in PARTS] + [WRITTEN]
    program = COUNT + "keep_later = []\n" + "".join(loop + "results.append(counts()['hot_instructions'])\n" for loop in loops) + "keep(*keep_later)"
    cold, _, _ = run(program, GT_BACKEND=engine, GT_AUTO_COMPILE="0")
    hot, hotpath, _ = run(program, GT_BACKEND=engine, **HOT | DEFAULT)
    assert hot[len(loops):] == cold[len(loops):]
    in_paths = numpy.diff([0] + hot[:len(loops)])
    assert all(in_paths >= 100), in_paths
    assert hotpath["fallbacks"] == 0, hotpath


def test_a_tensor_that_dies_while_a_part_of_it_is_used():
    """Its memory must not be given away to a result."""
    check("""
x, kept = gt.randn(12, 6), []
for k in range(60):
    part = x[k % 4:k % 4 + 6]
    x = x * 0.5 + 1
    y = part.exp() + x[:6]
    kept.append(y)
keep(x, *kept)
""")


def test_tensors_of_other_sizes():
    """A path that was planned for a long tensor runs on a short one, in which other parts are possible."""
    check("""
kept = []
for rows in (40, 9, 23):
    x = gt.randn(rows, 4)
    for k in range(30):
        i = k % (rows - 3) if rows < 40 else 36 - k % 7
        kept.append((x[i:i + 3] * 2).sigmoid())
keep(*kept)
""")


SHARDED = """
gt.register_config("batch", gt.SignalConfig(gt.ShardConfig(0, [0, 1])))
values = gt.tensor(np.sin(np.arange(240.0, dtype=np.float32)).reshape(40, 6))
with gt.signal.context("batch"):
    split = values + 0
assert split.placement == "split(axis=0, workers=[0,1])"
w = gt.tensor(np.cos(np.arange(24.0, dtype=np.float32)).reshape(6, 4))
for k in range(60):
    i = k % 5
    x = DATA[i * 8:(i + 1) * 8]
    with gt.signal.context("batch"):
        y = (x * 2) @ w
    w = w + y.mean(0) * 0.01
    z = DATA[i] * 3
keep(w, z)
"""


@pytest.mark.parametrize("data", ["values", "split"])
def test_parts_of_a_sharded_program(data):
    """Which workers have a part of a sharded tensor depends on where the part begins."""
    program = SHARDED.replace("DATA", data)
    cold, _, _ = run(program, workers=2, GT_AUTO_COMPILE="0")
    hot, hotpath, _ = run(program, workers=2, **HOT)
    for a, b in zip(hot, cold, strict=True):
        numpy.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)
    assert hotpath["hot_instructions"] > 0.5 * hotpath["total_instructions"], hotpath


MOVING = """
gt.register_config("rows", gt.SignalConfig(gt.ShardConfig(0, [0, 1, 2])))
gt.register_config("columns", gt.SignalConfig(gt.ShardConfig(1, [0, 1])))
def values(shift):
    return (np.arange(108, dtype=np.float32).reshape(18, 6) * 7 + shift) % 11 - 5
with gt.signal.context(SCOPE):
    x, y = gt.tensor(values(0)) + 0, gt.tensor(values(3)) + 0
assert x.placement.startswith("split")
total = gt.zeros(2, 6)
for k in range(180):
    i, j = k * 5 % 17, k % 5
    total = (total + x[i:i + 2] - y[j]).clamp(-50, 50)
    y[i:i + 2] = total.flip(0)
    x[:, j] = y[:, j + 1] + k % 3
keep(total, x, y)
gt.synchronize()  # of a worker whose link is full the statistics would be older
stats = gt.debug.get_worker_stats(wait=True).values()
results.append(min(worker["hotpath"]["worker_runs"] for worker in stats if worker["instructions"]))
"""


def moving_by_numpy():
    x, y = ((numpy.arange(108).reshape(18, 6) * 7 + shift) % 11 - 5 for shift in (0, 3))
    total = numpy.zeros((2, 6), int)
    for k in range(180):
        i, j = k * 5 % 17, k % 5
        total = (total + x[i:i + 2] - y[j]).clip(-50, 50)
        y[i:i + 2] = total[::-1]
        x[:, j] = y[:, j + 1] + k % 3
    return total, x, y


@pytest.mark.parametrize("scope", ["rows", "columns"])
def test_slices_of_a_sharded_tensor_that_begin_elsewhere_each_time_are_part_of_paths(scope):
    """Within one part, over two parts, along the other axis; read and written."""
    *hot, worker_runs = run(MOVING.replace("SCOPE", repr(scope)), workers=3, **HOT)[0]
    for a, b in zip(hot, moving_by_numpy(), strict=True):
        numpy.testing.assert_array_equal(a, b)
    assert worker_runs > 100
