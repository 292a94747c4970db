"""The modules of torch.nn: how to make each, and inputs for it. F is float32 noise of a shape, I are indices below a bound.

A row is (class, arguments, keywords, inputs). Every class of torch.nn is in the table or in ELSEWHERE.
"""

import functools

import numpy as np

from nn_support import numbers


class F(tuple):
    """A float input of this shape, by which gradients are compared."""

    def __new__(cls, *shape):
        return super().__new__(cls, shape)

    def array(self, seed):
        return numbers(*self, seed=seed)


class P(F):
    """A float input between 0 and 1."""

    def array(self, seed):
        return (1 / (1 + np.exp(-numbers(*self, seed=seed)))).astype(np.float32)


class C:
    """An input without gradients."""

    def __init__(self, values, dtype=np.int64):
        self.values, self.dtype = values, dtype

    def array(self, seed):
        return np.asarray(self.values, self.dtype)


class I(C):  # noqa: E742
    """Indices below a bound."""

    def __init__(self, bound, *shape):
        self.bound, self.shape = bound, shape

    def array(self, seed):
        return np.random.default_rng(seed).integers(0, self.bound, self.shape)


class S(C):
    """Targets 1 and -1."""

    def __init__(self, *shape):
        self.shape = shape

    def array(self, seed):
        return np.sign(numbers(*self.shape, seed=seed)).astype(np.float32)


def rows():
    """All rows of the table."""
    table = []

    def add(name, *inputs, args=(), **keywords):
        table.append((name, args, keywords, inputs))
    for group in (_activations, _layers, _convolutions, _pooling, _padding, _normalisation, _losses, _recurrent, _attention,
                  _lazy):
        group(add)
    return table


def _activations(add):
    for name in ('CELU', 'ELU', 'GELU', 'GLU', 'Hardshrink', 'Hardsigmoid', 'Hardswish', 'Hardtanh', 'LeakyReLU', 'LogSigmoid',
                 'Mish', 'PReLU', 'ReLU', 'ReLU6', 'SELU', 'SiLU', 'Sigmoid', 'Softplus', 'Softshrink', 'Softsign', 'Tanh',
                 'Tanhshrink'):
        add(name, F(3, 4))
    for name in ('Softmax', 'LogSoftmax', 'Softmin'):
        add(name, F(3, 4), dim=1)
        add(name, F(3, 4), dim=-2)
    add('Softmax2d', F(2, 3, 4, 5))
    add('Softmax2d', F(3, 4, 5))
    add('Threshold', F(3, 4), args=(0.1, 20))
    add('CELU', F(3, 4), args=(0.7,))
    add('ELU', F(3, 4), alpha=0.5)
    add('GELU', F(3, 4), approximate='tanh')
    add('GLU', F(4, 4, 2), dim=1)
    add('Hardshrink', F(3, 4), lambd=0.3)
    add('Hardtanh', F(3, 4), args=(-0.5, 0.7))
    add('LeakyReLU', F(3, 4), args=(0.2,))
    add('PReLU', F(2, 3, 4), num_parameters=3, init=0.1)
    add('Softplus', F(3, 4), beta=2, threshold=1)
    add('Softshrink', F(3, 4), args=(0.2,))
    add('ReLU', F(3, 4), inplace=False)


