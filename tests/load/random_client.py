"""A client for the soak: random small programs, each checked against NumPy. soak.py forks it, and may kill it at any time.

All values are integers below 97, so that results are exact, and every tensor of the pool has one shape.
"""
import random
import time

import numpy as np

import gt

MODULUS = 97
POOL = 12  # tensors that a client holds


class WrongAnswer(Exception):
    """A result differs from NumPy's."""


class RandomClient:
    """Holds pairs of a GT tensor and the NumPy array that it must equal, and makes new ones from them."""

    def __init__(self, seed, spread=False):
        self.draw, self.spread = random.Random(seed), spread
        self.shape = self.draw.choice(((1, 1), (3, 5), (16, 16), (7, 64), (100, 30), (128, 128)))
        self.pairs, self.checks = [], 0

    # ---- the pool ----------------------------------------------------------------------------------------------

    def new(self):
        values = np.random.default_rng(self.draw.randrange(1 << 30)).integers(0, MODULUS, self.shape)
        tensor = gt.from_numpy(values)
        return gt.signal.tensor(tensor, name="rows") if self.spread else tensor, values

    def pick(self):
        while len(self.pairs) < 3:
            self.pairs.append(self.new())
        return self.draw.choice(self.pairs)

    def keep(self, tensor, values):
        self.pairs.append((tensor, values))
        while len(self.pairs) > POOL:
            del self.pairs[self.draw.randrange(len(self.pairs))]

    def equal(self, what, tensor, values):
        got = tensor.numpy()
        if got.shape != values.shape or not np.array_equal(got, values):
            raise WrongAnswer(f"{what} of shape {values.shape}: {got.ravel()[:4]}..., not {values.ravel()[:4]}...")
        self.checks += 1

    # ---- steps -------------------------------------------------------------------------------------------------

    def combine(self):
        (a, x), (b, y) = self.pick(), self.pick()
        how = self.draw.randrange(5)
        if how == 0:
            self.keep((a + b) % MODULUS, (x + y) % MODULUS)
        elif how == 1:
            self.keep((a * b) % MODULUS, (x * y) % MODULUS)
        elif how == 2:
            self.keep((a - b) % MODULUS, (x - y) % MODULUS)
        elif how == 3:
            self.keep(gt.where(a > b, a, b), np.where(x > y, x, y))
        else:
            half = self.shape[0] // 2
            self.keep(gt.cat([a[half:], b[:half]]), np.concatenate([x[half:], y[:half]]))

    def reduce(self):
        a, x = self.pick()
        axis = self.draw.randrange(2)
        what, tensor, values = self.draw.choice((
            ("sum", a.sum(axis), x.sum(axis)), ("amax", a.amax(axis), x.max(axis)), ("cumsum", a.cumsum(axis), x.cumsum(axis)),
            ("argmax", a.argmax(axis), x.argmax(axis)), ("flip", a.flip(axis), np.flip(x, axis))))
        self.equal(what, tensor, values)

    def multiply(self):
        (a, x), (b, y) = self.pick(), self.pick()
        self.equal("matmul", a.double() @ b.double().T, x.astype(float) @ y.T.astype(float))

    def write(self):
        a, x = self.pick()
        row, value = self.draw.randrange(self.shape[0]), self.draw.randrange(MODULUS)
        a, x = a.clone(), x.copy()
        a[row] = value
        x[row] = value
        a += 1
        a %= MODULUS
        self.keep(a, (x + 1) % MODULUS)

    def gradient(self):
        (a, x), (b, y) = self.pick(), self.pick()
        leaf = a.double().requires_grad_()
        (leaf * leaf * b.double()).sum().backward()
        self.equal("gradient", leaf.grad, 2.0 * x * y)

    def stream(self):
        a, x = self.pick()
        count = self.draw.choice((20, 200, 2000))
        for _ in range(count):
            a = (a + 1) % MODULUS
        self.keep(a, (x + count) % MODULUS)

    def bulk(self):
        values = np.arange(self.draw.choice((1 << 16, 1 << 18)), dtype=np.float32)
        self.equal("bulk", gt.from_numpy(values) * 2, values * 2)

    def item(self):
        a, x = self.pick()
        if a.sum().item() != x.sum():
            raise WrongAnswer(f"item: {a.sum().item()}, not {x.sum()}")
        self.checks += 1

    def look(self):
        self.equal("a kept tensor", *self.pick())

    def step(self):
        steps = {self.combine: 8, self.reduce: 3, self.multiply: 2, self.write: 3, self.gradient: 2, self.stream: 1, self.bulk: 0.2,
                 self.item: 3, self.look: 3}
        self.draw.choices(list(steps), list(steps.values()))[0]()


def run(address, seed, seconds, spread):
    """Work for so long; returns (checked results, results lost with a worker). Raises WrongAnswer, or any other error that is not a
    lost worker."""
    gt.connect(address, timeout=60)
    if spread:
        gt.register_config("rows", gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[0, 1, 2])))
    client, lost, end = RandomClient(seed, spread), 0, time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            client.step()
        except (gt.GtError, ConnectionError) as error:
            if "worker" not in str(error):
                raise
            lost += 1
            client.pairs.clear()
            time.sleep(0.1)  # its replacement is on the way
    return client.checks, lost
