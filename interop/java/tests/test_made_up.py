"""python3 -m unittest discover -s interop/java/tests        (after `mvn package` in interop/java)

Consumer, providers and sink against each other: every option of one side is answered by EMA's other side.
"""

import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, '..', '..', 'reckon')]
import made_up
from tools import HERE, Consumer, InteractiveProvider, NonInteractiveProvider, Sink, free_ports

TLS = os.path.join(HERE, '..', '..', '..', 'crates', 'io', 'net', 'testdata', 'tls')
FIELD_LISTS, MAPS = (6, 134), (7, 8, 9, 10)


class WithInteractiveProvider(unittest.TestCase):
    """One provider serves all tests of a class; each test has items of its own."""

    OPTIONS = ()

    @classmethod
    def setUpClass(cls):
        cls.port = free_ports()
        cls.provider = InteractiveProvider(cls.port, *cls.OPTIONS)
        cls.addClassCleanup(cls.provider.kill)

    def consumer(self, *options, **more):
        consumer = Consumer(self.port, *options, **more)
        self.addCleanup(consumer.kill)
        return consumer

    def ok(self, *options, **more):
        status, result, finals = self.consumer(*options, **more).result()
        self.assertEqual((status, result['status'], result['reasons']), (0, 'OK', []))
        return result, finals

    def fails(self, text, *options):
        status, result, _ = self.consumer(*options).result()
        self.assertEqual((status, result['status']), (1, 'FAIL'))
        self.assertTrue(any(text in reason for reason in result['reasons']), result['reasons'])
        return result

    def told(self, ev, item):
        """What the provider has told about an item."""
        return [e for e in self.provider.events if e['ev'] == ev and e.get('item') == item]

    def assert_images(self, result, finals, **more):
        for item in result['items']:
            key = item['item'], item['domain']
            expected = made_up.image(*reversed(key), item['sequence']['last'], **more)
            seen = {part: finals[key][part] for part in expected}
            self.assertEqual(seen, expected, key)


class Data(WithInteractiveProvider):
    def test_images_and_updates_of_every_domain_are_as_reckoned(self):
        words = [w for domain in FIELD_LISTS + MAPS for w in ('--item', '%d:DATA' % domain)]
        result, finals = self.ok(*words, '--updates', '20', '--check-seq', '--check-map')
        self.assert_images(result, finals)
        self.assertEqual(result['refreshes'], 6)

    def test_containers_of_custom_domains_come_as_they_are(self):
        words = [w for domain in range(128, 134) for w in ('--item', '%d:CUSTOM' % domain)]
        result, finals = self.ok(*words, '--updates', '2', '--check-seq')
        last = {item['domain']: item['sequence']['last'] for item in result['items']}
        self.assertEqual(
            finals['CUSTOM', 128]['elements'],
            {'Name': 'CUSTOM', 'Base': made_up.base('CUSTOM'), 'N': last[128]},
        )
        for domain, kind in ((129, 'VECTOR'), (130, 'SERIES'), (133, 'FILTERLIST')):
            payload = finals['CUSTOM', domain]['payload']
            self.assertEqual(payload['type'], kind)
            self.assertIn('value="%d"' % last[domain], payload['text'])
        self.assertEqual(
            bytes.fromhex(finals['CUSTOM', 131]['payload']['hex']), b'\1\2 CUSTOM %d' % last[131]
        )
        self.assertEqual(finals['CUSTOM', 132]['payload']['text'], '<item name="CUSTOM" n="%d"/>' % last[132])

    def test_a_snapshot_holds_no_stream(self):
        result, finals = self.ok('--items', 'SNAP', '--snapshot')
        self.assert_images(result, finals)
        self.assertEqual(self.told('request', 'SNAP')[0]['streaming'], False)

    def test_the_service_by_number(self):
        result, _ = self.ok('--service-id', '10', '--items', 'BYNUMBER', '--post', '1', service=None)
        self.assertEqual((result['service']['info']['Name'], result['posts']['acks']), ('TEST', 1))


