"""Data parallel training on all workers of a cluster: each has a part of the batch and all of the weights.

    gt.slurm starts it with the address in GT_SERVER; with gt up: GT_SERVER=host:port GT_KEY_FILE=hosts.keys/client.key python train.py
"""

import os

import gt
import gt.debug
import gt.nn as nn

gt.connect(os.environ["GT_SERVER"])
workers = sorted(worker["index"] for worker in gt.debug.get_worker_stats(wait=True).values())
gt.register_config("batch", gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=workers)))

gt.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = gt.optim.SGD(model.parameters(), lr=0.1)
with gt.signal.context("batch"):
    data = gt.randn(256, 16)
    target = (data * gt.linspace(-1, 1, 16)).sum(1, keepdim=True)

for step in range(50):
    with gt.signal.context("batch"):
        loss = ((model(data) - target) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0 or step == 49:
        print(f"step {step}: loss {loss.item():.4f} on {len(workers)} workers", flush=True)
print(data.placement)
