"""Loops that are hard to find, at the default settings: equal layers, two loops in turn, a smaller last batch, long steps."""

import numpy
import pytest

from test_hotpath import check, run

DEFAULT = {"GT_AUTO_COMPILE": "1", "GT_HOTPATH_THRESHOLD": "10", "GT_HOTPATH_MIN_SEQ": "5"}

COUNT = """
def counts():
    hotpath = next(iter(gt.debug.get_worker_stats(wait=True).values()))["hotpath"]
    return {name: hotpath[name] for name in ("runs", "misses", "hot_instructions", "total_instructions")}
def since(before):
    return {name: value - before[name] for name, value in counts().items()}
"""

BLOCKS = COUNT + """
class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.a, self.b, self.n = nn.Linear(d, d), nn.Linear(d, d), nn.LayerNorm(d)
    def forward(self, x):
        return x + self.b(nn.functional.gelu(self.a(self.n(x))))
model = nn.Sequential(nn.Embedding(50, 16), *[Block(16) for _ in range(6)], nn.LayerNorm(16), nn.Linear(16, 50))
x = gt.randint(0, 50, (8,))
optimizer = gt.optim.AdamW(model.parameters(), lr=1e-3)
for k in range(40):
    if k == 30:
        before = counts()
    loss = (model(x) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    results.append(loss.item())
last = since(before)
if last["total_instructions"]:
    assert last["hot_instructions"] == last["total_instructions"] and last["runs"] == 10 and last["misses"] == 0, last
"""


def test_a_step_that_is_waited_for_becomes_one_path():
    """The updates of its optimizer are found first, as they repeat in the very first step."""
    check(BLOCKS, exact=False, **DEFAULT)


ALTERNATING = COUNT + """
def trainer(activation, optimizer):
    model = nn.Sequential(nn.Linear(6, 8), activation, nn.Linear(8, 3))
    return model, optimizer(model.parameters(), lr=0.01)
x, y = gt.randn(16, 6), gt.arange(16) % 3
models = trainer(nn.ReLU(), gt.optim.AdamW), trainer(nn.Tanh(), gt.optim.SGD)
def one(model, optimizer):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
for k in range(100):
    if k == 60:
        before = counts()
    one(*models[k // 2 % 2])
last = since(before)
if last["total_instructions"]:
    assert last["hot_instructions"] > 0.8 * last["total_instructions"], last
keep(*models[0][0].parameters(), *models[1][0].parameters())
"""


def test_two_loops_that_take_turns():
    check(ALTERNATING, exact=False, **DEFAULT)


LAST_BATCH = COUNT + """
from gt.utils.data import DataLoader, TensorDataset
model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = gt.optim.AdamW(model.parameters(), lr=1e-3)
loader = DataLoader(TensorDataset(gt.randn(83, 6), gt.arange(83) % 3), batch_size=8, shuffle=True)
for epoch in range(12):
    if epoch == 6:
        before = counts()
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
last = since(before)
if last["total_instructions"]:
    assert last["misses"] == 0 and last["runs"] == 66, last
keep(*model.parameters())
"""


def test_a_smaller_last_batch_is_a_path_of_its_own():
    """Every epoch has 11 batches: when the loop is found, it has just had the small one."""
    check(LAST_BATCH, exact=False, **DEFAULT)


LAST_SLICE = COUNT + """
model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
optimizer = gt.optim.AdamW(model.parameters(), lr=1e-3)
x, y = gt.randn(83, 6), gt.arange(83) % 3
for epoch in range(16):
    if epoch == 8:
        before = counts()
    for first in range(0, 83, 8):
        loss = nn.functional.cross_entropy(model(x[first:first + 8]), y[first:first + 8])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if READ == "step" or READ == "epoch" and first + 8 >= 83:
            results.append(loss.item())
last = since(before)
if last["total_instructions"]:
    waits = READ == "never"  # the path that counts() waits in
    assert last["misses"] <= waits and last["runs"] >= 88 - waits, last
keep(*model.parameters())
"""


@pytest.mark.parametrize("read", ["never", "step", "epoch"])
def test_a_smaller_last_slice_is_a_path_of_its_own(read):
    """Where the path begins depends on the reads: the small batch differs from it in two places, or in its first record."""
    check(f"READ = {read!r}" + LAST_SLICE, exact=False, **DEFAULT)


