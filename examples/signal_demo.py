"""Signals: the same program unsharded and spread over workers.

    python examples/signal_demo.py                                        # signals have no effect: one worker
    GT_CONFIG=examples/config_sharding.yaml python examples/signal_demo.py  # four workers, placed by the file
"""
import argparse

import gt
from gt import nn
from gt.nn import functional as F


def show(name, tensor):
    print(f"{name:28s} {tensor.placement}")


def main():
    parser = argparse.ArgumentParser(description="Show where tensors live.")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--server", metavar="HOST:PORT", help="run on this server, not on the embedded one")
    arguments = parser.parse_args()
    gt.connect(arguments.server) if arguments.server else gt.gpu_workers(arguments.workers)
    gt.manual_seed(0)

    with gt.signal.context("data"):
        x, y = gt.randn(100, 64), gt.randint(0, 10, (100,))
    w = gt.randn(64, 32)
    show("x", x)
    show("x @ w", x @ w)
    show("x.sum(dim=0)", x.sum(dim=0))
    show("x.reshape(50, 2, 64)", x.reshape(50, 2, 64))
    show("a copy everywhere", gt.signal.tensor(w, name="everywhere"))

    up, down = nn.Linear(64, 128), nn.Linear(128, 10)
    up.weight.data, up.bias.data = gt.signal.tensor(up.weight, name="columns"), gt.signal.tensor(up.bias, name="columns")
    down.weight.data = gt.signal.tensor(down.weight, name="rows")
    hidden = up(w @ w.T).relu()
    show("column-parallel layer", hidden)
    show("row-parallel layer", hidden @ down.weight.T)

    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = gt.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(1, 31):
        with gt.signal.context("data"):
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        if step == 1:
            show("a gradient", model[0].weight.grad)
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step}, data parallel, loss {loss.item():.4f}")
    show("a parameter", model[0].weight)
    for name, worker in gt.debug.get_worker_stats(wait=True).items():
        print(f"{name}: {worker['instructions']} instructions, {worker['moves']} moves, {worker['collectives']} collectives, "
              f"{worker['gathers']} gathers, {worker['bytes_moved']} bytes")


if __name__ == "__main__":
    main()
