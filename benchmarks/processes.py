"""The processes of a benchmark run: children that measure (child.py), and a real server with its worker.

Each is a context manager and is always ended, by its process id.
"""
import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent

# glibc gives large blocks back to the system at every free and pays for fresh pages at every allocation. PyTorch
# and NumPy are several times faster without that, so they are measured without. GT has its own pool.
WARM_MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": "1073741824",
    "MALLOC_TRIM_THRESHOLD_": "4294967296",
    "MALLOC_TOP_PAD_": "268435456",
}


class Failure(Exception):
    """A measurement that failed; the text says why."""


class Process:
    """A child process of ours, ended when the block is left."""

    process = None

    def start(self, command, **options):
        try:
            # Only the parent gets Ctrl-C; it ends the children in order.
            self.process = subprocess.Popen([str(word) for word in command], start_new_session=True, **options)
        except OSError as error:
            raise Failure(f"cannot run {command[0]}: {error.strerror}") from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Child(Process):
    """Measures one library: "gt" (embedded, or on the server at `address`), "torch" or "numpy"."""

    def __init__(self, library, address=None, **settings):
        environment = {**os.environ, **settings} if library == "gt" else {**os.environ, **WARM_MALLOC}
        command = [sys.executable, HERE / "child.py", library] + ([address] if address else [])
        self.library = library
        self.unread = b""
        self.start(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, call, timeout=60, **arguments):
        request = json.dumps({"call": call, **arguments}) + "\n"
        try:
            self.process.stdin.write(request.encode())
            self.process.stdin.flush()
        except OSError:
            raise Failure(f"{self.library}: the measuring process ended ({self.process.poll()})") from None
        reply = json.loads(self.read_line(call, timeout))
        if "error" in reply:
            raise Failure(f"{self.library}: {reply['error']}")
        return reply["result"]

    def read_line(self, call, timeout):
        """Read a line from the child; Failure on timeout."""
        output = self.process.stdout.fileno()
        deadline = time.monotonic() + timeout
        while b"\n" not in self.unread:
            if not select.select([output], [], [], max(0, deadline - time.monotonic()))[0]:
                self.process.kill()
                raise Failure(f"{self.library}: no answer to {call} in {timeout} s")
            data = os.read(output, 65536)
            if not data:
                raise Failure(f"{self.library}: the measuring process ended ({self.process.wait()}) during {call}")
            self.unread += data
        line, _, self.unread = self.unread.partition(b"\n")
        return line


class Server(Process):
    """`gt server` on a free port, and one `gt worker`; workers and clients use `transport`."""

    host = "127.0.0.1"

    def __init__(self, program, transport, *options):
        self.transport = transport
        self.worker = Process()
        try:
            with tempfile.TemporaryDirectory() as folder:
                port_file = pathlib.Path(folder) / "port"
                self.start([program, "server", "--quiet", "-p", 0, "--port-file", port_file, *options])
                self.port = self.read_port(port_file)
            self.start_worker(program)
        except BaseException:
            self.__exit__()
            raise

    def start_worker(self, program):
        self.worker.start([program, "worker", "--host", f"{self.transport}://{self.host}", "-p", self.port])

    def read_port(self, port_file, timeout=10):
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and self.process.poll() is None:
            text = port_file.read_text().strip() if port_file.exists() else ""
            if text:
                return int(text)
            time.sleep(0.01)
        raise Failure(f"the server did not write its port in {timeout} s (exit status {self.process.poll()})")

    def address(self):
        return f"{self.transport}://{self.host}:{self.port}"

    def __exit__(self, *_):
        self.worker.__exit__()
        super().__exit__()
