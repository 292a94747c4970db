"""Names of torch.nn and torch.optim that GT does not have: each must be in the table of docs/pytorch.md or in a list here."""

import importlib
import pathlib
import types

import pytest

DOCS = pathlib.Path(__file__).parents[2] / 'docs/pytorch.md'

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
