#!/usr/bin/env python3
"""reckon.py [--output FILE] RECORDING...

Computes what the images of all items must be after the whole of each recording has been played, without any
code of the feed that plays it. A recording holds one instrument: its best quotes (bookTicker), trades and
depth as the venue's web sockets sent them. Files ending in .zst need the program `zstd` (or the Python
package `zstandard`).

Prints {ITEM: {"6": {FID: VALUE}, "8": {KEY: {FID: VALUE}}}} as JSON; values.py says how a VALUE looks. On
stderr one line per item says how far the rebuilt book and the venue's best quotes agree.

Exit status: 0 done and consistent, 1 a recording is unusable or contradicts itself, 2 wrong usage.
"""

import argparse
import collections
import json
import sys

from book import ASK, BID, Book, BookError
from level1 import Level1
from recording import BadRecording, lines
from selfcheck import SelfCheck
from values import NotDecimal, decimal, enum, ms_of_day, real, uint

MARKET_PRICE, MARKET_BY_PRICE = '6', '8'
ORDER_PRC, ORDER_SIDE, ORDER_SIZE, LV_TIM_MS = 3427, 3428, 3429, 6527
SIDE_ENUM = {BID: 1, ASK: 2}


class Instrument:
    """Everything one recording says about its instrument."""

    def __init__(self, symbol, futures):
        self.symbol, self.futures = symbol, futures
        self.item = item_name(symbol, futures)
        self.check = SelfCheck()
        self.level1 = Level1(self.item, symbol)
        self.book = Book(futures, self.check.on_book)
        self.ignored = collections.Counter()

    def on_frame(self, kind, data, receive_ns):
        """`kind` is bookTicker, trade or depth."""
        if kind == 'bookTicker':
            self.level1.on_quote(data, data['E'] * 1_000_000 if self.futures else receive_ns)
            self.check.on_quote(data['u'], data)
        elif kind == 'trade':
            self.level1.on_trade(data)
        else:
            self.book.on_diff(data)

    def on_snapshot(self, snapshot, receive_ns):
        set_ns = snapshot['E'] * 1_000_000 if self.futures else receive_ns
        self.book.on_snapshot(snapshot['lastUpdateId'], snapshot['bids'], snapshot['asks'], set_ns)

    def images(self):
        return {MARKET_PRICE: self.level1.fields(), MARKET_BY_PRICE: self._levels()}

    def _levels(self):
        return {
            level.price + letter: _level_fields(level, letter)
            for letter in (BID, ASK)
            for level in self.book.sides[letter].levels.values()
        }


def _level_fields(level, letter):
    return {
        ORDER_PRC: real(*decimal(level.price)),
        ORDER_SIDE: enum(SIDE_ENUM[letter]),
        ORDER_SIZE: real(*decimal(level.size)),
        LV_TIM_MS: uint(ms_of_day(level.set_ns)),
    }


def item_name(symbol, futures):
    """BTCUSDT is the spot item; BTCUSDT and BTCUSD_PERP as futures are BTCUSDT.PERP and BTCUSD.PERP."""
    if not futures:
        return symbol
    name = symbol.replace('_', '.')
    return name if '.' in name else name + '.PERP'


def classify(message):
    """(kind, symbol, futures) of a web socket frame; futures is None where the frame does not tell."""
    data = message['data']
    kind = message['stream'].split('@')[1]
    mark = {'bookTicker': 'E', 'trade': 'X', 'depth': 'pu'}.get(kind)
    return kind, data.get('s'), None if mark is None else mark in data


def read_recording(path):
    """The Instrument after the last line of the file."""
    instrument, snapshots = None, []
    for place, receive_ns, message in lines(path):
        try:
            if 'lastUpdateId' in message:
                snapshots.append((message, receive_ns))
            elif 'stream' in message:
                instrument = _on_frame(instrument, message, receive_ns)
            else:
                raise BadRecording('neither a stream frame nor a depth snapshot')
            # A snapshot names no instrument; one that comes first waits until a frame has told it.
            while instrument and snapshots:
                instrument.on_snapshot(*snapshots.pop(0))
        except (BadRecording, BookError, NotDecimal) as e:
            raise BadRecording('%s: %s' % (place, e))
        except (KeyError, TypeError, IndexError, ValueError) as e:
            raise BadRecording('%s: the frame lacks or misstates %s' % (place, e))
    if instrument is None:
        raise BadRecording('%s: no frame of any stream' % path)
    try:
        instrument.book.end()
    except BookError as e:
        raise BadRecording('%s: %s' % (path, e))
    return instrument


def _on_frame(instrument, message, receive_ns):
    kind, symbol, futures = classify(message)
    if futures is None:
        if instrument:
            instrument.ignored[kind] += 1
        return instrument
    if instrument is None:
        instrument = Instrument(symbol, futures)
    elif (instrument.symbol, instrument.futures) != (symbol, futures):
        raise BadRecording(
            'a second instrument, %s, in the recording of %s' % (item_name(symbol, futures), instrument.item)
        )
    instrument.on_frame(kind, message['data'], receive_ns)
    return instrument


def reckon(paths, say=lambda text: None):
    """({item: images}, [problem])"""
    images, problems = {}, []
    for path in paths:
        instrument = read_recording(path)
        if instrument.item in images:
            raise BadRecording('%s: a second recording of %s' % (path, instrument.item))
        images[instrument.item] = instrument.images()
        wrong = instrument.check.finish()
        problems += ['%s: %s' % (instrument.item, text) for text in wrong]
        say(
            '%s: %d trades, %d levels, book and best quotes compared at %d diffs: %s%s'
            % (
                instrument.item,
                instrument.level1.trade_count,
                len(images[instrument.item][MARKET_BY_PRICE]),
                instrument.check.compared_count,
                'CONTRADICTION' if wrong else 'equal',
                ''.join('; %d %s frames ignored' % (n, kind) for kind, n in instrument.ignored.items()),
            )
        )
    return images, problems


def main(argv=None):
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('recordings', nargs='+')
    parser.add_argument('--output')
    options = parser.parse_args(argv)
    say = lambda text: print(text, file=sys.stderr)
    try:
        images, problems = reckon(options.recordings, say)
        out = open(options.output, 'w') if options.output else sys.stdout
        json.dump(images, out)
        out.write('\n')
        if out is not sys.stdout:
            out.close()
    except (BadRecording, OSError) as e:
        say('reckon: %s' % e)
        return 1
    for text in problems:
        say('reckon: %s' % text)
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
