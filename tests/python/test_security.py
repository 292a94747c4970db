"""Who may connect, and peers that misbehave: identities, passwords, keys, and connections that say nothing.

Every server here listens on the loopback interface, in a runtime directory of its own.
"""

import os
import pathlib
import resource
import signal
import socket
import struct
import subprocess

import pytest

from support import GT_BINARY, PATIENCE_S, clean_environment, until

WORK = """
    import sys, gt
    gt.connect(sys.argv[1], key_file=sys.argv[2] if len(sys.argv) > 2 else None)
    assert (gt.ones(3) + gt.arange(3.0)).sum().item() == 6
    print("right")
"""

REFUSED = """
    import sys, gt
    try:
        gt.connect(sys.argv[1], timeout=5, key_file=sys.argv[2] if len(sys.argv) > 2 else None)
        print("connected")
    except Exception as error:
        print(type(error).__name__, error)
"""


# ---- raw ZeroMQ peers -------------------------------------------------------------------------------------------


def zmtp_ready(identity):
    """The READY command of a DEALER with that identity (rfc.zeromq.org/spec/23)."""
    body = b"\x05READY"
    for name, value in ((b"Socket-Type", b"DEALER"), (b"Identity", identity)):
        body += bytes([len(name)]) + name + struct.pack(">I", len(value)) + value
    return b"\x04" + bytes([len(body)]) + body


def zmtp_announce(connection, identity):
    """A handshake without authentication, as far as the other end lets us."""
    try:
        connection.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32))
        connection.sendall(zmtp_ready(identity))
        connection.settimeout(1)
        while connection.recv(4096):  # until its READY has come, or it hangs up
            connection.settimeout(0.05)
    except OSError:
        pass
    return connection


def predicted(count=8):
    """The identities that a ROUTER of a process that never seeded rand() hands out, after the first few."""
    first = 0x6B8B4567
    return [b"\0" + struct.pack(">I", first + k) for k in range(count)]


@pytest.mark.parametrize("transport", ["tcp", "ipc"])
def test_a_peer_that_takes_the_next_identities_does_not_end_the_server(programs, transport):
    server = programs.cluster()
    assert programs.run(WORK, f"localhost:{server.port}") == "right\n"
    peers = []
    try:
        for identity in predicted():
            if transport == "tcp":
                peer = socket.create_connection(("127.0.0.1", server.port), PATIENCE_S)
            else:
                peer = socket.socket(socket.AF_UNIX)
                peer.connect(str(programs.runtime / "gt" / f"{server.port}.ipc"))
            peers.append(zmtp_announce(peer, identity))
        for _ in range(3):
            assert programs.run(WORK, f"{transport}://localhost:{server.port}") == "right\n"
    finally:
        for peer in peers:
            peer.close()
    assert server.alive


# ---- one host ---------------------------------------------------------------------------------------------------


def test_secrets_are_private_and_leave_with_the_server(programs):
    server = programs.server()
    secrets = programs.runtime / "gt" / f"{server.port}.keys"
    for suffix in ("keys", "memory", "ipc"):
        assert secrets.with_suffix("." + suffix).stat().st_mode & 0o777 == 0o600, suffix
    server.kill()
    other = programs.server()
    assert not secrets.exists(), "the secrets of a server that was killed stay"
    other.end()
    assert programs.runtime_entries() == []


def test_another_user_is_not_served(programs):
    """A process without access to the private directory reaches the tcp port, and no more."""
    server = programs.cluster()
    elsewhere = programs.directory / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    address = f"tcp://localhost:{server.port}"
    kind, _, text = programs.run(REFUSED, address, XDG_RUNTIME_DIR=elsewhere).partition(" ")
    assert kind == "GtConnectionError" and "refused" in text and "key" in text and "XDG_RUNTIME_DIR" in text, text
    worker = programs.worker(server.port, "--timeout", 2, host="tcp://localhost", XDG_RUNTIME_DIR=elsewhere)
    assert worker.wait() == 1 and "refused" in worker.text(), worker.text()
    assert programs.run(WORK, address) == "right\n"


