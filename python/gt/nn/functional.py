"""Layers and losses as functions of tensors, with the names and arguments of torch.nn.functional."""

import functools
import inspect
import math
import warnings

import gt
from gt import _help
from gt import _gt, where
from gt.amp import policies as _policies
from gt.amp.policies import active as _autocasting
from gt.client.arrangement import pad  # noqa: F401
from gt.client.halves import HALVES as _HALVES, in_float32 as _in_float32
from gt.client.outputs import published_all
from gt.client.registry import no_view as _no_view
from gt.client.statistics import cosine_similarity  # noqa: F401
from gt.nn.distances import (  # noqa: F401
    cosine_embedding_loss, gaussian_nll_loss, hinge_embedding_loss, margin_ranking_loss, pairwise_distance,
    poisson_nll_loss, triplet_margin_loss, triplet_margin_with_distance_loss)
from gt.nn.ctc import ctc_loss  # noqa: F401
from gt.nn.embedding import embedding, embedding_bag  # noqa: F401
from gt.nn.grid import affine_grid, grid_sample  # noqa: F401
from gt.nn.losses import (  # noqa: F401
    binary_cross_entropy, binary_cross_entropy_with_logits, cross_entropy, huber_loss, kl_div, l1_loss, mse_loss,
    nll_loss, smooth_l1_loss)
from gt.nn.margins import (  # noqa: F401
    multi_margin_loss, multilabel_margin_loss, multilabel_soft_margin_loss, soft_margin_loss)
from gt.nn.multihead import multi_head_attention_forward  # noqa: F401
from gt.nn.normalization import (  # noqa: F401
    batch_norm, group_norm, instance_norm, layer_norm, local_response_norm, rms_norm)
from gt.nn.spatial import (  # noqa: F401
    adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d, adaptive_max_pool1d, adaptive_max_pool2d,
    adaptive_max_pool3d, avg_pool1d, avg_pool2d, avg_pool3d, conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d,
    conv_transpose3d, fold, interpolate, max_pool1d, max_pool2d, max_pool3d, unfold, upsample)
from gt.nn.unpool import (  # noqa: F401
    fractional_max_pool2d, fractional_max_pool2d_with_indices, fractional_max_pool3d, fractional_max_pool3d_with_indices,
    lp_pool1d, lp_pool2d, lp_pool3d, max_unpool1d, max_unpool2d, max_unpool3d)



def _stored(input, result, inplace):
    """The result, or `input` with the result as its new value if inplace."""
    return input.copy_(result) if inplace else result


# ---- activations ---------------------------------------------------------------------------------------------


def _refuse_input(name, input):
    """Raise for an input that has no such method: a TypeError, as PyTorch does, unless it is a tensor."""
    if isinstance(input, gt.Tensor):
        raise  # noqa: PLE0704  (the AttributeError that is being handled)
    raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}") from None


def sigmoid(input):
    """1 / (1 + exp(-x))."""
    try:
        return input.sigmoid()
    except AttributeError:
        _refuse_input('sigmoid', input)


def tanh(input):
    """The hyperbolic tangent."""
    try:
        return input.tanh()
    except AttributeError:
        _refuse_input('tanh', input)


def relu(input, inplace=False):
    """max(x, 0)."""
    try:
        return input.relu_() if inplace else input.relu()
    except AttributeError:
        _refuse_input('relu', input)


def relu6(input, inplace=False):
    """min(max(x, 0), 6)."""
    try:
        return input.relu6_() if inplace else input.relu6()
    except AttributeError:
        _refuse_input('hardtanh', input)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    """x where positive, else negative_slope * x."""
    try:
        return input.leaky_relu_(negative_slope) if inplace else input.leaky_relu(negative_slope)
    except AttributeError:
        _refuse_input('leaky_relu', input)


def prelu(input, weight):
    """leaky_relu with the slopes of a tensor: one, or one for each channel (dimension 1)."""
    if weight.ndim > 1:
        raise RuntimeError(f'prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}')
    if weight.numel() != 1:
        if not input.ndim:
            raise RuntimeError('Not allow zero-dim input tensor.')
        channels = input.shape[1] if input.ndim > 1 else 1
        if weight.numel() != channels:
            raise RuntimeError('Mismatch of parameter numbers and input channel size. Found parameter numbers = '
                               f'{weight.numel()} and channel size = {channels}.')
        weight = weight.reshape(-1, *(1,) * (input.ndim - 2))
    elif not input.ndim:
        weight = weight.reshape(())
    return where(input > 0, input, input * weight)


