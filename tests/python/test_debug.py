"""gt.debug: the autograd tape, and statistics compared with what the program did."""

import re

import pytest
from support import REPOSITORY, until

import gt


@pytest.fixture
def facts(programs):
    """facts(source): run a program in its own process; returns what it printed with repr()."""

    def run(source, *arguments, **environment):
        return eval(programs.run(source, *arguments, **environment).splitlines()[-1])

    return run


def test_the_tape_has_what_was_recorded_in_order():
    a = gt.ones(2, 3, requires_grad=True)
    b = gt.ones(3, requires_grad=True)
    loss = (a * b + 1).sum()
    tape = [entry for entry in gt.debug.get_tape() if not entry.consumed]
    numbers = {entry.op: entry.number for entry in tape}
    assert [entry.op for entry in tape[-5:]] == ["leaf", "leaf", "mul", "add", "sum"]
    assert [tuple(entry.shape) for entry in tape[-5:]] == [(2, 3), (3,), (2, 3), (2, 3), ()]
    assert list(tape[-1].inputs) == [numbers["add"]] and list(tape[-2].inputs) == [numbers["mul"]]
    assert len(tape[-3].inputs) == 2
    loss.backward()
    consumed = {entry.number for entry in gt.debug.get_tape() if entry.consumed}
    assert {numbers["mul"], numbers["sum"]} <= consumed


def test_the_tape_is_printed(capsys):
    x = gt.ones(2, requires_grad=True)
    y = (x * 3).sum()
    gt.debug.print_tape()
    text = capsys.readouterr().out
    assert re.search(r"^autograd tape: \d+ entries\n", text)
    assert re.search(r"^  %(\d+) = mul\(%\d+\)  \(2,\)\n  %\d+ = sum\(%\1\)  \(\)$", text, re.M), text
    del y


COUNTED = """
    import sys, gt
    if len(sys.argv) > 1:
        gt.connect(sys.argv[1])
    a = gt.ones(100, 100)
    for _ in range(10):
        b = a @ a
    c = b.relu()
    c.sum().item()
"""


def test_worker_statistics_are_what_was_done(facts):
    stats = facts(COUNTED + "    print(gt.debug.get_worker_stats(wait=True))", GT_AUTO_COMPILE=0)
    worker = stats["auto_worker"]
    assert {op: row["count"] for op, row in worker["ops"].items() if op in ("full", "matmul", "relu", "sum")} == {
        "full": 1,
        "matmul": 10,
        "relu": 1,
        "sum": 1,
    }
    assert worker["total_instructions"] == 13
    assert worker["ops"]["matmul"]["bytes"] == 10 * 40000 and worker["ops"]["sum"]["bytes"] == 4
    assert 0 < worker["ops"]["matmul"]["seconds"] <= worker["busy_seconds"] <= worker["up_seconds"]
    assert worker["busy_seconds"] + worker["idle_seconds"] == pytest.approx(worker["up_seconds"], rel=0.02)
    assert worker["memory"]["used"] >= 3 * 40000 and worker["memory"]["limit"] > worker["memory"]["used"]
    for key in ("hot_instructions", "unique_sequences", "hot_sequences"):
        assert worker[key] is None, "not counted, which differs from 0"
    stats = facts(COUNTED + "    print(gt.debug.get_worker_stats(wait=True))")
    assert all(stats["auto_worker"][key] == 0 for key in ("hot_instructions", "unique_sequences", "hot_sequences"))


def test_statistics_are_by_worker_and_by_client(programs, facts):
    server = programs.cluster(workers=2)
    address = f"localhost:{server.port}"
    stats = facts(COUNTED + "    print((gt.debug.get_worker_stats(wait=True), gt.debug.memory(wait=True), gt.debug.dispatcher_stats(wait=True)))", address)
    workers, memory, dispatcher = stats
    assert len(workers) == 2 and sum("matmul" in worker["ops"] for worker in workers.values()) == 1
    assert memory["workers"].keys() == workers.keys()
    ((number, held),) = memory["clients"].items()
    assert held["tensors"] >= 3 and held["bytes"] >= 3 * 40000
    assert sum(worker["tensors"] for worker in memory["workers"].values()) == held["tensors"]
    (client,) = dispatcher["clients"]
    assert client["number"] == number and client["name"].split(":")[0].endswith(".py")
    assert client["modifiers"]["statistics"]["ops"]["matmul"] == 10


def test_a_client_that_uses_several_workers_has_a_plus(programs):
    server = programs.cluster(workers=2)
    text = programs.run("""
        import sys
        import gt
        gt.connect(sys.argv[1])
        while len(gt.debug.get_worker_stats()) < 2:
            pass
        def home():
            gt.synchronize()
            [client] = gt.debug.dispatcher_stats(wait=True)["clients"]
            return client["worker"]
        with gt.signal.context("forward"):      # a name for people: it places nothing
            x = gt.ones(4, 4) + 1
        print(home())
        gt.register_config("rows", gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[0, 1])))
        with gt.signal.context("rows"):
            y = gt.ones(4, 4) + 1
        print(home())
        """, f"localhost:{server.port}", GT_AUTO_COMPILE=0)
    alone, spread = text.split()
    assert spread == alone + "+"


def test_each_modifier_has_statistics(facts):
    stats = facts(COUNTED + "    print(gt.debug.dispatcher_stats(wait=True))", GT_MODIFIERS="identity,statistics")
    (client,) = stats["clients"]
    assert list(client["modifiers"]) == ["identity", "statistics", "place"], "the chain, in its order"
    assert client["modifiers"]["statistics"]["ops"]["relu"] == 1


def test_worker_statistics_are_printed(programs):
    text = programs.run(COUNTED + "    gt.debug.print_worker_stats(wait=True)")
    assert text.startswith("auto_worker (cpu, memory):\n  13 instructions, busy ")
    assert re.search(r"^  matmul +10 x +\d+\.\d{3} ms +390\.6 KiB$", text, re.M), text


def test_the_example_shows_them(programs):
    text = programs.run((REPOSITORY / "examples" / "show_stats.py").read_text())
    assert "= matmul(" in text and re.search(r"^  relu +11 x", text, re.M) and "modifier statistics" in text


LIMITS = """
    import gt
    if {port}:
        gt.connect('localhost:{port}')
    else:
        gt.gpu_workers({workers})
    gt.ones(1).sum().item()
    print([worker['memory']['limit'] for worker in gt.debug.get_worker_stats(wait=True).values()])
"""


def test_workers_of_one_program_divide_the_memory(facts):
    (alone,) = facts(LIMITS.format(port=0, workers=1))
    assert facts(LIMITS.format(port=0, workers=3)) == [alone // 3] * 3


def test_workers_on_one_host_divide_the_memory_while_both_are_there(facts, programs):
    server = programs.server()
    first = programs.worker(server.port)
    (alone,) = facts(LIMITS.format(port=server.port, workers=0))
    second = programs.worker(server.port)
    until(lambda: facts(LIMITS.format(port=server.port, workers=0)) == [alone // 2] * 2, "two halves")
    second.kill()
    until(lambda: facts(LIMITS.format(port=server.port, workers=0)) == [alone], "the whole again")
    assert first.alive


def test_a_limit_that_the_user_set_is_not_divided(facts):
    assert facts(LIMITS.format(port=0, workers=2), GT_WORKER_MEMORY="64M") == [64 << 20] * 2
