"""What was sent arrives, or is told lost, though the context is closed at once."""

import threading
import time
import unittest

import tickcast
from place import WATCHDOG_S, settings

COUNT = 5000
TRANSPORTS = ('lbtrm', 'lbtru', 'tcp', 'lbtipc')
SLOW = {
    'lbtrm.data_rate_limit_bits_per_second': 2000000,
    'lbtrm.retransmit_rate_limit_bits_per_second': 1000000,
}


def place(**more):
    ports = {
        '%s_%s' % (port, end): number
        for port in ('tcp.port', 'lbtru.port', 'lbtru.receiver_port')
        for end, number in (('low', 30000), ('high', 40000))
    }
    return {**settings(), **ports, **more}


class Hearer(threading.Thread):
    """Hears a topic until the end of its stream."""

    def __init__(self, place, topic):
        super().__init__(daemon=True)
        self.context = tickcast.Context(**place)
        self.context.receiver(topic)
        self.met, self.events = threading.Event(), []
        self.start()

    def run(self):
        for event in self.context.events(timeout=WATCHDOG_S):
            self.events.append(event)
            if event.KIND == 'message' and bytes(event) == b'hello':
                self.met.set()
            if event.KIND == 'end':
                break
        self.context.close()

    def account(self):
        """How many numbers were delivered and how many told lost, each in its place, and the end."""
        self.join(WATCHDOG_S)
        delivered, lost, expected = 0, 0, None
        for event in self.events:
            if event.KIND == 'message':
                first, count = event.sqn, 1
                if bytes(event) != b'hello':
                    assert int.from_bytes(bytes(event)[:4], 'big') == delivered + lost, 'in order'
                    delivered += 1
            elif event.KIND == 'loss':
                first, count = event.first, event.count
                lost += count
            else:
                continue
            assert expected in (None, first), (expected, first)
            expected = first + count
        end = self.events[-1]
        assert (end.KIND, end.next, end.is_tail_unknown) == ('end', expected, False), end
        return delivered, lost, end.reason


def meet(context, source, hearer):
    deadline = time.monotonic() + WATCHDOG_S
    while not hearer.met.wait(0.005):
        assert time.monotonic() < deadline, 'they do not meet'
        source.send(b'hello', flush=True)
        context.poll()


class Closing(unittest.TestCase):
    def test_what_was_sent_arrives_or_is_told_lost_when_the_context_is_closed_at_once(self):
        ways = {'closed': tickcast.Context.close, 'deleted': None}
        for transport in TRANSPORTS:
            for way, end in ways.items():
                with self.subTest(transport=transport, way=way):
                    here = place()
                    hearer, context = Hearer(here, 'py.closing'), tickcast.Context(**here)
                    source = context.source('py.closing', transport=transport)
                    meet(context, source, hearer)
                    for number in range(COUNT):
                        source.send(number.to_bytes(4, 'big'), timeout=WATCHDOG_S)
                    if end:
                        self.assertFalse(end(context))
                    del source, context
                    delivered, lost, reason = hearer.account()
                    self.assertEqual((delivered + lost, reason), (COUNT, 'ended'))

    def test_draining_and_closing_say_what_has_not_left(self):
        context = tickcast.Context(**place(**SLOW))
        source = context.source('py.left', transport='lbtrm')
        sent = 0
        with self.assertRaises(tickcast.WouldBlockError):
            while True:
                source.send(bytes(1000))
                sent += 1
        fits = sent
        with self.assertRaises(tickcast.WouldBlockError):
            # There may be room for some of them by now.
            while True:
                source.send(bytes(1000), timeout=0.0001)
                sent += 1
        source.send(bytes(1000), timeout=WATCHDOG_S)
        left = context.drain(0)
        self.assertTrue(left)
        ((session, messages, octets, _),) = left.sessions
        self.assertTrue(session.startswith('LBTRM:'), session)
        self.assertEqual((left.messages, left.bytes), (messages, octets))
        self.assertTrue(0 < messages <= sent and octets > 1000, left)
        self.assertFalse(context.drain(WATCHDOG_S))
        for _ in range(fits // 2):
            source.send(bytes(1000))
        self.assertTrue(context.close(linger=0))
        self.assertFalse(context.close(), 'it is closed')
        with self.assertRaises(tickcast.ClosedError):
            context.drain()

    def test_events_that_come_while_a_send_waits_come_with_the_next_turn(self):
        here = place(**SLOW)
        with tickcast.Context(**here) as context, tickcast.Context(**here) as other:
            context.receiver('py.other')
            back, source = other.source('py.other', transport='tcp'), context.source('py.slow')
            events, deadline = [], time.monotonic() + WATCHDOG_S
            while not any(event.KIND == 'message' for event in events):
                self.assertLess(time.monotonic(), deadline)
                back.send(b'hello', flush=True)
                other.poll()
                events = context.wait(0.01)
            back.send(b'meanwhile', flush=True)
            got = []
            while b'meanwhile' not in got:
                self.assertLess(time.monotonic(), deadline)
                source.send(bytes(60000), timeout=WATCHDOG_S)
                got += [bytes(event) for event in context.poll() if event.KIND == 'message']
            context.close(linger=0)


if __name__ == '__main__':
    unittest.main()
