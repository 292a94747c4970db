"""What an engine in Python costs: a small add on an engine whose methods do nothing, beside `null`, the same in C.

The difference of the two is a call from the worker to a Python method and back: the GIL, the views of the operands, the call.
Workers are processes of their own, so that no other thread wants their GIL. Rounds alternate, and the fastest of each counts.
Run it with `.venv/bin/python benchmarks/python_engine.py`.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROUNDS, CALLS = 9, 50000

NOTHING = """
import gt

class Engine(gt.engines.Engine):
    def add(self, out, a, b, compute):
        pass
"""


def start_server(folder, environment):
    port_file = pathlib.Path(folder) / 'port'
    server = subprocess.Popen([sys.executable, '-m', 'gt.server', '-p', '0', '--port-file', port_file], env=environment)
    while not (port_file.exists() and port_file.read_text().strip()):
        if server.poll() is not None:
            sys.exit('the server did not start')
        time.sleep(0.01)
    return server, int(port_file.read_text())


def measure(port):
    """Seconds of one add on the server at this port."""
    import gt
    gt.connect(f'localhost:{port}', timeout=30)
    x = gt.ones(8, 8)
    gt.synchronize()
    start = time.perf_counter()
    for _ in range(CALLS):
        x = x + x
    gt.synchronize()
    return (time.perf_counter() - start) / CALLS


def main():
    processes, ports = [], {}
    with tempfile.TemporaryDirectory(prefix='gt-bench-') as folder:
        pathlib.Path(folder, 'gt_engine_nothing.py').write_text(NOTHING)
        path = os.pathsep.join([folder, *filter(None, [os.environ.get('PYTHONPATH')])])
        try:
            for engine in ('null', 'nothing'):
                home = pathlib.Path(folder, engine)
                home.mkdir(mode=0o700)
                environment = {**os.environ, 'PYTHONPATH': path, 'XDG_RUNTIME_DIR': str(home)}
                server, ports[engine] = start_server(home, environment)
                processes.append(server)
                processes.append(subprocess.Popen([sys.executable, '-m', 'gt.worker', '-p', str(ports[engine]), '--backend', engine],
                                                  env=environment))
            best = dict.fromkeys(ports, float('inf'))
            for _ in range(ROUNDS):
                for engine, port in ports.items():
                    os.environ['XDG_RUNTIME_DIR'] = str(pathlib.Path(folder, engine))
                    best[engine] = min(best[engine], measure(port))
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait()
    cost = best['nothing'] - best['null']
    print(f'null {best["null"] * 1e9:.0f} ns, nothing (Python) {best["nothing"] * 1e9:.0f} ns: {cost * 1e9:.0f} ns a call')
    return cost > 1e-6


if __name__ == '__main__':
    sys.exit(main())
