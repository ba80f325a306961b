"""A provider whose fields are not what the dictionary says: what consumers learn, over WebSocket and over RSSL."""

import unittest

import rssl_bytes as rssl
from java_tools import numbered
from rssl_clients import RsslConsumer, RsslProvider
from system_test import SystemTest
from websocket_bytes import JsonClient

BID, ASK = 22, 25
# A real has a byte for its format and at most eight; of this none can be read.
GARBAGE = bytes([0xFF] * 12)
REQUEST = {'ID': 5, 'Key': {'Name': 'NI.1', 'Service': 'NI_PUB'}}


def cents(value):
    """A price with two decimals."""
    return b'\x0c' + value.to_bytes(2, 'big')


def told(messages):
    """[(class, stream state, data state, code, BID)] of an item's messages."""
    states = [message.get('State', {}) for message in messages]
    bids = [message.get('Fields', {}).get('BID') for message in messages]
    classes = [message['Type'] for message in messages]
    return [(c, s.get('Stream'), s.get('Data'), s.get('Code'), bid) for c, s, bid in zip(classes, states, bids)]


class Unwritable(SystemTest):
    @classmethod
    def scenario(cls):
        system = cls.system()
        cls.distributor = system.source_distributor(sets=numbered('NI_PUB', 1))
        cls.p2ps = system.p2ps(sets={'p2ps.json_image_delay_ms': 1000})
        provider = RsslProvider(system.provider_port).wait_count(1, 1)
        provider.send(rssl.DIRECTORY_REFRESH, rssl.ITEM_REFRESH)
        cls.distributor.wait_count('distributor_items', 1)
        system.wait_serving(cls.p2ps, 'NI_PUB')
        json, consumer = JsonClient(cls.p2ps.websocket_port), RsslConsumer(cls.p2ps.port)
        json.log_in()
        json.send(REQUEST)
        json.wait(lambda m: m.get('ID') == 5)
        consumer.wait_count(1, 1)
        consumer.send(rssl.item_request(b'NI.1'))
        consumer.wait_count(5, 1)
        # It fails, and fails again, and is good before the image is asked for.
        updates = [{BID: GARBAGE}, {BID: GARBAGE, ASK: cents(4000)}, {BID: cents(4110)}]
        provider.send(*map(rssl.item_update, updates))
        json.wait(lambda m: m.get('Fields', {}).get('BID') == 41.1)
        provider.send(rssl.item_update({BID: cents(4120)}))
        json.wait(lambda m: m.get('Fields', {}).get('BID') == 41.2)
        # It stays bad, and what is asked for anew cannot be shown either.
        provider.send(rssl.item_update({BID: GARBAGE}))
        json.wait(lambda m: m.get('State', {}).get('Stream') == 'Closed')
        json.send({**REQUEST, 'ID': 6})
        json.wait(lambda m: m.get('ID') == 6)
        provider.send(rssl.item_update({BID: cents(4130)}))
        consumer.wait_count(5, 7)
        json.send({**REQUEST, 'ID': 7})
        json.wait(lambda m: m.get('ID') == 7)
        cls.json, cls.rssl = json.messages, consumer.of_stream(5)
        cls.metrics = cls.p2ps.metrics()
        for connection in (json, consumer, provider):
            connection.close()

    def of(self, stream):
        return [message for message in self.json if message.get('ID') == stream]

    def test_websocket_clients_are_suspect_until_an_image_and_closed_if_there_is_none(self):
        wanted = [
            ('Refresh', 'Open', 'Ok', None, 39.9),
            ('Status', 'Open', 'Suspect', 'GapDetected', None),
            ('Refresh', 'Open', 'Ok', None, 41.1),
            ('Update', None, None, None, 41.2),
            ('Status', 'Open', 'Suspect', 'GapDetected', None),
            ('Status', 'Closed', 'Suspect', 'Error', None),
        ]
        self.assertEqual(told(self.of(5)), wanted)
        self.assertEqual(self.of(5)[2]['Fields']['ASK'], 40)
        self.assertIn('field 22', self.of(5)[5]['State']['Text'])

    def test_a_request_is_answered_as_the_image_can_be_shown(self):
        self.assertEqual([m[:3] for m in told(self.of(6))], [('Status', 'Closed', 'Suspect')])
        self.assertEqual(told(self.of(7))[0], ('Refresh', 'Open', 'Ok', None, 41.3))

    def test_an_rssl_consumer_gets_what_the_provider_sent_and_notices_nothing(self):
        self.assertEqual([summary[0] for summary in self.rssl], ['REFRESH'] + ['UPDATE'] * 6)

    def test_it_is_counted(self):
        count = lambda name: self.metrics.sum('json_%s_total' % name)
        self.assertEqual((count('streams_suspected'), count('streams_restored'), count('streams_closed')), (2, 1, 2))
        # Three updates, the image of the stream that was open, that of the request.
        self.assertEqual(count('messages_unwritable'), 5)


class Blank(SystemTest):
    def test_a_price_of_a_format_alone_is_blank_as_the_libraries_write_null(self):
        system = self.system()
        distributor = system.source_distributor(sets=numbered('NI_PUB', 1))
        p2ps = system.p2ps()
        provider = RsslProvider(system.provider_port).wait_count(1, 1)
        provider.send(rssl.DIRECTORY_REFRESH, rssl.ITEM_REFRESH)
        distributor.wait_count('distributor_items', 1)
        system.wait_serving(p2ps, 'NI_PUB')
        client = JsonClient(p2ps.websocket_port)
        client.log_in()
        client.send(REQUEST)
        client.wait(lambda m: m.get('ID') == 5)
        provider.send(*(rssl.item_update({BID: bytes([first])}) for first in (0, 0x24, 0xCC)))
        provider.send(rssl.item_update({BID: cents(4110)}))
        client.wait(lambda m: m.get('Fields', {}).get('BID') == 41.1)
        updates = [m['Fields'] for m in client.messages if m['Type'] == 'Update']
        self.assertEqual(updates, [{'BID': None}] * 3 + [{'BID': 41.1}])
        for connection in (client, provider):
            connection.close()


if __name__ == '__main__':
    unittest.main()
