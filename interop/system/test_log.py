"""Logs: one that is full, closed or stalled never stops a server; rotation, reload, JSON, repeated lines."""

import contextlib
import glob
import json
import os
import signal
import unittest
from unittest import mock

import rssl_bytes as rssl
from daemons import Daemon, binary
from metrics import Admin
from ports import free_ports
from process import ROOT, wait_until
from rssl_clients import RsslConsumer
from system_test import SystemTest

# Each writes two lines or more: far more than a pipe (64 KiB) and the queue below hold.
MANY = 1500
UNLIMITED = {'log.repeats_max': 1_000_000, 'log.queue_bytes': 65_536}
SOME = 300


class Logging(Daemon):
    """A daemon whose standard error is what the test says: a path, a descriptor, or None for closed."""

    def __init__(self, name, words, directory, admin, stderr):
        self.stderr = stderr
        super().__init__(name, words, directory, admin)

    def open_log(self, path):
        if self.stderr is None:
            return open(path, 'wb')
        if isinstance(self.stderr, int):
            return os.fdopen(os.dup(self.stderr), 'wb')
        return open(self.stderr, 'wb')


class LogTest(SystemTest):
    def daemon(self, role='p2ps', stderr='/dev/null', sets=(), config=None, more=(), prefix=()):
        system, admin_port = self.system(), free_ports()
        self.port = free_ports()
        values = {'admin.port': admin_port, **dict(sets)}
        if role in ('p2ps', 'source-distributor'):
            values.update(system.place.sets(None))
            values['messaging.interface'] = '127.0.0.1'
        if role == 'p2ps':
            values.update({'p2ps.rssl_port': self.port, 'p2ps.websocket_port': 0})
        elif role == 'source-distributor':
            values['source_distributor.provider_port'] = self.port
        elif role == 'resolver':
            values.update({'resolver.interface': '127.0.0.1', 'resolver.port': self.port})
        words = [*prefix, binary(), role, *(['--config', config] if config else []), *more]
        for key, value in values.items():
            words += ['--set', '%s=%s' % (key, value)]
        admin = Admin(admin_port, lambda port: system.place.connect(None, port))
        daemon = Logging('logging', words, self.directory, admin, stderr)
        self.keep(daemon)
        return daemon

    def come_and_go(self, count):
        """Clients that connect and go; each is in the log."""
        for _ in range(count):
            client = RsslConsumer(self.port, 'passer')
            client.wait_count(1, 1).close()

    def assert_serves(self, daemon):
        RsslConsumer(self.port, 'last').wait_count(1, 1).close()
        self.assertTrue(daemon.is_running())


class NeverInTheWay(LogTest):
    def test_a_full_standard_error_stops_nothing_and_what_is_lost_is_counted(self):
        daemon = self.daemon(stderr='/dev/full')
        self.come_and_go(20)
        self.assert_serves(daemon)
        daemon.wait_count('log_lines_lost_total', 20)
        self.assertEqual(daemon.end(), 0)

    def test_a_standard_error_whose_reader_is_gone_stops_nothing(self):
        reader, writer = os.pipe()
        daemon = self.daemon(stderr=writer)
        os.close(writer)
        os.close(reader)
        self.come_and_go(20)
        self.assert_serves(daemon)
        daemon.wait_count('log_lines_lost_total', 20)
        self.assertEqual(daemon.end(), 0)

    def test_a_closed_standard_error_stops_nothing(self):
        daemon = self.daemon(prefix=['sh', '-c', 'exec "$@" 2>&-', 'sh'])
        self.come_and_go(20)
        self.assert_serves(daemon)
        self.assertEqual(daemon.end(), 0)

    def test_a_stalled_pipe_stops_nothing_and_the_log_says_what_it_lost_when_it_goes_on(self):
        reader, writer = os.pipe()
        daemon = self.daemon(stderr=writer, sets=UNLIMITED)
        os.close(writer)
        with contextlib.closing(os.fdopen(reader, 'rb')) as pipe:
            self.come_and_go(MANY)
            self.assert_serves(daemon)
            daemon.wait_count('log_lines_lost_total', 1)
            lines = iter(pipe.readline, b'')
            self.assertTrue(any(b'lines of the log were lost' in line for line in lines))
            daemon.child.send_signal(signal.SIGTERM)
            self.assertTrue(all(line.endswith(b'\n') for line in lines), 'to the end, in whole lines')
        self.assertEqual(daemon.wait(), 0)

    def test_a_stalled_pipe_does_not_hold_up_the_end(self):
        reader, writer = os.pipe()
        daemon = self.daemon(stderr=writer, sets=UNLIMITED)
        os.close(writer)
        self.addCleanup(os.close, reader)
        self.come_and_go(MANY)
        self.assertEqual(daemon.end(), 0)

    def test_every_daemon_takes_a_full_standard_error_and_hang_ups(self):
        feed = sorted(glob.glob(os.path.join(ROOT, 'data', 'binance', '*.zst')))[:1]
        for role, more in (('source-distributor', ()), ('resolver', ()), ('feed', feed)):
            with self.subTest(role=role):
                daemon = self.daemon(role, stderr='/dev/full', more=more)
                daemon.child.send_signal(signal.SIGHUP)
                daemon.wait_count('log_reloads_total', 1)
                self.assertEqual(daemon.end(), 0)

    def test_the_demo_takes_a_full_standard_error_and_hang_ups(self):
        demo = self.system().demo('--backbone', 'in-process')
        demo.child.send_signal(signal.SIGHUP)
        demo.wait_count('log_reloads_total', 1)
        self.assertEqual(demo.end(), 0)


