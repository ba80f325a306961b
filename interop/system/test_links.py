"""What P2PSs can do to a source distributor over their links: ask for much, report old positions, come and go."""

import re
import socket
import struct
import threading
import unittest

import rssl_bytes as rssl
from java_tools import numbered
from process import wait_until
from rssl_clients import PATIENCE_S, RsslConsumer, RsslProvider
from system_test import SystemTest
from test_backbone import Alive, hello

MARKET_BY_PRICE, MAP, ADD = 7, 9, 2
STREAM = 10
BOOKS, KEYS, KEYS_AT_A_TIME = 40, 800, 20
# 40 books of some 170 kB are twice of that.
LINK_MAX_BYTES = 3 << 20


def book(keys):
    """A map of so many entries of some 210 bytes."""
    fields = rssl.field_list({-1: b'z' * 200})
    entries = (bytes([ADD, len(key)]) + key + bytes([len(fields)]) + fields for key in keys)
    return struct.pack('>BBBH', 0, rssl.ASCII, rssl.FIELD_LIST, len(keys)) + b''.join(entries)


def published(number):
    """The messages that publish a book, part by part of what a connection takes in one frame."""
    name, stream = b'BOOK.%d' % number, -1000 - number
    keys = [b'%06d' % key for key in range(KEYS)]
    parts = [book(keys[at : at + KEYS_AT_A_TIME]) for at in range(0, KEYS, KEYS_AT_A_TIME)]
    rest = b'\x09\0\0\0' + rssl._key(0x03, b'\x07' + rssl._short(name))
    first = rssl.message(rssl.REFRESH, MARKET_BY_PRICE, stream, 0x48, MAP, rest, parts[0])
    return [first] + [rssl.message(rssl.UPDATE, MARKET_BY_PRICE, stream, 0, MAP, b'\0', part) for part in parts[1:]]


def publisher(system):
    """A provider that waits when it is held back."""
    provider = RsslProvider(system.provider_port).wait_count(1, 1)
    provider.socket.settimeout(PATIENCE_S)
    return Alive(provider)


