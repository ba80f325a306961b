"""Servers that are drained before maintenance, and a rolling restart of everything under load.

Which client goes when is the matter of unit tests (`p2ps/src/drain.rs`). Here a drain has ten minutes, in which nobody
leaves while a test looks, or none, so that all leave at once.
"""

import http.client
import json
import os
import signal
import socket
import subprocess
import unittest

import expected
import rssl_bytes as rssl
from daemons import binary, hold_until_ready, wait_at
from java_tools import numbered
from process import WATCHDOG_S, wait_until
from rssl_clients import RsslConsumer, RsslProvider
from system_test import SystemTest
from test_deaths import Deaths
from test_pop import behind
from test_shutdown import GOING_AWAY, OPEN, SUSPECT, asked
from websocket_bytes import JsonClient

LONG_MS = 600_000
TEN_MINUTES = {'p2ps.drain_ms': LONG_MS}
NAME = b'NI.1'
MOVED = 'the server is drained: connect to another one'


def order(daemon, path):
    """(status, what is said) of an order at the admin port."""
    connection = http.client.HTTPConnection('127.0.0.1', daemon.admin.port, timeout=WATCHDOG_S)
    connection.request('POST', path)
    answer = connection.getresponse()
    said = answer.read().decode()
    connection.close()
    return answer.status, json.loads(said) if answer.status == 200 else said


def tickcast(*words):
    """(exit status, output) of a command."""
    done = subprocess.run([binary(), *words], capture_output=True, text=True, timeout=2 * WATCHDOG_S)
    return done.returncode, done.stdout + done.stderr


def drain_of(daemon):
    return (daemon.status() or {}).get('drain') or {}


def wait_state(daemon, state):
    wait_until(lambda: drain_of(daemon).get('state') == state, lambda: '%s: %s' % (state, drain_of(daemon)), [daemon])


def is_refused(port):
    try:
        socket.create_connection(('127.0.0.1', port), WATCHDOG_S).close()
    except ConnectionRefusedError:
        return True
    return False


def read_end(connection):
    """What still comes on a socket until the server ends the stream. A reset is an error."""
    connection.settimeout(WATCHDOG_S)
    return b''.join(iter(lambda: connection.recv(65_536), b''))


class Consumer(RsslConsumer):
    """One to which a reset is an error."""

    def _read(self):
        try:
            self.socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            pass
        super()._read()


class DrainTest(SystemTest):
    """Helpers: a provider by hand, consumers of its item."""

    @classmethod
    def serve(cls, sets=()):
        """A P2PS with a service of one item."""
        system = cls.system_ = cls.system()
        cls.distributor = system.source_distributor(sets=numbered('NI_PUB', 1))
        cls.p2ps = system.p2ps(sets=dict(sets))
        cls.provide()

    @classmethod
    def provide(cls):
        cls.provider = RsslProvider(cls.system_.provider_port, 'feed').wait_count(1, 1)
        cls.addClassCleanup(cls.provider.close)
        cls.provider.send(rssl.DIRECTORY_REFRESH, rssl.ITEM_REFRESH)
        wait_until(lambda: asked(cls.p2ps.admin, '/ready') == (200, 'ready\n'), 'the P2PS is ready', [cls.p2ps])

    @classmethod
    def consumers(cls, count, p2ps=None):
        clients = [Consumer((p2ps or cls.p2ps).port, 'user-%d' % at).wait_count(1, 1) for at in range(count)]
        for client in clients:
            cls.addClassCleanup(client.close)
            client.send(rssl.item_request(NAME))
            client.wait_count(5, 1)
        return clients

    @classmethod
    def update(cls, clients):
        """An update reaches all of them."""
        counts = [len(client.of_stream(5)) for client in clients]
        cls.provider.send(rssl.ITEM_UPDATE)
        for client, count in zip(clients, counts):
            client.wait_count(5, count + 1)

    def assert_moved(self, client):
        client.wait_end()
        kind, _, _, _, state, *_ = client.of_stream(1)[-1]
        self.assertEqual((kind, list(state)[:2]), ('STATUS', [OPEN, SUSPECT]))
        client.close()


