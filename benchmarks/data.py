"""DataLoader against PyTorch's: microseconds per batch of 64 samples of 784 floats and a label, from 60,000.

    python benchmarks/data.py [--workers n]

Rows of a TensorDataset, and samples of NumPy arrays, in this process and from worker processes. The time of GT ends when
the server has every batch. The best of several passes counts.
"""

import argparse
import time

import numpy as np
import torch
import torch.utils.data

import gt
import gt.utils.data

COUNT, WIDTH, BATCH, PASSES = 60_000, 784, 64, 3


class Samples:
    """Samples on the host."""

    def __init__(self, inputs, labels):
        self.inputs, self.labels = inputs, labels

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        return self.inputs[index], self.labels[index]


def microseconds(loader, finish):
    best = float("inf")
    for _ in range(PASSES):
        begin = time.perf_counter()
        for _ in loader:
            pass
        finish()
        best = min(best, time.perf_counter() - begin)
    return best / len(loader) * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    workers = parser.parse_args().workers
    generator = np.random.default_rng(0)
    inputs = generator.standard_normal((COUNT, WIDTH), np.float32)
    labels = generator.integers(0, 10, COUNT)
    print(f"{'microseconds per batch':<40}{'GT':>10}{'PyTorch':>10}")
    for name, kind, options in (
        ("TensorDataset in order", "tensors", {}),
        ("TensorDataset, shuffled", "tensors", {"shuffle": True}),
        ("NumPy samples, shuffled", "samples", {"shuffle": True}),
        (f"NumPy samples, {workers} processes", "samples", {"shuffle": True, "num_workers": workers, "persistent_workers": True}),
    ):
        times = []
        for library, finish in ((gt, gt.synchronize), (torch, lambda: None)):
            data = library.utils.data
            if kind == "tensors":
                dataset = data.TensorDataset(library.from_numpy(inputs), library.from_numpy(labels))
            else:
                dataset = Samples(inputs, labels)
            times.append(microseconds(data.DataLoader(dataset, batch_size=BATCH, **options), finish))
        print(f"{name:<40}{times[0]:>10.0f}{times[1]:>10.0f}")


if __name__ == "__main__":
    main()
