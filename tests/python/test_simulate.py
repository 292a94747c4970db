"""gt simulate: what a tape would take on other workers. Expected times are computed by hand, streams come from real runs."""

import json
import os
import re
import signal
import subprocess
import sys

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
crowded 1
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


def test_the_timeline_is_printed(record, costs):
    """The first worker computes for 20 + 4000 us and sends for 10; then the second one has the data, and computes for 4000."""
    tape, _ = record("""
        import gt
        gt.gpu_workers(2)
        with gt.signal.context('first'):
            x = gt.randn(200, 100) @ gt.randn(100, 100)
        with gt.signal.context('second'):
            y = x @ gt.ones(100, 100)
    """, "first: {shard: {workers: [0]}}\nsecond: {shard: {workers: [1]}}\n")
    printed = simulate(tape, "--workers", 2, "--costs", costs())
    bars = re.findall(r"^(worker_\d) +\|(.*)\|$", printed, re.M)
    total_us = 4020 + 10 + (2 + 80) + 4000  # the second worker has made its ones before
    assert f"{total_us / 1e3:.4g} ms" in printed
    assert dict(bars) == {"worker_0": "#" * 30 + " " * 30, "worker_1": "=" * 30 + "#" * 30}


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
    crowded = json.loads(simulate(tape, "--workers", 4, "--costs", costs("crowded 0.5\n"), "--json", "--cores", 2))["seconds"]
    assert crowded * 1e6 == pytest.approx(120, abs=0.002)  # taking turns costs half of the speed


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


@pytest.mark.parametrize("mode, workers", [("pipeline", 2), ("sequence", 4), ("expert", 4)])
def test_the_ways_of_the_transformer(mode, workers, programs, tmp_path):
    tape, log = tmp_path / "run.tape", tmp_path / "run.log"
    example = REPOSITORY / "examples" / "sharding" / "transformer.py"
    program = programs.start([sys.executable, example, mode, "--steps", 2], "transformer", GT_TAPE=tape, GT_INSTRUCTION_LOG=log)
    assert program.wait() == 0, program.text()
    check_stream(tape, log, workers, tmp_path)


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
    line = tmp_path / "line.yaml"
    line.write_text("mesh: {data: 3}\nrows: {shard: {0: data}}\n")
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
        ([tape, "--workers", 3, "--device", "h200", "--config", line], "does not divide a tensor of shape (1000,64)"),
        ([tape, "--workers", 2, "--costs", wrong], "gt costs 1"),
        ([tape, "--workers", 2, "--costs", kind], "kind:13: there is no such op"),
        ([tape, "--workers", 2, "--costs", number], "number:13: exact needs"),
    ]:
        text = simulate(*arguments, status=2)
        assert words in text and text.count("\n") == 1, (arguments, text)
    for arguments, words in [([tape, "--workers", 0], "from 1 to 256"), ([tape, "--workers", 1000], "from 1 to 256"), ([], "a tape is required")]:
        text = simulate(*arguments, status=2)
        assert words in text, (arguments, text)


# ---- hot paths --------------------------------------------------------------------------------------------------

LOOP = TRAINING.replace("range(4)", "range(24)") + """
    import json
    stats = gt.debug.get_worker_stats(wait=True).values()
    print(json.dumps({worker['index']: [worker['bytes_moved'], worker['collectives'], worker['moves']] for worker in stats}))
"""


@pytest.mark.parametrize("name", ["nothing", "data", "mesh"])
def test_hot_paths_are_found_again(name, programs, tmp_path):
    """Without a log the workers get runs of paths, in the real run as well; what moves between workers is the same."""
    config, tape, simulated = tmp_path / "config.yaml", tmp_path / "run.tape", tmp_path / "simulated.log"
    config.write_text(CONFIGS[name])
    printed = programs.run(LOOP, GT_TAPE=tape, GT_CONFIG=config)
    real = json.loads(printed.strip().splitlines()[-1])
    result = json.loads(simulate(tape, "--workers", 4, "--device", "h200", "--json", "-o", simulated))
    assert "WorkerRunPath" in simulated.read_text()
    plain = json.loads(simulate(tape, "--workers", 4, "--device", "h200", "--json", GT_AUTO_COMPILE="0"))
    assert result["moved"] == plain["moved"]
    for index, worker in enumerate(result["workers"]):
        assert [worker["collectives"], worker["moves"]] == real[str(index)][1:]


