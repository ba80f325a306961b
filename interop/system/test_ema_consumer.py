"""EMA consumers with every option, through P2PS and source distributor to EMA's interactive provider.

What items hold follows from their names and the number of their updates (../reckon/made_up.py), so that every
final image is judged.
"""

import json
import os
import sys
import unittest

import java_tools
from java_tools import TLS
from ports import free_ports
from process import ROOT, wait_until
from system_test import SystemTest

sys.path.insert(0, os.path.join(ROOT, 'interop', 'reckon'))
import made_up

SERVICE, SERVICE_ID = 'MADEUP', 77
TRUST = ('--tls', '--tls-ca', os.path.join(TLS, 'ca.pem'))
FIELD_LISTS, MAPS = (6, 134), (7, 8, 9, 10)


def encrypted(section, port):
    """Settings of an encrypted port."""
    files = {'certificate_file': 'server.pem', 'key_file': 'server.key'}
    paths = {'%s.%s' % (section, key): os.path.join(TLS, name) for key, name in files.items()}
    return {section + '.port': port, **paths}


def wait_compressed(daemon, kind):
    """Waits until the daemon shows a connection with this compression."""
    is_shown = lambda: '"compression": "%s"' % kind in json.dumps(daemon.status())
    wait_until(is_shown, '%s shows a connection with %s' % (daemon.name, kind), [daemon])


class Judged(SystemTest):
    """EMA consumers of made-up items at `port`, and what they must have seen."""

    def consumer(self, *options, name='consumer', service=('--service', SERVICE), port=None):
        consumer = java_tools.consumer(self.directory, port or self.port, *service, *options, name=name)
        self.keep(consumer)
        return consumer

    def lasting(self, *options, **more):
        """A consumer that stays until `good` is asked for."""
        self.lasting_count += 1
        until = os.path.join(self.directory, 'lasting-%s-%d' % (self.id(), self.lasting_count))
        consumer = self.consumer(*options, '--until', until, **more)
        consumer.until = until
        return consumer

    lasting_count = 0

    def good(self, consumer):
        """(result, finals) of a consumer that is content."""
        until = getattr(consumer, 'until', None)
        if until:
            open(until, 'w').close()
        status, result, finals = consumer.result()
        self.assertEqual((status, result['reasons']), (0, []))
        return result, finals

    def ok(self, *options, **more):
        return self.good(self.consumer(*options, **more))

    def assert_images(self, result, finals):
        for item in result['items']:
            key = item['item'], item['domain']
            expected = made_up.image(key[1], key[0], item['sequence']['last'])
            seen = {part: finals[key][part] for part in expected}
            self.assertEqual(self.comparable(seen), self.comparable(expected), key)

    @staticmethod
    def comparable(image):
        return image

    def last(self, result):
        return result['items'][0]['sequence']['last']


class Chain(Judged):
    """An interactive provider, a source distributor that dials it, a P2PS, shared by all tests of a class."""

    PROVIDER = ()
    P2PS = {}
    DISTRIBUTOR = {}

    @classmethod
    def scenario(cls):
        system = cls.system()
        port = free_ports()
        cls.provider = java_tools.interactive(cls.directory, port, '--service', SERVICE, *cls.PROVIDER)
        cls.keep(cls.provider)
        cls.distributor, cls.p2ps = cls.serve(system, port)
        cls.port = cls.p2ps.port
        cls.provider.wait_told('login')
        system.wait_serving(cls.p2ps, SERVICE)

    @classmethod
    def serve(cls, system, port):
        """(who asks the provider at a port, whom consumers ask)"""
        sets = java_tools.dialled('ema', port) | java_tools.numbered(SERVICE, SERVICE_ID) | cls.DISTRIBUTOR
        return system.source_distributor(sets=sets), system.p2ps(sets=cls.P2PS)


