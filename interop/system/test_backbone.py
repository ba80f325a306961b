"""A backbone with keys and certificates: who lacks one of them gets nothing, and nobody else notices."""

import os
import re
import shutil
import socket
import ssl
import struct
import subprocess
import threading
import unittest

import rssl_bytes as rssl
from java_tools import numbered
from process import ROOT, wait_until
from rssl_clients import PATIENCE_S, RsslConsumer, RsslProvider
from system_test import SystemTest

FILES = os.path.join(ROOT, 'interop', 'testdata', 'backbone')
FOREIGN = os.path.join(ROOT, 'crates', 'io', 'net', 'testdata', 'tls', 'stranger')
OLD, NEW = '1 ' + '0a' * 32, '2 ' + '5b' * 32
STREAM = 5
LINKS_MAX = 8
SILENT = 3 * LINKS_MAX
HELLO, HELLO_ACK = 1, 16
# No pause of a busy machine is taken for the end of a source distributor.
PATIENT = {'p2ps.silence_timeout_ms': 120_000}


def certificate(path, names):
    own = os.path.join(FILES, path)
    return {
        'backbone.certificate_file': own + '.pem',
        'backbone.key_file': own + '.key',
        'backbone.ca_file': os.path.join(FILES, 'ca.pem'),
        'backbone.peer_names': '["%s"]' % names,
    }


def multicast(key_file):
    """The keys of streams without a certificate, by the options of the messaging library."""
    kinds = 'lbtrm.encryption', 'lbtrm.authentication'
    keys = {'messaging.%s_key_file' % kind: key_file for kind in kinds}
    return {**keys, 'messaging.resolver.authentication_key_file': key_file}


def hello(name=b'by hand'):
    body = struct.pack('>BBHQ', 1, HELLO, 0, 7) + name
    return struct.pack('>HHII', 0, 12 + len(body), 0, 0) + body


class TlsLink:
    """A link by hand that keeps every byte it has sent."""

    def __init__(self, port):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(os.path.join(FILES, 'ca.pem'))
        context.load_cert_chain(os.path.join(FILES, 'p2ps.pem'), os.path.join(FILES, 'p2ps.key'))
        self.socket = socket.create_connection(('127.0.0.1', port), PATIENCE_S)
        self.coming, self.going, self.sent = ssl.MemoryBIO(), ssl.MemoryBIO(), b''
        self.tls = context.wrap_bio(self.coming, self.going)
        self._do(self.tls.do_handshake)

    def exchange(self, message):
        """What comes first after `message`: kind of a link message."""
        self.tls.write(message)
        answer = b''
        while len(answer) < 14:
            answer += self._do(lambda: self.tls.read(4096))
        return answer[13]

    def _do(self, act):
        while True:
            try:
                done = act()
                self._send()
                return done
            except ssl.SSLWantReadError:
                self._send()
                data = self.socket.recv(65_536)
                if not data:
                    raise AssertionError('the source distributor has closed the link')
                self.coming.write(data)

    def _send(self):
        data = self.going.read()
        self.sent += data
        self.socket.sendall(data)


def wait_closed(connection):
    """Reads until the other side has ended the connection; what it said."""
    connection.settimeout(PATIENCE_S)
    said = b''
    try:
        while data := connection.recv(65_536):
            said += data
    except ConnectionError:
        pass
    return said


class Alive:
    """Keeps a provider's connection up from a thread of its own."""

    def __init__(self, provider):
        self.provider, self.lock, self.over = provider, threading.Lock(), threading.Event()
        self.thread = threading.Thread(target=self._ping, daemon=True)
        self.thread.start()

    def send(self, *messages):
        with self.lock:
            self.provider.send(*messages)

    def end(self):
        self.over.set()
        self.thread.join()
        self.provider.close()

    def _ping(self):
        while not self.over.wait(1):
            with self.lock:
                self.provider.socket.sendall(rssl.PING)


