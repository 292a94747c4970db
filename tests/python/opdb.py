"""PyTorch's op database as a judge: runs an entry's sample inputs in torch and in GT and says where they differ.

`op_db` of torch.testing._internal has an entry (OpInfo) per function, with sample inputs for each dtype. A sample is
converted to GT, the same call is made on both sides, and results, gradients, in-place variants, methods, out= and
errors are compared. test_op_database.py makes a test of each entry; opdb_report.py prints a summary and writes
docs/operations.md; opdb_tables.py lists the entries that do not count, and those that are known to fail.
"""

import functools
import inspect
import operator
import types
import warnings
from contextlib import nullcontext

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import set_rng_seed
from torch.testing._internal.opinfo.core import gradcheck_wrapper_hermitian_input

import gt
from opdb_tables import ANY_VALUE, GAUGE, NO_COMPLEX, NO_DTYPE, NO_GRADIENT, NO_OUT, NO_SAMPLE_GRADIENT, NO_SUCH_ERROR, RANDOM, SAMPLE_REASONS, TOLERANCES, not_for_us

SEED = 1234  # that of PyTorch's own tests
DTYPES = ("float32", "float64", "int64", "bool", "bfloat16", "complex64")
COMPARED = {"float64": (1e-7, 1e-7), "float32": (1e-4, 1e-5), "bfloat16": (2e-2, 2e-2), "float16": (2e-3, 1e-3),
            "complex64": (1e-4, 1e-5), "complex128": (1e-7, 1e-7)}
TORCH_MODULES = ("", "nn.functional", "linalg", "special", "fft", "Tensor", "signal.windows", "masked", "sparse")

warnings.filterwarnings("ignore", module="torch")


class NotForUs(Exception):
    """A sample that uses a thing GT does not have (a sparse tensor, a dtype): it does not count."""


class Missing(Exception):
    """A function that GT does not have."""


# ---- entries ---------------------------------------------------------------------------------------------------


def entries():
    """The entries that count, by name; a name with variants has the variant after a dot."""
    return {op.full_name: op for op in op_db if not not_for_us(op.full_name)}


def dtypes_of(op):
    """The dtypes of DTYPES that the entry has; the first is the one that all samples run in."""
    supported = op.supported_dtypes("cpu")
    return [name for name in DTYPES if getattr(torch, name) in supported and (op.full_name, name) not in NO_DTYPE
            and not (name == "complex64" and op.full_name in NO_COMPLEX)]


# ---- from torch to GT --------------------------------------------------------------------------------------------


def gt_dtype(dtype):
    found = getattr(gt, str(dtype).rpartition(".")[2], None)
    if found is None:
        raise NotForUs(f"GT has no {dtype}")
    return found


def is_part(t):
    """Whether it is a contiguous part of a larger tensor, which as_strided() can reach."""
    return t.layout == torch.strided and t.is_contiguous() and t.numel() * t.element_size() < t.untyped_storage().nbytes()