class Requests(WithInteractiveProvider):
    def test_only_fields_of_the_view_come(self):
        for view in ('22,30', 'BID,BIDSIZE'):
            with self.subTest(view):
                name = 'VIEW' + view[0]
                result, finals = self.ok('--items', name, '--view', view, '--updates', '4')
                last = result['items'][0]['sequence']['last']
                self.assertEqual(finals[name, 6]['fields'], made_up.fields(name, last, view=(22, 30)))
                self.assertEqual(self.told('request', name)[0]['view'], view)

    def test_a_view_of_a_book(self):
        result, finals = self.ok('--item', '7:VBOOK', '--view', '3429', '--updates', '4')
        last = result['items'][0]['sequence']['last']
        self.assertEqual(
            finals['VBOOK', 7]['entries'], made_up.entries(7, 'VBOOK', last, view=(3429,))
        )

    def test_a_reissue_changes_the_view(self):
        result, finals = self.ok(
            '--items', 'REVIEW', '--view', '22', '--reissue-view', '25,31', '--updates-after', '4'
        )
        last = result['items'][0]['sequence']['last']
        self.assertEqual(finals['REVIEW', 6]['fields'], made_up.fields('REVIEW', last, view=(25, 31)))
        self.assertEqual(result['refreshes'], 2)

    def test_priority_of_request_and_reissue(self):
        self.ok('--items', 'PRIO', '--priority', '3:7', '--reissue-priority', '5:9')
        self.assertEqual(self.told('request', 'PRIO')[0]['priority'], '3:7')
        self.assertEqual(self.told('reissue', 'PRIO')[0]['priority'], '5:9')

    def test_a_batch_opens_all_its_items(self):
        words = ('--items', 'B1,B2', '--item', '7:B1', '--batch')
        result, finals = self.ok(*words, '--updates', '2', '--check-seq')
        self.assert_images(result, finals)

    def test_a_pause_is_silence_and_the_resume_an_image(self):
        result, finals = self.ok('--items', 'PAUSE', '--pause', '400', '--updates-after', '2', '--check-seq')
        self.assertEqual(result['refreshes'], 2)
        self.assertEqual([e['pause'] for e in self.told('reissue', 'PAUSE')], [True, False])
        self.assert_images(result, finals)

    def test_a_pause_of_the_login_is_one_of_all_items(self):
        result, _ = self.ok(
            '--items', 'ALL1,ALL2', '--user', 'pauser', '--pause-all', '400', '--updates-after', '2'
        )
        self.assertEqual([e['pause'] for e in self.told('reissue', 'pauser')], [True, False])
        # Nothing was asked for anew.
        self.assertEqual(result['refreshes'], 2)

    def test_private_streams(self):
        result, _ = self.ok('--items', 'PRIV', '--private', '--updates', '2', '--generic', '2', '--post', '2')
        self.assertEqual((result['items'][0]['generics'], result['posts']['acks']), (2, 2))
        self.assertTrue(self.told('request', 'PRIV')[0]['private'])

    def test_updates_without_keys(self):
        self.ok('--items', 'NOKEY', '--msg-key-in-updates', '0', '--updates', '2', '--check-seq')

    def test_attributes_of_the_login(self):
        self.ok('--items', 'LOGIN', '--user', 'single', '--single-open', '0', '--allow-suspect-data', '0')
        attributes = self.provider.wait_ev('login', user='single')['attributes']
        self.assertEqual((attributes['SingleOpen'], attributes['AllowSuspectData']), (0, 0))
        self.assertEqual(attributes['Position'], '127.0.0.1/net')


class Upstream(WithInteractiveProvider):
    OPTIONS = ('--publish-posts', '--rate', '0', '--rtt')

    def test_posts_are_acknowledged_on_and_off_stream(self):
        result, _ = self.ok('--items', 'P1,P2', '--post', '3', '--post-off-stream', '2')
        self.assertEqual(result['posts'], {'sent': 10, 'acks': 10, 'nacks': 0, 'unanswered': 0})
        posts = self.told('post', 'P1')
        self.assertEqual([e['on_stream'] for e in posts], [True] * 3 + [False] * 2)
        self.assertEqual([e['id'] for e in posts], [1, 3, 5, 7, 9])

    def test_what_is_posted_is_published_and_stays_in_the_image(self):
        watcher = self.consumer('--items', 'PUB', '--updates', '1', '--check-seq')
        watcher.wait_ev('refresh')
        self.ok('--items', 'PUB', '--post', '1', '--post-fields', '22=REAL:123:12')
        status, result, finals = watcher.result()
        self.assertEqual((status, finals['PUB', 6]['fields']['22']['text']), (0, '1.23'))
        _, finals = self.ok('--items', 'PUB', '--snapshot')
        self.assertEqual(finals['PUB', 6]['fields']['22']['text'], '1.23')

    def test_generic_messages_are_echoed_in_order(self):
        result, _ = self.ok('--items', 'GEN', '--generic', '5')
        self.assertEqual(result['items'][0]['generics'], 5)
        self.assertEqual([e['payload']['N'] for e in self.told('generic', 'GEN')], [1, 2, 3, 4, 5])

    def test_round_trips_are_answered_by_the_library(self):
        self.ok('--items', 'RTT', '--user', 'measured', '--rtt')
        self.assertEqual(self.provider.wait_ev('login', user='measured')['attributes']['RoundTripLatency'], 2)
        answer = self.provider.wait_ev('generic', domain=1)
        self.assertGreater(answer['payload']['Ticks'], 0)

    def test_a_refusal_that_is_not_expected_fails_and_the_other_way_round(self):
        words = ('--items', 'N1', '--post', '1', '--expect-nack', 'NOT_OPEN')
        result = self.fails('post 1 was accepted', *words)
        self.assertEqual(result['posts']['acks'], 1)


