"""Engines that are plug-ins, as a user meets them: found by name, refused in one line, and a program runs on them.

far and late are for tests: the memory of far faults when the host touches it, late finishes later.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from support import GT_BINARY, PATIENCE_S, clean_environment

BUILD = pathlib.Path(GT_BINARY).parent
FAULTY = BUILD / "tests" / "plugins"
EXAMPLES = BUILD / "examples" / "engines"
ENGINES = ["far", "late"]

FIRST_ERROR = """
    import gt
    try:
        gt.ones(2).sum().item()
    except gt.GtError as error:
        print(error)
"""


def refusal(programs, backend, **environment):
    """What a Python program is told of a backend that cannot be used: one line."""
    text = programs.run(FIRST_ERROR, GT_BACKEND=backend, **environment)
    assert text.count("\n") == 1 and text.endswith("\n"), text
    return text[:-1]


# ---- finding them ---------------------------------------------------------------------------------------------


def test_an_unknown_backend_lists_what_there_is(programs, tmp_path):
    assert re.fullmatch(
        r"unknown backend 'quux'; there are cpu, reference, numpy, pytorch, null, and plug-ins (cuda, )?far, late "
        r"\(gt-engine-quux\.so is not in [^,]*/gt\)",
        refusal(programs, "quux"),
    )
    (tmp_path / "gt-engine-mine.so").write_text("")
    text = refusal(programs, "quux", GT_ENGINE_PATH=f"{tmp_path}:/nowhere")
    assert "far, late, mine (" in text and f"is not in {tmp_path}, /nowhere, /" in text


@pytest.mark.parametrize("backend", ["../far", "/far", "a b", "far.so"])
def test_a_name_is_not_a_path(programs, backend):
    assert refusal(programs, backend).startswith(f"'{backend}' is not the name of a backend")


@pytest.mark.parametrize(
    "backend, words",
    [
        ("no_symbol", "is not an engine: it has no symbol gt_engine_plugin"),
        ("other_version", "is built for version 1 of the engine interface"),
        ("no_init", "is not an engine: it has no init function"),
        ("other_sizes", "is built with another gt_view: "),
        ("ring_a", "cannot start: backend 'ring_a' is being loaded"),
        ("other_table", "is built with another op table"),
        ("failing", "cannot start: there is no device of this kind"),
        ("misnamed", "has another name"),
        ("incomplete", "lacks functions"),
        ("undefined", "cannot be loaded: "),
    ],
)
def test_a_faulty_plugin_is_refused(programs, backend, words):
    text = refusal(programs, backend, GT_ENGINE_PATH=FAULTY)
    assert text.startswith(f"backend '{backend}'") and words in text and str(FAULTY) in text


def test_a_file_that_is_no_library_is_refused(programs, tmp_path):
    """GT_ENGINE_PATH comes before the package's folder, where a good one is."""
    (tmp_path / "gt-engine-far.so").write_text("not a library")
    text = refusal(programs, "far", GT_ENGINE_PATH=tmp_path)
    assert text.startswith("backend 'far' cannot be loaded: ") and str(tmp_path) in text


def test_a_pipe_is_refused(programs, tmp_path):
    """Opening it would block."""
    os.mkfifo(tmp_path / "gt-engine-far.so")
    text = refusal(programs, "far", GT_ENGINE_PATH=tmp_path)
    assert text == f"backend 'far' cannot be loaded: {tmp_path}/gt-engine-far.so is not a regular file"


def test_a_worker_names_the_fault(programs):
    server = programs.server()
    for python in (False, True):
        worker = programs.worker(server.port, "--backend", "failing", python=python, GT_ENGINE_PATH=FAULTY)
        assert worker.wait() == 1
        assert "cannot start: there is no device of this kind" in worker.text()
    assert server.alive


