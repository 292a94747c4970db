"""Autocast of composed functions: PyTorch has them as single operations, and its lists name them.

A function of these lists is wrapped when its module is loaded. Outside autocast the wrapper costs one test.
Single operations are in src/client/intercept.c.
"""

import functools

from gt import _gt

active = []  # one entry for each autocast that is on, in any thread

_FP32_LOSSES = (
    'binary_cross_entropy', 'cosine_embedding_loss', 'ctc_loss', 'hinge_embedding_loss', 'huber_loss', 'kl_div', 'l1_loss',
    'margin_ranking_loss', 'mse_loss', 'multi_margin_loss', 'multilabel_margin_loss', 'nll_loss', 'poisson_nll_loss',
    'smooth_l1_loss', 'soft_margin_loss', 'triplet_margin_loss', 'binary_cross_entropy_with_logits', 'gaussian_nll_loss',
    'multilabel_soft_margin_loss', 'cross_entropy')

# What the floats of a function become: 'lower', 'fp32' or 'widest'; 'keep': its own operations are not cast.
CPU = {
    **dict.fromkeys(_FP32_LOSSES, 'fp32'),
    **dict.fromkeys(('addmm', 'addbmm', 'baddbmm', 'prelu', 'scaled_dot_product_attention', 'vecdot', '_layer'), 'lower'),
    **dict.fromkeys(('avg_pool3d', 'cdist', 'grid_sample', 'nanquantile', 'quantile', 'trace', 'matrix_rank', 'cond',
                     'pinverse', 'lstsq', 'cholesky_inverse', 'cholesky_solve', 'ormqr', 'geqrf', 'orgqr', 'matrix_exp',
                     'tensorinv', 'tensorsolve', 'stft', 'fft', 'ifft', 'fft2', 'ifft2', 'fftn', 'ifftn', 'rfft', 'irfft',
                     'rfft2', 'irfft2', 'rfftn', 'irfftn', 'hfft', 'ihfft'), 'fp32'),
    **dict.fromkeys(('index_copy',), 'widest'),
    **dict.fromkeys(('batch_norm', 'instance_norm', 'group_norm', 'layer_norm', 'rms_norm', 'dot', 'vdot', 'inner', 'mv', 'addmv',
                     'addr', 'bilinear', 'lstm_cell', 'gru_cell'), 'keep'),
}
CUDA = {
    **dict.fromkeys(_FP32_LOSSES, 'fp32'),
    **dict.fromkeys(('addmm', 'addbmm', 'addmv', 'addr', 'baddbmm', 'prelu', 'scaled_dot_product_attention', 'vecdot',
                     'chain_matmul', 'multi_dot', 'lstm_cell', 'gru_cell', 'rnn_tanh_cell', 'rnn_relu_cell', '_layer'), 'lower'),
    **dict.fromkeys(('cdist', 'cosine_similarity', 'dist', 'erfinv', 'pdist', 'renorm', 'group_norm', 'layer_norm',
                     'interpolate', 'upsample', 'vector_norm', 'matrix_norm', 'pairwise_distance'), 'fp32'),
    **dict.fromkeys(('addcdiv', 'addcmul', 'bilinear', 'cross', 'dot', 'vdot', 'grid_sample', 'index_put', 'tensordot'), 'widest'),
    **dict.fromkeys(('batch_norm', 'instance_norm', 'rms_norm'), 'keep'),
}


def _eligible(value):
    return isinstance(value, _gt.Tensor) and value.is_floating_point() and value.dtype != _gt.float64


def _map(value, convert):
    if isinstance(value, (list, tuple)) and not hasattr(value, '_fields'):
        return type(value)(_map(item, convert) for item in value)
    return convert(value) if _eligible(value) else value


def _found(value, dtypes):
    _map(value, lambda tensor: dtypes.append(tensor.dtype))


def _run(function, name, arguments, options):
    """Call with the arguments cast as the lists say, and autocast off inside."""
    states = _gt._autocast()
    for device, lists in enumerate((CPU, CUDA)):
        on, dtype = states[device]
        rule = lists.get(name) if on else None
        if rule is None:
            continue
        if rule != 'keep':
            if rule == 'fp32':
                dtype = _gt.float32
            elif rule == 'widest':
                dtypes = []
                _found([arguments, list(options.values())], dtypes)
                dtype = dtypes[0] if len(set(dtypes)) == 1 else _gt.float32
            arguments = _map(tuple(arguments), lambda tensor: tensor.to(dtype))
            options = {key: _map(value, lambda tensor: tensor.to(dtype)) for key, value in options.items()}
        _gt._set_autocast(device, False, states[device][1])
    try:
        return function(*arguments, **options)
    finally:
        for device, (on, dtype) in enumerate(states):
            _gt._set_autocast(device, on, dtype)


# These normalisations compute half precision in float32; the result has the dtype of the input, whatever weight and bias have.
_NORMS = 'group_norm', 'layer_norm'


def _in_float32(function):
    """The function on halves made float32, and the result made half again."""
    @functools.wraps(function)
    def precise(input, *arguments, **options):
        if not isinstance(input, _gt.Tensor):
            raise TypeError(f"{function.__name__}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
        if input.dtype not in (_gt.float16, _gt.bfloat16):
            return function(input, *arguments, **options)
        arguments = _map(arguments, _gt.Tensor.float)
        options = {key: _map(value, _gt.Tensor.float) for key, value in options.items()}
        return function(input.float(), *arguments, **options).to(input.dtype)
    return precise


def _wrap_norm(function, name):
    """wrap() of a normalisation."""
    precise = _in_float32(function)

    @functools.wraps(function)
    def casting(*arguments, **options):
        if active:
            return _run(precise, name, arguments, options)
        if arguments and isinstance(arguments[0], _gt.Tensor) and arguments[0].itemsize != 2:  # no half: one call less
            return function(*arguments, **options)
        return precise(*arguments, **options)
    return casting


def _wrap_plain(function, name):
    """wrap() of any other function."""
    @functools.wraps(function)
    def casting(*arguments, **options):
        if active:
            return _run(function, name, arguments, options)
        return function(*arguments, **options)
    return casting


def wrap(function, name=None):
    """The function, cast under autocast as the lists say for this name."""
    name = name or function.__name__
    casting = (_wrap_norm if name in _NORMS else _wrap_plain)(function, name)
    casting._casts = True
    return casting


def install(namespace):
    """Wrap the functions of a module's globals (a dict) that the lists name."""
    for name in {*CPU, *CUDA} & namespace.keys():
        if callable(namespace[name]) and not hasattr(namespace[name], '_casts'):
            namespace[name] = wrap(namespace[name], name)


def install_methods(functions):
    """Wrap the methods of Tensor and the package's functions (a dict) that the lists name."""
    install(functions)
    for name in {*CPU, *CUDA}:
        method = _gt.Tensor.__dict__.get(name)
        if method is not None and not hasattr(method, '_casts') and name not in _IN_C:
            setattr(_gt.Tensor, name, wrap(method, name))


_IN_C = ('dot', 'mv')  # fast methods: they are wrapped when autocast is first used, so that others do not pay for it


def install_late():
    """Wrap the methods that install_methods left out."""
    import gt
    from gt.client.outputs import published
    for name in _IN_C:
        if not hasattr(_gt.Tensor.__dict__[name], '_casts'):
            setattr(_gt.Tensor, name, wrap(_gt.Tensor.__dict__[name], name))
            setattr(gt, name, published(name, getattr(_gt.Tensor, name)))
