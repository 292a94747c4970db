"""The meaning of signals: read from YAML or registered by the program. One table per process; clients send it to the
server."""

from dataclasses import dataclass
from typing import Dict, List, Optional

from gt import _gt, _help


@dataclass
class ShardConfig:
    """Split along `axis` over `workers` (None: all), or, if replicated, a whole copy on each.

    On a mesh, {'data': 4, 'model': 2}, `split` says which dimension is split along which of its axes: {0: 'data'}. The
    workers are 0, 1, ... unless others are listed, and the last axis varies fastest.
    """
    axis: Optional[int] = None
    workers: Optional[List[int]] = None
    replicated: bool = False
    mesh: Optional[Dict[str, int]] = None
    split: Optional[Dict[int, str]] = None


@dataclass
class SignalConfig:
    """What one signal means."""
    shard: Optional[ShardConfig] = None
    backward_signal: Optional[str] = None
    compile: bool = False
    schedule: Optional[str] = None


def load_config(path):
    """Read a YAML file of signals. It replaces earlier entries of the same names."""
    _gt.config_load(path)


def _mesh_axes(shard):
    """[(name, size, dimension or None), ...]"""
    if shard.mesh is None:
        if shard.split:
            raise ValueError('a shard with `split` needs a mesh, like mesh={"data": 4, "model": 2}')
        return None
    if not shard.mesh:
        raise ValueError('a mesh has axes and their sizes, like {"data": 4, "model": 2}')
    dimensions = {}
    for dimension, axis in (shard.split or {}).items():
        if axis not in shard.mesh:
            raise ValueError(f"the mesh has no axis '{axis}'; there are {', '.join(shard.mesh)}")
        if axis in dimensions:
            raise ValueError(f"mesh axis '{axis}' is used twice")
        dimensions[axis] = dimension
    return [(axis, size, dimensions.get(axis)) for axis, size in shard.mesh.items()]


def register_config(name, config):
    """Define a signal."""
    shard = config.shard and (config.shard.axis, config.shard.workers, config.shard.replicated, _mesh_axes(config.shard))
    _gt.config_set(name, shard, config.backward_signal, config.compile, config.schedule)


def get_config(name=None):
    """The SignalConfig of a name, or None; without a name, a dictionary of all."""
    if name is None:
        return {each: get_config(each) for each in _gt.config_names()}
    found = _gt.config_get(name)
    if found is None:
        return None
    shard, backward, compile, schedule = found
    if shard and shard[3]:
        *shard, axes = shard
        shard += [{axis: size for axis, size, _ in axes}, {dimension: axis for axis, _, dimension in axes if dimension is not None}]
    elif shard:
        shard = shard[:3]
    return SignalConfig(shard and ShardConfig(*shard), backward, compile, schedule)

__dir__ = _help.publish(__name__)
