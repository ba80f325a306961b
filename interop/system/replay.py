"""The client side of a recorded session, sent again to another server; what comes back is kept."""

import base64
import hashlib
import os
import socket
import struct
import time

from rssl_reading import Frames, Message
from sessions import Answers, covers, json_answer, json_messages, without_updates

PATIENCE_S = 20
READ_BYTES = 65_536
TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


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
        self.data = b''
        self.text = b''
        self.key = base64.b64encode(os.urandom(16)).decode()
        self.upgraded = False

    def is_open(self):
        return self.upgraded

    def http(self, lines):
        lines = [line for line in lines if not line.startswith('Sec-WebSocket-Extensions')]
        request = [*lines, 'Sec-WebSocket-Key: ' + self.key, '', '']
        self.socket.sendall('\r\n'.join(request).encode())

    def send(self, content):
        self._wait([])  # the upgrade
        self._frame(TEXT, content.encode())

    def _frame(self, kind, payload):
        length = len(payload)
        mask = os.urandom(4)
        head = struct.pack('>BB', 0x80 | kind, 0x80 | min(length, 126 if length < 65_536 else 127))
        head += struct.pack('>H', length) if 126 <= length < 65_536 else b''
        head += struct.pack('>Q', length) if length >= 65_536 else b''
        masked = bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))
        self.socket.sendall(head + mask + masked)

    def read(self, data):
        self.data += data
        if not self.upgraded:
            self._upgrade()
        while self.upgraded:
            frame = self._take()
            if frame is None:
                return
            first, payload = frame
            if first & 15 == PING:
                self._frame(PONG, payload)
            elif first & 15 in (0, TEXT):
                self.text += payload
                if first & 0x80:
                    text, self.text = self.text, b''
                    yield from map(json_answer, json_messages(text))

    def _upgrade(self):
        head, end, rest = self.data.partition(b'\r\n\r\n')
        if not end:
            return
        magic = b'258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
        accept = base64.b64encode(hashlib.sha1(self.key.encode() + magic).digest())
        if not head.startswith(b'HTTP/1.1 101') or accept not in head:
            raise Different('no upgrade: %s' % head.decode('latin-1'))
        self.data, self.upgraded = rest, True

    def _take(self):
        """(first byte, payload) of the next whole frame."""
        if len(self.data) < 2:
            return None
        length, start = self.data[1] & 127, 2
        for short, form, size in ((126, '>H', 2), (127, '>Q', 8)):
            if length == short and start == 2:
                if len(self.data) < 2 + size:
                    return None
                (length,), start = struct.unpack_from(form, self.data, 2), 2 + size
        if len(self.data) < start + length:
            return None
        frame = self.data[0], self.data[start : start + length]
        self.data = self.data[start + length :]
        return frame
