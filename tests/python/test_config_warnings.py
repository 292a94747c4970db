"""Names that a config does not know: a program goes on, and is told once, on standard error, what it probably misspelt."""

import re

import pytest

CONFIG = """
layer1:
  shard: {axis: 0}
  backward: layer1_bakward
layer2:
  backward: layer1
"""
PROGRAM = """
import sys
import gt
if len(sys.argv) > 1:
    gt.connect(sys.argv[1])
for _ in range(3):
    for name in ('layer1', 'laier1', 'layer2'):
        with gt.signal.context(name):
            x = gt.zeros(4)
y = [gt.signal.tensor(x, 'columms') for _ in range(2)]
gt._gt.signal_mark('a mark for the log')
gt.synchronize()
print(y[0].tolist())
"""
BACKWARD = "[gt warning] {}:2: layer1: its backward signal 'layer1_bakward' is not in the config; its gradients are " \
           "placed as 'layer1' says"
SIGNAL = "[gt warning] signal '{}' is not in the config ({}) and has no effect"


@pytest.fixture
def config(programs):
    path = programs.directory / "config.yaml"
    path.write_text(CONFIG)
    return path


def warnings_of(process):
    return [line for line in process.errors.read_text().splitlines() if "warning" in line]


def expected(config, *signals):
    return [BACKWARD.format(config), *(SIGNAL.format(name, config) for name in signals)]


def test_client(programs, config):
    process = programs.python(PROGRAM, GT_CONFIG=config)
    assert process.wait() == 0 and process.output.read_text() == "[0.0, 0.0, 0.0, 0.0]\n"
    assert warnings_of(process) == expected(config, "laier1", "columms")


def test_backward_of_a_scope(programs, config):
    process = programs.python("""
        import sys
        import gt
        gt.load_config(sys.argv[1])
        with gt.signal.context('layer1', backward='nowhere'):
            gt.zeros(4).sum().item()
        gt.register_config('late', gt.SignalConfig())
        with gt.signal.context('late'):
            gt.zeros(4).sum().item()
    """, config)
    assert process.wait() == 0
    assert warnings_of(process) == expected(config, "nowhere")


def test_without_a_config_names_are_free(programs):
    process = programs.python(PROGRAM)
    assert process.wait() == 0 and process.errors.read_text() == ""


def test_server(programs, config):
    """The server's config: the client has none and says nothing."""
    server = programs.cluster(**{"GT_CONFIG": config})
    process = programs.python(PROGRAM, f"localhost:{server.port}")
    assert process.wait() == 0 and process.errors.read_text() == ""
    who = r"client 1 \(\d+-program.py:\d+, uid \d+, this host\) is warned: "
    lines = [re.sub(who, "", line.partition(" [")[2]) for line in warnings_of(server)]
    assert ["[" + line for line in lines] == expected(config, "laier1", "columms")


def test_loaded_after_the_environment(programs, config):
    """What a program loads replaces what GT_CONFIG says, not the other way round."""
    other = programs.directory / "other.yaml"
    other.write_text("layer2: {shard: {axis: 1}}\n")
    assert programs.run("""
        import sys
        import gt
        gt.load_config(sys.argv[1])
        gt.zeros(2).sum().item()
        print(gt.get_config('layer2').shard.axis, gt.get_config('layer1').shard.axis)
    """, other, GT_CONFIG=config) == "1 0\n"
