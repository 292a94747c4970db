"""Random programs: chains of ops, views, in-place updates and deletions, against torch.

Operations are asynchronous, and buffers are reused and updated in place if they have no other user. This finds values
that change unexpectedly and reads of freed buffers.
"""

import random

import numpy as np
import pytest
import torch

from support import check, to_gt

STEPS = 250
LIVE = 12


def shapes(rng):
    return rng.choice([(6,), (4, 6), (6, 6), (1, 6), (3, 4, 6), (), (0, 6), (70, 60)])


def create(rng):
    x = torch.from_numpy(
        np.random.default_rng(rng.randrange(10**9)).integers(-4, 5, shapes(rng)).astype(np.float32)
    )
    return to_gt(x), x


def unary(rng, t, x):
    name = rng.choice(["abs", "neg", "relu", "sign", "square", "floor"])
    return bounded(getattr(t, name)(), getattr(x, name)())


def bounded(t, x):
    """Keep integers small, so that every sum is exact."""
    return t.clamp(-64, 64), x.clamp(-64, 64)


def view(rng, t, x):
    choices = [
        (lambda v: v.T, lambda v: v.permute(tuple(reversed(range(v.dim()))))),
        (lambda v: v.unsqueeze(0),) * 2,
    ]
    if x.dim():
        start, step = rng.randrange(2), rng.choice([1, 2])
        choices += [(lambda v: v[start::step],) * 2, (lambda v: v[..., start:],) * 2, (lambda v: v.flatten(),) * 2]
        choices += [
            (lambda v: v.flip(0),) * 2,
            (lambda v: v.reshape(-1) if v.numel() else v.flatten(),) * 2,
        ]
        choices += [(lambda v: v.flip(-1),) * 2]
        if x.shape[0]:
            choices += [(lambda v: v[-1],) * 2, (lambda v: v[:1].expand(3, *v.shape[1:]),) * 2]
    ours, theirs = rng.choice(choices)
    result = theirs(x)
    return (ours(t), result) if result.dim() <= 5 else (t, x)


def binary(rng, t, x, u, y):
    try:
        torch.broadcast_shapes(x.shape, y.shape)
    except RuntimeError:
        return None
    name = rng.choice(["add", "sub", "mul", "maximum", "minimum"])
    result = getattr(x, name)(y)
    return bounded(getattr(t, name)(u), result) if result.numel() < 50_000 else None


def reduce(rng, t, x):
    if not x.dim():
        return bounded(t.sum(), x.sum())
    axis = rng.randrange(x.dim())
    return bounded(t.sum(axis, keepdim=True), x.sum(axis, keepdim=True))


def update(rng, live, k):
    """Change live[k] in place, and with it the views of the same memory; no other value may change."""
    t, x = live[k]
    if any(stride == 0 and size > 1 for stride, size in zip(x.stride(), x.shape)):
        return  # both refuse to write to an expanded tensor
    kind = rng.randrange(5)
    if kind == 0:
        t += 1
        x += 1
    elif kind == 1:
        t.mul_(-1)
        x.mul_(-1)
    elif kind == 2 and x.dim() and x.shape[0]:
        t[0] = 3
        x[0] = 3
    elif kind == 3 and x.dim() and x.shape[-1] > 1:
        t[..., ::2] = t[..., :1].clone()
        x[..., ::2] = x[..., :1].clone()
    else:
        other, y = rng.choice(live)
        if y.shape == x.shape:
            t -= other.clone()
            x -= y.clone()
    live[k] = (t.clamp_(-64, 64), x.clamp_(-64, 64))


def run_program(seed):
    rng = random.Random(seed)
    live = [create(rng) for _ in range(4)]
    for _ in range(STEPS):
        k = rng.randrange(len(live))
        t, x = live[k]
        kind = rng.random()
        if kind < 0.12:
            result = create(rng)
        elif kind < 0.25:
            result = unary(rng, t, x)
        elif kind < 0.5:
            result = view(rng, t, x)
        elif kind < 0.7:
            result = binary(rng, t, x, *rng.choice(live))
        elif kind < 0.78:
            result = reduce(rng, t, x)
        elif kind < 0.93:
            update(rng, live, k)
            continue
        else:
            check(t, x, f"seed {seed}, a read on the way")
            continue
        if result is not None:
            live.append(result)
        del t, result
        while len(live) > LIVE:
            live.pop(rng.randrange(len(live)))
    for k, (t, x) in enumerate(live):
        check(t, x, f"seed {seed}, tensor {k} at the end")


@pytest.mark.parametrize("seed", range(20))
def test_random_program(seed):
    run_program(seed)


def test_random_program_on_a_server(programs):
    server = programs.cluster(workers=2)
    directory = __file__.rpartition("/")[0]
    for transport in ("memory", "tcp"):
        text = programs.run(f"""
            import sys
            sys.path.insert(0, {directory!r})
            import gt
            gt.connect("{transport}://localhost:{server.port}")
            from test_random_programs import run_program
            for seed in range(100, 105):
                run_program(seed)
            print("right")
        """)
        assert text == "right\n"
