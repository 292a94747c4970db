"""Recovery (`gt server --recover`): what it costs while nothing happens, and how long a training run pauses when its worker is
killed and started again.

Adds to the figures of figures.py. The cost is the processor time of client, dispatcher and worker together, as in monitoring.py.
Rounds alternate; their sum counts, because not every round has a snapshot.
"""
import contextlib
import time

from figures import figure
from monitoring import measure
from processes import Child, Server
from report import Figure

COST_BOUND = 1.03
PAUSE_BOUND = 2  # seconds
# (name, work, repetitions in a round, the same for --quick, environment of the client, bound)
WORKS = (("small-op stream", "small_add", 100_000, 20_000, {"GT_AUTO_COMPILE": "0"}, COST_BOUND),
         ("MLP step", "mlp_adamw", 400, 60, {}, COST_BOUND),
         ("char-GPT step", "char_gpt", 12, 4, {}, COST_BOUND),
         ("upload of 64 MiB", "copy_in", 40, 10, {}, COST_BOUND),
         ("upload of 4 KiB", "copy_in_small", 40_000, 8_000, {}, None))  # why --recover is not the default


def cost(children, work, count, rounds, environment):
    spent = {"without": 0, "with": 0}
    with contextlib.ExitStack() as stack:
        options = {"without": (), "with": ("--recover",)}
        servers = {kind: stack.enter_context(Server(children.program, "memory", *more)) for kind, more in options.items()}
        clients = {kind: stack.enter_context(Child("gt", server.address(), **environment))
                   for kind, server in servers.items()}
        for client in clients.values():
            client("prepare", work=work)
            client("run", count=count)
        for _ in range(rounds):
            for kind, client in clients.items():
                spent[kind] += measure(servers[kind], client, count)
    return spent["with"] / spent["without"]


def pause(children):
    """The longest MLP step of those during which the worker is killed and started again, at once."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(Server(children.program, "memory", "--recover"))
        client = stack.enter_context(Child("gt", server.address()))
        client("prepare", work="mlp_adamw")
        for _ in range(10):  # past a snapshot or two
            client("run", count=100)
        server.worker.process.kill()
        server.worker.process.wait()
        began = time.perf_counter()
        server.start_worker(children.program)
        client("run", count=1)
        return time.perf_counter() - began


@figure("recovery")
def recovery(children, quick):
    rounds = 3 if quick else 6
    results = [Figure(f"recovery, cost of --recover, {name}",
                      cost(children, work, few if quick else count, rounds, environment), "x", bound=bound)
               for name, work, count, few, environment, bound in WORKS]
    return [*results, Figure("recovery, MLP, from the worker's start to the next step", pause(children), "s",
                             bound=PAUSE_BOUND)]
