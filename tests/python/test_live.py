"""A server changes while programs run: gt drain takes workers away, others join, and gt reload changes what signals mean.

Programs say what they computed, once undisturbed and once with changes: both must say the same, to the last bit, as long as the
number of parts stays. A program asks for a change at a step, by a file, and waits until another file says that it is done.
"""
import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

from support import GT_BINARY, HELD, PATIENCE_S, clean_environment, until

import gt

# What programs begin with. please("drain 1") has the test do that; without `wait` the program goes on meanwhile.
BEGIN = """
import pathlib, sys, time
import numpy as np
import gt
from gt import nn, optim
gt.connect(sys.argv[1])
ask, orders = pathlib.Path(sys.argv[2]), 0
def please(order, wait=True):
    global orders
    if not ask.exists():
        return
    orders += 1
    (ask / f"{orders}.new").write_text(order)
    (ask / f"{orders}.new").rename(ask / str(orders))
    while wait and not (ask / f"{orders}.done").exists():
        time.sleep(0.002)
def workers(count):
    while len(gt.debug.get_worker_stats()) != count:
        time.sleep(0.002)
def say(*values):
    print(*(v.hex() if isinstance(v, float) else v for v in values), flush=True)
"""


class Cluster:
    """A server, workers with numbers, and a config; changes them as its program asks."""

    def __init__(self, programs, workers, options=(), transport="", config=""):
        self.programs = programs
        self.transport = transport and f"{transport}://"
        self.config = programs.directory / "signals.yaml"
        self.config.write_text(config)
        self.server = programs.server("--config", self.config, *options)
        self.port = self.server.port
        self.address = f"{self.transport}localhost:{self.port}"
        self.workers = {index: self.start(index) for index in range(workers)}
        self.texts = []  # of the orders
        self.ask = programs.directory / "ask"

    def start(self, *index):
        options = ["--index", *index] if index else []
        worker = self.programs.worker(self.port, *options, "--threads", 1, host=f"{self.transport}localhost", GT_VERBOSE=1)
        until(lambda: " joined " in worker.text() or not worker.alive, "the worker")
        return worker

    def gt(self, *arguments, status=0):
        """What a gt command prints; its status must be this one."""
        done = subprocess.run([GT_BINARY, arguments[0], "-p", str(self.port), *map(str, arguments[1:])], capture_output=True, text=True,
                              timeout=4 * PATIENCE_S, env=clean_environment(self.programs.runtime))
        assert done.returncode == status, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}{self.server.text()}"
        return done.stdout if status == 0 else done.stderr

    def drain(self, index):
        text = self.gt("drain", index)
        assert self.workers[index].wait() == 0, self.workers[index].text()
        return text

    def do(self, order):
        verb, _, what = order.partition(" ")
        if verb == "drain":
            self.texts.append(self.drain(int(what)))
        elif verb == "join":
            self.workers[int(what)] = self.start(int(what))
        elif verb == "keep":
            self.texts.append(self.gt("drain", int(what), status=1))
        elif verb == "kill":
            self.workers[int(what)].kill()
        elif verb == "reload":
            self.config.write_text(what)
            self.texts.append(self.gt("reload"))
        else:
            raise AssertionError(order)

    def run(self, source, **environment):
        """The lines that the program prints, and the orders that it gave."""
        process = self.programs.python(BEGIN + source, self.address, self.ask, **environment)
        given = []
        while True:
            wanted = self.ask / str(len(given) + 1)
            until(lambda: wanted.exists() or not process.alive, "the program", 4 * PATIENCE_S)
            if not wanted.exists():
                break
            given.append(wanted.read_text())
            self.do(given[-1])
            (self.ask / f"{len(given)}.done").touch()
        assert process.wait() == 0, process.text()
        return process.output.read_text().splitlines(), given


def both(programs, source, workers=2, options=(), transport="", config="", **environment):
    """What the program says undisturbed, and with the changes that it asks for: both must be the same."""
    cluster = Cluster(programs, workers, options, transport, config)
    calm, none = cluster.run(source, **environment)
    cluster.ask.mkdir()
    disturbed, given = cluster.run(source, **environment)
    assert calm and not none and given
    assert disturbed == calm
    assert cluster.server.alive
    return cluster