def elu(input, alpha=1.0, inplace=False):
    """x where positive, else alpha * (exp(x) - 1)."""
    try:
        return input.elu_(alpha) if inplace else input.elu(alpha)
    except AttributeError:
        _refuse_input('elu', input)


def celu(input, alpha=1.0, inplace=False):
    """x where positive, else alpha * (exp(x / alpha) - 1)."""
    try:
        return input.celu_(alpha) if inplace else input.celu(alpha)
    except AttributeError:
        _refuse_input('celu', input)


def selu(input, inplace=False):
    """elu, scaled so that activations keep mean 0 and variance 1."""
    try:
        return input.selu_() if inplace else input.selu()
    except AttributeError:
        _refuse_input('selu', input)


def gelu(input, approximate='none'):
    """x times the normal distribution function of x, or its approximation by 'tanh'."""
    if approximate not in ('none', 'tanh'):
        raise RuntimeError('approximate argument must be either none or tanh.')
    try:
        return input.gelu() if approximate == 'none' else input.gelu_tanh()
    except AttributeError:
        _refuse_input('gelu', input)


def silu(input, inplace=False):
    """x * sigmoid(x)."""
    try:
        if input.is_complex():
            return _stored(input, input * input.sigmoid(), inplace)
        return input.silu_() if inplace else input.silu()
    except AttributeError:
        _refuse_input('silu', input)


def mish(input, inplace=False):
    """x * tanh(softplus(x))."""
    return input.mish_() if inplace else input.mish()


def softplus(input, beta=1.0, threshold=20.0):
    """log(1 + exp(beta * x)) / beta; x itself where beta * x exceeds the threshold."""
    if beta == 1 and threshold == 20:
        return input.softplus()
    if input.dtype in _HALVES:
        return _in_float32(softplus, input.dtype, input, beta, threshold)
    scaled = input * beta
    return where(scaled > threshold, input, scaled.softplus() / beta)


def softsign(input):
    """x / (1 + |x|)."""
    if input.is_complex() or input.dtype in _HALVES:  # PyTorch rounds 1 + |x|
        return input / (input.abs() + 1)
    return input.softsign()


def logsigmoid(input):
    """log(sigmoid(x)), computed stably."""
    return input.logsigmoid()


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """leaky_relu with slopes drawn between two bounds in training, else with their mean."""
    if lower > upper:
        raise RuntimeError(f'Lower bound should be less than or equal to the upper bound, but got {lower} and {upper}')
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    slopes = gt.rand(input.shape, dtype=input.dtype) * (upper - lower) + lower
    return _stored(input, where(input > 0, input, input * slopes), inplace)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """x, kept between two bounds."""
    if min_val > max_val:
        raise ValueError('min_val cannot be greater than max_val')
    return input.hardtanh_(min_val, max_val) if inplace else input.hardtanh(min_val, max_val)


def hardsigmoid(input, inplace=False):
    """min(max(x / 6 + 1/2, 0), 1)."""
    return input.hardsigmoid_() if inplace else input.hardsigmoid()


def hardswish(input, inplace=False):
    """x * hardsigmoid(x)."""
    return input.hardswish_() if inplace else input.hardswish()


def _check_kernel(input, kernel):
    """PyTorch has these kernels for floating dtypes only."""
    if not input.is_floating_point():
        raise NotImplementedError(f'"{kernel}" not implemented for {input.dtype._kind!r}')


def threshold(input, threshold, value, inplace=False):
    """x where larger than the threshold, else the value."""
    if input.dtype == _gt.bool or input.is_complex():
        raise NotImplementedError(f'"threshold_cpu" not implemented for {input.dtype._kind!r}')
    threshold, value = input._fit(threshold), input._fit(value)
    larger = ~((input.float() if input.dtype in _HALVES else input) <= threshold)  # also NaN
    return _stored(input, where(larger, input, value), inplace)


def hardshrink(input, lambd=0.5):
    """0 between ±lambd, else x."""
    _check_kernel(input, 'hardshrink_cpu')
    lambd = input._fit(lambd)
    return where(input.abs() <= lambd, 0.0, input)


def softshrink(input, lambd=0.5):
    """x, moved towards 0 by lambd, and 0 between ±lambd."""
    _check_kernel(input, 'softshrink_check')
    if not lambd >= 0:
        raise RuntimeError(f'lambda must be greater or equal to 0, but found to be {lambd}.')
    largest = gt.finfo(input.dtype).max
    if lambd > largest:
        raise RuntimeError(f'lambda must be in range [0, {largest:g}] for input dtype {input.dtype._kind}, but found {lambd:g}')
    return input - input.clamp(-lambd, lambd)


