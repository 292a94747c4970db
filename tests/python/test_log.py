"""The instruction log: golden logs of small programs, options, and errors that name their line."""

import os
import re
import shutil
import subprocess
import sys
import textwrap

import pytest

from support import until

LINE = re.compile(
    r"(?P<elapsed>\d+\.\d{6})s \| #(?P<seq>\d{4,}) \| (?P<event>[A-Z_]+) *\| (?P<source>(CLIENT|WORKER) \S+) *\| "
    r"(?P<command>\w+) *\| *(?P<size>\d+(\.\d)?(B|KB|MB|GB)) \| (?P<details>.*)"
)


def parse(text):
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        match = LINE.fullmatch(line)
        assert match, f"line {number} is not a line of a log: {line!r}"
        fields = match.groupdict()
        assert int(fields["seq"]) == number, line
        lines.append(fields)
    elapsed = [float(line["elapsed"]) for line in lines]
    assert elapsed == sorted(elapsed), "time goes back"
    return lines


def details(line):
    """The details as a dictionary; a quoted text, which comes last, keeps its spaces."""
    return {key: value.strip('"') for key, value in re.findall(r'(\w+)=("[^"]*"|\S+)', line["details"])}


def golden(lines):
    """The columns that do not depend on time: event, source, command, size, details."""
    untimed = [re.sub(r" start=\S+ duration=\S+", "", line["details"]) for line in lines]
    return "\n".join(
        f"{line['event']} {line['source']} {line['command']} {line['size']} {text}" for line, text in zip(lines, untimed)
    )


def logged(programs, source, **environment):
    log = programs.directory / "instructions.log"
    output = programs.run(source, GT_INSTRUCTION_LOG=log, **environment)
    return parse(log.read_text()), output


def test_a_golden_log(programs):
    """Records leave the client together, so the lines of one kind come in one order; the kinds interleave freely."""
    lines, _ = logged(
        programs,
        """
        import gt
        a = gt.full((2, 3), 2.0)
        b = gt.arange(3)
        c = (a * b + 1.5).relu()
        d = c.sum(dim=1)
        print(gt.where(d > 2, d, 0.0).tolist())
        """,
    )

    def of(event):
        return golden([line for line in lines if line["event"] == event])

    assert of("RECV") == textwrap.dedent(
        """\
        RECV CLIENT 1 CreateTensor 128B tensor_id=1 op=full shape=(2,3) dtype=float32 at=0-program.py:3
        RECV CLIENT 1 CreateTensor 128B tensor_id=2 op=arange shape=(3,) dtype=int64 at=0-program.py:4
        RECV CLIENT 1 BinaryOp 64B result=3 op=mul left=1 right=2 at=0-program.py:5
        RECV CLIENT 1 BinaryOp 64B result=4 op=add left=3 right=(1.5) at=0-program.py:5
        RECV CLIENT 1 UnaryOp 64B result=5 op=relu input=4 at=0-program.py:5
        RECV CLIENT 1 UnaryOp 64B result=6 op=sum input=5 axes=1 at=0-program.py:6
        RECV CLIENT 1 BinaryOp 64B result=7 op=gt left=6 right=(2) at=0-program.py:7
        RECV CLIENT 1 TernaryOp 64B result=8 op=where condition=7 left=6 right=(0) at=0-program.py:7
        RECV CLIENT 1 GetData 64B tensor_id=8
        RECV CLIENT 1 FreeTensor 64B tensor_id=7,4,3"""
    )
    assert of("WORKER_SEND").startswith(
        textwrap.dedent(
            """\
            WORKER_SEND WORKER auto_worker WorkerCreateTensor 128B op=full result=1_1 shape=(2,3)
            WORKER_SEND WORKER auto_worker WorkerCreateTensor 128B op=arange result=1_2 shape=(3,)
            WORKER_SEND WORKER auto_worker WorkerBinaryOp 64B op=mul result=1_3 shape=(2,3)
            WORKER_SEND WORKER auto_worker WorkerBinaryOp 64B op=add result=1_4 shape=(2,3)
            WORKER_SEND WORKER auto_worker WorkerUnaryOp 64B op=relu result=1_5 shape=(2,3)
            WORKER_SEND WORKER auto_worker WorkerUnaryOp 64B op=sum result=1_6 shape=(2,)
            WORKER_SEND WORKER auto_worker WorkerBinaryOp 64B op=gt result=1_7 shape=(2,)
            WORKER_SEND WORKER auto_worker WorkerTernaryOp 64B op=where result=1_8 shape=(2,)
            WORKER_SEND WORKER auto_worker WorkerGetData 64B tensor_id=1_8 shape=(2,)"""
        )
    )
    assert of("WORKER_RECV").startswith(
        textwrap.dedent(
            """\
            WORKER_RECV WORKER auto_worker WorkerCreateTensor 16B success=True op=full result=1_1 shape=(2,3)
            WORKER_RECV WORKER auto_worker WorkerCreateTensor 16B success=True op=arange result=1_2 shape=(3,)
            WORKER_RECV WORKER auto_worker WorkerBinaryOp 16B success=True op=mul result=1_3 shape=(2,3)
            WORKER_RECV WORKER auto_worker WorkerBinaryOp 16B success=True op=add result=1_4 shape=(2,3)
            WORKER_RECV WORKER auto_worker WorkerUnaryOp 16B success=True op=relu result=1_5 shape=(2,3)
            WORKER_RECV WORKER auto_worker WorkerUnaryOp 16B success=True op=sum result=1_6 shape=(2,)
            WORKER_RECV WORKER auto_worker WorkerBinaryOp 16B success=True op=gt result=1_7 shape=(2,)
            WORKER_RECV WORKER auto_worker WorkerTernaryOp 16B success=True op=where result=1_8 shape=(2,)
            WORKER_RECV WORKER auto_worker WorkerGetData 8B success=True tensor_id=1_8"""
        )
    )
    assert of("SEND") == "SEND CLIENT 1 GetData 8B success=True tensor_id=8"
    assert of("DISCONNECT").startswith(  # what the dispatcher sees first: the goodbye or the end
        (
            'DISCONNECT CLIENT 1 Disconnect 192B reason="the client said goodbye"',
            'DISCONNECT CLIENT 1 Disconnect 192B reason="the server is stopping"',
        )
    )


