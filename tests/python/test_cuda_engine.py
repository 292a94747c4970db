"""The cuda engine as a user meets it on a machine without a card: refused in one line, and on the fake driver of tests/cuda a
program computes what the cpu engine computes."""

import os
import pathlib
import re

import pytest

from support import GT_BINARY, until

FAKE = pathlib.Path(GT_BINARY).parent / "tests" / "cuda"

pytestmark = pytest.mark.skipif(not (FAKE / "libcuda.so.1").exists(), reason="the fake driver is not built")

FIRST_ERROR = """
    import gt
    try:
        gt.ones(2).sum().item()
    except gt.GtError as error:
        print(error)
"""

TRAINING = """
    import gt
    import gt.nn.functional as F
    gt.manual_seed(0)
    model = gt.nn.Sequential(gt.nn.Linear(12, 16), gt.nn.GELU(), gt.nn.LayerNorm(16), gt.nn.Linear(16, 3))
    optimizer = gt.optim.AdamW(model.parameters(), lr=0.01)
    x, y = gt.randn(20, 12), gt.randint(0, 3, (20,))
    for step in range(40):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            print(f"{loss.item():.4f}")
    try:
        x[gt.tensor([77])].sum().item()
    except IndexError as error:
        print("77" in str(error))
    import json
    from gt import _gt
    [worker] = json.loads(_gt.stats(True))["workers"]
    print(worker["engine"], "on_host" in worker["ops"]["randint"])
"""


def fake(**more):
    libraries = os.pathsep.join(filter(None, [str(FAKE), os.environ.get("LD_LIBRARY_PATH")]))
    return {"GT_BACKEND": "cuda", "LD_LIBRARY_PATH": libraries, "FAKE_CUDA_MEMORY": 1 << 30, **more}


def test_without_a_card_it_says_so_in_one_line(programs):
    text = programs.run(FIRST_ERROR, **fake(FAKE_CUDA_NONE=1))
    assert re.fullmatch(r"backend 'cuda': \S+gt-engine-cuda\.so cannot start: there is no NVIDIA GPU\n", text), text


def test_without_a_driver_it_says_so_in_one_line(programs):
    if pathlib.Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has an NVIDIA driver, so its absence cannot be shown")
    text = programs.run(FIRST_ERROR, GT_BACKEND="cuda")
    assert re.fullmatch(r"backend 'cuda': \S+ cannot start: libcuda\.so\.1 is not found \(NVIDIA's driver\)\n", text), text


def test_a_card_that_does_not_exist(programs):
    text = programs.run(FIRST_ERROR, **fake(GT_CUDA_DEVICE=7))
    assert "GT_CUDA_DEVICE=7 is not the number of a GPU; there are 0 to 0" in text


@pytest.mark.parametrize("value, reports", [("foo", 1), ("ALWAYS", 1), ("2", 1), ("", 0), ("0", 0), ("1", 0)])
def test_nonsense_for_the_resident_kernel_is_named_once(programs, value, reports):
    process = programs.python("""
        import gt
        gt.gpu_workers(2)
        print(gt.ones(2).sum().item())
    """, **fake(GT_CUDA_RESIDENT=value))
    assert process.wait() == 0 and process.output.read_text() == "2.0\n", process.text()
    line = f"GT_CUDA_RESIDENT={value} is not valid: expected 0, 1 or always; using the default"
    errors = process.errors.read_text()
    assert errors.count(line) == errors.count("GT_CUDA_RESIDENT") == reports, errors


RESIDENT = {"GT_CUDA_RESIDENT": "always", "FAKE_CUDA_KERNELS": pathlib.Path(__file__).resolve().parents[2],
            "FAKE_CUDA_ONLY": "gt_resident(", "FAKE_CUDA_FOLDER": FAKE, "XDG_CACHE_HOME": FAKE}


@pytest.mark.parametrize("settings", [{}, {"GT_AUTO_COMPILE": 1}, RESIDENT], ids=["plain", "hot paths", "resident kernel"])
def test_training_is_the_same_as_on_the_cpu(programs, settings):
    expected = programs.run(TRAINING, GT_BACKEND="cpu")
    text = programs.run(TRAINING, **fake(**settings))
    assert text.splitlines()[:5] == expected.splitlines()[:5]
    assert text.splitlines()[5] == "cuda True", "the statistics count what ran on the host"