class LargeImages(SystemTest):
    """A P2PS that begins when all books are there."""

    @classmethod
    def scenario(cls):
        system = cls.system()
        limit = {'messaging.request_tcp_send_buffer_maximum_bytes': LINK_MAX_BYTES}
        cls.distributor = system.source_distributor(sets={**numbered('NI_PUB', 1), **limit})
        provider = publisher(system)
        cls.addClassCleanup(provider.end)
        provider.send(rssl.DIRECTORY_REFRESH)
        for number in range(BOOKS):
            provider.send(*published(number))
        cls.distributor.wait_count('distributor_items', BOOKS)
        cls.distributor.wait_count('distributor_updates_in_total', BOOKS * (KEYS // KEYS_AT_A_TIME - 1))
        cls.server = system.p2ps(sets={'p2ps.silence_timeout_ms': 120_000, 'p2ps.image_timeout_ms': 120_000})
        system.wait_serving(cls.server, 'NI_PUB')
        client = RsslConsumer(cls.server.port).wait_count(1, 1)
        cls.addClassCleanup(client.close)
        requests = [rssl.item_request(b'BOOK.%d' % n, STREAM + n, MARKET_BY_PRICE) for n in range(BOOKS)]
        client.send(*requests)
        suspect = lambda: cls.server.metrics()['p2ps_items_suspect']
        has_all = lambda: cls.server.metrics()['p2ps_items'] == BOOKS and suspect() == 0
        wait_until(has_all, lambda: 'all images; %d are missing' % suspect(), [cls.server, cls.distributor])

    def test_images_larger_than_a_link_s_buffer_all_come_over_one_link(self):
        metrics = self.distributor.metrics()
        self.assertGreater(metrics['distributor_image_requests_deferred_total'], 0)
        self.assertEqual((metrics['distributor_peers_waiting'], metrics['distributor_peers']), (0, 1))
        self.assertEqual(self.server.log().count('link up'), 1)
        self.assertEqual(self.server.metrics()['p2ps_images_requested_total'], BOOKS)


class ComesAndGoes(SystemTest):
    """By hand, a P2PS that reports an old position, goes and comes, beside one that keeps up."""

    @classmethod
    def scenario(cls):
        system = cls.system()
        # A window of so many bytes is full within a part of a second, and the floor is above 0 bytes a second.
        flow = {'window_bytes': 65_536, 'rate_floor_bytes_per_second': 1, 'patience_ms': 2_000}
        sets = {'source_distributor.flow.' + key: value for key, value in flow.items()}
        cls.distributor = system.source_distributor(sets={**numbered('NI_PUB', 1), **sets})
        cls.provider = publisher(system)
        cls.addClassCleanup(cls.provider.end)
        cls.provider.send(rssl.DIRECTORY_REFRESH, rssl.ITEM_REFRESH)
        server = system.p2ps(sets={'p2ps.silence_timeout_ms': 120_000})
        system.wait_serving(server, 'NI_PUB')
        client = RsslConsumer(server.port).wait_count(1, 1)
        cls.addClassCleanup(client.close)
        client.send(rssl.item_request(b'NI.1', STREAM))
        client.wait(lambda: 'REFRESH' in [s[0] for s in client.of_stream(STREAM)], 'an image')
        cls.port = system.place.messaging['messaging.request_tcp_port_low']
        over = threading.Event()
        thread = threading.Thread(target=cls.publish, args=(over,), daemon=True)
        thread.start()
        try:
            link = cls.link()
            cls.distributor.wait_says('less than the floor')
            link.close()
            cls.behind = []
            for _ in range(3):
                cls.wait_peers(['p2ps'])
                with cls.link():
                    cls.wait_peers(['by hand', 'p2ps'])
                    # More than the window goes out meanwhile, so that they would be held back again.
                    sent = lambda: cls.distributor.metrics()['distributor_stream_bytes_out_total']
                    least = sent() + 10 * 65_536
                    wait_until(lambda: sent() >= least, 'updates go on', [cls.distributor])
                    flows = {flow['name']: flow['left_behind'] for flow in cls.distributor.status()['peer_flows']}
                    cls.behind.append(flows['by hand'])
        finally:
            over.set()
            thread.join(PATIENCE_S)

    @classmethod
    def wait_peers(cls, names):
        wait_until(lambda: sorted(cls.distributor.status()['peers']) == names, 'peers %s' % names, [cls.distributor])

    @classmethod
    def link(cls):
        """It has taken nothing of the stream."""
        link = socket.create_connection(('127.0.0.1', cls.port), PATIENCE_S)
        body = struct.pack('>BBH', 1, 10, 0) + struct.pack('>HQ', 1, 0)
        link.sendall(hello() + struct.pack('>HHII', 0, 12 + len(body), 0, 0) + body)
        return link

    @classmethod
    def publish(cls, over):
        while not over.is_set():
            cls.provider.send(*[rssl.ITEM_UPDATE] * 50)

    def test_a_link_whose_messages_cannot_be_told_apart_is_ended_in_order_and_the_log_says_why(self):
        with self.link() as link:
            # A length as of 1 MB, cut to its lower 16 bits, and so many bytes behind it.
            body = struct.pack('>BBH', 1, 10, 0) + struct.pack('>HQ', 1, 0xFFFF_FFFF_FFFF) * 100_000
            link.sendall(struct.pack('>HHII', 0, len(body) & 0xFFFF, 0, 0) + body)
            while link.recv(65_536):  # no reset, which would raise
                pass
        why = 'server gone peer=[0-9]+ reason="?LBMC message'
        wait_until(lambda: re.search(why, self.distributor.log()), 'the reason in the log', [self.distributor])

    def test_providers_are_held_back_for_it_once(self):
        self.assertEqual(self.behind, [True] * 3)
        told = [line for line in self.distributor.log().splitlines() if 'less than the floor' in line]
        self.assertEqual(len([line for line in told if 'by hand' in line]), 1, told)


if __name__ == '__main__':
    unittest.main()
