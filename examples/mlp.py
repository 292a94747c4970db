"""Train a small network to tell three spiral arms apart: the job of `make run`.

Everything runs on GT, the making of the data included. The gradients are written out by hand, layer by layer, so
that the whole of training can be read here. Options: python examples/mlp.py --help
"""
import argparse
import math
import time

import gt

ARMS = 3
POINTS = 600           # of each arm
SIZES = (2, 64, 64, ARMS)
BATCH = 256
RATE = 0.05
MOMENTUM = 0.9


def make_spirals():
    """Points in the plane (N,2), the arm each belongs to (N), and the same as rows of a unit matrix (N,ARMS)."""
    radius = gt.linspace(0.05, 1.0, POINTS)
    points, arms = [], []
    for arm in range(ARMS):
        angle = radius * 8.0 + 2 * math.pi * arm / ARMS + gt.randn(POINTS) * 0.2
        points.append(gt.stack([radius * gt.cos(angle), radius * gt.sin(angle)], 1))
        arms.append(gt.full((POINTS,), arm, dtype=gt.int64))
    arms = gt.cat(arms)
    return gt.cat(points), arms, gt.eye(ARMS)[arms]


def make_layers():
    """A weight (inputs,outputs) and a bias (outputs) for each layer."""
    return [[gt.randn(inputs, outputs) / math.sqrt(inputs), gt.zeros(outputs)]
            for inputs, outputs in zip(SIZES, SIZES[1:])]


def softmax(scores):
    """Rows that sum to one."""
    powers = gt.exp(scores - scores.amax(1, keepdim=True))
    return powers / powers.sum(1, keepdim=True)


def forward(layers, x):
    """The input of every layer, and what the last one makes of it: probabilities (B,ARMS)."""
    layer_inputs = []
    for weight, bias in layers:
        layer_inputs.append(x)
        scores = x @ weight + bias
        x = gt.tanh(scores)
    return layer_inputs, softmax(scores)


def backward(layers, layer_inputs, probabilities, targets):
    """Gradients of the mean cross-entropy, shaped like the layers."""
    gradients = []
    delta = (probabilities - targets) / len(targets)  # how the loss changes with the last layer's scores
    for (weight, _), x in zip(reversed(layers), reversed(layer_inputs)):
        gradients.append((x.T @ delta, delta.sum(0)))
        delta = (delta @ weight.T) * (1 - x * x)  # x = tanh(scores before), whose slope is 1 - x²
    return gradients[::-1]


def update(layers, velocities, gradients):
    """Gradient descent with momentum."""
    for layer, velocity, gradient in zip(layers, velocities, gradients):
        for k in range(2):
            velocity[k] = velocity[k] * MOMENTUM - gradient[k] * RATE
            layer[k] = layer[k] + velocity[k]


def cross_entropy(probabilities, targets):
    return -(gt.log(probabilities + 1e-9) * targets).sum(1).mean()


def train(steps):
    points, arms, targets = make_spirals()
    layers = make_layers()
    velocities = [[gt.zeros_like(parameter) for parameter in layer] for layer in layers]
    for step in range(steps + 1):
        if step % (steps // 10) == 0:
            _, probabilities = forward(layers, points)
            loss = cross_entropy(probabilities, targets).item()
            accuracy = (probabilities.argmax(1) == arms).sum().item() / len(arms)
            bar = "#" * round(40 * loss)
            print(f"step {step:5d}   loss {loss:6.4f}   accuracy {accuracy:6.1%}   {bar}", flush=True)
        chosen = gt.randint(0, len(points), (BATCH,))
        layer_inputs, probabilities = forward(layers, points[chosen])
        update(layers, velocities, backward(layers, layer_inputs, probabilities, targets[chosen]))
    return layers


def draw(layers, rows=17, columns=52):
    """The plane in characters: which arm the network sees where."""
    y = gt.linspace(1.1, -1.1, rows).reshape(rows, 1).expand(rows, columns)
    x = gt.linspace(-1.1, 1.1, columns).expand(rows, columns)
    _, probabilities = forward(layers, gt.stack([x, y], 2).reshape(rows * columns, 2))
    for row in probabilities.argmax(1).reshape(rows, columns).tolist():
        print("    " + "".join(".o#"[arm] for arm in row))


def main():
    parser = argparse.ArgumentParser(description="Train a small network on three spirals.")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--server", metavar="HOST:PORT", help="run on this server, not on the embedded one")
    arguments = parser.parse_args()
    if arguments.server:
        gt.connect(arguments.server)

    gt.manual_seed(1)
    start = time.perf_counter()
    steps = max(10, arguments.steps)
    layers = train(steps)
    seconds = time.perf_counter() - start
    draw(layers)
    print(f"{seconds:.2f} s, {seconds / steps * 1e6:.0f} µs a step, on {gt.client_description()}")


if __name__ == "__main__":
    main()
