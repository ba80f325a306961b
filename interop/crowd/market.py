"""A market of numbered updates over RSSL, and the check of what a consumer gets of it.

Each update of an item has the next number, a check value made of number and item, and the time at which it was due.
So a consumer knows a value that is missing, doubled, old or damaged, and how late it is. Service `NI_PUB` (7), items
`NI.0` to `NI.<n - 1>`, fields BID (number), ASK (check), BIDSIZE (microseconds).
"""

import os
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, '..', 'system')]
import rssl_bytes as rssl

SERVICE = 7
NUMBER, CHECK, DUE = 22, 25, 30
EXPONENT_0 = b'\x0e'


class Wrong(Exception):
    """A consumer has got what was not sent, or not what was."""


def name(item):
    return b'NI.%d' % item


def check(item, number):
    return (number * 2654435761 + item * 40503) & 0x7FFFFFFF


def fields(item, number, due_us):
    values = {NUMBER: number, CHECK: check(item, number), DUE: due_us}
    return {field: EXPONENT_0 + struct.pack('>q', value) for field, value in values.items()}


def stream(item):
    """That of the provider."""
    return -1 - item


def image(item, number):
    return rssl.item_refresh(name(item), stream(item), fields(item, number, 0), SERVICE)


def update(item, number, due_us):
    return rssl.update_of(stream(item), rssl.field_list(fields(item, number, due_us)))


def request(item, to_stream):
    return rssl.item_request(name(item), to_stream, service=SERVICE)


def values(payload):
    """{field: value} of a field list of these fields; those that are not REAL of exponent 0 are left out."""
    flags, position = payload[0], 1
    if flags & 1:
        position += 1 + payload[position]
    if not flags & 8:
        return {}
    (count,) = struct.unpack_from('>H', payload, position)
    position += 2
    found = {}
    for _ in range(count):
        field, length = struct.unpack_from('>hB', payload, position)
        content = payload[position + 3 : position + 3 + length]
        position += 3 + length
        if content[:1] == EXPONENT_0:
            found[field] = int.from_bytes(content[1:], 'big', signed=True)
    return found


class Items:
    """What a consumer knows of its streams: {stream: item}; each message is compared with what must come."""

    def __init__(self, streams):
        self.streams, self.numbers = streams, {}
        self.updates = self.images = 0
        self.statuses = []

    def see(self, message, data):
        """`message` is the header of `data`. The time at which an update was due, in microseconds, or None."""
        item = self.streams.get(message.stream)
        if item is None or message.domain != rssl.MARKET_PRICE:
            return None
        if message.kind == 'STATUS' or message.kind == 'REFRESH' and message.state[1] != 1:
            self.statuses.append((item, message.state))
            if message.state and message.state[0] != 1:
                del self.streams[message.stream]
                self.numbers.pop(item, None)
            return None
        if message.kind not in ('REFRESH', 'UPDATE'):
            return None
        (header_bytes,) = struct.unpack_from('>H', data)
        found = values(data[2 + header_bytes :])
        number = found.get(NUMBER)
        if number is None or found.get(CHECK) != check(item, number):
            raise Wrong('item %d: fields %s' % (item, found))
        last = self.numbers.get(item)
        if message.kind == 'REFRESH':
            if last is not None and number < last:
                raise Wrong('item %d: image %d behind %d' % (item, number, last))
            self.images += 1
        elif last is None or number != last + 1:
            raise Wrong('item %d: update %d behind %s' % (item, number, last))
        else:
            self.updates += 1
        self.numbers[item] = number
        return found[DUE] if message.kind == 'UPDATE' else None
