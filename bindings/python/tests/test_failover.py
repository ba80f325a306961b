"""Hot failover: several sources send the same numbered messages, the first copy of each is heard."""

import unittest

import place
import tickcast


class Failover(unittest.TestCase):
    def setUp(self):
        settings = place.settings()
        self.contexts = [tickcast.Context(**settings) for _ in range(3)]
        for context in self.contexts:
            self.addCleanup(context.close)
        self.hearer = self.contexts[2]
        self.sources = [context.source('py.failover') for context in self.contexts[:2]]
        self.plain = self.hearer.receiver('py.failover')
        self.merged = self.hearer.prefix_receiver('py.fail', hot_failover=True)
        self.events = []
        self.drive_until(lambda: self.count('source') == 4)

    def drive_until(self, is_enough):
        for _ in range(place.WATCHDOG_S * 100):
            for context in (context for context in self.contexts if not context.is_closed):
                self.events += context.wait(0.003)
            if is_enough():
                return
        raise AssertionError('never came; events: %s' % self.events)

    def count(self, kind):
        return sum(event.KIND == kind for event in self.events)

    def heard(self, receiver):
        """Numbers of the messages of a receiver, each with the rest of it as it must be."""
        messages = [e for e in self.events if e.KIND == 'message' and e.receiver_id == receiver.id]
        for message in messages:
            self.assertEqual((bytes(message), message.topic), (b'%d' % message.number, 'py.failover'))
        return [message.number for message in messages]

    def send(self, source, number):
        source.send_hot_failover(number, b'%d' % number, flush=True)

    def test_the_first_copy_of_each_message_is_heard_in_order_and_each_copy_by_others(self):
        for number in range(2**40, 2**40 + 20):
            for source in self.sources:
                self.send(source, number)
        self.drive_until(lambda: len(self.heard(self.plain)) == 40)
        self.assertEqual(self.heard(self.merged), list(range(2**40, 2**40 + 20)))

    def test_what_no_source_has_is_told_and_numbers_may_begin_anew(self):
        for source in self.sources:
            self.send(source, 1)
        late = self.contexts[0].source('py.failover')
        self.drive_until(lambda: self.count('source') == 6)
        # Nobody knows what a source that has just begun had before: the others may still bring it.
        self.send(late, 12)
        self.drive_until(lambda: 12 in self.heard(self.plain))
        self.assertEqual(self.heard(self.merged), [1])
        # Its message is still to be delivered, and knows its topic, when the source has ended.
        late.close()
        self.contexts[0].close()
        self.drive_until(lambda: self.count('end') == 4)
        loss, message = self.merged.restart_hot_failover()
        self.assertEqual((loss.KIND, loss.receiver_id, loss.topic), ('failover_loss', self.merged.id, 'py.failover'))
        self.assertEqual((loss.first, loss.count, message.number, message.topic), (2, 10, 12, 'py.failover'))
        self.send(self.sources[1], 5)
        self.drive_until(lambda: self.heard(self.merged) == [1, 5])

    def test_a_number_that_is_none_is_refused_and_plain_messages_have_none(self):
        for number in (-1, 2**64):
            with self.assertRaises(OverflowError):
                self.sources[0].send_hot_failover(number, b'')
        self.sources[0].send(b'plain', flush=True)
        self.drive_until(lambda: self.count('message') == 1)
        (message,) = (event for event in self.events if event.KIND == 'message')
        self.assertEqual((message.receiver_id, message.number), (self.plain.id, None))


if __name__ == '__main__':
    unittest.main()
