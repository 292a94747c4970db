"""GT's CUDA engine beside PyTorch, on one card, in one run: `make bench-cuda`, or python benchmarks/cuda.py [--only TEXT]. With
--ops: where the time of those rows goes in GT, by op.

Each side runs in a process of its own: PyTorch eager, PyTorch compiled, GT without hot paths (GT_AUTO_COMPILE=0), and
GT with them. The programs are the same. A row that fails or takes too long says so, and the others go on. The results
are also written as JSON, to build/bench-cuda.json or --json.
"""
import argparse
import importlib
import importlib.util
import json
import math
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROWS = []
LIMIT_S = 60  # of a row on one side
WARM_S = 0.3
REST_S = 1.0  # before a row: products that draw all the power the card may have leave it with a lower clock


def row(name, unit="us", bound=""):
    def add(function):
        ROWS.append((name, unit, bound, function))
        return function
    return add


class Side:
    """One library: PyTorch, or GT in its place."""

    def __init__(self, name):
        self.name = name
        self.torch = importlib.import_module("torch" if name.startswith("torch") else "gt")
        self.nn, self.F = self.torch.nn, self.torch.nn.functional
        self.device = "cuda"
        self.compiled = name == "torch compiled"

    def compile(self, thing):
        return self.torch.compile(thing) if self.compiled else thing

    def synchronize(self):
        self.torch.cuda.synchronize()

    def randn(self, *shape, dtype=None):
        return self.torch.randn(*shape, device=self.device, dtype=dtype or self.torch.float32)

    def time(self, function, count=20, warm=5, rounds=5):
        """The median of the rounds, in microseconds for one call, after rounds that are not measured for WARM_S. Results are kept for a
        round: one that nobody can read any more need not be computed."""
        kept = [function() for _ in range(warm)]
        self.synchronize()
        taken = []
        start = time.perf_counter()
        while len(taken) < rounds:
            kept.clear()
            began = time.perf_counter()
            for _ in range(count):
                kept.append(function())
            self.synchronize()
            if began - start >= WARM_S:
                taken.append((time.perf_counter() - began) / count)
        return statistics.median(taken) * 1e6

    def precision(self, fast):
        self.torch.set_float32_matmul_precision("high" if fast else "highest")


# ---- small operations ------------------------------------------------------------------------------------------------


@row("small add, dependent chain, per op", bound="0.5")
def small_add(s):
    a, b = s.randn(8, 8), s.randn(8, 8)

    def chain():
        x = a
        for _ in range(1000):
            x = x + b
        return x
    return s.time(chain, count=5) / 1000


@row("(a + b).sum().item(), 8x8", bound="12")
def small_item(s):
    a, b = s.randn(8, 8), s.randn(8, 8)
    return s.time(lambda: (a + b).sum().item(), count=300)


def trainer(s, model, x, y, loss_of, dtype=None, optimizer=None):
    optimizer = (optimizer or (lambda p: s.torch.optim.SGD(p, lr=0.01)))(model.parameters())
    model = s.compile(model)

    def step():
        if dtype is None:
            loss = loss_of(model(x), y)
        else:
            with s.torch.autocast("cuda", dtype):
                loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step


@row("MLP 784-256-10, batch 64, SGD step", bound="130 / hot 45")
def small_mlp(s):
    s.precision(True)
    model = s.nn.Sequential(s.nn.Linear(784, 256), s.nn.ReLU(), s.nn.Linear(256, 10)).to(s.device)
    return s.time(trainer(s, model, s.randn(64, 784), s.randn(64, 10), s.F.mse_loss), count=100, warm=40)


# ---- memory ------------------------------------------------------------------------------------------------------------


@row("relu(x*2+1)*x, 64 M floats", bound="hot 140")
def chain_of_four(s):
    """Of values between -0.5 and 0, which stay there. Each result is the next operand: none may be left out."""
    x = s.randn(64 << 20).abs().clamp(max=0.5).neg()
    f = s.compile(lambda x: (x * 2 + 1).relu() * x)

    def step():
        nonlocal x
        x = f(x)
    return s.time(step, count=20, warm=30)


def tb_per_s(us, bytes_moved):
    return bytes_moved / us / 1e6


@row("copy 256 MiB", "TB/s")
def copy(s):
    """What the bounds of other rows refer to: PyTorch's. GT's clone() of a value copies nothing; neg() reads and writes as much."""
    x = s.randn(64 << 20)
    return tb_per_s(s.time(x.clone if s.name.startswith("torch") else x.neg, count=20), 2 * 256 * 2**20)


@row("a + b, 64 M floats", "TB/s")
def large_add(s):
    x, y = s.randn(64 << 20), s.randn(64 << 20)
    return tb_per_s(s.time(lambda: x + y, count=20), 3 * 256 * 2**20)


