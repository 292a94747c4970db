"""Shared memory that large arrays went through is kept for the next ones, but not all of it for ever."""

import re

PROGRAM = """
import re, numpy, gt

def shared_bytes():
    \"\"\"Of the segments of this process, which the embedded worker maps, too.\"\"\"
    sizes = {}
    for line in open('/proc/self/maps'):
        if 'memfd:gt-segment' in line:
            start, end, inode = re.match(r'(\\w+)-(\\w+) (?:\\S+ ){3}(\\d+)', line).groups()
            sizes[inode] = int(end, 16) - int(start, 16)
    return sum(sizes.values()) >> 20

arrays = [gt.from_numpy(numpy.full((144 + 16 * k) << 18, k, dtype='f')) for k in range(8)]     # 1600 MiB, each longer than before
print(shared_bytes())
assert [int(a[-1].item()) for a in arrays] == list(range(8))
del arrays
again = gt.from_numpy(numpy.full(160 << 18, 3, dtype='f'))      # one that is kept is used
assert again[5].item() == 3
print(shared_bytes())
small = gt.from_numpy(numpy.full(2 << 18, 4, dtype='f'))
assert small[-1].item() == 4 and again[-1].item() == 3
print(shared_bytes())
"""


def test_idle_segments_do_not_pile_up(programs):
    at_first, reused, later = map(int, re.findall(r"\d+", programs.run(PROGRAM)))
    assert at_first >= 1600  # else there is nothing to show
    assert reused >= at_first - 16
    assert later <= 1024 + 160 + 16
