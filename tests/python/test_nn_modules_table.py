"""Every class of torch.nn, made by the same arguments and with the same weights: outputs, gradients, state and repr."""

import inspect
import warnings

import numpy as np
import pytest
import torch

import gt
from gt import nn
from nn_support import close, numbers
from table_modules import ELSEWHERE, F, rows

ROWS = rows()


def title(row):
    name, args, keywords, inputs = row
    return f'{name}({", ".join([*map(str, args), *(f"{key}={value}" for key, value in keywords.items())])})'


def weighted(outputs, library):
    """The sum of all floating point outputs, with weights, so that each has a gradient of its own."""
    outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
    total, seed = 0, 50
    for output in outputs:
        if isinstance(output, (tuple, list)):
            total = total + weighted(output, library)
        elif output is not None and output.is_floating_point() and output.requires_grad:
            seed += 1
            total = total + (output * library.tensor(numbers(*output.shape, seed=seed))).sum()
    return total


def made(library, row):
    name, args, keywords, _ = row
    return getattr(library.nn, name)(*args, **keywords)


def same_attributes(ours, theirs):
    """Public attributes that are plain values, and the names of parameters and buffers, None too."""
    for name, value in vars(theirs).items():
        if not name.startswith('_') and isinstance(value, (int, float, str, tuple, list, type(None))):
            assert getattr(ours, name) == value, name
    for kind in ('_parameters', '_buffers', '_modules'):
        assert list(getattr(ours, kind)) == list(getattr(theirs, kind)), kind
    expected, found = bases(theirs), bases(ours)
    assert expected == found or (type(theirs).__name__.startswith('Lazy') and expected < found)


def bases(module):
    """The public classes that isinstance() finds."""
    return {base.__name__ for base in type(module).__mro__ if hasattr(torch.nn, base.__name__)}


@pytest.mark.parametrize('row', ROWS, ids=title)
@pytest.mark.filterwarnings('ignore')
def test_module(row):
    torch.manual_seed(3)
    theirs, ours = made(torch, row), made(gt, row)
    assert repr(ours) == repr(theirs).replace('torch.', 'gt.')
    same_attributes(ours, theirs)
    inputs = [given for given in row[3] if given is not None]
    if not inputs:
        assert list(ours.state_dict()) == list(theirs.state_dict())
        return
    arrays = [given.array(k) for k, given in enumerate(inputs)]
    if row[0].startswith('Lazy'):
        theirs(torch.tensor(arrays[0]))
        ours(gt.tensor(arrays[0]))
        assert type(ours).__name__ == type(theirs).__name__
        assert repr(ours) == repr(theirs)
    if row[0] == 'CTCLoss':
        arrays[0] = torch.tensor(arrays[0]).log_softmax(-1).numpy()
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [name for name, _ in ours.named_parameters()] == [name for name, _ in theirs.named_parameters()]
    ours.load_state_dict(theirs.state_dict())
    leaves = [(gt.tensor(array, requires_grad=isinstance(given, F)), torch.tensor(array, requires_grad=isinstance(given, F)))
              for given, array in zip(inputs, arrays)]
    out, expected = ours(*[mine for mine, _ in leaves]), theirs(*[other for _, other in leaves])
    close(out, expected)
    loss, expected_loss = weighted(out, gt), weighted(expected, torch)
    if isinstance(expected_loss, torch.Tensor) and expected_loss.requires_grad:
        loss.backward()
        expected_loss.backward()
    for mine, other in leaves:
        close(mine.grad, other.grad)
    for (name, mine), (_, other) in zip(ours.named_parameters(), theirs.named_parameters()):
        close(mine.grad, other.grad)
    for (name, mine), (other_name, other) in zip(ours.state_dict().items(), theirs.state_dict().items(), strict=True):
        assert name == other_name and str(mine.dtype) == str(other.dtype).replace('torch', 'gt')
        close(mine, other)
    compare_evaluation(ours, theirs, leaves)


def compare_evaluation(ours, theirs, leaves):
    """The same in evaluation mode."""
    ours.eval(), theirs.eval()
    close(ours(*[mine for mine, _ in leaves]), theirs(*[other for _, other in leaves]))


