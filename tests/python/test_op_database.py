"""PyTorch's op database is the judge: each of its entries is a test.

All samples run in float32, the first few in the other dtypes; `make test-long` runs all of them. Entries that are known to
fail are listed in opdb_known.txt: such an entry must fail, so that the list stays true. `make docs-operations` writes the
list and docs/operations.md.
"""

import fnmatch
import platform

import pytest
import torch

import opdb
from opdb_report import PAGE
from opdb_tables import NOT_FOR_US, known_failures
from support import LONG

FEW = {"float32": 50, "float64": 3, "int64": 4, "bool": 2, "bfloat16": 2, "complex64": 2}
ENTRIES = opdb.entries()
KNOWN = known_failures()


@pytest.mark.parametrize("name", [name for name in ENTRIES if name not in KNOWN])
def test_entry(name):
    if platform.machine() == "x86_64" and name in ("svd", "linalg.svd"):
        pytest.skip("with full matrices, vectors of the null space are any basis: LAPACK's on arm64 and MKL's on x86-64 differ")
    problems = opdb.problems_of(ENTRIES[name], None if LONG else FEW, variants=3 if LONG else 1)
    found = [problem for _, problem in zip(range(5), problems)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_known_failure(name):
    """An entry of opdb_known.txt. If this fails, the entry passes now: make docs-operations."""
    assert next(opdb.problems_of(ENTRIES[name], variants=3), None), f"{name} passes: remove it from opdb_known.txt"


def test_tables_name_entries():
    names = [op.full_name for op in opdb.op_db]
    assert [pattern for pattern in NOT_FOR_US if not any(fnmatch.fnmatchcase(n, pattern) for n in names)] == []
    assert sorted(set(KNOWN) - set(ENTRIES)) == []


def test_page_is_up_to_date():
    """docs/operations.md lists every entry of the database where it belongs."""
    text = PAGE.read_text()
    if f"PyTorch {torch.__version__.partition('+')[0]}:" not in text:
        pytest.skip("the page is of another version of PyTorch")
    there, _, rest = text.partition("## Not there")
    failing = rest.partition("## Not compared")[0]
    assert [name for name in ENTRIES if name not in KNOWN and f"`{name}`" not in there] == []
    assert [name for name in KNOWN if f"| `{name}` |" not in failing] == []
