"""Environment variables: no output by default, status and debug lines on request, the choice of engine."""

import os
import re

import pytest
from support import GT_BINARY, until

PROGRAM = """
    import gt
    t = gt.randn(3, 4)
    print((t @ t.T + 1).shape)
    gt.synchronize()
    try:
        t + gt.zeros(7, 7)
    except ValueError:
        pass
"""
OUTPUT = "(3, 3)\n"


def shape_line(text):
    return text.replace("gt.Size([3, 3])", "(3, 3)")


def test_silent_by_default(programs):
    process = programs.python(PROGRAM)
    assert process.wait() == 0, process.text()
    assert shape_line(process.output.read_text()) == OUTPUT
    assert process.errors.read_text() == ""


def test_server_and_worker_are_silent_by_default(programs):
    server = programs.cluster()
    programs.run(f"import gt; gt.connect('localhost:{server.port}'); gt.ones(2).sum().item()")
    server.end()
    server.workers[0].wait()
    assert server.errors.read_text() == "" and server.workers[0].errors.read_text() == ""


@pytest.mark.parametrize("variable", ["GT_VERBOSE", "GT_DEBUG_CLIENT", "GT_DEBUG_DISPATCHER", "GT_DEBUG_WORKER"])
def test_lines_when_asked(programs, variable):
    process = programs.python(PROGRAM, **{variable: 1})
    assert process.wait() == 0, process.text()
    lines = process.errors.read_text().splitlines()
    assert lines and all(re.match(r"([-\d]+ [:.\d]+ )?\[gt", line) for line in lines), process.text()
    assert shape_line(process.output.read_text()) == OUTPUT, "status lines go to standard error"
    for off in ("0", "", "00"):
        silent = programs.python(PROGRAM, **{variable: off})
        assert silent.wait() == 0 and silent.errors.read_text() == ""


def test_debug_variables_take_1_or_0(programs):
    """As the other settings: any other value is named once, and is not taken for 1."""
    variables = ["GT_VERBOSE", "GT_DEBUG_CLIENT", "GT_DEBUG_DISPATCHER", "GT_DEBUG_WORKER"]
    process = programs.python(PROGRAM, **dict.fromkeys(variables, "no"))
    assert process.wait() == 0
    lines = process.errors.read_text().splitlines()
    assert sorted(line.split("=")[0] for line in lines) == sorted(f"[gt error] {name}" for name in variables), lines


def test_debug_lines_name_their_part_and_the_operation(programs):
    process = programs.python(PROGRAM, GT_DEBUG_WORKER=1, GT_DEBUG_DISPATCHER=1, GT_DEBUG_CLIENT=1)
    assert process.wait() == 0, process.text()
    text = process.errors.read_text()
    assert "matmul" in text
    for part in ("client", "dispatcher", "worker"):
        assert part in text, f"no line of the {part}:\n{text}"


def test_debug_lines_name_the_tensor(programs):
    """Of what is read and freed, too; a question's ticket is no tensor."""
    process = programs.python("""
        import gt
        x = gt.zeros(2) + 1
        y = x * 2
        del y
        print(x.tolist())
    """, GT_DEBUG_WORKER=1, GT_DEBUG_DISPATCHER=1, GT_DEBUG_CLIENT=1)
    assert process.wait() == 0, process.text()
    lines = [line[line.index("["):] for line in process.errors.read_text().splitlines()]
    for part in ("[gt client] ", "[gt dispatcher] client 1: ", "[gt worker] auto_worker: "):
        mine = [line.removeprefix(part) for line in lines if line.startswith(part)]
        made = [line.split()[1] for line in mine if line.startswith(("add", "mul"))]
        assert f"fetch {made[0]} (ticket 1)" in mine, mine
        assert any(line.startswith("free") and made[1] in line.replace(",", "").split() for line in mine), mine


def test_verbose_server(programs):
    server = programs.server(GT_VERBOSE=1)
    worker = programs.worker(server.port, GT_VERBOSE=1)
    programs.run(f"import gt; gt.connect('localhost:{server.port}'); gt.ones(2).sum().item()")
    worker.end()
    server.end()
    assert server.text() and worker.text()
    assert str(server.port) in server.text()


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_backend(programs, backend):
    text = programs.run(
        """
        import gt
        t = gt.arange(6).reshape(2, 3).float()
        print((t @ t.T).tolist(), t.exp().sum().item() > 100)
    """,
        GT_BACKEND=backend,
    )
    assert text == "[[5.0, 14.0], [14.0, 50.0]] True\n"


def test_an_unknown_backend_is_an_error(programs):
    process = programs.python(
        """
        import gt
        try:
            gt.ones(2).sum().item()
        except Exception as error:
            print("quux" in str(error))
    """,
        GT_BACKEND="quux",
    )
    assert process.wait() == 0, process.text()
    assert process.output.read_text() == "True\n"


def test_an_unknown_modifier_is_an_error_of_the_server(programs):
    server = programs.start([GT_BINARY, "server", "-p", 0], "server", GT_MODIFIERS="statistics,quux")
    assert server.wait() == 1, server.text()
    assert "unknown stream modifier 'quux'" in server.text()


def test_the_backend_of_a_worker(programs):
    server = programs.server()
    programs.worker(server.port, "--backend", "reference", GT_VERBOSE=1)
    programs.run(
        f"import gt; gt.connect('localhost:{server.port}', timeout=20); assert gt.ones(2).sum().item() == 2"
    )
    failed = programs.worker(server.port, "--backend", "quux")
    assert failed.wait() != 0 and "quux" in failed.text()
    assert server.alive