def tanhshrink(input):
    """x - tanh(x)."""
    return input - input.tanh()


def glu(input, dim=-1):
    """The first half of a dimension times the sigmoid of the second."""
    if input.shape[dim] % 2:
        raise RuntimeError(f'Halving dimension must be even, but dimension {dim} is size {input.shape[dim]}')
    if input.dtype in _HALVES:
        return _in_float32(glu, input.dtype, input, dim)
    first, second = input.chunk(2, dim)
    return first * second.sigmoid()


def _softmax_dim(input, dim, level):
    if dim is not None:
        return dim
    warnings.warn('Implicit dimension choice for softmax has been deprecated. Change the call to include dim=X as an '
                  'argument.', stacklevel=level + 1)
    return 0 if input.ndim in (0, 1, 3) else 1


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """exp(x), normalised to sum 1 along a dimension."""
    return input.softmax(_softmax_dim(input, dim, _stacklevel), dtype)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """The logarithm of softmax, computed stably."""
    return input.log_softmax(_softmax_dim(input, dim, _stacklevel), dtype)


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """softmax(-x)."""
    return softmax(-input, _softmax_dim(input, dim, _stacklevel), dtype=dtype)


def _in_place(function):
    """The variant of an activation that changes its input."""
    accepted = inspect.signature(function)
    options = [option for name, option in accepted.parameters.items() if name != 'inplace']

    def changed(*args, **kwargs):
        given = changed.__signature__.bind(*args, **kwargs)
        return function(**given.arguments, inplace=True)
    changed.__signature__ = accepted.replace(parameters=options)
    changed.__name__ = changed.__qualname__ = function.__name__ + '_'
    changed.__doc__ = f'{function.__name__}, in place.'
    return changed


relu_, elu_, celu_, selu_, leaky_relu_, hardtanh_, threshold_, rrelu_ = map(
    _in_place, (relu, elu, celu, selu, leaky_relu, hardtanh, threshold, rrelu))


# ---- layers --------------------------------------------------------------------------------------------------


def _check_linear(input, weight, bias):
    """Raise PyTorch's errors, where those of the product and the sum would differ."""
    for place, name, value in ((1, 'input', input), (2, 'weight', weight)):
        if not hasattr(value, 'requires_grad'):
            raise TypeError(f"linear(): argument '{name}' (position {place}) must be Tensor, not {type(value).__name__}")
    if bias is None or _autocasting:
        return
    if weight.ndim != 2:
        raise RuntimeError(f'mat2 must be a matrix, got {weight.ndim}-D tensor')
    if input.dtype != weight.dtype:
        raise RuntimeError(f'mat1 and mat2 must have the same dtype, but got {input.dtype._kind} and {weight.dtype._kind}')
    if bias.dtype != weight.dtype:
        raise RuntimeError(f'self and mat2 must have the same dtype, but got {bias.dtype._kind} and {weight.dtype._kind}')


def linear(input, weight, bias=None):
    """x @ weight.T + bias: weight is (outputs, inputs)."""
    output = _gt._linear(input, weight, bias)
    if output is not None:
        return output
    _check_linear(input, weight, bias)
    return _layer(input, weight, bias) if bias is not None or _autocasting else input @ weight.t()


def _layer(input, weight, bias):
    """linear() after autocast, which has cast the weight before it is transposed. Halves are rounded once, as in PyTorch."""
    output = _gt._linear(input, weight, bias) if _autocasting else None
    if output is not None:
        return output
    output = input @ weight.t()
    if bias is None:
        return output
    return output + (bias if bias.shape == output.shape[-1:] else bias.expand(output.shape))


def bilinear(input1, input2, weight, bias=None):
    """x1 @ weight[k] @ x2 for each output k: weight is (outputs, inputs1, inputs2)."""
    output = ((input1.unsqueeze(-2) @ weight.permute(1, 0, 2).flatten(1)).squeeze(-2)
              .reshape(*input1.shape[:-1], weight.shape[0], weight.shape[2]) @ input2.unsqueeze(-1)).squeeze(-1)
    return output if bias is None else output + bias


