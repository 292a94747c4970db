"""Names of PyTorch that GT does not have: each must be in the table of docs/pytorch.md, in docs/missing.md, or in a list here."""

import functools
import importlib
import pathlib
import subprocess
import sys
import types

import pytest

DOCS = pathlib.Path(__file__).parents[2] / 'docs/pytorch.md'
LIST = DOCS.with_name('missing.md')

MODULES = ['nn', 'nn.functional', 'nn.init', 'nn.modules', 'nn.modules.utils', 'nn.parallel', 'nn.parameter', 'nn.attention', 'nn.utils',
           'nn.utils.rnn', 'nn.utils.parametrize', 'nn.utils.parametrizations', 'nn.utils.prune', 'nn.utils.clip_grad', 'nn.grad',
           'optim', 'optim.lr_scheduler', 'optim.swa_utils', 'optim.optimizer']

# What a PyTorch file imports or defines for itself: types, decorators, texts of its documentation.
PRIVATE = {
    'annotations', 'assert_int_or_pair', 'auto', 'bind', 'boolean_dispatch', 'cast', 'chain', 'contextmanager', 'deepcopy', 'deprecated',
    'has_torch_function', 'has_torch_function_unary', 'has_torch_function_variadic', 'handle_torch_function', 'inf', 'is_traceable_wrapper_subclass',
    'get_swap_module_params_on_conversion', 'overload', 'override', 'ref', 'reproducibility_notes', 'sparse_support_notes', 'tf32_notes', 'warn',
    'wraps', 'repeat', 'Module'}


def missing(name):
    theirs, ours = importlib.import_module('torch.' + name), importlib.import_module('gt.' + name)
    return [key for key, value in vars(theirs).items() if not (
        key.startswith('_') or hasattr(ours, key) or isinstance(value, types.ModuleType) or key in PRIVATE
        or getattr(value, '__module__', None) in ('typing', 'typing_extensions', 'collections.abc', 'enum', 'collections')
        or (isinstance(value, type) and value.__module__ in ('torch', 'builtins')) or isinstance(value, (bool, types.GenericAlias))
        or type(value).__module__ in ('typing', 'types', 'typing_extensions'))]


@pytest.mark.parametrize('name', MODULES)
def test_missing_names_are_documented(name):
    text = DOCS.read_text()
    assert [key for key in missing(name) if f'`{key}`' not in text] == []


# Modules whose missing names are listed in docs/missing.md, one section for each.
LISTED = ['', 'Tensor', 'accelerator', 'amp', 'autograd', 'autograd.forward_ad', 'autograd.functional', 'autograd.graph', 'backends',
          'backends.cuda', 'backends.cudnn', 'cuda', 'cuda.amp', 'distributions', 'fft', 'func', 'linalg', 'masked', 'nn.attention', 'overrides',
          'random', 'serialization', 'sparse', 'special', 'testing', 'types', 'utils', 'utils._pytree', 'utils.benchmark', 'utils.checkpoint',
          'utils.data', 'utils.hooks']


@functools.cache
def imported_with_torch():
    """The modules that `import torch` loads; other tests may have loaded more."""
    return subprocess.run([sys.executable, '-c', 'import sys, torch; print(*sys.modules)'], capture_output=True, text=True, check=True,
                          timeout=100).stdout.split()


def public(name, holder):
    """The names that PyTorch documents: __all__, or what is no import of another library."""
    named = None if name in ('', 'Tensor') else getattr(holder, '__all__', None)
    for key in sorted(named or dir(holder)):
        value = getattr(holder, key, None)
        other = isinstance(value, types.ModuleType) and not (
            value.__name__.startswith('torch') and value.__name__ in imported_with_torch())
        imported = getattr(value, '__module__', None) in ('typing', 'typing_extensions', 'collections.abc', 'enum', 'collections', 'functools')
        if not (key.startswith('_') or other or (imported and name != 'Tensor') or key in ('torch', 'TYPE_CHECKING')):
            yield key


def listed():
    """{module: its names in docs/missing.md}"""
    found, section = {}, None
    for line in LIST.read_text().splitlines():
        if line.startswith('## '):
            section = found.setdefault(line[3:].strip('`').removeprefix('gt').lstrip('.'), set())
        elif section is not None:
            section.update(line.replace(',', ' ').replace('`', ' ').split())
    return found


@pytest.mark.filterwarnings('ignore')
@pytest.mark.parametrize('name', LISTED)
def test_missing_names_are_listed(name):
    if name == 'Tensor':
        theirs, ours = importlib.import_module('torch').Tensor, importlib.import_module('gt').Tensor
    else:
        theirs, ours = (importlib.import_module(f'{package}.{name}'.rstrip('.')) for package in ('torch', 'gt'))
    absent = [key for key in public(name, theirs) if not hasattr(ours, key)]
    in_list = listed().get(name, set())
    assert [key for key in absent if key not in in_list] == []
    assert [key for key in sorted(in_list) if hasattr(ours, key)] == [], 'they exist: remove them from docs/missing.md'


@pytest.mark.parametrize('path, name', [
    ('optim.adamw', 'AdamW'), ('optim.sgd', 'SGD'), ('optim.radam', 'RAdam'), ('optim.sparse_adam', 'SparseAdam'),
    ('cuda.amp.grad_scaler', 'GradScaler'), ('cuda.amp.autocast_mode', 'autocast'),
    ('utils.data._utils.collate', 'default_collate'), ('signal.windows', 'hann')])
def test_paths_to_modules(path, name):
    """from gt.optim.adamw import AdamW"""
    for package in ('torch', 'gt'):
        assert hasattr(importlib.import_module(f'{package}.{path}'), name)
