"""python3 -m unittest discover -s interop/reckon"""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import recording
import reckon
import values
from book import ASK, BID, Book, BookError
from recording import BadRecording

MIDNIGHT_MS = 1_723_075_200_000  # 2024-08-08 00:00:00 UTC
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'data', 'binance')


def frame(stream, **data):
    return {'stream': stream, 'data': data}


def spot_quote(u=1, bid='10.00', bid_size='1.5', ask='10.02', ask_size='2.0'):
    return frame('btcusdt@bookTicker', u=u, s='BTCUSDT', b=bid, B=bid_size, a=ask, A=ask_size)


def spot_trade(price, size='1.0', number=7, at_ms=MIDNIGHT_MS):
    return frame(
        'btcusdt@trade',
        e='trade',
        E=at_ms + 1,
        s='BTCUSDT',
        t=number,
        p=price,
        q=size,
        T=at_ms,
        m=True,
        M=True,
    )


def spot_diff(first, last, bids=(), asks=(), at_ms=MIDNIGHT_MS):
    return frame(
        'btcusdt@depth@100ms',
        e='depthUpdate',
        E=at_ms,
        s='BTCUSDT',
        U=first,
        u=last,
        b=list(bids),
        a=list(asks),
    )


def futures_diff(first, last, previous, bids=(), asks=(), at_ms=MIDNIGHT_MS):
    return frame(
        'btcusdt@depth@0ms',
        e='depthUpdate',
        E=at_ms,
        T=at_ms,
        s='BTCUSDT',
        U=first,
        u=last,
        pu=previous,
        b=list(bids),
        a=list(asks),
    )


def snapshot(last_id, bids=(), asks=(), **more):
    return dict(more, lastUpdateId=last_id, bids=list(bids), asks=list(asks))


class OneRecording(unittest.TestCase):
    """Writes recordings of (receive_ns, message) and reads them back."""

    def instrument(self, *messages, start_ns=MIDNIGHT_MS * 1_000_000):
        with tempfile.NamedTemporaryFile('w', suffix='.jsonl', delete=False) as f:
            for i, message in enumerate(messages):
                f.write('%d %s\n' % (start_ns + i, json.dumps(message)))
        self.addCleanup(os.unlink, f.name)
        return reckon.read_recording(f.name)

    def fields(self, *messages, **more):
        return self.instrument(*messages, **more).images()['6']

    def levels(self, *messages, **more):
        return self.instrument(*messages, **more).images()['8']


class Names(unittest.TestCase):
    def test_spot_items_are_named_by_their_symbol(self):
        self.assertEqual(reckon.item_name('BTCUSDT', False), 'BTCUSDT')

    def test_a_perpetual_without_contract_part_gets_perp(self):
        self.assertEqual(reckon.item_name('BTCUSDT', True), 'BTCUSDT.PERP')

    def test_the_contract_part_follows_a_point(self):
        self.assertEqual(reckon.item_name('BTCUSD_PERP', True), 'BTCUSD.PERP')
        self.assertEqual(reckon.item_name('BTCUSD_240927', True), 'BTCUSD.240927')

    def test_futures_are_told_by_the_mark_of_each_stream(self):
        self.assertEqual(reckon.classify(spot_quote())[2], False)
        self.assertEqual(reckon.classify(frame('x@bookTicker', s='X', E=1))[2], True)
        self.assertEqual(reckon.classify(spot_trade('1'))[2], False)
        self.assertEqual(reckon.classify(frame('x@trade', s='X', X='MARKET'))[2], True)
        self.assertEqual(reckon.classify(spot_diff(1, 2))[2], False)
        self.assertEqual(reckon.classify(futures_diff(1, 2, 0))[2], True)
        self.assertIsNone(reckon.classify(frame('x@markPrice', s='X'))[2])


