"""Peers that send bytes slowly, in crowds, twice, out of order or too many, on every link. Meanwhile a normal client works, and
must not notice. test_raw_peers.py has handshakes by hand, test_garbage.py noise, test_security.py who may connect."""

import array
import contextlib
import os
import random
import resource
import select
import socket
import struct
import threading
import time

import pytest

from support import PATIENCE_S, until
from test_raw_peers import Server, beside_a_client, command, control, frame, greeting, metadata, OPEN, talk, VERSION
from test_server import TRANSPORTS, WORK, steady_client


class Targets(Server):
    """Where a server listens, by every link."""

    def __init__(self, programs, **environment):
        super().__init__(programs, **environment)
        self.folder = programs.runtime / "gt"

    def connect(self, transport):
        if transport == "tcp":
            return socket.create_connection(("127.0.0.1", self.port), PATIENCE_S)
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET if transport == "memory" else socket.SOCK_STREAM)
        peer.settimeout(PATIENCE_S)
        peer.connect(str(self.folder / f"{self.port}.{transport}"))
        return peer

    def opening(self, transport):
        """All that a peer says until it has a link: ipc needs no password."""
        return b"".join(data for data, _ in self.steps(transport)) + control(OPEN, 1)

    def steps(self, transport):
        return self.handshake() if transport == "tcp" else [(greeting(b"NULL"), b"NULL"), (command(b"READY", metadata()), b"READY")]


@pytest.fixture
def server(programs):
    yield from beside_a_client(programs, Targets(programs), "")


def resident(pid):
    """Bytes of memory that the process has."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def drained(peer):
    """Whether the server has closed the connection; what it said before is thrown away."""
    peer.setblocking(False)
    try:
        while True:
            if not peer.recv(1 << 16):
                return True
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_a_byte_at_a_time(server):
    """A right opening, so slowly that it never ends: the server closes the connection after its limit for handshakes."""
    peers = [[server.connect(transport), server.opening(transport)] for transport in ("tcp", "ipc") for _ in range(50)]
    end = time.monotonic() + PATIENCE_S
    while peers:
        assert time.monotonic() < end, f"{len(peers)} slow connections are kept"
        for entry in list(peers):
            peer, left = entry
            try:
                peer.setblocking(False)
                if len(left) > 30:  # the last of it would be too late in any case
                    peer.send(left[:1])
                    entry[1] = left[1:]
                closed = drained(peer)
            except OSError:
                closed = True
            if closed:
                peer.close()
                peers.remove(entry)
        select.select([], [], [], 0.02)


def test_thousands_of_idle_connections(programs, server):
    """They say nothing. Clients connect and work beside them on every link; then the server has closed all of them."""
    count = min(1500, resource.getrlimit(resource.RLIMIT_NOFILE)[1] // 8)
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    idle = [server.connect(transport) for transport in TRANSPORTS for _ in range(count)]
    try:
        for transport in TRANSPORTS:
            assert programs.run(WORK, f"{transport}://localhost:{server.port}") == "right\n"
        until(lambda: all(drained(peer) for peer in idle), "the server to close idle connections")
    finally:
        for peer in idle:
            peer.close()
    descriptors = f"/proc/{server.process.pid}/fd"
    until(lambda: len(os.listdir(descriptors)) < 200, "the server to give their descriptors back")


@pytest.mark.parametrize("transport", ["tcp", "ipc"])
def test_more_connections_than_descriptors(programs, server, transport):
    """The server refuses what it has no descriptor for, and takes clients again when there are some."""
    most = len(os.listdir(f"/proc/{server.process.pid}/fd")) + 100
    before = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (most, most))
    assert before[0] > most
    crowd = [server.connect(transport) for _ in range(4 * most)]
    try:
        until(lambda: sum(drained(peer) for peer in crowd) > 2 * most, "the server to refuse connections")
        until(lambda: "descriptors that this process may open are in use" in server.process.text(), "the server to say why")
        assert programs.run(WORK, f"memory://localhost:{server.port}") == "right\n"
    finally:
        for peer in crowd:
            peer.close()
    assert programs.run(WORK, f"{transport}://localhost:{server.port}") == "right\n"


@pytest.mark.parametrize("transport", ["tcp", "ipc"])
def test_a_message_without_end(server, transport):
    """ZeroMQ hands over whole messages only: a peer that never ends one takes no more than a limited amount of memory."""
    with server.connect(transport) as peer:
        heard = b""
        for data, answer in server.steps(transport):
            peer.sendall(data)
            while answer not in heard:
                heard += (got := peer.recv(1 << 16))
                assert got, "the server ended a good handshake"
        peer.sendall(control(OPEN, VERSION))
        before, sent, part = resident(server.process.pid), 0, frame(bytes(60000), more=True)
        with pytest.raises(OSError):
            while sent < 1 << 30:
                peer.sendall(part)
                sent += len(part)
        assert sent < 100 << 20
        assert resident(server.process.pid) - before < 100 << 20


def tcp_connections(pid):
    """The numbers of a process's sockets that are connected."""
    own = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            own.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
    connected = set()
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}", encoding="ascii") as file:
            connected |= {f"socket:[{line.split()[9]}]" for line in file if line.split()[3] == "01"}
    return connected & own


