"""Slow, silent, greedy and many connections at a running P2PS: each case of docs/hostile.md that needs sockets."""

import os
import resource
import socket
import struct
import time
import unittest
import zlib

import rssl_bytes as rssl
import websocket_bytes as websocket
from process import ROOT, wait_until
from system_test import SystemTest

DESCRIPTORS = 14000  # that we need ourselves
IDLE = 10000
BATCH = 250  # that are served before others come
UNHEARD = 2000
CLOSED_WITHIN_S = 60
IDLE_BYTES_MAX = 16 << 10  # of a connection that is logged in
SLACK_BYTES = 8 << 20
HANDSHAKE_MS, LOGIN_MS = 6000, 6000
CONNECTIONS = {
    'connections_max': IDLE + UNHEARD,
    'connections_per_address_max': IDLE + UNHEARD,
    'handshake_timeout_ms': HANDSHAKE_MS,
    'login_timeout_ms': LOGIN_MS,
}

# name: (what comes, what becomes of it), as the table has it.
RSSL_CASES = {
    'idle-10000': (
        '10,000 connections that log in and say nothing more',
        'all stay, with less than 16 KiB each; another client is served',
    ),
    'idle-10000-again': (
        'the same once more, after those are gone',
        'no more memory than the first time, but for 8 MiB',
    ),
    'unheard-2000': (
        '2,000 connections that say nothing at all',
        'closed after the handshake timeout, counted as `handshake_timeout`',
    ),
    'handshake-drips': (
        'a connect request, a byte at a time, too slowly',
        'closed after the handshake timeout, counted as `handshake_timeout`',
    ),
    'login-never': (
        'a handshake and no login',
        'closed after the login timeout, counted as `application`',
    ),
    'login-drips': (
        'a login, a byte at a time, too slowly',
        'closed after the login timeout, counted as `application`',
    ),
}
TOO_LONG = 61_441  # bytes of a message: one more than is taken
REPEATED = 300
WEBSOCKET_CASES = {
    'idle-10000': RSSL_CASES['idle-10000'],
    'idle-10000-again': RSSL_CASES['idle-10000-again'],
    'unheard-2000': RSSL_CASES['unheard-2000'],
    'upgrade-drips': (
        'an upgrade request, a byte at a time, too slowly',
        'closed after the handshake timeout, counted as `handshake_timeout`',
    ),
    'login-never': ('an upgrade and no login', 'closed after the login timeout, counted as `application`'),
    'login-drips': (
        'the frame of a login, a byte at a time, too slowly',
        'closed after the login timeout, counted as `application`',
    ),
    'not-masked': ('a login that is not masked', 'close frame 1002, counted as `frame`'),
    'too-long': (
        'the head of a frame one byte longer than is taken',
        'close frame 1009 before it has come, counted as `message_length`',
    ),
    'fragments-without-end': (
        'fragments of a message that does not end',
        'close frame 1009 when they are longer than is taken, counted as `message_length`',
    ),
    'bomb': (
        '1 KiB that decompresses to 1 MiB',
        'close frame 1009 when it is longer than is taken, counted as `message_length`',
    ),
    'no-deflate': ('compressed data that is none', 'close frame 1007, counted as `deflate`'),
    'no-utf-8': ('text that is not UTF-8', 'close frame 1007, counted as `utf8`'),
    'no-json': ('a login, then text that is not JSON', 'answered by an error, the connection stays'),
}
# What they cost: each of those that end at once, 300 times.
CLOSE_CODES = {'not-masked': 1002, 'too-long': 1009, 'fragments-without-end': 1009, 'bomb': 1009, 'no-deflate': 1007, 'no-utf-8': 1007}


def rows(title):
    """The rows of a table: {name: (what comes, what becomes of it)}"""
    with open(os.path.join(ROOT, 'docs', 'hostile.md'), encoding='utf-8') as f:
        section = f.read().split('\n## %s\n' % title)[1].split('\n## ')[0]
    lines = [line.strip('|').split('|') for line in section.splitlines() if line.startswith('| `')]
    return {cells[0].strip().strip('`'): tuple(cell.strip() for cell in cells[1:]) for cells in lines}


def frame_of(connection):
    """The next message with a u16 length in front."""
    head = receive(connection, 2)
    return head + receive(connection, struct.unpack('>H', head)[0] - 2)


def receive(connection, count):
    parts = b''
    while len(parts) < count:
        part = connection.recv(count - len(parts))
        if not part:
            raise AssertionError('closed after %r' % parts)
        parts += part
    return parts


