"""WebSocket clients on packages of other people, against daemons of their own processes."""

import json
import os
import unittest

import python_clients
from daemons import hold_until_ready, wait_at
from expected import ITEMS
from ports import free_ports
from process import ROOT, wait_until
from python_clients import FOLDER, PlainClient
from system_test import SystemTest

FIELDS = ['BID', 'ASK']
PRICES = tuple(item for item in ITEMS if item[1] == 6)
TESTDATA = os.path.join(ROOT, 'crates', 'io', 'net', 'testdata', 'tls')


class WebSocket(SystemTest):
    """Clients that were there before the first update, and have all the same images at the end."""

    @classmethod
    def scenario(cls):
        python_clients.python()
        system = cls.system()
        distributor, p2ps = system.source_distributor(), system.p2ps(sets={'p2ps.default_service': 'BINANCE'})
        # Clients in Python are slow.
        feed = system.feed(delay_ms=2000, speed='10')
        distributor.wait_count('distributor_items', len(ITEMS))
        server = 'localhost:%d' % p2ps.websocket_port
        start = lambda name, items, *options: cls.plain(name, server, items, options)
        cls.clients = {
            'single': start('single', ITEMS, '--service', 'BINANCE'),
            'batch': start('batch', ITEMS, '--batch', '--protocol', 'rssl.json.v2'),
            'view': start('view', PRICES, '--keys', '--view', ','.join(FIELDS)),
        }
        cls.rssl = system.native(p2ps)
        cls.json = system.native(server, name='watch', options=['--websocket', '--user', 'watch'])
        hold_until_ready(feed, distributor, [*cls.clients.values(), cls.rssl, cls.json])
        feed.wait_played()
        positions = system.wait_right(p2ps)
        # A view sees the updates that change something in it, the last may not.
        wait_at([cls.clients['single'], cls.clients['batch'], cls.rssl, cls.json], positions)
        cls.metrics, cls.status = p2ps.metrics(), p2ps.status()
        cls.ends = {name: client.finish() for name, client in cls.clients.items()}
        cls.p2ps = p2ps

    @classmethod
    def plain(cls, name, server, items, options):
        client = PlainClient(name, server, cls.directory, items, options)
        cls.keep(client)
        return client

    def assert_right(self, name, fields=None):
        status, finals = self.ends[name]
        self.assertEqual(status, 0)
        wanted = ITEMS if fields is None else PRICES
        found = python_clients.differences(finals, fields=fields)
        found = [text for text in found if fields is None or ' 8: was not watched' not in text]
        self.assertEqual((sorted(finals), found[:10]), (sorted(wanted), []))

    def test_single_requests_get_every_update_and_the_right_images(self):
        self.assert_right('single')
        self.assertEqual(self.clients['single'].faults(), {})

    def test_a_batch_gets_every_update_and_the_right_images(self):
        self.assert_right('batch')
        self.assertEqual(self.clients['batch'].faults(), {})
        answer = self.clients['batch'].seen('other')[0]['message']
        self.assertEqual(answer['State']['Text'], 'Processed 4 total items from Batch Request.  4 Ok.')
        self.assertEqual(self.clients['batch'].seen('connected')[0]['protocol'], 'rssl.json.v2')

    def test_a_view_gets_its_fields_alone(self):
        self.assert_right('view', FIELDS)

    def test_an_rssl_client_beside_them_sees_the_same(self):
        self.assert_finished_well(self.rssl)

    def test_the_native_client_over_websocket_sees_the_same(self):
        self.assert_finished_well(self.json)

    def test_the_login_announces_the_connection(self):
        login = self.clients['single'].seen('login')[0]
        self.assertEqual((login['type'], login['elements']), ('Refresh', {'PingTimeout': '30', 'MaxMsgSize': '61440'}))

    def test_a_message_is_made_into_json_once_for_all_clients(self):
        written = self.metrics.sum('json_messages_written_total')
        sent = self.metrics.sum('websocket_messages_out_total')
        self.assertEqual(self.metrics.sum('json_messages_unwritable_total'), 0)
        # Three of the four want the same; it is most of what they get.
        self.assertLess(written, 0.8 * sent)

    def test_the_status_tells_of_them(self):
        clients = [c for c in self.status['clients'] if c['protocol'] == 'websocket']
        wanted = {('python', len(ITEMS)), ('python', len(PRICES)), ('watch', len(ITEMS))}
        self.assertEqual({(c['user'], c['streams']) for c in clients}, wanted)
        self.assertEqual(self.status['websocket_connections'], 4)

    def test_the_status_counts_what_went_through_each_connection(self):
        flows = [client['connection'] for client in self.status['clients'] if client['protocol'] == 'websocket']
        for flow in flows:
            sent, received = flow['sent'], flow['received']
            self.assertEqual((flow['compression'], sent['compression_ratio'], received['packed_ratio']), (None, 1.0, 0.0))
            self.assertEqual((sent['bytes'], received['bytes']), (sent['clear_bytes'], received['clear_bytes']))
            self.assertGreater(sent['messages'], received['messages'])
            self.assertLessEqual(sent['frames'], sent['messages'])
            # Whatever shared a frame had one other with it at the least.
            packed = sent['packed_ratio'] * sent['messages']
            self.assertLessEqual(packed / 2 - 1, sent['messages'] - sent['frames'])
        self.assertGreater(max(flow['sent']['packed_ratio'] for flow in flows), 0)
        for way, counter in (('sent', 'bytes_out'), ('received', 'bytes_in')):
            all_bytes = self.metrics.sum('websocket_%s_total' % counter, port='websocket')
            # The status is up to half a second older; nothing but pings goes any more.
            self.assertAlmostEqual(sum(flow[way]['bytes'] for flow in flows), all_bytes, delta=1000)

    def test_a_snapshot_is_the_image(self):
        server = 'localhost:%d' % self.p2ps.websocket_port
        client = self.plain('snapshot', server, ITEMS, ('--snapshot',))
        status, finals = client.finish()
        self.assertEqual((status, python_clients.differences(finals)[:10]), (0, []))
        self.assertEqual({final['state']['stream'] for final in finals.values()}, {'NonStreaming'})


