"""`gt up` and `gt down`: clusters on hosts that are reached by ssh. The hosts are names of this one, by an sshd of the test's own; each
has a runtime directory of its own, so that its processes meet those of others by tcp and keys alone."""

import getpass
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess

import pytest
from support import GT_BINARY, PATIENCE_S, REPOSITORY, clean_environment, free_port, until

SSHD = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")

WORK = """
    import sys, gt
    gt.connect(sys.argv[1], key_file=sys.argv[2] if len(sys.argv) > 2 else None)
    assert (gt.ones(3) + gt.arange(3.0)).sum().item() == 6
    print("right")
"""

SHARDED = """
    import sys, gt, gt.debug
    gt.connect(sys.argv[1], key_file=sys.argv[2])
    with gt.signal.context("rows"):
        x = gt.arange(12.0).reshape(6, 2)
        print((x @ x.T).sum().item(), (x * 2).tolist()[5])
    workers = gt.debug.get_worker_stats(wait=True).values()
    print(*sorted((worker["index"], worker["name"], worker["instructions"] > 0) for worker in workers))
"""


def keygen(path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True, stdin=subprocess.DEVNULL)


class Hosts:
    """An sshd, the names of hosts that lead to it, and `gt up` with files of hosts."""

    def __init__(self, programs):
        self.programs, self.folder = programs, programs.directory
        keygen(self.folder / "host_key")
        keygen(self.folder / "user_key")
        shutil.copy(self.folder / "user_key.pub", self.folder / "authorized_keys")
        self.start_sshd()
        (self.folder / "ssh_config").write_text(
            f"Host node*\n  HostName 127.0.0.1\n  Port {self.port}\n  User {getpass.getuser()}\n"
            f"  IdentityFile {self.folder}/user_key\n  IdentitiesOnly yes\n"
            f"  StrictHostKeyChecking no\n  UserKnownHostsFile {self.folder}/known_hosts\n  LogLevel ERROR\n"
            f"Host closed\n  HostName 127.0.0.1\n  Port {free_port()}\n"
        )

    def start_sshd(self):
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", mode=0o755, exist_ok=True)  # its privilege separation wants it
        for attempt in range(5):  # sshd takes no port 0: another program may have taken the free one
            self.port = free_port()
            config = self.folder / "sshd_config"
            config.write_text(
                f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.folder}/host_key\nUsePAM no\nStrictModes no\n"
                f"AuthorizedKeysFile {self.folder}/authorized_keys\nPidFile none\nPasswordAuthentication no\n"
                "PermitRootLogin yes\nMaxStartups 100\n"
            )
            self.sshd = self.programs.start([SSHD, "-D", "-e", "-f", config], "sshd")
            if until(lambda: not self.sshd.alive or self.answers(), "sshd") and self.sshd.alive:
                return
        raise AssertionError(f"sshd does not run: {self.sshd.text()}")

    def answers(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def node(self, name, **more):
        """An entry of the file, with a runtime directory of its own."""
        runtime = self.folder / name
        runtime.mkdir(mode=0o700, exist_ok=True)
        environment = clean_environment(runtime)
        kept = ("PYTHONPATH", "OPENBLAS_NUM_THREADS", "XDG_RUNTIME_DIR", "GT_BACKEND", "GT_ENGINE_PATH")
        entry = {"host": name, "environment": {key: environment[key] for key in kept if key in environment}}
        return {**entry, **more}

    def write(self, server, workers, **more):
        content = {
            "server": server, "workers": workers, "gt": GT_BINARY, "directory": str(self.folder / "hosts"),
            "ssh": {"options": ["-F", str(self.folder / "ssh_config")]}, **more,
        }
        path = self.folder / "lab.yaml"
        path.write_text(json.dumps(content))  # which is YAML, too
        return path

    def gt(self, *arguments, status=0):
        process = self.programs.start([GT_BINARY, *arguments], arguments[0])
        ended = process.wait(4 * PATIENCE_S)
        assert ended == status, f"gt {arguments[0]} ended with {ended}:\n{process.text()}"
        return process

    def pids(self):
        """Of the processes that pid files name and that live."""
        named = [int(path.read_text().split()[0]) for path in (self.folder / "hosts").rglob("*.pid")]
        return [pid for pid in named if alive(pid)]


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.fixture
def hosts(programs):
    if not SSHD or not shutil.which("ssh-keygen"):
        pytest.skip("there is no sshd here (openssh-server)")
    made = Hosts(programs)
    login = subprocess.run(["ssh", "-F", made.folder / "ssh_config", "-o", "BatchMode=yes", "node0", "true"], capture_output=True, text=True)
    if login.returncode:  # as for an account without a password that is not even "*"
        pytest.skip(f"sshd lets this user not in: {login.stderr} {made.sshd.text()}")
    yield made
    for pid in made.pids():
        os.kill(pid, signal.SIGKILL)


def connect_line(process):
    """(address, key file) of what `gt up` prints last."""
    line = process.output.read_text().splitlines()[-1]
    assert line.startswith('gt.connect("') and line.endswith('")'), line
    return line[len('gt.connect("'):-2].split('", key_file="')


def test_a_cluster_over_ssh(programs, hosts):
    config = hosts.folder / "rows.yaml"
    config.write_text("rows:\n  shard: {axis: 0, workers: [0, 1, 3]}\n")
    file = hosts.write(
        hosts.node("node0", address="127.0.0.1", bind="127.0.0.1", port=0, config=str(config)),
        [hosts.node("node1", threads=1), hosts.node("node2", count=2, index="1-2", options=["--timeout", "20"]),
         hosts.node("node0")],
    )
    up = hosts.gt("up", file)
    lines = up.output.read_text().splitlines()
    assert [line.split()[:2] for line in lines[:-1]] == [
        ["server", "node0"], ["worker_0", "node1"], ["worker_1", "node2"], ["worker_2", "node2"],
        ["worker_3", "node0"]], up.text()
    assert all("joined" in line for line in lines[1:5]), up.text()
    pids = hosts.pids()
    assert len(pids) == 5

    address, key = connect_line(up)
    elsewhere = hosts.folder / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    assert programs.run(WORK, address, key, XDG_RUNTIME_DIR=elsewhere) == "right\n"
    text = programs.run(SHARDED, address, key, XDG_RUNTIME_DIR=elsewhere)
    assert text.splitlines()[0] == "2196.0 [20.0, 22.0]", text
    assert all(f"'worker_{index}', True)" in text for index in (0, 1, 3)), text
    refused = programs.run("""
        import sys, gt
        try:
            gt.connect(sys.argv[1], timeout=10)
        except Exception as error:
            print(type(error).__name__)
    """, address, XDG_RUNTIME_DIR=elsewhere)
    assert refused == "GtConnectionError\n", "without a key"

    # keys are private, and on no command line
    for path in [*(hosts.folder / "hosts").rglob("*.key"), *(hosts.folder / "lab.keys").iterdir()]:
        assert path.stat().st_mode & 0o77 == 0, path
    assert len(list((hosts.folder / "hosts").rglob("worker.key"))) == 2

    # what runs is left alone
    again = hosts.gt("up", file)
    assert sorted(hosts.pids()) == sorted(pids) and connect_line(again) == [address, key]
    assert hosts.gt("up", "--status", file).output.read_text() == again.output.read_text()

    down = hosts.gt("down", file)
    assert down.output.read_text().count("stopped") == 5
    assert not any(alive(pid) for pid in pids), "gt down leaves no process"
    assert not list((hosts.folder / "hosts").rglob("*.key")), "nor keys"
    assert hosts.gt("down", file).text() == "", "nothing is left to end"


def test_a_dead_worker_is_shown_and_started_again(programs, hosts):
    file = hosts.write(hosts.node("node0", address="127.0.0.1", bind="127.0.0.1", port=0), [hosts.node("node1"), hosts.node("node2")])
    address, key = connect_line(hosts.gt("up", file))
    pid = int((hosts.folder / "hosts" / "lab" / "node2" / "worker_1.pid").read_text().split()[0])
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid), "the worker's end")
    status = hosts.gt("up", "--status", file, status=1)
    lines = status.output.read_text().splitlines()
    assert "listens" in lines[0] and "joined" in lines[1] and "worker_1" in lines[2] and "ended" in lines[2], status.text()
    again = hosts.gt("up", file)
    assert connect_line(again) == [address, key] and again.output.read_text().count("joined") == 2
    hosts.gt("down", file)
    assert hosts.pids() == []
    status = hosts.gt("up", "--status", file, status=1)
    assert status.output.read_text().count("not running") == 3, status.text()