def run_gt(binary, *arguments, **environment):
    return subprocess.run(
        [binary, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=clean_environment(**environment),
    )


@pytest.mark.parametrize("folder", ["bin", "lib/python{}.{}/site-packages/gt"])
def test_an_installed_command_finds_plugins(tmp_path, folder):
    """Beside itself, and in the package of the same installation."""
    command = tmp_path / "bin" / "gt"
    folder = tmp_path / folder.format(*sys.version_info)
    command.parent.mkdir()
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(GT_BINARY, command)
    shutil.copy(BUILD / "gt-engine-far.so", folder / "gt-engine-installed.so")
    done = run_gt(command, "worker", "--backend", "installed")
    assert done.returncode == 1 and f"the engine in {folder}/gt-engine-installed.so has another name" in done.stderr


def test_the_example_counts(programs):
    server = programs.server()
    worker = programs.worker(server.port, "--backend", "counting", GT_ENGINE_PATH=EXAMPLES, GT_VERBOSE=1)
    programs.run(
        f"""
        import gt
        gt.connect('localhost:{server.port}', timeout=20)
        a = gt.ones(3, 3)
        print((a @ a + a + 1).sum().item())
        """
    )
    worker.end()
    assert re.search(r"\[gt\] counting: add 2, sum 1, matmul 1, full 1$", worker.text(), re.M), worker.text()


# ---- a program on them ----------------------------------------------------------------------------------------

PROGRAM = """
    import sys
    import numpy as np
    import gt
    from gt import nn, optim

    if len(sys.argv) > 2:
        gt.connect(sys.argv[2], timeout=20)
    a, b = gt.tensor([1.0, 2.0, 3.0]), gt.tensor([10.0, 20.0, 30.0])
    print((a + b).tolist(), (2 - a).tolist(), a.sum().item())

    x = np.random.default_rng(1).standard_normal((40, 30)).astype(np.float32)
    t = gt.from_numpy(x)
    print(np.allclose((t @ t.T).numpy(), x @ x.T, atol=1e-4), np.array_equal(t.T[::-1, 1::3].numpy(), x.T[::-1, 1::3]))
    large = np.arange(600000, dtype=np.float64)  # goes by shared memory, both ways
    print(np.array_equal((gt.from_numpy(large) + 1).numpy(), large + 1))

    t[3, ::2] = 7
    x[3, ::2] = 7
    index = gt.tensor([5, -1, 0])
    print(np.array_equal(t.numpy(), x), np.array_equal(t[index].numpy(), x[[5, -1, 0]]))
    print(np.array_equal(t[t > 1].numpy(), x[x > 1]), gt.cat([t, t[:2]], 0).shape)

    w = gt.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    (w @ w).sum().backward()
    print(w.grad.tolist())

    for bad in (lambda: t[-(-gt.tensor([99]))], lambda: gt.linalg.inv(gt.zeros(2, 2)), lambda: a + gt.ones(4)):
        try:
            (bad() * 2).numpy()
        except Exception as error:
            print(type(error).__name__, str(error).split(" (on")[0])
    print((a * 2).tolist())  # the session goes on

    gt.manual_seed(3)
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2))
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    inputs, targets = gt.randn(16, 5), gt.randint(0, 2, (16,))
    losses = []
    for _ in range(20):
        loss = nn.functional.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(losses[-1] < losses[0], f"{losses[-1]:.5f}")

    gt.save(model.state_dict(), sys.argv[1])
    other = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2))
    other.load_state_dict(gt.load(sys.argv[1]))
    print(np.array_equal(other(inputs).detach().numpy(), model(inputs).detach().numpy()))
"""


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What the program prints on the cpu engine."""
    from support import Programs

    started = Programs(tmp_path_factory.mktemp("cpu"))
    try:
        text = started.run(PROGRAM, started.directory / "model.safetensors")
    finally:
        started.end()
    assert "IndexError indexing: index 99 is out of bounds" in text and "LinAlgError" in text
    assert "False" not in text
    return text


@pytest.mark.parametrize("engine", ENGINES)
def test_a_program(programs, expected, engine):
    assert programs.run(PROGRAM, programs.directory / "model.safetensors", GT_BACKEND=engine) == expected


def test_a_program_while_everything_is_held_back(programs, expected):
    """late starts nothing before the worker says that no more comes, or waits."""
    text = programs.run(PROGRAM, programs.directory / "model.safetensors", GT_BACKEND="late", GT_LATE_HOLD=1)
    assert text == expected


def test_a_program_with_a_short_queue(programs, expected):
    text = programs.run(PROGRAM, programs.directory / "model.safetensors", GT_BACKEND="late", GT_LATE_QUEUE=1)
    assert text == expected


@pytest.mark.parametrize("engine", ENGINES)
def test_a_program_on_a_server(programs, expected, engine):
    server = programs.server()
    programs.worker(server.port, "--backend", engine)
    text = programs.run(PROGRAM, programs.directory / "model.safetensors", f"localhost:{server.port}")
    assert text == expected


@pytest.mark.parametrize("engine", ENGINES)
def test_several_embedded_workers(programs, engine):
    """Each has an engine of its own; what is spread goes from one to the other."""
    config = programs.directory / "config.yaml"
    config.write_text("rows: {shard: {axis: 0, workers: [0, 1]}}\n")
    text = programs.run(
        """
        import numpy as np
        import gt
        gt.gpu_workers(2)
        x = np.arange(60, dtype=np.float32).reshape(10, 6)
        with gt.signal.context('rows'):
            t = gt.from_numpy(x)
            print(t.placement)
            print(np.array_equal((t.T @ t).numpy(), x.T @ x), np.array_equal((t + 1)[::-1].numpy(), (x + 1)[::-1]))
            print(t.sum(0).tolist() == x.sum(0).tolist())
        try:
            t[-(-gt.tensor([77]))].numpy()
        except IndexError as error:
            print("77" in str(error))
        """,
        GT_BACKEND=engine,
        GT_CONFIG=config,
    )
    assert text == "split(axis=0, workers=[0,1])\nTrue True\nTrue\nTrue\n"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_tape_is_replayed(programs, engine):
    tape = programs.directory / "tape"
    programs.run("import gt; x = gt.arange(12).float().reshape(3, 4); print((x @ x.T).exp().sum().item())", GT_TAPE=tape)
    done = run_gt(GT_BINARY, "replay", tape, "--diff", engine)
    assert done.returncode == 0 and f"no difference from {engine}" in done.stdout, done.stdout + done.stderr
    done = run_gt(GT_BINARY, "replay", tape, "--engine", engine)
    assert done.returncode == 0 and f"on {engine}" in done.stdout, done.stdout + done.stderr


def test_replay_says_why_not(programs):
    tape = programs.directory / "tape"
    programs.run("import gt; print(gt.ones(2).sum().item())", GT_TAPE=tape)
    done = run_gt(GT_BINARY, "replay", tape, "--diff", "failing", GT_ENGINE_PATH=FAULTY)
    assert done.returncode == 1 and "there is no device of this kind" in done.stderr, done.stderr
    done = run_gt(GT_BINARY, "replay", tape, "--diff", "quux")
    assert done.returncode == 1 and "quux" in done.stderr and "not a file" in done.stderr, done.stderr


def test_an_engine_that_does_not_open_is_an_error_at_once(programs):
    """The probe's open fails with what it found: an embedded server says so instead of waiting for a worker."""
    program = programs.python("import gt; gt.ones(3)", GT_BACKEND="probe", GT_ENGINE_PATH=FAULTY, GT_CONNECT_TIMEOUT=1000)
    assert program.wait() == 1
    assert "engine cpu" in program.text() and "has no worker" not in program.text()
