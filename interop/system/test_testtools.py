"""`tickcast testserver` and `tickcast testclient` against programs on the EMA library in both roles, against each other,
and through a source distributor and a P2PS. What one side sends is counted by the other, exactly."""

import json
import os
import unittest

import java_tools
from consumers import JAR, JAVA
from daemons import binary
from java_tools import JavaTool
from ports import free_ports
from process import ROOT, Follower, Process, wait_until
from system_test import SystemTest

# Fields of the built-in messages: of an image, and of an update with its time stamp.
IMAGE_FIELDS, UPDATE_FIELDS = 35, 24


class Tool(Process):
    """One of our two tools; what it prints are objects of JSON."""

    def start(self):
        self.events = []
        super().start()
        self.follower = Follower(self.out_path)

    def told(self, ev):
        self.events += [json.loads(line) for line in self.follower.lines()]
        return [e for e in self.events if e['ev'] == ev]

    def wait_told(self, ev):
        return wait_until(lambda: self.told(ev), '%s tells %s' % (self.name, ev), [self])

    def summary(self):
        return self.told('summary')[0]


class TestTools(SystemTest):
    """What the tests have in common."""

    @classmethod
    def server(cls, *options, name='testserver'):
        """An interactive provider of ours; its port is `port`."""
        port = free_ports()
        server = cls.tool('testserver', '--port', str(port), *options, name=name)
        server.wait_told('ready')
        server.port = port
        return server

    @classmethod
    def tool(cls, command, *options, name=None):
        tool = Tool(name or command, [binary(), command, '--json', *options], cls.directory)
        cls.keep(tool)
        return tool

    @classmethod
    def client(cls, port, *options, status=0, name='testclient'):
        """The summary of a consumer of ours that has ended."""
        client = cls.tool('testclient', '--host', 'localhost:%d' % port, *options, name=name)
        ended = client.wait()
        if ended != status:
            raise AssertionError('exit status %s, not %s\n%s' % (ended, status, client.tail()))
        return client.summary()

    @classmethod
    def java(cls, *words, name, java=JAVA):
        tool = JavaTool(name, [*java, JAR, *words], cls.directory)
        cls.keep(tool)
        return tool

    @classmethod
    def timed(cls, port, *options, name='timed'):
        return cls.java('timed-consumer', '--host', 'localhost:%d' % port, *options, name=name)

    def ended(self, tool):
        """The counts of a provider of ours that is told to end."""
        self.assertEqual(tool.end(), 0, tool.tail())
        return tool.summary()['counts']

    def good(self, tool):
        """The result of a Java tool that has ended well."""
        status, result, _ = tool.result()
        self.assertEqual((status, result['status']), (0, 'OK'), tool.tail())
        return result


