"""Start a server and workers as separate processes, run a small job on them, stop them.

    python examples/simple_launch.py                 one worker, run a test, stop
    python examples/simple_launch.py --workers 2
    python examples/simple_launch.py --no-test       keep running for your own programs, until Ctrl-C

On several machines start the same programs by hand: python -m gt.server on one, python -m gt.worker on each, and
gt.connect('host:port') in your program.
"""
import argparse
import contextlib
import pathlib
import subprocess
import sys
import tempfile
import time

import gt


@contextlib.contextmanager
def running(module, *arguments):
    """Run python -m module; stop it at the end of the block."""
    process = subprocess.Popen([sys.executable, "-m", module, *arguments])
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def wait_for_port(port_file, server, timeout_s=10):
    """The port the server chose; it writes the file when it is ready."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end and server.poll() is None:
        if port_file.exists() and port_file.read_text().strip():
            return port_file.read_text().strip()
        time.sleep(0.01)
    sys.exit("the server did not start")


def small_job():
    a = gt.randn(200, 300)
    b = gt.randn(300, 100)
    c = (a @ b).relu()
    print(f"relu(a @ b): shape {tuple(c.shape)}, mean {c.mean().item():.4f}, on {gt.client_description()}")


def main():
    parser = argparse.ArgumentParser(description="Launch a GT server and its workers.")
    parser.add_argument("--port", type=int, default=0, help="default: any free one")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--no-test", action="store_true", help="only keep the system running")
    arguments = parser.parse_args()

    with contextlib.ExitStack() as stack:
        port_file = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory())) / "port"
        command = ["gt.server", "--quiet", "-p", str(arguments.port), "--port-file", str(port_file)]
        server = stack.enter_context(running(*command))
        port = wait_for_port(port_file, server)
        for _ in range(arguments.workers):
            stack.enter_context(running("gt.worker", "--host", "localhost", "-p", port))
        print(f"server on port {port}, {arguments.workers} worker(s)", flush=True)
        if arguments.no_test:
            with contextlib.suppress(KeyboardInterrupt):
                server.wait()
        else:
            gt.connect(f"localhost:{port}")  # waits for the first worker
            small_job()


if __name__ == "__main__":
    main()
