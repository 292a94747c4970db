"""examples/sharding: a transformer divided in six ways, by six YAML files, with the losses of one worker."""

import importlib.util
import re
import sys

import numpy as np
import pytest

import gt
from gt import _gt
from support import REPOSITORY

pytestmark = pytest.mark.usefixtures("own_signals")
FOLDER = REPOSITORY / "examples" / "sharding"
STEPS = 8


def load():
    spec = importlib.util.spec_from_file_location("sharding_transformer", FOLDER / "transformer.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TRANSFORMER = load()
SIGNALS = ["batch", "columns", "rows", "tokens", "heads", "experts", "stage_0", "stage_1"]

# Where some of the parameters are: of the words, of the first layer of the first network, of the last layer.
PLACES = {
    "data": ["replicated(workers=[0,1,2,3])"] * 3,
    "tensor": ["replicated(workers=[0,1,2,3])", "split(axis=0, workers=[0,1,2,3])", "replicated(workers=[0,1,2,3])"],
    "pipeline": ["single(worker=0)", "single(worker=0)", "single(worker=1)"],
    "sequence": ["replicated(workers=[0,1,2,3])"] * 3,
    "expert": ["replicated(workers=[0,1,2,3])", "split(axis=0, workers=[0,1,2,3])", "replicated(workers=[0,1,2,3])"],
    "mesh": ["replicated(workers=[0,1,2,3])", "mesh(data=2 replicated, model=2 split(axis=0), workers=[0,1,2,3])",
             "replicated(workers=[0,1,2,3])"],
}


def train(mode, workers):
    connection = _gt.open_embedded(workers)
    _gt.use(connection)
    try:
        for name in SIGNALS:
            gt.register_config(name, gt.SignalConfig())
        if workers > 1:
            gt.load_config(FOLDER / f"{mode}.yaml")
        losses, (first, last) = TRANSFORMER.train(STEPS, **TRANSFORMER.settings(mode))
        network = first[1].network
        shown = [first[0].words.weight, network.up if mode == "expert" else network[0].weight, last[2].weight]
        gathers = sum(worker["gathers"] for worker in gt.debug.get_worker_stats(wait=True).values())
        return losses, [parameter.placement for parameter in shown], gathers
    finally:
        _gt.use(None)
        connection.close()


@pytest.mark.parametrize("mode", TRANSFORMER.MODES)
def test_losses_are_those_of_one_worker(mode):
    plain, _, _ = train(mode, 1)
    losses, places, gathers = train(mode, TRANSFORMER.MODES[mode])
    np.testing.assert_allclose(losses, plain, rtol=1e-4)
    assert losses[-1] < losses[0]
    assert places == PLACES[mode]
    assert gathers == 0


def test_the_guide_shows_the_files():
    guide = (REPOSITORY / "docs" / "sharding.md").read_text()
    blocks = re.findall(r"^```yaml\n(.*?)^```$", guide, flags=re.M | re.S)
    for mode in TRANSFORMER.MODES:
        shown = [line for line in (FOLDER / f"{mode}.yaml").read_text().splitlines() if line[0] != "#" and not line.endswith("{}")]
        assert "".join(f"{line}\n" for line in shown) in blocks, mode


def test_every_file_has_all_signals():
    """A name that is missing would be warned of."""
    for mode in TRANSFORMER.MODES:
        names = re.findall(r"^(\w+):", (FOLDER / f"{mode}.yaml").read_text(), re.MULTILINE)
        assert sorted(set(names) - {"mesh"}) == sorted(SIGNALS)


@pytest.mark.parametrize("mode", TRANSFORMER.MODES)
def test_as_a_program_with_hot_paths(programs, mode):
    """The steps repeat, so their streams are recorded and replayed."""
    said = []
    for one in (["--one"], []):
        process = programs.start([sys.executable, FOLDER / "transformer.py", mode, "--steps", 30, *one], name=f"{mode}{len(one)}",
                                 GT_AUTO_COMPILE=1)
        assert process.wait() == 0, process.text()
        assert not process.errors.read_text(), process.errors.read_text()
        said.append([float(loss) for loss in re.findall(r"loss ([\d.]+)", process.output.read_text())])
    assert len(said[0]) == 3
    np.testing.assert_allclose(said[1], said[0], atol=2e-3)
