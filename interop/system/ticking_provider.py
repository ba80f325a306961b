#!/usr/bin/env python3
"""A non-interactive provider by hand that says of each update when it was made.

  ticking_provider.py INTERVAL_MS ITEMS HOST:PORT [HOST:PORT ...]

It publishes the service NI_PUB with so many items, T0, T1, ..., at each of the servers, over a connection each. At
every interval it sends an update of each item. The sequence number of an update is the time at which it was made, by
CLOCK_MONOTONIC in milliseconds: who reads it on the same machine knows how old it is. A connection that is lost, or on
which nothing was heard for its ping time-out, is made again.
"""

import select
import signal
import socket
import struct
import sys
import time

import rssl_bytes as rssl

PING_TIMEOUT_S = 2
CONNECT_TIMEOUT_S = 1
RETRY_S = 0.05
# More than that does not wait for a server that takes nothing: it misses updates then.
UNSENT_MAX_BYTES = 1 << 16
READ_BYTES = 1 << 16
SEQUENCE_MAX = 0xFFFFFFFF
BID = 22


def now_ms():
    return int(time.monotonic() * 1000) & SEQUENCE_MAX


def item(number):
    return 'T%d' % number


def image(number):
    """The image of an item; its stream is its number, below zero."""
    key = rssl._key(0x03, bytes([7]) + rssl._short(item(number).encode()))
    rest = struct.pack('>I', now_ms()) + b'\x09\0\0\0' + key
    fields = rssl.field_list({BID: _price(number)})
    return rssl.message(rssl.REFRESH, rssl.MARKET_PRICE, -2 - number, 0x58, rssl.FIELD_LIST, rest, fields)


def _price(value):
    return b'\x0c' + struct.pack('>I', value)


class Updates:
    """An update of each item in one run of bytes, in which numbers and values are changed in place."""

    def __init__(self, count):
        self.bytes, self.places = bytearray(), []
        for number in range(count):
            rest = b'\0' + bytes(4)
            fields = rssl.field_list({BID: _price(0)})
            message = rssl.message(
                rssl.UPDATE, rssl.MARKET_PRICE, -2 - number, 0x10, rssl.FIELD_LIST, rest, fields
            )
            frame = rssl.frame(message)
            # Behind the header's length, class, domain, stream, flags, container and type of the update.
            self.places.append((len(self.bytes) + 3 + 2 + 9, len(self.bytes) + len(frame) - 4))
            self.bytes += frame

    def made_now(self):
        at = now_ms()
        for sequence, value in self.places:
            struct.pack_into('>I', self.bytes, sequence, at)
            struct.pack_into('>I', self.bytes, value, at)
        return bytes(self.bytes)


class Connection:
    """A connection to one server, made again and again."""

    def __init__(self, host, items):
        name, _, port = host.partition(':')
        self.address, self.items = (name, int(port)), items
        self.socket, self.is_open, self.unsent, self.until = None, False, b'', 0.0

    def turn(self, now):
        if self.socket is None and now >= self.until:
            self.socket = socket.socket()
            self.socket.setblocking(False)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.is_open, self.unsent, self.until = False, b'', now + CONNECT_TIMEOUT_S
            self.socket.connect_ex(self.address)
        elif self.socket is not None and now >= self.until:
            self.lose(now)

    def lose(self, now):
        self.socket.close()
        self.socket, self.is_open, self.until = None, False, now + RETRY_S

    def on_writable(self, now):
        if not self.is_open:
            if self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                return self.lose(now)
            self.is_open, self.until = True, now + PING_TIMEOUT_S
            greeting = [rssl.login_request(1, b'ticking'), rssl.DIRECTORY_REFRESH, *map(image, range(self.items))]
            self.unsent = rssl.connect_request(ping_timeout_s=PING_TIMEOUT_S)
            self.unsent += b''.join(map(rssl.frame, greeting))
        self._send(now)

    def on_readable(self, now):
        try:
            heard = self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            heard = b''
        if heard:
            self.until = now + PING_TIMEOUT_S
        else:
            self.lose(now)

    def send(self, now, data):
        if self.is_open and len(self.unsent) < UNSENT_MAX_BYTES:
            self.unsent += data
            self._send(now)

    def _send(self, now):
        try:
            self.unsent = self.unsent[self.socket.send(self.unsent) :] if self.unsent else b''
        except BlockingIOError:
            pass
        except OSError:
            self.lose(now)


def main(argv):
    try:
        interval_s, items, hosts = float(argv[0]) / 1000, int(argv[1]), argv[2:]
        if not 0 < interval_s <= 60 or not 1 <= items <= 10_000 or not hosts:
            raise ValueError
    except (IndexError, ValueError):
        print(__doc__, file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    connections, updates = [Connection(host, items) for host in hosts], Updates(items)
    due = time.monotonic()
    while True:
        now = time.monotonic()
        if now >= due:
            data = updates.made_now()
            for each in connections:
                if each.socket is not None:
                    each.send(now, data)
            # One that was stopped does not make up for it.
            due = max(due + interval_s, now)
        for each in connections:
            each.turn(now)
        there = {each.socket.fileno(): each for each in connections if each.socket is not None}
        poll = select.poll()
        for number, each in there.items():
            poll.register(number, select.POLLIN | (select.POLLOUT if each.unsent or not each.is_open else 0))
        for number, event in poll.poll(max(0.0, min(due - now, RETRY_S)) * 1000):
            each = there[number]
            if event & select.POLLIN or event & (select.POLLHUP | select.POLLERR) and each.is_open:
                each.on_readable(now)
            elif event & (select.POLLOUT | select.POLLHUP | select.POLLERR):
                each.on_writable(now)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
