"""python -m gt.worker --host H -p P: the same as `gt worker`."""

import sys

from gt import _gt

sys.exit(_gt.main(['worker', *sys.argv[1:]]))
