"""`tickcast top` as an operator and as a script use it: who is slow, what is busy, and one client is disconnected."""

import http.client
import json
import socket
import threading
import unittest

import rssl_bytes as rssl
from daemons import binary
from java_tools import numbered
from ports import free_ports
from process import WATCHDOG_S, wait_until
from rssl_clients import RsslConsumer, RsslProvider
from system_test import SystemTest
from test_watch import Terminal

BUSY, CALM = b'BUSY', b'CALM'
PRICE = {22: b'\x0c\x0f\x96'}
# Of the busy item come so many times as many updates, however quick the machine is.
TIMES = 300
BURST = b''.join(
    map(rssl.frame, [rssl.update_of(-1, rssl.field_list(PRICE))] * TIMES + [rssl.update_of(-2, rssl.field_list(PRICE))])
)
SETS = {
    'p2ps.shards': 2,
    'p2ps.conflate_above_bytes': 200_000,
    'p2ps.conflate_above_ms': 2_000,
    # A client that stands still says nothing.
    'p2ps.rssl.ping_timeout_min_s': 250,
    'p2ps.rssl.ping_timeout_max_s': 250,
}


class Top(SystemTest):
    """One client stands still, two others read; the busy item is watched by the first, the calm one by all."""

    @classmethod
    def scenario(cls):
        cls.system_ = cls.system()
        cls.distributor = cls.system_.source_distributor(sets=numbered('NI_PUB', 1))
        cls.p2ps = cls.system_.p2ps(sets=SETS)
        provider = RsslProvider(cls.system_.provider_port, 'feed').wait_count(1, 1)
        images = [rssl.item_refresh(name, -at, PRICE) for at, name in enumerate((BUSY, CALM), start=1)]
        provider.send(rssl.DIRECTORY_REFRESH, *images)
        cls.distributor.wait_count('distributor_items', 2)
        cls.system_.wait_serving(cls.p2ps, 'NI_PUB')
        cls.frozen = cls.stand_still()
        cls.steady, cls.victim = (cls.watch_calm(user) for user in ('steady', 'victim'))
        cls.publish(provider)
        is_conflated = lambda: cls.p2ps.metrics()['p2ps_clients_conflated'] == 1
        wait_until(is_conflated, 'the updates of the client that stands still are conflated', [cls.p2ps])

    @classmethod
    def stand_still(cls):
        frozen = socket.socket()
        cls.addClassCleanup(frozen.close)
        frozen.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        frozen.connect(('127.0.0.1', cls.p2ps.port))
        requests = [rssl.item_request(BUSY, 5), rssl.item_request(CALM, 6)]
        frozen.sendall(rssl.connect_request(ping_timeout_s=250))
        frozen.sendall(b''.join(map(rssl.frame, [rssl.login_request(user=b'frozen'), *requests])))
        return frozen

    @classmethod
    def watch_calm(cls, user):
        client = RsslConsumer(cls.p2ps.port, user)
        cls.addClassCleanup(client.close)
        client.send(rssl.item_request(CALM, 5))
        return client.wait_count(5, 1)

    @classmethod
    def publish(cls, provider):
        """Updates until the end."""
        is_over = threading.Event()

        def send():
            while not is_over.wait(0.02):
                try:
                    provider.socket.sendall(BURST)
                except OSError:
                    return

        thread = threading.Thread(target=send)
        thread.start()
        # The last one registered is called first.
        cls.addClassCleanup(thread.join)
        cls.addClassCleanup(provider.close)
        cls.addClassCleanup(is_over.set)

    def top(self, *options):
        """(exit status, standard output, standard error)"""
        process = self.system_.process('top', [binary(), 'top', *map(str, options)])
        return process.wait(), process.out(), process.log()

    def look(self, *options):
        status, out, log = self.top('--json', *options)
        self.assertEqual(status, 0, log)
        return json.loads(out)

    def post(self, path, method='POST'):
        connection = http.client.HTTPConnection('127.0.0.1', self.p2ps.admin.port, timeout=WATCHDOG_S)
        self.addCleanup(connection.close)
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def test_the_slowest_client_and_the_busiest_item_come_first(self):
        look = self.look(self.p2ps.admin.port)
        first = look['clients'][0]
        self.assertEqual((first['user'], first['step'], first['protocol']), ('frozen', 'conflated', 'rssl'))
        self.assertGreater(first['backlog_bytes'], max(client['backlog_bytes'] for client in look['clients'][1:]))
        self.assertEqual((first['streams'], first['changed_streams']), (2, 2))
        self.assertEqual([item['name'] for item in look['items']], ['BUSY', 'CALM'])
        busy, calm = look['items']
        self.assertGreater(busy['updates_per_second'], calm['updates_per_second'])
        self.assertEqual((busy['watchers'], busy['service'], busy['domain']), (1, 'NI_PUB', 6))
        self.assertGreaterEqual(calm['watchers'], 2)

    def test_each_daemon_shows_its_threads_services_and_rates(self):
        look = self.look(self.distributor.admin.port, 'localhost:%d' % self.p2ps.admin.port)
        roles = [daemon['role'] for daemon in look['daemons']]
        self.assertEqual(roles, ['source-distributor', 'p2ps'])
        for daemon in look['daemons']:
            self.assertGreater(daemon['in_per_second'], 0)
            self.assertTrue(daemon['answers'])
            for thread in daemon['threads']:
                self.assertTrue(0 < thread['busy_share'] <= 1, thread)
        threads = [thread['name'] for thread in look['daemons'][1]['threads']]
        self.assertEqual(threads, ['p2ps', 'p2ps shard 0', 'p2ps shard 1'])
        services = {(service['name'], service['up']) for service in look['services']}
        self.assertEqual(services, {('NI_PUB', True)})
        busiest = [item['name'] for item in look['items'] if item['role'] == 'source-distributor']
        self.assertEqual(busiest, ['BUSY', 'CALM'])
        metrics = self.p2ps.metrics()
        for name in threads:
            self.assertGreater(metrics.sum('thread_working_ns_total', thread=name), 0)

    def test_a_snapshot_is_text_for_pipes(self):
        status, out, _ = self.top('--once', '--filter', 'frozen', self.p2ps.admin.port)
        self.assertEqual(status, 0)
        self.assertNotIn('\x1b', out)
        lines = out.splitlines()
        title = next(at for at, line in enumerate(lines) if line.startswith('CLIENTS by backlog: 1 of 1 that match'))
        self.assertRegex(lines[title + 2], r'\dK? +conflated +frozen ')

    def test_an_address_that_does_not_answer_is_named_and_the_others_are_shown(self):
        with socket.create_server(('127.0.0.1', 0)) as strange:
            greeter = threading.Thread(target=self.greet, args=[strange])
            greeter.start()
            closed, other = free_ports(), strange.getsockname()[1]
            status, out, log = self.top('--once', closed, '127.0.0.1:%d' % other, self.p2ps.admin.port)
            greeter.join()
        self.assertEqual(status, 1)
        self.assertIn('frozen', out)
        self.assertIn('localhost:%d: connection refused' % closed, log)
        self.assertIn('127.0.0.1:%d: it does not speak HTTP' % other, log)

    @staticmethod
    def greet(strange):
        strange.settimeout(WATCHDOG_S)
        connection, _ = strange.accept()
        with connection:
            connection.sendall(b'SSH-2.0-OpenSSH_9.6\r\n')
            connection.recv(1000)

    def test_wrong_usage_is_status_2(self):
        for words in ((), ('--interval', '0', 14082), ('a:b:c',), ('--limit', '0', 14082), ('--filter', 'x=y', 14082)):
            with self.subTest(words=words):
                self.assertEqual(self.top(*words)[0], 2)

    def test_what_is_no_order_disconnects_nobody(self):
        self.assertEqual(self.post('/disconnect?client=0', 'GET')[0], 405)
        self.assertEqual(self.post('/disconnect')[0], 400)
        self.assertEqual(self.post('/disconnect?client=%d' % (9 << 32))[0], 404)
        steady = next(c for c in self.p2ps.status()['clients'] if c['user'] == 'steady')
        status, text = self.post('/disconnect?client=%d&peer=127.0.0.1:1' % steady['id'])
        self.assertEqual(status, 409, text)
        self.assertIn(steady['id'], [client['id'] for client in self.p2ps.status()['clients']])

    def test_an_item_is_shown_with_its_image(self):
        status, text = self.post('/status?limit=1&item=CALM&service=NI_PUB', 'GET')
        item = json.loads(text)['item']
        self.assertEqual((status, item['name'], item['suspect']), (200, 'CALM', False))
        self.assertTrue(any('BID: 39.90' in line for line in item['image']), item['image'])

    def test_z_a_client_is_disconnected_from_the_screen_and_no_other(self):
        terminal = Terminal([binary(), 'top', str(self.p2ps.admin.port)])
        self.addCleanup(terminal.end)
        terminal.wait_shows('frozen')
        terminal.type(b'/victim\r')
        terminal.wait_shows('1 of 1 that match, of 3, user=victim*')
        terminal.type(b'd')
        terminal.wait_shows('disconnect victim of 127.0.0.1:')
        terminal.type(b'y')
        terminal.wait_shows('is disconnected')
        self.victim.wait_end()
        last = [message for message in self.victim.messages if message.stream == 1][-1]
        self.assertEqual((last.kind, last.text), ('STATUS', 'an operator disconnects this client'))
        users = lambda: sorted(client['user'] for client in self.p2ps.status()['clients'])
        wait_until(lambda: users() == ['frozen', 'steady'], lambda: 'two are left: %s' % users(), [self.p2ps])
        self.steady.wait_count(5, len(self.steady.of_stream(5)) + 1)
        self.assertEqual(self.p2ps.metrics()['p2ps_clients_disconnected_total'], 1)
        line = next(line for line in self.p2ps.log().splitlines() if 'disconnected by an operator' in line)
        for part in ('victim', 'by=127.0.0.1:', 'peer=127.0.0.1:'):
            self.assertIn(part, line)
        terminal.type(b'q')
        self.assertEqual(terminal.wait(), 0)


if __name__ == '__main__':
    unittest.main()