class Backbone(SystemTest):
    @classmethod
    def write(cls, name, *lines):
        """The file is replaced as a whole, as one should."""
        path = os.path.join(cls.directory, name)
        with open(path + '.new', 'w') as f:
            f.write('\n'.join(lines))
        os.chmod(path + '.new', 0o644)
        os.replace(path + '.new', path)
        return path

    @classmethod
    def p2ps(cls, name, sets):
        """A P2PS that serves, and a consumer of it that wants the item."""
        server = cls.system_.p2ps(sets=sets, name=name)
        cls.system_.wait_serving(server, 'NI_PUB')
        return server, cls.consumer(server)

    @classmethod
    def consumer(cls, server):
        consumer = RsslConsumer(server.port).wait_count(1, 1)
        consumer.send(rssl.directory_request(), rssl.item_request(b'NI.1', STREAM))
        return consumer

    @classmethod
    def begin(cls, sets, **more):
        cls.system_ = cls.system()
        cls.distributor = cls.system_.source_distributor(sets={**numbered('NI_PUB', 1), **sets, **more})
        cls.provider = Alive(RsslProvider(cls.system_.provider_port).wait_count(1, 1))
        cls.addClassCleanup(cls.provider.end)
        cls.provider.send(rssl.DIRECTORY_REFRESH, rssl.ITEM_REFRESH)
        cls.distributor.wait_count('distributor_items', 1)

    @classmethod
    def keys(cls, encryption='keys', authentication='keys'):
        return {
            'backbone.encryption_key_file': os.path.join(cls.directory, encryption),
            'backbone.authentication_key_file': os.path.join(cls.directory, authentication),
        }

    @classmethod
    def assert_served(cls, server, consumer):
        """It has an image, and gets the next update."""
        kinds = lambda: [summary[0] for summary in consumer.of_stream(STREAM)]
        consumer.wait(lambda: 'REFRESH' in kinds(), '%s shows the image' % server.name)
        count = len(kinds())
        cls.provider.send(rssl.ITEM_UPDATE)
        consumer.wait(lambda: 'UPDATE' in kinds()[count:], '%s shows the update' % server.name)

    @classmethod
    def counted(cls, name):
        return cls.distributor.metrics().sum('messaging_%s_total' % name, role='source_distributor')

    @classmethod
    def peers(cls):
        return sorted(cls.distributor.status()['peers'])

    def assert_shows_nothing(self, server):
        """A consumer that asks now gets neither image nor update, though another one gets both."""
        consumer = self.consumer(server)
        self.assert_served(self.good, self.consumer(self.good))
        logins = len(consumer.of_stream(1))
        # What comes behind the answer was not there when the update was shown elsewhere.
        consumer.send(rssl.login_request())
        consumer.wait_count(1, logins + 1)
        self.assertEqual({summary[0] for summary in consumer.of_stream(STREAM)} - {'STATUS'}, set())
        consumer.close()


