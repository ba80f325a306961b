"""RSSL as it is read: the frames of one direction, and what its messages say in their headers.

Both compressions are undone; integers are big endian. Written from the description of the protocol for tests
that must not trust the system's own code.
"""

import struct
import zlib

CLASSES = ('', 'REQUEST', 'REFRESH', 'STATUS', 'UPDATE', 'CLOSE', 'ACK', 'GENERIC', 'POST')
CONTAINERS = {
    0: 'NO_DATA', 2: 'OPAQUE', 3: 'XML', 4: 'FIELD_LIST', 5: 'ELEMENT_LIST', 6: 'ANSI_PAGE', 7: 'FILTER_LIST',
    8: 'VECTOR', 9: 'MAP', 10: 'SERIES', 13: 'MSG', 14: 'JSON',
}  # fmt: skip
NONE, ZLIB, LZ4 = 0, 1, 2
PACKED, COMPRESSED, CONTINUED, EXTENDED = 0x10, 0x04, 0x08, 0x01
FIRST_FRAGMENT, NEXT_FRAGMENT = 0x08, 0x04


class Broken(Exception):
    """Bytes that are no RSSL."""


class Frames:
    """The frames of a server behind its handshake, fed as they come."""

    def __init__(self):
        self.data = bytearray()
        self.compression = None  # None before the handshake is over
        self.inflate = zlib.decompressobj()
        self.first_part = None
        self.fragments = {}
        self.pings = 0

    def feed(self, data):
        """The messages that are complete now."""
        self.data += data
        messages = []
        while True:
            frame = self._take()
            if frame is None:
                return messages
            if self.compression is None:
                self.compression = handshake_compression(frame)
            else:
                messages += self._frame(frame)

    def _take(self):
        if len(self.data) < 3:
            return None
        (length,) = struct.unpack_from('>H', self.data)
        if length < 3:
            raise Broken('a frame of %d bytes' % length)
        if len(self.data) < length:
            return None
        frame = bytes(self.data[:length])
        del self.data[:length]
        return frame

    def _frame(self, frame):
        flags = frame[2]
        if flags & 0x06 == 0:
            raise Broken('flags 0x%02x' % flags)
        if len(frame) == 3:
            self.pings += 1
            return []
        if self.first_part is not None:
            flags, extended, header, head = self.first_part
            self.first_part = None
            payload = self._plain(head + frame[3:])
            return self._payload(flags, extended, header, payload)
        extended = frame[3] if flags & EXTENDED else 0
        header_bytes = {FIRST_FRAGMENT: 6, NEXT_FRAGMENT: 2}.get(extended, 0)
        start = 3 + (flags & EXTENDED) + header_bytes
        header, payload = frame[start - header_bytes : start], frame[start:]
        if flags & CONTINUED:
            self.first_part = flags, extended, header, payload
            return []
        if flags & COMPRESSED:
            payload = self._plain(payload)
        return self._payload(flags, extended, header, payload)

    def _plain(self, payload):
        return lz4_block(payload) if self.compression == LZ4 else self.inflate.decompress(payload)

    def _payload(self, flags, extended, header, payload):
        if extended == FIRST_FRAGMENT:
            total, number = struct.unpack('>IH', header)
            self.fragments[number] = total, payload
        elif extended == NEXT_FRAGMENT:
            (number,) = struct.unpack('>H', header)
            total, before = self.fragments[number]
            self.fragments[number] = total, before + payload
        elif flags & PACKED:
            return unpacked(payload)
        else:
            return [payload]
        if len(self.fragments[number][1]) < total:
            return []
        return [self.fragments.pop(number)[1]]


def handshake_compression(answer):
    """The compression that a server's answer to the connect request names."""
    if answer[3] != 1:
        raise Broken('the server refuses the connection')
    (kind,) = struct.unpack_from('>H', answer, 16)
    return ZLIB if answer[2] & 0x80 and not kind else kind


def unpacked(payload):
    messages = []
    position = 0
    while position + 2 <= len(payload):
        (length,) = struct.unpack_from('>H', payload, position)
        if length == 0:
            break
        messages.append(payload[position + 2 : position + 2 + length])
        position += 2 + length
    return messages


def lz4_block(block):
    """The content of a raw LZ4 block."""
    out = bytearray()
    position = 0

    def long(length):
        nonlocal position
        if length == 15:
            while True:
                more = block[position]
                position += 1
                length += more
                if more != 255:
                    break
        return length

    while position < len(block):
        token = block[position]
        position += 1
        count = long(token >> 4)
        out += block[position : position + count]
        position += count
        if position == len(block):
            return bytes(out)
        back = block[position] | block[position + 1] << 8
        position += 2
        for _ in range(long(token & 15) + 4):
            out.append(out[-back])
    return bytes(out)


class Message:
    """The header of a message: class, domain, stream, container, state and its text where it has one; its bytes."""

    def __init__(self, data):
        _, kind, self.domain, self.stream = struct.unpack_from('>HBBi', data)
        self.kind = CLASSES[kind]
        self.flags, position = _u15(data, 8)
        self.container = CONTAINERS[data[position]]
        self.data = bytes(data)
        self.state = self.text = self.nak = None
        position += 1
        if self.kind == 'REFRESH':
            position += 4 if self.flags & 0x0010 else 0
            self.state, self.text = _state(data, position)
        elif self.kind == 'STATUS' and self.flags & 0x0020:
            self.state, self.text = _state(data, position)
        elif self.kind == 'ACK' and self.flags & 0x20:
            self.nak = data[position + 4]

    def is_part(self):
        """Whether it is a part of an image that another one completes."""
        return self.kind == 'REFRESH' and not self.flags & 0x0040

    def summary(self):
        """[class, domain, stream, container, state as (stream, data, code) or the code of a refusal]"""
        return [self.kind, self.domain, self.stream, self.container, self.state or self.nak]


def _state(data, position):
    """[stream, data, code] and the text."""
    length, at = _u15(data, position + 2)
    text = bytes(data[at : at + length]).decode('utf-8', 'replace')
    return [data[position] >> 3, data[position] & 7, data[position + 1]], text


def _u15(data, position):
    if data[position] < 0x80:
        return data[position], position + 1
    return (data[position] & 0x7F) << 8 | data[position + 1], position + 2
