"""Thousands of items, more than a processor's caches hold: servers look ahead at what comes. Nothing is lost, late or out of order.

The provider is made by hand: its stream ids are small, far apart and extreme, its frames alone and packed, cut anywhere, some
too long to be looked at ahead.
"""

import random
import struct
import threading
import unittest

import rssl_bytes as rssl
from java_tools import numbered
from rssl_clients import RsslConsumer, RsslProvider
from system_test import SystemTest, repeat

ITEMS = 1_300
UPDATES = 12_000
FIRST = 5  # the consumer's stream of the first item
CLOSED = 600  # so that less than a thousand are left
FRAME_BYTES_MAX = 6_000
OPEN_OK, OPEN_SUSPECT = [1, 1], [1, 2]


def name(item):
    return b'NI.%d' % item


def content(value):
    """The bid as field 22: two decimals, four bytes."""
    return b'\x0c' + struct.pack('>I', value)


def value_of(message):
    """The bid is the last field."""
    return struct.unpack('>I', message.data[-4:])[0]


def stream_ids(rng):
    """One for each item, in no order: most are small, others extreme or far apart."""
    near = [*range(-500, 0), *range(1, 400)]
    extreme = [-(2**31), 2**31 - 1, -(2**31) + 1, 65_536, -65_536]
    far = [1_000_003 * n for n in range(1, ITEMS - len(near) - len(extreme) + 1)]
    ids = near + extreme + far
    rng.shuffle(ids)
    return ids


def update(stream, value, is_long):
    """A long one has a text of 2,500 bytes before its bid."""
    text = struct.pack('>hBH', 3, 0xFE, 2_500) + bytes([0x41]) * 2_500 if is_long else b''
    fields = text + struct.pack('>hB', 22, 5) + content(value)
    return rssl.update_of(stream, b'\x08' + struct.pack('>H', 2 if is_long else 1) + fields)


def framed(rng, messages):
    """The messages in frames, alone or packed."""
    rest, out = list(messages), []
    while rest:
        count = rng.choice((1, 1, 2, 10, 40))
        taken, rest = rest[:count], rest[count:]
        packed = b''.join(struct.pack('>H', len(message)) + message for message in taken)
        if count == 1 or len(packed) > FRAME_BYTES_MAX:
            out += map(rssl.frame, taken)
        else:
            out.append(rssl.frame(packed, 0x12))
    return b''.join(out)


class Watcher(RsslConsumer):
    """Keeps the bids that it gets, by item, and the last state of each."""

    def __init__(self, port):
        super().__init__(port)
        self.updates = {item: [] for item in range(ITEMS)}
        self.images, self.states, self.count = {}, {}, 0

    def _read(self):
        super()._read()
        for message in self.messages:
            item = message.stream - FIRST
            if message.domain != rssl.MARKET_PRICE:
                continue
            if message.state:
                self.states[item] = message.state[:2]
            if message.kind == 'UPDATE':
                self.updates[item].append(value_of(message))
                self.count += 1
            elif message.kind == 'REFRESH':
                self.images[item] = value_of(message)
                self.updates[item] = []
        # The login is what the base class waits for.
        self.messages = [message for message in self.messages if message.domain == rssl.LOGIN]

    def has_all(self, state):
        return len(self.states) == ITEMS and all(found == state for found in self.states.values())

    def last(self, item):
        """The bid as it is now."""
        return self.updates[item][-1] if self.updates[item] else self.images[item]


class Publisher:
    """A provider, what it has published last of each item, and all updates since the images."""

    def __init__(self, rng, port, first_value):
        self.rng, self.ids = rng, stream_ids(rng)
        self.value = first_value
        self.images, self.updates = {}, {item: [] for item in range(ITEMS)}
        self.provider = RsslProvider(port).wait_count(1, 1)
        images = []
        for item, stream in enumerate(self.ids):
            self.images[item] = self._next()
            images.append(rssl.item_refresh(name(item), stream, {22: content(self.images[item])}))
        self.provider.send(rssl.DIRECTORY_REFRESH, *images)

    def _next(self):
        self.value += 1
        return self.value

    def publish(self, count, items):
        """So many updates of some of the items, from a thread of its own, cut anywhere."""
        messages = []
        for _ in range(count):
            item, value = self.rng.choice(items), self._next()
            self.updates[item].append(value)
            messages.append(update(self.ids[item], value, self.rng.random() < 0.02))
        data = framed(self.rng, messages)

        def send():
            position = 0
            while position < len(data):
                end = position + self.rng.choice((1, 2, 3, 100, 5_000, 60_000))
                self.provider.socket.sendall(data[position:end])
                position = end

        thread = threading.Thread(target=send)
        thread.start()
        return thread

    def last(self, item):
        return self.updates[item][-1] if self.updates[item] else self.images[item]