def memory_of(t):
    """A copy of all of the memory that the elements are in."""
    return t.detach().as_strided((t.untyped_storage().nbytes() // t.element_size(),), (1,), 0).clone()


def copy_of(t):
    t = t.detach()
    return memory_of(t).as_strided(t.shape, t.stride(), t.storage_offset()) if is_part(t) else t.clone()


def to_gt(t):
    """A GT tensor with the elements, dtype and requires_grad of a torch tensor; of a contiguous part of a tensor, such a part."""
    dtype = gt_dtype(t.dtype)
    if t.layout != torch.strided or t.is_quantized or t.ndim > 64 or t.device.type != "cpu":
        raise NotForUs("a tensor that is not strided, not on the CPU, or of more dimensions than NumPy has")
    plain = t.detach().resolve_conj().resolve_neg()
    if is_part(plain):
        made = to_gt(memory_of(plain)).as_strided(tuple(plain.shape), plain.stride(), plain.storage_offset()).detach()
        return made.requires_grad_() if t.requires_grad else made
    if t.dtype == torch.bfloat16:
        made = gt.from_numpy(plain.float().numpy().copy()).to(gt.bfloat16)
    else:
        made = gt.from_numpy(np.array(plain.numpy(), order="C"))
    return made.requires_grad_() if t.requires_grad else made


def to_torch(t):
    if t.dtype == gt.bfloat16:
        return torch.from_numpy(np.array(t.detach().to(gt.float32).numpy())).to(torch.bfloat16)
    return torch.from_numpy(np.array(t.detach().numpy()))


def convert(x):
    """Anything that is in a sample, for GT."""
    if isinstance(x, torch.Tensor):
        return to_gt(x)
    if isinstance(x, torch.dtype):
        return gt_dtype(x)
    if isinstance(x, torch.device):
        return str(x)
    if isinstance(x, torch.layout):
        if x != torch.strided:
            raise NotForUs("a layout that is not strided")
        return getattr(gt, "strided", None)
    if isinstance(x, torch.memory_format):
        return getattr(gt, str(x).rpartition(".")[2], None)
    if isinstance(x, torch.Size):
        return tuple(x)
    if isinstance(x, slice):
        return slice(*map(convert, (x.start, x.stop, x.step)))
    if isinstance(x, (list, tuple)):
        return type(x)(map(convert, x))
    if isinstance(x, dict):
        return {key: convert(value) for key, value in x.items()}
    if isinstance(x, types.FunctionType) or callable(x) and getattr(x, "__module__", "").startswith("torch"):
        return translate(x)
    return x


@functools.lru_cache(None)
def torch_names():
    """The path of every function of torch: 'nn.functional.relu'."""
    names = {}
    for module in TORCH_MODULES:
        owner = functools.reduce(getattr, filter(None, module.split(".")), torch)
        for name in dir(owner):
            value = inspect.getattr_static(owner, name) if module == "Tensor" else getattr(owner, name, None)
            if callable(value):
                names.setdefault(id(value), f"{module}.{name}" if module else name)
    return names


def gt_name(path):
    try:
        return functools.reduce(getattr, path.split("."), gt)
    except AttributeError:
        raise Missing(path) from None


def translate(function, name=None):
    """The function of GT that a function of torch is: of the same name; one written in Python over torch runs over gt."""
    path = torch_names().get(id(function))
    if path:
        return gt_name(path)
    if isinstance(function, functools.partial):
        return functools.partial(translate(function.func), *function.args, **function.keywords)
    if isinstance(function, types.FunctionType) and function.__module__.startswith("torch.testing"):
        return over_gt(function)
    if isinstance(function, torch.nn.Module):
        return gt_name("nn." + type(function).__name__)()
    return gt_name(name or getattr(function, "__name__", str(function)))


class Globals(dict):
    """The globals of a function of torch's tests, in which torch is gt."""

    def __init__(self, original):
        super().__init__(torch=gt, F=gt.nn.functional, __builtins__=__builtins__, freeze_rng_state=nullcontext,
                         wrapper_set_seed=lambda function, *arguments, **options: function(*arguments, **options))
        self.original = original

    def __missing__(self, name):
        value = self.original[name]
        if isinstance(value, types.FunctionType) and value.__module__.startswith("torch.testing"):
            return over_gt(value)
        if callable(value) and id(value) in torch_names():
            return translate(value)
        return value


def over_gt(function):
    def cell(c):
        value = c.cell_contents
        return types.CellType(translate(value) if callable(value) else value)
    names = Globals(function.__globals__)
    scope = {"__builtins__": __builtins__, "torch": gt}
    for name in all_names(function.__code__):
        if name in names or name in function.__globals__:
            scope[name] = names[name]
    cells = tuple(map(cell, function.__closure__ or ()))
    made = types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__, cells)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def all_names(code):
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= all_names(constant)
    return found


def operator_of(name):
    """A reflected operator: __radd__ of the table is other + input. Numbers come first in its samples' calls."""
    plain = name if name == "__getitem__" else "__truediv__" if name == "__rdiv__" else name.replace("__r", "__", 1)
    act = getattr(operator, {"__and__": "and_", "__or__": "or_"}.get(plain, plain.strip("_")))
    return act if name == "__getitem__" else lambda a, b: act(b, a)


def gt_function(op):
    """The function of GT for an entry."""
    if op.name.startswith("__"):
        return operator_of(op.name)
    if isinstance(op.op, types.FunctionType) and op.op.__module__.startswith("torch.testing"):
        return over_gt(op.op)
    if isinstance(getattr(torch, op.name, None), torch.dtype):  # torch.cfloat is a dtype, the entry is the method
        return gt_name("Tensor." + op.name)
    if id(op.op) in torch_names() and torch_names()[id(op.op)].startswith("Tensor.") and hasattr(torch, op.name):
        return gt_name(op.name)
    try:
        return gt_name(op.name)
    except Missing:
        if op.name.startswith("__") or id(op.op) not in torch_names():
            raise
        return translate(op.op)


# ---- comparison --------------------------------------------------------------------------------------------------


def tolerance_of(name, dtype):
    return TOLERANCES.get((name, dtype)) or TOLERANCES.get(name) or COMPARED.get(dtype, (0, 0))


def difference(actual, expected, name, values=True):
    """How a result of GT differs from torch's; None if it does not. Groups start with a word: type, shape, dtype, value."""
    if isinstance(expected, torch.Tensor) and expected.layout == torch.sparse_coo and isinstance(actual, gt.sparse.SparseTensor):
        pairs = [("indices", actual.indices(), expected.indices()), ("values", actual.values(), expected.values()),
                 ("elements", actual.to_dense(), expected.to_dense())]
        return next((f"{part}: {problem}" for part, a, e in pairs if (problem := difference(a, e, name, values))), None)
    if isinstance(expected, torch.Tensor):
        if not isinstance(actual, gt.Tensor):
            return f"type: {type(actual).__name__}, expected a tensor"
        if expected.layout != torch.strided:
            raise NotForUs("a result that is not strided")
        dtype = gt_dtype(expected.dtype)
        if tuple(actual.shape) != tuple(expected.shape):
            return f"shape: {tuple(actual.shape)}, expected {tuple(expected.shape)}"
        if actual.dtype != dtype:
            return f"dtype: {actual.dtype}, expected {dtype}"
        return tensor_difference(actual, expected.detach(), name) if values else None
    if isinstance(expected, (list, tuple)) and not isinstance(expected, torch.Size):
        if not isinstance(actual, (list, tuple)) or len(actual) != len(expected):
            return f"type: {type(actual).__name__} of {len(actual) if hasattr(actual, '__len__') else '?'}, " \
                   f"expected {type(expected).__name__} of {len(expected)}"
        for a, e in zip(actual, expected):
            problem = difference(a, e, name, values)
            if problem:
                return problem
        return None
    if isinstance(expected, torch.dtype):
        return None if actual == gt_dtype(expected) else f"value: {actual}, expected {expected}"
    if isinstance(expected, torch.Size):
        return None if tuple(actual) == tuple(expected) else f"value: {actual}, expected {expected}"
    same = actual == expected or expected != expected and actual != actual
    if not same and isinstance(expected, float) and isinstance(actual, float):
        same = abs(actual - expected) <= 1e-5 * max(1, abs(expected))
    return None if same and type(actual) is type(expected) else f"value: {actual!r}, expected {expected!r}"


def tensor_difference(actual, expected, name):
    got = to_torch(actual)
    expected = expected.resolve_conj().resolve_neg()
    if not (expected.is_floating_point() or expected.is_complex()):
        wrong = got != expected
    else:
        rtol, atol = tolerance_of(name, str(expected.dtype).rpartition(".")[2])
        wide = torch.complex128 if expected.is_complex() else torch.float64
        g, e = got.to(wide), expected.to(wide)
        finite = e.isfinite()
        scale = max(1.0, e[finite].abs().max().item()) if finite.any() else 1.0
        close = (g == e) | (g.isnan() & e.isnan()) | (finite & ((g - e).abs() <= atol * scale + rtol * e.abs()))
        wrong = ~close
    if not wrong.any():
        return None
    place = tuple(wrong.nonzero()[0].tolist())
    return f"value: {int(wrong.sum())} of {wrong.numel()} elements, at {list(place)} {got[place].item()}, expected " \
           f"{expected[place].item()}"


def tensors_in(x):
    """The tensors in arguments or results, in order."""
    if isinstance(x, (torch.Tensor, gt.Tensor)):
        return [x]
    if isinstance(x, (list, tuple)):
        return [t for item in x for t in tensors_in(item)]
    if isinstance(x, dict):
        return [t for item in x.values() for t in tensors_in(item)]
    return []


# ---- one sample --------------------------------------------------------------------------------------------------


class Sample:
    """A sample input: its arguments for torch and for GT."""

    def __init__(self, sample):
        self.torch_arguments = (sample.input, *sample.args)
        self.torch_options = dict(sample.kwargs)
        self.name = sample.name
        self.broadcasts = sample.broadcasts_input
        self.arguments = tuple(map(convert, self.torch_arguments))
        self.options = convert(self.torch_options)

    def again(self):
        """Fresh GT arguments, for a call that changes them."""
        return tuple(map(convert, self.torch_arguments)), convert(self.torch_options)

    def text(self):
        def short(x):
            if isinstance(x, torch.Tensor):
                return f"{str(x.dtype)[6:]}{list(x.shape)}"
            return f"[{', '.join(map(short, x))}]" if isinstance(x, (list, tuple)) else repr(x)
        parts = [short(x) for x in self.torch_arguments] + [f"{k}={short(v)}" for k, v in self.torch_options.items()]
        return f"({', '.join(parts)})"


def reason(error):
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]


