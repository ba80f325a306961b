"""The clients of interop/python, and final images as the JSON protocol writes them."""

import hashlib
import os
import subprocess
import sys
from fractions import Fraction

import expected
from consumers import Consumer
from expected import ITEMS
from process import ROOT

FOLDER = os.path.join(ROOT, 'interop', 'python')
BOOK = 8


def python():
    """An interpreter that has the packages; they are installed the first time."""
    given = os.environ.get('PYTHON_CLIENTS')
    if given:
        return given
    with open(os.path.join(FOLDER, 'requirements.txt'), 'rb') as f:
        digest = hashlib.sha256(f.read()).hexdigest()[:12]
    target = os.environ.get('CARGO_TARGET_DIR', os.path.join(ROOT, 'target'))
    place = os.path.join(target, 'interop-python')
    interpreter, done = os.path.join(place, 'bin', 'python'), os.path.join(place, digest)
    if not os.path.exists(done):
        subprocess.run([sys.executable, '-m', 'venv', '--clear', place], check=True)
        wanted = os.path.join(FOLDER, 'requirements.txt')
        subprocess.run([interpreter, '-m', 'pip', 'install', '-q', '-r', wanted], check=True)
        open(done, 'w').close()
    return interpreter


class PlainClient(Consumer):
    """interop/python/plain.py. It watches until `finish`."""

    def __init__(self, name, server, directory, items=ITEMS, options=(), is_conflated=False):
        self.until = os.path.join(directory, name + '.until')
        words = [python(), os.path.join(FOLDER, 'plain.py'), '--host', server, '--until', self.until, *options]
        for item, domain in items:
            words += ['--item', '%d:%s' % (domain, item)]
        super().__init__(name, words, directory, items, is_conflated)

    def finish(self):
        """(exit status, {(item, domain): final line})"""
        open(self.until, 'w').close()
        status = self.wait()
        self.look()
        return status, self.finals


def differences(finals, recordings=expected.SAMPLE, fields=None):
    """What is wrong with these final images, in words; of `fields` alone if some are named."""
    wanted = {(item, int(d)): image for item, images in expected.images(recordings).items() for d, image in images.items()}
    found = ['%s %s: was not watched' % key for key in wanted.keys() - finals.keys()]
    for key, final in finals.items():
        found += ['%s %s: %s' % (*key, text) for text in _differences(key, wanted[key], final, fields)]
    return found


def _differences(key, wanted, final, fields):
    if final['state']['data'] != 'Ok':
        yield 'final state %s' % final['state']
    if key[1] != BOOK:
        yield from _field_differences('', wanted, final['fields'], fields)
        return
    for entry in wanted.keys() | final['entries'].keys():
        if entry not in wanted or entry not in final['entries']:
            yield 'entry %s is in one image only' % entry
        else:
            yield from _field_differences(entry + ' ', wanted[entry], final['entries'][entry], fields)


def _field_differences(place, wanted, seen, fields):
    names, enums = _dictionary()
    wanted = {names[fid]: _json(value, enums.get(fid, {})) for fid, value in wanted.items()}
    if fields is not None:
        wanted = {name: value for name, value in wanted.items() if name in fields}
    for name in wanted.keys() | seen.keys():
        if name not in wanted or name not in seen:
            yield '%sfield %s is in one image only' % (place, name)
        elif not _same(wanted[name], seen[name]):
            yield '%sfield %s: expected %s, got %s' % (place, name, wanted[name], seen[name])


def _same(wanted, seen):
    if isinstance(wanted, Fraction):
        return seen is not None and Fraction(seen) == wanted
    return wanted == seen


def _json(value, displays):
    """A value of the reckoning as the protocol writes it; a number as such."""
    kind = value['type']
    if value.get('blank'):
        return None
    if kind == 'REAL':
        return value['mantissa'] * Fraction(10) ** (value['hint'] - 14)
    if kind in ('UINT', 'INT'):
        return Fraction(value['value'])
    if kind == 'ENUM':
        return displays.get(value['value'], value['value'])
    if kind == 'DATE':
        return '%04d-%02d-%02d' % (value['year'], value['month'], value['day'])
    if kind == 'TIME':
        fraction = ('.%09d' % value['nanosecond']).rstrip('0').rstrip('.')
        return '%02d:%02d:%02d%s' % (value['hour'], value['minute'], value['second'], fraction)
    return value['text']


def _dictionary():
    """({fid: name}, {fid: {value: display}}) of the dictionary that the daemons have."""
    if not _read:
        folder = os.path.join(ROOT, 'data', 'dictionary')
        names, enums, fids, is_open = {}, {}, [], False
        for words in _lines(os.path.join(folder, 'tickcast-fields.dic')):
            names[words.split('"')[2].split()[0]] = words.split()[0]
        for words in _lines(os.path.join(folder, 'tickcast-enums.def')):
            if '"' not in words:
                fids = fids + [words.split()[1]] if is_open else [words.split()[1]]
                is_open = True
            else:
                is_open = False
                for fid in fids:
                    enums.setdefault(fid, {})[int(words.split()[0])] = words.split('"')[1]
        _read.append((names, enums))
    return _read[0]


_read = []


def _lines(path):
    with open(path) as f:
        return [line for line in f if line.strip() and not line.startswith('!')]