@pytest.mark.parametrize("size", [1, 16, 1000])
def test_worker_batch_size(programs, size):
    text = programs.run(
        """
        import gt
        t = gt.zeros(4)
        for _ in range(1000):
            t = t + 1
        print(t.tolist())
    """,
        GT_WORKER_BATCH_SIZE=size,
    )
    assert text == "[1000.0, 1000.0, 1000.0, 1000.0]\n"


NONSENSE = {
    "GT_WORKER_BATCH_SIZE": ["many", "-1", "2.5"],
    "GT_CONNECT_TIMEOUT": ["soon", "0", "1 s"],
    "GT_NUM_THREADS": ["two", "1e9"],
    "GT_WORKER_MEMORY": ["lots", "4Q", "0"],
    "GT_TIMEOUT": ["never", "-5", "nan"],
}


@pytest.mark.parametrize("which", range(3))
def test_nonsense_in_the_environment_is_named_once(programs, which):
    """One line each on standard error, with variable and value; the defaults are used."""
    values = {variable: nonsense[which % len(nonsense)] for variable, nonsense in NONSENSE.items()}
    server = programs.server(**values)
    worker = programs.worker(server.port, **values)
    client = programs.python(
        """
        import sys
        import gt
        for transport in ("memory", "tcp", "tcp"):
            gt.connect(f"{transport}://localhost:{sys.argv[1]}")
            print(gt.ones(2).sum().item())
    """,
        server.port,
        **values,
    )
    assert client.wait() == 0 and client.output.read_text() == "2.0\n" * 3, client.text()
    worker.end()
    server.end()
    for process, read in (
        (server, ["GT_WORKER_BATCH_SIZE", "GT_TIMEOUT"]),
        (worker, ["GT_NUM_THREADS", "GT_WORKER_MEMORY", "GT_CONNECT_TIMEOUT"]),
        (client, ["GT_CONNECT_TIMEOUT", "GT_TIMEOUT"]),
    ):
        lines = process.errors.read_text().splitlines()
        for variable in read:
            assert sum(f"{variable}={values[variable]} " in line for line in lines) == 1, (variable, lines)
        assert all("[gt error] GT_" in line for line in lines), lines


@pytest.mark.parametrize("name, text", [("pigeons", "GT_EXCHANGE is 'auto', 'mesh', 'ucx' or 'nccl', not 'pigeons'"),
                                        ("nccl", "GT_EXCHANGE=nccl cannot be used: it is for workers of the cuda engine")])
def test_the_exception_says_why_an_embedded_worker_cannot_start(programs, name, text):
    """Not that there is no worker, after a time-out, which here is longer than the test waits."""
    process = programs.python("""
        import gt
        for workers in (1, 3):
            try:
                gt.gpu_workers(workers)
                gt.ones(2).sum().item()
            except ValueError as error:
                print(error)
    """, GT_BACKEND="cpu", GT_EXCHANGE=name, GT_CONNECT_TIMEOUT=100000)
    assert process.wait() == 0, process.text()
    assert process.output.read_text() == f"{text}\n" * 2, process.text()


def test_empty_settings_are_none(programs):
    process = programs.python("import gt; gt.ones(2).sum().item()", GT_VERBOSE="", **dict.fromkeys(NONSENSE, ""))
    assert process.wait() == 0 and process.text() == "", process.text()


def test_programs_explain_themselves(programs):
    server = programs.server()
    binary = server.arguments[0]
    for arguments in (["--help"], ["server", "--help"], ["worker", "--help"], ["--version"]):
        process = programs.start([binary, *arguments], "help")
        assert process.wait() == 0, f"{arguments}: {process.text()}"
        assert process.output.read_text()
    text = programs.processes[1].output.read_text()
    assert "server" in text and "worker" in text
    for arguments in (
        ["quux"],
        ["server", "--quux"],
        ["server", "-p", "x"],
        ["worker", "-p"],
        ["worker", "--threads", "many"],
        ["worker", "--timeout", "-1"],
        ["server", "-p", "70000"],
        [],
    ):
        process = programs.start([binary, *arguments], "wrong")
        ended = process.wait()
        assert process.text(), arguments
        assert ended != 0 or arguments == [], f"{arguments} was accepted"


@pytest.mark.parametrize("link", ["memory", "tcp"])
def test_a_servers_lines_have_the_time_and_say_who(programs, link):
    """Program, process and user of a client, whatever its link; where it is, if it came by the network."""
    server = programs.server(GT_VERBOSE=1)
    programs.worker(server.port, "--name", "first", host=f"{link}://localhost")
    program = "import os, sys, gt; gt.connect(sys.argv[1]); gt.ones(3).sum().item(); print(os.getpid())"
    pid = programs.run(program, f"{link}://localhost:{server.port}").strip()
    until(lambda: " left: " in server.text(), "the client's leaving")
    server.end()
    lines = server.text().splitlines()
    lines = [line for line in lines if "listening on" not in line]
    stamp = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \[gt( warning| error)?\] "
    assert all(re.match(stamp, line) for line in lines), lines
    where = "this host" if link == "memory" else r"127\.0\.0\.1"
    who = rf"client 1 \(\d+-program\.py:{pid}, uid {os.getuid()}, {where}\) "
    for what in (f"connected by {link}", "left: the client said goodbye"):
        assert any(re.fullmatch(stamp + who + what, line) for line in lines), lines
    worker = rf"worker first \(cpu, uid {os.getuid()}, {where}\) joined by {link}"
    assert any(re.fullmatch(stamp + worker, line) for line in lines), lines
