"""python3 -m unittest discover -s interop/java/tests        (after `mvn package` in interop/java)

The consumer against an interactive provider that is not ours: EMA tools kept in ../shared/interop/java beside
the checkout. They are copied and built for the test; where they are not there, nothing is tested.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from tools import HERE, Consumer, Tool, free_ports

SOURCE = os.path.join(HERE, '..', '..', '..', '..', 'shared', 'interop', 'java')


class OtherProvider(Tool):
    def __init__(self, jar, port, *options):
        super().__init__(
            ['java', '-Xmx1g', '-jar', jar, 'iprovider', '--port', str(port), '--interval-ms', '50']
            + list(options),
            cwd=os.path.dirname(os.path.dirname(jar)),
        )
        self.wait_ev('ready')


@unittest.skipUnless(os.path.isdir(SOURCE), 'there is no other provider beside this checkout')
class WithOtherProvider(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        copy = os.path.join(cls.directory.name, 'java')
        shutil.copytree(SOURCE, copy, copy_function=shutil.copyfile)
        for path, directories, files in os.walk(copy):
            for name in directories + files:
                os.chmod(os.path.join(path, name), 0o755)
        os.chmod(copy, 0o755)
        subprocess.run(['mvn', '-q', 'package'], cwd=copy, check=True, stdout=subprocess.DEVNULL)
        cls.jar = os.path.join(copy, 'target', 'rssl-interop.jar')

    def provider(self, *options):
        provider = OtherProvider(self.jar, self.port, *options)
        self.addCleanup(provider.kill)
        return provider

    def consumer(self, *options):
        consumer = Consumer(self.port, *options, service='DIRECT_FEED')
        self.addCleanup(consumer.kill)
        return consumer

    def setUp(self):
        self.port = free_ports()

    def ok(self, consumer):
        status, result, finals = consumer.result()
        self.assertEqual((status, result['status'], result['reasons']), (0, 'OK', []))
        return result, finals

    def test_images_updates_and_numbers(self):
        self.provider('--items', 'A,B', '--seq-nums')
        result, finals = self.ok(self.consumer('--items', 'A,B', '--updates', '20', '--check-seq'))
        for item in result['items']:
            final = finals[item['item'], 6]
            # Its updates raise the bid by a tick each, from 39.90.
            self.assertEqual(final['fields']['22']['mantissa'], 3990 + item['updates'])
            self.assertEqual(final['fields']['22']['hint'], 12)
            self.assertEqual(final['fields']['15'], {'type': 'ENUM', 'value': 840, 'display': 'USD'})
            self.assertEqual(item['sequence']['last'], 1 + item['updates'])

    def test_every_type(self):
        self.provider('--items', 'A', '--all-types')
        _, finals = self.ok(self.consumer('--items', 'A'))
        fields = finals['A', 6]['fields']
        self.assertEqual(
            fields['-7'],
            {
                'type': 'TIME',
                'hour': 23,
                'minute': 59,
                'second': 59,
                'nanosecond': 999888777,
                'text': '23:59:59.999888777',
            },
        )
        self.assertEqual(fields['-5'], {'type': 'REAL', 'mantissa': 17, 'hint': 27, 'text': '0.53125'})
        self.assertEqual(fields['-12']['text'], 'h\u00e9llo \u20ac')
        self.assertEqual(fields['19'], {'type': 'REAL', 'blank': True})

    def test_books_and_prices_of_one_name(self):
        self.provider('--items', 'A')
        result, finals = self.ok(self.consumer('--item', '6:A', '--item', '8:A', '--check-map'))
        self.assertEqual(sorted(finals['A', 8]['entries']), ['ORD0', 'ORD1', 'ORD2'])
        self.assertEqual(
            finals['A', 8]['entries']['ORD2']['3428'], {'type': 'ENUM', 'value': 2, 'display': 'ASK'}
        )
        self.assertEqual(finals['A', 8]['summary']['15']['value'], 840)
        self.assertEqual(result['images'], 2)

    def test_an_image_of_many_fragments(self):
        self.provider('--items', 'A', '--big-refresh', '3000')
        _, finals = self.ok(self.consumer('--items', 'A'))
        self.assertEqual(finals['A', 6]['fields']['-11']['text'], 'filler-02999-abcdefghijklmnopqrstuvwxyz')

    def test_compressed_connections(self):
        for name in ('zlib', 'lz4'):
            self.port = free_ports()
            provider = self.provider('--items', 'A', '--compression', name)
            self.ok(self.consumer('--items', 'A', '--updates', '5', '--compression', name))
            provider.kill()

    def test_unknown_items_and_streams_that_end(self):
        self.provider('--items', 'A', '--close-after-updates', '5')
        result, finals = self.ok(
            self.consumer(
                '--items', 'A,NOPE', '--expect-closed', '6:NOPE=NotFound', '--expect-closed', '6:A=None'
            )
        )
        self.assertEqual(finals['A', 6]['state']['text'], 'stream ended by provider')
        self.assertEqual(result['items'][0]['updates'], 5)

    def test_a_restart_of_the_provider(self):
        provider = self.provider('--items', 'A')
        consumer = self.consumer('--items', 'A', '--expect-status', 'Ok,Suspect,Ok', '--show-updates')
        consumer.wait_ev('update')
        provider.kill()
        consumer.wait_for(lambda e: e['ev'] == 'status' and e['state']['data'] == 'Suspect')
        self.provider('--items', 'A')
        result, _ = self.ok(consumer)
        self.assertEqual(
            [(s['stream'], s['data']) for s in result['items'][0]['states']],
            [('Open', 'Ok'), ('Open', 'Suspect'), ('Open', 'Ok')],
        )
        self.assertEqual(result['login']['state_changes'], 3)

    def test_dictionaries_are_downloaded(self):
        self.provider('--items', 'A')
        consumer = self.consumer('--items', 'A')
        self.ok(consumer)
        self.assertEqual(consumer.wait_ev('dictionary', name='RWFFld')['entries'], 47)
        self.assertEqual(consumer.wait_ev('dictionary', name='RWFEnum')['tables'], 4)


if __name__ == '__main__':
    unittest.main()
