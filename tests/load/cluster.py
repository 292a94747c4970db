"""A server and workers for load.py and soak.py, in a runtime directory of their own, and what they leave behind."""
import os
import pathlib
import resource
import shutil
import subprocess
import tempfile
import time
import typing

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
GT = os.environ.get("GT_BIN") or str(REPOSITORY / "build" / "gt")
LINKS = ("memory", "ipc", "tcp")
PATIENCE_S = 60


class Failure(Exception):
    """A finding; the text says what."""


class Status(typing.NamedTuple):
    """What a process has. Of its resident memory, the rings and segments of its peers are shared: in a worker tens of MiB of each
    client that sends arrays, which come and go with the clients."""
    resident_mib: float
    shared_mib: float
    descriptors: int

    @property
    def own_mib(self):
        return self.resident_mib - self.shared_mib


def status_of(pid):
    pages = pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1:3]
    return Status(*(int(count) * os.sysconf("SC_PAGE_SIZE") / 2**20 for count in pages), len(os.listdir(f"/proc/{pid}/fd")))


def segments():
    """Files in shared memory that could be ours."""
    return {name for name in os.listdir("/dev/shm") if "gt" in name}


class Cluster:
    """A context: a server, and `workers` workers, whose links take turns."""

    def __init__(self, workers):
        self.count = workers

    def __enter__(self):
        self.segments = segments()
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gt-load-"))
        self.runtime = self.folder / "run"
        self.runtime.mkdir(mode=0o700)
        # For the children of this process too: they find the same directory, and no settings of the user.
        for key in [key for key in os.environ if key.startswith("GT_")]:
            del os.environ[key]
        os.environ.update(XDG_RUNTIME_DIR=str(self.runtime), OPENBLAS_NUM_THREADS="1")
        self.log, self.workers = open(self.folder / "log", "wb"), []
        port_file = self.folder / "port"
        self.server = self.start("server", "-p", 0, "--port-file", port_file)
        end = time.monotonic() + PATIENCE_S
        while not (port_file.exists() and port_file.read_text().strip()):
            if self.server.poll() is not None or time.monotonic() > end:
                raise Failure("the server did not start")
            time.sleep(0.01)
        self.port = int(port_file.read_text())
        self.workers = [self.worker(index) for index in range(self.count)]
        return self

    def start(self, *arguments):
        return subprocess.Popen([GT, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def worker(self, index):
        link = LINKS[index % len(LINKS)]
        return self.start("worker", "--host", f"{link}://localhost", "-p", self.port, "--name", f"w{index}", "--index", index,
                          "--threads", 1)

    def replace_worker(self, index):
        self.workers[index].kill()
        self.workers[index].wait()
        self.workers[index] = self.worker(index)

    def address(self, link):
        return f"{link}://localhost:{self.port}"

    def check(self):
        """All of them run."""
        for name, process in (("server", self.server), *((f"worker {k}", worker) for k, worker in enumerate(self.workers))):
            if process.poll() is not None:
                raise Failure(f"the {name} ended with status {process.returncode}")

    def stop(self):
        """End everything as a user would; what is left is a finding."""
        self.server.terminate()
        for process in (self.server, *self.workers):
            if process.wait(PATIENCE_S):
                raise Failure(f"{' '.join(process.args[1:])} ended with status {process.returncode}")
        left = [str(path) for path in self.runtime.rglob("*") if not path.is_dir()] + sorted(segments() - self.segments)
        if left:
            raise Failure(f"files are left: {left}")

    def text(self):
        """The end of what they have printed."""
        return "".join(open(self.folder / "log", errors="replace").readlines()[-20:])

    def __exit__(self, *_):
        for process in (self.server, *self.workers):
            if process.poll() is None:
                process.kill()
                process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)