def _layers(add):
    add('Identity', F(3, 4), args=(54,), unused=1)
    add('Linear', F(3, 4), args=(4, 5))
    add('Linear', F(2, 3, 4), args=(4, 5), bias=False)
    add('Bilinear', F(3, 4), F(3, 2), args=(4, 2, 5))
    add('Bilinear', F(3, 4), F(3, 2), args=(4, 2, 5), bias=False)
    add('Embedding', I(7, 3, 4), args=(7, 5))
    add('Embedding', I(7, 3, 4), args=(7, 5), padding_idx=-2)
    add('Embedding', I(7, 3, 4), args=(7, 5), max_norm=1.0, norm_type=1.0)
    add('Embedding', I(7, 3, 4), args=(7, 5), scale_grad_by_freq=True)
    add('EmbeddingBag', I(7, 3, 4), args=(7, 5))
    for mode in ('sum', 'mean', 'max'):
        add('EmbeddingBag', I(7, 6), C([0, 2, 2, 5]), args=(7, 5), mode=mode)
        add('EmbeddingBag', I(7, 6), C([0, 2, 2, 6]), args=(7, 5), mode=mode, include_last_offset=True)
        add('EmbeddingBag', C([1, 3, 3, 3, 0, 3]), C([0, 2, 4]), args=(7, 5), mode=mode, padding_idx=3)
        add('EmbeddingBag', C([[1, 3], [3, 3], [0, 2]]), args=(7, 5), mode=mode, padding_idx=3)
    add('EmbeddingBag', I(7, 6), C([0, 2, 2, 5]), F(6), args=(7, 5), mode='sum')
    add('EmbeddingBag', I(7, 3, 4), args=(7, 5), max_norm=1.0, norm_type=1.0)
    for name in ('Dropout', 'Dropout1d', 'Dropout2d', 'Dropout3d', 'AlphaDropout', 'FeatureAlphaDropout'):
        rank = int(name[-2]) + 1 if name[-1] == 'd' else 2
        add(name, F(*range(2, rank + 2)), p=0.0)
    add('RReLU', F(3, 4), lower=0.25, upper=0.25)
    add('Flatten', F(2, 3, 4))
    add('Flatten', F(2, 3, 4), args=(0, 1))
    add('Unflatten', F(2, 12), args=(1, (3, 4)))
    add('Unflatten', F(2, 12), args=(-1, (3, -1)))
    add('PixelShuffle', F(2, 8, 3, 4), args=(2,))
    add('PixelUnshuffle', F(2, 2, 6, 4), args=(2,))
    add('ChannelShuffle', F(2, 6, 4), args=(3,))
    add('CosineSimilarity', F(3, 4), F(3, 4))
    add('CosineSimilarity', F(3, 4), F(3, 4), dim=0, eps=1e-6)
    add('PairwiseDistance', F(3, 4), F(3, 4))
    add('PairwiseDistance', F(3, 4), F(3, 4), p=1.0, keepdim=True)


def _convolutions(add):
    sizes = {1: (7,), 2: (6, 7), 3: (4, 5, 6)}
    for d, size in sizes.items():
        add(f'Conv{d}d', F(2, 4, *size), args=(4, 6, 3))
        add(f'Conv{d}d', F(4, *size), args=(4, 6, 2), stride=2, padding=1, groups=2, bias=False)
        add(f'Conv{d}d', F(2, 4, *size), args=(4, 2, 3), padding='same', dilation=1)
        add(f'Conv{d}d', F(2, 4, *size), args=(4, 2, 3), padding=1, padding_mode='circular')
        add(f'ConvTranspose{d}d', F(2, 4, *size), args=(4, 6, 3))
        add(f'ConvTranspose{d}d', F(2, 4, *size), args=(4, 6, 3), stride=2, padding=1, output_padding=1, groups=2)
    add('Conv2d', F(2, 4, 6, 7), args=(4, 2, 3), padding=(1, 2), padding_mode='reflect')
    add('Conv2d', F(2, 4, 6, 7), args=(4, 2, (2, 3)), dilation=2, padding_mode='replicate', padding=1)
    add('Fold', F(2, 12, 12), args=((4, 5), 2))
    add('Unfold', F(2, 3, 4, 5), args=(2,), padding=1, stride=2)


