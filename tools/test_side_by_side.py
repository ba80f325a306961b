import json
import os
import subprocess
import sys
import tempfile
import unittest

import side_by_side

HERE = os.path.dirname(os.path.abspath(__file__))
GOOD = """
import os, unittest
class T(unittest.TestCase):
    def test(self):
        self.assertIn(os.environ['INTEROP_PORTS'], ('1/2', '2/2'))
        print('good was here')
"""
BAD = """
import unittest
class T(unittest.TestCase):
    def test(self):
        self.fail('as it should')
"""
# Each waits until the other one is there.
PAIR = """
import os, time, unittest
class T(unittest.TestCase):
    def test(self):
        open(%r, 'w').close()
        until = time.monotonic() + 60
        while not os.path.exists(%r):
            self.assertLess(time.monotonic(), until, 'the other one does not run beside this one')
            time.sleep(0.01)
"""


HANGS = """
import subprocess, time, unittest
class T(unittest.TestCase):
    def test(self):
        with open(%r, 'w') as f:
            f.write(str(subprocess.Popen(['sleep', '1000']).pid))
        time.sleep(1000)
"""


def is_running(pid):
    try:
        with open('/proc/%s/stat' % pid) as state:
            return state.read().rsplit(')', 1)[1].split()[0] != 'Z'
    except FileNotFoundError:
        return False


class SideBySide(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = place.name

    def write(self, name, text):
        with open(os.path.join(self.place, name), 'w') as f:
            f.write(text)

    def play(self, *words):
        times = os.path.join(self.place, 'times.json')
        env = dict(os.environ, INTEROP_TIMES=times)
        words = [sys.executable, os.path.join(HERE, 'side_by_side.py'), '--jobs', '2', *words, self.place]
        done = subprocess.run(words, env=env, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def test_a_module_that_hangs_says_where_and_is_ended_with_what_it_has_started(self):
        path = os.path.join(self.place, 'pid')
        self.write('test_hangs.py', HANGS % path)
        self.write('test_good.py', GOOD)
        status, text = self.play('--limit', '3')
        self.assertEqual((status, text.count('good was here')), (1, 1), text)
        self.assertIn('IT HUNG', text)
        self.assertIn('in test\n', text)
        with open(path) as f:
            self.assertFalse(is_running(f.read()))

    def test_all_modules_run_and_what_they_say_is_shown(self):
        for n in range(5):
            self.write('test_good%d.py' % n, GOOD)
        self.write('helper.py', 'raise SystemError')
        status, text = self.play()
        self.assertEqual((status, text.count('good was here')), (0, 5), text)
        self.assertIn('5 modules in', text)
        with open(os.path.join(self.place, 'times.json')) as f:
            self.assertEqual(len(json.load(f)), 5)

    def test_one_that_fails_is_named_and_the_others_go_on(self):
        self.write('test_a.py', BAD)
        self.write('test_b.py', GOOD)
        status, text = self.play()
        self.assertEqual((status, text.count('good was here')), (1, 1), text)
        self.assertIn('as it should', text)
        self.assertIn('FAILED %s' % os.path.join(self.place, 'test_a.py'), text)

    def test_they_run_at_the_same_time(self):
        a, b = os.path.join(self.place, 'a'), os.path.join(self.place, 'b')
        self.write('test_a.py', PAIR % (a, b))
        self.write('test_b.py', PAIR % (b, a))
        status, text = self.play()
        self.assertEqual(status, 0, text)

    def test_a_directory_without_tests_is_an_error(self):
        status, text = self.play()
        self.assertEqual(status, 2)
        self.assertIn('no test_*.py in %s' % self.place, text)

    def test_those_without_a_time_begin_and_then_the_longest(self):
        times = {'a': 1.0, 'b': 3.0, 'c': 2.0}
        self.assertEqual(side_by_side.in_order(['a', 'b', 'c', 'd'], times), ['d', 'b', 'c', 'a'])

    def test_times_that_cannot_be_read_are_none(self):
        for text in ('', '[]', '{"a": "long"}', '{'):
            self.write('times.json', text)
            self.assertEqual(side_by_side.load(os.path.join(self.place, 'times.json')), {})


if __name__ == '__main__':
    unittest.main()
