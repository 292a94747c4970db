"""Tables of the op database test: entries that are not for GT, entries that are random, tolerances."""

import fnmatch
import pathlib

KNOWN_FILE = pathlib.Path(__file__).with_name("opdb_known.txt")

# Entries that do not count, with the reason.
NOT_FOR_US = {
    "jiterator_*": "CUDA source compiled at run time",
    "_*": "private functions of PyTorch",
    "hash_tensor": "its result is uint64",
    "chalf": "GT has no complex32",
    "slice": "only in torch.ops.aten",
    "native_dropout_backward": "only in torch.ops.aten",
    "max_pool2d_with_indices_backward": "only in torch.ops.aten",
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
SAMPLE_REASONS = {
    "dropout is random": dropout_in,
    "the rest of a matrix of full rank is random":
        lambda op, sample: op.full_name == "svd_lowrank" and sample.torch_options.get("M") is not None,
}

# Errors that GT does not raise: of tensors that share memory; of numbers in the place of tensors, of one tensor in the place of
# a list, of means of integers, which GT takes; and errors about PyTorch's own code.
NO_SUCH_ERROR = ("unsupported operation: more than one element of the written-to tensor",
                 "unsupported operation: some elements of the input tensor",
                 "Trying to resize storage that is not resizable",
                 "start must be an 0-dim integral Tensor", "Could this error message be improved",
                 "cat() received an invalid combination", "mean(): could not infer output dtype",
                 "must be Tensor, not int", "must be Tensor, not float", "doesn't apply to a 'int' object", "'int' object has no attribute")

# Dtypes in which torch is not the judge, with the reason.
NO_DTYPE = {
    ("remainder", "bfloat16"): "torch's vector loop gives NaN for a tiny divisor, its scalar loop does not",
    ("div.trunc_rounding", "bfloat16"): "torch rounds the quotient before it cuts it",
    ("histc", "bfloat16"): "torch rounds the places of elements to bfloat16",
    ("matrix_exp", "bfloat16"): "torch gives NaN",
    ("linalg.matrix_exp", "bfloat16"): "torch gives NaN",
}

# Entries that refuse complex numbers, and say so; docs/pytorch.md lists them.
NO_COMPLEX = {
    "logaddexp", "logcumsumexp", "logsumexp", "masked.logsumexp", "nn.functional.conv1d", "nn.functional.conv2d",
    "nn.functional.conv3d", "nn.functional.conv_transpose1d", "nn.functional.conv_transpose2d", "nn.functional.conv_transpose3d",
    "nn.functional.unfold"}

# Entries whose out= is wrong in torch: elements of the tensor given stay as they were.
NO_OUT = {"fft.ihfftn"}

# Gradients in which torch is not the judge: of equal elements it picks another one, it drops that of equal bounds, rounds
# sums to bfloat16, or fails its own gradcheck (as_strided_scatter).
NO_GRADIENT = {(name, "bfloat16") for name in (
    "__rdiv__", "argsort", "clamp", "fmod", "index_reduce.amax", "index_reduce.amin", "kthvalue", "masked.logsumexp", "grid_sampler_2d",
    "median", "mode", "msort", "scatter_reduce.amax", "scatter_reduce.amin",
    "grid_sampler_3d", "nn.functional.grid_sample", "nn.functional.normalize", "sort", "topk")} | {("as_strided_scatter", dtype) for dtype in ("float32", "float64", "bfloat16", "complex64")}
# The same for some samples of an entry: in complex64, torch loses the gradient of a window, and divides by 0.
NO_SAMPLE_GRADIENT = {
    "istft": lambda sample: sample.torch_arguments[0].is_complex() and sample.torch_options.get("window") is not None,
    "renorm": lambda sample: sample.torch_arguments[0].is_complex() and float("inf") in sample.torch_arguments[1:2],
}


# ---- results that are not unique: what is compared instead -----------------------------------------------------


def _by_absolute(result, arguments):
    """Vectors up to their sign."""
    return [t.abs() for t in result]


def _elements_at(result, arguments):
    """Equal elements may come in any order: the elements at the indices."""
    values, indices = result
    return values, tuple(indices.shape)


def _order(result, arguments):
    return result.sort(-1)[0] if arguments[0].ndim == 1 else tuple(result.shape)


GAUGE = {
    "svd_lowrank": _by_absolute, "pca_lowrank": _by_absolute, "svd": _by_absolute, "linalg.svd": _by_absolute, "linalg.eig": _by_absolute,
    "linalg.eigh": _by_absolute,
    "topk": _elements_at, "kthvalue": _elements_at, "sort": _elements_at, "mode": _elements_at, "argsort": _order,
}

# (relative, absolute), where the algorithms differ.
TOLERANCES = {
    ("svd_lowrank", "complex64"): (2e-3, 1e-3), ("pca_lowrank", "complex64"): (2e-3, 1e-3),
    ("cov", "float32"): (1e-4, 1e-4), ("native_layer_norm", "float32"): (1e-4, 1e-4),
    ("nn.functional.layer_norm", "float32"): (1e-4, 1e-4), ("nn.functional.ctc_loss", "float32"): (1e-4, 1e-4),
    **{(f"special.bessel_{kind}", "float64"): (1e-5, 1e-5) for kind in ("j0", "j1", "y0", "y1")}}  # torch's are less exact


def known_failures():
    """{entry: the first difference} of opdb_known.txt."""
    lines = KNOWN_FILE.read_text().splitlines() if KNOWN_FILE.exists() else []
    return dict(line.split(": ", 1) for line in lines)
