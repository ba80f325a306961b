"""NATS with JetStream: packets that a P2PS has lost come from a stream, and no client notices; without it gaps are told."""

import json
import unittest

import nats_servers
from nats_servers import STREAM, Lossy
from test_deaths import Deaths


class Loses(Deaths):
    """A P2PS that loses packets of its services on the way from its server, again and again during one replay."""

    # How many at a time.
    LOSSES = 1, 2, 5, 30, 1
    STREAM_SETS = {}

    @classmethod
    def start(cls, of_distributor, of_p2ps):
        cls.lossy = Lossy(of_p2ps)
        cls.addClassCleanup(cls.lossy.close)
        cls.SETS = nats_servers.sets([of_distributor])
        cls.begin(speed='10')
        cls.play(4_000)
        cls.marks = cls.mark()
        cls.before = cls.p2ps.metrics()
        cls.lose()

    @classmethod
    def serve(cls):
        servers = {'backbone.nats.servers': json.dumps([cls.lossy.url])}
        return cls.system_.p2ps(sets={**cls.SETS, **servers, **cls.STREAM_SETS})

    @classmethod
    def watchers(cls):
        return [cls.system_.native(cls.p2ps)]

    @classmethod
    def lose(cls):
        for count in cls.LOSSES:
            cls.lossy.drop(count)
            cls.play(300)

    @classmethod
    def end(cls):
        cls.still_playing = cls.feed.metrics()['feed_rounds_total'] == 0
        cls.finish()
        cls.after = cls.p2ps.metrics()
        cls.seen = {
            key: item.states[cls.marks[client][key] :] for client in cls.clients for key, item in client.look().items.items()
        }

    def grown(self, name):
        return self.after[name] - self.before[name]


class EndsRight:
    """What is so in any case."""

    def test_it_happened_under_load(self):
        self.assertTrue(self.still_playing)

    def test_the_end_is_right(self):
        self.assert_all_good()


class FromAStream(EndsRight, Loses):
    """Where JetStream has what was lost. A machine that is busy elsewhere may take its time."""

    STREAM_SETS = {'backbone.nats.jetstream.stream': STREAM, 'backbone.nats.jetstream.wait_ms': 20_000}
    STREAM_SETS['p2ps.silence_timeout_ms'] = 30_000

    @classmethod
    def scenario(cls):
        (server,) = nats_servers.with_jetstream(cls.directory)
        cls.keep(server)
        nats_servers.create_stream(server)
        cls.start(server, server)
        cls.end()

    def test_all_packets_are_there(self):
        dropped = self.lossy.dropped
        self.assertGreaterEqual(dropped, sum(self.LOSSES))
        self.assertEqual(self.after['nats_jetstream_packets_recovered_total'], dropped)
        self.assertEqual(self.after['nats_packets_lost_total'], 0)
        self.assertEqual(self.after['nats_jetstream_holes_given_up_total'], 0)
        self.assertEqual(self.after['nats_jetstream_held_bytes'], 0)

    def test_no_gap_was_told_and_no_image_was_asked_for(self):
        self.assertEqual(self.after['p2ps_gaps_total'], 0)
        self.assertEqual(self.grown('p2ps_images_requested_total'), 0)

    def test_no_client_noticed(self):
        self.assertEqual({key: states for key, states in self.seen.items() if 'Suspect' in states}, {})


class FromACluster(FromAStream):
    """Of three servers with a stream in three copies one dies, neither that of a daemon nor the one that leads."""

    @classmethod
    def scenario(cls):
        servers = nats_servers.with_jetstream(cls.directory, 3)
        for server in servers:
            cls.keep(server)
        name = nats_servers.create_stream(servers[0], 3)
        leader = next(server for server in servers if server.name == name)
        of_p2ps, victim = [server for server in servers if server is not leader]
        cls.start(leader, of_p2ps)
        victim.kill()
        cls.lose()
        cls.end()


class WithoutAStream(EndsRight, Loses):
    """The same loss where nothing is stored."""

    @classmethod
    def scenario(cls):
        (server,) = nats_servers.with_jetstream(cls.directory)
        cls.keep(server)
        cls.start(server, server)
        cls.end()

    def test_gaps_were_told_and_images_asked_for(self):
        self.assertEqual(self.after['nats_packets_lost_total'], self.lossy.dropped)
        self.assertGreater(self.after['p2ps_gaps_total'], 0)
        self.assertGreater(self.grown('p2ps_images_requested_total'), 0)


class Misnamed(WithoutAStream):
    """A stream that is not there costs the wait, and is told of."""

    STREAM_SETS = {'backbone.nats.jetstream.stream': 'OTHER', 'backbone.nats.jetstream.wait_ms': 100}

    def test_it_was_said(self):
        said = [line for line in (self.p2ps.log() + self.p2ps.out()).splitlines() if 'about stream OTHER' in line]
        again = [line for line in said if 'times since it was said last' in line]
        self.assertEqual(len(said) - len(again), 1, said)
        failed = [self.after['nats_jetstream_requests_%s_total' % how] for how in ('unanswered', 'refused')]
        self.assertGreater(sum(failed), 0)
        self.assertGreater(self.after['nats_jetstream_holes_given_up_total'], 0)


if __name__ == '__main__':
    unittest.main()
