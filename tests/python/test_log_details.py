"""The instruction log: shapes and parts in the lines of workers, and trace ids."""

import re
import subprocess
import sys

import pytest

from support import GT_BINARY
from test_log import details, logged, parse


def lines_of(lines, event, op):
    """The details of the lines of an op, by worker."""
    found = {}
    for line in lines:
        if line["event"] == event and f"op={op} " in line["details"] + " ":
            found.setdefault(line["source"], []).append(details(line))
    return found


WORKERS = ["WORKER auto_worker", "WORKER auto_worker_1", "WORKER auto_worker_2", "WORKER auto_worker_3"]


def test_lines_of_workers_say_which_part_of_what_they_make(programs):
    """66 rows on four workers: parts of 17, 17, 16 and 16 rows, and what is made of them."""
    config = programs.directory / "rows.yaml"
    config.write_text("rows: {shard: {axis: 0, workers: [0, 1, 2, 3]}}")
    lines, _ = logged(
        programs,
        """
        import numpy, gt
        gt.gpu_workers(4)
        w = gt.ones(5, 3)
        with gt.signal.context('rows'):
            x = gt.from_numpy(numpy.ones((66, 5), "f"))
            y = (x @ w).relu()
            z = y.sum(0)
        print(z.tolist(), y.tolist()[0])
        """,
        GT_CONFIG=config,
        GT_AUTO_COMPILE=0,
    )
    rows = [17, 17, 16, 16]
    for event in ("WORKER_SEND", "WORKER_RECV"):
        for op in ("matmul", "relu"):
            found = lines_of(lines, event, op)
            for part, worker in enumerate(WORKERS):
                [line] = found[worker]
                assert (line["shape"], line["shard"], line["axis"]) == (f"({rows[part]},3)", f"{part + 1}/4", "0")
        sums = lines_of(lines, event, "sum")
        assert [[line["shape"] for line in sums[worker]] for worker in WORKERS] == 4 * [["(3,)"]]
        added = lines_of(lines, event, "all_reduce")
        assert [[line["shape"] for line in added[worker]] for worker in WORKERS] == 4 * [["(3,)"]]
    arrived = lines_of(lines, "WORKER_SEND", "recv")
    assert [arrived[worker][0]["shape"] for worker in WORKERS[1:]] == ["(17,5)", "(16,5)", "(16,5)"]
    assert [arrived[worker][0]["shard"] for worker in WORKERS[1:]] == ["2/4", "3/4", "4/4"]
    assert not [line for line in lines if "shard=" in line["details"] and line["event"] not in ("WORKER_SEND", "WORKER_RECV")]


def test_shapes_of_workers_where_records_wait_for_room(programs):
    """The workers' queues are full for most of the time: each line still has its shape and its part."""
    config = programs.directory / "rows.yaml"
    config.write_text("rows: {shard: {axis: 0, workers: [0, 1, 2, 3]}}")
    lines, _ = logged(
        programs,
        """
        import gt
        gt.gpu_workers(4)
        with gt.signal.context('rows'):
            x, slow = gt.ones(64, 5), gt.ones(2048, 512)
            for _ in range(30):
                slow = (slow @ slow.sum(0).expand(512, 512)) * 0.001
            for _ in range(20000):
                x = x.exp()
        gt.synchronize()
        """,
        GT_CONFIG=config,
        GT_AUTO_COMPILE=0,
    )
    for event in ("WORKER_SEND", "WORKER_RECV"):
        found = lines_of(lines, event, "exp")
        for part, worker in enumerate(WORKERS):
            assert len(found[worker]) == 20000
            assert {(line["shape"], line["shard"]) for line in found[worker]} == {("(16,5)", f"{part + 1}/4")}


def test_shapes_of_many_kinds(programs):
    """More shapes than are remembered at a time: those of new tensors are right all the same."""
    lines, _ = logged(
        programs,
        """
        import gt
        for size in range(1, 5001):
            x = gt.ones(size, 2)
            y = x.exp()
        gt.synchronize()
        """,
        GT_AUTO_COMPILE=0,
    )
    found = lines_of(lines, "WORKER_SEND", "exp")["WORKER auto_worker"]
    assert [line["shape"] for line in found] == [f"({size},2)" for size in range(1, 5001)]