class Deployed(SystemTest):
    """The vendor's packages, and an encrypted port, while updates come."""

    @classmethod
    def scenario(cls):
        python_clients.python()
        cls.system_ = cls.system()
        tls_port = free_ports()
        tls = {
            'p2ps.websocket.tls.port': tls_port,
            'p2ps.websocket.tls.certificate_file': os.path.join(TESTDATA, 'server.pem'),
            'p2ps.websocket.tls.key_file': os.path.join(TESTDATA, 'server.key'),
        }
        distributor, cls.p2ps = cls.system_.source_distributor(), cls.system_.p2ps(sets=tls)
        cls.system_.feed(repeat=True, speed='5')
        distributor.wait_count('distributor_items', len(ITEMS))
        cls.tls_server = 'localhost:%d' % tls_port

    def deployed(self, package):
        server = 'localhost:%d' % self.p2ps.websocket_port
        script = os.path.join(FOLDER, 'deployed.py')
        words = [python_clients.python(), script, package, server, ','.join(FIELDS), 'BTCUSDT', 'ETHUSDT', 'NOSUCH']
        process = self.system_.process(package, words)
        wait_until(lambda: not process.is_running(), '%s ends' % package, [self.p2ps], 120)
        self.assertEqual(process.wait(), 0)
        said = json.loads(process.out().splitlines()[-1])
        self.assertEqual(said['session'], 'Opened')
        for item in ('BTCUSDT', 'ETHUSDT'):
            self.assertTrue(all(float(said['get_data'][item][field]) > 0 for field in FIELDS), said)
        self.assertEqual([(s['Stream'], s['Code']) for s in said['refused']], [('Closed', 'NotFound')])
        both = ['BTCUSDT', 'ETHUSDT']
        self.assertEqual(said['streamed'], {'refreshed': both, 'updated': both})

    def test_lseg_data(self):
        self.deployed('lseg')

    def test_refinitiv_data(self):
        self.deployed('refinitiv')

    def test_an_encrypted_connection(self):
        options = ('--ca', os.path.join(TESTDATA, 'ca.pem'), '--snapshot')
        client = PlainClient('encrypted', self.tls_server, self.directory, PRICES, options)
        self.keep(client)
        status, finals = client.finish()
        self.assertEqual((status, sorted(finals)), (0, sorted(PRICES)))
        self.assertEqual(self.p2ps.metrics().sum('listener_tls_handshakes_total', port='websocket'), 1)


if __name__ == '__main__':
    unittest.main()
