"""Warm standby of the client library: one of its servers is killed in mid-stream, and nothing shows it."""

import unittest

import expected
from consumers import JAR, NativeConsumer
from daemons import binary, hold_until_ready, wait_at
from expected import ITEMS
from java_tools import JAVA_PROVIDER, WITH_DICTIONARY
from ports import free_ports
from process import wait_until
from system_test import SystemTest

# The client has the work of two: all prices, and a book that is not the busiest.
WATCHED = tuple(item for item in ITEMS if item[1] == 6) + (('BTCUSD.PERP', 8),)


class TwoServers(SystemTest):
    """Two P2PSs on one source distributor, first one, then the other is killed during the replay."""

    @classmethod
    def scenario(cls):
        system = cls.system_ = cls.system()
        distributor = system.source_distributor()
        cls.servers = [system.p2ps(name='first'), system.p2ps(name='second')]
        feed = system.feed(speed='8', delay_ms=3000)
        first, second = cls.servers
        options = ['--standby', second.server, '--user', 'ada']
        cls.client = system.native(first, name='standby', items=WATCHED, options=options)
        hold_until_ready(feed, distributor, [cls.client])
        wait_until(cls.client.is_good, 'the recording has made the first images good', [cls.client])
        cls.began = {key: len(item.states) for key, item in cls.client.items.items()}
        cls.play = staticmethod(lambda more: play(feed, more))
        for active, other in ((first, second), (second, first)):
            cls.wait_open(other)
            cls.play(3_000)
            active.kill()
            cls.wait_active(other)
            cls.play(1_000)
            active.restart()
        cls.still_playing = feed.metrics()['feed_rounds_total'] == 0
        feed.wait_played()
        wait_at([cls.client], system.wait_right(first))

    @classmethod
    def wait_open(cls, server):
        """Waits until a server has all images, and the client has all items open there."""
        probe = cls.system_.native(server, name='probe', items=WATCHED)
        wait_until(probe.is_good, '%s has good images' % server.name, [server, probe])
        probe.kill()
        streams = lambda: [client['streams'] for client in server.status()['clients'] if client['user'] == 'ada']
        said = lambda: 'all items are open at %s: %s' % (server.name, streams())
        wait_until(lambda: len(WATCHED) in streams(), said, [server, cls.client])

    @classmethod
    def wait_active(cls, server):
        last = lambda: cls.client.look().seen('active')[-1:]
        is_it = lambda: last() and last()[0]['host'] == server.server
        wait_until(is_it, lambda: '%s is the active server: %s' % (server.name, last()), [cls.client])

    def test_it_happened_under_load(self):
        self.assertTrue(self.still_playing)

    def test_the_servers_were_the_active_one_in_turn(self):
        first, second = (server.server for server in self.servers)
        active = [(event['host'], event['instead_of']) for event in self.client.seen('active')]
        self.assertEqual(active, [(first, None), (second, first), (first, second)])

    def test_every_item_stayed_good(self):
        states = {key: item.states[self.began[key] - 1 :] for key, item in self.client.items.items()}
        said = [(e['item'], e['domain'], e['state']['text']) for e in self.client.seen('status')]
        self.assertEqual(states, {key: ['Ok'] for key in WATCHED}, said)

    def test_the_switches_are_refreshes_that_never_go_back(self):
        items = self.client.items.values()
        self.assertEqual([item.steps_back for item in items], [0] * len(WATCHED))
        self.assertTrue(all(item.refreshes >= 3 for item in items))

    def test_no_update_is_missing_or_doubled_and_the_images_are_right(self):
        status, finals = self.client.finish()
        self.assertEqual((status, self.client.faults()), (0, {}))
        self.assertEqual((sorted(finals), expected.differences(finals, watched_only=True)), (sorted(WATCHED), []))


class TwoProviders(SystemTest):
    """Two EMA interactive providers; one dies, then the other, then one comes back."""

    @classmethod
    def scenario(cls):
        ports = [free_ports(), free_ports()]
        cls.hosts = ['localhost:%d' % port for port in ports]
        first, second = cls.provider('first', ports[0]), cls.provider('second', ports[1])
        words = [binary(), 'watch', '--json', '--host', cls.hosts[0], '--standby', cls.hosts[1]]
        words += ['--service', 'TEST', 'A', 'B']
        cls.client = Watched('watch', words, cls.directory)
        cls.keep(cls.client)
        cls.wait_updates('first')
        cls.began = {key: len(item.states) for key, item in cls.client.items.items()}
        wait_until(lambda: second.out().count('"request"') == 2, 'both items are asked for', [second, cls.client])
        first.kill()
        wait_until(lambda: len(cls.client.look().seen('active')) == 2, 'the second is active', [cls.client])
        cls.wait_updates('second')
        cls.states = cls.states_since()
        second.kill()
        wait_until(lambda: cls.client.has_become('Suspect'), 'both are gone', [cls.client])
        cls.provider('third', ports[0])
        wait_until(lambda: cls.client.is_good(), 'the first port is served again', [cls.client])
        cls.wait_updates('third')
        cls.active = [event['host'] for event in cls.client.look().seen('active')]
        cls.status = cls.client.end()

    @classmethod
    def states_since(cls):
        return {key: item.states[cls.began[key] - 1 :] for key, item in cls.client.look().items.items()}

    @classmethod
    def provider(cls, name, port):
        options = ('--service', 'TEST', '--items', 'A,B', '--rate', '50', *WITH_DICTIONARY)
        words = JAVA_PROVIDER + [JAR, 'iprovider', '--port', str(port), *options]
        process = cls.system().process(name, words)
        wait_until(lambda: '"ready"' in process.out(), '%s listens' % name, [process])
        return process

    @classmethod
    def wait_updates(cls, name):
        """Waits until each item has ten updates more."""
        counts = {key: item.updates for key, item in cls.client.look().items.items()}
        more = lambda: all(item.updates >= counts[key] + 10 for key, item in cls.client.look().items.items())
        wait_until(more, 'updates of the %s provider' % name, [cls.client])

    def test_every_item_stayed_good_when_the_active_provider_died(self):
        self.assertEqual(self.states, {('A', 6): ['Ok'], ('B', 6): ['Ok']})

    def test_items_were_suspect_while_both_were_gone_and_good_again_afterwards(self):
        states = ['Ok', 'Suspect', 'Ok']
        self.assertEqual(self.states_since(), {('A', 6): states, ('B', 6): states})

    def test_each_update_followed_the_message_before(self):
        self.assertEqual(self.client.faults(), {})

    def test_the_active_server_was_told(self):
        self.assertEqual((self.active, self.status), ([self.hosts[0], self.hosts[1], self.hosts[0]], 0))


class Watched(NativeConsumer):
    """`tickcast watch` with a command line of one's own, of the items A and B."""

    def __init__(self, name, words, directory):
        super(NativeConsumer, self).__init__(name, words, directory, (('A', 6), ('B', 6)))


def play(feed, more):
    """Waits until so many more updates have been played."""
    name = 'provider_updates_out_total'
    feed.wait_count(name, feed.metrics()[name] + more)


if __name__ == '__main__':
    unittest.main()
