"""A service that is made of two others: the source distributor of the preferred one is killed under load and comes back.

Two feeds play the same recording as services of their own, each into a source distributor of its own. Clients ask a third
service, which the P2PS composes. One of them asks by an alias.
"""

import os
import unittest

import expected
from ports import free_ports
from process import ROOT, wait_until
from system_test import SystemTest

ALL = 'ALL'
ALIASES = {'BTC=': 'BTCUSDT'}
MARKET_PRICE = 6

IDS = {'source_distributor.services': '[{ name = "FEED_A", id = 1 }, { name = "FEED_B", id = 2 }]'}

CONFIG = '''
[[p2ps.composed_service]]
name = "ALL"
fail_back_delay_ms = 1_000

[[p2ps.composed_service.member]]
service = "FEED_A"

[[p2ps.composed_service.member]]
service = "FEED_B"

[[p2ps.composed_service.alias]]
alias = "BTC="
name = "BTCUSDT"
'''


class Composed(SystemTest):
    """What the scenarios share."""

    @classmethod
    def begin(cls, b_items=None):
        cls.system_ = cls.system()
        cls.distributors, cls.feeds = {}, {}
        for number, name in enumerate('AB', 1):
            cls.system_.provider_port = free_ports()
            cls.distributors[name] = cls.system_.source_distributor(sets=IDS, name='distributor-' + name)
            own = {'feed.service': '"FEED_%s"' % name, 'feed.service_id': number}
            cls.feeds[name] = cls.system_.feed(sets=own, speed='5', delay_ms=5000, name='feed-' + name)
        with open(os.path.join(ROOT, 'examples', 'p2ps.toml')) as f:
            text = f.read()
        path = os.path.join(cls.system_.directory, 'composed')
        with open(path + '.toml', 'w') as f:
            f.write(text + CONFIG)
        cls.p2ps = cls.system_.p2ps(example=path)
        cls.system_.wait_serving(cls.p2ps, 'FEED_B')
        cls.system_.wait_serving(cls.p2ps, 'FEED_A')
        cls.native = cls.system_.native(cls.p2ps, service=ALL)
        cls.by_alias = cls.system_.native(
            cls.p2ps, name='by-alias', service=ALL, items=[(alias, MARKET_PRICE) for alias in ALIASES]
        )
        cls.java = cls.system_.java(cls.p2ps, service=ALL)
        cls.clients = [cls.native, cls.by_alias, cls.java]
        for client in cls.clients:
            wait_until(client.has_images, '%s has images' % client.name, [client, cls.p2ps])

    @classmethod
    def play(cls, more=1_000):
        """Waits until the client has had so many more updates."""
        count = lambda: sum(item.updates for item in cls.native.look().items.values())
        until = count() + more
        said = lambda: 'the client has %d updates of %d' % (count(), until)
        wait_until(lambda: count() >= until, said, [cls.native, cls.p2ps])

    @classmethod
    def switches(cls):
        return cls.p2ps.metrics().sum('p2ps_composed_switches_total')

    @classmethod
    def wait_images(cls, least):
        """Until each client has had so many more images of each item, and is good."""
        has = lambda client, key, item: item.refreshes - cls.had[client.name][key] >= least
        have = lambda client: all(has(client, key, item) for key, item in client.look().items.items())
        are_there = lambda: all(have(client) and client.is_good() for client in cls.clients)
        wait_until(are_there, lambda: '%d images of each; %s switches' % (least, cls.switches()), cls.clients)

    @classmethod
    def refreshes(cls):
        each = lambda client: {key: item.refreshes for key, item in client.look().items.items()}
        return {client.name: each(client) for client in cls.clients}

    @classmethod
    def states(cls, client):
        return {key: list(item.states) for key, item in client.look().items.items()}


class OneMemberIsLost(Composed):
    """The preferred one, under load; it comes back."""

    @classmethod
    def scenario(cls):
        cls.begin()
        cls.play()
        wait_until(lambda: all(c.is_good() for c in cls.clients), 'all is good', cls.clients)
        cls.before = {client.name: cls.states(client) for client in cls.clients}
        cls.had = cls.refreshes()
        cls.distributors['A'].kill()
        cls.wait_images(1)
        cls.play()
        cls.lost = {client.name: cls.states(client) for client in cls.clients}
        cls.distributors['A'].restart()
        cls.wait_images(2)
        cls.play(200)
        cls.listed = {service['name']: service for service in cls.p2ps.status()['services']}
        cls.still_playing = all(feed.metrics()['feed_rounds_total'] == 0 for feed in cls.feeds.values())
        cls.back = {client.name: cls.states(client) for client in cls.clients}
        for feed in cls.feeds.values():
            feed.wait_played()
        cls.finals = {}
        cls.switches_at_end = cls.switches()
        final = {key: end['seq'] for key, end in cls.snapshot().items()}
        for client in (cls.native, cls.java):
            at_end = lambda: all(client.look().items[key].position == seq for key, seq in final.items())
            wait_until(at_end, '%s is at the end' % client.name, [client])
            cls.finals[client.name] = client.finish()

    @classmethod
    def snapshot(cls):
        consumer = cls.system_.native(cls.p2ps, name='snapshot', service=ALL, options=['--snapshot', '--timeout', '20'])
        status = consumer.wait()
        consumer.look()
        assert status == 0, status
        return {key: {'seq': item.position} for key, item in consumer.items.items()}

    def test_it_happened_under_load(self):
        self.assertTrue(self.still_playing)

    def test_clients_saw_suspect_once_and_then_an_image_of_the_other_one(self):
        for name, states in self.lost.items():
            for key, seen in states.items():
                with self.subTest(client=name, item=key):
                    since = seen[len(self.before[name][key]) - 1 :]
                    self.assertIn(since, (['Ok'], ['Ok', 'Suspect', 'Ok']))

    def test_nobody_noticed_how_the_items_went_back(self):
        self.assertEqual(self.back, self.lost)

    def test_no_update_of_one_follows_the_image_of_the_other(self):
        for client in self.clients:
            with self.subTest(client=client.name):
                self.assertEqual(client.faults(), {})

    def test_all_items_were_switched_there_and_back(self):
        self.assertGreaterEqual(self.switches_at_end, 2 * len(expected.ITEMS))

    def test_it_is_listed_beside_its_members(self):
        self.assertEqual(self.listed[ALL]['instance'], None)
        members = {service['instance'] for name, service in self.listed.items() if name != ALL}
        self.assertEqual(len(members), 2, self.listed)

    def test_the_alias_is_the_item(self):
        (item,) = self.by_alias.look().items.values()
        self.assertEqual(item.position, self.native.items['BTCUSDT', MARKET_PRICE].position)

    def test_the_end_is_right(self):
        for name, (status, finals) in self.finals.items():
            with self.subTest(client=name):
                self.assertEqual(status, 0)
                self.assert_final_images(finals)


if __name__ == '__main__':
    unittest.main()