def caught(function, *arguments, **options):
    """(result, None) or (None, exception). Results are read, so that errors of the worker come here."""
    try:
        result = function(*arguments, **options)
        for t in tensors_in(result):
            if isinstance(t, gt.Tensor) and t.numel():
                t.detach().flatten()[:1].numpy()
        return result, None
    except Missing:
        raise
    except Exception as error:
        return None, error


def gauged(op, result, arguments):
    """A result that is defined up to a sign, a rotation or the order of equal elements, made unique."""
    return GAUGE[op.full_name](result, arguments) if op.full_name in GAUGE else result


def check_sample(op, function, sample, gradients):
    """What is wrong with one sample: yields 'group: text'."""
    name = op.full_name
    expected, refused = caught(op.op, *sample.torch_arguments, **sample.torch_options)
    actual, error = caught(function, *sample.arguments, **sample.options)
    if refused is not None:
        if error is None:
            yield f"error: none raised, expected {reason(refused)}"
        return
    if error is not None:
        yield f"refused: {reason(error)}"
        return
    actual, expected = gauged(op, actual, sample.arguments), gauged(op, expected, sample.torch_arguments)
    problem = difference(actual, expected, name, name not in RANDOM and name not in ANY_VALUE)
    if problem:
        yield problem
        return
    if gradients and name not in RANDOM:
        problem = check_gradients(name, sample, expected, actual)
        if problem:
            yield problem