def test_every_class_is_in_the_table():
    classes = {name for name, found in vars(torch.nn).items() if inspect.isclass(found)}
    covered = {name for name, *_ in ROWS} | ELSEWHERE.keys()
    assert classes - covered == set()
    assert all(hasattr(nn, name) for name in classes)


@pytest.mark.parametrize('dimensions', [2, 3])
@pytest.mark.parametrize('option', [{'output_size': 3}, {'output_ratio': 0.6}])
def test_fractional_pooling(dimensions, option):
    shape = (2, 3, 7, 8, 9)[:dimensions + 2]
    samples = np.random.default_rng(1).random((2, 3, dimensions), dtype=np.float32)
    x = numbers(*shape)
    a, b = gt.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    name = f'FractionalMaxPool{dimensions}d'
    ours = getattr(nn, name)(2, return_indices=True, _random_samples=gt.tensor(samples), **option)
    theirs = getattr(torch.nn, name)(2, return_indices=True, _random_samples=torch.tensor(samples), **option)
    out, expected = ours(a), theirs(b)
    close(out, expected)
    out[0].square().sum().backward()
    expected[0].square().sum().backward()
    close(a.grad, b.grad)


BAD = [
    'nn.Linear(3, 4, nothing=1)', 'nn.Linear(3)', 'nn.ReLU(1, 2)', 'nn.Tanh(1)', 'nn.Dropout(1.5)', 'nn.Dropout(-1)',
    'nn.Conv2d(3, 4, 2, groups=2)', 'nn.Conv2d(4, 4, 2, groups=0)', 'nn.Conv2d(4, 4, 2, padding="sam")',
    'nn.Conv2d(4, 4, 2, padding="same", stride=2)', 'nn.Conv2d(4, 4, 2, padding_mode="x")',
    'nn.ConvTranspose2d(4, 4, 2, padding_mode="reflect")', 'nn.Embedding(3, 4, padding_idx=5)',
    'nn.Embedding(3, 4, _weight=T.zeros(2, 2))', 'nn.EmbeddingBag(3, 4, padding_idx=-9)',
    'nn.EmbeddingBag(3, 4)(T.tensor([[1]]), T.tensor([0]))', 'nn.EmbeddingBag(3, 4)(T.tensor([1]))',
    'nn.EmbeddingBag(3, 4, mode="x")(T.tensor([[1]]))', 'nn.EmbeddingBag(3, 4)(T.tensor([[1]]), per_sample_weights=T.ones(1, 1))',
    'nn.EmbeddingBag(3, 4)(T.zeros(1, 1, 1).long())', 'nn.GroupNorm(3, 4)', 'nn.BatchNorm2d(3)(T.ones(2, 3))',
    'nn.BatchNorm1d(3)(T.ones(1, 3))', 'nn.InstanceNorm2d(3)(T.ones(2, 3))', 'nn.InstanceNorm1d(3)(T.ones(2, 3, 1))',
    'nn.InstanceNorm1d(3, affine=True)(T.ones(2, 4, 5))', 'nn.LocalResponseNorm(2)(T.ones(2, 3))',
    'nn.LSTM(3, 4, proj_size=4)', 'nn.LSTM(3, 4, proj_size=-1)', 'nn.GRU(3, 4, proj_size=1)', 'nn.RNN(3, 4, nonlinearity="x")',
    'nn.LSTM(3, 0)', 'nn.LSTM(3, 4.5)', 'nn.LSTM(3, 4, 0)', 'nn.LSTM(3, 4, dropout=2)', 'nn.RNNBase("X", 3, 4)',
    'nn.LSTM(3, 4)(T.ones(2, 2, 5))', 'nn.LSTM(3, 4)(T.ones(3))', 'nn.RNN(3, 4)(T.ones(3))',
    'nn.LSTM(3, 4)(T.ones(2, 2, 3), (T.ones(2, 4), T.ones(2, 4)))', 'nn.GRU(3, 4)(T.ones(2, 2, 3), T.ones(2, 4))',
    'nn.GRU(3, 4)(T.ones(2, 2, 3), T.ones(1, 3, 4))', 'nn.LSTM(3, 4)(T.ones(2, 2, 3), (T.ones(1, 2, 4), T.ones(1, 3, 4)))',
    'nn.GRUCell(3, 4)(T.ones(1, 1, 3))', 'nn.RNNCell(3, 4)(T.ones(1, 3), T.ones(1, 1, 4))',
    'nn.MultiheadAttention(5, 2)', 'nn.MultiheadAttention(0, 2)', 'nn.MultiheadAttention(4, 2)(*[T.ones(1, 2, 3, 4)] * 3)',
    'nn.MultiheadAttention(4, 2)(T.ones(2, 4), T.ones(1, 2, 4), T.ones(2, 4))',
    'nn.MultiheadAttention(4, 2)(*[T.ones(3, 1, 4)] * 3, attn_mask=T.ones(2, 2))',
    'nn.MultiheadAttention(4, 2)(*[T.ones(3, 1, 4)] * 3, attn_mask=T.ones(5, 2, 2))',
    'nn.MultiheadAttention(4, 2)(*[T.ones(3, 1, 4)] * 3, key_padding_mask=T.ones(2))',
    'nn.MultiheadAttention(4, 2)(*[T.ones(3, 1, 4)] * 3, attn_mask=T.ones(3, 3).long())',
    'nn.MultiheadAttention(4, 2)(*[T.ones(3, 1, 4)] * 3, is_causal=True)', 'nn.TransformerEncoderLayer(4, 2, activation="x")',
    'nn.Transformer(4, 2, 1, 1)(T.ones(3, 1, 4), T.ones(3, 2, 4))', 'nn.Transformer(4, 2, 1, 1)(T.ones(3, 1, 5), T.ones(3, 1, 4))',
    'nn.AdaptiveLogSoftmaxWithLoss(4, 5, [])', 'nn.AdaptiveLogSoftmaxWithLoss(4, 5, [3, 2])',
    'nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2])(T.ones(2, 4), T.tensor([1]))',
    'nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2])(T.ones(2, 4), T.tensor([1, 7]))', 'nn.TripletMarginLoss(margin=0)',
    'nn.MultiMarginLoss(p=3)', 'nn.MultiMarginLoss(weight=T.ones(1, 2))', 'nn.MSELoss(reduction="x")(T.ones(2), T.ones(2))',
    'nn.GaussianNLLLoss()(T.ones(2), T.ones(2), -T.ones(2))', 'nn.GaussianNLLLoss()(T.ones(2, 3), T.ones(2, 3), T.ones(2, 2))',
    'nn.BCELoss()(T.ones(2), T.ones(3))', 'nn.CosineEmbeddingLoss()(T.ones(2), T.ones(2), T.ones(2))',
    'nn.MarginRankingLoss()(T.ones(2), T.ones(2), T.tensor(1.0))', 'nn.Unflatten(1.5, (1, 2))', 'nn.Unflatten(1, 3)',
    'nn.Softmax2d()(T.ones(2, 3))', 'nn.ChannelShuffle(3)(T.ones(1, 4, 2))', 'nn.PixelShuffle(2)(T.ones(1, 3, 2, 2))',
    'nn.FractionalMaxPool2d(2)', 'nn.FractionalMaxPool2d(2, 3, 0.5)', 'nn.FractionalMaxPool2d(2, output_ratio=1.5)',
    'nn.MaxUnpool2d(2)(T.ones(1, 1, 2, 2), T.zeros(1, 1, 2, 2).long(), output_size=(9, 9))', 'nn.ModuleList(3)',
    'nn.ModuleList([3])', 'nn.Sequential(3)', 'nn.Sequential()[0]', 'nn.ModuleList()[1]', 'nn.ParameterList(3)',
    'nn.ModuleDict(3)', 'nn.ModuleDict([3])', 'nn.ModuleDict([(1, 2, 3)])', 'nn.ModuleDict({"a": 3})', 'nn.ModuleDict({"a.b": nn.ReLU()})',
    'nn.Sequential(nn.ReLU()) + 3', 'nn.Sequential(nn.ReLU()) * 0', 'nn.Sequential(nn.ReLU()) * 1.5', 'nn.ParameterList()()',
    'nn.ParameterDict()({})', 'nn.ParameterDict()["a"]', 'nn.Sequential(nn.ReLU()).insert(9, nn.ReLU())',
    'nn.ReLU().train("x")', 'nn.Linear(2, 2).to(T.int64)', 'nn.Linear(2, 2).get_submodule("a")',
    'nn.Linear(2, 2).get_submodule("weight")', 'nn.Linear(2, 2).get_parameter("x")', 'nn.BatchNorm1d(2).get_parameter("running_mean")',
    'nn.Linear(2, 2).get_buffer("weight")', 'nn.Linear(2, 2).set_submodule("", nn.ReLU())', 'nn.Linear(2, 2).set_submodule("weight", nn.ReLU())',
    'nn.Linear(2, 2).register_buffer("a.b", None)', 'nn.Linear(2, 2).register_buffer("", None)',
    'nn.Linear(2, 2).register_buffer("weight", None)', 'nn.Linear(2, 2).register_buffer(1, None)', 'nn.Linear(2, 2).register_buffer("x", 3)',
    'nn.Linear(2, 2).register_parameter("x", T.ones(2))', 'nn.Linear(2, 2).register_parameter("x.y", None)',
    'nn.Linear(2, 2).register_parameter("forward", None)', 'nn.Linear(2, 2).add_module("x", 3)', 'nn.Linear(2, 2).add_module("weight", nn.ReLU())',
    'nn.Linear(2, 2).missing', 'nn.Linear(2, 2).load_state_dict([1])', 'nn.Linear(2, 2).load_state_dict({})',
    'nn.Linear(2, 2).load_state_dict({"weight": T.ones(3, 3), "bias": T.ones(2), "x": T.ones(1)})',
    'nn.Linear(2, 2).load_state_dict({"weight": 3, "bias": T.ones(2)})', 'nn.Module(3)', 'nn.Module(x=3)', 'nn.Module()(3)',
    'setattr(nn.Linear(2, 2), "weight", T.ones(2, 2))', 'setattr(nn.Linear(2, 2), "weight", 3)',
    'setattr(nn.BatchNorm1d(2), "running_mean", 3)', 'setattr(nn.Sequential(nn.ReLU()), "0", 3)',
    'setattr(nn.Sequential(nn.ReLU()), "0", T.ones(2))', 'delattr(nn.Linear(2, 2), "missing")',
    'nn.functional.ctc_loss(T.ones(4, 2, 3), T.ones(2, 2).long(), [4], [2])',
    'nn.functional.ctc_loss(T.ones(4, 2, 3), T.ones(2, 2).long(), [4, 4], [2, 2], blank=3)',
    'nn.functional.ctc_loss(T.ones(4, 2, 3), T.ones(2, 2).long(), [4, 5], [2, 2])',
    'nn.functional.ctc_loss(T.ones(4, 2, 3), T.ones(2, 2).long(), [4, 4], [2, 3])',
    'nn.functional.channel_shuffle(T.ones(2, 3), 3)', 'nn.functional.rrelu(T.ones(2), 0.5, 0.2)', 'nn.functional.pdist(T.ones(2))',
    'nn.functional.feature_alpha_dropout(T.ones(2), 0.5, True)', 'nn.functional.huber_loss(T.ones(2), T.ones(2), delta=0)',
    'nn.functional.mse_loss(T.ones(2), T.ones(2), weight=T.ones(3))',
]


def outcome(expression, library):
    """The class and text of the error of an expression."""
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        try:
            eval(expression, {'nn': library.nn, 'T': library})
        except Exception as error:
            return type(error), str(error)
    return None, ''


# Errors that Python itself raises, that PyTorch raises from C++ with places in its source, or that print a set, in any order:
# only the class is compared.
BY_CLASS = ('positional', 'keyword', 'argument', 'Exception raised from', 'while checking', 'be one of')


@pytest.mark.parametrize('expression', BAD)
def test_error(expression):
    kind, text = outcome(expression, torch)
    assert kind is not None, 'PyTorch accepts this'
    mine, my_text = outcome(expression, gt)
    assert mine is kind, f'{mine.__name__ if mine else None}: {my_text} instead of {kind.__name__}: {text}'
    if not any(word in text for word in BY_CLASS) and 'nn.functional' not in expression:
        assert my_text == text.replace('torch.', 'gt.').replace('torch ', 'gt ').replace('nn.modules.container.', 'nn.containers.')
