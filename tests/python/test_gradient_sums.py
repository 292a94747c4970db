"""Gradients of data-parallel programs: added up while the backward pass goes on, small ones together, with the bits of one sum for each."""

import pytest

import gt
from gt import nn

# Says for each step how many collectives each worker took part in, then the bits of all losses and weights.
TRAINING = """
    import sys
    import gt
    from gt import nn
    count, layers, width, passes, steps, mesh = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]), sys.argv[6]
    gt.gpu_workers(count)
    if mesh:
        axes = {"data": 2, "model": count // 2}
        gt.register_config("data", gt.SignalConfig(gt.ShardConfig(mesh=axes, split={0: "data"})))
        gt.register_config("columns", gt.SignalConfig(gt.ShardConfig(mesh=axes, split={0: "model"})))
        gt.register_config("rows", gt.SignalConfig(gt.ShardConfig(mesh=axes, split={1: "model"})))
    else:
        gt.register_config("data", gt.SignalConfig(gt.ShardConfig(axis=0)))
    gt.manual_seed(0)
    model = nn.Sequential(*[part for _ in range(layers) for part in (nn.Linear(width, width), nn.Tanh())])
    if mesh:
        for up, down in zip(model[::4], model[2::4]):
            up.weight.data, up.bias.data = (gt.signal.tensor(t, name="columns") for t in (up.weight, up.bias))
            down.weight.data = gt.signal.tensor(down.weight, name="rows")
    optimizer = gt.optim.Adam(model.parameters(), lr=1e-2)
    batches = [(gt.randn(24, width), gt.randn(24, width)) for _ in range(passes)]
    def collectives():
        return [worker["collectives"] for worker in gt.debug.get_worker_stats(wait=True).values()]
    counts, losses = [], []
    for _ in range(steps):
        before = collectives()
        optimizer.zero_grad()
        for x, y in batches:
            with gt.signal.context("data"):
                x, y = gt.signal.tensor(x, name="data"), gt.signal.tensor(y, name="data")
                loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            losses.append(loss)
        optimizer.step()
        counts.append(max(after - then for after, then in zip(collectives(), before)))
    print(*counts)
    print(*(float(loss).hex() for loss in losses))
    print(*(p.detach().numpy().tobytes().hex() for p in model.parameters()))
"""


def train(programs, *arguments, ahead=1):
    # A compiled path may round in another way than its instructions, and where paths are cut depends on the collectives.
    said = programs.run(TRAINING, *map(str, arguments), GT_SUM_AHEAD=ahead, GT_AUTO_COMPILE=0).splitlines()
    return [int(word) for word in said[0].split()], said[1:]


@pytest.mark.parametrize("workers, layers, width, passes, mesh", [
    (2, 8, 20, 1, ""),
    (3, 5, 33, 1, ""),      # 24 rows in parts of 8, sums that are not a whole number of blocks
    (2, 3, 150, 1, ""),     # weights that are added up alone, biases that are not
    (2, 6, 20, 3, ""),      # gradients of three passes are accumulated
    (4, 4, 24, 1, "mesh"),  # along one axis of a mesh, of whole tensors and of parts
    (4, 4, 24, 2, "mesh"),
])
def test_the_bits_are_those_of_one_sum_for_each_gradient(programs, workers, layers, width, passes, mesh):
    counts, joined = train(programs, workers, layers, width, passes, 14, mesh)
    most, alone = train(programs, workers, layers, width, passes, 14, mesh, ahead=0)
    assert joined == alone
    assert all(few < many for few, many in zip(counts, most)), (counts, most)


def test_the_number_of_rounds(programs):
    """16 gradients: the first step learns that they are needed whole, then one collective adds up all of them, in hot loops, too."""
    assert train(programs, 2, 8, 20, 1, 30, "")[0] == [2] + [1] * 29
    assert train(programs, 2, 8, 20, 3, 30, "")[0] == [2] + [1] * 29
    assert train(programs, 2, 8, 20, 1, 3, "", ahead=0)[0] == [16] * 3


def test_sums_start_before_the_backward_pass_ends(programs, tmp_path):
    log = tmp_path / "log"
    programs.run("""
        import gt
        from gt import nn
        gt.gpu_workers(2)
        gt.register_config("data", gt.SignalConfig(gt.ShardConfig(axis=0)))
        model = nn.Sequential(*[nn.Linear(600, 600) for _ in range(4)])
        optimizer = gt.optim.SGD(model.parameters(), lr=1e-3)
        for k in range(2):
            with gt.signal.context("data"):
                loss = nn.functional.mse_loss(model(gt.randn(8, 600)), gt.randn(8, 600))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        gt.synchronize()
    """, GT_INSTRUCTION_LOG=log)
    sent = [line for line in log.read_text().splitlines() if "WORKER_SEND" in line and "WORKER auto_worker " in line]
    products = [k for k, line in enumerate(sent) if "op=matmul" in line and "shape=(600,600)" in line]
    sums = [k for k, line in enumerate(sent) if "op=all_reduce" in line]
    assert len(products) == 8 and len(sums) == 2 * 5  # four weights, of 1.4 MB each, and the biases together
    assert sum(products[3] < k < products[7] for k in sums[5:]) == 3, (products, sums)
    assert not any(k < products[3] for k in sums)  # the first pass learns


def test_gradients_that_are_needed_in_parts_are_not_added_up_whole(workers, own_signals):
    workers(4)
    gt.register_config("data", gt.SignalConfig(gt.ShardConfig(axis=0)))
    gt.manual_seed(0)
    weight = gt.signal.tensor(gt.randn(64, 64), name="data")

    def moved():
        return sum(worker["bytes_moved"] for worker in gt.debug.get_worker_stats(wait=True).values())

    for _ in range(3):
        w = weight.requires_grad_()
        with gt.signal.context("data"):
            loss = (gt.randn(16, 64) @ w).sum()
        loss.backward()
        before = moved()
        weight = weight.detach() - w.grad
        assert weight.placement == "split(axis=0, workers=[0,1,2,3])"
        assert moved() - before == 3 * 64 * 64 * 4  # a reduce-scatter; a whole sum is twice as much


def test_a_gradient_that_is_read_or_freed_while_it_waits(workers, own_signals):
    workers(2)
    gt.register_config("data", gt.SignalConfig(gt.ShardConfig(axis=0)))
    gt.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, 10), nn.Linear(10, 10))
    x = gt.randn(6, 10)
    for k in range(4):
        model.zero_grad()
        with gt.signal.context("data"):
            loss = (model(gt.signal.tensor(x, name="data")) ** 2).sum()
        loss.backward()
        if k % 2:
            model[0].weight.grad = None
        seen = [p.grad.numpy() for p in model.parameters() if p.grad is not None]
        model.zero_grad()
        (model(x) ** 2).sum().backward()
        whole = [p.grad.numpy() for p in model.parameters()][k % 2:]
        assert len(seen) == len(whole) and all(abs(a - b).max() < 1e-4 for a, b in zip(seen, whole))
