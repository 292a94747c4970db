"""A program with a bit of everything, and a proxy that cuts its connection: for tests of clients that outlive one."""

import socket
import threading

# Uploads of several frames, hot paths, small and large answers, updates in place, frees.
TRAIN = """
import sys
import numpy as np
import gt
gt.connect(sys.argv[1])
random = np.random.default_rng(1)
gt.manual_seed(3)
weight = gt.randn(64, 32, requires_grad=True)
bias = gt.zeros(32, requires_grad=True)
optimizer = gt.optim.Adam([weight, bias], lr=0.01)
for step in range(30):
    batch = gt.from_numpy(random.standard_normal((256, 64)).astype(np.float32))
    target = gt.from_numpy(random.standard_normal((256, 32)).astype(np.float32))
    loss = (((batch @ weight + bias).relu() - target) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with gt.no_grad():
        bias[step % 32] += 0.5
    print(loss.item().hex())
    if step % 5 == 0:
        print(float(np.abs(batch.matmul(weight).detach().numpy()).sum()).hex())
print(weight.detach().numpy().tobytes().hex()[:256], bias.detach().numpy().tobytes().hex())
"""


class CuttingProxy:
    """Passes bytes, and cuts a connection, both ways, when so many bytes went by in all."""

    def __init__(self, port, cuts=(), on_cut=lambda: None):
        self.on_cut = on_cut
        self.target, self.cuts, self.passed, self.cut_count, self.connections = port, sorted(cuts), 0, 0, 0
        self.closed = self.silent = False
        self.lock = threading.Lock()
        self.sockets = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:  # none listens now
                client.close()
                continue
            self.connections += 1
            self.sockets = [client, server]
            if self.closed:
                self.end()
            for ends in (client, server), (server, client):
                threading.Thread(target=self.pump, args=ends, daemon=True).start()

    def pump(self, source, sink):
        try:
            while data := source.recv(1 << 14):
                with self.lock:
                    left = self.cuts[0] - self.passed if self.cuts else len(data)
                    cut = left < len(data)
                    data = data[: max(left, 0)] if cut else data
                    self.passed += len(data)
                    self.cut_count += cut
                    del self.cuts[:cut]
                sink.sendall(data)
                if cut:
                    self.on_cut()
                    break
        except OSError:
            pass
        for one in source, sink:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def end(self):
        """No connection passes any more; new ones are closed at once."""
        self.closed = True
        for one in self.sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()
        self.end()
