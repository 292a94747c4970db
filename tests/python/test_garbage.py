"""Garbage on the wire: noise, truncated greetings, other protocol versions. Other clients are not affected."""

import random
import re
import socket
import struct
import threading
import time

import pytest

from support import PATIENCE_S
from test_server import CONNECT, TRANSPORTS, WORK, steady_client

def garbage():
    generator = random.Random(1)
    yield b""
    yield b"\0"
    yield b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    yield b"\xff" * 10_000
    yield bytes(generator.randrange(256) for _ in range(64))
    yield bytes(generator.randrange(256) for _ in range(100_000))
    # A ZeroMQ greeting (3.0, NULL), then a READY command, then frames of nonsense.
    greeting = b"\xff" + b"\0" * 8 + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" + b"\0" * 31
    ready = b"\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"
    for nonsense in (
        b"",
        b"\x00\x10" + b"x" * 16,
        b"\x00\x40" + bytes(range(64)),
        b"\x02" + struct.pack(">Q", 1 << 40),
        b"\x01\x04abcd\x00\x04efgh",
        b"\x00\x40" + b"\xff" * 64,
    ):
        yield greeting + b"\x04" + bytes([len(ready)]) + ready + nonsense


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_garbage_hurts_nobody(programs, transport):
    server = programs.cluster()
    client, stop = steady_client(programs, f"{transport}://localhost:{server.port}")
    sockets = [path for path in programs.runtime.rglob("*") if path.is_socket()]
    for data in garbage():
        targets = [(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", server.port))]
        for path in sockets:
            targets += [(socket.AF_UNIX, kind, str(path)) for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET)]
        for family, kind, address in targets:
            with socket.socket(family, kind) as connection:
                connection.settimeout(5)
                try:
                    connection.connect(address)
                    connection.sendall(data)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(1 << 16):
                        pass
                except OSError:  # refused or closed, as it should be
                    pass
    assert server.alive, server.text()
    stop.touch()
    assert client.wait() == 0, client.text()
    assert client.output.read_text() == "right True\n"


def closed_by_the_server(connection):
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionError:
        pass
    return True


def test_connections_that_are_not_zeromq_end(programs):
    """Many connections, held open from this side: the server closes each within seconds; a client is unaffected."""
    server = programs.cluster()
    client, stop = steady_client(programs, f"tcp://localhost:{server.port}")
    generator = random.Random(2)
    beginnings = [
        b"",  # half open: it never sends anything
        b"\xff",
        b"\xff" + b"\0" * 8,
        b"\xff" + b"\0" * 8 + b"\x7f\x03",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        *(generator.randbytes(size) for size in (1, 9, 10, 63, 64, 65, 1000, 50_000)),
    ]
    held = [socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) for _ in beginnings]
    start = time.monotonic()
    for connection, data in zip(held, beginnings):
        try:
            connection.sendall(data)
        except ConnectionError:  # the server closed it already
            pass
    for connection in held:
        assert closed_by_the_server(connection)
        connection.close()
    assert time.monotonic() - start < 15, "ZeroMQ's own limit is 30 s"
    stop.touch()
    assert client.wait() == 0, client.text()
    assert client.output.read_text() == "right True\n"


def test_half_open_connections_do_not_block_others(programs):
    """Many silent connections, kept open."""
    server = programs.cluster()
    held = []
    try:
        for _ in range(100):
            connection = socket.create_connection(("127.0.0.1", server.port), timeout=5)
            held.append(connection)
        for path in programs.runtime.rglob("*.memory"):
            for _ in range(100):
                connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                connection.settimeout(1)
                held.append(connection)
                try:
                    connection.connect(str(path))
                except OSError:
                    break
        for transport in TRANSPORTS:
            assert programs.run(WORK, f"{transport}://localhost:{server.port}") == "right\n"
    finally:
        for connection in held:
            connection.close()


class TamperingProxy:
    """Passes bytes between a client and a server, changing the protocol version in the client's greeting."""

    def __init__(self, port):
        self.target, self.tampered = port, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.sockets = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            self.sockets += [client, server]
            threading.Thread(target=self.pump, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self.pump, args=(server, client, False), daemon=True).start()

    def pump(self, source, sink, tamper):
        try:
            while data := source.recv(1 << 16):
                if tamper:
                    data = self.change(data)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def change(self, data):
        """A greeting is the sender's pid, three empty operands, then the version: 64-bit integers, little-endian."""
        pattern = re.compile(rb"(.{4}\x00{4}\x00{24})[\x01-\x1f]\x00{7}", re.DOTALL)
        changed, count = pattern.subn(rb"\g<1>" + struct.pack("<q", 999).replace(b"\\", b"\\\\"), data, count=1)
        self.tampered += count
        return changed

    def close(self):
        self.listener.close()
        for one in self.sockets:
            one.close()


def test_another_protocol_version_is_refused_politely(programs):
    server = programs.server("--insecure")  # the proxy's port has no password
    programs.worker(server.port)
    proxy = TamperingProxy(server.port)
    try:
        kind, seconds, text = programs.run(CONNECT, f"tcp://localhost:{proxy.port}", "dict(timeout=5)").split(
            "|", 2
        )
    finally:
        proxy.close()
    assert proxy.tampered, "the greeting went by unchanged"
    assert kind == "ConnectionError" and "version" in text and float(seconds) < 10, text
    assert programs.run(WORK, f"tcp://localhost:{server.port}") == "right\n"