class Strangers(Backbone):
    @classmethod
    def scenario(cls):
        cls.write('keys', OLD)
        cls.write('other-keys', OLD.replace('0a', '0b'))
        good = {**certificate('p2ps', 'distributor.example'), **cls.keys(), **PATIENT}
        cls.begin({**certificate('distributor', 'p2ps.example'), **cls.keys()})
        cls.good, cls.client = cls.p2ps('good', good)
        cls.assert_served(cls.good, cls.client)
        for name in ('expired.pem', 'expired.key'):
            with open(os.path.join(FILES, name)) as f:
                cls.write(name, f.read())
        table = {
            'open': {},
            'other-key': {**good, **cls.keys(encryption='other-keys')},
            'other-signature': {**good, **cls.keys(authentication='other-keys')},
            'plain': multicast(os.path.join(cls.directory, 'keys')),
            'foreign': {**good, **certificate(FOREIGN, 'distributor.example')},
            'unnamed': {**good, **certificate('unnamed', 'distributor.example')},
            'expired': {**good, **certificate(os.path.join(cls.directory, 'expired'), 'distributor.example')},
            # It takes no source distributor of another name.
            'wary': {**good, **certificate('p2ps', 'another.example')},
        }
        cls.strangers = {name: cls.system_.p2ps(sets=sets, name=name) for name, sets in table.items()}
        says = {
            'open': 'a stream cannot be read',
            'other-key': 'a stream cannot be read',
            'other-signature': 'datagrams were dropped that no key of backbone.authentication_key_file has signed',
            'plain': 'a source distributor takes no link of this server',
        }
        for name, server in cls.strangers.items():
            server.wait_says(says.get(name, 'a link is refused'))
        # Each is refused again and again, while updates flow.
        cls.provider.send(*[rssl.ITEM_UPDATE] * 10)
        for counter in ('certificate_failures', 'handshakes_failed'):
            least = cls.counted(counter) + 5
            wait_until(lambda: cls.counted(counter) >= least, '%s grow' % counter, [cls.distributor])
        cls.assert_served(cls.good, cls.client)
        cls.linked = cls.peers(), cls.distributor.metrics()['distributor_peers']

    def test_a_server_without_keys_or_certificate_shows_nothing(self):
        for name, server in self.strangers.items():
            if name != 'expired':
                with self.subTest(server=name):
                    self.assert_shows_nothing(server)

    def test_the_source_distributor_takes_no_other_for_a_server(self):
        self.assertEqual(self.linked, (['good'], 1))

    def test_refusals_are_logged_with_what_to_do_and_do_not_fill_the_log(self):
        causes = {'foreign': 'UnknownCA', 'expired': 'CertificateExpired', 'unnamed': 'BadCertificate', 'wary': 'NotValidForName'}
        for name, cause in causes.items():
            self.assertIn(cause, self.strangers[name].log())
        said = lambda: self.distributor.log().count('a link is refused: direct connection with 127.0.0.1:')
        self.distributor.wait_says('reports were left out')
        self.assertIn('backbone.peer_names', self.distributor.log())
        self.assertLess(said(), self.counted('handshakes_failed'))

    def test_what_is_open_is_logged_once_and_what_is_closed_is_not(self):
        count = lambda server: server.log().count('the backbone is open')
        plain, open_ = self.strangers['plain'], self.strangers['open']
        self.assertEqual([count(server) for server in (self.distributor, self.good, plain, open_)], [0, 0, 1, 1])
        self.assertIn('open in part: links need no certificate', plain.log())
        self.assertIn('everybody who reaches its network can read all data', open_.log())

    def test_a_key_that_every_user_can_read_is_a_warning(self):
        said = 'a file of keys is open to others: '
        self.good.wait_says(said)
        files = [line.split(said)[1].split()[0] for line in self.good.log().splitlines() if said in line]
        # That of the certificate is what the umask of the checkout made it.
        self.assertGreaterEqual(len(files), 2)
        self.assertEqual(len(files), len(set(files)), files)
        self.assertNotIn(said, self.strangers['open'].log())

    def test_a_certificate_is_replaced_without_a_restart(self):
        server = self.strangers['expired']
        self.assert_shows_nothing(server)
        for end in ('pem', 'key'):
            with open(os.path.join(FILES, 'p2ps.' + end)) as f:
                self.write('expired.' + end, f.read())
        server.wait_says('keys or certificates read again')
        wait_until(lambda: 'expired' in self.peers(), 'it has a link', [server])
        self.assert_served(server, self.consumer(server))

    def test_half_a_protection_does_not_start(self):
        halves = [
            ({'backbone.certificate_file': 'x'}, 'set all or none'),
            ({'backbone.encryption_key_file': 'x'}, 'links are open'),
            ({**certificate('p2ps', 'x')}, 'streams are not encrypted'),
        ]
        for sets, said in halves:
            words = list(self.strangers['open'].words)
            for key, value in sets.items():
                words += ['--set', '%s=%s' % (key, value)]
            daemon = self.system_.process('refused', words)
            self.assertEqual(daemon.wait(), 2)
            self.assertIn(said, daemon.log() + daemon.out())


class Links(Backbone):
    """Links by hand, beside a server that is served."""

    @classmethod
    def scenario(cls):
        cls.write('keys', OLD)
        cls.good_sets = {**certificate('p2ps', 'distributor.example'), **cls.keys(), **PATIENT}
        own = {**certificate('distributor', 'p2ps.example'), **cls.keys()}
        cls.begin(own, **{'messaging.request_tcp_maximum_connections': LINKS_MAX})
        cls.good, cls.client = cls.p2ps('good', cls.good_sets)
        cls.assert_served(cls.good, cls.client)
        cls.port = cls.system_.place.messaging['messaging.request_tcp_port_low']

    def refused(self):
        return self.counted('handshakes_failed')

    def connect(self):
        return socket.create_connection(('127.0.0.1', self.port), PATIENCE_S)

    def test_a_hello_that_was_recorded_is_worth_nothing(self):
        link = TlsLink(self.port)
        self.assertEqual(link.exchange(hello()), HELLO_ACK)
        wait_until(lambda: 'by hand' in self.peers(), 'it is a peer', [self.distributor])
        before = self.refused()
        with self.connect() as replay:
            replay.sendall(link.sent)
            said = wait_closed(replay)
        self.assertNotIn(b'by hand', said)
        wait_until(lambda: self.refused() == before + 1, 'it is counted', [self.distributor])
        self.assertEqual(self.peers(), ['by hand', 'good'])
        link.socket.close()
        wait_until(lambda: self.peers() == ['good'], 'it is gone', [self.distributor])

    def test_a_hello_in_clear_is_not_answered(self):
        before = self.refused()
        with self.connect() as plain:
            plain.sendall(hello())
            said = wait_closed(plain)
        self.assertLess(len(said), 12, 'an alert of TLS at most')
        wait_until(lambda: self.refused() == before + 1, 'it is counted', [self.distributor])
        self.assertEqual(self.peers(), ['good'])

    def test_silent_connections_make_room_for_servers_and_are_closed_in_time(self):
        before = self.refused()
        silent = [self.connect() for _ in range(SILENT)]
        displaced = lambda: self.counted('request_connections_displaced')
        wait_until(lambda: displaced() >= SILENT - LINKS_MAX, 'they make room for one another', [self.distributor])
        second, consumer = self.p2ps('second', self.good_sets)
        self.assert_served(second, consumer)
        self.assert_served(self.good, self.client)
        for connection in silent:
            wait_closed(connection)
            connection.close()
        wait_until(lambda: self.refused() >= before + SILENT, 'all are counted', [self.distributor])
        self.assertEqual(self.peers(), ['good', 'second'])
        links = self.good.log().count('link up') + second.log().count('link up')
        self.assertEqual(links, 2, 'no link that stood was touched')


