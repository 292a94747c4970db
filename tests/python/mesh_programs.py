"""Random programs whose tensors are spread over meshes of workers: sharded_programs.py, with signals on a mesh.

    python tests/python/mesh_programs.py SEED        run the program of a seed
    python tests/python/mesh_programs.py FIRST LAST  run many; print the first that fails, as a script
"""

import math
import sys

import sharded_programs
from sharded_programs import SIGNALS


class Generator(sharded_programs.Generator):
    """Most signals are on a mesh: (None, workers, False, backward signal, mesh, split)."""

    MESHES = [{"data": 2, "model": 2}, {"data": 4, "model": 2}, {"data": 2, "model": 3}, {"a": 2, "b": 2, "c": 2}]

    def signal(self):
        if self.rng.random() < 0.3:
            return super().signal()
        mesh = self.rng.choice(self.MESHES)
        self.workers = max(self.workers, math.prod(mesh.values()))
        dimensions = self.rng.sample([0, 1, 2, -1, -2], self.rng.randint(1, len(mesh)))
        split = dict(zip(dimensions, self.rng.sample(list(mesh), len(dimensions))))
        chosen = self.rng.sample(range(self.workers), math.prod(mesh.values()))
        backward = self.rng.choice([None, None, f"s{self.rng.randrange(SIGNALS)}"])
        return (None, chosen, False, backward, mesh, split)

    def allows_shape(self, signal, shape):
        """On a mesh each dimension that is split must be there once and divide."""
        if len(self.config[signal]) == 4:
            return self.allows(signal, len(shape))
        mesh, split = self.config[signal][4:]
        dimensions = [d + len(shape) if d < 0 else d for d in split]
        return (all(0 <= d < len(shape) for d in dimensions) and len(set(dimensions)) == len(dimensions) and
                all(shape[d] % mesh[axis] == 0 for d, axis in zip(dimensions, split.values())))

    def allows(self, signal, rank):
        """Whether tensors of that rank can always be placed this way."""
        return len(self.config[signal]) == 4 and super().allows(signal, rank)

    def shape(self, rank=None):
        rank = rank or self.rng.choice([1, 2, 2, 2, 3, 3, 4])
        return tuple(self.rng.choice([2, 4, 6, 8, 12, 12] + ([16, 24] if rank < 3 else [5])) for _ in range(rank))

    def create(self):
        """In the current scopes, or, if that does not divide, as the other programs do."""
        deciding = [s for s in self.scopes if self.config[s][1] is not None]
        shape = self.shape()
        if not deciding or not self.allows_shape(deciding[-1], shape):
            super().create()
            return
        leaf = self.backward and self.rng.random() < 0.6
        text = self.rng.choice(["gt.randn({0}, dtype={1})", "gt.full({0}, 0.75, dtype={1})",
                                "gt.tensor(np.arange({2}).reshape({0}) / 7, dtype={1})"])
        if len(shape) == 2 and self.rng.random() < 0.2:
            text = "gt.eye(*{0}, dtype={1})"
        value = self.new(text.format(shape, self.dtype, math.prod(shape)), shape, "f", True, leaf)
        if leaf and value:
            self.line(f"leaves.append({value.name}.requires_grad_(True))")

    def made(self, shape):
        value, signal = super().made(shape), self.name()
        if not value.tracked and self.allows_shape(signal, value.shape):
            self.line(f"{value.name} = gt.signal.tensor({value.name}, name='{signal}')")
        return value


if __name__ == "__main__":
    sharded_programs.main(sys.argv[1:], Generator)
