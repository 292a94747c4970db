"""Collectives of workers on several hosts in tiers (src/worker/peers/collective_tiers.c). GT_HOST names the hosts of these tests, which are
processes of this machine; the suite of all collectives, tests/c/test_conformance.c, has the ways tiers, tiers-ucx, -engines and -nccl."""

import json

import pytest

from support import PATIENCE_S, until
from test_exchange_ucx import PLUGIN, TRAINING

PROGRAM = TRAINING.replace("[0, 1]", "[0, 1, 2, 3]").replace("< 2", "< 4")
EXCHANGES = ["mesh", pytest.param("ucx", marks=pytest.mark.skipif(not PLUGIN.exists(), reason="gt is built without libucx"))]
TOLD = "collectives of 4 workers in tiers: 2 groups, {0} inside, {0} between\n"


def start(programs, exchange, hosts, asked="1111"):
    server = programs.server()
    workers = [programs.worker(server.port, "--threads", 1, "--index", number, GT_EXCHANGE=exchange, GT_HOST=host, GT_TIERS=asks,
                               GT_VERBOSE=1)
               for number, (host, asks) in enumerate(zip(hosts, asked))]
    return server, workers


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_training(programs, exchange):
    """Three workers on one host, one on another: the sums run in the same order as without tiers, so the losses are the same bits."""
    server, workers = start(programs, exchange, "aaaa")
    losses, names = json.loads(programs.run(PROGRAM, f"localhost:{server.port}"))
    assert names == 4 * [exchange] and losses[-1] < losses[0]
    assert not any("in tiers" in worker.text() for worker in workers)
    server, workers = start(programs, exchange, "aaab")
    programs_at_once = [programs.python(PROGRAM, f"localhost:{server.port}", name=f"client{k}") for k in range(2)]
    for program in programs_at_once:
        assert program.wait(2 * PATIENCE_S) == 0, program.text()
        assert json.loads(program.text()) == [losses, names]
    assert all(TOLD.format(exchange) in worker.text() for worker in workers)


def test_all_must_ask(programs):
    """One that does not ask for tiers is known to the others: none uses them."""
    server, workers = start(programs, "mesh", "aabb", "1101")
    losses, _ = json.loads(programs.run(PROGRAM, f"localhost:{server.port}"))
    assert losses[-1] < losses[0]
    assert not any("in tiers" in worker.text() for worker in workers)


def test_a_leader_that_is_killed(programs):
    server, workers = start(programs, "mesh", "abab")
    program = programs.python("""
        import sys
        import gt
        gt.connect(sys.argv[1])
        while len(gt.debug.get_worker_stats()) < 4:
            pass
        gt.register_config('rows', gt.SignalConfig(shard=gt.ShardConfig(axis=0)))
        gt.register_config('all', gt.SignalConfig(shard=gt.ShardConfig(replicated=True)))
        x = gt.signal.tensor(gt.ones(4, 1 << 16), name='rows')
        def total():
            return gt.signal.tensor((x + 1).sum(dim=0), name='all').sum().item()
        print(total(), flush=True)
        try:
            while total() == 8 << 16:
                pass
            print('wrong')
        except gt.GtConnectionError as error:
            print(error)
    """, f"localhost:{server.port}", name="client")
    until(lambda: str(float(8 << 16)) in program.text() or not program.alive, "the first sum")
    workers[1].kill()
    assert program.wait(PATIENCE_S) == 0, program.text()
    assert "wrong" not in program.text() and " is gone" in program.text(), program.text()