class Many:
    """With one thread in the P2PS, and with shards."""

    SHARDS = 1

    @classmethod
    def scenario(cls):
        cls.rng = random.Random(repeat.seeds(range(1, 2))[0])
        cls.system_ = cls.system()
        cls.distributor = cls.system_.source_distributor(sets=numbered('NI_PUB', 1))
        cls.p2ps = cls.system_.p2ps(sets={'p2ps.shards': cls.SHARDS})
        publisher = Publisher(cls.rng, cls.system_.provider_port, 0)
        cls.addClassCleanup(publisher.provider.close)
        cls.system_.wait_serving(cls.p2ps, 'NI_PUB')
        cls.watcher = watcher = Watcher(cls.p2ps.port).wait_count(1, 1)
        cls.addClassCleanup(watcher.close)
        watcher.send(*(rssl.item_request(name(item), FIRST + item) for item in range(ITEMS)))
        watcher.wait(lambda: watcher.has_all(OPEN_OK), 'all images')
        cls.steady = cls.differences(publisher, watcher, UPDATES, range(ITEMS))
        cls.distributor.kill()
        publisher.provider.close()
        watcher.wait(lambda: watcher.has_all(OPEN_SUSPECT), 'all are suspect')
        cls.distributor.restart()
        publisher = Publisher(cls.rng, cls.system_.provider_port, publisher.value)
        cls.addClassCleanup(publisher.provider.close)
        watcher.wait(lambda: watcher.has_all(OPEN_OK), 'all are back')
        cls.restarted = cls.differences(publisher, watcher, UPDATES, range(ITEMS))
        cls.single = cls.one_by_one(publisher, watcher)
        watcher.send(*(rssl.close(stream=FIRST + item) for item in range(CLOSED)))
        cls.fewer = cls.differences(publisher, watcher, UPDATES, range(CLOSED, ITEMS))
        cls.single += cls.one_by_one(publisher, watcher)

    @classmethod
    def one_by_one(cls, publisher, watcher):
        rounds = (cls.differences(publisher, watcher, 1, range(CLOSED, ITEMS)) for _ in range(20))
        return [difference for found in rounds for difference in found]

    @classmethod
    def differences(cls, publisher, watcher, count, items):
        """Publishes so many updates, and waits until they have come: items of which other ones have come."""
        before = watcher.count
        sender = publisher.publish(count, list(items))
        watcher.wait(lambda: watcher.count >= before + count, '%d more updates' % count)
        sender.join()
        return [
            (item, watcher.updates[item], publisher.updates[item])
            for item in items
            if watcher.updates[item] != publisher.updates[item] or watcher.last(item) != publisher.last(item)
        ]

    def test_every_update_comes_once_and_in_order(self):
        self.assertEqual(self.steady, [])

    def test_the_same_after_a_restart_with_other_stream_ids(self):
        self.assertEqual(self.restarted, [])

    def test_the_same_when_few_items_are_left(self):
        self.assertEqual(self.fewer, [])

    def test_one_update_alone_waits_for_no_other(self):
        self.assertEqual(self.single, [])

    def test_nothing_was_lost_or_refused(self):
        metrics = self.p2ps.metrics()
        self.assertEqual(metrics.nonzero('p2ps_(messages_lost|messages_refused|updates_stale)_total'), {})
        self.assertEqual(self.distributor.metrics()['distributor_messages_refused_total'], 0)


@repeat.printed
class OneThread(Many, SystemTest):
    pass


@repeat.printed
class Shards(Many, SystemTest):
    SHARDS = 2


if __name__ == '__main__':
    unittest.main()