class Drained(DrainTest):
    """By an operator, on one thread."""

    SHARDS = 1

    @classmethod
    def scenario(cls):
        cls.serve({'p2ps.shards': cls.SHARDS})
        cls.clients = cls.consumers(6)
        cls.json = [JsonClient(cls.p2ps.websocket_port) for _ in range(2)]
        for client in cls.json:
            client.log_in()
        cls.silent = socket.create_connection(('127.0.0.1', cls.p2ps.port), WATCHDOG_S)
        cls.half = socket.create_connection(('127.0.0.1', cls.p2ps.port), WATCHDOG_S)
        cls.half.sendall(rssl.connect_request())
        cls.half.recv(1)
        open_ = lambda: cls.p2ps.status()['connections']
        wait_until(lambda: open_() == 10, lambda: 'all are there: %s' % open_(), [cls.p2ps])

    def test_a_drain_from_its_beginning_to_its_end_and_back(self):
        p2ps = self.p2ps
        # Two that wait to be accepted when it begins: whether they come before it or behind, they get no reset.
        p2ps.hold()
        late = [socket.create_connection(('127.0.0.1', p2ps.port), WATCHDOG_S) for _ in range(2)]
        ordering = http.client.HTTPConnection('127.0.0.1', p2ps.admin.port, timeout=WATCHDOG_S)
        ordering.request('POST', '/drain?over_ms=%d' % LONG_MS)
        p2ps.go_on()
        begun = json.loads(ordering.getresponse().read())
        ordering.close()
        self.assertEqual((begun['state'], begun['over_ms']), ('draining', LONG_MS))
        for connection in (*late, self.silent):
            self.assertEqual(read_end(connection), b'')
            connection.close()
        read_end(self.half)
        self.half.close()
        left = lambda: drain_of(p2ps).get('connections_left')
        wait_until(lambda: left() == 8, lambda: 'who has logged in stays: %s' % left(), [p2ps])

        said = 503, 'it is being drained, 8 connections are left\n'
        wait_until(lambda: asked(p2ps.admin, '/ready') == said, lambda: asked(p2ps.admin, '/ready'), [p2ps])
        self.assertEqual(asked(p2ps.admin, '/health'), (200, 'ok\n'))
        self.assertTrue(is_refused(p2ps.port) and is_refused(p2ps.websocket_port))
        self.update(self.clients)
        metrics = p2ps.metrics()
        self.assertEqual(
            [metrics[name] for name in ('p2ps_is_drained', 'p2ps_clients_to_drain', 'p2ps_clients_drained_total')],
            [self.SHARDS, 8, 1],
        )

        # Once more changes nothing; taken back, clients are taken again.
        again = order(p2ps, '/drain')
        self.assertEqual((again[0], again[1]['state'], again[1]['over_ms']), (200, 'draining', LONG_MS))
        self.assertEqual((order(p2ps, '/undrain')[1]['state'], asked(p2ps.admin, '/ready')[0]), ('serving', 200))
        self.assertEqual(order(p2ps, '/undrain')[0], 200)
        self.clients += self.consumers(1)
        self.update(self.clients)
        self.assertEqual(p2ps.metrics()['p2ps_is_drained'], 0)

        # A service that is lost meanwhile is no hindrance.
        self.distributor.kill()
        order(p2ps, '/drain?over_ms=%d' % LONG_MS)
        status, text = tickcast('admin', 'drain', '127.0.0.1:%d' % p2ps.admin.port, '--over', '0', '--wait')
        self.assertEqual(status, 0, text)
        self.assertIn('drained, ', text)
        for client in self.clients:
            self.assert_moved(client)
        for client in self.json:
            moved = client.wait(lambda m: m['Type'] == 'Status' and m.get('Domain') == 'Login')['State']
            self.assertEqual((moved['Stream'], moved['Data'], moved['Text']), ('Open', 'Suspect', MOVED))
            self.assertEqual(client.wait_end(), GOING_AWAY)
            client.close()
        self.assertEqual(asked(p2ps.admin, '/ready'), (503, 'it is drained\n'))
        metrics = p2ps.metrics()
        self.assertEqual((metrics['p2ps_clients_drained_total'], metrics['p2ps_clients_to_drain']), (10, 0))
        self.assertEqual((metrics['p2ps_clients_disconnected_total'], metrics['rssl_accepted_total']), (0, 8))

        # Nobody is there: it is drained at once. It serves again when that is taken back, and ends as ever.
        order(p2ps, '/undrain')
        self.assertEqual(order(p2ps, '/drain')[1]['connections_left'], 0)
        wait_state(p2ps, 'drained')
        self.assertEqual(tickcast('admin', 'undrain', '127.0.0.1:%d' % p2ps.admin.port)[0], 0)
        self.distributor.restart()
        self.provider.close()
        self.provide()
        self.update(self.consumers(1))
        order(p2ps, '/drain?over_ms=%d' % LONG_MS)
        self.assertEqual(p2ps.end(), 0, 'without p2ps.drain_ms SIGTERM ends it at once, drained or not')


