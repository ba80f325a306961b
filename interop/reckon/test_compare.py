"""python3 -m unittest discover -s interop/reckon"""

import contextlib
import copy
import io
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import compare

PRICE = {
    '22': {'type': 'REAL', 'mantissa': 150, 'hint': 12},
    '3': {'type': 'RMTES', 'text': 'X'},
    '14': {'type': 'ENUM', 'value': 1},
    '30': {'type': 'REAL', 'blank': True},
    '1025': {'type': 'TIME', 'hour': 1, 'minute': 2, 'second': 3, 'nanosecond': 4},
}
BOOK = {
    '1.5B': {'3427': {'type': 'REAL', 'mantissa': 15, 'hint': 13}, '3428': {'type': 'ENUM', 'value': 1}},
    '1.6A': {'3427': {'type': 'REAL', 'mantissa': 16, 'hint': 13}, '3428': {'type': 'ENUM', 'value': 2}},
}
EXPECTED = {'X': {'6': PRICE, '8': BOOK}}


def seen():
    """What a faithful consumer writes, with the parts it adds for readers."""
    price = copy.deepcopy(PRICE)
    price['22']['text'] = '1.50'
    price['14']['display'] = 'U'
    price['1025']['text'] = '01:02:03.000000004'
    state = {'stream': 'Open', 'data': 'Ok', 'code': 'None', 'text': ''}
    return {
        ('X', '6'): {'ev': 'final', 'item': 'X', 'domain': 6, 'state': dict(state), 'fields': price},
        ('X', '8'): {
            'ev': 'final',
            'item': 'X',
            'domain': 8,
            'state': dict(state),
            'entries': copy.deepcopy(BOOK),
        },
    }


class Images(unittest.TestCase):
    def differences(self, actual, **options):
        return [
            (key, text)
            for key, found in compare.compare(EXPECTED, actual, **options).items()
            for text in found
        ]

    def one(self, actual, **options):
        found = self.differences(actual, **options)
        self.assertEqual(len(found), 1, found)
        return found[0][1]

    def test_a_faithful_consumer_has_no_difference(self):
        self.assertEqual(compare.compare(EXPECTED, seen()), {('X', '6'): [], ('X', '8'): []})

    def test_a_different_value_is_found(self):
        actual = seen()
        actual['X', '6']['fields']['22']['mantissa'] = 151
        self.assertEqual(
            self.one(actual),
            'field 22: expected 1.50 (mantissa 150, hint 12), got 1.51 (mantissa 151, hint 12)',
        )

    def test_an_equal_value_in_another_form_is_a_difference_that_says_so(self):
        actual = seen()
        actual['X', '6']['fields']['22'].update(mantissa=15, hint=13)
        self.assertEqual(
            self.one(actual),
            'field 22: expected 1.50 (mantissa 150, hint 12), got 1.5 (mantissa 15, hint 13)'
            ': the value is equal, the form differs',
        )

    def test_fractions_and_whole_numbers_are_equal_in_value_only(self):
        actual = seen()
        actual['X', '6']['fields']['22'].update(mantissa=3, hint=23)
        self.assertIn('the form differs', self.one(actual))
        actual['X', '6']['fields']['22'] = {'type': 'REAL', 'mantissa': 0, 'hint': 33, 'text': 'Infinity'}
        self.assertNotIn('the form differs', self.one(actual))

    def test_equal_numbers_of_different_types_and_hints_are_seen_as_such(self):
        def real(mantissa, hint):
            return {'type': 'REAL', 'mantissa': mantissa, 'hint': hint}

        five = {'type': 'UINT', 'value': 5}
        for one, other, same in (
            (five, {'type': 'INT', 'value': 5}, True),
            (five, {'type': 'INT', 'value': 6}, False),
            (five, {'type': 'UINT', 'blank': True}, False),
            (real(5, 14), five, True),
            (real(5, 14), real(5 * 10**14, 0), True),
            (real(5, 21), real(5 * 10**7, 14), True),
            (real(5, 14), real(5, 22), True),
            (real(5, 14), real(5 * 256, 30), True),
            (real(5, 14), real(5 * 512, 31), False),
            (real(0, 33), real(0, 34), False),
        ):
            with self.subTest((one, other)):
                text = compare.difference(one, other)
                self.assertEqual(text.endswith('the form differs'), same, text)

    def test_values_are_shown_as_decimals(self):
        for mantissa, hint, text in (
            (-5, 12, '-0.05'),
            (1234, 13, '123.4'),
            (5, 0, '0.00000000000005'),
            (5, 14, '5'),
            (5, 16, '500'),
            (3, 23, '3/2'),
            (0, 35, 'no number'),
        ):
            shown = compare.show({'type': 'REAL', 'mantissa': mantissa, 'hint': hint})
            self.assertEqual(shown, '%s (mantissa %d, hint %d)' % (text, mantissa, hint))

    def test_zero_is_not_blank(self):
        actual = seen()
        actual['X', '6']['fields']['30'] = {'type': 'REAL', 'mantissa': 0, 'hint': 14, 'text': '0'}
        self.assertEqual(self.one(actual), 'field 30: expected REAL blank, got 0 (mantissa 0, hint 14)')

    def test_blank_is_not_a_value(self):
        actual = seen()
        actual['X', '6']['fields']['22'] = {'type': 'REAL', 'blank': True}
        self.assertIn('got REAL blank', self.one(actual))

    def test_every_part_of_a_time_counts(self):
        actual = seen()
        actual['X', '6']['fields']['1025']['nanosecond'] = None
        self.assertEqual(self.one(actual), 'field 1025: expected TIME 1:2:3:4, got TIME 1:2:3:-')

    def test_the_type_counts(self):
        actual = seen()
        actual['X', '6']['fields']['3']['type'] = 'ASCII'
        self.assertEqual(self.one(actual), 'field 3: expected RMTES X, got ASCII X')

    def test_missing_and_additional_fields_are_found_and_can_be_ignored(self):
        actual = seen()
        del actual['X', '6']['fields']['14']
        actual['X', '6']['fields']['3902'] = {'type': 'UINT', 'value': 9}
        self.assertEqual(
            [t for _, t in self.differences(actual)],
            ['field 14: missing, expected ENUM 1', 'field 3902: not expected, got UINT 9'],
        )
        self.assertEqual(
            [t for _, t in self.differences(actual, ignore={'3902'})], ['field 14: missing, expected ENUM 1']
        )

    def test_missing_and_additional_levels_are_found(self):
        actual = seen()
        actual['X', '8']['entries']['1.7A'] = actual['X', '8']['entries'].pop('1.6A')
        self.assertEqual(
            [t for _, t in self.differences(actual)],
            [
                '1.6A: missing, expected 3427 = 1.6 (mantissa 16, hint 13), 3428 = ENUM 2',
                '1.7A: not expected, got 3427 = 1.6 (mantissa 16, hint 13), 3428 = ENUM 2',
            ],
        )

    def test_a_field_of_a_level_is_compared(self):
        actual = seen()
        actual['X', '8']['entries']['1.5B']['3428']['value'] = 2
        self.assertEqual(self.one(actual), '1.5B field 3428: expected ENUM 1, got ENUM 2')

    def test_the_final_state_must_be_good(self):
        actual = seen()
        actual['X', '6']['state']['data'] = 'Suspect'
        self.assertEqual(self.one(actual), 'final state is Open/Suspect')
        self.assertEqual(self.differences(actual, any_state=True), [])
        actual['X', '6']['state'].update(stream='NonStreaming', data='Ok')
        self.assertEqual(self.differences(actual), [])

    def test_unwatched_and_unexpected_items_are_found(self):
        actual = seen()
        actual['Y', '6'] = actual.pop(('X', '6'))
        self.assertEqual(
            self.differences(actual),
            [(('X', '6'), 'was not watched'), (('Y', '6'), 'is not expected at all')],
        )
        del actual['Y', '6']
        self.assertEqual(self.differences(actual, watched_only=True), [])


