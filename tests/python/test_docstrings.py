"""Signatures, docstrings, dir() and _repr_html_: what help(), an editor and a notebook show.

tools/api/walk.py says what the public names are.
"""

import doctest
import functools
import importlib
import inspect
import io
import pathlib
import re
import sys
import types
import warnings

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


def test_documentation_is_complete():
    """What tools/api missed when the package was built: signatures, texts of parameters, examples."""
    from gt import _documents
    assert not _documents.MISSING, '\n'.join(_documents.MISSING)


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
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')  # of deprecated functions
            runner.run(test, out=output.write)
        if output.getvalue():
            failures.append(output.getvalue())
    assert not failures, '\n'.join(failures)


# ---- signatures tell the truth ---------------------------------------------------------------------------------

def written_in_c():
    """(name, method, keyword) of each parameter that a method of Tensor written in C has by its signature."""
    for name, value in METHODS:
        if isinstance(value, types.MethodDescriptorType):
            for parameter in parameters_of(value):
                if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                    yield name, value, parameter.name


def test_methods_in_c_take_the_keywords_of_their_signatures():
    """Given something impossible, they complain about the value and not about the keyword."""
    x, refused = gt.ones(2, 2), []
    for name, method, keyword in written_in_c():
        try:
            method(x, **{keyword: object()})
        except Exception as error:
            if re.search(r'unexpected keyword|no keyword arguments|invalid keyword', str(error)):
                refused.append(f'{name}({keyword}=): {error}')
    assert not refused


def test_positional_parameters_in_c_come_in_the_order_of_their_signatures():
    """A required parameter given twice, by position and by name, is refused as such."""
    x, wrong = gt.ones(2, 2), []
    for name, value in METHODS:
        if not isinstance(value, types.MethodDescriptorType):
            continue
        named = [each for each in parameters_of(value) if each.kind == each.POSITIONAL_OR_KEYWORD]
        for k, parameter in enumerate(named[:1]):
            try:
                value(x, 0, **{parameter.name: 0})
            except TypeError as error:
                if not re.search(rf"multiple values|{parameter.name}", str(error)):
                    wrong.append(f'{name}: {error}')
            except Exception as error:
                wrong.append(f'{name}: {error}')
            else:
                wrong.append(f'{name}({parameter.name}) was given twice')
    assert not wrong


# Functions whose required parameters do not have the names in PyTorch's table of overrides.
TABLE_IS_WRONG = set("""
    adaptive_max_pool1d alias_copy as_strided_copy as_strided_scatter cholesky_solve detach_copy diagonal_copy dot embedding isfinite isin
    isinf isreal lu_solve narrow_copy orgqr ormqr pca_lowrank polar select_copy slice_copy split_copy split_with_sizes
    split_with_sizes_copy squeeze_copy svd_lowrank swapaxes swapdims t_copy transpose_copy unbind_copy unfold_copy
    unsafe_split_with_sizes unsqueeze_copy xlogy""".split())  # PyTorch's functions have other names than its table, GT's
FIRST_IS_INPUT = {'unsafe_split'}  # tensor in PyTorch


def torch_signatures():
    """{name: names of its parameters} of PyTorch's functions, as its table of overrides has them."""
    found = {}
    for function, stand_in in torch.overrides.get_testing_overrides().items():
        name = getattr(function, '__name__', '')
        if getattr(torch, name, None) is function and hasattr(gt, name):
            found[name] = [each.name for each in inspect.signature(stand_in).parameters.values()
                           if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    return found


def test_parameters_have_the_names_of_pytorch():
    """The required parameters of functions that PyTorch has too, by name, unless they may be given one by one."""
    different = []
    for name, theirs in torch_signatures().items():
        ours = inspect.signature(getattr(gt, name)).parameters
        if name in TABLE_IS_WRONG | FIRST_IS_INPUT or any(each.kind == each.VAR_POSITIONAL for each in ours.values()):
            continue
        required = [each.name for each in ours.values() if each.default is each.empty and each.kind != each.VAR_KEYWORD]
        unknown = [each for each in required if each not in theirs]
        if unknown:
            different.append(f'{name}: {unknown} are not among {theirs}')
    assert not different, '\n'.join(different)


# ---- dir() -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('name', walk.PUBLIC)
def test_dir_lists_what_users_find(name):
    module = importlib.import_module(name)
    for member in dir(module):
        value = getattr(module, member)
        if name == 'gt.multiprocessing' or isinstance(value, functools.partial):
            continue  # the standard library's names; GT's with a device type
        if isinstance(value, types.ModuleType):
            assert value.__name__.startswith('gt'), f'{name}.{member} is {value.__name__}'
        elif not member.startswith('__'):
            home = getattr(value, '__module__', None)
            assert home is None or home.startswith('gt'), f'{name}.{member} comes from {home}'
    assert not [member for member in dir(module) if member.startswith('_') and member not in ('__version__', '__config__')]


def test_dir_of_the_package_is_complete():
    listed = set(dir(gt))
    assert {'nn', 'optim', 'load', 'save', 'conv2d', 'autocast', 'vmap', 'exp', 'float32', 'distributions'} <= listed
    assert {*gt._MODULES, *gt._ELSEWHERE} <= listed
    assert not listed & {'os', 'sys', 'math', 'importlib', 'policies'}


def test_dir_of_tensors_is_complete():
    assert {name for name, *_ in gt._gt.op_table() if hasattr(gt.Tensor, name)} <= set(dir(gt.Tensor))
    assert {'T', 'shape', 'split', 'exp_', 'placement'} <= set(dir(gt.ones(1)))


# ---- help() and notebooks --------------------------------------------------------------------------------------

def test_functions_are_functions_for_help():
    import pydoc
    assert inspect.isroutine(gt.exp)
    text = pydoc.plain(pydoc.render_doc(gt.sort))
    assert 'sort(input, dim=-1, descending=False' in text and 'Args:' in text

    class Activation:
        act = gt.relu
    assert Activation().act(gt.tensor([-1.0])).item() == 0  # it does not bind


def test_input_is_a_keyword_of_functions():
    assert gt.exp(input=gt.zeros(1)).item() == 1
    assert gt.special.expit(input=gt.zeros(1)).item() == 0.5
    assert gt.searchsorted(gt.tensor([1, 3, 5]), input=gt.tensor([4])).item() == 2
    assert gt.mm(gt.ones(2, 2), mat2=gt.ones(2, 2)).sum().item() == 8


def test_html_of_tensors():
    text = gt.tensor([[1.5, 2.0]], requires_grad=True)._repr_html_()
    assert 'tensor([[1.5000, 2.0000]], requires_grad=True)' in text
    assert 'shape (1, 2)' in text and 'gt.float32' in text and 'requires_grad' in text
    assert '&lt;MulBackward0&gt;' in (gt.ones(2, requires_grad=True) * 2)._repr_html_() and '<Mul' not in text
    assert len(gt.zeros(100000)._repr_html_()) < 1000
    assert 'Parameter containing' in gt.nn.Parameter(gt.ones(2))._repr_html_()
    assert 'shape (0,)' in gt.zeros(0)._repr_html_()


def test_html_of_a_failed_computation_fails_as_repr():
    x = gt.ones(2, 2)[gt.tensor([0, 1])] * 1
    bad = gt.linalg.inv(gt.zeros(2, 2) * x)
    with pytest.raises(Exception) as shown:
        repr(bad)
    with pytest.raises(type(shown.value)):
        bad._repr_html_()