class DrainedShards(Drained):
    """By an operator, on four threads: three shards and what feeds them."""

    SHARDS = 3


class BySignal(DrainTest):
    """SIGTERM with `p2ps.drain_ms`, on one thread."""

    SETS = {'p2ps.shards': 1}

    @classmethod
    def scenario(cls):
        cls.serve(TEN_MINUTES | cls.SETS)
        cls.clients = cls.consumers(6)
        cls.p2ps.child.terminate()
        wait_state(cls.p2ps, 'draining')

    def test_clients_are_served_until_they_are_moved_on_and_then_it_ends(self):
        p2ps = self.p2ps
        self.assertTrue(is_refused(p2ps.port))
        self.assertEqual(asked(p2ps.admin, '/ready'), (503, 'it is shutting down\n'))
        self.assertEqual(asked(p2ps.admin, '/health'), (200, 'ok\n'))
        for _ in range(3):
            self.update(self.clients)
        status, said = order(p2ps, '/undrain')
        self.assertEqual((status, said), (409, 'this daemon shuts down: it takes no clients any more\n'))
        status, said = order(p2ps, '/drain?over_ms=%d' % (LONG_MS + 1))
        self.assertEqual(status, 409, said)
        self.assertRegex(said, r'^this daemon shuts down and moves its clients on within \d+ ms: over_ms may be that')
        status, said = tickcast('admin', 'drain', '127.0.0.1:%d' % p2ps.admin.port, '--over', '86400')
        self.assertEqual(status, 1, said)
        self.assertIn('this daemon shuts down and moves its clients on within', said)
        status, said = tickcast('top', '--json', '127.0.0.1:%d' % p2ps.admin.port)
        drains = [daemon['drain'] for daemon in json.loads(said)['daemons']] if status == 0 else said
        self.assertEqual([(drain['state'], drain['connections_left']) for drain in drains], [('draining', 6)])
        # What it shows is left as it was, and one without a time changes nothing.
        self.assertEqual((drain_of(p2ps)['over_ms'], order(p2ps, '/drain')[0]), (LONG_MS, 200))
        self.assertTrue(p2ps.is_running())
        order(p2ps, '/drain?over_ms=0')
        for client in self.clients:
            self.assert_moved(client)
        self.assertEqual(p2ps.wait(), 0)
        self.assertIn('drained: no client is left', p2ps.log())


class BySignalShards(BySignal):
    """The same on four threads: what feeds the shards goes on."""

    SETS = {'p2ps.shards': 3}


