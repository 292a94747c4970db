"""gt simulate: what a tape would take on other workers. Expected times are computed by hand, streams come from real runs."""

import json
import re
import subprocess

import pytest

from support import GT_BINARY, PATIENCE_S, REPOSITORY, clean_environment


def simulate(*arguments, status=0, **environment):
    """What `gt simulate` printed."""
    done = subprocess.run([GT_BINARY, "simulate", *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE_S,
                          env=clean_environment(**environment))
    assert done.returncode == status, f"status {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout if status == 0 else done.stderr


@pytest.fixture
def record(programs):
    """record(source, yaml): run the program with a tape and a log."""

    def run(source, yaml="", arguments=(), **environment):
        config = programs.directory / "config.yaml"
        config.write_text(yaml)
        tape, log = programs.directory / "run.tape", programs.directory / "run.log"
        programs.run(source, *arguments, GT_TAPE=tape, GT_INSTRUCTION_LOG=log, GT_CONFIG=config, **environment)
        return tape, log

    return run


# An instruction takes 10 us, and products 1 ns for each multiplication or addition; messages 2 us and 1 ns for each byte.
COSTS = """gt costs 1
rate * 10 0 0
rate MatMul 0 0 1
rate FreeTensor 0 0 0
rate View 0 0 0
link 2 1
client 0
dispatch 0
answer 5
order strict
moves device
"""


@pytest.fixture
def costs(programs):
    """costs(more): a file with the costs above, and these."""

    def write(more=""):
        path = programs.directory / "costs"
        path.write_text(COSTS + more)
        return path

    return write


ROWS = "rows: {shard: {axis: 0, workers: [0, 1]}}\n"

PRODUCT = """
    import gt
    gt.gpu_workers(2)
    with gt.signal.context('rows'):
        x, w = gt.randn(1000, 64), gt.randn(64, 64)
        y = (x @ w).sum()
    print(y.item())
"""


def test_the_time_is_that_of_each_part(record, costs):
    tape, _ = record(PRODUCT, ROWS)
    result = json.loads(simulate(tape, "--workers", 2, "--costs", costs(), "--json"))
    # Two tensors are made, the second is gathered (each worker gives the other its half), then a product of a half, a sum, the sum
    # of the two numbers, which goes to the program.
    expected_us = 10 + 10 + (2 + 8.192) + 2 * 500 * 64 * 64 / 1e3 + 10 + (2 + 0.004) + 10 + 5
    assert result["seconds"] * 1e6 == pytest.approx(expected_us, abs=0.002)
    assert result["moved"] == {"all_reduce": {"count": 2, "bytes": 8}, "all_gather": {"count": 2, "bytes": 2 * 64 * 64 * 4}}
    first, second = result["workers"]
    assert first["compute_seconds"] * 1e6 == pytest.approx(4096 + 40, abs=0.002)
    assert second["compute_seconds"] * 1e6 == pytest.approx(4096 + 30, abs=0.002)  # the value goes to the program from the first
    assert first["data_seconds"] * 1e6 == pytest.approx(2 + 8.192 + 2 + 0.004, abs=0.002)
    assert first["bytes"] == second["bytes"] == 64 * 64 * 4 + 4


def test_one_worker_waits_for_another(record, costs):
    tape, _ = record("""
        import gt
        gt.gpu_workers(2)
        with gt.signal.context('first'):
            x = gt.randn(100, 10) @ gt.randn(10, 10)
        with gt.signal.context('second'):
            print((x + 1.0).sum().item())
    """, "first: {shard: {workers: [0]}}\nsecond: {shard: {workers: [1]}}\n")
    first, second = json.loads(simulate(tape, "--workers", 2, "--costs", costs(), "--json"))["workers"]
    sends_us = 10  # a send is an instruction
    assert first["compute_seconds"] * 1e6 == pytest.approx(20 + 20 + 10, abs=0.002)  # two tensors, their product, the value
    assert first["move_seconds"] * 1e6 == pytest.approx(sends_us, abs=0.002)
    assert first["workers_seconds"] * 1e6 == pytest.approx(2 + 4 + 2 * 10 + sends_us, abs=0.002)  # for the sum
    assert second["workers_seconds"] * 1e6 == pytest.approx(20 + 20 + sends_us, abs=0.002)
    assert second["data_seconds"] * 1e6 == pytest.approx(2 + 100 * 10 * 4 / 1e3, abs=0.002)
    assert second["bytes"] == 100 * 10 * 4


def test_workers_share_the_cores_of_a_host(record, costs):
    tape, _ = record("""
        import gt
        gt.gpu_workers(4)
        with gt.signal.context('rows'):
            x = gt.randn(400, 400)
            y = (x * 2.0).exp()
    """, "rows: {shard: {axis: 0}}\n")
    seconds = [json.loads(simulate(tape, "--workers", 4, "--costs", costs(), "--json", *more))["seconds"] * 1e6
               for more in ((), ("--cores", 4), ("--cores", 2), ("--cores", 3), ("--cores", 4, "--threads", 2))]
    assert seconds == pytest.approx([30, 30, 60, 40, 60], abs=0.002)


# ---- the same stream as a real run ------------------------------------------------------------------------------


def sent(log, event="WORKER_SEND"):
    """By worker: what it was sent, or did. Frees are packed as they come, by as many as the dispatcher takes at once."""
    streams = {}
    for line in log.read_text().splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) < 7 or fields[2] != event or fields[4] in ("WorkerFreeTensor", "WorkerData"):
            continue
        name = re.sub(r"^WORKER (auto_worker|worker)", "", fields[3]).lstrip("_")
        shape = re.search(r"shape=\S+", fields[6])
        op = re.search(r"op=\S+", fields[6])
        streams.setdefault(int(name or 0), []).append((fields[4], op and op[0], shape and shape[0], fields[5]))
    return streams