def test_a_workers_times_are_on_the_logs_clock(programs):
    lines, _ = logged(
        programs,
        """
        import gt
        a = gt.randn(400, 400)
        for _ in range(20):
            a = (a @ a).tanh()
        a.sum().item()
        """,
    )
    sent = {}
    spans = []
    for line in lines:
        fields = details(line)
        if line["event"] == "WORKER_SEND" and "result" in fields:
            sent[fields["result"]] = float(line["elapsed"])
        if line["event"] == "WORKER_RECV" and "start" in fields:
            start, duration = (float(fields[key].rstrip("s")) for key in ("start", "duration"))
            assert start + duration <= float(line["elapsed"]) + 1e-6, line
            if "result" in fields:
                assert start + 1e-6 >= sent[fields["result"]], line
            spans.append((start, duration, fields.get("op")))
    assert spans == sorted(spans), "a worker executes one at a time, in order"
    assert all(a[0] + a[1] <= b[0] + 1e-9 for a, b in zip(spans, spans[1:]))
    products = [duration for _, duration, op in spans if op == "matmul"]
    assert len(products) == 20 and min(products) > 1e-5


@pytest.mark.parametrize("link", ["memory", "ipc", "tcp"])
def test_a_server_logs_clients_and_workers(programs, link):
    log = programs.directory / "server.log"
    server = programs.server("--log", log)
    worker = programs.worker(server.port, "--name", "first", host=f"{link}://localhost")
    program = """
        import sys, gt
        gt.connect(sys.argv[1])
        print((gt.ones(4) + 1).sum().item())
    """
    assert programs.run(program, f"{link}://localhost:{server.port}") == "8.0\n"
    assert programs.run(program, f"{link}://localhost:{server.port}") == "8.0\n"
    worker.end()
    until(lambda: "DISCONNECT   | WORKER first" in log.read_text(), "the worker's leaving in the log")
    server.end()
    lines = parse(log.read_text())
    events = [(line["event"], line["source"]) for line in lines]
    for event in ("CONNECT", "DISCONNECT"):
        for source in ("WORKER first", "CLIENT 1", "CLIENT 2"):
            assert events.count((event, source)) == 1
    adds = [details(line) for line in lines if line["event"] == "WORKER_RECV" and "op=add" in line["details"]]
    assert [fields["result"] for fields in adds] == ["1_2", "2_2"]
    assert all(0 <= float(fields["duration"].rstrip("s")) < 10 for fields in adds)
    assert all(0 <= float(fields["start"].rstrip("s")) < 600 for fields in adds), "on the dispatcher's clock"


