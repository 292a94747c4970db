"""A dispatcher in this process: Dispatcher(port=12345).start() serves until stop()."""

from gt import _gt
from gt._blocking import run_until_done


class Dispatcher:
    """Serves clients and workers on host:port.

    log_file is the file of the instruction log (default: GT_INSTRUCTION_LOG); console_log=True prints it. A host that
    other machines can reach needs insecure=True, because anyone there may connect.
    """

    def __init__(self, host='localhost', port=12345, log_file=None, console_log=False, insecure=False):
        self.host = host
        log = None if log_file is None else str(log_file)
        self._dispatcher = _gt.Dispatcher(host, port, log=log, console=console_log, insecure=insecure)
        self.port = self._dispatcher.port

    def start(self):
        """Serve; returns after stop(), or raises KeyboardInterrupt on Ctrl-C."""
        run_until_done(self._dispatcher.run, self._dispatcher.stop)

    def stop(self):
        """End start(), from any thread."""
        self._dispatcher.stop()
