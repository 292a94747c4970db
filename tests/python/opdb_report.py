"""python tests/python/opdb_report.py [--write] [entry ...]: run PyTorch's op database, print how many entries pass on every
sample, and the others by what is wrong. --write updates tests/python/opdb_known.txt and docs/operations.md."""

import collections
import re
import sys
import time

import torch

import gt
import opdb
from opdb_tables import KNOWN_FILE, NOT_FOR_US, known_failures, not_for_us
from support import REPOSITORY

PAGE = REPOSITORY / "docs" / "operations.md"
GROUPS = {
    "missing": "A function or method is missing", "refused": "An argument or a kind of input is refused",
    "value": "Another value", "dtype": "Another dtype", "shape": "Another shape", "type": "Another type of result",
    "gradient": "Another gradient", "out": "out=", "error": "Another error"}

# Names of torch that are not operations on tensors, or belong to features that GT does not have.
NO_OPERATIONS = re.compile(
    r"^(_|sym_|cudnn_|miopen_|mkldnn_|fbgemm_|quantize|quantized_|q_|fake_quantize|fused_|sparse_|to_sparse|to_mkldnn|"
    r"autocast|get_autocast|set_autocast|is_autocast|batch_norm_(?!$)|.*_indices_copy$|crow_|ccol_|col_|row_|.*vital|"
    r"import_ir|parse_|merge_type|unify_type|is_vulkan|is_(ipu|maia|mtia|mps|xla|xpu|mkldnn|meta|vulkan|nested|quantized)$|"
    r"(ipu|xpu|mtia|qscheme|int_repr|dequantize|read_vitals|classproperty|wait|fork)$)")


def missing_names(theirs, ours):
    """Public functions of a namespace of torch that a namespace of GT does not have."""
    return sorted(name for name in dir(theirs) if name[0].islower() and not NO_OPERATIONS.match(name)
                  and (theirs is torch.Tensor or callable(getattr(theirs, name, None)))
                  and not isinstance(getattr(theirs, name, None), type) and not hasattr(ours, name))


def first_problem(op):
    return next(opdb.problems_of(op, variants=3), None)


def run(names):
    """(entries that pass, {entry: its problems})"""
    passed, failed, seconds = [], {}, []
    for name, op in opdb.entries().items():
        if names and not any(name == n or n.endswith("*") and name.startswith(n[:-1]) for n in names):
            continue
        start = time.monotonic()
        problems = list(opdb.problems_of(op, variants=3))
        seconds.append((time.monotonic() - start, name))
        if problems:
            failed[name] = problems
        else:
            passed.append(name)
    seconds.sort(reverse=True)
    print("slowest:", ", ".join(f"{name} {s:.1f} s" for s, name in seconds[:8]), file=sys.stderr)
    return passed, failed


def group_of(problem):
    return problem.partition(":")[0]


def print_summary(passed, failed, every):
    print(f"{len(passed)} of {len(passed) + len(failed)} entries pass on every sample")
    groups = collections.defaultdict(list)
    for name, problems in failed.items():
        groups[group_of(problems[0])].append(name)
    for group, names in sorted(groups.items()):
        print(f"\n{GROUPS.get(group, group)} ({len(names)}):")
        for name in names:
            print(f"  {name} ({len(failed[name])}): {failed[name][0][:200]}")
            for problem in failed[name][1:20] if every else ():
                print(f"      {problem[:300]}")


def reason(problem):
    """A problem without its sample, which may change from run to run."""
    text = re.sub(r" \[.*", "", problem)
    if text.startswith(("value", "gradient", "shape")) and "None" not in text:
        return text.partition(":")[0] + ": differs from torch's"
    return re.sub(r", issued at .*", "", text)[:160]


def page(known):
    """The text of docs/operations.md."""
    entries = sorted(opdb.entries())
    there = [name for name in entries if name not in known]
    skipped = collections.defaultdict(list)
    for op in opdb.op_db:
        why = not_for_us(op.full_name)
        if why:
            skipped[why].append(op.full_name)
    lines = [
        "# Operations", "",
        "PyTorch has a database of its operations with sample inputs, for its own tests. `make docs-operations` runs every "
        "entry in PyTorch and in GT and compares values, dtypes, shapes, gradients, in-place variants, `out=` and errors, in "
        "float32, float64, int64, bool, bfloat16 and complex64; it writes this page and the table "
        "`tests/python/opdb_known.txt`.", "",
        f"PyTorch {torch.__version__.partition('+')[0]}: **{len(there)} of {len(entries)} entries pass on every sample.**", "",
        "## There", "", wrapped(there), "", "## Not there, or not yet the same", ""]
    lines += ["| entry | the first difference |", "|---|---|"] if known else ["None."]
    lines += [f"| `{name}` | {escaped(known[name])} |" for name in entries if name in known]
    lines += ["", "## Not compared", "", "| entries | why |", "|---|---|"]
    lines += [f"| {', '.join(f'`{n}`' for n in sorted(names))} | {why} |" for why, names in sorted(skipped.items())]
    lines += ["", "## Names", "", "Functions of PyTorch that GT does not have, besides those for sparse and quantised tensors, "
              "other devices and compilers:", ""]
    for title, theirs, ours in (("torch", torch, gt), ("torch.Tensor", torch.Tensor, gt.Tensor),
                                ("torch.linalg", torch.linalg, gt.linalg),
                                ("torch.nn.functional", torch.nn.functional, gt.nn.functional)):
        names = missing_names(theirs, ours)
        lines += [f"### {title}", "", wrapped(names) if names else "None.", ""]
    return "\n".join(lines).rstrip() + "\n"


def escaped(text):
    return text.replace("|", "\\|").replace("<", "&lt;")


def wrapped(names):
    lines, line = [], ""
    for name in names:
        word = f"`{name}`"
        if len(line) + len(word) + 1 > 118:
            lines.append(line)
            line = ""
        line = f"{line} {word}" if line else word
    return "\n".join([*lines, line])


def main(arguments):
    write, names = "--write" in arguments, [a for a in arguments if not a.startswith("--")]
    passed, failed = run(names)
    print_summary(passed, failed, bool(names))
    if not write:
        return
    known = {} if not names else {name: why for name, why in known_failures().items() if name not in passed}
    known.update({name: reason(problems[0]) for name, problems in failed.items()})
    KNOWN_FILE.write_text("".join(f"{name}: {known[name]}\n" for name in sorted(known)))
    PAGE.write_text(page(known))


if __name__ == "__main__":
    main(sys.argv[1:])
