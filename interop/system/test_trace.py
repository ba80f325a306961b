"""Hop stamps: how long each hop of an update takes, in metrics, in `tickcast top` and for one item live in `tickcast trace`.

One P2PS is a thread, another one has shards. The times of one host's clock are exact sums: what the hops took is the total.
"""

import json
import threading
import unittest

import rssl_bytes as rssl
from daemons import binary
from ports import free_ports
from process import wait_until
from rssl_clients import RsslConsumer, RsslProvider
from system_test import SystemTest

NAME, QUIET, SERVICE, STREAM = b'NI.1', b'QUIET', 'NI_PUB', 5
PRICE = {22: b'\x0c\x0f\x96'}
ALONE = ['source_distributor', 'backbone', 'p2ps', 'total']
SHARDED = ['source_distributor', 'backbone', 'relay', 'to_shard', 'p2ps', 'total']


class Traced(SystemTest):
    """A provider publishes updates of an item until the end; a client at each P2PS watches it, and one that has none."""

    stamps = 'true'

    @classmethod
    def scenario(cls):
        cls.system_ = cls.system()
        cls.distributor = cls.system_.source_distributor(sets={'source_distributor.hop_stamps': cls.stamps})
        cls.servers = cls.start_servers()
        provider = RsslProvider(cls.system_.provider_port, 'feed').wait_count(1, 1)
        images = [rssl.item_refresh(name, -at, PRICE) for at, name in enumerate((NAME, QUIET), start=1)]
        provider.send(rssl.DIRECTORY_REFRESH, *images)
        cls.distributor.wait_count('distributor_items', 2)
        for server in cls.servers:
            cls.system_.wait_serving(server, SERVICE)
            service = next(s['id'] for s in server.status()['services'] if s['name'] == SERVICE)
            client = RsslConsumer(server.port, 'viewer')
            cls.addClassCleanup(client.close)
            client.send(rssl.item_request(NAME, STREAM, service=service))
            client.send(rssl.item_request(QUIET, STREAM + 1, service=service))
            client.wait_count(STREAM, 1).wait_count(STREAM + 1, 1)
        cls.publish(provider)

    @classmethod
    def start_servers(cls):
        return [cls.system_.p2ps(sets={'p2ps.shards': 1})]

    @classmethod
    def publish(cls, provider):
        """Updates until the end."""
        is_over = threading.Event()
        update = rssl.frame(rssl.update_of(-1, rssl.field_list(PRICE)))

        def send():
            while not is_over.wait(0.01):
                try:
                    provider.socket.sendall(update * 2)
                except OSError:
                    return

        thread = threading.Thread(target=send)
        thread.start()
        # The last one registered is called first.
        cls.addClassCleanup(thread.join)
        cls.addClassCleanup(provider.close)
        cls.addClassCleanup(is_over.set)

    def trace(self, server, *words):
        """(exit status, standard output, standard error)"""
        address = 'localhost:%d' % server.admin.port
        process = self.system_.process('trace', [binary(), 'trace', '--p2ps', address, *words])
        return process.wait(), process.out(), process.log()