LONG = COUNT + """
kinds = [k ** 3 * 2654435761 % 2 ** 32 >> 20 for k in range(COUNT)]
kinds = [kind % 3 for kind in kinds]
values = [gt.full((2,), float(k)) for k in range(COUNT)]
for turn in range(40):
    if turn == 30:
        before = counts()
    changes = turn / 64
    values = [v * changes if kind == 0 else v + changes if kind == 1 else v - changes for v, kind in zip(values, kinds)]
    results.append(values[7].sum().item())
last = since(before)
if last["total_instructions"]:
    assert last["hot_instructions"] > 0.99 * last["total_instructions"] and last["misses"] == 0, last
    assert last["runs"] <= 10 * RUNS, last
keep(*values[::100])
"""


def test_a_step_of_thousands_of_instructions_is_one_path():
    check(LONG.replace("COUNT", "1300").replace("RUNS", "1"), **DEFAULT)


def test_a_step_with_too_many_tensors_for_one_path_is_divided():
    """Each of its values is an input and an output, and has a number that is another in each turn."""
    check(LONG.replace("COUNT", "2000").replace("RUNS", "4"), **DEFAULT)


EVALUATION = COUNT + """
x, h = gt.randn(4, 8), gt.zeros(4, 8)
weights = [gt.randn(8, 8) for _ in range(24)]
def step(h):
    for k, w in enumerate(weights):
        h = (h @ w + x).tanh() if k * k % 7 % 2 else (h - x @ w).sigmoid()
    return h
for epoch in range(40):
    if epoch == 25:
        before = counts()
    for _ in range(20):
        h = step(h)
    seen = ((h - x) * 2).exp().log().abs().mean()
    results.append(seen.item())
last = since(before)
if last["total_instructions"]:
    assert last["hot_instructions"] > 0.95 * last["total_instructions"], last
    assert last["runs"] > 15 * 19, last
keep(h)
"""


def test_an_evaluation_now_and_then_is_a_path_beside_that_of_the_step():
    """The twenty steps between two evaluations are not made one: the worker would wait for the last."""
    check(EVALUATION, exact=False, **DEFAULT)


DETOURS = COUNT + """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 3)
    def forward(self, x):
        return self.b(self.a(x).relu())
model = Model()
optimizer = gt.optim.AdamW(model.parameters(), lr=1e-3)
x, y, test_x, test_y = gt.randn(16, 6), gt.arange(16) % 3, gt.randn(16, 6), gt.arange(16) % 3
def read(loss):
    results.append(loss.item())
def mean(loss):
    results.append((loss.detach() * 100 / 3).item())
def evaluate(loss):
    with gt.no_grad():
        results.append((model(test_x).argmax(1) == test_y).float().mean().item())
for k in range(60):
    if k == 30:
        before = counts()
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if k % EVERY == EVERY - 1:
        DETOUR(loss)
last = since(before)
if last["total_instructions"]:
    assert last["hot_instructions"] > 0.8 * last["total_instructions"], last
keep(*model.parameters())
"""


@pytest.mark.parametrize("detour", ["read", "mean", "evaluate"])
@pytest.mark.parametrize("every", [7, 10])
def test_a_detour_every_few_steps_does_not_hide_the_step(detour, every):
    """The loop from detour to detour comes again too, but is found ten times later."""
    program = DETOURS.replace("EVERY", str(every)).replace("DETOUR", detour)
    check(program, exact=False, **DEFAULT)


AT_RANDOM = COUNT + """
import random
order = random.Random(7)
x, y = gt.randn(8, 8), gt.randn(8, 8)
h = x
def body(h, which):
    if which == 0:
        return ((h * 0.5 + x).tanh() - y * 0.25).relu() + x * 0.1
    if which == 1:
        return ((h - y).sigmoid() * x + y).abs().sqrt()
    if which == 2:
        return (h + x).tanh() + y * h - x
    return (h.exp().log1p() - h.sin() * 0.5).clamp(-2, 2) + y
for k in range(900):
    if k == 700:
        before = counts()
    h = body(h, order.randrange(BODIES))
last = since(before)
if last["total_instructions"]:
    assert last["hot_instructions"] > 0.9 * last["total_instructions"] and last["misses"] <= 2, last
keep(h)
"""


@pytest.mark.parametrize("bodies", [2, 3, 4])
def test_bodies_in_random_order_are_a_path_each(bodies):
    check(AT_RANDOM.replace("BODIES", str(bodies)), **DEFAULT)


