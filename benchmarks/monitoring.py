"""The cost of monitoring: the small-op stream with `gt top` or `gt trace` attached, against the same without.

Adds to the figures of figures.py. It measures the processor time of client, dispatcher and worker together, because
wall time on a shared machine is not exact to one percent. Rounds alternate; the minimum of each kind counts.
"""
import contextlib
import pathlib
import subprocess
import sys
import tempfile

from figures import figure
from processes import Child, Failure, Process, Server
from report import Figure


class Watcher(Process):
    """A `gt top` or `gt trace` that is attached when the block is entered."""

    def __init__(self, program, *arguments):
        self.command = [program, *arguments]

    def __enter__(self):
        self.start(self.command, stdout=subprocess.PIPE)
        if not self.process.stdout.readline():  # the first update of top; a trace prints nothing until it ends
            raise Failure(f"{self.command[1]} ended with {self.process.wait()}")
        return self


class Trace(Watcher):
    def __enter__(self):
        self.start(self.command, stdout=subprocess.DEVNULL)
        return self


def processor_seconds(pids):
    """Processor time of all threads of these processes so far."""
    tasks = [task for pid in pids for task in pathlib.Path(f"/proc/{pid}/task").iterdir()]
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def measure(server, client, count):
    pids = [server.process.pid, server.worker.process.pid, client.process.pid]
    before = processor_seconds(pids)
    client("run", count=count)
    return processor_seconds(pids) - before


def watched_by(kind, program, port, folder):
    if kind == "top":
        return Watcher(program, "top", "--port", port, "--json")
    if kind == "trace":
        return Trace(program, "trace", "--port", port, "-s", 600, "--dir", folder)
    return contextlib.nullcontext()


@figure("monitoring")
def monitoring(children, quick):
    """A server without monitors, and one with a monitor now and then."""
    count, rounds = (50_000, 3) if quick else (200_000, 9)
    kinds = ("never", "left", "top", "trace")
    best = dict.fromkeys(kinds, float("inf"))
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        servers = {name: stack.enter_context(Server(children.program, "memory")) for name in ("never", "watched")}
        clients = {name: stack.enter_context(Child("gt", server.address())) for name, server in servers.items()}
        for client in clients.values():
            client("prepare", work="small_add")
            client("run", count=count)
        with watched_by("top", children.program, servers["watched"].port, folder):
            clients["watched"]("run", count=count)
        for _ in range(rounds):
            for kind in kinds:
                side = "never" if kind == "never" else "watched"
                with watched_by(kind, children.program, servers[side].port, folder):
                    clients[side]("run", count=count // 10)
                    best[kind] = min(best[kind], measure(servers[side], clients[side], count))
    name = "monitoring, small-op stream"
    return [
        Figure(f"{name}, listener gone", best["left"] / best["never"], "x", bound=1.01),
        Figure(f"{name}, one top", best["top"] / best["left"], "x", bound=1.05),
        Figure(f"{name}, one trace", best["trace"] / best["left"], "x"),
    ]


@figure("instruction log")
def instruction_log(children, quick):
    """The small-op stream of an embedded server with a log on disk, and with a tape, against one without; wall time."""
    count, rounds = (50_000, 3) if quick else (100_000, 9)
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings = {
            "off": {},
            "log": {"GT_INSTRUCTION_LOG": str(folder / "log"), "GT_INSTRUCTION_LOG_SIZE": "256M"},
            "compact": {"GT_INSTRUCTION_LOG": str(folder / "log.gtlog"), "GT_INSTRUCTION_LOG_SIZE": "256M"},
            "tape": {"GT_TAPE": str(folder / "tape")},
        }
        clients = {kind: stack.enter_context(Child("gt", **variables)) for kind, variables in settings.items()}
        best = dict.fromkeys(clients, float("inf"))
        for client in clients.values():
            client("prepare", work="small_add")
            client("run", count=count)
        for _ in range(rounds):
            for kind, client in clients.items():
                best[kind] = min(best[kind], client("run", count=count))
        # After a burst the log's thread catches up. In a long stream the other threads wait for it, if it writes text.
        long = {kind: min(clients[kind]("run", count=10 * count) for _ in range(2)) for kind in ("off", "log", "compact")}
    return [
        Figure("instruction log on, small-op stream", best["log"] / best["off"], "x", bound=2.0),
        Figure("instruction log on, ten times as long a stream", long["log"] / long["off"], "x"),
        Figure("compact instruction log on, small-op stream", best["compact"] / best["off"], "x", bound=2.0),
        Figure("compact instruction log on, ten times as long a stream", long["compact"] / long["off"], "x", bound=2.0),
        Figure("tape on, small-op stream", best["tape"] / best["off"], "x"),
    ]


@figure("line capture")
def line_capture(children, quick):
    """The cost of recording the user's line with every operation: processor time of the emitting thread, with and
    without, in one process."""
    source = """
import time
import gt
directory = gt.__file__.rpartition('__init__')[0]
a, b = gt.ones(8, 8), gt.ones(8, 8)

def emit(count):
    begin = time.thread_time_ns()
    for _ in range(count):
        a + b
    return (time.thread_time_ns() - begin) / count

best = {None: 1e9, directory: 1e9}
for _ in range(ROUNDS):
    for where in best:
        gt._gt._site_package(where)
        best[where] = min(best[where], emit(300))
        gt.synchronize()
print(best[directory] - best[None])
""".replace("ROUNDS", "500" if quick else "3000")
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise Failure(f"line capture: {done.stderr.strip().splitlines()[-1]}")
    return [Figure("line capture an op, client", max(float(done.stdout), 0) * 1e-9, "s", bound=30e-9)]
