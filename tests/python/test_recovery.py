"""Workers die, and programs go on: gt server --recover. Without it, what is lost is named, and nothing hangs.

Each program says what it computed, once undisturbed and once with kills: both must say the same, to the last bit. The kills are
at steps of the program, which waits for each: a file says that it is time, another that it is done.
"""
import pytest

from support import PATIENCE_S, REPOSITORY, until

# What programs begin with. kill(n) has the test kill worker n, which starts it again; the program waits for the death, or not.
BEGIN = """
import os, pathlib, sys, time
import numpy as np
import gt
from gt import nn, optim
gt.connect(sys.argv[1])
kills = 0
def kill(worker, wait=True):
    global kills
    kills += 1
    ask = pathlib.Path(sys.argv[2])
    if not ask.exists():
        return
    (ask / f"{kills}.new").write_text(str(worker))
    (ask / f"{kills}.new").rename(ask / str(kills))
    while wait and not (ask / f"{kills}.done").exists():
        time.sleep(0.002)
def say(*values):
    print(*(v.hex() if isinstance(v, float) else v for v in values), flush=True)
"""


class Cluster:
    """A server and workers with numbers; kills workers as its program asks, and starts them again."""

    def __init__(self, programs, workers, options=("--recover",), **environment):
        self.programs = programs
        self.server = programs.server(*options, **environment)
        self.port = self.server.port
        self.workers = [self.start(index) for index in range(workers)]

    def start(self, index):
        return self.programs.worker(self.port, "--index", index, "--threads", 1)

    def run(self, source, ask, restart=True, **environment):
        process = self.programs.python(BEGIN + source, f"localhost:{self.port}", ask, **environment)
        number = 0
        while process.alive:
            wanted = ask / str(number + 1)
            until(lambda: wanted.exists() or not process.alive, "the program", 2 * PATIENCE_S)
            if not process.alive:
                break
            number += 1
            index = int(wanted.read_text())
            self.workers[index].kill()
            (ask / f"{number}.done").touch()
            if restart:
                self.workers[index] = self.start(index)
        assert process.wait() == 0, process.text()
        return process.output.read_text().splitlines(), number


def both(programs, source, workers=1, options=("--recover",), restart=True, **environment):
    """What the program says undisturbed, and on workers that die; both must be the same. Returns the lines and the kills."""
    source = source if source.startswith("\n") else "\n" + source
    ask = programs.directory / "kills"
    cluster = Cluster(programs, workers, options)
    calm, none = cluster.run(source, ask, **environment)
    ask.mkdir()
    disturbed, kills = cluster.run(source, ask, restart, **environment)
    assert calm and none == 0 and kills > 0
    assert disturbed == calm
    assert cluster.server.alive
    return calm, kills


VALUES = """
x = gt.from_numpy(np.arange(12, dtype=np.float32).reshape(3, 4))
large = gt.from_numpy(np.random.default_rng(1).standard_normal((600, 700)).astype(np.float32))   # by a shared segment
gt.manual_seed(7)
r = gt.randn(50, 40)
view = r.T[3:7]
x[1] = 5.0
total = (large @ large.T).sum()
say(total.item())
kill(0)
say(x.numpy().tolist(), view.numpy().tobytes().hex(), (r @ r.T).sum().item(), total.item())
y = gt.rand(5)
kill(0)
say(y.numpy().tobytes().hex(), large.numpy().tobytes().hex()[:400], (large * 2).sum().item())
"""


def test_values_are_the_same_when_a_worker_is_started_again(programs):
    both(programs, VALUES)


def test_another_worker_takes_over(programs):
    both(programs, VALUES.replace("kill(0)", "pass", 1), workers=2, restart=False)