class Stamped(Traced):
    @classmethod
    def start_servers(cls):
        alone = cls.system_.p2ps(sets={'p2ps.shards': 1})
        return [alone, cls.system_.p2ps(sets={'p2ps.shards': 2}, name='sharded')]

    def test_each_update_of_an_item_is_shown_with_its_hops(self):
        for server, hops in zip(self.servers, (ALONE, SHARDED)):
            status, out, log = self.trace(server, 'NI.1', '--service', SERVICE, '--count', '40', '--json')
            self.assertEqual(status, 0, log)
            lines = [json.loads(line) for line in out.splitlines()]
            self.assertEqual(len(lines), 40)
            numbers = [line['sequence'] for line in lines]
            self.assertEqual(numbers, sorted(set(numbers)), 'each once, in order')
            for line in lines:
                self.assertEqual((line['item'], line['service'], line['domain']), ('NI.1', SERVICE, 6))
                took = line['hops_ns']
                self.assertEqual(set(took), set(hops))
                self.assertEqual(sum(took[hop] for hop in hops[:-1]), took['total'])
                self.assertGreaterEqual(took['source_distributor'], 0)
                self.assertGreater(took['p2ps'], 0)
            self.assertEqual('shard' in lines[0], server is self.servers[1])

    def test_people_get_a_table(self):
        status, out, log = self.trace(self.servers[0], 'NI.1', '--count', '3')
        self.assertEqual(status, 0, log)
        lines = out.splitlines()
        self.assertRegex(lines[0], r'^NI\.1 of NI_PUB at P2PS p2ps \(localhost:\d+\), microseconds$')
        self.assertEqual(lines[1].split(), ['NUMBER', 'TIME', 'DISTRIBUTOR', 'BACKBONE', 'P2PS', 'TOTAL'])
        self.assertEqual(len(lines), 5)
        for line in lines[2:]:
            self.assertRegex(line, r'^ +\d+  \d\d:\d\d:\d\d\.\d{6}(  +-?\d+\.\d){4}$')

    def test_metrics_have_a_histogram_of_each_hop(self):
        name = 'hop_latency_seconds'
        for server, hops in zip(self.servers, (ALONE, SHARDED)):
            for hop in hops:
                labels = {'role': 'p2ps', 'hop': hop}
                counted = lambda: server.metrics().nonzero(name + '_count', **labels)
                wait_until(counted, 'updates pass %s' % hop, [server])
                metrics = server.metrics()
                count = metrics.sum(name + '_count', **labels)
                self.assertEqual(metrics.sum(name + '_bucket', le='+Inf', **labels), count)
                self.assertLessEqual(metrics.sum(name + '_bucket', le='0.000001', **labels), count)
                self.assertGreaterEqual(metrics.sum(name + '_sum', **labels), 0)
            self.assertEqual('relay' in hops, bool(metrics.nonzero(name + '_count', hop='relay')))
            self.assertEqual(metrics.sum('p2ps_hop_stamps_refused_total'), 0)
            self.assertGreater(metrics.sum('p2ps_hop_stamps_in_total'), 0)
        own = self.distributor.metrics().sum(name + '_count', role='source_distributor', hop='source_distributor')
        self.assertGreater(own, 0)

    def test_top_shows_the_hops_of_the_last_interval(self):
        ports = [str(daemon.admin.port) for daemon in (self.distributor, *self.servers)]
        process = self.system_.process('top', [binary(), 'top', '--json', *ports])
        self.assertEqual(process.wait(), 0, process.log())
        hops = json.loads(process.out())['hops']
        shown = {daemon: [hop['hop'] for hop in hops if hop['address'] == 'localhost:' + daemon] for daemon in ports}
        self.assertEqual(list(shown.values()), [['source_distributor'], ALONE, SHARDED])
        self.assertTrue(any(hop['updates'] > 0 and hop['p99_at_most_us'] is not None for hop in hops), hops)
        process = self.system_.process('top', [binary(), 'top', '--once', ports[1]])
        self.assertEqual(process.wait(), 0, process.log())
        self.assertRegex(process.out(), r'\nHOP +UPDATES +P50 us +P99 us +MAX us +ROLE +AT\nsource_distributor ')

    def test_what_is_not_there_is_said_with_what_to_do(self):
        server = self.servers[0]
        for words, said in (
            (['NOBODY', '--seconds', '1'], 'no client watches NOBODY'),
            (['QUIET', '--seconds', '1'], 'no update of QUIET has come'),
            (['NI.1', '--service', 'OTHER', '--seconds', '1'], 'has no service OTHER'),
        ):
            status, out, log = self.trace(server, *words)
            self.assertEqual((status, out), (1, ''), log)
            self.assertIn(said, log)
        status, out, log = self.trace(server, '0:NI.1')
        self.assertEqual((status, out), (2, ''), log)
        self.assertIn('`item` must be the name of an item', log)
        status, _, log = self.trace(self.distributor, 'NI.1')
        self.assertEqual(status, 1)
        self.assertIn('this daemon traces no items: ask a P2PS', log)
        process = self.system_.process('nobody', [binary(), 'trace', 'NI.1', '--p2ps', 'localhost:%d' % free_ports()])
        self.assertEqual(process.wait(), 1)
        self.assertIn('connection refused', process.log())
        self.assertEqual(self.system_.process('wrong', [binary(), 'trace', 'NI.1', '--count', '0']).wait(), 2)


class Unstamped(Traced):
    stamps = 'false'

    def test_who_traces_without_stamps_is_told_which_key_to_set(self):
        status, out, log = self.trace(self.servers[0], 'NI.1')
        self.assertEqual((status, out), (1, ''))
        self.assertIn('`hop_stamps = true` in [source_distributor]', log)
        self.assertEqual(self.servers[0].metrics().nonzero('hop_latency.*|p2ps_hop_.*'), {})
        self.assertEqual(self.distributor.metrics().nonzero('hop_latency.*'), {})


if __name__ == '__main__':
    unittest.main()
