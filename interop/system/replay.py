"""The client side of a recorded session, sent again to another server; what comes back is kept."""

import socket
import time

import websocket_bytes as websocket
from rssl_reading import Frames, Message
from sessions import Answers, covers, json_answer, json_messages, without_updates

PATIENCE_S = 60  # whatever takes longer hangs
READ_BYTES = 65_536


class Different(Exception):
    """The server answers otherwise than the one of the recording."""


class Replay:
    """A connection that plays the steps of a session. `prompt` is called while it waits."""

    def __init__(self, port, steps, prompt=None):
        self.steps, self.prompt = steps, prompt
        self.answers, self.wanted = Answers(), Answers()
        self.socket = socket.create_connection(('127.0.0.1', port), PATIENCE_S)

    def run(self):
        try:
            for kind, content in self.steps:
                if kind == 'wait':
                    self._wait(content)
                else:
                    getattr(self, kind)(content)
        finally:
            self.socket.close()
        self._judge()

    def _wait(self, summaries):
        for summary in summaries:
            self.wanted.add(summary)
        until = time.monotonic() + PATIENCE_S
        while not (self.is_open() and self._has_all()):
            if time.monotonic() > until:
                raise Different('never came: %s\ncame: %s' % self._both())
            self.socket.settimeout(0.05)
            try:
                data = self.socket.recv(READ_BYTES)
            except TimeoutError:
                data = None
            if data == b'':
                raise Different('the server closes; wanted: %s\ncame: %s' % self._both())
            for summary, is_part in self.read(data) if data else ():
                self.answers.add(summary, is_part)
            self._fail_early()
            if self.prompt:
                self.prompt(self.answers)

    def _has_all(self):
        come = self.answers.streams
        return all(covers(come.get(stream, ()), wanted) for stream, wanted in self.wanted.streams.items())

    def _fail_early(self):
        """What has come otherwise than wanted does not become right by waiting."""
        for stream, came in self.answers.streams.items():
            wanted = without_updates(self.wanted.streams.get(stream, ()))
            came = without_updates(came)
            if stream in self.wanted.streams and came[: len(wanted)] != wanted[: len(came)]:
                raise Different('wanted: %s\ncame: %s' % self._both())

    def _judge(self):
        """Updates may be more than in the recording; of all else nothing more and nothing else may come."""
        come = {stream: without_updates(came) for stream, came in self.answers.streams.items()}
        wanted = {stream: without_updates(wanted) for stream, wanted in self.wanted.streams.items()}
        if come != wanted or list(come) != list(wanted):
            raise Different('wanted: %s\ncame: %s' % self._both())

    def _both(self):
        return self.wanted.streams, self.answers.streams


class RsslReplay(Replay):
    def __init__(self, *words, compression, **named):
        super().__init__(*words, **named)
        self.compression = compression
        self.frames = Frames()

    def is_open(self):
        if self.frames.compression not in (None, self.compression):
            raise Different('compression %d, wanted %d' % (self.frames.compression, self.compression))
        return self.frames.compression is not None

    def send(self, content):
        self.socket.sendall(bytes.fromhex(content))

    def read(self, data):
        for message in map(Message, self.frames.feed(data)):
            yield message.summary(), message.is_part()


class JsonReplay(Replay):
    """Over a WebSocket, with text frames and without extensions."""

    def __init__(self, *words, **named):
        super().__init__(*words, **named)
        self.head = b''
        self.frames = websocket.Frames()
        self.key = websocket.new_key()
        self.upgraded = False

    def is_open(self):
        return self.upgraded

    def http(self, lines):
        lines = [line for line in lines if not line.startswith('Sec-WebSocket-Extensions')]
        request = [*lines, 'Sec-WebSocket-Key: ' + self.key, '', '']
        self.socket.sendall('\r\n'.join(request).encode())

    def send(self, content):
        self._wait([])  # the upgrade
        self.socket.sendall(websocket.frame(websocket.TEXT, content.encode()))

    def read(self, data):
        if not self.upgraded:
            data = self._upgrade(data)
        for kind, payload in self.frames.feed(data):
            if kind == websocket.PING:
                self.socket.sendall(websocket.frame(websocket.PONG, payload))
            elif kind == websocket.TEXT:
                yield from map(json_answer, json_messages(payload))

    def _upgrade(self, data):
        """What follows the answer to the upgrade."""
        self.head += data
        head, end, rest = self.head.partition(b'\r\n\r\n')
        if not end:
            return b''
        if not websocket.is_upgraded(head, self.key):
            raise Different('no upgrade: %s' % head.decode('latin-1'))
        self.upgraded = True
        return rest