SPREAD = """
    import numpy as np
    import gt
    gt.gpu_workers(3)
    gt.register_config('rows', gt.SignalConfig(shard=gt.ShardConfig(axis=0)))
    gt.register_config('columns', gt.SignalConfig(shard=gt.ShardConfig(axis=1)))
    gt.register_config('whole', gt.SignalConfig(shard=gt.ShardConfig(replicated=True)))
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((2, 50, 50)).astype(np.float32)
    rows, columns = gt.signal.tensor(gt.tensor(A), name='rows'), gt.signal.tensor(gt.tensor(B), name='columns')
    whole = gt.signal.tensor(gt.tensor(B), name='whole')
    for _ in range(4):
        checks = [(rows @ whole, A @ B), (rows.T @ rows, A.T @ A), (rows @ columns, A @ B),
                  (gt.signal.tensor(rows, name='columns') * 2, A * 2), (rows.sum(dim=0) * columns.sum(dim=1), A.sum(0) * B.sum(1)),
                  (gt.signal.tensor(rows + 1, name='whole') @ whole, (A + 1) @ B)]
        for got, expected in checks:
            np.testing.assert_allclose(got.numpy(), expected, rtol=1e-4, atol=1e-3)
    stats = gt.debug.get_worker_stats(wait=True).values()
    print(len(stats), all(w['collectives'] > 0 for w in stats), any(w['moves'] for w in stats))
"""


def test_workers_on_one_card_lend_each_other_their_memory(programs):
    assert programs.run(SPREAD, **fake()) == "3 True True\n"


CARDS = {"FAKE_CUDA_CARDS": 3, "GT_EXCHANGE": "nccl", "GT_VERBOSE": 1}
WAYS = "    print({w['exchange'] for w in stats})\n"


def test_workers_on_different_cards_hold_collectives_by_nccl(programs):
    process = programs.python(SPREAD + WAYS, **fake(**CARDS))
    assert process.wait() == 0 and process.output.read_text().endswith("3 True True\n{'local+nccl'}\n"), process.text()
    assert "cuda: a communicator of 3 workers in" in process.text()


def test_a_communicator_that_cannot_be_made(programs):
    process = programs.python(SPREAD + WAYS, **fake(**CARDS, FAKE_NCCL_REFUSE=1))
    assert process.wait() == 0 and process.output.read_text().endswith("3 True True\n{'local+nccl'}\n"), process.text()
    assert process.text().count("go without NCCL: NCCL: a communicator: invalid usage") == 3, process.text()


def test_nccl_is_not_used_unasked(programs):
    text = programs.run(SPREAD + WAYS, **fake(FAKE_CUDA_CARDS=3))
    assert text.endswith("3 True True\n{'local'}\n"), text


@pytest.mark.parametrize("options, environment, exchange", [
    ([], {}, "mesh[+]nccl"),  # fake_nvml.c has two cards
    ([], {"GT_EXCHANGE": "mesh"}, "mesh"),
    (["--listen", "127.0.0.1"], {}, "mesh"),  # NCCL would send without encryption
    (["--listen", "127.0.0.1"], {"GT_TRUST_NETWORK": 1, "UCX_TLS": "tcp"}, "(mesh|ucx)[+]nccl"),
])
def test_worker_processes_choose_nccl_by_themselves(programs, options, environment, exchange):
    server = programs.server()
    workers = [programs.worker(server.port, *options, **fake(FAKE_CUDA_CARDS=2, GT_VERBOSE=1, **environment)) for _ in range(2)]
    text = programs.run("""
        import sys
        import gt
        gt.connect(sys.argv[1])
        while len(stats := gt.debug.get_worker_stats()) < 2:
            pass
        print(*{w['exchange'] for w in stats.values()})
    """, f"localhost:{server.port}")
    assert re.fullmatch(exchange + "\n", text), (text, workers[0].text())
    assert all(("cuda: NCCL" in worker.text()) == ("nccl" in exchange) for worker in workers)


