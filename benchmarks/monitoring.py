"""What being watched costs: the small-op stream with `gt top` or `gt trace` attached, against the same unwatched.

Joins the figures of figures.py. What counts is the processor time of client, dispatcher and worker together: wall time
on a machine that others use too is not known to one in a hundred. Rounds alternate and the least of each kind count.
"""
import contextlib
import pathlib
import subprocess
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
        if not self.process.stdout.readline():  # top's first look; a trace says nothing until it ends
            raise Failure(f"{self.command[1]} ended with {self.process.wait()}")
        return self


class Trace(Watcher):
    def __enter__(self):
        self.start(self.command, stdout=subprocess.DEVNULL)
        return self


def processor_seconds(pids):
    """What all threads of these processes have used so far."""
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
    """A server that nobody ever watched, and one that is watched now and then."""
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
