"""Neural networks with PyTorch's names: modules, losses (also as functions), initialisation, optimisers.

Read module.py first. The layers are thin: each calls its function in functional.py.
"""

from gt.nn import functional, init, utils  # noqa: F401
from gt.nn.activations import (  # noqa: F401
    CELU, ELU, GELU, GLU, SELU, Hardshrink, Hardsigmoid, Hardswish, Hardtanh, LeakyReLU, LogSigmoid, LogSoftmax, Mish,
    PReLU, ReLU, ReLU6, Sigmoid, SiLU, Softmax, Softmin, Softplus, Softshrink, Softsign, Tanh, Tanhshrink, Threshold)
from gt.nn.attention import MultiheadAttention, TransformerEncoder, TransformerEncoderLayer  # noqa: F401
from gt.nn.containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential  # noqa: F401
from gt.nn.conv import (  # noqa: F401
    Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)
from gt.nn.distances import (  # noqa: F401
    CosineEmbeddingLoss, GaussianNLLLoss, HingeEmbeddingLoss, MarginRankingLoss, PairwiseDistance, PoissonNLLLoss,
    TripletMarginLoss)
from gt.nn.functional import gelu, log_softmax, relu, sigmoid, silu, softmax, tanh  # noqa: F401
from gt.nn.layers import (  # noqa: F401
    Bilinear, CosineSimilarity, Dropout, Dropout1d, Dropout2d, Dropout3d, Embedding, Flatten, Identity, Linear,
    PixelShuffle, PixelUnshuffle, Unflatten)
from gt.nn.losses import (  # noqa: F401
    BCELoss, BCEWithLogitsLoss, CrossEntropyLoss, HuberLoss, KLDivLoss, L1Loss, MSELoss, NLLLoss, SmoothL1Loss,
    binary_cross_entropy, cross_entropy, l1_loss, mse_loss)
from gt.nn.module import Module  # noqa: F401
from gt.nn.norm import BatchNorm1d, BatchNorm2d, BatchNorm3d, GroupNorm, LayerNorm, RMSNorm  # noqa: F401
from gt.nn.padding import (  # noqa: F401
    CircularPad1d, CircularPad2d, CircularPad3d, ConstantPad1d, ConstantPad2d, ConstantPad3d, ReflectionPad1d,
    ReflectionPad2d, ReflectionPad3d, ReplicationPad1d, ReplicationPad2d, ReplicationPad3d, ZeroPad1d, ZeroPad2d,
    ZeroPad3d)
from gt.nn.parameter import Parameter  # noqa: F401
from gt.nn.pooling import (  # noqa: F401
    AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d,
    AvgPool1d, AvgPool2d, AvgPool3d, Fold, MaxPool1d, MaxPool2d, MaxPool3d, Unfold, Upsample)
from gt.nn.recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell  # noqa: F401
from gt.optim import SGD, Adagrad, Adam, AdamW, RMSprop  # noqa: F401

cross_entropy_loss = cross_entropy  # its name in the prototype