def test_a_password_is_not_sent_to_a_port_that_another_program_took(programs):
    """The server was killed and left its file; what listens at its port now learns nothing."""
    server = programs.server()
    secrets = programs.runtime / "gt" / f"{server.port}.keys"
    password = next(line.split()[1] for line in secrets.read_text().splitlines() if line.startswith("password"))
    server.kill()
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", server.port))
        squatter.listen()
        client = programs.python(REFUSED, f"tcp://localhost:{server.port}")
        squatter.settimeout(PATIENCE_S)
        connection, _ = squatter.accept()
        with connection:
            # A server that asks for a password.
            connection.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"PLAIN".ljust(20, b"\0") + bytes(32))
            connection.settimeout(1)
            heard = b""
            try:
                while piece := connection.recv(4096):
                    heard += piece
            except OSError:
                pass
        assert password.encode() not in heard
        assert client.wait() == 0 and "connected" not in client.output.read_text()


# ---- peers that come and go --------------------------------------------------------------------------------------


def test_a_worker_joins_a_restarted_server(programs):
    server = programs.cluster(worker_options=["--name", "loyal"])
    assert programs.run(WORK, f"localhost:{server.port}") == "right\n"
    server.kill()
    until(lambda: "is gone" in server.workers[0].text(), "the worker to notice")
    again = programs.start([GT_BINARY, "server", "-p", server.port], "server")
    assert programs.run(WORK, f"localhost:{server.port}") == "right\n"
    assert again.alive and server.workers[0].alive
    again.end()
    assert server.workers[0].wait() == 0, "a worker ends when its server says goodbye"


STATS = """
    import sys, gt, gt.debug
    gt.connect(sys.argv[1])
    print(*sorted((worker["index"], worker["name"]) for worker in gt.debug.get_worker_stats(wait=True).values()))
"""


def test_a_replacement_takes_over_the_number(programs):
    """Before the end of its predecessor is noticed, and after others have joined."""
    server = programs.server()
    address = f"localhost:{server.port}"

    def numbers():
        return programs.run(STATS, address).strip()

    first = programs.worker(server.port, "--name", "first")
    until(lambda: numbers() == "(0, 'first')", "the first worker")
    second = programs.worker(server.port, "--index", 3)
    until(lambda: numbers() == "(0, 'first') (3, 'worker_3')", "the second worker")
    os.kill(first.pid, signal.SIGSTOP)
    programs.worker(server.port, "--name", "first")
    programs.worker(server.port, "--index", 3)
    until(lambda: numbers() == "(0, 'first') (3, 'worker_3')" and not second.alive, "the replacements")
    first.signal(signal.SIGCONT)
    assert first.wait() == 0, "the replaced worker ends"
    refused = programs.worker(server.port, "--index", 3, "--name", "other", "--timeout", 2)
    assert refused.wait() == 1 and "worker_3" in refused.text(), refused.text()
    assert programs.run(WORK, address) == "right\n"


