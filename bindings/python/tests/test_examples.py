"""The examples, as processes; and the types, as a checker reads them."""

import os
import subprocess
import sys
import unittest

import place


class Examples(unittest.TestCase):
    def test_publish_and_subscribe(self):
        words = place.words(place.settings())
        lines = []
        # Each starts when the machine lets it: a subscriber may miss a publisher altogether, or hear nothing but its end.
        for _ in range(10):
            subscriber = place.Example('subscribe', 'py.example', *words)
            while not subscriber.is_over():
                place.Example('publish', 'py.example', '20', *words).end()
            lines = subscriber.end().splitlines()
            if lines:
                break
        # One that comes late misses the beginning.
        self.assertGreater(len(lines), 0)
        self.assertEqual(lines, ['%d message %d' % (i, i) for i in range(20 - len(lines), 20)])

    def test_request_and_response(self):
        words = place.words(place.settings())
        responder = place.Example('respond', 'py.question', *words)
        for text in ('what time is it', 'stop'):
            self.assertEqual(place.Example('request', 'py.question', text, *words).end(), text + '\n')
        responder.end()


class Types(unittest.TestCase):
    def test_the_stubs_describe_what_is_there_and_the_examples_are_typed_well(self):
        check = [sys.executable, '-m', 'mypy.stubtest', 'tickcast', '--ignore-missing-stub', '--ignore-disjoint-bases']
        result = subprocess.run(check, capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        examples = [os.path.join(place.EXAMPLES, name) for name in os.listdir(place.EXAMPLES) if name.endswith('.py')]
        for example in examples:
            check = [sys.executable, '-m', 'mypy', '--cache-dir', os.devnull, '--strict-equality', example]
            result = subprocess.run(check, capture_output=True, text=True)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


if __name__ == '__main__':
    unittest.main()
