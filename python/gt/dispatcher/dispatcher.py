"""A dispatcher in this process: Dispatcher(port=12345).start() serves until stop()."""

import os

from gt import _gt
from gt._blocking import run_until_done


class Dispatcher:
    """Serves clients and workers on host:port.

    log_file sets GT_INSTRUCTION_LOG, for the instruction log that is still to come; console_log=True prints connections,
    as GT_VERBOSE=1 does.
    """

    def __init__(self, host='localhost', port=12345, log_file=None, console_log=False):
        if log_file is not None:
            os.environ['GT_INSTRUCTION_LOG'] = str(log_file)
        if console_log:
            os.environ['GT_VERBOSE'] = '1'
        self.host = host
        self._dispatcher = _gt.Dispatcher(host, port)
        self.port = self._dispatcher.port

    def start(self):
        """Serve; returns after stop(), or raises KeyboardInterrupt on Ctrl-C."""
        run_until_done(self._dispatcher.run, self._dispatcher.stop)

    def stop(self):
        """End start(), from any thread."""
        self._dispatcher.stop()
