"""What it costs that many users share a server: encryption between hosts, and the division of a worker's time.

Adds to the figures of figures.py. Encryption: tcp on the loopback interface, with the password that is the default and with CURVE
keys; rounds alternate, and the best of each counts. Scheduling: scheduling.c says what is measured.
"""
import contextlib
import pathlib
import subprocess
import tempfile

from figures import figure
from processes import HERE, Child, Failure, Server
from report import Figure

SCHEDULING_BOUND = 2e-9  # seconds for a record of a client alone
# (name, work, repetitions in a round, the same for --quick)
WORKS = (("a + b, 8x8", "small_add", 100_000, 20_000), ("from_numpy, 64 MiB", "copy_in", 2, 1))


class Keys:
    """Pairs of keys of a server, a worker and a client, and the server's list."""

    def __init__(self, program, folder):
        self.program, self.folder = program, pathlib.Path(folder)
        self.server = self.folder / "server.key"
        public = self.make(self.server)
        self.allowed = self.folder / "allowed"
        lines = []
        for role in ("client", "worker"):
            setattr(self, role, self.folder / f"{role}.key")
            lines.append(f"{role} {self.make(getattr(self, role), '--server', public)} {role}\n")
        self.allowed.write_text("".join(lines))

    def make(self, path, *options):
        done = subprocess.run([self.program, "keygen", path, *options], capture_output=True, text=True, check=True)
        return done.stdout.split()[-1]


class EncryptedServer(Server):
    def __init__(self, program, keys):
        self.keys = keys
        super().__init__(program, "tcp", "--key-file", keys.server, "--allow-keys", keys.allowed)

    def start_worker(self, program):
        self.worker.start([program, "worker", "--host", f"tcp://{self.host}", "-p", self.port, "--key-file", self.keys.worker])


@figure("encryption")
def encryption(children, quick):
    results = []
    with contextlib.ExitStack() as stack:
        keys = Keys(children.program, stack.enter_context(tempfile.TemporaryDirectory()))
        servers = {"password": stack.enter_context(Server(children.program, "tcp")),
                   "CURVE": stack.enter_context(EncryptedServer(children.program, keys))}
        clients = {kind: stack.enter_context(Child("gt", server.address(), GT_AUTO_COMPILE="0",
                                                   **({"GT_KEY_FILE": str(keys.client)} if kind == "CURVE" else {})))
                   for kind, server in servers.items()}
        for name, work, count, few in WORKS:
            count = few if quick else count
            best = dict.fromkeys(clients, float("inf"))
            for client in clients.values():
                client("prepare", work=work)
            for _ in range(3):
                for kind, client in clients.items():
                    best[kind] = min(best[kind], client("run", count=count) / count)
            results += [Figure(f"tcp, {kind}, {name}", seconds, "s") for kind, seconds in best.items()]
            results.append(Figure(f"tcp, cost of CURVE, {name}", best["CURVE"] / best["password"], "x"))
    return results


@figure("scheduling")
def scheduling(children, quick):
    """One client alone: it pays for the division although there is nothing to divide."""
    build = HERE.parent / "build"
    made = subprocess.run(["ninja", "-C", build, "bench_scheduling"], capture_output=True, text=True)
    if made.returncode:
        raise Failure(f"bench_scheduling is not built: {made.stdout[-500:]}")
    run = subprocess.run([build / "bench_scheduling"], capture_output=True, text=True, timeout=60)
    if run.returncode:
        raise Failure(f"bench_scheduling: {run.stderr.strip()}")
    return [Figure("scheduling, a record of one client alone", float(run.stdout) * 1e-9, "s", bound=SCHEDULING_BOUND)]