class Requests(Chain):
    PROVIDER = ('--rate', '20')

    def test_every_domain(self):
        words = [w for domain in FIELD_LISTS + MAPS for w in ('--item', '%d:EVERY' % domain)]
        result, finals = self.ok(*words, '--updates', '20', '--check-seq', '--check-map')
        self.assert_images(result, finals)

    def test_snapshots(self):
        result, finals = self.ok('--item', '6:SNAP', '--item', '7:SNAP', '--snapshot')
        self.assert_images(result, finals)
        self.assertEqual({f['state']['stream'] for f in finals.values()}, {'NonStreaming'})

    def test_the_service_by_its_number(self):
        result, finals = self.ok(
            '--items', 'NUMBER', '--updates', '2', service=('--service-id', str(SERVICE_ID))
        )
        self.assert_images(result, finals)
        self.assertEqual(result['service']['info']['Name'], SERVICE)

    def test_batches(self):
        words = ('--items', 'B1,B2,B3', '--item', '7:B1', '--batch', '--updates', '2', '--check-seq')
        self.assert_images(*self.ok(*words))

    def test_priorities(self):
        self.ok('--items', 'PRIO', '--priority', '3:7', '--reissue-priority', '5:9', '--updates-after', '2')

    def test_keys_in_updates_or_not(self):
        for wish in '01':
            with self.subTest(wish):
                consumer = self.consumer(
                    '--items', 'KEYS', '--msg-key-in-updates', wish, '--updates', '2', '--show-updates'
                )
                self.good(consumer)

    def test_the_same_stream_upstream_for_all(self):
        one = self.consumer('--items', 'SHARED', '--updates', '40', '--check-seq', name='one')
        one.wait_told('refresh')
        result, finals = self.ok('--items', 'SHARED', '--updates', '5', '--check-seq', name='two')
        self.assert_images(result, finals)
        self.assert_images(*self.good(one))
        self.assertEqual(len(self.provider.told('request', item='SHARED')), 1)


class Views(Chain):
    PROVIDER = ('--rate', '20')

    def test_views_by_number_and_by_name_share_a_stream_upstream(self):
        numbers = self.consumer('--items', 'V', '--view', '22,30', '--updates', '20', name='numbers')
        names = self.consumer('--items', 'V', '--view', 'ASK,ACVOL_1', '--updates', '20', name='names')
        for consumer, view in ((numbers, (22, 30)), (names, (25, 32))):
            result, finals = self.good(consumer)
            self.assertEqual(set(finals['V', 6]['fields']), {str(field) for field in view})
        self.assertEqual(len(self.provider.told('request', item='V')), 1)

    def test_the_values_of_a_view_are_right(self):
        # Every update has field 32, so that none is left out.
        result, finals = self.ok('--items', 'W', '--view', '32,25', '--updates', '9', '--check-seq')
        self.assertEqual(finals['W', 6]['fields'], made_up.fields('W', self.last(result), view=(25, 32)))

    def test_a_view_of_a_book(self):
        result, finals = self.ok('--item', '7:BOOK', '--view', '3429', '--updates', '9', '--check-seq')
        expected = made_up.entries(7, 'BOOK', self.last(result), view=(3429,))
        self.assertEqual(finals['BOOK', 7]['entries'], expected)

    def test_a_reissue_with_another_view(self):
        result, finals = self.ok(
            '--items', 'R', '--view', '22,32', '--reissue-view', '25,32', '--updates-after', '4'
        )
        self.assertEqual(finals['R', 6]['fields'], made_up.fields('R', self.last(result), view=(25, 32)))
        self.assertEqual(result['refreshes'], 2)


class Reissues(Chain):
    PROVIDER = ('--rate', '20')

    def test_a_reissue_brings_the_image_again(self):
        result, finals = self.ok('--items', 'AGAIN', '--reissue', '--updates-after', '3', '--check-seq')
        self.assert_images(result, finals)
        self.assertEqual(result['refreshes'], 2)

    def test_a_pause_of_items(self):
        result, finals = self.ok('--items', 'P1,P2', '--pause', '500', '--updates-after', '3')
        self.assert_images(result, finals)

    def test_a_pause_of_all(self):
        result, finals = self.ok('--items', 'A1,A2', '--pause-all', '500', '--updates-after', '3')
        self.assert_images(result, finals)

    def test_others_are_not_paused(self):
        other = self.consumer('--items', 'BOTH', '--updates', '60', '--check-seq', name='other')
        other.wait_told('refresh')
        self.ok('--items', 'BOTH', '--pause', '500', '--updates-after', '2', name='paused')
        self.assert_images(*self.good(other))