# ---- programs on one worker --------------------------------------------------------------------------------------

VALUES = """
workers(2)
x = gt.from_numpy(np.arange(12, dtype=np.float32).reshape(3, 4))
large = gt.from_numpy(np.random.default_rng(1).standard_normal((600, 700)).astype(np.float32))
halves = large.to(gt.float16)
gt.manual_seed(7)
r = gt.randn(50, 40)
view = r.T[3:7]
x[1] = 5.0
mask, numbers, empty = large > 0, gt.arange(7), gt.zeros(0, 3)
total = (large @ large.T).sum()
home = int(x.placement[-2])
def tell():
    say(x.numpy().tolist(), view.numpy().tobytes().hex(), total.item(), (large @ large.T).sum().item())
    say(halves.sum().item(), mask.sum().item(), numbers.numpy().tolist(), empty.shape, large.numpy().tobytes().hex()[:400])
tell()
please(f"drain {home}")
if ask.exists():
    workers(1)
    assert x.placement == f"single(worker={1 - home})", x.placement
tell()
y = gt.rand(5) + x.sum()
say(y.numpy().tobytes().hex())
please(f"join {home}")
workers(2)
please(f"drain {1 - home}")
if ask.exists():
    assert x.placement == y.placement == f"single(worker={home})", (x.placement, y.placement)
tell()
say(y.numpy().tobytes().hex())
please(f"join {1 - home}")
"""


@pytest.mark.parametrize("transport", ["memory", "ipc", "tcp"])
def test_values_go_to_another_worker_and_back(programs, transport):
    cluster = both(programs, VALUES, transport=transport)
    assert len(cluster.texts) == 2
    for text in cluster.texts:
        _, *moved, last = text.splitlines()
        assert len(moved) == 1 and "client " in moved[0] and " tensors, " in moved[0], text
        assert "is drained: " in last and " tensors moved, " in last, text


@pytest.mark.parametrize("options", [("--recover",), ("--max-memory", "64M", "--max-queued", 100), ("--log", os.devnull)],
                         ids=["recover", "limits", "log"])
def test_values_are_moved_by_a_server_with_options(programs, options):
    both(programs, VALUES, options=options)


# ---- sharded training --------------------------------------------------------------------------------------------

# Worker 1 leaves, and a stand-in in the process of worker 0 has its part; another worker takes its number; then worker 0, which
# has tensors of its own and may be the home of the client, leaves and comes back.
SHARDED = """
workers(2)
gt.register_config("data", gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[0, 1])))
gt.register_config("columns", gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[0, 1])))
gt.manual_seed(1)
rng = np.random.default_rng(3)
model = nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 10))
model[0].weight.data = gt.signal.tensor(model[0].weight, name="columns")
optimizer = optim.AdamW(model.parameters(), lr=1e-3)
AT = {20: "drain 1", 45: "join 1", 70: "drain 0", 95: "join 0"}
for step in range(120):
    if step in AT:
        please(AT[step])
        while "join" in AT[step] and "[0,1]" not in model[0].weight.placement:
            time.sleep(0.002)
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
"""


def test_sharded_training_on_workers_behind_tcp(programs):
    both(programs, SHARDED, transport="tcp")


@pytest.mark.parametrize("options", [(), ("--recover",)], ids=["", "recover"])
@pytest.mark.parametrize("hot", [True, False], ids=["hot", "eager"])
def test_sharded_training_while_workers_leave_and_join(programs, hot, options):
    both(programs, SHARDED, options=options, GT_AUTO_COMPILE=int(hot))


# ---- which worker takes over --------------------------------------------------------------------------------------

