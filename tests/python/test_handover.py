"""gt.detach() and gt.attach(): a running session goes to another process, and the program goes on as if nothing had happened."""

import collections
import json
import re
import signal
import subprocess

import pytest

from support import GT_BINARY, clean_environment, until

import gt

LINKS = ("memory", "ipc", "tcp")

# A training program of 12 steps. Dropout and fresh batches need the random numbers to go on.
TRAINING = """
import sys
import gt
from gt import nn, optim
def make():
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 1))
    return model, optim.AdamW(model.parameters(), lr=1e-2)
def train(model, optimizer, steps):
    for step in range(steps):
        x = gt.randn(32, 6)
        loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(loss.item().hex(), flush=True)
"""
# The same in one process. New modules draw their first weights from the session's random numbers, so this one makes them twice, too.
WHOLE = TRAINING + """
gt.connect(sys.argv[1])
gt.manual_seed(5)
model, optimizer = make()
train(model, optimizer, 5)
weights, moments = model.state_dict(), optimizer.state_dict()
model, optimizer = make()
model.load_state_dict(weights)
optimizer.load_state_dict(moments)
train(model, optimizer, 7)
"""
FIRST = TRAINING + """
gt.connect(sys.argv[1])
gt.manual_seed(5)
model, optimizer = make()
train(model, optimizer, 5)
print(gt.detach({"model": model, "optimizer": optimizer}))
"""
SECOND = TRAINING + """
warm = gt.ones(3) + 1                       # the process has a session, sites and random numbers of its own already
state = gt.attach(sys.argv[1])
model, optimizer = make()
model.load_state_dict(state["model"])
optimizer.load_state_dict(state["optimizer"])
train(model, optimizer, 7)
"""


def hand_over(programs, first, second, address, **environment):
    """What two programs print, the second of which gets the token that is the last line of the first."""
    *before, token = programs.run(first, address, **environment).split("\n")[:-1]
    return before, token, programs.run(second, token, **environment).split("\n")[:-1]


@pytest.mark.parametrize("options", ((), ("--recover", "--recover-every", "0.001")), ids=("plain", "recover"))
@pytest.mark.parametrize("link", LINKS)
def test_a_training_run_goes_on_in_another_process(programs, link, options):
    server = programs.server(*options)
    programs.worker(server.port, "--threads", 1)
    address = f"{link}://localhost:{server.port}"
    before, token, after = hand_over(programs, FIRST, SECOND, address)
    assert token.startswith(f"{address}#") and len(before) == 5 and len(after) == 7
    assert before + after == programs.run(WHOLE, address).split()


def test_hot_paths_are_found_anew(programs):
    """Both programs have paths under the same numbers; with a journal, which has those of both."""
    server = programs.server("--recover")
    programs.worker(server.port, "--threads", 1)
    address, settings = f"localhost:{server.port}", {"GT_HOTPATH_THRESHOLD": 2, "GT_HOTPATH_MIN_SEQ": 2}
    first, second, whole = (program.replace("optimizer, 5)", "optimizer, 30)").replace("optimizer, 7)", "optimizer, 30)")
                            for program in (FIRST, SECOND, WHOLE))
    second += "print(sum(path['runs'] for path in gt.debug.get_hot_paths()) > 10)"
    before, _, after = hand_over(programs, first, second, address, **settings)
    assert after[-1] == "True" and len(before) == 30
    assert before + after[:-1] == programs.run(whole, address, **settings).split()


def test_a_session_outlives_its_worker_without_a_client(programs):
    server = programs.server("--recover")
    worker = programs.worker(server.port, "--threads", 1)
    token = programs.run("""
        import sys
        import gt
        gt.connect(sys.argv[1])
        x = gt.arange(10) * 1.5
        print(gt.detach([x, x[2:4]]))
        """, f"localhost:{server.port}").strip()
    programs.worker(server.port, "--threads", 1)
    worker.kill()
    assert programs.run("""
        import sys
        import gt
        x, part = gt.attach(sys.argv[1])
        part.zero_()                                            # a view of x here, too
        print(x.tolist())
        """, token) == "[0.0, 1.5, 0.0, 0.0, 6.0, 7.5, 9.0, 10.5, 12.0, 13.5]\n"


