"""Many clients at once through one dispatcher: all of them work and get right answers, then connect and leave in a storm.

    python tests/load/load.py [--clients 1000] [--rounds 20] [--connects 10000] [--links memory,ipc,tcp]

Fails if an answer is wrong or missing, or if a client takes more than 100 KiB of the dispatcher's memory while it works. Prints
what it measured. The clients are in one process (clients.c).
"""
import argparse
import subprocess
import sys
import threading

from cluster import LINKS, PATIENCE_S, REPOSITORY, Cluster, Failure, status_of

MOST_KIB = 100  # of the dispatcher, for each client on any link; about half of that is libzmq's on ipc and tcp
LEFT_DESCRIPTORS = 4  # ZeroMQ closes some of its own later


class Watch:
    """The most memory that a process had while this context lasts."""

    def __init__(self, pid):
        self.pid, self.most, self.over = pid, 0, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.over.wait(0.02):
            self.most = max(self.most, status_of(self.pid).resident_mib)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


class Crowd:
    """The process of the clients. Each phase ends with a line of what was done."""

    def __init__(self, cluster, options):
        program = REPOSITORY / "build" / "load_clients"
        self.process = subprocess.Popen(
            [program, str(options.clients), str(options.rounds), str(options.connects), *map(cluster.address, options.links.split(","))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def phase(self, name):
        """(seconds, answers) when it is over."""
        line = self.process.stdout.readline().split()
        if not line or line[0] != name:
            raise Failure(f"the clients ended before they had {name}: status {self.process.wait(PATIENCE_S)}")
        seconds, answers, wrong, failed = float(line[1]), *map(int, line[2:])
        if wrong or failed:
            raise Failure(f"{name}: {wrong} of {answers} answers are wrong, {failed} calls failed")
        return seconds, answers

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def run(options, cluster, crowd, before):
    idle_s, _ = crowd.phase("connected")
    idle = status_of(cluster.server.pid)
    idle_kib = (idle.resident_mib - before.resident_mib) * 1024 / options.clients
    with Watch(cluster.server.pid) as watch:
        crowd.go_on()
        work_s, answers = crowd.phase("worked")
    work_kib = (watch.most - before.resident_mib) * 1024 / options.clients
    crowd.go_on()
    storm_s, all_answers = crowd.phase("left")
    cluster.check()
    print(f"{options.clients} clients on {options.links}, {options.connects} connects, 2 workers")
    print(f"  all connected in         {idle_s:8.2f} s   {idle.descriptors - before.descriptors} descriptors")
    print(f"  memory per idle client   {idle_kib:8.1f} KiB of the dispatcher")
    print(f"  while they work          {work_kib:8.1f} KiB at most")
    print(f"  {answers} right answers in {work_s:8.2f} s   {answers / work_s:,.0f} a second, products of 8x8 and their sums")
    print(f"  {options.connects} connects in    {storm_s:8.2f} s   {options.connects / storm_s:,.0f} a second, "
          f"{all_answers - answers} of them with a right answer")
    if answers != options.clients * options.rounds or all_answers - answers != (options.connects + 3) // 4:
        raise Failure(f"{all_answers} answers are not all")
    if options.clients >= 200 and work_kib > MOST_KIB:  # of fewer, what is not theirs counts too much
        raise Failure(f"a client takes {work_kib:.1f} KiB of the dispatcher, more than {MOST_KIB}")
    crowd.go_on()
    if crowd.process.wait(PATIENCE_S):
        raise Failure(f"the clients ended with status {crowd.process.returncode}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--connects", type=int, default=10000)
    parser.add_argument("--links", default=",".join(LINKS), help="which take turns")
    options = parser.parse_args()
    with Cluster(workers=2) as cluster:
        crowd = Crowd(cluster, options)
        try:
            run(options, cluster, crowd, status_of(cluster.server.pid))
            cluster.stop()
            print("  nothing is left over")
            return 0
        except Failure as failure:
            print(f"load: {failure}\n{cluster.text()}", file=sys.stderr)
            return 1
        finally:
            crowd.end()


if __name__ == "__main__":
    sys.exit(main())