def check_gradients(name, sample, expected, actual):
    inputs = [t for t in tensors_in([sample.torch_arguments, sample.torch_options])]
    mine = [t for t in tensors_in([sample.arguments, sample.options])]
    pairs = [(t, g) for t, g in zip(inputs, mine) if t.requires_grad]
    outputs = [(e, a) for e, a in zip(tensors_in([expected]), tensors_in([actual]))
               if e.requires_grad and (e.is_floating_point() or e.is_complex()) and e.numel()]
    if not pairs or not outputs:
        return None
    lost = [k for k, (e, a) in enumerate(outputs) if not a.requires_grad]
    if lost:
        return f"gradient: result {lost[0]} does not require one"
    generator = torch.Generator().manual_seed(7)
    seeds = [torch.randn(e.shape, generator=generator, dtype=torch.complex128 if e.is_complex() else torch.float64).to(e.dtype)
             for e, _ in outputs]
    try:
        wanted = torch.autograd.grad([e for e, _ in outputs], [t for t, _ in pairs], seeds, allow_unused=True)
    except RuntimeError:
        return None
    try:
        got = gt.autograd.grad([a for _, a in outputs], [g for _, g in pairs], [to_gt(s) for s in seeds],
                               allow_unused=True)
        for k, (w, g) in enumerate(zip(wanted, got)):
            if w is None or g is None:
                if (w is None) != (g is None) and not (w is None and not g.any()) and not (g is None and not w.any()):
                    return f"gradient: {k} is {'None' if g is None else 'there'}, expected " \
                           f"{'None' if w is None else 'one'}"
                continue
            problem = difference(g, w, name)
            if problem:
                return f"gradient: {k}: {problem}"
    except Exception as error:
        return f"gradient: {reason(error)}"
    return None


def check_variants(op, sample):
    """The method and the in-place method of an entry, if both sides have them."""
    for variant in (op.method_variant, op.inplace_variant):
        attribute = getattr(variant, "__name__", None)
        if attribute is None or op.full_name in RANDOM:
            continue
        plain = attribute != "<lambda>"
        in_place = variant is op.inplace_variant
        if in_place and sample.broadcasts or not isinstance(sample.torch_arguments[0], torch.Tensor):
            continue
        mine = getattr(gt.Tensor, attribute, None) if plain else over_gt(variant)
        if mine is None:
            yield f"missing: Tensor.{attribute}"
            continue
        arguments, options = sample.again()
        first = copy_of(sample.torch_arguments[0])
        with torch.no_grad(), gt.no_grad():
            wanted, refused = caught(variant, first, *sample.torch_arguments[1:], **sample.torch_options)
            actual, error = caught(mine, arguments[0].detach() if in_place else arguments[0], *arguments[1:], **options)
        if refused is not None:
            if error is None:
                yield f"error: Tensor.{attribute} raised none, expected {reason(refused)}"
        elif error is not None:
            yield f"refused: Tensor.{attribute}: {reason(error)}"
        else:
            actual, wanted = gauged(op, actual, sample.arguments), gauged(op, wanted, sample.torch_arguments)
            problem = difference(actual, wanted, op.full_name, op.full_name not in ANY_VALUE)
            if problem:
                yield f"{problem} (of Tensor.{attribute})"


