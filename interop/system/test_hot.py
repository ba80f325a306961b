"""A service that is taken from two source distributors: one of them is killed or stopped under load, and no client notices.

Two feeds play the same recording, each into a source distributor of its own; their messages have the same numbers. The
client checks the number of each update, so that none is missing and none comes twice.
"""

import unittest

import expected
from daemons import wait_at
from ports import free_ports
from process import wait_until
from system_test import SystemTest

HOT = {'p2ps.hot_services': '["BINANCE"]'}


class Pair(SystemTest):
    """What the scenarios share."""

    SETS = HOT
    SPEED = '5'

    @classmethod
    def begin(cls):
        cls.system_ = cls.system()
        cls.distributors, cls.feeds = [], []
        for name in ('a', 'b'):
            cls.system_.provider_port = free_ports()
            cls.distributors.append(cls.system_.source_distributor(name='distributor-' + name))
            cls.feeds.append(cls.system_.feed(speed=cls.SPEED, delay_ms=3000, name='feed-' + name))
        cls.p2ps = cls.system_.p2ps(sets=cls.SETS)
        cls.client = cls.system_.native(cls.p2ps)
        wait_until(cls.client.has_images, 'the client has images', [cls.client])
        cls.both()

    @classmethod
    def both(cls):
        """Waits until all items follow both."""
        count = lambda: cls.p2ps.metrics().sum('p2ps_hot_items')
        said = lambda: '%s of %d items follow both; %s' % (count(), len(expected.ITEMS), cls.p2ps.status()['services'])
        wait_until(lambda: count() == len(expected.ITEMS), said, [cls.p2ps, *cls.distributors])

    @classmethod
    def play(cls, more=1_000):
        """Waits until the client has had so many more updates."""
        count = lambda: sum(item.updates for item in cls.client.look().items.values())
        until = count() + more
        wait_until(lambda: count() >= until, lambda: 'the client has %d updates of %d' % (count(), until), [cls.client])

    @classmethod
    def mark(cls):
        cls.client.look()
        return {key: (len(item.states), item.refreshes) for key, item in cls.client.items.items()}

    def assert_nothing_was_noticed(self):
        self.assertEqual(self.client.faults(), {})
        self.assertEqual(self.mark(), self.marks)
        self.assertTrue(self.client.is_good())

    def assert_the_two_agree(self):
        metrics = self.p2ps.metrics()
        for name in ('hot_differing', 'hot_images_differing', 'hot_late'):
            with self.subTest(name=name):
                self.assertEqual(metrics.sum('p2ps_%s_total' % name), 0)


class OneOfTwo(Pair):
    """Each of the two is killed, started again, stopped, and goes on."""

    @classmethod
    def scenario(cls):
        cls.begin()
        cls.marks = cls.mark()
        cls.play()
        for distributor in cls.distributors:
            distributor.kill()
            cls.play()
            distributor.restart()
            cls.both()
            cls.play()
        for distributor in cls.distributors:
            distributor.hold()
            cls.play()
            distributor.go_on()
            cls.both()
            cls.play()
        cls.still_playing = all(feed.metrics()['feed_rounds_total'] == 0 for feed in cls.feeds)
        cls.status = cls.p2ps.status()
        for feed in cls.feeds:
            feed.wait_played()
        wait_at([cls.client], cls.system_.wait_right(cls.p2ps))

    def test_it_happened_under_load(self):
        self.assertTrue(self.still_playing)

    def test_no_client_noticed_and_no_update_is_missing(self):
        self.assert_nothing_was_noticed()

    def test_the_two_said_the_same(self):
        self.assert_the_two_agree()

    def test_items_went_on_from_the_other_one(self):
        self.assertGreaterEqual(self.p2ps.metrics().sum('p2ps_hot_switches_total'), len(expected.ITEMS))

    def test_the_status_page_shows_both(self):
        (service,) = self.status['services']
        self.assertEqual([side['up'] for side in service['hot']], [True, True])

    def test_the_end_is_right(self):
        self.assert_finished_well(self.client)


class BothOfTwo(Pair):
    """Both are killed: that is said, and all ends well."""

    @classmethod
    def scenario(cls):
        cls.begin()
        cls.play()
        for distributor in cls.distributors:
            distributor.kill()
        knows = lambda: cls.client.look().has_become('Suspect')
        wait_until(knows, 'the client knows', [cls.client])
        for distributor in cls.distributors:
            distributor.restart()
        cls.both()
        for feed in cls.feeds:
            feed.wait_played()
        wait_at([cls.client], cls.system_.wait_right(cls.p2ps))

    def test_the_end_is_right(self):
        self.assert_finished_well(self.client)

    def test_the_two_said_the_same(self):
        self.assert_the_two_agree()


class Sharded(OneOfTwo):
    """The same with shards: the thread that takes the backbone compares the two."""

    SETS = {**HOT, 'p2ps.shards': '2'}


class Warm(Pair):
    """The same pair without the setting: the standby takes over, at the price of Suspect; images are asked for in pace."""

    SETS = {'p2ps.images_outstanding_max': 2}

    @classmethod
    def both(cls):
        wait_until(cls.client.is_good, 'the client is good', [cls.client])

    @classmethod
    def scenario(cls):
        cls.begin()
        cls.play()
        cls.marks = cls.mark()
        # Whichever it comes from: the other one has to be there when that dies.
        instance = lambda: cls.p2ps.status()['services'][0]['instance']
        first = instance()
        own = [d for d in cls.distributors if d.status()['instance'] == first]
        cls.requested = cls.p2ps.metrics().sum('p2ps_images_requested_total')
        own[0].kill()
        wait_until(lambda: instance() not in (None, first), 'the other one has taken over', [cls.p2ps])
        wait_until(cls.client.is_good, 'the client is good again', [cls.client, cls.p2ps])
        cls.again = cls.p2ps.metrics().sum('p2ps_images_requested_total') - cls.requested
        cls.after = {key: item.states[cls.marks[key][0] :] for key, item in cls.client.look().items.items()}
        own[0].restart()
        for feed in cls.feeds:
            feed.wait_played()
        wait_at([cls.client], cls.system_.wait_right(cls.p2ps))

    def test_clients_saw_suspect_and_then_ok(self):
        self.assertEqual({tuple(states) for states in self.after.values()}, {('Suspect', 'Ok')})

    def test_each_image_was_asked_for_once(self):
        self.assertEqual(self.again, len(expected.ITEMS))

    def test_the_end_is_right(self):
        self.assert_finished_well(self.client)


if __name__ == '__main__':
    unittest.main()
