"""A P2PS of several threads: its clients see one server, whatever happens behind it."""

import socket
import unittest

import rssl_bytes as rssl
from daemons import hold_until_ready, wait_at
from java_tools import numbered
from process import WATCHDOG_S, wait_until
from rssl_clients import RsslConsumer, RsslProvider
from system_test import SystemTest
from websocket_bytes import JsonClient

SHARDS = 3


class Market(SystemTest):
    """Clients of every kind on three shards, while a market is played and the source distributor is killed."""

    @classmethod
    def scenario(cls):
        system = cls.system()
        cls.distributor = system.source_distributor()
        cls.p2ps = system.p2ps(sets={'p2ps.shards': SHARDS})
        cls.feed = system.feed(speed='8', delay_ms=3000)
        cls.clients = [system.java(cls.p2ps), *(system.native(cls.p2ps, name='native-%d' % n) for n in range(5))]
        hold_until_ready(cls.feed, cls.distributor, cls.clients)
        cls.status = cls.p2ps.status()
        cls.distributor.kill()
        suspect = lambda client: all('Suspect' in item.states for item in client.look().items.values())
        for client in cls.clients:
            wait_until(lambda: suspect(client), '%s says Suspect' % client.name, [client])
        cls.distributor.restart()
        cls.feed.wait_played()
        wait_at(cls.clients, system.wait_right(cls.p2ps))
        cls.metrics = cls.p2ps.metrics()
        cls.stream_messages = cls.metrics.sum('p2ps_stream_messages_in_total', shard='relay')

    def test_clients_are_spread_over_the_shards(self):
        shards = self.status['shards']
        self.assertEqual([shard['shard'] for shard in shards], list(range(SHARDS)))
        self.assertEqual([shard['connections'] for shard in shards], [2] * SHARDS)
        ids = [client['id'] for client in self.status['clients']]
        self.assertEqual(sorted({client >> 32 for client in ids}), list(range(SHARDS)))
        self.assertEqual((len(set(ids)), self.status['page']['total']), (6, 6))

    def test_each_item_is_asked_for_once(self):
        self.assertEqual(self.distributor.metrics()['distributor_peers'], 1)
        self.assertEqual(self.metrics.sum('p2ps_items', shard='relay'), len(self.clients[0].items))

    def test_nothing_is_lost_between_relay_and_shards(self):
        for shard in range(SHARDS):
            self.assertEqual(self.metrics.sum('p2ps_gaps_total', shard=str(shard)), 0)
        self.assertGreater(self.stream_messages, 0)

    def test_all_see_everything_in_order_and_end_right(self):
        for client in self.clients:
            with self.subTest(client=client.name):
                self.assert_finished_well(client)

    def test_it_ends_in_order(self):
        self.assertEqual(self.p2ps.end(), 0)


class Limits(SystemTest):
    """What is allowed is allowed to all shards together."""

    @classmethod
    def scenario(cls):
        system = cls.system()
        distributor = system.source_distributor(sets=numbered('NI_PUB', 1))
        one = '{ name = "desk", users = ["desk-*"], connections_max = 2 }'
        sets = {'p2ps.shards': SHARDS, 'p2ps.rssl.connections_per_address_max': 6, 'p2ps.class': '[%s]' % one}
        cls.p2ps = system.p2ps(sets=sets)
        provider = RsslProvider(system.provider_port, 'feed').wait_count(1, 1)
        provider.send(rssl.DIRECTORY_REFRESH, rssl.ITEM_REFRESH)
        distributor.wait_count('distributor_items', 1)
        cls.desks = [RsslConsumer(cls.p2ps.port, 'desk-%d' % n).wait_count(1, 1) for n in range(2)]
        cls.third = RsslConsumer(cls.p2ps.port, 'desk-2').wait_end()
        cls.json = JsonClient(cls.p2ps.websocket_port)
        cls.json_refusal = cls.json.log_in('desk-3')
        cls.others = [RsslConsumer(cls.p2ps.port, 'other').wait_count(1, 1) for _ in range(4)]
        cls.seventh = cls.heard_by_one_too_many()
        cls.status = cls.p2ps.status()

    @classmethod
    def heard_by_one_too_many(cls):
        with socket.create_connection(('127.0.0.1', cls.p2ps.port), WATCHDOG_S) as seventh:
            try:
                return seventh.recv(1)
            except ConnectionError:
                return b''

    def test_a_class_has_so_many_connections_on_all_shards(self):
        self.assertEqual([client.of_stream(1)[-1][0] for client in self.desks], ['REFRESH', 'REFRESH'])
        self.assertEqual(self.third.of_stream(1)[-1][0], 'STATUS')
        self.assertEqual(self.json_refusal['State']['Stream'], 'Closed')

    def test_an_address_has_so_many_connections_on_all_shards(self):
        self.assertEqual([client.of_stream(1)[-1][0] for client in self.others], ['REFRESH'] * 4)
        self.assertEqual(self.seventh, b'')
        self.assertEqual(self.p2ps.metrics()['listener_address_full_total'], 1)

    def test_who_was_denied_is_shown_of_all_shards(self):
        denied = {entry['user'] for entry in self.status['users']['denied']}
        self.assertEqual(denied, {'desk-2', 'desk-3'})


if __name__ == '__main__':
    unittest.main()
