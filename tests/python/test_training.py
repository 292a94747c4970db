"""The same models trained in GT and in PyTorch from the same weights: every loss and every final weight agrees."""

import pathlib
import sys

import numpy
import pytest
import torch

import gt

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))
import models  # noqa: E402
from support import LONG  # noqa: E402

STEPS = 100


def train(lib, model, make_optimizer, batches, classes):
    """The losses of all steps; read at the end, so that GT runs ahead as it does for a user."""
    models.same_weights(lib, model)
    optimizer = make_optimizer(lib.optim, model.parameters())
    losses = []
    for x, y in batches:
        x, y = lib.from_numpy(x), lib.from_numpy(y)
        loss = lib.nn.functional.cross_entropy(model(x).reshape(-1, classes), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [loss.item() for loss in losses]


def without_keys(bias):
    queries, _, values = numpy.split(bias, 3)
    return numpy.concatenate([queries, values])


def compare(make_model, make_optimizer, batches, classes):
    ours, theirs = make_model(gt), make_model(torch)
    losses = train(gt, ours, make_optimizer, batches, classes)
    expected = train(torch, theirs, make_optimizer, batches, classes)
    numpy.testing.assert_allclose(losses, expected, rtol=1e-4)
    assert expected[-1] < expected[0] * 0.9  # the loss fell
    weights = {name: tensor.numpy() for name, tensor in ours.state_dict().items()}
    for name, tensor in theirs.state_dict().items():
        ours_now, theirs_now = weights[name], tensor.numpy()
        if name.endswith('attention.bias'):
            # Softmax ignores a constant added to all scores of a row. So the gradient of the keys' bias is only rounding
            # error, which AdamW scales up to full steps.
            ours_now, theirs_now = without_keys(ours_now), without_keys(theirs_now)
        numpy.testing.assert_allclose(ours_now, theirs_now, rtol=2e-3, atol=2e-4, err_msg=name)


def images(steps):
    """Ten classes of patterns under so much noise that the loss stays well above what rounding could change."""
    generator = numpy.random.default_rng(3)
    patterns = generator.standard_normal((10, 784), dtype=numpy.float32)
    for _ in range(steps):
        y = generator.integers(0, 10, 64)
        yield 0.1 * patterns[y] + generator.standard_normal((64, 784), dtype=numpy.float32), y


def texts(steps, vocabulary, context):
    """A repeating sequence with a little noise, cut at random places."""
    generator = numpy.random.default_rng(4)
    text = numpy.arange(4000) * 7 % vocabulary
    noisy = generator.random(text.size) < 0.05
    text[noisy] = generator.integers(0, vocabulary, noisy.sum())
    for _ in range(steps):
        starts = generator.integers(0, text.size - context - 1, 8)
        windows = numpy.stack([text[start:start + context + 1] for start in starts])
        yield numpy.ascontiguousarray(windows[:, :-1]), numpy.ascontiguousarray(windows[:, 1:])


OPTIMIZERS = {
    "sgd": lambda optim, parameters: optim.SGD(parameters, lr=0.02),
    "momentum": lambda optim, parameters: optim.SGD(parameters, lr=0.003, momentum=0.9, weight_decay=1e-3),
    "adamw": lambda optim, parameters: optim.AdamW(parameters, lr=1e-3),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_mlp(optimizer):
    compare(models.mlp, OPTIMIZERS[optimizer], list(images(STEPS)), 10)


def test_two_layer_gpt():
    vocabulary, context = 31, 24
    compare(lambda lib: models.gpt(lib, vocabulary, context, width=32, heads=4, depth=2), OPTIMIZERS["adamw"],
            list(texts(STEPS if LONG else 30, vocabulary, context)), vocabulary)
