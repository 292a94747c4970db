"""A dispatcher in this process: Dispatcher(port=12345).start() serves until stop()."""

from gt import _gt
from gt._blocking import run_until_done


class Dispatcher:
    """Serves clients and workers on host:port.

    log_file is the file of the instruction log (default: GT_INSTRUCTION_LOG); console_log=True prints it. A host that
    other machines can reach needs key_file and allow_keys (`gt keygen`), or insecure=True, with which anyone there may
    connect as a client.
    """

    def __init__(self, host='localhost', port=12345, log_file=None, console_log=False, insecure=False, key_file=None,
                 allow_keys=None):
        self.host = host
        log = None if log_file is None else str(log_file)
        self._dispatcher = _gt.Dispatcher(host, port, log=log, console=console_log, insecure=insecure,
                                          key_file=None if key_file is None else str(key_file),
                                          allow_keys=None if allow_keys is None else str(allow_keys))
        self.port = self._dispatcher.port

    def start(self):
        """Serve; returns after stop(), or raises KeyboardInterrupt on Ctrl-C."""
        run_until_done(self._dispatcher.run, self._dispatcher.stop)

    def stop(self):
        """End start(), from any thread."""
        self._dispatcher.stop()
