"""NATS as the backbone: each role and each server dies under load, a cluster loses one of three, TLS and passwords."""

import os
import signal
import sys
import time
import unittest

import nats_servers
from consumers import Consumer
from daemons import binary
from java_tools import numbered
from nats_servers import NatsServer
from process import ROOT, wait_until
from system_test import SystemTest
from test_deaths import Deaths

TLS = os.path.join(ROOT, 'crates', 'io', 'net', 'testdata', 'tls')


class OverNats(Deaths):
    """A system over servers of NATS, and a client."""

    @classmethod
    def begin(cls, servers, speed):
        cls.servers = servers
        for server in servers:
            cls.keep(server)
        cls.SETS = nats_servers.sets(servers)
        super().begin(speed)

    @classmethod
    def watchers(cls):
        return [cls.system_.native(cls.p2ps)]

    @classmethod
    def late(cls):
        """The images of a P2PS that starts now."""
        late = cls.system_.p2ps(sets=cls.SETS, name='late')
        cls.system_.wait_right(late)
        return cls.system_.snapshot(late)


class EndsRight:
    """What is so whoever has died."""

    def test_it_happened_under_load(self):
        self.assertTrue(self.still_playing)

    def test_the_end_is_right(self):
        self.assert_all_good()

    def test_a_server_that_starts_after_the_replay_has_right_images(self):
        status, finals, _ = self.late_images
        self.assertEqual(status, 0)
        self.assert_final_images(finals)


class EachPart(EndsRight, OverNats):
    """P2PS, source distributor and server die one after the other, during one replay."""

    @classmethod
    def scenario(cls):
        cls.begin([NatsServer('nats', cls.directory)], speed='5')
        cls.play(8_000)
        cls.episode('p2ps', [cls.p2ps], [cls.p2ps])
        cls.play(2_000)
        cls.episode('distributor', [cls.distributor], [cls.distributor])
        cls.play(2_000)
        cls.closed_before = cls.p2ps.metrics()['nats_links_closed_total']
        cls.episode('nats', cls.servers, cls.servers)
        cls.still_playing = cls.feed.metrics()['feed_rounds_total'] == 0
        cls.finish()
        cls.late_images = cls.late()

    def test_clients_saw_suspect_and_then_ok(self):
        for name in 'p2ps', 'distributor', 'nats':
            with self.subTest(name):
                self.assert_suspect_then_ok(name)

    def test_a_link_does_not_outlive_the_connection(self):
        self.assertGreater(self.p2ps.metrics()['nats_links_closed_total'], self.closed_before)


class Cluster(EndsRight, OverNats):
    """Of three servers the one dies that the source distributor is connected to."""

    @classmethod
    def scenario(cls):
        cls.begin(nats_servers.cluster(cls.directory), speed='5')
        cls.play(8_000)
        cls.die('the source distributor', cls.distributor)
        cls.play(2_000)
        cls.still_playing = cls.feed.metrics()['feed_rounds_total'] == 0
        cls.gaps = cls.p2ps.metrics()['p2ps_gaps_total'] + cls.p2ps.metrics()['nats_links_closed_total']
        cls.finish()
        cls.late_images = cls.late()

    @classmethod
    def die(cls, whose, daemon):
        victim = nats_servers.server_of(daemon, cls.servers)
        start = time.monotonic()
        cls.episode(whose, [victim], [])
        took = time.monotonic() - start
        print('cluster of three, the server of %s killed: all items good again after %.2f s' % (whose, took))

    def test_what_was_lost_was_noticed(self):
        self.assertGreater(self.gaps, 0)
        self.assert_suspect_then_ok('the source distributor')

    def test_the_daemon_has_gone_to_another_server(self):
        metrics = self.distributor.metrics()
        self.assertEqual((metrics['nats_connection_connected'], metrics['nats_connection_connects_total']), (1, 2))


