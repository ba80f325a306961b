"""How the source distributor reaches interactive providers: encrypted, compressed, by names that resolve late or never."""

import glob
import json
import os
import re
import unittest

from interactive import FIELDS, ITEMS, LINGER, NAMES, Interactive
from names import Named, NameServer
from ports import free_ports
from process import ROOT, wait_until

CERTIFICATES = os.path.join(ROOT, 'crates', 'io', 'net', 'testdata', 'tls')


def certificate(name):
    return os.path.join(CERTIFICATES, name)


TRUST = {'tls__ca_file': certificate('ca.pem')}


def served_with(name):
    """What an EMA provider needs for a certificate."""
    return ('--tls-certificate', certificate(name + '.pem'), '--tls-key', certificate(name + '.key'))


def one(name, host, service, **connection):
    """One of the dialled providers, with a service of its own; `connection` has its settings."""
    lines = ['[[source_distributor.interactive]]', 'name = "%s"' % name, 'hosts = ["%s"]' % host]
    lines += ['connection.%s = %s' % (key.replace('__', '.'), json.dumps(value)) for key, value in connection.items()]
    return lines, service


class Dialling(Interactive):
    @classmethod
    def dial_all(cls, providers, host=None):
        """A source distributor that dials these, made by `one`."""
        lines = [line for lines, _ in providers for line in lines]
        for at, (_, service) in enumerate(providers):
            lines += ['[[source_distributor.services]]', 'name = "%s"' % service, 'id = %d' % (2 + at)]
        path = os.path.join(cls.directory, 'dialling')
        with open(path + '.toml', 'w') as f:
            f.write('\n'.join([*lines, '[messaging]', 'interface = "127.0.0.1"', '']))
        return cls.system_.source_distributor(host, LINGER['distributor'], example=path)

    @classmethod
    def provider_status(cls, name):
        status = cls.distributor.status() or {}
        return next((one for one in status.get('interactive_providers', ()) if one['name'] == name), {})

    @classmethod
    def wait_state(cls, name, state):
        wait_until(
            lambda: cls.provider_status(name).get('state') == state,
            lambda: '%s is %s: %s' % (name, state, cls.provider_status(name)),
            [cls.distributor],
        )

    @classmethod
    def count(cls, counter, name):
        return cls.distributor.metrics().sum(counter, provider=name)


class Transports(Dialling):
    """A provider for each kind of connection, and one whose certificate is another authority's."""

    # Its service: options of the provider, settings of the connection.
    KINDS = {
        'ZLIB': (('--compression', 'zlib'), {'compression': 'zlib'}),
        'LZ4': (('--compression', 'lz4'), {'compression': 'lz4'}),
        'TLS': (served_with('server'), TRUST),
        'BOTH': (
            (*served_with('server'), '--compression', 'zlib'),
            {**TRUST, 'compression': 'zlib'},
        ),
    }

    @classmethod
    def scenario(cls):
        cls.system_ = cls.system()
        cls.providers, dialled = [], []
        for service, (options, connection) in cls.KINDS.items():
            port = free_ports()
            fields = cls.another_dictionary() if service == 'LZ4' else FIELDS
            cls.providers.append(cls.provider(service, port, *options, service=service, fields=fields))
            dialled.append(one(service, '127.0.0.1:%d' % port, service, **connection))
        port = free_ports()
        impostor = cls.provider('impostor', port, *served_with('stranger'), service='LATE')
        dialled.append(one('LATE', '127.0.0.1:%d' % port, 'LATE', **TRUST))
        cls.distributor = cls.dial_all(dialled)
        cls.p2ps = cls.system_.p2ps(sets=LINGER['p2ps'])
        cls.wait_ready(len(cls.KINDS))
        cls.distributor.wait_count('dialled_connection_certificate_failures_total', 2, provider='LATE')
        cls.refused = cls.provider_status('LATE')
        cls.outcomes = {service: cls.outcome_of(service) for service in cls.KINDS}
        cls.metrics, cls.log = cls.distributor.metrics(), cls.distributor.log()
        cls.differences = {name: cls.provider_status(name)['dictionary_differences'] for name in cls.KINDS}
        impostor.kill()
        cls.providers.append(cls.provider('honest', port, *served_with('server'), service='LATE'))
        cls.wait_ready(len(cls.KINDS) + 1)
        cls.late = cls.outcome_of('LATE')

    @classmethod
    def outcome_of(cls, service):
        cls.system_.wait_serving(cls.p2ps, service)
        options = ('--check-seq', '--updates', '10', '--post', '2')
        return cls.consume('consumer-' + service.lower(), *options, service=service)

    @classmethod
    def another_dictionary(cls):
        path = os.path.join(cls.directory, 'fields.dic')
        with open(os.path.join(ROOT, FIELDS)) as ours, open(path, 'w') as theirs:
            theirs.write(re.sub(r'(?m)^(!tag Version +).*', r'\g<1>7.7', ours.read()))
        return path

    def test_a_dictionary_that_clients_do_not_get_is_told_and_counted(self):
        difference = 'dictionary RWFFld has version "7.7", clients get "1.0.0"'
        self.assertEqual(self.differences, {**dict.fromkeys(self.KINDS, []), 'LZ4': [difference]})
        self.assertIn(difference, self.log)
        self.assertEqual(self.metrics['distributor_dictionaries_differing_total'], 1)

    def test_items_and_posts_go_over_each_of_them(self):
        for service, outcome in self.outcomes.items():
            with self.subTest(service=service):
                self.assert_ok(outcome)
                self.assertEqual(outcome[1]['posts']['acks'], 2 * len(NAMES))

    def test_connections_are_compressed_as_they_were_asked_for(self):
        for service, (_, connection) in self.KINDS.items():
            compression = connection.get('compression')
            for kind in ('zlib', 'lz4'):
                with self.subTest(service=service, compression=kind):
                    agreed = self.metrics.sum('rssl_compression_%s_total' % kind, provider=service)
                    self.assertEqual(agreed, int(kind == compression))
            # Not smaller in sum: messages as short as these cost zlib some bytes each.
            frames = self.metrics.sum('rssl_compressed_frames_in_total', provider=service)
            self.assertEqual(frames > 0, compression is not None, (service, frames))

    def test_a_wrong_certificate_is_told_apart_and_counted(self):
        reason = 'TLS: a certificate is missing or not acceptable'
        self.assertEqual((self.refused['state'], self.refused['error']), ('connecting', reason))
        self.assertIn(reason, self.log)
        failures = {name: self.metrics.sum('dialled_connection_certificate_failures_total', provider=name) for name in self.KINDS}
        self.assertEqual(failures, dict.fromkeys(self.KINDS, 0))

    def test_it_is_served_when_it_has_the_right_one(self):
        self.assert_ok(self.late)


