"""The images that must be there at the end of a recording, reckoned from it without code of the system."""

import functools
import glob
import json
import os
import sys

from process import ROOT

sys.path.insert(0, os.path.join(ROOT, 'interop', 'reckon'))
import compare
import reckon

SAMPLE = tuple(sorted(glob.glob(os.path.join(ROOT, 'data', 'binance', '*.zst'))))
FULL = tuple(sorted(glob.glob(os.path.join(ROOT, '..', 'shared', 'data', 'open', 'crypto', 'binance-*.zst'))))
NAMES = ('BTCUSDT', 'ETHUSDT', 'BTCUSDT.PERP', 'BTCUSD.PERP')
DOMAINS = (6, 8)
ITEMS = tuple((name, domain) for domain in DOMAINS for name in NAMES)


@functools.lru_cache(maxsize=None)
def images(recordings=SAMPLE):
    """{item: {domain: image}} after these recordings."""
    found, problems = reckon.reckon(recordings)
    assert found and not problems, problems
    return json.loads(json.dumps(found))  # with names of fields, as consumers write them


def differences(finals, recordings=SAMPLE, watched_only=False):
    """What is wrong with these final images, {(item, domain): line}, in words; empty if nothing is."""
    finals = {(name, str(domain)): final for (name, domain), final in finals.items()}
    blank = {key: 'has no image' for key, final in finals.items() if not {'fields', 'entries'} & final.keys()}
    seen = {key: final for key, final in finals.items() if key not in blank}
    result = compare.compare(images(recordings), seen, (), True)
    lines = ['%s %s: %s' % (*key, text) for key, texts in result.items() for text in texts[:5]]
    lines += ['%s %s: %s' % (*key, text) for key, text in blank.items()]
    if not watched_only:
        wanted = {(name, str(domain)) for name, domain in ITEMS}
        lines += ['%s %s: was not watched' % key for key in sorted(wanted - finals.keys())]
    return lines