def _pooling(add):
    sizes = {1: (9,), 2: (6, 7), 3: (4, 5, 6)}
    for d, size in sizes.items():
        add(f'MaxPool{d}d', F(2, 3, *size), args=(2,))
        add(f'MaxPool{d}d', F(3, *size), args=(3,), stride=2, padding=1, ceil_mode=True)
        add(f'MaxPool{d}d', F(2, 3, *size), args=(2,), return_indices=True)
        add(f'AvgPool{d}d', F(2, 3, *size), args=(2,))
        add(f'AvgPool{d}d', F(2, 3, *size), args=(3,), stride=2, padding=1, count_include_pad=False)
        add(f'LPPool{d}d', P(2, 3, *size), args=(2, 2))
        add(f'LPPool{d}d', P(2, 3, *size), args=(3, 3), stride=2, ceil_mode=d != 3)
        add(f'AdaptiveAvgPool{d}d', F(2, 3, *size), args=(3,))
        add(f'AdaptiveMaxPool{d}d', F(2, 3, *size), args=(2,))
        add(f'AdaptiveMaxPool{d}d', F(2, 3, *size), args=(2,), return_indices=True)
    add('AdaptiveAvgPool2d', F(2, 3, 6, 7), args=((None, 2),))
    add('MaxUnpool1d', F(1, 2, 4), C([[[1, 3, 5, 6], [0, 2, 4, 7]]]), args=(2,))
    add('MaxUnpool2d', F(1, 1, 2, 2), C([[[[5, 7], [13, 15]]]]), args=(2,), stride=2)
    add('MaxUnpool3d', F(1, 1, 1, 2, 2), C([[[[[5, 7], [13, 15]]]]]), args=(2,), stride=2)
    add('Upsample', F(2, 3, 4), args=(8,))
    add('Upsample', F(2, 3, 4, 4), scale_factor=2, mode='bilinear', align_corners=True)
    add('UpsamplingNearest2d', F(2, 3, 4, 4), scale_factor=2)
    add('UpsamplingBilinear2d', F(2, 3, 4, 4), args=((7, 8),))


def _padding(add):
    sizes = {1: (7,), 2: (6, 7), 3: (4, 5, 6)}
    for d, size in sizes.items():
        for kind in ('Circular', 'Reflection', 'Replication', 'Zero'):
            add(f'{kind}Pad{d}d', F(2, 3, *size), args=(2,))
            add(f'{kind}Pad{d}d', F(2, 3, *size), args=(tuple([1, 2, 0, 1, 2, 1][:2 * d]),))
        add(f'ConstantPad{d}d', F(2, 3, *size), args=(2, 3.5))


def _normalisation(add):
    sizes = {1: (7,), 2: (3, 4), 3: (2, 3, 4)}
    for d, size in sizes.items():
        add(f'BatchNorm{d}d', F(3, 4, *size), args=(4,))
        add(f'BatchNorm{d}d', F(3, 4, *size), args=(4,), momentum=None, affine=False)
        add(f'BatchNorm{d}d', F(3, 4, *size), args=(4,), track_running_stats=False, eps=1e-3)
        add(f'InstanceNorm{d}d', F(3, 4, *size), args=(4,))
        add(f'InstanceNorm{d}d', F(4, *size), args=(4,), affine=True)
        add(f'InstanceNorm{d}d', F(3, 4, *size), args=(4,), affine=True, track_running_stats=True, momentum=0.3)
    add('BatchNorm1d', F(3, 4), args=(4,))
    add('SyncBatchNorm', None, args=(4,))
    add('LayerNorm', F(3, 4, 5), args=((4, 5),))
    add('LayerNorm', F(3, 5), args=(5,), bias=False)
    add('LayerNorm', F(3, 5), args=(5,), elementwise_affine=False)
    add('GroupNorm', F(3, 6, 5), args=(2, 6))
    add('RMSNorm', F(3, 4, 5), args=(5,))
    add('RMSNorm', F(3, 4, 5), args=([4, 5],), eps=1e-3, elementwise_affine=False)
    add('LocalResponseNorm', F(2, 6, 3, 4), args=(3,))
    add('LocalResponseNorm', F(2, 6, 5), args=(2,), alpha=0.1, beta=0.5, k=2.0)


