"""`kill -9` of each part under load, the same command line again; all end with right images by themselves."""

import unittest

from daemons import hold_until_ready, wait_at
from process import wait_until
from system_test import SystemTest


class Deaths(SystemTest):
    """What the scenarios share: `episodes` has the data states each client saw from death to recovery."""

    # Of all daemons.
    SETS = {}

    @classmethod
    def begin(cls, speed):
        cls.system_ = cls.system()
        cls.distributor = cls.system_.source_distributor(sets=cls.SETS)
        cls.p2ps = cls.serve()
        cls.feed = cls.system_.feed(speed=speed, delay_ms=3000)
        cls.clients = cls.watchers()
        cls.episodes = {}
        hold_until_ready(cls.feed, cls.distributor, cls.clients)

    @classmethod
    def serve(cls):
        """Whom the clients ask."""
        return cls.system_.p2ps(sets=cls.SETS)

    @classmethod
    def watchers(cls):
        return [cls.system_.java(cls.p2ps), cls.system_.native(cls.p2ps)]

    @classmethod
    def play(cls, more):
        """Waits until so many more updates have been played, or all of the recording: what went before may take long."""
        name = 'provider_updates_out_total'
        until = cls.feed.metrics()[name] + more

        def is_played():
            metrics = cls.feed.metrics()
            return metrics[name] >= until or metrics['feed_rounds_total'] > 0

        played = lambda: cls.feed.metrics()['feed_position']
        wait_until(is_played, '%s plays up to %d' % (cls.feed.name, until), [cls.feed], progress=played)

    @classmethod
    def mark(cls):
        counts = lambda client: {key: len(item.states) for key, item in client.look().items.items()}
        return {client: counts(client) for client in cls.clients}

    @classmethod
    def episode(cls, name, victims, restart):
        """Kills the victims, waits until all clients say so, starts them again, waits until all is good."""
        for client in cls.clients:
            wait_until(client.is_good, '%s is good before: %s' % (client.name, name), [client])
        marks = cls.mark()
        for victim in victims:
            victim.kill()
        for client in cls.clients:
            seen = lambda: all(
                'Suspect' in item.states[marks[client][key] :] for key, item in client.look().items.items()
            )
            said = lambda: '%s says Suspect after: %s; %s' % (client.name, name, cls.states(client))
            wait_until(seen, said, [client])
        for victim in restart:
            victim.restart()
        for client in cls.clients:
            said = lambda: '%s is good again after: %s; %s' % (client.name, name, cls.states(client))
            wait_until(client.is_good, said, [client, cls.p2ps, cls.distributor])
        cls.episodes[name] = {
            client.name: {key: item.states[marks[client][key] :] for key, item in client.items.items()}
            for client in cls.clients
        }

    @classmethod
    def states(cls, client):
        return {'%s/%d' % key: item.states[-4:] for key, item in client.items.items()}

    @classmethod
    def finish(cls):
        cls.feed.wait_played()
        wait_at(cls.clients, cls.system_.wait_right(cls.p2ps))

    def assert_all_good(self):
        for client in self.clients:
            with self.subTest(client=client.name):
                self.assert_finished_well(client)

    def assert_suspect_then_ok(self, name):
        for client, items in self.episodes[name].items():
            for key, states in items.items():
                with self.subTest(client=client, item=key):
                    self.assertEqual((states[0], states[-1]), ('Suspect', 'Ok'))


class ServerAndDistributor(Deaths):
    """The P2PS, the source distributor, and both, during one replay."""

    @classmethod
    def scenario(cls):
        # Slow enough that a busy machine is through with all deaths before the recording is: the clients' time-outs and the
        # feed's growing delays between attempts are what they are.
        cls.begin(speed='5')
        cls.play(10_000)
        cls.episode('p2ps', [cls.p2ps], [cls.p2ps])
        cls.play(2_000)
        cls.episode('distributor', [cls.distributor], [cls.distributor])
        cls.play(2_000)
        cls.episode('both', [cls.p2ps, cls.distributor], [cls.p2ps, cls.distributor])
        cls.still_playing = cls.feed.metrics()['feed_rounds_total'] == 0
        cls.finish()
        cls.late = cls.system_.p2ps(name='late', sets=cls.SETS)
        cls.system_.wait_right(cls.late)

    def test_it_happened_under_load(self):
        self.assertTrue(self.still_playing)

    def test_clients_that_lost_their_server_come_back_by_themselves(self):
        self.assert_suspect_then_ok('p2ps')
        for client in self.clients:
            with self.subTest(client=client.name):
                self.assertTrue(client.is_running())
                self.assertGreater(sum(item.refreshes for item in client.items.values()), len(client.items))

    def test_clients_that_stayed_connected_saw_suspect_and_then_ok_when_the_distributor_died(self):
        self.assert_suspect_then_ok('distributor')

    def test_both_may_die_together(self):
        self.assert_suspect_then_ok('both')

    def test_the_end_is_right_for_all_clients(self):
        self.assert_all_good()

    def test_a_server_that_starts_after_the_replay_has_right_images(self):
        status, finals, _ = self.system_.snapshot(self.late)
        self.assertEqual(status, 0)
        self.assert_final_images(finals)


class Feed(Deaths):
    """The feed dies; started again it plays from the beginning."""

    @classmethod
    def scenario(cls):
        cls.begin(speed='25')
        cls.play(20_000)
        cls.accepted = cls.p2ps.metrics()['rssl_accepted_total']
        cls.episode('feed', [cls.feed], [cls.feed])
        cls.finish()

    def test_clients_saw_suspect_and_then_ok(self):
        self.assert_suspect_then_ok('feed')

    def test_no_client_lost_its_connection(self):
        snapshots = [process for process in self.processes if process.name == 'snapshot']
        self.assertEqual(self.p2ps.metrics()['rssl_accepted_total'], self.accepted + len(snapshots))

    def test_the_end_is_right_for_all_clients(self):
        self.assert_all_good()


class DistributorAway(Deaths):
    """The source distributor is dead for 30 seconds of the recording."""

    @classmethod
    def scenario(cls):
        cls.begin(speed='25')
        cls.play(10_000)
        start = cls.feed.metrics()['feed_position']
        played = lambda: cls.feed.metrics()['feed_position'] - start >= 30_000_000_000
        cls.distributor.kill()
        wait_until(played, 'the feed plays on for 30 s of the recording', [cls.feed])
        for client in cls.clients:
            # No word of the source distributor's return could have come before.
            knows = lambda: client.look().has_become('Suspect')
            wait_until(knows, lambda: '%s knows: %s' % (client.name, cls.states(client)), [client])
        cls.distributor.restart()
        cls.finish()

    def test_the_end_is_right_for_all_clients(self):
        self.assert_all_good()


if __name__ == '__main__':
    unittest.main()