@unittest.skipUnless(os.geteuid() == 0, 'a name server and a mount of its own need root')
class Names(Dialling):
    """One provider by name, at a name server that is silent at first, and one by address, which is watched meanwhile."""

    @classmethod
    def scenario(cls):
        names = NameServer({'feed.example': ['127.0.0.2', '127.0.0.1']})
        cls.addClassCleanup(names.close)
        cls.system_ = cls.system(Named(cls.directory))
        ports = [free_ports(), free_ports()]
        cls.providers = [
            cls.provider('by-name', ports[0], *served_with('server'), service='NAME'),
            cls.provider('by-address', ports[1], service='ADDRESS'),
        ]
        patience = {'connect_timeout_ms': 1500, 'reconnect_delay_max_ms': 1000}
        by_name = one('by-name', 'feed.example:%d' % ports[0], 'NAME', **TRUST, **patience)
        by_address = one('by-address', '127.0.0.1:%d' % ports[1], 'ADDRESS')
        cls.distributor = cls.dial_all([by_name, by_address], host='named')
        cls.p2ps = cls.system_.p2ps(sets=LINGER['p2ps'])
        cls.wait_ready(1)
        cls.system_.wait_serving(cls.p2ps, 'ADDRESS')
        cls.watcher = cls.system_.java(cls.p2ps, name='watcher', service='ADDRESS', items=ITEMS)
        wait_until(cls.watcher.has_images, 'the watcher has images', [cls.watcher, cls.distributor])
        failed = cls.count('dialled_connection_lookup_failures_total', 'by-name')
        cls.distributor.wait_count('dialled_connection_lookup_failures_total', failed + 3, provider='by-name')
        cls.unresolved, cls.asked = cls.provider_status('by-name'), names.asked
        cls.resolving_threads = cls.threads().count('tickcast-names')
        names.answer()
        cls.wait_ready(2)
        cls.system_.wait_serving(cls.p2ps, 'NAME')
        cls.named = cls.consume('named', '--check-seq', '--updates', '10', service='NAME')
        cls.updates = sum(item.updates for item in cls.watcher.look().items.values())
        cls.states = [item.states for item in cls.watcher.items.values()]
        cls.end = cls.watcher.finish()[0]

    @classmethod
    def threads(cls):
        found = []
        for path in glob.glob('/proc/%d/task/*/comm' % cls.distributor.pid):
            with open(path) as f:
                found.append(f.read().strip())
        return found

    def test_look_ups_that_hang_are_attempts_that_failed_with_their_reason(self):
        reason = 'host name not resolved within 1500 ms'
        self.assertEqual((self.unresolved['state'], self.unresolved['error']), ('connecting', reason))
        self.assertGreater(self.asked, 0, 'the name server was asked')

    def test_they_occupy_one_thread_however_often_it_is_tried(self):
        self.assertEqual(self.resolving_threads, 1)

    def test_the_data_of_the_other_provider_flows_meanwhile(self):
        # A distributor that waits for a name longer than the silence that a P2PS puts up with loses it.
        self.assertEqual(self.states, [['Ok']] * len(ITEMS))
        self.assertEqual((self.end, self.watcher.faults()), (0, {}))
        self.assertGreater(self.updates, 0)

    def test_a_provider_is_found_by_name_behind_an_address_where_nobody_is(self):
        self.assert_ok(self.named)


if __name__ == '__main__':
    unittest.main()