class JavaConsumer(TestTools):
    """Consumers on the EMA library at our provider."""

    def test_every_image_update_and_stamp_is_read(self):
        for unit in ((), ('--nanoseconds',)):
            with self.subTest(unit):
                server = self.server('--updates', '3000', '--update-rate', '20000', '--latency-rate', 'all', *unit)
                result = self.good(self.timed(server.port, '--count', '50', '--updates', '3000', *unit))
                served = self.ended(server)
                self.assertEqual((result['images'], result['updates'], result['latencies']), (50, 3000, 3000))
                self.assertEqual((served['images'], served['updates'], served['stamped']), (50, 3000, 3000))
                self.assertEqual(result['fields'], 50 * IMAGE_FIELDS + 3000 * UPDATE_FIELDS)
                self.assertEqual((result['of_the_future'], result['errors']), (0, 0))

    def test_a_consumer_beside_ours_has_as_many_and_both_clocks_are_one(self):
        """Each connection has a rate of its own. An age in another unit would be off by a thousand."""
        server = self.server('--updates', '4000', '--update-rate', '10000', '--latency-rate', 'all')
        java = self.timed(server.port, '--count', '20', '--updates', '4000')
        ours = self.client(server.port, '--items', '20', '--updates', '4000')
        theirs = self.good(java)
        self.assertEqual(self.ended(server)['updates'], 8000)
        latency = ours['counts']['steady_latency']['count'] + ours['counts']['startup_latency']['count']
        self.assertEqual((latency, theirs['latencies']), (4000, 4000))
        for longest in (ours['counts']['steady_latency'].get('max_ns', 0), theirs['max_ns']):
            self.assertLess(longest, 60_000_000_000)
        self.assertEqual(ours['counts']['unusable_stamps'] + theirs['of_the_future'], 0)

    def judged(self, *options):
        """The result of the consumer that judges, with the items A, B and C."""
        server = self.server('--update-rate', '300', name='judged')
        words = ('--service', 'DIRECT_FEED', '--items', 'A,B,C', '--no-final', *options)
        consumer = java_tools.consumer(self.directory, server.port, *words)
        self.keep(consumer)
        return self.good(consumer), self.ended(server)

    def test_views_batches_and_snapshots(self):
        """The consumer fails if it gets a field outside of its view."""
        self.judged('--view', '22,25', '--updates', '5')
        result, served = self.judged('--batch', '--updates', '5')
        self.assertEqual((len(result['items']), served['requests']), (3, 3))
        result, served = self.judged('--snapshot')
        self.assertEqual((served['images'], served['updates']), (3, 0))

    def test_posts_are_acknowledged_and_pauses_and_views_change(self):
        result, served = self.judged('--post', '4', '--updates', '2')
        self.assertEqual((result['posts']['acks'], result['posts']['nacks']), (12, 0))
        self.assertEqual((served['posts'], served['posts_reflected']), (12, 12))
        self.judged('--reissue-view', '22', '--updates-after', '3')
        self.judged('--pause', '300', '--updates-after', '3')


class JavaProvider(TestTools):
    """Our consumer at a provider on the EMA library."""

    @classmethod
    def scenario(cls):
        port = free_ports()
        options = ('--port', str(port), '--service', 'TEST', '--rate', '200', '--updates', '100')
        words = ('timed-provider', *java_tools.WITH_DICTIONARY, *options)
        cls.provider = cls.java(*words, name='provider', java=java_tools.JAVA_PROVIDER)
        cls.provider.wait_told('ready')
        mixes = ('--post-rate', '500', '--posts', '200', '--post-latency-rate', 'all', '--post-acks')
        generics = ('--generic-rate', '500', '--generics', '150', '--generic-latency-rate', 'all')
        words = ('--service', 'TEST', '--items', '10', '--updates', '1000', *mixes, *generics)
        cls.summary = cls.client(port, *words)
        cls.counts = cls.summary['counts']
        cls.provider.child.stdin.write(b'end\n')
        cls.status, cls.result, _ = cls.provider.result()

    def test_counts_are_the_same_on_both_sides(self):
        theirs = self.result['counts']
        self.assertEqual((theirs['images'], self.counts['images']), (10, 10))
        self.assertEqual((theirs['updates'], self.counts['updates'] - self.counts['posts_returned']), (1000, 1000))
        self.assertEqual((self.counts['closed'], self.counts['unreadable_fields']), (0, 0))

    def test_each_stamp_of_the_provider_is_read(self):
        stamps = sum(self.counts[part]['count'] for part in ('startup_latency', 'steady_latency'))
        self.assertEqual((stamps, self.counts['unusable_stamps']), (1000, 0))

    def test_posts_and_generic_messages_came_back(self):
        theirs = self.result['counts']
        self.assertEqual((theirs['posts'], theirs['posts_reflected'], self.counts['posts_returned']), (200, 200, 200))
        self.assertEqual((theirs['generics'], theirs['generics_answered']), (150, 150))
        self.assertEqual((self.counts['generics'], self.counts['generics_returned']), (150, 150))
        latencies = (self.counts['post_latency']['count'], self.counts['generic_latency']['count'])
        self.assertEqual(latencies, (200, 150))
        self.assertEqual(self.counts['posts_refused'], 0)


