"""One measurement of sharding.py, in its own process: prints a line of JSON."""
import json
import sys
import threading
import time

import numpy as np

import gt
from gt import _gt, nn


def workers(count):
    connection = _gt.open_embedded(count)
    _gt.use(connection)
    return connection


def shard(name, axis=None, chosen=None, replicated=False):
    gt.register_config(name, gt.SignalConfig(gt.ShardConfig(axis, chosen, replicated)))


def best_of(rounds, step):
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        step()
        gt.synchronize()
        best = min(best, time.perf_counter() - start)
    return best


def alternate(make_steps, rounds):
    """Minimum seconds of a step on one worker and on two, measured in turn."""
    sides = {}
    for name, count in (("one", 1), ("two", 2)):
        connection = workers(count)
        step = make_steps(count)
        step()
        gt.synchronize()
        sides[name] = (connection, step)
    best = dict.fromkeys(sides, float("inf"))
    for _ in range(rounds):
        for name, (connection, step) in sides.items():
            _gt.use(connection)
            best[name] = min(best[name], best_of(2, step))
    return best


def data_parallel(rounds):
    """4 layers of 1024, batch 512: the batch split, the parameters on both workers, gradients all-reduced."""
    shard("data", 0)

    def make(count):
        gt.manual_seed(0)
        model = nn.Sequential(*[part for _ in range(4) for part in (nn.Linear(1024, 1024), nn.ReLU())])
        optimizer = gt.optim.SGD(model.parameters(), lr=1e-3)
        with gt.signal.context("data"):
            x, y = gt.randn(512, 1024), gt.randn(512, 1024)

        def step():
            with gt.signal.context("data"):
                loss = ((model(x) - y) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return step
    return alternate(make, rounds)


def pipeline(rounds):
    """Two stages of two layers on two workers, and 8 micro-batches: the stages overlap."""
    shard("stage_0", chosen=[0])

    def make(count):
        last = f"stage_1 of {count}"
        shard(last, chosen=[count - 1])
        gt.manual_seed(0)
        stages = []
        for name in ("stage_0", last):
            with gt.signal.context(name):
                stages.append(nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU()))
        optimizer = gt.optim.SGD([p for stage in stages for p in stage.parameters()], lr=1e-3)
        with gt.signal.context("stage_0"):
            batches = [gt.randn(64, 1024) for _ in range(8)]

        def step():
            optimizer.zero_grad()
            for x in batches:
                with gt.signal.context("stage_0"):
                    hidden = stages[0](x)
                with gt.signal.context(last):
                    loss = (stages[1](hidden) ** 2).mean()
                loss.backward()
            optimizer.step()
        return step
    return alternate(make, rounds)


def copy_rate(megabytes, threads, rounds):
    """Bytes per second that this machine reads and writes when all threads copy."""
    arrays = [(np.ones(megabytes << 18, np.float32), np.empty(megabytes << 18, np.float32)) for _ in range(threads)]
    best = float("inf")
    for _ in range(rounds):
        copies = [threading.Thread(target=np.copyto, args=(to, source)) for source, to in arrays]
        start = time.perf_counter()
        for thread in copies:
            thread.start()
        for thread in copies:
            thread.join()
        best = min(best, time.perf_counter() - start)
    return 2 * threads * (megabytes << 20) / best


def all_reduce(rounds):
    """Every party reads its share of all n tensors and writes the sum, then copies the other shares."""
    count, elements = 4, 16 << 20
    workers(count)
    shard("rows", 0)
    index = gt.tensor([0])
    with gt.signal.context("rows"):
        x = gt.ones(count, elements)
    best = float("inf")
    for _ in range(rounds + 2):
        owed = x.sum(dim=0)
        gt.synchronize()
        start = time.perf_counter()
        first = owed.index_select(0, index)  # reading one element forces the sum
        gt.synchronize()
        best = min(best, time.perf_counter() - start)
        assert first.item() == count
        del owed, first
    traffic = 4 * elements * count * (1 + 1 / count + 2 * (count - 1) / count)
    return {"measured": best, "bound": traffic / copy_rate(64, 2, rounds)}


def dispatch_cost(rounds):
    """Processor time of the dispatcher for an elementwise op on a tensor that is split over 8 workers."""
    workers(8)
    shard("rows", 0)
    with gt.signal.context("rows"):
        x = gt.ones(64, 8)
    best = float("inf")
    for _ in range(rounds):
        gt.synchronize()
        before = gt.debug.dispatcher_stats(wait=True)["cpu_seconds"]
        y = x
        for _ in range(5000):
            y = y + x
        gt.synchronize()
        best = min(best, (gt.debug.dispatcher_stats(wait=True)["cpu_seconds"] - before) / 5000)
    return {"seconds": best}


def dispatch_rate(rounds):
    """Worker instructions a second, split matmul and relu on 72 workers."""
    workers(72)
    shard("rows", 0)
    shard("whole", replicated=True)
    with gt.signal.context("rows"):
        x = gt.ones(144, 16)
    with gt.signal.context("whole"):
        w = gt.ones(16, 16)
    rates, own = [], []
    for _ in range(rounds):
        gt.synchronize()
        before = gt.debug.dispatcher_stats(wait=True)
        y, start = x, time.perf_counter()
        for _ in range(1000):
            y = (y @ w).relu()
        gt.synchronize()
        seconds = time.perf_counter() - start
        after = gt.debug.dispatcher_stats(wait=True)
        done = sum(a["instructions"] - b["instructions"] for a, b in zip(after["workers"], before["workers"]))
        rates.append(done / seconds)
        own.append(done / (after["cpu_seconds"] - before["cpu_seconds"]))
    return {"rate": max(rates), "own": max(own)}


if __name__ == "__main__":
    works = {"data_parallel": data_parallel, "pipeline": pipeline, "all_reduce": all_reduce,
             "dispatch_cost": dispatch_cost, "dispatch_rate": dispatch_rate}
    print(json.dumps(works[sys.argv[1]](3 if sys.argv[2] == "quick" else 8)))