def one_hot(input, num_classes=-1):
    """1 at the index, 0 elsewhere, along a new last dimension; without num_classes it waits for the largest index."""
    if input.dtype != _gt.int64:
        raise RuntimeError('one_hot is only applicable to index tensor of type LongTensor.')
    if num_classes < 0:
        if not input.numel():
            raise RuntimeError('Can not infer total number of classes from empty tensor.')
        least, most = gt.stack([input.amin(), input.amax()]).tolist()
        if least < 0:
            raise RuntimeError('Class values must be non-negative.')
        num_classes = most + 1
    else:
        bad = input._outside(0, num_classes - 1)
        if bad is not None:
            raise _gt.GtIndexError('Class values must be ' + ('non-negative.' if bad < 0 else 'smaller than num_classes.'))
    return gt.zeros(*input.shape, num_classes, dtype=_gt.int64).scatter(-1, input.unsqueeze(-1), 1)


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """x divided by its p-norm along a dimension."""
    result = input / input.norm(p, dim, True).clamp(min=eps)
    return result if out is None else out.copy_(result)


def dropout(input, p=0.5, training=True, inplace=False):
    """In training, zero elements with probability p and scale the others by 1 / (1 - p)."""
    if not 0 <= p <= 1:
        raise ValueError(f'dropout probability has to be between 0 and 1, but got {p}')
    if not training or p == 0:
        return input
    if not isinstance(input, gt.Tensor):
        _refuse_input('dropout', input)
    kept = gt.rand(input.shape) >= p
    return _stored(input, input * kept * (1 / (1 - p) if p < 1 else 0.0), inplace)


def _dropout_channels(spatial, input, p, training, inplace):
    """dropout of whole channels: one random choice for the last `spatial` dimensions."""
    if input.ndim not in (spatial + 1, spatial + 2):
        raise RuntimeError(f'dropout{spatial}d: Expected {spatial + 1}D or {spatial + 2}D input, but received a '
                           f'{input.ndim}D input')
    if not training or p == 0:
        return dropout(input, p, False)
    kept = dropout(gt.ones(*input.shape[:-spatial], *(1,) * spatial, dtype=input.dtype), p)
    return _stored(input, input * kept, inplace)


def dropout1d(input, p=0.5, training=True, inplace=False):
    """dropout of whole channels of (N, C, L) or (C, L)."""
    return _dropout_channels(1, input, p, training, inplace)


def dropout2d(input, p=0.5, training=True, inplace=False):
    """dropout of whole channels of (N, C, H, W) or (C, H, W)."""
    return _dropout_channels(2, input, p, training, inplace)


def dropout3d(input, p=0.5, training=True, inplace=False):
    """dropout of whole channels of (N, C, D, H, W) or (C, D, H, W)."""
    return _dropout_channels(3, input, p, training, inplace)


_ALPHA = 1.6732632423543772848170429916717 * 1.0507009873554804934193349852946  # minus the limit of selu


def _alpha_dropout(input, p, training, inplace, shape):
    if not 0 <= p <= 1:
        raise ValueError(f'dropout probability has to be between 0 and 1, but got {p}')
    if not training or p == 0:
        return input
    if p == 1:
        return _stored(input, input * 0.0, inplace)
    kept = (gt.rand(shape) >= p).to(input.dtype)
    scale = 1 / math.sqrt((_ALPHA ** 2 * p + 1) * (1 - p))
    return _stored(input, input * (kept * scale) + ((kept - 1) * (_ALPHA * scale) + _ALPHA * scale * p), inplace)


def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """In training, set elements to selu's limit with probability p, and scale so that mean and variance stay."""
    return _alpha_dropout(input, p, training, inplace, input.shape)


def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """alpha_dropout of whole channels of (N, C, ...)."""
    if input.ndim < 2 and training and p:
        raise RuntimeError('Feature dropout requires at least 2 dimensions in the input')
    return _alpha_dropout(input, p, training, inplace, (*input.shape[:2], *(1,) * (input.ndim - 2)))


# ---- pixels and channels -------------------------------------------------------------------------------------


