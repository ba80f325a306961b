"""The daemons on one host, from the example configurations, in whatever order they start."""

import os
import unittest

from consumers import JAR, JAVA
from daemons import wait_at
from system_test import SystemTest
from test_demo import NO_OTHER_JAVA, OTHER_JAVA, build_other

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
            daemons['feed'].wait_count('feed_rounds_total', 1)
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


@unittest.skipUnless(os.path.isdir(OTHER_JAVA), NO_OTHER_JAVA)
class EmaProvider(SystemTest):
    """A non-interactive provider on the EMA library, through our system, to a consumer on the EMA library."""

    ITEMS = ('NI.1', 'NI.2')

    @classmethod
    def scenario(cls):
        jar = build_other(cls.directory)
        system = cls.system()
        cls.distributor = system.source_distributor()
        cls.p2ps = system.p2ps()
        words = ['java', '-Xmx1g', '-jar', jar, 'niprovider', '--host', 'localhost:%d' % system.provider_port]
        words += ['--service', 'ELSEWHERE', '--service-id', '12', '--items', ','.join(cls.ITEMS)]
        words += ['--updates', '200', '--interval-ms', '100', '--no-close']
        cls.provider = system.process('provider', words)
        cls.distributor.wait_count('distributor_items', len(cls.ITEMS))
        words = JAVA + [JAR, 'consumer', '--host', cls.p2ps.server, '--service', 'ELSEWHERE']
        words += ['--items', ','.join(cls.ITEMS), '--updates', '10', '--timeout', '30']
        cls.consumer = system.process('consumer', words)
        cls.status = cls.consumer.wait()
        cls.provider.end()

    def test_the_consumer_gets_the_provider_s_images_and_updates(self):
        self.assertEqual(self.status, 0, self.consumer.out()[-2000:])

    def test_they_went_through_the_distributor(self):
        self.assertGreaterEqual(self.distributor.metrics()['distributor_updates_in_total'], 20)
        self.assertEqual(self.distributor.metrics()['distributor_messages_refused_total'], 0)


if __name__ == '__main__':
    unittest.main()