class Directly(TestTools):
    """Our consumer at our provider, as two processes."""

    def test_several_connections_share_some_items(self):
        server = self.server('--updates', '2000', '--update-rate', '50000', '--latency-rate', 'all')
        words = ('--items', '1000', '--common-items', '100', '--connections', '3', '--batch', '50')
        counts = self.client(server.port, *words, '--updates', '6000')['counts']
        served = self.ended(server)
        self.assertEqual((served['connections'], served['images'], served['updates']), (3, 1200, 6000))
        self.assertEqual((counts['images'], counts['updates']), (1200, 6000))

    def test_the_messages_and_items_of_files(self):
        """In the XML of the SDK's tools, whose own files are read too where they are there."""
        items = os.path.join(self.directory, 'items.xml')
        with open(items, 'w') as f:
            entry = '<item domain="MarketPrice" name="FILE%d" post="true" generic="%s"/>\n'
            f.write('<itemList>\n%s</itemList>\n' % ''.join(entry % (n, str(n % 2 == 0).lower()) for n in range(20)))
        messages = os.path.join(ROOT, 'crates', 'lab', 'testtools', 'src', 'messages', 'standard.xml')
        server = self.server('--updates', '500', '--msg-file', messages)
        words = ('--item-file', items, '--items', '15', '--msg-file', messages, '--updates', '500')
        counts = self.client(server.port, *words)['counts']
        self.assertEqual((counts['requests'], counts['updates']), (15, 500))
        self.ended(server)

    def test_exit_statuses_and_what_is_said(self):
        server = self.server()
        summary = self.client(server.port, '--items', '2', '--service', 'NONE', '--startup-time', '20', status=1)
        self.assertIn('DIRECT_FEED, not NONE', summary['failures'][0])
        bad = os.path.join(self.directory, 'bad.xml')
        with open(bad, 'w') as f:
            f.write('<itemList>\n<item domain="MarketPrice"/></itemList>')
        wrong = self.tool('testclient', '--item-file', bad, name='wrong')
        self.assertEqual(wrong.wait(), 2)
        self.assertIn(bad + ':2: <item> has no attribute name', wrong.log())
        self.ended(server)

    def test_a_line_for_each_interval_and_the_summary_of_the_usual_tool(self):
        server = self.server('--updates', '1000')
        words = [binary(), 'testclient', '--host', 'localhost:%d' % server.port, '--items', '10', '--updates', '1000']
        client = Process('text', words, self.directory)
        self.keep(client)
        self.assertEqual(client.wait(), 0, client.tail())
        for line in ('--- OVERALL SUMMARY ---', 'Steady State Statistics:', '  Updates received: 1000',
                     '  Refreshes received: 10', '  Requests sent: 10'):
            self.assertIn(line, client.out().splitlines())
        self.ended(server)


class NonInteractive(TestTools):
    """Our provider publishes to a sink on the ETA library."""

    def test_images_and_updates_are_those_that_were_sent(self):
        port = free_ports()
        sink = self.java('nisink', '--port', str(port), '--expect-refreshes', '30', '--expect-updates', '900',
                         '--end-after-clients', '1', name='sink')
        sink.wait_told('ready')
        words = ('--connect', 'localhost:%d' % port, '--items', '30', '--update-rate', '5000', '--updates', '900')
        publisher = self.tool('testserver', *words, name='publisher')
        publisher.wait_told('ready')
        sink.wait_told('update', 900)
        served = self.ended(publisher)
        self.assertEqual((served['images'], served['updates'], served['dropped']), (30, 900, 0))
        status, result, _ = sink.result()
        self.assertEqual((status, result['status']), (0, 'OK'), sink.tail())
        self.assertEqual((result['counts']['refresh'], result['counts']['update']), (30, 900))