def test_each_of_three_workers_leaves_in_turn(programs):
    """In the end, the process of worker 2 has the three parts: stand-ins move with the worker that runs them."""
    source = SHARDED.replace("workers(2)", "workers(3)").replace("[0, 1]", "[0, 1, 2]")
    source = source.replace('{20: "drain 1", 45: "join 1", 70: "drain 0", 95: "join 0"}', '{20: "drain 1", 60: "drain 0"}')
    source = source.replace("say(*(p.placement for p in model.parameters()))", "")
    cluster = both(programs, source, workers=3)
    assert [cluster.workers[k].alive for k in range(3)] == [False, False, True]


def test_a_worker_that_has_joined_takes_over(programs):
    """A worker that the program does not use takes the place of the one that leaves, at the same position."""
    source = """
workers(2)
gt.register_config("rows", gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[0, 1])))
x = gt.signal.tensor(gt.from_numpy(np.random.default_rng(2).standard_normal((40, 30))), name="rows")
please("join 2")
if ask.exists():
    workers(3)
please("drain 0")
if ask.exists():
    assert x.placement == "split(axis=0, workers=[2,1])", x.placement
with gt.signal.context("rows"):
    y = gt.tanh(gt.from_numpy(np.random.default_rng(3).standard_normal((40, 30))) * x)
if ask.exists():
    assert y.placement == x.placement, y.placement
say(y.sum().item(), x.numpy().tobytes().hex()[:200], (x.T @ y).numpy().tobytes().hex()[:200])
"""
    both(programs, source)


ROWS = """
def spread(seed):
    with gt.signal.context("rows"):
        return gt.tanh(gt.from_numpy(np.random.default_rng(seed).standard_normal((40, 30))))
def at(*wanted):
    while ask.exists() and x.placement != f"split(axis=0, workers=[{','.join(map(str, wanted))}])":
        time.sleep(0.002)
x = spread(2)
"""


def test_a_successor_that_leaves_leaves_nothing_behind(programs):
    """Worker 2 took the place of worker 0, and left; worker 0 is back. Then a worker 2 joins, which is a new one for the program: it gets
    nothing until worker 1 leaves."""
    source = "workers(2)\n" + ROWS + """
at(0, 1)
please("join 2")
for order, *wanted in ("drain 0", 2, 1), ("drain 2", 3, 1), ("join 0", 0, 1), ("join 2", 0, 1), ("drain 1", 0, 2):
    please(order)
    at(*wanted)
    y = spread(3)
    say((x + y).sum().item(), y.numpy().tobytes().hex()[:200])
"""
    both(programs, source, config="rows: {shard: {axis: 0, workers: [0, 1]}}\n")


def test_a_worker_that_a_signal_also_names_takes_no_place_in_it(programs):
    """Worker 2 is free, but has to have its own part of another signal."""
    source = "workers(3)\n" + ROWS + """
please("drain 1")
at(0, 3)
with gt.signal.context("three"):
    y = gt.tanh(gt.from_numpy(np.random.default_rng(3).standard_normal((42, 30))))
say((spread(4) + x).sum().item(), y.sum().item(), y.placement.replace("3", "1"))
"""
    both(programs, source, workers=3, config="rows: {shard: {workers: [0, 1]}}\nthree: {shard: {workers: [0, 1, 2]}}\n")


def test_stages_of_a_pipeline_move(programs):
    source = """
workers(2)
for k in range(2):
    gt.register_config(f"stage_{k}", gt.SignalConfig(shard=gt.ShardConfig(workers=[k])))
gt.manual_seed(2)
with gt.signal.context("stage_0"):
    first = nn.Linear(12, 16)
with gt.signal.context("stage_1"):
    last = nn.Linear(16, 4)
optimizer = optim.SGD([*first.parameters(), *last.parameters()], lr=0.1)
rng = np.random.default_rng(3)
AT = {5: "drain 1", 15: "join 1", 20: "drain 0", 25: "join 0"}
for step in range(35):
    if step in AT:
        please(AT[step])
    with gt.signal.context("stage_0"):
        h = first(gt.tensor(rng.standard_normal((8, 12)).astype(np.float32))).relu()
    with gt.signal.context("stage_1"):
        loss = (last(h) ** 2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    say(step, loss.item())
"""
    both(programs, source)


