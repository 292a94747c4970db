"""For the scripts: data, and weights that depend on names and shapes only, so that both libraries start from the same."""
import zlib

import numpy as np


def array(*shape, seed=0, scale=1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def seeded(module, scale=0.1):
    """Fill every parameter in place."""
    for name, parameter in module.named_parameters():
        values = array(*parameter.shape, seed=zlib.crc32(name.encode()), scale=scale)
        if name.endswith('weight') and parameter.dim() == 1:
            values = values + 1
        parameter.data.copy_(parameter.new_tensor(values))
    return module