@row("sum, 64 M floats", "TB/s")
def large_sum(s):
    x = s.randn(64 << 20)
    return tb_per_s(s.time(lambda: x.sum(), count=20), 256 * 2**20)


@row("softmax forward, 8192x8192", "TB/s", "0.9 of copy")
def softmax(s):
    x = s.randn(8192, 8192)
    return tb_per_s(s.time(lambda: s.F.softmax(x, 1), count=20), 2 * 256 * 2**20)


@row("softmax forward and backward, 8192x8192", "TB/s", "0.9 of copy")
def softmax_backward(s):
    x, g = s.randn(8192, 8192).requires_grad_(), s.randn(8192, 8192)

    def both():
        s.F.softmax(x, 1).backward(g)
        x.grad = None
    return tb_per_s(s.time(both, count=20), 5 * 256 * 2**20)


@row("layer norm forward, 8192x8192", "TB/s", "0.9 of copy")
def layer_norm(s):
    x, norm = s.randn(8192, 8192), s.nn.LayerNorm(8192).to(s.device)
    with s.torch.no_grad():
        return tb_per_s(s.time(lambda: norm(x), count=20), 2 * 256 * 2**20)


@row("layer norm forward and backward, 8192x8192", "TB/s", "0.9 of copy")
def layer_norm_backward(s):
    x, g, norm = s.randn(8192, 8192).requires_grad_(), s.randn(8192, 8192), s.nn.LayerNorm(8192).to(s.device)

    def both():
        norm(x).backward(g)
        x.grad = norm.weight.grad = norm.bias.grad = None
    return tb_per_s(s.time(both, count=20), 5 * 256 * 2**20)


@row("AdamW, 124 M parameters", "TB/s", "0.95 of copy")
def adamw(s):
    parameters = [s.randn(1_291_000).requires_grad_() for _ in range(96)]
    optimizer = s.torch.optim.AdamW(parameters, lr=1e-3, **({"fused": True} if s.name.startswith("torch") else {}))
    for p in parameters:
        p.grad = s.randn(1_291_000)
    return tb_per_s(s.time(optimizer.step, count=30), 7 * 4 * 96 * 1_291_000)


@row("upload 256 MiB", "GB/s", "0.9 of pinned")
def upload(s):
    import numpy
    data = numpy.ones(64 << 20, dtype="f")
    if s.name.startswith("torch"):
        pinned = s.torch.from_numpy(data).pin_memory()
        us = s.time(lambda: pinned.to(s.device, non_blocking=True), count=20, warm=2)
    else:
        us = s.time(lambda: s.torch.from_numpy(data), count=20, warm=25)  # until the worker has pinned all segments
    return data.nbytes / us / 1e3


@row("download 256 MiB", "GB/s", "0.9 of pinned")
def download(s):
    x = s.randn(64 << 20)
    if s.name.startswith("torch"):
        to = s.torch.empty(64 << 20, pin_memory=True)
        us = s.time(lambda: to.copy_(x), count=5, warm=2)
    else:
        us = s.time(lambda: x.numpy(), count=5, warm=2)
    return 4 * (64 << 20) / us / 1e3


# ---- products ------------------------------------------------------------------------------------------------------------


def matmul(s, n, dtype, fast):
    s.precision(fast)
    a, b = s.randn(n, n, dtype=dtype), s.randn(n, n, dtype=dtype)
    return 2 * n**3 / s.time(lambda: a @ b, count=10, warm=5) / 1e6


@row("8192 matmul bfloat16", "TFLOP/s", "within 2%")
def matmul_bf16(s):
    return matmul(s, 8192, s.torch.bfloat16, False)


@row("8192 matmul tf32", "TFLOP/s", "within 2%")
def matmul_tf32(s):
    return matmul(s, 8192, s.torch.float32, True)


@row("4096 matmul float32", "TFLOP/s")
def matmul_f32(s):
    return matmul(s, 4096, s.torch.float32, False)


def large_mlp(s, dtype):
    s.precision(True)
    layers = [layer for _ in range(4) for layer in (s.nn.Linear(4096, 4096), s.nn.ReLU())]
    model = s.nn.Sequential(*layers).to(s.device)
    step = trainer(s, model, s.randn(4096, 4096), s.randn(4096, 4096), s.F.mse_loss, dtype)
    return 3 * 2 * 4096**3 * 4 / s.time(step, count=10, warm=15) / 1e6


@row("MLP 4x4096, batch 4096, bfloat16 step", "TFLOP/s", "5% faster")
def large_mlp_bf16(s):
    return large_mlp(s, s.torch.bfloat16)


@row("MLP 4x4096, batch 4096, tf32 step", "TFLOP/s", "5% faster")
def large_mlp_tf32(s):
    return large_mlp(s, None)