def test_sharded_tensors_and_signals_keep_their_places(programs):
    config = programs.directory / "rows.yaml"
    config.write_text("rows: {shard: {axis: 0, workers: [0, 1]}}\ncolumns: {shard: {axis: 1, workers: [0, 1]}}\n")
    server = programs.server()
    for index in range(2):
        programs.worker(server.port, "--index", index, "--threads", 1)
    first = """
        import sys
        import gt
        gt.connect(sys.argv[1])
        while len(gt.debug.get_worker_stats()) != 2:
            pass
        with gt.signal.context("rows"):
            x = gt.arange(24).reshape(8, 3) * 1.0
            w = gt.nn.Parameter(x * 2)
        print(gt.detach({"x": x, "w": w, "state": {"w": w.detach()}}))
        """
    second = """
        import sys
        import gt
        with gt.signal.context("columns"):                      # the first scope here, as rows was there: numbered anew for the session
            gt.ones(3).sum().item()
        got = gt.attach(sys.argv[1])
        print(got["x"].placement, got["w"].placement, got["state"]["w"].placement)
        with gt.signal.context("columns"):                      # what it means came with the session
            y = gt.ones(4, 6)
        print(y.placement)
        print((got["x"] + got["w"]).sum(1).tolist())
        """
    token = programs.run(first, f"localhost:{server.port}", GT_CONFIG=config).strip()
    rows, columns = "split(axis=0, workers=[0,1])", "split(axis=1, workers=[0,1])"
    expected = [sum(3.0 * k for k in range(3 * row, 3 * row + 3)) for row in range(8)]
    assert programs.run(second, token).split("\n") == [f"{rows} {rows} {rows}", columns, str(expected), ""]


def test_an_error_of_before_names_the_line_and_signal_of_before(programs):
    server = programs.cluster()
    before, token, after = hand_over(programs, """
        import sys
        import gt
        gt.connect(sys.argv[1])
        index = (gt.ones(1) * 7).long()
        with gt.signal.context("lookup"):
            bad = gt.ones(3)[index]                             # line 7
        good = gt.ones(2)
        print(gt.detach((bad, good)))
        """, """
        import sys
        import gt
        with gt.signal.context("another"):
            one = gt.ones(1)
        bad, good = gt.attach(sys.argv[1])
        worse = bad + 1
        index = (good * 9).long()
        for read in bad, worse, good[index]:                    # line 9
            try:
                read.tolist()
            except IndexError as error:
                print(error)
        print(good.tolist())
        """, f"localhost:{server.port}")
    assert len(after) == 4 and after[3] == "[1.0, 1.0]"
    for line in after[:2]:
        assert re.search(r"index 7 is out of bounds.*, issued at .*-program.py:7 in signal 'lookup'", line), line
    assert re.search(r"index 9 is out of bounds.*, issued at .*-program.py:9", after[2]) and "signal" not in after[2], after[2]


# ---- what travels --------------------------------------------------------------------------------------------------


@pytest.fixture
def here(programs, monkeypatch):
    """The address of a server for clients of this process."""
    server = programs.cluster()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(programs.runtime))
    gt.connect(f"localhost:{server.port}")
    yield server
    gt.disconnect()


