"""Several workers, on this host and on hosts that are network namespaces of this machine: `make bench-cluster`.

Bandwidth between workers by each exchange, beside ucx_perftest's with the same transports and beside memcpy; data-parallel training;
steps on a slow network; a dispatcher with many workers and clients; and what a running cluster goes through. Rows of a section
alternate, and medians count. Without libucx, ucx_perftest (ucx-utils) or the right to make namespaces, their rows are left out, and
a line says why.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import shutil
import sys

import cluster_hosts as hosts
import cluster_pairs as pairs
from processes import Failure

MOST_WORKERS = 8


@dataclasses.dataclass
class Row:
    """A value, and what it is measured against."""
    name: str
    value: float
    unit: str
    limit: float = None
    of: str = ""

    def text(self):
        ratio = f"{self.value / self.limit:6.2f} of {self.of}" if self.limit else ""
        return f"{self.name:74s} {self.value:10.2f} {self.unit:6s} {ratio}"


def bandwidth(quick):
    rates, trips = pairs.point_to_point(2 if quick else 5, 10 if quick else 20)
    against = {"mesh": "ucx_perftest", "ucx": "ucx_perftest", "ucx by tcp": "ucx_perftest by tcp"}
    for name, rate in rates.items():
        of = against.get(name)
        yield Row(f"64 MiB, worker to worker: {name}" if of else f"64 MiB: {name}", rate / 1e9, "GB/s", rates.get(of, 0) / 1e9, of)
    for name, seconds in trips.items():
        yield Row(f"1 KiB, there and back: {name}", seconds * 1e6, "us")


def reductions(quick):
    copy = pairs.memcpy()
    for workers in (2, 4):
        for name, rate in pairs.all_reduce(2 if quick else 5, 5, workers).items():
            yield Row(f"all-reduce of 64 MiB, {workers} workers, each sends: {name}", rate / 1e9, "GB/s", copy / 1e9, "memcpy")


def scaling(quick):
    counts = [1, 2] if quick else [1, 2, 4, MOST_WORKERS]
    cores = len(os.sched_getaffinity(0))
    seconds = pairs.scaling(2 if quick else 4, counts)
    for count in counts:
        yield Row(f"data-parallel MLP 4x1024, batch 512, {count} workers", seconds[1] / seconds[count], "x", min(count, cores),
                  f"{min(count, cores)} core{'s' * (min(count, cores) > 1)}")


def delays(quick):
    times, rounds = hosts.delayed_steps(1 if quick else 3)
    for name, seconds in times.items():
        yield Row(f"step of an MLP with 16 gradients, 2 hosts, {name}", seconds * 1e3, "ms", times["no delay"] * 1e3, "no delay")
    alone = "1 ms, a sum for each gradient, when it is needed"
    yield Row("all-reduces of that step", rounds["1 ms"], "", rounds[alone], "a sum for each gradient")


def crowds(quick):
    count, clients = (6, 100) if quick else (36, 1000)
    seen = hosts.crowd(count, clients, 5)
    what = f"{2 * count} workers on {count} hosts, {clients} clients: "
    yield Row(what + "all connected", seen["connected"], "s")
    yield Row(what + "answers", seen["answers"], "/s")
    yield Row(what + "answers by processor time of the server", seen["per_processor_second"], "/s")


def changes(_):
    names = {"drain": "gt drain", "re-shard": "gt reload, split along another axis", "rejoin": "worker killed, replaced, and its part computed again",
             "restart": "server restarted, to a new program's result"}
    for name, seconds in hosts.changes().items():
        yield Row(f"64 MiB on 2 hosts: {names[name]}", seconds, "s")


SECTIONS = {"bandwidth": bandwidth, "reductions": reductions, "scaling": scaling, "delays": delays, "crowds": crowds, "changes": changes}
ON_HOSTS = {"delays", "crowds", "changes"}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--quick", action="store_true", help="fewer rounds, hosts and clients")
    arguments.add_argument("--only", choices=SECTIONS, action="append", help="this section; may be repeated")
    arguments.add_argument("--json", help="write the rows to this file, too")
    chosen = arguments.parse_args()
    missing = hosts.not_permitted()
    rows, failed = [], False
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f} before")
    if not pairs.HAS_UCX or not shutil.which("ucx_perftest"):
        print("without rows of UCX: libucx or ucx_perftest is not installed")
    for name in chosen.only or SECTIONS:
        if name in ON_HOSTS and missing:
            print(f"without the section {name}: {missing}")
            continue
        try:
            for row in SECTIONS[name](chosen.quick):
                rows.append(row)
                print(row.text(), flush=True)
        except (Failure, AssertionError) as failure:
            failed = True
            print(f"{name}: {failure}", file=sys.stderr)
    if chosen.json:
        pathlib.Path(chosen.json).write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=1))
    return failed


if __name__ == "__main__":
    sys.exit(main())
