"""Configurations: the examples are right, mistakes are named, the reference is what the document says."""

import glob
import os
import subprocess
import tempfile
import unittest

from daemons import binary
from process import ROOT

EXAMPLES = sorted(glob.glob(os.path.join(ROOT, 'examples', '*.toml')))
REFERENCE = os.path.join(ROOT, 'docs', 'configuration.md')


def config(*words):
    """(exit status, all that it said)"""
    words = [binary(), 'config', *words]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


class Config(unittest.TestCase):
    def check(self, text):
        with tempfile.NamedTemporaryFile('w', suffix='.toml') as f:
            f.write(text)
            f.flush()
            return config('check', f.name)

    def test_every_example_is_right(self):
        self.assertGreaterEqual(len(EXAMPLES), 3)
        for path in EXAMPLES:
            with self.subTest(example=os.path.basename(path)):
                status, said = config('check', path)
                self.assertEqual(status, 0, said)

    def test_what_follows_from_a_key_is_told(self):
        status, said = config('check', os.path.join('examples', 'lbm-2009.toml'))
        self.assertEqual(status, 0, said)
        self.assertIn('note: messaging.lbtrm.nak_backoff_interval_us is 0: 30000', said)
        status, said = config('check', os.path.join('examples', 'p2ps.toml'))
        self.assertNotIn('note:', said)

    def test_an_unknown_key_is_named_with_its_line_and_the_nearest_known_one(self):
        status, said = self.check('[p2ps]\n\nrssl_prot = 14002\n')
        self.assertEqual(status, 2, said)
        self.assertRegex(said, r':3\b|line 3')
        self.assertIn('rssl_prot', said)
        self.assertIn('rssl_port', said.replace('rssl_prot', ''))

    def test_a_value_out_of_range_is_named_with_its_line_and_the_range(self):
        status, said = self.check('[p2ps]\nrssl_port = 70000\n')
        self.assertEqual(status, 2, said)
        self.assertRegex(said, r':2\b|line 2')
        self.assertIn('65535', said)

    def test_all_mistakes_of_a_file_are_told_at_once(self):
        status, said = self.check('[p2ps]\nrssl_prot = 1\n[admni]\nport = 1\n')
        self.assertEqual(status, 2, said)
        self.assertIn('rssl_prot', said)
        self.assertIn('admni', said)

    def test_what_is_no_toml_is_told_with_its_line(self):
        status, said = self.check('[p2ps]\nrssl_port = = 1\n')
        self.assertEqual(status, 2, said)
        self.assertRegex(said, r':2\b|line 2')

    def test_a_daemon_does_not_start_with_an_unknown_key(self):
        words = [binary(), 'p2ps', '--set', 'p2ps.rssl_prot=1']
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=30)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn('rssl_port', done.stdout)

    def test_show_tells_where_a_value_comes_from(self):
        status, said = config('show', '--config', os.path.join('examples', 'p2ps.toml'))
        self.assertEqual(status, 0, said)
        self.assertRegex(said, r'name += "p2ps-1" +# examples/p2ps\.toml:\d+')

    @unittest.skipUnless(os.path.exists(REFERENCE), 'docs/configuration.md is not there')
    def test_the_reference_is_the_document(self):
        status, said = config('reference')
        self.assertEqual(status, 0)
        with open(REFERENCE, encoding='utf-8') as f:
            self.assertEqual(said, f.read())


if __name__ == '__main__':
    unittest.main()
