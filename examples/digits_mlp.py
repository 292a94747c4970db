"""Train an MLP (784-256-10) to read digits. The digits are generated here: a seven-by-five font, enlarged to 28 by
28 pixels, with random position, brightness and noise."""
import argparse
import time

import numpy

import gt
from gt import nn

FONT = """
.###. ..#.. .###. ####. ...#. ##### .###. ##### .###. .###.
#...# .##.. #...# ....# ..##. #.... #.... ....# #...# #...#
#..## ..#.. ....# ....# .#.#. ####. ####. ...#. #...# #...#
#.#.# ..#.. ...#. .###. #..#. ....# #...# ..#.. .###. .####
##..# ..#.. ..#.. ....# ##### ....# #...# ..#.. #...# ....#
#...# ..#.. .#... ....# ...#. #...# #...# ..#.. #...# ....#
.###. .###. ##### ####. ...#. .###. .###. ..#.. .###. .###.
"""


def make_digits(count, seed):
    """Images (N,784) and the digits they show (N), as NumPy arrays."""
    rows = [line.split() for line in FONT.split("\n") if line]
    font = numpy.array([[[c == "#" for c in row[digit]] for row in rows] for digit in range(10)], numpy.float32)
    font = font.repeat(3, axis=1).repeat(4, axis=2)  # (10,21,20)
    rng = numpy.random.default_rng(seed)
    digits = rng.integers(0, 10, count)
    images = rng.normal(0, 0.6, (count, 28, 28)).astype(numpy.float32)
    for image, digit, down, right in zip(images, digits, rng.integers(0, 8, count), rng.integers(0, 9, count)):
        image[down:down + 21, right:right + 20] += font[digit] * rng.uniform(0.5, 1.0)
    return images.reshape(count, 784), digits


@gt.no_grad()
def accuracy(model, images, digits):
    return (model(images).argmax(1) == digits).float().mean().item()


def train(model, epochs, batch=64):
    images, digits = make_digits(8192, seed=0)
    test_images, test_digits = (gt.from_numpy(array) for array in make_digits(1000, seed=1))
    optimizer = gt.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    schedule = gt.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for epoch in range(epochs):
        order, total = numpy.random.default_rng(epoch).permutation(len(images)), 0.0
        for start in range(0, len(images), batch):
            chosen = order[start:start + batch]
            loss = nn.cross_entropy(model(gt.from_numpy(images[chosen])), gt.from_numpy(digits[chosen]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total = total + loss.detach()
        schedule.step()
        print(f"epoch {epoch + 1:2d}   loss {total.item() / (len(images) / batch):.4f}   "
              f"accuracy on new digits {accuracy(model, test_images, test_digits):.1%}", flush=True)


def main():
    parser = argparse.ArgumentParser(description="Train an MLP on digits made here.")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--server", metavar="HOST:PORT", help="run on this server, not on the embedded one")
    arguments = parser.parse_args()
    if arguments.server:
        gt.connect(arguments.server)

    gt.manual_seed(0)
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    start = time.perf_counter()
    train(model, arguments.epochs)
    print(f"{time.perf_counter() - start:.2f} s on {gt.client_description()}")


if __name__ == "__main__":
    main()
