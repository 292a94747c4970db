"""The parts of data_parallel: batches in chunks, one module for all of them, and their outputs joined."""

import gt
from gt import Tensor


def scatter(inputs, target_gpus, dim=0):
    """A list with a part of the inputs for each device: tensors in chunks, everything else as it is."""
    count = len(target_gpus)
    if isinstance(inputs, Tensor):
        return list(inputs.chunk(count, dim))
    if isinstance(inputs, (tuple, list)) and inputs:
        return [type(inputs)(parts) for parts in zip(*(scatter(value, target_gpus, dim) for value in inputs))]
    if isinstance(inputs, dict) and inputs:
        return [dict(zip(inputs, parts)) for parts in zip(*(scatter(value, target_gpus, dim) for value in inputs.values()))]
    return [inputs] * count


def gather(outputs, target_device, dim=0):
    """The outputs of all devices, joined along a dimension."""
    first = outputs[0]
    if isinstance(first, Tensor):
        return gt.cat([output.reshape(1) if output.ndim == 0 else output for output in outputs], dim)
    if first is None:
        return None
    if isinstance(first, dict):
        return type(first)((key, gather([output[key] for output in outputs], target_device, dim)) for key in first)
    return type(first)(gather(list(parts), target_device, dim) for parts in zip(*outputs))


def replicate(network, devices, detach=False):
    """The module itself for each device: there is one copy of its parameters."""
    return [network] * len(devices)


def parallel_apply(modules, inputs, kwargs_tup=None, devices=None):
    """The output of each module for its inputs."""
    keywords = kwargs_tup or [{}] * len(modules)
    return [module(*(given if isinstance(given, (tuple, list)) else (given,)), **options)
            for module, given, options in zip(modules, inputs, keywords, strict=True)]
