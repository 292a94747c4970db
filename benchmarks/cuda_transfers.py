"""Where the time of large transfers goes: python benchmarks/cuda_transfers.py [--backend cuda] [--rounds 20].

For each size: the client's copy into shared memory (the call of from_numpy), the rest of the upload (until the worker has it),
and the download. The first round, in which memory is new, and the second, in which the worker pins it, are shown by
themselves. With GT_VERBOSE=1 the worker tells how much went directly and how much through its own pinned memory.
"""
import argparse
import os
import statistics
import time


def measure(gt, data):
    """Seconds of the copy, of the rest of the upload, and of the download."""
    began = time.perf_counter()
    tensor = gt.from_numpy(data)
    copied = time.perf_counter()
    gt.cuda.synchronize()
    uploaded = time.perf_counter()
    back = tensor.numpy()
    done = time.perf_counter()
    assert back[0] == data[0] and back[-1] == data[-1]
    return copied - began, uploaded - copied, done - uploaded


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    os.environ["GT_BACKEND"] = options.backend
    import numpy
    import gt
    print(f"{'MiB':>5} {'round':>8} {'copy':>9} {'the rest':>9} {'upload':>11} {'download':>11}")
    for size in (4, 16, 64, 256):
        data = numpy.random.rand(size << 18).astype("f")
        rounds = [measure(gt, data) for _ in range(options.rounds + 2)]
        shown = [("first", rounds[0]), ("second", rounds[1]), ("median", [statistics.median(r) for r in zip(*rounds[2:])])]
        for name, (copy, rest, down) in shown:
            speeds = [data.nbytes / seconds / 1e9 for seconds in (copy + rest, down)]
            print(f"{size:5} {name:>8} {copy * 1e3:6.2f} ms {rest * 1e3:6.2f} ms {speeds[0]:6.1f} GB/s {speeds[1]:6.1f} GB/s")


if __name__ == "__main__":
    main()
