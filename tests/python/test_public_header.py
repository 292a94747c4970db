"""include/gt.h: what it declares is exported, and what takes a pointer is called with NULL by tests/c/test_null.c."""

import re
import subprocess

from support import REPOSITORY

HEADER = (REPOSITORY / "include" / "gt.h").read_text()
# Declared one by one; rows of the op table are declared, and called, by macros.
DECLARED = {name: arguments for name, arguments in re.findall(r"GT_API [^;#]*?\b(gt_\w+)\(([^;]*?)\);", HEADER)
            if "##" not in name}


def test_the_header_is_read():
    assert {"gt_error_text", "gt_client_connect", "gt_matmul", "gt_svd", "gt_grad", "gt_signal_tensor"} <= set(DECLARED)


def test_null_is_tested_everywhere():
    test = (REPOSITORY / "tests" / "c" / "test_null.c").read_text()
    called = {f"gt_{name}" for name in re.findall(r"\bF\((\w+),", test)}
    called |= set(re.findall(r"\b(gt_\w+)\((?:NULL|&none)", test))
    assert sorted(name for name, arguments in DECLARED.items() if "*" in arguments and name not in called) == []


def test_exported_is_declared():
    library = REPOSITORY / "build" / "libgt.so"
    listing = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    exported = {line.split()[-1] for line in listing.splitlines() if re.search(r" T gt_[a-z]", line)}
    rows = {f"gt_{name}{suffix}" for name in re.findall(r"^(?:UNARY|BINARY|TERNARY|REDUCE)(?:_PQ)?\((\w+)",
            (REPOSITORY / "src" / "core" / "ops.def").read_text(), re.M) for suffix in ("", "_scalar")}
    assert set(DECLARED) <= exported
    assert sorted(exported - set(DECLARED) - rows) == []
