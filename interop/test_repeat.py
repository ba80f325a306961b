"""A random test that fails prints the command that repeats it, and the command does."""

import os
import shlex
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import repeat

PLANTED = """
import os, random, sys, unittest
sys.path.insert(0, %r)
import repeat

@repeat.printed
class Planted(unittest.TestCase):
    def test_draws(self):
        for seed in repeat.seeds(range(1, 20)):
            drawn = random.Random(seed).randrange(1000)
            print('drew', drawn)
            if seed == 7:
                repeat.show(repeat.unittest_command(os.path.dirname(os.path.abspath(__file__)), 'test_draws'), SEED=seed)
                self.fail('planted')

    def test_passes(self):
        pass
"""


def run(words, **variables):
    """The exit status, and what was printed."""
    environment = {name: value for name, value in os.environ.items() if name not in ('SEED', 'RUNS', 'FROM')}
    done = subprocess.run(
        words,
        cwd=repeat.ROOT,
        env={**environment, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def drawn(text):
    return [line for line in text.splitlines() if line.startswith('drew')]


class Repeated(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        with open(os.path.join(folder.name, 'test_planted.py'), 'w', encoding='utf-8') as file:
            file.write(PLANTED % HERE)

    def test_the_line_of_a_failure_repeats_it(self):
        status, text = run([sys.executable, '-m', 'unittest', 'discover', '-s', self.folder])
        self.assertEqual((status, len(drawn(text))), (1, 7), text)
        lines = [line for line in text.splitlines() if line.startswith('repeat with: ')]
        self.assertEqual(len(lines), 2, 'of the seed, and of the test: %s' % text)
        self.assertIn('\ncommit: ', text)
        for line, count in zip(lines, (1, 7)):
            words = shlex.split(line.removeprefix('repeat with: '))
            variables = dict(word.split('=') for word in words if '=' in word)
            status, again = run([word for word in words if '=' not in word], **variables)
            self.assertEqual((status, len(drawn(again))), (1, count), again)
            self.assertEqual(drawn(again), drawn(text)[-count:])

    def test_what_passes_prints_nothing(self):
        status, text = run([sys.executable, '-m', 'unittest', 'discover', '-s', self.folder], FROM='7', RUNS='5')
        self.assertEqual((status, len(drawn(text))), (0, 5), text)
        self.assertNotIn('repeat with', text)

    def test_variables_that_are_not_set_are_not_in_the_line(self):
        self.assertEqual(repeat.line('soak', SEED=7, STEPS=None), 'repeat with: SEED=7 soak')


if __name__ == '__main__':
    unittest.main()
