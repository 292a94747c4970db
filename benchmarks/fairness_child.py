"""A client of fairness.py: `fairness_child.py ADDRESS ROLE ARGUMENTS...`.

It connects, prints "ready", waits for a line, works, and prints one number or a list of numbers as JSON.

    products SIZE SECONDS   streams matrix products; how many were computed
    small SECONDS           streams small additions; how many a second
    light SECONDS           one small question after another; the seconds that each took
    idle COUNT              connects COUNT clients that do nothing until the line comes
"""
import json
import sys
import time

import gt
from gt.client.client import Client

FLOPS = 1 << 29  # of the products between two questions: more than a worker's own queue holds
STREAM = 1000    # additions between two looks at the clock


def products(size, seconds):
    size = int(size)
    a, batch = gt.ones(size, size), max(1, FLOPS // (2 * size ** 3))
    (a @ a).sum().item()
    yield
    end, count = time.monotonic() + float(seconds), 0
    while time.monotonic() < end:
        for _ in range(batch):
            b = a @ a
        b[0, 0].item()
        count += batch
    yield count


def small(seconds):
    a = gt.ones(8, 8)
    (a + a).sum().item()
    yield
    start, count = time.monotonic(), 0
    while time.monotonic() - start < float(seconds):
        for _ in range(STREAM):
            a + a
        count += STREAM
    gt.synchronize()
    yield count / (time.monotonic() - start)


def light(seconds):
    a = gt.ones(8, 8)
    a.sum().item()
    yield
    end, times = time.monotonic() + float(seconds), []
    while time.monotonic() < end or len(times) < 20:
        start = time.perf_counter()
        (a + 1).sum().item()
        times.append(time.perf_counter() - start)
    yield times


def idle(count):
    host, port = ADDRESS.rsplit(":", 1)
    clients = []
    for _ in range(int(count)):
        clients.append(Client(dispatcher_host=host, dispatcher_port=int(port)).connect())
    yield
    yield len(clients)


if __name__ == "__main__":
    ADDRESS = sys.argv[1]
    gt.connect(ADDRESS)
    role = {"products": products, "small": small, "light": light, "idle": idle}[sys.argv[2]](*sys.argv[3:])
    next(role)
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(next(role)), flush=True)
