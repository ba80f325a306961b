"""python3 -m unittest discover -s interop/java/tests        (after `mvn package` in interop/java; needs zstd)

The judges against one another: images reckoned from the recordings go through an EMA provider to the
consumer, whose final images must compare equal. So what compare.py finds in a server under test is the
server's doing.
"""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, '..', '..', '..')
sys.path[:0] = [HERE, os.path.join(HERE, '..', '..', 'reckon')]
import compare
import reckon
from tools import Consumer, Provider, free_ports

RECORDINGS = os.path.join(ROOT, 'data', 'binance')
DICTIONARY = os.path.join(ROOT, 'data', 'dictionary')


def word(fid, value):
    """One field in the provider's language."""
    kind = value['type']
    if value.get('blank'):
        parts = []
    elif kind == 'REAL':
        parts = [value['mantissa'], value['hint']]
    elif kind == 'TIME':
        ns = value['nanosecond']
        parts = [value['hour'], value['minute'], value['second'], ns // 10**6, ns // 1000 % 1000, ns % 1000]
    elif kind == 'DATE':
        parts = [value['year'], value['month'], value['day']]
    else:
        parts = [value['text'] if kind == 'RMTES' else value['value']]
    return '%s=%s:%s' % (fid, kind, ':'.join(map(str, parts)))


def payload(domain, image):
    fields = lambda one: ' '.join(word(fid, value) for fid, value in one.items())
    return fields(image) if domain == '6' else ' '.join('+%s %s' % (key, fields(image[key])) for key in image)


class ReckonedImages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        names = sorted(n for n in os.listdir(RECORDINGS) if n.endswith('.zst'))
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            assert reckon.main([os.path.join(RECORDINGS, n) for n in names]) == 0
        cls.expected = json.loads(out.getvalue())

    def compared(self, images):
        """compare.py's exit status and words for what the consumer saw of these images."""
        port = free_ports()
        provider = Provider(
            port,
            images=[
                '%s %s %s' % (domain, item, payload(domain, image))
                for item, both in images.items()
                for domain, image in both.items()
            ],
            fields=os.path.join(DICTIONARY, 'tickcast-fields.dic'),
            enums=os.path.join(DICTIONARY, 'tickcast-enums.def'),
        )
        self.addCleanup(provider.kill)
        watched = [
            w for item, both in images.items() for domain in both for w in ('--item', domain + ':' + item)
        ]
        consumer = Consumer(port, '--check-map', *watched)
        self.addCleanup(consumer.kill)
        status, result, _ = consumer.result()
        self.assertEqual((status, result['reasons']), (0, []))
        with tempfile.TemporaryDirectory() as d:
            paths = [os.path.join(d, name) for name in ('expected', 'actual')]
            with open(paths[0], 'w') as f:
                json.dump(self.expected, f)
            with open(paths[1], 'w') as f:
                f.writelines(json.dumps(event) + '\n' for event in consumer.events)
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                return compare.main(paths), said.getvalue()

    def test_the_images_of_all_items_come_through_equal(self):
        status, said = self.compared(self.expected)
        self.assertEqual(status, 0, said)
        self.assertEqual(said.count(': equal\n'), 8)

    def test_one_wrong_digit_in_one_level_is_found(self):
        wrong = json.loads(json.dumps(self.expected))
        key = sorted(wrong['BTCUSDT']['8'])[100]
        wrong['BTCUSDT']['8'][key]['3429']['mantissa'] += 1
        wrong['ETHUSDT']['6']['22'] = {'type': 'REAL', 'mantissa': 26825, 'hint': 13}
        status, said = self.compared(wrong)
        self.assertEqual(status, 1)
        self.assertIn('BTCUSDT domain 8: 1 differences\n  %s field 3429: expected' % key, said)
        self.assertIn('ETHUSDT domain 6: 1 differences\n  field 22: expected 2682.50000000 ', said)
        self.assertIn('the value is equal, the form differs', said)
        self.assertEqual(said.count(': equal\n'), 6)


if __name__ == '__main__':
    unittest.main()
