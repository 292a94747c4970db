"""python -m gt.server -p P: the same as `gt server`."""

import sys

from gt import _gt

sys.exit(_gt.main(['server', *sys.argv[1:]]))