def test_training_goes_on_while_workers_change(programs):
    """The program does not wait for the changes: they come at any moment. What it has of views is copied then, so rounding may
    differ."""
    source = SHARDED.replace("please(AT[step])\n", "please(AT[step], wait=False)\n").replace("{20:", "{5:")
    source = source.replace('while "join" in AT[step] and "[0,1]" not in model[0].weight.placement', "while False")
    source = source.replace("range(120)", "range(600)").replace('say(*(p.placement for p in model.parameters()))', "")
    cluster = Cluster(programs, 2)
    calm, _ = cluster.run(source)
    cluster.ask.mkdir()
    disturbed, given = cluster.run(source)
    assert len(given) == 4
    assert len(calm) == len(disturbed)
    for before, after in zip(calm[:-1], disturbed[:-1]):
        (step, loss), (same, other) = before.split(), after.split()
        assert step == same and abs(float.fromhex(loss) - float.fromhex(other)) < 1e-4 * abs(float.fromhex(loss)), (before, after)


# ---- another config ------------------------------------------------------------------------------------------------

# The same number of parts on other workers: the losses are the same to the last bit.
OVER = "data: {{shard: {{axis: 0, workers: {0}}}}}\ncolumns: {{shard: {{axis: 0, workers: {0}}}}}\n"
ALL_THREE = """
workers(2)
gt.manual_seed(1)
rng = np.random.default_rng(3)
model = nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 10))
model[0].weight.data = gt.signal.tensor(model[0].weight, name="columns")
optimizer = optim.AdamW(model.parameters(), lr=1e-3)
AT = {15: "drain 1", 35: "join 2", 55: "reload " + CONFIG, 75: "drain 0"}
for step in range(95):
    if step in AT:
        please(AT[step])
        if "reload" in AT[step] and ask.exists():
            say([p.placement for p in model.parameters()])
    with gt.signal.context("data"):
        x = gt.tensor(rng.standard_normal((30, 24)).astype(np.float32))
        loss = nn.functional.cross_entropy(model(x), gt.tensor(rng.integers(0, 10, 30)))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    say(step, loss.item())
say(*(p.detach().numpy().tobytes().hex()[:64] for p in model.parameters()))
"""


@pytest.mark.parametrize("options", [(), ("--recover",)], ids=["", "recover"])
@pytest.mark.parametrize("hot", [True, False], ids=["hot", "eager"])
def test_training_lives_through_all_three(programs, hot, options):
    """A worker leaves, a new one joins, and the config names it instead. Then the other one leaves."""
    cluster = Cluster(programs, 2, options, config=OVER.format([0, 1]))
    source = f"CONFIG = {OVER.format([0, 2])!r}\n" + ALL_THREE
    calm, none = cluster.run(source, GT_AUTO_COMPILE=int(hot))
    cluster.ask.mkdir()
    disturbed, given = cluster.run(source, GT_AUTO_COMPILE=int(hot))
    assert not none and len(given) == 4
    placed, = [line for line in disturbed if line.startswith("[")]
    disturbed.remove(placed)
    assert disturbed == calm
    weight, bias, *others = eval(placed)
    assert weight == bias == "split(axis=0, workers=[0,2])" and all("workers=[0,2]" in other for other in others), placed
    assert "placed in another way now" in cluster.texts[1] and " 0 tensors" not in cluster.texts[1]
    assert [cluster.workers[k].alive for k in range(3)] == [False, False, True]


def test_more_parts_while_a_program_is_trained(programs):
    """Three parts instead of two, then another axis: sums are added up in another order, so losses may differ in rounding."""
    cluster = Cluster(programs, 3, config=OVER.format([0, 1]))
    source = ALL_THREE.replace("workers(2)", "workers(3)").replace("range(95)", "range(40)")
    source = source.replace('AT = {15: "drain 1", 35: "join 2", 55: "reload " + CONFIG, 75: "drain 0"}', "AT = CONFIG")
    changes = {10: "reload " + OVER.format([0, 1, 2]), 25: "reload " + OVER.format([2, 1, 0]).replace("columns: {shard: {axis: 0", "columns: {shard: {axis: 1")}
    calm, _ = cluster.run(f"CONFIG = {changes!r}\n" + source)
    cluster.ask.mkdir()
    disturbed, given = cluster.run(f"CONFIG = {changes!r}\n" + source)
    placed = [eval(line) for line in disturbed if line.startswith("[")]
    assert len(given) == len(placed) == 2
    assert placed[0][0] == "split(axis=0, workers=[0,1,2])" and placed[1][0] == "split(axis=1, workers=[2,1,0])", placed
    losses = [[float.fromhex(line.split()[1]) for line in lines[:-1] if line[0] != "["] for lines in (calm, disturbed)]
    assert len(losses[0]) == 40
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)