class Decimals(unittest.TestCase):
    def test_mantissa_and_hint_follow_the_text(self):
        self.assertEqual(
            values.real(*values.decimal('61837.63000000')),
            {'type': 'REAL', 'mantissa': 6183763000000, 'hint': 6},
        )
        self.assertEqual(values.real(*values.decimal('35')), {'type': 'REAL', 'mantissa': 35, 'hint': 14})
        self.assertEqual(
            values.real(*values.decimal('-0.010')), {'type': 'REAL', 'mantissa': -10, 'hint': 11}
        )

    def test_zero_is_blank(self):
        for text in ('0', '0.00000000'):
            self.assertEqual(values.real_or_blank(text), {'type': 'REAL', 'blank': True})

    def test_what_a_real_cannot_carry_is_refused(self):
        for text in ('', '1.', '.5', '1e5', '1,0', 'NaN', '1.123456789012345', '9223372036854775808'):
            with self.subTest(text), self.assertRaises(values.NotDecimal):
                values.real(*values.decimal(text))
        values.real(*values.decimal('9223372036854775807'))


class MarketPrice(OneRecording):
    def test_spot_quotes_take_the_receive_time_with_nanoseconds(self):
        f = self.fields(spot_quote(), start_ns=MIDNIGHT_MS * 1_000_000 + 86_399_999_231_384_001)
        self.assertEqual(f[22], {'type': 'REAL', 'mantissa': 1000, 'hint': 12})
        self.assertEqual(f[30], {'type': 'REAL', 'mantissa': 15, 'hint': 13})
        self.assertEqual(f[25], {'type': 'REAL', 'mantissa': 1002, 'hint': 12})
        self.assertEqual(f[31], {'type': 'REAL', 'mantissa': 20, 'hint': 13})
        # 86,399,999.231 s is 999 whole days and 23:59:59.231384001 (the start is not midnight of one day)
        self.assertEqual(
            f[14265], {'type': 'TIME', 'hour': 23, 'minute': 59, 'second': 59, 'nanosecond': 231_384_001}
        )
        self.assertEqual(f[1025], {'type': 'TIME', 'hour': 23, 'minute': 59, 'second': 59, 'nanosecond': 0})
        self.assertEqual(f[3855], {'type': 'UINT', 'value': 86_399_231})
        self.assertEqual(f[3386], {'type': 'DATE', 'year': 2027, 'month': 5, 'day': 4})

    def test_futures_quotes_take_the_event_time(self):
        q = frame(
            'btcusdt@bookTicker',
            e='bookTicker',
            u=1,
            s='BTCUSDT',
            b='1.0',
            B='2',
            a='1.1',
            A='3',
            T=MIDNIGHT_MS,
            E=MIDNIGHT_MS + 3_723_004,
        )
        f = self.fields(q)
        self.assertEqual(
            f[14265], {'type': 'TIME', 'hour': 1, 'minute': 2, 'second': 3, 'nanosecond': 4_000_000}
        )
        self.assertEqual(f[3855]['value'], 3_723_004)
        self.assertEqual(f[3386], {'type': 'DATE', 'year': 2024, 'month': 8, 'day': 8})
        self.assertEqual((f[3]['text'], f[3422]['text']), ('BTCUSDT.PERP', 'BTCUSDT'))

    def test_a_side_without_price_is_blank(self):
        f = self.fields(spot_quote(bid='0.00', bid_size='0.0'))
        self.assertEqual((f[22], f[30]), ({'type': 'REAL', 'blank': True},) * 2)
        self.assertEqual(f[25]['mantissa'], 1002)

    def test_trades_give_price_size_sums_id_and_time(self):
        f = self.fields(
            spot_trade('10.00', '0.25', 41), spot_trade('10.01', '1.75', 42, MIDNIGHT_MS + 61_005)
        )
        self.assertEqual(f[6], {'type': 'REAL', 'mantissa': 1001, 'hint': 12})
        self.assertEqual(f[178], {'type': 'REAL', 'mantissa': 175, 'hint': 12})
        self.assertEqual(f[32], {'type': 'REAL', 'mantissa': 200, 'hint': 12})
        self.assertEqual(f[77], {'type': 'REAL', 'mantissa': 2, 'hint': 14})
        self.assertEqual(f[3900], {'type': 'RMTES', 'text': '42'})
        self.assertEqual(f[3854], {'type': 'UINT', 'value': 61_005})
        self.assertEqual(f[379], {'type': 'TIME', 'hour': 0, 'minute': 1, 'second': 1, 'nanosecond': 0})
        self.assertEqual(
            f[14266], {'type': 'TIME', 'hour': 0, 'minute': 1, 'second': 1, 'nanosecond': 5_000_000}
        )
        self.assertEqual(f[16], {'type': 'DATE', 'year': 2024, 'month': 8, 'day': 8})

    def test_volume_is_exact_when_sizes_have_different_decimals(self):
        f = self.fields(spot_trade('1.0', '0.1'), spot_trade('1.0', '0.02'), spot_trade('1.0', '3'))
        self.assertEqual(f[32], {'type': 'REAL', 'mantissa': 312, 'hint': 12})

    def test_whole_sizes_add_up_to_whole_volumes(self):
        f = self.fields(spot_trade('61804.8', '4'), spot_trade('61804.8', '1'))
        self.assertEqual(f[32], {'type': 'REAL', 'mantissa': 5, 'hint': 14})

    def test_the_tick_compares_with_the_previous_different_price(self):
        for prices, tick in (
            (['5.0'], 0),
            (['5.0', '5.0'], 0),
            (['5.0', '5.1'], 1),
            (['5.0', '5.1', '5.1'], 1),
            (['5.0', '5.1', '5.1', '5.0'], 2),
            (['9.0', '10.0'], 1),
            (['5.0', '5.00'], 0),
        ):
            with self.subTest(prices):
                self.assertEqual(
                    self.fields(*[spot_trade(p) for p in prices])[14], {'type': 'ENUM', 'value': tick}
                )

    def test_fields_of_what_never_came_are_absent(self):
        self.assertEqual(set(self.fields(spot_diff(1, 2), snapshot(1))), {3, 3422})
        self.assertNotIn(6, self.fields(spot_quote()))
        self.assertNotIn(22, self.fields(spot_trade('1.0')))


