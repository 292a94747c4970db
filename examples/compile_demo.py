"""A training loop, written eagerly, that GT finds in the instruction stream and runs as one.

    python examples/compile_demo.py
    GT_AUTO_COMPILE=0 python examples/compile_demo.py     # the same, instruction by instruction
    GT_CONFIG=examples/config_compile.yaml python examples/compile_demo.py --region     # the config says what to compile
"""

import contextlib
import sys
import time

import gt
from gt import nn

STEPS = 300

gt.manual_seed(0)
x, y = gt.randn(64, 784), gt.randint(0, 10, (64,))
model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = gt.optim.AdamW(model.parameters(), lr=1e-3)

for number in range(STEPS):
    if number == STEPS // 2:  # by now the loop is known
        gt.cuda.synchronize()
        start = time.perf_counter()
    with gt.signal.context('train_step') if '--region' in sys.argv else contextlib.nullcontext():
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if number % 50 == 0:
        print(f'step {number:3}  loss {loss.item():.4f}')

gt.cuda.synchronize()
seconds = time.perf_counter() - start
print(f'step {STEPS}  loss {loss.item():.4f}')
print(f'{seconds / (STEPS - STEPS // 2) * 1e6:.0f} microseconds a step')

hotpath = next(iter(gt.debug.get_worker_stats(wait=True).values()))['hotpath']
print(f'{hotpath["hot_instructions"]} of {hotpath["total_instructions"]} instructions ran in hot paths')
gt.debug.print_hot_paths(wait=True)
