"""A client that does not read: it is closed when its backlog is at its limit, and nobody else notices."""

import socket
import unittest

import expected
import rssl_bytes as rssl
from daemons import hold_until_ready, wait_at
from process import wait_until
from system_test import SystemTest

BACKLOG_BYTES = 262_144
CLOSED = 'rssl_closed_slow_consumer_total'


class SlowClient(SystemTest):
    @classmethod
    def scenario(cls):
        cls.system_ = cls.system()
        cls.distributor = cls.system_.source_distributor()
        cls.p2ps = cls.system_.p2ps(sets={'p2ps.rssl.backlog_max_bytes': BACKLOG_BYTES})
        cls.feed = cls.system_.feed(speed='15', delay_ms=3000)
        cls.good = cls.system_.native(cls.p2ps)
        hold_until_ready(cls.feed, cls.distributor, [cls.good])
        slow = cls.subscribe_to_all()
        cls.closed_before = cls.p2ps.metrics()[CLOSED]
        wait_until(lambda: cls.is_closed(slow), 'the client that does not read is closed', [cls.p2ps, cls.feed])
        cls.was_playing = cls.feed.metrics()['feed_rounds_total'] == 0
        cls.feed.wait_played()
        wait_at([cls.good], cls.system_.wait_right(cls.p2ps))
        cls.metrics = cls.p2ps.metrics()

    @classmethod
    def subscribe_to_all(cls):
        slow = socket.socket()
        cls.addClassCleanup(slow.close)
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(('127.0.0.1', cls.p2ps.port))
        requests = [
            rssl.item_request(name.encode(), stream, domain)
            for stream, (name, domain) in enumerate(expected.ITEMS, start=5)
        ]
        slow.sendall(rssl.connect_request())
        slow.sendall(b''.join(map(rssl.frame, [rssl.login_request(), *requests])))
        return slow

    @classmethod
    def is_closed(cls, slow):
        try:
            slow.send(rssl.PING)
        except OSError:
            pass
        return cls.p2ps.metrics()[CLOSED] > cls.closed_before

    def test_it_was_closed_for_its_backlog_while_the_market_was_played(self):
        self.assertTrue(self.was_playing)
        self.assertEqual(self.metrics[CLOSED] - self.closed_before, 1)
        self.assertLessEqual(self.metrics['rssl_backlog_high_water_bytes'], BACKLOG_BYTES)

    def test_the_other_client_saw_everything_in_order_and_ends_right(self):
        self.assertEqual(len(self.good.seen('connected')), 1)
        self.assert_finished_well(self.good)

    def test_it_has_made_no_other_client_conflated(self):
        self.assertEqual(self.metrics['p2ps_clients_conflated'], 0)


if __name__ == '__main__':
    unittest.main()
