"""Random programs of views and in-place operations do in GT what they do in PyTorch. `make test-long` runs 100,000."""

import gc
import warnings

import pytest

import alias_programs
import gt

PROGRAMS, PART = 2000, 100


@pytest.mark.parametrize("first", range(0, PROGRAMS, PART))
def test_programs(first):
    gc.collect()
    nodes = len(gt._gt._tape())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(first, first + PART):
            problem = alias_programs.check_program(seed)
            assert not problem, problem
    gc.collect()
    assert len(gt._gt._tape()) == nodes
