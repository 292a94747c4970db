"""Training steps as works (works.py): forward, backward and update, the loss read every ten steps.

The losses of the libraries are compared before anything is timed: they start from the same weights.
"""

import numpy

import models
from works import inputs, work

READ_EVERY = 10


def train(lib, model, optimizer, x, y, classes):
    """run(count): make `count` steps; returns the last loss."""
    cross_entropy, model = lib.module.nn.functional.cross_entropy, lib.compile(model)

    def run(count):
        with lib.module.enable_grad():
            for number in range(count):
                loss = cross_entropy(model(x).reshape(-1, classes), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if number % READ_EVERY == READ_EVERY - 1:
                    loss.item()
            lib.synchronize()
        return loss.item()
    return run


def labels(classes, *shape):
    return numpy.random.default_rng(1).integers(0, classes, shape)


def train_mlp(lib, make_optimizer, sizes=(784, 256, 10)):
    model = models.same_weights(lib.module, models.mlp(lib.module, sizes))
    x, = map(lib.tensor, inputs(64, sizes[0]))
    y = lib.tensor(labels(sizes[-1], 64))
    return train(lib, model, make_optimizer(model.parameters()), x, y, sizes[-1])


@work
def mlp_sgd(lib):
    return train_mlp(lib, lambda parameters: lib.module.optim.SGD(parameters, lr=0.01))


@work
def mlp_adamw(lib):
    return train_mlp(lib, lambda parameters: lib.module.optim.AdamW(parameters, lr=1e-4))


@work
def tiny_mlp(lib):
    """Makes a library load what it needs for training."""
    return train_mlp(lib, lambda parameters: lib.module.optim.AdamW(parameters, lr=1e-4), sizes=(4, 4, 4))


@work
def cnn_sgd(lib):
    """1x28x28, two convolutions, batch 32."""
    model = models.same_weights(lib.module, models.cnn(lib.module))
    x, = map(lib.tensor, inputs(32, 1, 28, 28))
    optimizer = lib.module.optim.SGD(model.parameters(), lr=0.01)
    return train(lib, model, optimizer, x, lib.tensor(labels(10, 32)), 10)


@work
def char_gpt(lib):
    """4 layers, width 128, 64 characters, batch 16."""
    vocabulary, context, batch = 65, 64, 16
    model = models.gpt(lib.module, vocabulary, context, width=128, heads=4, depth=4)
    models.same_weights(lib.module, model)
    optimizer = lib.module.optim.AdamW(model.parameters(), lr=1e-4)
    text = labels(vocabulary, batch, context + 1)
    x = lib.tensor(numpy.ascontiguousarray(text[:, :-1]))
    y = lib.tensor(numpy.ascontiguousarray(text[:, 1:]).reshape(-1))
    return train(lib, model, optimizer, x, y, vocabulary)


@work
def small_add_tracked(lib):
    """a + b with a tape: forward only."""
    a, b = (lib.tensor(array).requires_grad_() for array in inputs(8, 8, count=2))

    def run(count):
        with lib.module.enable_grad():
            for _ in range(count):
                c = a + b
            lib.synchronize()
        return c.detach()
    return run
