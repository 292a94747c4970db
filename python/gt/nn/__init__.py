"""Neural networks with PyTorch's names: modules, losses (also as functions), initialisation, optimisers.

Read module.py first. The layers are thin: each calls its function in functional.py.
"""

from gt import _gt, _help
from gt.nn import attention, functional, init, utils  # noqa: F401
from gt.nn.activations import (  # noqa: F401
    CELU, ELU, GELU, GLU, SELU, Hardshrink, Hardsigmoid, Hardswish, Hardtanh, LeakyReLU, LogSigmoid, LogSoftmax, Mish,
    PReLU, ReLU, ReLU6, RReLU, Sigmoid, SiLU, Softmax, Softmax2d, Softmin, Softplus, Softshrink, Softsign, Tanh, Tanhshrink,
    Threshold)
from gt.nn.adaptive import AdaptiveLogSoftmaxWithLoss  # noqa: F401
from gt.nn.containers import (  # noqa: F401
    Container, ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential)
from gt.nn.conv import (  # noqa: F401
    Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)
from gt.nn.ctc import CTCLoss  # noqa: F401
from gt.nn.distances import (  # noqa: F401
    CosineEmbeddingLoss, GaussianNLLLoss, HingeEmbeddingLoss, MarginRankingLoss, PairwiseDistance, PoissonNLLLoss,
    TripletMarginLoss, TripletMarginWithDistanceLoss)
from gt.nn.embedding import Embedding, EmbeddingBag  # noqa: F401
from gt.nn.functional import gelu, log_softmax, relu, sigmoid, silu, softmax, tanh  # noqa: F401
from gt.nn.layers import (  # noqa: F401
    AlphaDropout, Bilinear, ChannelShuffle, CosineSimilarity, Dropout, Dropout1d, Dropout2d, Dropout3d, FeatureAlphaDropout,
    Flatten, Identity, Linear, PixelShuffle, PixelUnshuffle, Unflatten)
from gt.nn.lazy import (  # noqa: F401
    LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d, LazyConv1d, LazyConv2d, LazyConv3d, LazyConvTranspose1d,
    LazyConvTranspose2d, LazyConvTranspose3d, LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d, LazyLinear)
from gt.nn.losses import (  # noqa: F401
    BCELoss, BCEWithLogitsLoss, CrossEntropyLoss, HuberLoss, KLDivLoss, L1Loss, MSELoss, NLLLoss, NLLLoss2d, SmoothL1Loss,
    binary_cross_entropy, cross_entropy, l1_loss, mse_loss)
from gt.nn.margins import (  # noqa: F401
    MultiLabelMarginLoss, MultiLabelSoftMarginLoss, MultiMarginLoss, SoftMarginLoss)
from gt.nn.module import Module  # noqa: F401
from gt.nn.multihead import MultiheadAttention  # noqa: F401
from gt.nn.norm import (  # noqa: F401
    BatchNorm1d, BatchNorm2d, BatchNorm3d, CrossMapLRN2d, GroupNorm, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d,
    LayerNorm, LocalResponseNorm, RMSNorm, SyncBatchNorm)
from gt.nn.padding import (  # noqa: F401
    CircularPad1d, CircularPad2d, CircularPad3d, ConstantPad1d, ConstantPad2d, ConstantPad3d, ReflectionPad1d,
    ReflectionPad2d, ReflectionPad3d, ReplicationPad1d, ReplicationPad2d, ReplicationPad3d, ZeroPad1d, ZeroPad2d,
    ZeroPad3d)
from gt.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter  # noqa: F401
from gt.nn.pooling import (  # noqa: F401
    AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d,
    AvgPool1d, AvgPool2d, AvgPool3d, Fold, FractionalMaxPool2d, FractionalMaxPool3d, LPPool1d, LPPool2d, LPPool3d, MaxPool1d,
    MaxPool2d, MaxPool3d, MaxUnpool1d, MaxUnpool2d, MaxUnpool3d, Unfold, Upsample, UpsamplingBilinear2d,
    UpsamplingNearest2d)
from gt.nn.recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNBase, RNNCell, RNNCellBase  # noqa: F401
from gt.nn.transformer import (  # noqa: F401
    Transformer, TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer)
from gt.nn import grad, modules, parallel  # noqa: F401
from gt.nn.parallel import DataParallel  # noqa: F401

_gt._native_forwards(Linear.forward, ReLU.forward, Sequential.forward)

cross_entropy_loss = cross_entropy  # its name in the prototype


def factory_kwargs(kwargs):
    """The arguments of a factory function among those of a layer: device, dtype and memory_format."""
    if kwargs is None:
        return {}
    names = ('device', 'dtype', 'memory_format')
    found = dict(kwargs.get('factory_kwargs', {}))
    unknown = set(kwargs) - {*names, 'factory_kwargs'}
    if unknown:
        raise TypeError(f'unexpected kwargs {unknown}')
    for name in names:
        if name in kwargs:
            if name in found:
                raise TypeError(f'{name} specified twice, in **kwargs and in factory_kwargs')
            found[name] = kwargs[name]
    return found


def __getattr__(name):
    """The prototype had its optimisers here. They load on first use, because gt.optim needs gt.nn."""
    if name in ('SGD', 'Adagrad', 'Adam', 'AdamW', 'RMSprop'):
        from gt import optim
        return getattr(optim, name)
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')

__dir__ = _help.publish(__name__)
