"""Engines in Python, as users meet them: `numpy`, `pytorch`, their own classes, and the examples of docs/engines.md.

The op table runs on `numpy` and `pytorch` in `make test` (Makefile); here are the parts that it does not reach.
"""

import json
import pathlib
import re

import pytest

from support import GT_BINARY, REPOSITORY

EXAMPLES = REPOSITORY / "examples" / "engines"
BUILT_EXAMPLES = pathlib.Path(GT_BINARY).parent / "examples" / "engines"

TRAINING = """
    import json
    import numpy as np
    import gt
    from gt import _gt, nn, optim

    {connect}
    rng = np.random.default_rng(3)
    x, y = (gt.from_numpy(rng.standard_normal(shape).astype("float32")) for shape in ((16, 3, 8, 8), (16, 4)))
    model = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(96, 16),
                          nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4))
    with gt.no_grad():
        for parameter in model.parameters():
            parameter.copy_(gt.from_numpy(rng.standard_normal(tuple(parameter.shape)).astype("float32") * 0.2))
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(5):
        loss = nn.functional.cross_entropy(model(x), y.softmax(1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    worker = json.loads(_gt.stats(workers=True))["workers"][0]
    print(json.dumps([losses, worker["engine"], {{name: op.get("on_host", 0) for name, op in worker["ops"].items() if op["count"]}}]))
"""


def training(programs, connect="", **environment):
    """(losses, engine, {op: calls on the host})"""
    return json.loads(programs.run(TRAINING.format(connect=connect), **environment).splitlines()[-1])


@pytest.mark.parametrize("engine, missing", [("numpy", {"gelu", "gelu_backward", "rand"}), ("pytorch", {"rand"})])
def test_a_model_trains_as_on_the_cpu_engine(programs, engine, missing):
    expected, _, _ = training(programs, GT_BACKEND="cpu")
    losses, name, host = training(programs, GT_BACKEND=engine)
    assert losses == pytest.approx(expected, rel=1e-4) and losses[-1] < losses[0]
    assert name == engine and {"matmul", "conv", "conv_weight", "max_pool", "layer_norm", "mul"} <= host.keys()
    assert {op for op, calls in host.items() if calls} <= missing


@pytest.mark.parametrize("engine", ["numpy", "pytorch"])
def test_a_worker_of_its_own(programs, engine):
    expected, _, _ = training(programs, GT_BACKEND="cpu")
    server = programs.server()
    worker = programs.worker(server.port, "--backend", engine, python=True)
    losses, name, _ = training(programs, f"gt.connect('localhost:{server.port}', timeout=30)")
    assert name == engine and losses == pytest.approx(expected, rel=1e-4)
    assert worker.alive
    worker.signal(2)
    assert worker.wait() == 0, worker.text()


def test_a_command_without_python_says_how(programs):
    server = programs.server()
    worker = programs.worker(server.port, "--backend", "numpy")
    assert worker.wait() == 1 and "python -m gt.worker --backend numpy" in worker.text()


def test_hot_paths_and_several_workers(programs):
    text = programs.run(
        """
        import gt
        gt.gpu_workers(2)
        with gt.signal.context("rows"):
            x = gt.arange(12.0).reshape(6, 2)
        for _ in range(30):
            x = (x * 2 + 1) / 2
        print(x.placement, x.sum().item(), (x.T @ x).shape)
        """,
        GT_BACKEND="numpy",
        GT_COMPILE=1,
        GT_CONFIG=written(programs, "rows.yaml", "rows: {shard: {axis: 0, workers: [0, 1]}}"),
    )
    assert text.startswith("split(axis=0, workers=[0,1]) 246.0 "), text


def written(programs, name, text):
    path = programs.directory / name
    path.write_text(text)
    return path


# ---- classes of users -----------------------------------------------------------------------------------------

