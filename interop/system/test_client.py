"""The client library against the EMA library's other side: an interactive provider, a sink for non-interactive
providers, a consumer. What the library does is in the examples of crates/clients/client."""

import json
import os
import re
import unittest
from fractions import Fraction

import python_clients
from consumers import JAR, JAVA
from daemons import binary
from java_tools import JAVA_PROVIDER, TLS, WITH_DICTIONARY
from ports import free_ports
from process import Follower, wait_until
from system_test import SystemTest

EXAMPLES = os.path.join(os.path.dirname(binary()), 'examples')
SERVER_TLS = ('--tls-certificate', os.path.join(TLS, 'server.pem'), '--tls-key', os.path.join(TLS, 'server.key'))
CA = os.path.join(TLS, 'ca.pem')


def example(name, *options):
    path = os.path.join(EXAMPLES, name)
    if not os.access(path, os.X_OK):
        raise AssertionError('no program %s: cargo build --profile ci -p tickcast-client --examples' % path)
    return [path, *options]


class Tool(SystemTest):
    """A Java tool and what it tells."""

    @classmethod
    def tool(cls, name, tool, *options):
        java = JAVA_PROVIDER if tool.endswith('provider') else JAVA
        return cls.start(name, java + [JAR, tool, *options])

    @classmethod
    def start(cls, name, words):
        process = cls.system().process(name, words)
        process.follower, process.told = Follower(process.out_path), []
        return process

    @staticmethod
    def look(process):
        process.told += [json.loads(line) for line in process.follower.lines()]
        return process.told

    @classmethod
    def wait_told(cls, process, ev, **parts):
        def found():
            return [e for e in cls.look(process) if e['ev'] == ev and all(e.get(k) == v for k, v in parts.items())]

        return wait_until(found, '%s tells %s %s' % (process.name, ev, parts), [process])


class Provider(Tool):
    """Our consumer asks an EMA interactive provider for all that there is."""

    TRANSPORT, TRUST = (), ()

    @classmethod
    def scenario(cls):
        port = free_ports()
        cls.provider = cls.tool(
            'provider', 'iprovider', '--port', str(port), '--service', 'TEST', '--items', 'A,B,C,D', '--rate', '50',
            '--capabilities', '5,6,7,8,10', *WITH_DICTIONARY, *cls.TRANSPORT,
        )
        cls.wait_told(cls.provider, 'ready')
        cls.tour = cls.start('tour', example('tour', 'localhost:%d' % port, 'TEST', *cls.TRUST))
        cls.status = cls.tour.wait()
        if cls.status == 0:
            # The provider may be slow to read what the consumer said last.
            cls.wait_told(cls.provider, 'logout')
        cls.provider.end()
        cls.told = cls.look(cls.provider)

    def requests(self, **parts):
        asked = [e for e in self.told if e['ev'] in ('request', 'reissue')]
        return [e for e in asked if all(e.get(k) == v for k, v in parts.items())]

    def test_all_that_was_asked_for_came(self):
        self.assertEqual(self.status, 0, self.tour.out())

    def test_the_provider_saw_a_view_and_its_end(self):
        views = [e.get('view') for e in self.requests(item='A', domain=6)]
        self.assertTrue(any(views) and not all(views), views)

    def test_the_provider_saw_pause_private_stream_and_snapshot(self):
        self.assertTrue(self.requests(item='A', pause=True))
        self.assertTrue(self.requests(item='C', private=True))
        self.assertTrue(self.requests(item='D', streaming=False))
        self.assertTrue(self.requests(item='NOPE', known=False))

    def test_posts_came_on_and_off_stream_and_were_acknowledged(self):
        posts = [(e['item'], e['on_stream'], e['ack']) for e in self.told if e['ev'] == 'post']
        self.assertEqual(sorted(posts), [('A', True, True), ('B', False, True)])

    def test_the_session_ended_with_a_logout(self):
        self.assertTrue([e for e in self.told if e['ev'] == 'logout'])


class EncryptedProvider(Provider):
    """The same over TLS."""

    TRANSPORT, TRUST = SERVER_TLS, (CA,)


class ZlibProvider(Provider):
    """The same, compressed."""

    TRANSPORT, TRUST = ('--compression', 'zlib'), ('zlib',)


class Lz4Provider(Provider):
    """The same, compressed otherwise."""

    TRANSPORT, TRUST = ('--compression', 'lz4'), ('lz4',)


class WebSocketProvider(Provider):
    """The same in JSON over WebSocket."""

    TRANSPORT, TRUST = ('--websocket', 'tr_json2'), ('websocket',)


