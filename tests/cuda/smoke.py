"""The CUDA engine at first sight: one line for each thing tried, so that a run on a new card says how far it comes."""
import os
import sys
import time
import traceback

import numpy

import gt
import gt.nn.functional as F

failures = []


def attempt(name, function):
    began = time.perf_counter()
    try:
        told = function()
        state = "ok"
    except Exception as error:  # whatever it is, the next line is tried, too
        told, state = f"{type(error).__name__}: {error}", "FAILED"
        failures.append(name)
        traceback.print_exc()
    print(f"{state:7}{name:32}{time.perf_counter() - began:8.3f} s  {'' if told is None else told}", flush=True)


def close(actual, expected, tolerance=1e-5):
    actual, expected = numpy.asarray(actual, dtype=numpy.float64), numpy.asarray(expected, dtype=numpy.float64)
    assert actual.shape == expected.shape, f"{actual.shape} instead of {expected.shape}"
    worst = float(numpy.max(numpy.abs(actual - expected) / (1 + numpy.abs(expected)), initial=0))
    assert worst <= tolerance, f"off by {worst}"


random = numpy.random.default_rng(0)
a, b = random.standard_normal((300, 200)).astype("f"), random.standard_normal((200, 100)).astype("f")
A, B = gt.from_numpy(a), gt.from_numpy(b)
attempt("round trip", lambda: close(gt.from_numpy(a).numpy(), a, 0))
attempt("round trip, 100 MB", lambda: close(gt.from_numpy(big).numpy()[::97], big[::97], 0)
        if (big := random.standard_normal(25_000_000).astype("f")) is not None else None)
attempt("add", lambda: close((A + 1).numpy(), a + 1))
attempt("broadcast", lambda: close((A * A[0]).numpy(), a * a[0]))
attempt("transpose", lambda: close((A.t() + 1).numpy(), a.T + 1))
attempt("exp, tanh, gelu", lambda: close((A.exp() + A.tanh()).numpy(), numpy.exp(a) + numpy.tanh(a)))
attempt("cast to bfloat16 and back", lambda: close(A.bfloat16().float().numpy(), a, 1e-2))
attempt("sum", lambda: close(A.sum().item(), a.sum(dtype="d"), 1e-4))
attempt("row and column sums", lambda: (close(A.sum(0).numpy(), a.sum(0), 1e-4), close(A.sum(1).numpy(), a.sum(1), 1e-4))[:0])
attempt("max, argmax", lambda: (close(A.max(1).values.numpy(), a.max(1)), close(A.argmax(1).numpy(), a.argmax(1)))[:0])
attempt("softmax", lambda: close(F.softmax(A, 1).numpy(), numpy.exp(a) / numpy.exp(a).sum(1, keepdims=True)))
attempt("matmul float32", lambda: close((A @ B).numpy(), a @ b, 1e-4))
attempt("matmul float64", lambda: close((A.double() @ B.double()).numpy(), a.astype("d") @ b.astype("d"), 1e-10))
attempt("matmul bfloat16", lambda: close((A.bfloat16() @ B.bfloat16()).float().numpy(), a @ b, 0.2))
attempt("matmul float16", lambda: close((A.half() @ B.half()).float().numpy(), a @ b, 3e-2))
attempt("matmul transposed", lambda: close((B.t() @ A.t()).numpy(), (a @ b).T, 1e-4))
attempt("matmul batched", lambda: close((gt.from_numpy(a.reshape(3, 100, 200)) @ B).numpy(), a.reshape(3, 100, 200) @ b, 1e-4))
attempt("matmul int64", lambda: close((gt.arange(6).reshape(2, 3) @ gt.arange(6).reshape(3, 2)).numpy(), [[10, 13], [28, 40]]))
if "FAKE_CUDA_MEMORY" not in os.environ:  # the fake library is slow
    attempt("matmul large, measured", lambda: close((gt.ones(2048, 2048) @ gt.ones(2048, 2048))[7, 9].item(), 2048))
attempt("index", lambda: close(A[gt.tensor([5, 7, 5])].numpy(), a[[5, 7, 5]]))
attempt("sort", lambda: close(A.sort(1).values.numpy(), numpy.sort(a, 1)))
attempt("cumsum", lambda: close(A.cumsum(1).numpy(), a.cumsum(1), 1e-4))
attempt("randn is the CPU's", lambda: close(gt.randn(5, generator=gt.Generator().manual_seed(1)).numpy().shape, [5]))


def bad_index():
    try:
        A[gt.tensor([1000])].sum().item()
    except IndexError as error:
        assert "1000" in str(error), error
        return str(error)
    raise AssertionError("no exception")


attempt("an index out of range", bad_index)


def train():
    gt.manual_seed(0)
    model = gt.nn.Sequential(gt.nn.Linear(20, 64), gt.nn.GELU(), gt.nn.LayerNorm(64), gt.nn.Linear(64, 5))
    optimizer = gt.optim.AdamW(model.parameters(), lr=1e-2)
    x, y = gt.randn(256, 20), gt.randint(0, 5, (256,))
    losses = []
    for _ in range(50):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    first, last = losses[0].item(), losses[-1].item()
    assert last < 0.7 * first, f"the loss goes from {first} to {last}"
    return f"the loss goes from {first:.3f} to {last:.3f}"


attempt("training", train)
attempt("convolution", lambda: close(F.conv2d(gt.ones(2, 3, 16, 16), gt.ones(4, 3, 3, 3)).numpy(),
                                     numpy.full((2, 4, 14, 14), 27)))
attempt("attention", lambda: close(F.scaled_dot_product_attention(gt.ones(2, 4, 64, 32), gt.ones(2, 4, 64, 32),
                                                                  gt.ones(2, 4, 64, 32), is_causal=True).numpy(),
                                   numpy.ones((2, 4, 64, 32))))


def chain():
    x = A
    for _ in range(2000):
        x = x + 1
    gt.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(5000):
        x = x + 1
    gt.cuda.synchronize()
    return f"{(time.perf_counter() - began) / 5000 * 1e6:.2f} us an add of 60,000 floats"


attempt("a chain of adds", chain)


def out_of_memory():
    try:
        gt.zeros(1 << 40)[0].item()
    except MemoryError as error:
        return str(error)[:100]
    raise AssertionError("no exception")


attempt("out of memory", out_of_memory)
attempt("still works", lambda: close((A + 1).sum().item(), (a + 1).sum(dtype="d"), 1e-4))
print(f"{len(failures)} failed: {', '.join(failures)}" if failures else "all passed")
sys.exit(1 if failures else 0)