def test_live_tensors_are_placed_as_the_config_says_now(programs):
    source = """
workers(3)
values = np.random.default_rng(2).standard_normal((12, 9)).astype(np.float32)
x = gt.signal.tensor(gt.from_numpy(values), name="a")
y, after = x * 2 + 1, gt.from_numpy(values)
with gt.signal.context("stage"):
    stage = gt.from_numpy(values) + 1
with gt.signal.context("later"):
    later = gt.from_numpy(values) - 1
    small = gt.from_numpy(values[0, :1])
def tell():
    say(x.placement, y.placement, stage.placement, later.placement, after.placement == gt.ones(2).placement)
    for t, expected in ((x, values), (y, values * 2 + 1), (stage, values + 1), (later, values - 1), (after, values), (small, values[0, :1])):
        assert (t.numpy() == expected).all()
    assert abs((x @ y.T).sum().item() - (values @ (values * 2 + 1).T).sum()) < 1e-2
tell()
for config in CONFIGS:
    please("reload " + config)
    tell()
"""
    configs = ["a: {shard: {axis: 1, workers: [0, 1]}}\nstage: {shard: {workers: [2]}}\n",
               "a: {shard: {axis: 1, workers: [2, 0, 1]}}\nstage: {shard: {workers: [2]}}\nlater: {shard: {axis: -1}}\n",
               "a: {shard: {replicated: true, workers: [1, 2]}}\nstage: {shard: {axis: 0}}\nlater: {shard: {axis: -1}}\n",
               "stage: {shard: {axis: 0}}\n"]
    cluster = Cluster(programs, 3, config="a: {shard: {axis: 0, workers: [0, 1]}}\nstage: {shard: {workers: [1]}}\n")
    cluster.ask.mkdir()
    lines, _ = cluster.run(f"CONFIGS = {configs!r}\n{source}")
    home = lines[0].split()[-2][-2]
    def split(axis, over):
        return f"split(axis={axis}, workers={over})"
    at = f"single(worker={home})"
    assert lines == [
        f"{split(0, '[0,1]')} {split(0, '[0,1]')} single(worker=1) {at} True",
        f"{split(1, '[0,1]')} {split(1, '[0,1]')} single(worker=2) {at} True",
        f"{split(1, '[2,0,1]')} {split(1, '[2,0,1]')} single(worker=2) {split(1, '[0,1,2]')} True",
        f"replicated(workers=[1,2]) replicated(workers=[1,2]) {split(0, '[0,1,2]')} {split(1, '[0,1,2]')} True",
        f"replicated(workers=[1,2]) replicated(workers=[1,2]) {split(0, '[0,1,2]')} {split(1, '[0,1,2]')} True",
    ]


@pytest.mark.parametrize("taken", ["before", "after"])
def test_spread_tensors_of_a_signal_that_is_gone_are_recovered(programs, taken):
    """The config spreads nothing any more, but a snapshot, taken before or after it changed, has tensors that are spread."""
    snapshot = """
before, value = gt.debug.dispatcher_stats()["snapshots"], gt.ones(3)
while gt.debug.dispatcher_stats()["snapshots"] == before and ask.exists():
    value = value * 0.5 + 1
    assert value.sum().item()
"""
    reload = 'please("reload ")\n'
    source = "workers(2)\n" + ROWS + "at(0, 1)\n" + (snapshot + reload if taken == "before" else reload + snapshot) + """
for order in "kill 0", "kill 1", "join 0", "join 1":
    please(order)
say(x.placement, (x * 2).sum().item(), x.numpy().tobytes().hex()[:200])
"""
    both(programs, source, options=("--recover", "--recover-every", 0.005), config="rows: {shard: {axis: 0, workers: [0, 1]}}\n")


