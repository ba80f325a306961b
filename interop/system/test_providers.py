"""What a service lives through: providers that come late, are several, say something bad, refuse, or never answer.

Providers and consumers speak by hand, so that each test takes a second and says byte by byte what is sent.
"""

import socket
import struct
import unittest

import rssl_bytes as rssl
from dialled_provider import DialledProvider
from interactive import LINGER
from java_tools import dialled, numbered
from process import wait_until
from rssl_clients import RsslConsumer, RsslProvider
from system_test import SystemTest

OPEN, NON_STREAMING, OK, SUSPECT = 1, 2, 1, 2
FIRST, SECOND = 5, 6  # streams of consumers
BID = 22
PRICE = {BID: b'\x0c\x0f\x96'}
NEXT_PRICE = {BID: b'\x0c\x0f\x97'}


class Published(SystemTest):
    """A source distributor for non-interactive providers, a P2PS."""

    SETTLE_MS = 300

    def begin(self, number=1):
        self.system_ = self.system()
        self.distributor = self.start(number)
        self.p2ps = self.system_.p2ps()

    def start(self, number, name='distributor'):
        sets = {**numbered('NI_PUB', number), 'source_distributor.settle_time_ms': self.SETTLE_MS}
        return self.system_.source_distributor(sets=sets, name=name)

    def provider(self, *messages, name='feed'):
        """One that has published the service, and sent these."""
        provider = RsslProvider(self.system_.provider_port, name).wait_count(1, 1)
        self.addCleanup(provider.close)
        provider.send(rssl.DIRECTORY_REFRESH, *messages)
        return provider

    def consumer(self, *requests):
        """One that has sent these."""
        self.system_.wait_serving(self.p2ps, 'NI_PUB')
        consumer = RsslConsumer(self.p2ps.port).wait_count(1, 1)
        self.addCleanup(consumer.close)
        consumer.send(*requests)
        return consumer

    def states(self, consumer, stream=FIRST):
        """Stream and data states of what came on a stream, updates left out."""
        return [tuple(state[:2]) for *_, state in consumer.of_stream(stream) if state]

    def wait_state(self, consumer, *state, stream=FIRST):
        is_it = lambda: self.states(consumer, stream)[-1:] == [state]
        return consumer.wait(is_it, 'stream %d is in state %s' % (stream, state))

    def wait_updates(self, consumer, count, stream=FIRST):
        updates = lambda: [m for m in consumer.of_stream(stream) if m[0] == 'UPDATE']
        return consumer.wait(lambda: len(updates()) >= count, '%d updates on stream %d' % (count, stream))


def image(name=b'NI.1', stream=-1):
    return rssl.item_refresh(name, stream, PRICE)


class Restarts(Published):
    def test_an_item_that_is_republished_after_the_settle_time_comes_back_by_itself(self):
        self.begin()
        self.provider(image())
        consumer = self.consumer(rssl.item_request(b'NI.1', FIRST))
        self.wait_state(consumer, OPEN, OK)
        self.distributor.kill()
        self.wait_state(consumer, OPEN, SUSPECT)
        self.distributor.restart()
        provider = self.provider()
        self.system_.wait_serving(self.p2ps, 'NI_PUB')
        # Somebody who has never had an image of an item is refused when the time is over: it is over then.
        stranger = self.consumer(rssl.item_request(b'NEVER', FIRST))
        stranger.wait(lambda: [s for s in self.states(stranger) if s[0] > NON_STREAMING], 'the settle time is over')
        provider.send(image())
        self.wait_state(consumer, OPEN, OK)
        self.assertEqual({stream for stream, _ in self.states(consumer)}, {OPEN}, self.states(consumer))

    def test_clients_keep_their_service_id_when_the_distributor_comes_back_with_another(self):
        self.begin(number=1)
        self.provider(image())
        consumer = self.consumer(rssl.item_request(b'NI.1', FIRST))
        self.wait_state(consumer, OPEN, OK)
        self.distributor.kill()
        self.wait_state(consumer, OPEN, SUSPECT)
        self.distributor = self.start(number=9, name='renumbered')
        provider = self.provider(image(), image(b'NI.2', -2))
        self.wait_state(consumer, OPEN, OK)
        consumer.send(rssl.item_request(b'NI.2', SECOND))
        self.wait_state(consumer, OPEN, OK, stream=SECOND)
        provider.send(rssl.update_of(-1, rssl.field_list(NEXT_PRICE)))
        self.wait_updates(consumer, 1)
        self.assertEqual({stream for stream, _ in self.states(consumer)}, {OPEN})


