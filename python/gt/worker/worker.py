"""A worker in this process: Worker().connect_to_dispatcher(dispatcher_port=12345) works until stop()."""

from gt import _gt
from gt._blocking import run_until_done


class Worker:
    """Executes a dispatcher's instructions on an engine: 'cpu', or the one that GT_BACKEND names."""

    def __init__(self, worker_id=None, backend=None):
        self.worker_id = None if worker_id is None else str(worker_id)
        self.backend = backend
        self._worker = _gt.Worker()

    def connect_to_dispatcher(self, dispatcher_host='localhost', dispatcher_port=12345, timeout=0,
                              key_file=None):
        """Work; returns when the dispatcher leaves or after stop(), or raises KeyboardInterrupt on Ctrl-C.

        key_file: the keys that a dispatcher on another host asks for, made with `gt keygen` (default: GT_KEY_FILE).
        """
        address = f'{dispatcher_host}:{dispatcher_port}'
        keys = None if key_file is None else str(key_file)
        run_until_done(lambda: self._worker.run(address, self.worker_id, self.backend, timeout, keys), self._worker.stop)

    def stop(self):
        """End connect_to_dispatcher(), from any thread."""
        self._worker.stop()