def test_a_worker_that_joins_is_used_at_once(programs):
    """By new tensors of signals that name no workers; by those that live after gt reload."""
    config = "rows: {shard: {axis: 0}}\n"
    cluster = Cluster(programs, 2, config=config)
    cluster.ask.mkdir()
    lines, _ = cluster.run(f"CONFIG = {config!r}\n" + """
def rows():
    return gt.signal.tensor(gt.arange(12), name="rows")
workers(2)
x = rows()
assert x.sum().item() == 66
please("join 2")
workers(3)
y = rows()
say(x.placement, y.placement)
please("reload " + CONFIG)
say(x.placement, y.placement, (x + y).sum().item())
""")
    assert lines == ["split(axis=0, workers=[0,1]) split(axis=0, workers=[0,1,2])", 2 * "split(axis=0, workers=[0,1,2]) " + "132"]


def test_a_config_that_is_wrong_changes_nothing(programs):
    """What is wrong is printed, and programs go on as before."""
    good = "rows: {shard: {axis: 0, workers: [0, 1]}}\n"
    cluster = Cluster(programs, 2, config=good)
    program = programs.python(BEGIN + """
workers(2)
x = gt.signal.tensor(gt.ones(8, 4), name="rows")
with gt.signal.context("nothing yet"):
    x = x + gt.zeros(4)
for _ in range(5):
    please("look")
    with gt.signal.context("rows"):
        y = gt.ones(8, 4)
    say(x.placement, y.placement, (x + y).sum().item())
""", cluster.address, cluster.ask)
    cluster.ask.mkdir()
    for number, (text, error) in enumerate([("rows: {shard: {axes: 0}}\n", "axes"), ("rows: [\n", "signals.yaml"),
                                            ("rows: {shard: {axis: 0, workers: [0, 7]}}\n", "signal rows: worker 7 is not there"),
                                            (good + "nothing yet: {shard: {axis: 0, workers: [7]}}\n", "signal nothing yet: worker 7 is not there"),
                                            (good, "")]):
        until((cluster.ask / str(number + 1)).exists, "the program")
        cluster.config.write_text(text)
        said = cluster.gt("reload", status=1 if error else 0)
        assert error in said and len(said.splitlines()) == 1, said
        assert said.startswith("gt reload: the config is not read again: ") or not error, said
        (cluster.ask / f"{number + 1}.done").touch()
    assert program.wait() == 0, program.text()
    placed = "split(axis=0, workers=[0,1])"
    assert program.output.read_text().splitlines() == [f"{placed} {placed} {(64.0).hex()}"] * 5


# ---- in the middle of work -----------------------------------------------------------------------------------------

LONG = """
a = gt.from_numpy(np.random.default_rng(5).standard_normal((64, 64)).astype(np.float32))
b = a @ a * 0.01
for _ in range(3000):
    b = gt.tanh(b + a)
say("home", b.placement)
say(b.numpy().tobytes().hex())
"""


class Held(Cluster):
    """Two workers whose matrix products last until release(); the first is the home of the first client."""

    def __init__(self, programs, *options):
        self.folder = programs.directory / "held"
        self.folder.mkdir()
        (self.folder / "gt_engine_held.py").write_text(HELD)
        super().__init__(programs, 1, options)

    def start(self, *index):
        package = pathlib.Path(gt.__file__).absolute().parents[1]
        return self.programs.worker(self.port, "--index", *index, python=True, GT_BACKEND="held", HELD=self.folder,
                                    PYTHONPATH=f"{self.folder}:{package}")

    def begin(self, source):
        """A program that has begun a product on worker 0, with the rest of its work behind it; then worker 1 joins."""
        program = self.programs.python(BEGIN + source, self.address, self.ask, GT_AUTO_COMPILE=0)
        until((self.folder / "began").exists, "the product")
        self.workers[1] = self.start(1)
        until(lambda: len(self.stats()["workers"]) == 2, "worker 1")
        return program

    def stats(self):
        return json.loads(self.gt("top", "--json", "--once"))

    def drains(self, count=1):
        """Orders to drain worker 0 that the server has taken, and cannot carry out yet."""
        started = [self.programs.start([GT_BINARY, "drain", "0", "-p", self.port], "drain") for _ in range(count)]
        for each in started:
            until(lambda: each.output.read_text() or not each.alive, "the drain")
        return started

    def release(self):
        (self.folder / "go").touch()


