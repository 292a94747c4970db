"""A pipeline of two stages on two workers, with micro-batches; then the same on one worker, for comparison.

    GT_CONFIG=examples/config_sharding.yaml python examples/pipeline_demo.py

The program schedules nothing: the first stage goes on with the next micro-batch while the second one computes.
"""
import argparse
import time

import gt
from gt import nn
from gt.client.client import disconnect

MICRO_BATCHES = 8


def train(width, steps):
    """Seconds per step, the losses, and the placement of the parts."""
    gt.manual_seed(0)
    stages = []
    for name in ("stage_0", "stage_1"):
        with gt.signal.context(name):  # the parameters of a stage live on its worker
            stages.append(nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()))
    optimizer = gt.optim.SGD([p for stage in stages for p in stage.parameters()], lr=1e-2)
    with gt.signal.context("stage_0"):
        batches = [gt.randn(64, width) for _ in range(MICRO_BATCHES)]
    losses = []
    for step in range(steps + 1):
        if step == 1:  # the first one warms up
            begin = time.perf_counter()
        total = 0
        optimizer.zero_grad()
        for x in batches:
            with gt.signal.context("stage_0"):
                hidden = stages[0](x)
            with gt.signal.context("stage_1"):
                loss = (stages[1](hidden) ** 2).mean() / MICRO_BATCHES
            loss.backward()
            total = total + loss.detach()
        optimizer.step()
        losses.append(total.item())
    places = [stage[0].weight.placement for stage in stages]
    return (time.perf_counter() - begin) / steps, losses, places


def main():
    parser = argparse.ArgumentParser(description="Train a two-stage pipeline.")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--steps", type=int, default=10)
    arguments = parser.parse_args()

    gt.gpu_workers(2)
    seconds, losses, places = train(arguments.width, arguments.steps)
    print(f"two stages, on {places[0]} and {places[1]}: {1000 * seconds:.1f} ms a step, loss {losses[-1]:.6f}")
    disconnect()

    for name in ("stage_0", "stage_1"):
        gt.register_config(name, gt.SignalConfig())  # now the signals have no effect
    gt.gpu_workers(1)
    alone, same, places = train(arguments.width, arguments.steps)
    print(f"the same, on {places[0]}: {1000 * alone:.1f} ms a step, loss {same[-1]:.6f}")


if __name__ == "__main__":
    main()