class Hangs(Cluster):
    """The same; that one stands still, accepts connections and answers nothing, for as long as the test is."""

    @classmethod
    def die(cls, whose, daemon):
        victim = nats_servers.server_of(daemon, cls.servers)
        victim.kill = victim.hold
        cls.addClassCleanup(vars(victim).pop, 'kill', None)
        start = time.monotonic()
        cls.episode(whose, [victim], [])
        took = time.monotonic() - start
        print('cluster of three, the server of %s stopped: all items good again after %.2f s' % (whose, took))


class Secured(SystemTest):
    """Encrypted connections and a password; who has another one gets nothing."""

    @classmethod
    def scenario(cls):
        path = lambda name: os.path.join(TLS, name)
        server = NatsServer(
            'nats',
            cls.directory,
            lines=[
                'tls { cert_file: "%s", key_file: "%s" }' % (path('server.pem'), path('server.key')),
                'authorization { user: "tickcast", password: "correct" }',
            ],
            scheme='tls',
        )
        cls.keep(server)
        system = cls.system()
        more = {'nats.ca_file': path('ca.pem'), 'nats.user': 'tickcast'}
        with_password = lambda text: nats_servers.sets([server], **more, **{'nats.password_file': cls.password(text)})
        distributor = system.source_distributor(sets=with_password('correct'))
        cls.p2ps = system.p2ps(sets=with_password('correct'))
        cls.stranger = system.p2ps(sets=with_password('wrong'), name='stranger')
        feed = system.feed(speed='max')
        cls.client = system.native(cls.p2ps)
        feed.wait_played()
        system.wait_right(cls.p2ps)
        _, cls.finals, _ = system.snapshot(cls.p2ps)
        cls.stranger.wait_says('Look at backbone.nats.user, password_file')
        cls.distributor = distributor

    @classmethod
    def password(cls, text):
        path = os.path.join(cls.directory, 'password-' + text)
        with open(path, 'w') as f:
            f.write(text + '\n')
        os.chmod(path, 0o600)
        return path

    def test_images_are_right(self):
        self.assert_final_images(self.finals)

    def test_who_has_another_password_has_no_service(self):
        self.assertEqual(self.stranger.status()['services'], [])
        self.assertEqual(self.stranger.metrics()['nats_connection_connected'], 0)

    def test_what_stays_wrong_is_said_once_and_then_with_its_number(self):
        said = (self.stranger.log() + self.stranger.out()).splitlines()
        said = [line for line in said if 'Look at backbone.nats.user' in line]
        self.assertEqual(len([line for line in said if 'times since it was said last' not in line]), 1, said)
        # Nor by the library that connects, at each attempt.
        self.assertNotIn('async_nats', self.stranger.log() + self.stranger.out())

    def test_nothing_is_said_to_be_open(self):
        for daemon in self.distributor, self.p2ps:
            self.assertNotIn('the backbone is open', daemon.log() + daemon.out())