def check_stream(tape, log, workers, tmp_path):
    simulated = tmp_path / "simulated.log"
    simulate(tape, "--workers", workers, "--device", "h200", "-o", simulated, GT_AUTO_COMPILE="0")  # as with a log: no hot paths
    real = sent(log)
    assert sent(simulated) == real
    assert {worker: len(done) for worker, done in sent(simulated, "WORKER_RECV").items()} == {worker: len(done) for worker, done in real.items()}
    return real


TRAINING = """
    import gt
    from gt import nn, optim
    import gt.nn.functional as F
    gt.gpu_workers(4)
    gt.manual_seed(1)
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 8))
    model[0].weight.data = gt.signal.tensor(model[0].weight, name='columns')
    model[0].bias.data = gt.signal.tensor(model[0].bias, name='columns')
    model[2].weight.data = gt.signal.tensor(model[2].weight, name='rows')
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(4):
        with gt.signal.context('batch'):
            x = gt.randn(24, 16)
            loss = F.mse_loss(model(x), x[:, :8])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(loss.item())
"""

CONFIGS = {
    "nothing": "",
    "data": "batch: {shard: {axis: 0}}\n",
    "two": "batch: {shard: {axis: 0, workers: [1, 3]}}\n",
    "model": "columns: {shard: {axis: 0}}\nrows: {shard: {axis: 1}}\n",
    "mesh": "mesh: {data: 2, model: 2}\nbatch: {shard: {0: data}}\ncolumns: {shard: {0: model}}\nrows: {shard: {1: model}}\n",
}


@pytest.mark.parametrize("name", CONFIGS)
def test_workers_get_what_they_get_in_a_real_run(name, record, tmp_path):
    tape, log = record(TRAINING, CONFIGS[name])
    real = check_stream(tape, log, 4, tmp_path)
    assert sum(map(len, real.values())) > 100


def test_another_config_replaces_that_of_the_tape(record, tmp_path):
    """The program, recorded without a config, is simulated with one as it runs with it."""
    tape, _ = record(TRAINING, "")
    kept = tmp_path / "plain.tape"
    kept.write_bytes(tape.read_bytes())
    tape.unlink()
    _, log = record(TRAINING, CONFIGS["mesh"])
    config, simulated = tmp_path / "mesh.yaml", tmp_path / "simulated.log"
    config.write_text(CONFIGS["mesh"])
    simulate(kept, "--workers", 4, "--device", "h200", "--config", config, "-o", simulated, GT_AUTO_COMPILE="0")
    assert sent(simulated) == sent(log)


def test_the_result_is_always_the_same(record, costs):
    tape, _ = record(TRAINING, CONFIGS["data"])
    first, second = [simulate(tape, "--workers", 4, "--costs", costs(), "--json") for _ in range(2)]
    assert first == second
    result = json.loads(first)
    assert result["steps"] == 1 and result["step_seconds"] > 0


def test_the_picture_is_drawn(record, tmp_path):
    tape, _ = record(PRODUCT, ROWS)
    picture = tmp_path / "run.svg"
    printed = simulate(tape, "--workers", 2, "--device", "h200", "--timeline", picture, "--json")
    assert json.loads(printed)["seconds"] > 0
    assert "matmul" in picture.read_text()


# ---- errors -----------------------------------------------------------------------------------------------------


def test_errors_are_one_line(record, tmp_path):
    tape, _ = record(PRODUCT, ROWS)
    damaged, wrong = tmp_path / "damaged.tape", tmp_path / "wrong"
    damaged.write_bytes(tape.read_bytes()[:-200])
    wrong.write_text("rows: {shard: [")
    kind, number = tmp_path / "kind", tmp_path / "number"
    kind.write_text(COSTS + "rate Abacus 1 2 3\n")
    number.write_text(COSTS + "exact x matmul\n")
    for arguments, words in [
        ([tmp_path / "none.tape"], "No such file"),
        ([damaged], "damaged"),
        ([wrong], "not a tape"),
        ([tape, "--workers", 2, "--device", "abacus"], "h200"),
        ([tape, "--workers", 2, "--device", "h200", "--link", "400furlongs"], "400Gb"),
        ([tape, "--workers", 2, "--device", "h200", "--config", wrong], "wrong"),
        ([tape, "--workers", 2, "--device", "h200", "--config", tmp_path / "none.yaml"], "none.yaml"),
        ([tape, "--workers", 1, "--device", "h200"], "worker 1 is not there"),
        ([tape, "--workers", 2, "--costs", wrong], "gt costs 1"),
        ([tape, "--workers", 2, "--costs", kind], "kind:12: there is no such op"),
        ([tape, "--workers", 2, "--costs", number], "number:12: exact needs"),
    ]:
        text = simulate(*arguments, status=2)
        assert words in text and text.count("\n") == 1, (arguments, text)
    for arguments, words in [([tape, "--workers", 0], "from 1 to 256"), ([tape, "--workers", 1000], "from 1 to 256"), ([], "a tape is required")]:
        text = simulate(*arguments, status=2)
        assert words in text, (arguments, text)
