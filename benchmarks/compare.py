"""GT against PyTorch on the work of a small program: one table, a few seconds.

    python benchmarks/compare.py [--quick]

`make bench` measures much more, and more carefully (bench.py). Both sides run here in turn, in this process, on as many threads as the
machine has cores; the best of several rounds counts. Work below some ten microseconds measures the way to the worker rather than
the arithmetic.
"""

import argparse
import os
import time

import torch

import gt


def seconds_of(work, finish, calls, rounds):
    """The best time of a call: `work` calls times, then `finish` to have it done."""
    work()
    finish()
    best = float('inf')
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            work()
        finish()
        best = min(best, (time.perf_counter() - start) / calls)
    return best


def works(m, integers):
    """What is compared, for the module gt or torch: a name, a function of one call, how often to call it."""
    small, other, large = m.randn(8, 8), m.randn(8, 8), m.randn(1000, 1000)
    million, model = m.randn(1000, 1000), m.nn.Sequential(m.nn.Linear(784, 256), m.nn.ReLU(), m.nn.Linear(256, 10))
    optimizer = m.optim.SGD(model.parameters(), lr=0.01)
    x, y = m.randn(64, 784), m.tensor(integers)

    def train():
        loss = m.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    yield 'a + b, 8x8', lambda: small + other, 2000
    yield '(a + b).sum().item(), 8x8', lambda: (small + other).sum().item(), 300
    yield 'a + b, a million elements', lambda: million + million, 20
    yield 'exp, a million elements', lambda: million.exp(), 10
    yield 'sum of a million elements', lambda: million.sum(), 20
    yield 'a @ b, 1000x1000', lambda: large @ large, 3
    yield 'training step, MLP 784-256-10', train, 30


def text_of(seconds):
    for unit, factor in (('s', 1), ('ms', 1e3), ('µs', 1e6)):
        if seconds * factor >= 1:
            return f'{seconds * factor:.2f} {unit}'
    return f'{seconds * 1e9:.0f} ns'


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--quick', action='store_true', help='one short round: to see that it runs')
    quick = parser.parse_args().quick
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    integers = torch.randint(0, 10, (64,)).tolist()
    print(f'{"work":34} {"GT":>10} {"PyTorch":>10}  PyTorch / GT')
    for (name, ours, calls), (_, theirs, _) in zip(works(gt, integers), works(torch, integers)):
        calls, rounds = (max(1, calls // 20), 1) if quick else (calls, 5)
        gt_seconds = seconds_of(ours, gt.synchronize, calls, rounds)
        torch_seconds = seconds_of(theirs, lambda: None, calls, rounds)
        print(f'{name:34} {text_of(gt_seconds):>10} {text_of(torch_seconds):>10} {torch_seconds / gt_seconds:8.2f}x')


if __name__ == '__main__':
    main()
