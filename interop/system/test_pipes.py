"""Commands whose reader goes away, as `| head -1` does: they end with status 0 and say nothing about it."""

import os
import subprocess
import unittest

from daemons import binary
from ports import free_ports
from process import ROOT, WATCHDOG_S

PORT = free_ports(16)
PORTS = ['--rssl-port', PORT, '--provider-port', PORT + 1, '--admin-port', PORT + 2, '--websocket-port', PORT + 3]
MESSAGING = ['--set', 'messaging.interface=127.0.0.1', '--set', 'messaging.ttl=0', '--set',
             'messaging.resolver.multicast_port=%d' % (PORT + 4)]
COMMANDS = (
    ['--help'],
    ['--version'],
    ['p2ps', '--help'],
    ['config', 'reference'],
    ['config', 'show'],
    ['config', 'show', '--json'],
    ['config', 'check', 'examples/p2ps.toml'],
    ['counters'],
    ['counters', '--json'],
    ['bench', 'rwf', '--runs', '1', '--seconds', '0.01'],
    ['bench', 'rwf', '--runs', '1', '--seconds', '0.01', '--json'],
    ['demo', '--backbone', 'in-process', *PORTS],
)


def run(words, stdout, stderr=subprocess.PIPE):
    words = [binary(), *map(str, words)]
    return subprocess.run(words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, timeout=WATCHDOG_S)


def without_reader():
    """A pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, 'wb')


class Pipes(unittest.TestCase):
    def test_every_command_ends_quietly_when_nobody_reads_its_output(self):
        for words in COMMANDS:
            with self.subTest(words=words), without_reader() as out:
                done = run(words, out)
                self.assertEqual((done.returncode, done.stderr), (0, b''))

    def test_watch_and_sub_end_quietly_when_nobody_reads_their_output(self):
        """Of them what they say of themselves goes to standard error; nothing of it is about the pipe."""
        words = [binary(), 'demo', '--backbone', 'in-process', '--loop', *map(str, PORTS)]
        with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as demo:
            try:
                with without_reader() as out:
                    done = run(['watch', '--host', 'localhost:%d' % PORT, '--json', 'BTCUSDT'], out)
                self.assertEqual((done.returncode, done.stderr), (0, b''))
            finally:
                demo.terminate()
        words = [binary(), 'pub', 'pipes', '--text', 'x', '--count', '1000000', '--rate', '100', *MESSAGING]
        with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as publisher:
            try:
                with without_reader() as out:
                    done = run(['sub', 'pipes', *MESSAGING], out)
                self.assertEqual(done.returncode, 0)
                self.assertNotIn(b'panic', done.stderr)
                self.assertNotIn(b'Broken', done.stderr)
            finally:
                publisher.terminate()

    def test_what_people_are_told_may_find_no_reader_either(self):
        with without_reader() as nobody:
            self.assertEqual(run(['config', 'check', '/nonexistent'], subprocess.DEVNULL, nobody).returncode, 2)

    def test_output_that_cannot_be_written_is_a_failure(self):
        with open('/dev/full', 'wb') as full:
            done = run(['config', 'reference'], full)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b'cannot write to standard output', done.stderr)


if __name__ == '__main__':
    unittest.main()