def expected():
    """What LONG computes."""
    a = gt.from_numpy(np.random.default_rng(5).standard_normal((64, 64)).astype(np.float32))
    b = a @ a * 0.01
    for _ in range(3000):
        b = gt.tanh(b + a)
    return b.numpy()


def check_long(program):
    assert program.wait() == 0, program.text()
    values = np.frombuffer(bytes.fromhex(program.output.read_text().split()[-1]), np.float32).reshape(64, 64)
    np.testing.assert_allclose(values, expected(), rtol=1e-4, atol=1e-5)


def test_a_worker_in_the_middle_of_a_long_queue(programs):
    """Two orders for the same worker are one, and both are told. A client that connects meanwhile gets the other worker."""
    cluster = Held(programs)
    program = cluster.begin(LONG)
    drains = cluster.drains(2)
    assert programs.run(BEGIN + "print(gt.ones(3).placement)", cluster.address, cluster.ask).strip() == "single(worker=1)"
    assert all(drain.alive for drain in drains) and cluster.workers[0].alive
    cluster.release()
    for drain in drains:
        assert drain.wait() == 0, drain.text()
        assert "is drained" in drain.output.read_text()
    assert cluster.workers[0].wait() == 0
    check_long(program)


@pytest.mark.parametrize("options", [(), ("--recover",)], ids=["", "recover"])
def test_a_worker_that_dies_while_it_is_drained(programs, options):
    cluster = Held(programs, *options)
    program = cluster.begin(LONG)
    drain, = cluster.drains()
    cluster.workers[0].kill()
    cluster.release()
    assert drain.wait() == 1, drain.text()
    assert "was lost before all of its tensors were moved" in drain.errors.read_text()
    if options:
        check_long(program)
    else:
        assert program.wait() == 1
        assert "GtConnectionError: worker worker_0 " in program.text(), program.text()
    assert cluster.server.alive
    assert programs.run(BEGIN + "print(gt.ones(3).sum().item())", cluster.address, cluster.ask).strip() == "3.0"


# Sixteen clients whose uploads of two pieces fill the queues of workers that do not go on: for some of them the second piece waits.
PIECES = """
import threading
workers(2)
def upload(number):
    gt.connect(sys.argv[1])
    rng, tensors = np.random.default_rng(number), []
    square = gt.ones(4, 4)
    held = square @ square
    for _ in range(40):
        a = rng.integers(0, 99, (64, 250)).astype(np.float32)
        with gt.signal.context("rows"):
            tensors.append((gt.from_numpy(a.copy()), a))
    assert held.sum().item() == 64 and all((t.numpy() == a).all() for t, a in tensors)
    say("right")
threads = [threading.Thread(target=upload, args=(number,)) for number in range(16)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def test_an_upload_of_which_a_piece_waits_stays_where_it_is(programs):
    """Its first piece is with a worker when the config wants it elsewhere."""
    cluster = Held(programs)
    cluster.workers[1] = cluster.start(1)
    program = programs.python(BEGIN + PIECES, f"tcp://localhost:{cluster.port}", cluster.ask)

    def tensors():
        return [client["tensors"] for client in cluster.stats()["clients"]]

    until((cluster.folder / "began").exists, "a product")
    until(lambda: len(tensors()) == 17 and tensors() == tensors(), "full queues")
    cluster.config.write_text("rows: {shard: {axis: 0}}\n")
    cluster.gt("reload")
    cluster.release()
    assert program.wait() == 0, program.text()
    assert program.output.read_text() == 16 * "right\n", program.text()


# ---- what cannot be done --------------------------------------------------------------------------------------------

def test_the_worker_that_has_to_stand_in_for_a_dead_one_stays(programs):
    source = "workers(2)\n" + ROWS + """
