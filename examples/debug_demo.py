"""Looking inside a program: the autograd tape, what the workers did, and where a NaN came from.

    python examples/debug_demo.py
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import gt

# 1. The autograd tape: what backward() will walk, oldest entry first.
a = gt.randn(10, 10, requires_grad=True)
b = gt.randn(10, 10, requires_grad=True)
loss = (a + b).relu().sum()
gt.debug.print_tape()
loss.backward()
print(f'the gradient of a has {int((a.grad != 0).sum().item())} elements that are not zero')

# 2. What the workers did.
gt.debug.print_worker_stats(wait=True)

# 3. An error that only the worker can find raises where the value is read, and names the line that caused it.
table = gt.arange(5)
picked = table[-(-gt.tensor([7]))]
try:
    picked.tolist()
except IndexError as error:
    print(f'IndexError: {error}')

# 4. A NaN in a loop. The program runs with a tape; `gt replay` runs the tape again and finds the first one.
PROGRAM = '''
import gt

weight = gt.ones(3)
for step in range(6):
    x = gt.full((3,), 3e38 if step == 3 else 1.0)   # a bad sample
    with gt.signal.context('forward'):
        y = (weight - weight.relu()).exp()
    weight = weight + x * 10
print('the result is', y.sum().item())
'''
with tempfile.TemporaryDirectory() as directory:
    program, tape = pathlib.Path(directory, 'program.py'), pathlib.Path(directory, 'run.tape')
    program.write_text(PROGRAM)
    subprocess.run([sys.executable, program], env={**os.environ, 'GT_TAPE': str(tape), 'GT_CONFIG': ''}, check=True)
    found = subprocess.run([sys.executable, '-m', 'gt.scripts.replay', tape, '--find-nan'], capture_output=True, text=True)
    print(found.stdout.replace(f'{directory}/', ''), end='')