class ProviderThatComesBack(Tool):
    """An EMA interactive provider dies; our consumer finds the next one."""

    @classmethod
    def scenario(cls):
        port = free_ports()
        words = ('iprovider', '--port', str(port), '--service', 'TEST', '--items', 'A', *WITH_DICTIONARY)
        first = cls.tool('first', *words)
        cls.wait_told(first, 'ready')
        cls.consumer = cls.start('consumer', example('consumer', 'localhost:%d' % port, 'TEST', 'A'))
        cls.consumer.wait_says('TEST A open/ok')
        first.kill()
        cls.consumer.wait_says('TEST A open/suspect, "connection to the server lost"')
        second = cls.tool('second', *words)
        cls.request = cls.wait_told(second, 'request', item='A')
        lost = cls.consumer.out().index('connection to the server lost')
        wait_until(lambda: 'TEST A open/ok' in cls.consumer.out()[lost:], 'the item is good again', [cls.consumer])
        cls.consumer.end()
        second.end()

    def test_the_item_was_asked_for_again(self):
        self.assertEqual(len(self.request), 1)


class LoginThatIsRefused(Tool):
    """Our consumer does not try a login again that was refused for good."""

    @classmethod
    def scenario(cls):
        port = free_ports()
        provider = cls.tool('provider', 'iprovider', '--port', str(port), '--login-reject', 'denied', *WITH_DICTIONARY)
        cls.wait_told(provider, 'ready')
        cls.consumer = cls.start('consumer', example('consumer', 'localhost:%d' % port, 'TEST', 'A'))
        cls.status = cls.consumer.wait()
        provider.end()

    def test_the_consumer_ends_and_says_why(self):
        self.assertEqual(self.status, 0)
        self.assertIn('"denied"', self.consumer.out())


class Sink(Tool):
    """Our non-interactive provider publishes to a sink on ETA; when that dies, to the next one."""

    @classmethod
    def scenario(cls):
        port = free_ports()
        words = ('nisink', '--port', str(port))
        first = cls.tool('first', *words)
        cls.wait_told(first, 'ready')
        provider = cls.start('provider', example('provider', 'localhost:%d' % port, 'RUST_FEED', 'X', 'Y'))
        cls.first = [cls.wait_told(first, 'update', item='6:' + name)[0] for name in 'XY']
        cls.login = cls.wait_told(first, 'login')[0]
        cls.directory_said = cls.wait_told(first, 'directory')[0]
        first.kill()
        second = cls.tool('second', *words)
        cls.second = [cls.wait_told(second, 'refresh', item='6:' + name)[0] for name in 'XY']
        cls.updates = [cls.wait_told(second, 'update', item='6:' + name)[0] for name in 'XY']
        provider.end()
        second.end()

    def test_it_logs_in_as_a_provider_with_its_service(self):
        self.assertEqual(self.login['role'], 1)
        self.assertIn('RUST_FEED', json.dumps(self.directory_said))

    def test_images_come_again_before_updates_after_a_reconnect(self):
        self.assertEqual([e['item'] for e in self.second], ['6:X', '6:Y'])
        self.assertEqual(len(self.updates), 2)


class Asked(Tool):
    """Consumers of others ask our interactive provider, which has a port of each kind."""

    RSSL, WEBSOCKET, RSSL_TLS, WEBSOCKET_TLS = range(4)
    # Name of the consumer: the port, its options.
    RUNS = {}

    @classmethod
    def scenario(cls):
        cls.first_port = free_ports(4)
        ports = [str(cls.first_port + kind) for kind in range(4)]
        files = [os.path.join(TLS, name) for name in ('server.pem', 'server.key')]
        cls.provider = cls.start('provider', example('interactive', ports[0], 'TEST', *ports[1:], *files))
        cls.provider.wait_says('listening')
        started = {name: cls.ask(name, *run) for name, run in cls.RUNS.items()}
        cls.status = {name: consumer.wait() for name, consumer in started.items()}
        cls.results = {name: cls.look(consumer)[-1] for name, consumer in started.items()}
        cls.watch()
        cls.provider.end()
        cls.said = cls.provider.out()

    @classmethod
    def ask(cls, name, port, *options):
        host = ('--host', 'localhost:%d' % (cls.first_port + port), '--service', 'TEST', '--timeout', '50')
        trust = ('--tls', '--tls-ca', CA) if port >= cls.RSSL_TLS else ()
        json = ('--websocket', 'tr_json2') if port in (cls.WEBSOCKET, cls.WEBSOCKET_TLS) else ()
        user = name.replace(' ', '-')
        return cls.tool(user, 'consumer', *host, '--user', user, *trust, *json, *options)

    @classmethod
    def watch(cls):
        """Whatever else asks."""

    def connection(self, name):
        """What the provider said of the connection with which this user logged in: (compression, TLS)."""
        lines = self.said.splitlines()
        logins = [at for at, line in enumerate(lines) if line.startswith('Login') and 'user: "%s"' % name in line]
        said = lines[logins[0] + 1]
        find = lambda part: re.search(part + r': (?:None|Some\("(.*?)"\))', said).group(1)
        return find('compression'), find('tls_version')

    def test_each_consumer_is_content(self):
        for name, status in self.status.items():
            with self.subTest(name):
                self.assertEqual(status, 0, self.results[name].get('reasons'))