class OneSubjectIsCut(SystemTest):
    """A P2PS may not read the stream of a service any more, while the directory of its source distributor goes on."""

    # A server takes another configuration only with the name it has.
    CONFIG = 'server_name: nats\nauthorization { users = [ { user: "sd", password: "p" }, { user: "p2ps", password: "p"%s } ] }'
    CUT = ', permissions: { subscribe: { deny: "tickcast.service.>" } }'

    @classmethod
    def scenario(cls):
        cls.nats = NatsServer('nats', cls.directory, lines=[cls.CONFIG % ''])
        cls.keep(cls.nats)
        password = os.path.join(cls.directory, 'password')
        with open(password, 'w') as f:
            f.write('p')
        os.chmod(password, 0o600)
        # The carrier would end the stream some time, too.
        more = {'nats.password_file': password, 'nats.timeout_ms': 600_000}
        sets = lambda user: nats_servers.sets([cls.nats], **more, **{'nats.user': user})
        system = cls.system()
        # The provider makes its connection anew after two seconds without a word.
        ping = {'source_distributor.provider.ping_timeout_%s_s' % bound: 2 for bound in ('min', 'max')}
        cls.distributor = system.source_distributor(sets=sets('sd') | numbered('NI_PUB', 1) | ping)
        cls.p2ps = system.p2ps(sets=sets('p2ps'))
        script = os.path.join(ROOT, 'interop', 'system', 'ticking_provider.py')
        words = [sys.executable, script, '20', '1', '127.0.0.1:%d' % system.provider_port]
        system.process('provider', words)
        system.wait_serving(cls.p2ps, 'NI_PUB')
        words = [binary(), 'watch', '--json', '--host', cls.p2ps.server, '--service', 'NI_PUB', 'T0']
        cls.client = Consumer('client', words, cls.directory, [('T0', 6)], is_conflated=True)
        cls.keep(cls.client)

    @classmethod
    def reload(cls, permissions):
        with open(os.path.join(cls.directory, 'nats.conf'), 'w') as f:
            f.write(cls.CONFIG % permissions)
        cls.nats.child.send_signal(signal.SIGHUP)

    def test_its_items_are_suspect_and_the_log_names_the_service(self):
        item = self.client.items['T0', 6]
        wait_until(self.client.is_good, 'the client has its item', [self.client])
        instance = self.p2ps.status()['services'][0]['instance']
        self.reload(self.CUT)
        suspect = lambda: self.client.look().has_become('Suspect')
        wait_until(suspect, lambda: 'the item is suspect: %s' % item.states, [self.client, self.p2ps])
        self.p2ps.wait_says('nothing of service "NI_PUB" has come from source distributor %s' % instance)
        self.assertEqual(self.p2ps.metrics()['p2ps_streams_silent_total'], 1)
        self.assertEqual(self.p2ps.metrics()['p2ps_instances'], 1, 'the directory is heard')


class Refused(SystemTest):
    """What cannot work is refused at the start, with the key."""

    def start(self, sets):
        words = ['--set=%s=%s' % pair for pair in sets.items()]
        process = self.system().process('refused', [binary(), 'p2ps', *words])
        self.assertNotEqual(process.wait(), 0)
        return process.log() + process.out()

    def test_keys_of_multicast_protect_nothing_here(self):
        sets = {'backbone.carrier': 'nats', 'backbone.nats.servers': '["nats://127.0.0.1:4222"]'}
        said = self.start({**sets, 'backbone.encryption_key_file': 'keys'})
        self.assertIn('encryption_key_file is for multicast and protects nothing over NATS', said)

    def test_a_password_that_is_not_there(self):
        sets = {'backbone.carrier': 'nats', 'backbone.nats.servers': '["nats://127.0.0.1:4222"]'}
        said = self.start({**sets, 'backbone.nats.user': 'u', 'backbone.nats.password_file': '/nowhere/password'})
        self.assertIn('/nowhere/password', said)

    def test_a_demo_without_a_server_says_what_to_do(self):
        from ports import free_ports

        url = 'nats://127.0.0.1:%d' % free_ports()
        process = self.system().process('demo', [binary(), 'demo', '--backbone', 'nats', '--nats-server', url])
        self.assertNotEqual(process.wait(), 0)
        self.assertIn('no server of NATS answers at %s' % url, process.log() + process.out())
        self.assertIn('apt-get install nats-server', process.log() + process.out())


class Demo(SystemTest):
    """`tickcast demo --backbone nats`."""

    @classmethod
    def scenario(cls):
        server = NatsServer('nats', cls.directory)
        cls.keep(server)
        system = cls.system()
        cls.demo = system.demo('--speed', 'max', '--backbone', 'nats', '--nats-server', server.url)
        wait_until(lambda: cls.demo.metrics().sum('feed_rounds_total') >= 1, 'the recording is played', [cls.demo])
        system.wait_right(cls.demo)
        _, cls.finals, _ = system.snapshot(cls.demo)

    def test_images_are_right(self):
        self.assert_final_images(self.finals)


if __name__ == '__main__':
    unittest.main()