def test_large_arrays_are_counted(programs):
    lines, _ = logged(
        programs,
        """
        import gt, numpy
        x = gt.from_numpy(numpy.ones((512, 1024), dtype=numpy.float32))
        x.numpy()
        """,
    )
    sizes = {(line["event"], line["command"]): line["size"] for line in lines}
    assert sizes["RECV", "CreateTensor"] == sizes["WORKER_SEND", "WorkerCreateTensor"] == "2.0MB"


@pytest.mark.parametrize("size", [16 << 10, 1 << 20])
def test_the_log_is_rotated_by_size(programs, size):
    log = programs.directory / "instructions.log"
    programs.run(
        """
        import gt
        a = gt.ones(4)
        for _ in range(20000):
            b = a + 1
        gt.synchronize()
        """,
        GT_INSTRUCTION_LOG=log,
        GT_INSTRUCTION_LOG_SIZE=size,
        GT_AUTO_COMPILE=0,  # for a long log: the worker's lines of each instruction
    )
    files = sorted(path.name for path in programs.directory.iterdir() if path.name.startswith("instructions.log"))
    assert files == ["instructions.log", *(f"instructions.log.{k}" for k in range(1, 5))], "four old ones are kept"
    last = bytes_before = 0
    for name in [*(f"instructions.log.{k}" for k in range(4, 0, -1)), "instructions.log"]:
        path = programs.directory / name
        bytes_here = path.stat().st_size
        assert bytes_here <= size
        assert not bytes_before or bytes_before + bytes_here > size, "a file is begun when the next write does not fit"
        bytes_before = bytes_here
        for line in path.read_text().splitlines():
            match = LINE.fullmatch(line)
            assert match, f"a line was parted: {line!r}"
            sequence = int(match["seq"])
            assert sequence == last + 1 or last == 0
            last = sequence
    assert last > 60000


def test_a_full_disk_stops_the_log_and_not_the_work(programs):
    process = programs.python(
        """
        import gt
        a = gt.ones(4)
        for k in range(20000):
            b = a + k
        print(b.sum().item())
        """,
        GT_INSTRUCTION_LOG="/dev/full",
    )
    assert process.wait() == 0, process.text()
    assert process.output.read_text() == "80000.0\n"
    assert process.errors.read_text().count("the instruction log stops: /dev/full: No space left on device") == 1


def test_errors_do_not_name_lines_of_a_log_that_has_stopped(programs):
    """And instructions are no longer observed or timed."""
    output = programs.run(
        """
        import time
        import gt
        a, index = gt.ones(4), gt.tensor([7])
        deadline = time.monotonic() + 30
        text = "of the log"
        while "of the log" in text and time.monotonic() < deadline:
            try:
                a[index].sum().item()
            except IndexError as error:
                text = str(error)
        print(text)
        """,
        GT_INSTRUCTION_LOG="/dev/full",
        GT_TAPE="/dev/full",
    )
    assert "index 7 is out of bounds" in output and "of the log" not in output