STEPS = ('--items', 'A,B', '--reissue', '--pause', '500', '--post', '2', '--updates-after', '2')
OPTIONS = {
    'updates': ('--items', 'A,B', '--updates', '5'),
    'not found': ('--items', 'NOPE', '--expect-closed', 'NotFound'),
    'steps': STEPS,
    'pause all': ('--items', 'A', '--pause-all', '500'),
    'snapshot': ('--items', 'A', '--snapshot'),
    'private': ('--items', 'A', '--private', '--updates', '2'),
    'batch': ('--items', 'A,B,C', '--batch', '--updates', '2'),
    'post off stream': ('--items', 'A', '--post-off-stream', '2', '--expect-nack', 'NOT_OPEN'),
}


class Interactive(Asked):
    """EMA consumers with every option."""

    RUNS = {name: (Asked.RSSL, *options) for name, options in OPTIONS.items()}

    def test_posts_come_back_as_updates_and_are_acknowledged(self):
        self.assertEqual(self.results['steps']['posts']['acks'], 4)


class InteractiveTransports(Asked):
    """EMA consumers compressed, encrypted, and both."""

    RUNS = {
        'zlib': (Asked.RSSL, *STEPS, '--compression', 'zlib'),
        'lz4': (Asked.RSSL, *STEPS, '--compression', 'lz4'),
        'tls12': (Asked.RSSL_TLS, *STEPS, '--tls-version', '1.2'),
        'tls13': (Asked.RSSL_TLS, *STEPS, '--tls-version', '1.3', '--compression', 'lz4'),
    }

    def test_each_connection_is_as_its_consumer_asked(self):
        expected = {
            'zlib': ('zlib', None), 'lz4': ('lz4', None), 'tls12': (None, 'TLS 1.2'), 'tls13': ('lz4', 'TLS 1.3'),
        }
        self.assertEqual({name: self.connection(name) for name in self.RUNS}, expected)

    def test_posts_come_back_as_updates_and_are_acknowledged(self):
        self.assertEqual({result['posts']['acks'] for result in self.results.values()}, {4})


class InteractiveWebSocket(Asked):
    """EMA consumers and one on a package of others, in JSON over WebSocket."""

    RUNS = {
        **{name: (Asked.WEBSOCKET, *options) for name, options in OPTIONS.items()},
        'encrypted': (Asked.WEBSOCKET_TLS, *OPTIONS['updates']),
        'compressed': (Asked.WEBSOCKET, *OPTIONS['updates'], '--compression', 'zlib'),
    }
    ITEMS = (('A', 6), ('B', 6))

    @classmethod
    def watch(cls):
        cls.plain = {}
        for name, options in {'single': (), 'several': ('--batch', '--protocol', 'rssl.json.v2')}.items():
            server = 'localhost:%d' % (cls.first_port + cls.WEBSOCKET)
            # Without --service: the provider has but one.
            client = python_clients.PlainClient(name, server, cls.directory, cls.ITEMS, options)
            cls.keep(client)
            has_enough = lambda: all(item.has_image and item.updates > 5 for item in client.look().items.values())
            wait_until(has_enough, '%s has updates' % name, [client, cls.provider])
            cls.plain[name] = client, *client.finish()

    def test_posts_come_back_as_updates_and_are_acknowledged(self):
        self.assertEqual(self.results['steps']['posts']['acks'], 4)

    def test_each_connection_is_as_its_consumer_asked(self):
        expected = {
            'updates': (None, None), 'encrypted': (None, 'TLS 1.3'), 'compressed': ('permessage-deflate', None),
        }
        self.assertEqual({name: self.connection(name) for name in expected}, expected)

    def test_a_plain_client_gets_every_update_and_the_right_images(self):
        for name, (client, status, finals) in self.plain.items():
            with self.subTest(name):
                self.assertEqual((status, client.faults()), (0, {}))
                self.assertEqual(sorted(finals), sorted(self.ITEMS))
                for final in finals.values():
                    bid, ask = (Fraction(final['fields'][field]) for field in ('BID', 'ASK'))
                    self.assertEqual((final['state']['data'], ask - bid), ('Ok', Fraction(4, 100)))


if __name__ == '__main__':
    unittest.main()