class Upstream(Chain):
    """Posts, generic messages and private streams, all the way to the provider and back."""

    PROVIDER = ('--rate', '0', '--publish-posts')
    DISTRIBUTOR = {}

    def test_posts_on_and_off_stream_are_acknowledged_by_the_provider(self):
        result, _ = self.ok('--items', 'P1,P2', '--post', '3', '--post-off-stream', '2')
        self.assertEqual(result['posts'], {'sent': 10, 'acks': 10, 'nacks': 0, 'unanswered': 0})
        posts = self.provider.told('post', item='P1')
        self.assertEqual([e['on_stream'] for e in posts], [True] * 3 + [False] * 2)

    def test_the_provider_is_told_who_posts(self):
        self.ok('--items', 'WHO', '--post', '1')
        (post,) = self.provider.told('post', item='WHO')
        self.assertEqual(post['user_address'], 0x7F000001)

    def test_a_refusal_comes_back(self):
        self.provider.command('posts NOT_OPEN')
        result, _ = self.ok('--items', 'NACK', '--post', '2', '--expect-nack', 'NOT_OPEN')
        self.provider.command('posts ack')
        self.assertEqual(result['posts']['nacks'], 2)

    def test_what_is_posted_reaches_all_who_watch(self):
        watcher = self.consumer('--items', 'PUB', '--updates', '1', '--check-seq', name='watcher')
        watcher.wait_told('refresh')
        self.ok('--items', 'PUB', '--post', '1', '--post-fields', '22=REAL:123:12')
        _, finals = self.good(watcher)
        self.assertEqual(finals['PUB', 6]['fields']['22']['text'], '1.23')

    def test_generic_messages_both_ways(self):
        result, _ = self.ok('--items', 'GEN', '--generic', '5')
        self.assertEqual(result['items'][0]['generics'], 5)
        questions = self.provider.told('generic', item='GEN')
        self.assertEqual([question['payload']['N'] for question in questions], [1, 2, 3, 4, 5])

    def test_a_generic_message_of_the_provider_reaches_all_who_watch(self):
        consumers = [self.lasting('--items', 'TOALL', name=name) for name in ('one', 'two')]
        for consumer in consumers:
            consumer.wait_told('refresh')
        self.provider.command('generic 6 TOALL')
        for consumer in consumers:
            consumer.wait_told('generic', payload={'From': 'provider'})
            self.good(consumer)

    def test_private_streams_are_each_their_own(self):
        words = ('--items', 'PRIV', '--private', '--post', '1', '--generic', '2')
        for name in ('one', 'two'):
            result, _ = self.ok(*words, name=name)
            self.assertEqual((result['posts']['acks'], result['items'][0]['generics']), (1, 2))
        self.assertEqual([e['private'] for e in self.provider.told('request', item='PRIV')], [True, True])


class Statuses(Chain):
    PROVIDER = ('--rate', '0', '--items', 'A,B,C,D,E,F,G', '--permission-data', '0a0b', '--conflated', '3')

    def watch(self, item, *options, until_good=False):
        start = self.lasting if until_good else self.consumer
        consumer = start('--items', item, *options, name='watch-' + item)
        consumer.wait_told('refresh')
        return consumer

    def test_an_item_that_is_not_there_is_closed(self):
        self.ok('--items', 'NOPE', '--expect-closed', 'NotFound')

    def test_an_unsolicited_refresh(self):
        consumer = self.watch('A', until_good=True)
        self.provider.command('refresh 6 A')
        consumer.wait_told('refresh', solicited=False)
        self.good(consumer)

    def test_a_status_and_a_close(self):
        consumer = self.watch('B', '--expect-status', 'Ok,Suspect', '--expect-closed', 'NotAuthorized')
        self.provider.command('status 6 B Open Suspect 0 wait')
        consumer.wait_told('status')
        self.provider.command('status 6 B Closed Suspect 3 not for you')
        self.good(consumer)

    def test_the_state_of_a_group(self):
        consumer = self.watch('C', '--expect-status', 'Ok,Suspect,Ok')
        self.provider.command('group Open Suspect 0 stale')
        consumer.wait_told('status')
        self.provider.command('group Open Ok 0 good')
        self.good(consumer)

    def test_the_service_goes_down_and_comes_up(self):
        consumer = self.watch('D', until_good=True)
        self.provider.command('service down')
        states = lambda: [e['services'][str(SERVICE_ID)]['state'] for e in consumer.told('directory')]
        is_down = lambda: any(state['ServiceState'] == 0 for state in states())
        wait_until(is_down, 'the service is down', [consumer])
        self.provider.command('service up')
        self.good(consumer)

    def test_permission_data_and_conflation_are_passed_on(self):
        consumer = self.watch('E', '--updates', '1', '--show-updates')
        self.provider.command('update 6 E 1')
        self.good(consumer)
        self.assertEqual(consumer.told('refresh')[0]['permission_data'], '0a0b')
        self.assertEqual(consumer.told('update')[0]['permission_data'], '0a0b')


