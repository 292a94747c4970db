"""Many clients for a long time: random programs on every link, some on spread tensors, clients and workers killed at random.

    python tests/load/soak.py [--seconds 600] [--clients 50] [--seed N]

`make soak` runs it for SOAK_SECONDS (600); `make test` for one minute, or half a minute on slow machines. It fails if a client gets
a wrong answer, an error that no killed worker explains, or no answer; if the dispatcher's or a worker's own memory grows from the
first third of the run to the last; or if tensors, sessions, descriptors, shared memory, files or processes are left over.
"""
import argparse
import collections
import json
import os
import random
import select
import signal
import statistics
import sys
import time
import traceback

import gt
import random_client
from cluster import LINKS, PATIENCE_S, Cluster, Failure, status_of

WORKERS = 3  # the first is never killed: its memory is watched for the whole run
# What may be more when the clients have gone than before they came: ZeroMQ closes some of its descriptors later, and workers open
# links to each other when the first spread tensor wants them.
LEFT_DESCRIPTORS = {"dispatcher": 4, "worker": 20}
LEFT_SHARED_MIB = 8
# Growth of its own memory from the first third to the last that is not a leak: a part of it, and MiB. The tensors of the clients at
# work are part of the workers' memory.
TOLERANCE = {"dispatcher": (0.10, 12), "worker": (0.10, 24)}
WARM_UP = 10  # samples, one a second, that do not count


# ---- clients ----------------------------------------------------------------------------------------------------