class Several(Published):
    def test_a_second_provider_that_leaves_does_not_take_the_service_down(self):
        self.begin()
        provider = self.provider(image())
        consumer = self.consumer(rssl.item_request(b'NI.1', FIRST), rssl.directory_request())
        self.wait_state(consumer, OPEN, OK)
        consumer.wait_count(2, 1)
        second = self.provider(image(), name='second')
        self.distributor.wait_count('distributor_providers', 2)
        self.distributor.wait_count('distributor_messages_standby_total', 1)
        second.close()
        one = lambda: self.distributor.metrics().sum('distributor_providers') == 1
        wait_until(one, 'the second provider is gone', [self.distributor])
        provider.send(rssl.update_of(-1, rssl.field_list(NEXT_PRICE)))
        self.wait_updates(consumer, 1)
        self.assertEqual(self.states(consumer), [(OPEN, OK)], 'the item was never suspect')
        self.assertEqual(len(consumer.of_stream(2)), 1, 'the service was never down')
        self.assertEqual([(s['name'], s['up']) for s in self.p2ps.status()['services']], [('NI_PUB', True)])


class Spoilt(Published):
    def test_one_bad_update_makes_that_item_alone_suspect_and_is_named(self):
        self.begin()
        provider = self.provider(image(), image(b'NI.2', -2))
        consumer = self.consumer(rssl.item_request(b'NI.1', FIRST), rssl.item_request(b'NI.2', SECOND))
        for stream in (FIRST, SECOND):
            self.wait_state(consumer, OPEN, OK, stream=stream)
        cut = rssl.field_list(NEXT_PRICE)[:-1]
        provider.send(rssl.update_of(-1, cut), rssl.update_of(-2, rssl.field_list(NEXT_PRICE)))
        self.wait_state(consumer, OPEN, SUSPECT)
        self.wait_updates(consumer, 1, stream=SECOND)
        status = next(m for m in consumer.messages if m.stream == FIRST and m.state and m.state[1] == SUSPECT)
        self.assertIn('could not be read', status.text)
        self.assertEqual(self.states(consumer, SECOND), [(OPEN, OK)])
        (spoilt,) = wait_until(lambda: self.distributor.status()['items_spoilt'], 'it is listed', [self.distributor])
        self.assertEqual((spoilt['name'], spoilt['suspect']), ('NI.1', True))
        self.distributor.wait_says('NI.1')
        self.assertEqual(self.distributor.metrics().sum('distributor_items_spoilt_total'), 1)
        provider.send(image())
        self.wait_state(consumer, OPEN, OK)
        self.assertFalse(provider.is_over, 'the connection goes on')


class Link:
    """What a P2PS is to a source distributor, by hand: messages on a connection to its request port."""

    def __init__(self, port):
        self.socket, self.data = socket.create_connection(('127.0.0.1', port), 60), b''

    def send(self, kind, service, rest, version=1):
        body = struct.pack('>BBH', version, kind, service) + rest
        self.socket.sendall(struct.pack('>HHII', 0, 12 + len(body), 0, 0) + body)

    def message(self):
        """(kind, rest) of the next message; None when the link is over."""
        while len(self.data) < 4 or len(self.data) < struct.unpack_from('>H', self.data, 2)[0]:
            try:
                more = self.socket.recv(65_536)
            except ConnectionError:
                more = b''
            if not more:
                return None
            self.data += more
        (length,) = struct.unpack_from('>H', self.data, 2)
        message, self.data = self.data[12:length], self.data[length:]
        return message[1], message[4:]

    def close(self):
        self.socket.close()


class Links(Published):
    HELLO, INTEREST, GAP_QUERY, HELLO_ACK, IMAGE, UNKNOWN = 1, 2, 5, 16, 17, 250

    def link(self):
        link = Link(self.system_.place.messaging['messaging.request_tcp_port_low'])
        self.addCleanup(link.close)
        return link

    def test_a_message_of_a_link_that_cannot_be_read_costs_that_one_alone(self):
        self.begin()
        self.provider(image())
        self.consumer()
        link = self.link()
        link.send(self.HELLO, 0, bytes(8) + b'by hand')
        self.assertEqual(link.message()[0], self.HELLO_ACK)
        link.send(self.UNKNOWN, 1, b'')
        link.send(self.GAP_QUERY, 1, b'short')
        link.send(self.INTEREST, 1, bytes([rssl.MARKET_PRICE]) + b'NI.1')
        kind, rest = link.message()
        self.assertEqual(kind, self.IMAGE)
        self.assertIn(b'NI.1', rest)
        self.assertEqual(self.distributor.metrics().sum('distributor_link_messages_refused_total'), 2)
        peers = lambda: sorted(self.distributor.status()['peers'])
        wait_until(lambda: peers() == ['by hand', 'p2ps'], 'both links stand', [self.distributor])

    def test_another_version_of_the_protocol_and_who_does_not_greet_are_cut(self):
        self.begin()
        strange, rude = self.link(), self.link()
        strange.send(self.HELLO, 0, bytes(8) + b'by hand', version=9)
        rude.send(self.UNKNOWN, 1, b'')
        self.assertEqual((strange.message(), rude.message()), (None, None))