class MarketByPrice(OneRecording):
    def test_levels_carry_price_side_size_and_time(self):
        levels = self.levels(
            spot_diff(8, 11, at_ms=MIDNIGHT_MS + 5, asks=[['10.2', '0.50']]),
            snapshot(10, [['10.0', '1.25']]),
            start_ns=(MIDNIGHT_MS + 1000) * 1_000_000 + 999_999,
        )
        self.assertEqual(
            levels,
            {
                '10.0B': {
                    3427: {'type': 'REAL', 'mantissa': 100, 'hint': 13},
                    3428: {'type': 'ENUM', 'value': 1},
                    3429: {'type': 'REAL', 'mantissa': 125, 'hint': 12},
                    6527: {'type': 'UINT', 'value': 1001},
                },
                '10.2A': {
                    3427: {'type': 'REAL', 'mantissa': 102, 'hint': 13},
                    3428: {'type': 'ENUM', 'value': 2},
                    3429: {'type': 'REAL', 'mantissa': 50, 'hint': 12},
                    6527: {'type': 'UINT', 'value': 5},
                },
            },
        )

    def test_a_futures_snapshot_stamps_its_levels_with_its_event_time(self):
        levels = self.levels(futures_diff(1, 5, 0), snapshot(5, [['1.0', '1']], E=MIDNIGHT_MS + 77))
        self.assertEqual(levels['1.0B'][6527]['value'], 77)

    def test_a_level_set_again_with_the_same_size_takes_the_new_time(self):
        levels = self.levels(
            spot_diff(1, 1),
            snapshot(10, [['1.0', '1']]),
            spot_diff(11, 12, [['1.0', '1']], at_ms=MIDNIGHT_MS + 9000),
        )
        self.assertEqual(levels['1.0B'][6527]['value'], 9000)

    def test_zero_removes_a_level_and_may_name_an_unknown_one(self):
        levels = self.levels(
            spot_diff(1, 1),
            snapshot(10, [['1.0', '1']], [['2.0', '3']]),
            spot_diff(11, 12, [['1.0', '0.000'], ['0.9', '0']]),
        )
        self.assertEqual(set(levels), {'2.0A'})

    def test_a_price_may_be_on_both_sides_at_different_times(self):
        levels = self.levels(
            spot_diff(1, 1), snapshot(10, [['1.0', '1']]), spot_diff(11, 12, [['1.0', '0']], [['1.0', '4']])
        )
        self.assertEqual(set(levels), {'1.0A'})

    def test_a_snapshot_that_comes_first_waits_for_the_instrument(self):
        self.assertEqual(set(self.levels(snapshot(10, [['1.0', '1']]), spot_quote())), {'1.0B'})