class Client:
    """A forked process that works for some seconds, and says at its end how it went."""

    def __init__(self, address, seed, seconds, spread, ending):
        self.link, self.end_by, self.killed = address.partition(":")[0], time.monotonic() + seconds + PATIENCE_S, False
        self.spread, self.began = spread, time.monotonic()
        self.report, writer = os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(writer)
            return
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        status = 1
        try:
            checks, lost = random_client.run(address, seed, seconds, spread)
            os.write(writer, json.dumps({"checks": checks, "lost": lost}).encode())
            status = 0
            if ending == "disconnect":
                gt.disconnect()
        except BaseException:
            os.write(writer, json.dumps({"error": f"seed {seed}: {traceback.format_exc()}"[-3000:]}).encode())
        finally:
            os._exit(status)

    def kill(self):
        self.killed = True
        os.kill(self.pid, signal.SIGKILL)

    def ended(self):
        """None while it works; then what it said, {} if it was killed before."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if not pid:
            return None
        said = os.read(self.report, 1 << 16)
        os.close(self.report)
        result = json.loads(said) if said else {}
        if "error" in result:
            raise Failure(f"a client on {self.link}: {result['error']}")
        if status and not self.killed:
            raise Failure(f"a client on {self.link} ended with wait status {status}")
        return result


class Soak:
    """Keeps so many clients at work, disturbs them, and remembers what the memory of the server was."""

    def __init__(self, options, cluster):
        self.options, self.cluster, self.draw = options, cluster, random.Random(options.seed)
        self.clients, self.counts = [], collections.Counter()
        self.samples = []  # (time, {who: Status})
        self.worker_kills = []  # when

    def spawn(self):
        link = self.draw.choice(LINKS)
        spread = self.draw.random() < 0.2
        seconds = self.draw.uniform(0.2, min(20, self.options.seconds / 4))
        ending = self.draw.choice(("disconnect", "exit"))
        self.clients.append(Client(self.cluster.address(link), self.draw.randrange(1 << 30), seconds, spread, ending))
        self.counts["clients"] += 1
        self.counts[f"on {link}"] += 1
        self.counts["with spread tensors"] += spread

    def reap(self):
        for client in list(self.clients):
            result = client.ended()
            if result is None:
                if time.monotonic() > client.end_by:
                    raise Failure(f"a client on {client.link} (pid {client.pid}, spread: {client.spread}) hangs")
                continue
            self.clients.remove(client)
            self.counts["checked results"] += result.get("checks", 0)
            self.counts["errors of lost workers"] += result.get("lost", 0)
            if result.get("lost") and not any(client.began - 10 < when for when in self.worker_kills):
                raise Failure(f"a client on {client.link} lost tensors, but no worker was killed")

    def disturb(self, kill_workers):
        if self.clients and self.draw.random() < 0.7:
            self.draw.choice(self.clients).kill()
            self.counts["clients killed"] += 1
        if kill_workers and self.draw.random() < 1 / 12:
            self.worker_kills.append(time.monotonic())
            self.cluster.replace_worker(self.draw.randrange(1, WORKERS))
            self.counts["workers killed"] += 1

    def sample(self):
        self.cluster.check()
        who = {"dispatcher": self.cluster.server, **{f"worker {k}": worker for k, worker in enumerate(self.cluster.workers)}}
        self.samples.append((time.monotonic(), {name: status_of(process.pid) for name, process in who.items()}))

    def run(self):
        end = time.monotonic() + self.options.seconds
        due = time.monotonic() + 1
        while time.monotonic() < end:
            while len(self.clients) < self.options.clients:
                self.spawn()
            self.reap()
            if time.monotonic() > due:
                due += 1
                self.sample()
                self.disturb(kill_workers=time.monotonic() < end - 5)
            select.select([], [], [], 0.02)
        while self.clients:
            self.reap()
            select.select([], [], [], 0.02)

    def kill_clients(self):
        for client in self.clients:
            try:
                client.kill()
                os.waitpid(client.pid, 0)
            except (ProcessLookupError, ChildProcessError):  # it has ended, and was the finding
                pass

    # ---- what remains ------------------------------------------------------------------------------------------

    def growth(self, who):
        """(median MiB of the first third, of the last)."""
        values = [status[who].own_mib for _, status in self.samples[min(WARM_UP, len(self.samples) // 4):]]
        third = max(1, len(values) // 3)
        return statistics.median(values[:third]), statistics.median(values[-third:])

    def check_memory(self):
        for who in ("dispatcher", "worker 0"):
            first, last = self.growth(who)
            part, room = TOLERANCE[who.partition(" ")[0]]
            if last > first * (1 + part) + room:
                raise Failure(f"the {who} grew from {first:.1f} to {last:.1f} MiB")

    def check_left_over(self, server=None, worker=None):
        """The last client looks: it is alone, and no worker has a tensor. With what the server and the first worker had at the start,
        they have no more than that."""
        report, writer = os.pipe()
        pid = os.fork()
        if not pid:
            stats, tensors = {"clients": []}, []
            try:
                gt.connect(self.cluster.address("memory"), timeout=PATIENCE_S)
                end = time.monotonic() + 10
                while time.monotonic() < end:
                    stats = gt.debug.dispatcher_stats()
                    tensors = [worker["tensors"] for worker in stats["workers"]]
                    if len(stats["clients"]) == 1 and tensors == [0] * WORKERS:
                        break
                    time.sleep(0.1)
            finally:
                os.write(writer, json.dumps([len(stats["clients"]), tensors]).encode())
                os._exit(0)
        os.waitpid(pid, 0)
        os.close(writer)
        clients, tensors = json.loads(os.read(report, 1 << 16))
        os.close(report)
        if clients != 1 or tensors != [0] * WORKERS:
            raise Failure(f"left in the server: {clients - 1} sessions, tensors on the workers {tensors}")
        for who, process, before in (("dispatcher", self.cluster.server, server), ("worker", self.cluster.workers[0], worker)):
            end = time.monotonic() + 10
            while before and ((now := status_of(process.pid)).descriptors > before.descriptors + LEFT_DESCRIPTORS[who]
                              or now.shared_mib > before.shared_mib + LEFT_SHARED_MIB):
                if time.monotonic() > end:
                    raise Failure(f"the {who} had {before} at the start, and has {now} at the end")
                time.sleep(0.1)

    def table(self):
        print(f"soak of {self.options.seconds} s, {self.options.clients} clients at a time, seed {self.options.seed}")
        for name, count in self.counts.items():
            print(f"  {name:24} {count:10,}")
        for who in self.samples[0][1]:
            first, last = self.growth(who)
            descriptors = max(status[who].descriptors for _, status in self.samples)
            shared = max(status[who].shared_mib for _, status in self.samples)
            print(f"  {who:24} {first:8.1f} MiB in the first third, {last:.1f} in the last; at most {shared:.1f} MiB shared and "
                  f"{descriptors} descriptors")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    with Cluster(WORKERS) as cluster:
        soak = Soak(options, cluster)
        try:
            soak.check_left_over()  # also: all is well, and the workers have joined
            before = status_of(cluster.server.pid), status_of(cluster.workers[0].pid)
            soak.run()
            soak.table()
            soak.check_left_over(*before)
            soak.check_memory()
            cluster.stop()
            print("  nothing is left over")
            return 0
        except Failure as failure:
            print(f"soak with seed {options.seed}: {failure}\n{cluster.text()}", file=sys.stderr)
            return 1
        finally:
            soak.kill_clients()


if __name__ == "__main__":
    sys.exit(main())