def test_numbers_have_a_point_whatever_the_locale(programs):
    """A program with a decimal-comma locale has the same logs, statistics and settings."""
    (programs.directory / "commas").write_text('LC_NUMERIC\ndecimal_point ","\nthousands_sep ""\ngrouping -1\nEND LC_NUMERIC\n')
    made = shutil.which("localedef") and subprocess.run(
        ["localedef", "-c", "-i", "commas", "./xx_XX"], cwd=programs.directory, capture_output=True
    )
    if not made or not (programs.directory / "xx_XX").exists():
        pytest.skip("localedef cannot make a locale here")
    lines, output = logged(
        programs,
        """
        import locale
        locale.setlocale(locale.LC_NUMERIC, "xx_XX")
        assert locale.localeconv()["decimal_point"] == ","
        import gt
        print((gt.ones(2) * 2.5).sum().item())
        assert gt.debug.dispatcher_stats()["seconds"] > 0
        assert gt.debug.get_worker_stats(wait=True)
        """,
        LOCPATH=programs.directory,
        GT_CONNECT_TIMEOUT="7.5",
        GT_TIMEOUT="59.5",
    )
    assert output == "5.0\n"
    assert "right=(2.5)" in next(line["details"] for line in lines if "op=mul" in line["details"])


@pytest.mark.parametrize("variable", ["GT_INSTRUCTION_LOG", "GT_TAPE"])
@pytest.mark.parametrize("forked", [False, True], ids=["started", "forked"])
def test_two_processes_do_not_write_to_one_file(programs, variable, forked):
    """A program's children inherit its environment: each process writes its own log, and no log is lost."""
    path = programs.directory / "shared"
    process = programs.python(
        """
        import os, subprocess, sys
        import gt

        def work(number):
            a = gt.ones(number)
            for _ in range(100):
                a = a + 1
            print(a.sum().item(), flush=True)

        if sys.argv[1] == "child":
            work(3)
            sys.exit()
        work(2)
        if sys.argv[1] == "started":
            subprocess.run([sys.executable, __file__, "child"], check=True)
        elif child := os.fork():
            assert os.waitpid(child, 0)[1] == 0
        else:
            work(3)
            gt.disconnect()
            os._exit(0)
        work(2)
        """,
        "forked" if forked else "started",
        **{variable: path},
    )
    assert process.wait() == 0, process.text()
    assert process.output.read_text() == "202.0\n303.0\n202.0\n"
    beside = [file for file in programs.directory.iterdir() if re.fullmatch(r"shared\.\d+", file.name)]
    assert len(beside) == 1
    assert process.errors.read_text().count(f"shared; this one's is {beside[0]}") == 1
    if variable == "GT_TAPE":
        return
    adds = [sum("RECV" in line and "op=add" in line for line in file.read_text().splitlines() if "WORKER" not in line)
            for file in (path, *beside)]
    assert adds == [200, 100]
    for file in (path, *beside):
        parse(file.read_text())


def test_a_log_that_cannot_be_written(programs):
    path = programs.directory / "no" / "such" / "log"
    process = programs.python("import gt; gt.ones(1).item()", GT_INSTRUCTION_LOG=path)
    assert process.wait() != 0
    assert f"cannot write the instruction log to {path}: No such file or directory" in process.text()


def test_a_dispatcher_object_writes_its_log_file_and_console(programs):
    log = programs.directory / "object.log"
    process = programs.python(
        """
        import sys, threading
        import gt
        from gt.dispatcher.dispatcher import Dispatcher
        from gt.worker.worker import Worker
        dispatcher = Dispatcher(host="localhost", port=0, log_file=sys.argv[1], console_log=True)
        serving = threading.Thread(target=dispatcher.start)
        serving.start()
        working = threading.Thread(target=Worker("w").connect_to_dispatcher, kwargs={"dispatcher_port": dispatcher.port})
        working.start()
        gt.connect(f"localhost:{dispatcher.port}")
        (gt.ones(3) * 2).sum().item()
        gt.disconnect()
        dispatcher.stop()
        serving.join()
        working.join()
        """,
        log,
    )
    assert process.wait() == 0, process.text()
    assert process.output.read_text() == log.read_text()
    assert "op=mul" in log.read_text()
    parse(log.read_text())


# ---- where failures come from -----------------------------------------------------------------------------------