class Commands(WithInteractiveProvider):
    OPTIONS = ('--rate', '0', '--items', 'A,B,C,D,E,F,G')

    def watch(self, item, *options):
        consumer = self.consumer('--items', item, *options)
        consumer.wait_ev('refresh')
        return consumer

    def good(self, consumer):
        status, result, finals = consumer.result()
        self.assertEqual((status, result['reasons']), (0, []))
        return result, finals

    def test_updates_by_number(self):
        consumer = self.watch('A', '--updates', '7', '--check-seq')
        self.provider.command('update 6 A 7')
        result, finals = self.good(consumer)
        self.assertEqual(finals['A', 6]['fields'], made_up.fields('A', 7))

    def test_an_unsolicited_refresh(self):
        consumer = self.watch('B', '--expect-status', 'Ok', '--run-for', '2')
        self.provider.command('refresh 6 B')
        self.assertEqual(consumer.wait_ev('refresh', solicited=False)['clear_cache'], True)
        self.good(consumer)

    def test_a_status_and_a_close(self):
        consumer = self.watch('C', '--expect-status', 'Suspect', '--expect-closed', 'NoResources')
        self.provider.command('status 6 C Open Suspect 0 wait')
        self.provider.command('status 6 C Closed Suspect 12 gone')
        self.good(consumer)

    def test_a_generic_message_of_the_provider(self):
        consumer = self.watch('D', '--run-for', '2')
        self.provider.command('generic 6 D')
        self.assertEqual(consumer.wait_ev('generic')['payload'], {'From': 'provider'})
        self.good(consumer)

    def test_the_service_goes_down_and_comes_up(self):
        consumer = self.watch('E', '--expect-status', 'Ok,Suspect,Ok')
        self.provider.command('service down Open Suspect 0 out for lunch')
        down = consumer.wait_ev('directory', message='update')['services']['10']['state']
        self.assertEqual((down['ServiceState'], down['AcceptingRequests']), (0, 0))
        consumer.wait_ev('status', item='E')
        self.provider.command('service up Open Ok 0 back')
        self.good(consumer)

    def test_the_state_of_a_group_reaches_its_items(self):
        consumer = self.watch('F', '--expect-status', 'Ok,Suspect,Ok')
        self.provider.command('group Open Suspect 0 group is stale')
        consumer.wait_ev('status')
        self.provider.command('group Open Ok 0 group is good')
        self.good(consumer)

    def test_the_load_of_the_service(self):
        consumer = self.watch('G', '--run-for', '2')
        self.provider.command('load 1000 50 7')
        load = consumer.wait_ev('directory', message='update')['services']['10']['load']
        self.assertEqual(load, {'OpenLimit': 1000, 'OpenWindow': 50, 'LoadFactor': 7})
        self.good(consumer)

    def test_an_item_that_is_not_known(self):
        result, _ = self.ok('--items', 'NOPE', '--expect-closed', 'NotFound')
        self.assertEqual(self.told('request', 'NOPE')[0]['known'], False)