ON_ONE_LINE = COUNT + """
import random
order = random.Random(7)
x, y = gt.randn(8, 8), gt.randn(8, 8)
for k in range(900):
    if k == 700:
        before = counts()
    which = order.randrange(3)
    if which == 0:
        a = x * 0.25; b = x + x; c = y.relu(); d = b - x; e = d * 0.5; f = d - e; g = d - c; x = (g + 0.5).tanh()
    elif which == 1:
        a = x * 0.5; b = y + 0.5; c = b + a; d = c.tanh(); e = c - d; f = c * 0.25; g = e + 0.5; y = e.relu()
    else:
        a = y * 0.25; b = y * 0.5; c = a - b; d = a * 0.5; e = b + x; f = d * 0.5; g = f.tanh(); h = g.tanh(); y = e * 0.5
last = since(before)
if last["total_instructions"]:
    assert last["hot_instructions"] > 0.9 * last["total_instructions"] and last["misses"] <= 2, last
keep(x, y)
"""


def test_statements_on_one_line_are_told_apart():
    """By line and op alone, the begin of a body could not be told from its middle."""
    check(ON_ONE_LINE, **DEFAULT)


FUNCTIONS_IN_COMMON = COUNT + """
import random
order = random.Random(1)
x, y = gt.ones(8, 8), gt.ones(8, 8) * 0.5
def half(t): return t * 0.5
def less(a, b): return a - b
def body(which):
    global x, y
    if which == 0:
        x = half(half(x + y) - x) + y
    elif which == 1:
        y = (half(x.tanh()) - y + x).relu().tanh()
    elif which == 2:
        x = half((x * y + 0.5).relu() * 0.25 + y)
    else:
        y = half(less(half(half(less(y, x)).exp()), x))
for k in range(1500):
    if k == 1200:
        before = counts()
    body(order.randrange(4))
last = since(before)
if last["total_instructions"]:
    assert last["hot_instructions"] > 0.9 * last["total_instructions"] and last["misses"] <= 10, last
keep(x, y)
"""


def test_bodies_with_functions_in_common():
    """The operations of these come several times in a body, and in other ones."""
    check(FUNCTIONS_IN_COMMON, **DEFAULT)


TRAINED_AT_RANDOM = COUNT + """
import random
order = random.Random(3)
x, y = gt.randn(16, 6), gt.arange(16) % 3
def trainer(activation, optimizer, **options):
    model = nn.Sequential(nn.Linear(6, 8), activation, nn.Linear(8, 3))
    return model, optimizer(model.parameters(), lr=0.01, **options)
models = trainer(nn.ReLU(), gt.optim.SGD), trainer(nn.Tanh(), gt.optim.AdamW), trainer(nn.GELU(), gt.optim.SGD, momentum=0.9)
for k in range(400):
    if k == 300:
        before = counts()
    model, optimizer = models[order.randrange(3)]
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
last = since(before)
if last["total_instructions"]:
    assert last["hot_instructions"] > 0.8 * last["total_instructions"] and last["misses"] <= 10, last
for model, _ in models:
    keep(*model.parameters())
"""


def test_models_that_are_trained_in_random_order():
    """The first layer is the same for all of them, so where a step begins cannot be seen; and a model may follow itself or not."""
    check(TRAINED_AT_RANDOM, exact=False, **DEFAULT)


MARKED = """
marked = MARKED
encoder = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16))
decoder = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4))
optimizer = gt.optim.AdamW([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
x, y = gt.randn(16, 8), gt.randn(16, 4)
for part in (encoder, decoder)[:marked]:
    gt.compile(part)
for step in range(100):
    hidden = encoder(x)
    noise = gt.zeros(16, 16) + 0.1
    for _ in range(3):
        hidden = hidden * (noise + 1.0) - noise * 0.5
    loss = nn.functional.mse_loss(decoder(hidden), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    results.append(loss)
results = [loss.item() for loss in results]
"""


@pytest.mark.parametrize("marked", [1, 2])
def test_what_is_around_marked_modules_becomes_paths_too(marked):
    """What is learned before a region and behind it, in one turn of the loop or in several."""
    cold, _, _ = run(MARKED.replace("MARKED", "0"), GT_AUTO_COMPILE="0")
    hot, hotpath, _ = run(MARKED.replace("MARKED", str(marked)), **DEFAULT)
    numpy.testing.assert_allclose(hot, cold, rtol=2e-4, atol=1e-5)
    assert hotpath["hot_instructions"] > 0.75 * hotpath["total_instructions"], hotpath
