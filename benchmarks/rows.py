"""Every elementwise row of the op table against PyTorch: GT's time over torch's, by dtype, at a million elements.

    python benchmarks/rows.py [dtype ...] [--rows name,name] [--size n] [--cpu]

--cpu measures processor time on one thread each, for a busy machine (GT_NUM_THREADS=1).

Both sides are measured in turn; the best of several rounds counts. A dash: torch does not support that dtype. Rows
above the bound (1.0 in float32, 1.5 elsewhere) are listed.
"""

import argparse
import os
import time

import torch
import torch.nn.functional as F

os.environ["GT_AUTO_COMPILE"] = "0"  # in a path of equal kernels most results die, and are not stored
import gt  # noqa: E402
from gt._gt import op_table

ROUNDS, CALLS = 7, 8
DTYPES = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "int16", "int8", "uint8", "bool")
aten = torch.ops.aten

# Rows that are not torch.<name>, torch.nn.functional.<name> or torch.ops.aten.<name>.
TORCH = {
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "trunc_divide": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "where": lambda c, x, y: torch.where(c, x, y),
    "relu_backward": lambda g, y: aten.threshold_backward(g, y, 0),
    "clamp": lambda x: torch.clamp(x, 0, 1),
    "clamp_backward": lambda g, x: torch.where((x >= 0) & (x <= 1), g, 0),
    "softplus_backward": lambda g, x: aten.softplus_backward(g, x, 1, 20),
    "logsigmoid_backward": lambda g, x: aten.log_sigmoid_backward(g, x, torch.empty(0)),
    "elu_backward": lambda g, x: aten.elu_backward(g, 1, 1, 1, False, x),
    "leaky_relu_backward": lambda g, x: aten.leaky_relu_backward(g, x, 0.01, False),
    "hardtanh_backward": lambda g, x: aten.hardtanh_backward(g, x, -1, 1),
    "gelu_backward": lambda g, x: aten.gelu_backward(g, x),
    "gelu_tanh_backward": lambda g, x: aten.gelu_backward(g, x, approximate="tanh"),
}
POSITIVE = ("sqrt", "rsqrt", "log", "log2", "log10", "pow", "acosh")
NUMBERS = {"clamp": (0, 1), "clamp_backward": (0, 1)}


def torch_function(name):
    if name in TORCH:
        return TORCH[name]
    return getattr(torch, name, None) or getattr(F, name, None) or getattr(aten, name)


def operand(dtype, size, seed):
    """Numbers in (-1, 1), small positive integers."""
    generator = torch.Generator().manual_seed(seed)
    kind = getattr(torch, dtype)
    if kind.is_floating_point:
        return (torch.rand(size, generator=generator) * 1.98 - 0.99).to(kind)
    return torch.randint(0 if dtype == "bool" else 1, 2 if dtype == "bool" else 6, (size,), generator=generator).to(kind)


def to_gt(x):
    return gt.from_numpy(x.float().numpy()).to(gt.bfloat16) if x.dtype == torch.bfloat16 else gt.from_numpy(x.numpy())


def timed(clock, run, finish):
    run()
    finish()
    start = clock()
    for _ in range(CALLS):
        run()
    finish()
    return (clock() - start) / CALLS


def measure(name, form, dtype, size, clock):
    """(GT's seconds, torch's seconds), or None if torch or GT does not support the dtype."""
    count = {"UNARY": 1, "BINARY": 2, "TERNARY": 3}[form]
    inputs = [operand(dtype, size, k) for k in range(count)]
    if name == "where":
        inputs[0] = inputs[0] > inputs[0].float().mean()
    if name in POSITIVE and dtype != "bool":
        inputs = [x.abs() + (name == "acosh") for x in inputs]
    theirs, reference = [to_gt(x) for x in inputs], torch_function(name)
    function, numbers = getattr(gt, name), NUMBERS.get(name, ())
    try:
        with torch.no_grad():
            reference(*inputs)
        function(*theirs, *numbers)
    except (RuntimeError, TypeError):
        return None
    best = [float("inf")] * 2
    for _ in range(ROUNDS):
        with torch.no_grad():
            best[1] = min(best[1], timed(clock, lambda: reference(*inputs), lambda: None))
        best[0] = min(best[0], timed(clock, lambda: function(*theirs, *numbers), gt.synchronize))
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dtypes", nargs="*", default=DTYPES)
    parser.add_argument("--rows", default="")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--size", type=int, default=1 << 20)
    options = parser.parse_args()
    torch.set_num_threads(1 if options.cpu else len(os.sched_getaffinity(0)))
    clock = time.process_time if options.cpu else time.perf_counter
    wanted = set(filter(None, options.rows.split(",")))
    missed = []
    print(f"{'GT / torch':22}" + "".join(f"{dtype:>10}" for dtype in options.dtypes))
    for name, form, *_ in op_table():
        if form not in ("UNARY", "BINARY", "TERNARY") or (wanted and name not in wanted):
            continue
        line = f"{name:22}"
        for dtype in options.dtypes:
            result = measure(name, form, dtype, options.size, clock)
            ratio = result and result[0] / result[1]
            line += f"{ratio:10.2f}" if result else f"{'-':>10}"
            if ratio and ratio > (1.0 if dtype == "float32" else 1.5):
                missed.append(f"{name} in {dtype}: {ratio:.2f} ({result[0] * 1e6:.0f} us)")
        print(line, flush=True)
    print(f"{len(missed)} above their bound" + "".join(f"\n  {what}" for what in missed))


if __name__ == "__main__":
    main()
