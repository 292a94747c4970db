"""A program's timeline: run it with an instruction log, then draw the log.

    python examples/visualize_demo.py [DIRECTORY]      # default: the current one

writes timeline.png, timeline.svg (point at a bar to read what it is) and timeline.json.gz (open it in
https://ui.perfetto.dev or https://www.speedscope.app).
"""

import os
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = '''
import gt
from gt import nn, optim
from gt.signals import signal

gt.gpu_workers(2)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    signal(f'step {step}')                          # a red line where the workers reach it
    with gt.signal.context('forward'):              # a band over the workers' lanes
        x, y = gt.randn(256, 64), gt.randint(0, 10, (256,))
        loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()                                 # "forward (backward)"
    with gt.signal.context('update'):
        optimizer.step()
        optimizer.zero_grad()
    print(f'loss {loss.item():.4f}')
'''
CONFIG = '''
forward: {shard: {axis: 0, workers: [0, 1]}}        # data parallel
update: {shard: {replicated: true}}
'''

output = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else '.')
with tempfile.TemporaryDirectory() as directory:
    program, config, log = (pathlib.Path(directory, name) for name in ('train.py', 'config.yaml', 'run.log'))
    program.write_text(PROGRAM)
    config.write_text(CONFIG)
    subprocess.run([sys.executable, program], check=True,
                   env={**os.environ, 'GT_INSTRUCTION_LOG': str(log), 'GT_CONFIG': str(config)})
    for name in ('timeline.png', 'timeline.svg', 'timeline.json.gz'):
        subprocess.run([sys.executable, '-m', 'gt.scripts.visualize', log, '--output', output / name], check=True)