@_no_view
def pixel_shuffle(input, upscale_factor):
    """(..., C * r * r, H, W) to (..., C, H * r, W * r)."""
    (*lead, channels, height, width), r = input.shape, upscale_factor
    if channels % (r * r):
        raise RuntimeError("pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
                           f'upscale_factor, but input.size(-3)={channels} is not divisible by {r * r}')
    split, n = input.reshape(*lead, channels // (r * r), r, r, height, width), len(lead)
    order = (*range(n + 1), n + 3, n + 1, n + 4, n + 2)
    return split.permute(order).reshape(*lead, channels // (r * r), height * r, width * r)


@_no_view
def pixel_unshuffle(input, downscale_factor):
    """(..., C, H * r, W * r) to (..., C * r * r, H, W)."""
    (*lead, channels, height, width), r = input.shape, downscale_factor
    if height % r or width % r:
        raise RuntimeError('pixel_unshuffle expects height and width to be divisible by downscale_factor, but got '
                           f'{height}, {width} and {r}')
    split, n = input.reshape(*lead, channels, height // r, r, width // r, r), len(lead)
    order = (*range(n + 1), n + 2, n + 4, n + 1, n + 3)
    return split.permute(order).reshape(*lead, channels * r * r, height // r, width // r)


def channel_shuffle(input, groups):
    """(N, C, ...) with the channels of all groups interleaved."""
    if input.ndim <= 2:
        raise RuntimeError(f'channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}')
    if groups <= 0:
        raise RuntimeError(f'Number of groups to divide channels in must be positive. Value of groups:{groups}')
    batch, channels, *rest = input.shape
    if channels % groups:
        raise RuntimeError(f'Number of channels must be divisible by groups. Got {channels} channels and {groups} groups.')
    split = input.reshape(batch, groups, channels // groups, *rest)
    return split.transpose(1, 2).reshape(input.shape)


native_channel_shuffle = channel_shuffle


def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """A sample of the Gumbel-softmax distribution; hard: one-hot, with the gradient of the soft sample."""
    noise = -(-gt.rand(logits.shape).clamp(min=1e-38).log()).log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    one = gt.zeros(logits.shape, dtype=logits.dtype).scatter(dim, soft.argmax(dim, keepdim=True), 1.0)
    return one - soft.detach() + soft


# ---- variants of pooling and interpolation --------------------------------------------------------------------


def _with_indices(function):
    """The variant of a pooling that returns the places of the maxima too."""
    accepted = inspect.signature(function)

    @functools.wraps(function)
    def both(*args, **kwargs):
        given = accepted.bind(*args, **kwargs)
        given.arguments['return_indices'] = True
        return function(*given.args, **given.kwargs)
    both.__name__ = both.__qualname__ = function.__name__ + '_with_indices'
    both.__doc__ = f'{function.__name__}, and the places of the maxima.'
    return both


max_pool1d_with_indices, max_pool2d_with_indices, max_pool3d_with_indices = map(
    _with_indices, (max_pool1d, max_pool2d, max_pool3d))
adaptive_max_pool1d_with_indices, adaptive_max_pool2d_with_indices, adaptive_max_pool3d_with_indices = map(
    _with_indices, (adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d))


def upsample_nearest(input, size=None, scale_factor=None):
    """interpolate with mode 'nearest', under its old name."""
    return interpolate(input, size, scale_factor, 'nearest')


def upsample_bilinear(input, size=None, scale_factor=None):
    """interpolate with mode 'bilinear' and aligned corners, under its old name."""
    return interpolate(input, size, scale_factor, 'bilinear', True)


def conv_tbc(input, weight, bias, pad=0):
    """conv1d of (time, batch, channels) with weight (kernel, channels, outputs)."""
    return conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, 1, pad).permute(2, 0, 1)


def pdist(input, p=2.0):
    """The p-norm distances of all pairs of rows: those above the diagonal of cdist, in a row."""
    if input.ndim != 2:
        raise RuntimeError(f'pdist only supports 2D tensors, got: {input.ndim}D')
    if p < 0:
        raise RuntimeError('pdist only supports non-negative p values')
    count = input.shape[0]
    first = gt.tensor([i for i in range(count) for _ in range(i + 1, count)], dtype=_gt.int64)
    second = gt.tensor([j for i in range(count) for j in range(i + 1, count)], dtype=_gt.int64)
    return (input._pick_rows(0, first) - input._pick_rows(0, second)).norm(p, 1)


# ---- attention -----------------------------------------------------------------------------------------------


def _masked(scores, mask):
    """Scores plus a mask; a bool mask excludes the scores where it is False."""
    if mask.dtype == _gt.bool:
        return scores.masked_fill(~mask, -math.inf)
    return scores + mask


def _query_groups(query, key, value):
    """The number of query heads per head of keys and values."""
    heads, shared = query.shape[-3], key.shape[-3]
    if shared != value.shape[-3] or heads % shared:
        raise RuntimeError(f'scaled_dot_product_attention: with enable_gqa the number of heads of key and value must be '
                           f'equal and divide that of query, but got {heads}, {shared} and {value.shape[-3]}')
    return heads // shared


def _grouped(x, groups):
    """(..., H, L, D) as (..., H / groups, groups * L, D): the heads of a group are neighbours, so this is a view."""
    if groups == 1:
        return x
    return x.reshape(*x.shape[:-3], x.shape[-3] // groups, groups * x.shape[-2], x.shape[-1])


def _fits_one_instruction(query, key, value):
    """Whether _gt._attention takes these: one floating dtype and the same axes before the last two."""
    dtype = query.dtype
    return (dtype is key.dtype is value.dtype and dtype.is_floating_point and query.ndim >= 2
            and query.shape[:-2] == key.shape[:-2] == value.shape[:-2])


def _saved_in_attention(query, key, value, dropout_p):
    """The operands as PyTorch's graph has them: themselves if it computes attention in one step, or else query and key
    times a scale, and value as a batch of matrices."""
    q, k, v = query.shape, key.shape, value.shape
    if (len(q) == len(k) == len(v) == 4 and not dropout_p and q[3] == k[3] == v[3] and q[0] == k[0] == v[0] and q[2] and k[2]
            and (q[3] == 1 or query.stride(3) == key.stride(3) == value.stride(3) == 1)):
        return query, key, value
    viewed = all(value.shape[d] == 1 or value.stride(d) == value.stride(d + 1) * value.shape[d + 1]
                 for d in range(value.ndim - 3))
    kept = viewed and (query.requires_grad or key.requires_grad)
    return _gt._copied(query), _gt._copied(key), value if kept else _gt._copied(value)


def _attention_by_scores(query, key, value, attn_mask, dropout_p, is_causal, scale, groups):
    """Attention with the matrix of all scores, for masks and dropout. Half precision is widened, and rounded once."""
    dtype, seeing = query.dtype, None
    if dtype.is_floating_point and dtype.itemsize < 4:
        query, key, value = query.float(), key.float(), value.float()
    scores = _grouped(query * scale, groups) @ key.transpose(-2, -1)
    if groups > 1:
        scores = scores.reshape(*query.shape[:-1], key.shape[-2])
    if is_causal:
        attn_mask = gt.ones(query.shape[-2], key.shape[-2], dtype=_gt.bool).tril()
    elif attn_mask is not None:  # a fully masked query gets zeros
        seeing = (attn_mask if attn_mask.dtype == _gt.bool else attn_mask > -math.inf).any(-1, True)
        attn_mask = where(seeing, attn_mask, attn_mask.dtype == _gt.bool)
    if attn_mask is not None:
        scores = _masked(scores, attn_mask)
    weights = scores.softmax(-1)
    output = _grouped(dropout(weights, dropout_p) if dropout_p else weights, groups) @ value
    output = output.reshape(*query.shape[:-1], value.shape[-1]) if groups > 1 else output
    return (output if seeing is None else where(seeing, output, 0.0)).to(dtype)


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
                                 enable_gqa=False):
    """softmax(query @ key.T * scale + mask) @ value over the last two dimensions.

    Without a mask (is_causal is none) and without dropout it is one instruction that never holds all scores.
    """
    if is_causal and attn_mask is not None:
        raise RuntimeError('Explicit attn_mask should not be set when is_causal=True')
    groups = _query_groups(query, key, value) if enable_gqa else 1
    if query.requires_grad or key.requires_grad or value.requires_grad:
        query, key, value = _saved_in_attention(query, key, value, dropout_p)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    if attn_mask is None and not dropout_p and math.isfinite(scale):
        rows = _grouped(query, groups)
        if _fits_one_instruction(rows, key, value):
            output = _gt._attention(rows, key, value, scale, query.shape[-2] if is_causal else 0)
            return output.reshape(*query.shape[:-1], value.shape[-1]) if groups > 1 else output
    return _attention_by_scores(query, key, value, attn_mask, dropout_p, is_causal, scale, groups)


# Functions that take out=, as in PyTorch.
globals().update(published_all({name: globals()[name] for name in (
    'avg_pool2d', 'avg_pool3d', 'gelu', 'hardshrink', 'linear', 'logsigmoid', 'normalize', 'softplus', 'softshrink')},
    'gt.nn.functional'))
_policies.install(globals())

__dir__ = _help.publish(__name__, 'cosine_similarity', 'pad', sources='gt.nn')
