"""`tickcast watch` as a person and as a script use it."""

import json
import os
import pty
import re
import select
import time
import unittest

import expected
from daemons import binary
from ports import free_ports
from process import ROOT, WATCHDOG_S, wait_until
from system_test import SystemTest


class Watch(SystemTest):
    @classmethod
    def scenario(cls):
        cls.system_ = cls.system()
        cls.demo = cls.system_.demo('--speed', 'max', '--backbone', 'in-process')
        cls.demo.wait_played()

    def watch(self, *options, server=None):
        """(exit status, standard output, standard error)"""
        words = [binary(), 'watch', '--host', server or self.demo.server, *options]
        process = self.system_.process('watch', words)
        return process.wait(), process.out(), process.log()

    def test_on_a_terminal_it_shows_names_and_prices(self):
        terminal = Terminal([binary(), 'watch', '--host', self.demo.server, 'BTCUSDT', 'ETHUSDT'])
        self.addCleanup(terminal.end)
        for text in ('BTCUSDT', 'ETHUSDT', '61685.99', '2682.50'):
            terminal.wait_shows(text)

    def test_on_a_terminal_it_shows_a_book(self):
        terminal = Terminal([binary(), 'watch', '--host', self.demo.server, '--book', 'BTCUSDT'])
        self.addCleanup(terminal.end)
        for text in ('BTCUSDT', 'bids', 'asks', '61686.00'):
            terminal.wait_shows(text)

    def test_ctrl_c_ends_it_with_status_0(self):
        terminal = Terminal([binary(), 'watch', '--host', self.demo.server, 'BTCUSDT'])
        self.addCleanup(terminal.end)
        terminal.wait_shows('61685.99')
        terminal.type(b'\x03')
        self.assertEqual(terminal.wait(), 0)

    def test_a_snapshot_is_the_image_and_the_end(self):
        items = ['%d:%s' % (domain, name) for name, domain in expected.ITEMS]
        status, out, _ = self.watch('--snapshot', '--json', *items)
        self.assertEqual(status, 0)
        lines = [json.loads(line) for line in out.splitlines()]
        finals = {(line['item'], line['domain']): line for line in lines if line['ev'] == 'final'}
        self.assert_final_images(finals)
        self.assertEqual([line for line in lines if line['ev'] == 'update'], [])

    def test_lines_without_a_terminal(self):
        status, out, _ = self.watch('--snapshot', 'BTCUSDT')
        self.assertEqual(status, 0)
        self.assertRegex(out, r'BTCUSDT.*BID=61685\.99')

    def test_an_unknown_item_is_closed_with_not_found_and_the_status_is_1(self):
        status, out, log = self.watch('--snapshot', '--json', 'BTCUSDT', 'NOSUCH')
        self.assertEqual(status, 1)
        closed = [json.loads(line) for line in out.splitlines() if '"NOSUCH"' in line and '"status"' in line]
        codes = [line['state']['code'].lower().replace(' ', '') for line in closed]
        self.assertEqual((codes[-1], closed[-1]['state']['stream']), ('notfound', 'Closed'))
        self.assertIn('NOSUCH', log)
        self.assertNotIn('BTCUSDT', log)

    def test_a_closed_port_is_said_and_the_status_is_1(self):
        server = 'localhost:%d' % free_ports()
        status, out, log = self.watch('--snapshot', '--timeout', '1', 'BTCUSDT', server=server)
        self.assertEqual(status, 1)
        self.assertIn('refused', out + log)
        self.assertIn(server, out + log)

    def test_wrong_usage_is_status_2(self):
        for words in ((), ('--nonsense', 'BTCUSDT'), ('--host', 'a:b:c', 'BTCUSDT')):
            with self.subTest(words=words):
                self.assertEqual(self.watch(*words)[0], 2)


class Terminal:
    """A program on a pseudo-terminal of 120 columns, and all that it has drawn."""

    def __init__(self, words):
        self.raw = b''
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.chdir(ROOT)
            os.environ.update(TERM='xterm', COLUMNS='120', LINES='40')
            os.execv(words[0], words)
        self.status = None

    def wait_shows(self, text):
        said = lambda: '%r on: %s' % (text, self.text()[-2000:])
        wait_until(lambda: self.read() and text in self.text(), said)

    def text(self):
        """Without the sequences that move and colour."""
        return re.sub(r'\x1b\[[0-9;?]*[A-Za-z]', ' ', self.raw.decode('utf-8', 'replace'))

    def type(self, keys):
        os.write(self.descriptor, keys)

    def read(self):
        while select.select([self.descriptor], [], [], 0)[0]:
            try:
                part = os.read(self.descriptor, 1 << 16)
            except OSError:  # the other end is closed
                part = b''
            if not part:
                break
            self.raw += part
        return True

    def wait(self):
        """The exit status."""
        until = time.monotonic() + WATCHDOG_S
        while self.status is None and time.monotonic() < until:
            self.read()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = os.waitstatus_to_exitcode(status) if pid else None
            time.sleep(0.01)
        self.read()
        return self.status

    def end(self):
        if self.status is None:
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)
            self.status = -9
        os.close(self.descriptor)


if __name__ == '__main__':
    unittest.main()
