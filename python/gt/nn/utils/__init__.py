"""Tools for modules: clipping gradients, packed sequences, weight and spectral normalisation, parametrisations, pruning."""

from gt import _help
from gt.nn.utils import parametrizations, parametrize, rnn, stateless  # noqa: F401
from gt.nn.utils.clip_grad import (  # noqa: F401
    clip_grad_norm, clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm)
from gt.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters  # noqa: F401
from gt.nn.utils.fusion import (  # noqa: F401
    fuse_conv_bn_eval, fuse_conv_bn_weights, fuse_linear_bn_eval, fuse_linear_bn_weights)
from gt.nn.utils.init import skip_init  # noqa: F401
from gt.nn.utils.memory_format import (  # noqa: F401
    convert_conv2d_weight_memory_format, convert_conv3d_weight_memory_format)
from gt.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm  # noqa: F401
from gt.nn.utils.weight_norm import remove_weight_norm, weight_norm  # noqa: F401

__dir__ = _help.publish(__name__)
