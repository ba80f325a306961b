"""An interactive provider by hand: what a source distributor sends when it dials, in the segments that it sends."""

import socket
import struct

import rssl_bytes as rssl
from rssl_reading import PACKED, Message, unpacked

PATIENCE_S = 60


class DialledProvider:
    """Listens; `accept` takes the next connection and answers its handshake."""

    def __init__(self):
        self.listener = socket.create_server(('127.0.0.1', 0), backlog=16)
        self.listener.settimeout(PATIENCE_S)
        self.port = self.listener.getsockname()[1]

    def accept(self):
        return Dialler(self.listener.accept()[0])

    def close(self):
        self.listener.close()


class Dialler:
    """One connection of the source distributor, from the end of the handshake on."""

    def __init__(self, connection):
        self.socket, self.data, self.messages = connection, b'', []
        self.socket.settimeout(PATIENCE_S)
        self._take()
        self.socket.sendall(rssl.connect_ack())
        self.key = self._take()

    def message(self):
        """The next message; None when the other side has ended its direction."""
        while not self.messages:
            frame = self._take()
            if frame is None:
                return None
            if frame[2] & PACKED:
                self.messages += map(Message, unpacked(frame[3:]))
            elif len(frame) > 3:
                self.messages.append(Message(frame[3:]))
        return self.messages.pop(0)

    def wait(self, kind, domain):
        """The next message of this kind; what comes before it is dropped."""
        while True:
            message = self.message()
            if message is None:
                raise AssertionError('the connection ended before a %s of domain %d' % (kind, domain))
            if (message.kind, message.domain) == (kind, domain):
                return message

    def send(self, *messages):
        self.socket.sendall(b''.join(map(rssl.frame, messages)))

    def serve(self, **directory):
        """Lets the source distributor in, and offers the service."""
        login = self.wait('REQUEST', rssl.LOGIN)
        self.send(rssl.login_refresh(stream=login.stream))
        request = self.wait('REQUEST', rssl.SOURCE)
        self.send(rssl.directory_answer(request.stream, **directory))
        return self

    def close(self):
        self.socket.close()

    def _take(self):
        """The next frame, or message of the handshake, with its length; None at the end."""
        while len(self.data) < 2 or len(self.data) < struct.unpack('>H', self.data[:2])[0]:
            more = self.socket.recv(65_536)
            if not more:
                return None
            self.data += more
        (length,) = struct.unpack('>H', self.data[:2])
        frame, self.data = self.data[:length], self.data[length:]
        return frame