class Dialled(SystemTest):
    """A source distributor that dials a provider, which the test is; a P2PS where there are consumers."""

    def begin(self, sets=()):
        self.listening = DialledProvider()
        self.addCleanup(self.listening.close)
        self.system_ = self.system()
        connection = 'connection = { reconnect_delay_min_ms = 1, reconnect_delay_max_ms = 10 }'
        line = dialled('judge', self.listening.port)['source_distributor.interactive'].replace(' }]', ', %s }]' % connection)
        sets = {'source_distributor.interactive': line, **numbered('NI_PUB', 1), **LINGER['distributor'], **dict(sets)}
        self.distributor = self.system_.source_distributor(sets=sets)

    def accept(self):
        connection = self.listening.accept()
        self.addCleanup(connection.close)
        return connection

    def consumer(self, *requests):
        self.p2ps = self.system_.p2ps(sets=LINGER['p2ps'])
        self.system_.wait_serving(self.p2ps, 'NI_PUB')
        consumer = RsslConsumer(self.p2ps.port).wait_count(1, 1)
        self.addCleanup(consumer.close)
        consumer.send(*requests)
        return consumer


class Logins(Dialled):
    def test_a_provider_that_never_answers_the_login_is_dialled_again(self):
        self.begin({'source_distributor.requests.login_timeout_ms': 300})
        deaf = self.accept()
        self.assertEqual(deaf.wait('REQUEST', rssl.LOGIN).stream, 1)
        self.accept().serve()
        wait_until(
            lambda: [p['state'] for p in self.distributor.status()['interactive_providers']] == ['ready'],
            'the second attempt succeeds',
            [self.distributor],
        )
        self.distributor.wait_says('login or source directory was not answered in time')
        self.assertEqual(self.distributor.metrics().sum('distributor_logins_unanswered_total'), 1)

    def test_a_provider_is_logged_out_of_at_the_end_and_reads_no_reset(self):
        self.begin()
        provider = self.accept().serve()
        ready = lambda: self.distributor.status()['interactive_providers'][0]['state'] == 'ready'
        wait_until(ready, 'the provider is ready', [self.distributor])
        self.distributor.child.terminate()
        self.assertEqual(provider.wait('CLOSE', rssl.LOGIN).stream, 1)
        # What the provider still sends is read: an end while it is unread would be a reset.
        provider.send(*[rssl.login_refresh()] * 100)
        self.assertIsNone(provider.message(), 'the end of the stream')
        provider.close()
        self.assertEqual(self.distributor.wait(), 0)

    def test_a_provider_that_does_not_end_holds_nobody_up(self):
        self.begin()
        provider = self.accept().serve()
        self.distributor.child.terminate()
        self.assertEqual(self.distributor.wait(), 0)
        provider.close()


class Answers(Dialled):
    def test_an_image_without_a_stream_reaches_the_consumer_with_its_data(self):
        self.begin()
        provider = self.accept().serve()
        consumer = self.consumer(rssl.item_request(b'ONCE', FIRST))
        request = provider.wait('REQUEST', rssl.MARKET_PRICE)
        state = bytes([NON_STREAMING << 3 | OK])
        provider.send(rssl.item_refresh(b'ONCE', request.stream, PRICE, state=state, flags=0x68))
        consumer.wait_count(FIRST, 1)
        (refresh,) = (m for m in consumer.messages if m.stream == FIRST)
        self.assertEqual((refresh.kind, refresh.container), ('REFRESH', 'FIELD_LIST'))
        self.assertEqual(refresh.state[:2], [NON_STREAMING, OK])
        self.assertTrue(refresh.data.endswith(rssl.field_list(PRICE)), refresh.data.hex())

    def test_items_beyond_the_open_limit_are_suspect_at_once_with_the_reason(self):
        self.begin()
        provider = self.accept().serve(open_limit=1)
        consumer = self.consumer(rssl.item_request(b'ONE', FIRST))
        request = provider.wait('REQUEST', rssl.MARKET_PRICE)
        provider.send(rssl.item_refresh(b'ONE', request.stream, PRICE, flags=0x68))
        consumer.wait_count(FIRST, 1)
        consumer.send(rssl.item_request(b'TWO', SECOND))
        consumer.wait_count(SECOND, 1)
        status = next(m for m in consumer.messages if m.stream == SECOND)
        self.assertEqual((status.kind, status.state[:2]), ('STATUS', [OPEN, SUSPECT]))
        self.assertIn('as many items open as they take', status.text)
        # Room for one: the other's stream ends.
        consumer.send(rssl.close(stream=FIRST))
        request = provider.wait('REQUEST', rssl.MARKET_PRICE)
        provider.send(rssl.item_refresh(b'TWO', request.stream, PRICE, flags=0x68))
        consumer.wait(lambda: consumer.of_stream(SECOND)[-1][0] == 'REFRESH', 'the second item has its image')


if __name__ == '__main__':
    unittest.main()
