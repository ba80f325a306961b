"""WebSocket by hand: an upgrade, frames as they may and may not be, and the frames of a server as they come."""

import base64
import hashlib
import json
import os
import socket
import struct
import time

TEXT, CLOSE, PING, PONG = 1, 8, 9, 10
MAGIC = b'258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
PATIENCE_S = 60  # whatever takes longer hangs
READ_BYTES = 65_536


def new_key():
    return base64.b64encode(os.urandom(16)).decode()


def upgrade(key, extensions=None):
    """The request, for `tr_json2`."""
    lines = [
        'GET /WebSocket HTTP/1.1',
        'Host: localhost',
        'Upgrade: websocket',
        'Connection: Upgrade',
        'Sec-WebSocket-Version: 13',
        'Sec-WebSocket-Protocol: tr_json2',
        'Sec-WebSocket-Key: ' + key,
    ]
    lines += ['Sec-WebSocket-Extensions: ' + extensions] if extensions else []
    return '\r\n'.join([*lines, '', '']).encode()


def is_upgraded(head, key):
    """Whether the head of an answer, without its blank line, says so."""
    accept = base64.b64encode(hashlib.sha1(key.encode() + MAGIC).digest())
    return head.startswith(b'HTTP/1.1 101') and accept in head


def frame(kind, payload, is_final=True, is_compressed=False, is_masked=True):
    """A frame; those of clients are masked."""
    first = kind | (0x80 if is_final else 0) | (0x40 if is_compressed else 0)
    length = len(payload)
    head = struct.pack('>BB', first, (0x80 if is_masked else 0) | min(length, 126 if length < 65_536 else 127))
    head += struct.pack('>H', length) if 126 <= length < 65_536 else b''
    head += struct.pack('>Q', length) if length >= 65_536 else b''
    if not is_masked:
        return head + payload
    mask = os.urandom(4)
    return head + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))


class Frames:
    """The frames of a server, fed as they come: texts that are whole, and what else there was."""

    def __init__(self):
        self.data, self.text = b'', b''

    def feed(self, data):
        """[(kind, payload)], a text in fragments once."""
        self.data += data
        whole = []
        while (taken := self._take()) is not None:
            first, payload = taken
            if first & 15 not in (0, TEXT):
                whole.append((first & 15, payload))
                continue
            self.text += payload
            if first & 0x80:
                whole.append((TEXT, self.text))
                self.text = b''
        return whole

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
        taken = self.data[0], self.data[start : start + length]
        self.data = self.data[start + length :]
        return taken


def login_request(user):
    return {'ID': 1, 'Domain': 'Login', 'Key': {'Name': user, 'Elements': {'Position': '127.0.0.1/net'}}}


class JsonClient:
    """A client of the JSON protocol that keeps every message it gets."""

    def __init__(self, port):
        self.socket = socket.create_connection(('127.0.0.1', port), PATIENCE_S)
        self.frames, self.messages, self.close_code = Frames(), [], None
        key = new_key()
        self.socket.sendall(upgrade(key))
        head = b''
        while b'\r\n\r\n' not in head:
            head += self._receive()
        head, _, rest = head.partition(b'\r\n\r\n')
        if not is_upgraded(head, key):
            raise AssertionError('no upgrade: %r' % head)
        self._feed(rest)

    def log_in(self, user='judge'):
        self.send(login_request(user))
        return self.wait(lambda m: m.get('Domain') == 'Login')

    def send(self, message):
        self.socket.sendall(frame(TEXT, json.dumps(message).encode()))

    def wait(self, is_wanted):
        """The first message, of all that have come, that is wanted."""
        until = time.monotonic() + PATIENCE_S
        while True:
            for message in self.messages:
                if is_wanted(message):
                    return message
            if time.monotonic() > until:
                raise AssertionError('never came; what came: %s' % self.messages)
            self._feed(self._receive())

    def wait_end(self):
        """The code of the frame with which the server closes."""
        while self.close_code is None:
            self._feed(self._receive())
        return self.close_code

    def close(self):
        self.socket.close()

    def _receive(self):
        self.socket.settimeout(PATIENCE_S)
        data = self.socket.recv(READ_BYTES)
        if not data:
            raise AssertionError('the server ends the connection; what came: %s' % self.messages)
        return data

    def _feed(self, data):
        for kind, payload in self.frames.feed(data):
            if kind == TEXT:
                self.messages += json.loads(payload)
            elif kind == PING:
                self.socket.sendall(frame(PONG, payload))
            elif kind == CLOSE:
                self.close_code = struct.unpack_from('>H', payload)[0] if payload else 0