# ---- models ------------------------------------------------------------------------------------------------------------------


def example(s, name):
    """The module examples/NAME.py, which is written for GT, on this side's library."""
    sys.modules["gt"] = s.torch
    spec = importlib.util.spec_from_file_location(name, pathlib.Path(__file__).resolve().parents[1] / f"examples/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@row("GPT-2 124M, B8 T1024, bfloat16 SGD step", "ms", "19")
def gpt2_step(s):
    s.precision(True)
    gpt2 = example(s, "gpt2")
    tokens = s.torch.randint(0, 50257, (8, 1024), device=s.device)
    labels = s.torch.randint(0, 50257, (8, 1024), device=s.device)
    model = gpt2.GPT().to(s.device)
    return s.time(trainer(s, model, tokens, labels, gpt2.loss_of, s.torch.bfloat16), count=5, warm=15, rounds=3) / 1e3


def resnet50(s):
    nn = s.nn

    class Bottleneck(nn.Module):
        def __init__(self, before, width, stride):
            super().__init__()
            self.main = nn.Sequential(
                nn.Conv2d(before, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width))
            self.side = nn.Identity() if before == 4 * width and stride == 1 else nn.Sequential(
                nn.Conv2d(before, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

        def forward(self, x):
            return (self.main(x) + self.side(x)).relu()

    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    before = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for k in range(count):
            layers.append(Bottleneck(before, width, stride if k == 0 else 1))
            before = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000)).to(s.device)


@row("ResNet-50, batch 64, bfloat16 SGD step", "ms", "1.0 of PyTorch")
def resnet_step(s):
    s.precision(True)
    model, x = resnet50(s), s.randn(64, 3, 224, 224)
    if s.name.startswith("torch"):
        model, x = model.to(memory_format=s.torch.channels_last), x.to(memory_format=s.torch.channels_last)
    labels = s.torch.randint(0, 1000, (64,), device=s.device)
    return s.time(trainer(s, model, x, labels, s.F.cross_entropy, s.torch.bfloat16), count=3, warm=5, rounds=3) / 1e3


# ---- running ---------------------------------------------------------------------------------------------------------------------


class TooLong(Exception):
    pass


def on_alarm(*_):
    raise TooLong(f"over {LIMIT_S} s")


def run_side(name, only):
    """In the child: a line of JSON for each row."""
    side = Side(name)
    signal.signal(signal.SIGALRM, on_alarm)
    for title, _, _, function in ROWS:
        if only not in title:
            continue
        time.sleep(REST_S)
        signal.alarm(LIMIT_S)
        try:
            value = function(side)
            result = {"value": value}
        except Exception as error:  # the other rows count, too
            result = {"error": f"{type(error).__name__}: {error}"[:300]}
        signal.alarm(0)
        print(json.dumps({"row": title, **result}), flush=True)


def statistics_of_ops():
    """{op: (seconds on the card, calls, bytes of results)}, of all workers, after everything is done."""
    import gt
    total = {}
    for worker in gt.debug.get_worker_stats(wait=True).values():
        for op, row in worker["ops"].items():
            before = total.get(op, (0, 0, 0))
            total[op] = tuple(a + row[key] for a, key in zip(before, ("seconds", "count", "bytes")))
    return total


def show_ops(only):
    """Where the time of the rows goes: device time by op, on GT's side. The first run of a row warms up."""
    side = Side("gt")
    for title, unit, _, function in ROWS:
        if only not in title:
            continue
        function(side)
        before = statistics_of_ops()
        value = function(side)
        rows = [(tuple(a - b for a, b in zip(now, before.get(op, (0, 0, 0)))), op) for op, now in statistics_of_ops().items()]
        whole = sum(seconds for (seconds, _, _), _ in rows) or 1
        print(f"{title}: {value:.3f} {unit}; {whole * 1e3:.1f} ms on the card in all")
        for (seconds, count, size), op in sorted(rows, reverse=True):
            if count and seconds > 0.001 * whole:
                print(f"  {op:28}{count:8}{seconds * 1e3:11.2f} ms{seconds / whole:7.1%}{seconds / count * 1e6:10.1f} us each"
                      f"{size / seconds / 1e12:8.2f} TB/s of results")


def make_small_kernel():
    """Compiles the kernel for small operations into the cache, which takes some seconds the first time on a machine. Otherwise the
    first rows would be measured while a thread of the worker does that."""
    subprocess.run([sys.executable, "-c", "import gt; (gt.ones(8) + 1).sum().item()"], check=True, timeout=120,
                   env={**os.environ, "GT_BACKEND": "cuda", "GT_CUDA_RESIDENT": "always"})


def collect(name, only, limit_s):
    """The results of one side, by row."""
    environment = {**os.environ, "GT_BACKEND": "cuda", "GT_AUTO_COMPILE": "1" if name == "gt hot" else "0"}
    process = subprocess.Popen([sys.executable, __file__, "--side", name, "--only", only], stdout=subprocess.PIPE,
                               env=environment, start_new_session=True)
    results, deadline = {}, time.monotonic() + limit_s
    os.set_blocking(process.stdout.fileno(), False)
    text = b""
    while time.monotonic() < deadline:
        piece = process.stdout.read()  # None: nothing now
        text += piece or b""
        if process.poll() is not None and not piece:
            break
        time.sleep(0.2)
    else:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for line in text.decode(errors="replace").splitlines():
        if line.startswith("{"):
            result = json.loads(line)
            results[result["row"]] = result
    if process.returncode:
        results["end"] = {"error": f"the process ended with status {process.returncode}"}
    return results


TWO_CLIENTS = """
import sys, time, gt, gt.nn.functional as F
gt.connect(sys.argv[1])
model = gt.nn.Sequential(gt.nn.Linear(784, 256), gt.nn.ReLU(), gt.nn.Linear(256, 10))
optimizer = gt.optim.SGD(model.parameters(), lr=0.01)
x, y = gt.randn(64, 784), gt.randn(64, 10)
def steps(count):
    for _ in range(count):
        F.mse_loss(model(x), y).backward(); optimizer.step(); optimizer.zero_grad()
    gt.cuda.synchronize()
steps(100)
began = time.perf_counter(); done = 0
while time.perf_counter() - began < 5:
    steps(50); done += 50
print(done / (time.perf_counter() - began))
"""


def two_clients():
    """Steps per second of one client and of two together, on one server with two workers in one process on the card."""
    environment = {**os.environ, "GT_BACKEND": "cuda"}
    port_file = pathlib.Path(tempfile.mkdtemp()) / "port"
    server = subprocess.Popen([sys.executable, "-m", "gt.server", "-q", "-p", "0", "--port-file", str(port_file)],
                              env=environment)
    worker = None
    try:
        until = time.monotonic() + 20
        while not (port_file.exists() and port_file.read_text().strip()) and time.monotonic() < until:
            time.sleep(0.05)
        port = port_file.read_text().strip()
        address = f"localhost:{port}"
        worker = subprocess.Popen([sys.executable, "-m", "gt.worker", "-p", port, "--workers", "2"], env=environment)

        def clients(count):
            started = [subprocess.Popen([sys.executable, "-c", TWO_CLIENTS, address], env=environment, text=True,
                                        stdout=subprocess.PIPE) for _ in range(count)]
            return sum(float(p.communicate(timeout=90)[0]) for p in started)
        one = clients(1)
        return one, clients(2)
    finally:
        for process in filter(None, (worker, server)):
            process.terminate()
            process.wait(10)


def shown(result, unit):
    if result is None:
        return ""
    if "error" in result:
        return result["error"].split(":")[0]
    value = result["value"]
    return f"{value:.{max(0, 3 - int(math.log10(max(value, 1e-3)) + 1))}f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--side")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--ops", action="store_true", help="device time by op instead, in GT alone")
    parser.add_argument("--sides", default="torch,torch compiled,gt,gt hot")
    parser.add_argument("--limit", type=float, default=240, help="seconds of one side")
    parser.add_argument("--json", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[1] / "build/bench-cuda.json")
    options = parser.parse_args()
    if options.side:
        return run_side(options.side, options.only)
    if not os.path.exists("/dev/nvidiactl"):
        return print("bench-cuda: skipped: there is no NVIDIA GPU here (no /dev/nvidiactl)")
    if options.ops:
        os.environ.setdefault("GT_BACKEND", "cuda")
        return show_ops(options.only)
    sides = options.sides.split(",")
    results = {}
    make_small_kernel()
    for name in sides:
        results[name] = collect(name, options.only, options.limit)
        options.json.write_text(json.dumps(results, indent=1))
    print(f"{'work':46}{'unit':>9}" + "".join(f"{name:>16}" for name in sides) + "   GT at most")
    for title, unit, bound, _ in ROWS:
        if options.only in title:
            cells = "".join(f"{shown(results[name].get(title), unit):>16}" for name in sides)
            print(f"{title:46}{unit:>9}{cells}   {bound}")
    for name in sides:
        for title, result in results[name].items():
            if "error" in result:
                print(f"{name}: {title}: {result['error']}")
    if not options.only or options.only in "two clients":
        try:
            one, two = two_clients()
            print(f"two clients, each the small MLP: {two:.0f} steps/s together, {one:.0f} alone: {two / one:.2f}x (1.8)")
        except Exception as error:
            print(f"two clients: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