say(x.sum().item())
please("kill 0")
please("keep 1")
y = spread(3)
say((x + y).sum().item(), x.numpy().tobytes().hex()[:200], x.placement)
"""
    cluster = both(programs, source, options=("--recover", "--recover-stand-in", 3), config="rows: {shard: {axis: 0, workers: [0, 1]}}\n")
    assert "worker_1 stays: no other worker can" in cluster.texts[0]
    assert cluster.workers[1].alive


def test_a_worker_that_is_not_there(programs):
    cluster = Cluster(programs, 1)
    for name in ("7", "nobody", "0x", "-1", ""):
        text = cluster.gt("drain", "--", name, status=1)
        assert text == f"gt drain: the server has no worker {name}\n", text
    assert "one worker is needed" in cluster.gt("drain", status=2)
    assert "too long" in cluster.gt("drain", "x" * 100, status=1)


def test_the_last_worker_stays_while_it_is_needed(programs):
    cluster = Cluster(programs, 1)
    program = cluster.programs.python(BEGIN + """
x = gt.ones(3)
say(x.sum().item())
please("done")
say((x + 1).sum().item())
""", cluster.address, cluster.ask)
    cluster.ask.mkdir()
    until((cluster.ask / "1").exists, "the program")
    text = cluster.gt("drain", 0, status=1)
    assert "stays: no other worker can take the tensors of client " in text, text
    assert cluster.workers[0].alive
    (cluster.ask / "1.done").touch()
    assert program.wait() == 0 and program.output.read_text().split()[-1] == (6.0).hex()
    assert "is drained: 0 tensors moved" in cluster.drain(0)


def test_a_worker_without_room(programs):
    cluster = Cluster(programs, 1)
    program = cluster.programs.python(BEGIN + """
x = gt.ones(1024, 1024)
say(x.placement, x.sum().item())
workers(2)
please("done")
""", cluster.address, cluster.ask)
    cluster.ask.mkdir()
    until(lambda: program.output.read_text(), "the program")
    small = programs.worker(cluster.port, "--index", 1, GT_WORKER_MEMORY="1M")
    until((cluster.ask / "1").exists, "the second worker")
    text = cluster.gt("drain", 0, status=1)
    assert "has no room for the 4.19 MB of client " in text, text
    assert small.alive and cluster.workers[0].alive
    (cluster.ask / "1.done").touch()
    assert program.wait() == 0


def test_shared_memory_that_the_other_worker_cannot_have(programs):
    cluster = Cluster(programs, 1)
    program = cluster.programs.python(BEGIN + """
x = gt.ones(3)
say(x.sum().item())
please("done")
say((x + 1).sum().item())
""", cluster.address, cluster.ask)
    cluster.ask.mkdir()
    until((cluster.ask / "1").exists, "the program")
    programs.worker(cluster.port, host="tcp://localhost")
    programs.run(BEGIN + "workers(2)", cluster.address, cluster.ask)
    text = cluster.gt("drain", 0, status=1)
    assert " shares memory with worker " in text and cluster.workers[0].alive, text
    (cluster.ask / "1.done").touch()
    assert program.wait() == 0, program.text()


def test_the_server_of_a_program_has_no_orders(programs):
    program = programs.python("""
import pathlib, sys, time
import gt
gt.ones(2).sum().item()
pathlib.Path(sys.argv[1]).touch()
while not pathlib.Path(sys.argv[2]).exists():
    time.sleep(0.01)
""", programs.directory / "up", programs.directory / "go")
    until((programs.directory / "up").exists, "the program")
    done = subprocess.run([GT_BINARY, "drain", "0"], capture_output=True, text=True, env=clean_environment(programs.runtime))
    assert done.returncode == 1 and "a program's own server" in done.stderr, done
    (programs.directory / "go").touch()
    assert program.wait() == 0
