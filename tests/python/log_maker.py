"""Generates instruction logs of any size, like those of a dispatcher with these clients and workers.

The tests of visualize compare pictures with `Log.lines`.
"""

import random

OPERATIONS = [  # the client's command, its op, how long it takes (seconds, before the work's own scale), bytes
    ("BinaryOp", "add", 4e-6, 117),
    ("BinaryOp", "mul", 4e-6, 117),
    ("BinaryOp", "matmul", 9e-5, 117),
    ("UnaryOp", "relu", 3e-6, 96),
    ("UnaryOp", "exp", 6e-6, 96),
    ("UnaryOp", "sum", 5e-6, 96),
    ("UnaryOp", "mean", 5e-6, 96),
    ("CreateTensor", "randn", 2e-5, 4096),
]


class Log:
    """A log under construction: `line()` adds one; `text()` is the file."""

    def __init__(self):
        self.lines = []  # (time, sequence, event, source, command, bytes, details)

    def line(self, time, event, source, command="-", size=0, details=""):
        self.lines.append([time, None, event, source, command, size, details])

    def text(self):
        ordered = sorted(self.lines, key=lambda line: line[0])
        for sequence, line in enumerate(ordered, 1):
            line[1] = sequence
        self.lines = ordered
        return "".join(
            f"{time:.6f}s | #{sequence:04d} | {event:<12} | {source:<27} | {command:<15} | "
            f"{size_text(size):>10} | {details}\n"
            for time, sequence, event, source, command, size, details in ordered
        )

    def count(self, event):
        return sum(line[2] == event for line in self.lines)


def size_text(size):
    return f"{size}B" if size < 1024 else f"{size / 1024:.1f}KB" if size < 1 << 20 else f"{size / (1 << 20):.1f}MB"


def simulate(events, clients=1, workers=1, seed=0, signals=(), failures=0, scale=1.0):
    """About `events` lines of clients that each emit a stream and read a result now and then."""
    random_numbers = random.Random(seed)
    log = Log()
    names = [f"{index:02x}6b8b4567" for index in range(clients)]
    ready = [0.0] * workers  # when each worker is free again
    now = [0.001 * index for index in range(clients)]
    for index in range(workers):
        log.line(0.0001 * index, "CONNECT", f"WORKER worker_{index}")
    for index, name in enumerate(names):
        log.line(0.0005 + now[index], "CONNECT", f"CLIENT {name}")
        now[index] += 0.001
    number, rounds, steps = 0, max(1, (events - workers - 2 * clients) // 3), [0] * clients
    for step in range(rounds):
        index = min(range(clients), key=now.__getitem__)
        client, time = names[index], now[index]
        steps[index] += 1
        reads = steps[index] % 16 == 0 or step >= rounds - clients
        command, op, seconds, size = random_numbers.choice(OPERATIONS)
        if reads:
            command, op, seconds, size = "GetData", None, 2e-6, 64
        number += 1
        named = f"result={number}" + (f" op={op}" if op else "")
        log.line(time, "RECV", f"CLIENT {client}", command, size, named)
        worker = (step // 8) % workers if not reads else index % workers
        sent = time + 2e-6
        log.line(sent, "WORKER_SEND", f"WORKER worker_{worker}", f"Worker{command}", size + 35, named)
        start = max(sent + 5e-6, ready[worker])
        duration = seconds * scale * random_numbers.uniform(0.5, 2)
        ready[worker] = start + duration
        answered = ready[worker] + 4e-6
        failed = number <= failures
        log.line(
            answered,
            "WORKER_RECV",
            f"WORKER worker_{worker}",
            f"Worker{command}",
            40000 if reads else 91,
            f"{named} success={not failed} start={start:.9f} duration={duration:.9f}",
        )
        if failed:
            log.line(
                answered + 1e-6, "ERROR", f"WORKER worker_{worker}", f"Worker{command}", 0, 'error="out of memory"'
            )
        if reads:
            log.line(
                answered + 2e-6, "SEND", f"CLIENT {client}", "GetData", 40000, f"result={number} success=True"
            )
            now[index] = answered + 3e-6
        else:
            now[index] = time + random_numbers.uniform(1e-6, 6e-6) * scale
    end = max(now + ready)
    for index, name in enumerate(signals):
        log.line(
            end * (index + 1) / (len(signals) + 1), "SIGNAL", f"CLIENT {names[0]}", "Signal", 0, f'name="{name}"'
        )
    for index, name in enumerate(names):
        log.line(end + 1e-5 * (index + 1), "DISCONNECT", f"CLIENT {name}")
    return log
