"""On a card: the same program has the same bits, whatever executes its operations. Where there is no card these tests are skipped."""
import pathlib

import pytest

from support import until
from test_cuda_engine import SPREAD as SPREAD_EMBEDDED
from test_sharded_processes import PROGRAM as SPREAD_PROGRAM

pytestmark = pytest.mark.skipif(not pathlib.Path("/dev/nvidiactl").exists(), reason="there is no NVIDIA GPU here (no /dev/nvidiactl)")

OPERATIONS = """
    import hashlib
    import numpy as np
    import gt
    import gt.nn as nn
    import gt.nn.functional as F

    rng = np.random.default_rng(7)
    x, y, z = (gt.tensor(rng.standard_normal((24, 40)).astype(np.float32)) for _ in range(3))
    row, weight = (gt.tensor(rng.standard_normal(40).astype(np.float32)) for _ in range(2))
    target = gt.tensor(rng.integers(0, 40, 24))
    positive = x.abs() + 0.1

    def gradients(make, *operands):
        operands = [t.detach().requires_grad_() for t in operands]
        result = make(*operands)
        (result * gt.ones_like(result).cumsum(0)).sum().backward()
        return [result.detach(), *(t.grad for t in operands)]

    one = ["exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid", "erf", "expm1", "log1p", "reciprocal", "square", "abs", "neg"]
    functions = ["relu", "gelu", "silu", "softplus", "elu", "leaky_relu", "hardswish", "logsigmoid", "mish"]
    cases = {name: lambda name=name: gradients(lambda t: getattr(gt, name)(t), positive) for name in one}
    cases |= {name: lambda name=name: gradients(getattr(F, name), x) for name in functions}
    cases |= {
        "arithmetic": lambda: gradients(lambda a, b: (a * b - a / b) * row + 0.3, x, positive),
        "power": lambda: gradients(lambda a, b: b ** a + b ** 3 + b ** 0.5, x, positive),
        "lerp": lambda: gradients(lambda a, b: gt.lerp(a, b, 0.3), x, y),
        "addcmul": lambda: gradients(lambda a, b, c: gt.addcmul(a, b, c, value=0.7), x, y, z),
        "addcdiv": lambda: gradients(lambda a, b, c: gt.addcdiv(a, b, c, value=0.7), x, y, positive),
        "hypot": lambda: gradients(gt.hypot, x, y),
        "where": lambda: gradients(lambda a, b: gt.where(a > 0, a, b), x, y),
        "softmax": lambda: gradients(lambda a: F.softmax(a, -1), x),
        "log_softmax": lambda: gradients(lambda a: F.log_softmax(a, -1), x),
        "layer_norm": lambda: gradients(lambda a, w, b: F.layer_norm(a, (40,), w, b), x, weight, row),
        "cross_entropy": lambda: gradients(lambda a: F.cross_entropy(a, target), x),
        "mse_loss": lambda: gradients(F.mse_loss, x, y),
        "logsumexp": lambda: gradients(lambda a: a.logsumexp(1), x),
        "linear": lambda: gradients(F.linear, x, gt.cat([weight, row]).view(2, 40), gt.ones(2)),
        **{f"{name} along {axis}": lambda name=name, axis=axis: gradients(lambda a: getattr(a, name)(dim=axis), x)
           for name in ("sum", "mean", "var", "std", "norm", "amax", "prod") for axis in (0, 1, (0, 1)) if name != "prod" or axis in (0, 1)},
        **{f"sum of {count}": lambda count=count: [gt.tensor(rng.standard_normal(count).astype(np.float32)).sum()]
           for count in (3, 31, 257, 1000, 4000)},
    }
    for name, case in cases.items():
        made = [t.numpy() for t in case()]
        print(name + ":", hashlib.sha256(b"".join(t.tobytes() for t in made)).hexdigest()[:16])
"""

TRAINING = """
    import numpy as np
    import gt
    import gt.nn as nn

    gt.manual_seed(1)
    rng = np.random.default_rng(3)
    model = nn.Sequential(nn.Embedding(30, 24), nn.Flatten(), nn.LayerNorm(96), nn.Linear(96, 48), nn.GELU(), nn.Linear(48, 10))
    optimizer = gt.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(120):
        x, y = gt.tensor(rng.integers(0, 30, (30, 4))), gt.tensor(rng.integers(0, 10, 30))
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 3:
            print(step, loss.item().hex())
    for name, p in model.named_parameters():
        print(name, p.detach().numpy().tobytes().hex()[:48])
"""


@pytest.mark.parametrize("source", [OPERATIONS, TRAINING], ids=["operations", "training"])
def test_the_resident_kernel_gives_the_same_bits(programs, source):
    launched = programs.run(source, GT_BACKEND="cuda", GT_CUDA_RESIDENT="0", GT_AUTO_COMPILE="0").splitlines()
    assert len(launched) > 20
    for resident in ("1", "always"):
        assert programs.run(source, GT_BACKEND="cuda", GT_CUDA_RESIDENT=resident, GT_AUTO_COMPILE="0").splitlines() == launched


def test_training_twice_gives_the_same_bits(programs):
    first = programs.run(TRAINING, GT_BACKEND="cuda")
    assert programs.run(TRAINING, GT_BACKEND="cuda") == first


def test_workers_in_several_processes_read_each_others_memory(programs):
    server = programs.server()
    for _ in range(3):
        programs.worker(server.port, "--backend", "cuda")
    said = programs.run(SPREAD_PROGRAM, f"localhost:{server.port}", 3)
    assert said.strip() == "agreed ['memory', 'memory', 'memory']"


def test_workers_in_one_process_read_each_others_memory(programs):
    assert programs.run(SPREAD_EMBEDDED, GT_BACKEND="cuda") == "3 True True\n"


# A product may round in another way if an operand is laid out in another way: the transposed weights are on one worker at first.
HOME = """
    import sys
    import numpy as np
    import gt
    import gt.nn as nn

    gt.connect(sys.argv[1])
    gt.register_config("data", gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[0, 1, 2])))
    gt.manual_seed(1)
    print(gt.ones(1).placement, flush=True)
    while len(gt.debug.get_worker_stats()) < 3:
        pass
    rng = np.random.default_rng(3)
    model = nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 10))
    with gt.signal.context("data"):
        made = [gt.tensor(rng.standard_normal((30, 24)).astype(np.float32))]
        for layer in model:
            made.append(layer(made[-1]))
        loss = nn.functional.cross_entropy(made[-1], gt.tensor(rng.integers(0, 10, 30)))
    loss.backward()
    for t in [*made, *(p.grad for p in model.parameters())]:
        print(t.detach().numpy().tobytes().hex())
"""


def test_it_does_not_matter_which_worker_has_the_weights(programs):
    said = set()
    for home in range(3):
        server = programs.server()
        programs.worker(server.port, "--backend", "cuda", "--index", home)
        program = programs.python(HOME, f"localhost:{server.port}")
        until(lambda: program.output.read_text() or not program.alive, "the first tensor")
        for other in {0, 1, 2} - {home}:
            programs.worker(server.port, "--backend", "cuda", "--index", other)
        assert program.wait() == 0, program.text()
        where, values = program.output.read_text().split("\n", 1)
        assert where == f"single(worker={home})"
        said.add(values)
    assert len(said) == 1
