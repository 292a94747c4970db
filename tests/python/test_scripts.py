"""Whole PyTorch programs (tests/python/scripts) run in GT with nothing but their imports changed, and find the same numbers."""

import importlib.util
import pathlib
import re
import sys
import warnings

import pytest

FOLDER = pathlib.Path(__file__).parent / 'scripts'
NAMES = sorted(path.stem for path in FOLDER.glob('*.py') if path.stem != 'common')


def ported(text):
    """The script with PyTorch's imports changed to ours."""
    text = re.sub(r'^import torch$', 'import gt as torch', text, flags=re.M)
    text = re.sub(r'^import torch\.(\S+) as (\w+)$', r'import gt.\1 as \2', text, flags=re.M)
    return re.sub(r'^from torch(\S*) import ', r'from gt\1 import ', text, flags=re.M)


def run(name, text):
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader=None))
    module.__file__ = str(FOLDER / f'{name}.py')
    sys.modules[name] = module  # dataclasses look it up
    try:
        exec(compile(text, module.__file__, 'exec'), module.__dict__)
        return module.main()
    finally:
        del sys.modules[name]


@pytest.mark.parametrize('name', NAMES)
def test_script(name, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    text = (FOLDER / f'{name}.py').read_text()
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        expected = run(name, text)
        found = run(name, ported(text))
    assert len(expected) > 3
    assert found == pytest.approx(expected, rel=2e-4, abs=2e-5)
