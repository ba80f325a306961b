"""Points of presence: P2PSs that take their data from other servers as their clients, one behind another, no backbone between."""

import unittest

import test_deaths
import test_ema_consumer
import test_interactive
from interactive import LINGER, SERVICE, Interactive
from ports import free_ports
from process import wait_until


def behind(p2ps, **keys):
    """A P2PS as an upstream server."""
    return p2ps.name, ['127.0.0.1:%d' % p2ps.port], keys


class BehindProviders(Interactive):
    """Two EMA interactive providers -> point of presence -> EMA consumers."""

    SETS = {}

    @classmethod
    def serve(cls):
        providers = [('to-%d' % port, ['127.0.0.1:%d' % port], {}) for port in cls.ports]
        pop = cls.system_.pop(providers, sets=LINGER['p2ps'] | LINGER['distributor'] | cls.SETS)
        return pop, pop

    @classmethod
    def distributor_status(cls):
        return (cls.p2ps.status() or {}).get('upstream') or {}


class Chain(BehindProviders, test_interactive.Chain):
    """Images, updates, posts, generic messages, private streams, keys: all that goes through a source distributor."""


class Failover(BehindProviders, test_interactive.Failover):
    """`kill -9` of providers."""


class TwoInARow:
    """EMA interactive provider -> point of presence -> another one -> EMA consumers. The first compresses with LZ4."""

    @classmethod
    def serve(cls, system, port):
        name, number = test_ema_consumer.SERVICE, test_ema_consumer.SERVICE_ID
        lines = ['[[source_distributor.services]]', 'name = "%s"' % name, 'id = %d' % number]
        first = system.pop([('ema', ['127.0.0.1:%d' % port], {})], name='first', sets=cls.DISTRIBUTOR, lines=lines)
        upstream = behind(first, **{'connection.compression': 'lz4'})
        return first, system.pop([upstream], name='second', sets=cls.P2PS)


class Requests(TwoInARow, test_ema_consumer.Requests):
    """Every domain, snapshots, batches, priorities."""


class Views(TwoInARow, test_ema_consumer.Views):
    """Views are made where the client is: upstream goes one request for all."""


class Upstream(TwoInARow, test_ema_consumer.Upstream):
    """Posts, generic messages and private streams go all the way."""


class Statuses(TwoInARow, test_ema_consumer.Statuses):
    """States of items, groups and services, permission data."""


def items_at(pop):
    """State of each upstream server of a point of presence, and how many items it has open there."""
    providers = (pop.status() or {}).get('upstream', {}).get('interactive_providers', ())
    return {provider['name']: (provider['state'], provider['items_open']) for provider in providers}


class ThreeServers(test_deaths.Deaths):
    """Feed, source distributor, P2PS, and two points of presence behind it; each server dies in its turn."""

    @classmethod
    def serve(cls):
        cls.first = cls.system_.p2ps()
        cls.second = cls.system_.pop([behind(cls.first, **{'connection.compression': 'zlib'})], name='second')
        return cls.system_.pop([behind(cls.second)], name='third')

    @classmethod
    def scenario(cls):
        cls.begin(speed='5')
        cls.play(10_000)
        for server in (cls.first, cls.second, cls.p2ps):
            cls.episode(server.name, [server], [server])
            cls.play(2_000)
        cls.episode('all', [cls.first, cls.second, cls.p2ps], [cls.p2ps, cls.second, cls.first])
        cls.still_playing = cls.feed.metrics()['feed_rounds_total'] == 0
        cls.finish()
        cls.open = [items_at(server) for server in (cls.second, cls.p2ps)]

    def test_it_happened_under_load(self):
        self.assertTrue(self.still_playing)

    def test_clients_saw_suspect_and_then_ok_whoever_died(self):
        for name in self.episodes:
            self.assert_suspect_then_ok(name)

    def test_the_end_is_right_for_all_clients(self):
        self.assert_all_good()

    def test_each_item_is_asked_for_once(self):
        count = len(self.clients[0].items)
        self.assertEqual(self.open, [{'p2ps': ('ready', count)}, {'second': ('ready', count)}])