# ---- measured costs ---------------------------------------------------------------------------------------------


def test_what_is_measured_is_kept(record, tmp_path):
    """Every kind of work gets a time, which the next simulation uses. How long they are is the machine's business."""
    tape, _ = record(PRODUCT, ROWS)
    costs = tmp_path / "costs"
    first = simulate(tape, "--workers", 2, "--device", "this", "--costs", costs, "--json")
    kept = costs.read_text()
    works = [line.split(" ", 2)[2] for line in kept.splitlines() if line.startswith("exact ")]
    together = f"{min(2, os.cpu_count())} at once: "
    expected = {"matmul float32(500,64) float32(64,64) = float32(500,64)", "randn = float32(500,64)", "add float32(1,) float32(1,) = float32(1,)"}
    assert {together + work for work in expected} <= set(works)
    assert len(works) == len(set(works))
    assert simulate(tape, "--workers", 2, "--device", "this", "--costs", costs, "--json") == first
    assert costs.read_text() == kept
    assert json.loads(first)["seconds"] > 0


def test_works_are_measured_with_as_many_at_once_as_run(record, tmp_path):
    """Workers that share one core do not run at once, whatever their number: their works have other times, beside those of before."""
    tape, _ = record(PRODUCT, ROWS)
    costs = tmp_path / "costs"
    simulate(tape, "--workers", 2, "--device", "this", "--costs", costs)
    simulate(tape, "--workers", 2, "--device", "this", "--costs", costs, "--cores", 1)
    product = "matmul float32(500,64) float32(64,64) = float32(500,64)"
    names = [line.split(" ", 2)[2] for line in costs.read_text().splitlines() if line.endswith(product)]
    assert sorted(names) == sorted({f"1 at once: {product}", f"{min(2, os.cpu_count())} at once: {product}"})
    costs.write_text(f"gt costs 1\nexact 1000000 {product}\n")  # a time without such a name holds for any number, and is not measured
    told = json.loads(simulate(tape, "--workers", 2, "--device", "this", "--costs", costs, "--json"))
    assert told["seconds"] > 1
    assert sum(line.endswith(product) for line in costs.read_text().splitlines()) == 1


def test_measured_times_serve_another_simulation(record, tmp_path):
    """Alone, and for another number of workers: the nearest that was measured."""
    tape, _ = record(PRODUCT, ROWS)
    costs = tmp_path / "costs"
    measured = json.loads(simulate(tape, "--workers", 2, "--device", "this", "--costs", costs, "--json"))
    text = costs.read_text()
    alone = tmp_path / "alone"
    alone.write_text(text + "client 0.4\ndispatch 0.05\nanswer 4\nlink 5 0\ncrowded 0.92\norder free\nmoves host\n")
    assert json.loads(simulate(tape, "--workers", 2, "--costs", alone, "--json"))["seconds"] == pytest.approx(measured["seconds"], rel=1e-3)
    simulate(tape, "--workers", 2, "--cores", 1, "--costs", alone)
    product = "matmul float32(500,64) float32(64,64) = float32(500,64)"
    alone.write_text(re.sub("exact .* at once: (.*)", r"exact 1 7 at once: \1", text).replace(f"exact 1 7 at once: {product}", f"exact 5000000 7 at once: {product}"))
    assert json.loads(simulate(tape, "--workers", 2, "--costs", alone, "--json"))["seconds"] > 5


def test_a_worker_without_work_is_not_measured(record, tmp_path):
    tape, _ = record(PRODUCT)
    costs = tmp_path / "costs"
    simulate(tape, "--workers", 2, "--device", "this", "--costs", costs)
    names = [line.split(" ", 2)[2] for line in costs.read_text().splitlines() if line.startswith("exact ")]
    assert names and all(name.startswith("1 at once: ") for name in names)


