"""Training spread over workers: an MLP and the character-level GPT of the examples, by every strategy, with the losses of one
worker. The strategies are written as a user would: signals around code, and copies of parameters placed by signals."""

import contextlib
import importlib.util

import numpy as np
import pytest

import gt
from gt import _gt, nn
from gt.nn import functional as F
from support import REPOSITORY

STEPS = 6
CONFIG = {
    "data": (0, [0, 1, 2, 3], False),
    "columns": (0, [0, 1], False),  # of the weight, which is (out, in)
    "rows": (1, [0, 1], False),
    "stage_0": (None, [0], False),
    "stage_1": (None, [1], False),
    "pair_0": (0, [0, 1], False),
    "pair_1": (0, [3, 2], False),
    "copies": (None, [0, 1, 2, 3], True),
    "late_columns": (0, [2, 3], False),
    "late_rows": (1, [2, 3], False),
}


def gpt_example():
    spec = importlib.util.spec_from_file_location("char_gpt", REPOSITORY / "examples" / "char_gpt.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CHAR_GPT = gpt_example()


@contextlib.contextmanager
def workers(count):
    for name, (axis, chosen, replicated) in CONFIG.items():
        shard = gt.ShardConfig(axis, chosen, replicated) if count > 1 else None
        gt.register_config(name, gt.SignalConfig(shard))
    connection = _gt.open_embedded(count)
    _gt.use(connection)
    try:
        yield
    finally:
        _gt.use(None)
        connection.close()


def place(parameter, name):
    parameter.data = gt.signal.tensor(parameter.data, name=name)


def gathered():
    return sum(worker["gathers"] for worker in gt.debug.get_worker_stats(wait=True).values())


# ---- MLP --------------------------------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
IMAGES, LABELS = RNG.standard_normal((50, 24)).astype(np.float32), RNG.integers(0, 10, 50)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(24, 40), nn.Linear(40, 40), nn.Linear(40, 10)])

    def forward(self, x, scopes):
        for k, layer in enumerate(self.layers):
            with gt.signal.context(scopes[k]) if scopes[k] else contextlib.nullcontext():
                x = layer(x) if k == 2 else layer(x).relu()
        return x


def train_mlp(count, around=None, scopes=(None, None, None), placed=()):
    """Losses, and the model's statistics. around: the scope of the data and the loss; placed: (layer, signal of the weight,
    signal of the bias)."""
    with workers(count):
        gt.manual_seed(3)
        model = Mlp()
        for layer, weight, bias in placed:
            place(model.layers[layer].weight, weight)
            if bias:
                place(model.layers[layer].bias, bias)
        optimizer = gt.optim.AdamW(model.parameters(), lr=1e-2)
        losses = []
        for _ in range(STEPS):
            with gt.signal.context(around) if around else contextlib.nullcontext():
                x, y = gt.tensor(IMAGES), gt.tensor(LABELS)
                loss = F.cross_entropy(model(x, scopes), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        places = [parameter.placement for parameter in model.parameters()]
        return losses, places, gathered()


@pytest.fixture(scope="module")
def mlp_on_one():
    return train_mlp(1)[0]


def test_mlp_data_parallel_on_4(mlp_on_one):
    losses, places, gathers = train_mlp(4, around="data")
    np.testing.assert_allclose(losses, mlp_on_one, rtol=1e-5)
    assert set(places) == {"replicated(workers=[0,1,2,3])"}  # every worker updates its copy, after one all-reduce each
    assert gathers == 0


def test_mlp_column_and_row_parallel_on_2(mlp_on_one):
    losses, places, gathers = train_mlp(2, placed=[(0, "columns", "columns"), (1, "rows", None)])
    np.testing.assert_allclose(losses, mlp_on_one, rtol=1e-5)
    assert places[0] == places[1] == "split(axis=0, workers=[0,1])"
    assert places[2] == "split(axis=1, workers=[0,1])"
    assert gathers == 0


def test_mlp_pipelined_on_2(mlp_on_one):
    losses, places, _ = train_mlp(2, around="stage_1", scopes=("stage_0", "stage_1", "stage_1"))
    np.testing.assert_allclose(losses, mlp_on_one, rtol=1e-6)


def test_mlp_hybrid_on_4(mlp_on_one):
    """A data-parallel pair, then a pair of workers that shares the columns and rows of the next two layers."""
    losses, places, _ = train_mlp(4, scopes=("pair_0", None, None),
                                  placed=[(1, "late_columns", "late_columns"), (2, "late_rows", None)])
    np.testing.assert_allclose(losses, mlp_on_one, rtol=1e-5)
    assert places[2] == "split(axis=0, workers=[2,3])"
    assert places[4] == "split(axis=1, workers=[2,3])"


# ---- GPT --------------------------------------------------------------------------------------------------------

CONTEXT = 12
TEXT = RNG.integers(0, 20, 400)


def train_gpt(count, around=None, stages=None, placed=()):
    """stages: (first, second), around each block; placed: (signal for what is up, for what is down) of every block."""
    with workers(count):
        gt.manual_seed(5)
        model = CHAR_GPT.Gpt(20, CONTEXT, width=32, heads=4, depth=2)
        for up, down in placed:
            for block in model.blocks:
                place(block.up.weight, up)
                place(block.up.bias, up)
                place(block.down.weight, down)
        if stages:
            for block, stage in zip(model.blocks, stages):
                block.forward = under(stage, block.forward)
        optimizer = gt.optim.AdamW(model.parameters(), lr=2e-3)
        losses = []
        for _, (x, y) in zip(range(STEPS), CHAR_GPT.batches(TEXT, CONTEXT, 8, seed=1)):
            with gt.signal.context(around) if around else contextlib.nullcontext():
                x, y = (gt.signal.tensor(t, name=around) if around else t for t in (x, y))
                logits = model(x)
                loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        return losses, gathered()


def under(stage, forward):
    def inside(x):
        with gt.signal.context(stage):
            return forward(x)
    return inside


@pytest.fixture(scope="module")
def gpt_on_one():
    return train_gpt(1)[0]


@pytest.mark.parametrize("count, strategy", [
    (4, dict(around="data")),
    (2, dict(placed=[("columns", "rows")])),
    (2, dict(around="stage_0", stages=("stage_0", "stage_1"))),
    (4, dict(around="pair_0", stages=("pair_0", "pair_1"))),
], ids=["data parallel on 4", "column and row parallel on 2", "pipelined on 2", "two pairs in a pipeline"])
def test_gpt(gpt_on_one, count, strategy):
    losses, gathers = train_gpt(count, **strategy)
    np.testing.assert_allclose(losses, gpt_on_one, rtol=2e-4)
    assert gathers == 0  # embeddings, attention, normalisation and their gradients: what is split stays so