OWN = """
    import json
    import os
    os.environ["GT_BACKEND"] = "mine"
    import numpy as np
    import gt
    from gt import _gt

    class Mine(gt.engines.Engine):
{methods}
    gt.engines.register("mine", Mine)
    def host_calls():
        return {{name: op["on_host"] for name, op in json.loads(_gt.stats(workers=True))["workers"][0]["ops"].items() if op.get("on_host")}}
{program}
"""


def indented(text, by):
    return "\n".join(" " * by + line for line in text.strip("\n").splitlines())


def own(programs, methods, program, **environment):
    return programs.run(OWN.format(methods=indented(methods, 8), program=indented(program, 4)), **environment)


def test_an_exception_poisons_its_result_and_names_its_line(programs):
    text = own(
        programs,
        """
def mul(self, out, a, b, compute):
    raise KeyError("mul is broken")
def exp(self, out, a, compute):
    return np.zeros((7, 7))
def log(self, out, a):
    pass
""",
        """
a = gt.ones(3)
bad = a * 2
for result in (bad + 1, a.exp(), a.log()):
    try:
        result.tolist()
    except Exception as error:
        print(type(error).__name__, error)
print((a + 1).tolist())
""",
    )
    first, second, third, last = text.splitlines()
    assert re.search(r"^RuntimeError mul: KeyError: 'mul is broken' \(.*program\.py:\d+\) \(on auto_worker\)", first), first
    assert second.startswith("GtError exp: ValueError: the method returned an array of shape (7, 7), expected (3,)"), second
    assert third.startswith("GtTypeError log: TypeError: ") and "compute" in third
    assert last == "[2.0, 2.0, 2.0]"


def test_the_text_of_an_exception_is_whole(programs):
    """With characters that a C string or UTF-8 cannot have."""
    text = own(
        programs,
        r"""
def mul(self, out, a, b, compute):
    raise ValueError("a lone \ud800 surrogate, a \0 NUL, an \u00fc")
""",
        """
try:
    (gt.ones(3) * 2).tolist()
except Exception as error:
    print(ascii(str(error)))
""",
    )
    assert r"mul: ValueError: a lone \\ud800 surrogate, a \\x00 NUL, an \xfc (" in text and "program.py:" in text, text


@pytest.mark.parametrize("body, report", [('return "1G"', r"memory_limit must return an int, not str"),
                                          ("return 1 / 0", r"memory_limit: ZeroDivisionError: division by zero")])
def test_a_memory_limit_that_fails_is_named_with_its_line(programs, body, report):
    methods = BYTES.replace("return 1 << 30", body) + """
def write(self, memory, offset, data):
    memory[offset:offset + len(data)] = data
"""
    process = programs.python(OWN.format(methods=indented(methods, 8), program="    print(gt.ones(3).sum().item())"))
    assert process.wait() == 0 and process.output.read_text() == "3.0\n", process.text()
    lines = process.errors.read_text().splitlines()
    assert lines and all(re.search(rf"backend mine: {report} \(.*program\.py:\d+\)$", line) for line in lines), lines


def test_ops_without_a_method_run_on_the_host_and_are_counted(programs):
    text = own(
        programs,
        """
def add(self, out, a, b, compute):
    np.add(a, b, out=np.asarray(out), dtype=compute, casting="unsafe")
def mul(self, out, a, b, compute):
    return NotImplemented
def sub(self, out, a, b, compute):
    raise NotImplementedError("not today")
""",
        """
a = gt.ones(3)
print((a * 3 + 1 - a).tolist(), a.exp().sum().item() > 8, host_calls())
""",
    )
    assert text == "[3.0, 3.0, 3.0] True {'exp': 1, 'sub': 1, 'mul': 1, 'sum': 1, 'full': 1}\n", text


