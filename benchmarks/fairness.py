"""Figures of many clients on one worker: shares, throughput, and how long a light client waits beside the others."""
import contextlib
import json
import subprocess
import sys

from figures import figure
from processes import HERE, Failure, Process
from report import Figure

LINKS = ("memory", "ipc", "tcp")
EQUAL = 8            # clients that stream the same products
SHARE_BOUND = 0.98   # their Jain index
IDLE = 1000          # clients that are connected and do nothing
PATIENCE_S = 120


class Member(Process):
    """A fairness_child.py; go() starts it, result() waits for what it says."""

    def __init__(self, address, *arguments):
        command = [sys.executable, HERE / "fairness_child.py", address, *arguments]
        self.start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def line(self):
        line = self.process.stdout.readline()
        if not line:
            raise Failure(f"a client ended with {self.process.wait(PATIENCE_S)}")
        return line.strip()

    def ready(self):
        self.line()

    def go(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def result(self):
        return json.loads(self.line())


def together(address, clients):
    """What each of the clients says, which begin at the same time. A client is a tuple of arguments."""
    with contextlib.ExitStack() as stack:
        members = [stack.enter_context(Member(address, *arguments)) for arguments in clients]
        for member in members:
            member.ready()
        for member in members:
            member.go()
        return [member.result() for member in members]


def jain(shares):
    """1 if all shares are equal, 1 / n if one client gets everything."""
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares)) if any(shares) else 0


def percentiles(times):
    times = sorted(times)
    return times[len(times) // 2], times[min(len(times) - 1, len(times) * 99 // 100)]


@figure("fairness")
def fairness(children, quick):
    seconds = 2 if quick else 10
    results = []
    for link in LINKS[:1] if quick else LINKS:
        for size in (256, 64):
            done = together(children.server(link).address(), [("products", size, seconds)] * EQUAL)
            results.append(Figure(f"fairness, {EQUAL} clients, {size}x{size} products, {link}", jain(done), "x",
                                  bound=SHARE_BOUND, at_least=True))
    return results


@figure("many clients")
def many_clients(children, quick):
    seconds, results, alone = 1 if quick else 3, [], None
    for count in (1, 2, 8, 64):
        rate = sum(together(children.server("memory").address(), [("small", seconds)] * count))
        alone = alone or rate
        results.append(Figure(f"small additions of {count} client{'s' * (count > 1)} together", rate, "instr/s",
                              bound=0.8 * alone, at_least=True))
    return results


def light_times(address, seconds, *others):
    """The median and the 99th percentile of a light client's questions while the others work."""
    with contextlib.ExitStack() as stack:
        members = [stack.enter_context(Member(address, *arguments)) for arguments in others]
        for member in members:
            member.ready()
            if "idle" not in member.process.args:
                member.go()
        return percentiles(together(address, [("light", seconds)])[0])


@figure("light client")
def light_client(children, quick):
    seconds, results = 1 if quick else 4, []
    address = children.server("memory").address()
    beside = {
        "alone": (),
        "beside 1024x1024 products": (("products", 1024, 1000),),
        "beside 256x256 products": (("products", 256, 1000),),
        f"beside {IDLE} idle clients": (("idle", IDLE),),
    }
    for name, others in beside.items():
        for which, value in zip(("median", "99th percentile"), light_times(address, seconds, *others)):
            results.append(Figure(f"light client {name}, {which}", value, "s"))
    return results
