"""Hot paths on the worker: inputs that share memory, and how much memory a path takes."""

import json
import os
import subprocess
import sys

import numpy

HOT = {"GT_AUTO_COMPILE": "1", "GT_HOTPATH_THRESHOLD": "3", "GT_HOTPATH_MIN_SEQ": "2"}


def run(program, **variables):
    """What the program prints last, as JSON."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GT_AUTO_C", "GT_COMPILE", "GT_HOT"))}
    done = subprocess.run([sys.executable, "-c", program], env=environment | variables, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


SLICES = """
import json, gt, numpy as np
data = gt.from_numpy(np.random.default_rng(0).standard_normal((200, 16), np.float32)) * 1
total = gt.zeros(16, 16)
kept = []
for k in range(80):
    a, b = data[k:k + 16], data[150 - k:166 - k]
    if k == 60:
        kept = [a, b]
    c = a * 2 + b
    del a
    d = gt.tanh(c @ b.T)
    del b, c
    total = total * 0.5 + d.relu() * d
    del d
print(json.dumps([total.numpy().tolist(), data.sum().item(), [x.numpy().tolist() for x in kept]]))
"""


def test_views_of_one_tensor_that_move_against_each_other():
    cold, hot = run(SLICES, GT_AUTO_COMPILE="0"), run(SLICES, **HOT)
    for a, b in zip(cold, hot, strict=True):
        numpy.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


SAVED = """
import json, gt, numpy as np
from gt import nn
gt.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8))
optimizer = gt.optim.AdamW(model.parameters(), lr=1e-3)
x, y = gt.randn(32, 64), gt.randn(32, 8)
losses = []
for k in range(60):
    loss = ((model(x) - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if k % 10 == 9:
        losses.append(loss.item())
print(json.dumps([losses, [p.detach().numpy().tolist() for p in model.parameters()]]))
"""


def test_saved_activations_and_their_views_are_given_away():
    cold, hot = run(SAVED, GT_AUTO_COMPILE="0"), run(SAVED, **HOT)
    numpy.testing.assert_allclose(cold[0], hot[0], rtol=2e-4)
    for a, b in zip(cold[1], hot[1], strict=True):
        numpy.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)



LIMITED = """
import json, gt
gt.gpu_workers(1)
x, results = gt.eye(512), []
try:
    for k in range(20):
        a = x @ x
        b = a @ x
        c = b @ a
        d = gt.cat([a, b, c])
        e = d.cumsum(0)
        del d
        f = e[:512] @ a
        g = (f + b).relu() @ c
        del a, b, c, e, f
        total = g.sum()
        del g
        if k % 10 == 9:
            whole = gt.zeros(LEFT, 512, 512)  # most of what the limit allows
            results.append(whole.sum().item())
            del whole
        results.append(total.item())
except MemoryError as error:
    results.append(str(error))
hotpath = next(iter(gt.debug.get_worker_stats(wait=True).values()))["hotpath"]
print(json.dumps([results, hotpath]))
"""


def test_a_limit_of_memory_is_the_same_with_and_without_paths():
    """A path lets go of its memory when it has run, and where there is not enough for its block its instructions run one by one."""
    for megabytes in (10, 11, 12):  # too little, enough one by one, enough
        program, limit = LIMITED.replace("LEFT", "8"), {"GT_WORKER_MEMORY": f"{megabytes}M"}
        cold, _ = run(program, GT_AUTO_COMPILE="0", **limit)
        hot, hotpath = run(program, **HOT, **limit)
        assert hot == cold, megabytes
        assert isinstance(cold[-1], str) == (megabytes == 10), cold
        assert megabytes == 10 or hotpath["runs"] > 8, hotpath
        assert (hotpath["fallbacks"] > 0) == (megabytes == 11), (megabytes, hotpath)


TRAINING = """
import json, gt
from gt import nn
gt.manual_seed(0)
model = nn.Sequential(nn.Linear(500, 500), nn.ReLU(), nn.Linear(500, 500), nn.ReLU(), nn.Linear(500, 10))
optimizer = gt.optim.AdamW(model.parameters(), lr=1e-3)
x, y = gt.randn(500, 500), gt.randint(0, 10, (500,))
losses = []
for step in range(60):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 49:      # the only one: what was held back is sent as it is
        losses.append(loss.item())
losses.append(loss.item())
path = next(iter(gt.debug.get_worker_stats(wait=True).values()))['hotpath']
print(json.dumps([losses, path['hot_instructions'], path['misses']]))
"""


def test_what_is_held_back_frees_as_it_goes():
    """A step that does not become a path after all fits into the memory that it fits into without paths."""
    limit = {"GT_WORKER_MEMORY": "18M"}  # without paths 13M are enough
    expected, _, _ = run(TRAINING, GT_AUTO_COMPILE="0", **limit)
    losses, hot, misses = run(TRAINING, **HOT, **limit)
    numpy.testing.assert_allclose(losses, expected, rtol=1e-3)
    assert hot > 1000 and misses > 0
