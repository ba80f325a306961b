"""`tickcast ledger`: what was lost is named, what each client was due is accounted for, and what cannot be explained is said.

The P2PS is stopped while more is published than its sockets hold, and nothing is retransmitted: so messages are lost,
however quick the machine is. One client reads everything, one asks for an update in an interval, one does not read.
"""

import json
import re
import socket
import subprocess
import unittest

import rssl_bytes as rssl
from daemons import binary
from ports import free_ports
from process import WATCHDOG_S, wait_until
from rssl_clients import RsslConsumer, RsslProvider
from system_test import SystemTest

NAME, STREAM, SERVICE = b'NI.1', 5, 'NI_PUB'
DIRECTORY_STREAM = 2
BURST = 2_000
# More than the socket buffer of the P2PS holds, several times.
BURSTS_LOST = 20
# Of 780 bytes each, so that few of them fill the sockets of a client that does not read.
WIDE_UPDATE = rssl.item_update({field: b'x' * 250 for field in (3, 4, 5)})
WIDE_BURST = 500
# Many times what sockets hold.
WIDE_BURSTS_MAX = 100

DISTRIBUTOR = {
    'messaging.lbtrm.retransmit_rate_limit_bits_per_second': 0,
    # Nobody waits for a P2PS that is stopped.
    'source_distributor.flow.window_bytes': 0,
}
P2PS = {
    # More than a burst, and far less than what is published while it is stopped.
    'messaging.lbtrm.receiver_socket_buffer_bytes': 524_288,
    # More than a burst, so that who reads after each keeps up.
    'p2ps.conflate_above_bytes': 1_000_000,
    'p2ps.conflated_intervals_ms': [200],
    'p2ps.class': '[{ name = "screens", users = ["screen"], update_interval_ms = 200 }]',
    # A client that does not read says nothing.
    'p2ps.rssl.ping_timeout_min_s': 250,
    'p2ps.rssl.ping_timeout_max_s': 250,
}


def ledger(*words):
    """Exit status and what stands on standard output."""
    asked = subprocess.run([binary(), 'ledger', *words], capture_output=True, text=True, timeout=2 * WATCHDOG_S)
    return asked.returncode, asked.stdout, asked.stderr