class BehindUpstream(BySignal):
    """The same of a point of presence: its upstream side goes on."""

    @classmethod
    def serve(cls, sets=()):
        super().serve()
        cls.first = cls.p2ps
        cls.p2ps = cls.system_.pop([behind(cls.first)], sets=sets)
        wait_until(lambda: asked(cls.p2ps.admin, '/ready') == (200, 'ready\n'), 'the second is ready', [cls.p2ps])


class BehindUpstreamShards(BehindUpstream):
    SETS = {'p2ps.shards': 2}


class Ends(DrainTest):
    @classmethod
    def scenario(cls):
        cls.serve()

    def setUp(self):
        if not self.p2ps.is_running():
            self.p2ps.restart()
            wait_until(lambda: asked(self.p2ps.admin, '/ready')[0] == 200, 'it is ready', [self.p2ps])

    def test_a_drain_may_end_the_daemon_and_the_command_waits_for_it(self):
        clients = self.consumers(2)
        address = '127.0.0.1:%d' % self.p2ps.admin.port
        self.assertEqual(order(self.p2ps, '/drain?end=true&over_ms=%d' % LONG_MS)[0], 200)
        status, text = tickcast('admin', 'drain', address, '--over', '0', '--end', '--wait')
        self.assertEqual((status, text.splitlines()[-1]), (0, '%s: it has ended' % address), text)
        for client in clients:
            self.assert_moved(client)
        self.assertEqual(self.p2ps.wait(), 0)

    def test_a_drain_that_is_taken_back_ends_nothing(self):
        (client,) = self.consumers(1)
        order(self.p2ps, '/drain?end=true&over_ms=%d' % LONG_MS)
        order(self.p2ps, '/undrain')
        # One that is drained without an end behind it stays, whatever was ordered before.
        self.update([client])
        self.assertTrue(self.p2ps.is_running())
        client.close()

    def test_who_may_not_is_told_so_and_what_is_no_p2ps_has_no_clients(self):
        self.assertEqual(order(self.distributor, '/drain'), (404, 'this daemon has no clients: ask a P2PS\n'))
        self.assertEqual(order(self.p2ps, '/drain?over_ms=86400001')[0], 400)
        status, text = tickcast('admin', 'drain', '127.0.0.1:%d' % self.distributor.admin.port)
        self.assertEqual(status, 1)
        self.assertIn('this daemon has no clients: ask a P2PS', text)


class Signals(DrainTest):
    @classmethod
    def scenario(cls):
        cls.serve(TEN_MINUTES)

    def setUp(self):
        if not self.p2ps.is_running():
            self.p2ps.restart()
            wait_until(lambda: asked(self.p2ps.admin, '/ready')[0] == 200, 'it is ready', [self.p2ps])

    def test_a_second_signal_ends_a_daemon_at_once(self):
        (client,) = self.consumers(1)
        self.p2ps.child.terminate()
        wait_state(self.p2ps, 'draining')
        self.p2ps.child.send_signal(signal.SIGINT)
        self.assertEqual(self.p2ps.wait(), -signal.SIGINT)
        client.close()

    def test_without_clients_it_ends_at_once(self):
        self.p2ps.child.terminate()
        self.assertEqual(self.p2ps.wait(), 0)

    def test_systemd_is_told_how_long_it_takes_and_that_it_lives_meanwhile(self):
        path = os.path.join(self.directory, 'notify')
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(path)
            manager.settimeout(WATCHDOG_S)
            self.p2ps.end()
            self.p2ps.env = {'NOTIFY_SOCKET': path, 'WATCHDOG_USEC': '300000'}
            self.addCleanup(setattr, self.p2ps, 'env', None)
            self.p2ps.restart()
            wait_until(lambda: asked(self.p2ps.admin, '/ready')[0] == 200, 'it is ready', [self.p2ps])
            (client,) = self.consumers(1)
            self.p2ps.child.terminate()
            heard = iter(lambda: manager.recv(200).decode(), '')
            last = next(said for said in heard if said.startswith('STOPPING=1'))
            name, _, limit_us = last.partition('\n')[2].partition('=')
            self.assertEqual(name, 'EXTEND_TIMEOUT_USEC')
            self.assertGreater(int(limit_us), LONG_MS * 1_000)
            self.assertEqual([next(heard) for _ in range(3)], ['WATCHDOG=1'] * 3)
            order(self.p2ps, '/drain?over_ms=0')
            self.assert_moved(client)
            self.assertEqual(self.p2ps.wait(), 0)


