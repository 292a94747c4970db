"""python -m gt.scripts.replay: the same as `gt replay`."""

import sys

from gt import _tools

if __name__ == '__main__':
    sys.exit(_tools.main(['replay', *sys.argv[1:]]))
