"""RSSL as EMA consumers may have it: compressed, encrypted, with certificates of their own; what the server says of it."""

import os
import unittest

from daemons import hold_until_ready, wait_at
from ports import free_ports
from process import ROOT, wait_until
from system_test import SystemTest

CERTIFICATES = os.path.join(ROOT, 'crates', 'net', 'testdata', 'tls')
ENCRYPTED = ('--tls', '--tls-ca', os.path.join(CERTIFICATES, 'ca.pem'))


def certificate(name):
    return os.path.join(CERTIFICATES, name)


def tls_sets(port):
    section = 'p2ps.rssl.tls.'
    return {
        section + 'port': port,
        section + 'certificate_file': certificate('server.pem'),
        section + 'key_file': certificate('server.key'),
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
        feed.wait_count('feed_rounds_total', 1)
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


class ClientCertificates(SystemTest):
    """A port whose clients need a certificate, and is the only one there is."""

    @classmethod
    def scenario(cls):
        system = cls.system()
        system.source_distributor()
        port = free_ports()
        ca = {'p2ps.rssl.tls.client_ca_file': certificate('ca.pem'), 'p2ps.rssl_port': port}
        cls.p2ps = system.p2ps(name='private', sets={**tls_sets(port), **ca})
        system.feed(repeat=True)
        own = lambda name: ('--tls-certificate', certificate(name + '.pem'), '--tls-key', certificate(name + '.key'))
        server = 'localhost:%d' % port
        cls.known = system.java(server, name='known', options=(*ENCRYPTED, *own('client')))
        cls.others = [
            system.java(server, name='stranger', options=(*ENCRYPTED, *own('stranger'))),
            system.java(server, name='nobody', options=ENCRYPTED),
            system.java(server, name='in-clear'),
        ]
        wait_until(cls.known.has_images, 'the known one has its images', [cls.known, cls.p2ps])
        cls.p2ps.wait_count('listener_tls_unfinished_total', len(cls.others))
        # The daemon describes itself twice a second.
        listed = lambda: cls.p2ps.status()['clients']
        cls.listed = wait_until(listed, 'the status page lists the known one', [cls.p2ps])

    def test_who_has_the_right_certificate_is_served_and_nobody_else(self):
        self.assertEqual([client['user'] for client in self.listed], ['tickcast'])
        for client in self.others:
            with self.subTest(client=client.name):
                self.assertEqual(client.look().seen('login'), [])
                self.assertFalse(client.has_images())


if __name__ == '__main__':
    unittest.main()