def test_structures_come_back_as_they_were(here):
    x = gt.arange(6).reshape(2, 3) * 1.0
    leaf = gt.ones(2, requires_grad=True)
    weight = gt.nn.Parameter(gt.full((2, 2), 3.0))
    frozen = gt.nn.Parameter(gt.zeros(1), requires_grad=False)
    given = {"x": x, "again": [x, (x.t(), x[1])], 3: leaf, "weights": collections.OrderedDict(w=weight, f=frozen), "half": gt.ones(2).half(),
             "z": gt.ones(1) * 2j, "empty": gt.zeros(0, 3), "plain": [None, True, 2, 2.5, float("inf"), "text", 1 + 2j, gt.int16, gt.Size((1, 2))],
             ("a", 1): (), "bare": weight.detach()}
    expected = {"x": x.tolist(), "t": x.t().tolist(), "half": [1.0, 1.0]}
    got = gt.attach(gt.detach(given))
    assert list(got) == list(given) and type(got["weights"]) is collections.OrderedDict and type(got["again"][1]) is tuple
    assert got["plain"] == given["plain"] and type(got["plain"][-1]) is gt.Size and got[("a", 1)] == ()
    assert got["x"].tolist() == expected["x"] and got["again"][0] is got["x"] and got["again"][1][0].tolist() == expected["t"]
    assert got["half"].dtype == gt.float16 and got["half"].tolist() == expected["half"] and got["z"].tolist() == [2j]
    assert got["empty"].shape == (0, 3)
    assert got[3].requires_grad and got[3].is_leaf and not got["x"].requires_grad
    w, f = got["weights"].values()
    assert type(w) is type(f) is gt.nn.Parameter and w.requires_grad and not f.requires_grad
    # Memory is shared as it was.
    got["x"][1] = 9
    assert got["again"][1][1].tolist() == [9, 9, 9] and got["again"][1][0][0].tolist() == [0, 9]
    got["bare"].fill_(7)
    assert w.tolist() == [[7, 7], [7, 7]]
    (w * 2).sum().backward()
    assert w.grad.tolist() == [[2, 2], [2, 2]] and not got["bare"].requires_grad


def test_modules_and_optimizers_become_their_state(here):
    model = gt.nn.Linear(2, 3)
    optimizer = gt.optim.Adam(model.parameters(), lr=0.5)
    model(gt.ones(1, 2)).sum().backward()
    optimizer.step()
    weight, steps = model.weight.tolist(), optimizer.state_dict()["state"][0]["exp_avg"].tolist()
    got = gt.attach(gt.detach([model, optimizer]))
    model, optimizer = gt.nn.Linear(2, 3), gt.optim.Adam(gt.nn.Linear(2, 3).parameters())
    model.load_state_dict(got[0])
    optimizer.load_state_dict(got[1])
    assert model.weight.tolist() == weight
    assert optimizer.param_groups[0]["lr"] == 0.5 and optimizer.state_dict()["state"][0]["exp_avg"].tolist() == steps


def test_what_cannot_travel_is_named_and_the_session_stays(here):
    x = gt.ones(3, requires_grad=True)
    with pytest.raises(gt.GtError, match=r"tensors\['loss'\] requires a gradient and is not a leaf.*pass tensors\['loss'\].detach\(\)"):
        gt.detach({"loss": (x * 2).sum()})
    with pytest.raises(TypeError, match=r"tensors\[1\]\['f'\] is a function, which cannot be handed over"):
        gt.detach([1, {"f": lambda: 0}])
    with pytest.raises(TypeError, match="a key of type frozenset"):
        gt.detach({frozenset(): x})
    with gt.signal.context("inside"):
        token = "localhost:1#" + "0" * 64
        with pytest.raises(gt.GtError, match="no thread is in a signal scope"):
            gt.attach(token)
    with pytest.raises(gt.GtError, match="not a token"):
        gt.attach("localhost:1234")
    assert (x + 1).tolist() == [2, 2, 2]
    assert gt.attach(gt.detach()) is None                       # nothing was to be kept
    with pytest.raises(gt.GtConnectionError, match="was detached"):
        x + 1


def test_detach_of_a_tensor_is_pytorchs():
    x = gt.ones(2, requires_grad=True)
    for same in gt.detach(x), gt.detach(input=x):
        assert not same.requires_grad and same.tolist() == [1, 1]
    with pytest.raises(gt.GtError, match="a server of this program"):
        gt.detach([x.detach()])


# ---- users, limits, the server ---------------------------------------------------------------------------------------


LEAVE = """
import sys
import gt
gt.connect(sys.argv[1])
print(gt.detach(gt.nn.ParameterList([gt.full((256, 1024), 2.0)])))
"""
TAKE = """
import sys
import gt
try:
    print(gt.attach(sys.argv[1], *sys.argv[2:])["0"].sum().item())
except ConnectionError as error:
    print(error)
"""