def test_simulations_share_a_file_of_costs(record, tmp_path):
    """Some at the same time, and one whose last line was written by hand."""
    tape, _ = record(PRODUCT, ROWS)
    costs = tmp_path / "costs"
    command = [GT_BINARY, "simulate", str(tape), "--device", "this", "--costs", str(costs)]
    several = [subprocess.Popen([*command, "--workers", str(workers)], stdout=subprocess.DEVNULL, env=clean_environment()) for workers in (2, 3, 4)]
    assert [one.wait(PATIENCE_S) for one in several] == [0, 0, 0]
    assert costs.read_text().count("gt costs 1") == 1
    simulate(tape, "--workers", 3, "--costs", costs, "--device", "this")
    costs.write_text("gt costs 1\ncrowded 0.9")
    simulate(tape, "--workers", 2, "--costs", costs, "--device", "this")
    assert costs.read_text().startswith("gt costs 1\ncrowded 0.9\nexact ")
    simulate(tape, "--workers", 2, "--costs", costs, "--device", "this")


def test_a_work_that_fails_has_no_time(record, tmp_path):
    """Its failure would be quick. Factorizations are measured on matrices that have one."""
    tape, _ = record("""
        import gt
        a = gt.ones(100000, 100000)
        print((a * a).sum().item())
    """, GT_BACKEND="null", GT_WORKER_MEMORY="400G")
    costs = tmp_path / "costs"
    text = simulate(tape, "--device", "this", "--costs", costs, status=2, GT_WORKER_MEMORY="1G")
    assert "cannot be measured on this machine: full: the worker cannot allocate" in text and text.count("\n") == 1
    tape, _ = record("""
        import gt
        x = gt.randn(3, 40, 40)
        a = x @ x.mT + 40 * gt.eye(40)
        print((gt.linalg.cholesky(a) + gt.linalg.inv(x)).sum().item(), gt.linalg.svdvals(x).sum().item())
    """)
    simulate(tape, "--device", "this", "--costs", costs)
    assert " cholesky float32(3,40,40) " in costs.read_text()


def test_measured_times_come_before_rates(record, costs):
    tape, _ = record(PRODUCT, ROWS)
    more = "exact 1000 matmul float32(500,64) float32(64,64) = float32(500,64)\n"
    before, after = [json.loads(simulate(tape, "--workers", 2, "--costs", costs(lines), "--json"))["seconds"] * 1e6 for lines in ("", more)]
    assert before - after == pytest.approx(4096 - 1000, abs=0.002)


def test_workers_of_a_processor_add_up_themselves(record, costs):
    """With `moves host` a collective takes the sums and copies that a worker makes: of two halves, and of the other half."""
    tape, _ = record("""
        import gt
        gt.gpu_workers(2)
        with gt.signal.context('rows'):
            x = gt.randn(1000, 128)
        print(x.sum(0).numpy().shape)
        print((x.transpose(0, 1) @ x).numpy().shape)
    """, ROWS)
    lines = "moves host\nrate all_reduce 0 0 0\nrate add 100 0 0\nrate copy 1 1 0\n"
    result = json.loads(simulate(tape, "--workers", 2, "--costs", costs(lines), "--json"))
    # 128 numbers: each worker adds up all of them. 128 x 128: each adds up a half, and copies the other's half of the result, which is
    # read and written.
    expected_us = 100 + 100 + 1 + 2 * 128 * 128 * 4 / 2 / 1e3
    assert result["workers"][1]["move_seconds"] * 1e6 == pytest.approx(expected_us, abs=0.002)


# ---- order ------------------------------------------------------------------------------------------------------


