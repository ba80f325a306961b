"""The daemons on one host, from the example configurations, in whatever order they start."""

import unittest

from daemons import wait_at
from system_test import SystemTest

ORDERS = {
    'p2ps-first': ('p2ps', 'source_distributor', 'feed'),
    'feed-first': ('feed', 'p2ps', 'source_distributor'),
    'distributor-first': ('source_distributor', 'feed', 'p2ps'),
}


class Orders(SystemTest):
    """Three systems side by side, each with ports of its own."""

    @classmethod
    def scenario(cls):
        cls.clients = {}
        systems = {order: cls.start(order, parts) for order, parts in ORDERS.items()}
        for order, (system, daemons) in systems.items():
            daemons['feed'].wait_played()
            wait_at(cls.clients[order], system.wait_right(daemons['p2ps']))

    @classmethod
    def start(cls, order, parts):
        system, daemons = cls.system(), {}
        for part in parts:
            options = {'speed': '40', 'delay_ms': 1000} if part == 'feed' else {}
            daemons[part] = getattr(system, part)(name='%s-%s' % (order, part), **options)
        p2ps = daemons['p2ps']
        cls.clients[order] = [
            system.java(p2ps, name='java-' + order),
            system.native(p2ps, name='native-' + order),
        ]
        return system, daemons

    def check(self, order):
        for client in self.clients[order]:
            with self.subTest(client=client.name):
                self.assert_finished_well(client)

    def test_the_p2ps_first(self):
        self.check('p2ps-first')

    def test_the_feed_first(self):
        self.check('feed-first')

    def test_the_distributor_first(self):
        self.check('distributor-first')


if __name__ == '__main__':
    unittest.main()
