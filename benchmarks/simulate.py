"""Is `gt simulate` right? Runs programs on one, two and four workers of one thread, and compares their steps with what is predicted.

    python benchmarks/simulate.py [--rounds 5] [NAME...]

Four workers share two cores where the machine has no more: the prediction is told how many there are. A program's time is the
least median of ten of its later steps in a row. Others on the machine make a core half as fast for seconds, so there are some rounds of two runs and
a prediction, of which the costs are measured anew, in turn: the fastest run is compared with the fastest prediction.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

GT = os.environ.get("GT_BIN") or str(pathlib.Path(__file__).resolve().parents[1] / "build" / "gt")

DATA = "batch: {shard: {axis: 0}}\n"
TENSOR = "columns: {shard: {axis: 0}}\nrows: {shard: {axis: 1}}\n"
WINDOW = 10  # steps in a row


def stages(workers):
    return "".join(f"stage_{k}: {{shard: {{workers: [{k}]}}, schedule: 1f1b}}\n" for k in range(workers))


# name: (program, its sizes, config by the number of workers)
PROGRAMS = {
    "MLP 3x512, batch 256, data": ("mlp", (256, 512), lambda workers: DATA),
    "MLP 3x1024, batch 512, data": ("mlp", (512, 1024), lambda workers: DATA),
    "MLP 3x512, batch 256, columns and rows": ("mlp", (256, 512), lambda workers: TENSOR),
    "transformer of 2 layers, batch 8, data": ("transformer", (8, 128), lambda workers: DATA),
    "pipeline of MLPs 4x512, 8 micro-batches": ("pipeline", (64, 512), stages),
}


# ---- the programs, each in a process of its own ------------------------------------------------------------------


def mlp(gt, nn, F, workers, batch, width):
    def placed(layer, signal):
        layer.weight.data = gt.signal.tensor(layer.weight, name=signal)
        if signal == "columns":
            layer.bias.data = gt.signal.tensor(layer.bias, name=signal)
        return layer

    model = nn.Sequential(placed(nn.Linear(width, width), "columns"), nn.ReLU(), placed(nn.Linear(width, width), "rows"), nn.ReLU(),
                          nn.Linear(width, width))
    optimizer = gt.optim.SGD(model.parameters(), lr=1e-3)
    with gt.signal.context("batch"):
        x, y = gt.randn(batch, width), gt.randn(batch, width)

    def step():
        with gt.signal.context("batch"):
            loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()
    return step


def transformer(gt, nn, F, workers, batch, width, tokens=64, heads=4, vocabulary=64):
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            q, k, v = (t.reshape(batch, tokens, heads, width // heads).transpose(1, 2) for t in self.qkv(self.before(x)).chunk(3, dim=-1))
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, tokens, width)
            x = x + self.out(mixed)
            return x + self.down(F.gelu(self.up(self.between(x))))

    model = nn.Sequential(nn.Embedding(vocabulary, width), Block(), Block(), nn.LayerNorm(width), nn.Linear(width, vocabulary))
    optimizer = gt.optim.AdamW(model.parameters(), lr=1e-3)
    with gt.signal.context("batch"):
        x, y = gt.randint(0, vocabulary, (batch, tokens)), gt.randint(0, vocabulary, (batch, tokens))

    def step():
        with gt.signal.context("batch"):
            loss = F.cross_entropy(model(x).reshape(-1, vocabulary), y.reshape(-1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()
    return step


def pipeline(gt, nn, F, workers, batch, width):
    parts, parameters = {}, []
    for k in range(workers):
        with gt.signal.context(f"stage_{k}"):
            layers = [nn.Linear(width, width) for _ in range(4 // workers)]
            parts[f"stage_{k}"] = nn.Sequential(*(module for layer in layers for module in (layer, nn.ReLU())))
            parameters += parts[f"stage_{k}"].parameters()
    optimizer = gt.optim.SGD(parameters, lr=1e-3)
    line = gt.signal.Pipeline(parts)
    inputs = [gt.randn(batch, width) for _ in range(8)]

    def step():
        loss = line.step(inputs, inputs, F.mse_loss)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()
    return step


def run_program(name, workers, steps, *sizes):
    import gt
    from gt import nn
    from gt.nn import functional as F
    gt.gpu_workers(workers)
    gt.manual_seed(0)
    step = globals()[name](gt, nn, F, workers, *sizes)
    times = []
    for _ in range(steps):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    late = times[steps // 2:]
    print(min(statistics.median(late[k:k + WINDOW]) for k in range(len(late) - WINDOW + 1)))


# ---- comparing ---------------------------------------------------------------------------------------------------


def child(program, workers, steps, sizes, config, **more):
    environment = {**os.environ, "GT_BACKEND": "cpu", "GT_NUM_THREADS": "1", "GT_CONFIG": str(config), **more}
    command = [sys.executable, __file__, "--program", program, str(workers), str(steps), *map(str, sizes)]
    return float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def predict(folder, tape, workers):
    costs = folder / "costs"
    costs.unlink(missing_ok=True)
    command = [GT, "simulate", str(tape), "--workers", str(workers), "--device", "this", "--costs", str(costs), "--cores", str(os.cpu_count()), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["step_seconds"]


def compare(folder, program, sizes, config, workers, rounds, steps):
    tape, yaml = folder / f"{program}.tape", folder / "config.yaml"
    yaml.write_text(config(workers))
    tape.unlink(missing_ok=True)
    child(program, workers, 24, sizes, yaml, GT_TAPE=str(tape))
    measured, predicted = [], []
    for _ in range(rounds):
        measured += [child(program, workers, steps, sizes, yaml) for _ in range(2)]
        predicted.append(predict(folder, tape, workers))
    return min(measured), min(predicted)


def main():
    if sys.argv[1:2] == ["--program"]:
        name, *numbers = sys.argv[2:]
        run_program(name, *map(int, numbers))
        return
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="only programs with this in their name")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60)
    arguments = parser.parse_args()
    print(f"{'step of':44}{'workers':>8}{'measured':>12}{'predicted':>12}{'error':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for name, (program, sizes, config) in PROGRAMS.items():
            if arguments.names and not any(wanted in name for wanted in arguments.names):
                continue
            for workers in (1, 2, 4):
                measured, predicted = compare(pathlib.Path(folder), program, sizes, config, workers, arguments.rounds, arguments.steps)
                print(f"{name:44}{workers:8}{1e3 * measured:9.2f} ms{1e3 * predicted:9.2f} ms{100 * (predicted / measured - 1):+7.0f}%", flush=True)


if __name__ == "__main__":
    main()