def is_closed(connection):
    """Whether the other side has ended it; what it sent before is read."""
    try:
        while True:
            if not connection.recv(1 << 16, socket.MSG_DONTWAIT):
                return True
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


class Port:
    """What a port is put through whatever it speaks. Classes below say how."""

    @classmethod
    def scenario(cls):
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if most < DESCRIPTORS:
            raise unittest.SkipTest('%d descriptors are allowed, %d needed' % (most, DESCRIPTORS))
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, most))
        sets = {**CONNECTIONS, **cls.SETS}
        cls.p2ps = cls.system().p2ps(sets={'p2ps.%s.%s' % (cls.PROTOCOL, key): value for key, value in sets.items()})
        cls.before = cls.p2ps.resident_bytes()
        cls.first = cls.idle()
        cls.second = cls.idle()
        cls.slow()

    @classmethod
    def connect(cls):
        return socket.create_connection(('127.0.0.1', cls.port()), 30)

    @classmethod
    def active(cls):
        return cls.p2ps.metrics().sum(cls.PROTOCOL + '_active', port=cls.LABEL)

    @classmethod
    def idle(cls):
        """(resident bytes with all connected, connections closed, whether another client is answered)"""
        closed_before = sum(cls.closed().values())
        connections = []
        while len(connections) < IDLE:
            batch = [cls.connect() for _ in range(BATCH)]
            for connection in batch:
                connection.sendall(cls.HELLO + cls.LOGIN)
            for connection in batch:
                cls.answer(connection)
            connections += batch
        time.sleep((HANDSHAKE_MS + LOGIN_MS) / 1000 + 1)  # whoever is not logged in would be closed
        closed = sum(cls.closed().values()) - closed_before
        resident_bytes = cls.p2ps.resident_bytes()
        with cls.connect() as other:
            other.sendall(cls.HELLO + cls.LOGIN)
            served = cls.answer(other)
        for connection in connections:
            connection.close()
        wait_until(
            lambda: cls.active() == 0,
            lambda: '%d active connections, over: %s' % (cls.active(), cls.closed()),
            [cls.p2ps],
            CLOSED_WITHIN_S,
        )
        return resident_bytes, closed, served

    @classmethod
    def closed(cls):
        return cls.p2ps.metrics().nonzero(cls.PROTOCOL + r'_closed_\w+_total', port=cls.LABEL)

    @classmethod
    def slow(cls):
        before = cls.closed()
        unheard = [cls.connect() for _ in range(UNHEARD)]
        kinds = ((b'', cls.HELLO), (cls.HELLO, b''), (cls.HELLO, cls.LOGIN))
        slow = [(cls.connect(), later) for _, later in kinds]
        for (connection, _), (at_once, _) in zip(slow, kinds):
            connection.sendall(at_once)
        for at in range(8):
            time.sleep(0.3)
            for connection, later in slow:
                connection.sendall(later[at : at + 1])
        everything = unheard + [connection for connection, _ in slow]
        wait_until(
            lambda: all(map(is_closed, everything)),
            lambda: '%d of %d closed' % (sum(map(is_closed, everything)), len(everything)),
            [cls.p2ps],
            CLOSED_WITHIN_S,
        )
        cls.reasons = cls.since(before)
        for connection in everything:
            connection.close()

    @classmethod
    def since(cls, before):
        """The reasons for which connections were closed since then, and how many."""
        reasons = {name: count - before.get(name, 0) for name, count in cls.closed().items()}
        return {name: count for name, count in reasons.items() if count}

    def test_the_table_has_these_cases(self):
        self.assertEqual(rows(self.TITLE), self.CASES)

    def test_ten_thousand_idle_connections_stay(self):
        resident_bytes, closed, served = self.first
        self.assertEqual(closed, 0)
        self.assertLess((resident_bytes - self.before) / IDLE, IDLE_BYTES_MAX)
        self.assertGreater(len(served), 50)

    def test_the_second_ten_thousand_take_no_more_memory(self):
        self.assertEqual(self.second[1], 0)
        self.assertLess(self.second[0], self.first[0] + SLACK_BYTES)

    def test_the_silent_and_the_slow_are_closed_for_their_reason(self):
        timeouts = self.reasons.get(self.PROTOCOL + '_closed_handshake_timeout_total')
        self.assertEqual(timeouts, UNHEARD + 1, self.reasons)
        self.assertEqual(sum(self.reasons.values()), UNHEARD + 3, self.reasons)