class Standby(test_deaths.Deaths):
    """Two P2PSs of one backbone; a point of presence asks one of them, and the other when that dies."""

    @classmethod
    def serve(cls):
        cls.one, cls.other = [cls.system_.p2ps(name=name) for name in ('one', 'other')]
        return cls.system_.pop([behind(cls.other, standby=True), behind(cls.one)])

    @classmethod
    def scenario(cls):
        cls.begin(speed='10')
        cls.play(5_000)
        cls.before = items_at(cls.p2ps)
        cls.episode('one', [cls.one], [])
        cls.moved = items_at(cls.p2ps)
        cls.one.restart()
        is_back = lambda: items_at(cls.p2ps)['one'][0] == 'ready'
        wait_until(is_back, lambda: 'it is dialled again: %s' % items_at(cls.p2ps), [cls.p2ps])
        cls.back = items_at(cls.p2ps)
        cls.play(1_000)
        cls.finish()

    def test_the_one_that_stands_by_has_no_items_while_the_other_is_there(self):
        count = len(self.clients[0].items)
        self.assertEqual(self.before, {'one': ('ready', count), 'other': ('ready', 0)})

    def test_it_has_all_when_the_other_is_lost_and_keeps_them(self):
        count = len(self.clients[0].items)
        self.assertEqual(self.moved['other'], ('ready', count))
        self.assertEqual(self.back, {'one': ('ready', 0), 'other': ('ready', count)})

    def test_clients_saw_suspect_and_then_ok(self):
        self.assert_suspect_then_ok('one')

    def test_the_end_is_right_for_all_clients(self):
        self.assert_all_good()


# Of an item's state, while sites find out whom to ask.
CHANGES_MAX = 10


class SitesForEachOther(test_deaths.Deaths):
    """Two points of presence behind a P2PS; each stands by for the other. All depend on the one that dies."""

    @classmethod
    def serve(cls):
        cls.head = cls.system_.p2ps(name='head')
        # Each has the other's port before that is there.
        ports = {name: free_ports() for name in ('east', 'west')}
        cls.sites = {}
        for name, other in (('east', 'west'), ('west', 'east')):
            peer = other, ['127.0.0.1:%d' % ports[other]], {'standby': True}
            cls.sites[name] = cls.system_.pop([behind(cls.head), peer], name=name, port=ports[name])
        return cls.sites['east']

    @classmethod
    def scenario(cls):
        cls.begin(speed='10')
        cls.clients.append(cls.system_.native(cls.sites['west'], name='west-client'))
        cls.play(5_000)
        cls.before = [items_at(site) for site in cls.sites.values()]
        cls.episode('head', [cls.head], [cls.head])
        cls.after = [items_at(site) for site in cls.sites.values()]
        cls.play(1_000)
        cls.finish()

    def test_each_asks_the_head_office_first(self):
        count = len(self.clients[0].items)
        self.assertEqual([site['head'] for site in self.before], [('ready', count)] * 2)

    def test_they_do_not_feed_each_other_when_the_head_office_is_gone(self):
        """A site may have an item from the other one for a moment; in a circle its states changed thousands of times."""
        for client, items in self.episodes['head'].items():
            for key, states in items.items():
                with self.subTest(client=client, item=key):
                    self.assertEqual((states[0], states[-1]), ('Suspect', 'Ok'))
                    self.assertLessEqual(len(states), CHANGES_MAX)

    def test_every_item_comes_from_the_head_office_in_the_end(self):
        count = len(self.clients[0].items)
        open_at_head = sum(site['head'][1] for site in self.after)
        self.assertGreaterEqual(open_at_head, count, self.after)
        self.assertEqual([sum(at[1] for at in site.values()) for site in self.after], [count] * 2, self.after)

    def test_the_end_is_right_for_all_clients(self):
        self.assert_all_good()


class TwoSites(BehindProviders):
    """Two providers whose services have one name and one number: here each has a name and a number of its own."""

    @classmethod
    def serve(cls):
        names = ('EAST', 'WEST')
        sites = [
            (ours, ['127.0.0.1:%d' % port], {'renamed': [{'theirs': SERVICE, 'ours': ours}]})
            for ours, port in zip(names, cls.ports)
        ]
        pop = cls.system_.pop(sites)
        return pop, pop

    @classmethod
    def scenario(cls):
        cls.begin()
        for name in ('EAST', 'WEST'):
            cls.system_.wait_serving(cls.p2ps, name)
        cls.services = {one['name']: one['id'] for one in cls.p2ps.status()['services']}
        cls.outcomes = {name: cls.consume('of-' + name, '--updates', '3', '--check-seq', service=name) for name in cls.services}

    def test_each_site_has_a_name_and_a_number(self):
        self.assertEqual(sorted(self.services), ['EAST', 'WEST'])
        self.assertEqual(len(set(self.services.values())), 2)

    def test_items_come_from_their_site(self):
        for outcome in self.outcomes.values():
            self.assert_ok(outcome)
        asked = [len([1 for line in one.out().splitlines() if '"ev":"request"' in line]) for one in self.providers]
        self.assertEqual(asked, [4, 4])


if __name__ == '__main__':
    unittest.main()
