"""What keeps a test's traffic apart from that of others on this host."""

import itertools
import os
import signal
import subprocess
import sys
import time
import unittest

import tickcast

WATCHDOG_S = 60
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'examples')
_places = itertools.count(1)


def settings():
    """Groups and ports of a place of its own."""
    port, place = 20000 + os.getpid() % 10000, next(_places)
    return {
        'resolver.multicast_address': '239.255.97.%d' % place,
        'resolver.multicast_port': port,
        'lbtrm.multicast_address': '239.255.98.%d' % place,
        'lbtrm.destination_port': port,
        'lbtrm.source_port_low': 30000,
        'lbtrm.source_port_high': 40000,
        'request_tcp_port_low': 30000,
        'request_tcp_port_high': 40000,
    }


def words(settings):
    return ['%s=%s' % item for item in settings.items()]


def exit_status(child):
    """How a child made by fork has ended. One that hangs is killed, and says so."""
    for _ in range(3 * WATCHDOG_S * 100):
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError('child %d hangs' % child)


def join(thread):
    """Waits for a thread; one that hangs fails the test. It is to be a daemon: else Python would wait for it at its end."""
    assert thread.daemon
    thread.join(WATCHDOG_S)
    if thread.is_alive():
        raise AssertionError('%s hangs' % thread)


class Example:
    """An example in Python, as a process."""

    def __init__(self, name, *arguments):
        path = os.path.join(EXAMPLES, name + '.py')
        command = [sys.executable, '-u', path, *arguments]
        self.deadline = time.monotonic() + WATCHDOG_S
        self.child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def is_over(self):
        """Whether it has ended by itself. One that has run too long is ended, which `end` then tells."""
        if time.monotonic() > self.deadline:
            self.child.kill()
        return self.child.poll() is not None

    def end(self):
        """What it wrote, when it has ended by itself."""
        try:
            out, errors = self.child.communicate(timeout=WATCHDOG_S)
        finally:
            if self.child.poll() is None:
                self.child.kill()
                self.child.communicate()
        if self.child.returncode != 0:
            raise AssertionError('exit status %d: %s%s' % (self.child.returncode, out, errors))
        return out


class Pair(unittest.TestCase):
    """A context that publishes `topic` and one that receives it, which have found each other."""

    topic = 'py.pair'

    def setUp(self):
        place = settings()
        self.sender, self.hearer = tickcast.Context(**place), tickcast.Context(**place)
        self.addCleanup(self.hearer.close)
        self.addCleanup(self.sender.close)
        self.source = self.sender.source(self.topic)
        self.receiver = self.hearer.receiver(self.topic)
        self.drive_until(lambda events: any(event.KIND == 'source' for event in events))

    def drive_until(self, is_enough):
        """Events of the receiving context until they are enough."""
        events = []
        for _ in range(WATCHDOG_S * 100):
            events += self.hearer.wait(0.005)
            events += self.sender.wait(0.005)
            if is_enough(events):
                return events
        raise AssertionError('never came; events: %s' % events)

    def messages(self, count):
        is_message = lambda event: event.KIND == 'message'
        events = self.drive_until(lambda events: sum(map(is_message, events)) >= count)
        return list(filter(is_message, events))