def test_detached_sessions_count_for_their_user(programs):
    server = programs.server("--max-user-connections", 1, "--max-user-memory", "1500K")
    programs.worker(server.port)
    address = f"localhost:{server.port}"
    token = programs.run(LEAVE, address).strip()
    assert "the connections have reached" in programs.run("""
        import sys
        import gt
        try:
            gt.connect(sys.argv[1])
        except ConnectionError as error:
            print(error)
        """, address)
    # The one that attaches it is the same connection, and its tensors still count.
    assert programs.run("""
        import sys
        import gt
        kept = gt.attach(sys.argv[1])["0"]
        try:
            gt.ones(256, 1024).sum().item()
        except MemoryError as error:
            print("max-user-memory" in str(error), kept.sum().item())
        """, token) == f"True {256 * 1024 * 2.0}\n"


def test_only_the_same_user_attaches_unless_the_server_says_otherwise(programs):
    key = {}
    allowed = programs.directory / "allowed"

    def keygen(name, *more):
        made = subprocess.run([GT_BINARY, "keygen", programs.directory / name, *more], capture_output=True, text=True, check=True,
                              env=clean_environment(programs.runtime))
        return made.stdout.split()[-1]

    server_key = keygen("server")
    for name in "alice", "bob":
        key[name] = programs.directory / name
        with allowed.open("a") as file:
            file.write(f"client {keygen(name, '--server', server_key)} {name}\n")
    for who, taken in ("user", False), ("any", True):
        server = programs.server("--key-file", programs.directory / "server", "--allow-keys", allowed, "--attach-by", who)
        programs.worker(server.port)
        address = f"tcp://localhost:{server.port}"
        token = programs.run(LEAVE, address, GT_KEY_FILE=key["alice"]).strip()
        text = programs.run(TAKE, token, GT_KEY_FILE=key["bob"])
        if taken:
            assert text == f"{256 * 1024 * 2.0}\n"
        else:
            assert "was detached by alice, and only that user may attach it" in text
            assert programs.run(TAKE, token, GT_KEY_FILE=key["alice"]) == f"{256 * 1024 * 2.0}\n"


def test_a_server_shows_its_detached_sessions_and_names_them_at_its_end(programs):
    server = programs.server("--detached-for", 1000)
    programs.worker(server.port)
    programs.run(LEAVE, f"localhost:{server.port}")
    shown = subprocess.run([GT_BINARY, "top", "-p", str(server.port), "--once", "--json", "--interval", "0.1"], capture_output=True, text=True, check=True,
                           env=clean_environment(programs.runtime)).stdout
    client, = json.loads(shown.splitlines()[0])["clients"]
    assert re.fullmatch(r"detached, for \d+ s more", client["line"]) and client["tensors"] == 1
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert re.search(r"client 1 \(.*\) is detached, and was not attached: its 1 tensors are lost with the server", server.text()), server.text()


def test_a_worker_can_be_drained_of_a_detached_session(programs):
    server = programs.server()
    worker = programs.worker(server.port, "--index", 0)
    token = programs.run(LEAVE, f"localhost:{server.port}").strip()
    other = programs.worker(server.port, "--index", 1, GT_VERBOSE=1)
    until(lambda: " joined " in other.text(), "the second worker")
    text = subprocess.run([GT_BINARY, "drain", "-p", str(server.port), "0"], capture_output=True, text=True, check=True,
                          env=clean_environment(programs.runtime)).stdout
    assert "1 tensor moved" in text and worker.wait() == 0
    assert programs.run(TAKE, token) == f"{256 * 1024 * 2.0}\n"


def test_a_tape_of_both_programs_is_one_client(programs):
    tape = programs.directory / "run.tape"
    server = programs.server("--tape", tape)
    programs.worker(server.port, "--threads", 1)
    hand_over(programs, FIRST, SECOND, f"localhost:{server.port}")
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    replayed = subprocess.run([GT_BINARY, "replay", tape], capture_output=True, text=True, env=clean_environment(programs.runtime))
    assert replayed.returncode == 0 and re.search(r"replayed \d{3,} instructions", replayed.stdout), replayed.stdout + replayed.stderr


def test_the_token_names_the_server_as_its_first_client_did(programs):
    server = programs.cluster()
    token = programs.run(LEAVE, f"localhost:{server.port}").strip()
    elsewhere = token.replace("localhost", "unknown.invalid")
    assert programs.run(TAKE, elsewhere, f"tcp://127.0.0.1:{server.port}") == f"{256 * 1024 * 2.0}\n"