@pytest.mark.parametrize("link, count", [("memory", 1000), ("ipc", 300), ("tcp", 300)])
def test_many_connect_at_once(programs, link, count):
    """None is refused, and none falls back from shared memory to a slower transport, because the server is busy. A connection takes
    four descriptors of each side, by ZeroMQ more of the client."""
    server = programs.cluster()
    count = min(count, resource.getrlimit(resource.RLIMIT_NOFILE)[1] // (8 if link == "memory" else 32))
    address = f"localhost:{server.port}" if link == "memory" else f"{link}://localhost:{server.port}"
    assert programs.run("""
        import collections, os, sys, threading
        from gt import _gt
        _gt.open(sys.argv[1], 30).close()
        count = int(sys.argv[2])
        barrier, kinds = threading.Barrier(count), collections.Counter()
        connections = []

        def connect():
            barrier.wait()
            connections.append(_gt.open(sys.argv[1], 30))
            kinds[connections[-1].description.partition(":")[0]] += 1

        threads = [threading.Thread(target=connect) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(dict(kinds), flush=True)
        os._exit(0)
    """, address, count) == f"{{'{link}': {count}}}\n"
    assert programs.run(WORK, f"localhost:{server.port}") == "right\n"


def test_silent_connections_are_ended(programs):
    server = programs.cluster()
    path = str(programs.runtime / "gt" / f"{server.port}.memory")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
        silent.connect(path)
        silent.settimeout(PATIENCE_S)
        assert silent.recv(1) == b"", "a connection that says nothing is kept"
    assert programs.run(WORK, f"localhost:{server.port}") == "right\n"


# ---- keys -------------------------------------------------------------------------------------------------------


class Keys:
    """Key files in a directory, and the server's list."""

    def __init__(self, directory):
        self.directory, self.public, self.lines = directory, {}, []
        self.make("server")

    def make(self, name, role=None, *options):
        path = self.directory / f"{name}.key"
        done = subprocess.run([GT_BINARY, "keygen", path, *options], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        self.public[name] = done.stdout.strip()
        if role:
            self.lines.append(f"{role} {self.public[name]} {name}")
        return path

    def peer(self, name, role=None):
        return self.make(name, role, "--server", self.public["server"])

    def server_options(self):
        allowed = self.directory / "allowed"
        allowed.write_text("# who may connect\n\n" + "\n".join(self.lines) + "\n")
        return ["--key-file", self.directory / "server.key", "--allow-keys", allowed]


@pytest.fixture
def keys(programs):
    return Keys(programs.directory)


def test_keys_admit_clients_and_workers(programs, keys):
    alice, bob, mallory = keys.peer("alice", "client"), keys.peer("bob", "worker"), keys.peer("mallory")
    server = programs.server(*keys.server_options())
    address = f"tcp://127.0.0.1:{server.port}"
    elsewhere = programs.directory / "elsewhere"  # as on another host: nothing of the server's is there
    elsewhere.mkdir(mode=0o700)

    def worker(key, *options):
        return programs.worker(server.port, "--key-file", key, *options, host="tcp://127.0.0.1", XDG_RUNTIME_DIR=elsewhere)

    refused = worker(alice, "--timeout", 2)
    assert refused.wait() == 1 and "worker" in refused.text() and "key" in refused.text(), refused.text()
    good = worker(bob)
    assert programs.run(WORK, address, alice, XDG_RUNTIME_DIR=elsewhere) == "right\n"
    assert programs.run(WORK, address, XDG_RUNTIME_DIR=elsewhere, GT_KEY_FILE=alice) == "right\n"
    assert programs.run(WORK, f"localhost:{server.port}") == "right\n", "the same user on the same host needs no key"
    for key, words in ((mallory, "does not allow this key"), (None, "--key-file")):
        text = programs.run(REFUSED, address, *filter(None, [key]), XDG_RUNTIME_DIR=elsewhere)
        assert text.startswith("GtConnectionError") and words in text, text
    assert good.alive and server.alive


def test_encrypted_links_carry_frames_of_every_size(programs, keys):
    alice, bob = keys.peer("alice", "client"), keys.peer("bob", "worker")
    server = programs.server(*keys.server_options())
    programs.worker(server.port, "--key-file", bob, host="tcp://127.0.0.1")
    text = programs.run("""
        import sys
        import numpy as np
        import gt
        gt.connect(sys.argv[1], key_file=sys.argv[2])
        for count in (1, 1000, 1023, 1024, 5000):
            x = gt.zeros(3)
            for _ in range(count):  # as many records as a frame has, and more
                x = x + 1
            assert x.tolist() == 3 * [count]
        data = np.arange(3_000_000, dtype=np.float32)
        assert (gt.from_numpy(data).numpy() == data).all()
        print("right")
        """, f"tcp://127.0.0.1:{server.port}", alice, GT_AUTO_COMPILE="0")
    assert text == "right\n", text


def listening_ports(pid):
    """Of a process, by tcp."""
    targets = [os.readlink(entry) for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir()]
    inodes = {target.removeprefix("socket:[").rstrip("]") for target in targets}
    lines = [line.split() for name in ("tcp", "tcp6") for line in open(f"/proc/{pid}/net/{name}").readlines()[1:]]
    return [int(line[1].rpartition(":")[2], 16) for line in lines if line[3] == "0A" and line[9] in inodes]


SPREAD = """
    import sys, gt
    gt.connect(sys.argv[1])
    while len(gt.debug.get_worker_stats()) < 2:
        pass
    gt.register_config("rows", gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[0, 1])))
    x = gt.signal.tensor(gt.arange(8.0).reshape(4, 2), name="rows")
    print((x.T @ x).tolist())
"""


def test_a_worker_listens_only_where_it_is_asked_to(programs, keys):
    """Two workers that share no memory, as on two hosts: one of them must listen."""
    key = keys.peer("far", "worker")
    server = programs.server(*keys.server_options())
    workers = []
    for k, options in enumerate(([], ["--listen", "auto"])):
        folder = programs.directory / f"host-{k}"
        folder.mkdir(mode=0o700)
        workers.append(programs.worker(server.port, "--key-file", key, "--index", k, *options, host="tcp://127.0.0.1",
                                       XDG_RUNTIME_DIR=folder))
    assert programs.run(SPREAD, f"localhost:{server.port}") == "[[56.0, 68.0], [68.0, 84.0]]\n"
    assert [len(listening_ports(worker.pid)) for worker in workers] == [0, 1]


def test_the_server_knows_users_apart(programs, keys):
    alice = keys.peer("alice", "client")
    server = programs.server(*keys.server_options())
    programs.worker(server.port)
    text = programs.run("""
        import sys, gt
        import gt.debug
        from gt.client.client import Client
        before = Client("localhost", int(sys.argv[1])).connect()
        far = Client("tcp://127.0.0.1", int(sys.argv[1]), key_file=sys.argv[2]).connect()
        print([client["user"] for client in gt.debug.dispatcher_stats()["clients"]])     # what alice may see
        near = Client("localhost", int(sys.argv[1])).connect()
        print(sorted(client["user"] for client in gt.debug.dispatcher_stats()["clients"]))
    """, server.port, alice)
    assert text == "['alice']\n" + str(sorted(["alice", *2 * [f"uid {os.getuid()}"]])) + "\n"


def test_the_list_of_keys_is_read_again(programs, keys):
    alice, bob, new = keys.peer("alice", "client"), keys.peer("bob"), keys.peer("new")
    options = keys.server_options()
    server = programs.server(*options)
    programs.worker(server.port)
    address = f"tcp://127.0.0.1:{server.port}"
    stay = programs.python("""
        import sys
        import time
        import gt
        gt.connect(sys.argv[1], key_file=sys.argv[2])
        try:
            while True:
                gt.ones(3).sum().item()
                print("works", flush=True)
                time.sleep(0.01)
        except ConnectionError as error:
            print(error)
        """, address, alice, name="alice")
    until(lambda: "works" in stay.text() or not stay.alive, "alice")
    text = programs.run(REFUSED, address, bob)
    assert "does not allow this key" in text, text
    keys.lines[:] = [f"client {keys.public['bob']} bob", f"client {keys.public['new']} alice"]  # alice has another key now
    keys.server_options()
    server.signal(signal.SIGHUP)
    assert stay.wait() == 0 and stay.text().splitlines()[-1] != "works", stay.text()
    assert programs.run(WORK, address, bob) == programs.run(WORK, address, new) == "right\n"
    assert "does not allow this key" in programs.run(REFUSED, address, alice)
    pathlib.Path(options[-1]).write_text("nonsense\n")  # a mistake: the list stays, and the server says why
    server.signal(signal.SIGHUP)
    until(lambda: "line 1 is malformed" in server.text(), "the error")
    assert programs.run(WORK, address, bob) == "right\n"


def test_keys_are_withdrawn_while_programs_are_recovered(programs, keys):
    """The server reads its config later then, but whoever may not connect any more leaves at once."""
    alice = keys.peer("alice", "client")
    server = programs.server(*keys.server_options(), "--recover", "--recover-wait", 600, GT_VERBOSE=1)
    worker = programs.worker(server.port)
    address = f"tcp://127.0.0.1:{server.port}"
    stay = programs.python("""
        import sys
        import gt
        gt.connect(sys.argv[1], key_file=sys.argv[2])
        kept = gt.ones(3)
        try:
            while True:
                print(kept.sum().item(), flush=True)
        except ConnectionError as error:
            print(error)
        """, address, alice, name="alice")
    until(lambda: "3.0" in stay.text() or not stay.alive, "alice")
    worker.kill()
    keys.lines.clear()
    keys.server_options()
    until(lambda: "is gone" in server.text(), "the loss")
    server.signal(signal.SIGHUP)
    assert stay.wait() == 0 and "not allowed any more" in stay.text(), stay.text() + server.text()
    assert "does not allow this key" in programs.run(REFUSED, address, alice)


def test_bad_key_files_are_named(programs, keys):
    alice = keys.peer("alice", "client")
    options = keys.server_options()
    again = subprocess.run([GT_BINARY, "keygen", alice], capture_output=True, text=True, timeout=60)
    assert again.returncode == 1 and "alice.key" in again.stderr, "a key file was overwritten"
    wrong = subprocess.run([GT_BINARY, "keygen", "x", "--server", "abc"], capture_output=True, text=True, timeout=60)
    assert wrong.returncode == 2 and "public key" in wrong.stderr
    assert alice.stat().st_mode & 0o777 == 0o600
    for arguments, words in (
        (["--key-file", options[1]], "both"),
        (["--key-file", options[1], "--allow-keys", "/nonexistent"], "/nonexistent"),
        (["--key-file", options[3], "--allow-keys", options[3]], "only its owner"),
        (["--key-file", options[1], "--allow-keys", options[1]], "line 2 is malformed"),
        (["--host", "0.0.0.0"], "--insecure"),
    ):
        server = programs.start([GT_BINARY, "server", "-p", 0, *arguments], "server")
        assert server.wait() == 1 and words in server.text(), server.text()
    server_key = programs.run(REFUSED, "tcp://127.0.0.1:1", options[1])
    assert "does not name the server's key" in server_key
    os.chmod(alice, 0o644)
    assert "only its owner" in programs.run(REFUSED, "tcp://127.0.0.1:1", alice)


def test_orders_are_for_those_who_could_be_workers(programs, keys):
    """gt drain and gt reload from elsewhere: with a worker's key, and not with a client's."""
    alice, bob = keys.peer("alice", "client"), keys.peer("bob", "worker")
    server = programs.server(*keys.server_options())
    elsewhere = programs.directory / "elsewhere"
    elsewhere.mkdir(mode=0o700)

    def order(key, *command):
        return subprocess.run([GT_BINARY, *command, "--host", "tcp://127.0.0.1", "-p", str(server.port)], capture_output=True,
                              text=True, timeout=60, env=clean_environment(elsewhere, GT_KEY_FILE=key))

    for command in (["drain", "0"], ["reload"]):
        refused = order(alice, *command)
        assert refused.returncode == 1 and "only the server's own user, and holders of a worker's key" in refused.stderr, refused
    assert "has no worker 0" in order(bob, "drain", "0").stderr
    assert order(bob, "reload").returncode == 0
    assert server.alive