class Hostile(Port, SystemTest):
    PROTOCOL, LABEL = 'rssl', 'consumer'
    TITLE, CASES = 'The running system', RSSL_CASES
    SETS = {'ping_timeout_min_s': 200, 'ping_timeout_max_s': 250}
    HELLO, LOGIN = rssl.connect_request(), rssl.frame(rssl.login_request(0))

    @classmethod
    def port(cls):
        return cls.p2ps.port

    @classmethod
    def answer(cls, connection):
        frame_of(connection)  # the ack
        return frame_of(connection)


def login(user=b'judge', **named):
    text = b'{"ID":1,"Domain":"Login","Key":{"Name":"%s"}}' % user
    return websocket.frame(websocket.TEXT, text, **named)


class HostileWebSocket(Port, SystemTest):
    PROTOCOL, LABEL = 'websocket', 'websocket'
    TITLE, CASES = 'The running system, over WebSocket', WEBSOCKET_CASES
    SETS = {'ping_timeout_s': 250}
    HELLO, LOGIN = websocket.upgrade(websocket.new_key()), login()
    COMPRESSING = websocket.upgrade(websocket.new_key(), 'permessage-deflate')

    @classmethod
    def port(cls):
        return cls.p2ps.websocket_port

    @classmethod
    def answer(cls, connection):
        """What came up to the end of the login's answer."""
        came = b''
        while b'MaxMsgSize' not in came:
            part = connection.recv(1 << 16)
            if not part:
                raise AssertionError('closed after %r' % came)
            came += part
        return came

    @classmethod
    def scenario(cls):
        super().scenario()
        cls.greedy()

    @classmethod
    def greedy(cls):
        """The cases that end at once: first a few, then many more, for the memory."""
        deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
        bomb = deflate.compress(bytes(1 << 20)) + deflate.flush(zlib.Z_SYNC_FLUSH)
        part = websocket.frame(websocket.TEXT, b' ' * 1000, is_final=False)
        more = websocket.frame(0, b' ' * 1000, is_final=False)
        sent = {
            'not-masked': login(is_masked=False),
            'too-long': websocket.frame(websocket.TEXT, b' ' * TOO_LONG)[:14],
            # Up to the head of the one with which they are too long: nothing is unread when it is closed.
            'fragments-without-end': part + more * 60 + more[:8],
            'bomb': websocket.frame(websocket.TEXT, bomb[:-4], is_compressed=True),
            'no-deflate': websocket.frame(websocket.TEXT, b'\xff' * 20, is_compressed=True),
            'no-utf-8': websocket.frame(websocket.TEXT, b'"\xed\xa0\x80"'),
        }
        before = cls.closed()
        cls.codes = {name: cls.close_code(content) for name, content in sent.items()}
        cls.greedy_reasons = cls.since(before)
        cls.resident = [cls.p2ps.resident_bytes()]
        for content in sent.values():
            for _ in range(REPEATED):
                cls.close_code(content)
        cls.resident.append(cls.p2ps.resident_bytes())
        with cls.connect() as connection:
            no_json = websocket.frame(websocket.TEXT, b'{') + websocket.frame(websocket.TEXT, b'{"Type":"Ping"}')
            connection.sendall(cls.HELLO + cls.LOGIN + no_json)
            came = cls.answer(connection)
            while b'Pong' not in came:
                came += receive(connection, 1)
            cls.after_no_json = came

    @classmethod
    def close_code(cls, content):
        """The code of the close frame with which the server answers what is sent behind an upgrade."""
        frames, data = websocket.Frames(), b''
        with cls.connect() as connection:
            connection.sendall(cls.COMPRESSING + content)
            while part := connection.recv(1 << 16):
                data += part
        taken = frames.feed(data.partition(b'\r\n\r\n')[2])
        (payload,) = [payload for kind, payload in taken if kind == websocket.CLOSE]
        return struct.unpack_from('>H', payload)[0]

    def test_what_is_not_allowed_is_closed_with_its_code_and_for_its_reason(self):
        self.assertEqual(self.codes, CLOSE_CODES)
        reasons = {'frame': 1, 'message_length': 3, 'deflate': 1, 'utf8': 1}
        wanted = {'websocket_closed_%s_total' % reason: count for reason, count in reasons.items()}
        self.assertEqual(self.greedy_reasons, wanted)

    def test_greed_takes_no_memory(self):
        self.assertLess(self.resident[1], self.resident[0] + SLACK_BYTES)

    def test_who_sends_what_is_no_json_is_told_and_stays(self):
        self.assertIn(b'"Type":"Error","Text":"JSON Parser error', self.after_no_json)


if __name__ == '__main__':
    unittest.main()