class JoiningSnapshotAndDiffs(unittest.TestCase):
    """The rule of the venue, at its edges. L is 100."""

    def book(self, futures, *diffs):
        book = Book(futures)
        book.on_snapshot(100, [['1.0', '1']], [], 0)
        for number, diff in enumerate(diffs, 2):
            first, last, previous = (list(diff) + [None])[:3]
            book.on_diff(
                {'U': first, 'u': last, 'pu': previous, 'E': 1, 'b': [['1.0', str(number)]], 'a': []}
            )
        return book.sides[BID].levels['1.0'].size, book.last_id

    def test_spot_drops_what_the_snapshot_holds(self):
        self.assertEqual(self.book(False, (90, 100)), ('1', None))
        self.assertEqual(self.book(False, (90, 101)), ('2', 101))
        self.assertEqual(self.book(False, (101, 101)), ('2', 101))

    def test_spot_refuses_a_first_diff_that_does_not_reach_back(self):
        with self.assertRaisesRegex(BookError, 'missing'):
            self.book(False, (102, 105))

    def test_spot_diffs_follow_one_another(self):
        self.assertEqual(self.book(False, (90, 101), (102, 110))[1], 110)
        for gap in ((103, 110), (101, 110)):
            with self.assertRaisesRegex(BookError, 'gap'):
                self.book(False, (90, 101), gap)

    def test_futures_keep_the_diff_that_ends_with_the_snapshot(self):
        self.assertEqual(self.book(True, (90, 99, 80)), ('1', None))
        self.assertEqual(self.book(True, (90, 100, 80)), ('2', 100))
        self.assertEqual(self.book(True, (100, 120, 80)), ('2', 120))

    def test_futures_refuse_a_first_diff_that_does_not_reach_back(self):
        with self.assertRaisesRegex(BookError, 'missing'):
            self.book(True, (101, 120, 90))

    def test_futures_diffs_are_chained_by_pu(self):
        self.assertEqual(self.book(True, (90, 101, 80), (150, 160, 101))[1], 160)
        with self.assertRaisesRegex(BookError, 'gap'):
            self.book(True, (90, 101, 80), (102, 160, 102))

    def test_diffs_before_the_snapshot_wait_for_it(self):
        book = Book(False)
        book.on_diff({'U': 95, 'u': 100, 'E': 1, 'b': [['1.0', '7']], 'a': []})
        book.on_diff({'U': 101, 'u': 103, 'E': 1, 'b': [], 'a': [['2.0', '8']]})
        self.assertEqual(book.sides[ASK].levels, {})
        book.on_snapshot(100, [['1.0', '1']], [], 0)
        self.assertEqual((book.sides[BID].levels['1.0'].size, book.sides[ASK].levels['2.0'].size), ('1', '8'))

    def test_a_book_without_snapshot_or_with_two_is_refused(self):
        book = Book(False)
        book.on_diff({'U': 1, 'u': 2, 'E': 1, 'b': [], 'a': []})
        with self.assertRaisesRegex(BookError, 'no snapshot'):
            book.end()
        book.on_snapshot(1, [], [], 0)
        book.end()
        with self.assertRaisesRegex(BookError, 'second snapshot'):
            book.on_snapshot(2, [], [], 0)

    def test_two_texts_of_one_price_are_refused(self):
        book = Book(False)
        with self.assertRaisesRegex(BookError, 'decimals'):
            book.on_snapshot(1, [['1.0', '1'], ['1.00', '1']], [], 0)

    def test_the_best_level_follows_removals(self):
        book = Book(False)
        book.on_snapshot(1, [['9.8', '1'], ['9.9', '1'], ['9.7', '1']], [['10.2', '1'], ['10.1', '1']], 0)
        book.on_diff({'U': 2, 'u': 2, 'E': 1, 'b': [['9.9', '0']], 'a': [['10.1', '0'], ['10.2', '0']]})
        self.assertEqual(book.sides[BID].best().price, '9.8')
        self.assertIsNone(book.sides[ASK].best())
        book.on_diff({'U': 3, 'u': 3, 'E': 1, 'b': [['9.9', '5']], 'a': []})
        self.assertEqual((book.sides[BID].best().price, book.sides[BID].best().size), ('9.9', '5'))


