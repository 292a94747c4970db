"""Train a small network to tell three spiral arms apart: the program of `make run`.

Everything runs on GT, including the generation of the data. Options: python examples/mlp.py --help
"""
import argparse
import math
import time

import gt
from gt import nn

ARMS = 3
POINTS = 600  # of each arm
HIDDEN = 64
BATCH = 256


class MLP(nn.Module):
    """From points (N,2) to a score for each arm (N,ARMS)."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(2, HIDDEN)
        self.fc2 = nn.Linear(HIDDEN, HIDDEN)
        self.fc3 = nn.Linear(HIDDEN, ARMS)

    def forward(self, x):
        x = self.fc1(x).tanh()
        x = self.fc2(x).tanh()
        return self.fc3(x)


def make_spirals():
    """Points in the plane (N,2), and the arm each belongs to (N)."""
    radius = gt.linspace(0.05, 1.0, POINTS)
    points, arms = [], []
    for arm in range(ARMS):
        angle = radius * 8.0 + 2 * math.pi * arm / ARMS + gt.randn(POINTS) * 0.2
        points.append(gt.stack([radius * gt.cos(angle), radius * gt.sin(angle)], 1))
        arms.append(gt.full((POINTS,), arm, dtype=gt.int64))
    return gt.cat(points), gt.cat(arms)


@gt.no_grad()
def report(step, model, points, arms):
    """Print one line of progress. Reading the numbers waits for the server."""
    scores = model(points)
    loss = nn.cross_entropy(scores, arms).item()
    accuracy = (scores.argmax(1) == arms).sum().item() / len(arms)
    print(f"step {step:5d}   loss {loss:6.4f}   accuracy {accuracy:6.1%}   {'#' * round(40 * loss)}", flush=True)


def train(model, steps):
    points, arms = make_spirals()
    optimizer = gt.optim.AdamW(model.parameters(), lr=0.01)
    for step in range(steps):
        if step % (steps // 10) == 0:
            report(step, model, points, arms)
        chosen = gt.randint(0, len(points), (BATCH,))
        loss = nn.cross_entropy(model(points[chosen]), arms[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    report(steps, model, points, arms)


@gt.no_grad()
def draw(model, rows=17, columns=52):
    """Print the plane in characters: the predicted arm at each point."""
    y = gt.linspace(1.1, -1.1, rows).reshape(rows, 1).expand(rows, columns)
    x = gt.linspace(-1.1, 1.1, columns).expand(rows, columns)
    for row in model(gt.stack([x, y], 2)).argmax(2).tolist():
        print("    " + "".join(".o#"[arm] for arm in row))


def main():
    parser = argparse.ArgumentParser(description="Train a small network on three spirals.")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--server", metavar="HOST:PORT", help="run on this server, not on the embedded one")
    arguments = parser.parse_args()
    if arguments.server:
        gt.connect(arguments.server)

    gt.manual_seed(1)
    model = MLP()
    print(model)
    start = time.perf_counter()
    steps = max(10, arguments.steps)
    train(model, steps)
    seconds = time.perf_counter() - start
    draw(model)
    print(f"{seconds:.2f} s, {seconds / steps * 1e6:.0f} µs a step, on {gt.client_description()}")


if __name__ == "__main__":
    main()