def test_a_returned_array_is_rounded_to_bfloat16(programs):
    text = own(
        programs,
        """
def exp(self, out, a, compute):
    return np.array([1.5, 1 + 2**-8, 1 + 3 * 2**-8, -np.inf, np.nan])
def neg(self, out, a, compute):
    return np.asarray(a) ^ 0x8000
def log(self, out, a, compute):
    return 3
""",
        """
a = gt.arange(5.0, dtype=gt.bfloat16)
print(a.exp().tolist(), (-a).tolist(), a.log().tolist())
""",
    )
    assert text == "[1.5, 1.0, 1.015625, -inf, nan] [-0.0, -1.0, -2.0, -3.0, -4.0] [3.0, 3.0, 3.0, 3.0, 3.0]\n"


def test_a_returned_array_of_another_shape_is_an_error(programs):
    text = own(
        programs,
        """
def exp(self, out, a, compute):
    return np.ones(1)
def log(self, out, a, compute):
    return np.ones((2, 3))[:, :1]
def neg(self, out, a, compute):
    return np.ones(6)
""",
        """
for compute in (gt.exp, gt.log, gt.neg):
    try:
        print(compute(gt.ones(2, 3)).tolist())
    except gt.GtError as error:
        print(str(error).split(" (/")[0])
print(gt.ones(2).tolist())
""",
    )
    assert text.splitlines() == [
        "exp: ValueError: the method returned an array of shape (1,), expected (2, 3)",
        "log: ValueError: the method returned an array of shape (2, 1), expected (2, 3)",
        "neg: ValueError: the method returned an array of shape (6,), expected (2, 3)",
        "[1.0, 1.0]",
    ], text


def test_operands_and_attributes(programs):
    text = own(
        programs,
        """
def note(self, *args, **attributes):
    print([x if isinstance(x, (bool, int, float)) else (x.dtype, x.shape, x.stride) for x in args[1:]], attributes)
    return NotImplemented
add = sum = var = cat = conv = take = full = clamp = scatter_reduce = note
""",
        """
a = gt.zeros(2, 3)
b = a.T[:, ::-1] + 2.5
(a.sum(1, keepdim=True), a.var(0, correction=0), gt.cat([a, a], 1), a[gt.tensor([1])], a.clamp(min=0))
gt.nn.functional.conv1d(gt.zeros(1, 2, 5), gt.zeros(2, 1, 3), stride=2, padding=1, groups=2)
a.scatter_reduce(0, gt.tensor([[0, 1, 1]]), gt.ones(1, 3), "amax", include_self=False)
gt.synchronize()
""",
    )
    for expected in (
        "[] {'value': 0.0}",
        "[('float32', (3, 2), (1, -3)), 2.5] {'compute': 'float32'}",
        "[('float32', (2, 3), (3, 1))] {'axes': (1,), 'keepdim': True}",
        "{'axes': (0,), 'keepdim': False, 'correction': 0.0}",
        "[('float32', (2, 3), (3, 1)), ('float32', (2, 3), (3, 1))] {'axis': 1}",
        "{'compute': 'float32', 'p': 0.0, 'q': inf}",
        "'strides': (2,), 'padding': (1,), 'dilation': (1,), 'size': (3,), 'windows': (0,), 'groups': 2",
        "{'axis': 0, 'reduce': 'amax', 'include_self': False}",
    ):
        assert expected in text, text


def test_a_view_is_lent_for_one_call(programs):
    text = own(
        programs,
        """
def add(self, out, a, b, compute):
    self.view, self.array = a, np.asarray(out)
    np.add(a, b, out=self.array)
def mul(self, out, a, b, compute):
    return np.asarray(self.view)
""",
        """
a = gt.ones(3)
print((a + a).tolist())
try:
    (a * a).tolist()
except RuntimeError as error:
    print(error)
""",
    )
    assert text.startswith("[2.0, 2.0, 2.0]\nmul: RuntimeError: the call that lent this view is over")
    assert "the method add keeps an array of its operands" in programs.processes[-1].text()


