"""The cost of hot paths apart from their arithmetic: holding instructions back, finding a loop, one record for a step.

Adds to the figures of figures.py. Programs run on the null engine, which computes nothing, so that what is left is the client
and the dispatcher; processor time of their threads counts. Rounds with hot paths and without alternate; medians count.
"""
import statistics

from figures import figure
from processes import Child
from report import Figure

WORKS = {"small_add": ("a + b, 8x8", 20_000), "mlp_sgd": ("MLP SGD step", 200), "mlp_adamw": ("MLP AdamW step", 200),
         "char_gpt": ("char-GPT AdamW step", 20)}
NULL = {"GT_BACKEND": "null"}


@figure("hot paths")
def hot_paths(children, quick):
    """The client's time for a step with hot paths, and without; with the dispatcher's for the MLP."""
    results, rounds = [], 5 if quick else 15
    with Child("gt", GT_AUTO_COMPILE="0", **NULL) as cold, Child("gt", GT_AUTO_COMPILE="1", **NULL) as hot:
        for work, (name, count) in WORKS.items():
            times = {cold: [], hot: []}
            for child in times:
                child("make", work=work)
                child("client_seconds", count=count)
            for _ in range(rounds):
                for child, seconds in times.items():
                    seconds.append(child("client_seconds", count=count))
            held, sent = (statistics.median(client for client, _ in times[child]) for child in (hot, cold))
            results.append(Figure(f"client, {name}, in hot paths", held / count, "s"))
            results.append(Figure(f"client, {name}, in hot paths / without", held / sent, "x", bound=1.0))
            if work == "mlp_sgd":
                both = statistics.median(sum(pair) for pair in times[hot])
                results.append(Figure(f"client and dispatcher, {name}, in hot paths", both / count, "s", bound=10e-6))
    return results


@figure("hot path detector")
def detector(children, quick):
    """What the detector adds to an instruction that it sees: the client's time while nothing becomes hot, less that without it. The
    least of the rounds: the difference is small, and the machine is shared."""
    results, rounds = [], 5 if quick else 15
    with Child("gt", GT_AUTO_COMPILE="0", **NULL) as cold, \
            Child("gt", GT_AUTO_COMPILE="1", GT_HOTPATH_THRESHOLD="1000000", **NULL) as watching:
        for work in ("small_add", "mlp_sgd"):
            name, count = WORKS[work]
            least = {cold: float("inf"), watching: float("inf")}
            for child in least:
                child("make", work=work)
                child("client_seconds", count=count)
            before = watching("client_instructions")
            for _ in range(rounds):
                for child in least:
                    least[child] = min(least[child], child("client_seconds", count=count)[0])
            instructions = (watching("client_instructions") - before) / rounds
            results.append(Figure(f"hot path detector, {name}, an instruction", (least[watching] - least[cold]) / instructions, "s",
                                  bound=20e-9))
    return results


@figure("hot path detection")
def detection(children, quick):
    """From the first step of the MLP's loop to the first that runs as a path, and the time that planning and compiling it took."""
    with Child("gt", GT_AUTO_COMPILE="1") as child:
        child("make", work="mlp_sgd")
        steps, seconds = child("steps_until_hot")
    return [
        Figure("hot path of the MLP, steps until it runs", steps, "steps", bound=20),
        Figure("hot path of the MLP, time to compile", seconds, "s", bound=0.05),
    ]


@figure("torch.compile")
def compiled(children, quick):
    """GT with hot paths against torch.compile, where that works: it needs a C++ compiler, and half a minute."""
    if quick:
        return []
    times = {"gt": [], "torch compiled": []}
    with Child("gt", GT_AUTO_COMPILE="1") as gt, Child("torch compiled") as torch:
        for child in (gt, torch):
            child("prepare", work="mlp_sgd")
            child("run", count=50)
        for _ in range(7):
            for library, child in (("gt", gt), ("torch compiled", torch)):
                times[library].append(child("run", count=50) / 50)
    ours, theirs = (statistics.median(times[library]) for library in ("gt", "torch compiled"))
    return [Figure("MLP SGD step with torch.compile", theirs, "s"),
            Figure("MLP SGD step, GT in hot paths / torch.compile", ours / theirs, "x")]