class NewKeys(Backbone):
    @classmethod
    def scenario(cls):
        cls.write('keys', OLD)
        cls.write('old', OLD)
        cls.write('new', NEW)
        cls.begin({**certificate('distributor', 'p2ps.example'), **cls.keys()})
        good = {**certificate('p2ps', 'distributor.example'), **cls.keys(), **PATIENT}
        cls.good, cls.client = cls.p2ps('good', good)
        cls.assert_served(cls.good, cls.client)
        # Both accept the new one, then use it, then know it alone.
        for lines in ((OLD, NEW), (NEW, OLD), (NEW,)):
            counts = {server: cls.reloads(server) for server in (cls.distributor, cls.good)}
            cls.write('keys', *lines)
            for server, before in counts.items():
                wait_until(lambda: cls.reloads(server) >= before + 5, 'each use of the file is renewed', [server])
            cls.assert_served(cls.good, cls.client)
        # The last step renews each use of the file at another moment; who is new finds all in place.
        cls.stale = cls.system_.p2ps(sets={**good, **cls.keys('old', 'new')}, name='stale')
        cls.stale.wait_says('a stream cannot be read')
        cls.assert_served(cls.good, cls.client)

    @staticmethod
    def reloads(server):
        return server.metrics().sum('messaging_security_reloads_total')

    def test_keys_are_replaced_while_updates_flow(self):
        kinds = {summary[0] for summary in self.client.of_stream(STREAM)}
        states = [summary[4] for summary in self.client.of_stream(STREAM) if summary[0] == 'STATUS']
        self.assertEqual((kinds, states), ({'REFRESH', 'UPDATE'}, []))

    def test_who_has_the_old_key_alone_reads_nothing_more(self):
        self.assert_shows_nothing(self.stale)


@unittest.skipUnless(shutil.which('openssl'), 'keys are made with openssl')
class Page(Backbone):
    """What `docs/backbone-security.md` tells to do."""

    @classmethod
    def scenario(cls):
        with open(os.path.join(ROOT, 'docs', 'backbone-security.md'), encoding='utf-8') as f:
            streams, certificates = re.findall(r'```sh\n(.*?)```', f.read(), re.DOTALL)
        names = 'distributor-1.backbone', 'p2ps-1.backbone'
        authority, daemon = certificates.split('# A daemon:')
        another = '# A daemon:' + daemon.replace(names[1], names[0])
        for commands in (streams, authority, '# A daemon:' + daemon, another):
            subprocess.run(['sh', '-ec', commands], cwd=cls.directory, check=True, capture_output=True)
        at = lambda name: os.path.join(cls.directory, name)
        sets = lambda own, other: {
            'backbone.certificate_file': at(own + '.pem'),
            'backbone.key_file': at(own + '.key'),
            'backbone.ca_file': at('ca.pem'),
            'backbone.peer_names': '["%s"]' % other,
            **cls.keys('stream.keys', 'packet.keys'),
        }
        cls.begin(sets(*names))
        cls.good, cls.client = cls.p2ps('good', sets(*reversed(names)))
        cls.assert_served(cls.good, cls.client)

    def test_its_commands_make_a_backbone_that_serves_and_is_closed(self):
        for server in (self.good, self.distributor):
            # How many descriptors there are is a matter of the host.
            warnings = [line for line in server.log().splitlines() if ' WARN ' in line and 'RLIMIT_NOFILE' not in line]
            self.assertEqual(warnings, [])


if __name__ == '__main__':
    unittest.main()
