"""What the dashboard costs a server at rest: the processor time of the dispatcher with many idle workers and clients.

    python benchmarks/dashboard.py [--workers 72] [--clients 1000] [--browsers 3] [--seconds 20]

Three servers, one after another: without --http, with it, and with browsers: loops that ask as the page does, once a second. It
prints percent of one core: of the dispatcher's thread, which all clients wait for, and of the server's process, in which
another thread answers the browsers. The workers' engine computes nothing.
"""
import argparse
import contextlib
import http.client
import json
import pathlib
import socket
import sys
import threading
import time

from fairness import Member
from processes import HERE, Failure, Process, Server

BOUND = 0.01  # of a core, that the browsers may cost the dispatcher
SETTLE_S = 2  # after the last client has connected


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Crowd(Server):
    """A server with idle workers, all in one process, and idle clients."""

    def __init__(self, program, workers, clients, http_port):
        self.workers = workers
        self.members = Process()
        super().__init__(program, "memory", *(["--http", http_port] if http_port else []))
        self.members = Member(self.address(), "idle", clients)
        self.members.ready()

    def start_worker(self, program):
        command = [program, "worker", "--host", f"{self.transport}://{self.host}", "-p", self.port]
        self.worker.start([*command, "--workers", self.workers, "--backend", "null", "--threads", 1])

    def __exit__(self, *_):
        self.members.__exit__()
        super().__exit__()


class Browser(threading.Thread):
    """Asks as page.js does, by one connection, until the block is left."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        self.leaving = threading.Event()
        self.answers, self.failure, self.seen = 0, None, None

    def ask(self, path):
        self.connection.request("GET", path)
        response = self.connection.getresponse()
        text = response.read()
        if response.status != 200:
            raise Failure(f"{path}: {response.status} {text.decode(errors='replace').strip()}")
        self.answers += 1
        return json.loads(text)

    def run(self):
        try:
            self.ask("/api/families")
            sequence = 0
            while not self.leaving.is_set():
                self.seen = self.ask("/api/state")
                seconds = self.ask(f"/api/timeline?after={sequence}")
                sequence = seconds[-1]["sequence"] if seconds else sequence
                self.leaving.wait(1)
        except (OSError, Failure, http.client.HTTPException) as failure:
            self.failure = failure

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.leaving.set()
        self.join()
        self.connection.close()


def thread_seconds(task):
    return int((task / "schedstat").read_text().split()[0]) / 1e9


def spent(pid):
    """Processor seconds so far: of the dispatcher, which is the first thread of its process, and of all threads."""
    tasks = pathlib.Path(f"/proc/{pid}/task")
    return thread_seconds(tasks / str(pid)), sum(map(thread_seconds, tasks.iterdir()))


def measure(arguments, served, browsers):
    """Parts of a core, of the dispatcher and of the process, while nothing is computed."""
    with contextlib.ExitStack() as stack:
        port = free_port() if served else None
        crowd = stack.enter_context(Crowd(arguments.build / "gt", arguments.workers, arguments.clients, port))
        watching = [stack.enter_context(Browser(port)) for _ in range(browsers)]
        time.sleep(SETTLE_S)
        before, start = spent(crowd.process.pid), time.monotonic()
        time.sleep(arguments.seconds)
        elapsed = time.monotonic() - start
        after = spent(crowd.process.pid)
        for browser in watching:
            if browser.failure:
                raise Failure(f"a browser got no answer: {browser.failure}")
            there = len(browser.seen["workers"]), len(browser.seen["clients"])
            if there != (arguments.workers, arguments.clients):
                raise Failure(f"the page has {there[0]} workers and {there[1]} clients")
        return [(now - then) / elapsed for now, then in zip(after, before)]


def parse_arguments():
    parser = argparse.ArgumentParser(description="Measure what the dashboard costs a server at rest.")
    parser.add_argument("--workers", type=int, default=72)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--browsers", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20, help="how long each of the three is measured (default 20)")
    parser.add_argument("--build", metavar="FOLDER", type=pathlib.Path, default=HERE.parent / "build",
                        help="where the gt program was built (default: build)")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    print(f"{arguments.workers} workers and {arguments.clients} clients at rest; percent of one core")
    print(f"{'':<24}{'dispatcher':>12}{'server':>12}")
    dispatcher = {}
    for name, served, browsers in (("without --http", False, 0), ("with --http", True, 0),
                                   (f"with {arguments.browsers} browsers", True, arguments.browsers)):
        dispatcher[name], process = measure(arguments, served, browsers)
        print(f"{name:<24}{dispatcher[name]:>11.2%}{process:>12.2%}".replace("%", " "), flush=True)
    without, *_, watched = dispatcher.values()
    print(f"the dispatcher with browsers: {watched - without:+.2%} of a core (bound {BOUND:.0%})")


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"dashboard: {failure}")
    except KeyboardInterrupt:
        sys.exit(130)
