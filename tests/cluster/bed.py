"""Hosts on this machine: network namespaces, and a network between them (wire.c) that can be slow, lossy or cut.

    with Bed(4) as bed:
        bed.order("delay", 1, 2, 5)                       # milliseconds; wire.c has all orders
        subprocess.run([*bed.at(1), "ping", bed.address(2)])

Cluster runs GT's parts on such hosts. Nothing stays: the namespaces have random names, and are removed by whichever of this process
and the wire lives longer.
"""
import contextlib
import os
import pathlib
import secrets
import shutil
import subprocess
import sys
import textwrap

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "python"))

from support import GT_BINARY, PATIENCE_S, Process, clean_environment, until  # noqa: E402

WIRE = pathlib.Path(GT_BINARY).resolve().parent / "cluster_wire"


class NotPermitted(Exception):
    """This machine cannot have hosts; the text says why."""


def ip(*arguments):
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=PATIENCE_S)
    if done.returncode:
        raise NotPermitted(f"network namespaces are not permitted here: ip {' '.join(arguments)}: {done.stderr.strip()}")


class Bed:
    def __init__(self, hosts):
        token = secrets.token_hex(4)
        self.names = [f"gt-{token}-{k}" for k in range(hosts)]

    def __enter__(self):
        if not shutil.which("ip"):
            raise NotPermitted("the program ip is not installed")
        with contextlib.ExitStack() as stack:
            stack.callback(self.remove)
            for name in self.names:
                ip("netns", "add", name)
            pairs = [text for k, name in enumerate(self.names) for text in (name, self.address(k))]
            self.wire = subprocess.Popen([WIRE, *pairs], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                         text=True, start_new_session=True)
            stack.callback(self.end_wire)
            self.hear()
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def end_wire(self):
        with contextlib.suppress(BrokenPipeError):
            self.wire.stdin.close()
        try:
            self.wire.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.wire.kill()
            self.wire.wait()
        self.wire.stdout.close()
        self.wire.stderr.close()

    def remove(self):
        for name in self.names:
            if os.path.exists(f"/run/netns/{name}"):
                subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=PATIENCE_S)

    @staticmethod
    def address(host):
        return f"10.88.{host // 200}.{host % 200 + 1}"

    def at(self, host):
        """What a command that runs on that host begins with."""
        return ["ip", "netns", "exec", self.names[host]]

    def hear(self):
        if self.wire.stdout.readline() != "ok\n":
            raise NotPermitted(f"no network between namespaces: {self.wire.stderr.read().strip()}")

    def order(self, verb, one="*", other="*", value=0):
        self.wire.stdin.write(f"{verb} {one} {other} {value}\n")
        self.wire.stdin.flush()
        self.hear()


class Cluster:
    """A server on host 0 and worker k on host k + 1, with keys; programs run on the last host."""

    def __init__(self, bed, directory, workers, exchange="mesh", options=(), config="", worker_options=(), **environment):
        self.bed, self.directory, self.exchange = bed, pathlib.Path(directory), exchange
        self.worker_options = worker_options
        self.environment = {"GT_EXCHANGE": exchange, "UCX_TLS": "tcp", "GT_VERBOSE": 1, **environment}
        self.processes, self.workers, self.texts = [], {}, []
        self.ask = self.directory / "ask"
        self.config = self.directory / "signals.yaml"
        self.config.write_text(config)
        self.make_keys()
        self.options, self.count = options, workers

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            stack.callback(self.__exit__)
            self.server = self.start_server(0)
            self.workers = {index: self.start_worker(index) for index in range(self.count)}
            stack.pop_all()
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.popen.terminate()
        for process in self.processes:
            process.end()

    def make_keys(self):
        def keygen(*arguments):
            return subprocess.run([GT_BINARY, "keygen", *arguments], capture_output=True, text=True, check=True).stdout.strip()

        self.server_key, self.key, self.allowed = (self.directory / name for name in ("server.key", "key", "allowed"))
        pair = keygen(self.key, "--server", keygen(self.server_key))
        self.allowed.write_text(f"worker {pair} workers\nclient {pair} clients\n")

    def start(self, host, arguments, name, **environment):
        """Each host has a runtime directory of its own: sockets there would join hosts that no network joins."""
        runtime = self.directory / f"host-{host}"
        runtime.mkdir(mode=0o700, exist_ok=True)
        process = Process([*self.bed.at(host), *arguments], self.directory, f"{len(self.processes)}-{name}",
                          clean_environment(runtime, **{**self.environment, **environment}))
        self.processes.append(process)
        return process

    def start_server(self, port):
        """On that port; 0: on a free one."""
        port_file = self.directory / f"port-{len(self.processes)}"
        server = self.start(0, [GT_BINARY, "server", "-p", port, "--host", self.bed.address(0), "--key-file", self.server_key,
                                "--allow-keys", self.allowed, "--config", self.config, "--port-file", port_file, *self.options], "server")

        def bound():
            assert server.alive, f"the server ended with {server.popen.returncode}:\n{server.text()}"
            return port_file.exists() and port_file.read_text().strip()

        self.port = until(bound, "the server's port")
        self.address = f"{self.bed.address(0)}:{self.port}"
        return server

    def start_worker(self, index, host=None, **environment):
        worker = self.start(index + 1 if host is None else host,
                            [GT_BINARY, "worker", "--host", self.bed.address(0), "-p", self.port, "--threads", 1, "--index", index,
                             "--key-file", self.key, "--listen", "auto", *self.worker_options], f"worker{index}", **environment)
        until(lambda: " joined " in worker.text() or not worker.alive, f"worker {index}")
        assert worker.alive, worker.text()
        return worker

    def python(self, source, *arguments, host=-1, **environment):
        host %= len(self.bed.names)
        path = self.directory / f"{len(self.processes)}-program.py"
        path.write_text(textwrap.dedent(source))
        return self.start(host, [sys.executable, path, *arguments], "program", GT_KEY_FILE=self.key, **environment)

    def gt(self, *arguments):
        """What a gt command prints on the server's host."""
        done = subprocess.run([*self.bed.at(0), GT_BINARY, arguments[0], "-p", self.port, *map(str, arguments[1:])], capture_output=True,
                              text=True, timeout=4 * PATIENCE_S, env=clean_environment(self.directory / "host-0"))
        assert done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}{self.server.text()}"
        return done.stdout

    # ---- what programs ask for, by please() of test_live.BEGIN: the name of a method and its number ----

    def drain(self, index):
        self.texts.append(self.gt("drain", index))
        assert self.workers[index].wait() == 0, self.workers[index].text()

    def join(self, index):
        self.workers[index] = self.start_worker(index)

    def kill(self, index):
        self.workers[index].kill()

    def cut(self, index):
        """Nothing of the worker's host arrives anywhere any more."""
        self.bed.order("cut", index + 1, "*")

    def heal(self, index):
        self.bed.order("heal", index + 1, "*")

    def run(self, source, *arguments, **environment):
        """The lines that the program prints. Changes are made if the folder `ask` is there."""
        process = self.python(source, self.address, self.ask, *arguments, **environment)
        given = 0
        while True:
            wanted = self.ask / str(given + 1)
            until(lambda: wanted.exists() or not process.alive, "the program", 4 * PATIENCE_S)
            if not wanted.exists():
                break
            given += 1
            verb, _, number = wanted.read_text().partition(" ")
            getattr(self, verb)(int(number or 0))
            (self.ask / f"{given}.done").touch()
        assert process.wait() == 0, f"{process.text()}\n{self.server.text()[-3000:]}"
        return process.output.read_text().splitlines(), given
