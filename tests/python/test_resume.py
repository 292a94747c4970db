"""
Clients by tcp outlive their connection (docs/recovery.md): a proxy cuts connections after given numbers of bytes, and the program
ends with the results of an undisturbed run.
"""

import random
import re
import subprocess

import pytest
from cutting import TRAIN, CuttingProxy
from support import GT_BINARY, clean_environment, until

@pytest.fixture
def through(programs):
    proxies = []

    def make(port, cuts=()):
        proxies.append(CuttingProxy(port, cuts))
        return proxies[-1]

    yield make
    for one in proxies:
        one.close()


def check_cuts(programs, through, port, runs, cuts, **environment):
    """A run through cut connections prints what one without cuts does."""
    whole = through(port)
    expected = programs.run(TRAIN, f"tcp://127.0.0.1:{whole.port}", **environment)
    chance = random.Random(5)
    for _ in range(runs):
        proxy = through(port, chance.sample(range(4000, whole.passed), cuts))
        assert programs.run(TRAIN, f"tcp://127.0.0.1:{proxy.port}", GT_RESUME=60, **environment) == expected
        assert proxy.cut_count >= cuts // 2 and proxy.connections > proxy.cut_count


def test_cuts_at_any_position_change_nothing(programs, through):
    server = programs.server("--insecure", GT_RESUME=60)
    programs.worker(server.port, "--threads", 1)
    check_cuts(programs, through, server.port, runs=4, cuts=8)


def test_cuts_of_a_sharded_program_change_nothing(programs, through):
    server = programs.server("--insecure", GT_RESUME=60)
    workers = [programs.worker(server.port, "--threads", 1, "--index", k, GT_VERBOSE=1) for k in range(2)]
    for worker in workers:
        until(lambda worker=worker: " joined " in worker.text(), "a worker")
    check_cuts(programs, through, server.port, runs=2, cuts=8, GT_AUTO_SHARD=1)


def test_an_encrypted_connection_is_made_again(programs, through):
    def keygen(name, *more):
        made = subprocess.run([GT_BINARY, "keygen", programs.directory / name, *more], capture_output=True, text=True, check=True,
                              env=clean_environment(programs.runtime))
        return made.stdout.split()[-1]

    server_key = keygen("server")
    allowed = programs.directory / "allowed"
    allowed.write_text(f"client {keygen('alice', '--server', server_key)} alice\n")
    server = programs.server("--key-file", programs.directory / "server", "--allow-keys", allowed, GT_RESUME=60)
    programs.worker(server.port, "--threads", 1)
    check_cuts(programs, through, server.port, runs=1, cuts=6, GT_KEY_FILE=programs.directory / "alice")


# Works, waits for a file, and goes on.
PAUSE = """
import os, sys, time
import gt
gt.connect(sys.argv[1])
ones = gt.ones(1000)
print(ones.sum().item(), flush=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
try:
    print((ones * 2).sum().item())
except gt.GtConnectionError as error:
    print(error)
"""


@pytest.fixture
def paused(programs, through):
    """A program that has worked through a proxy and waits: the server, the proxy, the program, and what lets it go on."""
    server = programs.server("--insecure", GT_RESUME=0.2, GT_VERBOSE=1)
    programs.worker(server.port)

    def start(**environment):
        proxy, go = through(server.port), programs.directory / "go"
        program = programs.python(PAUSE, f"tcp://127.0.0.1:{proxy.port}", go, **environment)
        until(lambda: program.text() == "1000.0\n", "the first answer")
        return server, proxy, program, go.touch

    return start


def test_a_program_whose_connection_cannot_be_made_again_says_so(paused):
    _, proxy, program, go = paused(GT_RESUME=0.5)
    proxy.end()
    go()
    assert program.wait() == 0
    assert "could not be made again within 0.5 s" in program.text()


def test_a_server_that_has_given_the_session_up_says_so(paused):
    server, proxy, program, go = paused(GT_RESUME=60)
    proxy.end()
    until(lambda: "has not come back within 0.2 s" in server.text(), "the end of the session")
    proxy.closed = False
    go()
    assert program.wait() == 0
    assert "does not know this client any more: it was restarted, or the client was away for longer" in program.text()


def test_the_statistics_name_a_client_that_is_cut(programs, through):
    """Until it comes back: then its lines are shown again."""
    server = programs.server("--insecure", GT_RESUME=60)
    programs.worker(server.port)
    proxy, go = through(server.port), programs.directory / "go"
    program = programs.python(PAUSE, f"tcp://127.0.0.1:{proxy.port}", go, GT_RESUME=60)
    until(lambda: program.text() == "1000.0\n", "the first answer")
    watcher = programs.python("""
import sys
import gt
gt.connect(sys.argv[1])
while clients := [client for client in gt.debug.dispatcher_stats()["clients"] if client["number"] == 1]:
    print(clients[0]["line"], flush=True)
""", f"localhost:{server.port}", name="watcher")
    until(lambda: "\n" in watcher.text(), "the statistics")
    assert "lost" not in watcher.text()
    proxy.end()
    until(lambda: re.search("^connection lost, waits (60|5.) s more$", watcher.text(), re.M), "the lost connection")
    proxy.closed = False
    go.touch()
    assert program.wait() == 0 and program.text() == "1000.0\n2000.0\n"
    assert watcher.wait() == 0, watcher.text()


def test_another_server_at_the_address_says_so(programs, paused):
    server, proxy, program, go = paused(GT_RESUME=60)
    other = programs.server("--insecure")
    proxy.target = other.port
    server.kill()
    go()
    assert program.wait() == 0
    assert "does not know this client any more" in program.text()


def test_the_session_of_a_killed_client_ends_after_the_time(paused):
    server, _, program, _ = paused(GT_RESUME=60)
    program.kill()
    until(lambda: re.search(r"client 1 .*left: .*has not come back within 0.2 s", server.text()), "the end of the session")


@pytest.mark.parametrize("setting", [{"GT_RESUME": 0}, {}], ids=["0", "default on one host"])
def test_without_it_a_cut_connection_is_an_error_at_once(paused, setting):
    _, proxy, program, go = paused(**setting)
    proxy.end()
    go()
    assert program.wait() == 0
    assert "closed the connection" in program.text() and proxy.connections == 1
