"""Peers that speak ZeroMQ's protocol by hand: half handshakes, stolen identities, and frames in any order after a good one.

A normal client works all the time, and must not notice. test_security.py has who may connect, test_garbage.py plain noise.
"""

import random
import socket
import struct

import pytest

from support import PATIENCE_S
from test_server import WORK, steady_client

OPEN, ACCEPT, CREDIT, CLOSE = 1, 2, 3, 4
VERSION = 3


def greeting(mechanism):
    return b"\xff" + bytes(8) + b"\x7f\x03\x00" + mechanism.ljust(20, b"\0") + bytes(32)


def command(name, body=b""):
    content = bytes([len(name)]) + name + body
    return b"\x04" + bytes([len(content)]) + content if len(content) < 256 else b"\x06" + struct.pack(">Q", len(content)) + content


def metadata(identity=b"", kind=b"DEALER"):
    pairs = ((b"Socket-Type", kind), (b"Identity", identity))
    return b"".join(bytes([len(name)]) + name + struct.pack(">I", len(value)) + value for name, value in pairs)


def frame(data, more=False):
    return bytes([int(more), len(data)]) + data if len(data) < 256 else bytes([2 + more]) + struct.pack(">Q", len(data)) + data


def control(kind, value=0, magic=0x7167747A):
    return frame(struct.pack("<IIQ", magic, kind, value))


def talk(port, *pieces):
    """Send these by tcp, each after the answer to the one before where it is a pair; returns what came until the server hung up
    or was silent."""
    heard = b""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as connection:
        try:
            for piece in pieces:
                data, answer = piece if isinstance(piece, tuple) else (piece, b"")
                connection.sendall(data)
                connection.settimeout(PATIENCE_S)
                while answer not in heard and (data := connection.recv(1 << 16)):
                    heard += data
            connection.settimeout(0.02)
            while data := connection.recv(1 << 16):
                heard += data
        except OSError:  # silent, or closed by the server
            pass
    return heard


class Server:
    """Where a server listens by tcp, and its password."""

    def __init__(self, programs, **environment):
        self.process = programs.cluster(**environment)
        self.port = self.process.port
        lines = (programs.runtime / "gt" / f"{self.port}.keys").read_text().splitlines()
        self.password = dict(line.split() for line in lines)["password"].encode()

    def hello(self, password=None):
        password = self.password if password is None else password
        return command(b"HELLO", b"\x04user" + bytes([len(password)]) + password)

    def handshake(self, identity=b""):
        """(what we send, what we wait for) in turn."""
        return [(greeting(b"PLAIN"), b"PLAIN"), (self.hello(), b"WELCOME"), (command(b"INITIATE", metadata(identity)), b"READY")]

    def send(self, *pieces):
        return talk(self.port, *pieces)


def beside_a_client(programs, server, link):
    """The server, with a client that works meanwhile; afterwards both are well, and a new client too."""
    client, stop = steady_client(programs, f"{link}localhost:{server.port}")
    yield server
    assert server.process.alive, server.process.text()
    stop.touch()
    assert client.wait() == 0, client.text()
    assert client.output.read_text() == "right True\n"
    assert programs.run(WORK, f"tcp://localhost:{server.port}") == "right\n"


@pytest.fixture
def server(programs):
    yield from beside_a_client(programs, Server(programs), "tcp://")


def test_half_handshakes(server):
    assert b"READY" in server.send(*server.handshake()), "the handshake by hand is right"
    steps = [data for data, _ in server.handshake()]
    whole = b"".join(steps)
    for length in [*range(0, len(whole), 23), len(whole) - 1]:
        assert b"READY" not in server.send(whole[:length])
    for order in ([2, 0, 1], [0, 2], [0, 2, 1], [0, 1, 1], [0, 0, 1, 2]):
        assert b"READY" not in server.send(*(steps[k] for k in order))


def test_wrong_passwords(server):
    wrong = [b"", b"0" * 64, server.password[:-1], server.password + b"0", server.password[:-1] + b"\0", b"\xff" * 255]
    for password in wrong:
        heard = server.send(server.handshake()[0], server.hello(password), command(b"INITIATE", metadata()))
        assert b"WELCOME" not in heard and b"READY" not in heard
    for mechanism in (b"NULL", b"CURVE", b"", b"PLAI"):
        assert b"READY" not in server.send(greeting(mechanism), command(b"READY", metadata()))


def test_identities_of_others(server):
    """Also of a process of the same user that knows the password."""
    generator = random.Random(5)
    identities = [b"\0" + struct.pack(">I", 0x6B8B4567 + k) for k in range(8)]
    identities += [b"\0" + generator.randbytes(4) for _ in range(8)]
    identities += [b"x", b"x", b"\0", b"\xff" * 255, generator.randbytes(5)]
    for identity in identities:
        server.send(*server.handshake(identity), control(OPEN, VERSION), frame(bytes(64)))


def test_frames_in_any_order(server):
    slots = [bytes(64), b"\xff" * 64, bytes(range(64)), bytes(64 * 5), bytes(64 * 1024), b"\xff" * 64 * 1024]
    pieces = [control(OPEN, VERSION), control(OPEN, VERSION + 1), control(OPEN, VERSION, magic=1), control(ACCEPT, 1), control(CREDIT, 1),
              control(CREDIT, 1 << 63), control(5, 7), control(6, 7), control(CREDIT, (1 << 64) - 1), control(CLOSE), control(99, 5), frame(b""),
              frame(bytes(63)), frame(bytes(65)), frame(bytes(64), more=True) + frame(bytes(64)), frame(b"", more=True) * 50 + frame(b""),
              *map(frame, slots), frame(bytes(64 * 1025)), b"\x02" + struct.pack(">Q", 1 << 40), b"\x02" + b"\xff" * 8 + bytes(100),
              b"\x00\x40" + bytes(10), command(b"PING", b"\0\1abc"), command(b"PONG", bytes(200)), command(b"ERROR", b"\x03bad"),
              command(b"READY", metadata()), command(b"WELCOME"), command(b"NONSENSE"), b"\x04\x00", b"\xff" * 20]
    accepted = struct.pack("<I", 0x7167747A)
    assert accepted in server.send(*server.handshake(), (control(OPEN, VERSION), accepted)), "a good one is refused"
    for piece in pieces:
        server.send(*server.handshake(), piece)
        server.send(*server.handshake(), control(OPEN, VERSION), piece, piece)
    generator = random.Random(6)
    for _ in range(40):
        server.send(*server.handshake(), control(OPEN, VERSION), *generator.choices(pieces, k=generator.randrange(1, 6)))
