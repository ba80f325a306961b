#!/usr/bin/env python3
"""compare.py [options] EXPECTED ACTUAL

Compares the images that reckon.py computed (EXPECTED) with the final images a consumer saw (ACTUAL: the
consumer's JSON lines, of which those with "ev": "final" count). Values must agree in type and form: mantissa
and hint of a REAL exactly. Where only the value is equal, the difference says so. Every item of EXPECTED must
have been watched, and no other.

  --ignore FID,FID    fields that are not compared (time stamps of the feed itself, for example)
  --watched-only      do not miss items that were not watched
  --any-state         do not require that the final state is Open/Ok (NonStreaming/Ok of a snapshot)
  --show N            print at most N differences of each image (20)

Exit status: 0 equal, 1 different, 2 wrong usage or unreadable input.
"""

import argparse
import json
import sys
from fractions import Fraction

BOOK_DOMAINS = ('7', '8')
GOOD_STATES = ('Open/Ok', 'NonStreaming/Ok')
# What the consumer adds for readers; it follows from the other parts.
ADDED = {'REAL': {'text'}, 'TIME': {'text'}, 'DATE': {'text'}, 'ENUM': {'display'}}


class Unreadable(Exception):
    """An input is not what it should be."""


def compare(expected, actual, ignore=(), watched_only=False, any_state=False):
    """{(item, domain): [difference]}; every image compared has an entry, an empty list where all is equal.

    `expected` is {item: {domain: image}}, `actual` is {(item, domain): final line}.
    """
    result = {}
    wanted = {(item, domain): image for item, images in expected.items() for domain, image in images.items()}
    for key, image in wanted.items():
        if key in actual:
            result[key] = _image(key[1], image, actual[key], ignore, any_state)
        elif not watched_only:
            result[key] = ['was not watched']
    for key in actual:
        if key not in wanted:
            result[key] = ['is not expected at all']
    return result


def _image(domain, expected, final, ignore, any_state):
    found = []
    state = '%s/%s' % (final['state']['stream'], final['state']['data'])
    if state not in GOOD_STATES and not any_state:
        found.append('final state is %s' % state)
    if domain not in BOOK_DOMAINS:
        return found + _fields('', expected, final['fields'], ignore)
    entries = final['entries']
    for key in sorted(expected.keys() | entries.keys()):
        if key not in entries:
            found.append('%s: missing, expected %s' % (key, _fields_text(expected[key])))
        elif key not in expected:
            found.append('%s: not expected, got %s' % (key, _fields_text(entries[key])))
        else:
            found += _fields(key + ' ', expected[key], entries[key], ignore)
    return found


def _fields(prefix, expected, actual, ignore):
    found = []
    for fid in sorted((expected.keys() | actual.keys()) - set(ignore), key=int):
        text = difference(expected.get(fid), actual.get(fid))
        if text:
            found.append('%sfield %s: %s' % (prefix, fid, text))
    return found


def difference(expected, actual):
    """None if both values are equal, else what is different."""
    if expected is None or actual is None:
        return (
            'not expected, got %s' % show(actual)
            if expected is None
            else 'missing, expected %s' % show(expected)
        )
    if _essence(expected) == _essence(actual):
        return None
    same = _number(expected) is not None and _number(expected) == _number(actual)
    return 'expected %s, got %s%s' % (
        show(expected),
        show(actual),
        ': the value is equal, the form differs' if same else '',
    )


def _essence(value):
    return {k: v for k, v in value.items() if k not in ADDED.get(value['type'], ())}


def _number(value):
    """The exact number of a value, None if it has none."""
    if value['type'] in ('UINT', 'INT') and 'value' in value:
        return Fraction(value['value'])
    if value['type'] != 'REAL' or 'mantissa' not in value:
        return None
    hint, mantissa = value['hint'], value['mantissa']
    if 0 <= hint <= 21:
        return mantissa * Fraction(10) ** (hint - 14)
    return Fraction(mantissa, 1 << (hint - 22)) if 22 <= hint <= 30 else None


def show(value):
    """One value for readers."""
    kind = value['type']
    if value.get('blank'):
        return '%s blank' % kind
    if kind == 'REAL' and 'mantissa' in value:
        return '%s (mantissa %d, hint %d)' % (_decimal_text(value), value['mantissa'], value['hint'])
    if kind == 'TIME':
        return 'TIME %s' % ':'.join(
            '-' if value[p] is None else str(value[p]) for p in ('hour', 'minute', 'second', 'nanosecond')
        )
    if kind == 'DATE':
        return 'DATE %s-%s-%s' % (value['year'], value['month'], value['day'])
    rest = {k: v for k, v in value.items() if k != 'type'}
    return '%s %s' % (kind, next(iter(rest.values())) if len(rest) == 1 else rest)


def _decimal_text(value):
    decimals = 14 - value['hint']
    if not 0 < decimals <= 14:
        number = _number(value)
        return 'no number' if number is None else str(number)
    digits = str(abs(value['mantissa'])).rjust(decimals + 1, '0')
    return '%s%s.%s' % ('-' if value['mantissa'] < 0 else '', digits[:-decimals], digits[-decimals:])


def _fields_text(fields):
    return ', '.join('%s = %s' % (fid, show(v)) for fid, v in sorted(fields.items(), key=lambda f: int(f[0])))


def read_expected(path):
    with open(path) as f:
        return json.load(f)


def read_finals(path):
    """{(item, domain): final line} from the consumer's lines."""
    finals = {}
    with open(path) as f:
        for number, line in enumerate(f, 1):
            try:
                event = json.loads(line)
            except ValueError:
                raise Unreadable('%s:%d is not a line of JSON' % (path, number))
            if event.get('ev') == 'final':
                finals[event['item'], str(event['domain'])] = event
    if not finals:
        raise Unreadable('%s holds no final image' % path)
    return finals


def report(result, show_count, say=print):
    for (item, domain), found in sorted(result.items()):
        say('%s domain %s: %s' % (item, domain, '%d differences' % len(found) if found else 'equal'))
        for text in found[:show_count]:
            say('  ' + text)
        if len(found) > show_count:
            say('  and %d more' % (len(found) - show_count))


def main(argv=None):
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('expected')
    parser.add_argument('actual')
    parser.add_argument('--ignore', default='')
    parser.add_argument('--watched-only', action='store_true')
    parser.add_argument('--any-state', action='store_true')
    parser.add_argument('--show', type=int, default=20)
    o = parser.parse_args(argv)
    try:
        result = compare(
            read_expected(o.expected),
            read_finals(o.actual),
            {f for f in o.ignore.split(',') if f},
            o.watched_only,
            o.any_state,
        )
    except (OSError, ValueError, KeyError, Unreadable) as e:
        print('compare: %s: %s' % (type(e).__name__, e), file=sys.stderr)
        return 2
    report(result, o.show)
    return 1 if not result or any(result.values()) else 0


if __name__ == '__main__':
    sys.exit(main())