def test_a_peer_that_says_nothing_after_the_handshake(programs):
    """It answers heartbeats, with which ZeroMQ is content. A worker that has nothing to say but joined keeps its connections."""
    server = Targets(programs, GT_TIMEOUT="8")
    worker = programs.worker(server.port, host="tcp://localhost", GT_TIMEOUT="8")
    until(lambda: len(tcp_connections(worker.pid)) == 2, "the worker's connections, for records and for statistics")
    joined = tcp_connections(worker.pid)
    with server.connect("ipc") as peer:
        peer.sendall(b"".join(data for data, _ in server.steps("ipc")))
        end = time.monotonic() + 3 * PATIENCE_S
        with contextlib.suppress(ConnectionError):
            while data := peer.recv(1 << 16):
                assert time.monotonic() < end, "a silent connection is kept"
                for _ in range(data.count(b"\x04PING")):
                    peer.sendall(command(b"PONG"))
    assert worker.alive and tcp_connections(worker.pid) == joined


# ---- frames of a real session --------------------------------------------------------------------------------------


class Recorder:
    """A proxy between a client and a server that keeps what the client says."""

    def __init__(self, port):
        self.target, self.said = port, b""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        client, _ = self.listener.accept()
        with client, socket.create_connection(("127.0.0.1", self.target)) as server:
            pairs = {client: server, server: client}
            while True:
                for source in select.select(list(pairs), [], [])[0]:
                    data = source.recv(1 << 16)
                    if not data:
                        return
                    if source is client:
                        self.said += data
                    pairs[source].sendall(data)


def frames_of(stream):
    """(the greeting, then each frame or command) of a ZeroMQ stream."""
    pieces, at = [stream[:64]], 64
    while at < len(stream):
        long = stream[at] & 2
        size = struct.unpack_from(">Q", stream, at + 1)[0] if long else stream[at + 1]
        end = at + (9 if long else 2) + size
        pieces.append(stream[at:end])
        at = end
    return pieces


def replay(port, pieces):
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as peer:
        try:
            for piece in pieces:
                peer.sendall(piece)
            peer.settimeout(0.02)
            while peer.recv(1 << 16):
                pass
        except OSError:  # silent, or closed by the server
            pass


def test_frames_of_a_session_again_and_in_another_order(programs):
    server = programs.server("--insecure")
    programs.worker(server.port)
    client, stop = steady_client(programs, f"localhost:{server.port}")
    recorder = Recorder(server.port)
    assert programs.run(WORK, f"tcp://127.0.0.1:{recorder.port}") == "right\n"
    recorder.thread.join(PATIENCE_S)
    opening, frames = frames_of(recorder.said)[:2], frames_of(recorder.said)[2:]
    assert len(frames) > 3, "there is something to replay"
    draw = random.Random(7)
    replay(server.port, [*opening, *frames])
    replay(server.port, [*opening, *frames, *frames])
    replay(server.port, [*opening, *(piece for piece in frames for _ in range(2))])
    for _ in range(30):
        some = draw.choices(frames, k=draw.randrange(1, 2 * len(frames)))
        replay(server.port, [*opening, *frames[:draw.randrange(3)], *some])
        whole = b"".join([*opening, *frames])
        replay(server.port, [whole[:draw.randrange(len(whole))]])
    assert server.alive, server.text()
    stop.touch()
    assert client.wait() == 0, client.text()
    assert client.output.read_text() == "right True\n"
    assert programs.run(WORK, f"tcp://127.0.0.1:{server.port}") == "right\n"


def test_a_forged_user_does_not_make_a_worker(programs):
    """With --insecure nobody is asked for a key, and ZeroMQ passes on what a peer says of itself."""
    server = programs.server("--insecure")
    elsewhere = programs.directory / "elsewhere"  # without the server's secret
    elsewhere.mkdir(mode=0o700)
    recorder = Recorder(server.port)
    stranger = programs.worker(recorder.port, "--timeout", 5, host="tcp://127.0.0.1", XDG_RUNTIME_DIR=elsewhere)
    assert stranger.wait() != 0 and "needs a key" in stranger.text(), stranger.text()
    recorder.thread.join(PATIENCE_S)
    opening, hello = frames_of(recorder.said)[2:4]
    assert opening == control(OPEN, VERSION) and len(hello) > 64
    for user in (b"", b"user", b"worker " + b"A" * 40 + b"evil"):
        forged = bytes([len(b"User-Id")]) + b"User-Id" + struct.pack(">I", len(user)) + user if user else b""
        ready = command(b"READY", metadata() + forged)
        heard = talk(server.port, greeting(b"NULL"), (ready, b"READY"), opening, (hello, b"needs a key"))
        assert b"needs a key" in heard, user
    assert server.alive