class SelfChecks(OneRecording):
    BOOK = (
        spot_diff(1, 1),
        snapshot(10, [['10.0', '1.5']], [['10.2', '2']]),
        spot_diff(11, 12, [['9.0', '1']]),
    )

    def wrong(self, *messages):
        instrument = self.instrument(*messages)
        return instrument.check.finish(), instrument.check.compared_count

    def test_agreement_is_counted(self):
        quote = spot_quote(u=12, bid='10.0', bid_size='1.5', ask='10.2', ask_size='2')
        self.assertEqual(self.wrong(*self.BOOK, quote), ([], 1))

    def test_a_quote_after_the_last_diff_is_not_compared(self):
        self.assertEqual(self.wrong(*self.BOOK, spot_quote(u=13, bid='10.1')), ([], 0))

    def test_a_different_price_or_size_is_a_contradiction(self):
        for wrong in ({'bid': '10.1'}, {'ask_size': '2.5'}):
            quote = dict(dict(u=12, bid='10.0', bid_size='1.5', ask='10.2', ask_size='2'), **wrong)
            found, compared = self.wrong(*self.BOOK, spot_quote(**quote))
            self.assertEqual((len(found), compared), (1, 1))

    def test_many_contradictions_are_cut_and_counted(self):
        diffs = [spot_diff(n, n, [['9.0', '1']]) for n in range(13, 22)]
        found, compared = self.wrong(*self.BOOK, *diffs, spot_quote(u=12, bid='10.1'))
        self.assertEqual((len(found), compared, found[-1]), (6, 10, 'and 5 more'))

    def test_best_quotes_must_come_in_order(self):
        quotes = [spot_quote(u=u) for u in (100, 100, 101)]
        self.assertEqual(self.wrong(*quotes), ([], 0))
        self.assertEqual(self.wrong(*quotes, spot_quote(u=99))[0], ['best quote 99 comes after 101'])

    def test_a_locked_book_is_crossed(self):
        found, _ = self.wrong(spot_diff(1, 1), snapshot(10, [['10.0', '1']], [['10.0', '1']]))
        self.assertEqual(len(found), 1)

    def test_a_crossed_book_is_found(self):
        found, _ = self.wrong(
            spot_diff(1, 1),
            snapshot(10, [['9.9', '1']], [['10.0', '1']]),
            spot_diff(11, 12, [['10.0', '1']]),
            spot_diff(13, 13, [['10.0', '0']]),
        )
        self.assertEqual(len(found), 1)
        self.assertIn('crossed after update 12', found[0])


