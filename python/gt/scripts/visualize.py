"""python -m gt.scripts.visualize LOG --output FILE: the same as `gt visualize`."""

import sys

from gt import _tools

if __name__ == '__main__':
    sys.exit(_tools.main(['visualize', *sys.argv[1:]]))