def _losses(add):
    for reduction in ('mean', 'sum', 'none'):
        with_reduction = functools.partial(add, reduction=reduction)
        for name in ('L1Loss', 'MSELoss', 'SmoothL1Loss', 'HuberLoss'):
            with_reduction(name, F(3, 4), F(3, 4))
        with_reduction('SmoothL1Loss', F(3, 4), F(3, 4), beta=0.3)
        with_reduction('HuberLoss', F(3, 4), F(3, 4), delta=0.3)
        with_reduction('BCELoss', P(3, 4), C([[0, 1, 0, 1]] * 3, np.float32))
        with_reduction('BCEWithLogitsLoss', F(3, 4), C([[0, 1, 0, 1]] * 3, np.float32))
        with_reduction('CrossEntropyLoss', F(3, 4), C([0, 3, 2]))
        with_reduction('CrossEntropyLoss', F(3, 4), C([0, -100, 2]), label_smoothing=0.1)
        with_reduction('NLLLoss', F(3, 4, 2), I(4, 3, 2), ignore_index=1)
        with_reduction('NLLLoss2d', F(3, 4, 2, 2), I(4, 3, 2, 2))
        with_reduction('KLDivLoss', F(3, 4), P(3, 4))
        with_reduction('KLDivLoss', F(3, 4), F(3, 4), log_target=True)
        with_reduction('PoissonNLLLoss', F(3, 4), P(3, 4), full=True)
        with_reduction('PoissonNLLLoss', P(3, 4), P(3, 4), log_input=False)
        with_reduction('GaussianNLLLoss', F(3, 4), F(3, 4), P(3, 4), full=True)
        with_reduction('GaussianNLLLoss', F(3, 4), F(3, 4), P(3, 1))
        with_reduction('HingeEmbeddingLoss', F(3, 4), S(3, 4), margin=0.5)
        with_reduction('SoftMarginLoss', F(3, 4), S(3, 4))
        with_reduction('CosineEmbeddingLoss', F(3, 4), F(3, 4), S(3), margin=0.1)
        with_reduction('MarginRankingLoss', F(5), F(5), S(5), margin=0.1)
        with_reduction('TripletMarginLoss', F(3, 4), F(3, 4), F(3, 4), swap=True)
        with_reduction('TripletMarginLoss', F(3, 4), F(3, 4), F(3, 4), p=1, margin=0.5)
        with_reduction('TripletMarginWithDistanceLoss', F(3, 4), F(3, 4), F(3, 4), margin=0.5)
        with_reduction('MultiLabelMarginLoss', F(2, 4), C([[3, 0, -1, 1], [1, 2, 0, -1]]))
        with_reduction('MultiLabelMarginLoss', F(4), C([3, 0, -1, 1]))
        with_reduction('MultiLabelSoftMarginLoss', F(3, 4), C([[0, 1, 0, 1]] * 3, np.float32))
        with_reduction('MultiMarginLoss', F(3, 4), C([0, 3, 2]))
        with_reduction('MultiMarginLoss', F(3, 4), C([0, 3, 2]), p=2, margin=0.7)
        with_reduction('MultiMarginLoss', F(4), C(2))
        with_reduction('CTCLoss', F(12, 3, 5), C([[1, 2, 3], [4, 1, 1], [2, 2, 0]]), C([12, 9, 12]), C([3, 3, 2]))
        with_reduction('CTCLoss', F(4, 3, 5), C([1, 2, 3, 4, 1, 1, 2, 2]), C([4, 3, 2]), C([3, 3, 2]), zero_infinity=True,
                       blank=0)
    add('KLDivLoss', F(3, 4), P(3, 4), reduction='batchmean')
    add('AdaptiveLogSoftmaxWithLoss', F(5, 16), C([0, 3, 7, 12, 19]), args=(16, 20, [4, 10]))
    add('AdaptiveLogSoftmaxWithLoss', F(5, 16), C([0, 3, 7, 12, 19]), args=(16, 20, [4, 10]), div_value=2.0, head_bias=True)