class Recordings(OneRecording):
    def refused(self, text, *messages):
        with self.assertRaisesRegex(BadRecording, text):
            self.instrument(*messages)

    def test_a_second_instrument_is_refused(self):
        self.refused(
            'second instrument, ETHUSDT',
            spot_quote(),
            frame('e@bookTicker', u=1, s='ETHUSDT', b='1', B='1', a='2', A='1'),
        )
        self.refused('second instrument, BTCUSDT.PERP', spot_quote(), futures_diff(1, 2, 0))

    def test_unreadable_lines_name_their_place(self):
        self.refused(':1: neither', {'hello': 1})
        self.refused(
            ":2: the frame lacks or misstates 'p'",
            spot_quote(),
            frame('b@trade', s='BTCUSDT', q='1', T=1, t=1),
        )
        self.refused(':1: .*not a decimal', spot_trade('abc'))
        for text, reason in (
            ('hello\n', 'receive time'),
            ('12345\n', 'receive time'),
            ('1x {}\n', 'receive time'),
            ('12 {"a":\n', 'no JSON'),
            ('12 []\n', 'no JSON object'),
        ):
            with tempfile.NamedTemporaryFile('w', suffix='.jsonl') as f, self.assertRaisesRegex(
                BadRecording, ':1: .*' + reason
            ):
                f.write(text)
                f.flush()
                reckon.read_recording(f.name)

    def test_other_streams_are_passed_over_and_counted(self):
        i = self.instrument(
            frame('b@markPrice', s='BTCUSDT', p='1'), spot_quote(), frame('b@markPrice', s='BTCUSDT', p='1')
        )
        self.assertEqual(dict(i.ignored), {'markPrice': 1})
        self.assertEqual(i.level1.trade_count, 0)
        self.assertEqual(i.images()['6'][22]['mantissa'], 1000)

    def test_the_exit_status_tells_usable_from_not(self):
        def main(*messages):
            with tempfile.NamedTemporaryFile('w', suffix='.jsonl') as f:
                f.writelines('1 %s\n' % json.dumps(message) for message in messages)
                f.flush()
                with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                    return reckon.main([f.name])

        self.assertEqual(main(spot_quote()), 0)
        self.assertEqual(main({'hello': 1}), 1)
        self.assertEqual(main(spot_diff(1, 1), snapshot(10, [['2', '1']], [['1', '1']])), 1)
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(reckon.main(['/nowhere/x.jsonl']), 1)

    def test_images_go_to_the_output_file(self):
        with tempfile.TemporaryDirectory() as d:
            paths = [os.path.join(d, name) for name in ('in.jsonl', 'out')]
            with open(paths[0], 'w') as f:
                f.write('1 %s\n' % json.dumps(spot_quote()))
            with contextlib.redirect_stderr(io.StringIO()):
                self.assertEqual(reckon.main(['--output', paths[1], paths[0]]), 0)
            with open(paths[1]) as f:
                self.assertEqual(json.load(f)['BTCUSDT']['6']['22']['mantissa'], 1000)

    def test_without_zstd_the_text_says_what_to_install(self):
        path, os.environ['PATH'] = os.environ['PATH'], ''
        try:
            with self.assertRaisesRegex(BadRecording, 'install the program `zstd`'):
                list(recording._through_the_tool('x.zst'))
        finally:
            os.environ['PATH'] = path

    def test_a_damaged_zst_file_is_refused(self):
        with tempfile.NamedTemporaryFile(suffix='.zst') as f:
            f.write(b'this is no zstd frame')
            f.flush()
            with self.assertRaises(BadRecording):
                list(recording.lines(f.name))

    def test_the_committed_recordings_agree_with_the_venues_own_quotes(self):
        files = sorted(os.path.join(DATA, name) for name in os.listdir(DATA) if name.endswith('.zst'))
        said, out = io.StringIO(), io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(out):
            self.assertEqual(reckon.main(files), 0, said.getvalue())
        images = json.loads(out.getvalue())
        self.assertEqual(set(images), {'BTCUSDT', 'ETHUSDT', 'BTCUSDT.PERP', 'BTCUSD.PERP'})
        self.assertEqual(images['BTCUSDT']['6']['77']['mantissa'], 9757)
        self.assertEqual(images['BTCUSDT']['6']['22'], {'type': 'REAL', 'mantissa': 6168599000000, 'hint': 6})
        compared = {
            line.split(':')[0]: int(line.split('compared at ')[1].split()[0])
            for line in said.getvalue().splitlines()
        }
        self.assertEqual(
            compared, {'BTCUSDT': 3449, 'ETHUSDT': 3432, 'BTCUSDT.PERP': 2287, 'BTCUSD.PERP': 9433}
        )

    def test_one_item_from_two_recordings_is_refused(self):
        path = os.path.join(DATA, 'binance-spot_ethusdt_20240808.jsonl.zst')
        with self.assertRaisesRegex(BadRecording, 'second recording of ETHUSDT'):
            reckon.reckon([path, path])


if __name__ == '__main__':
    unittest.main()