class Behaviour(unittest.TestCase):
    """Providers with options of their own."""

    def pair(self, provider, consumer, **more):
        port = free_ports()
        provider = InteractiveProvider(port, *provider)
        self.addCleanup(provider.kill)
        consumer = Consumer(port, *consumer, **more)
        self.addCleanup(consumer.kill)
        return (provider, consumer, *consumer.result())

    def test_images_in_parts(self):
        _, _, status, result, finals = self.pair(
            ['--parts', '4', '--still-entries', '40', '--seed', '9', '--rate', '0'],
            ['--item', '7:A', '--item', '6:A'],
        )
        self.assertEqual((status, result['reasons'], result['refreshes'], result['images']), (0, [], 8, 2))
        self.assertEqual(finals['A', 7]['entries'], made_up.entries(7, 'A', 0, seed=9, still=40))
        self.assertEqual(finals['A', 6]['fields'], made_up.fields('A', 0, seed=9))

    def test_refused_posts(self):
        _, consumer, status, result, _ = self.pair(
            ['--posts', 'NOT_OPEN'], ['--items', 'A', '--post', '2', '--expect-nack', 'NOT_OPEN']
        )
        self.assertEqual((status, result['reasons'], result['posts']['nacks']), (0, [], 2))
        self.assertEqual(consumer.wait_ev('ack')['text'], 'refused by the provider')

    def test_silence_to_posts_fails_the_consumer(self):
        _, _, status, result, _ = self.pair(
            ['--posts', 'silent'], ['--items', 'A', '--post', '1', '--timeout', '3']
        )
        self.assertEqual((status, result['posts']['unanswered']), (1, 1))

    def test_a_login_that_is_refused(self):
        _, _, status, result, _ = self.pair(
            ['--login-reject', 'not you'], ['--items', 'A', '--expect-login-reject', '--timeout', '5']
        )
        self.assertEqual((status, result['status']), (0, 'OK'))
        self.assertIn('not you', result['text'])

    def test_an_accepted_login_fails_who_expects_a_refusal(self):
        _, _, status, result, _ = self.pair([], ['--items', 'A', '--expect-login-reject'])
        self.assertEqual((status, result['reasons']), (1, ['the login was accepted']))

    def test_pauses_that_are_not_announced_are_not_made(self):
        _, _, status, result, _ = self.pair(
            ['--without', 'pause', '--rate', '20'], ['--items', 'A', '--pause', '400', '--timeout', '3']
        )
        self.assertEqual(status, 1)
        self.assertIn('silence of 400 ms after the pause', result['reasons'])

    def test_streams_end_after_so_many_updates_with_permission_data_and_conflation(self):
        options = ['--close-after', '5', '--close-state', 'Closed Suspect 3 enough']
        options += ['--permission-data', '0a0b', '--conflated', '3']
        _, consumer, status, result, _ = self.pair(
            options, ['--items', 'A', '--expect-closed', 'NotAuthorized', '--show-updates', '--updates', '5']
        )
        self.assertEqual((status, result['reasons'], result['updates']), (0, [], 5))
        self.assertEqual(consumer.wait_ev('refresh')['permission_data'], '0a0b')
        update = consumer.wait_ev('update')
        self.assertEqual((update['permission_data'], update['conflated']), ('0a0b', 3))


class Transports(unittest.TestCase):
    SERVER = (
        *('--tls-certificate', os.path.join(TLS, 'server.pem')),
        *('--tls-key', os.path.join(TLS, 'server.key')),
    )
    CLIENT = ('--tls', '--tls-ca', os.path.join(TLS, 'ca.pem'))

    def check(self, server, *clients):
        port = free_ports()
        provider = InteractiveProvider(port, *server)
        self.addCleanup(provider.kill)
        for client in clients:
            with self.subTest(client):
                words = ['--item', '6:A', '--item', '7:A', '--updates', '3', '--check-seq', '--check-map']
                consumer = Consumer(port, *words, *client)
                self.addCleanup(consumer.kill)
                status, result, finals = consumer.result()
                self.assertEqual((status, result['reasons']), (0, []))
                for item in result['items']:
                    expected = made_up.image(item['domain'], 'A', item['sequence']['last'])
                    final = finals['A', item['domain']]
                    seen = {part: final[part] for part in expected}
                    self.assertEqual(made_up.by_value(seen), made_up.by_value(expected))

    def test_compression(self):
        for kind in ('zlib', 'lz4'):
            self.check(('--compression', kind), ('--compression', kind), ())

    def test_encryption(self):
        self.check(self.SERVER, self.CLIENT, (*self.CLIENT, '--tls-version', '1.2'))

    def test_websocket(self):
        self.check(
            ('--websocket', 'tr_json2,rssl.rwf'), ('--websocket', 'tr_json2'), ('--websocket', 'rssl.rwf'), ()
        )

    def test_websocket_with_encryption(self):
        self.check((*self.SERVER, '--websocket', 'tr_json2'), (*self.CLIENT, '--websocket', 'tr_json2'))

    def test_a_server_that_is_not_trusted_gets_no_login(self):
        port = free_ports()
        provider = InteractiveProvider(port, *self.SERVER)
        self.addCleanup(provider.kill)
        consumer = Consumer(
            port, '--items', 'A', '--timeout', '3', '--tls', '--tls-ca', os.path.join(TLS, 'other-ca.pem')
        )
        self.addCleanup(consumer.kill)
        self.assertEqual(consumer.result()[0], 1)
        self.assertEqual([e['ev'] for e in provider.events], ['ready'])