class Ledger(SystemTest):
    @classmethod
    def scenario(cls):
        system = cls.system()
        cls.distributor = system.source_distributor(sets=DISTRIBUTOR)
        cls.p2ps = system.p2ps(sets=P2PS)
        cls.provider = RsslProvider(system.provider_port, 'feed').wait_count(1, 1)
        cls.provider.send(rssl.DIRECTORY_REFRESH, rssl.ITEM_REFRESH)
        cls.distributor.wait_count('distributor_items', 1)
        system.wait_serving(cls.p2ps, SERVICE)
        cls.service = next(s['id'] for s in cls.p2ps.status()['services'] if s['name'] == SERVICE)
        cls.published = 0
        cls.fast, cls.screen = (cls.subscribe(RsslConsumer(cls.p2ps.port, user)) for user in ('fast', 'screen'))
        cls.publish_unheard()
        cls.slow = cls.subscribe_and_do_not_read()
        cls.publish_until_conflated()
        cls.publish_heard()
        is_at_rest = lambda: cls.waiting() > 0
        wait_until(is_at_rest, 'updates wait for who does not read', [cls.p2ps])
        cls.while_slow = ledger(*cls.addresses(), '--json')
        cls.text = ledger(*cls.addresses())
        cls.slow.close()
        wait_until(lambda: cls.streams() == 2, 'its stream is gone', [cls.p2ps])
        wait_until(lambda: cls.waiting() == 0, 'nothing waits any more', [cls.p2ps])
        cls.at_end = ledger(*cls.addresses(), '--json')
        cls.lost = cls.p2ps.metrics().sum('p2ps_messages_lost_total')
        deaf = {'messaging.resolver.multicast_port': free_ports(12)}
        cls.deaf = system.p2ps(sets=deaf, name='deaf')
        cls.unheard = ledger(cls.address(cls.distributor), cls.address(cls.deaf), '--wait', '0')
        cls.deaf.kill()
        cls.nobody = ledger(cls.address(cls.deaf))

    @classmethod
    def subscribe(cls, consumer):
        cls.addClassCleanup(consumer.close)
        consumer.wait_count(1, 1).send(rssl.item_request(NAME, STREAM, service=cls.service))
        return consumer.wait_count(STREAM, 1)

    @classmethod
    def subscribe_and_do_not_read(cls):
        slow = socket.socket()
        cls.addClassCleanup(slow.close)
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(('127.0.0.1', cls.p2ps.port))
        request = rssl.item_request(NAME, STREAM, service=cls.service)
        slow.sendall(rssl.connect_request(ping_timeout_s=250))
        slow.sendall(b''.join(map(rssl.frame, [rssl.login_request(user=b'slow'), request])))
        wait_until(lambda: cls.streams() == 3, 'the third watches', [cls.p2ps])
        return slow

    @classmethod
    def streams(cls):
        """How many item streams are open."""
        return sum(client['streams'] for client in cls.p2ps.status()['clients'])

    @classmethod
    def publish(cls, update=rssl.ITEM_UPDATE, count=BURST):
        """A burst of updates, which the source distributor has published when this returns."""
        before = cls.distributor.metrics()['distributor_stream_messages_out_total']
        cls.provider.send(*[update] * count)
        cls.published += count
        cls.distributor.wait_count('distributor_stream_messages_out_total', before + count)

    @classmethod
    def publish_heard(cls):
        """A burst that reaches the clients: who reads has got it when this returns."""
        cls.publish(WIDE_UPDATE, WIDE_BURST)
        cls.wait_taken()

    @classmethod
    def publish_until_conflated(cls):
        for _ in range(WIDE_BURSTS_MAX):
            cls.publish_heard()
            if any(client['step'] == 'conflated' for client in cls.p2ps.status()['clients']):
                return
        raise AssertionError('the client that does not read is not conflated')

    @classmethod
    def wait_taken(cls):
        """The P2PS has taken or missed all that was published, and who reads has read it."""
        wait_until(lambda: ledger(*cls.addresses(), '--wait', '0')[0] == 0, 'everything has arrived', [cls.p2ps])
        for consumer in (cls.fast, cls.screen):
            # What is answered now comes behind all that was sent.
            answers = len(consumer.of_stream(DIRECTORY_STREAM))
            consumer.send(rssl.directory_request())
            consumer.wait_count(DIRECTORY_STREAM, answers + 1)

    @classmethod
    def publish_unheard(cls):
        cls.p2ps.hold()
        for _ in range(BURSTS_LOST):
            cls.publish()
        cls.p2ps.go_on()
        cls.p2ps.wait_count('p2ps_messages_lost_total', 1)
        cls.wait_taken()

    @classmethod
    def waiting(cls):
        """How many updates wait for clients; -1 if a daemon is busy."""
        answer = ledger(*cls.addresses(), '--json')
        return -1 if answer[0] == 1 else cls.clients(answer)['waiting']

    @classmethod
    def address(cls, daemon):
        return '127.0.0.1:%d' % daemon.admin.port

    @classmethod
    def addresses(cls):
        return cls.address(cls.distributor), cls.address(cls.p2ps)

    @staticmethod
    def hops(answer):
        return {hop['role']: hop for hop in json.loads(answer[1])['hops']}

    @classmethod
    def of_service(cls, answer, role):
        return next(s for s in cls.hops(answer)[role]['services'] if s['service'] == SERVICE)

    @classmethod
    def clients(cls, answer):
        return cls.of_service(answer, 'p2ps')['clients']

    def test_at_rest_it_is_balanced(self):
        for answer in (self.while_slow, self.at_end):
            self.assertEqual((answer[0], json.loads(answer[1])['faults'], answer[2]), (0, [], ''))
        self.assertEqual((self.text[0], self.text[1].splitlines()[-1]), (0, 'balanced'))

    def test_what_providers_sent_is_counted(self):
        service = self.of_service(self.at_end, 'source-distributor')
        self.assertEqual(service['providers']['received'], self.published)
        self.assertEqual(service['updates'], self.published)

    def test_the_loss_is_named_with_its_range(self):
        [stream] = self.of_service(self.at_end, 'p2ps')['streams']
        ranges = [(lost['first'], lost['last']) for lost in stream['lost_ranges']]
        self.assertGreater(stream['lost'], 0)
        self.assertEqual(stream['lost'], self.lost)
        if len(ranges) < 16:
            self.assertEqual(sum(last - first + 1 for first, last in ranges), stream['lost'])
        self.assertEqual(stream['last'], self.of_service(self.at_end, 'source-distributor')['sequence'])
        line = re.search(r', lost %d: (.*)' % stream['lost'], self.text[1])
        first, last = ranges[-1]
        self.assertTrue(line and line.group(1).endswith('%d to %d' % (first, last) if last > first else str(last)), self.text[1])

    def test_each_update_that_a_client_was_due_is_accounted_for(self):
        for answer in (self.while_slow, self.at_end):
            clients = self.clients(answer)
            self.assertEqual(clients['due'], sum(clients.values()) - clients['due'])
        slow, end = self.clients(self.while_slow), self.clients(self.at_end)
        self.assertGreater(slow['conflated'], 0)
        self.assertGreater(end['ended'], slow['ended'])
        became = sum(end[fate] - slow[fate] for fate in ('ended', 'conflated', 'in_images'))
        self.assertEqual((end['due'], became), (slow['due'], slow['waiting']))

    def test_who_reads_has_had_what_was_delivered_to_it(self):
        fast = [kind for kind, *_ in self.fast.of_stream(STREAM)].count('UPDATE')
        clients, taken = self.clients(self.at_end), self.of_service(self.at_end, 'p2ps')['taken']
        self.assertEqual(fast, taken['applied'])
        self.assertGreaterEqual(clients['delivered'], fast)

    def test_what_is_not_explained_is_named_with_its_hop(self):
        status, text, said = self.unheard
        self.assertEqual(status, 3, text)
        self.assertIn('P2PS deaf at %s: service %s: nothing is received of ' % (self.address(self.deaf), SERVICE), text)
        self.assertIn('not balanced', said)

    def test_a_daemon_that_cannot_be_asked_is_named(self):
        status, text, said = self.nobody
        self.assertEqual((status, text), (1, ''))
        self.assertIn('http://%s/ledger' % self.address(self.deaf), said)


if __name__ == '__main__':
    unittest.main()
