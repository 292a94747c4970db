"""Signatures, docstrings, dir() and _repr_html_: what help(), an editor and a notebook show.

tools/api/walk.py says what the public names are.
"""

import doctest
import importlib
import inspect
import io
import pathlib
import re
import sys
import types

import pytest
import torch

import gt

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / 'tools' / 'api'))
import walk  # noqa: E402

MEMBERS = [(f'{module}.{name}', value) for module, name, value in walk.all_members()]
METHODS = [(f'gt.Tensor.{name}', value) for name, value in walk.tensor_methods()]


def parameters_of(value):
    """The parameters that a caller may give."""
    return [each for each in inspect.signature(value).parameters.values()
            if each.name != 'self' and not each.name.startswith('_')]


def test_every_public_name_has_a_signature():
    missing = []
    for name, value in MEMBERS + METHODS:
        try:
            inspect.signature(value)
        except (TypeError, ValueError) as error:
            missing.append(f'{name}: {error}')
    assert not missing


def test_every_public_name_has_a_docstring():
    poor = []
    for name, value in MEMBERS + METHODS:
        text = inspect.getdoc(value) or ''
        first = text.split('\n\n')[0]
        if not re.match(r'\S', first) or not first.rstrip().endswith(('.', ':')):
            poor.append(f'{name}: does not begin with a sentence: {first[:60]!r}')
        if '\nExample:\n    >>> ' not in text and name not in ('gt.dtype', 'gt.Connection'):
            poor.append(f'{name}: no example')
        if isinstance(value, type):
            continue
        for parameter in parameters_of(value):
            if not re.search(rf'\n    \*{{0,2}}{parameter.name}: \S', text):
                poor.append(f'{name}: says nothing about {parameter.name}')
    assert not poor


def test_examples_run():
    """The examples in all docstrings, with the results that they show."""
    failures = []
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False)
    names = {'gt': gt, 'nn': gt.nn, 'F': gt.nn.functional}
    for name, value in MEMBERS + METHODS:
        gt.manual_seed(0)
        test = parser.get_doctest(inspect.getdoc(value) or '', dict(names), name, None, None)
        output = io.StringIO()
        runner.run(test, out=output.write)
        if output.getvalue():
            failures.append(output.getvalue())
    assert not failures, '\n'.join(failures)
