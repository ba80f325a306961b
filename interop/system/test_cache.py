"""Services without a cache: each image comes from the source distributor, or from the provider."""

import unittest

import test_deaths
import test_ema_consumer
import test_interactive
import test_pop
import test_rates
from daemons import hold_until_ready, wait_at
from interactive import LINGER
from process import wait_until
from system_test import SystemTest

P2PS = {'p2ps.services_without_cache': '["*"]'}
DISTRIBUTOR = {'source_distributor.services_without_cache': '["*"]'}


class LateClients(SystemTest):
    """A market is played; clients come all the time, and the source distributor has the images."""

    @classmethod
    def scenario(cls):
        system = cls.system()
        cls.distributor = system.source_distributor()
        cls.p2ps = system.p2ps(sets=P2PS)
        cls.feed = system.feed(speed='8', delay_ms=3000)
        cls.first = system.java(cls.p2ps)
        hold_until_ready(cls.feed, cls.distributor, [cls.first])
        cls.clients = [cls.first]
        for number in range(6):
            client = system.native(cls.p2ps, name='late-%d' % number)
            wait_until(client.is_good, '%s has its images' % client.name, [client, cls.p2ps])
            cls.clients.append(client)
        cls.while_playing = cls.feed.metrics()['feed_rounds_total'] == 0
        cls.feed.wait_played()
        wait_at(cls.clients, system.wait_right(cls.p2ps))
        cls.metrics = cls.p2ps.metrics()

    def test_it_happened_under_load(self):
        self.assertTrue(self.while_playing)

    def test_each_image_came_from_the_source_distributor(self):
        count = len(self.first.items)
        self.assertGreaterEqual(self.metrics['p2ps_images_requested_total'], 7 * count)

    def test_all_see_everything_in_order_and_end_right(self):
        for client in self.clients:
            with self.subTest(client=client.name):
                self.assert_finished_well(client)


class Deaths(test_deaths.ServerAndDistributor):
    """`kill -9` of servers without caches."""

    @classmethod
    def serve(cls):
        return cls.system_.p2ps(sets=P2PS)


class Rates(test_rates.Rates):
    """Who gets fewer updates needs images, and gets them."""

    SETS = P2PS


class NoCacheAtAll:
    @classmethod
    def serve(cls):
        return cls.dial(cls.ports, DISTRIBUTOR), cls.system_.p2ps(sets=LINGER['p2ps'] | P2PS)


class Chain(NoCacheAtAll, test_interactive.Chain):
    """Images, updates, posts, generic messages, private streams, keys."""


class Failover(NoCacheAtAll, test_interactive.Failover):
    """`kill -9` of providers."""


class Requests(test_ema_consumer.Requests):
    """Every domain, snapshots, batches, priorities."""

    P2PS, DISTRIBUTOR = P2PS, DISTRIBUTOR

    def test_the_provider_is_asked_for_images_of_open_items(self):
        self.ok('--items', 'AGAIN', '--updates', '2', name='first')
        self.ok('--items', 'AGAIN', '--updates', '2', name='second')
        self.assertGreater(self.distributor.metrics()['distributor_images_recalled_total'], 0)


class Statuses(test_ema_consumer.Statuses):
    """States of items, groups and services, permission data."""

    P2PS, DISTRIBUTOR = P2PS, DISTRIBUTOR


class LargeImages(test_ema_consumer.LargeImages):
    """Images in parts."""

    P2PS, DISTRIBUTOR = P2PS, DISTRIBUTOR


class PointOfPresence(test_pop.BehindProviders, test_interactive.Failover):
    """A P2PS behind EMA providers that keeps nothing."""

    SETS = P2PS


if __name__ == '__main__':
    unittest.main()