def _recurrent(add):
    for name, states in (('RNN', 1), ('LSTM', 2), ('GRU', 1)):
        add(name, F(5, 3, 4), args=(4, 6))
        add(name, F(5, 4), args=(4, 6), num_layers=2, bias=False)
        add(name, F(3, 5, 4), args=(4, 6), num_layers=2, batch_first=True, bidirectional=True)
        cell = f'{name}Cell'
        add(cell, F(3, 4), args=(4, 6))
        add(cell, F(4), args=(4, 6), bias=False)
    add('RNN', F(5, 3, 4), F(1, 3, 6), args=(4, 6), nonlinearity='relu')
    add('GRU', F(5, 3, 4), F(1, 3, 6), args=(4, 6))
    add('RNNCell', F(3, 4), F(3, 6), args=(4, 6), nonlinearity='relu')
    add('LSTM', F(5, 3, 4), args=(4, 6), proj_size=2)
    add('LSTM', F(5, 3, 4), args=(4, 6), proj_size=3, num_layers=2, bidirectional=True)
    add('RNNBase', None, args=('GRU', 4, 6))


def _attention(add):
    add('MultiheadAttention', F(5, 2, 8), F(4, 2, 8), F(4, 2, 8), args=(8, 2))
    add('MultiheadAttention', F(5, 8), F(4, 8), F(4, 8), args=(8, 2), bias=False)
    add('MultiheadAttention', F(2, 5, 8), F(2, 4, 6), F(2, 4, 3), args=(8, 2), batch_first=True, kdim=6, vdim=3)
    add('MultiheadAttention', F(5, 2, 8), F(4, 2, 8), F(4, 2, 8), args=(8, 2), add_bias_kv=True, add_zero_attn=True)
    small = dict(dropout=0.0, dim_feedforward=10)
    for norm_first in (False, True):
        add('TransformerEncoderLayer', F(5, 2, 8), args=(8, 2), norm_first=norm_first, **small)
        add('TransformerDecoderLayer', F(5, 2, 8), F(4, 2, 8), args=(8, 2), norm_first=norm_first, **small)
    add('TransformerEncoderLayer', F(2, 5, 8), args=(8, 2), batch_first=True, activation='gelu', bias=False, **small)
    add('Transformer', F(5, 2, 8), F(4, 2, 8), args=(8, 2, 1, 2), **small)
    add('Transformer', F(2, 5, 8), F(2, 4, 8), args=(8, 2, 2, 1), batch_first=True, norm_first=True, **small)


def _lazy(add):
    for name in ('LazyLinear',):
        add(name, F(3, 4), args=(5,))
    for d, size in {1: (7,), 2: (6, 7), 3: (4, 5, 6)}.items():
        add(f'LazyConv{d}d', F(2, 4, *size), args=(6, 3))
        add(f'LazyConvTranspose{d}d', F(2, 4, *size), args=(6, 3))
        add(f'LazyBatchNorm{d}d', F(2, 4, *size))
        add(f'LazyInstanceNorm{d}d', F(2, 4, *size))


# Classes that another test has: why.
ELSEWHERE = {
    'Module': 'test_nn.py', 'Sequential': 'test_nn_containers.py', 'ModuleList': 'test_nn_containers.py',
    'ModuleDict': 'test_nn_containers.py', 'ParameterList': 'test_nn_containers.py', 'ParameterDict': 'test_nn_containers.py',
    'Container': 'an old name of ModuleDict', 'Parameter': 'test_nn.py', 'Buffer': 'test_nn_containers.py',
    'UninitializedParameter': 'test_nn_containers.py', 'UninitializedBuffer': 'test_nn_containers.py',
    'TransformerEncoder': 'part of Transformer', 'TransformerDecoder': 'part of Transformer', 'RNNCellBase': 'a base',
    'DataParallel': 'test_nn_utils.py', 'FractionalMaxPool2d': 'test_nn_modules_table.py, with its random places',
    'CrossMapLRN2d': 'LocalResponseNorm; docs/pytorch.md says what differs',
    'FractionalMaxPool3d': 'test_nn_modules_table.py, with its random places'}
