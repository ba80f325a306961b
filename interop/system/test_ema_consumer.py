"""EMA consumers with every option they have, through P2PS and source distributor to an EMA interactive provider.

What items hold follows from their names and the number of their updates (../reckon/made_up.py), so that every
final image is judged.
"""

import os
import sys
import unittest

import java_tools
from ports import free_ports
from process import ROOT, wait_until
from system_test import SystemTest

sys.path.insert(0, os.path.join(ROOT, 'interop', 'reckon'))
import made_up

SERVICE, SERVICE_ID = 'MADEUP', 77
FIELD_LISTS, MAPS = (6, 134), (7, 8, 9, 10)


class Chain(SystemTest):
    """An interactive provider, a source distributor that dials it, a P2PS; all tests of a class share them."""

    PROVIDER = ()
    P2PS = {}
    DISTRIBUTOR = {}

    @classmethod
    def scenario(cls):
        system = cls.system()
        port = free_ports()
        cls.provider = java_tools.interactive(cls.directory, port, '--service', SERVICE, *cls.PROVIDER)
        cls.keep(cls.provider)
        sets = java_tools.dialled('ema', port) | java_tools.numbered(SERVICE, SERVICE_ID) | cls.DISTRIBUTOR
        cls.distributor = system.source_distributor(sets=sets)
        cls.p2ps = system.p2ps(sets=cls.P2PS)
        cls.port = cls.p2ps.port
        cls.provider.wait_told('login')
        cls.p2ps.wait_count('p2ps_services', 1)

    def consumer(self, *options, name='consumer', service=('--service', SERVICE), port=None):
        consumer = java_tools.consumer(self.directory, port or self.port, *service, *options, name=name)
        self.keep(consumer)
        return consumer

    def good(self, consumer):
        """(result, finals) of a consumer that is content."""
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
            self.assertEqual(seen, expected, key)

    def last(self, result):
        return result['items'][0]['sequence']['last']


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


class Statuses(Chain):
    PROVIDER = ('--rate', '0', '--items', 'A,B,C,D,E,F,G', '--permission-data', '0a0b', '--conflated', '3')

    def watch(self, item, *options):
        consumer = self.consumer('--items', item, *options, name='watch-' + item)
        consumer.wait_told('refresh')
        return consumer

    def test_an_item_that_is_not_there_is_closed(self):
        self.ok('--items', 'NOPE', '--expect-closed', 'NotFound')

    def test_an_unsolicited_refresh(self):
        consumer = self.watch('A', '--run-for', '3')
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
        consumer = self.watch('D', '--run-for', '4')
        self.provider.command('service down')
        is_down = lambda: any(
            s['state']['ServiceState'] == 0 for e in consumer.told('directory') for s in e['services'].values()
        )
        wait_until(is_down, 'the service is down', [consumer])
        self.provider.command('service up')
        self.good(consumer)

    def test_permission_data_and_conflation_are_passed_on(self):
        consumer = self.watch('E', '--updates', '1', '--show-updates')
        self.provider.command('update 6 E 1')
        self.good(consumer)
        self.assertEqual(consumer.told('refresh')[0]['permission_data'], '0a0b')
        self.assertEqual(consumer.told('update')[0]['permission_data'], '0a0b')


class LargeImages(Chain):
    PROVIDER = ('--rate', '0', '--still-entries', '3000', '--parts', '7')

    def test_images_in_parts_and_fragments(self):
        result, finals = self.ok('--item', '7:LARGE', '--check-map')
        self.assertEqual(finals['LARGE', 7]['entries'], made_up.entries(7, 'LARGE', 0, still=3000))


if __name__ == '__main__':
    unittest.main()