def test_an_error_names_its_line_its_worker_and_its_instruction(programs):
    lines, output = logged(
        programs,
        """
        import gt
        table = gt.ones(3)

        def look_up(index):
            return table[-(-gt.tensor([index]))]

        wrong = look_up(7)
        later = (wrong + 1).sum()
        try:
            later.item()
        except IndexError as error:
            print(error)
        print(table.sum().item())
        """,
    )
    match = re.fullmatch(
        r"indexing: index 7 is out of bounds for dimension 0 with size 3 \(on auto_worker\), "
        r"issued at (.*)/0-program.py:6, instruction #(\d+) of the log\n3.0\n",
        output,
    )
    assert match, output
    named = lines[int(match[2]) - 1]
    assert named["event"] == "RECV" and "op=wrap_index" in named["details"]
    errors = [line for line in lines if line["event"] == "ERROR"]
    assert [details(line)["instruction"] for line in errors] == ["#" + match[2]]
    assert "index 7 is out of bounds" in errors[0]["details"]
    failed = [details(line) for line in lines if line["event"] == "WORKER_RECV" and "success=False" in line["details"]]
    assert [fields.get("op") for fields in failed] == ["wrap_index", "take", "add", "sum", None]


def test_signals_are_in_the_log_and_in_errors(programs):
    lines, output = logged(
        programs,
        """
        import gt
        table = gt.ones(3)
        with gt.signal.context('look up'):
            bad = table[-(-gt.tensor([5]))]
        total = table.sum()
        try:
            bad.tolist()
        except IndexError as error:
            print(error)
        """,
    )
    assert re.search(r"issued at .*0-program.py:5 in signal 'look up', instruction #\d+ of the log\n$", output), output
    signals = [number for number, line in enumerate(lines) if line["event"] == "SIGNAL"]
    assert [lines[number]["details"] for number in signals] == ['enters scope=look_up name="look up"']
    scoped = [details(line)["op"] for line in lines if line["event"] == "RECV" and details(line).get("scope") == "look_up"]
    assert scoped == ["upload", "neg", "neg", "wrap_index", "take"]
    assert "op=sum" in "".join(line["details"] for line in lines[signals[0] :])


def test_the_log_tells_when_a_signal_is_entered_again_and_its_gradients(programs):
    lines, _ = logged(
        programs,
        """
        import gt
        w = gt.ones(3, requires_grad=True)
        for _ in range(2):
            with gt.signal.context('plain'):
                a = (w * 2).sum()
            a.backward()
            with gt.signal.context('forward', backward='gradients'):
                b = (w * 3).sum()
            b.backward()
        print(w.grad.tolist())
        """,
    )
    signals = [details(line)["name"] for line in lines if line["event"] == "SIGNAL"]
    assert signals == ["plain", "plain (backward)", "forward", "gradients"] * 2


def test_without_a_log_an_error_still_names_its_line(programs):
    output = programs.run(
        """
        import gt
        from gt import nn

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.embedding = nn.Embedding(10, 4)

            def forward(self, x):
                return self.embedding(x)

        output = Model()(-(-gt.tensor([3, 12])))
        try:
            print(output)
        except IndexError as error:
            print(error)
        """
    )
    assert "12" in output and output.endswith("0-program.py:11\n"), "the user's line, not one of gt.nn"


def test_lines_are_told_apart_and_forgotten_code_is_not_confused(programs):
    output = programs.run(
        """
        import gt
        table = gt.ones(3)
        for k in range(3000):           # more code objects than any cache has room for, at recycled addresses
            scope = {'table': table, 'gt': gt}
            code = compile('\\n' * (k % 100) + 'bad = table[-(-gt.tensor([5]))]', f'generated_{k}.py', 'exec')
            exec(code, scope)
            if k % 500 == 499:
                try:
                    scope['bad'].item()
                except IndexError as error:
                    print(str(error).rpartition(' at ')[2])
        """
    )
    assert output == "".join(f"generated_{k}.py:{k % 100 + 1}\n" for k in range(499, 3000, 500))


def test_a_failure_is_found_after_many_operations_on_it(programs):
    lines, output = logged(
        programs,
        """
        import gt
        bad = gt.ones(3)[-(-gt.tensor([7]))]
        for _ in range(100):
            bad = bad + 1
        try:
            bad.item()
        except IndexError as error:
            print(error)
        """,
    )
    match = re.search(r"0-program.py:3, instruction #(\d+) of the log\n$", output)
    assert match, output
    assert "op=wrap_index" in lines[int(match[1]) - 1]["details"]


