"""gt.debug: statistics of the workers and the dispatcher, and the autograd tape.

    python examples/show_stats.py                    # the embedded server
    python examples/show_stats.py localhost:12345    # a running one
"""

import sys

import gt

if len(sys.argv) > 1:
    gt.connect(sys.argv[1])

w = gt.randn(100, 100, requires_grad=True)
for _ in range(10):
    x = gt.randn(100, 100)
    loss = (x @ w).relu().mean()
    loss.backward()

loss = (x @ w).relu().mean()
gt.debug.print_tape()
gt.debug.print_worker_stats(wait=True)

for number, client in gt.debug.memory(wait=True)['clients'].items():
    print(f'client {number}: {client["tensors"]} tensors, {client["bytes"]} bytes')
for client in gt.debug.dispatcher_stats(wait=True)['clients']:
    for modifier, counts in client['modifiers'].items():
        print(f'client {client["number"]} ({client["name"]}), modifier {modifier}: {counts}')