class RollingRestart(Deaths):
    """Two P2PSs and two source distributors, each restarted in its turn while a market is played.

    Clients have both P2PSs in their lists. Each is moved on once for each drain of its server, and is good again before
    that is started anew.
    """

    SETS = {'p2ps.shards': 1}

    @classmethod
    def scenario(cls):
        first, second = cls.pair()
        cls.system_ = first
        cls.distributors = [system.source_distributor(name='sd-%d' % at) for at, system in enumerate((first, second))]
        cls.servers = [first.p2ps(name='p2ps-%d' % at, sets=cls.SETS) for at in range(2)]
        cls.feeds = [
            system.feed(name='feed-%d' % at, speed='5', delay_ms=3000) for at, system in enumerate((first, second))
        ]
        cls.feed = cls.feeds[0]
        cls.clients = [client for at in range(2) for client in cls.clients_of(at)]
        cls.distributors[1].wait_count('distributor_items', len(expected.ITEMS))
        hold_until_ready(cls.feed, cls.distributors[0], cls.clients)
        cls.play(10_000)
        cls.wait_good('before')
        cls.seen, cls.statuses, cls.counts = {}, {}, {}
        for at, server in enumerate(cls.servers):
            cls.move_on(at, server)
            cls.play(1_000)
        for distributor in cls.distributors:
            cls.restart_distributor(distributor)
            cls.play(1_000)
        cls.still_playing = cls.feed.metrics()['feed_rounds_total'] == 0
        for feed in cls.feeds:
            feed.wait_played()
        wait_at(cls.clients, first.wait_right(cls.servers[0]))

    @classmethod
    def pair(cls):
        """Two systems on one backbone: two source distributors have ports of their own."""
        first = cls.system()
        return first, cls.system(first.place)

    @classmethod
    def clients_of(cls, at):
        """Those that begin at a server."""
        own, other = cls.servers[at], cls.servers[1 - at]
        json_ports = ['127.0.0.1:%d' % server.websocket_port for server in (own, other)]
        prices = tuple(item for item in expected.ITEMS if item[1] == 6)
        return [
            cls.system_.java(own, name='java-%d' % at, options=['--next-host', other.server]),
            cls.system_.native(own, name='native-%d' % at, options=['--host', other.server]),
            cls.system_.native(
                json_ports[0],
                name='json-%d' % at,
                options=['--host', json_ports[1], '--websocket'],
                items=prices,
            ),
        ]

    @classmethod
    def wait_good(cls, when):
        for client in cls.clients:
            said = lambda: '%s is good, %s; %s' % (client.name, when, cls.states(client))
            wait_until(client.is_good, said, [client])

    @classmethod
    def wait_back(cls, client, marks, when):
        """Waits until a client has lost all items since then, and all are good again."""
        lost = lambda: all('Suspect' in item.states[marks[client][key] :] for key, item in client.items.items())
        said = lambda: '%s is good again, %s; %s' % (client.name, when, cls.states(client))
        wait_until(lambda: client.is_good() and lost(), said, [client])

    @classmethod
    def move_on(cls, at, server):
        """Drains a server, and starts it anew when all its clients are good elsewhere."""
        marks = cls.mark()
        command = tickcast('admin', 'drain', '127.0.0.1:%d' % server.admin.port, '--over', '2', '--wait')
        moved = server.metrics()['p2ps_clients_drained_total']
        for client in cls.clients if at else cls.clients[:3]:
            cls.wait_back(client, marks, '%s is drained' % server.name)
        cls.counts[server.name] = command[0], moved
        cls.statuses[server.name] = server.end()
        cls.keep_states(server.name, marks)
        server.restart()
        cls.wait_images(server)

    @classmethod
    def restart_distributor(cls, distributor):
        marks = cls.mark()
        instance = distributor.status()['instance']
        # By then all clients are at the first server.
        is_felt = cls.instance_of(cls.servers[0]) == instance
        cls.statuses[distributor.name] = distributor.end()
        for server in cls.servers:
            other = lambda: cls.instance_of(server) not in (None, instance)
            wait_until(other, '%s has another source distributor' % server.name, [server])
        for client in cls.clients if is_felt else ():
            cls.wait_back(client, marks, '%s has ended' % distributor.name)
        cls.keep_states(distributor.name, marks)
        distributor.restart()
        distributor.wait_count('distributor_items', len(expected.ITEMS))
        for server in cls.servers:
            cls.wait_images(server)

    @classmethod
    def instance_of(cls, server):
        """The source distributor from which a server has the service."""
        return next((known['instance'] for known in server.status()['services'] if known['up']), None)

    @classmethod
    def wait_images(cls, server):
        """Waits until a server can take all clients."""
        wait_until(lambda: asked(server.admin, '/ready')[0] == 200, '%s is ready' % server.name, [server])

    @classmethod
    def keep_states(cls, name, marks):
        """What each client has seen since then, up to a moment at which all was good."""
        cls.seen[name] = {
            client.name: {key: item.states[marks[client][key] :] for key, item in client.items.items()}
            for client in cls.clients
        }

    def test_it_happened_under_load(self):
        self.assertTrue(self.still_playing)

    def test_all_servers_end_well_and_the_command_says_so(self):
        self.assertEqual(set(self.statuses.values()), {0}, self.statuses)
        self.assertEqual([done for done, _ in self.counts.values()], [0, 0])

    def test_each_server_has_moved_its_clients_on(self):
        # First its own three; then these, and those that were there before.
        self.assertEqual([moved for _, moved in self.counts.values()], [3, 6])

    def test_who_was_moved_on_was_without_an_item_once_and_nobody_else_was(self):
        for name, moved in (('p2ps-0', {'java-0', 'native-0', 'json-0'}), ('p2ps-1', None)):
            for client, items in self.seen[name].items():
                was_moved = moved is None or client in moved
                for key, states in items.items():
                    with self.subTest(server=name, client=client, item=key):
                        self.assertEqual(states, ['Suspect', 'Ok'] if was_moved else [])

    def test_who_lost_a_source_distributor_was_without_an_item_once(self):
        seen = [self.seen[distributor.name] for distributor in self.distributors]
        states = [states for clients in seen for items in clients.values() for states in items.values()]
        self.assertIn(['Suspect', 'Ok'], states)
        self.assertLessEqual({tuple(one) for one in states}, {(), ('Suspect', 'Ok')})

    def test_the_library_has_seen_no_reset(self):
        said = ''.join(client.out() + client.log() + client.tail() for client in self.clients)
        self.assertNotIn('reset', said.lower())

    def test_the_end_is_right_for_all_clients(self):
        for client in self.clients:
            with self.subTest(client=client.name):
                status, finals = client.finish()
                self.assertEqual((status, client.faults()), (0, {}))
                watched_only = len(client.items) < len(expected.ITEMS)
                self.assertEqual(expected.differences(finals, watched_only=watched_only), [])


class RollingRestartOfShards(RollingRestart):
    SETS = {'p2ps.shards': 2}


if __name__ == '__main__':
    unittest.main()