class Transports(Chain):
    """Compressed and encrypted connections, and both at once."""

    PROVIDER = ('--rate', '20')
    @classmethod
    def scenario(cls):
        cls.tls_port = free_ports()
        cls.P2PS = encrypted('p2ps.rssl.tls', cls.tls_port)
        super().scenario()

    def check(self, *options, port=None):
        words = ('--item', '6:T', '--item', '7:T', '--updates', '5', '--check-seq', '--check-map', *options)
        self.assert_images(*self.ok(*words, port=port))

    def test_compression(self):
        for kind in ('zlib', 'lz4'):
            with self.subTest(kind):
                idle = self.lasting('--items', 'IDLE', '--compression', kind, name=kind)
                idle.wait_told('refresh')
                wait_compressed(self.p2ps, kind)
                self.check('--compression', kind)
                self.good(idle)

    def test_encryption(self):
        for version in ('1.2', '1.3'):
            with self.subTest(version):
                self.check(*TRUST, '--tls-version', version, port=self.tls_port)

    def test_encryption_of_what_is_compressed(self):
        self.check(*TRUST, '--compression', 'lz4', port=self.tls_port)

    def test_a_client_that_does_not_trust_the_server_stays_away(self):
        other = ('--tls', '--tls-ca', os.path.join(TLS, 'other-ca.pem'))
        consumer = self.consumer('--items', 'T', '--timeout', '3', *other, port=self.tls_port)
        self.assertEqual(consumer.result()[0], 1)


class WebSocket(Chain):
    """The same library over WebSocket: it speaks JSON there."""

    PROVIDER = ('--rate', '20')
    CLIENT = ('--websocket', 'tr_json2')

    @classmethod
    def scenario(cls):
        cls.tls_port = free_ports()
        cls.P2PS = encrypted('p2ps.websocket.tls', cls.tls_port)
        super().scenario()

    comparable = staticmethod(made_up.by_value)

    def speaking_json(self, *options, port=None):
        return self.ok(*options, *self.CLIENT, port=port or self.p2ps.websocket_port)

    def test_every_domain_of_maps_and_field_lists(self):
        words = [w for domain in (6, 7, 8, 9) for w in ('--item', '%d:EVERY' % domain)]
        result, finals = self.speaking_json(*words, '--updates', '20', '--check-seq', '--check-map')
        self.assert_images(result, finals)

    def test_snapshots_batches_and_views(self):
        self.assert_images(*self.speaking_json('--items', 'S', '--snapshot'))
        batch = ('--items', 'B1,B2', '--batch', '--updates', '2', '--check-seq')
        self.assert_images(*self.speaking_json(*batch))
        result, finals = self.speaking_json('--items', 'V', '--view', '25,32', '--updates', '4')
        expected = made_up.fields('V', self.last(result), view=(25, 32))
        self.assertEqual(self.comparable(finals['V', 6]['fields']), self.comparable(expected))

    def test_reissues(self):
        self.assert_images(*self.speaking_json('--items', 'R', '--reissue', '--updates-after', '3'))

    def test_compression(self):
        port = self.p2ps.websocket_port
        words = ('--item', '7:LONG', '--user', 'deflating', '--compression', 'zlib', *self.CLIENT)
        idle = self.consumer(*words, '--run-for', '4', name='idle', port=port)
        idle.wait_told('refresh')
        listed = lambda: [c['connection'] for c in self.p2ps.status()['clients'] if c['user'] == 'deflating']
        is_shown = lambda: [flow for flow in listed() if flow['sent']['compression_ratio'] > 1]
        (flow,) = wait_until(is_shown, 'the status shows what is saved', [self.p2ps, idle])
        self.assertEqual(flow['compression'], 'permessage-deflate')
        for way in ('sent', 'received'):
            self.assertLess(flow[way]['bytes'], flow[way]['clear_bytes'])
        self.speaking_json('--items', 'C', '--updates', '5', '--check-seq', '--compression', 'zlib')
        self.good(idle)

    def test_encryption(self):
        words = ('--items', 'T', '--updates', '5', '--check-seq', *TRUST)
        self.assert_images(*self.speaking_json(*words, port=self.tls_port))


class LargeImages(Chain):
    PROVIDER = ('--rate', '0', '--still-entries', '3000', '--parts', '7')

    def test_images_in_parts_and_fragments(self):
        result, finals = self.ok('--item', '7:LARGE', '--check-map')
        self.assertEqual(finals['LARGE', 7]['entries'], made_up.entries(7, 'LARGE', 0, still=3000))


if __name__ == '__main__':
    unittest.main()
