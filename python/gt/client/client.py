"""Connections to a server. A thread that connects has its own client; all others share the embedded server."""

from gt import _gt


class Client:
    """A connection to a dispatcher: Client(dispatcher_host='localhost', dispatcher_port=12345).connect()."""

    def __init__(self, dispatcher_host='localhost', dispatcher_port=12345, timeout=None, key_file=None, weight=None):
        self.address = f'{dispatcher_host}:{dispatcher_port}'
        self.timeout = timeout
        self.key_file = key_file
        self.weight = weight
        self._connection = None

    def connect(self):
        """Connect, and make this the calling thread's client; waits at most `timeout` seconds."""
        if not self.connected:
            self._connection = _gt.open(self.address, self.timeout, self.key_file, self.weight)
        _gt.use(self._connection)
        return self

    def disconnect(self):
        """Close the connection. Tensors of this client cannot be used any more."""
        if self._connection is not None:
            if _gt.current() is self._connection:
                _gt.use(None)
            self._connection.close()
            self._connection = None

    @property
    def connected(self):
        """Whether connect() was called and disconnect() was not."""
        return self._connection is not None and not self._connection.closed

    def __enter__(self):
        return self.connect()

    def __exit__(self, *unused):
        self.disconnect()

    def __repr__(self):
        where = self._connection.description if self.connected else f'{self.address}, not connected'
        return f'<gt.Client {where}>'


def connect(address, timeout=None, key_file=None, weight=None):
    """Connect the calling thread to the server at 'host:port', within `timeout` seconds (10 by default).

    `key_file` has the keys for a server on another host (`gt keygen`).
    `weight` is the share of the workers' time that the client asks for while others use them too, in shares of a usual
    client: with 0.5 it gets half as much as they do. The server limits it: `gt server --max-weight`, 1 by default.

        gt.connect('localhost:12345', weight=0.1)  # in the background
    """
    client = Client(timeout=timeout, key_file=key_file, weight=weight)
    client.address = address
    return client.connect()


def disconnect():
    """Close the calling thread's client, or the embedded server if it has none; a new tensor starts a new one."""
    connection = _gt.current()
    if connection is not None:
        _gt.use(None)
        connection.close()


def client_description():
    """Where tensors made by this thread live: 'embedded server, 1 worker', 'memory://localhost:12345'."""
    return _gt.current().description
