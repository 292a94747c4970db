"""Work that is not wanted any more ends: that of a killed client, and operations that run longer than a limit."""

import signal

import pytest

from support import until

LINKS = ("memory", "ipc", "tcp")

# Queues sums that take minutes each, says so, and waits for them.
LONG = """
    import sys
    import gt
    gt.connect(sys.argv[1])
    x = gt.ones(1)
    (x + 1).item()
    y = [x.expand(2**37).sum() for _ in range(20)]
    print("queued", flush=True)
    y[0].item()
"""

# A question that is answered once the worker is free.
LIGHT = """
    import sys
    import gt
    gt.connect(sys.argv[1])
    print((gt.ones(8) + 1).sum().item())
"""


@pytest.mark.parametrize("link", LINKS)
def test_the_running_operation_of_a_killed_client_ends(programs, link):
    server = programs.server()
    address = f"{link}://localhost:{server.port}"
    programs.worker(server.port, host=f"{link}://localhost")
    long = programs.python(LONG, address, name="long")
    until(lambda: "queued" in long.text() or not long.alive, "the long sums")
    long.signal(signal.SIGKILL)
    long.wait()
    assert programs.run(LIGHT, address) == "16.0\n"


# The same on two workers, with a sum over both: each computes its part, and both wait for each other.
SHARDED = """
    import sys
    import gt
    gt.connect(sys.argv[1])
    while len(gt.debug.get_worker_stats()) < 2:
        pass
    gt.register_config('rows', gt.SignalConfig(shard=gt.ShardConfig(axis=0, workers=[0, 1])))
    x = gt.signal.tensor(gt.ones(4, 1), name='rows')
    print((x.expand(4, 100) * 3).sum().item(), flush=True)
    if sys.argv[2] == "long":
        sums = [x.expand(4, 2**36).sum() for _ in range(5)]
        print("queued", flush=True)
        sums[-1].item()
    if sys.argv[2] == "limited":
        try:
            x.expand(4, 2**36).sum().item()
        except RuntimeError as error:
            print("--max-op-seconds" in str(error))
        print((x.expand(4, 100) * 2).sum().item())
"""


def test_the_sharded_work_of_a_killed_client_ends(programs):
    server = programs.cluster(workers=2, worker_options=("--threads", 1))
    address = f"localhost:{server.port}"
    long = programs.python(SHARDED, address, "long", name="long")
    until(lambda: "queued" in long.text() or not long.alive, "the long sums")
    long.signal(signal.SIGKILL)
    long.wait()
    assert programs.run(SHARDED, address, "short") == "1200.0\n"


def test_a_sharded_operation_over_the_limit_fails_on_all_workers(programs):
    server = programs.server("--max-op-seconds", 0.1)
    for _ in range(2):
        programs.worker(server.port, "--threads", 1)
    assert programs.run(SHARDED, f"localhost:{server.port}", "limited") == "1200.0\nTrue\n800.0\n"

# ---- a limit for each operation --------------------------------------------------------------------------------

LIMITED = """
    import sys
    import gt
    gt.connect(sys.argv[1])
    x = gt.ones(1)
    long = x.expand(2**37).sum()
    after = long + 1
    for tensor in (long, after):
        try:
            tensor.item()
            print("no exception")
        except RuntimeError as error:
            print(error)
    print((x + 1).item())
"""


def check_limited(text):
    lines = text.splitlines()
    for line in lines[:2]:
        assert "sum" in line and "--max-op-seconds 0.2" in line and ".py:6" in line, text
    assert lines[2:] == ["2.0"]


def test_an_operation_over_the_servers_limit_is_cancelled(programs):
    server = programs.server("--max-op-seconds", 0.2)
    programs.worker(server.port)
    check_limited(programs.run(LIMITED, f"localhost:{server.port}"))


def test_an_operation_over_the_workers_limit_is_cancelled(programs):
    server = programs.server("--max-op-seconds", 1000)
    programs.worker(server.port, "--max-op-seconds", 0.2)
    check_limited(programs.run(LIMITED, f"localhost:{server.port}"))