def tensors_or_all(x):
    return list(x) if isinstance(x, (list, tuple)) else [x]


def check_out(op, function, sample):
    """out=: the result is written into the tensors given."""
    if not op.supports_out or op.full_name in RANDOM or op.full_name in NO_OUT:
        return
    with torch.no_grad():
        expected, refused = caught(op.op, *sample.torch_arguments, **sample.torch_options)
        if refused is not None or not all(isinstance(t, torch.Tensor) for t in tensors_or_all(expected)):
            return
        given = torch.empty_like(expected) if isinstance(expected, torch.Tensor) else \
            tuple(torch.empty_like(t) for t in expected)
        _, refused = caught(op.op, *sample.torch_arguments, **sample.torch_options, out=given)
    if refused is not None:
        return
    with gt.no_grad():
        mine = to_gt(given) if isinstance(given, torch.Tensor) else tuple(map(to_gt, given))
        actual, error = caught(function, *sample.arguments, **sample.options, out=mine)
    if error is not None:
        yield f"out: {reason(error)}"
        return
    for one, other in zip(tensors_in([actual]), tensors_in([mine])):
        if one is not other:
            yield "out: the result is not the tensor given"
            return
    mine, given = gauged(op, mine, sample.arguments), gauged(op, given, sample.torch_arguments)
    problem = difference(mine, given, op.full_name, op.full_name not in ANY_VALUE)
    if problem:
        yield f"out: {problem}"


# ---- one entry ---------------------------------------------------------------------------------------------------


def prepared(op, raw):
    """A sample whose matrix is symmetric, if the entry is only defined for these."""
    if op.gradcheck_wrapper is gradcheck_wrapper_hermitian_input:
        raw.input = (raw.input + raw.input.mH).detach().requires_grad_(raw.input.requires_grad)
    return raw


def samples_of(op, dtype, limit=None):
    """Samples of an entry: (Sample or None where it is not for us, why)."""
    kind = getattr(torch, dtype)
    gradients = op.supports_autograd and kind in op.supported_backward_dtypes("cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k, raw in enumerate(seeded(op.sample_inputs_func(op, "cpu", kind, gradients))):
            if limit is not None and k >= limit:
                return
            try:
                yield Sample(prepared(op, raw)), gradients
            except NotForUs:
                continue


def seeded(samples):
    """The samples as op.sample_inputs() makes them, each from the same seed; that walks the stack for each of them, which is slow
    in pytest."""
    samples = iter(samples)
    while True:
        set_rng_seed(SEED)
        try:
            yield next(samples)
        except StopIteration:
            return


def problems_of(op, limits=None, variants=1):
    """What is wrong with an entry, one by one: 'group: text [dtype(sample)]'. limits: the most samples of a dtype; variants:
    on how many samples of each dtype methods, in-place methods and out= run too."""
    try:
        function = gt_function(op)
    except Missing as missing:
        yield f"missing: {missing}"
        return
    yield from check_errors(op, function)
    for dtype in dtypes_of(op):
        for k, (sample, gradients) in enumerate(samples_of(op, dtype, (limits or {}).get(dtype))):
            if any(test(op, sample) for test in SAMPLE_REASONS.values()):
                continue
            gradients = gradients and (op.full_name, dtype) not in NO_GRADIENT and \
                not NO_SAMPLE_GRADIENT.get(op.full_name, lambda sample: False)(sample)
            for problem in problems_of_sample(op, function, sample, gradients, k < variants):
                yield f"{problem} [{dtype}{sample.text()}]"


def problems_of_sample(op, function, sample, gradients, variants):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = list(check_sample(op, function, sample, gradients))
            if not found and variants:
                found += check_variants(op, sample)
                found += check_out(op, function, sample)
            return found
    except NotForUs:
        return []
    except Missing as missing:
        return [f"missing: {missing}"]


def check_errors(op, function):
    """Inputs that must raise, with the type that torch raises."""
    if op.error_inputs_func is None:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for wrong in seeded(op.error_inputs_func(op, "cpu")):
            try:
                sample = Sample(wrong.sample_input)
            except NotForUs:
                continue
            _, refused = caught(op.op, *sample.torch_arguments, **sample.torch_options)
            if refused is None or any(text in str(refused) for text in NO_SUCH_ERROR):
                continue
            _, error = caught(function, *sample.arguments, **sample.options)
            if error is None:
                yield f"error: none raised, expected {reason(refused)} [{sample.text()}]"
            elif not isinstance(error, (wrong.error_type, IndexError if "out of bounds" in str(refused) else TypeError)):
                yield f"error: {reason(error)}, expected {reason(refused)} [{sample.text()}]"