def test_pieces_of_a_part_are_not_taken_for_it(programs):
    """From rows on two workers to columns on two others: each column part is put together from two pieces."""
    lines, _ = logged(
        programs,
        """
        import gt
        gt.gpu_workers(4)
        gt.register_config("rows", gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[0, 1])))
        gt.register_config("columns", gt.SignalConfig(shard=gt.ShardConfig(axis=1, workers=[2, 3])))
        with gt.signal.context("rows"):
            x = gt.arange(48).reshape(6, 8).float()
        y = gt.signal.tensor(x, name="columns")
        assert y.tolist() == [[8 * i + j for j in range(8)] for i in range(6)]
        """,
        GT_AUTO_COMPILE=0,
    )
    arrived, joined = lines_of(lines, "WORKER_SEND", "recv"), lines_of(lines, "WORKER_SEND", "cat")
    for part, worker in enumerate(WORKERS[2:]):
        pieces = [line for line in arrived[worker] if line["shape"] == "(3,4)"]
        assert len(pieces) == 2 and not any("shard" in line for line in pieces)
        assert (joined[worker][0]["shape"], joined[worker][0]["shard"], joined[worker][0]["axis"]) == ("(6,4)", f"{part + 1}/2", "1")


def test_shapes_of_what_hot_paths_make(programs):
    """A path's results take slots that other tensors had: lines of instructions on them have the right shapes."""
    lines, _ = logged(
        programs,
        """
        import gt
        other = [gt.ones(100 + k) for k in range(20)]
        gt.synchronize()
        del other
        x, w = gt.ones(3, 4), gt.ones(4, 4)
        for step in range(60):
            y = (x @ w).relu()
            z = y.sum(0)
            x = y * 0.1
        gt.synchronize()
        print(z.exp().tolist(), x.tanh().tolist())
        """,
        GT_COMPILE=1,
        GT_HOTPATH_THRESHOLD=3,
        GT_HOTPATH_MIN_SEQ=2,
    )
    assert any(line["command"] == "WorkerRunPath" for line in lines)
    for event in ("WORKER_SEND", "WORKER_RECV"):
        assert lines_of(lines, event, "exp")["WORKER auto_worker"][-1]["shape"] == "(4,)"
        assert lines_of(lines, event, "tanh")["WORKER auto_worker"][-1]["shape"] == "(3,4)"


TRACED = """
    import gt
    a = gt.ones(3)
    print((a + a).exp().tolist())
"""
CONTEXT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_trace_ids_tell_what_belongs_together(programs):
    lines, _ = logged(programs, TRACED, GT_TRACE_IDS=1, TRACEPARENT=CONTEXT, GT_AUTO_COMPILE=0)
    [connect] = [details(line) for line in lines if line["event"] == "CONNECT" and "CLIENT" in line["source"]]
    assert (connect["trace"], connect["parent"]) == (CONTEXT.split("-")[1], CONTEXT.split("-")[2])
    spans = {}
    for line in lines:
        fields = details(line)
        if line["event"] in ("RECV", "WORKER_SEND", "WORKER_RECV") and "op" in fields:
            assert fields["trace"] == connect["trace"]
            spans.setdefault(fields["span"], []).append((line["event"], fields["op"]))
    assert all(re.fullmatch("[0-9a-f]{16}", span) for span in spans)
    assert sorted(map(sorted, spans.values())) == sorted(
        [("RECV", op), ("WORKER_RECV", op), ("WORKER_SEND", op)] for op in ("full", "add", "exp")
    )
    assert all(details(line)["trace"] == connect["trace"] for line in lines if line["event"] == "SEND")


@pytest.mark.parametrize(
    "context",
    ["", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
     "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
     CONTEXT[:-1], CONTEXT + "-extra", CONTEXT.replace("-", "_"), "x" * 200],
)
def test_without_a_valid_trace_context_a_program_has_its_own(programs, context):
    """As the W3C recommends: a context that is not valid is as none."""
    lines, _ = logged(programs, TRACED, GT_TRACE_IDS=1, TRACEPARENT=context)
    traces = {details(line)["trace"] for line in lines if line["event"] == "RECV"}
    assert len(traces) == 1 and re.fullmatch("[0-9a-f]{32}", *traces) and CONTEXT.split("-")[1] not in traces
    assert not any("parent=" in line["details"] for line in lines)


def test_trace_ids_of_several_clients(programs):
    """One server, one after the other: each is a trace of its own, and the compact form has the same lines."""
    log = programs.directory / "run.gtlog"
    server = programs.server("--trace-ids", "--log", log)
    programs.worker(server.port)
    for _ in range(3):
        programs.run("import sys, gt; gt.connect(sys.argv[1]); gt.ones(3).sum().item()", f"localhost:{server.port}")
    server.end()
    lines = parse(subprocess.run([GT_BINARY, "log", log], capture_output=True, text=True, check=True).stdout)
    traces = {}
    for line in lines:
        if line["source"].startswith("CLIENT") and "trace" in details(line):
            traces.setdefault(line["source"], set()).add(details(line)["trace"])
    assert len(traces) == 3 and all(len(each) == 1 for each in traces.values()) and len(set.union(*traces.values())) == 3

