"""Children made by fork, and signals of the host."""

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import unittest

import tickcast

import place

TRANSPORTS = ('lbtrm', 'lbtru', 'tcp', 'lbtipc')
TLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', '..', 'crates', 'io', 'net', 'testdata', 'tls')


def exit_status(work):
    """How a child made by fork ends that does `work`."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException as error:  # whatever it is, the child must not go on with the tests
            os.write(2, ('%r\n' % error).encode())
        finally:
            os._exit(status)
    return place.exit_status(child)


class Fork(place.Pair):
    def of(self, transport):
        """A pair on a transport, in place of the one that is there."""
        self.doCleanups()
        settings = dict(place.settings(), transport=transport)
        self.sender, self.hearer = tickcast.Context(**settings), tickcast.Context(**settings)
        self.addCleanup(self.hearer.close)
        self.addCleanup(self.sender.close)
        self.source = self.sender.source(self.topic)
        self.receiver = self.hearer.receiver(self.topic)
        self.drive_until(lambda events: any(event.KIND == 'source' for event in events))
        # Until a connection stands, what is sent is nobody's.
        for _ in range(place.WATCHDOG_S * 100):
            self.source.send(b'hello', flush=True)
            if any(event.KIND == 'message' for event in self.hearer.wait(0.01) + self.sender.wait(0)):
                break
        self.source.send(b'last', flush=True)
        self.drive_until(lambda events: any(event.KIND == 'message' and bytes(event) == b'last' for event in events))

    def exchange(self, count=100):
        """Sends so many messages; they come, and nothing else does."""
        for number in range(count):
            self.source.send(b'%d' % number, flush=True)
        events = self.drive_until(lambda events: len(events) >= count)
        self.assertEqual([bytes(event) for event in events if event.KIND == 'message'], [b'%d' % i for i in range(count)])
        self.assertEqual({event.KIND for event in events}, {'message'})

    def misuse(self):
        calls = [lambda: self.source.send(b'x', flush=True), lambda: self.source.request(b'x'), self.sender.poll,
                 lambda: self.hearer.wait(0), self.hearer.fileno, lambda: self.sender.source('py.other'), self.sender.flush]
        for call in calls:
            try:
                call()
            except tickcast.ForkedError:
                continue
            raise AssertionError('a child may not')

    def test_a_child_is_refused_and_what_it_closes_stays_open_in_its_parent(self):
        def close():
            self.misuse()
            self.source.close()
            self.receiver.close()
            self.sender.close()
            self.hearer.close()
            assert self.sender.is_closed
            del self.source, self.receiver, self.sender, self.hearer
            gc.collect()

        for transport in TRANSPORTS:
            with self.subTest(transport):
                self.of(transport)
                self.exchange()
                self.assertEqual(exit_status(close), 0)
                self.exchange()
                # One that ends as programs do, with what Python does then.
                child = multiprocessing.get_context('fork').Process(target=self.misuse, daemon=True)
                child.start()
                self.exchange()
                child.join(place.WATCHDOG_S)
                self.assertEqual(child.exitcode, 0)
                self.exchange()

    def test_a_child_has_contexts_of_its_own(self):
        for transport in TRANSPORTS:
            with self.subTest(transport):
                self.of(transport)

                def begin_anew():
                    self._cleanups.clear()
                    self.of(transport)
                    self.exchange()

                self.assertEqual(exit_status(begin_anew), 0)
                self.exchange()

    def test_a_child_does_not_wait_for_a_thread_that_has_the_context_in_its_parent(self):
        stop = threading.Event()

        def drive():
            while not stop.is_set():
                self.hearer.wait(0.001)

        driver = threading.Thread(target=drive, daemon=True)
        driver.start()
        try:
            for _ in range(50):
                self.assertEqual(exit_status(lambda: (self.misuse(), self.hearer.close())), 0)
        finally:
            stop.set()
            place.join(driver)

    def test_programs_that_python_starts_get_no_descriptors(self):
        self.of('lbtipc')
        self.sender.source('py.more', transport='lbtrm')
        self.hearer.wait(0)
        listing = "import os; print([os.readlink('/proc/self/fd/' + n) for n in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + n)])"
        found = subprocess.run([sys.executable, '-c', listing], close_fds=False, stdin=subprocess.DEVNULL,
                               capture_output=True, text=True, check=True, timeout=place.WATCHDOG_S).stdout
        for kind in ('socket:', 'LBTIPC', 'anon_inode:[event'):
            self.assertNotIn(kind, found)


class Signals(unittest.TestCase):
    def test_a_publisher_over_tls_outlives_receivers_where_sigpipe_is_not_ignored(self):
        files = {key: os.path.join(TLS, name) for key, name in (
            ('tcp.tls_certificate_file', 'server.pem'), ('tcp.tls_key_file', 'server.key'),
            ('tcp.tls_ca_file', 'ca.pem'))}
        settings = dict(place.settings(), transport='tcp', interface='127.0.0.1', **files)

        def publish():
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            with tickcast.Context(**settings) as sender:
                source = sender.source('py.pipe')
                for _ in range(5):
                    with tickcast.Context(**settings) as hearer:
                        hearer.receiver('py.pipe')
                        events = []
                        while not any(event.KIND == 'message' for event in events):
                            source.send(b'a', flush=True)
                            sender.wait(0.001)
                            events = hearer.wait(0.001)
                    for _ in range(1000):
                        source.send(b'b', flush=True)

        self.assertEqual(exit_status(publish), 0)


if __name__ == '__main__':
    unittest.main()
