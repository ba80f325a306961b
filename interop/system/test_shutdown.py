"""The end of connections and of daemons, in order; what is said of health, readiness and to the service manager."""

import ctypes
import os
import signal
import socket
import unittest

import rssl_bytes as rssl
from java_tools import numbered
from process import wait_until
from rssl_clients import RsslConsumer, RsslProvider
from system_test import SystemTest
from test_deaths import Deaths
from test_log import LogTest
from websocket_bytes import JsonClient

OPEN, SUSPECT, GOING_AWAY = 1, 2, 1001
PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17
WAIT_ALL = 0x40000000  # __WALL


class HeldThread:
    """A process whose first thread is stopped, and no other."""

    def __init__(self, pid):
        self.pid, self.libc = pid, ctypes.CDLL(None, use_errno=True)

    def __enter__(self):
        self._ask(PTRACE_SEIZE)
        self._ask(PTRACE_INTERRUPT)
        os.waitpid(self.pid, WAIT_ALL)
        return self

    def __exit__(self, *_):
        self._ask(PTRACE_DETACH)

    def _ask(self, request):
        if self.libc.ptrace(ctypes.c_long(request), self.pid, None, None) < 0:
            raise OSError(ctypes.get_errno(), 'ptrace')


def asked(admin, path):
    """(status, text) of an answer, whatever its status."""
    with admin.connect(admin.port) as connection:
        connection.sendall(b'GET %s HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n' % path.encode())
        answer = b''.join(iter(lambda: connection.recv(65_536), b'')).decode()
    head, _, text = answer.partition('\r\n\r\n')
    return int(head.split()[1]), text


class Logout(LogTest):
    def test_a_logout_is_answered_with_the_end_of_the_stream(self):
        """However much the client has sent behind it: a reset could destroy the last bytes, and SDKs log it."""
        daemon = self.daemon()
        client = RsslConsumer(self.port, 'leaver').wait_count(1, 1)
        client.socket.sendall(rssl.frame(rssl.close(rssl.LOGIN, 1)) + rssl.PING * 60_000)
        client.socket.settimeout(60)
        while client.socket.recv(65_536):
            pass
        client.socket.shutdown(socket.SHUT_WR)
        self.assertEqual(daemon.end(), 0)


class Terminated(SystemTest):
    @classmethod
    def scenario(cls):
        system = cls.system()
        distributor = system.source_distributor(sets=numbered('NI_PUB', 1))
        p2ps = system.p2ps()
        cls.provider = RsslProvider(system.provider_port, 'feed').wait_count(1, 1)
        cls.not_ready = asked(p2ps.admin, '/ready')
        cls.provider.send(rssl.DIRECTORY_REFRESH, rssl.ITEM_REFRESH)
        wait_until(lambda: asked(p2ps.admin, '/ready') == (200, 'ready\n'), 'the P2PS is ready', [p2ps])
        cls.consumer = RsslConsumer(p2ps.port).wait_count(1, 1)
        cls.json = JsonClient(p2ps.websocket_port)
        cls.json.log_in()
        # Says nothing any more, and never ends its side.
        cls.silent = RsslConsumer(p2ps.port).wait_count(1, 1)
        p2ps.child.terminate()
        cls.consumer.wait_end()
        cls.consumer.close()
        cls.json_status = cls.json.wait(lambda m: m['Type'] == 'Status')
        cls.json_code = cls.json.wait_end()
        cls.json.close()
        cls.p2ps_status = p2ps.wait()
        distributor.child.terminate()
        cls.provider.wait_end().close()
        cls.distributor_status = distributor.wait()

    def assert_told(self, client):
        kind, _, _, _, state, *_ = client.of_stream(1)[-1]
        self.assertEqual((kind, list(state)[:2]), ('STATUS', [OPEN, SUSPECT]))

    def test_a_consumer_is_notified_and_its_connection_ended(self):
        self.assert_told(self.consumer)

    def test_a_websocket_client_is_notified_and_told_that_the_server_goes_away(self):
        state = self.json_status['State']
        self.assertEqual((state['Stream'], state['Data'], self.json_code), ('Open', 'Suspect', GOING_AWAY))

    def test_a_provider_is_notified_and_its_connection_ended(self):
        self.assert_told(self.provider)

    def test_the_daemons_end_with_0_though_a_client_stays(self):
        self.assertEqual((self.p2ps_status, self.distributor_status), (0, 0))

    def test_a_server_that_knows_no_service_is_not_ready(self):
        self.assertEqual(self.not_ready, (503, 'no service is known\n'))


class Orderly:
    """Ends a daemon by SIGTERM where others are killed."""

    def __init__(self, daemon):
        self.daemon, self.status = daemon, None

    def kill(self):
        self.status = self.daemon.end()


class Restarted(Deaths):
    """Under load, with an EMA consumer: each server is ended by SIGTERM and started again."""

    @classmethod
    def scenario(cls):
        cls.begin(speed='12')
        cls.ended = Orderly(cls.p2ps), Orderly(cls.distributor)
        cls.play(5_000)
        cls.episode('p2ps', [cls.ended[0]], [cls.p2ps])
        cls.play(1_000)
        cls.episode('distributor', [cls.ended[1]], [cls.distributor])
        cls.play(1_000)
        cls.finish()

    def test_the_servers_end_with_0(self):
        self.assertEqual([ended.status for ended in self.ended], [0, 0])

    def test_clients_are_suspect_until_the_server_is_back_and_everything_is_right_at_the_end(self):
        for name in ('p2ps', 'distributor'):
            self.assert_suspect_then_ok(name)
        self.assert_all_good()

    def test_the_library_has_seen_no_reset(self):
        said = ''.join(client.out() + client.log() + client.tail() for client in self.clients)
        self.assertNotIn('reset', said.lower())


