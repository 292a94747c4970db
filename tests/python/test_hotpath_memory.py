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
