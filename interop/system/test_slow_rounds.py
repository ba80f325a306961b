"""Clients behind a line that is too narrow even for the newest values: they are sent rounds, come up again when the line
is wider, and end with the right images; the others get everything."""

import unittest

from daemons import hold_until_ready, wait_at
from process import wait_until
from system_test import SystemTest
from test_rates import assert_ends_right
from throttle import Throttle

BYTES_PER_SECOND = 12_000
SETS = {
    'p2ps.conflate_above_bytes': 400_000,
    'p2ps.conflate_above_ms': 2_000,
    'p2ps.conflated_room_bytes': 16_384,
    'p2ps.interval_above_ms': 2_500,
    'p2ps.interval_max_ms': 4_000,
    # What a socket holds is not seen to wait.
    'p2ps.rssl.unsent_max_bytes': 16_384,
    'p2ps.websocket.unsent_max_bytes': 16_384,
}


class Rounds(SystemTest):
    @classmethod
    def scenario(cls):
        cls.system_ = cls.system()
        cls.distributor = cls.system_.source_distributor()
        cls.p2ps = cls.system_.p2ps(sets=SETS)
        cls.feed = cls.system_.feed(speed='8', delay_ms=3000)
        cls.fast = cls.system_.native(cls.p2ps)
        cls.lines = [Throttle(port, BYTES_PER_SECOND) for port in (cls.p2ps.port, cls.p2ps.websocket_port)]
        for line in cls.lines:
            cls.addClassCleanup(line.close)
        rssl, websocket = [line.address for line in cls.lines]
        cls.narrow = [
            cls.system_.native(rssl, name='narrow', is_conflated=True),
            cls.system_.native(websocket, name='websocket', options=['--websocket'], is_conflated=True),
        ]
        hold_until_ready(cls.feed, cls.distributor, [cls.fast, *cls.narrow])
        cls.begun, cls.steps, cls.intervals = 0, set(), set()
        wait_until(cls.have_both_begun, 'both clients are sent rounds', [cls.p2ps, cls.feed])
        cls.feed.wait_played()
        cls.look()
        for line in cls.lines:
            line.lift()
        wait_at([cls.fast, *cls.narrow], cls.system_.wait_right(cls.p2ps))
        is_tick = lambda: cls.p2ps.metrics()['p2ps_clients_conflated'] == 0
        wait_until(is_tick, 'every update is sent to them again', [cls.p2ps])
        cls.metrics = cls.p2ps.metrics()

    @classmethod
    def look(cls):
        for client in cls.p2ps.status()['clients']:
            cls.steps.add((client['protocol'], client['step']))
            if client['step'] == 'interval':
                cls.intervals.add(client['connection']['round_interval_ms'])

    @classmethod
    def have_both_begun(cls):
        cls.look()
        return {('rssl', 'interval'), ('websocket', 'interval')} <= cls.steps

    def test_who_is_not_behind_the_line_gets_every_update_in_order(self):
        self.assertEqual(len(self.fast.seen('connected')), 1)
        self.assert_finished_well(self.fast)

    def test_both_protocols_come_to_the_step_and_back(self):
        self.assertGreaterEqual(self.metrics['p2ps_intervals_begun_total'], 2)
        self.assertEqual(self.metrics['p2ps_intervals_begun_total'], self.metrics['p2ps_intervals_ended_total'])
        self.assertEqual(self.metrics['p2ps_clients_at_interval'], 0)
        self.assertTrue(self.intervals <= set(range(250, 4_001)), self.intervals)

    def test_they_end_right_and_are_not_disconnected(self):
        for client in self.narrow:
            with self.subTest(client=client.name):
                self.assertEqual(len(client.seen('connected')), 1)
                assert_ends_right(self, client)
                most = max(item.updates for item in client.items.values())
                self.assertLess(most, max(item.updates for item in self.fast.items.values()))


if __name__ == '__main__':
    unittest.main()