SPREAD_FAILURE = """
    import sys, gt
    {start}
    with gt.signal.context("dp"):
        x = gt.randn(9, 4)
        bad = gt.ones(9, 4)[-(-gt.tensor([0, 1, 2, 3, 4, 5, 6, 7, 99]))]
        total = (x + bad).sum()
    try:
        total.item()
    except IndexError as error:
        print(error)
"""


@pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])
def test_an_error_of_another_worker_names_its_line_too(programs, processes):
    """The index is wrong on the third worker only; its failure reaches the reader through an all-reduce."""
    log = programs.directory / "instructions.log"
    config = programs.directory / "three.yaml"
    config.write_text("dp: {shard: {axis: 0, workers: [0, 1, 2]}}")
    if processes:
        server = programs.server("--log", log)
        for number in range(3):
            programs.worker(server.port, "--name", f"auto_worker_{number}" if number else "auto_worker")
            until(lambda: log.read_text().count("RegisterWorker") == number + 1, "the worker in the log")
        source = SPREAD_FAILURE.format(start="gt.connect(sys.argv[1])")
        output = programs.run(source, f"localhost:{server.port}", GT_CONFIG=config)
        server.end()
    else:
        output = programs.run(SPREAD_FAILURE.format(start="gt.gpu_workers(3)"), GT_INSTRUCTION_LOG=log, GT_CONFIG=config)
    match = re.fullmatch(
        r"indexing: index 99 is out of bounds for dimension 0 with size 9 \(on auto_worker_2\), "
        r"issued at .*\d-program.py:6 in signal 'dp', instruction #(\d+) of the log\n",
        output,
    )
    assert match, output
    lines = parse(log.read_text())
    assert "op=wrap_index" in lines[int(match[1]) - 1]["details"]
    reduced = [line for line in lines if line["event"] == "WORKER_RECV" and "AllReduce" in line["command"]]
    assert reduced and all("success=False" in line["details"] for line in reduced)


def test_a_number_is_told_apart_from_a_tensor(programs):
    lines, _ = logged(
        programs,
        """
        import gt
        a = gt.ones(3)
        b = gt.ones(3)
        print((a + 2).sum().item(), (a + b).sum().item(), (a * -1.5).sum().item())
        """,
    )
    operands = [line["details"].split(" at=")[0].partition("left=")[2] for line in lines if " left=" in line["details"]]
    assert operands == ["1 right=(2)", "1 right=2", "1 right=(-1.5)"]


def test_workers_that_meet_are_not_in_the_log_but_what_they_move_is(programs):
    config = programs.directory / "two.yaml"
    config.write_text("dp: {shard: {axis: 0, workers: [0, 1]}}")
    lines, _ = logged(
        programs,
        """
        import gt
        gt.gpu_workers(2)
        with gt.signal.context("dp"):
            x = gt.ones(4, 4)
            total = (x @ x).sum()
        print(total.item())
        """,
        GT_CONFIG=config,
    )
    commands = {line["command"] for line in lines if line["event"].startswith("WORKER_")}
    assert {"WorkerAllGather", "WorkerAllReduce"} & commands, commands
    assert all(name.startswith("Worker") for name in commands), commands


def test_what_workers_move_is_logged_with_its_bytes_where_it_arrives(programs):
    lines, _ = logged(
        programs,
        """
        import gt
        gt.gpu_workers(2)
        gt.register_config("rows", gt.SignalConfig(gt.ShardConfig(0)))
        x = gt.signal.tensor(gt.ones(16, 16), name="rows")     # half of it goes to the second worker
        print((x.sum(dim=0) * 2).sum().item())
        """,
    )
    sizes = {}
    for line in lines:
        if line["event"] == "WORKER_SEND":
            sizes.setdefault(details(line).get("op"), set()).add(line["size"])
    assert sizes["recv"] == {"512B"} and sizes["all_reduce"] == {"64B"}, sizes