def test_a_card_that_breaks_in_a_program_is_named(programs):
    text = programs.run(
        """
        import gt
        try:
            for k in range(100):
                x = (gt.ones(50) + k).sum().item()
        except RuntimeError as error:
            print("Fake GPU failed" in str(error))
        try:
            gt.ones(3).sum().item()
        except RuntimeError as error:
            print("worker" in str(error))
        """,
        **fake(FAKE_CUDA_BREAK=60),
    )
    assert text == "True\n" * 2


BESIDE_A_BROKEN_CARD = """
    import sys
    import gt
    gt.connect(sys.argv[1])
    x = gt.ones(50)
    for k in range(40):
        x = x + 1
    print(x.sum().item())
"""


@pytest.mark.parametrize("recover", [False, True], ids=["lost", "recovered"])
def test_a_worker_with_a_broken_card_leaves(programs, recover):
    """Its clients are told why, or go on elsewhere; those that come later use another worker."""
    server = programs.server(*["--recover", "--recover-wait", 1][:3 * recover])
    broken = programs.worker(server.port, "--backend", "cuda", "--name", "broken", **fake(FAKE_CUDA_BREAK=60, GT_CUDA_RESIDENT=0))
    address = f"localhost:{server.port}"
    count = "import sys, gt\ngt.connect(sys.argv[1])\nprint(len(gt.debug.get_worker_stats()))"
    until(lambda: programs.run(count, address) == "1\n", "the worker with the card")
    programs.worker(server.port, "--backend", "cpu", "--name", "fine")
    until(lambda: programs.run(count, address) == "2\n" or not broken.alive, "the other worker")
    said = []
    for _ in range(4):
        program = programs.python(BESIDE_A_BROKEN_CARD, address)
        program.wait()
        said.append(program.text())
    assert broken.wait() == 1 and "Fake GPU failed" in broken.text()
    right = [text == "2050.0\n" for text in said]
    assert right.count(True) == 4 if recover else right.count(True) >= 3 and all(
        ok or "worker broken" in text and "Fake GPU failed" in text for ok, text in zip(right, said)), said


def test_memory_that_runs_out_is_an_error_of_its_owner(programs):
    text = programs.run(
        """
        import gt
        kept = []
        try:
            while True:
                kept.append(gt.ones(64 << 20))
                kept[-1][0].item()
        except MemoryError as error:
            print(len(kept) > 1)
        kept.clear()
        print((gt.ones(64 << 20)[5] + 1).item())
        """,
        **fake(),
    )
    assert text == "True\n2.0\n"


def test_tf32_has_two_names():
    import gt

    assert gt.get_float32_matmul_precision() == "highest" and not gt.backends.cuda.matmul.allow_tf32
    gt.backends.cuda.matmul.allow_tf32 = True
    try:
        assert gt.get_float32_matmul_precision() == "high"
        a = gt.randn(20, 30)
        assert (a @ a.t()).shape == (20, 20) and gt.allclose((a @ a.t()).diagonal(), (a * a).sum(1), rtol=1e-2)
    finally:
        gt.set_float32_matmul_precision("highest")
    assert not gt.backends.cuda.matmul.allow_tf32


def test_convolutions_may_use_tf32_unless_forbidden():
    """As in PyTorch, where allow_tf32 of cuDNN is True at first."""
    import gt
    from gt.backends import cudnn

    def works():
        x, w = gt.ones(1, 2, 5, 5, requires_grad=True), gt.ones(3, 2, 3, 3, requires_grad=True)
        gt.nn.functional.conv2d(x, w).sum().backward()
        return x.grad[0, 0, 2, 2].item() == 27 and w.grad[0, 0, 0, 0].item() == 9

    before = cudnn.allow_tf32
    try:
        cudnn.allow_tf32 = True
        assert works()
        with cudnn.flags(enabled=True, allow_tf32=False):
            assert not cudnn.allow_tf32 and works()
        assert cudnn.allow_tf32
        assert cudnn.set_flags(_allow_tf32=False)[-1] is True and not cudnn.allow_tf32 and works()
    finally:
        cudnn.allow_tf32 = before
