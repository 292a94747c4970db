"""Tables of the op database test: entries that are not for GT, entries that are random, tolerances."""

import fnmatch

# Entries that do not count, with the reason.
NOT_FOR_US = {
    "jiterator_*": "CUDA source compiled at run time",
    "_*": "private functions of PyTorch",
    "torch._*": "private functions of PyTorch",
    "torch.ops.aten._*": "private functions of PyTorch",
}


def not_for_us(name):
    """Why an entry does not count; None if it does. Names of operators (__radd__) do count."""
    if name.startswith("__"):
        return None
    return next((why for pattern, why in NOT_FOR_US.items() if fnmatch.fnmatchcase(name, pattern)), None)


# Entries whose elements are random: shape, dtype and range are compared.
RANDOM = {
    "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal", "normal.in_place",
    "normal.number_mean", "rand_like", "randint", "randint_like", "randn", "randn_like", "uniform",
    "nn.functional.alpha_dropout", "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d",
    "nn.functional.feature_alpha_dropout.with_train", "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d", "nn.functional.rrelu"}

# Entries whose elements are not defined.
ANY_VALUE = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_", "resize_as_"}


def dropout_in(op, sample):
    """Attention with dropout is random."""
    return sample.torch_options.get("dropout_p", 0) > 0 or op.full_name == "nn.functional.multi_head_attention_forward" \
        and any(isinstance(x, float) and x > 0 for x in sample.torch_arguments)


# Samples that do not count, with the reason.
SAMPLE_REASONS = {"dropout is random": dropout_in}

# Errors of torch's tensors that share memory: GT's results never share memory with operands.
NO_SUCH_ERROR = ("unsupported operation: more than one element of the written-to tensor",
                 "unsupported operation: some elements of the input tensor")


# ---- results that are not unique: what is compared instead -----------------------------------------------------


def _by_absolute(result, arguments):
    """Vectors up to their sign."""
    return [t.abs() for t in result]


def _elements_at(result, arguments):
    """Equal elements may come in any order: the elements at the indices."""
    values, indices = result
    self = arguments[0]
    dim = next((x for x in arguments[1:] if isinstance(x, int) and not isinstance(x, bool)), -1)
    return values, values.shape == indices.shape, self.ndim


def _order(result, arguments):
    return result.sort(-1)[0] if arguments[0].ndim == 1 else result.shape


GAUGE = {
    "svd": _by_absolute, "linalg.svd": _by_absolute, "linalg.eigh": _by_absolute,
    "topk": _elements_at, "kthvalue": _elements_at, "sort": _elements_at, "mode": _elements_at, "argsort": _order,
}

# (relative, absolute), where the algorithms differ.
TOLERANCES = {}