MLP = """
gt.manual_seed(1)
rng = np.random.default_rng(3)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10))
optimizer = optim.AdamW(model.parameters(), lr=1e-3)
STEPS, AT = int(os.environ["STEPS"]), [int(step) for step in os.environ["AT"].split()]
for step in range(STEPS):
    if step in AT:
        kill(0)
    x = gt.from_numpy(rng.standard_normal((32, 64)).astype(np.float32))
    loss = nn.functional.cross_entropy(model(x), gt.from_numpy(rng.integers(0, 10, 32)))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 7 == 3:
        say(step, loss.item())
say(*(p.detach().numpy().tobytes().hex()[:64] for p in model.parameters()))
stats = gt.debug.dispatcher_stats()
assert stats["snapshots"] > 0 and (stats["recoveries"] > 0) == pathlib.Path(sys.argv[2]).exists(), stats
"""
SOON = ("--recover", "--recover-every", 0.01)  # snapshots, also in a short program


@pytest.mark.parametrize("hot", [True, False], ids=["hot", "eager"])
def test_an_mlp_is_trained_on_workers_that_die(programs, hot):
    options = {"STEPS": 400, "AT": "2 60 61 200 390"} if hot else {"STEPS": 120, "AT": "2 60 61 100", "GT_AUTO_COMPILE": 0}
    both(programs, MLP, options=SOON, **options)


SHARDED = """
gt.register_config("data", gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[0, 1, 2])))
while len(gt.debug.get_worker_stats()) < 3:
    pass
gt.manual_seed(1)
rng = np.random.default_rng(3)
model = nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 10))
optimizer = optim.AdamW(model.parameters(), lr=1e-3)
AT = {20: 1, 95: 0, 160: 2, 220: 1}
for step in range(250):
    if step in AT:
        kill(AT[step], wait=step % 2)
    with gt.signal.context("data"):
        x = gt.tensor(rng.standard_normal((30, 24)).astype(np.float32))
        loss = nn.functional.cross_entropy(model(x), gt.tensor(rng.integers(0, 10, 30)))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 5 == 3:
        say(step, loss.item())
say(*(p.placement for p in model.parameters()))
say(*(p.detach().numpy().tobytes().hex()[:64] for p in model.parameters()))
stats = gt.debug.dispatcher_stats()
assert stats["snapshots"] > 0, stats
"""


@pytest.mark.parametrize("hot", [True, False], ids=["hot", "eager"])
def test_data_parallel_training_on_workers_that_die(programs, hot):
    both(programs, SHARDED, workers=3, options=SOON, GT_AUTO_COMPILE=int(hot))


GPT = """
import importlib.util, random
spec = importlib.util.spec_from_file_location("char_gpt", os.environ["EXAMPLE"])
char_gpt = importlib.util.module_from_spec(spec)
spec.loader.exec_module(char_gpt)
gt.register_config("data", gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[0, 1, 2])))
while len(gt.debug.get_worker_stats()) < 3:
    pass
gt.manual_seed(5)
moments = random.Random(int(os.environ.get("SEED", "0")))
text = np.random.default_rng(0).integers(0, 20, 400)
model = char_gpt.Gpt(20, 12, width=32, heads=4, depth=2)
optimizer = optim.AdamW(model.parameters(), lr=2e-3)
STEPS, KILLS = int(os.environ["STEPS"]), int(os.environ["KILLS"])
at = {STEPS * (k + 1) // (KILLS + 1): moments.randrange(3) for k in range(KILLS)}
for step, (x, y) in zip(range(STEPS), char_gpt.batches(text, 12, 9, seed=1)):
    if step in at:
        kill(at[step], wait=False)
    with gt.signal.context("data"):
        x, y = gt.signal.tensor(x, name="data"), gt.signal.tensor(y, name="data")
        logits = model(x)
        loss = nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    say(step, loss.item())
"""


def test_a_gpt_is_trained_on_three_workers_and_each_dies_now_and_then(programs):
    both(programs, GPT, workers=3, options=SOON, EXAMPLE=REPOSITORY / "examples" / "char_gpt.py", STEPS=220, KILLS=10)