class Repeats(LogTest):
    def test_a_repeated_line_is_limited_and_the_log_says_how_often_it_was_left_out(self):
        path = os.path.join(self.directory, 'repeats.json')
        limits = {'log.repeats_max': 10, 'log.repeats_interval_ms': 3_600_000}
        daemon = self.daemon(sets={'log.file': path, 'log.format': 'json', **limits})
        self.come_and_go(SOME)
        self.assertGreaterEqual(daemon.metrics()['log_lines_suppressed_total'], 2 * (SOME - 10) - 1)
        self.assertEqual(daemon.end(), 0)
        with open(path) as f:
            events = [json.loads(line) for line in f]
        messages = [event['fields']['message'] for event in events]
        self.assertEqual(messages.count('client connected'), 10)
        self.assertIn('%d more suppressed: client connected' % (SOME - 10), messages)

    def test_a_peer_cannot_make_up_lines(self):
        path = os.path.join(self.directory, 'lines')
        daemon = self.daemon(sets={'log.file': path})
        honest = rssl.connect_request()
        with mock.patch.object(rssl, 'connect_request', lambda **_: honest.replace(b'host', b'h\nst')):
            RsslConsumer(self.port, 'user').wait_count(1, 1).close()
        self.assertEqual(daemon.end(), 0)
        with open(path) as f:
            lines = f.readlines()
        self.assertTrue(all(line.startswith('20') for line in lines), lines)
        self.assertIn('h\\nst', ''.join(lines))


class Reload(LogTest):
    def test_a_hang_up_reopens_the_file_and_puts_the_level_in_force(self):
        path, config = os.path.join(self.directory, 'log'), os.path.join(self.directory, 'p2ps.toml')
        self.write(config, '[log]\nfile = "%s"\nlevel = "warn"\n' % path)
        daemon = self.daemon(config=config)
        self.come_and_go(1)
        self.assertNotIn('client connected', self.read(path))
        os.rename(path, path + '.1')
        self.write(config, '[log]\nfile = "%s"\nlevel = "info"\n[p2ps]\nname = "other"\n' % path)
        self.hang_up(daemon)
        self.come_and_go(1)
        wait_until(lambda: 'client connected' in self.read(path), 'the new file and level')
        said = self.read(path)
        self.assertIn('wait for a restart', said)
        self.assertIn('p2ps.name', said)
        self.bad_configurations(daemon, path, config)
        self.assertEqual(daemon.end(), 0)

    def bad_configurations(self, daemon, path, config):
        """Neither is put in force; the log goes on."""
        texts = '[log]\nlevle = "x"\n', '[log]\nfile = "/nonexistent/log"\n'
        for failures, text in enumerate(texts, 1):
            self.write(config, text)
            daemon.child.send_signal(signal.SIGHUP)
            daemon.wait_count('log_reload_failures_total', failures)
            self.assert_serves(daemon)
        wait_until(lambda: '/nonexistent/log' in self.read(path), 'it is said in the log in use')

    def test_a_reload_that_cannot_be_read_says_one_line_and_hang_ups_and_the_end_are_heard_still(self):
        path, config = os.path.join(self.directory, 'pipe.log'), os.path.join(self.directory, 'pipe.toml')
        fine = '[log]\nfile = "%s"\n' % path
        self.write(config, fine)
        daemon = self.daemon(config=config)
        os.unlink(config)
        os.mkfifo(config)
        daemon.child.send_signal(signal.SIGHUP)
        daemon.wait_count('log_reload_failures_total', 1)
        wait_until(lambda: 'it is no regular file' in self.read(path), 'it is said')
        os.unlink(config)
        for failures, (text, said) in enumerate(
            [
                ('[log]\nfile = "%s"\nlevel = "loud"\n' % path, '`loud` is not understood'),
                ('[log]\nfile = "%s"\n' % self.directory, 'the log stays where it is'),
            ],
            2,
        ):
            self.write(config, text)
            daemon.child.send_signal(signal.SIGHUP)
            daemon.wait_count('log_reload_failures_total', failures)
            wait_until(lambda: said in self.read(path), 'it is said')
        self.assertNotIn('opened anew', self.read(path))
        self.write(config, fine)
        self.hang_up(daemon)
        wait_until(lambda: 'opened anew' in self.read(path), 'the log is opened anew')
        self.assertEqual(self.read(path).count('SIGHUP'), 4)
        os.unlink(config)
        os.mkfifo(config)
        daemon.child.send_signal(signal.SIGHUP)
        self.assertEqual(daemon.end(), 0)

    @staticmethod
    def hang_up(daemon):
        daemon.child.send_signal(signal.SIGHUP)
        daemon.wait_count('log_reloads_total', 1)

    @staticmethod
    def write(path, text):
        with open(path, 'w') as f:
            f.write(text)

    @staticmethod
    def read(path):
        with open(path) as f:
            return f.read()


if __name__ == '__main__':
    unittest.main()