def test_a_worker_goes_on_while_it_waits(record, costs):
    """With `order free`, what does not need the data of another worker comes first, as deferred.h has it."""
    tape, _ = record("""
        import gt
        gt.gpu_workers(2)
        with gt.signal.context('first'):
            x = gt.randn(100, 100) @ gt.randn(100, 100)      # 20 us, then 2000 us
        with gt.signal.context('second'):
            y = x + 1.0                                      # waits for x
            a = gt.randn(100, 100) @ gt.randn(100, 100)      # does not
        gt.synchronize()
    """, "first: {shard: {workers: [0]}}\nsecond: {shard: {workers: [1]}}\n")
    strict, free = [json.loads(simulate(tape, "--workers", 2, "--costs", costs(f"order {order}\n"), "--json")) for order in ("strict", "free")]
    # And so does what synchronize makes: the second worker sends it to the first, when all is done.
    assert strict["seconds"] - free["seconds"] == pytest.approx((2020 + 10) / 1e6, abs=2e-9)
    waits = [result["workers"][1]["workers_seconds"] * 1e6 for result in (strict, free)]
    assert waits == pytest.approx([2020 + 10, 0], abs=0.002)  # for the product, and for the send


def test_the_log_shows_one_thing_at_a_time(record, costs, tmp_path):
    """Also where workers go on while they wait."""
    tape, _ = record(TRAINING, CONFIGS["mesh"])
    log = tmp_path / "simulated.log"
    simulate(tape, "--workers", 4, "--costs", costs("order free\n"), "-o", log)
    until = {}
    for line in log.read_text().splitlines():
        told = re.search(r"WORKER_RECV .* (worker_\d) .* start=([\d.]+)s duration=([\d.]+)s", line)
        if told:
            start = float(told[2])
            assert start >= until.get(told[1], 0) - 2e-9, line
            until[told[1]] = start + float(told[3])
    assert len(until) == 4


# ---- search -----------------------------------------------------------------------------------------------------


def test_the_search_finds_the_split_that_halves_the_work(record, costs, tmp_path):
    tape, _ = record("""
        import gt
        gt.gpu_workers(2)
        with gt.signal.context('left'):
            x = gt.randn(1000, 64)
        with gt.signal.context('right'):
            w = gt.randn(64, 64)
        y = x @ w
        gt.synchronize()
    """)
    free = costs("rate * 0 0 0\nlink 0 0\nanswer 0\n")
    result = json.loads(simulate(tape, "--workers", 2, "--costs", free, "--search", "--json"))
    flops_us = 2 * 1000 * 64 * 64 / 1e3
    assert result["one_worker_seconds"] * 1e6 == pytest.approx(flops_us, abs=0.002)
    best = result["configs"][0]
    assert best["seconds"] * 1e6 == pytest.approx(flops_us / 2, abs=0.002)
    config = tmp_path / "best.yaml"
    config.write_text(best["yaml"])
    again = json.loads(simulate(tape, "--workers", 2, "--costs", free, "--config", config, "--json"))
    assert again["seconds"] == best["seconds"]


def test_what_the_search_prints_is_a_config(record, programs, tmp_path):
    tape, _ = record(TRAINING, "")
    config = tmp_path / "found.yaml"
    config.write_text(simulate(tape, "--workers", 4, "--device", "h200", "--search"))
    assert "a step" in config.read_text()
    programs.run(TRAINING, GT_CONFIG=config)


def test_a_program_without_signals_cannot_be_searched(record):
    tape, _ = record("import gt\nprint(gt.ones(3).sum().item())")
    assert "enters no signal" in simulate(tape, "--workers", 2, "--device", "h200", "--search", status=2)


def test_two_programs_on_one_tape(programs, costs):
    """One worker executes both, in the order of the tape."""
    tape = programs.directory / "run.tape"
    cluster = programs.cluster(1, GT_TAPE=tape)
    for _ in range(2):
        programs.run(f"""
            import gt
            gt.connect('localhost:{cluster.port}')
            print((gt.ones(3) + 1.0).sum().item())
        """)
    cluster.signal(signal.SIGTERM)
    cluster.wait()
    result = json.loads(simulate(tape, "--costs", costs("client 1\n"), "--json"))
    assert result["clients"] == 2
    assert result["workers"][0]["compute_seconds"] * 1e6 == pytest.approx(2 * 4 * 10, abs=0.002)  # three instructions and the answer