class NonInteractive(unittest.TestCase):
    ITEMS = ('--item', '6:A', '--item', '7:B')

    def check(self, server, client):
        """The events of a sink to which a provider of two items has published ten updates of each."""
        port = free_ports()
        wanted = ('--expect-refreshes', '2', '--expect-updates', '20', '--check-seq')
        sink = Sink(port, '--end-after-clients', '1', *wanted, *server)
        self.addCleanup(sink.kill)
        provider = NonInteractiveProvider(
            port, *self.ITEMS, '--updates', '10', '--rate', '100', '--end-after-updates', *client
        )
        self.addCleanup(provider.kill)
        status, events = provider.finish()
        self.assertEqual((status, events[-1]['updates']), (0, 20))
        status, events = sink.finish()
        self.assertEqual((status, events[-1]['reasons']), (0, []))
        return sink

    def test_what_is_published_arrives(self):
        sink = self.check((), ())
        self.assertEqual(sink.wait_ev('login')['role'], 1)
        directory = sink.wait_ev('directory')
        self.assertEqual(directory['services'], [{'id': 10, 'name': 'TEST', 'up': 1}])
        refresh = sink.wait_ev('refresh', item='6:A')
        price = made_up.base('A')
        self.assertEqual((refresh['seq'], refresh['entries']['22']), (0, '0c%04x' % price))
        self.assertEqual(sink.wait_ev('refresh', item='7:B')['entries'], 4)

    def test_compression_and_encryption(self):
        for kind, number in (('zlib', 1), ('lz4', 2)):
            sink = self.check(('--compression', kind), ('--compression', kind))
            self.assertEqual(sink.wait_ev('connected')['compression'], number)
        self.check(Transports.SERVER, Transports.CLIENT)

    def test_a_provider_comes_back_and_publishes_again(self):
        port = free_ports()
        sink = Sink(port)
        self.addCleanup(sink.kill)
        provider = NonInteractiveProvider(port, *self.ITEMS)
        self.addCleanup(provider.kill)
        sink.wait_ev('update')
        sink.kill()
        sink = Sink(port)
        self.addCleanup(sink.kill)
        self.assertGreater(sink.wait_ev('refresh', item='6:A')['seq'], 0)
        sink.wait_ev('update', item='7:B')

    def test_commands(self):
        port = free_ports()
        sink = Sink(port)
        self.addCleanup(sink.kill)
        provider = NonInteractiveProvider(port, *self.ITEMS, '--rate', '0')
        self.addCleanup(provider.kill)
        provider.wait_ev('published')
        provider.command('update 6 A 3')
        self.assertEqual(sink.wait_ev('update', item='6:A', seq=3)['entries']['32'], '0e03')
        provider.command('status 7 B Closed Suspect 0 over')
        sink.wait_ev('status', item='7:B')
        provider.command('service down')
        sink.wait_ev('directory', message='update')

    def test_a_refused_login(self):
        port = free_ports()
        sink = Sink(port, '--login-reject', 'go away')
        self.addCleanup(sink.kill)
        provider = NonInteractiveProvider(port, *self.ITEMS, '--timeout', '5')
        self.addCleanup(provider.kill)
        status, events = provider.finish()
        self.assertEqual(status, 1)
        self.assertIn('go away', events[-1]['reason'])

    def test_what_is_missing_fails_the_sink(self):
        port = free_ports()
        sink = Sink(port, '--end-after-clients', '1', '--expect-updates', '1000')
        self.addCleanup(sink.kill)
        provider = NonInteractiveProvider(port, *self.ITEMS, '--updates', '2', '--end-after-updates')
        self.addCleanup(provider.kill)
        provider.finish()
        status, events = sink.finish()
        self.assertEqual((status, events[-1]['reasons']), (1, ['4 of 1000 messages of kind update']))


if __name__ == '__main__':
    unittest.main()