class CommandLine(unittest.TestCase):
    def run_with(self, lines, *options):
        with tempfile.TemporaryDirectory() as d:
            paths = [os.path.join(d, name) for name in ('expected', 'actual')]
            with open(paths[0], 'w') as f:
                json.dump(EXPECTED, f)
            with open(paths[1], 'w') as f:
                f.writelines(lines)
            out = io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                return compare.main(paths + list(options)), out.getvalue()

    def lines(self, actual):
        return (
            ['{"ev":"login"}\n']
            + [json.dumps(line) + '\n' for line in actual.values()]
            + ['{"ev":"result"}\n']
        )

    def test_equal_images_exit_0(self):
        self.assertEqual(self.run_with(self.lines(seen())), (0, 'X domain 6: equal\nX domain 8: equal\n'))

    def test_differences_exit_1_and_the_list_is_cut(self):
        actual = seen()
        actual['X', '8']['entries'] = {}
        status, text = self.run_with(self.lines(actual), '--show', '1')
        self.assertEqual(status, 1)
        self.assertEqual(text.count('missing'), 1)
        self.assertIn('X domain 8: 2 differences\n', text)
        self.assertIn('and 1 more\n', text)

    def test_a_list_of_exactly_the_limit_is_not_cut(self):
        actual = seen()
        actual['X', '8']['entries'] = {}
        self.assertNotIn('more', self.run_with(self.lines(actual), '--show', '2')[1])

    def test_an_unreadable_line_is_named(self):
        self.assertIn('actual:2 is not', self.run_with(['{"ev":"login"}\n', 'no json\n'])[1])

    def test_nothing_compared_is_not_success(self):
        actual = {('Z', '6'): seen()['X', '6'] | {'item': 'Z'}}
        self.assertEqual(self.run_with(self.lines(actual), '--watched-only')[0], 1)

    def test_unreadable_input_exits_2(self):
        self.assertEqual(self.run_with(['no json\n'])[0], 2)
        self.assertEqual(self.run_with(['{"ev":"login"}\n'])[0], 2)
        self.assertEqual(self.run_with(['{"ev":"final","item":"X","domain":6}\n'])[0], 2)


if __name__ == '__main__':
    unittest.main()
