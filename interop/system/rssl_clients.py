"""RSSL clients by hand: a consumer that keeps every message it gets, a provider that says what it is told."""

import socket
import time

import rssl_bytes as rssl
from rssl_reading import Frames, Message

PATIENCE_S = 60  # whatever takes longer hangs
READ_BYTES = 65_536


class RsslClient:
    """A connection that has sent its login, `role` 0 for a consumer, 1 for a provider."""

    def __init__(self, port, role, user):
        self.socket = socket.create_connection(('127.0.0.1', port), PATIENCE_S)
        self.frames, self.messages, self.is_over = Frames(), [], False
        # Long: a test that waits for something else does not send pings meanwhile.
        self.socket.sendall(rssl.connect_request(ping_timeout_s=120))
        self.send(rssl.login_request(role, user.encode()))

    def send(self, *messages):
        self.socket.sendall(b''.join(map(rssl.frame, messages)))

    def of_stream(self, stream):
        """Summaries of the messages on a stream."""
        return [message.summary() for message in self.messages if message.summary()[2] == stream]

    def wait(self, is_enough, said):
        """Reads until `is_enough`, or the server has ended the connection."""
        until = time.monotonic() + PATIENCE_S
        while not is_enough():
            if self.is_over or time.monotonic() > until:
                summaries = [message.summary() for message in self.messages]
                raise AssertionError('%s; what came: %s, over: %s' % (said, summaries, self.is_over))
            self._read()
        return self

    def wait_count(self, stream, count):
        """Until so many messages have come on a stream."""
        return self.wait(lambda: len(self.of_stream(stream)) >= count, '%d messages on %d' % (count, stream))

    def wait_end(self):
        """Until the server has ended the connection."""
        return self.wait(lambda: self.is_over, 'the server ends the connection')

    def close(self):
        self.socket.close()

    def _read(self):
        self.socket.settimeout(0.2)
        try:
            data = self.socket.recv(READ_BYTES)
        except TimeoutError:
            self.socket.sendall(rssl.PING)
            return
        except ConnectionError:
            data = b''
        self.is_over = not data
        self.messages += map(Message, self.frames.feed(data))


class RsslConsumer(RsslClient):
    def __init__(self, port, user='judge'):
        super().__init__(port, 0, user)


class RsslProvider(RsslClient):
    def __init__(self, port, user='judge'):
        super().__init__(port, 1, user)
