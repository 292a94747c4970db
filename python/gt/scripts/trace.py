"""python -m gt.scripts.trace -s SECONDS: the same as `gt trace`."""

import sys

from gt import _tools

if __name__ == '__main__':
    sys.exit(_tools.main(['trace', *sys.argv[1:]]))