def test_workers_beside_the_server_need_no_keys_and_no_ssh(programs, hosts):
    node = hosts.node("localhost", port=0)
    file = hosts.write(node, [{"host": "localhost", "count": 2, "environment": node["environment"]}])
    up = hosts.gt("up", file)
    (address,) = connect_line(up)
    assert address.startswith("localhost:") and not (hosts.folder / "lab.keys").exists()
    assert programs.run(WORK, address, XDG_RUNTIME_DIR=node["environment"]["XDG_RUNTIME_DIR"]) == "right\n"
    hosts.gt("down", file)
    assert hosts.pids() == []


def one_error(process, *words):
    text = process.errors.read_text()
    assert text.count("\n") == 1 and text.startswith("gt up: "), text
    for word in words:
        assert word in text, text


def test_errors_are_one_line_and_leave_nothing(programs, hosts):
    server = hosts.node("node0", address="127.0.0.1", bind="127.0.0.1", port=0)
    worker = hosts.node("node1")

    # a host that cannot be reached
    one_error(hosts.gt("up", hosts.write({**server, "host": "closed"}, [worker]), status=1), "closed", "refused")
    one_error(hosts.gt("up", hosts.write(server, [worker, hosts.node("closed")]), status=1), "closed cannot be reached")
    assert hosts.pids() == []

    # gt is not there, or does not run
    one_error(hosts.gt("up", hosts.write(server, [{**worker, "gt": "/no/such/gt"}]), status=1), "node1", "/no/such/gt")
    assert hosts.pids() == []

    # a config that the script cannot carry
    config = hosts.folder / "long.yaml"
    config.write_text("# END-OF-A-FILE-OF-GT\nrows:\n  shard: {axis: 0}\n")
    one_error(hosts.gt("up", hosts.write({**server, "config": str(config)}, [worker]), status=1), "node0", "cannot be sent")
    assert hosts.pids() == []

    # the port is taken
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        failed = hosts.gt("up", hosts.write({**server, "port": port}, [worker]), status=1)
        one_error(failed, "node0", "server ended", str(port))

    # a worker that ends at once, and one that cannot reach the server
    failed = hosts.gt("up", hosts.write(server, [worker, hosts.node("node2", backend="nonsense")]), status=1)
    one_error(failed, "node2", "worker_1 ended", "nonsense")
    assert hosts.pids() == []
    file = hosts.write({**server, "address": "127.0.0.2"}, [hosts.node("node1", options=["--timeout", "0.5"])])
    one_error(hosts.gt("up", file, "--timeout", "3", status=1), "node1", "worker_0 has not joined within 3 s")
    assert hosts.pids() == []


