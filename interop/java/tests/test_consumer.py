"""python3 -m unittest discover -s interop/java/tests        (after `mvn package` in interop/java)

The consumer against a provider that does exactly what each test says.
"""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from tools import HERE, JAR, Consumer, Provider, Tool, free_ports


def real(mantissa, hint, text):
    return {'type': 'REAL', 'mantissa': mantissa, 'hint': hint, 'text': text}


class WithProvider(unittest.TestCase):
    def setUp(self):
        self.port = free_ports()
        self.provider = self.start_provider()

    def start_provider(self, options=(), images=(), **more):
        provider = Provider(self.port, options=options, images=images, **more)
        self.addCleanup(provider.kill)
        return provider

    def consumer(self, *options, **more):
        consumer = Consumer(self.port, *options, **more)
        self.addCleanup(consumer.kill)
        return consumer

    def image(self, text, item='6 A'):
        self.provider.command('image %s %s' % (item, text))

    def ok(self, consumer):
        status, result, finals = consumer.result()
        self.assertEqual((status, result['status'], result['reasons']), (0, 'OK', []))
        return result, finals

    def fails(self, consumer, text):
        status, result, finals = consumer.result()
        self.assertEqual((status, result['status']), (1, 'FAIL'))
        self.assertTrue(any(text in reason for reason in result['reasons']), result['reasons'])
        self.assertEqual(result['reason_count'], len(result['reasons']))
        return result, finals

    def until_file(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        return os.path.join(directory.name, 'end')


class Values(WithProvider):
    def final_fields(self, payload):
        self.image(payload)
        _, finals = self.ok(self.consumer('--items', 'A'))
        return finals['A', 6]['fields']

    def test_every_type_is_shown_exactly(self):
        fields = self.final_fields(
            '22=REAL:6183763000000:6 25=REAL:-5:14 6=REAL:17:27 14=ENUM:1 3=RMTES:abc '
            '-1=INT:-9223372036854775808 '
            '-2=UINT:18446744073709551615 -3=FLOAT:1.5 -4=DOUBLE:-2.25 '
            '-6=DATE:2024:2:29 -7=TIME:23:59:59:1:2:3 '
            '-8=DATETIME:2024:12:31:1:2:3:4:5:6 -10=BUFFER:%00%ff '
            '-11=ASCII:plain -12=UTF8:h%c3%a9 -14=ARRAY:1:20:300'
        )
        self.assertEqual(
            fields,
            {
                '22': real(6183763000000, 6, '61837.63000000'),
                '25': real(-5, 14, '-5'),
                '6': real(17, 27, '0.53125'),
                '14': {'type': 'ENUM', 'value': 1, 'display': 'U'},
                '3': {'type': 'RMTES', 'text': 'abc'},
                '-1': {'type': 'INT', 'value': -(2**63)},
                '-2': {'type': 'UINT', 'value': 2**64 - 1},
                '-3': {'type': 'FLOAT', 'text': '1.5'},
                '-4': {'type': 'DOUBLE', 'text': '-2.25'},
                '-6': {'type': 'DATE', 'year': 2024, 'month': 2, 'day': 29, 'text': '2024-02-29'},
                '-7': {
                    'type': 'TIME',
                    'hour': 23,
                    'minute': 59,
                    'second': 59,
                    'nanosecond': 1002003,
                    'text': '23:59:59.001002003',
                },
                '-8': {
                    'type': 'DATETIME',
                    'year': 2024,
                    'month': 12,
                    'day': 31,
                    'hour': 1,
                    'minute': 2,
                    'second': 3,
                    'nanosecond': 4005006,
                    'text': '2024-12-31 01:02:03.004005006',
                },
                '-10': {'type': 'BUFFER', 'hex': '00ff'},
                '-11': {'type': 'ASCII', 'text': 'plain'},
                '-12': {'type': 'UTF8', 'text': 'h\u00e9'},
                '-14': {'type': 'ARRAY', 'items': [{'type': 'UINT', 'value': n} for n in (1, 20, 300)]},
            },
        )

    def test_reals_of_every_hint(self):
        for first, (mantissa, hints) in enumerate(
            ((123456789, range(0, 15)), (-7, range(14, 22)), (5, range(22, 31)))
        ):
            payloads = ['22=REAL:%d:%d' % (mantissa, hint) for hint in hints]
            self.image(payloads[0], '6 R%d' % first)
            consumer = self.consumer(
                '--items', 'R%d' % first, '--updates', str(len(payloads) - 1), '--no-final'
            )
            consumer.wait_ev('refresh')
            for payload in payloads[1:]:
                self.provider.command('update 6 R%d %s' % (first, payload))
            self.ok(consumer)
        for hint, text in (
            (0, '0.00000123456789'),
            (14, '123456789'),
            (21, '1234567890000000'),
            (24, '30864197.25'),
            (30, '482253.08203125'),
        ):
            fields = self.final_fields('22=REAL:123456789:%d' % hint)
            self.assertEqual(fields['22'], real(123456789, hint, text))
        for hint, text in ((33, 'Infinity'), (34, '-Infinity'), (35, 'NaN')):
            self.assertEqual(
                self.final_fields('22=REAL:0:%d' % hint)['22'], {'type': 'REAL', 'hint': hint, 'text': text}
            )

    def test_blanks_are_no_zeros(self):
        fields = self.final_fields('22=REAL: 25=REAL:0:14 14=ENUM: 3=RMTES: -2=UINT: -6=DATE: -7=TIME:')
        blank = {
            fid: {'type': kind, 'blank': True}
            for fid, kind in (
                ('22', 'REAL'),
                ('14', 'ENUM'),
                ('3', 'RMTES'),
                ('-2', 'UINT'),
                ('-6', 'DATE'),
                ('-7', 'TIME'),
            )
        }
        self.assertEqual(fields, dict(blank, **{'25': real(0, 14, '0')}))

    def test_an_enumerated_value_outside_the_dictionary_has_no_display(self):
        self.assertEqual(self.final_fields('14=ENUM:77')['14'], {'type': 'ENUM', 'value': 77})

    def test_a_time_without_fraction(self):
        self.assertEqual(
            self.final_fields('-7=TIME:9:5:0')['-7'],
            {
                'type': 'TIME',
                'hour': 9,
                'minute': 5,
                'second': 0,
                'nanosecond': 0,
                'text': '09:05:00.000000000',
            },
        )

    def test_a_partial_rmtes_update_is_marked(self):
        self.assertEqual(self.final_fields('3=RMTES:ab%1b[2%60cd')['3'].get('partial'), True)

    def test_a_field_outside_the_dictionary_fails_the_run(self):
        self.image('22=REAL:1:14 9999=UINT:5')
        result, finals = self.fails(self.consumer('--items', 'A'), 'values or containers that cannot be read')
        self.assertEqual(result['items'][0]['image']['value_errors'], 1)
        self.assertEqual(finals['A', 6]['fields']['9999']['type'], 'ERROR')

    def test_names_come_from_the_dictionary(self):
        self.image('22=REAL:1:14 14=ENUM:2')
        result, _ = self.ok(self.consumer('--items', 'A'))
        self.assertEqual(result['field_names'], {'22': 'BID', '14': 'PRCTCK_1'})


class FieldListImages(WithProvider):
    def test_updates_change_the_fields_they_hold(self):
        self.image('22=REAL:10:13 25=REAL:11:13 3=RMTES:name')
        consumer = self.consumer('--items', 'A', '--updates', '2')
        consumer.wait_ev('refresh')
        self.provider.command('update 6 A 22=REAL:12:13')
        self.provider.command('update 6 A 25=REAL: 6=REAL:5:14')
        result, finals = self.ok(consumer)
        self.assertEqual(
            finals['A', 6]['fields'],
            {
                '22': real(12, 13, '1.2'),
                '25': {'type': 'REAL', 'blank': True},
                '3': {'type': 'RMTES', 'text': 'name'},
                '6': real(5, 14, '5'),
            },
        )
        self.assertEqual((result['refreshes'], result['updates'], result['images']), (1, 2, 1))

    def test_an_unsolicited_refresh_is_a_new_image(self):
        self.image('22=REAL:10:13 25=REAL:11:13')
        end = self.until_file()
        consumer = self.consumer('--items', 'A', '--until', end)
        consumer.wait_ev('refresh', solicited=True)
        self.provider.command('refresh 6 A 22=REAL:20:13')
        consumer.wait_ev('refresh', solicited=False)
        open(end, 'w').close()
        _, finals = self.ok(consumer)
        self.assertEqual(finals['A', 6]['fields'], {'22': real(20, 13, '2.0')})

    def test_the_parts_of_a_refresh_make_one_image(self):
        self.image('@partial @part=0 22=REAL:10:13')
        consumer = self.consumer('--items', 'A')
        consumer.wait_ev('refresh', complete=False)
        self.provider.command('refresh 6 A @solicited @partial @part=1 25=REAL:11:13')
        self.provider.command('refresh 6 A @solicited @part=2 6=REAL:12:13')
        result, finals = self.ok(consumer)
        self.assertEqual(sorted(finals['A', 6]['fields']), ['22', '25', '6'])
        self.assertEqual((result['refreshes'], result['images'], result['items'][0]['images']), (3, 1, 1))

    def test_an_incomplete_image_is_none(self):
        self.image('@partial @part=0 22=REAL:10:13')
        self.fails(self.consumer('--items', 'A', '--timeout', '3'), '6:A has no image')

    def test_one_name_in_two_domains_is_two_items(self):
        self.image('22=REAL:10:13')
        self.image('+1B 3427=REAL:1:14', '8 A')
        result, finals = self.ok(self.consumer('--item', '6:A', '--item', '8:A'))
        self.assertEqual(finals['A', 6]['fields'], {'22': real(10, 13, '1.0')})
        self.assertEqual(finals['A', 8]['entries'], {'1B': {'3427': real(1, 14, '1')}})
        self.assertEqual(result['images'], 2)

    def test_names_with_spaces_commas_or_colons_are_possible_with_item(self):
        self.image('22=REAL:10:13', '6 A,B:C')
        _, finals = self.ok(self.consumer('--item', '6:A,B:C'))
        self.assertIn(('A,B:C', 6), finals)


class MapImages(WithProvider):
    BOOK = (
        'summary 14=ENUM:1 +10.5B 3427=REAL:105:13 3428=ENUM:1 3429=REAL:7:14 '
        '+10.7A 3427=REAL:107:13 3428=ENUM:2'
    )

    def watch(self, *updates, options=()):
        self.image(self.BOOK, '8 A')
        consumer = self.consumer('--item', '8:A', '--updates', str(len(updates)), *options)
        consumer.wait_ev('refresh')
        for update in updates:
            self.provider.command('update 8 A ' + update)
        return consumer

    def test_add_update_and_delete(self):
        result, finals = self.ok(
            self.watch(
                '*10.5B 3429=REAL:9:14',
                '+10.6A 3427=REAL:106:13 -10.7A',
                'summary 14=ENUM:2',
                options=['--check-map'],
            )
        )
        final = finals['A', 8]
        self.assertEqual(
            final['entries'],
            {
                '10.5B': {
                    '3427': real(105, 13, '10.5'),
                    '3428': {'type': 'ENUM', 'value': 1, 'display': 'BID'},
                    '3429': real(9, 14, '9'),
                },
                '10.6A': {'3427': real(106, 13, '10.6')},
            },
        )
        self.assertEqual(final['summary'], {'14': {'type': 'ENUM', 'value': 2, 'display': 'D'}})
        counts = result['items'][0]['image']
        self.assertEqual([counts[k] for k in ('adds', 'updates', 'deletes', 'entries')], [3, 1, 1, 2])

    def test_an_added_entry_replaces_the_one_there_and_is_counted(self):
        result, finals = self.ok(self.watch('+10.5B 3429=REAL:1:14'))
        self.assertEqual(finals['A', 8]['entries']['10.5B'], {'3429': real(1, 14, '1')})
        self.assertEqual(result['items'][0]['image']['adds_of_present'], 1)

    def test_actions_on_the_wrong_entries_fail_the_map_check(self):
        for update, count in (
            ('+10.5B 3429=REAL:1:14', 'adds_of_present'),
            ('*99B 3429=REAL:1:14', 'updates_of_absent'),
            ('-99B', 'deletes_of_absent'),
        ):
            with self.subTest(count):
                result, _ = self.fails(self.watch(update, options=['--check-map']), '8:A: map actions')
                self.assertEqual(result['items'][0]['image'][count], 1)

    def test_keys_that_are_no_text_are_shown_in_hex(self):
        _, finals = self.ok(self.watch('+%00%01x 3429=REAL:1:14'))
        self.assertIn('hex:000178', finals['A', 8]['entries'])

    def test_a_refresh_empties_the_map(self):
        self.image(self.BOOK, '8 A')
        end = self.until_file()
        consumer = self.consumer('--item', '8:A', '--until', end, '--check-map')
        consumer.wait_ev('refresh')
        self.provider.command('refresh 8 A @clear +1A 3427=REAL:1:14')
        consumer.wait_ev('refresh', clear_cache=True)
        open(end, 'w').close()
        _, finals = self.ok(consumer)
        self.assertEqual((list(finals['A', 8]['entries']), finals['A', 8].get('summary')), (['1A'], None))


class SequenceNumbers(WithProvider):
    def watch(self, image, *updates):
        self.image(image)
        consumer = self.consumer('--items', 'A', '--check-seq', '--updates', str(len(updates)))
        consumer.wait_ev('refresh')
        for update in updates:
            self.provider.command('update 6 A ' + update)
        return consumer

    def sequence(self, result):
        return result['items'][0]['sequence']

    def test_numbers_that_go_up_by_one_pass(self):
        result, _ = self.ok(self.watch('@seq=7 22=REAL:1:14', '@seq=8 22=REAL:2:14', '@seq=9 22=REAL:3:14'))
        self.assertEqual(self.sequence(result)['last'], 9)

    def test_numbers_wrap(self):
        self.ok(
            self.watch('@seq=4294967294 22=REAL:1:14', '@seq=4294967295 22=REAL:2:14', '@seq=0 22=REAL:3:14')
        )

    def test_each_fault_is_told_apart(self):
        for numbers, counts in (
            ((5, 6, 9), {'gaps': 1, 'missing': 2}),
            ((5, 7), {'gaps': 1, 'missing': 1}),
            ((5, 6, 6), {'duplicates': 1}),
            ((5, 6, 4), {'backwards': 1}),
            ((5, 5), {'duplicates': 1}),
            ((5, None), {'unnumbered': 1}),
        ):
            with self.subTest(numbers):
                words = ['%s22=REAL:1:14' % ('' if n is None else '@seq=%d ' % n) for n in numbers]
                result, _ = self.fails(self.watch(*words), '6:A: sequence numbers')
                found = {
                    k: v
                    for k, v in self.sequence(result).items()
                    if k in ('gaps', 'missing', 'duplicates', 'backwards', 'unnumbered') and v
                }
                self.assertEqual(found, counts)

    def test_a_refresh_sets_the_number_anew(self):
        self.image('@seq=7 22=REAL:1:14')
        consumer = self.consumer('--items', 'A', '--check-seq', '--updates', '2')
        consumer.wait_ev('refresh')
        self.provider.command('update 6 A @seq=8 22=REAL:1:14')
        self.provider.command('refresh 6 A @seq=3 22=REAL:1:14')
        self.provider.command('update 6 A @seq=4 22=REAL:1:14')
        result, _ = self.ok(consumer)
        self.assertEqual(self.sequence(result)['refreshes_backwards'], 1)

    def test_without_the_check_faults_are_counted_only(self):
        self.image('@seq=7 22=REAL:1:14')
        consumer = self.consumer('--items', 'A', '--updates', '1')
        consumer.wait_ev('refresh')
        self.provider.command('update 6 A @seq=70 22=REAL:1:14')
        result, _ = self.ok(consumer)
        self.assertEqual(self.sequence(result)['missing'], 62)


class States(WithProvider):
    def test_suspect_and_ok_again(self):
        self.image('22=REAL:1:14')
        consumer = self.consumer('--items', 'A', '--expect-status', 'Ok,Open/Suspect/GapDetected,Ok')
        consumer.wait_ev('refresh')
        self.provider.command('status 6 A Open Suspect 11 lost some')
        self.provider.command('update 6 A 22=REAL:2:14')
        self.provider.command('status 6 A Open Ok 0 all there')
        result, _ = self.ok(consumer)
        item = result['items'][0]
        self.assertEqual(
            [(s['stream'], s['data'], s['code'], s['text']) for s in item['states']],
            [
                ('Open', 'Ok', 'None', ''),
                ('Open', 'Suspect', 'GapDetected', 'lost some'),
                ('Open', 'Ok', 'None', 'all there'),
            ],
        )
        self.assertEqual((item['updates_while_suspect'], item['statuses'], item['state_changes']), (1, 2, 3))

    def test_an_expected_state_that_never_comes_fails(self):
        self.image('22=REAL:1:14')
        self.fails(
            self.consumer('--items', 'A', '--expect-status', 'Suspect', '--timeout', '3'),
            'still expected: Suspect',
        )

    def test_expected_states_must_come_in_their_order(self):
        self.image('22=REAL:1:14')
        consumer = self.consumer('--items', 'A', '--expect-status', 'Suspect,Ok', '--timeout', '4')
        consumer.wait_ev('refresh')
        self.provider.command('status 6 A Open Suspect 0 x')
        self.fails(consumer, 'still expected: Ok')

    def test_a_status_without_change_keeps_the_data_state(self):
        self.image('22=REAL:1:14')
        consumer = self.consumer('--items', 'A', '--expect-status', 'Suspect,Open/Suspect/NoResources')
        consumer.wait_ev('refresh')
        self.provider.command('status 6 A Open Suspect 0 x')
        self.provider.command('status 6 A Open NoChange 12 still')
        result, _ = self.ok(consumer)
        self.assertEqual(result['items'][0]['states'][-1]['data'], 'Suspect')

    def test_equal_states_in_a_row_count_once(self):
        self.image('22=REAL:1:14')
        consumer = self.consumer('--items', 'A', '--expect-status', 'Suspect,Ok')
        consumer.wait_ev('refresh')
        for _ in range(3):
            self.provider.command('status 6 A Open Suspect 0 x')
        self.provider.command('status 6 A Open Ok 0 y')
        result, _ = self.ok(consumer)
        self.assertEqual((len(result['items'][0]['states']), result['statuses']), (3, 4))

    def test_the_list_of_states_is_bounded(self):
        self.image('22=REAL:1:14')
        consumer = self.consumer('--items', 'A', '--expect-status', 'Open/Ok/None,Suspect,Open/Ok/Timeout')
        consumer.wait_ev('refresh')
        for n in range(100):
            self.provider.command('status 6 A Open Suspect 0 number %d' % n)
        self.provider.command('status 6 A Open Ok 2 end')
        result, _ = self.ok(consumer)
        item = result['items'][0]
        self.assertEqual((len(item['states']), item['states_forgotten']), (64, 38))
        self.assertEqual(item['states'][-1]['text'], 'end')

    def test_an_unknown_item_is_closed_as_expected(self):
        result, finals = self.ok(self.consumer('--items', 'NOPE', '--expect-closed', 'NotFound'))
        self.assertEqual(
            finals['NOPE', 6]['state'],
            {'stream': 'Closed', 'data': 'Suspect', 'code': 'NotFound', 'text': 'no such item'},
        )
        self.assertEqual((result['closed'], result['images']), (1, 0))
        self.ok(self.consumer('--items', 'NOPE', '--expect-closed', 'any'))

    def test_another_code_than_expected_fails(self):
        self.fails(
            self.consumer('--items', 'NOPE', '--expect-closed', 'NotAuthorized'), 'closed with NotFound'
        )

    def test_an_item_that_stays_open_fails_the_expectation(self):
        self.image('22=REAL:1:14')
        self.fails(
            self.consumer('--items', 'A', '--expect-closed', 'NotFound', '--timeout', '3'),
            '6:A is not closed',
        )

    def test_expectations_may_speak_of_one_item(self):
        self.image('22=REAL:1:14')
        result, _ = self.ok(
            self.consumer(
                '--items', 'A,NOPE', '--expect-closed', '6:NOPE=NotFound', '--expect-status', '6:A=Ok'
            )
        )
        self.assertEqual((result['closed'], result['images']), (1, 1))

    def test_an_unexpected_close_ends_the_run_at_once(self):
        self.image('22=REAL:1:14')
        consumer = self.consumer('--items', 'A', '--run-for', '50', '--timeout', '55')
        consumer.wait_ev('refresh')
        self.provider.command('status 6 A Closed Suspect 3 not for you')
        result, _ = self.fails(consumer, '6:A was closed')
        self.assertLess(result['seconds'], 50)

    def test_a_close_that_comes_later_can_be_expected(self):
        self.image('22=REAL:1:14')
        consumer = self.consumer('--items', 'A', '--expect-closed', 'NotAuthorized')
        consumer.wait_ev('refresh')
        self.provider.command('status 6 A Closed Suspect 3 not for you')
        result, _ = self.ok(consumer)
        self.assertEqual(result['images'], 1)

    def test_a_snapshot_is_one_image_and_no_stream(self):
        self.image('22=REAL:1:14')
        _, finals = self.ok(self.consumer('--items', 'A', '--snapshot'))
        self.assertEqual(finals['A', 6]['state']['stream'], 'NonStreaming')
        self.assertEqual(self.provider.wait_ev('request', item='6:A')['streaming'], False)


class Restarts(WithProvider):
    def test_the_consumer_outlives_a_crash_of_the_server(self):
        self.image('@seq=50 22=REAL:1:14 25=REAL:2:14')
        consumer = self.consumer(
            '--items',
            'A',
            '--expect-status',
            'Ok,Suspect,Ok',
            '--updates',
            '2',
            '--check-seq',
            '--show-updates',
        )
        consumer.wait_ev('refresh')
        self.provider.command('update 6 A @seq=51 22=REAL:3:14')
        consumer.wait_ev('update', seq=51)
        self.provider.kill()
        consumer.wait_for(lambda e: e['ev'] == 'status' and e['state']['data'] == 'Suspect')
        self.provider = self.start_provider(images=['6 A @seq=1 22=REAL:9:14'])
        consumer.wait_for(lambda e: e['ev'] == 'refresh' and e.get('seq') == 1)
        self.provider.command('update 6 A @seq=2 22=REAL:10:14')
        result, finals = self.ok(consumer)
        self.assertEqual(finals['A', 6]['fields'], {'22': real(10, 14, '10')})
        item = result['items'][0]
        self.assertEqual(
            [(s['stream'], s['data']) for s in item['states']],
            [('Open', 'Ok'), ('Open', 'Suspect'), ('Open', 'Ok')],
        )
        self.assertEqual(
            (item['images'], item['updates'], item['sequence']['refreshes_backwards']), (2, 2, 1)
        )
        login = result['login']
        self.assertEqual((login['state']['data'], login['refreshes'], login['state_changes']), ('Ok', 2, 3))


class Ends(WithProvider):
    def test_the_images_alone_end_a_run_without_other_wishes(self):
        self.image('22=REAL:1:14')
        result, _ = self.ok(self.consumer('--items', 'A'))
        self.assertEqual(result['updates'], 0)

    def test_until_idle_waits_for_the_last_update(self):
        self.image('22=REAL:1:14')
        consumer = self.consumer('--items', 'A', '--until-idle', '700')
        consumer.wait_ev('refresh')
        for n in range(500):
            self.provider.send('update 6 A 22=REAL:%d:14' % n)
        result, finals = self.ok(consumer)
        self.assertEqual((result['updates'], finals['A', 6]['fields']['22']['mantissa']), (500, 499))

    def test_until_file_ends_when_the_file_is_there(self):
        self.image('22=REAL:1:14')
        end = self.until_file()
        consumer = self.consumer('--items', 'A', '--until', end)
        consumer.wait_ev('refresh')
        self.provider.command('update 6 A 22=REAL:2:14')
        self.assertIsNone(consumer.process.poll())
        open(end, 'w').close()
        self.ok(consumer)

    def test_until_file_does_not_excuse_a_missing_image(self):
        end = self.until_file()
        open(end, 'w').close()
        self.image('@partial 22=REAL:1:14')
        self.fails(self.consumer('--items', 'A', '--until', end), '6:A has no image')

    def test_run_for_stays_its_time(self):
        self.image('22=REAL:1:14')
        result, _ = self.ok(self.consumer('--items', 'A', '--run-for', '2'))
        self.assertGreaterEqual(result['seconds'], 2)

    def test_too_few_updates_fail_at_the_timeout(self):
        self.image('22=REAL:1:14')
        result, finals = self.fails(
            self.consumer('--items', 'A', '--updates', '5', '--timeout', '3'), 'timeout after 3 s'
        )
        self.assertIn('6:A had 0 of 5 updates', result['reasons'])
        self.assertIn(('A', 6), finals)

    def test_no_server_is_a_failure_after_the_timeout(self):
        self.provider.kill()
        self.fails(self.consumer('--items', 'A', '--timeout', '2'), 'the library gave up')

    def test_a_service_that_is_not_there_is_named(self):
        self.fails(self.consumer('--items', 'A', '--timeout', '3', service='OTHER'), 'has no OTHER')


class AdministrativeFacts(WithProvider):
    def test_login_directory_and_dictionaries_are_told(self):
        self.image('22=REAL:1:14')
        consumer = self.consumer('--items', 'A', '--user', 'somebody')
        result, _ = self.ok(consumer)
        self.assertEqual(self.provider.wait_ev('login')['user'], 'somebody')
        login = consumer.wait_ev('login')
        self.assertEqual((login['state']['data'], login['attributes']['SingleOpen']), ('Ok', 1))
        service = consumer.wait_ev('directory')['services']['10']
        self.assertEqual(
            (service['info']['Name'], service['info']['Capabilities'], service['state']['ServiceState']),
            ('TEST', [5, 6, 7, 8], 1),
        )
        self.assertEqual(result['service'], service)
        fields = consumer.wait_ev('dictionary', name='RWFFld')
        self.assertEqual(
            (fields['entries'], fields['version'], fields['min_fid'], fields['max_fid'], fields['parts']),
            (20, '2.0.1', -14, 3429, 1),
        )
        enums = consumer.wait_ev('dictionary', name='RWFEnum')
        self.assertEqual((enums['tables'], enums['version']), (2, '2.0'))

    def test_a_dictionary_in_parts_is_put_together(self):
        self.provider.kill()
        with open(os.path.join(HERE, 'all-types.dic')) as f:
            text = f.read()
        with tempfile.NamedTemporaryFile('w', suffix='.dic') as f:
            f.write(
                text
                + ''.join(
                    'F_%04d "MORE %04d" %d NULL PRICE 17 REAL64 9\n' % (n, n, n) for n in range(5000, 6000)
                )
            )
            f.flush()
            self.provider = self.start_provider(
                ['--dictionary-part-bytes', '4000'], ['6 A 5999=REAL:7:14 14=ENUM:1'], fields=f.name
            )
            consumer = self.consumer('--items', 'A')
            result, finals = self.ok(consumer)
        dictionary = consumer.wait_ev('dictionary', name='RWFFld')
        self.assertEqual((dictionary['entries'], dictionary['max_fid']), (1020, 5999))
        self.assertGreater(dictionary['parts'], 5)
        self.assertEqual(finals['A', 6]['fields']['5999'], real(7, 14, '7'))
        self.assertEqual(result['field_names']['5999'], 'F_5999')


class Usage(unittest.TestCase):
    def test_wrong_usage_exits_2_without_events(self):
        good = ['--service', 'S', '--items', 'A']
        for words in (
            [],
            ['nothing'],
            ['consumer'],
            ['consumer', '--service', 'S'],
            ['consumer', '--items', 'A'],
            ['consumer', '--frobnicate'] + good,
            ['consumer', '--host', 'nowhere'] + good,
            ['consumer', '--host', 'h:99999'] + good,
            ['consumer', '--timeout', 'soon'] + good,
            ['consumer', '--item', 'A'] + good,
            ['consumer', '--item', '6:A'] + good,
            ['consumer', '--domain', '5'] + good,
            ['consumer', '--expect-closed', '6:B=any'] + good,
            ['consumer', '--expect-status', 'a/b/c/d'] + good,
            ['consumer', '--timeout'],
            ['consumer', '--until', 'f', '--run-for', '1'] + good,
            ['consumer', '--compression', 'zip'] + good,
            ['consumer', '--user', 'a', '--user', 'b'] + good,
            ['provider', '--port', '1'],
        ):
            with self.subTest(words):
                tool = Tool(['java', '-jar', JAR] + words)
                status, events = tool.finish()
                self.assertEqual((status, events), (2, []))
                self.assertIn('usage:', ''.join(tool.log))


if __name__ == '__main__':
    unittest.main()