def test_an_ascending_view_is_lent_for_one_call(programs):
    text = own(
        programs,
        """
def neg(self, out, a, compute):
    Mine.view, axes = a.ascending()
    return -np.flip(np.asarray(Mine.view), axes)
def exp(self, out, a, compute):
    Mine.array = np.asarray(a.ascending()[0])
    return NotImplemented
""",
        """
print((-gt.arange(3.0)[::-1]).tolist())
try:
    np.asarray(Mine.view)
except RuntimeError as error:
    print(error)
gt.arange(3.0)[::-1].exp().tolist()
""",
    )
    assert text.startswith("[-2.0, -1.0, -0.0]\nthe call that lent this view is over")
    assert "the method exp keeps an array of its operands" in programs.processes[-1].text()


def test_a_buffer_has_the_layout_that_the_consumer_asks_for(programs):
    """A flag such as C_CONTIGUOUS allows the consumer to ignore the strides."""
    text = own(
        programs,
        """
def layouts(self, view):
    import ctypes
    room = ctypes.create_string_buffer(256)  # larger than Py_buffer
    given = []
    for name, flags in dict(simple=0, strides=0x18, c=0x38, f=0x58, any=0x98, writable=0x19).items():
        try:
            ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), room, flags)
            ctypes.pythonapi.PyBuffer_Release(room)
            given.append(name)
        except BufferError:
            pass
    return given
def add(self, out, a, b, compute):
    print([self.layouts(x) for x in (out, a, b)])
    array = np.asarray(a)
    print(array.flags.writeable, a.__array_interface__["data"][1], out.__array_interface__["data"][1])
    import torch
    np.add(array, torch.from_dlpack(b).numpy(), out=np.asarray(out))
""",
        """
print((gt.ones(2, 3) + gt.arange(2.0).reshape(2, 1).expand(2, 3)).tolist())
print((gt.ones(2) + gt.arange(4.0)[::2]).tolist())
""",
    )
    assert text.splitlines() == [
        "[['simple', 'strides', 'c', 'any', 'writable'], ['simple', 'strides', 'c', 'any'], ['strides']]",
        "False True False",
        "[[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]",
        "[['simple', 'strides', 'c', 'f', 'any', 'writable'], ['simple', 'strides', 'c', 'f', 'any'], ['strides']]",
        "False True False",
        "[1.0, 3.0]",
    ]


def test_names(programs):
    text = programs.run(
        """
        import gt
        print(gt.engines.names())
        gt.engines.register("mine", gt.engines.Engine)
        for name in ("mine", "cpu", "a b"):
            try:
                gt.engines.register(name, gt.engines.Engine)
            except ValueError as error:
                print(error)
        """
    )
    assert text.splitlines() == [
        "['numpy', 'pytorch']",
        "there is an engine 'mine' already",
        "'cpu' cannot be the name of an engine: there is a built-in one",
        "'a b' cannot be the name of an engine: it takes letters, digits, - and _",
    ]


@pytest.mark.parametrize(
    "source, words",
    [
        ("import nowhere", "backend 'broken' cannot be loaded: ModuleNotFoundError: No module named 'nowhere' ("),
        ("Engine = None", "backend 'broken' cannot be loaded: TypeError: an engine is a class"),
        ("class Engine:\n    host_memory = True\n    def __init__(self, threads):\n        raise OSError('no device')",
         "backend 'broken' cannot be opened: OSError: no device ("),
    ],
)
def test_a_module_that_cannot_be_used(programs, source, words):
    written(programs, "gt_engine_broken.py", source)
    text = programs.run(
        """
        import gt
        try:
            gt.ones(2)
        except Exception as error:
            print(error)
        """,
        GT_BACKEND="broken",
        PYTHONPATH=f"{programs.directory}:{package()}",
    )
    assert text.startswith(words), text