class Twice(LogTest):
    def test_a_second_signal_ends_a_daemon_at_once(self):
        daemon = self.daemon(sets={'p2ps.shutdown_timeout_ms': 600_000})
        client = RsslConsumer(self.port, 'stays').wait_count(1, 1)
        daemon.child.terminate()
        client.wait_end()
        self.assertTrue(daemon.is_running(), 'it waits for the client')
        daemon.child.terminate()
        self.assertEqual(daemon.wait(), -signal.SIGTERM)


class Overdue(LogTest):
    def test_a_daemon_whose_thread_hangs_ends_on_sigterm_all_the_same(self):
        path = os.path.join(self.directory, 'log')
        daemon = self.daemon(sets={'p2ps.shutdown_timeout_ms': 0, 'log.file': path})
        HeldThread(daemon.pid).__enter__()
        daemon.child.terminate()
        self.assertEqual(daemon.wait(), 1)
        with open(path) as f:
            self.assertIn('a thread hangs and holds up the end', f.read())


class Health(LogTest):
    def test_a_thread_that_does_not_turn_is_noticed_and_so_is_that_it_turns_again(self):
        daemon = self.daemon()
        with HeldThread(daemon.pid):
            wait_until(lambda: asked(daemon.admin, '/health')[0] == 503, 'the thread is missed')
            self.assertRegex(asked(daemon.admin, '/health')[1], r'^p2ps has not turned for [0-9.]+ s\n$')
        wait_until(lambda: asked(daemon.admin, '/health') == (200, 'ok\n'), 'it turns again')
        self.assertEqual(daemon.end(), 0)

    def test_a_process_whose_descriptors_strangers_have_taken_answers_its_admin_port_and_says_so(self):
        path = os.path.join(self.directory, 'descriptors.log')
        words = ['sh', '-c', 'ulimit -S -n 64 && ulimit -H -n 128 && exec "$@"', 'sh']
        daemon = self.daemon(sets={'log.file': path}, prefix=words)
        strangers = [socket.create_connection(('127.0.0.1', self.port), 60) for _ in range(128)]
        daemon.wait_count('listener_descriptors_short_total', 16, port='consumer')
        self.assertEqual(asked(daemon.admin, '/health'), (200, 'ok\n'))
        for stranger in strangers:
            stranger.close()
        self.assert_serves(daemon)
        self.assertEqual(daemon.end(), 0)
        with open(path) as f:
            said = f.read()
        self.assertIn('p2ps.rssl.connections_max allow 10000: those beyond are closed unheard', said)
        self.assertIn('limit=128', said)
        self.assertEqual(said.count('closed unheard: of the 128 descriptors'), 1)

    def test_a_service_that_is_not_served_is_named(self):
        distributor = self.daemon('source-distributor', sets=numbered('NI_PUB', 1))
        provider = RsslProvider(self.port, 'feed').wait_count(1, 1)
        provider.send(rssl.DIRECTORY_REFRESH)
        wait_until(lambda: (distributor.status() or {}).get('services'), 'the service is known')
        wait_until(lambda: asked(distributor.admin, '/ready') == (200, 'ready\n'), 'the service is up')
        provider.close()
        down = 503, 'service NI_PUB is not served\n'
        wait_until(lambda: asked(distributor.admin, '/ready') == down, 'the service is down')
        self.assertEqual(distributor.end(), 0)


    def test_a_daemon_that_shuts_down_is_not_ready(self):
        daemon = self.daemon('source-distributor', sets={'source_distributor.shutdown_timeout_ms': 600_000})
        # It stays until it is told to go, and that holds up the end.
        provider = RsslProvider(self.port, 'feed').wait_count(1, 1)
        self.assertEqual(asked(daemon.admin, '/ready'), (200, 'ready\n'))
        daemon.child.terminate()
        ending = 503, 'it is shutting down\n'
        wait_until(lambda: asked(daemon.admin, '/ready') == ending, 'it is not ready', [daemon])
        self.assertEqual(asked(daemon.admin, '/health'), (200, 'ok\n'))
        provider.close()
        self.assertEqual(daemon.wait(), 0)


class ServiceManager(LogTest):
    def test_systemd_is_told_that_a_daemon_is_ready_lives_and_stops(self):
        path = os.path.join(self.directory, 'notify')
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(path)
            manager.settimeout(60)
            words = ['env', 'NOTIFY_SOCKET=' + path, 'WATCHDOG_USEC=300000']
            daemon = self.daemon(prefix=words)
            self.assertEqual(manager.recv(100), b'READY=1')
            self.assertEqual(manager.recv(100), b'WATCHDOG=1')
            daemon.child.terminate()
            said = iter(lambda: manager.recv(100), b'STOPPING=1')
            self.assertLessEqual(set(said), {b'WATCHDOG=1'})
            self.assertEqual(daemon.wait(), 0)


if __name__ == '__main__':
    unittest.main()
