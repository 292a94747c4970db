"""Train a convolutional network to tell shapes apart: circles, squares, triangles, crosses and rings, drawn here
with random position, size and angle on 28 by 28 pixels, and noise."""
import argparse
import time

import numpy

import gt
from gt import nn

SHAPES = ("circle", "square", "triangle", "cross", "ring")


def make_shapes(count, seed):
    """Images (N,1,28,28) and which of SHAPES each shows (N), as NumPy arrays."""
    rng = numpy.random.default_rng(seed)
    kinds = rng.integers(0, len(SHAPES), count)
    radius, angle = rng.uniform(6, 11, (count, 1, 1)), rng.uniform(0, 2 * numpy.pi, (count, 1, 1))
    rows, columns = numpy.mgrid[0:28, 0:28]
    down = rows - rng.uniform(10, 18, (count, 1, 1))
    right = columns - rng.uniform(10, 18, (count, 1, 1))
    x = (right * numpy.cos(angle) + down * numpy.sin(angle)) / radius
    y = (down * numpy.cos(angle) - right * numpy.sin(angle)) / radius
    distance = numpy.hypot(x, y)
    inside = numpy.stack([
        distance < 0.9,
        numpy.maximum(abs(x), abs(y)) < 0.8,
        (y < 0.6) & (y > 1.73 * abs(x) - 1),
        (numpy.minimum(abs(x), abs(y)) < 0.25) & (numpy.maximum(abs(x), abs(y)) < 1),
        (distance < 1) & (distance > 0.6),
    ])
    images = inside[kinds, numpy.arange(count)] * rng.uniform(0.5, 1, (count, 1, 1))
    images += rng.normal(0, 0.2, images.shape)
    return images[:, None].astype(numpy.float32), kinds


def make_model():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),      # (N,16,14,14)
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),     # (N,32,7,7)
        nn.Conv2d(32, 32, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1),        # (N,32,1,1)
        nn.Flatten(), nn.Linear(32, len(SHAPES)))


@gt.no_grad()
def accuracy(model, images, kinds):
    return (model(images).argmax(1) == kinds).float().mean().item()


def train(model, epochs, count, batch=64):
    images, kinds = make_shapes(count, seed=0)
    test_images, test_kinds = (gt.from_numpy(array) for array in make_shapes(1000, seed=1))
    optimizer = gt.optim.AdamW(model.parameters(), lr=4e-3)
    steps = epochs * -(-len(images) // batch)
    schedule = gt.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=steps)
    for epoch in range(epochs):
        order, total = numpy.random.default_rng(epoch).permutation(len(images)), 0.0
        for start in range(0, len(images), batch):
            chosen = order[start:start + batch]
            loss = nn.cross_entropy(model(gt.from_numpy(images[chosen])), gt.from_numpy(kinds[chosen]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total = total + loss.detach()
        print(f"epoch {epoch + 1:2d}   loss {total.item() * batch / len(images):.4f}   "
              f"accuracy on new shapes {accuracy(model, test_images, test_kinds):.1%}", flush=True)


def main():
    parser = argparse.ArgumentParser(description="Train a convolutional network on shapes drawn here.")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--images", type=int, default=6400)
    parser.add_argument("--server", metavar="HOST:PORT", help="run on this server, not on the embedded one")
    arguments = parser.parse_args()
    if arguments.server:
        gt.connect(arguments.server)

    gt.manual_seed(0)
    model = make_model()
    print(f"{sum(parameter.numel() for parameter in model.parameters())} weights, shapes: {', '.join(SHAPES)}")
    start = time.perf_counter()
    train(model, arguments.epochs, arguments.images)
    print(f"{time.perf_counter() - start:.2f} s on {gt.client_description()}")


if __name__ == "__main__":
    main()
