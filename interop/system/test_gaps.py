"""Loss that cannot be repaired: the source retransmits nothing, every receiver drops 1 %."""

import unittest

from daemons import hold_until_ready, wait_at
from network import Network, lab
from system_test import SystemTest, needs_root, repeat

LOSS_PERCENT = 1
SOURCE, SERVER, CLIENTS = 1, 2, 3  # hosts
NO_RETRANSMISSION = {'messaging.lbtrm.retransmit_rate_limit_bits_per_second': 0}


@needs_root
@repeat.printed
class NoRetransmission(SystemTest):
    @classmethod
    def scenario(cls):
        cls.lab = lab(3)
        cls.addClassCleanup(cls.lab.down)
        system = cls.system(Network(cls.lab))
        cls.distributor = system.source_distributor(SOURCE, sets=NO_RETRANSMISSION)
        cls.p2ps = system.p2ps(SERVER)
        cls.feed = system.feed(SOURCE, speed='25', delay_ms=4000)
        # Who comes before the server knows the service is told so, and the statuses are judged.
        system.wait_serving(cls.p2ps)
        names = '6:BTCUSDT', '8:BTCUSDT'
        expect = [word for name in names for word in ('--expect-status', name + '=Ok,Suspect,Ok')]
        cls.java = system.java(cls.p2ps, CLIENTS, options=expect)
        cls.native = system.native(cls.p2ps, CLIENTS)
        cls.clients = [cls.java, cls.native]
        hold_until_ready(cls.feed, cls.distributor, cls.clients)
        cls.lab.drop(LOSS_PERCENT, [SERVER])
        cls.feed.wait_played()
        wait_at(cls.clients, system.wait_right(cls.p2ps, CLIENTS))

    def test_final_images_are_right_and_no_update_is_seen_behind_a_hole(self):
        for client in self.clients:
            with self.subTest(client=client.name):
                self.assert_finished_well(client)

    def test_clients_saw_suspect_and_then_ok(self):
        for client in self.clients:
            for key, item in client.items.items():
                with self.subTest(client=client.name, item=key):
                    after_first_ok = item.states[item.states.index('Ok') :]
                    self.assertIn('Suspect', after_first_ok)
                    self.assertEqual(after_first_ok[-1], 'Ok')

    def test_the_statuses_say_why(self):
        for client in self.clients:
            with self.subTest(client=client.name):
                states = [event['state'] for event in client.seen('status')]
                codes = {s['code'].lower().replace(' ', '') for s in states if s['data'] == 'Suspect'}
                self.assertEqual(codes, {'gapdetected'})

    def test_what_was_lost_is_counted(self):
        metrics = self.p2ps.metrics()
        dropped = self.lab.counters()[SERVER]['dropped']
        self.assertGreater(dropped, 50)
        self.assertGreater(metrics['p2ps_gaps_total'], 10)
        self.assertGreater(metrics['p2ps_messages_lost_total'], 50)
        self.assertGreater(metrics['lbm_delivery_msgs_lost_total'], 50)
        self.assertEqual(metrics['lbtrm_receiver_recovered_total'], 0)
        self.assertEqual(metrics['p2ps_items_suspect'], 0)

    def test_nothing_was_retransmitted(self):
        self.assertEqual(self.distributor.metrics()['lbtrm_source_rxs_sent_total'], 0)


if __name__ == '__main__':
    unittest.main()