# With the least limit, in the program's own server: everything that takes more than a few hundredths of a second fails. Each of
# these takes some tenths on one thread, if not minutes.
FAMILIES = """
    import numpy
    import gt
    one = gt.ones(1)
    many = one.expand(2**24)
    rows = gt.ones(1, 1).expand(4096, 4096)
    wide = gt.ones(1, 1).expand(2**20, 2**17)
    numbers = gt.from_numpy(numpy.random.default_rng(0).random(2**22))
    line = gt.from_numpy(numpy.ones(2**25, numpy.float32))
    whole = gt.ones(1, 1, dtype=gt.int64).expand(2048, 2048)
    zero = gt.zeros(1, dtype=gt.int64)
    zeros = zero.expand(2**25)
    image, kernel = gt.ones(1, 1, 1, 1).expand(8, 64, 128, 128), gt.ones(1, 1, 1, 1).expand(128, 64, 3, 3)
    square = numbers.reshape(2048, 2048)
    product = square[:1536, :1536].to(gt.complex128)
    plane = line[:2**20].reshape(1, 1, 1024, 1024)
    query = gt.ones(1, 1, 1, 1).expand(4, 8, 2048, 64)

    @gt.compile
    def fused(x):
        return ((x * 2 + 1).tanh() * x).exp().sum()

    families = {
        "elementwise": lambda: gt.lgamma(many),
        "sum": lambda: one.expand(2**37).sum(),
        "sum of rows": lambda: wide.sum(1),
        "sum of columns": lambda: wide.sum(0),
        "var": lambda: one.expand(2**37).var(),
        "amax": lambda: one.expand(2**37).amax(),
        "argmax": lambda: one.expand(2**37).argmax(),
        "argmax of rows": lambda: wide.argmax(1),
        "cumsum": lambda: gt.ones(1, 1).expand(2**11, 2**14).cumsum(1),
        "logcumsumexp": lambda: gt.logcumsumexp(gt.ones(1, 1).expand(2**11, 2**13), 1),
        "one line of logcumsumexp": lambda: gt.logcumsumexp(line, 0),
        "a few columns of logcumsumexp": lambda: gt.logcumsumexp(gt.ones(1, 1).expand(2**23, 4), 0),
        "softmax": lambda: gt.ones(1, 1).expand(2**12, 2**13).softmax(1),
        "softmax of columns": lambda: line.reshape(2**22, 8).softmax(0),
        "softmax of one line": lambda: line.softmax(0),
        "sort": lambda: numbers.sort()[0],
        "topk": lambda: one.expand(2**32).topk(3)[0],
        "topk of many": lambda: numbers.topk(2**21)[0],
        "matmul": lambda: rows @ rows,
        "complex matmul": lambda: product @ product,
        "integer matmul": lambda: whole @ whole,
        "integer dot product": lambda: zero.expand(2**33) @ zero.expand(2**33),
        "unfold": lambda: gt.nn.functional.unfold(gt.ones(1, 1, 1, 1).expand(1, 1, 2**13, 2**13), 3),
        "max_pool of one plane": lambda: gt.nn.functional.max_pool2d(plane, 65, 1, 32),
        "avg_pool of one plane": lambda: gt.nn.functional.avg_pool2d(plane, 65, 1, 32),
        "avg_pool of one long row": lambda: gt.nn.functional.avg_pool1d(plane.reshape(1, 1, 2**20), 4097, 1, 2048),
        "fft": lambda: gt.fft.fft(line[:2**20 + 7]),
        "fft of a power of two": lambda: gt.fft.fft(line),
        "conv": lambda: gt.nn.functional.conv2d(image, kernel, padding=1),
        "attention": lambda: gt.nn.functional.scaled_dot_product_attention(query, query, query),
        "svd": lambda: gt.linalg.svd(square[:500, :500])[1],
        "eigh": lambda: gt.linalg.eigh(square[:800, :800])[0],
        "inverse of a transposed matrix": lambda: gt.linalg.inv(square[:1600, :1600].t()),
        "solve": lambda: gt.linalg.solve(square, square[:, :2]),
        "multinomial": lambda: gt.multinomial(numbers, 2**21, replacement=True),
        "multinomial without replacement": lambda: gt.multinomial(numbers, 2**20),
        "gather": lambda: numbers.gather(0, zeros),
        "fused": lambda: fused(one.expand(2**26)),
    }
    for name, family in families.items():
        for _ in range(12 if name == "fused" else 1):
            result = family()
            try:
                result.flatten()[0].item()
                print(name, "was not cancelled")
            except RuntimeError as error:
                if "--max-op-seconds 0.001" not in str(error):
                    print(name, error)
            del result
        if (numbers[:3] * 0 + 7).tolist() != [7, 7, 7]:
            print(name, "broke the engine")
"""


@pytest.mark.parametrize("threads", (1, 2))
def test_every_family_can_be_cancelled(programs, threads):
    assert programs.run(FAMILIES, GT_MAX_OP_SECONDS="0.001", GT_NUM_THREADS=str(threads)) == ""
