"""python -m gt.scripts.top: the same as `gt top`."""

import sys

from gt import _tools

if __name__ == '__main__':
    sys.exit(_tools.main(['top', *sys.argv[1:]]))
