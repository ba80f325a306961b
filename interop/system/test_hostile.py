"""Slow, silent and many connections at a running P2PS: each case of the table in docs/hostile.md that needs sockets."""

import os
import resource
import socket
import struct
import time
import unittest

import rssl_bytes as rssl
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
SETS = {
    'connections_max': IDLE + UNHEARD,
    'connections_per_address_max': IDLE + UNHEARD,
    'handshake_timeout_ms': HANDSHAKE_MS,
    'login_timeout_ms': LOGIN_MS,
    'ping_timeout_min_s': 200,
    'ping_timeout_max_s': 250,
}
HELLO = rssl.connect_request()
LOGIN = rssl.frame(rssl.login_request(0))

# name: (what comes, what becomes of it), as the table has it.
CASES = {
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


def rows():
    """The table's rows of the running system: {name: (what comes, what becomes of it)}"""
    with open(os.path.join(ROOT, 'docs', 'hostile.md'), encoding='utf-8') as f:
        section = f.read().split('\n## The running system\n')[1].split('\n## ')[0]
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


class Hostile(SystemTest):
    @classmethod
    def scenario(cls):
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if most < DESCRIPTORS:
            raise unittest.SkipTest('%d descriptors are allowed, %d needed' % (most, DESCRIPTORS))
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, most))
        sets = {'p2ps.rssl.%s' % key: value for key, value in SETS.items()}
        cls.p2ps = cls.system().p2ps(sets=sets)
        cls.before = cls.p2ps.resident_bytes()
        cls.first = cls.idle()
        cls.second = cls.idle()
        cls.slow()

    @classmethod
    def connect(cls):
        return socket.create_connection(('127.0.0.1', cls.p2ps.port), 30)

    @classmethod
    def counted(cls, name):
        return cls.p2ps.metrics().sum(name, port='consumer')

    @classmethod
    def idle(cls):
        """(resident bytes with all connected, connections closed, whether another client is answered)"""
        closed_before = sum(cls.closed().values())
        connections = []
        while len(connections) < IDLE:
            batch = [cls.connect() for _ in range(BATCH)]
            for connection in batch:
                connection.sendall(HELLO + LOGIN)
            for connection in batch:
                frame_of(connection)  # the ack
                frame_of(connection)  # the login's answer
            connections += batch
        time.sleep((HANDSHAKE_MS + LOGIN_MS) / 1000 + 1)  # whoever is not logged in would be closed
        closed = sum(cls.closed().values()) - closed_before
        resident_bytes = cls.p2ps.resident_bytes()
        with cls.connect() as other:
            other.sendall(HELLO + LOGIN)
            frame_of(other)
            served = frame_of(other)
        for connection in connections:
            connection.close()
        wait_until(
            lambda: cls.counted('rssl_active') == 0,
            lambda: '%d active connections, over: %s' % (cls.counted('rssl_active'), cls.closed()),
            [cls.p2ps],
            CLOSED_WITHIN_S,
        )
        return resident_bytes, closed, served

    @classmethod
    def closed(cls):
        return cls.p2ps.metrics().nonzero(r'rssl_closed_\w+_total', port='consumer')

    @classmethod
    def slow(cls):
        before = cls.closed()
        unheard = [cls.connect() for _ in range(UNHEARD)]
        kinds = {
            'handshake-drips': (b'', HELLO),
            'login-never': (HELLO, b''),
            'login-drips': (HELLO, LOGIN),
        }
        slow = {name: cls.connect() for name in kinds}
        for name, (at_once, _) in kinds.items():
            slow[name].sendall(at_once)
        for at in range(8):
            time.sleep(0.3)
            for name, (_, later) in kinds.items():
                slow[name].sendall(later[at : at + 1])
        everything = unheard + list(slow.values())
        wait_until(
            lambda: all(map(is_closed, everything)),
            lambda: '%d of %d closed' % (sum(map(is_closed, everything)), len(everything)),
            [cls.p2ps],
            CLOSED_WITHIN_S,
        )
        after = cls.closed()
        cls.reasons = {name: count - before.get(name, 0) for name, count in after.items()}
        for connection in everything:
            connection.close()

    def test_the_table_has_these_cases(self):
        self.assertEqual(rows(), CASES)

    def test_ten_thousand_idle_connections_stay(self):
        resident_bytes, closed, served = self.first
        self.assertEqual(closed, 0)
        self.assertLess((resident_bytes - self.before) / IDLE, IDLE_BYTES_MAX)
        self.assertGreater(len(served), 50)

    def test_the_second_ten_thousand_take_no_more_memory(self):
        self.assertEqual(self.second[1], 0)
        self.assertLess(self.second[0], self.first[0] + SLACK_BYTES)

    def test_the_silent_and_the_slow_are_closed_for_their_reason(self):
        closed = {name: count for name, count in self.reasons.items() if count}
        self.assertEqual(closed.get('rssl_closed_handshake_timeout_total'), UNHEARD + 1, closed)
        self.assertEqual(sum(closed.values()), UNHEARD + 3, closed)


if __name__ == '__main__':
    unittest.main()
