"""Every example ends without errors or warnings, and training examples reduce their loss."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from support import GT_BINARY, PATIENCE_S, REPOSITORY

EXAMPLES = REPOSITORY / 'examples'
BUILD = pathlib.Path(GT_BINARY).parent

# Arguments for a short run; the last loss must be below this fraction of the first (None: not a training example).
PYTHON = {
    'mlp.py': (['--steps', '500'], 0.3),
    'digits_mlp.py': (['--epochs', '2'], 0.5),
    'cnn.py': (['--epochs', '2', '--images', '1600'], 0.95),
    'char_gpt.py': (['--steps', '50'], 0.75),
    'gpt2.py': ('--steps 20 --batch 2 --length 32 --vocabulary 64 --layers 2 --width 64 --heads 4'.split(), 0.8),
    'linear_regression.py': ([], 0.1),
    'pipeline_demo.py': (['--width', '32', '--steps', '5'], None),
    'compile_demo.py': ([], 0.5),
    'debug_demo.py': ([], None),
    'demo.py': ([], None),
    'show_stats.py': ([], None),
    'signal_demo.py': ([], None),
    'simple_launch.py': ([], None),
    'visualize_demo.py': (['{directory}'], None),
}
C = {'example_mlp': 0.5, 'example_linear_regression': 0.1, 'example_hello': None}


def output_of(command, config='config_sharding.yaml'):
    environment = {**os.environ, 'GT_CONFIG': str(EXAMPLES / config)}  # what their signals mean
    done = subprocess.run(command, capture_output=True, text=True, timeout=4 * PATIENCE_S, cwd=REPOSITORY,
                          env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr, done.stderr
    return done.stdout


def check_losses(output, part):
    losses = [float(number) for number in re.findall(r'loss\s+([0-9.]+)', output)]
    assert len(losses) >= 2, output
    assert losses[-1] < part * losses[0], output


@pytest.mark.parametrize('name', sorted(PYTHON))
def test_python_example(name, tmp_path):
    arguments, part = PYTHON[name]
    output = output_of([sys.executable, str(EXAMPLES / name), *(text.format(directory=tmp_path) for text in arguments)])
    assert output.strip()
    if part is not None:
        check_losses(output, part)


@pytest.mark.parametrize('name', sorted(C))
def test_c_example(name):
    program = BUILD / name
    if not program.exists():
        pytest.skip(f'{program} was not built: this is a build of the package alone')
    output = output_of([str(program)])
    assert output.strip()
    if C[name] is not None:
        check_losses(output, C[name])


def test_the_pipeline_is_one():
    output = output_of([sys.executable, str(EXAMPLES / 'pipeline_demo.py'), *PYTHON['pipeline_demo.py'][0]])
    apart, together = output.splitlines()
    assert 'single(worker=0) and single(worker=1)' in apart and 'worker=1' not in together
    assert float(apart.split()[-1]) == pytest.approx(float(together.split()[-1]), rel=1e-3)


def test_the_config_says_what_is_compiled():
    output = output_of([sys.executable, str(EXAMPLES / 'compile_demo.py'), '--region'], 'config_compile.yaml')
    check_losses(output, 0.5)
    hot, total = map(int, re.search(r'(\d+) of (\d+) instructions ran in hot paths', output).groups())
    assert hot > 0.9 * total, output


def test_the_debug_demo_finds_what_it_promises():
    output = output_of([sys.executable, str(EXAMPLES / 'debug_demo.py')])
    assert 'index 7 is out of bounds' in output and 'the result is nan' in output
    assert re.search(r"the first NaN is at \(0,\) of sub\n.*program.py:8 in signal 'forward', step 5", output), output
    assert re.search(r'left the finite range before: inf at \(0,\) of mul\n.*program.py:9, step 4\nstep 4 wrote it into', output), output


def test_the_visualize_demo_draws_both_workers(tmp_path):
    output_of([sys.executable, str(EXAMPLES / 'visualize_demo.py'), str(tmp_path)])
    svg = (tmp_path / 'timeline.svg').read_text()
    for text in ('train.py:', 'Worker auto_worker_1', 'step 0', 'step 1', '>forward<', '>update<'):
        assert text in svg, text
    assert (tmp_path / 'timeline.png').stat().st_size > 10_000


def test_the_comparison_runs():
    pytest.importorskip('torch')
    output = output_of([sys.executable, str(REPOSITORY / 'benchmarks' / 'compare.py'), '--quick'])
    rows = re.findall(r'^(.{30,}?) +([0-9.]+ [mµn]?s) +([0-9.]+ [mµn]?s) +([0-9.]+)x$', output, re.M)
    assert len(rows) >= 6, output


def test_every_example_is_here():
    assert {path.name for path in EXAMPLES.glob('*.py')} == PYTHON.keys()
    assert {f'example_{path.stem}' for path in (EXAMPLES / 'c').glob('*.c')} == C.keys()


def test_the_notebook_runs_in_jupyter():
    """In a real kernel, cell by cell; each cell shows what its text says."""
    nbformat = pytest.importorskip('nbformat', reason='nbformat is not installed')
    nbclient = pytest.importorskip('nbclient', reason='nbclient is not installed')
    notebook = nbformat.read(EXAMPLES / 'tour.ipynb', as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get('outputs') for cell in notebook.cells), 'the file has no outputs'
    nbclient.NotebookClient(notebook, timeout=4 * PATIENCE_S, kernel_name='python3').execute()
    outputs = [output for cell in notebook.cells for output in cell.get('outputs', [])]
    text = ''.join(output.get('text', '') + output.get('data', {}).get('text/plain', '') for output in outputs)
    assert not [output for output in outputs if output.get('name') == 'stderr'], text
    first, last = map(float, re.search(r'([0-9.]+) -> ([0-9.]+)', text).groups())
    assert last < first / 100
    for part in (r'tensor\(\d', r'cholesky: .*issued at .*:2', r'split\(axis=0, workers=\[0,1,2,3\]\)', r'shard=1/4 axis=0',
                 r'the first non-finite value is .* of log'):
        assert re.search(part, text), f'{part} in {text}'
    assert [output for output in outputs if 'image/png' in output.get('data', {})]