def test_several_workers_load_one_engine_at_the_same_time(programs):
    written(
        programs,
        "gt_engine_met.py",
        """
import threading
import gt.engines
meeting = threading.Barrier(3, timeout=60)
def __getattr__(name):
    if name == "Engine":
        meeting.wait()  # all workers load it before one registers it
        return gt.engines.Engine
    raise AttributeError(name)
""",
    )
    text = programs.run(
        """
        import socket
        import threading
        from gt import _gt
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            address = "127.0.0.1:%d" % silent.getsockname()[1]
            def work(name):
                try:
                    _gt.Worker().run(address, name, "met", 0.1)
                except Exception as error:
                    print(str(error) + "\\n", end="")
            threads = [threading.Thread(target=work, args=(f"w{k}",)) for k in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        """,
        PYTHONPATH=f"{programs.directory}:{package()}",
    )
    assert [line.split(" at ")[0] for line in text.splitlines()] == ["no server"] * 3, text


def package():
    import gt

    return pathlib.Path(gt.__file__).absolute().parents[1]


def test_a_program_ends_while_the_engine_computes(programs):
    """The worker needs the GIL to end, and the program waits for the worker."""
    text = own(
        programs,
        """
def add(self, out, a, b, compute):
    return np.asarray(a) + 1
""",
        """
a = gt.ones(10)
for _ in range(20000):
    a = a + 1
print("end")
""",
    )
    assert text == "end\n"


# ---- memory of the engine's own -------------------------------------------------------------------------------

FAR = """
import torch
from gt.engines.torch_engine import Engine as Torch

class Engine(Torch):
    device = torch.device("cpu")
    host_memory = False
"""


BYTES = """
host_memory = False
def allocate(self, size):
    return bytearray(size)
def read(self, memory, offset, data):
    data[:] = memory[offset:offset + len(data)]
def memory_limit(self, sharers):
    return 1 << 30
def memory_identity(self, unused):
    return 7
"""


def test_the_data_of_read_and_write_are_lent_for_one_call(programs):
    text = own(
        programs,
        BYTES + """
def write(self, memory, offset, data):
    memory[offset:offset + len(data)] = data
    if len(data) == 80000:
        print(data.readonly)
        Mine.kept = data
    elif len(data) == 80008:
        Mine.kept = np.frombuffer(data, np.uint8)
""",
        """
print(gt.from_numpy(np.ones(20000, "float32")).sum().item())
try:
    Mine.kept[0]
except ValueError as error:
    print(error)
try:
    print(gt.from_numpy(np.ones(20002, "float32")).sum().item())
except RuntimeError as error:
    print(error)
""",
    )
    first, second, third, last = text.splitlines()
    assert (first, second) == ("True", "20000.0") and "released memoryview" in third
    assert "write keeps its data" in last


VIEWS = """
    import gt
    a = gt.arange(12.0).reshape(3, 4)
    print(a.T[::-1, 1:].tolist(), a[:, ::-2].lgamma().sum().item(), gt.zeros(0, 3).tolist())
    a[1:, ::2] = 7
    print(a.to(gt.bfloat16).tolist(), gt.erfinv(a[:1, 1:2] / 3).item())
    gt.manual_seed(1)
    print(gt.randn(3).tolist())
"""


def test_memory_that_the_host_cannot_read(programs):
    """What the pytorch engine does on a GPU, on the CPU: blocks are tensors, operands views of them."""
    written(programs, "gt_engine_far_torch.py", FAR)
    expected, _, _ = training(programs, GT_BACKEND="cpu")
    environment = dict(GT_BACKEND="far_torch", PYTHONPATH=f"{programs.directory}:{package()}")
    losses, name, _ = training(programs, **environment)
    assert name == "far_torch" and losses == pytest.approx(expected, rel=1e-4)
    assert programs.run(VIEWS, **environment) == programs.run(VIEWS, GT_BACKEND="pytorch")


# ---- the examples ---------------------------------------------------------------------------------------------

EXAMPLE_PROGRAM = """
    import json
    import gt
    from gt import _gt
    a = gt.ones(3, 3)
    b = (a @ a + a) * 2.5
    print(b.sum().item(), (b.int() + 1)[0].tolist(), b.exp().log().mean().item())
    ops = json.loads(_gt.stats(workers=True))["workers"][0]["ops"]
    print({name: ops[name].get("on_host", 0) for name in ("add", "mul", "matmul", "exp")})
"""
EXAMPLE_OUTPUT = "90.0 [11, 11, 11] 10.0\n"


