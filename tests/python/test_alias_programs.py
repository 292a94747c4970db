"""Random programs of views and in-place operations do in GT what they do in PyTorch. `make test-long` runs 100,000."""

import warnings

import pytest

import alias_programs

PROGRAMS, PART = 1000, 100


@pytest.mark.parametrize("first", range(0, PROGRAMS, PART))
def test_programs(first):
    nodes = alias_programs.tape_length()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(first, first + PART):
            problem = alias_programs.check_program(seed)
            assert not problem, problem
    assert alias_programs.tape_length() == nodes
