"""Clients that want fewer updates, or cannot take them all: each ends with the right images, the others get everything."""

import unittest

from daemons import hold_until_ready, wait_at
from process import wait_until
from system_test import SystemTest

SETS = {
    'p2ps.conflated_intervals_ms': [200, 500],
    'p2ps.conflate_above_bytes': 400_000,
    'p2ps.conflate_above_ms': 2_000,
    # A client that stands still says nothing.
    'p2ps.rssl.ping_timeout_min_s': 250,
    'p2ps.rssl.ping_timeout_max_s': 250,
}


class Rates(SystemTest):
    SETS = {}

    @classmethod
    def scenario(cls):
        cls.system_ = cls.system()
        cls.distributor = cls.system_.source_distributor()
        cls.p2ps = cls.system_.p2ps(sets=SETS | cls.SETS)
        cls.feed = cls.system_.feed(speed='8', delay_ms=3000)
        cls.fast = cls.system_.native(cls.p2ps)
        conflated = {'is_conflated': True}
        websocket = ['--websocket', '--rate', '2']
        cls.paced = [
            cls.system_.native(cls.p2ps, name='rate', options=['--rate', '2'], **conflated),
            cls.system_.native('127.0.0.1:%d' % cls.p2ps.websocket_port, name='websocket', options=websocket, **conflated),
            cls.system_.java(cls.p2ps, name='ema', options=['--conflated', '500'], **conflated),
        ]
        cls.frozen = cls.system_.java(cls.p2ps, name='frozen', **conflated)
        hold_until_ready(cls.feed, cls.distributor, [cls.fast, *cls.paced, cls.frozen])
        cls.frozen.hold()
        is_conflated = lambda: cls.p2ps.metrics()['p2ps_clients_conflated'] == 1
        wait_until(is_conflated, 'the updates of the frozen client are conflated', [cls.p2ps, cls.feed])
        cls.feed.wait_played()
        cls.while_frozen = cls.p2ps.metrics()
        cls.frozen.go_on()
        wait_at([cls.fast, *cls.paced, cls.frozen], cls.system_.wait_right(cls.p2ps))
        is_tick = lambda: cls.p2ps.metrics()['p2ps_clients_conflated'] == 0
        wait_until(is_tick, 'every update is sent to it again', [cls.p2ps])
        cls.metrics = cls.p2ps.metrics()

    def test_who_wants_every_update_gets_it_in_order(self):
        self.assertEqual(len(self.fast.seen('connected')), 1)
        self.assert_finished_well(self.fast)

    def test_who_wants_two_a_second_gets_fewer_and_ends_right(self):
        for client in self.paced:
            with self.subTest(client=client.name):
                assert_ends_right(self, client)
                most = max(item.updates for item in client.items.values())
                all_of_them = max(item.updates for item in self.fast.items.values())
                self.assertGreater(most, 0)
                self.assertLess(most, all_of_them / 4)

    def test_who_stood_still_is_not_disconnected_and_ends_right(self):
        assert_ends_right(self, self.frozen)
        self.assertEqual(self.metrics['rssl_closed_slow_consumer_total'], 0)
        self.assertEqual(self.while_frozen['p2ps_clients_conflated'], 1)
        self.assertGreater(self.metrics['p2ps_conflations_ended_total'], 0)


class Service(SystemTest):
    """A service that clients get twice a second at most, whatever they ask for."""

    @classmethod
    def scenario(cls):
        cls.system_ = cls.system()
        cls.distributor = cls.system_.source_distributor()
        rate = '[{ service = "BINANCE", update_interval_ms = 500 }]'
        cls.p2ps = cls.system_.p2ps(sets={'p2ps.service_rate': rate, 'p2ps.conflated_intervals_ms': '[200, 1000]'})
        cls.feed = cls.system_.feed(speed='8', delay_ms=3000)
        cls.clients = [
            cls.system_.native(cls.p2ps, is_conflated=True),
            cls.system_.native(
                '127.0.0.1:%d' % cls.p2ps.websocket_port, name='websocket', options=['--websocket'], is_conflated=True
            ),
        ]
        hold_until_ready(cls.feed, cls.distributor, cls.clients)
        cls.feed.wait_played()
        wait_at(cls.clients, cls.system_.wait_right(cls.p2ps))

    def test_they_get_fewer_and_end_right(self):
        for client in self.clients:
            with self.subTest(client=client.name):
                assert_ends_right(self, client)
                most = max(item.updates for item in client.items.values())
                self.assertGreater(most, 0)
                # Each update has a number.
                self.assertLess(most, max(client.positions().values()) / 4)


class Narrow(SystemTest):
    """Clients of a class that has a rate in bytes: they are conflated, and end right; the others get everything."""

    @classmethod
    def scenario(cls):
        cls.system_ = cls.system()
        cls.distributor = cls.system_.source_distributor()
        one = '{ name = "narrow", users = ["narrow-*"], bytes_per_second = 32_768 }'
        cls.p2ps = cls.system_.p2ps(sets={'p2ps.class': '[%s]' % one})
        cls.feed = cls.system_.feed(speed='16', delay_ms=3000)
        cls.fast = cls.system_.native(cls.p2ps)
        options, conflated = ['--user', 'narrow-1'], {'is_conflated': True}
        websocket = ['--websocket', '--user', 'narrow-2']
        cls.narrow = [
            cls.system_.native(cls.p2ps, name='narrow', options=options, **conflated),
            cls.system_.native('127.0.0.1:%d' % cls.p2ps.websocket_port, name='websocket', options=websocket, **conflated),
        ]
        hold_until_ready(cls.feed, cls.distributor, [cls.fast, *cls.narrow])
        cls.feed.wait_played()
        cls.metrics = cls.p2ps.metrics()
        wait_at([cls.fast, *cls.narrow], cls.system_.wait_right(cls.p2ps))

    def test_who_has_no_rate_gets_every_update_in_order(self):
        self.assert_finished_well(self.fast)

    def test_who_has_one_is_conflated_and_ends_right(self):
        self.assertGreaterEqual(self.metrics['p2ps_conflations_begun_total'], 2)
        for client in self.narrow:
            with self.subTest(client=client.name):
                assert_ends_right(self, client)
                most = max(item.updates for item in client.items.values())
                self.assertLess(most, max(item.updates for item in self.fast.items.values()))


def assert_ends_right(test, client):
    status, finals = client.finish()
    reasons = (getattr(client, 'result', None) or {}).get('reasons')
    test.assertEqual((status, client.faults()), (0, {}), reasons)
    test.assert_final_images(finals)


if __name__ == '__main__':
    unittest.main()
