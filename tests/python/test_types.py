"""The stubs: mypy, pyright and mypy's stubtest find nothing wrong with them, and find what is wrong with programs."""

import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

import gt

HERE = pathlib.Path(__file__).parent / 'typed'
PACKAGE = pathlib.Path(gt.__file__).parent
PROGRAMS = ['training.py', 'tensors.py', 'gradients.py']


def needs(name):
    return pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f'{name} is not installed')


def run(*command):
    """The output of a tool of this Python's environment, run in the folder of the programs. pyright uses the node of the
    same environment."""
    return subprocess.run([sys.executable, '-m', *command], cwd=HERE, capture_output=True, text=True,
                          env=os.environ | {'PYTHONPATH': str(PACKAGE.parent), 'PYRIGHT_PYTHON_GLOBAL_NODE': '0'}, timeout=600)


def marked(name):
    """The lines of a program that end with `# error`."""
    return {k for k, line in enumerate((HERE / name).read_text().splitlines(), 1) if line.endswith('# error')}


def test_the_package_says_that_it_is_typed():
    assert (PACKAGE / 'py.typed').exists()
    assert (PACKAGE / '__init__.pyi').exists() and (PACKAGE / 'nn' / 'functional.pyi').exists()


@needs('mypy')
def test_mypy(tmp_path):
    """mypy --strict accepts the programs and finds every mistake; it reads the stubs in the last test."""
    done = run('mypy', '--strict', '--no-error-summary', '--hide-error-context', '--cache-dir', str(tmp_path),
               *PROGRAMS, 'mistakes.py')
    errors = [line for line in done.stdout.splitlines() if ': error:' in line]
    found = {int(match[1]) for line in errors if (match := re.match(r'mistakes\.py:(\d+):', line))}
    assert not [line for line in errors if not line.startswith('mistakes.py')], done.stdout + done.stderr
    assert found == marked('mistakes.py'), done.stdout + done.stderr


@needs('pyright')
def test_pyright():
    """pyright accepts the stubs and the programs, and finds every mistake."""
    stubs = [str(path) for path in PACKAGE.rglob('*.pyi')]
    done = run('pyright', '--outputjson', '--pythonpath', sys.executable, *PROGRAMS, 'mistakes.py', *stubs)
    report = json.loads(done.stdout)['generalDiagnostics']
    errors = [(pathlib.Path(each['file']).name, each['range']['start']['line'] + 1, each['message']) for each in report
              if each['severity'] == 'error']
    assert not [each for each in errors if each[0] != 'mistakes.py']
    assert {line for name, line, _ in errors} == marked('mistakes.py')


@needs('mypy')
def test_stubs_agree_with_the_package():
    """stubtest: mypy --strict accepts the stubs, which have every public name, with the parameters that it has at run time."""
    done = run('mypy.stubtest', '--concise', '--ignore-unused-allowlist', '--mypy-config-file', 'stubtest.ini',
               '--allowlist', 'stubtest_allow.txt', 'gt')
    lines = [line for line in done.stdout.splitlines() if line.startswith(('gt.', 'error'))]
    assert not lines, done.stdout


@pytest.mark.parametrize('name', PROGRAMS)
def test_programs_run(name, tmp_path):
    """What the programs say of types must not be all that they can do."""
    source = (HERE / name).read_text() + ('\ntrain(1)\n' if name == 'training.py' else '')
    exec(compile(source, name, 'exec'), {'__name__': 'program'})
