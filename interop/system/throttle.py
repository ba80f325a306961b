"""A narrow line in front of a server: what the server says passes at so many bytes a second, and no buffer on the way
holds much of it."""

import socket
import threading
import time

SLICES_PER_SECOND = 20
# The kernel doubles it, and does not go below about 2 KiB.
BUFFER_BYTES = 4096


class Throttle:
    def __init__(self, port, bytes_per_second):
        self._server = ('127.0.0.1', port)
        self._rate = bytes_per_second
        self._sockets = []
        self._listening = socket.create_server(('127.0.0.1', 0))
        self._sockets.append(self._listening)
        self.address = '127.0.0.1:%d' % self._listening.getsockname()[1]
        self._start(self._accept)

    def lift(self):
        """From now on the line takes whatever comes."""
        self._rate = None

    def close(self):
        for one in self._sockets:
            one.close()

    def _start(self, what, *arguments):
        threading.Thread(target=what, args=arguments, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = socket.socket()
            self._sockets += [client, server]
            # Before it connects: the window that the server is told of follows from it.
            server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
            server.connect(self._server)
            self._start(self._pass_on, client, server, False)
            self._start(self._pass_on, server, client, True)

    def _pass_on(self, source, target, is_narrow):
        try:
            while True:
                rate = self._rate if is_narrow else None
                came = source.recv(rate // SLICES_PER_SECOND if rate else 1 << 16)
                if not came:
                    break
                target.sendall(came)
                if rate:
                    time.sleep(len(came) / rate)
        except OSError:
            pass
        for one in (source, target):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