def test_the_example_in_python(programs):
    text = programs.run(EXAMPLE_PROGRAM, GT_BACKEND="tiny", PYTHONPATH=f"{EXAMPLES}:{package()}")
    assert text == EXAMPLE_OUTPUT + "{'add': 0, 'mul': 0, 'matmul': 0, 'exp': 1}\ntiny: 5 calls\n"
    assert len((EXAMPLES / "gt_engine_tiny.py").read_text().splitlines()) <= 50


def test_the_example_in_c(programs):
    text = programs.run(EXAMPLE_PROGRAM, GT_BACKEND="plain", GT_ENGINE_PATH=BUILT_EXAMPLES)
    assert text == EXAMPLE_OUTPUT + "{'add': 1, 'mul': 0, 'matmul': 0, 'exp': 1}\n"
    assert len((EXAMPLES / "plain.c").read_text().splitlines()) <= 200


def test_results_do_not_take_over_strides_of_single_rows(programs):
    """A row of a flipped tensor is whole, whatever the stride of its axis of length 1 says: the same on every engine."""
    program = """
        import gt
        x = gt.tensor([[1., 2., 3.], [4., 5., 6.]])
        print([(x.flip(0)[1:] * k).tolist() for k in range(1, 8)])
        print([(-x.flip(0, 1)[:1].T.flip(1)).tolist() for k in range(7)])
    """
    expected = programs.run(program, GT_BACKEND="reference")
    assert "[[7.0, 14.0, 21.0]]" in expected
    for engine in ("numpy", "pytorch", "cpu", "far", "late"):
        assert programs.run(program, GT_BACKEND=engine) == expected, engine


WAITS = """
    import gt

    class Waits(gt.engines.Engine):
        def add(self, out, a, b, compute):
            return (gt.ones(2) * 3).numpy()

    gt.engines.register('waits', Waits)
    try:
        print((gt.ones(2) + gt.ones(2)).tolist())
    except RuntimeError as error:
        print(error)
    print((gt.ones(2) * 2).tolist())
"""


def test_a_method_that_waits_for_the_server_it_works_for(programs):
    said, then = programs.run(WAITS, GT_BACKEND="waits").splitlines()[-2:]
    assert "this thread does GT's work and cannot wait for it" in said and then == "[2.0, 2.0]"


PLACES = """
    import numpy as np
    import gt

    class Places(gt.engines.Engine):
        def exp(self, out, x, compute):
            return np.sum(x, axis=7)
        def log(self, out, x, compute):
            return np.ones((7, 7))
        def sin(self, out, x):
            return 1

    gt.engines.register('places', Places)
    for name in ('exp', 'log', 'sin'):
        try:
            getattr(gt.ones(2), name)().tolist()
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            print(str(error).replace(chr(10), ' '))
"""


def test_an_error_names_the_line_of_the_engine(programs):
    """Not that of the library which the method called, nor of the package, which stores what it returned."""
    lines = programs.run(PLACES, GT_BACKEND="places").splitlines()[-3:]
    first = next(k for k, line in enumerate(PLACES.splitlines(), 1) if "def exp" in line)
    for line, number in zip(lines, (first + 1, first + 2, first + 4)):
        assert re.search(rf"\(\S+:{number}\)", line), (line, number)


@pytest.mark.parametrize("code, words", [
    ("gt.engines.register('mine', gt.engines.Engine())", "an engine is a class"),
    ("gt.engines.register('mine', int)", "is no engine, it has no host_memory"),
    ("gt.engines.register('numpy', gt.engines.Engine)", "there is one in this package"),
    ("gt.engines.register('cuda', gt.engines.Engine)", "there is a built-in one"),
])
def test_what_cannot_be_registered(programs, code, words):
    program = f"""
        import gt
        try:
            {code}
        except (TypeError, ValueError) as error:
            print(error)
    """
    assert words in programs.run(program)