def test_the_example_of_the_documentation(tmp_path):
    example = (REPOSITORY / "examples" / "cluster" / "hosts.yaml").read_text()
    assert example.partition("\n")[2] in (REPOSITORY / "docs" / "cluster.md").read_text()
    path = tmp_path / "hosts.yaml"
    path.write_text(example + "ssh: {program: 'false'}\n")
    ended = subprocess.run([GT_BINARY, "up", "--status", path], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert [line.split() for line in ended.stdout.splitlines()] == [
        [part, host, "not", "running"]
        for part, host in zip(["server", "worker_0", "worker_1", "worker_2", "worker_3"], ["node0", "node1", "node1", "node2", "node2"])]
    assert ended.returncode == 1 and ended.stderr.count("\n") == 3, "each host fails"


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "empty"),
        ("server: {host: a}", "workers"),
        ("workers: [{host: a}]", "server is missing"),
        ("server: {host: a}\nworkers: [{host: a, colour: red}]", "hosts.yaml:2: an entry of workers: unknown key 'colour'"),
        ("server: {host: a, port: 70000}\nworkers: [{host: a}]", "port must be a number"),
        ("server: {host: -oProxyCommand=x}\nworkers: [{host: a}]", "not the name of a host"),
        ("server: {host: 'a b'}\nworkers: [{host: a}]", "not the name of a host"),
        ("server: {host: a}\nworkers: [{host: a, index: 3-1}]", "range"),
        ("server: {host: a}\nworkers: [{host: a, index: 0-3, count: 2}]", "count is 2"),
        ("server: {host: a}\nworkers: [{host: a, index: 1}, {host: b, index: 0-1}]", "two workers have the index 1"),
        ("server: {host: a}\nworkers: [{host: a, count: 200}, {host: b, count: 200}]", "more than"),
        ("server: {host: a}\nworkers: [{host: a, environment: {A B: c}}]", "names of variables"),
        ("name: ../x\nserver: {host: a}\nworkers: [{host: a}]", "short name"),
        ("server: [", "hosts.yaml:2"),
    ],
)
def test_files_with_mistakes(tmp_path, text, words):
    path = tmp_path / "hosts.yaml"
    path.write_text(text)
    ended = subprocess.run([GT_BINARY, "up", path], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert ended.returncode == 1 and ended.stderr.count("\n") == 1 and words in ended.stderr, ended.stderr