class ThroughTheServers(TestTools):
    """Our provider, a source distributor, a P2PS; our consumer and one on the EMA library beside each other."""

    @classmethod
    def scenario(cls):
        system = cls.system()
        distributor = system.source_distributor()
        p2ps = system.p2ps()
        rates = ('--update-rate', '2000', '--latency-rate', 'all')
        words = ('--connect', 'localhost:%d' % system.provider_port, '--items', '100', '--service', 'LOAD',
                 '--service-id', '7', *rates)
        cls.publisher = cls.tool('testserver', *words, name='publisher')
        cls.publisher.wait_told('ready')
        system.wait_serving(p2ps, 'LOAD')
        cls.file = os.path.join(cls.directory, 'latencies')
        cls.summary = cls.client(p2ps.port, '--service', 'LOAD', '--items', '100', '--updates', '4000')
        # Both watch until the other has begun, so that there are updates that both have.
        words = ('--host', 'localhost:%d' % p2ps.port, '--service', 'LOAD', '--items', '100')
        ours = cls.tool('testclient', *words, '--latency-file', cls.file, name='beside')
        ours.wait_told('steady')
        words = ('--service', 'LOAD', '--count', '100', '--updates', '4000', '--after-images', '--show-stamps',
                 '100000')
        java = cls.timed(p2ps.port, *words)
        cls.java_status, cls.theirs, _ = java.result()
        cls.ours_status = ours.end()
        cls.beside = ours.summary()
        cls.publisher_status = cls.publisher.end()
        cls.processes_alive = [process.is_running() for process in (distributor, p2ps)]

    def test_all_images_and_updates_come_through(self):
        counts = self.summary['counts']
        self.assertEqual(counts['images'], 100)
        self.assertGreaterEqual(counts['updates'], 4000)
        self.assertEqual((counts['closed'], counts['unreadable_fields'], counts['unknown_fields']), (0, 0, 0))

    def test_both_consumers_have_read_the_same_stamps(self):
        """Every update of the time in which both watched, each as often."""
        self.assertEqual((self.java_status, self.ours_status, self.publisher_status), (0, 0, 0), self.logs())
        with open(self.file) as f:
            ours = [int(line.split(',')[0]) for line in f.read().splitlines()[1:]]
        theirs = self.theirs['stamps']
        # From when the later one had all its images, until the last update of who was ended first.
        first, last = theirs[self.theirs['stamps_before_images']], min(ours[-1], theirs[-1])
        self.assertEqual(sorted(s for s in ours if first < s < last), sorted(s for s in theirs if first < s < last))
        self.assertLess(100, sum(first < s < last for s in theirs))


class Dialled(TestTools):
    """A source distributor dials our provider; our consumer at a P2PS posts to it and sends generic messages."""

    def test_posts_and_generic_messages_go_all_the_way_and_back(self):
        server = self.server('--updates', '3000', '--update-rate', '5000', '--service-id', '7')
        system = self.system()
        system.source_distributor(sets=java_tools.dialled('load', server.port))
        p2ps = system.p2ps()
        system.wait_serving(p2ps, 'DIRECT_FEED')
        mixes = ('--post-rate', '500', '--posts', '200', '--post-latency-rate', 'all', '--post-acks')
        generics = ('--generic-rate', '500', '--generics', '150', '--generic-latency-rate', 'all')
        words = ('--items', '50', '--updates', '3000', *mixes, *generics)
        counts = self.client(p2ps.port, *words)['counts']
        served = self.ended(server)
        self.assertEqual((served['images'], counts['images']), (50, 50))
        self.assertEqual((served['updates'], counts['updates'] - counts['posts_returned']), (3000, 3000))
        self.assertEqual((counts['posts'], counts['posts_returned'], counts['posts_refused']), (200, 200, 0))
        self.assertEqual((served['posts'], served['posts_reflected']), (200, 200))
        self.assertEqual((counts['generics'], counts['generics_returned']), (150, 150))
        self.assertEqual((served['generics'], served['generics_answered']), (150, 150))
        self.assertEqual((counts['post_latency']['count'], counts['generic_latency']['count']), (200, 150))


if __name__ == '__main__':
    unittest.main()