def test_a_client_is_known_by_its_program(programs):
    """Its name in `gt top` and the log: script, module or program, and the process id."""
    (programs.directory / "trainer.py").write_text("import gt; gt.ones(1).item()")
    for number, (arguments, name) in enumerate(
        [
            (["-u", programs.directory / "trainer.py", "--fast"], "trainer.py"),
            (["-W", "ignore", "-m", "trainer"], "trainer"),
            (["-c", "import gt; gt.ones(1).item()"], os.path.basename(sys.executable)),
        ]
    ):
        log = programs.directory / f"{number}.log"
        path = os.pathsep.join([str(programs.directory), *sys.path])
        process = programs.start([sys.executable, *arguments], "named", GT_INSTRUCTION_LOG=log, PYTHONPATH=path)
        assert process.wait() == 0, process.text()
        connected = [line for line in parse(log.read_text()) if line["event"] == "CONNECT" and "CLIENT" in line["source"]]
        assert re.fullmatch(rf"{re.escape(name)}:\d+", details(connected[0])["name"])


FOUR_WORKERS = """
    import sys, gt
    gt.gpu_workers(4)
    with gt.signal.context('rows'):
        x, w = gt.randn(64, 16), gt.randn(16, 16)
        for _ in range(20):
            y = (x @ w).relu().sum()
    if sys.argv[1] == "read":
        y.item()
    if sys.argv[1] == "synchronize":
        gt.synchronize()
"""


@pytest.mark.parametrize("backend", ["cpu", "late"])
@pytest.mark.parametrize("end", ["read", "synchronize", "exit"])
def test_the_log_of_a_program_has_its_end(programs, backend, end):
    """What a worker was sent it has executed, and the log has both lines, however the program ends."""
    log, config = programs.directory / "run.log", programs.directory / "rows.yaml"
    config.write_text("rows: {shard: {axis: 0, workers: [0, 1, 2, 3]}}")
    programs.run(FOUR_WORKERS, end, GT_INSTRUCTION_LOG=log, GT_CONFIG=config, GT_BACKEND=backend, GT_AUTO_COMPILE=0)
    columns = [[column.strip() for column in line.split("|")] for line in log.read_text().splitlines()]
    for worker in ("auto_worker", "auto_worker_1", "auto_worker_2", "auto_worker_3"):
        sent, received = ([line[4] for line in columns if line[2:4] == [event, f"WORKER {worker}"]]
                          for event in ("WORKER_SEND", "WORKER_RECV"))
        assert len(sent) > 40 and sorted(received) == sorted(sent)


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("backend", ["cpu", "late"])
def test_the_log_is_in_its_file_at_synchronize(programs, backend, workers):
    """A program may be killed after synchronize() and has lost no line."""
    log, config, then = (programs.directory / name for name in ("run.log", "rows.yaml", "then.log"))
    config.write_text(f"rows: {{shard: {{axis: 0, workers: {list(range(workers))}}}}}")
    programs.run(
        """
        import shutil, sys
        import gt
        gt.gpu_workers(int(sys.argv[1]))
        with gt.signal.context("rows"):
            x = gt.randn(64, 16)
            for _ in range(20):
                y = (x * 2).relu().sum()
        gt.synchronize()
        shutil.copy(sys.argv[2], sys.argv[3])
        """,
        workers, log, then, GT_INSTRUCTION_LOG=log, GT_CONFIG=config, GT_BACKEND=backend, GT_AUTO_COMPILE=0)
    columns = [[column.strip() for column in line.split("|")] for line in then.read_text().splitlines()]
    for worker in ["auto_worker"] + [f"auto_worker_{k}" for k in range(1, workers)]:
        sent, received = ([line[4] for line in columns if line[2:4] == [event, f"WORKER {worker}"]]
                          for event in ("WORKER_SEND", "WORKER_RECV"))
        assert len(sent) > 40 and sorted(received) == sorted(sent)


def test_every_line_has_its_columns_at_the_same_place(programs):
    """The longest command, WorkerCreateTensor, fits into its column."""
    logged(programs, "import gt; print((gt.ones(3, 4) @ gt.ones(4, 3)).relu().sum().item())", GT_AUTO_COMPILE=0)
    lines = (programs.directory / "instructions.log").read_text().splitlines()
    columns = {tuple(at for at, mark in enumerate(line) if mark == "|")[:6] for line in lines}
    assert any("WorkerCreateTensor" in line for line in lines) and len(columns) == 1, columns
