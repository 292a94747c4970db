"""Clients that run the same program share what their worker has planned and compiled."""

import pytest

from support import REPOSITORY
from test_hotpath import HOT

PLUGINS = REPOSITORY / "build" / "tests" / "plugins"

CLIENT = """
    import sys
    import gt
    gt.connect(sys.argv[1])
    number, elements = float(sys.argv[2]), int(sys.argv[3])
    x, h = gt.arange(elements) % 7 * number, gt.zeros(elements)
    for turn in range(40):
        a = gt.tanh(h * 0.5 + x)
        b = (a * a + x).sqrt() - h * 0.25
        h = b.exp().log1p() * (1 / (turn + 1)) + a
        if turn % 10 == 9:
            print(h[:: elements // 8].tolist(), h.sum().item())
    hotpath = next(iter(gt.debug.get_worker_stats(wait=True).values()))["hotpath"]
    shown = [path["groups"] for path in gt.debug.get_hot_paths(wait=True) if path["runs"]]
    print(hotpath["runs"] > 10, hotpath["plans"], hotpath["compiled"], shown)
"""
OTHER_LINES = CLIENT.replace("import gt\n", "import gt\n\n\n")


def results(process):
    assert process.wait() == 0, process.text()
    *values, hotpath = process.output.read_text().splitlines()
    return values, hotpath


@pytest.mark.parametrize("backend", ["cpu", "late"])
def test_a_later_client_uses_the_plans_of_an_earlier_one(programs, monkeypatch, backend):
    """Also if its lines are others; it can still show what runs as one. late: an engine that finishes later."""
    monkeypatch.setenv("GT_ENGINE_PATH", str(PLUGINS))
    server = programs.cluster(worker_options=("--backend", backend))

    def client(text, number, **settings):
        return results(programs.python(text, f"localhost:{server.port}", number, 4000, **settings))

    first, planned = client(CLIENT, 1, **HOT)
    assert planned.startswith("True") and "[[" in planned, planned
    for text, number in ((CLIENT, 1), (OTHER_LINES, 2), (CLIENT, 3)):
        values, hotpath = client(text, number, **HOT)
        assert hotpath == planned
        assert values == client(text, number, GT_AUTO_COMPILE="0")[0]
        assert (values == first) == (number == 1)


def test_clients_at_the_same_time(programs):
    """Each run takes longer than a slice, so runs of one client are paused while another one runs the same path."""
    server = programs.cluster()

    def start(number, **settings):
        return programs.python(CLIENT, f"localhost:{server.port}", number, 1_000_000, **settings)

    together = [results(client)[0] for client in [start(number, **HOT) for number in range(1, 4)]]
    alone = [results(start(number, GT_AUTO_COMPILE="0"))[0] for number in range(1, 4)]
    for a, b in zip(together, alone, strict=True):
        assert [line.split("]")[0] for line in a] == [line.split("]")[0] for line in b]
