"""The meaning of signals: read from YAML or registered by the program. One table per process; clients send it to the
server."""

from dataclasses import dataclass
from typing import List, Optional

from gt import _gt, _help


@dataclass
class ShardConfig:
    """Split along `axis` over `workers` (None: all), or, if replicated, a whole copy on each."""
    axis: Optional[int] = None
    workers: Optional[List[int]] = None
    replicated: bool = False


@dataclass
class SignalConfig:
    """What one signal means."""
    shard: Optional[ShardConfig] = None
    backward_signal: Optional[str] = None
    compile: bool = False


def load_config(path):
    """Read a YAML file of signals. It replaces earlier entries of the same names."""
    _gt.config_load(path)


def register_config(name, config):
    """Define a signal."""
    shard = config.shard and (config.shard.axis, config.shard.workers, config.shard.replicated)
    _gt.config_set(name, shard, config.backward_signal, config.compile)


def get_config(name=None):
    """The SignalConfig of a name, or None; without a name, a dictionary of all."""
    if name is None:
        return {each: get_config(each) for each in _gt.config_names()}
    found = _gt.config_get(name)
    if found is None:
        return None
    shard, backward, compile = found
    return SignalConfig(shard and ShardConfig(*shard), backward, compile)

__dir__ = _help.publish(__name__)
