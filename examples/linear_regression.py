"""Fit a line to noisy points, first by hand with gradients, then with nn and optim."""
import gt
from gt import nn

SLOPE, OFFSET = 2.5, -1.0


def make_points(count=200):
    x = gt.rand(count, 1) * 4 - 2
    return x, x * SLOPE + OFFSET + gt.randn(count, 1) * 0.3


def fit_by_hand(x, y, steps=200, rate=0.05):
    """Gradient descent on two numbers."""
    slope = gt.zeros(1, requires_grad=True)
    offset = gt.zeros(1, requires_grad=True)
    for step in range(steps):
        loss = ((x * slope + offset - y) ** 2).mean()
        loss.backward()
        with gt.no_grad():
            for parameter in (slope, offset):
                parameter -= rate * parameter.grad
                parameter.grad = None
        if step % 40 == 0:
            print(f"step {step:4d}   loss {loss.item():.4f}")
    return slope.item(), offset.item()


def fit_with_a_layer(x, y, steps=200):
    """The same, with nn and optim, as for a larger model."""
    layer = nn.Linear(1, 1)
    optimizer = gt.optim.SGD(layer.parameters(), lr=0.05)
    for step in range(steps):
        loss = nn.mse_loss(layer(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 40 == 0:
            print(f"step {step:4d}   loss {loss.item():.4f}")
    return layer.weight.item(), layer.bias.item()


def main():
    gt.manual_seed(0)
    x, y = make_points()
    print(f"the line is {SLOPE} x + {OFFSET}")
    print("by hand: {:.3f} x + {:.3f}".format(*fit_by_hand(x, y)))
    print("with a layer: {:.3f} x + {:.3f}".format(*fit_with_a_layer(x, y)))
    print("ran on", gt.client_description())


if __name__ == "__main__":
    main()
