"""Memory that is counted and given back, limits of clients and users, and clients that do not play along."""

import pathlib

import pytest

from support import until

LINKS = ("memory", "ipc", "tcp")


def resident_mib(process):
    """MiB of a process in memory."""
    for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) // 1024
    raise AssertionError("no VmRSS")


# ---- the worker's memory -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("link", LINKS)
def test_uploads_count_against_the_workers_memory(programs, link):
    server = programs.server()
    programs.worker(server.port, GT_WORKER_MEMORY="100M")
    assert programs.run("""
        import sys
        import gt
        import numpy as np
        gt.connect(sys.argv[1])
        data = np.ones((30, 1 << 18), np.float32)               # 30 MiB
        held, refused = [], 0
        for k in range(6):
            t = gt.from_numpy(data)
            try:
                assert t.sum().item() == data.size
                held.append(t)
            except MemoryError as error:
                refused += 1
                assert "upload: the worker cannot allocate" in str(error), error
        del t
        print(len(held), refused)
        held.clear()
        print(gt.from_numpy(data).sum().item() == data.size)     # it lives, and works again
        """, f"{link}://localhost:{server.port}").split("\n")[:2] == ["3 3", "True"]


def test_memory_goes_back_to_the_system_when_a_client_leaves(programs):
    server = programs.server()
    worker = programs.worker(server.port)
    light = programs.python("""
        import sys
        import time
        import gt
        gt.connect(sys.argv[1])
        a = gt.ones(8)
        while True:                                              # the worker never rests
            a.sum().item()
            time.sleep(0.001)
        """, f"localhost:{server.port}", name="light")
    programs.run("import sys, gt\ngt.connect(sys.argv[1])\ngt.ones(4).sum().item()", f"localhost:{server.port}")
    before = resident_mib(worker)
    programs.run("""
        import sys
        import gt
        import numpy as np
        gt.connect(sys.argv[1])
        large = [gt.ones(1 << 24) for _ in range(3)]             # 64 MiB each
        small = [gt.ones(1 << 16) for _ in range(400)]           # 100 MiB in blocks of malloc
        uploads = [gt.from_numpy(np.ones(1 << 23, np.float32)) for _ in range(2)]
        print(sum(t.sum().item() for t in large + small + uploads))
        """, f"localhost:{server.port}")
    until(lambda: resident_mib(worker) < before + 40, f"the worker's memory: {before} MiB before")
    assert light.alive, light.text()
