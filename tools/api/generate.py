"""Write the stubs and the docstrings of the package: python tools/api/generate.py PACKAGE OUTPUT

PACKAGE is the folder of the built package, OUTPUT a folder to install from. Meson calls this; the files also go into
PACKAGE, where Python and the type checkers find them.
"""

import pathlib
import shutil
import sys

package, output = (pathlib.Path(argument).absolute() for argument in sys.argv[1:])
sys.path.insert(0, str(package.parent))
sys.modules['gt._documents'] = None  # what an earlier run wrote must not be its own source

import documents  # noqa: E402
import stubs  # noqa: E402


def main():
    """Write everything below OUTPUT, then copy it to PACKAGE."""
    shutil.rmtree(output, ignore_errors=True)
    stubs.write(output.parent)
    documents.write(output.parent)
    for problem in sorted(set(stubs.PROBLEMS)):
        print(f'documentation: {problem}', file=sys.stderr)
    for stub in package.rglob('*.pyi'):
        stub.unlink()
    shutil.copytree(output, package, dirs_exist_ok=True)


main()