# ---- the socket of the memory link -----------------------------------------------------------------------------------

MAGIC = 0x796D656D2D746721
HELLO, WELCOME, SEGMENT = 1, 2, 3


def message(kind, value=0, magic=MAGIC, version=1):
    return struct.pack("<QIIQ", magic, version, kind, value)


def right_hello(server):
    """The one that the server welcomes: of its version."""
    for version in range(1, 100):
        with server.connect("memory") as peer:
            peer.sendmsg([message(HELLO, version=version)])
            data, descriptors, *_ = socket.recv_fds(peer, 1024, 8)
            for one in descriptors:
                os.close(one)
            if data:
                assert len(data) == 24 and len(descriptors) == 3
                return message(HELLO, version=version)
    raise AssertionError("no hello by hand is welcomed")


def test_messages_of_the_memory_link_by_hand(server):
    """Wrong, repeated, unasked, with descriptors of any kind, and none read."""
    right = right_hello(server)
    read, write = os.pipe()
    pair = socket.socketpair()
    files = [read, write, pair[0].fileno(), os.open("/dev/zero", os.O_RDWR), os.memfd_create("x")]
    version = struct.unpack("<QIIQ", right)[1]
    segment = message(SEGMENT, 1, version=version)
    messages = [b"", b"\0", right[:-1], right + b"\0", bytes(24), b"\xff" * 24, message(HELLO, magic=1), message(HELLO, version=99),
                message(WELCOME, version=version), segment, message(77, version=version),
                message(HELLO, 2**64 - 1, version=version), bytes(60_000)]
    for first in messages:
        for then in (None, right, segment, bytes(24)):
            with server.connect("memory") as peer:
                try:
                    peer.sendmsg([first])
                    for one in [] if then is None else files:
                        peer.sendmsg([then], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [one]))])
                except OSError:  # it was closed
                    pass
    with server.connect("memory") as peer:  # it never reads its welcome, and says more than a socket holds
        peer.setblocking(False)
        with pytest.raises(OSError):
            while True:
                peer.sendmsg([right], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files[:3]))])
    for one in (read, write, *files[3:]):
        os.close(one)
    for one in pair:
        one.close()


# ---- too much --------------------------------------------------------------------------------------------------------

BOMBS = """
    import sys
    import gt
    gt.connect(sys.argv[1])
    t = gt.ones(3)
    one = t[:1]
    F = gt.nn.functional
    bombs = [
        lambda: gt.ones(2**60), lambda: gt.ones(2**31, 2**31, 2**31), lambda: gt.zeros(2**45), lambda: gt.full((2**32, 2**32), 1.0),
        lambda: gt.arange(2**60), lambda: gt.arange(0, 1, 1e-18), lambda: gt.linspace(0, 1, 2**60), lambda: gt.eye(2**32),
        lambda: gt.rand(2**44), lambda: gt.randperm(2**60), lambda: one.expand(2**60).clone(), lambda: one.expand(2**50) + 1,
        lambda: one.expand(2**40).unsqueeze(1) + one.expand(2**40), lambda: t.repeat(2**60), lambda: t.repeat_interleave(2**60),
        lambda: gt.cat([one.expand(2**58)] * 64), lambda: gt.stack([one.expand(2**58)] * 64), lambda: F.one_hot(gt.tensor([1]), 2**50),
        lambda: F.pad(t, (2**60, 2**60)), lambda: gt.outer(one.expand(2**33), one.expand(2**33)),
        lambda: F.conv1d(gt.ones(1, 1, 3), gt.ones(1, 1, 3), padding=2**60), lambda: F.interpolate(gt.ones(1, 1, 3), size=2**60),
        lambda: gt.fft.fft(t, n=2**60), lambda: gt.bincount(gt.tensor([2**60])), lambda: t.as_strided((2**60,), (1,)),
        lambda: t.as_strided((2**31, 2**31, 4), (0, 0, 0)).clone(), lambda: gt.diag(t, 2**40), lambda: gt.ones(*([1] * 80)),
        lambda: gt.ones(-1), lambda: gt.nn.Linear(2**40, 2**30), lambda: gt.multinomial(t, 2**60, replacement=True),
    ]
    for k, bomb in enumerate(bombs):
        try:
            made = bomb()
            made.reshape(-1)[:1].tolist()
        except (RuntimeError, ValueError, OverflowError, MemoryError) as error:
            assert str(error), k
        else:
            print("no error", k, made.shape)
        assert (gt.ones(3) + 1).sum().item() == 6
    print("right")
"""


def most_memory(pid):
    """The most that a process ever had, in MiB."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


def test_tensors_that_are_too_large_are_refused_before_memory_is_taken(programs):
    server = programs.cluster()
    assert programs.run(WORK, f"localhost:{server.port}") == "right\n"
    processes = (server, *server.workers)
    before = [most_memory(process.pid) for process in processes]
    assert programs.run(BOMBS, f"localhost:{server.port}") == "right\n"
    assert all(most_memory(process.pid) < was + 64 for process, was in zip(processes, before))
