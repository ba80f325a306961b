"""RSSL as EMA consumers may have it: compressed, encrypted, with certificates of their own; what the server says of it."""

import os
import socket
import ssl
import unittest

from daemons import hold_until_ready, wait_at
from ports import free_ports
from process import ROOT, wait_until
from system_test import SystemTest

CERTIFICATES = os.path.join(ROOT, 'crates', 'io', 'net', 'testdata', 'tls')
ENCRYPTED = ('--tls', '--tls-ca', os.path.join(CERTIFICATES, 'ca.pem'))


def certificate(name):
    return os.path.join(CERTIFICATES, name)


def tls_sets(port, section='p2ps.rssl'):
    return {
        section + '.tls.port': port,
        section + '.tls.certificate_file': certificate('server.pem'),
        section + '.tls.key_file': certificate('server.key'),
    }


class Connections(SystemTest):
    """One consumer of each kind, from before the replay to its end."""

    # Name of the consumer: its options, the compression it gets, the TLS it gets.
    KINDS = {
        'clear': ((), None, None),
        'zlib': (('--compression', 'zlib'), 'zlib', None),
        'lz4': (('--compression', 'lz4'), 'lz4', None),
        'tls12': ((*ENCRYPTED, '--tls-version', '1.2'), None, 'TLS 1.2'),
        'tls13': ((*ENCRYPTED, '--tls-version', '1.3', '--compression', 'zlib'), 'zlib', 'TLS 1.3'),
    }

    @classmethod
    def scenario(cls):
        system = cls.system()
        cls.distributor = system.source_distributor()
        tls_port = free_ports()
        cls.p2ps = system.p2ps(sets=tls_sets(tls_port))
        feed = system.feed(delay_ms=3000)
        cls.clients = {}
        for name, (options, _, tls) in cls.KINDS.items():
            server = 'localhost:%d' % tls_port if tls else cls.p2ps.server
            cls.clients[name] = system.java(server, name=name, options=('--user', name, *options))
        hold_until_ready(feed, cls.distributor, list(cls.clients.values()))
        feed.wait_played()
        wait_at(cls.clients.values(), system.wait_right(cls.p2ps))
        listed = lambda: {client['user']: client['connection'] for client in cls.p2ps.status()['clients']}
        wait_until(lambda: set(listed()) >= set(cls.KINDS), 'the status page lists all', [cls.p2ps])
        cls.listed, cls.metrics = listed(), cls.p2ps.metrics()

    def test_every_consumer_saw_what_it_must(self):
        for name, client in self.clients.items():
            with self.subTest(connection=name):
                self.assert_finished_well(client)

    def test_each_connection_is_as_its_consumer_asked(self):
        for name, (_, compression, tls) in self.KINDS.items():
            with self.subTest(connection=name):
                connection = self.listed[name]
                self.assertEqual((connection['compression'], connection['tls']), (compression, tls))

    def test_compression_saves_what_the_status_says(self):
        for name, (_, compression, _) in self.KINDS.items():
            with self.subTest(connection=name):
                sent = self.listed[name]['sent']
                if compression:
                    self.assertGreater(sent['compression_ratio'], 1.2)
                    self.assertLess(sent['bytes'], sent['clear_bytes'])
                else:
                    self.assertEqual(sent['bytes'], sent['clear_bytes'])

    def test_all_got_the_same_messages_whatever_they_cost(self):
        messages = [connection['sent']['messages'] for connection in self.listed.values()]
        self.assertLess(max(messages) - min(messages), 0.02 * max(messages), messages)

    def test_no_connection_ended_but_by_the_wish_of_its_client(self):
        self.assertEqual(self.metrics.nonzero('rssl_closed_(?!disconnected|application).*'), {})


def own(name):
    return ('--tls-certificate', certificate(name + '.pem'), '--tls-key', certificate(name + '.key'))


