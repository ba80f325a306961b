"""P2PSs that are slower than the market: providers slow down, nothing is lost; one that is too slow holds nobody up.

How slow a P2PS is, is configured or is the work of a signal; nothing here depends on how quick the machine is.
"""

import os
import signal
import time
import unittest

from daemons import hold_until_ready, wait_at
from process import wait_until
from system_test import SystemTest

# The recording is 14.6 MB of stream messages in 120 s: SPEED times as quick it is 1.5 times what the slow one takes.
SPEED = 3
SLOW_BYTES_PER_S = 243_000
LOST = 'p2ps_messages_lost_total', 'p2ps_gaps_total', 'p2ps_intake_dropped_total'


def flow(window_bytes, floor, patience_ms=1000):
    keys = {'window_bytes': window_bytes, 'rate_floor_bytes_per_second': floor, 'patience_ms': patience_ms}
    return {'source_distributor.flow.' + key: value for key, value in keys.items()}


class OneAndAHalfTimesCapacity(SystemTest):
    """One of two P2PSs takes two thirds of what comes, for a minute."""

    @classmethod
    def scenario(cls):
        system = cls.system()
        cls.distributor = system.source_distributor(sets=flow(262_144, 1_000))
        rate = {'p2ps.intake_rate_limit_bytes_per_second': SLOW_BYTES_PER_S}
        cls.slow, cls.fast = system.p2ps(sets=rate, name='slow'), system.p2ps(name='fast')
        cls.feed = system.feed(speed=str(SPEED), delay_ms=3000)
        for server in (cls.slow, cls.fast):
            system.wait_serving(server)
        cls.clients = [system.native(cls.slow, name='of-slow'), system.native(cls.fast, name='of-fast')]
        hold_until_ready(cls.feed, cls.distributor, cls.clients)
        began, worst = time.monotonic(), {}

        def is_over():
            cls.note(worst)
            return cls.feed.metrics()['feed_rounds_total'] >= 1

        wait_until(is_over, 'the recording is played', [cls.feed, cls.slow, cls.fast, cls.distributor], 300)
        cls.played_s = time.monotonic() - began
        for server, client in zip((cls.slow, cls.fast), cls.clients):
            wait_at([client], system.wait_right(server))
        cls.worst = worst
        sent = cls.distributor.metrics()['distributor_stream_bytes_out_total']
        print('\nplayed in %.1f s at speed %d, %d bytes, worst of the samples: %s' % (cls.played_s, SPEED, sent, worst))

    @classmethod
    def note(cls, worst):
        metrics = cls.slow.metrics()
        for key in ('p2ps_intake_bytes', 'p2ps_intake_delay_ns'):
            worst[key] = max(worst.get(key, 0), metrics[key])

    def test_providers_were_held_back_and_nobody_was_left_behind(self):
        metrics = self.distributor.metrics()
        self.assertGreater(metrics['distributor_provider_holds_total'], 0)
        self.assertGreater(metrics['distributor_providers_held_ns_total'], 0)
        self.assertGreater(metrics['distributor_progress_in_total'], 100)
        self.assertEqual(metrics['distributor_peers_left_behind_total'], 0)
        self.assertGreater(self.worst['p2ps_intake_bytes'], 100_000)

    def test_nothing_was_lost(self):
        for server in (self.slow, self.fast):
            with self.subTest(server=server.name):
                metrics = server.metrics()
                self.assertEqual([metrics[name] for name in LOST], [0, 0, 0])

    def test_every_client_ends_with_right_images_and_saw_all_updates_in_order(self):
        for client in self.clients:
            with self.subTest(client=client.name):
                self.assert_finished_well(client)


class OneStandsStill(SystemTest):
    """One of two P2PSs is stopped while the market is played, and goes on afterwards."""

    @classmethod
    def scenario(cls):
        system = cls.system()
        cls.distributor = system.source_distributor(sets=flow(262_144, 1_000))
        cls.stopped, cls.good = system.p2ps(name='stopped'), system.p2ps(name='good')
        cls.feed = system.feed(speed='20', delay_ms=3000)
        for server in (cls.stopped, cls.good):
            system.wait_serving(server)
        cls.clients = [system.native(cls.stopped, name='of-stopped'), system.native(cls.good, name='of-good')]
        hold_until_ready(cls.feed, cls.distributor, cls.clients)
        os.kill(cls.stopped.pid, signal.SIGSTOP)
        try:
            cls.distributor.wait_count('distributor_peers_left_behind_total', 1)
            cls.feed.wait_played()
            wait_at(cls.clients[1:], system.wait_right(cls.good))
            cls.status = cls.distributor.status()
        finally:
            os.kill(cls.stopped.pid, signal.SIGCONT)
        wait_at(cls.clients[:1], system.wait_right(cls.stopped))

    def test_it_is_named_and_the_others_go_on(self):
        flows = {flow['name']: flow['left_behind'] for flow in self.status['peer_flows']}
        self.assertEqual(flows, {'stopped': True, 'good': False})
        self.assertIn('name="stopped"', self.distributor.log())
        metrics = self.good.metrics()
        self.assertEqual([metrics[name] for name in LOST], [0, 0, 0])
        self.assert_finished_well(self.clients[1])

    def test_it_ends_right_when_it_goes_on(self):
        status, finals = self.clients[0].finish()
        self.assertEqual(status, 0)
        self.assert_final_images(finals)


if __name__ == '__main__':
    unittest.main()