class ClientCertificates(SystemTest):
    """Ports whose clients need a certificate, may have one, or are not asked."""

    # EMA consumers by the mode of their port: their files; who of them has images in the end; who has shown a
    # certificate. Java shows none that the server does not know, so that a stranger is nobody to it.
    CLIENTS = {
        'required': {'known': own('client'), 'stranger': own('stranger'), 'nobody': ()},
        'optional': {'known': own('client'), 'stranger': own('stranger')},
        'none': {'known': own('client')},
    }
    SERVED = {'required': {'known'}, 'optional': {'known', 'stranger'}, 'none': {'known'}}
    SHOWN = {'required': {'known'}, 'optional': {'known'}, 'none': set()}

    @classmethod
    def scenario(cls):
        cls.system_ = cls.system()
        cls.provider_port = free_ports()
        cls.system_.source_distributor(
            sets=cls.asking('source_distributor.provider', cls.provider_port, 'required')
        )
        cls.p2ps, cls.clients, cls.listed = {}, {}, {}
        cls.system_.feed(repeat=True)
        for mode in cls.CLIENTS:
            cls.start_server(mode)
        for mode, p2ps in cls.p2ps.items():
            cls.await_clients(mode, p2ps)

    @staticmethod
    def asking(section, port, mode):
        return {
            **tls_sets(port, section),
            section + '.tls.client_ca_file': certificate('ca.pem'),
            section + '.tls.client_certificates': mode,
        }

    @classmethod
    def start_server(cls, mode):
        """A P2PS that takes encrypted connections alone over RSSL, and has WebSocket beside it."""
        port, cls.websocket_port = free_ports(), free_ports()
        sets = cls.asking('p2ps.rssl', port, mode) | cls.asking('p2ps.websocket', cls.websocket_port, mode)
        cls.p2ps[mode] = cls.system_.p2ps(name=mode, sets=sets | {'p2ps.rssl_port': port})
        cls.p2ps[mode].websocket_tls_port = cls.websocket_port
        server = 'localhost:%d' % port
        options = {who: (*ENCRYPTED, *files) for who, files in cls.CLIENTS[mode].items()}
        if mode == 'required':
            options['in-clear'] = ()
        start = lambda who, words: cls.system_.java(server, name=mode + '-' + who, options=('--user', who, *words))
        cls.clients[mode] = {who: start(who, words) for who, words in options.items()}

    @classmethod
    def await_clients(cls, mode, p2ps):
        for who in cls.SERVED[mode]:
            client = cls.clients[mode][who]
            wait_until(client.has_images, '%s has its images' % client.name, [client, p2ps])
        refused = len(cls.clients[mode]) - len(cls.SERVED[mode])
        p2ps.wait_count('listener_tls_unfinished_total', refused, port='consumer')
        # The daemon describes itself twice a second.
        listed = lambda: {client['user']: client['connection'] for client in p2ps.status()['clients']}
        wait_until(lambda: set(listed()) >= cls.SERVED[mode], 'the status page lists who is served', [p2ps])
        cls.listed[mode] = listed()

    def test_who_shows_what_is_asked_for_is_served_and_nobody_else(self):
        for mode, clients in self.clients.items():
            self.assertEqual(set(self.listed[mode]), self.SERVED[mode])
            for who in clients.keys() - self.SERVED[mode]:
                with self.subTest(mode=mode, client=who):
                    self.assertEqual(clients[who].look().seen('login'), [])
                    self.assertFalse(clients[who].has_images())

    def test_the_status_tells_who_has_shown_a_certificate(self):
        for mode, listed in self.listed.items():
            shown = {who for who, connection in listed.items() if connection['client_certificate']}
            self.assertEqual(shown, self.SHOWN[mode], mode)

    def test_websocket_ports_and_the_providers_port_ask_likewise(self):
        ports = {mode: p2ps.websocket_tls_port for mode, p2ps in self.p2ps.items()}
        ports['required of providers'] = self.provider_port
        expected = {'client': True, 'stranger': False, None: False}
        modes = {'required': expected, 'optional': expected | {None: True}, 'none': dict.fromkeys(expected, True)}
        for mode, port in ports.items():
            for who, is_admitted in modes[mode.split()[0]].items():
                with self.subTest(mode=mode, client=who):
                    self.assertEqual(is_heard(port, who), is_admitted)


def is_heard(port, identity):
    """Whether a port goes on with a client that has this identity, or none, once the handshake of TLS is over."""
    context = ssl.create_default_context(cafile=certificate('ca.pem'))
    if identity:
        context.load_cert_chain(certificate(identity + '.pem'), certificate(identity + '.key'))
    with socket.create_connection(('localhost', port), timeout=30) as plain:
        try:
            with context.wrap_socket(plain, server_hostname='localhost') as encrypted:
                # Both protocols answer what is not theirs by an end, but that of TLS is told by an alert.
                encrypted.sendall(b'x' * 64 + b'\r\n\r\n')
                while encrypted.recv(1000):
                    pass
        except ssl.SSLEOFError:
            return True
        except ssl.SSLError as error:
            if 'ALERT' not in error.reason:
                raise
            return False
        return True


if __name__ == '__main__':
    unittest.main()
